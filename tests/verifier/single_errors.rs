//! One wrong element is seen from the stated size on.

use gemm_spec::Problem;
use lab::verify::Method;
use lab::{Scalar, ScalarTypes};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::operands::{Fill, Operands, attacked, below_70, layouts, settle};

/// One wrong element, anywhere, by more than what the checker says it sees.
#[test]
fn one_wrong_element_is_seen_from_the_stated_size_on() {
    let (mut cases, mut failures) = (0, vec![]);
    for operands in attacked() {
        let right = operands.correct();
        let checkers = [operands.checker(Method::Full), operands.checker(Method::Freivalds)];
        let random = &mut Xoshiro256PlusPlus::seed_from_u64(9);
        for _ in 0..40 {
            let (row, col) = (below_70(random), below_70(random));
            let visible = checkers[1].visible_error(row).unwrap();
            let at = operands.problem.c.index(row, col);
            for step in [1.01 * visible, -3.0 * visible, 1e3 * visible] {
                let mut wrong = right.clone();
                let with_error = f64::from(right[at]) + if step == 0.0 { 1.0 } else { step };
                wrong[at] = f32::from_f64(with_error);
                for checker in &checkers {
                    let report = checker.check(&wrong);
                    cases += 1;
                    let named = report.first.is_some_and(|it| (it.row, it.col) == (row, col));
                    if report.ok || !named || report.bad != 1 {
                        let name = &operands.name;
                        failures.push(format!("C({row},{col}) += {step}, {name}: {report}"));
                    }
                }
            }
        }
    }
    settle(cases, &failures);
}

#[test]
fn one_wrong_bit_of_an_integer_is_seen_by_every_vector_that_must() {
    one_wrong_bit_is_seen::<i32>();
    one_wrong_bit_is_seen::<i8>();
}

fn one_wrong_bit_is_seen<T: ScalarTypes<Acc = i32, C = i32>>() {
    let (mut cases, mut failures) = (0, vec![]);
    let problem = Problem::<T>::new(40, 50, 60).with_scalars(3, -5);
    for problem in layouts(problem) {
        let operands = Operands::new(problem, Fill::Uniform, 2);
        let right = operands.correct();
        for bit in 0..32 {
            let mut wrong = right.clone();
            wrong[problem.c.index(bit, 49 - bit)] ^= 1 << bit;
            for method in [Method::Full, Method::Freivalds] {
                let report = operands.checker(method).check(&wrong);
                cases += 1;
                if report.ok || report.first.is_none_or(|it| it.row != bit) {
                    failures.push(format!("bit {bit}, {}: {report}", operands.name));
                }
            }
        }
        // Two errors of 2^31 cancel under odd factors, and must not under all four vectors.
        let mut wrong = right.clone();
        for row in 0..40 {
            wrong[problem.c.index(row, 3)] ^= i32::MIN;
            wrong[problem.c.index(row, 30)] ^= i32::MIN;
        }
        cases += 1;
        if operands.checker(Method::Freivalds).check(&wrong).bad < 25 {
            failures.push(format!("pairs of top bits, {}", operands.name));
        }
    }
    settle(cases, &failures);
}
