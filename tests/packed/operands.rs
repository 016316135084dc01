//! Drawn problems of any layout, and what is compared.

use std::num::NonZeroUsize;

use cpu_gemm::{CpuContext, CpuIsa, CpuTypes, CpuUnits, engine_sum, gemm_by};
use gemm_spec::{Convert, Element, GemmTypes, Layout, Operand, Problem, bf16, epilogue, f16};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What these tests need of an element.
pub(crate) trait Scalar: Element {
    /// A NaN, or a rare integer.
    const POISON: Self;

    /// The value of this type next to it or nearly so; integers saturate.
    fn from_f64(value: f64) -> Self;

    /// Whether both have the same bits.
    fn same_bits(self, other: Self) -> bool;

    /// Whether it is one.
    fn is_nan(self) -> bool;
}

macro_rules! scalar {
    ($($float:ident: $from:expr;)* / $($integer:ident)*) => {
        $(impl Scalar for $float {
            const POISON: Self = $float::NAN;

            fn from_f64(value: f64) -> Self {
                $from(value)
            }

            fn same_bits(self, other: Self) -> bool {
                self.to_bits() == other.to_bits()
            }

            fn is_nan(self) -> bool {
                $float::is_nan(self)
            }
        })*
        $(impl Scalar for $integer {
            const POISON: Self = $integer::MIN + 77;

            #[expect(clippy::cast_possible_truncation, reason = "it saturates")]
            fn from_f64(value: f64) -> Self {
                value as $integer
            }

            fn same_bits(self, other: Self) -> bool {
                self == other
            }

            fn is_nan(self) -> bool {
                false
            }
        })*
    };
}

#[expect(clippy::cast_possible_truncation, reason = "it rounds")]
const fn rounded(value: f64) -> f32 {
    value as f32
}

scalar!(
    f64: |value| value;
    f32: rounded;
    f16: |value| f16::narrow(rounded(value));
    bf16: |value| bf16::narrow(rounded(value));
    / i8 i32
);

/// Types of products whose operands can be drawn and compared.
pub(crate) trait ScalarTypes:
    CpuTypes + GemmTypes<A: Scalar, B: Scalar, Acc: Scalar, C: Scalar>
{
}

impl<T: CpuTypes + GemmTypes<A: Scalar, B: Scalar, Acc: Scalar, C: Scalar>> ScalarTypes for T {}

/// The engine's product, by whatever units keep its bits.
pub(crate) fn multiply<T: ScalarTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    context: &CpuContext,
) {
    gemm_by(CpuUnits::SameBits, problem, a, b, c, context).expect("the buffers fit");
}

/// The definition of products: each element the [`engine_sum`] of its products, or one chain of all of them, then
/// [`epilogue`].
#[inline(always)]
fn define<T: ScalarTypes, const ONE_CHAIN: bool>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
) {
    let &Problem { m, n, alpha, beta, .. } = problem;
    let k = problem.effective_k();
    for row in 0..m {
        for col in 0..n {
            let (a_at, b_at) = (|p| a[problem.a.index(row, p)], |p| b[problem.b.index(p, col)]);
            let sum = match ONE_CHAIN {
                true => (0..k).fold(T::Acc::ZERO, |sum, p| T::mul_add(a_at(p), b_at(p), sum)),
                false => engine_sum(
                    k,
                    #[inline(always)]
                    |p, sum| T::mul_add(a_at(p), b_at(p), sum),
                ),
            };
            let c = &mut c[problem.c.index(row, col)];
            *c = epilogue(alpha, sum, beta, || *c);
        }
    }
}

/// The same with an instruction for multiply-adds, which are functions without.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn define_by_instructions<T: ScalarTypes, const ONE_CHAIN: bool>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
) {
    define::<T, ONE_CHAIN>(problem, a, b, c);
}

pub(crate) fn context(isa: CpuIsa, threads: usize) -> CpuContext {
    CpuContext::with_isa(NonZeroUsize::new(threads), isa).expect("the CPU has it")
}

/// Operands of a problem, in buffers that end with their last element. What must not be read is NaN.
pub(crate) struct Operands<T: ScalarTypes> {
    pub(crate) problem: Problem<T>,
    pub(crate) a: Vec<T::A>,
    pub(crate) b: Vec<T::B>,
    pub(crate) c: Vec<T::C>,
}

impl<T: ScalarTypes> Operands<T> {
    pub(crate) fn draw(problem: Problem<T>, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let read = problem.effective_k() > 0;
        let a = drawn(&problem, Operand::A, read, &mut random);
        let b = drawn(&problem, Operand::B, read, &mut random);
        let c = drawn(&problem, Operand::C, problem.beta != T::Acc::ZERO, &mut random);
        Self { problem, a, b, c }
    }

