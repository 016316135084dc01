//! The header compiles as C and C++ without a warning, and the programs of docs/embed run.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A compiler: the one that a variable names, else the first there is; none is a reason to skip.
fn compiler(variable: &str, names: &[&str]) -> Option<String> {
    let named = std::env::var(variable).ok();
    let works = |name: &String| Command::new(name).arg("--version").output().is_ok();
    let found = named.into_iter().chain(names.iter().map(|&name| name.to_owned())).find(works);
    if found.is_none() {
        println!("SKIPPED: there is no {} and {variable} names none", names.join(" or "));
    }
    found
}

fn c() -> Option<String> {
    compiler("CC", &["cc", "gcc", "clang"])
}

fn cxx() -> Option<String> {
    compiler("CXX", &["c++", "g++", "clang++"])
}

const STRICT: [&str; 5] = ["-pedantic", "-Wall", "-Wextra", "-Wconversion", "-Werror"];

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    output
}

/// Compiles a text against the header alone.
fn compiles(compiler: &str, standard: &str, name: &str, text: &str) -> bool {
    let scratch = tempfile::tempdir().expect("a folder");
    let source = scratch.path().join(name);
    std::fs::write(&source, text).expect("it is written");
    let mut command = Command::new(compiler);
    command.arg(standard).args(STRICT).arg("-fsyntax-only");
    command.arg("-I").arg(folder().join("include")).arg(source);
    command.output().expect("the compiler runs").status.success()
}

/// A use of everything in the header that is not a function of the library.
const USE: &str = "\
#include <tessera.h>
#include <tessera.h>
tessera_matrix use(const float *a);
tessera_matrix use(const float *a) {
  tessera_gemm_options options = TESSERA_GEMM_OPTIONS_INIT;
  tessera_engine_options engine = TESSERA_ENGINE_OPTIONS_INIT;
  tessera_stream_options stream = TESSERA_STREAM_OPTIONS_INIT;
  tessera_epilogue epilogue = TESSERA_EPILOGUE_INIT;
  tessera_epilogue_numbers numbers = TESSERA_EPILOGUE_NUMBERS_INIT;
  tessera_gemm_desc desc = tessera_gemm_desc_col_major(TESSERA_F64, 2, 3, 4);
  (void)options;
  (void)engine;
  (void)stream;
  (void)numbers;
  desc.epilogue = &epilogue;
  (void)desc;
  return tessera_transposed(tessera_col_major(TESSERA_F32, a, 2, 3, 2));
}
";

#[test]
fn the_header_is_c99() {
    let Some(compiler) = c() else { return };
    assert!(compiles(&compiler, "-std=c99", "use.c", USE));
    let wrong = USE.replace("TESSERA_F32, a", "a, TESSERA_F32");
    assert!(!compiles(&compiler, "-std=c99", "use.c", &wrong), "a planted fault goes through");
}

#[test]
fn the_header_is_cxx() {
    let Some(compiler) = cxx() else { return };
    for standard in ["-std=c++11", "-std=c++20"] {
        assert!(compiles(&compiler, standard, "use.cpp", USE), "{standard}");
    }
    assert!(!compiles(&compiler, "-std=c++11", "use.cpp", &USE.replace("float", "char8")));
}

/// A shared library that cargo has built for this test.
fn beside_the_test(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a program has a path");
    let library = test.parent().expect("it is in a folder").join(name);
    assert!(library.exists(), "there is no {}", library.display());
    library
}

/// The shared library under the name that programs look for.
fn library(at: &Path) {
    let library = beside_the_test("libtessera_c.so");
    for name in ["libtessera.so.0", "libtessera.so"] {
        symlink(&library, at.join(name)).expect("a link");
    }
}

/// Whether programs that use a GPU have a real one.
fn has_gpu() -> bool {
    std::env::var_os("GEMM_REQUIRE_GPU").is_some_and(|value| value == "1")
}

/// The emulated driver under the name of CUDA's, unless there is a GPU.
fn driver(at: &Path) {
    let driver = beside_the_test("libemulated_libcuda.so");
    if !has_gpu() {
        symlink(driver, at.join("libcuda.so.1")).expect("a link");
    }
}

