//! `D = activation((alpha * row_scale * column_scale) * A * B + beta * C + bias)` of views.
//!
//! Each part of D is finished by the thread that has computed its sums, when the last of them is stored: they are
//! still in its cache. See [`gemm_spec::fusion`] for what is computed, and [`mod@crate::finish`] for how.
//!
//! Sums are stored in D where D can hold them, else in memory of their own: where elements of D are narrower than
//! sums, and where a C that is D is still to be read beside sums that have no factors yet.

use std::ops::Range;
use std::ptr::null;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use gemm_spec::{Bias, Element, Epilogue, GemmTypes, Layout, Order};

use crate::completion::Completion;
use crate::context::CpuContext;
use crate::error::Error;
use crate::finish::{Along, Finish, FinishFn};
use crate::gemm::threads_for;
use crate::gemm_typed::{check_sizes, plain, product};
use crate::product::Product;
use crate::threads::tickets;
use crate::thresholds::PARTS_PER_THREAD;
use crate::types::CpuTypes;
use crate::view::{View, ViewMut};
use crate::way::{self, Way};

/// An epilogue and its numbers. What it does not have may be empty.
#[derive(Clone, Copy, Debug)]
pub struct EpilogueSlices<'a, C, Acc> {
    /// What is done.
    pub epilogue: Epilogue,
    /// The bias: m or n elements of D's type.
    pub bias: &'a [C],
    /// The factors of the rows: m numbers of the sums' type.
    pub row_scales: &'a [Acc],
    /// The factors of the columns: n numbers of the sums' type.
    pub column_scales: &'a [Acc],
}

impl<'a, C, Acc> EpilogueSlices<'a, C, Acc> {
    /// An epilogue of no numbers, such as an activation alone.
    #[must_use]
    pub const fn new(epilogue: Epilogue) -> Self {
        Self { epilogue, bias: &[], row_scales: &[], column_scales: &[] }
    }

    /// The same with a bias, one number for each row or each column.
    #[must_use]
    pub const fn with_bias(self, along: Bias, bias: &'a [C]) -> Self {
        let epilogue = Epilogue { bias: Some(along), ..self.epilogue };
        Self { epilogue, bias, ..self }
    }

    /// The same with a factor for each row.
    #[must_use]
    pub const fn with_row_scales(self, row_scales: &'a [Acc]) -> Self {
        Self { epilogue: self.epilogue.with_row_scales(), row_scales, ..self }
    }

    /// The same with a factor for each column.
    #[must_use]
    pub const fn with_column_scales(self, column_scales: &'a [Acc]) -> Self {
        Self { epilogue: self.epilogue.with_column_scales(), column_scales, ..self }
    }

    /// The same of the transposed product.
    fn transposed(self) -> Self {
        let Self { epilogue, row_scales, column_scales, .. } = self;
        let (row_scales, column_scales) = (column_scales, row_scales);
        Self { epilogue: epilogue.transposed(), row_scales, column_scales, ..self }
    }

    /// Checks that there is a number for each row and column of a product of m by n.
    fn check(&self, (m, n): (usize, usize)) -> Result<(), Error> {
        let Self { epilogue, bias, row_scales, column_scales } = *self;
        let of_bias = match epilogue.bias {
            Some(Bias::PerRow) => m,
            Some(Bias::PerColumn) => n,
            None => bias.len(),
        };
        let of = |asked: bool, wanted: usize, given: usize| if asked { wanted } else { given };
        for (name, len, wanted) in [
            ("bias has", bias.len(), of_bias),
            ("row scales have", row_scales.len(), of(epilogue.row_scales, m, row_scales.len())),
            (
                "column scales have",
                column_scales.len(),
                of(epilogue.column_scales, n, column_scales.len()),
            ),
        ] {
            if len != wanted {
                let reason = format!(
                    "the epilogue's {name} {len} elements, it must be {wanted} for a D of {m} x {n}"
                );
                return Err(Error::Epilogue { reason });
            }
        }
        Ok(())
    }
}

