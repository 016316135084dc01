//! The products of a batch are those of each alone, bit for bit, whichever way they are computed.

use std::num::NonZeroUsize;

use cpu_gemm::{CpuContext, CpuTypes, gemm};
use gemm_spec::{Batch, Element, GemmTypes, Layout, Operand, Problem, bf16};

/// Elements that depend on their place.
fn drawn<E: Element>(len: usize, of: impl Fn(f64) -> E) -> Vec<E> {
    (0..len).map(|at| of((at as f64 * 0.37).sin() * 9.0)).collect()
}

/// How elements of A, B and C are made of numbers.
type Made<T> = (
    fn(f64) -> <T as GemmTypes>::A,
    fn(f64) -> <T as GemmTypes>::B,
    fn(f64) -> <T as GemmTypes>::C,
);

fn check<T: CpuTypes<C: PartialEq>>(problem: Problem<T>, of: Made<T>) {
    let context = CpuContext::new(NonZeroUsize::new(2)).expect("threads");
    let len = |operand| problem.required_len(operand).expect("a small batch");
    let a = drawn(len(Operand::A), of.0);
    let b = drawn(len(Operand::B), of.1);
    let old = drawn(len(Operand::C), of.2);
    let mut expected = old.clone();
    for item in problem.items() {
        // With k = 0 the factors have no elements.
        let (a, b) = (a.get(item.a..).unwrap_or_default(), b.get(item.b..).unwrap_or_default());
        let c = &mut expected[item.c..];
        gemm(&problem.one(), a, b, c, &CpuContext::alone()).expect("one of them");
    }
    let mut found = old;
    gemm(&problem, &a, &b, &mut found, &context).expect("all of them");
    assert!(found == expected, "{problem:?}");
}

/// Shapes that are computed in tiles where they lie, packed, and by a column, and how many of each.
const SHAPES: [([usize; 3], usize); 7] = [
    ([1, 1, 1], 5000),
    ([4, 4, 4], 3000),
    ([17, 9, 130], 300),
    ([33, 40, 20], 100),
    ([140, 30, 300], 4),
    ([64, 1, 64], 100),
    ([5, 7, 0], 10),
];

fn each<T: CpuTypes<C: PartialEq>>(scalars: [(T::Acc, T::Acc); 2], of: Made<T>) {
    for ([m, n, k], count) in SHAPES {
        let layout = |rows: usize, cols: usize, by_columns: bool, more: usize| {
            if by_columns { Layout::col_major(rows + more) } else { Layout::row_major(cols + more) }
        };
        for orders in 0..8 {
            let by_columns = |bit: usize| orders >> bit & 1 == 1;
            for (alpha, beta) in scalars {
                let one = Problem::<T>::new(m, n, k).with_scalars(alpha, beta).with_layouts(
                    layout(m, k, by_columns(0), orders % 3),
                    layout(k, n, by_columns(1), 0),
                    layout(m, n, by_columns(2), orders % 2),
                );
                let stride = |operand| one.required_len(operand).expect("small") + orders % 2;
                let (a_stride, c_stride) = (stride(Operand::A), stride(Operand::C));
                // B is each product's own, or that of all.
                let b_stride = if orders % 3 == 0 { 0 } else { stride(Operand::B) };
                check(one.with_batch(Batch { count, a_stride, b_stride, c_stride }), of);
            }
        }
    }
}

#[test]
fn products_of_floats_are_those_of_each_alone() {
    #[expect(clippy::cast_possible_truncation, reason = "rounded")]
    let single: fn(f64) -> f32 = |value| value as f32;
    let double: fn(f64) -> f64 = |value| value;
    each::<f32>([(1.0, 0.0), (0.5, -2.0)], (single, single, single));
    each::<f64>([(1.0, 0.0), (0.5, -2.0)], (double, double, double));
}

#[test]
fn products_of_narrow_elements_and_integers_are_those_of_each_alone() {
    let narrow: fn(f64) -> bf16 = bf16::from_f64;
    #[expect(clippy::cast_possible_truncation, reason = "small")]
    let byte: fn(f64) -> i8 = |value| (10.0 * value) as i8;
    #[expect(clippy::cast_possible_truncation, reason = "small")]
    let integer: fn(f64) -> i32 = |value| (1e6 * value) as i32;
    each::<bf16>([(1.0, 0.0), (0.5, -2.0)], (narrow, narrow, narrow));
    each::<i8>([(1, 0), (3, -2)], (byte, byte, integer));
    each::<i32>([(1, 0), (3, -2)], (integer, integer, integer));
}

/// Matrices of C that share lines.
#[test]
fn results_may_share_lines() {
    let one = Problem::<f32>::new(20, 6, 30).with_layouts(
        Layout::row_major(30),
        Layout::row_major(6),
        Layout::row_major(60),
    );
    let batch = Batch { count: 10, a_stride: 600, b_stride: 180, c_stride: 6 };
    #[expect(clippy::cast_possible_truncation, reason = "rounded")]
    let single: fn(f64) -> f32 = |value| value as f32;
    check(one.with_batch(batch), (single, single, single));
}
