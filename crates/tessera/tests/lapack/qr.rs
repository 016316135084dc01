//! QR and LQ.

use tessera::lapack::{Complex, Op, Side, gelqf, geqrf, orgqr, ormlq, ormqr};
use tessera::{CpuContext, Order};

use crate::matrix::{Exact, Matrix, Number, ORDERS, distance, one, product};
use crate::{context, of_all_types, shapes};

of_all_types!(q_times_r_is_a l_times_q_is_a q_is_applied_from_both_sides);

/// What rounding may leave over of products of that many numbers of about one.
fn most<T: Number>(count: usize) -> f64 {
    8.0 * T::EPSILON * (count + 4) as f64
}

fn q_times_r_is_a<T: Number>() {
    let context = context();
    for (case, (rows, cols)) in shapes().enumerate() {
        let before = Matrix::<T>::any(rows, cols, ORDERS[case % 2], 1);
        let (mut a, count) = (before.clone(), rows.min(cols));
        let mut tau = vec![T::ZERO; count];
        geqrf(a.view_mut(), &mut tau, &context).expect("it fits");
        let what = format!("{rows} {cols}");
        a.check_padding(&what);
        assert!(
            (0..count).all(|at| a.get(at, at).exact().im == 0.0),
            "{what}: R's diagonal is real"
        );
        let r = |p: usize, j: usize| if p > j { Exact::ZERO } else { a.get(p, j).exact() };
        let mut q = Matrix::of(rows, count, ORDERS[case / 2 % 2], |i, j| a.get(i, j));
        orgqr(q.view_mut(), &tau, &context).expect("it fits");
        q.check_padding(&what);
        let left =
            distance((rows, cols), product((rows, cols, count), q.exact(), r), before.exact());
        assert!(left <= most::<T>(rows), "{what}: {left:e}");
        let adjoint = |p: usize, i: usize| q.get(i, p).exact().conj();
        let left = distance((count, count), product((count, count, rows), adjoint, q.exact()), one);
        assert!(left <= most::<T>(rows), "{what}: {left:e} from unitary");
        // Q^H * A is R.
        let mut found = before.clone();
        let reflectors = Matrix::of(rows, count, Order::ColMajor, |i, j| a.get(i, j));
        ormqr(Side::Left, Op::ConjTrans, reflectors.view(), &tau, found.view_mut(), &context)
            .expect("it fits");
        let left = distance((count, cols), found.exact(), r);
        assert!(left <= most::<T>(rows), "{what}: {left:e} from R");
    }
}

fn l_times_q_is_a<T: Number>() {
    let context = context();
    for (case, (rows, cols)) in shapes().enumerate() {
        let before = Matrix::<T>::any(rows, cols, ORDERS[case % 2], 1);
        let (mut a, count) = (before.clone(), rows.min(cols));
        let mut tau = vec![T::ZERO; count];
        gelqf(a.view_mut(), &mut tau, &context).expect("it fits");
        let what = format!("{rows} {cols}");
        a.check_padding(&what);
        let l = |i: usize, p: usize| if p > i { Exact::ZERO } else { a.get(i, p).exact() };
        let mut reflectors = Matrix::of(count, cols, ORDERS[case / 2 % 2], |i, j| a.get(i, j));
        let same = reflectors.bits();
        // L, with zeros behind it, times Q.
        let mut found = Matrix::<T>::of(rows, cols, ORDERS[case / 4 % 2], |i, j| {
            let element = if j < count { l(i, j) } else { Exact::ZERO };
            T::of(element.re, element.im)
        });
        ormlq(Side::Right, Op::NoTrans, reflectors.view_mut(), &tau, found.view_mut(), &context)
            .expect("it fits");
        assert!(reflectors.bits() == same);
        let left = distance((rows, cols), found.exact(), before.exact());
        assert!(left <= most::<T>(cols), "{what}: {left:e}");
    }
}

