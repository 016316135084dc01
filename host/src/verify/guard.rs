//! A result buffer that shows who wrote where.

use gemm_spec::{Element, Operand, Order, Problem};
use rayon::prelude::*;
use thiserror::Error;

use super::{VerifyError, reserved};
use crate::scalar::{Scalar, ScalarTypes};

/// Guard words on each side, in elements: more than any tile's stray row, and a multiple of every
/// alignment that a kernel may ask of C.
const GUARD: usize = 4096;

/// A word outside C that was overwritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GuardError {
    /// A word before the first element of C.
    #[error("the word {distance} elements before the start of C was overwritten")]
    Before {
        /// Elements from the word to the first element of C.
        distance: usize,
    },
    /// A word behind the last element of C.
    #[error("the word {distance} elements behind the end of C was overwritten")]
    After {
        /// Elements from the last element of C to the word.
        distance: usize,
    },
    /// A word between two rows of C, or columns where it is column-major.
    #[error("padding word {offset} behind {line_name} {line} of C was overwritten")]
    Padding {
        /// `row` or `column`.
        line_name: &'static str,
        /// Which row or column stands before the word.
        line: usize,
        /// Which word of the padding, from 0.
        offset: usize,
    },
}

/// A buffer for C with guard words before it, behind it and in the padding between its lines.
///
/// Before a run [`Guarded::poison`] puts a pattern into every word. The guard words are finite and
/// depend on where they stand: a NaN there could come through `beta * C` with its bits unchanged and
/// hide that it was written.
#[derive(Clone, Debug)]
pub struct Guarded<T: ScalarTypes> {
    problem: Problem<T>,
    words: Vec<T::C>,
}

impl<T: ScalarTypes> Guarded<T> {
    /// A poisoned buffer for the result of `problem`; where beta is not zero its elements are still
    /// to be put in by [`Guarded::poison`].
    ///
    /// # Errors
    /// [`VerifyError::Shape`] where C cannot have that leading dimension or size,
    /// [`VerifyError::Memory`] where it cannot be allocated.
    pub fn new(problem: &Problem<T>) -> Result<Self, VerifyError> {
        let len = problem.required_len(Operand::C)?.saturating_add(2 * GUARD);
        let mut words = reserved(len, "a guarded result")?;
        words.resize(len, T::C::POISON);
        let mut guarded = Self { problem: *problem, words };
        guarded.fill(|_, _| T::C::POISON);
        Ok(guarded)
    }

    /// Prepares the buffer for a run: elements of C become [`Scalar::POISON`], or those of `c_before`
    /// where beta is not zero, and every other word its guard pattern.
    ///
    /// # Panics
    /// If beta is not zero and `c_before` is shorter than C.
    pub fn poison(&mut self, c_before: &[T::C]) {
        if self.problem.beta == T::Acc::ZERO {
            self.fill(|_, _| T::C::POISON);
        } else {
            let layout = self.problem.c;
            self.fill(|row, col| c_before[layout.index(row, col)]);
        }
    }

    /// Every word once, by all threads where there are many: a run between two of them lasts a few
    /// milliseconds.
    fn fill(&mut self, element: impl Fn(usize, usize) -> T::C + Sync) {
        const TOGETHER: usize = 1 << 16;
        let (lines, len, ld) = (self.lines(), self.line_len(), self.problem.c.ld.max(1));
        let order = self.problem.c.order;
        let (head, rest) = self.words.split_at_mut(GUARD);
        head.iter_mut().enumerate().for_each(|(at, word)| *word = guard_word(at));
        // Lines with what pads them, then the words behind C.
        let lines_of_rest = rest.par_chunks_mut(ld).with_min_len(TOGETHER.div_ceil(ld));
        lines_of_rest.enumerate().for_each(|(line, words)| {
            let len = if line < lines { len.min(words.len()) } else { 0 };
            let (own, padding) = words.split_at_mut(len);
            for (along, word) in own.iter_mut().enumerate() {
                *word = match order {
                    Order::RowMajor => element(line, along),
                    Order::ColMajor => element(along, line),
                };
            }
            let first = GUARD + line * ld + len;
            padding.iter_mut().enumerate().for_each(|(at, word)| *word = guard_word(first + at));
        });
    }

    /// Lines of C that hold elements.
    fn lines(&self) -> usize {
        match (self.problem.m, self.problem.n, self.problem.c.order) {
            (0, _, _) | (_, 0, _) => 0,
            (m, _, Order::RowMajor) => m,
            (_, n, Order::ColMajor) => n,
        }
    }

    fn line_len(&self) -> usize {
        match self.problem.c.order {
            Order::RowMajor => self.problem.n,
            Order::ColMajor => self.problem.m,
        }
    }

    fn body(&self) -> std::ops::Range<usize> {
        GUARD..self.words.len() - GUARD
    }

    /// C as the problem lays it out, from its first to its last element.
    #[must_use]
    pub fn as_slice(&self) -> &[T::C] {
        &self.words[self.body()]
    }

