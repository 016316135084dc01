//! Products of f64 in the i8 tiles, by residues.
//!
//! Rows of A and columns of B are scaled by powers of two and rounded to integers of 54 bits and their norms'
//! sign. Their product is an integer below the product of 14 moduli, so its residues by these determine it: 14
//! exact products of i8, and the Chinese remainder theorem for each element. What errs is the rounding of the
//! operands, one addition of parts, and the last multiplication by a power of two.
//!
//! The rounding is relative to a line's norm, not to each element. A product of magnitudes rounded down to seven
//! bits, one more of i8, tells for every element of C whether the roundings may exceed what a chain of
//! multiply-adds errs by; micro-tiles where one does, and those of lines with infinities, NaN or numbers of
//! extreme size, are computed by multiply-adds. Lines that are integers times a power of two are not rounded at
//! all, and their products are exact up to one rounding at the end.
//!
//! Which way an element is computed depends on its micro-tile of 32 by 32 alone, so the bits are the same for any
//! number of threads and any storage order.
//!
//! Source: Ozaki, Uchino and Imamura, "Ozaki Scheme II: A GEMM-oriented emulation of floating-point matrix
//! multiplication using an integer modular technique" (2025).

mod lines;
mod moduli;
mod pack;
mod restore;

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use self::lines::{Line, LookFn};
use self::moduli::COUNT;
use self::pack::{PLANES, STEP, Step};
use self::restore::{ELEMENTS, Panel, Residues, Restore, Sides};
use super::blocks::{Areas, Costs};
use super::driver::{PACKED, Unit, part};
use super::micro_kernel::{MicroKernel, MicroTile, SUMS, SUMS_COLUMN, model_i8, multiply_i8};
use super::pack::{Form, LINES, PLANE};
use super::peak::TileLoop;
use super::registers::TileRegisters;
use super::store::{self, StoreFn, Stored};
use crate::buffer::Buffer;
use crate::context::CpuContext;
use crate::error::Error;
use crate::product::Product;

/// Steps of k of a block: a panel of A fits the L1.
const BLOCK: usize = 16;
/// Elements of k at most: sums of as many products of bytes fit 32 bits.
const LONGEST: usize = 1 << 17;
/// Rows and columns of an area: its sums and residues fit the L2.
const AREA: (usize, usize) = (256, 512);
/// Bytes between planes beyond their own, so that they do not meet in the same sets of a cache.
const PADDING: usize = 320;
/// Steps of a panel that are packed together.
const STEPS_AT_ONCE: usize = 8;

/// What a unit offers.
struct Kernels {
    look: LookFn,
    pack: pack::PackFn,
    multiply: MicroKernel,
    restore: Restore,
    store: StoreFn<f64>,
}

const TILES: Kernels = Kernels {
    look: lines::look_avx512,
    pack: pack::avx512::pack,
    multiply: multiply_i8,
    restore: restore::AVX512,
    store: store::store_avx512,
};

const MODEL: Kernels = Kernels {
    look: lines::look,
    pack: pack::pack,
    multiply: model_i8,
    restore: restore::PLAIN,
    store: store::store,
};

