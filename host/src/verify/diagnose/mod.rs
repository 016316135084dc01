//! Why a result is wrong: the pattern that its wrong elements follow, by name.
//!
//! Every guess is tested by computing what C would hold if it were true, for some wrong elements and
//! some right ones, and counting where that is what C holds, within rounding. Guesses that explain
//! nothing are dropped; the others come back with the share that they explain.
//!
//! ```
//! use gemm_spec::Problem;
//! use lab::verify::{Evidence, Pattern, diagnose};
//!
//! let problem = Problem::<f32>::new(3, 3, 2);
//! let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [7.0, 8.0, 9.0, 1.0, 2.0, 3.0]);
//! let mut c = vec![9.0, 29.0, 49.0, 12.0, 32.0, 52.0, 15.0, 35.0, 55.0];
//! let evidence = Evidence::new(&problem, &a, &b, &c);
//! let case = diagnose(&evidence)?.expect("the result is wrong");
//! assert_eq!(case.diagnoses[0].pattern, Pattern::TransposedResult);
//! # Ok::<(), lab::verify::VerifyError>(())
//! ```
//!
//! Inputs whose elements tell their place, or integers, decide most; but guesses about random data
//! are tested as strictly. At most a few hundred elements are looked at closely, and 2^24 products
//! are spent on telling right elements from wrong ones.

mod factor;
mod guess;
mod memory;
mod pattern;
mod product;
mod race;
mod scene;
#[cfg(test)]
mod tests;

use std::fmt;

use gemm_spec::{Element, Operand, Problem, ShapeError};
use serde::Serialize;

use self::guess::{Score, best};
pub use self::pattern::{Axis, Factor, Leftover, Pattern};
use self::race::Missing;
use self::scene::{OPERANDS, Scene, State, Survey};
use super::VerifyError;
use super::report::Mismatch;
use crate::scalar::{Scalar, ScalarTypes};

/// Diagnoses that are handed out at most.
const MOST_DIAGNOSES: usize = 4;
/// Confidence below which a guess is not worth a line.
const LEAST_CONFIDENCE: f64 = 0.2;
/// Tile widths that are always tried.
const WIDTHS: [usize; 7] = [2, 4, 8, 16, 32, 64, 128];
/// Errors above this share of the sum of magnitudes are no rounding.
const NOISE: f64 = 1.0 / 256.0;

/// A wrong result, and all that is known of how it came about.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a, T: ScalarTypes> {
    /// The problem.
    pub problem: &'a Problem<T>,
    /// A as the problem lays it out; not looked at where alpha is zero.
    pub a: &'a [T::A],
    /// B as the problem lays it out; not looked at where alpha is zero.
    pub b: &'a [T::B],
    /// What C held before the run, laid out as C is. Empty stands for [`Scalar::POISON`]
    /// everywhere; with numbers here, even where beta is zero, an old C that was added shows.
    pub c_before: &'a [T::C],
    /// The result.
    pub c: &'a [T::C],
    /// An element known to be wrong, so that it is looked at in any case.
    pub hint: Option<(usize, usize)>,
}

impl<'a, T: ScalarTypes> Evidence<'a, T> {
    /// The result of a run on a poisoned C, with no hint.
    #[must_use]
    pub fn new(problem: &'a Problem<T>, a: &'a [T::A], b: &'a [T::B], c: &'a [T::C]) -> Self {
        Self { problem, a, b, c_before: &[], c, hint: None }
    }
}

/// One explanation of what went wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The pattern.
    pub pattern: Pattern,
    /// How far to believe it, from 0 to 1: the share of wrong elements that it predicts exactly or
    /// within rounding, times the share of right elements that it leaves right, times `n / (n + 1)`
    /// for the `n` elements that agree. Where an element may have several values, the share that
    /// fits by chance is taken off. Patterns of elements that were never written count the wrong
    /// elements that still hold what they held; others count the rest.
    pub confidence: f64,
    /// The pattern in words.
    pub explanation: String,
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (confidence {:.2})", self.explanation, self.confidence)
    }
}

