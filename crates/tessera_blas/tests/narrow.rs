//! Calls of what is beside BLAS, under each kind of name, against plain loops: 16-bit floats, bytes, `gemmt`, `gemm3m`,
//! `isamax`. Operands are small numbers of which all sums are exact.

#![cfg(target_os = "linux")]
#![expect(clippy::cast_possible_truncation, reason = "small integers as floats and back")]

use gemm_spec::{bf16, f16};
use tessera::blas3::Complex;
use tessera_blas as _;

/// Declares products by their Fortran names and in C: with integers `$int`, elements `$e`, factors `$f`, results `$c`.
macro_rules! products {
    ($($fortran:ident $c_name:ident $int:ty, $e:ty, $f:ty, $given:ty, $c:ty;)*) => {
        unsafe extern "C-unwind" {$(
            fn $fortran(
                op_a: &u8, op_b: &u8, m: &$int, n: &$int, k: &$int, alpha: &$f, a: *const $e, lda: &$int,
                b: *const $e, ldb: &$int, beta: &$f, c: *mut $c, ldc: &$int,
            );
            fn $c_name(
                layout: i32, op_a: i32, op_b: i32, m: $int, n: $int, k: $int, alpha: $given, a: *const $e,
                lda: $int, b: *const $e, ldb: $int, beta: $given, c: *mut $c, ldc: $int,
            );
        )*}
    };
}

products! {
    sbgemm_ cblas_sbgemm i32, bf16, f32, f32, f32;
    sbgemm_64_ cblas_sbgemm64_ i64, bf16, f32, f32, f32;
    sbgemm_64 cblas_sbgemm_64 i64, bf16, f32, f32, f32;
    shgemm_ cblas_shgemm i32, f16, f32, f32, f32;
    bgemm_ cblas_bgemm i32, bf16, bf16, bf16, bf16;
    bgemm_64_ cblas_bgemm64_ i64, bf16, bf16, bf16, bf16;
    gemm_bf16bf16f32_ cblas_gemm_bf16bf16f32 i32, bf16, f32, f32, f32;
    gemm_bf16bf16f32_64 cblas_gemm_bf16bf16f32_64 i64, bf16, f32, f32, f32;
    gemm_f16f16f32_ cblas_gemm_f16f16f32 i32, f16, f32, f32, f32;
    gemm_f16f16f32_64_ cblas_gemm_f16f16f32_64 i64, f16, f32, f32, f32;
    cgemm3m_ cblas_cgemm3m i32, Complex<f32>, Complex<f32>, &Complex<f32>, Complex<f32>;
    zgemm3m_ cblas_zgemm3m i32, Complex<f64>, Complex<f64>, &Complex<f64>, Complex<f64>;
    zgemm3m_64_ cblas_zgemm3m64_ i64, Complex<f64>, Complex<f64>, &Complex<f64>, Complex<f64>;
}

