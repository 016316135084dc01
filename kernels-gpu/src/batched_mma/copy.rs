//! The operands of a group, copied to shared memory as bits, and aligned there.

use cuda_std::arch::sm80::copy_async_16;
use cuda_std::memory::{Shared, SharedAddress};
use cuda_std::opaque::opaque;
use cuda_std::thread;
use gemm_spec::batched_mma::PACKET;
use gemm_spec::index::ceil_div;
use gemm_spec::params::BatchedParams;

use super::lines::{Aligned, Raw, Share, each_unit};
use crate::parts::fill::Source;
use crate::parts::group::Work;
use crate::parts::number::{Bits, Loaded};
use crate::parts::quad::Quad;

pub(super) type Packet = <Bits as Loaded>::Packet;

/// Some k elements of an operand of a group.
pub(super) struct Operand {
    source: Source<Bits>,
    aligned: Aligned,
    /// Elements of the whole operand before the first one and from it on, where no gaps are between them.
    before: u64,
    behind: u64,
}

impl Operand {
    /// A's.
    ///
    /// # Safety
    /// A is valid in the whole launch.
    #[inline(always)]
    pub(super) unsafe fn a(params: &BatchedParams<f32>, work: &Work) -> Self {
        // SAFETY: the caller's promise.
        let source = unsafe { work.a(params) };
        let by_k = super::a_by_k(params);
        let aligned = Aligned::new(by_k, work.rows, work.steps);
        let (rows, steps) = ((work.row0, params.m), (work.done, params.k));
        let (line, x) = if by_k { (steps, rows) } else { (rows, steps) };
        Self { source, aligned, before: 0, behind: 0 }.inside(params, work.first, line, x)
    }

    /// B's.
    ///
    /// # Safety
    /// B is valid in the whole launch.
    #[inline(always)]
    pub(super) unsafe fn b(params: &BatchedParams<f32>, work: &Work) -> Self {
        // SAFETY: the caller's promise.
        let source = unsafe { work.b(params) };
        let by_k = super::b_by_k(params);
        let aligned = Aligned::new(by_k, work.cols, work.steps);
        let (cols, steps) = ((work.col0, params.n), (work.done, params.k));
        let (line, x) = if by_k { (steps, cols) } else { (cols, steps) };
        Self { source, aligned, before: 0, behind: 0 }.inside(params, work.first, line, x)
    }

    /// The same, with what is around it in the whole operand: its first product, and its first line and element with
    /// their numbers.
    #[inline(always)]
    fn inside(
        self,
        params: &BatchedParams<f32>,
        first: u32,
        (line, lines): (u32, u32),
        (x, len): (u32, u32),
    ) -> Self {
        let Source { ld, stride, .. } = self.source;
        let each = u64::from(lines) * u64::from(len);
        if ld != u64::from(len) || params.count > 1 && stride != each {
            return self;
        }
        let before = u64::from(first) * each + u64::from(line) * ld + u64::from(x);
        Self { before, behind: u64::from(params.count) * each - before, ..self }
    }

    /// Starts copies to aligned lines, and writes the zeros behind.
    ///
    /// # Safety
    /// The operand is valid, and its lines are whole aligned packets; nobody accesses `to` until all threads have
    /// waited for their copies and met.
    #[inline(always)]
    pub(super) unsafe fn copy_packets(&self, to: Shared<Bits>, thread: u32) {
        let (source, aligned) = (&self.source, &self.aligned);
        let all = (source.products, aligned.lines, aligned.len / PACKET);
        each_unit(all, thread, |product, line, unit| {
            let x = unit * PACKET;
            let place = to.wrapping_add((aligned.line(product, line) + x) as usize);
            if line < source.lines && x < source.len {
                let from = source.element(product, line, x).cast::<Packet>();
                // SAFETY: the packet is in the part, aligned in both memories; no other thread has it.
                unsafe { copy_async_16(SharedAddress::new(place).cast(), from) };
            } else {
                // SAFETY: the packet is in the stage, and no other thread has it.
                unsafe { place.cast::<Packet>().write(Bits::EMPTY) };
            }
        });
    }

