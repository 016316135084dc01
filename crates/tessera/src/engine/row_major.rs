//! Row-major copies of operands for kernels that read nothing else.

use gemm_spec::{Layout, Operand, Order, Problem};
use rayon::ThreadPool;

use crate::element::{Element, GemmTypes};
use crate::error::Error;
use crate::matrix::allocate;

/// The operand in row-major order: itself, or a copy in `packed`, made by the threads of the pool.
pub(super) fn row_major<'a, T: GemmTypes, E: Element>(
    pool: &ThreadPool,
    problem: &mut Problem<T>,
    operand: Operand,
    data: &'a [E],
    packed: &'a mut Vec<E>,
) -> Result<&'a [E], Error> {
    let layout = problem.layout(operand);
    if layout.order == Order::RowMajor {
        return Ok(data);
    }
    let (rows, cols) = problem.dims(operand);
    *packed = allocate(rows, cols, "a row-major copy")?;
    // With alpha == 0 the operand is not read, so there is nothing to copy.
    if cols > 0 && problem.effective_k() > 0 {
        transpose(pool, data, layout.ld, packed, rows, cols);
    }
    let layout = Layout::row_major(cols);
    match operand {
        Operand::A => problem.a = layout,
        Operand::B => problem.b = layout,
        Operand::C => problem.c = layout,
    }
    Ok(packed)
}

/// Copies a column-major matrix to a packed row-major one, a square at a time so that both sides
/// stay in the cache.
fn transpose<T: Element>(
    pool: &ThreadPool,
    from: &[T],
    ld: usize,
    to: &mut [T],
    rows: usize,
    cols: usize,
) {
    use rayon::prelude::*;
    const SIDE: usize = 64;
    let bands = to.par_chunks_mut(SIDE * cols).enumerate();
    pool.install(|| {
        bands.for_each(|(band, to)| {
            let first = band * SIDE;
            let band_rows = SIDE.min(rows - first);
            for col0 in (0..cols).step_by(SIDE) {
                for col in col0..cols.min(col0 + SIDE) {
                    let column = &from[col * ld + first..][..band_rows];
                    for (row, &value) in column.iter().enumerate() {
                        to[row * cols + col] = value;
                    }
                }
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use rayon::ThreadPoolBuilder;

    use super::*;

    #[test]
    fn a_copy_has_the_elements_of_the_matrix() {
        let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        for (k, n, ld) in [(1, 1, 1), (70, 3, 71), (65, 130, 65), (3, 0, 3)] {
            let data: Vec<f32> = (0..ld * n).map(|at| at as f32).collect();
            let plain = Problem::<f32>::new(2, n, k);
            let mut problem = Problem { b: Layout::col_major(ld), ..plain };
            let before = problem;
            let mut packed = Vec::new();
            let copy = row_major(&pool, &mut problem, Operand::B, &data, &mut packed).unwrap();
            assert_eq!(problem, plain);
            for row in 0..k {
                for col in 0..n {
                    let (new, old) = (problem.b.index(row, col), before.b.index(row, col));
                    assert_eq!(copy[new], data[old], "{k} {n} {ld}");
                }
            }
        }
    }
}
