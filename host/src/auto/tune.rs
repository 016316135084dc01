//! Measures what the models stand on, in some seconds.

use std::time::Duration;

use gemm_spec::{Problem, Types};

use kernels_gpu::Kernel;
use tessera::Accuracy;
use tessera::select::{
    COPIES, CpuFigures, Cube, DeviceModel, FORMAT, Figures, GpuFigures, TransferModel, Workload,
};

use super::kernels::kernels;
use crate::cpu::{CpuContext, CpuUnits};
use crate::error::Error;
use crate::fill::{Distribution, Draw};
use crate::gpu::{Gpu, HostMemory};
use crate::machine::short_of_memory;
use crate::measure::{Effort, Inputs, Observer, Timing, clock, repeat, today};
use crate::scalar::ScalarTypes;
use gemm_spec::with_gemm_types;

/// Edges of the cubes that the CPU engine is measured with.
const EDGES: [usize; 8] = [16, 64, 96, 128, 192, 256, 512, 1024];

/// Edges of the cubes of f32 that a GPU is measured with: of larger ones the copies tell.
const GPU_EDGES: [usize; 6] = [64, 128, 256, 512, 1024, 2048];

/// Measures the CPU engine on this context's threads, the ways to a GPU and its kernels.
///
/// # Errors
/// What the driver answers; [`tessera::Error::OutOfMemory`].
pub fn tune(
    cpu: &CpuContext,
    gpu: Option<&Gpu>,
    processor: &str,
    observer: &mut dyn Observer,
) -> Result<Figures, Error> {
    let mut cubes = Vec::with_capacity(Types::ALL.len() * EDGES.len());
    for types in Types::ALL {
        for edge in EDGES {
            observer.step(&format!("{types} at {edge} on the CPU"));
            let seconds = with_gemm_types!(types, T => cube::<T>(edge, cpu))?;
            cubes.push(Cube { dtype: types.name().to_owned(), edge, seconds });
        }
    }
    let gpu = match gpu {
        Some(gpu) => {
            observer.step("the ways to the GPU and back");
            let parts = ways(gpu, cpu)?;
            let parts = GpuFigures { kernels: kernels(gpu, observer)?, ..parts };
            observer.step("products on the GPU");
            Some(products(gpu, cpu, parts)?)
        }
        None => None,
    };
    Ok(Figures {
        format: FORMAT.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        date: today(),
        cpu: CpuFigures { processor: processor.to_owned(), threads: cpu.threads(), cubes },
        gpu,
    })
}

/// Seconds of one square product by the CPU engine, by the units that it uses if it is not told.
fn cube<T: ScalarTypes>(edge: usize, cpu: &CpuContext) -> Result<f64, Error> {
    let problem = Problem::<T>::new(edge, edge, edge);
    let draw = Draw { distribution: Distribution::Uniform, seed: 1, stream: 0, what: "a product" };
    let Inputs { a, b, mut c } = Inputs::draw(&problem, draw)?;
    // Threads wake sooner or later: the median of many wakings is what others will see.
    let effort = Effort { total: Duration::from_millis(50), most: 2000, ..Effort::PROBE };
    let mut once = || cpu_gemm::gemm_by(CpuUnits::All, &problem, &a, &b, &mut c, cpu);
    let timing = repeat(effort, || clock(|| once().map_err(Error::from)))?;
    Ok(timing.median)
}

/// Both ways between host memory and a GPU, and a launch there.
fn ways(gpu: &Gpu, cpu: &CpuContext) -> Result<GpuFigures, Error> {
    let (to_device, from_device) = both_ways(gpu, cpu)?;
    let kernel = Kernel::named("vector_loads").expect("invariant: the registry has this kernel");
    let problem = Problem::<f32>::new(16, 16, 16);
    let data = [0.0; 256];
    let operands = gpu.upload(&problem, &data, &data)?;
    let mut output = gpu.output(&data, 0)?;
    // The first launch also has the driver compile the module.
    operands.run(kernel, &mut output)?;
    let launch = repeat(Effort::PROBE, || clock(|| operands.run(kernel, &mut output).map(drop)))?;
    let device = gpu.info().name.clone();
    let (launch, products, kernels) = (launch.median, Vec::new(), Vec::new());
    Ok(GpuFigures { device, to_device, from_device, launch, products, kernels })
}

