//! The entries, and what the warpgroups of a block do.

use cuda_std::arch::sm90::mbarrier::Barrier;
use cuda_std::arch::sm90::tensor::{MapAddress, TensorMap};
use cuda_std::arch::sm90::wgmma::Descriptor;
use cuda_std::arch::sm90::{bulk, mbarrier, registers, tensor, wgmma};
use cuda_std::memory::{GlobalMut, Shared, SharedAddress};
use cuda_std::{tensor_map, thread, warp};
use gemm_spec::index::{ceil_div, grouped_tile};
use gemm_spec::tensor::{A_MN_MAJOR, B_MN_MAJOR, BLOCK_K, BOX_WIDTH};
use gemm_spec::warpgroup::{
    INSTRUCTION_K, INSTRUCTION_M, K_ADVANCE, K_ADVANCE_MN_MAJOR, ROW_BYTES, THREADS,
    k_major_descriptor, mn_major_descriptor,
};

use super::number::{Accumulators, Bf16, F16, Number, Products, Wide};
use super::store::Store;
use super::{CONSUMERS, GROUP_ROWS, PIECE_BYTES, PIECES, PIECES_EACH, PIPELINE_BYTES, TILE_M};
use crate::parts::pipeline::{self, Pipeline};

/// Registers of a thread that brings tiles, and of one that multiplies them.
pub(super) const PRODUCER_REGISTERS: u32 = 24;
pub(super) const CONSUMER_REGISTERS: u32 = 240;
/// Bytes of a box of 64 elements and 64 lines.
const BOX_BYTES: u32 = BOX_WIDTH * BLOCK_K * 2;
/// Bytes of a stage's tile of A.
pub(super) const A_BYTES: u32 = TILE_M * ROW_BYTES;

/// The ring of a kernel whose threads hold `8 * EIGHTS` sums: its tile of C has `16 * EIGHTS` columns.
pub(super) struct Stages<const EIGHTS: usize>;

impl<const EIGHTS: usize> Stages<EIGHTS> {
    pub(super) const TILE_N: u32 = 16 * EIGHTS as u32;
}

impl<const EIGHTS: usize> Pipeline for Stages<EIGHTS> {
    const STAGES: u32 = PIPELINE_BYTES / Self::STAGE_BYTES;
    const STAGE_BYTES: u32 = A_BYTES + Self::TILE_N * ROW_BYTES;
    // The pieces are between the stages and the barriers.
    const BARRIER_OFFSET: u32 = PIPELINE_BYTES + PIECES * PIECE_BYTES;
}

/// Where in that ring a warpgroup is.
pub(super) type PipelineState<const EIGHTS: usize> = pipeline::PipelineState<Stages<EIGHTS>>;

/// What a launch passes.
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
}

/// Defines an entry for each tile and type.
macro_rules! entries {
    ($($name:ident: $run:ident::<$($eights:literal)?>, $number:ty;)+) => {$(
        /// # Safety
        /// 1. The maps describe A, B and C as `gemm_spec::tensor` says for `major_flags` and this tile; `c`
        ///    is valid for m by n elements at `ldc`, overlaps nothing else and nobody else uses it.
        /// 2. The launch has the block, the shared memory and at most the blocks of the kernel's spec,
        ///    with m, n >= 1 and fewer than 2^31 tiles.
        #[cuda_std::kernel]
        #[expect(clippy::too_many_arguments, reason = "the parameters of an entry")]
        #[expect(unreachable_pub, reason = "an entry is reached through its symbol")]
        pub unsafe fn $name(
            _a_map: TensorMap,
            _b_map: TensorMap,
            _c_map: TensorMap,
            m: u32,
            n: u32,
            k: u32,
            alpha: f32,
            major_flags: u32,
            beta: f32,
            c: GlobalMut<<$number as Number>::Stored>,
            ldc: u64,
            tma_store: u32,
        ) {
            let a_map = tensor_map!(stringify!($name), 0);
            let b_map = tensor_map!(stringify!($name), 1);
            let c_map = tensor_map!(stringify!($name), 2);
            let launch = Launch::<$number> {
                a_map, b_map, c_map, m, n, k, alpha, major_flags, beta, c, ldc, tma_store,
            };
            // SAFETY: the obligations are the same.
            unsafe { launch.$run::<$($eights)?>() };
        }
    )+};
}

