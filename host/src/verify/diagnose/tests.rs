//! Every mistake on every kind of input is named first, and none is taken for another.

mod broken;

use std::num::NonZeroUsize;

use gemm_spec::{Element, Operand, Problem, Types, bf16, f16, with_gemm_types};

use self::broken::{Mistake, OneType, Setup};
use super::*;
use crate::cpu::{self, CPU};
use crate::fill::{Distribution, fill};

const MISTAKES: [Mistake; 35] = [
    Mistake::TransposedResult,
    Mistake::TransposedOperand(Operand::A),
    Mistake::TransposedOperand(Operand::B),
    Mistake::TransposedInTiles(Operand::A),
    Mistake::TransposedInTiles(Operand::B),
    Mistake::TransposedInTiles(Operand::C),
    Mistake::LastTileOnly,
    Mistake::TailMissing,
    Mistake::BlockAxesSwapped,
    Mistake::GridAxesSwapped,
    Mistake::OffsetMissing { axis: Axis::Columns, block: 1, stored: false },
    Mistake::OffsetMissing { axis: Axis::Columns, block: 0, stored: false },
    Mistake::OffsetMissing { axis: Axis::Rows, block: 1, stored: false },
    Mistake::OffsetMissing { axis: Axis::Columns, block: 1, stored: true },
    Mistake::OffsetMissing { axis: Axis::Rows, block: 0, stored: true },
    Mistake::OldC,
    Mistake::RunningSum,
    Mistake::EarlierTiles(Axis::Columns),
    Mistake::EarlierTiles(Axis::Rows),
    Mistake::FirstBarrier { ascending: true, together: 1 },
    Mistake::FirstBarrier { ascending: false, together: 32 },
    Mistake::SecondBarrier { ascending: true, together: 1 },
    Mistake::SecondBarrier { ascending: false, together: 1 },
    Mistake::SecondBarrier { ascending: true, together: 32 },
    Mistake::GridTruncated,
    Mistake::Ld(Operand::A, -1),
    Mistake::Ld(Operand::B, -2),
    Mistake::Ld(Operand::C, 4),
    Mistake::Alpha(1.0),
    Mistake::Alpha(3.0),
    Mistake::Beta(0.0),
    Mistake::Nan,
    Mistake::BitFlip,
    Mistake::ShortInputs,
    Mistake::StoreWithoutGuard,
];

/// Sizes, tile width, padding, factors.
type Shape = ((usize, usize, usize), usize, usize, (f64, f64));

const SHAPES: [Shape; 7] = [
    ((72, 72, 70), 16, 2, (2.0, -3.0)),
    ((70, 69, 70), 8, 3, (2.0, 0.0)),
    ((70, 72, 70), 4, 2, (1.0, 2.0)),
    ((100, 70, 70), 32, 1, (-2.0, 1.0)),
    ((20, 13, 17), 4, 5, (1.0, 0.0)),
    ((64, 128, 96), 32, 0, (2.0, 4.0)),
    ((40, 50, 30), 8, 0, (1.0, 0.0)),
];

const INPUTS: [Distribution; 3] =
    [Distribution::Position, Distribution::Int, Distribution::Uniform];

