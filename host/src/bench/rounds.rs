//! Candidates interleaved, so that what changes meanwhile, clocks and other programs, affects all alike.
//!
//! In each round every candidate is measured once, in an order that is drawn anew. Before each turn the
//! program waits until the machine is idle. A candidate on the CPU has its turn in a process of its own:
//! the libraries read their number of threads from the environment when they are opened, and their
//! threads may go on spinning when a product is done. On the GPU all use one stream and one set of
//! buffers.
//!
//! A row is made of its rounds: its seconds are the median of their medians.

use std::time::{Duration, Instant};

use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::again::words;
use super::process::in_a_process;
use super::subject::{Sets, Subject};
use super::{Document, Request, Row, idle, one, peak};
use crate::error::Error;
use crate::measure::{Candidate, Observer, Processors, Timing, Verdict, Worker};
use crate::scalar::ScalarTypes;

/// Fewer rounds than this cannot say how far they scatter.
const LEAST_ROUNDS: usize = 3;
/// The product by which a peer shows that it works at all.
const REHEARSAL: [usize; 3] = [8, 8, 8];

/// How often each candidate has its turn, and how long the program waits before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounds {
    /// Turns of each candidate.
    pub count: usize,
    /// How long a turn waits for an idle machine, at most.
    pub patience: Duration,
}

/// How far the turns are.
struct Clock {
    started: Instant,
    begun: usize,
    all: usize,
}

impl Clock {
    fn new(all: usize) -> Self {
        Self { started: Instant::now(), begun: 0, all }
    }

    /// Begins a turn; says which one it is, and from the second one on how long the rest will take.
    fn turn(&mut self) -> String {
        let done = self.begun;
        self.begun += 1;
        let each = self.started.elapsed().as_secs_f64() / done as f64;
        let left = if done == 0 {
            String::new()
        } else {
            format!(", about {:.0} s left", each * self.all.saturating_sub(done) as f64)
        };
        format!("turn {} of {}{left}", self.begun, self.all)
    }

    /// Turns that will not be taken.
    fn lost(&mut self, turns: usize) {
        self.all -= turns;
    }
}

/// Measures every size in rounds.
pub(super) fn measure<T: ScalarTypes>(
    request: &Request,
    rounds: Rounds,
    processors: &Processors,
    observer: &mut dyn Observer,
    document: &mut Document,
) -> Result<(), Error> {
    let config = &request.config;
    let candidates = rehearse(request, processors, observer, document);
    let mut clock = Clock::new(candidates.len() * rounds.count * request.sizes.len());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(config.seed);
    for &size in &request.sizes {
        let [m, n, k] = size;
        let problem = config.problem::<T>(size)?;
        // Only what works in this process needs operands here.
        let mut sets = None;
        if candidates.iter().any(|(_, worker)| worker.is_some()) {
            sets = Some(Sets::draw(&problem, request, processors)?);
        }
        let subject = |sets| Subject::new(sets, request, processors);
        let mut subject = sets.as_ref().map(subject).transpose()?;
        let mut turns: Vec<Vec<Row>> = candidates.iter().map(|_| Vec::new()).collect();
        let mut left: Vec<usize> = (0..candidates.len()).collect();
        for round in 1..=rounds.count {
            left.shuffle(&mut random);
            let mut failed = Vec::new();
            for &at in &left {
                let (candidate, worker) = &candidates[at];
                let id = candidate.id();
                observer.step(&format!(
                    "round {round} of {}: {id} at {m} x {n} x {k}, {}",
                    rounds.count,
                    clock.turn()
                ));
                let look = !rounds.patience.is_zero();
                let busy = look.then(|| idle::wait(rounds.patience)).flatten();
                let found = match (worker, &mut subject) {
                    (Some(worker), Some(subject)) => {
                        // One that was wrong has no further turn.
                        let was_right = !turns[at].is_empty();
                        let candidate = *candidate;
                        one::measure(
                            request, processors, &problem, candidate, worker, subject, was_right,
                        )
                    }
                    _ => in_a_process(request, processors, *candidate, size),
                };
                match found {
                    Ok(mut row) => {
                        row.busy_before = busy;
                        // A wrong result does not get better by repeating it.
                        if !row.check.ok {
                            failed.push(at);
                        }
                        turns[at].push(row);
                    }
                    Err(reason) => {
                        failed.push(at);
                        document.skip(id, Some(size), reason);
                    }
                }
            }
            left.retain(|at| !failed.contains(at));
            clock.lost(failed.len() * (rounds.count - round));
        }
        let mut rows: Vec<Row> =
            turns.into_iter().filter_map(|turns| merge(turns, request.spread)).collect();
        share_peaks(&mut rows);
        for row in &mut rows {
            row.command = words(&row.point, request, Some(rounds));
        }
        document.rows.append(&mut rows);
    }
    Ok(())
}

/// Those that can take part; what works in this process is made ready. Peers whose library is missing
/// are skipped once and not at each size.
fn rehearse<'p>(
    request: &Request,
    processors: &'p Processors,
    observer: &mut dyn Observer,
    document: &mut Document,
) -> Vec<(Candidate, Option<Worker<'p>>)> {
    let mut candidates = Vec::new();
    for candidate in &request.candidates {
        // Of those that were not asked for nothing is said.
        if processors.choice.admits(candidate.on_gpu()).is_err() {
            continue;
        }
        observer.step(&format!("preparing {}", candidate.id()));
        let worker = match candidate {
            Candidate::Own(_) if !candidate.on_gpu() => Ok(None),
            Candidate::Peer(_) if !candidate.on_gpu() => {
                let quick = Request { time: Duration::from_millis(1), ..request.clone() };
                in_a_process(&quick, processors, *candidate, REHEARSAL).map(|_| None)
            }
            Candidate::Own(_) | Candidate::Auto | Candidate::Peer(_) => {
                candidate.worker(&request.peer_folders, processors).map(Some)
            }
        };
        match worker {
            Ok(worker) => candidates.push((*candidate, worker)),
            Err(reason) => document.skip(candidate.id(), None, reason),
        }
    }
    candidates
}

