//! A product is queued behind what makes its factors: it waits for nothing, and no factor is copied.
//!
//! ```sh
//! cargo run --manifest-path crates/tessera_candle/Cargo.toml --features cuda --example candle_stream
//! ```
//!
//! It needs a GPU with 2 GiB to spare.

#![expect(clippy::print_stdout, reason = "it shows its result")]

use std::time::Instant;

use candle_core::{DType, Device, Error, Result, Tensor, bail};
use tessera_candle::Gemm;

/// Rows and columns of a matrix that takes 256 MiB.
const SIZE: usize = 8192;

fn main() -> Result<()> {
    let device = Device::new_cuda(0)?;
    let gemm = Gemm::new(&device)?;
    let thin = Tensor::ones((SIZE - 64, 64), DType::F32, &device)?;
    // A part of a matrix, transposed.
    let multiply = |of: &Tensor| {
        let part = of.narrow(0, 0, SIZE - 64)?.narrow(1, 64, SIZE - 64)?;
        gemm.matmul(&part.t()?, &thin)
    };
    // The square of a matrix of 1 / SIZE is that matrix.
    let mut squares = vec![Tensor::full(1.0 / SIZE as f32, (SIZE, SIZE), &device)?];
    // The first product of a kind loads its kernel, and gets a workspace where it needs one.
    drop((multiply(&squares[0])?, squares[0].matmul(&squares[0])?));
    device.synchronize()?;

    // The slow producer: each matrix is the square of the one before. All are kept, so that none of their memory is
    // free to be used again.
    for at in 0..4 {
        squares.push(squares[at].matmul(&squares[at])?);
    }
    let before = free_mib(&device)?;
    let start = Instant::now();
    let product = multiply(&squares[4])?;
    let queued = start.elapsed();
    let taken = before.saturating_sub(free_mib(&device)?);
    device.synchronize()?;
    let done = start.elapsed();

    println!("queued in {queued:.1?}, done after {done:.1?}");
    println!("{taken} MiB taken, beside a factor of 252 MiB");
    let expected = (SIZE - 64) as f32 / SIZE as f32;
    let extreme = |of: Result<Tensor>| of?.to_scalar::<f32>();
    let (least, most) = (extreme(product.min_all())?, extreme(product.max_all())?);
    println!("elements from {least} to {most}; {expected} is right");
    if queued * 2 > done {
        bail!("the product waited for its factors");
    }
    if taken > 126 {
        bail!("a factor was copied");
    }
    if (least, most) != (expected, expected) {
        bail!("the product came before its factors");
    }
    Ok(())
}

/// Memory of the GPU that is free.
fn free_mib(device: &Device) -> Result<usize> {
    let stream = device.as_cuda_device()?.cuda_stream();
    let (free, _) = stream.context().mem_get_info().map_err(Error::wrap)?;
    Ok(free >> 20)
}
