//! f32: a lane multiplies 8 x 4 elements of its warp's tile.
//!
//! It has every fourth row and every eighth column where lines are along k, so that the lanes of a warp read lines
//! one behind the other; otherwise neighbouring ones, which one instruction reads.

use cuda_std::memory::SharedAddress;
use gemm_spec::Accumulator;
use gemm_spec::block_tile::{PAD, SIDE};

use super::load::Loads;
use super::{Accumulators, Copies, Place, Target, Units};
use crate::parts::quad::Quad;
use crate::parts::unroll::unroll;

/// Lanes of a warp down and across its tile.
const DOWN: u32 = 4;
const ACROSS: u32 = 8;

/// A lane's rows in the warp's tile.
#[inline(always)]
const fn row_of<const ALONG_K: bool>(lane: u32, i: u32) -> u32 {
    if ALONG_K { i * DOWN + lane / ACROSS } else { lane / ACROSS * 8 + i }
}

/// A lane's columns in it.
#[inline(always)]
const fn col_of<const ALONG_K: bool>(lane: u32, j: u32) -> u32 {
    if ALONG_K { j * ACROSS + lane % ACROSS } else { lane % ACROSS * 4 + j }
}

/// Elements from one line of a stage to the next.
const fn pitch(along_k: bool) -> usize {
    (if along_k { f32::STEPS } else { SIDE } + PAD) as usize
}

impl Units for f32 {
    #[inline(always)]
    unsafe fn multiply<const A_ALONG_K: bool, const B_ALONG_K: bool>(
        acc: &mut Accumulators<Self>,
        place: Place<Self>,
        mut copies: Copies<'_, Self, A_ALONG_K, B_ALONG_K>,
    ) {
        let (mut a, mut b) = lane_place::<A_ALONG_K, B_ALONG_K>(place);
        unroll!(for H in 0..4 {
            // SAFETY: the caller's promise.
            unsafe { copies.quarter::<H>() };
            unroll!(for Q in 0..2 {
                let (a, b) = (after(a, Q, A_ALONG_K), after(b, Q, B_ALONG_K));
                // SAFETY: the caller's promise.
                unsafe { multiply::<A_ALONG_K, B_ALONG_K>(acc, a, b, 4) };
            });
            a = after(a, 2, A_ALONG_K);
            b = after(b, 2, B_ALONG_K);
        });
    }

    #[inline(always)]
    unsafe fn multiply_part<const A_ALONG_K: bool, const B_ALONG_K: bool>(
        acc: &mut Accumulators<Self>,
        place: Place<Self>,
        valid: u32,
    ) {
        let (mut a, mut b) = lane_place::<A_ALONG_K, B_ALONG_K>(place);
        let mut left = valid;
        while left >= 4 {
            // SAFETY: the caller's promise.
            unsafe { multiply::<A_ALONG_K, B_ALONG_K>(acc, a, b, 4) };
            a = after(a, 1, A_ALONG_K);
            b = after(b, 1, B_ALONG_K);
            left -= 4;
        }
        if left > 0 {
            // SAFETY: the caller's promise.
            unsafe { multiply::<A_ALONG_K, B_ALONG_K>(acc, a, b, left) };
        }
    }

    #[inline(always)]
    unsafe fn store<const A_ALONG_K: bool, const B_ALONG_K: bool>(
        acc: &Accumulators<Self>,
        lane: u32,
        target: Target<Self>,
    ) {
        let col = col_of::<B_ALONG_K>(lane, 0);
        let quads = !B_ALONG_K
            && target.c.cast::<Quad<Self>>().is_aligned()
            && target.ldc.is_multiple_of(4)
            && col + 4 <= target.cols;
        if quads {
            unroll!(for I in 0..8 {
                let row = row_of::<A_ALONG_K>(lane, I as u32);
                if row < target.rows {
                    let offset = u64::from(row) * target.ldc + u64::from(col);
                    let at = target.c.wrapping_add(offset as usize).cast::<Quad<Self>>();
                    let mut old = [0.0; 4];
                    if target.beta != 0.0 {
                        // SAFETY: four neighbours in C, aligned.
                        old = unsafe { at.read() }.0;
                    }
                    unroll!(for J in 0..4 {
                        old[J] = target.value(acc[I][J], old[J]);
                    });
                    // SAFETY: the same, and they are this thread's.
                    unsafe { at.write(Quad(old)) };
                }
            });
            return;
        }
        unroll!(for I in 0..8 {
            unroll!(for J in 0..4 {
                let row = row_of::<A_ALONG_K>(lane, I as u32);
                let place = (row, col_of::<B_ALONG_K>(lane, J as u32));
                // SAFETY: the caller's promise.
                unsafe { target.put(place, acc[I][J]) };
            });
        });
    }
}

/// The first row of A and the first column of B of a lane.
#[inline(always)]
fn lane_place<const A_ALONG_K: bool, const B_ALONG_K: bool>(
    place: Place<f32>,
) -> (SharedAddress<f32>, SharedAddress<f32>) {
    let of_line = |along_k: bool| if along_k { pitch(true) } else { 1 };
    let row = row_of::<A_ALONG_K>(place.lane, 0) as usize;
    let col = col_of::<B_ALONG_K>(place.lane, 0) as usize;
    (place.a.wrapping_add(row * of_line(A_ALONG_K)), place.b.wrapping_add(col * of_line(B_ALONG_K)))
}

/// Adds the products of the first `valid` of four k elements.
///
/// # Safety
/// The four are in the stage from `a` and `b` on, the lane's first row and column.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn multiply<const A_ALONG_K: bool, const B_ALONG_K: bool>(
    acc: &mut Accumulators<f32>,
    a: SharedAddress<f32>,
    b: SharedAddress<f32>,
    valid: u32,
) {
    let mut a_quads = [[0.0; 4]; 8];
    let mut b_quads = [[0.0; 4]; 4];
    unroll!(for I in 0..8 {
        // Of lines along k four elements of each row; else eight rows of each k element.
        let at = if A_ALONG_K {
            I * DOWN as usize * pitch(true)
        } else {
            I / 2 * pitch(false) + I % 2 * 4
        };
        // SAFETY: the caller's promise; they begin at a multiple of 16 bytes.
        a_quads[I] = unsafe { a.wrapping_add(at).read_quad() };
    });
    unroll!(for J in 0..4 {
        let at = if B_ALONG_K { J * ACROSS as usize * pitch(true) } else { J * pitch(false) };
        // SAFETY: the same.
        b_quads[J] = unsafe { b.wrapping_add(at).read_quad() };
    });
    unroll!(for S in 0..4 {
        if (S as u32) < valid {
            unroll!(for I in 0..8 {
                let x = if A_ALONG_K { a_quads[I][S] } else { a_quads[2 * S + I / 4][I % 4] };
                unroll!(for J in 0..4 {
                    let y = if B_ALONG_K { b_quads[J][S] } else { b_quads[S][J] };
                    acc[I][J] = Accumulator::mul_add(x, y, acc[I][J]);
                });
            });
        }
    });
}

/// Where the k elements that many times four further on are.
#[inline(always)]
fn after(at: SharedAddress<f32>, fours: usize, along_k: bool) -> SharedAddress<f32> {
    at.wrapping_add(fours * 4 * if along_k { 1 } else { pitch(false) })
}
