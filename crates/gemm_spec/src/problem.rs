//! The problem: `C = alpha * A * B + beta * C`.

use core::fmt;

use crate::{Batch, BatchItem, Element, GemmTypes};

/// Which of a matrix's indices moves by one element in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Rows are contiguous: element (i, j) is at `i * ld + j` (C order).
    RowMajor,
    /// Columns are contiguous: element (i, j) is at `i + j * ld` (Fortran order).
    ColMajor,
}

/// How a matrix is in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Which index is contiguous.
    pub order: Order,
    /// Leading dimension, in elements: from one row (or column) to the next.
    pub ld: usize,
}

impl Layout {
    /// Contiguous rows that are `ld` elements apart.
    #[must_use]
    pub const fn row_major(ld: usize) -> Self {
        Self { order: Order::RowMajor, ld }
    }

    /// Contiguous columns that are `ld` elements apart.
    #[must_use]
    pub const fn col_major(ld: usize) -> Self {
        Self { order: Order::ColMajor, ld }
    }

    /// Offset of element (row, col), in elements.
    #[inline]
    #[must_use]
    pub const fn index(self, row: usize, col: usize) -> usize {
        match self.order {
            Order::RowMajor => row * self.ld + col,
            Order::ColMajor => col * self.ld + row,
        }
    }

    /// The same buffer seen as the transposed matrix.
    #[must_use]
    pub const fn transposed(self) -> Self {
        match self.order {
            Order::RowMajor => Self::col_major(self.ld),
            Order::ColMajor => Self::row_major(self.ld),
        }
    }

    /// Least leading dimension for a `rows` by `cols` matrix in this order.
    #[must_use]
    pub const fn min_ld(self, rows: usize, cols: usize) -> usize {
        match self.order {
            Order::RowMajor => cols,
            Order::ColMajor => rows,
        }
    }

    /// Lines of a `rows` by `cols` matrix, contiguous each, and the elements of a line.
    #[inline]
    pub(crate) const fn lines(self, rows: usize, cols: usize) -> (usize, usize) {
        match self.order {
            Order::RowMajor => (rows, cols),
            Order::ColMajor => (cols, rows),
        }
    }

    /// Whether a buffer of that many elements surely holds a `rows` by `cols` matrix in lines that do not
    /// overlap. Of an empty matrix it may not say so.
    #[inline]
    const fn fits(self, rows: usize, cols: usize, len: usize) -> bool {
        let (lines, line) = self.lines(rows, cols);
        let before = lines.saturating_sub(1) as u128 * self.ld as u128;
        (self.ld >= line) & (before + line as u128 <= len as u128)
    }

    /// Elements that a buffer needs for a `rows` by `cols` matrix: up to the last element, without
    /// the padding behind it. `None` where that does not fit in a `usize`.
    #[must_use]
    pub fn required_len(self, rows: usize, cols: usize) -> Option<usize> {
        if rows == 0 || cols == 0 {
            return Some(0);
        }
        let (lines, line) = self.lines(rows, cols);
        (lines - 1).checked_mul(self.ld)?.checked_add(line)
    }
}

/// One of the three matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The left factor, m by k.
    A,
    /// The right factor, k by n.
    B,
    /// The result, m by n.
    C,
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
        })
    }
}

/// Why buffers do not fit a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShapeError {
    /// A leading dimension is shorter than a row (or column).
    LeadingDimension {
        /// The matrix.
        operand: Operand,
        /// What was given.
        ld: usize,
        /// The least that works.
        min: usize,
    },
    /// A buffer ends before the matrix does.
    BufferTooShort {
        /// The matrix.
        operand: Operand,
        /// Elements in the buffer.
        len: usize,
        /// Elements needed.
        needed: usize,
    },
    /// The C of two products of a batch overlap.
    BatchStride {
        /// What was given.
        stride: usize,
        /// The least with which one C begins behind the other.
        min: usize,
    },
    /// The matrix has more elements than an address space holds.
    TooLarge {
        /// The matrix.
        operand: Operand,
        /// Its rows.
        rows: usize,
        /// Its columns.
        cols: usize,
    },
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::LeadingDimension { operand, ld, min } => {
                write!(f, "leading dimension of {operand} is {ld}, it must be at least {min}")
            }
            Self::BufferTooShort { operand, len, needed } => {
                write!(f, "the buffer of {operand} holds {len} elements, it needs {needed}")
            }
            Self::BatchStride { stride, min } => write!(
                f,
                "the products of a batch write C {stride} elements apart, which overlap; it must be at \
                 least {min}"
            ),
            Self::TooLarge { operand, rows, cols } => {
                write!(f, "{operand} of {rows} x {cols} has more bytes than can be addressed")
            }
        }
    }
}

