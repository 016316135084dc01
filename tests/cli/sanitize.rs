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
    assert_eq!(line("tiled8"), "tiled8: has no product of these types", "{text}");
    let split = line("tensor_split_64x64");
    assert!(split.starts_with("tensor_split_64x64: 5 products in 30 runs, "), "{text}");
    assert!(split.ends_with(" s: nothing found"), "{text}");
}

#[test]
fn what_examines_no_kernel_does_not_end_well() {
    for args in [&["--kernel", "serial"][..], &["--kernel", "f16x3", "--dtype", "f64"]] {
        let ended = tessera(&[&["sanitize"], args].concat());
        assert_eq!(ended.code, Some(2), "{ended}");
        assert!(ended.stderr.contains("error: nothing was run: "), "{ended}");
    }
}
