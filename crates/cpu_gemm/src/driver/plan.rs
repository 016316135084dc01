//! How a product is cut into tickets, and tiles to begin with cache lines.

use gemm_spec::{Element, GemmTypes};

use crate::blocking::{Blocking, Caches};
use crate::cache_line::{self, PAGE};
use crate::kernels::Kernels;
use crate::mirror::Mirror;
use crate::product::Product;
use crate::sum::Waiting;
use crate::thresholds::{
    LEAST_WAYS, MANY_REGISTERS, NARROW_COLUMNS, PACKED_ROWS, ROW_BLOCKS_PER_COPY,
};

/// Tickets of all phases for each thread, where there is work enough, so that all end together.
const TICKETS_PER_THREAD: usize = 32;
/// Tickets of a phase for each thread, where there is work enough.
const PHASE_TICKETS_PER_THREAD: usize = 4;
/// Panels of B of a ticket that packs.
pub(super) const PANELS_PER_CHUNK: usize = 16;
/// Panels of B at least of a ticket that computes: fewer do not pay for packing A.
const PANELS_PER_SLICE: usize = 4;

/// How the rows of tiles lie to cache lines. A register that lies across two is loaded and stored as two, and
/// large buffers usually begin some bytes behind a page: a shorter first tile lets all others begin with lines.
#[derive(Clone, Copy)]
pub(super) struct AlignmentPeel {
    /// By how many rows the first tile is shorter than the others.
    pub(super) short: usize,
    /// Whether no register of A, read in place, straddles two cache lines.
    pub(super) hold_a: bool,
}

impl AlignmentPeel {
    /// Lines of C, which are met once in each block of k, or those of A where C is so narrow that to read A is
    /// a good part of the work.
    ///
    /// Not where a register more would be needed for it, of few.
    pub(super) fn of<T: GemmTypes>(product: &Product<T>, kernels: &Kernels<T>) -> Self {
        let &Product { m, n, a, a_row, a_col, c, ldc, .. } = product;
        let &Kernels { lanes, in_place, .. } = kernels;
        if !in_place {
            return Self { short: 0, hold_a: false };
        }
        // How many elements before its columns a register would have to begin to lie in one line.
        let of_a = if a_row == 1 { cache_line::beyond(a, a_col, lanes) } else { None };
        let of_c = cache_line::beyond(c.cast_const(), ldc, lanes);
        let wanted = if n <= NARROW_COLUMNS { of_a.or(of_c) } else { of_c.or(of_a) };
        let short = wanted.filter(|&short| {
            let registers = m.div_ceil(lanes);
            let fits = (m + short).div_ceil(lanes) == registers || registers >= MANY_REGISTERS;
            fits && m > kernels.rows
        });
        let short = short.unwrap_or(0);
        Self { short, hold_a: of_a == Some(short) }
    }
}

/// How a product is cut into tickets.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) m: usize,
    /// Whether one thread does it all.
    pub(super) alone: bool,
    pub(super) blocking: Blocking,
    /// Blocks along k.
    pub(super) k_blocks: usize,
    /// Turns of loops 5 and 4.
    pub(super) phases: usize,
    /// Tickets of a phase that pack.
    pub(super) chunks: usize,
    /// By how many rows the first tile, and so the first block of rows, is shorter than the others, and
    /// why.
    pub(super) lines: AlignmentPeel,
    /// Whether A can be read where it lies.
    pub(super) a_in_place: bool,
    /// Blocks of rows.
    pub(super) row_blocks: usize,
    /// Parts of a block's columns that are tickets of their own, and how wide they are.
    pub(super) slices: usize,
    pub(super) slice_cols: usize,
    /// Tickets of a phase that compute: blocks of rows times slices.
    pub(super) areas: usize,
    /// Which partial sums wait from one block of k to the next.
    pub(super) waiting: Waiting,
    /// Whether C holds old values that are still needed meanwhile.
    pub(super) updates: bool,
    /// Whether C cannot hold sums, which are of another type.
    pub(super) rounds: bool,
    /// How far apart columns lie where partial sums wait in memory of their own.
    pub(super) sums_ld: usize,
    /// Elements of a packed block of A, and of B.
    pub(super) block_of_a: usize,
    pub(super) block_of_b: usize,
}

impl Plan {
    pub(super) fn new<T: GemmTypes>(
        product: &Product<T>,
        mirror: Option<&Mirror<'_, T>>,
        kernels: &Kernels<T>,
        blocking: Blocking,
        lines: AlignmentPeel,
        threads: usize,
    ) -> Self {
        // What is not stored is not there to be read in place.
        let a_in_place = kernels.in_place && !matches!(mirror, Some(Mirror::A(_)));
        let b_in_place = kernels.in_place && !matches!(mirror, Some(Mirror::B(_)));
        let cols = kernels.cols;
        let row_blocks = (product.m + lines.short).div_ceil(blocking.rows);
        let reads = row_blocks.div_ceil(threads);
        // A tile's columns of B that lie pages apart take a way each of the first cache, which A and C need as well.
        let ways_left = Caches::of_this_machine().ways().saturating_sub(cols);
        let share_a_set = ways_left < LEAST_WAYS
            && product.m >= PACKED_ROWS
            && product.b_col.saturating_mul(size_of::<T::B>()).is_multiple_of(PAGE);
        let few_reads = reads < ROW_BLOCKS_PER_COPY && !share_a_set;
        let reads_b = product.b_row == 1 && b_in_place && few_reads;
        let k_blocks = product.k.div_ceil(blocking.k);
        let phases = product.n.div_ceil(blocking.cols) * k_blocks;
        let panels = blocking.cols.div_ceil(cols);
        let slices = if threads == 1 {
            1
        } else {
            let wanted = (threads * TICKETS_PER_THREAD).div_ceil(phases);
            let wanted = wanted.max(threads * PHASE_TICKETS_PER_THREAD).div_ceil(row_blocks);
            wanted.clamp(1, panels.div_ceil(PANELS_PER_SLICE))
        };
        let slice_cols = panels.div_ceil(slices) * cols;
        let slices = blocking.cols.div_ceil(slice_cols);
        Self {
            m: product.m,
            alone: threads == 1,
            blocking,
            k_blocks,
            phases,
            chunks: if reads_b { 0 } else { panels.div_ceil(PANELS_PER_CHUNK) },
            lines: AlignmentPeel { hold_a: lines.hold_a && a_in_place, ..lines },
            a_in_place,
            row_blocks,
            slices,
            slice_cols,
            areas: row_blocks * slices,
            waiting: Waiting::between::<T::Acc>(product.k, blocking.k, kernels.round.is_some()),
            updates: product.beta != T::Acc::ZERO,
            rounds: kernels.round.is_some(),
            sums_ld: cache_line::spread::<T::Acc>(product.m),
            block_of_a: blocking.rows * kernels.packed_steps(blocking.k),
            block_of_b: blocking.cols * kernels.packed_column(blocking.k),
        }
    }

    /// How many kinds of partial sums wait in memory of their own: C holds one kind, if it can.
    pub(super) fn kinds_apart(&self) -> usize {
        self.waiting.count().saturating_sub(usize::from(self.c_holds_sums()))
    }

    /// Elements of the memory of one kind.
    pub(super) fn sums_of_a_kind(&self) -> usize {
        self.sums_ld.saturating_mul(self.blocking.cols)
    }

    /// Whether C can hold sums meanwhile.
    pub(super) fn c_holds_sums(&self) -> bool {
        !self.rounds && !self.updates
    }
}
