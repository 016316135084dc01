//! `batched_mma`: a batch of small products of 16-bit floats, of any sizes, on the tensor cores.
//!
//! Computes  C = alpha*A*B + beta*C for each product; beta == 0 never reads C
//! Operands  A (m,k), B (k,n) in either order, C (m,n) row-major, each a stride behind that of the product
//!           before; f16 and bf16 with accumulators and scalars of f32 and a C of the same type or of f32
//! Launch    block (128,1,1), or up to 256 for products of more than 64 rows or columns; along x, as many as are
//!           resident together; they share the tiles of C of groups of products (`gemm_spec::batched_mma`)
//! Shared    one or two stages of the operands of a group, and C of a group in the layout of global memory: at most 99 KiB
//! Requires  m, n >= 1; packets of 16 bytes are copied where operands have no gaps, or aligned lines
//! Cost      2mnk flop a product; each element is loaded once, if C is one tile
//! Bound by  instructions: fragments are gathered, and C is put, by two or four bytes
//! Source    own; the fragments of `mma.sync` as PTX describes them
//!
//! Rows of an odd number of elements begin at no multiple of four bytes, and neither TMA nor `ldmatrix` reads them.
//! Here operands are copied byte for byte, whatever their lines are, and each lane gathers its fragments:
//!
//! ```text
//!   global memory   [A 0][A 1][A 2][A 3]  ...      [B 0][B 1][B 2][B 3]  ...
//!                            | copied as one piece          |
//!   shared memory   [A 0][A 1][A 2][A 3]           [B 0][B 1][B 2][B 3]
//!                      \ gathered, 2 or 4 bytes at a time /
//!   warps              32 x 32 of C 0, of C 1, of C 2, of C 3
//!                            | in the layout of global memory
//!   shared memory   [C 0][C 1][C 2][C 3]     and from there in packets of 16 bytes
//! ```

mod load;
mod multiply;
mod store;

use cuda_std::arch::sm80::mma::{m16n8k16_bf16, m16n8k16_f16};
use cuda_std::arch::sm80::{commit_group, wait_group};
use cuda_std::memory::{Shared, SharedAddress};
use cuda_std::opaque::{opaque, opaque_wide};
use cuda_std::{shared, thread};
use gemm_spec::batched_mma::{BEHIND, MOST_BYTES, PART, Partition, THREADS};
use gemm_spec::index::ceil_div;
use gemm_spec::params::BatchedParams;
use gemm_spec::{
    Arch, BatchShare, Block, Entry, KernelSpec, LaunchShape, MinBlocks, Numerics, OperandAccess,
    ParamList, Tile, Types,
};

use self::load::{Around, Placed};
use self::multiply::{Acc, Operands};
use self::store::Target;
use crate::parts::entries::entry;
use crate::parts::fill::div_rem;
use crate::parts::group::Work;
use crate::parts::number::{Bf16, Bits, F16, Output};
use crate::parts::quad::Quad;

/// A type of operands, as the tensor cores multiply it.
trait Factor {
    /// Adds 16 x 16 by 16 x 8 of them.
    ///
    /// # Safety
    /// All lanes of the warp call it together.
    unsafe fn add(acc: &mut [f32; 4], a: [u32; 4], b: [u32; 2]);
}

impl Factor for F16 {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn add(acc: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
        // SAFETY: the caller's promise.
        unsafe { m16n8k16_f16(acc, a, b) };
    }
}

impl Factor for Bf16 {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn add(acc: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
        // SAFETY: the caller's promise.
        unsafe { m16n8k16_bf16(acc, a, b) };
    }
}

/// Defines the entries, one for each type of operands and of C, and lists them.
macro_rules! entries {
    ($($symbol:ident, $types:ident: $factor:ty, $output:ty;)+) => {
        $(
            entry! {
                /// # Safety
                /// 1. `a`, `b` and `c` are valid for `count` matrices of the entry's types, m by k, k by n and m by
                ///    n, at their leading dimensions and strides, A and B in the orders that `orders` says; no C
                ///    overlaps an input or another C, and nobody else writes one.
                /// 2. The tile, the group and the chunk are those of a `Partition` for the sizes, and the launch has
                ///    its blocks, its shared memory and the block of the specification; m, n >= 1.
                pub unsafe fn $symbol(params: BatchedParams<f32>) {
                    // SAFETY: the obligations are the same.
                    unsafe { batched_mma::<$factor, $output>(params) };
                }
            }
        )+

        const ENTRIES: &[Entry] =
            &[$(Entry { types: Types::$types, symbol: stringify!($symbol) }),+];

        /// The entries as functions for the emulator.
        #[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
        pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] =
            crate::parts::entries::emulated!(Batched(BatchedParams): $($symbol),+);
    };
}