/// Computes a product, k at least 1; by `otherwise` what the bound refuses.
///
/// # Errors
/// [`Error::OutOfMemory`], before anything was written, and what `otherwise` gives.
///
/// # Safety
/// The product's promises, see [`Product`].
pub(crate) unsafe fn multiply(
    product: &Product<f64>,
    unit: Unit,
    context: &CpuContext,
    threads: usize,
    otherwise: impl Fn(&Product<f64>) -> Result<(), Error>,
) -> Result<(), Error> {
    let &Product { m, n, k, .. } = product;
    if k > LONGEST {
        return otherwise(product);
    }
    let steps = k.div_ceil(STEP);
    let of_panel = PLANES * steps * PLANE;
    let operands = (m + n).saturating_mul(k).saturating_mul(size_of::<f64>());
    let (rows, cols) = part((m, n), (of_panel, of_panel), operands.max(PACKED));
    let memory = Memory::new((rows, cols), steps, context, threads)?;
    let mut outcome = Ok(());
    let kernels = match unit {
        Unit::Tiles(_) => &TILES,
        Unit::Model => &MODEL,
    };
    let depth = Depth { elements: k, steps };
    for first_row in (0..m).step_by(rows) {
        let rows = first_row..m.min(first_row + rows);
        let to = memory.a.as_mut_ptr();
        let part = product.part(rows.clone(), 0..n);
        let mut a = Operand::new((part.a, part.a_row, part.a_col), part.m, Form::Groups, to, depth);
        // SAFETY: the caller's promise: A can be read; the memory is this product's alone and suffices for the
        // first part, than which none is larger.
        unsafe { a.fill(kernels, context, threads) };
        for first_col in (0..n).step_by(cols) {
            let cols = first_col..n.min(first_col + cols);
            let to = memory.b.as_mut_ptr();
            let part = product.part(rows.clone(), cols);
            let mut b =
                Operand::new((part.b, part.b_col, part.b_row), part.n, Form::Lines, to, depth);
            // SAFETY: as for A.
            unsafe { b.fill(kernels, context, threads) };
            let work = Work { product: &part, operands: [&a, &b], depth, kernels, unit };
            // SAFETY: the caller's promises hold for a part of C, whose operands are packed.
            let refused = unsafe { work.run(&memory, context, threads) };
            for (rows, cols) in rectangles(refused) {
                let rows = rows.start * LINES..part.m.min(rows.end * LINES);
                let cols = cols.start * LINES..part.n.min(cols.end * LINES);
                outcome = outcome.and_then(|()| otherwise(&part.part(rows, cols)));
            }
        }
    }
    memory.give_back(context);
    outcome
}

/// Micro-tiles as rectangles of them: runs of rows that neighbouring columns have in common.
fn rectangles(
    mut tiles: Vec<(usize, usize)>,
) -> Vec<(std::ops::Range<usize>, std::ops::Range<usize>)> {
    tiles.sort_unstable_by_key(|&(row, col)| (col, row));
    let mut runs: Vec<(std::ops::Range<usize>, std::ops::Range<usize>)> = Vec::new();
    for (row, col) in tiles {
        match runs.last_mut() {
            Some((rows, cols)) if cols.start == col && rows.end == row => rows.end += 1,
            _ => runs.push((row..row + 1, col..col + 1)),
        }
    }
    runs.sort_unstable_by_key(|(rows, cols)| (rows.start, rows.end, cols.start));
    let mut whole: Vec<(std::ops::Range<usize>, std::ops::Range<usize>)> = Vec::new();
    for (rows, cols) in runs {
        match whole.last_mut() {
            Some((above, left)) if *above == rows && left.end == cols.start => left.end = cols.end,
            _ => whole.push((rows, cols)),
        }
    }
    whole
}

/// Memory for the largest part.
struct Memory {
    a: Buffer,
    b: Buffer,
    /// Sums and residues of an area, for each thread.
    own: Mutex<Vec<Buffer>>,
    /// Micro-tiles of an area at most.
    in_area: usize,
    threads: usize,
}

impl Memory {
    fn new(
        (rows, cols): (usize, usize),
        steps: usize,
        context: &CpuContext,
        threads: usize,
    ) -> Result<Self, Error> {
        let spare = context.spare();
        let planes = |lines: usize| PLANES * (lines.div_ceil(LINES) * steps * PLANE + PADDING);
        let a = spare.take::<u8>(planes(rows))?;
        let b = spare.take::<u8>(planes(cols))?;
        let tiles = |lines: usize, most: usize| lines.div_ceil(LINES).min(most / LINES);
        let in_area = tiles(rows, AREA.0) * tiles(cols, AREA.1);
        let own = (0..threads).map(|_| spare.take::<u8>(Own::bytes(in_area)));
        Ok(Self { a, b, own: Mutex::new(own.collect::<Result<_, _>>()?), in_area, threads })
    }

