//! Correct results pass, whatever the data.

use gemm_spec::Problem;
use lab::ScalarTypes;

use crate::operands::{FILLS, Fill, JUDGES, Operands, problems, settle};

fn correct_results_pass<T: ScalarTypes>() {
    let (mut cases, mut failures) = (0, vec![]);
    for (seed, problem) in problems::<T>().enumerate() {
        for fill in FILLS {
            let operands = Operands::new(problem, fill, seed as u64);
            let k = problem.effective_k();
            let orders = [
                ("k order", operands.correct()),
                ("backwards", operands.result(|i, j| operands.sum(i, j, (0..k).rev()))),
                ("strided", {
                    let strided = |i, j| operands.sum(i, j, (0..4).flat_map(|s| (s..k).step_by(4)));
                    operands.result(strided)
                }),
            ];
            for method in JUDGES {
                let checker = operands.checker(method);
                for (order, c) in &orders {
                    let report = checker.check(c);
                    cases += 1;
                    if !report.ok || report.checked == 0 || report.method != method.name() {
                        failures.push(format!("{}, {order}: {report}", operands.name));
                    }
                }
            }
        }
    }
    settle(cases, &failures);
}

/// A test for the types of each product.
macro_rules! correct_results_pass {
    ([] $({
        $(#[$condition:meta])? $variant:ident, $name:ident, $types:ty, $four:tt, $usual:ident
    })+) => {
        mod correct_results_pass_in {
            $(
                #[test]
                fn $name() {
                    super::correct_results_pass::<$types>();
                }
            )+
        }
    };
}

gemm_spec::for_each_gemm_types!([correct_results_pass]);

#[test]
fn long_sums_of_positive_numbers_pass_in_any_method() {
    let operands = Operands::new(Problem::<f32>::new(8, 9, 40_000), Fill::Positive, 1);
    let c = operands.correct();
    for method in JUDGES {
        let report = operands.checker(method).check(&c);
        assert!(report.ok, "{report}");
    }
}
