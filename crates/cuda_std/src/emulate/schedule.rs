//! The order in which the threads of a cluster, its copies and its products take their turns.

use std::collections::VecDeque;
use std::panic::Location;

use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::cluster::Cluster;
use super::stack::Stack;
use super::warp::{self, Lane};
use super::{
    Block, CURRENT, Copies, EmulationError, GlobalShadow, Launch, Observer, Order, Pause,
    SharedMemory, SharedShadow, Site, Thread, coordinates,
};

/// Numbers that look random, the same each time.
struct Dice(u64);

impl Dice {
    fn new(seed: u64, cluster: u64) -> Self {
        Self((seed ^ cluster.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 33) % end as u64).unwrap_or_default()
    }
}

/// Runs the blocks of cluster number `cluster`, to the end or to a fault.
pub(super) fn run_cluster(
    launch: &Launch,
    observer: Option<&dyn Observer>,
    cluster_number: u64,
    global: &GlobalShadow,
    kernel: &(dyn Fn() + Sync),
) -> Result<(), EmulationError> {
    // SAFETY: only the lifetime changes. Coroutines ask for 'static closures, but every coroutine
    // that holds this reference has ended or is dropped before this function returns.
    let kernel: &'static (dyn Fn() + Sync) = unsafe { std::mem::transmute(kernel) };
    let size = launch.cluster.max(1);
    let cluster = Cluster::new(launch, size as usize);
    let plain = launch.checked && !launch.asynchronous;
    let blocks: Vec<Block<'_>> = (0..size)
        .map(|rank| {
            let linear = cluster_number * u64::from(size) + u64::from(rank);
            Block {
                index: coordinates(linear, launch.grid),
                linear,
                rank: rank as usize,
                launch,
                observer,
                shared: SharedMemory::new(launch.shared_bytes),
                shadow: SharedShadow::new(if plain { launch.shared_bytes } else { 0 }).into(),
                global,
                epoch: 1.into(),
                fault: None.into(),
                unwritten: None.into(),
            }
        })
        .collect();
    let (bx, by, bz) = launch.block;
    let threads: Vec<Thread<'_>> = blocks
        .iter()
        .flat_map(|block| (0..bx * by * bz).map(move |linear| (block, linear)))
        .map(|(block, linear)| Thread {
            thread_idx: coordinates(u64::from(linear), launch.block),
            block_idx: block.index,
            block_dim: launch.block,
            grid_dim: launch.grid,
            linear,
            block,
            blocks: &blocks,
            cluster: &cluster,
            yielder: std::ptr::null::<Yielder<(), Pause>>().into(),
            barriers: 0.into(),
            lane: Lane::default(),
            copies: Copies::default(),
        })
        .collect();
    let mut coroutines = Vec::with_capacity(threads.len());
    for _ in &threads {
        let stack = Stack::take().map_err(|error| EmulationError::Stack {
            threads: threads.len(),
            reason: error.to_string(),
        })?;
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), Pause>, ()| {
            super::current().yielder.set(yielder);
            kernel();
        });
        coroutines.push(Some(coroutine));
    }
    let schedule = Schedule {
        block_threads: threads.len() / blocks.len(),
        cluster: &cluster,
        blocks: &blocks,
        threads: &threads,
        coroutines,
        ready: (0..threads.len()).collect(),
        barriers: blocks.iter().map(|_| AtBarrier::default()).collect(),
        in_warps: Vec::new(),
        met: Vec::new(),
        order: launch.order,
        dice: Dice::new(launch.order.seed(), cluster_number),
    };
    let outer = CURRENT.get();
    let result = schedule.run();
    CURRENT.set(outer);
    result
}

/// The threads of a block that wait at its barrier, and those that have ended.
#[derive(Default)]
struct AtBarrier {
    waiting: Vec<(usize, &'static Location<'static>)>,
    ended: usize,
    /// The first of them.
    first_ended: Option<usize>,
}

type Running = Coroutine<(), Pause, (), Stack>;

