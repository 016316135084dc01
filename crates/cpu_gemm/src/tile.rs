//! The micro-kernel: a tile of C in registers, one k element at a time.
//!
//! A tile is `VECTORS` registers by `COLS` columns of C. For each k element a column of A is loaded
//! and an element of B multiplies it for each column of the tile:
//!
//! ```text
//!                      b(p, 0)  b(p, 1) ...        (COLS)
//!   a(.., p)   x          |        |
//!   (VECTORS registers)  acc      acc              acc += a * b, in order of p
//! ```
//!
//! Every 128 k elements the sums are those of a [chain](crate::sum) and begin anew; what they are added to waits on the
//! stack, or in memory from one block of k to the next. So the order of additions is always the same, whatever the
//! blocks are.

use std::mem::MaybeUninit;

use gemm_spec::{Accumulator, Element};

use crate::cache_line;
use crate::prefetch::prefetch;
use crate::sum::{CHAIN, Partials, Place, is_exact, superblock};
use crate::vector::Vector;

/// What a tile is computed from and where it goes; or several, one under the other: the panels of A lie one
/// after the other, B is that of all.
///
/// Several are one call, since little is left to do between them: the processor is not yet done with the
/// sums of one when it begins with those of the next.
pub(crate) struct Tile<'a, T> {
    /// How many; all but a single one are of whole registers.
    pub(crate) tiles: usize,
    /// k elements, as they are packed.
    pub(crate) k: usize,
    /// Column p of A is at `a + p * a_step`, its rows contiguous.
    pub(crate) a: *const T,
    /// See `a`. A packed tile does not look at it: the step is the panel's height.
    pub(crate) a_step: usize,
    /// From what is used of A to what is asked for ahead: only a hint, and none where it is zero. Of a
    /// packed panel nothing is: the processor's own prefetcher does it, and the instructions cost more than
    /// they give.
    pub(crate) ahead: usize,
    /// Where the panels are packed, one after the other, by tiles that do so on their way.
    pub(crate) panel: *mut T,
    /// Element (p, j) of B is at `b + p * b_step + j * b_col`.
    pub(crate) b: *const T,
    /// See `b`.
    pub(crate) b_step: usize,
    /// See `b`.
    pub(crate) b_col: usize,
    /// k elements that were added before: whole chains, as `k` is then up to the last element, or those of one chain
    /// that `k` does not go beyond.
    pub(crate) first: usize,
    /// Where partial sums of the whole product wait from one block of k to the next.
    pub(crate) sums: &'a Partials<T>,
    /// The place of the tile's first element there.
    pub(crate) row: usize,
    /// See `row`.
    pub(crate) col: usize,
    /// Where the result goes, column j at `c + j * ldc`.
    pub(crate) c: *mut T,
    /// See `c`.
    pub(crate) ldc: usize,
    /// Rows of the last register, 1 to its lanes; the other registers are whole.
    pub(crate) last_rows: usize,
    /// What becomes of the sums.
    pub(crate) finish: Finish<T>,
    /// What later tiles will read, to ask for meanwhile, or what the next block of A will be packed from.
    pub(crate) hint: Prefetch<T>,
}

/// Lines to ask for, where panels of A are read: with every [`STEPS_PER_LINE`] steps the next one, and two more `apart`
/// from it where that is not zero and columns of B are read in place.
#[derive(Clone, Copy)]
pub(crate) struct Prefetch<T> {
    /// The first tile's first line.
    pub(crate) from: *const T,
    /// From one line to the next.
    pub(crate) step: usize,
    /// See above.
    pub(crate) apart: usize,
    /// From one tile's first line to the next one's.
    pub(crate) next_tile: usize,
    /// How many tiles ask.
    pub(crate) tiles: usize,
}

/// What becomes of a tile's sums.
#[derive(Clone, Copy)]
pub(crate) enum Finish<T> {
    /// They wait in `sums`, for the next block of k.
    Carry,
    /// They are complete, and go to the place of the totals.
    Sum,
    /// `c = alpha * sum`; C is not read.
    Write { alpha: T },
    /// `c = alpha * sum + beta * c`.
    Update { alpha: T, beta: T },
}

