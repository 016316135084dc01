//! The operands of a block's products, from global to shared memory, widened to what they are there.
//!
//! In shared memory the products follow each other, row-major and without padding. Operands that are so in global
//! memory too are copied as they are, in packets of 16 bytes: they begin as many elements behind a multiple of 16
//! bytes as in global memory. Other operands are copied line by line, also in packets where all lines are aligned.

use cuda_std::arch::sm80::copy_async_16;
use cuda_std::memory::{Global, Shared, SharedAddress};
use gemm_spec::batched::THREADS;
use gemm_spec::index::ceil_div;

use super::number::Loaded;
use super::quad::Quad;
use super::unroll::unroll;

/// An operand's part that a block loads: `lines` contiguous lines of `len` elements of each product.
pub(crate) struct Source<I> {
    /// The first element of the first product's part.
    pub(crate) from: Global<I>,
    /// Elements from a multiple of 16 bytes to it.
    pub(crate) misfit: u32,
    /// From one line to the next.
    pub(crate) ld: u64,
    /// From one product to the next.
    pub(crate) stride: u64,
    pub(crate) products: u32,
    /// Products of the batch before these, and behind them.
    pub(crate) around: [u32; 2],
    pub(crate) lines: u32,
    pub(crate) len: u32,
    /// Whether lines are columns.
    pub(crate) by_columns: bool,
}

impl<I: Loaded> Source<I> {
    /// Copies the part, of which each thread of the block does its share, and says at which element of `to` it
    /// begins.
    ///
    /// # Safety
    /// The lines are valid elements; `to` has room for them and [`MISFIT`](gemm_spec::batched::MISFIT) more at a
    /// multiple of 16 bytes, and nobody accesses it until the thread has waited for its copies and all have met at
    /// a barrier.
    #[inline(always)]
    pub(crate) unsafe fn load(&self, to: Shared<I::Stored>, thread: u32) -> u32 {
        if self.is_one_piece() {
            // SAFETY: the caller's promise; the elements are one piece.
            unsafe { self.edges(to, thread) };
            if I::IS_STORED {
                // SAFETY: the same.
                unsafe { self.copy(to, thread) };
            } else {
                // SAFETY: the same.
                unsafe { self.widen(to, thread) };
            }
            return self.misfit;
        }
        if self.are_packets() {
            // SAFETY: the caller's promise; every line is whole aligned packets.
            unsafe { self.packets_by_lines(to, thread) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.elements_by_lines(to, thread) };
        }
        0
    }

    /// Whether all elements are one piece, row-major.
    #[inline(always)]
    fn is_one_piece(&self) -> bool {
        let each = u64::from(self.lines) * u64::from(self.len);
        !self.by_columns
            && (self.lines == 1 || self.ld == u64::from(self.len))
            && (self.products == 1 || self.stride == each)
    }

    /// Whether every line is whole aligned packets.
    #[inline(always)]
    fn are_packets(&self) -> bool {
        let packet = u64::from(I::PACKET);
        self.misfit == 0
            && self.len.is_multiple_of(I::PACKET)
            && (self.lines == 1 || self.ld.is_multiple_of(packet))
            && (self.products == 1 || self.stride.is_multiple_of(packet))
    }

    /// Elements of a part that is one piece, with those before it in its first packet.
    #[inline(always)]
    fn end(&self) -> u32 {
        self.misfit + self.products * self.lines * self.len
    }

    /// Of a part that is one piece, from where on and up to where elements are the operand's: those of neighbouring
    /// products in the first packet and in the last one are, too.
    #[inline(always)]
    fn reach(&self) -> (u32, u32) {
        let (each, end) = (self.lines * self.len, self.end());
        if self.stride != u64::from(each) {
            return (self.misfit, end);
        }
        let [before, behind] = self.around.map(|products| products.saturating_mul(each));
        let packets = end.next_multiple_of(I::PACKET);
        let begin = if before >= self.misfit { 0 } else { self.misfit };
        (begin, if behind >= packets - end { packets } else { end })
    }

