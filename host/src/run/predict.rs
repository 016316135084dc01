//! Predicting a run from parts of it: rows of C, which cost alike, or a smaller product of the same
//! proportions, whose time grows with the number of operations.

use std::time::{Duration, Instant};

use gemm_spec::Problem;

use crate::scalar::ScalarTypes;

/// Edge of the first probe's cube, for each thread.
const FIRST_EDGE: f64 = 128.0;

/// Rows of a probe for each thread, where the problem has them: an implementation hands out rows, and with
/// few of them its threads share nothing of what they read of B.
const ROWS_PER_THREAD: usize = 64;

/// No size of a probe is below this, unless the problem's own is: some kernels refuse a smaller k.
const LEAST_SIZE: usize = 16;

/// The same problem in small: its three sizes shrunk alike until `edge³` is left of their product, or
/// more where a size reaches [`LEAST_SIZE`]; but m no further than to `rows`, and n and k the more for it.
fn shrunk<T: ScalarTypes>(problem: &Problem<T>, edge: f64, rows: usize) -> Problem<T> {
    let volume = problem.flops() / 2.0;
    #[expect(clippy::cast_possible_truncation, reason = "whole, and no more than the size")]
    let shrink = |size: usize, factor: f64, least: usize| {
        ((size as f64 * factor).round() as usize).clamp(size.min(least), size)
    };
    let factor = (edge / volume.cbrt()).min(1.0);
    let m = shrink(problem.m, factor, rows.max(LEAST_SIZE));
    let share = m as f64 / problem.m.max(1) as f64;
    let factor = (edge.powi(3) / (volume * share)).sqrt().min(1.0);
    let size = |size: usize| shrink(size, factor, LEAST_SIZE);
    Problem::new(m, size(problem.n), size(problem.k)).with_scalars(problem.alpha, problem.beta)
}

/// Predicted seconds for the problem, by c·n³ from the largest probe that fits `time`.
///
/// `probe` runs a problem and gives its seconds. Probes grow eightfold in operations; none is begun
/// that, by the one before, would take longer than `time`, be it to compute or to have its operands,
/// which grow fourfold, made and moved. What comes before the first probe, such as the driver's
/// compilation of a kernel, says nothing about the next one.
///
/// `threads` share the rows of C. Each gets as much work as one thread by itself would. To wake them takes
/// the same time whatever the problem is, so of several threads it is counted once: the last two probes
/// tell what more operations cost.
pub(super) fn predict<T: ScalarTypes, E>(
    problem: &Problem<T>,
    time: Duration,
    threads: usize,
    mut probe: impl FnMut(&Problem<T>) -> Result<f64, E>,
) -> Result<f64, E> {
    let rows = if threads > 1 { threads * ROWS_PER_THREAD } else { 1 };
    let first = FIRST_EDGE * (threads.max(1) as f64).cbrt();
    let mut edge = first;
    let mut before: Option<(f64, f64)> = None;
    loop {
        let small = shrunk(problem, edge, rows);
        let started = Instant::now();
        let seconds = probe(&small)?;
        let whole = if edge > first { started.elapsed() } else { Duration::ZERO };
        let (all, done) = (problem.flops().max(1.0), small.flops().max(1.0));
        if done >= all || 8.0 * seconds > time.as_secs_f64() || 4 * whole > time {
            return Ok(extrapolated(all, before.filter(|_| threads > 1), (done, seconds)));
        }
        before = Some((done, seconds));
        edge *= 2.0;
    }
}

/// Predicted seconds for the problem, from some rows of C with the whole of B, whose memory a smaller
/// product would not reach into as the problem does.
///
/// `probe` computes the first rows of C, as many as its problem has. They are `first` at the beginning and
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
    let mut before: Option<(f64, f64)> = None;
    loop {
        let part =
            Problem::new(rows, problem.n, problem.k).with_scalars(problem.alpha, problem.beta);
        let seconds = probe(&part)?;
        let ended = rows == problem.m || seconds > time;
        if ended || (before.is_some() && 2.0 * seconds > time) {
            return Ok(extrapolated(problem.m as f64, before, (rows as f64, seconds)));
        }
        before = Some((rows as f64, seconds));
        rows = (2 * rows).min(problem.m);
    }
}

/// Seconds of all the work by those of the last two parts of it.
fn extrapolated(all: f64, before: Option<(f64, f64)>, (done, seconds): (f64, f64)) -> f64 {
    let each = seconds / done;
    let rest = all - done;
    match before {
        // A part that took longer than one of twice its work was disturbed, and tells nothing.
        Some((fewer, less)) if each < ALIKE * less / fewer && done > fewer && seconds > less => {
            // There is more to it than its work: what B takes to be packed or read, for instance.
            seconds + rest * (seconds - less) / (done - fewer)
        }
        _ => seconds + rest * each,
    }
}