unsafe extern "C-unwind" {
    fn gemm_s8u8s32_(
        op_a: &u8,
        op_b: &u8,
        offset: &u8,
        m: &i32,
        n: &i32,
        k: &i32,
        alpha: &f32,
        a: *const i8,
        lda: &i32,
        ao: &i8,
        b: *const u8,
        ldb: &i32,
        bo: &i8,
        beta: &f32,
        c: *mut i32,
        ldc: &i32,
        co: *const i32,
    );
    fn cblas_gemm_s8u8s32(
        layout: i32,
        op_a: i32,
        op_b: i32,
        offset: i32,
        m: i32,
        n: i32,
        k: i32,
        alpha: f32,
        a: *const u8,
        lda: i32,
        ao: i8,
        b: *const u8,
        ldb: i32,
        bo: i8,
        beta: f32,
        c: *mut i32,
        ldc: i32,
        co: *const i32,
    );
    fn cblas_gemm_s8u8s32_64(
        layout: i32,
        op_a: i32,
        op_b: i32,
        offset: i32,
        m: i64,
        n: i64,
        k: i64,
        alpha: f32,
        a: *const u8,
        lda: i64,
        ao: i8,
        b: *const u8,
        ldb: i64,
        bo: i8,
        beta: f32,
        c: *mut i32,
        ldc: i64,
        co: *const i32,
    );
    fn dgemmt_(
        uplo: &u8,
        op_a: &u8,
        op_b: &u8,
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
    fn dgemmtr_64_(
        uplo: &u8,
        op_a: &u8,
        op_b: &u8,
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
    fn cblas_dgemmt(
        layout: i32,
        uplo: i32,
        op_a: i32,
        op_b: i32,
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
    fn isamax_(n: *const i32, x: *const f32, step: &i32) -> i32;
    fn isamax_64_(n: *const i64, x: *const f32, step: &i64) -> i64;
}

/// A number of a product as a small integer and back.
trait Number: Copy + PartialEq + std::fmt::Debug {
    fn of(number: i32) -> Self;
    fn times(self, other: Self) -> Complex<f64>;
    fn value(self) -> Complex<f64>;
    fn of_value(value: Complex<f64>) -> Self;
}

macro_rules! numbers {
    ($($t:ty: $of:expr, $value:expr, $back:expr;)*) => {$(
        impl Number for $t {
            fn of(number: i32) -> Self {
                $of(number)
            }
            fn times(self, other: Self) -> Complex<f64> {
                self.value() * other.value()
            }
            fn value(self) -> Complex<f64> {
                $value(self)
            }
            fn of_value(value: Complex<f64>) -> Self {
                $back(value)
            }
        }
    )*};
}

numbers! {
    f32: |n| n as f32, |it| Complex::new(f64::from(it), 0.0), |value: Complex<f64>| value.re as f32;
    bf16: |n| bf16::from_f32(n as f32), |it: bf16| Complex::new(it.to_f64(), 0.0),
        |value: Complex<f64>| bf16::from_f64(value.re);
    f16: |n| f16::from_f32(n as f32), |it: f16| Complex::new(it.to_f64(), 0.0),
        |value: Complex<f64>| f16::from_f64(value.re);
    Complex<f32>: |n| Complex::new(n as f32, (n % 3) as f32),
        |it: Complex<f32>| Complex::new(f64::from(it.re), f64::from(it.im)),
        |value: Complex<f64>| Complex::new(value.re as f32, value.im as f32);
    Complex<f64>: |n| Complex::new(f64::from(n), f64::from(n % 3)), |it| it, |value| value;
}

fn values<T: Number>(len: usize, seed: i32) -> Vec<T> {
    (0..len).zip(seed..).map(|(_, at)| T::of(at * 37 % 7 - 3)).collect()
}

/// Sizes with a rest of each tile, and one that is shared by threads.
const SIZES: [(usize, usize, usize); 4] = [(1, 1, 1), (5, 3, 7), (33, 18, 40), (150, 130, 120)];

/// `C = 2 * op(A) * op(B) - C`, of which A is m by k as `op` says, column-major without padding but two rows of C's.
fn expected<E: Number, C: Number>(
    (m, n, k): (usize, usize, usize),
    (op_a, op_b): (bool, bool),
    a: &[E],
    b: &[E],
    c: &[C],
) -> Vec<C> {
    let mut result = c.to_vec();
    for j in 0..n {
        for i in 0..m {
            let of_a = |p: usize| a[if op_a { p + i * k } else { i + p * m }];
            let of_b = |p: usize| b[if op_b { j + p * n } else { p + j * k }];
            let sum: Complex<f64> = (0..k).map(|p| of_a(p).times(of_b(p))).sum();
            let at = i + j * (m + 2);
            result[at] = C::of_value(sum * E::of(2).value() - c[at].value());
        }
    }
    result
}

/// Whether C holds these numbers, as far as its type can tell them.
macro_rules! check_product {
    ($($fortran:ident $c_name:ident $int:ty, $e:ty, $f:ty, $c:ty $(, $by:tt)?;)*) => {$({
        for (m, n, k) in SIZES {
            for (op_a, op_b) in [(false, false), (true, false), (false, true), (true, true)] {
                let (a, b) = (values::<$e>(m * k, 1), values::<$e>(k * n, 2));
                let old = values::<$c>((m + 2) * n, 3);
                let of = expected((m, n, k), (op_a, op_b), &a, &b, &old);
                let int = |size: usize| <$int>::try_from(size).expect("it is small");
                let (lda, ldb, ldc) =
                    (int(if op_a { k } else { m }), int(if op_b { n } else { k }), int(m + 2));
                let letter = |op: bool| if op { b'T' } else { b'n' };
                let number = |op: bool| if op { 112 } else { 111 };
                let (alpha, beta) = (<$f as Number>::of(2), <$f as Number>::of_value(Complex::new(-1.0, 0.0)));
                let mut c = old.clone();
                // SAFETY: matrices of these sizes.
                unsafe {
                    $fortran(
                        &letter(op_a), &letter(op_b), &int(m), &int(n), &int(k), &alpha, a.as_ptr(), &lda,
                        b.as_ptr(), &ldb, &beta, c.as_mut_ptr(), &ldc,
                    );
                }
                assert!(c == of, "{} {m} {n} {k} {op_a} {op_b}", stringify!($fortran));
                let mut c = old.clone();
                // SAFETY: as above.
                unsafe {
                    $c_name(
                        102, number(op_a), number(op_b), int(m), int(n), int(k), $($by)? alpha, a.as_ptr(), lda,
                        b.as_ptr(), ldb, $($by)? beta, c.as_mut_ptr(), ldc,
                    );
                }
                assert!(c == of, "{} {m} {n} {k} {op_a} {op_b}", stringify!($c_name));
                let mut c = old;
                // SAFETY: the transposed product of row-major matrices, which are the transposed ones.
                unsafe {
                    $c_name(
                        101, number(op_b), number(op_a), int(n), int(m), int(k), $($by)? alpha, b.as_ptr(), ldb,
                        a.as_ptr(), lda, $($by)? beta, c.as_mut_ptr(), ldc,
                    );
                }
                assert!(c == of, "{}, row-major, {m} {n} {k} {op_a} {op_b}", stringify!($c_name));
            }
        }
    })*};
}

#[test]
fn products_of_16_bits() {
    check_product! {
        sbgemm_ cblas_sbgemm i32, bf16, f32, f32;
        sbgemm_64_ cblas_sbgemm64_ i64, bf16, f32, f32;
        sbgemm_64 cblas_sbgemm_64 i64, bf16, f32, f32;
        shgemm_ cblas_shgemm i32, f16, f32, f32;
        bgemm_ cblas_bgemm i32, bf16, bf16, bf16;
        bgemm_64_ cblas_bgemm64_ i64, bf16, bf16, bf16;
        gemm_bf16bf16f32_ cblas_gemm_bf16bf16f32 i32, bf16, f32, f32;
        gemm_bf16bf16f32_64 cblas_gemm_bf16bf16f32_64 i64, bf16, f32, f32;
        gemm_f16f16f32_ cblas_gemm_f16f16f32 i32, f16, f32, f32;
        gemm_f16f16f32_64_ cblas_gemm_f16f16f32_64 i64, f16, f32, f32;
    }
}

#[test]
fn products_of_three() {
    check_product! {
        cgemm3m_ cblas_cgemm3m i32, Complex<f32>, Complex<f32>, Complex<f32>, &;
        zgemm3m_ cblas_zgemm3m i32, Complex<f64>, Complex<f64>, Complex<f64>, &;
        zgemm3m_64_ cblas_zgemm3m64_ i64, Complex<f64>, Complex<f64>, Complex<f64>, &;
    }
}

/// The other triangle, here of NaN, stays.
#[test]
fn one_triangle_of_a_product() {
    let values = |len: usize, seed: usize| -> Vec<f64> {
        (0..len).map(|at| ((at * 37 + seed) % 19) as f64 - 9.0).collect()
    };
    for n in [1usize, 4, 37, 130] {
        let k = n / 2 + 3;
        let (a, b) = (values(n * k, 1), values(k * n, 2));
        for upper in [false, true] {
            let is_there = |i: usize, j: usize| if upper { i <= j } else { i >= j };
            let old: Vec<f64> = (0..n * n)
                .map(|at| if is_there(at % n, at / n) { at as f64 } else { f64::NAN })
                .collect();
            let of = |at: usize| -> f64 {
                let sum: f64 = (0..k).map(|p| a[at % n + p * n] * b[p + at / n * k]).sum();
                3.0 * sum + 2.0 * old[at]
            };
            let check = |c: &[f64], name: &str| {
                for (at, &found) in c.iter().enumerate() {
                    match is_there(at % n, at / n) {
                        true => assert_eq!(found, of(at), "{name} {n} {at}"),
                        false => assert!(found.is_nan(), "{name} {n} {at}"),
                    }
                }
            };
            let (letter, number) = if upper { (b'U', 121) } else { (b'L', 122) };
            let int = |size: usize| i32::try_from(size).expect("it is small");
            let (order, steps) = (int(n), int(k));
            let (pa, pb) = (a.as_ptr(), b.as_ptr());
            let mut c = old.clone();
            let pc = c.as_mut_ptr();
            // SAFETY: matrices of these sizes.
            unsafe {
                dgemmt_(
                    &letter, &b'N', &b'N', &order, &steps, &3.0, pa, &order, pb, &steps, &2.0, pc,
                    &order,
                )
            };
            check(&c, "dgemmt_");
            let mut c = old.clone();
            let pc = c.as_mut_ptr();
            // SAFETY: as above.
            unsafe {
                cblas_dgemmt(
                    102, number, 111, 111, order, steps, 3.0, pa, order, pb, steps, 2.0, pc, order,
                )
            };
            check(&c, "cblas_dgemmt");
            let mut c = old.clone();
            let pc = c.as_mut_ptr();
            // The other triangle of the transposed product.
            let other = 243 - number;
            // SAFETY: as above.
            unsafe {
                cblas_dgemmt(
                    101, other, 111, 111, order, steps, 3.0, pb, steps, pa, order, 2.0, pc, order,
                )
            };
            check(&c, "cblas_dgemmt, row-major");
            let (order, steps) = (i64::from(order), i64::from(steps));
            let mut c = old.clone();
            let pc = c.as_mut_ptr();
            // SAFETY: as above.
            unsafe {
                dgemmtr_64_(
                    &letter, &b'N', &b'N', &order, &steps, &3.0, pa, &order, pb, &steps, &2.0, pc,
                    &order,
                )
            };
            check(&c, "dgemmtr_64_");
        }
    }
}

#[test]
fn products_of_bytes() {
    let bytes = |len: usize, step: usize| -> Vec<u8> {
        (0..=255u8).cycle().step_by(step).take(len).collect()
    };
    for (case, (m, n, k)) in SIZES.into_iter().chain([(40, 4500, 3), (3, 2, 0)]).enumerate() {
        let (a, b) = (bytes(m * k, 37), bytes(k * n, 91));
        for (kind, letter, number) in [(0, b'F', 173), (1, b'c', 172), (2, b'R', 171)] {
            for (op_a, op_b) in [(false, false), (true, true)] {
                let (ao, bo) = ([(0, 0), (-128, 127), (5, -7)])[(case + kind) % 3];
                let (alpha, beta) =
                    ([(1.0f32, 0.0f32), (1.0, 1.0), (0.5, -1.5), (0.0, 2.0)])[(case + kind) % 4];
                let co: Vec<i32> = (0..m.max(n)).zip(0..).map(|(_, at)| at * 1000 - 70).collect();
                let old: Vec<i32> = (0..m * n).zip(0..).map(|(_, at)| at * 3 - 50).collect();
                let of: Vec<i32> = (0..m * n)
                    .map(|at| {
                        let (i, j) = (at % m, at / m);
                        let of_a = |p: usize| {
                            i64::from(a[if op_a { p + i * k } else { i + p * m }].cast_signed())
                        };
                        let of_b =
                            |p: usize| i64::from(b[if op_b { j + p * n } else { p + j * k }]);
                        let sum: i64 = (0..k)
                            .map(|p| (of_a(p) + i64::from(ao)) * (of_b(p) + i64::from(bo)))
                            .sum();
                        let added = co[[0, i, j][kind]];
                        let exact = f64::from(alpha) * sum as f64
                            + f64::from(beta) * f64::from(old[at])
                            + f64::from(added);
                        exact.round_ties_even() as i32
                    })
                    .collect();
                let int = |size: usize| i32::try_from(size.max(1)).expect("it is small");
                let (lda, ldb, ldc) =
                    (int(if op_a { k } else { m }), int(if op_b { n } else { k }), int(m));
                let (im, inn, ik) = (int(m), int(n), i32::try_from(k).expect("it is small"));
                let op = |op: bool| if op { 112 } else { 111 };
                let op_letter = |op: bool| if op { b'T' } else { b'N' };
                let (pa, pb, pco) = (a.as_ptr(), b.as_ptr(), co.as_ptr());
                let mut c = old.clone();
                let pc = c.as_mut_ptr();
                // SAFETY: matrices of these sizes, and an offset for each row or column.
                unsafe {
                    gemm_s8u8s32_(
                        &op_letter(op_a),
                        &op_letter(op_b),
                        &letter,
                        &im,
                        &inn,
                        &ik,
                        &alpha,
                        pa.cast(),
                        &lda,
                        &ao,
                        pb,
                        &ldb,
                        &bo,
                        &beta,
                        pc,
                        &ldc,
                        pco,
                    );
                }
                assert!(c == of, "Fortran {m} {n} {k} {kind} {op_a} {op_b}");
                let mut c = old.clone();
                let pc = c.as_mut_ptr();
                // SAFETY: as above.
                unsafe {
                    cblas_gemm_s8u8s32(
                        102,
                        op(op_a),
                        op(op_b),
                        number,
                        im,
                        inn,
                        ik,
                        alpha,
                        pa,
                        lda,
                        ao,
                        pb,
                        ldb,
                        bo,
                        beta,
                        pc,
                        ldc,
                        pco,
                    );
                }
                assert!(c == of, "C {m} {n} {k} {kind} {op_a} {op_b}");
                // Row-major, the transposed product: A is then the unsigned one, rows and columns change places.
                let turned = [173, 171, 172][kind];
                let mut c = old.clone();
                let pc = c.as_mut_ptr();
                // SAFETY: as above.
                unsafe {
                    cblas_gemm_s8u8s32_64(
                        101,
                        op(op_b),
                        op(op_a),
                        turned,
                        inn.into(),
                        im.into(),
                        ik.into(),
                        alpha,
                        pb,
                        ldb.into(),
                        bo,
                        pa,
                        lda.into(),
                        ao,
                        beta,
                        pc,
                        ldc.into(),
                        pco,
                    );
                }
                assert!(c == of, "C, row-major, {m} {n} {k} {kind} {op_a} {op_b}");
            }
        }
    }
}

/// A loader gives a number whose lower half is 3 and whose whole is negative, and sees how much of it is read.
#[test]
fn a_loader_learns_the_size_of_integers() {
    let x = [1.0f32, 2.0, -3.0, 2.5];
    let probe = i64::from_ne_bytes(0xffff_ffff_0000_0003u64.to_ne_bytes());
    // SAFETY: on a little-endian machine the lower half comes first, and three elements are read.
    let short = unsafe { isamax_((&raw const probe).cast(), x.as_ptr(), &1) };
    // SAFETY: of a negative number of elements none is read.
    let long = unsafe { isamax_64_(&raw const probe, x.as_ptr(), &1) };
    assert_eq!((short, long), (3, 0));
    // SAFETY: four elements.
    let all = unsafe { isamax_64_(&4, x.as_ptr(), &1) };
    // SAFETY: every other of the last three.
    let half = unsafe { isamax_(&2, x[1..].as_ptr(), &2) };
    assert_eq!((all, half), (3, 2));
}
