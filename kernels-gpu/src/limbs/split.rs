//! The helpers that split an operand into limbs.
//!
//! A "row" is a row of A or a column of B. Of a K-major operand one block splits a row; if the row
//! is to be scaled, the block first reads it for its largest magnitude. Of an MN-major operand a
//! block transposes 32 k elements of 128 rows in shared memory and splits them; if they are to be
//! scaled, an earlier launch has found the largest magnitudes.

use cuda_std::memory::{Global, GlobalMut, Shared, global, global_mut};
use cuda_std::{atomic, shared, thread, warp};
use gemm_spec::params::{RowAmaxParams, SplitKMajorParams, SplitMnMajorParams};
use gemm_spec::split::{
    AMAX_BLOCK_K, BLOCK_K, NON_FINITE, OCTET, OUT_OF_RANGE, PANEL_ROWS, scale_exponent, tiles,
};

use super::{HELPER_THREADS, LimbSplit, TRANSPOSE_PITCH};
use crate::parts::quad::Quad;

/// The least bits, without the sign, of an f32 that is not finite.
const INFINITY_BITS: u32 = f32::INFINITY.to_bits();
/// The bit of an f32 that is its sign.
const SIGN: u32 = 1 << 31;
/// Threads of a warp.
const LANES: u32 = 32;

/// The destination of an operand's limbs, and of what splitting finds out about its range.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) limbs: GlobalMut<u8>,
    pub(crate) exponents: GlobalMut<i32>,
    pub(crate) underflows: GlobalMut<u32>,
    pub(crate) flags: GlobalMut<u32>,
}

impl Target {
    /// # Safety
    /// They are valid in the whole launch.
    #[inline(always)]
    unsafe fn new(
        limbs: *mut u8,
        exponents: *mut i32,
        underflows: *mut u32,
        flags: *mut u32,
    ) -> Self {
        Self {
            // SAFETY: they are valid in the whole launch.
            limbs: unsafe { global_mut(limbs) },
            // SAFETY: so are these.
            exponents: unsafe { global_mut(exponents) },
            // SAFETY: so are these.
            underflows: unsafe { global_mut(underflows) },
            // SAFETY: so are these.
            flags: unsafe { global_mut(flags) },
        }
    }
}

/// Defines the entries for one kind of limbs.
macro_rules! split_entries {
    ($k_major:ident, $mn_major:ident: $limbs:ty) => {
        $crate::parts::entries::entry! {
            /// # Safety
            /// 1. `from` is valid for a row of k elements at `ld` for each block; `limbs`, `exponents`,
            ///    `underflows` and `flags` are those of a workspace for as many rows.
            /// 2. A block has 256 threads and the shared memory of the kernel's spec; k >= 1.
            pub unsafe fn $k_major(params: SplitKMajorParams) {
                // SAFETY: the obligations are the same.
                unsafe { $crate::limbs::split::k_major::<$limbs>(params) };
            }
        }

        $crate::parts::entries::entry! {
            /// # Safety
            /// 1. `from` is valid for k lines of `rows` elements at `ld`; where rows are scaled,
            ///    `row_amax` has their largest magnitudes; `limbs`, `exponents`, `underflows` and
            ///    `flags` are those of a workspace for `rows` rows.
            /// 2. The grid has a block for each 128 rows along x and for each tile along k along y; a
            ///    block has 256 threads and the shared memory of the kernel's spec.
            pub unsafe fn $mn_major(params: SplitMnMajorParams) {
                // SAFETY: the obligations are the same.
                unsafe { $crate::limbs::split::mn_major::<$limbs>(params) };
            }
        }
    };
}
pub(crate) use split_entries;

