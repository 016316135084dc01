//! What products by tiles promise: the bits of the model of their instructions, the same ones for any number
//! of threads, storage order and address; an error within the bound, and multiply-adds where the range of the
//! operands is too wide for them.

#![expect(clippy::print_stderr, reason = "it says what could not be tested")]

#[path = "../../../tests/packed/pages.rs"]
mod pages;

use std::fmt::Debug;
use std::num::NonZeroUsize;

use cpu_gemm::{
    CpuContext, CpuTypes, CpuUnits, Factor, View, ViewMut, gemm, gemm_in_tiles, gemm_views,
    matrix_units, views_use_matrix_units,
};
use gemm_spec::{Accumulator, Convert, Element, Layout, Problem, bf16, f16};
use pages::Fenced;

fn context(threads: usize) -> CpuContext {
    CpuContext::new(NonZeroUsize::new(threads)).expect("threads start")
}

/// Whether the machine has tiles; else says that the test is not run.
fn has_tiles() -> bool {
    match matrix_units() {
        Ok(_) => true,
        Err(reason) => {
            eprintln!("not run: {reason}");
            false
        }
    }
}

/// Numbers that depend on the seed alone.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 32
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.bits()).expect("32 bits") % end
    }

    /// From -1 to 1.
    fn signed(&mut self) -> f32 {
        (self.bits() as f32) / 2_147_483_648.0 - 1.0
    }
}

/// Elements that tiles multiply.
trait Tiled: Element {
    fn drawn(random: &mut Random) -> Self;
}

impl Tiled for i8 {
    fn drawn(random: &mut Random) -> Self {
        random.bits().to_le_bytes()[0].cast_signed()
    }
}

impl Tiled for i32 {
    fn drawn(random: &mut Random) -> Self {
        u32::try_from(random.bits()).expect("32 bits").cast_signed()
    }
}

macro_rules! tiled_floats {
    ($($float:ty),*) => {$(
        impl Tiled for $float {
            fn drawn(random: &mut Random) -> Self {
                let exponent = i32::try_from(random.below(9)).expect("it is small") - 4;
                Convert::<f32>::narrow(random.signed() * 2f32.powi(exponent))
            }
        }
    )*};
}

tiled_floats!(f32, f16, bf16);

impl Tiled for f64 {
    fn drawn(random: &mut Random) -> Self {
        let [signed, low] = [random.signed(), random.signed()].map(Self::from);
        let exponent = i32::try_from(random.below(9)).expect("it is small") - 4;
        (signed + low * 2f64.powi(-24)) * 2f64.powi(exponent)
    }
}

/// A product whose operands are in their storage orders, in buffers that end with their last element.
#[derive(Debug)]
struct Operands<T: CpuTypes> {
    problem: Problem<T>,
    a: Vec<T::A>,
    b: Vec<T::B>,
    c: Vec<T::C>,
}

fn layout(random: &mut Random, rows: usize, cols: usize) -> Layout {
    let padding = [0, 0, 1, 3, 16][random.below(5)];
    match random.below(2) {
        0 => Layout::row_major(cols + padding),
        _ => Layout::col_major(rows + padding),
    }
}

fn elements<E: Tiled>(layout: Layout, rows: usize, cols: usize, random: &mut Random) -> Vec<E> {
    let len = layout.required_len(rows, cols).expect("it is small");
    std::iter::repeat_with(|| E::drawn(random)).take(len).collect()
}

impl<T: CpuTypes<A: Tiled, B: Tiled, C: Tiled>> Operands<T> {
    fn some(random: &mut Random) -> Self {
        const SIDES: [usize; 12] = [1, 2, 15, 16, 17, 31, 32, 33, 40, 63, 65, 97];
        const DEPTHS: [usize; 12] = [1, 2, 3, 31, 32, 33, 64, 65, 130, 191, 193, 400];
        let (m, n) = (SIDES[random.below(12)], SIDES[random.below(12)]);
        let k = DEPTHS[random.below(12)];
        let factors = [T::Acc::ZERO, T::Acc::ONE, T::Acc::ONE, two::<T::Acc>()];
        let (alpha, beta) = (factors[random.below(4)], factors[random.below(4)]);
        let layouts = (layout(random, m, k), layout(random, k, n), layout(random, m, n));
        let problem = Problem::<T>::new(m, n, k)
            .with_scalars(alpha, beta)
            .with_layouts(layouts.0, layouts.1, layouts.2);
        Self::of(problem, random)
    }

