//! The helpers that split an operand into high and low pieces.
//!
//! A "row" is a row of A or a column of B. Where rows are contiguous along k, one block reads a row
//! twice, for its largest magnitude and to split it. Where they lie across, one helper finds the
//! largest magnitudes of all rows, another turns 32 steps of 128 rows in shared memory and splits.

use cuda_std::arch::sm90::convert::{f16_pair, f16_value};
use cuda_std::memory::{Global, GlobalMut, Shared};
use cuda_std::{shared, thread, warp};
use gemm_spec::split::{
    FULL_PRECISION, MAXIMA_STEPS, NON_FINITE, OCTET, PANEL_ROWS, Piece, REDUCED, STEP_K, octet_at,
    scale_exponent, scale_factors, tiles,
};

use super::{ACROSS_PITCH, HELPER_THREADS};
use crate::parts::quad::Quad;

/// The bits of an f32 that is not finite, without its sign, are these at least.
const INFINITY_BITS: u32 = f32::INFINITY.to_bits();
/// The bit of an f32 that is its sign.
const SIGN: u32 = 1 << 31;
/// Lanes of a warp.
const LANES: u32 = 32;

/// # Safety
/// 1. `from` is valid for a row of k elements at `ld` for each block; `pieces`, `exponents` and
///    `flags` are those of a workspace for as many rows.
/// 2. A block has 256 threads and the shared memory of the kernel's spec; k >= 1.
#[cuda_std::kernel]
#[expect(unreachable_pub, reason = "an entry is reached through its symbol")]
pub unsafe fn f16x3_split_rows(
    k: u32,
    from: *const f32,
    ld: u64,
    pieces: *mut u8,
    exponents: *mut i32,
    flags: *mut u32,
) {
    let (row, linear) = (thread::block_idx_x(), thread::thread_idx_x());
    let from = from.wrapping_add((u64::from(row) * ld) as usize);
    let line = Line { from, k, quads: k % 4 == 0 && from.cast::<Quad<f32>>().is_aligned() };

    // --- the largest magnitude, as bits ---
    let mut largest = 0;
    let mut octet = linear;
    while octet * OCTET < k {
        // SAFETY: obligation 1.
        largest = magnitude(largest, unsafe { line.octet(octet) });
        octet += HELPER_THREADS;
    }
    // SAFETY: obligation 2 gives the bytes; the barrier parts writes and reads.
    let maxima = unsafe { shared::launch_sized::<u32>() };
    // SAFETY: all lanes are here.
    largest = unsafe { of_all_lanes(largest, u32::max) };
    if linear % LANES == 0 {
        // SAFETY: one word for each warp.
        unsafe { maxima.wrapping_add((linear / LANES) as usize).write(largest) };
    }
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    let mut of_warp = 0;
    while of_warp < HELPER_THREADS / LANES {
        // SAFETY: written before the barrier.
        largest = largest.max(unsafe { maxima.wrapping_add(of_warp as usize).read() });
        of_warp += 1;
    }

    // --- the pieces ---
    let row = Row { row, exponent: scale_exponent(largest), k_tiles: tiles(k), pieces };
    let mut noticed = if largest >= INFINITY_BITS { NON_FINITE } else { 0 };
    if linear == 0 {
        // SAFETY: each block has a row of its own.
        unsafe { exponents.wrapping_add(row.row as usize).write(row.exponent) };
    }
    let mut octet = linear;
    while octet < row.k_tiles * STEP_K / OCTET {
        // SAFETY: obligation 1; what lies beyond k is zero.
        noticed |= unsafe { row.store(octet, line.octet(octet)) };
        octet += HELPER_THREADS;
    }
    // SAFETY: obligation 1.
    unsafe { notice(flags, noticed) };
}