entries! {
    tensor_64x128_f16: stage_by_stage::<>, F16;
    tensor_64x128_bf16: stage_by_stage::<>, Bf16;
    tensor_64x128_f16_f32: stage_by_stage::<>, Wide<F16>;
    tensor_64x128_bf16_f32: stage_by_stage::<>, Wide<Bf16>;
    tensor_128x128_f16: run::<8>, F16;
    tensor_128x128_bf16: run::<8>, Bf16;
    tensor_128x128_f16_f32: run::<8>, Wide<F16>;
    tensor_128x128_bf16_f32: run::<8>, Wide<Bf16>;
    tensor_128x256_f16: run::<16>, F16;
    tensor_128x256_bf16: run::<16>, Bf16;
    tensor_128x256_f16_f32: run::<16>, Wide<F16>;
    tensor_128x256_bf16_f32: run::<16>, Wide<Bf16>;
    tensor_pair_128x256_f16: in_pairs::<>, F16;
    tensor_pair_128x256_bf16: in_pairs::<>, Bf16;
    tensor_pair_128x256_f16_f32: in_pairs::<>, Wide<F16>;
    tensor_pair_128x256_bf16_f32: in_pairs::<>, Wide<Bf16>;
}

impl<N: Number> Launch<N> {
    /// Lets the copy engine fetch the maps before its first copies.
    ///
    /// # Safety
    /// They are maps.
    #[inline(always)]
    pub(super) unsafe fn prefetch(&self) {
        // SAFETY: the caller's promise.
        unsafe {
            tensor::prefetch(self.a_map);
            tensor::prefetch(self.b_map);
            tensor::prefetch(self.c_map);
        }
    }

    /// # Safety
    /// The obligations of the entries.
    #[inline(always)]
    unsafe fn run<const EIGHTS: usize>(&self)
    where
        N: Products<EIGHTS>,
    {
        let linear = thread::thread_idx_x();
        // The same in all threads of a warpgroup, and known to be the same in a warp.
        // SAFETY: all lanes are here.
        let group = unsafe { warp::shuffle_idx(warp::FULL, linear / THREADS, 0) };
        // SAFETY: obligation 2 gives the bytes; the barriers keep writes and reads apart.
        let mut pipe = PipelineState::<EIGHTS>::new(unsafe { pipeline::smem() });
        if linear == 0 {
            // SAFETY: obligation 1; the barrier below.
            unsafe {
                self.prefetch();
                pipe.init_barriers(CONSUMERS);
            }
        }
        // SAFETY: all threads of the block are here.
        unsafe { thread::sync_threads() };

        if group == 0 {
            // SAFETY: the whole warpgroup is here, and needs no more.
            unsafe { registers::reg_dealloc::<PRODUCER_REGISTERS>() };
            if linear == 0 {
                // SAFETY: one thread; the consumers take as many stages as it brings.
                unsafe { self.bring_all(&mut pipe) };
            }
            return;
        }
        // SAFETY: the whole warpgroup is here; the first has released what is missing.
        unsafe { registers::reg_alloc::<CONSUMER_REGISTERS>() };
        // SAFETY: the barrier is set, and waits for this warpgroup.
        let release = |empty| unsafe { mbarrier::arrive(empty) };
        let mut tiles = self.tiles(Stages::<EIGHTS>::TILE_N);
        // SAFETY: the whole warpgroup is here; the producer goes through the same tiles.
        unsafe { self.consume(&mut pipe, group - 1, || tiles.next(), release) };
        // What is on its way reads this block's shared memory.
        bulk::wait_group_read::<0>();
    }

    /// What a warpgroup that multiplies does, number `own` of those of its block: its part of one tile after
    /// the other, each given by its first row and column.
    ///
    /// # Safety
    /// The whole warpgroup calls it; as many stages come as the tiles take, and `release` hands back the
    /// stage of an `empty` barrier.
    #[inline(always)]
    pub(super) unsafe fn consume<const EIGHTS: usize>(
        &self,
        pipe: &mut PipelineState<EIGHTS>,
        own: u32,
        mut next_tile: impl FnMut() -> Option<(u32, u32)>,
        release: impl Fn(SharedAddress<Barrier>) + Copy,
    ) where
        N: Products<EIGHTS>,
    {
        let pieces = (PIPELINE_BYTES + own * PIECES_EACH * PIECE_BYTES) as usize;
        // SAFETY: as in the caller.
        let place = unsafe { pipeline::smem() }.wrapping_add(pieces);
        let k_tiles = ceil_div(self.k, BLOCK_K);
        while let Some((row0, col0)) = next_tile() {
            // Which way the operands lie is a part of the instruction, so each has a loop of its own.
            // SAFETY: the whole warpgroup is here; `k_tiles` stages come for this tile.
            let sums = unsafe {
                match self.major_flags {
                    0 => multiply::<N, EIGHTS, false, false>(pipe, own, k_tiles, release),
                    A_MN_MAJOR => multiply::<N, EIGHTS, true, false>(pipe, own, k_tiles, release),
                    B_MN_MAJOR => multiply::<N, EIGHTS, false, true>(pipe, own, k_tiles, release),
                    _ => multiply::<N, EIGHTS, true, true>(pipe, own, k_tiles, release),
                }
            };
            let store = self.store((row0 + own * INSTRUCTION_M, col0), own, place);
            // SAFETY: obligation 1; this block alone has the tile, this warpgroup these rows.
            unsafe {
                if self.tma_store != 0 {
                    store.tma_store(&sums);
                } else {
                    store.direct(&sums);
                }
            }
        }
    }

