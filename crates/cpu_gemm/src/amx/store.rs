//! Sums of a micro-tile on their way to C.

use gemm_spec::{Element, GemmTypes, epilogue};

use super::pack::LINES;

/// Sums of a micro-tile.
const COUNT: usize = LINES * LINES;

/// The sums of a micro-tile and the part of C that they are stored to.
pub(super) struct Stored<T: GemmTypes> {
    /// Columns of 32 sums, one behind the other.
    pub(super) sums: *const T::Acc,
    pub(super) c: *mut T::C,
    /// From one column of C to the next, in elements.
    pub(super) ldc: usize,
    /// Rows and columns that exist.
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) alpha: T::Acc,
    pub(super) beta: T::Acc,
}

pub(super) type StoreFn<T> = unsafe fn(&Stored<T>);
pub(super) type AddFn = unsafe fn(*const f32, *mut f32);
pub(super) type AddChainFn = unsafe fn(*mut f32, *mut f32, *mut f32);

/// Stores elements of C.
///
/// # Safety
/// The sums can be read; the columns of C are this thread's to write, and to read where beta is not zero.
#[inline(always)]
pub(super) unsafe fn store<T: GemmTypes>(stored: &Stored<T>) {
    let &Stored { sums, c, ldc, rows, cols, alpha, beta } = stored;
    for col in 0..cols {
        // SAFETY: the caller's promise: `rows` sums of this column can be read.
        let sums = unsafe { std::slice::from_raw_parts(sums.wrapping_add(col * LINES), rows) };
        // SAFETY: the caller's promise: as many elements of C are this thread's alone.
        let c = unsafe { std::slice::from_raw_parts_mut(c.wrapping_add(col * ldc), rows) };
        if beta == T::Acc::ZERO {
            for (c, &sum) in c.iter_mut().zip(sums) {
                *c = epilogue(alpha, sum, T::Acc::ZERO, || T::C::ZERO);
            }
        } else {
            for (c, &sum) in c.iter_mut().zip(sums) {
                *c = epilogue(alpha, sum, beta, || *c);
            }
        }
    }
}

/// Adds the sums of a micro-tile to others.
///
/// # Safety
/// Both are 32 columns of 32, the second this thread's to write.
#[inline(always)]
pub(super) unsafe fn add(block: *const f32, sums: *mut f32) {
    // SAFETY: the caller's promise: that many sums can be read.
    let block = unsafe { std::slice::from_raw_parts(block, COUNT) };
    // SAFETY: the caller's promise: these, which are others, are this thread's alone.
    let sums = unsafe { std::slice::from_raw_parts_mut(sums, COUNT) };
    for (sum, &block) in sums.iter_mut().zip(block) {
        *sum += block;
    }
}

/// Adds the sums of a micro-tile to those of its chains, and what rounding takes from these to `rest`. The result of
/// both replaces the sums.
///
/// Source of the exact error of a sum: Knuth, "The Art of Computer Programming", volume 2, 4.2.2.
///
/// # Safety
/// Each is 32 columns of 32, this thread's to write, and no two are the same.
#[inline(always)]
pub(super) unsafe fn add_chain(sums: *mut f32, chains: *mut f32, rest: *mut f32) {
    // SAFETY: the caller's promise: three times that many sums, which are this thread's alone.
    let [sums, chains, rest] =
        [sums, chains, rest].map(|at| unsafe { std::slice::from_raw_parts_mut(at, COUNT) });
    for ((sum, chain), rest) in sums.iter_mut().zip(chains).zip(rest) {
        let (before, added) = (*chain, *sum);
        *chain = before + added;
        let of_added = *chain - before;
        *rest += (before - (*chain - of_added)) + (added - of_added);
        *sum = *chain + *rest;
    }
}

/// [`store`], compiled for AVX-512.
///
/// # Safety
/// As there; the CPU has those features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
pub(super) unsafe fn store_avx512<T: GemmTypes>(stored: &Stored<T>) {
    // SAFETY: the caller's promises.
    unsafe { store(stored) }
}

/// [`add`], compiled for AVX-512.
///
/// # Safety
/// As there; the CPU has those features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
pub(super) unsafe fn add_avx512(block: *const f32, sums: *mut f32) {
    // SAFETY: the caller's promises.
    unsafe { add(block, sums) }
}

/// [`add_chain`], compiled for AVX-512.
///
/// # Safety
/// As there; the CPU has those features.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,fma")]
pub(super) unsafe fn add_chain_avx512(sums: *mut f32, chains: *mut f32, rest: *mut f32) {
    // SAFETY: the caller's promises.
    unsafe { add_chain(sums, chains, rest) }
}

/// Stores a whole micro-tile of sums as they are, past the caches.
///
/// # Safety
/// As [`store`]; every column of C begins at a cache line, and the CPU has AVX-512F. An `sfence` must follow
/// before another thread is told.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn stream(sums: *const u8, c: *mut u8, ld: usize) {
    use std::arch::x86_64::{_mm512_load_si512, _mm512_stream_si512};
    for half in 0..2 * LINES {
        let (col, offset) = (half / 2, half % 2 * 64);
        // SAFETY: the caller's promise: half a column of sums, at a cache line.
        let row = unsafe { _mm512_load_si512(sums.wrapping_add(col * LINES * 4 + offset).cast()) };
        // SAFETY: the caller's promise: its place in C, at a cache line.
        unsafe { _mm512_stream_si512(c.wrapping_add(col * ld + offset).cast(), row) };
    }
}
