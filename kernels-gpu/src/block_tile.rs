//! Tiles of one product or of a batch: `batched_64x64` and `batched_96x96` on the FP32 units, `dmma_64x64`,
//! `dmma_96x96` and `dmma_128x128` on the FP64 tensor cores.
//!
//! Computes  C = alpha*A*B + beta*C for each product; beta == 0 never reads C
//! Operands  A (m,k), B (k,n) in either order, C (m,n) row-major, each a stride behind that of the product
//!           before; f32 (`batched_*`), f64 (`dmma_*`)
//! Launch    block of a warp for each 32, 48 or 64 by 32 elements of the tile; along x, as many as are resident together,
//!           which share the tiles of all products
//! Shared    three stages of the tiles of A and B (`gemm_spec::block_tile`)
//! Requires  m, n >= 1; packets of 16 bytes are copied where lines begin at multiples of them
//! Cost      2mnk flop a product; each element of A and B is loaded n/side and m/side times
//! Bound by  memory to about n = 64 of square products; the units from 128 on
//! Source    own; `mma.sync` with two or more stages of `cp.async` as in CUTLASS 2
//!
//! A block goes from tile to tile, and the stages do not know where one ends: while the last of a tile are multiplied,
//! the first of the next one are on their way.
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
use gemm_spec::block_tile::{self, BlockTile, PAD, STAGES, WARP_COLS};
use gemm_spec::params::BatchedParams;
use gemm_spec::{
    Accumulator, BatchShare, Block, KernelSpec, LaunchShape, MinBlocks, OperandAccess, ParamList,
    Tile,
};

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use self::dmma::{DMMA_64X64, DMMA_96X96, DMMA_128X128};
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) use self::dmma::{EMULATED_DMMA_64X64, EMULATED_DMMA_96X96, EMULATED_DMMA_128X128};
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use self::fma::{BATCHED_64X64, BATCHED_96X96};
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) use self::fma::{EMULATED_BATCHED_64X64, EMULATED_BATCHED_96X96};
use self::load::{Loader, Loads};
use crate::parts::product_tile::ProductTile;
use crate::parts::unroll::unroll;

/// What the code of a kernel is compiled for.
trait Form {
    const TILE: BlockTile;
}

