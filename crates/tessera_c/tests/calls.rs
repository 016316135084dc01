//! Calls as programs make them: every product of the list, wrong arguments, many threads.

#![cfg(unix)]
#![expect(clippy::cast_possible_truncation, reason = "small whole numbers")]

use std::ffi::{CStr, c_char};
use std::ptr::{null, null_mut};

use gemm_spec::{GemmTypes, Types, with_gemm_types};
use tessera::{bf16, f16};
use tessera_c::*;

trait Number: Copy + PartialEq + std::fmt::Debug {
    fn of(number: f64) -> Self;
}

macro_rules! numbers {
    ($($type:ty: $of:expr;)*) => {$(
        impl Number for $type {
            fn of(number: f64) -> Self {
                $of(number)
            }
        }
    )*};
}

numbers! {
    f32: |x| x as f32;
    f64: |x| x;
    i32: |x| x as i32;
    i8: |x| x as i8;
    f16: f16::from_f64;
    bf16: bf16::from_f64;
}

fn matrix<T>(
    dtype: i32,
    data: *const T,
    rows: usize,
    cols: usize,
    strides: [isize; 2],
) -> tessera_matrix {
    tessera_matrix {
        size: size_of::<tessera_matrix>(),
        data: data.cast_mut().cast(),
        rows,
        cols,
        row_stride: strides[0],
        col_stride: strides[1],
        dtype,
        reserved: 0,
    }
}

fn last_error() -> String {
    // SAFETY: the message of this thread, which stays while nothing fails.
    unsafe { CStr::from_ptr(tessera_last_error()) }.to_string_lossy().into_owned()
}

struct Engine(*mut tessera_engine);

impl Engine {
    fn new(threads: usize) -> Self {
        let mut engine = null_mut();
        let options = tessera_engine_options {
            size: size_of::<tessera_engine_options>(),
            device: TESSERA_DEVICE_CPU,
            device_index: 0,
            threads,
            accuracy: TESSERA_ACCURACY_COMPONENTWISE,
            units: TESSERA_UNITS_SAME_BITS,
            deterministic: 1,
            reserved: 0,
        };
        // SAFETY: both point to what they should.
        let status = unsafe { tessera_engine_create(&raw const options, &raw mut engine) };
        assert_eq!(status, TESSERA_SUCCESS, "{}", last_error());
        Self(engine)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: made above, and nobody else has it.
        unsafe { tessera_engine_destroy(self.0) };
    }
}

// SAFETY: any number of threads may use an engine at once.
unsafe impl Sync for Engine {}

#[test]
fn every_product_of_the_list() {
    fn of<T: GemmTypes<A: Number, B: Number, C: Number>>(engine: &Engine) {
        let (m, n, k) = (3, 4, 5);
        let value = |row: usize, col: usize| ((row + 2 * col) % 4) as f64;
        let a: Vec<T::A> = (0..m * k).map(|at| T::A::of(value(at / k, at % k))).collect();
        // Backward columns: the last is the first.
        let b: Vec<T::B> = (0..k * n).map(|at| T::B::of(value(at % k, n - 1 - at / k))).collect();
        let mut c = vec![T::C::of(2.0); m * n];
        let [of_a, of_b, of_c] = [T::TYPES.a(), T::TYPES.b(), T::TYPES.c()].map(number_of);
        let a = matrix(of_a, a.as_ptr(), m, k, [k as isize, 1]);
        let b = matrix(of_b, b[k * (n - 1)..].as_ptr(), k, n, [1, -(k as isize)]);
        let to = matrix(of_c, c.as_mut_ptr(), m, n, [n as isize, 1]);
        // SAFETY: the vectors hold the matrices.
        let status =
            unsafe { tessera_gemm(engine.0, 2.0, &raw const a, &raw const b, -1.0, &raw const to) };
        assert_eq!(status, TESSERA_SUCCESS, "{}: {}", T::TYPES, last_error());
        for row in 0..m {
            for col in 0..n {
                let sum: f64 = (0..k).map(|p| value(row, p) * value(p, col)).sum();
                assert_eq!(c[row * n + col], T::C::of(2.0 * sum - 2.0), "{} {row} {col}", T::TYPES);
            }
        }
    }
    let engine = Engine::new(2);
    for types in Types::ALL {
        with_gemm_types!(types, T => of::<T>(&engine));
    }
}

