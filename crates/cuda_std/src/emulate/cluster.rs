//! What the threads of a cluster have in common besides memory: clocks, what is under way, and who waits for what.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::panic::Location;

use super::cells::{Act, Cells, Hazard, Knowledge};
use super::clock::{Clock, Component, Stamp};
use super::global::Who;
use super::parts::{
    Barrier, Landing, Matrices, Named, Pool, Remote, Stores, WARPGROUP, Wait, Warpgroup, What,
};
use super::sites::Sites;
use super::{
    Access, AccessKind, BarrierState, Block, EmulationError, Launch, Pause, Scene, Site, Strict,
    Thread, Waiting, coordinates, watch,
};

/// The state of a cluster whose launch is asynchronous.
pub(super) struct Cluster(RefCell<Option<Box<State>>>);

/// See [`Cluster`].
pub(super) struct State {
    /// Threads of a block.
    pub(super) block_threads: usize,
    /// One for each thread.
    pub(super) clocks: Vec<Clock>,
    /// One for each block.
    pub(super) cells: Vec<Cells>,
    pub(super) sites: Sites,
    components: usize,
    pub(super) barriers: Vec<Barrier>,
    pub(super) named: Vec<Named>,
    pub(super) warpgroups: Vec<Warpgroup>,
    pub(super) landings: Vec<Landing>,
    pub(super) stores: Vec<Stores>,
    pub(super) matrices: Vec<Matrices>,
    pub(super) pools: Vec<Pool>,
    /// Threads that can go on.
    pub(super) woken: VecDeque<usize>,
    pub(super) waits: Vec<Option<Wait>>,
    ended: Vec<bool>,
    pub(super) remote: Remote,
    pub(super) checked: bool,
    pub(super) strict: Strict,
    pub(super) early: bool,
}

impl Cluster {
    /// The state of `blocks` blocks, where their launch is asynchronous.
    pub(super) fn new(launch: &Launch, blocks: usize) -> Self {
        Self(RefCell::new(launch.asynchronous.then(|| Box::new(State::new(launch, blocks)))))
    }

    /// Calls with the state; none where the launch is not asynchronous.
    pub(super) fn with<R>(&self, call: impl FnOnce(&mut State) -> R) -> Option<R> {
        self.0.borrow_mut().as_deref_mut().map(call)
    }
}

impl State {
    fn new(launch: &Launch, blocks: usize) -> Self {
        let (x, y, z) = launch.block;
        let block_threads = (x * y * z) as usize;
        let threads = block_threads * blocks;
        // Room for the components of barriers and groups.
        let length = threads + 64;
        let checked = if launch.checked { launch.shared_bytes } else { 0 };
        let mut state = Self {
            block_threads,
            clocks: fresh_clocks(threads, length),
            cells: (0..blocks).map(|_| Cells::new(checked)).collect(),
            sites: Sites::new(),
            components: threads,
            barriers: Vec::new(),
            named: Vec::new(),
            warpgroups: Vec::new(),
            landings: Vec::new(),
            stores: (0..threads).map(|_| Stores::default()).collect(),
            matrices: (0..threads.div_ceil(32)).map(|_| Matrices::default()).collect(),
            pools: Vec::new(),
            woken: VecDeque::new(),
            waits: vec![None; threads],
            ended: vec![false; threads],
            remote: Remote::new(threads),
            checked: launch.checked,
            strict: launch.strict,
            early: launch.order == super::Order::Early,
        };
        for rank in 0..blocks {
            state.pools.push(Pool::new(block_threads));
            for group in 0..block_threads / WARPGROUP {
                let component = state.component();
                let first = rank * block_threads + group * WARPGROUP;
                state.warpgroups.push(Warpgroup::new(component, rank, first));
            }
        }
        state
    }

    /// A new component.
    pub(super) fn component(&mut self) -> Component {
        let component = self.components;
        self.components += 1;
        Component::try_from(component).expect("invariant: a cluster has fewer barriers and groups")
    }

    /// Threads of the cluster.
    pub(super) fn threads(&self) -> usize {
        self.clocks.len()
    }

    /// The stamp of what a thread does now.
    pub(super) fn stamp(&mut self, slot: usize, at: &'static Location<'static>) -> Stamp {
        let site = self.sites.number(at);
        let component = component_of(slot);
        Stamp { time: self.clocks[slot].time(component), component, site }
    }

