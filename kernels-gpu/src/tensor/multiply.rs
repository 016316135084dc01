//! The entries, and the loops of a block's producer and consumer warpgroups.

use cuda_std::arch::sm90::mbarrier::Barrier;
use cuda_std::arch::sm90::tensor::MapAddress;
use cuda_std::arch::sm90::wgmma::Descriptor;
use cuda_std::arch::sm90::{bulk, mbarrier, registers, tensor, wgmma};
use cuda_std::memory::{Global, GlobalMut, Shared, SharedAddress, global, global_mut};
use cuda_std::{tensor_map, thread, warp};
use gemm_spec::index::ceil_div;
use gemm_spec::params::TmaParams;
use gemm_spec::scheduler::{
    Extent, Persistent, PersistentBatch, RowEnds, SplitK, TileScheduler, WorkTile,
};
use gemm_spec::tensor::{A_MN_MAJOR, B_MN_MAJOR, BLOCK_K, BOX_WIDTH};
use gemm_spec::warpgroup::{
    INSTRUCTION_K, INSTRUCTION_M, K_ADVANCE, K_ADVANCE_MN_MAJOR, ROW_BYTES, THREADS,
    k_major_descriptor, mn_major_descriptor,
};

use super::finish::Finish;
use super::number::{Accumulators, Bf16, F16, Number, Wgmma, Wide};
use super::store::Epilogue;
use super::{
    CONSUMERS, GROUP_ROWS, PIPELINE_BYTES, STAGING_BUFFERS, STAGING_BYTES, STAGING_EACH, TILE_M,
};
use crate::parts::cta::this_cta;
use crate::parts::entries::entry;
use crate::parts::pipeline::{self, Pipeline};

/// Registers of a producer thread, and of a consumer thread.
pub(super) const PRODUCER_REGISTERS: u32 = 24;
pub(super) const CONSUMER_REGISTERS: u32 = 240;
/// Chunks of accumulators whose columns [`Epilogue::store_direct`] stores together.
const N16_OF_SUBTILE: usize = 4;
/// Bytes of a TMA box of 64 elements and 64 lines.
const BOX_BYTES: u32 = BOX_WIDTH * BLOCK_K * 2;
/// Bytes of a stage's tile of A.
pub(super) const A_BYTES: u32 = TILE_M * ROW_BYTES;

/// The pipeline of a kernel whose instruction has `N = 16 * N16`: the width of its tile of C.
pub(super) struct Stages<const N16: usize>;

impl<const N16: usize> Stages<N16> {
    pub(super) const TILE_N: u32 = 16 * N16 as u32;
    /// Bytes of a stage's tile of B, and of an N-major one, which has whole boxes.
    const B_BYTES: u32 = Self::TILE_N * ROW_BYTES;
    const B_N_MAJOR_BYTES: u32 = Self::TILE_N.next_multiple_of(BOX_WIDTH) * ROW_BYTES;
}

impl<const N16: usize> Pipeline for Stages<N16> {
    const STAGES: u32 = PIPELINE_BYTES / Self::STAGE_BYTES;
    const STAGE_BYTES: u32 = A_BYTES + Self::B_N_MAJOR_BYTES;
    // The staging buffers are between the stages and the barriers.
    const BARRIER_OFFSET: u32 = PIPELINE_BYTES + STAGING_BUFFERS * STAGING_BYTES;
}

/// A warpgroup's position in that pipeline.
pub(super) type PipelineState<const N16: usize> = pipeline::PipelineState<Stages<N16>>;

/// The parameters of a launch.
pub(super) struct Launch<N: Number> {
    pub(super) a_map: MapAddress,
    pub(super) b_map: MapAddress,
    pub(super) c_map: MapAddress,
    pub(super) m: u32,
    pub(super) n: u32,
    pub(super) k: u32,
    pub(super) alpha: f32,
    pub(super) major_flags: u32,
    pub(super) beta: f32,
    pub(super) c: GlobalMut<N::Stored>,
    pub(super) ldc: u64,
    pub(super) tma_store: u32,
    pub(super) products: u32,
    pub(super) a_step: u32,
    pub(super) b_step: u32,
    pub(super) c_stride: u64,
    pub(super) ends: Option<Ends>,
    pub(super) finish: Finish<N>,
}