/// What a program of docs/embed prints.
fn printed(compiler: &str, flags: &[&str], source: &str, libraries: &[&str]) -> String {
    let scratch = tempfile::tempdir().expect("a folder");
    library(scratch.path());
    driver(scratch.path());
    let (at, program) = (scratch.path(), scratch.path().join("program"));
    let mut command = Command::new(compiler);
    command.args(flags).arg("-I").arg(folder().join("include"));
    command.arg(folder().join("../../docs/embed").join(source)).arg("-o").arg(&program);
    run(command.arg("-L").arg(at).arg("-ltessera").args(libraries));
    let own = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    let mut command = Command::new(&program);
    command.env("LD_LIBRARY_PATH", format!("{}:{own}", at.display()));
    let output = run(command.env_remove("TESSERA_LIBCUDA"));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it is text")
}

/// Strict C99.
fn c99() -> Vec<&'static str> {
    ["-std=c99"].into_iter().chain(STRICT).collect()
}

/// C++11, and Fortran, without a warning.
const CXX11: [&str; 4] = ["-std=c++11", "-Wall", "-Wextra", "-Werror"];
const FORTRAN: [&str; 3] = ["-Wall", "-Wextra", "-Werror"];

fn fortran() -> Option<String> {
    compiler("FC", &["gfortran", "flang"])
}

#[test]
fn the_program_in_c() {
    let Some(compiler) = c() else { return };
    let text = printed(&compiler, &c99(), "first_product.c", &[]);
    let expected = "7 8\n16 17\nsizes do not fit: A is 2 x 3 and B is 2 x 3: \
                    A must have as many columns as B has rows\n";
    assert_eq!(text, expected);
}

#[test]
fn the_program_with_an_epilogue() {
    let Some(compiler) = c() else { return };
    let text = printed(&compiler, &c99(), "epilogue.c", &[]);
    assert_eq!(text, "-0.0455 0.8413\n-0.1587 0.8413\n0.8413\n");
}

#[test]
fn the_program_in_cxx() {
    let Some(compiler) = cxx() else { return };
    let text = printed(&compiler, &CXX11, "first_product.cpp", &[]);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("(0,16) (0,16)"));
    let line = lines.next().expect("an explanation");
    assert!(line.starts_with("48 x 16 x 16 on cpu (vector units, "), "{line}");
    assert!(line.ends_with("2 threads, nothing is copied"), "{line}");
}

#[test]
fn the_program_in_fortran() {
    let Some(compiler) = fortran() else { return };
    let text = printed(&compiler, &FORTRAN, "first_product.f90", &[]);
    assert_eq!(text, "  7.0  8.0\n 16.0 17.0\n");
}

#[test]
fn the_program_in_c_on_a_device() {
    let Some(compiler) = c() else { return };
    let text = printed(&compiler, &c99(), "device_product.c", &["-ldl"]);
    assert_eq!(text, "9 25\n19 43\n29 61\ninvalid argument\n");
}

#[test]
fn the_program_in_cxx_on_a_device() {
    let Some(compiler) = cxx() else { return };
    let text = printed(&compiler, &CXX11, "device_product.cpp", &["-ldl"]);
    assert_eq!(text, "40\n40\n60\n");
}

#[test]
fn the_program_in_fortran_on_a_device() {
    let Some(compiler) = fortran() else { return };
    let text = printed(&compiler, &FORTRAN, "device_product.f90", &["-l:libcuda.so.1"]);
    assert_eq!(text, "  15.0  43.0\n  15.0  39.0\n  25.0  65.0\n");
}

/// The document shows the programs in C that run above, and names tests that are there.
#[test]
fn the_document_is_that_of_the_programs() {
    let read = |path: PathBuf| std::fs::read_to_string(&path).expect("it is there");
    let document = read(folder().join("../../docs/embed-c.md"));
    for name in ["first_product.c", "device_product.c", "epilogue.c"] {
        let program = read(folder().join("../../docs/embed").join(name));
        assert!(document.contains(&format!("```c\n{program}```")), "{name}: another is shown");
    }
    let sources = [
        "src/guard.rs",
        "src/sized.rs",
        "tests/calls.rs",
        "tests/device.rs",
        "tests/device/epilogue.rs",
        "tests/header.rs",
        "tests/languages.rs",
    ];
    let mut text: String = sources.map(|path| read(folder().join(path))).concat();
    text += &read(folder().join("../tessera_raw/tests/products.rs"));
    let promises = document.split("| promise | test |").nth(1).expect("there is a table");
    let names = promises.lines().filter(|line| line.starts_with("| ")).flat_map(|line| {
        line.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default().split(", ")
    });
    let names: Vec<&str> = names.map(|name| name.trim_matches('`')).collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names {
        assert!(text.contains(&format!("fn {name}()")), "there is no test {name}");
    }
}
