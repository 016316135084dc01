//! Every kernel on the emulator with its checks, on shapes with edges and in several orders of events.

mod plant;
mod scene;
mod trace;

use std::time::Instant;

use cuda_std::emulate::{EmulationError, Observer, Order, Strict};
use gemm_spec::split_k::KSharing;
use gemm_spec::{Arch, Layout, Operand, Problem, Types, with_gemm_types};
use kernels_gpu::Kernel;
pub use plant::{Instructions, Outcome, Planted, plant};
pub(crate) use scene::Stopped;
use scene::Watch;
use serde::Serialize;
pub(crate) use trace::Trace;

use crate::emulate::{self, LIMITS, Options};
use crate::error::Error;
use crate::fill::{Distribution, fill};
use crate::scalar::{Scalar, ScalarTypes};
use crate::verify::{Checker, Guarded, Method};

/// A product by its sizes, what lies between the rows of A, B and C, and beta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// m, n and k.
    pub sizes: [usize; 3],
    /// Elements between rows.
    pub padding: [usize; 3],
    /// The factor of the old C.
    pub beta: f64,
}

/// What is run of each kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// The product; where there is none, those of [`shapes`].
    pub(crate) shape: Option<Shape>,
    /// Orders of events, where they are named.
    pub(crate) orders: Option<Vec<Order>>,
    /// Numbers of SMs, where they are named.
    pub(crate) multiprocessors: Option<Vec<u32>>,
    /// Seeds of random orders.
    pub(crate) seeds: Vec<u64>,
    /// How else kernels are run.
    pub(crate) base: Options,
}

/// What was run of a kernel, and what is wrong with it.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Findings {
    pub(crate) kernel: &'static str,
    /// Products that were run, each in every order.
    pub(crate) products: usize,
    /// Runs of them.
    pub(crate) runs: usize,
    pub(crate) seconds: f64,
    /// At most one for each product.
    pub(crate) reports: Vec<Report>,
}

/// What is wrong in a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) types: String,
    /// m, n and k.
    pub(crate) sizes: [usize; 3],
    pub(crate) order: String,
    pub(crate) multiprocessors: u32,
    pub(crate) fault: String,
    /// What would order the two acts.
    pub(crate) remedy: Option<String>,
    /// What the cluster of the fault was at, of a kernel for Hopper.
    pub(crate) stopped: Option<Stopped>,
    /// The command that repeats it.
    pub(crate) repeat: String,
}

/// Runs the entries of a kernel, of one row of types or of all.
pub(crate) fn examine(
    spec: Kernel,
    types: Option<Types>,
    plan: &Plan,
    observer: Option<&dyn Observer>,
) -> anyhow::Result<Findings> {
    let started = Instant::now();
    let mut all = Findings { kernel: spec.id, ..Findings::default() };
    for entry in spec.entries.iter().filter(|entry| types.is_none_or(|types| types == entry.types))
    {
        with_gemm_types!(entry.types, T => examine_types::<T>(spec, plan, observer, &mut all))?;
    }
    all.seconds = started.elapsed().as_secs_f64();
    Ok(all)
}

fn examine_types<T: ScalarTypes>(
    spec: Kernel,
    plan: &Plan,
    observer: Option<&dyn Observer>,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let shapes = plan.shape.map_or_else(|| shapes(spec), |shape| vec![shape]);
    let orders = orders(spec, plan);
    for shape in shapes {
        let Some(product) = Product::<T>::new(spec, shape)? else { continue };
        findings.products += 1;
        let checker = product.checker()?;
        for &(order, multiprocessors) in &orders {
            findings.runs += 1;
            let options = Options { order, multiprocessors, ..plan.base };
            let (fault, remedy, stopped) = match product.run(spec, options, observer)? {
                Ok(c) => match verdict(&checker, &c) {
                    None => continue,
                    Some(wrong) => (wrong, None, None),
                },
                Err(fault) => {
                    let (fault, stopped) = product.watched(spec, options, fault)?;
                    (fault.to_string(), fault.remedy(), stopped)
                }
            };
            findings.reports.push(Report {
                types: T::TYPES.to_string(),
                sizes: shape.sizes,
                order: order_name(order),
                multiprocessors,
                fault,
                remedy,
                stopped,
                repeat: repeat(spec, T::TYPES, shape, options),
            });
            break;
        }
    }
    Ok(())
}