/// The rows before which those of each product end.
#[derive(Clone, Copy)]
pub(super) struct Ends(Global<u32>);

impl RowEnds for Ends {
    #[inline(always)]
    fn end(&self, group: u32) -> u32 {
        // SAFETY: obligation 1 of the entries: there is one for each product, and the scheduler asks for no other.
        unsafe { self.0.wrapping_add(group as usize).read() }
    }
}

/// Defines an entry for each tile and type.
macro_rules! entries {
    ($($name:ident: $run:ident::<$($arg:literal),*>, $number:ty;)+) => {
    $(
        entry! {
            /// # Safety
            /// 1. The maps describe A, B and C as `gemm_spec::tensor` says for `major_flags` and this tile;
            ///    `c` is valid for m by n elements at `ldc`, overlaps nothing else and nobody else uses
            ///    it; what the epilogue reads or writes by `fusion` is valid, and `old` may be `c`. `ends` is
            ///    null or valid for as many numbers as there are products, and nobody writes them.
            /// 2. The launch has the block, the shared memory and at most the blocks of the kernel's
            ///    spec, with m, n >= 1 and fewer than 2^31 tiles.
            pub unsafe fn $name(params: TmaParams<f32>) {
                // The maps by their addresses: a copy in local memory is none that TMA reads.
                let TmaParams { m, n, k, alpha, major_flags, beta, c, ldc, tma_store, .. } = params;
                let TmaParams { products, a_step, b_step, c_stride, ends, .. } = params;
                let launch = Launch::<$number> {
                    a_map: tensor_map!(stringify!($name), 0),
                    b_map: tensor_map!(stringify!($name), 1),
                    c_map: tensor_map!(stringify!($name), 2),
                    m,
                    n,
                    k,
                    alpha,
                    major_flags,
                    beta,
                    // SAFETY: obligation 1.
                    c: unsafe { global_mut(c) }.cast(),
                    ldc,
                    tma_store,
                    products,
                    a_step,
                    b_step,
                    c_stride,
                    // SAFETY: obligation 1.
                    ends: (!ends.is_null()).then(|| Ends(unsafe { global(ends) })),
                    // SAFETY: obligation 1.
                    finish: unsafe { Finish::new(&params) },
                };
                // SAFETY: the obligations are the same.
                unsafe { launch.$run::<$($arg),*>() };
            }
        }
    )+

        /// The entries as functions for the emulator.
        #[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
        pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] =
            crate::parts::entries::emulated!(Tma(TmaParams): $($name),+);
    };
}

