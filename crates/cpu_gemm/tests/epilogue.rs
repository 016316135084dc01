//! Products with epilogues against the definitions of sums and of epilogues.

use std::any::Any;
use std::num::NonZeroUsize;

use cpu_gemm::{
    CpuContext, CpuIsa, CpuTypes, CpuUnits, EpilogueSlices, Error, View, ViewMut, engine_sum,
    finish, gemm_with_epilogue,
};
use gemm_spec::fusion::HostPowers;
use gemm_spec::{
    AccType, Accumulator, Activation, Bias, Convert, Element, Epilogue, Layout, Order, bf16,
    epilogue, f16,
};

/// A number of a sums' type.
fn number<Acc: Accumulator>(value: f64) -> Acc {
    #[expect(clippy::cast_possible_truncation, reason = "the nearest number is wanted")]
    let known: [&dyn Any; 3] = [&(value as f32), &value, &(value as i32)];
    *known.into_iter().find_map(|known| known.downcast_ref::<Acc>()).expect("sums are of these")
}

/// The value of a sum.
fn value<Acc: Accumulator>(sum: Acc) -> f64 {
    let sum: &dyn Any = &sum;
    let single = sum.downcast_ref::<f32>().map(|&value| f64::from(value));
    single.or(sum.downcast_ref::<f64>().copied()).expect("a floating-point sum")
}

/// Fractions between -1 and 1.
fn drawn<T: Convert<Acc>, Acc: Accumulator>(count: usize, seed: usize) -> Vec<T> {
    let mixed = |at: usize| (at + seed * 7919).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    let fraction = |at: usize| (mixed(at) % 2001) as f64 / 1000.0 - 1.0;
    (0..count).map(|at| T::narrow(number(fraction(at)))).collect()
}

/// What is computed; each thing follows from the number of the case in a way of its own.
#[derive(Clone, Copy, Debug)]
struct Case {
    size: (usize, usize, usize),
    orders: [Order; 4],
    alpha: f64,
    beta: f64,
    apart: bool,
    epilogue: Epilogue,
}

impl Case {
    fn new(size: (usize, usize, usize), number: usize, single: bool) -> Self {
        let orders = [0, 1, 2, 3].map(|bit| match number >> bit & 1 {
            0 => Order::RowMajor,
            _ => Order::ColMajor,
        });
        let activations = if single { &Activation::ALL[..] } else { &Activation::ALL[..2] };
        let bias = [None, Some(Bias::PerRow), Some(Bias::PerColumn)][number % 3];
        let mut epilogue = Epilogue::new(bias, activations[number % activations.len()]);
        epilogue.row_scales = number % 7 < 3;
        epilogue.column_scales = number % 4 < 2;
        epilogue.amax = single && number % 5 < 3;
        let (alpha, beta) = [(1.0, 0.0), (1.25, -0.75), (-0.5, 0.0), (0.0, 1.5)][number % 11 % 4];
        Self { size, orders, alpha, beta, apart: number % 13 < 6, epilogue }
    }

    fn layouts(&self) -> [Layout; 4] {
        let (m, n, k) = self.size;
        let sizes = [(m, k), (k, n), (m, n), (m, n)];
        [0, 1, 2, 3].map(|at: usize| {
            let ((rows, cols), order) = (sizes[at], self.orders[at]);
            let line = if order == Order::RowMajor { cols } else { rows };
            Layout { order, ld: line.max(1) + at }
        })
    }
}

/// Operands of a case.
struct Operands<T: CpuTypes> {
    a: Vec<T::A>,
    b: Vec<T::B>,
    c: Vec<T::C>,
    d: Vec<T::C>,
    bias: Vec<T::C>,
    row_scales: Vec<T::Acc>,
    column_scales: Vec<T::Acc>,
}

