//! `multiply`: files in, a file out, and nothing half-written.

use std::fs;
use std::path::{Path, PathBuf};

use lab::{Types, bf16, f16};
use tempfile::TempDir;

use super::{Ended, command, end, on_the_cpu, tessera};

/// The bytes of a `.npy` file, by the format's own description.
fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(header.len()).expect("short").to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(data);
    bytes
}

/// Type of the elements of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Float {
    F32,
    F64,
    F16,
    Bf16,
}

impl Float {
    fn descr(self) -> &'static str {
        match self {
            Self::F32 => "'<f4'",
            Self::F64 => "'<f8'",
            Self::F16 => "'<f2'",
            Self::Bf16 => "'<V2'",
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "rounded, as the other types are")]
    fn bytes(self, value: f64) -> Vec<u8> {
        match self {
            Self::F32 => (value as f32).to_le_bytes().to_vec(),
            Self::F64 => value.to_le_bytes().to_vec(),
            Self::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
            Self::Bf16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        }
    }
}

/// A matrix of small numbers, exact in every type.
#[derive(Clone, Debug, PartialEq)]
struct Mat {
    rows: usize,
    cols: usize,
    data: Vec<f64>,
}

impl Mat {
    fn new(rows: usize, cols: usize, value: impl Fn(usize, usize) -> f64) -> Self {
        let value = &value;
        let data = (0..rows).flat_map(|row| (0..cols).map(move |col| value(row, col))).collect();
        Self { rows, cols, data }
    }

    fn at(&self, row: usize, col: usize) -> f64 {
        self.data[row * self.cols + col]
    }

    fn transposed(&self) -> Self {
        Self::new(self.cols, self.rows, |row, col| self.at(col, row))
    }

    fn file(&self, float: Float, fortran: bool) -> Vec<u8> {
        let stored = if fortran { self.transposed() } else { self.clone() };
        let data: Vec<u8> = stored.data.iter().flat_map(|&value| float.bytes(value)).collect();
        npy(float.descr(), fortran, &format!("({}, {})", self.rows, self.cols), &data)
    }

    /// alpha A B + beta C.
    fn gemm(alpha: f64, a: &Self, b: &Self, beta: f64, c: &Self) -> Self {
        Self::new(a.rows, b.cols, |row, col| {
            let sum: f64 = (0..a.cols).map(|step| a.at(row, step) * b.at(step, col)).sum();
            alpha * sum + if beta == 0.0 { 0.0 } else { beta * c.at(row, col) }
        })
    }
}

/// A folder of matrices in which `multiply` is run.
struct Bench(TempDir);

impl Bench {
    fn new() -> Self {
        Self(TempDir::new().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).expect("written");
    }

    fn run(&self, args: &[&str]) -> Ended {
        end(command(&["multiply"]).args(args).current_dir(self.0.path()))
    }

    /// The run is refused, and the output is what it was, with nothing half-written beside it.
    #[track_caller]
    fn refused(&self, args: &[&str], code: i32, words: &[&str]) {
        let names = || {
            let entries = fs::read_dir(self.0.path()).expect("listed");
            let mut names: Vec<_> =
                entries.map(|entry| entry.expect("listed").file_name()).collect();
            names.sort();
            names
        };
        self.put("out.npy", b"old");
        let before = names();
        self.run(args).refused(code, words);
        assert_eq!(fs::read(self.path("out.npy")).expect("read"), b"old", "{args:?}");
        assert_eq!(names(), before, "{args:?}");
    }

    #[track_caller]
    fn assert_holds(&self, name: &str, want: &Mat, float: Float) {
        let found = fs::read(self.path(name)).expect("read");
        assert_eq!(found[..8], *b"\x93NUMPY\x01\x00", "version 1.0");
        let data = 10 + usize::from(u16::from_le_bytes([found[8], found[9]]));
        assert_eq!(data % 64, 0, "elements are aligned");
        let header = String::from_utf8_lossy(&found[10..data]).into_owned();
        let shape = format!("({}, {})", want.rows, want.cols);
        for word in [float.descr(), "'fortran_order': False", &shape] {
            assert!(header.contains(word), "{header}");
        }
        let bytes: Vec<u8> = want.data.iter().flat_map(|&value| float.bytes(value)).collect();
        assert!(found[data..] == bytes, "{name} does not hold {want:?}");
    }
}

