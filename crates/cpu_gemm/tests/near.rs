//! Products of few elements, which tiles take from where they lie: the bits of the definition, whatever the instruction
//! set, the storage order and the sizes, and no byte read or written beside the operands.

#![cfg(target_os = "linux")]

#[path = "../../../tests/packed/pages.rs"]
mod pages;

use std::fmt::Debug;

use cpu_gemm::{
    CHAIN, Complex, CpuContext, CpuIsa, Factor, Field, View, ViewMut, engine_sum, gemm_near,
    gemm_views,
};
use gemm_spec::{Accumulator, Layout, Order};
use pages::Fenced;

/// A number of type `T` and the sums that it is made of.
trait Number: Field<Real: Accumulator> + Debug {
    fn drawn(seed: usize) -> Self;

    /// The definition's sum of products, by the element.
    fn sum(k: usize, a: impl Fn(usize) -> Self, b: impl Fn(usize) -> Self) -> Self;

    /// What becomes of it.
    fn finish(alpha: Self, sum: Self, beta: Self, old: Self) -> Self;
}

fn part(seed: usize) -> f64 {
    let mixed = (seed as u64).wrapping_add(11).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) as f64 / 2f64.powi(63) - 1.0
}

macro_rules! numbers {
    ($($real:ty)*) => {$(
        impl Number for $real {
            fn drawn(seed: usize) -> Self {
                #[allow(clippy::cast_possible_truncation, reason = "of f64 there is none")]
                let value = part(seed) as $real;
                value
            }

            fn sum(k: usize, a: impl Fn(usize) -> Self, b: impl Fn(usize) -> Self) -> Self {
                engine_sum(k, |p, sum: Self| a(p).mul_add(b(p), sum))
            }

            fn finish(alpha: Self, sum: Self, beta: Self, old: Self) -> Self {
                if beta == 0.0 { alpha * sum } else { alpha.mul_add(sum, beta * old) }
            }
        }

        impl Number for Complex<$real> {
            fn drawn(seed: usize) -> Self {
                Self::new(<$real>::drawn(2 * seed), <$real>::drawn(2 * seed + 1))
            }

            fn sum(k: usize, a: impl Fn(usize) -> Self, b: impl Fn(usize) -> Self) -> Self {
                let re = engine_sum(2 * k, |step, sum: $real| match (a(step / 2), b(step / 2)) {
                    (a, b) if step % 2 == 0 => a.re.mul_add(b.re, sum),
                    (a, b) => (-a.im).mul_add(b.im, sum),
                });
                let im = engine_sum(2 * k, |step, sum: $real| match (a(step / 2), b(step / 2)) {
                    (a, b) if step % 2 == 0 => a.im.mul_add(b.re, sum),
                    (a, b) => a.re.mul_add(b.im, sum),
                });
                Self::new(re, im)
            }

            fn finish(alpha: Self, sum: Self, beta: Self, old: Self) -> Self {
                let zero = Self::new(0.0, 0.0);
                if alpha.im == 0.0 && beta.im == 0.0 {
                    let part = |sum, old| <$real>::finish(alpha.re, sum, beta.re, old);
                    return Self::new(part(sum.re, old.re), part(sum.im, old.im));
                }
                let old = if beta == zero { zero } else { beta * old };
                old.add_product(alpha, sum)
            }
        }
    )*};
}

numbers!(f32 f64);

/// A layout of one of the two orders, with some padding.
fn layout(row_major: bool, rows: usize, cols: usize, padding: usize) -> Layout {
    match row_major {
        true => Layout::row_major(cols + padding),
        false => Layout::col_major(rows + padding),
    }
}

/// The elements that a matrix needs, without the padding behind its last line.
fn drawn<T: Number>(rows: usize, cols: usize, layout: Layout, seed: usize) -> Vec<T> {
    let (lines, of_line) = match layout.order {
        Order::RowMajor => (rows, cols),
        Order::ColMajor => (cols, rows),
    };
    let len = (lines - 1) * layout.ld + of_line;
    (0..len).map(|at| T::drawn(at + 1000 * seed)).collect()
}

