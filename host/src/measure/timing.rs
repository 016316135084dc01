//! How long something takes: warm-up, repeats and the median, in one place.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Whether that many seconds can be the time of a product: from a record, anything may be read.
#[must_use]
pub fn is_time(seconds: f64) -> bool {
    (1e-12..1e12).contains(&seconds)
}

/// How much time a measurement may take, and when it is good enough.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// A first run that takes at least this long is counted: its own length evens out what a warm-up
    /// would.
    pub single: Duration,
    /// Runs are thrown away until they add up to this; the first always is, unless `single` counts it.
    pub warm_up: Duration,
    /// Runs are repeated until they add up to this.
    pub total: Duration,
    /// Fewest repeats, where `total` allows them.
    pub least: usize,
    /// Most repeats.
    pub most: usize,
    /// Repeats end early once the spread is below this.
    pub spread: f64,
    /// Repeats end early, after three of them, when so much time has gone by, what lies between them
    /// included: before a run of milliseconds C may take a hundred to be prepared.
    pub wall: Duration,
}

impl Effort {
    /// What a row of `tessera run` gets.
    pub const ROW: Self = Self {
        single: Duration::from_millis(500),
        warm_up: Duration::ZERO,
        total: Duration::from_millis(300),
        least: 1,
        most: 100,
        spread: 0.0,
        wall: Duration::from_secs(1),
    };
    /// What a prediction gets.
    pub const PROBE: Self = Self {
        single: Duration::from_millis(20),
        total: Duration::from_millis(20),
        most: 5,
        ..Self::ROW
    };

    /// The same where a row may take so long altogether: it is repeated twice, its C prepared before each
    /// run, and checked.
    #[must_use]
    pub fn within(self, share: Duration) -> Self {
        let part = share / 4;
        Self {
            single: self.single.min(part),
            total: self.total.min(part),
            wall: self.wall.min(part),
            ..self
        }
    }
}

/// What repeated runs took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Middle value, in seconds.
    pub median: f64,
    /// Least value, in seconds.
    pub min: f64,
    /// Largest value, in seconds.
    pub max: f64,
    /// A quarter of the runs took no longer than this.
    pub q25: f64,
    /// Three quarters of the runs took no longer than this.
    pub q75: f64,
    /// Runs counted; the warm-up is not.
    pub runs: usize,
}

impl Timing {
    /// Sorts the runs and sums them up.
    ///
    /// # Panics
    /// Where there is no run.
    #[must_use]
    pub fn of(seconds: &mut [f64]) -> Self {
        seconds.sort_by(f64::total_cmp);
        Self {
            median: quantile(seconds, 0.5),
            min: seconds[0],
            max: seconds[seconds.len() - 1],
            q25: quantile(seconds, 0.25),
            q75: quantile(seconds, 0.75),
            runs: seconds.len(),
        }
    }

    /// The timing of one of a number of equal parts of each run.
    #[must_use]
    pub fn of_each(self, parts: usize) -> Self {
        let each = |seconds: f64| seconds / parts as f64;
        Self {
            median: each(self.median),
            min: each(self.min),
            max: each(self.max),
            q25: each(self.q25),
            q75: each(self.q75),
            runs: self.runs,
        }
    }

    /// The middle half of the runs lies within this share of the median. A single outlier does not
    /// move it, as it would a deviation.
    #[must_use]
    pub fn spread(&self) -> f64 {
        (self.q75 - self.q25) / self.median
    }
}

/// The value below which that share of the sorted values lies, between neighbours in proportion.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    #[expect(clippy::cast_possible_truncation, reason = "whole, and no more than the last index")]
    let below = place.floor() as usize;
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (place - below as f64) * (sorted[above] - sorted[below])
}

/// Seconds that `work` takes by the host's clock.
///
/// # Errors
/// Its own.
pub fn clock<E>(work: impl FnOnce() -> Result<(), E>) -> Result<f64, E> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed().as_secs_f64())
}

/// Seconds of one call of `once`, by as many calls as take so long together: for calls that are too short
/// for a clock.
///
/// # Errors
/// The first error of `once`.
pub fn mean<E>(together: Duration, mut once: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let started = Instant::now();
    let mut calls = 0u32;
    loop {
        once()?;
        calls += 1;
        let took = started.elapsed();
        if took >= together {
            return Ok(took.as_secs_f64() / f64::from(calls));
        }
    }
}

/// Runs `once`, which gives the seconds that it measured of itself, as often as the effort says.
///
/// # Errors
/// The first error of `once`.
pub fn repeat<E>(effort: Effort, mut once: impl FnMut() -> Result<f64, E>) -> Result<Timing, E> {
    repeat_each(effort, &mut once)
}