entries! {
    tensor_64x128_f16: run_single_stage::<>, F16;
    tensor_64x128_bf16: run_single_stage::<>, Bf16;
    tensor_64x128_f16_f32: run_single_stage::<>, Wide<F16>;
    tensor_64x128_bf16_f32: run_single_stage::<>, Wide<Bf16>;
    tensor_64x64_f16: run_small_tile::<>, F16;
    tensor_64x64_bf16: run_small_tile::<>, Bf16;
    tensor_64x64_f16_f32: run_small_tile::<>, Wide<F16>;
    tensor_64x64_bf16_f32: run_small_tile::<>, Wide<Bf16>;
    tensor_batch_128x128_f16: run_batch::<8, false>, F16;
    tensor_batch_128x128_bf16: run_batch::<8, false>, Bf16;
    tensor_batch_128x128_f16_f32: run_batch::<8, false>, Wide<F16>;
    tensor_batch_128x128_bf16_f32: run_batch::<8, false>, Wide<Bf16>;
    tensor_groups_128x128_f16: run_batch::<8, true>, F16;
    tensor_groups_128x128_bf16: run_batch::<8, true>, Bf16;
    tensor_groups_128x128_f16_f32: run_batch::<8, true>, Wide<F16>;
    tensor_groups_128x128_bf16_f32: run_batch::<8, true>, Wide<Bf16>;
    tensor_groups_128x256_f16: run_batch::<16, true>, F16;
    tensor_groups_128x256_bf16: run_batch::<16, true>, Bf16;
    tensor_groups_128x256_f16_f32: run_batch::<16, true>, Wide<F16>;
    tensor_groups_128x256_bf16_f32: run_batch::<16, true>, Wide<Bf16>;
    tensor_128x128_f16: run::<8>, F16;
    tensor_128x128_bf16: run::<8>, Bf16;
    tensor_128x128_f16_f32: run::<8>, Wide<F16>;
    tensor_128x128_bf16_f32: run::<8>, Wide<Bf16>;
    tensor_128x160_f16: run_ranges::<10>, F16;
    tensor_128x160_bf16: run_ranges::<10>, Bf16;
    tensor_128x160_f16_f32: run_ranges::<10>, Wide<F16>;
    tensor_128x160_bf16_f32: run_ranges::<10>, Wide<Bf16>;
    tensor_128x192_f16: run::<12>, F16;
    tensor_128x192_bf16: run::<12>, Bf16;
    tensor_128x192_f16_f32: run::<12>, Wide<F16>;
    tensor_128x192_bf16_f32: run::<12>, Wide<Bf16>;
    tensor_128x256_f16: run::<16>, F16;
    tensor_128x256_bf16: run::<16>, Bf16;
    tensor_128x256_f16_f32: run::<16>, Wide<F16>;
    tensor_128x256_bf16_f32: run::<16>, Wide<Bf16>;
    tensor_pair_128x192_f16: run_pair::<12>, F16;
    tensor_pair_128x192_bf16: run_pair::<12>, Bf16;
    tensor_pair_128x192_f16_f32: run_pair::<12>, Wide<F16>;
    tensor_pair_128x192_bf16_f32: run_pair::<12>, Wide<Bf16>;
    tensor_pair_128x256_f16: run_pair::<16>, F16;
    tensor_pair_128x256_bf16: run_pair::<16>, Bf16;
    tensor_pair_128x256_f16_f32: run_pair::<16>, Wide<F16>;
    tensor_pair_128x256_bf16_f32: run_pair::<16>, Wide<Bf16>;
    tensor_pingpong_64x256_f16: run_pingpong::<1, 16>, F16;
    tensor_pingpong_64x256_bf16: run_pingpong::<1, 16>, Bf16;
    tensor_pingpong_64x256_f16_f32: run_pingpong::<1, 16>, Wide<F16>;
    tensor_pingpong_64x256_bf16_f32: run_pingpong::<1, 16>, Wide<Bf16>;
    tensor_pingpong_128x128_f16: run_pingpong::<2, 8>, F16;
    tensor_pingpong_128x128_bf16: run_pingpong::<2, 8>, Bf16;
    tensor_pingpong_128x128_f16_f32: run_pingpong::<2, 8>, Wide<F16>;
    tensor_pingpong_128x128_bf16_f32: run_pingpong::<2, 8>, Wide<Bf16>;
    tensor_split_64x64_f16: run_split::<1, 4, 2, true>, F16;
    tensor_split_64x64_bf16: run_split::<1, 4, 2, true>, Bf16;
    tensor_split_64x64_f16_f32: run_split::<1, 4, 2, true>, Wide<F16>;
    tensor_split_64x64_bf16_f32: run_split::<1, 4, 2, true>, Wide<Bf16>;
    tensor_split_64x128_f16: run_split::<2, 4, 1, true>, F16;
    tensor_split_64x128_bf16: run_split::<2, 4, 1, true>, Bf16;
    tensor_split_64x128_f16_f32: run_split::<2, 4, 1, true>, Wide<F16>;
    tensor_split_64x128_bf16_f32: run_split::<2, 4, 1, true>, Wide<Bf16>;
    tensor_split_128x64_f16: run_split::<1, 8, 1, true>, F16;
    tensor_split_128x64_bf16: run_split::<1, 8, 1, true>, Bf16;
    tensor_split_128x64_f16_f32: run_split::<1, 8, 1, true>, Wide<F16>;
    tensor_split_128x64_bf16_f32: run_split::<1, 8, 1, true>, Wide<Bf16>;
    tensor_split_128x128_f16: run_split::<2, 8, 1, false>, F16;
    tensor_split_128x128_bf16: run_split::<2, 8, 1, false>, Bf16;
    tensor_split_128x128_f16_f32: run_split::<2, 8, 1, false>, Wide<F16>;
    tensor_split_128x128_bf16_f32: run_split::<2, 8, 1, false>, Wide<Bf16>;
}