    fn of(problem: Problem<T>, random: &mut Random) -> Self {
        let Problem { m, n, k, .. } = problem;
        let a = elements(problem.a, m, k, random);
        let b = elements(problem.b, k, n, random);
        let c = elements(problem.c, m, n, random);
        Self { problem, a, b, c }
    }

    fn by_tiles(&self, threads: usize, model: bool) -> Vec<T::C> {
        self.by_tiles_of(CpuUnits::All, threads, model)
    }

    fn by_tiles_of(&self, units: CpuUnits, threads: usize, model: bool) -> Vec<T::C> {
        let mut c = self.c.clone();
        let context = context(threads).with_units(units);
        gemm_in_tiles(&self.problem, &self.a, &self.b, &mut c, &context, model)
            .expect("the buffers fit");
        c
    }

    /// By vector registers: the engine's sums, as tests of those show.
    fn by_vectors(&self) -> Vec<T::C> {
        let mut c = self.c.clone();
        let context = context(2).with_units(CpuUnits::Vector);
        gemm(&self.problem, &self.a, &self.b, &mut c, &context).expect("the buffers fit");
        c
    }
}

fn two<Acc: Accumulator>() -> Acc {
    Acc::ONE.mul_add(Acc::ONE, Acc::ONE)
}

/// The bits of elements.
fn bits<E: Copy>(elements: &[E]) -> Vec<u8> {
    // SAFETY: elements are numbers without padding, each byte of which is a value.
    unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }.to_vec()
}

fn instructions_have_the_bits_of_the_model<T>(units: CpuUnits, cases: u64)
where
    T: CpuTypes<A: Tiled, B: Tiled, C: Tiled>,
{
    for seed in 0..cases {
        let operands = Operands::<T>::some(&mut Random(seed));
        let expected = bits(&operands.by_tiles_of(units, 2, true));
        for threads in [1, 2, 5] {
            let found = bits(&operands.by_tiles_of(units, threads, false));
            assert!(found == expected, "{threads} threads, {:?}", operands.problem);
        }
    }
}

/// A test of the types of each product that tiles multiply.
macro_rules! for_each_tiled {
    ($($name:ident: $types:ty, $units:ident;)*) => {
        mod instructions_have_the_bits_of_the_model_in {
            use super::*;
            $(
                #[test]
                fn $name() {
                    if has_tiles() {
                        super::instructions_have_the_bits_of_the_model::<$types>(CpuUnits::$units, 60);
                    }
                }
            )*
        }

        mod bits_do_not_depend_on_storage_in {
            use super::*;
            $(
                #[test]
                fn $name() {
                    bits_do_not_depend_on_storage::<$types>(CpuUnits::$units);
                }
            )*
        }

        mod nothing_beside_the_operands_is_touched_in {
            use super::*;
            $(
                #[test]
                fn $name() {
                    nothing_beside_the_operands_is_touched::<$types>(CpuUnits::$units);
                }
            )*
        }
    };
}

for_each_tiled!(
    i8: i8, All;
    bf16: bf16, All;
    bf16_f32: (bf16, f32), All;
    f16: f16, All;
    f16_f32: (f16, f32), All;
    f32: f32, All;
    f32_rounded_to_tf32: f32, Tf32;
    f32_rounded_to_bf16: f32, Bf16;
    f64: f64, All;
);

/// By the model, so that it holds on every machine.
fn bits_do_not_depend_on_storage<T: CpuTypes<A: Tiled, B: Tiled, C: Tiled>>(units: CpuUnits) {
    // The second C is thin, so that the long operand is packed where it is used.
    for size in [(40, 35, 230), (5, 2053, 40)] {
        bits_of_a_size_do_not_depend_on_storage::<T>(size, units);
    }
}

