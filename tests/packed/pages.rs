//! Elements between two pages that nobody may touch.

use std::ptr::NonNull;

/// A copy of some elements, flush with a forbidden page behind it or before it.
pub(crate) struct Fenced<T> {
    pages: NonNull<u8>,
    bytes: usize,
    first: NonNull<T>,
    len: usize,
}

fn page() -> usize {
    // SAFETY: sysconf only reads.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a page has a size")
}

impl<T: Copy> Fenced<T> {
    pub(crate) fn new(elements: &[T], at_end: bool) -> Self {
        let page = page();
        let inner = size_of_val(elements).next_multiple_of(page);
        let bytes = inner + 2 * page;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new private mapping, which replaces none.
        let pages =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        assert_ne!(pages, libc::MAP_FAILED, "mmap");
        let pages = NonNull::new(pages.cast::<u8>()).expect("a mapping is not at null");
        // SAFETY: the mapping has a page before the inner part, and one behind it.
        let start = unsafe { pages.add(page) };
        if inner > 0 {
            let usable = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: the inner part is this mapping's, to which nothing refers yet.
            let refused = unsafe { libc::mprotect(start.as_ptr().cast(), inner, usable) };
            assert_eq!(refused, 0, "mprotect");
        }
        let offset = if at_end { inner - size_of_val(elements) } else { 0 };
        // SAFETY: the elements are no longer than the inner part.
        let first = unsafe { start.add(offset) }.cast::<T>();
        // SAFETY: behind `first` the inner part has room for the elements; it begins at a page, and is, as
        // they are, a multiple of their alignment long. The new mapping overlaps nothing.
        unsafe {
            std::ptr::copy_nonoverlapping(elements.as_ptr(), first.as_ptr(), elements.len());
        }
        Self { pages, bytes, first, len: elements.len() }
    }

    pub(crate) fn as_slice(&self) -> &[T] {
        // SAFETY: that many elements were copied there, and the pages live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as above, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T> Drop for Fenced<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, unmapped nowhere else.
        unsafe { libc::munmap(self.pages.as_ptr().cast(), self.bytes) };
    }
}
