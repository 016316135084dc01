//! The micro-kernel: a tile of C in registers, one step of k at a time.
//!
//! A tile is `VECTORS` registers by `COLS` columns of C. For each step of k a column of A is loaded
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

use gemm_spec::Element;

use super::kernels::prefetch;
use super::vector::Vector;

/// What a tile is computed from and where it goes.
pub(super) struct Tile<T> {
    /// Steps of k, as they are packed.
    pub(super) k: usize,
    /// Column p of A is at `a + p * a_step`, its rows contiguous.
    pub(super) a: *const T,
    /// See `a`. A packed tile does not look at it: the step is the panel's height.
    pub(super) a_step: usize,
    /// From what is used of A to what is asked for ahead, where A lies as it is: only a hint,
    /// and none where it is zero.
    pub(super) ahead: usize,
    /// Element (p, j) of B is at `b + p * b_step + j * b_col`.
    pub(super) b: *const T,
    /// See `b`.
    pub(super) b_step: usize,
    /// See `b`.
    pub(super) b_col: usize,
    /// Where sums are carried from one block of k to the next, column j at `sums + j * sums_ld`.
    pub(super) sums: *mut T,
    /// See `sums`.
    pub(super) sums_ld: usize,
    /// The `sums` of the tile that comes next: only a hint.
    pub(super) next: *const T,
    /// Where the result goes, column j at `c + j * ldc`.
    pub(super) c: *mut T,
    /// See `c`.
    pub(super) ldc: usize,
    /// Rows of the last register, 1 to its lanes; the other registers are whole.
    pub(super) last_rows: usize,
    /// Whether the sums begin with what `sums` holds, else with zero.
    pub(super) resume: bool,
    /// What becomes of the sums.
    pub(super) finish: Finish<T>,
    /// What to ask for meanwhile.
    pub(super) hint: Hint<T>,
}

/// Memory that the next tiles will read: `pieces` pieces, each as long as the steps of k.
pub(super) struct Hint<T> {
    /// The first piece.
    pub(super) from: *const T,
    /// From one piece to the next.
    pub(super) apart: usize,
    /// How many pieces.
    pub(super) pieces: usize,
}

/// What becomes of a tile's sums.
#[derive(Clone, Copy)]
pub(super) enum Finish<T> {
    /// They go to `sums`, for the next block of k.
    Carry,
    /// `c = alpha * sum`; C is not read.
    Write { alpha: T },
    /// `c = alpha * sum + beta * c`.
    Update { alpha: T, beta: T },
}

impl<T> Hint<T> {
    /// Nothing.
    pub(super) const NONE: Self = Self { from: std::ptr::null(), apart: 0, pieces: 0 };
}

impl<T: Element<Acc = T>> Finish<T> {
    /// What [`gemm_spec::epilogue`] does with these factors.
    pub(super) fn last(alpha: T, beta: T) -> Self {
        if beta == T::Acc::ZERO { Self::Write { alpha } } else { Self::Update { alpha, beta } }
    }
}

/// Steps by which A is asked for ahead: its panels come from the second-level cache, which the
/// processor's own prefetcher alone does not hide.
const STEPS_AHEAD: usize = 16;
/// Steps that are written out one after the other where it is known how far elements of B lie apart.
const UNROLLED: usize = 4;
/// Steps before a tile's end at which the next tile's sums are asked for.
const PREFETCH_STEPS: usize = 64;

