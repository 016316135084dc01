//! Types and batches taken apart: what is left are products of known types.

use std::ops::Range;

use cpu_gemm::{CpuContext, each_product};
use gemm_spec::{Layout, Operand, Types};
use tessera::blas3::Complex;
use tessera::{Error, GemmTypes, Placement};

use crate::batch::Batch;
use crate::epilogue::Epilogue;
use crate::factors::Factors;
use crate::failure::Failure;
use crate::pack::{Packed, pack, unpack};
use crate::place::Place;
use crate::product::{Laid, OfField, OfIntegers, Product, Typed};
use crate::scalar::{Plain, Scalar};
use crate::strided::Strided;

/// The matrices of a product, or of the first one of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// The types of A, B and C.
    pub scalars: [Scalar; 3],
    /// The left factor.
    pub a: Strided,
    /// The right factor.
    pub b: Strided,
    /// The result.
    pub c: Strided,
}

/// Does something with the product of some types: `with_product!(scalars, factors, product => ...)`.
macro_rules! with_product {
    ($scalars:expr, $factors:expr, $product:ident => $value:expr) => {{
        let (scalars, factors): ([Scalar; 3], &Factors) = ($scalars, $factors);
        match scalars {
            [Scalar::Complex64, Scalar::Complex64, Scalar::Complex64] => {
                let (alpha, beta) = factors.of::<Complex<f32>>()?;
                let $product = OfField { alpha, beta };
                $value
            }
            [Scalar::Complex128, Scalar::Complex128, Scalar::Complex128] => {
                let (alpha, beta) = factors.of::<Complex<f64>>()?;
                let $product = OfField { alpha, beta };
                $value
            }
            [Scalar::Int64, Scalar::Int64, Scalar::Int64] => {
                let (alpha, beta) = factors.of::<i64>()?;
                let $product = OfIntegers { alpha, beta };
                $value
            }
            [a, b, c] => {
                let Some(types) = $crate::multiply::types(a, b, c) else {
                    return Err(Failure::Types { a, b, c });
                };
                gemm_spec::with_gemm_types!(types, T => {
                    let (alpha, beta) = factors.of::<<T as gemm_spec::GemmTypes>::Acc>()?;
                    let $product = Typed::<T> { alpha, beta, epilogue: None };
                    $value
                })
            }
        }
    }};
}
pub(crate) use with_product;

/// The library's products of these types, where there are such.
#[must_use]
pub fn types(a: Scalar, b: Scalar, c: Scalar) -> Option<Types> {
    let (Scalar::Real(a), Scalar::Real(b), Scalar::Real(c)) = (a, b, c) else { return None };
    Types::ALL.into_iter().find(|it| (it.a(), it.b(), it.c()) == (a, b, c))
}

/// `C = alpha * A * B + beta * C` for each product of a batch.
///
/// # Errors
/// [`Failure::Types`], [`Failure::Factor`], and of the library's errors those of sizes, before anything is
/// written; others when the first of a batch may be written already.
///
/// # Safety
/// What is read of each A and B can be read, and nobody writes it meanwhile; each C can be read and
/// written, and nobody else does either. With alpha zero A and B are not read, with beta zero C is not.
/// Where the engine may use a GPU this holds for the memory between rows or columns, too.
pub unsafe fn multiply(
    place: &Place<'_>,
    factors: &Factors,
    operands: &Operands,
    batch: &Batch,
) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    unsafe { multiply_with_epilogue(place, factors, operands, batch, &Epilogue::NONE) }?;
    Ok(())
}

/// The same with an epilogue, which all products have in common: `C = activation((alpha * row_scale * column_scale) *
/// A * B + beta * C + bias)`. Returns the largest magnitude of all C where the epilogue asks for it: 0 where none has an
/// element, NaN where an element is.
///
/// # Errors
/// As [`multiply`]; [`Error::Epilogue`] where the types have no such epilogue, or it has not as many numbers as there
/// are rows or columns.
///
/// # Safety
/// As [`multiply`], and the epilogue's numbers can be read.
pub unsafe fn multiply_with_epilogue(
    place: &Place<'_>,
    factors: &Factors,
    operands: &Operands,
    batch: &Batch,
    epilogue: &Epilogue,
) -> Result<Option<f32>, Failure> {
    check(operands, batch)?;
    with_product!(operands.scalars, factors, product => {
        // SAFETY: the caller's promise.
        let product = unsafe { product.finished_by(epilogue) }?;
        // SAFETY: the caller's promise.
        unsafe { each(&product, place, operands, batch) }?;
        Ok(product.largest())
    })
}

