//! `wgmma`: products of a warpgroup, which go on while its threads do.
//!
//! Each thread leaves its part of an instruction and runs on; the last of the 128 completes it. The accumulators'
//! values go with the parts: in the registers stays a NaN that names the product, until a wait loads the sums.

use std::ops::Range;
use std::panic::Location;

use super::cells::{Act, Hazard, Knowledge};
use super::clock::Stamp;
use super::cluster::State;
use super::parts::{
    Chain, Instruction, Op, Product, ROWS, UnderWay, Unwritten, WARPGROUP, Warpgroup, What,
};
use super::tags::{Stray, Tile};
use super::tensor_core::{self, DEPTH, Factors};
use super::{Block, EmulationError, WINDOW_BASE, current};

/// Bytes of the pieces that an operand in shared memory is made of.
const CHUNK: usize = 16;
/// Elements of such a piece.
const EIGHT: usize = 8;

/// A NaN that stands in a register whose sum is under way: the number of the chain and of the register.
const UNDER_WAY: u32 = 0x7fea_0000;
/// The bits of it that are the same in all.
const MARK: u32 = 0xffff_0000;
/// Numbers of chains.
const CHAINS: u32 = 512;
/// Columns of the chains for whose sums a thread has registers: half as many for each, of 255.
const MOST_COLUMNS: usize = 510;

/// What a register holds while its sum is under way.
fn mark(chain: u32, register: usize) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "there are at most 128 registers")]
    let register = register as u32;
    UNDER_WAY | chain << 7 | register & 0x7f
}

/// Whether the bits are those of a register whose sum was under way.
pub(super) fn is_mark(bits: u32) -> bool {
    bits & MARK == UNDER_WAY
}

/// A NaN that stands for a sum whose product has read what nobody wrote: the number of its line.
const UNWRITTEN: u32 = 0x7feb_0000;

/// Whether the bits are those of such a sum.
pub(super) fn is_unwritten(bits: u32) -> bool {
    bits & MARK == UNWRITTEN
}

/// The row and the column of an accumulator.
fn coordinates(thread: usize, register: usize) -> (usize, usize) {
    let (warp, lane) = (thread / 32, thread % 32);
    let row = 16 * warp + lane / 4 + 8 * (register / 2 % 2);
    (row, 8 * (register / 4) + 2 * (lane % 4) + register % 2)
}

impl Warpgroup {
    /// A chain whose sums a thread has not got.
    fn chain_under_way(&self, thread: usize) -> Option<&Chain> {
        let first = self.under_way[thread].first()?;
        self.chains.iter().find(|chain| chain.number == first.chain)
    }

    /// The columns of all of them.
    fn columns_under_way(&self, thread: usize) -> usize {
        let of_thread =
            |chain: &&Chain| self.under_way[thread].iter().any(|own| own.chain == chain.number);
        self.chains.iter().filter(of_thread).map(|chain| chain.columns).sum()
    }
}

impl State {
    /// The warpgroup of a thread, and its place in it.
    fn warpgroup_of(&self, slot: usize) -> Option<(usize, usize)> {
        let each = self.block_threads / WARPGROUP;
        let (rank, linear) = (slot / self.block_threads, slot % self.block_threads);
        (linear / WARPGROUP < each)
            .then_some((rank * each + linear / WARPGROUP, linear % WARPGROUP))
    }