impl<T: Accumulator> Tile<'_, T> {
    /// Whether each sum is one chain, or of exact numbers, and goes to C.
    #[inline(always)]
    fn is_chain(&self) -> bool {
        let to_c = matches!(self.finish, Finish::Write { .. } | Finish::Update { .. });
        self.first == 0 && (is_exact::<T>() || self.k <= CHAIN) && to_c
    }
}

impl<T> Prefetch<T> {
    /// Nothing.
    pub(crate) const NONE: Self =
        Self { from: std::ptr::null(), step: 0, apart: 0, next_tile: 0, tiles: 0 };

    /// What is left to ask for after that many tiles.
    pub(crate) fn after(self, tiles: usize) -> Self {
        let from = self.from.wrapping_add(tiles.wrapping_mul(self.next_tile));
        Self { from, tiles: self.tiles.saturating_sub(tiles), ..self }
    }
}

impl<T: Accumulator> Finish<T> {
    /// What [`gemm_spec::epilogue`] does with these factors.
    pub(crate) fn last(alpha: T, beta: T) -> Self {
        if beta == T::ZERO { Self::Write { alpha } } else { Self::Update { alpha, beta } }
    }
}

/// Steps that are unrolled where it is known how far elements of B lie apart, and with which a line is prefetched.
pub(crate) const STEPS_PER_LINE: usize = 4;

/// Where tiles find columns of A.
#[derive(Clone, Copy)]
pub(crate) enum Columns {
    /// In panels of that many rows, whole registers.
    Packed(usize),
    /// Where they lie.
    InPlace,
    /// In place, and each is copied to panels of that many rows.
    Packing(usize),
}

