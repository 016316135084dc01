//! Shadow state of the shared memory of a launch whose copies and products go on by themselves: for each word
//! which access wrote it and which have read it since, by when these are known to be over.

use std::cell::{Cell as Remembered, RefCell};

use super::clock::{Clock, Stamp};
use super::tags::{Tag, Tags};
use super::tensor_map::TensorMap;
use crate::arch::sm90::tensor::Coords;

/// Bytes of a word.
const WORD: usize = 4;
/// Reads of a word that are remembered. Of more readers that do not know of each other the first are.
const READS: usize = 4;

/// A word.
#[derive(Clone, Copy, Default)]
struct Cell {
    write: Stamp,
    reads: [Stamp; READS],
    /// The bytes that the last write wrote.
    bytes: u8,
    /// The bytes that were ever written.
    written: u8,
    /// A copy is on its way here; `write` is who started it.
    pending: bool,
    /// A part of a barrier.
    reserved: bool,
}

/// What an access does, and through which proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// A thread reads.
    Read,
    /// A thread writes.
    Write,
    /// A product or a store reads.
    AsyncRead,
    /// A copy writes.
    AsyncWrite,
}

/// What is wrong with an access, with the byte and the earlier access.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hazard {
    /// Nobody wrote it.
    Uninitialised { byte: usize },
    /// It is a part of a barrier.
    Reserved { byte: usize },
    /// A copy has not landed.
    Pending { byte: usize, copy: Stamp },
    /// An earlier write may come later.
    AfterWrite { byte: usize, write: Stamp },
    /// An earlier read may come later.
    AfterRead { byte: usize, read: Stamp },
    /// The earlier access comes before, with no proxy fence between.
    Fence { byte: usize, earlier: Stamp, wrote: bool },
}

/// Who accesses: clocks of all that do so together, and how many of the components are threads.
pub(super) struct Knowledge<'c> {
    clocks: &'c [Clock],
    threads: usize,
    /// The last write that the access was found to follow: neighbours mostly have the same.
    known: Remembered<Stamp>,
}

impl<'c> Knowledge<'c> {
    /// That of one access by these.
    pub(super) fn of(clocks: &'c [Clock], threads: usize) -> Self {
        Self { clocks, threads, known: Remembered::default() }
    }

    fn is_generic(&self, stamp: Stamp) -> bool {
        usize::from(stamp.component) < self.threads
    }

    fn knows(&self, stamp: Stamp) -> bool {
        self.clocks.iter().all(|clock| clock.knows(stamp))
    }

    fn is_over(&self, stamp: Stamp) -> bool {
        self.clocks.iter().all(|clock| clock.is_over(stamp))
    }

    fn bridges(&self, stamp: Stamp) -> bool {
        self.clocks.iter().all(|clock| clock.bridges(stamp))
    }

    /// Whether an access of that kind comes after a read or a write with this stamp, and where it does not for
    /// lack of a fence.
    ///
    /// A read only has to be over before the next write, and so has a copy: its phase ends once it has landed.
    fn follows(&self, act: Act, stamp: Stamp, wrote: bool) -> Result<(), bool> {
        let writes = matches!(act, Act::Write | Act::AsyncWrite);
        let over = writes && !(wrote && self.is_generic(stamp));
        if !(if over { self.is_over(stamp) } else { self.knows(stamp) }) {
            return Err(false);
        }
        let crosses = match act {
            Act::Read | Act::Write => false,
            Act::AsyncRead | Act::AsyncWrite => self.is_generic(stamp),
        };
        if crosses && !self.bridges(stamp) { Err(true) } else { Ok(()) }
    }
}

/// The words of a block's shared memory.
pub(super) struct Cells {
    words: Vec<Cell>,
    tags: Tags,
}

thread_local! {
    /// Those of ended blocks, for the next one: fresh memory takes longer than clearing.
    static SPARE: RefCell<Vec<Vec<Cell>>> = const { RefCell::new(Vec::new()) };
}

impl Drop for Cells {
    fn drop(&mut self) {
        let cells = std::mem::take(&mut self.words);
        // A thread that ends has no place for them any more.
        let _ = SPARE.try_with(|spare| spare.borrow_mut().push(cells));
    }
}