    fn give_back(self, context: &CpuContext) {
        let own = self.own.into_inner().unwrap_or_else(PoisonError::into_inner);
        for buffer in own.into_iter().chain([self.a, self.b]) {
            context.spare().give_back(buffer, self.threads);
        }
    }
}

/// What a thread keeps of its area.
struct Own<'o> {
    /// Sums of a micro-tile whose blocks of k are all added, and the numbers that it comes to.
    whole: &'o mut [i32; ELEMENTS],
    numbers: &'o mut [f64; ELEMENTS],
    /// Of each micro-tile.
    is_admitted: Vec<bool>,
    sums: &'o mut [[i32; ELEMENTS]],
    residues: &'o mut [Residues],
}

impl<'o> Own<'o> {
    const NUMBERS: usize = size_of::<[f64; ELEMENTS]>();

    fn bytes(tiles: usize) -> usize {
        2 * Self::NUMBERS + tiles * (SUMS + size_of::<Residues>())
    }

    /// # Safety
    /// [`Self::bytes`] at a multiple of 64 bytes that nobody else uses.
    unsafe fn new(memory: *mut u8, tiles: usize) -> Self {
        let numbers = memory.wrapping_add(Self::NUMBERS);
        let sums = numbers.wrapping_add(Self::NUMBERS);
        let residues = sums.wrapping_add(tiles * SUMS);
        // SAFETY: that many bytes are the caller's.
        unsafe { memory.write_bytes(0, Self::bytes(tiles)) };
        // SAFETY: the first part of the memory, which is initialised and used by nothing else.
        let whole = unsafe { &mut *memory.cast() };
        // SAFETY: the next part.
        let numbers = unsafe { &mut *numbers.cast() };
        // SAFETY: the next part, for each tile.
        let sums = unsafe { std::slice::from_raw_parts_mut(sums.cast(), tiles) };
        // SAFETY: the last part, for each tile.
        let residues = unsafe { std::slice::from_raw_parts_mut(residues.cast(), tiles) };
        Self { whole, numbers, is_admitted: Vec::with_capacity(tiles), sums, residues }
    }
}

/// One operand.
struct Operand {
    from: *const f64,
    along: usize,
    apart: usize,
    lines: usize,
    form: Form,
    to: *mut u8,
    plane: usize,
    depth: Depth,
    /// What is known of the lines, and of which an element was rounded: 32 bits a panel.
    known: Vec<Line>,
    rounded: Vec<AtomicU32>,
    packed: Vec<Panel>,
}

impl Operand {
    fn new(
        (from, along, apart): (*const f64, usize, usize),
        lines: usize,
        form: Form,
        to: *mut u8,
        depth: Depth,
    ) -> Self {
        let panels = lines.div_ceil(LINES);
        Self {
            from,
            along,
            apart,
            lines,
            form,
            to,
            plane: panels * depth.steps * PLANE + PADDING,
            depth,
            known: vec![Line::ZERO; lines],
            rounded: std::iter::repeat_with(AtomicU32::default).take(panels).collect(),
            packed: Vec::new(),
        }
    }

    fn panels(&self) -> usize {
        self.lines.div_ceil(LINES)
    }

    fn lines_of(&self, panel: usize) -> std::ops::Range<usize> {
        panel * LINES..self.lines.min((panel + 1) * LINES)
    }

    /// Where a panel begins in a block of k, given by its first step and steps, of a plane.
    fn panel(&self, plane: usize, panel: usize, (first, steps): (usize, usize)) -> *mut u8 {
        let at = plane * self.plane + (first * self.panels() + panel * steps) * PLANE;
        self.to.wrapping_add(at)
    }

