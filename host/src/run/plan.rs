//! One implementation on its way to a row.

use std::time::Duration;

use gemm_spec::{Operand, Problem};
use kernels_gpu::Kernel;

use super::on_gpu::OnGpu;
use super::predict::{by_rows, predict};
use super::row::{Check, Row};
use super::times::Times;
use super::work::Work;
use crate::error::Error;
use crate::fill::{Distribution, Draw};
use crate::measure::{
    Candidate, Effort, Inputs, Observer, Processors, Verdict, Worker, clock, repeat,
};
use crate::registry::Implementation;
use crate::scalar::ScalarTypes;

/// An implementation that can run, and what is known of it.
pub(super) struct RowPlan<'d> {
    /// Its place in the table.
    pub(super) place: usize,
    implementation: Implementation,
    /// Predicted seconds.
    pub(super) predicted: f64,
    /// What stopped it before its turn.
    pub(super) failure: Option<Error>,
    /// How often it is repeated.
    pub(super) effort: Effort,
    worker: Worker<'d>,
    processors: &'d Processors,
}

impl<'d> RowPlan<'d> {
    /// Finds out whether an implementation can run the problem, and where.
    pub(super) fn new<T: ScalarTypes>(
        place: usize,
        implementation: Implementation,
        problem: &Problem<T>,
        processors: &'d Processors,
    ) -> Result<Self, String> {
        let worker = Candidate::Own(implementation).worker(&[], processors)?;
        worker.supports(problem, processors)?;
        let (predicted, failure, effort) = (0.0, None, Effort::ROW);
        Ok(Self { place, implementation, predicted, failure, effort, worker, processors })
    }

    pub(super) fn id(&self) -> &'static str {
        self.implementation.id()
    }

    /// The kernel that it launches on a GPU.
    pub(super) fn kernel(&self) -> Option<Kernel> {
        self.worker.kernel()
    }

    /// Threads that share its rows of C.
    fn threads(&self) -> usize {
        self.implementation.threads(self.processors.cpu.threads()).unwrap_or(1)
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
        let small = predict(problem, half, self.threads(), |small| self.probe(small))?;
        self.predicted = match (&self.worker, inputs) {
            (Worker::Cpu(implementation), Some(inputs)) if small > half.as_secs_f64() => {
                // A row for each thread at least, or as many as by the smaller problem take an eighth of the
                // time.
                let fit = problem.m as f64 * half.as_secs_f64() / (4.0 * small);
                #[expect(clippy::cast_possible_truncation, reason = "the most rows there may be")]
                let fit = fit as usize;
                let first = self.threads().max(fit);
                let of_rows = by_rows(problem, half, first, |part| self.rows(part, inputs))?;
                if implementation.blocked { of_rows.min(small) } else { of_rows }
            }
            _ => small,
        };
        Ok(())
    }

    /// Seconds of a small problem, operands being where they are needed.
    fn probe<T: ScalarTypes>(&self, problem: &Problem<T>) -> Result<f64, Error> {
        let distribution = Distribution::Uniform;
        let draw = Draw { distribution, seed: 0, stream: 0, what: "a probe" };
        let Inputs { a, b, mut c } = Inputs::draw(problem, draw)?;
        let Some(launch) = self.worker.launch() else {
            return self.probe_on_cpu(problem, (&a, &b), &mut c);
        };
        let gpu = self.processors.gpu()?;
        let operands = gpu.upload(problem, &a, &b)?;
        let mut output = gpu.output(&c, 0)?;
        let once = || Ok::<_, Error>(operands.run(launch, &mut output)?.as_secs_f64());
        Ok(repeat(Effort::PROBE, once)?.median)
    }

    /// Seconds that an implementation takes for the first rows of C, as many as the problem has.
    fn rows<T: ScalarTypes>(&self, problem: &Problem<T>, inputs: &Inputs<T>) -> Result<f64, Error> {
        let distribution = Distribution::Uniform;
        let draw = Draw { distribution, seed: 0, stream: 0, what: "a probe's rows" };
        let mut c: Vec<T::C> = draw.operand(problem, Operand::C)?;
        let a = &inputs.a[..problem.required_len(Operand::A)?];
        self.probe_on_cpu(problem, (a, &inputs.b), &mut c)
    }

    fn probe_on_cpu<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        ab: (&[T::A], &[T::B]),
        c: &mut [T::C],
    ) -> Result<f64, Error> {
        let once = || clock(|| self.worker.multiply(problem, ab, c, self.processors));
        Ok(repeat(Effort::PROBE, once)?.median)
    }

    /// The row of an implementation that does not fit the budget.
    pub(super) fn estimate<T: ScalarTypes>(&self, problem: &Problem<T>) -> Row {
        self.row(problem, &Times::predicted(self.predicted))
    }

    /// Computes, times and checks the result.
    pub(super) fn measure<T: ScalarTypes>(
        &self,
        work: &mut Work<'d, '_, T>,
        observer: &mut dyn Observer,
    ) -> Result<Row, Error> {
        let Work { problem, inputs, .. } = *work;
        let mut c = work.result()?;
        let times = if let Some(kernel) = self.worker.kernel() {
            let (gpu, cpu) = (self.processors.gpu()?, &self.processors.cpu);
            OnGpu { gpu, cpu, kernel }.measure(work, self.effort, &mut c)?
        } else {
            let timing = repeat(self.effort, || {
                c.poison(&inputs.c);
                let (ab, c) = ((&inputs.a[..], &inputs.b[..]), c.as_mut_slice());
                clock(|| self.worker.multiply(problem, ab, c, self.processors))
            })?;
            Times::of(&timing)
        };

        observer.step(&format!("checking {}", self.id()));
        let mut row = self.row(problem, &times);
        let report = work.checker.check(c.as_slice());
        let mut verdict = Verdict::new(&report, &c);
        if let Some(differs) = times.differs {
            verdict.ok = false;
            verdict.detail.get_or_insert(differs);
        }
        let mut diagnosis = None;
        if !verdict.ok {
            observer.step(&format!("explaining {}", self.id()));
            let hint = report.first.map(|first| (first.row, first.col));
            diagnosis = self.explain(problem, inputs, c.as_slice(), hint);
        }
        row.check = Some(Check { verdict, diagnosis });
        work.keep(c);
        Ok(row)
    }

    /// Size of a problem of which one run takes a fraction of a second.
    pub(super) fn quick_size(&self) -> usize {
        if matches!(self.worker, Worker::Emulator(_)) { 64 } else { 128 }
    }

    /// One run on other operands, C being what it is before.
    pub(super) fn compute<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        inputs: &Inputs<T>,
    ) -> Result<Vec<T::C>, Error> {
        let Inputs { a, b, c } = inputs;
        let mut c = c.clone();
        if let Some(launch) = self.worker.launch() {
            let gpu = self.processors.gpu()?;
            let mut output = gpu.output(&c, 0)?;
            gpu.upload(problem, a, b)?.run(launch, &mut output)?;
            output.download(&mut c)?;
        } else {
            self.worker.multiply(problem, (a, b), &mut c, self.processors)?;
        }
        Ok(c)
    }

    fn row<T: ScalarTypes>(&self, problem: &Problem<T>, times: &Times) -> Row {
        Row::new(self.id(), self.worker.device(self.processors), problem.flops(), times)
    }
}