/// `D = activation((alpha * row_scale * column_scale) * A * B + beta * C + bias)` of views, on the threads of a context,
/// `scalars` being alpha and beta; C is D where none is given. Returns the largest magnitude of D where the epilogue asks for it.
///
/// The sums are those of [`gemm_typed`](crate::gemm_typed()) and are rounded once, at the end; exponentials have the
/// same bits on every CPU. With `beta == 0` C is not read, with `alpha == 0` neither A nor B is, whatever the scales are.
///
/// Where elements of D are narrower than sums, and where row or column scales meet a C that is D, the sums take memory
/// of their own, m by n of them, which the context keeps for the next product.
///
/// # Errors
/// [`Error::Sizes`] where the sizes do not fit together, [`Error::Epilogue`] where the types have no such epilogue or it
/// lacks numbers, [`Error::OutOfMemory`] where there is none for sums; D is then unchanged.
pub fn gemm_with_epilogue<T: CpuTypes>(
    scalars: (T::Acc, T::Acc),
    a: View<'_, T::A>,
    b: View<'_, T::B>,
    c: Option<View<'_, T::C>>,
    d: ViewMut<'_, T::C>,
    numbers: &EpilogueSlices<'_, T::C, T::Acc>,
    context: &CpuContext,
) -> Result<Option<f32>, Error> {
    check_sizes(&a, &b, &d)?;
    let sums = Sums::Product { a, b, way: Way::Units(context.units()) };
    run::<T>(scalars, sums, Rest { c, d, numbers: *numbers, swapped: false }, context)
}

/// The same of sums that are there already, the elements of `A * B`.
///
/// # Errors
/// As [`gemm_with_epilogue`].
pub fn finish<T: CpuTypes>(
    scalars: (T::Acc, T::Acc),
    sums: View<'_, T::Acc>,
    c: Option<View<'_, T::C>>,
    d: ViewMut<'_, T::C>,
    numbers: &EpilogueSlices<'_, T::C, T::Acc>,
    context: &CpuContext,
) -> Result<Option<f32>, Error> {
    let (of_sums, of_d) = ((sums.rows(), sums.cols()), (d.rows(), d.cols()));
    if of_sums != of_d {
        return Err(Error::Sizes { a: of_sums, b: of_sums, c: of_d });
    }
    let rest = Rest { c, d, numbers: *numbers, swapped: false };
    run::<T>(scalars, Sums::Given(sums), rest, context)
}

/// What the sums are.
enum Sums<'a, T: GemmTypes> {
    /// Those of a product, which is computed.
    Product { a: View<'a, T::A>, b: View<'a, T::B>, way: Way },
    /// These.
    Given(View<'a, T::Acc>),
}

/// C, where it is not D; D; and what is done.
struct Rest<'a, T: GemmTypes> {
    c: Option<View<'a, T::C>>,
    d: ViewMut<'a, T::C>,
    numbers: EpilogueSlices<'a, T::C, T::Acc>,
    /// Whether it is the transposed product.
    swapped: bool,
}

/// Checks what is given, and has D's columns contiguous.
///
/// # Errors
/// As [`gemm_with_epilogue`].
fn run<T: CpuTypes>(
    scalars: (T::Acc, T::Acc),
    sums: Sums<'_, T>,
    rest: Rest<'_, T>,
    context: &CpuContext,
) -> Result<Option<f32>, Error> {
    let Rest { c, d, numbers, .. } = &rest;
    let (m, n) = (d.rows(), d.cols());
    numbers.epilogue.check_in_host_memory(T::TYPES).map_err(|reason| Error::Epilogue { reason })?;
    numbers.check((m, n))?;
    if let Some((rows, cols)) = c.map(|c| (c.rows(), c.cols())).filter(|&c| c != (m, n)) {
        let reason = format!("C is {rows} x {cols}, it must be {m} x {n} as D is");
        return Err(Error::Epilogue { reason });
    }
    let amax = numbers.epilogue.amax;
    let largest = match d.layout().order {
        _ if m == 0 || n == 0 => 0,
        Order::ColMajor => with_columns::<T>(scalars, sums, rest, context)?,
        Order::RowMajor => {
            let sums = match sums {
                Sums::Product { a, b, way } => {
                    Sums::Product { a: b.transposed(), b: a.transposed(), way }
                }
                Sums::Given(sums) => Sums::Given(sums.transposed()),
            };
            let Rest { c, d, numbers, .. } = rest;
            let rest = Rest {
                c: c.map(View::transposed),
                d: d.transposed(),
                numbers: numbers.transposed(),
                swapped: true,
            };
            with_columns::<T::Transposed>(scalars, sums, rest, context)?
        }
    };
    Ok(amax.then_some(f32::from_bits(largest)))
}