impl<T: CpuTypes> Operands<T> {
    /// What is not read is NaN.
    fn new(case: &Case) -> Self {
        let (m, n, k) = case.size;
        let len =
            |at: usize, rows, cols| case.layouts()[at].required_len(rows, cols).expect("it fits");
        let nan = number::<T::Acc>(f64::NAN);
        let mut all = Self {
            a: drawn::<T::A, T::Acc>(len(0, m, k), 1),
            b: drawn::<T::B, T::Acc>(len(1, k, n), 2),
            c: drawn::<T::C, T::Acc>(len(2, m, n), 3),
            d: drawn::<T::C, T::Acc>(len(3, m, n), 4),
            bias: match case.epilogue.bias {
                Some(Bias::PerRow) => drawn::<T::C, T::Acc>(m, 5),
                Some(Bias::PerColumn) => drawn::<T::C, T::Acc>(n, 6),
                None => Vec::new(),
            },
            row_scales: drawn::<T::Acc, T::Acc>(if case.epilogue.row_scales { m } else { 0 }, 7),
            column_scales: drawn(if case.epilogue.column_scales { n } else { 0 }, 8),
        };
        if case.alpha == 0.0 {
            all.a.fill(T::A::narrow(nan));
            all.b.fill(T::B::narrow(nan));
        }
        if case.beta == 0.0 {
            all.c.fill(T::C::narrow(nan));
            all.d.fill(T::C::narrow(nan));
        }
        all
    }

    fn numbers(&self, case: &Case) -> EpilogueSlices<'_, T::C, T::Acc> {
        let Self { bias, row_scales, column_scales, .. } = self;
        EpilogueSlices { epilogue: case.epilogue, bias, row_scales, column_scales }
    }

    /// The sum of an element's products.
    fn sum(&self, case: &Case, (row, col): (usize, usize)) -> T::Acc {
        let [a, b, ..] = case.layouts();
        let k = if case.alpha == 0.0 { 0 } else { case.size.2 };
        engine_sum(k, |p, sum| T::mul_add(self.a[a.index(row, p)], self.b[b.index(p, col)], sum))
    }

    /// D with its padding and the largest magnitude, given the sums.
    fn expected(&self, case: &Case, sum: impl Fn(usize, usize) -> T::Acc) -> (Vec<T::C>, f64) {
        let (m, n, _) = case.size;
        let [.., of_c, of_d] = case.layouts();
        let (alpha, beta) = (number::<T::Acc>(case.alpha), number::<T::Acc>(case.beta));
        let (mut d, mut amax) = (self.d.clone(), 0.0f64);
        for row in 0..m {
            for col in 0..n {
                let place = of_d.index(row, col);
                let old = if case.apart { self.c[of_c.index(row, col)] } else { d[place] };
                let mut factor = alpha;
                if case.epilogue.row_scales {
                    factor = factor.mul(self.row_scales[row]);
                }
                if case.epilogue.column_scales {
                    factor = factor.mul(self.column_scales[col]);
                }
                let scaled: T::Acc = epilogue(factor, sum(row, col), beta, || old.widen());
                let added = match case.epilogue.bias {
                    Some(Bias::PerRow) => T::Acc::ONE.mul_add(scaled, self.bias[row].widen()),
                    Some(Bias::PerColumn) => T::Acc::ONE.mul_add(scaled, self.bias[col].widen()),
                    None => scaled,
                };
                let activation = case.epilogue.activation;
                #[expect(clippy::cast_possible_truncation, reason = "it is a number of f32")]
                let activated = match T::TYPES.acc() {
                    AccType::F32 => f64::from(activation.apply::<HostPowers>(value(added) as f32)),
                    AccType::F64 | AccType::I32 if activation == Activation::Relu => {
                        value(added).max(0.0)
                    }
                    AccType::F64 | AccType::I32 => value(added),
                };
                let stored = T::C::narrow(number(activated));
                amax = amax.max(value(stored.widen()).abs());
                d[place] = stored;
            }
        }
        (d, amax)
    }

    fn compute(&self, case: &Case, context: &CpuContext) -> (Vec<T::C>, Option<f32>) {
        let (m, n, k) = case.size;
        let [a, b, of_c, of_d] = case.layouts();
        let mut d = self.d.clone();
        let amax = gemm_with_epilogue::<T>(
            (number(case.alpha), number(case.beta)),
            View::new(&self.a, m, k, a).expect("it fits"),
            View::new(&self.b, k, n, b).expect("it fits"),
            case.apart.then(|| View::new(&self.c, m, n, of_c).expect("it fits")),
            ViewMut::new(&mut d, m, n, of_d).expect("it fits"),
            &self.numbers(case),
            context,
        );
        (d, amax.unwrap_or_else(|error| panic!("{error}: {case:?}")))
    }
}

