//! The operands of one problem, and a candidate at work on them.

use gemm_spec::Problem;

use super::{Cache, Request};
use crate::error::Error;
use crate::gpu::{Launch, Operands, Output, run_batch};
use crate::measure::{Inputs, Processors, Room, Verdict, Worker, clock};
use crate::memory::reserve;
use crate::scalar::ScalarTypes;
use crate::verify::{Checker, Guarded, Method};

/// Bytes that the sets of a cold benchmark may take together.
const MOST_BYTES: usize = 4 << 30;
/// A last-level cache where the system does not tell its size.
const USUAL_CACHE: u64 = 64 << 20;
/// Seconds that a batch of launches should last, so that events and launches weigh nothing.
const BATCH_SECONDS: f64 = 1e-3;
/// Launches in a batch at most: more would fill the driver's queue.
const MOST_LAUNCHES: usize = 500;

/// What is multiplied: at least one set of operands; more for cold caches.
pub(super) struct Sets<T: ScalarTypes> {
    problem: Problem<T>,
    sets: Vec<Inputs<T>>,
}

impl<T: ScalarTypes> Sets<T> {
    pub(super) fn draw(
        problem: &Problem<T>,
        request: &Request,
        processors: &Processors,
    ) -> Result<Self, Error> {
        let sets = match request.cache {
            Cache::Warm => 1,
            Cache::Cold => {
                let cache = processors.gpu.as_ref().map_or(0, |gpu| gpu.info().l2_bytes);
                let cache = cache.max(processors.host.cache_bytes.unwrap_or(USUAL_CACHE));
                cold_sets(problem.bytes().unwrap_or(usize::MAX), cache)
            }
        };
        check_memory(problem, sets, request.config.check)?;
        let sets = (0..sets)
            // Each matrix of each set has numbers of its own.
            .map(|set| Inputs::draw(problem, request.config.draw(3 * set as u64)))
            .collect::<Result<_, Error>>()?;
        Ok(Self { problem: *problem, sets })
    }
}

/// Refuses before anything is allocated what the memory cannot hold: each set with the C that runs write,
/// a guarded result, and the reference of the check.
fn check_memory<T: ScalarTypes>(
    problem: &Problem<T>,
    sets: usize,
    check: Method,
) -> Result<(), Error> {
    let of_c = 2 * sets + usize::from(check != Method::None);
    let Problem { m, n, k, .. } = problem;
    let with_sets =
        if sets == 1 { String::new() } else { format!(" with {sets} sets of operands") };
    let what = format!("a benchmark of {m} x {n} x {k}{with_sets}");
    Room { sets, of_c, check }.check(problem, &what)
}

/// What is measured.
pub(super) struct Subject<'p, T: ScalarTypes> {
    inputs: &'p Sets<T>,
    processors: &'p Processors,
    /// Judges results of the first set; what it needs to know of the inputs it has found out once.
    checker: Checker<'p, T>,
    /// What C held before, for the checks.
    before: &'p [T::C],
    /// A C for each set that CPU runs write, made by the first of them.
    results: Vec<Vec<T::C>>,
    /// The sets on the GPU, uploaded by the first kernel.
    device: Vec<(Operands<'p, T>, Output<'p, T::C>)>,
    /// The set that the next run begins with.
    turn: usize,
}

impl<'p, T: ScalarTypes> Subject<'p, T> {
    pub(super) fn new(
        inputs: &'p Sets<T>,
        request: &Request,
        processors: &'p Processors,
    ) -> Result<Self, Error> {
        let Sets { problem, sets } = inputs;
        let (first, config) = (&sets[0], &request.config);
        let before = first.old_c(problem);
        let checker = Checker::new(problem, &first.a, &first.b, before, config.check, config.seed)?;
        let (results, device) = (Vec::new(), Vec::new());
        Ok(Self { inputs, processors, checker, before, results, device, turn: 0 })
    }

