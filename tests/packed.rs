//! What `cpu_packed` promises, on every instruction set that this CPU has: the bits of `serial` for any
//! shape, storage order, part, thread count and caller; nothing read or written that is not an operand.

#[path = "packed/pages.rs"]
mod pages;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

use gemm_spec::{Convert, Element};
use lab::cpu::{CPU, CpuContext, CpuImpl, CpuIsa};
use lab::{
    Layout, Operand, Order, Problem, Scalar, ScalarTypes, Types, bf16, f16, with_gemm_types,
};
use pages::Fenced;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

fn packed() -> &'static CpuImpl {
    CPU.iter().find(|implementation| implementation.id == "cpu_packed").expect("it is registered")
}

fn context(isa: CpuIsa, threads: usize) -> CpuContext {
    CpuContext::with_isa(NonZeroUsize::new(threads), isa).expect("the CPU has it")
}

/// Operands of a problem, in buffers that end with their last element. What must not be read is NaN.
struct Operands<T: ScalarTypes> {
    problem: Problem<T>,
    a: Vec<T::A>,
    b: Vec<T::B>,
    c: Vec<T::C>,
}

impl<T: ScalarTypes> Operands<T> {
    fn draw(problem: Problem<T>, seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let read = problem.effective_k() > 0;
        let a = drawn(&problem, Operand::A, read, &mut random);
        let b = drawn(&problem, Operand::B, read, &mut random);
        let c = drawn(&problem, Operand::C, problem.beta != T::Acc::ZERO, &mut random);
        Self { problem, a, b, c }
    }

    fn by(&self, implementation: &CpuImpl, context: &CpuContext) -> Vec<T::C> {
        let mut c = self.c.clone();
        implementation
            .gemm::<T>(&self.problem, &self.a, &self.b, &mut c, context)
            .expect("the buffers fit");
        c
    }

