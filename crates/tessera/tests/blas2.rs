//! Level 2 against level 3 of one column, and its rules of NaN.

use tessera::blas2::{gemv, ger, hemv, symv, trsv};
use tessera::blas3::{self, Complex, Diag, Field, Op, Side, Uplo, View, ViewMut};
use tessera::{CpuContext, Layout};

const OPS: [Op; 3] = [Op::NoTrans, Op::Trans, Op::ConjTrans];
const ONE: Complex<f64> = Complex::new(1.0, 0.0);

fn values(len: usize, seed: usize) -> Vec<f64> {
    (0..len).map(|at| 1.0 / ((at * 37 + seed * 11) % 97 + 2) as f64).collect()
}

fn complex(len: usize, seed: usize) -> Vec<Complex<f64>> {
    let small = |at: usize| (at % 7) as f64 - 3.0;
    (0..len).map(|at| Complex::new(small(at * 5 + seed), small(at * 3 + seed))).collect()
}

/// Sizes of a matrix, and both orders of storage.
fn shapes() -> impl Iterator<Item = (usize, usize, Layout)> {
    let sizes = (1..=40).step_by(3).flat_map(|m| [(m, m), (m, 41 - m), (m + 100, 7), (300, m)]);
    sizes.flat_map(|(m, n)| [(m, n, Layout::col_major(m + 2)), (m, n, Layout::row_major(n + 1))])
}

/// Elements from `at` on, every `step`-th being the vector's.
fn column<T>(elements: &[T], len: usize, step: usize) -> View<'_, T> {
    let layout = if step == 1 { Layout::col_major(len) } else { Layout::row_major(step) };
    View::new(elements, len, 1, layout).expect("it fits")
}

/// One column gets the bits that it gets among others; of complex numbers, here small integers, all sums are exact.
#[test]
fn a_vector_is_a_column() {
    fn check<T: Field>(values: fn(usize, usize) -> Vec<T>, alpha: T, beta: T) {
        let context = CpuContext::alone();
        for (m, n, layout) in shapes() {
            let stored = values(layout.required_len(m, n).expect("it is small"), 1);
            let a = View::new(&stored, m, n, layout).expect("it fits");
            for (op, step) in OPS.into_iter().flat_map(|op| [(op, 1), (op, 3)]) {
                let (rows, k) = if op == Op::NoTrans { (m, n) } else { (n, m) };
                let (x, before) = (values(k * step, 2), values(rows * step, 3));
                let mut y = before.clone();
                let x_of = column(&x, k, step);
                let line = Layout::row_major(step);
                let y_of = ViewMut::new(&mut y, rows, 1, line).expect("it fits");
                gemv(op, alpha, a, x_of, beta, y_of, &context).expect("it fits");
                // Among other columns.
                let wide: Vec<T> = (0..3 * k).map(|at| x[at / 3 * step]).collect();
                let mut c: Vec<T> = (0..3 * rows).map(|at| before[at / 3 * step]).collect();
                let b = View::new(&wide, k, 3, Layout::row_major(3)).expect("it fits");
                let of_c = ViewMut::new(&mut c, rows, 3, Layout::row_major(3)).expect("it fits");
                blas3::gemm(op, Op::NoTrans, alpha, a, b, beta, of_c, &context).expect("it fits");
                for row in 0..rows {
                    assert_eq!(y[row * step], c[row * 3], "{m} {n} {layout:?} {op:?} {step} {row}");
                    let beside = row * step + 1..(row + 1) * step;
                    assert_eq!(y[beside.clone()], before[beside], "what is beside is left alone");
                }
            }
        }
    }
    check(values, 1.5, -0.75);
    check(complex, Complex::new(2.0, -1.0), Complex::new(0.0, 3.0));
}

/// The whole matrix, made of one triangle, gives the same; the other triangle holds NaN, and so does the imaginary part
/// of a Hermitian diagonal. All sums are of small integers.
#[test]
fn one_triangle_stands_for_the_matrix() {
    let context = CpuContext::alone();
    let nan = Complex::new(f64::NAN, f64::NAN);
    let (alpha, beta) = (Complex::new(2.0, -1.0), Complex::new(0.0, 3.0));
    for n in [1, 2, 7, 16, 40, 127, 128, 129, 300] {
        let layouts = [Layout::col_major(n + 2), Layout::row_major(n + 1)];
        for (layout, uplo, hermitian, step) in layouts.into_iter().flat_map(|layout| {
            let uplos = [Uplo::Lower, Uplo::Upper].into_iter();
            uplos.flat_map(move |uplo| [(layout, uplo, false, 1), (layout, uplo, true, 3)])
        }) {
            let len = layout.required_len(n, n).expect("it is small");
            let (mut stored, mut whole) = (vec![nan; len], vec![Complex::ZERO; n * n]);
            let drawn = complex(n * n, 1);
            for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let is_stored = if uplo == Uplo::Lower { i >= j } else { i <= j };
                if !is_stored {
                    continue;
                }
                let mut element = drawn[i * n + j];
                stored[layout.index(i, j)] = element;
                if hermitian && i == j {
                    stored[layout.index(i, i)].im = f64::NAN;
                    element.im = 0.0;
                }
                whole[i * n + j] = element;
                whole[j * n + i] = if hermitian { element.conj() } else { element };
            }
            let (x, before) = (complex(n * step, 2), complex(n * step, 3));
            let (mut found, mut right) = (before.clone(), before.clone());
            let a = View::new(&stored, n, n, layout).expect("it fits");
            let line = Layout::row_major(step);
            let y = ViewMut::new(&mut found, n, 1, line).expect("it fits");
            let product = if hermitian { hemv } else { symv };
            product(uplo, alpha, a, column(&x, n, step), beta, y, &context).expect("it fits");
            let a = View::new(&whole, n, n, Layout::row_major(n)).expect("it fits");
            let y = ViewMut::new(&mut right, n, 1, line).expect("it fits");
            gemv(Op::NoTrans, alpha, a, column(&x, n, step), beta, y, &context).expect("it fits");
            assert_eq!(found, right, "{n} {layout:?} {uplo:?} {hermitian}");
            // With beta zero y is not read, with alpha zero A is not.
            let zero = Complex::ZERO;
            let mut of_nan = vec![nan; n];
            let a = View::new(&stored, n, n, layout).expect("it fits");
            let y = ViewMut::new(&mut of_nan, n, 1, Layout::col_major(n)).expect("it fits");
            product(uplo, ONE, a, column(&x, n, step), zero, y, &context).expect("it fits");
            assert!(of_nan.iter().all(|y| y.re.is_finite() && y.im.is_finite()));
            let unread = [nan];
            let a = View::new(&unread, 1, 1, Layout::col_major(1)).expect("it fits");
            let y = ViewMut::new(&mut of_nan, 1, 1, Layout::col_major(1)).expect("it fits");
            product(uplo, zero, a, column(&x, 1, 1), zero, y, &context).expect("it fits");
            assert_eq!(of_nan[0], zero);
        }
    }
}