/// The figures with what whole products take beside what they say.
fn products(gpu: &Gpu, cpu: &CpuContext, parts: GpuFigures) -> Result<GpuFigures, Error> {
    let model = gpu.model().clone().with_figures(&parts);
    let took: Vec<(Workload, f64)> =
        GPU_EDGES.iter().map(|&edge| through(gpu, cpu, &model, edge)).collect::<Result<_, _>>()?;
    Ok(parts.with_products(took))
}

/// A square product of f32 by the kernel that an engine would choose, from host memory to host memory.
fn through(
    gpu: &Gpu,
    cpu: &CpuContext,
    model: &DeviceModel,
    edge: usize,
) -> Result<(Workload, f64), Error> {
    let problem = Problem::<f32>::new(edge, edge, edge);
    let free = gpu.free_memory()?;
    let spec = model.best_kernel(&problem, free, Accuracy::default()).ok_or_else(|| {
        let short = "a product of f32".to_owned();
        tessera::Error::OutOfMemory {
            what: short,
            needed: problem.bytes().unwrap_or(usize::MAX) as u128,
            available: Some(free.into()),
        }
    })?;
    let draw = Draw { distribution: Distribution::Uniform, seed: 1, stream: 0, what: "a product" };
    let Inputs { a, b, mut c } = Inputs::draw(&problem, draw)?;
    let path = gpu.host_path(cpu);
    // The first product also has the driver compile the module.
    path.multiply(spec, &problem, &a, &b, &mut c)?;
    let effort = Effort { total: Duration::from_millis(100), most: 100, ..Effort::PROBE };
    let timing = repeat(effort, || clock(|| path.multiply(spec, &problem, &a, &b, &mut c)))?;
    Ok((model.workload(&problem, spec.spec()), timing.median))
}

/// How long copies take, to a GPU and back.
fn both_ways(gpu: &Gpu, cpu: &CpuContext) -> Result<(TransferModel, TransferModel), Error> {
    const LONGEST: usize = COPIES[COPIES.len() - 1];
    let path = gpu.host_path(cpu);
    let mut host: Vec<u8> = Vec::new();
    host.try_reserve_exact(LONGEST)
        .map_err(|_| short_of_memory("memory to be copied", LONGEST as u128))?;
    host.resize(LONGEST, 1);
    let mut medians = |len: usize, from| -> Result<[f64; 2], Error> {
        // The first copies also make the buffers that they go through.
        path.copies(&mut host[..len], from)?;
        let mut back = Vec::new();
        let there = repeat(Effort { total: Duration::from_millis(200), ..Effort::PROBE }, || {
            let (there, again) = path.copies(&mut host[..len], from)?;
            back.push(again.as_secs_f64());
            Ok::<_, Error>(there.as_secs_f64())
        })?;
        // The runs before those that count warmed up.
        let counted = back.len().saturating_sub(there.runs);
        Ok([there.median, Timing::of(&mut back[counted..]).median])
    };
    let mut copies = Vec::with_capacity(COPIES.len());
    for bytes in COPIES {
        copies.push((bytes as f64, medians(bytes, HostMemory::Allocated)?));
    }
    let bus = medians(LONGEST, HostMemory::Pinned)?;
    let way = |index: usize| {
        let copies = copies.iter().map(|(bytes, seconds)| (*bytes, seconds[index]));
        TransferModel::new(copies, LONGEST as f64 / bus[index])
    };
    Ok((way(0), way(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_is_measured_in_every_type() {
        let cpu = crate::cpu::context(std::num::NonZeroUsize::new(2)).unwrap();
        let figures = tune(&cpu, None, "a CPU", &mut ()).unwrap();
        for types in Types::ALL {
            let curve = figures.cpu.curve(types.name()).unwrap();
            assert!(curve.seconds(16e9, 2) > curve.seconds(1e9, 2), "{types}");
        }
        assert_eq!((figures.cpu.threads, figures.gpu), (2, None));
    }
}
