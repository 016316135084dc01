//! Products whose operands are near: all tiles in one call, from the operands where they lie.
//!
//! What such a product costs beyond its multiply-adds is what is done for each call and for each tile. So a call gets
//! the few numbers that it needs, and a C of one tile goes to it at once. Sizes of tiles are constants, and what is more
//! than one tile but less than two is halved. Only rows of A that are apart are copied, since a tile needs a column of
//! them in a register: transposed, some rows at a time. Where sums are several [chains](crate::sum), or factors are not
//! real, tiles leave their sums aside.
//!
//! Complex numbers are multiplied as [`crate::complex`] says, in the same order, but from their places: a register of
//! an A whose parts alternate is one of the two columns that a step has there, and with its parts exchanged and the sign
//! of one of them changed it is the other.
//!
//! The sums are [those](crate::sum) of every other path.

use std::mem::MaybeUninit;

use gemm_spec::{Element as _, Order};
use num_complex::Complex;

use crate::context::CpuContext;
use crate::field::{Factor, Field};
use crate::kernels::InstructionSet;
use crate::pack::{Pack, copy_singly, turn_registers};
use crate::parts::Parts;
use crate::sum::{CHAIN, superblock};
use crate::thresholds::{PANEL_BYTES, WORK_PER_THREAD};
use crate::vector::{PartsVector, Vector};
use crate::view::ViewMut;

/// `C = alpha * A * B + beta * C` with the columns of C contiguous, none of the three sizes being zero.
///
/// The factors do not stand side by side: tiles would read both at once, and wait until each has been written, since no
/// processor forwards two stores to one load.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Near<T> {
    pub(crate) alpha: T,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    /// Element (i, p) of A is at `a + i * a_row + p * a_step`.
    pub(crate) a: *const T,
    pub(crate) a_row: usize,
    pub(crate) a_step: usize,
    /// Element (p, j) of B is at `b + p * b_step + j * b_col`. One of the strides is 1.
    pub(crate) b: *const T,
    pub(crate) b_step: usize,
    pub(crate) b_col: usize,
    /// Column j of C is at `c + j * ldc`.
    pub(crate) c: *mut T,
    pub(crate) ldc: usize,
    pub(crate) beta: T,
    /// Whether the elements of A and B stand for their conjugates.
    pub(crate) conjugated: (bool, bool),
}

impl<T> Near<T> {
    /// Whether rows of A are transposed: those that are not side by side, and conjugates, which tiles do not know.
    #[inline]
    pub(crate) fn is_transposed(&self) -> bool {
        self.a_row != 1 || self.conjugated.0
    }

    /// Whether it is computed so, for the caller's thread alone.
    #[inline]
    pub(crate) fn pays(&self, is_complex: bool) -> bool {
        let &Self { m, n, k, .. } = self;
        let work = m.saturating_mul(n).saturating_mul(k);
        // Many rows of real numbers times a column have ways of their own.
        let suits = n > 1 || m <= FEW_ROWS || is_complex;
        let fits = !self.is_transposed() || k <= CHAIN;
        suits && fits && work < 2 * WORK_PER_THREAD
    }
}

/// A product of near operands that is computed again and again, of other operands that lie alike.
#[derive(Clone, Copy)]
pub struct NearShape<T> {
    near: Near<T>,
    /// Transposes rows of A if they must be, and is for an instruction set that this CPU has.
    call: NearFn<T>,
    /// Whether the product is that of the transposed matrices, whose A is B.
    swapped: bool,
}

// SAFETY: it names operands; who has it computed says that they may be used.
unsafe impl<T: Send> Send for NearShape<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for NearShape<T> {}

