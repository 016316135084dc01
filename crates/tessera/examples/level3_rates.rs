//! Rates of level 3 beside that of the product of the same type, on one machine, interleaved:
//!
//! ```sh
//! cargo run --release -p tessera --no-default-features --example level3_rates -- 2048 1
//! ```
//!
//! The arguments are the order of the matrices and the number of threads. GFLOP/s by the usual counts, the
//! best of some repeats.

#![expect(clippy::print_stdout, reason = "an example shows what it measures")]

use std::num::NonZeroUsize;
use std::time::Instant;

use tessera::blas3::{self, Complex, Diag, Field, Op, Side, Uplo, View, ViewMut};
use tessera::{CpuContext, Error, Layout};

const REPEATS: usize = 5;
const NAMES: [&str; 8] =
    ["gemm", "symm", "syrk", "syr2k", "trmm left", "trmm right", "trsm left", "trsm right"];

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let mut next = |default| arguments.next().and_then(Result::ok).unwrap_or(default);
    let (n, threads) = (next(2048), next(1));
    let context = CpuContext::new(NonZeroUsize::new(threads))?;
    println!("n = {n}, {threads} threads, {}", context.isa());
    rates::<f32>("f32", n, &context)?;
    rates::<f64>("f64", n, &context)?;
    rates::<Complex<f32>>("complex f32", n, &context)?;
    rates::<Complex<f64>>("complex f64", n, &context)
}

fn rates<T: Field>(name: &str, n: usize, context: &CpuContext) -> Result<(), Error> {
    let layout = Layout::col_major(n);
    let values = |seed: usize| {
        let mut state = seed;
        let mut values = Vec::with_capacity(n * n);
        for _ in 0..n * n {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            values.push(if state >> 40 & 1 == 0 { T::ONE } else { -T::ONE });
        }
        values
    };
    let (a, b, mut c) = (values(1), values(2), values(3));
    // A triangle whose solutions stay small: ones and minus ones, scaled far down beside the diagonal.
    let mut small = T::ONE;
    for _ in 0..n.ilog2() + 2 {
        small = small.divide(T::ONE + T::ONE);
    }
    let mut t: Vec<T> = a.iter().map(|&value| value * small).collect();
    (0..n).for_each(|i| t[layout.index(i, i)] = T::ONE);
    let mut best = [f64::INFINITY; NAMES.len()];
    for _ in 0..REPEATS {
        for (routine, best) in best.iter_mut().enumerate() {
            let (a, b) = (View::new(&a, n, n, layout)?, View::new(&b, n, n, layout)?);
            let t = View::new(&t, n, n, layout)?;
            let x = ViewMut::new(&mut c, n, n, layout)?;
            let (one, lower) = (T::ONE, Uplo::Lower);
            let (op, diag) = (Op::NoTrans, Diag::NonUnit);
            let start = Instant::now();
            match routine {
                0 => blas3::gemm(op, op, one, a, b, T::ZERO, x, context)?,
                1 => blas3::symm(Side::Left, lower, one, a, b, T::ZERO, x, context)?,
                2 => blas3::syrk(lower, op, one, a, T::ZERO, x, context)?,
                3 => blas3::syr2k(lower, op, one, a, b, T::ZERO, x, context)?,
                4 => blas3::trmm(Side::Left, lower, op, diag, one, t, x, context)?,
                5 => blas3::trmm(Side::Right, lower, op, diag, one, t, x, context)?,
                6 => blas3::trsm(Side::Left, lower, op, diag, one, t, x, context)?,
                _ => blas3::trsm(Side::Right, lower, op, diag, one, t, x, context)?,
            }
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }
    let per_product = if T::IS_COMPLEX { 8.0 } else { 2.0 };
    let cubed = (n as f64).powi(3) * per_product;
    let rate = |routine: usize| {
        let flops = if matches!(routine, 0 | 1 | 3) { cubed } else { cubed / 2.0 };
        flops / best[routine] / 1e9
    };
    for (routine, routine_name) in NAMES.into_iter().enumerate() {
        let share = rate(routine) / rate(0);
        println!("{name:12} {routine_name:11} {:8.1} GFLOP/s {share:6.2}", rate(routine));
    }
    Ok(())
}
