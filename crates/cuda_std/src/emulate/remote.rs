//! What the blocks of a cluster do to each other's shared memory, and the barrier at which they meet.
//!
//! A barrier that all threads release to makes visible what they wrote. An arrival that releases nothing, at
//! this barrier or at the `mbarrier` of another block, only says what is over: reads, and copies that have
//! landed. Memory that was read may be overwritten after it; what was written may not be read.

use std::panic::Location;

use super::cells::Act;
use super::cluster::State;
use super::mbarrier::inside;
use super::parts::{Gate, RemoteAct, RemoteKind, What};
use super::{Access, AccessKind, Block, EmulationError, Site, WINDOW_BASE, current};

/// Bits of an address in the shared window of the cluster that are those of its block's window.
const WINDOW_BITS: u32 = 24;
/// Bytes that a read takes.
const QUAD: usize = 16;

/// The block and the offset of an address in the shared window of the cluster.
fn place(
    blocks: &[Block<'_>],
    (own, site): (usize, Site),
    address: u32,
) -> Result<(usize, u32), EmulationError> {
    let offset = (address & ((1 << WINDOW_BITS) - 1)).wrapping_sub(WINDOW_BASE);
    let rank = (address >> WINDOW_BITS).checked_sub(1).map_or(own, |rank| rank as usize);
    if rank < blocks.len() {
        return Ok((rank, offset));
    }
    Err(EmulationError::Operand {
        site,
        instruction: "shared::cluster",
        reason: format!(
            "an address in the window of block {rank} of the cluster, which has {}",
            blocks.len()
        ),
    })
}

impl State {
    /// A thread comes to the barrier of the cluster, and releases what it has done; whether it has to wait.
    fn arrive_at_gate(&mut self, slot: usize, releases: bool) -> bool {
        let Gate { clock, arrived } = &mut self.remote.gate;
        if releases {
            clock.join(&self.clocks[slot]);
        } else {
            clock.join_over(&self.clocks[slot]);
        }
        *arrived += 1;
        self.tick(slot);
        !self.open_gate(Some(slot))
    }

    /// Opens the gate if all threads that have not ended are there; `last` is one that does not wait.
    pub(super) fn open_gate(&mut self, last: Option<usize>) -> bool {
        let running = self.running();
        if self.remote.gate.arrived < running || self.remote.gate.arrived == 0 {
            return false;
        }
        self.remote.gate.arrived = 0;
        for slot in 0..self.threads() {
            if !self.has_thread_ended(slot) {
                self.clocks[slot].join(&self.remote.gate.clock);
                if last != Some(slot) {
                    self.wake(slot);
                }
            }
        }
        true
    }

    /// Refuses what a thread does to the memory of a block that has ended.
    pub(super) fn alive(
        &self,
        blocks: &[Block<'_>],
        (slot, target): (usize, usize),
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        if self.has_ended(target) {
            let (site, block) = (self.site(blocks, slot, at), blocks[target].index);
            return Err(EmulationError::AfterExit { site, block });
        }
        Ok(())
    }

    /// Remembers what a thread did to the memory of another block, which must not end before it is over.
    fn remember(&mut self, slot: usize, act: RemoteAct) {
        if slot / self.block_threads == act.target {
            return;
        }
        let acts = &mut self.remote.acts[slot];
        match acts.iter_mut().find(|before| before.is_covered_by(&act)) {
            Some(before) => *before = act,
            None => acts.push(act),
        }
    }

    /// A block has ended: what others did to its memory must be known to be over.
    pub(super) fn outlived(&self, blocks: &[Block<'_>], rank: usize) -> Result<(), EmulationError> {
        let own = rank * self.block_threads..(rank + 1) * self.block_threads;
        let (block, clocks) = (blocks[rank].index, &self.clocks[own]);
        for act in self.remote.acts.iter().flatten().filter(|act| act.target == rank) {
            if !clocks.iter().any(|clock| act.is_over(clock)) {
                let site = self.site_of(blocks, act.stamp);
                return Err(EmulationError::AfterExit { site, block });
            }
        }
        if let Some(landing) = self.landings.iter().find(|landing| landing.rank == rank) {
            let site = self.site(blocks, landing.slot, landing.at);
            return Err(EmulationError::AfterExit { site, block });
        }
        Ok(())
    }

    /// A thread arrives at a barrier of any block, and releases nothing.
    fn arrive_in_cluster(
        &mut self,
        blocks: &[Block<'_>],
        (slot, place): (usize, (usize, u32)),
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        self.alive(blocks, (slot, place.0), at)?;
        let index = self.acting_on(blocks, slot, place, at)?;
        let (component, phase) = (self.barriers[index].component, self.barriers[index].phase);
        let stamp = self.stamp(slot, at);
        let kind = RemoteKind::Arrival(component, phase + 1);
        self.remember(slot, RemoteAct { target: place.0, kind, stamp });
        self.arrive(blocks, slot, (index, 0, false), at)
    }

    /// Reads sixteen bytes of the memory of any block.
    fn read_quad(
        &mut self,
        blocks: &[Block<'_>],
        (slot, address): (usize, u32),
        at: &'static Location<'static>,
    ) -> Result<[u32; 4], EmulationError> {
        let site = self.site(blocks, slot, at);
        let (rank, offset) = place(blocks, (slot / self.block_threads, site), address)?;
        let offset = inside(blocks, (site, AccessKind::Read), offset, QUAD)?;
        if !offset.is_multiple_of(QUAD) {
            let access = Access { kind: AccessKind::Read, site };
            return Err(EmulationError::Misaligned { access, align: QUAD });
        }
        self.alive(blocks, (slot, rank), at)?;
        let stamp = self.stamp(slot, at);
        self.access(blocks, Act::Read, (rank, offset, QUAD), (slot, 1), stamp)?;
        self.remember(slot, RemoteAct { target: rank, kind: RemoteKind::Read, stamp });
        let from = blocks[rank].shared.base.wrapping_add(offset).cast::<[u32; 4]>();
        // SAFETY: 16 bytes at a multiple of 16 of the shared memory of a block that has not ended, as was found
        // above; the memory begins at a multiple of more, and lasts as long as the cluster.
        Ok(unsafe { from.read() })
    }
}

#[track_caller]
pub(crate) fn cluster_rank() -> u32 {
    u32::try_from(current().block.rank).expect("invariant: a cluster has at most 16 blocks")
}

#[track_caller]
pub(crate) fn cluster_size() -> u32 {
    u32::try_from(current().blocks.len()).expect("invariant: a cluster has at most 16 blocks")
}

/// Waits at the barrier of the cluster, having released to it what this thread did before, or nothing.
#[track_caller]
pub(crate) fn cluster_sync(releases: bool) {
    let thread = current();
    let of = ("barrier.cluster", Location::caller());
    let [releases] = thread.altered_words(of, [u32::from(releases)]);
    let waits = thread.act(of.0, |state, _| Ok(state.arrive_at_gate(thread.slot(), releases == 1)));
    if waits {
        thread.wait_for(What::Cluster);
    }
}

/// The address of a place in the memory of another block of the cluster.
#[track_caller]
pub(crate) fn place_in(address: u32, rank: u32) -> u32 {
    let thread = current();
    let of = ("mapa.shared::cluster", Location::caller());
    let [address, rank] = thread.altered_words(of, [address, rank]);
    thread.act(of.0, |_, at| {
        if (rank as usize) < thread.blocks.len() {
            return Ok(address & ((1 << WINDOW_BITS) - 1) | (rank + 1) << WINDOW_BITS);
        }
        Err(EmulationError::Operand {
            site: thread.site(at),
            instruction: "mapa.shared::cluster",
            reason: format!("rank {rank} in a cluster of {}", thread.blocks.len()),
        })
    })
}

/// Arrives at a barrier of any block of the cluster, and releases nothing.
#[track_caller]
pub(crate) fn cluster_arrive(address: u32) {
    let thread = current();
    let of = ("mbarrier.arrive.shared::cluster", Location::caller());
    let [address] = thread.altered_words(of, [address]);
    thread.act(of.0, |state, at| {
        let (slot, own) = (thread.slot(), thread.block.rank);
        let place = place(thread.blocks, (own, thread.site(at)), address)?;
        state.arrive_in_cluster(thread.blocks, (slot, place), at)
    });
}

/// Reads four words of the shared memory of any block of the cluster.
#[track_caller]
pub(crate) fn read_cluster(address: u32) -> [u32; 4] {
    let thread = current();
    let of = ("ld.shared::cluster", Location::caller());
    let [address] = thread.altered_words(of, [address]);
    thread.act(of.0, |state, at| state.read_quad(thread.blocks, (thread.slot(), address), at))
}
