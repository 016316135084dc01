//! Alpha and beta.

use tessera::blas3::Complex;

use crate::failure::Failure;

/// Alpha and beta, each a real and an imaginary part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// Factor of the product.
    pub alpha: [f64; 2],
    /// Factor of the old C; where it is zero C is not read.
    pub beta: [f64; 2],
}

impl Default for Factors {
    fn default() -> Self {
        Self { alpha: [1.0, 0.0], beta: [0.0, 0.0] }
    }
}

impl Factors {
    /// Both as numbers of the sums' type.
    pub(crate) fn of<T: Factor>(&self) -> Result<(T, T), Failure> {
        let number = |name, [re, im]: [f64; 2]| {
            T::of(re, im).ok_or(Failure::Factor { name, re, im, sums: T::NAME })
        };
        Ok((number("alpha", self.alpha)?, number("beta", self.beta)?))
    }
}

/// What alpha and beta may be.
pub(crate) trait Factor: Sized {
    /// Its name in messages.
    const NAME: &'static str;

    /// The number nearest to one; `None` where a number of another kind would come of it: infinity or zero
    /// of one that is neither, or anything of an imaginary part that there is no room for.
    fn of(re: f64, im: f64) -> Option<Self>;
}

/// The nearest f32.
#[expect(clippy::cast_possible_truncation, reason = "that is what it is for, and is looked at")]
fn narrow(number: f64) -> Option<f32> {
    let narrow = number as f32;
    let same = narrow.is_finite() == number.is_finite() && (narrow == 0.0) == (number == 0.0);
    same.then_some(narrow)
}

impl Factor for f32 {
    const NAME: &'static str = "f32";

    fn of(re: f64, im: f64) -> Option<Self> {
        if im == 0.0 { narrow(re) } else { None }
    }
}

impl Factor for f64 {
    const NAME: &'static str = "f64";

    fn of(re: f64, im: f64) -> Option<Self> {
        (im == 0.0).then_some(re)
    }
}

impl Factor for i32 {
    const NAME: &'static str = "i32";

    #[expect(clippy::cast_possible_truncation, reason = "it is looked at whether it is the same")]
    fn of(re: f64, im: f64) -> Option<Self> {
        let whole = re as Self;
        (im == 0.0 && f64::from(whole) == re).then_some(whole)
    }
}

impl Factor for i64 {
    const NAME: &'static str = "i64";

    #[expect(clippy::cast_possible_truncation, reason = "beyond 2^53 a factor is refused")]
    fn of(re: f64, im: f64) -> Option<Self> {
        let exact = re.abs() <= (1u64 << 53) as f64 && re.fract() == 0.0;
        (im == 0.0 && exact).then_some(re as Self)
    }
}

impl Factor for Complex<f32> {
    const NAME: &'static str = "complex64";

    fn of(re: f64, im: f64) -> Option<Self> {
        Some(Self::new(narrow(re)?, narrow(im)?))
    }
}

impl Factor for Complex<f64> {
    const NAME: &'static str = "complex128";

    fn of(re: f64, im: f64) -> Option<Self> {
        Some(Self::new(re, im))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_that_would_become_others_are_refused() {
        assert_eq!(f32::of(0.5, 0.0), Some(0.5));
        assert!(f32::of(f64::NAN, 0.0).is_some_and(f32::is_nan));
        assert_eq!(f32::of(f64::INFINITY, 0.0), Some(f32::INFINITY));
        assert_eq!([f32::of(1e300, 0.0), f32::of(1e-300, 0.0), f32::of(1.0, 1.0)], [None; 3]);
        assert_eq!(
            [i32::of(-3.0, 0.0), i32::of(0.5, 0.0), i32::of(3e9, 0.0)],
            [Some(-3), None, None]
        );
        assert_eq!(i64::of(3e9, 0.0), Some(3_000_000_000));
        assert_eq!([i64::of(1e17, 0.0), i64::of(f64::NAN, 0.0)], [None; 2]);
        assert_eq!(Complex::<f64>::of(1.0, -2.0), Some(Complex::new(1.0, -2.0)));
        let factors = Factors { alpha: [0.5, 0.0], ..Factors::default() };
        let refused = factors.of::<i32>().unwrap_err().to_string();
        assert_eq!(
            refused,
            "alpha is 0.5, which is no number of type i32, in which sums are computed"
        );
    }
}
