//! Predicting a run from smaller ones: time grows with the number of operations.

use std::time::Duration;

use gemm_spec::Problem;

use crate::scalar::Scalar;

/// Edge of the first probe's cube.
const FIRST_EDGE: f64 = 128.0;

/// No size of a probe is below this, unless the problem's own is: some kernels refuse fewer steps of k.
const LEAST_SIZE: usize = 16;

/// The same problem in small: its three sizes shrunk alike until `edge³` is left of their product, or
/// more where a size reaches [`LEAST_SIZE`].
fn shrunk<T: Scalar>(problem: &Problem<T>, edge: f64) -> Problem<T> {
    let volume = problem.flops() / 2.0;
    let factor = (edge / volume.cbrt()).min(1.0);
    let size =
        |size: usize| ((size as f64 * factor).round() as usize).clamp(size.min(LEAST_SIZE), size);
    Problem::new(size(problem.m), size(problem.n), size(problem.k))
        .with_scalars(problem.alpha, problem.beta)
}

/// Predicted seconds for the problem, by c·n³ from the largest probe that fits `time`.
///
/// `probe` runs a problem and gives its seconds. Probes grow eightfold in operations; none is begun
/// that, by the one before, would take longer than `time`.
pub(super) fn predict<T: Scalar, E>(
    problem: &Problem<T>,
    time: Duration,
    mut probe: impl FnMut(&Problem<T>) -> Result<f64, E>,
) -> Result<f64, E> {
    let mut edge = FIRST_EDGE;
    loop {
        let small = shrunk(problem, edge);
        let seconds = probe(&small)?;
        let predicted = seconds * problem.flops() / small.flops().max(1.0);
        let full = small.flops() >= problem.flops();
        if full || 8.0 * seconds > time.as_secs_f64() {
            return Ok(predicted);
        }
        edge *= 2.0;
    }
}

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
    fn thin_problems_keep_their_proportions_and_small_ones_run_whole() {
        let thin = Problem::<f32>::new(100_000, 1, 5_000);
        let small = shrunk(&thin, 64.0);
        assert_eq!(small.n, 1);
        assert!(small.m > small.k);
        let (_, probes) = predicted(&Problem::new(5, 6, 7), 1e9);
        assert_eq!(probes, [420.0]);
    }
}
