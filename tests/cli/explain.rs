//! `explain`.

use super::tessera;

#[test]
fn every_implementation_is_explained() {
    for one in lab::registry::all() {
        let (id, n) = (one.id(), if one.id() == "single_block" { "32" } else { "1000" });
        // What lacks its units on this machine is explained all the same.
        let types = lab::Types::ALL.into_iter().find(|&dtype| one.has(dtype));
        let dtype = types.unwrap_or(lab::Types::F32);
        let args = ["explain", id, "-n", n, "--dtype", dtype.name()];
        let text = tessera(&args).fine();
        assert!(
            text.starts_with(&format!("{id}: {}\nfrom {}\n", one.about(), one.origin())),
            "{text}"
        );
        assert!(text.contains("operations") && !text.contains("```"), "{text}");
        if one.on_gpu() && !text.contains(&format!("  none: {id} ")) {
            for words in ["  grid ", " blocks of ", "the last has ", &format!("{id}_{dtype}: ")] {
                assert!(text.contains(words), "{words}: {text}");
            }
        }
        let source = tessera(&[&args[..], &["--ptx"]].concat()).fine();
        assert!(source.contains(".rs ---\n"), "{source}");
        assert_eq!(
            source.contains(&format!(".visible .entry {id}_{dtype}(")),
            one.on_gpu(),
            "{id}"
        );
        assert!(source.starts_with(&text), "--ptx only adds");
    }
}

#[test]
fn numbers_follow_size_type_and_card() {
    let text = tessera(&["explain", "tiled32", "-n", "10240", "--gpu", "blackwell"]).fine();
    for words in [
        "grid 320 x 320 x 1 = 102400 blocks of 32 x 32 = 1024 threads",
        "1 block at once on an SM",
        "0.0625 loads for each multiply-add",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let double = tessera(&["explain", "tiled32", "--dtype", "f64", "--ptx"]).fine();
    assert!(double.contains(".visible .entry tiled32_f64(") && !double.contains("tiled32_f32("));
    let sums = tessera(&["explain", "serial", "-n", "2"]).fine();
    assert!(sums.contains("C[1][0] = A[1][0]*B[0][0] + A[1][1]*B[1][0]\n"), "{sums}");
    let old = tessera(&["explain", "naive", "--gpu", "g80"]).fine();
    assert!(old.contains("none: naive needs compute capability 7.0, the device has 1.0"), "{old}");
    let huge = tessera(&["explain", "naive", "-n", "18446744073709551615"]).fine();
    assert!(huge.contains("none: naive "), "{huge}");
}

#[test]
fn what_cannot_be_explained_is_one_line() {
    tessera(&["explain"]).refused(2, &["<NAME>"]);
    tessera(&["explain", "tilde32"]).refused(2, &["`tilde32`", "`tiled32`"]);
    tessera(&["explain", "naive", "-n", "0"]).refused(2, &["sizes start at 1"]);
    tessera(&["explain", "naive", "--gpu", "voodoo"]).refused(2, &["`voodoo`"]);
    tessera(&["explain", "naive", "--gpu", "this"]).refused(3, &["no CUDA device"]);
}