impl<T: Field> NearShape<T> {
    /// The product of these views, if it is computed so: not where sizes do not fit together or one is zero, where
    /// alpha is zero, or where it is computed by tiles, which have sums of their own.
    #[inline(always)]
    pub fn of(
        alpha: T,
        a: Factor<'_, T>,
        b: Factor<'_, T>,
        beta: T,
        c: &mut ViewMut<'_, T>,
        context: &CpuContext,
    ) -> Option<Self> {
        let (rows, cols, k) = (c.rows(), c.cols(), a.view.cols());
        let fit = a.view.rows() == rows && b.view.rows() == k && b.view.cols() == cols;
        let is_empty = rows == 0 || cols == 0 || k == 0;
        if !fit || is_empty || alpha == T::ZERO {
            return None;
        }
        let ((a_row, a_step), (b_step, b_col)) = (a.view.strides(), b.view.strides());
        let ldc = c.layout().ld;
        let conjugates = |factor: &Factor<'_, T>| factor.conjugated && T::IS_COMPLEX;
        let (a_conjugated, b_conjugated) = (conjugates(&a), conjugates(&b));
        let (of_c, swapped) = (c.as_mut_ptr(), c.layout().order == Order::RowMajor);
        let near = match swapped {
            false => Near {
                m: rows,
                n: cols,
                k,
                a: a.view.as_ptr(),
                // From one row to the next of one row is as good as anything.
                a_row: if rows == 1 { 1 } else { a_row },
                a_step,
                b: b.view.as_ptr(),
                b_step,
                b_col,
                c: of_c,
                ldc,
                alpha,
                beta,
                conjugated: (a_conjugated, b_conjugated),
            },
            true => Near {
                m: cols,
                n: rows,
                k,
                a: b.view.as_ptr(),
                a_row: if cols == 1 { 1 } else { b_col },
                a_step: b_step,
                b: a.view.as_ptr(),
                b_step: a_step,
                b_col: a_row,
                c: of_c,
                ldc,
                alpha,
                beta,
                conjugated: (b_conjugated, a_conjugated),
            },
        };
        let call = T::near(context.isa(), near.is_transposed());
        // Matrix units have sums of their own.
        let pays = near.pays(T::IS_COMPLEX) && !T::is_in_tiles((near.m, near.n, k), context);
        pays.then_some(Self { near, call, swapped })
    }
}

impl<T: Copy> NearShape<T> {
    /// That of a product whose A and B were exchanged or not; `call` is for its rows and for an instruction set that
    /// this CPU has.
    #[inline(always)]
    pub(crate) fn new(near: Near<T>, call: NearFn<T>, swapped: bool) -> Self {
        Self { near, call, swapped }
    }

    /// Computes it.
    ///
    /// # Safety
    /// The operands that it was made of are there, and nobody else uses C.
    #[inline(always)]
    pub(crate) unsafe fn multiply(&self) {
        // SAFETY: the caller's promise: the operands hold the elements of the product, which fit together; the function
        // is for them.
        unsafe { (self.call)(&self.near) }
    }

    /// Computes it of operands that begin elsewhere.
    ///
    /// # Safety
    /// They could be the operands that it was made of, and are used by nobody else as long as those would be.
    #[inline(always)]
    pub unsafe fn multiply_at(&self, a: *const T, b: *const T, c: *mut T) {
        let (a, b) = if self.swapped { (b, a) } else { (a, b) };
        let near = Near { a, b, c, ..self.near };
        // SAFETY: the caller's promise, as above.
        unsafe { (self.call)(&near) }
    }
}

/// Rows that are as soon multiplied by a column in tiles as by what is made for it.
const FEW_ROWS: usize = 64;

/// Computes a product; see [`multiply`] for what it demands.
pub(crate) type NearFn<T> = unsafe fn(&Near<T>);
/// Computes a tile of one; see [`tile`].
type TileFn<T, Real> = unsafe fn(&Near<T>, *const Real, usize, *const Real, *mut Real, usize);

/// How a k element adds to the sums of a tile, and how these become C.
///
/// # Safety
/// All methods: the CPU has the instruction set of `V`, and what they read and write is as [`multiply`] demands.
pub(crate) trait Numbers<V: Vector>: Copy {
    /// What is multiplied.
    type Element: Copy + 'static;
    /// Real numbers of an element.
    const PARTS: usize;
    /// Registers along a column of a tile at most.
    const VECTORS: usize;

    /// What all k elements need, in registers.
    type Ready: Copy;

    /// Those of a product.
    fn of(near: &Near<Self::Element>) -> Self;

    /// See [`Self::Ready`].
    unsafe fn ready(self) -> Self::Ready;

    /// Adds the products of a column of A and elements of B, which are `b_col` apart.
    unsafe fn add<const VECTORS: usize, const COLS: usize>(
        acc: &mut [[V; VECTORS]; COLS],
        column: [V; VECTORS],
        b: *const V::Element,
        b_col: usize,
        ready: Self::Ready,
    );

    /// Whether alpha and beta are real, so that tiles know them.
    fn are_real(self) -> bool;

    /// Their real parts.
    fn factors(self) -> (V::Element, V::Element);

    /// The product whose C the sums are.
    fn sums(near: &Near<Self::Element>) -> Near<Self::Element>;

    /// Stores a register of sums to C, where what is masked out is neither read nor written.
    unsafe fn store(self, sum: V, to: *mut V::Element, mask: V::Mask);

    /// Copies rows of A and their steps, transposed: `width` real numbers for each step.
    unsafe fn transpose(self, rows: &Pack<V::Element, V::Element>, width: usize);
}

