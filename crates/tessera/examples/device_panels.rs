//! Measures what it costs that the limbs of a large f32 product are not all in the workspace at the same time, for
//! workspaces of several sizes, in turns.
//!
//! ```sh
//! cargo run --release -p tessera --example device_panels -- [N] [MIB...]
//! ```
//!
//! It needs a GPU of compute capability 9.0. Times are medians of a product by `f16x3`, between events; the last column
//! says whether the bits are those of the first line.

#![expect(clippy::print_stdout, reason = "it shows its result")]

mod in_graph;

use std::env;

use cuda_lazy::DeviceMemory;
use tessera::Types;
use tessera::gpu::{Context, GemmDesc, Kernel, Plan, PlanLimits, Stream, Workspace};

use in_graph::{Failure, captured, median, microseconds};

/// Products of which the median is shown.
const ROUNDS: usize = 5;
/// Bytes that are written at a time.
const BLOCK: usize = 64 << 20;

fn main() -> Result<(), Failure> {
    let asked: Vec<usize> =
        env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let n = asked.first().copied().unwrap_or(32768);
    let limits: Vec<u64> = match asked.get(1..) {
        None | Some([]) => vec![u64::MAX, 4 << 30, 2 << 30, 1 << 30],
        Some(mebibytes) => mebibytes.iter().map(|&size| (size as u64) << 20).collect(),
    };
    let context = Context::primary(0)?;
    println!("{context:?}");
    println!("n | workspace MiB | ms | TFLOP/s | same bits");
    let own = cuda_lazy::Stream::new(context.driver_context())?;
    // SAFETY: a stream of the context, which outlives what is queued in it.
    let stream = unsafe { Stream::from_raw(&context, own.as_raw()) };
    let [a, b, d] = [numbers(&context, n, 1)?, numbers(&context, n, 2)?, numbers(&context, n, 3)?];
    let kernel = Kernel::named("f16x3").ok_or("a kernel of the registry")?;
    let mut graphs = Vec::new();
    for limit in limits {
        let limits = PlanLimits { workspace: limit, ..PlanLimits::default() };
        let plan = Plan::with_kernel(&context, GemmDesc::new(Types::F32, n, n, n), limits, kernel)?;
        let bytes = plan.workspace_bytes();
        let memory = DeviceMemory::new(context.driver_context(), usize::try_from(bytes)?.max(1))?;
        let workspace = Workspace { address: memory.address(), bytes };
        let graph = captured(&stream, || {
            let [a, b, d] = [&a, &b, &d].map(DeviceMemory::address);
            // SAFETY: matrices of the descriptor's sizes and a workspace as long as the plan's, which outlive the
            // waits below.
            unsafe { plan.run(stream.as_raw(), a, b, 0, d, workspace)? };
            Ok(())
        })?;
        graphs.push((bytes, graph, memory, Vec::new()));
    }
    let mut sampled = Vec::new();
    for round in 0..=ROUNDS {
        for (_, graph, _, times) in &mut graphs {
            let time = microseconds(&stream, graph)?;
            if round == 0 {
                sampled.push(sample(&d)?);
            } else {
                times.push(time);
            }
        }
    }
    for ((bytes, .., times), bits) in graphs.into_iter().zip(&sampled) {
        let time = median(times);
        let rate = 2.0 * (n as f64).powi(3) / time / 1e6;
        let same = *bits == sampled[0];
        println!("{n} | {} | {:.2} | {rate:.1} | {same}", bytes >> 20, time / 1e3);
    }
    Ok(())
}

/// A square matrix of numbers between -1 and 1.
fn numbers(context: &Context, n: usize, seed: usize) -> Result<DeviceMemory, Failure> {
    let value = |at: usize| {
        let mixed = (at + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        (mixed % 2001) as f32 / 1000.0 - 1.0
    };
    // Of an odd length, so that no two rows are the same.
    let count = BLOCK / 4 - 1;
    let block: Vec<u8> = (0..count).flat_map(|at| value(at).to_le_bytes()).collect();
    let mut memory = DeviceMemory::new(context.driver_context(), n * n * 4)?;
    for at in (0..memory.len()).step_by(block.len()) {
        let len = block.len().min(memory.len() - at);
        memory.write(at, &block[..len])?;
    }
    context.synchronize()?;
    Ok(memory)
}

/// A block of D of each 64.
fn sample(d: &DeviceMemory) -> Result<Vec<u8>, Failure> {
    const LEN: usize = 4 << 20;
    let mut all = Vec::new();
    let mut block = vec![0; LEN];
    for at in (0..d.len().saturating_sub(LEN)).step_by(BLOCK + 4 * 1031) {
        d.read(at, &mut block)?;
        all.extend_from_slice(&block);
    }
    Ok(all)
}