/// # Safety
/// 1. `from` is valid for k lines of `rows` elements at `ld`, `maxima` for `rows` words that were
///    zero.
/// 2. The grid has a block for each 128 rows along x and for each 64 steps of k along y; a block has
///    256 threads and the shared memory of the kernel's spec.
#[cuda_std::kernel]
#[expect(unreachable_pub, reason = "an entry is reached through its symbol")]
pub unsafe fn f16x3_maxima(rows: u32, k: u32, from: *const f32, ld: u64, maxima: *mut u32) {
    /// Steps of k that a thread looks at, and those that the block looks at together.
    const STEPS: u32 = MAXIMA_STEPS / TOGETHER;
    const TOGETHER: u32 = HELPER_THREADS / LANES;
    let linear = thread::thread_idx_x();
    let row0 = thread::block_idx_x() * PANEL_ROWS;
    let across = Across::new(rows, k, from, ld);
    let (quad, first) = (linear % LANES, thread::block_idx_y() * MAXIMA_STEPS + linear / LANES);
    let mut largest = [0u32; 4];
    let mut i = 0;
    while i < STEPS {
        // SAFETY: obligation 1.
        let values = unsafe { across.quad(row0 + 4 * quad, first + TOGETHER * i) };
        let of = |j: usize| largest[j].max(values[j].to_bits() & !SIGN);
        largest = [of(0), of(1), of(2), of(3)];
        i += 1;
    }
    // SAFETY: obligation 2 gives the bytes; the barrier parts writes and reads.
    let shared = unsafe { shared::launch_sized::<Quad<u32>>() };
    // SAFETY: one quad for each thread.
    unsafe { shared.wrapping_add(linear as usize).write(Quad(largest)) };
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };
    let row = row0 + linear;
    if linear < PANEL_ROWS && row < rows {
        let mut largest = 0;
        let mut i = 0;
        while i < TOGETHER {
            let at = (i * PANEL_ROWS + linear) as usize;
            // SAFETY: written before the barrier.
            largest = largest.max(unsafe { shared.cast::<u32>().wrapping_add(at).read() });
            i += 1;
        }
        // SAFETY: obligation 1.
        unsafe { atomic_max(maxima.wrapping_add(row as usize), largest) };
    }
}

/// # Safety
/// 1. `from` is valid for k lines of `rows` elements at `ld`, `maxima` has their largest magnitudes;
///    `pieces`, `exponents` and `flags` are those of a workspace for `rows` rows.
/// 2. The grid has a block for each 128 rows along x and for each tile of k along y; a block has 256
///    threads and the shared memory of the kernel's spec.
#[cuda_std::kernel]
#[expect(clippy::too_many_arguments, reason = "the parameters of an entry")]
#[expect(unreachable_pub, reason = "an entry is reached through its symbol")]
pub unsafe fn f16x3_split_across(
    rows: u32,
    k: u32,
    from: *const f32,
    ld: u64,
    maxima: *const u32,
    pieces: *mut u8,
    exponents: *mut i32,
    flags: *mut u32,
) {
    let linear = thread::thread_idx_x();
    let (row0, tile) = (thread::block_idx_x() * PANEL_ROWS, thread::block_idx_y());
    let across = Across::new(rows, k, from, ld);
    // SAFETY: obligation 2 gives the bytes; the barrier parts writes and reads.
    let turned: Shared<f32> = unsafe { shared::launch_sized::<f32>() };
    let quad = linear % LANES * 4;
    let mut step = linear / LANES;
    while step < STEP_K {
        // SAFETY: obligation 1.
        let values = unsafe { across.quad(row0 + quad, tile * STEP_K + step) };
        let at = turned.wrapping_add((step * ACROSS_PITCH + quad) as usize);
        // SAFETY: four words of this thread alone.
        unsafe {
            at.write(values[0]);
            at.wrapping_add(1).write(values[1]);
            at.wrapping_add(2).write(values[2]);
            at.wrapping_add(3).write(values[3]);
        }
        step += HELPER_THREADS / LANES;
    }
    // SAFETY: all threads of the block are here.
    unsafe { thread::sync_threads() };

    const OCTETS: u32 = STEP_K / OCTET;
    let mut noticed = 0;
    let mut item = linear;
    while item < PANEL_ROWS * OCTETS {
        let (row, octet) = (item / OCTETS, item % OCTETS);
        if row0 + row < rows {
            // SAFETY: obligation 1.
            let largest = unsafe { maxima.wrapping_add((row0 + row) as usize).read() };
            let from = turned.wrapping_add((octet * OCTET * ACROSS_PITCH + row) as usize);
            // SAFETY: written before the barrier.
            let of =
                |step: usize| unsafe { from.wrapping_add(step * ACROSS_PITCH as usize).read() };
            let values = [of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)];
            let row = Row {
                row: row0 + row,
                exponent: scale_exponent(largest),
                k_tiles: tiles(k),
                pieces,
            };
            if tile == 0 && octet == 0 {
                // SAFETY: one thread of the grid has this row, this tile and this octet.
                unsafe { exponents.wrapping_add(row.row as usize).write(row.exponent) };
            }
            if largest >= INFINITY_BITS {
                noticed |= NON_FINITE;
            }
            // SAFETY: obligation 1.
            noticed |= unsafe { row.store(tile * OCTETS + octet, values) };
        }
        item += HELPER_THREADS;
    }
    // SAFETY: obligation 1.
    unsafe { notice(flags, noticed) };
}

