//! What the environment says of devices: where a process computes, what it leaves in its log, what becomes of variables
//! that say nothing, of machines without a driver and of children. Each case is a process of its own, which runs one of
//! the ignored tests.

#![cfg(target_os = "linux")]

use std::process::{Command, Output};

use cblas_sys::{CblasColMajor, CblasNoTrans, cblas_dgemm};
use tessera::Layout;
use tessera::gpu::{Context, DeviceMatRef, DeviceMatrix, Stream};
use tessera_blas as _;

/// A process of this program that runs a test with variables.
fn started(test: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().expect("a program has a path"));
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    for name in ["TESSERA_BLAS_DEVICE", "TESSERA_BLAS_ACCURACY", "TESSERA_BLAS_LOG"] {
        command.env_remove(name);
    }
    command.env("TESSERA_LIBCUDA", "/nonexistent/libcuda.so.1").env("TESSERA_NUM_THREADS", "2");
    command.envs(variables.iter().copied()).output().expect("it starts")
}

/// The same, which passes.
fn process(test: &str, variables: &[(&str, &str)]) -> Output {
    let output = started(test, variables);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test}: {told}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{test}: {told}");
    output
}

/// What the library says in such a process, without who says it.
fn said(test: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let output = process(test, variables);
    let text = String::from_utf8(output.stderr).expect("it is text");
    let own = text.lines().filter_map(|line| line.strip_prefix("tessera-blas["));
    own.map(|line| line.split_once("]: ").expect("who says it").1.to_owned()).collect()
}

/// Fails unless a product of that many rows, 40 columns and 2 steps is right.
fn multiply(rows: i32) {
    let (m, k, n) = (usize::try_from(rows).expect("a size"), 2, 40);
    let a: Vec<f64> = (0..m * k).map(|at| (at % 7) as f64).collect();
    let b: Vec<f64> = (0..k * n).map(|at| (at % 5) as f64).collect();
    let mut c = vec![f64::NAN; m * n];
    let plain = CblasNoTrans;
    // SAFETY: matrices of these sizes.
    unsafe {
        let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
        cblas_dgemm(CblasColMajor, plain, plain, rows, 40, 2, 1.0, a, rows, b, 2, 0.0, c, rows);
    }
    for (at, &element) in c.iter().enumerate() {
        let (row, col) = (at % m, at / m);
        assert_eq!(element, a[row] * b[2 * col] + a[row + m] * b[2 * col + 1]);
    }
}

#[test]
#[ignore = "a process of its own runs it"]
fn two_products() {
    multiply(30);
    multiply(31);
}

#[test]
#[ignore = "a process of its own runs it"]
fn two_products_with_a_driver() {
    cuda_emulated::install();
    two_products();
}

/// Of as much work as a GPU is opened for, then of little.
#[test]
#[ignore = "a process of its own runs it"]
fn a_large_product_and_a_small_one() {
    cuda_emulated::install();
    let n = 512;
    let (a, b) = (vec![1.0; 512 * 512], vec![2.0; 512 * 512]);
    let mut c = vec![f64::NAN; 512 * 512];
    let plain = CblasNoTrans;
    // SAFETY: matrices of these sizes.
    unsafe {
        let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
        cblas_dgemm(CblasColMajor, plain, plain, n, n, n, 1.0, a, n, b, n, 0.0, c, n);
    }
    assert!(c.iter().all(|&element| element == 1024.0));
    multiply(30);
}

#[test]
#[ignore = "a process of its own runs it"]
fn a_product_that_is_too_large_for_the_device() {
    cuda_emulated::install();
    // C has more bytes than the device.
    let rows = cuda_emulated::MEMORY_BYTES / (40 * size_of::<f64>()) + 1;
    multiply(i32::try_from(rows).expect("it fits"));
    multiply(30);
}

