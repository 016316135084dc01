//! The rules of NaN, infinity and zero, and of sizes that do not fit.

use super::*;
use tessera::Error;
use tessera::blas3::{Field, View, ViewMut};
use tessera::{Layout, Order};

/// A zero of B does not hide what it is multiplied by.
#[test]
fn a_zero_hides_no_nan() {
    let context = context();
    for n in [4, 40, 70] {
        for (solve, bad) in [(false, f64::NAN), (true, f64::NAN), (false, f64::INFINITY)] {
            let layout = Layout::col_major(n);
            let mut a = vec![0.0; n * n];
            (0..n).for_each(|i| a[layout.index(i, i)] = 1.0);
            a[layout.index(n - 1, 0)] = bad;
            let mut b = vec![0.0; n];
            let a = View::new(&a, n, n, layout).expect("it fits");
            let x = ViewMut::new(&mut b, n, 1, Layout::col_major(n)).expect("it fits");
            let routine = if solve { blas3::trsm } else { blas3::trmm };
            let (uplo, op, diag) = (Uplo::Lower, Op::NoTrans, Diag::NonUnit);
            routine(Side::Left, uplo, op, diag, 1.0, a, x, &context).expect("it fits");
            assert!(b[n - 1].is_nan(), "{n} {solve} {bad}");
            assert!(b[..n - 1].iter().all(|&x| x == 0.0), "{n} {solve} {bad}: {b:?}");
        }
    }
}

/// A zero pivot reaches no row that is solved before it: nothing is inverted ahead.
#[test]
fn a_zero_on_the_diagonal_spoils_nothing_before_it() {
    let context = context();
    let n = 50;
    let layout = Layout::col_major(n);
    let mut a = vec![0.0f32; n * n];
    (0..n).for_each(|i| a[layout.index(i, i)] = if i == 20 { 0.0 } else { 2.0 });
    let mut b = vec![2.0; n];
    let a = View::new(&a, n, n, layout).expect("it fits");
    let x = ViewMut::new(&mut b, n, 1, layout).expect("it fits");
    let (uplo, op, diag) = (Uplo::Lower, Op::NoTrans, Diag::NonUnit);
    blas3::trsm(Side::Left, uplo, op, diag, 1.0, a, x, &context).expect("it fits");
    assert_eq!(b[20], f32::INFINITY);
    assert!(b[..20].iter().all(|&x| x == 1.0), "{b:?}");
}

/// NaN in alpha or beta gives NaN.
#[test]
fn nan_as_a_factor_is_not_zero() {
    let context = context();
    for n in [3, 70] {
        let layout = Layout::col_major(n);
        let ones = vec![1.0f64; n * n];
        let a = View::new(&ones, n, n, layout).expect("it fits");
        for (alpha, beta) in [(f64::NAN, 0.0), (0.0, f64::NAN), (1.0, f64::NAN)] {
            let mut c = ones.clone();
            let view = ViewMut::new(&mut c, n, n, layout).expect("it fits");
            blas3::gemm(Op::NoTrans, Op::NoTrans, alpha, a, a, beta, view, &context)
                .expect("it fits");
            assert!(c.iter().all(|c| c.is_nan()), "{n} {alpha} {beta}");
            let mut c = ones.clone();
            let view = ViewMut::new(&mut c, n, n, layout).expect("it fits");
            blas3::syrk(Uplo::Upper, Op::NoTrans, alpha, a, beta, view, &context).expect("it fits");
            assert_eq!(c.iter().filter(|c| c.is_nan()).count(), n * (n + 1) / 2);
        }
        let mut b = ones.clone();
        let view = ViewMut::new(&mut b, n, n, layout).expect("it fits");
        let (uplo, op, diag) = (Uplo::Upper, Op::Trans, Diag::Unit);
        blas3::trsm(Side::Right, uplo, op, diag, f64::NAN, a, view, &context).expect("it fits");
        assert!(b.iter().all(|b| b.is_nan()));
    }
}

/// A right-hand side has the bits that it has among others, as many as there are: they are computed by panels of several
/// widths, and few of few rows by themselves.
#[test]
fn right_hand_sides_have_the_same_bits_together_and_apart() {
    apart(|at| 1.0f32 / (at % 97 + 3) as f32 - 0.1);
    apart(|at| 1.0f64 / (at % 97 + 3) as f64 - 0.1);
    apart(|at| Complex::new(1.0f32 / (at % 97 + 3) as f32 - 0.1, 1.0 / (at % 31 + 5) as f32));
    apart(|at| Complex::new(1.0f64 / (at % 97 + 3) as f64 - 0.1, 1.0 / (at % 31 + 5) as f64));
}

