//! What a process waits for before its first checked product on a GPU, step by step, and then for all other
//! kernels.
//!
//! ```sh
//! CUDA_CACHE_DISABLE=1 cargo run -p tessera --example first_product
//! CUDA_CACHE_DISABLE=1 cargo run -p tessera --example first_product -- f16x3 ptx
//! ```
//!
//! The arguments are a kernel (default `async_copy_128x256`), and `ptx` to have the driver compile it. The
//! variable keeps the driver from what it compiled for an earlier process.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::error::Error;
use std::time::Instant;

use tessera::gpu::{Gpu, KERNELS, Kernel, KernelCode};
use tessera::{CpuContext, Problem};

const N: usize = 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let mut before = started;
    let mut step = |what: &str| {
        let now = Instant::now();
        println!("{:9.1} ms  {what}", (now - before).as_secs_f64() * 1e3);
        before = now;
    };
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "async_copy_128x256".to_owned());
    let kernel = Kernel::named(&name).ok_or_else(|| format!("there is no kernel {name}"))?;
    let code = match arguments.next().as_deref() {
        None => KernelCode::MachineCode,
        Some("ptx") => KernelCode::Ptx,
        Some(other) => return Err(format!("`{other}` is not `ptx`").into()),
    };

    tessera::gpu::driver()?;
    step("the driver starts");
    let gpu = Gpu::open_with(0, code)?;
    step("the GPU is opened: a context and a stream");
    let cpu = CpuContext::new(None)?;
    step("the CPU's threads start");
    gpu.load(kernel)?;
    step(if gpu.compile_time().is_zero() {
        "the kernel is loaded"
    } else {
        "the kernel is compiled"
    });

    let problem = Problem::<f32>::new(N, N, N);
    // Sums of such integers are exact, whatever the order.
    let drawn = |seed: usize| -> Vec<f32> {
        (0..N * N).map(|at| ((at * 37 + at / N * 11 + seed) % 15) as f32 - 7.0).collect()
    };
    let (a, b, mut c) = (drawn(1), drawn(2), vec![f32::NAN; N * N]);
    step("operands are made");
    let path = gpu.host_path(&cpu);
    path.multiply(kernel, &problem, &a, &b, &mut c)?;
    step("the first product, with its memory on the GPU and its pinned memory");
    // C x against A (B x), for x of ones and minus ones.
    let x: Vec<f64> = (0..N).map(|at| if at * 7 % 5 < 2 { 1.0 } else { -1.0 }).collect();
    let times = |matrix: &[f32], x: &[f64]| -> Vec<f64> {
        let row = |row: &[f32]| row.iter().zip(x).map(|(&a, &x)| f64::from(a) * x).sum();
        matrix.chunks(N).map(row).collect()
    };
    let right = times(&c, &x) == times(&a, &times(&b, &x));
    step("the check");
    println!("{:9.1} ms  in all", started.elapsed().as_secs_f64() * 1e3);
    path.multiply(kernel, &problem, &a, &b, &mut c)?;
    step("a second product");
    gpu.load_all(KERNELS)?;
    step("all other kernels are loaded");
    if !right {
        return Err("the product is wrong".into());
    }
    Ok(())
}
