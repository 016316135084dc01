//! Properties of kernels that split their operands.

use gemm_spec::split::Limbs;
use gemm_spec::{Layout, OperandAccess};
use kernels_gpu::Kernel;
use lab::Problem;
use lab::cpu::CPU;
use lab::fill::{Distribution, fill};
use lab::verify::Guarded;
use libtest_mimic::Failed;

use crate::{Backend, Extent, orders};

/// A packed matrix of uniform numbers in [-1, 1).
fn inputs(rows: usize, cols: usize, seed: u64) -> Vec<f32> {
    let mut data = vec![0.0; rows * cols];
    fill(&mut data, cols, cols, Distribution::Uniform, seed, 0);
    data
}

/// What serial computes from packed operands.
fn serial(problem: &Problem<f32>, a: &[f32], b: &[f32]) -> Result<Vec<f32>, String> {
    let context = lab::cpu::context(None).map_err(|error| error.to_string())?;
    let mut c = vec![0.0; problem.m * problem.n];
    CPU[0].gemm::<f32>(problem, a, b, &mut c, &context).expect("the buffers fit");
    Ok(c)
}

/// What the kernel computes, between guard words.
fn computed(
    backend: Backend,
    spec: Kernel,
    problem: &Problem<f32>,
    a: &[f32],
    b: &[f32],
) -> Result<Vec<f32>, String> {
    let mut c = Guarded::new(problem).map_err(|error| error.to_string())?;
    backend.run(spec, problem, a, b, &mut c)?;
    Ok(c.as_mut_slice().to_vec())
}

/// Whether two results are the same bits, or both NaN.
fn same(x: f32, y: f32) -> bool {
    x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan()
}

/// An element of a product in f64, and the sum of the magnitudes of its terms.
fn exact(problem: &Problem<f32>, a: &[f32], b: &[f32], (row, col): (usize, usize)) -> (f64, f64) {
    let (n, k) = (problem.n, problem.k);
    let terms = (0..k).map(|s| f64::from(a[row * k + s]) * f64::from(b[s * n + col]));
    terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()))
}

/// Whether the kernel splits scaled rows into two limbs.
fn scales(spec: Kernel) -> bool {
    matches!(spec.operands, OperandAccess::Limbs(Limbs::TwoF16))
}

/// Rows of C of a warp of the fallback, and columns of its tiles.
const WARP_ROWS: usize = 16;
const TILE_COLS: usize = 128;

