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
//! Tickets are handed out by a counter, as in [`crate::driver`]: those that pack first, then one for each
//! area, which waits until all is packed. Tickets that pack are held by threads that run, so it ends.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use gemm_spec::{Element, GemmTypes};

use super::blocks::{Areas, Costs};
use super::flags::Unraised;
use super::micro_kernel::{MicroKernel, MicroTile, SUMS, SUMS_COLUMN};
use super::pack::{Form, LINES, PackFn, Panels, step_bytes};
use super::permission::Amx;
use super::pieces::{Pieces, Range};
use super::registers::TileRegisters;
use super::store::{AddFn, StoreFn, Stored, stream};
use crate::buffer::Buffer;
use crate::cache_line::{self, LINE};
use crate::context::CpuContext;
use crate::error::Error;
use crate::product::Product;
use crate::threads::wait;

/// What computes micro-tiles.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    /// The tile registers.
    Tiles(Amx),
    /// The model of their instructions, on any CPU.
    Model,
}

/// What a unit offers for the types of a product.
pub(crate) struct TileKernels<T: GemmTypes> {
    pub(super) pack_a: PackFn<T::A>,
    pub(super) pack_b: PackFn<T::B>,
    /// Micro-kernels that follow each other over a block of k, each going on from the sums of the one before.
    pub(super) passes: &'static [MicroKernel],
    /// The same for a product whose A and B have changed places: the order of sums stays.
    pub(super) passes_swapped: &'static [MicroKernel],
    pub(super) store: StoreFn<T>,
    pub(super) add: AddFn,
}

/// Types of products that tiles compute.
pub(crate) trait TileTypes: GemmTypes<A: Pieces, B: Pieces> {
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
    fn admits(a: Range, b: Range, k: usize) -> bool;

    /// What a unit offers.
    fn kernels(unit: Unit) -> &'static TileKernels<Self>;
}

/// Rows and columns of an area at most.
const LARGEST_AREA: (usize, usize) = (256, 512);
/// The same where C has no more elements than [`SMALL_C`]: several areas for each thread.
const SMALL_AREA: (usize, usize) = (128, 128);
const SMALL_C: usize = 512 * 512;
/// The same where blocks of several planes share the L2 with the sums.
const PLANES_AREA: (usize, usize) = (256, 256);
/// Panels of a ticket that packs, where lines of a step are contiguous.
const PANELS_AT_ONCE: usize = 8;
/// Tickets that pack, for each thread, where there is work enough.
const PACK_TICKETS: usize = 3;
/// Bytes of C from which it is stored past the caches.
const STREAMED_C: usize = 1 << 20;
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
    product: &Product<T>,
    unit: Unit,
    context: &CpuContext,
    threads: usize,
    otherwise: impl Fn(&Product<T>),
) -> Result<(), Error> {
    let &Product { m, n, k, .. } = product;
    let operands = k.saturating_mul(m * size_of::<T::A>() + n * size_of::<T::B>());
    let bytes = operands.max(PACKED);
    // SAFETY: the caller's promises.
    unsafe { multiply_within(product, bytes, unit, context, threads, otherwise) }
}

