//! `packed_bands`: bands of rows for the threads, each multiplied as in `packed_panels`.
//!
//! Bands of C share nothing that is written, so threads need no lock and wait for nobody. Each packs B
//! for itself: what is packed in vain grows with the number of bands.
//!
//! Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", with today's
//! threads.

use gemm_spec::{Operand, Problem};
use rayon::prelude::*;

use super::implementation::{NOTHING, Sums, forms};
use super::packed_panels::{BLOCK_ROWS, multiply_rows};
use super::{CpuContext, CpuImpl};
use crate::scalar::ScalarTypes;

pub(super) const IMPL: CpuImpl = CpuImpl {
    id: "packed_bands",
    about: "bands of rows in parallel, each by packed panels",
    origin: "Goto and van de Geijn 2008, with today's threads",
    parallel: true,
    blocked: true,
    any_order: false,
    sums: Sums::Chain,
    needs: NOTHING,
    study: true,
    forms: forms!(gemm),
};

/// Rows of a band at least, where there are as many: fewer do not pay for packing B.
const LEAST_ROWS: usize = 64;
/// Bands for each thread at least, where there are rows enough, so that threads finish together.
const BANDS_PER_THREAD: usize = 4;

fn gemm<T: ScalarTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    context: &CpuContext,
) -> Result<(), cpu_gemm::Error> {
    if problem.n == 0 {
        return Ok(());
    }
    let fair = problem.m.div_ceil(context.threads() * BANDS_PER_THREAD);
    let rows = fair.clamp(LEAST_ROWS, BLOCK_ROWS);
    let used = problem.required_len(Operand::C).unwrap_or(c.len());
    let bands = c[..used].par_chunks_mut(rows * problem.c.ld).enumerate();
    context.pool().install(|| {
        bands.for_each(|(index, c)| {
            let first = index * rows;
            let a = &a[a.len().min(first * problem.a.ld)..];
            multiply_rows(problem, a, b, c, rows.min(problem.m - first));
        });
    });
    Ok(())
}
