//! Kernels whose copies and products go on by themselves: in whatever order events come, the bits are the same.

use std::collections::BTreeSet;

use cuda_std::emulate::Order;
use gemm_spec::split_k::KSharing;
use kernels_gpu::Kernel;
use lab::emulate::{self, Options};
use lab::{ScalarTypes, fill};
use libtest_mimic::Failed;
use tessera::select::DeviceModel;

use super::support::{Case, Operands, report};
use super::{Backend, Extent, can, digest, enough};

/// Some tiles of some stages, on one block or two: more stages than the pipeline has, and a second tile.
fn shapes(spec: Kernel) -> Vec<Case> {
    let (m, n) = spec.launch.tile().map_or((8, 8), |tile| (tile.m as usize, tile.n as usize));
    let plain = Case { distribution: fill::Distribution::Uniform, ..Case::new(m, n, 40) };
    let mut shapes = vec![
        plain,
        Case { k: 330, ..plain },
        Case { m: m + 1, n: n + 8, k: 100, ..plain },
        Case { m: m / 2, n: n - 8, k: 64, beta: 0.5, ..plain },
        Case { m: 3 * m, n: n / 2, k: 70, ..plain },
    ];
    // A tile whose k is long enough for several blocks to share it by way of the workspace.
    if let KSharing::Workspace { .. } = spec.split_k {
        shapes.push(Case { m: m / 4, n: n / 2, k: 1170, ..plain });
    }
    // A tile whose k two blocks share, three, and as many as there are in a cluster; two tiles.
    if let KSharing::Cluster { .. } = spec.split_k {
        shapes.extend([
            Case { m: m - 1, n: n / 2 + 3, k: 801, beta: -0.5, ..plain },
            Case { m: m / 4, k: 1170, ..plain },
            Case { m, n, k: 3201, padding: [0, 1, 3], ..plain },
            Case { m: m + 1, k: 801, ..plain },
        ]);
    }
    shapes
}

/// Orders of events, with SMs.
const ORDERS: [(Order, Option<u32>); 6] = [
    (Order::Late, Some(1)),
    (Order::Early, Some(2)),
    (Order::Starve(0), Some(2)),
    (Order::Starve(1), Some(1)),
    (Order::Random(1), Some(2)),
    (Order::Random(2), Some(1)),
];

/// Those of shapes whose k several blocks share, which take more time.
const IN_CLUSTERS: [(Order, Option<u32>); 4] = [
    (Order::Early, None),
    (Order::Starve(2), None),
    (Order::Random(3), None),
    (Order::Random(4), Some(1)),
];

/// Runs each shape in each order, on one SM, two and many. A part has each shape in one order, and most orders.
pub(super) fn every_order_of_events<T: ScalarTypes>(
    _: Backend,
    spec: Kernel,
    extent: Extent,
) -> Result<(), Failed> {
    let mut failures = Vec::new();
    let mut tried = 0;
    // From how many k elements on several blocks may share k.
    let shared_from = match spec.split_k {
        KSharing::None => usize::MAX,
        KSharing::Workspace { unit } => unit as usize,
        KSharing::Cluster { .. } => 400,
    };
    let many = emulate::LIMITS.multiprocessors;
    let mut clusters = BTreeSet::new();
    for case in shapes(spec) {
        if !can::<T>(Backend::Emulator, spec, &case)? {
            continue;
        }
        tried += 1;
        let operands = Operands::<T>::draw(&case);
        clusters
            .insert(DeviceModel::new(emulate::LIMITS, 0).ranges(spec.spec(), &operands.problem));
        let run = |order: Order, multiprocessors: u32| {
            let options = Options { order, multiprocessors, ..Options::default() };
            let found = operands.run(|problem, a, b, c| {
                emulate::run_with(options, spec, problem, a, b, c.as_mut_slice())
                    .map_err(|error| error.to_string())
            })?;
            Ok::<_, String>(digest(&operands.problem, &found))
        };
        // How many blocks share k, and with it the bits, depends on the SMs.
        let is_shared = case.k > shared_from;
        let first: Vec<_> = if is_shared { vec![many, 1] } else { vec![many] }
            .into_iter()
            .map(|multiprocessors| (multiprocessors, run(Order::default(), multiprocessors)))
            .collect();
        for (_, found) in &first {
            failures.extend(found.as_ref().err().map(|what| format!("{} {case}: {what}", spec.id)));
        }
        let orders: &[_] = if is_shared { &IN_CLUSTERS } else { &ORDERS };
        for (number, &(order, multiprocessors)) in orders.iter().enumerate() {
            if !extent.has(number + tried, orders.len()) {
                continue;
            }
            let multiprocessors = multiprocessors.unwrap_or(many);
            let found = run(order, multiprocessors);
            let (_, first) =
                first.iter().find(|(of, _)| *of == multiprocessors).unwrap_or(&first[0]);
            if found != *first {
                failures.push(format!("{} {case}, {order:?}: {found:?}, not {first:?}", spec.id));
            }
        }
    }
    failures.extend(enough(tried).err());
    let has_all = match spec.split_k {
        KSharing::None => true,
        KSharing::Workspace { .. } => clusters.len() >= 2,
        KSharing::Cluster { .. } => [1, 2, 3, 8].iter().all(|size| clusters.contains(size)),
    };
    if !has_all {
        failures.push(format!("{}: only {clusters:?} blocks share k", spec.id));
    }
    report(failures).map_err(Failed::from)
}
