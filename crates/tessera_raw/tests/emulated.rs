//! Products that an engine places on a GPU, on a driver whose kernels run on the emulator.

use tessera::{DType, Device, Engine};
use tessera_raw::{Batch, Factors, Operands, Place, Scalar, Strided, explain, multiply};

/// Parts of one matrix side by side: as slices, which the GPU's path takes, they would overlap. A batch of
/// two, of which one factor is shared, and a factor whose columns are backward.
#[test]
fn parts_of_one_matrix_in_any_strides() {
    cuda_emulated::install();
    let engine = Engine::builder().device(Device::Cuda(0)).build().expect("there is a driver");
    let (m, n, k, ld) = (5, 6, 7, 32);
    // Rows of A, padding and C, twice.
    let value = |row: usize, col: usize| ((3 * row + 5 * col) % 4) as f32;
    let mut both: Vec<f32> = (0..2 * m * ld).map(|at| value(at / ld, at % ld)).collect();
    let mut b: Vec<f32> = (0..k * n).map(|at| value(at / n, n - 1 - at % n)).collect();
    let (a_at, c_at) = (both.as_mut_ptr(), both.as_mut_ptr().wrapping_add(ld - n));
    let rows = |at: *mut f32, rows, cols, ld| Strided::row_major(at.cast(), rows, cols, ld, 4);
    let forward = rows(b.as_mut_ptr(), k, n, n);
    let backward = Strided { col_stride: -4, ..forward.moved(4 * (n as isize - 1)) };
    let operands = Operands {
        scalars: [Scalar::Real(DType::F32); 3],
        a: rows(a_at, m, k, ld),
        b: backward,
        c: rows(c_at, m, n, ld),
    };
    // Of each second A, so that the two are not one product.
    let next = (m * ld * 4) as isize;
    let batch = Batch { shape: vec![2], a: vec![0], b: vec![0], c: vec![next] };
    let factors = Factors { alpha: [2.0, 0.0], beta: [-1.0, 0.0] };
    let place = Place::of(&engine);
    let told = explain(&place, &factors, &operands, &batch).expect("it fits");
    assert_eq!((told.device.as_str(), told.products), ("cuda:0", 2), "{told:?}");
    // SAFETY: the vectors hold the operands, of which C overlaps none.
    unsafe { multiply(&place, &factors, &operands, &batch) }.expect("it fits");
    for (at, &found) in both.iter().enumerate() {
        let (row, col) = (at / ld, at % ld);
        let expected = match col.checked_sub(ld - n) {
            None => value(row, col),
            Some(to) => {
                let sum: f32 = (0..k).map(|p| value(row % m, p) * value(p, to)).sum();
                2.0 * sum - value(row, col)
            }
        };
        assert_eq!(found, expected, "{row} {col}");
    }
    assert_eq!(cuda_emulated::faults(), Vec::<String>::new());
}
