//! The blocked product: both operands are packed, then threads compute areas of C.
//!
//! ```text
//! an area of C    sums of MC by NC in a buffer of the thread's own           L2
//!   k, KC at a time
//!     panels of A, 32 rows by KC                                             L1
//!       panels of B, 32 columns by KC, streamed: a micro-kernel              L2
//! ```
//!
//! Sums never go through C: columns of C a power of two apart would evict each other. After the last block of
//! k they are stored to it, past the caches where C is large.
//!
//! Sums of blocks that are added in f32 are added in chains of [`CHAIN`] blocks; what rounding takes from the
//! sum of the chains is kept beside it.
//!
//! Tickets are handed out by counters, as in [`crate::driver`]: those that pack first, then one for each
//! area, which waits until all is packed. Tickets that pack are held by threads that run, so it ends.
//! Where all that is packed stays in the threads' L2s, each thread has a stripe of C, whose tickets it takes
//! before those of others: it then finds most of what it multiplies where it packed it.
//!
//! Where C is so thin that what is packed is used a few times, only the short operand is packed before the rest:
//! of the long one each thread packs a block of k of some panels for itself, uses it and packs the next over it.

mod aside;
mod micro_tile;
mod packing;

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use gemm_spec::GemmTypes;

use self::aside::Aside;
use self::micro_tile::{Plain, lead};
use self::packing::{Blocks, Packing};
use super::blocks::{Areas, Costs};
use super::flags::Unraised;
use super::micro_kernel::{MicroKernel, SUMS};
use super::pack::{Form, LINES, PackFn, step_bytes};
use super::permission::Amx;
use super::pieces::{self, Pieces};
use super::registers::TileRegisters;
use super::store::{AddChainFn, AddFn, StoreFn};
use crate::buffer::Buffer;
use crate::context::CpuContext;
use crate::error::Error;
use crate::product::Product;
use crate::threads::{tickets, wait};

/// What computes micro-tiles.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// The tile registers.
    Tiles(Amx),
    /// The model of their instructions, on any CPU.
    Model,
}

/// What a unit offers for the types of a product.
pub(crate) struct TileKernels<T: TileTypes> {
    pub(super) pack_a: PackFn<T::A>,
    pub(super) pack_b: PackFn<T::B>,
    /// Micro-kernels that follow each other over a block of k, each going on from the sums of the one before.
    pub(super) passes: &'static [MicroKernel],
    /// The same for a product whose A and B have changed places: the order of sums stays.
    pub(super) passes_swapped: &'static [MicroKernel],
    pub(super) store: StoreFn<T::Types>,
    pub(super) add: AddFn,
    pub(super) add_chain: AddChainFn,
}

impl<T: TileTypes> Clone for TileKernels<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: TileTypes> Copy for TileKernels<T> {}

/// Products that tiles compute, and of which pieces of the elements.
///
/// # Safety
/// [`Self::A`] and [`Self::B`] are in memory what the types' A and B are, and every bit pattern of these is one of
/// them.
pub(crate) unsafe trait TileTypes: Sized + 'static {
    /// The types of the product.
    type Types: GemmTypes;
    /// Elements of A as they are packed.
    type A: Pieces;
    /// Elements of B as they are packed.
    type B: Pieces;
    /// Steps of a block of k. Where sums are [not carried](Self::CARRIES) they depend on it, so it is fixed.
    const BLOCK: usize;
    /// Whether a block's sums go on from those of the block before, in the tiles. Else each block begins
    /// from zero, and its sums are added to those before it in f32.
    const CARRIES: bool;
    /// Products of planes.
    const PRODUCTS: usize;
    /// From which size on it pays.
    const PAYS: super::Pays;

    /// Whether tiles keep to the error bound of f32 where magnitudes are in these ranges.
    fn admits(a: pieces::Range, b: pieces::Range, k: usize) -> bool;

    /// What a unit offers.
    fn kernels(unit: Unit) -> &'static TileKernels<Self>;
}

