//! Sums become elements of D, with what an epilogue does besides scaling ([`gemm_spec::fusion`]).
//!
//! Elements are finished in runs that stay in registers or the L1, one step after the other: each step is a loop
//! over an array, which the compiler makes vector instructions of for each instruction set. The bits are the same
//! for all of them.

use std::ops::Range;

use gemm_spec::{Accumulator, Activation, Convert, Element, epilogue};

use crate::powers::PolynomialPowers;

/// Numbers that sums are of.
pub(crate) trait FinishedSum: Accumulator {
    fn add(self, other: Self) -> Self;

    /// The activation of each, of those that [`gemm_spec::Epilogue::check`] admits.
    fn activate<const R: usize>(values: &mut [Self; R], activation: Activation);

    /// The bits of the magnitude as an f32; of other sums than those of f32 it is not asked for.
    fn magnitude_bits(self) -> u32;
}

impl FinishedSum for f32 {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn activate<const R: usize>(values: &mut [Self; R], activation: Activation) {
        // A loop for each, so that none chooses anew for each element.
        macro_rules! each {
            ($($name:ident)+) => {
                match activation {
                    Activation::Identity => {}
                    $(Activation::$name => {
                        for value in values {
                            *value = Activation::$name.apply::<PolynomialPowers>(*value);
                        }
                    })+
                }
            };
        }
        each!(Relu Gelu GeluTanh Silu);
    }

    #[inline(always)]
    fn magnitude_bits(self) -> u32 {
        self.to_bits() & !(1 << 31)
    }
}

impl FinishedSum for f64 {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn activate<const R: usize>(values: &mut [Self; R], activation: Activation) {
        if activation == Activation::Relu {
            for value in values {
                *value = if *value < 0.0 { 0.0 } else { *value };
            }
        }
    }

    #[inline(always)]
    fn magnitude_bits(self) -> u32 {
        0
    }
}

/// Sums of integers have no epilogue.
impl FinishedSum for i32 {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }

    #[inline(always)]
    fn activate<const R: usize>(_: &mut [Self; R], _: Activation) {}

    #[inline(always)]
    fn magnitude_bits(self) -> u32 {
        0
    }
}

/// Numbers of an epilogue: one for each line, or one for each element of a line; null where there are none.
pub(crate) struct Along<T> {
    pub(crate) lines: *const T,
    pub(crate) elements: *const T,
}

/// Lines of D and what they are made of. A line's elements are contiguous.
pub(crate) struct Finish<Acc, C> {
    pub(crate) lines: usize,
    /// Elements of a line.
    pub(crate) len: usize,
    /// The sum of element i of line j is at `sums + j * sums_line + i * sums_element`.
    pub(crate) sums: *const Acc,
    pub(crate) sums_line: usize,
    pub(crate) sums_element: usize,
    /// What beta multiplies, in the same way.
    pub(crate) old: *const C,
    pub(crate) old_line: usize,
    pub(crate) old_element: usize,
    /// Elements of line j begin at `d + j * d_ld`. They may be the sums, or what beta multiplies.
    pub(crate) d: *mut C,
    pub(crate) d_ld: usize,
    pub(crate) alpha: Acc,
    pub(crate) beta: Acc,
    pub(crate) scales: Along<Acc>,
    /// Whether alpha is multiplied by the scale of the line first: lines are rows.
    pub(crate) line_first: bool,
    pub(crate) bias: Along<C>,
    pub(crate) activation: Activation,
    /// Whether the largest magnitude is wanted.
    pub(crate) amax: bool,
}

impl<T> Clone for Along<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Along<T> {}

impl<T> Along<T> {
    /// The same from a line and an element on.
    fn from(self, line: usize, element: usize) -> Self {
        let from = |numbers: *const T, at: usize| match numbers.is_null() {
            true => numbers,
            false => numbers.wrapping_add(at),
        };
        Self { lines: from(self.lines, line), elements: from(self.elements, element) }
    }
}

impl<Acc: Copy, C> Finish<Acc, C> {
    /// Some elements of some lines.
    pub(crate) fn part(&self, elements: Range<usize>, lines: Range<usize>) -> Self {
        let (line, element) = (lines.start, elements.start);
        Self {
            lines: lines.len(),
            len: elements.len(),
            sums: self.sums.wrapping_add(line * self.sums_line + element * self.sums_element),
            old: self.old.wrapping_add(line * self.old_line + element * self.old_element),
            d: self.d.wrapping_add(line * self.d_ld + element),
            scales: self.scales.from(line, element),
            bias: self.bias.from(line, element),
            ..*self
        }
    }
}

/// Finishes lines; see [`finish`] for what it demands.
pub(crate) type FinishFn<Acc, C> = unsafe fn(&Finish<Acc, C>) -> u32;

/// Elements that are finished together, and what is left of a line.
const RUN: usize = 64;
const SHORT_RUN: usize = 16;

