//! Products of f64 in the i8 tiles, by residues.
//!
//! Rows of A and columns of B are scaled by powers of two and rounded to integers of as many bits as their norms leave
//! room for, 53 at most. Their product is an integer below the product of 15 moduli, so its residues by these determine
//! it: 15 exact products of i8, and the Chinese remainder theorem for each element. What errs is the rounding of the
//! operands, one addition of parts, and the last multiplication by a power of two. By 16 moduli integers have up to 57
//! bits, so that hardly an element is rounded.
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

mod area;
mod lines;
mod moduli;
mod operand;
mod pack;
mod restore;
mod unit;

use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, PoisonError};

use self::area::{Area, Own, Work};
use self::moduli::{FEW, MANY};
use self::operand::{Depth, Operand, Shared};
use self::pack::{STEP, planes};
use self::unit::Kernels;
use super::blocks::{Areas, Costs};
use super::driver::{PACKED, Unit, part};
use super::flags::Unraised;
use super::pack::{Form, LINES};
use super::peak::TileLoop;
use super::registers::TileRegisters;
use crate::buffer::Buffer;
use crate::context::CpuContext;
use crate::error::Error;
use crate::product::Product;
use crate::threads::tickets;
use crate::units::CpuUnits;

/// Elements of k at most: sums of as many products of bytes fit 32 bits.
const LONGEST: usize = 1 << 17;
/// Rows and columns of an area: its sums and residues fit the L2.
const AREA: (usize, usize) = (256, 512);

/// Computes a product, k at least 1; by `otherwise` what the bound refuses.
///
/// # Errors
/// [`Error::OutOfMemory`], before anything was written.
///
/// # Safety
/// The product's promises, see [`Product`].
pub(crate) unsafe fn multiply(
    product: &Product<f64>,
    (unit, units): (Unit, CpuUnits),
    context: &CpuContext,
    threads: usize,
    otherwise: impl Fn(&Product<f64>),
) -> Result<(), Error> {
    if units == CpuUnits::ExactRounded {
        // SAFETY: the caller's promises.
        unsafe { multiply_by::<MANY>(product, unit, context, threads, otherwise) }
    } else {
        // SAFETY: the caller's promises.
        unsafe { multiply_by::<FEW>(product, unit, context, threads, otherwise) }
    }
}

/// The same by N moduli.
///
/// # Errors
/// As [`multiply`].
///
/// # Safety
/// As [`multiply`].
unsafe fn multiply_by<const N: usize>(
    product: &Product<f64>,
    unit: Unit,
    context: &CpuContext,
    threads: usize,
    otherwise: impl Fn(&Product<f64>),
) -> Result<(), Error> {
    let &Product { m, n, k, .. } = product;
    if k > LONGEST {
        otherwise(product);
        return Ok(());
    }
    let depth = Depth { elements: k, steps: k.div_ceil(STEP) };
    let of_panel = Operand::bytes(N, LINES, depth);
    let operands = (m + n).saturating_mul(k).saturating_mul(size_of::<f64>());
    let (rows, cols) = part((m, n), (of_panel, of_panel), operands.max(PACKED));
    let memory = Memory::new::<N>((rows, cols), depth, context, threads)?;
    let kernels = match unit {
        Unit::Tiles(_) => Kernels::<N>::TILES,
        Unit::Model => Kernels::<N>::MODEL,
    };
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
                otherwise(&part.part(rows, cols));
            }
        }
    }
    memory.give_back(context);
    Ok(())
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
    fn new<const N: usize>(
        (rows, cols): (usize, usize),
        depth: Depth,
        context: &CpuContext,
        threads: usize,
    ) -> Result<Self, Error> {
        let spare = context.spare();
        let a = spare.take::<u8>(Operand::bytes(N, rows, depth))?;
        let b = spare.take::<u8>(Operand::bytes(N, cols, depth))?;
        let tiles = |lines: usize, most: usize| lines.div_ceil(LINES).min(most / LINES);
        let in_area = tiles(rows, AREA.0) * tiles(cols, AREA.1);
        let own = (0..threads).map(|_| spare.take::<u8>(Own::<N>::bytes(in_area)));
        Ok(Self { a, b, own: Mutex::new(own.collect::<Result<_, _>>()?), in_area, threads })
    }

    fn give_back(self, context: &CpuContext) {
        let own = self.own.into_inner().unwrap_or_else(PoisonError::into_inner);
        for buffer in own.into_iter().chain([self.a, self.b]) {
            context.spare().give_back(buffer, self.threads);
        }
    }
}

impl<const N: usize> Work<'_, N> {
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
        let areas = Areas::new((self.product.m, self.product.n), AREA, costs, (threads, 1));
        let refused = Mutex::new(Vec::new());
        let next = AtomicUsize::new(0);
        let shared = Shared(self);
        let (own, in_area) = (&memory.own, memory.in_area);
        context.run_on(threads, || {
            let _unraised = Unraised::from_here();
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
            for area in tickets(&next, areas.count()) {
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

/// Whether a product of that size is to be computed by residues: where that is faster than by multiply-adds, and where
/// it is to be exact, always.
pub(crate) fn pays(units: CpuUnits, (m, n, k): (usize, usize, usize), threads: usize) -> bool {
    if units == CpuUnits::ExactRounded {
        return (1..=LONGEST).contains(&k);
    }
    if k > LONGEST {
        return false;
    }
    let gain = match threads {
        1 => GAIN,
        2 => GAIN_OF_TWO,
        // More wait for the same memory.
        _ => return false,
    };
    let [m, n, k] = [m, n, k].map(|count| count as f64);
    // Small products are not to wait for divisions.
    let may_pay = m.min(n) * gain >= PACKING && k * gain >= RESTORING;
    may_pay && PACKING / m + PACKING / n + RESTORING / k <= gain
}

/// Multiply-adds in whose time an element of A or B is packed, and an element of C restored.
const PACKING: f64 = 160.0;
const RESTORING: f64 = 140.0;
/// The part of the multiply-adds' time that may go to these, so that something is gained: on one thread, and on two.
const GAIN: f64 = 0.33;
const GAIN_OF_TWO: f64 = 0.23;

/// The loop by which the peak is measured: all planes count as one product.
pub(crate) fn tile_loop() -> Option<TileLoop> {
    super::peak::tile_loop(STEP, planes(FEW))
}