/// Inputs that limbs cannot hold. Where a factor is not finite the fallback gives the bits of serial to the rows of a
/// warp, or the columns of a tile; all other elements are within the bound of f32, as are those of rows of any scale,
/// zeros and subnormals included, which it scales.
pub(crate) fn splits_what_can_be_split(
    backend: Backend,
    spec: Kernel,
    _: Extent,
) -> Result<(), Failed> {
    let (m, n, k) = (140, 135, 70);
    let problem = Problem::<f32>::new(m, n, k);
    let (plain_a, plain_b) = (inputs(m, k, 5), inputs(k, n, 6));
    for (what, value) in
        [("NaN", f32::NAN), ("infinity", f32::INFINITY), ("-infinity", f32::NEG_INFINITY)]
    {
        for in_b in [false, true] {
            let (mut a, mut b) = (plain_a.clone(), plain_b.clone());
            let side = if in_b { &mut b } else { &mut a };
            side[1234] = value;
            side[4321] = 0.0;
            let expected = serial(&problem, &a, &b)?;
            let found = computed(backend, spec, &problem, &a, &b)?;
            let mut limbs = 0;
            for (at, (&found, &expected)) in found.iter().zip(&expected).enumerate() {
                let (row, col) = (at / n, at % n);
                let gives_way = if in_b {
                    col / TILE_COLS == 1234 % n / TILE_COLS
                } else {
                    row / WARP_ROWS == 1234 / k / WARP_ROWS
                };
                let (exact, size) = exact(&problem, &a, &b, (row, col));
                let bound = size * (k + 3) as f64 * 2f64.powi(-24);
                if !same(found, expected) {
                    limbs += 1;
                    if gives_way || (f64::from(found) - exact).abs() > bound {
                        return Err(format!(
                            "{what} in {}: ({row}, {col}) is {found:e}, not {expected:e}",
                            if in_b { "B" } else { "A" }
                        )
                        .into());
                    }
                }
            }
            if limbs == 0 {
                return Err(format!("{what}: no limbs are multiplied").into());
            }
        }
    }
    let (mut a, mut b) = (plain_a, plain_b);
    #[expect(clippy::cast_possible_truncation, reason = "rounded, to subnormals too")]
    let scaled = |value: f32, scale: f64| (f64::from(value) * scale) as f32;
    for (row, exponent) in (0..m).zip((-150..).step_by(2)) {
        // From 2^-149 to 2^128, and a row of zeros.
        let scale = if row == 7 { 0.0 } else { 2f64.powi(exponent) };
        a[row * k..][..k].iter_mut().for_each(|x| *x = scaled(*x, scale));
    }
    for (col, exponent) in (0..n).zip(-60..) {
        let scale = 2f64.powi(exponent);
        (0..k).for_each(|step| b[step * n + col] = scaled(b[step * n + col], scale));
    }
    let found = computed(backend, spec, &problem, &a, &b)?;
    for row in 0..m {
        for col in 0..n {
            let (exact, size) = exact(&problem, &a, &b, (row, col));
            let found = found[row * n + col];
            // One more rounding where the result is subnormal.
            let bound = size * 2f64.powi(-20) + 2f64.powi(-148);
            let right = if exact.abs() > f64::from(f32::MAX) * 1.0001 {
                found.is_infinite()
            } else {
                (f64::from(found) - exact).abs() <= bound || size > f64::from(f32::MAX)
            };
            if !right {
                return Err(format!("({row}, {col}) is {found:e}, not {exact:e}").into());
            }
        }
    }
    for flags in 1..4 {
        let (mut reordered, mut of_a, mut of_b) = (problem, a.clone(), b.clone());
        if flags & 1 != 0 {
            (reordered.a, of_a) = (Layout::col_major(m + 1), orders::col_major(&a, m, k, m + 1));
        }
        if flags & 2 != 0 {
            (reordered.b, of_b) = (Layout::col_major(k + 2), orders::col_major(&b, k, n, k + 2));
        }
        let other = computed(backend, spec, &reordered, &of_a, &of_b)?;
        if !other.iter().zip(&found).all(|(&x, &y)| same(x, y)) {
            return Err(format!("orders {flags}: other bits").into());
        }
    }
    let chain = serial(&problem, &a, &b)?;
    let of_chain = found.iter().zip(&chain).filter(|&(&x, &y)| same(x, y)).count();
    // Some have the same bits by either, in particular where little is left of them.
    if 2 * of_chain > m * n {
        return Err(format!("{of_chain} elements of {} are those of multiply-adds", m * n).into());
    }
    Ok(())
}

