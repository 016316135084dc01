//! Wrong products of the largest size.

use std::time::Instant;

use gemm_spec::{Layout, Order, Problem};
use lab::Scalar;
use lab::verify::{Checker, Method, Report};
use rayon::prelude::*;

use crate::operands::TILE;

/// The size of the book's figures.
const LARGE: usize = 10_240;

fn transpose(c: &mut [f32]) {
    const BLOCK: usize = 64;
    for (rows, cols) in
        (0..LARGE / BLOCK).flat_map(|i| (0..=i).map(move |j| (i * BLOCK, j * BLOCK)))
    {
        for row in rows..rows + BLOCK {
            for col in cols..(cols + BLOCK).min(row) {
                c.swap(row * LARGE + col, col * LARGE + row);
            }
        }
    }
}

/// Puts `value(row, col)` into part of C, checks, and puts back what was there.
fn spoil(
    checker: &Checker<'_, f32>,
    c: &mut [f32],
    rows: std::ops::Range<usize>,
    cols: std::ops::Range<usize>,
    value: impl Fn(f32, usize, usize) -> f32,
) -> Report {
    let places = || rows.clone().flat_map(|row| cols.clone().map(move |col| (row, col)));
    let kept: Vec<f32> = places().map(|(row, col)| c[row * LARGE + col]).collect();
    for (row, col) in places() {
        c[row * LARGE + col] = value(c[row * LARGE + col], row, col);
    }
    let report = checker.check(c);
    for ((row, col), kept) in places().zip(kept) {
        c[row * LARGE + col] = kept;
    }
    report
}

/// Attacks a correct C; `stale(row, col)` is what it holds before the last tile of k.
fn attack_large(
    problem: &Problem<f32>,
    [a, b]: [&[f32]; 2],
    c: &mut [f32],
    stale: impl Fn(usize, usize) -> f32,
) {
    assert_eq!(problem.c.order, Order::RowMajor);
    let start = Instant::now();
    let checker = Checker::new(problem, a, b, &[], Method::Auto, 7).expect("they fit");
    let prepared = start.elapsed();
    let start = Instant::now();
    let report = checker.check(c);
    println!("prepared in {prepared:.2?}, checked in {:.2?}: {report}", start.elapsed());
    assert!(report.ok && report.method == "freivalds" && report.checked == LARGE, "{report}");

    let one = spoil(&checker, c, 5000..5001, 77..78, |value, _, _| value + 1.0);
    assert!(one.bad == 1 && one.first.is_some_and(|it| (it.row, it.col) == (5000, 77)), "{one}");
    let nan = spoil(&checker, c, 10_001..10_002, 10_239..10_240, |_, _, _| f32::NAN);
    assert!(nan.bad == 1 && nan.nan == 1 && nan.first.is_some_and(|it| it.col == 10_239), "{nan}");
    let tile = spoil(&checker, c, 3200..3232, 6400..6432, |_, row, col| stale(row, col));
    assert!(!tile.ok && tile.first.is_some_and(|it| (3200..3232).contains(&it.row)), "{tile}");
    let row = spoil(&checker, c, 4097..4098, 0..LARGE, |_, _, _| f32::POISON);
    assert!(!row.ok && row.unwritten == LARGE, "{row}");
    transpose(c);
    let transposed = checker.check(c);
    assert!(!transposed.ok && transposed.bad > LARGE / 2, "{transposed}");
}

/// A matrix of the large size, row by row.
fn large(value: impl Fn(usize, usize) -> f32 + Sync) -> Vec<f32> {
    let mut matrix = vec![0.0; LARGE * LARGE];
    matrix.par_chunks_exact_mut(LARGE).enumerate().for_each(|(row, line)| {
        line.iter_mut().enumerate().for_each(|(col, element)| *element = value(row, col));
    });
    matrix
}

#[test]
fn wrong_products_of_the_largest_size_are_caught() {
    // Rank one in small integers: C_ij = f(i) w(j) * sum of g(k) h(k), without any rounding.
    let f = |i: usize| 2.0 * (i * 7 % 5) as f32 - 3.0;
    let g = |k: usize| (k * 3 % 4) as f32 - 1.0;
    let h = |k: usize| (k % 3) as f32 + 1.0;
    let w = |j: usize| (j % 9) as f32 - 4.0;
    let sum = |k: usize| (0..k).map(|k| g(k) * h(k)).sum::<f32>();
    let problem = Problem::<f32>::new(LARGE, LARGE, LARGE);
    {
        let (a, b) = (large(|i, k| f(i) * g(k)), large(|k, j| h(k) * w(j)));
        let (whole, before) = (sum(LARGE), sum(LARGE - TILE));
        assert_ne!(whole, before);
        let mut c = large(|i, j| f(i) * w(j) * whole);
        let stale = |i, j| f(i) * w(j) * before;
        attack_large(&problem, [&a, &b], &mut c, stale);
    }
    // B moves column k of A, random in [-1, 1], to column 3 k: A is column-major here.
    let random = |i: usize, k: usize| {
        let mixed = ((i * LARGE + k) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f32 * 2f32.powi(-23)
            - 1.0
    };
    let problem = Problem { a: Layout::col_major(LARGE), ..problem };
    let to = |k: usize| 3 * k % LARGE;
    let mut from = vec![0; LARGE];
    (0..LARGE).for_each(|k| from[to(k)] = k);
    let a = large(|k, i| random(i, k));
    let b = large(|k, j| if j == to(k) { 1.0 } else { 0.0 });
    let mut c = large(|i, j| random(i, from[j]));
    let stale = |i, j| random(i, (from[j] + TILE) % LARGE);
    attack_large(&problem, [&a, &b], &mut c, stale);
}
