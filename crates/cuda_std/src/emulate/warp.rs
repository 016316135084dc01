//! Operations of a warp: lanes wait for each other within one round between barriers.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::panic::Location;

use super::{EmulationError, Pause, Running, Thread, WarpFault, current};

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
}

impl WarpOperation {
    /// The lane that a shuffle's value comes from.
    fn source(self, lane: u32, argument: u32) -> u32 {
        match self {
            Self::Ballot => lane,
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

/// Takes from the threads that wait in their warps those whose mask is complete, with their results.
///
/// Every other thread of the block has ended or waits at a barrier by now.
pub(super) fn meet<'a>(waiting: &mut Running<'a>) -> Result<Running<'a>, EmulationError> {
    let calls: HashMap<u32, Call> = waiting
        .iter()
        .filter_map(|(thread, _)| thread.lane.call.get().map(|call| (thread.linear, call)))
        .collect();
    let mut complete = HashSet::new();
    let mut missing = None;
    for (thread, _) in waiting.iter() {
        match outcome(thread, &calls) {
            Ok(result) => {
                thread.lane.result.set(result);
                complete.insert(thread.linear);
            }
            Err(EmulationError::WarpDivergence { fault: WarpFault::Elsewhere, .. })
                if missing.is_some() => {}
            Err(error) => missing = Some(error),
        }
    }
    if let (Some(error), true) = (missing, complete.is_empty()) {
        return Err(error);
    }
    let (go, stay) = std::mem::take(waiting)
        .into_iter()
        .partition(|(thread, _)| complete.contains(&thread.linear));
    *waiting = stay;
    Ok(go)
}

/// One lane's result, from the calls of all lanes that wait.
fn outcome(thread: &Thread<'_>, calls: &HashMap<u32, Call>) -> Result<u32, EmulationError> {
    let first = thread.linear / LANES * LANES;
    let call = calls[&thread.linear];
    let refuse = |lane, fault| EmulationError::WarpDivergence {
        site: thread.site(call.at),
        mask: call.mask,
        lane,
        fault,
    };
    let mut ballot = 0;
    for lane in (0..LANES).filter(|lane| call.mask & (1 << lane) != 0) {
        let same = |other: &&Call| {
            (other.operation, other.mask, other.at) == (call.operation, call.mask, call.at)
        };
        let other = calls.get(&(first + lane)).filter(same);
        let other = other.ok_or_else(|| refuse(lane, WarpFault::Elsewhere))?;
        ballot |= u32::from(other.value != 0) << lane;
    }
    if call.operation == WarpOperation::Ballot {
        return Ok(ballot);
    }
    let source = call.operation.source(thread.linear % LANES, call.argument);
    if call.mask & (1 << source) == 0 {
        return Err(refuse(source, WarpFault::NoSource));
    }
    Ok(calls[&(first + source)].value)
}
