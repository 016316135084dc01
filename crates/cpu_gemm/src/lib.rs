//! Matrix products on the CPU: blocks packed for the caches, tiles in vector registers.
//!
//! ```
//! use cpu_gemm::{CpuContext, gemm};
//! use gemm_spec::Problem;
//!
//! let context = CpuContext::new(None)?;
//! let (a, b) = ([1.0f32, 2.0, 3.0, 4.0], [5.0f32, 6.0, 7.0, 8.0]);
//! let mut c = [0.0; 4];
//! gemm(&Problem::<f32>::new(2, 2, 2), &a, &b, &mut c, &context)?;
//! assert_eq!(c, [19.0, 22.0, 43.0, 50.0]);
//! # Ok::<(), cpu_gemm::Error>(())
//! ```
//!
//! Five loops round a micro-kernel: blocks of A and B are copied so that the innermost loop reads
//! them from front to back, each block sized for the cache that it stays in; a tile of C is summed in
//! registers. Threads draw parts of the work from a counter. See `driver` for the loops, `tile` for
//! the micro-kernel, `direct` for small and thin products.
//!
//! # Promises
//!
//! - Each element of C is one chain of fused multiply-adds over k in order, as in `serial`: sums are
//!   carried from block to block, never added up. So the bits are those of `serial`, on every repeat,
//!   for any number of threads, any instruction set, any storage order and any block of rows or
//!   columns computed by itself. Only which NaN a NaN is may differ.
//! - With `beta == 0` C is not read, with `alpha == 0` neither A nor B is.
//! - Nothing outside the operands is read or written, not even the rest of a register or of a line's
//!   padding.
//!
//! The instruction set is chosen by the CPU's features; [`CpuContext::with_isa`] takes another.
//!
//! Where a context's [units](CpuUnits) say so, sums of f32, f16 and bf16 are computed in matrix units instead:
//! with smaller errors, the same bits on every repeat and for any number of threads and storage order, but
//! not those of `serial`.
//!
//! Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), for the
//! blocks; Van Zee and van de Geijn, "BLIS" (2015), for the micro-kernel as the one part that differs
//! between machines. Carrying the sums in order, and the tickets, are this project's.

mod blocking;
mod buffer;
mod cache_line;
mod complex;
mod context;
mod direct;
mod driver;
mod error;
mod field;
mod isa;
mod kernels;
#[cfg(target_arch = "aarch64")]
mod neon;
mod pack;
mod portable;
mod product;
mod rounding;
mod threads;
mod thresholds;
mod tile;
mod times_column;
mod triangle;
mod types;
mod units;
mod vector;
mod view;

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod groups;
#[cfg(target_arch = "x86_64")]
mod transpose;
#[cfg(target_arch = "x86_64")]
mod vnni;

use gemm_spec::{Element as _, GemmTypes, Problem, epilogue};

pub use crate::context::CpuContext;
pub use crate::error::Error;
pub use crate::field::{Complex, Factor, Field, gemm_views, scale};
pub use crate::isa::CpuIsa;
use crate::product::{Product, has_columns};
pub use crate::threads::run_on;
use crate::thresholds::WORK_PER_THREAD;
pub use crate::triangle::{BLOCK, Task, triangle};
pub use crate::types::CpuTypes;
use crate::units::Way;
pub use crate::units::{
    CpuUnits, NoUnits, gemm_in_tiles, has_tiles, matrix_units, uses_matrix_units,
};
pub use crate::view::{View, ViewMut};
#[cfg(target_arch = "x86_64")]
pub use crate::{amx::TileLoop, units::tile_loop};

/// `C = alpha * A * B + beta * C` on the threads of a context.
///
/// With `beta == 0` C is not read, with `alpha == 0` neither A nor B is. Small products run on fewer
/// threads. The products of a batch are computed one after the other.
///
/// # Errors
/// [`Error::Shape`] where a buffer is too short for the problem, [`Error::OutOfMemory`] where the packed
/// panels cannot be allocated; C is then unchanged, or of a batch the C from some product on.
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

/// The same in a given way.
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
        return problem
            .try_for_each_item(a, b, c, |one, a, b, c| compute(way, one, a, b, c, context));
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
        scale_problem(&product, c);
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { units::multiply(&product, way, context, threads(&product, context)) }
}

/// How many threads a product is worth.
fn threads<T: GemmTypes>(product: &Product<T>, context: &CpuContext) -> usize {
    threads_for((product.m, product.n, product.k), context)
}

/// The same of its size.
fn threads_for((m, n, k): (usize, usize, usize), context: &CpuContext) -> usize {
    let work = m.saturating_mul(n).saturating_mul(k);
    context.threads().min(work / WORK_PER_THREAD).max(1)
}

/// `C = beta * C`: what a product of no steps leaves.
fn scale_problem<T: GemmTypes>(product: &Product<T>, c: &mut [T::C]) {
    for column in c.chunks_mut(product.ldc).take(product.n) {
        for c in column.iter_mut().take(product.m) {
            *c = epilogue(product.alpha, T::Acc::ZERO, product.beta, || *c);
        }
    }
}
