//! Products of every kind of storage, against nalgebra's own.

use std::convert::identity;

use nalgebra::{
    ClosedAddAssign, ClosedMulAssign, Complex, DMatrix, DMatrixView, DMatrixViewMut, Dyn, Matrix,
    Matrix2, Matrix2x3, Matrix3x2, OMatrix, RowDVector, SMatrix, U3,
};
use num_traits::{One, Zero};
use tessera::{Engine, Error};
use tessera_nalgebra::{Gemm as _, Multiply as _, Number};

/// Numbers whose sums of products are exact.
trait Whole: Number + Zero + One + ClosedAddAssign + ClosedMulAssign {
    fn whole(number: i8) -> Self;
    fn conj(self) -> Self;
}

macro_rules! whole {
    ($($number:ty: $from:expr, $conj:expr;)+) => {$(
        impl Whole for $number {
            fn whole(number: i8) -> Self {
                $from(number)
            }

            fn conj(self) -> Self {
                $conj(self)
            }
        }
    )+};
}

whole! {
    f32: f32::from, identity;
    f64: f64::from, identity;
    i32: i32::from, identity;
    Complex<f32>: |re: i8| Self::new(re.into(), f32::from(re % 4) - 1.0), |it: Self| Self::new(it.re, -it.im);
    Complex<f64>: |re: i8| Self::new(re.into(), f64::from(re % 4) - 1.0), |it: Self| Self::new(it.re, -it.im);
}

fn number<T: Whole>(row: usize, col: usize, seed: usize) -> T {
    T::whole(i8::try_from((row * 7 + col * 5 + seed) % 9).expect("it is less than nine") - 4)
}

fn numbers<T: Whole>(rows: usize, cols: usize, seed: usize) -> DMatrix<T> {
    DMatrix::from_fn(rows, cols, |row, col| number(row, col, seed))
}

/// A view of some matrix.
type AsView<T> = for<'a> fn(&'a DMatrix<T>, (usize, usize)) -> DMatrixView<'a, T, Dyn, Dyn>;

/// Views of a matrix twice as high and wide as they are: plain, a part, in rows, every other row or column, one
/// column for all.
fn views<T: Whole>() -> [(&'static str, AsView<T>); 7] {
    [
        ("plain", |it, (rows, cols)| at(it, (rows, cols), (1, rows))),
        ("a part", |it, (rows, cols)| at(it, (rows, cols), (1, it.nrows()))),
        ("in rows", |it, (rows, cols)| at(it, (rows, cols), (cols, 1))),
        ("a part in rows", |it, (rows, cols)| at(it, (rows, cols), (2 * cols, 1))),
        ("every other row", |it, (rows, cols)| at(it, (rows, cols), (2, it.nrows()))),
        ("every other column", |it, (rows, cols)| at(it, (rows, cols), (1, 2 * it.nrows()))),
        ("one column for all", |it, (rows, cols)| at(it, (rows, cols), (1, 0))),
    ]
}

fn at<T: Whole>(
    matrix: &DMatrix<T>,
    (rows, cols): (usize, usize),
    (from_row, from_col): (usize, usize),
) -> DMatrixView<'_, T, Dyn, Dyn> {
    DMatrixView::from_slice_with_strides(matrix.as_slice(), rows, cols, from_row, from_col)
}

fn part<T: Whole>(
    matrix: &mut DMatrix<T>,
    (rows, cols): (usize, usize),
    (from_row, from_col): (usize, usize),
) -> DMatrixViewMut<'_, T, Dyn, Dyn> {
    let data = matrix.as_mut_slice();
    DMatrixViewMut::from_slice_with_strides_mut(data, rows, cols, from_row, from_col)
}

fn any_storage_is_multiplied_and_nothing_else_is_written<T: Whole>() {
    let engine = Engine::auto().expect("threads");
    let (alpha, beta) = (T::whole(2), T::whole(-1));
    for (m, n, k) in [(13, 11, 17), (1, 6, 5), (7, 1, 3), (40, 30, 1), (2, 3, 0)] {
        let whole_a = numbers::<T>(2 * m.max(k), 2 * m.max(k), 1);
        let whole_b = numbers::<T>(2 * n.max(k), 2 * n.max(k), 2);
        for (a_name, a_view) in views::<T>() {
            for (b_name, b_view) in views::<T>() {
                let (a, b) = (a_view(&whole_a, (m, k)), b_view(&whole_b, (k, n)));
                let across = a_view(&whole_a, (k, m));
                for strides in [(1, m + 3), (n + 3, 1), (2, 3 * m)] {
                    for way in 0..3 {
                        let mut whole = numbers::<T>(3 * (m + 3), 3 * (n + 3), 3);
                        let mut right = whole.clone();
                        let mut c = part(&mut whole, (m, n), strides);
                        let factor = match way {
                            0 => {
                                c.gemm_with(&engine, alpha, &a, &b, beta).expect("sizes fit");
                                a.clone_owned()
                            }
                            1 => {
                                c.gemm_tr_with(&engine, alpha, &across, &b, beta)
                                    .expect("sizes fit");
                                across.transpose()
                            }
                            _ => {
                                c.gemm_ad_with(&engine, alpha, &across, &b, beta)
                                    .expect("sizes fit");
                                across.transpose().map(T::conj)
                            }
                        };
                        // nalgebra's own `gemm` reads and writes beyond views with steps.
                        let mut c = part(&mut right, (m, n), strides);
                        let mut product = c.clone_owned();
                        product.gemm(alpha, &factor, &b.clone_owned(), beta);
                        c.copy_from(&product);
                        let name = format!("{a_name} x {b_name}, {m} x {n} x {k}, {strides:?}");
                        assert_eq!(whole, right, "{name}, way {way}");
                    }
                }
            }
        }
    }
}

