//! Measures what epilogues cost on the CPU, beside the same product without one, in turns.
//!
//! ```sh
//! cargo run --release -p tessera --example epilogue -- [M N K]
//! ```
//!
//! Each time is the median of the rounds; the ratio is the median of the rounds' ratios.

#![expect(clippy::print_stdout, reason = "it shows its result")]

use std::env;
use std::error::Error;
use std::time::Instant;

use tessera::{
    AccOf, Activation, Bias, Device, Element, Engine, Epilogue, EpilogueSlices, Matrix,
    MultiplyInto, bf16,
};

/// Rounds of each row.
const ROUNDS: usize = 15;

fn main() -> Result<(), Box<dyn Error>> {
    let sizes: Vec<usize> =
        env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let shapes = match sizes[..] {
        [m, n, k] => vec![[m, n, k]],
        _ => vec![[512; 3], [1024; 3], [2048; 3], [64, 4096, 4096], [4096, 4096, 256]],
    };
    let engine = Engine::builder().device(Device::Cpu).build()?;
    println!("{:?}", engine.cpu_context());
    println!("types m n k | epilogue | ms | plain ms | ms/plain ms");
    for shape in shapes {
        measure::<f32>(&engine, "f32", shape, value, 1.0)?;
        measure::<bf16>(&engine, "bf16", shape, |at| bf16::from_f32(value(at)), 1.0)?;
    }
    Ok(())
}

/// Numbers between -1 and 1.
fn value(at: usize) -> f32 {
    let mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (mixed % 2001) as f32 / 1000.0 - 1.0
}

fn measure<T: MultiplyInto<T, T> + Element>(
    engine: &Engine,
    name: &str,
    [m, n, k]: [usize; 3],
    value: impl Fn(usize) -> T,
    one: AccOf<T, T, T>,
) -> Result<(), Box<dyn Error>> {
    let matrix =
        |rows: usize, cols: usize| Matrix::from_fn(rows, cols, |row, col| value(row * cols + col));
    let (a, b, c) = (matrix(m, k)?, matrix(k, n)?, matrix(m, n)?);
    let mut d = Matrix::zeros(m, n)?;
    let bias: Vec<T> = (0..n).map(&value).collect();
    let (rows, columns) = (vec![one; m], vec![one; n]);
    let zero = <AccOf<T, T, T> as Default>::default();
    let of = |activation| EpilogueSlices::new(Epilogue::new(None, activation));
    let biased = |activation| of(activation).with_bias(Bias::PerColumn, &bias);
    let none = of(Activation::Identity);
    for (what, epilogue, beta) in [
        ("bias", biased(Activation::Identity), zero),
        ("bias relu", biased(Activation::Relu), zero),
        ("bias gelu", biased(Activation::Gelu), zero),
        ("bias gelu_tanh", biased(Activation::GeluTanh), zero),
        ("silu", of(Activation::Silu), zero),
        ("scales", none.with_row_scales(&rows).with_column_scales(&columns), zero),
        ("amax", EpilogueSlices::new(Epilogue::NONE.with_amax()), zero),
        ("c apart", none, one),
    ] {
        let (mut times, mut plain, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=ROUNDS {
            let begin = Instant::now();
            let c = Some(c.view());
            engine.gemm_with_epilogue(
                (one, beta),
                a.view(),
                b.view(),
                c,
                d.view_mut(),
                &epilogue,
            )?;
            let time = begin.elapsed().as_secs_f64() * 1e3;
            let begin = Instant::now();
            engine.gemm(one, a.view(), b.view(), zero, d.view_mut())?;
            let reference = begin.elapsed().as_secs_f64() * 1e3;
            // The first round fills caches and takes memory.
            if round > 0 {
                times.push(time);
                plain.push(reference);
                ratios.push(time / reference);
            }
        }
        let [time, plain, ratio] = [times, plain, ratios].map(median);
        println!("{name} {m} {n} {k} | {what} | {time:.2} | {plain:.2} | {ratio:.3}");
    }
    Ok(())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
