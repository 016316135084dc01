//! `cpu_packed`: blocks packed for the caches, tiles in vector registers.
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
//! The instruction set is chosen by the CPU's features; `TESSERA_CPU_ISA` names another.
//!
//! Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), for the
//! blocks; Van Zee and van de Geijn, "BLIS" (2015), for the micro-kernel as the one part that differs
//! between machines. Carrying the sums in order, and the tickets, are this project's.

mod blocking;
pub(crate) mod buffer;
mod cache_line;
mod direct;
mod driver;
mod isa;
mod kernels;
#[cfg(target_arch = "aarch64")]
mod neon;
mod pack;
mod portable;
mod product;
mod rounding;
mod thresholds;
mod tile;
mod times_column;
mod vector;

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

use gemm_spec::{Element, Problem, WideBf16, WideF16, bf16, epilogue, f16};

pub use self::isa::CpuIsa;
use self::isa::PackedElement;
use self::product::Product;
use self::thresholds::WORK_PER_THREAD;
use super::{CpuContext, CpuImpl};

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "cpu_packed",
    about: "packed blocks for each cache, tiles in vector registers",
    origin: "Goto and van de Geijn 2008; Van Zee and van de Geijn 2015",
    parallel: true,
    any_order: true,
    study: false,
    f32: gemm::<f32>,
    f64: gemm::<f64>,
    i32: gemm::<i32>,
    i8: gemm_packing::<i8>,
    f16: gemm_packing::<f16>,
    bf16: gemm_packing::<bf16>,
    wide_f16: gemm_packing::<WideF16>,
    wide_bf16: gemm_packing::<WideBf16>,
};

fn gemm<T: PackedElement<Acc = T, Out = T>>(
    problem: &Problem<T>,
    a: &[T],
    b: &[T],
    c: &mut [T::Out],
    context: &CpuContext,
) {
    let Some(product) = to_sum(problem, a, b, c) else { return };
    let kernels = T::kernels(context.isa());
    let threads = threads(&product, context);
    // SAFETY: the buffers were checked against the problem, and C is borrowed exclusively; the
    // context's instruction set is one that this CPU has.
    unsafe {
        if direct::pays(&product, kernels, threads) {
            direct::multiply(&product, kernels, context, threads);
        } else {
            driver::multiply(&product, kernels, context, threads);
        }
    }
}

/// Elements that a tile takes in another form: always packed.
fn gemm_packing<T: PackedElement>(
    problem: &Problem<T>,
    a: &[T],
    b: &[T],
    c: &mut [T::Out],
    context: &CpuContext,
) {
    let Some(product) = to_sum(problem, a, b, c) else { return };
    let kernels = T::kernels(context.isa());
    let threads = threads(&product, context);
    // SAFETY: as in `gemm`.
    unsafe { driver::multiply(&product, kernels, context, threads) }
}

/// The product, where there is something to sum up; what is left without is done here.
fn to_sum<T: PackedElement>(
    problem: &Problem<T>,
    a: &[T],
    b: &[T],
    c: &mut [T::Out],
) -> Option<Product<T>> {
    if problem.m == 0 || problem.n == 0 {
        return None;
    }
    let product = Product::new(problem, a, b, c);
    if product.k == 0 {
        scale(&product, c);
        return None;
    }
    Some(product)
}

/// How many threads a product is worth.
fn threads<T: PackedElement>(product: &Product<T>, context: &CpuContext) -> usize {
    let work = product.m.saturating_mul(product.n).saturating_mul(product.k);
    context.threads().min(work / WORK_PER_THREAD).max(1)
}

/// `C = beta * C`: what a product of no steps leaves.
fn scale<T: PackedElement>(product: &Product<T>, c: &mut [T::Out]) {
    for column in c.chunks_mut(product.ldc).take(product.n) {
        for c in column.iter_mut().take(product.m) {
            *c = epilogue(product.alpha, T::Acc::ZERO, product.beta, || *c);
        }
    }
}
