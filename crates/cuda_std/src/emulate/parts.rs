//! What the state of a cluster is made of: barriers, products, copies, stores and registers, as data. What they do is
//! in the files of their instructions.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::Location;

use super::clock::{Clock, Component, Stamp};
use super::tensor_core::Factor;
use super::tensor_map::TensorMap;
use crate::arch::sm90::tensor::Coords;

/// Threads of a warpgroup.
pub(super) const WARPGROUP: usize = 128;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// That many phases of that `mbarrier`.
    Phases(usize, u32),
    /// A named barrier.
    Named(usize),
    /// That many groups of products of its warpgroup.
    Products(usize, u32),
    /// That many groups of stores of its own.
    Stores(u32),
    /// The barrier of the cluster.
    Cluster,
    /// Registers from the block's pool.
    Registers,
}

/// A thread that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) what: What,
    pub(super) at: &'static Location<'static>,
}

/// A barrier.
pub(super) struct Barrier {
    pub(super) component: Component,
    /// Its block, and where it is in its shared memory.
    pub(super) rank: usize,
    pub(super) offset: usize,
    pub(super) count: u32,
    /// Arrivals that the phase lacks.
    pub(super) pending: u32,
    /// Bytes that it lacks.
    pub(super) bytes: i64,
    /// Phases that have ended.
    pub(super) phase: u32,
    /// Who initialised it, and where.
    pub(super) set: Stamp,
    pub(super) at: &'static Location<'static>,
    /// Whether that was made visible to copies and other blocks.
    pub(super) fenced: bool,
    /// What those have known who arrived.
    pub(super) open: Clock,
    /// The same at the ends of the last two phases.
    pub(super) over: [Clock; 2],
    /// Who arrived, or started a copy, last.
    pub(super) last: usize,
}

/// Rows of C of an instruction.
pub(super) const ROWS: usize = 64;

/// A product, as its instruction names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Product {
    pub(crate) factor: Factor,
    /// The descriptors.
    pub(crate) a: u64,
    pub(crate) b: u64,
    /// Whether the old sums are added.
    pub(crate) add: bool,
    /// Whether A and B are not K-major.
    pub(crate) mn_major: [bool; 2],
    /// Whether a `wgmma.fence` is just before.
    pub(crate) fence: bool,
}

/// An instruction of a warpgroup.
#[derive(Clone, Copy)]
pub(super) enum Instruction {
    Product(Product, u32),
    Commit,
}

/// An instruction that threads have come to.
pub(super) struct Op {
    pub(super) instruction: Instruction,
    pub(super) at: &'static Location<'static>,
    pub(super) arrived: usize,
    /// Rows and columns of which it has read what nobody wrote.
    pub(super) unwritten: Unwritten,
}

#[derive(Default)]
pub(super) struct Unwritten {
    pub(super) rows: Vec<usize>,
    pub(super) columns: Vec<usize>,
}

/// Products that add to the same registers.
pub(super) struct Chain {
    pub(super) number: u32,
    pub(super) columns: usize,
    /// The sums, row-major.
    pub(super) acc: Vec<f32>,
    /// Those that depend on what nobody wrote, as what stands for them; empty where there are none.
    pub(super) unwritten: Vec<u32>,
    pub(super) at: &'static Location<'static>,
    /// Threads that have their sums.
    pub(super) delivered: usize,
}

/// A chain whose sums a thread has not got.
#[derive(Clone, Copy)]
pub(super) struct UnderWay {
    /// Its number.
    pub(super) chain: u32,
    /// The group of the thread's last product of it.
    pub(super) last: u32,
}

/// The products of a warpgroup.
pub(super) struct Warpgroup {
    pub(super) component: Component,
    pub(super) rank: usize,
    /// Its first thread.
    pub(super) first: usize,
    /// Those that have not been carried out, and the number of the first.
    pub(super) ops: VecDeque<Op>,
    pub(super) first_op: u32,
    /// For each thread the number of its next instruction, the groups that it has closed, and the chains whose sums
    /// it has not got.
    pub(super) next: [u32; WARPGROUP],
    pub(super) closed: [u32; WARPGROUP],
    pub(super) under_way: [Vec<UnderWay>; WARPGROUP],
    /// Groups that are done.
    pub(super) done: u32,
    pub(super) chains: Vec<Chain>,
    pub(super) next_chain: u32,
}

impl Warpgroup {
    pub(super) fn new(component: Component, rank: usize, first: usize) -> Self {
        Self {
            component,
            rank,
            first,
            ops: VecDeque::new(),
            first_op: 0,
            next: [0; WARPGROUP],
            closed: [0; WARPGROUP],
            under_way: [const { Vec::new() }; WARPGROUP],
            done: 0,
            chains: Vec::new(),
            next_chain: 0,
        }
    }

    /// The group whose instructions all threads have left, if there is one to carry out.
    pub(super) fn is_complete(&self) -> bool {
        let mut ops = self.ops.iter().take_while(|op| op.arrived == WARPGROUP);
        ops.any(|op| matches!(op.instruction, Instruction::Commit))
    }
}

impl Chain {
    /// Sums of these rows and columns depend on what nobody wrote.
    pub(super) fn mark(&mut self, mark: u32, (rows, columns): (Range<usize>, Range<usize>)) {
        self.unwritten.resize(ROWS * self.columns, 0);
        for row in rows {
            self.unwritten[row * self.columns..][columns.clone()].fill(mark);
        }
    }
}

