//! `tiled2` to `tiled32`: square tiles of A and B in shared memory, one element of C a thread.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k) lda, B (k,n) ldb, C (m,n) ldc; row-major f32, f64 or i32
//! Launch    block (T,T,1); grid (ceil(n/T), ceil(m/T), 1), rows beyond 65535 blocks along z
//! Shared    2*T*T elements: 8 KiB for T = 32 and f32
//! Requires  m, n >= 1; what is outside A or B counts as zero, so no size need be a multiple of T
//! Cost      2mnk flop; each element of A and B is loaded n/T and m/T times, a T-th of `naive`
//! Bound by  shared-memory reads: one of B and a quarter of A for each multiply-add
//! Source    "Hello World of parallel programming" (T = 32), the 2010 blog entry, the lecture notes and
//!           the C++ AMP sample (T = 16), the book's 4 x 4 example (T = 2); here any shape
//!
//! ```text
//!            k                    n
//!        +---+---+            +---+---+
//!      m | A0| A1|          k | B0|   |     a block walks along k: it loads A0 and B0, multiplies
//!        +---+---+            +---+---+     them, loads A1 and B1, and so on; the sum of the
//!        |   |   |            | B1|   |     products is its tile of C
//!        +---+---+            +---+---+
//! ```

use cuda_std::memory::{Shared, SharedConst};
use cuda_std::{shared, thread};
use gemm_spec::scheduler::{Plain, TileScheduler};
use gemm_spec::{Accumulator, Arch, Block, KernelSpec, LaunchShape, MinBlocks, Tile};

use crate::parts::cta::this_cta;
use crate::parts::entries::gemm_entries;
use crate::parts::gemm::Gemm;
use crate::parts::quad::Quad;

/// Defines the entries and the specification for one width.
macro_rules! width {
    (
        $spec:ident, $entries:ident, $emulated:ident, $id:literal, $width:literal,
        $min_blocks:literal, $origin:literal;
        $f32:ident, $f64:ident, $i32:ident
    ) => {
        gemm_entries! {
            $entries, $emulated = tiled::<_, $width>;
            f32 => $f32, f64 => $f64, i32 => $i32
        }

        pub(crate) const $spec: KernelSpec = KernelSpec {
            id: $id,
            about: concat!(
                stringify!($width),
                " x ",
                stringify!($width),
                " tiles in shared memory"
            ),
            origin: $origin,
            arch: Arch::Sm70,
            entries: $entries,
            launch: LaunchShape::Grid {
                block: Block { x: $width, y: $width },
                tile: Tile { m: $width, n: $width },
            },
            shared_elements: 2 * $width * $width,
            min_blocks_per_sm: MinBlocks::same($min_blocks),
            ..KernelSpec::PLAIN
        };
        const _: () = $spec.check();
    };
}

width!(
    TILED2, ENTRIES2, EMULATED2, "tiled2", 2, 1, "the book's 4 x 4 example";
    tiled2_f32, tiled2_f64, tiled2_i32
);
width!(
    TILED4, ENTRIES4, EMULATED4, "tiled4", 4, 1, "lecture notes, tile width as a parameter";
    tiled4_f32, tiled4_f64, tiled4_i32
);
width!(
    TILED8, ENTRIES8, EMULATED8, "tiled8", 8, 1, "lecture notes, tile width as a parameter";
    tiled8_f32, tiled8_f64, tiled8_i32
);
width!(
    TILED16, ENTRIES16, EMULATED16, "tiled16", 16, 8,
    "2010 blog entry; lecture notes; C++ AMP sample";
    tiled16_f32, tiled16_f64, tiled16_i32
);
width!(
    TILED32, ENTRIES32, EMULATED32, "tiled32", 32, 2, "Hello World of parallel programming";
    tiled32_f32, tiled32_f64, tiled32_i32
);

/// What a block shares. Rows are 16-byte aligned for widths of 4 and more.
#[repr(C, align(16))]
struct Tiles<T, const W: usize> {
    a: [[T; W]; W],
    b: [[T; W]; W],
}

/// One thread's view of the tiles.
struct Owner<T, const W: usize> {
    /// The element of each tile that this thread loads.
    a_slot: Shared<T>,
    b_slot: Shared<T>,
    /// The row of A's tile and the column of B's that this thread multiplies.
    a_row: SharedConst<T>,
    b_col: SharedConst<T>,
}

impl<T: Accumulator, const W: usize> Owner<T, W> {
    #[inline(always)]
    fn new(tiles: Shared<Tiles<T, W>>, ty: u32, tx: u32) -> Self {
        let a = tiles.cast::<T>();
        let b = a.wrapping_add(W * W);
        let slot = ty as usize * W + tx as usize;
        Self {
            a_slot: a.wrapping_add(slot),
            b_slot: b.wrapping_add(slot),
            a_row: a.wrapping_add(ty as usize * W).cast_const(),
            b_col: b.wrapping_add(tx as usize).cast_const(),
        }
    }

    /// Puts this thread's two elements into the tiles and waits until the tiles are whole.
    ///
    /// # Safety
    /// Every thread of the block calls it together, and none reads the old tiles any more.
    #[inline(always)]
    unsafe fn load(&self, a: T, b: T) {
        // SAFETY: the slot is in A's tile and belongs to this thread alone.
        unsafe { self.a_slot.write(a) };
        // SAFETY: the slot is in B's tile and belongs to this thread alone.
        unsafe { self.b_slot.write(b) };
        // Before use: the row and the column read next were written by other threads.
        // SAFETY: all threads of the block are here.
        unsafe { thread::sync_threads() };
    }

