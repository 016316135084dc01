//! The checks of the other files see what they must.

use cpu_gemm::CpuIsa;
use gemm_spec::{Layout, Order, Problem};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::operands::{Operands, context, difference, some_problem};

/// The checks above see the faults that they are there for.
#[test]
fn the_checks_see_planted_faults() {
    let problem = Problem::<f32>::new(60, 70, 500).with_scalars(1.5, 0.5);
    let operands = Operands::draw(problem, 11);
    let expected = operands.expected();
    let one = context(CpuIsa::Portable, 1);
    let right = operands.multiplied(&one);
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
        let found = broken.multiplied(&one);
        assert!(difference(&found, &expected).is_some(), "{what} was not seen");
    }
    // Sums in halves in place of chains: an order of its own, so other bits.
    let halves = {
        let mut first = Operands::draw(problem, 11);
        first.problem.k = 250;
        first.c = first.multiplied(&one);
        first.problem.beta = 1.0;
        first.a = operands.a[250..].to_vec();
        first.b = operands.b[250 * 70..].to_vec();
        first.multiplied(&one)
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
    let right = operands.multiplied(&one);
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
