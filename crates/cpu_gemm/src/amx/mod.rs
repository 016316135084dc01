//! Products in the tile registers of AMX: i8, bf16, f16 and f32 as sums of bf16 pieces, and f64 by residues.
//!
//! Sums of i8 have the bits of vector units. Those of floats are added in another order;
//! they have the same bits on every repeat, for any number of threads and any storage order, and on any
//! CPU by the model of the instructions.
//!
//! - bf16: the products of 32 elements are summed as `model` says, then added to the sum so far.
//! - f16 is two pieces of bf16, exactly; all four products are computed. Blocks of 192 elements of k are summed
//!   from zero and added up in f32: 24 of them in a chain, then the chains without what rounding would take.
//! - f32 is three pieces, exactly. Of the nine products the three that are below 2^-24 of the largest are
//!   left out. The five small ones of a block are summed first, the largest on top.
//! - f32 whose factors may be rounded is two pieces of three products, or one.
//! - f64 is integers, whose residues by 15 moduli are i8: see [`residues`].
//!
//! The instructions take subnormal numbers for zeros. Packing watches the range of what it packs, and a
//! product that reaches where that would show, or NaN or infinity, is computed by multiply-adds instead.
//!
//! Source: Intel, "Architecture Instruction Set Extensions Programming Reference"; Henry, Tang and Heinecke,
//! "Leveraging the bfloat16 Artificial Intelligence Datatype for Higher-Precision Computations" (2019), for f32
//! by pieces.

mod blocks;
mod bytes;
mod driver;
mod flags;
mod micro_kernel;
mod model;
mod pack;
mod pack_avx512;
mod peak;
mod permission;
mod pieces;
mod registers;
pub(crate) mod residues;
mod self_test;
mod store;

use gemm_spec::{bf16, f16};

pub(crate) use self::bytes::multiply_bytes;
use self::driver::TileKernels;
pub(crate) use self::driver::{TileTypes, Unit, multiply};
pub(crate) use self::flags::environment_is_usual;
pub use self::peak::TileLoop;
pub(crate) use self::permission::{Amx, NoAmx};
use self::pieces::{OnePiece, Pieces, Range, TwoPieces};

/// From which size on products are faster by tiles than by vector registers.
///
/// Packing is what tiles lose by: each element of A meets n others and each of B m, so their harmonic mean says
/// how often what is packed is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pays {
    /// `m n / (m + n)` at least where operands come from a cache, on one thread and on several, and where they
    /// come from memory, of which that of a thin C is packed where it is used.
    pub(crate) alone: usize,
    pub(crate) together: usize,
    pub(crate) from_memory: usize,
    pub(crate) thin: usize,
    /// Multiply-adds of each thread at least, of one, of two and of more: tiles wait for what shares a core, and those
    /// of several cores for the same memory.
    pub(crate) work: [usize; 3],
}

/// Elements of both operands up to which they count as coming from a cache.
const IN_CACHE: usize = 1 << 20;
/// Multiply-adds at least: fewer are done before the tiles are configured.
const LEAST_WORK: usize = 1 << 15;
/// k at least: with less C is stored more slowly than it is computed.
const LEAST_STEPS: usize = 32;

/// Whether a product of that size is faster by tiles than by vector registers.
pub(crate) fn pays<T: TileTypes>((m, n, k): (usize, usize, usize), threads: usize) -> bool {
    let Pays { alone, together, from_memory, thin, work } = T::PAYS;
    let multiply_adds = m.saturating_mul(n).saturating_mul(k);
    let of_thread = work[threads.clamp(1, 3) - 1];
    if k < LEAST_STEPS || multiply_adds < LEAST_WORK || multiply_adds / threads < of_thread {
        return false;
    }
    let elements = (m + n).saturating_mul(k);
    let uses = m.saturating_mul(n).checked_div(m + n).unwrap_or(0);
    let least = match threads {
        _ if elements > IN_CACHE && driver::is_thin::<T>((m, n)) => thin,
        _ if elements > IN_CACHE => from_memory,
        1 => alone,
        _ => together,
    };
    uses >= least
}

/// The loop that measures the units' peak for products of some types.
pub(crate) fn tile_loop<T: TileTypes>() -> Option<TileLoop> {
    peak::tile_loop(T::A::STEP, T::PRODUCTS)
}

/// Multiply-adds of tiles of bf16 up to which a product is computed by one thread: fewer are done before another
/// thread has woken, packed its part and fetched what was packed elsewhere.
const ALONE: usize = 1 << 26;
/// The same for each thread at least, where several compute it.
const TILE_WORK: usize = 1 << 22;

/// Multiply-adds that take as long as packing an element of either operand, at least.
const PACKING_WORK: usize = 64;

/// How many of the threads that a product is worth by vector registers it is worth by tiles, which are done
/// sooner.
pub(crate) fn threads<T: TileTypes>((m, n, k): (usize, usize, usize), threads: usize) -> usize {
    let products = m.saturating_mul(n).saturating_mul(k).saturating_mul(T::PRODUCTS);
    let packed = (m + n).saturating_mul(k).saturating_mul(PACKING_WORK);
    // A tile of bytes has twice the steps.
    let work = (products / (T::A::STEP / 32)).saturating_add(packed);
    if work < ALONE { 1 } else { threads.min(work / TILE_WORK) }
}

/// Bits of an f32 that is that power of two.
const fn power_of_two(exponent: i32) -> u32 {
    ((127 + exponent) as u32) << 23
}