    /// How the part of C from a row and a column on is stored by warpgroup `own`, whose pieces of shared
    /// memory are at `place`.
    #[inline(always)]
    pub(super) fn store(&self, (row0, col0): (u32, u32), own: u32, place: Shared<u8>) -> Store<N> {
        Store {
            map: self.c_map,
            m: self.m,
            n: self.n,
            alpha: self.alpha,
            beta: self.beta,
            c: self.c,
            ldc: self.ldc,
            row0,
            col0,
            member: thread::thread_idx_x() % THREADS,
            pieces: SharedAddress::new(place),
            place,
            barrier: 1 + own,
        }
    }

    /// The tiles of this block, whose width is `tile_n`.
    #[inline(always)]
    fn tiles(&self, tile_n: u32) -> Tiles {
        let (tiles_m, tiles_n) = (ceil_div(self.m, TILE_M), ceil_div(self.n, tile_n));
        Tiles { tiles_m, tiles_n, tile_n, block: thread::block_idx_x() }
    }

    /// Copies all tiles that the block needs into the ring, one stage after the other.
    ///
    /// # Safety
    /// One thread calls it, and the consumers take what it brings.
    #[inline(always)]
    unsafe fn bring_all<const EIGHTS: usize>(&self, pipe: &mut PipelineState<EIGHTS>) {
        let a_mn_major = self.major_flags & A_MN_MAJOR != 0;
        let b_mn_major = self.major_flags & B_MN_MAJOR != 0;
        let tile_n = Stages::<EIGHTS>::TILE_N;
        let mut tiles = self.tiles(tile_n);
        while let Some((row0, col0)) = tiles.next() {
            let mut step = 0;
            while step < self.k {
                // SAFETY: consumers arrive at `empty` when they have read the stage, and the first
                // round passes, so nobody reads what is overwritten. `full` expects what the boxes
                // bring: they fill the stage.
                unsafe {
                    pipe.producer_acquire();
                    let (to, arrive) = (pipe.tile(), pipe.full_barrier());
                    bring(self.a_map, a_mn_major, to, (row0, TILE_M), step, arrive);
                    let to = to.wrapping_add(A_BYTES as usize);
                    bring(self.b_map, b_mn_major, to, (col0, tile_n), step, arrive);
                }
                pipe.advance();
                step += BLOCK_K;
            }
        }
    }
}

/// The tiles of a block, one after the other.
struct Tiles {
    tiles_m: u32,
    tiles_n: u32,
    tile_n: u32,
    block: u32,
}

impl Tiles {
    /// The first row and column of the next tile.
    #[inline(always)]
    fn next(&mut self) -> Option<(u32, u32)> {
        if self.block >= self.tiles_m * self.tiles_n {
            return None;
        }
        let (row, col) = grouped_tile(self.block, self.tiles_m, self.tiles_n, GROUP_ROWS);
        self.block += thread::grid_dim_x();
        Some((row * TILE_M, col * self.tile_n))
    }
}

/// Starts the copies of one operand's tile: `count` rows of A or columns of B from `first` on, and
/// [`BLOCK_K`] steps of k from `step` on.
///
/// # Safety
/// Those of [`tensor::load`], for a tile of `count * ROW_BYTES` bytes.
#[inline(always)]
pub(super) unsafe fn bring(
    map: MapAddress,
    across: bool,
    to: SharedAddress<u8>,
    (first, count): (u32, u32),
    step: u32,
    arrive: SharedAddress<Barrier>,
) {
    boxes(across, to, (first, count), step, |to, x, y| {
        // SAFETY: the caller's promise: the boxes lie one after the other and fill the tile.
        unsafe { tensor::load(to, map, x, y, arrive) };
    });
}

