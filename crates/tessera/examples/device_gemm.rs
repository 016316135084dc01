//! Measures what a product on the device costs the CPU, eagerly and in a graph, and that its bits stay the
//! same.
//!
//! ```sh
//! cargo run --release -p tessera --example device_gemm
//! ```
//!
//! It needs a GPU. Times are medians, in microseconds for one product; `launch` is the time that `Plan::run`
//! takes on the CPU, `eager` and `graph` are what a product takes in a chain of products between events.

#![expect(clippy::print_stdout, reason = "it shows its result")]

use std::error::Error;
use std::time::Instant;

use cuda_lazy::{CaptureMode, Event, Graph, Timing};
use tessera::gpu::{Context, DeviceMatrix, GemmDesc, Plan, PlanLimits, Stream, Workspace};
use tessera::{Accuracy, Matrix, Types};

/// Products in a chain.
const CHAIN: usize = 20;
/// Chains of which the median is shown.
const CHAINS: usize = 51;
/// Launches on the CPU's side of which the median is shown.
const LAUNCHES: usize = 2000;
/// Launches of a graph whose bits are compared.
const REPLAYS: usize = 1000;

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let context = Context::primary(0)?;
    println!("{context:?}");
    println!("product | kernel | workspace | launch us | eager us | graph us | TFLOP/s in a graph");
    for n in [256, 1024, 4096] {
        for accuracy in [Accuracy::Fp32, Accuracy::Componentwise] {
            measure::<f32>(&context, Types::F32, n, accuracy, |value| value as f32 / 64.0)?;
        }
        measure::<f64>(&context, Types::F64, n, Accuracy::Fp32, |value| f64::from(value) / 64.0)?;
        let half = |value: i32| tessera::bf16::from_f32(value as f32 / 64.0);
        // Before Hopper there is no kernel for it.
        match measure::<tessera::bf16>(&context, Types::BF16, n, Accuracy::Fp32, half) {
            Err(error) if error.downcast_ref::<tessera::Error>().is_some_and(no_kernel) => {}
            other => other?,
        }
    }
    Ok(())
}

fn no_kernel(error: &tessera::Error) -> bool {
    matches!(error, tessera::Error::NoKernel { .. })
}

/// One square product: what its launch, its chains and its graph take, and whether a thousand replays give
/// equal bits.
fn measure<E: tessera::Element>(
    context: &Context,
    types: Types,
    n: usize,
    accuracy: Accuracy,
    of: impl Fn(i32) -> E,
) -> Result<(), Failure> {
    let stream = Stream::new(context)?;
    let other = Stream::new(context)?;
    let value = |row: usize, col: usize| {
        i32::try_from((row * 31 + col * 17 + row * col % 7) % 127).map_or(0, |value| value - 63)
    };
    let host = Matrix::from_fn(n, n, |row, col| of(value(row, col)))?;
    let a = DeviceMatrix::from_host(&stream, host.view())?;
    let b = DeviceMatrix::from_host(&stream, host.view().transposed())?;
    let b = b.view().transposed();
    let [mut d, mut elsewhere] =
        [DeviceMatrix::<E>::zeros(&stream, n, n)?, DeviceMatrix::<E>::zeros(&stream, n, n)?];
    stream.synchronize()?;
    let desc = GemmDesc::new(types, n, n, n)
        .with_layouts(a.layout(), b.layout(), d.layout())
        .with_accuracy(accuracy);
    let plan = Plan::new(context, desc, PlanLimits::default())?;
    let [space, other_space] = [0, 1].map(|_| workspace(context, &plan));
    let ((_kept, space), (_other_kept, other_space)) = (space?, other_space?);
    let (to, to_elsewhere) = (d.view_mut().address(), elsewhere.view_mut().address());
    let run = |stream: &Stream, to: u64, space: Workspace| {
        // SAFETY: three matrices of the descriptor's layouts, in memory that outlives the waits below; each
        // stream has a D and a workspace of its own.
        unsafe { plan.run(stream.as_raw(), a.address(), b.address(), 0, to, space) }
    };

    // The first launch is the driver's to prepare for.
    run(&stream, to, space)?;
    run(&other, to_elsewhere, other_space)?;
    context.synchronize()?;
    let right = d.to_host(&stream)?;

    let mut launches = Vec::with_capacity(LAUNCHES);
    for at in 0..LAUNCHES {
        let begun = Instant::now();
        run(&stream, to, space)?;
        launches.push(begun.elapsed().as_secs_f64() * 1e6);
        // A full queue would be waited for.
        if at % 100 == 99 {
            stream.synchronize()?;
        }
    }
    let chain = || (0..CHAIN).try_for_each(|_| run(&stream, to, space).map_err(Failure::from));
    let eager = median_of_chains(&stream, chain)?;
    // SAFETY: the stream is this function's, and the memory outlives the graph's launches.
    let graph = unsafe {
        Graph::capture(context.driver_context(), stream.as_raw(), CaptureMode::Global, chain)?
    };
    let replay = || {
        // SAFETY: as above.
        unsafe { graph.launch(stream.as_raw()) }.map_err(Failure::from)
    };
    let in_graph = median_of_chains(&stream, replay)?;

    for at in 0..REPLAYS {
        replay()?;
        run(&other, to_elsewhere, other_space)?;
        // Each result of the first, then some.
        if at < 10 || at % 100 == 99 {
            let found = d.to_host(&stream)?;
            if found != right {
                return Err(format!("replay {at} of {plan:?} has other bits").into());
            }
        }
    }
    other.synchronize()?;
    if elsewhere.to_host(&other)? != right {
        return Err(format!("{plan:?} has other bits beside a graph").into());
    }
    let rate = 2.0 * (n as f64).powi(3) / in_graph / 1e6;
    println!(
        "{types} {n} {accuracy} | {} | {} | {:.2} | {eager:.2} | {in_graph:.2} | {rate:.1}",
        plan.kernel().spec().id,
        plan.workspace_bytes(),
        median(&mut launches),
    );
    Ok(())
}

/// Memory for a plan's workspace, in a matrix of bytes.
fn workspace(
    context: &Context,
    plan: &Plan,
) -> Result<(DeviceMatrix<i8>, Workspace), tessera::Error> {
    let stream = Stream::new(context)?;
    let bytes = usize::try_from(plan.workspace_bytes()).unwrap_or(usize::MAX);
    let memory = DeviceMatrix::<i8>::zeros(&stream, 1, bytes)?;
    stream.synchronize()?;
    let address = memory.address();
    Ok((memory, Workspace { address, bytes: plan.workspace_bytes() }))
}

/// The median time of a product in a chain, between events, in microseconds.
fn median_of_chains(
    stream: &Stream,
    chain: impl Fn() -> Result<(), Failure>,
) -> Result<f64, Failure> {
    let event = || Event::new(stream.context().driver_context(), Timing::On);
    let (begin, end) = (event()?, event()?);
    let mut times = Vec::with_capacity(CHAINS);
    for _ in 0..CHAINS {
        let _current = stream.context().driver_context().enter()?;
        // SAFETY: the stream is of the context that was entered.
        unsafe { begin.record_raw(stream.as_raw())? };
        chain()?;
        // SAFETY: as above.
        unsafe { end.record_raw(stream.as_raw())? };
        end.synchronize()?;
        times.push(end.since(&begin)?.as_secs_f64() * 1e6 / CHAIN as f64);
    }
    Ok(median(&mut times))
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}
