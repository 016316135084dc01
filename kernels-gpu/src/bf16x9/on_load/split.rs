//! The way of the operands to the stages: f32 from global memory to registers, limbs from there to shared memory.

use core::marker::PhantomData;

use cuda_std::arch::sm90::{bulk, warpgroup as barrier};
use cuda_std::memory::{Global, Shared, SharedAddress, global, null, read_quad};
use cuda_std::{thread, warp};
use gemm_spec::batched_limbs::{SPLITTERS, TILE};
use gemm_spec::params::BatchedParams;
use gemm_spec::split::{
    BLOCK_K, LEAST_LIFTED, Limbs, MIN_MAGNITUDE, OCTET, PANEL_ROWS, bf16_limb_offset, lifted,
    power_of_two, tiles,
};
use gemm_spec::warpgroup;

use super::{Scale, Stages};
use crate::bf16x9::device::split_pair;
use crate::parts::product_tile::ProductTile;
use crate::parts::quad::Quad;
use crate::parts::unroll::unroll;

/// Octets of k elements of a row of A, or a column of B, in a stage.
const OCTETS: u32 = BLOCK_K / OCTET;
/// Octets of an operand that a thread splits.
const OWN: usize = (PANEL_ROWS * OCTETS / SPLITTERS) as usize;
const _: () = assert!(OWN == 2, "the octets of a thread are written out");

/// A number that orders magnitudes, zero behind all others.
#[inline(always)]
const fn magnitude(x: f32) -> u32 {
    (x.to_bits() << 1).wrapping_sub(1)
}

/// The least [`magnitude`] in a row that limbs hold exactly, if the row is multiplied by that power of two.
#[inline(always)]
fn least_held<S: Scale>(factor: f32) -> u32 {
    if !S::SCALING.is_any() {
        return const { magnitude(MIN_MAGNITUDE) };
    }
    // An inverse that is an f32, and perhaps a limit that is none: then there is nothing below it but zero.
    let inverse = f32::from_bits(power_of_two(127).to_bits() - factor.to_bits());
    ((LEAST_LIFTED * inverse).to_bits() << 1).saturating_sub(1)
}

/// A thread's share of an operand: some octets of each stage. A "row" is a row of A or a column of B.
struct Side<const ALONG_K: bool, S> {
    /// The first product's operand, elements from one line to the next, and to the next product's.
    operand: Global<f32>,
    ld: u64,
    stride: u64,
    /// Rows of the operand.
    rows: u32,
    /// Whether octets are two aligned packets, or end with k after the first.
    in_quads: bool,
    /// The exponents of the rows, if they are scaled.
    exponents: Global<i32>,
    /// The first element of each octet of the next stage, and what its row is multiplied by.
    from: [Global<f32>; OWN],
    factor: [f32; OWN],
    scale: PhantomData<S>,
}

/// The elements that a thread has of an operand in a stage, and what those of an octet are multiplied by.
#[derive(Clone, Copy)]
struct Loaded {
    octets: [[f32; 8]; OWN],
    factor: [f32; OWN],
}

impl<const ALONG_K: bool, S: Scale> Side<ALONG_K, S> {
    #[inline(always)]
    fn new(
        operand: Global<f32>,
        ld: u64,
        stride: u64,
        (rows, k): (u32, u32),
        alone: bool,
        exponents: Global<i32>,
    ) -> Self {
        let in_quads = ALONG_K
            && operand.cast::<Quad<f32>>().is_aligned()
            && ld.is_multiple_of(4)
            && (alone || stride.is_multiple_of(4))
            && k.is_multiple_of(4);
        let (from, factor) = ([null(); OWN], [1.0; OWN]);
        Self { operand, ld, stride, rows, in_quads, exponents, from, factor, scale: PhantomData }
    }

    /// The row and the octet of a stage that a thread has: neighbouring threads have neighbours in a line.
    #[inline(always)]
    const fn place(thread: u32, own: usize) -> (u32, u32) {
        let at = thread + own as u32 * SPLITTERS;
        if ALONG_K { (at / OCTETS, at % OCTETS) } else { (at % PANEL_ROWS, at / PANEL_ROWS) }
    }

