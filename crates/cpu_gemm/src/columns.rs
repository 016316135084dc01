//! What factorisations do with single columns: sums, products and comparisons of slices, compiled for each
//! instruction set.
//!
//! Sums are taken in [`LANES`] partial sums, which are added at the end, so that the bits are the same on any CPU.

use crate::context::CpuContext;
use crate::field::{Field, RealNumber as _};
use crate::isa::CpuIsa;

/// Partial sums of a sum of products.
const LANES: usize = 16;

/// Functions whose bodies are compiled for each instruction set.
macro_rules! compiled {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $body:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name<T: Field>($($argument: $type,)* context: &CpuContext) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,fma")]
            fn avx512<T: Field>($($argument: $type),*) $(-> $result)? {
                $body($($argument),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2<T: Field>($($argument: $type),*) $(-> $result)? {
                $body($($argument),*)
            }

            match context.isa() {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: a context's instruction set is one that this CPU has.
                CpuIsa::Avx512 => unsafe { avx512($($argument),*) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                CpuIsa::Avx2 => unsafe { avx2($($argument),*) },
                _ => $body($($argument),*),
            }
        }
    )*};
}

compiled! {
    /// `y = y + alpha * x`, as far as both go.
    fn add_multiple(alpha: T, x: &[T], y: &mut [T]) = add_multiple_body;

    /// `y = y + ...` four multiples, one after the other, of columns that are as long as `y`: the bits are those of
    /// [`add_multiple`], and `y` is read and written once.
    fn add_multiples(factors: [T; 4], columns: [&[T]; 4], y: &mut [T]) = add_multiples_body;

    /// The sum of the products of the elements of `x` and those of `y`, as far as both go.
    fn dot(x: &[T], y: &[T]) -> T = dot_body;

    /// The sum of the products of the conjugates of `x` and the elements of `y`, as far as both go.
    fn conjugate_dot(x: &[T], y: &[T]) -> T = conjugate_dot_body;

    /// `y = y + alpha * column`, and the sum of the products of the elements of `column` and `x`, as far as all go; of
    /// one of the two with the column's conjugates, if so asked.
    fn add_multiple_and_dot(alpha: T, column: &[T], x: &[T], y: &mut [T], conjugates: Conjugates) -> T
        = add_multiple_and_dot_body;

    /// `x = alpha * x`.
    fn multiply_by(alpha: T, x: &mut [T]) = multiply_by_body;

    /// The square root of the sum of squares, without needless overflow or underflow.
    fn norm(x: &[T]) -> T::Real = norm_body;

    /// The index of the first of the largest elements, by the sum of their parts' magnitudes. As in BLAS' `iamax`, a
    /// NaN is passed over, but if it is the first element it is the answer.
    fn largest(x: &[T]) -> usize = largest_body;
}

#[inline(always)]
fn add_multiple_body<T: Field>(alpha: T, x: &[T], y: &mut [T]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = y.add_product(alpha, x);
    }
}

/// Where [`add_multiple_and_dot`] takes conjugates of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conjugates {
    /// In neither.
    None,
    /// In what is added.
    Added,
    /// In the sum of products.
    Dot,
}

#[inline(always)]
fn add_multiple_and_dot_body<T: Field>(
    alpha: T,
    column: &[T],
    x: &[T],
    y: &mut [T],
    conjugates: Conjugates,
) -> T {
    match conjugates {
        Conjugates::None => both(alpha, column, x, y, |of| of, |of| of),
        Conjugates::Added => both(alpha, column, x, y, T::conj, |of| of),
        Conjugates::Dot => both(alpha, column, x, y, |of| of, T::conj),
    }
}

/// The column is read once.
#[inline(always)]
fn both<T: Field>(
    alpha: T,
    column: &[T],
    x: &[T],
    y: &mut [T],
    added: impl Fn(T) -> T,
    multiplied: impl Fn(T) -> T,
) -> T {
    let len = column.len().min(x.len()).min(y.len());
    let (columns, xs) = (column[..len].chunks_exact(LANES), x[..len].chunks_exact(LANES));
    let (column_rest, x_rest) = (columns.remainder(), xs.remainder());
    let mut ys = y[..len].chunks_exact_mut(LANES);
    let mut sums = [T::ZERO; LANES];
    for ((column, x), y) in columns.zip(xs).zip(&mut ys) {
        for lane in 0..LANES {
            y[lane] = y[lane].add_product(alpha, added(column[lane]));
            sums[lane] = sums[lane].add_product(multiplied(column[lane]), x[lane]);
        }
    }
    let rest = column_rest.iter().zip(x_rest).zip(ys.into_remainder()).zip(&mut sums);
    for (((&column, &x), y), sum) in rest {
        *y = y.add_product(alpha, added(column));
        *sum = sum.add_product(multiplied(column), x);
    }
    halved(sums)
}

