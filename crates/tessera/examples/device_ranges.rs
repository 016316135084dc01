//! Measures products of f32 whose elements are further apart than two limbs hold, or than three do, and the errors of
//! what is computed in their place, beside cuBLAS.
//!
//! ```sh
//! cargo run --release -p tessera --example device_ranges -- [N,...]
//! ```
//!
//! It needs a GPU of compute capability 9.0. Times are microseconds for a square product, medians of rounds in which all
//! take turns, of a graph of several. Errors are those of a sample of the elements of C, the largest over what the
//! magnitudes of its terms sum up to, in units of 2^-24.

#![expect(clippy::print_stdout, reason = "it shows its result")]

mod cublas;
mod in_graph;

use std::env;

use tessera::gpu::{Context, DeviceMatrix, GemmDesc, Kernel, Plan, PlanLimits, Stream, Workspace};
use tessera::{Matrix, Types};

use in_graph::{Failure, captured, median, microseconds};

/// Products of a graph, and its launches.
const PRODUCTS: usize = 5;
const ROUNDS: usize = 9;
/// Elements of C whose errors are computed.
const SAMPLES: usize = 2000;

/// By what a k element of A is multiplied, and one of B.
type Factor = fn(usize) -> f32;

/// A way to queue a product.
type Way<'a> = Box<dyn Fn() -> Result<(), Failure> + 'a>;

/// The data: their name, and the factors.
const DATA: [(&str, Factor, Factor); 6] = [
    ("plain", |_| 1.0, |_| 1.0),
    ("units, 2^-20 to 2^20", |at| 2f32.powi(exponent(at)), |at| 2f32.powi(-exponent(at))),
    ("one of four 2^30, others 2^-30", |at| 2f32.powi(if at % 4 == 0 { 30 } else { -30 }), |_| 1.0),
    ("all of A below 2^-110", |_| 2f32.powi(-110), |_| 1.0),
    ("one of four 2^60, others 2^-60", |at| 2f32.powi(if at % 4 == 0 { 60 } else { -60 }), |_| 1.0),
    ("a NaN in each row of A", |at| if at == 17 { f32::NAN } else { 1.0 }, |_| 1.0),
];

fn exponent(at: usize) -> i32 {
    i32::try_from(at % 41).unwrap_or_default() - 20
}

fn main() -> Result<(), Failure> {
    let asked = env::args().nth(1).unwrap_or_else(|| "1024,2048,4096,8192".to_owned());
    let context = Context::primary(0)?;
    println!("{context:?}");
    println!("n | data | by | us | TFLOP/s | worst error, units");
    for n in asked.split(',') {
        let n = n.parse()?;
        for data in DATA {
            measure(&context, n, data)?;
        }
    }
    Ok(())
}

/// A number in [-1, 1), of SplitMix64.
fn drawn(at: usize, seed: u64) -> f32 {
    let number = (at as u64).wrapping_add(seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((number ^ number >> 31) >> 40) as f32 / 8_388_608.0 - 1.0
}

/// The largest error of a sample, in units of 2^-24 of the magnitudes of the terms; NaN where all of C is.
fn worst(n: usize, a: &Matrix<f32>, b: &Matrix<f32>, c: &Matrix<f32>) -> f64 {
    let mut worst = f64::NAN;
    for sample in 0..SAMPLES {
        let (row, col) = (sample * 7919 % n, sample * 104_729 % n);
        let (mut exact, mut size) = (0.0, 0.0);
        for (&x, step) in a.as_slice()[row * n..][..n].iter().zip(0..) {
            let term = f64::from(x) * f64::from(b.as_slice()[step * n + col]);
            (exact, size) = (exact + term, size + term.abs());
        }
        let error = (f64::from(c.as_slice()[row * n + col]) - exact).abs() / size;
        worst = worst.max(error * f64::from(1 << 24));
    }
    worst
}

fn measure(
    context: &Context,
    n: usize,
    (data, of_a, of_b): (&str, Factor, Factor),
) -> Result<(), Failure> {
    let own = cuda_lazy::Stream::new(context.driver_context())?;
    // SAFETY: a stream of the context, which outlives what is queued in it.
    let stream = unsafe { Stream::from_raw(context, own.as_raw()) };
    let host_a = Matrix::from_fn(n, n, |row, at| drawn(row * n + at, 1) * of_a(at))?;
    let host_b = Matrix::from_fn(n, n, |at, col| drawn(at * n + col, 2) * of_b(at))?;
    let a = DeviceMatrix::from_host(&stream, host_a.view())?;
    let b = DeviceMatrix::from_host(&stream, host_b.view())?;
    let c = DeviceMatrix::<f32>::zeros(&stream, n, n)?;
    let addresses = [a.address(), b.address(), c.address()];

    let mut ways: Vec<(&str, Way<'_>)> = Vec::new();
    for id in ["f16x3", "bf16x6", "vector_loads"] {
        let kernel = Kernel::named(id).ok_or("a kernel of the registry")?;
        let desc = GemmDesc::new(Types::F32, n, n, n);
        let plan = Plan::with_kernel(context, desc, PlanLimits::default(), kernel)?;
        let bytes = plan.workspace_bytes();
        let memory = DeviceMatrix::<i8>::zeros(&stream, 1, usize::try_from(bytes)?.max(1))?;
        let stream = &stream;
        let run = move || {
            let workspace = Workspace { address: memory.address(), bytes };
            let [a, b, d] = addresses;
            // SAFETY: matrices of the descriptor's sizes and a workspace as long as the plan's, which outlive the
            // waits below; the stream orders the products.
            unsafe { plan.run(stream.as_raw(), a, b, 0, d, workspace) }.map_err(Failure::from)
        };
        ways.push((id, Box::new(run)));
    }
    if let Some(handle) = cublas::Handle::new(&own) {
        // CUDA_R_32F, CUBLAS_COMPUTE_32F.
        let run = move || handle.run([0, 68], n, 1, addresses).map_err(Failure::from);
        ways.push(("cuBLAS", Box::new(run)));
    }
    let mut errors = Vec::new();
    for (_, run) in &ways {
        run()?;
        errors.push(worst(n, &host_a, &host_b, &c.to_host(&stream)?));
    }
    let several = |run: &dyn Fn() -> Result<(), Failure>| (0..PRODUCTS).try_for_each(|_| run());
    let graphs: Vec<_> =
        ways.iter().map(|(_, run)| captured(&stream, || several(run))).collect::<Result<_, _>>()?;
    let mut times = vec![Vec::new(); ways.len()];
    for round in 0..=ROUNDS {
        for (graph, times) in graphs.iter().zip(&mut times) {
            let time = microseconds(&stream, graph)? / PRODUCTS as f64;
            // The first launch of a graph is the driver's to prepare for.
            if round > 0 {
                times.push(time);
            }
        }
    }
    for ((name, _), (times, error)) in ways.iter().zip(times.into_iter().zip(errors)) {
        let time = median(times);
        let rate = 2.0 * (n as f64).powi(3) / time / 1e6;
        println!("{n} | {data} | {name} | {time:.1} | {rate:.1} | {error:.2}");
    }
    Ok(())
}