fn bits_of_a_size_do_not_depend_on_storage<T: CpuTypes<A: Tiled, B: Tiled, C: Tiled>>(
    (m, n, k): (usize, usize, usize),
    units: CpuUnits,
) {
    let mut random = Random(7);
    let rows = Operands::<T>::of(Problem::new(m, n, k), &mut random);
    let expected = rows.by_tiles_of(units, 1, true);
    for orders in 1..8 {
        let of = |bit: usize, rows: usize, cols: usize| match orders >> bit & 1 {
            0 => Layout::row_major(cols + 1),
            _ => Layout::col_major(rows + 1),
        };
        let (a, b, c) = (of(0, m, k), of(1, k, n), of(2, m, n));
        let mut other = Operands::<T>::of(rows.problem.with_layouts(a, b, c), &mut random);
        for row in 0..m {
            for p in 0..k {
                other.a[a.index(row, p)] = rows.a[row * k + p];
            }
        }
        for p in 0..k {
            for col in 0..n {
                other.b[b.index(p, col)] = rows.b[p * n + col];
            }
        }
        let found = other.by_tiles_of(units, 3, true);
        for row in 0..m {
            for col in 0..n {
                let (found, expected) = (found[c.index(row, col)], expected[row * n + col]);
                assert!(bits(&[found]) == bits(&[expected]), "{orders}: ({row}, {col})");
            }
        }
    }
}

fn nothing_beside_the_operands_is_touched<T: CpuTypes<A: Tiled, B: Tiled, C: Tiled>>(
    units: CpuUnits,
) {
    if !has_tiles() {
        return;
    }
    let mut random = Random(11);
    let mut cases: Vec<_> = (0..25).map(|_| Operands::<T>::some(&mut random)).collect();
    // Rows enough that micro-tiles are laid by the cache lines of C.
    let tall = Problem::new(300, 270, 70).with_layouts(
        Layout::row_major(80),
        Layout::col_major(73),
        Layout::row_major(272),
    );
    cases.push(Operands::of(tall, &mut random));
    // A thin C, so that the long operand is packed where it is used.
    for (m, n, k) in [(7, 2053, 70), (2053, 7, 70), (33, 2048, 150)] {
        let rows = (Layout::row_major(k), Layout::row_major(n), Layout::row_major(n));
        let cols = (Layout::col_major(m), Layout::col_major(k), Layout::row_major(n));
        for (a, b, c) in [rows, cols] {
            cases.push(Operands::of(Problem::new(m, n, k).with_layouts(a, b, c), &mut random));
        }
    }
    for operands in cases {
        let expected = bits(&operands.by_tiles_of(units, 1, false));
        for at_end in [true, false] {
            let a = Fenced::new(&operands.a, at_end);
            let b = Fenced::new(&operands.b, at_end);
            let mut c = Fenced::new(&operands.c, at_end);
            let (a, b) = (a.as_slice(), b.as_slice());
            let context = context(2).with_units(units);
            gemm_in_tiles(&operands.problem, a, b, c.as_mut_slice(), &context, false)
                .expect("the buffers fit");
            assert!(bits(c.as_slice()) == expected, "{:?}", operands.problem);
        }
    }
}

/// Wherever C begins within a cache line, and wherever its rows do.
#[test]
fn c_may_begin_anywhere() {
    if !has_tiles() {
        return;
    }
    let (m, n, k) = (530, 530, 70);
    for ld in [530, 544, 1024] {
        let problem = Problem::<f32>::new(m, n, k).with_layouts(
            Layout::row_major(k),
            Layout::row_major(n),
            Layout::row_major(ld),
        );
        let operands = Operands::of(problem, &mut Random(3));
        let mut first = None;
        for shift in [0, 1, 4, 12, 15] {
            let mut c = vec![0.0f32; shift + operands.c.len()];
            c[shift..].copy_from_slice(&operands.c);
            gemm_in_tiles(&problem, &operands.a, &operands.b, &mut c[shift..], &context(2), false)
                .expect("the buffers fit");
            let found = bits(&c[shift..]);
            assert!(*first.get_or_insert_with(|| found.clone()) == found, "{ld}, from {shift}");
        }
    }
}

/// Sums of i8 are those of every other implementation, by the instructions and by their model.
#[test]
fn sums_of_bytes_have_the_bits_of_vectors() {
    for seed in 0..40 {
        let operands = Operands::<i8>::some(&mut Random(seed));
        let expected = operands.by_vectors();
        for model in [true, false] {
            assert_eq!(operands.by_tiles(2, model), expected, "{:?}", operands.problem);
        }
    }
    // The least number squared, so often that sums wrap.
    let problem = Problem::<i8>::new(33, 34, 1 << 17);
    let (a, b) = (vec![i8::MIN; 33 << 17], vec![i8::MIN; 34 << 17]);
    let mut c = vec![0; 33 * 34];
    gemm_in_tiles(&problem, &a, &b, &mut c, &context(2), false).expect("the buffers fit");
    assert!(c.iter().all(|&sum| sum == i32::MIN));
}

