//! Matrices in host memory as bytes. Only those of its lines are touched: what lies between lines may be in use
//! by others, so that there is no slice of all.

use std::marker::PhantomData;
use std::ptr;

use cpu_gemm::{View, ViewMut};

use crate::element::Element;

/// A matrix to read.
#[derive(Clone, Copy)]
pub(super) struct HostBytes<'a> {
    at: *const u8,
    elements: PhantomData<&'a [u8]>,
}

/// A matrix to read and write.
pub(super) struct HostBytesMut<'a> {
    at: *mut u8,
    elements: PhantomData<&'a mut [u8]>,
}

// SAFETY: it gives what a `&[u8]` of the lines gives.
unsafe impl Send for HostBytes<'_> {}
// SAFETY: as above.
unsafe impl Sync for HostBytes<'_> {}
// SAFETY: it gives what a `&mut [u8]` of the lines gives, and through a shared reference writes only what its unsafe
// method is promised that nobody else uses.
unsafe impl Send for HostBytesMut<'_> {}
// SAFETY: as above.
unsafe impl Sync for HostBytesMut<'_> {}

impl<'a> HostBytes<'a> {
    /// Bytes that are all lines.
    pub(super) fn of(data: &'a [u8]) -> Self {
        Self { at: data.as_ptr(), elements: PhantomData }
    }

    pub(super) fn of_view<T: Element>(view: View<'a, T>) -> Self {
        Self { at: view.as_ptr().cast(), elements: PhantomData }
    }

    /// Where the byte at an offset is.
    pub(super) fn at(self, offset: usize) -> *const u8 {
        self.at.wrapping_add(offset)
    }

    /// Fills `to` with bytes from an offset on.
    ///
    /// # Safety
    /// They are of one line of the matrix.
    pub(super) unsafe fn read(self, from: usize, to: &mut [u8]) {
        let source = self.at.wrapping_add(from);
        // SAFETY: by the caller's promise these bytes are elements of a matrix that can be read, and that nobody
        // writes, for 'a; elements have no padding. Nobody else has `to`.
        unsafe { ptr::copy_nonoverlapping(source, to.as_mut_ptr(), to.len()) };
    }
}

impl<'a> HostBytesMut<'a> {
    /// Bytes that are all lines.
    pub(super) fn of(data: &'a mut [u8]) -> Self {
        Self { at: data.as_mut_ptr(), elements: PhantomData }
    }

    pub(super) fn of_view<T: Element>(mut view: ViewMut<'a, T>) -> Self {
        Self { at: view.as_mut_ptr().cast(), elements: PhantomData }
    }

    /// Where the byte at an offset is.
    pub(super) fn at(&mut self, offset: usize) -> *mut u8 {
        self.at.wrapping_add(offset)
    }

    /// The same to read, for as long as it is not written.
    pub(super) fn to_read(&self) -> HostBytes<'_> {
        HostBytes { at: self.at, elements: PhantomData }
    }

    /// Puts bytes where an offset says.
    ///
    /// # Safety
    /// They are of one line of the matrix, and no other thread reads or writes that part of it
    /// meanwhile.
    pub(super) unsafe fn write(&self, to: usize, from: &[u8]) {
        let place = self.at.wrapping_add(to);
        // SAFETY: by the caller's promise these bytes are elements of a matrix that this value alone has for 'a, any
        // bytes of which are an element, and nobody else uses them now; so `from` is elsewhere.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), place, from.len()) };
    }
}
