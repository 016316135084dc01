//! The product of split operands: a persistent, warp-specialised kernel.

use cuda_std::arch::sm90::{bulk, registers, wgmma};
use cuda_std::memory::{Global, GlobalMut, global, global_mut};
use cuda_std::{thread, warp};
use gemm_spec::epilogue;
use gemm_spec::params::LimbParams;
use gemm_spec::scheduler::{Extent, Persistent, SplitK, TileScheduler};
use gemm_spec::split::{BLOCK_K, PANEL_ROWS, lifted, tiles, unscaled};
use gemm_spec::warpgroup::{INSTRUCTION_M, THREADS, accumulator_coord};

use super::{CONSUMERS, GROUP_ROWS, LimbSplit};
use crate::parts::cta::this_cta;
use crate::parts::pipeline::{self, PipelineState};
use crate::parts::quad::F32Pair;
use crate::parts::unroll::unroll;

/// Registers of a producer thread, and of a consumer thread.
const PRODUCER_REGISTERS: u32 = 40;
const CONSUMER_REGISTERS: u32 = 232;

/// Defines the entry for one kind of limbs.
macro_rules! product_entry {
    ($name:ident: $limbs:ty) => {
        $crate::parts::entries::entry! {
            /// # Safety
            /// 1. The operands are split into `a_limbs` and `b_limbs` as `gemm_spec::split` says, with
            ///    the exponents of m rows and n columns where they are scaled; `c` is valid for a matrix of m
            ///    by n elements at `ldc` for each row of blocks of the grid, overlaps nothing else and nobody
            ///    else writes it; `flags` is valid.
            /// 2. The launch has the block, the shared memory and along x at most the blocks of the kernel's
            ///    spec, along y as many as k has ranges, with m, n, k >= 1 and fewer than 2^31 tiles.
            pub unsafe fn $name(params: LimbParams) {
                // SAFETY: the obligations are the same.
                unsafe { $crate::limbs::product::multiply::<$limbs>(params) };
            }
        }
    };
}
pub(crate) use product_entry;

/// # Safety
/// The obligations of the entries.
#[inline(always)]
pub(crate) unsafe fn multiply<L: LimbSplit>(params: LimbParams) {
    let LimbParams { m, n, k, alpha, beta, ldc, unless, .. } = params;
    // SAFETY: obligation 1, of A's limbs.
    let a_limbs = unsafe { global(params.a_limbs) };
    // SAFETY: obligation 1, of B's limbs.
    let b_limbs = unsafe { global(params.b_limbs) };
    // SAFETY: obligation 1, of C.
    let c = unsafe { global_mut(params.c) };
    // SAFETY: obligation 1, of A's exponents.
    let a_exponents = unsafe { global(params.a_exponents) };
    // SAFETY: obligation 1, of B's exponents.
    let b_exponents = unsafe { global(params.b_exponents) };
    // SAFETY: obligation 1, of the flags.
    let flags = unsafe { global(params.flags) };
    // SAFETY: obligation 1; the helpers before this launch wrote the flags.
    if unsafe { flags.read() } & unless != 0 {
        return;
    }
    let linear = thread::thread_idx_x();
    // Uniform across a warpgroup, and known to be uniform in a warp.
    // SAFETY: all lanes are here.
    let warpgroup_idx = unsafe { warp::shuffle_idx(warp::FULL, linear / THREADS, 0) };
    // SAFETY: obligation 2 gives the bytes; the barriers separate writes and reads.
    let mut pipe = PipelineState::<L>::new(unsafe { pipeline::smem() });
    if linear == 0 {
        // SAFETY: one thread; nobody uses the barriers before the barrier below.
        unsafe { pipe.init_barriers(1, CONSUMERS) };
    }
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };

    let extent = Extent { m, n, k, tile: (PANEL_ROWS, PANEL_ROWS) };
    let whole = Persistent::new(this_cta(), extent, GROUP_ROWS);
    let mut scheduler = SplitK::new(this_cta(), whole, BLOCK_K);
    let k_tiles = tiles(k);
    if warpgroup_idx == 0 {
        // SAFETY: the whole warpgroup is here and needs no more registers.
        unsafe { registers::reg_dealloc::<PRODUCER_REGISTERS>() };
        if linear == 0 {
            while scheduler.has_work() {
                let tile = scheduler.tile();
                let first = (tile.k0 / BLOCK_K) as usize;
                let of_range = |panel: u32| {
                    (panel as usize * k_tiles as usize + first) * L::TILE_BYTES as usize
                };
                let a = a_limbs.wrapping_add(of_range(tile.row));
                let b = b_limbs.wrapping_add(of_range(tile.col));
                // SAFETY: the range's tiles of both panels are in the limbs.
                unsafe { load_tiles(&mut pipe, a, b, tiles(tile.k_len)) };
                scheduler.advance();
            }
        }
    } else {
        // SAFETY: the whole warpgroup is here; the producer's has released what the pool lacks.
        unsafe { registers::reg_alloc::<CONSUMER_REGISTERS>() };
        let (consumer_idx, thread_in_warpgroup) = (warpgroup_idx - 1, linear % THREADS);
        while scheduler.has_work() {
            let tile = scheduler.tile();
            let k_tiles = tiles(tile.k_len);
            let release = |pipe: &PipelineState<L>| {
                if thread_in_warpgroup == 0 {
                    // SAFETY: the products have completed, and with them the warpgroup's reads of the stage.
                    unsafe { pipe.consumer_release() };
                }
            };
            // SAFETY: the producer loads `k_tiles` stages for this tile; a consumer arrives once.
            let total = unsafe { mainloop::<L>(&mut pipe, consumer_idx, k_tiles, |_| (), release) };
            // A range has a matrix of its own.
            let apart = u64::from(tile.range) * u64::from(m) * ldc;
            let store = Store {
                m,
                n,
                alpha,
                beta,
                c: c.wrapping_add(apart as usize),
                ldc,
                a_exponents,
                b_exponents,
                row0: tile.row * PANEL_ROWS + consumer_idx * INSTRUCTION_M,
                col0: tile.col * PANEL_ROWS,
            };
            // SAFETY: obligation 1; this block alone has the tile, this thread these elements.
            unsafe { store.all(thread_in_warpgroup, &total, L::SCALING) };
            scheduler.advance();
        }
    }
}