    /// What a thread has done so far is over, for whom it tells from its clock: later accesses are others.
    pub(super) fn tick(&mut self, slot: usize) {
        self.clocks[slot].seen[slot] += 1;
    }

    /// Lets a thread go on.
    pub(super) fn wake(&mut self, slot: usize) {
        self.waits[slot] = None;
        self.woken.push_back(slot);
    }

    /// Lets those go on that wait for something.
    pub(super) fn wake_all(&mut self, of: impl Fn(What) -> bool) {
        for slot in 0..self.waits.len() {
            if self.waits[slot].is_some_and(|wait| of(wait.what)) {
                self.wake(slot);
            }
        }
    }

    /// Whether somebody waits for it.
    pub(super) fn is_awaited(&self, of: impl Fn(What) -> bool) -> bool {
        self.waits.iter().flatten().any(|wait| of(wait.what))
    }

    /// The thread of a component, or one that stands for it.
    fn slot_of(&self, component: Component) -> usize {
        let slot = usize::from(component);
        if slot < self.threads() {
            return slot;
        }
        let barrier = self.barriers.iter().find(|barrier| barrier.component == component);
        let warpgroup = self.warpgroups.iter().find(|group| group.component == component);
        let store = self.stores.iter().position(|store| store.component == Some(component));
        barrier
            .map(|barrier| barrier.last)
            .or(warpgroup.map(|group| group.first))
            .or(store)
            .unwrap_or(0)
    }

