//! Level 3 against its definitions, on small integers, of which all sums and quotients here are exact.
//!
//! What a routine may not read holds NaN: the other triangle, a diagonal of ones, imaginary parts of a Hermitian
//! diagonal, the padding, and C where beta is zero. What it may not write is compared afterwards.

mod reference;
mod rules;

use reference::{Dense, Number, ORDERS, sizes};
use tessera::CpuContext;
use tessera::blas3::{self, Complex, Diag, Op, Side, Uplo};

const SIDES: [Side; 2] = [Side::Left, Side::Right];
const UPLOS: [Uplo; 2] = [Uplo::Upper, Uplo::Lower];
const OPS: [Op; 3] = [Op::NoTrans, Op::Trans, Op::ConjTrans];
const DIAGS: [Diag; 2] = [Diag::NonUnit, Diag::Unit];

fn context() -> CpuContext {
    CpuContext::new(std::num::NonZeroUsize::new(2)).expect("threads start")
}

/// A routine for each type of elements, each a test of its own.
macro_rules! of_all_types {
    ($($routine:ident)*) => {$(
        mod $routine {
            use super::*;

            #[test]
            fn of_f32() {
                super::$routine::<f32>();
            }

            #[test]
            fn of_f64() {
                super::$routine::<f64>();
            }

            #[test]
            fn of_complex_f32() {
                super::$routine::<Complex<f32>>();
            }

            #[test]
            fn of_complex_f64() {
                super::$routine::<Complex<f64>>();
            }
        }
    )*};
}

of_all_types!(general symmetric triangular triangular_of_many rank_k rank_2k);

/// Alpha and beta, alternately.
fn factors<T: Number>(case: usize) -> (T, T) {
    let (two, odd) = (T::of(2, 0), T::of(1, 2));
    [(T::ONE, T::ZERO), (-T::ONE, T::ONE), (two, -two), (odd, two), (two, odd), (T::ZERO, odd)]
        [case % 6]
}

fn general<T: Number>() {
    let context = context();
    let mut case = 0;
    for n in sizes() {
        let (m, k) = (n * 5 % 11 + 1, n * 7 % 19);
        for op_a in OPS {
            for op_b in OPS {
                let (alpha, beta) = factors::<T>(case);
                case += 1;
                let order = |bit: usize| ORDERS[case >> bit & 1];
                let a = Dense::new(m, k, order(0), 1).stored_for(op_a);
                let b = Dense::new(k, n, order(1), 2).stored_for(op_b);
                let mut c = Dense::new(m, n, order(2), 3);
                let expected = c.updated(alpha, beta, |i, j| {
                    (0..k).fold(T::ZERO, |sum, p| sum + a.op(op_a, i, p) * b.op(op_b, p, j))
                });
                c.poison_if(beta == T::ZERO, |_, _| true);
                blas3::gemm(op_a, op_b, alpha, a.view(), b.view(), beta, c.view_mut(), &context)
                    .expect("it fits");
                c.check(&expected, &format!("{m} {n} {k} {op_a:?} {op_b:?} {alpha:?} {beta:?}"));
            }
        }
    }
}

/// Whether an element is in a triangle, the diagonal included.
fn is_in(uplo: Uplo, i: usize, j: usize) -> bool {
    match uplo {
        Uplo::Upper => i <= j,
        Uplo::Lower => i >= j,
    }
}

fn symmetric<T: Number>() {
    let context = context();
    let mut case = 0;
    for n in sizes() {
        let other = n * 5 % 11 + 1;
        for side in SIDES {
            for uplo in UPLOS {
                for hermitian in [false, true] {
                    let (alpha, beta) = factors::<T>(case);
                    case += 1;
                    let order = |bit: usize| ORDERS[case >> bit & 1];
                    let full = Dense::<T>::new(n, n, order(0), 1);
                    let whole = |i: usize, j: usize| match (is_in(uplo, i, j), hermitian) {
                        (true, true) if i == j => T::from_re(full.get(i, j).re()),
                        (true, _) => full.get(i, j),
                        (false, true) => full.get(j, i).conj(),
                        (false, false) => full.get(j, i),
                    };
                    let mut a = full.clone();
                    a.poison_if(true, |i, j| !is_in(uplo, i, j));
                    if hermitian {
                        a.poison_imaginary_diagonal();
                    }
                    let (m, cols) = if side == Side::Left { (n, other) } else { (other, n) };
                    let b = Dense::new(m, cols, order(1), 2);
                    let mut c = Dense::new(m, cols, order(2), 3);
                    let expected = c.updated(alpha, beta, |i, j| {
                        (0..n).fold(T::ZERO, |sum, p| match side {
                            Side::Left => sum + whole(i, p) * b.get(p, j),
                            Side::Right => sum + b.get(i, p) * whole(p, j),
                        })
                    });
                    c.poison_if(beta == T::ZERO, |_, _| true);
                    let routine = if hermitian { blas3::hemm } else { blas3::symm };
                    routine(side, uplo, alpha, a.view(), b.view(), beta, c.view_mut(), &context)
                        .expect("it fits");
                    let what =
                        format!("{n} {other} {side:?} {uplo:?} {hermitian} {alpha:?} {beta:?}");
                    c.check(&expected, &what);
                }
            }
        }
    }
}

