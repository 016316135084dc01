//! Measures chains of products, each of which waits for the one before, as the layers of a network: launched one by
//! one, and as a CUDA graph, beside cuBLAS.
//!
//! ```sh
//! cargo run --release -p tessera --example device_chain -- [N,...]
//! ```
//!
//! It needs a GPU. Each product takes the result of the one before as its left factor; the right factors take turns.
//! Times are microseconds for a product, medians of rounds in which both take turns: of the caller's thread from the
//! first launch to the end of the last product, of that thread until the last launch has returned, and by events of a
//! graph.

#![expect(clippy::print_stdout, reason = "it shows its result")]

mod cublas;
mod in_graph;

use std::env;
use std::time::Instant;

use tessera::gpu::{Context, DeviceMatrix, GemmDesc, Plan, PlanLimits, Stream, Workspace};
use tessera::{Matrix, Types};

use in_graph::{Failure, captured, median, microseconds};

/// Products of a chain, and right factors.
const CHAIN: usize = 200;
const FACTORS: usize = 16;
const ROUNDS: usize = 15;

/// A type of elements, and what cuBLAS calls it and the type of its sums.
trait Number: tessera::Element {
    const TYPES: Types;
    const CUBLAS: [i32; 2];
    fn of(value: f32) -> Self;
    fn value(self) -> f64;
}

impl Number for f32 {
    const TYPES: Types = Types::F32;
    const CUBLAS: [i32; 2] = [0, 68];
    fn of(value: f32) -> Self {
        value
    }
    fn value(self) -> f64 {
        self.into()
    }
}

impl Number for tessera::bf16 {
    const TYPES: Types = Types::BF16;
    const CUBLAS: [i32; 2] = [14, 68];
    fn of(value: f32) -> Self {
        Self::from_f32(value)
    }
    fn value(self) -> f64 {
        self.to_f64()
    }
}

fn main() -> Result<(), Failure> {
    let asked = env::args().nth(1).unwrap_or_else(|| "256,512,1024,2048".to_owned());
    let context = Context::primary(0)?;
    println!("{context:?}");
    println!(
        "type n | kernel | by | one by one us | launched in us | in a graph us | results apart"
    );
    for n in asked.split(',') {
        let n = n.parse()?;
        measure::<tessera::bf16>(&context, n)?;
        measure::<f32>(&context, n)?;
    }
    Ok(())
}

/// The finaliser of SplitMix64: neighbours have nothing in common.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// How far apart the last results of all ways are, of the largest element; nothing of one alone.
fn apart<E: Number>(results: &[Matrix<E>]) -> f64 {
    let [one, others @ ..] = results else { return 0.0 };
    let largest = one.as_slice().iter().map(|value| value.value().abs()).fold(0.0, f64::max);
    // Also where it is no number.
    let worse = |worst: f64, next: f64| if next <= worst { worst } else { next };
    let distance = |other: &Matrix<E>| {
        let pairs = one.as_slice().iter().zip(other.as_slice());
        pairs.map(|(one, other)| (one.value() - other.value()).abs()).fold(0.0, worse)
    };
    others.iter().map(distance).fold(0.0, worse) / largest
}

/// A way to queue a chain, and the times that it takes: one by one, until all are launched, in a graph.
struct Way<'a> {
    name: &'static str,
    queue: Box<dyn Fn() -> Result<(), Failure> + 'a>,
    times: [Vec<f64>; 3],
}

fn measure<E: Number>(context: &Context, n: usize) -> Result<(), Failure> {
    let own = cuda_lazy::Stream::new(context.driver_context())?;
    // SAFETY: a stream of the context, which outlives what is queued in it.
    let stream = unsafe { Stream::from_raw(context, own.as_raw()) };
    // Factors of such a size that results keep theirs.
    let numbers = |seed: usize| {
        let scale = (3.0 / n as f32).sqrt();
        let number = move |row: usize, col: usize| {
            let number = mixed((row * n + col + seed) as u64) >> 40;
            E::of(((number % 2001) as f32 / 1000.0 - 1.0) * scale)
        };
        Matrix::from_fn(n, n, number)
    };
    let mut factors = Vec::with_capacity(FACTORS);
    for at in 0..FACTORS {
        factors.push(DeviceMatrix::from_host(&stream, numbers(1 + at * n * n)?.view())?);
    }
    let first = DeviceMatrix::from_host(&stream, numbers(7)?.view())?;
    let results = [DeviceMatrix::<E>::zeros(&stream, n, n)?, DeviceMatrix::zeros(&stream, n, n)?];
    let plan = Plan::new(context, GemmDesc::new(E::TYPES, n, n, n), PlanLimits::default())?;
    let bytes = usize::try_from(plan.workspace_bytes())?;
    let memory = DeviceMatrix::<i8>::zeros(&stream, 1, bytes.max(1))?;
    let workspace = Workspace { address: memory.address(), bytes: bytes as u64 };
    stream.synchronize()?;
    // Addresses of A, B and D of a product.
    let place = |at: usize| {
        let a = if at == 0 { &first } else { &results[(at + 1) % 2] };
        [a, &factors[at % FACTORS], &results[at % 2]].map(DeviceMatrix::address)
    };
    let ours = || {
        (0..CHAIN).try_for_each(|at| {
            let [a, b, d] = place(at);
            // SAFETY: matrices of the descriptor's sizes and a workspace as long as the plan's, which outlive the
            // waits below; the stream orders the products.
            unsafe { plan.run(stream.as_raw(), a, b, 0, d, workspace) }.map_err(Failure::from)
        })
    };
    let new = |name, queue| Way { name, queue, times: [const { Vec::new() }; 3] };
    let mut ways = vec![new("tessera", Box::new(ours) as Box<dyn Fn() -> Result<(), Failure>>)];
    if let Some(handle) = cublas::Handle::new(&own) {
        let theirs = move || {
            (0..CHAIN)
                .try_for_each(|at| handle.run(E::CUBLAS, n, 1, place(at)).map_err(Failure::from))
        };
        ways.push(new("cuBLAS", Box::new(theirs)));
    }
    let mut last = Vec::new();
    for way in &ways {
        (way.queue)()?;
        stream.synchronize()?;
        last.push(results[(CHAIN + 1) % 2].to_host(&stream)?);
    }
    let apart = apart(&last);
    let graphs: Vec<_> =
        ways.iter().map(|way| captured(&stream, &way.queue)).collect::<Result<_, _>>()?;
    for round in 0..=ROUNDS {
        for (way, graph) in ways.iter_mut().zip(&graphs) {
            let started = Instant::now();
            (way.queue)()?;
            let launched = started.elapsed();
            stream.synchronize()?;
            let all = started.elapsed();
            let of_graph = microseconds(&stream, graph)?;
            // The first round warms up.
            if round > 0 {
                let [one_by_one, launches, in_graph] = &mut way.times;
                one_by_one.push(all.as_secs_f64() * 1e6);
                launches.push(launched.as_secs_f64() * 1e6);
                in_graph.push(of_graph);
            }
        }
    }
    for way in ways {
        let [one_by_one, launched, in_graph] = way.times.map(|times| median(times) / CHAIN as f64);
        let (types, kernel) = (E::TYPES, plan.kernel().spec().id);
        let kernel = if way.name == "tessera" { kernel } else { "" };
        println!(
            "{types} {n} | {kernel} | {} | {one_by_one:.2} | {launched:.2} | {in_graph:.2} | {apart:.1e}",
            way.name
        );
    }
    Ok(())
}