/// Calls `copy` for each box of one operand's tile, as in [`bring`], with where it goes and its first
/// coordinates in the map.
#[inline(always)]
pub(super) fn boxes(
    across: bool,
    to: SharedAddress<u8>,
    (first, count): (u32, u32),
    step: u32,
    copy: impl Fn(SharedAddress<u8>, u32, u32),
) {
    if !across {
        copy(to, step, first);
        return;
    }
    let mut done = 0;
    while done < count {
        let to = to.wrapping_add((done / BOX_WIDTH * BOX_BYTES) as usize);
        copy(to, first + done, step);
        done += BOX_WIDTH;
    }
}

/// The product of rows `64 * own ..` of A's tiles and B's tiles, summed over `k_tiles` stages.
///
/// While the tensor cores work on one stage the next is issued; a stage is handed back when the group
/// after it is on its way: one thread calls `release` with its `empty` barrier.
///
/// # Safety
/// All threads of the warpgroup call it together; `k_tiles` stages come for it.
#[inline(always)]
pub(super) unsafe fn multiply<
    N: Products<EIGHTS>,
    const EIGHTS: usize,
    const A_MN_MAJOR: bool,
    const B_MN_MAJOR: bool,
>(
    pipe: &mut PipelineState<EIGHTS>,
    own: u32,
    k_tiles: u32,
    release: impl Fn(SharedAddress<Barrier>),
) -> Accumulators<EIGHTS> {
    let mut sums = [[0.0f32; 8]; EIGHTS];
    if k_tiles == 0 {
        return sums;
    }
    let leader = thread::thread_idx_x().is_multiple_of(THREADS);
    // SAFETY: a stage is full after the wait, and stays until this warpgroup's arrival at `empty`,
    // which comes after its products' end.
    unsafe {
        pipe.consumer_wait();
        stage::<N, EIGHTS, A_MN_MAJOR, B_MN_MAJOR, false>(pipe, own, &mut sums);
        let mut before = pipe.empty_barrier();
        pipe.advance();
        let mut tile = 1;
        while tile < k_tiles {
            pipe.consumer_wait();
            stage::<N, EIGHTS, A_MN_MAJOR, B_MN_MAJOR, true>(pipe, own, &mut sums);
            N::wait::<1>(&mut sums);
            if leader {
                release(before);
            }
            before = pipe.empty_barrier();
            pipe.advance();
            tile += 1;
        }
        N::wait::<0>(&mut sums);
        if leader {
            release(before);
        }
    }
    sums
}

/// Issues the products of one stage as a group. With `ADD` false they begin a sum.
///
/// # Safety
/// All threads of the warpgroup call it together; the stage is full and stays until a wait.
#[inline(always)]
unsafe fn stage<
    N: Products<EIGHTS>,
    const EIGHTS: usize,
    const A_MN_MAJOR: bool,
    const B_MN_MAJOR: bool,
    const ADD: bool,
>(
    pipe: &PipelineState<EIGHTS>,
    own: u32,
    sums: &mut Accumulators<EIGHTS>,
) {
    // 64 rows of a k-major tile are as many bytes as a box of 64 along m.
    let a_at = pipe.tile().wrapping_add((own * INSTRUCTION_M * ROW_BYTES) as usize);
    let b_at = pipe.tile().wrapping_add(A_BYTES as usize);
    // SAFETY: the caller's promises.
    unsafe { products::<N, EIGHTS, A_MN_MAJOR, B_MN_MAJOR, ADD>(a_at, b_at, sums) };
}

/// Issues the products of 64 rows of A at one shared-memory address with a tile of B at another as a
/// group. With `ADD` false they begin a sum.
///
/// # Safety
/// All threads of the warpgroup call it together; both tiles have [`BLOCK_K`] steps and stay until a wait.
#[inline(always)]
pub(super) unsafe fn products<
    N: Products<EIGHTS>,
    const EIGHTS: usize,
    const A_MN_MAJOR: bool,
    const B_MN_MAJOR: bool,
    const ADD: bool,
>(
    a_at: SharedAddress<u8>,
    b_at: SharedAddress<u8>,
    sums: &mut Accumulators<EIGHTS>,
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
    // SAFETY: the caller's promises; the descriptors lie in the stage.
    unsafe {
        N::fenced::<ADD, A_MN_MAJOR, B_MN_MAJOR>(sums, a, b);
        N::add::<A_MN_MAJOR, B_MN_MAJOR>(sums, a + a_step, b + b_step);
        N::add::<A_MN_MAJOR, B_MN_MAJOR>(sums, a + 2 * a_step, b + 2 * b_step);
        N::add::<A_MN_MAJOR, B_MN_MAJOR>(sums, a + 3 * a_step, b + 3 * b_step);
        wgmma::commit_group();
    }
}