#[test]
fn many_threads_share_an_engine_and_the_process_has_one() {
    let engine = Engine::new(2);
    // SAFETY: an engine, and null.
    assert_eq!(unsafe { tessera_engine_threads(engine.0) }, 2);
    // SAFETY: null is the one of the process.
    assert!(unsafe { tessera_engine_threads(null()) } >= 1);
    let shared = &engine;
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                let n = 96;
                let (a, mut c) = (vec![f64::from(thread); n * n], vec![f64::NAN; n * n]);
                let strides = [n as isize, 1];
                let (of_a, of_c) = (
                    matrix(TESSERA_F64, a.as_ptr(), n, n, strides),
                    matrix(TESSERA_F64, c.as_mut_ptr(), n, n, strides),
                );
                let engine = if thread % 2 == 0 { shared.0.cast_const() } else { null() };
                for _ in 0..20 {
                    // SAFETY: the vectors hold the matrices.
                    let status = unsafe {
                        tessera_gemm(
                            engine,
                            1.0,
                            &raw const of_a,
                            &raw const of_a,
                            0.0,
                            &raw const of_c,
                        )
                    };
                    assert_eq!(status, TESSERA_SUCCESS);
                }
                assert!(c.iter().all(|&it| it == f64::from(thread * thread) * n as f64));
            });
        }
    });
}

/// The parent's threads are not the child's: with its engine the child would wait for ever.
#[test]
fn a_child_has_an_engine_of_its_own() {
    let n = 256;
    let multiply = || {
        let (a, mut c) = (vec![1.0f64; n * n], vec![f64::NAN; n * n]);
        let a = matrix(TESSERA_F64, a.as_ptr(), n, n, [n as isize, 1]);
        let to = matrix(TESSERA_F64, c.as_mut_ptr(), n, n, [n as isize, 1]);
        // SAFETY: the vectors hold the matrices.
        let status =
            unsafe { tessera_gemm(null(), 1.0, &raw const a, &raw const a, 0.0, &raw const to) };
        status == TESSERA_SUCCESS && c.iter().all(|&it| it == n as f64)
    };
    assert!(multiply());
    // SAFETY: the child multiplies and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let right = multiply();
        // SAFETY: nothing is to be cleaned up.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let (mut status, begun) = (-1, std::time::Instant::now());
    // SAFETY: the child's number, and room for its status.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if begun.elapsed().as_secs() > 30 {
            // SAFETY: a child of this test's own.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(status, 0);
}

#[test]
fn options_batch_complex_factors_and_threads() {
    let engine = Engine::new(2);
    let a = [[0.0f64, 1.0], [2.0, 0.0], [0.0, -3.0]];
    let mut c = [[f64::NAN; 2]; 3];
    let of_a = matrix(TESSERA_COMPLEX128, a.as_ptr(), 1, 1, [1, 1]);
    let to = matrix(TESSERA_COMPLEX128, c.as_mut_ptr(), 1, 1, [1, 1]);
    let batch = tessera_batch {
        size: size_of::<tessera_batch>(),
        count: 3,
        a_stride: 1,
        b_stride: 0,
        c_stride: 1,
    };
    let options = tessera_gemm_options {
        size: size_of::<tessera_gemm_options>(),
        alpha: 0.0,
        alpha_imaginary: 1.0,
        beta: 0.0,
        beta_imaginary: 0.0,
        threads: 1,
        batch: &raw const batch,
        epilogue: null(),
        numbers: null(),
    };
    let (options, a, c_) = (&raw const options, &raw const of_a, &raw const to);
    // SAFETY: the arrays hold the matrices.
    let status = unsafe { tessera_gemm_with(engine.0, options, a, a, c_) };
    assert_eq!(status, TESSERA_SUCCESS, "{}", last_error());
    // i * a * i
    assert_eq!(c, [[-0.0, -1.0], [-2.0, 0.0], [0.0, 3.0]]);
    let mut text = [0x7f as c_char; 30];
    // SAFETY: as above, and there is room for 29 bytes.
    let status = unsafe { tessera_explain(engine.0, options, a, a, c_, text.as_mut_ptr(), 29) };
    assert_eq!(status, TESSERA_SUCCESS);
    // SAFETY: a zero byte was written.
    let words = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned();
    assert_eq!(words, "3 x 1 x 1 on cpu (vector uni");
    assert_eq!(text[29], 0x7f, "behind the room");
}