/// Blocks whose sums are added one after the other. The sums of such chains are added with what rounding takes
/// from them: the more blocks there are in a chain, the more its own rounding counts.
const CHAIN: usize = 24;

/// Rows and columns of an area at most.
const LARGEST_AREA: (usize, usize) = (256, 512);
/// The same where C has no more elements than [`SMALL_C`]: several areas for each thread.
const SMALL_AREA: (usize, usize) = (128, 128);
const SMALL_C: usize = 512 * 512;
/// The same where blocks of several planes share the L2 with the sums.
const PLANES_AREA: (usize, usize) = (256, 256);
/// Bytes of packed operands for each thread up to which C has stripes: about an L2.
const STRIPED: usize = 2 << 20;
/// Bytes of packed operands at least; they may also be as many as A and B themselves. A product that needs
/// more is computed in parts.
pub(super) const PACKED: usize = 256 << 20;

/// Computes the product, k at least 1. A part whose elements are of too wide a range is left to `otherwise`.
///
/// # Errors
/// [`Error::OutOfMemory`], before anything was written.
///
/// # Safety
/// The product's promises, see [`Product`].
pub(crate) unsafe fn multiply<T: TileTypes>(
    product: &Product<T::Types>,
    unit: Unit,
    context: &CpuContext,
    threads: usize,
    otherwise: impl Fn(&Product<T::Types>),
) -> Result<(), Error> {
    // SAFETY: the caller's promises.
    unsafe { multiply_by(product, (unit, *T::kernels(unit)), context, threads, otherwise) }
}

/// The same by some kernels of that unit.
///
/// # Errors
/// As [`multiply`].
///
/// # Safety
/// As [`multiply`].
pub(super) unsafe fn multiply_by<T: TileTypes>(
    product: &Product<T::Types>,
    unit: (Unit, TileKernels<T>),
    context: &CpuContext,
    threads: usize,
    otherwise: impl Fn(&Product<T::Types>),
) -> Result<(), Error> {
    let &Product { m, n, k, .. } = product;
    let operands = k.saturating_mul(m * size_of::<T::A>() + n * size_of::<T::B>());
    let bytes = operands.max(PACKED);
    // SAFETY: the caller's promises.
    unsafe { multiply_within::<T>(product, bytes, unit, context, threads, otherwise) }
}

/// The same with a limit on the bytes of the packed operands.
///
/// # Errors
/// As [`multiply`].
///
/// # Safety
/// As [`multiply`].
unsafe fn multiply_within<T: TileTypes>(
    product: &Product<T::Types>,
    bytes: usize,
    unit: (Unit, TileKernels<T>),
    context: &CpuContext,
    threads: usize,
    otherwise: impl Fn(&Product<T::Types>),
) -> Result<(), Error> {
    let &Product { m, n, k, .. } = product;
    let (of_a, of_b) = panel_bytes::<T>(k);
    let aside = Aside::of::<T>((m, n));
    let own = aside.unwrap_or_default();
    let (rows, cols) = match aside {
        None => part((m, n), (of_a, of_b), bytes),
        Some(_) => (m, n),
    };
    let (panels_a, panels_b) = (rows.div_ceil(LINES), cols.div_ceil(LINES));
    let spare = context.spare();
    let b = spare.take::<u8>(if own.b { 0 } else { panels_b * of_b })?;
    // The first panel of A may begin before C.
    let panels_a = panels_a + 1;
    let a = spare.take::<u8>(if own.a { 0 } else { panels_a * of_a })?;
    let in_area = match aside {
        None => panels_a.min(LARGEST_AREA.0 / LINES) * panels_b.min(LARGEST_AREA.1 / LINES),
        Some(_) => own.sides.0 * own.sides.1,
    };
    let blocks = Blocks::new::<T>(k);
    // Beside the sums of an area those of its chains, and what rounding took from them.
    let levels = if has_chains::<T>(blocks) { 3 } else { 1 };
    let (own_a, own_b) = own.bytes::<T>(blocks);
    let bytes = own_a + own_b + (levels * in_area + 1) * SUMS;
    let sums = (0..threads).map(|_| spare.take::<u8>(bytes));
    let mut memory = Memory { a, b, sums: Mutex::new(sums.collect::<Result<_, _>>()?) };
    for first_col in (0..n).step_by(cols) {
        for first_row in (0..m).step_by(rows) {
            let rows = rows.min(m - first_row);
            let cols = cols.min(n - first_col);
            let part = product.part(first_row..first_row + rows, first_col..first_col + cols);
            // SAFETY: the caller's promises hold for a part of C; the memory is this product's alone and
            // suffices for the first part, than which none is larger.
            let left = unsafe { run::<T>(&part, (unit, aside), &mut memory, context, threads) };
            for (rows, cols) in left {
                otherwise(&part.part(rows, cols));
            }
        }
    }
    let Memory { a, b, sums } = memory;
    let sums = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
    for buffer in sums.into_iter().chain([a, b]) {
        spare.give_back(buffer, context.threads());
    }
    Ok(())
}

