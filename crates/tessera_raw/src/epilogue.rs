//! Epilogues whose numbers are at addresses.

use std::sync::atomic::{AtomicU32, Ordering};

use cpu_gemm::EpilogueSlices;
use tessera::{Error, GemmTypes};

use crate::scalar::Plain;

/// Numbers at an address, some bytes apart. They need no alignment.
#[derive(Clone, Copy, Debug)]
pub struct Numbers {
    /// The first; anything where there is none.
    pub at: *const u8,
    /// How many there are.
    pub count: usize,
    /// Bytes from one to the next.
    pub stride: isize,
}

// SAFETY: an address and two numbers; what is done with it is `unsafe` by itself.
unsafe impl Send for Numbers {}
// SAFETY: as above.
unsafe impl Sync for Numbers {}

impl Numbers {
    /// None.
    pub const NONE: Self = Self { at: std::ptr::null(), count: 0, stride: 0 };

    /// A copy of them.
    ///
    /// # Safety
    /// They are numbers of that type and can be read.
    unsafe fn read<T: Plain>(&self) -> Result<Vec<T>, Error> {
        let mut copy = Vec::new();
        copy.try_reserve_exact(self.count).map_err(|_| Error::OutOfMemory {
            what: format!("a copy of {} numbers of an epilogue", self.count),
            needed: self.count as u128 * size_of::<T>() as u128,
            available: None,
        })?;
        for index in 0..self.count {
            let at = self.at.wrapping_offset(index.cast_signed().wrapping_mul(self.stride));
            // SAFETY: the caller's promise, whatever the alignment; any bytes are a number.
            copy.push(unsafe { at.cast::<T>().read_unaligned() });
        }
        Ok(copy)
    }
}

/// What is done to a product besides scaling, and the numbers for it. What the epilogue does not have may be
/// [`Numbers::NONE`].
#[derive(Clone, Copy, Debug)]
pub struct Epilogue {
    /// What is done.
    pub what: gemm_spec::Epilogue,
    /// Elements of C's type: one for each row or column.
    pub bias: Numbers,
    /// Numbers of the sums' type: one for each row.
    pub row_scales: Numbers,
    /// Numbers of the sums' type: one for each column.
    pub column_scales: Numbers,
}

impl Epilogue {
    /// Nothing.
    pub const NONE: Self = Self {
        what: gemm_spec::Epilogue::NONE,
        bias: Numbers::NONE,
        row_scales: Numbers::NONE,
        column_scales: Numbers::NONE,
    };

    /// Fails where there is something to do: the product is of no types of the library's list.
    pub(crate) fn refused(&self) -> Result<(), Error> {
        if self.what.is_none() {
            return Ok(());
        }
        let reason = "epilogues are for products of f16, bf16, f32 and f64".to_owned();
        Err(Error::Epilogue { reason })
    }

    /// The numbers, copied.
    ///
    /// # Safety
    /// They are of the product's types and can be read.
    pub(crate) unsafe fn owned<T: GemmTypes<C: Plain, Acc: Plain>>(
        &self,
    ) -> Result<Option<Owned<T>>, Error> {
        if self.what.is_none() {
            return Ok(None);
        }
        self.what.check_in_host_memory(T::TYPES).map_err(|reason| Error::Epilogue { reason })?;
        // SAFETY: the caller's promise.
        let bias = unsafe { self.bias.read() }?;
        // SAFETY: the caller's promise.
        let row_scales = unsafe { self.row_scales.read() }?;
        // SAFETY: the caller's promise.
        let column_scales = unsafe { self.column_scales.read() }?;
        Ok(Some(Owned {
            what: self.what,
            bias,
            row_scales,
            column_scales,
            largest: AtomicU32::new(0),
        }))
    }
}

/// An epilogue with numbers of its own.
pub(crate) struct Owned<T: GemmTypes> {
    what: gemm_spec::Epilogue,
    bias: Vec<T::C>,
    row_scales: Vec<T::Acc>,
    column_scales: Vec<T::Acc>,
    /// The bits of the largest magnitude so far: those of numbers without a sign are ordered as the numbers are, and
    /// those of NaN are above all.
    largest: AtomicU32,
}

impl<T: GemmTypes> Owned<T> {
    /// Takes note of the largest magnitude of one product.
    pub(crate) fn found(&self, largest: Option<f32>) {
        if let Some(largest) = largest {
            self.largest.fetch_max(largest.abs().to_bits(), Ordering::Relaxed);
        }
    }

    /// That of all products, where it is asked for.
    pub(crate) fn largest(&self) -> Option<f32> {
        self.what.amax.then(|| f32::from_bits(self.largest.load(Ordering::Relaxed)))
    }

    /// Whether each row or each column has numbers, so that products are not to be merged into one of more rows.
    pub(crate) fn has_numbers(&self) -> bool {
        self.what.bias.is_some() || self.what.scales()
    }

    pub(crate) fn slices(&self) -> EpilogueSlices<'_, T::C, T::Acc> {
        let Self { what, bias, row_scales, column_scales, .. } = self;
        EpilogueSlices { epilogue: *what, bias, row_scales, column_scales }
    }
}
