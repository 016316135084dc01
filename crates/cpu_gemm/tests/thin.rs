//! Thin products of narrow elements: the bits of the definition by every instruction set, and nothing beside the
//! operands is touched.

#[path = "../../../tests/packed/pages.rs"]
mod pages;

use std::num::NonZeroUsize;

use cpu_gemm::{CpuContext, CpuIsa, CpuTypes, CpuUnits, engine_sum, gemm};
use gemm_spec::{Convert, Element, Layout, Order, Problem, bf16, epilogue, f16};
use pages::Fenced;

/// Elements from a number.
trait Drawn: Element {
    fn drawn(number: u64) -> Self;
}

impl Drawn for i8 {
    fn drawn(number: u64) -> Self {
        number.to_le_bytes()[4].cast_signed()
    }
}

impl Drawn for i32 {
    fn drawn(number: u64) -> Self {
        i8::drawn(number).into()
    }
}

macro_rules! drawn_floats {
    ($($float:ty),*) => {$(
        impl Drawn for $float {
            fn drawn(number: u64) -> Self {
                let bytes = number.to_le_bytes();
                let exponent = i32::from(bytes[3] % 9) - 4;
                let value = f32::from(u16::from_le_bytes([bytes[4], bytes[5]])) / 32768.0 - 1.0;
                Convert::<f32>::narrow(value * 2f32.powi(exponent))
            }
        }
    )*};
}

drawn_floats!(f32, f16, bf16);

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        let index = usize::try_from(self.next() >> 33).expect("31 bits");
        values[index % values.len()]
    }

    fn elements<T: Drawn>(&mut self, layout: Layout, rows: usize, cols: usize) -> Vec<T> {
        let len = layout.required_len(rows, cols).expect("it is small");
        (0..len).map(|_| T::drawn(self.next())).collect()
    }
}

fn by_definition<T: CpuTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &[T::C],
) -> Vec<T::C> {
    let mut result = c.to_vec();
    for row in 0..problem.m {
        for col in 0..problem.n {
            let sum = engine_sum(problem.k, |p, sum| {
                T::mul_add(a[problem.a.index(row, p)], b[problem.b.index(p, col)], sum)
            });
            let at = problem.c.index(row, col);
            result[at] = epilogue(problem.alpha, sum, problem.beta, || c[at]);
        }
    }
    result
}

fn check<T: CpuTypes<A: Drawn, B: Drawn, C: Drawn, Acc: Drawn>>() {
    let mut random = Random(3);
    for _ in 0..60 {
        let wide = random.one_of(&[64, 65, 79, 96, 127, 128, 200, 700]);
        let thin = random.one_of(&[1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16]);
        let k = random.one_of(&[1, 7, 8, 9, 31, 63, 64, 65, 130, 200, 512, 700, 1100]);
        let (m, n) = random.one_of(&[(wide, thin), (thin, wide)]);
        let mut layout = |rows, cols| {
            let padding = random.one_of(&[0, 0, 1, 5, 32]);
            match random.one_of(&[Order::RowMajor, Order::ColMajor]) {
                Order::RowMajor => Layout::row_major(cols + padding),
                Order::ColMajor => Layout::col_major(rows + padding),
            }
        };
        let (of_a, of_b, of_c) = (layout(m, k), layout(k, n), layout(m, n));
        let factors = [T::Acc::ZERO, T::Acc::ONE, T::Acc::ONE, T::Acc::drawn(1 << 37)];
        let problem = Problem::<T>::new(m, n, k)
            .with_scalars(random.one_of(&factors), random.one_of(&factors))
            .with_layouts(of_a, of_b, of_c);
        let a = random.elements::<T::A>(of_a, m, k);
        let b = random.elements::<T::B>(of_b, k, n);
        let c = random.elements::<T::C>(of_c, m, n);
        let expected = by_definition(&problem, &a, &b, &c);
        for isa in CpuIsa::available() {
            for (threads, at_end) in [(1, true), (3, false)] {
                let context = CpuContext::with_isa(NonZeroUsize::new(threads), isa)
                    .expect("threads start")
                    .with_units(CpuUnits::Vector);
                let (a, b) = (Fenced::new(&a, at_end), Fenced::new(&b, at_end));
                let mut c = Fenced::new(&c, at_end);
                gemm(&problem, a.as_slice(), b.as_slice(), c.as_mut_slice(), &context)
                    .expect("the buffers fit");
                assert!(c.as_slice() == expected, "{isa}, {threads} threads: {problem:?}");
            }
        }
    }
}

#[test]
fn products_of_bf16_are_those_of_the_definition() {
    check::<bf16>();
    check::<(bf16, f32)>();
}

#[test]
fn products_of_f16_are_those_of_the_definition() {
    check::<f16>();
    check::<(f16, f32)>();
}

#[test]
fn products_of_bytes_are_those_of_the_definition() {
    check::<i8>();
}
