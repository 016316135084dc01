//! Whether a result is the product it should be.
//!
//! [`Guarded`] holds a result between guard words, [`Checker`] judges it, [`Report`] says what was
//! found, and [`diagnose`](diagnose()) why it is wrong. Everything that does not depend on the result is computed once, so that many
//! implementations of one problem are checked cheaply:
//!
//! ```
//! use gemm_spec::Problem;
//! use lab::verify::{Checker, Guarded, Method};
//!
//! let problem = Problem::<f32>::new(1, 1, 2);
//! let (a, b) = ([1.0, 2.0], [3.0, 4.0]);
//! let checker = Checker::new(&problem, &a, &b, &[], Method::Auto, 0)?;
//! let mut c = Guarded::new(&problem)?;
//! assert_eq!(checker.check(c.as_slice()).unwritten, 1);
//! c.as_mut_slice()[0] = 11.0;
//! assert!(checker.check(c.as_slice()).ok && c.intact().is_ok());
//! # Ok::<(), lab::verify::VerifyError>(())
//! ```
//!
//! # What is right
//!
//! * Integers must be exact, modulo 2^32.
//! * Where every operand and factor is an integer and no element's magnitudes add up to more than
//!   2^24 in f32 or 2^53 in f64, floats have nothing to round: they must be exact too (0 and -0 are
//!   equal). This is recognised by itself.
//! * Other floats are compared with a reference in better arithmetic. The error of an element counts
//!   in units of `u * (|alpha||A||B| + |beta||C0|)`, `u` being 2^-24 for f32, and may be
//!   `min(k + 3, max(8, 4 sqrt(k)))` of them.
//! * f16 and bf16 are summed up in f32 and rounded once. Their error is the distance from the
//!   reference to the nearest number that rounds to what was found, so that `u` is that of f32 for
//!   them too; of exact data the result must be the sum, rounded. Where C is f32 (`f16_f32`,
//!   `bf16_f32`) nothing is rounded again, and the error is that of f32.
//! * A NaN or infinity must be one in the reference as well, with the same sign. A sum that leaves
//!   the type's range may be infinite, or NaN where terms of both signs leave it. What still holds
//!   the buffer's poison is wrong even where a NaN is right.
//!
//! # What each method sees
//!
//! [`Method::Full`] compares every element.
//!
//! [`Method::Freivalds`] compares `C x` with `alpha A (B x) + beta C0 x` for four random vectors of
//! signs, in f64. A correct result passes. A wrong one:
//!
//! * One wrong element of a row is seen if its error is above [`Checker::visible_error`]: twice
//!   `max(8, 2 sqrt(k)) u (|alpha| ‖a_i‖₂ ‖B‖_F + |beta| ‖c0_i‖₂)`. For f32 data in [-1, 1] and
//!   n = 10240 that is 8, a quarter of a typical element of C: what vectors see is a wrong product,
//!   not a lost digit. For f64 the rounding of the check itself makes it four times as many units.
//!   For f16 and bf16 the last roundings of the row's elements count besides, by their Euclidean norm.
//! * Several errors in one row may cancel under one vector with probability 1/2 at most, and under
//!   all four with 1/16 at most: two elements of a row that changed places, say. Errors of several
//!   rows escape together only if each row's do.
//! * A NaN or infinity that does not belong is always seen.
//! * With exact data nothing is lost to rounding: the difference must be 0. Integers are checked
//!   modulo 2^32, by one vector of odd numbers and three of any numbers, with the same
//!   probabilities or better.
//! * A row whose operands are not finite is checked for being not finite where it should. Of those
//!   rows, a few are compared element by element.
//!
//! The first, the last and two random rows are compared element by element besides, which sees
//! small errors that are everywhere, such as sums in less precision. The report names the wrong
//! row's first wrong element.
//!
//! [`Method::Sample`] compares a few rows and columns and says so: it measures errors, it does not
//! verify a product.

mod bound;
mod diagnose;
mod elements;
mod freivalds;
mod guard;
mod judge;
mod magnitudes;
mod method;
mod pollution;
mod profile;
mod project;
mod reference;
mod report;
mod sample;
mod source;

use gemm_spec::{Problem, ShapeError};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

pub use diagnose::{Axis, Case, Diagnosis, Evidence, Factor, Leftover, Pattern, diagnose};
pub use guard::{GuardError, Guarded};
pub use method::{Method, UnknownMethod};
pub use report::{Mismatch, Report, Sampled};

