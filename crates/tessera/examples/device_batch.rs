//! Measures batches of small products in a CUDA graph, beside the memory's and the units' limit and cuBLAS.
//!
//! ```sh
//! cargo run --release -p tessera --example device_batch -- [TYPE] [N] [KERNEL,...] [COUNT,...]
//! ```
//!
//! It needs a GPU. Times are medians, in microseconds for one batch in a graph of many, each with operands of its
//! own; L2 is overwritten before each launch of the graph. The limit is that of an H200: the greater of
//! 2 us + bytes at 4.5 TB/s, and of the operations at the peak of the type. Some products of each batch are
//! compared with chains of multiply-adds. Where a kernel's bits are others, the largest errors of both are shown, over
//! the sum of the magnitudes that are added; as the exact result serves a chain in f64.

#![expect(clippy::print_stdout, reason = "it shows its result")]

mod cublas;
mod in_graph;

use std::env;

use tessera::gpu::{
    Context, DeviceMatrix, GemmBatch, GemmDesc, Kernel, Plan, PlanLimits, Stream, Workspace,
};
use tessera::{Matrix, Types};

use in_graph::{Failure, captured, median, microseconds};

/// Sizes of the square products, and products of a batch.
const SIZES: [usize; 18] =
    [4, 5, 7, 8, 12, 16, 23, 24, 31, 32, 48, 64, 96, 100, 128, 250, 256, 512];
const COUNTS: [usize; 3] = [100, 1000, 10_000];
/// Elements of the operands of a batch at most.
const MOST_ELEMENTS: usize = 1 << 30;
/// Launches of the graph of which the median is shown.
const ROUNDS: usize = 7;
/// Batches of a graph, and bytes that their operands have together at most.
const MOST_SETS: usize = 64;
/// Operations of a graph, and batches that it has at least whatever they take.
const MOST_FLOPS: usize = 4_000_000_000_000;
const LEAST_BATCHES: usize = 4;
/// Elements of a product that are compared.
const COMPARED: usize = 4096;
const MOST_BYTES: usize = 1 << 30;
/// Bytes that are overwritten so that nothing of the operands is in L2.
const OTHER_BYTES: usize = 256 << 20;

/// A type of elements, and the chain that most kernels promise.
trait Number: tessera::Element + PartialEq + std::fmt::Debug {
    const TYPES: Types;
    /// Operations in a second at the peak of an H200.
    const PEAK: f64;
    /// What cuBLAS calls the type, and the type of its sums.
    const CUBLAS: [i32; 2];
    fn of(value: i32) -> Self;
    fn dot(pairs: impl Iterator<Item = (Self, Self)>) -> Self;
    fn wide(self) -> f64;
}

impl Number for f32 {
    const TYPES: Types = Types::F32;
    const PEAK: f64 = 66.9e12;
    const CUBLAS: [i32; 2] = [0, 68];
    fn of(value: i32) -> Self {
        value as Self / 61.0
    }
    fn dot(pairs: impl Iterator<Item = (Self, Self)>) -> Self {
        pairs.fold(0.0, |sum, (a, b)| a.mul_add(b, sum))
    }
    fn wide(self) -> f64 {
        f64::from(self)
    }
}

impl Number for f64 {
    const TYPES: Types = Types::F64;
    const PEAK: f64 = 66.9e12;
    const CUBLAS: [i32; 2] = [1, 70];
    fn of(value: i32) -> Self {
        Self::from(value) / 61.0
    }
    fn dot(pairs: impl Iterator<Item = (Self, Self)>) -> Self {
        pairs.fold(0.0, |sum, (a, b)| a.mul_add(b, sum))
    }
    fn wide(self) -> f64 {
        self
    }
}

impl Number for tessera::bf16 {
    const TYPES: Types = Types::BF16;
    const PEAK: f64 = 989e12;
    const CUBLAS: [i32; 2] = [14, 68];
    fn of(value: i32) -> Self {
        Self::from_f32(value as f32 / 61.0)
    }
    fn dot(pairs: impl Iterator<Item = (Self, Self)>) -> Self {
        Self::from_f32(pairs.fold(0.0, |sum, (a, b)| a.to_f32().mul_add(b.to_f32(), sum)))
    }
    fn wide(self) -> f64 {
        f64::from(self.to_f32())
    }
}

