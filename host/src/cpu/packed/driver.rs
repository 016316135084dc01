//! The five loops round a tile, shared by any number of threads.
//!
//! ```text
//! loop 5   columns of C, NC at a time    a block of B (KC by NC) is packed for all threads
//! loop 4   k, KC at a time
//! loop 3   rows of C, MC at a time       a block of A (MC by KC) is packed by each thread for itself
//! loop 2   columns of the block, NR at a time
//! loop 1   rows of the block, MR at a time: a tile
//! ```
//!
//! Work is handed out by one counter. A phase is one turn of loops 5 and 4; it has tickets that pack
//! chunks of B, then tickets that compute areas of C, one each: which one, the thread chooses, so that it
//! stays with the block of A that it has packed. Whoever draws a ticket waits for what it needs,
//! which is always work of earlier tickets: the panels of its phase, its area's sums of the phase
//! before, and, before packing, that the block of B it overwrites (there are two) is no more in use.
//! Earlier tickets are held by threads that run, so the earliest that is unfinished never waits, and
//! the product ends however few threads of the pool come to it. There is no barrier: a thread that is
//! done goes on to the next phase.

use std::sync::atomic::{AtomicUsize, Ordering};

use gemm_spec::Element;

use super::blocking::{Blocking, Caches};
use super::buffer::Buffer;
use super::kernels::Kernels;
use super::pack::Pack;
use super::product::Product;
use super::rounding::Rounded;
use super::thresholds::ROW_BLOCKS_PER_COPY;
use super::tile::{Finish, Hint, Tile};
use crate::cpu::CpuContext;
use crate::scalar::Scalar;
use crate::threads::run_on;

/// Tickets of all phases for each thread, where there is work enough, so that all end together.
const TICKETS_PER_THREAD: usize = 16;
/// Tickets of a phase for each thread, where there is work enough.
const PHASE_TICKETS_PER_THREAD: usize = 2;
/// Panels of B of a ticket that packs.
const PANELS_PER_CHUNK: usize = 16;
/// Panels of B at least of a ticket that computes: fewer do not pay for packing A.
const PANELS_PER_SLICE: usize = 4;

/// Computes the product with the threads of the context, k at least 1.
///
/// # Safety
/// The product's promises, see [`Product`]; the CPU has the kernels' instruction set.
pub(super) unsafe fn multiply<T: Scalar>(
    product: &Product<T>,
    kernels: &Kernels<T>,
    context: &CpuContext,
    threads: usize,
) {
    let &Product { m, n, k, .. } = product;
    let blocking = Blocking::new(kernels, Caches::of_this_machine(), m, n, k, threads);
    let plan = Plan::new(product, kernels, blocking, threads);
    let panels =
        context.spare().take::<T::Acc>(if plan.chunks > 0 { 2 * plan.block_of_b } else { 0 });
    let sums = plan.carries_apart().then(|| context.spare().take::<T::Acc>(plan.m * blocking.cols));
    let shared = Shared {
        product,
        kernels,
        plan,
        context,
        b: panels.as_mut_ptr(),
        sums: sums.as_ref().map_or(std::ptr::null_mut(), |sums| sums.as_mut_ptr()),
        next: AtomicUsize::new(0),
        packed: counters(plan.phases),
        computed: counters(plan.phases),
        areas: counters(plan.areas),
        taken: counters(plan.phases * plan.row_blocks),
    };
    // SAFETY: the caller's promises; `work` shares its output by tickets.
    run_on(context.pool(), threads, || unsafe { shared.work() });
    context.spare().give_back(panels, context.threads());
    if let Some(sums) = sums {
        context.spare().give_back(sums, context.threads());
    }
}

fn counters(len: usize) -> Vec<AtomicUsize> {
    std::iter::repeat_with(AtomicUsize::default).take(len).collect()
}

/// How a product is cut into tickets.
#[derive(Clone, Copy)]
struct Plan {
    m: usize,
    blocking: Blocking,
    /// Blocks along k.
    k_blocks: usize,
    /// Turns of loops 5 and 4.
    phases: usize,
    /// Tickets of a phase that pack.
    chunks: usize,
    /// Blocks of rows.
    row_blocks: usize,
    /// Parts of a block's columns that are tickets of their own, and how wide they are.
    slices: usize,
    slice_cols: usize,
    /// Tickets of a phase that compute: blocks of rows times slices.
    areas: usize,
    /// Whether C holds old values that are still needed while sums are carried.
    updates: bool,
    /// Whether C cannot hold sums, which are of another type.
    rounds: bool,
    /// Elements of a packed block of A, and of B.
    block_of_a: usize,
    block_of_b: usize,
}

