//! Guesses about where elements are read and written.

use gemm_spec::Operand;

use super::guess::{Claims, Guess, Says};
use super::pattern::{Axis, Pattern};
use super::scene::{Scene, Sum, Survey};
use super::{WIDTHS, fitting};
use crate::scalar::{Scalar, ScalarTypes};

impl<T: ScalarTypes> Scene<'_, T> {
    pub(super) fn wrong_leading_dimension(&self, operand: Operand) -> Vec<Guess<'_>> {
        let guess = |ld| match operand {
            Operand::A => {
                let layout = gemm_spec::Layout { ld, ..self.a.layout };
                let read = move |i, l| self.a.data().get(layout.index(i, l)).copied();
                self.other_reads(Pattern::WrongLeadingDimension { operand, ld }, read, |l, j| {
                    Some(self.b_at(l, j))
                })
            }
            Operand::B => {
                let layout = gemm_spec::Layout { ld, ..self.b.layout };
                let read = move |l, j| Some(self.behind_is_zero(self.b.data(), layout.index(l, j)));
                let pattern = Pattern::WrongLeadingDimension { operand, ld };
                self.other_reads(pattern, |i, l| Some(self.a_at(i, l)), read)
            }
            Operand::C => self.stored_with_ld(ld),
        };
        self.leading_dimensions(operand).into_iter().map(guess).collect()
    }

    /// An element of a buffer; zero behind its end. What lies there is not known, but where every
    /// element of C would read it, zero is worth a try.
    pub(super) fn behind_is_zero<E: Scalar>(&self, data: &[E], at: usize) -> E {
        data.get(at).copied().unwrap_or(E::ZERO)
    }

    /// Values that a leading dimension may be mistaken for.
    fn leading_dimensions(&self, operand: Operand) -> Vec<usize> {
        let p = &self.problem;
        let real = p.layout(operand).ld;
        let mut values = vec![p.m, p.n, p.k, p.a.ld, p.b.ld, p.c.ld];
        for value in values.clone() {
            values.extend([4, 8, 16, 32, 64].map(|step| value.next_multiple_of(step)));
        }
        values.extend((1..=8).flat_map(|off| [real.saturating_sub(off), real.saturating_add(off)]));
        values.push(0);
        values.extend(WIDTHS);
        values.retain(|&value| value != real);
        values.sort_unstable();
        values.dedup();
        // The sizes themselves first: an equal score goes to the likelier slip.
        let likely = [p.m, p.n, p.k, p.a.ld, p.b.ld, p.c.ld];
        values.sort_by_key(|value| !likely.contains(value));
        values
    }

    /// C stored with another leading dimension; where elements meet, any of them may be the last.
    fn stored_with_ld(&self, ld: usize) -> Guess<'_> {
        let by_rows = self.c.by_rows();
        let (lines, len) = (self.c.lines(), self.c.line_len());
        let says = move |row, col| {
            let at = self.c.layout.index(row, col);
            let first = if ld == 0 { 0 } else { at.saturating_sub(len - 1).div_ceil(ld) };
            let last = at.checked_div(ld).unwrap_or(lines - 1).min(lines - 1);
            let mut values = Vec::new();
            for line in (first..=last).rev().take(4) {
                let along = at - line * ld;
                if along >= len {
                    continue;
                }
                let (i, j) = if by_rows { (line, along) } else { (along, line) };
                values.push(self.store(row, col, &self.dot(i, j, 0..self.depth)));
            }
            match values.len() {
                0 => Says::Unwritten,
                1 => Says::Is(values[0]),
                _ => Says::OneOf(values),
            }
        };
        Guess {
            pattern: Pattern::WrongLeadingDimension { operand: Operand::C, ld },
            claims: Claims::Both,
            says: Box::new(says),
        }
    }

    /// The last rows or columns left out.
    pub(super) fn edge_unwritten(&self, survey: &Survey, widths: &[usize]) -> Option<Guess<'_>> {
        let (end_row, end_col) = survey.written_end;
        let (m, n) = (self.c.rows, self.c.cols);
        let (rows, cols) = (m - end_row, n - end_col);
        if (rows, cols) == (0, 0) || end_row == 0 || end_col == 0 {
            return None;
        }
        let ends = |w: usize, size: usize, end: usize| size == end || size / w * w == end;
        let widths = fitting(widths, |w| ends(w, m, end_row) && ends(w, n, end_col));
        let pattern = Pattern::EdgeUnwritten { rows, cols, widths };
        Some(Guess::unwritten(pattern, move |row, col| row >= end_row || col >= end_col))
    }

    /// Stores without a guard: zeros of the last tiles land at the start of the next row, where a
    /// block that ran before has stored. The first row of a block belongs to one that runs later.
    pub(super) fn spilled_over<'g>(
        &'g self,
        widths: &'g [usize],
    ) -> impl Iterator<Item = Guess<'g>> {
        let n = self.c.cols;
        let packed = self.c.by_rows() && self.c.layout.ld == n;
        widths.iter().filter(move |w| packed && n > **w && !n.is_multiple_of(**w)).map(move |&w| {
            let cols = n.next_multiple_of(w) - n;
            let says = move |row: usize, col| match row % w {
                _ if col >= cols => Says::Right,
                0 => Says::Nothing,
                _ => Says::Is(self.store(row, col, &Sum::ZERO)),
            };
            let pattern = Pattern::SpilledOver { cols, width: w };
            Guess { pattern, claims: Claims::Written, says: Box::new(says) }
        })
    }

    /// Blocks laid along the wrong axis, so that C is covered as if it had n rows and m columns.
    pub(super) fn grid_axes_swapped(&self, widths: &[usize]) -> Vec<Guess<'_>> {
        let (m, n) = (self.c.rows, self.c.cols);
        let end = |w: usize| (n.next_multiple_of(w).min(m), m.next_multiple_of(w).min(n));
        let mut ends: Vec<_> = widths.iter().map(|&w| end(w)).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.retain(|end| *end != (m, n));
        let guess = |there: (usize, usize)| {
            let widths = fitting(widths, |w| end(w) == there);
            Guess::unwritten(Pattern::GridAxesSwapped { widths }, move |row, col| {
                row >= there.0 || col >= there.1
            })
        };
        ends.into_iter().map(guess).collect()
    }

    /// Every block stores to the same place.
    pub(super) fn offset_of_stores<'g>(
        &'g self,
        widths: &'g [usize],
    ) -> impl Iterator<Item = Guess<'g>> {
        let each = |axis: Axis, width: usize, block: usize| {
            let pattern = Pattern::BlockOffsetMissing { axis, width, block, stored: true };
            let there = block * width..(block + 1) * width;
            Guess::unwritten(pattern, move |row, col| {
                !there.contains(if axis == Axis::Rows { &row } else { &col })
            })
        };
        [Axis::Columns, Axis::Rows].into_iter().flat_map(move |axis| {
            widths.iter().flat_map(move |&w| [0, 1].map(|block| each(axis, w, block)))
        })
    }
}