/// Queues a product of more elements than there are, and waits: all calls of the driver fail from then on.
fn break_the_device() {
    let stream = Stream::new(&Context::primary(0).expect("a device")).expect("a stream");
    let short = DeviceMatrix::<f32>::zeros(&stream, 8, 8).expect("memory");
    let mut c = DeviceMatrix::<f32>::zeros(&stream, 4096, 64).expect("memory");
    let long = Layout::row_major(64);
    // SAFETY: not as asked for: the emulator sees each access.
    let a = unsafe { DeviceMatRef::from_raw(stream.context(), short.address(), 4096, 64, long) };
    let a: DeviceMatRef<'_, f32> = a.expect("it has a layout");
    let b = a.part(0..64, 0..64).expect("a part");
    stream.gemm(1.0, a, b, 0.0, &mut c.view_mut()).expect("it is queued");
    stream.synchronize().expect_err("the device fails");
    // What is left of it cannot be freed.
    std::mem::forget((short, c, stream));
}

#[test]
#[ignore = "a process of its own runs it"]
fn products_after_a_fault() {
    cuda_emulated::install();
    multiply(30);
    break_the_device();
    multiply(31);
    multiply(32);
}

#[test]
#[ignore = "a process of its own runs it"]
fn a_product_in_place_that_fails() {
    cuda_emulated::install();
    let driver = cuda_lazy::load().expect("a driver");
    driver.init().expect("it starts");
    let device = driver.device(0).expect("a device");
    let context = cuda_lazy::Context::primary(driver, device).expect("a context");
    let memory = cuda_lazy::DeviceMemory::new(&context, 4096).expect("memory");
    let address = usize::try_from(memory.address()).expect("an address");
    let (at, n, plain): (*mut f64, _, _) =
        (std::ptr::without_provenance_mut(address), 100, CblasNoTrans);
    // SAFETY: not as asked for: there are fewer elements, and the emulator sees each access.
    unsafe {
        cblas_dgemm(CblasColMajor, plain, plain, n, n, n, 1.0, at, n, at, n, 0.0, at, n);
    }
}

#[test]
#[ignore = "a process of its own runs it"]
fn a_product_here_and_in_a_child() {
    cuda_emulated::install();
    multiply(30);
    // SAFETY: the child multiplies, and ends without a word to what it has of the parent.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let right = std::panic::catch_unwind(|| multiply(31)).is_ok();
        // SAFETY: nothing is to be cleaned up.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = -1;
    // SAFETY: the child's number, and room for its status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    multiply(32);
}

#[test]
#[ignore = "a process of its own runs it"]
fn a_product_after_which_there_is_no_driver() {
    multiply(400);
    let maps = std::fs::read_to_string("/proc/self/maps").expect("this system has it");
    assert!(!maps.contains("libcuda"), "{maps}");
}

const FORCED: (&str, &str) = ("TESSERA_BLAS_DEVICE", "cuda:0");
const LOG: (&str, &str) = ("TESSERA_BLAS_LOG", "stderr");

/// Fails unless there is a line for each product, in order, with these words.
fn check(lines: &[String], words: &[[&str; 2]]) {
    assert_eq!(lines.len(), words.len(), "{lines:#?}");
    for (line, [place, why]) in lines.iter().zip(words) {
        assert!(line.contains(place) && line.contains(why), "{place}, {why}: {line}");
    }
}

#[test]
fn nothing_is_said_unasked() {
    assert!(said("two_products", &[]).is_empty());
    assert!(said("two_products", &[FORCED]).is_empty());
}

#[test]
fn a_line_says_where_a_product_was_computed_and_why() {
    let usual = ["cblas_dgemm 30 x 40 x 2: cpu, ", " s; TESSERA_BLAS_DEVICE is cpu"];
    check(&said("two_products", &[LOG])[..1], &[usual]);
    let units = ("TESSERA_CPU_UNITS", "tiles");
    let in_tiles =
        ["cblas_dgemm 30 x 40 x 2: cpu by matrix units, ", " s; TESSERA_BLAS_DEVICE is cpu"];
    check(&said("two_products", &[LOG, units])[..1], &[in_tiles]);
    let lines = said("two_products_with_a_driver", &[LOG, FORCED]);
    let first = ["cblas_dgemm 30 x 40 x 2: cuda:0 by ", " s"];
    check(&lines, &[first, ["cblas_dgemm 31 x 40 x 2: cuda:0 by ", " s"]]);
    let other = said("two_products_with_a_driver", &[LOG, ("TESSERA_BLAS_DEVICE", "cuda:1")]);
    check(&other, &[[": cuda:1 by ", " s"]; 2]);
}

