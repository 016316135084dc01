//! What one instruction set offers the driver for the types of one product.

use gemm_spec::{Accumulator, Convert, GemmTypes};
use num_complex::Complex;

use crate::finish::{Finish, FinishedSum};
#[cfg(target_arch = "x86_64")]
use crate::groups::Group;
use crate::near::{self, InParts, Near, NearFn, Numbers, Plain};
use crate::pack::Pack;
use crate::parts::Parts;
use crate::rounding::Rounded;
use crate::sum::is_exact;
use crate::thin::{Thin, ThinFn};
use crate::thresholds::{THIN_COLUMNS, THIN_COLUMNS_OF_BYTES};
use crate::tile::{Columns, Tile, compute};
use crate::times_column::TimesColumn;
use crate::triangle_kernel::Triangle;
use crate::vector::{PartsVector, Vector};

/// The most registers along a column of a tile, of any instruction set.
pub(crate) const MAX_VECTORS: usize = 3;
/// The most columns of a tile, of any instruction set.
pub(crate) const MAX_COLS: usize = 8;
/// The most elements of a register, and so the most rows of a tile.
const MAX_LANES: usize = 16;
/// See above.
pub(crate) const MAX_ROWS: usize = MAX_VECTORS * MAX_LANES;
/// Registers of tiles of one column of operands where they lie, which are as tall as a whole tile has
/// registers of sums: long pieces of each column of A. An instruction set has those that fit it.
const TALL_VECTORS: [usize; 5] = [24, 16, 12, 8, 4];