    /// Packs it, by several threads.
    ///
    /// # Safety
    /// The operand can be read, and its planes are this product's alone.
    unsafe fn fill(&mut self, kernels: &Kernels, context: &CpuContext, threads: usize) {
        let panels = self.panels();
        let found: Vec<Mutex<[Line; LINES]>> =
            std::iter::repeat_with(|| Mutex::new([Line::ZERO; LINES])).take(panels).collect();
        let shared = Shared(&*self);
        each(context, threads, panels, |panel| {
            let operand = *shared.get();
            let lines = operand.lines_of(panel);
            let from = operand.from.wrapping_add(lines.start * operand.along);
            let strides = (operand.along, operand.apart);
            // SAFETY: the caller's promise: lines of the operand can be read.
            let looked =
                unsafe { (kernels.look)(from, strides, lines.len(), operand.depth.elements) };
            *found[panel].lock().unwrap_or_else(PoisonError::into_inner) = looked;
        });
        for (panel, found) in found.into_iter().enumerate() {
            let lines = self.lines_of(panel);
            let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
            let count = lines.len();
            self.known[lines].copy_from_slice(&found[..count]);
        }
        let parts = self.depth.steps.div_ceil(STEPS_AT_ONCE);
        let shared = Shared(&*self);
        each(context, threads, panels * parts, |ticket| {
            let operand = *shared.get();
            let first = ticket % parts * STEPS_AT_ONCE;
            let steps = first..operand.depth.steps.min(first + STEPS_AT_ONCE);
            // SAFETY: the caller's promises; no other thread has this ticket, and with it these steps.
            unsafe { operand.pack(ticket / parts, steps, kernels.pack) };
        });
        let panel = |panel: usize| {
            let rounded = self.rounded[panel].load(Ordering::Relaxed);
            Panel::new(&self.known[self.lines_of(panel)], rounded)
        };
        self.packed = (0..panels).map(panel).collect();
    }

    /// # Safety
    /// The operand can be read; the panel's steps are this thread's to write.
    unsafe fn pack(&self, panel: usize, steps: std::ops::Range<usize>, pack: pack::PackFn) {
        let lines = self.lines_of(panel);
        let mut rounded = 0;
        for index in steps {
            let block = self.depth.block(index / BLOCK);
            let p = index * STEP;
            let from =
                self.from.wrapping_add(lines.start * self.along).wrapping_add(p * self.apart);
            let step = Step {
                from,
                along: self.along,
                apart: self.apart,
                lines: &self.known[lines.clone()],
                k: STEP.min(self.depth.elements - p),
                form: self.form,
                to: self.panel(0, panel, block).wrapping_add((index - block.0) * PLANE),
                plane: self.plane,
            };
            // SAFETY: the caller's promises: lines and elements that exist, a step of each plane.
            rounded |= unsafe { pack(&step) };
        }
        self.rounded[panel].fetch_or(rounded, Ordering::Relaxed);
    }
}

/// The blocks of k.
#[derive(Clone, Copy)]
struct Depth {
    elements: usize,
    steps: usize,
}

impl Depth {
    fn blocks(self) -> usize {
        self.steps.div_ceil(BLOCK)
    }

    /// First step of a block, and how many it has.
    fn block(self, block: usize) -> (usize, usize) {
        (block * BLOCK, BLOCK.min(self.steps - block * BLOCK))
    }
}

/// A pointer that threads share; tickets decide who uses what of it.
#[derive(Clone, Copy)]
struct Shared<T>(T);

// SAFETY: what is behind it outlives the threads, and no two of them write the same of it: see `run`.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn get(&self) -> &T {
        &self.0
    }
}

/// A part of the product.
struct Work<'s> {
    product: &'s Product<f64>,
    operands: [&'s Operand; 2],
    depth: Depth,
    kernels: &'static Kernels,
    unit: Unit,
}