/// `C = relu(row_scale * A B + C + bias)` of two products, of f32, f64 and 16-bit floats, and the largest magnitude.
#[test]
fn products_are_finished_by_epilogues() {
    fn of<T: Number>(engine: &Engine, dtype: i32, single: bool) {
        let numbers = |all: &[f64]| -> Vec<T> { all.iter().map(|&it| T::of(it)).collect() };
        let a = numbers(&[1.0, 2.0, 3.0, 4.0, -1.0, 0.0, 0.0, 1.0]);
        let b = numbers(&[1.0, 0.0, 1.0, 0.0, 1.0, 1.0]);
        let mut c = numbers(&[10.0; 12]);
        let bias = numbers(&[0.0, -20.0, 1.0]);
        let (single_scales, double_scales) = ([2.0f32, -3.0], [2.0f64, -3.0]);
        let mut largest = f32::NAN;
        let of_a = matrix(dtype, a.as_ptr(), 2, 2, [2, 1]);
        let of_b = matrix(dtype, b.as_ptr(), 2, 3, [3, 1]);
        let to = matrix(dtype, c.as_mut_ptr(), 2, 3, [3, 1]);
        let size = size_of::<tessera_batch>();
        let batch = tessera_batch { size, count: 2, a_stride: 4, b_stride: 0, c_stride: 6 };
        let epilogue = tessera_epilogue {
            size: size_of::<tessera_epilogue>(),
            activation: TESSERA_ACTIVATION_RELU,
            bias: TESSERA_BIAS_PER_COLUMN,
            row_scales: 1,
            column_scales: 0,
            amax: i32::from(single),
            device_scalars: 0,
            bias_stride: 0,
        };
        let scales = (single_scales.as_ptr().cast(), double_scales.as_ptr().cast());
        let given = tessera_epilogue_numbers {
            size: size_of::<tessera_epilogue_numbers>(),
            bias: bias.as_ptr().cast(),
            row_scales: if single { scales.0 } else { scales.1 },
            column_scales: null(),
            scalars: null(),
            amax: (&raw mut largest).cast(),
        };
        let options = tessera_gemm_options {
            size: size_of::<tessera_gemm_options>(),
            alpha: 1.0,
            alpha_imaginary: 0.0,
            beta: 1.0,
            beta_imaginary: 0.0,
            threads: 0,
            batch: &raw const batch,
            epilogue: &raw const epilogue,
            numbers: &raw const given,
        };
        let run = |options: &tessera_gemm_options| {
            let (a, b, to) = (&raw const of_a, &raw const of_b, &raw const to);
            // SAFETY: the arrays hold the matrices and numbers; or what is refused.
            unsafe { tessera_gemm_with(engine.0, options, a, b, to) }
        };
        let refused = |options: &tessera_gemm_options, status: i32, words: &str| {
            let (found, message) = (run(options), last_error());
            assert!(found == status && message.contains(words), "{found}: {message}");
        };
        let with = |epilogue: &tessera_epilogue, given: &tessera_epilogue_numbers| {
            let numbers: *const tessera_epilogue_numbers = given;
            tessera_gemm_options { epilogue, numbers, ..options }
        };
        let none = tessera_gemm_options { numbers: null(), ..options };
        let missing =
            if single { "amax of the epilogue's numbers is null" } else { "bias are null" };
        refused(&none, TESSERA_INVALID_ARGUMENT, missing);
        let unscaled = tessera_epilogue_numbers { row_scales: null(), ..given };
        refused(&with(&epilogue, &unscaled), TESSERA_INVALID_ARGUMENT, "row_scales are null");
        let strided = tessera_epilogue { bias_stride: 3, ..epilogue };
        refused(&with(&strided, &given), TESSERA_UNSUPPORTED, "bias_stride of an epilogue is for");
        let scalars = tessera_epilogue { device_scalars: 1, ..epilogue };
        refused(&with(&scalars, &given), TESSERA_UNSUPPORTED, "are for products on a device");
        assert_eq!(c, numbers(&[10.0; 12]));

        assert_eq!(run(&options), TESSERA_SUCCESS, "{}", last_error());
        // A B is 1 2 3, 3 4 7 and -1 0 -1, 0 1 1.
        let right = [12.0, 0.0, 17.0, 1.0, 0.0, 0.0, 8.0, 0.0, 9.0, 10.0, 0.0, 8.0];
        assert_eq!(c, numbers(&right));
        assert!(if single { largest == 17.0 } else { largest.is_nan() });
    }
    let engine = Engine::new(2);
    of::<f32>(&engine, TESSERA_F32, true);
    of::<f64>(&engine, TESSERA_F64, false);
    of::<f16>(&engine, TESSERA_F16, true);
    of::<bf16>(&engine, TESSERA_BF16, true);
}

