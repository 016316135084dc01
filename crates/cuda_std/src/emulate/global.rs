//! Shadow state of the global memory of a launch: for each word who wrote it last, and who has read it.
//!
//! Only buffers that the launch may write have some, in pages that are made when they are touched.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use super::buffer::{Buffer, Pages};
use super::error::AccessKind;

/// Bytes of one word.
const WORD: usize = 4;

/// A word of shadow state.
#[derive(Default)]
struct Word {
    write: AtomicU64,
    read: AtomicU64,
    /// A read by another cluster than that of `read`, where several have read: whichever writes next, one of the two is
    /// not its own.
    other_read: AtomicU64,
}

/// An access that a word remembers, in 64 bits. None touches no byte.
///
/// From the lowest bit: bytes (4), line (12), epoch (12), thread of the cluster (14), cluster (20), whether it is atomic
/// or, of a read, whether several threads of the cluster have read (1), and whether several clusters have (1).
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mark(u64);

const LINE: u32 = 4;
const EPOCH: u32 = 16;
const THREAD: u32 = 28;
const CLUSTER: u32 = 42;
const ATOMIC: u64 = 1 << 62;
const SEVERAL_THREADS: u64 = 1 << 62;
const SEVERAL_CLUSTERS: u64 = 1 << 63;
/// From here on epochs are not told apart, and nothing is said of what threads of one cluster do.
const LAST_EPOCH: u32 = (1 << 12) - 1;
/// Clusters that are told apart: of more some look like the same, and what they do is not held against each other.
const CLUSTERS: u64 = 1 << (62 - CLUSTER);

impl Mark {
    /// A field of at most 20 bits.
    #[expect(clippy::cast_possible_truncation, reason = "20 bits")]
    fn of(self, shift: u32, bits: u32) -> u32 {
        (self.0 >> shift & ((1 << bits) - 1)) as u32
    }

    fn bytes(self) -> u64 {
        self.of(0, 4).into()
    }

    fn epoch(self) -> u32 {
        self.of(EPOCH, 12)
    }

    fn thread(self) -> usize {
        self.of(THREAD, 14) as usize
    }

    fn cluster(self) -> u64 {
        self.of(CLUSTER, 20).into()
    }

    fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    /// Whether the same thread made it.
    fn is_by(self, other: Self) -> bool {
        (self.cluster(), self.thread()) == (other.cluster(), other.thread())
    }

    /// What is remembered of a word that has this read mark, once it is read anew.
    fn and(self, new: Self) -> Self {
        if self.bytes() & new.bytes() == 0 {
            return new;
        }
        let flag = if self.cluster() != new.cluster() {
            SEVERAL_CLUSTERS
        } else if self.thread() == new.thread() {
            if self.epoch() == new.epoch() || self.has(SEVERAL_CLUSTERS) {
                return Self(self.0 | new.bytes());
            }
            return Self(new.0 | self.bytes());
        } else if self.epoch() == new.epoch() {
            SEVERAL_THREADS
        } else {
            return Self(new.0 | self.0 & SEVERAL_CLUSTERS);
        };
        Self(self.0 | new.bytes() | flag)
    }
}

/// Who accesses, and when: the cluster, the thread by its number there, and the number of barriers before, or the
/// thread's time where the launch is asynchronous.
#[derive(Clone, Copy)]
pub(super) struct Who {
    pub(super) cluster: u64,
    pub(super) thread: usize,
    pub(super) epoch: u32,
    pub(super) at: &'static Location<'static>,
}

impl Who {
    fn mark(&self, bytes: u8) -> Mark {
        let epoch = self.epoch.min(LAST_EPOCH);
        Mark(
            u64::from(bytes)
                | u64::from(line_number(self.at)) << LINE
                | u64::from(epoch) << EPOCH
                | (self.thread as u64 & 0x3fff) << THREAD
                | (self.cluster % CLUSTERS) << CLUSTER,
        )
    }
}

/// An earlier access with which a new one is in conflict.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) kind: AccessKind,
    /// The cluster and the thread.
    pub(super) who: (u64, usize),
    pub(super) at: &'static Location<'static>,
    /// Whether both are writes.
    pub(super) overlap: bool,
}

/// The words of all buffers of a launch.
pub(super) struct GlobalShadow(Vec<Option<Pages<Word>>>);

