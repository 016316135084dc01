//! `batched_mma`: a batch of small products of 16-bit floats, of any sizes, on the tensor cores.
//!
//! Computes  C = alpha*A*B + beta*C for each product; beta == 0 never reads C
//! Operands  A (m,k), B (k,n) in either order, C (m,n) row-major, each a stride behind that of the product
//!           before; f16 and bf16 with accumulators and scalars of f32 and a C of the same type or of f32
//! Launch    block (128,1,1), or (256,1,1) for products of more parts than four; along x, as many as are
//!           resident together; they share the tiles of C of groups of products (`gemm_spec::batched_mma`)
//! Shared    two stages of the operands of a group, and after them C in one of these: at most 99 KiB
//! Requires  m, n >= 1
//! Cost      2mnk flop a product; each element is loaded once, if C is one tile
//! Bound by  instructions: elements that are not aligned are moved by four or eight bytes
//! Source    own; the fragments of `mma.sync` and `ldmatrix` as PTX describes them
//!
//! Rows of an odd number of elements begin at no multiple of four bytes, and neither TMA nor `ldmatrix` reads them.
//! Here such operands are copied byte for byte, whatever their lines are, and aligned in shared memory, four elements
//! at a time:
//!
//! ```text
//!   global memory   ..[row 0][row 1][row 2]..
//!                            | copied in packets of 16 bytes, as far behind a multiple of them
//!   stage 0         ..[row 0][row 1][row 2]..
//!                            | shifted
//!   stage 1           [row 0 00]  [row 1 00]  [row 2 00]     aligned, with zeros up to sixteen k elements
//!                            | ldmatrix, mma.sync
//!   C               ..[row 0][row 1][row 2]..                as in global memory, and from there in packets
//! ```

mod copy;
mod lines;
mod multiply;
mod store;
mod whole;

use cuda_std::arch::sm80::mma::{m16n8k16_bf16, m16n8k16_f16};
use cuda_std::arch::sm80::{commit_group, wait_group};
use cuda_std::memory::Shared;
use cuda_std::opaque::{opaque, opaque_wide};
use cuda_std::{shared, thread};
use gemm_spec::batched::{A_COL_MAJOR, B_COL_MAJOR};
use gemm_spec::batched_mma::{MOST_BYTES, PACKET, PART_M, PART_N, Partition, THREADS};
use gemm_spec::index::ceil_div;
use gemm_spec::params::BatchedParams;
use gemm_spec::{
    Arch, BatchShare, Block, Entry, KernelSpec, LaunchShape, MinBlocks, Numerics, OperandAccess,
    ParamList, Tile, Types,
};

