//! Options: what they take, what they refuse, and how they are shown.

use super::{command, end, tessera};

#[test]
fn factors_that_the_type_does_not_hold_are_refused() {
    for name in ["--alpha", "--beta"] {
        for command in ["run", "bench", "sweep"] {
            let refused = |value: &str, dtype: &str, words: &[&str]| {
                let sizes: &[&str] =
                    if command == "sweep" { &["--sizes", "8"] } else { &["-n", "8"] };
                let args = [&[command][..], sizes, &[name, value, "--dtype", dtype]].concat();
                tessera(&args).refused(2, &[words, &[name]].concat());
            };
            refused("1e39", "f32", &["1e39", "beyond the largest f32, 3.4"]);
            refused("-1e39", "bf16", &["-1e39", "f32"]);
            refused("1e-50", "f32", &["1e-50", "nearer to 0 than every f32"]);
            refused("1e400", "f64", &["1e400", "beyond the largest f64"]);
            refused("1e-400", "f64", &["1e-400", "nearer to 0"]);
        }
    }
    tessera(&["-n", "8", "--kernel", "serial", "--dtype", "f64", "--alpha", "1e39"]).fine();
}

#[test]
fn the_formula_is_written_as_by_hand() {
    let first = |args: &[&str]| {
        let text = tessera(&[&["-n", "8", "--kernel", "serial"], args].concat()).fine();
        text.lines().next().and_then(|line| line.split(", 8 x 8").next()).map(str::to_owned)
    };
    let written = |formula: &str| Some(formula.to_owned());
    assert_eq!(first(&["--dtype", "f64", "--alpha", "1e39"]), written("C = 1e39 A B"));
    assert_eq!(first(&["--alpha", "2"]), written("C = 2 A B"));
    let both = first(&["--alpha", "1.5", "--beta", "-0.5"]);
    assert_eq!(both, written("C = 1.5 A B - 0.5 C"));
}

#[test]
fn threads_have_a_limit_and_are_no_cores() {
    fn line<'a>(args: &[&'a str]) -> Vec<&'a str> {
        [&["-n", "8", "--kernel", "serial"], args].concat()
    }
    for (value, word) in [("0", "from 1 to"), ("100000", "from 1 to"), ("4000000000", "from 1 to")]
    {
        tessera(&line(&["--threads", value])).refused(2, &[value, word]);
    }
    let text = tessera(&line(&["--threads", "5"])).fine();
    assert!(text.lines().nth(1).is_some_and(|line| line.contains(", 5 threads on ")), "{text}");
    let text = tessera(&line(&["--threads", "1"])).fine();
    assert!(text.lines().nth(1).is_some_and(|line| line.contains(", 1 thread on ")), "{text}");
    for value in ["-1", "abc", "18446744073709551616", "100000"] {
        let ended = end(command(&line(&[])).env("RAYON_NUM_THREADS", value));
        ended.refused(2, &["RAYON_NUM_THREADS", value, "from 1 to", "unset it"]);
        let both = line(&["--threads", "1"]);
        end(command(&both).env("RAYON_NUM_THREADS", value)).refused(2, &["RAYON_NUM_THREADS"]);
    }
    for value in ["", "0"] {
        end(command(&line(&[])).env("RAYON_NUM_THREADS", value)).fine();
    }
    let bench = ["bench", "-n", "8", "--kernel", "serial", "--time", "0.01", "--threads", "1"];
    let text = tessera(&bench).fine();
    assert!(text.contains("1 CPU thread;"), "{text}");
}

#[test]
fn tables_have_the_lines_that_the_locale_knows() {
    let shown = |name: &str, locale: &str| {
        let mut command = command(&["tiles"]);
        end(command
            .env_remove("LC_ALL")
            .env_remove("LC_CTYPE")
            .env_remove("LANG")
            .env(name, locale))
        .fine()
    };
    for name in ["LC_ALL", "LC_CTYPE", "LANG"] {
        assert!(shown(name, "C").is_ascii(), "{name}");
        assert!(shown(name, "en_US.UTF-8").contains('│'), "{name}");
    }
    let mut command = command(&["-n", "8", "--kernel", "serial"]);
    let ended = end(command.env("LC_ALL", "POSIX")).fine();
    assert!(ended.is_ascii() && ended.contains("+==="), "{ended}");
}

#[cfg(target_os = "linux")]
#[test]
fn words_that_cannot_be_written_are_no_success() {
    for args in [&["--help"][..], &["--version"], &["bench", "--help"], &["list"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("there is one");
        let ended = end(command(args).stdout(full));
        ended.refused(2, &["cannot write to standard output", "No space left on device"]);
    }
}

#[test]
fn numbers_that_mean_nothing_are_refused_in_words() {
    for (line, words) in [
        ("bench --rounds 0", &["'0'", "number of rounds"][..]),
        ("demo --tile 0", &["'0'", "tile's width"]),
        ("bench --ragged 99999999999", &["99999999999", "from 0 to"]),
        ("--budget inf", &["inf", "above 0 and up to 1e9"]),
        ("--budget 1e300", &["1e300", "up to 1e9"]),
        ("bench --time 0", &["'0'", "--time", "a time is"]),
        ("bench --peers --idle-wait 1e300", &["1e300", "up to 1e9"]),
        ("--kernel ,", &["','", "names no implementation"]),
    ] {
        tessera(&line.split(' ').collect::<Vec<_>>()).refused(2, words);
    }
    for command in ["run", "bench", "sweep", "accuracy"] {
        tessera(&[command, "--kernel", ""]).refused(2, &["''", "names no implementation"]);
    }
}