/// The worst error over |A||B| of an element, in units of f32's roundoff, by tiles and by vector registers.
fn worst_errors<E>(m: usize, k: usize, element: impl Fn(&mut Random) -> f32) -> (f64, f64)
where
    E: Tiled + Convert<f32>,
    (E, f32): Copy,
    Products<E>: Product<E>,
{
    let mut random = Random(5);
    let mut draw = |count: usize| -> Vec<E> {
        std::iter::repeat_with(|| E::narrow(element(&mut random))).take(count).collect()
    };
    let (a, b) = (draw(m * k), draw(k * m));
    let tiles = Products::<E>::by_tiles(m, k, &a, &b);
    let mut worst = (0.0f64, 0.0f64);
    for row in 0..m {
        for col in 0..m {
            let terms = || {
                (0..k).map(|p| {
                    let (x, y) = (a[row * k + p].widen(), b[p * m + col].widen());
                    f64::from(x) * f64::from(y)
                })
            };
            let (sum, magnitude) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
            let error = |c: f32| (f64::from(c) - sum).abs() / magnitude * f64::from(1 << 24);
            worst.0 = worst.0.max(error(tiles[row * m + col]));
            let chain = (0..k)
                .fold(0.0f32, |sum, p| a[row * k + p].widen().mul_add(b[p * m + col].widen(), sum));
            worst.1 = worst.1.max(error(chain));
        }
    }
    worst
}

/// Draws an element.
type Draw = fn(&mut Random) -> f32;

/// Products of elements with a C of f32.
struct Products<E>(E);

trait Product<E> {
    fn by_tiles(m: usize, k: usize, a: &[E], b: &[E]) -> Vec<f32>;
}

macro_rules! products {
    ($($element:ty: $types:ty),*) => {$(
        impl Product<$element> for Products<$element> {
            fn by_tiles(m: usize, k: usize, a: &[$element], b: &[$element]) -> Vec<f32> {
                let problem = Problem::<$types>::new(m, m, k);
                let mut tiles = vec![0.0; m * m];
                gemm_in_tiles(&problem, a, b, &mut tiles, &context(2), false).expect("they fit");
                tiles
            }
        }
    )*};
}

products!(f32: f32, f16: (f16, f32), bf16: (bf16, f32));

/// No element is further off than a chain of multiply-adds may be, and none further than the worst of one.
#[test]
fn errors_are_within_those_of_chains() {
    fn try_type<E: Tiled + Convert<f32>>()
    where
        Products<E>: Product<E>,
    {
        for k in [96, 512, 2000] {
            let sets: [(&str, Draw); 3] = [
                ("signed", |random| random.signed()),
                ("positive", |random| random.signed().abs()),
                ("spread", |random| {
                    random.signed() * 2f32.powi(i32::try_from(random.below(13)).expect("small") - 6)
                }),
            ];
            for (name, element) in sets {
                let (tiles, chain) = worst_errors::<E>(48, k, element);
                assert!(tiles <= chain, "{name}, k = {k}: {tiles} units, a chain {chain}");
            }
        }
    }
    try_type::<f32>();
    try_type::<f16>();
    try_type::<bf16>();
}

/// Of many blocks of k the sums of chains are added without loss, so that errors grow hardly at all: by the square root
/// of the number of blocks where they are added one after the other.
#[test]
fn errors_of_many_blocks_are_those_of_a_chain() {
    let errors = |k| worst_errors::<f32>(16, k, |random| random.signed().abs()).0;
    let (few, many) = (errors(192 * 24), errors(192 * 24 * 12 + 100));
    assert!(many <= 1.2 * few, "{few} units of one chain, {many} of 13");
    // A sum is rounded to f32 in the end.
    assert!(many <= 2.0, "{many} units");
}