#[test]
fn wrong_arguments_have_a_status_and_a_line_and_nothing_is_written() {
    let engine = Engine::new(1);
    let data = [1f32; 4];
    let mut out = [7f32; 4];
    let a = matrix(TESSERA_F32, data.as_ptr(), 2, 2, [2, 1]);
    let c = matrix(TESSERA_F32, out.as_mut_ptr(), 2, 2, [2, 1]);
    let call = |alpha: f64, a: *const tessera_matrix, c: *const tessera_matrix| {
        // SAFETY: the arrays hold what is read of the matrices.
        let status = unsafe { tessera_gemm(engine.0, alpha, a, a, 0.0, c) };
        (status, last_error())
    };
    let gives = |found: (i32, String), status: i32, words: &str| {
        assert_eq!((found.0, found.1.contains(words)), (status, true), "{found:?}");
    };
    gives(call(1.0, null(), &raw const c), TESSERA_INVALID_ARGUMENT, "A is null");
    gives(call(1.0, &raw const a, null()), TESSERA_INVALID_ARGUMENT, "C is null");
    gives(call(1e300, &raw const a, &raw const c), TESSERA_INVALID_ARGUMENT, "alpha is 1");
    let with = |change: &dyn Fn(&mut tessera_matrix)| {
        let mut other = a;
        change(&mut other);
        call(1.0, &raw const other, &raw const c)
    };
    gives(
        with(&|it| it.size = 3),
        TESSERA_INVALID_ARGUMENT,
        "size is 3, it must be sizeof(tessera_matrix)",
    );
    gives(with(&|it| it.dtype = 0), TESSERA_INVALID_ARGUMENT, "dtype of A is 0");
    gives(with(&|it| it.reserved = 1), TESSERA_INVALID_ARGUMENT, "A: reserved is not 0");
    gives(with(&|it| it.data = null_mut()), TESSERA_INVALID_ARGUMENT, "data of A is null");
    gives(with(&|it| it.row_stride = isize::MAX), TESSERA_INVALID_ARGUMENT, "a stride of A");
    gives(with(&|it| it.rows = 3), TESSERA_INVALID_SIZE, "as many columns");
    gives(with(&|it| it.dtype = TESSERA_F64), TESSERA_UNSUPPORTED, "f64 by f64 with a C of f32");
    gives(with(&|it| (it.rows, it.cols) = (1 << 62, 1 << 62)), TESSERA_INVALID_SIZE, "");
    assert_eq!(out, [7.0; 4]);

    let mut made = null_mut();
    let mut options: tessera_engine_options = tessera_engine_options {
        size: size_of::<tessera_engine_options>(),
        device: 9,
        device_index: 0,
        threads: 1,
        accuracy: 0,
        units: 0,
        deterministic: 0,
        reserved: 0,
    };
    let mut create = |options: &tessera_engine_options| {
        // SAFETY: both point to what they should.
        let status = unsafe { tessera_engine_create(options, &raw mut made) };
        assert!(made.is_null() || status == TESSERA_SUCCESS);
        (status, last_error())
    };
    gives(
        create(&options),
        TESSERA_INVALID_ARGUMENT,
        "device is 9, which is none of TESSERA_DEVICE_*",
    );
    (options.device, options.accuracy) = (TESSERA_DEVICE_CPU, 9);
    gives(create(&options), TESSERA_INVALID_ARGUMENT, "accuracy is 9");
    (options.accuracy, options.units) = (0, 9);
    gives(create(&options), TESSERA_INVALID_ARGUMENT, "units is 9");
    (options.units, options.device, options.device_index) = (0, TESSERA_DEVICE_CUDA, 4_000_000_000);
    gives(create(&options), TESSERA_NO_DEVICE, "CUDA device");
    // SAFETY: null is nothing to destroy, and no room for an engine.
    unsafe { tessera_engine_destroy(null_mut()) };
    // SAFETY: as above.
    assert_eq!(unsafe { tessera_engine_create(null(), null_mut()) }, TESSERA_INVALID_ARGUMENT);
}

#[test]
fn texts_are_never_null() {
    for status in [TESSERA_SUCCESS, TESSERA_INTERNAL_ERROR, -5, i32::MAX] {
        assert!(!tessera_status_string(status).is_null());
    }
    // SAFETY: a constant text.
    let version = unsafe { CStr::from_ptr(tessera_version()) };
    assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
}
