//! NaN, infinity, exact data, empty products, and what a report says.

use gemm_spec::{Operand, Problem};
use lab::Scalar;
use lab::verify::{Checker, Method, Report, VerifyError};

use crate::operands::{Fill, JUDGES, Operands, layouts, settle};

#[test]
fn exact_data_are_recognised_and_then_no_error_is_too_small() {
    let coded = Operands::new(Problem::<f32>::new(20, 30, 10), Fill::Integers, 4);
    let right = coded.correct();
    for method in JUDGES {
        let report = coded.checker(method).check(&right);
        assert!(report.ok && report.bound == 0.0, "{report}");
    }
    let zero = right.iter().position(|&value| value == 0.0).expect("some sum is 0");
    let mut negative = right.clone();
    negative[zero] = -0.0;
    for (at, value, ok) in [
        (zero, -0.0, true),
        (zero, f32::from_bits(1), false),
        (zero, 1e-20, false),
        (7, right[7].next_up(), false),
    ] {
        let mut c = right.clone();
        c[at] = value;
        for method in [Method::Full, Method::Freivalds] {
            let report = coded.checker(method).check(&c);
            assert_eq!(report.ok, ok, "{value:e} for {}: {report}", right[at]);
        }
    }
    // 1000 i + k squared passes 2^24 soon: then rounding must be allowed for.
    let large = Operands::new(Problem::<f32>::new(20, 30, 10), Fill::PositionCoded, 4);
    assert!(large.checker(Method::Full).check(&large.correct()).bound > 0.0);
    let wide = Operands::new(Problem::<f64>::new(20, 30, 10), Fill::PositionCoded, 4);
    assert_eq!(wide.checker(Method::Freivalds).check(&wide.correct()).bound, 0.0);
}

#[test]
fn what_the_problem_does_not_read_does_not_matter() {
    for method in JUDGES {
        let mut alpha_zero =
            Operands::new(Problem::<f32>::new(20, 30, 10).with_scalars(0.0, 2.0), Fill::Uniform, 4);
        alpha_zero.a.fill(f32::NAN);
        alpha_zero.b.fill(f32::INFINITY);
        let right = alpha_zero.correct();
        let report = alpha_zero.checker(method).check(&right);
        assert!(report.ok, "alpha 0, {report}");
        let spoilt = vec![f32::NAN; right.len()];
        assert!(!alpha_zero.checker(method).check(&spoilt).ok);

        let mut beta_zero = Operands::new(Problem::<f32>::new(20, 30, 10), Fill::Uniform, 4);
        beta_zero.c_before.fill(f32::NAN);
        let report = beta_zero.checker(method).check(&beta_zero.correct());
        assert!(report.ok, "beta 0, {report}");
        beta_zero.c_before.clear();
        assert!(
            Checker::new(&beta_zero.problem, &beta_zero.a, &beta_zero.b, &[], method, 1).is_ok()
        );
    }
}

#[test]
fn nan_and_infinity_must_be_where_the_operands_put_them() {
    let (mut cases, mut failures) = (0, vec![]);
    let plain = Problem::<f32>::new(20, 30, 10).with_scalars(1.5, -0.5);
    for problem in layouts(plain) {
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for operand in [Operand::A, Operand::B, Operand::C] {
                let mut operands = Operands::new(problem, Fill::Uniform, 6);
                match operand {
                    Operand::A => operands.a[problem.a.index(13, 4)] = odd,
                    Operand::B => operands.b[problem.b.index(4, 13)] = odd,
                    Operand::C => operands.c_before[problem.c.index(13, 13)] = odd,
                }
                let right = operands.correct();
                let mut tamed = right.clone();
                tamed[problem.c.index(13, 13)] = 1.0;
                let mut spread = right.clone();
                spread[problem.c.index(2, 2)] = odd;
                for method in [Method::Full, Method::Freivalds] {
                    let checker = operands.checker(method);
                    for (what, c, ok) in [
                        ("right", &right, true),
                        ("tamed", &tamed, false),
                        ("spread", &spread, false),
                    ] {
                        let report = checker.check(c);
                        cases += 1;
                        if report.ok != ok {
                            let name = &operands.name;
                            failures.push(format!("{odd} in {operand}, {what}, {name}: {report}"));
                        }
                    }
                }
                // The sign and the kind matter too.
                let at = problem.c.index(13, 13);
                let mut turned = right.clone();
                turned[at] = if right[at].is_nan() { f32::INFINITY } else { -right[at] };
                cases += 1;
                if operands.checker(Method::Full).check(&turned).ok {
                    failures.push(format!("{odd} in {operand} turned, {}", operands.name));
                }
            }
        }
    }
    for (alpha, beta) in [(f32::NAN, 0.0), (1.0, f32::NAN), (f32::INFINITY, 0.0)] {
        let operands = Operands::new(plain.with_scalars(alpha, beta), Fill::Uniform, 6);
        for method in JUDGES {
            cases += 1;
            let (right, checker) = (operands.correct(), operands.checker(method));
            let mut wrong = right.clone();
            wrong[0] = 0.0;
            if !checker.check(&right).ok || checker.check(&wrong).ok {
                failures.push(format!("alpha {alpha}, beta {beta}, {method}"));
            }
        }
    }
    settle(cases, &failures);
}

