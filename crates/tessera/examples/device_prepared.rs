//! Measures what it saves to split a factor of f32 products into limbs once: in a CUDA graph, beside the same kernel
//! that splits both and beside the kernel that a plan picks by itself, in turns.
//!
//! ```sh
//! cargo run --release -p tessera --example device_prepared -- [M N K]
//! ```
//!
//! It needs a GPU of compute capability 9.0. Times are medians of one product in a graph of several with operands of
//! their own; the ratios are the medians over the rounds of a round's two times.

#![expect(clippy::print_stdout, reason = "it shows its result")]

mod in_graph;

use std::env;

use cuda_lazy::{DeviceMemory, Graph};
use tessera::Types;
use tessera::gpu::{
    Context, EpilogueOperands, GemmDesc, Kernel, Limbs, Operand, Operands, Plan, PlanLimits,
    PreparedFactor, Stream, Workspace,
};

use in_graph::{Failure, captured, median, microseconds};

/// Launches of each graph.
const ROUNDS: usize = 15;
/// Bytes that the operands of a graph's products have together at most, and products at most.
const MOST_BYTES: usize = 3 << 30;
const MOST_PRODUCTS: usize = 16;

fn main() -> Result<(), Failure> {
    let sizes: Vec<usize> =
        env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let context = Context::primary(0)?;
    println!("{context:?}");
    println!("m n k | kernel | prepared us | splits both us | saved | picked us | times as fast");
    let shapes = match sizes[..] {
        [m, n, k] => vec![[m, n, k]],
        _ => vec![
            [16, 8192, 8192],
            [64, 8192, 8192],
            [128, 4096, 4096],
            [256, 4096, 4096],
            [512, 10240, 8192],
            [768; 3],
            [1024; 3],
            [2048; 3],
            [4096; 3],
            [8192; 3],
        ],
    };
    for shape in shapes {
        measure(&context, shape)?;
    }
    Ok(())
}

/// Numbers between -1 and 1.
fn numbers(count: usize, seed: usize) -> Vec<u8> {
    let value = |at: usize| {
        let mixed = (at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        (mixed % 2001) as f32 / 1000.0 - 1.0
    };
    (0..count).flat_map(|at| value(at).to_le_bytes()).collect()
}

fn unwritten(context: &Context, bytes: u64) -> Result<DeviceMemory, Failure> {
    Ok(DeviceMemory::new(context.driver_context(), usize::try_from(bytes)?.max(1))?)
}

fn memory_of(context: &Context, data: &[u8]) -> Result<DeviceMemory, Failure> {
    let mut memory = unwritten(context, data.len() as u64)?;
    memory.write(0, data)?;
    Ok(memory)
}

/// A graph of products, and the memory that it uses.
struct Measured {
    graph: Graph,
    _memory: Vec<DeviceMemory>,
}

fn measure(context: &Context, [m, n, k]: [usize; 3]) -> Result<(), Failure> {
    let own = cuda_lazy::Stream::new(context.driver_context())?;
    // SAFETY: a stream of the context, which outlives what is queued in it.
    let stream = unsafe { Stream::from_raw(context, own.as_raw()) };
    let counts = [m * k, k * n, m * n];
    let products = (MOST_BYTES / (4 * counts.iter().sum::<usize>())).clamp(2, MOST_PRODUCTS);
    let mut operands = Vec::with_capacity(products);
    let data = [numbers(counts[0], 1), numbers(counts[1], 2), numbers(counts[2], 3)];
    for _ in 0..products {
        let memory = data.iter().map(|data| memory_of(context, data));
        operands.push(memory.collect::<Result<Vec<_>, _>>()?);
    }
    context.synchronize()?;
    let measured = |plan: &Plan| -> Result<Measured, Failure> {
        let workspace = unwritten(context, plan.workspace_bytes())?;
        let given = Workspace { address: workspace.address(), bytes: plan.workspace_bytes() };
        let mut memory = vec![workspace];
        let prepared_bytes = plan.prepared_bytes();
        let mut limbs = Vec::with_capacity(products);
        for set in &operands {
            if prepared_bytes == 0 {
                continue;
            }
            let own = unwritten(context, prepared_bytes)?;
            let prepared = PreparedFactor { address: own.address(), bytes: prepared_bytes };
            // SAFETY: B of the descriptor's sizes and memory for its limbs, which outlive the wait below.
            unsafe { plan.prepare(stream.as_raw(), set[1].address(), prepared)? };
            limbs.push(prepared);
            memory.push(own);
        }
        stream.synchronize()?;
        let chain = || {
            for (at, set) in operands.iter().enumerate() {
                let [a, b, d] = [0, 1, 2].map(|at: usize| set[at].address());
                let operands = Operands { a, b, c: d, d };
                let (raw, none) = (stream.as_raw(), EpilogueOperands::default());
                match limbs.get(at) {
                    Some(&prepared) => {
                        // SAFETY: matrices of the descriptor's sizes, the limbs of each B and a workspace as long as
                        // the plan's, which outlive the waits below; the stream orders the writes.
                        unsafe { plan.run_prepared(raw, operands, prepared, none, given)? };
                    }
                    // SAFETY: the same.
                    None => unsafe { plan.run_with(raw, &[operands], none, given)? },
                }
            }
            Ok(())
        };
        Ok(Measured { graph: captured(&stream, chain)?, _memory: memory })
    };
    let timed =
        |of: &Measured| Ok::<_, Failure>(microseconds(&stream, &of.graph)? / products as f64);
    let desc = GemmDesc::new(Types::F32, m, n, k);
    let limits = PlanLimits::default();
    let picked_plan = Plan::new(context, desc, limits)?;
    let picked = measured(&picked_plan)?;
    for (id, limbs) in [("f16x3", Limbs::TwoF16), ("bf16x6", Limbs::ThreeBf16)] {
        let kernel = Kernel::named(id).ok_or("a kernel of the registry")?;
        let both = measured(&Plan::with_kernel(context, desc, limits, kernel)?)?;
        let desc = desc.with_prepared(Operand::B, limbs);
        let prepared = measured(&Plan::with_kernel(context, desc, limits, kernel)?)?;
        let [mut ours, mut splitting, mut picks, mut saved, mut faster] = [const { Vec::new() }; 5];
        for round in 0..=ROUNDS {
            let times = [timed(&prepared)?, timed(&both)?, timed(&picked)?];
            // The first launch of a graph is the driver's to prepare for.
            if round > 0 {
                ours.push(times[0]);
                splitting.push(times[1]);
                picks.push(times[2]);
                saved.push(1.0 - times[0] / times[1]);
                faster.push(times[2] / times[0]);
            }
        }
        println!(
            "{m} {n} {k} | {id} | {:.2} | {:.2} | {:.0} % | {:.2} by {} | {:.2}",
            median(ours),
            median(splitting),
            100.0 * median(saved),
            median(picks),
            picked_plan.kernel().spec().id,
            median(faster)
        );
    }
    Ok(())
}
