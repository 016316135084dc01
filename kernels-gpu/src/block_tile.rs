//! Tiles of 64 x 64 of one product or of a batch: `batched_64x64` on the FP32 units, `dmma_64x64` on the FP64 tensor
//! cores.
//!
//! Computes  C = alpha*A*B + beta*C for each product; beta == 0 never reads C
//! Operands  A (m,k), B (k,n) in either order, C (m,n) row-major, each a stride behind that of the product
//!           before; f32 (`batched_64x64`), f64 (`dmma_64x64`)
//! Launch    block (128,1,1); along x, as many as are resident together, which share the tiles of all products
//! Shared    three stages of the tiles of A and B, 128 bytes of k elements each (`gemm_spec::block_tile`)
//! Requires  m, n >= 1; packets of 16 bytes are copied where lines begin at multiples of them
//! Cost      2mnk flop a product; each element of A and B is loaded n/64 and m/64 times
//! Bound by  memory to about n = 64 of square products; the units from 128 on
//! Source    own; `mma.sync` with two or more stages of `cp.async` as in CUTLASS 2
//!
//! Each of four warps computes 32 x 32 elements of C. A block goes from tile to tile, and the stages do not know where
//! one ends: while the last of a tile are multiplied, the first of the next one are on their way.
//!
//! ```text
//!   copies    | tile 0: stage 0 | stage 1 | stage 2 | tile 1: stage 0 | stage 1 | ...
//!   products                              | tile 0: stage 0 | stage 1 | stage 2 | C | tile 1: ...
//! ```
//!
//! Each element of C is one chain of multiply-adds in the order of k, also on the tensor cores: its bits are those
//! of every other such kernel. Behind k a product is -0 * 0, which changes no sum.

#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_90a"))]
mod dmma;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_80"))]
mod fma;
mod load;

use cuda_std::arch::sm80::{commit_group, wait_group};
use cuda_std::memory::{GlobalMut, SharedAddress, global, global_mut};
use cuda_std::{shared, thread};
use gemm_spec::batched::{A_COL_MAJOR, B_COL_MAJOR};
use gemm_spec::block_tile::{SIDE, STAGES, THREADS, operand_elements};
use gemm_spec::index::{ceil_div, grouped_tile};
use gemm_spec::params::BatchedParams;
use gemm_spec::{
    Accumulator, Arch, Block, Entry, KernelSpec, LaunchShape, MinBlocks, OperandAccess, ParamList,
    Tile, Types, block_tile,
};

use self::load::{Loader, Loads};
use crate::parts::entries::entry;
use crate::parts::unroll::unroll;

/// Defines the entry of a kernel, and lists it.
macro_rules! kernel {
    ($symbol:ident, $element:ident, $types:ident, $emulated:ident, $entries:ident, $list:ident) => {
        entry! {
            /// # Safety
            /// 1. `a`, `b` and `c` are valid for `count` matrices of the entry's type, m by k, k by n and m by n, at
            ///    their leading dimensions and strides, A and B in the orders that `orders` says; no C overlaps an
            ///    input or another C, and nobody else writes one.
            /// 2. `tiles` are those of 64 x 64 of all products, and the launch has the shared memory of
            ///    `gemm_spec::block_tile` and the block of the specification; m, n >= 1.
            pub unsafe fn $symbol(params: BatchedParams<$element>) {
                // SAFETY: the obligations are the same.
                unsafe { in_order::<$element>(params) };
            }
        }

        const $entries: &[Entry] = &[Entry { types: Types::$types, symbol: stringify!($symbol) }];

        /// The entry as a function for the emulator.
        #[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
        pub(crate) const $list: &[(&str, crate::EmulatedEntry)] =
    crate::parts::entries::emulated!($emulated(BatchedParams): $symbol);
    };
}

#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_80"))]
kernel!(batched_64x64_f32, f32, F32, Batched, FMA_ENTRIES, EMULATED_FMA);
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_90a"))]
kernel!(dmma_64x64_f64, f64, F64, BatchedF64, DMMA_ENTRIES, EMULATED_DMMA);

