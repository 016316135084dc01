//! Products with epilogues of matrices in any strides, against the same of matrices without gaps.

use std::num::NonZeroUsize;

use tessera::{
    AccOf, Activation, Bias, Device, Element, Engine, Epilogue, EpilogueSlices, Error, Matrix,
    MultiplyInto, StridedMut, StridedRef, bf16,
};

/// Fractions between -1 and 1.
fn drawn(count: usize, seed: usize) -> Vec<f32> {
    let mixed = |at: usize| (at + seed * 7919).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (0..count).map(|at| (mixed(at) % 2001) as f32 / 1000.0 - 1.0).collect()
}

const M: usize = 23;
const N: usize = 19;
const K: usize = 31;

/// The ways in which a matrix of `rows` by `cols` lies in a buffer: its first element, and its strides.
fn ways(rows: usize, cols: usize) -> [(usize, (isize, isize)); 6] {
    let (r, c) = (rows.cast_signed(), cols.cast_signed());
    [
        (0, (c, 1)),
        (0, (1, r)),
        (3, (2 * c + 1, 2)),
        ((rows - 1) * cols, (-c, 1)),
        (cols - 1, (c, -1)),
        (rows * cols - 1, (-1, -r)),
    ]
}

fn room(rows: usize, cols: usize) -> usize {
    2 * rows * (cols + 1) + 4
}

/// A matrix in a buffer of its own.
struct Held<T> {
    data: Vec<T>,
    first: usize,
    dims: (usize, usize),
    strides: (isize, isize),
}

impl<T: Element> Held<T> {
    fn new(matrix: &Matrix<T>, way: usize, padding: T) -> Self {
        let dims = (matrix.rows(), matrix.cols());
        let (first, strides) = ways(dims.0, dims.1)[way % 6];
        let mut held = Self { data: vec![padding; room(dims.0, dims.1)], first, dims, strides };
        for row in 0..dims.0 {
            for col in 0..dims.1 {
                let place = held.place(row, col);
                held.data[place] = matrix.get(row, col).expect("it is in the matrix");
            }
        }
        held
    }

    fn place(&self, row: usize, col: usize) -> usize {
        let offset = row.cast_signed() * self.strides.0 + col.cast_signed() * self.strides.1;
        self.first.checked_add_signed(offset).expect("it is in the buffer")
    }

    fn get(&self, row: usize, col: usize) -> T {
        self.data[self.place(row, col)]
    }

    fn view(&self) -> StridedRef<'_, T> {
        let at = self.data.as_ptr().wrapping_add(self.first);
        // SAFETY: its elements are in the buffer, which is borrowed.
        unsafe { StridedRef::from_raw(at, self.dims, self.strides) }
    }

    fn view_mut(&mut self) -> StridedMut<'_, T> {
        let at = self.data.as_mut_ptr().wrapping_add(self.first);
        // SAFETY: its elements are in the buffer, which is borrowed for it alone.
        unsafe { StridedMut::from_raw(at, self.dims, self.strides) }
    }
}

fn strided<T>(number: impl Fn(f32) -> T, acc: impl Fn(f32) -> AccOf<T, T, T>)
where
    T: MultiplyInto<T, T> + Element,
{
    let engine = Engine::builder().device(Device::Cpu).deterministic(true).build();
    let engine = engine.expect("threads start");
    let matrix = |rows: usize, cols: usize, seed| {
        let values = drawn(rows * cols, seed);
        Matrix::from_fn(rows, cols, |row, col| number(values[row * cols + col])).expect("memory")
    };
    let (a, b, c) = (matrix(M, K, 1), matrix(K, N, 2), matrix(M, N, 3));
    let bias: Vec<T> = drawn(M.max(N), 4).into_iter().map(&number).collect();
    let scales: Vec<_> = drawn(M.max(N), 5).into_iter().map(&acc).collect();
    let padding = number(7.0);
    for case in 0..216 {
        let none = EpilogueSlices::new(Epilogue::new(None, Activation::Relu));
        let epilogue = match case % 4 {
            0 => none.with_bias(Bias::PerRow, &bias[..M]),
            1 => none.with_bias(Bias::PerColumn, &bias[..N]).with_row_scales(&scales[..M]),
            2 => none.with_column_scales(&scales[..N]).with_bias(Bias::PerRow, &bias[..M]),
            _ => none.with_row_scales(&scales[..M]).with_column_scales(&scales[..N]),
        };
        let (scalars, apart) = ((acc(1.5), acc([0.0, -0.5][case % 2])), case % 5 < 2);
        let mut wanted = c.clone();
        let given = apart.then(|| c.view());
        let dense = engine.gemm_with_epilogue(
            scalars,
            a.view(),
            b.view(),
            given,
            wanted.view_mut(),
            &epilogue,
        );
        dense.expect("an epilogue");
        let (of_a, of_b) = (Held::new(&a, case, padding), Held::new(&b, case / 6, padding));
        let of_c = Held::new(&c, case / 3 + 1, padding);
        let mut d = Held::new(&c, case / 36, padding);
        let before = d.data.iter().filter(|&&it| it == padding).count();
        let amax = engine
            .gemm_strided_with_epilogue(
                NonZeroUsize::new(1 + case % 3),
                scalars,
                (of_a.view(), of_b.view()),
                apart.then(|| of_c.view()),
                d.view_mut(),
                &epilogue,
            )
            .expect("an epilogue");
        assert_eq!(amax, None);
        for (row, col) in (0..M).flat_map(|row| (0..N).map(move |col| (row, col))) {
            assert_eq!(Some(d.get(row, col)), wanted.get(row, col), "case {case}: {row}, {col}");
        }
        let beyond = d.data.iter().filter(|&&it| it == padding).count();
        assert!(beyond >= before, "case {case}: something beyond D was written");
    }
}

#[test]
fn strides_change_no_bit() {
    strided::<f32>(|value| value, |value| value);
    strided::<f64>(f64::from, f64::from);
    strided::<bf16>(bf16::from_f32, |value| value);
}

#[test]
fn sizes_that_do_not_fit_are_errors() {
    let engine = Engine::cpu(NonZeroUsize::new(1)).unwrap();
    let a = Matrix::<f32>::zeros(2, 3).unwrap();
    let b = Matrix::<f32>::zeros(3, 4).unwrap();
    let mut d = Matrix::<f32>::zeros(2, 4).unwrap();
    let none = EpilogueSlices::new(Epilogue::NONE);
    let c = Some(a.view());
    let refused = engine.gemm_with_epilogue((1.0, 1.0), a.view(), b.view(), c, d.view_mut(), &none);
    assert!(matches!(refused, Err(Error::OuterDim { rows: 2, cols: 3, .. })), "{refused:?}");
    let biased = none.with_bias(Bias::PerColumn, &[0.0; 3]);
    let refused =
        engine.gemm_with_epilogue((1.0, 0.0), a.view(), b.view(), None, d.view_mut(), &biased);
    assert!(matches!(refused, Err(Error::Epilogue { .. })), "{refused:?}");
}
