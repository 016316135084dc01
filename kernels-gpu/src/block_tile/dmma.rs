//! f64: a warp multiplies its tile as two by four tiles of 16 x 8, four k elements at a time.

use cuda_std::arch::sm90::mma::m16n8k4_f64;
use cuda_std::memory::SharedAddress;
use gemm_spec::block_tile::{PAD, SIDE};

use super::load::Loads;
use super::{Accumulators, Copies, Place, Target, Units};
use crate::parts::quad::Pair;
use crate::parts::unroll::unroll;

/// A lane's elements of four k elements of its warp's tile.
#[derive(Clone, Copy)]
struct Fragments {
    a: [[f64; 2]; 2],
    b: [f64; 4],
}

/// Elements from one row, or column, of a tile to the next, and from one k element to the next.
const fn pitches(along_k: bool) -> (usize, usize) {
    if along_k { ((f64::STEPS + PAD) as usize, 1) } else { (1, (SIDE + PAD) as usize) }
}

/// Reads an element of a stage.
///
/// # Safety
/// It is in the stage, written before a barrier.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn read(at: SharedAddress<f64>, line: usize, step: usize, along_k: bool) -> f64 {
    let (of_line, of_step) = pitches(along_k);
    // SAFETY: the caller's promise.
    unsafe { at.wrapping_add(line * of_line + step * of_step).read_double() }
}

/// A lane's first elements of its warp's tiles in a stage.
struct Lane<const A_ALONG_K: bool, const B_ALONG_K: bool> {
    a: SharedAddress<f64>,
    b: SharedAddress<f64>,
    /// Its k element of each four.
    step: u32,
}

impl<const A_ALONG_K: bool, const B_ALONG_K: bool> Lane<A_ALONG_K, B_ALONG_K> {
    #[inline(always)]
    fn new(place: Place<f64>) -> Self {
        let (line, step) = ((place.lane / 4) as usize, place.lane % 4);
        let first = |along_k: bool| {
            let (of_line, of_step) = pitches(along_k);
            line * of_line + step as usize * of_step
        };
        let a = place.a.wrapping_add(first(A_ALONG_K));
        let b = place.b.wrapping_add(first(B_ALONG_K));
        Self { a, b, step }
    }

    /// The fragments of four k elements; -0 and 0 of a k element that is to change no sum.
    ///
    /// # Safety
    /// The stage has the elements, written before a barrier.
    #[inline(always)]
    unsafe fn fragments(&self, at: usize, counts: bool) -> Fragments {
        let mut parts = Fragments { a: [[0.0; 2]; 2], b: [0.0; 4] };
        unroll!(for I in 0..2 {
            unroll!(for H in 0..2 {
                // SAFETY: the caller's promise.
                let x = unsafe { read(self.a, 16 * I + 8 * H, at, A_ALONG_K) };
                parts.a[I][H] = if counts { x } else { -0.0 };
            });
        });
        unroll!(for J in 0..4 {
            // SAFETY: the caller's promise.
            let y = unsafe { read(self.b, 8 * J, at, B_ALONG_K) };
            parts.b[J] = if counts { y } else { 0.0 };
        });
        parts
    }
}

/// Adds the products of four k elements.
///
/// # Safety
/// All lanes of the warp are here.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn add(acc: &mut Accumulators<f64>, parts: &Fragments) {
    unroll!(for I in 0..2 {
        unroll!(for J in 0..4 {
            // SAFETY: the caller's promise.
            unsafe { m16n8k4_f64(&mut acc[4 * I + J], parts.a[I], parts.b[J]) };
        });
    });
}

impl Units for f64 {
    #[inline(always)]
    unsafe fn multiply<const A_ALONG_K: bool, const B_ALONG_K: bool>(
        acc: &mut Accumulators<Self>,
        place: Place<Self>,
        mut copies: Copies<'_, Self, A_ALONG_K, B_ALONG_K>,
    ) {
        let lane = Lane::<A_ALONG_K, B_ALONG_K>::new(place);
        // The next fragments are on their way while the tensor cores multiply.
        // SAFETY: the caller's promise.
        let mut parts = [unsafe { lane.fragments(0, true) }; 2];
        unroll!(for Q in 0..4 {
            if Q < 3 {
                // SAFETY: the caller's promise.
                parts[(Q + 1) % 2] = unsafe { lane.fragments(4 * Q + 4, true) };
            }
            // SAFETY: the caller's promise.
            unsafe { add(acc, &parts[Q % 2]) };
            // SAFETY: the caller's promise.
            unsafe { copies.quarter::<Q>() };
        });
    }

    #[inline(always)]
    unsafe fn multiply_part<const A_ALONG_K: bool, const B_ALONG_K: bool>(
        acc: &mut Accumulators<Self>,
        place: Place<Self>,
        valid: u32,
    ) {
        let lane = Lane::<A_ALONG_K, B_ALONG_K>::new(place);
        let mut done = 0;
        while done < valid {
            // SAFETY: the caller's promise.
            let parts = unsafe { lane.fragments(done as usize, done + lane.step < valid) };
            // SAFETY: the caller's promise.
            unsafe { add(acc, &parts) };
            done += 4;
        }
    }

    #[inline(always)]
    unsafe fn store<const A_ALONG_K: bool, const B_ALONG_K: bool>(
        acc: &Accumulators<Self>,
        lane: u32,
        target: Target<Self>,
    ) {
        let pairs = target.c.cast::<Pair<Self>>().is_aligned() && target.ldc.is_multiple_of(2);
        unroll!(for I in 0..2 {
            unroll!(for H in 0..2 {
                let row = (16 * I + 8 * H) as u32 + lane / 4;
                unroll!(for J in 0..4 {
                    let col = 8 * J as u32 + lane % 4 * 2;
                    let own = [acc[4 * I + J][2 * H], acc[4 * I + J][2 * H + 1]];
                    if pairs && row < target.rows && col + 2 <= target.cols {
                        let offset = u64::from(row) * target.ldc + u64::from(col);
                        let at = target.c.wrapping_add(offset as usize).cast::<Pair<Self>>();
                        let mut old = [0.0; 2];
                        if target.beta != 0.0 {
                            // SAFETY: two neighbours in C, aligned.
                            old = unsafe { at.read() }.0;
                        }
                        let new =
                            Pair([target.value(own[0], old[0]), target.value(own[1], old[1])]);
                        // SAFETY: the same, and they are this thread's.
                        unsafe { at.write(new) };
                    } else {
                        // SAFETY: the caller's promise.
                        unsafe { target.put((row, col), own[0]) };
                        // SAFETY: the same.
                        unsafe { target.put((row, col + 1), own[1]) };
                    }
                });
            });
        });
    }
}
