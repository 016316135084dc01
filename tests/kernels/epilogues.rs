//! Epilogues of the kernels that fuse them, on the emulator. What a GPU computes is a test of the library.

use std::any::Any;

use gemm_spec::fusion::{Activation, Bias, Epilogue, HostPowers};
use gemm_spec::{Accumulator, Convert, Layout, epilogue};
use kernels_gpu::Kernel;
use lab::{Problem, Scalar, ScalarTypes, emulate};
use libtest_mimic::Failed;

use crate::support::{Case, Operands};
use crate::{Backend, Extent};

/// Everything that an epilogue may do, at least once.
fn epilogues() -> [Epilogue; 8] {
    let columns = Epilogue::new(Some(Bias::PerColumn), Activation::Gelu);
    [
        columns.with_amax(),
        Epilogue::new(Some(Bias::PerRow), Activation::Relu).with_column_scales(),
        Epilogue::new(None, Activation::Silu).with_row_scales().with_column_scales().with_amax(),
        Epilogue::new(Some(Bias::PerColumn), Activation::GeluTanh).with_row_scales(),
        Epilogue::new(Some(Bias::PerColumn), Activation::Identity),
        Epilogue::NONE.with_amax(),
        Epilogue::NONE.with_device_scalars(),
        Epilogue::new(Some(Bias::PerRow), Activation::Relu).with_row_scales().with_device_scalars(),
    ]
}

/// Where C is: multiples of what TMA stores, or not; what beta is; and whether what it multiplies is C.
const ARRANGEMENTS: [(usize, f32, bool); 4] =
    [(0, 0.0, false), (1, 0.0, false), (0, 2.0, true), (3, -1.0, false)];

/// Epilogues of tiles that end within C and beyond it, with every number where it belongs.
pub(crate) fn fuses_epilogues<T: ScalarTypes>(
    backend: Backend,
    spec: Kernel,
    extent: Extent,
) -> Result<(), Failed> {
    debug_assert!(backend == Backend::Emulator);
    for (number, epilogue) in epilogues().into_iter().enumerate() {
        for (at, arrangement) in ARRANGEMENTS.into_iter().enumerate() {
            if !extent.has(number + at, 4) {
                continue;
            }
            for sizes in [[65, 88, 40], [24, 136, 8]] {
                one::<T>(spec, sizes, epilogue, arrangement)
                    .map_err(|what| format!("{sizes:?}, {epilogue:?}, arrangement {at}: {what}"))?;
            }
        }
    }
    Ok(())
}

/// A sum of f32, of which these kernels' are.
pub(crate) fn single<Acc: Accumulator>(sum: Acc) -> f32 {
    let sum: &dyn Any = &sum;
    *sum.downcast_ref().expect("sums of f32")
}

pub(crate) fn sum_of<Acc: Accumulator>(value: f32) -> Acc {
    let value: &dyn Any = &value;
    *value.downcast_ref().expect("sums of f32")
}

fn one<T: ScalarTypes>(
    spec: Kernel,
    [m, n, k]: [usize; 3],
    fused: Epilogue,
    (padding, beta, apart): (usize, f32, bool),
) -> Result<(), String> {
    let drawn = Operands::<T>::draw(&Case { alpha: 1.0, beta: 1.0, ..Case::new(m, n, k) });
    let ld = n + padding;
    let scalars = [sum_of(0.5), sum_of(beta)];
    // What is in device memory takes the places of what a kernel is given.
    let given = if fused.device_scalars { [sum_of(1.0), sum_of(0.0)] } else { scalars };
    let problem = Problem::<T>::new(m, n, k).with_scalars(given[0], given[1]).with_layouts(
        Layout::row_major(k),
        Layout::row_major(n),
        Layout::row_major(ld),
    );
    let number = |at: usize, of: usize| ((at * of) % 7) as f32 * 0.25 - 0.75;
    let scales = |len: usize, of| -> Vec<T::Acc> {
        (0..len).map(|at| sum_of(number(at, of) + 1.5)).collect()
    };
    let of_rows = fused.bias == Some(Bias::PerRow);
    let biases = if fused.bias.is_none() {
        0
    } else if of_rows {
        m
    } else {
        n
    };
    let bias: Vec<T::C> = (0..biases).map(|at| T::C::narrow(sum_of(number(at, 3)))).collect();
    let row_scales = scales(if fused.row_scales { m } else { 0 }, 2);
    let column_scales = scales(if fused.column_scales { n } else { 0 }, 5);
    let mut c = vec![T::C::POISON; (m - 1) * ld + n];
    if !apart && beta != 0.0 {
        for row in 0..m {
            c[row * ld..][..n].copy_from_slice(&drawn.c[row * n..][..n]);
        }
    }
    let mut amax = [0u32];
    let given = emulate::Fused {
        epilogue: fused,
        old: apart.then_some((&drawn.c[..m * n], n)),
        bias: &bias,
        row_scales: &row_scales,
        column_scales: &column_scales,
        amax: &mut amax,
        scalars: if fused.device_scalars { &scalars } else { &[] },
        bias_stride: 0,
    };
    let options = emulate::Options { multiprocessors: 2, ..emulate::Options::default() };
    emulate::run_fused(options, spec, &problem, &drawn.a, &drawn.b, &mut c, given)
        .map_err(|error| error.to_string())?;
    let mut largest = 0.0f64;
    for row in 0..m {
        for col in 0..n {
            // In f64: what the order of the sums changes is within the tolerance below.
            let exact: f64 =
                (0..k).map(|p| drawn.a[row * k + p].to_f64() * drawn.b[p * n + col].to_f64()).sum();
            let mut factor = 0.5;
            if fused.row_scales {
                factor *= single(row_scales[row]);
            }
            if fused.column_scales {
                factor *= single(column_scales[col]);
            }
            #[expect(clippy::cast_possible_truncation, reason = "the nearest number is wanted")]
            let exact = exact as f32;
            let old = || single::<T::Acc>(drawn.c[row * n + col].widen());
            let sum: f32 = epilogue(factor, exact, beta, old);
            let added = match fused.bias {
                Some(Bias::PerRow) => single(bias[row].widen()),
                Some(Bias::PerColumn) => single(bias[col].widen()),
                None => 0.0,
            };
            let value = fused.activation.apply::<HostPowers>(sum + added);
            let wanted = T::C::narrow(sum_of(value)).to_f64();
            let found = c[row * ld + col].to_f64();
            // A unit of C's type, and what sums in another order are off by.
            let unit = T::TYPES.c().unit_roundoff() * 2.0;
            let scale: f64 = (0..k)
                .map(|p| (drawn.a[row * k + p].to_f64() * drawn.b[p * n + col].to_f64()).abs())
                .sum();
            let within = unit * wanted.abs() + 1e-5 * (scale * f64::from(factor.abs()) + 1.0);
            let off = (found - wanted).abs();
            if off.is_nan() || off > within {
                return Err(format!("({row}, {col}) is {found}, not {wanted}"));
            }
            largest = largest.max(found.abs());
        }
    }
    let stray = (0..c.len()).find(|at| at % ld >= n && !c[*at].same_bits(T::C::POISON));
    if let Some(at) = stray {
        return Err(format!("element {at} is between the rows of C, and was written"));
    }
    let found = f64::from(f32::from_bits(amax[0]));
    if fused.amax && found != largest {
        return Err(format!("the largest magnitude is {found}, not {largest}"));
    }
    Ok(())
}
