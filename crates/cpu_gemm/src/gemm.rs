//! `C = alpha * A * B + beta * C`: a problem is checked, its batch gone through, and C made column-major.

use gemm_spec::{Element, GemmTypes, Operand, Problem, epilogue};

#[cfg(target_arch = "x86_64")]
use crate::amx::TileLoop;
use crate::batch::each_product;
use crate::context::CpuContext;
use crate::error::Error;
use crate::near::NearShape;
use crate::product::{Product, has_columns};
use crate::thresholds::WORK_PER_THREAD;
use crate::types::CpuTypes;
use crate::units::CpuUnits;
use crate::way::{self, Way};

/// `C = alpha * A * B + beta * C` on the threads of a context.
///
/// With `beta == 0` C is not read, with `alpha == 0` neither A nor B is. Small products run on fewer
/// threads. Small products of a batch are computed side by side, each on one thread, large ones one after the other.
///
/// # Errors
/// [`Error::Shape`] where a buffer is too short for the problem, [`Error::OutOfMemory`] where the packed
/// panels cannot be allocated; C is then unchanged, or of a batch that of some products.
pub fn gemm<T: CpuTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    context: &CpuContext,
) -> Result<(), Error> {
    gemm_by(context.units(), problem, a, b, c, context)
}

/// The same by other [units](CpuUnits) than those of the context.
///
/// # Errors
/// As [`gemm`].
pub fn gemm_by<T: CpuTypes>(
    units: CpuUnits,
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    context: &CpuContext,
) -> Result<(), Error> {
    compute(Way::Units(units), problem, a, b, c, context)
}

/// `C = alpha * A * B + beta * C` by tiles, whatever the product's size and the context's units: in the tile
/// registers, or bit for bit by the model of their instructions where there are none or `model` is asked for,
/// which is slow. Types that tiles do not multiply are computed as by [`gemm`].
///
/// # Errors
/// As [`gemm`].
pub fn gemm_in_tiles<T: CpuTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    context: &CpuContext,
    model: bool,
) -> Result<(), Error> {
    let way = if has_tiles::<T>() { Way::Tiles { model } } else { Way::Units(context.units()) };
    compute(way, problem, a, b, c, context)
}

/// Whether matrix units multiply the types of a product, on machines that have some.
#[must_use]
pub fn has_tiles<T: CpuTypes>() -> bool {
    #[cfg(target_arch = "x86_64")]
    return T::HAS_TILES;
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Whether [`gemm`] computes a problem in matrix units, if its elements are of no extreme range, and
/// if these units are allowed.
pub fn uses_matrix_units<T: CpuTypes>(
    units: CpuUnits,
    problem: &Problem<T>,
    context: &CpuContext,
) -> bool {
    let size = (problem.m, problem.n, problem.effective_k());
    way::in_tiles::<T>(units, size, context)
}

/// The loop by which the peak of matrix units is measured for products of some types; `None` where there are no
/// units, or they do not multiply these types.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn tile_loop<T: CpuTypes>() -> Option<TileLoop> {
    T::tile_loop()
}

/// `C = alpha * A * B + beta * C` in a given way.
fn compute<T: CpuTypes>(
    way: Way,
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    context: &CpuContext,
) -> Result<(), Error> {
    problem.check_buffers(a.len(), b.len(), c.len())?;
    if problem.m == 0 || problem.n == 0 {
        return Ok(());
    }
    if !problem.batch.is_one() {
        return batch(way, problem, a, b, c, context);
    }
    if has_columns(problem) {
        // SAFETY: the buffers were checked against the problem.
        unsafe { multiply(Product::new(problem, a, b, c), c, way, context) }
    } else {
        let problem = problem.transposed::<T::Transposed>();
        // SAFETY: the transposed problem reads and writes the same elements of the buffers.
        unsafe { multiply(Product::new(&problem, b, a, c).swapped(), c, way, context) }
    }
}

/// A buffer of which several threads write parts that have nothing in common.
pub(crate) struct Parts<T>(pub(crate) *mut T);

// SAFETY: elements may be written by any thread; which of them a thread writes is for `part`'s caller to say.
unsafe impl<T: Send> Sync for Parts<T> {}

impl<T> Parts<T> {
    /// # Safety
    /// The part is within the buffer, which outlives it, and nobody else has any of it meanwhile.
    #[expect(clippy::mut_from_ref, reason = "parts have nothing in common: the caller's promise")]
    pub(crate) unsafe fn part(&self, first: usize, len: usize) -> &mut [T] {
        // SAFETY: the caller's promise.
        let at = unsafe { self.0.add(first) };
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(at, len) }
    }
}

