//! Measures what epilogues cost: fused, in a CUDA graph, beside the same product without one, in turns.
//!
//! ```sh
//! cargo run --release -p tessera --example device_epilogue -- [TYPE] [M N K] [KERNEL]
//! ```
//!
//! It needs a GPU. Times are medians of one product in a graph of several with operands of their own; the ratio is
//! the median over the rounds of a round's two times. A kernel that is named computes the products with an epilogue; the
//! plain one's is chosen.

#![expect(clippy::print_stdout, reason = "it shows its result")]

mod in_graph;

use std::env;

use cuda_lazy::{DeviceMemory, Graph};
use tessera::gpu::{
    Activation, Bias, Context, Epilogue, EpilogueOperands, GemmDesc, Kernel, Operands, Plan,
    PlanLimits, Stream, Workspace,
};
use tessera::{DType, Types, bf16, f16};

use in_graph::{Failure, captured, median, microseconds};

/// Launches of each graph.
const ROUNDS: usize = 15;
/// Bytes that the operands of a graph's products have together at most, and products at most.
const MOST_BYTES: usize = 3 << 30;
const MOST_PRODUCTS: usize = 16;

fn main() -> Result<(), Failure> {
    let mut asked: Vec<String> = env::args().skip(1).collect();
    let kernel = asked.last().and_then(|name| Kernel::named(name));
    asked.truncate(asked.len() - usize::from(kernel.is_some()));
    let name = asked.first().map_or("bf16", String::as_str);
    let known = Types::ALL.into_iter().find(|types| types.name() == name);
    let types = known.ok_or_else(|| format!("there are no products of {name}"))?;
    let sizes: Vec<usize> =
        asked.iter().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let context = Context::primary(0)?;
    println!("{context:?}");
    println!("types m n k | epilogue | kernel | us | plain us | us/plain us");
    let shapes = match sizes[..] {
        [m, n, k] => vec![[m, n, k]],
        _ => vec![
            [1024; 3],
            [2048; 3],
            [4096; 3],
            [8192; 3],
            [64, 8192, 8192],
            [4096, 14336, 4096],
            [8192, 4096, 1024],
        ],
    };
    for shape in shapes {
        measure(&context, types, shape, kernel)?;
    }
    Ok(())
}

/// What is measured: the epilogue by its name, and beta.
fn epilogues() -> Vec<(&'static str, Epilogue, f64)> {
    let bias = Some(Bias::PerColumn);
    vec![
        ("none", Epilogue::NONE, 0.0),
        ("bias", Epilogue::new(bias, Activation::Identity), 0.0),
        ("bias by row", Epilogue::new(Some(Bias::PerRow), Activation::Identity), 0.0),
        ("relu", Epilogue::new(None, Activation::Relu), 0.0),
        ("bias relu", Epilogue::new(bias, Activation::Relu), 0.0),
        ("bias gelu", Epilogue::new(bias, Activation::Gelu), 0.0),
        ("bias gelu_tanh", Epilogue::new(bias, Activation::GeluTanh), 0.0),
        ("silu", Epilogue::new(None, Activation::Silu), 0.0),
        ("scales", Epilogue::NONE.with_row_scales().with_column_scales(), 0.0),
        ("amax", Epilogue::NONE.with_amax(), 0.0),
        ("c apart", Epilogue::NONE, 1.0),
        ("c in place", Epilogue::NONE, 1.0),
        ("c apart bias relu", Epilogue::new(bias, Activation::Relu), 1.0),
    ]
}

/// Numbers between -1 and 1 of a type, as many as have those bytes.
fn numbers(dtype: DType, bytes: usize) -> Vec<u8> {
    let value = |at: usize| {
        let mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        (mixed % 2001) as f32 / 1000.0 - 1.0
    };
    let count = bytes / dtype.size();
    match dtype {
        DType::F16 => (0..count).flat_map(|at| f16::from_f32(value(at)).to_le_bytes()).collect(),
        DType::BF16 => (0..count).flat_map(|at| bf16::from_f32(value(at)).to_le_bytes()).collect(),
        DType::F64 => (0..count).flat_map(|at| f64::from(value(at)).to_le_bytes()).collect(),
        DType::F32 | DType::I32 | DType::I8 => {
            (0..count).flat_map(|at| value(at).to_le_bytes()).collect()
        }
    }
}

