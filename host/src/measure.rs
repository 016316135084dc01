//! How long something takes: warm-up, repeats and the median, in one place.

use std::time::Duration;

/// How much time a measurement may take.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// A first run that takes at least this long is the measurement: its own length evens out what a
    /// warm-up would.
    pub single: Duration,
    /// Shorter ones are repeated until the repeats add up to this.
    pub total: Duration,
    /// Most repeats.
    pub runs: usize,
}

impl Effort {
    /// What a row of a table gets.
    pub const ROW: Self =
        Self { single: Duration::from_millis(500), total: Duration::from_millis(300), runs: 100 };
    /// What a prediction gets.
    pub const PROBE: Self =
        Self { single: Duration::from_millis(20), total: Duration::from_millis(20), runs: 5 };
}

/// What repeated runs took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Middle value, in seconds.
    pub median: f64,
    /// Least value, in seconds.
    pub min: f64,
    /// Largest value, in seconds.
    pub max: f64,
    /// Runs counted; the warm-up is not.
    pub runs: usize,
}

/// Runs `once`, which gives the seconds that it measured of itself, as often as the effort says.
///
/// The first run warms up and is not counted, unless it is long enough to stand alone.
///
/// # Errors
/// The first error of `once`.
pub fn repeat<E>(effort: Effort, mut once: impl FnMut() -> Result<f64, E>) -> Result<Timing, E> {
    let first = once()?;
    if first >= effort.single.as_secs_f64() {
        return Ok(Timing { median: first, min: first, max: first, runs: 1 });
    }
    let mut seconds = Vec::new();
    let mut total = 0.0;
    while seconds.is_empty() || (total < effort.total.as_secs_f64() && seconds.len() < effort.runs)
    {
        let run = once()?;
        total += run;
        seconds.push(run);
    }
    Ok(summary(&mut seconds))
}

/// Sorts the runs and sums them up; there is at least one.
fn summary(seconds: &mut [f64]) -> Timing {
    seconds.sort_by(f64::total_cmp);
    let middle = seconds.len() / 2;
    let median = if seconds.len().is_multiple_of(2) {
        (seconds[middle - 1] + seconds[middle]) / 2.0
    } else {
        seconds[middle]
    };
    Timing { median, min: seconds[0], max: seconds[seconds.len() - 1], runs: seconds.len() }
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
        let effort = Effort { runs: 4, ..Effort::ROW };
        let (timing, calls) = timing(effort, &[0.0; 50]);
        assert_eq!((timing.runs, calls), (4, 5));
        assert_eq!(summary(&mut [3.0, 1.0, 2.0, 4.0]).median, 2.5);
    }
}