impl<N: Number> Launch<N> {
    /// The same of a kernel that does not [fuse](gemm_spec::KernelSpec::fuses) an epilogue.
    #[inline(always)]
    pub(super) fn unfused(&self) -> Self {
        Self { finish: Finish { fusion: 0, ..self.finish }, ..*self }
    }

    /// Prefetches the tensor maps.
    ///
    /// # Safety
    /// They are maps.
    #[inline(always)]
    pub(super) unsafe fn prefetch(&self) {
        // SAFETY: it is a map.
        unsafe { tensor::prefetch(self.a_map) };
        // SAFETY: it is a map.
        unsafe { tensor::prefetch(self.b_map) };
        // SAFETY: it is a map.
        unsafe { tensor::prefetch(self.c_map) };
    }

    /// A block's tiles, each with all of k.
    ///
    /// # Safety
    /// The obligations of the entries.
    #[inline(always)]
    unsafe fn run<const N16: usize>(&self)
    where
        N: Wgmma<N16>,
    {
        // SAFETY: the obligations are the same.
        unsafe { self.run_tiles::<N16, false>(self.tiles(Stages::<N16>::TILE_N)) };
    }

    /// A block's tiles of all products of a batch, each with all of k; with `GROUPS` they may have groups of rows.
    ///
    /// # Safety
    /// The obligations of the entries, for maps of rank 3.
    #[inline(always)]
    unsafe fn run_batch<const N16: usize, const GROUPS: bool>(&self)
    where
        N: Wgmma<N16>,
    {
        let ends = if GROUPS { self.ends } else { None };
        let tiles = self.tiles_of_batch((TILE_M, Stages::<N16>::TILE_N), ends);
        // SAFETY: the obligations are the same.
        unsafe { self.run_tiles::<N16, true>(tiles) };
    }

    /// A block's tiles, each with the range of k that the block's row of the grid has. With several rows each
    /// range's sums are written to a matrix of its own.
    ///
    /// # Safety
    /// The obligations of the entries, where with several rows of blocks `c` is valid for as many matrices of m
    /// rows at `ldc`.
    #[inline(always)]
    unsafe fn run_ranges<const N16: usize>(&self)
    where
        N: Wgmma<N16>,
    {
        let tiles = SplitK::new(this_cta(), self.tiles(Stages::<N16>::TILE_N), BLOCK_K);
        // SAFETY: the obligations are the same.
        unsafe { self.unfused().run_tiles::<N16, false>(tiles) };
    }

    /// The tiles of a scheduler; with `BATCH` they may be of several products, and the maps are of rank 3.
    ///
    /// # Safety
    /// The obligations of the entries; nobody else has the tiles.
    #[inline(always)]
    unsafe fn run_tiles<const N16: usize, const BATCH: bool>(
        &self,
        tiles: impl TileScheduler + Copy,
    ) where
        N: Wgmma<N16>,
    {
        let linear = thread::thread_idx_x();
        // Uniform across a warpgroup, and known to be uniform in a warp.
        // SAFETY: all lanes are here.
        let warpgroup_idx = unsafe { warp::shuffle_idx(warp::FULL, linear / THREADS, 0) };
        // SAFETY: obligation 2 gives the bytes; the barriers separate writes and reads.
        let mut pipe = PipelineState::<N16>::new(unsafe { pipeline::smem() });
        if linear == 0 {
            // SAFETY: obligation 1.
            unsafe { self.prefetch() };
            // SAFETY: one thread; nobody uses the barriers before the barrier below.
            unsafe { pipe.init_barriers(1, CONSUMERS) };
        }
        // SAFETY: all threads of the block are here.
        unsafe { thread::sync_threads() };

        if warpgroup_idx == 0 {
            // SAFETY: the whole warpgroup is here and needs no more registers.
            unsafe { registers::reg_dealloc::<PRODUCER_REGISTERS>() };
            if linear == 0 {
                // SAFETY: one thread; the consumers consume as many stages as it loads.
                unsafe { self.producer_loop::<N16, BATCH>(&mut pipe, TILE_M, tiles) };
            }
            return;
        }
        // SAFETY: the whole warpgroup is here; the producer's has released what the pool lacks.
        unsafe { registers::reg_alloc::<CONSUMER_REGISTERS>() };
        // SAFETY: the barrier is initialised and expects this warpgroup.
        let release = |empty| unsafe { mbarrier::arrive(empty) };
        // SAFETY: the whole warpgroup is here; the producer visits the same tiles.
        unsafe { self.consumer_loop::<N16, BATCH>(&mut pipe, warpgroup_idx - 1, tiles, release) };
        // TMA stores under way read this block's shared memory.
        bulk::wait_group_read::<0>();
    }