/// Chains of blocks too have the bits of the model.
#[test]
fn sums_of_chains_have_the_bits_of_the_model() {
    fn try_types<T: CpuTypes<A: Tiled, B: Tiled, C: Tiled>>() {
        for k in [192 * 24, 192 * 24 + 1, 192 * 48 + 70] {
            let operands = Operands::<T>::of(Problem::new(33, 34, k), &mut Random(3));
            let found = bits(&operands.by_tiles(2, false));
            assert!(found == bits(&operands.by_tiles(1, true)), "k = {k}");
        }
    }
    if has_tiles() {
        try_types::<f32>();
        try_types::<(f16, f32)>();
    }
}

/// Sums of rounded factors are within what their units promise, and are not those of factors as they are.
#[test]
fn errors_of_rounded_factors_are_within_their_bounds() {
    let (m, n) = (40, 50);
    for k in [33, 96, 700] {
        let operands = Operands::<f32>::of(Problem::new(m, n, k), &mut Random(21));
        for (units, of_factors) in [(CpuUnits::Tf32, -10), (CpuUnits::Bf16, -7)] {
            let bound = 2f64.powi(of_factors) + k as f64 * 2f64.powi(-24);
            let c = operands.by_tiles_of(units, 2, false);
            let mut worst = 0.0f64;
            for row in 0..m {
                for col in 0..n {
                    let term = |p: usize| {
                        f64::from(operands.a[row * k + p]) * f64::from(operands.b[p * n + col])
                    };
                    let sum: f64 = (0..k).map(term).sum();
                    let magnitude: f64 = (0..k).map(|p| term(p).abs()).sum();
                    worst = worst.max((f64::from(c[row * n + col]) - sum).abs() / magnitude);
                }
            }
            assert!(worst <= bound, "{units}, k = {k}: {worst:e}, bound {bound:e}");
            // Far from what is rounded to nothing, and from the bound of more exact units.
            assert!(worst > 2f64.powi(2 * of_factors - 4), "{units}, k = {k}: {worst:e}");
        }
    }
}

/// With the setting `tiles` products of every size are computed by them, or by their model.
#[test]
fn a_setting_has_products_of_every_size_in_tiles() {
    fn check<T: CpuTypes<A: Tiled, B: Tiled, C: Tiled>>() {
        let mut random = Random(23);
        let context = context(2).with_units(CpuUnits::Tiles);
        for case in 0..20 {
            let operands = Operands::<T>::some(&mut random);
            let mut found = operands.c.clone();
            gemm(&operands.problem, &operands.a, &operands.b, &mut found, &context)
                .expect("the buffers fit");
            assert!(bits(&found) == bits(&operands.by_tiles(2, false)), "case {case}");
        }
    }
    check::<i8>();
    check::<bf16>();
    check::<f16>();
    check::<f32>();
    check::<f64>();
}

/// Products of views so small that vector units would have them on the caller's thread are no exception.
#[test]
fn a_setting_has_small_products_of_views_in_tiles() {
    let mut operands = Operands::<f32>::of(Problem::new(12, 13, 14), &mut Random(29));
    operands.problem = operands.problem.with_scalars(1.0, 1.0);
    let Problem { m, n, k, .. } = operands.problem;
    let context = context(2).with_units(CpuUnits::Tiles);
    let mut found = operands.c.clone();
    let a = View::new(&operands.a, m, k, operands.problem.a).expect("it fits");
    let b = View::new(&operands.b, k, n, operands.problem.b).expect("it fits");
    let c = ViewMut::new(&mut found, m, n, operands.problem.c).expect("it fits");
    gemm_views(1.0, Factor::plain(a), Factor::plain(b), 1.0, c, &context).expect("they fit");
    assert!(views_use_matrix_units::<f32>([m, n, k], &context));
    assert_eq!(bits(&found), bits(&operands.by_tiles(2, false)));
    assert_ne!(bits(&found), bits(&operands.by_vectors()));
}

