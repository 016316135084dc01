//! `register_tile_1d`: a column of eight elements of C in the registers of each thread.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k) lda, B (k,n) ldb, C (m,n) ldc; row-major f32, f64 or i32
//! Launch    block (64,8,1); grid (ceil(n/64), ceil(m/64), 1), rows beyond 65535 blocks along z
//! Shared    2*64*8 elements: 4 KiB for f32
//! Requires  m, n >= 1; what is outside A or B counts as zero, so no size need be a multiple of 64
//! Cost      2mnk flop; each element of A and B is loaded n/64 and m/64 times
//! Bound by  shared-memory reads: of nine for eight multiply-adds, eight are one address for a whole
//!           warp. Rows and columns in registers feed more with fewer: `register_tile_2d`.
//! Source    siboehm's SGEMM_CUDA, kernel 4 (one-dimensional block tiling)
//!
//! An element of B is read once and multiplied with eight of A, which the threads of a warp share:
//!
//! ```text
//!            step                col
//!          +--+                  |
//!  8*ty    |a0|           +------b------+     acc0 += a0 * b
//!  8*ty+1  |a1|           |  a row of B |     acc1 += a1 * b
//!    ...    ..            +------|------+      ...
//!  8*ty+7  |a7|                  |            acc7 += a7 * b
//!          +--+
//! ```

use cuda_std::memory::SharedConst;
use cuda_std::{shared, thread};
use gemm_spec::scheduler::{Plain, TileScheduler};
use gemm_spec::{Accumulator, Arch, Block, KernelSpec, LaunchShape, MinBlocks, Tile};

use crate::parts::cta::this_cta;
use crate::parts::entries::gemm_entries;
use crate::parts::gemm::Gemm;
use crate::parts::unroll::unroll;

/// Rows and columns of C of a block.
const SIDE: usize = 64;
/// k elements in a tile.
const STEPS: usize = 8;
/// Rows of C of a thread.
const OWN: usize = 8;
/// Threads along the rows: with [`SIDE`] along the columns each loads one element of each tile.
const ROWS: usize = SIDE / OWN;
const _: () = assert!(ROWS * SIDE == STEPS * SIDE);

gemm_entries! {
    ENTRIES, EMULATED = register_tile_1d;
    f32 => register_tile_1d_f32, f64 => register_tile_1d_f64, i32 => register_tile_1d_i32
}

/// What the host needs to launch it.
pub(crate) const SPEC: KernelSpec = KernelSpec {
    id: "register_tile_1d",
    about: "8 elements of C in a thread's registers, 64 x 64 a block",
    origin: "siboehm's SGEMM_CUDA, kernel 4",
    arch: Arch::Sm70,
    entries: ENTRIES,
    launch: LaunchShape::Grid {
        block: Block { x: SIDE as u32, y: ROWS as u32 },
        tile: Tile { m: SIDE as u32, n: SIDE as u32 },
    },
    shared_elements: (2 * STEPS * SIDE) as u32,
    // 8-byte accumulators and their addresses need the registers of one block.
    min_blocks_per_sm: MinBlocks { narrow: 2, wide: 1 },
    ..KernelSpec::PLAIN
};
const _: () = SPEC.check();

/// What a block shares.
#[repr(C)]
struct Tiles<T> {
    a: [[T; STEPS]; SIDE],
    b: [[T; SIDE]; STEPS],
}

/// # Safety
/// Obligations 1 and 2 of the entries.
#[inline(always)]
unsafe fn register_tile_1d<T: Accumulator>(gemm: Gemm<T>) {
    let (tx, ty) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let extent = gemm.extent((SIDE as u32, SIDE as u32));
    let scheduler = Plain::new(this_cta(), extent);
    if !scheduler.has_work() {
        // A row of blocks that only rounds the grid up; the whole block leaves.
        return;
    }
    let tile = scheduler.tile();
    let (row0, col0) = (tile.row * SIDE as u32, tile.col * SIDE as u32);
    // SAFETY: obligation 2 provides the bytes; the barriers below keep writes and reads apart.
    let a_tile = unsafe { shared::launch_sized::<Tiles<T>>() }.cast::<T>();
    let b_tile = a_tile.wrapping_add(SIDE * STEPS);
    // The element of each tile that this thread loads: neighbours load neighbouring steps of a row of
    // A and columns of a row of B.
    let linear = ty * SIDE + tx;
    let (a_step, a_row) = (linear % STEPS, linear / STEPS);
    let (a_slot, b_slot) = (a_tile.wrapping_add(linear), b_tile.wrapping_add(linear));
    let a_own = a_tile.wrapping_add(ty * OWN * STEPS).cast_const();
    let b_own = b_tile.wrapping_add(tx).cast_const();
    let a_inside = row0 + (a_row as u32) < gemm.m;
    let col = col0 + tx as u32;

    // --- mainloop ---
    let k = gemm.effective_k();
    let mut a = gemm.a_row(row0 + a_row as u32).wrapping_add(a_step);
    let mut b = gemm.b_at(ty as u32, col);
    let mut acc = [T::ZERO; OWN];
    let mut left = k;
    while left > 0 {
        let inside = a_inside && (a_step as u32) < left;
        // SAFETY: read only where row and step are inside A.
        let a_value = if inside { unsafe { a.read() } } else { T::ZERO };
        let inside = col < gemm.n && (ty as u32) < left;
        // SAFETY: read only where step and column are inside B.
        let b_value = if inside { unsafe { b.read() } } else { T::ZERO };
        // SAFETY: the slots of all threads are the elements of A's tile, once each; the barrier at the end
        // of the last round ended all reads of them.
        unsafe { a_slot.write(a_value) };
        // SAFETY: as are those of B's tile.
        unsafe { b_slot.write(b_value) };
        // SAFETY: `left` is the same in all threads, so they are all here.
        unsafe { thread::sync_threads() };
        if left >= STEPS as u32 {
            unroll!(for STEP in 0..8 {
                // SAFETY: written, and visible since the barrier.
                unsafe { multiply(a_own, b_own, STEP, &mut acc) };
            });
        } else {
            // Only steps that there are: each element stays one chain of them.
            unroll!(for STEP in 0..8 {
                if (STEP as u32) < left {
                    // SAFETY: as above.
                    unsafe { multiply(a_own, b_own, STEP, &mut acc) };
                }
            });
        }
        // Before overwrite.
        // SAFETY: as above.
        unsafe { thread::sync_threads() };
        a = a.wrapping_add(STEPS);
        b = b.wrapping_add(STEPS * gemm.ldb as usize);
        left = left.saturating_sub(STEPS as u32);
    }

    // --- epilogue ---
    unroll!(for I in 0..8 {
        let row = row0 + (ty * OWN + I) as u32;
        if row < gemm.m && col < gemm.n {
            // SAFETY: the guard; each element belongs to one thread.
            unsafe { gemm.store(row, col, acc[I]) };
        }
    });
}

/// Adds the products of this thread's rows and its column in a step of the tiles.
///
/// # Safety
/// The step of the tiles is written and visible to this thread.
#[inline(always)]
unsafe fn multiply<T: Accumulator>(
    a: SharedConst<T>,
    b: SharedConst<T>,
    step: usize,
    acc: &mut [T; OWN],
) {
    // SAFETY: the step is in the column.
    let b = unsafe { b.wrapping_add(step * SIDE).read() };
    unroll!(for I in 0..8 {
        // SAFETY: the step is in each of the thread's rows.
        let a = unsafe { a.wrapping_add(I * STEPS + step).read() };
        acc[I] = a.mul_add(b, acc[I]);
    });
}