/// A register of C.
///
/// # Safety
/// The CPU has the instruction set of `V`; those of the mask can be read.
#[inline(always)]
unsafe fn load<V: Vector>(from: *const V::Element, mask: Option<V::Mask>) -> V {
    match mask {
        // SAFETY: the caller's promises.
        None => unsafe { V::load(from) },
        // SAFETY: the caller's promises.
        Some(mask) => unsafe { V::load_masked(from, mask) },
    }
}

/// The same, written.
///
/// # Safety
/// The CPU has the instruction set of `V`; those of the mask can be written.
#[inline(always)]
unsafe fn store<V: Vector>(register: V, to: *mut V::Element, mask: Option<V::Mask>) {
    match mask {
        // SAFETY: the caller's promises.
        None => unsafe { register.store(to) },
        // SAFETY: the caller's promises.
        Some(mask) => unsafe { register.store_masked(to, mask) },
    }
}

/// Numbers that are sums themselves.
#[derive(Clone, Copy)]
pub(crate) struct Plain<T> {
    alpha: T,
    beta: T,
}

impl<V: Vector> Numbers<V> for Plain<V::Element> {
    type Element = V::Element;
    const PARTS: usize = 1;
    const VECTORS: usize = usize::MAX;
    type Ready = ();

    #[inline(always)]
    fn of(near: &Near<V::Element>) -> Self {
        Self { alpha: near.alpha, beta: near.beta }
    }

    #[inline(always)]
    fn are_real(self) -> bool {
        true
    }

    #[inline(always)]
    fn factors(self) -> (V::Element, V::Element) {
        (self.alpha, self.beta)
    }

    fn sums(near: &Near<V::Element>) -> Near<V::Element> {
        Near { alpha: V::Element::ONE, beta: V::Element::ZERO, ..*near }
    }

    #[inline(always)]
    unsafe fn ready(self) {}

    #[inline(always)]
    unsafe fn add<const VECTORS: usize, const COLS: usize>(
        acc: &mut [[V; VECTORS]; COLS],
        column: [V; VECTORS],
        b: *const V::Element,
        b_col: usize,
        (): (),
    ) {
        for (j, acc) in acc.iter_mut().enumerate() {
            // SAFETY: an element of B.
            let element = unsafe { b.wrapping_add(j.wrapping_mul(b_col)).read() };
            // SAFETY: the CPU has the instruction set of `V`.
            let factor = unsafe { V::splat(element) };
            for (acc, column) in acc.iter_mut().zip(column) {
                // SAFETY: as above.
                *acc = unsafe { column.mul_add(factor, *acc) };
            }
        }
    }

    #[inline(always)]
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "operations on registers, and a register of C"
    )]
    unsafe fn store(self, sum: V, to: *mut V::Element, mask: V::Mask) {
        let Self { alpha, beta } = self;
        // SAFETY: the caller's promises; C is read where beta is not zero.
        unsafe {
            let value = if beta == V::Element::ZERO {
                V::splat(alpha).mul(sum)
            } else {
                V::splat(alpha).mul_add(sum, V::splat(beta).mul(V::load_masked(to, mask)))
            };
            value.store_masked(to, mask);
        }
    }

    #[inline(always)]
    unsafe fn transpose(self, rows: &Pack<V::Element, V::Element>, width: usize) {
        let &Pack { from, along, step, lines, k, to } = rows;
        if step == 1 {
            // SAFETY: the caller's promises.
            unsafe { turn_registers::<V>(from, along, lines, k, to, width) }
        } else {
            // SAFETY: the caller's promises.
            unsafe { copy_singly(from, (along, step), (0, lines), (0, k), to, width) }
        }
    }
}

/// Complex numbers, the parts of each side by side.
#[derive(Clone, Copy)]
pub(crate) struct InParts<T> {
    alpha: [T; 2],
    beta: [T; 2],
    conjugated: (bool, bool),
}

/// A register of complex numbers times the imaginary unit.
///
/// # Safety
/// The CPU has the instruction set of `V`.
#[inline(always)]
#[expect(clippy::multiple_unsafe_ops_per_block, reason = "operations on registers")]
unsafe fn times_unit<V: PartsVector<Element: Parts>>(register: V) -> V {
    let zero = V::Element::ZERO;
    // SAFETY: the caller's promise.
    unsafe { register.exchange_parts().change_signs(V::of_parts(-zero, zero)) }
}

impl<V: PartsVector<Element: Parts>> Numbers<V> for InParts<V::Element> {
    type Element = Complex<V::Element>;
    const PARTS: usize = 2;
    // With three there would be no register left for a column times the imaginary unit.
    const VECTORS: usize = 2;
    /// Zeros, negative where an element whose parts are exchanged changes its sign.
    type Ready = V;

