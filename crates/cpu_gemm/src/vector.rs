//! A vector register of some instruction set: the few operations that a tile is made of.

use gemm_spec::{Accumulator, Convert, Element};

/// A register of `LANES` elements.
///
/// Every method is inlined into a function that is compiled for the instruction set, so that each is
/// one instruction there.
///
/// # Safety
/// All methods: the CPU has the instruction set. Loads and stores: the elements that they name can be
/// read or written; no alignment is needed.
pub(crate) trait Vector: Copy {
    /// What a lane holds.
    type Element: Accumulator;
    /// Which lanes take part in a load or store.
    type Mask: Copy;
    /// Elements of a register.
    const LANES: usize;

    /// The same value in every lane.
    unsafe fn splat(value: Self::Element) -> Self;

    /// `LANES` elements from memory.
    unsafe fn load(from: *const Self::Element) -> Self;

    /// `LANES` elements to memory.
    unsafe fn store(self, to: *mut Self::Element);

    /// The mask of the first `lanes` lanes, 1 to `LANES`.
    unsafe fn mask(lanes: usize) -> Self::Mask;

    /// The masked elements from memory, zeros in the other lanes; nothing else is read.
    unsafe fn load_masked(from: *const Self::Element, mask: Self::Mask) -> Self;

    /// The masked elements to memory; nothing else is written.
    unsafe fn store_masked(self, to: *mut Self::Element, mask: Self::Mask);

    /// Whether it is known that a mask has all lanes, so that an access need not be masked, which takes some processors
    /// longer.
    #[inline(always)]
    fn has_all_lanes(_mask: Self::Mask) -> bool {
        false
    }

    /// `self * b + c`, lane by lane, as [`Accumulator::mul_add`].
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;

    /// `self * b`, lane by lane, as [`Accumulator::mul`].
    unsafe fn mul(self, b: Self) -> Self;

    /// `self + b`, lane by lane: one rounding, or wrapping.
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        // SAFETY: the caller's promise.
        let one = unsafe { Self::splat(Self::Element::ONE) };
        // SAFETY: the caller's promise. Times one is exact.
        unsafe { b.mul_add(one, self) }
    }

    /// What a packed element of A and one of B add to a sum: their product, or those of the steps that
    /// they hold.
    #[inline(always)]
    unsafe fn step(self, b: Self, c: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { self.mul_add(b, c) }
    }

    /// Whether sums begin with a zero-point compensation, which follows the panel of B.
    const COMPENSATES: bool = false;

    /// `LANES` elements from memory, which may be narrower, widened.
    #[inline(always)]
    unsafe fn widened<T: Convert<Self::Element>>(from: *const T) -> Self {
        // SAFETY: the caller's promises.
        unsafe { widened_singly(from) }
    }

    /// Rows and columns of what [`Vector::transpose`] copies.
    const SIDE: usize;

    /// Copies a square of `SIDE` by `SIDE` elements, transposed: element (i, p) goes from
    /// `from + i * along + p` to `to + p * width + i`.
    unsafe fn transpose(
        from: *const Self::Element,
        along: usize,
        to: *mut Self::Element,
        width: usize,
    );

    /// Steps that [`Vector::transpose_lines`] copies; none where there is no such thing.
    const LINE_STEPS: usize = 0;

    /// Copies some steps of four lines, where that is less than `SIDE`, or of two, transposed as by [`Vector::transpose`].
    #[inline(always)]
    unsafe fn transpose_lines<const LINES: usize>(
        _from: *const Self::Element,
        _along: usize,
        _to: *mut Self::Element,
        _width: usize,
    ) {
        unreachable!("invariant: `LINE_STEPS` is asked before")
    }

    /// Whether there is [`Vector::transpose_rows`].
    const TRANSPOSES_ROWS: bool = false;

    /// Copies the steps of as many rows as a register has lanes, transposed as by [`Vector::transpose`], by whole
    /// registers: what is loaded soon after a store should be all that one store wrote.
    #[inline(always)]
    unsafe fn transpose_rows(
        _from: *const Self::Element,
        _along: usize,
        _steps: usize,
        _to: *mut Self::Element,
        _width: usize,
    ) {
        unreachable!("invariant: `TRANSPOSES_ROWS` is asked before")
    }

    /// Rows and steps of what [`Vector::transpose_widened`] copies of elements of one and of two bytes; none
    /// where there is no such thing.
    const BLOCK_OF_BYTES: Option<(usize, usize)> = None;
    /// See above.
    const BLOCK_OF_HALVES: Option<(usize, usize)> = None;

    /// Copies a block of narrower elements, widened and transposed, as [`Vector::transpose`] does.
    #[inline(always)]
    unsafe fn transpose_widened<T: Element>(
        _from: *const T,
        _along: usize,
        _to: *mut Self::Element,
        _width: usize,
    ) {
        unreachable!("invariant: `widened_block` is asked before")
    }

    /// Steps that [`Vector::add_rows`] adds at once; none where there is no such thing.
    const ROW_STEPS: usize = 0;

    /// Adds to each lane the products of some elements of its row with those of B, in order: the rows are
    /// `along` apart and from `from` on `ROW_STEPS` long, the elements of B `b_step` apart.
    #[inline(always)]
    unsafe fn add_rows(
        self,
        _from: *const Self::Element,
        _along: usize,
        _b: *const Self::Element,
        _b_step: usize,
    ) -> Self {
        unreachable!("invariant: `ROW_STEPS` is asked before")
    }

    /// The same, a chain ending with the first `split` steps: its sum, and that of the next one's first.
    #[inline(always)]
    unsafe fn add_rows_apart(
        self,
        from: *const Self::Element,
        along: usize,
        b: *const Self::Element,
        b_step: usize,
        split: usize,
    ) -> (Self, Self) {
        // SAFETY: the caller's promises.
        let ended = unsafe { self.add_parts_of_rows(from, along, b, b_step, split) };
        // SAFETY: the CPU has the instruction set.
        let zero = unsafe { Self::splat(Self::Element::ZERO) };
        let (from, b) = (from.wrapping_add(split), b.wrapping_add(split.wrapping_mul(b_step)));
        let steps = Self::ROW_STEPS.wrapping_sub(split);
        // SAFETY: the caller's promises, of the steps that are left.
        let begun = unsafe { zero.add_parts_of_rows(from, along, b, b_step, steps) };
        (ended, begun)
    }

    /// The same for fewer steps than that.
    #[inline(always)]
    unsafe fn add_parts_of_rows(
        self,
        from: *const Self::Element,
        along: usize,
        b: *const Self::Element,
        b_step: usize,
        steps: usize,
    ) -> Self {
        // SAFETY: the caller's promises.
        unsafe { add_singly(self, from, along, b, b_step, steps) }
    }
}

