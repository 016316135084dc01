//! Calls as programs make them: by Fortran's names and C's, with wrong arguments, from many threads, in a child.

#![cfg(target_os = "linux")]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use tessera_blas as _;

mod guarded;

use guarded::Guarded;

unsafe extern "C-unwind" {
    fn dgemm_(
        op_a: &u8,
        op_b: &u8,
        m: &i32,
        n: &i32,
        k: &i32,
        alpha: &f64,
        a: *const f64,
        lda: &i32,
        b: *const f64,
        ldb: &i32,
        beta: &f64,
        c: *mut f64,
        ldc: &i32,
    );
    fn dgemm_64_(
        op_a: &u8,
        op_b: &u8,
        m: &i64,
        n: &i64,
        k: &i64,
        alpha: &f64,
        a: *const f64,
        lda: &i64,
        b: *const f64,
        ldb: &i64,
        beta: &f64,
        c: *mut f64,
        ldc: &i64,
    );
    fn cblas_sgemm(
        layout: i32,
        op_a: i32,
        op_b: i32,
        m: i32,
        n: i32,
        k: i32,
        alpha: f32,
        a: *const f32,
        lda: i32,
        b: *const f32,
        ldb: i32,
        beta: f32,
        c: *mut f32,
        ldc: i32,
    );
    fn cblas_dgemm(
        layout: i32,
        op_a: i32,
        op_b: i32,
        m: i32,
        n: i32,
        k: i32,
        alpha: f64,
        a: *const f64,
        lda: i32,
        b: *const f64,
        ldb: i32,
        beta: f64,
        c: *mut f64,
        ldc: i32,
    );
    fn cblas_dgemm64_(
        layout: i32,
        op_a: i32,
        op_b: i32,
        m: i64,
        n: i64,
        k: i64,
        alpha: f64,
        a: *const f64,
        lda: i64,
        b: *const f64,
        ldb: i64,
        beta: f64,
        c: *mut f64,
        ldc: i64,
    );
    fn cblas_dgemm_batch_strided(
        layout: i32,
        op_a: i32,
        op_b: i32,
        m: i32,
        n: i32,
        k: i32,
        alpha: f64,
        a: *const f64,
        lda: i32,
        stride_a: i32,
        b: *const f64,
        ldb: i32,
        stride_b: i32,
        beta: f64,
        c: *mut f64,
        ldc: i32,
        stride_c: i32,
        count: i32,
    );
    fn cblas_dgemm_batch(
        layout: i32,
        op_a: *const i32,
        op_b: *const i32,
        m: *const i32,
        n: *const i32,
        k: *const i32,
        alpha: *const f64,
        a: *const *const f64,
        lda: *const i32,
        b: *const *const f64,
        ldb: *const i32,
        beta: *const f64,
        c: *const *mut f64,
        ldc: *const i32,
        groups: i32,
        group_size: *const i32,
    );
    fn dtrsm_(
        side: &u8,
        uplo: &u8,
        op: &u8,
        diag: &u8,
        m: &i32,
        n: &i32,
        alpha: &f64,
        a: *const f64,
        lda: &i32,
        b: *mut f64,
        ldb: &i32,
    );
    fn dsyrk_(
        uplo: &u8,
        op: &u8,
        n: &i32,
        k: &i32,
        alpha: &f64,
        a: *const f64,
        lda: &i32,
        beta: &f64,
        c: *mut f64,
        ldc: &i32,
    );
    fn dsymm_(
        side: &u8,
        uplo: &u8,
        m: &i32,
        n: &i32,
        alpha: &f64,
        a: *const f64,
        lda: &i32,
        b: *const f64,
        ldb: &i32,
        beta: &f64,
        c: *mut f64,
        ldc: &i32,
    );
}

thread_local! {
    /// What this thread was told of wrong arguments.
    static TOLD: RefCell<Vec<(String, i64)>> = const { RefCell::new(Vec::new()) };
}

fn told() -> Vec<(String, i64)> {
    TOLD.with(RefCell::take)
}

