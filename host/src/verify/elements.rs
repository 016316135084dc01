//! Comparing elements of C one by one with the reference.

use gemm_spec::AccType;
use rayon::prelude::*;

use super::VerifyError;
use super::bound::Format;
use super::judge::{Element, Judge, Tally};
use super::profile::is_integral;
use super::reference::{Reference, Tile};
use super::report::Mismatch;
use super::source::{Source, View};
use crate::scalar::{Scalar, ScalarTypes};

/// How far a result is from the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Accuracy {
    /// Norm of the errors over the norm of the reference, both of Frobenius.
    pub frobenius: f64,
    /// The largest error of an element over `|alpha||A||B| + |beta||C0|` of that element: what rounding
    /// the terms once would leave is at most the unit roundoff.
    pub worst: f64,
}

/// The reference for some rows of C.
pub(super) struct Elements {
    reference: Reference,
    pub(super) judge: Judge,
}

impl Elements {
    /// The rows named. `integral` says that operands and factors are integers, see [`all_integers`].
    pub(super) fn new<T: ScalarTypes>(
        source: &Source<'_, T>,
        rows: &[usize],
        integral: bool,
    ) -> Result<Self, VerifyError> {
        let reference = source.reference(rows)?;
        let limit = Format::of(T::TYPES).exact_limit;
        let exact = integral && reference.scale.iter().all(|&scale| scale <= limit);
        let endless = T::TYPES.acc() == AccType::F64
            && reference.scale.contains(&f64::INFINITY)
            && all_finite(source);
        Ok(Self { reference, judge: Judge::new(source, exact, endless) })
    }

    /// Whether a row is among these.
    pub(super) fn has_row(&self, row: usize) -> bool {
        self.reference.rows.contains(&row)
    }

    /// Compares these rows of `c`.
    pub(super) fn check<T: ScalarTypes>(&self, source: &Source<'_, T>, c: View<'_, T::C>) -> Tally {
        self.check_where(source, c, |_, _| true)
    }

    /// Compares the elements of these rows of `c` of which `wanted`, told row and column, says so.
    pub(super) fn check_where<T: ScalarTypes>(
        &self,
        source: &Source<'_, T>,
        c: View<'_, T::C>,
        wanted: impl Fn(usize, usize) -> bool + Sync,
    ) -> Tally {
        self.reference
            .tiles
            .par_iter()
            .map(|tile| self.check_tile(tile, source, c, &wanted))
            .reduce(Tally::default, Tally::merge)
    }

    fn check_tile<T: ScalarTypes>(
        &self,
        tile: &Tile,
        source: &Source<'_, T>,
        c: View<'_, T::C>,
        wanted: &impl Fn(usize, usize) -> bool,
    ) -> Tally {
        let mut tally = Tally::default();
        let elements = self.reference.elements(tile);
        for (row, col, expected, scale) in elements.filter(|(row, col, ..)| wanted(*row, *col)) {
            let element = Element {
                row,
                col,
                found: c.at(row, col),
                before: source.c_before.map(|before| before.at(row, col)),
                expected,
                scale,
            };
            self.judge.count(&mut tally, element);
        }
        tally
    }

    /// How far `c` is from the reference as a whole.
    pub(super) fn accuracy<T: Scalar>(&self, c: View<'_, T>) -> Accuracy {
        let of_tile = |tile: &Tile| {
            self.reference.elements(tile).fold(
                [0.0f64; 3],
                |[errors, sizes, worst], (row, col, expected, scale)| {
                    let error = (c.at(row, col).to_f64() - expected).abs();
                    let share = if error == 0.0 { 0.0 } else { error / scale };
                    // A NaN is the worst that there is.
                    let share = if share.is_nan() { f64::INFINITY } else { share };
                    [errors + error * error, sizes + expected * expected, worst.max(share)]
                },
            )
        };
        let sum = |[e, s, w]: [f64; 3], [errors, sizes, worst]: [f64; 3]| {
            [e + errors, s + sizes, w.max(worst)]
        };
        // In the order of the tiles, so that the same result has the same figures.
        let of_tiles: Vec<_> = self.reference.tiles.par_iter().map(of_tile).collect();
        let [errors, sizes, worst] = of_tiles.into_iter().fold([0.0; 3], sum);
        let frobenius = if errors == 0.0 { 0.0 } else { (errors / sizes).sqrt() };
        let frobenius = if frobenius.is_nan() { f64::INFINITY } else { frobenius };
        Accuracy { frobenius, worst }
    }

    /// The element of `c` whose error is largest.
    pub(super) fn worst<T: Scalar>(&self, c: View<'_, T>) -> Option<Mismatch> {
        let of_tile = |tile: &Tile| {
            self.reference
                .elements(tile)
                .map(|(row, col, expected, scale)| {
                    let found = c.at(row, col);
                    let error = self.judge.error(found, expected, scale);
                    (error, Mismatch { row, col, found: found.to_f64(), expected })
                })
                .max_by(|x, y| x.0.total_cmp(&y.0))
        };
        self.reference
            .tiles
            .iter()
            .filter_map(of_tile)
            .max_by(|x, y| x.0.total_cmp(&y.0))
            .map(|worst| worst.1)
    }
}

impl Reference {
    /// Row, column, expected value and scale of each element of a tile.
    fn elements(&self, tile: &Tile) -> impl Iterator<Item = (usize, usize, f64, f64)> {
        let values = self.expected[tile.at.clone()].iter().zip(&self.scale[tile.at.clone()]);
        let places = tile.rows.iter().flat_map(|&row| tile.cols.clone().map(move |col| (row, col)));
        places.zip(values).map(|((row, col), (&expected, &scale))| (row, col, expected, scale))
    }
}

/// Whether everything that the problem reads is an integer, so that sums can be exact.
pub(super) fn all_integers<T: ScalarTypes>(source: &Source<'_, T>) -> bool {
    let factor = |value: T::Acc| {
        let value = value.to_f64();
        value.is_finite() && value.trunc() == value
    };
    T::TYPES.is_integer()
        || factor(source.problem.alpha)
            && factor(source.problem.beta)
            && is_integral(source.a)
            && is_integral(source.b)
            && source.c_before.is_none_or(is_integral)
}

fn all_finite<T: ScalarTypes>(source: &Source<'_, T>) -> bool {
    fn all<T: Scalar>(view: View<'_, T>) -> bool {
        let finite = |value: &T| value.to_f64().is_finite();
        (0..view.lines()).into_par_iter().all(|line| view.line(line).iter().all(finite))
    }
    let factor = |value: T::Acc| value.to_f64().is_finite();
    factor(source.problem.alpha)
        && factor(source.problem.beta)
        && all(source.a)
        && all(source.b)
        && source.c_before.is_none_or(all)
}
