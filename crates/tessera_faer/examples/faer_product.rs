//! Products of faer's matrices.
//!
//! ```sh
//! cargo run -p tessera-faer --example faer_product
//! ```

#![expect(clippy::print_stdout, reason = "it shows its result")]

use faer::{Accum, Mat, Par};
use tessera::Engine;
use tessera_faer::Multiply as _;

pub(crate) fn main() -> Result<(), tessera::Error> {
    let engine = Engine::auto()?;
    let a = Mat::from_fn(300, 200, |row, col| ((row + 2 * col) % 5) as f64);
    let product = engine.product(a.transpose(), &a)?;
    assert_eq!(product, a.transpose() * &a);

    // Any view, with the arguments of faer's `matmul`.
    let mut c = Mat::<f64>::identity(2, 2);
    let part = a.submatrix(0, 1, 2, 2).reverse_rows();
    engine.matmul(&mut c, Accum::Add, part, Mat::<f64>::identity(2, 2), 2.0, Par::Seq)?;
    println!("{c:?}");
    assert_eq!(c, faer::mat![[7.0, 0.0], [4.0, 9.0]]);
    Ok(())
}
