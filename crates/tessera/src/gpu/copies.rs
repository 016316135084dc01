//! What the way between host memory and a GPU costs, without a product.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::HostPath;
use super::host_bytes::{HostBytes, HostBytesMut};
use super::host_path::part;
use super::pitched::Block;
use crate::error::Error;

/// Where the host's bytes of a copy are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostMemory {
    /// In memory as programs allocate it: they travel as operands do.
    Allocated,
    /// In the pinned buffers already: the bus alone is at work.
    Pinned,
}

impl HostPath<'_> {
    /// Copies that many bytes to the device and then back, and gives how long each took by the host's
    /// clock.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] and [`Error::Cuda`].
    pub fn copies(&self, host: &mut [u8], from: HostMemory) -> Result<(Duration, Duration), Error> {
        let (pool, slot_bytes) = (self.pool(), self.pipeline().slot_bytes.max(1));
        let block = Block::new(0, 1, host.len(), host.len());
        let allocated = from == HostMemory::Allocated;
        self.with_staging(|staging| {
            let (memory, mut lanes) = staging.ready(self.gpu(), block.bytes())?;
            let [up, down] = &mut lanes.lanes;
            let [going_up, coming_down] = [&*up, &*down].map(|lane| Arc::clone(lane.stream()));
            let starts = (0..block.bytes()).step_by(slot_bytes);
            let chunks = starts.map(|from| from..block.bytes().min(from + slot_bytes));

            let started = Instant::now();
            for bytes in chunks.clone() {
                let fill = |staged: &mut [u8]| {
                    if allocated {
                        // SAFETY: the block is all of the bytes.
                        unsafe { block.load(pool, HostBytes::of(host), bytes.start, staged) };
                    }
                };
                // SAFETY: the memory is this path's own, which one product at a time has.
                unsafe { up.upload(&going_up, part(memory, 0, &bytes), fill)? };
            }
            up.settle()?;
            let there = started.elapsed();

            let started = Instant::now();
            let (mut ahead, mut coming) = (chunks, VecDeque::new());
            loop {
                while coming.len() < down.slots()
                    && let Some(bytes) = ahead.next()
                {
                    // SAFETY: as above; the way up has ended.
                    unsafe { down.fetch(&coming_down, part(memory, 0, &bytes))? };
                    coming.push_back(bytes);
                }
                let Some(bytes) = coming.pop_front() else { break };
                down.drain(bytes.len(), |data| {
                    if allocated {
                        let mut host = HostBytesMut::of(host);
                        // SAFETY: the block is all of the bytes.
                        unsafe { block.store(pool, bytes.start, data, &mut host) };
                    }
                })?;
            }
            Ok((there, started.elapsed()))
        })
    }
}
