//! `split_k_*`: tiles as in `async_copy`, with several blocks for a tile that share k.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k) lda, B (k,n) ldb, C (m,n) ldc; row-major f32
//! Launch    block (32 a warp,1,1); along x the tiles of C in groups of 8 rows of tiles, along y the
//!           parts of k; then `sum_parts`, where there are several parts
//! Shared    that of `async_copy`
//! Requires  m, n >= 1; a workspace of 4*m*n bytes for each part
//! Cost      2mnk flop; each part is written once and read once
//! Bound by  issue slots, as `async_copy`, as soon as there are enough blocks
//! Source    splitting k as in CUTLASS's and cuBLAS's kernels with a second launch for the sum
//!
//! A small C has few tiles, and a tile has one block: most SMs are idle, however long k is. Here
//! each tile has as many blocks as k has parts. A block accumulates its part and writes the result
//! to a matrix of that part:
//!
//! ```text
//!   A (m, k)  | part 0 | part 1 | part 2 |        each part is a product of its own:
//!   B (k, n)  | part 0 |                          C_p = A_p * B_p
//!             | part 1 |
//!             | part 2 |                          sum_parts:  C = alpha * (C_0 + C_1 + C_2) + beta * C
//! ```
//!
//! A small tile has room for one or two warps, and an SM wants at least four, one for each of its
//! schedulers. So tiles below 64 x 128 have several *slices* of warps. Each slice multiplies its
//! own k elements of every stage for the whole tile, and the slices' accumulators are reduced in
//! shared memory at the end.
//!
//! The host decides how many parts there are (`tessera::select`); the kernel reads it
//! from its grid. With one part the block writes C itself. The parts are added in order, so a
//! result is reproducible bit for bit, but it is not one chain over k: its bits are not those of
//! `naive`, and its error is mostly smaller.

use gemm_spec::scheduler::SplitK;
use gemm_spec::split_k::{KSharing, RANGE_UNIT};
use gemm_spec::{Accumulator, Arch, Block, KernelSpec, LaunchShape, MinBlocks, Numerics, Tile};

use crate::async_copy::{GROUP_ROWS, Shape};
use crate::parts::cta::this_cta;
use crate::parts::entries::gemm_entries;
use crate::parts::gemm::Gemm;
use crate::sum_parts;

/// Defines the entry and the specification for one tile.
macro_rules! tile {
    (
        $spec:ident, $entries:ident, $emulated:ident, $id:literal => $symbol:ident, $min_blocks:literal;
        warps $warps_m:literal x $warps_n:literal, rows $rows:literal, steps $bk:literal, stages $stages:literal, slices $slices:literal
    ) => {
        gemm_entries! {
            $entries, $emulated =
                split_k::<_, $warps_m, $warps_n, $rows, $bk, $stages, $slices>;
            f32 => $symbol
        }

        pub(crate) const $spec: KernelSpec = {
            type Of = Shape<$warps_m, $warps_n, $rows, $bk, $stages, $slices>;
            KernelSpec {
                id: $id,
                about: concat!(
                    stringify!($rows),
                    " x 8 elements of C a thread, several blocks a tile, each with a part of k, ",
                    stringify!($slices),
                    " warps for each place in the tile"
                ),
                origin: "CUTLASS and cuBLAS, split-K with a second launch",
                arch: Arch::Sm80,
                entries: $entries,
                launch: LaunchShape::Grouped {
                    block: Block { x: Of::THREADS as u32, y: 1 },
                    tile: Tile { m: Of::BM as u32, n: Of::BN as u32 },
                    rows: GROUP_ROWS,
                },
                shared_elements: ($stages * Of::STAGE) as u32,
                min_blocks_per_sm: MinBlocks::same($min_blocks),
                split_k: KSharing::Workspace { unit: RANGE_UNIT },
                numerics: Numerics::ChainOfRanges,
                helpers: &[sum_parts::ENTRY],
                ..KernelSpec::PLAIN
            }
        };
        const _: () = $spec.check();
    };
}

tile!(
    TILE_32X64, ENTRIES_32X64, EMULATED_32X64, "split_k_32x64" => split_k_32x64_f32, 3;
    warps 1 x 1, rows 8, steps 32, stages 4, slices 4
);
tile!(
    TILE_64X64, ENTRIES_64X64, EMULATED_64X64, "split_k_64x64" => split_k_64x64_f32, 3;
    warps 2 x 1, rows 8, steps 16, stages 5, slices 2
);
tile!(
    TILE_32X128, ENTRIES_32X128, EMULATED_32X128, "split_k_32x128" => split_k_32x128_f32, 3;
    warps 1 x 2, rows 8, steps 16, stages 4, slices 2
);
tile!(
    TILE_64X128, ENTRIES_64X128, EMULATED_64X128, "split_k_64x128" => split_k_64x128_f32, 4;
    warps 2 x 2, rows 8, steps 16, stages 4, slices 1
);
tile!(
    TILE_128X64, ENTRIES_128X64, EMULATED_128X64, "split_k_128x64" => split_k_128x64_f32, 4;
    warps 2 x 1, rows 16, steps 8, stages 4, slices 1
);

/// # Safety
/// Obligations 1 and 2 of the entries, where the grid has a row of blocks for each part along y, and
/// with several of them `c` is valid for as many matrices of m rows and [`pitch`](gemm_spec::split_k::pitch) columns, `ldc` is
/// that pitch, and the scalars are one and zero.
#[inline(always)]
unsafe fn split_k<
    T: Accumulator,
    const WARPS_M: usize,
    const WARPS_N: usize,
    const ROWS: usize,
    const BK: usize,
    const STAGES: usize,
    const SLICES: usize,
>(
    gemm: Gemm<T>,
) {
    let cta = this_cta();
    let tiles = Shape::<WARPS_M, WARPS_N, ROWS, BK, STAGES, SLICES>::tiles(&gemm, cta);
    let tiles = SplitK::new(cta, tiles, RANGE_UNIT);
    // SAFETY: the range's operands are in those of the whole product, or are read nowhere: the host makes no
    // range empty. Each range has a matrix of its own to write.
    unsafe { Shape::<WARPS_M, WARPS_N, ROWS, BK, STAGES, SLICES>::gemm(gemm, tiles) }
}
