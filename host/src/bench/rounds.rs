//! Entrants by turns, so that what moves between them, clocks and other programs, falls on all alike.
//!
//! In each round every entrant is measured once, in an order that is drawn anew. Before each turn the
//! program waits until the machine is idle. An entrant on the CPU has its turn in a process of its own:
//! the libraries read their number of threads from the environment when they are opened, and their
//! threads may go on spinning when a product is done. On the GPU all use one stream and one set of
//! buffers.
//!
//! A row is made of its rounds: its seconds are the median of their medians.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gemm_spec::Problem;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::compare::read;
use super::entrant::{Entrant, Ready};
use super::subject::{Inputs, Subject};
use super::{Config, Document, Processors, Row, SkippedPoint, idle, row, words};
use crate::error::Error;
use crate::measure::Timing;
use crate::peers::threads_environment;
use crate::report::skipped::without_gpu;
use crate::run::{DeviceChoice, Observer};
use crate::scalar::{Scalar, ScalarTypes};

/// Fewer rounds than this cannot say how far they scatter.
const LEAST_ROUNDS: usize = 3;
/// The product by which a peer shows that it works at all.
const REHEARSAL: [usize; 3] = [8, 8, 8];

/// How often each entrant has its turn, and how long the program waits before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounds {
    /// Turns of each entrant.
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
    config: &Config,
    rounds: Rounds,
    processors: &Processors,
    observer: &mut dyn Observer,
    document: &mut Document,
) -> Result<(), Error> {
    let entrants = rehearse(config, processors, observer, document);
    let mut clock = Clock::new(entrants.len() * rounds.count * config.sizes.len());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(config.seed);
    for &[m, n, k] in &config.sizes {
        let problem = Problem::<T>::new(m, n, k)
            .with_scalars(T::Acc::from_f64(config.alpha), T::Acc::from_f64(config.beta));
        // Only what works in this process needs operands here.
        let mut inputs = None;
        if entrants.iter().any(|(_, ready)| ready.is_some()) {
            inputs = Some(Inputs::draw(&problem, config, processors)?);
        }
        let subject = |inputs| Subject::new(inputs, config, processors);
        let mut subject = inputs.as_ref().map(subject).transpose()?;
        let mut turns: Vec<Vec<Row>> = entrants.iter().map(|_| Vec::new()).collect();
        let mut left: Vec<usize> = (0..entrants.len()).collect();
        for round in 1..=rounds.count {
            left.shuffle(&mut random);
            let mut failed = Vec::new();
            for &at in &left {
                let (entrant, ready) = &entrants[at];
                let id = entrant.id();
                observer.step(&format!(
                    "round {round} of {}: {id} at {m} x {n} x {k}, {}",
                    rounds.count,
                    clock.turn()
                ));
                let busy = idle::wait(rounds.patience);
                let found = match (ready, &mut subject) {
                    (Some(ready), Some(subject)) => {
                        // One that was wrong has no further turn.
                        let was_right = !turns[at].is_empty();
                        row(config, processors, &problem, *entrant, ready, subject, was_right)
                    }
                    _ => in_a_process(config, processors, *entrant, [m, n, k]),
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
                        let size = Some([m, n, k]);
                        document.skipped.push(SkippedPoint { kernel: id.to_owned(), size, reason });
                    }
                }
            }
            left.retain(|at| !failed.contains(at));
            clock.lost(failed.len() * (rounds.count - round));
        }
        let mut rows: Vec<Row> =
            turns.into_iter().filter_map(|turns| merge(turns, config.spread)).collect();
        share_peaks(&mut rows);
        for row in &mut rows {
            row.command = words(&row.point, config, Some(rounds));
        }
        document.rows.append(&mut rows);
    }
    Ok(())
}

/// Those that can take part; what works in this process is made ready. Peers whose library is missing
/// are skipped once and not at each size.
fn rehearse<'p>(
    config: &Config,
    processors: &'p Processors,
    observer: &mut dyn Observer,
    document: &mut Document,
) -> Vec<(Entrant, Option<Ready<'p>>)> {
    let mut entrants = Vec::new();
    for entrant in &config.entrants {
        let on_cpu = !entrant.on_gpu();
        let wanted = match config.device {
            DeviceChoice::Cuda(_) => !on_cpu,
            DeviceChoice::Cpu => on_cpu,
            DeviceChoice::Auto | DeviceChoice::Emulate => true,
        };
        if !wanted {
            continue;
        }
        observer.step(&format!("preparing {}", entrant.id()));
        let ready = match entrant {
            Entrant::Own(_) if on_cpu => Ok(None),
            Entrant::Peer(_) if on_cpu => {
                let quick = Config { time: Duration::from_millis(1), ..config.clone() };
                in_a_process(&quick, processors, *entrant, REHEARSAL).map(|_| None)
            }
            Entrant::Own(_) | Entrant::Auto | Entrant::Peer(_) => processors
                .gpu
                .as_ref()
                .map_err(without_gpu)
                .and_then(|_| entrant.ready(&config.peer_folders, processors))
                .map(Some),
        };
        match ready {
            Ok(ready) => entrants.push((*entrant, ready)),
            Err(reason) => {
                let kernel = entrant.id().to_owned();
                document.skipped.push(SkippedPoint { kernel, size: None, reason });
            }
        }
    }
    entrants
}

