//! The bits of the definition, whatever the shape, part, place and number of callers.

use std::sync::atomic::{AtomicUsize, Ordering};

use cpu_gemm::{CpuContext, CpuIsa};
use gemm_spec::{Layout, Problem, Types, with_gemm_types};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::operands::{Operands, Scalar, ScalarTypes, context, difference, multiply, some_problem};
use crate::pages::Fenced;

fn any_problem_has_the_bits_of_the_definition<T: ScalarTypes>(cases: u64) {
    let contexts: Vec<_> = CpuIsa::available()
        .flat_map(|isa| [1, 2, 5].map(|threads| context(isa, threads)))
        .collect();
    for seed in 0..cases {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let operands = Operands::draw(some_problem::<T>(&mut random), seed);
        let expected = operands.expected();
        for context in &contexts {
            let found = operands.multiplied(context);
            if let Some(what) = difference(&found, &expected) {
                let (isa, threads) = (context.isa(), context.threads());
                panic!("{isa}, {threads} threads, {:?}: {what}", operands.problem);
            }
        }
    }
}

/// A test for the types of each product.
macro_rules! any_problem_has_the_bits_of_the_definition {
    ([] $({
        $(#[$condition:meta])? $variant:ident, $name:ident, $types:ty, $four:tt, $usual:ident
    })+) => {
        mod any_problem_has_the_bits_of_the_definition_in {
            $(
                #[test]
                fn $name() {
                    super::any_problem_has_the_bits_of_the_definition::<$types>(300);
                }
            )+
        }
    };
}

gemm_spec::for_each_gemm_types!([any_problem_has_the_bits_of_the_definition]);

/// Up to the length of a chain the engine's sums are one chain; beyond, they are not.
#[test]
fn sums_up_to_the_length_of_a_chain_are_one() {
    for (k, same) in [(1, true), (127, true), (128, true), (129, false), (2000, false)] {
        let operands = Operands::draw(Problem::<f32>::new(30, 40, k).with_scalars(1.5, 0.5), 9);
        let one = context(CpuIsa::Portable, 1);
        let found = operands.multiplied(&one);
        assert_eq!(difference(&found, &operands.expected()), None, "{k}");
        assert_eq!(difference(&found, &operands.in_one_chain()).is_none(), same, "{k}");
    }
}

/// Larger than every block, so that all five loops turn more than once.
#[test]
fn many_blocks_have_the_bits_of_the_definition() {
    // The others are in the same blocks as one of these.
    let packed_alike = [Types::F64, Types::I32, Types::F16F32];
    for types in Types::ALL.into_iter().filter(|types| !packed_alike.contains(types)) {
        with_gemm_types!(types, T => many_blocks::<T>());
    }
}

fn many_blocks<T: ScalarTypes>() {
    let instructions: Vec<CpuIsa> =
        CpuIsa::available().filter(|&isa| isa != CpuIsa::Portable).collect();
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
        for (beta, b, padding) in [(0.0, Layout::row_major(n), 1), (0.5, Layout::col_major(k), 0)] {
            let problem = Problem::<T>::new(m, n, k)
                .with_scalars(T::Acc::from_f64(1.5), T::Acc::from_f64(beta))
                .with_layouts(Layout::row_major(k), b, Layout::row_major(n + padding));
            let operands = Operands::draw(problem, 7);
            let expected = operands.expected();
            for &isa in &instructions {
                let found = operands.multiplied(&context(isa, 3));
                assert_eq!(difference(&found, &expected), None, "{isa} {problem:?}");
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
                multiply::<T>(&problem, a, b, c, &context(isa, threads));
                let found = difference(c, &expected);
                assert_eq!(found, None, "{isa}, {threads} threads, from {of_factors} and {of_c}");
            }
        }
    }
}

/// The same elements behind a number of others.
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
        let c = whole.multiplied(&context);
        for (first, cols) in [(0, 1), (1, 8), (17, 100), (169, 1)] {
            let part = Problem::new(m, cols, k).with_layouts(
                whole.problem.a,
                whole.problem.b,
                Layout::row_major(cols),
            );
            let mut found = vec![f32::POISON; m * cols];
            multiply::<f32>(&part, &whole.a, &whole.b[first..], &mut found, &context);
            for (index, value) in found.iter().enumerate() {
                let at = index / cols * n + first + index % cols;
                assert!(value.same_bits(c[at]), "{isa}: columns from {first}, element {index}");
            }
        }
        for (first, rows) in [(0, 1), (3, 7), (20, 130)] {
            let part = Problem { m: rows, ..whole.problem };
            let mut found = vec![f32::POISON; rows * n];
            multiply::<f32>(&part, &whole.a[first * k..], &whole.b, &mut found, &context);
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
                    let found = operands.multiplied(shared);
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

/// The bits of the definition where the lines of operands that have but one are said to be `far` apart.
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
    let found = operands.multiplied(context);
    let isa = context.isa();
    assert_eq!(difference(&found, &expected), None, "{isa} {problem:?}");
}
