//! Results of 16 bits: each rounding, the edge of the range, subnormal numbers.

use gemm_spec::{Convert, Problem, bf16, f16};
use lab::verify::{Checker, Method};
use lab::{Scalar, ScalarTypes};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::operands::{Fill, JUDGES, Operands, below_70, layouts, settle};

/// One wrong element of 16 bits: by one value where every element is compared, from the stated size on
/// by random vectors.
fn one_wrong_element_of_16_bits<T: ScalarTypes<A = T, B = T, C = T> + Scalar>(
    of: fn(u16) -> T,
    bits: fn(T) -> u16,
) {
    let (mut cases, mut failures) = (0, vec![]);
    let mut silent = 0;
    for (alpha, beta) in [(1.0, 0.0), (1.5, -0.7), (2.0, -3.0)] {
        let problem = Problem::<T>::new(70, 70, 77)
            .with_scalars(T::Acc::from_f64(alpha), T::Acc::from_f64(beta));
        for problem in layouts(problem) {
            for fill in [Fill::Uniform, Fill::Normal, Fill::Positive, Fill::Integers] {
                let operands = Operands::new(problem, fill, 5);
                let right = operands.correct();
                let (full, vectors) =
                    (operands.checker(Method::Full), operands.checker(Method::Freivalds));
                let random = &mut Xoshiro256PlusPlus::seed_from_u64(9);
                for _ in 0..20 {
                    let (row, col) = (below_70(random), below_70(random));
                    let at = problem.c.index(row, col);
                    let mut named = |checker: &Checker<'_, T>, value: T, must: bool| {
                        let mut wrong = right.clone();
                        wrong[at] = value;
                        let report = checker.check(&wrong);
                        let named = report.first.is_some_and(|it| (it.row, it.col) == (row, col));
                        if must {
                            cases += 1;
                            if report.ok || !named || report.bad != 1 {
                                let name = &operands.name;
                                failures
                                    .push(format!("C({row},{col}) = {value}, {name}: {report}"));
                            }
                        }
                        report.ok
                    };
                    // Two values on from what is right no sum rounds to, unless values are as near as
                    // f32 sums may err; the next value is wrong too, but for sums near the middle.
                    let own = right[at];
                    let scale = operands.scale(row, col);
                    let (low, high) = own.rounded_from();
                    let apart = high - low > 36.0 * 2f64.powi(-24) * scale;
                    silent += usize::from(named(&full, of(bits(own) + 1), false));
                    named(&full, of(bits(own) + 2), apart);
                    named(&full, of(bits(own) ^ 0x8000), apart && own.to_f64() != 0.0);
                    let visible = vectors.visible_error(row).expect("random vectors");
                    for step in [1.01 * visible, -3.0 * visible, 30.0 * visible] {
                        let step = if step == 0.0 { 300.0 } else { step };
                        let value = T::from_f64(own.to_f64() + step);
                        // Rounding may have brought it nearer than was meant.
                        let far = (value.to_f64() - own.to_f64()).abs() > 1.01 * visible;
                        named(&vectors, value, far && value.to_f64().is_finite());
                    }
                }
            }
        }
    }
    settle(cases, &failures);
    assert!(cases > 2000, "{cases} cases");
    assert!(silent * 25 < cases, "{silent} neighbours of right elements passed");
}

#[test]
fn one_wrong_element_of_f16_is_seen() {
    one_wrong_element_of_16_bits(f16::from_bits, f16::to_bits);
}

#[test]
fn one_wrong_element_of_bf16_is_seen() {
    one_wrong_element_of_16_bits(bf16::from_bits, bf16::to_bits);
}

/// Results that were rounded another way, or more than once, fail.
#[test]
fn other_roundings_to_16_bits_are_caught() {
    fn caught<T: ScalarTypes<A = T, B = T, Acc = f32, C = T> + Scalar + Convert<f32>>(
        of: fn(u16) -> T,
        bits: fn(T) -> u16,
    ) {
        for problem in layouts(Problem::<T>::new(33, 47, 65)) {
            let operands = Operands::new(problem, Fill::Uniform, 8);
            let sum = |row, col| operands.sum(row, col, 0..65);
            // Towards zero, and every partial sum rounded.
            let truncated = |sum: f32| {
                let near = T::narrow(sum);
                let away = near.widen().abs() > sum.abs();
                if away { of(bits(near) - 1) } else { near }
            };
            let towards_zero = operands.result(|row, col| truncated(sum(row, col)).widen());
            let each_step = operands.result(|row, col| {
                (0..65).fold(0.0, |acc, step| {
                    T::narrow(T::mul_add(operands.a(row, step), operands.b(step, col), acc)).widen()
                })
            });
            for method in JUDGES {
                let checker = operands.checker(method);
                assert!(checker.check(&operands.correct()).ok);
                for wrong in [&towards_zero, &each_step] {
                    // Random vectors do not tell roundings, but some rows are looked at closely.
                    let report = checker.check(wrong);
                    assert!(!report.ok, "{method} {}: {report}", T::TYPES);
                }
            }
        }
    }
    caught(f16::from_bits, f16::to_bits);
    caught(bf16::from_bits, bf16::to_bits);
}