fn main() -> Result<(), Failure> {
    let asked: Vec<String> = env::args().skip(1).collect();
    let wants = |types: Types| asked.first().is_none_or(|name| name == types.name());
    let size = asked.get(1).filter(|text| *text != "all").map(|text| text.parse::<usize>());
    let size = size.transpose()?;
    let kernels = asked.get(2).map_or(Ok(vec![None]), |text| {
        let named = |id| Kernel::named(id).map(Some).ok_or(format!("there is no kernel {id}"));
        text.split(',').map(named).collect::<Result<Vec<_>, _>>()
    })?;
    let context = Context::primary(0)?;
    println!("{context:?}");
    println!("type n batch | kernel | us | limit | us/limit | cuBLAS us | cuBLAS/us | checked");
    let counts = asked.get(3).map_or(Ok(COUNTS.to_vec()), |text| {
        text.split(',').map(str::parse::<usize>).collect::<Result<Vec<_>, _>>()
    })?;
    for n in size.map_or(SIZES.to_vec(), |size| vec![size]) {
        for &count in counts.iter().filter(|&count| 3 * n * n * count <= MOST_ELEMENTS) {
            if wants(Types::F32) {
                measure::<f32>(&context, n, count, &kernels)?;
            }
            if wants(Types::F64) {
                measure::<f64>(&context, n, count, &kernels)?;
            }
            if wants(Types::BF16) {
                measure::<tessera::bf16>(&context, n, count, &kernels)?;
            }
        }
    }
    Ok(())
}