/// The same with D's columns contiguous, D not being empty; the bits of the largest magnitude.
///
/// # Errors
/// [`Error::OutOfMemory`].
fn with_columns<T: CpuTypes>(
    (alpha, beta): (T::Acc, T::Acc),
    sums: Sums<'_, T>,
    rest: Rest<'_, T>,
    context: &CpuContext,
) -> Result<u32, Error> {
    let Rest { c, mut d, numbers, swapped } = rest;
    let (m, n, ld) = (d.rows(), d.cols(), d.layout().ld);
    let d = d.as_mut_ptr();
    let (old, (old_element, old_line)) = match &c {
        None => (d.cast_const(), (1, ld)),
        Some(c) => (c.as_ptr(), c.strides()),
    };
    let of = |asked: bool, numbers: &[T::Acc]| if asked { numbers.as_ptr() } else { null() };
    let bias_along = |along| match numbers.epilogue.bias {
        Some(own) if own == along => numbers.bias.as_ptr(),
        _ => null(),
    };
    let mut all = Finish {
        lines: n,
        len: m,
        sums: null(),
        sums_line: 0,
        sums_element: 1,
        old,
        old_line,
        old_element,
        d,
        d_ld: ld,
        alpha,
        beta,
        scales: Along {
            lines: of(numbers.epilogue.column_scales, numbers.column_scales),
            elements: of(numbers.epilogue.row_scales, numbers.row_scales),
        },
        line_first: swapped,
        bias: Along { lines: bias_along(Bias::PerColumn), elements: bias_along(Bias::PerRow) },
        activation: numbers.epilogue.activation,
        amax: numbers.epilogue.amax,
    };
    let (a, b, way) = match sums {
        Sums::Product { a, b, way } => (a, b, way),
        Sums::Given(sums) => {
            (all.sums, (all.sums_element, all.sums_line)) = (sums.as_ptr(), sums.strides());
            let work = Work::new(T::finish(context.isa()), all);
            // SAFETY: the views hold sums, C and D, which is a view that nobody else has; there are as many numbers as
            // rows and columns, by the checks of `run`.
            unsafe { work.finish_all(context) };
            return Ok(work.largest.into_inner());
        }
    };
    let meets_c = beta != T::Acc::ZERO;
    // Sums that have their factors already are only finished.
    let scaled = !T::ROUNDS && !numbers.epilogue.scales() && (c.is_none() || !meets_c);
    let apart = T::ROUNDS || !scaled && meets_c && c.is_none();
    let (own_alpha, own_beta) = if scaled {
        (all.alpha, all.beta) = (T::Acc::ONE, T::Acc::ZERO);
        (alpha, beta)
    } else {
        // With alpha zero A and B are not read, whatever the scales are.
        (if alpha == T::Acc::ZERO { alpha } else { T::Acc::ONE }, T::Acc::ZERO)
    };
    let memory = apart.then(|| context.spare().take::<T::Acc>(m.saturating_mul(n))).transpose()?;
    let (at, sums_ld) = match &memory {
        Some(memory) => (memory.as_mut_ptr(), m),
        // Elements that are not rounded are of the type of sums.
        None => (d.cast::<T::Acc>(), ld),
    };
    (all.sums, all.sums_line) = (at.cast_const(), sums_ld);
    // SAFETY: either memory for as many sums, or D, whose elements are sums then; nobody else has it while the view is
    // used, but who finishes parts of it that are complete.
    let mut sums = unsafe { ViewMut::from_raw(at, m, n, Layout::col_major(sums_ld)) };
    let work = Work::new(T::finish(context.isa()), all);
    // SAFETY: the sums of these rows and columns are stored, and nobody else uses them, or that part of D; the rest is
    // as above.
    let told = |rows: Range<usize>, cols: Range<usize>| unsafe { work.finish(rows, cols) };
    let completion = Some(Completion::of(&told));
    let product = Product::<T::Sums> {
        completion,
        ..product::<T::Sums>(own_alpha, a, b, own_beta, &mut sums, swapped)
    };
    let threads = threads_for((m, n, product.k), context);
    let is_nothing = product.k == 0 || alpha == T::Acc::ZERO;
    // SAFETY: the views hold the elements of the product, which fit together; the sums are this function's alone.
    let multiply = || unsafe { way::multiply(&product, way, context, threads) };
    // An error comes before anything is written.
    if is_nothing || multiply().is_err() {
        let (alpha, steps) = if is_nothing { (T::Acc::ZERO, 0) } else { (own_alpha, product.k) };
        plain::<T::Sums>(alpha, a, b, own_beta, sums, steps);
        // SAFETY: all sums are stored; the rest is as above.
        unsafe { work.finish_all(context) };
    }
    if let Some(memory) = memory {
        context.spare().give_back(memory, context.threads());
    }
    Ok(work.largest.into_inner())
}

/// What the threads share that finish parts of D.
struct Work<Acc, C> {
    function: FinishFn<Acc, C>,
    /// All of D.
    all: Finish<Acc, C>,
    /// The bits of the largest magnitude so far.
    largest: AtomicU32,
}

// SAFETY: the pointers are to memory that outlives the threads, and who calls `finish` promises that nobody else has
// that part of D.
unsafe impl<Acc: Sync, C: Sync> Sync for Work<Acc, C> {}