/// The products of a batch, whose buffers were checked.
fn batch<T: CpuTypes>(
    way: Way,
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    context: &CpuContext,
) -> Result<(), Error> {
    let one = problem.one();
    let of_c = one.required_len(Operand::C)?;
    // Matrices of C may be parts of the same lines; they are then written one after the other.
    if problem.batch.c_stride < of_c {
        return problem
            .try_for_each_item(a, b, c, |one, a, b, c| compute(way, one, a, b, c, context));
    }
    let work = one.m.saturating_mul(one.n).saturating_mul(one.effective_k());
    let near = near_shape(way, &one, a, b, c, context);
    let parts = Parts(c.as_mut_ptr());
    each_product(problem.batch.count, work, context, |mut numbers, context| {
        numbers.try_for_each(|number| {
            let at = problem.item(number);
            // SAFETY: the buffer was checked to hold each product's C, and is this function's until all have ended;
            // from one C to the next it is as far as one is long.
            let c = unsafe { parts.part(at.c, of_c) };
            // With k = 0 the factors have no elements, wherever they would begin.
            let (a, b) = (a.get(at.a..).unwrap_or_default(), b.get(at.b..).unwrap_or_default());
            let Some(near) = &near else { return compute(way, &one, a, b, c, context) };
            let (a, b, c) = (a.as_ptr().cast(), b.as_ptr().cast(), c.as_mut_ptr().cast());
            // SAFETY: the operands are of the type of the sums, as there is a shape, and those of each product lie as
            // those of the first; this C is this call's.
            unsafe { near.multiply_at(a, b, c) };
            Ok(())
        })
    })
}

/// What the products of a batch have in common, one of which is `one`, where each is so small.
fn near_shape<T: CpuTypes>(
    way: Way,
    one: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    context: &CpuContext,
) -> Option<NearShape<T::Acc>> {
    if one.effective_k() == 0 {
        return None;
    }
    if has_columns(one) {
        return way::near_shape(&Product::new(one, a, b, c), way, context);
    }
    let product = Product::new(&one.transposed::<T::Transposed>(), b, a, c).swapped();
    way::near_shape(&product, way, context)
}

/// The same of a product, C not being empty.
///
/// # Safety
/// The product's promises, see [`Product`]; its C is `c`.
unsafe fn multiply<T: CpuTypes>(
    product: Product<T>,
    c: &mut [T::C],
    way: Way,
    context: &CpuContext,
) -> Result<(), Error> {
    if product.k == 0 {
        scale(&product, c);
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { way::multiply(&product, way, context, threads(&product, context)) }
}

/// How many threads a product is worth.
fn threads<T: GemmTypes>(product: &Product<T>, context: &CpuContext) -> usize {
    threads_for((product.m, product.n, product.k), context)
}

/// The same of its size.
#[inline]
pub(crate) fn threads_for(size: (usize, usize, usize), context: &CpuContext) -> usize {
    context.threads().min(worth(size))
}

/// The same of what the context is a share of: how many threads decide on the units.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn threads_of_whole(size: (usize, usize, usize), context: &CpuContext) -> usize {
    context.whole().min(worth(size))
}

/// How many threads a product of that size is worth.
#[inline]
fn worth((m, n, k): (usize, usize, usize)) -> usize {
    (m.saturating_mul(n).saturating_mul(k) / WORK_PER_THREAD).max(1)
}

/// `C = beta * C`: what a product of no steps leaves.
fn scale<T: GemmTypes>(product: &Product<T>, c: &mut [T::C]) {
    for column in c.chunks_mut(product.ldc).take(product.n) {
        for c in column.iter_mut().take(product.m) {
            *c = epilogue(product.alpha, T::Acc::ZERO, product.beta, || *c);
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use gemm_spec::Layout;

    use super::*;
    use crate::CpuUnits;

    #[test]
    fn the_definition_has_the_bits_of_vector_units() {
        let (m, n, k) = (37, 21, 700);
        let drawn = |count: usize| -> Vec<f32> { (1..=count).map(|x| (x as f32).sin()).collect() };
        let (a, b) = (drawn(m * k), drawn(k * n));
        for (beta, c) in [(0.0, f32::NAN), (-1.5, 0.75)] {
            let layouts = (Layout::row_major(k), Layout::row_major(n), Layout::col_major(m));
            let problem = Problem::<f32>::new(m, n, k)
                .with_scalars(1.25, beta)
                .with_layouts(layouts.0, layouts.1, layouts.2);
            let (mut expected, mut found) = (vec![c; m * n], vec![c; m * n]);
            let context = CpuContext::alone().with_units(CpuUnits::Vector);
            gemm(&problem, &a, &b, &mut expected, &context).expect("the buffers fit");
            // SAFETY: the buffers are as long as the problem says.
            unsafe { Product::new(&problem, &a, &b, &mut found).by_definition() };
            assert_eq!(found, expected);
        }
    }
}