fn a_and_b() -> (Mat, Mat) {
    let a = Mat::new(5, 7, |row, col| (3 * row + col) as f64 - 8.0);
    let b = Mat::new(7, 4, |row, col| (row * col) as f64 - 2.0 * col as f64 + 1.0);
    (a, b)
}

#[test]
fn products_are_right_in_either_order_type_and_transposed() {
    let (a, b) = a_and_b();
    let none = Mat::new(0, 0, |_, _| 0.0);
    let c = Mat::new(5, 4, |row, col| 10.0 * row as f64 + col as f64);
    let bench = Bench::new();
    for float in [Float::F32, Float::F64, Float::F16, Float::Bf16] {
        for case in 0..16 {
            let [fortran_a, fortran_b, trans_a, trans_b] =
                [1, 2, 4, 8].map(|bit: u32| case & bit != 0);
            let stored = |mat: &Mat, trans| if trans { mat.transposed() } else { mat.clone() };
            bench.put("a.npy", &stored(&a, trans_a).file(float, fortran_a));
            bench.put("b.npy", &stored(&b, trans_b).file(float, fortran_b));
            let mut args = vec!["a.npy", "b.npy", "-o", "c.npy", "--check", "full"];
            args.extend(trans_a.then_some("--trans-a"));
            args.extend(trans_b.then_some("--trans-b"));
            assert_eq!(bench.run(&args).fine(), "", "data belong in the file");
            bench.assert_holds("c.npy", &Mat::gemm(1.0, &a, &b, 0.0, &none), float);

            bench.put("c0.npy", &c.file(float, fortran_a));
            args.extend(["--alpha", "-1.5", "--beta", "0.5", "--c", "c0.npy"]);
            bench.run(&args).fine();
            bench.assert_holds("c.npy", &Mat::gemm(-1.5, &a, &b, 0.5, &c), float);
        }
    }
}

/// A C of f32 has digits that the factors' type has not, and so has the old C.
#[test]
fn products_of_16_bits_are_to_be_had_in_f32() {
    let (a, b) = a_and_b();
    let none = Mat::new(0, 0, |_, _| 0.0);
    let c = Mat::new(5, 4, |row, col| 4097.0 + 10.0 * row as f64 + col as f64);
    let bench = Bench::new();
    bench.put("c32.npy", &c.file(Float::F32, true));
    for float in [Float::F16, Float::Bf16] {
        bench.put("a.npy", &a.file(float, false));
        bench.put("b.npy", &b.file(float, true));
        bench.put("c16.npy", &c.file(float, false));
        let plain = ["a.npy", "b.npy", "-o", "c.npy", "--check", "full"];
        let wide = [&plain[..], &["--out-dtype", "f32"]].concat();
        let ended = bench.run(&wide);
        assert!(ended.stderr.contains("5 x 4 f32, by cpu_packed in "), "{ended}");
        ended.fine();
        bench.assert_holds("c.npy", &Mat::gemm(1.0, &a, &b, 0.0, &none), Float::F32);
        let old = |file: &'static str| [&wide[..], &["--beta", "0.5", "--c", file]].concat();
        bench.run(&old("c32.npy")).fine();
        bench.assert_holds("c.npy", &Mat::gemm(1.0, &a, &b, 0.5, &c), Float::F32);
        let (name, other) = match float {
            Float::F16 => ("f16", "bf16"),
            Float::F32 | Float::F64 | Float::Bf16 => ("bf16", "f16"),
        };
        let words = [
            &format!("a.npy holds {name}"),
            &format!("c16.npy holds {name}"),
            "the product is to be f32: convert it to f32",
        ];
        bench.refused(&old("c16.npy"), 2, &words.map(|word| -> &str { word }));
        // The type that products have by themselves can be named, others cannot.
        bench.run(&[&plain[..], &["--out-dtype", name]].concat()).fine();
        bench.assert_holds("c.npy", &Mat::gemm(1.0, &a, &b, 0.0, &none), float);
        let args = ["a.npy", "b.npy", "-o", "out.npy", "--out-dtype", other];
        let words = format!("a.npy holds {name}, whose products are {name} or f32, not {other}");
        bench.refused(&args, 2, &[&words]);
    }
    bench.put("a.npy", &a.file(Float::F32, false));
    let args = ["a.npy", "a.npy", "-o", "out.npy", "--out-dtype", "f16"];
    bench.refused(&args, 2, &["a.npy holds f32, whose products are f32, not f16"]);
}

