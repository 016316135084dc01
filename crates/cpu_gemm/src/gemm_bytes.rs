//! Products of bytes with and without a sign, less their zero points:
//! `C = alpha * (A - a0) * (B - b0) + beta * C` in 32 bits.
//!
//! Matrix units multiply bytes with and without a sign. Vector units multiply signed ones: others are copied with 128
//! taken off, which turns the top bit over. What that and the zero points add to a sum is the same along a row of A or a
//! column of B:
//!
//! ```text
//!   sum of (a' - a0') * (b' - b0')  =  sum of a' * b'  -  b0' * sum of a'  -  a0' * sum of b'  +  k * a0' * b0'
//! ```
//!
//! It is added by the thread that has computed a part of C, while that is in its cache. All of it is exact modulo 2^32.

use std::ops::Range;
use std::sync::atomic::AtomicUsize;

use gemm_spec::{Layout, Order};

use crate::buffer::Buffer;
use crate::byte_tiles::{ByteTiles, Unsigned};
use crate::completion::Completion;
use crate::context::CpuContext;
use crate::error::Error;
use crate::gemm::{Parts, threads_for};
use crate::gemm_typed::product;
use crate::product::Product;
use crate::threads::tickets;
use crate::thresholds::PARTS_PER_THREAD;
use crate::view::{View, ViewMut};
use crate::way::{self, Way};

/// A factor of bytes, and the number that stands for zero in it.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'a> {
    bytes: Signs<'a>,
    zero_point: i32,
}

#[derive(Clone, Copy, Debug)]
enum Signs<'a> {
    Signed(View<'a, i8>),
    Unsigned(View<'a, u8>),
}

impl<'a> From<View<'a, i8>> for Bytes<'a> {
    fn from(view: View<'a, i8>) -> Self {
        Self { bytes: Signs::Signed(view), zero_point: 0 }
    }
}

impl<'a> From<View<'a, u8>> for Bytes<'a> {
    fn from(view: View<'a, u8>) -> Self {
        Self { bytes: Signs::Unsigned(view), zero_point: 0 }
    }
}

impl Bytes<'_> {
    /// The same bytes, each of which stands for itself less that number.
    #[must_use]
    pub fn with_zero_point(self, zero_point: i32) -> Self {
        Self { zero_point, ..self }
    }

    /// The transposed matrix.
    #[must_use]
    pub fn transposed(self) -> Self {
        let bytes = match self.bytes {
            Signs::Signed(view) => Signs::Signed(view.transposed()),
            Signs::Unsigned(view) => Signs::Unsigned(view.transposed()),
        };
        Self { bytes, ..self }
    }

    fn is_unsigned(&self) -> bool {
        matches!(self.bytes, Signs::Unsigned(_))
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> usize {
        match &self.bytes {
            Signs::Signed(view) => view.rows(),
            Signs::Unsigned(view) => view.rows(),
        }
    }

    /// How many columns there are.
    #[must_use]
    pub fn cols(&self) -> usize {
        match &self.bytes {
            Signs::Signed(view) => view.cols(),
            Signs::Unsigned(view) => view.cols(),
        }
    }

    /// What an element stands for, modulo 2^32.
    #[must_use]
    pub fn get(&self, row: usize, col: usize) -> i32 {
        let byte: i32 = match &self.bytes {
            Signs::Signed(view) => view.get(row, col).into(),
            Signs::Unsigned(view) => view.get(row, col).into(),
        };
        byte.wrapping_sub(self.zero_point)
    }
}