/// Computes a tile. A is packed in panels of whole registers where `a_is_padded`; B may be a panel of
/// `panel_cols` columns, and never is where that is zero.
///
/// # Safety
/// The CPU has the instruction set of `V`. For each of the tile's rows and columns and each step of
/// k, A and B can be read; C can be written, and read where `finish` updates it; `sums` can be read
/// where `resume` says so and written where `finish` carries. No other thread uses those parts of C
/// and `sums` meanwhile.
#[inline(always)]
pub(super) unsafe fn compute<V: Vector, const VECTORS: usize, const COLS: usize>(
    tile: &Tile<V::Element>,
    a_step: usize,
    a_is_padded: bool,
    panel_cols: usize,
) {
    // Addresses are counted up by `wrapping_add`, and nothing here can panic: the sums must stay in
    // registers, and a way out of the loop would keep them in memory.
    //
    // SAFETY: the caller's promises, passed on; row i of register v is row `v * LANES + i`, and the
    // mask keeps the last register to its rows.
    unsafe {
        let mask = V::mask(tile.last_rows);
        let mut acc = [[V::splat(V::Element::ZERO); VECTORS]; COLS];
        if tile.resume {
            let mut from = tile.sums.cast_const();
            for acc in &mut acc {
                *acc = load_column(from, mask);
                from = from.wrapping_add(tile.sums_ld);
            }
        }
        if V::STARTS {
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
        let (mut a, mut b) = (tile.a, tile.b);
        // What comes next is asked for while this is summed, a cache line's steps at a time: asked for
        // at once, it would occupy the paths on which this tile's own operands come.
        let line = 64 / size_of::<V::Element>();
        let rows = if a_is_padded { Rows::Padded } else { Rows::Masked(mask) };
        let ahead = if a_is_padded { a_step.wrapping_mul(STEPS_AHEAD) } else { tile.ahead };
        let (mut left, mut piece, mut asked) = (tile.k, tile.hint.from, false);
        while left > 0 {
            let steps = left.min(line);
            let mut ask = piece;
            for _ in 0..tile.hint.pieces {
                prefetch(ask);
                ask = ask.wrapping_add(tile.hint.apart);
            }
            piece = piece.wrapping_add(line);
            // The next tile's sums shortly before they are needed, so that they are near and have not
            // yet been pushed out by the panels.
            if left <= PREFETCH_STEPS && !asked {
                asked = true;
                let mut next = tile.next;
                for _ in 0..COLS {
                    for vector in 0..VECTORS {
                        prefetch(next.wrapping_add(vector.wrapping_mul(V::LANES)));
                    }
                    next = next.wrapping_add(tile.sums_ld);
                }
            }
            left = left.wrapping_sub(steps);
            let strides = Strides { a: a_step, ahead, b: tile.b_step, b_col: tile.b_col };
            // Where it is known beforehand how far the next element lies, each is named in its own
            // instruction, without sums of addresses.
            (a, b) = match (tile.b_step, tile.b_col) {
                (step, 1) if panel_cols > 0 && step == panel_cols => {
                    let strides = Strides { b: panel_cols, b_col: 1, ..strides };
                    sum_unrolled::<V, VECTORS, COLS>(&mut acc, (a, b), steps, strides, rows)
                }
                (1, _) => {
                    let strides = Strides { b: 1, ..strides };
                    sum_unrolled::<V, VECTORS, COLS>(&mut acc, (a, b), steps, strides, rows)
                }
                _ => sum::<V, VECTORS, COLS>(&mut acc, (a, b), steps, strides, rows),
            };
        }
        match tile.finish {
            Finish::Carry => {
                let mut to = tile.sums;
                for acc in acc {
                    store_column(acc, to, mask);
                    to = to.wrapping_add(tile.sums_ld);
                }
            }
            Finish::Write { alpha } => {
                let (alpha, mut to) = (V::splat(alpha), tile.c);
                for acc in acc {
                    store_column(acc.map(|acc| alpha.mul(acc)), to, mask);
                    to = to.wrapping_add(tile.ldc);
                }
            }
            Finish::Update { alpha, beta } => {
                let (alpha, beta, mut to) = (V::splat(alpha), V::splat(beta), tile.c);
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
}

/// How many rows of A there are.
#[derive(Clone, Copy)]
enum Rows<M> {
    /// Whole registers.
    Padded,
    /// Those of the mask in the last register.
    Masked(M),
}

/// [`sum`], some steps written out one after the other.
///
/// # Safety
/// As [`compute`].
#[inline(always)]
unsafe fn sum_unrolled<V: Vector, const VECTORS: usize, const COLS: usize>(
    acc: &mut [[V; VECTORS]; COLS],
    mut from: (*const V::Element, *const V::Element),
    steps: usize,
    strides: Strides,
    rows: Rows<V::Mask>,
) -> (*const V::Element, *const V::Element) {
    let whole = steps / UNROLLED;
    let rest = steps.wrapping_sub(whole.wrapping_mul(UNROLLED));
    // SAFETY: the caller's promises.
    unsafe {
        for _ in 0..whole {
            from = sum::<V, VECTORS, COLS>(acc, from, UNROLLED, strides, rows);
        }
        sum::<V, VECTORS, COLS>(acc, from, rest, strides, rows)
    }
}

/// Adds so many steps of k to the sums, A and B from these on; gives where the next step begins.
///
/// # Safety
/// As [`compute`].
#[inline(always)]
unsafe fn sum<V: Vector, const VECTORS: usize, const COLS: usize>(
    acc: &mut [[V; VECTORS]; COLS],
    (mut a, mut b): (*const V::Element, *const V::Element),
    steps: usize,
    strides: Strides,
    rows: Rows<V::Mask>,
) -> (*const V::Element, *const V::Element) {
    // SAFETY: the caller's promises.
    unsafe {
        for _ in 0..steps {
            let column: [V; VECTORS] = match rows {
                Rows::Padded => load_padded(a),
                Rows::Masked(mask) => load_column(a, mask),
            };
            if strides.ahead != 0 {
                let ahead = a.wrapping_add(strides.ahead);
                for vector in 0..VECTORS {
                    prefetch(ahead.wrapping_add(vector.wrapping_mul(V::LANES)));
                }
            }
            let mut element = b;
            for acc in acc.iter_mut() {
                let factor = V::splat(*element);
                for (acc, column) in acc.iter_mut().zip(column) {
                    *acc = column.step(factor, *acc);
                }
                element = element.wrapping_add(strides.b_col);
            }
            a = a.wrapping_add(strides.a);
            b = b.wrapping_add(strides.b);
        }
    }
    (a, b)
}

/// A column of whole registers.
///
/// # Safety
/// As [`compute`].
#[inline(always)]
unsafe fn load_padded<V: Vector, const VECTORS: usize>(
    mut from: *const V::Element,
) -> [V; VECTORS] {
    // SAFETY: the caller's promises.
    unsafe {
        let mut column = [V::splat(V::Element::ZERO); VECTORS];
        for register in &mut column {
            *register = V::load(from);
            from = from.wrapping_add(V::LANES);
        }
        column
    }
}

/// A column whose last register is masked.
///
/// # Safety
/// As [`compute`].
#[inline(always)]
unsafe fn load_column<V: Vector, const VECTORS: usize>(
    mut from: *const V::Element,
    mask: V::Mask,
) -> [V; VECTORS] {
    // SAFETY: the caller's promises.
    unsafe {
        let mut column = [V::splat(V::Element::ZERO); VECTORS];
        for (vector, register) in column.iter_mut().enumerate() {
            let last = vector + 1 == VECTORS;
            *register = if last { V::load_masked(from, mask) } else { V::load(from) };
            from = from.wrapping_add(V::LANES);
        }
        column
    }
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
    // SAFETY: the caller's promises.
    unsafe {
        for (vector, register) in column.into_iter().enumerate() {
            let last = vector + 1 == VECTORS;
            if last {
                register.store_masked(to, mask)
            } else {
                register.store(to)
            }
            to = to.wrapping_add(V::LANES);
        }
    }
}
