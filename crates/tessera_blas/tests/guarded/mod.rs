//! Memory whose neighbours may not be touched.

/// Memory between two pages that may not be touched.
pub(crate) struct Guarded {
    pages: *mut u8,
    len: usize,
}

const PAGE: usize = 4096;

impl Guarded {
    pub(crate) fn new(len: usize) -> Self {
        let inner = len.div_ceil(PAGE) * PAGE;
        let (protection, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory at an address of the system's choice.
        let pages =
            unsafe { libc::mmap(std::ptr::null_mut(), inner + 2 * PAGE, protection, flags, -1, 0) };
        assert_ne!(pages, libc::MAP_FAILED);
        let pages: *mut u8 = pages.cast();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: pages of the mapping above.
        let done = unsafe { libc::mprotect(pages.wrapping_add(PAGE).cast(), inner, protection) };
        assert_eq!(done, 0);
        Self { pages, len: inner + 2 * PAGE }
    }

    /// Elements that end with the last page, or begin with the first.
    pub(crate) fn slice(&mut self, len: usize, at_end: bool) -> &mut [f64] {
        let bytes = len * size_of::<f64>();
        let offset = if at_end { self.len - PAGE - bytes } else { PAGE };
        let at = self.pages.wrapping_add(offset).cast();
        // SAFETY: within the pages that can be read and written, which are zeroed, and aligned, since pages are.
        unsafe { std::slice::from_raw_parts_mut(at, len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the mapping, of which no slice is left.
        unsafe { libc::munmap(self.pages.cast(), self.len) };
    }
}
