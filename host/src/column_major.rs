//! A problem as libraries want it that know column-major matrices only.
//!
//! A row-major matrix is the transposed one in column-major order. So a row-major C is computed as
//! `Cᵀ = Bᵀ Aᵀ`: the factors change places, and one that lies in the order of C needs no transposition.

use gemm_spec::{GemmTypes, Operand, Order, Problem};

/// A factor of the column-major product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Factor {
    /// Which of the problem's operands it is.
    pub(crate) operand: Operand,
    /// Whether the library is to transpose it.
    pub(crate) transposed: bool,
    /// Its leading dimension.
    pub(crate) ld: i32,
}

/// `C = alpha * first * second + beta * C`, everything column-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ColumnMajor {
    /// Rows of the library's C.
    pub(crate) m: i32,
    /// Columns of the library's C.
    pub(crate) n: i32,
    /// Columns of the first factor.
    pub(crate) k: i32,
    pub(crate) first: Factor,
    pub(crate) second: Factor,
    /// Leading dimension of C.
    pub(crate) ldc: i32,
}

impl ColumnMajor {
    /// The problem in a library's terms; in words where a size does not fit 32 bits.
    pub(crate) fn new<T: GemmTypes>(problem: &Problem<T>) -> Result<Self, String> {
        let number = |size: usize| {
            i32::try_from(size).map_err(|_| format!("takes sizes below 2^31, not {size}"))
        };
        let factor = |operand: Operand| {
            let layout = problem.layout(operand);
            let transposed = layout.order != problem.c.order;
            Ok::<_, String>(Factor { operand, transposed, ld: number(layout.ld)? })
        };
        let (rows, cols) = (number(problem.m)?, number(problem.n)?);
        let (a, b) = (factor(Operand::A)?, factor(Operand::B)?);
        let (m, n, first, second) = match problem.c.order {
            Order::RowMajor => (cols, rows, b, a),
            Order::ColMajor => (rows, cols, a, b),
        };
        Ok(Self { m, n, k: number(problem.k)?, first, second, ldc: number(problem.c.ld)? })
    }

    /// The two operands in the library's order.
    pub(crate) fn ordered<P>(&self, a: P, b: P) -> (P, P) {
        if self.first.operand == Operand::A { (a, b) } else { (b, a) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use gemm_spec::Layout;

    use super::*;

    /// What the libraries promise, in plain loops.
    pub(crate) fn reference(
        call: &ColumnMajor,
        alpha: f64,
        first: impl Fn(usize) -> f64,
        second: impl Fn(usize) -> f64,
        beta: f64,
        c: &mut [f64],
    ) {
        let at = |factor: &Factor, row: usize, col: usize| {
            let (row, col) = if factor.transposed { (col, row) } else { (row, col) };
            row + col * factor.ld as usize
        };
        for row in 0..call.m as usize {
            for col in 0..call.n as usize {
                let products = (0..call.k as usize)
                    .map(|k| first(at(&call.first, row, k)) * second(at(&call.second, k, col)));
                let c = &mut c[row + col * call.ldc as usize];
                let old = if beta == 0.0 { 0.0 } else { beta * *c };
                *c = alpha * products.sum::<f64>() + old;
            }
        }
    }

    /// Problems of every combination of orders, with room between lines, and their operands.
    pub(crate) fn problems() -> impl Iterator<Item = (Problem<f64>, Vec<f64>, Vec<f64>)> {
        let (m, n, k) = (3, 4, 5);
        let both =
            |rows: usize, cols: usize| [Layout::row_major(cols + 1), Layout::col_major(rows + 2)];
        let layouts = both(m, k).into_iter().flat_map(move |a| {
            both(k, n).into_iter().flat_map(move |b| both(m, n).map(move |c| (a, b, c)))
        });
        layouts.map(move |(a, b, c)| {
            let problem = Problem::new(m, n, k).with_layouts(a, b, c).with_scalars(2.0, 0.0);
            let drawn =
                |seed: usize| (0..64).map(move |i| ((i * seed) % 11) as f64 - 5.0).collect();
            (problem, drawn(7), drawn(5))
        })
    }

    /// The product by the problem's own indices.
    pub(crate) fn expected(
        problem: &Problem<f64>,
        a: &[f64],
        b: &[f64],
        row: usize,
        col: usize,
    ) -> f64 {
        let sum: f64 =
            (0..problem.k).map(|k| a[problem.a.index(row, k)] * b[problem.b.index(k, col)]).sum();
        problem.alpha * sum
    }

    #[test]
    fn every_combination_of_orders_gives_the_product() {
        let mut cases = 0;
        for (problem, a, b) in problems() {
            let call = ColumnMajor::new(&problem).unwrap();
            let mut c = vec![f64::NAN; 64];
            let (first, second) = call.ordered(&a, &b);
            reference(&call, problem.alpha, |at| first[at], |at| second[at], 0.0, &mut c);
            for row in 0..problem.m {
                for col in 0..problem.n {
                    let found = c[problem.c.index(row, col)];
                    assert_eq!(found, expected(&problem, &a, &b, row, col), "{problem:?}");
                }
            }
            cases += 1;
        }
        assert_eq!(cases, 8);
    }

    #[test]
    fn sizes_beyond_the_libraries_integers_are_refused() {
        let refusal = ColumnMajor::new(&Problem::<f32>::new(1 << 31, 1, 1)).unwrap_err();
        assert!(refusal.contains("2147483648"), "{refusal}");
    }
}