/// Finishes lines; returns the bits of the largest magnitude that is stored, zero where it is not wanted.
///
/// # Safety
/// Sums, D and numbers can be read, and D written, at all lines and elements, and C read where beta is not zero; no
/// other thread uses those parts of D and of the sums meanwhile. Where D shares elements with sums or C, each has its
/// place.
#[inline(always)]
pub(crate) unsafe fn finish<Acc: FinishedSum, C: Convert<Acc>>(lines: &Finish<Acc, C>) -> u32 {
    let mut largest = 0;
    for line in 0..lines.lines {
        let mut at = 0;
        while at + RUN <= lines.len {
            // SAFETY: the caller's promises, of elements that exist.
            let of_run = unsafe { run::<Acc, C, RUN>(lines, line, at, RUN) };
            largest = largest.max(of_run);
            at += RUN;
        }
        while at < lines.len {
            let count = SHORT_RUN.min(lines.len - at);
            // SAFETY: the same.
            let of_run = unsafe { run::<Acc, C, SHORT_RUN>(lines, line, at, count) };
            largest = largest.max(of_run);
            at += count;
        }
    }
    largest
}

/// Finishes `count` elements of a line.
///
/// # Safety
/// As [`finish`]; `count` is at most `R`.
#[inline(always)]
unsafe fn run<Acc: FinishedSum, C: Convert<Acc>, const R: usize>(
    lines: &Finish<Acc, C>,
    line: usize,
    at: usize,
    count: usize,
) -> u32 {
    let &Finish { alpha, beta, scales, bias, activation, .. } = lines;
    let sums = lines.sums.wrapping_add(line * lines.sums_line + at * lines.sums_element);
    // SAFETY: sums of this line.
    let mut values: [Acc; R] = unsafe { read(sums, lines.sums_element, count) };
    let mut factors = [alpha; R];
    if !scales.lines.is_null() || !scales.elements.is_null() {
        // SAFETY: the caller's promise.
        let of_line = unsafe { number(scales.lines, line, Acc::ONE) };
        // SAFETY: the same.
        let of_elements: [Acc; R] = unsafe { numbers(scales.elements, at, count, Acc::ONE) };
        for (factor, of_element) in factors.iter_mut().zip(of_elements) {
            *factor = match lines.line_first {
                true => alpha.mul(of_line).mul(of_element),
                false => alpha.mul(of_element).mul(of_line),
            };
        }
    }
    if beta == Acc::ZERO {
        for (value, factor) in values.iter_mut().zip(factors) {
            *value = epilogue(factor, *value, Acc::ZERO, || Acc::ZERO);
        }
    } else {
        let old = lines.old.wrapping_add(line * lines.old_line + at * lines.old_element);
        // SAFETY: elements of this line of C, which is read since beta is not zero.
        let old: [C; R] = unsafe { read(old, lines.old_element, count) };
        for ((value, factor), old) in values.iter_mut().zip(factors).zip(old) {
            *value = epilogue(factor, *value, beta, || old.widen());
        }
    }
    if !bias.lines.is_null() {
        // SAFETY: the caller's promise.
        let of_line = unsafe { number(bias.lines, line, C::ZERO) }.widen();
        for value in &mut values {
            *value = value.add(of_line);
        }
    }
    if !bias.elements.is_null() {
        // SAFETY: the caller's promise.
        let of_elements: [C; R] = unsafe { numbers(bias.elements, at, count, C::ZERO) };
        for (value, of_element) in values.iter_mut().zip(of_elements) {
            *value = value.add(of_element.widen());
        }
    }
    Acc::activate(&mut values, activation);
    let stored = values.map(C::narrow);
    let mut largest = 0;
    if lines.amax {
        for &value in &stored[..count] {
            largest = largest.max(value.widen().magnitude_bits());
        }
    }
    let d = lines.d.wrapping_add(line * lines.d_ld + at);
    if count == R {
        // SAFETY: as many elements of this line of D; an array asks for no more alignment than its elements.
        unsafe { d.cast::<[C; R]>().write(stored) };
    } else {
        for (index, &value) in stored[..count].iter().enumerate() {
            // SAFETY: an element of this line of D.
            unsafe { d.wrapping_add(index).write(value) };
        }
    }
    largest
}

/// Numbers that are so far apart; zeros behind the last.
///
/// # Safety
/// They can be read; `count` is at most `R`.
#[inline(always)]
unsafe fn read<T: Element, const R: usize>(from: *const T, apart: usize, count: usize) -> [T; R] {
    if apart == 1 && count == R {
        // SAFETY: the caller's promise; an array asks for no more alignment than its elements.
        return unsafe { from.cast::<[T; R]>().read() };
    }
    let mut values = [T::ZERO; R];
    for (index, value) in values[..count].iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *value = unsafe { from.wrapping_add(index * apart).read() };
    }
    values
}

/// The number of a line, if there is one for each.
///
/// # Safety
/// It can be read.
#[inline(always)]
unsafe fn number<T: Element>(from: *const T, line: usize, absent: T) -> T {
    if from.is_null() {
        return absent;
    }
    // SAFETY: the caller's promise.
    unsafe { from.wrapping_add(line).read() }
}

/// The numbers of some elements of a line, if there is one for each.
///
/// # Safety
/// They can be read; `count` is at most `R`.
#[inline(always)]
unsafe fn numbers<T: Element, const R: usize>(
    from: *const T,
    at: usize,
    count: usize,
    absent: T,
) -> [T; R] {
    if from.is_null() {
        return [absent; R];
    }
    // SAFETY: the caller's promise.
    unsafe { read(from.wrapping_add(at), 1, count) }
}
