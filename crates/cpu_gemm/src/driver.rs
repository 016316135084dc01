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

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gemm_spec::{Element, GemmTypes};

use crate::blocking::{Blocking, Caches};
use crate::buffer::Buffer;
use crate::cache_line;
use crate::context::CpuContext;
use crate::error::Error;
use crate::kernels::Kernels;
use crate::pack::Pack;
use crate::product::Product;
use crate::rounding::Rounded;
use crate::threads::wait;
use crate::thresholds::{
    MANY_REGISTERS, NARROW_COLUMNS, PACKED_AHEAD, ROW_BLOCKS_PER_COPY, SOURCE_COLUMNS,
};
use crate::tile::{Finish, Hint, Source, Tile};

/// Tickets of all phases for each thread, where there is work enough, so that all end together. f32 on two
/// threads of a Zen 5 EPYC, beside half as many: 512 cubed 1.02x, 1024 1.07x, larger ones level; twice as
/// many were level there, and 16 threads of an Emerald Rapids Xeon lost 1 to 2 %.
const TICKETS_PER_THREAD: usize = 32;
/// Tickets of a phase for each thread, where there is work enough.
const PHASE_TICKETS_PER_THREAD: usize = 4;
/// Panels of B of a ticket that packs.
const PANELS_PER_CHUNK: usize = 16;
/// Panels of B at least of a ticket that computes: fewer do not pay for packing A.
const PANELS_PER_SLICE: usize = 4;

/// Computes the product with the threads of the context, k at least 1.
///
/// # Errors
/// [`Error::OutOfMemory`], before anything was written.
///
/// # Safety
/// The product's promises, see [`Product`]; the CPU has the kernels' instruction set.
pub(crate) unsafe fn multiply<T: GemmTypes>(
    product: &Product<T>,
    kernels: &Kernels<T>,
    context: &CpuContext,
    threads: usize,
) -> Result<(), Error> {
    let &Product { m, n, k, .. } = product;
    let lines = Lines::of(product, kernels);
    let rows = m + lines.short;
    let blocking = Blocking::new(kernels, Caches::of_this_machine(), rows, n, k, threads);
    let plan = Plan::new(product, kernels, blocking, lines, threads);
    let spare = context.spare();
    let panels = spare.take::<T::Acc>(if plan.chunks > 0 { 2 * plan.block_of_b } else { 0 })?;
    let carries_apart = plan.carries_apart();
    let sums = carries_apart.then(|| spare.take::<T::Acc>(plan.m * blocking.cols)).transpose()?;
    // One for each thread that may come, before the first writes anything.
    let blocks = (0..threads).map(|_| spare.take::<T::Acc>(plan.block_of_a));
    let shared = Shared {
        product,
        kernels,
        plan,
        blocks_of_a: Mutex::new(blocks.collect::<Result<_, _>>()?),
        b: panels.as_mut_ptr(),
        sums: sums.as_ref().map_or(std::ptr::null_mut(), |sums| sums.as_mut_ptr()),
        next: AtomicUsize::new(0),
        packed: counters(plan.phases),
        computed: counters(plan.phases),
        areas: counters(plan.areas),
        taken: counters(plan.phases * plan.row_blocks),
    };
    // SAFETY: the caller's promises; `work` shares its output by tickets.
    context.run_on(threads, || unsafe { shared.work() });
    let blocks = shared.blocks_of_a.into_inner().unwrap_or_else(PoisonError::into_inner);
    for buffer in blocks.into_iter().chain(sums).chain([panels]) {
        spare.give_back(buffer, context.threads());
    }
    Ok(())
}

/// How the rows of tiles lie to cache lines. A register that lies across two is loaded and stored as two, and
/// large buffers usually begin some bytes behind a page: a shorter first tile lets all others begin with lines.
#[derive(Clone, Copy)]
struct Lines {
    /// By how many rows the first tile is shorter than the others.
    short: usize,
    /// Whether no register of A, as it lies, is across two lines.
    hold_a: bool,
}