/// The larger of a magnitude's bits and those of eight values; NaN is larger than all.
#[inline(always)]
fn magnitude(largest: u32, values: [f32; 8]) -> u32 {
    let mut largest = largest;
    let mut i = 0;
    while i < 8 {
        largest = largest.max(values[i].to_bits() & !SIGN);
        i += 1;
    }
    largest
}

/// A row that is contiguous along k.
struct Line {
    from: Global<f32>,
    k: u32,
    /// Whether quads are whole and aligned.
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
            // SAFETY: the guard: a quad that begins before k ends there.
            let quad = |first: u32| {
                if first < self.k {
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

/// An operand whose rows lie across: lines of one step of k.
struct Across {
    rows: u32,
    k: u32,
    from: Global<f32>,
    ld: u64,
    /// Whether quads are whole and aligned.
    quads: bool,
}

impl Across {
    #[inline(always)]
    fn new(rows: u32, k: u32, from: Global<f32>, ld: u64) -> Self {
        let quads = rows % 4 == 0 && ld % 4 == 0 && from.cast::<Quad<f32>>().is_aligned();
        Self { rows, k, from, ld, quads }
    }

    /// Four rows at one step, zeros beyond either end.
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

/// Where the pieces of a row go.
struct Row {
    row: u32,
    exponent: i32,
    k_tiles: u32,
    pieces: GlobalMut<u8>,
}

impl Row {
    /// Scales and cuts eight elements and stores both pieces; tells what was noticed.
    ///
    /// # Safety
    /// The octet lies in the split operand, and is this thread's alone.
    #[inline(always)]
    unsafe fn store(&self, octet: u32, values: [f32; 8]) -> u32 {
        let (first, second) = scale_factors(self.exponent);
        let mut reduced = false;
        let mut pair = |x: f32, y: f32| {
            let (x, y) = (x * first * second, y * first * second);
            let small = |x: f32| x.abs() < FULL_PRECISION && x != 0.0;
            reduced |= small(x) || small(y);
            let high = f16_pair(x, y);
            let rest = |x: f32, bits: u32| x - f16_value(bits as u16);
            (high, f16_pair(rest(x, high), rest(y, high >> 16)))
        };
        let [a, b, c, d, e, f, g, h] = values;
        let (p0, p1, p2, p3) = (pair(a, b), pair(c, d), pair(e, f), pair(g, h));
        let at = |piece| {
            let at = octet_at(self.row, octet, piece, self.k_tiles);
            self.pieces.wrapping_add(at as usize).cast::<Quad<u32>>()
        };
        // SAFETY: 16 bytes each that `octet_at` gives to this octet alone.
        unsafe {
            at(Piece::High).write(Quad([p0.0, p1.0, p2.0, p3.0]));
            at(Piece::Low).write(Quad([p0.1, p1.1, p2.1, p3.1]));
        }
        if reduced { REDUCED } else { 0 }
    }
}

/// The values of all lanes of the warp, combined.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
unsafe fn of_all_lanes(value: u32, combine: impl Fn(u32, u32) -> u32) -> u32 {
    let mut value = value;
    let mut distance = LANES / 2;
    while distance > 0 {
        // SAFETY: the caller's promise.
        value = combine(value, unsafe { warp::shuffle_xor(warp::FULL, value, distance) });
        distance /= 2;
    }
    value
}

/// Sets bits of the flags, once for a warp.
///
/// # Safety
/// `flags` is valid; all lanes of the warp call it.
#[inline(always)]
unsafe fn notice(flags: GlobalMut<u32>, noticed: u32) {
    // SAFETY: the caller's promise.
    let noticed = unsafe { of_all_lanes(noticed, |x, y| x | y) };
    if noticed != 0 && warp::lane_id() == 0 {
        // SAFETY: the caller's promise; every writer of this launch sets bits by this instruction.
        unsafe {
            core::arch::asm!(
                "red.global.or.b32 [{flags}], {noticed};",
                flags = in(reg64) flags,
                noticed = in(reg32) noticed,
                options(nostack)
            );
        }
    }
}

/// Raises a word to `value` at least.
///
/// # Safety
/// `word` is valid, and every writer of this launch raises it by this instruction.
#[inline(always)]
unsafe fn atomic_max(word: GlobalMut<u32>, value: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        core::arch::asm!(
            "red.global.max.u32 [{word}], {value};",
            word = in(reg64) word,
            value = in(reg32) value,
            options(nostack)
        );
    }
}
