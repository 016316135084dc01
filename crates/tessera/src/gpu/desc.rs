//! What a product on the device is: types, sizes, layouts, batch and scalars.

use std::any::Any;
use std::fmt;

use gemm_spec::split::Limbs;
use gemm_spec::{Accumulator, Batch, Epilogue, Layout, Operand, Order, Problem, ShapeError, Types};

use crate::accuracy::Accuracy;
use crate::element::GemmTypes;

/// `D = alpha * A * B + beta * C` on the device, with A m by k, B k by n, C and D m by n; or several such
/// products.
///
/// It is plain data: [`Plan::new`](super::Plan::new) checks it and picks a kernel by it. `beta == 0` means
/// that C is not read, `alpha == 0` that neither A nor B is.
///
/// ```
/// use tessera::gpu::GemmDesc;
/// use tessera::{Layout, Types};
///
/// // Columns of A and B are contiguous, as in BLAS; A is part of a taller matrix.
/// let desc = GemmDesc::new(Types::F32, 100, 50, 30)
///     .with_layouts(Layout::col_major(128), Layout::col_major(30), Layout::col_major(100))
///     .with_scalars(2.0, 1.0);
/// assert_eq!(desc.to_string(), "f32 100 x 50 x 30");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GemmDesc {
    /// The types of A, B, sums with alpha and beta, and of C and D.
    pub types: Types,
    /// Rows of A, C and D.
    pub m: usize,
    /// Columns of B, C and D.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// How A is in memory.
    pub a: Layout,
    /// How B is in memory.
    pub b: Layout,
    /// How C is in memory.
    pub c: Layout,
    /// How D is in memory.
    pub d: Layout,
    /// How many products there are, and where their operands are.
    pub batch: GemmBatch,
    /// Factor of the product, which becomes a number of the sums' type.
    pub alpha: f64,
    /// Factor of C, which becomes a number of the sums' type.
    pub beta: f64,
    /// What the choice of a kernel keeps to.
    pub accuracy: Accuracy,
    /// What is done besides that before D is stored; its numbers are given when the plan runs.
    pub epilogue: Epilogue,
    /// From the epilogue's bias of one product to that of the next, in elements; 0 where all have the same.
    pub bias_stride: usize,
    /// A factor that is split into limbs once, by [`Plan::prepare`](super::Plan::prepare), for any number of runs.
    pub prepared: Option<Preparation>,
}

/// Which factor of an f32 product is split into limbs before it runs, and which limbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preparation {
    /// A or B.
    pub factor: Operand,
    /// What each element becomes.
    pub limbs: Limbs,
}

/// How many products a [`GemmDesc`] is, and where their operands are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GemmBatch {
    /// Each operand of a product is as many elements behind that of the product before. A stride of 0 gives
    /// all products the same A, B or C. No two D overlap.
    Strided {
        /// Products.
        count: usize,
        /// From one A to the next.
        a_stride: usize,
        /// From one B to the next.
        b_stride: usize,
        /// From one C to the next.
        c_stride: usize,
        /// From one D to the next.
        d_stride: usize,
    },
    /// Each product has addresses of its own, which
    /// [`Plan::run_array`](super::Plan::run_array) takes from a slice.
    Pointers {
        /// Products.
        count: usize,
    },
    /// Each product has a group of the rows of one A, one C and one D, as the tokens of an expert, and a B of its own.
    /// Only the device knows how many: [`Plan::run_groups`](super::Plan::run_groups) takes an array of the
    /// rows before which each group ends, which is where the next one begins. `m` is the rows of all groups at most.
    /// A, C and D are row-major, and products of 16-bit floats have kernels for it.
    RowGroups {
        /// Products.
        count: usize,
        /// From one B to the next. A stride of 0 gives all products the same B.
        b_stride: usize,
    },
}

impl GemmBatch {
    /// One product.
    pub const ONE: Self =
        Self::Strided { count: 1, a_stride: 0, b_stride: 0, c_stride: 0, d_stride: 0 };

    /// How many products there are.
    #[must_use]
    pub const fn count(self) -> usize {
        match self {
            Self::Strided { count, .. }
            | Self::Pointers { count }
            | Self::RowGroups { count, .. } => count,
        }
    }

