//! The data on which products are judged: from easy to what a scheme is likely to break on.

use std::fmt;
use std::str::FromStr;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::Error;
use crate::fill::{generator, normal};
use crate::memory::reserve;
use crate::scalar::Scalar;

/// An element type whose products are judged.
///
/// The trait is sealed, as [`Scalar`] is.
pub trait Judged: Scalar {
    /// A power of two that makes normal numbers subnormal.
    const SUBNORMAL: f64;
    /// What brings products of these back among normal numbers.
    const LARGE: f64;

    /// Uniform in [0, 1), with as many digits as the type has.
    fn uniform(rng: &mut Xoshiro256PlusPlus) -> Self;
}

impl Judged for f32 {
    const SUBNORMAL: f64 = power_of_two(-130);
    const LARGE: f64 = power_of_two(100);

    fn uniform(rng: &mut Xoshiro256PlusPlus) -> Self {
        rng.random()
    }
}

impl Judged for f64 {
    // 2^-1026, itself subnormal.
    const SUBNORMAL: f64 = Self::from_bits(1 << (1074 - 1026));
    const LARGE: f64 = power_of_two(996);

    fn uniform(rng: &mut Xoshiro256PlusPlus) -> Self {
        rng.random()
    }
}

/// A power of two that is a normal number.
const fn power_of_two(exponent: i64) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// A way to draw A and B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSet {
    /// Normal, mean 0 and deviation 1.
    Normal,
    /// Uniform in [0, 1): all terms of a sum have one sign, and errors add up.
    Positive,
    /// Signed, exponents uniform from -20 to 20: rows whose elements differ by 2^40.
    Spread20,
    /// Signed, exponents uniform from -60 to 60: more than pieces of 16 bits can hold.
    Spread60,
    /// Normal, but the steps are quantities in different units: columns of A times powers of two from
    /// -20 to 20, rows of B divided by them.
    Units,
    /// Normal, but one element of each row of A is 2^20 times as large.
    Spike,
    /// Each sum is the small rest of terms that cancel.
    Cancellation,
    /// A holds subnormal numbers alone, B is large, so that C is normal.
    Subnormal,
    /// Integers from -8 to 8: sums are exact in any order.
    Integers,
}

impl DataSet {
    /// Every set, in the order in which they are shown.
    pub const ALL: [Self; 9] = [
        Self::Normal,
        Self::Positive,
        Self::Spread20,
        Self::Spread60,
        Self::Units,
        Self::Spike,
        Self::Cancellation,
        Self::Subnormal,
        Self::Integers,
    ];

    /// The name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Positive => "positive",
            Self::Spread20 => "spread20",
            Self::Spread60 => "spread60",
            Self::Units => "units",
            Self::Spike => "spike",
            Self::Cancellation => "cancellation",
            Self::Subnormal => "subnormal",
            Self::Integers => "integers",
        }
    }

    /// A, m by k, and B, k by n, row-major.
    ///
    /// # Errors
    /// [`tessera::Error::OutOfMemory`] and [`Error::MemoryLimit`].
    pub fn draw<T: Judged>(
        self,
        m: usize,
        n: usize,
        k: usize,
        seed: u64,
    ) -> Result<(Vec<T>, Vec<T>), Error> {
        let mut a: Vec<T> = rows((m, k), seed, 0, |rng| self.row_of_a(k, rng))?;
        let mut b: Vec<T> = rows((k, n), seed, 1, |rng| self.row_of_b(n, rng))?;
        if self == Self::Cancellation {
            // The second half of k repeats the first, with B's sign turned and a little added.
            let half = k / 2;
            for row in a.chunks_exact_mut(k.max(1)) {
                row.copy_within(..half, k - half);
            }
            for step in 0..half {
                for col in 0..n {
                    let turned = b[step * n + col].to_f64();
                    let value = &mut b[(k - half + step) * n + col];
                    *value = T::from_f64(scaled(*value, REST).to_f64() - turned);
                }
            }
        }
        if self == Self::Units {
            let mut rng = generator(seed, 2, 0);
            for step in 0..k {
                let exponent: i64 = rng.random_range(-20..=20i32).into();
                let scale = |value: &mut T, exponent| {
                    *value = scaled(*value, power_of_two(exponent));
                };
                a.iter_mut().skip(step).step_by(k).for_each(|value| scale(value, exponent));
                b[step * n..][..n].iter_mut().for_each(|value| scale(value, -exponent));
            }
        }
        Ok((a, b))
    }

    fn row_of_a<T: Judged>(self, k: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<T> {
        let mut row: Vec<T> = (0..k).map(|_| self.element(rng)).collect();
        match self {
            Self::Spike if k > 0 => {
                let value = &mut row[rng.random_range(0..k)];
                *value = scaled(*value, power_of_two(20));
            }
            Self::Subnormal => {
                row.iter_mut().for_each(|value| *value = scaled(*value, T::SUBNORMAL));
            }
            Self::Normal
            | Self::Positive
            | Self::Spread20
            | Self::Spread60
            | Self::Units
            | Self::Spike
            | Self::Cancellation
            | Self::Integers => {}
        }
        row
    }

    fn row_of_b<T: Judged>(self, n: usize, rng: &mut Xoshiro256PlusPlus) -> Vec<T> {
        let mut row: Vec<T> = (0..n).map(|_| self.element(rng)).collect();
        if self == Self::Subnormal {
            row.iter_mut().for_each(|value| *value = scaled(*value, T::LARGE));
        }
        row
    }

    fn element<T: Judged>(self, rng: &mut Xoshiro256PlusPlus) -> T {
        let spread = |rng: &mut Xoshiro256PlusPlus, most: i32| {
            let fraction = T::from_f64(1.0 + T::uniform(rng).to_f64());
            let sign = if rng.random::<bool>() { 1.0 } else { -1.0 };
            let exponent: i64 = rng.random_range(-most..=most).into();
            scaled(fraction, sign * power_of_two(exponent))
        };
        match self {
            Self::Positive => T::uniform(rng),
            Self::Spread20 => spread(rng, 20),
            Self::Spread60 => spread(rng, 60),
            Self::Integers => T::from_f64(rng.random_range(-8..=8i8).into()),
            Self::Normal | Self::Units | Self::Spike | Self::Cancellation | Self::Subnormal => {
                T::from_f64(normal(rng))
            }
        }
    }
}

