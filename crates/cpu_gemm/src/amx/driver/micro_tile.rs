//! The micro-tiles of an area, and their way to C.

use std::sync::PoisonError;

use gemm_spec::{Element, GemmTypes};

use super::packing::{AtomicRange, panel};
use super::{CHAIN, Shared, TileTypes, Unit, has_chains};
use crate::amx::micro_kernel::{MicroTile, SUMS, SUMS_COLUMN};
use crate::amx::pack::{LINES, step_bytes};
use crate::amx::pieces::{Pieces, Range};
use crate::amx::store::{Stored, stream};
use crate::cache_line::{self, LINE};
use crate::product::Product;

/// Bytes of C from which it is stored past the caches.
const STREAMED_C: usize = 1 << 20;

/// How whole micro-tiles are stored where C holds sums as they are.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Plain {
    /// By the micro-kernel.
    Direct,
    /// Past the caches.
    Streamed,
}

/// Rows of C from which on micro-tiles are laid so that their columns begin at cache lines.
const MANY_ROWS: usize = 256;

/// By how many rows the first panel of A begins before the first row of C, so that the columns of all
/// micro-tiles begin at cache lines: most large buffers begin some bytes behind one.
pub(super) fn lead<T: GemmTypes>(product: &Product<T>) -> usize {
    let &Product { m, c, ldc, .. } = product;
    let beyond = cache_line::beyond(c.cast_const(), ldc, cache_line::elements::<T::C>());
    beyond.filter(|_| m >= MANY_ROWS && !T::ROUNDS).unwrap_or(0)
}

impl Plain {
    /// `None` where C does not hold sums as they are, or columns of micro-tiles begin within cache lines.
    pub(super) fn of<T: GemmTypes>(product: &Product<T>, lead: usize) -> Option<Self> {
        let &Product { m, n, alpha, beta, c, ldc, .. } = product;
        let is_plain = !T::ROUNDS && alpha == T::Acc::ONE && beta == T::Acc::ZERO;
        let first = c.wrapping_sub(lead) as usize;
        let at_lines = first.is_multiple_of(LINE) && (ldc * size_of::<T::C>()).is_multiple_of(LINE);
        // What is told of complete parts is to find them in the caches.
        let is_large = m * n * size_of::<T::C>() > STREAMED_C && product.completion.is_none();
        let plain = if is_large { Self::Streamed } else { Self::Direct };
        (is_plain && at_lines).then_some(plain)
    }
}