use self::copy::Operand;
use self::lines::Aligned;
use self::multiply::{Acc, Part};
use self::store::Target;
use crate::parts::entries::entry;
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
    about: "batches of small products of 16 bits on the tensor cores, wherever lines begin",
    origin: "own",
    arch: Arch::Sm80,
    entries: ENTRIES,
    launch: LaunchShape::Grouped {
        block: Block { x: THREADS, y: 1 },
        tile: Tile { m: PART_M, n: PART_N },
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
    let BatchedParams { m, n, k, tile_m, tile_n, group, chunk, .. } = params;
    let partition = Partition::of([m, n, k], (tile_m, tile_n), group, chunk);
    // SAFETY: obligation 2 provides the bytes; the barriers below keep writes and reads apart.
    let stages = unsafe { shared::launch_sized::<Quad<f32>>() }.cast::<Bits>();
    let stage = |at: u32| {
        let [_, b, second, second_b, _] = Partition { group: opaque(group), ..partition }.places();
        let (a, b) = if at == 0 { (0, b) } else { (second, second_b) };
        (stages.wrapping_add(a as usize), stages.wrapping_add(b as usize))
    };
    let are_packets = are_packets(&params);
    if !are_packets && whole::are_whole(&params, &partition) {
        if chunk >= k {
            // SAFETY: the same obligations.
            unsafe { whole::multiply::<F, O, true>(&params, &partition, stages) };
        } else {
            // SAFETY: the same obligations.
            unsafe { whole::multiply::<F, O, false>(&params, &partition, stages) };
        }
        return;
    }

    let mut acc = multiply::ZERO;
    // What is loaded: the tile, and the k elements before. What follows from these is computed where it is needed.
    let mut work = (thread::block_idx_x(), 0);
    let mut work_stage = 0;
    let of = |(tile, done): (u32, u32)| Work::of(&params, opaque(tile)).from(&params, done);
    if work.0 < last {
        // SAFETY: obligation 1.
        unsafe { load(&params, &of(work), stage(0), are_packets) };
    }
    commit_group();
    while work.0 < last {
        wait_group::<0>();
        // SAFETY: all threads of the block go the same way.
        unsafe { thread::sync_threads() };
        let mut from = stage(work_stage);
        if !are_packets {
            let (work, (a, b)) = (of(work), from);
            from = stage(1);
            if work.steps > 0 {
                let params = reread(&params);
                // SAFETY: obligation 1.
                let of_a = unsafe { Operand::a(&params, &work) };
                // SAFETY: the stage's copies have landed.
                unsafe { of_a.align(a, from.0, opaque(thread)) };
                // SAFETY: obligation 1.
                let of_b = unsafe { Operand::b(&params, &work) };
                // SAFETY: the stage's copies have landed.
                unsafe { of_b.align(b, from.1, opaque(thread)) };
            }
            // SAFETY: all threads of the block go the same way.
            unsafe { thread::sync_threads() };
        }
        let (tile, done) = work;
        let next = if params.k - done > chunk { (tile, done + chunk) } else { (tile + step, 0) };
        let next_stage = if are_packets { 1 - work_stage } else { 0 };
        if next.0 < last {
            // SAFETY: obligation 1; a barrier was passed since the stage was read.
            unsafe { load(&params, &of(next), stage(next_stage), are_packets) };
        }
        commit_group();
        if done == 0 {
            acc = multiply::ZERO;
        }
        // SAFETY: obligation 1; the stage was written before a barrier.
        unsafe { multiply::<F>(&mut acc, &params, &of(work), from) };
        if next.1 == 0 {
            // SAFETY: obligation 1; all of k was added, and the stage is not the one that is loaded.
            unsafe { store::<O>(&mut acc, &params, (&partition, &of(work)), from.0.cast()) };
        }
        (work, work_stage) = (next, next_stage);
    }
}

/// Whether each k element has a line in A.
#[inline(always)]
const fn a_by_k(params: &BatchedParams<f32>) -> bool {
    params.orders & A_COL_MAJOR != 0
}

/// The same of B.
#[inline(always)]
const fn b_by_k(params: &BatchedParams<f32>) -> bool {
    params.orders & B_COL_MAJOR == 0
}

