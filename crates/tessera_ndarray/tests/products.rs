//! Products of every kind of view, against the sums of the definition.

use ndarray::{Array2, ArrayRef2, ArrayView2, s};
use tessera::{Engine, Error, bf16};
use tessera_ndarray::Multiply as _;

fn numbers(rows: usize, cols: usize, seed: usize) -> Array2<f64> {
    let value = |(row, col): (usize, usize)| ((row * 7 + col * 5 + seed) % 9) as f64 - 4.0;
    Array2::from_shape_fn((rows, cols), value)
}

fn expected(a: &ArrayRef2<f64>, b: &ArrayRef2<f64>, old: &ArrayRef2<f64>) -> Array2<f64> {
    Array2::from_shape_fn((a.nrows(), b.ncols()), |(row, col)| {
        let sum: f64 = (0..a.ncols()).map(|k| a[(row, k)] * b[(k, col)]).sum();
        2.0 * sum - old[(row, col)]
    })
}

/// A view of an array.
type AsView = fn(&Array2<f64>) -> ArrayView2<'_, f64>;

/// Views of 13 x 17 elements: plain, transposed, a part, every other row or column, reversed, broadcast.
fn views(seed: usize) -> Vec<(&'static str, Array2<f64>, AsView)> {
    vec![
        ("plain", numbers(13, 17, seed), |it| it.view()),
        ("transposed", numbers(17, 13, seed), |it| it.view().reversed_axes()),
        ("a part", numbers(20, 30, seed), |it| it.slice(s![3..16, 5..22])),
        ("a part transposed", numbers(30, 20, seed), |it| {
            it.slice(s![5..22, 3..16]).reversed_axes()
        }),
        ("every other row", numbers(26, 17, seed), |it| it.slice(s![..;2, ..])),
        ("every other column", numbers(13, 34, seed), |it| it.slice(s![.., ..;2])),
        ("reversed", numbers(13, 17, seed), |it| it.slice(s![..;-1, ..;-1])),
        ("broadcast", numbers(1, 17, seed), |it| it.broadcast((13, 17)).expect("one row for all")),
    ]
}

#[test]
fn any_view_is_multiplied_and_nothing_else_is_written() {
    let engine = Engine::auto().unwrap();
    for (a_name, a, a_view) in views(1) {
        for (b_name, b, b_view) in views(2) {
            let (a, b) = (a_view(&a), b_view(&b));
            let b = b.t();
            for (c_name, c_part) in [("plain", s![..13, ..13]), ("a part", s![2..15, 4..17])] {
                for step in [1, 2, -1] {
                    let mut whole = numbers(40, 40, 3);
                    let before = whole.clone();
                    let mut inner = whole.slice_mut(s![..;step, ..;step]);
                    if inner.nrows() < 17 {
                        continue;
                    }
                    let mut c = inner.slice_mut(c_part);
                    let right = expected(&a, &b, &c);
                    engine.general_mat_mul(2.0, &a, &b, -1.0, &mut c).unwrap();
                    assert_eq!(c, right, "{a_name} x {b_name} into {c_name}, step {step}");
                    c.assign(&before.slice(s![..;step, ..;step]).slice(c_part));
                    assert_eq!(whole, before, "{a_name} x {b_name} into {c_name}, step {step}");
                }
            }
        }
    }
}

#[test]
fn empty_arrays_and_sizes_that_do_not_fit() {
    let engine = Engine::auto().unwrap();
    let none = engine.dot(&Array2::<f32>::zeros((3, 0)), &Array2::<f32>::zeros((0, 2))).unwrap();
    assert_eq!(none, Array2::<f32>::zeros((3, 2)));
    let a = numbers(3, 4, 0);
    assert!(matches!(engine.dot(&a, &a), Err(Error::InnerDim { .. })));
    let mut c = numbers(3, 4, 0);
    let refused = engine.general_mat_mul(1.0, &a, &a.t(), 0.0, &mut c);
    assert!(matches!(refused, Err(Error::OuterDim { .. })));
}

#[test]
fn narrow_elements_have_wide_sums() {
    let engine = Engine::auto().unwrap();
    let ones = Array2::from_elem((2, 300), bf16::ONE);
    let mut wide = Array2::<f32>::zeros((2, 2));
    engine.general_mat_mul(1.0, &ones, &ones.t(), 0.0, &mut wide).unwrap();
    assert_eq!(wide, Array2::from_elem((2, 2), 300.0));
    let bytes = Array2::from_elem((2, 300), 3i8);
    assert_eq!(engine.dot(&bytes, &bytes.t()).unwrap(), Array2::from_elem((2, 2), 2700));
}