/// Older files of bf16 say `|V2`.
#[test]
fn two_bytes_of_either_descriptor_are_bf16() {
    let (a, b) = a_and_b();
    let bench = Bench::new();
    let data: Vec<u8> = a.data.iter().flat_map(|&value| Float::Bf16.bytes(value)).collect();
    bench.put("a.npy", &npy("'|V2'", false, "(5, 7)", &data));
    bench.put("b.npy", &b.file(Float::Bf16, true));
    bench.run(&["a.npy", "b.npy", "-o", "c.npy"]).fine();
    bench.assert_holds("c.npy", &Mat::gemm(1.0, &a, &b, 0.0, &a), Float::Bf16);
    bench.put("b16.npy", &b.file(Float::F16, true));
    let both = ["a.npy holds bf16", "b16.npy holds f16"];
    bench.refused(&["a.npy", "b16.npy", "-o", "out.npy"], 2, &both);
}

#[test]
fn every_cpu_implementation_and_check_can_be_named() {
    let (a, b) = a_and_b();
    let want = Mat::gemm(1.0, &a, &b, 0.0, &a);
    let bench = Bench::new();
    bench.put("a.npy", &a.file(Float::F32, false));
    bench.put("b.npy", &b.file(Float::F32, true));
    let every = lab::cpu::CPU.iter().map(|rung| (rung.id, rung.runs(Types::F32).is_ok()));
    for (kernel, runs) in std::iter::once(("auto", true)).chain(every) {
        for check in ["auto", "full", "freivalds", "sample", "none"] {
            let _ = fs::remove_file(bench.path("c.npy"));
            let args = ["a.npy", "b.npy", "-o", "c.npy", "--kernel", kernel, "--check", check];
            let ended = bench.run(&[&args[..], &["--device", "cpu"]].concat());
            if !runs {
                ended.refused(2, &[kernel, "does not run here: "]);
                assert!(!bench.path("c.npy").exists());
                continue;
            }
            let name = if kernel == "auto" { "cpu_packed" } else { kernel };
            assert!(ended.stderr.contains(&format!("by {name} in ")), "{ended}");
            ended.fine();
            bench.assert_holds("c.npy", &want, Float::F32);
        }
    }
}

#[test]
fn the_output_may_be_an_input_and_a_link_stays_a_link() {
    let (a, b) = a_and_b();
    let want = Mat::gemm(1.0, &a, &b, 0.0, &a);
    let bench = Bench::new();
    bench.put("a.npy", &a.file(Float::F64, false));
    bench.put("b.npy", &b.file(Float::F64, false));
    bench.run(&["a.npy", "b.npy", "-o", "a.npy"]).fine();
    bench.assert_holds("a.npy", &want, Float::F64);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("b.npy", bench.path("link.npy")).expect("linked");
        bench.run(&["a.npy", "a.npy", "--trans-a", "-o", "link.npy"]).fine();
        assert!(bench.path("link.npy").is_symlink());
        bench.assert_holds(
            "b.npy",
            &Mat::gemm(1.0, &want.transposed(), &want, 0.0, &a),
            Float::F64,
        );
    }
}

