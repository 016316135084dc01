//! Products of 64-bit integers modulo 2^64. The library has none, and there is little to gain on loops that
//! read B once for several rows of C: vector units multiply 64-bit integers slowly.

use std::sync::{Mutex, PoisonError};

use cpu_gemm::{CpuContext, run_on};
use gemm_spec::Order;
use tessera::blas3::{View, ViewMut};

/// Rows of C that one pass over a piece of B serves, columns of that piece, and elements of k in it.
const ROWS: usize = 4;
const COLS: usize = 256;
const DEPTH: usize = 128;
/// Multiply-adds that are worth one more thread.
const WORK_PER_THREAD: usize = 1 << 16;

/// `C = alpha * A * B + beta * C` of views whose sizes fit.
pub(crate) fn multiply(
    alpha: i64,
    a: View<'_, i64>,
    b: View<'_, i64>,
    beta: i64,
    c: ViewMut<'_, i64>,
    context: &CpuContext,
) {
    // Rows of a row-major B are contiguous; a column-major one is that of the transposed product, unless A is
    // row-major as well: then pieces of B are copied column by column.
    if b.layout().order == Order::ColMajor && a.layout().order == Order::ColMajor {
        return multiply(alpha, b.transposed(), a.transposed(), beta, c.transposed(), context);
    }
    let (m, n, k) = (c.rows(), c.cols(), a.cols());
    let work = m.saturating_mul(n).saturating_mul(k.max(1));
    let threads = context.threads().min(work / WORK_PER_THREAD).max(1);
    if threads == 1 {
        return strip(alpha, a, b, beta, c);
    }
    // Several strips a thread, so that none waits long for the last.
    let height = m.div_ceil(4 * threads).next_multiple_of(ROWS);
    let mut strips = Vec::new();
    let mut rest = c;
    for first in (0..m).step_by(height) {
        let (strip, below) = rest.split_rows(height.min(m - first));
        strips.push((first, strip));
        rest = below;
    }
    let strips = Mutex::new(strips);
    let next = || strips.lock().unwrap_or_else(PoisonError::into_inner).pop();
    run_on(context.pool(), threads, || {
        while let Some((first, c)) = next() {
            strip(alpha, a.part(first..first + c.rows(), 0..k), b, beta, c);
        }
    });
}

/// The same on the calling thread, by the widest vectors that there are.
fn strip(alpha: i64, a: View<'_, i64>, b: View<'_, i64>, beta: i64, c: ViewMut<'_, i64>) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq") {
            // SAFETY: the processor has these instructions.
            return unsafe { strip_avx512(alpha, a, b, beta, c) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { strip_avx2(alpha, a, b, beta, c) };
        }
    }
    strip_portable(alpha, a, b, beta, c);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq")]
fn strip_avx512(alpha: i64, a: View<'_, i64>, b: View<'_, i64>, beta: i64, c: ViewMut<'_, i64>) {
    strip_portable(alpha, a, b, beta, c);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn strip_avx2(alpha: i64, a: View<'_, i64>, b: View<'_, i64>, beta: i64, c: ViewMut<'_, i64>) {
    strip_portable(alpha, a, b, beta, c);
}

/// The same by the instructions of whoever calls it.
#[inline(always)]
fn strip_portable(
    alpha: i64,
    a: View<'_, i64>,
    b: View<'_, i64>,
    beta: i64,
    mut c: ViewMut<'_, i64>,
) {
    let k = if alpha == 0 { 0 } else { a.cols() };
    for row in 0..c.rows() {
        for col in 0..c.cols() {
            let old = if beta == 0 { 0 } else { beta.wrapping_mul(c.get(row, col)) };
            c.set(row, col, old);
        }
    }
    let mut piece = vec![[0i64; COLS]; DEPTH.min(k)];
    for left in (0..c.cols()).step_by(COLS) {
        let cols = COLS.min(c.cols() - left);
        for first in (0..k).step_by(DEPTH) {
            let depth = DEPTH.min(k - first);
            for (p, line) in piece[..depth].iter_mut().enumerate() {
                for (col, element) in line[..cols].iter_mut().enumerate() {
                    *element = b.get(first + p, left + col);
                }
            }
            for top in (0..c.rows()).step_by(ROWS) {
                let rows = ROWS.min(c.rows() - top);
                let mut sums = [[0i64; COLS]; ROWS];
                for (p, line) in piece[..depth].iter().enumerate() {
                    for (row, sums) in sums[..rows].iter_mut().enumerate() {
                        let factor = a.get(top + row, first + p);
                        for (sum, element) in sums.iter_mut().zip(line) {
                            *sum = sum.wrapping_add(factor.wrapping_mul(*element));
                        }
                    }
                }
                for (row, sums) in sums[..rows].iter().enumerate() {
                    for (col, sum) in sums[..cols].iter().enumerate() {
                        let (row, col) = (top + row, left + col);
                        let more = alpha.wrapping_mul(*sum);
                        c.set(row, col, c.get(row, col).wrapping_add(more));
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

    #[test]
    fn sums_wrap_in_every_order_and_on_several_threads() {
        let context = CpuContext::new(NonZeroUsize::new(3)).expect("threads");
        let number = |at: usize| (at as i64).wrapping_mul(0x9e37_79b9_7f4a_7c15u64.cast_signed());
        for (m, n, k) in [(1, 1, 1), (5, 130, 7), (70, 131, 65), (3, 2, 0)] {
            let a: Vec<i64> = (0..m * k).map(number).collect();
            let b: Vec<i64> = (0..k * n).map(|at| number(at + 77)).collect();
            for (la, lb) in [
                (Layout::row_major(k), Layout::row_major(n)),
                (Layout::row_major(k), Layout::col_major(k)),
                (Layout::col_major(m), Layout::row_major(n)),
                (Layout::col_major(m), Layout::col_major(k)),
            ] {
                let view_a = View::new(&a, m, k, la).expect("it fits");
                let view_b = View::new(&b, k, n, lb).expect("it fits");
                let mut c = vec![5; m * n];
                let view = ViewMut::new(&mut c, m, n, Layout::row_major(n)).expect("it fits");
                multiply(3, view_a, view_b, -2, view, &context);
                for row in 0..m {
                    for col in 0..n {
                        let sum = (0..k).fold(0i64, |sum, p| {
                            let product = view_a.get(row, p).wrapping_mul(view_b.get(p, col));
                            sum.wrapping_add(product)
                        });
                        let expected = sum.wrapping_mul(3).wrapping_sub(10);
                        assert_eq!(c[row * n + col], expected, "{m} {n} {k} {la:?} {lb:?}");
                    }
                }
            }
        }
    }
}