/// A product in all orders, conjugated or not, at both ends of forbidden pages.
fn check<T: Number>(context: &CpuContext, (m, n, k): (usize, usize, usize), (alpha, beta): (T, T)) {
    let must_be_near = k <= CHAIN;
    for case in 0..32 {
        let is = |bit: usize| case >> bit & 1 == 1;
        let layouts = [layout(is(0), m, k, 1), layout(is(1), k, n, 0), layout(is(2), m, n, 2)];
        let (conjugated_a, conjugated_b) = (is(3), is(4));
        if !T::IS_COMPLEX && (conjugated_a || conjugated_b) {
            continue;
        }
        let (a, b) = (drawn::<T>(m, k, layouts[0], 1), drawn::<T>(k, n, layouts[1], 2));
        let old = drawn::<T>(m, n, layouts[2], 3);
        let at_end = is(0) == is(1);
        let (a, b, mut c) =
            (Fenced::new(&a, at_end), Fenced::new(&b, at_end), Fenced::new(&old, at_end));
        let view = View::new(a.as_slice(), m, k, layouts[0]).expect("it fits");
        let a = Factor { view, conjugated: conjugated_a };
        let view = View::new(b.as_slice(), k, n, layouts[1]).expect("it fits");
        let b = Factor { view, conjugated: conjugated_b };
        let mut view = ViewMut::new(c.as_mut_slice(), m, n, layouts[2]).expect("it fits");
        let is_near = gemm_near(alpha, a, b, beta, &mut view, context);
        assert!(is_near || !must_be_near, "{m} {n} {k}, case {case}");
        if !is_near {
            gemm_views(alpha, a, b, beta, view, context).expect("it fits");
        }
        let mut expected = old.clone();
        for i in 0..m {
            for j in 0..n {
                let at = layouts[2].index(i, j);
                // A row-major C is the transposed product: of an imaginary part the other term comes first.
                let (of_a, of_b) = (|p| a.get(i, p), |p| b.get(p, j));
                let sum = if is(2) { T::sum(k, of_b, of_a) } else { T::sum(k, of_a, of_b) };
                expected[at] = T::finish(alpha, sum, beta, old[at]);
            }
        }
        let name = std::any::type_name::<T>();
        assert!(
            c.as_slice() == expected,
            "{m} {n} {k}, case {case}, {name}, {alpha:?} {beta:?}, {:?}",
            context.isa()
        );
    }
}

fn check_sizes<T: Number>() {
    let zero = T::ZERO;
    let some = (T::drawn(5), T::drawn(6));
    for isa in CpuIsa::available() {
        let context = CpuContext::with_isa(std::num::NonZeroUsize::new(1), isa).expect("it starts");
        for m in [1, 2, 3, 7, 8, 9, 16, 17, 31, 50] {
            for n in [1, 2, 5, 9, 13, 16, 19, 25] {
                let beta = if (m + n) % 2 == 0 { zero } else { -T::ONE };
                check(&context, (m, n, 5), (T::ONE, beta));
            }
        }
        for k in [1, 63, 64, 65, 127, 128] {
            check(&context, (11, 10, k), some);
        }
        // Sums of several chains and superblocks.
        for k in [129, 255, 256, 257, 300, 512, 513, 1100] {
            check(&context, (13, 6, k), (some.0, zero));
            check(&context, (5, 17, k), (T::ONE, T::ONE));
        }
    }
}

#[test]
fn products_of_real_numbers_have_the_bits_of_the_definition() {
    check_sizes::<f32>();
    check_sizes::<f64>();
}

#[test]
fn products_of_complex_numbers_have_the_bits_of_the_definition() {
    check_sizes::<Complex<f32>>();
    check_sizes::<Complex<f64>>();
}

#[test]
fn what_is_not_to_be_read_is_not() {
    let context = CpuContext::alone();
    let layout = Layout::col_major(3);
    let ones = [1.0; 9];
    let one = Factor::plain(View::new(&ones, 3, 3, layout).expect("it fits"));
    let mut c = [f64::NAN; 9];
    let mut view = ViewMut::new(&mut c, 3, 3, layout).expect("it fits");
    assert!(gemm_near(1.0, one, one, 0.0, &mut view, &context));
    assert_eq!(c, [3.0; 9]);
    // What there is nothing to add to is left to others.
    let mut view = ViewMut::new(&mut c, 3, 3, layout).expect("it fits");
    assert!(!gemm_near(0.0, one, one, 0.0, &mut view, &context));
    let mut view = ViewMut::new(&mut c, 2, 3, layout).expect("it fits");
    assert!(!gemm_near(1.0, one, one, 0.0, &mut view, &context));
}
