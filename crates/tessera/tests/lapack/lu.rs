//! LU with partial pivoting.

use tessera::lapack::{Complex, Op, gesv, getrf, getrs};
use tessera::{CpuContext, Error, Order};

use crate::matrix::{Exact, Matrix, Number, ORDERS, distance, one, product};
use crate::{context, context_of, of_all_types, shapes, sizes};

of_all_types!(factors_of_integers_are_found residuals_are_small systems_are_solved);

/// The elements of L and U: with multipliers of a half at most no other row qualifies as a pivot.
fn lower<T: Number>(i: usize, j: usize) -> T {
    let at = (i * 7 + j * 3) % 5;
    match i.cmp(&j) {
        std::cmp::Ordering::Less => T::ZERO,
        std::cmp::Ordering::Equal => T::ONE,
        std::cmp::Ordering::Greater => {
            T::of([0.0, 0.25, -0.25, 0.5, 0.0][at], [0.25, 0.0, 0.25, 0.0, -0.25][at])
        }
    }
}

fn upper<T: Number>(i: usize, j: usize) -> T {
    let at = (i * 3 + j * 5) % 7;
    match i.cmp(&j) {
        std::cmp::Ordering::Less if at < 3 => T::of(at as f64 - 1.0, (j % 3) as f64 - 1.0),
        std::cmp::Ordering::Less | std::cmp::Ordering::Greater => T::ZERO,
        std::cmp::Ordering::Equal if T::IS_COMPLEX && i % 3 == 1 => T::of(0.0, 2.0),
        std::cmp::Ordering::Equal => T::of(if i.is_multiple_of(2) { 2.0 } else { -4.0 }, 0.0),
    }
}

/// The interchanges that the test asks for.
fn wanted_pivots(rows: usize, steps: usize) -> Vec<usize> {
    (0..steps).map(|step| step + step * 5 % (rows - step)).collect()
}

fn factors_of_integers_are_found<T: Number>() {
    let context = context();
    for (case, (rows, cols)) in shapes().enumerate() {
        let steps = rows.min(cols);
        let of_l = |i, p| lower::<T>(i, p).exact();
        let whole = product((rows, cols, steps), of_l, |p, j| upper::<T>(p, j).exact());
        // The interchanges undone, the last first.
        let expected = wanted_pivots(rows, steps);
        let mut source: Vec<usize> = (0..rows).collect();
        expected.iter().enumerate().rev().for_each(|(step, &to)| source.swap(step, to));
        let of = |value: Exact| T::of(value.re, value.im);
        let mut a = Matrix::of(rows, cols, ORDERS[case % 2], |i, j| of(whole(source[i], j)));
        let mut pivots = vec![usize::MAX; steps];
        let singular = getrf(a.view_mut(), &mut pivots, &context).expect("it fits");
        let what = format!("{rows} {cols}");
        assert_eq!(singular, None, "{what}");
        assert_eq!(pivots, expected, "{what}");
        for i in 0..rows {
            for j in 0..cols {
                let wanted = if i > j { lower(i, j) } else { upper(i, j) };
                assert_eq!(a.get(i, j), wanted, "{what}: {i} {j}");
            }
        }
        a.check_padding(&what);
    }
}

fn residuals_are_small<T: Number>() {
    let context = context();
    for (case, (rows, cols)) in shapes().enumerate() {
        let before = Matrix::<T>::any(rows, cols, ORDERS[case % 2], 1);
        let (mut a, steps) = (before.clone(), rows.min(cols));
        let mut pivots = vec![0; steps];
        assert_eq!(getrf(a.view_mut(), &mut pivots, &context).expect("it fits"), None);
        let l = |i: usize, p: usize| if i > p { a.get(i, p).exact() } else { one(i, p) };
        let u = |p: usize, j: usize| if p > j { Exact::ZERO } else { a.get(p, j).exact() };
        assert!((0..rows).all(|i| (0..i.min(steps)).all(|j| l(i, j).norm_sqr() <= 2.1)));
        let mut source: Vec<usize> = (0..rows).collect();
        pivots.iter().enumerate().for_each(|(step, &to)| source.swap(step, to));
        let found = product((rows, cols, steps), l, u);
        let left = distance((rows, cols), found, |i, j| before.get(source[i], j).exact());
        let most = 4.0 * T::EPSILON * (steps + 1) as f64;
        assert!(left <= most, "{rows} {cols}: {left:e} is more than {most:e}");
        a.check_padding(&format!("{rows} {cols}"));
    }
}

fn systems_are_solved<T: Number>() {
    let context = context();
    for (case, n) in sizes().enumerate() {
        let order = |bit: usize| ORDERS[case >> bit & 1];
        let (a, x) =
            (Matrix::<T>::any(n, n, order(0), 2), Matrix::<T>::any(n, case % 7, order(1), 3));
        let (mut factors, mut pivots) = (a.clone(), vec![0; n]);
        let singular = getrf(factors.view_mut(), &mut pivots, &context).expect("it fits");
        assert_eq!(singular, None);
        for op in [Op::NoTrans, Op::Trans, Op::ConjTrans] {
            let of_op = |i, p| match op {
                Op::NoTrans => a.get(i, p).exact(),
                Op::Trans => a.get(p, i).exact(),
                Op::ConjTrans => a.get(p, i).exact().conj(),
            };
            let b = product((n, x.cols, n), of_op, x.exact());
            let mut found =
                Matrix::<T>::of(n, x.cols, order(1), |i, j| T::of(b(i, j).re, b(i, j).im));
            getrs(op, factors.view(), &pivots, found.view_mut(), &context).expect("it fits");
            let back = product((n, x.cols, n), of_op, found.exact());
            let largest = distance((n, x.cols), found.exact(), |_, _| Exact::ZERO) + 1.0;
            let left = distance((n, x.cols), back, b);
            let most = 16.0 * T::EPSILON * (n + 1) as f64 * largest;
            assert!(left <= most, "{n} {op:?}: {left:e} is more than {most:e}");
            found.check_padding(&format!("{n} {op:?}"));
        }
    }
}