/// # Safety
/// The obligations of the entry.
#[inline(always)]
pub(crate) unsafe fn k_major<L: LimbSplit>(params: SplitKMajorParams) {
    let SplitKMajorParams { k, from, ld, limbs, exponents, underflows, flags } = params;
    // SAFETY: obligation 1, of the operand.
    let from = unsafe { global(from) };
    // SAFETY: obligation 1, of what is written.
    let target = unsafe { Target::new(limbs, exponents, underflows, flags) };
    let (row, linear) = (thread::block_idx_x(), thread::thread_idx_x());
    let from = from.wrapping_add((u64::from(row) * ld) as usize);
    let line =
        Line { from, k, quads: k.is_multiple_of(4) && from.cast::<Quad<f32>>().is_aligned() };

    let exponent = if L::SCALING.is_any() {
        // SAFETY: obligations 1 and 2; all threads of the block are here.
        let (largest, exponent) = unsafe { scale(&line) };
        if linear == 0 {
            // SAFETY: each block has a row of its own.
            unsafe { target.exponents.wrapping_add(row as usize).write(exponent) };
        }
        // SAFETY: obligation 1; all lanes of the warp are here.
        unsafe { raise_flags(target.flags, if largest >= INFINITY_BITS { NON_FINITE } else { 0 }) };
        exponent
    } else {
        0
    };
    let row = Row { row, exponent, k_tiles: tiles(k), limbs: target.limbs };
    let mut seen = RangeReport::default();
    let mut octet = linear;
    while octet < row.k_tiles * BLOCK_K / OCTET {
        // SAFETY: obligation 1; elements beyond k are zero.
        let values = unsafe { line.octet(octet) };
        // SAFETY: obligation 1; each octet belongs to one thread.
        seen = seen.and(unsafe { L::split_octet(&row, octet, values) });
        octet += HELPER_THREADS;
    }
    let underflows = target.underflows.wrapping_add(row.row as usize);
    // SAFETY: obligation 1; all threads add by this.
    let exceeded = unsafe { count_underflows(underflows, seen.underflows, k / 2) };
    // SAFETY: obligation 1; all lanes of the warp are here.
    unsafe { raise_flags(target.flags, seen.flags | exceeded) };
}

/// The bits of the largest magnitude of a row, and the exponent by which it is scaled.
///
/// # Safety
/// The row is valid; all threads of the block call it together, with the shared memory for it.
#[inline(always)]
unsafe fn scale(line: &Line) -> (u32, i32) {
    let linear = thread::thread_idx_x();
    let mut largest = 0;
    let mut octet = linear;
    while octet * OCTET < line.k {
        // SAFETY: obligation 1.
        largest = amax(largest, unsafe { line.octet(octet) });
        octet += HELPER_THREADS;
    }
    // SAFETY: obligation 2 gives the bytes; the barrier separates writes and reads.
    let row_amax = unsafe { shared::launch_sized::<u32>() };
    // SAFETY: all lanes are here.
    largest = unsafe { warp_reduce(largest, u32::max) };
    let lane = linear % LANES;
    if lane == 0 {
        // SAFETY: one word for each warp.
        unsafe { row_amax.wrapping_add((linear / LANES) as usize).write(largest) };
    }
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    let mut of_warp = 0;
    while of_warp < HELPER_THREADS / LANES {
        // SAFETY: written before the barrier.
        largest = largest.max(unsafe { row_amax.wrapping_add(of_warp as usize).read() });
        of_warp += 1;
    }

    (largest, scale_exponent(largest))
}

/// Raises `row_amax` to the largest magnitudes of the rows of an MN-major operand.
///
/// # Safety
/// 1. `from` is valid for k lines of `rows` elements at `ld`, `row_amax` for `rows` words that were
///    zero.
/// 2. The grid has a block for each 128 rows along x and for each 64 k elements along y; a block
///    has 256 threads and the shared memory of the kernel's spec.
#[inline(always)]
pub(crate) unsafe fn row_amax(params: RowAmaxParams) {
    let RowAmaxParams { rows, k, from, ld, row_amax } = params;
    // SAFETY: obligation 1, of the operand.
    let from = unsafe { global(from) };
    // SAFETY: obligation 1, of the rows' magnitudes.
    let row_amax = unsafe { global_mut(row_amax) };
    /// k elements that a thread reads, and those that the block reads at the same time.
    const STEPS: u32 = AMAX_BLOCK_K / STRIDE;
    const STRIDE: u32 = HELPER_THREADS / LANES;
    let linear = thread::thread_idx_x();
    let row0 = thread::block_idx_x() * PANEL_ROWS;
    let operand = MnMajor::new(rows, k, from, ld);
    let (quad, first) = (linear % LANES, thread::block_idx_y() * AMAX_BLOCK_K + linear / LANES);
    let mut largest = [0u32; 4];
    let mut i = 0;
    while i < STEPS {
        // SAFETY: obligation 1.
        let values = unsafe { operand.quad(row0 + 4 * quad, first + STRIDE * i) };
        let of = |j: usize| largest[j].max(values[j].to_bits() & !SIGN);
        largest = [of(0), of(1), of(2), of(3)];
        i += 1;
    }
    // SAFETY: obligation 2 gives the bytes; the barrier separates writes and reads.
    let shared = unsafe { shared::launch_sized::<Quad<u32>>() };
    // SAFETY: one quad for each thread.
    unsafe { shared.wrapping_add(linear as usize).write(Quad(largest)) };
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    let row = row0 + linear;
    if linear < PANEL_ROWS && row < rows {
        let mut largest = 0;
        let mut i = 0;
        while i < STRIDE {
            let at = (i * PANEL_ROWS + linear) as usize;
            // SAFETY: written before the barrier.
            largest = largest.max(unsafe { shared.cast::<u32>().wrapping_add(at).read() });
            i += 1;
        }
        // SAFETY: obligation 1.
        unsafe { atomic::reduce_max(row_amax.wrapping_add(row as usize), largest) };
    }
}

