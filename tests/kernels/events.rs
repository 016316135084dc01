//! Kernels whose copies and products go on by themselves: in whatever order events come, the bits are the same.

use cuda_std::emulate::Order;
use kernels_gpu::Kernel;
use lab::emulate::{self, Options};
use lab::{ScalarTypes, fill};
use libtest_mimic::Failed;

use super::support::{Case, Operands, report};
use super::{Backend, can, digest, enough};

/// Some tiles of some stages, on one block or two: more stages than the pipeline has, and a second tile.
fn shapes(spec: Kernel) -> Vec<Case> {
    let (m, n) = spec.launch.tile().map_or((8, 8), |tile| (tile.m as usize, tile.n as usize));
    let plain = Case { distribution: fill::Distribution::Uniform, ..Case::new(m, n, 40) };
    vec![
        plain.clone(),
        Case { k: 330, ..plain.clone() },
        Case { m: m + 1, n: n + 8, k: 100, ..plain.clone() },
        Case { m: m / 2, n: n - 8, k: 64, beta: 0.5, ..plain.clone() },
        Case { m: 3 * m, n: n / 2, k: 70, ..plain },
    ]
}

/// Runs each shape in each order, on one multiprocessor, two and many.
pub(super) fn every_order_of_events<T: ScalarTypes>(
    _: Backend,
    spec: Kernel,
) -> Result<(), Failed> {
    let mut failures = Vec::new();
    let mut tried = 0;
    for case in shapes(spec) {
        if !can::<T>(Backend::Emulator, spec, &case)? {
            continue;
        }
        tried += 1;
        let operands = Operands::<T>::draw(&case);
        let run = |options: Options| {
            let found = operands.run(|problem, a, b, c| {
                emulate::run_with(options, spec, problem, a, b, c.as_mut_slice())
                    .map_err(|error| error.to_string())
            })?;
            Ok::<_, String>(digest(&operands.problem, &found))
        };
        let first = run(Options::default());
        if let Err(what) = &first {
            failures.push(format!("{} {case}: {what}", spec.id));
        }
        for (order, multiprocessors) in [
            (Order::Late, 1),
            (Order::Early, 2),
            (Order::Starve(0), 2),
            (Order::Starve(1), 1),
            (Order::Random(1), 2),
            (Order::Random(2), 1),
        ] {
            let found = run(Options { order, multiprocessors, ..Options::default() });
            if found != first {
                failures.push(format!("{} {case}, {order:?}: {found:?}, not {first:?}", spec.id));
            }
        }
    }
    failures.extend(enough(tried).err());
    report(failures).map_err(Failed::from)
}
