//! Every row of C by random vectors: is `C x` what `alpha A (B x) + beta C0 x` is?

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng;
use rayon::prelude::*;

use super::bound::{self, Format};
use super::elements::Elements;
use super::judge::Tally;
use super::magnitudes::Magnitudes;
use super::pollution::Pollution;
use super::profile::{is_integral, line_is_integral};
use super::project::{Bundle, Entries, Lift, VECTORS, WHAT, Wrapping, project, project_into};
use super::source::{Source, View, real};
use super::{VerifyError, reserved};
use gemm_spec::Element;

use crate::scalar::{Scalar, ScalarTypes};

/// The random vectors and what a correct result makes of them.
pub(super) struct Freivalds<T: ScalarTypes> {
    vectors: Vectors<T>,
    /// Largest error of a row, in its unit; 0 where sums are exact.
    pub(super) bound: f64,
    integral: bool,
    /// Whether a correct result can leave the type's range.
    may_overflow: bool,
    pollution: Option<Pollution>,
}

enum Vectors<T: ScalarTypes> {
    Real {
        x: Vec<Bundle<f64>>,
        expected: Vec<Bundle<f64>>,
        /// Unit of each row's error; none where sums are exact.
        units: Vec<f64>,
    },
    Modular {
        x: Vec<Bundle<Wrapping<T::Acc>>>,
        expected: Vec<Bundle<Wrapping<T::Acc>>>,
    },
}

impl<T: ScalarTypes> Freivalds<T> {
    pub(super) fn new(
        source: &Source<'_, T>,
        integral: bool,
        random: &mut Xoshiro256PlusPlus,
    ) -> Result<Self, VerifyError> {
        if T::TYPES.is_integer() {
            let x = odd_then_any::<T>(source.problem.n, random)?;
            let (alpha, beta) = (Wrapping(source.problem.alpha), Wrapping(source.problem.beta));
            let expected = expected(source, alpha, beta, &x, Entries::All)?;
            let vectors = Vectors::Modular { x, expected };
            return Ok(Self {
                vectors,
                bound: 0.0,
                integral,
                may_overflow: false,
                pollution: None,
            });
        }
        let sizes = Magnitudes::of(source)?;
        let pollution = if sizes.finite { None } else { Some(Pollution::of(source)?) };
        let exact = integral && sizes.exact;
        let sums = bound::projected(source.problem.n, source.depth(), sizes.format.roundoff);
        let bound = sums + bound::ROUNDED_ROW * source.units_of_factors();
        let mut x = signs(source.problem.n, random)?;
        if let Some(pollution) = &pollution {
            for (x, _) in x.iter_mut().zip(&pollution.cols).filter(|(_, polluted)| **polluted) {
                *x = [0.0; VECTORS];
            }
        }
        let (alpha, beta) = (source.problem.alpha.to_f64(), source.problem.beta.to_f64());
        let entries = if pollution.is_some() { Entries::Finite } else { Entries::All };
        let expected = expected(source, alpha, beta, &x, entries)?;
        let units = if exact { vec![] } else { sizes.units(source, bound)? };
        Ok(Self {
            vectors: Vectors::Real { x, expected, units },
            bound: if exact { 0.0 } else { bound },
            integral,
            may_overflow: sizes.may_overflow,
            pollution,
        })
    }

    /// The error of one element of a row from which on the row cannot pass, as an absolute
    /// difference: the rest of the row may err as far as allowed the other way.
    pub(super) fn visible_error(&self, source: &Source<'_, T>, row: usize) -> f64 {
        match &self.vectors {
            Vectors::Real { units, .. } if !units.is_empty() => {
                let sums = 2.0 * self.bound * units[row];
                if T::ROUNDS { rounded_visible(source, row, sums) } else { sums }
            }
            Vectors::Real { .. } | Vectors::Modular { .. } => 0.0,
        }
    }

    /// Rows that hold what is not finite because of their row of A, for a closer look.
    pub(super) fn polluted_rows(&self) -> impl Iterator<Item = usize> {
        let rows = self.pollution.iter().flat_map(|pollution| pollution.rows.iter().enumerate());
        rows.filter(|(_, polluted)| **polluted).map(|(row, _)| row)
    }

    /// Checks every row; `checked` and `bad` of the tally count rows.
    pub(super) fn check(&self, source: &Source<'_, T>, c: View<'_, T::C>) -> Tally {
        let errors = self.row_errors(source, c);
        // A row that memory has no room to look at stays what the vectors say of it.
        let closer = |row: usize| Elements::new(source, &[row], self.integral);
        let mut wrong = vec![];
        let mut tally = Tally { checked: errors.len(), ..Tally::default() };
        for (row, error) in errors.into_iter().enumerate() {
            if !bound::within(error, self.bound) {
                let endless = self.may_overflow
                    && (0..c.cols).any(|col| !is_finite(c.at(row, col)))
                    && closer(row).is_ok_and(|row| row.check(source, c).bad == 0);
                if endless {
                    continue;
                }
                wrong.push(row);
            }
            tally.max_error = tally.max_error.max(error);
        }
        let described = wrong.par_iter().map(|&row| self.describe(source, c, row));
        tally = tally.merge(described.reduce(Tally::default, Tally::merge));
        tally.bad = wrong.len();
        if let Some(&row) = wrong.first()
            && let Ok(elements) = closer(row)
        {
            tally.first = elements.check(source, c).first.or_else(|| elements.worst(c));
        }
        tally
    }

