//! In which order a product with operands in host memory goes on: what is brought up, multiplied,
//! fetched and put in its place next.

use std::collections::VecDeque;
use std::ops::Range;

use gemm_spec::Operand;

use super::bands::{Placed, Plan};

/// A part of a block that fits a staging buffer.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) of: Placed,
    /// Bytes of the block on the device.
    pub(super) bytes: Range<usize>,
}

/// What the program does next.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Brings a chunk up through the next buffer of that way.
    Upload(Chunk),
    /// Multiplies the band of that number, all of whose operands were brought up before.
    Multiply(usize),
    /// Has the next buffer of the way down filled with a chunk of C that is multiplied by then.
    Fetch(Chunk),
    /// Puts the chunk that was fetched first of those on the way into the caller's C.
    Drain(Chunk),
}

/// What is still to be done.
///
/// Chunks go up in the order of the plan: B, then each band of A (and of C, where it is read), and each
/// band is multiplied when it is up. Chunks of C come down in the order of the bands, no more of them on
/// the way than there are buffers, and one that is there is put in its place before the next goes up.
pub(super) struct Schedule {
    /// Uploads and products, in order.
    ahead: VecDeque<Step>,
    /// For each band that is not multiplied yet, the first of them in front: its chunks of C.
    bands: VecDeque<Vec<Chunk>>,
    /// Chunks of bands that are multiplied.
    fetchable: VecDeque<Chunk>,
    /// Chunks on the way down.
    fetched: VecDeque<Chunk>,
    slots: usize,
}

impl Schedule {
    /// The schedule of a plan with a number of buffers in each direction and how many bytes of an operand go at
    /// once; `factors` says whether A and B are read, `old_c` whether C is.
    pub(super) fn new(
        plan: &Plan,
        (slots, chunk_bytes): (usize, impl Fn(Operand) -> usize),
        factors: bool,
        old_c: bool,
    ) -> Self {
        let chunks = |of: Placed| {
            let (bytes, step) = (of.block.bytes(), chunk_bytes(of.operand).max(1));
            (0..bytes)
                .step_by(step)
                .map(move |from| Chunk { of, bytes: from..bytes.min(from.saturating_add(step)) })
        };
        let mut ahead = VecDeque::new();
        let mut up = |of: &Placed| ahead.extend(chunks(*of).map(Step::Upload));
        if factors {
            up(&plan.b);
        }
        let mut bands = VecDeque::new();
        for band in 0..plan.bands.len() {
            let mut up = |of: &Placed| ahead.extend(chunks(*of).map(Step::Upload));
            if factors {
                up(&plan.a[band]);
            }
            if old_c {
                up(&plan.c[band]);
            }
            ahead.push_back(Step::Multiply(band));
            bands.push_back(chunks(plan.c[band]).collect());
        }
        let (fetchable, fetched) = (VecDeque::new(), VecDeque::new());
        Self { ahead, bands, fetchable, fetched, slots: slots.max(1) }
    }