/// Whether blocks are added in more than one chain.
fn has_chains<T: TileTypes>(k: Blocks) -> bool {
    !T::CARRIES && k.count > CHAIN
}

/// Whether C, of that many rows and columns, is so thin that the long operand is packed where it is used.
pub(super) fn is_thin<T: TileTypes>(sides: (usize, usize)) -> bool {
    Aside::of::<T>(sides).is_some()
}

/// Bytes of a packed panel of A, and of B.
fn panel_bytes<T: TileTypes>(k: usize) -> (usize, usize) {
    let steps = k.div_ceil(T::A::STEP);
    (steps * step_bytes::<T::A>(), steps * step_bytes::<T::B>())
}

/// Bytes of some packed panels of A and of B: how many, and what each takes.
fn packed_bytes((panels_a, panels_b): (usize, usize), (of_a, of_b): (usize, usize)) -> usize {
    panels_a.saturating_mul(of_a).saturating_add(panels_b.saturating_mul(of_b))
}

/// Rows and columns of the parts of C whose packed operands take no more than `most` bytes. A panel has that
/// many lines, and takes that many bytes.
pub(super) fn part(
    (m, n): (usize, usize),
    (of_a, of_b): (usize, usize),
    bytes: usize,
) -> (usize, usize) {
    let (panels_a, panels_b) = (m.div_ceil(LINES), n.div_ceil(LINES));
    if packed_bytes((panels_a, panels_b), (of_a, of_b)) <= bytes {
        return (m, n);
    }
    // Half for each, or what the other leaves.
    let half_a = (bytes / 2 / of_a).min(panels_a);
    let fits_b = (bytes.saturating_sub(half_a * of_a) / of_b).clamp(1, panels_b);
    let fits_a = (bytes.saturating_sub(fits_b * of_b) / of_a).clamp(1, panels_a);
    // Parts of equal size.
    let side = |panels: usize, fits: usize| panels.div_ceil(panels.div_ceil(fits)) * LINES;
    (side(panels_a, fits_a).min(m), side(panels_b, fits_b).min(n))
}

/// Memory for the largest part.
struct Memory {
    /// Packed operands.
    a: Buffer,
    b: Buffer,
    /// What a thread packs for itself, sums of a micro-tile and of an area, for each thread that may come.
    sums: Mutex<Vec<Buffer>>,
}

/// What the threads of a part share.
struct Shared<'a, T: TileTypes> {
    product: &'a Product<T::Types>,
    unit: Unit,
    kernels: TileKernels<T>,
    a: Packing<T::A>,
    b: Packing<T::B>,
    k: Blocks,
    /// By how many rows the first panel of A begins before the first row of C.
    lead: usize,
    areas: Areas,
    aside: Option<Aside>,
    /// Areas of a thin C whose elements are of too wide a range.
    left: Mutex<Vec<usize>>,
    threads: usize,
    /// Memory for the sums of an area, for each thread that may come.
    sums: &'a Mutex<Vec<Buffer>>,
    /// One for each thread, or a single one.
    stripes: Vec<Stripe>,
    /// Threads that have begun, and tickets that pack which are done.
    begun: AtomicUsize,
    packed: AtomicUsize,
    /// How a whole micro-tile is stored.
    plain: Option<Plain>,
}

