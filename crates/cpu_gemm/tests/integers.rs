//! Products of integers are those of plain loops, to the last digit: of every size, storage order and address, by every
//! instruction set, by tiles and by the model of tiles. Floats hold integers too, as long as these are small.
//!
//! `CPU_GEMM_CASES` says how many products of each type are drawn, 400 without it.

use std::num::NonZeroUsize;

use cpu_gemm::{CpuContext, CpuIsa, CpuTypes, CpuUnits, gemm, gemm_in_tiles, matrix_units};
use gemm_spec::{Element as _, GemmTypes, Layout, Problem, bf16, f16};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// One of that many products is computed by the model as well, which is slow.
const MODELLED: usize = 4;

/// What elements are drawn from, and how an integer becomes an element.
struct Integers<A, C> {
    /// Magnitude at most. No sum of products may be more than C's type holds exactly, unless it wraps.
    most: i64,
    element: fn(i64) -> A,
    of_c: fn(i64) -> C,
}

fn cases() -> usize {
    let cases = std::env::var("CPU_GEMM_CASES").ok();
    cases.map_or(400, |cases| cases.parse().expect("CPU_GEMM_CASES is a number"))
}

/// From 1 to `2^doublings`, small ones more often.
fn size(random: &mut Xoshiro256PlusPlus, doublings: u32) -> usize {
    let most = 1 << random.random_range(0..=doublings);
    random.random_range(1..=most)
}

fn layout(random: &mut Xoshiro256PlusPlus, rows: usize, cols: usize) -> Layout {
    let padding = random.random_range(0..4);
    match random.random::<bool>() {
        true => Layout::row_major(cols + padding),
        false => Layout::col_major(rows + padding),
    }
}

/// The first element that is another: its place, what it is, and what it should be.
fn difference<E: PartialEq + Copy>(found: &[E], expected: &[E]) -> Option<(usize, E, E)> {
    let at = found.iter().zip(expected).position(|(found, expected)| found != expected)?;
    Some((at, found[at], expected[at]))
}

fn products_are_exact<T>(integers: &Integers<T::A, T::C>)
where
    T: CpuTypes<B = <T as GemmTypes>::A>,
{
    let contexts: Vec<CpuContext> = CpuIsa::available()
        .flat_map(|isa| [1, 3].map(|threads| CpuContext::with_isa(NonZeroUsize::new(threads), isa)))
        .map(|context| context.expect("the CPU has it").with_units(CpuUnits::Vector))
        .collect();
    let of_tiles = CpuContext::new(NonZeroUsize::new(2)).expect("threads start");
    let of_tiles = of_tiles.with_units(CpuUnits::All);
    let has_tiles = matrix_units().is_ok();
    for case in 0..cases() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(case as u64);
        let random = &mut random;
        let (m, n, k) = (size(random, 6), size(random, 6), size(random, 8));
        let adds = random.random::<bool>();
        let layouts = (layout(random, m, k), layout(random, k, n), layout(random, m, n));
        let problem = Problem::<T>::new(m, n, k)
            .with_scalars(T::Acc::ONE, if adds { T::Acc::ONE } else { T::Acc::ZERO })
            .with_layouts(layouts.0, layouts.1, layouts.2);

        let most = integers.most;
        // Operands begin anywhere.
        let before: [usize; 3] = std::array::from_fn(|_| random.random_range(0..20));
        let mut draw = |layout: Layout, rows, cols, before| -> Vec<i64> {
            let len = layout.required_len(rows, cols).expect("it is small") + before;
            std::iter::repeat_with(|| random.random_range(-most..most)).take(len).collect()
        };
        let a = draw(layouts.0, m, k, before[0]);
        let b = draw(layouts.1, k, n, before[1]);
        let c = draw(layouts.2, m, n, before[2]);
        let mut expected = c.clone();
        for row in 0..m {
            for col in 0..n {
                let term = |p| {
                    let a = a[before[0] + layouts.0.index(row, p)];
                    a.wrapping_mul(b[before[1] + layouts.1.index(p, col)])
                };
                let sum = (0..k).map(term).fold(0, i64::wrapping_add);
                let at = before[2] + layouts.2.index(row, col);
                expected[at] = if adds { sum.wrapping_add(c[at]) } else { sum };
            }
        }
        let elements =
            |of: &[i64]| -> Vec<T::A> { of.iter().copied().map(integers.element).collect() };
        let of_c = |of: &[i64]| -> Vec<T::C> { of.iter().copied().map(integers.of_c).collect() };
        let (a, b, c, expected) = (elements(&a), elements(&b), of_c(&c), of_c(&expected));
        let (a, b) = (&a[before[0]..], &b[before[1]..]);

        for context in &contexts {
            let mut found = c.clone();
            gemm(&problem, a, b, &mut found[before[2]..], context).expect("the buffers fit");
            let (isa, threads) = (context.isa(), context.threads());
            let found = difference(&found, &expected);
            assert_eq!(found, None, "{isa}, {threads} threads, {case}: {problem:?}");
        }
        let modelled = case % MODELLED == 0;
        for model in [has_tiles.then_some(false), modelled.then_some(true)].into_iter().flatten() {
            let mut found = c.clone();
            gemm_in_tiles(&problem, a, b, &mut found[before[2]..], &of_tiles, model)
                .expect("the buffers fit");
            let found = difference(&found, &expected);
            assert_eq!(found, None, "tiles, model {model}, {case}: {problem:?}");
        }
    }
}

