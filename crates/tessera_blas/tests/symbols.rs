//! What the shared library exports, and what it needs of others.

#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::process::Command;

/// The shared library that was built with these tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a program has a path");
    let folder = test.parent().expect("it is in a folder");
    let library = folder.join("libtessera_blas.so");
    assert!(library.exists(), "there is no {}", library.display());
    library
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).arg(library()).output();
    let output = output.unwrap_or_else(|error| panic!("{program}, of binutils: {error}"));
    assert!(output.status.success(), "{program}: {}", output.status);
    String::from_utf8(output.stdout).expect("it is text")
}

/// The names of symbols that `nm` prints with one of those letters.
fn symbols(arguments: &[&str], kind: impl Fn(&str) -> bool) -> Vec<String> {
    let text = output("nm", arguments);
    let mut names: Vec<String> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace().rev();
            let (name, letter) = (words.next()?, words.next()?);
            kind(letter).then(|| name.split('@').next().unwrap_or(name).to_owned())
        })
        .collect();
    names.sort_unstable();
    names
}

/// Every spelling of a routine's name.
fn spellings(routine: &str) -> Vec<String> {
    vec![
        format!("{routine}_"),
        format!("scipy_{routine}_"),
        format!("{routine}_64_"),
        format!("{routine}_64"),
        format!("scipy_{routine}_64_"),
        format!("cblas_{routine}"),
        format!("scipy_cblas_{routine}"),
        format!("cblas_{routine}64_"),
        format!("cblas_{routine}_64"),
        format!("scipy_cblas_{routine}64_"),
    ]
}

/// No name more, none of CUDA's or Rust's, and none less.
#[test]
fn exports_are_the_routines_and_nothing_else() {
    let of_any = [
        "gemm",
        "gemmt",
        "gemmtr",
        "gemm_batch",
        "gemm_batch_strided",
        "gemv",
        "symm",
        "syr2k",
        "syrk",
        "trmm",
        "trsm",
        "trsv",
    ];
    let of_complex = ["gemm3m", "gerc", "geru", "hemm", "hemv", "her2k", "herk"];
    let mut expected: Vec<String> = Vec::new();
    for letter in ["s", "d", "c", "z"] {
        let complex = matches!(letter, "c" | "z").then_some(of_complex);
        for routine in of_any.into_iter().chain(complex.into_iter().flatten()) {
            expected.extend(spellings(&format!("{letter}{routine}")));
        }
    }
    expected.extend(["sger", "dger", "ssymv", "dsymv"].into_iter().flat_map(spellings));
    let narrow =
        ["bgemm", "gemm_bf16bf16f32", "gemm_f16f16f32", "gemm_s8u8s32", "sbgemm", "shgemm"];
    expected.extend(narrow.into_iter().flat_map(spellings));
    let of_lapack = ["gels", "gelqf", "geqrf", "gesv", "getrf", "getrs", "posv", "potrf", "potrs"];
    for letter in ["s", "d", "c", "z"] {
        let of_q =
            if matches!(letter, "c" | "z") { ["ungqr", "unmqr"] } else { ["orgqr", "ormqr"] };
        for routine in of_lapack.into_iter().chain(of_q) {
            let names = spellings(&format!("{letter}{routine}"));
            expected.extend(names.into_iter().filter(|name| !name.contains("cblas")));
        }
    }
    // Of level 1 the one that a loader asks for, which in C gives another result, an index from 0.
    expected.extend(spellings("isamax").into_iter().filter(|name| !name.contains("cblas")));
    let threads =
        ["tessera_get_num_threads", "tessera_set_num_threads", "tessera_set_num_threads_local"];
    expected.extend(threads.map(str::to_owned));
    expected.sort_unstable();
    assert_eq!(symbols(&["-D", "--defined-only"], |_| true), expected);
}

/// The handlers of wrong arguments are the program's, and it need not have any.
#[test]
fn handlers_are_weak() {
    let weak = symbols(&["-D", "--undefined-only"], |letter| letter == "w");
    for handler in ["xerbla_", "xerbla_64_", "cblas_xerbla", "RowMajorStrg"] {
        assert!(weak.iter().any(|name| name == handler), "{handler} is not among {weak:?}");
    }
}

/// Its own name is not that of a whole BLAS, it stays when it is closed, and it needs the system alone.
#[test]
fn it_is_linked_as_a_library_to_be_preloaded() {
    let dynamic = output("readelf", &["-d"]);
    let has =
        |words: &[&str]| dynamic.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(has(&["SONAME", "[libtessera_blas.so.0]"]), "{dynamic}");
    assert!(has(&["FLAGS_1", "NODELETE"]), "{dynamic}");
    let needed = dynamic.lines().filter(|line| line.contains("NEEDED"));
    for line in needed {
        let system = ["libc.so", "libgcc_s.so", "ld-linux", "libm.so"];
        assert!(system.iter().any(|name| line.contains(name)), "{line}");
    }
}
