//! Products one of whose factors is split into limbs once. The emulated driver is of a device without kernels that
//! multiply limbs, which `tests/kernels/kept.rs` runs on the emulator.

use cuda_lazy::{CaptureMode, Graph};
use tessera::gpu::{
    Activation, Bias, Context, Declared, DeviceMatrix, Epilogue, EpilogueOperands, GemmBatch,
    GemmDesc, Limbs, Operand, OperandFault, Operands, Plan, PlanLimits, PreparedFactor,
    PreparedMatrix, Stream,
};
use tessera::{Accuracy, Error, Layout, Matrix, Types};

use crate::driver::memory::{Bytes, numbers, whole};
use crate::driver::{alone, kernel, no_faults};

/// The kernels that multiply limbs.
const KERNELS: [(&str, Limbs); 3] =
    [("f16x3", Limbs::TwoF16), ("bf16x6", Limbs::ThreeBf16), ("bf16x9", Limbs::ThreeBf16)];

/// The device, and a stream, where it has kernels that multiply limbs.
fn hopper() -> Option<(Context, Stream)> {
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    (context.info().compute_capability.0 == 9).then_some((context, stream))
}

/// Elements that are no whole numbers, so that the bits tell one order of sums from another.
fn fractions(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|at| ((at * 2_654_435_761 + seed * 97) % 8191) as f32 / 4096.0 - 1.0).collect()
}

/// A descriptor of one product or several, and the elements of its matrices.
struct Product {
    desc: GemmDesc,
    a: Vec<f32>,
    b: Vec<f32>,
    d: Vec<f32>,
    bias: Vec<f32>,
}

impl Product {
    fn new(desc: GemmDesc) -> Self {
        let GemmDesc { m, n, k, .. } = desc;
        let GemmBatch::Strided { count, a_stride, b_stride, d_stride, .. } = desc.batch else {
            panic!("a strided batch")
        };
        let len = |layout: Layout, rows, cols, stride| {
            layout.required_len(rows, cols).unwrap() + (count - 1) * stride
        };
        Self {
            a: fractions(len(desc.a, m, k, a_stride), 1),
            b: fractions(len(desc.b, k, n, b_stride), 2),
            d: fractions(len(desc.d, m, n, d_stride), 3),
            bias: fractions(m.max(n), 4),
            desc,
        }
    }

    /// D's bits by a kernel that splits both factors, or, with one that is prepared, the other alone.
    fn bits(&self, stream: &Stream, id: &str, prepared: Option<(Operand, Limbs)>) -> Vec<u32> {
        let context = stream.context();
        let desc = match prepared {
            Some((factor, limbs)) => self.desc.with_prepared(factor, limbs),
            None => self.desc,
        };
        let plan = Plan::with_kernel(context, desc, PlanLimits::default(), kernel(id)).unwrap();
        let [a, b, d, bias] =
            [&self.a, &self.b, &self.d, &self.bias].map(|data| Bytes::of(context, data));
        let operands = Operands { a: a.at(), b: b.at(), c: d.at(), d: d.at() };
        let epilogue = EpilogueOperands { bias: bias.at(), ..EpilogueOperands::default() };
        let (_memory, workspace) = Bytes::workspace(context, &plan);
        let kept = Bytes::unwritten(context, usize::try_from(plan.prepared_bytes()).unwrap());
        let limbs = PreparedFactor { address: kept.at(), bytes: plan.prepared_bytes() };
        let raw = stream.as_raw();
        match prepared {
            Some((factor, _)) => {
                let of = if factor == Operand::A { operands.a } else { operands.b };
                // SAFETY: the memory is that of the descriptor's matrices, and outlives the wait below.
                unsafe { plan.prepare(raw, of, limbs) }.unwrap();
                // SAFETY: the same.
                unsafe { plan.run_prepared(raw, operands, limbs, epilogue, workspace) }.unwrap();
            }
            // SAFETY: the same.
            None => unsafe { plan.run_with(raw, &[operands], epilogue, workspace) }.unwrap(),
        }
        stream.synchronize().unwrap();
        d.read::<f32>(self.d.len()).into_iter().map(f32::to_bits).collect()
    }
}

