//! Complex products in matrix units: as real products of operands that are written out.
//!
//! The real product that a complex one is, see [`crate::complex`], has A's elements as squares of two by two. What
//! packs panels for matrix units reads real operands of any strides, but no such squares: so they are written to
//! memory of the product's own, some rows of A at a time, and B where its real and imaginary parts do not lie side by
//! side along k already. C is the caller's.
//!
//! The sums are those of the real product, whichever units compute it: where matrix units leave a part to vector units,
//! it has the bits of complex products in these.

use std::sync::atomic::AtomicUsize;

use crate::context::CpuContext;
use crate::error::Error;
use crate::field::{Complex, Factor};
use crate::gemm::threads_for;
use crate::kernels::OwnSums;
use crate::parts::Parts;
use crate::product::Product;
use crate::threads::tickets;
use crate::types::PackedTypes;
use crate::units::CpuUnits;
use crate::view::ViewMut;
use crate::way::{self, Way};

/// Bytes of A written out at least, where there are as many: a block of rows for which B is packed once.
const WRITTEN_OUT: usize = 256 << 20;
/// Rows of A that are written out at least.
const LEAST_ROWS: usize = 64;
/// Columns that a thread writes at a time, and rows of these: where a row is contiguous, its lines are still in the L1
/// when the next column is read.
const COLUMNS_AT_ONCE: usize = 16;
const ROWS_AT_ONCE: usize = 64;

/// Whether tiles compute a complex product of that m, n and k.
#[inline]
pub(crate) fn suits<T: PackedTypes>(
    (m, n, k): (usize, usize, usize),
    context: &CpuContext,
) -> bool {
    let units = context.units();
    let asked_for = matches!(units, CpuUnits::ExactRounded | CpuUnits::Tiles);
    let size = (m.saturating_mul(2), n, k.saturating_mul(2));
    (asked_for || T::TILES_PAY_FOR_PARTS) && way::in_tiles::<T>(units, size, context)
}

/// `C = alpha * A * B + beta * C` of a C with contiguous columns, k at least 1 and C not empty.
///
/// # Errors
/// [`Error::OutOfMemory`], before anything was written.
pub(crate) fn multiply<T: OwnSums + Parts + PackedTypes>(
    way: Way,
    alpha: T,
    a: Factor<'_, Complex<T>>,
    b: Factor<'_, Complex<T>>,
    beta: T,
    c: &mut ViewMut<'_, Complex<T>>,
    context: &CpuContext,
) -> Result<(), Error> {
    let (m, n, k) = (c.rows(), c.cols(), a.view.cols());
    let bytes = WRITTEN_OUT.max((m + n).saturating_mul(k).saturating_mul(size_of::<[T; 2]>()));
    multiply_within(bytes, way, (alpha, a, b, beta), c, context)
}