    /// The elements of a part that is one piece which are in no whole packet: some in its first one and in its
    /// last.
    ///
    /// # Safety
    /// As [`Source::load`].
    #[inline(always)]
    unsafe fn edges(&self, to: Shared<I::Stored>, thread: u32) {
        let (begin, end) = self.reach();
        let last = end - end % I::PACKET;
        if thread >= I::PACKET {
            return;
        }
        if begin > 0 && thread >= begin && thread < end {
            // SAFETY: the element is in the part, and this thread's.
            unsafe { self.one(to, thread) };
        }
        if (begin == 0 || last > 0) && last + thread < end {
            // SAFETY: the same.
            unsafe { self.one(to, last + thread) };
        }
    }

    /// One element of a part that is one piece.
    ///
    /// # Safety
    /// As [`Source::load`]; the element is in the part, and no other thread has it.
    #[inline(always)]
    unsafe fn one(&self, to: Shared<I::Stored>, at: u32) {
        // SAFETY: the caller's promise.
        let value = unsafe { self.from.wrapping_add((at - self.misfit) as usize).read() };
        // SAFETY: the caller's promise.
        unsafe { to.wrapping_add(at as usize).write(value.widen()) };
    }

    /// Where the packet is that comes to an element of the stage, of a part that is one piece.
    #[inline(always)]
    fn packet_at(&self, first: u32) -> Global<I> {
        self.from.wrapping_add((first as usize).wrapping_sub(self.misfit as usize))
    }

    /// Starts copies of a part that is one piece.
    ///
    /// # Safety
    /// As [`Source::load`].
    #[inline(always)]
    unsafe fn copy(&self, to: Shared<I::Stored>, thread: u32) {
        let (begin, end) = self.reach();
        let mut first = thread * I::PACKET;
        while first + I::PACKET <= end {
            if first >= begin {
                let place = to.wrapping_add(first as usize).cast::<I::Packet>();
                let from = self.packet_at(first);
                // SAFETY: the packet is in the operand, aligned in both memories; no other thread has it.
                unsafe { copy_async_16(SharedAddress::new(place), from.cast::<I::Packet>()) };
            }
            first += THREADS * I::PACKET;
        }
    }

    /// Copies a part that is one piece through registers.
    ///
    /// # Safety
    /// As [`Source::load`].
    #[inline(always)]
    unsafe fn widen(&self, to: Shared<I::Stored>, thread: u32) {
        let (begin, end) = self.reach();
        let is_whole = |first: u32| first >= begin && first + I::PACKET <= end;
        let mut first = thread * I::PACKET;
        while first + I::PACKET <= end {
            // Reads that are in flight together.
            let mut packets = [I::EMPTY; 4];
            unroll!(for S in 0..4 {
                let first = first + S as u32 * THREADS * I::PACKET;
                if is_whole(first) {
                    let from = self.packet_at(first);
                    // SAFETY: the packet is in the operand, and aligned.
                    packets[S] = unsafe { from.cast::<I::Packet>().read() };
                }
            });
            unroll!(for S in 0..4 {
                let first = first + S as u32 * THREADS * I::PACKET;
                if is_whole(first) {
                    // SAFETY: no other thread has this packet.
                    unsafe { store::<I>(to.wrapping_add(first as usize), &packets[S], 1) };
                }
            });
            first += 4 * THREADS * I::PACKET;
        }
    }

    /// Where an element goes.
    #[inline(always)]
    fn place(&self, product: u32, line: u32, x: u32) -> u32 {
        let (row_pitch, col_pitch) = if self.by_columns { (1, self.lines) } else { (self.len, 1) };
        product * self.lines * self.len + line * row_pitch + x * col_pitch
    }

    /// Where an element comes from.
    #[inline(always)]
    pub(crate) fn element(&self, product: u32, line: u32, x: u32) -> Global<I> {
        let offset = u64::from(product) * self.stride + u64::from(line) * self.ld + u64::from(x);
        self.from.wrapping_add(offset as usize)
    }

    /// Copies lines that are whole aligned packets.
    ///
    /// # Safety
    /// As [`Source::load`].
    #[inline(always)]
    unsafe fn packets_by_lines(&self, to: Shared<I::Stored>, thread: u32) {
        let mut walk = Walk::new(thread, self.len / I::PACKET, self.lines);
        while walk.product < self.products {
            let mut packets = [I::EMPTY; 2];
            let mut places = [0; 2];
            unroll!(for S in 0..2 {
                let Walk { x, line, product, .. } = walk;
                places[S] = u32::MAX;
                if product < self.products {
                    places[S] = self.place(product, line, x * I::PACKET);
                    let from = self.element(product, line, x * I::PACKET).cast::<I::Packet>();
                    // SAFETY: the packet is in the part, and aligned.
                    packets[S] = unsafe { from.read() };
                }
                walk.advance();
            });
            let pitch = if self.by_columns { self.lines } else { 1 };
            unroll!(for S in 0..2 {
                if places[S] != u32::MAX {
                    let place = to.wrapping_add(places[S] as usize);
                    // SAFETY: no other thread has this packet.
                    unsafe { store::<I>(place, &packets[S], pitch) };
                }
            });
        }
    }

