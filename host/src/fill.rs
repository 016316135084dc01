//! Seeded inputs: the same numbers on every machine, for any number of threads.

use std::fmt;
use std::str::FromStr;

use gemm_spec::{Operand, Order, Problem};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::prelude::*;

use crate::error::Error;
use crate::memory::allocate;
use crate::scalar::{Scalar, ScalarTypes};

/// How the elements of the inputs are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Distribution {
    /// Uniform in [-1, 1]; integers from -8 to 8.
    #[default]
    Uniform,
    /// Normal, mean 0 and deviation 1; integers are rounded normals of deviation 4.
    Normal,
    /// Integers from -8 to 8, so that sums are exact in every type and any order.
    Int,
    /// A number that names its place, `row % 13 * 8 + col % 7 - 50`: exact like `Int`, and a swapped
    /// row, column or tile shows. Not symmetric, unlike inputs of all ones.
    Position,
}

impl Distribution {
    /// Every distribution.
    pub const ALL: [Self; 4] = [Self::Uniform, Self::Normal, Self::Int, Self::Position];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Normal => "normal",
            Self::Int => "int",
            Self::Position => "position",
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|distribution| distribution.name() == name)
            .ok_or_else(|| format!("`{name}` is none of uniform, normal, int, position"))
    }
}

/// Largest magnitude of an element of `Int`.
const INT_MAX: i32 = 8;

/// Fills the rows of a row-major matrix that are `ld` elements apart; padding stays as it is.
///
/// Every row has its own generator, seeded by `seed`, `stream` and the row's number; `stream` tells
/// the matrices of one run apart.
pub fn fill<T: Scalar>(
    data: &mut [T],
    cols: usize,
    ld: usize,
    distribution: Distribution,
    seed: u64,
    stream: u64,
) {
    if cols == 0 || ld == 0 {
        return;
    }
    data.par_chunks_mut(ld).enumerate().for_each(|(row, line)| {
        let line = match line.get_mut(..cols) {
            Some(line) => line,
            None => return,
        };
        let mut rng = generator(seed, stream, row as u64);
        for (col, element) in line.iter_mut().enumerate() {
            *element = T::from_f64(draw(distribution, T::DTYPE, &mut rng, row, col));
        }
    });
}

/// What a product's operands are drawn with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub(crate) distribution: Distribution,
    pub(crate) seed: u64,
    /// Added to the stream of each operand, which is its place in A, B, C.
    pub(crate) stream: u64,
    /// What the matrices are for, in the words of a refusal for want of memory.
    pub(crate) what: &'static str,
}

impl Draw {
    /// A new matrix of an operand's size, tightly packed.
    pub(crate) fn operand<T: ScalarTypes, E: Scalar>(
        &self,
        problem: &Problem<T>,
        operand: Operand,
    ) -> Result<Vec<E>, Error> {
        let (rows, cols) = problem.dims(operand);
        // Each contiguous line is drawn by itself.
        let (lines, line) = match problem.layout(operand).order {
            Order::RowMajor => (rows, cols),
            Order::ColMajor => (cols, rows),
        };
        let mut data = allocate(lines, line, self.what)?;
        let stream = self.stream + operand as u64;
        fill(&mut data, line, line, self.distribution, self.seed, stream);
        Ok(data)
    }
}

/// The generator of one row: one 64-bit mix of the three numbers seeds it.
pub(crate) fn generator(seed: u64, stream: u64, row: u64) -> Xoshiro256PlusPlus {
    // Odd constants far apart keep the rows of different matrices and seeds from meeting;
    // `seed_from_u64` runs SplitMix64 over the result.
    let mixed = seed
        ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ row.wrapping_add(1).wrapping_mul(0xd1b5_4a32_d192_ed03);
    Xoshiro256PlusPlus::seed_from_u64(mixed)
}

fn draw(
    distribution: Distribution,
    dtype: gemm_spec::DType,
    rng: &mut Xoshiro256PlusPlus,
    row: usize,
    col: usize,
) -> f64 {
    let integers = dtype.is_integer();
    match distribution {
        Distribution::Uniform if integers => f64::from(rng.random_range(-INT_MAX..=INT_MAX)),
        Distribution::Uniform => 2.0 * rng.random::<f64>() - 1.0,
        Distribution::Normal => {
            let normal = normal(rng);
            if integers { (4.0 * normal).round() } else { normal }
        }
        Distribution::Int => f64::from(rng.random_range(-INT_MAX..=INT_MAX)),
        Distribution::Position => (row % 13 * 8 + col % 7) as f64 - 50.0,
    }
}

/// A standard normal number, by Box and Muller.
pub(crate) fn normal(rng: &mut Xoshiro256PlusPlus) -> f64 {
    let u = 1.0 - rng.random::<f64>();
    let v = rng.random::<f64>();
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(distribution: Distribution, seed: u64, stream: u64) -> Vec<f32> {
        let mut data = vec![f32::NAN; 40 * 50];
        fill(&mut data, 50, 50, distribution, seed, stream);
        data
    }

    #[test]
    fn a_seed_gives_the_same_numbers_and_another_seed_others() {
        for distribution in [Distribution::Uniform, Distribution::Normal, Distribution::Int] {
            let first = filled(distribution, 7, 0);
            assert_eq!(first, filled(distribution, 7, 0));
            assert_ne!(first, filled(distribution, 8, 0));
            assert_ne!(first, filled(distribution, 7, 1));
            assert_ne!(first[..50], first[50..100], "rows repeat");
            assert!(first.iter().all(|value| value.is_finite()));
        }
    }

    #[test]
    fn uniform_covers_its_range_around_zero() {
        let data = filled(Distribution::Uniform, 1, 0);
        assert!(data.iter().all(|value| (-1.0..=1.0).contains(value)));
        let mean = data.iter().map(|&value| f64::from(value)).sum::<f64>() / data.len() as f64;
        assert!(mean.abs() < 0.05, "{mean}");
        assert!(data.iter().any(|&value| value < -0.9) && data.iter().any(|&value| value > 0.9));
    }

    #[test]
    fn normal_has_mean_zero_and_deviation_one() {
        let data = filled(Distribution::Normal, 1, 0);
        let square = data.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>();
        assert!((square / data.len() as f64 - 1.0).abs() < 0.1);
    }

    #[test]
    fn padding_is_left_alone() {
        let mut data = vec![9.0f64; 3 * 8];
        fill(&mut data, 5, 8, Distribution::Position, 0, 0);
        assert!((0..3).all(|row| data[row * 8 + 5..row * 8 + 8] == [9.0; 3]));
        assert_eq!(data[8 + 4], 8.0 + 4.0 - 50.0);
    }

    #[test]
    fn names_lead_back() {
        for distribution in Distribution::ALL {
            assert_eq!(distribution.name().parse(), Ok(distribution));
        }
        assert!("gauss".parse::<Distribution>().is_err());
    }
}
