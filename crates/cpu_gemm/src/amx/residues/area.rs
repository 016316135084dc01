//! An area of C, which a thread computes: sums of all planes, residues, and what they come to.

use super::operand::{Depth, Operand};
use super::restore::{ELEMENTS, Residues, Sides};
use super::unit::Kernels;
use crate::amx::driver::Unit;
use crate::amx::micro_kernel::{MicroTile, SUMS, SUMS_COLUMN};
use crate::amx::pack::PLANE;
use crate::amx::store::Stored;
use crate::product::Product;

/// A part of the product.
pub(super) struct Work<'s, const N: usize> {
    pub(super) product: &'s Product<f64>,
    pub(super) operands: [&'s Operand; 2],
    pub(super) depth: Depth,
    pub(super) kernels: &'static Kernels<N>,
    pub(super) unit: Unit,
}

/// What a thread keeps of its area.
pub(super) struct Own<'o, const N: usize> {
    /// Sums of a micro-tile whose blocks of k are all added, and the numbers that it comes to.
    whole: &'o mut [i32; ELEMENTS],
    numbers: &'o mut [f64; ELEMENTS],
    /// Of each micro-tile.
    is_admitted: Vec<bool>,
    sums: &'o mut [[i32; ELEMENTS]],
    residues: &'o mut [Residues<N>],
}

impl<'o, const N: usize> Own<'o, N> {
    const NUMBERS: usize = size_of::<[f64; ELEMENTS]>();

    pub(super) fn bytes(tiles: usize) -> usize {
        2 * Self::NUMBERS + tiles * (SUMS + size_of::<Residues<N>>())
    }

    /// # Safety
    /// [`Self::bytes`] at a multiple of 64 bytes that nobody else uses.
    pub(super) unsafe fn new(memory: *mut u8, tiles: usize) -> Self {
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

/// An area of C.
pub(super) struct Area<'s, const N: usize> {
    pub(super) work: &'s Work<'s, N>,
    pub(super) panels: (std::ops::Range<usize>, std::ops::Range<usize>),
    /// The first panel of B of the area after this one.
    pub(super) next: usize,
}

impl<const N: usize> Area<'_, N> {
    /// # Safety
    /// As [`super::multiply`]; both operands are packed, and the area is this thread's.
    pub(super) unsafe fn compute(&self, own: &mut Own<'_, N>, refused: &mut Vec<(usize, usize)>) {
        let count = self.panels.0.len() * self.panels.1.len();
        own.is_admitted.clear();
        own.is_admitted.resize(count, true);
        // Magnitudes first: what they refuse need not be computed.
        for plane in std::iter::once(N).chain(0..N) {
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
    unsafe fn multiply(&self, plane: usize, own: &mut Own<'_, N>) {
        let [a, b] = self.work.operands;
        let count = own.is_admitted.len();
        let Work { depth, kernels, .. } = self.work;
        for block in 0..depth.blocks() {
            let at = depth.block(block);
            let last = block + 1 == depth.blocks();
            // The panels of B that are met next: of the next block, plane, or area.
            let ahead_of_b = match (last, plane) {
                (false, _) => b.panel(plane, self.panels.1.start, depth.block(block + 1)),
                (true, plane) if plane == N => b.panel(0, self.panels.1.start, depth.block(0)),
                (true, plane) if plane + 1 == N => b.panel(N, self.next, depth.block(0)),
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
                if plane == N {
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
        residues: &Residues<N>,
        numbers: &mut [f64; ELEMENTS],
    ) {
        let Work { operands: [a, b], product, kernels, .. } = self.work;
        let sides = self.sides(panel_a, panel_b);
        // SAFETY: a unit's functions run where the unit does.
        unsafe { (kernels.restore.restore)(residues, &sides, numbers) };
        let &&Product { c, ldc, alpha, beta, .. } = product;
        let (rows, cols) = (a.lines_of(panel_a), b.lines_of(panel_b));
        let stored = Stored {
            sums: numbers.as_ptr(),
            c: c.wrapping_add(rows.start + cols.start * ldc),
            ldc,
            rows: rows.len(),
            cols: cols.len(),
            alpha,
            beta,
        };
        // SAFETY: numbers of this micro-tile, and the part of C under it, which is this thread's.
        unsafe { (kernels.store)(&stored) };
        // SAFETY: the micro-tile that was just stored.
        unsafe { product.tell_complete(rows, cols) };
    }
}

/// Bytes of A and of B that a step of the micro-kernel asks for ahead.
const AHEAD_A: usize = 128;
const AHEAD_B: usize = 256;
