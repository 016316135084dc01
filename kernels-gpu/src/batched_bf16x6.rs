//! `batched_bf16x6`: a batch of products of f32 on the tensor cores, whose blocks split the operands as they load them.
//!
//! Computes  C = alpha*A*B + beta*C for each product; beta == 0 never reads C
//! Operands  A (m,k), B (k,n) in either order, C (m,n) row-major, each a stride behind that of the product
//!           before; f32
//! Launch    block (512,1,1); along x, as many as there are SMs, which share the tiles of all products
//! Shared    STAGES stages of 48 KiB, their barriers and notes: 196800 bytes
//! Requires  m, n >= 1, compute capability 9.0
//! Cost      12mnk flop a product on the tensor cores; each element of A and B is split n/128 and m/128 times
//! Bound by  memory to about n = 128 of square products; power, as `bf16x6`, beyond
//! Source    own; the limbs are those of `bf16x6`
//!
//! `bf16x6` splits its operands by launches before it, into a workspace one and a half times their size. A product of a
//! batch is multiplied in less time than that takes to write and read. Here two warpgroups of a block load f32 and write
//! the limbs of a stage to shared memory, where the other two multiply them:
//!
//! ```text
//!   warpgroups 0, 1   load stage 5 to registers | split stage 4 to shared memory | ..
//!   warpgroup 2       wgmma of stage 3, rows 0 to 63     + total in f32          | ..
//!   warpgroup 3       wgmma of stage 3, rows 64 to 127   + total in f32          | ..
//! ```
//!
//! A number that limbs do not hold exactly is noted with its stage, and a tile with such a note, or with a sum that is
//! not finite, is computed by chains of multiply-adds instead, a warp's rows at a time. What a block of a launch has
//! changes none of the bits of C.

mod chains;
mod split;

use cuda_std::arch::sm90::registers;
use cuda_std::memory::{Shared, global_mut, null};
use cuda_std::{thread, warp};
use gemm_spec::batched::{A_COL_MAJOR, B_COL_MAJOR};
use gemm_spec::batched_limbs::{self, CONSUMERS, NOTE_BYTES, PRODUCERS, ROWS, THREADS, TILE};
use gemm_spec::params::BatchedParams;
use gemm_spec::split::{Limbs, tiles};
use gemm_spec::warpgroup::{self, INSTRUCTION_M};
use gemm_spec::{
    Arch, BatchShare, Block, Entry, KernelSpec, LaunchShape, MinBlocks, Numerics, OperandAccess,
    ParamList, Types,
};

use self::chains::Factors;
use crate::bf16x9::STAGES;
use crate::bf16x9::device::ThreeBf16;
use crate::limbs::product::{Store, mainloop};
use crate::parts::entries::entry;
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

entry! {
    /// # Safety
    /// 1. `a`, `b` and `c` are valid for `count` matrices of f32, m by k, k by n and m by n, at their leading dimensions
    ///    and strides, A and B in the orders that `orders` says; no C overlaps an input or another C, and nobody else
    ///    writes one.
    /// 2. `tiles` are those of all products, and the launch has the block and the shared memory of the specification;
    ///    m, n >= 1.
    pub unsafe fn batched_bf16x6_f32(params: BatchedParams<f32>) {
        // SAFETY: the obligations are the same.
        unsafe { multiply(params) };
    }
}

/// The entry as a function for the emulator.
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] =
    crate::parts::entries::emulated!(Batched(BatchedParams): batched_bf16x6_f32);

/// What the host needs to launch it.
pub(crate) const SPEC: KernelSpec = KernelSpec {
    id: "batched_bf16x6",
    about: "batches of f32 of any range from six products of bf16 limbs that blocks make as they load",
    origin: "own",
    arch: Arch::Sm90a,
    entries: &[Entry { types: Types::F32, symbol: "batched_bf16x6_f32" }],
    launch: LaunchShape::Grouped { block: Block { x: THREADS, y: 1 }, tile: TILE, rows: ROWS },
    shared_elements: batched_limbs::shared_bytes(Limbs::ThreeBf16, STAGES) / 4,
    min_blocks_per_sm: MinBlocks::same(1),
    params: ParamList::Batched,
    operands: OperandAccess::Batched(BatchShare::Limbs),
    numerics: Numerics::Limbs { products: 6 },
    ..KernelSpec::PLAIN
};
const _: () = SPEC.check();

/// Where the notes of the stage are.
#[inline(always)]
fn notes(pipe: &Stages, smem: Shared<u8>) -> Shared<Quad<u32>> {
    let behind_barriers = Six::BARRIER_OFFSET + STAGES * 16;
    smem.wrapping_add((behind_barriers + pipe.stage() * NOTE_BYTES) as usize).cast()
}

/// # Safety
/// The obligations of the entry.
#[inline(always)]
unsafe fn multiply(params: BatchedParams<f32>) {
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
            (true, false) => unsafe { split::fill::<true, false>(&params, &mut pipe, notes) },
            // SAFETY: the same.
            (true, true) => unsafe { split::fill::<true, true>(&params, &mut pipe, notes) },
            // SAFETY: the same.
            (false, false) => unsafe { split::fill::<false, false>(&params, &mut pipe, notes) },
            // SAFETY: the same.
            (false, true) => unsafe { split::fill::<false, true>(&params, &mut pipe, notes) },
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
                a_exponents: null(),
                b_exponents: null(),
                row0: work.row + consumer_idx * INSTRUCTION_M,
                col0: work.col,
            };
            // SAFETY: all lanes of the warp are here.
            if unsafe { warp::all(warp::FULL, held) } {
                // SAFETY: obligation 1; this block alone has the tile, this thread these elements.
                unsafe { store.all::<Six>(own, &total) };
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