/// What is left of a term that cancels, beside the term.
const REST: f64 = 1.0 / 4096.0;

/// A number times a power of two: rounded at most once.
fn scaled<T: Judged>(value: T, power: f64) -> T {
    T::from_f64(value.to_f64() * power)
}

fn rows<T: Scalar>(
    (count, len): (usize, usize),
    seed: u64,
    stream: u64,
    row: impl Fn(&mut Xoshiro256PlusPlus) -> Vec<T>,
) -> Result<Vec<T>, Error> {
    let mut rows = reserve(count, len, "an operand")?;
    for index in 0..count {
        rows.extend(row(&mut generator(seed, stream, index as u64)));
    }
    Ok(rows)
}

impl fmt::Display for DataSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for DataSet {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|set| set.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|set| set.name()).collect();
            format!("`{name}` is none of {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_what_they_are_called() {
        let (m, n, k) = (7, 9, 64);
        let drawn = |set: DataSet| set.draw::<f32>(m, n, k, 3).unwrap();
        for set in DataSet::ALL {
            let (a, b) = drawn(set);
            assert_eq!((a.len(), b.len()), (m * k, k * n), "{set}");
            assert!(a.iter().chain(&b).all(|value| value.is_finite()), "{set}");
            assert_eq!(set.name().parse(), Ok(set));
            assert_eq!(drawn(set), drawn(set), "{set} is not repeatable");
        }
        let (a, _) = drawn(DataSet::Subnormal);
        assert!(a.iter().all(|value| value.is_subnormal() || *value == 0.0));
        assert!(a.iter().filter(|value| **value != 0.0).count() > m * k / 2);
        let (a, b) = drawn(DataSet::Positive);
        assert!(a.iter().chain(&b).all(|value| (0.0..1.0).contains(value)));
        let (a, _) = drawn(DataSet::Spike);
        for row in a.chunks_exact(k) {
            assert_eq!(row.iter().filter(|value| value.abs() > 1e4).count(), 1, "{row:?}");
        }
        let (a, _) = drawn(DataSet::Spread60);
        let sizes = a.iter().map(|value| value.abs());
        assert!(sizes.clone().fold(0.0, f32::max) / sizes.fold(f32::MAX, f32::min) > 1e25);
        // Columns of A and rows of B differ by much; the terms do not.
        let ((a, b), (plain_a, plain_b)) = (drawn(DataSet::Units), drawn(DataSet::Normal));
        let unit = |step: usize| a[step] / plain_a[step];
        assert!((0..k).any(|step| unit(step) > 1e3) && (0..k).any(|step| unit(step) < 1e-3));
        for step in 0..k {
            assert_eq!(
                a[3 * k + step] * b[step * n + 5],
                plain_a[3 * k + step] * plain_b[step * n + 5]
            );
        }
        // The terms of a sum are thousands of times as large as the sum.
        let (a, b) = drawn(DataSet::Cancellation);
        for (row, col) in [(0, 0), (3, 5), (6, 8)] {
            let terms =
                (0..k).map(|step| f64::from(a[row * k + step]) * f64::from(b[step * n + col]));
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
            assert!(sum != 0.0 && sum.abs() < size / 500.0, "{sum} of {size}");
        }
        assert!("ones".parse::<DataSet>().is_err());
    }

    #[test]
    fn sets_of_f64_have_digits_of_their_own_and_the_same_shape() {
        let (m, n, k) = (5, 6, 32);
        for set in DataSet::ALL {
            let (a, b) = set.draw::<f64>(m, n, k, 3).unwrap();
            assert_eq!((a.len(), b.len()), (m * k, k * n), "{set}");
            assert!(a.iter().chain(&b).all(|value| value.is_finite()), "{set}");
            let more = |value: &f64| f32::from_f64(*value).to_f64().to_bits() != value.to_bits();
            assert_eq!(a.iter().any(more), set != DataSet::Integers, "{set}");
        }
        let (a, b) = DataSet::Subnormal.draw::<f64>(m, n, k, 3).unwrap();
        assert!(a.iter().all(|value| value.is_subnormal()));
        let product: f64 = (0..k).map(|step| a[step] * b[step * n]).sum();
        assert!(product.is_normal(), "{product:e}");
    }
}