/// The handler of this program. It leaves by unwinding where the argument is the last that it may be.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn xerbla_(name: *const u8, argument: &i32, len: usize) {
    // SAFETY: the name has that many letters, and no zero byte.
    let name = unsafe { std::slice::from_raw_parts(name, len) };
    let name = String::from_utf8(name.to_vec()).expect("it is text");
    TOLD.with(|told| told.borrow_mut().push((name, i64::from(*argument))));
    if *argument == 13 {
        std::panic::resume_unwind(Box::new("out of xerbla"));
    }
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn cblas_xerbla(argument: c_int, name: *const c_char, _: *const c_char) {
    // SAFETY: a string of C.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    TOLD.with(|told| told.borrow_mut().push((name, i64::from(argument))));
}

fn values(len: usize, seed: usize) -> Vec<f64> {
    (0..len).map(|at| ((at * 37 + seed * 11) % 19) as f64 - 9.0).collect()
}

fn int(number: usize) -> i32 {
    number.try_into().expect("it is small")
}

/// A product of square column-major matrices by Fortran's name.
fn product(n: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
    let (mut c, ld) = (vec![f64::NAN; n * n], int(n));
    // SAFETY: three matrices of n by n.
    unsafe {
        dgemm_(
            &b'n',
            &b'N',
            &ld,
            &ld,
            &ld,
            &1.0,
            a.as_ptr(),
            &ld,
            b.as_ptr(),
            &ld,
            &0.0,
            c.as_mut_ptr(),
            &ld,
        );
    }
    c
}

fn product_of_single(n: usize, a: &[f32], b: &[f32]) -> Vec<f32> {
    let (mut c, ld) = (vec![f32::NAN; n * n], int(n));
    let (a, b, to) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
    // SAFETY: three matrices of n by n.
    unsafe { cblas_sgemm(102, 111, 111, ld, ld, ld, 1.0, a, ld, b, ld, 0.0, to, ld) };
    c
}

fn plain(n: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
    let of = |at: usize| (0..n).map(|p| a[at % n + p * n] * b[p + at / n * n]).sum();
    (0..n * n).map(of).collect()
}

#[test]
fn all_spellings_give_the_same() {
    let n = 30;
    let (a, b) = (values(n * n, 1), values(n * n, 2));
    let expected = plain(n, &a, &b);
    assert_eq!(product(n, &a, &b), expected);
    let mut c = vec![f64::NAN; n * n];
    let ld = 30i64;
    // SAFETY: three matrices of n by n.
    unsafe {
        dgemm_64_(
            &b'N',
            &b'n',
            &ld,
            &ld,
            &ld,
            &1.0,
            a.as_ptr(),
            &ld,
            b.as_ptr(),
            &ld,
            &0.0,
            c.as_mut_ptr(),
            &ld,
        );
    }
    assert_eq!(c, expected);
    // Row-major, C^T = B^T * A^T.
    let ld = int(n);
    let mut c = vec![f64::NAN; n * n];
    // SAFETY: three matrices of n by n.
    unsafe {
        cblas_dgemm(
            101,
            111,
            111,
            ld,
            ld,
            ld,
            1.0,
            b.as_ptr(),
            ld,
            a.as_ptr(),
            ld,
            0.0,
            c.as_mut_ptr(),
            ld,
        );
    }
    assert_eq!(c, expected);
    let ld = i64::from(ld);
    let mut c = vec![f64::NAN; n * n];
    // SAFETY: three matrices of n by n.
    unsafe {
        cblas_dgemm64_(
            102,
            111,
            111,
            ld,
            ld,
            ld,
            1.0,
            a.as_ptr(),
            ld,
            b.as_ptr(),
            ld,
            0.0,
            c.as_mut_ptr(),
            ld,
        );
    }
    assert_eq!(c, expected);
}