/// Either factor, every order of the three matrices, epilogues, batches, and elements that limbs do not hold.
#[test]
fn a_prepared_factor_gives_the_bits_of_the_kernel_that_splits_both() {
    let _alone = alone();
    let Some((_, stream)) = hopper() else { return };
    let mut products = Vec::new();
    for (m, n, k) in [(200, 136, 72), (64, 300, 520), (1, 9, 16)] {
        for orders in 0..8 {
            let of = |bit: usize, rows, cols: usize| match orders >> bit & 1 {
                0 => Layout::row_major(cols + 1),
                _ => Layout::col_major(rows),
            };
            let desc = GemmDesc::new(Types::F32, m, n, k)
                .with_layouts(of(0, m, k), of(1, k, n), of(2, m, n))
                .with_scalars(1.5, -0.5);
            products.push(Product::new(desc));
        }
        let desc = GemmDesc::new(Types::F32, m, n, k);
        products.push(Product::new(desc.with_scalars(0.0, 2.0)));
        products.push(Product::new(
            desc.with_epilogue(Epilogue::new(Some(Bias::PerColumn), Activation::Relu)),
        ));
        // Three products that are one of more rows, and three that are not.
        for apart in [0, 8] {
            let (a_stride, d_stride) = (m * k + apart, m * n + apart);
            let (count, b_stride, c_stride) = (3, 0, d_stride);
            let batch = GemmBatch::Strided { count, a_stride, b_stride, c_stride, d_stride };
            products.push(Product::new(desc.with_batch(batch)));
        }
        for (in_b, value) in [(false, f32::NAN), (true, f32::INFINITY)] {
            let mut spoilt = Product::new(desc);
            let side = if in_b { &mut spoilt.b } else { &mut spoilt.a };
            side[k / 2] = value;
            products.push(spoilt);
        }
    }
    for (id, limbs) in KERNELS {
        for product in &products {
            let expected = product.bits(&stream, id, None);
            for factor in [Operand::A, Operand::B] {
                if factor == Operand::A && product.desc.batch.count() > 1 {
                    continue;
                }
                let found = product.bits(&stream, id, Some((factor, limbs)));
                assert!(found == expected, "{id}, {factor:?}: {:?}", product.desc);
            }
        }
    }
    no_faults();
}