/// The producer loop of one tile of C: loads the tiles of two panels, one stage after the other.
///
/// # Safety
/// One thread calls it; both panels have `k_tiles` tiles.
#[inline(always)]
unsafe fn load_tiles<L: LimbSplit>(
    pipe: &mut PipelineState<L>,
    mut a: Global<u8>,
    mut b: Global<u8>,
    k_tiles: u32,
) {
    let mut tile = 0;
    while tile < k_tiles {
        // SAFETY: one thread fills the pipeline, and `full` expects the bytes of the two copies.
        unsafe { pipe.producer_acquire() };
        // SAFETY: the stage is empty after the acquire, so nobody reads what is overwritten.
        unsafe { bulk::copy(pipe.tile(), a, L::TILE_BYTES, pipe.full_barrier()) };
        let behind = pipe.tile().wrapping_add(L::TILE_BYTES as usize);
        // SAFETY: as above; B's tile is behind A's.
        unsafe { bulk::copy(behind, b, L::TILE_BYTES, pipe.full_barrier()) };
        a = a.wrapping_add(L::TILE_BYTES as usize);
        b = b.wrapping_add(L::TILE_BYTES as usize);
        pipe.advance();
        tile += 1;
    }
}

/// The mainloop of one tile of C: the sum over k of consumer warpgroup `consumer_idx`'s 64 rows, still scaled where the
/// operands are. Each stage is shown to `see` when it is full, and handed to `release` when it was read.
///
/// # Safety
/// All threads of the warpgroup call it together; the producers fill `k_tiles` stages for it, and `release` has one
/// thread or another arrive as often as the stages' barriers expect of a consumer.
#[inline(always)]
pub(crate) unsafe fn mainloop<L: LimbSplit>(
    pipe: &mut PipelineState<L>,
    consumer_idx: u32,
    k_tiles: u32,
    mut see: impl FnMut(&PipelineState<L>),
    release: impl Fn(&PipelineState<L>),
) -> wgmma::Accumulators<8> {
    let mut total = [[0.0f32; 8]; 8];
    let mut tile = 0;
    while tile < k_tiles {
        let mut acc = [[0.0f32; 8]; 8];
        // SAFETY: the barriers are initialised.
        unsafe { pipe.consumer_wait() };
        see(pipe);
        let a = pipe.tile();
        // SAFETY: the stage is full after the wait, and unchanged until this warpgroup's release. The whole
        // warpgroup is here.
        unsafe { L::mma(&mut acc, a, consumer_idx, a.wrapping_add(L::TILE_BYTES as usize)) };
        // SAFETY: the whole warpgroup is here.
        unsafe { wgmma::commit_group() };
        // SAFETY: the whole warpgroup is here, and the products go to these accumulators.
        unsafe { wgmma::wait_group_n128::<0>(&mut acc) };
        release(pipe);
        pipe.advance();
        tile += 1;
        unroll!(for I in 0..8 {
            unroll!(for J in 0..8 {
                total[I][J] += acc[I][J];
            });
        });
    }
    total
}

/// By how much rows of A and columns of B are scaled whose exponents are known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scaling {
    /// Not at all, and there are no exponents.
    None,
    /// By the exponents.
    Exponents,
    /// By the [`lifted`] ones.
    Lifted,
}