#[test]
fn sums_beyond_the_range_may_be_infinite_and_no_others() {
    let problem = Problem::<f32>::new(2, 3, 4);
    let a = [1e30, 1e30, 1e30, 1e30, 1.0, 1.0, 1.0, 1.0];
    let b = [1e30f32; 12];
    for method in [Method::Full, Method::Freivalds, Method::Sample] {
        let checker = Checker::new(&problem, &a, &b, &[], method, 1).unwrap();
        let inf = f32::INFINITY;
        assert!(checker.check(&[inf, inf, inf, 4e30, 4e30, 4e30]).ok);
        for wrong in [
            [inf, inf, -inf, 4e30, 4e30, 4e30],
            [inf, inf, f32::NAN, 4e30, 4e30, 4e30],
            [inf, inf, 3e38, 4e30, 4e30, 4e30],
            [inf, inf, inf, 4e30, 4e30, inf],
            [inf, inf, inf, 4e30, 4.1e30, 4e30],
        ] {
            let report = checker.check(&wrong);
            assert!(!report.ok, "{wrong:?}: {report}");
        }
    }
    // Terms of both signs beyond the range, though the sum is 0: any of these may come out.
    let problem = Problem::<f32>::new(1, 1, 2);
    let checker = Checker::new(&problem, &[1e30, -1e30], &[1e30, 1e30], &[], Method::Full, 1);
    let checker = checker.unwrap();
    for found in [0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        assert!(checker.check(&[found]).ok, "{found}");
    }
    assert!(!checker.check(&[f32::POISON]).ok);
    // f64 has nothing larger to add up in.
    let problem = Problem::<f64>::new(1, 1, 2);
    let huge = [1e300, 1e300];
    let full = Checker::new(&problem, &huge, &huge, &[], Method::Full, 1).unwrap();
    assert!(full.check(&[f64::INFINITY]).ok && !full.check(&[1.0]).ok);
    let refused = Checker::new(&problem, &huge, &huge, &[], Method::Freivalds, 1).err();
    assert_eq!(refused, Some(VerifyError::Range { magnitude: 1e300 }));
}

#[test]
fn results_below_the_normal_range_pass() {
    for method in JUDGES {
        let mut operands = Operands::new(Problem::<f32>::new(20, 30, 40), Fill::Uniform, 4);
        operands.a.iter_mut().for_each(|a| *a *= 1e-20);
        operands.b.iter_mut().for_each(|b| *b *= 1e-21);
        let right = operands.correct();
        assert!(right.iter().any(|c| c.is_subnormal()));
        let report = operands.checker(method).check(&right);
        assert!(report.ok, "{report}");
        let flushed = vec![0.0; right.len()];
        assert!(!operands.checker(method).check(&flushed).ok);
    }
}

#[test]
fn reports_tell_what_was_not_written() {
    for (alpha, beta) in [(1.0, 0.0), (1.0, 2.0)] {
        let problem = Problem::<f32>::new(70, 70, 77).with_scalars(alpha, beta);
        let operands = Operands::new(problem, Fill::Uniform, 3);
        let mut wrong = operands.correct();
        wrong[33 * 70..34 * 70].copy_from_slice(&operands.fresh()[33 * 70..34 * 70]);
        if beta == 0.0 {
            wrong[40 * 70 + 1] = f32::NAN;
        }
        for method in [Method::Full, Method::Freivalds] {
            let report = operands.checker(method).check(&wrong);
            assert_eq!((report.unwritten, report.ok), (70, false), "{report}");
            assert_eq!(report.nan, usize::from(beta == 0.0), "{report}");
            let first = report.first.unwrap();
            assert_eq!((first.row, first.col), (33, 0), "{report}");
            assert!(report.to_string().contains("70 never written"), "{report}");
        }
    }
}

#[test]
fn methods_say_what_they_did() {
    let operands = Operands::new(Problem::<f32>::new(30, 40, 20), Fill::Uniform, 3);
    let c = operands.correct();
    let report = |method| operands.checker(method).check(&c);
    let described = |report: &Report| (report.method, report.checked, report.unit);
    assert_eq!(described(&report(Method::Auto)), ("full", 1200, "elements"));
    assert_eq!(described(&report(Method::Sample)), ("sample", 8 * 40 + 8 * 30 - 8 * 8, "elements"));
    assert_eq!(described(&report(Method::None)), ("none", 0, "elements"));
    assert_eq!(report(Method::None).to_string(), "not checked");
    let freivalds = report(Method::Freivalds);
    assert_eq!(described(&freivalds), ("freivalds", 30, "rows"));
    assert_eq!(freivalds.sampled.unwrap().checked, 4 * 40);
    let short =
        Checker::new(&operands.problem, &operands.a[1..], &operands.b, &[], Method::Full, 1);
    assert!(matches!(short.err(), Some(VerifyError::Shape(_))));
}

#[test]
fn empty_problems_are_right() {
    for (m, n, k) in [(0, 3, 2), (3, 0, 2), (0, 0, 0), (3, 4, 0)] {
        for problem in layouts(Problem::<f32>::new(m, n, k)) {
            let operands = Operands::new(problem, Fill::Uniform, 3);
            for method in JUDGES {
                let right = operands.correct();
                assert!(operands.checker(method).check(&right).ok, "{problem:?} {method}");
            }
        }
    }
    // Without a k element C is zero.
    let zero = Problem::<f32>::new(1, 1, 0);
    for method in JUDGES {
        let checker = Checker::new(&zero, &[], &[], &[], method, 1).unwrap();
        assert!(checker.check(&[0.0]).ok && !checker.check(&[1.0]).ok);
    }
}