    /// A thread comes to an instruction of its warpgroup; the instruction, by its place in `ops`.
    fn come_to(
        &mut self,
        blocks: &[Block<'_>],
        slot: usize,
        instruction: impl FnOnce(&mut Warpgroup) -> Instruction,
        at: &'static Location<'static>,
    ) -> Result<(usize, usize, usize), EmulationError> {
        let site = self.site(blocks, slot, at);
        let Some((index, thread)) = self.warpgroup_of(slot) else {
            return Err(EmulationError::Operand {
                site,
                instruction: "wgmma",
                reason: "fewer than 128 threads in its warpgroup".to_owned(),
            });
        };
        let group = &mut self.warpgroups[index];
        let place = (group.next[thread] - group.first_op) as usize;
        group.next[thread] += 1;
        if place == group.ops.len() {
            let instruction = instruction(group);
            group.ops.push_back(Op {
                instruction,
                at,
                arrived: 0,
                unwritten: Unwritten::default(),
            });
        }
        let first = group.first;
        let op = &mut group.ops[place];
        op.arrived += 1;
        if !std::ptr::eq(op.at, at) && op.at != at {
            let first = self.site(blocks, first, self.warpgroups[index].ops[place].at);
            return Err(EmulationError::WarpgroupDivergence { first, second: site });
        }
        Ok((index, thread, place))
    }

    /// A thread's part in a product.
    fn multiply(
        &mut self,
        blocks: &[Block<'_>],
        slot: usize,
        (product, acc): (Product, &mut [[f32; 8]]),
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        let columns = 16 * acc.len();
        let site = self.site(blocks, slot, at);
        let registers = acc.as_flattened_mut();
        let Some((index, thread)) = self.warpgroup_of(slot) else {
            // The same error as that of an instruction.
            return self.come_to(blocks, slot, |_| Instruction::Commit, at).map(drop);
        };
        let group = &mut self.warpgroups[index];
        // Registers of a chain that goes on, or values of their own.
        let of_chain = |chain: &&mut Chain| mark(chain.number, 0) == registers[0].to_bits();
        let goes_on = group.chains.iter_mut().find(of_chain);
        let number = goes_on.map(|chain| {
            let mut all = registers.iter().enumerate();
            let same = all.all(|(at, value)| value.to_bits() == mark(chain.number, at));
            if same && chain.columns == columns { Ok(chain.number) } else { Err(chain.at) }
        });
        let number = match number {
            Some(Ok(number)) => Some(number),
            Some(Err(product)) => return Err(EmulationError::InFlight { site, product }),
            None => {
                if let Some(chain) = group.chain_under_way(thread)
                    && group.columns_under_way(thread) + columns > MOST_COLUMNS
                {
                    // The sums of a chain were never fetched: no thread has registers for both.
                    return Err(EmulationError::InFlight { site, product: chain.at });
                }
                if registers.iter().any(|value| is_mark(value.to_bits())) {
                    return Err(EmulationError::InFlight { site, product: at });
                }
                if !product.fence {
                    return Err(EmulationError::MissingFence { site });
                }
                None
            }
        };
        let new_chain = |group: &mut Warpgroup| {
            group.next_chain = (group.next_chain + 1) % CHAINS;
            let number = group.next_chain;
            group.chains.push(Chain {
                number,
                columns,
                acc: vec![0.0; ROWS * columns],
                unwritten: Vec::new(),
                at,
                delivered: 0,
            });
            number
        };
        let instruction = |group: &mut Warpgroup| {
            let chain = number.unwrap_or_else(|| new_chain(group));
            Instruction::Product(product, chain)
        };
        let (index, thread, place) = self.come_to(blocks, slot, instruction, at)?;
        let group = &mut self.warpgroups[index];
        let op = &group.ops[place];
        let first = group.first;
        let Instruction::Product(expected, chain) = op.instruction else {
            unreachable!("invariant: one line is one instruction");
        };
        if expected != product || number.is_some_and(|number| number != chain) {
            let first = self.site(blocks, first, at);
            return Err(EmulationError::WarpgroupDivergence { first, second: site });
        }
        if number.is_none() {
            let Some(chain) = group.chains.iter_mut().find(|of| of.number == chain) else {
                unreachable!("invariant: a chain lasts until all threads have its acc");
            };
            for (at, value) in registers.iter_mut().enumerate() {
                let (row, column) = coordinates(thread, at);
                chain.acc[row * columns + column] = *value;
                if is_unwritten(value.to_bits()) {
                    chain.mark(value.to_bits(), (row..row + 1, column..column + 1));
                }
                *value = f32::from_bits(mark(chain.number, at));
            }
            group.under_way[thread].push(UnderWay { chain: chain.number, last: 0 });
        }
        let last = group.closed[thread];
        let own = group.under_way[thread].iter_mut().filter(|own| own.chain == chain);
        own.for_each(|own| own.last = last);
        if group.ops[place].arrived == WARPGROUP {
            // The other threads may have closed the group by now; this one has not.
            let time = group.closed[thread] + 1;
            let unwritten = self.read_operands(blocks, (index, time), (&product, columns), at)?;
            self.warpgroups[index].ops[place].unwritten = unwritten;
        }
        Ok(())
    }

    /// Checks and records the reads of a product's operands; what nobody wrote is left to those who use its sums.
    fn read_operands(
        &mut self,
        blocks: &[Block<'_>],
        (index, time): (usize, u32),
        (product, columns): (&Product, usize),
        at: &'static Location<'static>,
    ) -> Result<Unwritten, EmulationError> {
        let Warpgroup { component, rank, first, .. } = self.warpgroups[index];
        let site = self.site(blocks, first, at);
        let stamp = Stamp { component, time, site: self.sites.number(at) };
        let who = Knowledge::of(&self.clocks[first..first + WARPGROUP], self.waits.len());
        let shared_bytes = blocks[0].launch.shared_bytes;
        let mut unwritten = Unwritten::default();
        let mut steps = [None; 2];
        for (number, (descriptor, mn_major, lines, unwritten)) in [
            (product.a, product.mn_major[0], ROWS, &mut unwritten.rows),
            (product.b, product.mn_major[1], columns, &mut unwritten.columns),
        ]
        .into_iter()
        .enumerate()
        {
            let name = ["A", "B"][number];
            let mut tile = Tile::default();
            let refuse =
                |reason: String| EmulationError::Operand { site, instruction: "wgmma", reason };
            let operand = Operand::new(descriptor, mn_major, lines).map_err(refuse)?;
            for (place, of, chunk) in operand.chunks() {
                if chunk + CHUNK > shared_bytes {
                    let offset = chunk as i64;
                    let access = super::Access { kind: super::AccessKind::Read, site };
                    return Err(EmulationError::SharedOutOfBounds {
                        access,
                        offset,
                        bytes: shared_bytes,
                    });
                }
                if self.checked {
                    let found =
                        self.cells[rank].access(Act::AsyncRead, (chunk, CHUNK), &who, stamp);
                    match found {
                        Ok(()) => {
                            let Some(tag) = self.cells[rank].tag(chunk) else { continue };
                            tile.add(tag, place).map_err(|Stray { found, expected }| {
                                EmulationError::TileShape { site, operand: name, found, expected }
                            })?;
                        }
                        Err(Hazard::Uninitialised { .. }) => unwritten.extend(of),
                        Err(hazard) => {
                            return Err(self.hazard(blocks, Act::AsyncRead, hazard, site));
                        }
                    }
                }
            }
            steps[number] = tile.first.map(|[x, y]| if mn_major { y } else { x });
        }
        match steps {
            [Some(a), Some(b)] if a != b => Err(EmulationError::TileK { site, a, b }),
            _ => Ok(unwritten),
        }
    }

    /// A thread closes its group.
    fn close_group(
        &mut self,
        blocks: &[Block<'_>],
        slot: usize,
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        let (index, thread, place) = self.come_to(blocks, slot, |_| Instruction::Commit, at)?;
        let group = &mut self.warpgroups[index];
        group.closed[thread] += 1;
        if self.early && group.ops[place].arrived == WARPGROUP {
            self.carry_out(blocks, index);
        }
        Ok(())
    }

    /// Carries out the groups of a warpgroup that all its threads have closed.
    fn carry_out(&mut self, blocks: &[Block<'_>], index: usize) {
        while self.warpgroups[index].is_complete() {
            let group = &mut self.warpgroups[index];
            let base = blocks[group.rank].shared.base;
            while let Some(op) = group.ops.pop_front() {
                group.first_op += 1;
                let Instruction::Product(product, number) = op.instruction else { break };
                let Some(chain) = group.chains.iter_mut().find(|chain| chain.number == number)
                else {
                    unreachable!("invariant: a chain lasts until all threads have its acc");
                };
                if !product.add {
                    chain.acc.fill(0.0);
                    chain.unwritten.clear();
                }
                let site = UNWRITTEN | u32::from(self.sites.number(op.at));
                for row in op.unwritten.rows {
                    chain.mark(site, (row..row + 1, 0..chain.columns));
                }
                for column in op.unwritten.columns {
                    chain.mark(site, (0..ROWS, column..column + 1));
                }
                let factors = |descriptor, mn_major, lines| {
                    let Ok(operand) = Operand::new(descriptor, mn_major, lines) else {
                        unreachable!(
                            "invariant: the operand was checked when the last thread came"
                        );
                    };
                    Factors::new(product.factor, lines, &operand.gather(base))
                };
                let a = factors(product.a, product.mn_major[0], ROWS);
                let b = factors(product.b, product.mn_major[1], chain.columns);
                tensor_core::multiply(&a, &b, &mut chain.acc);
            }
            group.done += 1;
            let done = group.done;
            self.wake_all(
                |what| matches!(what, What::Products(of, groups) if of == index && groups <= done),
            );
        }
    }

    /// Carries out the groups of one warpgroup that somebody waits for, or of any; false where none is complete.
    pub(super) fn carry_out_one(&mut self, blocks: &[Block<'_>]) -> bool {
        let complete = |index: &usize| self.warpgroups[*index].is_complete();
        let Some(index) = (0..self.warpgroups.len()).find(complete) else { return false };
        self.carry_out(blocks, index);
        true
    }

    /// The sums of a thread in these registers, where the newest product of theirs is done.
    fn fetch(
        &mut self,
        blocks: &[Block<'_>],
        slot: usize,
        (groups, acc): (u32, &mut [[f32; 8]]),
        at: &'static Location<'static>,
    ) -> Result<(), EmulationError> {
        let site = self.site(blocks, slot, at);
        let Some((index, thread)) = self.warpgroup_of(slot) else { return Ok(()) };
        let group = &mut self.warpgroups[index];
        self.clocks[slot].see(group.component, groups);
        let registers = acc.as_flattened_mut();
        let holds = |own: &UnderWay| {
            let mut all = registers.iter().enumerate();
            all.all(|(at, value)| value.to_bits() == mark(own.chain, at))
        };
        let Some(own) = group.under_way[thread].iter().position(holds) else {
            // Registers with sums of no product, or some of them with others since.
            return group
                .chain_under_way(thread)
                .map_or(Ok(()), |chain| Err(EmulationError::InFlight { site, product: chain.at }));
        };
        let UnderWay { chain: number, last } = group.under_way[thread][own];
        let Some(place) = group.chains.iter().position(|chain| chain.number == number) else {
            return Ok(());
        };
        let chain = &mut group.chains[place];
        if last >= group.closed[thread] {
            return Err(EmulationError::Uncommitted { site, product: chain.at });
        }
        if last >= groups {
            return Ok(());
        }
        for (at, value) in registers.iter_mut().enumerate() {
            let (row, column) = coordinates(thread, at);
            let place = row * chain.columns + column;
            let unwritten = chain.unwritten.get(place).copied().filter(|&mark| mark != 0);
            *value = unwritten.map_or(chain.acc[place], f32::from_bits);
        }
        chain.delivered += 1;
        group.under_way[thread].swap_remove(own);
        if chain.delivered == WARPGROUP {
            group.chains.swap_remove(place);
        }
        Ok(())
    }

    /// The product whose sum the bits stand for.
    pub(super) fn product_of(&self, bits: u32) -> &'static Location<'static> {
        self.sites.at((bits & !MARK) as u16)
    }

    /// What is wrong with a thread's products when it ends.
    pub(super) fn end_products(
        &self,
        blocks: &[Block<'_>],
        slot: usize,
    ) -> Result<(), EmulationError> {
        let Some((index, thread)) = self.warpgroup_of(slot) else { return Ok(()) };
        self.warpgroups[index].chain_under_way(thread).map_or(Ok(()), |chain| {
            let site = self.site(blocks, slot, chain.at);
            Err(EmulationError::InFlight { site, product: chain.at })
        })
    }
}

/// An operand in shared memory, as a descriptor says.
struct Operand {
    /// Where it begins, in the shared window.
    start: usize,
    leading: usize,
    stride: usize,
    /// Bytes of a line of the swizzle, 16 where there is none.
    row: usize,
    mn_major: bool,
    /// Rows of A, or columns of B.
    lines: usize,
}

impl Operand {
    fn new(descriptor: u64, mn_major: bool, lines: usize) -> Result<Self, String> {
        #[expect(clippy::cast_possible_truncation, reason = "14 bits of it")]
        let field = |shift: u32| ((descriptor >> shift & 0x3fff) << 4) as usize;
        let mode = descriptor >> 62;
        if descriptor & !(0x3fff | 0x3fff << 16 | 0x3fff << 32 | 7 << 49 | 3 << 62) != 0 {
            return Err(format!("a descriptor with bits {descriptor:#x} that have no meaning"));
        }
        if descriptor >> 49 & 7 != 0 {
            return Err("a base offset, which is not emulated".to_owned());
        }
        let row = [16, 128, 64, 32][(mode & 3) as usize];
        if mn_major && row != 128 {
            return Err(
                "an operand that is not K-major in a swizzle that is not emulated".to_owned()
            );
        }
        Ok(Self { start: field(0), leading: field(16), stride: field(32), row, mn_major, lines })
    }

    /// For each piece of eight elements how far it is from the first, in elements along the memory's lines and in
    /// lines of the memory, of which rows or columns it is, and where it is in the block's shared memory: K-major those
    /// of a row or column together, else those of a step.
    fn chunks(&self) -> impl Iterator<Item = ([usize; 2], Range<usize>, usize)> {
        let across = if self.mn_major { self.lines / EIGHT } else { DEPTH / EIGHT };
        let down = if self.mn_major { DEPTH } else { self.lines };
        let lines = |line: usize, chunk: usize| match self.mn_major {
            true => chunk * EIGHT..(chunk + 1) * EIGHT,
            false => line..line + 1,
        };
        (0..down).flat_map(move |line| {
            (0..across).map(move |chunk| {
                ([chunk * EIGHT, line], lines(line, chunk), self.chunk(line, chunk))
            })
        })
    }

    /// Piece `chunk` of a line: of a row or column of the factor, or of a step where it is not K-major.
    fn chunk(&self, line: usize, chunk: usize) -> usize {
        let Self { start, leading, stride, row, .. } = *self;
        let at = if self.mn_major {
            let (atom, chunk) = (chunk / 8, chunk % 8);
            start + atom * leading + line / 8 * stride + line % 8 * row + chunk * CHUNK
        } else if row == CHUNK {
            start + line / 8 * stride + line % 8 * CHUNK + chunk * leading
        } else {
            start + line / 8 * stride + line % 8 * row + chunk * CHUNK
        };
        // The chunk is moved by bits of the address itself.
        let at = at & 0x3_ffff;
        let swizzled = at ^ (at >> 3 & (row - CHUNK));
        swizzled.wrapping_sub(WINDOW_BASE as usize) & 0x3_ffff
    }

    /// The elements, step by step, of the memory that begins at `base`.
    fn gather(&self, base: *const u8) -> Vec<u16> {
        let mut elements = vec![0; DEPTH * self.lines];
        let place = |line: usize, chunk: usize, to: &mut dyn FnMut(usize, u16)| {
            let from = base.wrapping_add(self.chunk(line, chunk)).cast::<[u16; EIGHT]>();
            // SAFETY: 16 bytes of the block's shared memory at a multiple of 16, as was found when the last thread
            // came to the product.
            let eight = unsafe { from.read() };
            for (at, &bits) in eight.iter().enumerate() {
                to(at, bits);
            }
        };
        if self.mn_major {
            for step in 0..DEPTH {
                for chunk in 0..self.lines / EIGHT {
                    let first = step * self.lines + chunk * EIGHT;
                    place(step, chunk, &mut |at, bits| elements[first + at] = bits);
                }
            }
        } else {
            for line in 0..self.lines {
                for chunk in 0..DEPTH / EIGHT {
                    place(line, chunk, &mut |at, bits| {
                        elements[(chunk * EIGHT + at) * self.lines + line] = bits;
                    });
                }
            }
        }
        elements
    }
}

#[track_caller]
pub(crate) fn multiply(product: Product, acc: &mut [[f32; 8]]) {
    let thread = current();
    let of = ("wgmma.mma_async", Location::caller());
    let Product { a, b, add, fence, .. } = product;
    let [a, b, add, fence] = thread.altered(of, 0, [a, b, add.into(), fence.into()]);
    let product = Product { a, b, add: add == 1, fence: fence == 1, ..product };
    thread.act(of.0, |state, at| state.multiply(thread.blocks, thread.slot(), (product, acc), at));
}

#[track_caller]
pub(crate) fn commit_products() {
    let thread = current();
    thread
        .act("wgmma.commit_group", |state, at| state.close_group(thread.blocks, thread.slot(), at));
}

#[track_caller]
pub(crate) fn wait_products(pending: u32, acc: &mut [[f32; 8]]) {
    let thread = current();
    let slot = thread.slot();
    let of = ("wgmma.wait_group", Location::caller());
    let [pending] = thread.altered_words(of, [pending]);
    let waits = thread.act(of.0, |state, _| {
        Ok(state.warpgroup_of(slot).map(|(index, thread)| {
            let group = &state.warpgroups[index];
            let groups = group.closed[thread].saturating_sub(pending);
            (index, groups, group.done >= groups)
        }))
    });
    let Some((index, groups, over)) = waits else { return };
    if !over {
        thread.wait_for(What::Products(index, groups));
    }
    thread.act("wgmma.wait_group", |state, at| state.fetch(thread.blocks, slot, (groups, acc), at));
}
