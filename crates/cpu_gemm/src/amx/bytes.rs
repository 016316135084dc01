//! Products of bytes with and without a sign: they are packed alike, and the instruction says which have one.

use super::driver::{self, TileKernels, TileTypes, Unit};
use super::micro_kernel::{
    MicroKernel, model_i8, model_i8_u8, model_u8, model_u8_i8, multiply_i8, multiply_i8_u8,
    multiply_u8, multiply_u8_i8,
};
use crate::byte_tiles::Unsigned;
use crate::context::CpuContext;
use crate::error::Error;
use crate::product::Product;

/// Computes a product, k at least 1, whose bytes are as `unsigned` says.
///
/// # Errors
/// [`Error::OutOfMemory`], before anything was written.
///
/// # Safety
/// The product's promises, see [`Product`].
pub(crate) unsafe fn multiply_bytes(
    product: &Product<i8>,
    unsigned: Unsigned,
    unit: Unit,
    context: &CpuContext,
    threads: usize,
) -> Result<(), Error> {
    let micro_kernel = micro_kernel(unit, unsigned);
    let kernels = TileKernels {
        passes: micro_kernel,
        passes_swapped: micro_kernel,
        ..*<i8 as TileTypes>::kernels(unit)
    };
    // Bytes are of no range that is too wide.
    let otherwise = |_: &Product<i8>| ();
    // SAFETY: the caller's promises.
    unsafe { driver::multiply_by(product, (unit, kernels), context, threads, otherwise) }
}

fn micro_kernel(unit: Unit, Unsigned { a, b }: Unsigned) -> &'static [MicroKernel; 1] {
    match unit {
        Unit::Tiles(_) => match (a, b) {
            (false, false) => const { &[multiply_i8] },
            (false, true) => const { &[multiply_i8_u8] },
            (true, false) => const { &[multiply_u8_i8] },
            (true, true) => const { &[multiply_u8] },
        },
        Unit::Model => match (a, b) {
            (false, false) => const { &[model_i8] },
            (false, true) => const { &[model_i8_u8] },
            (true, false) => const { &[model_u8_i8] },
            (true, true) => const { &[model_u8] },
        },
    }
}
