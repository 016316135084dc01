//! `mbarrier`: phases of arrivals and bytes.

use std::panic::Location;

use super::cells::Act;
use super::clock::{Clock, Component};
use super::cluster::State;
use super::parts::{Barrier, What};
use super::{Access, AccessKind, Block, EmulationError, Site, WINDOW_BASE, current};

/// Most arrivals, and most bytes, of a phase.
const MOST: u32 = (1 << 20) - 1;
/// Bytes of a barrier.
const BYTES: usize = 8;

/// The offset in its block's shared memory of an address in the shared window of the block.
pub(super) fn own(address: u32) -> u32 {
    address.wrapping_sub(WINDOW_BASE)
}

impl State {
    /// The barrier at a place, which that thread may use.
    fn barrier(
        &self,
        blocks: &[Block<'_>],
        slot: usize,
        (rank, offset): (usize, u32),
        at: &'static Location<'static>,
    ) -> Result<usize, EmulationError> {
        let found = self
            .barriers
            .iter()
            .position(|barrier| (barrier.rank, barrier.offset) == (rank, offset as usize));
        let refuse = |reason| {
            let (site, offset) = (self.site(blocks, slot, at), offset as usize);
            EmulationError::NotSet { site, offset, reason }
        };
        let index = found.ok_or_else(|| refuse("which nobody has initialised"))?;
        let barrier = &self.barriers[index];
        if !self.clocks[slot].knows(barrier.set) {
            return Err(refuse("whose initialisation it does not come after"));
        }
        if rank != slot / self.block_threads && !barrier.fenced {
            return Err(refuse(
                "of another block, without fence.mbarrier_init behind its initialisation",
            ));
        }
        if self.strict.init && usize::from(barrier.set.component) != slot && !barrier.fenced {
            return Err(refuse(
                "of another thread, without fence.mbarrier_init behind its initialisation",
            ));
        }
        Ok(index)
    }

    /// Initialises a barrier.
    pub(super) fn set_barrier(
        &mut self,
        blocks: &[Block<'_>],
        slot: usize,
        (address, count): (u32, u32),
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        let rank = slot / self.block_threads;
        let site = self.site(blocks, slot, at);
        let offset = inside(blocks, (site, AccessKind::Write), own(address), BYTES)?;
        let refuse = |reason| EmulationError::NotSet { site, offset, reason };
        if !offset.is_multiple_of(BYTES) {
            return Err(refuse("which is no multiple of 8"));
        }
        if count == 0 || count > MOST {
            return Err(refuse("with a count that is not from 1 to 2^20 - 1"));
        }
        if self.barriers.iter().any(|barrier| (barrier.rank, barrier.offset) == (rank, offset)) {
            return Err(refuse("which is in use, and initialises it again"));
        }
        let set = self.stamp(slot, at);
        self.access(blocks, Act::Write, (rank, offset, BYTES), (slot, 1), set)?;
        if self.checked {
            self.cells[rank].reserve((offset, BYTES));
        }
        let component = self.component();
        self.barriers.push(Barrier {
            component,
            rank,
            offset,
            count,
            pending: count,
            bytes: 0,
            phase: 0,
            set,
            at,
            fenced: false,
            open: Clock::default(),
            over: Default::default(),
            last: slot,
        });
        Ok(())
    }

    /// Makes a thread's initialisations visible to copies and other blocks.
    fn fence_barriers(&mut self, slot: usize) {
        for barrier in &mut self.barriers {
            barrier.fenced |= usize::from(barrier.set.component) == slot;
        }
    }

    /// The barrier in whose present phase a thread acts.
    pub(super) fn acting_on(
        &mut self,
        blocks: &[Block<'_>],
        slot: usize,
        place: (usize, u32),
        at: &'static Location<'static>,
    ) -> Result<usize, EmulationError> {
        let index = self.barrier(blocks, slot, place, at)?;
        let barrier = &self.barriers[index];
        // Who alone ends phases knows how many have ended.
        let alone = barrier.count == 1 && barrier.last == slot;
        if self.checked && !alone && self.clocks[slot].phases(barrier.component) < barrier.phase {
            return Err(EmulationError::PhaseUnknown {
                site: self.site(blocks, slot, at),
                object: format!("the barrier at byte {} of shared memory", barrier.offset),
                phase: barrier.phase,
            });
        }
        self.barriers[index].last = slot;
        Ok(index)
    }

    /// Refuses a copy at a barrier whose initialisation copies may not see.
    pub(super) fn visible_to_copies(&self, index: usize, site: Site) -> Result<(), EmulationError> {
        let Barrier { offset, fenced, .. } = self.barriers[index];
        if fenced {
            return Ok(());
        }
        let reason = "for a copy, without fence.mbarrier_init behind its initialisation";
        Err(EmulationError::NotSet { site, offset, reason })
    }

    /// A thread arrives, says how many bytes more the phase waits for, and releases what it has done, or nothing.
    pub(super) fn arrive(
        &mut self,
        blocks: &[Block<'_>],
        slot: usize,
        (index, bytes, releases): (usize, u32, bool),
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        let site = self.site(blocks, slot, at);
        let tells = self.tells(slot, index);
        let barrier = &mut self.barriers[index];
        barrier.bytes += i64::from(bytes);
        let Some(pending) = barrier.pending.checked_sub(1) else {
            let Barrier { offset, phase, .. } = *barrier;
            return Err(EmulationError::TooManyArrivals { site, offset, phase });
        };
        barrier.pending = pending;
        if releases && tells {
            barrier.open.join(&self.clocks[slot]);
        } else if tells {
            barrier.open.join_over(&self.clocks[slot]);
        }
        self.tick(slot);
        self.complete_phase(index, site)
    }

    /// Whether what a thread does at a barrier is in the scope of those who wait for it.
    pub(super) fn tells(&self, slot: usize, index: usize) -> bool {
        !self.strict.scopes || slot / self.block_threads == self.barriers[index].rank
    }

    /// Some bytes have been copied.
    pub(super) fn complete_bytes(
        &mut self,
        blocks: &[Block<'_>],
        index: usize,
        bytes: usize,
        site: (usize, &'static Location<'static>),
    ) -> Result<(), EmulationError> {
        let site = self.site(blocks, site.0, site.1);
        self.barriers[index].bytes -= bytes as i64;
        self.complete_phase(index, site)
    }

    /// Ends the phase if nothing is lacking.
    fn complete_phase(&mut self, index: usize, site: Site) -> Result<(), EmulationError> {
        let barrier = &mut self.barriers[index];
        let Barrier { offset, phase, bytes, pending, component, .. } = *barrier;
        let too_many = if pending == 0 { 0 } else { i64::from(MOST) };
        if bytes < -too_many || bytes > i64::from(MOST) {
            return Err(EmulationError::TooManyBytes { site, offset, phase, bytes: bytes.abs() });
        }
        if pending > 0 || bytes > 0 {
            return Ok(());
        }
        barrier.phase += 1;
        barrier.pending = barrier.count;
        let over = &mut barrier.over[(phase % 2) as usize];
        over.become_like(&barrier.open);
        over.see(component, phase + 1);
        self.wake_all(
            |what| matches!(what, What::Phases(of, phases) if of == index && phases <= phase + 1),
        );
        Ok(())
    }

    /// What a copy at a barrier tells of phases: those that its issuer knew to have ended.
    pub(super) fn tell_phases(&mut self, index: usize, known: &[(Component, u32)]) {
        for &(component, phases) in known {
            self.barriers[index].open.end_phases(component, phases);
        }
    }

    /// The phases of all barriers that a thread knows to have ended.
    pub(super) fn known_phases(&self, slot: usize) -> Vec<(Component, u32)> {
        let clock = &self.clocks[slot];
        let of = |barrier: &Barrier| (barrier.component, clock.phases(barrier.component));
        self.barriers.iter().map(of).filter(|known| known.1 > 0).collect()
    }

    /// The barrier and the number of phases that a thread waits for; none where it need not wait, and learns nothing.
    fn awaited(
        &self,
        blocks: &[Block<'_>],
        slot: usize,
        (place, parity): ((usize, u32), u32),
        at: &'static Location<'static>,
    ) -> Result<Option<(usize, u32)>, EmulationError> {
        let index = self.barrier(blocks, slot, place, at)?;
        let known = self.clocks[slot].time(self.barriers[index].component);
        // The phase after the last one that the thread knows of has that parity, or that one has.
        Ok((known % 2 == parity % 2).then_some((index, known + 1)))
    }

    /// Learns what the end of a phase tells.
    fn learn(
        &mut self,
        blocks: &[Block<'_>],
        slot: usize,
        (index, phases): (usize, u32),
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        let barrier = &self.barriers[index];
        if barrier.phase > phases {
            let (site, offset) = (self.site(blocks, slot, at), barrier.offset);
            return Err(EmulationError::PhaseOverrun { site, offset, phase: phases - 1 });
        }
        self.clocks[slot].join(&barrier.over[((phases - 1) % 2) as usize]);
        Ok(())
    }
}

/// An offset in a block's shared memory that has room for some bytes.
pub(super) fn inside(
    blocks: &[Block<'_>],
    (site, kind): (Site, AccessKind),
    offset: u32,
    bytes: usize,
) -> Result<usize, EmulationError> {
    let available = blocks[0].launch.shared_bytes;
    let at = offset as usize;
    if at + bytes <= available {
        return Ok(at);
    }
    let (access, offset) = (Access { kind, site }, i64::from(offset.cast_signed()));
    Err(EmulationError::SharedOutOfBounds { access, offset, bytes: available })
}

#[track_caller]
pub(crate) fn mbarrier_init(address: u32, arrivals: u32) {
    let thread = current();
    let of = ("mbarrier.init", Location::caller());
    let [address, arrivals] = thread.altered_words(of, [address, arrivals]);
    thread.act(of.0, |state, at| {
        state.set_barrier(thread.blocks, thread.slot(), (address, arrivals), at)
    });
}

#[track_caller]
pub(crate) fn fence_init() {
    let thread = current();
    thread.act("fence.mbarrier_init", |state, _| {
        state.fence_barriers(thread.slot());
        Ok(())
    });
}

/// Arrives at a barrier of the block, which expects `bytes` more in this phase.
#[track_caller]
pub(crate) fn mbarrier_arrive(address: u32, bytes: u32) {
    let thread = current();
    let of = ("mbarrier.arrive", Location::caller());
    let [address, bytes] = thread.altered_words(of, [address, bytes]);
    thread.act(of.0, |state, at| {
        let (slot, place) = (thread.slot(), (thread.block.rank, own(address)));
        let barrier = state.acting_on(thread.blocks, slot, place, at)?;
        state.arrive(thread.blocks, slot, (barrier, bytes, true), at)
    });
}

#[track_caller]
pub(crate) fn mbarrier_wait(address: u32, parity: u32) {
    let thread = current();
    let slot = thread.slot();
    let of = ("mbarrier.try_wait", Location::caller());
    let [address, parity] = thread.altered_words(of, [address, parity]);
    let place = (thread.block.rank, own(address));
    let awaited = thread.act("mbarrier.try_wait", |state, at| {
        state.awaited(thread.blocks, slot, (place, parity), at)
    });
    let Some((barrier, phases)) = awaited else { return };
    let over =
        thread.act("mbarrier.try_wait", |state, _| Ok(state.barriers[barrier].phase >= phases));
    if !over {
        thread.wait_for(What::Phases(barrier, phases));
    }
    thread.act("mbarrier.try_wait", |state, at| {
        state.learn(thread.blocks, slot, (barrier, phases), at)
    });
}