/// What threads do to other blocks, and their barrier.
pub(super) struct Remote {
    /// For each thread its last read from each other block, and its last arrival at each barrier.
    pub(super) acts: Vec<Vec<RemoteAct>>,
    pub(super) gate: Gate,
}

/// The barrier of the cluster.
#[derive(Default)]
pub(super) struct Gate {
    pub(super) clock: Clock,
    pub(super) arrived: usize,
}

/// Something that a thread did to the memory of another block.
#[derive(Clone, Copy)]
pub(super) struct RemoteAct {
    pub(super) target: usize,
    pub(super) kind: RemoteKind,
    pub(super) stamp: Stamp,
}

#[derive(Clone, Copy)]
pub(super) enum RemoteKind {
    Read,
    /// An arrival in a phase of a barrier, which counts from 1.
    Arrival(Component, u32),
}

impl Remote {
    pub(super) fn new(threads: usize) -> Self {
        Self { acts: vec![Vec::new(); threads], gate: Gate::default() }
    }

    /// Threads that are at the barrier of the cluster.
    pub(super) fn arrived(&self) -> usize {
        self.gate.arrived
    }
}

impl RemoteAct {
    /// Whether a later act of the same thread, once it is over, leaves nothing to tell of this one.
    pub(super) fn is_covered_by(&self, later: &Self) -> bool {
        self.target == later.target
            && match (self.kind, later.kind) {
                (RemoteKind::Read, RemoteKind::Read) => true,
                (RemoteKind::Arrival(of, _), RemoteKind::Arrival(other, _)) => of == other,
                (RemoteKind::Read, RemoteKind::Arrival(..))
                | (RemoteKind::Arrival(..), RemoteKind::Read) => false,
            }
    }

    /// Whether a thread with that clock knows it to be over.
    pub(super) fn is_over(&self, clock: &Clock) -> bool {
        match self.kind {
            RemoteKind::Read => clock.is_over(self.stamp),
            RemoteKind::Arrival(barrier, phases) => {
                clock.knows(self.stamp) || clock.phases(barrier) >= phases
            }
        }
    }
}

/// What a copy to shared memory moves.
pub(super) enum Source {
    /// Bytes from an address on, and the words of them that nobody has written.
    Bytes(*const u8, Vec<usize>),
    /// A box of a matrix.
    Box(TensorMap, Coords),
}

/// A copy on its way to the shared memory of one block.
pub(super) struct Landing {
    pub(super) source: Source,
    pub(super) rank: usize,
    pub(super) offset: usize,
    pub(super) bytes: usize,
    /// The barrier that counts its bytes.
    pub(super) barrier: usize,
    /// Who started it, and where.
    pub(super) slot: usize,
    pub(super) at: &'static Location<'static>,
    pub(super) site: u16,
    /// The phases that its issuer knew to have ended.
    pub(super) known: Vec<(Component, u32)>,
}

/// The stores of one thread.
#[derive(Default)]
pub(super) struct Stores {
    pub(super) component: Option<Component>,
    /// Since the last group was closed.
    pub(super) open: Vec<Store>,
    /// Closed groups that have not been read.
    pub(super) groups: std::collections::VecDeque<Vec<Store>>,
    pub(super) closed: u32,
    pub(super) read: u32,
}

pub(super) struct Store {
    pub(super) map: TensorMap,
    pub(super) place: Coords,
    pub(super) rank: usize,
    pub(super) offset: usize,
    pub(super) at: &'static Location<'static>,
}

impl Stores {
    /// Where a store was started that may still read.
    pub(super) fn unread(&self) -> Option<&'static Location<'static>> {
        self.open.iter().chain(self.groups.iter().flatten()).next().map(|store| store.at)
    }
}

/// Lanes of a warp.
pub(super) const LANES: usize = 32;

/// Registers of an SM.
pub(super) const REGISTERS: usize = 64 * 1024;

/// A named barrier of a block.
pub(super) struct Named {
    pub(super) component: Component,
    pub(super) rank: usize,
    pub(super) id: u32,
    /// Threads that are there, and those that it is for.
    pub(super) arrived: usize,
    pub(super) threads: usize,
    /// Times that it was passed.
    pub(super) generation: u32,
    pub(super) clock: Clock,
    pub(super) waiting: Vec<usize>,
}

/// The stores of matrices that lanes of a warp have come to, the oldest first.
#[derive(Default)]
pub(super) struct Matrices {
    pub(super) stores: VecDeque<[Option<Part>; LANES]>,
    /// Stores that are done, and for each lane those that it has come to.
    pub(super) done: usize,
    pub(super) come_to: [usize; LANES],
}

#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) row: u32,
    pub(super) pairs: [u32; 4],
    pub(super) stamp: Stamp,
    pub(super) at: &'static Location<'static>,
}

/// The registers of a block.
pub(super) struct Pool {
    pub(super) free: usize,
    /// For each warpgroup the registers of a thread.
    pub(super) each: Vec<usize>,
    /// Who of a warpgroup has come to an instruction, for how many registers, and where.
    pub(super) coming: Vec<Option<(usize, usize, &'static Location<'static>)>>,
}

impl Pool {
    /// A pool whose threads have as many registers as an SM has for one block of them.
    pub(super) fn new(threads: usize) -> Self {
        let each = (REGISTERS / threads.max(1) / 8 * 8).min(248);
        let groups = threads / WARPGROUP;
        Self { free: 0, each: vec![each; groups], coming: vec![None; groups] }
    }
}