fn repeat_each<E>(effort: Effort, once: &mut dyn FnMut() -> Result<f64, E>) -> Result<Timing, E> {
    const LEAST_WITHIN_WALL: usize = 3;
    let started = Instant::now();
    let mut seconds = Vec::new();
    let mut warm = once()?;
    if warm >= effort.single.as_secs_f64() {
        seconds.push(warm);
    } else {
        while warm < effort.warm_up.as_secs_f64() {
            // A run that takes no time at all must not go on for ever.
            warm += once()?.max(1e-6);
        }
    }
    let mut total: f64 = seconds.iter().sum();
    // The spread is looked at each time the number of runs has grown by half: sorting costs time.
    let mut next_look = effort.least.max(2);
    loop {
        let late = seconds.len() >= LEAST_WITHIN_WALL && started.elapsed() >= effort.wall;
        let enough = late || total >= effort.total.as_secs_f64() || seconds.len() >= effort.most;
        if !seconds.is_empty() && enough {
            break;
        }
        if seconds.len() >= next_look {
            if Timing::of(&mut seconds.clone()).spread() < effort.spread {
                break;
            }
            next_look += next_look.div_ceil(2);
        }
        let run = once()?;
        total += run;
        seconds.push(run);
    }
    Ok(Timing::of(&mut seconds))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn timing(effort: Effort, runs: &[f64]) -> (Timing, usize) {
        let mut next = runs.iter().copied();
        let mut calls = 0;
        let timing = repeat(effort, || {
            calls += 1;
            Ok::<_, Infallible>(next.next().unwrap_or(0.1))
        });
        (timing.unwrap_or_else(|never| match never {}), calls)
    }

    #[test]
    fn short_calls_share_the_time_that_they_take() {
        let mut calls = 0;
        let each = mean(Duration::from_millis(4), || {
            calls += 1;
            std::thread::sleep(Duration::from_millis(1));
            Ok::<_, Infallible>(())
        });
        let each = each.unwrap_or_else(|never| match never {});
        assert!((1..=4).contains(&calls) && each >= 1e-3 && each * f64::from(calls) >= 4e-3);
    }

    #[test]
    fn a_row_with_little_time_has_few_runs() {
        assert_eq!(timing(Effort::ROW.within(Duration::from_secs(60)), &[]).0.runs, 3);
        // The first run is counted, and enough.
        let (short, calls) = timing(Effort::ROW.within(Duration::from_millis(400)), &[]);
        assert_eq!((short.runs, calls), (1, 1));
    }

    #[test]
    fn a_long_first_run_stands_alone() {
        let (timing, calls) = timing(Effort::ROW, &[2.0]);
        assert_eq!((timing.median, timing.runs, calls), (2.0, 1, 1));
    }

    #[test]
    fn short_runs_are_repeated_and_the_first_is_not_counted() {
        let (timing, calls) = timing(Effort::ROW, &[0.4, 0.1, 0.15, 0.12]);
        assert_eq!((timing.runs, calls), (3, 4));
        assert_eq!((timing.median, timing.min, timing.max), (0.12, 0.1, 0.15));
    }

    #[test]
    fn repeats_end() {
        let effort = Effort { most: 4, ..Effort::ROW };
        let (timing, calls) = timing(effort, &[0.0; 50]);
        assert_eq!((timing.runs, calls), (4, 5));
    }

    #[test]
    fn what_lies_between_runs_ends_them_too() {
        let effort = Effort { wall: Duration::ZERO, ..Effort::ROW };
        let (timing, calls) = timing(effort, &[0.0; 50]);
        assert_eq!((timing.runs, calls), (3, 4));
    }

    #[test]
    fn the_parts_of_a_batch_share_its_time() {
        let (whole, _) = timing(Effort::ROW, &[0.4, 0.1, 0.15, 0.12]);
        let each = whole.of_each(10);
        assert!((each.median - 0.012).abs() < 1e-15 && each.runs == whole.runs);
        assert!((each.spread() - whole.spread()).abs() < 1e-12);
    }

    #[test]
    fn quantiles_lie_between_their_neighbours() {
        let timing = Timing::of(&mut [3.0, 1.0, 2.0, 4.0, 5.0]);
        assert_eq!((timing.median, timing.q25, timing.q75), (3.0, 2.0, 4.0));
        assert_eq!(Timing::of(&mut [3.0, 1.0, 2.0, 4.0]).median, 2.5);
        let single = Timing::of(&mut [7.0]);
        assert_eq!((single.q25, single.q75, single.spread()), (7.0, 7.0, 0.0));
        // One outlier in many does not count as spread.
        let mut runs = [1.0; 21];
        runs[3] = 50.0;
        assert_eq!(Timing::of(&mut runs).spread(), 0.0);
    }

    #[test]
    fn a_steady_measurement_ends_early_and_a_noisy_one_does_not() {
        let effort = Effort {
            total: Duration::from_secs(10),
            least: 5,
            most: 40,
            spread: 0.005,
            ..Effort::ROW
        };
        let (steady, _) = timing(effort, &[0.01; 60]);
        assert_eq!(steady.runs, 5);
        let noisy: Vec<f64> = (0..60).map(|i| 0.01 + 0.001 * f64::from(i % 2)).collect();
        let (noisy, _) = timing(effort, &noisy);
        assert_eq!(noisy.runs, 40);
    }

    #[test]
    fn the_warm_up_is_thrown_away() {
        let effort = Effort { warm_up: Duration::from_secs(1), most: 2, ..Effort::ROW };
        let (timing, calls) = timing(effort, &[0.4, 0.4, 0.4, 0.1, 0.1, 0.1]);
        assert_eq!((timing.max, timing.runs, calls), (0.1, 2, 5));
    }
}
