//! The arguments of a GEMM kernel, and the two ends that every such kernel shares.

use cuda_std::memory::{Global, GlobalMut, global, global_mut};
use gemm_spec::params::GemmParams;
use gemm_spec::scheduler::{Extent, WorkTile};
use gemm_spec::{Accumulator, epilogue, split_k};

use super::quad::Quad;

/// What a GEMM entry is called with: [`GemmParams`] with pointers to global memory.
///
/// All operands are row-major; leading dimensions count elements.
#[derive(Clone, Copy)]
pub(crate) struct Gemm<T> {
    /// Rows of A and C.
    pub(crate) m: u32,
    /// Columns of B and C.
    pub(crate) n: u32,
    /// Columns of A, rows of B.
    pub(crate) k: u32,
    /// The scalar that multiplies the product.
    pub(crate) alpha: T,
    /// A, m by k.
    pub(crate) a: Global<T>,
    /// From one row of A to the next.
    pub(crate) lda: u64,
    /// B, k by n.
    pub(crate) b: Global<T>,
    /// From one row of B to the next.
    pub(crate) ldb: u64,
    /// The scalar that multiplies the old C.
    pub(crate) beta: T,
    /// C, m by n.
    pub(crate) c: GlobalMut<T>,
    /// From one row of C to the next.
    pub(crate) ldc: u64,
}

impl<T: Accumulator> Gemm<T> {
    /// # Safety
    /// The operands are valid in the whole launch.
    #[inline(always)]
    pub(crate) unsafe fn new(params: GemmParams<T>) -> Self {
        let GemmParams { m, n, k, alpha, a, lda, b, ldb, beta, c, ldc } = params;
        // SAFETY: A is valid in the whole launch.
        let a = unsafe { global(a) };
        // SAFETY: so is B.
        let b = unsafe { global(b) };
        // SAFETY: so is C.
        let c = unsafe { global_mut(c) };
        Self { m, n, k, alpha, a, lda, b, ldb, beta, c, ldc }
    }
}

impl<T: Accumulator> Gemm<T> {
    /// The k elements to accumulate: none where `alpha` is zero, since A and B are then not read.
    #[inline(always)]
    pub(crate) fn effective_k(&self) -> u32 {
        if self.alpha == T::ZERO { 0 } else { self.k }
    }

    /// C in tiles of that many rows and columns.
    #[inline(always)]
    pub(crate) fn extent(&self, tile: (u32, u32)) -> Extent {
        Extent { m: self.m, n: self.n, k: self.k, tile }
    }

    /// The product of a tile's range of k, which writes a matrix of its own: with rows of
    /// [`split_k::pitch`] elements, where there are several ranges.
    #[inline(always)]
    pub(crate) fn of_range(self, tile: &WorkTile) -> Self {
        // Elements from one range's matrix to the next.
        let apart = u64::from(self.m) * u64::from(split_k::pitch(self.n));
        Self {
            k: tile.k_len,
            a: self.a.wrapping_add(tile.k0 as usize),
            b: self.b_at(tile.k0, 0),
            c: self.c.wrapping_add((u64::from(tile.range) * apart) as usize),
            ..self
        }
    }

    /// Where row `row` of A begins.
    #[inline(always)]
    pub(crate) fn a_row(&self, row: u32) -> Global<T> {
        self.a.wrapping_add((u64::from(row) * self.lda) as usize)
    }

    /// Element (row, col) of B.
    #[inline(always)]
    pub(crate) fn b_at(&self, row: u32, col: u32) -> Global<T> {
        self.b.wrapping_add((u64::from(row) * self.ldb + u64::from(col)) as usize)
    }

    /// Stores `alpha * acc + beta * C` at (row, col).
    ///
    /// # Safety
    /// `row < m`, `col < n`, `c` is valid for C, and no other thread touches this element.
    #[inline(always)]
    pub(crate) unsafe fn store(&self, row: u32, col: u32, acc: T) {
        let c = self.c.wrapping_add((u64::from(row) * self.ldc + u64::from(col)) as usize);
        // SAFETY: (row, col) is in C, so `c` points at an element that this thread owns.
        let old = || unsafe { c.read() };
        let new = epilogue(self.alpha, acc, self.beta, old);
        // SAFETY: the same element.
        unsafe { c.write(new) }
    }

    /// Whether rows of C begin at multiples of four elements, so that [`Gemm::store_quad`] may be
    /// used where the column is one, too.
    #[inline(always)]
    pub(crate) fn c_in_quads(&self) -> bool {
        self.c.cast::<Quad<T>>().is_aligned() && self.ldc.is_multiple_of(4)
    }

    /// Whether rows of A begin at multiples of four elements.
    #[inline(always)]
    pub(crate) fn a_in_quads(&self) -> bool {
        self.a.cast::<Quad<T>>().is_aligned() && self.lda.is_multiple_of(4)
    }

    /// Whether rows of B begin at multiples of four elements.
    #[inline(always)]
    pub(crate) fn b_in_quads(&self) -> bool {
        self.b.cast::<Quad<T>>().is_aligned() && self.ldb.is_multiple_of(4)
    }

    /// As [`Gemm::store`], for four neighbours from `col` on.
    ///
    /// # Safety
    /// `row < m`, `col + 4 <= n`, [`Gemm::c_in_quads`] with `col` a multiple of four, `c` is valid for
    /// C, and no other thread touches these elements.
    #[inline(always)]
    pub(crate) unsafe fn store_quad(&self, row: u32, col: u32, acc: [T; 4]) {
        let c = self.c.wrapping_add((u64::from(row) * self.ldc + u64::from(col)) as usize);
        let c = c.cast::<Quad<T>>();
        let old = if self.beta == T::ZERO {
            [T::ZERO; 4]
        } else {
            // SAFETY: the four elements are in C, aligned; this thread owns them.
            unsafe { c.read() }.0
        };
        let mut new = acc;
        let mut i = 0;
        while i < 4 {
            new[i] = epilogue(self.alpha, acc[i], self.beta, || old[i]);
            i += 1;
        }
        // SAFETY: as for the read.
        unsafe { c.write(Quad(new)) };
    }
}