#[test]
fn batches_are_their_products() {
    let (m, n, k, count) = (4, 3, 5, 6);
    let (a, b) = (values(m * k * count, 1), values(k * n * count, 2));
    // Row-major matrices, one behind the other.
    let expected = |item: usize, at: usize| -> f64 {
        let (a, b) = (&a[item * m * k..], &b[item * k * n..]);
        (0..k).map(|p| a[at / n * k + p] * b[p * n + at % n]).sum()
    };
    let expected: Vec<f64> =
        (0..m * n * count).map(|at| expected(at / (m * n), at % (m * n))).collect();
    let mut c = vec![f64::NAN; m * n * count];
    let sizes = [m, n, k, count].map(int);
    let strides = [m * k, k * n, m * n].map(int);
    // SAFETY: that many matrices, those strides apart.
    unsafe {
        cblas_dgemm_batch_strided(
            101,
            111,
            111,
            sizes[0],
            sizes[1],
            sizes[2],
            1.0,
            a.as_ptr(),
            sizes[2],
            strides[0],
            b.as_ptr(),
            sizes[1],
            strides[1],
            0.0,
            c.as_mut_ptr(),
            sizes[1],
            strides[2],
            sizes[3],
        );
    }
    assert_eq!(c, expected);
    // Two groups of the same shape, of two products and of four.
    let mut c = vec![f64::NAN; m * n * count];
    let pa: Vec<_> = (0..count).map(|item| a[item * m * k..].as_ptr()).collect();
    let pb: Vec<_> = (0..count).map(|item| b[item * k * n..].as_ptr()).collect();
    let first = c.as_mut_ptr();
    let pc: Vec<_> = (0..count).map(|item| first.wrapping_add(item * m * n)).collect();
    let twice = |number: i32| [number; 2];
    // SAFETY: two groups, and as many pointers as they have products.
    unsafe {
        cblas_dgemm_batch(
            101,
            twice(111).as_ptr(),
            twice(111).as_ptr(),
            twice(sizes[0]).as_ptr(),
            twice(sizes[1]).as_ptr(),
            twice(sizes[2]).as_ptr(),
            [1.0; 2].as_ptr(),
            pa.as_ptr(),
            twice(sizes[2]).as_ptr(),
            pb.as_ptr(),
            twice(sizes[1]).as_ptr(),
            [0.0; 2].as_ptr(),
            pc.as_ptr(),
            twice(sizes[1]).as_ptr(),
            2,
            [2, 4].as_ptr(),
        );
    }
    assert_eq!(c, expected);
}

/// Products of a batch one by one, column-major.
fn one_by_one([m, n, k]: [usize; 3], count: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut c = vec![f64::NAN; m * n * count];
    let [rows, cols, inner] = [m, n, k].map(int);
    let factors = a.chunks(m * k).zip(b.chunks(k * n));
    for ((a, b), c) in factors.zip(c.chunks_mut(m * n)) {
        // SAFETY: matrices of these sizes.
        unsafe {
            cblas_dgemm(
                102,
                111,
                111,
                rows,
                cols,
                inner,
                1.5,
                a.as_ptr(),
                rows,
                b.as_ptr(),
                inner,
                0.0,
                c.as_mut_ptr(),
                rows,
            );
        }
    }
    c
}

/// Shapes whose products are computed in tiles where they lie and in packed ones, and enough of them that several
/// threads take part.
const BATCHES: [([usize; 3], usize); 4] =
    [([5, 3, 4], 40_000), ([33, 20, 17], 1000), ([140, 141, 142], 5), ([7, 1, 200], 3000)];

#[test]
fn products_of_a_batch_have_the_bits_that_each_has_alone() {
    for ([m, n, k], count) in BATCHES {
        let drawn =
            |len: usize| -> Vec<f64> { (0..len * count).map(|at| (at as f64).sin()).collect() };
        let (a, b) = (drawn(m * k), drawn(k * n));
        let expected = one_by_one([m, n, k], count, &a, &b);
        let mut c = vec![f64::NAN; m * n * count];
        let [rows, cols, inner] = [m, n, k].map(int);
        let strides = [m * k, k * n, m * n].map(int);
        // SAFETY: that many matrices, those strides apart.
        unsafe {
            cblas_dgemm_batch_strided(
                102,
                111,
                111,
                rows,
                cols,
                inner,
                1.5,
                a.as_ptr(),
                rows,
                strides[0],
                b.as_ptr(),
                inner,
                strides[1],
                0.0,
                c.as_mut_ptr(),
                rows,
                strides[2],
                int(count),
            );
        }
        assert_eq!(c, expected, "{m} x {n} x {k}");
    }
}

