//! `warp_tile`: each warp owns 64 x 64 of C, and the next fragments are read while these are
//! multiplied.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k) lda, B (k,n) ldb, C (m,n) ldc; row-major f32 or i32
//! Launch    block (128,1,1); a grid of one dimension, tiles of C in groups of 8 rows of tiles
//! Shared    2*8*(132+128) elements, two tiles of A, transposed, and of B: 16640 bytes
//! Requires  m, n >= 1
//! Cost      2mnk flop; each element of A and B is loaded n/128 and m/128 times
//! Bound by  issue slots, and registers: the next tile occupies 16 of them until it is stored. Copies
//!           that bypass the registers, from compute capability 8.0 on, free them.
//! Source    warp tiles as in CUTLASS's SIMT kernels; the order of lanes from salykova's sgemm.cu
//!
//! A lane has 16 x 8 elements of C, so six 16-byte reads of shared memory feed 128 FMAs. The
//! fragments of a k element are read before those of the previous one are multiplied. The next tile
//! is fetched into registers at the start of a round and stored to the other stage at its end, so
//! there is one barrier a round:
//!
//! ```text
//!  round t    fetch tile t+1 | steps 0 to 6 of stage 0 | store t+1 to stage 1, barrier | step 7
//!  round t+1  fetch tile t+2 | steps 0 to 6 of stage 1 | store t+2 to stage 0, barrier | step 7
//! ```
//!
//! Edges are those of `async_copy`: a tile begins where it still fits, or repeats the last row and
//! column, and k elements that do not fill a tile come last.

use cuda_std::memory::{Shared, SharedAddress};
use cuda_std::{shared, thread};
use gemm_spec::index::lane_place;
use gemm_spec::scheduler::{Grouped, TileScheduler};
use gemm_spec::{Accumulator, Arch, Block, KernelSpec, LaunchShape, MinBlocks, Tile};

use crate::parts::cta::this_cta;
use crate::parts::entries::gemm_entries;
use crate::parts::fragments::{Acc, COLS, Fragments, LANES_Y, Place, WARP_COLS, store};
use crate::parts::gemm::Gemm;
use crate::parts::quad::Quad;
use crate::parts::unroll::unroll;

/// Rows and columns of C of a block.
const SIDE: usize = 128;
/// Warps of a block along m and n.
const WARPS_M: usize = 2;
const THREADS: usize = 128;
/// Rows of C of a lane.
const ROWS: usize = 16;
/// k elements in a tile.
const STEPS: usize = 8;
/// Pitch of A's tile, from one k element to the next: four more than the rows, so that the
/// transposing stores of a warp use different banks and reads stay 16-byte aligned.
const A_PITCH: usize = SIDE + 4;
const A_TILE: usize = STEPS * A_PITCH;
const STAGE: usize = A_TILE + STEPS * SIDE;
/// Elements of each tile that a thread loads.
const LOADS: usize = SIDE * STEPS / THREADS;
/// Rows of A that the block loads together.
const A_ROWS: usize = THREADS / STEPS;
/// Rows of tiles in a group.
const GROUP_ROWS: u32 = 8;

gemm_entries! {
    ENTRIES, EMULATED = warp_tile;
    f32 => warp_tile_f32, i32 => warp_tile_i32
}

/// What the host needs to launch it.
pub(crate) const SPEC: KernelSpec = KernelSpec {
    id: "warp_tile",
    about: "16 x 8 elements of C a lane, 64 x 64 a warp, the next step read ahead",
    origin: "CUTLASS, SIMT kernels; salykova's sgemm.cu",
    arch: Arch::Sm70,
    entries: ENTRIES,
    launch: LaunchShape::Grouped {
        block: Block { x: THREADS as u32, y: 1 },
        tile: Tile { m: SIDE as u32, n: SIDE as u32 },
        rows: GROUP_ROWS,
    },
    shared_elements: 2 * STAGE as u32,
    min_blocks_per_sm: MinBlocks::same(2),
    ..KernelSpec::PLAIN
};
const _: () = SPEC.check();

