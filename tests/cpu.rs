//! The CPU implementations: every one against the definition of correct, which itself is held to a
//! reference in higher precision.

mod support;

use std::num::NonZeroUsize;

use gemm_spec::{Batch, Convert, Element, GemmTypes};
use lab::cpu::{self, CPU, CpuContext, CpuImpl, Sums};
use lab::verify::{Checker, Method};
use lab::{Layout, Multiplier, Problem, Scalar, ScalarTypes, Types, bf16, f16, with_gemm_types};
use support::{Case, Operands, cases, first_difference, report};
use tessera::{AccOf, Engine, MatMut, MatRef, Matrix, MultiplyInto};

fn context(threads: usize) -> CpuContext {
    cpu::context(NonZeroUsize::new(threads)).expect("threads start")
}

/// Those whose bits are defined by a plain loop.
fn defined() -> impl Iterator<Item = &'static CpuImpl> {
    CPU.iter().copied().filter(|implementation| implementation.sums != Sums::Own)
}

/// What the definitions say: `serial`, and the one of the engine.
struct Defined<T: ScalarTypes>([Vec<T::C>; 2]);

impl<T: ScalarTypes> Defined<T> {
    fn of(operands: &Operands<T>) -> Self {
        let engine = operands.run(|problem, a, b, c| {
            cpu::engine_definition(problem, a, b, c.as_mut_slice());
            Ok(())
        });
        Self([serial(operands), engine.expect("it writes C alone")])
    }

    /// What an implementation must give.
    fn by(&self, implementation: &CpuImpl) -> &[T::C] {
        &self.0[usize::from(implementation.sums == Sums::Engine)]
    }
}

/// Those that this machine runs.
fn here() -> impl Iterator<Item = &'static CpuImpl> {
    CPU.iter().copied().filter(|implementation| implementation.runs(Types::F32).is_ok())
}

fn run<T: ScalarTypes>(
    implementation: &CpuImpl,
    operands: &Operands<T>,
    context: &CpuContext,
) -> Result<Vec<T::C>, String> {
    operands.run(|problem, a, b, c| {
        implementation
            .gemm::<T>(problem, a, b, c.as_mut_slice(), context)
            .map_err(|error| error.to_string())
    })
}

/// The registry's first is the definition of correct.
fn serial<T: ScalarTypes>(operands: &Operands<T>) -> Vec<T::C> {
    run(CPU[0], operands, &context(1)).expect("serial writes C alone")
}

fn all_cases() -> Vec<Case> {
    [2, 32, 65].into_iter().flat_map(cases).chain([Case::new(130, 700, 270)]).collect()
}

fn serial_is_right<T: ScalarTypes>() -> Vec<String> {
    let mut failures = Vec::new();
    for case in all_cases() {
        let operands = Operands::<T>::draw(&case);
        let found = serial(&operands);
        let Operands { problem, a, b, c } = &operands;
        let checker =
            Checker::new(problem, a, b, c, Method::Full, 1).expect("the operands fit the problem");
        let found = checker.check(&found);
        if !found.ok {
            failures.push(format!("serial {} {case}: {found}", T::TYPES));
        }
    }
    failures
}

#[test]
fn serial_agrees_with_a_reference_in_higher_precision() {
    let each = Types::ALL.map(|types| with_gemm_types!(types, T => serial_is_right::<T>()));
    let failures = each.into_iter().flatten().collect();
    report(failures).unwrap();
}

fn same_bits<T: ScalarTypes>() -> Vec<String> {
    let mut failures = Vec::new();
    // How work is shared by threads does not depend on the type: all types but one have the least and the most.
    let threads: &[usize] = if T::TYPES == Types::F32 { &[1, 2, 3, 7] } else { &[1, 7] };
    let contexts: Vec<_> = threads.iter().map(|&threads| context(threads)).collect();
    for case in all_cases() {
        let operands = Operands::<T>::draw(&case);
        let expected = Defined::of(&operands);
        for implementation in defined() {
            for context in &contexts {
                let outcome = run(implementation, &operands, context).and_then(|found| {
                    let expected = expected.by(implementation);
                    first_difference(&operands.problem, &found, expected).map_or(Ok(()), Err)
                });
                if let Err(what) = outcome {
                    failures.push(format!(
                        "--kernel {} --threads {} --dtype {} {case}: {what}",
                        implementation.id,
                        context.threads(),
                        T::TYPES
                    ));
                }
            }
        }
    }
    failures
}

#[test]
fn every_implementation_has_the_bits_of_its_definition_for_any_number_of_threads() {
    let each = Types::ALL.map(|types| with_gemm_types!(types, T => same_bits::<T>()));
    let failures = each.into_iter().flatten().collect();
    report(failures).unwrap();
}