/// `C = alpha * (A - a0) * (B - b0) + beta * C` of bytes with or without a sign and their zero points, exact modulo 2^32,
/// and `then` of all elements of C, run by run, on the thread that has just stored them. A run is a part of a line of C,
/// of a column where C is column-major, else of a row: `then` is told the line, the place of the first element in it,
/// and the elements. No element is in two runs.
///
/// With `beta == 0` C is not read, with `alpha == 0` neither A nor B is. Bytes without a sign take a copy of that factor.
/// Where the system refuses memory the product is computed without, by a plain loop.
///
/// # Errors
/// [`Error::Sizes`] where the sizes do not fit together; C is then unchanged.
pub fn gemm_bytes_then(
    alpha: i32,
    a: Bytes<'_>,
    b: Bytes<'_>,
    beta: i32,
    c: ViewMut<'_, i32>,
    context: &CpuContext,
    then: impl Fn(usize, usize, &mut [i32]) + Sync,
) -> Result<(), Error> {
    let sizes = ((a.rows(), a.cols()), (b.rows(), b.cols()), (c.rows(), c.cols()));
    let (of_a, of_b, of_c) = sizes;
    if (of_a.0, of_b.0, of_b.1) != (of_c.0, of_a.1, of_c.1) {
        return Err(Error::Sizes { a: of_a, b: of_b, c: of_c });
    }
    if c.rows() == 0 || c.cols() == 0 {
        return Ok(());
    }
    let steps = if alpha == 0 { 0 } else { a.cols() };
    let size = (c.rows(), c.cols(), steps);
    let tiles = ByteTiles::of(size, context, threads_for(size, context));
    multiply((alpha, beta), (a, b, steps), c, tiles, context, &then);
    Ok(())
}

/// The first steps of the product of factors that fit together, by tiles if there are some.
fn multiply(
    scalars: (i32, i32),
    (a, b, steps): (Bytes<'_>, Bytes<'_>, usize),
    c: ViewMut<'_, i32>,
    tiles: Option<ByteTiles>,
    context: &CpuContext,
    then: &(impl Fn(usize, usize, &mut [i32]) + Sync),
) {
    let (a, b, mut c, swapped) = match c.layout().order {
        Order::ColMajor => (a, b, c, false),
        Order::RowMajor => (b.transposed(), a.transposed(), c.transposed(), true),
    };
    // An error comes before anything is written.
    let is_done =
        steps > 0 && in_columns(scalars, (a, b), (&mut c, swapped), tiles, context, then).is_ok();
    if !is_done {
        by_definition(scalars, (&a, &b, steps), &mut c, then);
    }
}

/// The first steps of the product in no memory but that of the operands.
fn by_definition(
    (alpha, beta): (i32, i32),
    (a, b, steps): (&Bytes<'_>, &Bytes<'_>, usize),
    c: &mut ViewMut<'_, i32>,
    then: &(impl Fn(usize, usize, &mut [i32]) + Sync),
) {
    for col in 0..c.cols() {
        for row in 0..c.rows() {
            let sum = (0..steps)
                .fold(0i32, |sum, p| sum.wrapping_add(a.get(row, p).wrapping_mul(b.get(p, col))));
            let old = if beta == 0 { 0 } else { beta.wrapping_mul(c.get(row, col)) };
            let mut value = [alpha.wrapping_mul(sum).wrapping_add(old)];
            then(col, row, &mut value);
            c.set(row, col, value[0]);
        }
    }
}