/// What runs, and what waits.
struct Schedule<'a> {
    block_threads: usize,
    cluster: &'a Cluster,
    blocks: &'a [Block<'a>],
    threads: &'a [Thread<'a>],
    coroutines: Vec<Option<Running>>,
    ready: VecDeque<usize>,
    barriers: Vec<AtBarrier>,
    /// Threads that wait for other lanes.
    in_warps: Vec<usize>,
    /// Room for the lanes that have met.
    met: Vec<usize>,
    order: Order,
    dice: Dice,
}

impl Schedule<'_> {
    fn run(mut self) -> Result<(), EmulationError> {
        let result = self.run_to_the_end();
        if result.is_err() {
            if let Some(observer) = self.blocks[0].observer {
                let blocks = self.blocks;
                self.cluster.with(|state| observer.stopped(&state.scene(blocks)));
            }
            // Each is dropped while its thread is the current one: its stack unwinds.
            for (thread, coroutine) in self.threads.iter().zip(&mut self.coroutines) {
                if coroutine.is_some() {
                    CURRENT.set(std::ptr::from_ref(thread).cast());
                    drop(coroutine.take());
                }
            }
        }
        result
    }

    fn run_to_the_end(&mut self) -> Result<(), EmulationError> {
        loop {
            while let Some(slot) = self.next() {
                self.resume(slot)?;
                if matches!(self.order, Order::Random(_)) && self.dice.below(2) == 0 {
                    self.go_on_meanwhile()?;
                }
                self.collect();
            }
            if !self.in_warps.is_empty() {
                let met = warp::meet(&mut self.in_warps, self.threads, self.block_threads);
                match met {
                    Ok(met) => {
                        self.ready.extend(met);
                        continue;
                    }
                    // Others may come once something has ended.
                    Err(_) if self.go_on_meanwhile()? => {
                        self.collect();
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            if self.go_on_meanwhile()? {
                self.collect();
                continue;
            }
            return self.ended_or_stuck();
        }
    }

    /// The thread whose turn it is.
    fn next(&mut self) -> Option<usize> {
        let place = match self.order {
            Order::Late | Order::Early => return self.ready.pop_front(),
            Order::Starve(starved) => {
                let fed = |slot: &usize| *slot / 128 != starved as usize;
                self.ready.iter().position(fed).unwrap_or(0)
            }
            Order::Random(_) if self.ready.is_empty() => 0,
            Order::Random(_) => self.dice.below(self.ready.len()),
        };
        self.ready.remove(place)
    }

    /// Takes over those that others have let go on.
    fn collect(&mut self) {
        let ready = &mut self.ready;
        self.cluster.with(|state| {
            if !state.woken.is_empty() {
                ready.extend(state.woken.drain(..));
            }
        });
    }

    /// Ends one thing that is under way: a group of products, a copy or a group of stores; false where there is none.
    fn go_on_meanwhile(&mut self) -> Result<bool, EmulationError> {
        let blocks = self.blocks;
        let first = match self.order {
            Order::Random(_) => self.dice.below(3),
            Order::Late | Order::Early | Order::Starve(_) => 0,
        };
        let one = self.cluster.with(|state| {
            for kind in 0..3 {
                let did = match (first + kind) % 3 {
                    0 => state.carry_out_one(blocks),
                    1 => state.land_one(blocks)?,
                    _ => state.read_one(blocks)?,
                };
                if did {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        one.unwrap_or(Ok(false))
    }

    /// Lets a thread run until it waits.
    fn resume(&mut self, slot: usize) -> Result<(), EmulationError> {
        let thread = &self.threads[slot];
        let rank = thread.block.rank;
        CURRENT.set(std::ptr::from_ref(thread).cast());
        let Some(coroutine) = &mut self.coroutines[slot] else { return Ok(()) };
        match coroutine.resume(()) {
            CoroutineResult::Yield(Pause::Barrier(at)) => {
                self.barriers[rank].waiting.push((slot, at));
                if self.barriers[rank].waiting.len() == self.block_threads {
                    self.pass_barrier(rank)?;
                }
            }
            CoroutineResult::Yield(Pause::Warp) => {
                self.in_warps.push(slot);
                self.meet_warp(slot);
            }
            CoroutineResult::Yield(Pause::Wait) => {}
            CoroutineResult::Yield(Pause::Fault) => {
                let fault = thread.block.fault.take();
                return Err(fault.expect("invariant: a thread that stops leaves its reason"));
            }
            CoroutineResult::Return(()) => {
                let barrier = &mut self.barriers[rank];
                barrier.ended += 1;
                barrier.first_ended.get_or_insert(slot);
                if let Some(coroutine) = self.coroutines[slot].take() {
                    coroutine.into_stack().keep();
                }
                if let Some(at) = thread.copies.under_way().filter(|_| thread.block.launch.checked)
                {
                    return Err(EmulationError::CopyAtExit { site: self.site(slot, at) });
                }
                let blocks = self.blocks;
                self.cluster.with(|state| state.end(blocks, slot)).unwrap_or(Ok(()))?;
            }
        }
        Ok(())
    }

    /// Lets the lanes that a thread of a warp waits for go on with it, before others, where it is the last of them and
    /// all are here: their stacks are in the caches.
    fn meet_warp(&mut self, slot: usize) {
        if !self.threads[slot].waits_as_last_lane() {
            return;
        }
        let mut lanes = std::mem::take(&mut self.met);
        if warp::together(slot, self.threads, self.block_threads, &mut lanes) {
            let (first, last) = (lanes[0], lanes[lanes.len() - 1]);
            self.in_warps.retain(|slot| {
                !(first..=last).contains(slot) || self.threads[*slot].waits_for_lanes()
            });
            for &lane in lanes.iter().rev() {
                self.ready.push_front(lane);
            }
        }
        lanes.clear();
        self.met = lanes;
    }

    /// All threads of a block are at its barrier.
    fn pass_barrier(&mut self, rank: usize) -> Result<(), EmulationError> {
        let block = &self.blocks[rank];
        let mut waiting = std::mem::take(&mut self.barriers[rank].waiting);
        if let Some(unwritten) = block.unwritten.take() {
            return Err(unwritten);
        }
        let (first, at) = waiting[0];
        if block.launch.checked
            && let Some(&(other, elsewhere)) = waiting.iter().find(|(_, other)| *other != at)
        {
            let (first, second) = (self.site(first, at), self.site(other, elsewhere));
            return Err(EmulationError::DifferentBarriers { first, second });
        }
        block.epoch.set(block.epoch.get() + 1);
        self.cluster.with(|state| state.meet_block(rank));
        // Warps, and what they wait for, may have let some overtake others.
        waiting.sort_unstable();
        self.ready.extend(waiting.into_iter().map(|(slot, _)| slot));
        Ok(())
    }

    fn site(&self, slot: usize, at: &'static Location<'static>) -> Site {
        let Thread { thread_idx: thread, block_idx: block, .. } = self.threads[slot];
        Site { block, thread, at }
    }

    /// Nobody can go on, and nothing is under way.
    fn ended_or_stuck(&self) -> Result<(), EmulationError> {
        for block in self.blocks {
            if let Some(unwritten) = block.unwritten.take() {
                return Err(unwritten);
            }
        }
        for barrier in &self.barriers {
            let Some(&(first, at)) = barrier.waiting.first() else { continue };
            if let Some(ended) = barrier.first_ended {
                return Err(EmulationError::BarrierDivergence {
                    waits: self.site(first, at),
                    ended: self.threads[ended].thread_idx,
                    waiting: barrier.waiting.len(),
                    finished: barrier.ended,
                });
            }
        }
        if self.coroutines.iter().all(Option::is_none) {
            return Ok(());
        }
        let blocks = self.blocks;
        let stuck = self.cluster.with(|state| state.deadlock(blocks));
        Err(stuck.expect("invariant: threads that wait for neither a barrier nor a warp wait here"))
    }
}
