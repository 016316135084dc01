//! Operands as a caller has them: an address and a leading dimension.

use tessera::Layout;
use tessera::blas3::{View, ViewMut};

/// A column-major matrix.
pub(crate) struct Stored<T> {
    pub(super) at: *mut T,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) ld: usize,
    /// Whether the routine writes it.
    pub(super) written: bool,
}

impl<T> Clone for Stored<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Stored<T> {}

impl<T> Stored<T> {
    /// One that is read.
    #[inline]
    pub(crate) fn read(at: *const T, (rows, cols): (usize, usize), ld: usize) -> Self {
        Self { at: at.cast_mut(), rows, cols, ld, written: false }
    }

    /// One that is written, and may be read.
    #[inline]
    pub(crate) fn written(at: *mut T, (rows, cols): (usize, usize), ld: usize) -> Self {
        Self { at, rows, cols, ld, written: true }
    }

    /// # Safety
    /// What is read of the matrix can be read, and nobody writes it, for `'a`.
    #[inline]
    pub(crate) unsafe fn view<'a>(self) -> View<'a, T> {
        // SAFETY: the caller's promise.
        unsafe { View::from_raw(self.at, self.rows, self.cols, self.layout()) }
    }

    /// # Safety
    /// What is read or written of the matrix can be, nobody else does either, for `'a`, and the leading dimension is
    /// enough for a column.
    #[inline]
    pub(crate) unsafe fn view_mut<'a>(self) -> ViewMut<'a, T> {
        // SAFETY: the caller's promise.
        unsafe { ViewMut::from_raw(self.at, self.rows, self.cols, self.layout()) }
    }

    #[inline]
    pub(super) fn layout(self) -> Layout {
        Layout::col_major(self.ld)
    }

    /// Its address, as a driver takes it.
    pub(super) fn address(self) -> u64 {
        self.at.addr() as u64
    }
}