/// What exponentials below the least normal number leave of an element: they are zero, but not the standard
/// library's.
const SUBNORMAL: f64 = f32::MIN_POSITIVE as f64 * 128.0;

/// The relative error that exponentials of another kind make.
fn tolerance<T: CpuTypes>(case: &Case) -> f64 {
    if case.epilogue.activation.is_smooth() { T::C::DTYPE.unit_roundoff() * 8.0 } else { 0.0 }
}

fn compare<T: CpuTypes>(case: &Case, found: &(Vec<T::C>, Option<f32>), wanted: &(Vec<T::C>, f64)) {
    let within = |found: f64, wanted: f64| {
        let same = found.is_nan() && wanted.is_nan();
        let tolerance = tolerance::<T>(case);
        same || (found - wanted).abs()
            <= tolerance * wanted.abs() + if tolerance > 0.0 { SUBNORMAL } else { 0.0 }
    };
    for (at, (&found, &wanted)) in found.0.iter().zip(&wanted.0).enumerate() {
        let (found, wanted) = (value(found.widen()), value(wanted.widen()));
        assert!(within(found, wanted), "{found} is not {wanted} at {at}: {} {case:?}", T::TYPES);
    }
    assert_eq!(found.1.is_some(), case.epilogue.amax);
    let amax = found.1.map_or(wanted.1, f64::from);
    assert!(within(amax, wanted.1), "{amax} is not {}: {} {case:?}", wanted.1, T::TYPES);
}

fn contexts() -> Vec<CpuContext> {
    let with = |isa| CpuContext::with_isa(NonZeroUsize::new(3), isa).expect("threads start");
    let same_bits = |context: CpuContext| context.with_units(CpuUnits::SameBits);
    CpuIsa::available().map(with).chain([CpuContext::alone()]).map(same_bits).collect()
}

/// Sizes that take each path: tiles of operands that are near, thin ones, blocks, no steps at all, nothing.
const SIZES: [(usize, usize, usize); 9] = [
    (1, 1, 1),
    (5, 7, 3),
    (37, 21, 0),
    (0, 4, 3),
    (70, 33, 150),
    (1100, 3, 40),
    (2, 900, 70),
    (190, 270, 90),
    (170, 140, 600),
];

/// Every size in a number of cases; results of one case have the same bits in all contexts.
fn all_sizes<T: CpuTypes>(cases: usize) {
    let contexts = contexts();
    let single = T::TYPES.acc() == AccType::F32;
    for (at, size) in SIZES.into_iter().enumerate() {
        let work = size.0 * size.1 * size.2;
        let cases = if work > 1 << 20 { cases / 8 } else { cases };
        for case in (0..cases).map(|case| Case::new(size, case * 17 + at, single)) {
            let operands = Operands::<T>::new(&case);
            let wanted = operands.expected(&case, |row, col| operands.sum(&case, (row, col)));
            let mut first = None;
            for context in &contexts {
                let found = operands.compute(&case, context);
                compare::<T>(&case, &found, &wanted);
                let bits: Vec<u64> =
                    found.0.iter().map(|&one| value(one.widen()).to_bits()).collect();
                assert!(
                    bits == *first.get_or_insert_with(|| bits.clone()),
                    "{context:?}: {case:?}"
                );
            }
        }
    }
}

#[test]
fn products_of_f32() {
    all_sizes::<f32>(120);
}

#[test]
fn products_of_f64() {
    all_sizes::<f64>(120);
}

#[test]
fn products_of_f16() {
    all_sizes::<f16>(64);
    all_sizes::<(f16, f32)>(64);
}

#[test]
fn products_of_bf16() {
    all_sizes::<bf16>(64);
    all_sizes::<(bf16, f32)>(64);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    let all = Epilogue::new(Some(Bias::PerColumn), Activation::Gelu)
        .with_row_scales()
        .with_column_scales()
        .with_amax();
    let orders = [Order::RowMajor; 4];
    let size = (333, 257, 300);
    let case = Case { size, orders, alpha: 1.5, beta: 0.5, apart: false, epilogue: all };
    let (single, half) = (Operands::<f32>::new(&case), Operands::<bf16>::new(&case));
    let alone = CpuContext::alone().with_units(CpuUnits::SameBits);
    let wanted = (single.compute(&case, &alone), half.compute(&case, &alone));
    for threads in 2..=8 {
        let context = CpuContext::new(NonZeroUsize::new(threads)).expect("threads start");
        let context = context.with_units(CpuUnits::SameBits);
        let found = (single.compute(&case, &context), half.compute(&case, &context));
        assert!(found == wanted, "{threads} threads");
    }
}

