//! Products with operands in host memory, on a GPU: cut into bands and small pieces they have the bits
//! of the product as a whole, and nothing but C's elements is written.

use std::num::NonZeroUsize;

use gemm_spec::{GemmTypes, Layout, OperandAccess};
use kernels_gpu::{KERNELS, Kernel};
use lab::gpu::{Gpu, Pipeline};
use lab::{Error, Problem, Scalar, ScalarTypes};

use crate::support::{Case, Operands};
use crate::{enough, orders, skipped, with_gpu};

/// Several bands and a great many pieces of a small product.
const SMALL: Pipeline =
    Pipeline { slot_bytes: 20_001, slots: 3, least_bytes: 0, least_bands: 3, most_bands: 8 };

/// A matrix of poison with the elements of a tight row-major one at a leading dimension.
fn padded<T: Scalar>(from: &[T], rows: usize, cols: usize, ld: usize) -> Vec<T> {
    let mut to = vec![T::POISON; rows * ld];
    for row in 0..rows {
        to[row * ld..][..cols].copy_from_slice(&from[row * cols..][..cols]);
    }
    to
}

/// The buffers of A, B and C.
type OperandsOf<'o, T> =
    (&'o [<T as GemmTypes>::A], &'o [<T as GemmTypes>::B], &'o [<T as GemmTypes>::C]);

/// C by a kernel whose operands were brought to the device whole.
fn whole<T: ScalarTypes>(
    gpu: &Gpu,
    spec: Kernel,
    problem: &Problem<T>,
    (a, b, c): OperandsOf<'_, T>,
) -> Result<Vec<T::C>, Error> {
    let mut c = c.to_vec();
    let mut output = gpu.output(&c, 0)?;
    gpu.upload(problem, a, b)?.run(spec, &mut output)?;
    output.download(&mut c)?;
    Ok(c)
}

/// Compares the two ways on one problem.
fn compare<T: ScalarTypes>(
    gpu: &Gpu,
    spec: Kernel,
    problem: &Problem<T>,
    (a, b, c): OperandsOf<'_, T>,
    pipeline: Pipeline,
) -> Result<(), String> {
    let say = |error: Error| error.to_string();
    let cpu = lab::cpu::context(NonZeroUsize::new(3)).map_err(say)?;
    let expected = whole(gpu, spec, problem, (a, b, c)).map_err(say)?;
    let path = gpu.host_path(&cpu).cut(pipeline);
    let mut timed = c.to_vec();
    let times = path.timed(spec, problem, a, b, &mut timed).map_err(|error| error.to_string())?;
    if times.all < times.kernel {
        return Err(format!("these are no times: {times:?}"));
    }
    let mut found = c.to_vec();
    path.multiply(spec, problem, a, b, &mut found).map_err(|error| error.to_string())?;
    if let Some(place) = found.iter().zip(&timed).position(|(x, y)| !x.same_bits(*y)) {
        return Err(format!("{problem:?}: timed, place {place} has other bits"));
    }
    let differing = found.iter().zip(&expected).position(|(x, y)| !x.same_bits(*y));
    let what = |place: usize| {
        let (row, col) = (place / problem.c.ld, place % problem.c.ld);
        format!("{problem:?}: {:?} at ({row}, {col}), not {:?}", found[place], expected[place])
    };
    differing.map_or(Ok(()), |place| Err(what(place)))
}

/// A factor in row-major or column-major order, padded.
fn stored<T: Scalar>(
    row_major: bool,
    data: &[T],
    (rows, cols): (usize, usize),
    pad: usize,
) -> (Layout, Vec<T>) {
    if row_major {
        (Layout::row_major(cols + pad), padded(data, rows, cols, cols + pad))
    } else {
        let ld = rows + pad;
        (Layout::col_major(ld), orders::col_major(data, rows, cols, ld))
    }
}

/// Every order that the kernel reads, with padding and without, with the old C and without.
pub(crate) fn bands_have_the_bits_of_the_whole<T: ScalarTypes>(spec: Kernel) -> Result<(), String> {
    let shapes = [(700, 301, 129), (513, 64, 520), (300, 1, 77), (1, 1000, 40)];
    let mut tried = 0;
    for ((m, n, k), pad) in shapes.into_iter().zip([3, 0, 1, 8]) {
        let plain = Operands::<T>::draw(&Case::new(m, n, k));
        let old = plain.a.iter().cycle().take(m * n);
        let old: Vec<T::C> = old.map(|value| T::C::from_f64(value.to_f64())).collect();
        for orders in 0..if spec.reads_any_order() { 4 } else { 1 } {
            for (alpha, beta) in [(1.0, 0.0), (1.0, 1.0), (0.0, 1.0)] {
                let mut problem = Problem::<T>::new(m, n, k)
                    .with_scalars(T::Acc::from_f64(alpha), T::Acc::from_f64(beta));
                problem.c = Layout::row_major(n + pad);
                let (a, b);
                (problem.a, a) = stored(orders & 1 == 0, &plain.a, (m, k), pad);
                (problem.b, b) = stored(orders & 2 == 0, &plain.b, (k, n), pad);
                let c = padded(&old, m, n, n + pad);
                with_gpu(|gpu| {
                    if spec.supports(&problem, gpu.limits()).is_err() {
                        return Ok(Ok(()));
                    }
                    tried += 1;
                    Ok(compare(gpu, spec, &problem, (&a, &b, &c), SMALL))
                })
                .map_err(|error| error.to_string())??;
            }
        }
    }
    enough(tried)
}

/// What is not finite in one band only gives the bits of the whole product, which then goes another way
/// from its first row on.
fn what_is_not_finite_turns_every_band() -> Result<(), String> {
    let limits = with_gpu(|gpu| Ok(*gpu.limits())).map_err(|error| error.to_string())?;
    let runs = |spec: &&Kernel| spec.arch.runs_on(limits.compute_capability);
    let splits = KERNELS.iter().filter(|spec| matches!(spec.operands, OperandAccess::Limbs(_)));
    let splits: Vec<_> = splits.filter(runs).collect();
    if splits.is_empty() {
        return skipped("no kernel that splits its operands runs on this GPU");
    }
    for &spec in splits {
        let plain = Operands::<f32>::draw(&Case::new(700, 130, 90));
        for row in [0, 300, 699] {
            let mut a = plain.a.clone();
            a[row * 90 + 5] = f32::INFINITY;
            let problem = Problem::<f32>::new(700, 130, 90);
            let c = vec![0.0; 700 * 130];
            with_gpu(|gpu| Ok(compare(gpu, spec, &problem, (&a, &plain.b, &c), SMALL)))
                .map_err(|error| error.to_string())??;
        }
    }
    Ok(())
}

/// A product that is cut as the engine cuts it, twice over the same buffers, then smaller ones that use
/// what the large one has left.
fn large_and_small_products_share_their_buffers() -> Result<(), String> {
    for id in ["f16x3", "async_copy_128x256"] {
        let Some(&spec) = KERNELS.iter().find(|spec| spec.id == id) else {
            return Err(format!("there is no {id}"));
        };
        for (m, n, k) in [(4100, 3000, 2111), (4100, 3000, 2111), (33, 65, 129), (2100, 5000, 3000)]
        {
            let Operands { problem, a, b, .. } = Operands::<f32>::draw(&Case::new(m, n, k));
            let c = vec![0.0; m * n];
            with_gpu(|gpu| Ok(compare(gpu, spec, &problem, (&a, &b, &c), Pipeline::default())))
                .map_err(|error| error.to_string())??;
        }
    }
    Ok(())
}

type Property = fn() -> Result<(), String>;

/// The properties of the way itself, by name.
pub(crate) const PROPERTIES: [(&str, Property); 2] = [
    ("what_is_not_finite_turns_every_band", what_is_not_finite_turns_every_band),
    ("large_and_small_products_share_their_buffers", large_and_small_products_share_their_buffers),
];
