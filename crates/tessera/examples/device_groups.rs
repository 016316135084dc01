//! Measures products of groups of rows, whose sizes are on the device, as those of a mixture of experts.
//!
//! ```sh
//! cargo run --release -p tessera --example device_groups -- [TYPE] [KERNEL,...]
//! ```
//!
//! It needs a GPU. Times are medians of one launch in a graph of several; the operands are larger than L2. Some
//! elements of each result are compared with sums in f64. The sizes of the groups are uneven: random, between
//! nothing and twice the average for the most part.

#![expect(clippy::print_stdout, reason = "it shows its result")]

mod in_graph;

use std::env;

use cuda_lazy::DeviceMemory;
use tessera::gpu::{
    Context, EpilogueOperands, GemmBatch, GemmDesc, Kernel, Operands, Plan, PlanLimits, Stream,
    Workspace,
};
use tessera::{Layout, Types, bf16, f16};

use in_graph::{Failure, captured, median, microseconds};

/// Groups, rows of all of them, n and k.
const SHAPES: [[usize; 4]; 8] = [
    [8, 8192, 4096, 4096],
    [64, 8192, 2048, 4096],
    [64, 65536, 2048, 4096],
    [128, 1024, 2048, 7168],
    [8, 64, 14336, 4096],
    [16, 16384, 5120, 1536],
    [32, 4096, 7168, 2048],
    [256, 32768, 1024, 2048],
];
/// Launches of a graph, and launches of the graph.
const PRODUCTS: usize = 8;
const ROUNDS: usize = 9;
/// After that many elements the numbers of an operand repeat.
const PERIOD: usize = (1 << 22) - 3;
/// Elements of each group's part of D that are compared.
const CHECKED: usize = 40;

fn main() -> Result<(), Failure> {
    let asked: Vec<String> = env::args().skip(1).collect();
    let types = match asked.first().map_or("bf16", String::as_str) {
        "bf16" => Types::BF16,
        "f16" => Types::F16,
        other => return Err(format!("{other} is neither bf16 nor f16").into()),
    };
    let kernels = asked.get(1).map_or(Ok(vec![None]), |text| {
        let named = |id| Kernel::named(id).map(Some).ok_or(format!("there is no kernel {id}"));
        text.split(',').map(named).collect::<Result<Vec<_>, _>>()
    })?;
    let context = Context::primary(0)?;
    println!("{context:?}");
    println!("type groups rows n k | B | kernel | us | TFLOP/s | GB/s of B | checked");
    for shape in SHAPES {
        measure(&context, types, shape, &kernels)?;
    }
    Ok(())
}