impl Lines {
    /// Lines of C, which are met once in each block of k, or those of A where C is so narrow that to read A is
    /// a good part of the work.
    ///
    /// Not where a register more would be needed for it, of few. f32, one thread of a Zen 5 EPYC, matrices
    /// that begin 16 bytes behind a page: 4096 cubed 1.02x, 2048 level, 1024 and 512, 65 and 33 registers in
    /// place of 64 and 32, 0.99x and 0.97x.
    fn of<T: GemmTypes>(product: &Product<T>, kernels: &Kernels<T>) -> Self {
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

fn counters(len: usize) -> Vec<AtomicUsize> {
    std::iter::repeat_with(AtomicUsize::default).take(len).collect()
}

/// How a product is cut into tickets.
#[derive(Clone, Copy)]
struct Plan {
    m: usize,
    /// Whether one thread does it all.
    alone: bool,
    blocking: Blocking,
    /// Blocks along k.
    k_blocks: usize,
    /// Turns of loops 5 and 4.
    phases: usize,
    /// Tickets of a phase that pack.
    chunks: usize,
    /// By how many rows the first tile, and so the first block of rows, is shorter than the others, and
    /// why.
    lines: Lines,
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
    fn new<T: GemmTypes>(
        product: &Product<T>,
        kernels: &Kernels<T>,
        blocking: Blocking,
        lines: Lines,
        threads: usize,
    ) -> Self {
        let cols = kernels.cols;
        let row_blocks = (product.m + lines.short).div_ceil(blocking.rows);
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
            alone: threads == 1,
            blocking,
            k_blocks,
            phases,
            chunks: if reads_b { 0 } else { panels.div_ceil(PANELS_PER_CHUNK) },
            lines,
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
struct Shared<'a, T: GemmTypes> {
    product: &'a Product<T>,
    kernels: &'a Kernels<T>,
    plan: Plan,
    /// Memory for a packed block of A, for each thread that may come.
    blocks_of_a: Mutex<Vec<Buffer>>,
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
unsafe impl<T: GemmTypes> Sync for Shared<'_, T> {}

impl<T: GemmTypes> Shared<'_, T> {
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
                let own = own.get_or_insert_with(|| {
                    let buffer = self.blocks_of_a().pop();
                    let buffer = buffer.expect("invariant: there is a buffer for each thread");
                    OwnBlock { buffer, holds: None }
                });
                let k_block = phase % plan.k_blocks;
                let packed = own.holds.filter(|held| held.1 == k_block).map(|held| held.0);
                let (block, slice) = self.take_area(phase, packed);
                let area = block * plan.slices + slice;
                let is_packed = packed == Some(block);
                let on_the_way = !is_packed && self.packs_on_the_way(phase, slice);
                if !is_packed && !on_the_way {
                    // SAFETY: the buffer is this thread's own.
                    unsafe { self.pack_a(own.buffer.as_mut_ptr(), block, k_block) };
                }
                own.holds = Some((block, k_block));
                wait(&self.packed[phase], plan.chunks);
                wait(&self.areas[area], phase);
                // SAFETY: B is packed and this area's earlier sums are there, by the waits above;
                // no other ticket of this phase has this area, and those of others wait for it. The buffer
                // is this thread's own, and the block of A is packed in it or will be.
                unsafe {
                    self.compute(own.buffer.as_mut_ptr(), on_the_way, phase, block, slice);
                }
                self.areas[area].fetch_add(1, Ordering::Release);
                self.computed[phase].fetch_add(1, Ordering::Release);
            }
        }
        if let Some(own) = own {
            self.blocks_of_a().push(own.buffer);
        }
    }