/// A product of random numbers.
struct Product<T: ScalarTypes> {
    problem: Problem<T>,
    a: Vec<T::A>,
    b: Vec<T::B>,
    before: Vec<T::C>,
}

impl<T: ScalarTypes> Product<T> {
    /// Draws it; none where the kernel cannot do it.
    fn new(spec: Kernel, shape: Shape) -> Result<Option<Self>, Error> {
        let Shape { sizes: [m, n, k], padding: [of_a, of_b, of_c], beta } = shape;
        let problem = Problem::<T>::new(m, n, k)
            .with_scalars(T::Acc::from_f64(2.0), T::Acc::from_f64(beta))
            .with_layouts(
                Layout::row_major(k + of_a),
                Layout::row_major(n + of_b),
                Layout::row_major(n + of_c),
            );
        if spec.supports(&problem, &LIMITS).is_err() {
            return Ok(None);
        }
        let a = drawn::<T, T::A>(&problem, Operand::A);
        let b = drawn::<T, T::B>(&problem, Operand::B);
        let before = drawn::<T, T::C>(&problem, Operand::C);
        Ok(Some(Self { problem, a, b, before }))
    }

    fn checker(&self) -> anyhow::Result<Checker<'_, T>> {
        let Self { problem, a, b, before } = self;
        Ok(Checker::new(problem, a, b, before, Method::Full, 1)?)
    }

    /// C, between guards, or the fault of the kernel.
    fn run(
        &self,
        spec: Kernel,
        options: Options,
        observer: Option<&dyn Observer>,
    ) -> anyhow::Result<Result<Guarded<T>, Box<EmulationError>>> {
        let Self { problem, a, b, before } = self;
        let mut c = Guarded::new(problem)?;
        c.poison(before);
        let elements = c.as_mut_slice();
        let outcome = match observer {
            None => emulate::run_with(options, spec, problem, a, b, elements),
            Some(observer) => {
                emulate::run_observed(options, spec, problem, a, b, elements, observer)
            }
        };
        match outcome {
            Ok(()) => Ok(Ok(c)),
            Err(Error::Emulation { fault, .. }) => Ok(Err(fault)),
            Err(error) => Err(error.into()),
        }
    }
}

impl<T: ScalarTypes> Product<T> {
    /// A run that ends with a fault once more, to see what its cluster is at then. Where several have one it may be
    /// another's.
    fn watched(
        &self,
        spec: Kernel,
        options: Options,
        fault: Box<EmulationError>,
    ) -> anyhow::Result<(Box<EmulationError>, Option<Stopped>)> {
        if spec.arch != Arch::Sm90a {
            return Ok((fault, None));
        }
        let watch = Watch::default();
        let fault = self.run(spec, options, Some(&watch))?.err().unwrap_or(fault);
        let stopped = watch.stopped_at(&fault);
        Ok((fault, stopped))
    }
}

/// What is wrong with a result.
fn verdict<T: ScalarTypes>(checker: &Checker<'_, T>, c: &Guarded<T>) -> Option<String> {
    if let Err(error) = c.intact() {
        return Some(error.to_string());
    }
    let verdict = checker.check(c.as_slice());
    (!verdict.ok).then(|| verdict.to_string())
}