#[test]
fn storages_of_f32() {
    any_storage_is_multiplied_and_nothing_else_is_written::<f32>();
}

#[test]
fn storages_of_f64() {
    any_storage_is_multiplied_and_nothing_else_is_written::<f64>();
}

#[test]
fn storages_of_complex_f32() {
    any_storage_is_multiplied_and_nothing_else_is_written::<Complex<f32>>();
}

#[test]
fn storages_of_complex_f64() {
    any_storage_is_multiplied_and_nothing_else_is_written::<Complex<f64>>();
}

#[test]
fn integers_are_multiplied() {
    let engine = Engine::auto().unwrap();
    let (a, b) = (numbers::<i32>(9, 7, 1), numbers::<i32>(7, 8, 2));
    assert_eq!(a.mul_with(&engine, &b).unwrap(), &a * &b);
}

#[test]
fn static_sizes_are_multiplied() {
    let engine = Engine::global().unwrap();
    let (a, b) = (Matrix2x3::new(1.0, 2.0, 3.0, 4.0, 5.0, 6.0), Matrix3x2::identity() * 2.0);
    let c: Matrix2<f64> = a.mul_with(engine, &b).unwrap();
    assert_eq!(c, Matrix2::new(2.0, 4.0, 8.0, 10.0));
    let mut c = Matrix2::repeat(1.0);
    c.gemm_with(engine, 1.0, &a, &b, -3.0).unwrap();
    assert_eq!(c, Matrix2::new(-1.0, 1.0, 5.0, 7.0));

    // Static with dynamic, and large enough to be stored anywhere.
    let large = SMatrix::<f32, 40, 30>::from_fn(|row, col| number(row, col, 4));
    let other = numbers::<f32>(30, 50, 5);
    let mixed: OMatrix<f32, nalgebra::Const<40>, Dyn> = large.mul_with(engine, &other).unwrap();
    assert_eq!(mixed, large * &other);
    let rows = OMatrix::<f32, Dyn, U3>::from_fn(5, |row, col| number(row, col, 6));
    let product: OMatrix<f32, Dyn, U3> = numbers(4, 5, 7).mul_with(engine, &rows).unwrap();
    assert_eq!(product, numbers::<f32>(4, 5, 7) * &rows);
    let row = RowDVector::<f32>::from_fn(40, |_, col| number(0, col, 8));
    assert_eq!(row.mul_with(engine, &large).unwrap(), row * large);
}

#[test]
fn sums_are_as_near_as_they_must_be() {
    let engine = Engine::auto().unwrap();
    let noise = |row: usize, col: usize| ((row * 31 + col * 17) % 97) as f64 / 48.0 - 1.0;
    let (m, n, k) = (150, 130, 170);
    let (a, b) =
        (DMatrix::from_fn(m, k, noise), DMatrix::from_fn(k, n, |row, col| noise(col, row)));
    let exact = &a * &b;
    let sizes = a.abs() * b.abs();
    let double = a.mul_with(&engine, &b).unwrap();
    let single = a.cast::<f32>().mul_with(&engine, &b.cast::<f32>()).unwrap().cast::<f64>();
    let steps = (k + 3) as f64;
    for (row, col) in (0..m).flat_map(|row| (0..n).map(move |col| (row, col))) {
        let of = |product: &DMatrix<f64>| (product[(row, col)] - exact[(row, col)]).abs();
        let bound = steps * sizes[(row, col)];
        // Both sums of f64 may be as far from the exact one.
        assert!(of(&double) <= 2.0 * bound * f64::EPSILON, "f64 at {row}, {col}");
        assert!(of(&single) <= bound * f64::from(f32::EPSILON), "f32 at {row}, {col}");
    }
}