entries! {
    batched_mma_f16, F16: F16, F16;
    batched_mma_bf16, BF16: Bf16, Bf16;
    batched_mma_f16_f32, F16F32: F16, f32;
    batched_mma_bf16_f32, BF16F32: Bf16, f32;
}

/// What the host needs to launch it.
pub(crate) const SPEC: KernelSpec = KernelSpec {
    id: "batched_mma",
    about: "batches of small products of 16 bits: warps gather what the tensor cores multiply",
    origin: "own",
    arch: Arch::Sm80,
    entries: ENTRIES,
    launch: LaunchShape::Grouped {
        block: Block { x: THREADS, y: 1 },
        tile: Tile { m: 2 * PART, n: 2 * PART },
        rows: 1,
    },
    shared_elements: MOST_BYTES / 4,
    min_blocks_per_sm: MinBlocks::same(2),
    params: ParamList::Batched,
    operands: OperandAccess::Batched(BatchShare::Warps),
    numerics: Numerics::TensorCore,
    ..KernelSpec::PLAIN
};
const _: () = SPEC.check();

/// Computes tiles of groups of products.
///
/// # Safety
/// The obligations of the entries.
#[inline(always)]
unsafe fn batched_mma<F: Factor, O: Output<Acc = f32>>(params: BatchedParams<f32>) {
    let thread = thread::thread_idx_x();
    let (step, last) = (thread::grid_dim_x(), params.tiles);
    let BatchedParams { tile_m, tile_n, group, chunk, .. } = params;
    let partition = Partition { tile_m, tile_n, group, chunk };
    let is_ahead = partition.stages() == 2;
    // SAFETY: obligation 2 provides the bytes; the barriers below keep writes and reads apart.
    let stages = unsafe { shared::launch_sized::<Quad<f32>>() }.cast::<Bits>();
    let stage = |at: u32| {
        let it = Partition { group: opaque(group), ..partition };
        let a = stages.wrapping_add((at * it.stage_elements()) as usize);
        (a, a.wrapping_add(it.b_at() as usize))
    };
    let of_c = || stage(partition.stages()).0;
    let in_pairs = in_pairs(&params);

    let mut acc = multiply::ZERO;
    // What is multiplied, nothing at first, and what is loaded: the tile, and the k elements before. What follows from
    // these is computed where it is needed.
    let mut work = (last, 0);
    let (mut load, mut load_stage) = ((thread::block_idx_x(), 0), 0);
    let mut placed = (Placed::NONE, Placed::NONE);
    let of = |(tile, done): (u32, u32)| Work::of(&params, opaque(tile)).from(&params, done);
    loop {
        let is_loaded = load.0 < last;
        let mut load_placed = placed;
        if is_loaded && params.k > 0 {
            let (loaded, (a, b), thread) = (of(load), stage(load_stage), opaque(thread));
            let params = reread(&params);
            let around = Around::of(&params, &loaded);
            // SAFETY: obligation 1.
            let of_a = unsafe { loaded.a(&params) };
            // SAFETY: obligation 1.
            let of_b = unsafe { loaded.b(&params) };
            // SAFETY: obligation 1; a barrier was passed since the stage was read.
            let a = unsafe { load::operand::<0>(&of_a, around, a, in_pairs, thread) };
            // SAFETY: the same.
            let b = unsafe { load::operand::<BEHIND>(&of_b, around, b, in_pairs, thread) };
            load_placed = (a, b);
        }
        commit_group();
        if is_ahead {
            if work.0 < last {
                wait_group::<1>();
            }
        } else {
            (work, placed) = (load, load_placed);
            wait_group::<0>();
        }
        if work.0 < last {
            // SAFETY: all threads of the block go the same way.
            unsafe { thread::sync_threads() };
            let target =
                || Target::<O>::new(&reread(&params), &partition, &of(work), of_c().cast());
            let work_stage = if is_ahead { 1 - load_stage } else { load_stage };
            // SAFETY: obligation 1; the stage's copies have landed.
            unsafe {
                parts::<F, O>(&mut acc, &params, (&of(work), placed), stage(work_stage), &target);
            }
            // SAFETY: all threads of the block go the same way.
            unsafe { thread::sync_threads() };
            if params.k - work.1 <= chunk {
                // SAFETY: obligation 1; the parts of all warps are there since the barrier.
                unsafe { target().flush(opaque(thread)) };
            }
        }
        if !is_loaded {
            break;
        }
        if is_ahead {
            (work, placed) = (load, load_placed);
            load_stage = 1 - load_stage;
        }
        let (tile, done) = load;
        load = if params.k - done > chunk { (tile, done + chunk) } else { (tile + step, 0) };
    }
}