/// What both have in common.
const BASE: KernelSpec = KernelSpec {
    origin: "own",
    launch: LaunchShape::Grouped {
        block: Block { x: THREADS, y: 1 },
        tile: Tile { m: SIDE, n: SIDE },
        rows: block_tile::ROWS,
    },
    min_blocks_per_sm: MinBlocks::same(3),
    params: ParamList::Batched,
    operands: OperandAccess::Batched { grouped: false },
    ..KernelSpec::PLAIN
};

/// What the host needs to launch the kernel for f32.
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_80"))]
pub(crate) const FMA: KernelSpec = KernelSpec {
    id: "batched_64x64",
    about: "batches of medium products: a block goes from tile to tile and copies ahead",
    arch: Arch::Sm80,
    entries: FMA_ENTRIES,
    shared_elements: block_tile::most_shared(block_tile::steps(4)),
    ..BASE
};
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_80"))]
const _: () = FMA.check();

/// What the host needs to launch the kernel for f64.
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_90a"))]
pub(crate) const DMMA: KernelSpec = KernelSpec {
    id: "dmma_64x64",
    about: "f64 on the tensor cores, one product or a batch, with the bits of a chain",
    arch: Arch::Sm90a,
    entries: DMMA_ENTRIES,
    shared_elements: block_tile::most_shared(block_tile::steps(8)),
    ..BASE
};
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_90a"))]
const _: () = DMMA.check();

/// A lane's accumulators of its warp's 32 x 32 elements of C.
type Accumulators<T> = [[T; 4]; 8];

/// The copies of a stage that are started while another is multiplied, a quarter at a time: a thread waits for the
/// address of one copy to be read before it makes that of the next.
struct Copies<'a, T: Loads, const A_ALONG_K: bool, const B_ALONG_K: bool> {
    loader: &'a mut Loader<T, A_ALONG_K, B_ALONG_K>,
    params: &'a BatchedParams<T>,
    to: (SharedAddress<T>, SharedAddress<T>),
}

impl<T: Loads, const A_ALONG_K: bool, const B_ALONG_K: bool> Copies<'_, T, A_ALONG_K, B_ALONG_K> {
    /// Starts one of the four quarters.
    ///
    /// # Safety
    /// [`Loader::start_packet`]'s.
    #[inline(always)]
    unsafe fn quarter<const I: usize>(&mut self) {
        // SAFETY: the caller's promise.
        unsafe { self.loader.start_packet::<I>(self.params, self.to) };
    }
}

/// Where a lane reads in the tiles of its warp.
#[derive(Clone, Copy)]
struct Place<T> {
    /// The first element of the warp's rows of A and columns of B in the stage.
    a: SharedAddress<T>,
    b: SharedAddress<T>,
    lane: u32,
}

/// The element types, and the units that multiply them.
trait Units: Loads {
    /// Adds the products of a stage of operands whose lines are along k or not, and starts copies meanwhile.
    ///
    /// # Safety
    /// The stage has its k elements, written before a barrier; all lanes of the warp are here; and those of
    /// [`Loader::start_packet`].
    unsafe fn multiply<const A_ALONG_K: bool, const B_ALONG_K: bool>(
        acc: &mut Accumulators<Self>,
        place: Place<Self>,
        copies: Copies<'_, Self, A_ALONG_K, B_ALONG_K>,
    );

    /// Adds the products of the first `valid` k elements of a stage.
    ///
    /// # Safety
    /// The stage has them, written before a barrier, and any numbers behind them up to a multiple of four; all
    /// lanes of the warp are here.
    unsafe fn multiply_part<const A_ALONG_K: bool, const B_ALONG_K: bool>(
        acc: &mut Accumulators<Self>,
        place: Place<Self>,
        valid: u32,
    );

    /// Stores what the lane has of the warp's elements of C, `rows` by `cols` of which are in C.
    ///
    /// # Safety
    /// They are valid from `c` on, and nobody else's.
    unsafe fn store<const A_ALONG_K: bool, const B_ALONG_K: bool>(
        acc: &Accumulators<Self>,
        lane: u32,
        c: Target<Self>,
    );
}

