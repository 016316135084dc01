//! The launches of a product whose steps of k are shared out to several blocks a tile.

use gemm_spec::split_k::{self, SplitK};
use gemm_spec::{Element, KernelSpec, Problem};

use super::Gpu;
use super::arguments::Arguments;
use super::launch::{Places, Start, size};
use crate::error::Error;
use crate::scalar::Scalar;

/// Sums each part of k into a matrix of its own and adds the matrices; one part goes into C at once.
///
/// # Safety
/// The places are those of operands that are valid for the problem; C overlaps neither factor and
/// nobody else uses it. The kernel supports the problem.
pub(super) unsafe fn launch<T: Scalar>(
    gpu: &Gpu,
    spec: &'static KernelSpec,
    split: &SplitK,
    problem: &Problem<T>,
    places: Places,
) -> Result<(), Error> {
    // With nothing to sum the factors are not read.
    let (m, n, k) = (size(problem.m), size(problem.n), size(problem.effective_k()));
    let parts = split_k::parts(spec, split.paces, (m, n, k), gpu.limits().multiprocessors);
    let mut start = Start::own(gpu, spec, problem)?;
    start.grid.y = parts;
    let whole = Arguments { k, ..Arguments::of(problem, places) };
    if parts == 1 {
        let mut arguments = whole;
        // SAFETY: the entry's obligations: the caller's promises; the spec's block and shared memory.
        return unsafe { gpu.start(&start, &mut arguments.addresses()) };
    }
    gpu.with_workspace(split_k::bytes(m, n, parts), |buffer| {
        let (sums, pitch) = (buffer.as_device_ptr().as_raw(), u64::from(split_k::pitch(n)));
        let mut product =
            Arguments { alpha: T::Acc::ONE, beta: T::Acc::ZERO, c: sums, ldc: pitch, ..whole };
        // SAFETY: as above, with as many rows of blocks as the workspace has room for parts.
        unsafe { gpu.start(&start, &mut product.addresses())? };
        let mut sum = Arguments { k: parts, a: sums, lda: pitch, ..whole };
        let start = Start::helper(spec, &split.sum, split.sum_grid(m, n));
        // SAFETY: the entry's obligations: the parts were written by the launch before, in the same
        // stream; the spec's block, and a thread for each four neighbours.
        unsafe { gpu.start(&start, &mut sum.addresses()) }
    })
}