pub use self::elements::Accuracy;
use self::elements::{Elements, all_integers};
use self::freivalds::Freivalds;
use self::judge::Tally;
use self::sample::choose;
use self::source::Source;
use crate::error::Error;
use crate::machine::short_of_memory;
use crate::scalar::ScalarTypes;

/// Rows that [`Method::Freivalds`] compares element by element.
const FREIVALDS_ROWS: usize = 4;
/// Rows more of those whose operands are not finite.
const POLLUTED_ROWS: usize = 2;
/// Rows, and columns, that [`Method::Sample`] compares.
const SAMPLE_LINES: usize = 8;

/// Why a result cannot be checked.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// A buffer does not fit the problem.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Random vectors need sums of squares, and f64 does not hold those of this size.
    #[error(
        "operands of magnitude {magnitude:e} are out of range for random vectors; \
         check every element (`full`) instead"
    )]
    Range {
        /// The magnitude.
        magnitude: f64,
    },
    /// Results of one product are checked at a time.
    #[error("a check is of one product, not of a batch of {count}; check each by itself")]
    Batch {
        /// The products.
        count: usize,
    },
    /// What the check keeps beside the result cannot be allocated.
    #[error("{what} needs {needed} bytes, which cannot be had; choose a smaller size")]
    Memory {
        /// What is kept.
        what: &'static str,
        /// Bytes needed.
        needed: u128,
    },
}

impl From<VerifyError> for Error {
    fn from(error: VerifyError) -> Self {
        match error {
            VerifyError::Shape(error) => error.into(),
            VerifyError::Memory { what, needed } => short_of_memory(what, needed),
            VerifyError::Range { .. } | VerifyError::Batch { .. } => {
                Self::Check { reason: error.to_string() }
            }
        }
    }
}

/// No elements, and room for `len`.
fn reserved<E>(len: usize, what: &'static str) -> Result<Vec<E>, VerifyError> {
    let mut data = Vec::new();
    let needed = (len as u128).saturating_mul(size_of::<E>() as u128);
    data.try_reserve_exact(len).map_err(|_| VerifyError::Memory { what, needed })?;
    Ok(data)
}

/// Judges results of one problem on one set of operands.
pub struct Checker<'a, T: ScalarTypes> {
    source: Source<'a, T>,
    strategy: Strategy<T>,
}

enum Strategy<T: ScalarTypes> {
    Full(Elements),
    Freivalds(Box<Freivalds<T>>, Elements),
    Sample { rows: Elements, cols: Elements },
    None,
}

impl<'a, T: ScalarTypes> Checker<'a, T> {
    /// Prepares to check results of `problem` on these operands: computes the reference, or random
    /// vectors from `seed` and what a correct result makes of them.
    ///
    /// `c_before` is what C held before the run, laid out as C is, and is not looked at where beta
    /// is zero; nor are `a` and `b` where alpha is zero.
    ///
    /// # Errors
    /// [`VerifyError::Shape`] where an operand that is read is too short, [`VerifyError::Range`]
    /// where [`Method::Freivalds`] cannot work with f64 operands beyond 1e±140, [`VerifyError::Batch`],
    /// [`VerifyError::Memory`] where the reference cannot be held.
    pub fn new(
        problem: &Problem<T>,
        a: &'a [T::A],
        b: &'a [T::B],
        c_before: &'a [T::C],
        method: Method,
        seed: u64,
    ) -> Result<Self, VerifyError> {
        Self::of_rounded_factors(problem, a, b, c_before, (method, seed), 0.0)
    }

    /// The same for results whose factors may have been rounded, so that each product of two is off by at most
    /// `factors` of itself.
    ///
    /// # Errors
    /// As [`Checker::new`].
    pub fn of_rounded_factors(
        problem: &Problem<T>,
        a: &'a [T::A],
        b: &'a [T::B],
        c_before: &'a [T::C],
        (method, seed): (Method, u64),
        factors: f64,
    ) -> Result<Self, VerifyError> {
        if !problem.batch.is_one() {
            return Err(VerifyError::Batch { count: problem.batch.count });
        }
        let source = Source::new(problem, a, b, c_before)?.of_rounded_factors(factors);
        let method = method.resolve(problem);
        let integral = method != Method::None && factors == 0.0 && all_integers(&source);
        let random = &mut Xoshiro256PlusPlus::seed_from_u64(seed);
        let strategy = match method {
            Method::None => Strategy::None,
            Method::Full | Method::Auto => {
                let rows: Vec<_> = (0..problem.m).collect();
                Strategy::Full(Elements::new(&source, &rows, integral)?)
            }
            Method::Freivalds => {
                let freivalds = Freivalds::new(&source, integral, random)?;
                let mut rows = choose(problem.m, FREIVALDS_ROWS, random);
                rows.extend(freivalds.polluted_rows().take(POLLUTED_ROWS));
                rows.sort_unstable();
                rows.dedup();
                let elements = Elements::new(&source, &rows, integral)?;
                Strategy::Freivalds(Box::new(freivalds), elements)
            }
            Method::Sample => {
                let rows = choose(problem.m, SAMPLE_LINES, random);
                let cols = choose(problem.n, SAMPLE_LINES, random);
                Strategy::Sample {
                    rows: Elements::new(&source, &rows, integral)?,
                    cols: Elements::new(&source.transposed(), &cols, integral)?,
                }
            }
        };
        Ok(Self { source, strategy })
    }