/// Parts cost alike where each unit of work takes more than this share of what it took in a part half as
/// large or smaller.
const ALIKE: f64 = 0.85;

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn predicted(problem: &Problem<f32>, rate: f64) -> (f64, Vec<f64>) {
        let mut probes = Vec::new();
        let seconds = predict(problem, Duration::from_secs(1), 1, |small| {
            probes.push(small.flops());
            Ok::<_, Infallible>(small.flops() / rate)
        });
        (seconds.unwrap_or_else(|never| match never {}), probes)
    }

    #[test]
    fn no_size_is_shrunk_below_what_kernels_take() {
        let small = shrunk(&Problem::<f32>::new(1563, 2881, 16), FIRST_EDGE, 1);
        assert_eq!(small.k, 16);
        let small = shrunk(&Problem::<f32>::new(100_000, 1000, 3), FIRST_EDGE, 1);
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
    fn a_probe_that_was_disturbed_does_not_make_the_rest_free() {
        let problem = Problem::<f32>::new(1000, 1000, 1000);
        // A row takes a hundredth of a second, and the first rows wait for somebody else besides.
        let mut probes = 0;
        let seconds = by_rows(&problem, Duration::from_millis(35), 1, |part| {
            probes += 1;
            let disturbed = if probes == 1 { 0.02 } else { 0.0 };
            Ok::<_, Infallible>(part.m as f64 / 100.0 + disturbed)
        });
        assert_eq!(probes, 2);
        assert!(seconds.is_ok_and(|seconds| seconds > 9.0), "{seconds:?}");
    }

    #[test]
    fn operands_that_take_long_to_be_made_end_the_probes() {
        let mut probes = 0;
        let problem = Problem::<f32>::new(10_240, 10_240, 10_240);
        let seconds = predict(&problem, Duration::from_millis(100), 1, |small| {
            std::thread::sleep(Duration::from_millis(30));
            probes += 1;
            Ok::<_, Infallible>(small.flops() / 1e15)
        });
        assert_eq!((probes, seconds.is_ok()), (2, true));
    }

    /// An implementation like `rayon` on 16 cores: it hands out a quarter of a thread's rows at a time, 64
    /// at most, which share what they read of B; and its threads wake late.
    fn on_threads(threads: usize, small: &Problem<f32>) -> f64 {
        const WAKE: f64 = 1.5e-3;
        let band = small.m.div_ceil(4 * threads).clamp(1, 64);
        let rate = 490e9 * (band as f64 / (band as f64 + 1.0)) * 65.0 / 64.0;
        WAKE + small.flops() / rate
    }

    /// Half the share of one of thirty implementations in a budget of 60 s.
    #[test]
    fn what_many_threads_take_is_predicted_from_products_that_use_them_all() {
        let problem = Problem::<f32>::new(10_240, 10_240, 10_240);
        let truth = on_threads(16, &problem);
        let predicted = |told: usize| {
            let mut probes = Vec::new();
            let seconds = predict(&problem, Duration::from_millis(190), told, |small| {
                // Operands that take long to be drawn end the probes early.
                let elements = small.m * small.n + small.n * small.k + small.m * small.k;
                std::thread::sleep(Duration::from_secs_f64(elements as f64 / 1e7));
                probes.push(*small);
                Ok::<_, Infallible>(on_threads(16, small))
            });
            (seconds.unwrap_or_else(|never| match never {}), probes)
        };
        let (seconds, probes) = predicted(16);
        assert!((seconds / truth - 1.0).abs() < 0.25, "{seconds} for {truth}");
        assert!(probes.len() >= 2 && probes.iter().all(|small| small.m >= 16 * 64));
        // Taken for the work of one thread, the same is off by several times.
        let (seconds, probes) = predicted(1);
        assert!(seconds > 3.0 * truth, "{seconds} for {truth} by {probes:?}");
    }

    #[test]
    fn thin_problems_leave_threads_no_more_rows_than_they_have() {
        let small = shrunk(&Problem::<f32>::new(100, 10_000, 10_000), 256.0, 1024);
        assert_eq!(small.m, 100);
        let wanted = 256f64.powi(3);
        assert!((small.flops() / 2.0 / wanted - 1.0).abs() < 0.02, "{small:?}");
        let small = shrunk(&Problem::<f32>::new(10_240, 10_240, 10_240), 512.0, 1024);
        assert_eq!((small.m, small.n), (1024, small.k));
        assert!((small.flops() / 2.0 / 512f64.powi(3) - 1.0).abs() < 0.02, "{small:?}");
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
        let small = shrunk(&thin, 64.0, 1);
        assert_eq!(small.n, 1);
        assert!(small.m > small.k);
        let (_, probes) = predicted(&Problem::new(5, 6, 7), 1e9);
        assert_eq!(probes, [420.0]);
    }
}
