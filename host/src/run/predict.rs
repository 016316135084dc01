//! Predicting a run from parts of it: rows of C, which cost alike, or a smaller product of the same
//! proportions, whose time grows with the number of operations.

use std::time::{Duration, Instant};

use gemm_spec::Problem;

use crate::scalar::ScalarTypes;

/// Edge of the first probe's cube.
const FIRST_EDGE: f64 = 128.0;

/// No size of a probe is below this, unless the problem's own is: some kernels refuse fewer steps of k.
const LEAST_SIZE: usize = 16;

/// The same problem in small: its three sizes shrunk alike until `edge³` is left of their product, or
/// more where a size reaches [`LEAST_SIZE`].
fn shrunk<T: ScalarTypes>(problem: &Problem<T>, edge: f64) -> Problem<T> {
    let volume = problem.flops() / 2.0;
    let factor = (edge / volume.cbrt()).min(1.0);
    #[expect(clippy::cast_possible_truncation, reason = "whole, and no more than the size")]
    let size =
        |size: usize| ((size as f64 * factor).round() as usize).clamp(size.min(LEAST_SIZE), size);
    Problem::new(size(problem.m), size(problem.n), size(problem.k))
        .with_scalars(problem.alpha, problem.beta)
}

/// Predicted seconds for the problem, by c·n³ from the largest probe that fits `time`.
///
/// `probe` runs a problem and gives its seconds. Probes grow eightfold in operations; none is begun
/// that, by the one before, would take longer than `time`, be it to compute or to have its operands,
/// which grow fourfold, made and moved. What comes before the first probe, such as the driver's
/// compilation of a kernel, says nothing about the next one.
pub(super) fn predict<T: ScalarTypes, E>(
    problem: &Problem<T>,
    time: Duration,
    mut probe: impl FnMut(&Problem<T>) -> Result<f64, E>,
) -> Result<f64, E> {
    let mut edge = FIRST_EDGE;
    loop {
        let small = shrunk(problem, edge);
        let started = Instant::now();
        let seconds = probe(&small)?;
        let whole = if edge > FIRST_EDGE { started.elapsed() } else { Duration::ZERO };
        let predicted = seconds * problem.flops() / small.flops().max(1.0);
        let full = small.flops() >= problem.flops();
        if full || 8.0 * seconds > time.as_secs_f64() || 4 * whole > time {
            return Ok(predicted);
        }
        edge *= 2.0;
    }
}

/// Predicted seconds for the problem, from some rows of C with the whole of B, whose memory a smaller
/// product would not reach into as the problem does.
///
/// `probe` computes the first rows of C, so many as its problem has. They are `first` at the beginning and
/// then doubled, as long as the next probe is expected to fit `time`; a second probe is always made where
/// the first one fitted.
pub(super) fn by_rows<T: ScalarTypes, E>(
    problem: &Problem<T>,
    time: Duration,
    first: usize,
    mut probe: impl FnMut(&Problem<T>) -> Result<f64, E>,
) -> Result<f64, E> {
    let time = time.as_secs_f64();
    let mut rows = first.clamp(1, problem.m);
    let mut before: Option<(usize, f64)> = None;
    loop {
        let part =
            Problem::new(rows, problem.n, problem.k).with_scalars(problem.alpha, problem.beta);
        let seconds = probe(&part)?;
        let ended = rows == problem.m || seconds > time;
        if ended || (before.is_some() && 2.0 * seconds > time) {
            return Ok(all_rows(problem.m, before, (rows, seconds)));
        }
        before = Some((rows, seconds));
        rows = (2 * rows).min(problem.m);
    }
}

/// Seconds of all rows by those of the last two numbers of rows.
fn all_rows(m: usize, before: Option<(usize, f64)>, (rows, seconds): (usize, f64)) -> f64 {
    let each = seconds / rows as f64;
    let rest = (m - rows) as f64;
    match before {
        Some((fewer, less)) if each < ALIKE * less / fewer as f64 => {
            // There is more to it than its rows: what B takes to be packed or read, for instance.
            seconds + rest * ((seconds - less) / (rows - fewer) as f64).max(0.0)
        }
        _ => seconds + rest * each,
    }
}

