//! Wrong results of many kinds do not.

use gemm_spec::{Layout, epilogue};
use lab::Scalar;
use lab::verify::{Checker, Method};

use crate::operands::{Operands, TILE, attacked, settle};

/// A way to get a product wrong: the wrong C, from the right one.
type Mutant = (&'static str, fn(&Operands<f32>, Vec<f32>) -> Vec<f32>);

fn edit(operands: &Operands<f32>, mut c: Vec<f32>, row: usize, col: usize, to: f32) -> Vec<f32> {
    c[operands.problem.c.index(row, col)] = to;
    c
}

fn scaled(operands: &Operands<f32>, c: Vec<f32>, row: usize, col: usize, by: f32) -> Vec<f32> {
    let element = c[operands.problem.c.index(row, col)];
    edit(operands, c, row, col, element * by)
}

/// Rounds to the eleven significant bits of f16.
fn half(value: f32) -> f32 {
    let magic = value * 8193.0;
    magic - (magic - value)
}

/// The last k tile, which need not be whole.
fn last_tile(k: usize) -> usize {
    (k - 1) / TILE * TILE
}

const MUTANTS: &[Mutant] = &[
    ("first element doubled", |o, c| scaled(o, c, 0, 0, 2.0)),
    ("last element lost its sign", |o, c| scaled(o, c, o.problem.m - 1, o.problem.n - 1, -1.0)),
    ("one element off by 1 %", |o, c| scaled(o, c, 40, 7, 1.01)),
    ("one element off by 1e-4", |o, c| scaled(o, c, 41, 3, 1.0001)),
    ("one element off by 30", |o, c| {
        let found = c[o.problem.c.index(17, 40)];
        edit(o, c, 17, 40, found + 30.0)
    }),
    ("one element huge", |o, c| edit(o, c, 12, 1, 1e30)),
    ("one NaN", |o, c| edit(o, c, 50, 11, f32::NAN)),
    ("one +inf", |o, c| edit(o, c, 3, 30, f32::INFINITY)),
    ("one -inf", |o, c| edit(o, c, 69, 0, f32::NEG_INFINITY)),
    ("C transposed", |o, c| {
        let mut wrong = c.clone();
        for (row, col) in (0..o.problem.m).flat_map(|row| (0..o.problem.n).map(move |c| (row, c))) {
            wrong[o.problem.c.index(row, col)] = c[o.problem.c.index(col, row)];
        }
        wrong
    }),
    ("one tile stale", |o, c| {
        let last = last_tile(o.problem.k);
        let stale = o.result(|row, col| o.sum(row, col, 0..last));
        let mut wrong = c;
        for (row, col) in (32..64).flat_map(|row| (0..32).map(move |col| (row, col))) {
            let at = o.problem.c.index(row, col);
            wrong[at] = stale[at];
        }
        wrong
    }),
    ("one tile multiplies the tiles before", |o, c| {
        let k = o.problem.k;
        let stale = o.result(|row, col| {
            let again = (0..k).map(|step| if step < last_tile(k) { step } else { step - TILE });
            o.sum(row, col, again)
        });
        let mut wrong = c;
        for (row, col) in (0..32).flat_map(|row| (32..64).map(move |col| (row, col))) {
            let at = o.problem.c.index(row, col);
            wrong[at] = stale[at];
        }
        wrong
    }),
    ("one row never written", |o, c| {
        let (mut wrong, fresh) = (c, o.fresh());
        for col in 0..o.problem.n {
            wrong[o.problem.c.index(33, col)] = fresh[o.problem.c.index(33, col)];
        }
        wrong
    }),
    ("nothing written", |o, _| o.fresh()),
    ("two rows swapped", |o, c| {
        let mut wrong = c;
        for col in 0..o.problem.n {
            wrong.swap(o.problem.c.index(20, col), o.problem.c.index(21, col));
        }
        wrong
    }),
    ("two columns swapped", |o, c| {
        let mut wrong = c;
        for row in 0..o.problem.m {
            wrong.swap(o.problem.c.index(row, 20), o.problem.c.index(row, 21));
        }
        wrong
    }),
    ("leading dimension of A one too small", |o, _| {
        let skewed = Layout { ld: o.problem.a.ld - 1, ..o.problem.a };
        let a = |row, step| o.a[skewed.index(row, step)];
        o.result(|row, col| (0..o.problem.k).fold(0.0, |acc, l| acc + a(row, l) * o.b(l, col)))
    }),
    ("alpha forgotten", |o, _| {
        let plain = o.problem.with_scalars(1.0, o.problem.beta);
        let wrong = Operands { problem: plain, name: String::new(), ..o.copy() };
        wrong.correct()
    }),
    ("beta C forgotten", |o, _| {
        let plain = o.problem.with_scalars(o.problem.alpha, 0.0);
        let wrong = Operands { problem: plain, name: String::new(), ..o.copy() };
        wrong.correct()
    }),
    ("accumulator rounded to f16", |o, _| {
        let k = o.problem.k;
        o.result(|row, col| (0..k).fold(0.0, |acc, l| half(acc + o.a(row, l) * o.b(l, col))))
    }),
    ("operands rounded to f16", |o, _| {
        let k = o.problem.k;
        let product = |row, col, l| half(o.a(row, l)) * half(o.b(l, col));
        o.result(|row, col| (0..k).fold(0.0, |acc, l| acc + product(row, col, l)))
    }),
    ("last element of k lost", |o, _| o.result(|row, col| o.sum(row, col, 0..o.problem.k - 1))),
    ("k tail beyond the last whole tile lost", |o, _| {
        o.result(|row, col| o.sum(row, col, 0..o.problem.k / TILE * TILE))
    }),
    ("accumulator not zeroed", |o, _| {
        let mut left = 0.0;
        let mut wrong = o.fresh();
        let problem = o.problem;
        for (row, col) in (0..problem.m).flat_map(|row| (0..problem.n).map(move |col| (row, col))) {
            left += o.sum(row, col, 0..problem.k);
            let at = problem.c.index(row, col);
            wrong[at] = epilogue(problem.alpha, left, problem.beta, || o.c_before[at]);
        }
        wrong
    }),
    ("sums of another column", |o, _| {
        o.result(|row, col| o.sum(row, (col + 1) % o.problem.n, 0..o.problem.k))
    }),
];

impl Operands<f32> {
    fn copy(&self) -> Self {
        let Self { problem, a, b, c_before, name } = self;
        let (a, b, c_before) = (a.clone(), b.clone(), c_before.clone());
        Self { problem: *problem, a, b, c_before, name: name.clone() }
    }

    /// The largest error of a row, as a Euclidean norm over what random vectors are certain to see
    /// of a single element.
    fn loudness(&self, checker: &Checker<'_, f32>, right: &[f32], wrong: &[f32]) -> f64 {
        let visible = |row| checker.visible_error(row).expect("random vectors");
        let of_row = |row: usize| {
            let difference = |col: usize| {
                let at = self.problem.c.index(row, col);
                f64::from(wrong[at]) - f64::from(right[at])
            };
            let norm = (0..self.problem.n).map(|col| difference(col).powi(2)).sum::<f64>().sqrt();
            if norm.is_nan() { f64::INFINITY } else { norm / visible(row) }
        };
        (0..self.problem.m).map(of_row).fold(0.0, f64::max)
    }
}

#[test]
fn every_mutant_is_caught() {
    let (mut cases, mut failures) = (0, vec![]);
    let mut heard = [0; MUTANTS.len()];
    for operands in attacked() {
        let right = operands.correct();
        let full = operands.checker(Method::Full);
        let freivalds = operands.checker(Method::Freivalds);
        let exact = full.check(&right).bound == 0.0;
        for ((name, mutate), heard) in MUTANTS.iter().zip(&mut heard) {
            let wrong = mutate(&operands, right.clone());
            if right.iter().zip(&wrong).all(|(x, y)| x.same_bits(*y)) {
                // With these factors or data the fault is none: alpha is 1, halves hold integers.
                continue;
            }
            cases += 1;
            let report = full.check(&wrong);
            if report.ok {
                failures.push(format!("{name}, full, {}: {report}", operands.name));
            }
            let loud = operands.loudness(&freivalds, &right, &wrong) > 1.0;
            *heard += usize::from(loud);
            let report = freivalds.check(&wrong);
            if report.ok && (loud || exact) {
                failures.push(format!("{name}, freivalds, {}: {report}", operands.name));
            }
        }
    }
    for ((name, _), heard) in MUTANTS.iter().zip(heard) {
        let faint = ["one element off by 1 %", "one element off by 1e-4"];
        if heard == 0 && !faint.contains(name) && !name.ends_with("rounded to f16") {
            failures.push(format!("{name} is never above the threshold of random vectors"));
        }
    }
    settle(cases, &failures);
}