/// A thread's addresses in global memory and in the tiles.
struct Loader<T> {
    gemm: Gemm<T>,
    /// The row of A and the k offset in a tile of this thread's first element of A; the others are
    /// [`A_ROWS`] rows apart.
    a_row: u32,
    a_step: u32,
    /// The column of B, of which it loads every step.
    b_col: u32,
    /// Their places in the first stage.
    a_slot: Shared<T>,
    b_slot: Shared<T>,
}

impl<T: Accumulator> Loader<T> {
    /// This thread's elements of the tiles from step `done` on, zero for steps from `left` on.
    ///
    /// Rows and columns outside repeat the last one; with `INSIDE` there are none.
    ///
    /// # Safety
    /// Obligation 1 of the entries; with `INSIDE` rows and columns are in A and B, and `left` is not
    /// below [`STEPS`].
    #[inline(always)]
    unsafe fn fetch<const INSIDE: bool>(&self, done: u32, left: u32) -> ([T; LOADS], [T; LOADS]) {
        let (mut a, mut b) = ([T::ZERO; LOADS], [T::ZERO; LOADS]);
        let mut i = 0;
        while i < LOADS {
            let row = self.a_row + (i * A_ROWS) as u32;
            let row = if INSIDE { row } else { row.min(self.gemm.m - 1) };
            if INSIDE || self.a_step < left {
                let from = self.gemm.a_row(row).wrapping_add((done + self.a_step) as usize);
                // SAFETY: the row and the step are in A.
                a[i] = unsafe { from.read() };
            }
            let col = if INSIDE { self.b_col } else { self.b_col.min(self.gemm.n - 1) };
            if INSIDE || (i as u32) < left {
                // SAFETY: the step and the column are in B.
                b[i] = unsafe { self.gemm.b_at(done + i as u32, col).read() };
            }
            i += 1;
        }
        (a, b)
    }

    /// Puts fetched elements into the stage with that first element.
    ///
    /// # Safety
    /// Nobody reads that stage any more.
    #[inline(always)]
    unsafe fn put(&self, stage: u32, (a, b): ([T; LOADS], [T; LOADS])) {
        let a_slot = self.a_slot.wrapping_add(stage as usize);
        let b_slot = self.b_slot.wrapping_add(stage as usize);
        let mut i = 0;
        while i < LOADS {
            // SAFETY: the slots of all threads and all `i` are the elements of A's tile, once each.
            unsafe { a_slot.wrapping_add(i * A_ROWS).write(a[i]) };
            // SAFETY: and those of B's.
            unsafe { b_slot.wrapping_add(i * SIDE).write(b[i]) };
            i += 1;
        }
    }
}

