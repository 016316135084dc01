//! Every product of the list, in strides that the library takes and in others, alone and in batches, on small
//! whole numbers, whose sums are exact.

#![expect(clippy::cast_possible_truncation, reason = "small whole numbers")]

use std::num::NonZeroUsize;

use gemm_spec::{GemmTypes, Types, with_gemm_types};
use tessera::blas3::Complex;
use tessera::{DType, Device, Engine, bf16, f16};
use tessera_raw::{Batch, Factors, Failure, Operands, Place, Scalar, Strided, explain, multiply};

/// An element from and to a number.
trait Number: Copy + 'static {
    fn of(number: f64) -> Self;
    fn number(self) -> f64;
}

macro_rules! numbers {
    ($($type:ty: $of:expr, $number:expr;)*) => {$(
        impl Number for $type {
            fn of(number: f64) -> Self {
                $of(number)
            }

            fn number(self) -> f64 {
                $number(self)
            }
        }
    )*};
}

numbers! {
    f32: |x| x as f32, f64::from;
    f64: |x| x, |x| x;
    i32: |x| x as i32, f64::from;
    i8: |x| x as i8, f64::from;
    i64: |x| x as i64, |x| x as f64;
    f16: f16::from_f64, f16::to_f64;
    bf16: bf16::from_f64, bf16::to_f64;
    Complex<f32>: |x| Complex::new(x as f32, 0.0), |x: Self| f64::from(x.re);
    Complex<f64>: |x| Complex::new(x, 0.0), |x: Self| x.re;
}

/// How a stack of matrices lies in memory.
#[derive(Clone, Copy, Debug)]
enum Form {
    Rows,
    Columns,
    Padded,
    Backward,
    Sparse,
    /// One byte off every alignment.
    Unaligned,
    /// All matrices of the stack are one.
    Shared,
}

struct Stack {
    bytes: Vec<u8>,
    first: Strided,
    stride: isize,
}

impl Stack {
    /// `count` matrices, all elements being 3.
    fn new<T: Number>(form: Form, count: usize, rows: usize, cols: usize) -> Self {
        let size = size_of::<T>();
        let (row, col, offset) = match form {
            Form::Rows | Form::Shared => (cols * size, size, 0),
            Form::Columns => (size, rows * size, 0),
            Form::Padded => ((cols + 3) * size, size, 0),
            Form::Backward => (cols * size, size, 0),
            Form::Sparse => (2 * cols * 3 * size, 3 * size, 0),
            Form::Unaligned => (cols * size, size, 1),
        };
        let one = (row * rows + col * cols).max(size);
        let one = if matches!(form, Form::Rows) { row * rows } else { one };
        let kept = if matches!(form, Form::Shared) { 1 } else { count };
        // Aligned for every type, and one byte more.
        let mut bytes = vec![0u8; one * kept + 64];
        let aligned = bytes.as_mut_ptr().align_offset(16) + offset;
        let at = bytes.as_mut_ptr().wrapping_add(aligned);
        let first = Strided {
            at,
            rows,
            cols,
            row_stride: row.cast_signed(),
            col_stride: col.cast_signed(),
        };
        let first = if matches!(form, Form::Backward) && rows > 0 {
            let last = first.moved(first.row_stride * (rows.cast_signed() - 1));
            Strided { row_stride: -first.row_stride, ..last }
        } else {
            first
        };
        let stride = if matches!(form, Form::Shared) { 0 } else { one.cast_signed() };
        let mut stack = Self { bytes, first, stride };
        for number in 0..count {
            stack.fill::<T>(number, |_, _| 3.0);
        }
        stack
    }

    fn place<T>(&self, number: usize, row: usize, col: usize) -> *mut T {
        let Strided { row_stride, col_stride, .. } = self.first;
        let (row, col) = (row.cast_signed() * row_stride, col.cast_signed() * col_stride);
        self.first.moved(row + col + number.cast_signed() * self.stride).at.cast()
    }

    fn fill<T: Number>(&mut self, number: usize, value: impl Fn(usize, usize) -> f64) {
        for row in 0..self.first.rows {
            for col in 0..self.first.cols {
                let at = self.place::<T>(number, row, col);
                // SAFETY: within the bytes, which are nobody else's.
                unsafe { at.write_unaligned(T::of(value(row, col))) };
            }
        }
    }

    fn get<T: Number>(&self, number: usize, row: usize, col: usize) -> f64 {
        // SAFETY: within the bytes.
        let element: T = unsafe { self.place::<T>(number, row, col).read_unaligned() };
        element.number()
    }
}

