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
//! The sums are carried from one block of k to the next, never added up at the end: each element of
//! C stays one chain of fused multiply-adds from k = 0 on, whatever the blocks are.

use gemm_spec::{Accumulator, Element};

use crate::cache_line;
use crate::prefetch::prefetch;
use crate::vector::Vector;

/// What a tile is computed from and where it goes; or several, one under the other: the panels of A lie one
/// after the other, B is that of all.
///
/// Several are one call, since little is left to do between them: the processor is not yet done with the
/// sums of one when it begins with those of the next.
pub(crate) struct Tile<T> {
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
    /// Where sums are carried from one block of k to the next, column j at `sums + j * sums_ld`.
    pub(crate) sums: *mut T,
    /// See `sums`.
    pub(crate) sums_ld: usize,
    /// The `sums` of the tile that comes after the last: only a hint.
    pub(crate) next: *const T,
    /// Where the result goes, column j at `c + j * ldc`.
    pub(crate) c: *mut T,
    /// See `c`.
    pub(crate) ldc: usize,
    /// Rows of the last register, 1 to its lanes; the other registers are whole.
    pub(crate) last_rows: usize,
    /// Whether the sums begin with what `sums` holds, else with zero.
    pub(crate) resume: bool,
    /// What becomes of the sums.
    pub(crate) finish: Finish<T>,
    /// The next columns of B, to ask for meanwhile.
    pub(crate) hint: Prefetch<T>,
    /// What the next block of A will be packed from, to ask for meanwhile.
    pub(crate) source: Source<T>,
}

/// Memory that the next tiles will read: `pieces` pieces, each as long as k.
#[derive(Clone, Copy)]
pub(crate) struct Prefetch<T> {
    /// The first piece.
    pub(crate) from: *const T,
    /// From one piece to the next.
    pub(crate) apart: usize,
    /// How many pieces, and how many of them a tile asks for.
    pub(crate) pieces: usize,
    /// See `pieces`.
    pub(crate) per_tile: usize,
}

/// Columns of A in place, their rows side by side.
#[derive(Clone, Copy)]
pub(crate) struct Source<T> {
    /// The first of the rows that the first tile asks for; it asks for as many as it has itself.
    pub(crate) from: *const T,
    /// From one column to the next.
    pub(crate) apart: usize,
    /// How many columns a tile asks for with each cache line's k elements.
    pub(crate) per_line: usize,
}

/// What becomes of a tile's sums.
#[derive(Clone, Copy)]
pub(crate) enum Finish<T> {
    /// They go to `sums`, for the next block of k.
    Carry,
    /// `c = alpha * sum`; C is not read.
    Write { alpha: T },
    /// `c = alpha * sum + beta * c`.
    Update { alpha: T, beta: T },
}

impl<T> Prefetch<T> {
    /// Nothing.
    pub(crate) const NONE: Self = Self { from: std::ptr::null(), apart: 0, pieces: 0, per_tile: 0 };

    /// What is left to ask for after that many tiles.
    pub(crate) fn after(self, tiles: usize) -> Self {
        let asked = self.pieces.min(tiles * self.per_tile);
        let from = self.from.wrapping_add(asked.wrapping_mul(self.apart));
        Self { from, pieces: self.pieces - asked, ..self }
    }
}

impl<T> Source<T> {
    /// Nothing.
    pub(crate) const NONE: Self = Self { from: std::ptr::null(), apart: 0, per_line: 0 };
}

impl<T: Accumulator> Finish<T> {
    /// What [`gemm_spec::epilogue`] does with these factors.
    pub(crate) fn last(alpha: T, beta: T) -> Self {
        if beta == T::ZERO { Self::Write { alpha } } else { Self::Update { alpha, beta } }
    }
}

