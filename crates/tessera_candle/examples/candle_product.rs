//! Products of candle's tensors.
//!
//! ```sh
//! cargo run --manifest-path crates/tessera_candle/Cargo.toml --example candle_product
//! ```
//!
//! With `--features cuda` it runs on the first GPU. To compile that takes `nvcc`, and libraries of CUDA to link;
//! `cargo xtask candle --cuda DIR` does without installed ones.

#![expect(clippy::print_stdout, reason = "it shows its result")]

use candle_core::{DType, Device, Result, Tensor, bail};
use tessera_candle::Gemm;

pub(crate) fn main() -> Result<()> {
    let device = Device::cuda_if_available(0)?;
    let gemm = Gemm::new(&device)?;
    let (m, n, k) = (300, 100, 200);
    let a = Tensor::randn(0f32, 1.0, (8, k, m), &device)?;
    let b = Tensor::randn(0f32, 1.0, (8, k, n), &device)?;

    // Eight products A^T B, in place of `a.t()?.matmul(&b)?`; nothing is transposed in memory.
    let product = gemm.matmul(&a.t()?, &b)?;

    // Sums in another order differ by a few roundings of their terms.
    let off = (product - a.t()?.matmul(&b)?)?.abs()?;
    let rounding = 2.0 * k as f64 * f64::from(f32::EPSILON);
    let bound = (a.abs()?.t()?.matmul(&b.abs()?)? * rounding)?;
    let near = off.le(&bound)?.to_dtype(DType::F64)?.mean_all()?.to_scalar::<f64>()?;
    println!("{}% of 8 x {m} x {n} elements are as near as they must be", near * 100.0);
    if near != 1.0 {
        bail!("a product is not candle's");
    }
    Ok(())
}