impl GlobalShadow {
    pub(super) fn new(buffers: &[Buffer]) -> Self {
        let watched = |buffer: &Buffer| buffer.writable.then(|| Pages::new(buffer.bytes));
        Self(buffers.iter().map(watched).collect())
    }

    /// Records an access to some bytes of a buffer, from its beginning; gives an earlier one with which it is in conflict.
    ///
    /// `is_ordered` says whether an access of a thread of the same cluster in an epoch comes before this one.
    pub(super) fn access(
        &self,
        (buffer, start, bytes): (usize, usize, usize),
        kind: AccessKind,
        who: &Who,
        is_ordered: impl Fn(usize, u32) -> bool,
    ) -> Option<Before> {
        let pages = self.0[buffer].as_ref()?;
        let plain = who.mark(0);
        let atomic = kind == AccessKind::Atomic;
        let ordered = |mark: Mark| {
            mark.cluster() == plain.cluster()
                && (mark.epoch() == LAST_EPOCH || is_ordered(mark.thread(), mark.epoch()))
        };
        for (page, from, to) in pages.on((start, bytes), WORD) {
            let start = from / WORD;
            for (at, word) in page[start..to.div_ceil(WORD)].iter().enumerate() {
                let index = start + at;
                let first = from.saturating_sub(index * WORD);
                let end = (to - index * WORD).min(WORD);
                let touched = u64::from(((1u8 << end) - 1) & !((1u8 << first) - 1));
                let mine = Mark(plain.0 | touched);
                if kind == AccessKind::Read {
                    let read = word.read.load(Ordering::SeqCst);
                    if Mark(read).and(mine).0 != read {
                        let update = |read| {
                            let new = Mark(read).and(mine);
                            if new.cluster() != mine.cluster() {
                                word.other_read.store(mine.0, Ordering::SeqCst);
                            }
                            Some(new.0)
                        };
                        // It does not fail: there always is a new one.
                        let _ = word.read.fetch_update(Ordering::SeqCst, Ordering::SeqCst, update);
                    }
                    let write = Mark(word.write.load(Ordering::SeqCst));
                    if write.bytes() & touched != 0 && !write.is_by(mine) && !ordered(write) {
                        return Some(write.before(false));
                    }
                    continue;
                }
                let mine = Mark(mine.0 | if atomic { ATOMIC } else { 0 });
                let write = Mark(word.write.swap(mine.0, Ordering::SeqCst));
                if write.is_by(mine) {
                    let both = mine.0 | write.bytes();
                    // Where another thread has written meanwhile, it has seen this one's mark.
                    let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
                    let _ = word.write.compare_exchange(mine.0, both, success, failure);
                } else if write.bytes() & touched != 0 && !(atomic && write.has(ATOMIC)) {
                    return Some(write.before(true));
                }
                let read = Mark(word.read.load(Ordering::SeqCst));
                if read.bytes() & touched == 0 {
                    continue;
                }
                let own = read.is_by(mine) && !read.has(SEVERAL_THREADS);
                if read.has(SEVERAL_CLUSTERS) && read.cluster() == mine.cluster() {
                    return Some(Mark(word.other_read.load(Ordering::SeqCst)).read_before());
                }
                if read.has(SEVERAL_CLUSTERS) || !own && !ordered(read) {
                    return Some(Mark(read.0 & !ATOMIC).read_before());
                }
            }
        }
        None
    }
}

impl Mark {
    fn who(self) -> (u64, usize) {
        (self.cluster(), self.thread())
    }

    fn line(self) -> &'static Location<'static> {
        line(self.of(LINE, 12) as usize)
    }

    fn before(self, overlap: bool) -> Before {
        let kind = if self.has(ATOMIC) { AccessKind::Atomic } else { AccessKind::Write };
        Before { kind, who: self.who(), at: self.line(), overlap }
    }

    fn read_before(self) -> Before {
        Before { kind: AccessKind::Read, who: self.who(), at: self.line(), overlap: false }
    }
}

/// The lines of all kernels that have run, by number.
static LINES: RwLock<Vec<&'static Location<'static>>> = RwLock::new(Vec::new());

/// Lines that are found without a search.
const NEAR: usize = 64;

thread_local! {
    static NEAREST: RefCell<[(usize, u16); NEAR]> = const { RefCell::new([(0, 0); NEAR]) };
}