    /// The loop of consumer warpgroup `consumer_idx`: mainloop and epilogue of its part of each tile.
    ///
    /// # Safety
    /// The whole warpgroup calls it; the producer loads the stages of the same tiles, and `release`
    /// arrives at the `empty` barrier that it is given.
    #[inline(always)]
    pub(super) unsafe fn consumer_loop<const N16: usize, const BATCH: bool>(
        &self,
        pipe: &mut PipelineState<N16>,
        consumer_idx: u32,
        mut tiles: impl TileScheduler,
        release: impl Fn(SharedAddress<Barrier>) + Copy,
    ) where
        N: Wgmma<N16>,
    {
        let offset = PIPELINE_BYTES + consumer_idx * STAGING_EACH * STAGING_BYTES;
        // SAFETY: as in the caller.
        let staging = unsafe { pipeline::smem() }.wrapping_add(offset as usize);
        while tiles.has_work() {
            let tile = tiles.tile();
            tiles.advance();
            let k_tiles = ceil_div(tile.k_len, BLOCK_K);
            let (row0, col0) =
                (first_row::<BATCH>(&tile, TILE_M), tile.col * Stages::<N16>::TILE_N);
            let in_groups = BATCH && tile.rows.1 != u32::MAX;
            if in_groups && row0 + consumer_idx * INSTRUCTION_M >= tile.rows.1 {
                // SAFETY: the whole warpgroup is here, and as many stages are loaded for this tile.
                unsafe { pass_over(pipe, k_tiles, release) };
                continue;
            }
            // The majorness of the operands is part of the instruction, so each combination has its
            // own loop.
            //
            // The whole warpgroup is here, and `k_tiles` stages are loaded for this tile.
            let acc = match self.major_flags {
                // SAFETY: as said; both are K-major.
                0 => unsafe {
                    mainloop::<N, N16, false, false>(pipe, consumer_idx, k_tiles, release)
                },
                // SAFETY: as said; A is MN-major.
                A_MN_MAJOR => unsafe {
                    mainloop::<N, N16, true, false>(pipe, consumer_idx, k_tiles, release)
                },
                // SAFETY: as said; B is MN-major.
                B_MN_MAJOR => unsafe {
                    mainloop::<N, N16, false, true>(pipe, consumer_idx, k_tiles, release)
                },
                // SAFETY: as said; both are MN-major.
                _ => unsafe {
                    mainloop::<N, N16, true, true>(pipe, consumer_idx, k_tiles, release)
                },
            };
            let place = (row0 + consumer_idx * INSTRUCTION_M, col0);
            let mut epilogue = self.epilogue(place, consumer_idx, staging);
            let apart = u64::from(self.m) * self.ldc;
            epilogue.c = epilogue.c.wrapping_add((u64::from(tile.range) * apart) as usize);
            let mut tma_store = self.tma_store != 0;
            if BATCH {
                epilogue = epilogue.of_product(tile.batch, self.c_stride, tile.rows.1);
                tma_store &= epilogue.ends_with_c(self.m);
            }
            if !N16.is_multiple_of(N16_OF_SUBTILE) {
                epilogue.n = epilogue.n.min(col0 + Stages::<N16>::TILE_N);
            }
            // SAFETY: obligation 1; this block alone has the tile, this warpgroup these rows.
            unsafe { epilogue.store::<N16, BATCH>(tma_store, &acc) };
        }
    }

