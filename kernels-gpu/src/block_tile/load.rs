//! The way of the operands to the stages.

use cuda_std::arch::sm80::{copy_async_4, copy_async_8, copy_async_16};
use cuda_std::memory::{Global, SharedAddress};
use gemm_spec::Accumulator;
use gemm_spec::block_tile::{PAD, SIDE, THREADS, steps};
use gemm_spec::params::BatchedParams;

use super::{Work, global};
use crate::parts::quad::{Pair, Quad};
use crate::parts::unroll::unroll;

/// Packets of an operand's tile that a thread copies.
const PACKETS: usize = 4;

/// An element type that is copied to shared memory.
pub(super) trait Loads: Accumulator {
    /// k elements of a stage.
    const STEPS: u32;
    /// Elements of 16 bytes.
    const PACKET: u32;
    /// Those elements, at a multiple of 16 bytes.
    type Packet;

    /// Starts the copy of one element.
    ///
    /// # Safety
    /// Those of [`copy_async_4`].
    unsafe fn copy(to: SharedAddress<Self>, from: Global<Self>);
}

impl Loads for f32 {
    const STEPS: u32 = steps(4);
    const PACKET: u32 = 4;
    type Packet = Quad<Self>;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn copy(to: SharedAddress<Self>, from: Global<Self>) {
        // SAFETY: the caller's promise.
        unsafe { copy_async_4(to, from) };
    }
}

impl Loads for f64 {
    const STEPS: u32 = steps(8);
    const PACKET: u32 = 2;
    type Packet = Pair<Self>;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn copy(to: SharedAddress<Self>, from: Global<Self>) {
        // SAFETY: the caller's promise.
        unsafe { copy_async_8(to, from) };
    }
}

/// What a thread copies of both operands.
pub(super) struct Loader<T, const A_ALONG_K: bool, const B_ALONG_K: bool> {
    a: Side<T, A_ALONG_K>,
    b: Side<T, B_ALONG_K>,
}

impl<T: Loads, const A_ALONG_K: bool, const B_ALONG_K: bool> Loader<T, A_ALONG_K, B_ALONG_K> {
    /// A thread's share of no tile yet.
    #[inline(always)]
    pub(super) fn new(thread: u32) -> Self {
        Self { a: Side::new(thread), b: Side::new(thread) }
    }

    /// Goes to the beginning of a tile.
    ///
    /// # Safety
    /// Obligation 1 of the entries.
    #[inline(always)]
    pub(super) unsafe fn begin(&mut self, params: &BatchedParams<T>, work: &Work) {
        let product = u64::from(work.product);
        // SAFETY: the caller's promise.
        let a = unsafe { global(params.a) }.cast::<T>();
        let a = a.wrapping_add((product * params.a_stride) as usize);
        self.a.begin(a, params.lda, (work.row, params.m.saturating_sub(work.row)));
        // SAFETY: the caller's promise.
        let b = unsafe { global(params.b) }.cast::<T>();
        let b = b.wrapping_add((product * params.b_stride) as usize);
        self.b.begin(b, params.ldb, (work.col, params.n.saturating_sub(work.col)));
    }

    /// Starts the copies of the tile's next stage, of k elements from `k0` on.
    ///
    /// # Safety
    /// Obligation 1 of the entries; nobody accesses the stage until the thread has waited for its copies and all
    /// have met at a barrier.
    #[inline(always)]
    pub(super) unsafe fn start(
        &mut self,
        params: &BatchedParams<T>,
        k0: u32,
        (a, b): (SharedAddress<T>, SharedAddress<T>),
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.a.start(params.lda, (k0, params.k), a) };
        // SAFETY: the caller's promise.
        unsafe { self.b.start(params.ldb, (k0, params.k), b) };
    }

    /// Whether [`Loader::start_packet`] may have the stages of the tile of which all k elements are in the matrices:
    /// the same for all threads of the block.
    #[inline(always)]
    pub(super) fn in_packets(&self) -> bool {
        self.a.in_packets && self.b.in_packets
    }

    /// Starts the copy of one of the thread's four packets of either operand, without a look at where the matrices
    /// end.
    ///
    /// # Safety
    /// Those of [`Loader::start`]; [`Loader::in_packets`], and all k elements of the stage are in the matrices.
    #[inline(always)]
    pub(super) unsafe fn start_packet<const I: usize>(
        &mut self,
        params: &BatchedParams<T>,
        (a, b): (SharedAddress<T>, SharedAddress<T>),
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.a.start_packet::<I>(params.lda, a) };
        // SAFETY: the caller's promise.
        unsafe { self.b.start_packet::<I>(params.ldb, b) };
    }
}