/// A C of f32 holds the sums of which a C of 16 bits is the rounding.
#[test]
fn a_wide_result_rounds_to_the_narrow_one() {
    fn try_type<Narrow, Wide>()
    where
        Narrow: ScalarTypes<Acc = f32>,
        Wide: ScalarTypes<A = Narrow::A, B = Narrow::B, Acc = f32, C = f32>,
    {
        let context = context(2);
        let mut rounded = 0;
        for case in all_cases() {
            let narrow = Operands::<Narrow>::draw(&Case { beta: 0.0, ..case });
            let Operands { problem, a, b, .. } = &narrow;
            let wide_problem = Problem::<Wide>::new(problem.m, problem.n, problem.k)
                .with_scalars(problem.alpha, 0.0)
                .with_layouts(problem.a, problem.b, problem.c);
            let definitions = Defined::of(&narrow);
            for implementation in defined() {
                let expected = definitions.by(implementation);
                let mut found = vec![f32::POISON; expected.len()];
                implementation.gemm::<Wide>(&wide_problem, a, b, &mut found, &context).unwrap();
                for row in 0..problem.m {
                    for col in 0..problem.n {
                        let at = problem.c.index(row, col);
                        let (found, expected) = (found[at], expected[at]);
                        let id = implementation.id;
                        assert!(
                            Narrow::C::narrow(found).same_bits(expected),
                            "{id} {case} ({row},{col})"
                        );
                        rounded += usize::from(expected.widen() != found);
                    }
                }
            }
        }
        assert!(rounded > 100_000, "only {rounded} elements lose something in 16 bits");
    }
    try_type::<f16, (f16, f32)>();
    try_type::<bf16, (bf16, f32)>();
}

/// Of the chart's own sizes 8, 16, …, 2096 most are no multiple of 32; here every small size is tried.
#[test]
fn every_size_from_1_to_70_is_right() {
    let context = context(2);
    let mut failures = Vec::new();
    for n in 1..=70 {
        let operands = Operands::<f32>::draw(&Case::new(n, n, n));
        let expected = serial(&operands);
        for implementation in defined() {
            let found = run(implementation, &operands, &context).unwrap();
            if let Some(what) = first_difference(&operands.problem, &found, &expected) {
                failures.push(format!("--kernel {} -n {n}: {what}", implementation.id));
            }
        }
    }
    report(failures).unwrap();
}

/// n * n wraps in 32 bits from n = 46341 on. Rows this far apart put the third beyond 2^31 elements;
/// most of the buffer is never touched, so it costs address space and no memory.
#[test]
fn indices_above_two_to_the_31st_are_right() {
    const LD: usize = (1 << 30) + 7;
    let (m, n, k) = (3, 3, 3);
    let value = |row: usize, col: usize| (10 * row + col) as f32 + 1.0;
    let small: Vec<f32> = (0..9).map(|i| value(i / 3, i % 3)).collect();
    let mut big = vec![0f32; 2 * LD + 3];
    for row in 0..3 {
        for col in 0..3 {
            big[row * LD + col] = value(row, col);
        }
    }
    let context = context(2);
    let plain = Problem::<f32>::new(m, n, k);
    let mut expected = vec![0f32; 9];
    CPU[0].gemm::<f32>(&plain, &small, &small, &mut expected, &context).unwrap();
    for implementation in defined() {
        let multiply = |problem: &Problem<f32>, a: &[f32], b: &[f32], c: &mut [f32]| {
            implementation.gemm(problem, a, b, c, &context).unwrap();
        };
        let mut c = vec![f32::POISON; 9];
        let far = Problem { a: Layout::row_major(LD), ..plain };
        multiply(&far, &big, &small, &mut c);
        assert_eq!(c, expected, "{}: A", implementation.id);
        let far = Problem { b: Layout::row_major(LD), ..plain };
        multiply(&far, &small, &big, &mut c);
        assert_eq!(c, expected, "{}: B", implementation.id);
    }
    for implementation in defined() {
        let far = Problem { c: Layout::row_major(LD), ..plain };
        implementation.gemm::<f32>(&far, &small, &small, &mut big, &context).unwrap();
        for row in 0..3 {
            assert_eq!(big[row * LD..][..3], expected[row * 3..][..3], "{}: C", implementation.id);
        }
        // What the next implementation must write again.
        for row in 0..3 {
            big[row * LD..][..3].fill(f32::POISON);
        }
    }
}