impl<Acc: Copy + Sync, C: Sync> Work<Acc, C> {
    fn new(function: FinishFn<Acc, C>, all: Finish<Acc, C>) -> Self {
        Self { function, all, largest: AtomicU32::new(0) }
    }

    /// Finishes those rows and columns.
    ///
    /// # Safety
    /// What the whole names is valid, see [`finish`](crate::finish::finish()); nobody else uses that part of sums and D.
    unsafe fn finish(&self, rows: Range<usize>, cols: Range<usize>) {
        let part = self.all.part(rows, cols);
        // SAFETY: the caller's promise; a context's instruction set is one that this CPU has.
        let largest = unsafe { (self.function)(&part) };
        self.largest.fetch_max(largest, Ordering::Relaxed);
    }

    /// Finishes all of D, with the threads of a context.
    ///
    /// # Safety
    /// As [`Self::finish`], of all rows and columns.
    unsafe fn finish_all(&self, context: &CpuContext) {
        let (m, n) = (self.all.len, self.all.lines);
        let threads = context.threads().min(m.saturating_mul(n) / ELEMENTS_PER_THREAD).max(1);
        let parts = if threads == 1 { 1 } else { threads * PARTS_PER_THREAD };
        let next = AtomicUsize::new(0);
        let by_columns = n >= parts;
        context.run_on(threads, || {
            for part in tickets(&next, parts) {
                let share = |all: usize| all * part / parts..all * (part + 1) / parts;
                let (rows, cols) = if by_columns { (0..m, share(n)) } else { (share(m), 0..n) };
                // SAFETY: the caller's promise; no two parts share an element.
                unsafe { self.finish(rows, cols) };
            }
        });
    }
}

/// Elements of D that are worth a thread, where their sums are there already: their memory takes longer than to wake
/// one. Not measured.
const ELEMENTS_PER_THREAD: usize = 1 << 16;

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use std::num::NonZeroUsize;

    use gemm_spec::{Activation, Convert, Problem, bf16};

    use super::*;
    use crate::gemm::gemm_in_tiles;

    /// A product by the model of tiles, whose parts are told as micro-tiles, has the sums that it has without an
    /// epilogue.
    fn in_tiles<T: CpuTypes>(a: impl Fn(usize) -> T::A, b: impl Fn(usize) -> T::B) {
        let context = CpuContext::new(NonZeroUsize::new(2)).expect("threads start");
        let (m, n, k) = (75, 101, 40);
        let a: Vec<T::A> = (0..m * k).map(a).collect();
        let b: Vec<T::B> = (0..k * n).map(b).collect();
        let problem = Problem::<T::Sums>::new(m, n, k);
        let mut sums = vec![T::Acc::ZERO; m * n];
        gemm_in_tiles(&problem, &a, &b, &mut sums, &context, true).expect("memory");
        let epilogue = Epilogue::new(Some(Bias::PerColumn), Activation::Relu);
        let bias: Vec<T::C> = (0..n).map(|col| T::C::narrow(b[col].widen())).collect();
        let numbers = EpilogueSlices::new(epilogue).with_bias(Bias::PerColumn, &bias);
        let (mut found, mut wanted) = (vec![T::C::ZERO; m * n], vec![T::C::ZERO; m * n]);
        let layout = Layout::row_major(n);
        let scalars = (T::Acc::ONE, T::Acc::ZERO);
        let view = |data| View::new(data, m, n, layout).expect("it fits");
        let to = ViewMut::new(&mut wanted, m, n, layout).expect("it fits");
        finish::<T>(scalars, view(&sums), None, to, &numbers, &context).expect("an epilogue");
        let a = View::new(&a, m, k, Layout::row_major(k)).expect("it fits");
        let b = View::new(&b, k, n, layout).expect("it fits");
        let d = ViewMut::new(&mut found, m, n, layout).expect("it fits");
        let rest = Rest { c: None, d, numbers, swapped: false };
        let sums = Sums::Product { a, b, way: Way::Tiles { model: true } };
        run::<T>(scalars, sums, rest, &context).expect("an epilogue");
        assert!(found == wanted, "{}", T::TYPES);
    }

    #[test]
    fn tiles_tell_all_their_parts() {
        let number = |at: usize| ((at * 37 + at / 11) % 101) as f32 / 50.0 - 1.0;
        let half = |at| bf16::from_f32(number(at));
        in_tiles::<bf16>(half, half);
        in_tiles::<f32>(number, number);
        let double = |at| f64::from(number(at));
        in_tiles::<f64>(double, double);
        // Of a range that tiles are not for, so that all of it or a part is computed otherwise.
        in_tiles::<f32>(|at| if at == 700 { 1e30 } else { number(at) }, number);
        in_tiles::<f64>(|at| if at == 700 { 1e300 } else { double(at) }, double);
    }
}