/// A number by its place in its operand.
fn value(at: usize, seed: usize) -> f32 {
    let mixed = (at % PERIOD + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (mixed % 127) as f32 / 64.0 - 1.0
}

/// Where groups end: the rows are shared by random weights of 0 to 15.
fn ends(groups: usize, rows: usize) -> Vec<u32> {
    let weight = |group: usize| (group + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
    let all: usize = (0..groups).map(weight).sum();
    let mut sum = 0;
    let end = |group| {
        sum += weight(group);
        u32::try_from(rows * sum / all.max(1)).unwrap_or(u32::MAX)
    };
    (0..groups).map(end).collect()
}

fn numbers(
    context: &Context,
    types: Types,
    len: usize,
    seed: usize,
) -> Result<DeviceMemory, Failure> {
    let period: Vec<u8> = (0..PERIOD.min(len))
        .flat_map(|at| {
            if types == Types::F16 {
                f16::from_f32(value(at, seed)).to_le_bytes()
            } else {
                bf16::from_f32(value(at, seed)).to_le_bytes()
            }
        })
        .collect();
    let mut memory = DeviceMemory::new(context.driver_context(), 2 * len)?;
    let mut at = 0;
    while at < 2 * len {
        let part = period.len().min(2 * len - at);
        memory.write(at, &period[..part])?;
        at += part;
    }
    Ok(memory)
}

fn measure(
    context: &Context,
    types: Types,
    [groups, rows, n, k]: [usize; 4],
    kernels: &[Option<Kernel>],
) -> Result<(), Failure> {
    let own = cuda_lazy::Stream::new(context.driver_context())?;
    // SAFETY: a stream of the context, which outlives what is queued in it.
    let stream = unsafe { Stream::from_raw(context, own.as_raw()) };
    let (a, b) =
        (numbers(context, types, rows * k, 1)?, numbers(context, types, groups * n * k, 7)?);
    let d = DeviceMemory::new(context.driver_context(), 2 * rows * n)?;
    let host_ends = ends(groups, rows);
    let bytes: Vec<u8> = host_ends.iter().flat_map(|end| end.to_le_bytes()).collect();
    let mut device_ends = DeviceMemory::new(context.driver_context(), bytes.len())?;
    device_ends.write(0, &bytes)?;
    context.synchronize()?;
    let operands = Operands { a: a.address(), b: b.address(), c: 0, d: d.address() };
    for (order, layout) in [("rows", Layout::row_major(n)), ("columns", Layout::col_major(k))] {
        for &kernel in kernels {
            let desc = GemmDesc::new(types, rows, n, k)
                .with_layouts(Layout::row_major(k), layout, Layout::row_major(n))
                .with_batch(GemmBatch::RowGroups { count: groups, b_stride: n * k });
            let limits = PlanLimits::default();
            let plan = match kernel {
                None => Plan::new(context, desc, limits)?,
                Some(kernel) => Plan::with_kernel(context, desc, limits, kernel)?,
            };
            let run = || {
                let (numbers, ends) = (EpilogueOperands::default(), device_ends.address());
                // SAFETY: matrices of the descriptor's sizes and an end for each group, which outlive the waits
                // below; the stream orders the writes, and plans of aligned lines need no workspace.
                unsafe {
                    plan.run_groups(stream.as_raw(), ends, operands, numbers, Workspace::NONE)
                }
                .map_err(Failure::from)
            };
            // SAFETY: the memory is this function's.
            unsafe { own.fill(d.address(), 0x7f, 2 * rows * n) }?;
            run()?;
            stream.synchronize()?;
            let checked = check(&d, types, &host_ends, [rows, n, k], layout)?;
            let us = median_in_graph(&stream, run)?;
            let flops = 2.0 * (rows * n) as f64 * k as f64;
            println!(
                "{types} {groups} {rows} {n} {k} | {order} | {} | {us:.1} | {:.0} | {:.0} | {checked}",
                plan.kernel().spec().id,
                flops / us / 1e6,
                (2 * groups * n * k) as f64 / us / 1e3,
            );
        }
    }
    Ok(())
}

/// Compares some elements of each group with their sums.
fn check(
    d: &DeviceMemory,
    types: Types,
    ends: &[u32],
    [_, n, k]: [usize; 3],
    layout: Layout,
) -> Result<String, Failure> {
    let (mut begin, mut worst, mut count) = (0, 0f64, 0);
    for (group, &end) in ends.iter().enumerate() {
        let end = end as usize;
        for at in 0..CHECKED.min(end - begin) {
            // The first row, the last one, and others between.
            let row = begin + at * (end - 1 - begin) / (CHECKED.min(end - begin) - 1).max(1);
            let col = (at * 977 + group * 31) % n;
            let product = |p: usize| {
                let b = group * n * k + layout.index(p, col);
                f64::from(value(row * k + p, 1)) * f64::from(value(b, 7))
            };
            let wanted: f64 = (0..k).map(product).sum();
            let mut bytes = [0; 2];
            d.read(2 * (row * n + col), &mut bytes)?;
            let found = if types == Types::F16 {
                f16::from_le_bytes(bytes).to_f32()
            } else {
                bf16::from_le_bytes(bytes).to_f32()
            };
            let off = (f64::from(found) - wanted).abs() / wanted.abs().max(1.0);
            // Also where it is no number.
            worst = if off <= worst { worst } else { off };
            count += 1;
        }
        begin = end;
    }
    Ok(format!("{count} elements, at most {worst:.1e} off"))
}

/// The median time of a launch in a graph of several, in microseconds.
fn median_in_graph(stream: &Stream, run: impl Fn() -> Result<(), Failure>) -> Result<f64, Failure> {
    let graph = captured(stream, || (0..PRODUCTS).try_for_each(|_| run()))?;
    // The first launch of a graph is the driver's to prepare for.
    microseconds(stream, &graph)?;
    let times = (0..ROUNDS).map(|_| microseconds(stream, &graph));
    Ok(median(times.collect::<Result<_, _>>()?) / PRODUCTS as f64)
}
