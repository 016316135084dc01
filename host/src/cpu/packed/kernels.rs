//! What one instruction set offers the driver for one element type.

use gemm_spec::Element;

use super::pack::Pack;
use super::rounding::Rounded;
use super::tile::{Tile, compute};
use super::vector::Vector;

/// The most registers along a column of a tile, of any instruction set.
const MAX_VECTORS: usize = 3;
/// The most columns of a tile, of any instruction set.
const MAX_COLS: usize = 8;

/// Computes a tile; see [`compute`] for what it demands.
pub(super) type TileFn<T> = unsafe fn(&Tile<T>);
/// Packs a panel; see `pack` for what it demands.
pub(super) type PackFn<T> = unsafe fn(&Pack<T>);
/// Stores sums as elements; see `round` for what it demands.
pub(super) type RoundFn<T> = unsafe fn(&Rounded<T>);
/// Tile functions by registers and columns, each less one.
type TileTable<T> = [[TileFn<T>; MAX_COLS]; MAX_VECTORS];

/// An instruction set: the size of its tiles, and generic code compiled for it.
///
/// # Safety
/// All methods: the CPU has the instruction set, and what [`compute`] and `pack` demand.
pub(super) trait InstructionSet {
    /// Registers along a column of a whole tile.
    const VECTORS: usize;
    /// Columns of a whole tile.
    const COLS: usize;

    /// A tile of a packed panel of A.
    unsafe fn packed<V: Vector, const VECTORS: usize, const COLS: usize>(tile: &Tile<V::Element>);

    /// A tile of operands where they lie.
    unsafe fn direct<V: Vector, const VECTORS: usize, const COLS: usize>(tile: &Tile<V::Element>);

    /// A panel of A.
    unsafe fn pack_a<V: Vector>(panel: &Pack<V::Element>);

    /// A panel of B.
    unsafe fn pack_b<V: Vector>(panel: &Pack<V::Element>);

    /// A panel of A, widened.
    unsafe fn widen_a<V: Vector, T: Element<Acc = V::Element>>(panel: &Pack<T>);

    /// A panel of B, widened.
    unsafe fn widen_b<V: Vector, T: Element<Acc = V::Element>>(panel: &Pack<T>);

    /// A tile's sums, rounded.
    unsafe fn round<T: Element>(tile: &Rounded<T>);
}

/// The body of [`InstructionSet::packed`].
///
/// # Safety
/// As [`compute`]; A is a panel as high as whole tiles, filled up with zeros.
#[inline(always)]
pub(super) unsafe fn packed<I, V, const VECTORS: usize, const COLS: usize>(tile: &Tile<V::Element>)
where
    I: InstructionSet,
    V: Vector,
{
    if VECTORS <= I::VECTORS && COLS <= I::COLS {
        // SAFETY: the caller's promises.
        unsafe { compute::<V, VECTORS, COLS>(tile, I::VECTORS * V::LANES, true) }
    }
}

/// The body of [`InstructionSet::direct`].
///
/// # Safety
/// As [`compute`].
#[inline(always)]
pub(super) unsafe fn direct<I, V, const VECTORS: usize, const COLS: usize>(tile: &Tile<V::Element>)
where
    I: InstructionSet,
    V: Vector,
{
    if VECTORS <= I::VECTORS && COLS <= I::COLS {
        // SAFETY: the caller's promises.
        unsafe { compute::<V, VECTORS, COLS>(tile, tile.a_step, false) }
    }
}