/// What the instructions would take for zero, or make a NaN of, is left to multiply-adds: their bits.
#[test]
fn wide_ranges_are_left_to_vectors() {
    let (m, n, k) = (40, 50, 96);
    let try_element = |value: f32, elsewhere: f32| {
        let mut operands = Operands::<f32>::of(Problem::new(m, n, k), &mut Random(9));
        for element in &mut operands.b {
            *element *= elsewhere;
        }
        operands.a[7 * k + 5] = value;
        let expected = operands.by_vectors();
        let ways = [CpuUnits::All, CpuUnits::Tf32, CpuUnits::Bf16]
            .map(|units| [true, false].map(|model| (units, model)));
        for (units, model) in ways.into_iter().flatten() {
            let found = operands.by_tiles_of(units, 2, model);
            let alike =
                |(x, y): (&f32, &f32)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
            assert!(
                found.iter().zip(&expected).all(alike),
                "{value}, {elsewhere}, {units}, {model}"
            );
        }
    };
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 1e-40, 2f32.powi(-101)] {
        try_element(value, 1.0);
    }
    // Neither is extreme, but their products are.
    try_element(2f32.powi(-60), 2f32.powi(-50));
    try_element(2f32.powi(70), 2f32.powi(60));

    let mut halves = Operands::<(f16, f32)>::of(Problem::new(m, n, k), &mut Random(9));
    halves.a[3] = f16::INFINITY;
    assert_eq!(bits(&halves.by_tiles(2, false)), bits(&halves.by_vectors()));
    // Every finite number of 16 bits is far from the ends of f32's range.
    halves.a[3] = f16::from_bits(1);
    halves.b[3] = f16::MAX;
    assert_ne!(bits(&halves.by_tiles(2, false)), bits(&halves.by_vectors()));
}

/// An element far smaller than others is no reason not to use tiles, and is multiplied exactly.
#[test]
fn small_elements_count() {
    let (m, n, k) = (33, 34, 40);
    let problem = Problem::<f32>::new(m, n, k);
    let mut a = vec![0.0; m * k];
    let mut b = vec![0.0; k * n];
    let (small, large) = (f32::from_bits(0x2eff_ffff), f32::from_bits(0x527f_fff1));
    a[3] = small;
    a[k + 3] = large;
    b[3 * n] = 1.0;
    let mut c = vec![7.0; m * n];
    gemm_in_tiles(&problem, &a, &b, &mut c, &context(1), false).expect("the buffers fit");
    assert_eq!((c[0], c[n], c[1]), (small, large, 0.0));
}

/// An exact sum of products: a list of numbers without common bits.
#[derive(Default)]
struct Exact(Vec<f64>);

impl Exact {
    fn add(&mut self, mut number: f64) {
        // Shewchuk's expansion.
        let mut kept = Vec::new();
        for &part in &self.0 {
            let sum = number + part;
            let of_part = sum - number;
            let rest = (number - (sum - of_part)) + (part - of_part);
            if rest != 0.0 {
                kept.push(rest);
            }
            number = sum;
        }
        kept.push(number);
        self.0 = kept;
    }

    fn add_product(&mut self, x: f64, y: f64) {
        let product = x * y;
        self.add(x.mul_add(y, -product));
        self.add(product);
    }

    /// The sum, its small parts first.
    fn rounded(&self) -> f64 {
        self.0.iter().sum()
    }
}

/// An f64 of 53 random bits.
fn any_f64(random: &mut Random) -> f64 {
    f64::from(random.signed()) + f64::from(random.signed()) * 2f64.powi(-24)
}

/// Draws an element of f64 for a line and an index along k.
type DrawAt = fn(&mut Random, usize, usize) -> f64;

/// The worst error over |A||B| of an element, in units of f64's roundoff, by tiles and by chains of multiply-adds.
fn worst_errors_of_f64([m, k]: [usize; 2], element: DrawAt) -> [f64; 2] {
    let mut random = Random(5);
    let mut draw = || -> Vec<f64> {
        (0..m * k).map(|index| element(&mut random, index / k, index % k)).collect()
    };
    let (a, b) = (draw(), draw());
    let problem = Problem::<f64>::new(m, m, k).with_layouts(
        Layout::row_major(k),
        Layout::col_major(k),
        Layout::row_major(m),
    );
    let mut tiles = vec![0.0; m * m];
    gemm_in_tiles(&problem, &a, &b, &mut tiles, &context(2), false).expect("they fit");
    let mut worst = [0.0f64; 2];
    for (index, &found) in tiles.iter().enumerate() {
        let (row, col) = (&a[index / m * k..][..k], &b[index % m * k..][..k]);
        let mut sum = Exact::default();
        row.iter().zip(col).for_each(|(&x, &y)| sum.add_product(x, y));
        let magnitude: f64 = row.iter().zip(col).map(|(x, y)| (x * y).abs()).sum();
        let chain = row.iter().zip(col).fold(0.0f64, |sum, (&x, &y)| x.mul_add(y, sum));
        for (worst, found) in worst.iter_mut().zip([found, chain]) {
            sum.add(-found);
            let error = sum.rounded().abs();
            sum.add(found);
            *worst = worst.max(error / magnitude * 2f64.powi(53));
        }
    }
    worst
}