/// One preparation serves products of any number of rows, in any order, and in a graph.
#[test]
fn a_matrix_is_prepared_once_for_products_of_any_number_of_rows() {
    let _alone = alone();
    let Some((context, stream)) = hopper() else { return };
    let (n, k) = (272, 520);
    let weights = numbers::<f32, f32>(k * n, 2, whole);
    for limbs in [Limbs::TwoF16, Limbs::ThreeBf16] {
        let on_device = DeviceMatrix::from_host(
            &stream,
            Matrix::from_fn(k, n, |row, col| weights[row * n + col]).unwrap().view(),
        )
        .unwrap();
        let prepared = PreparedMatrix::new(&stream, on_device, limbs).unwrap();
        assert!(prepared.limb_bytes() >= k * n * 4);
        for m in [1, 64, 300, 17] {
            let inputs = numbers::<f32, f32>(m * k, 1, whole);
            let a = Matrix::from_fn(m, k, |row, col| inputs[row * k + col]).unwrap();
            let a = DeviceMatrix::from_host(&stream, a.view()).unwrap();
            let mut c = DeviceMatrix::<f32>::zeros(&stream, m, n).unwrap();
            stream.gemm_prepared(2.0, a.view(), &prepared, 0.0, &mut c.view_mut()).unwrap();
            let mut plain = DeviceMatrix::<f32>::zeros(&stream, m, n).unwrap();
            stream.gemm(2.0, a.view(), prepared.view(), 0.0, &mut plain.view_mut()).unwrap();
            let (c, plain) = (c.to_host(&stream).unwrap(), plain.to_host(&stream).unwrap());
            for row in 0..m {
                for col in 0..n {
                    // Sums of whole numbers are exact in any order.
                    assert_eq!(c.get(row, col), plain.get(row, col), "{m}: ({row}, {col})");
                }
            }
        }
        drop(prepared.into_matrix());
    }

    let desc = GemmDesc::new(Types::F32, 64, n, k).with_prepared(Operand::B, Limbs::TwoF16);
    let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
    assert!(plan.explain().contains("B in two limbs of f16"), "{}", plan.explain());
    let product = Product::new(GemmDesc { prepared: None, ..desc });
    let expected = product.bits(&stream, "f16x3", None);
    let [a, b, d] = [&product.a, &product.b, &product.d].map(|data| Bytes::of(&context, data));
    let (_memory, workspace) = Bytes::workspace(&context, &plan);
    let kept = Bytes::unwritten(&context, usize::try_from(plan.prepared_bytes()).unwrap());
    let prepared = PreparedFactor { address: kept.at(), bytes: plan.prepared_bytes() };
    let (own, raw) = (context.driver_context(), stream.as_raw());
    let work = || {
        let operands = Operands { a: a.at(), b: b.at(), c: 0, d: d.at() };
        // SAFETY: the memory is that of the descriptor's matrices, and outlives the wait below.
        unsafe { plan.prepare(raw, b.at(), prepared)? };
        // SAFETY: the same.
        unsafe {
            plan.run_prepared(raw, operands, prepared, EpilogueOperands::default(), workspace)?;
        }
        Ok::<(), crate::Captured>(())
    };
    // SAFETY: the stream is of the context.
    let graph = unsafe { Graph::capture(own, raw, CaptureMode::ThreadLocal, work) }.unwrap();
    // SAFETY: the same.
    unsafe { graph.launch(raw).unwrap() };
    stream.synchronize().unwrap();
    let found: Vec<_> = d.read::<f32>(product.d.len()).into_iter().map(f32::to_bits).collect();
    assert!(found == expected);
    no_faults();
}

/// A device matrix of these elements in rows.
fn on_device(stream: &Stream, rows: usize, cols: usize, elements: &[f32]) -> DeviceMatrix<f32> {
    let matrix = Matrix::from_fn(rows, cols, |row, col| elements[row * cols + col]).unwrap();
    DeviceMatrix::from_host(stream, matrix.view()).unwrap()
}

/// What is declared changes no bit. Elements that are written without another generation show that the limbs of before
/// were used, with one that they were made again.
#[test]
fn a_declared_factor_is_split_once_for_each_generation() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let has_limbs = context.info().compute_capability.0 == 9;
    // Large enough for limbs to be chosen on every GPU that has them; the emulated one has none, and multiplies less.
    let (m, n, k) = if has_limbs { (1100, 1024, 1024) } else { (40, 36, 24) };
    let a = on_device(&stream, m, k, &fractions(m * k, 1));
    let bits = |stream: &Stream, of: &DeviceMatrix<f32>| -> Vec<u32> {
        let host = of.to_host(stream).unwrap();
        (0..m * n).map(|at| host.get(at / n, at % n).unwrap().to_bits()).collect()
    };
    let plain = |b: &DeviceMatrix<f32>| {
        let mut c = DeviceMatrix::<f32>::zeros(&stream, m, n).unwrap();
        stream.gemm(1.5, a.view(), b.view(), 0.0, &mut c.view_mut()).unwrap();
        bits(&stream, &c)
    };
    let declare = |stream: &Stream, b: &DeviceMatrix<f32>, identity, generation| {
        let declared = Declared { identity, generation };
        let mut c = DeviceMatrix::<f32>::zeros(stream, m, n).unwrap();
        stream.gemm_declared(1.5, a.view(), b.view(), declared, 0.0, &mut c.view_mut()).unwrap();
        bits(stream, &c)
    };
    let old = fractions(k * n, 2);
    let new = fractions(k * n, 3);
    let mut b = on_device(&stream, k, n, &old);
    let of_old = plain(&b);
    assert_eq!(stream.limb_bytes(), 0);
    for _ in 0..3 {
        assert!(declare(&stream, &b, 7, 0) == of_old);
    }
    let bytes = stream.limb_bytes();
    assert_eq!(bytes >= (k * n * 4) as u64, has_limbs);
    // Another layout of the same, and another matrix: neither is taken for the first.
    let other = on_device(&stream, k, n, &new);
    let of_new = plain(&other);
    assert!(of_new != of_old);
    assert!(declare(&stream, &other, 8, 0) == of_new);
    assert!(declare(&stream, &other, 7, 0) == of_new);
    assert!(declare(&stream, &b, 7, 0) == of_old);
    assert_eq!(stream.limb_bytes(), 2 * bytes);

    let written = Matrix::from_fn(k, n, |row, col| new[row * n + col]).unwrap();
    b.view_mut().copy_from_host(&stream, written.view()).unwrap();
    let stale = declare(&stream, &b, 7, 0);
    assert!(stale == if has_limbs { of_old.clone() } else { of_new.clone() });
    assert!(declare(&stream, &b, 7, 1) == of_new);
    assert_eq!(stream.limb_bytes(), 2 * bytes);
    stream.forget_limbs(8);
    assert_eq!(stream.limb_bytes(), bytes);

    // Room for one at a time, and for none.
    let stream_of = |most| Stream::new(&context).unwrap().with_limb_bytes(most);
    let (one, none) = (stream_of(bytes), stream_of(0));
    for identity in [1, 2, 1] {
        let of = if identity == 1 { &b } else { &other };
        assert!(declare(&one, of, identity, 0) == of_new);
        assert_eq!(one.limb_bytes(), bytes);
        assert!(declare(&none, of, identity, 0) == of_new);
        assert_eq!(none.limb_bytes(), 0);
    }
    no_faults();
}