/// The same with a limit on what is written out of A.
///
/// # Errors
/// As [`multiply`].
fn multiply_within<T: OwnSums + Parts + PackedTypes>(
    bytes: usize,
    way: Way,
    (alpha, a, b, beta): (T, Factor<'_, Complex<T>>, Factor<'_, Complex<T>>, T),
    c: &mut ViewMut<'_, Complex<T>>,
    context: &CpuContext,
) -> Result<(), Error> {
    let (m, n, k) = (c.rows(), c.cols(), a.view.cols());
    let threads = threads_for((2 * m, n, 2 * k), context);
    let rows = (bytes / (2 * k * size_of::<[T; 2]>())).max(LEAST_ROWS).min(m);
    let spare = context.spare();
    let (b_along, b_apart) = b.view.strides();
    let b_is_ready = b_along == 1 && !b.conjugated;
    let room = if b_is_ready { 0 } else { n.saturating_mul(k) };
    let of_b = spare.take::<[T; 2]>(room)?;
    let of_a = spare.take::<[T; 2]>(rows.saturating_mul(k).saturating_mul(2))?;
    if !b_is_ready {
        // SAFETY: room for each column of B, which nobody else uses.
        unsafe { write_out(b, (of_b.as_mut_ptr(), k), Form::AsItIs, context, threads) };
    }
    let (from_b, b_col) = match b_is_ready {
        true => (b.view.as_ptr().cast(), b_apart),
        false => (of_b.as_mut_ptr::<T>().cast_const(), k),
    };
    let ldc = 2 * c.layout().ld;
    for first in (0..m).step_by(rows) {
        let rows = rows.min(m - first);
        let part = a.part(first..first + rows, 0..k);
        // SAFETY: room for two columns of as many rows for each column of A, which nobody else uses.
        unsafe { write_out(part, (of_a.as_mut_ptr(), 2 * rows), Form::Squares, context, threads) };
        let product = Product::<T> {
            m: 2 * rows,
            n,
            k: 2 * k,
            alpha,
            beta,
            a: of_a.as_mut_ptr::<T>().cast_const(),
            a_row: 1,
            a_col: 2 * rows,
            b: from_b,
            b_row: 1,
            b_col: 2 * b_col,
            c: c.as_mut_ptr().cast::<T>().wrapping_add(2 * first),
            ldc,
            swapped: false,
            completion: None,
        };
        // SAFETY: the operands were written out or are those of the views, whose sizes fit together; C is a view that
        // nobody else has.
        let done = unsafe { way::multiply(&product, way, context, threads) };
        if let Err(error) = done {
            if first == 0 {
                return Err(error);
            }
            // Rows before these are written already.
            // SAFETY: as above.
            unsafe { T::multiply_anyway(&product, context, threads) };
        }
    }
    for buffer in [of_a, of_b] {
        spare.give_back(buffer, context.threads());
    }
    Ok(())
}

/// How a matrix is written out.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// Its columns, the real part of each element before the imaginary one.
    AsItIs,
    /// Each of its columns, and behind it the same times the imaginary unit.
    Squares,
}

/// Where a matrix is written to.
struct To<T>(*mut [T; 2]);

// SAFETY: the memory outlives the threads, and tickets decide who writes which of its columns.
unsafe impl<T> Sync for To<T> {}

impl<T> To<T> {
    fn get(&self) -> *mut [T; 2] {
        self.0
    }
}

/// Writes out a matrix, conjugated where it is to be. From each of its columns to the next it is `apart` elements.
///
/// # Safety
/// The memory has room for its columns, and nobody else uses it meanwhile.
unsafe fn write_out<T: Parts>(
    from: Factor<'_, Complex<T>>,
    (to, apart): (*mut [T; 2], usize),
    form: Form,
    context: &CpuContext,
    threads: usize,
) {
    let (rows, cols) = (from.view.rows(), from.view.cols());
    let source = Source { from: from.view.as_ptr().cast(), strides: from.view.strides() };
    let to = To(to);
    let next = AtomicUsize::new(0);
    let count = cols.div_ceil(COLUMNS_AT_ONCE);
    let shared = (&source, &to);
    context.run_on(threads.min(count), || {
        let (source, to) = shared;
        for ticket in tickets(&next, count) {
            let cols = ticket * COLUMNS_AT_ONCE..cols.min((ticket + 1) * COLUMNS_AT_ONCE);
            let to = |col: usize| to.get().wrapping_add(col * apart);
            let columns = match from.conjugated {
                true => Source::columns::<true>,
                false => Source::columns::<false>,
            };
            // SAFETY: columns that exist, and the caller's memory for them; no other thread has this ticket.
            unsafe { columns(source, cols, rows, form, &to) };
        }
    });
}

/// A matrix as pairs of parts.
struct Source<T> {
    from: *const [T; 2],
    strides: (usize, usize),
}

// SAFETY: it is only read, and outlives the threads.
unsafe impl<T> Sync for Source<T> {}