impl Work<'_> {
    /// Computes it; returns the micro-tiles that it leaves as they are.
    ///
    /// # Safety
    /// As [`multiply`]; the operands are packed, and the memory suffices.
    unsafe fn run(
        &self,
        memory: &Memory,
        context: &CpuContext,
        threads: usize,
    ) -> Vec<(usize, usize)> {
        let costs = Costs { multiply: 64, fetch: 100 };
        let areas = Areas::new((self.product.m, self.product.n), AREA, costs, threads);
        let refused = Mutex::new(Vec::new());
        let next = AtomicUsize::new(0);
        let shared = Shared(self);
        let (own, in_area) = (&memory.own, memory.in_area);
        context.run_on(threads, || {
            let work = *shared.get();
            let buffer = own.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let buffer = buffer.expect("invariant: there is a buffer for each thread");
            let tiles = match work.unit {
                Unit::Tiles(amx) => Some(TileRegisters::configure(amx)),
                Unit::Model => None,
            };
            // SAFETY: the buffer holds as much, and is this thread's own.
            let mut kept = unsafe { Own::new(buffer.as_mut_ptr(), in_area) };
            let mut left = Vec::new();
            loop {
                let area = next.fetch_add(1, Ordering::Relaxed);
                if area >= areas.count() {
                    break;
                }
                // The area that this thread takes next, probably: asked for ahead.
                let next = areas.area((area + threads).min(areas.count() - 1)).1.start;
                let area = Area { work, panels: areas.area(area), next };
                // SAFETY: the caller's promises; no other thread has this area; tiles are configured where
                // the unit is they.
                unsafe { area.compute(&mut kept, &mut left) };
            }
            drop(tiles);
            own.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
            refused.lock().unwrap_or_else(PoisonError::into_inner).append(&mut left);
        });
        refused.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does so many pieces of work on several threads.
fn each(context: &CpuContext, threads: usize, count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    context.run_on(threads.min(count), || {
        loop {
            let ticket = next.fetch_add(1, Ordering::Relaxed);
            if ticket >= count {
                break;
            }
            work(ticket);
        }
    });
}

/// An area of C.
struct Area<'s> {
    work: &'s Work<'s>,
    panels: (std::ops::Range<usize>, std::ops::Range<usize>),
    /// The first panel of B of the area after this one.
    next: usize,
}