/// Computes tiles. B may be a panel of `panel_cols` columns, and never is where that is zero.
///
/// # Safety
/// The CPU has the instruction set of `V`. For each of the tiles' rows and columns and each k
/// element, A and B can be read; C can be written, and read where `finish` updates it; the places in `sums` of what the
/// elements before `first` left behind can be read, those of what these leave behind written; `panel` can be written
/// where A is packed.
/// No other thread uses those parts of C, `sums` and `panel` meanwhile.
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "operations on registers, which need the instruction set alone, and accesses of one argument"
)]
pub(crate) unsafe fn compute<V: Vector, const VECTORS: usize, const COLS: usize>(
    tile: &Tile<'_, V::Element>,
    columns: Columns,
    panel_cols: usize,
) {
    // Addresses are counted up by `wrapping_add`, and nothing here can panic: the sums must stay in
    // registers, and a way out of the loop would keep them in memory.
    //
    // SAFETY: the CPU has the instruction set of `V`. Each access is to a row, a column and a step that the
    // tiles have, which can be read and written as they need it; row i of register v is row `v * LANES + i`, and the
    // mask keeps the last register to its rows. After the steps of one tile A is at the next one's panel,
    // and is set to its rows where there are no panels yet.
    unsafe {
        let mask = V::mask(tile.last_rows);
        let of_sums = if V::has_all_lanes(mask) { Rows::Padded } else { Rows::Masked(mask) };
        let (rows, a_step, ahead, packing) = match columns {
            Columns::Packed(height) => (Rows::Padded, height, 0, 0),
            Columns::InPlace => (Rows::Masked(mask), tile.a_step, tile.ahead, 0),
            Columns::Packing(height) => (Rows::Masked(mask), tile.a_step, tile.ahead, height),
        };
        let strides = Strides { a: a_step, ahead, b: tile.b_step, b_col: tile.b_col, packing };
        let tile_rows = VECTORS.wrapping_mul(V::LANES);
        let line = cache_line::elements::<V::Element>();
        // Whether the steps are unrolled, where it is known beforehand how far the next element lies: each is then
        // named in its own instruction, without sums of addresses. Not where A is prefetched as well: the
        // compiler then loads elements of several steps at once, for which there are no registers.
        let is_panel = panel_cols > 0 && (tile.b_step, tile.b_col) == (panel_cols, 1);
        let in_columns = tile.b_step == 1 && packing == 0 && ahead == 0;
        let (mut row, mut c, mut tiles) = (0usize, tile.c, tile.tiles);
        let exact = is_exact::<V::Element>();
        let superblock = superblock::<V::Element>();
        let is_chain = tile.is_chain();
        let waiting = if is_chain { Waiting::NONE } else { Waiting::of(tile) };
        let wanted = match is_chain {
            true => Place { at: tile.c, ld: tile.ldc },
            false => waiting.wanted,
        };
        let mut kept = MaybeUninit::<Kept<V, VECTORS, COLS>>::uninit();
        let kept = Kept::places(&mut kept);
        // Steps that are left when the first chain ends.
        let first_stop = match is_chain || exact {
            true => 0,
            false => tile.k.saturating_sub(CHAIN.wrapping_sub(tile.first % CHAIN)),
        };
        let (mut a, mut panel, mut tile_a) = (tile.a, tile.panel, tile.a);
        let mut hint = tile.hint.from;
        let mut tiles_that_ask = tile.hint.tiles;
        loop {
            tiles = tiles.wrapping_sub(1);
            // What comes next is asked for while this is summed, a line at a time: all at once, it would occupy the paths
            // on which this tile's own operands come. Where there is nothing, it is a line that is near.
            let (mut ask, ask_step, apart) = match tiles_that_ask {
                0 => (tile.b, 0, 0),
                _ => (hint, tile.hint.step, tile.hint.apart),
            };
            let mut acc = [[V::splat(V::Element::ZERO); VECTORS]; COLS];
            if !exact && tile.first % CHAIN != 0 {
                acc = load_tile(waiting.sums.chain.after(row), of_sums);
            }
            if V::COMPENSATES {
                // B is a panel: its last step is followed by a number for each column.
                let mut start = tile.b.wrapping_add(tile.k.wrapping_mul(tile.b_step));
                for acc in &mut acc {
                    let first = V::splat(*start);
                    for acc in acc {
                        *acc = first.mul_add(V::splat(V::Element::ONE), *acc);
                    }
                    start = start.wrapping_add(1);
                }
            }
            let mut wanted_column = wanted.at.wrapping_add(row);
            let (mut b, mut left, mut stop) = (tile.b, tile.k, first_stop);
            loop {
                // What the sums are added to, with the last chain: so it is near when it is needed, and has not yet been
                // pushed out by the panels. Rows that do not begin with a line end in one more.
                if stop == 0 {
                    for _ in 0..COLS {
                        let mut at = 0usize;
                        while at < tile_rows {
                            prefetch(wanted_column.wrapping_add(at));
                            at = at.wrapping_add(line);
                        }
                        prefetch(wanted_column.wrapping_add(tile_rows).wrapping_sub(1));
                        wanted_column = wanted_column.wrapping_add(wanted.ld);
                    }
                }
                let steps = left.wrapping_sub(stop);
                left = stop;
                let from = (a, b, panel);
                let lines = ask;
                ask = ask.wrapping_add((steps / STEPS_PER_LINE).wrapping_mul(ask_step));
                (a, b, panel) = match (is_panel, in_columns) {
                    (true, _) => {
                        let strides = Strides { b: panel_cols, b_col: 1, ..strides };
                        let lines = [lines];
                        sum_unrolled::<V, VECTORS, COLS, 1>(
                            &mut acc, from, steps, strides, rows, lines, ask_step,
                        )
                    }
                    (false, true) => {
                        let strides = Strides { ahead: 0, b: 1, ..strides };
                        match columns {
                            Columns::Packed(_) => {
                                let lines = [0, apart, apart.wrapping_mul(2)]
                                    .map(|apart| lines.wrapping_add(apart));
                                sum_unrolled::<V, VECTORS, COLS, 3>(
                                    &mut acc, from, steps, strides, rows, lines, ask_step,
                                )
                            }
                            Columns::InPlace | Columns::Packing(_) => {
                                sum_unrolled::<V, VECTORS, COLS, 0>(
                                    &mut acc,
                                    from,
                                    steps,
                                    strides,
                                    rows,
                                    [],
                                    0,
                                )
                            }
                        }
                    }
                    _ => sum::<V, VECTORS, COLS>(&mut acc, from, steps, strides, rows),
                };
                if is_chain {
                    break;
                }
                if exact {
                    if tile.first > 0 {
                        add_tile(&mut acc, waiting.sums.chain.after(row), of_sums);
                    }
                    break;
                }
                let end = tile.first.wrapping_add(tile.k).wrapping_sub(left);
                let completed = left == 0 && !matches!(tile.finish, Finish::Carry);
                if end % CHAIN != 0 && !completed {
                    break;
                }
                // A chain has ended, and perhaps its superblock. What is before it waits here if it ended here, but
                // totals wait where those of other blocks of k do, if there are any.
                let begin = end.wrapping_sub(1) / superblock * superblock;
                let total = match waiting.sums.total.at.is_null() {
                    true => kept[1],
                    false => waiting.sums.total.after(row),
                };
                if end.wrapping_sub(begin) > CHAIN {
                    match stop == first_stop {
                        true => add_tile(&mut acc, waiting.sums.superblock.after(row), of_sums),
                        false => add_tile(&mut acc, kept[0], Rows::Padded),
                    }
                }
                let superblock_ends = end % superblock == 0 || completed;
                if superblock_ends && begin > 0 {
                    add_tile(&mut acc, total, of_sums);
                }
                if left == 0 {
                    break;
                }
                match superblock_ends {
                    true => store_tile(acc, total, of_sums),
                    false => store_tile(acc, kept[0], Rows::Padded),
                }
                acc = [[V::splat(V::Element::ZERO); VECTORS]; COLS];
                stop = left.saturating_sub(CHAIN);
            }
            match tile.finish {
                Finish::Carry => store_tile(acc, wanted.after(row), of_sums),
                Finish::Sum => store_tile(acc, waiting.sums.total.after(row), of_sums),
                Finish::Write { alpha } => {
                    let (alpha, mut to) = (V::splat(alpha), c);
                    for acc in acc {
                        store_column(acc.map(|acc| alpha.mul(acc)), to, of_sums);
                        to = to.wrapping_add(tile.ldc);
                    }
                }
                Finish::Update { alpha, beta } => {
                    let (alpha, beta, mut to) = (V::splat(alpha), V::splat(beta), c);
                    for mut acc in acc {
                        let old: [V; VECTORS] = load_rows(to, of_sums);
                        for (acc, old) in acc.iter_mut().zip(old) {
                            *acc = alpha.mul_add(*acc, beta.mul(old));
                        }
                        store_column(acc, to, of_sums);
                        to = to.wrapping_add(tile.ldc);
                    }
                }
            }
            if tiles == 0 {
                break;
            }
            if packing > 0 {
                a = tile_a.wrapping_add(tile_rows);
                tile_a = a;
            }
            row = row.wrapping_add(tile_rows);
            c = c.wrapping_add(tile_rows);
            hint = hint.wrapping_add(tile.hint.next_tile);
            tiles_that_ask = tiles_that_ask.saturating_sub(1);
        }
    }
}

