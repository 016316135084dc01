//! Products of every kind of view and their gradients, on the CPU and, with the feature `cuda`, on the first GPU.

use candle_core::{D, DType, Device, Error, Result, Shape, Tensor, Var};
use tessera_candle::Gemm;

/// Rows of A, columns of B, and what is between them.
const SIZES: [(usize, usize, usize); 10] = [
    (5, 4, 6),
    (16, 24, 32),
    (1, 7, 3),
    (7, 1, 3),
    (4, 5, 1),
    (1, 1, 9),
    (2, 3, 0),
    (0, 3, 4),
    (3, 0, 2),
    (33, 17, 20),
];
const LEADING: [&[usize]; 4] = [&[], &[3], &[2, 3], &[1, 2]];

/// Each device that there is. With `GEMM_REQUIRE_GPU=1` there is a GPU.
fn devices() -> Vec<Device> {
    #[cfg_attr(not(feature = "cuda"), expect(unused_mut, reason = "there is the CPU alone"))]
    let mut devices = vec![Device::Cpu];
    #[cfg(feature = "cuda")]
    match Device::new_cuda(0) {
        Ok(device) => devices.push(device),
        Err(why) => assert!(std::env::var_os("GEMM_REQUIRE_GPU").is_none(), "{why}"),
    }
    devices
}

/// Whether a device has tensors without elements: a driver may refuse candle memory of no bytes.
fn holds_nothing(device: &Device) -> bool {
    Tensor::zeros(0, DType::F32, device).is_ok()
}

/// Whole numbers from -4 to 4: sums of their products are exact, and rounded to the type once.
fn whole(of: (&Device, DType), dims: &[usize], seed: usize) -> Result<Tensor> {
    let count: usize = dims.iter().product();
    if count == 0 {
        return Tensor::zeros(dims, of.1, of.0);
    }
    let numbers: Vec<f32> = (0..count).map(|at| ((at * 7 + seed) % 9) as f32 - 4.0).collect();
    Tensor::from_vec(numbers, dims, &Device::Cpu)?.to_dtype(of.1)?.to_device(of.0)
}

/// A tensor of leading dimensions, rows and columns: a view of a larger one.
type View = fn((&Device, DType), &[usize], (usize, usize), usize) -> Result<Tensor>;

fn dims(leading: &[usize], rest: &[usize]) -> Vec<usize> {
    [leading, rest].concat()
}

const VIEWS: [(&str, View); 10] = [
    ("plain", |of, leading, (rows, cols), seed| whole(of, &dims(leading, &[rows, cols]), seed)),
    ("transposed", |of, leading, (rows, cols), seed| {
        whole(of, &dims(leading, &[cols, rows]), seed)?.t()
    }),
    ("a part", |of, leading, (rows, cols), seed| {
        let all = whole(of, &dims(leading, &[rows + 3, cols + 5]), seed)?;
        all.narrow(D::Minus2, 2, rows)?.narrow(D::Minus1, 3, cols)
    }),
    ("a part, transposed", |of, leading, (rows, cols), seed| {
        let all = whole(of, &dims(leading, &[cols + 1, rows + 4]), seed)?;
        all.narrow(D::Minus2, 1, cols)?.narrow(D::Minus1, 2, rows)?.t()
    }),
    ("every other column", |of, leading, (rows, cols), seed| {
        let all = whole(of, &dims(leading, &[rows, cols, 2]), seed)?;
        all.narrow(D::Minus1, 1, 1)?.squeeze(D::Minus1)
    }),
    ("one row for all", |of, leading, (rows, cols), seed| {
        whole(of, &dims(leading, &[1, cols]), seed)?.broadcast_as(dims(leading, &[rows, cols]))
    }),
    ("one column for all", |of, leading, (rows, cols), seed| {
        whole(of, &dims(leading, &[rows, 1]), seed)?.broadcast_as(dims(leading, &[rows, cols]))
    }),
    ("one matrix for all", |of, leading, (rows, cols), seed| {
        whole(of, &[rows, cols], seed)?.broadcast_as(dims(leading, &[rows, cols]))
    }),
    ("every other matrix", |of, leading, (rows, cols), seed| {
        let all = whole(of, &dims(leading, &[2, rows, cols]), seed)?;
        all.narrow(leading.len(), 1, 1)?.squeeze(leading.len())
    }),
    ("heads", |of, leading, (rows, cols), seed| {
        // The rows of the matrices beside each other: the last leading dimension is behind the rows.
        let Some((last, before)) = leading.split_last() else {
            return whole(of, &[rows, cols], seed);
        };
        let all = whole(of, &dims(before, &[rows, *last, cols]), seed)?;
        all.transpose(before.len(), before.len() + 1)
    }),
];

fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    // candle cannot read a view of nothing that begins behind the end.
    if tensor.elem_count() == 0 {
        return Ok(Vec::new());
    }
    let tensor = tensor.to_device(&Device::Cpu)?.contiguous()?;
    tensor.to_dtype(DType::F64)?.flatten_all()?.to_vec1()
}

/// The product by its definition, each sum rounded to the type.
fn defined(a: &Tensor, b: &Tensor) -> Result<Vec<f64>> {
    let (m, k, n) = (a.dim(D::Minus2)?, a.dim(D::Minus1)?, b.dim(D::Minus1)?);
    let products: usize = a.dims()[..a.rank() - 2].iter().product();
    let dtype = a.dtype();
    let (a, b) = (numbers(a)?, numbers(b)?);
    let mut c = Vec::<f64>::new();
    for at in 0..products {
        for (row, col) in (0..m).flat_map(|row| (0..n).map(move |col| (row, col))) {
            let of_k = |step: usize| a[(at * m + row) * k + step] * b[(at * k + step) * n + col];
            c.push((0..k).map(of_k).sum());
        }
    }
    numbers(&Tensor::new(c, &Device::Cpu)?.to_dtype(dtype)?)
}

fn check(gemm: &Gemm, a: &Tensor, b: &Tensor, what: &str) -> Result<()> {
    let c = gemm.matmul(a, b)?;
    let lead = &a.dims()[..a.rank() - 2];
    assert_eq!(c.dims(), dims(lead, &[a.dim(D::Minus2)?, b.dim(D::Minus1)?]), "{what}");
    assert_eq!(c.dtype(), a.dtype(), "{what}");
    assert!(c.is_contiguous(), "{what}");
    assert_eq!(numbers(&c)?, defined(a, b)?, "{what}");
    Ok(())
}

