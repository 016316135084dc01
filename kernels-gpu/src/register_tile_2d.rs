//! `register_tile_2d`: 8 x 8 elements of C in the registers of each thread.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k) lda, B (k,n) ldb, C (m,n) ldc; row-major f32, f64 or i32
//! Launch    block (16,16,1); grid (ceil(n/128), ceil(m/128), 1), rows beyond 65535 blocks along z
//! Shared    8*(132+128) elements: 8.1 KiB for f32; A's tile is transposed
//! Requires  m, n >= 1; what is outside A or B counts as zero, so no size need be a multiple of 128
//! Cost      2mnk flop; each element of A and B is loaded n/128 and m/128 times
//! Bound by  issue slots: 64 multiply-adds for every four 16-byte shared reads, and global loads of
//!           one element each. Vector loads attack the latter.
//! Source    the scheme of every fast SIMT kernel since Volkov and Demmel, "Benchmarking GPUs to tune
//!           dense linear algebra", 2008; tile sizes from measurement
//!
//! A thread's elements are four groups of 4 x 4, 64 apart, so that neighbours in a warp read
//! neighbouring 16 bytes of the tiles without bank conflicts:
//!
//! ```text
//!        col  4*tx ..+4      64 + 4*tx ..+4
//!   row  +---------------+---------------+
//!  4*ty  |  4 x 4        |  4 x 4        |
//!        +---------------+---------------+      each element is one chain over k in order:
//!  64 +  |  4 x 4        |  4 x 4        |      the bits are those of `naive`
//!  4*ty  +---------------+---------------+
//! ```

use gemm_spec::scheduler::{Plain, TileScheduler, WorkTile};
use gemm_spec::{Accumulator, Arch, Block, KernelSpec, LaunchShape, MinBlocks, Tile};

use crate::parts::cta::this_cta;
use crate::parts::entries::gemm_entries;
use crate::parts::gemm::Gemm;
use crate::parts::outer_tile::{Neighbours, SHARED_ELEMENTS, SIDE, THREADS, outer_tile};

gemm_entries! {
    ENTRIES, EMULATED = register_tile_2d;
    f32 => register_tile_2d_f32, f64 => register_tile_2d_f64, i32 => register_tile_2d_i32
}

/// What the host needs to launch it.
pub(crate) const SPEC: KernelSpec = KernelSpec {
    id: "register_tile_2d",
    about: "8 x 8 elements of C in a thread's registers, 128 x 128 a block",
    origin: "Volkov and Demmel 2008",
    arch: Arch::Sm70,
    entries: ENTRIES,
    launch: LaunchShape::Grid {
        block: Block { x: THREADS as u32, y: THREADS as u32 },
        tile: Tile { m: SIDE as u32, n: SIDE as u32 },
    },
    shared_elements: SHARED_ELEMENTS,
    // Two blocks hide each other's barriers; 8-byte accumulators need the registers of one.
    min_blocks_per_sm: MinBlocks { narrow: 2, wide: 1 },
    ..KernelSpec::PLAIN
};
const _: () = SPEC.check();

/// # Safety
/// Obligations 1 and 2 of the entries.
#[inline(always)]
unsafe fn register_tile_2d<T: Accumulator>(gemm: Gemm<T>) {
    let extent = gemm.extent((SIDE as u32, SIDE as u32));
    let scheduler = Plain::new(this_cta(), extent);
    if !scheduler.has_work() {
        // A row of blocks that only rounds the grid up; the whole block leaves.
        return;
    }
    let WorkTile { row, col, .. } = scheduler.tile();
    // SAFETY: obligations 1 and 2; each block has a tile of its own.
    unsafe { outer_tile(gemm, Neighbours::ROW_MAJOR, (row, col)) };
}