/// Four panels of an uneven product, and two of one whose B is kept.
#[test]
fn limbs_that_have_no_room_give_the_bits_of_those_that_have() {
    let _alone = alone();
    let Some((context, stream)) = hopper() else { return };
    let (m, n, k) = (2300, 4500, 72);
    let data = Product::new(GemmDesc::new(Types::F32, m, n, k).with_scalars(1.5, -0.5));
    let [a, b] = [&data.a, &data.b].map(|data| Bytes::of(&context, data));
    for (id, limbs) in KERNELS {
        let expected = data.bits(&stream, id, None);
        for prepared in [None, Some(limbs)] {
            let desc = match prepared {
                Some(limbs) => data.desc.with_prepared(Operand::B, limbs),
                None => data.desc,
            };
            let make = |workspace| {
                let limits = PlanLimits { workspace, ..PlanLimits::default() };
                Plan::with_kernel(&context, desc, limits, kernel(id))
            };
            let whole = make(u64::MAX).unwrap().workspace_bytes();
            let refused = make(1).unwrap_err();
            let Error::DeviceOperand { fault: OperandFault::TooShort { needed, .. }, .. } = refused
            else {
                panic!("{refused}")
            };
            let plan = make(needed).unwrap();
            assert!(plan.workspace_bytes() < whole);
            let (_memory, workspace) = Bytes::workspace(&context, &plan);
            let d = Bytes::of(&context, &data.d);
            let operands = Operands { a: a.at(), b: b.at(), c: d.at(), d: d.at() };
            let kept = Bytes::unwritten(&context, usize::try_from(plan.prepared_bytes()).unwrap());
            let factor = PreparedFactor { address: kept.at(), bytes: plan.prepared_bytes() };
            let none = EpilogueOperands::default();
            let raw = stream.as_raw();
            if prepared.is_some() {
                // SAFETY: the memory is that of the descriptor's matrices, and outlives the wait below.
                unsafe { plan.prepare(raw, b.at(), factor) }.unwrap();
                // SAFETY: the same.
                unsafe { plan.run_prepared(raw, operands, factor, none, workspace) }.unwrap();
            } else {
                // SAFETY: the same.
                unsafe { plan.run_with(raw, &[operands], none, workspace) }.unwrap();
            }
            stream.synchronize().unwrap();
            let found = d.read::<f32>(data.d.len()).into_iter().map(f32::to_bits);
            assert!(found.eq(expected.iter().copied()), "{id}, {prepared:?}");
        }
    }
    no_faults();
}

