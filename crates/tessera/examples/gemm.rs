//! `C = alpha * A * B + beta * C` on plain buffers with padding, by an engine whose choices depend on the
//! problem and the device alone.
//!
//! ```sh
//! cargo run -p tessera --example gemm
//! ```

#![expect(clippy::print_stdout, reason = "it shows its result")]

use tessera::{Accuracy, Engine, Error, Layout, Problem};

fn main() -> Result<(), Error> {
    let engine = Engine::builder().accuracy(Accuracy::Componentwise).deterministic(true).build()?;
    // A is row-major with a leading dimension of 4, B is column-major, C is tightly packed.
    let problem = Problem::<f64>::new(2, 2, 3).with_scalars(2.0, -1.0).with_layouts(
        Layout::row_major(4),
        Layout::col_major(3),
        Layout::row_major(2),
    );
    let a = [1.0, 2.0, 3.0, f64::NAN, 4.0, 5.0, 6.0];
    let b = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0];
    let mut c = [1.0; 4];
    engine.gemm_slices(&problem, &a, &b, &mut c)?;
    assert_eq!(c, [7.0, 3.0, 19.0, 9.0]);
    println!("{c:?} by {:?}", engine.placement(&problem)?);
    Ok(())
}