    /// The epilogue of consumer warpgroup `consumer_idx`, whose part of C begins at a row and a
    /// column and whose staging buffers are at `staging`.
    #[inline(always)]
    pub(super) fn epilogue(
        &self,
        (row0, col0): (u32, u32),
        consumer_idx: u32,
        staging: Shared<u8>,
    ) -> Epilogue<N> {
        Epilogue {
            map: self.c_map,
            m: self.m,
            n: self.n,
            alpha: self.alpha,
            beta: self.beta,
            c: self.c,
            ldc: self.ldc,
            row0,
            col0,
            batch: 0,
            finish: self.finish,
            thread_in_warpgroup: thread::thread_idx_x() % THREADS,
            staging_address: SharedAddress::new(staging),
            staging,
            barrier: 1 + consumer_idx,
        }
    }

    /// C in tiles of that many rows and columns.
    #[inline(always)]
    pub(super) fn extent(&self, tile: (u32, u32)) -> Extent {
        Extent { m: self.m, n: self.n, k: self.k, tile }
    }

    /// The tiles of this block, of width `tile_n`.
    #[inline(always)]
    fn tiles(&self, tile_n: u32) -> Persistent {
        Persistent::new(this_cta(), self.extent((TILE_M, tile_n)), GROUP_ROWS)
    }

    /// The tiles of this block of all products of a batch, of that many rows and columns.
    #[inline(always)]
    pub(super) fn tiles_of_batch(
        &self,
        tile: (u32, u32),
        ends: Option<Ends>,
    ) -> PersistentBatch<Ends> {
        PersistentBatch::new(this_cta(), self.extent(tile), GROUP_ROWS, self.products, ends)
    }

    /// The producer loop: loads all tiles that the block needs, of `tile_m` rows, one stage after the other.
    ///
    /// # Safety
    /// One thread calls it, and the consumers consume what it loads.
    #[inline(always)]
    pub(super) unsafe fn producer_loop<const N16: usize, const BATCH: bool>(
        &self,
        pipe: &mut PipelineState<N16>,
        tile_m: u32,
        mut tiles: impl TileScheduler,
    ) {
        let a_mn_major = self.major_flags & A_MN_MAJOR != 0;
        let b_mn_major = self.major_flags & B_MN_MAJOR != 0;
        let tile_n = Stages::<N16>::TILE_N;
        let b_bytes =
            if b_mn_major { Stages::<N16>::B_N_MAJOR_BYTES } else { Stages::<N16>::B_BYTES };
        while tiles.has_work() {
            let tile = tiles.tile();
            tiles.advance();
            let (row0, col0) = (first_row::<BATCH>(&tile, tile_m), tile.col * tile_n);
            let (mut k0, end) = (tile.k0, tile.k0 + tile.k_len);
            while k0 < end {
                // SAFETY: one thread fills the pipeline, and these are the bytes of the boxes.
                unsafe { pipe.producer_acquire_for(tile_m * ROW_BYTES + b_bytes) };
                let (to, arrive) = (pipe.tile(), pipe.full_barrier());
                let place = (a_mn_major, (row0, tile_m), k0);
                let a = (self.a_map, tile.batch * self.a_step);
                // SAFETY: the stage is empty after the acquire, so nobody reads what is overwritten.
                unsafe { load_tile_of::<BATCH>(a, to, place, arrive) };
                let to = to.wrapping_add(A_BYTES as usize);
                let place = (b_mn_major, (col0, tile_n), k0);
                let b = (self.b_map, tile.batch * self.b_step);
                // SAFETY: as above; B's tile is behind A's.
                unsafe { load_tile_of::<BATCH>(b, to, place, arrive) };
                pipe.advance();
                k0 += BLOCK_K;
            }
        }
    }
}

/// The first row of C of a tile of `tile_m` rows; only with `BATCH` there may be some before row 0 of tiles.
#[inline(always)]
pub(super) fn first_row<const BATCH: bool>(tile: &WorkTile, tile_m: u32) -> u32 {
    let row = tile.row * tile_m;
    if BATCH { tile.rows.0 + row } else { row }
}

