//! The way of the operands to the stages.

use cuda_std::arch::sm80::{copy_async_4, copy_async_8, copy_async_16};
use cuda_std::memory::{Global, SharedAddress};
use gemm_spec::Accumulator;
use gemm_spec::block_tile::{MOST_PACKETS, PACKET_BYTES, PAD};
use gemm_spec::params::BatchedParams;

use super::{Form, global};
use crate::parts::product_tile::ProductTile;
use crate::parts::quad::{Pair, Quad};
use crate::parts::unroll::unroll;

const _: () = assert!(MOST_PACKETS == 8, "the packets of a thread are written out");

/// An element type that is copied to shared memory.
pub(super) trait Loads: Accumulator {
    /// Bytes of an element, and elements of a packet.
    const BYTES: u32;
    const PACKET: u32 = PACKET_BYTES / Self::BYTES;
    /// Those elements, at a multiple of 16 bytes.
    type Packet;

    /// Starts the copy of one element.
    ///
    /// # Safety
    /// Those of [`copy_async_4`].
    unsafe fn copy(to: SharedAddress<Self>, from: Global<Self>);
}

impl Loads for f32 {
    const BYTES: u32 = 4;
    type Packet = Quad<Self>;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn copy(to: SharedAddress<Self>, from: Global<Self>) {
        // SAFETY: the caller's promise.
        unsafe { copy_async_4(to, from) };
    }
}

impl Loads for f64 {
    const BYTES: u32 = 8;
    type Packet = Pair<Self>;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn copy(to: SharedAddress<Self>, from: Global<Self>) {
        // SAFETY: the caller's promise.
        unsafe { copy_async_8(to, from) };
    }
}

/// What a thread copies of both operands.
pub(super) struct Loader<T, F, const A_ALONG_K: bool, const B_ALONG_K: bool> {
    a: Side<T, F, A_ALONG_K, true>,
    b: Side<T, F, B_ALONG_K, false>,
}

impl<T: Loads, F: Form, const A_ALONG_K: bool, const B_ALONG_K: bool>
    Loader<T, F, A_ALONG_K, B_ALONG_K>
{
    /// A thread's share of no tile yet.
    #[inline(always)]
    pub(super) fn new(thread: u32, params: &BatchedParams<T>) -> Self {
        Self { a: Side::new(thread, params.lda), b: Side::new(thread, params.ldb) }
    }

    /// Goes to the beginning of a tile.
    ///
    /// # Safety
    /// Obligation 1 of the entries.
    #[inline(always)]
    pub(super) unsafe fn begin(&mut self, params: &BatchedParams<T>, work: &ProductTile) {
        let product = u64::from(work.product);
        // SAFETY: the caller's promise.
        let a = unsafe { global(params.a) }.cast::<T>();
        let a = a.wrapping_add((product * params.a_stride) as usize);
        self.a.begin(a, (work.row, params.m - work.row));
        // SAFETY: the caller's promise.
        let b = unsafe { global(params.b) }.cast::<T>();
        let b = b.wrapping_add((product * params.b_stride) as usize);
        self.b.begin(b, (work.col, params.n - work.col));
    }

    /// Whether [`Loader::start_part`] may have the stages of the tile of which all k elements are in the matrices:
    /// the same for all threads of the block.
    #[inline(always)]
    pub(super) fn in_packets(&self) -> bool {
        self.a.in_packets && self.b.in_packets
    }

    /// Starts the copies of the tile's next stage, of k elements from `k0` on of k.
    ///
    /// # Safety
    /// Obligation 1 of the entries; nobody accesses the stage until the thread has waited for its copies and all
    /// have met at a barrier.
    #[inline(always)]
    pub(super) unsafe fn start(
        &self,
        (k0, k): (u32, u32),
        (a, b): (SharedAddress<T>, SharedAddress<T>),
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.a.start((k0, k), a) };
        // SAFETY: the caller's promise.
        unsafe { self.b.start((k0, k), b) };
    }

    /// Starts the copies of one of `parts` of the next stage, without a look at where the matrices end.
    ///
    /// # Safety
    /// Those of [`Loader::start`]; [`Loader::in_packets`], and all k elements of the stage are in the matrices.
    #[inline(always)]
    pub(super) unsafe fn start_part(
        &self,
        (part, parts): (usize, usize),
        (a, b): (SharedAddress<T>, SharedAddress<T>),
    ) {
        unroll!(for I in 0..8 {
            if I * parts / self.a.packets() == part && I < self.a.packets() {
                // SAFETY: the caller's promise.
                unsafe { self.a.start_packet(I, a) };
            }
            if I * parts / self.b.packets() == part && I < self.b.packets() {
                // SAFETY: the caller's promise.
                unsafe { self.b.start_packet(I, b) };
            }
        });
    }

    /// Goes on to the next stage of the tile.
    #[inline(always)]
    pub(super) fn advance(&mut self) {
        self.a.advance();
        self.b.advance();
    }
}