    /// From the A, B, C and D of one product to those of the next, in elements; zeros where each has an address of
    /// its own.
    pub(super) const fn strides(self) -> [usize; 4] {
        match self {
            Self::Strided { a_stride, b_stride, c_stride, d_stride, .. } => {
                [a_stride, b_stride, c_stride, d_stride]
            }
            Self::RowGroups { b_stride, .. } => [0, b_stride, 0, 0],
            Self::Pointers { .. } => [0; 4],
        }
    }

    /// How many products begin at an address that a run is given.
    pub(super) const fn at_an_address(self) -> usize {
        match self {
            Self::Strided { count, .. } | Self::RowGroups { count, .. } => count,
            Self::Pointers { .. } => 1,
        }
    }
}

impl GemmDesc {
    /// `D = A * B`, all row-major and tightly packed.
    #[must_use]
    pub const fn new(types: Types, m: usize, n: usize, k: usize) -> Self {
        Self {
            types,
            m,
            n,
            k,
            a: Layout::row_major(k),
            b: Layout::row_major(n),
            c: Layout::row_major(n),
            d: Layout::row_major(n),
            batch: GemmBatch::ONE,
            alpha: 1.0,
            beta: 0.0,
            accuracy: Accuracy::Fp32,
            epilogue: Epilogue::NONE,
            bias_stride: 0,
            prepared: None,
        }
    }

    /// The same product as a problem of the library, with D in the place of C.
    #[must_use]
    pub fn of<T: GemmTypes>(problem: &Problem<T>) -> Self {
        let Problem { m, n, k, alpha, beta, a, b, c, batch } = *problem;
        let Batch { count, a_stride, b_stride, c_stride } = batch;
        Self {
            batch: GemmBatch::Strided { count, a_stride, b_stride, c_stride, d_stride: c_stride },
            ..Self::new(T::TYPES, m, n, k)
                .with_layouts(a, b, c)
                .with_scalars(scalar_value(alpha), scalar_value(beta))
        }
    }

    /// The same with other layouts; D has that of C.
    #[must_use]
    pub const fn with_layouts(self, a: Layout, b: Layout, c: Layout) -> Self {
        Self { a, b, c, d: c, ..self }
    }

    /// The same with a D of another layout than C.
    #[must_use]
    pub const fn with_d(self, d: Layout) -> Self {
        Self { d, ..self }
    }

    /// The same with other factors.
    #[must_use]
    pub const fn with_scalars(self, alpha: f64, beta: f64) -> Self {
        Self { alpha, beta, ..self }
    }

    /// Several such products.
    #[must_use]
    pub const fn with_batch(self, batch: GemmBatch) -> Self {
        Self { batch, ..self }
    }

    /// The same with another accuracy contract.
    #[must_use]
    pub const fn with_accuracy(self, accuracy: Accuracy) -> Self {
        Self { accuracy, ..self }
    }

    /// The same with an epilogue: `D = act(alpha * A * B + beta * C + bias)` and more, see
    /// [`gemm_spec::fusion`].
    #[must_use]
    pub const fn with_epilogue(self, epilogue: Epilogue) -> Self {
        Self { epilogue, ..self }
    }

    /// The same with a bias for each product of a batch, that many elements from one to the next.
    #[must_use]
    pub const fn with_bias_stride(self, bias_stride: usize) -> Self {
        Self { bias_stride, ..self }
    }

    /// The same with a factor that [`Plan::prepare`](super::Plan::prepare) splits, once, by a kernel that multiplies
    /// such limbs. All products of a batch have that factor in common.
    #[must_use]
    pub const fn with_prepared(self, factor: Operand, limbs: Limbs) -> Self {
        Self { prepared: Some(Preparation { factor, limbs }), ..self }
    }

    /// Whether A and B are read, or may be.
    #[must_use]
    pub fn reads_factors(&self) -> bool {
        self.k != 0 && self.scalars().0 != 0.0
    }

    /// Whether C is read, or may be.
    #[must_use]
    pub fn reads_c(&self) -> bool {
        self.beta != 0.0 || self.epilogue.device_scalars
    }