fn views_give_the_product(dtype: DType) -> Result<()> {
    for device in devices() {
        let gemm = Gemm::new(&device)?;
        for (m, n, k) in SIZES {
            if m * n * k == 0 && !holds_nothing(&device) {
                continue;
            }
            for leading in LEADING {
                for (a_at, (a_name, a_view)) in VIEWS.iter().enumerate() {
                    for (b_at, (b_name, b_view)) in VIEWS.iter().enumerate() {
                        // All pairs of one type; of the others each view of A and each of B.
                        if dtype != DType::F32 && (a_at + b_at) % VIEWS.len() > 2 {
                            continue;
                        }
                        let of = (&device, dtype);
                        let a = a_view(of, leading, (m, k), 1)?;
                        let b = b_view(of, leading, (k, n), 5)?;
                        let what = format!(
                            "{device:?} {dtype:?} {leading:?} {m} x {n} x {k}, {a_name} x {b_name}"
                        );
                        check(&gemm, &a, &b, &what)?;
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn views_of_f32_give_the_product() -> Result<()> {
    views_give_the_product(DType::F32)
}

#[test]
fn views_of_f64_give_the_product() -> Result<()> {
    views_give_the_product(DType::F64)
}

#[test]
fn views_of_f16_give_the_product() -> Result<()> {
    views_give_the_product(DType::F16)
}

#[test]
fn views_of_bf16_give_the_product() -> Result<()> {
    views_give_the_product(DType::BF16)
}

#[test]
fn sums_are_as_near_as_they_must_be() -> Result<()> {
    let (m, n, k) = (130, 70, 300);
    for device in devices() {
        let gemm = Gemm::new(&device)?;
        let noise = |rows: usize, cols: usize, seed: usize| {
            let of = |at: usize| ((at * 7919 + seed) % 10007) as f64 / 5003.5 - 1.0;
            Tensor::from_vec((0..rows * cols).map(of).collect(), (rows, cols), &Device::Cpu)
        };
        for (dtype, of_sums, of_result) in [
            (DType::F64, f64::EPSILON, f64::EPSILON),
            (DType::F32, 2f64.powi(-23), 2f64.powi(-23)),
            (DType::F16, 2f64.powi(-23), 2f64.powi(-10)),
            (DType::BF16, 2f64.powi(-23), 2f64.powi(-7)),
        ] {
            let a = noise(m, k, 1)?.to_dtype(dtype)?.to_device(&device)?;
            let b = noise(n, k, 2)?.to_dtype(dtype)?.to_device(&device)?.t()?;
            let c = numbers(&gemm.matmul(&a, &b)?)?;
            let (a, b) = (numbers(&a)?, numbers(&b)?);
            for (row, col) in (0..m).flat_map(|row| (0..n).map(move |col| (row, col))) {
                let terms = (0..k).map(|at| a[row * k + at] * b[at * n + col]);
                let (exact, size) =
                    terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
                let bound = k as f64 * of_sums * size + of_result * f64::abs(exact);
                let off = (c[row * n + col] - exact).abs();
                assert!(off <= bound, "{device:?} {dtype:?} at {row}, {col}: {off} > {bound}");
            }
        }
    }
    Ok(())
}

/// The factors of a product that a gradient is to go through.
type Factors = (Var, Var);
/// A product of such, by the library or by candle.
type By<'g> = &'g dyn Fn(&Tensor, &Tensor) -> Result<Tensor>;

fn gradients(
    (a, b): &Factors,
    product: impl Fn(&Var, &Var) -> Result<Tensor>,
) -> Result<[Vec<f64>; 3]> {
    let c = product(a, b)?;
    // Each element with a weight of its own.
    let weights = whole((c.device(), c.dtype()), c.dims(), 3)?;
    let grads = (&c * weights)?.sum_all()?.backward()?;
    let of = |var: &Var| grads.get(var).map(numbers).expect("the product depends on it");
    Ok([numbers(&c)?, of(a)?, of(b)?])
}

#[test]
fn gradients_are_those_of_candles_own_product() -> Result<()> {
    let factors = |device: &Device, dtype, a: &[usize], b: &[usize]| -> Result<Factors> {
        let var = |dims, seed| Var::from_tensor(&whole((device, dtype), dims, seed)?);
        Ok((var(a, 1)?, var(b, 5)?))
    };
    for device in devices() {
        let gemm = Gemm::new(&device)?;
        let ours: By<'_> = &|a, b| gemm.matmul(a, b);
        let candles: By<'_> = &|a, b| a.contiguous()?.matmul(&b.contiguous()?);
        for dtype in [DType::F32, DType::F64] {
            let plain = factors(&device, dtype, &[5, 7], &[7, 4])?;
            let batched = factors(&device, dtype, &[2, 3, 7, 5], &[2, 3, 4, 7])?;
            let of = |by: By<'_>| -> Result<[[Vec<f64>; 3]; 3]> {
                Ok([
                    gradients(&plain, |a, b| by(a, b))?,
                    // Transposed, and each factor twice: A^T B^T (B A).
                    gradients(&batched, |a, b| by(&by(&a.t()?, &b.t()?)?, &by(b, a)?))?,
                    gradients(&plain, |a, b| {
                        by(&a.narrow(1, 2, 4)?, &b.narrow(0, 1, 4)?.narrow(1, 1, 3)?)
                    })?,
                ])
            };
            assert_eq!(of(ours)?, of(candles)?, "{device:?} {dtype:?}");
            // Where candle itself has gradients of no elements.
            if let Ok(empty) = factors(&device, dtype, &[5, 0], &[0, 4])
                && let Ok(right) = gradients(&empty, |a, b| a.matmul(b))
            {
                assert_eq!(gradients(&empty, |a, b| ours(a, b))?, right, "{device:?} {dtype:?}");
            }

            let wide = factors(&device, dtype, &[2, 1, 5, 7], &[3, 7, 4])?;
            let found = gradients(&wide, |a, b| gemm.broadcast_matmul(a, b))?;
            assert_eq!(found, gradients(&wide, |a, b| a.broadcast_matmul(b))?);
        }
    }
    Ok(())
}

#[test]
fn leading_dimensions_are_broadcast() -> Result<()> {
    for device in devices() {
        let gemm = Gemm::new(&device)?;
        for (a, b) in [
            (&[4, 5][..], &[5, 6][..]),
            (&[2, 3, 4, 5], &[5, 6]),
            (&[4, 5], &[2, 3, 5, 6]),
            (&[2, 1, 4, 5], &[3, 5, 6]),
            (&[3, 1, 5], &[5, 6]),
        ] {
            let of = (&device, DType::F32);
            let (a, b) = (whole(of, a, 1)?, whole(of, b, 5)?);
            let (found, right) = (gemm.broadcast_matmul(&a, &b)?, a.broadcast_matmul(&b)?);
            assert_eq!(found.dims(), right.dims());
            assert_eq!(numbers(&found)?, numbers(&right)?, "{:?} {:?}", a.shape(), b.shape());
        }
    }
    Ok(())
}

/// Why there is no product, without the backtrace that candle adds where it is asked to.
fn refusal(product: Result<Tensor>) -> Error {
    match product {
        Err(Error::WithBacktrace { inner, .. }) => *inner,
        Err(why) => why,
        Ok(product) => panic!("there is one: {product:?}"),
    }
}

#[test]
fn what_cannot_be_multiplied_is_an_error() -> Result<()> {
    for device in devices() {
        let gemm = Gemm::new(&device)?;
        let zeros = |dtype, dims: &[usize]| Tensor::zeros(Shape::from(dims), dtype, &device);
        for (a, b) in [
            (&[2, 3][..], &[2, 3][..]),
            (&[3], &[3]),
            (&[1, 2, 3], &[3, 4]),
            (&[2, 2, 3], &[3, 3, 4]),
            (&[2, 3, 4, 5], &[3, 2, 5, 6]),
        ] {
            let why = refusal(gemm.matmul(&zeros(DType::F32, a)?, &zeros(DType::F32, b)?));
            assert!(matches!(why, Error::ShapeMismatchBinaryOp { .. }), "{a:?} {b:?}: {why}");
        }
        let (a, b) = (zeros(DType::F32, &[2, 2, 3])?, zeros(DType::F32, &[3, 3, 4])?);
        let why = refusal(gemm.broadcast_matmul(&a, &b));
        assert!(matches!(why, Error::ShapeMismatchBinaryOp { .. }), "{why}");
        for k in [3, 0] {
            if k == 0 && !holds_nothing(&device) {
                continue;
            }
            let why = refusal(
                gemm.matmul(&zeros(DType::F32, &[2, k])?, &zeros(DType::F32, &[k + 1, 4])?),
            );
            assert!(matches!(why, Error::ShapeMismatchBinaryOp { .. }), "{why}");
            let (a, b) = (zeros(DType::F32, &[2, k])?, zeros(DType::F64, &[k, 4])?);
            let why = refusal(gemm.matmul(&a, &b));
            assert!(matches!(why, Error::DTypeMismatchBinaryOp { .. }), "{why}");
            for dtype in [DType::U8, DType::U32, DType::I64] {
                let (a, b) = (zeros(dtype, &[2, k])?, zeros(dtype, &[k, 4])?);
                let why = refusal(gemm.matmul(&a, &b));
                let named = matches!(why, Error::UnsupportedDTypeForOp(named, _) if named == dtype);
                assert!(named, "{why}");
            }
        }
        assert!(format!("{gemm:?}").starts_with("Gemm("), "{gemm:?}");
    }
    Ok(())
}

#[cfg(feature = "cuda")]
#[test]
fn tensors_of_other_devices_are_errors() -> Result<()> {
    let all = devices();
    let [cpu, gpu] = &all[..] else { return Ok(()) };
    let square = |device: &Device| whole((device, DType::F32), &[2, 2], 1);
    let (here, there) = (square(cpu)?, square(gpu)?);
    let why = refusal(Gemm::new(gpu)?.matmul(&here, &there));
    assert!(matches!(why, Error::DeviceMismatchBinaryOp { .. }), "{why}");
    let why = refusal(Gemm::new(gpu)?.matmul(&here, &here)).to_string();
    assert!(why.contains("tensors on the CPU, and a Gemm(Cuda"), "{why}");
    let why = refusal(Gemm::new(cpu)?.matmul(&there, &there)).to_string();
    assert!(why.contains("tensors on a GPU, and a Gemm(Cpu)"), "{why}");
    // Of the same GPU, in another stream.
    let apart = square(&Device::new_cuda_with_stream(0)?)?;
    let why = refusal(Gemm::new(gpu)?.matmul(&there, &apart)).to_string();
    assert!(why.contains("whose stream is another"), "{why}");
    Ok(())
}

#[test]
fn one_value_serves_many_threads() -> Result<()> {
    for device in devices() {
        let gemm = Gemm::new(&device)?;
        std::thread::scope(|scope| {
            let each = |seed| {
                let (gemm, device) = (gemm.clone(), &device);
                scope.spawn(move || {
                    let a = whole((device, DType::F32), &[20, 30], seed)?;
                    check(&gemm, &a, &a.t()?, "of a thread")
                })
            };
            let threads: Vec<_> = (0..4).map(each).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no check failed"))
        })?;
    }
    Ok(())
}

#[path = "../examples/candle_product.rs"]
mod example;

#[test]
fn the_program_of_the_document_is_the_example_and_runs() {
    example::main().unwrap();
    let source = include_str!("../examples/candle_product.rs");
    let (_, code) = source.split_once("its result\")]\n").expect("the header ends");
    // A test calls it from outside.
    let code = code.replace("pub(crate) fn main", "fn main");
    let document = include_str!("../../../docs/embed.md");
    assert!(document.contains(code.trim()), "docs/embed.md does not show\n{code}");
}
