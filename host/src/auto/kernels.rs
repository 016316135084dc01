//! What kernels take on a GPU, with operands on the device: what the choice among them depends on.

use std::time::Duration;

use gemm_spec::{DType, Problem, Types, with_gemm_types};
use tessera::select::KernelTime;

use crate::error::Error;
use crate::fill::{Distribution, Draw};
use crate::gpu::{Gpu, run_batch};
use crate::measure::{Effort, Inputs, Observer, repeat};

use crate::scalar::ScalarTypes;

/// Products of f32 that kernels are measured with, as m, n and k: cubes, and those with few rows or columns.
const OF_F32: [[usize; 3]; 7] =
    [[64; 3], [256; 3], [512; 3], [1024; 3], [2048; 3], [4, 4096, 4096], [4096, 4, 4096]];

/// Those of 16-bit floats, whose kernels for few tiles share k, and wait for memory where there are few rows.
const OF_HALVES: [[usize; 3]; 7] =
    [[128; 3], [512; 3], [1024; 3], [2048; 3], [4096; 3], [16, 4096, 4096], [4096, 16, 4096]];

/// Those of other types, which have fewer kernels to choose from.
const OF_OTHERS: [[usize; 3]; 3] = [[128; 3], [512; 3], [2048; 3]];

/// Launches without a gap between two events: one of a small product is too short for them.
const BATCH: usize = 8;

/// Measures the kernels of all types.
pub(super) fn kernels(gpu: &Gpu, observer: &mut dyn Observer) -> Result<Vec<KernelTime>, Error> {
    let mut times = Vec::new();
    for types in Types::ALL {
        observer.step(&format!("kernels of {types}"));
        let products = match types.a() {
            DType::F32 => OF_F32.as_slice(),
            DType::F16 | DType::BF16 => &OF_HALVES,
            DType::F64 | DType::I32 | DType::I8 => &OF_OTHERS,
        };
        for &sizes in products {
            with_gemm_types!(types, T => times.extend(kernel_times::<T>(gpu, sizes)?));
        }
    }
    Ok(times)
}

/// Measures each kernel that a choice may come to for a product of m, n and k.
///
/// # Errors
/// What the driver answers; [`tessera::Error::OutOfMemory`].
pub fn kernel_times<T: ScalarTypes>(
    gpu: &Gpu,
    sizes: [usize; 3],
) -> Result<Vec<KernelTime>, Error> {
    let [m, n, k] = sizes;
    let problem = Problem::<T>::new(m, n, k);
    let mut kernels = gpu.model().candidates(T::TYPES, sizes);
    kernels.retain(|kernel| kernel.supports(&problem, gpu.limits()).is_ok());
    if kernels.is_empty() {
        return Ok(Vec::new());
    }
    let draw = Draw { distribution: Distribution::Uniform, seed: 1, stream: 0, what: "a product" };
    let Inputs { a, b, c } = Inputs::draw(&problem, draw)?;
    let mut set = [(gpu.upload(&problem, &a, &b)?, gpu.output(&c, 0)?)];
    let mut times = Vec::with_capacity(kernels.len());
    for kernel in kernels {
        // The first launch also loads the module.
        run_batch(kernel, &mut set, 0, 1)?;
        let effort = Effort { total: Duration::from_millis(10), ..Effort::PROBE };
        let timing = repeat(effort, || {
            Ok::<_, Error>(run_batch(kernel, &mut set, 0, BATCH)?.as_secs_f64())
        })?;
        times.push(KernelTime {
            kernel: kernel.id.to_owned(),
            dtype: T::TYPES.name().to_owned(),
            sizes,
            seconds: timing.of_each(BATCH).median,
        });
    }
    Ok(times)
}