/// What a thread copies of an operand: a packet in each of some lines of a stage.
///
/// Each copy's address is in registers of its own, the sum of one that goes from stage to stage and of one that does
/// not change: no copy waits until another has read its address.
struct Side<T, F, const ALONG_K: bool, const IS_A: bool> {
    /// The first of its lines in a stage, and the first element of its packets there.
    line: u32,
    x: u32,
    /// Elements from one line of the matrix to the next, and bytes where the lines of a tile are within 4 GiB: the
    /// way to each packet is then one register.
    ld: u64,
    ld_bytes: u32,
    /// The tile, and how many of its lines, or elements of lines, are in the matrix.
    tile: Global<T>,
    extent: u32,
    /// Where the thread's first packet of the next stage comes from, if its k elements are in the matrix, and how
    /// many lines there are behind it that others may come from.
    from: Global<T>,
    left: u32,
    /// Whether those packets are in the matrix as a whole, and whether they are aligned.
    whole: bool,
    aligned: bool,
    /// Whether both are so for all threads of the block.
    in_packets: bool,
    form: core::marker::PhantomData<F>,
}

impl<T: Loads, F: Form, const ALONG_K: bool, const IS_A: bool> Side<T, F, ALONG_K, IS_A> {
    /// Rows or columns of the tile.
    const SIDE: u32 = if IS_A { F::TILE.tile().m } else { F::TILE.tile().n };
    /// k elements of a stage.
    const STEPS: u32 = F::TILE.steps(T::BYTES);
    /// Elements of a line of a stage.
    const LINE: u32 = if ALONG_K { Self::STEPS } else { Self::SIDE };
    /// Packets of a line in a stage, and lines from one of a thread's packets to the next.
    const OF_LINE: u32 = Self::LINE / T::PACKET;
    const APART: u32 = F::TILE.threads() / Self::OF_LINE;
    /// Elements from one line of a stage to the next.
    const PITCH: u32 = Self::LINE + PAD;

    #[inline(always)]
    fn new(thread: u32, ld: u64) -> Self {
        let none = cuda_std::memory::null();
        Self {
            line: thread / Self::OF_LINE,
            x: thread % Self::OF_LINE * T::PACKET,
            ld,
            ld_bytes: (ld * u64::from(T::BYTES)) as u32,
            tile: none,
            extent: 0,
            from: none,
            left: 0,
            whole: false,
            aligned: false,
            in_packets: false,
            form: core::marker::PhantomData,
        }
    }

    /// Packets that a thread copies.
    #[inline(always)]
    fn packets(&self) -> usize {
        F::TILE.packets(Self::SIDE) as usize
    }

    /// Goes to the tile whose lines, or elements of lines, begin at `first`, with `extent` of them in the matrix.
    #[inline(always)]
    fn begin(&mut self, matrix: Global<T>, (first, extent): (u32, u32)) {
        let offset = if ALONG_K { u64::from(first) * self.ld } else { u64::from(first) };
        self.tile = matrix.wrapping_add(offset as usize);
        self.extent = extent;
        self.aligned = self.tile.cast::<T::Packet>().is_aligned()
            && self.ld.is_multiple_of(u64::from(T::PACKET));
        let all_whole = ALONG_K || extent.is_multiple_of(T::PACKET) || extent >= Self::SIDE;
        self.whole = all_whole || self.x + T::PACKET <= extent;
        let is_near = self.ld < u64::from(u32::MAX / T::BYTES / Self::SIDE.max(Self::STEPS));
        self.in_packets = self.aligned && all_whole && is_near;
        // What is not in the matrix repeats its last lines or packets: what comes of it is not in C.
        let last = if ALONG_K { extent.saturating_sub(1) } else { u32::MAX };
        let x = if ALONG_K { self.x } else { self.x.min(extent.saturating_sub(T::PACKET)) };
        let line = self.line.min(last);
        self.left = last - line;
        self.from = self.tile.wrapping_add((u64::from(line) * self.ld) as usize + x as usize);
    }