/// Whether the sizes fit, and an address space holds the operands.
pub(crate) fn check(operands: &Operands, batch: &Batch) -> Result<(), Error> {
    let Operands { scalars, a, b, c } = operands;
    tessera::sizes_of([(a.rows, a.cols), (b.rows, b.cols), (c.rows, c.cols)])?;
    let each = [(Operand::A, a), (Operand::B, b), (Operand::C, c)];
    for ((operand, matrix), scalar) in each.into_iter().zip(scalars) {
        matrix.check(operand, scalar.size())?;
    }
    if batch.count().is_none() {
        let what = "a batch of more products than can be counted".to_owned();
        return Err(Error::OutOfMemory { what, needed: u128::MAX, available: None });
    }
    Ok(())
}

/// How an operand of a batch comes to the library.
pub(crate) enum Way<T> {
    /// In place.
    InPlace(Layout),
    /// As one copy for all products.
    Once(Packed<T>),
    /// As a copy for each product.
    Each,
}

impl<T: Plain> Way<T> {
    /// The way of an operand, given its strides from one product to the next and whether it is read.
    ///
    /// # Safety
    /// As [`pack`].
    unsafe fn of(
        matrix: Strided,
        strides: &[isize],
        (what, is_read): (&str, bool),
        context: &CpuContext,
    ) -> Result<Self, Error> {
        match in_place::<T>(&matrix, strides) {
            Some(layout) => Ok(Self::InPlace(layout)),
            None if !is_read => Ok(Self::InPlace(Layout::row_major(matrix.cols))),
            None if strides.iter().all(|&stride| stride == 0) => {
                // SAFETY: the caller's promise.
                Ok(Self::Once(unsafe { pack(matrix, what, context) }?))
            }
            None => Ok(Self::Each),
        }
    }

    /// The operand of one product, copied where it `must` be apart from C's slice. What it is copied to is kept
    /// in `own`.
    ///
    /// # Safety
    /// As [`pack`].
    unsafe fn laid(
        &self,
        matrix: Strided,
        (what, must): (&str, bool),
        context: &CpuContext,
        own: &mut Option<Packed<T>>,
    ) -> Result<Laid<T>, Error> {
        let Strided { rows, cols, .. } = matrix;
        let (at, layout) = match self {
            Self::InPlace(layout) if !must => (matrix.at.cast(), *layout),
            Self::Once(packed) => (packed.elements.as_ptr().cast_mut(), packed.layout),
            Self::InPlace(_) | Self::Each => {
                // SAFETY: the caller's promise.
                let packed = own.insert(unsafe { pack(matrix, what, context) }?);
                (packed.elements.as_mut_ptr(), packed.layout)
            }
        };
        Ok(Laid { at, rows, cols, layout })
    }
}

/// The layout by which the library takes each operand of a batch in place.
pub(crate) fn in_place<T>(matrix: &Strided, strides: &[isize]) -> Option<Layout> {
    let aligned = |stride: &isize| stride.unsigned_abs().is_multiple_of(align_of::<T>());
    matrix.layout(size_of::<T>(), align_of::<T>()).filter(|_| strides.iter().all(aligned))
}

