//! Where lines of operands and of C are in shared memory, and how threads go through them.

use cuda_std::thread;
use gemm_spec::batched_mma::{PACKET, STEP, pitch, raw_pitch};

/// Aligned lines of a group's products, one product behind the other.
#[derive(Clone, Copy)]
pub(super) struct Aligned {
    /// Lines of a product: with zeros up to a multiple of [`STEP`], where they are those of k elements.
    pub(super) lines: u32,
    /// Elements of a line that are there: up to whole packets, or to a multiple of [`STEP`] k elements.
    pub(super) len: u32,
    /// Elements from one line to the next.
    pub(super) pitch: u32,
}

impl Aligned {
    /// An operand with `size` rows or columns of C and `steps` k elements; whether each k element has a line.
    #[inline(always)]
    pub(super) const fn new(by_k: bool, size: u32, steps: u32) -> Self {
        let steps = steps.next_multiple_of(STEP);
        let (lines, len) =
            if by_k { (steps, size.next_multiple_of(PACKET)) } else { (size, steps) };
        Self { lines, len, pitch: pitch(len) }
    }

    /// The first element of a product's line.
    #[inline(always)]
    pub(super) const fn line(&self, product: u32, line: u32) -> u32 {
        (product * self.lines + line) * self.pitch
    }
}

/// Lines as they are in global memory: each begins as many elements behind a multiple of 16 bytes.
#[derive(Clone, Copy)]
pub(super) struct Raw {
    /// Elements before the first line, and from one line to the next.
    first: u32,
    pub(super) pitch: u32,
    lines: u32,
    /// Elements of 16 bytes.
    packet: u32,
    /// What the first line, each line and each product add to the elements behind a multiple of 16 bytes.
    misfits: [u32; 3],
}

impl Raw {
    /// Lines one behind the other.
    #[inline(always)]
    pub(super) const fn one_piece(packet: u32, misfit: u32, (lines, len): (u32, u32)) -> Self {
        Self { first: misfit, pitch: len, lines, packet, misfits: [0; 3] }
    }

    /// Lines of whole packets, those at their ends in part.
    #[inline(always)]
    pub(super) const fn by_lines(
        packet: u32,
        misfit: u32,
        (ld, stride): (u64, u64),
        (lines, len): (u32, u32),
    ) -> Self {
        let misfits = [misfit, ld as u32 % packet, stride as u32 % packet];
        Self { first: 0, pitch: raw_pitch(len, packet), lines, packet, misfits }
    }

    /// Elements from a multiple of 16 bytes to a line, unless all lines are one piece.
    #[inline(always)]
    pub(super) const fn misfit(&self, product: u32, line: u32) -> u32 {
        let [first, each_line, each_product] = self.misfits;
        (first + line * each_line + product * each_product) % self.packet
    }

    /// The first element of a product's line.
    #[inline(always)]
    pub(super) const fn line(&self, product: u32, line: u32) -> u32 {
        self.first + (product * self.lines + line) * self.pitch + self.misfit(product, line)
    }
}

/// How threads share out lines of some units: by a power of two at a line, so that nothing is divided, and so that
/// a thread's lines are a multiple of eight apart.
#[derive(Clone, Copy)]
pub(super) struct Share {
    pub(super) units: u32,
    /// Threads at a line.
    pub(super) together: u32,
    /// The thread's first unit and line, and the lines from one of its lines to the next.
    pub(super) unit: u32,
    pub(super) line: u32,
    pub(super) step: u32,
}

impl Share {
    #[inline(always)]
    pub(super) fn new(units: u32, thread: u32) -> Self {
        let together = units.next_power_of_two().min(16);
        let shift = together.trailing_zeros();
        let (unit, line) = (thread & (together - 1), thread >> shift);
        Self { units, together, unit, line, step: thread::block_dim_x() >> shift }
    }
}

/// Calls `with` for a thread's units of all lines of some products: the product, the line, and the unit in it.
#[inline(always)]
pub(super) fn each_unit(
    (products, lines, units): (u32, u32, u32),
    thread: u32,
    mut with: impl FnMut(u32, u32, u32),
) {
    let share = Share::new(units, thread);
    let mut product = 0;
    while product < products {
        let mut line = share.line;
        while line < lines {
            let mut unit = share.unit;
            while unit < units {
                with(product, line, unit);
                unit += share.together;
            }
            line += share.step;
        }
        product += 1;
    }
}