/// What a mistake is called on a problem.
fn name<T: OneType>(mistake: Mistake, setup: &Setup<T>) -> Pattern {
    let Problem { m, n, k, .. } = setup.problem;
    let width = setup.width;
    match mistake {
        Mistake::TransposedResult => Pattern::TransposedResult,
        Mistake::TransposedOperand(operand) => Pattern::TransposedOperand { operand },
        Mistake::TransposedInTiles(operand) => Pattern::TransposedInTiles { operand, width },
        Mistake::LastTileOnly => {
            Pattern::LastTileOnly { steps: k - (k - 1) / width * width, widths: vec![] }
        }
        Mistake::TailMissing => Pattern::TailMissing { steps: k % width, widths: vec![] },
        Mistake::BlockAxesSwapped => Pattern::BlockAxesSwapped { width },
        Mistake::GridAxesSwapped => Pattern::GridAxesSwapped { widths: vec![] },
        Mistake::OffsetMissing { axis, block, stored } => {
            Pattern::BlockOffsetMissing { axis, width, block, stored }
        }
        Mistake::OldC => Pattern::AccumulatorNotZeroed { leftover: Leftover::OldC },
        Mistake::RunningSum => {
            Pattern::AccumulatorNotZeroed { leftover: Leftover::RunningSum { width, old_c: true } }
        }
        Mistake::EarlierTiles(axis) => {
            Pattern::AccumulatorNotZeroed { leftover: Leftover::EarlierTiles { axis, width } }
        }
        Mistake::FirstBarrier { .. } => Pattern::StaleTile { width },
        Mistake::SecondBarrier { .. } => Pattern::OverwrittenEarly { width },
        Mistake::GridTruncated => {
            Pattern::EdgeUnwritten { rows: m % width, cols: n % width, widths: vec![] }
        }
        Mistake::Ld(operand, off) => {
            let ld = setup.problem.layout(operand).ld.strict_add_signed(off);
            Pattern::WrongLeadingDimension { operand, ld }
        }
        Mistake::Alpha(value) => Pattern::WrongFactor { factor: Factor::Alpha, value },
        Mistake::Beta(value) => Pattern::WrongFactor { factor: Factor::Beta, value },
        Mistake::Nan => Pattern::NotFinite { count: 0 },
        Mistake::BitFlip => Pattern::SingleElement { bit: Some(20) },
        Mistake::ShortInputs => Pattern::Noise { units: 0.0 },
        Mistake::StoreWithoutGuard => {
            Pattern::SpilledOver { cols: n.next_multiple_of(width) - n, width }
        }
        Mistake::None => unreachable!("nothing is wrong"),
    }
}

/// The pattern without what only a run can tell; the mistake's own tile width must be among those
/// that fit.
#[expect(clippy::wildcard_enum_match_arm, reason = "the patterns that have counts are named")]
fn without_counts(pattern: &Pattern, width: usize) -> Pattern {
    let among = |widths: &[usize]| if widths.contains(&width) { vec![] } else { widths.to_vec() };
    match pattern.clone() {
        Pattern::LastTileOnly { steps, widths } => {
            Pattern::LastTileOnly { steps, widths: among(&widths) }
        }
        Pattern::TailMissing { steps, widths } => {
            Pattern::TailMissing { steps, widths: among(&widths) }
        }
        Pattern::EdgeUnwritten { rows, cols, widths } => {
            Pattern::EdgeUnwritten { rows, cols, widths: among(&widths) }
        }
        Pattern::GridAxesSwapped { widths } => Pattern::GridAxesSwapped { widths: among(&widths) },
        Pattern::NotFinite { .. } => Pattern::NotFinite { count: 0 },
        Pattern::Noise { .. } => Pattern::Noise { units: 0.0 },
        other => other,
    }
}

fn found<T: OneType>(setup: &Setup<T>, c: &[T]) -> Option<Case> {
    let Setup { problem, a, b, before, .. } = setup;
    let evidence = Evidence { c_before: before, ..Evidence::new(problem, a, b, c) };
    diagnose(&evidence).expect("buffers fit")
}