#[test]
fn sums_that_are_there_are_finished_alike() {
    let context = CpuContext::new(NonZeroUsize::new(2)).expect("threads start");
    for at in 0..48 {
        let case = Case::new((270, 255, 2), at, true);
        let operands = Operands::<f16>::new(&case);
        let (m, n, _) = case.size;
        let [.., of_c, of_d] = case.layouts();
        let sums: Vec<f32> = drawn(m * n, 9);
        let layout = if at % 2 == 0 { Layout::row_major(n) } else { Layout::col_major(m) };
        let mut d = operands.d.clone();
        let amax = finish::<f16>(
            (number(case.alpha), number(case.beta)),
            View::new(&sums, m, n, layout).expect("it fits"),
            case.apart.then(|| View::new(&operands.c, m, n, of_c).expect("it fits")),
            ViewMut::new(&mut d, m, n, of_d).expect("it fits"),
            &operands.numbers(&case),
            &context,
        );
        let wanted = operands.expected(&case, |row, col| sums[layout.index(row, col)]);
        compare::<f16>(&case, &(d, amax.expect("it fits")), &wanted);
    }
}

/// The refusal of a product of 2 by 3 by 1.
fn refused<T: CpuTypes>(numbers: &EpilogueSlices<'_, T::C, T::Acc>, c: bool) -> String {
    let (a, b) = ([T::A::ONE; 2], [T::B::ONE; 3]);
    let (old, mut d) = ([T::C::ONE; 2], [T::C::ONE; 6]);
    let result = gemm_with_epilogue::<T>(
        (T::Acc::ONE, T::Acc::ZERO),
        View::new(&a, 2, 1, Layout::row_major(1)).expect("it fits"),
        View::new(&b, 1, 3, Layout::row_major(3)).expect("it fits"),
        c.then(|| View::new(&old, 1, 2, Layout::row_major(2)).expect("it fits")),
        ViewMut::new(&mut d, 2, 3, Layout::row_major(3)).expect("it fits"),
        numbers,
        &CpuContext::alone(),
    );
    assert!(d == [T::C::ONE; 6], "D was written");
    match result {
        Err(Error::Epilogue { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_missing_or_impossible_is_said() {
    let none = EpilogueSlices::new(Epilogue::NONE);
    let short = refused::<f32>(&none.with_bias(Bias::PerRow, &[1.0; 3]), false);
    assert_eq!(short, "the epilogue's bias has 3 elements, it must be 2 for a D of 2 x 3");
    let short = refused::<f32>(&none.with_row_scales(&[1.0]), false);
    assert!(short.contains("row scales have 1 elements, it must be 2"), "{short}");
    let scaled = EpilogueSlices::new(Epilogue::NONE).with_column_scales(&[]);
    let short = refused::<f16>(&scaled, false);
    assert!(short.contains("column scales have 0 elements, it must be 3"), "{short}");
    assert_eq!(refused::<f32>(&none, true), "C is 1 x 2, it must be 2 x 3 as D is");
    let smooth = Epilogue::new(None, Activation::Silu);
    let no_exponentials = refused::<f64>(&EpilogueSlices::new(smooth), false);
    assert!(no_exponentials.contains("they have relu"), "{no_exponentials}");
    let scalars = refused::<f32>(&EpilogueSlices::new(Epilogue::NONE.with_device_scalars()), false);
    assert!(scalars.contains("are for products on a device"), "{scalars}");
    let integers = refused::<i8>(&EpilogueSlices::new(smooth), false);
    assert!(integers.contains("floating-point accumulators"), "{integers}");
    let largest = refused::<f64>(&EpilogueSlices::new(Epilogue::NONE.with_amax()), false);
    assert!(largest.contains("the largest magnitude"), "{largest}");
}
