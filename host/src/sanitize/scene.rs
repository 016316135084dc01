//! What a kernel for Hopper was at when a fault ended it: its barriers, and the last instructions of who is concerned.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use cuda_std::emulate::{
    Action, BarrierState, Dim3, EmulationError, Event, Instruction, Observer, Scene, Site,
};
use serde::Serialize;

/// Instructions of a thread that are told.
const LAST: usize = 8;
/// Threads of which they are.
const THREADS: usize = 6;

/// A cluster at a fault, as a report shows it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Stopped {
    /// Its `mbarrier`s.
    pub(crate) barriers: Vec<Barrier>,
    /// The threads of the fault, and one of each group that waits.
    pub(crate) threads: Vec<Thread>,
}

/// An `mbarrier` in its present phase.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Barrier {
    block: Dim3,
    /// Its first byte in shared memory.
    byte: usize,
    phase: u32,
    /// Arrivals that a phase takes, and those that this one lacks.
    arrivals: u32,
    arrivals_lacking: u32,
    bytes_lacking: i64,
    threads_waiting: usize,
    set_at: String,
}

/// A thread, and the instructions that it came to last, the newest at the end.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Thread {
    block: Dim3,
    thread: Dim3,
    last: Vec<String>,
}

/// Watches a run that has a fault.
#[derive(Default)]
pub(super) struct Watch(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    last: HashMap<(Dim3, Dim3), VecDeque<Instruction>>,
    scenes: Vec<Scene>,
}

impl Observer for Watch {
    fn observe(&self, event: Event) {
        let Action::Instruction(instruction) = event.action else { return };
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = seen.last.entry((event.block, event.thread)).or_default();
        if last.len() == LAST {
            last.pop_front();
        }
        last.push_back(instruction);
    }

    fn stopped(&self, scene: &Scene) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).scenes.push(scene.clone());
    }
}

impl Watch {
    /// What the cluster of a fault was at; none where the launch has none that is watched.
    pub(super) fn stopped_at(self, fault: &EmulationError) -> Option<Stopped> {
        let Seen { last, scenes } = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (sites, text) = (fault.sites(), fault.to_string());
        // Other clusters may have stopped at faults of their own.
        let is_of_fault = |scene: &&Scene| match sites.first() {
            Some(site) => scene.barriers.iter().any(|barrier| barrier.block == site.block),
            None => scene.waits.iter().any(|wait| text.contains(&wait.site.to_string())),
        };
        let scene = scenes.iter().find(is_of_fault)?;
        let mut concerned: Vec<Site> = Vec::new();
        for site in sites.into_iter().chain(scene.waits.iter().map(|wait| wait.site)) {
            let is_same = |known: &Site| (known.block, known.thread) == (site.block, site.thread);
            if concerned.len() < THREADS && !concerned.iter().any(is_same) {
                concerned.push(site);
            }
        }
        let threads = concerned.iter().map(|site| Thread {
            block: site.block,
            thread: site.thread,
            last: last
                .get(&(site.block, site.thread))
                .map(|last| last.iter().map(Instruction::to_string).collect())
                .unwrap_or_default(),
        });
        let barriers = scene.barriers.iter().map(Barrier::from).collect();
        Some(Stopped { barriers, threads: threads.collect() })
    }
}

impl From<&BarrierState> for Barrier {
    fn from(state: &BarrierState) -> Self {
        Self {
            block: state.block,
            byte: state.offset,
            phase: state.phase,
            arrivals: state.count,
            arrivals_lacking: state.pending,
            bytes_lacking: state.bytes,
            threads_waiting: state.waiting,
            set_at: format!("{}:{}", state.at.file(), state.at.line()),
        }
    }
}

impl Stopped {
    /// The table of barriers and the threads, a line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.barriers.is_empty() {
            lines.push(format!(
                "{:<12} {:>7} {:>6} {:>12} {:>14} {:>8}  set at",
                "mbarrier of", "byte", "phase", "arrivals", "bytes lacking", "waiting"
            ));
        }
        for barrier in &self.barriers {
            let Barrier { block, byte, phase, arrivals, arrivals_lacking, .. } = barrier;
            let come = format!("{} of {arrivals}", arrivals - arrivals_lacking);
            lines.push(format!(
                "{:<12} {byte:>7} {phase:>6} {come:>12} {:>14} {:>8}  {}",
                format!("{block:?}"),
                barrier.bytes_lacking,
                barrier.threads_waiting,
                barrier.set_at
            ));
        }
        for Thread { block, thread, last } in &self.threads {
            lines.push(format!("thread {thread:?} of block {block:?} came last to"));
            lines.extend(last.iter().map(|instruction| format!("  {instruction}")));
        }
        lines
    }
}
