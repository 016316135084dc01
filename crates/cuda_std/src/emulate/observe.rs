//! What the threads of a launch do, for somebody who watches.

use std::fmt;
use std::panic::Location;

use super::{AccessKind, Dim3, Site};

/// One thing that one thread did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The thread's block.
    pub block: Dim3,
    /// The thread within its block.
    pub thread: Dim3,
    /// What it did.
    pub action: Action,
}

/// What a thread does that others can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It accesses global memory.
    Global {
        /// Read or write.
        kind: AccessKind,
        /// Address of the first byte.
        address: usize,
        /// How many bytes.
        bytes: usize,
    },
    /// It accesses the shared memory of its block.
    Shared {
        /// Read or write.
        kind: AccessKind,
        /// The first byte, from the beginning of the block's shared memory.
        offset: usize,
        /// How many bytes.
        bytes: usize,
    },
    /// It reaches a barrier.
    Barrier,
    /// It executes an instruction of compute capability 9.0, or the barrier of a block, in an asynchronous launch.
    Instruction(Instruction),
}

/// An instruction of a kernel, by its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What it is, in PTX without its qualifiers.
    pub name: &'static str,
    /// Where in the source.
    pub at: &'static Location<'static>,
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, at } = self;
        write!(f, "{name} at {}:{}", at.file(), at.line())
    }
}

/// Watches a launch.
///
/// The events of one block come one after the other: each thread in turn up to its next barrier, in
/// the order of the threads. Blocks run at the same time, so their events are mixed.
pub trait Observer: Sync {
    /// Takes an event, just before it happens.
    fn observe(&self, event: Event);

    /// Takes what a cluster of an asynchronous launch was at when a fault ended it.
    fn stopped(&self, scene: &Scene) {
        let _ = scene;
    }
}

/// What a cluster was at when it stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// Every `mbarrier` that was initialised, in that order.
    pub barriers: Vec<BarrierState>,
    /// Who waited, those together that wait for the same at the same line.
    pub waits: Vec<Waiting>,
}

/// An `mbarrier` in its present phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierState {
    /// Its block.
    pub block: Dim3,
    /// Where it is, from the beginning of the block's shared memory.
    pub offset: usize,
    /// Where it was initialised.
    pub at: &'static Location<'static>,
    /// The phase, counted from 0.
    pub phase: u32,
    /// Arrivals that a phase takes.
    pub count: u32,
    /// Those that this one lacks.
    pub pending: u32,
    /// Bytes that it lacks; negative where more have come than are expected so far.
    pub bytes: i64,
    /// Threads that wait for a phase of it.
    pub waiting: usize,
}

/// Threads that wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The first of them.
    pub site: Site,
    /// How many they are.
    pub threads: usize,
    /// What they wait for, in words.
    pub what: String,
}