impl<T: Parts> Source<T> {
    /// Writes some columns to where `to` says.
    ///
    /// # Safety
    /// They exist, with that many rows, and can be read; there is memory for them and, of squares, for as many more
    /// elements behind each, which nobody else uses.
    unsafe fn columns<const CONJUGATED: bool>(
        &self,
        cols: std::ops::Range<usize>,
        rows: usize,
        form: Form,
        to: &dyn Fn(usize) -> *mut [T; 2],
    ) {
        let Self { from, strides: (along, apart) } = *self;
        for first in (0..rows).step_by(ROWS_AT_ONCE) {
            let end = rows.min(first + ROWS_AT_ONCE);
            for col in cols.clone() {
                let (from, to) = (from.wrapping_add(col * apart), to(col));
                for row in first..end {
                    // SAFETY: an element that exists.
                    let [re, im] = unsafe { from.wrapping_add(row * along).read() };
                    let im = if CONJUGATED { -im } else { im };
                    // SAFETY: its place in the column.
                    unsafe { to.wrapping_add(row).write([re, im]) };
                    if form == Form::Squares {
                        // SAFETY: its place in the column behind.
                        unsafe { to.wrapping_add(rows + row).write([-im, re]) };
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use gemm_spec::Layout;

    use super::*;
    use crate::gemm_views::plain;
    use crate::units::CpuUnits;
    use crate::view::View;

    /// Complex numbers whose products and sums are exact.
    fn drawn<T: From<i8>>(count: usize, seed: u64) -> Vec<Complex<T>> {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            T::from((state >> 56).to_le_bytes()[0].cast_signed() / 8)
        };
        (0..count).map(|_| Complex::new(next(), next())).collect()
    }

    /// Products of every storage order and conjugation, by tiles or their model and by what the context has.
    fn products_are_exact<T>(ways: &[Way])
    where
        T: OwnSums + Parts + PackedTypes + From<i8>,
        Complex<T>: crate::Field<Real = T>,
    {
        let (m, n, k) = (70, 9, 35);
        let (alpha, beta) = (T::from(2), T::from(-3));
        let context = CpuContext::new(NonZeroUsize::new(2)).expect("threads start");
        let context = context.with_units(CpuUnits::All);
        let (a, b, c) = (drawn::<T>(m * k, 1), drawn::<T>(k * n, 2), drawn::<T>(m * n, 3));
        for case in 0..16 {
            let layout = |rows: usize, cols: usize, bit: u32| match case >> bit & 1 {
                0 => Layout::col_major(rows),
                _ => Layout::row_major(cols),
            };
            let a = Factor {
                view: View::new(&a, m, k, layout(m, k, 0)).expect("it fits"),
                conjugated: case >> 2 & 1 == 1,
            };
            let b = Factor {
                view: View::new(&b, k, n, layout(k, n, 1)).expect("it fits"),
                conjugated: case >> 3 & 1 == 1,
            };
            let mut expected = c.clone();
            let view = ViewMut::new(&mut expected, m, n, Layout::col_major(m)).expect("it fits");
            plain(Complex::new(alpha, T::ZERO), a, b, Complex::new(beta, T::ZERO), view);
            // All rows at once, and in two blocks.
            for (&way, bytes) in ways.iter().flat_map(|way| [(way, 1 << 20), (way, 0)]) {
                let mut found = c.clone();
                let mut view =
                    ViewMut::new(&mut found, m, n, Layout::col_major(m)).expect("it fits");
                multiply_within(bytes, way, (alpha, a, b, beta), &mut view, &context)
                    .expect("there is memory");
                assert!(found == expected, "case {case}, {bytes} bytes");
            }
        }
    }

    #[test]
    fn every_order_and_conjugation_has_its_product() {
        let ways = [Way::Units(CpuUnits::Vector), Way::Tiles { model: true }];
        products_are_exact::<f32>(&ways);
        products_are_exact::<f64>(&ways);
    }

    #[test]
    fn instructions_have_the_bits_of_the_model() {
        if let Err(reason) = crate::matrix_units() {
            eprintln!("not run: {reason}");
            return;
        }
        products_are_exact::<f32>(&[Way::Tiles { model: false }]);
        products_are_exact::<f64>(&[Way::Tiles { model: false }]);
    }
}
