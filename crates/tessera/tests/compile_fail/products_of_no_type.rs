//! Element types that nobody multiplies together do not compile, and the message names them.

use tessera::{Engine, Matrix, bf16, f16};

fn main() -> Result<(), tessera::Error> {
    let engine = Engine::auto()?;
    let (single, double) = (Matrix::<f32>::zeros(2, 2)?, Matrix::<f64>::zeros(2, 2)?);
    let _ = engine.multiply(&single, &double)?;

    let half = Matrix::<f16>::zeros(2, 2)?;
    let mut c = Matrix::<bf16>::zeros(2, 2)?;
    engine.gemm(1.0, half.view(), half.view(), 0.0, c.view_mut())
}