    /// Adds the product of this thread's row and column to `acc` and waits until all have done so.
    ///
    /// # Safety
    /// Every thread of the block calls it together, after [`Owner::load`].
    #[inline(always)]
    unsafe fn multiply(&self, acc: T) -> T {
        // SAFETY: both tiles are whole, and visible since the barrier of `load`.
        let acc = unsafe { self.dot(acc) };
        // Before overwrite: a thread that is ahead must not load the next tiles while others read.
        // SAFETY: all threads of the block are here.
        unsafe { thread::sync_threads() };
        acc
    }

    /// The product of this thread's row and column added to `acc`, in the order of k.
    ///
    /// # Safety
    /// The tiles are written and visible to this thread.
    #[inline(always)]
    unsafe fn dot(&self, mut acc: T) -> T {
        if W < 4 {
            let mut i = 0;
            while i < W {
                // SAFETY: i < W, within the row.
                let a = unsafe { self.a_row.add(i) };
                // SAFETY: i < W, within the column.
                let b = unsafe { self.b_col.add(i * W) };
                // SAFETY: the row of A's tile is written and visible.
                let a = unsafe { a.read() };
                // SAFETY: and so is the column of B's.
                let b = unsafe { b.read() };
                acc = a.mul_add(b, acc);
                i += 1;
            }
            return acc;
        }
        // A's row is one broadcast for the whole warp; four of its elements in one read leave B's
        // column as the only read for each multiply-add.
        let quads = self.a_row.cast::<Quad<T>>();
        let mut i = 0;
        while i < W {
            // SAFETY: i < W and W is a multiple of 4, so the quad is in the row, at an address
            // that is a multiple of 16 since the tiles and each row are.
            let quad = unsafe { quads.add(i / 4) };
            // SAFETY: as above; the tile is written and visible.
            let Quad([a0, a1, a2, a3]) = unsafe { quad.read() };
            let b = self.b_col.wrapping_add(i * W);
            // SAFETY: rows i to i + 3 of the column are in the tile.
            let of = |row: usize| unsafe { b.add(row * W) };
            // SAFETY: one of these rows; the tile is written and visible.
            let of = |row: usize| unsafe { of(row).read() };
            let [b0, b1, b2, b3] = [of(0), of(1), of(2), of(3)];
            acc = a0.mul_add(b0, acc);
            acc = a1.mul_add(b1, acc);
            acc = a2.mul_add(b2, acc);
            acc = a3.mul_add(b3, acc);
            i += 4;
        }
        acc
    }
}

/// # Safety
/// Obligations 1 and 2 of the entries.
#[inline(always)]
unsafe fn tiled<T: Accumulator, const W: usize>(gemm: Gemm<T>) {
    let width = W as u32;
    let (tx, ty) = (thread::thread_idx_x(), thread::thread_idx_y());
    let scheduler = Plain::new(this_cta(), gemm.extent((width, width)));
    if !scheduler.has_work() {
        // A row of blocks that only rounds the grid up; the whole block leaves, so no barrier of it
        // waits for anybody.
        return;
    }
    let tile = scheduler.tile();
    let (row0, col0) = (tile.row * width, tile.col * width);
    let (row, col) = (row0 + ty, col0 + tx);
    let (row_inside, col_inside) = (row < gemm.m, col < gemm.n);

    // SAFETY: obligation 2 provides the bytes; `load` and `multiply` keep the order of writes and
    // reads.
    let tiles = unsafe { shared::launch_sized::<Tiles<T, W>>() };
    let owner = Owner::<T, W>::new(tiles, ty, tx);

    // --- mainloop ---
    let mut a = gemm.a_row(row).wrapping_add(tx as usize);
    let mut b = gemm.b_at(ty, col);
    let b_step = W * gemm.ldb as usize;
    let mut acc = T::ZERO;
    let mut left = gemm.effective_k();

    // Blocks inside C need no guard until the last, partial tile of k. The next pair of elements is
    // fetched before this one is multiplied, so that global memory answers behind the arithmetic.
    if row0 + width <= gemm.m && col0 + width <= gemm.n && left >= width {
        // SAFETY: the tile is inside A: its rows by the test above, k since a whole tile is left.
        let mut a_next = unsafe { a.read() };
        // SAFETY: the tile is inside B, by the same.
        let mut b_next = unsafe { b.read() };
        loop {
            // SAFETY: `left` and the block's place are the same in all its threads, so they are all
            // here, and `multiply` has ended their reads of the old tiles.
            unsafe { owner.load(a_next, b_next) };
            a = a.wrapping_add(W);
            b = b.wrapping_add(b_step);
            left -= width;
            let more = left >= width;
            if more {
                // SAFETY: as for the first of A.
                a_next = unsafe { a.read() };
                // SAFETY: as for the first of B.
                b_next = unsafe { b.read() };
            }
            // SAFETY: all threads of the block are here, after `load`.
            acc = unsafe { owner.multiply(acc) };
            if !more {
                break;
            }
        }
    }
    while left > 0 {
        // SAFETY: read only where row and k are inside A.
        let a_value = if row_inside && tx < left { unsafe { a.read() } } else { T::ZERO };
        // SAFETY: read only where k and column are inside B.
        let b_value = if col_inside && ty < left { unsafe { b.read() } } else { T::ZERO };
        // SAFETY: `left` is the same in every thread of the block, so they are all here; nobody
        // reads the old tiles after `multiply`.
        unsafe { owner.load(a_value, b_value) };
        // SAFETY: all threads of the block are here, after `load`.
        acc = unsafe { owner.multiply(acc) };
        a = a.wrapping_add(W);
        b = b.wrapping_add(b_step);
        left = left.saturating_sub(width);
    }

    // --- epilogue ---
    if row_inside && col_inside {
        // SAFETY: the guard; one thread for each element.
        unsafe { gemm.store(row, col, acc) };
    }
}
