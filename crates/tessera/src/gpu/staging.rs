//! Pinned buffers, through which operands travel between host memory and the device.

use std::sync::Arc;

use cuda_lazy::{Context, DevicePtr, Event, LineCopy, PinnedMemory, Stream, Timing};

use super::refused;
use crate::error::Error;

/// Some bytes on the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeviceBytes {
    pub(super) address: DevicePtr,
    pub(super) bytes: usize,
}

/// The least bytes of a buffer: small products get what the next one can use, too.
const LEAST_BYTES: usize = 64 << 10;

/// Whose turn it is among buffers that are used one after the other.
#[derive(Debug, Default)]
struct Turns {
    /// Buffers whose copies are under way, the longest first from `first` on.
    under_way: usize,
    first: usize,
    slots: usize,
}

impl Turns {
    fn new(slots: usize) -> Self {
        Self { slots: slots.max(1), ..Self::default() }
    }

    /// The buffer to be used next; `None` where all are under way.
    fn take(&mut self) -> Option<usize> {
        if self.under_way == self.slots {
            return None;
        }
        let slot = (self.first + self.under_way) % self.slots;
        self.under_way += 1;
        Some(slot)
    }

    /// The buffer that has been under way for the longest, if there is one.
    fn oldest(&self) -> Option<usize> {
        (self.under_way > 0).then_some(self.first)
    }

    /// The oldest is free again.
    fn give_back(&mut self) {
        if self.under_way > 0 {
            self.first = (self.first + 1) % self.slots;
            self.under_way -= 1;
        }
    }
}

/// A pinned buffer, and when its last copy is over.
struct Slot {
    memory: Option<PinnedMemory>,
    done: Event,
}

/// One direction: buffers that are filled and emptied in turns, and a stream for their copies, which may as well be
/// queued in another stream of the context: whoever does that waits for it before the lane is settled.
pub(super) struct Lane {
    slots: Vec<Slot>,
    turns: Turns,
    stream: Arc<Stream>,
}

impl Lane {
    /// A lane of that many buffers, which get memory when they are used.
    pub(super) fn new(context: &Context, slots: usize) -> Result<Self, Error> {
        let failed = || refused("preparing the way between host memory and the device");
        let stream = Stream::new(context).map_err(failed())?;
        let slot = |_| {
            let done = Event::new(context, Timing::Off).map_err(failed())?;
            Ok(Slot { memory: None, done })
        };
        let slots: Vec<Slot> = (0..slots.max(1)).map(slot).collect::<Result<_, Error>>()?;
        Ok(Self { turns: Turns::new(slots.len()), slots, stream: Arc::new(stream) })
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Waits until nothing is under way.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        self.turns = Turns::new(self.slots.len());
        self.stream.synchronize().map_err(refused("waiting for copies"))
    }

    /// Fills the next buffer and queues its copy to the device. Where all buffers are under way the oldest
    /// is waited for.
    ///
    /// # Safety
    /// The bytes are of the lane's context, and nothing but the queue's stream and streams that wait for it
    /// uses them until the copy is over.
    pub(super) unsafe fn upload(
        &mut self,
        queue: &Stream,
        to: DeviceBytes,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), Error> {
        let slot = self.take(to.bytes)?;
        let Slot { memory: Some(memory), .. } = &mut self.slots[slot] else {
            unreachable!("invariant: a slot that was taken has memory");
        };
        let data = &mut memory.as_mut_slice()[..to.bytes];
        fill(data);
        let from = data.as_ptr();
        // SAFETY: the buffer is pinned and as long as the lane, and nobody writes it before `take`
        // has waited for the event behind this copy. The device's memory belongs to the caller, who
        // lets nothing but this stream and those that wait for it touch it.
        unsafe { self.upload_in_place(queue, to.address, from, LineCopy::piece(to.bytes))? };
        self.record(queue, slot)
    }

    /// Has a slot wait for what was queued.
    fn record(&self, queue: &Stream, slot: usize) -> Result<(), Error> {
        self.slots[slot].done.record(queue).map_err(refused("ordering copies"))
    }

    /// Queues a copy to the device out of memory that is pinned itself.
    ///
    /// # Safety
    /// The lines are in pinned memory, and nobody writes them until the copy is over; the rest as [`Lane::upload`].
    pub(super) unsafe fn upload_in_place(
        &self,
        queue: &Stream,
        to: DevicePtr,
        from: *const u8,
        copy: LineCopy,
    ) -> Result<(), Error> {
        let (context, failed) = (queue.context(), || refused("copying an operand to the device"));
        let _current = context.enter().map_err(failed())?;
        let (driver, stream) = (context.driver(), queue.as_raw());
        // SAFETY: the caller's promises; the stream is one of the context that was entered.
        unsafe { driver.copy_lines_to_device(stream, to, from, copy) }.map_err(failed())
    }