    /// Goes to the tile of a product that begins with the row.
    ///
    /// # Safety
    /// Obligation 1 of [`multiply`](super::multiply).
    #[inline(always)]
    unsafe fn begin(&mut self, thread: u32, product: u32, first: u32) {
        let operand = self.operand.wrapping_add((u64::from(product) * self.stride) as usize);
        unroll!(for I in 0..2 {
            let (row, octet) = Self::place(thread, I);
            // What is not in the operand repeats its last row: what comes of it is not in C.
            let row = (first + row).min(self.rows - 1);
            if S::SCALING.is_any() {
                // SAFETY: the caller's promise: each row has one.
                let exponent = unsafe { self.exponents.wrapping_add(row as usize).read() };
                self.factor[I] = power_of_two(lifted(exponent));
            }
            let row = u64::from(row);
            let step = u64::from(octet * OCTET);
            let offset = if ALONG_K { row * self.ld + step } else { step * self.ld + row };
            self.from[I] = operand.wrapping_add(offset as usize);
        });
    }

    /// Loads the thread's octets of a stage, of which `left` k elements are in the operand, and goes on to the next.
    /// Those behind are zero.
    ///
    /// # Safety
    /// Obligation 1 of [`multiply`](super::multiply).
    #[inline(always)]
    unsafe fn load(&mut self, thread: u32, left: u32) -> Loaded {
        let octets = if left >= BLOCK_K {
            // SAFETY: the caller's promise; all k elements of the stage are there.
            unsafe { self.octets::<true>(thread, left) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.octets::<false>(thread, left) }
        };
        let step = if ALONG_K { 1 } else { self.ld as usize };
        unroll!(for I in 0..2 {
            self.from[I] = self.from[I].wrapping_add(BLOCK_K as usize * step);
        });
        Loaded { octets, factor: self.factor }
    }

    /// The thread's octets of a stage that is `WHOLE`, or has `left` k elements.
    ///
    /// # Safety
    /// Obligation 1 of [`multiply`](super::multiply).
    #[inline(always)]
    unsafe fn octets<const WHOLE: bool>(&self, thread: u32, left: u32) -> [[f32; 8]; OWN] {
        let step = if ALONG_K { 1 } else { self.ld as usize };
        let mut octets = [[0.0; 8]; OWN];
        unroll!(for I in 0..2 {
            let (_, octet) = Self::place(thread, I);
            let (from, left) = (self.from[I], left.saturating_sub(octet * OCTET));
            if self.in_quads {
                unroll!(for H in 0..2 {
                    if WHOLE || left > 4 * H as u32 {
                        // SAFETY: the guard: a quad that begins before k ends there. It is aligned.
                        let [a, b, c, d] = unsafe { read_quad(from.wrapping_add(4 * H)) };
                        octets[I][4 * H] = a;
                        octets[I][4 * H + 1] = b;
                        octets[I][4 * H + 2] = c;
                        octets[I][4 * H + 3] = d;
                    }
                });
            } else {
                unroll!(for J in 0..8 {
                    if WHOLE || left > J as u32 {
                        // SAFETY: the guard.
                        octets[I][J] = unsafe { from.wrapping_add(J * step).read() };
                    }
                });
            }
        });
        octets
    }

    /// Writes the limbs of the octets to the operand's tile of a stage, and says whether there is a number that limbs do
    /// not hold.
    ///
    /// # Safety
    /// The stage is empty; nobody else has the thread's octets.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn write(loaded: &Loaded, thread: u32, tile: SharedAddress<u8>) -> bool {
        let mut noted = false;
        unroll!(for I in 0..2 {
            let [a, b, c, d, e, f, g, h] = loaded.octets[I];
            let factor = loaded.factor[I];
            let smaller = |x: f32, y: f32| magnitude(x).min(magnitude(y));
            let least = smaller(a, b).min(smaller(c, d)).min(smaller(e, f)).min(smaller(g, h));
            noted |= least < least_held::<S>(factor);
            let split = |x: f32, y: f32| {
                if S::SCALING.is_any() {
                    split_pair(x * factor, y * factor)
                } else {
                    split_pair(x, y)
                }
            };
            let limbs = [split(a, b), split(c, d), split(e, f), split(g, h)];
            let (row, octet) = Self::place(thread, I);
            let write = |limb: usize| {
                let at = bf16_limb_offset(row, octet, limb as u32, 1);
                let at = tile.wrapping_add(at as usize).cast::<u32>();
                // SAFETY: 16 bytes that `bf16_limb_offset` gives to this limb of this octet alone.
                unsafe { at.write_quad(limbs.map(|of_pair| of_pair[limb])) };
            };
            write(0);
            write(1);
            write(2);
        });
        noted
    }
}

/// What a thread splits of both operands.
struct Splitter<const A_ALONG_K: bool, const B_ALONG_K: bool, S> {
    a: Side<A_ALONG_K, S>,
    b: Side<B_ALONG_K, S>,
    thread: u32,
    /// The tile of the next stage, and the k elements before.
    tile: u32,
    done: u32,
}

