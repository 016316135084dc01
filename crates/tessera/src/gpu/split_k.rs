//! The launches of a product whose steps of k are shared out to several blocks a tile.

use gemm_spec::split_k::{self, SplitK};
use gemm_spec::{Element as _, KernelSpec, Problem};

use super::arguments::Arguments;
use super::entry::{Addresses, EntryLaunch, size};
use super::launch::Queue;
use crate::element::GemmTypes;
use crate::error::Error;

/// Sums each part of k into a matrix of its own and adds the matrices; one part goes into C at once.
///
/// # Safety
/// The addresses are those of operands that are valid for the problem; C overlaps neither factor and
/// nobody else uses it. The kernel supports the problem.
pub(super) unsafe fn launch<T: GemmTypes>(
    queue: &Queue<'_>,
    spec: &KernelSpec,
    split: &SplitK,
    problem: &Problem<T>,
    addresses: Addresses,
) -> Result<(), Error> {
    // With nothing to sum the factors are not read.
    let (m, n, k) = (size(problem.m), size(problem.n), size(problem.effective_k()));
    let parts = split_k::parts(spec, split.paces, (m, n, k), queue.gpu.limits().multiprocessors);
    let mut launch = EntryLaunch::own(queue, spec, problem)?;
    launch.grid.y = parts;
    let whole = Arguments { k, ..Arguments::of(problem, addresses) };
    if parts == 1 {
        let mut arguments = whole;
        // SAFETY: the entry's obligations: the caller's promises; the spec's block and shared memory.
        return unsafe { queue.launch(&launch, &mut arguments.addresses()) };
    }
    queue.with_workspace(split_k::bytes(m, n, parts), |sums| {
        let pitch = u64::from(split_k::pitch(n));
        let mut product =
            Arguments { alpha: T::Acc::ONE, beta: T::Acc::ZERO, c: sums, ldc: pitch, ..whole };
        // SAFETY: as above, with as many rows of blocks as the workspace has room for parts.
        unsafe { queue.launch(&launch, &mut product.addresses())? };
        let mut sum = Arguments { k: parts, a: sums, lda: pitch, ..whole };
        let launch = EntryLaunch::helper(spec, &split.sum, split.sum_grid(m, n));
        // SAFETY: the entry's obligations: the parts were written by the launch before, in the same
        // stream; the spec's block, and a thread for each four neighbours.
        unsafe { queue.launch(&launch, &mut sum.addresses()) }
    })
}
