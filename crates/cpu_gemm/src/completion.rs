//! Who is told, while a product is computed, which parts of C are complete: what finishes them finds them in the
//! cache.

use std::ops::Range;

/// Called for each part of C once its elements are stored, by the thread that has stored them: together the parts
/// are all of C, and none is told twice.
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    told: *const (),
    tell: unsafe fn(*const (), Range<usize>, Range<usize>),
    /// Where the product's C begins in that of `told`.
    first: (usize, usize),
}

impl Completion {
    /// Calls a function with the rows and columns of a part.
    ///
    /// Whoever makes one promises that the function outlives the product that tells it.
    pub(crate) fn of<F: Fn(Range<usize>, Range<usize>) + Sync>(told: &F) -> Self {
        /// # Safety
        /// The pointer is to an `F`.
        unsafe fn tell<F: Fn(Range<usize>, Range<usize>)>(
            told: *const (),
            rows: Range<usize>,
            cols: Range<usize>,
        ) {
            // SAFETY: the caller's promise.
            let told = unsafe { &*told.cast::<F>() };
            told(rows, cols);
        }
        Self { told: std::ptr::from_ref(told).cast(), tell: tell::<F>, first: (0, 0) }
    }

    /// The same of a part of C that begins with that row and column.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn from(self, row: usize, col: usize) -> Self {
        Self { first: (self.first.0 + row, self.first.1 + col), ..self }
    }

    /// Tells that those rows and columns are complete.
    ///
    /// # Safety
    /// The function is still there.
    pub(crate) unsafe fn tell(self, rows: Range<usize>, cols: Range<usize>) {
        let behind = |range: Range<usize>, first: usize| range.start + first..range.end + first;
        let (rows, cols) = (behind(rows, self.first.0), behind(cols, self.first.1));
        // SAFETY: `told` is what `tell` was made for, and the caller's promise.
        unsafe { (self.tell)(self.told, rows, cols) };
    }
}
