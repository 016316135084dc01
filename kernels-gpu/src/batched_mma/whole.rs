//! Groups of whole products without gaps between them: each operand of a group is one piece, and what a thread does
//! differs from group to group by where the first element is alone.

use cuda_std::arch::sm80::{commit_group, copy_async_16, wait_group};
use cuda_std::memory::{Global, Shared, SharedAddress, global};
use cuda_std::opaque::opaque;
use cuda_std::thread;
use gemm_spec::batched_mma::{PACKET, Partition};
use gemm_spec::params::BatchedParams;

use super::copy::{Packet, mask, shifted};
use super::lines::Aligned;
use super::multiply::ZERO;
use super::{Factor, a_by_k, b_by_k};
use crate::parts::group::Work;
use crate::parts::number::{Bits, Loaded, Output};
use crate::parts::quad::Quad;

/// Whether blocks have whole products, and neither A nor B has gaps.
#[inline(always)]
pub(super) fn are_whole(params: &BatchedParams<f32>, partition: &Partition) -> bool {
    let &BatchedParams { m, n, k, lda, a_stride, ldb, b_stride, count, .. } = params;
    let dense = |ld: u64, stride: u64, by_k: bool, size: u32| {
        ld == u64::from(if by_k { size } else { k })
            && (count == 1 || stride == u64::from(size) * u64::from(k))
    };
    partition.is_whole([m, n])
        && k > 0
        && partition.copied == k
        && dense(lda, a_stride, a_by_k(params), m)
        && dense(ldb, b_stride, b_by_k(params), n)
}

/// A group of them.
#[inline(always)]
fn work_of(params: &BatchedParams<f32>, tile: u32) -> Work {
    let &BatchedParams { m, n, k, count, group, .. } = params;
    let first = tile * group;
    let products = group.min(count - first);
    Work { tile, first, products, row0: 0, rows: m, col0: 0, cols: n, done: 0, steps: k }
}

/// Computes all groups of a launch; whether all of k is multiplied at once. Then accumulators are not kept from one chunk
/// to the next, and there are registers for what each group needs.
///
/// # Safety
/// The obligations of the entries; the products are whole, and the launch is their partition's.
#[inline(always)]
pub(super) unsafe fn multiply<F: Factor, O: Output<Acc = f32>, const AT_ONCE: bool>(
    params: &BatchedParams<f32>,
    partition: &Partition,
    stages: Shared<Bits>,
) {
    let &BatchedParams { m, n, k, count, tiles, .. } = params;
    let kept = |value: u32| if AT_ONCE { value } else { opaque(value) };
    let places = || {
        let it = Partition { group: kept(partition.group), ..*partition };
        it.places().map(|at| stages.wrapping_add(at as usize))
    };
    let new_a = || Operand::new(params.a, (a_by_k(params), kept(m), kept(k)), partition);
    let new_b = || Operand::new(params.b, (b_by_k(params), kept(n), kept(k)), partition);
    let (kept_a, kept_b) = (new_a(), new_b());
    let of_a = || if AT_ONCE { kept_a } else { new_a() };
    let of_b = || if AT_ONCE { kept_b } else { new_b() };
    let work = |tile: u32, done: u32| work_of(params, kept(tile)).from(params, done);
    let copy = |tile: u32| {
        let (work, [a, b, ..]) = (work(tile, 0), places());
        // SAFETY: obligation 1; a barrier was passed since the stage was read.
        unsafe { of_a().copy(&work, count, a) };
        // SAFETY: the same.
        unsafe { of_b().copy(&work, count, b) };
        commit_group();
    };
    let mut tile = thread::block_idx_x();
    if tile < tiles {
        copy(tile);
    }
    let mut acc = ZERO;
    let mut done = 0;
    while tile < tiles {
        let is_first = AT_ONCE || done == 0;
        if is_first {
            wait_group::<0>();
        }
        // SAFETY: all threads of the block go the same way.
        unsafe { thread::sync_threads() };
        {
            let (work, [a, b, aligned_a, aligned_b, _]) = (work(tile, done), places());
            // SAFETY: the copies have landed.
            unsafe { of_a().align(&work, a, aligned_a) };
            // SAFETY: the same.
            unsafe { of_b().align(&work, b, aligned_b) };
        }
        // SAFETY: all threads of the block go the same way.
        unsafe { thread::sync_threads() };
        let work = work(tile, done);
        let is_last = AT_ONCE || done + work.steps == k;
        let next = if is_last { tile + thread::grid_dim_x() } else { tile };
        if is_last && next < tiles {
            copy(next);
        }
        if is_first {
            acc = ZERO;
        }
        let [_, _, a, b, _] = places();
        // SAFETY: the stage was written before a barrier.
        unsafe { super::multiply::<F>(&mut acc, params, &work, (a, b)) };
        if is_last {
            // SAFETY: obligation 1; all of k was added, and the stage is not the one that is loaded.
            unsafe { super::store::<O>(&mut acc, params, (partition, &work), a.cast()) };
        }
        (tile, done) = (next, if is_last { 0 } else { done + work.steps });
    }
}

/// An operand, and what a thread has of it.
#[derive(Clone, Copy)]
struct Operand {
    base: *const u8,
    /// Whether each k element has a line; rows or columns of C; and the elements of a product.
    by_k: bool,
    size: u32,
    each: u32,
    /// Elements from one line to the next.
    len: u32,
    /// The thread's product of the group, its first line and packet of a line, and those from one to the next.
    product: u32,
    line: u32,
    lines_apart: u32,
    unit: u32,
    units_apart: u32,
}