/// Where the sums of the first tile wait, and where they go or what they are added to.
struct Waiting<T> {
    sums: Partials<T>,
    wanted: Place<T>,
}

impl<T> Waiting<T> {
    const NONE: Self = Self { sums: Partials::NONE, wanted: Place::NONE };
}

impl<T: Accumulator> Waiting<T> {
    /// By itself, so that a tile whose sums are one chain, which may be small, pays nothing for it.
    #[cold]
    #[inline(never)]
    fn of(tile: &Tile<'_, T>) -> Self {
        let sums = tile.sums.of(tile.row, tile.col);
        let end = tile.first.wrapping_add(tile.k);
        let carries = matches!(tile.finish, Finish::Carry);
        let wanted = match carries {
            _ if is_exact::<T>() && (carries || tile.first > 0) => sums.chain,
            true if !end.is_multiple_of(CHAIN) => sums.chain,
            true if !end.is_multiple_of(superblock::<T>()) => sums.superblock,
            _ if sums.total.at.is_null() => Place { at: tile.c, ld: tile.ldc },
            _ => sums.total,
        };
        Self { sums, wanted }
    }
}

/// Room for sums of superblocks and totals of a tile, and to let each begin with a cache line.
///
/// It is packed, so that the stack need not be aligned for it: that would take a register, of which tiles have none to
/// spare.
#[repr(C, packed)]
struct Kept<V, const VECTORS: usize, const COLS: usize> {
    sums: [[[V; VECTORS]; COLS]; 2],
    room: [u8; cache_line::LINE],
}