/// Computes a tile; see [`compute`] for what it demands.
pub(crate) type TileFn<T> = unsafe fn(&Tile<'_, T>);
/// Packs a panel; see `pack` for what it demands.
pub(crate) type PackFn<T, Packed> = unsafe fn(&Pack<T, Packed>);
/// Stores sums as elements; see `round` for what it demands.
pub(crate) type RoundFn<Acc, C> = unsafe fn(&Rounded<Acc, C>);
/// Multiplies rows by a column; see `times_column` for what it demands.
pub(crate) type TimesColumnFn<T> = unsafe fn(&TimesColumn<T>);
/// Tile functions by registers and columns, each less one.
type TileTable<T> = [[TileFn<T>; MAX_COLS]; MAX_VECTORS];

/// An instruction set: the size of its tiles, and generic code compiled for it.
///
/// # Safety
/// All methods: the CPU has the instruction set, and what [`compute`] and `pack` demand.
pub(crate) trait InstructionSet {
    /// Registers along a column of a whole tile.
    const VECTORS: usize;
    /// Columns of a whole tile.
    const COLS: usize;
    /// Registers along a column of a tile of near operands at most: the more of a column it takes, the more of what it
    /// reads and writes is side by side. It has no more accumulators than a whole one.
    const NEAR_VECTORS: usize = Self::VECTORS;
    /// Whether operands are worth packing that fit the caches well: a tile of few registers reads more of them.
    const PACKS_EARLY: bool = false;

    /// A tile of a packed panel of A.
    unsafe fn packed<V: Vector, const VECTORS: usize, const COLS: usize>(
        tile: &Tile<'_, V::Element>,
    );

    /// A tile of operands where they lie.
    unsafe fn direct<V: Vector, const VECTORS: usize, const COLS: usize>(
        tile: &Tile<'_, V::Element>,
    );

    /// A tile of a product whose operands are near.
    unsafe fn near_tile<V: Vector, N: Numbers<V>, const VECTORS: usize, const COLS: usize>(
        near: &Near<N::Element>,
        a: *const V::Element,
        a_step: usize,
        b: *const V::Element,
        c: *mut V::Element,
        last_rows: usize,
    );

    /// Adds registers of sums of such tiles to others.
    unsafe fn near_add<V: Vector>(to: *mut V::Element, sums: *const V::Element, registers: usize);

    /// Makes sums of such a tile C.
    unsafe fn near_finish<V: Vector, N: Numbers<V>>(
        near: &Near<N::Element>,
        sums: *const V::Element,
        c: *mut V::Element,
        size: (usize, usize),
        last_rows: usize,
    );

    /// Rows of A for such tiles, transposed.
    unsafe fn near_transpose<V: Vector, N: Numbers<V>>(
        rows: &Pack<V::Element, V::Element>,
        near: &Near<N::Element>,
        width: usize,
    );

    /// A tile of columns of A in place, which are packed on the way; as wide as whole tiles.
    unsafe fn packing<V: Vector, const VECTORS: usize, const COLS: usize>(
        tile: &Tile<'_, V::Element>,
    );

    /// Rows times a column.
    unsafe fn times_column<V: Vector>(rows: &TimesColumn<V::Element>);

    /// A panel of A.
    unsafe fn pack_a<V: Vector>(panel: &Pack<V::Element, V::Element>);

    /// A panel of B.
    unsafe fn pack_b<V: Vector>(panel: &Pack<V::Element, V::Element>);

    /// A panel of A, widened.
    unsafe fn widen_a<V: Vector, T: Convert<V::Element>>(panel: &Pack<T, V::Element>);

    /// A panel of B, widened.
    unsafe fn widen_b<V: Vector, T: Convert<V::Element>>(panel: &Pack<T, V::Element>);

    /// A panel of A, of complex numbers.
    unsafe fn complex_a<V: PartsVector, const CONJUGATED: bool>(
        panel: &Pack<V::Element, V::Element>,
    ) where
        V::Element: Parts;

    /// A panel of B, of complex numbers.
    unsafe fn complex_b<V: PartsVector, const CONJUGATED: bool>(
        panel: &Pack<V::Element, V::Element>,
    ) where
        V::Element: Parts;

    /// A triangle and right-hand sides.
    unsafe fn triangle<V: PartsVector, const VECTORS: usize, const COMPLEX: bool>(
        triangle: &Triangle<V::Element>,
    ) where
        V::Element: Parts;

    /// A panel of A, in groups of steps.
    #[cfg(target_arch = "x86_64")]
    unsafe fn group_a<V: Vector, G: Group>(panel: &Pack<i8, i32>);

    /// A panel of B, in groups of steps.
    #[cfg(target_arch = "x86_64")]
    unsafe fn group_b<G: Group>(panel: &Pack<i8, i32>);

    /// Rows of a thin product.
    unsafe fn thin<V: Vector<Element = T::Acc>, T: GemmTypes>(thin: &Thin<T>);

    /// A tile's sums, rounded.
    unsafe fn round<Acc: Accumulator, C: Convert<Acc>>(tile: &Rounded<Acc, C>);

    /// Lines of sums, finished.
    unsafe fn finish<Acc: FinishedSum, C: Convert<Acc>>(lines: &Finish<Acc, C>) -> u32;
}

/// The body of [`InstructionSet::packed`].
///
/// # Safety
/// As [`compute`]; A is a panel as high as whole tiles, filled up with zeros.
#[inline(always)]
pub(crate) unsafe fn packed<I, V, const VECTORS: usize, const COLS: usize>(
    tile: &Tile<'_, V::Element>,
) where
    I: InstructionSet,
    V: Vector,
{
    if VECTORS <= I::VECTORS && COLS <= I::COLS {
        // SAFETY: the caller's promises.
        unsafe {
            compute::<V, VECTORS, COLS>(tile, Columns::Packed(I::VECTORS * V::LANES), I::COLS)
        }
    }
}

/// The body of [`InstructionSet::direct`].
///
/// # Safety
/// As [`compute`].
#[inline(always)]
pub(crate) unsafe fn direct<I, V, const VECTORS: usize, const COLS: usize>(
    tile: &Tile<'_, V::Element>,
) where
    I: InstructionSet,
    V: Vector,
{
    let is_tall = COLS == 1 && VECTORS <= I::VECTORS * I::COLS;
    if VECTORS <= I::VECTORS && COLS <= I::COLS || is_tall {
        // SAFETY: the caller's promises.
        unsafe { compute::<V, VECTORS, COLS>(tile, Columns::InPlace, 0) }
    }
}

/// The body of [`InstructionSet::packing`].
///
/// # Safety
/// As [`compute`].
#[inline(always)]
pub(crate) unsafe fn packing<I, V, const VECTORS: usize, const COLS: usize>(
    tile: &Tile<'_, V::Element>,
) where
    I: InstructionSet,
    V: Vector,
{
    if VECTORS <= I::VECTORS && COLS == I::COLS {
        // SAFETY: the caller's promises.
        unsafe {
            compute::<V, VECTORS, COLS>(tile, Columns::Packing(I::VECTORS * V::LANES), I::COLS)
        }
    }
}

/// The methods of an instruction set, which differ in nothing but the features they are compiled for.
macro_rules! compiled_for {
    ($($features:literal)?) => {
        $(#[target_feature(enable = $features)])?
        unsafe fn packed<V: Vector, const VECTORS: usize, const COLS: usize>(
            tile: &Tile<'_, V::Element>,
        ) {
            // SAFETY: the caller's promises.
            unsafe { kernels::packed::<Self, V, VECTORS, COLS>(tile) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn direct<V: Vector, const VECTORS: usize, const COLS: usize>(
            tile: &Tile<'_, V::Element>,
        ) {
            // SAFETY: the caller's promises.
            unsafe { kernels::direct::<Self, V, VECTORS, COLS>(tile) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn near_tile<
            V: Vector,
            N: $crate::near::Numbers<V>,
            const VECTORS: usize,
            const COLS: usize,
        >(
            near: &$crate::near::Near<N::Element>,
            a: *const V::Element,
            a_step: usize,
            b: *const V::Element,
            c: *mut V::Element,
            last_rows: usize,
        ) {
            // SAFETY: the caller's promises.
            unsafe {
                $crate::near::tile::<Self, V, N, VECTORS, COLS>(near, a, a_step, b, c, last_rows)
            }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn near_add<V: Vector>(
            to: *mut V::Element,
            sums: *const V::Element,
            registers: usize,
        ) {
            // SAFETY: the caller's promises.
            unsafe { $crate::near::add::<V>(to, sums, registers) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn near_finish<V: Vector, N: $crate::near::Numbers<V>>(
            near: &$crate::near::Near<N::Element>,
            sums: *const V::Element,
            c: *mut V::Element,
            size: (usize, usize),
            last_rows: usize,
        ) {
            // SAFETY: the caller's promises.
            unsafe { $crate::near::finish::<V, N>(near, sums, c, size, last_rows) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn near_transpose<V: Vector, N: $crate::near::Numbers<V>>(
            rows: &Pack<V::Element, V::Element>,
            near: &$crate::near::Near<N::Element>,
            width: usize,
        ) {
            // SAFETY: the caller's promises.
            unsafe { N::of(near).transpose(rows, width) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn packing<V: Vector, const VECTORS: usize, const COLS: usize>(
            tile: &Tile<'_, V::Element>,
        ) {
            // SAFETY: the caller's promises.
            unsafe { kernels::packing::<Self, V, VECTORS, COLS>(tile) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn times_column<V: Vector>(
            rows: &$crate::times_column::TimesColumn<V::Element>,
        ) {
            // SAFETY: the caller's promises.
            unsafe { $crate::times_column::multiply::<V>(rows) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn pack_a<V: Vector>(panel: &Pack<V::Element, V::Element>) {
            // SAFETY: the caller's promises.
            unsafe { pack::pack::<V>(panel, Self::VECTORS * V::LANES) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn pack_b<V: Vector>(panel: &Pack<V::Element, V::Element>) {
            // SAFETY: the caller's promises.
            unsafe { pack::pack::<V>(panel, Self::COLS) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn widen_a<V: Vector, T: gemm_spec::Convert<V::Element>>(
            panel: &Pack<T, V::Element>,
        ) {
            // SAFETY: the caller's promises.
            unsafe { rounding::pack::<V, T>(panel, Self::VECTORS * V::LANES) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn widen_b<V: Vector, T: gemm_spec::Convert<V::Element>>(
            panel: &Pack<T, V::Element>,
        ) {
            // SAFETY: the caller's promises.
            unsafe { rounding::pack::<V, T>(panel, Self::COLS) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn complex_a<V: $crate::vector::PartsVector, const CONJUGATED: bool>(
            panel: &Pack<V::Element, V::Element>,
        ) where
            V::Element: $crate::parts::Parts,
        {
            // SAFETY: the caller's promises.
            unsafe {
                $crate::pack_complex::pack_a::<V, CONJUGATED>(panel, Self::VECTORS * V::LANES)
            }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn complex_b<V: $crate::vector::PartsVector, const CONJUGATED: bool>(
            panel: &Pack<V::Element, V::Element>,
        ) where
            V::Element: $crate::parts::Parts,
        {
            // SAFETY: the caller's promises.
            unsafe { $crate::pack_complex::pack_b::<V, CONJUGATED>(panel, Self::COLS) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn triangle<
            V: $crate::vector::PartsVector,
            const VECTORS: usize,
            const COMPLEX: bool,
        >(
            triangle: &$crate::triangle_kernel::Triangle<V::Element>,
        ) where
            V::Element: $crate::parts::Parts,
        {
            // SAFETY: the caller's promises.
            unsafe { $crate::triangle_kernel::run::<V, VECTORS, COMPLEX>(triangle) }
        }

        #[cfg(target_arch = "x86_64")]
        $(#[target_feature(enable = $features)])?
        unsafe fn group_a<V: Vector, G: $crate::groups::Group>(panel: &Pack<i8, i32>) {
            // SAFETY: the caller's promises.
            unsafe { $crate::groups::pack_a::<G>(panel, Self::VECTORS * V::LANES) }
        }

        #[cfg(target_arch = "x86_64")]
        $(#[target_feature(enable = $features)])?
        unsafe fn group_b<G: $crate::groups::Group>(panel: &Pack<i8, i32>) {
            // SAFETY: the caller's promises.
            unsafe { $crate::groups::pack_b::<G>(panel, Self::COLS) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn thin<V: Vector<Element = T::Acc>, T: gemm_spec::GemmTypes>(
            thin: &$crate::thin::Thin<T>,
        ) {
            // SAFETY: the caller's promises.
            unsafe { $crate::thin::compute::<V, T>(thin) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn round<Acc: gemm_spec::Accumulator, C: gemm_spec::Convert<Acc>>(
            tile: &Rounded<Acc, C>,
        ) {
            // SAFETY: the caller's promises.
            unsafe { rounding::round(tile) }
        }

        $(#[target_feature(enable = $features)])?
        unsafe fn finish<Acc: $crate::finish::FinishedSum, C: gemm_spec::Convert<Acc>>(
            lines: &$crate::finish::Finish<Acc, C>,
        ) -> u32 {
            // SAFETY: the caller's promises.
            unsafe { $crate::finish::finish(lines) }
        }
    };
}
pub(crate) use compiled_for;

/// Products of accumulators: tiles read A and B where they lie, and C holds sums.
pub(crate) trait OwnSums:
    Accumulator + GemmTypes<A = Self, B = Self, Acc = Self, C = Self>
{
}

impl<T: Accumulator + GemmTypes<A = T, B = T, Acc = T, C = T>> OwnSums for T {}

/// What one instruction set offers for the types of one product.
pub(crate) struct Kernels<T: GemmTypes> {
    /// Elements of a register.
    pub(crate) lanes: usize,
    /// Rows of a whole tile, and the width of a panel of A: MR.
    pub(crate) rows: usize,
    /// Columns of a whole tile, and the width of a panel of B: NR.
    pub(crate) cols: usize,
    /// Whether operands that are near are packed from fewer multiply-adds on.
    pub(crate) packs_early: bool,
    packed: TileTable<T::Acc>,
    direct: TileTable<T::Acc>,
    packing: TileTable<T::Acc>,
    /// Tiles of one column, by [`TALL_VECTORS`], and registers of the tallest.
    tall: [TileFn<T::Acc>; TALL_VECTORS.len()],
    tallest: usize,
    /// Computes products of operands that are near, rows of A being side by side or turned.
    pub(crate) near: [NearFn<T::Acc>; 2],
    /// The same of complex numbers.
    pub(crate) near_parts: [NearFn<Complex<T::Acc>>; 2],
    /// Packs a panel of A.
    pub(crate) pack_a: PackFn<T::A, T::Acc>,
    /// Packs a panel of B.
    pub(crate) pack_b: PackFn<T::B, T::Acc>,
    /// Stores sums as elements, where these are of another type: a tile then only sums up.
    pub(crate) round: Option<RoundFn<T::Acc, T::C>>,
    /// Computes rows of a thin product, where elements are narrower than sums, and up to how many columns of C it is
    /// thin: where columns of A are contiguous, and where rows are.
    pub(crate) thin: Option<(ThinFn<T>, [usize; 2])>,
    /// Multiplies rows by a column, where registers can add rows, and how many steps these add at once.
    pub(crate) times_column: Option<(TimesColumnFn<T::Acc>, usize)>,
    /// Whether a tile can take operands where they lie; else both are packed.
    pub(crate) in_place: bool,
    /// k elements in a packed element.
    pub(crate) group: usize,
    /// Whether sums begin with a number that stands behind the panel of B.
    starts: bool,
}

/// For types whose tiles never read operands in place.
fn not_in_place<T>(_: &Tile<'_, T>) {
    unreachable!("invariant: `in_place` is asked before")
}

/// For integers, whose sums have no chains, and for types that are widened.
fn not_near<T>(_: &Near<T>) {
    unreachable!("invariant: sums of these types are not what is multiplied")
}

/// The functions of all tiles of instruction set `I` with registers `V`.
macro_rules! table {
    ($i:ident, $v:ident, $form:ident, $($vectors:literal)*) => {[$([
        $i::$form::<$v, $vectors, 1>, $i::$form::<$v, $vectors, 2>,
        $i::$form::<$v, $vectors, 3>, $i::$form::<$v, $vectors, 4>,
        $i::$form::<$v, $vectors, 5>, $i::$form::<$v, $vectors, 6>,
        $i::$form::<$v, $vectors, 7>, $i::$form::<$v, $vectors, 8>,
    ]),*]};
}

impl<T: OwnSums> Kernels<T> {
    /// The kernels of instruction set `I` with registers `V` for elements that are sums themselves.
    pub(crate) const fn of<I: InstructionSet, V: Vector<Element = T>>() -> Self {
        let direct = table!(I, V, direct, 1 2 3);
        let packing = table!(I, V, packing, 1 2 3);
        let near: [NearFn<T>; 2] =
            [near::multiply::<I, V, Plain<T>, false>, near::multiply::<I, V, Plain<T>, true>];
        let tall = [
            I::direct::<V, { TALL_VECTORS[0] }, 1>,
            I::direct::<V, { TALL_VECTORS[1] }, 1>,
            I::direct::<V, { TALL_VECTORS[2] }, 1>,
            I::direct::<V, { TALL_VECTORS[3] }, 1>,
            I::direct::<V, { TALL_VECTORS[4] }, 1>,
        ];
        let times_column: Option<(TimesColumnFn<T>, usize)> =
            if V::ROW_STEPS > 0 { Some((I::times_column::<V>, V::ROW_STEPS)) } else { None };
        Self {
            direct,
            near: if is_exact::<T>() { [not_near; 2] } else { near },
            packing,
            times_column,
            tall,
            in_place: true,
            ..Self::new::<I, V>(I::pack_a::<V>, I::pack_b::<V>)
        }
    }
}

impl<T: OwnSums + Parts> Kernels<T> {
    /// The same for complex numbers, whose parts are `T`: both factors are packed as [`crate::complex`] says.
    pub(crate) const fn of_parts<
        I: InstructionSet,
        V: PartsVector<Element = T>,
        const CONJUGATED_A: bool,
        const CONJUGATED_B: bool,
    >() -> Self {
        Self {
            near_parts: [
                near::multiply::<I, V, InParts<T>, false>,
                near::multiply::<I, V, InParts<T>, true>,
            ],
            ..Self::new::<I, V>(I::complex_a::<V, CONJUGATED_A>, I::complex_b::<V, CONJUGATED_B>)
        }
    }
}

impl<T: GemmTypes> Kernels<T> {
    /// The same for elements that are widened to the type of sums.
    pub(crate) const fn widening<I: InstructionSet, V: Vector<Element = T::Acc>>() -> Self {
        let round: Option<RoundFn<T::Acc, T::C>> =
            if T::ROUNDS { Some(I::round::<T::Acc, T::C>) } else { None };
        let thin: Option<(ThinFn<T>, _)> = Some((I::thin::<V, T>, THIN_COLUMNS));
        Self { round, thin, ..Self::new::<I, V>(I::widen_a::<V, T::A>, I::widen_b::<V, T::B>) }
    }

    const fn new<I: InstructionSet, V: Vector<Element = T::Acc>>(
        pack_a: PackFn<T::A, T::Acc>,
        pack_b: PackFn<T::B, T::Acc>,
    ) -> Self {
        const { assert!(I::VECTORS <= MAX_VECTORS && I::COLS <= MAX_COLS && V::LANES <= MAX_LANES) };
        Self {
            lanes: V::LANES,
            rows: I::VECTORS * V::LANES,
            cols: I::COLS,
            packs_early: I::PACKS_EARLY,
            packed: table!(I, V, packed, 1 2 3),
            // Of operands that are packed none is ever taken where it lies.
            direct: [[not_in_place; MAX_COLS]; MAX_VECTORS],
            packing: [[not_in_place; MAX_COLS]; MAX_VECTORS],
            tall: [not_in_place; TALL_VECTORS.len()],
            tallest: I::VECTORS * I::COLS,
            near: [not_near; 2],
            near_parts: [not_near; 2],
            pack_a,
            pack_b,
            round: None,
            thin: None,
            times_column: None,
            in_place: false,
            group: 1,
            starts: V::COMPENSATES,
        }
    }
}

impl Kernels<i8> {
    /// The kernels of instruction set `I` whose registers `V` multiply groups `G` of steps.
    #[cfg(target_arch = "x86_64")]
    pub(crate) const fn grouping<I, V, G>() -> Self
    where
        I: InstructionSet,
        V: Vector<Element = i32>,
        G: Group,
    {
        const { assert!(V::COMPENSATES == G::COMPENSATES && G::STEPS <= 4) };
        let [of_columns, of_rows] = THIN_COLUMNS_OF_BYTES;
        // Without blocks rows would be transposed element by element.
        let of_rows = if V::BLOCK_OF_BYTES.is_some() { of_rows } else { 0 };
        let thin: Option<(ThinFn<i8>, _)> = Some((I::thin::<V, i8>, [of_columns, of_rows]));
        Self { group: G::STEPS, thin, ..Self::new::<I, V>(I::group_a::<V, G>, I::group_b::<G>) }
    }
}

impl<T: GemmTypes> Kernels<T> {
    /// Packed elements of a row of A for that many k elements.
    pub(crate) fn packed_steps(&self, steps: usize) -> usize {
        steps.div_ceil(self.group)
    }

    /// The same of a column of B, with what stands behind.
    pub(crate) fn packed_column(&self, steps: usize) -> usize {
        self.packed_steps(steps) + usize::from(self.starts)
    }

    /// The function for a tile of a packed panel of A, 1 to `rows` by 1 to `cols`.
    pub(crate) fn packed(&self, rows: usize, cols: usize) -> TileFn<T::Acc> {
        self.packed[rows.div_ceil(self.lanes) - 1][cols - 1]
    }

    /// The function for a tile of `cols` columns that packs A on its way.
    pub(crate) fn packing(&self, rows: usize) -> TileFn<T::Acc> {
        self.packing[rows.div_ceil(self.lanes) - 1][self.cols - 1]
    }

    /// The function for a tile of operands where they lie, 1 to `rows` by 1 to `cols`, or as high as
    /// [`Self::direct_rows`] says.
    pub(crate) fn direct(&self, rows: usize, cols: usize) -> TileFn<T::Acc> {
        let vectors = rows.div_ceil(self.lanes);
        match TALL_VECTORS.iter().position(|&tall| rows > self.rows && tall == vectors) {
            Some(tall) => self.tall[tall],
            None => self.direct[vectors - 1][cols - 1],
        }
    }

    /// How many of the rows that are left the next tile of operands where they lie takes, where C has
    /// `cols` columns.
    pub(crate) fn direct_rows(&self, left: usize, cols: usize) -> usize {
        // All that is left, if a tile is just so tall, its last register masked.
        let fits = |&vectors: &usize| {
            let tallest = left.div_ceil(self.lanes).min(self.tallest);
            vectors == tallest || vectors * self.lanes <= left.min(tallest * self.lanes)
        };
        match TALL_VECTORS.into_iter().find(fits).filter(|_| cols == 1) {
            Some(vectors) => left.min(vectors * self.lanes),
            None => left.min(self.rows),
        }
    }

    /// Rows of the last register of a tile of that many rows.
    pub(crate) fn last_rows(&self, rows: usize) -> usize {
        (rows - 1) % self.lanes + 1
    }
}