/// An edge within a tile and beyond one, more stages than a pipeline has, and k that several blocks share.
fn shapes(spec: Kernel) -> Vec<Shape> {
    let (m, n) = spec.launch.tile().map_or((8, 8), |tile| (tile.m as usize, tile.n as usize));
    let of = |sizes, padding, beta| Shape { sizes, padding, beta };
    let mut shapes = vec![
        of([m + 1, n + 3, 47], [1, 0, 3], -1.0),
        of([m, n, 330], [0; 3], 0.0),
        of([m.div_ceil(2), n + 8, 40], [0, 8, 0], 3.0),
    ];
    match spec.split_k {
        KSharing::None => {}
        KSharing::Workspace { .. } => shapes.push(of([m, n, 700], [0; 3], 1.0)),
        KSharing::Cluster { .. } => {
            shapes.push(of([m, n - 5, 801], [0; 3], 1.0));
            shapes.push(of([m - 3, n, 3201], [0; 3], 0.0));
        }
    }
    shapes
}

/// Orders of events with numbers of SMs; only the kernels for Hopper have several.
fn orders(spec: Kernel, plan: &Plan) -> Vec<(Order, u32)> {
    let many = LIMITS.multiprocessors;
    let random = plan.seeds.iter().map(|&seed| Order::Random(seed));
    if spec.arch != Arch::Sm90a {
        return vec![(Order::Late, many)];
    }
    if plan.orders.is_none() && plan.multiprocessors.is_none() {
        let fixed =
            [(Order::Late, many), (Order::Early, 1), (Order::Starve(0), 2), (Order::Starve(1), 1)];
        return fixed.into_iter().chain(random.map(|order| (order, 1))).collect();
    }
    let fixed = [Order::Late, Order::Early, Order::Starve(0), Order::Starve(1)];
    let named = || fixed.into_iter().chain(random).collect();
    let orders = plan.orders.clone().unwrap_or_else(named);
    let numbers = plan.multiprocessors.clone().unwrap_or_else(|| vec![1, 2]);
    let on = |order| numbers.iter().map(move |&number| (order, number));
    orders.into_iter().flat_map(on).collect()
}

/// An order as `--orders` takes it.
fn order_name(order: Order) -> String {
    match order {
        Order::Late => "late".to_owned(),
        Order::Early => "early".to_owned(),
        Order::Starve(warpgroup) => format!("starve:{warpgroup}"),
        Order::Random(seed) => format!("random, seed {seed}"),
    }
}