impl Scaling {
    /// Whether they are scaled.
    #[inline(always)]
    pub(crate) const fn is_any(self) -> bool {
        !matches!(self, Self::None)
    }

    /// The exponent by which a row is scaled that has this one.
    #[inline(always)]
    const fn of(self, exponent: i32) -> i32 {
        if matches!(self, Self::Lifted) { lifted(exponent) } else { exponent }
    }
}

/// The epilogue: turns accumulators into elements of C.
pub(crate) struct Store {
    pub(crate) m: u32,
    pub(crate) n: u32,
    pub(crate) alpha: f32,
    pub(crate) beta: f32,
    pub(crate) c: GlobalMut<f32>,
    pub(crate) ldc: u64,
    /// Those of the rows of A and the columns of B, if the limbs are of scaled numbers.
    pub(crate) a_exponents: Global<i32>,
    pub(crate) b_exponents: Global<i32>,
    /// The first row and column of the warpgroup's part of C.
    pub(crate) row0: u32,
    pub(crate) col0: u32,
}

impl Store {
    /// Stores the elements of one thread of the warpgroup.
    ///
    /// # Safety
    /// Obligation 1 of the entry; nobody else has these elements.
    #[inline(always)]
    pub(crate) unsafe fn all(
        &self,
        thread_in_warpgroup: u32,
        total: &wgmma::Accumulators<8>,
        scaling: Scaling,
    ) {
        let (row, col) = accumulator_coord(thread_in_warpgroup, 0);
        let (row, col) = (self.row0 + row, self.col0 + col);
        // All exponents before the first store: the compiler moves no load past a store that might
        // alias it, and each would wait for memory.
        let mut of_cols = [[0i32; 4]; 8];
        unroll!(for I in 0..8 {
            unroll!(for J in 0..4 {
                // Octet 2 I + J / 2 of the columns, neighbour J % 2.
                let col = col + (8 * (2 * I + J / 2) + J % 2) as u32;
                if scaling.is_any() {
                    // SAFETY: there are n exponents.
                    of_cols[I][J] = scaling.of(unsafe { exponent(self.b_exponents, col, self.n) });
                }
            });
        });
        let of_rows = if scaling.is_any() {
            // SAFETY: there are m exponents.
            [row, row + 8].map(|row| scaling.of(unsafe { exponent(self.a_exponents, row, self.m) }))
        } else {
            [0; 2]
        };
        unroll!(for H in 0..2 {
            let row = row + 8 * H as u32;
            if row < self.m {
                let line = self.c.wrapping_add((u64::from(row) * self.ldc) as usize);
                let pairs = line.wrapping_add(col as usize).cast::<F32Pair>().is_aligned();
                unroll!(for I in 0..8 {
                    unroll!(for O in 0..2 {
                        let col = col + (8 * (2 * I + O)) as u32;
                        let value = [
                            unscaled(total[I][4 * O + 2 * H], of_rows[H] + of_cols[I][2 * O]),
                            unscaled(
                                total[I][4 * O + 2 * H + 1],
                                of_rows[H] + of_cols[I][2 * O + 1],
                            ),
                        ];
                        let at = line.wrapping_add(col as usize);
                        // SAFETY: (row, col) and its neighbour are in C where they are stored.
                        unsafe { self.pair(at, col, pairs, value) };
                    });
                });
            }
        });
    }

    /// Stores two neighbours, `aligned` saying whether one instruction can.
    ///
    /// # Safety
    /// As [`Store::all`]; `at` is the element of C in column `col`.
    #[inline(always)]
    unsafe fn pair(&self, at: GlobalMut<f32>, col: u32, aligned: bool, value: [f32; 2]) {
        if aligned && self.beta == 0.0 && col + 1 < self.n {
            let pair = F32Pair([self.alpha * value[0], self.alpha * value[1]]);
            // SAFETY: the guard: both are in C, and are this thread's.
            unsafe { at.cast::<F32Pair>().write(pair) };
            return;
        }
        // SAFETY: asked only for elements of C that are this thread's.
        let old = |at: GlobalMut<f32>| unsafe { at.read() };
        if col < self.n {
            let new = epilogue(self.alpha, value[0], self.beta, || old(at));
            // SAFETY: the guard.
            unsafe { at.write(new) };
        }
        let at = at.wrapping_add(1);
        if col + 1 < self.n {
            let new = epilogue(self.alpha, value[1], self.beta, || old(at));
            // SAFETY: the guard.
            unsafe { at.write(new) };
        }
    }
}

/// The exponent of row or column `index`; zero, which is not used, from `count` on.
///
/// # Safety
/// There are `count` exponents.
#[inline(always)]
unsafe fn exponent(exponents: Global<i32>, index: u32, count: u32) -> i32 {
    // SAFETY: the guard.
    if index < count { unsafe { exponents.wrapping_add(index as usize).read() } } else { 0 }
}
