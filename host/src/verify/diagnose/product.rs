//! Guesses about which products are summed, and for which element.

use gemm_spec::Operand;

use super::fitting;
use super::guess::{Claims, Guess, Says};
use super::pattern::{Axis, Leftover, Pattern};
use super::scene::{Scene, Sum};
use crate::scalar::ScalarTypes;

/// k elements that may be missing, or be all there is.
const MOST_STEPS: usize = 128;

impl<T: ScalarTypes> Scene<'_, T> {
    fn whole(&self, row: usize, col: usize) -> Sum<T> {
        self.dot(row, col, 0..self.depth)
    }

    /// The result stored with rows and columns exchanged: in the place of a square C, or packed
    /// tightly in the other order.
    pub(super) fn transposed_result(&self) -> [Guess<'_>; 2] {
        let (m, n) = (self.c.rows, self.c.cols);
        let in_place = move |row, col| (row < n && col < m).then_some((col, row));
        let packed = move |row, col| {
            let at = self.c.layout.index(row, col);
            let line = if self.c.by_rows() { m } else { n };
            let (long, short) = (at / line, at % line);
            let (row, col) = if self.c.by_rows() { (short, long) } else { (long, short) };
            (row < m && col < n).then_some((row, col))
        };
        [self.moved(in_place), self.moved(packed)]
    }

    /// The whole result, each place holding the element that `origin` names.
    fn moved<'g>(
        &'g self,
        origin: impl Fn(usize, usize) -> Option<(usize, usize)> + 'g,
    ) -> Guess<'g> {
        let says = move |row, col| match origin(row, col) {
            Some((i, j)) => Says::Is(self.store(row, col, &self.whole(i, j))),
            None => Says::Unwritten,
        };
        Guess { pattern: Pattern::TransposedResult, claims: Claims::Both, says: Box::new(says) }
    }

    pub(super) fn transposed_operand(&self) -> Vec<Guess<'_>> {
        let (a, b) = (self.a.layout.transposed(), self.b.layout.transposed());
        let read_a = move |i, l| Some(self.behind_is_zero(self.a.data(), a.index(i, l)));
        let read_b = move |l, j| Some(self.behind_is_zero(self.b.data(), b.index(l, j)));
        let of = |operand| Pattern::TransposedOperand { operand };
        vec![
            self.other_reads(of(Operand::A), read_a, |l, j| Some(self.b_at(l, j))),
            self.other_reads(of(Operand::B), |i, l| Some(self.a_at(i, l)), read_b),
        ]
    }

    /// A guess that the operands are read differently; nothing is known where a read leaves the
    /// buffer.
    pub(super) fn other_reads<'g>(
        &'g self,
        pattern: Pattern,
        a: impl Fn(usize, usize) -> Option<T::A> + 'g,
        b: impl Fn(usize, usize) -> Option<T::B> + 'g,
    ) -> Guess<'g> {
        let says = move |row, col| {
            let mut sum = Sum::ZERO;
            for step in 0..self.depth {
                let (Some(a), Some(b)) = (a(row, step), b(step, col)) else { return Says::Nothing };
                sum.add(a, b);
            }
            Says::Is(self.store(row, col, &sum))
        };
        Guess { pattern, claims: Claims::Written, says: Box::new(says) }
    }

    pub(super) fn transposed_in_tiles<'g>(
        &'g self,
        operand: Operand,
        widths: &'g [usize],
    ) -> impl Iterator<Item = Guess<'g>> {
        widths.iter().map(move |&w| {
            Guess::value(Pattern::TransposedInTiles { operand, width: w }, move |row, col| {
                let (y, x) = (row % w, col % w);
                let (row0, col0) = (row - y, col - x);
                let mut sum = Sum::ZERO;
                match operand {
                    Operand::C => sum = self.whole_or_zero(row0 + x, col0 + y),
                    Operand::A => {
                        for step in 0..self.depth.next_multiple_of(w) {
                            let (tile, j) = (step - step % w, step % w);
                            sum.add(self.a_at(row0 + j, tile + y), self.b_at(step, col));
                        }
                    }
                    Operand::B => {
                        for step in 0..self.depth.next_multiple_of(w) {
                            let (tile, j) = (step - step % w, step % w);
                            sum.add(self.a_at(row, step), self.b_at(tile + x, col0 + j));
                        }
                    }
                }
                self.store(row, col, &sum)
            })
        })
    }

    /// The sum of element (row, col); zero outside C, where guarded loads give zeros.
    fn whole_or_zero(&self, row: usize, col: usize) -> Sum<T> {
        if row < self.c.rows && col < self.c.cols { self.whole(row, col) } else { Sum::ZERO }
    }

    pub(super) fn last_tile_only<'g>(
        &'g self,
        widths: &'g [usize],
    ) -> impl Iterator<Item = Guess<'g>> {
        let k = self.depth;
        (1..k.min(MOST_STEPS + 1)).map(move |steps| {
            let widths = fitting(widths, |w| k > w && k - (k - 1) / w * w == steps);
            Guess::value(Pattern::LastTileOnly { steps, widths }, move |row, col| {
                self.store(row, col, &self.dot(row, col, k - steps..k))
            })
        })
    }

    pub(super) fn tail_missing<'g>(
        &'g self,
        widths: &'g [usize],
    ) -> impl Iterator<Item = Guess<'g>> {
        let k = self.depth;
        (1..k.min(MOST_STEPS + 1)).map(move |steps| {
            let widths = fitting(widths, |w| k > w && k % w == steps);
            Guess::value(Pattern::TailMissing { steps, widths }, move |row, col| {
                self.store(row, col, &self.dot(row, col, 0..k - steps))
            })
        })
    }

    pub(super) fn block_axes_swapped<'g>(
        &'g self,
        widths: &'g [usize],
    ) -> impl Iterator<Item = Guess<'g>> {
        widths.iter().map(move |&w| {
            Guess::value(Pattern::BlockAxesSwapped { width: w }, move |row, col| {
                let (y, x) = (row % w, col % w);
                self.store(row, col, &self.whole_or_zero(col - x + y, row - y + x))
            })
        })
    }

    /// Blocks that read what belongs to one block, and store in their own place.
    pub(super) fn block_offset_missing<'g>(
        &'g self,
        widths: &'g [usize],
    ) -> impl Iterator<Item = Guess<'g>> {
        let each = move |axis: Axis, w: usize, block: usize| {
            let pattern = Pattern::BlockOffsetMissing { axis, width: w, block, stored: false };
            Guess::value(pattern, move |row, col| {
                let sum = match axis {
                    Axis::Rows => self.whole_or_zero(block * w + row % w, col),
                    Axis::Columns => self.whole_or_zero(row, block * w + col % w),
                };
                self.store(row, col, &sum)
            })
        };
        [Axis::Columns, Axis::Rows].into_iter().flat_map(move |axis| {
            widths.iter().flat_map(move |&w| [0, 1].map(|block| each(axis, w, block)))
        })
    }

    pub(super) fn not_zeroed<'g>(&'g self, widths: &'g [usize]) -> Vec<Guess<'g>> {
        let named = |leftover| Pattern::AccumulatorNotZeroed { leftover };
        let mut guesses = Vec::new();
        let known = self.before.is_some();
        if known {
            guesses.push(Guess::value(named(Leftover::OldC), move |row, col| {
                self.store_with(row, col, &self.whole(row, col), self.alpha, self.beta + 1.0)
            }));
        }
        for &width in widths {
            for old_c in [false, true] {
                if (old_c && !known) || width >= self.depth {
                    continue;
                }
                let pattern = named(Leftover::RunningSum { width, old_c });
                guesses.push(Guess::value(pattern, move |row, col| {
                    let (mut running, mut total) = (Sum::ZERO, Sum::ZERO);
                    for tile in (0..self.depth).step_by(width) {
                        let steps = tile..self.depth.min(tile + width);
                        running = running.plus(&self.dot(row, col, steps));
                        total = total.plus(&running);
                    }
                    let beta = if old_c { self.beta + 1.0 } else { self.beta };
                    self.store_with(row, col, &total, self.alpha, beta)
                }));
            }
            for axis in [Axis::Columns, Axis::Rows] {
                let pattern = named(Leftover::EarlierTiles { axis, width });
                guesses.push(Guess::value(pattern, move |row, col| {
                    let mut total = Sum::ZERO;
                    let last = if axis == Axis::Rows { row } else { col };
                    for at in (last % width..=last).step_by(width) {
                        total = total.plus(&match axis {
                            Axis::Rows => self.whole(at, col),
                            Axis::Columns => self.whole(row, at),
                        });
                    }
                    self.store(row, col, &total)
                }));
            }
        }
        guesses
    }
}