/// A part of the tickets: the next one that packs, and the next area.
#[derive(Default)]
#[repr(align(64))]
struct Stripe {
    pack: AtomicUsize,
    area: AtomicUsize,
}

// SAFETY: the pointers are to memory that outlives the product's threads, and tickets decide who writes where;
// see `work`.
unsafe impl<T: TileTypes> Sync for Shared<'_, T> {}

/// The rows and columns of C that were not computed, and are unchanged: their elements are of too wide a range.
///
/// # Safety
/// As [`multiply`]; the memory suffices.
unsafe fn run<T: TileTypes>(
    product: &Product<T::Types>,
    ((unit, kernels), aside): ((Unit, TileKernels<T>), Option<Aside>),
    memory: &mut Memory,
    context: &CpuContext,
    threads: usize,
) -> Vec<(Range<usize>, Range<usize>)> {
    let &Product { m, n, a, a_row, a_col, b, b_row, b_col, .. } = product;
    let k = Blocks::new::<T>(product.k);
    let largest = match m * n {
        0..=SMALL_C => SMALL_AREA,
        _ if T::A::PLANES > 1 || m * n < 1 << 20 => PLANES_AREA,
        _ => LARGEST_AREA,
    };
    // Areas of a thin C do not depend on where it begins.
    let lead = if aside.is_none() { lead(product) } else { 0 };
    let costs = Costs { multiply: 64 * T::PRODUCTS, fetch: 100 * T::A::PLANES };
    let bytes = packed_bytes((m.div_ceil(LINES), n.div_ceil(LINES)), panel_bytes::<T>(product.k));
    let stripes = if aside.is_none() && bytes <= threads * STRIPED { threads } else { 1 };
    let areas = match aside {
        None => Areas::new((lead + m, n), largest, costs, (threads, stripes)),
        Some(Aside { sides, .. }) => Areas::of_sides((m, n), sides),
    };
    let shared = Shared::<T> {
        product,
        unit,
        kernels,
        a: Packing::new(
            (a.cast(), a_row, a_col),
            (m, lead),
            memory.a.as_mut_ptr(),
            (Form::Groups, kernels.pack_a),
            k,
            (threads, stripes),
        ),
        b: Packing::new(
            (b.cast(), b_col, b_row),
            (n, 0),
            memory.b.as_mut_ptr(),
            (Form::Lines, kernels.pack_b),
            k,
            (threads, stripes),
        ),
        k,
        lead,
        areas,
        aside,
        left: Mutex::new(Vec::new()),
        threads,
        sums: &memory.sums,
        stripes: (0..stripes).map(|_| Stripe::default()).collect(),
        begun: AtomicUsize::new(0),
        packed: AtomicUsize::new(0),
        plain: Plain::of(product, lead),
    };
    // SAFETY: the caller's promises; `work` shares its output by tickets.
    context.run_on(threads, || unsafe { shared.work() });
    if !shared.is_admitted() {
        return vec![(0..m, 0..n)];
    }
    let mut left = shared.left.into_inner().unwrap_or_else(PoisonError::into_inner);
    left.sort_unstable();
    let lines = |panels: Range<usize>, lines| panels.start * LINES..(panels.end * LINES).min(lines);
    let part = |area| {
        let (a, b) = shared.areas.area(area);
        (lines(a, m), lines(b, n))
    };
    left.into_iter().map(part).collect()
}