/// What a thread copies of an operand: a packet in each of four lines.
struct Side<T, const ALONG_K: bool> {
    /// The first of its lines in a stage, and the first element of its packets there.
    line: u32,
    x: u32,
    /// The tile, and how many of its lines, or elements of lines, are in the matrix.
    tile: Global<T>,
    extent: u32,
    /// Where the thread's packets of the next stage come from, if its k elements are in the matrix.
    packets: [Global<T>; PACKETS],
    /// Whether those packets are in the matrix as a whole, and whether they are aligned.
    whole: bool,
    aligned: bool,
    /// Whether both are so for all threads of the block.
    in_packets: bool,
}

impl<T: Loads, const ALONG_K: bool> Side<T, ALONG_K> {
    /// Packets of a line in a stage, and lines from one of a thread's packets to the next.
    const OF_LINE: u32 = if ALONG_K { T::STEPS } else { SIDE } / T::PACKET;
    const APART: u32 = THREADS / Self::OF_LINE;
    /// Elements from one line of a stage to the next.
    const PITCH: u32 = if ALONG_K { T::STEPS } else { SIDE } + PAD;

    #[inline(always)]
    fn new(thread: u32) -> Self {
        let none = cuda_std::memory::null();
        Self {
            line: thread / Self::OF_LINE,
            x: thread % Self::OF_LINE * T::PACKET,
            tile: none,
            extent: 0,
            packets: [none; PACKETS],
            whole: false,
            aligned: false,
            in_packets: false,
        }
    }

    /// Goes to the tile whose lines, or elements of lines, begin at `first`, with `extent` of them in the matrix.
    #[inline(always)]
    fn begin(&mut self, matrix: Global<T>, ld: u64, (first, extent): (u32, u32)) {
        let offset = if ALONG_K { u64::from(first) * ld } else { u64::from(first) };
        self.tile = matrix.wrapping_add(offset as usize);
        self.extent = extent;
        self.aligned =
            self.tile.cast::<T::Packet>().is_aligned() && ld.is_multiple_of(u64::from(T::PACKET));
        let all_whole = ALONG_K || extent.is_multiple_of(T::PACKET) || extent >= SIDE;
        self.whole = all_whole || self.x + T::PACKET <= extent;
        self.in_packets = self.aligned && all_whole;
        // What is not in the matrix repeats its last lines or packets: what comes of it is not in C.
        let last = if ALONG_K { extent.saturating_sub(1) } else { u32::MAX };
        let x = if ALONG_K { self.x } else { self.x.min(extent.saturating_sub(T::PACKET)) };
        unroll!(for I in 0..4 {
            let line = (self.line + I as u32 * Self::APART).min(last);
            self.packets[I] = self.tile.wrapping_add((u64::from(line) * ld) as usize + x as usize);
        });
    }