    /// The definition of correct: `serial` on row-major copies, put where C's layout says.
    fn expected(&self) -> Vec<T::C> {
        let Problem { m, n, k, .. } = self.problem;
        let plain = Problem::<T>::new(m, n, k).with_scalars(self.problem.alpha, self.problem.beta);
        let problem = &self.problem;
        let a = copied(problem, Operand::A, &self.a);
        let b = copied(problem, Operand::B, &self.b);
        let mut found = copied(problem, Operand::C, &self.c);
        let one = context(CpuIsa::Portable, 1);
        CPU[0].gemm::<T>(&plain, &a, &b, &mut found, &one).expect("the buffers fit");
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
fn drawn<T: ScalarTypes, E: Scalar>(
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
fn copied<T: ScalarTypes, E: Scalar>(problem: &Problem<T>, operand: Operand, data: &[E]) -> Vec<E> {
    let (rows, cols) = problem.dims(operand);
    let layout = problem.layout(operand);
    (0..rows * cols).map(|i| data[layout.index(i / cols, i % cols)]).collect()
}

/// The first difference in bits, NaN being like any other NaN.
fn difference<T: Scalar>(found: &[T], expected: &[T]) -> Option<String> {
    let same = |x: T, y: T| x.same_bits(y) || (x.is_nan() && y.is_nan());
    let at = found.iter().zip(expected).position(|(&x, &y)| !same(x, y))?;
    Some(format!("element {at} of C's buffer is {}, serial has {}", found[at], expected[at]))
}

fn layout(random: &mut Xoshiro256PlusPlus, rows: usize, cols: usize) -> Layout {
    let padding = [0, 0, 1, 3, 16][random.random_range(0..5)];
    match random.random::<bool>() {
        true => Layout::row_major(cols + padding),
        false => Layout::col_major(rows + padding),
    }
}

/// A problem with sizes round those where tiles and blocks end.
fn some_problem<T: ScalarTypes>(random: &mut Xoshiro256PlusPlus) -> Problem<T> {
    const EDGES: [usize; 22] =
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 23, 31, 33, 47, 48, 49, 65, 97, 129];
    const DEEP: [usize; 12] = [1, 2, 7, 8, 9, 15, 17, 64, 129, 257, 385, 790];
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

fn any_problem_has_the_bits_of_serial<T: ScalarTypes>(cases: u64) {
    let contexts: Vec<_> = CpuIsa::available()
        .flat_map(|isa| [1, 2, 5].map(|threads| context(isa, threads)))
        .collect();
    for seed in 0..cases {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let operands = Operands::draw(some_problem::<T>(&mut random), seed);
        let expected = operands.expected();
        for context in &contexts {
            let found = operands.by(packed(), context);
            if let Some(what) = difference(&found, &expected) {
                let (isa, threads) = (context.isa(), context.threads());
                panic!("{isa}, {threads} threads, {:?}: {what}", operands.problem);
            }
        }
    }
}

/// A test for the types of each product.
macro_rules! any_problem_has_the_bits_of_serial {
    ([] $({
        $(#[$condition:meta])? $variant:ident, $name:ident, $types:ty, $four:tt, $usual:ident
    })+) => {
        mod any_problem_has_the_bits_of_serial_in {
            $(
                #[test]
                fn $name() {
                    super::any_problem_has_the_bits_of_serial::<$types>(300);
                }
            )+
        }
    };
}

gemm_spec::for_each_gemm_types!([any_problem_has_the_bits_of_serial]);

/// Larger than every block, so that all five loops turn more than once.
#[test]
fn many_blocks_have_the_bits_of_serial() {
    // The others are in the same blocks as one of these.
    let packed_alike = [Types::F64, Types::I32, Types::F16F32];
    for types in Types::ALL.into_iter().filter(|types| !packed_alike.contains(types)) {
        with_gemm_types!(types, T => many_blocks::<T>());
    }
}

fn many_blocks<T: ScalarTypes>() {
    for isa in CpuIsa::available().filter(|&isa| isa != CpuIsa::Portable) {
        for (m, n, k) in [
            (1500, 70, 900),
            (70, 1500, 900),
            (50, 60, 5003),
            (9000, 9, 40),
            (3, 5000, 70),
            (9000, 1, 300),
            (1, 9000, 300),
            (13, 4000, 300),
            (7, 4000, 300),
        ] {
            for (beta, b, padding) in
                [(0.0, Layout::row_major(n), 1), (0.5, Layout::col_major(k), 0)]
            {
                let problem = Problem::<T>::new(m, n, k)
                    .with_scalars(T::Acc::from_f64(1.5), T::Acc::from_f64(beta))
                    .with_layouts(Layout::row_major(k), b, Layout::row_major(n + padding));
                let operands = Operands::draw(problem, 7);
                let found = operands.by(packed(), &context(isa, 3));
                assert_eq!(difference(&found, &operands.expected()), None, "{isa} {problem:?}");
            }
        }
    }
}

/// Wherever operands begin: which tiles are short, and whether A is packed before tiles or on their way,
/// depends on how rows lie to cache lines.
#[test]
fn operands_may_begin_anywhere() {
    any_beginning::<f32>();
    any_beginning::<f64>();
}

fn any_beginning<T: ScalarTypes>() {
    let (m, n, k) = (400, 176, 530);
    // Leading dimensions of whole lines in all types.
    for layout in [Layout::row_major, Layout::col_major] {
        let problem = Problem::<T>::new(m, n, k)
            .with_scalars(T::Acc::from_f64(1.5), T::Acc::from_f64(0.5))
            .with_layouts(layout(544), layout(544), layout(544));
        let operands = Operands::draw(problem, 5);
        let expected = operands.expected();
        for isa in CpuIsa::available() {
            for (threads, of_factors, of_c) in
                [(1, 0, 0), (1, 4, 4), (1, 4, 0), (2, 0, 0), (2, 2, 2), (2, 1, 3), (2, 15, 2)]
            {
                let a = moved(&operands.a, of_factors);
                let b = moved(&operands.b, of_factors);
                let mut c = moved(&operands.c, of_c);
                let (a, b, c) = (&a[of_factors..], &b[of_factors..], &mut c[of_c..]);
                packed()
                    .gemm::<T>(&problem, a, b, c, &context(isa, threads))
                    .expect("the buffers fit");
                let found = difference(c, &expected);
                assert_eq!(found, None, "{isa}, {threads} threads, from {of_factors} and {of_c}");
            }
        }
    }
}

/// The same elements behind so many others.
fn moved<T: Scalar>(elements: &[T], by: usize) -> Vec<T> {
    let mut moved = vec![T::POISON; by];
    moved.extend_from_slice(elements);
    moved
}

/// Every operand ends with a page that must not be touched, and then begins with one.
#[test]
fn nothing_beside_the_operands_is_touched() {
    fn try_type<T: ScalarTypes>(seeds: u64) {
        for seed in 0..seeds {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(1000 + seed);
            let operands = Operands::draw(some_problem::<T>(&mut random), seed);
            let expected = operands.expected();
            for isa in CpuIsa::available() {
                let context = context(isa, 2);
                for at_end in [true, false] {
                    let a = Fenced::new(&operands.a, at_end);
                    let b = Fenced::new(&operands.b, at_end);
                    let mut c = Fenced::new(&operands.c, at_end);
                    let (a, b, c_mut) = (a.as_slice(), b.as_slice(), c.as_mut_slice());
                    cpu_gemm::gemm::<T>(&operands.problem, a, b, c_mut, &context)
                        .expect("the buffers fit");
                    let found = difference(c.as_slice(), &expected);
                    assert_eq!(found, None, "{isa} {:?}", operands.problem);
                }
            }
        }
    }
    for types in Types::ALL {
        with_gemm_types!(types, T => try_type::<T>(60));
    }
}

/// A block of columns, or of rows, computed by itself has the bits that it has within the whole.
#[test]
fn a_part_has_the_bits_of_the_whole() {
    let (m, n, k) = (150, 170, 500);
    let whole = Operands::draw(Problem::<f32>::new(m, n, k), 3);
    for isa in CpuIsa::available() {
        let context = context(isa, 2);
        let c = whole.by(packed(), &context);
        for (first, cols) in [(0, 1), (1, 8), (17, 100), (169, 1)] {
            let part = Problem::new(m, cols, k).with_layouts(
                whole.problem.a,
                whole.problem.b,
                Layout::row_major(cols),
            );
            let mut found = vec![f32::POISON; m * cols];
            packed()
                .gemm::<f32>(&part, &whole.a, &whole.b[first..], &mut found, &context)
                .expect("the buffers fit");
            for (index, value) in found.iter().enumerate() {
                let at = index / cols * n + first + index % cols;
                assert!(value.same_bits(c[at]), "{isa}: columns from {first}, element {index}");
            }
        }
        for (first, rows) in [(0, 1), (3, 7), (20, 130)] {
            let part = Problem { m: rows, ..whole.problem };
            let mut found = vec![f32::POISON; rows * n];
            packed()
                .gemm::<f32>(&part, &whole.a[first * k..], &whole.b, &mut found, &context)
                .expect("the buffers fit");
            assert_eq!(
                difference(&found, &c[first * n..][..rows * n]),
                None,
                "{isa}: from {first}"
            );
        }
    }
}

/// One context serves callers at the same time, and every repeat has the same bits.
#[test]
fn concurrent_callers_get_the_same_bits() {
    let isa = CpuIsa::available().next().expect("one is always there");
    let shared = context(isa, 3);
    let sizes = [(200, 130, 400), (64, 64, 64), (500, 40, 300), (1, 3000, 500)];
    let products: Vec<_> = sizes
        .map(|(m, n, k)| Operands::draw(Problem::<f32>::new(m, n, k).with_scalars(2.0, 0.0), 5))
        .into_iter()
        .map(|operands| (operands.expected(), operands))
        .collect();
    let done = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for caller in 0..6 {
            let (shared, products, done) = (&shared, &products, &done);
            scope.spawn(move || {
                for turn in 0..20 {
                    let (expected, operands) = &products[(caller + turn) % products.len()];
                    let found = operands.by(packed(), shared);
                    assert_eq!(difference(&found, expected), None, "caller {caller}");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(done.into_inner(), 120);
}

/// From one line to the next of a single line is any number, the largest included.
#[test]
fn the_leading_dimension_of_one_line_is_only_a_number() {
    for types in Types::ALL {
        with_gemm_types!(types, T => one_line::<T>());
    }
}

fn one_line<T: ScalarTypes>() {
    const FAR: usize = usize::MAX;
    for isa in CpuIsa::available() {
        let context = context(isa, 2);
        for (m, k) in [(3, 5), (3000, 700)] {
            // One column: B and C are a line each. Transposed, one row: A and C are.
            let column = Problem::<T>::new(m, 1, k).with_layouts(
                Layout::row_major(k),
                Layout::col_major(FAR),
                Layout::col_major(FAR),
            );
            a_line_lies_anywhere(&context, column, FAR);
            a_line_lies_anywhere::<T::Transposed>(&context, column.transposed(), FAR);
        }
    }
}

/// The bits of `serial` where the lines of operands that have but one are said to be `far` apart.
fn a_line_lies_anywhere<T: ScalarTypes>(context: &CpuContext, problem: Problem<T>, far: usize) {
    let Problem { m, n, k, .. } = problem;
    let near = |layout: Layout, ld: usize| match layout.ld == far {
        true => Layout { ld, ..layout },
        false => layout,
    };
    let (a, b, c) = (near(problem.a, k), near(problem.b, k), near(problem.c, m.max(n)));
    let mut operands = Operands::draw(Problem { a, b, c, ..problem }, 1);
    let expected = operands.expected();
    operands.problem = problem;
    let found = operands.by(packed(), context);
    let isa = context.isa();
    assert_eq!(difference(&found, &expected), None, "{isa} {problem:?}");
}

/// Sums of 8-bit integers wrap in 32 bits, and the extremes of the type are numbers like any other.
#[test]
fn extremes_of_8_bits_are_exact_and_sums_wrap() {
    for isa in CpuIsa::available() {
        let context = context(isa, 2);
        for (m, n, k) in [(3, 5, 7), (50, 9, 4001), (2, 2, 140_000)] {
            for (a, b) in [(-128, -128), (-128, 127), (127, 127), (127, -128), (0, -128), (-1, 1)] {
                for (alpha, beta, old) in [(1, 0, 0x5a5a_5a5a), (-3, 7, i32::MAX)] {
                    let problem = Problem::<i8>::new(m, n, k).with_scalars(alpha, beta);
                    let mut c = vec![old; m * n];
                    packed()
                        .gemm::<i8>(&problem, &vec![a; m * k], &vec![b; k * n], &mut c, &context)
                        .expect("the buffers fit");
                    let sum = i64::from(a) * i64::from(b) * k as i64;
                    let exact = i64::from(alpha) * sum + i64::from(beta) * i64::from(old);
                    #[expect(clippy::cast_possible_truncation, reason = "sums wrap")]
                    let exact = exact as i32;
                    assert!(c.iter().all(|&c| c == exact), "{isa} {a} {b} {problem:?}");
                }
            }
        }
    }
}

/// Values that arithmetic must not lose, on every path that computes: small, thin and packed.
#[test]
fn special_values_are_those_of_ieee() {
    for isa in CpuIsa::available() {
        let context = context(isa, 2);
        for (m, n, k) in [(5, 6, 7), (3, 90, 400), (90, 3, 400), (100, 110, 400)] {
            let run = |alpha: f32, a: &[f32], b: &[f32], beta: f32, c: f32| {
                let problem = Problem::new(m, n, k).with_scalars(alpha, beta);
                let mut c = vec![c; m * n];
                packed().gemm::<f32>(&problem, a, b, &mut c, &context).expect("the buffers fit");
                c
            };
            let (ones_a, ones_b) = (vec![1.0f32; m * k], vec![1.0f32; k * n]);
            let nan = vec![f32::NAN; (m * k).max(k * n)];
            let (nan_a, nan_b) = (&nan[..m * k], &nan[..k * n]);
            let what = format!("{isa} {m} {n} {k}");
            let all = |c: &[f32], value: f32| c.iter().all(|&c| c == value);

            assert!(all(&run(1.0, &ones_a, &ones_b, 0.0, f32::NAN), k as f32), "{what}: old C");
            assert!(all(&run(0.0, nan_a, nan_b, 2.0, 3.0), 6.0), "{what}: alpha 0");
            assert!(all(&run(0.0, nan_a, nan_b, 0.0, f32::NAN), 0.0), "{what}: both 0");
            for (alpha, beta) in [(f32::NAN, 0.0), (f32::NAN, 1.0), (1.0, f32::NAN)] {
                let c = run(alpha, &ones_a, &ones_b, beta, 1.0);
                assert!(c.iter().all(|c| c.is_nan()), "{what}: alpha {alpha}, beta {beta}");
            }
            // One NaN in A spoils one row, one infinity makes one of infinities.
            for (value, row) in [(f32::NAN, m - 1), (f32::INFINITY, m / 2), (-f32::INFINITY, 0)] {
                let mut a = ones_a.clone();
                a[row * k + k / 2] = value;
                for (index, &c) in run(1.0, &a, &ones_b, 0.0, 0.0).iter().enumerate() {
                    let expected = if index / n == row { value } else { k as f32 };
                    assert!(c == expected || c.is_nan() && expected.is_nan(), "{what}: {index}");
                }
                let c = run(1.0, &a, &vec![0.0; k * n], 0.0, 0.0);
                assert!(c[row * n..][..n].iter().all(|c| c.is_nan()), "{what}: 0 * {value}");
            }
            // Subnormals are kept.
            let tiny = f32::from_bits(1);
            let mut a = vec![0.0; m * k];
            a[(m - 1) * k + k - 1] = tiny;
            let c = run(1.0, &a, &ones_b, 0.0, 0.0);
            assert!(all(&c[(m - 1) * n..], tiny), "{what}: subnormal");
            // A fused multiply-add rounds once.
            let edge = 1.0 + f32::EPSILON;
            let (a, b) = (vec![edge; m * k], vec![edge; k * n]);
            let c = run(1.0, &a, &b, -1.0, 0.0);
            let chain = (0..k).fold(0.0f32, |sum, _| edge.mul_add(edge, sum));
            assert!(all(&c, chain), "{what}: fused");
        }
    }
}

/// Elements of 16 bits are rounded once, after alpha and beta, however many blocks k has.
#[test]
fn elements_of_16_bits_are_rounded_at_the_end_alone() {
    fn try_type<T: ScalarTypes<A = T, B = T, Acc = f32, C = T> + Scalar + Convert<f32>>(
        largest: f32,
    ) {
        let of = |value: f32| T::narrow(value);
        for isa in CpuIsa::available() {
            let context = context(isa, 2);
            for (m, n, k) in [(5, 6, 7), (3, 90, 401), (90, 3, 1001), (100, 110, 1001)] {
                let run = |alpha: f32, a: T, b: T, beta: f32, c: T| {
                    let problem = Problem::<T>::new(m, n, k).with_scalars(alpha, beta);
                    let (a, b, mut c) = (vec![a; m * k], vec![b; k * n], vec![c; m * n]);
                    packed()
                        .gemm::<T>(&problem, &a, &b, &mut c, &context)
                        .expect("the buffers fit");
                    let same = |x: &T| x.same_bits(c[0]) || x.is_nan() && c[0].is_nan();
                    assert!(c.iter().all(same), "{isa} {m} {n} {k}");
                    c[0]
                };
                let (one, k) = (of(1.0), k as f32);
                // Rounded at every step the sum would stay at 256 or 2048.
                assert_eq!(run(1.0, one, one, 0.0, T::POISON), of(k));
                assert_eq!(run(1.0, one, one, 1.0, of(3.0)), of(k + 3.0));
                // Alpha and beta are f32: neither is a number of the type.
                let (alpha, beta) = (1.0 + f32::EPSILON, 1.0 / 3.0);
                let old = of(-k);
                let exact = alpha.mul_add(k, beta * old.widen());
                assert_eq!(run(alpha, one, one, beta, old), of(exact));
                // Beyond the range in between, and within it at the end.
                let huge = run(1.0 / k, of(largest), one, 0.0, T::POISON).widen();
                assert!((huge / largest - 1.0).abs() < 0.01, "{huge:e}");
                let beyond = f32::MAX;
                assert_eq!(run(beyond, of(largest), one, 0.0, T::POISON).widen(), f32::INFINITY);
                let found = run(-beyond, of(largest), one, 0.0, T::POISON).widen();
                assert_eq!(found, f32::NEG_INFINITY);
                assert!(run(1.0, T::POISON, one, 0.0, one).is_nan());
                assert_eq!(run(0.0, T::POISON, T::POISON, 2.0, of(3.0)), of(6.0));
                // The least number is subnormal and stays.
                let least = T::from_f64(T::ZERO.rounded_from().1 * 2.0);
                assert_eq!(run(1.0 / k, least, one, 0.0, T::POISON), least);
            }
        }
    }
    try_type::<f16>(65504.0);
    try_type::<bf16>(2f32.powi(100));
}

/// Where C is f32 nothing is rounded after the sums but by alpha and beta: digits that 16 bits have not,
/// and numbers beyond their range, are there.
#[test]
fn results_in_f32_of_16_bits_are_the_sums() {
    fn try_type<T: ScalarTypes<Acc = f32, C = f32>>() {
        for isa in CpuIsa::available() {
            let context = context(isa, 2);
            for (m, n, k) in [(5, 6, 7), (3, 90, 401), (90, 3, 1001), (100, 110, 5001)] {
                let run = |alpha: f32, a: f32, b: f32, beta: f32, c: f32| {
                    let problem = Problem::<T>::new(m, n, k).with_scalars(alpha, beta);
                    let (a, b) = (vec![T::A::narrow(a); m * k], vec![T::B::narrow(b); k * n]);
                    let mut c = vec![c; m * n];
                    packed()
                        .gemm::<T>(&problem, &a, &b, &mut c, &context)
                        .expect("the buffers fit");
                    assert!(c.iter().all(|x| x.same_bits(c[0])), "{isa} {m} {n} {k}");
                    c[0]
                };
                let steps = k as f32;
                assert_eq!(run(1.0, 1.0, 1.0, 0.0, f32::NAN), steps);
                let (alpha, beta, old) = (1.0 + f32::EPSILON, 1.0 / 3.0, -0.1);
                assert_eq!(run(alpha, 1.0, 1.0, beta, old), alpha.mul_add(steps, beta * old));
                let large = 2f32.powi(15);
                assert_eq!(run(1.0, large, large, 0.0, 0.0), steps * 2f32.powi(30));
                let small = 2f32.powi(-14);
                assert_eq!(run(1.0, small, small, 0.0, 0.0), steps * 2f32.powi(-28));
                assert_eq!(run(0.0, f32::NAN, f32::NAN, 0.1, 0.1), 0.1 * 0.1);
            }
        }
    }
    try_type::<(f16, f32)>();
    try_type::<(bf16, f32)>();
}

/// The checks above see the faults that they are there for.
#[test]
fn the_checks_see_planted_faults() {
    let problem = Problem::<f32>::new(60, 70, 500).with_scalars(1.5, 0.5);
    let operands = Operands::draw(problem, 11);
    let expected = operands.expected();
    let one = context(CpuIsa::Portable, 1);
    let right = operands.by(packed(), &one);
    assert_eq!(difference(&right, &expected), None);
    type Fault = (&'static str, fn(&mut Operands<f32>));
    let faults: [Fault; 6] = [
        ("last step of k lost", |x| x.problem.k -= 1),
        ("A transposed", |x| x.a.reverse()),
        ("beta forgotten", |x| x.problem.beta = 0.0),
        ("alpha rounded", |x| x.problem.alpha = 1.5 + f32::EPSILON),
        ("one element of B off by a bit", |x| x.b[777] = f32::from_bits(x.b[777].to_bits() ^ 1)),
        ("last row of C not computed", |x| x.problem.m -= 1),
    ];
    for (what, plant) in faults {
        let mut broken = Operands {
            problem,
            a: operands.a.clone(),
            b: operands.b.clone(),
            c: operands.c.clone(),
        };
        plant(&mut broken);
        // A shorter k or m leaves layouts as they are: the same buffers, read short.
        let found = broken.by(packed(), &one);
        assert!(difference(&found, &expected).is_some(), "{what} was not seen");
    }
    // Sums in halves instead of one chain: an order of its own, so other bits.
    let halves = {
        let mut first = Operands::draw(problem, 11);
        first.problem.k = 250;
        first.c = first.by(packed(), &one);
        first.problem.beta = 1.0;
        first.a = operands.a[250..].to_vec();
        first.b = operands.b[250 * 70..].to_vec();
        first.by(packed(), &one)
    };
    assert!(difference(&halves, &expected).is_some(), "another order of sums was not seen");
}

/// Faults that a tester of BLAS has been seen to let pass, in results that are right otherwise.
#[test]
fn what_other_testers_let_pass_is_seen() {
    const LD: usize = 53;
    let problem = Problem::<f32>::new(33, 50, 100).with_layouts(
        Layout::row_major(100),
        Layout::row_major(50),
        Layout::row_major(LD),
    );
    let operands = Operands::draw(problem, 12);
    let expected = operands.expected();
    let one = context(CpuIsa::Portable, 1);
    let right = operands.by(packed(), &one);
    assert_eq!(difference(&right, &expected), None);
    type Mutant = (&'static str, fn(&mut [f32], &[f32]));
    let mutants: [Mutant; 8] = [
        ("every element NaN", |c, _| c.fill(f32::NAN)),
        ("one element NaN", |c, _| c[7 * LD + 9] = f32::NAN),
        ("the old C added though beta is 0", |c, old| {
            c.iter_mut().zip(old).for_each(|(c, old)| *c += old)
        }),
        ("wrong from row 16 on", |c, _| c[16 * LD..][..50].fill(0.0)),
        ("20 roundings in one element", |c, _| c[5] *= 1.0 + 20.0 * f32::EPSILON),
        ("one rounding in one element", |c, _| c[32 * LD + 49] = c[32 * LD + 49].next_up()),
        ("a thousandth more in a corner", |c, _| c[0] += 1e-3),
        ("a word of the padding written", |c, _| c[3 * LD + 51] = 0.0),
    ];
    for (what, mutate) in mutants {
        let mut found = right.clone();
        mutate(&mut found, &operands.c);
        assert!(difference(&found, &expected).is_some(), "{what} was not seen");
    }
}

#[test]
fn orders_are_all_drawn() {
    let mut seen = std::collections::HashSet::new();
    for seed in 0..100 {
        let problem = some_problem::<f32>(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
        seen.insert(
            [problem.a, problem.b, problem.c].map(|layout| layout.order == Order::RowMajor),
        );
    }
    assert_eq!(seen.len(), 8);
}