/// Elements of C that a warp stores, and how.
#[derive(Clone, Copy)]
struct Target<T> {
    c: GlobalMut<T>,
    ldc: u64,
    /// Those that are in C.
    rows: u32,
    cols: u32,
    alpha: T,
    beta: T,
}

impl<T: Accumulator> Target<T> {
    /// What is stored for a sum.
    #[inline(always)]
    fn value(&self, sum: T, old: T) -> T {
        gemm_spec::epilogue::<T, T>(self.alpha, sum, self.beta, || old)
    }

    /// Stores one element, if it is in C.
    ///
    /// # Safety
    /// [`Units::store`]'s; the element is the calling thread's.
    #[inline(always)]
    unsafe fn put(&self, (row, col): (u32, u32), sum: T) {
        if row < self.rows && col < self.cols {
            let at = self.c.wrapping_add((u64::from(row) * self.ldc) as usize + col as usize);
            let mut old = T::ZERO;
            if self.beta != T::ZERO {
                // SAFETY: it is in C.
                old = unsafe { at.read() };
            }
            // SAFETY: it is in C, and this thread's.
            unsafe { at.write(self.value(sum, old)) };
        }
    }
}

/// Computes the tiles with code for the operands' orders.
///
/// # Safety
/// The obligations of the entries.
#[inline(always)]
unsafe fn in_order<T: Units>(params: BatchedParams<T>) {
    match (params.orders & A_COL_MAJOR == 0, params.orders & B_COL_MAJOR != 0) {
        // SAFETY: the obligations, in each of the four.
        (true, false) => unsafe { tiles::<T, true, false>(params) },
        // SAFETY: the same.
        (true, true) => unsafe { tiles::<T, true, true>(params) },
        // SAFETY: the same.
        (false, false) => unsafe { tiles::<T, false, false>(params) },
        // SAFETY: the same.
        (false, true) => unsafe { tiles::<T, false, true>(params) },
    }
}

