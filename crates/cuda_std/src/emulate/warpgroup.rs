//! What warps and warpgroups do together besides products: named barriers, stores of matrices, registers.

use std::panic::Location;

use super::cells::Act;
use super::clock::Clock;
use super::cluster::State;
use super::mbarrier::{inside, own};
use super::parts::{LANES, Named, Part, WARPGROUP, What};
use super::{Access, AccessKind, Block, EmulationError, current};

impl State {
    /// A thread comes to a named barrier; whether it has to wait, and for which.
    fn come_to_named(
        &mut self,
        blocks: &[Block<'_>],
        slot: usize,
        (id, threads): (u32, u32),
        at: &'static Location<'static>,
    ) -> Result<Option<usize>, EmulationError> {
        let rank = slot / self.block_threads;
        let site = self.site(blocks, slot, at);
        let refuse =
            |reason| Err(EmulationError::Operand { site, instruction: "bar.sync", reason });
        if !(1..16).contains(&id) {
            return refuse(format!("barrier {id}: there are 1 to 15 besides the block's"));
        }
        let threads = threads as usize;
        if threads == 0 || !threads.is_multiple_of(LANES) || threads > self.block_threads {
            let all = self.block_threads;
            return refuse(format!("{threads} threads, no whole warps of the block's {all}"));
        }
        let found = self.named.iter().position(|named| (named.rank, named.id) == (rank, id));
        let index = match found {
            Some(index) => index,
            None => {
                let component = self.component();
                self.named.push(Named {
                    component,
                    rank,
                    id,
                    arrived: 0,
                    threads,
                    generation: 0,
                    clock: Clock::default(),
                    waiting: Vec::new(),
                });
                self.named.len() - 1
            }
        };
        let named = &mut self.named[index];
        if named.arrived > 0 && named.threads != threads {
            let others = named.threads;
            return refuse(format!(
                "{threads} threads at barrier {id}, where others wait for {others}"
            ));
        }
        named.threads = threads;
        if self.checked && self.clocks[slot].time(named.component) < named.generation {
            return Err(EmulationError::PhaseUnknown {
                site,
                object: format!("named barrier {id}"),
                phase: named.generation,
            });
        }
        named.clock.join(&self.clocks[slot]);
        named.arrived += 1;
        named.waiting.push(slot);
        if named.arrived < threads {
            return Ok(Some(index));
        }
        named.arrived = 0;
        named.generation += 1;
        let (component, generation) = (named.component, named.generation);
        named.clock.see(component, generation);
        let all = std::mem::take(&mut named.waiting);
        for &other in &all {
            let clock = &mut self.clocks[other];
            clock.join(&self.named[index].clock);
            clock.seen[other] += 1;
            if other != slot {
                self.wake(other);
            }
        }
        Ok(None)
    }

    /// A lane's part in a store of four matrices.
    fn stmatrix_x4(
        &mut self,
        blocks: &[Block<'_>],
        slot: usize,
        (row, pairs): (u32, [u32; 4]),
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        let site = self.site(blocks, slot, at);
        let stamp = self.stamp(slot, at);
        let rank = slot / self.block_threads;
        let first = slot / LANES * LANES;
        let matrices = &mut self.matrices[first / LANES];
        let lane = slot % LANES;
        let number = matrices.come_to[lane] - matrices.done;
        matrices.come_to[lane] += 1;
        if number == matrices.stores.len() {
            matrices.stores.push_back([None; LANES]);
        }
        let parts = &mut matrices.stores[number];
        parts[lane] = Some(Part { row, pairs, stamp, at });
        let other = |of: &(usize, &Option<Part>)| of.1.is_some_and(|part| part.at != at);
        if let Some((lane, &Some(part))) = parts.iter().enumerate().find(other) {
            let first = self.site(blocks, first + lane, part.at);
            return Err(EmulationError::WarpgroupDivergence { first, second: site });
        }
        if parts.iter().any(Option::is_none) {
            return Ok(());
        }
        let Some(parts) = matrices.stores.pop_front() else { return Ok(()) };
        matrices.done += 1;
        let part = |lane: usize| parts[lane].expect("invariant: all lanes are here");
        for lane in 0..LANES {
            let (matrix, line) = (lane / 8, lane % 8);
            let Part { row, stamp, .. } = part(lane);
            let site = self.site(blocks, first + lane, at);
            let offset = inside(blocks, (site, AccessKind::Write), own(row), 16)?;
            if !offset.is_multiple_of(16) {
                let access = Access { kind: AccessKind::Write, site };
                return Err(EmulationError::Misaligned { access, align: 16 });
            }
            self.access(blocks, Act::Write, (rank, offset, 16), (first + lane, 1), stamp)?;
            let words: [u32; 4] =
                std::array::from_fn(|column| part(4 * line + column).pairs[matrix]);
            let to = blocks[rank].shared.base.wrapping_add(offset).cast::<[u32; 4]>();
            // SAFETY: 16 bytes of the block's shared memory, which `inside` has found; their alignment is that of
            // the memory's start.
            unsafe { to.write(words) };
        }
        Ok(())
    }

    /// A thread comes to an instruction that gives registers back or takes some; whether it has to wait.
    fn set_registers(
        &mut self,
        blocks: &[Block<'_>],
        slot: usize,
        (count, takes): (u32, bool),
        at: &'static Location<'static>,
    ) -> Result<bool, EmulationError> {
        let rank = slot / self.block_threads;
        let group = slot % self.block_threads / WARPGROUP;
        let site = self.site(blocks, slot, at);
        let refuse =
            |reason: String| EmulationError::Operand { site, instruction: "setmaxnreg", reason };
        if !(24..=256).contains(&count) || !count.is_multiple_of(8) {
            return Err(refuse(format!("{count} registers, no multiple of 8 from 24 to 256")));
        }
        let count = count as usize;
        let pool = &mut self.pools[rank];
        let Some(&each) = pool.each.get(group) else {
            return Err(refuse("fewer than 128 threads in its warpgroup".to_owned()));
        };
        if if takes { count < each } else { count > each } {
            return Err(refuse(format!("{count} registers, where threads have {each}")));
        }
        let (arrived, other, first) = pool.coming[group].unwrap_or((0, count, at));
        if other != count || first != at {
            let slot = slot / WARPGROUP * WARPGROUP;
            let first = self.site(blocks, slot, first);
            return Err(EmulationError::WarpgroupDivergence { first, second: site });
        }
        pool.coming[group] = Some((arrived + 1, count, at));
        if arrived + 1 < WARPGROUP {
            return Ok(takes);
        }
        if takes {
            return Ok(!self.grant(rank, Some(slot)));
        }
        pool.free += (each - count) * WARPGROUP;
        pool.each[group] = count;
        pool.coming[group] = None;
        self.grant(rank, None);
        Ok(false)
    }

    /// Gives registers to the warpgroups that wait for them, as far as they go; whether `last`'s was one of them.
    fn grant(&mut self, rank: usize, last: Option<usize>) -> bool {
        let mut granted = false;
        for group in 0..self.pools[rank].each.len() {
            let pool = &mut self.pools[rank];
            let Some((WARPGROUP, count, _)) = pool.coming[group] else { continue };
            let needed = count.saturating_sub(pool.each[group]) * WARPGROUP;
            if needed > pool.free {
                continue;
            }
            pool.free -= needed;
            pool.each[group] = count;
            pool.coming[group] = None;
            let first = rank * self.block_threads + group * WARPGROUP;
            for slot in first..first + WARPGROUP {
                if last == Some(slot) {
                    granted = true;
                } else {
                    self.wake(slot);
                }
            }
        }
        granted
    }
}

/// Waits at a named barrier for that many threads.
#[track_caller]
pub(crate) fn named_barrier(id: u32, threads: u32) {
    let thread = current();
    let of = ("bar.sync", Location::caller());
    let [id, threads] = thread.altered_words(of, [id, threads]);
    let waits = thread.act(of.0, |state, at| {
        state.come_to_named(thread.blocks, thread.slot(), (id, threads), at)
    });
    if let Some(named) = waits {
        thread.wait_for(What::Named(named));
    }
}

#[track_caller]
pub(crate) fn stmatrix_x4(row: u32, pairs: [u32; 4]) {
    let thread = current();
    let of = ("stmatrix", Location::caller());
    let [row] = thread.altered_words(of, [row]);
    thread.act(of.0, |state, at| state.stmatrix_x4(thread.blocks, thread.slot(), (row, pairs), at));
}

/// Gives registers back until each thread has `count`, or takes some.
#[track_caller]
pub(crate) fn set_registers(count: u32, takes: bool) {
    let thread = current();
    let of = ("setmaxnreg", Location::caller());
    let [count] = thread.altered_words(of, [count]);
    let waits = thread.act(of.0, |state, at| {
        state.set_registers(thread.blocks, thread.slot(), (count, takes), at)
    });
    if waits {
        thread.wait_for(What::Registers);
    }
}
