//! Row-major copies of operands for implementations that read nothing else.

use cpu_gemm::{CpuContext, View};
use gemm_spec::{Layout, Operand, Order, Problem, ShapeError};
use rayon::ThreadPool;

use crate::element::{Element, GemmTypes};
use crate::error::Error;
use crate::memory::allocate;

/// The operand of a product in row-major order: itself, or a copy in `packed`, made by the context's
/// threads; `problem` then has the copy's layout. Of a batch it is the first product's.
///
/// # Errors
/// [`Error::Shape`] where the buffer is too short, [`Error::OutOfMemory`].
pub fn row_major<'a, T: GemmTypes, E: Element>(
    cpu: &CpuContext,
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
    let (len, needed) = (data.len(), layout.required_len(rows, cols));
    let needed = needed.ok_or(ShapeError::TooLarge { operand, rows, cols })?;
    if len < needed {
        return Err(ShapeError::BufferTooShort { operand, len, needed }.into());
    }
    // With alpha == 0 the operand is not read.
    let read = problem.effective_k() > 0;
    fill(cpu, View::new(data, rows, cols, layout)?, read, packed)?;
    let layout = Layout::row_major(cols);
    match operand {
        Operand::A => problem.a = layout,
        Operand::B => problem.b = layout,
        Operand::C => problem.c = layout,
    }
    Ok(packed)
}

/// The same of a view. One that is not `read` is not copied either.
#[cfg(feature = "cuda")]
pub(crate) fn row_major_view<'a, E: Element>(
    cpu: &CpuContext,
    view: View<'a, E>,
    read: bool,
    packed: &'a mut Vec<E>,
) -> Result<View<'a, E>, Error> {
    if view.layout().order == Order::RowMajor {
        return Ok(view);
    }
    fill(cpu, view, read, packed)?;
    let (rows, cols) = (view.rows(), view.cols());
    Ok(View::new(packed, rows, cols, Layout::row_major(cols))?)
}

/// Makes `packed` the row-major copy of a column-major matrix; of one that is not `read` its elements are any.
fn fill<E: Element>(
    cpu: &CpuContext,
    view: View<'_, E>,
    read: bool,
    packed: &mut Vec<E>,
) -> Result<(), Error> {
    *packed = allocate(view.rows(), view.cols(), "a row-major copy")?;
    if view.cols() > 0 && read {
        transpose(cpu.pool(), view, packed);
    }
    Ok(())
}

/// Copies a column-major matrix to a packed row-major one, a square at a time so that both sides
/// stay in the cache.
fn transpose<T: Element>(pool: &ThreadPool, from: View<'_, T>, to: &mut [T]) {
    use rayon::prelude::*;
    const SIDE: usize = 64;
    let (rows, cols) = (from.rows(), from.cols());
    let bands = to.par_chunks_mut(SIDE * cols).enumerate();
    pool.install(|| {
        bands.for_each(|(band, to)| {
            let first = band * SIDE;
            let band_rows = SIDE.min(rows - first);
            for col0 in (0..cols).step_by(SIDE) {
                for col in col0..cols.min(col0 + SIDE) {
                    let column = from.column(col).expect("invariant: columns are contiguous");
                    let column = &column[first..][..band_rows];
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
    use super::*;

    #[test]
    fn a_copy_has_the_elements_of_the_matrix() {
        let cpu = CpuContext::new(std::num::NonZeroUsize::new(2)).unwrap();
        for (k, n, ld) in [(1, 1, 1), (70, 3, 71), (65, 130, 65), (3, 0, 3)] {
            let data: Vec<f32> = (0..ld * n).map(|at| at as f32).collect();
            let plain = Problem::<f32>::new(2, n, k);
            let mut problem = Problem { b: Layout::col_major(ld), ..plain };
            let before = problem;
            let mut packed = Vec::new();
            let copy = row_major(&cpu, &mut problem, Operand::B, &data, &mut packed).unwrap();
            assert_eq!(problem, plain);
            for row in 0..k {
                for col in 0..n {
                    let (new, old) = (problem.b.index(row, col), before.b.index(row, col));
                    assert_eq!(copy[new], data[old], "{k} {n} {ld}");
                }
            }
        }
    }

    #[test]
    fn a_short_buffer_is_refused() {
        let cpu = CpuContext::new(std::num::NonZeroUsize::new(1)).unwrap();
        let mut problem = Problem { a: Layout::col_major(3), ..Problem::<f32>::new(3, 2, 4) };
        let (data, mut packed) = ([0f32; 11], Vec::new());
        let refused = row_major(&cpu, &mut problem, Operand::A, &data, &mut packed);
        assert!(matches!(refused, Err(Error::Shape(ShapeError::BufferTooShort { .. }))));
        assert_eq!(problem.a, Layout::col_major(3));
    }
}