/// Rows cost alike where each takes more than this share of what it took among half as many.
const ALIKE: f64 = 0.85;

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn predicted(problem: &Problem<f32>, rate: f64) -> (f64, Vec<f64>) {
        let mut probes = Vec::new();
        let seconds = predict(problem, Duration::from_secs(1), |small| {
            probes.push(small.flops());
            Ok::<_, Infallible>(small.flops() / rate)
        });
        (seconds.unwrap_or_else(|never| match never {}), probes)
    }

    #[test]
    fn no_size_is_shrunk_below_what_kernels_take() {
        let small = shrunk(&Problem::<f32>::new(1563, 2881, 16), FIRST_EDGE);
        assert_eq!(small.k, 16);
        let small = shrunk(&Problem::<f32>::new(100_000, 1000, 3), FIRST_EDGE);
        assert_eq!(small.k, 3);
    }

    #[test]
    fn a_constant_rate_is_predicted_from_small_probes() {
        let problem = Problem::new(10_240, 10_240, 10_240);
        let (seconds, probes) = predicted(&problem, 1e9);
        assert!((seconds / (problem.flops() / 1e9) - 1.0).abs() < 1e-9);
        assert!(probes.iter().all(|flops| flops / 1e9 <= 1.0), "{probes:?}");
        assert!(probes.len() >= 2, "{probes:?}");
    }

    #[test]
    fn operands_that_take_long_to_be_made_end_the_probes() {
        let mut probes = 0;
        let problem = Problem::<f32>::new(10_240, 10_240, 10_240);
        let seconds = predict(&problem, Duration::from_millis(100), |small| {
            std::thread::sleep(Duration::from_millis(30));
            probes += 1;
            Ok::<_, Infallible>(small.flops() / 1e15)
        });
        assert_eq!((probes, seconds.is_ok()), (2, true));
    }

    fn predicted_by_rows(time: f64, first: usize, cost: impl Fn(f64) -> f64) -> (f64, Vec<usize>) {
        let mut probes = Vec::new();
        let problem = Problem::<f32>::new(1000, 300, 200);
        let seconds = by_rows(&problem, Duration::from_secs_f64(time), first, |part| {
            assert_eq!((part.n, part.k), (300, 200), "B is whole");
            probes.push(part.m);
            Ok::<_, Infallible>(cost(part.m as f64))
        });
        (seconds.unwrap_or_else(|never| match never {}), probes)
    }

    #[test]
    fn rows_that_cost_alike_are_multiplied() {
        let (seconds, probes) = predicted_by_rows(1.0, 1, |rows| 0.1 * rows);
        assert!((seconds - 100.0).abs() < 1e-9, "{seconds}");
        assert_eq!(probes, [1, 2, 4, 8]);
        // One that takes longer than there is time stands alone.
        let (seconds, probes) = predicted_by_rows(1.0, 2, |rows| 1.0 * rows);
        assert_eq!((seconds, probes), (1000.0, vec![2]));
        // Else there is always a second one.
        assert_eq!(predicted_by_rows(1.0, 1, |rows| 0.7 * rows).1, [1, 2]);
        assert_eq!(predicted_by_rows(1e9, 600, |rows| rows), (1000.0, vec![600, 1000]));
    }

    #[test]
    fn what_does_not_grow_with_the_rows_is_counted_once() {
        let (seconds, _) = predicted_by_rows(2.5, 2, |rows| 1.0 + 0.01 * rows);
        assert!((seconds - 11.0).abs() < 1e-9, "{seconds}");
        let (seconds, _) = predicted_by_rows(2.5, 2, |_| 1.0);
        assert!((seconds - 1.0).abs() < 1e-9, "{seconds}");
    }

    #[test]
    fn thin_problems_keep_their_proportions_and_small_ones_run_whole() {
        let thin = Problem::<f32>::new(100_000, 1, 5_000);
        let small = shrunk(&thin, 64.0);
        assert_eq!(small.n, 1);
        assert!(small.m > small.k);
        let (_, probes) = predicted(&Problem::new(5, 6, 7), 1e9);
        assert_eq!(probes, [420.0]);
    }
}