#[test]
fn files_that_hold_no_matrix_are_refused() {
    let (a, b) = a_and_b();
    let good = b.file(Float::F32, false);
    let whole = a.file(Float::F32, false);
    let zeros = |len| vec![0u8; len];
    let shaped = |shape: &str, len| npy("'<f4'", false, shape, &zeros(len));
    let typed = |descr: &str, size: usize| npy(descr, false, "(5, 7)", &zeros(35 * size));
    let mut version2 = b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'".to_vec();
    version2.extend(zeros(100));
    let mut version9 = whole.clone();
    version9[6] = 9;
    let cases: Vec<(&str, Vec<u8>, &[&str])> = vec![
        ("empty", Vec::new(), &["no .npy file"]),
        ("text", b"1 2 3\n4 5 6\n".to_vec(), &["no .npy file", "numpy.save"]),
        ("magic alone", whole[..6].to_vec(), &["cut short"]),
        ("half a header", whole[..40].to_vec(), &["header", "cut short"]),
        ("half the data", whole[..whole.len() - 50].to_vec(), &["140 bytes", "90", "cut short"]),
        ("no data", whole[..128].to_vec(), &["140 bytes", "holds 0"]),
        ("more data", [&whole[..], b"more"].concat(), &["140 bytes", "144"]),
        ("version 2, no end", version2, &["cut short"]),
        ("version 9", version9, &["version 9"]),
        ("1-D", shaped("(35,)", 140), &["1 dimensions", "reshape"]),
        ("3-D", shaped("(5, 7, 1)", 140), &["3 dimensions"]),
        ("0-D", shaped("()", 4), &["0 dimensions"]),
        ("no rows", shaped("(0, 7)", 0), &["0 x 7", "sizes start at 1"]),
        ("no columns", shaped("(5, 0)", 0), &["5 x 0", "sizes start at 1"]),
        ("claims much", shaped("(1000000000, 1000000000)", 140), &["1000000000", "holds 140"]),
        (
            "claims more than there are bytes",
            shaped("(18446744073709551615, 18446744073709551615)", 140),
            &["18446744073709551615"],
        ),
        ("claims more than a usize", shaped("(18446744073709551616, 1)", 140), &["no array"]),
        ("negative", shaped("(-5, -7)", 140), &["no array"]),
        ("not a shape", shaped("'x'", 140), &["no array"]),
        ("no Python", npy("'<f4", false, "(5, 7)", &zeros(140)), &["no array"]),
        ("nested", npy(&"{".repeat(3000), false, "(5, 7)", &zeros(140)), &["no array"]),
        ("long", npy(&"'".repeat(9000), false, "(5, 7)", &zeros(140)), &["header has", "4096"]),
        ("i2", typed("'<i2'", 2), &["16-bit integers", "'<i2'", "f32"]),
        ("i8", typed("'<i8'", 8), &["64-bit integers"]),
        ("u1", typed("'|u1'", 1), &["8-bit unsigned integers"]),
        ("big-endian f2", typed("'>f2'", 2), &["big-endian 16-bit floats", "'<f2'"]),
        ("V4", typed("'|V4'", 4), &["another type", "bf16 ('<V2')"]),
        ("c8", typed("'<c8'", 8), &["64-bit complex numbers"]),
        ("b1", typed("'|b1'", 1), &["booleans"]),
        ("big-endian f4", typed("'>f4'", 4), &["big-endian 32-bit floats"]),
        ("big-endian f8", typed("'>f8'", 8), &["big-endian 64-bit floats", "astype"]),
        ("records", typed("[('x', '<f4'), ('y', '<f4')]", 8), &["records"]),
        ("objects", typed("'|O'", 8), &["Python objects"]),
        ("odd letters", typed("'\\n\\n'", 4), &["another type"]),
    ];
    let bench = Bench::new();
    bench.put("good.npy", &good);
    for (name, bytes, words) in cases {
        // The name of the file is in the message, and shows which case it is.
        let file = format!("{name}.npy");
        bench.put(&file, &bytes);
        let words = [words, &[file.as_str()]].concat();
        bench.refused(&[&file, "good.npy", "-o", "out.npy"], 2, &words);
        bench.refused(&["good.npy", &file, "-o", "out.npy"], 2, &words);
    }
}

