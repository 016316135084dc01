//! Products whose rows are groups of those of one A and one C, on the emulator.

use gemm_spec::fusion::{Activation, Bias, Epilogue};
use gemm_spec::{Convert, Layout, Order};
use kernels_gpu::Kernel;
use lab::{Problem, Scalar, ScalarTypes, emulate};
use libtest_mimic::Failed;

use crate::epilogues::{single, sum_of};
use crate::support::{Case, Operands};
use crate::{Backend, Extent};

/// Rows of all groups, which are more than a tile's twice.
const ROWS: usize = 270;

/// Where groups end: within tiles and with them, empty ones, all in one, one row each, fewer rows than there are,
/// and more.
const ENDS: [&[u32]; 7] = [
    &[3, 70, 70, 134, 270],
    &[0, 0, 270, 270],
    &[1, 2, 3, 4, 5],
    &[64, 128, 192, 256, 270],
    &[90, 180, 999],
    &[200, 100, 230],
    &[131],
];

/// The groups' products are right, and what is in no group is left.
pub(crate) fn has_groups_of_rows<T: ScalarTypes>(
    backend: Backend,
    spec: Kernel,
    extent: Extent,
) -> Result<(), Failed> {
    debug_assert!(backend == Backend::Emulator);
    for (at, ends) in ENDS.into_iter().enumerate() {
        if !extent.has(at, 3) {
            continue;
        }
        // Lines that TMA stores and lines that threads do; a B that all have and one for each.
        for (n, k, order, b_stride) in [
            (136, 72, Order::RowMajor, 136 * 72),
            (264, 8, Order::ColMajor, 264 * 8),
            (61, 40, Order::RowMajor, 0),
        ] {
            for finishes in [false, true] {
                one::<T>(spec, ends, [n, k], (order, b_stride), finishes)
                    .map_err(|what| format!("{ends:?}, {n} x {k}, {finishes}: {what}"))?;
            }
        }
    }
    Ok(())
}

fn one<T: ScalarTypes>(
    spec: Kernel,
    ends: &[u32],
    [n, k]: [usize; 2],
    (order, b_stride): (Order, usize),
    finishes: bool,
) -> Result<(), String> {
    let drawn = Operands::<T>::draw(&Case::new(ROWS, n, k * ends.len()));
    let of_b = match order {
        Order::RowMajor => Layout::row_major(n),
        Order::ColMajor => Layout::col_major(k),
    };
    let problem = Problem::<T>::new(ROWS, n, k).with_layouts(
        Layout::row_major(k),
        of_b,
        Layout::row_major(n),
    );
    let fused = Epilogue::new(Some(Bias::PerColumn), Activation::Relu);
    let bias_stride = n + 3;
    let number = |at: usize| ((at * 3) % 7) as f32 * 0.25 - 0.75;
    let biases = if finishes { bias_stride * ends.len() } else { 0 };
    let bias: Vec<T::C> = (0..biases).map(|at| T::C::narrow(sum_of(number(at)))).collect();
    let mut c = vec![T::C::POISON; ROWS * n];
    let given = emulate::Fused {
        epilogue: if finishes { fused } else { Epilogue::NONE },
        old: None,
        bias: &bias,
        row_scales: &[],
        column_scales: &[],
        amax: &mut [0],
        scalars: &[],
        bias_stride,
    };
    let options = emulate::Options { multiprocessors: 2, ..emulate::Options::default() };
    let groups = emulate::RowGroups { ends, b_stride };
    let factors = (&drawn.a[..ROWS * k], &drawn.b[..]);
    emulate::run_groups(options, spec, &problem, factors, &mut c, groups, given)
        .map_err(|error| error.to_string())?;
    let mut begin = 0;
    for (group, &end) in ends.iter().enumerate() {
        let end = (end as usize).clamp(begin, ROWS);
        for row in begin..end {
            for col in 0..n {
                let product = |p: usize| {
                    let b = drawn.b[group * b_stride + of_b.index(p, col)];
                    drawn.a[row * k + p].to_f64() * b.to_f64()
                };
                let mut exact: f64 = (0..k).map(product).sum();
                let scale: f64 = (0..k).map(|p| product(p).abs()).sum();
                if finishes {
                    let added = single(bias[group * bias_stride + col].widen());
                    exact = (exact + f64::from(added)).max(0.0);
                }
                let found = c[row * n + col].to_f64();
                // A unit of C's type, and what sums in another order are off by.
                let within =
                    2.0 * T::TYPES.c().unit_roundoff() * exact.abs() + 1e-5 * (scale + 1.0);
                let off = (found - exact).abs();
                if off.is_nan() || off > within {
                    return Err(format!("({row}, {col}) of group {group} is {found}, not {exact}"));
                }
            }
        }
        begin = end;
    }
    match (begin * n..ROWS * n).find(|&at| !c[at].same_bits(T::C::POISON)) {
        Some(at) => Err(format!("row {} is in no group, and was written", at / n)),
        None => Ok(()),
    }
}