#[test]
fn each_product_goes_where_it_should_end_first() {
    let auto = [("TESSERA_BLAS_DEVICE", "auto"), ("TESSERA_NUM_THREADS", "1"), LOG];
    let lines = said("a_large_product_and_a_small_one", &auto);
    check(&lines, &[[": cuda:0 by ", "; predicted "], [": cpu, ", "; predicted "]]);
}

#[test]
fn lines_are_appended_to_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    std::fs::write(&path, "what was there\n").expect("it can be written");
    let to = path.to_str().expect("a text");
    assert!(said("two_products", &[("TESSERA_BLAS_LOG", to)]).is_empty());
    let text = std::fs::read_to_string(&path).expect("it is there");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((lines[0], lines.len()), ("what was there", 3), "{text}");
    assert!(lines[2].contains("cblas_dgemm 31 x 40 x 2: cpu, "), "{text}");
}

#[test]
fn without_a_driver_the_cpu_computes() {
    let lines = said("two_products", &[LOG, FORCED]);
    check(&lines, &[[": cpu, ", "no CUDA device: TESSERA_LIBCUDA names a library"]; 2]);
    let none = [("TESSERA_BLAS_DEVICE", "cuda:7"), LOG];
    check(&said("two_products_with_a_driver", &none), &[[": cpu, ", "no CUDA device 7"]; 2]);
}

#[test]
fn what_does_not_fit_the_device_is_computed_by_the_cpu() {
    let lines = said("a_product_that_is_too_large_for_the_device", &[LOG, FORCED]);
    check(&lines, &[[": cpu, ", "bytes"], [": cuda:0 by ", " s"]]);
}

/// The first product that meets the fault is computed by the CPU, and so are all that follow.
#[test]
fn a_device_that_fails_is_given_up() {
    let lines = said("products_after_a_fault", &[LOG, FORCED]);
    let failed = [": cpu, ", " failed: "];
    check(&lines, &[[": cuda:0 by ", " s"], failed, [": cpu, ", "; given up: "]]);
}

/// Nobody knows what is in C: the process ends, and says why.
#[test]
fn a_product_that_was_lost_ends_the_process() {
    use std::os::unix::process::ExitStatusExt as _;

    let output = started("a_product_in_place_that_fails", &[FORCED]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{told}");
    assert!(told.contains("]: cblas_dgemm: waiting for a stream failed: "), "{told}");
}

#[test]
fn a_child_stays_on_the_cpu() {
    let lines = said("a_product_here_and_in_a_child", &[LOG, FORCED]);
    let forked = "the process was forked after its parent had used a GPU";
    let [parent, child, again] =
        [["30 x", ": cuda:0 by "], [": cpu, ", forked], ["32 x", ": cuda"]];
    check(&lines, &[parent, child, again]);
    assert!(lines[1].contains("31 x"), "{lines:?}");
}

/// Whatever the variable says, no driver is loaded before a product is worth it.
#[test]
fn nothing_of_cuda_is_loaded_for_small_products() {
    let beside = std::env::current_exe().expect("a path");
    let driver = beside.with_file_name("libemulated_libcuda.so");
    let driver = driver.to_str().expect("a text");
    for device in ["cpu", "auto"] {
        let variables = [("TESSERA_BLAS_DEVICE", device), ("TESSERA_LIBCUDA", driver), LOG];
        let lines = said("a_product_after_which_there_is_no_driver", &variables);
        check(&lines, &[[": cpu, ", if device == "cpu" { "is cpu" } else { "too little work" }]]);
    }
}

#[test]
fn variables_that_say_nothing_are_told_once() {
    for (name, value, words) in [
        ("TESSERA_BLAS_DEVICE", "gpu", "`gpu` is none of cpu, auto, cuda and cuda:0"),
        ("TESSERA_BLAS_ACCURACY", "exact", "`exact` is none of bf16, tf32, fp32, componentwise"),
        ("TESSERA_CPU_UNITS", "tensor", "`tensor` is none of vector, same-bits, all"),
        ("TESSERA_BLAS_LOG", "/nonexistent/log", "`/nonexistent/log` cannot be opened to append"),
    ] {
        let lines = said("two_products", &[(name, value)]);
        check(&lines, &[[&format!("{name} is not used: "), words]]);
    }
}
