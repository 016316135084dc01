//! Copies by TMA: from global to shared memory, which complete at an `mbarrier`, and from shared to global memory, in
//! groups.

use std::panic::Location;

use super::cells::Act;
use super::clock::Stamp;
use super::cluster::State;
use super::defect::low_word;
use super::mbarrier::{inside, own};
use super::parts::{Landing, Source, Store, Stores, What};
use super::products::is_unwritten;
use super::tensor_map::{CHUNK, TensorMap};
use super::{
    Access, AccessKind, Block, EmulationError, Site, Thread, buffer, check_place, current,
};
use crate::arch::sm90::tensor::Coords;

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
            if let Source::Box(map, place) = &source {
                self.cells[rank].tag_box(offset, map, *place);
            }
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
        // What nobody has written is not written by its copy, either.
        let mut unwritten = Vec::new();
        match source {
            Source::Bytes(from, missing) => {
                unwritten = missing;
                // SAFETY: the source is in a buffer of the launch, as was found when the copy was started, and
                // the destination in the block's shared memory.
                unsafe { base.copy_from_nonoverlapping(from, bytes) };
            }
            Source::Box(map, place) => {
                // SAFETY: the box is within the block's shared memory.
                unsafe { base.write_bytes(0, bytes) };
                for (line, first, count, from) in map.lines(place) {
                    let (from, missing) =
                        self.line(blocks, (slot, at), (from, count), AccessKind::Read)?;
                    let place = |byte| map.swizzled(line * map.line_bytes() + first + byte);
                    unwritten.extend(missing.into_iter().map(place));
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
            for word in unwritten {
                self.cells[rank].forget(offset + word);
            }
        }
        if self.tells(slot, barrier) {
            self.tell_phases(barrier, &known);
        }
        self.complete_bytes(blocks, barrier, bytes, (slot, at))
    }

    /// Where in memory a line of a matrix is that a copy or a store accesses, having checked and recorded it; and the
    /// words of it, from its beginning, that a copy reads and nobody has written.
    fn line(
        &self,
        blocks: &[Block<'_>],
        (slot, at): (usize, &'static Location<'static>),
        (address, bytes): (usize, usize),
        kind: AccessKind,
    ) -> Result<(usize, Vec<usize>), EmulationError> {
        let launch = blocks[0].launch;
        let mut missing = Vec::new();
        let found = buffer::find(&launch.buffers, address);
        if self.checked {
            let site = || self.site(blocks, slot, at);
            let number = check_place(launch, (found, address, bytes), kind, site)?;
            if launch.buffers[number].is_watched() {
                if kind == AccessKind::Read {
                    missing = launch.buffers[number].unwritten_words(address, bytes);
                }
                self.watch_global(blocks, slot, (number, address, bytes), kind, at)?;
            }
        }
        let address = found.map_or(address, |number| launch.buffers[number].in_memory(address));
        Ok((address, missing))
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
        (map, place, from): (TensorMap, Coords, u32),
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        let site = self.site(blocks, slot, at);
        let rank = slot / self.block_threads;
        let offset = inside(blocks, (site, AccessKind::Read), own(from), map.box_bytes())?;
        aligned(&map, site, from)?;
        let line = map.dims[0] * map.element_bytes as u64;
        let cut = i64::from(place.x.cast_signed()) + i64::from(map.box_dims[0])
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
            let base = blocks[store.rank].shared.base.wrapping_add(store.offset);
            let site = self.site(blocks, slot, store.at);
            for (line, first, count, to) in store.map.lines(store.place) {
                let (to, _) =
                    self.line(blocks, (slot, store.at), (to, count), AccessKind::Write)?;
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
        if launch.checked && accessed {
            // The last line ends with its last element.
            let last = (map.dims[1] - 1) * map.pitch
                + map.dims[0] * map.element_bytes as u64
                + map.matrices.map_or(0, |of| of.count.saturating_sub(1).saturating_mul(of.stride));
            let bytes = usize::try_from(last).unwrap_or(usize::MAX);
            if !launch.buffers.iter().any(|buffer| buffer.contains(map.address, bytes)) {
                return Err(refuse(
                    "a tensor map of memory that no buffer of the launch has".to_owned(),
                ));
            }
        }
        Ok(map)
    }

    /// Refuses a map that no device would take, and one of another rank than a copy's coordinates.
    fn accept(
        &self,
        map: &TensorMap,
        coords: Option<Coords>,
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        let ranks = coords.map(|coords| (coords.z.is_some(), map.matrices.is_some()));
        let rank = |is_batch: bool| if is_batch { 3 } else { 2 };
        let misfit = ranks.filter(|(copy, map)| copy != map).map(|(copy, map)| {
            format!("a tensor map of rank {} for a copy of rank {}", rank(map), rank(copy))
        });
        misfit.or_else(|| map.fault()).map_or(Ok(()), |reason| {
            let site = self.site(at);
            Err(EmulationError::Operand { site, instruction: "cp.async.bulk.tensor", reason })
        })
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
    let of = ("cp.async.bulk", Location::caller());
    let [to, by, bytes, barrier] = thread.altered_words(of, [to, 0, bytes, barrier]);
    let from = from.wrapping_add(by as usize);
    thread.act(of.0, |state, at| {
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
        let (slot, line) = (thread.slot(), (from.addr(), bytes as usize));
        let (memory, missing) = state.line(thread.blocks, (slot, at), line, AccessKind::Read)?;
        let places = ((rank, own(to)), (rank, own(barrier)));
        let is_there = memory == from.addr();
        let from = if is_there { from } else { std::ptr::with_exposed_provenance(memory) };
        let source = Source::Bytes(from, missing);
        state.depart(thread.blocks, (thread.slot(), source), places, bytes as usize, at)
    });
}

/// A copy of a box to this block, or to those whose bits are set.
#[track_caller]
pub(crate) fn tensor_load(to: u32, map: u64, coords: Coords, barrier: u32, targets: Option<u16>) {
    let thread = current();
    let of = ("cp.async.bulk.tensor", Location::caller());
    let ranks = targets.map_or(1 << thread.block.rank, u32::from);
    let Coords { x, y, .. } = coords;
    let words = [to.into(), map, x.into(), y.into(), barrier.into(), ranks.into()];
    let [to, map, x, y, barrier, ranks] = thread.altered(of, 0, words);
    let [to, x, y, barrier, ranks] = [to, x, y, barrier, ranks].map(low_word);
    thread.act(of.0, |state, at| {
        let map = thread.altered_map(of, 6, thread.map(map, true, at)?);
        let (map, coords) = thread.altered_matrix(of, 12, (map, Coords { x, y, ..coords }));
        thread.accept(&map, Some(coords), at)?;
        if let Some(reason) = map.fault_of_load(coords) {
            let site = thread.site(at);
            return Err(EmulationError::Operand {
                site,
                instruction: "cp.async.bulk.tensor",
                reason,
            });
        }
        aligned(&map, thread.site(at), to)?;
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
            let source = Source::Box(map, coords);
            let places = ((rank, to), (rank, barrier));
            state.depart(thread.blocks, (slot, source), places, map.box_bytes(), at)?;
        }
        Ok(())
    });
}

#[track_caller]
pub(crate) fn tensor_store(map: u64, coords: Coords, from: u32) {
    let thread = current();
    let of = ("cp.async.bulk.tensor.global", Location::caller());
    let Coords { x, y, .. } = coords;
    let [from, map, x, y] = thread.altered(of, 0, [from.into(), map, x.into(), y.into()]);
    let [from, x, y] = [from, x, y].map(low_word);
    thread.act(of.0, |state, at| {
        let map = thread.altered_map(of, 4, thread.map(map, true, at)?);
        let (map, coords) = thread.altered_matrix(of, 10, (map, Coords { x, y, ..coords }));
        thread.accept(&map, Some(coords), at)?;
        state.store(thread.blocks, thread.slot(), (map, coords, from), at)
    });
}

#[track_caller]
pub(crate) fn tensor_prefetch(map: u64) {
    let thread = current();
    let of = ("prefetch.tensormap", Location::caller());
    let [map] = thread.altered(of, 0, [map]);
    thread.act(of.0, |_, at| {
        let map = thread.map(map, false, at)?;
        thread.accept(&map, None, at)
    });
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
    let of = ("cp.async.bulk.wait_group.read", Location::caller());
    let [pending] = thread.altered_words(of, [pending]);
    let groups = thread.act(of.0, |state, _| {
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