/// Whether pieces and products of numbers of those ranges stay far from the ends of f32's: nothing that counts
/// is subnormal, and no sum of products overflows in any order.
fn within_range(a: Range, b: Range, k: usize) -> bool {
    let exponent = |magnitude: u32| (magnitude >> 23) as i32 - 127;
    if a.largest == 0 || b.largest == 0 {
        return a.largest.max(b.largest) < power_of_two(127);
    }
    let least = power_of_two(-100);
    let smallest_product = exponent(a.least) + exponent(b.least);
    let bits_of_k = (usize::BITS - k.leading_zeros()) as i32;
    let largest_sum = exponent(a.largest) + 1 + exponent(b.largest) + 1 + bits_of_k;
    a.least >= least && b.least >= least && smallest_product >= -100 && largest_sum < 127
}

/// Products of f32 whose factors are rounded to two pieces, 16 bits: all products of these but that of both rests.
pub(crate) enum RoundedToTf32 {}

/// Products of f32 whose factors are rounded to bf16.
pub(crate) enum RoundedToBf16 {}

/// The kernels of types whose tiles multiply by those passes, of the pieces of those elements.
macro_rules! tile_types {
    ($(
        $name:ty: $types:ty, elements $element:ty,
        block $block:literal, carries $carries:literal, products $products:literal,
        pays [$alone:literal, $together:literal, $from_memory:literal, $thin:literal, $work:expr],
        $admits:expr, [$($pass:ident / $model:ident),+], swapped [$($swapped:ident / $swapped_model:ident),+];
    )*) => {$(
        // SAFETY: the element is that of the types, or a transparent structure of it; each is a plain number.
        unsafe impl TileTypes for $name {
            type Types = $types;
            type A = $element;
            type B = $element;

            const BLOCK: usize = $block;
            const CARRIES: bool = $carries;
            const PRODUCTS: usize = $products;
            const PAYS: Pays = Pays {
                alone: $alone,
                together: $together,
                from_memory: $from_memory,
                thin: $thin,
                work: $work,
            };

            fn admits(a: Range, b: Range, k: usize) -> bool {
                $admits(a, b, k)
            }

            fn kernels(unit: Unit) -> &'static TileKernels<Self> {
                match unit {
                    Unit::Tiles(_) => const {
                        &TileKernels {
                            pack_a: pack_avx512::pack,
                            pack_b: pack_avx512::pack,
                            passes: &[$(micro_kernel::$pass),+],
                            passes_swapped: &[$(micro_kernel::$swapped),+],
                            store: store::store_avx512,
                            add: store::add_avx512,
                            add_chain: store::add_chain_avx512,
                        }
                    },
                    Unit::Model => const {
                        &TileKernels {
                            pack_a: pack::pack,
                            pack_b: pack::pack,
                            passes: &[$(micro_kernel::$model),+],
                            passes_swapped: &[$(micro_kernel::$swapped_model),+],
                            store: store::store,
                            add: store::add,
                            add_chain: store::add_chain,
                        }
                    },
                }
            }
        }
    )*};
}

tile_types! {
    i8: i8, elements i8, block 16, carries true, products 1,
        pays [4, 4, 4, 3, [0; 3]], |_, _, _| true,
        [multiply_i8 / model_i8], swapped [multiply_i8 / model_i8];
    bf16: bf16, elements bf16, block 16, carries true, products 1,
        pays [7, 7, 16, 10, [0; 3]], within_range,
        [multiply_bf16 / model_bf16], swapped [multiply_bf16 / model_bf16];
    (bf16, f32): (bf16, f32), elements bf16, block 16, carries true, products 1,
        pays [7, 7, 16, 10, [0; 3]], within_range,
        [multiply_bf16 / model_bf16], swapped [multiply_bf16 / model_bf16];
    RoundedToBf16: f32, elements OnePiece, block 16, carries true, products 1,
        pays [16, 24, 64, 30, [0; 3]], within_range,
        [multiply_bf16 / model_bf16], swapped [multiply_bf16 / model_bf16];
    RoundedToTf32: f32, elements TwoPieces, block 8, carries true, products 3,
        pays [30, 60, 128, 100, [0, 1 << 20, 1 << 20]], within_range,
        [multiply_two_pieces_but_rests_a_first / model_two_pieces_but_rests_a_first],
        swapped [multiply_two_pieces_but_rests_b_first / model_two_pieces_but_rests_b_first];
    f16: f16, elements f16, block 6, carries false, products 4,
        pays [30, 40, 96, 62, [0, 1 << 20, 1 << 20]], within_range,
        [multiply_two_pieces_a_first / model_two_pieces_a_first],
        swapped [multiply_two_pieces_b_first / model_two_pieces_b_first];
    (f16, f32): (f16, f32), elements f16, block 6, carries false, products 4,
        pays [30, 40, 96, 62, [0, 1 << 20, 1 << 20]], within_range,
        [multiply_two_pieces_a_first / model_two_pieces_a_first],
        swapped [multiply_two_pieces_b_first / model_two_pieces_b_first];
    f32: f32, elements f32, block 6, carries false, products 6,
        pays [64, 240, 380, 380, [3 << 31, 3 << 30, 1 << 31]], within_range, [
        multiply_three_pieces_small_a_first / model_three_pieces_small_a_first,
        multiply_three_pieces_large / model_three_pieces_large
    ], swapped [
        multiply_three_pieces_small_b_first / model_three_pieces_small_b_first,
        multiply_three_pieces_large / model_three_pieces_large
    ];
}
