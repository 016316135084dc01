//! A kernel's row: how long its launch takes on operands that are there, and how long the whole product
//! takes where they are in host memory.

use gemm_spec::Problem;
use kernels_gpu::Kernel;
use rayon::prelude::*;

use super::times::Times;
use super::work::Work;
use crate::cpu::CpuContext;
use crate::error::Error;
use crate::gpu::{Gpu, HostTimes, Operands};
use crate::measure::{Effort, Inputs, Timing, repeat};
use crate::scalar::{Scalar, ScalarTypes};
use crate::verify::Guarded;

/// A kernel and its processors.
pub(super) struct OnGpu<'g> {
    pub(super) gpu: &'g Gpu,
    /// Its threads copy operands.
    pub(super) cpu: &'g CpuContext,
    pub(super) kernel: Kernel,
}

impl<'g> OnGpu<'g> {
    /// Measures both ways and leaves in `c` the result of the launch, whose guard words were on the
    /// device with it. A and B stay there for the next row.
    pub(super) fn measure<T: ScalarTypes>(
        &self,
        work: &mut Work<'g, '_, T>,
        effort: Effort,
        c: &mut Guarded<T>,
    ) -> Result<Times, Error> {
        let Work { problem, inputs, .. } = *work;
        let operands = match &mut work.operands {
            Some(operands) => operands,
            operands @ None => operands.insert(self.gpu.upload(problem, &inputs.a, &inputs.b)?),
        };
        let kernel = self.launches(operands, &inputs.c, effort, c)?;
        let mut own = work.result()?;
        let through = match self.products(problem, inputs, effort, &mut own) {
            // There may be no room for A and B twice.
            Err(error) if error.is_out_of_memory() && work.operands.take().is_some() => {
                self.products(problem, inputs, effort, &mut own)
            }
            other => other,
        }?;
        let split = Some((through.to_device.median, kernel.median, through.from_device.median));
        let differs = difference(problem, c, &own);
        work.keep(own);
        Ok(Times { split, differs, ..Times::of(&through.all) })
    }

    /// Launches on operands that are on the device, between events.
    fn launches<T: ScalarTypes>(
        &self,
        operands: &Operands<'_, T>,
        old_c: &[T::C],
        effort: Effort,
        c: &mut Guarded<T>,
    ) -> Result<Timing, Error> {
        c.poison(old_c);
        let mut output = self.gpu.output(c.full(), c.guard_len())?;
        // From the host it would take ten times as long as a product; but there may be no room for it.
        let before = match self.gpu.output(c.full(), c.guard_len()) {
            Ok(before) => Some(before),
            Err(error) if error.is_out_of_memory() => None,
            Err(error) => return Err(error),
        };
        let timing = repeat(effort, || {
            match &before {
                Some(before) => output.restore_from(before)?,
                None => output.restore(c.full())?,
            }
            Ok::<_, Error>(operands.run(self.kernel, &mut output)?.as_secs_f64())
        })?;
        output.download(c.full_mut())?;
        Ok(timing)
    }

    /// Products from host memory to host memory, the way that an engine goes.
    fn products<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        inputs: &Inputs<T>,
        effort: Effort,
        c: &mut Guarded<T>,
    ) -> Result<Through, Error> {
        let path = self.gpu.host_path(self.cpu);
        path.prepare(self.kernel, problem)?;
        let mut times: Vec<HostTimes> = Vec::new();
        let all = repeat(effort, || {
            c.poison(&inputs.c);
            let Inputs { a, b, .. } = inputs;
            let took = path.timed(self.kernel, problem, a, b, c.as_mut_slice())?;
            times.push(took);
            Ok::<_, Error>(took.all.as_secs_f64())
        })?;
        // The runs before those that count warmed up.
        let counted = &times[times.len().saturating_sub(all.runs)..];
        let of = |part: fn(&HostTimes) -> std::time::Duration| {
            let mut seconds: Vec<f64> = counted.iter().map(|t| part(t).as_secs_f64()).collect();
            Timing::of(&mut seconds)
        };
        Ok(Through { all, to_device: of(|t| t.to_device), from_device: of(|t| t.from_device) })
    }
}

/// Where the two results differ, in words: both ways must give the same bits.
fn difference<T: ScalarTypes>(
    problem: &Problem<T>,
    launched: &Guarded<T>,
    through: &Guarded<T>,
) -> Option<String> {
    if let Err(error) = through.intact() {
        return Some(format!("with operands in host memory: {error}"));
    }
    let Problem { m, n, c, .. } = *problem;
    let (launched, through) = (launched.as_slice(), through.as_slice());
    let differs = |row: usize| {
        let place = |col: &usize| c.index(row, *col);
        (0..n)
            .find(|col| !launched[place(col)].same_bits(through[place(col)]))
            .map(|col| (row, col))
    };
    let (row, col) = (0..m).into_par_iter().find_map_first(differs)?;
    Some(format!("with operands in host memory the bits differ, first at row {row}, column {col}"))
}

/// Seconds of products from host memory to host memory.
struct Through {
    all: Timing,
    to_device: Timing,
    from_device: Timing,
}