impl<V: Vector, const VECTORS: usize, const COLS: usize> Kept<V, VECTORS, COLS> {
    /// Where both are.
    #[inline(always)]
    fn places(room: &mut MaybeUninit<Self>) -> [Place<V::Element>; 2] {
        let start = room.as_mut_ptr().cast::<u8>();
        let beyond = start.addr() % cache_line::LINE;
        let first = start.wrapping_add(cache_line::LINE.wrapping_sub(beyond)).cast::<V::Element>();
        let ld = VECTORS.wrapping_mul(V::LANES);
        [first, first.wrapping_add(ld.wrapping_mul(COLS))].map(|at| Place { at, ld })
    }
}

/// From one element to another: the next step of A and what is asked for of it, the next step and the next
/// column of B.
#[derive(Clone, Copy)]
struct Strides {
    a: usize,
    ahead: usize,
    b: usize,
    b_col: usize,
    /// The next column of the panel that A is packed in; zero where it is not.
    packing: usize,
}

/// What a step begins with: a column of A, elements of B, a column of the panel that A is packed in.
type At<T> = (*const T, *const T, *mut T);

/// How many rows of A there are.
#[derive(Clone, Copy)]
enum Rows<M> {
    /// Whole registers.
    Padded,
    /// Those of the mask in the last register.
    Masked(M),
}

impl<M> Rows<M> {
    /// The mask of a register that is the last or not, where it has one.
    #[inline(always)]
    fn of(self, is_last: bool) -> Option<M> {
        match self {
            Self::Masked(mask) if is_last => Some(mask),
            Self::Padded | Self::Masked(_) => None,
        }
    }
}

/// [`sum`], unrolled by [`STEPS_PER_LINE`] steps, with which lines are prefetched.
///
/// # Safety
/// As [`compute`].
#[inline(always)]
unsafe fn sum_unrolled<V: Vector, const VECTORS: usize, const COLS: usize, const ASKS: usize>(
    acc: &mut [[V; VECTORS]; COLS],
    mut from: At<V::Element>,
    steps: usize,
    strides: Strides,
    rows: Rows<V::Mask>,
    mut lines: [*const V::Element; ASKS],
    line_step: usize,
) -> At<V::Element> {
    let whole = steps / STEPS_PER_LINE;
    let rest = steps.wrapping_sub(whole.wrapping_mul(STEPS_PER_LINE));
    for _ in 0..whole {
        for line in &mut lines {
            prefetch(*line);
            *line = line.wrapping_add(line_step);
        }
        // SAFETY: that many k elements are left.
        from = unsafe { sum::<V, VECTORS, COLS>(acc, from, STEPS_PER_LINE, strides, rows) };
    }
    // SAFETY: the steps that are left.
    unsafe { sum::<V, VECTORS, COLS>(acc, from, rest, strides, rows) }
}

/// Adds k elements to the sums, from these places in A and B on; gives where the next one begins.
///
/// # Safety
/// As [`compute`].
#[inline(always)]
unsafe fn sum<V: Vector, const VECTORS: usize, const COLS: usize>(
    acc: &mut [[V; VECTORS]; COLS],
    (mut a, mut b, mut panel): At<V::Element>,
    steps: usize,
    strides: Strides,
    rows: Rows<V::Mask>,
) -> At<V::Element> {
    for _ in 0..steps {
        // Where A is packed it is always asked for, so that there is one loop and not two.
        if strides.packing != 0 || strides.ahead != 0 {
            let ahead = a.wrapping_add(strides.ahead);
            for vector in 0..VECTORS {
                prefetch(ahead.wrapping_add(vector.wrapping_mul(V::LANES)));
            }
        }
        // SAFETY: the tile's rows of this step's column of A can be read.
        let column: [V; VECTORS] = unsafe { load_rows(a, rows) };
        if strides.packing != 0 {
            let mut to = panel;
            for register in column {
                // SAFETY: the panel's column is as high as whole tiles, and nobody else uses it.
                unsafe { register.store(to) };
                to = to.wrapping_add(V::LANES);
            }
            panel = panel.wrapping_add(strides.packing);
        }
        let mut element = b;
        for acc in acc.iter_mut() {
            // SAFETY: this step's element of one of the tile's columns of B.
            let value = unsafe { *element };
            // SAFETY: the CPU has the instruction set of `V`.
            let factor = unsafe { V::splat(value) };
            for (acc, column) in acc.iter_mut().zip(column) {
                // SAFETY: the CPU has the instruction set of `V`.
                *acc = unsafe { column.step(factor, *acc) };
            }
            element = element.wrapping_add(strides.b_col);
        }
        a = a.wrapping_add(strides.a);
        b = b.wrapping_add(strides.b);
    }
    (a, b, panel)
}