/// The norm of a row that is one element is that element: nothing of it is scaled away, and no residue of it is beyond a
/// byte.
#[test]
fn rows_of_one_element_keep_all_of_its_bits() {
    const SIZE: usize = 96;
    let context = CpuContext::new(NonZeroUsize::new(2)).expect("threads start");
    let context = context.with_units(CpuUnits::All);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let problem = Problem::<f64>::new(SIZE, SIZE, SIZE);
    let diagonal = |values: &[f64]| -> Vec<f64> {
        let element = |at| if at / SIZE == at % SIZE { values[at / SIZE] } else { 0.0 };
        (0..SIZE * SIZE).map(element).collect()
    };
    let ones = diagonal(&[1.0; SIZE]);
    for _ in 0..20 {
        let values: [f64; SIZE] =
            std::array::from_fn(|_| random.random_range(1_i64 << 52..1 << 53) as f64);
        let values = diagonal(&values);
        for (a, b) in [(&values, &ones), (&ones, &values)] {
            for model in std::iter::once(true).chain(matrix_units().is_ok().then_some(false)) {
                let mut found = vec![f64::NAN; SIZE * SIZE];
                gemm_in_tiles(&problem, a, b, &mut found, &context, model)
                    .expect("the buffers fit");
                assert_eq!(difference(&found, &values), None, "model {model}");
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "sums wrap")]
const fn wrapped(sum: i64) -> i32 {
    sum as i32
}

#[test]
fn of_i8() {
    let element = |value| i8::try_from(value).expect("it is small");
    products_are_exact::<i8>(&Integers { most: 128, element, of_c: wrapped });
}

#[test]
fn of_i32() {
    products_are_exact::<i32>(&Integers { most: 1 << 31, element: wrapped, of_c: wrapped });
}

#[test]
fn of_f64() {
    let of = |value| value as f64;
    products_are_exact::<f64>(&Integers { most: 1 << 21, element: of, of_c: of });
}

#[test]
fn of_f32() {
    let of = |value| value as f32;
    products_are_exact::<f32>(&Integers { most: 1 << 7, element: of, of_c: of });
}

#[test]
fn of_f16() {
    let element = |value| f16::from_f32(value as f32);
    products_are_exact::<(f16, f32)>(&Integers { most: 1 << 7, element, of_c: |sum| sum as f32 });
}

#[test]
fn of_bf16() {
    let element = |value| bf16::from_f32(value as f32);
    products_are_exact::<(bf16, f32)>(&Integers { most: 1 << 7, element, of_c: |sum| sum as f32 });
}