    /// Copies lines element by element.
    ///
    /// # Safety
    /// As [`Source::load`].
    #[inline(always)]
    unsafe fn elements_by_lines(&self, to: Shared<I::Stored>, thread: u32) {
        let mut walk = Walk::new(thread, self.len, self.lines);
        while walk.product < self.products {
            let mut values = [I::ZERO; 2];
            let mut places = [0; 2];
            unroll!(for S in 0..2 {
                let Walk { x, line, product, .. } = walk;
                places[S] = u32::MAX;
                if product < self.products {
                    places[S] = self.place(product, line, x);
                    // SAFETY: the element is in the part.
                    values[S] = unsafe { self.element(product, line, x).read() }.widen();
                }
                walk.advance();
            });
            unroll!(for S in 0..2 {
                if places[S] != u32::MAX {
                    // SAFETY: no other thread has this element.
                    unsafe { to.wrapping_add(places[S] as usize).write(values[S]) };
                }
            });
        }
    }
}

/// Writes the elements of a packet that many elements apart.
///
/// # Safety
/// They are in shared memory, at a multiple of 16 bytes where they are neighbours, and the calling thread's.
#[inline(always)]
unsafe fn store<I: Loaded>(to: Shared<I::Stored>, packet: &I::Packet, pitch: u32) {
    if I::IS_STORED && pitch == 1 {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<I::Packet>().write(*packet) };
        return;
    }
    unroll!(for G in 0..2 {
        if (4 * G as u32) < I::PACKET {
            if pitch == 1 && I::PACKET >= 4 {
                let four = Quad([0, 1, 2, 3].map(|at| I::of_packet(packet, 4 * G + at)));
                // SAFETY: the caller's promise.
                unsafe { to.wrapping_add(4 * G).cast::<Quad<I::Stored>>().write(four) };
            } else {
                unroll!(for J in 0..4 {
                    if ((4 * G + J) as u32) < I::PACKET {
                        let value = I::of_packet(packet, 4 * G + J);
                        let place = to.wrapping_add((4 * G + J) * pitch as usize);
                        // SAFETY: the caller's promise.
                        unsafe { place.write(value) };
                    }
                });
            }
        }
    });
}

/// A thread's way through the lines of a block's products, without divisions, in steps of [`THREADS`] units.
#[derive(Clone, Copy)]
struct Walk {
    x: u32,
    line: u32,
    product: u32,
    step: [u32; 3],
    units: u32,
    lines: u32,
}

impl Walk {
    #[inline(always)]
    fn new(thread: u32, units: u32, lines: u32) -> Self {
        let digits = |at: u32| {
            let (line, x) = div_rem(at, units);
            let (product, line) = div_rem(line, lines);
            [x, line, product]
        };
        let [x, line, product] = digits(thread);
        Self { x, line, product, step: digits(THREADS), units, lines }
    }

    #[inline(always)]
    fn advance(&mut self) {
        let [x, line, product] = self.step;
        self.x += x;
        let carry = self.x >= self.units;
        self.x -= if carry { self.units } else { 0 };
        self.line += line + u32::from(carry);
        let carry = self.line >= self.lines;
        self.line -= if carry { self.lines } else { 0 };
        self.product += product + u32::from(carry);
    }
}

/// Quotient and remainder; as by one where the divisor is zero, which takes no branch.
#[inline(always)]
pub(crate) fn div_rem(a: u32, b: u32) -> (u32, u32) {
    let b = b.max(1);
    let quotient = a / b;
    (quotient, a - quotient * b)
}

/// `ceil(a / b)`; one where the divisor is zero.
#[inline(always)]
pub(crate) fn tiles(a: u32, b: u32) -> u32 {
    if b == 0 { 1 } else { ceil_div(a, b) }
}
