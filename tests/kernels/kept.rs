//! Products one of whose factors was split before and is kept, and those whose limbs are not all there at a time, on
//! the emulator.

use gemm_spec::split::Panel;
use gemm_spec::{Layout, Operand};
use kernels_gpu::Kernel;
use lab::emulate::{self, Options, Splitting};
use lab::fill::{Distribution, fill};
use lab::{Problem, Scalar as _};
use libtest_mimic::Failed;

use crate::{Backend, Extent};

/// A way to spoil A and B.
type Change = fn(&mut [f32], &mut [f32]);

/// What a factor's limbs hold, and what they do not: then the product is that of the factors, and a flag of the factor
/// that is kept must not be lost.
const CHANGES: [(&str, Change); 5] = [
    ("plain", |_, _| ()),
    ("a NaN in A", |a, _| a[1234] = f32::NAN),
    ("an infinity in B", |_, b| b[77] = f32::INFINITY),
    ("A mostly lost", |a, _| wide(a)),
    ("B mostly lost", |_, b| wide(b)),
];

/// Three of four elements are so small that two limbs have none of their bits.
fn wide(elements: &mut [f32]) {
    for (at, value) in elements.iter_mut().enumerate() {
        *value *= if at % 4 == 0 { 1e9 } else { 1e-9 };
    }
}

/// The bits are those of a product that splits both.
pub(crate) fn keeps_factors(backend: Backend, spec: Kernel, extent: Extent) -> Result<(), Failed> {
    debug_assert!(backend == Backend::Emulator);
    let mut at = 0;
    for [m, n, k] in [[140, 135, 70], [64, 40, 200]] {
        for (a, b) in [
            (Layout::row_major(k + 2), Layout::row_major(n)),
            (Layout::col_major(m), Layout::col_major(k)),
        ] {
            let c = Layout::row_major(n + 1);
            let problem =
                Problem::<f32>::new(m, n, k).with_layouts(a, b, c).with_scalars(1.5, -0.5);
            for change in CHANGES {
                at += 1;
                if extent.has(at - 1, 2) {
                    one(spec, &problem, change)?;
                }
            }
        }
        // What is kept is not read.
        let nothing = Problem::<f32>::new(m, n, k).with_scalars(0.0, 2.0);
        one(spec, &nothing, CHANGES[1])?;
    }
    Ok(())
}

fn one(spec: Kernel, problem: &Problem<f32>, (what, change): (&str, Change)) -> Result<(), Failed> {
    let inputs = |operand, seed| -> Result<Vec<f32>, Failed> {
        let len = problem.required_len(operand)?;
        let mut data = vec![0.0; len];
        fill(&mut data, len, len, Distribution::Uniform, seed, 0);
        Ok(data)
    };
    let (mut a, mut b) = (inputs(Operand::A, 5)?, inputs(Operand::B, 6)?);
    let old = inputs(Operand::C, 7)?;
    change(&mut a, &mut b);
    let mut expected = old.clone();
    let whole = Panel { rows: size(problem.m), columns: size(problem.n) };
    emulate::run_with(Options::default(), spec, problem, &a, &b, &mut expected)?;
    // Those before a number that limbs do not hold are products of limbs, the others are not: that is right as well.
    let is_one_kind = what == "plain" || problem.effective_k() == 0;
    let ways = [
        (Some(Operand::A), None),
        (Some(Operand::B), None),
        (None, Some(Panel { rows: 64, columns: 128 })),
        (None, Some(Panel { rows: 128, ..whole })),
        (Some(Operand::A), Some(Panel { columns: 128, ..whole })),
        (Some(Operand::B), Some(Panel { rows: 64, ..whole })),
    ];
    for (kept, panel) in ways {
        if panel.is_some() && !is_one_kind {
            continue;
        }
        let mut found = old.clone();
        let splitting = Splitting { kept, panel };
        emulate::run_split(Options::default(), spec, problem, (&a, &b), &mut found, splitting)?;
        let differs = found.iter().zip(&expected).position(|(x, y)| !x.same_bits(*y));
        if let Some(at) = differs {
            let (x, y) = (found[at], expected[at]);
            return Err(format!("{what}, {splitting:?}, at {at}: {x:e}, not {y:e}").into());
        }
    }
    Ok(())
}

fn size(value: usize) -> u32 {
    u32::try_from(value).expect("a small matrix")
}