/// Steps that are written out one after the other where it is known how far elements of B lie apart.
const UNROLLED: usize = 4;

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
/// element, A and B can be read; C can be written, and read where `finish` updates it; `sums` can be read
/// where `resume` says so and written where `finish` carries; `panel` can be written where A is packed.
/// No other thread uses those parts of C, `sums` and `panel` meanwhile.
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "operations on registers, which need the instruction set alone, and accesses of one argument"
)]
pub(crate) unsafe fn compute<V: Vector, const VECTORS: usize, const COLS: usize>(
    tile: &Tile<V::Element>,
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
        let (rows, a_step, ahead, packing) = match columns {
            Columns::Packed(height) => (Rows::Padded, height, 0, 0),
            Columns::InPlace => (Rows::Masked(mask), tile.a_step, tile.ahead, 0),
            Columns::Packing(height) => (Rows::Masked(mask), tile.a_step, tile.ahead, height),
        };
        let strides = Strides { a: a_step, ahead, b: tile.b_step, b_col: tile.b_col, packing };
        let tile_rows = VECTORS.wrapping_mul(V::LANES);
        let line = cache_line::elements::<V::Element>();
        let (mut a, mut sums, mut c, mut tiles) = (tile.a, tile.sums, tile.c, tile.tiles);
        let (mut panel, mut tile_a) = (tile.panel, tile.a);
        let (mut hint, mut pieces_left, mut source) =
            (tile.hint.from, tile.hint.pieces, tile.source.from);
        loop {
            tiles = tiles.wrapping_sub(1);
            let mut acc = [[V::splat(V::Element::ZERO); VECTORS]; COLS];
            if tile.resume {
                let mut from = sums.cast_const();
                for acc in &mut acc {
                    *acc = load_column(from, mask);
                    from = from.wrapping_add(tile.sums_ld);
                }
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
            // What comes next is asked for while this is summed, a cache line's steps at a time: asked
            // for at once, it would occupy the paths on which this tile's own operands come.
            let pieces = pieces_left.min(tile.hint.per_tile);
            let (mut piece, mut source_column) = (hint, source);
            let mut next = if tiles == 0 { tile.next } else { sums.wrapping_add(tile_rows) };
            let (mut b, mut left, mut columns_to_ask) = (tile.b, tile.k, COLS);
            while left > 0 {
                let steps = left.min(line);
                let mut ask = piece;
                for _ in 0..pieces {
                    prefetch(ask);
                    ask = ask.wrapping_add(tile.hint.apart);
                }
                piece = piece.wrapping_add(line);
                for _ in 0..tile.source.per_line {
                    for vector in 0..VECTORS {
                        prefetch(source_column.wrapping_add(vector.wrapping_mul(V::LANES)));
                    }
                    source_column = source_column.wrapping_add(tile.source.apart);
                }
                // The next tile's sums shortly before they are needed, a column with each line's steps,
                // so that they are near and have not yet been pushed out by the panels. Rows that do not
                // begin with a line end in one more.
                if left <= COLS.wrapping_mul(line) && columns_to_ask > 0 {
                    columns_to_ask = columns_to_ask.wrapping_sub(1);
                    for vector in 0..VECTORS {
                        prefetch(next.wrapping_add(vector.wrapping_mul(V::LANES)));
                    }
                    prefetch(next.wrapping_add(tile_rows).wrapping_sub(1));
                    next = next.wrapping_add(tile.sums_ld);
                }
                left = left.wrapping_sub(steps);
                // Where it is known beforehand how far the next element lies, each is named in its own
                // instruction, without sums of addresses. Not where A is asked for ahead as well: the
                // compiler then loads elements of several steps at once, for which there are no registers.
                let at = (a, b, panel);
                (a, b, panel) = match (tile.b_step, tile.b_col) {
                    (step, 1) if panel_cols > 0 && step == panel_cols => {
                        let strides = Strides { b: panel_cols, b_col: 1, ..strides };
                        sum_unrolled::<V, VECTORS, COLS>(&mut acc, at, steps, strides, rows)
                    }
                    (1, _) if packing == 0 && strides.ahead == 0 => {
                        let strides = Strides { ahead: 0, b: 1, ..strides };
                        sum_unrolled::<V, VECTORS, COLS>(&mut acc, at, steps, strides, rows)
                    }
                    _ => sum::<V, VECTORS, COLS>(&mut acc, at, steps, strides, rows),
                };
            }
            match tile.finish {
                Finish::Carry => {
                    let mut to = sums;
                    for acc in acc {
                        store_column(acc, to, mask);
                        to = to.wrapping_add(tile.sums_ld);
                    }
                }
                Finish::Write { alpha } => {
                    let (alpha, mut to) = (V::splat(alpha), c);
                    for acc in acc {
                        store_column(acc.map(|acc| alpha.mul(acc)), to, mask);
                        to = to.wrapping_add(tile.ldc);
                    }
                }
                Finish::Update { alpha, beta } => {
                    let (alpha, beta, mut to) = (V::splat(alpha), V::splat(beta), c);
                    for mut acc in acc {
                        let old: [V; VECTORS] = load_column(to, mask);
                        for (acc, old) in acc.iter_mut().zip(old) {
                            *acc = alpha.mul_add(*acc, beta.mul(old));
                        }
                        store_column(acc, to, mask);
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
            sums = sums.wrapping_add(tile_rows);
            c = c.wrapping_add(tile_rows);
            hint = hint.wrapping_add(pieces.wrapping_mul(tile.hint.apart));
            pieces_left = pieces_left.wrapping_sub(pieces);
            source = source.wrapping_add(tile_rows);
        }
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

/// [`sum`], some steps written out one after the other.
///
/// # Safety
/// As [`compute`].
#[inline(always)]
unsafe fn sum_unrolled<V: Vector, const VECTORS: usize, const COLS: usize>(
    acc: &mut [[V; VECTORS]; COLS],
    mut from: At<V::Element>,
    steps: usize,
    strides: Strides,
    rows: Rows<V::Mask>,
) -> At<V::Element> {
    let whole = steps / UNROLLED;
    let rest = steps.wrapping_sub(whole.wrapping_mul(UNROLLED));
    for _ in 0..whole {
        // SAFETY: that many k elements are left.
        from = unsafe { sum::<V, VECTORS, COLS>(acc, from, UNROLLED, strides, rows) };
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

/// A column whose last register is masked.
///
/// # Safety
/// As [`compute`].
#[inline(always)]
unsafe fn load_column<V: Vector, const VECTORS: usize>(
    from: *const V::Element,
    mask: V::Mask,
) -> [V; VECTORS] {
    // SAFETY: the caller's promises.
    unsafe { load_rows(from, Rows::Masked(mask)) }
}

/// Stores a column whose last register is masked.
///
/// # Safety
/// As [`compute`].
#[inline(always)]
unsafe fn store_column<V: Vector, const VECTORS: usize>(
    column: [V; VECTORS],
    mut to: *mut V::Element,
    mask: V::Mask,
) {
    for (vector, register) in column.into_iter().enumerate() {
        let last = vector + 1 == VECTORS;
        if last {
            // SAFETY: the column's last rows can be written, and the mask keeps to them.
            unsafe { register.store_masked(to, mask) }
        } else {
            // SAFETY: the rows before the last register can be written, all of them.
            unsafe { register.store(to) }
        }
        to = to.wrapping_add(V::LANES);
    }
}