/// Where C is f32, a result that was rounded to 16 bits on its way is wrong, and so is one whose sums
/// were.
#[test]
fn results_in_f32_that_16_bits_have_passed_through_are_caught() {
    fn caught<T: ScalarTypes<Acc = f32, C = f32>>() {
        for problem in layouts(Problem::<T>::new(33, 47, 65)) {
            let operands = Operands::new(problem, Fill::Uniform, 8);
            let rounded = |value: f32| T::A::narrow(value).widen();
            let at_the_end = operands.result(|row, col| rounded(operands.sum(row, col, 0..65)));
            let at_each_step = operands.result(|row, col| {
                (0..65).fold(0.0, |acc, step| {
                    rounded(T::mul_add(operands.a(row, step), operands.b(step, col), acc))
                })
            });
            // One element alone, the one that moves most of a row that every method compares.
            let mut once = operands.correct();
            let moved = |at: &usize| (once[*at] - rounded(once[*at])).abs();
            let row = (0..47).map(|col| problem.c.index(0, col));
            let at = row.max_by(|x, y| moved(x).total_cmp(&moved(y))).expect("47 columns");
            once[at] = rounded(once[at]);
            for method in JUDGES {
                let checker = operands.checker(method);
                assert!(checker.check(&operands.correct()).ok);
                for wrong in [&at_the_end, &at_each_step, &once] {
                    let report = checker.check(wrong);
                    assert!(!report.ok, "{method} {}: {report}", T::TYPES);
                }
            }
        }
    }
    caught::<(f16, f32)>();
    caught::<(bf16, f32)>();
}

/// What is beyond f16 is a number in f32, and nothing else passes for it; of exact data no digit may be
/// wrong, though f16 has it not.
#[test]
fn sums_beyond_the_range_of_f16_are_numbers_in_f32() {
    let problem = Problem::<(f16, f32)>::new(1, 3, 2);
    let of = <f16 as Scalar>::from_f64;
    let a = [of(256.0), of(1.0)];
    let b = [of(65504.0), of(-65504.0), of(8.0), of(1.0), of(0.0), of(1.0)];
    let right = [16_769_025.0, -16_769_024.0, 2049.0];
    for method in JUDGES {
        let checker = Checker::new(&problem, &a, &b, &[], method, 1).unwrap();
        let report = checker.check(&right);
        assert!(report.ok && report.bound == 0.0, "{method}: {report}");
        for (at, value) in [
            (0, f32::INFINITY),
            (0, 65504.0),
            (0, 16_769_024.0),
            (1, f32::NEG_INFINITY),
            (1, f32::NAN),
            (2, 2048.0),
            (2, 2050.0),
        ] {
            let mut c = right;
            c[at] = value;
            let report = checker.check(&c);
            assert!(!report.ok, "{method} {c:?}: {report}");
        }
    }
}

#[test]
fn sums_beyond_the_range_of_f16_are_infinite_and_those_at_its_edge_may_be() {
    let problem = Problem::<f16>::new(1, 3, 2);
    let of = f16::from_f64;
    let a = [of(256.0), of(1.0)];
    // 65504 + 16 is the middle between the largest number and what would come next, 65536 is that.
    let b = [of(255.875), of(256.0), of(255.75), of(16.0), of(0.0), of(0.0)];
    let (endless, last) = (f16::INFINITY, of(65472.0));
    for method in JUDGES {
        let checker = Checker::new(&problem, &a, &b, &[], method, 1).unwrap();
        for (c, ok) in [
            ([endless, endless, last], true),
            ([f16::MAX, endless, last], true),
            ([last, endless, last], false),
            ([endless, f16::MAX, last], false),
            ([endless, f16::NEG_INFINITY, last], false),
            ([endless, endless, endless], false),
            ([f16::NAN, endless, last], false),
        ] {
            let report = checker.check(&c);
            assert_eq!(report.ok, ok, "{method} {c:?}: {report}");
        }
    }
}

#[test]
fn subnormal_results_of_16_bits_pass_and_flushed_ones_do_not() {
    fn settled<T: ScalarTypes<A = T, B = T, C = T> + Scalar>(scale: f64) {
        for method in JUDGES {
            let mut operands = Operands::new(Problem::<T>::new(20, 30, 40), Fill::Uniform, 4);
            for value in operands.a.iter_mut().chain(&mut operands.b) {
                *value = T::from_f64(value.to_f64() * scale);
            }
            let right = operands.correct();
            let report = operands.checker(method).check(&right);
            assert!(report.ok, "{report}");
            assert!(right.iter().any(|c| c.to_f64() != 0.0));
            let flushed = vec![T::ZERO; right.len()];
            assert!(!operands.checker(method).check(&flushed).ok);
        }
    }
    // Sums of a few times 2^-24, and of 2^-133, the least numbers.
    settled::<f16>(2f64.powi(-11));
    settled::<bf16>(2f64.powi(-65));
}