/// One row of the rounds of a candidate. What is not a time is that of the first round, and the worst
/// check and the busiest start of all.
fn merge(turns: Vec<Row>, spread: f64) -> Option<Row> {
    let rounds: Vec<Timing> = turns.iter().map(|turn| turn.seconds).collect();
    let busy = turns.iter().filter_map(|turn| turn.busy_before).reduce(f64::max);
    let after = turns.last()?.after.clone();
    let peaks = turns.iter().filter_map(|turn| turn.peak_gflops).reduce(f64::max);
    let energy = turns.iter().map(|turn| turn.energy).reduce(|sum, turn| Some(sum?.and(turn?)));
    let check = turns.iter().map(|turn| turn.check.clone()).reduce(Verdict::and)?;
    let mut row = turns.into_iter().next()?;
    let flops = row.gflops * row.seconds.median;
    row.seconds = Timing::of(&mut rounds.iter().map(|round| round.median).collect::<Vec<_>>());
    row.spread = row.seconds.spread();
    row.settled = rounds.len() >= LEAST_ROUNDS && row.spread < spread;
    row.gflops = flops / row.seconds.median;
    row.rounds = rounds;
    row.busy_before = busy;
    row.after = after;
    row.energy = energy.flatten();
    row.peak_gflops = peaks;
    row.check = check;
    Some(row)
}

/// Holds rows of as many threads against the best peak of the same units that any of them saw: what
/// disturbs a measurement of the peak makes it too low.
fn share_peaks(rows: &mut [Row]) {
    let used = |row: &Row| {
        let candidate = Candidate::find(&row.point.kernel).ok()?;
        let threads = candidate.threads(row.point.threads).filter(|_| row.point.device == "cpu")?;
        Some((threads, row.peak_vectors.as_deref() == Some(peak::MATRIX_UNITS)))
    };
    let peaks: Vec<_> = rows.iter().map(|row| (used(row), row.peak_gflops)).collect();
    for row in rows {
        if let Some(units) = used(row) {
            let alike = peaks.iter().filter(|(other, _)| *other == Some(units));
            row.peak_gflops = alike.filter_map(|(_, peak)| *peak).reduce(f64::max);
        }
        row.weigh();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::compare::tests::row;

    #[test]
    fn a_row_is_the_median_of_its_rounds_with_the_worst_of_the_rest() {
        let mut turns = vec![row("a", 1.0, 0.1), row("a", 4.0, 0.1), row("a", 2.0, 0.1)];
        for turn in &mut turns {
            turn.gflops = 8.0 / turn.seconds.median;
        }
        turns[0].peak_gflops = Some(9.0);
        turns[1].peak_gflops = Some(10.0);
        turns[1].busy_before = Some(0.5);
        turns[2].busy_before = Some(0.1);
        turns[2].check.ok = false;
        turns[0].check.max_error = 0.75;
        let merged = merge(turns, 0.01).unwrap();
        assert_eq!((merged.seconds.median, merged.seconds.runs, merged.gflops), (2.0, 3, 4.0));
        assert_eq!(merged.rounds.len(), 3);
        assert_eq!((merged.peak_gflops, merged.busy_before), (Some(10.0), Some(0.5)));
        assert!(!merged.check.ok && !merged.settled);
        assert_eq!(merged.check.max_error, 0.75);
        assert!(merge(Vec::new(), 0.01).is_none());
    }

    #[test]
    fn turns_are_counted_and_the_rest_is_estimated() {
        let mut clock = Clock::new(6);
        clock.started -= Duration::from_secs(10);
        assert_eq!(clock.turn(), "turn 1 of 6");
        assert_eq!(clock.turn(), "turn 2 of 6, about 50 s left");
        clock.lost(2);
        assert_eq!(clock.turn(), "turn 3 of 4, about 10 s left");
    }

    #[test]
    fn peaks_are_shared_by_rows_of_as_many_threads() {
        let mut rows =
            vec![row("rayon", 1.0, 0.0), row("openblas", 1.0, 0.0), row("serial", 1.0, 0.0)];
        for (row, peak) in rows.iter_mut().zip([10.0, 20.0, 5.0]) {
            row.point.threads = 2;
            row.peak_gflops = Some(peak);
        }
        share_peaks(&mut rows);
        let peaks: Vec<_> = rows.iter().map(|row| row.peak_gflops).collect();
        assert_eq!(peaks, [Some(20.0), Some(20.0), Some(5.0)]);
        assert_eq!(rows[0].percent_of_peak, Some(5.0));
        // Those of matrix units are none of vector units.
        rows[1].peak_vectors = Some(peak::MATRIX_UNITS.to_owned());
        rows[1].peak_gflops = Some(90.0);
        share_peaks(&mut rows);
        assert_eq!((rows[0].peak_gflops, rows[1].peak_gflops), (Some(20.0), Some(90.0)));
    }
}