#[test]
fn groups_of_a_batch_are_their_products_up_to_a_wrong_one() {
    let drawn = |len: usize| -> Vec<f64> { (0..len).map(|at| (at as f64).cos()).collect() };
    let a: Vec<_> = BATCHES.iter().map(|([m, _, k], count)| drawn(m * k * count)).collect();
    let b: Vec<_> = BATCHES.iter().map(|([_, n, k], count)| drawn(k * n * count)).collect();
    let all = BATCHES.iter().zip(a.iter().zip(&b));
    let expected: Vec<_> =
        all.map(|(&(shape, count), (a, b))| one_by_one(shape, count, a, b)).collect();
    let size = |at: usize| BATCHES.map(|(shape, _)| int(shape[at]));
    let [m, n, k] = [0, 1, 2].map(size);
    for wrong in [None, Some(2)] {
        let mut c: Vec<_> = expected.iter().map(|c| vec![f64::NAN; c.len()]).collect();
        let (mut pa, mut pb, mut pc) = (Vec::new(), Vec::new(), Vec::new());
        for (group, ([m, n, k], count)) in BATCHES.into_iter().enumerate() {
            let c = c[group].as_mut_ptr();
            for item in 0..count {
                pa.push(a[group][item * m * k..].as_ptr());
                pb.push(b[group][item * k * n..].as_ptr());
                pc.push(c.wrapping_add(item * m * n));
            }
        }
        let mut lda = m;
        if let Some(group) = wrong {
            lda[group] -= 1;
        }
        // SAFETY: groups of those shapes, and as many pointers as they have products.
        unsafe {
            cblas_dgemm_batch(
                102,
                [111; 4].as_ptr(),
                [111; 4].as_ptr(),
                m.as_ptr(),
                n.as_ptr(),
                k.as_ptr(),
                [1.5; 4].as_ptr(),
                pa.as_ptr(),
                lda.as_ptr(),
                pb.as_ptr(),
                k.as_ptr(),
                [0.0; 4].as_ptr(),
                pc.as_ptr(),
                m.as_ptr(),
                4,
                BATCHES.map(|(_, count)| int(count)).as_ptr(),
            );
        }
        for (group, (c, expected)) in c.iter().zip(&expected).enumerate() {
            if wrong.is_some_and(|wrong| group >= wrong) {
                assert!(c.iter().all(|value| value.is_nan()), "group {group}");
            } else {
                assert_eq!(c, expected, "group {group}");
            }
        }
        assert_eq!(told().len(), usize::from(wrong.is_some()));
    }
}

#[test]
fn wrong_arguments_are_told_and_nothing_is_written() {
    let (a, mut c) = (values(16, 1), values(16, 2));
    let before = c.clone();
    let mut call = |op: u8, m: i32, lda: i32| {
        // SAFETY: four rows and columns at most, as far as the arguments are right.
        unsafe {
            dgemm_(
                &op,
                &b'T',
                &m,
                &4,
                &4,
                &1.0,
                a.as_ptr(),
                &lda,
                a.as_ptr(),
                &4,
                &0.0,
                c.as_mut_ptr(),
                &4,
            );
        }
    };
    call(b'X', 4, 4);
    call(b'N', -1, 4);
    call(b'N', 4, 3);
    let named = |argument| ("DGEMM ".to_owned(), argument);
    assert_eq!(told(), [named(1), named(3), named(8)]);
    // The number is that of the transposed call, as the reference library has it.
    let mut call = |layout: i32, op: i32, m: i32| {
        // SAFETY: as above.
        unsafe {
            cblas_dgemm(
                layout,
                op,
                111,
                m,
                4,
                4,
                1.0,
                a.as_ptr(),
                4,
                a.as_ptr(),
                4,
                0.0,
                c.as_mut_ptr(),
                4,
            );
        }
    };
    call(100, 111, 4);
    call(102, 110, 4);
    call(102, 111, -1);
    call(101, 111, -1);
    let named = |argument| ("cblas_dgemm".to_owned(), argument);
    assert_eq!(told(), [named(1), named(2), named(4), named(5)]);
    assert_eq!(c, before);
}