/// The product of factors that fit together, k being at least 1 and the columns of C contiguous.
///
/// # Errors
/// [`Error::OutOfMemory`], before anything was written.
fn in_columns(
    (alpha, beta): (i32, i32),
    (a, b): (Bytes<'_>, Bytes<'_>),
    (c, swapped): (&mut ViewMut<'_, i32>, bool),
    tiles: Option<ByteTiles>,
    context: &CpuContext,
    then: &(impl Fn(usize, usize, &mut [i32]) + Sync),
) -> Result<(), Error> {
    let (m, n, k) = (c.rows(), c.cols(), a.cols());
    let (a, b) = (Factor::new(a, tiles, context)?, Factor::new(b, tiles, context)?);
    // Modulo 2^32, as all that follows.
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "modulo 2^32")]
    let of_both =
        alpha.wrapping_mul(k as i32).wrapping_mul(a.zero_point).wrapping_mul(b.zero_point);
    let of_rows = LineSums::new(a.bytes, (alpha, of_both), b.zero_point, context)?;
    let of_cols = LineSums::new(b.bytes.transposed(), (alpha, 0), a.zero_point, context)?;
    let ld = c.layout().ld;
    let at = Parts(c.as_mut_ptr());
    let told = |rows: Range<usize>, cols: Range<usize>| {
        for col in cols {
            // SAFETY: elements of C that are complete and that nobody else uses any more; they are within the view,
            // which outlives the product.
            let run = unsafe { at.part(rows.start + col * ld, rows.len()) };
            let of_col = of_cols.get(col);
            match of_rows.part(rows.clone()) {
                Some(of_rows) => {
                    for (sum, of_row) in run.iter_mut().zip(of_rows) {
                        *sum = sum.wrapping_add(of_row.wrapping_add(of_col));
                    }
                }
                None if of_col != 0 => {
                    run.iter_mut().for_each(|sum| *sum = sum.wrapping_add(of_col));
                }
                None => {}
            }
            then(col, rows.start, run);
        }
    };
    let completion = Some(Completion::of(&told));
    let (of_a, of_b) = (a.as_signed(), b.as_signed());
    let product =
        Product::<i8> { completion, ..product::<i8>(alpha, of_a, of_b, beta, c, swapped) };
    let done = if let Some(tiles) = tiles {
        let unsigned = Unsigned { a: a.bytes.is_unsigned(), b: b.bytes.is_unsigned() };
        // SAFETY: the views hold the elements of the product, which fit together; C is a view that nobody else has, and
        // whoever is told of a part of it is told once that it is complete.
        unsafe { tiles.multiply(&product, unsigned, context) }
    } else {
        let threads = threads_for((m, n, k), context);
        // SAFETY: as above; no byte is without a sign.
        unsafe { way::multiply(&product, Way::Units(context.units()), context, threads) }
    };
    for buffer in [a.copy, b.copy].into_iter().flatten() {
        context.spare().give_back(buffer, context.threads());
    }
    done
}

/// A factor as units multiply it.
struct Factor<'a> {
    /// Without their zero point.
    bytes: Bytes<'a>,
    zero_point: i32,
    /// Where the bytes are, if they are no longer the caller's.
    copy: Option<Buffer>,
}

impl<'a> Factor<'a> {
    /// As it is for tiles, else as bytes with a sign.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    fn new(
        bytes: Bytes<'a>,
        tiles: Option<ByteTiles>,
        context: &CpuContext,
    ) -> Result<Self, Error> {
        let zero_point = bytes.zero_point;
        match bytes.bytes {
            Signs::Unsigned(view) if tiles.is_none() => {
                let (copy, layout) = signed_copy(view, context)?;
                // SAFETY: the copy has the elements of the view, and is kept beside what reads it.
                let view = unsafe {
                    View::<i8>::from_raw(copy.as_mut_ptr(), view.rows(), view.cols(), layout)
                };
                let zero_point = zero_point.wrapping_sub(128);
                Ok(Self { bytes: view.into(), zero_point, copy: Some(copy) })
            }
            Signs::Signed(_) | Signs::Unsigned(_) => {
                Ok(Self { bytes: bytes.with_zero_point(0), zero_point, copy: None })
            }
        }
    }

    /// The bytes as if all had a sign.
    fn as_signed(&self) -> View<'_, i8> {
        match self.bytes.bytes {
            Signs::Signed(view) => view,
            Signs::Unsigned(view) => {
                let (rows, cols, layout) = (view.rows(), view.cols(), view.layout());
                // SAFETY: the same elements, whose bits are numbers of this type too, borrowed as long.
                unsafe { View::from_raw(view.as_ptr().cast(), rows, cols, layout) }
            }
        }
    }
}

/// Bytes less 128, tightly packed in the order in which they are.
///
/// # Errors
/// [`Error::OutOfMemory`].
fn signed_copy(view: View<'_, u8>, context: &CpuContext) -> Result<(Buffer, Layout), Error> {
    let (order, ld) = (view.layout().order, view.layout().ld);
    let (lines, line) = match order {
        Order::RowMajor => (view.rows(), view.cols()),
        Order::ColMajor => (view.cols(), view.rows()),
    };
    let copy = context.spare().take::<u8>(lines.saturating_mul(line))?;
    let to = Parts(copy.as_mut_ptr::<u8>());
    let bytes = lines * line;
    let threads = context.threads().min(bytes / BYTES_PER_THREAD).max(1);
    let parts = if threads == 1 { 1 } else { (threads * PARTS_PER_THREAD).min(lines) };
    let next = AtomicUsize::new(0);
    context.run_on(threads, || {
        for part in tickets(&next, parts) {
            for index in lines * part / parts..lines * (part + 1) / parts {
                let from = view.as_ptr().wrapping_add(index * ld);
                // SAFETY: a line of the view, whose elements lie side by side.
                let from = unsafe { std::slice::from_raw_parts(from, line) };
                // SAFETY: its place in the copy, which has room for all lines; no two parts have a line in common.
                let to = unsafe { to.part(index * line, line) };
                for (to, byte) in to.iter_mut().zip(from) {
                    *to = byte ^ 0x80;
                }
            }
        }
    });
    Ok((copy, Layout { order, ld: line }))
}