impl<T: TileTypes> Shared<'_, T> {
    /// # Safety
    /// As [`super::multiply`]; both operands are packed but the one that is packed aside, the area is this thread's, and
    /// so is memory for what is, for its sums and for those of one micro-tile.
    pub(super) unsafe fn compute(&self, area: usize, memory: *mut u8) {
        let &Product { n, .. } = self.product;
        let m = self.lead + self.product.m;
        let (panels_a, panels_b) = self.areas.area(area);
        // The area that this thread takes next, probably: asked for ahead.
        let in_stripe = self.threads / self.stripes.len();
        let (_, next_b) = self.areas.area((area + in_stripe).min(self.areas.count() - 1));
        // Where this thread packs.
        let aside = self.aside.unwrap_or_default();
        let (own_a, own_b) = aside.bytes::<T>(self.k);
        let own = (memory, memory.wrapping_add(own_a));
        let block_sums = own.1.wrapping_add(own_b);
        let area_sums = block_sums.wrapping_add(SUMS);
        let to_chains = panels_a.len() * panels_b.len() * SUMS;
        let has_chains = has_chains::<T>(self.k);
        let (step_a, step_b) = (step_bytes::<T::A>(), step_bytes::<T::B>());
        let range_of = |is_aside: bool, range: &AtomicRange| match is_aside {
            true => Range::EMPTY,
            false => range.get(),
        };
        let mut ranges = (range_of(aside.a, &self.a.range), range_of(aside.b, &self.b.range));
        for block in 0..self.k.count {
            let at = self.k.block(block);
            let last = block + 1 == self.k.count;
            let (next_at, next_panels) = match last {
                true => (self.k.block(0), next_b.clone()),
                false => (self.k.block(block + 1), panels_b.clone()),
            };
            let ahead_of_b = match aside.b {
                true => own.1,
                false => panel(self.b.to, n, next_panels.start, next_at, step_b),
            };
            if aside.a {
                // SAFETY: the caller's promises: A can be read, and there is memory for panels of it.
                let packed = unsafe { self.a.pack_aside(panels_a.clone(), block, self.k, own.0) };
                ranges.0 = ranges.0.and(packed);
            }
            if aside.b {
                // SAFETY: the same of B.
                let packed = unsafe { self.b.pack_aside(panels_b.clone(), block, self.k, own.1) };
                ranges.1 = ranges.1.and(packed);
            }
            // Nothing was stored to C so far.
            if last && !T::admits(ranges.0, ranges.1, self.k.elements) {
                self.left.lock().unwrap_or_else(PoisonError::into_inner).push(area);
                return;
            }
            for (index_a, panel_a) in panels_a.clone().enumerate() {
                let a = match aside.a {
                    true => own.0.wrapping_add(index_a * at.1 * step_a),
                    false => panel(self.a.to, m, panel_a, at, step_a),
                };
                for (index_b, panel_b) in panels_b.clone().enumerate() {
                    let index = index_a * panels_b.len() + index_b;
                    let sums = area_sums.wrapping_add(index * SUMS);
                    let in_area = index_a * next_panels.len() + index_b;
                    let b = match aside.b {
                        true => own.1.wrapping_add(index_b * at.1 * step_b),
                        false => panel(self.b.to, n, panel_b, at, step_b),
                    };
                    let micro = Micro {
                        at: (panel_a, panel_b),
                        steps: at.1,
                        a: a.cast_const(),
                        b,
                        sums,
                        block_sums,
                        chains: has_chains.then(|| Chains {
                            sums: sums.wrapping_add(to_chains),
                            rest: sums.wrapping_add(2 * to_chains),
                        }),
                        block,
                        ahead_a: a.wrapping_add(at.1 * step_a + index_b * at.1 * ahead_a::<T>()),
                        ahead_b: ahead_of_b.wrapping_add(in_area * next_at.1 * ahead_b::<T>()),
                    };
                    // SAFETY: the caller's promises; panels that were packed, sums of this micro-tile.
                    unsafe { self.micro_tile(&micro) };
                }
            }
        }
    }

    /// # Safety
    /// As [`Self::compute`].
    unsafe fn micro_tile(&self, micro: &Micro) {
        let &Micro { at, steps, a, b, sums, block_sums, chains, block, ahead_a, ahead_b } = micro;
        let &Product { m, n, alpha, beta, c, ldc, .. } = self.product;
        let in_chain = if T::CARRIES { block } else { block % CHAIN };
        let (first, last) = (in_chain == 0, block + 1 == self.k.count);
        // Rows of the micro-tile that are before the first of C.
        let missing = if at.0 == 0 { self.lead } else { 0 };
        let (row, col) = (at.0 * LINES + missing - self.lead, at.1 * LINES);
        let (rows, cols) = ((LINES - missing).min(m - row), LINES.min(n - col));
        let c = c.wrapping_add(row + col * ldc);
        let plain = self.plain.filter(|_| last && rows == LINES && cols == LINES);
        let ld = ldc * size_of::<<T::Types as GemmTypes>::C>();
        // Where the sums of the last pass go.
        let (to, to_ld) = match plain {
            Some(Plain::Direct) if T::CARRIES => (c.cast::<u8>(), ld),
            _ if T::CARRIES && !last => (sums, SUMS_COLUMN),
            _ => (block_sums, SUMS_COLUMN),
        };
        let mut from: *const u8 =
            if T::CARRIES && !first { sums.cast_const() } else { std::ptr::null() };
        let passes = match self.product.swapped {
            true => self.kernels.passes_swapped,
            false => self.kernels.passes,
        };
        for (index, pass) in passes.iter().enumerate() {
            let is_last = index + 1 == passes.len();
            let (to, ld) = if is_last { (to, to_ld) } else { (block_sums, SUMS_COLUMN) };
            let ahead_sums = sums.wrapping_add(SUMS);
            let tile = MicroTile { steps, a, b, sums: from, to, ld, ahead_a, ahead_b, ahead_sums };
            // SAFETY: the caller's promises: packed panels of that many steps, sums of this thread's own, or
            // a whole micro-tile of C, which holds sums.
            unsafe { pass(&tile) };
            from = to.cast_const();
        }
        let mut all_sums = block_sums;
        if !T::CARRIES && (!first || !last || chains.is_some()) {
            match first {
                // SAFETY: both are memory of this thread's own for the sums of a micro-tile.
                true => unsafe { sums.copy_from_nonoverlapping(block_sums, SUMS) },
                // SAFETY: the same; they are of f32 where they are not carried, and the unit is there.
                false => unsafe { (self.kernels.add)(block_sums.cast(), sums.cast()) },
            }
            all_sums = sums;
        }
        if let Some(Chains { sums: of_chains, rest }) = chains
            && (last || in_chain + 1 == CHAIN)
        {
            if block < CHAIN {
                // SAFETY: both are memory of this thread's own for the sums of a micro-tile.
                unsafe { of_chains.copy_from_nonoverlapping(sums, SUMS) };
                // SAFETY: the same.
                unsafe { rest.write_bytes(0, SUMS) };
            } else {
                // SAFETY: the same, which the first chain has written; they are of f32, and the unit is there.
                unsafe { (self.kernels.add_chain)(sums.cast(), of_chains.cast(), rest.cast()) };
            }
        }
        match plain {
            _ if !last => {}
            Some(Plain::Direct) if T::CARRIES => {}
            // SAFETY: columns of a whole micro-tile of C, which is plain and begins at lines; a unit of tiles
            // has AVX-512, see below for the model.
            Some(Plain::Streamed) if matches!(self.unit, Unit::Tiles(_)) => unsafe {
                stream(all_sums, c.cast(), ld);
            },
            _ => {
                let sums = all_sums
                    .cast::<<T::Types as GemmTypes>::Acc>()
                    .cast_const()
                    .wrapping_add(missing);
                let stored = Stored { sums, c, ldc, rows, cols, alpha, beta };
                // SAFETY: sums of this micro-tile, and the part of C under it, which is this thread's.
                unsafe { (self.kernels.store)(&stored) };
            }
        }
        if last {
            // SAFETY: the micro-tile that was just stored.
            unsafe { self.product.tell_complete(row..row + rows, col..col + cols) };
        }
    }
}

/// A micro-tile of an area in a block of k.
struct Micro {
    /// Its panels of A and B.
    at: (usize, usize),
    steps: usize,
    a: *const u8,
    b: *const u8,
    /// Its sums, and where those of one block go.
    sums: *mut u8,
    block_sums: *mut u8,
    /// Where there is more than one chain of blocks.
    chains: Option<Chains>,
    /// The block of k.
    block: usize,
    ahead_a: *const u8,
    ahead_b: *const u8,
}

/// The sums of a micro-tile's chains of blocks.
#[derive(Clone, Copy)]
struct Chains {
    sums: *mut u8,
    /// What rounding took from them.
    rest: *mut u8,
}

/// Bytes of A and of B that a micro-kernel asks for ahead in each step.
const fn ahead_a<T: TileTypes>() -> usize {
    if T::A::PLANES == 1 { 128 } else { 256 * T::A::PLANES }
}

const fn ahead_b<T: TileTypes>() -> usize {
    256 * T::B::PLANES
}
