//! Whether a product is computed by tiles or by vector units.

#[cfg(target_arch = "x86_64")]
use crate::amx::{Amx, Unit, environment_is_usual};
use crate::context::CpuContext;
use crate::error::Error;
#[cfg(target_arch = "x86_64")]
use crate::gemm::threads_of_whole;
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

/// Whether tiles compute a product of these types: these units include them, they are faster, and this process may use
/// some. The system is asked for them where they are.
#[inline]
pub(crate) fn in_tiles<T: PackedTypes>(
    units: CpuUnits,
    size: (usize, usize, usize),
    context: &CpuContext,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    return unit::<T>(units, size, context).is_some();
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (units, size, context);
        false
    }
}

/// The unit by which tiles compute such a product, if they do.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn unit<T: PackedTypes>(
    units: CpuUnits,
    size: (usize, usize, usize),
    context: &CpuContext,
) -> Option<Unit> {
    if !suits::<T>(units, size, context) {
        return None;
    }
    match Amx::request() {
        Ok(amx) => Some(Unit::Tiles(amx)),
        Err(_) if units == CpuUnits::Tiles => Some(Unit::Model),
        Err(_) => None,
    }
}

/// Whether tiles are to compute such a product where there are some.
#[cfg(target_arch = "x86_64")]
#[inline]
fn suits<T: PackedTypes>(
    units: CpuUnits,
    size: (usize, usize, usize),
    context: &CpuContext,
) -> bool {
    let pays = || T::tiles_pay(units, size, threads_of_whole(size, context));
    match units {
        CpuUnits::Vector => false,
        CpuUnits::SameBits => T::TILES_KEEP_BITS && pays(),
        CpuUnits::All | CpuUnits::Tf32 | CpuUnits::Bf16 | CpuUnits::ExactRounded => {
            T::HAS_TILES && pays()
        }
        CpuUnits::Tiles => T::HAS_TILES,
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
        Way::Units(units) if !in_tiles::<T>(units, size, context) => {
            T::near_shape(product, context)
        }
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
            Way::Units(units) => unit::<T>(units, size, context)
                .filter(|_| environment_is_usual())
                .map(|unit| (unit, units, T::tile_threads(units, size, threads))),
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

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    /// Whether tiles suit a product does not depend on how many threads others leave to it, but on how many there are.
    #[test]
    fn a_share_of_the_threads_decides_as_all_of_them() {
        let threads = |threads| NonZeroUsize::new(threads).expect("not zero");
        let whole = CpuContext::new(Some(threads(16))).expect("threads start");
        let mut others = 0;
        for size in [512, 1024, 1536, 2048, 3072, 4096].map(|side| (side, side, side)) {
            let of = |context: &CpuContext| suits::<f32>(CpuUnits::All, size, context);
            for share in [1, 2, 5, 16] {
                assert_eq!(of(&whole.share(threads(share))), of(&whole), "{size:?}, {share}");
                others += usize::from(of(&whole.limited_to(threads(share))) != of(&whole));
            }
        }
        assert!(others > 0);
    }
}
