//! Products of every kind of view, against faer's own.

use std::num::NonZeroUsize;

use faer::linalg::matmul::matmul;
use faer::{Accum, Conj, Mat, MatMut, MatRef, Par, c32, c64, mat};
use tessera::{Engine, Error};
use tessera_faer::{Multiply as _, Number};

/// Numbers whose sums of products are exact.
trait Whole: Number + Copy + PartialEq {
    fn whole(number: i8) -> Self;
}

macro_rules! whole {
    ($($number:ty: $from:expr;)+) => {$(
        impl Whole for $number {
            fn whole(number: i8) -> Self {
                $from(number)
            }
        }
    )+};
}

whole! {
    f32: f32::from;
    f64: f64::from;
    c32: |re: i8| Self::new(re.into(), f32::from(re % 4) - 1.0);
    c64: |re: i8| Self::new(re.into(), f64::from(re % 4) - 1.0);
}

fn number<T: Whole>(row: usize, col: usize, seed: usize) -> T {
    T::whole(i8::try_from((row * 7 + col * 5 + seed) % 9).expect("it is less than nine") - 4)
}

fn numbers<T: Whole>(rows: usize, cols: usize, seed: usize) -> Mat<T> {
    Mat::from_fn(rows, cols, |row, col| number(row, col, seed))
}

/// A view of that many rows and columns of a larger matrix.
type AsView<T> = for<'a> fn(MatRef<'a, T>, (usize, usize)) -> MatRef<'a, T>;

/// A view to be written.
type AsViewMut<T> = for<'a> fn(MatMut<'a, T>, (usize, usize)) -> MatMut<'a, T>;