impl<T: TileTypes> Shared<'_, T> {
    fn is_admitted(&self) -> bool {
        T::admits(self.a.range.get(), self.b.range.get(), self.k.elements)
    }

    /// Draws tickets until there are no more.
    ///
    /// # Safety
    /// As [`multiply`].
    unsafe fn work(&self) {
        let _unraised = Unraised::from_here();
        let Aside { a, b, .. } = self.aside.unwrap_or_default();
        let of_a = if a { 0 } else { self.a.tickets(self.k) };
        let of_b = if b { 0 } else { self.b.tickets(self.k) };
        let own_stripe = self.begun.fetch_add(1, Ordering::Relaxed);
        let stripes = self.stripes.len();
        let in_order = || (own_stripe..own_stripe + stripes).map(|stripe| stripe % stripes);
        for stripe in in_order() {
            let (of_a, of_b) = (share(of_a, stripe, stripes), share(of_b, stripe, stripes));
            for ticket in tickets(&self.stripes[stripe].pack, of_a.len() + of_b.len()) {
                match ticket.checked_sub(of_b.len()) {
                    // SAFETY: the caller's promises; no other thread has this ticket.
                    None => unsafe { self.b.pack(of_b.start + ticket, self.k) },
                    // SAFETY: the same of A.
                    Some(ticket) => unsafe { self.a.pack(of_a.start + ticket, self.k) },
                }
                self.packed.fetch_add(1, Ordering::Release);
            }
        }
        let mut own: Option<Own> = None;
        let areas = in_order().flat_map(|stripe| {
            let areas = share(self.areas.count(), stripe, stripes);
            tickets(&self.stripes[stripe].area, areas.len()).map(move |at| areas.start + at)
        });
        for area in areas {
            wait(&self.packed, of_a + of_b);
            if !self.is_admitted() {
                break;
            }
            let own = own.get_or_insert_with(|| {
                let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let sums = sums.expect("invariant: there is a buffer for each thread");
                let tiles = match self.unit {
                    Unit::Tiles(amx) => Some(TileRegisters::configure(amx)),
                    Unit::Model => None,
                };
                Own { sums, tiles }
            });
            // SAFETY: the caller's promises; all is packed but what the area packs, by the wait above, and no other
            // thread has this area. Tiles are configured where the unit is they.
            unsafe { self.compute(area, own.sums.as_mut_ptr()) };
        }
        if let Some(Own { sums, tiles }) = own {
            drop(tiles);
            if self.plain == Some(Plain::Streamed) {
                // SAFETY: orders stores and does nothing else; every x86-64 CPU has it.
                unsafe { std::arch::x86_64::_mm_sfence() };
            }
            self.sums.lock().unwrap_or_else(PoisonError::into_inner).push(sums);
        }
    }
}

/// A stripe's share of some tickets.
fn share(count: usize, stripe: usize, stripes: usize) -> Range<usize> {
    count * stripe / stripes..count * (stripe + 1) / stripes
}

/// What a thread has for itself while it computes.
struct Own {
    sums: Buffer,
    tiles: Option<TileRegisters>,
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::num::NonZeroUsize;

    use gemm_spec::Problem;

    use super::*;