/// A batch of square products by each of the kernels, or by the one that a plan chooses: its time, and whether
/// some of the products are right.
fn measure<E: Number>(
    context: &Context,
    n: usize,
    count: usize,
    kernels: &[Option<Kernel>],
) -> Result<(), Failure> {
    let own = cuda_lazy::Stream::new(context.driver_context())?;
    // SAFETY: a stream of the context, which outlives what is queued in it.
    let stream = unsafe { Stream::from_raw(context, own.as_raw()) };
    let each = n * n;
    let bytes = 3 * count * each * size_of::<E>();
    let sets = (MOST_BYTES / bytes).clamp(2, MOST_SETS);
    let numbers = |seed: usize| {
        let number = |at: usize| {
            let mixed = (at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            E::of(i32::try_from(mixed % 127).map_or(0, |value| value - 63))
        };
        Matrix::from_fn(1, count * each, |_, at| number(at))
    };
    let (host_a, host_b) = (numbers(1)?, numbers(77)?);
    let mut operands = Vec::with_capacity(sets);
    for _ in 0..sets {
        operands.push([
            DeviceMatrix::from_host(&stream, host_a.view())?,
            DeviceMatrix::from_host(&stream, host_b.view())?,
            DeviceMatrix::<E>::zeros(&stream, 1, count * each)?,
        ]);
    }
    let other = DeviceMatrix::<i8>::zeros(&stream, 1, OTHER_BYTES)?;
    stream.synchronize()?;

    let desc = GemmDesc::new(E::TYPES, n, n, n).with_batch(GemmBatch::Strided {
        count,
        a_stride: each,
        b_stride: each,
        c_stride: each,
        d_stride: each,
    });
    let place = |at: usize| operands[at % sets].each_ref().map(DeviceMatrix::address);
    let clear = || {
        // SAFETY: the memory is this function's.
        unsafe { own.fill(other.address(), 1, OTHER_BYTES) }.map_err(Failure::from)
    };
    let flops = 2 * count * each * n;
    let batches = (MOST_FLOPS / flops).clamp(LEAST_BATCHES, MOST_SETS);
    let theirs = match cublas::Handle::new(&own) {
        Some(handle) => {
            let run = |at: usize| handle.run(E::CUBLAS, n, count, place(at)).map_err(Failure::from);
            run(0)?;
            stream.synchronize()?;
            median_in_graph(&stream, batches, run, clear)?
        }
        None => f64::NAN,
    };
    let limit = (2.0 + bytes as f64 / 4.5e6).max(flops as f64 / E::PEAK * 1e6);
    for &kernel in kernels {
        let limits = PlanLimits::default();
        let plan = match kernel {
            None => Plan::new(context, desc, limits),
            Some(kernel) => Plan::with_kernel(context, desc, limits, kernel),
        };
        let plan = match plan {
            Ok(plan) => plan,
            Err(error) => {
                println!("{} {n} {count} | {error}", E::TYPES);
                continue;
            }
        };
        let bytes = usize::try_from(plan.workspace_bytes())?;
        let memory = DeviceMatrix::<i8>::zeros(&stream, 1, bytes.max(1))?;
        let workspace = Workspace { address: memory.address(), bytes: bytes as u64 };
        let run = |at: usize| {
            let [a, b, d] = place(at);
            // SAFETY: matrices of the descriptor's sizes and a workspace as long as the plan's, which outlive the
            // waits below; the stream orders the writes.
            unsafe { plan.run(stream.as_raw(), a, b, 0, d, workspace) }.map_err(Failure::from)
        };
        // SAFETY: the memory is this function's.
        unsafe { own.fill(operands[0][2].address(), 0x7f, count * each * size_of::<E>()) }?;
        run(0)?;
        stream.synchronize()?;
        let checked = check::<E>(&operands[0][2].to_host(&stream)?, (&host_a, &host_b), n, count);
        let ours = median_in_graph(&stream, batches, run, clear)?;
        println!(
            "{} {n} {count} | {} | {ours:.2} | {limit:.2} | {:.2} | {theirs:.2} | {:.2} | {checked}",
            E::TYPES,
            plan.kernel().spec().id,
            ours / limit,
            theirs / ours,
        );
    }
    Ok(())
}

/// Compares elements of some products of a batch with their chains.
fn check<E: Number>(
    found: &Matrix<E>,
    (a, b): (&Matrix<E>, &Matrix<E>),
    n: usize,
    count: usize,
) -> String {
    let (a, b, found) = (a.as_slice(), b.as_slice(), found.as_slice());
    let (mut same, mut own, mut of_chain) = (true, 0f64, 0f64);
    let products: Vec<usize> = (0..count).step_by((count / 50).max(1)).chain([count - 1]).collect();
    for &at in &products {
        // An odd step, so that they are in all columns.
        for place in (0..n * n).step_by((n * n / COMPARED) | 1) {
            let (row, col) = (place / n, place % n);
            let pair = |k: usize| (a[at * n * n + row * n + k], b[at * n * n + k * n + col]);
            let (found, chain) = (found[at * n * n + place], E::dot((0..n).map(pair)));
            same &= found == chain;
            let terms = (0..n).map(pair).map(|(a, b)| a.wide() * b.wide());
            let (exact, size) =
                terms.fold((0.0, 0.0), |(sum, size), it| (sum + it, size + it.abs()));
            let error = |it: E| (it.wide() - exact).abs() / f64::max(size, f64::MIN_POSITIVE);
            // Also where one is no number.
            let larger = |one: f64, other: f64| if other <= one { one } else { other };
            (own, of_chain) = (larger(own, error(found)), larger(of_chain, error(chain)));
        }
    }
    if same {
        format!("{} products, same bits", products.len())
    } else {
        format!("{} products, errors to {own:.2e}, of chains {of_chain:.2e}", products.len())
    }
}

/// The median time of a batch in a graph, in microseconds.
fn median_in_graph(
    stream: &Stream,
    batches: usize,
    run: impl Fn(usize) -> Result<(), Failure>,
    clear: impl Fn() -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let graph = captured(stream, || (0..batches).try_for_each(&run))?;
    let cleared = || {
        clear()?;
        microseconds(stream, &graph)
    };
    // The first launch of a graph is the driver's to prepare for.
    cleared()?;
    let times = (0..ROUNDS).map(|_| cleared());
    Ok(median(times.collect::<Result<_, _>>()?) / batches as f64)
}
