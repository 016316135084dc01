//! Whether packages have the same features wherever tests are built: with others they would be compiled once more.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::{ci, command};

/// The features of each package, by its name and version. A package of build scripts and macros may have several sets.
type Features = BTreeMap<String, BTreeSet<String>>;

/// The features that packages have where cargo is asked for these, along these kinds of dependencies.
fn of(arguments: &[&str], kinds: &str) -> Result<Features> {
    let mut cargo = command::cargo();
    cargo.args(["tree", "--prefix", "none", "--no-dedupe", "--format", "{p}|{f}", "-e", kinds]);
    Ok(read(&command::output(cargo.args(arguments))?))
}

fn read(tree: &str) -> Features {
    let mut all = Features::new();
    for line in tree.lines().map(|line| line.trim_end_matches(" (*)")) {
        let Some((package, features)) = line.split_once('|') else { continue };
        let name: Vec<&str> = package.split(' ').take(2).collect();
        all.entry(name.join(" ")).or_default().insert(features.to_owned());
    }
    all
}

/// The packages that both have, with features of one that the other has not.
fn differences(one: &Features, other: &Features) -> Vec<String> {
    let both = one.iter().filter_map(|(name, features)| Some((name, features, other.get(name)?)));
    let differ = both.filter(|(_, features, others)| features != others);
    differ.map(|(name, features, others)| format!("{name}: {features:?}, {others:?}")).collect()
}

/// What is built beside the tests, and what each step of tests is made of.
#[test]
fn what_tests_are_made_of_is_compiled_once() {
    const TESTED: &str = "normal,build,dev";
    let host = of(&["-p", "host"], TESTED).unwrap();
    let others = of(&ci::OTHER_TESTS[1..], TESTED).unwrap();
    // The two compile different tests of what is said on a terminal, with another library each.
    let of_tests = ["serde_spanned", "toml_datetime", "toml_parser", "toml_writer", "winnow"];
    let mut found = differences(&host, &others);
    found.retain(|line| !of_tests.iter().any(|name| line.starts_with(name)));
    assert!(found.is_empty(), "{found:#?}");

    let mut beside = command::AS_TESTED[2..].to_vec();
    beside.extend(["-p", "tessera-blas", "-p", "tessera-py"]);
    let beside = of(&beside, "normal,build").unwrap();
    let engine = of(&ci::ENGINE_TESTS[1..5], TESTED).unwrap();
    for these in [beside, engine] {
        let mut found = differences(&these, &others);
        // Of the driver's symbols, which libraries for other programs must not export.
        found.retain(|line| !line.starts_with("cuda_lazy "));
        assert!(found.is_empty(), "crates/workspace_hack does not ask for: {found:#?}");
    }
}

#[test]
fn differences_are_found() {
    let one = read("a v1.0.0 (/w)|default,std\nb v2.0.0|\na v1.0.0|std (*)\n");
    assert_eq!(one["a v1.0.0"].len(), 2);
    let other = read("b v2.0.0|std\nc v1.0.0|\n");
    assert_eq!(differences(&one, &other), [r#"b v2.0.0: {""}, {"std"}"#]);
    assert!(differences(&one, &one).is_empty());
}