impl core::error::Error for ShapeError {}

/// `C = alpha * A * B + beta * C` with A m by k, B k by n and C m by n.
///
/// `beta == 0` means that C is written without being read, `alpha == 0` that A and B are not read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Problem<T: GemmTypes> {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Factor of the product.
    pub alpha: T::Acc,
    /// Factor of the old C.
    pub beta: T::Acc,
    /// How A is in memory.
    pub a: Layout,
    /// How B is in memory.
    pub b: Layout,
    /// How C is in memory.
    pub c: Layout,
    /// How many such products there are, and where their operands are: the fields above are of each.
    pub batch: Batch,
}

impl<T: GemmTypes> Problem<T> {
    /// `C = A * B`, all row-major and tightly packed.
    #[must_use]
    pub const fn new(m: usize, n: usize, k: usize) -> Self {
        Self {
            m,
            n,
            k,
            alpha: T::Acc::ONE,
            beta: T::Acc::ZERO,
            a: Layout::row_major(k),
            b: Layout::row_major(n),
            c: Layout::row_major(n),
            batch: Batch::ONE,
        }
    }

    /// The same problem with other factors.
    #[must_use]
    pub const fn with_scalars(mut self, alpha: T::Acc, beta: T::Acc) -> Self {
        self.alpha = alpha;
        self.beta = beta;
        self
    }

    /// The same problem with other layouts.
    #[must_use]
    pub const fn with_layouts(mut self, a: Layout, b: Layout, c: Layout) -> Self {
        self.a = a;
        self.b = b;
        self.c = c;
        self
    }

    /// The same problem for several products.
    #[must_use]
    pub const fn with_batch(mut self, batch: Batch) -> Self {
        self.batch = batch;
        self
    }

    /// One of the products.
    #[must_use]
    pub const fn one(&self) -> Self {
        Self { batch: Batch::ONE, ..*self }
    }

    /// The same where k is not zero; else neither A nor B has elements, whatever its leading dimension says, and each is
    /// given the least that holds them.
    #[must_use]
    pub const fn without_elements(self) -> Self {
        if self.k != 0 {
            return self;
        }
        Self { a: Layout::row_major(0), b: Layout::row_major(self.n), ..self }
    }

    /// Where the operands of each product begin, in order. Offsets are right where
    /// [`Problem::check_buffers`] has passed.
    pub fn items(&self) -> impl ExactSizeIterator<Item = BatchItem> + use<T> {
        let problem = *self;
        (0..problem.batch.count).map(move |number| problem.item(number))
    }

    /// Where the operands of one product begin; as [`Problem::items`].
    #[must_use]
    pub const fn item(&self, number: usize) -> BatchItem {
        let Batch { a_stride, b_stride, c_stride, .. } = self.batch;
        BatchItem { a: number * a_stride, b: number * b_stride, c: number * c_stride }
    }

    /// Elements from an operand of one product to that of the next.
    pub(crate) const fn stride(&self, operand: Operand) -> usize {
        match operand {
            Operand::A => self.batch.a_stride,
            Operand::B => self.batch.b_stride,
            Operand::C => self.batch.c_stride,
        }
    }

    /// Rows and columns of an operand.
    #[must_use]
    pub const fn dims(&self, operand: Operand) -> (usize, usize) {
        match operand {
            Operand::A => (self.m, self.k),
            Operand::B => (self.k, self.n),
            Operand::C => (self.m, self.n),
        }
    }