/// # Safety
/// Obligations 1 and 2 of the entries.
#[inline(always)]
unsafe fn warp_tile<T: Accumulator>(gemm: Gemm<T>) {
    let side = SIDE as u32;
    let extent = gemm.extent((side, side));
    let tile = Grouped::new(this_cta(), extent, GROUP_ROWS).tile();
    let (first_row, first_col) = (tile.row * side, tile.col * side);
    // At the edges the tile begins where it still fits, if C is that large.
    let inside = gemm.m >= side && gemm.n >= side;
    let row0 = if gemm.m >= side { first_row.min(gemm.m - side) } else { first_row };
    let col0 = if gemm.n >= side { first_col.min(gemm.n - side) } else { first_col };

    let thread = thread::thread_idx_x() as usize;
    let (lane, warp) = (thread % 32, thread / 32);
    let (x, y) = lane_place(lane as u32);
    let row = warp % WARPS_M * (LANES_Y * ROWS) + 4 * y as usize;
    let col = warp / WARPS_M * WARP_COLS + 4 * x as usize;

    // SAFETY: obligation 2 provides the bytes; the barriers below keep writes and reads apart.
    let tiles = unsafe { shared::launch_sized::<Quad<T>>() }.cast::<T>();
    // Neighbouring threads load neighbouring steps of a row of A and columns of a row of B.
    let (a_step, a_row) = (thread % STEPS, thread / STEPS);
    let loader = Loader {
        gemm,
        a_row: row0 + a_row as u32,
        a_step: a_step as u32,
        b_col: col0 + thread as u32,
        a_slot: tiles.wrapping_add(a_step * A_PITCH + a_row),
        b_slot: tiles.wrapping_add(A_TILE + thread),
    };
    let a_frag = SharedAddress::new(tiles.wrapping_add(row));
    let b_frag = SharedAddress::new(tiles.wrapping_add(A_TILE + col));

    // --- mainloop ---
    let k = gemm.effective_k();
    let left = k % STEPS as u32;
    let whole = k - left;
    let mut acc = [[T::ZERO; COLS]; ROWS];
    if whole > 0 {
        if inside {
            // SAFETY: `whole` steps, the same in all threads, which are all here; rows and columns are in
            // A and B.
            unsafe { mainloop::<T, true>(&loader, whole, (a_frag, b_frag), &mut acc) };
        } else {
            // SAFETY: the same, but for rows and columns.
            unsafe { mainloop::<T, false>(&loader, whole, (a_frag, b_frag), &mut acc) };
        }
    }
    if left > 0 {
        // SAFETY: rows and columns are held inside, steps are guarded.
        let rest = unsafe { loader.fetch::<false>(whole, left) };
        // SAFETY: `left` is the same in all threads of the block, so they are all here.
        unsafe { thread::sync_threads() };
        // SAFETY: the barrier ended all reads of the stage.
        unsafe { loader.put(0, rest) };
        // SAFETY: as for the first barrier.
        unsafe { thread::sync_threads() };
        let (mut a, mut b) = (a_frag, b_frag);
        let mut step = 0;
        while step < left {
            // SAFETY: written, and visible since the barrier.
            unsafe { Fragments::<T, ROWS>::read(a, b) }.multiply(&mut acc);
            a = a.wrapping_add(A_PITCH);
            b = b.wrapping_add(SIDE);
            step += 1;
        }
    }

    // --- epilogue ---
    let place = Place { row: row0 + row as u32, col: col0 + col as u32, first_row, first_col };
    // SAFETY: the tiles from (first_row, first_col) on are a partition of C, the lanes' elements one
    // of each tile.
    unsafe { store(&gemm, place, &acc) };
}

/// Adds the products of the first `whole` k elements.
///
/// # Safety
/// `whole <= k` is a multiple of [`STEPS`] and not zero, and the same in all threads of the block,
/// which are all here; with `INSIDE` the tile's rows and columns are in A and B; nobody reads the
/// tiles.
#[inline(always)]
unsafe fn mainloop<T: Accumulator, const INSIDE: bool>(
    loader: &Loader<T>,
    whole: u32,
    (a_frag, b_frag): (SharedAddress<T>, SharedAddress<T>),
    acc: &mut Acc<T, ROWS>,
) {
    const LAST: usize = STEPS - 1;
    // SAFETY: the first tile, which is whole.
    let first = unsafe { loader.fetch::<INSIDE>(0, STEPS as u32) };
    // SAFETY: nobody has read the stage yet.
    unsafe { loader.put(0, first) };
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    // SAFETY: written, and visible since the barrier.
    let mut fragments = unsafe { Fragments::<T, ROWS>::read(a_frag, b_frag) };
    let mut stage = 0;
    let mut done = 0;
    while done < whole {
        done += STEPS as u32;
        let more = done < whole;
        let mut fetched = ([T::ZERO; LOADS], [T::ZERO; LOADS]);
        if more {
            // SAFETY: a whole tile is left.
            fetched = unsafe { loader.fetch::<INSIDE>(done, STEPS as u32) };
        }
        unroll!(for STEP in 0..8 {
            if STEP == LAST && more {
                stage = STAGE as u32 - stage;
                // SAFETY: the other stage was last read before the last barrier.
                unsafe { loader.put(stage, fetched) };
                // SAFETY: `more` is the same in all threads, so they are all here.
                unsafe { thread::sync_threads() };
            }
            // The next fragments; after the last ones the first again, which are ignored.
            let step = (STEP + 1) % STEPS;
            let first = stage as usize;
            let a = a_frag.wrapping_add(first).wrapping_add(step * A_PITCH);
            let b = b_frag.wrapping_add(first).wrapping_add(step * SIDE);
            // SAFETY: written, and visible since a barrier.
            let next = unsafe { Fragments::read(a, b) };
            fragments.multiply(acc);
            fragments = next;
        });
    }
}