/// # Safety
/// The obligations of the entry.
#[inline(always)]
pub(crate) unsafe fn mn_major<L: LimbSplit>(params: SplitMnMajorParams) {
    let SplitMnMajorParams { rows, k, from, ld, limbs, exponents, underflows, flags, .. } = params;
    // SAFETY: obligation 1, of the operand.
    let from = unsafe { global(from) };
    // SAFETY: obligation 1, of the rows' magnitudes.
    let row_amax = unsafe { global(params.row_amax) };
    // SAFETY: obligation 1, of what is written.
    let target = unsafe { Target::new(limbs, exponents, underflows, flags) };
    let linear = thread::thread_idx_x();
    let (row0, tile) = (thread::block_idx_x() * PANEL_ROWS, thread::block_idx_y());
    let operand = MnMajor::new(rows, k, from, ld);
    // SAFETY: obligation 2 gives the bytes; the barrier separates writes and reads.
    let transposed: Shared<f32> = unsafe { shared::launch_sized::<f32>() };
    let quad = linear % LANES * 4;
    let mut step = linear / LANES;
    while step < BLOCK_K {
        // SAFETY: obligation 1.
        let values = unsafe { operand.quad(row0 + quad, tile * BLOCK_K + step) };
        let at = transposed.wrapping_add((step * TRANSPOSE_PITCH + quad) as usize);
        // SAFETY: the first of four words of this thread alone.
        unsafe { at.write(values[0]) };
        // SAFETY: the second of them.
        unsafe { at.wrapping_add(1).write(values[1]) };
        // SAFETY: the third.
        unsafe { at.wrapping_add(2).write(values[2]) };
        // SAFETY: the fourth.
        unsafe { at.wrapping_add(3).write(values[3]) };
        step += HELPER_THREADS / LANES;
    }
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };

    const OCTETS: u32 = BLOCK_K / OCTET;
    let mut noticed = 0;
    let mut item = linear;
    while item < PANEL_ROWS * OCTETS {
        let (row, octet) = (item / OCTETS, item % OCTETS);
        if row0 + row < rows {
            let mut exponent = 0;
            if L::SCALING.is_any() {
                // SAFETY: obligation 1.
                let largest = unsafe { row_amax.wrapping_add((row0 + row) as usize).read() };
                exponent = scale_exponent(largest);
                if largest >= INFINITY_BITS {
                    noticed |= NON_FINITE;
                }
                if tile == 0 && octet == 0 {
                    let at = target.exponents.wrapping_add((row0 + row) as usize);
                    // SAFETY: one thread of the grid has this row, this tile and this octet.
                    unsafe { at.write(exponent) };
                }
            }
            let from = transposed.wrapping_add((octet * OCTET * TRANSPOSE_PITCH + row) as usize);
            // SAFETY: written before the barrier.
            let of =
                |step: usize| unsafe { from.wrapping_add(step * TRANSPOSE_PITCH as usize).read() };
            let values = [of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)];
            let row = Row { row: row0 + row, exponent, k_tiles: tiles(k), limbs: target.limbs };
            // SAFETY: obligation 1; one thread of the grid has this row and this octet.
            let seen = unsafe { L::split_octet(&row, tile * OCTETS + octet, values) };
            let underflows = target.underflows.wrapping_add(row.row as usize);
            // SAFETY: obligation 1; all threads add by this.
            let exceeded = unsafe { count_underflows(underflows, seen.underflows, k / 2) };
            noticed |= seen.flags | exceeded;
        }
        item += HELPER_THREADS;
    }
    // SAFETY: obligation 1; all lanes of the warp are here.
    unsafe { raise_flags(target.flags, noticed) };
}

/// The larger of a magnitude's bits and those of eight values; NaN is larger than all.
#[inline(always)]
fn amax(largest: u32, values: [f32; 8]) -> u32 {
    let mut largest = largest;
    let mut i = 0;
    while i < 8 {
        largest = largest.max(values[i].to_bits() & !SIGN);
        i += 1;
    }
    largest
}

/// A row of a K-major operand.
struct Line {
    from: Global<f32>,
    k: u32,
    /// Whether all quads are complete and aligned.
    quads: bool,
}

