//! Every kernel on the emulator with its checks, on shapes with edges and in several orders of events.

use cuda_std::emulate::Order;
use gemm_spec::split_k::KSharing;
use gemm_spec::{Arch, Layout, Operand, Problem, Types, with_gemm_types};
use kernels_gpu::Kernel;

use crate::emulate::{self, LIMITS, Options};
use crate::error::Error;
use crate::fill::{Distribution, fill};
use crate::scalar::{Scalar, ScalarTypes};
use crate::verify::{Checker, Guarded, Method};

/// What was run of a kernel, and what is wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Products that were run, each in every order.
    pub(crate) products: usize,
    /// Runs of them.
    pub(crate) runs: usize,
    /// Reports, at most one for each product.
    pub(crate) reports: Vec<String>,
}

/// Runs the entry of some types on every shape, in every order; `base` is how, apart from those, and `seeds` are
/// those of random orders.
pub(crate) fn examine(
    spec: Kernel,
    types: Types,
    base: Options,
    seeds: &[u64],
) -> anyhow::Result<Findings> {
    with_gemm_types!(types, T => examine_types::<T>(spec, base, seeds))
}

fn examine_types<T: ScalarTypes>(
    spec: Kernel,
    base: Options,
    seeds: &[u64],
) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    for (sizes, padding, beta) in shapes(spec) {
        let [m, n, k] = sizes;
        let [a, b, c] = padding;
        let problem = Problem::<T>::new(m, n, k)
            .with_scalars(T::Acc::from_f64(2.0), T::Acc::from_f64(beta))
            .with_layouts(
                Layout::row_major(k + a),
                Layout::row_major(n + b),
                Layout::row_major(n + c),
            );
        if spec.supports(&problem, &LIMITS).is_err() {
            continue;
        }
        findings.products += 1;
        let a = drawn::<T, T::A>(&problem, Operand::A);
        let b = drawn::<T, T::B>(&problem, Operand::B);
        let before = drawn::<T, T::C>(&problem, Operand::C);
        let checker = Checker::new(&problem, &a, &b, &before, Method::Full, 1)?;
        for (order, multiprocessors) in orders(spec, seeds) {
            findings.runs += 1;
            let options = Options { order, multiprocessors, ..base };
            let mut c = Guarded::new(&problem)?;
            c.poison(&before);
            let outcome = emulate::run_with(options, spec, &problem, &a, &b, c.as_mut_slice());
            let what = match outcome {
                Err(Error::Emulation { fault, .. }) => fault.to_string(),
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    let verdict = checker.check(c.as_slice());
                    match c.intact() {
                        Err(error) => error.to_string(),
                        Ok(()) if !verdict.ok => verdict.to_string(),
                        Ok(()) => continue,
                    }
                }
            };
            let types = T::TYPES;
            findings.reports.push(format!(
                "{types}, {m} x {n} x {k} (m x n x k), {order:?} on {multiprocessors} multiprocessors: {what}"
            ));
            break;
        }
    }
    Ok(findings)
}

/// A problem's m, n and k, what lies between the rows of A, B and C, and beta.
type Shape = ([usize; 3], [usize; 3], f64);

/// An edge within a tile and beyond one, more stages than a pipeline has, and k that several blocks share.
fn shapes(spec: Kernel) -> Vec<Shape> {
    let (m, n) = spec.launch.tile().map_or((8, 8), |tile| (tile.m as usize, tile.n as usize));
    let mut shapes = vec![
        ([m + 1, n + 3, 47], [1, 0, 3], -1.0),
        ([m, n, 330], [0; 3], 0.0),
        ([m.div_ceil(2), n + 8, 40], [0, 8, 0], 3.0),
    ];
    match spec.split_k {
        KSharing::None => {}
        KSharing::Workspace { .. } => shapes.push(([m, n, 700], [0; 3], 1.0)),
        KSharing::Cluster { .. } => {
            shapes.push(([m, n - 5, 801], [0; 3], 1.0));
            shapes.push(([m - 3, n, 3201], [0; 3], 0.0));
        }
    }
    shapes
}

/// Orders of events with SMs; only the kernels for Hopper have several.
fn orders(spec: Kernel, seeds: &[u64]) -> Vec<(Order, u32)> {
    let mut orders = vec![(Order::Late, LIMITS.multiprocessors)];
    match spec.arch {
        Arch::Sm70 | Arch::Sm80 => {}
        Arch::Sm90a => {
            orders.extend([(Order::Early, 1), (Order::Starve(0), 2), (Order::Starve(1), 1)]);
            orders.extend(seeds.iter().map(|&seed| (Order::Random(seed), 1)));
        }
    }
    orders
}

/// A matrix with NaN between its rows, where the type has one.
fn drawn<T: ScalarTypes, E: Scalar>(problem: &Problem<T>, operand: Operand) -> Vec<E> {
    let (rows, cols) = problem.dims(operand);
    let ld = problem.layout(operand).ld;
    let mut data = vec![E::POISON; rows * ld];
    fill(&mut data, cols, ld, Distribution::Uniform, 1, operand as u64);
    data
}

#[cfg(test)]
mod tests {
    use kernels_gpu::KERNELS;

    use super::*;

    fn kernel(id: &str) -> Kernel {
        KERNELS.iter().copied().find(|spec| spec.id == id).unwrap()
    }

    #[test]
    fn what_is_right_has_no_report_and_what_is_planted_has() {
        let tiled = kernel("tiled8");
        let fine = examine(tiled, Types::F64, Options::default(), &[1]).unwrap();
        assert_eq!((fine.products, fine.runs, fine.reports.len()), (3, 3, 0));
        let base = Options { skip_barrier: Some(0), ..Options::default() };
        let wrong = examine(tiled, Types::F64, base, &[1]).unwrap();
        assert_eq!(wrong.reports.len(), 3);
        assert!(wrong.reports[0].contains("race on byte "), "{:?}", wrong.reports);
        // With checks off its numbers show it, or those of the order of threads that the emulator has.
        let unchecked =
            examine(tiled, Types::F64, Options { checked: false, ..base }, &[]).unwrap();
        assert!(unchecked.reports.iter().all(|report| report.contains("WRONG")));
    }

    #[test]
    fn kernels_for_hopper_run_in_every_order() {
        let found = examine(kernel("tensor_64x128"), Types::F16, Options::default(), &[1, 2]);
        let found = found.unwrap();
        assert_eq!((found.products, found.runs, found.reports.len()), (3, 18, 0));
        let split = kernel("tensor_split_64x64");
        let found = examine(split, Types::F16F32, Options::default(), &[]).unwrap();
        assert_eq!((found.products, found.runs, found.reports.len()), (5, 20, 0));
    }
}