impl Plan {
    fn new<T: Scalar>(
        product: &Product<T>,
        kernels: &Kernels<T>,
        blocking: Blocking,
        threads: usize,
    ) -> Self {
        let cols = kernels.cols;
        let row_blocks = product.m.div_ceil(blocking.rows);
        let reads = row_blocks.div_ceil(threads);
        let reads_b = product.b_row == 1 && kernels.in_place && reads < ROW_BLOCKS_PER_COPY;
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
            blocking,
            k_blocks,
            phases,
            chunks: if reads_b { 0 } else { panels.div_ceil(PANELS_PER_CHUNK) },
            row_blocks,
            slices,
            slice_cols,
            areas: row_blocks * slices,
            updates: product.beta != T::Acc::ZERO,
            rounds: kernels.round.is_some(),
            block_of_a: blocking.rows * kernels.packed_steps(blocking.k),
            block_of_b: blocking.cols * kernels.packed_column(blocking.k),
        }
    }

    /// Whether sums are carried in memory of their own, not in C.
    fn carries_apart(&self) -> bool {
        self.rounds || self.updates && self.k_blocks > 1
    }
}

/// What the threads of a product share.
struct Shared<'a, T: Scalar> {
    product: &'a Product<T>,
    kernels: &'a Kernels<T>,
    plan: Plan,
    context: &'a CpuContext,
    /// Two packed blocks of B.
    b: *mut T::Acc,
    /// Sums of a block of columns, m apart; null where C itself holds them.
    sums: *mut T::Acc,
    /// The next ticket.
    next: AtomicUsize,
    /// For each phase, chunks of B that are packed.
    packed: Vec<AtomicUsize>,
    /// For each phase, areas that are computed.
    computed: Vec<AtomicUsize>,
    /// For each area, phases that are computed.
    areas: Vec<AtomicUsize>,
    /// For each phase and block of rows, slices that are taken, or were asked for in vain.
    taken: Vec<AtomicUsize>,
}

// SAFETY: the pointers are to memory that outlives the product's threads, and tickets decide who
// writes where; see `work`.
unsafe impl<T: Scalar> Sync for Shared<'_, T> {}

