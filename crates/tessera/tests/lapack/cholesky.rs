//! Cholesky's factors.

use tessera::lapack::{Complex, Uplo, posv, potrf, potrs};
use tessera::{CpuContext, Order};

use crate::matrix::{Exact, Matrix, Number, ORDERS, distance, product};
use crate::{context, context_of, of_all_types, sizes};

of_all_types!(factors_of_integers_are_found residuals_are_small indefinite_blocks_are_told);

const UPLOS: [Uplo; 2] = [Uplo::Upper, Uplo::Lower];

/// An element of L, of small integers, the diagonal of powers of two.
fn lower(i: usize, j: usize) -> Exact {
    let at = (i * 7 + j * 3) % 5;
    match i.cmp(&j) {
        std::cmp::Ordering::Less => Exact::ZERO,
        std::cmp::Ordering::Equal => Exact::new([1.0, 2.0, 4.0][i % 3], 0.0),
        std::cmp::Ordering::Greater => Exact::new(at as f64 - 2.0, (at * 3 % 4) as f64 - 1.0),
    }
}

/// `lower` as a `T` sees it.
fn lower_of<T: Number>(i: usize, j: usize) -> Exact {
    T::of(lower(i, j).re, lower(i, j).im).exact()
}

/// A stored triangle of a Hermitian matrix, NaN in the other and in imaginary parts of the diagonal.
fn triangle<T: Number>(
    n: usize,
    uplo: Uplo,
    order: Order,
    whole: impl Fn(usize, usize) -> Exact,
) -> Matrix<T> {
    Matrix::of(n, n, order, |i, j| match (i == j, is_in(uplo, i, j)) {
        (true, _) => T::of(whole(i, j).re, f64::NAN),
        (_, true) => T::of(whole(i, j).re, whole(i, j).im),
        (_, false) => T::of(f64::NAN, f64::NAN),
    })
}

fn is_in(uplo: Uplo, i: usize, j: usize) -> bool {
    if uplo == Uplo::Upper { i <= j } else { i >= j }
}

fn factors_of_integers_are_found<T: Number>() {
    let context = context();
    for n in sizes() {
        let whole = product((n, n, n), lower_of::<T>, |p, j| lower_of::<T>(j, p).conj());
        for (uplo, order) in UPLOS.into_iter().flat_map(|uplo| ORDERS.map(|order| (uplo, order))) {
            let mut a = triangle::<T>(n, uplo, order, &whole);
            let what = format!("{n} {uplo:?} {order:?}");
            assert_eq!(potrf(uplo, a.view_mut(), &context).expect("it fits"), None, "{what}");
            for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let found = a.get(i, j).exact();
                let wanted = if uplo == Uplo::Lower {
                    lower_of::<T>(i, j)
                } else {
                    lower_of::<T>(j, i).conj()
                };
                match is_in(uplo, i, j) {
                    true => assert_eq!(found, wanted, "{what}: {i} {j}"),
                    false => assert!(found.re.is_nan(), "{what}: {i} {j} is written"),
                }
            }
            a.check_padding(&what);
        }
    }
}

fn residuals_are_small<T: Number>() {
    let context = context();
    for (case, n) in sizes().enumerate() {
        let (uplo, order) = (UPLOS[case % 2], ORDERS[case / 2 % 2]);
        // The Gram matrix of any numbers, and a multiple of the identity.
        let any = Matrix::<T>::any(n, n, Order::RowMajor, 6);
        let gram = product((n, n, n), any.exact(), |p, j| any.get(j, p).exact().conj());
        let rounded = |value: Exact| T::of(value.re, value.im).exact();
        let whole = |i, j| rounded(gram(i, j) + if i == j { Exact::ONE } else { Exact::ZERO });
        let mut a = triangle::<T>(n, uplo, order, whole);
        let x = Matrix::<T>::any(n, case % 5, order, 7);
        let b = product((n, x.cols, n), whole, x.exact());
        let mut found = Matrix::of(n, x.cols, order, |i, j| T::of(b(i, j).re, b(i, j).im));
        let what = format!("{n} {uplo:?} {order:?}");
        let done = posv(uplo, a.view_mut(), found.view_mut(), &context).expect("it fits");
        assert_eq!(done, None, "{what}");
        let factor = |i: usize, p: usize| match (uplo, i >= p) {
            (_, false) => Exact::ZERO,
            (Uplo::Lower, _) => a.get(i, p).exact(),
            (Uplo::Upper, _) => a.get(p, i).exact().conj(),
        };
        let back = product((n, n, n), factor, |p, j| factor(j, p).conj());
        let is_lower = |i: usize, j: usize, of: Exact| if i >= j { of } else { Exact::ZERO };
        let left =
            distance((n, n), |i, j| is_lower(i, j, back(i, j)), |i, j| is_lower(i, j, whole(i, j)));
        let most = 4.0 * T::EPSILON * ((n + 1) * (n + 1)) as f64;
        assert!(left <= most, "{what}: {left:e} is more than {most:e}");
        let again = product((n, x.cols, n), whole, found.exact());
        let left = distance((n, x.cols), again, b);
        assert!(left <= 4.0 * most, "{what}: {left:e} is more than {most:e}");
        let mut second = x.clone();
        potrs(uplo, a.view(), second.view_mut(), &context).expect("it fits");
        second.check_padding(&what);
    }
}

fn indefinite_blocks_are_told<T: Number>() {
    let context = context();
    for n in [1, 2, 31, 40, 70, 129] {
        let whole = product((n, n, n), lower_of::<T>, |p, j| lower_of::<T>(j, p).conj());
        for (at, bad) in [(0, 0.0), (n / 2, -1.0), (n - 1, f64::NAN), (n * 2 / 3, 0.0)] {
            for (uplo, order) in
                UPLOS.into_iter().flat_map(|uplo| ORDERS.map(|order| (uplo, order)))
            {
                let mut a = triangle::<T>(n, uplo, order, &whole);
                // What is left of it when the columns before are done.
                let square = lower(at, at).re * lower(at, at).re;
                a.set(at, at, T::of(whole(at, at).re - square + bad, 0.0));
                let found = potrf(uplo, a.view_mut(), &context).expect("it fits");
                assert_eq!(found, Some(at), "{n} {uplo:?} {order:?} {bad}");
                let mut b = Matrix::of(n, 1, order, |_, _| T::ONE);
                let before = b.bits();
                let mut a = triangle::<T>(n, uplo, order, |_, _| Exact::new(bad.min(-1.0), 0.0));
                let done = posv(uplo, a.view_mut(), b.view_mut(), &context).expect("it fits");
                assert_eq!((done, b.bits()), (Some(0), before));
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    fn check<T: Number>(n: usize) {
        for order in ORDERS {
            let factor = |context: &CpuContext| {
                let mut a = Matrix::<T>::any(n, n, order, 4);
                (0..n).for_each(|i| a.set(i, i, T::of(500.0, 0.0)));
                assert_eq!(potrf(Uplo::Lower, a.view_mut(), context).expect("it fits"), None);
                a.bits()
            };
            let alone = factor(&CpuContext::alone());
            for threads in [2, 4] {
                assert!(alone == factor(&context_of(threads)), "{n} {order:?}, {threads} threads");
            }
        }
    }
    check::<f32>(600);
    check::<f64>(1100);
    check::<Complex<f64>>(520);
}
