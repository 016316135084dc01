//! Products of nalgebra's matrices.
//!
//! ```sh
//! cargo run -p tessera-nalgebra --example nalgebra_product
//! ```

#![expect(clippy::print_stdout, reason = "it shows its result")]

use nalgebra::{DMatrix, Matrix2};
use tessera::Engine;
use tessera_nalgebra::{Gemm as _, Multiply as _};

pub(crate) fn main() -> Result<(), tessera::Error> {
    let engine = Engine::auto()?;
    let a = DMatrix::from_fn(300, 200, |row, col| ((row + 2 * col) % 5) as f64);
    let product = a.transpose().mul_with(&engine, &a)?;
    assert_eq!(product, a.tr_mul(&a));

    // The same into a matrix that is there already, and A is not transposed in memory.
    let mut gram = DMatrix::zeros(200, 200);
    gram.gemm_tr_with(&engine, 1.0, &a, &a, 0.0)?;
    assert_eq!(gram, product);

    // Any part, and any step.
    let mut c = Matrix2::repeat(1.0);
    let every_other = a.view_with_steps((0, 0), (2, 2), (1, 0));
    c.gemm_with(&engine, 2.0, &every_other, &Matrix2::identity(), 1.0)?;
    println!("{c}");
    assert_eq!(c, Matrix2::new(1.0, 5.0, 5.0, 9.0));
    Ok(())
}
