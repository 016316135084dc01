//! What would be done for a product.

use gemm_spec::Layout;
use tessera::Placement;
use tessera::blas3::Complex;

use crate::batch::Batch;
use crate::factors::Factors;
use crate::failure::Failure;
use crate::multiply::{Operands, check, in_place, with_product};
use crate::place::Place;
use crate::product::{OfField, OfIntegers, Product, Typed};
use crate::scalar::Scalar;

/// How a product would be computed now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// `cpu`, or `cuda:` and the GPU's number.
    pub device: String,
    /// The units of the CPU, or the kernel.
    pub by: String,
    /// The largest number of the CPU's threads.
    pub threads: usize,
    /// How many products there are once those are merged that share a factor.
    pub products: usize,
    /// Rows, columns and steps of each.
    pub sizes: [usize; 3],
    /// Whether A, B and C are copied because the library does not take them in place.
    pub copied: [bool; 3],
}

/// Says how [`multiply`](crate::multiply()) would compute a product.
///
/// # Errors
/// As there.
pub fn explain(
    place: &Place<'_>,
    factors: &Factors,
    operands: &Operands,
    batch: &Batch,
) -> Result<Explanation, Failure> {
    check(operands, batch)?;
    with_product!(operands.scalars, factors, product => Ok(of(&product, place, operands, batch)?))
}

fn of<P: Product>(
    product: &P,
    place: &Place<'_>,
    operands: &Operands,
    batch: &Batch,
) -> Result<Explanation, tessera::Error> {
    let (batch, [a, b, c]) = batch.folded([operands.a, operands.b, operands.c]);
    let sizes = [c.rows, c.cols, a.cols];
    let lies = [
        in_place::<P::A>(&a, &batch.a),
        in_place::<P::B>(&b, &batch.b),
        in_place::<P::C>(&c, &batch.c),
    ];
    let [of_a, of_b, of_c] = lies;
    let layouts = [(of_a, a.cols), (of_b, b.cols), (of_c, c.cols)]
        .map(|(layout, cols)| layout.unwrap_or(Layout::row_major(cols)));
    let context = place.context();
    let (device, by) = if let Placement::Gpu(kernel) = product.placement(place, sizes, layouts)? {
        let index = place.engine.gpu().map_or(0, |gpu| gpu.info().index);
        (format!("cuda:{index}"), kernel.id.to_owned())
    } else if product.uses_matrix_units(place, sizes) {
        ("cpu".to_owned(), "matrix units".to_owned())
    } else {
        ("cpu".to_owned(), format!("vector units, {}", context.isa()))
    };
    let is_read = product.reads_factors() && a.cols > 0;
    let copied = [is_read && of_a.is_none(), is_read && of_b.is_none(), of_c.is_none()];
    Ok(Explanation {
        device,
        by,
        threads: context.threads(),
        products: batch.count().unwrap_or(0),
        sizes,
        copied,
    })
}
