//! One implementation on its way to a row.

use std::time::{Duration, Instant};

use gemm_spec::{Operand, Problem};
use kernels_gpu::Kernel;

use super::kept::Kept;
use super::on_gpu::OnGpu;
use super::predict::{by_rows, predict};
use super::times::Times;
use super::{DeviceChoice, Inputs, Observer, Row, supported, verdict};
use crate::cpu::{CpuContext, CpuImpl};
use crate::emulate;
use crate::error::Error;
use crate::fill::{Distribution, Draw};
use crate::gpu::Gpu;
use crate::measure::{Effort, repeat};
use crate::registry::Implementation;
use crate::report::skipped::without_gpu;
use crate::scalar::ScalarTypes;
use crate::verify::Checker;

/// An implementation that can run, and what is known of it.
pub(super) struct Candidate<'d> {
    /// Its place in the table.
    pub(super) place: usize,
    pub(super) implementation: Implementation,
    /// Predicted seconds.
    pub(super) predicted: f64,
    /// What stopped it before its turn.
    pub(super) failure: Option<Error>,
    /// How often it is repeated.
    pub(super) effort: Effort,
    device: Device<'d>,
}

#[derive(Clone, Copy)]
enum Device<'d> {
    Cpu(&'d CpuContext),
    /// Kernels there, the threads copying operands.
    Gpu(&'d Gpu, &'d CpuContext),
    /// Kernels on these threads.
    Emulator(&'d CpuContext),
}

impl<'d> Candidate<'d> {
    /// Finds out whether an implementation can run the problem, and where.
    pub(super) fn new<T: ScalarTypes>(
        place: usize,
        implementation: Implementation,
        problem: &Problem<T>,
        choice: DeviceChoice,
        cpu: &'d CpuContext,
        gpu: &'d Result<Gpu, Error>,
    ) -> Result<Self, String> {
        let device = match implementation {
            Implementation::Cpu(_) if matches!(choice, DeviceChoice::Cuda(_)) => {
                return Err("the run was told to stay on the GPU".to_owned());
            }
            Implementation::Cpu(_) if choice == DeviceChoice::Emulate => {
                return Err("the run was told to stay on the emulator".to_owned());
            }
            Implementation::Cpu(_) => Device::Cpu(cpu),
            Implementation::Gpu(spec) if choice == DeviceChoice::Emulate => {
                supported(spec, problem, &emulate::LIMITS)?;
                Device::Emulator(cpu)
            }
            Implementation::Gpu(_) if choice == DeviceChoice::Cpu => {
                return Err("the run was told to stay on the CPU".to_owned());
            }
            Implementation::Gpu(spec) => {
                let gpu = gpu.as_ref().map_err(without_gpu)?;
                supported(spec, problem, gpu.limits())?;
                Device::Gpu(gpu, cpu)
            }
        };
        let (predicted, failure, effort) = (0.0, None, Effort::ROW);
        Ok(Self { place, implementation, predicted, failure, effort, device })
    }

    pub(super) fn id(&self) -> &'static str {
        self.implementation.id()
    }

    /// The kernel that it launches on a GPU.
    pub(super) fn kernel(&self) -> Option<Kernel> {
        match (self.device, self.implementation) {
            (Device::Gpu(..), Implementation::Gpu(kernel)) => Some(kernel),
            _ => None,
        }
    }

    /// Predicts the time of the whole problem: from smaller ones and, where those say that it will take
    /// longer than a probe may and the operands are there, from some of its rows. Of an implementation that
    /// is blocked the lesser of the two: its blocks are as near in a smaller problem as in the whole, and of
    /// few rows each thread reads all of B for one or two.
    pub(super) fn predict<T: ScalarTypes>(
        &mut self,
        problem: &Problem<T>,
        time: Duration,
        inputs: Option<&Inputs<T>>,
    ) -> Result<(), Error> {
        let half = time / 2;
        let threads = match (self.device, self.implementation) {
            (Device::Cpu(cpu), Implementation::Cpu(_)) => {
                self.implementation.threads(cpu.threads()).unwrap_or(1)
            }
            _ => 1,
        };
        let small = predict(problem, half, threads, |small| self.probe(small))?;
        self.predicted = match (self.device, self.implementation, inputs) {
            (Device::Cpu(cpu), Implementation::Cpu(implementation), Some(inputs))
                if small > half.as_secs_f64() =>
            {
                // A row for each thread at least, or as many as by the smaller problem take an eighth of the
                // time.
                let fit = problem.m as f64 * half.as_secs_f64() / (4.0 * small);
                let first = threads.max(fit as usize);
                let of_rows =
                    by_rows(problem, half, first, |part| rows(cpu, implementation, part, inputs))?;
                if implementation.blocked { of_rows.min(small) } else { of_rows }
            }
            _ => small,
        };
        Ok(())
    }

    /// Seconds of a small problem, operands being where they are needed.
    fn probe<T: ScalarTypes>(&self, problem: &Problem<T>) -> Result<f64, Error> {
        let draw =
            Draw { distribution: Distribution::Uniform, seed: 0, stream: 0, what: "a probe" };
        let a: Vec<T::A> = draw.operand(problem, Operand::A)?;
        let b: Vec<T::B> = draw.operand(problem, Operand::B)?;
        let mut c: Vec<T::C> = draw.operand(problem, Operand::C)?;
        let timing = match (self.device, self.implementation) {
            (Device::Gpu(gpu, _), Implementation::Gpu(spec)) => {
                let operands = gpu.upload(problem, &a, &b)?;
                let mut output = gpu.output(&c, 0)?;
                repeat(Effort::PROBE, || {
                    Ok::<_, Error>(operands.run(spec, &mut output)?.as_secs_f64())
                })?
            }
            (Device::Cpu(cpu), Implementation::Cpu(implementation)) => {
                repeat(Effort::PROBE, || {
                    let started = Instant::now();
                    implementation.gemm::<T>(problem, &a, &b, &mut c, cpu)?;
                    Ok::<_, Error>(started.elapsed().as_secs_f64())
                })?
            }
            (Device::Emulator(cpu), Implementation::Gpu(spec)) => {
                repeat(Effort::PROBE, || emulated(cpu, spec, problem, &a, &b, &mut c))?
            }
            _ => unreachable!("invariant: `new` pairs kernels with GPUs"),
        };
        Ok(timing.median)
    }

    /// The row of an implementation that does not fit the budget.
    pub(super) fn estimate<T: ScalarTypes>(&self, problem: &Problem<T>) -> Row {
        self.row(problem, &Times::of(self.predicted, 0), true)
    }

    /// Computes, times and checks the result.
    pub(super) fn measure<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        inputs: &Inputs<T>,
        kept: &mut Kept<'d, T>,
        checker: &Checker<'_, T>,
        observer: &mut dyn Observer,
    ) -> Result<Row, Error> {
        let mut c = kept.result(problem)?;
        let times = match (self.device, self.implementation) {
            (Device::Gpu(gpu, cpu), Implementation::Gpu(spec)) => {
                OnGpu { gpu, cpu, spec, problem, inputs }.measure(kept, self.effort, &mut c)?
            }
            (Device::Cpu(cpu), Implementation::Cpu(implementation)) => {
                let timing = repeat(self.effort, || {
                    c.poison(&inputs.c);
                    let started = Instant::now();
                    implementation.gemm::<T>(
                        problem,
                        &inputs.a,
                        &inputs.b,
                        c.as_mut_slice(),
                        cpu,
                    )?;
                    Ok::<_, Error>(started.elapsed().as_secs_f64())
                })?;
                Times::of(timing.median, timing.runs)
            }
            (Device::Emulator(cpu), Implementation::Gpu(spec)) => {
                let timing = repeat(self.effort, || {
                    c.poison(&inputs.c);
                    emulated(cpu, spec, problem, &inputs.a, &inputs.b, c.as_mut_slice())
                })?;
                Times::of(timing.median, timing.runs)
            }
            _ => unreachable!("invariant: `new` pairs kernels with GPUs"),
        };

        observer.step(&format!("checking {}", self.id()));
        let mut row = self.row(problem, &times, false);
        let report = checker.check(c.as_slice());
        let mut found = verdict(&report);
        if let Err(error) = c.intact() {
            found.ok = false;
            found.detail = Some(error.to_string());
        }
        if let Some(differs) = times.differs {
            found.ok = false;
            found.detail.get_or_insert(differs);
        }
        if !found.ok {
            observer.step(&format!("explaining {}", self.id()));
            let hint = report.first.map(|first| (first.row, first.col));
            found.diagnosis = self.explain(problem, inputs, c.as_slice(), hint);
        }
        row.check = Some(found);
        kept.keep(c);
        Ok(row)
    }

    /// Size of a problem of which one run takes a fraction of a second.
    pub(super) fn quick_size(&self) -> usize {
        if matches!(self.device, Device::Emulator(_)) { 64 } else { 128 }
    }

    /// One run on other operands; `before` is what C holds before it.
    pub(super) fn compute<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        before: &[T::C],
    ) -> Result<Vec<T::C>, Error> {
        let mut c = before.to_vec();
        match (self.device, self.implementation) {
            (Device::Gpu(gpu, _), Implementation::Gpu(spec)) => {
                let mut output = gpu.output(&c, 0)?;
                gpu.upload(problem, a, b)?.run(spec, &mut output)?;
                output.download(&mut c)?;
            }
            (Device::Cpu(cpu), Implementation::Cpu(implementation)) => {
                implementation.gemm::<T>(problem, a, b, &mut c, cpu)?;
            }
            (Device::Emulator(cpu), Implementation::Gpu(spec)) => {
                emulated(cpu, spec, problem, a, b, &mut c)?;
            }
            _ => unreachable!("invariant: `new` pairs kernels with GPUs"),
        }
        Ok(c)
    }

    fn row<T: ScalarTypes>(&self, problem: &Problem<T>, times: &Times, estimated: bool) -> Row {
        let computing = times.split.map_or(times.seconds, |(_, kernel, _)| kernel);
        Row {
            kernel: self.id(),
            device: match self.device {
                Device::Cpu(_) => "cpu".to_owned(),
                Device::Gpu(gpu, _) => format!("cuda:{}", gpu.info().index),
                Device::Emulator(_) => "emulate".to_owned(),
            },
            seconds: times.seconds,
            estimated,
            gflops: problem.flops() / computing / 1e9,
            h2d_seconds: times.split.map(|(h2d, _, _)| h2d),
            kernel_seconds: times.split.map(|(_, kernel, _)| kernel),
            d2h_seconds: times.split.map(|(_, _, d2h)| d2h),
            speedup: None,
            runs: times.runs,
            check: None,
            then_seconds: None,
        }
    }
}

/// Seconds that an implementation takes for the first rows of C, so many as the problem has.
fn rows<T: ScalarTypes>(
    cpu: &CpuContext,
    implementation: &'static CpuImpl,
    problem: &Problem<T>,
    inputs: &Inputs<T>,
) -> Result<f64, Error> {
    let draw =
        Draw { distribution: Distribution::Uniform, seed: 0, stream: 0, what: "a probe's rows" };
    let mut c: Vec<T::C> = draw.operand(problem, Operand::C)?;
    let a = &inputs.a[..problem.required_len(Operand::A)?];
    let timing = repeat(Effort::PROBE, || {
        let started = Instant::now();
        implementation.gemm::<T>(problem, a, &inputs.b, &mut c, cpu)?;
        Ok::<_, Error>(started.elapsed().as_secs_f64())
    })?;
    Ok(timing.median)
}

/// Seconds that the emulator takes for a product by a kernel.
fn emulated<T: ScalarTypes>(
    cpu: &CpuContext,
    spec: Kernel,
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
) -> Result<f64, Error> {
    let started = Instant::now();
    cpu.pool().install(|| emulate::run(spec, problem, a, b, c))?;
    Ok(started.elapsed().as_secs_f64())
}