    /// Where a stamp is from.
    pub(super) fn site_of(&self, blocks: &[Block<'_>], stamp: Stamp) -> Site {
        self.site(blocks, self.slot_of(stamp.component), self.sites.at(stamp.site))
    }

    /// A thread at a line.
    pub(super) fn site(
        &self,
        blocks: &[Block<'_>],
        slot: usize,
        at: &'static Location<'static>,
    ) -> Site {
        let block = &blocks[slot / self.block_threads];
        let thread = (slot % self.block_threads) as u64;
        Site { block: block.index, thread: coordinates(thread, block.launch.block), at }
    }

    /// Checks and records an access to the shared memory of a block by threads from slot `first` on.
    pub(super) fn access(
        &mut self,
        blocks: &[Block<'_>],
        act: Act,
        (rank, offset, bytes): (usize, usize, usize),
        (first, count): (usize, usize),
        stamp: Stamp,
    ) -> Result<(), EmulationError> {
        if !self.checked {
            return Ok(());
        }
        let who = Knowledge::of(&self.clocks[first..first + count], self.waits.len());
        let found = self.cells[rank].access(act, (offset, bytes), &who, stamp);
        found.map_err(|hazard| {
            let at = self.sites.at(stamp.site);
            self.hazard(blocks, act, hazard, self.site(blocks, first, at))
        })
    }

    /// Checks and records an access of a thread to a buffer of the launch that is watched.
    pub(super) fn watch_global(
        &self,
        blocks: &[Block<'_>],
        slot: usize,
        place: (usize, usize, usize),
        kind: AccessKind,
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        let clock = &self.clocks[slot];
        let cluster = blocks[0].linear / blocks.len() as u64;
        let who = Who { cluster, thread: slot, epoch: clock.time(component_of(slot)), at };
        let ordered = |thread: usize, time: u32| clock.time(component_of(thread)) >= time;
        let block = &blocks[slot / self.block_threads];
        watch(block, place, kind, (&who, || self.site(blocks, slot, at)), ordered)
    }

    /// The error of a hazard that an access met.
    pub(super) fn hazard(
        &self,
        blocks: &[Block<'_>],
        act: Act,
        hazard: Hazard,
        site: Site,
    ) -> EmulationError {
        let kind = match act {
            Act::Read | Act::AsyncRead => AccessKind::Read,
            Act::Write | Act::AsyncWrite => AccessKind::Write,
        };
        let access = Access { kind, site };
        let before = |kind, stamp| Access { kind, site: self.site_of(blocks, stamp) };
        let is_thread = |stamp: Stamp| usize::from(stamp.component) < self.threads();
        let plain = matches!(act, Act::Read | Act::Write);
        match hazard {
            Hazard::Uninitialised { byte } => {
                EmulationError::Uninitialised { access, offset: byte }
            }
            Hazard::Reserved { byte } => {
                EmulationError::NotSet { site, offset: byte, reason: "with an access to memory" }
            }
            Hazard::Pending { byte, copy } => EmulationError::PendingCopy {
                access,
                copy: self.site_of(blocks, copy),
                offset: byte,
            },
            Hazard::AfterWrite { byte, write } if is_thread(write) => {
                let first = before(AccessKind::Write, write);
                EmulationError::Race { first, second: access, offset: byte }
            }
            Hazard::AfterWrite { byte, write } => {
                let copy = self.site_of(blocks, write);
                EmulationError::PendingCopy { access, copy, offset: byte }
            }
            Hazard::AfterRead { byte, read } if is_thread(read) && plain => {
                let first = before(AccessKind::Read, read);
                EmulationError::Race { first, second: access, offset: byte }
            }
            Hazard::AfterRead { byte, read } => {
                EmulationError::Overwrite { access, read: self.site_of(blocks, read), offset: byte }
            }
            Hazard::Fence { byte, earlier, wrote } => {
                let kind = if wrote { AccessKind::Write } else { AccessKind::Read };
                let first = before(kind, earlier);
                EmulationError::MissingProxyFence { first, second: access, offset: byte }
            }
        }
    }

    /// All threads of a block have come to its barrier.
    pub(super) fn meet_block(&mut self, rank: usize) {
        let slots = rank * self.block_threads..(rank + 1) * self.block_threads;
        self.meet(slots);
    }

    /// Each of these threads learns what all of them know.
    pub(super) fn meet(&mut self, slots: std::ops::Range<usize>) {
        let mut all = self.clocks[slots.start].clone();
        for slot in slots.clone() {
            all.join(&self.clocks[slot]);
        }
        for slot in slots {
            self.clocks[slot].become_like(&all);
            self.tick(slot);
        }
    }

    /// Threads that have not ended.
    pub(super) fn running(&self) -> usize {
        self.ended.iter().filter(|&&ended| !ended).count()
    }

    pub(super) fn has_thread_ended(&self, slot: usize) -> bool {
        self.ended[slot]
    }

    pub(super) fn has_ended(&self, rank: usize) -> bool {
        self.ended[rank * self.block_threads..][..self.block_threads].iter().all(|&ended| ended)
    }

    /// A thread has ended.
    pub(super) fn end(&mut self, blocks: &[Block<'_>], slot: usize) -> Result<(), EmulationError> {
        self.ended[slot] = true;
        if !self.checked {
            self.open_gate(None);
            return Ok(());
        }
        if let Some(at) = self.stores[slot].unread() {
            return Err(EmulationError::StoreAtExit { site: self.site(blocks, slot, at) });
        }
        self.end_products(blocks, slot)?;
        let rank = slot / self.block_threads;
        if self.has_ended(rank) {
            self.outlived(blocks, rank)?;
        }
        self.open_gate(None);
        Ok(())
    }

    /// Why nobody goes on, in words.
    pub(super) fn deadlock(&self, blocks: &[Block<'_>]) -> EmulationError {
        let mut text = String::new();
        for Waiting { site, threads, what } in self.waiting(blocks) {
            if !text.is_empty() {
                text.push_str("; ");
            }
            let others = match threads - 1 {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            // Writing to a string does not fail.
            let _ = write!(text, "{site}{others} waits for {what}");
        }
        EmulationError::Deadlock { waits: text }
    }

    /// Who waits, those together that wait for the same at the same line.
    fn waiting(&self, blocks: &[Block<'_>]) -> Vec<Waiting> {
        let mut waits: Vec<(Wait, usize, usize)> = Vec::new();
        for (slot, wait) in self.waits.iter().enumerate() {
            let Some(wait) = wait else { continue };
            match waits
                .iter_mut()
                .find(|(known, ..)| known.what == wait.what && known.at == wait.at)
            {
                Some((_, _, threads)) => *threads += 1,
                None => waits.push((*wait, slot, 1)),
            }
        }
        let waiting = |(wait, slot, threads): (Wait, usize, usize)| Waiting {
            site: self.site(blocks, slot, wait.at),
            threads,
            what: self.describe(wait.what),
        };
        waits.into_iter().map(waiting).collect()
    }

    /// What the cluster is at.
    pub(super) fn scene(&self, blocks: &[Block<'_>]) -> Scene {
        let waits_for = |index: usize| {
            let of = |wait: &&Wait| matches!(wait.what, What::Phases(of, _) if of == index);
            self.waits.iter().flatten().filter(of).count()
        };
        let state = |(index, barrier): (usize, &Barrier)| BarrierState {
            block: blocks[barrier.rank].index,
            offset: barrier.offset,
            at: barrier.at,
            phase: barrier.phase,
            count: barrier.count,
            pending: barrier.pending,
            bytes: barrier.bytes,
            waiting: waits_for(index),
        };
        let barriers = self.barriers.iter().enumerate().map(state).collect();
        Scene { barriers, waits: self.waiting(blocks) }
    }

    fn describe(&self, what: What) -> String {
        match what {
            What::Phases(barrier, phases) => {
                let barrier = &self.barriers[barrier];
                let Barrier { offset, rank, phase, pending, bytes, at, .. } = barrier;
                format!(
                    "phase {} of the barrier at byte {offset} of block {rank} of the cluster, set at {}:{}: in phase \
                     {phase} {pending} arrivals and {bytes} bytes are lacking",
                    phases - 1,
                    at.file(),
                    at.line()
                )
            }
            What::Named(named) => {
                let named = &self.named[named];
                let Named { id, arrived, threads, .. } = named;
                format!("named barrier {id}, where {arrived} threads of {threads} are")
            }
            What::Products(_, groups) => {
                format!("group {} of its warpgroup's products", groups - 1)
            }
            What::Stores(groups) => format!("group {} of its own stores", groups - 1),
            What::Cluster => {
                let (arrived, all) = (self.remote.arrived(), self.running());
                format!("barrier.cluster, where {arrived} threads of {all} are")
            }
            What::Registers => "registers, of which the block's pool has too few".to_owned(),
        }
    }
}

thread_local! {
    /// Clocks of ended clusters, for the next one.
    static SPARE: RefCell<Vec<Clock>> = const { RefCell::new(Vec::new()) };
}

/// The clocks of threads that nobody has told anything, with room for that many components.
fn fresh_clocks(threads: usize, length: usize) -> Vec<Clock> {
    let mut clocks = SPARE.take();
    clocks.resize_with(threads, Clock::default);
    for (slot, clock) in clocks.iter_mut().enumerate() {
        clock.seen.clear();
        clock.seen.resize(length, 0);
        clock.bridged.clear();
        clock.over.clear();
        clock.seen[slot] = 1;
    }
    clocks
}

impl Drop for State {
    fn drop(&mut self) {
        let clocks = std::mem::take(&mut self.clocks);
        // A thread that ends has no place for them any more.
        let _ = SPARE.try_with(|spare| spare.replace(clocks));
    }
}

/// The component of a thread.
pub(super) fn component_of(slot: usize) -> Component {
    Component::try_from(slot).expect("invariant: a cluster has at most 16 blocks of 1024 threads")
}

impl Thread<'_> {
    /// Calls with the state of the cluster, and ends the launch where that fails. An instruction that the launch lacks
    /// does nothing.
    #[track_caller]
    pub(super) fn act<R: Default>(
        &self,
        instruction: &'static str,
        call: impl FnOnce(&mut State, &'static Location<'static>) -> Result<R, EmulationError>,
    ) -> R {
        let at = Location::caller();
        if self.drops(instruction, at) {
            return R::default();
        }
        match self.cluster.with(|state| call(state, at)) {
            Some(Ok(result)) => result,
            Some(Err(error)) => self.stop(error),
            None => self.stop(EmulationError::NotEmulated { site: self.site(at), instruction }),
        }
    }

    /// Waits for something that another thread, a copy or a product lets happen.
    #[track_caller]
    pub(super) fn wait_for(&self, what: What) {
        let wait = Wait { what, at: Location::caller() };
        self.cluster.with(|state| state.waits[self.slot()] = Some(wait));
        self.suspend(Pause::Wait);
    }
}