    fn blocks_of_a(&self) -> MutexGuard<'_, Vec<Buffer>> {
        self.blocks_of_a.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an area that no other ticket of this phase has, a block of rows and a slice: of the block that
    /// the thread has packed, else of the one that has most left, for which it pays best to pack another.
    /// There is one for each ticket.
    ///
    /// Blocks begin with different slices: threads that begin with the same one at once wait for the same lines
    /// of B. f32, beside all from the first: two threads of a Zen 5 EPYC 512 cubed level, 1024 1.00 to 1.01x,
    /// 2048 and 4096 1.00 to 1.01x, f64 1024 1.00 to 1.01x; 16 threads of an Emerald Rapids Xeon level.
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
                return (block, (slice + block) % self.plan.slices);
            }
            block = with_most_left();
        }
    }

    /// First step of k of a block, and how many it has.
    fn steps(&self, k_block: usize) -> (usize, usize) {
        let first = k_block * self.plan.blocking.k;
        (first, self.plan.blocking.k.min(self.product.k - first))
    }

    /// First row of a block, and how many it has.
    fn rows(&self, block: usize) -> (usize, usize) {
        let Plan { m, lines: Lines { short, .. }, blocking, .. } = self.plan;
        let first = (block * blocking.rows).saturating_sub(short);
        (first, m.min((block + 1) * blocking.rows - short) - first)
    }

    /// Rows of a block's first tile, where it is not a whole one.
    fn short_tile(&self, block: usize) -> usize {
        let Lines { short, .. } = self.plan.lines;
        if block == 0 && short > 0 { self.kernels.rows - short } else { 0 }
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
        let Product { a, a_row, a_col, .. } = *self.product;
        let (first_step, steps) = self.steps(k_block);
        let (first_row, rows) = self.rows(block);
        let pack = |row: usize, lines: usize, to: *mut T::Acc| {
            let from = a.wrapping_add((first_row + row) * a_row + first_step * a_col);
            let panels = Pack { from, along: a_row, step: a_col, lines, k: steps, to };
            // SAFETY: rows and steps of A that exist, into this thread's own buffer.
            unsafe { (self.kernels.pack_a)(&panels) };
        };
        let short_tile = self.short_tile(block);
        if short_tile > 0 {
            pack(0, short_tile, to);
        }
        let panels_before = usize::from(short_tile > 0);
        let to =
            to.wrapping_add(panels_before * self.kernels.rows * self.kernels.packed_steps(steps));
        pack(short_tile, rows - short_tile, to);
    }

    /// Whether the first strip of tiles of a slice packs A on its way: it reads columns as they lie, and each
    /// is stored between the multiplications. f32, beside a copy made before: one thread of a Zen 5 EPYC 512
    /// cubed 1.01x, 1024 level, 2048 and 4096 1.00 to 1.01x, (64, 4096, 4096) 1.07x; f64 512 to 2048 cubed
    /// 1.00 to 1.01x; two threads 0.99 to 1.01x. 16 threads of an Emerald Rapids Xeon 512 cubed 1.03 to 1.06x,
    /// 1024 1.01x, 2048 1.01 to 1.04x, 4096 0.98 to 0.99x.
    ///
    /// Not where A's registers lie across cache lines: two threads, (64, 4096, 4096) 0.80x, 512 cubed level,
    /// 1000 cubed 0.99x.
    fn packs_on_the_way(&self, phase: usize, slice: usize) -> bool {
        let is_wide = self.columns_of_slice(phase, slice).len() >= self.kernels.cols;
        self.plan.lines.hold_a && is_wide
    }

    /// Columns of a slice, counted from the first of the phase's block.
    fn columns_of_slice(&self, phase: usize, slice: usize) -> Range<usize> {
        let (_, cols) = self.columns(phase);
        slice * self.plan.slice_cols..cols.min((slice + 1) * self.plan.slice_cols)
    }

    /// Loops 2 and 1 over an area: a block of rows, a slice of the phase's columns.
    ///
    /// # Safety
    /// As [`multiply`]; `panels` hold that block of A, or may be written and have room for it, and it is packed
    /// on the way; B is packed, and the area is this thread's.
    unsafe fn compute(
        &self,
        panels: *mut T::Acc,
        on_the_way: bool,
        phase: usize,
        block: usize,
        slice: usize,
    ) {
        let Product { m, alpha, a, a_col, beta, ldc, .. } = *self.product;
        let k_block = phase % self.plan.k_blocks;
        let (first_step, steps) = self.steps(k_block);
        let packed_steps = self.kernels.packed_steps(steps);
        let (first_col, _) = self.columns(phase);
        let (first_row, rows) = self.rows(block);
        let short_tile = self.short_tile(block);
        // Only elements that are their own sums are read where they lie.
        let a_as_it_lies = a.wrapping_add(first_row + first_step * a_col).cast::<T::Acc>();
        let last = k_block + 1 == self.plan.k_blocks;
        let finish = match last && !self.plan.rounds {
            true => Finish::last(alpha, beta),
            false => Finish::Carry,
        };
        let slice = self.columns_of_slice(phase, slice);
        let (mr, nr) = (self.kernels.rows, self.kernels.cols);
        let strips = slice.clone().step_by(nr);
        let upcoming = self.upcoming(phase, block, strips.len());
        for (strip, col) in strips.enumerate() {
            let tile_cols = nr.min(slice.end - col);
            let packs = on_the_way && strip == 0;
            let (b, b_step, b_col) = self.columns_of_b(phase, first_col, col, steps);
            let (next_b, _, _) = self.columns_of_b(phase, first_col, col + tile_cols, steps);
            // The next columns of B are asked for by this block's tiles, each a share: as they lie, or
            // of a packed panel as many pieces.
            let apart = if b_step == 1 { b_col } else { packed_steps };
            let per_tile = nr.div_ceil((rows / mr).max(1));
            let mut hint = Hint { from: next_b, apart, pieces: nr, per_tile };
            let source = upcoming.map_or(Source::NONE, |upcoming| upcoming.of_strip(strip));
            let c = self.product.c.wrapping_add(first_row + (first_col + col) * ldc);
            let (sums, sums_ld) = match self.sums.is_null() {
                // C holds sums: its elements are of their type.
                true => (c.cast::<T::Acc>(), ldc),
                false => (self.sums.wrapping_add(first_row + col * m), m),
            };
            let (mut row, mut panel) = (0, panels);
            while row < rows {
                // The short one, all whole ones, then the rest.
                let (tiles, tile_rows) = match (rows - row) / mr {
                    _ if row < short_tile => (1, short_tile),
                    0 => (1, rows - row),
                    whole => (whole, mr),
                };
                let end_row = row + tiles * tile_rows;
                let (function, a) = match packs {
                    true => (self.kernels.packing(tile_rows), a_as_it_lies.wrapping_add(row)),
                    false => (self.kernels.packed(tile_rows, tile_cols), panel.cast_const()),
                };
                let tile = Tile {
                    tiles,
                    k: packed_steps,
                    a,
                    a_step: a_col,
                    ahead: PACKED_AHEAD.saturating_mul(a_col),
                    panel,
                    b,
                    b_step,
                    b_col,
                    sums: sums.wrapping_add(row),
                    sums_ld,
                    next: match end_row < rows {
                        true => sums.wrapping_add(end_row),
                        false => sums.wrapping_add(nr.wrapping_mul(sums_ld)),
                    },
                    c: c.wrapping_add(row).cast::<T::Acc>(),
                    ldc,
                    last_rows: self.kernels.last_rows(tile_rows),
                    resume: k_block > 0,
                    finish,
                    hint,
                    source: Source { from: source.from.wrapping_add(row), ..source },
                };
                // SAFETY: panels of this block's rows and this slice's columns; the tiles lie in the
                // area. A strip that packs is as wide as a whole tile, see `packs_on_the_way`.
                unsafe { function(&tile) };
                row = end_row;
                panel = panel.wrapping_add(tiles * mr * packed_steps);
                hint = hint.after(tiles);
            }
            if let Some(round) = self.kernels.round.filter(|_| last) {
                let strip = Rounded { sums, sums_ld, c, ldc, rows, cols: tile_cols, alpha, beta };
                // SAFETY: the sums that were just carried, and their part of C.
                unsafe { round(&strip) };
            }
        }
    }

    /// What a thread alone packs after a block of A, to be asked for by the last of so many strips of tiles;
    /// `None` where there is nothing more, where rows do not lie side by side, or elements are not sums.
    fn upcoming(&self, phase: usize, block: usize, strips: usize) -> Option<Upcoming<T::Acc>> {
        let Product { a, a_row, a_col, .. } = *self.product;
        let Plan { alone, row_blocks, k_blocks, phases, .. } = self.plan;
        let (next_phase, next_block) = match block + 1 < row_blocks {
            true => (phase, block + 1),
            false => (phase + 1, 0),
        };
        let asks = alone && a_row == 1 && self.kernels.in_place && row_blocks * k_blocks > 1;
        if !asks || strips == 0 || next_phase == phases {
            return None;
        }
        let (first_step, columns) = self.steps(next_phase % k_blocks);
        let from = a.wrapping_add(self.rows(next_block).0 + first_step * a_col);
        let (_, steps) = self.steps(phase % k_blocks);
        let lines = steps.div_ceil(cache_line::elements::<T::Acc>());
        let per_line = columns.div_ceil(lines * strips).min(SOURCE_COLUMNS);
        let strips_needed = columns.div_ceil(lines * per_line);
        Some(Upcoming {
            source: Source { from: from.cast::<T::Acc>(), apart: a_col, per_line },
            columns_per_strip: lines * per_line,
            first_strip: strips.saturating_sub(strips_needed),
        })
    }
}

/// The columns of A that the next block is packed from, and which strip of tiles asks for which.
#[derive(Clone, Copy)]
struct Upcoming<T> {
    source: Source<T>,
    columns_per_strip: usize,
    first_strip: usize,
}

impl<T: Copy> Upcoming<T> {
    fn of_strip(self, strip: usize) -> Source<T> {
        let Source { from, apart, .. } = self.source;
        match strip.checked_sub(self.first_strip) {
            None => Source::NONE,
            Some(asking) => {
                let columns = asking.wrapping_mul(self.columns_per_strip);
                Source { from: from.wrapping_add(columns.wrapping_mul(apart)), ..self.source }
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
