//! Copies by TMA: from global to shared memory, which complete at an `mbarrier`, and from shared to global memory, in
//! groups.

use std::panic::Location;

use super::cells::Act;
use super::clock::Stamp;
use super::cluster::State;
use super::mbarrier::{inside, own};
use super::parts::{Landing, Source, Store, Stores, What};
use super::products::is_unwritten;
use super::tensor_map::{CHUNK, TensorMap};
use super::{Access, AccessKind, Block, EmulationError, Site, Thread, coordinates, current};

/// What a place holds to which a copy is on its way: numbers of no type.
const UNKNOWN: u8 = 0xff;

impl State {
    /// Starts a copy to one block: checks it, and makes its destination unknown.
    fn depart(
        &mut self,
        blocks: &[Block<'_>],
        (slot, source): (usize, Source),
        (to, barrier): ((usize, u32), (usize, u32)),
        bytes: usize,
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        let site = self.site(blocks, slot, at);
        let rank = to.0;
        let offset = inside(blocks, (site, AccessKind::Write), to.1, bytes)?;
        let barrier = self.acting_on(blocks, slot, barrier, at)?;
        self.visible_to_copies(barrier, site)?;
        let stamp = self.stamp(slot, at);
        let place = (rank, offset, bytes);
        if self.checked {
            self.access(blocks, Act::AsyncWrite, place, (slot, 1), stamp)?;
            self.cells[rank].depart((offset, bytes));
        }
        let base = blocks[rank].shared.base.wrapping_add(offset);
        // SAFETY: the bytes are within the block's shared memory, as `inside` has found.
        unsafe { base.write_bytes(UNKNOWN, bytes) };
        let known = if blocks.len() > 1 { self.known_phases(slot) } else { Vec::new() };
        let landing =
            Landing { source, rank, offset, bytes, barrier, slot, at, site: stamp.site, known };
        if self.early {
            return self.land(blocks, landing);
        }
        self.landings.push(landing);
        Ok(())
    }

    /// Moves the bytes of a copy.
    pub(super) fn land(
        &mut self,
        blocks: &[Block<'_>],
        landing: Landing,
    ) -> Result<(), EmulationError> {
        let Landing { source, rank, offset, bytes, barrier, slot, at, site, known } = landing;
        let base = blocks[rank].shared.base.wrapping_add(offset);
        match source {
            Source::Bytes(from) => {
                // SAFETY: the source is in a buffer of the launch, as was found when the copy was started, and
                // the destination in the block's shared memory.
                unsafe { base.copy_from_nonoverlapping(from, bytes) };
            }
            Source::Box(map, place) => {
                // SAFETY: the box is within the block's shared memory.
                unsafe { base.write_bytes(0, bytes) };
                for (line, first, count, from) in map.lines(place) {
                    let from: *const u8 = std::ptr::with_exposed_provenance(from);
                    let mut done = 0;
                    while done < count {
                        let at = line * map.line_bytes() + first + done;
                        let size = (CHUNK - at % CHUNK).min(count - done);
                        let to = base.wrapping_add(map.swizzled(at));
                        // SAFETY: the line is in the matrix, which is in a buffer of the launch; the chunk is in
                        // the box.
                        unsafe { to.copy_from_nonoverlapping(from.wrapping_add(done), size) };
                        done += size;
                    }
                }
            }
        }
        let of = &self.barriers[barrier];
        let stamp = Stamp { component: of.component, time: of.phase + 1, site };
        if self.checked {
            self.cells[rank].arrive((offset, bytes), stamp);
        }
        self.tell_phases(barrier, &known);
        self.complete_bytes(blocks, barrier, bytes, (slot, at))
    }

    /// Lands one copy, the newest at a barrier that somebody waits for; false where none is on its way.
    pub(super) fn land_one(&mut self, blocks: &[Block<'_>]) -> Result<bool, EmulationError> {
        let awaited = |landing: &Landing| {
            let barrier = landing.barrier;
            self.is_awaited(|what| matches!(what, What::Phases(of, _) if of == barrier))
        };
        let Some(newest) =
            self.landings.iter().rposition(awaited).or(self.landings.len().checked_sub(1))
        else {
            return Ok(false);
        };
        let landing = self.landings.remove(newest);
        self.land(blocks, landing)?;
        Ok(true)
    }

    /// Adds a store to a thread's open group.
    fn store(
        &mut self,
        blocks: &[Block<'_>],
        slot: usize,
        (map, place, from): (TensorMap, (u32, u32), u32),
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        let site = self.site(blocks, slot, at);
        let rank = slot / self.block_threads;
        let offset = inside(blocks, (site, AccessKind::Read), own(from), map.box_bytes())?;
        aligned(&map, site, from)?;
        let line = map.dims[0] * map.element_bytes as u64;
        let cut = i64::from(place.0.cast_signed()) + i64::from(map.box_dims[0])
            > map.dims[0].cast_signed();
        if cut && !line.is_multiple_of(CHUNK as u64) {
            return Err(EmulationError::StoreEdge { site, bytes: line });
        }
        let component = match self.stores[slot].component {
            Some(component) => component,
            None => self.component(),
        };
        let stores = &mut self.stores[slot];
        stores.component = Some(component);
        let time = stores.closed + 1;
        stores.open.push(Store { map, place, rank, offset, at });
        let stamp = Stamp { component, time, site: self.sites.number(at) };
        self.access(blocks, Act::AsyncRead, (rank, offset, map.box_bytes()), (slot, 1), stamp)
    }

    /// Closes a thread's open group.
    fn close_stores(&mut self, blocks: &[Block<'_>], slot: usize) -> Result<(), EmulationError> {
        let stores = &mut self.stores[slot];
        let group = std::mem::take(&mut stores.open);
        stores.groups.push_back(group);
        stores.closed += 1;
        if self.early { self.read_group(blocks, slot) } else { Ok(()) }
    }

    /// Moves the bytes of a thread's oldest group.
    pub(super) fn read_group(
        &mut self,
        blocks: &[Block<'_>],
        slot: usize,
    ) -> Result<(), EmulationError> {
        let group = self.stores[slot].groups.pop_front().unwrap_or_default();
        for store in group {
            let block = &blocks[store.rank];
            let base = block.shared.base.wrapping_add(store.offset);
            let site = self.site(blocks, slot, store.at);
            for (line, first, count, to) in store.map.lines(store.place) {
                if self.checked {
                    written(block, site, slot % self.block_threads, (to, count))?;
                }
                let to: *mut u8 = std::ptr::with_exposed_provenance_mut(to);
                let mut done = 0;
                while done < count {
                    let at = line * store.map.line_bytes() + first + done;
                    let size = (CHUNK - at % CHUNK).min(count - done);
                    let from = base.wrapping_add(store.map.swizzled(at));
                    if self.checked && store.map.element_bytes == size_of::<f32>() {
                        self.check_sums(site, from, size)?;
                    }
                    // SAFETY: the chunk is in the box, in the block's shared memory; the line is in the matrix,
                    // which is in a buffer of the launch that it may write.
                    unsafe { to.wrapping_add(done).copy_from_nonoverlapping(from, size) };
                    done += size;
                }
            }
        }
        let stores = &mut self.stores[slot];
        stores.read += 1;
        let read = stores.read;
        if self.waits[slot]
            .is_some_and(|wait| matches!(wait.what, What::Stores(groups) if groups <= read))
        {
            self.wake(slot);
        }
        Ok(())
    }

    /// Refuses to store what stands for a sum that there is not.
    fn check_sums(&self, site: Site, from: *const u8, bytes: usize) -> Result<(), EmulationError> {
        for word in 0..bytes / size_of::<u32>() {
            // SAFETY: a word of the chunk that is about to be stored, of elements of four bytes.
            let bits = unsafe { from.cast::<u32>().wrapping_add(word).read() };
            if is_unwritten(bits) {
                let product = self.product_of(bits);
                return Err(EmulationError::UnwrittenOperand { site, product });
            }
        }
        Ok(())
    }

    /// Reads a group of stores, one that somebody waits for if there is one; false where none is under way.
    pub(super) fn read_one(&mut self, blocks: &[Block<'_>]) -> Result<bool, EmulationError> {
        let under_way = |slot: &usize| !self.stores[*slot].groups.is_empty();
        let waits = |slot: &usize| {
            self.waits[*slot].is_some_and(|wait| matches!(wait.what, What::Stores(_)))
        };
        let mut slots = (0..self.threads()).filter(under_way);
        let Some(first) = slots.next() else { return Ok(false) };
        let awaited = std::iter::once(first).chain(slots).find(waits);
        self.read_group(blocks, awaited.unwrap_or(first))?;
        Ok(true)
    }
}

/// Refuses a box in shared memory whose place does not suit its arrangement.
fn aligned(map: &TensorMap, site: Site, address: u32) -> Result<(), EmulationError> {
    if (address as usize).is_multiple_of(map.alignment()) {
        return Ok(());
    }
    let access = Access { kind: AccessKind::Write, site };
    Err(EmulationError::Misaligned { access, align: map.alignment() })
}

/// Checks and records the write of a line of global memory.
fn written(
    block: &Block<'_>,
    site: Site,
    thread: usize,
    (address, bytes): (usize, usize),
) -> Result<(), EmulationError> {
    let access = Access { kind: AccessKind::Write, site };
    let buffers = &block.launch.buffers;
    let Some(buffer) = buffers.iter().find(|buffer| buffer.contains(address, bytes)) else {
        let nearest = buffers.iter().min_by_key(|buffer| buffer.distance(address));
        let (name, elements) =
            nearest.map_or(("no buffer", 0), |buffer| (buffer.name, buffer.bytes));
        let element = nearest.map_or(0, |buffer| buffer.element(address, 1));
        return Err(EmulationError::GlobalOutOfBounds { access, buffer: name, element, elements });
    };
    let (buffer, element) = (buffer.name, buffer.element(address, 1));
    if !buffers.iter().any(|known| known.writable && known.contains(address, bytes)) {
        return Err(EmulationError::ReadOnly { access, buffer, element });
    }
    let thread = u32::try_from(thread).expect("invariant: a block has at most 1024 threads");
    match block.global.write((address, bytes), (block.linear, thread), site.at, false) {
        None => Ok(()),
        Some(first) => {
            let site = Site {
                block: coordinates(first.block, block.launch.grid),
                thread: coordinates(u64::from(first.thread), block.launch.block),
                at: first.at,
            };
            let first = Access { kind: AccessKind::Write, site };
            Err(EmulationError::OverlappingWrites { first, second: access, buffer, element })
        }
    }
}

impl Thread<'_> {
    /// The map of a launch by its number, if it is one.
    fn map(
        &self,
        number: u64,
        accessed: bool,
        at: &'static Location<'static>,
    ) -> Result<TensorMap, EmulationError> {
        let launch = self.block.launch;
        let site = self.site(at);
        let refuse =
            |reason| EmulationError::Operand { site, instruction: "cp.async.bulk.tensor", reason };
        let map = usize::try_from(number).ok().and_then(|number| launch.maps.get(number));
        let map = *map.ok_or_else(|| refuse("an address that is no tensor map's".to_owned()))?;
        if let Some(fault) = map.fault() {
            return Err(refuse(fault));
        }
        if launch.checked && accessed {
            // The last line ends with its last element.
            let last = (map.dims[1] - 1) * map.pitch + map.dims[0] * map.element_bytes as u64;
            let bytes = usize::try_from(last).unwrap_or(usize::MAX);
            if !launch.buffers.iter().any(|buffer| buffer.contains(map.address, bytes)) {
                return Err(refuse(
                    "a tensor map of memory that no buffer of the launch has".to_owned(),
                ));
            }
        }
        Ok(map)
    }
}

/// The number of the map that is a parameter of the running entry.
#[track_caller]
pub(crate) fn map_of_parameter(parameter: u32) -> u64 {
    let _ = current();
    u64::from(parameter)
}

#[track_caller]
pub(crate) fn bulk_copy(to: u32, from: *const u8, bytes: u32, barrier: u32) {
    let thread = current();
    thread.act("cp.async.bulk", |state, at| {
        let site = thread.site(at);
        let rank = thread.block.rank;
        for (number, kind) in [
            (to as usize, AccessKind::Write),
            (from.addr(), AccessKind::Read),
            (bytes as usize, AccessKind::Read),
        ] {
            if !number.is_multiple_of(CHUNK) {
                return Err(EmulationError::Misaligned {
                    access: Access { kind, site },
                    align: CHUNK,
                });
            }
        }
        if thread.block.launch.checked {
            thread.global_access((from.addr(), bytes as usize), AccessKind::Read, at)?;
        }
        let places = ((rank, own(to)), (rank, own(barrier)));
        let source = Source::Bytes(from);
        state.depart(thread.blocks, (thread.slot(), source), places, bytes as usize, at)
    });
}

/// A copy of a box to this block, or to those whose bits are set.
#[track_caller]
pub(crate) fn tensor_load(
    to: u32,
    map: u64,
    (x, y): (u32, u32),
    barrier: u32,
    targets: Option<u16>,
) {
    let thread = current();
    thread.act("cp.async.bulk.tensor", |state, at| {
        let map = thread.map(map, true, at)?;
        aligned(&map, thread.site(at), to)?;
        let ranks = targets.map_or(1 << thread.block.rank, u32::from);
        if ranks >> thread.blocks.len() != 0 {
            return Err(EmulationError::Operand {
                site: thread.site(at),
                instruction: "cp.async.bulk.tensor",
                reason: format!(
                    "blocks {ranks:#b}, of which the cluster has {}",
                    thread.blocks.len()
                ),
            });
        }
        let (to, barrier) = (own(to), own(barrier));
        for rank in (0..thread.blocks.len()).filter(|rank| ranks >> rank & 1 != 0) {
            let slot = thread.slot();
            // It is over when it has landed, which must come before the block ends.
            state.alive(thread.blocks, (slot, rank), at)?;
            let source = Source::Box(map, (x, y));
            let places = ((rank, to), (rank, barrier));
            state.depart(thread.blocks, (slot, source), places, map.box_bytes(), at)?;
        }
        Ok(())
    });
}

#[track_caller]
pub(crate) fn tensor_store(map: u64, (x, y): (u32, u32), from: u32) {
    let thread = current();
    thread.act("cp.async.bulk.tensor", |state, at| {
        let map = thread.map(map, true, at)?;
        state.store(thread.blocks, thread.slot(), (map, (x, y), from), at)
    });
}

#[track_caller]
pub(crate) fn tensor_prefetch(map: u64) {
    let thread = current();
    thread.act("prefetch.tensormap", |_, at| thread.map(map, false, at).map(drop));
}

#[track_caller]
pub(crate) fn fence_proxy_async() {
    let thread = current();
    thread.act("fence.proxy.async", |state, _| {
        let slot = thread.slot();
        state.clocks[slot].fence();
        state.tick(slot);
        Ok(())
    });
}

#[track_caller]
pub(crate) fn commit_stores() {
    let thread = current();
    thread.act("cp.async.bulk.commit_group", |state, _| {
        state.close_stores(thread.blocks, thread.slot())
    });
}

#[track_caller]
pub(crate) fn wait_stores(pending: u32) {
    let thread = current();
    let slot = thread.slot();
    let groups = thread.act("cp.async.bulk.wait_group.read", |state, _| {
        let Stores { closed, read, .. } = state.stores[slot];
        let groups = closed.saturating_sub(pending);
        Ok(Some((groups, read >= groups)))
    });
    let Some((groups, over)) = groups else { return };
    if !over {
        thread.wait_for(What::Stores(groups));
    }
    thread.act("cp.async.bulk.wait_group.read", |state, _| {
        if let Some(component) = state.stores[slot].component {
            state.clocks[slot].see(component, groups);
        }
        Ok(())
    });
}