/// A handler that leaves by unwinding leaves nothing behind that the next call would trip over.
#[test]
fn a_handler_may_unwind() {
    for _ in 0..3 {
        let mut c = values(16, 2);
        let thrown = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: the last leading dimension is wrong, so nothing is read or written.
            unsafe {
                dgemm_(
                    &b'N',
                    &b'N',
                    &4,
                    &4,
                    &4,
                    &1.0,
                    c.as_ptr(),
                    &4,
                    c.as_ptr(),
                    &4,
                    &0.0,
                    c.as_mut_ptr(),
                    &2,
                );
            }
        }));
        assert_eq!(*thrown.unwrap_err().downcast::<&str>().unwrap(), "out of xerbla");
        assert_eq!(told().len(), 1);
        let (a, b) = (values(4, 1), values(4, 2));
        assert_eq!(product(2, &a, &b), plain(2, &a, &b));
    }
}

#[test]
fn sixteen_callers_get_equal_bits() {
    // Whether matrix units compute the larger one depends on the number of threads.
    for n in [200, 400] {
        let (a, b): (Vec<f64>, Vec<f64>) =
            (0..n * n).map(|at| (1.0 / (at + 3) as f64, 1.0 / (at % 71 + 2) as f64)).unzip();
        let expected = product(n, &a, &b);
        let (a_single, b_single): (Vec<f32>, Vec<f32>) =
            (0..n * n).map(|at| (1.0 / (at % 97 + 3) as f32, 1.0 / (at % 71 + 2) as f32)).unzip();
        let expected_single = product_of_single(n, &a_single, &b_single);
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        assert!(product(n, &a, &b) == expected);
                        let single = product_of_single(n, &a_single, &b_single);
                        assert!(single == expected_single);
                    }
                });
            }
        });
    }
}

/// The child of a process that has used its threads has its own.
#[test]
fn a_forked_child_multiplies() {
    let n = 300;
    let (a, b) = (values(n * n, 1), values(n * n, 2));
    let expected = product(n, &a, &b);
    // SAFETY: the child multiplies, which takes no lock of the parent's, and ends without running anything else
    // that the parent has set up. It allocates, which glibc allows.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let right = product(n, &a, &b) == expected;
        // SAFETY: ends the child.
        unsafe { libc::_exit(if right { 0 } else { 1 }) };
    }
    let (start, mut status) = (Instant::now(), -1);
    while start.elapsed() < Duration::from_secs(20) {
        // SAFETY: asks for the child's end, and writes to `status`.
        if unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child {
            assert_eq!(status, 0);
            assert_eq!(product(n, &a, &b), expected);
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    // SAFETY: the child that has not ended.
    unsafe { libc::kill(child, libc::SIGKILL) };
    panic!("the child has not ended");
}

/// Operands that end where memory ends, or begin where it begins: an access beside them ends the process.
#[test]
fn nothing_beside_the_operands_is_touched() {
    let mut memory =
        [Guarded::new(80 * 80 * 8), Guarded::new(80 * 80 * 8), Guarded::new(80 * 80 * 8)];
    for n in (1..=70).step_by(3) {
        for at_end in [false, true] {
            let [a, b, c] = &mut memory;
            let (a, b, c) =
                (a.slice(n * n, at_end), b.slice(n * n, at_end), c.slice(n * n, at_end));
            a.copy_from_slice(&values(n * n, 1));
            b.copy_from_slice(&values(n * n, 2));
            (0..n).for_each(|i| a[i * n + i] = 2.0);
            let ld = int(n);
            for (op, uplo, side) in [(b'N', b'U', b'L'), (b'T', b'L', b'R')] {
                let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
                // SAFETY: matrices of n by n.
                unsafe { dgemm_(&op, &op, &ld, &ld, &ld, &1.0, a, &ld, b, &ld, &0.0, c, &ld) };
                // SAFETY: as above.
                unsafe { dsyrk_(&uplo, &op, &ld, &ld, &1.0, a, &ld, &0.0, c, &ld) };
                // SAFETY: as above.
                unsafe { dsymm_(&side, &uplo, &ld, &ld, &1.0, a, &ld, b, &ld, &0.0, c, &ld) };
                // SAFETY: as above.
                unsafe { dtrsm_(&side, &uplo, &op, &b'N', &ld, &ld, &1.0, a, &ld, c, &ld) };
            }
        }
    }
}
