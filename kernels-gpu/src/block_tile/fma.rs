//! f32: a lane multiplies 8 or 12 by 4 elements of its warp's tile.
//!
//! It has every fourth row and every eighth column where lines are along k, so that the lanes of a warp read lines
//! one behind the other; otherwise neighbouring ones, which one instruction reads.

use cuda_std::memory::SharedAddress;
use gemm_spec::Accumulator;
use gemm_spec::block_tile::BlockTile;

use super::{Accumulators, Copies, Form, Place, Target, Units, kernel, pitch, steps};
use crate::parts::quad::Quad;
use crate::parts::unroll::unroll;

kernel! {
    /// For batches.
    BATCHED_64X64, EMULATED_BATCHED_64X64 = "batched_64x64", batched_64x64_f32: f32, F32, Batched, Sm80,
    Of64 of BlockTile { warps: [2, 2], warp_rows: 32, line_bytes: 128 }, 4 an SM
}

kernel! {
    /// For batches of products that tiles of 64 rows and columns divide badly.
    BATCHED_96X96, EMULATED_BATCHED_96X96 = "batched_96x96", batched_96x96_f32: f32, F32, Batched, Sm80,
    Of96 of BlockTile { warps: [2, 3], warp_rows: 48, line_bytes: 128 }, 2 an SM
}

/// Lanes of a warp down and across its tile.
const DOWN: u32 = 4;
const ACROSS: u32 = 8;

/// Rows of a lane.
const fn rows<F: Form>() -> usize {
    (F::TILE.warp_rows / DOWN) as usize
}

/// A lane's rows in the warp's tile.
#[inline(always)]
const fn row_of<F: Form, const ALONG_K: bool>(lane: u32, i: u32) -> u32 {
    if ALONG_K { i * DOWN + lane / ACROSS } else { lane / ACROSS * rows::<F>() as u32 + i }
}

/// A lane's columns in it.
#[inline(always)]
const fn col_of<const ALONG_K: bool>(lane: u32, j: u32) -> u32 {
    if ALONG_K { j * ACROSS + lane % ACROSS } else { lane % ACROSS * 4 + j }
}

impl Units for f32 {
    #[inline(always)]
    unsafe fn multiply<F: Form, const A_ALONG_K: bool, const B_ALONG_K: bool>(
        acc: &mut Accumulators<Self>,
        place: Place<Self>,
        copies: &Copies<'_, Self, F, A_ALONG_K, B_ALONG_K>,
    ) {
        let lane = Lane::<F, A_ALONG_K, B_ALONG_K>::new(place);
        let fours = steps::<Self, F>() as usize / 4;
        unroll!(for Q in 0..8 {
            if Q < fours {
                // SAFETY: the caller's promise.
                unsafe { copies.start((Q, fours)) };
                // SAFETY: the caller's promise.
                unsafe { lane.multiply(acc, Q, 4) };
            }
        });
    }

    #[inline(always)]
    unsafe fn multiply_part<F: Form, const A_ALONG_K: bool, const B_ALONG_K: bool>(
        acc: &mut Accumulators<Self>,
        place: Place<Self>,
        valid: u32,
    ) {
        let lane = Lane::<F, A_ALONG_K, B_ALONG_K>::new(place);
        let (mut fours, mut left) = (0, valid);
        while left >= 4 {
            // SAFETY: the caller's promise.
            unsafe { lane.multiply(acc, fours, 4) };
            fours += 1;
            left -= 4;
        }
        if left > 0 {
            // SAFETY: the caller's promise.
            unsafe { lane.multiply(acc, fours, left) };
        }
    }

    #[inline(always)]
    unsafe fn store<F: Form, const A_ALONG_K: bool, const B_ALONG_K: bool>(
        acc: &Accumulators<Self>,
        lane: u32,
        target: Target<Self>,
    ) {
        let col = col_of::<B_ALONG_K>(lane, 0);
        let quads = !B_ALONG_K
            && target.c.cast::<Quad<Self>>().is_aligned()
            && target.ldc.is_multiple_of(4)
            && col + 4 <= target.cols;
        unroll!(for I in 0..16 {
            if I < rows::<F>() {
                let row = row_of::<F, A_ALONG_K>(lane, I as u32);
                if quads {
                    // SAFETY: the caller's promise; the neighbours are in C and aligned.
                    unsafe { put_quad(&target, (row, col), acc[I]) };
                } else {
                    unroll!(for J in 0..4 {
                        let place = (row, col_of::<B_ALONG_K>(lane, J as u32));
                        // SAFETY: the caller's promise.
                        unsafe { target.put(place, acc[I][J]) };
                    });
                }
            }
        });
    }
}