    /// Starts the copies of the stage of k elements from `k0` on.
    ///
    /// # Safety
    /// As [`Loader::start`].
    #[inline(always)]
    unsafe fn start(&mut self, ld: u64, (k0, k): (u32, u32), stage: SharedAddress<T>) {
        let to = stage.wrapping_add((self.line * Self::PITCH + self.x) as usize);
        let place = |line: usize| to.wrapping_add(line * (Self::APART * Self::PITCH) as usize);
        // What is behind k up to a multiple of four repeats the last k elements.
        let end = k.next_multiple_of(4);
        if self.whole {
            unroll!(for I in 0..4 {
                let (first, steps) = if ALONG_K {
                    (k0 + self.x, T::PACKET)
                } else {
                    (k0 + self.line + I as u32 * Self::APART, 1)
                };
                let from = self.packets[I];
                if self.aligned && first + steps <= k {
                    let to = place(I).cast::<T::Packet>();
                    // SAFETY: the packet is in the matrix, aligned in both memories, and no other thread has it.
                    unsafe { copy_async_16(to, from.cast::<T::Packet>()) };
                } else if first < end {
                    let last = k - 1;
                    unroll!(for J in 0..4 {
                        if (J as u32) < T::PACKET {
                            let offset = if ALONG_K {
                                from_to(first, (first + J as u32).min(last))
                            } else {
                                from_to(first, first.min(last)).wrapping_mul(ld) + J as u64
                            };
                            let from = from.wrapping_add(offset as usize);
                            // SAFETY: the element is in the matrix, and no other thread has its place.
                            unsafe { T::copy(place(I).wrapping_add(J), from) };
                        }
                    });
                }
            });
        } else if self.extent > 0 {
            // SAFETY: the caller's promise.
            unsafe { self.start_elements(ld, (k0, k), to) };
        }
        unroll!(for I in 0..4 {
            self.packets[I] = self.packets[I].wrapping_add(Self::next(ld));
        });
    }

    /// Starts the copy of a packet, and goes on to that of the next stage.
    ///
    /// # Safety
    /// As [`Loader::start_packet`].
    #[inline(always)]
    unsafe fn start_packet<const I: usize>(&mut self, ld: u64, stage: SharedAddress<T>) {
        let to = (self.line + I as u32 * Self::APART) * Self::PITCH + self.x;
        let to = stage.wrapping_add(to as usize).cast::<T::Packet>();
        // SAFETY: the packet is in the matrix, aligned in both memories, and no other thread has it.
        unsafe { copy_async_16(to, self.packets[I].cast::<T::Packet>()) };
        self.packets[I] = self.packets[I].wrapping_add(Self::next(ld));
    }

    /// Elements from a packet of one stage to that of the next.
    #[inline(always)]
    fn next(ld: u64) -> usize {
        (if ALONG_K { u64::from(T::STEPS) } else { u64::from(T::STEPS) * ld }) as usize
    }

    /// Starts the copies element by element, those behind the matrix again of its last ones; of k elements up to a
    /// multiple of four.
    ///
    /// # Safety
    /// As [`Loader::start`]; the matrix has elements.
    #[inline(always)]
    unsafe fn start_elements(&self, ld: u64, (k0, k): (u32, u32), to: SharedAddress<T>) {
        let end = k.next_multiple_of(4);
        let mut at = 0;
        while at < PACKETS as u32 * T::PACKET {
            let (line, x) = (at / T::PACKET * Self::APART, at % T::PACKET);
            let to = to.wrapping_add((line * Self::PITCH + x) as usize);
            let (line, x) = (self.line + line, self.x + x);
            let (step, other) = if ALONG_K { (k0 + x, line) } else { (k0 + line, x) };
            if step < end {
                let (step, other) = (step.min(k - 1), other.min(self.extent - 1));
                let (line, x) = if ALONG_K { (other, step) } else { (step, other) };
                let offset = u64::from(line) * ld + u64::from(x);
                // SAFETY: the element is in the matrix; no other thread has its place.
                unsafe { T::copy(to, self.tile.wrapping_add(offset as usize)) };
            }
            at += 1;
        }
    }
}

/// The way from one index to another, which may be before it, modulo 2^64.
#[inline(always)]
fn from_to(one: u32, other: u32) -> u64 {
    u64::from(other).wrapping_sub(u64::from(one))
}