#[test]
fn matrices_that_do_not_fit_together_are_refused() {
    let (a, b) = a_and_b();
    let bench = Bench::new();
    bench.put("a.npy", &a.file(Float::F32, false));
    bench.put("b.npy", &b.file(Float::F32, true));
    bench.put("b64.npy", &b.file(Float::F64, false));
    bench.put("c.npy", &Mat::new(5, 4, |_, _| 1.0).file(Float::F32, false));
    bench.put("c64.npy", &Mat::new(5, 4, |_, _| 1.0).file(Float::F64, false));
    let both = ["a.npy holds f32", "b64.npy holds f64"];
    bench.refused(&["a.npy", "b64.npy", "-o", "out.npy"], 2, &both);
    let sizes = ["a.npy and a.npy", "A is 5 x 7 and B is 5 x 7"];
    bench.refused(&["a.npy", "a.npy", "-o", "out.npy"], 2, &sizes);
    let args = ["a.npy", "b.npy", "-o", "out.npy"];
    let with = |more: &[&'static str]| [&args[..], more].concat();
    bench.refused(&with(&["--trans-a"]), 2, &["A is 7 x 5 and B is 7 x 4"]);
    bench.refused(&with(&["--trans-b"]), 2, &["A is 5 x 7 and B is 4 x 7"]);
    bench.refused(&with(&["--beta", "2"]), 2, &["--beta 2", "--c"]);
    bench.refused(&with(&["--beta", "NaN"]), 2, &["--beta NaN", "--c"]);
    let wrong_c = ["C is 7 x 4, the product is 5 x 4", "b.npy"];
    bench.refused(&with(&["--beta", "2", "--c", "b.npy"]), 2, &wrong_c);
    bench.refused(&with(&["--beta", "2", "--c", "c64.npy"]), 2, &["c64.npy holds f64"]);
    bench.refused(&with(&["--c", "missing.npy"]), 2, &["missing.npy"]);
    bench.refused(&with(&["--c", "c.npy"]), 2, &["--c c.npy", "--beta 1"]);
    bench.refused(
        &with(&["--beta", "1", "--c", "missing.npy"]),
        2,
        &["missing.npy", "No such file"],
    );
    bench.refused(&["a.npy", "b64.npy", "-o", "out.npy"], 2, &["convert a.npy to f64"]);
    bench.refused(&["b64.npy", "a.npy", "-o", "out.npy"], 2, &["convert a.npy to f64"]);
    bench.refused(&with(&["--kernel", "tilde32"]), 2, &["`tilde32`", "`tiled32`"]);
    bench.refused(
        &with(&["--kernel", "serial", "--device", "cuda"]),
        2,
        &["serial runs on the CPU"],
    );
    bench.refused(&with(&["--kernel", "naive", "--device", "cpu"]), 2, &["naive runs on a GPU"]);
    bench.refused(&with(&["--kernel", "naive"]), 3, &["no CUDA device"]);
    bench.refused(&with(&["--device", "cuda"]), 3, &["no CUDA device"]);
    bench.refused(&with(&["--check", "most"]), 2, &["most"]);
    // With 0 it is not even looked for.
    bench.run(&with(&["--beta", "0", "--c", "missing.npy"])).fine();
    bench.run(&with(&["--threads", "3"])).fine();
    bench.refused(&with(&["--threads", "0"]), 2, &["'0'", "--threads"]);
    // The same files do multiply.
    bench.run(&with(&["--beta", "2", "--c", "c.npy"])).fine();
}

#[test]
fn places_that_cannot_be_read_or_written_are_refused() {
    let (a, b) = a_and_b();
    let bench = Bench::new();
    bench.put("a.npy", &a.file(Float::F32, false));
    bench.put("b.npy", &b.file(Float::F32, false));
    fs::create_dir(bench.path("folder")).expect("created");
    bench.refused(&["none.npy", "b.npy", "-o", "out.npy"], 2, &["none.npy", "No such file"]);
    bench.refused(&["a.npy", "folder", "-o", "out.npy"], 2, &["folder", "no plain file"]);
    bench.refused(&["a.npy", "b.npy", "-o", "none/c.npy"], 2, &["none/c.npy", "No such file"]);
    bench.refused(&["a.npy", "b.npy", "-o", "folder"], 2, &["folder", "name a file"]);
    #[cfg(unix)]
    {
        bench.refused(&["/dev/zero", "b.npy", "-o", "out.npy"], 2, &["/dev/zero", "plain"]);
        bench.refused(&["a.npy", "b.npy", "-o", "/dev/null"], 2, &["/dev/null", "plain"]);
        assert!(!Path::new("/dev/null").is_file(), "the device was replaced by a file");
    }
    #[cfg(unix)]
    {
        // Nobody writes into it: to open it would never end.
        let made = std::process::Command::new("mkfifo").arg(bench.path("pipe")).status();
        assert!(made.is_ok_and(|made| made.success()));
        bench.refused(&["pipe", "b.npy", "-o", "out.npy"], 2, &["pipe", "no plain file"]);
        fs::remove_file(bench.path("pipe")).expect("removed");
    }
    // A name with a line break still gives one line.
    bench.refused(&["two\nlines.npy", "b.npy", "-o", "out.npy"], 2, &["two lines.npy"]);
}

#[test]
fn a_product_beyond_memory_is_refused_before_anything_is_written() {
    let bench = Bench::new();
    let thin = vec![0u8; 4 * 3_000_000];
    bench.put("tall.npy", &npy("'<f4'", false, "(3000000, 1)", &thin));
    bench.put("wide.npy", &npy("'<f4'", false, "(1, 3000000)", &thin));
    let words = ["3000000 x 3000000 x 1", "36000024000000 bytes"];
    bench.refused(&["tall.npy", "wide.npy", "-o", "out.npy"], 4, &words);
    bench.run(&["wide.npy", "tall.npy", "-o", "dot.npy"]).fine();
    bench.assert_holds("dot.npy", &Mat::new(1, 1, |_, _| 0.0), Float::F32);
}

/// A limit that the machine's free memory does not show: the allocation itself fails.
#[cfg(target_os = "linux")]
#[test]
fn an_allocation_that_fails_is_no_abort() {
    let bench = Bench::new();
    let rows = 1 << 28;
    bench.put("tall.npy", &npy("'<f4'", false, &format!("({rows}, 1)"), &[]));
    let tall = fs::OpenOptions::new().write(true).open(bench.path("tall.npy")).expect("opened");
    tall.set_len(128 + 4 * rows).expect("a file of holes");
    bench.put("one.npy", &npy("'<f4'", false, "(1, 1)", &[0; 4]));
    let program = super::program();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "ulimit -v 900000; exec \"$0\" multiply tall.npy one.npy -o out.npy"]);
    shell.arg(program).current_dir(bench.0.path());
    shell.env("TESSERA_LIBCUDA", "/nonexistent").env("RAYON_NUM_THREADS", "1");
    end(&mut shell).refused(4, &["bytes"]);
    assert!(!bench.path("out.npy").exists());
}