/// Computes the products of a batch whose sizes fit.
///
/// # Safety
/// As [`multiply`].
unsafe fn each<P: Product>(
    product: &P,
    place: &Place<'_>,
    operands: &Operands,
    batch: &Batch,
) -> Result<(), Error> {
    let given = [operands.a, operands.b, operands.c];
    let (batch, [a, b, c]) =
        if product.may_be_folded() { batch.folded(given) } else { (batch.merged(), given) };
    let count = batch.count().unwrap_or(0);
    if count == 0 || c.is_empty() {
        return Ok(());
    }
    let context = place.context();
    let is_read = product.reads_factors() && a.cols > 0;
    // SAFETY: the caller's promise.
    let way_a = unsafe { Way::<P::A>::of(a, &batch.a, ("A", is_read), &context) }?;
    // SAFETY: the caller's promise.
    let way_b = unsafe { Way::<P::B>::of(b, &batch.b, ("B", is_read), &context) }?;
    let in_place_c = in_place::<P::C>(&c, &batch.c);
    let layout = |in_place: &dyn Fn() -> Option<Layout>, cols: usize| {
        in_place().unwrap_or_else(|| Layout::row_major(cols))
    };
    let sizes = [c.rows, c.cols, a.cols];
    let layouts = [
        layout(&|| in_place::<P::A>(&a, &batch.a), a.cols),
        layout(&|| in_place::<P::B>(&b, &batch.b), b.cols),
        layout(&|| in_place_c, c.cols),
    ];
    let on_gpu = product.placement(place, sizes, layouts)? != Placement::Cpu;

    let one = |number: usize, context: &CpuContext| -> Result<(), Error> {
        let [to_a, to_b, to_c] = batch.offsets(number);
        let (a, b, to) = (a.moved(to_a), b.moved(to_b), c.moved(to_c));
        // The GPU takes slices, which hold what is between lines, too: parts of one matrix side by side would
        // overlap.
        let side_by_side =
            |it: &Strided, size| on_gpu && is_read && it.may_overlap(size, &to, size_of::<P::C>());
        let must_a = side_by_side(&a, size_of::<P::A>());
        let must_b = side_by_side(&b, size_of::<P::B>());
        let (mut own_a, mut own_b) = (None, None);
        // SAFETY: the caller's promise.
        let a = unsafe { way_a.laid(a, ("A", must_a), context, &mut own_a) }?;
        // SAFETY: the caller's promise.
        let b = unsafe { way_b.laid(b, ("B", must_b), context, &mut own_b) }?;
        let mut copied = match in_place_c {
            Some(_) => None,
            None if product.reads_c() => {
                // SAFETY: the caller's promise.
                Some(unsafe { pack::<P::C>(to, "C", context) }?)
            }
            None => Some(zeros::<P::C>(to)?),
        };
        let (at, layout) = match (&mut copied, in_place_c) {
            (Some(copy), _) => (copy.elements.as_mut_ptr(), copy.layout),
            (None, layout) => (to.at.cast(), layout.unwrap_or(Layout::row_major(to.cols))),
        };
        let laid = Laid { at, rows: to.rows, cols: to.cols, layout };
        if on_gpu {
            // SAFETY: the caller's promise, and copies are this function's own.
            unsafe { product.on_gpu((&a, &b, &laid), place) }?;
        } else {
            // SAFETY: as above.
            unsafe { product.on_cpu((&a, &b, &laid), context) }?;
        }
        if let Some(copy) = &copied {
            // SAFETY: the caller's promise.
            unsafe { unpack(copy, to) };
        }
        Ok(())
    };

    if on_gpu {
        return (0..count).try_for_each(|number| one(number, &context));
    }
    let work = c.rows.saturating_mul(c.cols).saturating_mul(a.cols.max(1));
    let near = match (&way_a, &way_b, in_place_c) {
        (&Way::InPlace(of_a), &Way::InPlace(of_b), Some(of_c)) if count > 1 => {
            let a = Laid { at: a.at.cast(), rows: a.rows, cols: a.cols, layout: of_a };
            let b = Laid { at: b.at.cast(), rows: b.rows, cols: b.cols, layout: of_b };
            let c = Laid { at: c.at.cast(), rows: c.rows, cols: c.cols, layout: of_c };
            // SAFETY: the caller's promise.
            unsafe { product.near((&a, &b, &c), &context) }
        }
        _ => None,
    };
    let some = |mut numbers: Range<usize>, context: &CpuContext| {
        let Some(near) = &near else {
            return numbers.try_for_each(|number| one(number, context));
        };
        for number in numbers {
            let [to_a, to_b, to_c] = batch.offsets(number);
            let (a, b, c) = (a.moved(to_a).at, b.moved(to_b).at, c.moved(to_c).at);
            // SAFETY: the caller's promise: the operands of each product lie as those of the first.
            unsafe { near.multiply_at(a.cast_const().cast(), b.cast_const().cast(), c.cast()) };
        }
        Ok(())
    };
    each_product(count, work, &context, some)
}

/// A C that is not read.
fn zeros<T: Plain>(matrix: Strided) -> Result<Packed<T>, Error> {
    let count = matrix.rows.saturating_mul(matrix.cols);
    let mut elements: Vec<T> = Vec::new();
    elements.try_reserve_exact(count).map_err(|_| Error::OutOfMemory {
        what: format!("a copy of C, {} x {}", matrix.rows, matrix.cols),
        needed: (count as u128).saturating_mul(size_of::<T>() as u128),
        available: None,
    })?;
    // SAFETY: any bytes are an element.
    elements.resize(count, unsafe { std::mem::zeroed() });
    Ok(Packed { elements, layout: Layout::row_major(matrix.cols) })
}

/// Only types of the library's list have elements of the bindings.
const _: () = {
    const fn is_known<T: GemmTypes<A: Plain, B: Plain, Acc: Plain, C: Plain>>() {}
    macro_rules! known_types {
        ([] $({
            $(#[$condition:meta])? $variant:ident, $name:ident, $types:ty, $four:tt, $usual:ident
        })+) => {
            $(is_known::<$types>();)+
        };
    }
    gemm_spec::for_each_gemm_types!([known_types]);
};
