//! Extremes, special values and roundings.

use cpu_gemm::CpuIsa;
use gemm_spec::{Convert, Problem, bf16, f16};

use crate::operands::{Scalar, ScalarTypes, context, multiply};

/// Sums of 8-bit integers wrap in 32 bits, and the extremes of the type are numbers like any other.
#[test]
fn extremes_of_8_bits_are_exact_and_sums_wrap() {
    for isa in CpuIsa::available() {
        let context = context(isa, 2);
        for (m, n, k) in [(3, 5, 7), (50, 9, 4001), (2, 2, 140_000)] {
            for (a, b) in [(-128, -128), (-128, 127), (127, 127), (127, -128), (0, -128), (-1, 1)] {
                for (alpha, beta, old) in [(1, 0, 0x5a5a_5a5a), (-3, 7, i32::MAX)] {
                    let problem = Problem::<i8>::new(m, n, k).with_scalars(alpha, beta);
                    let mut c = vec![old; m * n];
                    let (a_is, b_is) = (vec![a; m * k], vec![b; k * n]);
                    multiply::<i8>(&problem, &a_is, &b_is, &mut c, &context);
                    let sum = i64::from(a) * i64::from(b) * k as i64;
                    let exact = i64::from(alpha) * sum + i64::from(beta) * i64::from(old);
                    #[expect(clippy::cast_possible_truncation, reason = "sums wrap")]
                    let exact = exact as i32;
                    assert!(c.iter().all(|&c| c == exact), "{isa} {a} {b} {problem:?}");
                }
            }
        }
    }
}

/// Values that arithmetic must not lose, on every path that computes: small, thin and packed.
#[test]
fn special_values_are_those_of_ieee() {
    for isa in CpuIsa::available() {
        let context = context(isa, 2);
        for (m, n, k) in [(5, 6, 7), (3, 90, 400), (90, 3, 400), (100, 110, 400)] {
            let run = |alpha: f32, a: &[f32], b: &[f32], beta: f32, c: f32| {
                let problem = Problem::new(m, n, k).with_scalars(alpha, beta);
                let mut c = vec![c; m * n];
                multiply::<f32>(&problem, a, b, &mut c, &context);
                c
            };
            let (ones_a, ones_b) = (vec![1.0f32; m * k], vec![1.0f32; k * n]);
            let nan = vec![f32::NAN; (m * k).max(k * n)];
            let (nan_a, nan_b) = (&nan[..m * k], &nan[..k * n]);
            let what = format!("{isa} {m} {n} {k}");
            let all = |c: &[f32], value: f32| c.iter().all(|&c| c == value);

            assert!(all(&run(1.0, &ones_a, &ones_b, 0.0, f32::NAN), k as f32), "{what}: old C");
            assert!(all(&run(0.0, nan_a, nan_b, 2.0, 3.0), 6.0), "{what}: alpha 0");
            assert!(all(&run(0.0, nan_a, nan_b, 0.0, f32::NAN), 0.0), "{what}: both 0");
            for (alpha, beta) in [(f32::NAN, 0.0), (f32::NAN, 1.0), (1.0, f32::NAN)] {
                let c = run(alpha, &ones_a, &ones_b, beta, 1.0);
                assert!(c.iter().all(|c| c.is_nan()), "{what}: alpha {alpha}, beta {beta}");
            }
            // One NaN in A spoils one row, one infinity makes one of infinities.
            for (value, row) in [(f32::NAN, m - 1), (f32::INFINITY, m / 2), (-f32::INFINITY, 0)] {
                let mut a = ones_a.clone();
                a[row * k + k / 2] = value;
                for (index, &c) in run(1.0, &a, &ones_b, 0.0, 0.0).iter().enumerate() {
                    let expected = if index / n == row { value } else { k as f32 };
                    assert!(c == expected || c.is_nan() && expected.is_nan(), "{what}: {index}");
                }
                let c = run(1.0, &a, &vec![0.0; k * n], 0.0, 0.0);
                assert!(c[row * n..][..n].iter().all(|c| c.is_nan()), "{what}: 0 * {value}");
            }
            // Subnormals are kept.
            let tiny = f32::from_bits(1);
            let mut a = vec![0.0; m * k];
            a[(m - 1) * k + k - 1] = tiny;
            let c = run(1.0, &a, &ones_b, 0.0, 0.0);
            assert!(all(&c[(m - 1) * n..], tiny), "{what}: subnormal");
            // A fused multiply-add rounds once.
            let edge = 1.0 + f32::EPSILON;
            let (a, b) = (vec![edge; m * k], vec![edge; k * n]);
            let c = run(1.0, &a, &b, -1.0, 0.0);
            let sum = cpu_gemm::engine_sum(k, |_, sum: f32| edge.mul_add(edge, sum));
            assert!(all(&c, sum), "{what}: fused");
        }
    }
}