    /// Counts what can be said about the elements of a wrong row without a reference.
    fn describe(&self, source: &Source<'_, T>, c: View<'_, T::C>, row: usize) -> Tally {
        let mut tally = Tally::default();
        if let Some(before) = source.c_before
            && (0..c.cols).all(|col| c.at(row, col).same_bits(before.at(row, col)))
        {
            tally.unwritten = c.cols;
            return tally;
        }
        for col in 0..c.cols {
            let found = c.at(row, col);
            // No poison of floats is a number, which is quicker seen.
            if !T::TYPES.is_integer() && !real(found).is_nan() {
                continue;
            }
            if source.c_before.is_none() && found.same_bits(T::C::POISON) {
                tally.unwritten += 1;
            } else if found.is_nan() && !self.is_polluted(source, row, col) {
                tally.nan += 1;
            }
        }
        tally
    }

    fn is_polluted(&self, source: &Source<'_, T>, row: usize, col: usize) -> bool {
        self.pollution.as_ref().is_some_and(|pollution| pollution.reaches(source, row, col))
    }

    /// The error of each row in its unit; infinite where it is no number.
    fn row_errors(&self, source: &Source<'_, T>, c: View<'_, T::C>) -> Vec<f64> {
        match &self.vectors {
            Vectors::Modular { x, expected } => {
                let wrong =
                    |(z, want): (Bundle<Wrapping<T::Acc>>, &_)| f64::from(u8::from(z != *want));
                row_sums(c, x, Entries::All).into_iter().zip(expected).map(wrong).collect()
            }
            Vectors::Real { x, expected, units } => {
                let last = if T::ROUNDS && !units.is_empty() { roundings(c) } else { vec![] };
                let with_last: Vec<f64> =
                    units.iter().zip(&last).map(|(unit, last)| unit + last / self.bound).collect();
                let units = if last.is_empty() { units } else { &with_last };
                let Some(pollution) = &self.pollution else {
                    let mut errors = residuals(&row_sums(c, x, Entries::All), expected, units);
                    if units.is_empty() && !is_integral(c) {
                        mark_fractions(c, &mut errors);
                    }
                    return errors;
                };
                let found = row_sums(c, x, Entries::Finite);
                let mut errors = residuals(&found, expected, units);
                pollution.correct(source, c, &mut errors);
                errors
            }
        }
    }
}

/// What the vectors make of a result.
fn row_sums<T: Scalar, R: Lift<T>>(
    c: View<'_, T>,
    x: &[Bundle<R>],
    entries: Entries,
) -> Vec<Bundle<R>> {
    let mut sums = vec![[R::ZERO; VECTORS]; c.rows];
    project_into(c, x, entries, &mut sums);
    sums
}

/// What the last rounding of its elements may add to each row's sum.
fn roundings<T: Scalar>(c: View<'_, T>) -> Vec<f64> {
    let width = |value: T| if is_finite(value) { bound::rounding(value) } else { 0.0 };
    let of_row = |row| bound::rounded_row((0..c.cols).map(|col| width(c.at(row, col))));
    (0..c.rows).into_par_iter().map(of_row).collect()
}

/// What must be added to one element so that a row is seen to be wrong, of which sums alone need
/// `sums`, where elements are rounded at the end: what the roundings may add on either side, and the
/// rounding of the wrong element itself.
fn rounded_visible<T: ScalarTypes>(source: &Source<'_, T>, row: usize, sums: f64) -> f64 {
    let u = T::TYPES.c().unit_roundoff();
    let least = T::C::ZERO.rounded_from().1;
    let roundoff = Format::of(T::TYPES).roundoff * source.elementwise();
    // Without a row of the reference nothing is certain.
    let Ok(reference) = source.reference(&[row]) else { return f64::INFINITY };
    let sizes = || {
        let values = reference.expected.iter().zip(&reference.scale);
        values.map(|(expected, scale)| expected.abs() + roundoff * scale)
    };
    let largest = sizes().fold(0.0, f64::max);
    let others = bound::rounded_row(sizes().map(|size| u * size + least));
    let own = bound::ROUNDED_ROW * (u * largest + least) + least;
    (sums + 2.0 * others + own) / (1.0 - (bound::ROUNDED_ROW + 1.0) * u)
}