/// # Safety
/// The obligations of the entries; lines of A are along k, or not, as are those of B.
#[inline(always)]
unsafe fn tiles<T: Units, const A_ALONG_K: bool, const B_ALONG_K: bool>(params: BatchedParams<T>) {
    let thread = thread::thread_idx_x();
    let (step, last) = (thread::grid_dim_x(), params.tiles);
    let (warp, lane) = (thread / 32, thread % 32);
    let (warp_row, warp_col) = (warp % 2 * (SIDE / 2), warp / 2 * (SIDE / 2));
    // SAFETY: obligation 2 provides the bytes; the barriers below keep writes and reads apart.
    let stages = SharedAddress::new(unsafe { shared::launch_sized::<T>() });
    let a_elements = operand_elements(T::STEPS, A_ALONG_K);
    let stage_elements = a_elements + operand_elements(T::STEPS, B_ALONG_K);
    let stage = |at: u32| {
        let a = stages.wrapping_add((at * stage_elements) as usize);
        (a, a.wrapping_add(a_elements as usize))
    };
    // The first element of a warp's lines, or in each line.
    let first = |along_k: bool, line: u32| {
        (if along_k { line * (T::STEPS + block_tile::PAD) } else { line }) as usize
    };

    let place = |at: u32| {
        let (a, b) = stage(at);
        Place {
            a: a.wrapping_add(first(A_ALONG_K, warp_row)),
            b: b.wrapping_add(first(B_ALONG_K, warp_col)),
            lane,
        }
    };
    let mut loader = Loader::<T, A_ALONG_K, B_ALONG_K>::new(thread);
    let (mut load_tile, mut load_done, mut load_at) = (thread::block_idx_x(), 0, 0);
    let (mut tile, mut done, mut at) = (load_tile, 0, 0);
    let mut acc = [[T::ZERO; 4]; 8];
    // Stages that are on their way before the first is multiplied.
    let mut ahead = 0;
    while tile < last {
        let is_ready = ahead == STAGES - 1;
        if is_ready && load_done > 0 && loader.in_packets() {
            // Whole stages, none of which is the tile's last: nothing else is to be decided.
            let loads = (params.k - load_done) / T::STEPS;
            let mut left = loads.min((params.k - done - 1) / T::STEPS);
            load_done += left * T::STEPS;
            done += left * T::STEPS;
            while left > 0 {
                wait_group::<{ STAGES - 2 }>();
                // SAFETY: all threads of the block go the same way.
                unsafe { thread::sync_threads() };
                let copies = Copies { loader: &mut loader, params: &params, to: stage(load_at) };
                // SAFETY: the stage's copies have landed; the barrier comes between the last read of the stage that
                // is loaded meanwhile and its copies, which obligation 1 allows.
                unsafe { T::multiply(&mut acc, place(at), copies) };
                commit_group();
                load_at = if load_at + 1 == STAGES { 0 } else { load_at + 1 };
                at = if at + 1 == STAGES { 0 } else { at + 1 };
                left -= 1;
            }
            if load_done >= params.k {
                (load_tile, load_done) = (load_tile + step, 0);
            }
        }
        if is_ready {
            wait_group::<{ STAGES - 2 }>();
            // SAFETY: all threads of the block go the same way.
            unsafe { thread::sync_threads() };
        }
        if load_tile < last {
            if load_done == 0 {
                // SAFETY: obligation 1.
                unsafe { loader.begin(&params, &Work::of(&params, load_tile)) };
            }
            // SAFETY: obligation 1; the barrier comes between the last read of a stage and this.
            unsafe { loader.start(&params, load_done, stage(load_at)) };
            load_done += T::STEPS;
            if load_done >= params.k {
                (load_tile, load_done) = (load_tile + step, 0);
            }
        }
        commit_group();
        load_at = if load_at + 1 == STAGES { 0 } else { load_at + 1 };
        if !is_ready {
            ahead += 1;
            continue;
        }
        let valid = T::STEPS.min(params.k - done);
        // SAFETY: the stage's copies have landed, and what is loaded meanwhile is another.
        unsafe { T::multiply_part::<A_ALONG_K, B_ALONG_K>(&mut acc, place(at), valid) };
        at = if at + 1 == STAGES { 0 } else { at + 1 };
        done += valid;
        if done >= params.k {
            let work = Work::of(&params, tile);
            let (row, col) = (work.row + warp_row, work.col + warp_col);
            let offset = u64::from(work.product) * params.c_stride
                + u64::from(row) * params.ldc
                + u64::from(col);
            // SAFETY: obligation 1.
            let c = unsafe { global_mut(params.c) }.cast::<T>().wrapping_add(offset as usize);
            let target = Target {
                c,
                ldc: params.ldc,
                rows: params.m.saturating_sub(row),
                cols: params.n.saturating_sub(col),
                alpha: params.alpha,
                beta: params.beta,
            };
            // SAFETY: obligation 1; each element is one thread's.
            unsafe { T::store::<A_ALONG_K, B_ALONG_K>(&acc, lane, target) };
            unroll!(for I in 0..8 {
                acc[I] = [T::ZERO; 4];
            });
            (tile, done) = (tile + step, 0);
        }
    }
}

/// A tile of a product: its first row and column of C.
#[derive(Clone, Copy)]
struct Work {
    product: u32,
    row: u32,
    col: u32,
}

impl Work {
    /// One among all of the launch.
    #[inline(always)]
    fn of<T: Accumulator>(params: &BatchedParams<T>, tile: u32) -> Self {
        let (down, across) = (ceil_div(params.m, SIDE), ceil_div(params.n, SIDE));
        let of_product = (down * across).max(1);
        if of_product == 1 {
            return Self { product: tile, row: 0, col: 0 };
        }
        let (row, col) = grouped_tile(tile % of_product, down, across, params.rows);
        Self { product: tile / of_product, row: row * SIDE, col: col * SIDE }
    }
}