/// Rows whose elements are far apart. Three limbs hold them all and are multiplied; two limbs do where
/// the small meet the small, and elsewhere give way to three of scaled rows, and these, where elements are too far apart,
/// to multiply-adds, whose bits are those of serial.
pub(crate) fn wide_rows_lose_nothing(
    backend: Backend,
    spec: Kernel,
    _: Extent,
) -> Result<(), Failed> {
    let (m, n, k) = (140, 135, 96);
    let problem = Problem::<f32>::new(m, n, k);
    let (plain_a, plain_b) = (inputs(m, k, 5), inputs(k, n, 6));
    let two = scales(spec);
    // By which A's columns are multiplied, and by which B's rows are; whether limbs of scaled rows hold it.
    type Exponent = fn(i32) -> i32;
    let cases: [(&str, Exponent, Exponent, bool); 5] = [
        ("plain", |_| 0, |_| 0, true),
        ("small meet small", |step| step % 30 - 15, |step| step % 30 - 15, true),
        ("units", |step| step % 31 - 15, |step| 15 - step % 31, true),
        ("mostly lost", |step| if step % 4 == 0 { 30 } else { -30 }, |_| 0, true),
        ("too far apart", |step| if step % 4 == 0 { 60 } else { -60 }, |_| 0, false),
    ];
    for (what, of_a, of_b, fits_scaled) in cases {
        let (mut a, mut b) = (plain_a.clone(), plain_b.clone());
        for row in a.chunks_exact_mut(k) {
            for (value, step) in row.iter_mut().zip(0..) {
                *value *= 2f32.powi(of_a(step));
            }
        }
        for (row, step) in b.chunks_exact_mut(n).zip(0..) {
            row.iter_mut().for_each(|value| *value *= 2f32.powi(of_b(step)));
        }
        let found = computed(backend, spec, &problem, &a, &b)?;
        let chain = serial(&problem, &a, &b)?;
        let multiplied_limbs = !two || fits_scaled;
        if (found == chain) == multiplied_limbs {
            let what_else = if multiplied_limbs { "multiply-adds" } else { "limbs" };
            return Err(format!("{what}: the product is that of {what_else}").into());
        }
        for row in 0..m {
            for col in 0..n {
                let (exact, size) = exact(&problem, &a, &b, (row, col));
                let error = (f64::from(found[row * n + col]) - exact).abs();
                if error > size * (k + 3) as f64 * 2f64.powi(-24) {
                    return Err(
                        format!("{what}: ({row}, {col}) is off by {error:e} of {size:e}").into()
                    );
                }
            }
        }
    }
    Ok(())
}

/// The same of a kernel whose blocks split as they load: a warp whose rows are not held as limbs has the bits of serial,
/// whatever the others do, and all elements are within the bound of f32.
pub(crate) fn each_warp_gives_way(backend: Backend, spec: Kernel, _: Extent) -> Result<(), Failed> {
    // The row that is changed.
    const ODD: usize = 35;
    let (m, n, k) = (140, 66, 70);
    let problem = Problem::<f32>::new(m, n, k);
    let (plain_a, plain_b) = (inputs(m, k, 5), inputs(k, n, 6));
    let values =
        [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 2f32.powi(-110) / 3.0, 1e-44];
    for (value, in_b) in values.into_iter().flat_map(|value| [(value, false), (value, true)]) {
        let (mut a, mut b) = (plain_a.clone(), plain_b.clone());
        // Other terms beside it would cover what this one may lose.
        if in_b {
            (0..k).for_each(|step| b[step * n + 7] = 0.0);
            b[41 * n + 7] = value;
        } else {
            a[ODD * k..][..k].fill(0.0);
            a[ODD * k + 41] = value;
        }
        let what = format!("{value:e} in {}", if in_b { "B" } else { "A" });
        let expected = serial(&problem, &a, &b)?;
        let found = computed(backend, spec, &problem, &a, &b)?;
        for row in 0..m {
            for col in 0..n {
                let (found, expected) = (found[row * n + col], expected[row * n + col]);
                let gives_way = if in_b { col == 7 } else { row / WARP_ROWS == ODD / WARP_ROWS };
                let (exact, size) = exact(&problem, &a, &b, (row, col));
                let bound = size * (k + 3) as f64 * 2f64.powi(-24) + 2f64.powi(-149);
                if !same(found, expected) && (gives_way || (f64::from(found) - exact).abs() > bound)
                {
                    return Err(
                        format!("{what}: ({row}, {col}) is {found:e}, not {expected:e}").into()
                    );
                }
            }
        }
        // Not all of it is serial's.
        if value.is_nan()
            && !in_b
            && expected.iter().zip(found.iter()).all(|(x, y)| x == y || x.is_nan())
        {
            return Err(format!("{what}: no limbs are multiplied").into());
        }
    }
    Ok(())
}