    /// Layout of an operand.
    #[must_use]
    pub const fn layout(&self, operand: Operand) -> Layout {
        match operand {
            Operand::A => self.a,
            Operand::B => self.b,
            Operand::C => self.c,
        }
    }

    /// Floating-point operations: `2 m n k` for each product, always, whatever an implementation really
    /// does.
    #[must_use]
    pub fn flops(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64 * self.batch.count as f64
    }

    /// The k elements to sum: none where `alpha` is zero, since A and B are then not read.
    #[must_use]
    pub fn effective_k(&self) -> usize {
        if self.alpha == T::Acc::ZERO { 0 } else { self.k }
    }

    /// Elements that an operand's buffer must hold.
    ///
    /// # Errors
    /// [`ShapeError::LeadingDimension`], [`ShapeError::BatchStride`] and [`ShapeError::TooLarge`].
    pub fn required_len(&self, operand: Operand) -> Result<usize, ShapeError> {
        let (rows, cols) = self.dims(operand);
        let layout = self.layout(operand);
        let min = layout.min_ld(rows, cols);
        if layout.ld < min {
            return Err(ShapeError::LeadingDimension { operand, ld: layout.ld, min });
        }
        let size = T::TYPES.of(operand).size();
        let too_large = ShapeError::TooLarge { operand, rows, cols };
        let one = layout.required_len(rows, cols).ok_or(too_large)?;
        let len = match (self.batch.count, one) {
            (0, _) | (_, 0) => 0,
            (1, one) => one,
            (count, one) => {
                let stride = self.stride(operand);
                if operand == Operand::C && !self.is_apart(stride, one) {
                    return Err(ShapeError::BatchStride { stride, min: one });
                }
                let last = (count - 1).checked_mul(stride).ok_or(too_large)?;
                last.checked_add(one).ok_or(too_large)?
            }
        };
        let fits = len.checked_mul(size).is_some_and(|bytes| bytes <= isize::MAX as usize);
        fits.then_some(len).ok_or(too_large)
    }

    /// Whether no two C overlap that are `stride` elements apart and `len` long, each: one begins behind the
    /// other, or all of them are between the lines of the first.
    fn is_apart(&self, stride: usize, len: usize) -> bool {
        let (_, line) = self.c.lines(self.m, self.n);
        let lines_end =
            (self.batch.count - 1).checked_mul(stride).and_then(|at| at.checked_add(line));
        stride >= len || stride >= line && lines_end.is_some_and(|end| end <= self.c.ld)
    }