/// Bytes that are worth another thread.
const BYTES_PER_THREAD: usize = 1 << 18;

/// What is added to all elements of a line of C; nothing where that is zero for all lines.
struct LineSums(Option<Vec<i32>>);

impl LineSums {
    /// `constant - alpha * zero_point * sum` of each row of a factor.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    fn new(
        rows: Bytes<'_>,
        (alpha, constant): (i32, i32),
        zero_point: i32,
        context: &CpuContext,
    ) -> Result<Self, Error> {
        let factor = alpha.wrapping_mul(zero_point).wrapping_neg();
        if factor == 0 && constant == 0 {
            return Ok(Self(None));
        }
        let (count, k) = (rows.rows(), rows.cols());
        let mut sums = filled(constant, count)?;
        let ones = filled(1i8, k)?;
        let ones = View::new(&ones, k, 1, Layout::col_major(k)).expect(FITS);
        let to = ViewMut::new(&mut sums, count, 1, Layout::col_major(count)).expect(FITS);
        gemm_bytes_then(factor, rows, ones.into(), 1, to, context, |_, _, _| ()).expect(FITS);
        Ok(Self(Some(sums)))
    }

    fn get(&self, line: usize) -> i32 {
        self.0.as_ref().map_or(0, |sums| sums[line])
    }

    fn part(&self, lines: Range<usize>) -> Option<&[i32]> {
        self.0.as_deref().map(|sums| &sums[lines])
    }
}

const FITS: &str = "invariant: a vector of a number for each line";