/// By residues no element is further off than a chain of multiply-adds may be, whatever its lines hold.
#[test]
fn errors_of_residues_are_within_those_of_chains() {
    let sets: [(&str, DrawAt); 5] = [
        ("signed", |random, _, _| any_f64(random)),
        ("positive", |random, _, _| any_f64(random).abs()),
        ("spread", |random, _, _| {
            let exponent = i32::try_from(random.below(41)).expect("it is small") - 20;
            any_f64(random) * 2f64.powi(exponent)
        }),
        // Lines of far apart sizes, and, within a line, elements that others of their size meet elsewhere.
        ("scaled lines", |random, line, _| {
            any_f64(random) * 2f64.powi(i32::try_from(line * 37 % 301).expect("it is small") - 150)
        }),
        ("scaled k", |random, line, p| {
            let exponent = i32::try_from(p * 41 % 121).expect("it is small") - 60;
            any_f64(random) * 2f64.powi(if line % 2 == 0 { exponent } else { -exponent })
        }),
    ];
    for k in [96, 512, 2000] {
        for (name, element) in sets {
            let [tiles, chain] = worst_errors_of_f64([66, k], element);
            assert!(tiles <= chain, "{name}, k = {k}: {tiles} units, a chain {chain}");
            // One rounding of each element and one of the sum, where no line is rounded further.
            assert!(name != "positive" || tiles < 1.5, "k = {k}: {tiles} units");
        }
    }
}

/// By more residues an element is the exact sum, rounded, but for what elements far below their line's largest lose;
/// and the bits are those of the model.
#[test]
fn more_residues_give_the_exact_sum_rounded() {
    for are_signed in [true, false] {
        let (name, element) = match are_signed {
            true => ("signed", (|x| x) as fn(f64) -> f64),
            false => ("positive", f64::abs as fn(f64) -> f64),
        };
        for k in [1, 2, 31, 96, 700, 3000] {
            let (m, n) = (35, 34);
            let mut random = Random(17);
            let mut draw = |count: usize| -> Vec<f64> {
                std::iter::repeat_with(|| element(any_f64(&mut random) / 3.0)).take(count).collect()
            };
            let (a, b) = (draw(m * k), draw(k * n));
            let operands =
                Operands::<f64> { problem: Problem::new(m, n, k), a, b, c: vec![0.0; m * n] };
            let found = operands.by_tiles_of(CpuUnits::ExactRounded, 2, false);
            let model = operands.by_tiles_of(CpuUnits::ExactRounded, 1, true);
            assert!(bits(&found) == bits(&model), "{name}, k = {k}");
            let mut others = 0;
            for (index, &found) in found.iter().enumerate() {
                let (row, col) = (index / n, index % n);
                let term = |p: usize| (operands.a[row * k + p], operands.b[p * n + col]);
                let mut sum = Exact::default();
                (0..k).map(term).for_each(|(x, y)| sum.add_product(x, y));
                others += u32::from(found != sum.rounded());
                // Half a unit in the last place, and what rounding to 2^-56 of the lines' largest may change.
                let half_ulp = found.abs() * 2f64.powi(-53);
                let magnitudes = |factor: fn((f64, f64)) -> f64| {
                    let each = (0..k).map(move |p| factor(term(p)).abs());
                    (each.clone().sum::<f64>(), each.fold(0.0, f64::max))
                };
                let (of_a, of_b) = (magnitudes(|(x, _)| x), magnitudes(|(_, y)| y));
                let rounded = (of_a.0 * of_b.1 + of_b.0 * of_a.1) * 2f64.powi(-56);
                sum.add(-found);
                let error = sum.rounded().abs();
                assert!(error <= half_ulp + rounded, "{name}, k = {k}: {error:e}");
            }
            // Those are between two numbers, nearly.
            assert!(
                others * 20 <= u32::try_from(m * n).expect("a small one"),
                "{name}, k = {k}: {others}"
            );
        }
    }
}