fn triangular<T: Number>() {
    triangular_of::<T>(sizes().map(|n| (n, n * 5 % 11 + 1)));
}

/// Of right-hand sides that are divided among threads, in whole parts or with a part of one.
fn triangular_of_many<T: Number>() {
    triangular_of::<T>([(33, 100), (70, 97), (129, 130)].into_iter());
}

fn triangular_of<T: Number>(sizes: impl Iterator<Item = (usize, usize)>) {
    let context = context();
    let mut case = 0;
    for (n, other) in sizes {
        for (side, uplo) in SIDES.into_iter().flat_map(|side| UPLOS.map(|uplo| (side, uplo))) {
            for (op, diag) in OPS.into_iter().flat_map(|op| DIAGS.map(|diag| (op, diag))) {
                case += 1;
                let order = |bit: usize| ORDERS[case >> bit & 1];
                let full = Dense::<T>::triangle(n, order(0));
                let stored = |i: usize, j: usize| match (i == j, is_in(uplo, i, j)) {
                    (true, _) if diag == Diag::Unit => T::ONE,
                    (_, true) => full.get(i, j),
                    (_, false) => T::ZERO,
                };
                let of_op = |i: usize, j: usize| match op {
                    Op::NoTrans => stored(i, j),
                    Op::Trans => stored(j, i),
                    Op::ConjTrans => stored(j, i).conj(),
                };
                let mut a = full.clone();
                let is_poisoned = |i, j| !is_in(uplo, i, j) || i == j && diag == Diag::Unit;
                a.poison_if(true, is_poisoned);
                let (m, cols) = if side == Side::Left { (n, other) } else { (other, n) };
                let x = Dense::<T>::new(m, cols, order(1), 2);
                let (alpha, _) = factors::<T>(case);
                let mut b = x.clone();
                let product = b.updated(T::ONE, T::ZERO, |i, j| {
                    (0..n).fold(T::ZERO, |sum, p| match side {
                        Side::Left => sum + of_op(i, p) * x.get(p, j),
                        Side::Right => sum + x.get(i, p) * of_op(p, j),
                    })
                });
                let expected = b.updated(alpha, T::ZERO, |i, j| product.get(i, j));
                b.poison_if(alpha == T::ZERO, |_, _| true);
                let what = format!("{n} {other} {side:?} {uplo:?} {op:?} {diag:?} {alpha:?}");
                blas3::trmm(side, uplo, op, diag, alpha, a.view(), b.view_mut(), &context)
                    .expect("it fits");
                b.check(&expected, &format!("trmm {what}"));

                let mut b = product;
                let expected = b.updated(alpha, T::ZERO, |i, j| x.get(i, j));
                b.poison_if(alpha == T::ZERO, |_, _| true);
                blas3::trsm(side, uplo, op, diag, alpha, a.view(), b.view_mut(), &context)
                    .expect("it fits");
                b.check(&expected, &format!("trsm {what}"));
            }
        }
    }
}