    #[inline(always)]
    fn of(near: &Near<Complex<V::Element>>) -> Self {
        let &Near { alpha, beta, conjugated, .. } = near;
        Self { alpha: [alpha.re, alpha.im], beta: [beta.re, beta.im], conjugated }
    }

    #[inline(always)]
    fn are_real(self) -> bool {
        self.alpha[1] == V::Element::ZERO && self.beta[1] == V::Element::ZERO
    }

    #[inline(always)]
    fn factors(self) -> (V::Element, V::Element) {
        (self.alpha[0], self.beta[0])
    }

    fn sums(near: &Near<Complex<V::Element>>) -> Near<Complex<V::Element>> {
        let (zero, one) = (V::Element::ZERO, V::Element::ONE);
        Near { alpha: Complex { re: one, im: zero }, beta: Complex { re: zero, im: zero }, ..*near }
    }

    #[inline(always)]
    unsafe fn ready(self) -> V {
        // The product of two imaginary parts is subtracted. Of a conjugated B both products with its imaginary parts
        // change their signs.
        let zero = V::Element::ZERO;
        let (re, im) = if self.conjugated.1 { (zero, -zero) } else { (-zero, zero) };
        // SAFETY: the caller's promise.
        unsafe { V::of_parts(re, im) }
    }

    #[inline(always)]
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "operations on registers, and the parts of elements of B"
    )]
    unsafe fn add<const VECTORS: usize, const COLS: usize>(
        acc: &mut [[V; VECTORS]; COLS],
        column: [V; VECTORS],
        b: *const V::Element,
        b_col: usize,
        signs: V,
    ) {
        // SAFETY: the CPU has the instruction set of `V`; elements of B have two parts.
        unsafe {
            let mut times_unit = column;
            for register in &mut times_unit {
                *register = register.exchange_parts().change_signs(signs);
            }
            for (part, column) in [column, times_unit].into_iter().enumerate() {
                for (j, acc) in acc.iter_mut().enumerate() {
                    let at = b.wrapping_add(j.wrapping_mul(b_col)).wrapping_add(part);
                    let factor = V::splat(at.read());
                    for (acc, column) in acc.iter_mut().zip(column) {
                        *acc = column.mul_add(factor, *acc);
                    }
                }
            }
        }
    }

    #[inline(always)]
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "operations on registers, and a register of C"
    )]
    unsafe fn store(self, sum: V, to: *mut V::Element, mask: V::Mask) {
        let zero = V::Element::ZERO;
        let Self { alpha, beta, .. } = self;
        // SAFETY: the caller's promises; C is read where beta is not zero.
        unsafe {
            if alpha[1] == zero && beta[1] == zero {
                return Plain { alpha: alpha[0], beta: beta[0] }.store(sum, to, mask);
            }
            // As `Complex` multiplies, each product rounded, and then as `Field::add_product`.
            let scaled = if beta == [zero; 2] {
                V::splat(zero)
            } else {
                let old = V::load_masked(to, mask);
                V::splat(beta[0]).mul(old).add(V::splat(beta[1]).mul(times_unit(old)))
            };
            let real = V::splat(alpha[0]).mul_add(sum, scaled);
            times_unit(sum).mul_add(V::splat(alpha[1]), real).store_masked(to, mask);
        }
    }

    #[inline(always)]
    unsafe fn transpose(self, rows: &Pack<V::Element, V::Element>, width: usize) {
        let &Pack { from, along, step, lines, k, to } = rows;
        for p in 0..k {
            let from = from.wrapping_add(p.wrapping_mul(step));
            let to = to.wrapping_add(p.wrapping_mul(width)).cast::<[V::Element; 2]>();
            for i in 0..lines / 2 {
                let element = from.wrapping_add(i.wrapping_mul(along)).cast::<[V::Element; 2]>();
                // SAFETY: an element of one of the rows.
                let [re, im] = unsafe { element.read() };
                let im = if self.conjugated.0 { -im } else { im };
                // SAFETY: its place in the copy.
                unsafe { to.wrapping_add(i).write([re, im]) };
            }
        }
    }
}

/// Room for some rows of A, transposed.
#[repr(align(64))]
struct TransposedRows {
    _bytes: [MaybeUninit<u8>; PANEL_BYTES],
}

/// How many of the rows that are left, in registers, a tile takes: no more than `most`, and what is more than one tile
/// but less than two is halved, so that neither has too few to keep the multiply-adds going.
#[inline(always)]
fn share(left: usize, most: usize) -> usize {
    if left > most && left < most.wrapping_mul(2) { left.div_ceil(2) } else { left.min(most) }
}