    /// The scalars as a kernel is given them: those in device memory take their places.
    pub(super) const fn scalars(&self) -> (f64, f64) {
        if self.epilogue.device_scalars { (1.0, 0.0) } else { (self.alpha, self.beta) }
    }

    /// Whether nothing is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.m == 0 || self.n == 0 || self.batch.count() == 0
    }

    /// The matrices by their names, with their sizes, layouts, and elements from one product's to the next's.
    pub(super) fn matrices(&self) -> [Described; 4] {
        let [a_stride, b_stride, c_stride, d_stride] = self.batch.strides();
        let Self { types, m, n, k, a, b, c, d, .. } = *self;
        let of = |name, operand, (rows, cols), layout, stride| Described {
            name,
            operand,
            bytes: types.of(operand).size(),
            used: match name {
                "A" | "B" => self.reads_factors(),
                "C" => self.reads_c(),
                _ => true,
            },
            rows,
            cols,
            layout,
            stride,
        };
        [
            of("A", Operand::A, (m, k), a, a_stride),
            of("B", Operand::B, (k, n), b, b_stride),
            of("C", Operand::C, (m, n), c, c_stride),
            of("D", Operand::C, (m, n), d, d_stride),
        ]
    }

    /// Checks that the layouts hold the matrices and that no two D overlap.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub(super) fn check(&self) -> Result<(), String> {
        for matrix in self.matrices().iter().filter(|matrix| matrix.used) {
            matrix.extent(self.batch.count()).map_err(|why| of_d(why, matrix.name))?;
        }
        // D may not overlap itself: C of the library's problem may not, and D takes its place.
        if let GemmBatch::Strided { count, d_stride, .. } = self.batch {
            let batch = Batch { count, a_stride: 0, b_stride: 0, c_stride: d_stride };
            let problem = Problem::<f32>::new(self.m, self.n, 0)
                .with_layouts(Layout::row_major(0), Layout::row_major(self.n), self.d)
                .with_batch(batch);
            let apart = problem.required_len(Operand::C);
            if let Err(why @ ShapeError::BatchStride { .. }) = apart {
                return Err(of_d(why, "D"));
            }
        }
        if let GemmBatch::RowGroups { .. } = self.batch {
            let matrices = self.matrices();
            let grouped = matrices.iter().filter(|matrix| matrix.used && matrix.name != "B");
            if let Some(matrix) = grouped.into_iter().find(|matrix| !matrix.is_row_major()) {
                let name = matrix.name;
                return Err(format!(
                    "{name} is column-major, and must be row-major to have groups of rows"
                ));
            }
        }
        if let Some(prepared) = self.prepared {
            prepared.check(self)?;
        }
        self.epilogue.check(self.types)?;
        for (name, value) in [("alpha", self.alpha), ("beta", self.beta)] {
            if self.types.is_integer()
                && (value.fract() != 0.0 || f64::from(nearest(value).1) != value)
            {
                return Err(format!("{name} is {value}, and must be a number of i32"));
            }
            let (rounded, _) = nearest(value);
            if self.types.acc() == gemm_spec::AccType::F32
                && value.is_finite()
                && (!rounded.is_finite() || rounded == 0.0 && value != 0.0)
            {
                return Err(format!("{name} is {value}, which becomes {rounded} in f32"));
            }
        }
        Ok(())
    }

    /// The same product with a row-major D: a column-major one is the row-major D^T, for which A and B change
    /// places. Whether they did is the second value.
    pub(super) fn canonical(&self) -> (Self, bool) {
        match self.d.order {
            Order::RowMajor => (*self, false),
            Order::ColMajor => (self.transposed(), true),
        }
    }

    fn transposed(&self) -> Self {
        let types = *self;
        let exchanged = |it: &Types| {
            (it.a(), it.b(), it.c()) == (types.types.b(), types.types.a(), types.types.c())
        };
        Self {
            // Both factors are of one type so far.
            types: Types::ALL.into_iter().find(exchanged).unwrap_or(self.types),
            m: self.n,
            n: self.m,
            a: self.b.transposed(),
            b: self.a.transposed(),
            c: self.c.transposed(),
            d: self.d.transposed(),
            epilogue: self.epilogue.transposed(),
            prepared: self.prepared.map(Preparation::transposed),
            batch: match self.batch {
                GemmBatch::Strided { count, a_stride, b_stride, c_stride, d_stride } => {
                    let (a_stride, b_stride) = (b_stride, a_stride);
                    GemmBatch::Strided { count, a_stride, b_stride, c_stride, d_stride }
                }
                // Groups of rows are refused of a column-major D.
                other @ (GemmBatch::Pointers { .. } | GemmBatch::RowGroups { .. }) => other,
            },
            ..*self
        }
    }

    /// One of the products as a problem of the library: with D in the place of C.
    pub(super) fn problem<T: GemmTypes>(&self) -> Problem<T> {
        let (alpha, beta) = self.scalars();
        Problem::new(self.m, self.n, self.k)
            .with_layouts(self.a, self.b, self.d)
            .with_scalars(scalar_of(alpha), scalar_of(beta))
            .without_elements()
    }
}

