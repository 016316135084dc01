//! Properties of kernels beyond the plain chain of multiply-adds: some take factors in any order, and
//! those whose bits are not serial's have the same bits each time.

use gemm_spec::Layout;
use kernels_gpu::Kernel;
use lab::{Scalar, ScalarTypes};
use libtest_mimic::Failed;

use crate::support::{Case, Operands};
use crate::{Backend, Extent, Standard, with_gpu};

/// Both orders of both factors, with padding that keeps lines aligned and padding that does not. A part has each pair of
/// orders once, and each padding.
pub(crate) fn takes_every_order<T: ScalarTypes>(
    backend: Backend,
    spec: Kernel,
    extent: Extent,
) -> Result<(), Failed> {
    takes_every_order_of::<T>((backend, extent), spec, (150, 70, 97))?;
    // Few tiles and a long k: several blocks share it, where they can. On the emulator two do, which takes less time;
    // `every_order_of_events` has more.
    if spec.split_k.is_possible() {
        let k = if backend == Backend::Emulator { 801 } else { 5001 };
        takes_every_order_of::<T>((backend, extent), spec, (70, 150, k))?;
    }
    Ok(())
}

fn takes_every_order_of<T: ScalarTypes>(
    (backend, extent): (Backend, Extent),
    spec: Kernel,
    (m, n, k): (usize, usize, usize),
) -> Result<(), Failed> {
    let plain = Operands::<T>::draw(&Case::new(m, n, k));
    let standard = Standard::new(spec, &plain)?;
    let paddings = [0, 1, 8];
    for orders in 0..4 {
        for (number, padding) in paddings.into_iter().enumerate() {
            if !extent.has(orders + paddings.len() - number, paddings.len()) {
                continue;
            }
            let (mut problem, mut a, mut b) = (plain.problem, plain.a.clone(), plain.b.clone());
            let ld = |rows: usize| rows.next_multiple_of(8) + padding;
            if orders & 1 != 0 {
                (problem.a, a) = (Layout::col_major(ld(m)), col_major(&a, m, k, ld(m)));
            }
            if orders & 2 != 0 {
                (problem.b, b) = (Layout::col_major(ld(k)), col_major(&b, k, n, ld(k)));
            }
            let operands = Operands { problem, a, b, c: Vec::new() };
            let found = operands.run(|problem, a, b, c| backend.run(spec, problem, a, b, c))?;
            standard
                .holds(&found)
                .map_err(|what| format!("orders {orders}, padding {padding}: {what}"))?;
        }
    }
    Ok(())
}

/// A row-major matrix in column-major order with a leading dimension; poison between.
pub(crate) fn col_major<T: Scalar>(from: &[T], rows: usize, cols: usize, ld: usize) -> Vec<T> {
    let mut to = vec![T::POISON; cols * ld];
    for row in 0..rows {
        for col in 0..cols {
            to[col * ld + row] = from[row * cols + col];
        }
    }
    to
}

/// The same product a thousand times gives the same bits, whatever its workspace holds before.
pub(crate) fn repeats_its_bits<T: ScalarTypes>(
    _: Backend,
    spec: Kernel,
    _: Extent,
) -> Result<(), Failed> {
    let (m, n, k) = (700, 600, 800);
    let Operands { problem, a, b, .. } = Operands::<T>::draw(&Case::new(m, n, k));
    let same = with_gpu(|gpu| {
        let operands = gpu.upload(&problem, &a, &b)?;
        let mut first: Option<Vec<T::C>> = None;
        for run in 0..1000 {
            // Zeros, NaNs, and what the run before has left.
            match run % 3 {
                1 => gpu.fill_workspaces(0xff)?,
                2 => gpu.fill_workspaces(0)?,
                _ => {}
            }
            let mut c = vec![T::C::POISON; m * n];
            let mut output = gpu.output(&c, 0)?;
            operands.run(spec, &mut output)?;
            output.download(&mut c)?;
            let first = first.get_or_insert_with(|| c.clone());
            if !first.iter().zip(&c).all(|(x, y)| x.same_bits(*y)) {
                return Ok(false);
            }
        }
        Ok(true)
    });
    if same.map_err(|error| error.to_string())? { Ok(()) } else { Err("two runs differ".into()) }
}