/// Registers along a column that any instruction set has at most.
const MOST_VECTORS: usize = 4;
/// Columns that tiles have, which are up to eight, or one of these numbers.
const WIDE: [usize; 2] = [12, 16];
/// Columns of a tile at most.
const MOST_COLS: usize = WIDE[1];

/// Columns of a tile with that many registers along a column at most: it has no more sums than a whole one. Those of
/// complex numbers are not wide, since a column of A takes registers twice.
#[inline(always)]
const fn most_cols<I: InstructionSet, V: Vector, N: Numbers<V>>(vectors: usize) -> usize {
    let cols = match vectors {
        _ if N::PARTS > 1 => I::COLS,
        1 => I::VECTORS * I::COLS,
        2 => I::VECTORS * I::COLS / 2,
        3 => I::VECTORS * I::COLS / 3,
        _ => I::VECTORS * I::COLS / 4,
    };
    match cols {
        ..12 if cols > 8 => 8,
        ..12 => cols,
        12..16 => WIDE[0],
        16.. => WIDE[1],
    }
}

/// The same for columns that are left.
#[inline(always)]
fn share_cols(left: usize, most: usize) -> usize {
    let usual = most.min(8);
    match left {
        12 | 16 if left <= most => left,
        _ if left <= usual => left,
        // What is more than one tile but less than two is halved.
        _ if left <= usual.wrapping_mul(2) => left.div_ceil(2),
        _ => most,
    }
}

/// Computes a product, transposing rows of A or not. It is not itself compiled for an instruction set.
///
/// # Safety
/// The CPU has the instruction set `I`. A and B can be read for all rows, columns and k elements; C can be written, and
/// read where `beta` is not zero, and nobody else uses it meanwhile. The rows are [transposed](Near::is_transposed) if they must
/// be, and have a chain's k elements at most then.
pub(crate) unsafe fn multiply<I, V, N, const TRANSPOSED: bool>(near: &Near<N::Element>)
where
    I: InstructionSet,
    V: Vector,
    N: Numbers<V>,
{
    let rows = near.m.wrapping_mul(N::PARTS);
    let vectors = rows.div_ceil(V::LANES);
    let is_one = vectors <= most_vectors::<I, V, N, TRANSPOSED>()
        && near.n == share_cols(near.n, most_cols::<I, V, N>(vectors));
    let tiles = tiles::<I, V, N>().as_flattened();
    let at = vectors.wrapping_sub(1).wrapping_mul(MOST_COLS).wrapping_add(near.n.wrapping_sub(1));
    match tiles.get(at) {
        // All of C is one tile, and nothing is done but what it needs.
        Some(tile) if !TRANSPOSED && is_one && is_done_at_once::<V, N>(near) => {
            let last_rows = rows.wrapping_sub(vectors.wrapping_sub(1).wrapping_mul(V::LANES));
            let a_step = near.a_step.wrapping_mul(N::PARTS);
            // SAFETY: the caller's promises; a tile of as many rows and columns.
            unsafe { tile(near, near.a.cast(), a_step, near.b.cast(), near.c.cast(), last_rows) }
        }
        // SAFETY: the caller's promises.
        _ => unsafe { multiply_tiles::<I, V, N, TRANSPOSED>(near) },
    }
}

/// Registers along a column of a tile at most. There is no room for more than a whole tile's rows, transposed.
#[inline(always)]
const fn most_vectors<I: InstructionSet, V: Vector, N: Numbers<V>, const TRANSPOSED: bool>() -> usize
{
    let most = if TRANSPOSED { I::VECTORS } else { I::NEAR_VECTORS };
    if N::VECTORS < most { N::VECTORS } else { most }
}

/// Whether tiles make C by themselves.
#[inline(always)]
fn is_done_at_once<V: Vector, N: Numbers<V>>(near: &Near<N::Element>) -> bool {
    near.k <= CHAIN / N::PARTS && N::of(near).are_real()
}