/// What was found out about a wrong result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// The first wrong element of those looked at.
    pub first: Mismatch,
    /// Elements looked at.
    pub looked_at: usize,
    /// Those that are wrong.
    pub wrong: usize,
    /// Explanations, the best first; none where nothing fits.
    pub diagnoses: Vec<Diagnosis>,
}

/// Names the pattern of a wrong result; `None` where every element that was looked at is right.
///
/// # Errors
/// [`VerifyError::Shape`] where a buffer does not fit the problem.
pub fn diagnose<T: ScalarTypes>(evidence: &Evidence<'_, T>) -> Result<Option<Case>, VerifyError> {
    let Evidence { problem, a, b, c_before, c, hint } = *evidence;
    let mut buffers = vec![(Operand::C, c.len())];
    if problem.effective_k() > 0 {
        buffers.extend([(Operand::A, a.len()), (Operand::B, b.len())]);
    }
    if !c_before.is_empty() || problem.beta != T::Acc::ZERO {
        buffers.push((Operand::C, c_before.len()));
    }
    for (operand, len) in buffers {
        let needed = problem.required_len(operand)?;
        if len < needed {
            return Err(ShapeError::BufferTooShort { operand, len, needed }.into());
        }
    }
    if problem.m == 0 || problem.n == 0 {
        return Ok(None);
    }
    let scene = Scene::new(problem, a, b, c_before, c);
    let survey = scene.survey(hint);
    let Some(first) = survey.first else { return Ok(None) };
    Ok(Some(Case {
        first,
        looked_at: survey.looked,
        wrong: survey.wrong_count + survey.unwritten_count,
        diagnoses: rank(candidates(&scene, &survey)),
    }))
}

/// The best guess of each kind, likelier slips first.
fn candidates<T: ScalarTypes>(scene: &Scene<'_, T>, survey: &Survey) -> Vec<(Pattern, Score)> {
    let widths = &widths(survey);
    let mut found = Vec::new();
    let mut consider = |guess: Option<(Pattern, Score)>| found.extend(guess);

    let edge = scene.edge_unwritten(survey, widths);
    let (tiled_edge, other_edge) = match edge {
        Some(edge) if edge.pattern.fits_tiles() => (Some(edge), None),
        edge => (None, edge),
    };
    consider(best(survey, tiled_edge));
    consider(best(survey, scene.grid_axes_swapped(widths)));
    consider(best(survey, scene.offset_of_stores(widths)));
    consider(best(survey, other_edge));
    consider(best(survey, scene.spilled_over(widths)));
    consider(best(survey, scene.wrong_factor(survey, Factor::Alpha)));
    consider(best(survey, scene.wrong_factor(survey, Factor::Beta)));
    consider(best(survey, scene.transposed_result()));
    if scene.depth > 0 {
        consider(best(survey, scene.tail_missing(widths)));
        consider(best(survey, scene.last_tile_only(widths)));
        consider(best(survey, scene.not_zeroed(widths)));
        consider(best(survey, scene.transposed_in_tiles(Operand::C, widths)));
        consider(best(survey, scene.block_axes_swapped(widths)));
        consider(best(survey, scene.block_offset_missing(widths)));
        consider(best(survey, scene.transposed_operand()));
        consider(best(survey, scene.transposed_in_tiles(Operand::A, widths)));
        consider(best(survey, scene.transposed_in_tiles(Operand::B, widths)));
        for operand in OPERANDS {
            consider(best(survey, scene.wrong_leading_dimension(operand)));
        }
        consider(best(survey, scene.barrier(Missing::First, widths)));
        consider(best(survey, scene.barrier(Missing::Second, widths)));
    }
    consider(not_finite(survey));
    consider(never_written(survey));
    consider(single_element::<T::C>(survey));
    consider(noise(scene, survey));
    found
}