/// The largest difference of each row, in its unit if it has one.
fn residuals(found: &[Bundle<f64>], expected: &[Bundle<f64>], units: &[f64]) -> Vec<f64> {
    let of_row = |(row, (found, expected)): (usize, (&Bundle<f64>, &Bundle<f64>))| {
        let unit = units.get(row).copied().unwrap_or(1.0);
        found.iter().zip(expected).fold(0.0, |worst: f64, (z, want)| {
            let difference = (z - want).abs();
            match difference / unit {
                _ if difference == 0.0 => worst,
                error if error.is_nan() => f64::INFINITY,
                error => worst.max(error),
            }
        })
    };
    found.iter().zip(expected).enumerate().map(of_row).collect()
}

/// Where sums of integers are exact a fraction is wrong, though f64 may lose it in a sum.
fn mark_fractions<T: Scalar>(c: View<'_, T>, errors: &mut [f64]) {
    for (row, error) in errors.iter_mut().enumerate() {
        if (0..c.cols).any(|col| !line_is_integral(&[c.at(row, col)])) {
            *error = f64::INFINITY;
        }
    }
}

/// `alpha A (B x) + beta C0 x`
fn expected<T: ScalarTypes, R: Lift<T::A> + Lift<T::B> + Lift<T::C>>(
    source: &Source<'_, T>,
    alpha: R,
    beta: R,
    x: &[Bundle<R>],
    entries: Entries,
) -> Result<Vec<Bundle<R>>, VerifyError> {
    let mut sums = project(source.a, &project(source.b, x, entries)?, entries)?;
    for sum in sums.iter_mut().flatten() {
        *sum = R::ZERO.add_product(alpha, *sum);
    }
    let Some(before) = source.c_before else {
        return Ok(sums);
    };
    for (sum, old) in sums.iter_mut().zip(project(before, x, entries)?) {
        for (sum, old) in sum.iter_mut().zip(old) {
            *sum = sum.add_product(beta, old);
        }
    }
    Ok(sums)
}

/// Vectors of random signs.
fn signs(len: usize, random: &mut Xoshiro256PlusPlus) -> Result<Vec<Bundle<f64>>, VerifyError> {
    let sign = |bits: u64, at: usize| if bits >> (63 - at) & 1 == 1 { 1.0 } else { -1.0 };
    let mut bundle = || {
        let bits = random.next_u64();
        std::array::from_fn(|at| sign(bits, at))
    };
    let mut bundles = reserved(len, WHAT)?;
    bundles.extend((0..len).map(|_| bundle()));
    Ok(bundles)
}

/// Random integers modulo 2^32. Those of the first vector are odd, so that no wrong element is
/// multiplied away; the others are not, since two errors of 2^31 cancel under any two odd factors.
fn odd_then_any<T: ScalarTypes>(
    len: usize,
    random: &mut Xoshiro256PlusPlus,
) -> Result<Vec<Bundle<Wrapping<T::Acc>>>, VerifyError> {
    let mut bundle = || {
        std::array::from_fn(|at| {
            let any = (random.next_u64() >> 32) as u32;
            let value = if at == 0 { any | 1 } else { any };
            Wrapping(T::Acc::from_f64(f64::from(value.cast_signed())))
        })
    };
    let mut bundles = reserved(len, WHAT)?;
    bundles.extend((0..len).map(|_| bundle()));
    Ok(bundles)
}

fn is_finite<T: Scalar>(value: T) -> bool {
    real(value).is_finite()
}

#[cfg(test)]
mod tests {
    use rand_xoshiro::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn the_first_modular_vector_is_odd_and_the_others_are_mixed() {
        let x = odd_then_any::<i32>(200, &mut Xoshiro256PlusPlus::seed_from_u64(3)).unwrap();
        let odd = |at: usize| x.iter().filter(|bundle| bundle[at].0 & 1 == 1).count();
        assert_eq!(odd(0), 200);
        for at in 1..VECTORS {
            assert!((60..140).contains(&odd(at)), "{}", odd(at));
        }
    }

    #[test]
    fn signs_are_signs_and_differ_between_vectors() {
        let x = signs(200, &mut Xoshiro256PlusPlus::seed_from_u64(3)).unwrap();
        for at in 0..VECTORS {
            assert!(x.iter().all(|bundle| bundle[at].abs() == 1.0));
            let sum: f64 = x.iter().map(|bundle| bundle[at]).sum();
            assert!(sum.abs() < 80.0);
            let other: f64 = x.iter().map(|b| b[at] * b[(at + 1) % VECTORS]).sum();
            assert!(other.abs() < 80.0);
        }
    }

    #[test]
    fn residuals_never_lose_a_nan() {
        let zero = [0.0; VECTORS];
        for place in 0..VECTORS {
            let mut found = zero;
            found[place] = f64::NAN;
            assert_eq!(residuals(&[zero, found], &[zero; 2], &[0.0, 1.0]), [0.0, f64::INFINITY]);
        }
    }
}