/// Computes a product tile by tile.
///
/// # Safety
/// As [`multiply`].
#[inline(never)]
unsafe fn multiply_tiles<I, V, N, const TRANSPOSED: bool>(near: &Near<N::Element>)
where
    I: InstructionSet,
    V: Vector,
    N: Numbers<V>,
{
    const { assert!(most_vectors::<I, V, N, true>() * size_of::<V>() * CHAIN <= PANEL_BYTES) };
    let mut room = MaybeUninit::<TransposedRows>::uninit();
    let at_once = is_done_at_once::<V, N>(near);
    let (all_rows, a) = (near.m.wrapping_mul(N::PARTS), near.a.cast::<V::Element>());
    let b_col = near.b_col.wrapping_mul(N::PARTS);
    let ldc = near.ldc.wrapping_mul(N::PARTS);
    let mut row = 0usize;
    loop {
        let left = all_rows.wrapping_sub(row);
        let vectors = share(left.div_ceil(V::LANES), most_vectors::<I, V, N, TRANSPOSED>());
        let width = vectors.wrapping_mul(V::LANES);
        let rows = left.min(width);
        let (a, a_step) = if TRANSPOSED {
            let to = room.as_mut_ptr().cast::<V::Element>();
            let along = near.a_row.wrapping_mul(N::PARTS);
            let step = near.a_step.wrapping_mul(N::PARTS);
            let from = a.wrapping_add((row / N::PARTS).wrapping_mul(along));
            let lines = Pack { from, along, step, lines: rows, k: near.k, to };
            // SAFETY: rows of A and their steps, for which there is room.
            unsafe { I::near_transpose::<V, N>(&lines, near, width) };
            (to.cast_const(), width)
        } else {
            (a.wrapping_add(row), near.a_step.wrapping_mul(N::PARTS))
        };
        let last_rows = rows.wrapping_sub(width.wrapping_sub(V::LANES));
        let (mut b, mut left) = (near.b.cast::<V::Element>(), near.n);
        let mut c = near.c.cast::<V::Element>().wrapping_add(row);
        while left > 0 {
            let cols = share_cols(left, most_cols::<I, V, N>(vectors));
            let of_height = &tiles::<I, V, N>()[(vectors - 1).min(MOST_VECTORS - 1)];
            let tile = of_height[(cols - 1) % MOST_COLS];
            if at_once {
                // SAFETY: the caller's promises, of rows and columns that exist.
                unsafe { tile(near, a, a_step, b, c, last_rows) };
            } else {
                let place = Strip { a, a_step, b, c, vectors, cols, last_rows };
                // SAFETY: as above; the tile is the one of that size.
                unsafe { aside::<I, V, N>(near, tile, &place) };
            }
            b = b.wrapping_add(cols.wrapping_mul(b_col));
            c = c.wrapping_add(cols.wrapping_mul(ldc));
            left = left.wrapping_sub(cols);
        }
        row = row.wrapping_add(rows);
        if row >= all_rows {
            break;
        }
    }
}

fn no_tile<T, Real>(_: &Near<T>, _: *const Real, _: usize, _: *const Real, _: *mut Real, _: usize) {
    unreachable!("invariant: there are tiles of the widths that are asked for")
}

/// The tiles of an instruction set, by registers and columns, each less one.
#[inline(always)]
fn tiles<I, V, N>() -> &'static [[TileFn<N::Element, V::Element>; MOST_COLS]; MOST_VECTORS]
where
    I: InstructionSet,
    V: Vector,
    N: Numbers<V>,
{
    macro_rules! table {
        ($($vectors:literal)*) => {[$([
            I::near_tile::<V, N, $vectors, 1>, I::near_tile::<V, N, $vectors, 2>,
            I::near_tile::<V, N, $vectors, 3>, I::near_tile::<V, N, $vectors, 4>,
            I::near_tile::<V, N, $vectors, 5>, I::near_tile::<V, N, $vectors, 6>,
            I::near_tile::<V, N, $vectors, 7>, I::near_tile::<V, N, $vectors, 8>,
            // Widths that no tile has: `share_cols` gives none of them.
            no_tile, no_tile, no_tile, I::near_tile::<V, N, $vectors, { WIDE[0] }>,
            no_tile, no_tile, no_tile, I::near_tile::<V, N, $vectors, { WIDE[1] }>,
        ]),*]};
    }
    const { &table!(1 2 3 4) }
}