    /// The next step; `None` where all is done. `is_there` says whether the chunk that was fetched first
    /// is in its buffer.
    pub(super) fn next<E>(
        &mut self,
        is_there: impl FnOnce() -> Result<bool, E>,
    ) -> Result<Option<Step>, E> {
        if self.fetched.len() < self.slots
            && let Some(chunk) = self.fetchable.pop_front()
        {
            self.fetched.push_back(chunk.clone());
            return Ok(Some(Step::Fetch(chunk)));
        }
        if !self.fetched.is_empty() && (self.ahead.is_empty() || is_there()?) {
            return Ok(self.fetched.pop_front().map(Step::Drain));
        }
        let step = self.ahead.pop_front();
        if let Some(Step::Multiply(_)) = step {
            self.fetchable.extend(self.bands.pop_front().into_iter().flatten());
        }
        Ok(step)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use gemm_spec::Problem;

    use super::*;

    /// Follows a schedule to its end, where chunks are there as `there` says, and checks every promise.
    fn follow(plan: &Plan, slots: usize, slot_bytes: usize, reads: (bool, bool), seed: u64) {
        let mut schedule = Schedule::new(plan, (slots, |_| slot_bytes), reads.0, reads.1);
        let noise = Cell::new(seed);
        let there = || {
            noise.set(noise.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            Ok::<_, Infallible>(noise.get() >> 63 == 1)
        };
        let (mut up, mut multiplied) = (Vec::new(), 0);
        let (mut under_way, mut down) = (VecDeque::new(), Vec::new());
        while let Ok(Some(step)) = schedule.next(there) {
            match step {
                Step::Upload(chunk) => {
                    assert!(chunk.bytes.len() <= slot_bytes && !chunk.bytes.is_empty());
                    up.push((chunk.of.at, chunk.bytes));
                }
                Step::Multiply(band) => {
                    assert_eq!(band, multiplied);
                    multiplied += 1;
                    let mut needed = Vec::new();
                    if reads.0 {
                        needed.extend([&plan.b, &plan.a[band]]);
                    }
                    if reads.1 {
                        needed.push(&plan.c[band]);
                    }
                    for of in needed {
                        assert!(is_whole(&up, of), "{of:?} is not up for band {band}");
                    }
                }
                Step::Fetch(chunk) => {
                    assert!(plan.c[..multiplied].iter().any(|of| of.at == chunk.of.at));
                    under_way.push_back((chunk.of.at, chunk.bytes));
                    assert!(under_way.len() <= slots);
                }
                Step::Drain(chunk) => {
                    let first = under_way.pop_front().unwrap();
                    assert_eq!(first, (chunk.of.at, chunk.bytes));
                    down.push(first);
                }
            }
        }
        assert!(under_way.is_empty() && multiplied == plan.bands.len());
        assert!(plan.c.iter().all(|of| is_whole(&down, of)));
        let bytes = |chunks: &[(usize, Range<usize>)]| -> usize {
            chunks.iter().map(|(_, bytes)| bytes.len()).sum()
        };
        let blocks =
            |blocks: &[Placed]| -> usize { blocks.iter().map(|of| of.block.bytes()).sum() };
        assert_eq!(bytes(&down), blocks(&plan.c));
        let factors = blocks(&plan.a) + plan.b.block.bytes();
        let expected = usize::from(reads.0) * factors + usize::from(reads.1) * blocks(&plan.c);
        assert_eq!(bytes(&up), expected);
    }

    /// Whether chunks follow one another from the block's beginning to its end.
    fn is_whole(chunks: &[(usize, Range<usize>)], of: &Placed) -> bool {
        let mut own = chunks.iter().filter(|(at, _)| *at == of.at);
        let end = own.try_fold(0, |end, (_, bytes)| (end == bytes.start).then_some(bytes.end));
        end == Some(of.block.bytes())
    }

    #[test]
    fn everything_travels_once_in_an_order_that_keeps_every_promise() {
        let problem = Problem::<f32>::new(700, 301, 45);
        for rows in [700, 256] {
            let bands = (0..700).step_by(rows).map(|start| start..700.min(start + rows));
            let plan = Plan::new(&problem, bands.collect());
            for slots in 1..5 {
                for slot_bytes in [1000, 4096, 100_001, 1 << 24] {
                    for reads in [(true, true), (true, false), (false, true), (false, false)] {
                        (0..8).for_each(|seed| follow(&plan, slots, slot_bytes, reads, seed));
                    }
                }
            }
        }
    }

    #[test]
    fn chunks_that_are_there_are_drained_before_more_goes_up() {
        let plan = Plan::new(&Problem::<f32>::new(512, 512, 512), vec![0..256, 256..512]);
        let mut schedule = Schedule::new(&plan, (2, |_| 1 << 20), true, false);
        let mut names = Vec::new();
        while let Ok(Some(step)) = schedule.next(|| Ok::<_, Infallible>(true)) {
            names.push(match step {
                Step::Upload(Chunk { of: Placed { operand: Operand::B, .. }, .. }) => "B",
                Step::Upload(_) => "A",
                Step::Multiply(_) => "multiply",
                Step::Fetch(_) => "fetch",
                Step::Drain(_) => "drain",
            });
        }
        let one = ["A", "multiply", "fetch", "drain"];
        assert_eq!(names, [&["B"][..], &one, &one].concat());
    }
}
