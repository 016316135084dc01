//! Packing a symmetric or Hermitian factor of which one triangle is stored: what is on the other side of the diagonal is
//! packed from its mirror image.

use std::mem::MaybeUninit;
use std::ops::Range;

use gemm_spec::GemmTypes;

use crate::kernels::{MAX_ROWS, PackFn};
use crate::pack::Pack;

/// The factor of a product that is symmetric or Hermitian.
pub(crate) enum Mirror<'a, T: GemmTypes> {
    A(Mirrored<'a, T::A, T::Acc>),
    B(Mirrored<'a, T::B, T::Acc>),
}

/// The parts of the element of a line at a step, as what is stored would be packed; of a real one the second does not
/// matter.
pub(crate) type ElementFn<'a, T> = dyn Fn(usize, usize) -> [T; 2] + Sync + 'a;

/// How panels of such a factor are packed.
pub(crate) struct Mirrored<'a, T, Packed> {
    /// Whether the elements of a line that are behind the diagonal are stored, else those before it.
    pub(crate) stored_behind: bool,
    /// The real lines and steps that an element is packed to: one each, of complex numbers two steps, and two lines of A.
    pub(crate) parts: (usize, usize),
    /// Lines of a panel.
    pub(crate) width: usize,
    /// Packs what is stored, and its mirror image.
    pub(crate) pack: PackFn<T, Packed>,
    /// See `pack`.
    pub(crate) pack_mirrored: PackFn<T, Packed>,
    /// Elements near the diagonal.
    pub(crate) element: &'a ElementFn<'a, T>,
}

/// Elements of the largest square on the diagonal: as many lines as the widest panel has.
const SQUARE: usize = MAX_ROWS * MAX_ROWS;

impl<T: Copy, Packed> Mirrored<'_, T, Packed> {
    /// Packs panels of those lines and steps, of which `from` is the whole factor's first element.
    ///
    /// # Safety
    /// What is stored of the factor can be read; `to` can be written for all panels, and nobody else uses it meanwhile. The
    /// CPU has the instruction set of the functions that pack. The lines begin with a whole element, as the steps do.
    pub(crate) unsafe fn pack(
        &self,
        panels: &Pack<T, Packed>,
        first_line: usize,
        first_step: usize,
    ) {
        let &Pack { lines, k, to, .. } = panels;
        let steps = first_step..first_step + k;
        let diagonal = self.diagonal(first_line..first_line + lines);
        // Off the diagonal all panels are packed at once, on it each by itself.
        let whole = diagonal.end <= steps.start || diagonal.start >= steps.end;
        let width = if whole { lines.max(1) } else { self.width };
        for first in (0..lines).step_by(width) {
            let lines = first_line + first..first_line + lines.min(first + width);
            let diagonal = self.diagonal(lines.clone());
            let begin = diagonal.start.clamp(steps.start, steps.end);
            let end = diagonal.end.clamp(steps.start, steps.end);
            let panel = to.wrapping_add(first * k);
            let at = |step: usize| panel.wrapping_add((step - steps.start) * self.width);
            if steps.start < begin {
                let side = (lines.clone(), steps.start..begin, at(steps.start));
                // SAFETY: elements before the diagonal of those lines, and their places in the panels.
                unsafe { self.pack_side(!self.stored_behind, panels, side) };
            }
            if begin < end {
                // SAFETY: elements of those lines from the diagonal of the first to that of the last, and their places.
                unsafe { self.pack_square(lines.clone(), begin..end, at(begin)) };
            }
            if end < steps.end {
                let side = (lines, end..steps.end, at(end));
                // SAFETY: elements behind the diagonal of those lines, and their places.
                unsafe { self.pack_side(self.stored_behind, panels, side) };
            }
        }
    }

    /// The steps of the elements of those lines that are on the diagonal.
    fn diagonal(&self, lines: Range<usize>) -> Range<usize> {
        let (of_lines, of_steps) = self.parts;
        lines.start / of_lines * of_steps..lines.end.div_ceil(of_lines) * of_steps
    }

    /// Packs lines and steps on one side of the diagonal.
    ///
    /// # Safety
    /// As [`Self::pack`].
    unsafe fn pack_side(
        &self,
        stored: bool,
        &Pack { from, along, step, .. }: &Pack<T, Packed>,
        (lines, steps, to): (Range<usize>, Range<usize>, *mut Packed),
    ) {
        let (of_lines, of_steps) = self.parts;
        let (pack, along, step) = match stored {
            true => (self.pack, along, step),
            false => (self.pack_mirrored, step * of_steps / of_lines, along * of_lines / of_steps),
        };
        let from = from.wrapping_add(lines.start * along + steps.start * step);
        // SAFETY: the caller's promises: the mirror image of what is not stored is stored.
        unsafe { pack(&Pack { from, along, step, lines: lines.len(), k: steps.len(), to }) };
    }

    /// Packs lines of one panel and steps on the diagonal, which are written out first.
    ///
    /// # Safety
    /// As [`Self::pack`].
    unsafe fn pack_square(&self, lines: Range<usize>, steps: Range<usize>, to: *mut Packed) {
        let (of_lines, of_steps) = self.parts;
        let numbers = lines.start / of_lines..lines.end / of_lines;
        let rows = numbers.len();
        let mut square = [const { MaybeUninit::uninit() }; SQUARE];
        let mut left = square.chunks_exact_mut(of_steps);
        for step in steps.start / of_steps..steps.end / of_steps {
            for (line, number) in numbers.clone().zip(&mut left) {
                for (to, part) in number.iter_mut().zip((self.element)(line, step)) {
                    to.write(part);
                }
            }
        }
        let (along, step) = (of_steps / of_lines, rows);
        let from = square.as_ptr().cast();
        // SAFETY: the square that was written above, which fits since a panel has at most as many lines as a tile has rows,
        // and as many steps; the caller's promises for `to`.
        unsafe { (self.pack)(&Pack { from, along, step, lines: lines.len(), k: steps.len(), to }) };
    }
}
