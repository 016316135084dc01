//! Products of cudarc's slices, in two of its streams.
//!
//! ```sh
//! cargo run -p tessera-cudarc --example cudarc_product
//! ```
//!
//! It needs a GPU.

#![expect(clippy::print_stdout, reason = "it shows its result")]

use std::error::Error;

use cudarc::driver::CudaContext;
use tessera::{Batch, Layout, Problem};
use tessera_cudarc::Gemm;

fn main() -> Result<(), Box<dyn Error>> {
    let context = CudaContext::new(0)?;
    let (first, second) = (context.new_stream()?, context.new_stream()?);
    let (m, n, k) = (300, 200, 100);
    let a: Vec<f32> = (0..m * k).map(|at| (at % 7) as f32).collect();
    let b: Vec<f32> = (0..2 * k * n).map(|at| (at % 5) as f32).collect();
    let (on_a, on_b) = (first.clone_htod(&a)?, first.clone_htod(&b)?);
    let mut c = first.alloc_zeros::<f32>(2 * m * n)?;
    let mut d = first.alloc_zeros::<f32>(m * m)?;

    // Two products with one A, in cudarc's first stream.
    let batch = Batch { count: 2, a_stride: 0, b_stride: k * n, c_stride: m * n };
    let problem = Problem::<f32>::new(m, n, k).with_batch(batch);
    let gemm = Gemm::new(&first)?;
    gemm.multiply(&problem, &on_a.as_view(), &on_b.as_view(), &mut c.as_view_mut())?;

    // D = C C^T of the second of them, in the other stream, which waits for the first by cudarc's events.
    let square = Problem::<f32>::new(m, m, n).with_layouts(
        Layout::row_major(n),
        Layout::col_major(n),
        Layout::row_major(m),
    );
    let part = c.slice(m * n..);
    Gemm::new(&second)?.multiply(&square, &part, &part, &mut d.as_view_mut())?;

    let (c, d) = (second.clone_dtoh(&c)?, second.clone_dtoh(&d)?);
    let dot = |row: usize, col: usize| -> f32 {
        (0..k).map(|at| a[row * k + at] * b[k * n + at * n + col]).sum()
    };
    assert_eq!(c[m * n + 7 * n + 9], dot(7, 9), "sums of small whole numbers are exact");
    let expected: f64 = (0..n).map(|at| f64::from(dot(2, at)) * f64::from(dot(11, at))).sum();
    let found = f64::from(d[2 * m + 11]);
    assert!((found - expected).abs() <= 1e-5 * expected, "{found} is not {expected}");
    println!("two products of {m} x {n} x {k} and one of {m} x {m} x {n}, in two streams");
    Ok(())
}