/// Elements of 16 bits are rounded once, after alpha and beta, however many blocks k has.
#[test]
fn elements_of_16_bits_are_rounded_at_the_end_alone() {
    fn try_type<T: ScalarTypes<A = T, B = T, Acc = f32, C = T> + Scalar + Convert<f32>>(
        largest: f32,
        least: T,
    ) {
        let of = |value: f32| T::narrow(value);
        for isa in CpuIsa::available() {
            let context = context(isa, 2);
            for (m, n, k) in [(5, 6, 7), (3, 90, 401), (90, 3, 1001), (100, 110, 1001)] {
                let run = |alpha: f32, a: T, b: T, beta: f32, c: T| {
                    let problem = Problem::<T>::new(m, n, k).with_scalars(alpha, beta);
                    let (a, b, mut c) = (vec![a; m * k], vec![b; k * n], vec![c; m * n]);
                    multiply::<T>(&problem, &a, &b, &mut c, &context);
                    let same = |x: &T| x.same_bits(c[0]) || x.is_nan() && c[0].is_nan();
                    assert!(c.iter().all(same), "{isa} {m} {n} {k}");
                    c[0]
                };
                let (one, k) = (of(1.0), k as f32);
                // Rounded at every step the sum would stay at 256 or 2048.
                assert_eq!(run(1.0, one, one, 0.0, T::POISON), of(k));
                assert_eq!(run(1.0, one, one, 1.0, of(3.0)), of(k + 3.0));
                // Alpha and beta are f32: neither is a number of the type.
                let (alpha, beta) = (1.0 + f32::EPSILON, 1.0 / 3.0);
                let old = of(-k);
                let exact = alpha.mul_add(k, beta * old.widen());
                assert_eq!(run(alpha, one, one, beta, old), of(exact));
                // Beyond the range in between, and within it at the end.
                let huge = run(1.0 / k, of(largest), one, 0.0, T::POISON).widen();
                assert!((huge / largest - 1.0).abs() < 0.01, "{huge:e}");
                let beyond = f32::MAX;
                assert_eq!(run(beyond, of(largest), one, 0.0, T::POISON).widen(), f32::INFINITY);
                let found = run(-beyond, of(largest), one, 0.0, T::POISON).widen();
                assert_eq!(found, f32::NEG_INFINITY);
                assert!(run(1.0, T::POISON, one, 0.0, one).is_nan());
                assert_eq!(run(0.0, T::POISON, T::POISON, 2.0, of(3.0)), of(6.0));
                // The least number is subnormal and stays.
                assert_eq!(run(1.0 / k, least, one, 0.0, T::POISON), least);
            }
        }
    }
    try_type(65504.0, f16::from_bits(1));
    try_type(2f32.powi(100), bf16::from_bits(1));
}

/// Where C is f32 nothing is rounded after the sums but by alpha and beta: digits that 16 bits have not,
/// and numbers beyond their range, are there.
#[test]
fn results_in_f32_of_16_bits_are_the_sums() {
    fn try_type<T: ScalarTypes<Acc = f32, C = f32>>() {
        for isa in CpuIsa::available() {
            let context = context(isa, 2);
            for (m, n, k) in [(5, 6, 7), (3, 90, 401), (90, 3, 1001), (100, 110, 5001)] {
                let run = |alpha: f32, a: f32, b: f32, beta: f32, c: f32| {
                    let problem = Problem::<T>::new(m, n, k).with_scalars(alpha, beta);
                    let (a, b) = (vec![T::A::narrow(a); m * k], vec![T::B::narrow(b); k * n]);
                    let mut c = vec![c; m * n];
                    multiply::<T>(&problem, &a, &b, &mut c, &context);
                    assert!(c.iter().all(|x| x.same_bits(c[0])), "{isa} {m} {n} {k}");
                    c[0]
                };
                let steps = k as f32;
                assert_eq!(run(1.0, 1.0, 1.0, 0.0, f32::NAN), steps);
                let (alpha, beta, old) = (1.0 + f32::EPSILON, 1.0 / 3.0, -0.1);
                assert_eq!(run(alpha, 1.0, 1.0, beta, old), alpha.mul_add(steps, beta * old));
                let large = 2f32.powi(15);
                assert_eq!(run(1.0, large, large, 0.0, 0.0), steps * 2f32.powi(30));
                let small = 2f32.powi(-14);
                assert_eq!(run(1.0, small, small, 0.0, 0.0), steps * 2f32.powi(-28));
                assert_eq!(run(0.0, f32::NAN, f32::NAN, 0.1, 0.1), 0.1 * 0.1);
            }
        }
    }
    try_type::<(f16, f32)>();
    try_type::<(bf16, f32)>();
}