#[inline(always)]
fn multiply_by_body<T: Field>(alpha: T, x: &mut [T]) {
    for x in x {
        *x = alpha * *x;
    }
}

#[inline(always)]
fn add_multiples_body<T: Field>(factors: [T; 4], columns: [&[T]; 4], y: &mut [T]) {
    let [first, second, third, fourth] = columns.map(|column| &column[..y.len()]);
    for (at, y) in y.iter_mut().enumerate() {
        let two = y.add_product(factors[0], first[at]).add_product(factors[1], second[at]);
        *y = two.add_product(factors[2], third[at]).add_product(factors[3], fourth[at]);
    }
}

#[inline(always)]
fn dot_body<T: Field>(x: &[T], y: &[T]) -> T {
    sum_of_products(x, y, |x| x)
}

#[inline(always)]
fn conjugate_dot_body<T: Field>(x: &[T], y: &[T]) -> T {
    sum_of_products(x, y, T::conj)
}

#[inline(always)]
fn sum_of_products<T: Field>(x: &[T], y: &[T], of_x: impl Fn(T) -> T) -> T {
    let len = x.len().min(y.len());
    let (x, y) = (x[..len].chunks_exact(LANES), y[..len].chunks_exact(LANES));
    let (x_rest, y_rest) = (x.remainder(), y.remainder());
    let mut sums = [T::ZERO; LANES];
    for (x, y) in x.zip(y) {
        for lane in 0..LANES {
            sums[lane] = sums[lane].add_product(of_x(x[lane]), y[lane]);
        }
    }
    for (sum, (&x, &y)) in sums.iter_mut().zip(x_rest.iter().zip(y_rest)) {
        *sum = sum.add_product(of_x(x), y);
    }
    halved(sums)
}

/// The sum of partial sums, each half added to the other.
#[inline(always)]
fn halved<T: Field>(mut sums: [T; LANES]) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] = sums[lane] + sums[lane + half];
        }
        half /= 2;
    }
    sums[0]
}

/// The sum of the squares of all parts, each scaled before.
#[inline(always)]
fn sum_of_squares<T: Field>(x: &[T], scaled: impl Fn(T::Real) -> T::Real) -> T::Real {
    let mut sums = [<T::Real as Field>::ZERO; LANES];
    for chunk in x.chunks(LANES) {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            let re = scaled(x.re());
            *sum = sum.add_product(re, re);
            if T::IS_COMPLEX {
                let im = scaled(x.im());
                *sum = sum.add_product(im, im);
            }
        }
    }
    halved(sums)
}

#[inline(always)]
fn norm_body<T: Field>(x: &[T]) -> T::Real {
    let (one, least) = (<T::Real as Field>::ONE, T::Real::SAFE_MIN.divide(T::Real::EPSILON));
    let sum = sum_of_squares(x, |part| part);
    // Squares that are too small to matter are lost only where the sum is that small itself.
    if sum > least.divide(T::Real::EPSILON) && sum.is_finite() {
        return sum.sqrt();
    }
    let larger = |a: T::Real, b: T::Real| if b > a { b } else { a };
    let largest = x.iter().fold(<T::Real as Field>::ZERO, |largest, x| {
        larger(largest, larger(x.re().abs(), x.im().abs()))
    });
    if largest == <T::Real as Field>::ZERO || !largest.is_finite() {
        // All zeros, an infinity, or nothing but NaN beside zeros.
        return if largest.is_finite() { sum.sqrt() } else { sum };
    }
    // The smallest numbers' reciprocals overflow.
    let (first, second) = match largest < least {
        true => (one.divide(least), one.divide(largest.divide(least))),
        false => (one, one.divide(largest)),
    };
    let sum = sum_of_squares(x, |part| part * first * second);
    sum.sqrt() * largest
}