fn rank_k<T: Number>() {
    let context = context();
    let mut case = 0;
    for n in sizes() {
        for (uplo, op) in UPLOS.into_iter().flat_map(|uplo| OPS.map(|op| (uplo, op))) {
            for routine in ["syrk", "herk", "gemmtr"] {
                case += 1;
                let order = |bit: usize| ORDERS[case >> bit & 1];
                let k = (n + case) * 7 % 19;
                let (mut alpha, mut beta) = factors::<T>(case);
                let hermitian = routine == "herk";
                let op_b = match routine {
                    "syrk" if op == Op::NoTrans => Op::Trans,
                    "herk" if op == Op::NoTrans => Op::ConjTrans,
                    "syrk" | "herk" => Op::NoTrans,
                    _ => OPS[case % 3],
                };
                // Whatever is not "no transposition" is the one that the routine knows.
                let op = match routine {
                    "syrk" if op != Op::NoTrans => Op::Trans,
                    "herk" if op != Op::NoTrans => Op::ConjTrans,
                    _ => op,
                };
                let a = Dense::<T>::new(n, k, order(0), 1).stored_for(op);
                let b = match routine {
                    "gemmtr" => Dense::new(k, n, order(1), 2).stored_for(op_b),
                    _ => a.clone(),
                };
                if hermitian {
                    (alpha, beta) = (T::from_re(alpha.re()), T::from_re(beta.re()));
                }
                let mut c = Dense::<T>::new(n, n, order(2), 3);
                let untouched = (alpha == T::ZERO || k == 0) && beta == T::ONE;
                c.poison_if(true, |i, j| !is_in(uplo, i, j));
                let mut old = c.clone();
                if hermitian && !untouched {
                    old.make_diagonal_real();
                    c.poison_imaginary_diagonal();
                }
                let expected = old.updated_triangle(uplo, alpha, beta, |i, j| {
                    (0..k).fold(T::ZERO, |sum, p| sum + a.op(op, i, p) * b.op(op_b, p, j))
                });
                c.poison_if(beta == T::ZERO, |i, j| is_in(uplo, i, j));
                let (va, vb, vc) = (a.view(), b.view(), c.view_mut());
                match routine {
                    "syrk" => blas3::syrk(uplo, op, alpha, va, beta, vc, &context),
                    "herk" => blas3::herk(uplo, op, alpha.re(), va, beta.re(), vc, &context),
                    _ => blas3::gemmtr(uplo, op, op_b, alpha, va, vb, beta, vc, &context),
                }
                .expect("it fits");
                let what = format!("{routine} {n} {k} {uplo:?} {op:?} {op_b:?} {alpha:?} {beta:?}");
                c.check(&expected, &what);
            }
        }
    }
}

fn rank_2k<T: Number>() {
    let context = context();
    let mut case = 0;
    for n in sizes() {
        for (uplo, op) in UPLOS.into_iter().flat_map(|uplo| OPS.map(|op| (uplo, op))) {
            for hermitian in [false, true] {
                case += 1;
                let order = |bit: usize| ORDERS[case >> bit & 1];
                let k = (n + case) * 7 % 19;
                let (alpha, mut beta) = factors::<T>(case);
                let turned = if hermitian { Op::ConjTrans } else { Op::Trans };
                let op = if op == Op::NoTrans { op } else { turned };
                let (of_a, of_b) =
                    if op == Op::NoTrans { (op, turned) } else { (turned, Op::NoTrans) };
                let a = Dense::<T>::new(n, k, order(0), 1).stored_for(op);
                let b = Dense::<T>::new(n, k, order(1), 2).stored_for(op);
                if hermitian {
                    beta = T::from_re(beta.re());
                }
                let mut c = Dense::<T>::new(n, n, order(2), 3);
                let untouched = (alpha == T::ZERO || k == 0) && beta == T::ONE;
                c.poison_if(true, |i, j| !is_in(uplo, i, j));
                let mut old = c.clone();
                if hermitian && !untouched {
                    old.make_diagonal_real();
                    c.poison_imaginary_diagonal();
                }
                let second = if hermitian { alpha.conj() } else { alpha };
                let expected = old.updated_triangle(uplo, T::ONE, beta, |i, j| {
                    let of = |x: &Dense<T>, y: &Dense<T>| {
                        (0..k).fold(T::ZERO, |sum, p| sum + x.op(of_a, i, p) * y.op(of_b, p, j))
                    };
                    alpha * of(&a, &b) + second * of(&b, &a)
                });
                c.poison_if(beta == T::ZERO, |i, j| is_in(uplo, i, j));
                let (va, vb, vc) = (a.view(), b.view(), c.view_mut());
                match hermitian {
                    true => blas3::her2k(uplo, op, alpha, va, vb, beta.re(), vc, &context),
                    false => blas3::syr2k(uplo, op, alpha, va, vb, beta, vc, &context),
                }
                .expect("it fits");
                let what = format!("{n} {k} {uplo:?} {op:?} {hermitian} {alpha:?} {beta:?}");
                c.check(&expected, &what);
            }
        }
    }
}
