//! Products of limbs that a block makes as it loads the operands: `batched_bf16x6`, which has the picture, and the
//! fallback.

mod chains;
mod split;

use cuda_std::arch::sm90::registers;
use cuda_std::memory::{Global, Shared, global_mut, null};
use cuda_std::{thread, warp};
use gemm_spec::batched::{A_COL_MAJOR, B_COL_MAJOR};
use gemm_spec::batched_limbs::{CONSUMERS, NOTE_BYTES, PRODUCERS, TILE};
use gemm_spec::params::BatchedParams;
use gemm_spec::split::tiles;
use gemm_spec::warpgroup::{self, INSTRUCTION_M};

use self::chains::Factors;
use super::STAGES;
use super::device::ThreeBf16;
use crate::limbs::product::{Scaling, Store, mainloop};
use crate::parts::pipeline::{self, Pipeline, PipelineState};
use crate::parts::product_tile::ProductTile;
use crate::parts::quad::Quad;
use crate::parts::unroll::unroll;

/// The limbs, and how many products of them are added.
type Six = ThreeBf16<false>;
/// A thread's place among the stages.
type Stages = PipelineState<Six>;

/// Warps of a warpgroup.
const WARPS: u32 = warpgroup::THREADS / 32;
/// Registers of a thread that splits, and of one that multiplies.
const PRODUCER_REGISTERS: u32 = 104;
const CONSUMER_REGISTERS: u32 = 152;

/// Whether rows of A and columns of B are scaled before they are split, and by how much.
pub(crate) trait Scale: Copy {
    /// What scaling them is to the epilogue.
    const SCALING: Scaling;

    /// The exponents of the rows of A, and of the columns of B, of the only product.
    fn exponents(self) -> [Global<i32>; 2];
}

/// Not at all.
#[derive(Clone, Copy)]
pub(crate) struct Unscaled;

impl Scale for Unscaled {
    const SCALING: Scaling = Scaling::None;

    #[inline(always)]
    fn exponents(self) -> [Global<i32>; 2] {
        [null(); 2]
    }
}

/// By [`lifted`](gemm_spec::split::lifted) exponents of the rows of A, and of the columns of B.
#[derive(Clone, Copy)]
pub(crate) struct Lifted(pub(crate) [Global<i32>; 2]);

impl Scale for Lifted {
    const SCALING: Scaling = Scaling::Lifted;

    #[inline(always)]
    fn exponents(self) -> [Global<i32>; 2] {
        self.0
    }
}

/// Where the notes of the stage are.
#[inline(always)]
fn notes(pipe: &Stages, smem: Shared<u8>) -> Shared<Quad<u32>> {
    let behind_barriers = Six::BARRIER_OFFSET + STAGES * 16;
    smem.wrapping_add((behind_barriers + pipe.stage() * NOTE_BYTES) as usize).cast()
}