    /// How it is in the stage that is copied byte for byte.
    #[inline(always)]
    fn raw(&self) -> Raw {
        let &Source { misfit, ld, stride, lines, len, .. } = &self.source;
        if self.is_one_piece() {
            Raw::one_piece(PACKET, misfit, (lines, len))
        } else {
            Raw::by_lines(PACKET, misfit, (ld, stride), (lines, len))
        }
    }

    /// Whether its lines are one behind the other, without gaps.
    #[inline(always)]
    fn is_one_piece(&self) -> bool {
        let &Source { ld, stride, products, lines, len, .. } = &self.source;
        (lines == 1 || ld == u64::from(len))
            && (products == 1 || stride == u64::from(lines) * u64::from(len))
    }

    /// Starts copies, byte for byte.
    ///
    /// # Safety
    /// The operand is valid; nobody accesses `to` until all threads have waited for their copies and met.
    #[inline(always)]
    pub(super) unsafe fn copy_bytes(&self, to: Shared<Bits>, thread: u32) {
        let &Source { misfit, ld, stride, products, lines, len, .. } = &self.source;
        if self.is_one_piece() {
            let end = misfit + products * lines * len;
            let mut first = thread * PACKET;
            while first < end {
                // SAFETY: the caller's promise; no other thread has the packet.
                unsafe { self.packet(to, 0, first, (misfit, end)) };
                first += thread::block_dim_x() * PACKET;
            }
            return;
        }
        let raw = Raw::by_lines(PACKET, misfit, (ld, stride), (lines, len));
        each_unit(
            (products, lines, ceil_div(len + PACKET - 1, PACKET)),
            thread,
            |product, line, unit| {
                let misfit = raw.misfit(product, line);
                let (first, end) = (unit * PACKET, misfit + len);
                if first < end {
                    let offset = u64::from(product) * stride + u64::from(line) * ld;
                    let place = to.wrapping_add((raw.line(product, line) - misfit) as usize);
                    // SAFETY: the caller's promise; no other thread has the packet.
                    unsafe { self.packet(place, offset, first, (misfit, end)) };
                }
            },
        );
    }

    /// Copies the packet at an element of a line that is in shared memory from `begin` to `end`, and in global memory
    /// `offset` behind the part's first element. What is around it is copied too if it is the operand's.
    ///
    /// # Safety
    /// [`Operand::copy_bytes`]'s; no other thread has the packet.
    #[inline(always)]
    unsafe fn packet(&self, to: Shared<Bits>, offset: u64, first: u32, (begin, end): (u32, u32)) {
        let place = |at: u32| to.wrapping_add(at as usize);
        let line = self.source.from.wrapping_add(offset as usize);
        let from = |at: u32| line.wrapping_add((at as usize).wrapping_sub(begin as usize));
        let is_inside = first >= begin && first + PACKET <= end;
        let is_around = || {
            u64::from(begin.saturating_sub(first)) <= self.before + offset
                && offset + u64::from(first + PACKET - begin) <= self.behind
        };
        if is_inside || is_around() {
            let place = SharedAddress::new(place(first)).cast();
            // SAFETY: the packet is in the operand, aligned in both memories.
            unsafe { copy_async_16(place, from(first).cast::<Packet>()) };
            return;
        }
        let mut at = first;
        while at < first + PACKET {
            let mut element = Bits::ZERO;
            if at >= begin && at < end {
                // SAFETY: the element is in the part.
                element = unsafe { from(at).read() };
            }
            // SAFETY: the packet is this thread's.
            unsafe { place(at).write(element) };
            // Few elements.
            at = opaque(at + 1);
        }
    }