/// Whether neighbours are read as words. Which sixteen k elements are added together follows from it, and so from the
/// sizes alone.
#[inline(always)]
fn in_pairs(params: &BatchedParams<f32>) -> bool {
    params.k.is_multiple_of(2) && params.n.is_multiple_of(2)
}

/// The same parameters, of which nothing is kept that follows from strides and scalars.
#[inline(always)]
fn reread(params: &BatchedParams<f32>) -> BatchedParams<f32> {
    let mut same = *params;
    same.alpha = f32::from_bits(opaque(same.alpha.to_bits()));
    same.beta = f32::from_bits(opaque(same.beta.to_bits()));
    same.lda = opaque_wide(same.lda);
    same.a_stride = opaque_wide(same.a_stride);
    same.ldb = opaque_wide(same.ldb);
    same.b_stride = opaque_wide(same.b_stride);
    same.ldc = opaque_wide(same.ldc);
    same.c_stride = opaque_wide(same.c_stride);
    same
}

/// Computes the warp's parts of C, or adds the products of some k elements to the one that it has.
///
/// # Safety
/// Obligation 1 of the entries; the stage has the operands of `work`, written before a barrier; all lanes of the warp
/// are here.
#[inline(always)]
unsafe fn parts<F: Factor, O: Output<Acc = f32>>(
    acc: &mut Acc,
    params: &BatchedParams<f32>,
    (work, (a, b)): (&Work, (Placed, Placed)),
    (a_stage, b_stage): (Shared<Bits>, Shared<Bits>),
    target: &impl Fn() -> Target<O>,
) {
    let thread = opaque(thread::thread_idx_x());
    let (warp, lane) = (thread / 32, thread % 32);
    let in_pairs = in_pairs(params);
    let (down, across) = (ceil_div(work.rows, PART), ceil_div(work.cols, PART));
    let (a_stage, b_stage) = (SharedAddress::new(a_stage), SharedAddress::new(b_stage));
    let mut part = warp;
    while part < work.products * down * across {
        let (product, place) =
            if work.products == 1 { (0, part) } else { div_rem(part, down * across) };
        // Divisors that are known take no division.
        let (row, col) = match across {
            1 => (place, 0),
            2 => (place / 2, place % 2),
            3 => (place / 3, place % 3),
            _ => div_rem(place, across),
        };
        let (row, col) = (row * PART, col * PART);
        if work.done == 0 {
            *acc = multiply::ZERO;
        }
        let (a_pitch, b_pitch) = (a.pitch(), opaque(b.pitch()));
        let a_first = a.at() + (product * work.rows + row) * a_pitch;
        let b_first = b.at() + product * work.steps * b_pitch + col;
        let operands = Operands {
            a: a_stage.wrapping_add(a_first as usize),
            b: b_stage.wrapping_add(b_first as usize),
            a_pitch,
            b_pitch,
            rows: work.rows - row,
            cols: work.cols - col,
            steps: opaque(work.steps),
            lane: opaque(lane),
        };
        // SAFETY: the caller's promise; the parts are inside the tile.
        unsafe { operands.add::<F>(acc, in_pairs) };
        if work.done + work.steps >= params.k {
            // SAFETY: the caller's promise; each element is one lane's.
            unsafe { target().put(acc, (product, row, col), in_pairs, lane) };
        }
        part += opaque(thread::block_dim_x()) / 32;
    }
}