/// The number of a line.
#[inline]
fn line_number(at: &'static Location<'static>) -> u16 {
    let address = std::ptr::from_ref(at).addr();
    NEAREST.with_borrow_mut(|nearest| {
        let near = &mut nearest[(address >> 3) % NEAR];
        if near.0 != address {
            *near = (address, find_line(at));
        }
        near.1
    })
}

fn find_line(at: &'static Location<'static>) -> u16 {
    // A process has fewer; of more, reports would name the last.
    const MOST: usize = (1 << 12) - 1;
    let mut lines = LINES.write().unwrap_or_else(PoisonError::into_inner);
    let found = lines.iter().position(|&known| known == at).unwrap_or_else(|| {
        lines.push(at);
        lines.len() - 1
    });
    u16::try_from(found.min(MOST)).unwrap_or_default()
}

fn line(number: usize) -> &'static Location<'static> {
    LINES.read().unwrap_or_else(PoisonError::into_inner)[number]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who((cluster, thread, epoch): (u64, usize, u32)) -> Who {
        Who { cluster, thread, epoch, at: Location::caller() }
    }

    fn fresh() -> GlobalShadow {
        let mut words = [0u32; 4];
        GlobalShadow::new(&[Buffer::output("C", &mut words)])
    }

    /// An access: the bytes, and the cluster, the thread and the epoch.
    type Tried = (AccessKind, (usize, usize), (u64, usize, u32));

    /// Tells one access after the other; whether the last is in conflict.
    fn conflict(accesses: &[Tried]) -> bool {
        let shadow = fresh();
        let mut found = None;
        for &(kind, (start, bytes), by) in accesses {
            assert!(found.is_none(), "only the last access is in conflict");
            let ordered = |_: usize, at: u32| at != by.2;
            found = shadow.access((0, start, bytes), kind, &who(by), ordered);
        }
        found.is_some()
    }

    #[test]
    fn writes_of_one_byte_by_two_threads_conflict() {
        use AccessKind::{Atomic, Write};
        let me = (0, 0, 1);
        assert!(conflict(&[(Write, (0, 4), me), (Write, (0, 4), (0, 1, 9))]));
        assert!(conflict(&[
            (Write, (8, 2), me),
            (Write, (10, 2), (0, 1, 1)),
            (Write, (11, 1), (1, 1, 1))
        ]));
        assert!(!conflict(&[(Write, (8, 2), me), (Write, (10, 2), (0, 1, 1))]));
        assert!(!conflict(&[(Write, (0, 4), me), (Write, (0, 4), (0, 0, 2))]));
        assert!(!conflict(&[(Atomic, (0, 4), me), (Atomic, (0, 4), (3, 1, 1))]));
        assert!(conflict(&[(Atomic, (0, 4), me), (Write, (0, 4), (3, 1, 1))]));
    }

    #[test]
    fn a_read_and_a_write_conflict_unless_a_barrier_is_between() {
        use AccessKind::{Read, Write};
        let (me, neighbour, later, other) = ((0, 0, 1), (0, 1, 1), (0, 1, 2), (1, 0, 1));
        for [first, second] in [[Read, Write], [Write, Read]] {
            assert!(!conflict(&[(first, (0, 4), me), (second, (0, 4), me)]));
            assert!(conflict(&[(first, (0, 4), me), (second, (0, 4), neighbour)]));
            assert!(!conflict(&[(first, (0, 4), me), (second, (0, 4), later)]));
            assert!(conflict(&[(first, (0, 4), me), (second, (0, 4), other)]));
            assert!(!conflict(&[(first, (0, 2), me), (second, (2, 2), other)]));
        }
        // Two readers, of which the one that writes is the first; two blocks; barriers do not order those.
        assert!(conflict(&[(Read, (0, 4), me), (Read, (0, 4), neighbour), (Write, (0, 4), me)]));
        assert!(!conflict(&[
            (Read, (0, 4), me),
            (Read, (0, 4), neighbour),
            (Write, (0, 4), (0, 0, 2))
        ]));
        assert!(conflict(&[(Read, (0, 4), me), (Read, (0, 4), other), (Write, (0, 4), (0, 0, 5))]));
        assert!(conflict(&[
            (Read, (0, 4), other),
            (Read, (0, 4), me),
            (Read, (0, 4), (0, 0, 2)),
            (Write, (0, 4), (0, 0, 2))
        ]));
    }
}