    /// Bytes of the three matrices of all products without padding; `None` where that overflows.
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        let mut bytes = 0usize;
        for operand in [Operand::A, Operand::B, Operand::C] {
            let (rows, cols) = self.dims(operand);
            let own = rows.checked_mul(cols)?.checked_mul(T::TYPES.of(operand).size())?;
            // One A or B for all products is there once.
            let shared = self.stride(operand) == 0 && self.batch.count != 0;
            let count = if shared { 1 } else { self.batch.count };
            bytes = bytes.checked_add(own.checked_mul(count)?)?;
        }
        Some(bytes)
    }

    /// Checks that buffers of these lengths hold the three matrices.
    ///
    /// # Errors
    /// The first [`ShapeError`] found, in the order A, B, C.
    #[inline]
    pub fn check_buffers(&self, a: usize, b: usize, c: usize) -> Result<(), ShapeError> {
        // A small product takes little longer than the words for what may be wrong with it.
        let [a_fits, b_fits, c_fits] = [
            self.a.fits(self.m, self.k, a),
            self.b.fits(self.k, self.n, b),
            self.c.fits(self.m, self.n, c),
        ];
        let most = isize::MAX as usize / T::TYPES.max_size();
        if self.batch.is_one() & a_fits & b_fits & c_fits & (a.max(b).max(c) <= most) {
            return Ok(());
        }
        for (operand, len) in [(Operand::A, a), (Operand::B, b), (Operand::C, c)] {
            let needed = self.required_len(operand)?;
            if len < needed {
                return Err(ShapeError::BufferTooShort { operand, len, needed });
            }
        }
        Ok(())
    }

    /// The same product written the other way round: `C^T = alpha * B^T * A^T + beta * C^T`.
    ///
    /// The buffers of A and B change places; none of them moves. It turns a column-major C into a
    /// row-major one, so that implementations need to know only the latter. `U` is `T` with the types of A
    /// and B exchanged: `T` itself where they are the same.
    #[must_use]
    pub const fn transposed<U>(&self) -> Problem<U>
    where
        U: GemmTypes<A = T::B, B = T::A, Acc = T::Acc, C = T::C>,
    {
        Problem {
            m: self.n,
            n: self.m,
            k: self.k,
            alpha: self.alpha,
            beta: self.beta,
            a: self.b.transposed(),
            b: self.a.transposed(),
            c: self.c.transposed(),
            batch: self.batch.transposed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The index figure of the book: row-major, index = row * size + col, M(1,0) of a 2 x 2 at 2.
    #[test]
    fn row_major_index_is_row_times_size_plus_col() {
        assert_eq!(Layout::row_major(2).index(1, 0), 2);
        assert_eq!(Layout::row_major(10).index(3, 4), 34);
        assert_eq!(Layout::col_major(10).index(3, 4), 43);
    }

    #[test]
    fn a_transposed_layout_reads_the_same_element() {
        for layout in [Layout::row_major(7), Layout::col_major(9)] {
            for row in 0..5 {
                for col in 0..5 {
                    assert_eq!(layout.index(row, col), layout.transposed().index(col, row));
                }
            }
        }
    }

    #[test]
    fn a_batch_needs_room_up_to_the_last_element_of_the_last_product() {
        let one = Problem::<f32>::new(3, 5, 4).with_layouts(
            Layout::row_major(6),
            Layout::row_major(5),
            Layout::row_major(7),
        );
        let batch = Batch { count: 3, a_stride: 20, b_stride: 0, c_stride: 19 };
        let all = one.with_batch(batch);
        let lens = [Operand::A, Operand::B, Operand::C].map(|operand| all.required_len(operand));
        assert_eq!(lens, [Ok(2 * 20 + 16), Ok(20), Ok(2 * 19 + 19)]);
        assert_eq!(all.check_buffers(56, 20, 57), Ok(()));
        let short = ShapeError::BufferTooShort { operand: Operand::C, len: 56, needed: 57 };
        assert_eq!(all.check_buffers(56, 20, 56), Err(short));
        let items: Vec<BatchItem> = all.items().collect();
        assert_eq!(items[2], BatchItem { a: 40, b: 0, c: 38 });
        assert_eq!((all.flops(), all.one()), (3.0 * one.flops(), one));
        // B is there once.
        assert_eq!(all.bytes(), Some(4 * (3 * 12 + 20 + 3 * 15)));
        let none = one.with_batch(Batch { count: 0, ..batch });
        assert_eq!((none.check_buffers(0, 0, 0), none.items().len()), (Ok(()), 0));
    }

    #[test]
    fn no_two_products_of_a_batch_write_the_same_element() {
        let problem = |ld, count, c_stride| {
            Problem::<f64>::new(4, 5, 2)
                .with_layouts(Layout::row_major(2), Layout::row_major(5), Layout::row_major(ld))
                .with_batch(Batch { count, a_stride: 0, b_stride: 0, c_stride })
        };
        // By their elements: whatever is found to be apart is, and what is refused does overlap or is so
        // interleaved that no index map of rows and columns makes it.
        for (ld, count, stride) in
            (5..20).flat_map(|ld| (2..4).flat_map(move |n| (0..80).map(move |s| (ld, n, s))))
        {
            let problem = problem(ld, count, stride);
            let mut seen = std::collections::HashSet::new();
            let apart = problem.items().all(|item| {
                (0..20).all(|at| seen.insert(item.c + problem.c.index(at / 5, at % 5)))
            });
            let refused = problem.required_len(Operand::C).is_err();
            assert!(apart || refused, "ld {ld}, {count} products, stride {stride}");
            assert!(!refused || stride < 3 * ld + 5, "ld {ld}, stride {stride}");
        }
        assert!(problem(15, 3, 5).required_len(Operand::C).is_ok(), "side by side");
        assert_eq!(
            problem(5, 2, 19).required_len(Operand::C),
            Err(ShapeError::BatchStride { stride: 19, min: 20 })
        );
        assert_eq!(
            problem(5, 2, usize::MAX).required_len(Operand::C),
            Err(ShapeError::TooLarge { operand: Operand::C, rows: 4, cols: 5 })
        );
    }

    #[test]
    fn required_length_stops_at_the_last_element() {
        for (layout, rows, cols) in [
            (Layout::row_major(7), 3, 5),
            (Layout::col_major(7), 5, 3),
            (Layout::row_major(5), 1, 5),
        ] {
            let last = layout.index(rows - 1, cols - 1);
            assert_eq!(layout.required_len(rows, cols), Some(last + 1));
        }
        assert_eq!(Layout::row_major(4).required_len(0, 4), Some(0));
        assert_eq!(Layout::row_major(usize::MAX).required_len(3, 4), None);
    }

    #[test]
    fn buffers_are_checked_operand_by_operand() {
        let problem = Problem::<f32>::new(2, 3, 4);
        assert_eq!(problem.check_buffers(8, 12, 6), Ok(()));
        assert_eq!(
            problem.check_buffers(8, 11, 6),
            Err(ShapeError::BufferTooShort { operand: Operand::B, len: 11, needed: 12 })
        );
        let narrow = Problem { c: Layout::row_major(2), ..problem };
        assert_eq!(
            narrow.check_buffers(8, 12, 6),
            Err(ShapeError::LeadingDimension { operand: Operand::C, ld: 2, min: 3 })
        );
        let huge = Problem::<f64>::new(1 << 31, 1 << 31, 1);
        assert!(matches!(
            huge.check_buffers(usize::MAX, usize::MAX, usize::MAX),
            Err(ShapeError::TooLarge { operand: Operand::C, .. })
        ));
        assert_eq!(Problem::<f32>::new(usize::MAX, usize::MAX, 1).bytes(), None);
    }

    /// What `check_buffers` lets through without a closer look is what a closer look lets through.
    #[test]
    fn buffers_that_fit_are_those_that_hold_the_last_element() {
        for layout in (0..5).flat_map(|ld| [Layout::row_major(ld), Layout::col_major(ld)]) {
            for (rows, cols, len) in
                (0..5).flat_map(|r| (0..5).flat_map(move |c| (0..21).map(move |len| (r, c, len))))
            {
                let closer = layout.ld >= layout.min_ld(rows, cols)
                    && layout.required_len(rows, cols).is_some_and(|needed| needed <= len);
                let fits = layout.fits(rows, cols, len);
                let empty = rows == 0 || cols == 0;
                assert!(fits == closer || empty && closer, "{layout:?} {rows} {cols} {len}");
            }
        }
        assert!(!Layout::row_major(usize::MAX).fits(3, 4, usize::MAX));
    }

    /// n * n wraps in 32 bits from n = 46341 on; here it must not.
    #[test]
    fn indices_above_two_to_the_31st_are_exact() {
        let layout = Layout::row_major(46_341);
        assert_eq!(layout.index(46_340, 46_340), 2_147_488_280);
        assert_eq!(Problem::<f32>::new(10_240, 10_240, 10_240).bytes(), Some(3 * 419_430_400));
        assert_eq!(Problem::<f32>::new(10_240, 10_240, 10_240).flops(), 2_147_483_648_000.0);
    }

    #[test]
    fn the_transposed_problem_reads_the_same_elements() {
        let problem = Problem::<f32>::new(2, 3, 4).with_layouts(
            Layout::row_major(5),
            Layout::col_major(6),
            Layout::col_major(7),
        );
        let other: Problem<f32> = problem.transposed();
        assert_eq!((other.m, other.n, other.k), (3, 2, 4));
        assert_eq!(other.c.order, Order::RowMajor);
        assert_eq!(other.a.index(1, 2), problem.b.index(2, 1));
        assert_eq!(other.b.index(2, 1), problem.a.index(1, 2));
        assert_eq!(other.transposed(), problem);
    }
}