    /// Aligns what was copied byte for byte to `from`.
    ///
    /// # Safety
    /// The copies have landed before a barrier; nobody else accesses `to`.
    #[inline(always)]
    pub(super) unsafe fn align(&self, from: Shared<Bits>, to: Shared<Bits>, thread: u32) {
        let (source, aligned, raw) = (&self.source, &self.aligned, self.raw());
        let share = Share::new(aligned.len / PACKET, thread);
        let mut unit = share.unit;
        while unit < share.units {
            let x = unit * PACKET;
            let left = source.len.saturating_sub(x).min(PACKET);
            // What no line has is read where each line begins, and becomes zeros.
            let more = if left > 0 { x } else { 0 };
            let keep = [0, 1, 2, 3].map(|word| mask(left, word));
            let mut product = 0;
            while product < source.products {
                // Lines that are a multiple of eight apart begin as many elements behind a packet.
                let start = raw.line(product, share.line) + more;
                let shift = start % PACKET;
                let next = usize::from(shift + left > PACKET);
                let from_step = (share.step * raw.pitch) as usize;
                let to_step = (share.step * aligned.pitch) as usize;
                let mut at = from.wrapping_add((start - shift) as usize);
                let mut place = to.wrapping_add((aligned.line(product, share.line) + x) as usize);
                let mut line = share.line;
                while line < source.lines {
                    // SAFETY: the caller's promise; the packets of the line were copied as a whole.
                    let low = unsafe { at.cast::<Quad<u32>>().read() };
                    // SAFETY: the same, as the line goes on there, if it is another.
                    let high = unsafe { at.cast::<Quad<u32>>().wrapping_add(next).read() };
                    let [a, b, c, d] = shifted(low.0, high.0, shift);
                    let [k, l, m, n] = keep;
                    let packet = Quad([a & k, b & l, c & m, d & n]);
                    // SAFETY: the packet is in the stage, aligned, and this thread's.
                    unsafe { place.cast::<Quad<u32>>().write(packet) };
                    (at, place) = (at.wrapping_add(from_step), place.wrapping_add(to_step));
                    line += share.step;
                }
                product += 1;
            }
            unit += share.together;
        }
        // SAFETY: the caller's promise.
        unsafe { self.clear(to, thread) };
    }

    /// Writes the lines of zeros behind those of the last k elements.
    ///
    /// # Safety
    /// Nobody else accesses them.
    #[inline(always)]
    unsafe fn clear(&self, to: Shared<Bits>, thread: u32) {
        let (source, aligned) = (&self.source, &self.aligned);
        if aligned.lines > source.lines {
            let all = (source.products, aligned.lines - source.lines, aligned.len / PACKET);
            each_unit(all, thread, |product, line, unit| {
                let at = aligned.line(product, source.lines + line) + unit * PACKET;
                // SAFETY: the packet is in the stage, aligned, and this thread's.
                unsafe { to.wrapping_add(at as usize).cast::<Packet>().write(Bits::EMPTY) };
            });
        }
    }
}

/// Eight of sixteen elements, from one on.
#[inline(always)]
pub(super) fn shifted([a, b, c, d]: [u32; 4], [e, f, g, h]: [u32; 4], by: u32) -> [u32; 4] {
    let [a, b, c, d, e, f] = if by & 4 != 0 { [c, d, e, f, g, h] } else { [a, b, c, d, e, f] };
    let [a, b, c, d, e] = if by & 2 != 0 { [b, c, d, e, f] } else { [a, b, c, d, e] };
    let half =
        |low: u32, high: u32| ((u64::from(high) << 32 | u64::from(low)) >> (16 * (by & 1))) as u32;
    [half(a, b), half(b, c), half(c, d), half(d, e)]
}

/// The bits of a word of two elements that are among the first `count` of a packet.
#[inline(always)]
pub(super) const fn mask(count: u32, word: u32) -> u32 {
    match count.saturating_sub(2 * word) {
        0 => 0,
        1 => 0xffff,
        _ => u32::MAX,
    }
}