/// A register of the parts of complex numbers, real and imaginary ones interleaved.
///
/// # Safety
/// As [`Vector`].
pub(crate) trait PartsVector: Vector {
    /// The same number in all places.
    #[inline(always)]
    unsafe fn of_parts(re: Self::Element, im: Self::Element) -> Self {
        let mut lanes = [re; MOST_LANES];
        lanes.iter_mut().skip(1).step_by(2).for_each(|lane| *lane = im);
        // SAFETY: a local of as many elements as the widest register has lanes.
        unsafe { Self::load(lanes.as_ptr()) }
    }

    /// The imaginary part of each number in the place of the real one, and the other way round.
    unsafe fn exchange_parts(self) -> Self;

    /// The lanes with their signs changed where `signs` has a negative zero, and not where it has a positive one.
    unsafe fn change_signs(self, signs: Self) -> Self;

    /// `self / b`, lane by lane.
    unsafe fn div(self, b: Self) -> Self;
}

/// A register of elements, each widened by itself, which the compiler makes vector instructions of.
///
/// # Safety
/// The CPU has the instruction set of `V`; as many elements as it has lanes can be read.
#[inline(always)]
pub(crate) unsafe fn widened_singly<V: Vector, T: Convert<V::Element>>(from: *const T) -> V {
    let mut lanes = [V::Element::ZERO; MOST_LANES];
    for (lane, value) in lanes.iter_mut().enumerate().take(V::LANES) {
        // SAFETY: the caller's promise.
        *value = unsafe { from.wrapping_add(lane).read() }.widen();
    }
    // SAFETY: a local of as many elements as the widest register has lanes.
    unsafe { V::load(lanes.as_ptr()) }
}

/// The most lanes of any register.
const MOST_LANES: usize = 16;

/// A sum and the products of elements of rows and of B, in order, each column gathered by itself.
///
/// # Safety
/// The CPU has the instruction set of `V`; those elements can be read.
#[inline(always)]
unsafe fn add_singly<V: Vector>(
    mut sum: V,
    mut from: *const V::Element,
    along: usize,
    mut b: *const V::Element,
    b_step: usize,
    steps: usize,
) -> V {
    for _ in 0..steps {
        let mut column = [V::Element::ZERO; MOST_LANES];
        let mut element = from;
        for lane in column.iter_mut().take(V::LANES) {
            // SAFETY: the caller's promises.
            *lane = unsafe { *element };
            element = element.wrapping_add(along);
        }
        // SAFETY: a local of as many elements as the widest register has lanes.
        let column = unsafe { V::load(column.as_ptr()) };
        // SAFETY: the step's element of B.
        let element = unsafe { *b };
        // SAFETY: the CPU has the instruction set of `V`.
        let factor = unsafe { V::splat(element) };
        // SAFETY: as above.
        sum = unsafe { column.mul_add(factor, sum) };
        from = from.wrapping_add(1);
        b = b.wrapping_add(b_step);
    }
    sum
}

/// What registers of real numbers copy transposed, with AVX and AVX-512 alike: squares of that side, and a few steps of
/// some lines.
#[cfg(target_arch = "x86_64")]
macro_rules! transposes {
    ($real:ty, $side:literal by $square:ident, $steps:literal by $lines:ident) => {
        const SIDE: usize = $side;

        #[inline(always)]
        unsafe fn transpose(from: *const $real, along: usize, to: *mut $real, width: usize) {
            // SAFETY: the caller's promises.
            unsafe { $crate::transpose::$square(from, along, to, width) }
        }

        const LINE_STEPS: usize = $steps;

        #[inline(always)]
        unsafe fn transpose_lines<const LINES: usize>(
            from: *const $real,
            along: usize,
            to: *mut $real,
            width: usize,
        ) {
            // SAFETY: the caller's promises.
            unsafe { $crate::transpose::$lines::<LINES>(from, along, to, width) }
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use transposes;

/// For registers whose operands are packed by code of their own.
#[cfg(target_arch = "x86_64")]
macro_rules! no_transpose {
    () => {
        const SIDE: usize = 1;

        #[inline(always)]
        unsafe fn transpose(from: *const i32, _: usize, to: *mut i32, _: usize) {
            // SAFETY: the square's one element can be read.
            let element = unsafe { from.read() };
            // SAFETY: so can its place be written.
            unsafe { to.write(element) }
        }
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use no_transpose;