/// A tile, whose elements of A, B and C begin at these places, a step of A that far from the next, all in real numbers.
///
/// # Safety
/// As [`multiply`]; there are `COLS` columns, and rows for `VECTORS` registers, the last of which has `last_rows` of
/// them.
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "operations on registers, and accesses of the tile's rows and columns"
)]
pub(crate) unsafe fn tile<I, V, N, const VECTORS: usize, const COLS: usize>(
    near: &Near<N::Element>,
    a: *const V::Element,
    a_step: usize,
    b: *const V::Element,
    c: *mut V::Element,
    last_rows: usize,
) where
    I: InstructionSet,
    V: Vector,
    N: Numbers<V>,
{
    if VECTORS > I::NEAR_VECTORS || VECTORS > N::VECTORS || COLS > most_cols::<I, V, N>(VECTORS) {
        return;
    }
    let numbers = N::of(near);
    let k = near.k;
    let [b_step, b_col, ldc] =
        [near.b_step, near.b_col, near.ldc].map(|stride| stride.wrapping_mul(N::PARTS));
    // SAFETY: the CPU has the instruction set of `V`. Rows, columns and steps that exist, to which the mask keeps.
    unsafe {
        let mask = V::mask(last_rows);
        let ready = numbers.ready();
        let mut sums = [[V::splat(V::Element::ZERO); VECTORS]; COLS];
        // How far elements of B lie apart in one direction is known to the loops.
        if b_step == N::PARTS {
            let strides = (a_step, N::PARTS, b_col);
            sum::<V, N, VECTORS, COLS>(&mut sums, (a, b), strides, k, mask, ready);
        } else {
            let strides = (a_step, b_step, N::PARTS);
            sum::<V, N, VECTORS, COLS>(&mut sums, (a, b), strides, k, mask, ready);
        }
        let of_last = |vector: usize| (vector.wrapping_add(1) == VECTORS).then_some(mask);
        let (alpha, beta) = numbers.factors();
        let (one, alpha) = (alpha == V::Element::ONE, V::splat(alpha));
        if beta == V::Element::ZERO {
            for sums in &mut sums {
                for sum in sums {
                    *sum = if one { *sum } else { alpha.mul(*sum) };
                }
            }
        } else {
            // All of C is read before any is written: a load that overlaps with what a masked store before it might have
            // written waits until it has.
            let (beta, mut from) = (V::splat(beta), c);
            for sums in &mut sums {
                for (vector, sum) in sums.iter_mut().enumerate() {
                    let at = from.wrapping_add(vector.wrapping_mul(V::LANES));
                    *sum = alpha.mul_add(*sum, beta.mul(load(at, of_last(vector))));
                }
                from = from.wrapping_add(ldc);
            }
        }
        // A masked store takes longer, even of a whole register.
        if last_rows == V::LANES {
            store_tile(sums, c, ldc, None);
        } else {
            store_tile(sums, c, ldc, Some(mask));
        }
    }
}

/// Stores the registers of a tile, the last of each column under the mask.
///
/// # Safety
/// The CPU has the instruction set of `V`; the tile's rows and columns can be written, `ldc` apart.
#[inline(always)]
unsafe fn store_tile<V: Vector, const VECTORS: usize, const COLS: usize>(
    sums: [[V; VECTORS]; COLS],
    mut to: *mut V::Element,
    ldc: usize,
    mask: Option<V::Mask>,
) {
    for sums in sums {
        for (vector, sum) in sums.into_iter().enumerate() {
            let at = to.wrapping_add(vector.wrapping_mul(V::LANES));
            let mask = if vector.wrapping_add(1) == VECTORS { mask } else { None };
            // SAFETY: the caller's promises.
            unsafe { store(sum, at, mask) };
        }
        to = to.wrapping_add(ldc);
    }
}

/// Where a tile and its operands are, in real numbers.
struct Strip<T> {
    a: *const T,
    a_step: usize,
    b: *const T,
    c: *mut T,
    vectors: usize,
    cols: usize,
    last_rows: usize,
}

/// Registers of a tile at most.
const MOST_REGISTERS: usize = 24;
/// Sums of a tile: one kind of them.
#[repr(align(64))]
struct Sums {
    _bytes: [MaybeUninit<u8>; MOST_REGISTERS * MOST_BYTES],
}
/// Bytes of a register at most.
const MOST_BYTES: usize = 64;