/// That many times a value.
///
/// # Errors
/// [`Error::OutOfMemory`].
fn filled<T: Clone>(value: T, len: usize) -> Result<Vec<T>, Error> {
    let mut values = Vec::new();
    let bytes = len.saturating_mul(size_of::<T>());
    values.try_reserve_exact(len).map_err(|_| Error::OutOfMemory { bytes })?;
    values.resize(len, value);
    Ok(values)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    /// Bytes of all values, in another order for each seed.
    fn drawn(len: usize, seed: usize) -> Vec<u8> {
        let byte = |at: usize| (at * 167 + seed * 89 + at / 251).to_le_bytes()[0];
        (0..len).map(byte).collect()
    }

    fn number(at: usize) -> i32 {
        i32::try_from(at).expect("a small one")
    }

    #[test]
    fn all_signs_zero_points_and_orders_are_exact_and_every_run_is_told_once() {
        let context = CpuContext::new(NonZeroUsize::new(3)).expect("threads start");
        for (m, n, k) in [(1, 1, 1), (3, 70, 33), (67, 35, 70), (130, 33, 130), (5, 4, 0)] {
            let layouts = |rows, cols| [Layout::row_major(cols + 3), Layout::col_major(rows + 2)];
            for pick in 0..16 {
                let choice = |bit: usize| (pick >> bit) & 1;
                let len = |layout: Layout, rows, cols| layout.required_len(rows, cols).unwrap();
                let of_a = layouts(m, k)[choice(0)];
                let of_b = layouts(k, n)[choice(1)];
                let of_c = layouts(m, n)[choice(2)];
                let (a, b) = (drawn(len(of_a, m, k), pick), drawn(len(of_b, k, n), pick + 5));
                let signed = |bytes: &[u8]| -> Vec<i8> {
                    bytes.iter().map(|byte| byte.cast_signed()).collect()
                };
                let (a_signed, b_signed) = (signed(&a), signed(&b));
                let factors = [(false, false), (false, true), (true, false), (true, true)];
                for (index, (a_has, b_has)) in factors.into_iter().enumerate() {
                    let zero = |at: usize| [0, 128, -7, 1_000_000_007][(at + pick + index) % 4];
                    let a = match a_has {
                        true => Bytes::from(View::new(&a_signed, m, k, of_a).unwrap()),
                        false => Bytes::from(View::new(&a, m, k, of_a).unwrap()),
                    };
                    let b = match b_has {
                        true => Bytes::from(View::new(&b_signed, k, n, of_b).unwrap()),
                        false => Bytes::from(View::new(&b, k, n, of_b).unwrap()),
                    };
                    let (a, b) = (a.with_zero_point(zero(0)), b.with_zero_point(zero(1)));
                    let (alpha, beta) = [(1, 0), (-3, 2), (0, 5), (7, 1)][(pick / 4 + index) % 4];
                    let old = vec![41i32; len(of_c, m, n)];
                    let mut wanted = old.clone();
                    let told = AtomicUsize::new(0);
                    let then = |line: usize, first: usize, run: &mut [i32]| {
                        told.fetch_add(run.len(), std::sync::atomic::Ordering::Relaxed);
                        for (at, value) in (first..).zip(run) {
                            *value = value.wrapping_add(number(line * 1000 + at));
                        }
                    };
                    let mut found = old.clone();
                    let view = ViewMut::new(&mut found, m, n, of_c).unwrap();
                    gemm_bytes_then(alpha, a, b, beta, view, &context, then).unwrap();
                    assert_eq!(told.load(std::sync::atomic::Ordering::Relaxed), m * n);
                    let mut by_model = old;
                    let view = ViewMut::new(&mut by_model, m, n, of_c).unwrap();
                    let steps = if alpha == 0 { 0 } else { k };
                    let model = ByteTiles::model();
                    multiply((alpha, beta), (a, b, steps), view, model, &context, &then);
                    assert_eq!(told.into_inner(), 2 * m * n);
                    for row in 0..m {
                        for col in 0..n {
                            let sum = (0..k).fold(0i32, |sum, p| {
                                sum.wrapping_add(a.get(row, p).wrapping_mul(b.get(p, col)))
                            });
                            let at = match of_c.order {
                                Order::RowMajor => row * 1000 + col,
                                Order::ColMajor => col * 1000 + row,
                            };
                            let to = &mut wanted[of_c.index(row, col)];
                            *to = to.wrapping_mul(beta).wrapping_add(alpha.wrapping_mul(sum));
                            *to = to.wrapping_add(number(at));
                        }
                    }
                    assert_eq!(found, wanted, "{m} {n} {k} {pick} {index}");
                    assert_eq!(by_model, wanted, "model: {m} {n} {k} {pick} {index}");
                }
            }
        }
    }

    #[test]
    fn without_memory_a_product_is_the_same() {
        let (m, n, k) = (4, 5, 6);
        let (a, b) = (drawn(m * k, 1), drawn(k * n, 2));
        let a = Bytes::from(View::new(&a, m, k, Layout::row_major(k)).unwrap()).with_zero_point(3);
        let b = Bytes::from(View::new(&b, k, n, Layout::row_major(n)).unwrap());
        let layout = Layout::col_major(m);
        let [mut found, mut wanted] = [vec![9; m * n], vec![9; m * n]];
        let mut c = ViewMut::new(&mut found, m, n, layout).unwrap();
        by_definition((2, -1), (&a, &b, k), &mut c, &|_, _, _| ());
        let c = ViewMut::new(&mut wanted, m, n, layout).unwrap();
        gemm_bytes_then(2, a, b, -1, c, &CpuContext::alone(), |_, _, _| ()).unwrap();
        assert_eq!(found, wanted);
        let c = ViewMut::new(&mut wanted, m, n, layout).unwrap();
        let refused = gemm_bytes_then(1, b, a, 0, c, &CpuContext::alone(), |_, _, _| ());
        assert!(matches!(refused, Err(Error::Sizes { .. })), "{refused:?}");
    }
}