fn apart<T: Field>(element: impl Fn(usize) -> T) {
    let (context, cols, alpha) = (context(), 70, element(7));
    for n in [1, 2, 4, 7, 32] {
        let layout = Layout::col_major(n);
        let a: Vec<T> = (0..n * n).map(|at| element(at * 5)).collect();
        let a = View::new(&a, n, n, layout).expect("it fits");
        let given: Vec<T> = (0..n * cols).map(|at| element(at * 3 + 1)).collect();
        for case in 0..16 {
            let is = |bit: usize| case & bit != 0;
            let routine = if is(1) { blas3::trsm } else { blas3::trmm };
            let uplo = if is(2) { Uplo::Upper } else { Uplo::Lower };
            let op = if is(4) { Op::ConjTrans } else { Op::NoTrans };
            let diag = if is(8) { Diag::Unit } else { Diag::NonUnit };
            let compute = |from: usize, width: usize| {
                let mut b = given[from * n..(from + width) * n].to_vec();
                let x = ViewMut::new(&mut b, n, width, layout).expect("it fits");
                routine(Side::Left, uplo, op, diag, alpha, a, x, &context).expect("it fits");
                b
            };
            let together = compute(0, cols);
            for width in [1, 3, 17, 40] {
                for from in (0..cols - width).step_by(width) {
                    let expected = &together[from * n..(from + width) * n];
                    assert!(compute(from, width) == expected, "{n} {case} {width} {from}");
                }
            }
        }
    }
}

/// Many threads through one context get the bits that one thread gets.
#[test]
fn bits_do_not_depend_on_threads() {
    let (n, m) = (300, 200);
    let layout = Layout { order: Order::ColMajor, ld: n };
    let a: Vec<f64> = (0..n * n).map(|at| 1.0 / (at % 97 + 3) as f64).collect();
    let given: Vec<f64> = (0..n * m).map(|at| 1.0 / (at % 89 + 2) as f64).collect();
    let solve = |context: &CpuContext| {
        let mut b = given.clone();
        let a = View::new(&a, n, n, layout).expect("it fits");
        let x = ViewMut::new(&mut b, n, m, layout).expect("it fits");
        let (uplo, op, diag) = (Uplo::Lower, Op::Trans, Diag::Unit);
        blas3::trsm(Side::Left, uplo, op, diag, 1.0, a, x, context).expect("it fits");
        let mut c = vec![0.0; n * n];
        let x = View::new(&b, n, m, layout).expect("it fits");
        let view = ViewMut::new(&mut c, n, n, layout).expect("it fits");
        blas3::syrk(Uplo::Lower, Op::NoTrans, 1.0, x, 0.0, view, context).expect("it fits");
        c.iter().map(|c| c.to_bits()).collect::<Vec<_>>()
    };
    let alone = solve(&CpuContext::alone());
    let context = context();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| assert!(solve(&context) == alone));
        }
    });
}

#[test]
fn sizes_that_do_not_fit_are_named() {
    let context = context();
    let (a, mut c) = ([0f32; 12], [0f32; 9]);
    let a = View::new(&a, 3, 4, Layout::row_major(4)).expect("it fits");
    let mut view = ViewMut::new(&mut c, 3, 3, Layout::row_major(3)).expect("it fits");
    let (side, uplo, op) = (Side::Left, Uplo::Upper, Op::NoTrans);
    let refused = blas3::gemm(op, op, 1.0, a, a, 0.0, view.reborrow(), &context).unwrap_err();
    assert_eq!(refused.to_string(), "gemm: op(B) is 3 x 4, it must be 4 x 3");
    let refused = blas3::trsm(side, uplo, op, Diag::Unit, 1.0, a, view.reborrow(), &context);
    assert!(matches!(refused, Err(Error::Operand { routine: "trsm", matrix: "A", .. })));
    let refused = blas3::syrk(uplo, Op::Trans, 1.0, a, 0.0, view.reborrow(), &context);
    assert!(matches!(refused, Err(Error::Operand { routine: "syrk", .. })));
    let refused = blas3::symm(side, uplo, 1.0, a, a, 0.0, view, &context);
    assert!(matches!(refused, Err(Error::Operand { routine: "symm", .. })));
}
