//! Which units of the CPU compute a product.

use std::fmt;
use std::str::FromStr;

use gemm_spec::Problem;

#[cfg(target_arch = "x86_64")]
use crate::amx::{self, Amx, Unit};
use crate::context::CpuContext;
use crate::error::Error;
use crate::isa::PackedTypes;
use crate::product::Product;
use crate::threads_for;
use crate::types::CpuTypes;

/// Which units a context's products may use.
///
/// Matrix units are the tile registers of AMX. They multiply i8 exactly. Sums of floats they add in another
/// order than `serial`, with fewer roundings: bf16 as it is, f16 and f32 as pieces of bf16. Each setting
/// gives the same bits for any number of threads and on every repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CpuUnits {
    /// Vector units alone.
    Vector,
    /// Matrix units as well, where they give the bits of vector units: the bits are those of `serial` on every
    /// machine.
    #[default]
    SameBits,
    /// Matrix units wherever they are faster and within the error bound of vector units. Which bits a sum of
    /// floats has then depends on whether the machine has them.
    All,
}

impl CpuUnits {
    /// Each setting.
    pub const EACH: [Self; 3] = [Self::Vector, Self::SameBits, Self::All];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vector => "vector",
            Self::SameBits => "same-bits",
            Self::All => "all",
        }
    }
}

impl fmt::Display for CpuUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CpuUnits {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::EACH.into_iter().find(|one| one.name() == name).ok_or_else(|| {
            let names = Self::EACH.map(Self::name).join(", ");
            format!("`{name}` is none of {names}")
        })
    }
}

/// Why this process has no matrix units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoUnits {
    #[cfg(target_arch = "x86_64")]
    reason: amx::NoAmx,
}

impl fmt::Display for NoUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(target_arch = "x86_64")]
        return self.reason.fmt(f);
        #[cfg(not(target_arch = "x86_64"))]
        f.write_str("the engine knows no matrix units of this architecture")
    }
}

impl std::error::Error for NoUnits {}

/// The name of the matrix units that this process may use. The first call asks the system for them.
///
/// # Errors
/// [`NoUnits`], with the reason.
pub fn matrix_units() -> Result<&'static str, NoUnits> {
    #[cfg(target_arch = "x86_64")]
    return Amx::request().map(|_| "AMX").map_err(|reason| NoUnits { reason });
    #[cfg(not(target_arch = "x86_64"))]
    Err(NoUnits {})
}

/// `C = alpha * A * B + beta * C` by tiles, whatever the product's size and the context's units: in the tile
/// registers, or bit for bit by the model of their instructions where there are none or `model` is asked for,
/// which is slow. Types that tiles do not multiply are computed as by [`gemm`](crate::gemm).
///
/// # Errors
/// As [`gemm`](crate::gemm).
pub fn gemm_in_tiles<T: CpuTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    context: &CpuContext,
    model: bool,
) -> Result<(), Error> {
    let way = if has_tiles::<T>() { Way::Tiles { model } } else { Way::Units(context.units()) };
    crate::compute(way, problem, a, b, c, context)
}

/// Whether matrix units multiply the types of a product, on machines that have some.
#[must_use]
pub fn has_tiles<T: CpuTypes>() -> bool {
    #[cfg(target_arch = "x86_64")]
    return T::HAS_TILES;
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// How a product is computed.
#[derive(Clone, Copy)]
pub(crate) enum Way {
    /// By those of the units that suit it.
    Units(CpuUnits),
    /// By tiles on all threads, or by their model.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "there are none"))]
    Tiles { model: bool },
}

/// Whether [`gemm`](crate::gemm) computes a problem in matrix units, if its elements are of no extreme range, and
/// if these units are allowed.
pub fn uses_matrix_units<T: CpuTypes>(
    units: CpuUnits,
    problem: &Problem<T>,
    context: &CpuContext,
) -> bool {
    let size = (problem.m, problem.n, problem.effective_k());
    pays::<T>(units, size, threads_for(size, context)) && matrix_units().is_ok()
}

/// The loop by which the peak of matrix units is measured for products of some types; `None` where there are no
/// units, or they do not multiply these types.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn tile_loop<T: CpuTypes>() -> Option<amx::TileLoop> {
    T::tile_loop()
}

/// Whether these units include matrix units that multiply the types faster.
fn pays<T: PackedTypes>(units: CpuUnits, size: (usize, usize, usize), threads: usize) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let may = match units {
            CpuUnits::Vector => false,
            CpuUnits::SameBits => T::TILES_KEEP_BITS,
            CpuUnits::All => T::HAS_TILES,
        };
        may && T::tiles_pay(size, threads)
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (units, size, threads);
        false
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
            Way::Units(units) if pays::<T>(units, size, threads) => {
                let amx = Amx::request().ok();
                amx.map(|amx| (Unit::Tiles(amx), T::tile_threads(size, threads)))
            }
            Way::Units(_) => None,
            Way::Tiles { model } => {
                let amx = Amx::request().ok().filter(|_| !model);
                Some((amx.map_or(Unit::Model, Unit::Tiles), context.threads()))
            }
        };
        if let Some((unit, threads)) = tiles {
            // SAFETY: the caller's promises.
            return unsafe { T::multiply_in_tiles(product, unit, context, threads) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = way;
    // SAFETY: the caller's promises.
    unsafe { T::multiply(product, context, threads) }
}