/// The same with packed operands of no more than so many bytes.
///
/// # Errors
/// As [`multiply`].
///
/// # Safety
/// As [`multiply`].
unsafe fn multiply_within<T: TileTypes>(
    product: &Product<T>,
    bytes: usize,
    unit: Unit,
    context: &CpuContext,
    threads: usize,
    otherwise: impl Fn(&Product<T>),
) -> Result<(), Error> {
    let &Product { m, n, k, .. } = product;
    let steps = k.div_ceil(T::A::STEP);
    let (of_a, of_b) = (steps * step_bytes::<T::A>(), steps * step_bytes::<T::B>());
    let (rows, cols) = part((m, n), (of_a, of_b), bytes);
    let (panels_a, panels_b) = (rows.div_ceil(LINES), cols.div_ceil(LINES));
    let spare = context.spare();
    let b = spare.take::<u8>(panels_b * of_b)?;
    // The first panel of A may begin before C.
    let panels_a = panels_a + 1;
    let a = spare.take::<u8>(panels_a * of_a)?;
    let in_area = panels_a.min(LARGEST_AREA.0 / LINES) * panels_b.min(LARGEST_AREA.1 / LINES);
    let sums = (0..threads).map(|_| spare.take::<u8>((in_area + 1) * SUMS));
    let mut memory = Memory { a, b, sums: Mutex::new(sums.collect::<Result<_, _>>()?) };
    for first_col in (0..n).step_by(cols) {
        for first_row in (0..m).step_by(rows) {
            let rows = rows.min(m - first_row);
            let cols = cols.min(n - first_col);
            let part = product.part(first_row..first_row + rows, first_col..first_col + cols);
            // SAFETY: the caller's promises hold for a part of C; the memory is this product's alone and
            // suffices for the first part, than which none is larger.
            let admitted = unsafe { run(&part, unit, &mut memory, context, threads) };
            if !admitted {
                otherwise(&part);
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

/// Rows and columns of the parts of C whose packed operands take no more than so many bytes, of so many lines
/// and bytes for each panel of lines.
pub(super) fn part(
    (m, n): (usize, usize),
    (of_a, of_b): (usize, usize),
    bytes: usize,
) -> (usize, usize) {
    let (panels_a, panels_b) = (m.div_ceil(LINES), n.div_ceil(LINES));
    let all = panels_a.saturating_mul(of_a).saturating_add(panels_b.saturating_mul(of_b));
    if all <= bytes {
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
    /// Sums of an area and of a micro-tile, for each thread that may come.
    sums: Mutex<Vec<Buffer>>,
}

/// One operand's way into its packed form.
struct Packing<E> {
    from: *const E,
    along: usize,
    apart: usize,
    lines: usize,
    missing: usize,
    to: *mut u8,
    form: Form,
    pack: PackFn<E>,
    /// Panels of a ticket, and tickets along the panels.
    panels: usize,
    groups: usize,
    /// Steps of a ticket, and tickets along a block of k.
    steps: usize,
    parts: usize,
    range: AtomicRange,
}

/// A range that several threads extend.
struct AtomicRange {
    least: AtomicU32,
    largest: AtomicU32,
}

impl AtomicRange {
    fn extend(&self, range: Range) {
        self.least.fetch_min(range.least, Ordering::Relaxed);
        self.largest.fetch_max(range.largest, Ordering::Relaxed);
    }

    fn get(&self) -> Range {
        let (least, largest) = (&self.least, &self.largest);
        Range { least: least.load(Ordering::Relaxed), largest: largest.load(Ordering::Relaxed) }
    }
}

impl<E: Pieces> Packing<E> {
    fn new(
        (from, along, apart): (*const E, usize, usize),
        (lines, missing): (usize, usize),
        to: *mut u8,
        (form, pack): (Form, PackFn<E>),
        k: Blocks,
        threads: usize,
    ) -> Self {
        let lines = missing + lines;
        let from = from.wrapping_sub(missing * along);
        let all_panels = lines.div_ceil(LINES);
        // Where lines of a step are contiguous, panels side by side are read as they lie.
        let panels = if apart == 1 { 1 } else { PANELS_AT_ONCE };
        let groups = all_panels.div_ceil(panels);
        let parts = (PACK_TICKETS * threads).div_ceil(groups * k.count).min(k.steps);
        let steps = k.steps.div_ceil(parts);
        let range = Range::EMPTY;
        let range = AtomicRange { least: range.least.into(), largest: range.largest.into() };
        let parts = k.steps.div_ceil(steps);
        Self {
            from,
            along,
            apart,
            lines,
            missing,
            to,
            form,
            pack,
            panels,
            groups,
            steps,
            parts,
            range,
        }
    }

    fn tickets(&self, k: Blocks) -> usize {
        self.groups * self.parts * k.count
    }

    /// # Safety
    /// The operand can be read, and that ticket's part of the packed form is this thread's.
    unsafe fn pack(&self, ticket: usize, k: Blocks) {
        let (block, ticket) = (ticket % k.count, ticket / k.count);
        let (part, group) = (ticket % self.parts, ticket / self.parts);
        let (first_block_step, block_steps) = k.block(block);
        let first = part * self.steps;
        if first >= block_steps {
            return;
        }
        let first_panel = group * self.panels;
        let (line, p) = (first_panel * LINES, (first_block_step + first) * E::STEP);
        let step = step_bytes::<E>();
        let panels = Panels {
            from: self.from.wrapping_add(line * self.along).wrapping_add(p * self.apart),
            along: self.along,
            apart: self.apart,
            lines: (self.lines - line).min(self.panels * LINES),
            missing: self.missing.saturating_sub(line),
            k: k.elements - p,
            steps: self.steps.min(block_steps - first),
            to: panel(self.to, self.lines, first_panel, (first_block_step, block_steps), step)
                .wrapping_add(first * step),
            panel: block_steps * step,
            form: self.form,
        };
        // SAFETY: the caller's promises: lines and elements that exist, into this ticket's steps of its
        // panels. A unit's packing function runs where the unit does.
        let range = unsafe { (self.pack)(&panels) };
        self.range.extend(range);
    }
}

/// Where a panel of an operand of so many lines begins, in a block of k given by its first step and steps.
fn panel(
    packed: *mut u8,
    lines: usize,
    index: usize,
    (first_step, steps): (usize, usize),
    step_bytes: usize,
) -> *mut u8 {
    let panels = lines.div_ceil(LINES);
    packed.wrapping_add((first_step * panels + index * steps) * step_bytes)
}

/// The blocks of k.
#[derive(Clone, Copy)]
struct Blocks {
    elements: usize,
    all_steps: usize,
    /// Steps of a block, of which the last may have fewer.
    steps: usize,
    count: usize,
}

impl Blocks {
    fn new<T: TileTypes>(k: usize) -> Self {
        let all_steps = k.div_ceil(T::A::STEP);
        // A little more than one block is one block, where that changes no bit.
        let whole = T::CARRIES && all_steps <= T::BLOCK + T::BLOCK / 8;
        let steps = if whole { all_steps } else { T::BLOCK.min(all_steps) };
        Self { elements: k, all_steps, steps, count: all_steps.div_ceil(steps) }
    }

    /// First step of a block, and how many it has.
    fn block(self, block: usize) -> (usize, usize) {
        let first = block * self.steps;
        (first, self.steps.min(self.all_steps - first))
    }
}

/// What the threads of a part share.
struct Shared<'a, T: TileTypes> {
    product: &'a Product<T>,
    unit: Unit,
    kernels: &'static TileKernels<T>,
    a: Packing<T::A>,
    b: Packing<T::B>,
    k: Blocks,
    /// By how many rows the first panel of A begins before the first row of C.
    lead: usize,
    areas: Areas,
    threads: usize,
    /// Memory for the sums of an area, for each thread that may come.
    sums: &'a Mutex<Vec<Buffer>>,
    /// The next ticket, and tickets that pack which are done.
    next: AtomicUsize,
    packed: AtomicUsize,
    /// How a whole micro-tile is stored.
    plain: Option<Plain>,
}

/// How whole micro-tiles are stored where C holds sums as they are.
#[derive(Clone, Copy, PartialEq)]
enum Plain {
    /// By the micro-kernel.
    Direct,
    /// Past the caches.
    Streamed,
}

// SAFETY: the pointers are to memory that outlives the product's threads, and tickets decide who writes where;
// see `work`.
unsafe impl<T: TileTypes> Sync for Shared<'_, T> {}

/// Whether the part was computed; else its elements are of too wide a range, and C is unchanged.
///
/// # Safety
/// As [`multiply`]; the memory suffices.
unsafe fn run<T: TileTypes>(
    product: &Product<T>,
    unit: Unit,
    memory: &mut Memory,
    context: &CpuContext,
    threads: usize,
) -> bool {
    let &Product { m, n, a, a_row, a_col, b, b_row, b_col, .. } = product;
    let kernels = T::kernels(unit);
    let k = Blocks::new::<T>(product.k);
    let largest = match m * n {
        0..=SMALL_C => SMALL_AREA,
        _ if T::A::PLANES > 1 || m * n < 1 << 20 => PLANES_AREA,
        _ => LARGEST_AREA,
    };
    let lead = lead(product);
    let costs = Costs { multiply: 64 * T::PRODUCTS, fetch: 100 * T::A::PLANES };
    let shared = Shared {
        product,
        unit,
        kernels,
        a: Packing::new(
            (a, a_row, a_col),
            (m, lead),
            memory.a.as_mut_ptr(),
            (Form::Groups, kernels.pack_a),
            k,
            threads,
        ),
        b: Packing::new(
            (b, b_col, b_row),
            (n, 0),
            memory.b.as_mut_ptr(),
            (Form::Lines, kernels.pack_b),
            k,
            threads,
        ),
        k,
        lead,
        areas: Areas::new((lead + m, n), largest, costs, threads),
        threads,
        sums: &memory.sums,
        next: AtomicUsize::new(0),
        packed: AtomicUsize::new(0),
        plain: Plain::of(product, lead),
    };
    // SAFETY: the caller's promises; `work` shares its output by tickets.
    context.run_on(threads, || unsafe { shared.work() });
    shared.is_admitted()
}

/// Rows of C from which on micro-tiles are laid so that their columns begin at cache lines.
const MANY_ROWS: usize = 256;

/// By how many rows the first panel of A begins before the first row of C, so that the columns of all
/// micro-tiles begin at cache lines: most large buffers begin some bytes behind one.
fn lead<T: GemmTypes>(product: &Product<T>) -> usize {
    let &Product { m, c, ldc, .. } = product;
    let beyond = cache_line::beyond(c.cast_const(), ldc, cache_line::elements::<T::C>());
    beyond.filter(|_| m >= MANY_ROWS && !T::ROUNDS).unwrap_or(0)
}

impl Plain {
    /// `None` where C does not hold sums as they are, or columns of micro-tiles begin within cache lines.
    fn of<T: TileTypes>(product: &Product<T>, lead: usize) -> Option<Self> {
        let &Product { m, n, alpha, beta, c, ldc, .. } = product;
        let is_plain = !T::ROUNDS && alpha == T::Acc::ONE && beta == T::Acc::ZERO;
        let first = c.wrapping_sub(lead) as usize;
        let at_lines = first.is_multiple_of(LINE) && (ldc * size_of::<T::C>()).is_multiple_of(LINE);
        let is_large = m * n * size_of::<T::C>() > STREAMED_C;
        let plain = if is_large { Self::Streamed } else { Self::Direct };
        (is_plain && at_lines).then_some(plain)
    }
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
        let (of_a, of_b) = (self.a.tickets(self.k), self.b.tickets(self.k));
        let to_pack = of_a + of_b;
        let mut own: Option<Own> = None;
        loop {
            let ticket = self.next.fetch_add(1, Ordering::Relaxed);
            if ticket < to_pack {
                match ticket.checked_sub(of_b) {
                    // SAFETY: the caller's promises; no other thread has this ticket.
                    None => unsafe { self.b.pack(ticket, self.k) },
                    // SAFETY: the same of A.
                    Some(ticket) => unsafe { self.a.pack(ticket, self.k) },
                }
                self.packed.fetch_add(1, Ordering::Release);
                continue;
            }
            let area = ticket - to_pack;
            if area >= self.areas.count() {
                break;
            }
            wait(&self.packed, to_pack);
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
            // SAFETY: the caller's promises; all is packed, by the wait above, and no other thread has this
            // area. Tiles are configured where the unit is they.
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

    /// # Safety
    /// As [`multiply`]; both operands are packed, the area is this thread's, and so is memory for its sums and
    /// those of one micro-tile.
    unsafe fn compute(&self, area: usize, memory: *mut u8) {
        let &Product { n, .. } = self.product;
        let m = self.lead + self.product.m;
        let (panels_a, panels_b) = self.areas.area(area);
        // The area that this thread takes next, probably: asked for ahead.
        let (_, next_b) = self.areas.area((area + self.threads).min(self.areas.count() - 1));
        let block_sums = memory;
        let area_sums = memory.wrapping_add(SUMS);
        let (step_a, step_b) = (step_bytes::<T::A>(), step_bytes::<T::B>());
        for block in 0..self.k.count {
            let at = self.k.block(block);
            let last = block + 1 == self.k.count;
            let (next_at, next_panels) = match last {
                true => (self.k.block(0), next_b.clone()),
                false => (self.k.block(block + 1), panels_b.clone()),
            };
            let ahead_of_b = panel(self.b.to, n, next_panels.start, next_at, step_b);
            for (index_a, panel_a) in panels_a.clone().enumerate() {
                let a = panel(self.a.to, m, panel_a, at, step_a);
                for (index_b, panel_b) in panels_b.clone().enumerate() {
                    let index = index_a * panels_b.len() + index_b;
                    let sums = area_sums.wrapping_add(index * SUMS);
                    let in_area = index_a * next_panels.len() + index_b;
                    let micro = Micro {
                        at: (panel_a, panel_b),
                        steps: at.1,
                        a: a.cast_const(),
                        b: panel(self.b.to, n, panel_b, at, step_b),
                        sums,
                        block_sums,
                        first: block == 0,
                        last,
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
        let &Micro { at, steps, a, b, sums, block_sums, first, last, ahead_a, ahead_b } = micro;
        let &Product { m, n, alpha, beta, c, ldc, .. } = self.product;
        // Rows of the micro-tile that are before the first of C.
        let missing = if at.0 == 0 { self.lead } else { 0 };
        let (row, col) = (at.0 * LINES + missing - self.lead, at.1 * LINES);
        let (rows, cols) = ((LINES - missing).min(m - row), LINES.min(n - col));
        let c = c.wrapping_add(row + col * ldc);
        let plain = self.plain.filter(|_| last && rows == LINES && cols == LINES);
        let ld = ldc * size_of::<T::C>();
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
        if !T::CARRIES && (!first || !last) {
            match first {
                // SAFETY: both are memory of this thread's own for the sums of a micro-tile.
                true => unsafe { sums.copy_from_nonoverlapping(block_sums, SUMS) },
                // SAFETY: the same; they are of f32 where they are not carried, and the unit is there.
                false => unsafe { (self.kernels.add)(block_sums.cast(), sums.cast()) },
            }
            all_sums = sums;
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
                let sums = all_sums.cast::<T::Acc>().cast_const().wrapping_add(missing);
                let stored = Stored { sums, c, ldc, rows, cols, alpha, beta };
                // SAFETY: sums of this micro-tile, and the part of C under it, which is this thread's.
                unsafe { (self.kernels.store)(&stored) };
            }
        }
    }
}

/// What a thread has for itself while it computes.
struct Own {
    sums: Buffer,
    tiles: Option<TileRegisters>,
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
    first: bool,
    last: bool,
    ahead_a: *const u8,
    ahead_b: *const u8,
}

/// Bytes of A and of B that a micro-kernel asks for ahead in each step.
const fn ahead_a<T: TileTypes>() -> usize {
    if T::A::PLANES == 1 { 128 } else { 256 * T::A::PLANES }
}

const fn ahead_b<T: TileTypes>() -> usize {
    256 * T::B::PLANES
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

    /// The product within so many bytes, and the rows of each part that was left to something else.
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
        unsafe { multiply_within(&product, bytes, Unit::Model, &context, 2, otherwise) }
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