/// The book says that the product is not "cumulative"; what it is not is commutative.
#[test]
fn the_product_does_not_commute() {
    let engine = Engine::cpu(None).unwrap();
    let a = Matrix::from_fn(2, 2, |row, col| (2 * row + col + 1) as f64).unwrap();
    let b = Matrix::from_fn(2, 2, |row, col| (5 + 2 * row + col) as f64).unwrap();
    let ab = engine.multiply(&a, &b).unwrap();
    let ba = engine.multiply(&b, &a).unwrap();
    // The symbolic 2 x 2 example with A..H = 1..8: A*E+B*G and so on.
    assert_eq!(ab.as_slice(), [19.0, 22.0, 43.0, 50.0]);
    assert_ne!(ab, ba);
}

#[test]
fn shapes_that_do_not_fit_name_both_operands() {
    let engine = Engine::cpu(None).unwrap();
    let a = Matrix::<f32>::zeros(2, 3).unwrap();
    let b = Matrix::<f32>::zeros(4, 5).unwrap();
    let error = engine.multiply(&a, &b).unwrap_err().to_string();
    assert!(error.contains("A is 2 x 3") && error.contains("B is 4 x 5"), "{error}");
}

/// Transposed and column-major operands, C included, give what explicit copies give.
#[test]
fn any_order_of_any_operand_is_right() {
    let engine = Engine::cpu(NonZeroUsize::new(2)).unwrap();
    let (m, n, k) = (37, 70, 65);
    let fill = |rows: usize, cols: usize, offset: usize| {
        Matrix::from_fn(rows, cols, |r, c| ((r * 31 + c * 17 + offset) % 23) as f32 - 11.0).unwrap()
    };
    let (a, b, c0) = (fill(m, k, 0), fill(k, n, 5), fill(m, n, 9));
    let transposed = |matrix: &Matrix<f32>| {
        Matrix::from_fn(matrix.cols(), matrix.rows(), |r, c| matrix.get(c, r).unwrap()).unwrap()
    };
    let (at, bt) = (transposed(&a), transposed(&b));
    let mut expected = c0.clone();
    engine.gemm(1.5, a.view(), b.view(), -0.5, expected.view_mut()).unwrap();

    let a_views = [a.view(), at.view().transposed()];
    let b_views = [b.view(), bt.view().transposed()];
    for a in a_views {
        for b in b_views {
            let mut rows = c0.clone();
            engine.gemm(1.5, a, b, -0.5, rows.view_mut()).unwrap();
            assert_eq!(rows, expected);

            let mut columns = transposed(&c0).into_vec();
            let view = MatMut::new(&mut columns, m, n, Layout::col_major(m)).unwrap();
            engine.gemm(1.5, a, b, -0.5, view).unwrap();
            let columns = MatRef::new(&columns, m, n, Layout::col_major(m)).unwrap();
            for row in 0..m {
                for col in 0..n {
                    let found = columns.as_slice()[columns.layout().index(row, col)];
                    assert_eq!(Some(found), expected.get(row, col));
                }
            }
        }
    }
}

/// Empty products are defined: nothing to write, or C scaled by beta.
#[test]
fn empty_dimensions_are_defined() {
    let engine = Engine::cpu(None).unwrap();
    for implementation in here() {
        let engine = Multiplier::named(implementation.id).unwrap();
        let mut c = vec![3.0f32; 6];
        engine
            .gemm_slices(&Problem::<f32>::new(2, 3, 0).with_scalars(1.0, 2.0), &[], &[], &mut c)
            .unwrap();
        assert_eq!(c, [6.0; 6], "{}", implementation.id);
        let mut c = vec![f32::NAN; 6];
        engine.gemm_slices(&Problem::<f32>::new(2, 3, 0), &[], &[], &mut c).unwrap();
        assert_eq!(c, [0.0; 6], "{}", implementation.id);
        // Leading dimensions of nothing are only numbers.
        let wide = Problem::<f32>::new(2, 3, 0).with_layouts(
            Layout::row_major(5),
            Layout::col_major(9),
            Layout::row_major(3),
        );
        let mut c = vec![f32::NAN; 6];
        engine.gemm_slices(&wide, &[], &[], &mut c).unwrap();
        assert_eq!(c, [0.0; 6], "{}", implementation.id);
        engine.gemm_slices(&Problem::<f32>::new(0, 3, 4), &[], &[0.0; 12], &mut []).unwrap();
        engine.gemm_slices(&Problem::<f32>::new(2, 0, 4), &[0.0; 8], &[], &mut []).unwrap();
    }
    let a = Matrix::<f64>::zeros(0, 3).unwrap();
    let b = Matrix::<f64>::zeros(3, 2).unwrap();
    assert_eq!(engine.multiply(&a, &b).unwrap().rows(), 0);
}