fn q_is_applied_from_both_sides<T: Number>() {
    let context = context();
    for (case, (order, count)) in
        [(1, 1), (5, 3), (30, 30), (70, 65), (150, 140)].into_iter().enumerate()
    {
        let mut a = Matrix::<T>::any(order, count, Order::ColMajor, 2);
        let mut tau = vec![T::ZERO; count];
        geqrf(a.view_mut(), &mut tau, &context).expect("it fits");
        let mut q = Matrix::of(order, order, Order::ColMajor, |i, j| {
            let one = one(i, j);
            T::of(one.re, one.im)
        });
        ormqr(Side::Left, Op::NoTrans, a.view(), &tau, q.view_mut(), &context).expect("it fits");
        let adjoint = |p: usize, i: usize| q.get(i, p).exact().conj();
        for (side, op) in [
            (Side::Left, Op::NoTrans),
            (Side::Left, Op::ConjTrans),
            (Side::Right, Op::NoTrans),
            (Side::Right, Op::ConjTrans),
        ] {
            let (rows, cols) = if side == Side::Left { (order, 7) } else { (7, order) };
            let c = Matrix::<T>::any(rows, cols, ORDERS[case % 2], 3);
            let mut found = c.clone();
            ormqr(side, op, a.view(), &tau, found.view_mut(), &context).expect("it fits");
            let of_q = |i, j| if op == Op::NoTrans { q.get(i, j).exact() } else { adjoint(i, j) };
            let size = (rows, cols, order);
            let left = match side {
                Side::Left => distance((rows, cols), found.exact(), product(size, of_q, c.exact())),
                Side::Right => {
                    distance((rows, cols), found.exact(), product(size, c.exact(), of_q))
                }
            };
            assert!(left <= most::<T>(order), "{order} {count} {side:?} {op:?}: {left:e}");
            found.check_padding(&format!("{order} {count} {side:?} {op:?}"));
        }
    }
}

/// A column that is done already needs no reflection, and very small and large ones are reflected as any.
#[test]
fn columns_of_all_magnitudes() {
    let context = context();
    for scale in [0.0, 1e-320, 1e-300, 1.0, 1e300] {
        let mut a = Matrix::of(3, 1, Order::ColMajor, |i, _| {
            Complex::new([0.0, 3.0, 0.0][i], [0.0, 0.0, 4.0][i]) * scale
        });
        let mut tau = [Complex::ONE];
        geqrf(a.view_mut(), &mut tau, &context).expect("it fits");
        let r: Complex<f64> = a.get(0, 0);
        assert!((r.re.abs() - 5.0 * scale).abs() <= 1e-3 * scale && r.im == 0.0, "{scale}: {r}");
        assert_eq!(tau[0] == Complex::ZERO, scale == 0.0);
    }
    let mut a = Matrix::of(3, 2, Order::ColMajor, |i, j| if i == j { 2.0 } else { 0.0 });
    let (before, mut tau) = (a.bits(), [9.0; 2]);
    geqrf(a.view_mut(), &mut tau, &context).expect("it fits");
    assert_eq!(tau, [0.0; 2]);
    let same = a.bits();
    assert_eq!(same[..3], before[..3]);
    let mut a =
        Matrix::of(9, 9, Order::ColMajor, |i, j| if i == 8 && j == 0 { f64::NAN } else { 1.0 });
    geqrf(a.view_mut(), &mut [0.0; 9], &context).expect("it fits");
    assert!(a.get(8, 8).is_nan());
}

#[test]
fn bits_do_not_depend_on_threads() {
    let factor = |context: &CpuContext| {
        let mut a = Matrix::<f64>::any(500, 400, Order::ColMajor, 4);
        geqrf(a.view_mut(), &mut vec![0.0; 400], context).expect("it fits");
        a.bits()
    };
    assert!(factor(&CpuContext::alone()) == factor(&context()));
}