impl fmt::Display for GemmDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { types, m, n, k, batch, .. } = self;
        write!(f, "{types} {m} x {n} x {k}")?;
        match batch.count() {
            1 => Ok(()),
            count => write!(f, ", {count} products"),
        }
    }
}

impl Preparation {
    /// Checks that there is such a factor, which all products have in common.
    fn check(self, desc: &GemmDesc) -> Result<(), String> {
        let [a_stride, b_stride, ..] = desc.batch.strides();
        let (name, stride) = match self.factor {
            Operand::A => ("A", a_stride),
            Operand::B => ("B", b_stride),
            Operand::C => {
                return Err("C is prepared, and must be A or B: it is no factor".to_owned());
            }
        };
        if desc.types != Types::F32 {
            return Err(format!(
                "{name} is prepared, and only factors of f32 are split into limbs"
            ));
        }
        let has_own = matches!(desc.batch, GemmBatch::Pointers { .. });
        if has_own || stride != 0 && desc.batch.count() > 1 {
            return Err(format!("{name} is prepared, and each product has one of its own"));
        }
        Ok(())
    }

    /// The same of the transposed product.
    const fn transposed(self) -> Self {
        let factor = match self.factor {
            Operand::A => Operand::B,
            Operand::B => Operand::A,
            Operand::C => Operand::C,
        };
        Self { factor, ..self }
    }
}

impl fmt::Display for Preparation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limbs = match self.limbs {
            Limbs::TwoF16 => "two limbs of f16",
            Limbs::ThreeBf16 => "three limbs of bf16",
        };
        write!(f, "{:?} in {limbs}", self.factor)
    }
}

/// One of the matrices of a descriptor.
#[derive(Clone, Copy)]
pub(super) struct Described {
    pub(super) name: &'static str,
    operand: Operand,
    /// Bytes of an element.
    pub(super) bytes: usize,
    /// Whether it is read or written at all.
    pub(super) used: bool,
    rows: usize,
    cols: usize,
    layout: Layout,
    /// From that of one product to that of the next, in elements.
    stride: usize,
}

impl Described {
    fn is_row_major(&self) -> bool {
        self.layout.order == Order::RowMajor
    }

    /// Lines of contiguous elements, bytes of a line, and bytes from one to the next.
    pub(super) fn lines(&self) -> (usize, usize, usize) {
        let (lines, line) = match self.layout.order {
            Order::RowMajor => (self.rows, self.cols),
            Order::ColMajor => (self.cols, self.rows),
        };
        (lines, line * self.bytes, self.layout.ld * self.bytes)
    }

    /// Bytes from that of one product to that of the next.
    pub(super) fn stride_bytes(&self) -> u64 {
        self.stride as u64 * self.bytes as u64
    }

    /// Bytes from the first element of the first product to the last of the last.
    pub(super) fn extent(&self, count: usize) -> Result<usize, ShapeError> {
        let Self { operand, rows, cols, layout, stride, .. } = *self;
        let min = layout.min_ld(rows, cols);
        if layout.ld < min {
            return Err(ShapeError::LeadingDimension { operand, ld: layout.ld, min });
        }
        let too_large = ShapeError::TooLarge { operand, rows, cols };
        let one = layout.required_len(rows, cols).ok_or(too_large)?;
        if count == 0 || one == 0 {
            return Ok(0);
        }
        let last = (count - 1).checked_mul(stride).ok_or(too_large)?;
        let bytes = last.checked_add(one).and_then(|len| len.checked_mul(self.bytes));
        bytes.filter(|&bytes| bytes <= isize::MAX as usize).ok_or(too_large)
    }
}

