//! The measurement of one candidate on one problem.

use std::time::{Duration, Instant};

use gemm_spec::{Problem, Types};

use super::again::words;
use super::subject::Subject;
use super::{Energy, Request, Row, peak};
use crate::cpu::Sums;
use crate::error::Error;
use crate::gpu::{Gpu, watch};
use crate::measure::{Candidate, Effort, Processors, Worker, repeat};
use crate::registry::Implementation;
use crate::scalar::ScalarTypes;

/// Fewer runs than this cannot say how far they scatter.
const LEAST_RUNS: usize = 10;

/// Measures one candidate on one problem. Its result is checked before, unless an earlier turn of it
/// `was_right`, and after.
pub(super) fn measure<T: ScalarTypes>(
    request: &Request,
    processors: &Processors,
    problem: &Problem<T>,
    candidate: Candidate,
    worker: &Worker<'_>,
    subject: &mut Subject<'_, T>,
    was_right: bool,
) -> Result<Row, String> {
    let chosen = candidate.chosen(problem, processors)?;
    let of_chosen;
    let worker = if let Worker::Auto = worker {
        of_chosen = chosen.worker(&request.peer_folders, processors)?;
        &of_chosen
    } else {
        worker
    };
    worker.supports(problem, processors)?;
    let gpu = processors.gpu.as_ref().ok().filter(|_| worker.launch().is_some());
    let reason = |error: Error| error.to_string();
    let first = (!was_right).then(|| subject.check(worker)).transpose().map_err(reason)?;
    let batch = subject.batch(worker).map_err(reason)?;

    let dtype = request.config.dtype;
    let cpu_peak = || {
        let threads = candidate.threads(processors.cpu.threads())?;
        peak::measure(&processors.cpu, threads, dtype, may_use_matrix_units(chosen, dtype))
    };
    let peak_before = cpu_peak();
    let eye = gpu.and_then(|gpu| watch(gpu.info().index));
    let before = eye.as_ref().map(|eye| eye.look());
    // The time that a row may take is that of its batches.
    let mut products = 0;
    let whole = || {
        products += batch;
        Ok(subject.seconds(worker, batch)? * batch as f64)
    };
    let began = Instant::now();
    let seconds = repeat(effort(request), whole).map_err(reason)?.of_each(batch);
    let lasted = began.elapsed().as_secs_f64();
    let after = eye.as_ref().map(|eye| eye.look());
    let peak_after = cpu_peak();
    let last = subject.check(worker).map_err(reason)?;

    let cpu_peak = peak_before
        .into_iter()
        .chain(peak_after)
        .max_by(|one, other| one.flops.total_cmp(&other.flops));
    let peak = match gpu {
        Some(gpu) => gpu_peak(chosen, gpu, dtype),
        None => cpu_peak.as_ref().map(|peak| peak.flops),
    };
    let size = [problem.m, problem.n, problem.k];
    let point = request.point(candidate, size, processors.cpu.threads(), worker.device(processors));
    let mut row = Row {
        command: words(&point, request, None),
        point,
        rounds: Vec::new(),
        busy_before: None,
        spread: seconds.spread(),
        settled: seconds.runs >= LEAST_RUNS && seconds.spread() < request.spread,
        seconds,
        batch,
        sets: subject.sets(),
        gflops: problem.flops() / seconds.median / 1e9,
        refused: None,
        percent_of_peak: None,
        peak_gflops: peak.map(|peak| peak / 1e9),
        peak_vectors: cpu_peak.map(|peak| peak.vectors),
        percent_of_best: None,
        ratio_to_best_peer: None,
        peer: worker.description(),
        chosen: matches!(candidate, Candidate::Auto).then(|| chosen.id().to_owned()),
        ranges: gpu.and_then(|gpu| {
            let Candidate::Own(Implementation::Gpu(kernel)) = chosen else { return None };
            Some(gpu.model().ranges(kernel.spec(), problem))
        }),
        check: match first {
            Some(first) => first.and(last),
            None => last,
        },
        energy: Energy::between(before.as_ref(), after.as_ref(), products, lasted),
        before,
        after,
        ptx_sources: ptx_sources(chosen),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        processor: gpu.map_or_else(|| processors.host.cpu.clone(), |gpu| gpu.info().name.clone()),
        driver: gpu.and_then(|_| processors.driver_version()),
    };
    row.weigh();
    Ok(row)
}

/// How often a row is repeated: until its spread is the wanted one or its time is over.
fn effort(request: &Request) -> Effort {
    let Request { time, spread, .. } = *request;
    Effort {
        single: time,
        warm_up: time / 4,
        total: time,
        least: LEAST_RUNS,
        most: 100_000,
        spread,
        wall: Duration::MAX,
    }
}

/// Whether a candidate may compute by the CPU's matrix units, so that their peak bounds its rate.
fn may_use_matrix_units(candidate: Candidate, types: Types) -> bool {
    match candidate {
        // The bits of chains are possible for integers alone.
        Candidate::Own(Implementation::Cpu(own)) => own.sums == Sums::Own || types == Types::I8,
        Candidate::Own(Implementation::Gpu(_)) => false,
        Candidate::Auto => true,
        Candidate::Peer(_) => !matches!(types, Types::F32 | Types::F64 | Types::I32),
    }
}

/// What a GPU can do at most for a candidate, in operations a second.
fn gpu_peak(candidate: Candidate, gpu: &Gpu, types: Types) -> Option<f64> {
    match candidate {
        Candidate::Own(Implementation::Gpu(kernel)) => {
            peak::kernel_peak(kernel.spec(), gpu.info(), types)
        }
        Candidate::Own(_) | Candidate::Auto => peak::peak(gpu.info(), types),
        Candidate::Peer(_) => peak::library_peak(gpu.info(), types),
    }
}

/// The digest in the header of a kernel's module.
fn ptx_sources(candidate: Candidate) -> Option<String> {
    let Candidate::Own(Implementation::Gpu(spec)) = candidate else { return None };
    let digest = kernels_gpu::Module { arch: spec.arch, name: spec.id }
        .ptx()
        .lines()
        .find_map(|line| line.strip_prefix("// sources sha256 "));
    Some(digest.unwrap_or("unknown").to_owned())
}