#[test]
fn what_cannot_be_prepared_is_said() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let make = |desc| Plan::new(&context, desc, PlanLimits::default());
    let of = |types| GemmDesc::new(types, 64, 64, 64);
    let f32 = of(Types::F32);
    let strided = |a_stride, b_stride| {
        let (c_stride, d_stride) = (4096, 4096);
        f32.with_batch(GemmBatch::Strided { count: 2, a_stride, b_stride, c_stride, d_stride })
    };
    for (desc, factor, why) in [
        (of(Types::BF16), Operand::A, "only factors of f32 are split"),
        (f32, Operand::C, "must be A or B"),
        (strided(4096, 4096), Operand::B, "each product has one of its own"),
        (strided(4096, 0), Operand::A, "A is prepared, and each product"),
        (f32.with_batch(GemmBatch::Pointers { count: 2 }), Operand::B, "one of its own"),
    ] {
        let refused = make(desc.with_prepared(factor, Limbs::TwoF16)).unwrap_err();
        assert!(matches!(refused, Error::Descriptor { .. }), "{refused}");
        assert!(refused.to_string().contains(why), "{refused}");
    }
    let strict =
        f32.with_accuracy(Accuracy::Componentwise).with_prepared(Operand::B, Limbs::TwoF16);
    let refused = make(strict).unwrap_err().to_string();
    assert!(refused.contains("no kernel for f32 with B in two limbs of f16"), "{refused}");
    let naive = f32.with_prepared(Operand::B, Limbs::TwoF16);
    let refused = Plan::with_kernel(&context, naive, PlanLimits::default(), kernel("naive"));
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("naive does not multiply B in two limbs of f16"), "{refused}");

    let plain = make(f32).unwrap();
    assert_eq!(plain.prepared_bytes(), 0);
    let data = Bytes::of(&context, &vec![0.0f32; 3 * 4096]);
    let operands = Operands { a: data.at(), b: data.at() + 16384, c: 0, d: data.at() + 2 * 16384 };
    let (_memory, workspace) = Bytes::workspace(&context, &plain);
    let run = |plan: &Plan, prepared| {
        let epilogue = EpilogueOperands::default();
        // SAFETY: nothing is launched: it is refused.
        unsafe { plan.run_prepared(stream.as_raw(), operands, prepared, epilogue, workspace) }
            .unwrap_err()
    };
    let prepared = PreparedFactor { address: data.at(), bytes: 1 << 20 };
    let none = run(&plain, prepared);
    assert!(
        matches!(none, Error::DeviceOperand { fault: OperandFault::NotPrepared, .. }),
        "{none}"
    );
    // SAFETY: the same.
    let none = unsafe { plain.prepare(stream.as_raw(), operands.b, prepared) }.unwrap_err();
    assert!(none.to_string().contains("no factor of it is prepared"), "{none}");

    if hopper().is_some() {
        let plan = make(naive).unwrap();
        let bytes = plan.prepared_bytes();
        for (prepared, why) in [
            (PreparedFactor { address: 0, bytes }, "the prepared factor is null"),
            (PreparedFactor { address: data.at() + 16, bytes }, "no multiple of 256"),
            (PreparedFactor { address: data.at(), bytes: bytes - 1 }, "bytes, and"),
        ] {
            let refused = run(&plan, prepared).to_string();
            assert!(refused.contains(why), "{refused}");
            // SAFETY: the same.
            let refused = unsafe { plan.prepare(stream.as_raw(), operands.b, prepared) };
            assert!(refused.unwrap_err().to_string().contains(why));
        }
        // SAFETY: the same.
        let without =
            unsafe { plan.run(stream.as_raw(), operands.a, operands.b, 0, operands.d, workspace) };
        let without = without.unwrap_err().to_string();
        assert!(without.contains("the prepared factor is null"), "{without}");
    } else {
        let matrix = DeviceMatrix::<f32>::zeros(&stream, 64, 64).unwrap();
        let refused = PreparedMatrix::new(&stream, matrix, Limbs::TwoF16).unwrap_err();
        assert!(refused.to_string().contains("no kernel for f32 with B"), "{refused}");
    }
    no_faults();
}