fn memory_of(context: &Context, data: &[u8]) -> Result<DeviceMemory, Failure> {
    let mut memory = DeviceMemory::new(context.driver_context(), data.len())?;
    memory.write(0, data)?;
    Ok(memory)
}

fn measure(
    context: &Context,
    types: Types,
    [m, n, k]: [usize; 3],
    kernel: Option<Kernel>,
) -> Result<(), Failure> {
    let own = cuda_lazy::Stream::new(context.driver_context())?;
    // SAFETY: a stream of the context, which outlives what is queued in it.
    let stream = unsafe { Stream::from_raw(context, own.as_raw()) };
    let [of_factors, of_c] = [types.a(), types.c()];
    let [each, of_result] = [of_factors.size(), of_c.size()];
    let bytes = [m * k * each, k * n * each, m * n * of_result, m * n * of_result];
    let products = (MOST_BYTES / bytes.iter().sum::<usize>()).clamp(2, MOST_PRODUCTS);
    let dtypes = [of_factors, of_factors, of_c, of_c];
    let data: Vec<Vec<u8>> =
        dtypes.into_iter().zip(bytes).map(|(dtype, bytes)| numbers(dtype, bytes)).collect();
    let mut operands = Vec::with_capacity(products);
    for _ in 0..products {
        let memory = data.iter().map(|data| memory_of(context, data));
        operands.push(memory.collect::<Result<Vec<_>, _>>()?);
    }
    let longest = m.max(n);
    let bias = memory_of(context, &numbers(of_c, longest * of_result))?;
    let scale_type = if of_c == DType::F64 { DType::F64 } else { DType::F32 };
    let scales = memory_of(context, &numbers(scale_type, longest * scale_type.size()))?;
    let amax = memory_of(context, &[0; 4])?;
    context.synchronize()?;
    let given = EpilogueOperands {
        bias: bias.address(),
        row_scales: scales.address(),
        column_scales: scales.address(),
        amax: amax.address(),
        ..EpilogueOperands::default()
    };
    let graph_of = |epilogue: Epilogue,
                    beta: f64,
                    kernel: Option<Kernel>,
                    in_place: bool|
     -> Result<_, Failure> {
        let desc = GemmDesc::new(types, m, n, k).with_scalars(1.0, beta).with_epilogue(epilogue);
        let limits = PlanLimits::default();
        let plan = match kernel {
            None => Plan::new(context, desc, limits)?,
            Some(kernel) => Plan::with_kernel(context, desc, limits, kernel)?,
        };
        let bytes = usize::try_from(plan.workspace_bytes())?;
        let memory = DeviceMemory::new(context.driver_context(), bytes.max(1))?;
        let workspace = Workspace { address: memory.address(), bytes: bytes as u64 };
        let chain = || {
            operands.iter().try_for_each(|set| {
                let [a, b, c, d] = [0, 1, 2, 3].map(|at: usize| set[at].address());
                let operands = Operands { a, b, c: if in_place { d } else { c }, d };
                // SAFETY: matrices of the descriptor's sizes and a workspace as long as the plan's, which
                // outlive the waits below; the stream orders the writes.
                unsafe { plan.run_with(stream.as_raw(), &[operands], given, workspace) }
                    .map_err(Failure::from)
            })
        };
        let graph = captured(&stream, chain)?;
        Ok((graph, plan.kernel().spec().id, memory))
    };
    let timed = |graph: &Graph| Ok::<_, Failure>(microseconds(&stream, graph)? / products as f64);
    let plain = graph_of(Epilogue::NONE, 0.0, None, false)?;
    for (name, epilogue, beta) in epilogues() {
        let fused = match graph_of(epilogue, beta, kernel, name == "c in place") {
            Ok(fused) => fused,
            Err(error) => {
                println!("{types} {m} {n} {k} | {name} | {error}");
                continue;
            }
        };
        let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let (time, reference) = (timed(&fused.0)?, timed(&plain.0)?);
            // The first launch of a graph is the driver's to prepare for.
            if round > 0 {
                ours.push(time);
                theirs.push(reference);
                ratios.push(time / reference);
            }
        }
        println!(
            "{types} {m} {n} {k} | {name} | {} | {:.2} | {:.2} | {:.3}",
            fused.1,
            median(ours),
            median(theirs),
            median(ratios)
        );
    }
    Ok(())
}