    /// Lines from the thread's first packet to another.
    #[inline(always)]
    fn lines(&self, packet: usize) -> u32 {
        let lines = packet as u32 * Self::APART;
        if ALONG_K { lines.min(self.left) } else { lines }
    }

    /// Where a packet of the next stage comes from.
    #[inline(always)]
    fn packet(&self, packet: usize) -> Global<T> {
        self.from.wrapping_add((u64::from(self.lines(packet)) * self.ld) as usize)
    }

    /// Starts the copy of a packet.
    ///
    /// # Safety
    /// As [`Loader::start_part`].
    #[inline(always)]
    unsafe fn start_packet(&self, packet: usize, stage: SharedAddress<T>) {
        let to = (self.line + packet as u32 * Self::APART) * Self::PITCH + self.x;
        let to = stage.wrapping_add(to as usize).cast::<T::Packet>();
        let offset = self.lines(packet) * self.ld_bytes;
        let from = self.from.cast::<u8>().wrapping_add(offset as usize).cast::<T::Packet>();
        // SAFETY: the packet is in the matrix, aligned in both memories, and no other thread has it.
        unsafe { copy_async_16(to, from) };
    }

    /// Goes on to the next stage.
    #[inline(always)]
    fn advance(&mut self) {
        let steps = u64::from(Self::STEPS);
        let elements = if ALONG_K { steps } else { steps * self.ld };
        self.from = self.from.wrapping_add(elements as usize);
    }

    /// Starts the copies of the stage of k elements from `k0` on.
    ///
    /// # Safety
    /// As [`Loader::start`].
    #[inline(always)]
    unsafe fn start(&self, (k0, k): (u32, u32), stage: SharedAddress<T>) {
        let to = stage.wrapping_add((self.line * Self::PITCH + self.x) as usize);
        let place = |line: usize| to.wrapping_add(line * (Self::APART * Self::PITCH) as usize);
        // What is behind k up to a multiple of four repeats the last k elements.
        let end = k.next_multiple_of(4);
        if self.whole {
            unroll!(for I in 0..8 {
                let (first, steps) = if ALONG_K {
                    (k0 + self.x, T::PACKET)
                } else {
                    (k0 + self.line + I as u32 * Self::APART, 1)
                };
                if I >= self.packets() {
                    // The thread has fewer.
                } else if self.aligned && first + steps <= k {
                    let to = place(I).cast::<T::Packet>();
                    // SAFETY: the packet is in the matrix, aligned in both memories, and no other thread has it.
                    unsafe { copy_async_16(to, self.packet(I).cast::<T::Packet>()) };
                } else if first < end {
                    let last = k - 1;
                    unroll!(for J in 0..4 {
                        if (J as u32) < T::PACKET {
                            let offset = if ALONG_K {
                                from_to(first, (first + J as u32).min(last))
                            } else {
                                from_to(first, first.min(last)).wrapping_mul(self.ld) + J as u64
                            };
                            let from = self.packet(I).wrapping_add(offset as usize);
                            // SAFETY: the element is in the matrix, and no other thread has its place.
                            unsafe { T::copy(place(I).wrapping_add(J), from) };
                        }
                    });
                }
            });
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.start_elements((k0, k), to) };
        }
    }

    /// Starts the copies element by element, those behind the matrix again of its last ones; of k elements up to a
    /// multiple of four.
    ///
    /// # Safety
    /// As [`Loader::start`]; the lines are across k.
    #[inline(always)]
    unsafe fn start_elements(&self, (k0, k): (u32, u32), to: SharedAddress<T>) {
        let end = k.next_multiple_of(4);
        let mut at = 0;
        while at < self.packets() as u32 * T::PACKET {
            let (line, x) = (at / T::PACKET * Self::APART, at % T::PACKET);
            let to = to.wrapping_add((line * Self::PITCH + x) as usize);
            let step = k0 + self.line + line;
            if step < end {
                let (step, x) = (step.min(k - 1), (self.x + x).min(self.extent - 1));
                let offset = u64::from(step) * self.ld + u64::from(x);
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