/// A zero pivot is told, the first of several, and the other columns are factored all the same.
#[test]
fn the_first_zero_pivot_is_told() {
    let context = context();
    for n in [1, 3, 20, 70] {
        for zero in [0, n / 2, n - 1] {
            let mut a = Matrix::<f64>::of(n, n, Order::ColMajor, |i, j| match i == j && i < zero {
                true => 2.0,
                false if j > zero && i == j => 3.0,
                false => 0.0,
            });
            let mut pivots = vec![usize::MAX; n];
            let singular = getrf(a.view_mut(), &mut pivots, &context).expect("it fits");
            assert_eq!(singular, Some(zero), "{n}");
            assert!((zero + 1..n).all(|at| a.get(at, at) == 3.0), "{n} {zero}");
            assert_eq!(pivots, (0..n).collect::<Vec<_>>());
            let mut b = Matrix::of(n, 1, Order::ColMajor, |_, _| 7.0);
            let before = b.bits();
            let singular = gesv(a.view_mut(), &mut pivots, b.view_mut(), &context);
            assert_eq!((singular.expect("it fits"), b.bits()), (Some(zero), before));
        }
    }
}

/// Of rows that qualify alike the first is taken; of complex numbers by the sum of the parts' magnitudes.
#[test]
fn ties_go_to_the_first_row() {
    use tessera::lapack::Complex;
    let context = context();
    let column = [(1.0, 0.0), (2.0, -1.0), (0.0, 3.0), (-3.0, 0.0)];
    for order in ORDERS {
        let mut a = Matrix::of(4, 1, order, |i, _| Complex::new(column[i].0, column[i].1));
        let mut pivots = [0];
        getrf(a.view_mut(), &mut pivots, &context).expect("it fits");
        assert_eq!(pivots, [1]);
    }
}

/// A NaN spoils what depends on it, and ends nothing.
#[test]
fn nan_comes_through() {
    let context = context();
    for n in [2, 9, 40] {
        for order in ORDERS {
            let mut a = Matrix::<f64>::any(n, n, order, 9);
            a.set(n - 1, 0, f64::NAN);
            let mut pivots = vec![0; n];
            assert_eq!(getrf(a.view_mut(), &mut pivots, &context).expect("it fits"), None);
            assert!(a.get(n - 1, n - 1).is_nan());
            assert!(!a.get(0, 0).is_nan());
        }
    }
}

/// Pivots so small that their reciprocals overflow.
#[test]
fn tiny_pivots_divide() {
    let context = context();
    let tiny = 4e-320;
    let mut a = Matrix::of(3, 1, Order::ColMajor, |i, _| [tiny, tiny / 2.0, -tiny][i]);
    getrf(a.view_mut(), &mut [0], &context).expect("it fits");
    assert_eq!([a.get(1, 0), a.get(2, 0)], [0.5, -1.0]);
}

#[test]
fn bits_do_not_depend_on_threads() {
    fn check<T: Number>(rows: usize, cols: usize) {
        for order in ORDERS {
            let factor = |context: &CpuContext| {
                let mut a = Matrix::<T>::any(rows, cols, order, 4);
                let mut pivots = vec![0; rows.min(cols)];
                getrf(a.view_mut(), &mut pivots, context).expect("it fits");
                (a.bits(), pivots)
            };
            let alone = factor(&CpuContext::alone());
            for threads in [2, 4] {
                assert!(
                    alone == factor(&context_of(threads)),
                    "{rows} by {cols}, {order:?}, {threads} threads"
                );
            }
        }
    }
    check::<f32>(600, 600);
    check::<f64>(700, 300);
    check::<f64>(300, 700);
    check::<f64>(1100, 1000);
    check::<Complex<f64>>(500, 520);
}

#[test]
fn what_does_not_fit_is_named() {
    let context = context();
    let mut a = Matrix::<f64>::any(3, 4, Order::ColMajor, 5);
    let refused = getrf(a.view_mut(), &mut [0; 4], &context).unwrap_err();
    assert_eq!(refused.to_string(), "getrf: the pivots' list is 4 x 1, it must be 3 x 1");
    let mut b = Matrix::<f64>::any(3, 1, Order::ColMajor, 5);
    let a = Matrix::<f64>::any(3, 3, Order::ColMajor, 5);
    let refused = getrs(Op::Trans, a.view(), &[0, 1, 3], b.view_mut(), &context).unwrap_err();
    assert!(matches!(refused, Error::Operand { routine: "getrs", .. }), "{refused}");
}