/// Starts the TMA loads of one operand's tile: `count` rows of A or columns of B from `first` on,
/// and the [`BLOCK_K`] elements along k from `k0` on.
///
/// # Safety
/// Those of [`tensor::load`], for a tile of `count * ROW_BYTES` bytes.
#[inline(always)]
pub(super) unsafe fn load_tile(
    map: MapAddress,
    mn_major: bool,
    to: SharedAddress<u8>,
    (first, count): (u32, u32),
    k0: u32,
    arrive: SharedAddress<Barrier>,
) {
    for_each_box(mn_major, to, (first, count), k0, |to, x, y| {
        // SAFETY: the caller's promise: the boxes are contiguous and fill the tile.
        unsafe { tensor::load(to, map, x, y, arrive) };
    });
}

/// As [`load_tile`]; with `BATCH` of a matrix of a map of rank 3.
///
/// # Safety
/// Those of [`load_tile`].
#[inline(always)]
pub(super) unsafe fn load_tile_of<const BATCH: bool>(
    (map, matrix): (MapAddress, u32),
    to: SharedAddress<u8>,
    (mn_major, lines, k0): (bool, (u32, u32), u32),
    arrive: SharedAddress<Barrier>,
) {
    if !BATCH {
        // SAFETY: the obligations are the same.
        unsafe { load_tile(map, mn_major, to, lines, k0, arrive) };
        return;
    }
    for_each_box(mn_major, to, lines, k0, |to, x, y| {
        // SAFETY: the caller's promise: the boxes are contiguous and fill the tile.
        unsafe { tensor::load_3d(to, map, [x, y, matrix], arrive) };
    });
}

/// Calls `copy` for each box of one operand's tile, as in [`load_tile`], with its destination and
/// its first coordinates in the map.
#[inline(always)]
pub(super) fn for_each_box(
    mn_major: bool,
    to: SharedAddress<u8>,
    (first, count): (u32, u32),
    k0: u32,
    copy: impl Fn(SharedAddress<u8>, u32, u32),
) {
    if !mn_major {
        copy(to, k0, first);
        return;
    }
    let mut done = 0;
    while done < count {
        let to = to.wrapping_add((done / BOX_WIDTH * BOX_BYTES) as usize);
        copy(to, first + done, k0);
        done += BOX_WIDTH;
    }
}

/// The mainloop of one tile: the product of consumer warpgroup `consumer_idx`'s 64 rows of A's
/// tiles and B's tiles, accumulated over `k_tiles` stages.
///
/// One group of `wgmma`s is in flight while the next is issued; a stage is released once the group
/// after it has been issued and its own has completed: one thread calls `release` with its `empty`
/// barrier.
///
/// # Safety
/// All threads of the warpgroup call it together; the producer loads `k_tiles` stages for it.
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "waits, products and releases in the order that makes each of them sound"
)]
pub(super) unsafe fn mainloop<
    N: Wgmma<N16>,
    const N16: usize,
    const A_MN_MAJOR: bool,
    const B_MN_MAJOR: bool,
>(
    pipe: &mut PipelineState<N16>,
    consumer_idx: u32,
    k_tiles: u32,
    release: impl Fn(SharedAddress<Barrier>),
) -> Accumulators<N16> {
    let mut acc = [[0.0f32; 8]; N16];
    if k_tiles == 0 {
        return acc;
    }
    let leader = thread::thread_idx_x().is_multiple_of(THREADS);
    // SAFETY: a stage is full after the wait, and unchanged until this warpgroup's release, which
    // comes after its products have completed.
    unsafe {
        pipe.consumer_wait();
        mma_stage::<N, N16, A_MN_MAJOR, B_MN_MAJOR, false>(pipe, consumer_idx, &mut acc);
        let mut before = pipe.empty_barrier();
        pipe.advance();
        let mut tile = 1;
        while tile < k_tiles {
            pipe.consumer_wait();
            mma_stage::<N, N16, A_MN_MAJOR, B_MN_MAJOR, true>(pipe, consumer_idx, &mut acc);
            N::wait::<1>(&mut acc);
            if leader {
                release(before);
            }
            before = pipe.empty_barrier();
            pipe.advance();
            tile += 1;
        }
        N::wait::<0>(&mut acc);
        if leader {
            release(before);
        }
    }
    acc
}