/// What is wrong with a matrix, by its name: D has the name of C where shapes are checked.
fn of_d(why: ShapeError, name: &str) -> String {
    let text = why.to_string();
    match name {
        "D" => text.replace(" C ", " D ").replace("of C", "of D"),
        _ => text,
    }
}

/// The nearest numbers of f32 and of i32.
#[expect(clippy::cast_possible_truncation, reason = "the nearest number is wanted")]
const fn nearest(value: f64) -> (f32, i32) {
    (value as f32, value as i32)
}

/// A number of a sums' type: f32, f64 or i32.
fn scalar_of<S: Accumulator>(value: f64) -> S {
    let (single, integer) = nearest(value);
    let known: [&dyn Any; 3] = [&single, &value, &integer];
    let found = known.into_iter().find_map(|known| known.downcast_ref::<S>());
    *found.expect("invariant: sums are of f32, f64 or i32")
}

/// The value of such a number, all of which f64 holds.
fn scalar_value<S: Accumulator>(number: S) -> f64 {
    let number: &dyn Any = &number;
    let single = number.downcast_ref::<f32>().map(|&value| f64::from(value));
    let double = number.downcast_ref::<f64>().copied();
    let integer = number.downcast_ref::<i32>().map(|&value| f64::from(value));
    single.or(double).or(integer).expect("invariant: sums are of f32, f64 or i32")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_of_the_library_keeps_its_numbers() {
        let problem = Problem::<i32>::new(3, 5, 7).with_scalars(i32::MIN, i32::MAX);
        let desc = GemmDesc::of(&problem);
        assert_eq!(desc.problem::<i32>(), problem);
        let problem = Problem::<f32>::new(3, 5, 7).with_scalars(0.1, f32::MIN_POSITIVE);
        assert_eq!(GemmDesc::of(&problem).problem::<f32>(), problem);
    }

    #[test]
    fn what_does_not_fit_is_said_of_the_matrix_that_it_is_of() {
        let desc = GemmDesc::new(Types::F32, 4, 6, 5);
        assert_eq!(desc.check(), Ok(()));
        let short = desc.with_d(Layout::row_major(5)).check().unwrap_err();
        assert_eq!(short, "leading dimension of D is 5, it must be at least 6");
        // C is not read, and may be anything.
        let unread = GemmDesc { c: Layout::row_major(0), ..desc };
        assert_eq!(unread.check(), Ok(()));
        let read = unread.with_scalars(1.0, 1.0).check().unwrap_err();
        assert_eq!(read, "leading dimension of C is 0, it must be at least 6");
        let overlapping =
            GemmBatch::Strided { count: 2, a_stride: 0, b_stride: 0, c_stride: 0, d_stride: 23 };
        let refused = desc.with_batch(overlapping).check().unwrap_err();
        assert!(refused.contains("write D 23 elements apart"), "{refused}");
        let fraction = GemmDesc::new(Types::I32, 1, 1, 1).with_scalars(0.5, 0.0);
        assert_eq!(fraction.check().unwrap_err(), "alpha is 0.5, and must be a number of i32");
        let tiny = desc.with_scalars(1e-60, 0.0).check().unwrap_err();
        assert!(tiny.contains("becomes 0"), "{tiny}");
        let huge = GemmDesc::new(Types::F64, usize::MAX, 2, 2).check().unwrap_err();
        assert!(huge.contains("more bytes than can be addressed"), "{huge}");
    }

    #[test]
    fn a_column_major_d_exchanges_the_factors() {
        let desc = GemmDesc::new(Types::F64, 3, 5, 7).with_layouts(
            Layout::row_major(7),
            Layout::col_major(9),
            Layout::col_major(4),
        );
        let (canonical, exchanged) = desc.canonical();
        assert!(exchanged && canonical.check().is_ok());
        assert_eq!(canonical.problem::<f64>(), desc.problem::<f64>().transposed());
        assert!(!canonical.canonical().1);
    }
}
