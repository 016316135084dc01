//! The operands of a group, copied to shared memory as bits.

use cuda_std::arch::sm80::copy_async_16;
use cuda_std::memory::{Shared, SharedAddress};
use cuda_std::opaque::opaque;
use cuda_std::thread;
use gemm_spec::batched::THREADS;
use gemm_spec::batched_mma::PAD;
use gemm_spec::params::BatchedParams;

use crate::parts::fill::{Source, Walk, div_rem};
use crate::parts::group::Work;
use crate::parts::number::{Bits, Loaded};

/// Elements of a packet.
const PACKET: u32 = <Bits as Loaded>::PACKET;

/// Where an operand's products are in a stage: row-major, one behind the other. It is one number, of which the last
/// bits are the first element's.
#[derive(Clone, Copy)]
pub(super) struct Placed(u32);

impl Placed {
    pub(super) const NONE: Self = Self(0);

    #[inline(always)]
    const fn new(at: u32, pitch: u32) -> Self {
        Self(pitch * PACKET + at)
    }

    /// The first element, which is in the first packet.
    #[inline(always)]
    pub(super) const fn at(self) -> u32 {
        self.0 % PACKET
    }

    /// Elements from one row to the next.
    #[inline(always)]
    pub(super) const fn pitch(self) -> u32 {
        self.0 / PACKET
    }
}

/// Products of the batch before those of a group and behind them.
#[derive(Clone, Copy)]
pub(super) struct Around {
    before: u32,
    behind: u32,
}

impl Around {
    #[inline(always)]
    pub(super) fn of(params: &BatchedParams<f32>, work: &Work) -> Self {
        Self { before: work.first, behind: params.count - work.first - work.products }
    }
}

/// Copies the part of an operand, of which each thread of the block does its share, with `MORE` zeros behind it. Where
/// words of two neighbours will be read, rows begin at such words.
///
/// # Safety
/// [`Source::load`]'s, for all of the batch; the stage has room for [`PAD`] elements more a row and for the zeros.
#[inline(always)]
pub(super) unsafe fn operand<const MORE: u32>(
    source: &Source<Bits>,
    around: Around,
    to: Shared<Bits>,
    in_pairs: bool,
    thread: u32,
) -> Placed {
    let Source { by_columns, misfit, products, lines, len, .. } = *source;
    let (rows, cols) = if by_columns { (len, lines) } else { (lines, len) };
    let is_padded = !by_columns && cols.is_multiple_of(2 * PAD) && source.are_packets();
    let (mut at, pitch) = (0, if is_padded { cols + PAD } else { cols });
    // The elements that are there, and those that were copied.
    let end = products * rows * pitch;
    let mut copied = end;
    if source.is_one_piece() && (is_padded || !in_pairs || misfit.is_multiple_of(2)) {
        if is_padded {
            // SAFETY: the caller's promise; the lines are whole packets.
            unsafe { padded(source, to, thread) };
        } else {
            at = misfit;
            // SAFETY: the caller's promise.
            copied = unsafe { flat(source, around, to, thread) } - misfit;
        }
    } else if is_padded {
        // SAFETY: the caller's promise; every line is whole aligned packets.
        unsafe { padded_lines(source, to, thread) };
    } else if thread < THREADS {
        // SAFETY: the caller's promise.
        unsafe { source.elements_by_lines(to, thread) };
    }
    if thread < MORE && end + thread >= copied {
        let place = to.wrapping_add((at + end + thread) as usize);
        // SAFETY: the caller's promise; no other thread has the element, and no copy.
        unsafe { place.write(Bits::ZERO) };
    }
    Placed::new(at, pitch)
}

/// Starts copies of a part that is one piece, byte for byte, and says where the last of them ends. Packets are whole
/// where the elements around are those of other products.
///
/// # Safety
/// [`operand`]'s; the part is such.
#[inline(always)]
unsafe fn flat(source: &Source<Bits>, around: Around, to: Shared<Bits>, thread: u32) -> u32 {
    let Source { misfit, products, lines, len, .. } = *source;
    let each = lines * len;
    let end = misfit + products * each;
    let follow = source.stride == u64::from(each);
    let elements = |products: u32| if follow { products.saturating_mul(each) } else { 0 };
    let (before, behind) = (elements(around.before), elements(around.behind));
    let mut first = thread * PACKET;
    while first < end {
        let place = |at: u32| to.wrapping_add(at as usize);
        let from = |at: u32| source.from.wrapping_add((at as usize).wrapping_sub(misfit as usize));
        if misfit.saturating_sub(first) <= before && (first + PACKET).saturating_sub(end) <= behind
        {
            let place = SharedAddress::new(place(first)).cast();
            // SAFETY: the packet is in the batch, aligned in both memories; no other thread has it.
            unsafe { copy_async_16(place, from(first).cast::<<Bits as Loaded>::Packet>()) };
        } else {
            let mut at = first.max(misfit);
            while at < end.min(first + PACKET) {
                // SAFETY: the element is in the part.
                let element = unsafe { from(at).read() };
                // SAFETY: no other thread has it.
                unsafe { place(at).write(element) };
                // Few elements of few blocks.
                at = opaque(at + 1);
            }
        }
        first += opaque(thread::block_dim_x()) * PACKET;
    }
    let last = end.next_multiple_of(PACKET);
    if last - end <= behind { last } else { end }
}

/// Starts copies of a part that is one piece of whole lines of packets, each to a line that is [`PAD`] elements longer.
///
/// # Safety
/// [`operand`]'s; the part is such.
#[inline(always)]
unsafe fn padded(source: &Source<Bits>, to: Shared<Bits>, thread: u32) {
    let packets = source.products * source.lines * source.len / PACKET;
    let mut packet = thread;
    while packet < packets {
        let (line, _) = div_rem(packet, source.len / PACKET);
        let place = SharedAddress::new(to.wrapping_add((packet * PACKET + line * PAD) as usize));
        let from = source.from.wrapping_add((packet * PACKET) as usize);
        // SAFETY: the packet is in the part, aligned in both memories; no other thread has it.
        unsafe { copy_async_16(place.cast(), from.cast::<<Bits as Loaded>::Packet>()) };
        packet += thread::block_dim_x();
    }
}

/// Starts copies of lines that are whole aligned packets, each to a line that is [`PAD`] elements longer.
///
/// # Safety
/// [`operand`]'s; the lines are such.
#[inline(always)]
unsafe fn padded_lines(source: &Source<Bits>, to: Shared<Bits>, thread: u32) {
    if thread >= THREADS {
        return;
    }
    let mut walk = Walk::new(thread, source.len / PACKET, source.lines);
    while walk.product < source.products {
        let line = walk.product * source.lines + walk.line;
        let place = to.wrapping_add((line * (source.len + PAD) + walk.x * PACKET) as usize);
        let from = source.element(walk.product, walk.line, walk.x * PACKET);
        let place = SharedAddress::new(place).cast();
        // SAFETY: the packet is in the part, aligned in both memories; no other thread has it.
        unsafe { copy_async_16(place, from.cast::<<Bits as Loaded>::Packet>()) };
        walk.advance();
    }
}