/// Sorts by how well they fit, to a hundredth, then by how much they explain, and keeps the best.
fn rank(mut found: Vec<(Pattern, Score)>) -> Vec<Diagnosis> {
    let hundredths = |score: &Score| (score.fit * 100.0).round();
    found.retain(|(_, score)| score.confidence >= LEAST_CONFIDENCE);
    found.sort_by(|(_, x), (_, y)| {
        hundredths(y).total_cmp(&hundredths(x)).then(y.explained.total_cmp(&x.explained))
    });
    found.truncate(MOST_DIAGNOSES);
    let diagnosis = |(pattern, score): (Pattern, Score)| Diagnosis {
        explanation: pattern.to_string(),
        confidence: score.confidence,
        pattern,
    };
    found.into_iter().map(diagnosis).collect()
}

/// Tile widths to try: the usual ones, and divisors of where the wrong elements begin and end.
fn widths(survey: &Survey) -> Vec<usize> {
    let mut widths = WIDTHS.to_vec();
    for &edge in &survey.edges {
        widths.extend((2..=128.min(edge)).filter(|width| edge % width == 0));
    }
    // The usual ones first, so that they are named where several do as well.
    widths.sort_by_key(|width| (!WIDTHS.contains(width), *width));
    widths.dedup();
    widths
}

/// The widths of tiles that fit; of unusual ones only where no usual one does.
fn fitting(widths: &[usize], fits: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut fitting: Vec<usize> = widths.iter().copied().filter(|width| fits(*width)).collect();
    if fitting.iter().any(|width| WIDTHS.contains(width)) {
        fitting.retain(|width| WIDTHS.contains(width));
    }
    fitting
}

/// A score without a prediction: this share, on this many samples.
fn plain(share: f64, samples: usize, population: usize) -> Score {
    Score::new(share, samples as f64, share * population as f64)
}

fn not_finite(survey: &Survey) -> Option<(Pattern, Score)> {
    let odd = survey.wrong.iter().filter(|sample| !sample.found.is_finite()).count();
    (odd > 0).then(|| {
        let share = odd as f64 / survey.wrong.len() as f64;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a share of the elements that are wrong"
        )]
        let count = (share * survey.wrong_count as f64).round() as usize;
        (Pattern::NotFinite { count }, plain(share, odd, survey.wrong_count))
    })
}

/// Believed less than a pattern that says which.
fn never_written(survey: &Survey) -> Option<(Pattern, Score)> {
    let count = survey.unwritten_count;
    (count > 0).then(|| {
        (
            Pattern::NeverWritten { count },
            plain(0.95, survey.unwritten.len() + survey.right.len(), count),
        )
    })
}

fn single_element<T: Scalar>(survey: &Survey) -> Option<(Pattern, Score)> {
    let [sample] = survey.wrong[..] else { return None };
    (survey.whole && survey.unwritten_count == 0 && sample.state == State::Wrong).then(|| {
        let bit = (0..)
            .zip(T::from_f64(sample.found).bit_flips())
            .find(|(_, flipped)| sample.right.fits(flipped.to_f64()))
            .map(|(bit, _)| bit);
        (Pattern::SingleElement { bit }, plain(1.0, 1 + survey.right.len(), 1))
    })
}

fn noise<T: ScalarTypes>(scene: &Scene<'_, T>, survey: &Survey) -> Option<(Pattern, Score)> {
    // One element that is a little off is no noise.
    if T::TYPES.is_integer() || survey.wrong_count < 2 {
        return None;
    }
    let error = |sample: &&scene::Sample| (sample.found - sample.right.value).abs();
    let small = |sample: &&scene::Sample| error(sample) <= NOISE * sample.right.scale;
    let near: Vec<_> = survey.wrong.iter().filter(small).collect();
    let worst = near.iter().map(|sample| scene.units(error(sample), sample.right.scale));
    let units = worst.reduce(f64::max)?;
    let share = near.len() as f64 / survey.wrong.len() as f64;
    // Much of what goes wrong is small where k is large: a guess that predicts is worth more.
    Some((Pattern::Noise { units }, plain(0.95 * share, near.len(), survey.wrong_count)))
}