#[test]
fn what_is_not_read_cannot_spoil_the_result() {
    let engine = Engine::auto().unwrap();
    let (a, b) = (numbers::<f32>(6, 7, 1), numbers::<f32>(7, 8, 2));
    let nan = |rows, cols| DMatrix::<f32>::repeat(rows, cols, f32::NAN);

    let mut c = nan(6, 8);
    c.gemm_with(&engine, 1.0, &a, &b, 0.0).unwrap();
    assert_eq!(c, &a * &b);
    // Every other row and column of C: a copy takes its place.
    let mut data = [f32::NAN; 12 * 16];
    let mut c = DMatrixViewMut::from_slice_with_strides_mut(&mut data, 6, 8, 2, 24);
    c.gemm_with(&engine, 1.0, &a, &b, 0.0).unwrap();
    assert_eq!(c, &a * &b);
    assert_eq!(data.iter().filter(|it| it.is_nan()).count(), 12 * 16 - 6 * 8);

    let mut c = numbers::<f32>(6, 8, 3);
    c.gemm_with(&engine, 0.0, &nan(6, 7), &nan(7, 8), 2.0).unwrap();
    assert_eq!(c, numbers::<f32>(6, 8, 3) * 2.0);

    let mut one = a.clone();
    one[(2, 3)] = f32::NAN;
    let c = one.mul_with(&engine, &b).unwrap();
    for (row, line) in c.row_iter().enumerate() {
        assert!(line.iter().all(|it| it.is_nan() == (row == 2)), "row {row}");
    }
}

#[test]
fn a_view_whose_elements_share_memory_is_read() {
    let engine = Engine::auto().unwrap();
    // Rows and columns one element apart: all elements of an antidiagonal are one.
    let data: Vec<f32> = (0..9u8).map(f32::from).collect();
    let hankel = DMatrixView::from_slice_with_strides(&data, 5, 5, 1, 1);
    let owned = hankel.clone_owned();
    assert_eq!(hankel.mul_with(&engine, &hankel).unwrap(), &owned * &owned);
}

#[test]
fn empty_matrices_and_sizes_that_do_not_fit() {
    let engine = Engine::auto().unwrap();
    let zeros = DMatrix::<f32>::zeros;
    assert_eq!(zeros(3, 0).mul_with(&engine, &zeros(0, 2)).unwrap(), zeros(3, 2));
    assert_eq!(zeros(0, 4).mul_with(&engine, &zeros(4, 2)).unwrap(), zeros(0, 2));
    assert_eq!(zeros(3, 4).mul_with(&engine, &zeros(4, 0)).unwrap(), zeros(3, 0));

    let a = numbers::<f32>(3, 4, 0);
    assert!(matches!(a.mul_with(&engine, &a), Err(Error::InnerDim { .. })));
    let mut c = numbers::<f32>(3, 4, 0);
    let refused = c.gemm_with(&engine, 1.0, &a, &a.transpose(), 0.0);
    assert!(matches!(refused, Err(Error::OuterDim { .. })));
    let refused = c.gemm_tr_with(&engine, 1.0, &a, &a.transpose(), 0.0);
    assert!(matches!(refused, Err(Error::InnerDim { .. })));
    assert_eq!(c, a, "a product that is refused writes nothing");
}

#[test]
fn bits_depend_on_neither_storage_nor_threads() {
    let (m, n, k) = (70, 60, 90);
    let noise = |row: usize, col: usize| ((row * 31 + col * 17) % 97) as f32 / 9.0;
    let (a, b) =
        (DMatrix::from_fn(m, k, noise), DMatrix::from_fn(k, n, |row, col| noise(col, row)));
    let engine = |threads| Engine::cpu(std::num::NonZeroUsize::new(threads)).unwrap();
    let expected = a.mul_with(&engine(1), &b).unwrap();
    let in_rows = a.transpose();
    let in_rows: Matrix<f32, Dyn, Dyn, _> =
        DMatrixView::from_slice_with_strides(in_rows.as_slice(), m, k, k, 1);
    assert_eq!(in_rows.mul_with(&engine(2), &b).unwrap(), expected);
    let mut c = DMatrix::zeros(m, n);
    c.gemm_tr_with(&engine(3), 1.0, &a.transpose(), &b, 0.0).unwrap();
    assert_eq!(c, expected);
}

#[path = "../examples/nalgebra_product.rs"]
mod example;

#[test]
fn the_program_of_the_document_is_the_example_and_runs() {
    example::main().unwrap();
    let source = include_str!("../examples/nalgebra_product.rs");
    let (_, code) = source.split_once("its result\")]\n").expect("the header ends");
    // A test calls it from outside.
    let code = code.replace("pub(crate) fn main", "fn main");
    let document = include_str!("../../../docs/embed.md");
    assert!(document.contains(code.trim()), "docs/embed.md does not show\n{code}");
}
