//! Whether a product is computed by tiles or by vector units.

#[cfg(target_arch = "x86_64")]
use crate::amx::{Amx, Unit, environment_is_usual};
use crate::context::CpuContext;
use crate::error::Error;
use crate::near::NearShape;
use crate::product::Product;
use crate::types::PackedTypes;
use crate::units::CpuUnits;

/// How a product is computed.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// By those of the units that suit it.
    Units(CpuUnits),
    /// By tiles on all threads, or by their model; of f32 as the context's units say.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "there are none"))]
    Tiles { model: bool },
}

/// Whether these units include matrix units that multiply the types faster, and this process may use some: the system is
/// asked for them where they are.
pub(crate) fn pays<T: PackedTypes>(
    units: CpuUnits,
    size: (usize, usize, usize),
    threads: usize,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let may = match units {
            CpuUnits::Vector => false,
            CpuUnits::SameBits => T::TILES_KEEP_BITS,
            CpuUnits::All | CpuUnits::Tf32 | CpuUnits::Bf16 | CpuUnits::ExactRounded => {
                T::HAS_TILES
            }
        };
        may && T::tiles_pay(units, size, threads) && Amx::request().is_ok()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (units, size, threads);
        false
    }
}

/// What a product has in common with others whose operands lie alike, where this way computes it by tiles of operands
/// that are near: whichever of the units that suit it are no matrix units, and one thread is all that it is worth.
pub(crate) fn near_shape<T: PackedTypes>(
    product: &Product<T>,
    way: Way,
    context: &CpuContext,
) -> Option<NearShape<T::Acc>> {
    let size = (product.m, product.n, product.k);
    match way {
        Way::Units(units) if !pays::<T>(units, size, 1) => T::near_shape(product, context),
        Way::Units(_) | Way::Tiles { .. } => None,
    }
}

/// Computes a product, k at least 1.
///
/// # Errors
/// [`Error::OutOfMemory`].
///
/// # Safety
/// The product's promises, see [`Product`].
pub(crate) unsafe fn multiply<T: PackedTypes>(
    product: &Product<T>,
    way: Way,
    context: &CpuContext,
    threads: usize,
) -> Result<(), Error> {
    #[cfg(target_arch = "x86_64")]
    {
        let size = (product.m, product.n, product.k);
        let tiles = match way {
            Way::Units(units) if pays::<T>(units, size, threads) && environment_is_usual() => {
                let amx = Amx::request().ok();
                let threads = T::tile_threads(units, size, threads);
                amx.map(|amx| (Unit::Tiles(amx), units, threads))
            }
            Way::Units(_) => None,
            Way::Tiles { model } => {
                let amx = Amx::request().ok().filter(|_| !model);
                Some((amx.map_or(Unit::Model, Unit::Tiles), context.units(), context.threads()))
            }
        };
        if let Some((unit, units, threads)) = tiles {
            // SAFETY: the caller's promises.
            return unsafe { T::multiply_in_tiles(product, (unit, units), context, threads) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = way;
    // SAFETY: the caller's promises.
    unsafe { T::multiply(product, context, threads) }
}
