//! What the program leaves behind: whole files, and nothing else.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{command, end, tessera};

/// The names in a folder, hidden ones among them.
fn listed(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("listed");
    entries.map(|entry| entry.expect("listed").file_name().into()).collect()
}

/// A sweep that has written its first row and is at work on one that takes minutes; the picture that it
/// is to draw was prepared before.
fn at_work(folder: &Path) -> Child {
    let line =
        "sweep --sizes 8,2500 --kernel serial --threads 1 --budget 3600 --check none --svg s.svg";
    let told = command(&line.split(' ').collect::<Vec<_>>());
    // In a shell's background and under nohup the tests ignore some of the signals, and so would it.
    let mut child = Command::new("env");
    child.arg("--default-signal=INT,TERM,HUP").arg(told.get_program()).args(told.get_args());
    for (name, value) in told.get_envs() {
        match value {
            Some(value) => child.env(name, value),
            None => child.env_remove(name),
        };
    }
    let mut child = child
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let rows = BufReader::new(child.stdout.take().expect("a pipe"));
    let first =
        rows.lines().map(|line| line.expect("text")).find(|line| line.starts_with("8,serial"));
    assert!(first.is_some(), "no first row");
    child
}

/// Whatever ends a command, it leaves no file that nobody asked for.
#[test]
fn a_command_that_is_stopped_leaves_nothing() {
    for signal in ["INT", "TERM", "HUP", "KILL"] {
        let folder = TempDir::new().expect("a folder");
        let mut child = at_work(folder.path());
        let pid = child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().expect("kill starts");
        assert!(sent.success());
        assert_eq!(child.wait().expect("it ends").code(), None, "{signal}");
        assert_eq!(listed(folder.path()), [] as [&Path; 0], "{signal}");
    }
}

#[test]
fn a_replaced_file_keeps_its_mode_and_its_links() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let run = || end(command(&["-n", "8", "--out", "link.json"]).current_dir(folder.path())).fine();
    symlink("run.json", path("link.json")).expect("linked");
    // The link leads nowhere at first.
    run();
    assert!(path("link.json").is_symlink() && path("run.json").is_file());
    fs::set_permissions(path("run.json"), fs::Permissions::from_mode(0o600)).expect("set");
    fs::write(path("run.json"), "old").expect("written");
    run();
    let mode = fs::metadata(path("run.json")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(fs::read_to_string(path("run.json")).expect("read").starts_with('{'));
    let mut names = listed(folder.path());
    names.sort();
    assert_eq!(names, ["link.json", "run.json"].map(PathBuf::from));
}

#[test]
fn one_file_is_not_written_twice() {
    let folder = TempDir::new().expect("a folder");
    let name = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let sweep = ["sweep", "--sizes", "8", "--kernel", "serial", "--out", &name("s.csv"), "--svg"];
    let beside = name("./s.csv");
    tessera(&[&sweep[..], &[&beside]].concat()).refused(2, &["--out and --svg name one file"]);
    tessera(&["-n", "8", "--out", &name("a"), "--out", &name("a")]).refused(2, &["twice"]);
    assert_eq!(listed(folder.path()), [] as [&Path; 0]);
    tessera(&[&sweep[..], &[&name("s.svg")]].concat()).fine();
}

#[test]
fn a_dash_is_no_file() {
    let folder = TempDir::new().expect("a folder");
    let run = |out: &str| end(command(&["-n", "8", "--out", out]).current_dir(folder.path()));
    run("-").refused(2, &["standard output", "./-"]);
    assert_eq!(listed(folder.path()), [] as [&Path; 0]);
    run("./-").fine();
    assert_eq!(listed(folder.path()), [Path::new("-")]);
}

/// A disk that gets full is named, the file that is there stays, and the result is printed instead.
#[cfg(target_os = "linux")]
#[test]
fn a_write_that_fails_names_its_file_once() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("run.json");
    fs::write(&path, "old").expect("written");
    let mut shell = Command::new("sh");
    // The limit ends a program by a signal unless that is ignored.
    shell.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" -n 8 --out run.json"]);
    shell.arg(super::program()).current_dir(folder.path());
    shell.env("TESSERA_LIBCUDA", "/nonexistent");
    let ended = end(&mut shell);
    assert_eq!(ended.code, Some(2), "{ended}");
    let said = "error: cannot write run.json: File too large (os error 27)";
    assert!(ended.stderr.contains(said), "{ended}");
    // What was measured is not lost.
    let document: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(document["problem"]["m"], 8, "{ended}");
    assert_eq!(ended.stderr.matches("os error").count(), 1, "{ended}");
    assert_eq!(fs::read_to_string(&path).expect("read"), "old");
    assert_eq!(listed(folder.path()), [Path::new("run.json")]);
}