    /// The engine's result.
    pub(crate) fn multiplied(&self, context: &CpuContext) -> Vec<T::C> {
        let mut c = self.c.clone();
        multiply(&self.problem, &self.a, &self.b, &mut c, context);
        c
    }

    /// What the definition of the engine's sums gives.
    pub(crate) fn expected(&self) -> Vec<T::C> {
        self.defined::<false>()
    }

    /// What sums of one chain each would give.
    pub(crate) fn in_one_chain(&self) -> Vec<T::C> {
        self.defined::<true>()
    }

    /// What a definition gives for row-major copies, put where C's layout says.
    fn defined<const ONE_CHAIN: bool>(&self) -> Vec<T::C> {
        let Problem { m, n, k, .. } = self.problem;
        let plain = Problem::<T>::new(m, n, k).with_scalars(self.problem.alpha, self.problem.beta);
        let problem = &self.problem;
        let a = copied(problem, Operand::A, &self.a);
        let b = copied(problem, Operand::B, &self.b);
        let mut found = copied(problem, Operand::C, &self.c);
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the CPU has both, and the system saves their registers.
            unsafe { define_by_instructions::<T, ONE_CHAIN>(&plain, &a, &b, &mut found) };
        } else {
            define::<T, ONE_CHAIN>(&plain, &a, &b, &mut found);
        }
        #[cfg(not(target_arch = "x86_64"))]
        define::<T, ONE_CHAIN>(&plain, &a, &b, &mut found);
        // Padding stays as it was.
        let mut c = self.c.clone();
        for row in 0..m {
            for col in 0..n {
                c[self.problem.c.index(row, col)] = found[row * n + col];
            }
        }
        c
    }
}

/// An operand of random elements; of small integers all that there are, the least and the largest often.
pub(crate) fn drawn<T: ScalarTypes, E: Scalar>(
    problem: &Problem<T>,
    operand: Operand,
    read: bool,
    random: &mut Xoshiro256PlusPlus,
) -> Vec<E> {
    let (rows, cols) = problem.dims(operand);
    let layout = problem.layout(operand);
    let mut data = vec![E::POISON; layout.required_len(rows, cols).expect("it is small")];
    let range = if size_of::<E>() == 1 { 160.0 } else { 8.0 };
    if read {
        for row in 0..rows {
            for col in 0..cols {
                data[layout.index(row, col)] = E::from_f64(random.random_range(-range..range));
            }
        }
    }
    data
}

/// A row-major copy of an operand.
pub(crate) fn copied<T: ScalarTypes, E: Scalar>(
    problem: &Problem<T>,
    operand: Operand,
    data: &[E],
) -> Vec<E> {
    let (rows, cols) = problem.dims(operand);
    let layout = problem.layout(operand);
    (0..rows * cols).map(|i| data[layout.index(i / cols, i % cols)]).collect()
}

/// The first difference in bits, NaN being like any other NaN.
pub(crate) fn difference<T: Scalar>(found: &[T], expected: &[T]) -> Option<String> {
    let same = |x: T, y: T| x.same_bits(y) || (x.is_nan() && y.is_nan());
    let at = found.iter().zip(expected).position(|(&x, &y)| !same(x, y))?;
    Some(format!(
        "element {at} of C's buffer is {:?}, by the definition {:?}",
        found[at], expected[at]
    ))
}

pub(crate) fn layout(random: &mut Xoshiro256PlusPlus, rows: usize, cols: usize) -> Layout {
    let padding = [0, 0, 1, 3, 16][random.random_range(0..5)];
    match random.random::<bool>() {
        true => Layout::row_major(cols + padding),
        false => Layout::col_major(rows + padding),
    }
}

/// A problem with sizes round those where tiles and blocks end.
pub(crate) fn some_problem<T: ScalarTypes>(random: &mut Xoshiro256PlusPlus) -> Problem<T> {
    const EDGES: [usize; 22] =
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 23, 31, 33, 47, 48, 49, 65, 97, 129];
    const DEEP: [usize; 13] = [1, 2, 7, 8, 9, 15, 17, 64, 129, 257, 385, 790, 1100];
    let mut size = || match random.random_range(0..4) {
        0 => random.random_range(1..200),
        _ => EDGES[random.random_range(0..EDGES.len())],
    };
    let (m, n) = (size(), size());
    let k = DEEP[random.random_range(0..DEEP.len())];
    let factors = [0.0, 1.0, -1.0, 1.5];
    let mut factor = || T::Acc::from_f64(factors[random.random_range(0..factors.len())]);
    let (alpha, beta) = (factor(), factor());
    Problem::new(m, n, k).with_scalars(alpha, beta).with_layouts(
        layout(random, m, k),
        layout(random, k, n),
        layout(random, m, n),
    )
}