#[test]
fn updates_of_rank_one() {
    let context = CpuContext::alone();
    for (m, n, layout) in shapes() {
        let len = layout.required_len(m, n).expect("it is small");
        for (op, step) in [(Op::Trans, 1), (Op::ConjTrans, 2)] {
            let (x, y, mut a) = (complex(m * step, 1), complex(n, 2), complex(len, 3));
            let (before, alpha) = (a.clone(), Complex::new(1.0, 2.0));
            let view = ViewMut::new(&mut a, m, n, layout).expect("it fits");
            ger(op, alpha, column(&x, m, step), column(&y, n, 1), view, &context).expect("it fits");
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let y = if op == Op::ConjTrans { y[j].conj() } else { y[j] };
                let at = layout.index(i, j);
                assert_eq!(
                    a[at],
                    before[at] + alpha * x[i * step] * y,
                    "{m} {n} {layout:?} {op:?}"
                );
            }
        }
    }
}

#[test]
fn solves_are_those_of_one_column() {
    let context = CpuContext::alone();
    for n in [1, 5, 40, 100] {
        let mut a = values(n * n, 1);
        (0..n).for_each(|i| a[i * n + i] = 3.0);
        let a = View::new(&a, n, n, Layout::col_major(n)).expect("it fits");
        let (mut x, mut y) = (values(2 * n, 2), vec![0.0; n]);
        (0..n).for_each(|i| y[i] = x[2 * i]);
        let line = ViewMut::new(&mut x, n, 1, Layout::row_major(2)).expect("it fits");
        let (uplo, op, diag) = (Uplo::Upper, Op::Trans, Diag::NonUnit);
        trsv(uplo, op, diag, a, line, &context).expect("it fits");
        let whole = ViewMut::new(&mut y, n, 1, Layout::col_major(n)).expect("it fits");
        blas3::trsm(Side::Left, uplo, op, diag, 1.0, a, whole, &context).expect("it fits");
        assert!((0..n).all(|i| x[2 * i] == y[i]), "{n}");
    }
}

/// With beta zero y is not read, with alpha zero A and x are not; all other NaN come through.
#[test]
fn nan_and_zero() {
    let context = CpuContext::alone();
    let nan = Complex::new(f64::NAN, f64::NAN);
    for (layout, op) in
        OPS.into_iter().flat_map(|op| [(Layout::col_major(9), op), (Layout::row_major(9), op)])
    {
        let call = |alpha, a: Complex<f64>, x: Complex<f64>, beta, y: Complex<f64>| {
            let (a, x, mut y) = ([a; 81], [x; 9], [y; 9]);
            let a = View::new(&a, 9, 9, layout).expect("it fits");
            let to = ViewMut::new(&mut y, 9, 1, Layout::col_major(9)).expect("it fits");
            gemv(op, alpha, a, column(&x, 9, 1), beta, to, &context).expect("it fits");
            y[8]
        };
        let zero = Complex::ZERO;
        assert_eq!(call(ONE, ONE, ONE, zero, nan), Complex::new(9.0, 0.0));
        assert_eq!(call(zero, nan, nan, ONE + ONE, ONE), ONE + ONE);
        assert!(call(ONE, nan, zero, ONE, ONE).re.is_nan());
        assert!(call(ONE, ONE, ONE, ONE, nan).re.is_nan());
    }
}

#[test]
fn sizes_that_do_not_fit_are_named() {
    let context = CpuContext::alone();
    let (a, x, mut y) = ([0.0; 6], [0.0; 3], [0.0; 2]);
    let a = View::new(&a, 2, 3, Layout::row_major(3)).expect("it fits");
    let to = ViewMut::new(&mut y, 2, 1, Layout::col_major(2)).expect("it fits");
    let refused = gemv(Op::Trans, 1.0, a, column(&x, 3, 1), 0.0, to, &context).unwrap_err();
    assert_eq!(refused.to_string(), "gemv: op(A) is 3 x 2, it must be 2 x 2");
}
