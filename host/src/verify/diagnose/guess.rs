//! Guesses, and how well each explains what was found.

use super::pattern::Pattern;
use super::scene::{Sample, Survey, Value};

/// What a guess says of one element.
pub(super) enum Says {
    /// It holds this value.
    Is(Value),
    /// It holds one of these.
    OneOf(Vec<Value>),
    /// It was never written.
    Unwritten,
    /// It is right.
    Right,
    /// Nothing.
    Nothing,
}

/// Which wrong elements a guess is meant to explain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Claims {
    /// Those that were written.
    Written,
    /// Those that were not.
    Unwritten,
    /// All of them.
    Both,
}

/// One guess: what went wrong, and what it makes of each element.
pub(super) struct Guess<'g> {
    pub(super) pattern: Pattern,
    pub(super) claims: Claims,
    pub(super) says: Box<dyn Fn(usize, usize) -> Says + 'g>,
}

impl<'g> Guess<'g> {
    /// A guess about the value of each element.
    pub(super) fn value(pattern: Pattern, value: impl Fn(usize, usize) -> Value + 'g) -> Self {
        Self {
            pattern,
            claims: Claims::Written,
            says: Box::new(move |row, col| Says::Is(value(row, col))),
        }
    }

    /// A guess about which elements were never written.
    pub(super) fn unwritten(pattern: Pattern, missed: impl Fn(usize, usize) -> bool + 'g) -> Self {
        Self {
            pattern,
            claims: Claims::Unwritten,
            says: Box::new(move |row, col| match missed(row, col) {
                true => Says::Unwritten,
                false => Says::Right,
            }),
        }
    }
}

/// How well a guess does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Score {
    /// Share of the elements asked about that it gets right.
    pub(super) fit: f64,
    /// The same, less what a small number of elements leaves open.
    pub(super) confidence: f64,
    /// Wrong elements of the survey that it explains, by the share of the samples.
    pub(super) explained: f64,
}

impl Score {
    /// A share of `evidence` elements.
    pub(super) fn new(fit: f64, evidence: f64, explained: f64) -> Self {
        Self { fit, confidence: fit * evidence / (evidence + 1.0), explained }
    }
}

/// Samples after which a guess that explains nothing is dropped.
const PATIENCE: usize = 8;

impl Survey {
    /// Tests a guess on the samples.
    pub(super) fn score(&self, guess: &Guess<'_>) -> Score {
        let (mut asked, mut explained) = (0, 0);
        let mut several = Vec::new();
        let written = guess.claims != Claims::Unwritten;
        let unwritten = guess.claims != Claims::Written;
        let wrong = self.wrong.iter().filter(|_| written);
        for sample in wrong {
            let hit = match (guess.says)(sample.row, sample.col) {
                Says::Is(value) => value.fits(sample.found),
                Says::OneOf(values) => {
                    let hit = values.iter().any(|value| value.fits(sample.found));
                    several.push(values);
                    hit
                }
                Says::Unwritten | Says::Right => false,
                Says::Nothing => continue,
            };
            asked += 1;
            explained += usize::from(hit);
            if explained == 0 && asked >= PATIENCE {
                return Score::default();
            }
        }
        for sample in self.unwritten.iter().filter(|_| unwritten) {
            let hit = match (guess.says)(sample.row, sample.col) {
                Says::Nothing => continue,
                Says::Unwritten => true,
                // What was written may be what was there before.
                Says::Is(value) => value.fits(sample.found),
                Says::OneOf(values) => values.iter().any(|value| value.fits(sample.found)),
                Says::Right => false,
            };
            asked += 1;
            explained += usize::from(hit);
            if explained == 0 && asked >= PATIENCE {
                return Score::default();
            }
        }
        if explained == 0 {
            return Score::default();
        }
        let (agreed, others) = self.agreement(guess);
        let mut share = explained as f64 / asked as f64;
        if !several.is_empty() {
            share = beyond_chance(share, self.by_chance(&several));
        }
        let population = match guess.claims {
            Claims::Written => self.wrong_count,
            Claims::Unwritten => self.unwritten_count,
            Claims::Both => self.wrong_count + self.unwritten_count,
        };
        let agreement = if others == 0 { 1.0 } else { agreed as f64 / others as f64 };
        let evidence = (explained + agreed) as f64;
        Score::new(share * agreement, evidence, share * population as f64)
    }

    /// How many elements besides those that the guess claims it gets right, and of how many.
    fn agreement(&self, guess: &Guess<'_>) -> (usize, usize) {
        let (mut agreed, mut asked) = (0, 0);
        for sample in &self.right {
            let agrees = match (guess.says)(sample.row, sample.col) {
                Says::Is(value) => near(sample, value),
                Says::OneOf(values) => values.iter().any(|value| near(sample, *value)),
                Says::Unwritten => sample.untouched,
                Says::Right => true,
                Says::Nothing => continue,
            };
            asked += 1;
            agreed += usize::from(agrees);
        }
        if guess.claims == Claims::Unwritten {
            for sample in &self.wrong {
                asked += 1;
                agreed +=
                    usize::from(!matches!((guess.says)(sample.row, sample.col), Says::Unwritten));
            }
        }
        (agreed, asked)
    }

    /// How often these values fit an element that they were not made for.
    fn by_chance(&self, several: &[Vec<Value>]) -> f64 {
        let (mut fit, mut tried) = (0, 0);
        for (at, values) in several.iter().enumerate() {
            for other in 1..several.len().min(5) {
                let sample = &self.wrong[(at + other * 7) % self.wrong.len()];
                tried += 1;
                fit += usize::from(values.iter().any(|value| value.fits(sample.found)));
            }
        }
        if tried == 0 { 1.0 } else { fit as f64 / tried as f64 }
    }
}

/// Whether a right element is what a guess says, rounding of both allowed for.
fn near(sample: &Sample, value: Value) -> bool {
    let tolerance = value.tolerance + sample.right.tolerance;
    (sample.found - value.value).abs() <= tolerance
}

/// The part of a share that chance does not explain.
fn beyond_chance(share: f64, chance: f64) -> f64 {
    if chance >= 1.0 { 0.0 } else { ((share - chance) / (1.0 - chance)).max(0.0) }
}

/// The best guess of one kind; the first of several that do as well.
pub(super) fn best<'g>(
    survey: &Survey,
    guesses: impl IntoIterator<Item = Guess<'g>>,
) -> Option<(Pattern, Score)> {
    let mut best: Option<(Pattern, Score)> = None;
    for guess in guesses {
        let score = survey.score(&guess);
        if score.confidence > best.as_ref().map_or(0.0, |best| best.1.confidence) {
            best = Some((guess.pattern, score));
        }
    }
    best
}
