//! Matrix units that multiply bytes with and without a sign as they are.

#[cfg(target_arch = "x86_64")]
use crate::amx::{self, Unit, environment_is_usual};
use crate::context::CpuContext;
use crate::error::Error;
use crate::product::Product;
#[cfg(target_arch = "x86_64")]
use crate::{types::PackedTypes, way};

/// Which factors of a product are bytes without a sign.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsigned {
    pub(crate) a: bool,
    pub(crate) b: bool,
}

/// The units, and how many threads use them.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteTiles {
    unit: Unit,
    threads: usize,
}

#[cfg(target_arch = "x86_64")]
impl ByteTiles {
    /// Where a product of that size is faster by them.
    pub(crate) fn of(
        size: (usize, usize, usize),
        context: &CpuContext,
        threads: usize,
    ) -> Option<Self> {
        let units = context.units();
        let unit = way::unit::<i8>(units, size, context).filter(|_| environment_is_usual())?;
        Some(Self { unit, threads: i8::tile_threads(units, size, threads) })
    }

    /// Their model on two threads.
    #[cfg(test)]
    pub(crate) fn model() -> Option<Self> {
        Some(Self { unit: Unit::Model, threads: 2 })
    }

    /// Computes a product, k at least 1.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], before anything was written.
    ///
    /// # Safety
    /// The product's promises, see [`Product`].
    pub(crate) unsafe fn multiply(
        self,
        product: &Product<i8>,
        unsigned: Unsigned,
        context: &CpuContext,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promises.
        unsafe { amx::multiply_bytes(product, unsigned, self.unit, context, self.threads) }
    }
}

/// Here there are none.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy, Debug)]
pub(crate) enum ByteTiles {}

#[cfg(not(target_arch = "x86_64"))]
impl ByteTiles {
    pub(crate) fn of(_: (usize, usize, usize), _: &CpuContext, _: usize) -> Option<Self> {
        None
    }

    #[cfg(test)]
    pub(crate) fn model() -> Option<Self> {
        None
    }

    /// # Errors
    /// None: there is nothing to call it with.
    ///
    /// # Safety
    /// As above.
    pub(crate) unsafe fn multiply(
        self,
        _: &Product<i8>,
        _: Unsigned,
        _: &CpuContext,
    ) -> Result<(), Error> {
        match self {}
    }
}