/// # Safety
/// 1. `a`, `b` and `c` are valid for `count` matrices of f32, m by k, k by n and m by n, at their leading dimensions
///    and strides, A and B in the orders that `orders` says; no C overlaps an input or another C, and nobody else
///    writes one. There is an exponent for each row of A and each column of B, if they are scaled.
/// 2. `tiles` are those of all products, and the launch has the block and the shared memory of
///    [`gemm_spec::batched_limbs`]; m, n >= 1.
#[inline(always)]
pub(crate) unsafe fn multiply<S: Scale>(params: BatchedParams<f32>, scale: S) {
    let exponents @ [a_exponents, b_exponents] = scale.exponents();
    let linear = thread::thread_idx_x();
    // Uniform across a warpgroup, and known to be uniform in a warp.
    // SAFETY: all lanes are here.
    let warpgroup_idx = unsafe { warp::shuffle_idx(warp::FULL, linear / warpgroup::THREADS, 0) };
    // SAFETY: obligation 2 gives the bytes; the barriers separate writes and reads.
    let smem = unsafe { pipeline::smem() };
    let mut pipe = Stages::new(smem);
    if linear == 0 {
        // SAFETY: one thread; nobody uses the barriers before the barrier below.
        unsafe { pipe.init_barriers(PRODUCERS, CONSUMERS * WARPS) };
    }
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    let (mut tile, step) = (thread::block_idx_x(), thread::grid_dim_x());
    if warpgroup_idx < PRODUCERS {
        // SAFETY: the whole warpgroup is here and needs no more registers.
        unsafe { registers::reg_dealloc::<PRODUCER_REGISTERS>() };
        let notes = |pipe: &Stages| notes(pipe, smem);
        match (params.orders & A_COL_MAJOR == 0, params.orders & B_COL_MAJOR != 0) {
            // SAFETY: obligations 1 and 2, in each of the four; both warpgroups are here.
            (true, false) => unsafe {
                split::fill::<true, false, S>(&params, exponents, &mut pipe, notes)
            },
            // SAFETY: the same.
            (true, true) => unsafe {
                split::fill::<true, true, S>(&params, exponents, &mut pipe, notes)
            },
            // SAFETY: the same.
            (false, false) => unsafe {
                split::fill::<false, false, S>(&params, exponents, &mut pipe, notes)
            },
            // SAFETY: the same.
            (false, true) => unsafe {
                split::fill::<false, true, S>(&params, exponents, &mut pipe, notes)
            },
        }
    } else {
        // SAFETY: the whole warpgroup is here; the others have released what the pool lacks.
        unsafe { registers::reg_alloc::<CONSUMER_REGISTERS>() };
        let (consumer_idx, own) = (warpgroup_idx - PRODUCERS, linear % warpgroup::THREADS);
        while tile < params.tiles {
            let work = ProductTile::of(&params, TILE, tile);
            let mut noted = 0;
            // One lane of each warp reads the notes and releases the stage, in this order.
            let is_first = own % 32 == 0;
            let see = |pipe: &Stages| {
                if is_first {
                    let notes = notes(pipe, smem);
                    // SAFETY: the producers wrote them before the stage was full.
                    let Quad([a, b, c, d]) = unsafe { notes.read() };
                    // SAFETY: the same.
                    let Quad([e, f, g, h]) = unsafe { notes.wrapping_add(1).read() };
                    noted |= a | b | c | d | e | f | g | h;
                }
            };
            let release = |pipe: &Stages| {
                if is_first {
                    // SAFETY: the products have completed, and with them the warp's reads of the stage.
                    unsafe { pipe.consumer_release() };
                }
            };
            // SAFETY: the producers fill the stages of this tile; the consumer's warps arrive once each.
            let total = unsafe { mainloop(&mut pipe, consumer_idx, tiles(params.k), see, release) };
            let mut held = noted == 0;
            unroll!(for I in 0..8 {
                unroll!(for J in 0..8 {
                    held &= total[I][J].abs() < f32::INFINITY;
                });
            });
            // SAFETY: obligation 1.
            let c = unsafe { global_mut(params.c) }.cast::<f32>();
            let store = Store {
                m: params.m,
                n: params.n,
                alpha: params.alpha,
                beta: params.beta,
                c: c.wrapping_add((u64::from(work.product) * params.c_stride) as usize),
                ldc: params.ldc,
                a_exponents,
                b_exponents,
                row0: work.row + consumer_idx * INSTRUCTION_M,
                col0: work.col,
            };
            // SAFETY: all lanes of the warp are here.
            if unsafe { warp::all(warp::FULL, held) } {
                // SAFETY: obligation 1; this block alone has the tile, this thread these elements.
                unsafe { store.all(own, &total, S::SCALING) };
            } else {
                // SAFETY: obligation 1, of A and of B.
                let factors = unsafe { Factors::of(&params, work.product) };
                // SAFETY: obligation 1; this block alone has the tile, this warp these rows.
                unsafe { chains::store(&store, &factors, own) };
            }
            tile += step;
        }
    }
}
