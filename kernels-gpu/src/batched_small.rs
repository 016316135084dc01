//! `batched_small`: a batch of small products, several of which a block computes.
//!
//! Computes  C = alpha*A*B + beta*C for each product; beta == 0 never reads C
//! Operands  A (m,k), B (k,n) in either order, C (m,n) row-major, each a stride behind that of the product
//!           before; f32, f64, and f16 and bf16 with accumulators and scalars of f32 and a C of the same type or
//!           of f32
//! Launch    block (128,1,1); along x, as many as are resident together; they share the tiles of C of 32 x 64, or
//!           less where C is smaller, of the groups of products (`gemm_spec::batched`)
//! Shared    two stages of the operands of a group as accumulators, or some k elements of them: as many bytes as
//!           they need, at most 32 KiB, or 64 of f64
//! Requires  m, n >= 1; packets of 16 bytes are loaded where operands have no gaps, or aligned lines
//! Cost      2mnk flop a product; each element is loaded once, if C is one tile
//! Bound by  memory to about n = 32 (f32) of square products; shared memory from there on
//! Source    own
//!
//! A normal kernel has a block for a product, most of whose threads have nothing to do, and a launch for each.
//! Here a block loads the operands of a whole group at once, which is enough bytes in flight for the memory, while
//! it multiplies those of the group before.
//!
//! ```text
//!   global memory   [A 0][A 1][A 2][A 3]  ...      [B 0][B 1][B 2][B 3]  ...
//!                            | copied as one piece          |
//!   shared memory   [A 0][A 1][A 2][A 3]           [B 0][B 1][B 2][B 3]
//!   threads          0..32 | 32..64 | 64..96 | 96..128    4 x 4 elements of C each
//! ```
//!
//! Neighbouring threads have neighbouring rows of A and columns of B, which are in different banks although
//! nothing is padded.

mod multiply;

use cuda_std::arch::sm80::{commit_group, wait_group};
use cuda_std::memory::global_mut;
use cuda_std::{shared, thread};
use gemm_spec::batched::{MOST_ROWS, Partition, THREADS, TILE_M, TILE_N};
use gemm_spec::params::BatchedParams;
use gemm_spec::{
    Arch, BatchShare, Block, Element as _, Entry, KernelSpec, LaunchShape, MinBlocks,
    OperandAccess, ParamList, Tile, Types,
};

use self::multiply::{Place, accumulate, store};
use crate::parts::entries::entry;
use crate::parts::group::Work;
use crate::parts::number::{Bf16, F16, Input, Output};
use crate::parts::quad::Quad;

/// Defines the entries, one for each type of operands and of C, and lists them.
macro_rules! entries {
    ($($symbol:ident, $types:ident: $input:ty, $output:ty, $acc:ty, $emulated:ident;)+) => {
        $(
            entry! {
                /// # Safety
                /// 1. `a`, `b` and `c` are valid for `count` matrices of the entry's types, m by k, k by n and m by
                ///    n, at their leading dimensions and strides, A and B in the orders that `orders` says; no C
                ///    overlaps an input or another C, and nobody else writes one.
                /// 2. The tile, the rows, the group and the chunk are those of a `Partition` for the sizes, and the
                ///    launch has its blocks, its shared memory and the block of the specification; m, n >= 1.
                pub unsafe fn $symbol(params: BatchedParams<$acc>) {
                    // SAFETY: the obligations are the same.
                    unsafe { batched_small::<$input, $output>(params) };
                }
            }
        )+

        const ENTRIES: &[Entry] =
            &[$(Entry { types: Types::$types, symbol: stringify!($symbol) }),+];

        /// The entries as functions for the emulator.
        #[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
        pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] =
            crate::parts::entries::emulated!($($emulated(BatchedParams): $symbol);+);
    };
}

entries! {
    batched_small_f32, F32: f32, f32, f32, Batched;
    batched_small_f64, F64: f64, f64, f64, BatchedF64;
    batched_small_f16, F16: F16, F16, f32, Batched;
    batched_small_bf16, BF16: Bf16, Bf16, f32, Batched;
    batched_small_f16_f32, F16F32: F16, f32, f32, Batched;
    batched_small_bf16_f32, BF16F32: Bf16, f32, f32, Batched;
}