impl Cells {
    pub(super) fn new(bytes: usize) -> Self {
        let mut cells = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        cells.clear();
        cells.resize(bytes.div_ceil(WORD), Cell::default());
        Self { words: cells, tags: Tags::new(bytes) }
    }

    /// The box at a place of a map is copied to `offset`.
    pub(super) fn tag_box(&mut self, offset: usize, map: &TensorMap, place: Coords) {
        self.tags.set(offset, map, place);
    }

    /// Where the 16 bytes at this byte come from, if a copy of a box has loaded them.
    pub(super) fn tag(&self, byte: usize) -> Option<Tag> {
        self.tags.at(byte)
    }

    /// Checks an access to `bytes` from `start` on, and records it with its stamp.
    pub(super) fn access(
        &mut self,
        act: Act,
        (start, bytes): (usize, usize),
        who: &Knowledge<'_>,
        stamp: Stamp,
    ) -> Result<(), Hazard> {
        let end = start + bytes;
        if matches!(act, Act::Write | Act::AsyncWrite) {
            self.tags.clear((start, bytes));
        }
        for index in start / WORD..end.div_ceil(WORD) {
            let cell = &mut self.words[index];
            let from = start.saturating_sub(index * WORD);
            let to = (end - index * WORD).min(WORD);
            let touched = ((1u8 << to) - 1) & !((1u8 << from) - 1);
            let byte = (index * WORD).max(start);
            if cell.reserved {
                return Err(Hazard::Reserved { byte });
            }
            if cell.pending {
                return Err(Hazard::Pending { byte, copy: cell.write });
            }
            let write = cell.write;
            if write.is_some() && write != who.known.get() && cell.bytes & touched != 0 {
                who.follows(act, write, true).map_err(|fence| {
                    if fence {
                        Hazard::Fence { byte, earlier: write, wrote: true }
                    } else {
                        Hazard::AfterWrite { byte, write }
                    }
                })?;
                who.known.set(write);
            }
            match act {
                Act::Read | Act::AsyncRead => {
                    if cell.written & touched != touched {
                        return Err(Hazard::Uninitialised { byte });
                    }
                    cell.remember(stamp, who);
                }
                Act::Write | Act::AsyncWrite => {
                    for &read in cell.reads.iter().take_while(|read| read.is_some()) {
                        who.follows(act, read, false).map_err(|fence| {
                            if fence {
                                Hazard::Fence { byte, earlier: read, wrote: false }
                            } else {
                                Hazard::AfterRead { byte, read }
                            }
                        })?;
                    }
                    cell.reads = [Stamp::default(); READS];
                    cell.bytes = touched;
                    cell.written |= touched;
                    cell.write = stamp;
                }
            }
        }
        Ok(())
    }

    /// The bytes are a barrier from now on.
    pub(super) fn reserve(&mut self, (start, bytes): (usize, usize)) {
        for cell in &mut self.words[start / WORD..(start + bytes).div_ceil(WORD)] {
            cell.reserved = true;
        }
    }

    /// A copy is on its way to these bytes; it was checked as a write.
    pub(super) fn depart(&mut self, (start, bytes): (usize, usize)) {
        for cell in &mut self.words[start / WORD..(start + bytes).div_ceil(WORD)] {
            cell.pending = true;
        }
    }

    /// Nobody has written the word of this byte.
    pub(super) fn forget(&mut self, byte: usize) {
        self.words[byte / WORD].written = 0;
    }

    /// It has landed, and is known to have by whom this stamp is.
    pub(super) fn arrive(&mut self, (start, bytes): (usize, usize), stamp: Stamp) {
        for cell in &mut self.words[start / WORD..(start + bytes).div_ceil(WORD)] {
            cell.pending = false;
            cell.write = stamp;
        }
    }
}

impl Cell {
    /// Remembers a read; those that it comes after need not be.
    #[inline]
    fn remember(&mut self, stamp: Stamp, who: &Knowledge<'_>) {
        let free = self.reads.iter().position(|read| {
            !read.is_some() || read.component == stamp.component || who.knows(*read)
        });
        if let Some(place) = free {
            self.reads[place] = stamp;
        }
    }
}