/// Computes a tile whose sums are several chains, or whose factors are not real: each chain aside, where they are then
/// added up in the order of [`engine_sum`](crate::engine_sum).
///
/// # Safety
/// As [`tile`], which `tile` is for that many registers and columns.
#[cold]
unsafe fn aside<I, V, N>(
    near: &Near<N::Element>,
    tile: TileFn<N::Element, V::Element>,
    at: &Strip<V::Element>,
) where
    I: InstructionSet,
    V: Vector,
    N: Numbers<V>,
{
    let &Strip { a, a_step, b, vectors, cols, last_rows, .. } = at;
    const { assert!(I::VECTORS * I::COLS <= MOST_REGISTERS && size_of::<V>() <= MOST_BYTES) };
    const { assert!(I::NEAR_VECTORS <= MOST_VECTORS) };
    let mut room = [const { MaybeUninit::<Sums>::uninit() }; 3];
    let [mut of_chain, mut of_superblock, mut total] =
        room.each_mut().map(|sums| sums.as_mut_ptr().cast::<V::Element>());
    let (chain, superblock) = (CHAIN / N::PARTS, superblock::<V::Element>() / N::PARTS);
    let rows = vectors.wrapping_mul(V::LANES);
    let registers = vectors.wrapping_mul(cols);
    let b_step = near.b_step.wrapping_mul(N::PARTS);
    let mut first = 0usize;
    while first < near.k {
        let steps = near.k.wrapping_sub(first).min(chain);
        let a = a.wrapping_add(first.wrapping_mul(a_step));
        let b = b.wrapping_add(first.wrapping_mul(b_step));
        let sums = Near { k: steps, ldc: rows / N::PARTS, ..N::sums(near) };
        // SAFETY: the caller's promises, of some of the steps; there is room for the sums of a tile.
        unsafe { tile(&sums, a, a_step, b, of_chain, last_rows) };
        if first.is_multiple_of(superblock) {
            (of_chain, of_superblock) = (of_superblock, of_chain);
        } else {
            // SAFETY: there is room for as many registers, and what is not a sum is not looked at.
            unsafe { I::near_add::<V>(of_superblock, of_chain, registers) };
        }
        first = first.wrapping_add(steps);
        if first.is_multiple_of(superblock) || first == near.k {
            if first <= superblock {
                (of_superblock, total) = (total, of_superblock);
            } else {
                // SAFETY: as above.
                unsafe { I::near_add::<V>(total, of_superblock, registers) };
            }
        }
    }
    // SAFETY: the caller's promises, of C; all its sums were written.
    unsafe { I::near_finish::<V, N>(near, total, at.c, (vectors, cols), last_rows) };
}

/// Adds registers of sums to others.
///
/// # Safety
/// The CPU has the instruction set of `V`; both have that many registers.
#[inline(always)]
pub(crate) unsafe fn add<V: Vector>(
    to: *mut V::Element,
    sums: *const V::Element,
    registers: usize,
) {
    for register in 0..registers {
        let at = register.wrapping_mul(V::LANES);
        let to = to.wrapping_add(at);
        // SAFETY: the caller's promises.
        let old = unsafe { V::load(to) };
        // SAFETY: as above.
        let more = unsafe { V::load(sums.wrapping_add(at)) };
        // SAFETY: the CPU has the instruction set of `V`.
        let sum = unsafe { old.add(more) };
        // SAFETY: as above.
        unsafe { sum.store(to) };
    }
}

/// Makes sums C, which stand one column after the other, as high as their registers.
///
/// # Safety
/// As [`tile`], of C and a tile of that many registers and columns; the sums can be read.
#[inline(always)]
pub(crate) unsafe fn finish<V: Vector, N: Numbers<V>>(
    near: &Near<N::Element>,
    sums: *const V::Element,
    c: *mut V::Element,
    (vectors, cols): (usize, usize),
    last_rows: usize,
) {
    let numbers = N::of(near);
    let ldc = near.ldc.wrapping_mul(N::PARTS);
    // SAFETY: the CPU has the instruction set of `V`.
    let [whole, last] = [V::LANES, last_rows].map(|rows| unsafe { V::mask(rows) });
    for col in 0..cols {
        for vector in 0..vectors {
            let rows = vector.wrapping_mul(V::LANES);
            let at = col.wrapping_mul(vectors).wrapping_mul(V::LANES).wrapping_add(rows);
            // SAFETY: a register of sums.
            let sum = unsafe { V::load(sums.wrapping_add(at)) };
            let to = c.wrapping_add(col.wrapping_mul(ldc)).wrapping_add(rows);
            let mask = if vector.wrapping_add(1) == vectors { last } else { whole };
            // SAFETY: the tile's rows of one of its columns.
            unsafe { numbers.store(sum, to, mask) };
        }
    }
}

/// Adds the products of some steps, A and B being at these places, the next column of A, the next step and the next
/// column of B so far away.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "operations on registers, and a column of A"
)]
unsafe fn sum<V, N, const VECTORS: usize, const COLS: usize>(
    acc: &mut [[V; VECTORS]; COLS],
    (mut a, b): (*const V::Element, *const V::Element),
    (a_step, b_step, b_col): (usize, usize, usize),
    steps: usize,
    mask: V::Mask,
    ready: N::Ready,
) where
    V: Vector,
    N: Numbers<V>,
{
    for p in 0..steps {
        // SAFETY: the caller's promises.
        unsafe {
            let mut column = [V::splat(V::Element::ZERO); VECTORS];
            for (vector, register) in column.iter_mut().enumerate() {
                let mask = if vector.wrapping_add(1) == VECTORS { Some(mask) } else { None };
                *register = load(a.wrapping_add(vector.wrapping_mul(V::LANES)), mask);
            }
            N::add(acc, column, b.wrapping_add(p.wrapping_mul(b_step)), b_col, ready);
        }
        a = a.wrapping_add(a_step);
    }
}