/// Every mistake is named first, and nothing else is believed as much.
fn every_mistake_is_named<T: OneType>() {
    let mut failures = Vec::new();
    let mut named = vec![0; MISTAKES.len()];
    for (shape, width, padding, factors) in SHAPES {
        for distribution in INPUTS {
            let setup = Setup::<T>::new(shape, width, padding, factors, distribution);
            for (at, &mistake) in MISTAKES.iter().enumerate() {
                if !setup.shows(mistake) {
                    continue;
                }
                let place = format!(
                    "{mistake:?}, {} {shape:?}, width {width}, factors {factors:?}, {distribution}",
                    T::TYPES
                );
                let Some(case) = found(&setup, &setup.run(mistake, &setup.before)) else {
                    failures.push(format!("{place}: nothing is wrong"));
                    continue;
                };
                let want = name(mistake, &setup);
                match &case.diagnoses[..] {
                    [first, ..]
                        if without_counts(&first.pattern, width) == want
                            && first.confidence >= 0.9 =>
                    {
                        named[at] += 1;
                    }
                    other => {
                        let texts: Vec<_> = other
                            .iter()
                            .map(|d| format!("{:?} {:.2}", d.pattern, d.confidence))
                            .collect();
                        failures.push(format!("{place}: {}", texts.join("; ")));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} wrong names:\n{}", failures.len(), failures.join("\n"));
    for (mistake, named) in MISTAKES.iter().zip(named) {
        let floats_only = matches!(mistake, Mistake::Nan | Mistake::ShortInputs);
        let possible = !T::TYPES.is_integer() || !floats_only;
        assert!(named >= 3 || !possible, "{mistake:?} was tried {named} times");
    }
}

#[test]
fn every_mistake_is_named_in_f32() {
    every_mistake_is_named::<f32>();
}

#[test]
fn every_mistake_is_named_in_f64() {
    every_mistake_is_named::<f64>();
}

#[test]
fn every_mistake_is_named_in_i32() {
    every_mistake_is_named::<i32>();
}

/// The whole table: what each mistake makes every pattern say. Its own pattern fits best, and those
/// of the other mistakes do not fit.
#[test]
fn no_mistake_is_taken_for_another() {
    let (shape, width, padding, _) = SHAPES[1];
    let mut failures = Vec::new();
    let mut compared = 0;
    for (factors, distribution) in [
        ((2.0, 0.0), Distribution::Int),
        ((2.0, -3.0), Distribution::Int),
        ((1.5, -0.5), Distribution::Uniform),
    ] {
        let setup = Setup::<f64>::new(shape, width, padding, factors, distribution);
        let shown = || MISTAKES.into_iter().filter(|mistake| setup.shows(*mistake));
        for mistake in shown() {
            let c = setup.run(mistake, &setup.before);
            let Setup { problem, a, b, before, .. } = &setup;
            let scene = Scene::new(problem, a, b, before, &c);
            let survey = scene.survey(None);
            let table = candidates(&scene, &survey);
            for other in shown() {
                let pattern = name(other, &setup);
                let fit = table
                    .iter()
                    .find(|(found, _)| without_counts(found, width) == pattern)
                    .map_or(0.0, |(_, score)| score.fit);
                compared += 1;
                let own = name(mistake, &setup) == pattern;
                if own != (fit > 0.9) {
                    failures.push(format!("{mistake:?} as {pattern:?}: {fit:.2} ({factors:?})"));
                }
            }
        }
    }
    assert!(compared > 2000, "{compared} pairs");
    assert!(failures.is_empty(), "{} of {compared}:\n{}", failures.len(), failures.join("\n"));
}

fn right_results_are_left_alone<T: OneType>() {
    for (shape, width, padding, factors) in SHAPES {
        for distribution in Distribution::ALL {
            let setup = Setup::<T>::new(shape, width, padding, factors, distribution);
            let c = setup.run(Mistake::None, &setup.before);
            assert_eq!(found(&setup, &c), None, "{shape:?} {factors:?} {distribution}");
        }
    }
}

#[test]
fn right_results_have_no_diagnosis() {
    right_results_are_left_alone::<f32>();
    right_results_are_left_alone::<f64>();
    right_results_are_left_alone::<i32>();
    right_results_are_left_alone::<f16>();
    right_results_are_left_alone::<bf16>();
}

/// Factors of one type and a C of another.
#[test]
fn results_of_a_type_of_their_own_are_diagnosed_too() {
    fn try_type<T: ScalarTypes>() {
        const N: usize = 40;
        let problem = Problem::<T>::new(N, N, 30);
        let (mut a, mut b) = (vec![T::A::ZERO; N * 30], vec![T::B::ZERO; 30 * N]);
        fill(&mut a, 30, 30, Distribution::Uniform, 1, 0);
        fill(&mut b, N, N, Distribution::Uniform, 1, 1);
        let mut c = vec![T::C::POISON; N * N];
        let context = cpu::context(NonZeroUsize::new(1)).unwrap();
        CPU[0].gemm::<T>(&problem, &a, &b, &mut c, &context).unwrap();
        let first = |c: &[T::C]| {
            let case = diagnose(&Evidence::new(&problem, &a, &b, c)).unwrap();
            case.map(|case| case.diagnoses[0].pattern.clone())
        };
        assert_eq!(first(&c), None, "{}", T::TYPES);
        let turned: Vec<_> = (0..N * N).map(|at| c[at % N * N + at / N]).collect();
        assert_eq!(first(&turned), Some(Pattern::TransposedResult), "{}", T::TYPES);
    }
    for types in Types::ALL.into_iter().filter(|types| types.c() != types.a()) {
        with_gemm_types!(types, T => try_type::<T>());
    }
}

/// On a poisoned C the poison itself shows what was not written.
#[test]
fn poison_shows_what_was_never_written() {
    let setup = Setup::<f32>::new((70, 69, 70), 8, 3, (2.0, 0.0), Distribution::Uniform);
    let poisoned = vec![f32::POISON; setup.before.len()];
    let c = setup.run(Mistake::GridTruncated, &poisoned);
    let Setup { problem, a, b, .. } = &setup;
    let case = diagnose(&Evidence::new(problem, a, b, &c)).unwrap().unwrap();
    assert_eq!(case.wrong, 70 * 69 - 64 * 64);
    let first = &case.diagnoses[0].pattern;
    assert!(matches!(first, Pattern::EdgeUnwritten { rows: 6, cols: 5, .. }), "{first:?}");
}

/// One element says nothing about a pattern, and no pattern is claimed.
#[test]
fn a_single_element_leaves_doubt() {
    let problem = Problem::<f32>::new(1, 1, 4);
    let (a, b) = ([1.0, 2.0, 3.0, 4.0], [1.0; 4]);
    let case = diagnose(&Evidence::new(&problem, &a, &b, &[6.0])).unwrap().unwrap();
    assert!(case.diagnoses.iter().all(|diagnosis| diagnosis.confidence <= 0.5), "{case:?}");
}

/// Junk has no pattern.
#[test]
fn what_nothing_explains_is_not_explained() {
    let setup = Setup::<f64>::new((40, 40, 40), 8, 0, (1.0, 0.0), Distribution::Uniform);
    let junk: Vec<f64> = (0..1600).map(|at| f64::from(at * at % 977) / 7.0).collect();
    let case = found(&setup, &junk).expect("wrong");
    assert!(case.diagnoses.is_empty(), "{:?}", case.diagnoses);
}

/// A large problem is looked at in part, and a single wrong element is found by the hint alone.
#[test]
fn large_problems_are_looked_at_in_part() {
    let setup = Setup::<f32>::new((700, 900, 300), 16, 0, (1.0, 0.0), Distribution::Uniform);
    let Setup { problem, a, b, .. } = &setup;
    let c = setup.run(Mistake::TransposedInTiles(Operand::C), &setup.before);
    let case = diagnose(&Evidence::new(problem, a, b, &c)).unwrap().unwrap();
    assert!(case.looked_at < 100_000, "{}", case.looked_at);
    let want = Pattern::TransposedInTiles { operand: Operand::C, width: 16 };
    assert_eq!(case.diagnoses[0].pattern, want);

    let mut c = setup.run(Mistake::None, &setup.before);
    c[333 * 900 + 444] += 1.0;
    let evidence = Evidence { hint: Some((333, 444)), ..Evidence::new(problem, a, b, &c) };
    let case = diagnose(&evidence).unwrap().expect("the hint is looked at");
    assert_eq!((case.first.row, case.first.col, case.wrong), (333, 444, 1));
}

#[test]
fn short_buffers_are_refused() {
    let problem = Problem::<f32>::new(2, 2, 2);
    let (good, short) = ([0.0; 4], [0.0; 3]);
    for (a, b, c) in
        [(&short[..], &good[..], &good[..]), (&good, &short, &good), (&good, &good, &short)]
    {
        assert!(diagnose(&Evidence::new(&problem, a, b, c)).is_err());
    }
    let with_c = problem.with_scalars(1.0, 1.0);
    assert!(diagnose(&Evidence::new(&with_c, &good, &good, &good)).is_err());
}