    /// C as the problem lays it out, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [T::C] {
        let body = self.body();
        &mut self.words[body]
    }

    /// C with the guard words on both sides; C begins at [`Guarded::guard_len`].
    #[must_use]
    pub fn full(&self) -> &[T::C] {
        &self.words
    }

    /// C with the guard words on both sides, to be written: a device's copy comes back through this.
    pub fn full_mut(&mut self) -> &mut [T::C] {
        &mut self.words
    }

    /// Guard words on each side of C, in elements.
    #[must_use]
    pub fn guard_len(&self) -> usize {
        GUARD
    }

    /// Checks that no word outside C was written since [`Guarded::poison`].
    ///
    /// # Errors
    /// The overwritten word nearest to C before it, else the first one in its padding, else the
    /// first one behind it.
    pub fn intact(&self) -> Result<(), GuardError> {
        let broken = |at: &usize| !self.words[*at].same_bits(guard_word(*at));
        let body = self.body();
        if let Some(at) = (0..body.start).rev().find(broken) {
            return Err(GuardError::Before { distance: body.start - at });
        }
        for line in 1..self.lines() {
            let end = body.start + line * self.problem.c.ld;
            let start = end - self.problem.c.ld + self.line_len();
            if let Some(at) = (start..end).find(broken) {
                let line_name = match self.problem.c.order {
                    Order::RowMajor => "row",
                    Order::ColMajor => "column",
                };
                return Err(GuardError::Padding { line_name, line: line - 1, offset: at - start });
            }
        }
        match (body.end..self.words.len()).find(broken) {
            Some(at) => Err(GuardError::After { distance: at + 1 - body.end }),
            None => Ok(()),
        }
    }
}

/// The pattern of word `at`: numbers of eight significant bits below 2^15, which every type has.
fn guard_word<T: Scalar>(at: usize) -> T {
    let turn = at % 1021;
    T::from_f64(-(((128 + turn % 128) << (turn / 128)) as f64))
}

#[cfg(test)]
mod tests {
    use gemm_spec::Layout;

    use super::*;

    fn padded(order: fn(usize) -> Layout) -> Problem<f32> {
        let problem = Problem::<f32>::new(3, 3, 2);
        problem.with_layouts(problem.a, problem.b, order(5))
    }

    #[test]
    fn guard_words_differ_in_every_type() {
        fn differ<T: Scalar>() {
            let words: Vec<T> = (0..1021).map(guard_word).collect();
            for (at, word) in words.iter().enumerate() {
                assert!(word.to_f64().is_finite() && !word.same_bits(T::POISON));
                assert!(words[..at].iter().all(|other| !other.same_bits(*word)), "word {at}");
            }
        }
        differ::<f32>();
        differ::<f64>();
        differ::<i32>();
        differ::<gemm_spec::f16>();
        differ::<gemm_spec::bf16>();
    }

    #[test]
    fn writes_outside_c_are_named() {
        for (order, line_name) in
            [(Layout::row_major as fn(_) -> _, "row"), (Layout::col_major, "column")]
        {
            let mut c = Guarded::new(&padded(order)).unwrap();
            assert_eq!(c.as_slice().len(), 13);
            c.as_mut_slice()[12] = 1.0;
            c.as_mut_slice()[0] = 1.0;
            assert_eq!(c.intact(), Ok(()));
            let start = c.guard_len();
            for (at, want) in [
                (start - 1, GuardError::Before { distance: 1 }),
                (0, GuardError::Before { distance: start }),
                (start + 13, GuardError::After { distance: 1 }),
                (start + 12 + start, GuardError::After { distance: start }),
                (start + 9, GuardError::Padding { line_name, line: 1, offset: 1 }),
            ] {
                c.poison(&[]);
                c.full_mut()[at] = f32::NAN;
                assert_eq!(c.intact(), Err(want), "{want}");
            }
        }
    }

    #[test]
    fn a_guard_word_shifted_by_one_row_is_seen() {
        let mut c = Guarded::new(&padded(Layout::row_major)).unwrap();
        let start = c.guard_len();
        c.full_mut()[start + 3] = c.full()[start + 8];
        assert!(c.intact().is_err());
    }

    #[test]
    fn elements_are_poisoned_or_put_back() {
        let problem = padded(Layout::row_major);
        let mut c = Guarded::new(&problem).unwrap();
        c.as_mut_slice().fill(0.0);
        c.poison(&[]);
        assert!(c.as_slice()[10].same_bits(f32::POISON) && c.intact().is_ok());

        let before: Vec<f32> = (0..13).map(|i| i as f32).collect();
        let mut c = Guarded::new(&problem.with_scalars(1.0, 2.0)).unwrap();
        c.poison(&before);
        assert_eq!(&c.as_slice()[5..8], &before[5..8]);
        assert!(c.intact().is_ok() && c.as_slice()[3] != before[3]);
    }

    #[test]
    fn an_empty_result_is_all_guard() {
        let mut c = Guarded::new(&Problem::<i32>::new(0, 7, 3)).unwrap();
        assert!(c.as_slice().is_empty() && c.intact().is_ok());
        let start = c.guard_len();
        c.full_mut()[start] = 1;
        assert_eq!(c.intact(), Err(GuardError::After { distance: 1 }));
    }
}
