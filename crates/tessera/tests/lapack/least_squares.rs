//! Least squares, and the shortest solutions.

use tessera::Order;
use tessera::lapack::{Op, gels};

use crate::matrix::{Exact, Matrix, Number, ORDERS, distance, product};
use crate::{context, of_all_types};

of_all_types!(solutions_are_best);

fn solutions_are_best<T: Number>() {
    let context = context();
    let shapes = [(1, 1), (4, 4), (9, 5), (5, 9), (40, 33), (33, 40), (150, 70), (70, 150)];
    for (case, (rows, cols)) in shapes.into_iter().enumerate() {
        for (op, scale) in
            [(Op::NoTrans, 1.0), (Op::ConjTrans, 1.0), (Op::NoTrans, 1e-36), (Op::ConjTrans, 1e37)]
        {
            let order = ORDERS[case % 2];
            let a = Matrix::<T>::any(rows, cols, order, 1);
            let a = Matrix::<T>::of(rows, cols, order, |i, j| a.get(i, j) * T::of(scale, 0.0));
            let (equations, unknowns) = if op == Op::NoTrans { (rows, cols) } else { (cols, rows) };
            let of_op = |i: usize, j: usize| match op {
                Op::NoTrans => a.get(i, j).exact(),
                Op::Trans | Op::ConjTrans => a.get(j, i).exact().conj(),
            };
            let adjoint = |j: usize, i: usize| of_op(i, j).conj();
            let given = Matrix::<T>::any(equations, 3, order, 2);
            let mut b = Matrix::of(rows.max(cols), 3, order, |i, j| match i < equations {
                true => given.get(i, j),
                false => T::of(f64::NAN, f64::NAN),
            });
            let mut factors = a.clone();
            let mut tau = vec![T::ZERO; rows.min(cols)];
            let done =
                gels(op, factors.view_mut(), &mut tau, b.view_mut(), &context).expect("it fits");
            let what = format!("{rows} {cols} {op:?} {scale:e}");
            assert_eq!(done, None, "{what}");
            b.check_padding(&what);
            let x = |i: usize, j: usize| b.get(i, j).exact();
            let back = product((equations, 3, unknowns), of_op, x);
            let rest = |i: usize, j: usize| back(i, j) - given.get(i, j).exact();
            let largest = distance((unknowns, 3), x, |_, _| Exact::ZERO) * scale + 1.0;
            let most = 400.0 * T::EPSILON * (rows.max(cols) * rows.max(cols)) as f64 * largest;
            let left = if equations >= unknowns {
                // What is left over is orthogonal to all columns.
                distance((unknowns, 3), product((unknowns, 3, equations), adjoint, rest), |_, _| {
                    Exact::ZERO
                }) / scale
            } else {
                distance((equations, 3), rest, |_, _| Exact::ZERO)
            };
            assert!(left <= most, "{what}: {left:e} is more than {most:e}");
            // Of scaled matrices what it is a sum of may underflow.
            if equations < unknowns && scale == 1.0 {
                // The shortest solution is a sum of rows: it solves `A^H * y = x` exactly.
                let mut rows_sum = Matrix::of(unknowns, 3, order, |i, j| b.get(i, j));
                let turned = if op == Op::NoTrans { Op::ConjTrans } else { Op::NoTrans };
                let mut factors = a.clone();
                gels(turned, factors.view_mut(), &mut tau, rows_sum.view_mut(), &context)
                    .expect("it fits");
                let y = |i: usize, j: usize| rows_sum.get(i, j).exact();
                let again = product((unknowns, 3, equations), adjoint, y);
                let left = distance((unknowns, 3), again, x);
                assert!(left <= most, "{what}: {left:e} from the shortest");
            }
        }
    }
}

#[test]
fn zeros_and_rank() {
    let context = context();
    for order in ORDERS {
        let mut b = Matrix::of(4, 2, order, |_, _| 3.0);
        let mut a = Matrix::of(4, 3, order, |_, _| 0.0);
        let done = gels(Op::NoTrans, a.view_mut(), &mut [0.0; 3], b.view_mut(), &context);
        assert_eq!(done.expect("it fits"), None);
        assert!(
            (0..4).all(|i| (0..2).all(|j| b.get(i, j) == 0.0)),
            "of zeros the shortest is zero"
        );
        let mut a = Matrix::of(4, 3, order, |i, j| if i == j && j != 1 { 2.0 } else { 0.0 });
        let done = gels(Op::NoTrans, a.view_mut(), &mut [0.0; 3], b.view_mut(), &context);
        assert_eq!(done.expect("it fits"), Some(1));
    }
    let mut a = Matrix::<f32>::any(0, 3, Order::ColMajor, 1);
    let mut b = Matrix::of(3, 1, Order::ColMajor, |_, _| 1.0);
    assert_eq!(
        gels(Op::NoTrans, a.view_mut(), &mut [], b.view_mut(), &context).expect("it fits"),
        None
    );
    assert_eq!(b.get(2, 0), 0.0);
}
