//! What the tile instructions compute, bit for bit, in plain Rust.
//!
//! Source: Intel's "Architecture Instruction Set Extensions Programming Reference", TDPBF16PS and TDPBSSD to TDPBUUD.
//! What it leaves open, when a result counts as tiny and which NaN comes out, was settled by comparison with
//! the instructions.

use gemm_spec::bf16;

/// The largest subnormal number and all below have this exponent.
const EXPONENT: u32 = 0x7f80_0000;
const SIGN: u32 = 0x8000_0000;
const LEAST_NORMAL: u32 = 0x0080_0000;
const QUIET: u32 = 0x0040_0000;
/// The NaN of an invalid operation.
const INVALID: u32 = 0xffc0_0000;

/// Subnormal numbers are zeros of their sign.
fn flushed(x: f32) -> f32 {
    if x.to_bits() & EXPONENT == 0 { f32::from_bits(x.to_bits() & SIGN) } else { x }
}

/// The NaN of an operation of those operands: the first that is one, quieted.
fn nan_of(operands: [f32; 3]) -> f32 {
    let nan = operands.into_iter().find(|x| x.is_nan());
    f32::from_bits(nan.map_or(INVALID, |nan| nan.to_bits() | QUIET))
}

/// `a * b + c`, rounded once to nearest even; subnormal operands and tiny results are zeros of their sign.
fn mul_add(a: f32, b: f32, c: f32) -> f32 {
    let (a, b, c) = (flushed(a), flushed(b), flushed(c));
    let sum = a.mul_add(b, c);
    if sum.is_nan() {
        return nan_of([a, b, c]);
    }
    // Tiny is what is below the least normal number after rounding as if exponents had no bound, so the
    // least normal number itself may have been tiny.
    let magnitude = sum.to_bits() & !SIGN;
    let is_tiny = magnitude < LEAST_NORMAL || magnitude == LEAST_NORMAL && rounds_to_tiny(a, b, c);
    if is_tiny { f32::from_bits(sum.to_bits() & SIGN) } else { sum }
}

/// Whether a sum that is the least normal number was less before its exponent was bound: scaled by 2^64,
/// nothing underflows.
fn rounds_to_tiny(a: f32, b: f32, c: f32) -> bool {
    let half = f32::from_bits((127 + 32) << 23);
    let scaled = (a * half).mul_add(b * half, c * half * half);
    scaled.abs() < f32::from_bits(LEAST_NORMAL) * half * half
}

/// `a + b` by the same rules. A tiny sum of numbers that are not is exact.
fn add(a: f32, b: f32) -> f32 {
    let (a, b) = (flushed(a), flushed(b));
    let sum = a + b;
    if sum.is_nan() { nan_of([a, b, 0.0]) } else { flushed(sum) }
}

/// One element of `tdpbf16ps`: two chains, over the even and the odd elements of k, added to each other and
/// then to the sum so far.
pub(super) fn dot_bf16(sum: f32, a: &[bf16; 32], b: &[bf16; 32]) -> f32 {
    let (mut even, mut odd) = (0.0, 0.0);
    for (a, b) in a.chunks_exact(2).zip(b.chunks_exact(2)) {
        even = mul_add(b[0].to_f32(), a[0].to_f32(), even);
        odd = mul_add(b[1].to_f32(), a[1].to_f32(), odd);
    }
    add(sum, add(even, odd))
}

/// Functions of an element of an instruction that multiplies bytes, whose sums wrap: what each makes of a byte of A and
/// of B.
macro_rules! dot_bytes {
    ($($name:ident: $instruction:literal, $a:expr, $b:expr;)*) => {$(
        #[doc = concat!("One element of `", $instruction, "`.")]
        pub(super) fn $name(sum: i32, a: &[i8; 64], b: &[i8; 64]) -> i32 {
            let products = a.iter().zip(b).map(|(&a, &b)| i32::from($a(a)) * i32::from($b(b)));
            products.fold(sum, i32::wrapping_add)
        }
    )*};
}

dot_bytes! {
    dot_i8: "tdpbssd", i8::from, i8::from;
    dot_i8_u8: "tdpbusd", i8::from, i8::cast_unsigned;
    dot_u8_i8: "tdpbsud", i8::cast_unsigned, i8::from;
    dot_u8: "tdpbuud", i8::cast_unsigned, i8::cast_unsigned;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(sum: f32, pairs: &[(f32, f32)]) -> u32 {
        let (mut a, mut b) = ([bf16::ZERO; 32], [bf16::ZERO; 32]);
        for (at, &(x, y)) in pairs.iter().enumerate() {
            (a[at], b[at]) = (bf16::from_f32(x), bf16::from_f32(y));
        }
        dot_bf16(sum, &a, &b).to_bits()
    }

    #[test]
    fn even_and_odd_elements_are_summed_apart() {
        // In one chain the 1 would be lost beside 2^40.
        let large = 2f32.powi(20);
        let chained = dot(0.0, &[(large, large), (1.0, 1.0), (-large, large)]);
        assert_eq!(f32::from_bits(chained), 1.0);
        let lost = dot(0.0, &[(large, large), (0.0, 0.0), (1.0, 1.0), (0.0, 0.0), (-large, large)]);
        assert_eq!(f32::from_bits(lost), 0.0);
    }

    #[test]
    fn subnormal_numbers_are_zeros() {
        let least = f32::MIN_POSITIVE;
        assert_eq!(dot(0.0, &[(least, 0.5)]), 0);
        assert_eq!(dot(0.0, &[(least, 1.0)]), least.to_bits());
        assert_eq!(dot(least / 2.0, &[(0.0, 0.0)]), 0);
        // All zero: a zero of no sign, even where the sum so far has one.
        assert_eq!(dot(-0.0, &[]), 0);
        // Both sides of where a result that rounds to the least normal number counts as tiny.
        let half = 2f32.powi(-63);
        let near = |units: f32| dot(0.0, &[(least, 1.0), (0.0, 0.0), (half, -units * half)]);
        assert_eq!(near(2f32.powi(-25)), least.to_bits());
        assert_eq!(near(1.0078125 * 2f32.powi(-25)), 0);
    }

    #[test]
    fn nan_is_quiet_and_the_first_of_the_operands() {
        assert_eq!(dot(0.0, &[(f32::INFINITY, 0.0)]), INVALID);
        assert!(f32::from_bits(dot(f32::NAN, &[(1.0, 1.0)])).is_nan());
        assert_eq!(dot(0.0, &[(f32::INFINITY, -2.0)]), f32::NEG_INFINITY.to_bits());
    }

    #[test]
    fn sums_of_integers_wrap() {
        let sum = dot_i8(i32::MAX, &[-128; 64], &[-128; 64]);
        assert_eq!(sum, i32::MAX.wrapping_add(64 << 14));
    }
}
