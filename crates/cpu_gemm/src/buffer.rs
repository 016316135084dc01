//! Memory for packed panels, kept from one product to the next.

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use crate::error::Error;

/// Panels begin at a page, so that none shares a cache line with another thread's.
const PAGE: usize = 4096;
/// A large page, for buffers that fill one: fewer entries of the table of pages for the same panels.
const LARGE_PAGE: usize = 2 << 20;

/// Uninitialised memory.
pub(crate) struct Buffer {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: a buffer owns its memory, as a box does, and offers no access without a raw pointer.
unsafe impl Send for Buffer {}

impl Buffer {
    pub(crate) fn new(bytes: usize) -> Result<Self, Error> {
        let refused = || Error::OutOfMemory { bytes };
        let align = if bytes >= LARGE_PAGE / 8 { LARGE_PAGE } else { PAGE };
        let size = bytes.max(1).checked_next_multiple_of(align).ok_or_else(refused)?;
        let layout = Layout::from_size_align(size, align).map_err(|_| refused())?;
        // SAFETY: the layout's size is not zero.
        let start = unsafe { alloc(layout) };
        let start = NonNull::new(start).ok_or_else(refused)?;
        #[cfg(target_os = "linux")]
        if align == LARGE_PAGE {
            // SAFETY: the range is this allocation. It is advice: a refusal changes nothing.
            unsafe { libc::madvise(start.as_ptr().cast(), layout.size(), libc::MADV_HUGEPAGE) };
        }
        Ok(Self { start, layout })
    }

    /// The first element. There is room for what the buffer was asked for.
    pub(crate) fn as_mut_ptr<T>(&self) -> *mut T {
        self.start.as_ptr().cast()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed nowhere else.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// Buffers that no product is using.
#[derive(Default)]
pub(crate) struct Spare(Mutex<Vec<Buffer>>);

/// Spare buffers that are kept, besides one for each thread.
const KEPT: usize = 4;

impl Spare {
    /// A buffer of at least that many elements.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(crate) fn take<T>(&self, elements: usize) -> Result<Buffer, Error> {
        let bytes = elements.saturating_mul(size_of::<T>());
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = spare.iter().enumerate().filter(|(_, b)| b.layout.size() >= bytes);
        match fitting.min_by_key(|(_, b)| b.layout.size()).map(|(index, _)| index) {
            Some(index) => Ok(spare.swap_remove(index)),
            None => {
                drop(spare);
                Buffer::new(bytes)
            }
        }
    }

    /// Keeps a buffer for the next product of `threads` threads, in place of the smallest if there
    /// are enough.
    pub(crate) fn give_back(&self, buffer: Buffer, threads: usize) {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        spare.push(buffer);
        if spare.len() > threads + KEPT
            && let Some((smallest, _)) =
                spare.iter().enumerate().min_by_key(|(_, b)| b.layout.size())
        {
            spare.swap_remove(smallest);
        }
    }

    /// Frees all of them.
    pub(crate) fn clear(&self) {
        let freed = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        drop(freed);
    }
}