/// Stores four neighbours of a row, if the row is in C.
///
/// # Safety
/// [`Units::store`]'s; the elements are the calling thread's, their columns in C, and they begin at a multiple of 16
/// bytes.
#[inline(always)]
unsafe fn put_quad(target: &Target<f32>, (row, col): (u32, u32), acc: [f32; 4]) {
    if row < target.rows {
        let offset = u64::from(row) * target.ldc + u64::from(col);
        let at = target.c.wrapping_add(offset as usize).cast::<Quad<f32>>();
        let mut new = [0.0; 4];
        if target.beta != 0.0 {
            // SAFETY: four neighbours in C, aligned.
            new = unsafe { at.read() }.0;
        }
        unroll!(for J in 0..4 {
            new[J] = target.value(acc[J], new[J]);
        });
        // SAFETY: the same, and they are this thread's.
        unsafe { at.write(Quad(new)) };
    }
}

/// A lane's first elements of its warp's tiles in a stage.
struct Lane<F, const A_ALONG_K: bool, const B_ALONG_K: bool> {
    a: SharedAddress<f32>,
    b: SharedAddress<f32>,
    form: core::marker::PhantomData<F>,
}

impl<F: Form, const A_ALONG_K: bool, const B_ALONG_K: bool> Lane<F, A_ALONG_K, B_ALONG_K> {
    const A_PITCH: usize = pitch::<f32, F>(true, A_ALONG_K);
    const B_PITCH: usize = pitch::<f32, F>(false, B_ALONG_K);

    #[inline(always)]
    fn new(place: Place<f32>) -> Self {
        let row = row_of::<F, A_ALONG_K>(place.lane, 0) as usize;
        let col = col_of::<B_ALONG_K>(place.lane, 0) as usize;
        Self {
            a: place.a.wrapping_add(row * if A_ALONG_K { Self::A_PITCH } else { 1 }),
            b: place.b.wrapping_add(col * if B_ALONG_K { Self::B_PITCH } else { 1 }),
            form: core::marker::PhantomData,
        }
    }

    /// Adds the products of the first `valid` of four k elements, those of that number.
    ///
    /// # Safety
    /// The stage has the four, written before a barrier.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn multiply(&self, acc: &mut Accumulators<f32>, four: usize, valid: u32) {
        let a = self.a.wrapping_add(4 * four * if A_ALONG_K { 1 } else { Self::A_PITCH });
        let b = self.b.wrapping_add(4 * four * if B_ALONG_K { 1 } else { Self::B_PITCH });
        // Of lines along k four elements of each row; else as many quads of rows of each k element.
        let of_step = rows::<F>() / 4;
        let mut a_quads = [[0.0; 4]; 16];
        let mut b_quads = [[0.0; 4]; 4];
        unroll!(for I in 0..16 {
            if I < rows::<F>() {
                let at = if A_ALONG_K {
                    I * DOWN as usize * Self::A_PITCH
                } else {
                    I / of_step * Self::A_PITCH + I % of_step * 4
                };
                // SAFETY: the caller's promise; they begin at a multiple of 16 bytes.
                a_quads[I] = unsafe { a.wrapping_add(at).read_quad() };
            }
        });
        unroll!(for J in 0..4 {
            let at = J * Self::B_PITCH * if B_ALONG_K { ACROSS as usize } else { 1 };
            // SAFETY: the same.
            b_quads[J] = unsafe { b.wrapping_add(at).read_quad() };
        });
        unroll!(for S in 0..4 {
            if (S as u32) < valid {
                unroll!(for I in 0..16 {
                    if I < rows::<F>() {
                        let quad = if A_ALONG_K { I } else { S * of_step + I / 4 };
                        let x = a_quads[quad][if A_ALONG_K { S } else { I % 4 }];
                        unroll!(for J in 0..4 {
                            let y = if B_ALONG_K { b_quads[J][S] } else { b_quads[S][J] };
                            acc[I][J] = Accumulator::mul_add(x, y, acc[I][J]);
                        });
                    }
                });
            }
        });
    }
}