impl<const A_ALONG_K: bool, const B_ALONG_K: bool, S: Scale> Splitter<A_ALONG_K, B_ALONG_K, S> {
    /// # Safety
    /// Obligation 1 of [`multiply`](super::multiply).
    #[inline(always)]
    unsafe fn new(
        params: &BatchedParams<f32>,
        [a_exponents, b_exponents]: [Global<i32>; 2],
    ) -> Self {
        let &BatchedParams { m, n, k, count, lda, a_stride, ldb, b_stride, .. } = params;
        // SAFETY: the caller's promise.
        let a = unsafe { global(params.a) }.cast();
        // SAFETY: the same.
        let b = unsafe { global(params.b) }.cast();
        Self {
            a: Side::new(a, lda, a_stride, (m, k), count == 1, a_exponents),
            b: Side::new(b, ldb, b_stride, (n, k), count == 1, b_exponents),
            thread: thread::thread_idx_x(),
            tile: thread::block_idx_x(),
            done: 0,
        }
    }

    /// Loads the next stage, whose tile is one of the launch.
    ///
    /// # Safety
    /// Obligation 1 of [`multiply`](super::multiply).
    #[inline(always)]
    unsafe fn load(&mut self, params: &BatchedParams<f32>) -> [Loaded; 2] {
        if self.done == 0 {
            let work = ProductTile::of(params, TILE, self.tile);
            // SAFETY: the caller's promise.
            unsafe { self.a.begin(self.thread, work.product, work.row) };
            // SAFETY: the same.
            unsafe { self.b.begin(self.thread, work.product, work.col) };
        }
        let left = params.k - self.done;
        // SAFETY: the caller's promise.
        let a = unsafe { self.a.load(self.thread, left) };
        // SAFETY: the same.
        let b = unsafe { self.b.load(self.thread, left) };
        if left > BLOCK_K {
            self.done += BLOCK_K;
        } else {
            (self.tile, self.done) = (self.tile + thread::grid_dim_x(), 0);
        }
        [a, b]
    }
}

/// Fills the stages of all tiles of the block, each while the next is being loaded.
///
/// # Safety
/// Obligations 1 and 2 of [`multiply`](super::multiply); lines of A are along k, or not, as are those of B; both warpgroups are here; each
/// stage's notes are where `notes` says.
#[inline(always)]
pub(super) unsafe fn fill<const A_ALONG_K: bool, const B_ALONG_K: bool, S: Scale>(
    params: &BatchedParams<f32>,
    exponents: [Global<i32>; 2],
    pipe: &mut Stages,
    notes: impl Fn(&Stages) -> Shared<Quad<u32>>,
) {
    // SAFETY: the caller's promise.
    let mut own = unsafe { Splitter::<A_ALONG_K, B_ALONG_K, S>::new(params, exponents) };
    if tiles(params.k) == 0 || own.tile >= params.tiles {
        return;
    }
    let thread = own.thread;
    let (warp, lane, warpgroup) = (thread / 32, thread % 32, thread / warpgroup::THREADS);
    // SAFETY: the caller's promise.
    let mut next = unsafe { own.load(params) };
    let mut goes_on = true;
    while goes_on {
        let [a, b] = next;
        goes_on = own.tile < params.tiles;
        if goes_on {
            // SAFETY: the caller's promise.
            next = unsafe { own.load(params) };
        }
        // SAFETY: the barriers are initialised.
        unsafe { pipe.producer_wait() };
        let tile = pipe.tile();
        // SAFETY: the stage is empty after the wait.
        let of_a = unsafe { Side::<A_ALONG_K, S>::write(&a, thread, tile) };
        let tile = tile.wrapping_add(Limbs::ThreeBf16.tile_bytes() as usize);
        // SAFETY: the same; B's tile is behind A's.
        let of_b = unsafe { Side::<B_ALONG_K, S>::write(&b, thread, tile) };
        // SAFETY: all lanes of the warp are here.
        let noted = unsafe { warp::any(warp::FULL, of_a || of_b) };
        if lane == 0 {
            let note = notes(pipe).cast::<u32>().wrapping_add(warp as usize);
            // SAFETY: a word of the stage's notes, of this warp alone; the stage is empty.
            unsafe { note.write(u32::from(noted)) };
        }
        bulk::fence_proxy_async();
        // SAFETY: the warpgroup's threads, and no others.
        unsafe { barrier::sync(1 + warpgroup) };
        if thread % warpgroup::THREADS == 0 {
            // SAFETY: the warpgroup's writes are visible to all since the fences and the barrier.
            unsafe { pipe.producer_commit() };
        }
        pipe.advance();
    }
}