/// What the host needs to launch it.
pub(crate) const SPEC: KernelSpec = KernelSpec {
    id: "batched_small",
    about: "batches of small products: a block loads several and computes them",
    origin: "own",
    arch: Arch::Sm80,
    entries: ENTRIES,
    launch: LaunchShape::Grouped {
        block: Block { x: THREADS, y: 1 },
        tile: Tile { m: TILE_M, n: TILE_N },
        rows: 1,
    },
    shared_elements: Partition::MOST_SHARED,
    min_blocks_per_sm: MinBlocks { narrow: 5, wide: 4 },
    params: ParamList::Batched,
    operands: OperandAccess::Batched(BatchShare::Threads),
    ..KernelSpec::PLAIN
};
const _: () = SPEC.check();

/// Computes tiles of groups of products, the next one's operands being loaded meanwhile.
///
/// # Safety
/// The obligations of the entries.
#[inline(always)]
unsafe fn batched_small<I: Input, O: Output<Acc = I::Acc>>(params: BatchedParams<I::Acc>) {
    let thread = thread::thread_idx_x();
    let (step, last) = (thread::grid_dim_x(), params.tiles);
    let BatchedParams { tile_m, tile_n, rows, group, chunk, .. } = params;
    let partition = Partition { tile_m, tile_n, rows, group, chunk };
    // SAFETY: obligation 2 provides the bytes; the barriers below keep writes and reads apart.
    let stages = unsafe { shared::launch_sized::<Quad<I::Acc>>() }.cast::<I::Acc>();
    let stage = |at: u32| {
        let a = stages.wrapping_add((at * partition.stage_elements()) as usize);
        (a, a.wrapping_add(partition.b_at() as usize))
    };

    let mut acc = [[I::Acc::ZERO; 4]; MOST_ROWS as usize];
    let mut place = Place::NONE;
    // What is multiplied, nothing at first, and what is loaded.
    let mut work = Work { tile: last, ..Work::of(&params, last) };
    let (mut work_at, mut load_stage) = ((0, 0), 0);
    let mut load = Work::of(&params, thread::block_idx_x());
    loop {
        let is_loaded = load.tile < last;
        let mut load_at = (0, 0);
        if is_loaded && params.k > 0 {
            let (a, b) = stage(load_stage);
            // SAFETY: obligation 1.
            let of_a = unsafe { load.a::<I, _>(&params) };
            // SAFETY: obligation 1.
            let of_b = unsafe { load.b::<I, _>(&params) };
            // SAFETY: obligation 1; the barrier below was passed since the stage was read.
            let a_at = unsafe { of_a.load(a, thread) };
            // SAFETY: the same.
            load_at = (a_at, unsafe { of_b.load(b, thread) });
        }
        commit_group();
        if work.tile < last {
            if work.done == 0 {
                if !place.is_some() || params.m > tile_m || params.n > tile_n {
                    place = Place::of(work.rows, work.cols, rows, thread);
                }
                acc = [[I::Acc::ZERO; 4]; MOST_ROWS as usize];
            }
            wait_group::<1>();
            // SAFETY: all threads of the block go the same way.
            unsafe { thread::sync_threads() };
            let (product, steps) = (place.product, work.steps);
            if product < work.products && steps > 0 {
                let (a, b) = stage(1 - load_stage);
                let a = a.wrapping_add((work_at.0 + product * work.rows * steps) as usize);
                let b = b.wrapping_add((work_at.1 + product * steps * work.cols) as usize);
                match rows {
                    // SAFETY: the product's operands, visible since the barrier.
                    1 => unsafe { accumulate::<_, 1>(&mut acc, &place, (a, b), steps) },
                    // SAFETY: the same.
                    2 => unsafe { accumulate::<_, 2>(&mut acc, &place, (a, b), steps) },
                    // SAFETY: the same.
                    _ => unsafe { accumulate::<_, 4>(&mut acc, &place, (a, b), steps) },
                }
            }
            if work.done + steps >= params.k && product < work.products {
                let offset = u64::from(work.first + product) * params.c_stride
                    + u64::from(work.row0) * params.ldc
                    + u64::from(work.col0);
                // SAFETY: obligation 1.
                let c = unsafe { global_mut(params.c) }.cast::<O>().wrapping_add(offset as usize);
                // SAFETY: obligation 1; each element is one thread's.
                unsafe { store::<O>(&acc, &place, (params.alpha, params.beta), c, params.ldc) };
            }
            // SAFETY: all threads of the block go the same way.
            unsafe { thread::sync_threads() };
        }
        if !is_loaded {
            break;
        }
        (work, work_at) = (load, load_at);
        load = if load.done + load.steps < params.k {
            load.next_chunk(&params)
        } else {
            Work::of(&params, load.tile + step)
        };
        load_stage = 1 - load_stage;
    }
}
