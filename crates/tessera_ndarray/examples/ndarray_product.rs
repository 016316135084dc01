//! Products of ndarray's arrays.
//!
//! ```sh
//! cargo run -p tessera-ndarray --example ndarray_product
//! ```

#![expect(clippy::print_stdout, reason = "it shows its result")]

use ndarray::{Array2, array, s};
use tessera::Engine;
use tessera_ndarray::Multiply as _;

fn main() -> Result<(), tessera::Error> {
    let engine = Engine::auto()?;
    let a = Array2::from_shape_fn((300, 200), |(row, col)| (row + col) as f64);
    let product = engine.dot(&a.t(), &a)?;
    assert_eq!(product, a.t().dot(&a));

    // Any part, and any step.
    let mut c = Array2::<f64>::ones((2, 2));
    let every_other = a.slice(s![..4;2, ..2]);
    engine.general_mat_mul(2.0, &every_other, &array![[1.0, 0.0], [0.0, 1.0]], 1.0, &mut c)?;
    println!("{c}");
    assert_eq!(c, array![[1.0, 3.0], [5.0, 7.0]]);
    Ok(())
}
