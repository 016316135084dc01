//! Matrices on a GPU, multiplied without a copy between the products.
//!
//! ```sh
//! cargo run -p tessera --example device_matrix
//! ```

use tessera::Matrix;
use tessera::gpu::{Context, DeviceMatrix, Stream};

pub(crate) fn main() -> Result<(), tessera::Error> {
    let context = Context::primary(0)?;
    let stream = Stream::new(&context)?;
    let host = Matrix::from_fn(300, 200, |row, col| ((row + 2 * col) % 5) as f32)?;
    let a = DeviceMatrix::from_host(&stream, host.view())?;

    // Queued, one behind the other: G = A^T A, then the upper left quarter of H = G G.
    let mut g = DeviceMatrix::zeros(&stream, 200, 200)?;
    stream.gemm(1.0, a.view().transposed(), a.view(), 0.0, &mut g.view_mut())?;
    let (top, left) = (g.view().part(0..100, 0..200)?, g.view().part(0..200, 0..100)?);
    let mut h = DeviceMatrix::zeros(&stream, 100, 100)?;
    stream.gemm(1.0, top, left, 0.0, &mut h.view_mut())?;

    // The first and only wait.
    let h = h.to_host(&stream)?;
    let g = |row: usize, col: usize| -> f32 {
        (0..300).map(|k| (((k + 2 * row) % 5) * ((k + 2 * col) % 5)) as f32).sum()
    };
    let expected: f32 = (0..200).map(|k| g(3, k) * g(k, 7)).sum();
    assert!((h.get(3, 7).unwrap_or(f32::NAN) - expected).abs() <= 1e-5 * expected);
    Ok(())
}