    /// Elements that are drawn from a sequence of random bits.
    fn drawn(count: usize, seed: u32) -> Vec<f32> {
        let mut state = seed;
        let next = || {
            state = state.wrapping_mul(0x915f_77f5).wrapping_add(0x3c6e_f35f);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    fn model<T: TileTypes>() -> (Unit, TileKernels<T>) {
        (Unit::Model, *T::kernels(Unit::Model))
    }

    /// The product within that many bytes, and the rows of each part that was left to something else.
    fn within(
        problem: &Problem<f32>,
        a: &[f32],
        b: &[f32],
        bytes: usize,
    ) -> (Vec<f32>, Vec<usize>) {
        let context = CpuContext::new(NonZeroUsize::new(2)).expect("threads start");
        let mut c = vec![-1.0; problem.m * problem.n];
        let problem = problem.transposed::<f32>();
        let product = Product::new(&problem, b, a, &mut c).swapped();
        let left = RefCell::new(Vec::new());
        let otherwise = |part: &Product<f32>| left.borrow_mut().push(part.n);
        // SAFETY: the buffers are as long as the problem says.
        unsafe { multiply_within(&product, bytes, model::<f32>(), &context, 2, otherwise) }
            .expect("memory");
        (c, left.into_inner())
    }

    #[test]
    fn parts_have_the_bits_of_the_whole_and_each_its_range() {
        let (m, n, k) = (100, 70, 40);
        let (mut a, b) = (drawn(m * k, 1), drawn(k * n, 2));
        let problem = Problem::<f32>::new(m, n, k);
        let (whole, none) = within(&problem, &a, &b, usize::MAX);
        assert!(none.is_empty());
        // Four panels of A and three of B, two steps each.
        let step = 2 * step_bytes::<f32>();
        for panels in 2..8 {
            let (c, none) = within(&problem, &a, &b, panels * step);
            assert!(none.is_empty() && c == whole, "{panels} panels");
        }
        // The last row is out of range: the part that has it is left alone.
        a[99 * k] = f32::INFINITY;
        let (c, left) = within(&problem, &a, &b, 4 * step);
        assert!(!left.is_empty() && left.iter().all(|&rows| rows < m), "{left:?}");
        assert_eq!(c[99 * n], -1.0);
        assert_eq!(c[..n], whole[..n]);
    }

    /// Of a thin C only the areas whose lines are out of range are left, and they are unchanged; if it is the short operand
    /// all are.
    #[test]
    fn areas_of_a_thin_c_have_the_bits_of_a_wide_one_and_each_its_range() {
        let area = 64;
        let (long, k) = (8 * area + 5, 70);
        for (m, n) in [(61, long), (long, 20)] {
            assert!(is_thin::<f32>((m, n)));
            let (mut a, mut b) = (drawn(m * k, 1), drawn(k * n, 2));
            let (c, left) = within(&Problem::new(m, n, k), &a, &b, 0);
            assert!(left.is_empty(), "{left:?}");
            // The last lines of the long operand alone.
            let (rows, cols) = (m.min(99), n.min(99));
            let b_cols: Vec<f32> = b.chunks(n).flat_map(|row| &row[n - cols..]).copied().collect();
            let (wide, _) =
                within(&Problem::new(rows, cols, k), &a[(m - rows) * k..], &b_cols, usize::MAX);
            for (found, wide) in c[(m - rows) * n..].chunks(n).zip(wide.chunks(cols)) {
                assert_eq!(&found[n - cols..], wide);
            }
            let is_left =
                |at: usize| if m == long { at / n / area == 1 } else { at % n / area == 1 };
            let line = area + 3;
            *(if m == long { &mut a[line * k] } else { &mut b[line] }) = f32::NAN;
            let (found, left) = within(&Problem::new(m, n, k), &a, &b, 0);
            assert_eq!(left.len(), 1);
            for (at, (found, whole)) in found.iter().zip(&c).enumerate() {
                assert_eq!(*found, if is_left(at) { -1.0 } else { *whole });
            }
            *(if m == long { &mut b[7] } else { &mut a[7] }) = f32::NAN;
            let (found, left) = within(&Problem::new(m, n, k), &a, &b, 0);
            assert!(left.len() == 1 && found.iter().all(|&c| c == -1.0));
        }
    }

    #[test]
    fn parts_keep_to_their_memory() {
        for (lines, of, bytes) in
            [((100, 100), (10, 10), 40), ((1000, 10), (7, 90), 1000), ((1, 9000), (1, 1), 3)]
        {
            let (rows, cols) = part(lines, of, bytes);
            let packed = rows.div_ceil(LINES) * of.0 + cols.div_ceil(LINES) * of.1;
            assert!(packed <= bytes.max(of.0 + of.1), "{lines:?}: {rows} x {cols}");
            assert!(rows >= 1 && cols >= 1);
        }
    }
}