impl Operand {
    #[inline(always)]
    fn new(base: *const u8, (by_k, size, k): (bool, u32, u32), partition: &Partition) -> Self {
        let aligned = Aligned::new(by_k, size, partition.chunk);
        // Each product has as many threads, and a thread's lines are a multiple of eight apart, so that they begin as
        // many elements behind a packet.
        let thread = opaque(thread::thread_idx_x());
        // Blocks and groups are powers of two.
        let share = thread::block_dim_x() >> partition.group.trailing_zeros();
        let (product, thread) = (thread >> share.trailing_zeros(), thread & (share - 1));
        let units_apart = (aligned.len / PACKET).next_power_of_two().min(share / 8);
        let shift = units_apart.trailing_zeros();
        let (line, unit) = (thread >> shift, thread & (units_apart - 1));
        let (lines_apart, len) = (share >> shift, if by_k { size } else { k });
        Self {
            base,
            by_k,
            size,
            each: size * k,
            len,
            product,
            line,
            lines_apart,
            unit,
            units_apart,
        }
    }

    /// Elements from a multiple of 16 bytes to a product of the batch.
    #[inline(always)]
    fn misfit(&self, first: u32) -> u32 {
        ((self.base.addr() / size_of::<Bits>()) as u32).wrapping_add(first.wrapping_mul(self.each))
            % PACKET
    }

    /// Starts copies of a group's products, byte for byte, as far behind a multiple of 16 bytes as in global memory.
    ///
    /// # Safety
    /// The operand is valid for `count` products; nobody accesses `to` until all threads have waited for their copies
    /// and met.
    #[inline(always)]
    unsafe fn copy(&self, work: &Work, count: u32, to: Shared<Bits>) {
        let thread = opaque(thread::thread_idx_x());
        let misfit = self.misfit(work.first);
        let end = misfit + work.products * self.each;
        let (is_first, is_last) = (work.first == 0, work.first + work.products == count);
        let offset = (u64::from(work.first) * u64::from(self.each)).wrapping_sub(u64::from(misfit));
        // SAFETY: the caller's promise.
        let all: Global<Bits> = unsafe { global(self.base) }.cast();
        let from = all.wrapping_add(offset as usize);
        // Packets at the ends of the batch are not whole.
        let begin = if is_first { misfit.next_multiple_of(PACKET) } else { 0 };
        let whole = if is_last { end / PACKET * PACKET } else { end };
        let mut at = begin + thread * PACKET;
        while at < whole {
            let place = SharedAddress::new(to.wrapping_add(at as usize)).cast();
            // SAFETY: the packet is in the operand, aligned in both memories; no other thread has it.
            unsafe { copy_async_16(place, from.wrapping_add(at as usize).cast::<Packet>()) };
            at += thread::block_dim_x() * PACKET;
        }
        if thread < PACKET && (is_first || is_last) {
            let one = |at: u32| {
                let mut value = Bits::ZERO;
                if at >= misfit && at < end {
                    // SAFETY: the element is in the operand.
                    value = unsafe { from.wrapping_add(at as usize).read() };
                }
                // SAFETY: the element is in the stage, in a packet that is not copied, and no other thread has it.
                unsafe { to.wrapping_add(at as usize).write(value) };
            };
            if begin > 0 {
                one(thread);
            }
            if whole < end && whole >= begin {
                one(whole + thread);
            }
        }
    }

    /// Aligns a group's products.
    ///
    /// # Safety
    /// The copies to `from` have landed before a barrier; nobody else accesses `to`.
    #[inline(always)]
    unsafe fn align(&self, work: &Work, from: Shared<Bits>, to: Shared<Bits>) {
        if self.product >= work.products {
            return;
        }
        let aligned = Aligned::new(self.by_k, self.size, work.steps);
        // Lines, and elements of each, of these k elements.
        let (lines, len, before) = if self.by_k {
            (work.steps, self.size, work.done * self.len)
        } else {
            (self.size, work.steps, work.done)
        };
        let first =
            self.misfit(work.first) + self.product * self.each + before + self.line * self.len;
        let (from_step, to_step) = (self.lines_apart * self.len, self.lines_apart * aligned.pitch);
        let mut unit = self.unit;
        while unit * PACKET < aligned.len {
            let x = unit * PACKET;
            let left = len.saturating_sub(x).min(PACKET);
            // What no line has is read where each line begins, and becomes zeros.
            let start = first + if left > 0 { x } else { 0 };
            let shift = start % PACKET;
            let next = usize::from(shift + left > PACKET);
            let keep = [0, 1, 2, 3].map(|word| opaque(mask(left, word)));
            let mut at = from.wrapping_add((start - shift) as usize);
            let mut place = to.wrapping_add((aligned.line(self.product, self.line) + x) as usize);
            let mut line = self.line;
            while line < lines {
                // SAFETY: the caller's promise; packets were copied as a whole.
                let low = unsafe { at.cast::<Quad<u32>>().read() };
                // SAFETY: the same, as the line goes on there, if it is another.
                let high = unsafe { at.cast::<Quad<u32>>().wrapping_add(next).read() };
                let [a, b, c, d] = shifted(low.0, high.0, shift);
                let [k, l, m, n] = keep;
                let packet = Quad([a & k, b & l, c & m, d & n]);
                // SAFETY: the packet is in the stage, aligned, and this thread's.
                unsafe { place.cast::<Quad<u32>>().write(packet) };
                (at, place) =
                    (at.wrapping_add(from_step as usize), place.wrapping_add(to_step as usize));
                line += self.lines_apart;
            }
            // The lines of zeros behind the last k elements.
            while line < aligned.lines {
                // SAFETY: the same.
                unsafe { place.cast::<Packet>().write(Bits::EMPTY) };
                place = place.wrapping_add(to_step as usize);
                line += self.lines_apart;
            }
            unit += self.units_apart;
        }
    }
}