/// NaN and infinity spread as IEEE arithmetic says: one NaN in A spoils exactly one row.
#[test]
fn special_values_spread_as_they_should() {
    for implementation in here() {
        let engine = Multiplier::named(implementation.id).unwrap();
        let mut a = vec![1.0f32; 5 * 7];
        a[2 * 7 + 3] = f32::NAN;
        let b = vec![1.0f32; 7 * 6];
        let mut c = vec![0.0f32; 5 * 6];
        engine.gemm_slices(&Problem::<f32>::new(5, 6, 7), &a, &b, &mut c).unwrap();
        for (index, value) in c.iter().enumerate() {
            assert_eq!(value.is_nan(), index / 6 == 2, "{}: {index}", implementation.id);
        }
        a[2 * 7 + 3] = f32::INFINITY;
        let b = vec![0.0f32; 7 * 6];
        engine.gemm_slices(&Problem::<f32>::new(5, 6, 7), &a, &b, &mut c).unwrap();
        assert!(c[2 * 6..3 * 6].iter().all(|value| value.is_nan()), "0 * inf is NaN");
        // Factors that are NaN are not zero.
        for (alpha, beta) in [(f32::NAN, 0.0), (1.0, f32::NAN)] {
            let problem = Problem::<f32>::new(5, 6, 7).with_scalars(alpha, beta);
            let mut c = vec![1.0f32; 30];
            engine.gemm_slices(&problem, &[1.0; 35], &b, &mut c).unwrap();
            assert!(c.iter().all(|value| value.is_nan()), "{alpha} {beta}");
        }
    }
}

/// Every product of a batch has the bits that it has by itself, in whatever order the operands are, also
/// where an implementation that reads row-major operands alone gets copies.
#[test]
fn the_products_of_a_batch_are_those_of_each() {
    let one = Problem::<f32>::new(5, 6, 7).with_scalars(0.5, 2.0);
    let column_major =
        one.with_layouts(Layout::col_major(5), Layout::col_major(8), Layout::col_major(6));
    for implementation in here() {
        let engine = Multiplier::named(implementation.id).unwrap();
        for one in [one, column_major] {
            let all = one.with_batch(Batch { count: 3, a_stride: 36, b_stride: 50, c_stride: 41 });
            let of = |len: usize| (0..len).map(|at| (at % 19) as f32 / 4.0).collect::<Vec<_>>();
            let (a, b, old) = (of(2 * 36 + 35), of(2 * 50 + 48), of(2 * 41 + 36));
            let mut right = old.clone();
            for at in all.items() {
                let c = &mut right[at.c..];
                engine.gemm_slices(&one, &a[at.a..], &b[at.b..], c).unwrap();
            }
            let mut c = old.clone();
            engine.gemm_slices(&all, &a, &b, &mut c).unwrap();
            assert!(c == right && c != old, "{}", implementation.id);
        }
    }
}

/// All types through views, and those of the usual C as matrices, without a word on what they are.
#[test]
fn types_follow_from_the_operands() {
    fn matrix<T: Scalar>(value: impl Fn(usize, usize) -> f64) -> Matrix<T> {
        Matrix::from_fn(2, 2, |row, col| T::from_f64(value(row, col))).unwrap()
    }
    fn try_types<A, B: Scalar, C: Scalar>() -> Types
    where
        A: Scalar + MultiplyInto<B, C, Types: ScalarTypes>,
    {
        let engine = Engine::cpu(None).unwrap();
        let (a, b) = (matrix::<A>(|row, _| row as f64), matrix::<B>(|_, col| col as f64));
        let mut c = matrix::<C>(|_, _| 0.0);
        let (alpha, beta) = (AccOf::<A, B, C>::ONE, AccOf::<A, B, C>::ZERO);
        engine.gemm(alpha, a.view(), b.view(), beta, c.view_mut()).unwrap();
        assert_eq!(c.get(1, 1), Some(C::from_f64(2.0)));
        assert_eq!(c.get(1, 0), Some(C::ZERO));
        <A::Types as GemmTypes>::TYPES
    }
    for types in Types::ALL {
        let found = with_gemm_types!(types, T => {
            try_types::<<T as GemmTypes>::A, <T as GemmTypes>::B, <T as GemmTypes>::C>()
        });
        assert_eq!(found, types);
    }
    let engine = Engine::cpu(None).unwrap();
    let (a, b) = (matrix::<f16>(|row, _| row as f64), matrix::<f16>(|_, col| col as f64));
    let usual: Matrix<f16> = engine.multiply(&a, &b).unwrap();
    assert_eq!(usual.get(1, 1), Some(f16::from_f64(2.0)));
    let (a, b) = (matrix::<i8>(|row, _| row as f64), matrix::<i8>(|_, col| col as f64));
    let usual: Matrix<i32> = engine.multiply(&a, &b).unwrap();
    assert_eq!(usual.get(1, 1), Some(2));
}