/// The units that a product is computed by are the user's to choose, and what computed it is named.
#[test]
fn units_are_what_the_user_asked_for() {
    let folder = TempDir::new().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (n, file) = (300, path("a.npy"));
    let a = ndarray::Array2::from_shape_fn((n, n), |(row, col)| (row * 7 + col) as f32 / 1e3);
    ndarray_npy::write_npy(&file, &a).expect("written");
    let by = |units: &[&str]| {
        let out = path("c.npy");
        let args = ["multiply", &file, &file, "-o", &out, "--device", "cpu", "--threads", "1"];
        let ended = tessera(&[&args[..], units].concat());
        let name = ["cpu_amx", "cpu_packed"].into_iter().find(|name| ended.stderr.contains(name));
        let name = name.unwrap_or_else(|| panic!("{ended}"));
        (name, ndarray_npy::read_npy::<_, ndarray::Array2<f32>>(&out).expect("a file"))
    };
    let chain = by(&["--cpu-units", "vector"]);
    assert_eq!(by(&["--cpu-units", "same-bits"]), chain);
    assert_eq!(chain.0, "cpu_packed");
    let all = by(&[]);
    let has_units = on_the_cpu(Types::F32).contains(&"cpu_amx");
    assert_eq!(all.0, if has_units { "cpu_amx" } else { "cpu_packed" });
    assert_eq!(by(&["--cpu-units", "all"]), all);
    let relative = |x: f32, y: f32| (x - y).abs() / y.max(1.0);
    assert!(all.1.iter().zip(&chain.1).all(|(&x, &y)| relative(x, y) < 1e-4));

    let typo = ["multiply", &file, &file, "-o", &path("d.npy"), "--cpu-units", "tensor"];
    tessera(&typo).refused(2, &["tensor", "vector, same-bits, all"]);
    let mut told = command(&["multiply", &file, &file, "-o", &path("d.npy")]);
    let told = end(told.env("TESSERA_CPU_UNITS", "tensor"));
    told.refused(
        2,
        &["TESSERA_CPU_UNITS", "vector, same-bits, all, tf32, bf16, exact-rounded or tiles"],
    );
}
