//! f64: a warp multiplies its tile as two to four by four tiles of 16 x 8, four k elements at a time.

use cuda_std::arch::sm90::mma::m16n8k4_f64;
use cuda_std::memory::SharedAddress;
use gemm_spec::block_tile::BlockTile;

use super::{Accumulators, Copies, Form, Place, Target, Units, kernel, pitch, steps};
use crate::parts::quad::Pair;
use crate::parts::unroll::unroll;

kernel! {
    /// For batches, and for products of few tiles.
    DMMA_64X64, EMULATED_DMMA_64X64 = "dmma_64x64", dmma_64x64_f64: f64, F64, BatchedF64, Sm90a,
    Of64 of BlockTile { warps: [2, 2], warp_rows: 32, line_bytes: 256 }, 2 an SM
}

kernel! {
    /// For batches of products that tiles of 64 rows and columns divide badly.
    DMMA_96X96, EMULATED_DMMA_96X96 = "dmma_96x96", dmma_96x96_f64: f64, F64, BatchedF64, Sm90a,
    Of96 of BlockTile { warps: [2, 3], warp_rows: 48, line_bytes: 128 }, 2 an SM
}

kernel! {
    /// For large products.
    DMMA_128X128, EMULATED_DMMA_128X128 = "dmma_128x128", dmma_128x128_f64: f64, F64, BatchedF64, Sm90a,
    Of128 of BlockTile { warps: [2, 4], warp_rows: 64, line_bytes: 256 }, 1 an SM
}

/// A lane's elements of four k elements of its warp's tile.
#[derive(Clone, Copy)]
struct Fragments {
    a: [[f64; 2]; 4],
    b: [f64; 4],
}

/// Tiles of 16 rows of a warp.
const fn row_tiles<F: Form>() -> usize {
    (F::TILE.warp_rows / 16) as usize
}

/// Elements from one row of A, or column of B, to the next, and from one k element to the next.
const fn pitches<F: Form>(is_a: bool, along_k: bool) -> (usize, usize) {
    let pitch = pitch::<f64, F>(is_a, along_k);
    if along_k { (pitch, 1) } else { (1, pitch) }
}

/// Reads an element of a stage.
///
/// # Safety
/// It is in the stage, written before a barrier.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn read(
    at: SharedAddress<f64>,
    (line, step): (usize, usize),
    (of_line, of_step): (usize, usize),
) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { at.wrapping_add(line * of_line + step * of_step).read_double() }
}

/// A lane's first elements of its warp's tiles in a stage.
struct Lane<F, const A_ALONG_K: bool, const B_ALONG_K: bool> {
    a: SharedAddress<f64>,
    b: SharedAddress<f64>,
    /// Its k element of each four.
    step: u32,
    form: core::marker::PhantomData<F>,
}

impl<F: Form, const A_ALONG_K: bool, const B_ALONG_K: bool> Lane<F, A_ALONG_K, B_ALONG_K> {
    const A: (usize, usize) = pitches::<F>(true, A_ALONG_K);
    const B: (usize, usize) = pitches::<F>(false, B_ALONG_K);

    #[inline(always)]
    fn new(place: Place<f64>) -> Self {
        let (line, step) = ((place.lane / 4) as usize, place.lane % 4);
        let first = |(of_line, of_step)| line * of_line + step as usize * of_step;
        let a = place.a.wrapping_add(first(Self::A));
        let b = place.b.wrapping_add(first(Self::B));
        Self { a, b, step, form: core::marker::PhantomData }
    }

    /// The fragments of four k elements; -0 and 0 of a k element that is to change no sum.
    ///
    /// # Safety
    /// The stage has the elements, written before a barrier.
    #[inline(always)]
    unsafe fn fragments(&self, at: usize, counts: bool) -> Fragments {
        let mut parts = Fragments { a: [[0.0; 2]; 4], b: [0.0; 4] };
        unroll!(for I in 0..4 {
            unroll!(for H in 0..2 {
                if I < row_tiles::<F>() {
                    // SAFETY: the caller's promise.
                    let x = unsafe { read(self.a, (16 * I + 8 * H, at), Self::A) };
                    parts.a[I][H] = if counts { x } else { -0.0 };
                }
            });
        });
        unroll!(for J in 0..4 {
            // SAFETY: the caller's promise.
            let y = unsafe { read(self.b, (8 * J, at), Self::B) };
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
unsafe fn add<F: Form>(acc: &mut Accumulators<f64>, parts: &Fragments) {
    unroll!(for I in 0..4 {
        unroll!(for J in 0..4 {
            if I < row_tiles::<F>() {
                // SAFETY: the caller's promise.
                unsafe { m16n8k4_f64(&mut acc[4 * I + J], parts.a[I], parts.b[J]) };
            }
        });
    });
}

impl Units for f64 {
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
                let parts = unsafe { lane.fragments(4 * Q, true) };
                // SAFETY: the caller's promise.
                unsafe { add::<F>(acc, &parts) };
                // SAFETY: the caller's promise.
                unsafe { copies.start((Q, fours)) };
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
        let mut done = 0;
        while done < valid {
            // SAFETY: the caller's promise.
            let parts = unsafe { lane.fragments(done as usize, done + lane.step < valid) };
            // SAFETY: the caller's promise.
            unsafe { add::<F>(acc, &parts) };
            done += 4;
        }
    }

    #[inline(always)]
    unsafe fn store<F: Form, const A_ALONG_K: bool, const B_ALONG_K: bool>(
        acc: &Accumulators<Self>,
        lane: u32,
        target: Target<Self>,
    ) {
        let pairs = target.c.cast::<Pair<Self>>().is_aligned() && target.ldc.is_multiple_of(2);
        unroll!(for I in 0..4 {
            unroll!(for H in 0..2 {
                if I < row_tiles::<F>() {
                    let row = (16 * I + 8 * H) as u32 + lane / 4;
                    unroll!(for J in 0..4 {
                        let col = 8 * J as u32 + lane % 4 * 2;
                        let own = [acc[4 * I + J][2 * H], acc[4 * I + J][2 * H + 1]];
                        // SAFETY: the caller's promise.
                        unsafe { put_pair(&target, (row, col), own, pairs) };
                    });
                }
            });
        });
    }
}

/// Stores two neighbours of a row, those that are in C, by one instruction where `aligned` says that they may be.
///
/// # Safety
/// [`Units::store`]'s; the elements are the calling thread's.
#[inline(always)]
unsafe fn put_pair(target: &Target<f64>, (row, col): (u32, u32), acc: [f64; 2], aligned: bool) {
    if aligned && row < target.rows && col + 2 <= target.cols {
        let offset = u64::from(row) * target.ldc + u64::from(col);
        let at = target.c.wrapping_add(offset as usize).cast::<Pair<f64>>();
        let mut old = [0.0; 2];
        if target.beta != 0.0 {
            // SAFETY: two neighbours in C, aligned.
            old = unsafe { at.read() }.0;
        }
        let new = Pair([target.value(acc[0], old[0]), target.value(acc[1], old[1])]);
        // SAFETY: the same, and they are this thread's.
        unsafe { at.write(new) };
    } else {
        // SAFETY: the caller's promise.
        unsafe { target.put((row, col), acc[0]) };
        // SAFETY: the same.
        unsafe { target.put((row, col + 1), acc[1]) };
    }
}