/// Defines a kernel: its form, its entry and what the host needs to launch it.
macro_rules! kernel {
    (
        $(#[$meta:meta])*
        $spec:ident, $emulated_entries:ident = $id:literal, $symbol:ident: $element:ident,
        $types:ident, $params:ident, $arch:ident, $form:ident of $tile:expr, $blocks:literal an SM
    ) => {
        struct $form;

        impl $crate::block_tile::Form for $form {
            const TILE: BlockTile = $tile;
        }

        $crate::parts::entries::entry! {
            /// # Safety
            /// 1. `a`, `b` and `c` are valid for `count` matrices of the entry's type, m by k, k by n and m by n, at
            ///    their leading dimensions and strides, A and B in the orders that `orders` says; no C overlaps an
            ///    input or another C, and nobody else writes one.
            /// 2. `tiles` are those of all products, of the form's rows and columns, and the launch has the shared
            ///    memory of `gemm_spec::block_tile` and the block of the specification; m, n >= 1.
            pub unsafe fn $symbol(params: BatchedParams<$element>) {
                // SAFETY: the obligations are the same.
                unsafe { $crate::block_tile::in_order::<$element, $form>(params) };
            }
        }

        /// The entry as a function for the emulator.
        #[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
        pub(crate) const $emulated_entries: &[(&str, crate::EmulatedEntry)] =
            crate::parts::entries::emulated!($params(BatchedParams): $symbol);

        $(#[$meta])*
        pub(crate) const $spec: gemm_spec::KernelSpec = gemm_spec::KernelSpec {
            id: $id,
            arch: gemm_spec::Arch::$arch,
            entries: &[gemm_spec::Entry {
                types: gemm_spec::Types::$types,
                symbol: stringify!($symbol),
            }],
            ..$crate::block_tile::of_tile(
                $tile,
                <$element as $crate::block_tile::load::Loads>::BYTES,
                $blocks,
            )
        };
        const _: () = $spec.check();
    };
}
use kernel;

/// What the kernels of a tile have in common, of elements of that many bytes, with that number of blocks an SM.
const fn of_tile(tile: BlockTile, bytes: u32, blocks: u32) -> KernelSpec {
    KernelSpec {
        about: if bytes == 8 {
            "f64 on the tensor cores, one product or a batch, with the bits of a chain"
        } else {
            "batches of medium products: a block goes from tile to tile and copies ahead"
        },
        origin: "own",
        launch: LaunchShape::Grouped {
            block: Block { x: tile.threads(), y: 1 },
            tile: tile.tile(),
            rows: block_tile::ROWS,
        },
        min_blocks_per_sm: MinBlocks::same(blocks),
        shared_elements: tile.most_shared(bytes),
        params: ParamList::Batched,
        operands: OperandAccess::Batched(BatchShare::Tile(tile)),
        ..KernelSpec::PLAIN
    }
}

/// k elements of a stage.
const fn steps<T: Loads, F: Form>() -> u32 {
    F::TILE.steps(T::BYTES)
}

/// Elements from one line of a stage to the next.
const fn pitch<T: Loads, F: Form>(is_a: bool, along_k: bool) -> usize {
    let Tile { m, n } = F::TILE.tile();
    let line = match (along_k, is_a) {
        (true, _) => steps::<T, F>(),
        (false, true) => m,
        (false, false) => n,
    };
    (line + PAD) as usize
}

/// A lane's accumulators of its warp's elements of C; all are of warps of 64 rows.
type Accumulators<T> = [[T; 4]; 16];

/// The copies of a stage that are started while another is multiplied, some at a time.
struct Copies<'a, T: Loads, F: Form, const A_ALONG_K: bool, const B_ALONG_K: bool> {
    loader: &'a Loader<T, F, A_ALONG_K, B_ALONG_K>,
    to: (SharedAddress<T>, SharedAddress<T>),
    /// Whether there are any.
    starts: bool,
}

impl<T: Loads, F: Form, const A_ALONG_K: bool, const B_ALONG_K: bool>
    Copies<'_, T, F, A_ALONG_K, B_ALONG_K>
{
    /// Starts one of `parts`.
    ///
    /// # Safety
    /// [`Loader::start_part`]'s.
    #[inline(always)]
    unsafe fn start(&self, (part, parts): (usize, usize)) {
        if self.starts {
            // SAFETY: the caller's promise.
            unsafe { self.loader.start_part((part, parts), self.to) };
        }
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
    /// [`Copies::start`].
    unsafe fn multiply<F: Form, const A_ALONG_K: bool, const B_ALONG_K: bool>(
        acc: &mut Accumulators<Self>,
        place: Place<Self>,
        copies: &Copies<'_, Self, F, A_ALONG_K, B_ALONG_K>,
    );

    /// Adds the products of the first `valid` k elements of a stage.
    ///
    /// # Safety
    /// The stage has them, written before a barrier, and any numbers behind them up to a multiple of four; all
    /// lanes of the warp are here.
    unsafe fn multiply_part<F: Form, const A_ALONG_K: bool, const B_ALONG_K: bool>(
        acc: &mut Accumulators<Self>,
        place: Place<Self>,
        valid: u32,
    );

    /// Stores what the lane has of the warp's elements of C.
    ///
    /// # Safety
    /// Those that are in C are valid, and nobody else's.
    unsafe fn store<F: Form, const A_ALONG_K: bool, const B_ALONG_K: bool>(
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
unsafe fn in_order<T: Units, F: Form>(params: BatchedParams<T>) {
    match (params.orders & A_COL_MAJOR == 0, params.orders & B_COL_MAJOR != 0) {
        // SAFETY: the obligations, in each of the four.
        (true, false) => unsafe { tiles::<T, F, true, false>(params) },
        // SAFETY: the same.
        (true, true) => unsafe { tiles::<T, F, true, true>(params) },
        // SAFETY: the same.
        (false, false) => unsafe { tiles::<T, F, false, false>(params) },
        // SAFETY: the same.
        (false, true) => unsafe { tiles::<T, F, false, true>(params) },
    }
}

/// # Safety
/// The obligations of the entries; lines of A are along k, or not, as are those of B.
#[inline(always)]
unsafe fn tiles<T: Units, F: Form, const A_ALONG_K: bool, const B_ALONG_K: bool>(
    params: BatchedParams<T>,
) {
    let thread = thread::thread_idx_x();
    let (step, last) = (thread::grid_dim_x(), params.tiles);
    let (warp, lane) = (thread / 32, thread % 32);
    let [down, _] = F::TILE.warps;
    let (warp_row, warp_col) = (warp % down * F::TILE.warp_rows, warp / down * WARP_COLS);
    // SAFETY: obligation 2 provides the bytes; the barriers below keep writes and reads apart.
    let stages = SharedAddress::new(unsafe { shared::launch_sized::<T>() });
    let Tile { m: side_m, n: side_n } = F::TILE.tile();
    let a_elements = F::TILE.operand_elements(side_m, T::BYTES, A_ALONG_K);
    let stage_elements = a_elements + F::TILE.operand_elements(side_n, T::BYTES, B_ALONG_K);
    let stage = |at: u32| {
        let a = stages.wrapping_add((at * stage_elements) as usize);
        (a, a.wrapping_add(a_elements as usize))
    };
    // The first element of a warp's lines, or in each line.
    let a_first = warp_row as usize * if A_ALONG_K { pitch::<T, F>(true, true) } else { 1 };
    let b_first = warp_col as usize * if B_ALONG_K { pitch::<T, F>(false, true) } else { 1 };
    let place = |at: u32| {
        let (a, b) = stage(at);
        Place { a: a.wrapping_add(a_first), b: b.wrapping_add(b_first), lane }
    };
    let after = |at: u32| if at + 1 == STAGES { 0 } else { at + 1 };

    let mut loader = Loader::<T, F, A_ALONG_K, B_ALONG_K>::new(thread, &params);
    let (mut load_tile, mut load_done, mut load_at) = (thread::block_idx_x(), 0, 0);
    let (mut tile, mut done, mut at) = (load_tile, 0, 0);
    let mut acc = [[T::ZERO; 4]; 16];
    // Stages that are on their way before the first is multiplied.
    let mut ahead = 0;
    while tile < last {
        let is_ready = ahead == STAGES - 1;
        let loads = load_tile < last;
        if is_ready {
            wait_group::<{ STAGES - 2 }>();
            // SAFETY: all threads of the block go the same way.
            unsafe { thread::sync_threads() };
        }
        if loads && load_done == 0 {
            // SAFETY: obligation 1.
            unsafe { loader.begin(&params, &ProductTile::of(&params, F::TILE.tile(), load_tile)) };
        }
        // Stages of k elements that are all in the matrices: those to multiply, and those to load in packets.
        let whole = (params.k - done) / steps::<T, F>();
        let in_packets =
            if loads && loader.in_packets() { (params.k - load_done) / steps::<T, F>() } else { 0 };
        let multiplies = is_ready && whole > 0;
        let starts = multiplies && in_packets > 0;
        if loads && !starts {
            let to = stage(load_at);
            if in_packets > 0 {
                // SAFETY: obligation 1; the barrier comes between the last read of a stage and this.
                unsafe { loader.start_part((0, 1), to) };
            } else {
                // SAFETY: the same.
                unsafe { loader.start((load_done, params.k), to) };
            }
        }
        // Stages until the next decision.
        let mut run = 1;
        if multiplies {
            if starts || !loads {
                run = if loads { whole.min(in_packets) } else { whole };
            }
            let mut left = run;
            loop {
                let copies = Copies { loader: &loader, to: stage(load_at), starts };
                // SAFETY: the stage's copies have landed; the barrier comes between the last read of the stage that
                // is loaded meanwhile and its copies, which obligation 1 allows.
                unsafe { T::multiply(&mut acc, place(at), &copies) };
                commit_group();
                loader.advance();
                (load_at, at) = (after(load_at), after(at));
                left -= 1;
                if left == 0 {
                    break;
                }
                wait_group::<{ STAGES - 2 }>();
                // SAFETY: all threads of the block go the same way.
                unsafe { thread::sync_threads() };
            }
            done += run * steps::<T, F>();
        } else {
            commit_group();
            loader.advance();
            load_at = after(load_at);
            if is_ready {
                let valid = params.k - done;
                // SAFETY: the stage's copies have landed, and what is loaded meanwhile is another.
                unsafe { T::multiply_part::<F, A_ALONG_K, B_ALONG_K>(&mut acc, place(at), valid) };
                at = after(at);
                done = params.k;
            } else {
                ahead += 1;
            }
        }
        if loads {
            load_done = params.k.min(load_done.saturating_add(run * steps::<T, F>()));
            if load_done == params.k {
                (load_tile, load_done) = (load_tile + step, 0);
            }
        }
        if is_ready && done == params.k {
            let work = ProductTile::of(&params, F::TILE.tile(), tile);
            let (row, col) = (work.row + warp_row, work.col + warp_col);
            let offset = u64::from(work.product) * params.c_stride
                + u64::from(row) * params.ldc
                + u64::from(col);
            // SAFETY: obligation 1.
            let c = unsafe { global_mut(params.c) }.cast::<T>().wrapping_add(offset as usize);
            let target = Target {
                c,
                ldc: params.ldc,
                // A warp's part of a tile may be outside C.
                rows: params.m.saturating_sub(row),
                cols: params.n.saturating_sub(col),
                alpha: params.alpha,
                beta: params.beta,
            };
            // SAFETY: obligation 1; each element is one thread's.
            unsafe { T::store::<F, A_ALONG_K, B_ALONG_K>(&acc, lane, target) };
            unroll!(for I in 0..16 {
                acc[I] = [T::ZERO; 4];
            });
            (tile, done) = (tile + step, 0);
        }
    }
}