#[inline(always)]
fn largest_body<T: Field>(x: &[T]) -> usize {
    let magnitude = |x: T| {
        let re = x.re().abs();
        if T::IS_COMPLEX { re + x.im().abs() } else { re }
    };
    let Some(&first) = x.first() else { return 0 };
    let first = magnitude(first);
    if first.partial_cmp(&first).is_none() {
        return 0;
    }
    let mut lanes = [<T::Real as Field>::ZERO; LANES];
    for chunk in x.chunks(LANES) {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            let value = magnitude(x);
            *lane = if value > *lane { value } else { *lane };
        }
    }
    let largest = lanes.into_iter().fold(first, |a, b| if b > a { b } else { a });
    x.iter().position(|&x| magnitude(x) == largest).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Complex;

    fn contexts() -> impl Iterator<Item = CpuContext> {
        CpuIsa::available()
            .map(|isa| CpuContext::with_isa(std::num::NonZeroUsize::new(1), isa).unwrap())
    }

    fn values(len: usize, seed: u16) -> Vec<Complex<f64>> {
        let of = |at: u16| f64::from(at * 37 % 101) - 50.0;
        (0..u16::try_from(len).unwrap()).map(|at| Complex::new(of(at + seed), of(at * 3))).collect()
    }

    #[test]
    fn sums_and_products_are_those_of_the_definition() {
        for context in contexts() {
            for len in 0..70 {
                let (x, y) = (values(len, 1), values(len, 5));
                let alpha = Complex::new(3.0, -2.0);
                let expected: Vec<_> = x.iter().zip(&y).map(|(x, y)| y + alpha * x).collect();
                let mut sum = y.clone();
                add_multiple(alpha, &x, &mut sum, &context);
                assert_eq!(sum, expected);
                let dot = x.iter().zip(&y).fold(Complex::ZERO, |sum, (x, y)| sum + x.conj() * y);
                assert_eq!(conjugate_dot(&x, &y, &context), dot);
                let dot_of = x.iter().zip(&y).fold(Complex::ZERO, |sum, (x, y)| sum + x * y);
                assert_eq!(super::dot(&x, &y, &context), dot_of);
                let factors = [alpha, -alpha, alpha.conj(), Complex::ONE];
                let columns = [x.clone(), values(len, 9), values(len, 2), values(len, 30)];
                let (mut at_once, mut one_by_one) = (y.clone(), y.clone());
                add_multiples(
                    factors,
                    columns.each_ref().map(Vec::as_slice),
                    &mut at_once,
                    &context,
                );
                for (factor, column) in factors.into_iter().zip(&columns) {
                    add_multiple(factor, column, &mut one_by_one, &context);
                }
                assert_eq!(at_once, one_by_one);
                for conjugates in [Conjugates::None, Conjugates::Added, Conjugates::Dot] {
                    let of = |x: Complex<f64>, at| if conjugates == at { x.conj() } else { x };
                    let added: Vec<_> = x
                        .iter()
                        .zip(&y)
                        .map(|(&x, y)| y + alpha * of(x, Conjugates::Added))
                        .collect();
                    let dot = x
                        .iter()
                        .zip(&y)
                        .fold(Complex::ZERO, |sum, (&x, y)| sum + of(x, Conjugates::Dot) * y);
                    let mut sum = y.clone();
                    let found = add_multiple_and_dot(alpha, &x, &y, &mut sum, conjugates, &context);
                    assert_eq!((found, sum), (dot, added), "{conjugates:?}");
                }
                let mut scaled = x.clone();
                multiply_by(alpha, &mut scaled, &context);
                assert_eq!(scaled, x.iter().map(|x| alpha * x).collect::<Vec<_>>());
                #[expect(clippy::cast_possible_truncation, reason = "they are small whole numbers")]
                let re: Vec<f32> = x.iter().map(|x| x.re as f32).collect();
                let squares: f32 = re.iter().map(|x| x * x).sum();
                assert_eq!(norm(&re, &context), squares.sqrt());
            }
        }
    }

    #[test]
    fn norms_neither_overflow_nor_vanish() {
        for context in contexts() {
            for scale in [1.0, 1e300, 1e-300, 1e-310, 5e-324] {
                let x = [Complex::new(3.0 * scale, 0.0), Complex::new(0.0, -4.0 * scale)];
                let found: f64 = norm(&x, &context);
                assert!((found / scale - 5.0).abs() < 1e-12, "{scale} {found}");
            }
            assert_eq!(norm(&[0.0f32; 3], &context), 0.0);
            assert_eq!(norm::<f64>(&[], &context), 0.0);
            assert_eq!(norm(&[0.0, f64::INFINITY], &context), f64::INFINITY);
            for with in [0.0, 1.0, f64::INFINITY, 1e-300] {
                assert!(norm(&[with, f64::NAN], &context).is_nan(), "{with}");
            }
        }
    }

    #[test]
    fn the_first_of_the_largest_is_found() {
        for context in contexts() {
            for len in 1..70 {
                let x = values(len, 2);
                let of = |at: usize| x[at].re.abs() + x[at].im.abs();
                let expected =
                    (0..len).fold(0, |best, at| if of(at) > of(best) { at } else { best });
                assert_eq!(largest(&x, &context), expected);
            }
            assert_eq!(largest(&[1.0, f64::NAN, -3.0, 3.0], &context), 2);
            assert_eq!(largest(&[f64::NAN, 9.0], &context), 0);
            assert_eq!(largest::<f32>(&[], &context), 0);
            assert_eq!(largest(&[0.0f64; 40], &context), 0);
        }
    }
}