/// The methods of an instruction set, which differ in nothing but the features they are compiled for.
macro_rules! compiled_for {
    ($($features:literal)?) => {
        $(#[target_feature(enable = $features)])?
        unsafe fn packed<V: Vector, const VECTORS: usize, const COLS: usize>(
            tile: &Tile<V::Element>,
        ) {
            // SAFETY: the caller's promises.
            unsafe { kernels::packed::<Self, V, VECTORS, COLS>(tile) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn direct<V: Vector, const VECTORS: usize, const COLS: usize>(
            tile: &Tile<V::Element>,
        ) {
            // SAFETY: the caller's promises.
            unsafe { kernels::direct::<Self, V, VECTORS, COLS>(tile) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn pack_a<V: Vector>(panel: &Pack<V::Element>) {
            // SAFETY: the caller's promises.
            unsafe { pack::pack::<V>(panel, Self::VECTORS * V::LANES) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn pack_b<V: Vector>(panel: &Pack<V::Element>) {
            // SAFETY: the caller's promises.
            unsafe { pack::pack::<V>(panel, Self::COLS) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn widen_a<V: Vector, T: Element<Acc = V::Element>>(panel: &Pack<T>) {
            // SAFETY: the caller's promises.
            unsafe { rounding::pack::<V, T>(panel, Self::VECTORS * V::LANES) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn widen_b<V: Vector, T: Element<Acc = V::Element>>(panel: &Pack<T>) {
            // SAFETY: the caller's promises.
            unsafe { rounding::pack::<V, T>(panel, Self::COLS) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn round<T: Element>(tile: &Rounded<T>) {
            // SAFETY: the caller's promises.
            unsafe { rounding::round(tile) }
        }
    };
}
pub(super) use compiled_for;

/// What one instruction set offers for one element type.
pub(super) struct Kernels<T: Element> {
    /// Elements of a register.
    pub(super) lanes: usize,
    /// Rows of a whole tile, and the width of a panel of A: MR.
    pub(super) rows: usize,
    /// Columns of a whole tile, and the width of a panel of B: NR.
    pub(super) cols: usize,
    packed: TileTable<T::Acc>,
    direct: TileTable<T::Acc>,
    /// Packs a panel of A.
    pub(super) pack_a: PackFn<T>,
    /// Packs a panel of B.
    pub(super) pack_b: PackFn<T>,
    /// Stores sums as elements, where these are of another type: a tile then only sums up.
    pub(super) round: Option<RoundFn<T>>,
}

impl<T: Element> Kernels<T> {
    /// The kernels of instruction set `I` with registers `V` for elements that are summed up in
    /// another type.
    pub(super) const fn rounding<I: InstructionSet, V: Vector<Element = T::Acc>>() -> Self {
        let Kernels { lanes, rows, cols, packed, direct, .. } = Kernels::<T::Acc>::of::<I, V>();
        Self {
            lanes,
            rows,
            cols,
            packed,
            direct,
            pack_a: I::widen_a::<V, T>,
            pack_b: I::widen_b::<V, T>,
            round: Some(I::round::<T>),
        }
    }
}

impl<T: Element<Acc = T>> Kernels<T> {
    /// The kernels of instruction set `I` with registers `V`.
    pub(super) const fn of<I: InstructionSet, V: Vector<Element = T>>() -> Self {
        const { assert!(I::VECTORS <= MAX_VECTORS && I::COLS <= MAX_COLS) };
        macro_rules! table {
            ($form:ident, $($vectors:literal)*) => {[$([
                I::$form::<V, $vectors, 1>, I::$form::<V, $vectors, 2>,
                I::$form::<V, $vectors, 3>, I::$form::<V, $vectors, 4>,
                I::$form::<V, $vectors, 5>, I::$form::<V, $vectors, 6>,
                I::$form::<V, $vectors, 7>, I::$form::<V, $vectors, 8>,
            ]),*]};
        }
        Self {
            lanes: V::LANES,
            rows: I::VECTORS * V::LANES,
            cols: I::COLS,
            packed: table!(packed, 1 2 3),
            direct: table!(direct, 1 2 3),
            pack_a: I::pack_a::<V>,
            pack_b: I::pack_b::<V>,
            round: None,
        }
    }
}

impl<T: Element> Kernels<T> {
    /// The function for a tile of a packed panel of A, 1 to `rows` by 1 to `cols`.
    pub(super) fn packed(&self, rows: usize, cols: usize) -> TileFn<T::Acc> {
        self.packed[rows.div_ceil(self.lanes) - 1][cols - 1]
    }

    /// The function for a tile of operands where they lie, 1 to `rows` by 1 to `cols`.
    pub(super) fn direct(&self, rows: usize, cols: usize) -> TileFn<T::Acc> {
        self.direct[rows.div_ceil(self.lanes) - 1][cols - 1]
    }

    /// Rows of the last register of a tile of so many rows.
    pub(super) fn last_rows(&self, rows: usize) -> usize {
        (rows - 1) % self.lanes + 1
    }
}

/// Asks for the cache line of an address, which need not exist.
#[inline(always)]
pub(super) fn prefetch<T>(at: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint: it reads nothing and faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