    /// Sets that the runs turn through.
    pub(super) fn sets(&self) -> usize {
        self.inputs.sets.len()
    }

    /// Computes the first set's product on a poisoned, guarded C and judges it.
    pub(super) fn check(&mut self, worker: &Worker<'_>) -> Result<Verdict, Error> {
        let Sets { problem, sets } = self.inputs;
        let Inputs { a, b, c } = &sets[0];
        if self.checker.method() == Method::None {
            return Ok(Verdict::of(&self.checker.check(c)));
        }
        if worker.launch().is_none() {
            self.place_results()?;
        }
        let mut result = Guarded::new(problem)?;
        result.poison(self.before);
        worker.compute(problem, (a, b), &mut result, self.processors)?;
        Ok(Verdict::new(&self.checker.check(result.as_slice()), &result))
    }

    /// Products that one timed run should hold.
    pub(super) fn batch(&mut self, worker: &Worker<'_>) -> Result<usize, Error> {
        if worker.launch().is_none() {
            return Ok(1);
        }
        let mut batch = 1;
        loop {
            let seconds = self.seconds(worker, batch)? * batch as f64;
            if seconds >= BATCH_SECONDS || batch == MOST_LAUNCHES {
                return Ok(batch);
            }
            batch = (2 * batch).min(MOST_LAUNCHES);
        }
    }

    /// Seconds of one product, measured over a batch of them.
    pub(super) fn seconds(&mut self, worker: &Worker<'_>, batch: usize) -> Result<f64, Error> {
        if let Some(launch) = worker.launch() {
            return self.batch_seconds(launch, batch);
        }
        self.place_results()?;
        let Sets { problem, sets } = self.inputs;
        let set = self.turn % sets.len();
        let (Inputs { a, b, .. }, c) = (&sets[set], &mut self.results[set]);
        self.turn += 1;
        clock(|| worker.multiply(problem, (a, b), c, self.processors))
    }

    /// Allocates what CPU runs write. Before the first check, since what that gives back would be allocated
    /// again, elsewhere in a page than a large new buffer begins: how operands lie to each other is worth some
    /// per cent, and must not depend on how results are checked.
    fn place_results(&mut self) -> Result<(), Error> {
        if self.results.is_empty() {
            let Problem { m, n, .. } = self.inputs.problem;
            let place = |set: &Inputs<T>| {
                let mut result = reserve(m, n, "a result")?;
                result.extend_from_slice(&set.c);
                Ok(result)
            };
            self.results = self.inputs.sets.iter().map(place).collect::<Result<_, Error>>()?;
        }
        Ok(())
    }

    fn batch_seconds(&mut self, launch: Launch<'_>, batch: usize) -> Result<f64, Error> {
        if self.device.is_empty() {
            let gpu = self.processors.gpu()?;
            for Inputs { a, b, c } in &self.inputs.sets {
                let operands = gpu.upload(&self.inputs.problem, a, b)?;
                self.device.push((operands, gpu.output(c, 0)?));
            }
        }
        let first = self.turn;
        self.turn += batch;
        let time = run_batch(launch, &mut self.device, first, batch)?;
        Ok(time.as_secs_f64() / batch as f64)
    }
}

/// Sets of that many bytes which together pass twice the cache, as far as memory is spent on it.
fn cold_sets(bytes: usize, cache: u64) -> usize {
    let wanted = 2 * cache / bytes.max(1) as u64 + 2;
    let most = (MOST_BYTES / bytes.max(1)).max(1);
    usize::try_from(wanted).unwrap_or(most).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cold_sets_pass_twice_the_cache_and_no_more_memory_than_allowed() {
        assert!(cold_sets(12 << 20, 60 << 20) * (12 << 20) > 2 * (60 << 20));
        assert_eq!(cold_sets(8 << 30, 60 << 20), 1);
        assert!(cold_sets(100, 1 << 40) * 100 <= MOST_BYTES);
        assert!(cold_sets(1, 0) >= 2);
    }
}