    /// How results are checked; never [`Method::Auto`].
    #[must_use]
    pub fn method(&self) -> Method {
        match self.strategy {
            Strategy::Full(_) => Method::Full,
            Strategy::Freivalds(..) => Method::Freivalds,
            Strategy::Sample { .. } => Method::Sample,
            Strategy::None => Method::None,
        }
    }

    /// The absolute error of a single element of `row` from which on random vectors are certain to
    /// see it; 0 where every error is seen, `None` for other methods.
    ///
    /// # Panics
    /// If C has no such row.
    #[must_use]
    pub fn visible_error(&self, row: usize) -> Option<f64> {
        assert!(row < self.source.problem.m, "C has {} rows", self.source.problem.m);
        match &self.strategy {
            Strategy::Freivalds(freivalds, _) => Some(freivalds.visible_error(&self.source, row)),
            Strategy::Full(_) | Strategy::Sample { .. } | Strategy::None => None,
        }
    }

    /// How far a result, laid out as the problem says, is from the reference; `None` unless every
    /// element is compared ([`Method::Full`]), and for integers, which are right or wrong.
    ///
    /// # Panics
    /// If `c` is shorter than C.
    #[must_use]
    pub fn accuracy(&self, c: &[T::C]) -> Option<Accuracy> {
        match &self.strategy {
            Strategy::Full(elements) => {
                (!T::TYPES.is_integer()).then(|| elements.accuracy(self.source.result(c)))
            }
            Strategy::Freivalds(..) | Strategy::Sample { .. } | Strategy::None => None,
        }
    }

    /// Judges a result, laid out as the problem says.
    ///
    /// # Panics
    /// If `c` is shorter than C.
    #[must_use]
    pub fn check(&self, c: &[T::C]) -> Report {
        let source = &self.source;
        let problem = &source.problem;
        let needed = problem.c.required_len(problem.m, problem.n);
        assert!(needed.is_some_and(|needed| c.len() >= needed), "the result is shorter than C");
        let c = source.result(c);
        match &self.strategy {
            Strategy::None => Report::unchecked(),
            Strategy::Full(elements) => {
                let tally = elements.check(source, c);
                report(Method::Full, "elements", tally, elements.judge.bound)
            }
            Strategy::Sample { rows, cols } => {
                // Where a row and a column meet, the row has counted the element.
                let other = |_, col| !rows.has_row(col);
                let down = cols.check_where(&source.transposed(), c.transposed(), other);
                let down = down.transposed();
                let tally = rows.check(source, c).merge(down);
                // Where the rows are exact and the columns are not, the errors are of two kinds.
                let bound = rows.judge.bound.max(cols.judge.bound);
                report(Method::Sample, "elements", tally, bound)
            }
            Strategy::Freivalds(freivalds, rows) => {
                let tally = freivalds.check(source, c);
                let mut report = report(Method::Freivalds, "rows", tally, freivalds.bound);
                let sampled = rows.check(source, c);
                report.ok &= sampled.bad == 0;
                report.first = report.first.or(sampled.first);
                if tally.bad == 0 {
                    (report.nan, report.unwritten) = (sampled.nan, sampled.unwritten);
                }
                report.sampled = Some(Sampled {
                    checked: sampled.checked,
                    bad: sampled.bad,
                    max_error: sampled.max_error,
                    bound: rows.judge.bound,
                });
                report
            }
        }
    }
}

fn report(method: Method, unit: &'static str, tally: Tally, bound: f64) -> Report {
    let Tally { checked, bad, nan, unwritten, max_error, first } = tally;
    let ok = bad == 0;
    Report {
        method: method.name(),
        ok,
        max_error,
        bound,
        checked,
        unit,
        bad,
        nan,
        unwritten,
        first,
        sampled: None,
    }
}