fn check<A: Number, B: Number, C: Number>(
    engine: &Engine,
    scalars: [Scalar; 3],
    forms: [Form; 3],
    count: usize,
    [m, n, k]: [usize; 3],
) {
    let words = || format!("{scalars:?} {forms:?} {count} of {m} {n} {k}");
    let mut a = Stack::new::<A>(forms[0], count, m, k);
    let mut b = Stack::new::<B>(forms[1], count, k, n);
    let c = Stack::new::<C>(forms[2], count, m, n);
    for number in 0..count {
        let value = |row: usize, col: usize| ((row * 3 + col * 5 + number) % 3) as f64 - 1.0;
        a.fill::<A>(number, value);
        b.fill::<B>(number, |row, col| value(col, row));
    }
    let operands = Operands { scalars, a: a.first, b: b.first, c: c.first };
    let strides = |stack: &Stack| vec![stack.stride];
    let batch = Batch { shape: vec![count], a: strides(&a), b: strides(&b), c: strides(&c) };
    let factors = Factors { alpha: [2.0, 0.0], beta: [-1.0, 0.0] };
    let place = Place { engine, threads: NonZeroUsize::new(2) };
    // SAFETY: the stacks hold the operands, and are this function's own.
    unsafe { multiply(&place, &factors, &operands, &batch) }.expect("the operands fit");
    for number in 0..count {
        for row in 0..m {
            for col in 0..n {
                let of = |stack: &Stack, number| if stack.stride == 0 { 0 } else { number };
                let sum: f64 = (0..k)
                    .map(|p| {
                        let left = a.get::<A>(of(&a, number), row, p);
                        left * b.get::<B>(of(&b, number), p, col)
                    })
                    .sum();
                let found = c.get::<C>(number, row, col);
                assert_eq!(found, 2.0 * sum - 3.0, "{} at {number} {row} {col}", words());
            }
        }
    }
    let inside = c.bytes.iter().any(|&byte| byte != 0);
    assert!(inside || m * n * count == 0);
}

const FORMS: [[Form; 3]; 8] = [
    [Form::Rows, Form::Rows, Form::Rows],
    [Form::Columns, Form::Padded, Form::Columns],
    [Form::Rows, Form::Shared, Form::Rows],
    [Form::Shared, Form::Columns, Form::Padded],
    [Form::Backward, Form::Sparse, Form::Rows],
    [Form::Sparse, Form::Unaligned, Form::Sparse],
    [Form::Unaligned, Form::Rows, Form::Unaligned],
    [Form::Padded, Form::Backward, Form::Backward],
];

fn each_form<A: Number, B: Number, C: Number>(engine: &Engine, scalars: [Scalar; 3]) {
    for forms in FORMS {
        for (count, sizes) in [
            (1, [3, 5, 7]),
            (3, [17, 4, 20]),
            (2, [1, 9, 1]),
            (400, [6, 7, 8]),
            (2, [2, 2, 0]),
            (0, [2, 2, 2]),
        ] {
            check::<A, B, C>(engine, scalars, forms, count, sizes);
        }
    }
}

fn engine() -> Engine {
    let threads = NonZeroUsize::new(3).expect("three");
    Engine::builder().device(Device::Cpu).threads(threads).build().expect("threads start")
}

#[test]
fn every_row_of_the_list_in_every_form() {
    fn of<T: GemmTypes<A: Number, B: Number, C: Number>>(engine: &Engine) {
        let scalars = [T::TYPES.a(), T::TYPES.b(), T::TYPES.c()].map(Scalar::Real);
        each_form::<T::A, T::B, T::C>(engine, scalars);
    }
    let engine = engine();
    for types in Types::ALL {
        with_gemm_types!(types, T => of::<T>(&engine));
    }
}

#[test]
fn complex_numbers_and_long_integers_in_every_form() {
    let engine = engine();
    each_form::<Complex<f32>, Complex<f32>, Complex<f32>>(&engine, [Scalar::Complex64; 3]);
    each_form::<Complex<f64>, Complex<f64>, Complex<f64>>(&engine, [Scalar::Complex128; 3]);
    each_form::<i64, i64, i64>(&engine, [Scalar::Int64; 3]);
}