fn views<T: Whole>() -> [(&'static str, AsView<T>); 8] {
    [
        ("a part", |it, (rows, cols)| it.submatrix(3, 2, rows, cols)),
        ("transposed", |it, (rows, cols)| it.transpose().submatrix(1, 2, rows, cols)),
        ("upside down", |it, (rows, cols)| it.subrows(0, rows).subcols(0, cols).reverse_rows()),
        ("mirrored", |it, (rows, cols)| it.submatrix(1, 0, rows, cols).reverse_cols()),
        ("both", |it, (rows, cols)| it.submatrix(2, 2, rows, cols).reverse_rows_and_cols()),
        ("transposed and both", |it, (rows, cols)| {
            it.transpose().submatrix(0, 3, rows, cols).reverse_rows_and_cols()
        }),
        ("every other row and column", |it, (rows, cols)| {
            let (row, col) = (2 * it.row_stride(), 2 * it.col_stride());
            // SAFETY: the matrix has more than twice as many rows and columns.
            unsafe { MatRef::from_raw_parts(it.as_ptr(), rows, cols, row, col) }
        }),
        ("one column for all", |it, (rows, cols)| {
            MatRef::from_repeated_col(it.subrows(0, rows).col(0), cols)
        }),
    ]
}

fn views_mut<T: Whole>() -> [(&'static str, AsViewMut<T>); 7] {
    [
        ("a part", |it, (rows, cols)| it.submatrix_mut(3, 2, rows, cols)),
        ("transposed", |it, (rows, cols)| it.transpose_mut().submatrix_mut(1, 2, rows, cols)),
        ("upside down", |it, (rows, cols)| it.submatrix_mut(0, 1, rows, cols).reverse_rows_mut()),
        ("mirrored", |it, (rows, cols)| it.submatrix_mut(1, 0, rows, cols).reverse_cols_mut()),
        ("both", |it, (rows, cols)| it.submatrix_mut(2, 2, rows, cols).reverse_rows_and_cols_mut()),
        ("transposed and both", |it, (rows, cols)| {
            it.transpose_mut().submatrix_mut(0, 3, rows, cols).reverse_rows_and_cols_mut()
        }),
        ("every other row and column", |it, (rows, cols)| {
            let (row, col) = (2 * it.row_stride(), 2 * it.col_stride());
            // SAFETY: the matrix has more than twice as many rows and columns.
            unsafe { MatMut::from_raw_parts_mut(it.as_ptr_mut(), rows, cols, row, col) }
        }),
    ]
}

fn any_view_is_multiplied_and_nothing_else_is_written<T: Whole>() {
    let engine = Engine::auto().expect("threads");
    let alpha = T::whole(2);
    for (m, n, k) in [(13, 11, 17), (1, 6, 5), (7, 1, 3), (20, 19, 1), (2, 3, 0)] {
        let size = 2 * m.max(n).max(k) + 4;
        let (whole_a, whole_b) = (numbers::<T>(size, size, 1), numbers::<T>(size, size, 2));
        for (a_name, a_view) in views::<T>() {
            for (b_name, b_view) in views::<T>() {
                let (a, b) = (a_view(whole_a.as_ref(), (m, k)), b_view(whole_b.as_ref(), (k, n)));
                for (c_name, c_view) in views_mut::<T>() {
                    for beta in [Accum::Replace, Accum::Add] {
                        let name = format!("{a_name} x {b_name} to {c_name}, {m} x {n} x {k}");
                        let mut whole = numbers::<T>(size, size, 3);
                        let mut right = whole.clone();
                        let c = c_view(whole.as_mut(), (m, n));
                        engine.matmul(c, beta, a, b, alpha, Par::Seq).expect("sizes fit");
                        let c = c_view(right.as_mut(), (m, n));
                        matmul(c, beta, a, b, alpha, Par::Seq);
                        assert!(whole == right, "{name}, {beta:?}");

                        let c = c_view(whole.as_mut(), (m, n));
                        engine
                            .matmul(c, beta, a.conjugate(), b, alpha, Par::Seq)
                            .expect("sizes fit");
                        let c = c_view(right.as_mut(), (m, n));
                        matmul(c, beta, a.conjugate(), b, alpha, Par::Seq);
                        assert!(whole == right, "{name}, {beta:?}, A conjugated");
                    }
                }
            }
        }
    }
}

#[test]
fn views_of_f32() {
    any_view_is_multiplied_and_nothing_else_is_written::<f32>();
}

#[test]
fn views_of_f64() {
    any_view_is_multiplied_and_nothing_else_is_written::<f64>();
}

#[test]
fn views_of_c32() {
    any_view_is_multiplied_and_nothing_else_is_written::<c32>();
}

#[test]
fn views_of_c64() {
    any_view_is_multiplied_and_nothing_else_is_written::<c64>();
}

#[test]
fn conjugates_are_conjugates() {
    let engine = Engine::global().unwrap();
    let a = numbers::<c64>(9, 7, 1);
    let gram = engine.product(a.adjoint(), &a).unwrap();
    assert!((0..7).all(|at| gram[(at, at)].im == 0.0 && gram[(at, at)].re > 0.0));
    let both = engine.product(a.adjoint(), a.conjugate()).unwrap();
    let mut expected = Mat::<c64>::zeros(7, 7);
    let (of, replace) = (a.transpose(), Accum::Replace);
    let (yes, one) = (Conj::Yes, c64::new(1.0, 0.0));
    faer::linalg::matmul::matmul_with_conj(&mut expected, replace, of, yes, &a, yes, one, Par::Seq);
    assert!(both == expected);
}

#[test]
fn sums_are_as_near_as_they_must_be() {
    let engine = Engine::auto().unwrap();
    let noise = |row: usize, col: usize| ((row * 31 + col * 17) % 97) as f64 / 48.0 - 1.0;
    let (m, n, k) = (150, 130, 170);
    let (a, b) = (Mat::from_fn(m, k, noise), Mat::from_fn(k, n, |row, col| noise(col, row)));
    let exact = &a * &b;
    let sizes = a.map(|it| it.abs()) * b.map(|it| it.abs());
    let double = engine.product(&a, &b).unwrap();
    #[expect(clippy::cast_possible_truncation, reason = "rounding is part of the bound")]
    let narrow = |of: &Mat<f64>| of.map(|it| *it as f32);
    let single = engine.product(narrow(&a), narrow(&b)).unwrap();
    let steps = (k + 3) as f64;
    for (row, col) in (0..m).flat_map(|row| (0..n).map(move |col| (row, col))) {
        let (exact, bound) = (exact[(row, col)], steps * sizes[(row, col)]);
        let double = (double[(row, col)] - exact).abs();
        let single = (f64::from(single[(row, col)]) - exact).abs();
        // Both sums of f64 may be as far from the exact one.
        assert!(double <= 2.0 * bound * f64::EPSILON, "f64 at {row}, {col}");
        assert!(single <= bound * f64::from(f32::EPSILON), "f32 at {row}, {col}");
    }
}

#[test]
fn what_is_not_read_cannot_spoil_the_result() {
    let engine = Engine::auto().unwrap();
    let (a, b) = (numbers::<f32>(6, 7, 1), numbers::<f32>(7, 8, 2));
    let (product, nan) = (&a * &b, |rows, cols| Mat::<f32>::full(rows, cols, f32::NAN));

    for view in views_mut::<f32>() {
        let mut c = nan(20, 20);
        let dst = view.1(c.as_mut(), (6, 8));
        engine.matmul(dst, Accum::Replace, &a, &b, 1.0, Par::Seq).unwrap();
        assert!(view.1(c.as_mut(), (6, 8)).as_ref() == product.as_ref(), "{}", view.0);
        let left = (0..20).flat_map(|row| (0..20).map(move |col| (row, col)));
        assert_eq!(left.filter(|&at| c[at].is_nan()).count(), 400 - 48, "{}", view.0);
    }

    let mut c = numbers::<f32>(6, 8, 3);
    engine.matmul(&mut c, Accum::Add, nan(6, 7), nan(7, 8), 0.0, Par::Seq).unwrap();
    assert!(c == numbers::<f32>(6, 8, 3));

    let mut one = a.clone();
    one[(2, 3)] = f32::NAN;
    let c = engine.product(&one, &b).unwrap();
    for (row, col) in (0..6).flat_map(|row| (0..8).map(move |col| (row, col))) {
        assert_eq!(c[(row, col)].is_nan(), row == 2, "{row}, {col}");
    }
}

#[test]
fn empty_matrices_and_sizes_that_do_not_fit() {
    let engine = Engine::auto().unwrap();
    let zeros = Mat::<f32>::zeros;
    assert!(engine.product(zeros(3, 0), zeros(0, 2)).unwrap() == zeros(3, 2));
    assert!(engine.product(zeros(0, 4), zeros(4, 2)).unwrap() == zeros(0, 2));
    assert!(engine.product(zeros(3, 4), zeros(4, 0)).unwrap() == zeros(3, 0));

    let a = numbers::<f32>(3, 4, 0);
    assert!(matches!(engine.product(&a, &a), Err(Error::InnerDim { .. })));
    let mut c = numbers::<f32>(3, 4, 0);
    let refused = engine.matmul(&mut c, Accum::Replace, &a, a.transpose(), 1.0, Par::Seq);
    assert!(matches!(refused, Err(Error::OuterDim { .. })));
    assert!(c == a, "a product that is refused writes nothing");
}

#[test]
fn bits_depend_on_neither_views_nor_threads() {
    let (m, n, k) = (70, 60, 90);
    let noise = |row: usize, col: usize| ((row * 31 + col * 17) % 97) as f32 / 9.0;
    let (a, b) = (Mat::from_fn(m, k, noise), Mat::from_fn(k, n, |row, col| noise(col, row)));
    let engine = |threads| Engine::cpu(NonZeroUsize::new(threads)).unwrap();
    let expected = engine(1).product(&a, &b).unwrap();
    let in_rows = a.transpose().to_owned();
    assert!(engine(2).product(in_rows.transpose(), &b).unwrap() == expected);
    // The last row first, and back.
    let upside_down = Mat::from_fn(m, k, |row, col| a[(m - 1 - row, col)]);
    let mut c = Mat::zeros(m, n);
    let (dst, lhs) = (c.as_mut().reverse_rows_mut(), upside_down.as_ref());
    engine(3).matmul(dst, Accum::Replace, lhs, &b, 1.0, Par::Seq).unwrap();
    assert!(c == expected);
}

/// The example of the crate's documentation, whose own tests would have `cargo xtask ci` compile the laboratory anew.
#[test]
fn the_example_of_the_documentation_is_right() {
    let engine = Engine::auto().unwrap();
    let a = mat![[1.0f32, 2.0], [3.0, 4.0]];
    assert_eq!(engine.product(&a, a.transpose()).unwrap(), mat![[5.0, 11.0], [11.0, 25.0]]);
    let mut c = mat![[1.0f32, 1.0], [1.0, 1.0]];
    engine.matmul(&mut c, Accum::Add, &a, a.as_ref().reverse_rows(), 10.0, Par::Seq).unwrap();
    assert_eq!(c, mat![[51.0, 81.0], [131.0, 201.0]]);
}

#[path = "../examples/faer_product.rs"]
mod example;

#[test]
fn the_program_of_the_document_is_the_example_and_runs() {
    example::main().unwrap();
    let source = include_str!("../examples/faer_product.rs");
    let (_, code) = source.split_once("its result\")]\n").expect("the header ends");
    // A test calls it from outside.
    let code = code.replace("pub(crate) fn main", "fn main");
    let document = include_str!("../../../docs/embed.md");
    assert!(document.contains(code.trim()), "docs/embed.md does not show\n{code}");
}
