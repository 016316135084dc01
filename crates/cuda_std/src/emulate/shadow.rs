//! What the emulator remembers of each word of a block's shared memory: who touched it, when and from where.

use std::panic::Location;

use super::error::AccessKind;

/// Bytes of one word of shadow state.
const WORD: usize = 4;

/// The words that `bytes` from `start` on touch, each with a bit for each of its bytes.
fn words(start: usize, bytes: usize) -> impl Iterator<Item = (usize, u8)> {
    let end = start + bytes;
    (start / WORD..end.div_ceil(WORD)).map(move |word| {
        let from = start.saturating_sub(word * WORD);
        let to = (end - word * WORD).min(WORD);
        (word, ((1u8 << to) - 1) & !((1u8 << from) - 1))
    })
}

/// An access that a word remembers.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    /// Linear index of the thread in its block.
    pub(super) thread: u32,
    /// One more than the barriers of the block before it; 0 means no access.
    epoch: u32,
    /// Bytes of the word that it touched.
    bytes: u8,
    pub(super) at: &'static Location<'static>,
}

impl Mark {
    /// Whether another thread made it in the same epoch on some of the same bytes.
    #[inline]
    fn conflicts(&self, other: &Self) -> bool {
        self.epoch == other.epoch && self.thread != other.thread && self.bytes & other.bytes != 0
    }

    /// Remembers a newer access, adding to an older one of the same thread and epoch.
    #[inline]
    fn replace(&mut self, mut new: Self) {
        if self.epoch == new.epoch && self.thread == new.thread {
            new.bytes |= self.bytes;
        }
        *self = new;
    }
}

/// A word of shared memory.
#[derive(Clone, Copy)]
struct Word {
    /// The last write.
    write: Mark,
    /// Reads of the newest epoch by two different threads: whichever thread writes next, one of the two is
    /// another thread.
    reads: [Mark; 2],
    /// The bytes that somebody has written.
    written: u8,
    /// The thread whose copy has not landed here, and where it started it.
    departed_by: u32,
    departed: Option<&'static Location<'static>>,
}

/// What is wrong with an access to shared memory.
pub(super) enum Conflict {
    /// Another thread touched the word since the last barrier.
    Race { byte: usize, kind: AccessKind, other: Mark },
    /// Nobody wrote it.
    Uninitialised { byte: usize },
    /// A copy of that thread, started there, has not landed.
    Pending { byte: usize, thread: u32, at: &'static Location<'static> },
}

/// The words of one block's shared memory.
pub(super) struct SharedShadow(Vec<Word>);

impl SharedShadow {
    #[track_caller]
    pub(super) fn new(bytes: usize) -> Self {
        let none = Mark { thread: 0, epoch: 0, bytes: 0, at: Location::caller() };
        let word =
            Word { write: none, reads: [none; 2], written: 0, departed_by: 0, departed: None };
        Self(vec![word; bytes.div_ceil(WORD)])
    }

    /// Records that a copy is on its way; until it arrives, nobody has written the words.
    pub(super) fn depart(
        &mut self,
        (start, bytes): (usize, usize),
        thread: u32,
        at: &'static Location<'static>,
    ) {
        for (index, touched) in words(start, bytes) {
            let word = &mut self.0[index];
            word.departed_by = thread;
            word.departed = Some(at);
            word.written &= !touched;
        }
    }

    /// Records that it has arrived.
    pub(super) fn arrive(&mut self, (start, bytes): (usize, usize)) {
        for (index, _) in words(start, bytes) {
            self.0[index].departed = None;
        }
    }

    /// Records an access and says what is wrong with it.
    pub(super) fn access(
        &mut self,
        kind: AccessKind,
        (start, bytes): (usize, usize),
        (thread, epoch): (u32, u32),
        at: &'static Location<'static>,
    ) -> Option<Conflict> {
        let mut missing = None;
        for (index, touched) in words(start, bytes) {
            let word = &mut self.0[index];
            let new = Mark { thread, epoch, bytes: touched, at };
            let byte = (index * WORD).max(start);
            if let Some(at) = word.departed {
                return Some(Conflict::Pending { byte, thread: word.departed_by, at });
            }
            if word.write.conflicts(&new) {
                return Some(Conflict::Race { byte, kind: AccessKind::Write, other: word.write });
            }
            match kind {
                AccessKind::Read => {
                    if word.written & touched != touched {
                        missing.get_or_insert(Conflict::Uninitialised { byte });
                    }
                    let [one, two] = &mut word.reads;
                    if one.epoch != epoch || one.thread == thread {
                        one.replace(new);
                    } else if two.epoch != epoch || two.thread == thread {
                        two.replace(new);
                    }
                }
                AccessKind::Write | AccessKind::Atomic => {
                    if let Some(&other) = word.reads.iter().find(|read| read.conflicts(&new)) {
                        return Some(Conflict::Race { byte, kind: AccessKind::Read, other });
                    }
                    word.write.replace(new);
                    word.written |= touched;
                }
            }
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_carry_the_bytes_that_are_touched() {
        assert_eq!(words(4, 8).collect::<Vec<_>>(), [(1, 0b1111), (2, 0b1111)]);
        assert_eq!(words(6, 2).collect::<Vec<_>>(), [(1, 0b1100)]);
        assert_eq!(words(3, 2).collect::<Vec<_>>(), [(0, 0b1000), (1, 0b0001)]);
    }

    #[test]
    fn halves_of_a_word_belong_to_whom_they_are_written_by() {
        let at = Location::caller();
        let mut shadow = SharedShadow::new(4);
        assert!(shadow.access(AccessKind::Write, (0, 2), (0, 1), at).is_none());
        assert!(shadow.access(AccessKind::Write, (2, 2), (1, 1), at).is_none());
        assert!(shadow.access(AccessKind::Read, (0, 4), (2, 2), at).is_none());
        assert!(shadow.access(AccessKind::Write, (3, 1), (0, 2), at).is_some());
    }
}
