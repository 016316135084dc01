//! Operations of a warp: lanes wait for each other.

use std::cell::Cell;
use std::panic::Location;

use super::tensor_core::{DEPTH, Factor, Factors};
use super::{EmulationError, Pause, Thread, WarpFault, current, tensor_core};

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
    /// `mma.sync` or `ldmatrix` with the lanes' [`Fragments`].
    Fragments,
}

/// A lane's elements of a product and of its accumulators, in the order of `mma.sync`, or a row of a matrix that is
/// read.
#[derive(Clone, Copy)]
enum Fragments {
    /// 16 x 4 by 4 x 8.
    Double { a: [f64; 2], b: f64, c: [f64; 4] },
    /// 16 x 16 by 16 x 8, pairs in k in a word.
    Half { factor: Factor, a: [u32; 4], b: [u32; 2], c: [f32; 4] },
    /// Eight numbers of 16 bits.
    Row { pairs: [u32; 4], transposed: bool },
}

impl Default for Fragments {
    fn default() -> Self {
        Self::Double { a: [0.0; 2], b: 0.0, c: [0.0; 4] }
    }
}

/// What all lanes have of a product of a warp, 16 rows and 8 columns of C, or of four matrices: words, which numbers
/// of f64 hold exactly.
type Acc = [[f64; 4]; LANES as usize];

/// What each lane gets from the fragments of all lanes, which are of the same kind.
fn combine(of: &[Fragments; LANES as usize]) -> Acc {
    match of[0] {
        Fragments::Double { .. } => multiply_doubles(of),
        Fragments::Half { factor, .. } => multiply_halves(factor, of),
        Fragments::Row { transposed, .. } => distribute(transposed, of),
    }
}

/// Two elements of each of four 8 x 8 matrices, whose rows are those of eight lanes each.
fn distribute(transposed: bool, of: &[Fragments; LANES as usize]) -> Acc {
    let element = |matrix: usize, row: usize, col: usize| match of[8 * matrix + row] {
        Fragments::Row { pairs, .. } => pairs[col / 2] >> (16 * (col % 2)) & 0xffff,
        Fragments::Double { .. } | Fragments::Half { .. } => {
            unreachable!("invariant: lanes at one place have one type")
        }
    };
    std::array::from_fn(|lane| {
        let (group, first) = (lane / 4, lane % 4 * 2);
        std::array::from_fn(|matrix| {
            let of = |at: usize| {
                if transposed { element(matrix, at, group) } else { element(matrix, group, at) }
            };
            f64::from(of(first) | of(first + 1) << 16)
        })
    })
}

/// A chain of multiply-adds for each element.
fn multiply_doubles(of: &[Fragments; LANES as usize]) -> Acc {
    let parts = |lane: usize| match of[lane] {
        Fragments::Double { a, b, c } => (a, b, c),
        Fragments::Half { .. } | Fragments::Row { .. } => {
            unreachable!("invariant: lanes at one place have one type")
        }
    };
    std::array::from_fn(|lane| {
        let (row, col) = (lane / 4, lane % 4 * 2);
        let (.., mut acc) = parts(lane);
        for step in 0..4 {
            let (a, ..) = parts(4 * row + step);
            for (at, sum) in acc.iter_mut().enumerate() {
                let (_, b, _) = parts(4 * (col + at % 2) + step);
                *sum = a[at / 2].mul_add(b, *sum);
            }
        }
        acc
    })
}

/// The sums of the tensor core, which are numbers of f32.
fn multiply_halves(factor: Factor, of: &[Fragments; LANES as usize]) -> Acc {
    const ROWS: usize = 16;
    const COLS: usize = 8;
    let (mut a, mut b, mut c) = ([0; ROWS * DEPTH], [0; COLS * DEPTH], [0.0; ROWS * COLS]);
    for (lane, parts) in of.iter().enumerate() {
        let Fragments::Half { a: of_a, b: of_b, c: of_c, .. } = *parts else {
            unreachable!("invariant: lanes at one place have one type")
        };
        let (group, pair) = (lane / 4, lane % 4 * 2);
        let halves = |word: u32| {
            let [b0, b1, b2, b3] = word.to_le_bytes();
            [u16::from_le_bytes([b0, b1]), u16::from_le_bytes([b2, b3])]
        };
        for (at, word) in of_a.into_iter().enumerate() {
            let (row, step) = (group + at % 2 * 8, pair + at / 2 * 8);
            for (i, bits) in halves(word).into_iter().enumerate() {
                a[(step + i) * ROWS + row] = bits;
            }
        }
        for (at, word) in of_b.into_iter().enumerate() {
            for (i, bits) in halves(word).into_iter().enumerate() {
                b[(pair + at * 8 + i) * COLS + group] = bits;
            }
        }
        for (at, sum) in of_c.into_iter().enumerate() {
            c[(group + at / 2 * 8) * COLS + pair + at % 2] = sum;
        }
    }
    let (a, b) = (Factors::new(factor, ROWS, &a), Factors::new(factor, COLS, &b));
    tensor_core::multiply(&a, &b, &mut c);
    std::array::from_fn(|lane| {
        let (group, pair) = (lane / 4, lane % 4 * 2);
        std::array::from_fn(|at| f64::from(c[(group + at / 2 * 8) * COLS + pair + at % 2]))
    })
}

impl WarpOperation {
    /// The lane that a shuffle's value comes from.
    fn source(self, lane: u32, argument: u32) -> u32 {
        match self {
            Self::Ballot | Self::Fragments => lane,
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

/// Waits for all lanes of the warp and multiplies 16 x 4 by 4 x 8 numbers of f64.
#[track_caller]
pub(crate) fn multiply_in_warp((a, b): ([f64; 2], f64), c: [f64; 4]) -> [f64; 4] {
    together_with(Fragments::Double { a, b, c })
}

/// Waits for all lanes of the warp and multiplies 16 x 16 by 16 x 8 numbers of 16 bits.
#[track_caller]
pub(crate) fn multiply_halves_in_warp(
    factor: Factor,
    (a, b): ([u32; 4], [u32; 2]),
    c: [f32; 4],
) -> [f32; 4] {
    let acc = together_with(Fragments::Half { factor, a, b, c });
    #[expect(clippy::cast_possible_truncation, reason = "they are numbers of f32")]
    acc.map(|acc| acc as f32)
}

/// Waits for all lanes of the warp, each of which has a row of eight numbers of 16 bits, and distributes these.
#[track_caller]
pub(crate) fn distribute_in_warp(pairs: [u32; 4], transposed: bool) -> [u32; 4] {
    let words = together_with(Fragments::Row { pairs, transposed });
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "they are words")]
    words.map(|word| word as u32)
}

#[track_caller]
fn together_with(fragments: Fragments) -> [f64; 4] {
    let lane = &current().lane;
    lane.fragments.set(fragments);
    warp(WarpOperation::Fragments, u32::MAX, 0, 0);
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
    if call.operation == WarpOperation::Fragments {
        let acc = combine(&std::array::from_fn(|lane| lanes[lane].lane.fragments.get()));
        for (of, acc) in lanes.iter().zip(acc) {
            of.lane.acc.set(acc);
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
        WarpOperation::Fragments => {
            let lane = (thread.linear % LANES) as usize;
            let fragments = std::array::from_fn(|lane| block[first + lane].lane.fragments.get());
            thread.lane.acc.set(combine(&fragments)[lane]);
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