/// The command that runs this again, and nothing else.
fn repeat(spec: Kernel, types: Types, shape: Shape, options: Options) -> String {
    let Shape { sizes: [m, n, k], padding: [a, b, c], beta } = shape;
    let order = match options.order {
        Order::Random(seed) => format!("random --seeds 1 --seed {seed}"),
        fixed @ (Order::Late | Order::Early | Order::Starve(_)) => order_name(fixed),
    };
    let (id, multiprocessors) = (spec.id, options.multiprocessors);
    let Strict { scopes, init } = options.strict;
    let rules: Vec<&str> = [(scopes, "scopes"), (init, "init")]
        .into_iter()
        .filter(|rule| rule.0)
        .map(|rule| rule.1)
        .collect();
    let strict =
        if rules.is_empty() { String::new() } else { format!(" --strict {}", rules.join(",")) };
    format!(
        "tessera sanitize --kernel {id} --dtype {types} -m {m} -n {n} -k {k} --padding {a},{b},{c} --beta {beta} \
         --orders {order} --multiprocessors {multiprocessors}{strict}"
    )
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
    use cuda_std::emulate::{Change, Defect};
    use kernels_gpu::KERNELS;

    use super::*;
    use crate::f16;

    pub(super) fn kernel(id: &str) -> Kernel {
        KERNELS.iter().copied().find(|spec| spec.id == id).unwrap()
    }

    fn examined(id: &str, types: Types, plan: &Plan) -> Findings {
        examine(kernel(id), Some(types), plan, None).unwrap()
    }

    #[test]
    fn what_is_right_has_no_report_and_what_is_planted_has() {
        let plan = |base| Plan { seeds: vec![1], base, ..Plan::default() };
        let fine = examined("tiled8", Types::F64, &plan(Options::default()));
        assert_eq!((fine.products, fine.runs, fine.reports.len()), (3, 3, 0));
        let base = Options { skip_barrier: Some(0), ..Options::default() };
        let wrong = examined("tiled8", Types::F64, &plan(base));
        assert_eq!(wrong.reports.len(), 3);
        let report = &wrong.reports[0];
        assert!(report.fault.contains("race on byte "), "{report:?}");
        let remedy = report.remedy.as_ref().unwrap();
        assert!(remedy.starts_with("a barrier that both threads come to, behind "), "{remedy}");
        assert_eq!(
            report.repeat,
            "tessera sanitize --kernel tiled8 --dtype f64 -m 9 -n 11 -k 47 --padding 1,0,3 --beta -1 \
             --orders late --multiprocessors 132"
        );
        // With checks off its numbers show it, or those of the order of threads that the emulator has.
        let unchecked = examined("tiled8", Types::F64, &plan(Options { checked: false, ..base }));
        assert!(unchecked.reports.iter().all(|report| report.fault.contains("WRONG")));
    }

    /// Findings of a kernel that lacks the instructions of that name, one after the other.
    fn without(name: &str) -> Vec<Report> {
        let spec = kernel("tensor_128x128");
        let instructions = Instructions::of::<f16>(spec).unwrap();
        let shape = Some(Shape { sizes: [128, 128, 700], padding: [0; 3], beta: 0.0 });
        let of_name = instructions.into_iter().filter(|instruction| instruction.name == name);
        let reports = of_name.map(|instruction| {
            let defect = Some(Defect { instruction, change: Change::Missing });
            let base = Options { defect, ..Options::default() };
            let plan = Plan { shape, seeds: vec![], base, ..Plan::default() };
            examine(spec, Some(Types::F16), &plan, None).unwrap().reports
        });
        reports.flatten().collect()
    }

    #[test]
    fn a_report_says_what_the_barriers_and_the_threads_were_at() {
        let reports = without("mbarrier.arrive");
        let deadlock = reports.iter().find(|report| report.fault.starts_with("deadlock: "));
        let lines = deadlock.unwrap().stopped.as_ref().unwrap().lines();
        assert!(lines[0].starts_with("mbarrier of "), "{lines:#?}");
        // Somebody waits for a phase that lacks an arrival.
        let words =
            |line: &String| -> Vec<String> { line.split_whitespace().map(str::to_owned).collect() };
        let lacks = lines.iter().map(words).any(|words| {
            let of = words.iter().position(|word| word == "of").filter(|at| *at > 1);
            of.is_some_and(|at| words[at - 1] < words[at + 1] && words[at + 3] != "0")
        });
        assert!(lacks, "{lines:#?}");
        let waits = |line: &String| line.starts_with("  mbarrier.try_wait at kernels-gpu/src/");
        assert!(lines.iter().any(waits), "{lines:#?}");
        // The thread of the report comes first.
        let reports = without("fence.proxy.async");
        let fence = reports.iter().find(|report| report.fault.starts_with("no proxy fence: "));
        let fence = fence.unwrap();
        let lines = fence.stopped.as_ref().unwrap().lines();
        let first = lines.iter().find_map(|line| line.strip_suffix(" came last to")).unwrap();
        assert!(fence.fault.contains(first), "{first}: {}", fence.fault);
    }

    #[test]
    fn kernels_for_hopper_run_in_every_order() {
        let plan = Plan { seeds: vec![1, 2], ..Plan::default() };
        let found = examined("tensor_64x128", Types::F16, &plan);
        assert_eq!((found.products, found.runs, found.reports.len()), (3, 18, 0));
        let found = examined("tensor_split_64x64", Types::F16F32, &Plan::default());
        assert_eq!((found.products, found.runs, found.reports.len()), (5, 20, 0));
        // Those that are named, each on every number of SMs that is.
        let shape = Shape { sizes: [30, 40, 50], padding: [0; 3], beta: 0.0 };
        let plan = Plan {
            shape: Some(shape),
            orders: Some(vec![Order::Random(7), Order::Late]),
            multiprocessors: Some(vec![1, 132]),
            ..Plan::default()
        };
        let found = examined("tensor_64x128", Types::F16, &plan);
        assert_eq!((found.products, found.runs, found.reports.len()), (1, 4, 0));
    }
}