impl Line {
    /// Eight elements, zeros beyond k.
    ///
    /// # Safety
    /// The row is valid for k elements.
    #[inline(always)]
    unsafe fn octet(&self, octet: u32) -> [f32; 8] {
        let first = octet * OCTET;
        if self.quads {
            let quad = |first: u32| {
                if first < self.k {
                    // SAFETY: the guard: a quad that begins before k ends there.
                    unsafe { self.from.wrapping_add(first as usize).cast::<Quad<f32>>().read() }
                } else {
                    Quad([0.0; 4])
                }
            };
            let (Quad([a, b, c, d]), Quad([e, f, g, h])) = (quad(first), quad(first + 4));
            return [a, b, c, d, e, f, g, h];
        }
        let of = |j: u32| {
            if first + j < self.k {
                // SAFETY: the guard.
                unsafe { self.from.wrapping_add((first + j) as usize).read() }
            } else {
                0.0
            }
        };
        [of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)]
    }
}

/// An MN-major operand: each line has one k element of all rows.
struct MnMajor {
    rows: u32,
    k: u32,
    from: Global<f32>,
    ld: u64,
    /// Whether all quads are complete and aligned.
    quads: bool,
}

impl MnMajor {
    #[inline(always)]
    fn new(rows: u32, k: u32, from: Global<f32>, ld: u64) -> Self {
        let quads =
            rows.is_multiple_of(4) && ld.is_multiple_of(4) && from.cast::<Quad<f32>>().is_aligned();
        Self { rows, k, from, ld, quads }
    }

    /// Four rows at one k index, zeros outside the operand.
    ///
    /// # Safety
    /// The operand is valid.
    #[inline(always)]
    unsafe fn quad(&self, row: u32, step: u32) -> [f32; 4] {
        if step >= self.k || row >= self.rows {
            return [0.0; 4];
        }
        let at = self.from.wrapping_add((u64::from(step) * self.ld + u64::from(row)) as usize);
        if self.quads {
            // SAFETY: a quad that begins before `rows` ends there.
            return unsafe { at.cast::<Quad<f32>>().read() }.0;
        }
        let of = |j: u32| {
            // SAFETY: the guard.
            if row + j < self.rows { unsafe { at.wrapping_add(j as usize).read() } } else { 0.0 }
        };
        [of(0), of(1), of(2), of(3)]
    }
}

/// The destination of a row's limbs.
pub(crate) struct Row {
    pub(crate) row: u32,
    /// The power of two by which the row is scaled, if it is.
    pub(crate) exponent: i32,
    pub(crate) k_tiles: u32,
    pub(crate) limbs: GlobalMut<u8>,
}

/// What splitting found out about the range of some elements.
#[derive(Clone, Copy, Default)]
pub(crate) struct RangeReport {
    /// Range flags.
    pub(crate) flags: u32,
    /// Elements of which the limbs hold too few bits.
    pub(crate) underflows: u32,
}

impl RangeReport {
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self { flags: self.flags | other.flags, underflows: self.underflows + other.underflows }
    }
}

/// Adds to the underflow count of a row; the range flag once the count exceeds `most`.
///
/// # Safety
/// `count` is valid, and every writer of this launch adds to it by this instruction.
#[inline(always)]
unsafe fn count_underflows(count: GlobalMut<u32>, underflows: u32, most: u32) -> u32 {
    if underflows == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    let before = unsafe { atomic::fetch_add(count, underflows) };
    // Exactly one of the threads that add sees the count cross the limit.
    if before <= most && before + underflows > most { OUT_OF_RANGE } else { 0 }
}

/// Combines the values of all lanes of the warp.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
pub(crate) unsafe fn warp_reduce(value: u32, combine: impl Fn(u32, u32) -> u32) -> u32 {
    let mut value = value;
    let mut distance = LANES / 2;
    while distance > 0 {
        // SAFETY: the caller's promise.
        value = combine(value, unsafe { warp::shuffle_xor(warp::FULL, value, distance) });
        distance /= 2;
    }
    value
}

/// Sets range flags, once for a warp.
///
/// # Safety
/// `flags` is valid; all lanes of the warp call it.
#[inline(always)]
pub(crate) unsafe fn raise_flags(flags: GlobalMut<u32>, noticed: u32) {
    // SAFETY: the caller's promise.
    let noticed = unsafe { warp_reduce(noticed, |x, y| x | y) };
    if noticed != 0 && warp::lane_id() == 0 {
        // SAFETY: the caller's promise; every writer of this launch sets bits by this instruction.
        unsafe { atomic::reduce_or(flags, noticed) };
    }
}
