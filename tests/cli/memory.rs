//! Memory that is not there: refused with its size, before anything is computed, and never an abort.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{Ended, end, program, tessera};

/// A run that may have that many KiB of address space.
fn limited(folder: &Path, kib: usize, line: &str) -> Ended {
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &format!("ulimit -v {kib}; exec \"$0\" \"$@\"")]).arg(program());
    shell.args(line.split(' ')).current_dir(folder);
    // Threads take address space, too: an allocator's arena each, or not, as it happens.
    shell.env("TESSERA_LIBCUDA", "/nonexistent").env("RAYON_NUM_THREADS", "1");
    shell.env("MALLOC_ARENA_MAX", "1");
    end(&mut shell)
}

/// A column or row of zeros.
fn thin(rows: usize, cols: usize) -> Vec<u8> {
    let mut header =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {cols}), }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend(u16::try_from(header.len()).expect("short").to_le_bytes());
    file.extend(header.bytes());
    file.resize(file.len() + 4 * rows * cols, 0);
    file
}

#[test]
fn what_a_check_keeps_is_counted() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    fs::write(path.join("a.npy"), thin(5000, 1)).expect("written");
    fs::write(path.join("b.npy"), thin(1, 5000)).expect("written");
    // C is 100 MB, its reference four times as much.
    let words = [
        "a product of 5000 x 5000 x 1 with every element checked needs 500040000 bytes",
        "of the 491520000 bytes of address space (RLIMIT_AS, `ulimit -v`)",
    ];
    let run = "-m 5000 -n 5000 -k 1 --kernel serial --check full";
    limited(path, 480_000, run).refused(4, &words);
    let multiply = "multiply a.npy b.npy -o c.npy --check full";
    limited(path, 480_000, multiply).refused(4, &words);
    assert!(!path.join("c.npy").exists());
    assert_eq!(fs::read_dir(path).expect("listed").count(), 2);
    limited(path, 480_000, "multiply a.npy b.npy -o c.npy").fine();
}

#[test]
fn what_random_vectors_keep_is_an_error_where_it_is_not_there() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path();
    // Four times f64 for each row is 256 MB, A and C together are 64 MB.
    fs::write(path.join("a.npy"), thin(8_000_000, 1)).expect("written");
    fs::write(path.join("b.npy"), thin(1, 1)).expect("written");
    let line = "multiply a.npy b.npy -o c.npy --check freivalds";
    let ended = limited(path, 320_000, line);
    assert_eq!(ended.code, Some(4), "{ended}");
    let why = "written without its check: the check by random vectors needs ";
    let (_, needed) = ended.stderr.split_once(why).unwrap_or_else(|| panic!("{ended}"));
    assert!(needed.contains(" bytes"), "{ended}");
    assert!(path.join("c.npy").exists());
    // The product of a NaN is checked without a copy of C, which would be 100 MB more.
    let mut column = thin(5000, 1);
    let last = column.len() - 4;
    column[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(path.join("a.npy"), column).expect("written");
    fs::write(path.join("b.npy"), thin(1, 5000)).expect("written");
    limited(path, 320_000, line).fine();
}

#[test]
fn a_benchmark_counts_its_operands() {
    let folder = TempDir::new().expect("a folder");
    // C and the one that runs write, 576 MB each; the limit is between one and two of them.
    let line = "bench -m 12000 -n 12000 -k 1 --kernel cpu_packed --time 0.1 --check none";
    limited(folder.path(), 900_000, line)
        .refused(4, &["a benchmark of 12000 x 12000 x 1", "1152096000 bytes"]);
    // No address space is meant here, but all the memory that there is.
    let line = "bench -m 3000000 -n 3000000 -k 1 --kernel serial --time 0.1 --check none";
    tessera(&line.split(' ').collect::<Vec<_>>())
        .refused(4, &["a benchmark of 3000000 x 3000000 x 1"]);
}

#[test]
fn data_for_accuracy_are_counted() {
    tessera(&["accuracy", "-k", "16,9999999999", "--device", "cpu"])
        .refused(4, &["a product of 256 x 256 x 9999999999", "bytes"]);
}