impl Area<'_> {
    /// # Safety
    /// As [`multiply`]; both operands are packed, and the area is this thread's.
    unsafe fn compute(&self, own: &mut Own<'_>, refused: &mut Vec<(usize, usize)>) {
        let count = self.panels.0.len() * self.panels.1.len();
        own.is_admitted.clear();
        own.is_admitted.resize(count, true);
        // Magnitudes first: what they refuse need not be computed.
        for plane in std::iter::once(COUNT).chain(0..COUNT) {
            // SAFETY: the caller's promises.
            unsafe { self.multiply(plane, own) };
        }
        for index in 0..count {
            let (panel_a, panel_b) = self.at(index);
            if own.is_admitted[index] {
                // SAFETY: the caller's promises.
                unsafe { self.store(panel_a, panel_b, &own.residues[index], own.numbers) };
            } else {
                refused.push((panel_a, panel_b));
            }
        }
    }

    /// The panels of a micro-tile.
    fn at(&self, index: usize) -> (usize, usize) {
        let (a, b) = &self.panels;
        (a.start + index / b.len(), b.start + index % b.len())
    }

    fn sides(&self, panel_a: usize, panel_b: usize) -> Sides<'_> {
        let [a, b] = self.work.operands;
        Sides { a: &a.packed[panel_a], b: &b.packed[panel_b], k: self.work.depth.elements }
    }

    /// The residues of the area by a modulus, or whether its micro-tiles are admitted.
    ///
    /// # Safety
    /// As [`Self::compute`].
    unsafe fn multiply(&self, plane: usize, own: &mut Own<'_>) {
        let [a, b] = self.work.operands;
        let count = own.is_admitted.len();
        let Work { depth, kernels, .. } = self.work;
        for block in 0..depth.blocks() {
            let at = depth.block(block);
            let last = block + 1 == depth.blocks();
            // The panels of B that are met next: of the next block, plane, or area.
            let ahead_of_b = match (last, plane) {
                (false, _) => b.panel(plane, self.panels.1.start, depth.block(block + 1)),
                (true, COUNT) => b.panel(0, self.panels.1.start, depth.block(0)),
                (true, LAST) => b.panel(COUNT, self.next, depth.block(0)),
                (true, _) => b.panel(plane + 1, self.panels.1.start, depth.block(0)),
            };
            for index in 0..count {
                if !own.is_admitted[index] {
                    continue;
                }
                let (panel_a, panel_b) = self.at(index);
                let sums = own.sums[index].as_mut_ptr();
                let whole = own.whole.as_mut_ptr();
                let of_a = a.panel(plane, panel_a, at).cast_const();
                let asked = index % self.panels.1.len() * at.1 * AHEAD_A;
                let micro = MicroTile {
                    steps: at.1,
                    a: of_a,
                    b: b.panel(plane, panel_b, at).cast_const(),
                    sums: if block == 0 { std::ptr::null() } else { sums.cast_const().cast() },
                    to: if last { whole } else { sums }.cast(),
                    ld: SUMS_COLUMN,
                    ahead_a: of_a.wrapping_add(at.1 * PLANE + asked),
                    ahead_b: ahead_of_b.wrapping_add(index * at.1 * AHEAD_B),
                    ahead_sums: sums.wrapping_add(ELEMENTS).cast(),
                };
                // SAFETY: the caller's promises: packed panels of that many steps, sums of this thread's own.
                unsafe { (kernels.multiply)(&micro) };
                if !last {
                    continue;
                }
                let restore = &kernels.restore;
                if plane == COUNT {
                    let sides = self.sides(panel_a, panel_b);
                    // SAFETY: a unit's functions run where the unit does.
                    own.is_admitted[index] = unsafe { (restore.admits)(own.whole, &sides) };
                } else {
                    // SAFETY: as there.
                    unsafe { (restore.reduce)(own.whole, plane, &mut own.residues[index][plane]) };
                }
            }
        }
    }

    /// Stores a micro-tile.
    ///
    /// # Safety
    /// As [`Self::compute`]; it is of this area.
    unsafe fn store(
        &self,
        panel_a: usize,
        panel_b: usize,
        residues: &Residues,
        numbers: &mut [f64; ELEMENTS],
    ) {
        let Work { operands: [a, b], product, kernels, .. } = self.work;
        let sides = self.sides(panel_a, panel_b);
        // SAFETY: a unit's functions run where the unit does.
        unsafe { (kernels.restore.restore)(residues, &sides, numbers) };
        let &&Product { c, ldc, alpha, beta, .. } = product;
        let (rows, cols) = (a.lines_of(panel_a), b.lines_of(panel_b));
        let c = c.wrapping_add(rows.start + cols.start * ldc);
        let (rows, cols) = (rows.len(), cols.len());
        let stored = Stored { sums: numbers.as_ptr(), c, ldc, rows, cols, alpha, beta };
        // SAFETY: numbers of this micro-tile, and the part of C under it, which is this thread's.
        unsafe { (kernels.store)(&stored) };
    }
}

/// The last modulus.
const LAST: usize = COUNT - 1;
/// Bytes of A and of B that a step of the micro-kernel asks for ahead.
const AHEAD_A: usize = 128;
const AHEAD_B: usize = 256;

/// Whether a product of that size is faster by residues than by multiply-adds.
pub(crate) fn pays((m, n, k): (usize, usize, usize)) -> bool {
    let inverse = |lines: usize| 1.0 / lines.max(1) as f64;
    let spent = PACKING * (inverse(m) + inverse(n)) + RESTORING * inverse(k);
    (1..=LONGEST).contains(&k) && spent <= GAIN
}

/// Multiply-adds in whose time an element of A or B is packed, and an element of C restored.
const PACKING: f64 = 160.0;
const RESTORING: f64 = 140.0;
/// The part of the multiply-adds' time that may go to these, so that something is gained.
const GAIN: f64 = 0.33;

/// The loop by which the peak is measured: all planes count as one product.
pub(crate) fn tile_loop() -> Option<TileLoop> {
    super::peak::tile_loop(STEP, PLANES)
}