/// A register, masked where there is a mask.
///
/// # Safety
/// As [`compute`].
#[inline(always)]
unsafe fn load_register<V: Vector>(from: *const V::Element, mask: Option<V::Mask>) -> V {
    match mask {
        // SAFETY: the register's elements can be read, all of them.
        None => unsafe { V::load(from) },
        // SAFETY: those of the mask can be read, and no others are.
        Some(mask) => unsafe { V::load_masked(from, mask) },
    }
}

/// A column of A.
///
/// # Safety
/// As [`compute`].
#[inline(always)]
unsafe fn load_rows<V: Vector, const VECTORS: usize>(
    mut from: *const V::Element,
    rows: Rows<V::Mask>,
) -> [V; VECTORS] {
    // SAFETY: the CPU has the instruction set of `V`.
    let mut column = [unsafe { V::splat(V::Element::ZERO) }; VECTORS];
    for (vector, register) in column.iter_mut().enumerate() {
        // SAFETY: the column's rows can be read, and the mask keeps the last register to them.
        *register = unsafe { load_register::<V>(from, rows.of(vector + 1 == VECTORS)) };
        from = from.wrapping_add(V::LANES);
    }
    column
}

/// A tile's sums.
///
/// # Safety
/// As [`compute`].
#[inline(always)]
unsafe fn load_tile<V: Vector, const VECTORS: usize, const COLS: usize>(
    from: Place<V::Element>,
    rows: Rows<V::Mask>,
) -> [[V; VECTORS]; COLS] {
    // SAFETY: the CPU has the instruction set of `V`.
    let mut tile = [[unsafe { V::splat(V::Element::ZERO) }; VECTORS]; COLS];
    let mut column = from.at.cast_const();
    for sums in &mut tile {
        // SAFETY: the tile's rows of one of its columns can be read.
        *sums = unsafe { load_rows(column, rows) };
        column = column.wrapping_add(from.ld);
    }
    tile
}

/// Adds to a tile's sums those that waited for them.
///
/// # Safety
/// As [`compute`].
#[inline(always)]
unsafe fn add_tile<V: Vector, const VECTORS: usize, const COLS: usize>(
    acc: &mut [[V; VECTORS]; COLS],
    from: Place<V::Element>,
    rows: Rows<V::Mask>,
) {
    let mut column = from.at.cast_const();
    for acc in acc {
        // SAFETY: the tile's rows of one of its columns can be read.
        let sums: [V; VECTORS] = unsafe { load_rows(column, rows) };
        for (acc, sum) in acc.iter_mut().zip(sums) {
            // SAFETY: the CPU has the instruction set of `V`.
            *acc = unsafe { acc.add(sum) };
        }
        column = column.wrapping_add(from.ld);
    }
}

/// Stores a tile's sums.
///
/// # Safety
/// As [`compute`].
#[inline(always)]
unsafe fn store_tile<V: Vector, const VECTORS: usize, const COLS: usize>(
    acc: [[V; VECTORS]; COLS],
    to: Place<V::Element>,
    rows: Rows<V::Mask>,
) {
    let mut column = to.at;
    for acc in acc {
        // SAFETY: the tile's rows of one of its columns can be written.
        unsafe { store_column(acc, column, rows) };
        column = column.wrapping_add(to.ld);
    }
}

/// Stores a column.
///
/// # Safety
/// As [`compute`].
#[inline(always)]
unsafe fn store_column<V: Vector, const VECTORS: usize>(
    column: [V; VECTORS],
    mut to: *mut V::Element,
    rows: Rows<V::Mask>,
) {
    for (vector, register) in column.into_iter().enumerate() {
        match rows.of(vector + 1 == VECTORS) {
            // SAFETY: the register's rows can be written, all of them.
            None => unsafe { register.store(to) },
            // SAFETY: the column's last rows can be written, and the mask keeps to them.
            Some(mask) => unsafe { register.store_masked(to, mask) },
        }
        to = to.wrapping_add(V::LANES);
    }
}
