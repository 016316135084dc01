//! `sanitize`.

use super::tessera;

#[test]
fn kernels_are_examined_and_counted() {
    let text = tessera(&["sanitize", "--kernel", "tiled8,tensor_split_64x64", "--dtype", "f16"]);
    let text = text.fine();
    let line = |id: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{id}: ")));
        line.map(str::to_owned).unwrap_or_default()
    };
    assert_eq!(line("tiled8"), "tiled8: has no such product", "{text}");
    let split = line("tensor_split_64x64");
    assert!(split.starts_with("tensor_split_64x64: 5 products in 30 runs, "), "{text}");
    assert!(split.ends_with(" s: nothing found"), "{text}");
}

/// Every kernel with all its types, in all fixed orders of events and a random one.
#[test]
#[ignore = "minutes: `cargo xtask emulator-suites` runs it"]
fn nothing_is_found_in_any_kernel() {
    let text = tessera(&["sanitize", "--seeds", "1"]).fine();
    for line in text.lines() {
        assert!(
            line.ends_with(": nothing found") || line.ends_with(": has no such product"),
            "{line}"
        );
    }
    assert!(text.lines().count() > 20, "{text}");
}

#[test]
fn one_product_runs_in_the_orders_that_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.jsonl");
    let product = [
        "sanitize",
        "--kernel",
        "tensor_64x128",
        "--dtype",
        "f16",
        "-m",
        "40",
        "-n",
        "50",
        "-k",
        "70",
    ];
    let orders =
        ["--orders", "early,starve:0,random", "--seeds", "3", "--multiprocessors", "1,132"];
    let outputs = ["--format", "json", "--trace", trace.to_str().unwrap()];
    let text = tessera(&[&product[..], &orders, &outputs].concat()).fine();
    let found: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found[0]["kernel"], "tensor_64x128");
    assert_eq!((&found[0]["products"], &found[0]["runs"]), (&1.into(), &10.into()), "{text}");
    assert_eq!(found[0]["reports"].as_array().map(Vec::len), Some(0));
    let trace = std::fs::read_to_string(&trace).unwrap();
    let first: serde_json::Value = serde_json::from_str(trace.lines().next().unwrap()).unwrap();
    assert_eq!(first["instruction"], "mbarrier.init", "{first}");
    assert!(trace.contains("\"instruction\":\"wgmma.mma_async\""));
}

/// The command that a report names.
#[test]
fn a_report_is_repeated_by_its_command() {
    let command = "sanitize --kernel tiled8 --dtype f64 -m 9 -n 11 -k 47 --padding 1,0,3 --beta -1 --orders \
                   random --seeds 1 --seed 7 --multiprocessors 132";
    let text = tessera(&command.split_whitespace().collect::<Vec<_>>()).fine();
    assert!(text.starts_with("tiled8: 1 products in 1 runs, "), "{text}");
}

/// Blocks of a pair free stages by arrivals that a wait at the scope of a block does not see.
#[test]
fn strict_rules_are_asked_for_by_name() {
    let command = "sanitize --kernel tensor_pair_128x192 --dtype f16 -m 100 -n 200 -k 330 --orders late \
                   --multiprocessors 1 --strict";
    let strict = |rules| {
        let words: Vec<&str> = command.split_whitespace().chain([rules]).collect();
        tessera(&words)
    };
    assert!(strict("init").fine().ends_with("nothing found\n"));
    let ended = strict("init,scopes");
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(ended.stdout.contains("nothing tells it that the phase before has ended"), "{ended}");
    assert!(ended.stdout.contains(" --strict scopes,init\n"), "{ended}");
}

#[test]
fn defects_are_planted_and_counted() {
    let text =
        tessera(&["sanitize", "--kernel", "tensor_64x128", "--dtype", "f16", "--plant"]).fine();
    assert!(text.starts_with("tensor_64x128, f16: "), "{text}");
    assert!(
        text.contains("\n  without barrier.sync at kernels-gpu/src/tensor/single_stage.rs:"),
        "{text}"
    );
}

#[test]
fn orders_and_sizes_that_make_no_sense_are_refused() {
    for (args, message) in [
        (&["--orders", "sideways"][..], "an order is late, early, starve"),
        (&["--orders", "random", "--seeds", "0"], "give --seeds 1 or more"),
        (&["-m", "8"][..], "-n <N>"),
        (&["-m", "8", "-n", "8", "-k", "8", "--padding", "1"], "--padding takes three numbers"),
        (&["--multiprocessors", "0"], "0 is not in 1..=1024"),
        (&["--strict", "everything"], "[possible values: scopes, init]"),
        (&["--device", "cuda", "--plant"], "leave them or --device cuda out"),
    ] {
        let ended = tessera(&[&["sanitize", "--kernel", "tiled8"], args].concat());
        assert_eq!(ended.code, Some(2), "{ended}");
        assert!(ended.stderr.contains(message), "{ended}");
    }
}

#[test]
fn what_examines_no_kernel_does_not_end_well() {
    for args in [&["--kernel", "serial"][..], &["--kernel", "f16x3", "--dtype", "f64"]] {
        let ended = tessera(&[&["sanitize"], args].concat());
        assert_eq!(ended.code, Some(2), "{ended}");
        assert!(ended.stderr.contains("error: nothing was run: "), "{ended}");
    }
}