#[test]
fn the_imaginary_parts_take_part() {
    let engine = engine();
    let mut i = [Complex::new(0.0f64, 1.0)];
    let mut c = [Complex::new(f64::NAN, 0.0)];
    let one = |at: *mut Complex<f64>| Strided::row_major(at.cast(), 1, 1, 1, 16);
    let scalars = [Scalar::Complex128; 3];
    let at = i.as_mut_ptr();
    let operands = Operands { scalars, a: one(at), b: one(at), c: one(c.as_mut_ptr()) };
    let factors = Factors { alpha: [0.0, 3.0], beta: [0.0, 0.0] };
    // SAFETY: matrices of one element.
    unsafe { multiply(&Place::of(&engine), &factors, &operands, &Batch::ONE) }.expect("it fits");
    assert_eq!(c, [Complex::new(0.0, -3.0)]);
}

#[test]
fn what_is_not_read_may_be_anywhere() {
    let engine = engine();
    let mut c = [f32::NAN, 7.0, f32::NAN, 7.0];
    let nowhere =
        Strided { col_stride: -3, ..Strided::row_major(std::ptr::null_mut(), 2, 2, 2, 4) };
    let scalars = [Scalar::Real(DType::F32); 3];
    let every_second =
        Strided { at: c.as_mut_ptr().cast(), rows: 2, cols: 1, row_stride: 8, col_stride: 4 };
    let b = Strided { cols: 1, ..nowhere };
    let operands = Operands { scalars, a: nowhere, b, c: every_second };
    let factors = Factors { alpha: [0.0, 0.0], beta: [0.0, 0.0] };
    // SAFETY: with alpha zero A and B are not read.
    unsafe { multiply(&Place::of(&engine), &factors, &operands, &Batch::ONE) }.expect("it fits");
    assert_eq!(c, [0.0, 7.0, 0.0, 7.0]);
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let engine = engine();
    let null = |rows, cols| Strided::row_major(std::ptr::null_mut(), rows, cols, cols, 4);
    let refused = |scalars, factors: &Factors, [a, b, c]: [Strided; 3]| {
        let operands = Operands { scalars, a, b, c };
        let place = Place::of(&engine);
        let explained = explain(&place, factors, &operands, &Batch::ONE).unwrap_err().to_string();
        // SAFETY: it is refused before anything is read.
        let error = unsafe { multiply(&place, factors, &operands, &Batch::ONE) }.unwrap_err();
        assert_eq!(error.to_string(), explained);
        error
    };
    let (floats, one) = ([Scalar::Real(DType::F32); 3], Factors::default());
    let error = refused(floats, &one, [null(2, 3), null(2, 3), null(2, 3)]);
    assert!(error.to_string().contains("A must have as many columns as B has rows"), "{error}");
    let error = refused(floats, &one, [null(2, 3), null(3, 4), null(4, 2)]);
    assert_eq!(error.to_string(), "C is 4 x 2, the product is 2 x 4");
    let mixed = [Scalar::Real(DType::F32), Scalar::Real(DType::F64), Scalar::Int64];
    let error = refused(mixed, &one, [null(2, 2); 3]);
    assert!(matches!(error, Failure::Types { .. }));
    assert!(error.to_string().contains("i8 by i8 to i32"), "{error}");
    let half = Factors { alpha: [0.5, 0.0], ..one };
    let error = refused([Scalar::Real(DType::I32); 3], &half, [null(2, 2); 3]);
    assert!(error.to_string().starts_with("alpha is 0.5, which is no number of type i32"));
    let huge = Strided { row_stride: 0, ..null(usize::MAX / 2, 1) };
    let c = Strided { row_stride: 0, ..null(usize::MAX / 2, 1) };
    let error = refused(floats, &one, [huge, null(1, 1), c]);
    assert!(error.to_string().contains("more bytes than can be addressed"), "{error}");
}

#[test]
fn an_explanation_names_the_units_and_the_copies() {
    let engine = engine();
    let a = Stack::new::<f64>(Form::Sparse, 1, 30, 20);
    let b = Stack::new::<f64>(Form::Columns, 1, 20, 10);
    let c = Stack::new::<f64>(Form::Rows, 1, 30, 10);
    let scalars = [Scalar::Real(DType::F64); 3];
    let operands = Operands { scalars, a: a.first, b: b.first, c: c.first };
    let place = Place { engine: &engine, threads: NonZeroUsize::new(2) };
    let told = explain(&place, &Factors::default(), &operands, &Batch::ONE).expect("it fits");
    assert_eq!((told.device.as_str(), told.threads, told.products), ("cpu", 2, 1));
    assert!(told.by.starts_with("vector units, "), "{}", told.by);
    assert_eq!((told.sizes, told.copied), ([30, 10, 20], [true, false, false]));
}
