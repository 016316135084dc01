//! Operations of a warp: lanes wait for each other.

use std::cell::Cell;
use std::panic::Location;

use super::{EmulationError, Pause, Thread, WarpFault, current};

/// Lanes of a warp.
const LANES: u32 = 32;

/// What the lanes of a mask do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarpOperation {
    Ballot,
    ShuffleIdx,
    ShuffleUp,
    ShuffleDown,
    ShuffleXor,
    /// `mma.sync` with the lanes' [`Fragments`].
    Multiply,
}

/// A lane's elements of 16 x 4 by 4 x 8 products and of their accumulators, as `mma.sync.m16n8k4` has them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Fragments {
    pub(crate) a: [f64; 2],
    pub(crate) b: f64,
    pub(crate) c: [f64; 4],
}

impl Fragments {
    /// A lane's accumulators: a chain of multiply-adds each, from the fragments of all lanes.
    fn acc(lane: usize, of: impl Fn(usize) -> Self) -> [f64; 4] {
        let (row, col) = (lane / 4, lane % 4 * 2);
        let mut acc = of(lane).c;
        for step in 0..4 {
            let a = of(4 * row + step).a;
            for (at, sum) in acc.iter_mut().enumerate() {
                let b = of(4 * (col + at % 2) + step).b;
                *sum = a[at / 2].mul_add(b, *sum);
            }
        }
        acc
    }
}

impl WarpOperation {
    /// The lane that a shuffle's value comes from.
    fn source(self, lane: u32, argument: u32) -> u32 {
        match self {
            Self::Ballot | Self::Multiply => lane,
            Self::ShuffleIdx => argument % LANES,
            Self::ShuffleUp => lane.checked_sub(argument).unwrap_or(lane),
            Self::ShuffleDown => {
                lane.checked_add(argument).filter(|&source| source < LANES).unwrap_or(lane)
            }
            Self::ShuffleXor => lane ^ (argument % LANES),
        }
    }
}

/// One lane's part in an operation.
#[derive(Clone, Copy)]
struct Call {
    operation: WarpOperation,
    mask: u32,
    value: u32,
    argument: u32,
    at: &'static Location<'static>,
}

/// What a thread has to do with its warp.
#[derive(Default)]
pub(super) struct Lane {
    call: Cell<Option<Call>>,
    result: Cell<u32>,
    fragments: Cell<Fragments>,
    acc: Cell<[f64; 4]>,
}

impl Thread<'_> {
    /// Whether it waits for other lanes.
    pub(super) fn waits_for_lanes(&self) -> bool {
        self.lane.call.get().is_some()
    }

    /// Whether it does, and none of them comes after it.
    pub(super) fn waits_as_last_lane(&self) -> bool {
        self.lane.call.get().is_some_and(|call| call.mask >> (self.linear % LANES) == 1)
    }
}

/// The lane of the thread that runs on this worker.
pub(crate) fn lane() -> u32 {
    current().linear % LANES
}

/// Waits for the lanes of the mask and gives this lane its result.
#[track_caller]
pub(crate) fn warp(operation: WarpOperation, mask: u32, value: u32, argument: u32) -> u32 {
    let thread = current();
    let at = Location::caller();
    let lane = thread.linear % LANES;
    if mask & (1 << lane) == 0 {
        let (site, fault) = (thread.site(at), WarpFault::NotInMask);
        thread.stop(EmulationError::WarpDivergence { site, mask, lane, fault });
    }
    thread.lane.call.set(Some(Call { operation, mask, value, argument, at }));
    thread.suspend(Pause::Warp);
    thread.lane.result.get()
}

/// Waits for all lanes of the warp and multiplies their fragments.
#[track_caller]
pub(crate) fn multiply_in_warp(fragments: Fragments) -> [f64; 4] {
    let lane = &current().lane;
    lane.fragments.set(fragments);
    warp(WarpOperation::Multiply, u32::MAX, 0, 0);
    lane.acc.get()
}