/// Waits for the stages of a tile of which the warpgroup has no rows, and releases them: its share of the tensor cores
/// is the other warpgroup's.
///
/// # Safety
/// As of [`mainloop`].
#[inline(always)]
unsafe fn pass_over<const N16: usize>(
    pipe: &mut PipelineState<N16>,
    k_tiles: u32,
    release: impl Fn(SharedAddress<Barrier>),
) {
    let leader = thread::thread_idx_x().is_multiple_of(THREADS);
    let mut tile = 0;
    while tile < k_tiles {
        // SAFETY: the producer fills the stage.
        unsafe { pipe.consumer_wait() };
        if leader {
            release(pipe.empty_barrier());
        }
        pipe.advance();
        tile += 1;
    }
}

/// Issues the `wgmma`s of one stage as a group. With `ADD` false the accumulators start from zero.
///
/// # Safety
/// All threads of the warpgroup call it together; the stage is full, and unchanged until a wait.
#[inline(always)]
unsafe fn mma_stage<
    N: Wgmma<N16>,
    const N16: usize,
    const A_MN_MAJOR: bool,
    const B_MN_MAJOR: bool,
    const ADD: bool,
>(
    pipe: &PipelineState<N16>,
    consumer_idx: u32,
    acc: &mut Accumulators<N16>,
) {
    // 64 rows of a K-major tile have as many bytes as a box of 64 along m.
    let a_at = pipe.tile().wrapping_add((consumer_idx * INSTRUCTION_M * ROW_BYTES) as usize);
    let b_at = pipe.tile().wrapping_add(A_BYTES as usize);
    // SAFETY: the caller's promises.
    unsafe { mma_k_block::<N, N16, A_MN_MAJOR, B_MN_MAJOR, ADD>(a_at, b_at, acc) };
}

/// Issues the `wgmma`s of 64 rows of A and a tile of B, given by their addresses in shared memory,
/// as a group. With `ADD` false the accumulators start from zero.
///
/// # Safety
/// All threads of the warpgroup call it together; both tiles have [`BLOCK_K`] elements along k and
/// are unchanged until a wait.
#[inline(always)]
#[expect(clippy::multiple_unsafe_ops_per_block, reason = "instructions of one group on one stage")]
pub(super) unsafe fn mma_k_block<
    N: Wgmma<N16>,
    const N16: usize,
    const A_MN_MAJOR: bool,
    const B_MN_MAJOR: bool,
    const ADD: bool,
>(
    a_at: SharedAddress<u8>,
    b_at: SharedAddress<u8>,
    acc: &mut Accumulators<N16>,
) {
    let (a, a_step) = if A_MN_MAJOR {
        (mn_major_descriptor(a_at.get(), BOX_BYTES), K_ADVANCE_MN_MAJOR)
    } else {
        (k_major_descriptor(a_at.get()), K_ADVANCE)
    };
    let (b, b_step) = if B_MN_MAJOR {
        (mn_major_descriptor(b_at.get(), BOX_BYTES), K_ADVANCE_MN_MAJOR)
    } else {
        (k_major_descriptor(b_at.get()), K_ADVANCE)
    };
    let (a, b) = (Descriptor::from_bits(a), Descriptor::from_bits(b));
    const _: () = assert!(BLOCK_K / INSTRUCTION_K == 4);
    // SAFETY: the whole warpgroup is here; the stage is full, unchanged until a wait, and the descriptors stay
    // within it.
    unsafe {
        N::arrive_mma::<ADD, A_MN_MAJOR, B_MN_MAJOR>(acc, a, b);
        N::mma::<A_MN_MAJOR, B_MN_MAJOR>(acc, a + a_step, b + b_step);
        N::mma::<A_MN_MAJOR, B_MN_MAJOR>(acc, a + 2 * a_step, b + 2 * b_step);
        N::mma::<A_MN_MAJOR, B_MN_MAJOR>(acc, a + 3 * a_step, b + 3 * b_step);
        wgmma::commit_group();
    }
}