impl<T: Scalar> Shared<'_, T> {
    /// Draws tickets until there are no more.
    ///
    /// # Safety
    /// As [`multiply`].
    unsafe fn work(&self) {
        let plan = &self.plan;
        let tickets = plan.chunks + plan.areas;
        let mut own: Option<OwnBlock> = None;
        loop {
            let ticket = self.next.fetch_add(1, Ordering::Relaxed);
            let (phase, index) = (ticket / tickets, ticket % tickets);
            if phase >= plan.phases {
                break;
            }
            if index < plan.chunks {
                if phase >= 2 {
                    wait(&self.computed[phase - 2], plan.areas);
                }
                // SAFETY: the block that this chunk lies in is no more read, by the wait above, and
                // no other ticket has this chunk.
                unsafe { self.pack_chunk(phase, index) };
                self.packed[phase].fetch_add(1, Ordering::Release);
            } else {
                let own = own.get_or_insert_with(|| OwnBlock {
                    buffer: self.context.spare().take::<T::Acc>(plan.block_of_a),
                    holds: None,
                });
                let k_block = phase % plan.k_blocks;
                let packed = own.holds.filter(|held| held.1 == k_block).map(|held| held.0);
                let (block, slice) = self.take_area(phase, packed);
                let area = block * plan.slices + slice;
                if packed != Some(block) {
                    // SAFETY: the buffer is this thread's own.
                    unsafe { self.pack_a(own.buffer.as_mut_ptr(), block, k_block) };
                    own.holds = Some((block, k_block));
                }
                wait(&self.packed[phase], plan.chunks);
                wait(&self.areas[area], phase);
                // SAFETY: B is packed and this area's earlier sums are there, by the waits above;
                // no other ticket of this phase has this area, and those of others wait for it.
                unsafe { self.compute(own.buffer.as_mut_ptr(), phase, block, slice) };
                self.areas[area].fetch_add(1, Ordering::Release);
                self.computed[phase].fetch_add(1, Ordering::Release);
            }
        }
        if let Some(own) = own {
            self.context.spare().give_back(own.buffer, self.context.threads());
        }
    }

    /// Takes an area that no other ticket of this phase has, a block of rows and a slice: of the block that
    /// the thread has packed, else of the one that has most left, for which it pays best to pack another.
    /// There is one for each ticket.
    fn take_area(&self, phase: usize, packed: Option<usize>) -> (usize, usize) {
        let blocks = self.plan.row_blocks;
        let taken = &self.taken[phase * blocks..][..blocks];
        let with_most_left = || {
            let fewest = (0..blocks).min_by_key(|&block| taken[block].load(Ordering::Relaxed));
            fewest.expect("invariant: C has a row at least")
        };
        let mut block = packed.unwrap_or_else(with_most_left);
        loop {
            let slice = taken[block].fetch_add(1, Ordering::Relaxed);
            if slice < self.plan.slices {
                return (block, slice);
            }
            block = with_most_left();
        }
    }

    /// First step of k of a block, and how many it has.
    fn steps(&self, k_block: usize) -> (usize, usize) {
        let first = k_block * self.plan.blocking.k;
        (first, self.plan.blocking.k.min(self.product.k - first))
    }

    /// First column of a phase, and how many it has.
    fn columns(&self, phase: usize) -> (usize, usize) {
        let first = phase / self.plan.k_blocks * self.plan.blocking.cols;
        (first, self.plan.blocking.cols.min(self.product.n - first))
    }

    /// Where the packed panel that begins at a column of the phase's block lies.
    fn panel_of_b(&self, phase: usize, col: usize, steps: usize) -> *mut T::Acc {
        let block = (phase % 2) * self.plan.block_of_b;
        // Within the two blocks: col < NC and steps <= KC.
        self.b.wrapping_add(block + col * self.kernels.packed_column(steps))
    }

    /// Where a tile finds its columns of B, and what is from one step and one column to the next.
    fn columns_of_b(
        &self,
        phase: usize,
        first_col: usize,
        col: usize,
        steps: usize,
    ) -> (*const T::Acc, usize, usize) {
        let Product { b, b_row, b_col, .. } = *self.product;
        if self.plan.chunks > 0 {
            return (self.panel_of_b(phase, col, steps), self.kernels.cols, 1);
        }
        let (first_step, _) = self.steps(phase % self.plan.k_blocks);
        // May be the column behind the last, for a hint: an address that need not exist.
        let b = b.wrapping_add(first_step * b_row);
        // Only elements that are their own sums are read where they lie.
        let b = b.cast::<T::Acc>();
        (b.wrapping_add((first_col + col).wrapping_mul(b_col)), b_row, b_col)
    }

    /// # Safety
    /// As [`multiply`]; the chunk's panels are this thread's to write.
    unsafe fn pack_chunk(&self, phase: usize, chunk: usize) {
        let Product { b, b_row, b_col, .. } = *self.product;
        let (first_step, steps) = self.steps(phase % self.plan.k_blocks);
        let (first_col, cols) = self.columns(phase);
        let width = PANELS_PER_CHUNK * self.kernels.cols;
        let end = cols.min((chunk + 1) * width);
        let col = chunk * width;
        let panels = Pack {
            from: b.wrapping_add(first_step * b_row + (first_col + col) * b_col),
            along: b_col,
            step: b_row,
            lines: end.saturating_sub(col),
            k: steps,
            to: self.panel_of_b(phase, col, steps),
        };
        // SAFETY: columns and steps of B that exist, into the panels of this chunk.
        unsafe { (self.kernels.pack_b)(&panels) };
    }

    /// # Safety
    /// As [`multiply`]; `to` has room for MC by KC elements.
    unsafe fn pack_a(&self, to: *mut T::Acc, block: usize, k_block: usize) {
        let Product { m, a, a_row, a_col, .. } = *self.product;
        let (first_step, steps) = self.steps(k_block);
        let first_row = block * self.plan.blocking.rows;
        let rows = self.plan.blocking.rows.min(m - first_row);
        let panels = Pack {
            from: a.wrapping_add(first_row * a_row + first_step * a_col),
            along: a_row,
            step: a_col,
            lines: rows,
            k: steps,
            to,
        };
        // SAFETY: rows and steps of A that exist, into this thread's own buffer.
        unsafe { (self.kernels.pack_a)(&panels) };
    }

    /// Loops 2 and 1 over an area: a block of rows, a slice of the phase's columns.
    ///
    /// # Safety
    /// As [`multiply`]; `a` holds that block of A, B is packed, and the area is this thread's.
    unsafe fn compute(&self, a: *const T::Acc, phase: usize, block: usize, slice: usize) {
        let Product { m, alpha, beta, c, ldc, .. } = *self.product;
        let k_block = phase % self.plan.k_blocks;
        let (_, steps) = self.steps(k_block);
        let packed_steps = self.kernels.packed_steps(steps);
        let (first_col, cols) = self.columns(phase);
        let first_row = block * self.plan.blocking.rows;
        let rows = self.plan.blocking.rows.min(m - first_row);
        let last = k_block + 1 == self.plan.k_blocks;
        let finish = match last && !self.plan.rounds {
            true => Finish::last(alpha, beta),
            false => Finish::Carry,
        };
        let end = cols.min((slice + 1) * self.plan.slice_cols);
        for col in (slice * self.plan.slice_cols..end).step_by(self.kernels.cols) {
            let tile_cols = self.kernels.cols.min(end - col);
            let (b, b_step, b_col) = self.columns_of_b(phase, first_col, col, steps);
            let (next_b, _, _) = self.columns_of_b(phase, first_col, col + tile_cols, steps);
            // The next columns of B are asked for by this block's tiles, each a share: as they lie, or
            // of a packed panel as many pieces.
            let apart = if b_step == 1 { b_col } else { packed_steps };
            let share = |row: usize| row.min(rows) * self.kernels.cols / rows;
            for row in (0..rows).step_by(self.kernels.rows) {
                let first_piece = share(row);
                let tile_rows = self.kernels.rows.min(rows - row);
                let at = first_row + row;
                let c = c.wrapping_add(at + (first_col + col) * ldc);
                let (sums, sums_ld) = match self.sums.is_null() {
                    // C holds sums: its elements are of their type.
                    true => (c.cast::<T::Acc>(), ldc),
                    false => (self.sums.wrapping_add(at + col * m), m),
                };
                let tile = Tile {
                    k: packed_steps,
                    a: a.wrapping_add(row * packed_steps),
                    a_step: 0,
                    ahead: 0,
                    b,
                    b_step,
                    b_col,
                    sums,
                    sums_ld,
                    next: if row + self.kernels.rows < rows {
                        sums.wrapping_add(self.kernels.rows)
                    } else {
                        sums.wrapping_sub(row).wrapping_add(self.kernels.cols.wrapping_mul(sums_ld))
                    },
                    c: c.cast::<T::Acc>(),
                    ldc,
                    last_rows: self.kernels.last_rows(tile_rows),
                    resume: k_block > 0,
                    finish,
                    hint: Hint {
                        from: next_b.wrapping_add(first_piece.wrapping_mul(apart)),
                        apart,
                        pieces: share(row + self.kernels.rows) - first_piece,
                    },
                };
                // SAFETY: panels of this block's rows and this slice's columns; the tile lies in
                // the area.
                unsafe { self.kernels.packed(tile_rows, tile_cols)(&tile) };
                if let Some(round) = self.kernels.round.filter(|_| last) {
                    let tile = Rounded {
                        sums,
                        sums_ld,
                        c,
                        ldc,
                        rows: tile_rows,
                        cols: tile_cols,
                        alpha,
                        beta,
                    };
                    // SAFETY: the sums that were just carried, and their part of C.
                    unsafe { round(&tile) };
                }
            }
        }
    }
}

/// A thread's packed block of A.
struct OwnBlock {
    buffer: Buffer,
    /// Which block of rows and which of k it holds.
    holds: Option<(usize, usize)>,
}

/// Turns of waiting that only spin: what is waited for ends within microseconds, if its thread runs.
const SPINS: u32 = 1 << 12;

/// Waits until a counter has come to a number, and sees what was written before it did.
fn wait(counter: &AtomicUsize, number: usize) {
    let mut turns = 0;
    while counter.load(Ordering::Acquire) < number {
        turns += 1;
        // More threads than cores: let the one that is waited for run.
        if turns < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
    }
}