/// Integers are multiplied exactly, and rounded once where the sums are longer than an f64.
#[test]
fn integers_are_multiplied_exactly() {
    for (size, scale) in [(4_i64, 1.0), (1 << 24, 2f64.powi(-90)), (1 << 30, 2f64.powi(200))] {
        let (m, n, k) = (70, 45, 300);
        let mut random = Random(13);
        let mut draw = |count: usize| -> Vec<i64> {
            let side = usize::try_from(2 * size).expect("it is small");
            let one = |_| i64::try_from(random.below(side)).expect("it is small") - size;
            (0..count).map(one).collect()
        };
        let (a, b) = (draw(m * k), draw(k * n));
        let as_floats = |numbers: &[i64], scale: f64| -> Vec<f64> {
            numbers.iter().map(|&number| number as f64 * scale).collect()
        };
        let operands = Operands::<f64> {
            problem: Problem::new(m, n, k),
            a: as_floats(&a, scale),
            b: as_floats(&b, 1.0),
            c: vec![0.0; m * n],
        };
        for model in [true, false] {
            let found = operands.by_tiles(2, model);
            for (index, &found) in found.iter().enumerate() {
                let (row, col) = (index / n, index % n);
                let products =
                    (0..k).map(|p| i128::from(a[row * k + p]) * i128::from(b[p * n + col]));
                let sum = products.sum::<i128>();
                #[expect(clippy::cast_possible_truncation, reason = "a whole number")]
                let off = sum - (found / scale) as i128;
                // Half a unit in the last place, and what a second rounding may add to it.
                let ulp = (sum as f64).abs() * 2f64.powi(-52);
                assert!(
                    (off as f64).abs() <= 0.501 * ulp,
                    "{size}, ({row}, {col}), model {model}: {off}"
                );
            }
            // The chain rounds more often: it has not been used.
            assert_eq!(found == operands.by_vectors(), size < 1 << 30, "{size}");
        }
    }
}

/// What the bound refuses has the bits of multiply-adds, and the rest of the product has not.
#[test]
fn refused_micro_tiles_are_left_to_vectors() {
    let (m, n, k) = (96, 64, 200);
    let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 1e-310, 1e-250];
    for value in values {
        let mut operands = Operands::<f64>::of(Problem::new(m, n, k), &mut Random(9));
        for element in &mut operands.a[40 * k..41 * k] {
            *element *= value.abs().min(1.0);
        }
        operands.a[40 * k + 5] = value;
        let vectors = operands.by_vectors();
        for model in [true, false] {
            let found = operands.by_tiles(2, model);
            let same = |x: f64, y: f64| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
            let alike = |rows: std::ops::Range<usize>| {
                let range = rows.start * n..rows.end * n;
                found[range.clone()].iter().zip(&vectors[range]).all(|(&x, &y)| same(x, y))
            };
            assert!(alike(32..64), "{value}, model {model}");
            assert!(!alike(0..32) && !alike(64..96), "{value}, model {model}");
        }
    }
    // What counts is small beside what is multiplied by nothing.
    let mut operands = Operands::<f64>::of(Problem::new(32, 32, k), &mut Random(9));
    for line in 0..32 {
        operands.a[line * k] = 2f64.powi(40);
        operands.b[line] = 0.0;
    }
    let vectors = bits(&operands.by_vectors());
    for model in [true, false] {
        assert!(bits(&operands.by_tiles(2, model)) == vectors, "model {model}");
    }
}

/// Exceptions that NumPy, for one, asks for after a product: what packing makes of a line with a NaN is none.
#[cfg(target_arch = "x86_64")]
#[test]
fn no_exception_is_raised_that_multiply_adds_do_not_raise() {
    const INVALID_AND_OVERFLOW: u32 = 0b1001;
    fn mxcsr() -> u32 {
        let mut value = 0u32;
        // SAFETY: stores the register to a local.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags));
        }
        value
    }
    let mut operands = Operands::<f64>::of(Problem::new(70, 40, 200), &mut Random(9));
    operands.a[5] = f64::NAN;
    operands.a[3 * 200] = 1e-300;
    assert_eq!(mxcsr() & INVALID_AND_OVERFLOW, 0, "the test begins with none");
    for model in [true, false] {
        let found = operands.by_tiles(1, model);
        assert_eq!(mxcsr() & INVALID_AND_OVERFLOW, 0, "model {model}");
        assert!(found[0].is_nan());
    }
}