    /// Queues a copy from the device into memory that is pinned itself, which takes a turn among the buffers.
    ///
    /// # Safety
    /// The lines are in pinned memory, and nobody uses them until the copy is over; the rest as [`Lane::fetch`].
    pub(super) unsafe fn fetch_in_place(
        &mut self,
        queue: &Stream,
        to: *mut u8,
        from: DevicePtr,
        copy: LineCopy,
    ) -> Result<(), Error> {
        let slot = self.turn()?;
        // SAFETY: the caller's promises.
        unsafe { copy_down(queue, to, from, copy)? };
        self.record(queue, slot)
    }

    /// Has the next buffer filled with what lies on the device.
    ///
    /// # Safety
    /// As [`Lane::upload`], of the source.
    pub(super) unsafe fn fetch(&mut self, queue: &Stream, from: DeviceBytes) -> Result<(), Error> {
        let slot = self.take(from.bytes)?;
        let Slot { memory: Some(memory), .. } = &mut self.slots[slot] else {
            unreachable!("invariant: a slot that was taken has memory");
        };
        let to = memory.as_mut_slice()[..from.bytes].as_mut_ptr();
        // SAFETY: as in `upload`: nobody reads or writes the buffer before the event behind this copy.
        unsafe { copy_down(queue, to, from.address, LineCopy::piece(from.bytes))? };
        self.record(queue, slot)
    }

    /// Whether the copy that is the longest under way is over.
    pub(super) fn is_there(&self) -> Result<bool, Error> {
        let Some(slot) = self.turns.oldest() else { return Ok(false) };
        self.slots[slot].done.is_done().map_err(refused("waiting for a copy"))
    }

    /// Waits for the copy that is the longest under way and uses the first bytes of its buffer, which is
    /// free then.
    pub(super) fn drain(&mut self, len: usize, empty: impl FnOnce(&[u8])) -> Result<(), Error> {
        let Some(slot) = self.turns.oldest() else { return Ok(()) };
        let Slot { memory, done } = &self.slots[slot];
        done.synchronize().map_err(refused("waiting for a copy"))?;
        if let Some(memory) = memory.as_ref().filter(|_| len > 0) {
            empty(&memory.as_slice()[..len]);
        }
        self.turns.give_back();
        Ok(())
    }

    /// The next slot, once its last copy is over.
    fn turn(&mut self) -> Result<usize, Error> {
        if let Some(slot) = self.turns.take() {
            return Ok(slot);
        }
        self.drain(0, |_| ())?;
        Ok(self.turns.take().unwrap_or_default())
    }

    /// The next buffer, once its last copy is over, with room for that many bytes.
    fn take(&mut self, len: usize) -> Result<usize, Error> {
        let index = self.turn()?;
        self.slots[index].reserve(self.stream.context(), len)?;
        Ok(index)
    }

    /// Gives every buffer room for that many bytes. Nothing is under way.
    pub(super) fn reserve(&mut self, len: usize) -> Result<(), Error> {
        let context = self.stream.context();
        self.slots.iter_mut().try_for_each(|slot| slot.reserve(context, len))
    }
}

/// Queues a copy from the device.
///
/// # Safety
/// As [`Lane::fetch_in_place`].
unsafe fn copy_down(
    queue: &Stream,
    to: *mut u8,
    from: DevicePtr,
    copy: LineCopy,
) -> Result<(), Error> {
    let (context, failed) = (queue.context(), || refused("copying C from the device"));
    let _current = context.enter().map_err(failed())?;
    let (driver, stream) = (context.driver(), queue.as_raw());
    // SAFETY: the caller's promises; the stream is one of the context that was entered.
    unsafe { driver.copy_lines_to_host(stream, to, from, copy) }.map_err(failed())
}

impl Slot {
    /// Makes room for that many bytes; nothing is under way here.
    fn reserve(&mut self, context: &Context, len: usize) -> Result<(), Error> {
        if self.memory.as_ref().is_none_or(|memory| memory.len() < len) {
            // The old one goes first.
            self.memory = None;
            let bytes = len.next_power_of_two().max(LEAST_BYTES);
            let during = format!("pinning {bytes} bytes of host memory");
            self.memory = Some(PinnedMemory::new(context, bytes).map_err(refused(during))?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// Every order of takings and returns up to ten of them, held against a queue of slots.
    #[test]
    fn a_slot_is_taken_again_only_when_its_copy_was_waited_for() {
        for slots in 1..5 {
            for orders in 0..1 << 10 {
                let mut turns = Turns::new(slots);
                let mut under_way = VecDeque::new();
                let mut taken = 0;
                for step in 0..10 {
                    if orders >> step & 1 == 1 {
                        let slot = turns.take();
                        assert_eq!(slot.is_none(), under_way.len() == slots);
                        if let Some(slot) = slot {
                            assert!(!under_way.contains(&slot));
                            // One after the other, so that all have their turn.
                            assert_eq!(slot, taken % slots);
                            taken += 1;
                            under_way.push_back(slot);
                        }
                    } else {
                        assert_eq!(turns.oldest(), under_way.pop_front());
                        turns.give_back();
                    }
                }
            }
        }
    }
}