/// Measures an entrant in a new process of this program, whose environment fixes threads and kernels.
fn in_a_process(
    config: &Config,
    processors: &Processors,
    entrant: Entrant,
    size: [usize; 3],
) -> Result<Row, String> {
    let program = std::env::current_exe()
        .map_err(|error| format!("this program does not find itself: {error}"))?;
    let threads = processors.cpu.threads();
    let environment = match entrant {
        Entrant::Own(_) | Entrant::Auto => threads_environment(threads),
        Entrant::Peer(peer) => peer.environment(threads),
    };
    let point = config.point(entrant, size, threads, "cpu".to_owned());
    let mut command = Command::new(program);
    command
        .args(&words(&point, config, None)[1..])
        .args(["--alone", "--format", "json"])
        .env("LD_LIBRARY_PATH", library_path(config))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    die_with_this_process(&mut command);
    for (name, value) in environment {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut child =
        command.spawn().map_err(|error| format!("its process does not start: {error}"))?;
    // Waiting would close the pipe that tells the child that this process is there.
    let lifeline = child.stdin.take();
    let output =
        child.wait_with_output().map_err(|error| format!("its process is lost: {error}"))?;
    drop(lifeline);
    let text = String::from_utf8_lossy(&output.stdout);
    outcome(&text).unwrap_or_else(|| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no word of why");
        Err(format!("its process ended with {}: {last}", output.status))
    })
}

/// Has the system kill the child as soon as this process is gone, whatever it is doing.
#[cfg(target_os = "linux")]
fn die_with_this_process(command: &mut Command) {
    use std::os::unix::process::CommandExt;

    let parent = std::process::id();
    let tie = move || {
        // SAFETY: `prctl` with this option takes one number and touches no memory; it is a system call and
        // no more, so that it may be called between fork and exec.
        let refused = unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } != 0;
        // SAFETY: `getppid` takes nothing, and may be called between fork and exec.
        let parent_now = unsafe { libc::getppid() }.cast_unsigned();
        // The parent may have ended before the child was tied to it.
        if refused || parent_now != parent { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: the closure allocates nothing and takes no lock; it makes two system calls.
    unsafe { command.pre_exec(tie) };
}

#[cfg(not(target_os = "linux"))]
fn die_with_this_process(_: &mut Command) {}

/// Ends this process, which has a turn, when its standard input does: the process that waits for the turn
/// holds the other end and never writes.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
}

/// The row of a document of one entrant, or why there is none; `None` where this is no document.
fn outcome(text: &str) -> Option<Result<Row, String>> {
    let document = read(text).ok()?;
    if let Some(row) = document.rows.into_iter().next() {
        return Some(Ok(row));
    }
    document.skipped.into_iter().next().map(|skipped| Err(skipped.reason))
}

/// The loader's folders with the user's in front: libraries need others that lie beside them.
fn library_path(config: &Config) -> OsString {
    let inherited = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let inherited = std::env::split_paths(&inherited).filter(|path| !path.as_os_str().is_empty());
    let folders = config.peer_folders.iter().cloned().chain(inherited);
    // A folder whose name holds a colon cannot be passed on.
    std::env::join_paths(folders).unwrap_or_default()
}

/// One row of the rounds of an entrant. What is not a time is that of the first round, and the worst
/// check and the busiest start of all.
fn merge(turns: Vec<Row>, spread: f64) -> Option<Row> {
    let rounds: Vec<Timing> = turns.iter().map(|turn| turn.seconds).collect();
    let busy = turns.iter().filter_map(|turn| turn.busy_before).reduce(f64::max);
    let after = turns.last()?.after.clone();
    let peaks = turns.iter().filter_map(|turn| turn.peak_gflops).reduce(f64::max);
    let energy = turns.iter().map(|turn| turn.energy).reduce(|sum, turn| Some(sum?.and(turn?)));
    let worst = turns.iter().find(|turn| !turn.check.ok).map(|turn| turn.check.clone());
    let max_error = turns.iter().map(|turn| turn.check.max_error).fold(0.0, f64::max);
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
    row.check = worst.unwrap_or(row.check);
    row.check.max_error = row.check.max_error.max(max_error);
    Some(row)
}

/// Holds rows of as many threads against the best peak that any of them saw: what disturbs a
/// measurement of the peak makes it too low.
fn share_peaks(rows: &mut [Row]) {
    let used = |row: &Row| {
        let entrant = Entrant::find(&row.point.kernel).ok()?;
        if row.point.device == "cpu" { entrant.threads(row.point.threads) } else { None }
    };
    let peaks: Vec<_> = rows.iter().map(|row| (used(row), row.peak_gflops)).collect();
    for row in rows {
        if let Some(threads) = used(row) {
            let alike = peaks.iter().filter(|(other, _)| *other == Some(threads));
            row.peak_gflops = alike.filter_map(|(_, peak)| *peak).reduce(f64::max);
        }
        row.weigh();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::compare::tests::{document, row};

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
    }

    #[test]
    fn a_process_says_a_row_or_why_there_is_none() {
        let mut found = document(vec![row("a", 1.0, 0.0)]);
        let text = |document: &Document| serde_json::to_string(document).unwrap();
        assert!(outcome(&text(&found)).unwrap().is_ok());
        found.rows.clear();
        assert!(outcome(&text(&found)).is_none());
        let (kernel, reason) = ("a".to_owned(), "is not found".to_owned());
        found.skipped.push(SkippedPoint { kernel, size: None, reason });
        assert_eq!(outcome(&text(&found)).unwrap().err().as_deref(), Some("is not found"));
        assert!(outcome("Segmentation fault").is_none());
    }
}