/// Whether all lines of A and of B are whole aligned packets: a property of the launch.
#[inline(always)]
fn are_packets(params: &BatchedParams<f32>) -> bool {
    let &BatchedParams { m, n, k, count, .. } = params;
    let is = |at: *const u8, ld: u64, stride: u64, len: u32| {
        at.addr().is_multiple_of(16)
            && ld.is_multiple_of(u64::from(PACKET))
            && (count == 1 || stride.is_multiple_of(u64::from(PACKET)))
            && len.is_multiple_of(PACKET)
    };
    let a_len = if a_by_k(params) { m } else { k };
    let b_len = if b_by_k(params) { n } else { k };
    is(params.a, params.lda, params.a_stride, a_len)
        && is(params.b, params.ldb, params.b_stride, b_len)
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

/// Starts copies of the operands of `work`: to aligned lines, or byte for byte.
///
/// # Safety
/// Obligation 1 of the entries; nobody accesses the stage until all threads have waited for their copies and met.
#[inline(always)]
unsafe fn load(
    params: &BatchedParams<f32>,
    work: &Work,
    (a, b): (Shared<Bits>, Shared<Bits>),
    are_packets: bool,
) {
    if work.steps == 0 {
        return;
    }
    let (params, thread) = (reread(params), opaque(thread::thread_idx_x()));
    // SAFETY: the caller's promise.
    let of_a = unsafe { Operand::a(&params, work) };
    // SAFETY: the caller's promise.
    let of_b = unsafe { Operand::b(&params, work) };
    if are_packets {
        // SAFETY: the caller's promise; lines are whole packets.
        unsafe { of_a.copy_packets(a, thread) };
        // SAFETY: the same.
        unsafe { of_b.copy_packets(b, thread) };
    } else {
        // SAFETY: the caller's promise.
        unsafe { of_a.copy_bytes(a, thread) };
        // SAFETY: the same.
        unsafe { of_b.copy_bytes(b, thread) };
    }
}

/// The warp's part of C of a group: the product, and the part's first row and column.
#[inline(always)]
fn part_of_warp(work: &Work, warp: u32) -> (u32, u32, u32) {
    let (down, across) = (ceil_div(work.rows, PART_M), ceil_div(work.cols, PART_N));
    let parts = down * across;
    // A group has four products at most.
    let [second, third, fourth] = [1, 2, 3].map(|before| u32::from(warp >= before * parts));
    let product = second + third + fourth;
    let place = warp - product * parts;
    // A tile has two parts across at most.
    let (row, col) = if across == 1 { (place, 0) } else { (place / 2, place % 2) };
    (product, row * PART_M, col * PART_N)
}

/// Adds the products of some k elements to the warp's part of C.
///
/// # Safety
/// The stage has the operands of `work` in aligned lines, written before a barrier; all threads are here.
#[inline(always)]
unsafe fn multiply<F: Factor>(
    acc: &mut Acc,
    params: &BatchedParams<f32>,
    work: &Work,
    (a, b): (Shared<Bits>, Shared<Bits>),
) {
    let thread = opaque(thread::thread_idx_x());
    let (warp, lane) = (thread / 32, thread % 32);
    let (product, row, col) = part_of_warp(work, warp);
    if product >= work.products {
        return;
    }
    let (a_by_k, b_by_k) = (a_by_k(params), b_by_k(params));
    let part = Part {
        a,
        b,
        of_a: Aligned::new(a_by_k, work.rows, work.steps),
        of_b: Aligned::new(b_by_k, work.cols, work.steps),
        product,
        row,
        col,
        rows: work.rows,
        cols: work.cols,
        steps: work.steps,
        lane,
    };
    // SAFETY: the caller's promise; a warp goes one way.
    unsafe { part.add::<F>(acc, a_by_k, b_by_k) };
}

/// Writes C of a group, by way of shared memory where there is room and no old C.
///
/// # Safety
/// Obligation 1 of the entries; nothing is copied to the stage at `room`; all threads are here.
#[inline(always)]
unsafe fn store<O: Output<Acc = f32>>(
    acc: &mut Acc,
    params: &BatchedParams<f32>,
    (partition, work): (&Partition, &Work),
    room: Shared<O>,
) {
    let thread = opaque(thread::thread_idx_x());
    let (warp, lane) = (thread / 32, thread % 32);
    let params = reread(params);
    let (product, row, col) = part_of_warp(work, warp);
    let has_part = product < work.products;
    let target = Target::<O>::new(&params, work, room);
    if params.beta == 0.0 && partition.has_room_for_c(size_of::<O>() as u32) {
        target.scale(acc);
        // SAFETY: all threads of the block go the same way.
        unsafe { thread::sync_threads() };
        if has_part {
            // SAFETY: the stage was read before the barrier; each element is one lane's.
            unsafe { target.put_in_room(acc, (product, row, col), lane) };
        }
        // SAFETY: all threads of the block go the same way.
        unsafe { thread::sync_threads() };
        // SAFETY: obligation 1; all elements are there since the barrier.
        unsafe { target.flush(thread) };
    } else if has_part {
        // SAFETY: obligation 1; each element is one lane's.
        unsafe { target.put(acc, (product, row, col), lane) };
    }
}