/// Takes from the threads that wait in their warps those whose mask is complete, with their results.
///
/// Every other thread of the cluster has ended or waits for something else by now.
pub(super) fn meet(
    waiting: &mut Vec<usize>,
    threads: &[Thread<'_>],
    block_threads: usize,
) -> Result<Vec<usize>, EmulationError> {
    let mut missing = None;
    let (mut go, mut stay) = (Vec::new(), Vec::new());
    for &slot in waiting.iter() {
        if !threads[slot].waits_for_lanes() || together(slot, threads, block_threads, &mut go) {
            continue;
        }
        match outcome(slot, threads, block_threads) {
            Ok(result) => {
                threads[slot].lane.result.set(result);
                go.push(slot);
            }
            Err(error) => {
                stay.push(slot);
                let elsewhere = matches!(
                    error,
                    EmulationError::WarpDivergence { fault: WarpFault::Elsewhere, .. }
                );
                if missing.is_none() || !elsewhere {
                    missing = Some(error);
                }
            }
        }
    }
    if let (Some(error), true) = (missing, go.is_empty()) {
        return Err(error);
    }
    for &slot in &go {
        threads[slot].lane.call.set(None);
    }
    *waiting = stay;
    Ok(go)
}

/// Gives all lanes of a mask their results, where they are all here and each reads from one of them.
pub(super) fn together(
    slot: usize,
    threads: &[Thread<'_>],
    block_threads: usize,
    go: &mut Vec<usize>,
) -> bool {
    let thread = &threads[slot];
    let place = (thread.linear / LANES * LANES) as usize;
    let lanes = (block_threads - place).min(LANES as usize);
    let first = slot - (thread.linear % LANES) as usize;
    let lanes = &threads[first..first + lanes];
    let Some(call) = thread.lane.call.get() else { return false };
    let mut values = [0; LANES as usize];
    let mut ballot = 0;
    for lane in (0..LANES).filter(|lane| call.mask >> lane & 1 != 0) {
        let Some(other) = lanes.get(lane as usize).and_then(|of| of.lane.call.get()) else {
            return false;
        };
        let same = (other.operation, other.mask) == (call.operation, call.mask);
        if !same || !std::ptr::eq(other.at, call.at) {
            return false;
        }
        values[lane as usize] = other.value;
        ballot |= u32::from(other.value != 0) << lane;
    }
    let mut results = [ballot; LANES as usize];
    if call.operation != WarpOperation::Ballot {
        for (lane, of) in (0..).zip(lanes).filter(|(lane, _)| call.mask >> lane & 1 != 0) {
            let argument = of.lane.call.get().map_or(0, |call| call.argument);
            let source = call.operation.source(lane, argument);
            if call.mask >> source & 1 == 0 {
                return false;
            }
            results[lane as usize] = values[source as usize];
        }
    }
    if call.operation == WarpOperation::Multiply {
        let fragments = |lane: usize| lanes[lane].lane.fragments.get();
        for (lane, of) in lanes.iter().enumerate() {
            of.lane.acc.set(Fragments::acc(lane, fragments));
        }
    }
    for (lane, of) in lanes.iter().enumerate().filter(|(lane, _)| call.mask >> lane & 1 != 0) {
        of.lane.result.set(results[lane]);
        of.lane.call.set(None);
        go.push(first + lane);
    }
    true
}

/// One lane's result, from the calls of all lanes that wait.
fn outcome(
    slot: usize,
    threads: &[Thread<'_>],
    block_threads: usize,
) -> Result<u32, EmulationError> {
    let thread = &threads[slot];
    let first = (thread.linear / LANES * LANES) as usize;
    let block = &threads[slot - thread.linear as usize..][..block_threads];
    let call_of = |lane: u32| block.get(first + lane as usize).and_then(|of| of.lane.call.get());
    let call = thread.lane.call.get().expect("invariant: a lane that waits has called");
    let refuse = |lane, fault| EmulationError::WarpDivergence {
        site: thread.site(call.at),
        mask: call.mask,
        lane,
        fault,
    };
    let mut ballot = 0;
    for lane in (0..LANES).filter(|lane| call.mask & (1 << lane) != 0) {
        let same = |other: &Call| {
            (other.operation, other.mask, other.at) == (call.operation, call.mask, call.at)
        };
        let other = call_of(lane).filter(same);
        let other = other.ok_or_else(|| refuse(lane, WarpFault::Elsewhere))?;
        ballot |= u32::from(other.value != 0) << lane;
    }
    match call.operation {
        WarpOperation::Ballot => return Ok(ballot),
        WarpOperation::Multiply => {
            let lane = (thread.linear % LANES) as usize;
            let acc = Fragments::acc(lane, |lane| block[first + lane].lane.fragments.get());
            thread.lane.acc.set(acc);
            return Ok(0);
        }
        WarpOperation::ShuffleIdx
        | WarpOperation::ShuffleUp
        | WarpOperation::ShuffleDown
        | WarpOperation::ShuffleXor => {}
    }
    let source = call.operation.source(thread.linear % LANES, call.argument);
    if call.mask & (1 << source) == 0 {
        return Err(refuse(source, WarpFault::NoSource));
    }
    let value = call_of(source).expect("invariant: the source is one of the mask's lanes").value;
    Ok(value)
}
