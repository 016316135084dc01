//! Epilogues on the device, fused and not.

use gemm_spec::fusion::{Activation, Bias, Epilogue, HostPowers};
use gemm_spec::{Accumulator, Convert, DType, Element as _, epilogue, with_gemm_types};
use tessera::gpu::{
    Context, EpilogueOperands, GemmBatch, GemmDesc, KERNELS, Operands, Plan, PlanLimits, Stream,
    Workspace,
};
use tessera::{Error, GemmTypes, Layout, Types};

use crate::driver::memory::{Bytes, numbers, scalar, whole};
use crate::driver::{alone, emulated, kernel, no_faults};

/// The value of a number of any type of C or of sums.
fn value<E: Convert<Acc>, Acc: Accumulator>(element: E) -> f64 {
    let wide: &dyn std::any::Any = &element.widen();
    let single = wide.downcast_ref::<f32>().map(|&value| f64::from(value));
    single.or(wide.downcast_ref::<f64>().copied()).expect("a floating-point sum")
}

/// What an element becomes, before rounding: the activation of a sum of f32, or ReLU of one of f64.
fn activated(epilogue: Epilogue, value: f64, single: bool) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "it is a number of f32")]
    match single {
        true => f64::from(epilogue.activation.apply::<HostPowers>(value as f32)),
        false if epilogue.activation == Activation::Relu => value.max(0.0),
        false => value,
    }
}

/// From the operands of one product to those of the next: A, B, C and D.
fn strides(batch: GemmBatch) -> [usize; 4] {
    match batch {
        GemmBatch::Strided { a_stride, b_stride, c_stride, d_stride, .. } => {
            [a_stride, b_stride, c_stride, d_stride]
        }
        GemmBatch::RowGroups { b_stride, .. } => [0, b_stride, 0, 0],
        GemmBatch::Pointers { .. } => panic!("products with addresses of their own"),
    }
}

/// Operands of a test, in host memory.
pub(crate) struct Host<T: GemmTypes> {
    a: Vec<T::A>,
    b: Vec<T::B>,
    c: Vec<T::C>,
    d: Vec<T::C>,
    bias: Vec<T::C>,
    row_scales: Vec<T::Acc>,
    column_scales: Vec<T::Acc>,
    /// Where groups of rows end.
    ends: Option<Vec<i32>>,
}

impl<T: GemmTypes> Host<T> {
    pub(crate) fn new(desc: &GemmDesc) -> Self {
        let count = desc.batch.count();
        let [a_stride, b_stride, c_stride, d_stride] = strides(desc.batch);
        let (m, n, k) = (desc.m, desc.n, desc.k);
        let len = |layout: Layout, rows, cols, stride| {
            layout.required_len(rows, cols).unwrap() + (count - 1) * stride
        };
        Self {
            a: numbers::<T::A, T::Acc>(len(desc.a, m, k, a_stride), 1, whole),
            b: numbers::<T::B, T::Acc>(len(desc.b, k, n, b_stride), 2, whole),
            c: numbers::<T::C, T::Acc>(len(desc.c, m, n, c_stride), 3, whole),
            d: numbers::<T::C, T::Acc>(len(desc.d, m, n, d_stride), 4, whole),
            bias: numbers::<T::C, T::Acc>(m.max(n) + count * desc.bias_stride, 5, whole),
            row_scales: numbers::<T::Acc, T::Acc>(m, 6, whole),
            column_scales: numbers::<T::Acc, T::Acc>(n, 7, whole),
            ends: None,
        }
    }

    pub(crate) fn with_ends(self, ends: &[i32]) -> Self {
        Self { ends: Some(ends.to_vec()), ..self }
    }

    /// The rows of a product.
    fn rows(&self, at: usize, m: usize) -> std::ops::Range<usize> {
        let Some(ends) = &self.ends else { return 0..m };
        let end = |at: usize| usize::try_from(ends[at]).unwrap().min(m);
        let begin = (0..at).map(end).max().unwrap_or(0);
        begin..end(at).max(begin)
    }

    /// D with its padding, and the largest magnitude; C is D where it is not apart.
    fn expected(&self, desc: &GemmDesc, apart: bool) -> (Vec<T::C>, f64) {
        let [a_stride, b_stride, c_stride, d_stride] = strides(desc.batch);
        let Epilogue { bias, row_scales, column_scales, .. } = desc.epilogue;
        let (alpha, beta) = (scalar::<T::Acc>(desc.alpha), scalar::<T::Acc>(desc.beta));
        let (mut d, mut amax) = (self.d.clone(), 0.0f64);
        for at in 0..desc.batch.count() {
            let bias_at = at * desc.bias_stride;
            for row in self.rows(at, desc.m) {
                for col in 0..desc.n {
                    let product = |sum, p| {
                        let a = self.a[at * a_stride + desc.a.index(row, p)];
                        T::mul_add(a, self.b[at * b_stride + desc.b.index(p, col)], sum)
                    };
                    let sum = (0..desc.k).fold(T::Acc::ZERO, product);
                    let place = at * d_stride + desc.d.index(row, col);
                    let old = if apart {
                        self.c[at * c_stride + desc.c.index(row, col)]
                    } else {
                        d[place]
                    };
                    let mut factor = alpha;
                    if row_scales {
                        factor = factor.mul(self.row_scales[row]);
                    }
                    if column_scales {
                        factor = factor.mul(self.column_scales[col]);
                    }
                    let scaled: T::Acc = epilogue(factor, sum, beta, || old.widen());
                    let added = match bias {
                        Some(Bias::PerRow) => self.bias[bias_at + row].widen(),
                        Some(Bias::PerColumn) => self.bias[bias_at + col].widen(),
                        None => T::Acc::ZERO,
                    };
                    let single = T::TYPES.acc() == gemm_spec::AccType::F32;
                    let sum = T::Acc::ONE.mul_add(scaled, added);
                    let result = activated(desc.epilogue, value::<T::Acc, T::Acc>(sum), single);
                    let result = rounded::<T>(result);
                    amax = amax.max(value::<T::C, T::Acc>(result).abs());
                    d[place] = result;
                }
            }
        }
        (d, amax)
    }
}

/// The nearest element of C.
fn rounded<T: GemmTypes>(value: f64) -> T::C {
    #[expect(clippy::cast_possible_truncation, reason = "the nearest number is wanted")]
    let found: [Box<dyn std::any::Any>; 2] = [Box::new(value as f32), Box::new(value)];
    let sum = *found.iter().find_map(|one| one.downcast_ref::<T::Acc>()).unwrap();
    T::C::narrow(sum)
}

/// Runs a plan on fresh operands and compares all of D's buffer, and the largest magnitude.
fn compare<T: GemmTypes>(context: &Context, plan: &Plan, stream: &Stream, apart: bool) {
    compare_with(&Host::<T>::new(plan.desc()), context, plan, stream, apart);
}

/// The same with operands that are given.
pub(crate) fn compare_with<T: GemmTypes>(
    host: &Host<T>,
    context: &Context,
    plan: &Plan,
    stream: &Stream,
    apart: bool,
) {
    let desc = *plan.desc();
    let (right, amax) = host.expected(&desc, apart);
    let (a, b) = (Bytes::of(context, &host.a), Bytes::of(context, &host.b));
    let (c, d) = (Bytes::of(context, &host.c), Bytes::of(context, &host.d));
    let bias = Bytes::of(context, &host.bias);
    let row_scales = Bytes::of(context, &host.row_scales);
    let column_scales = Bytes::of(context, &host.column_scales);
    let largest = Bytes::of(context, &[f32::NAN]);
    let scalars = Bytes::of::<T::Acc>(context, &[scalar(desc.alpha), scalar(desc.beta)]);
    let (_memory, workspace) = Bytes::workspace(context, plan);
    let from = if apart { c.at() } else { d.at() };
    let operands = Operands { a: a.at(), b: b.at(), c: from, d: d.at() };
    let numbers = EpilogueOperands {
        bias: bias.at(),
        row_scales: row_scales.at(),
        column_scales: column_scales.at(),
        amax: largest.at(),
        scalars: scalars.at(),
    };
    plan.check(operands, workspace).unwrap();
    match &host.ends {
        // SAFETY: the memory is that of the descriptor's matrices and numbers, and outlives the wait below.
        None => unsafe { plan.run_with(stream.as_raw(), &[operands], numbers, workspace).unwrap() },
        Some(ends) => {
            let ends = Bytes::of(context, ends);
            // SAFETY: the same, and there is an end for each product.
            unsafe {
                plan.run_groups(stream.as_raw(), ends.at(), operands, numbers, workspace).unwrap();
            }
            stream.synchronize().unwrap();
        }
    }
    stream.synchronize().unwrap();
    let result = d.read::<T::C>(right.len());
    let words = || format!("{}\n{desc:?}, apart: {apart}", plan.explain());
    // The exponentials of the device are other ones.
    let tolerance = match (desc.epilogue.activation.is_smooth(), T::TYPES.c()) {
        (false, _) => 0.0,
        (true, DType::F16) => 1.1 / 1024.0,
        (true, DType::BF16) => 1.1 / 128.0,
        (true, _) => 2e-6,
    };
    for (at, (found, wanted)) in result.iter().zip(&right).enumerate() {
        let (found, wanted) = (value::<T::C, T::Acc>(*found), value::<T::C, T::Acc>(*wanted));
        let off = (found - wanted).abs();
        assert!(
            off <= tolerance * wanted.abs().max(1e-6),
            "{found} is not {wanted} at {at}: {}",
            words()
        );
    }
    if desc.epilogue.amax {
        let found = f64::from(largest.read::<f32>(1)[0]);
        assert!((found - amax).abs() <= tolerance * amax, "{found} is not {amax}: {}", words());
    }
}

/// Epilogues that have everything at least once.
fn epilogues(types: Types) -> Vec<Epilogue> {
    let rows = Epilogue::new(Some(Bias::PerRow), Activation::Relu);
    let columns = Epilogue::new(Some(Bias::PerColumn), Activation::Identity);
    let mut all = vec![
        columns,
        rows.with_column_scales(),
        Epilogue::NONE.with_row_scales(),
        columns.with_row_scales().with_column_scales(),
        Epilogue::NONE.with_device_scalars(),
        columns.with_device_scalars().with_row_scales(),
    ];
    if types.acc() == gemm_spec::AccType::F32 {
        all.extend([
            Epilogue::new(Some(Bias::PerColumn), Activation::Gelu).with_amax(),
            Epilogue::new(None, Activation::GeluTanh),
            Epilogue::new(Some(Bias::PerRow), Activation::Silu).with_row_scales(),
            Epilogue::NONE.with_amax(),
        ]);
    }
    all
}

/// The types of floating-point sums that the device multiplies.
fn types_of(context: &Context) -> Vec<Types> {
    let has = |types: &Types| {
        let plan = Plan::new(context, GemmDesc::new(*types, 4, 4, 4), PlanLimits::default());
        !types.is_integer() && plan.is_ok()
    };
    Types::ALL.into_iter().filter(has).collect()
}

fn row_major(types: Types, (m, n, k): (usize, usize, usize), padding: usize) -> GemmDesc {
    GemmDesc::new(types, m, n, k)
        .with_layouts(
            Layout::row_major(k),
            Layout::row_major(n + padding),
            Layout::row_major(n + 2 * padding),
        )
        .with_d(Layout::row_major(n + padding))
}

/// Every type by the kernel that suits, with D where TMA stores it and where threads do, C apart and not.
#[test]
fn every_type_has_epilogues() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    for types in types_of(&context) {
        for (sizes, padding) in [((70, 72, 40), 8), ((37, 45, 29), 1), ((5, 64, 0), 0)] {
            for (alpha, beta) in [(1.0, 0.0), (2.0, -1.0)] {
                for epilogue in epilogues(types) {
                    let desc = row_major(types, sizes, padding)
                        .with_scalars(alpha, beta)
                        .with_epilogue(epilogue);
                    let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
                    with_gemm_types!(types, T => compare::<T>(&context, &plan, &stream, true));
                }
            }
        }
        let same =
            row_major(types, (33, 24, 16), 0).with_d(Layout::row_major(24)).with_scalars(1.0, 1.0);
        for epilogue in epilogues(types) {
            let desc = same.with_epilogue(epilogue);
            let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
            with_gemm_types!(types, T => compare::<T>(&context, &plan, &stream, false));
        }
    }
    no_faults();
}

/// Each kernel that fuses epilogues, in both of its ways of storing C.
#[test]
fn every_fusing_kernel_fuses_them() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let fuse = |types: Types| {
        let kernels = KERNELS.iter().copied().filter(|kernel| kernel.spec().fuses);
        kernels.filter(move |kernel| kernel.entry(types).is_ok())
    };
    let mut plans = 0;
    for types in types_of(&context) {
        for kernel in fuse(types) {
            // What differs by type alone is another test's.
            let few = emulated() && types != Types::BF16;
            let all = epilogues(types);
            for epilogue in if few { &all[6..7] } else { &all[..] } {
                for (beta, padding) in [(0.0, 0), (1.0, 1)] {
                    let desc = row_major(types, (72, 136, 40), padding)
                        .with_scalars(1.0, beta)
                        .with_epilogue(*epilogue);
                    let plan =
                        Plan::with_kernel(&context, desc, PlanLimits::default(), kernel).unwrap();
                    assert!(!plan.explain().contains("finish_"), "{}", plan.explain());
                    with_gemm_types!(types, T => compare::<T>(&context, &plan, &stream, true));
                    plans += 1;
                }
            }
        }
    }
    assert!(plans > 0 || context.info().compute_capability.0 != 9);
    no_faults();
}

/// Batches, and a D whose columns are contiguous: rows and columns change places.
#[test]
fn batches_and_column_major_results_have_epilogues() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    for types in types_of(&context) {
        for epilogue in epilogues(types) {
            for (a_stride, b_stride) in [(24 * 16, 16 * 40), (24 * 16, 0)] {
                for beta in [0.0, 2.0] {
                    let (c_stride, d_stride) = (24 * 40 + 8, 24 * 40);
                    let batch =
                        GemmBatch::Strided { count: 3, a_stride, b_stride, c_stride, d_stride };
                    let rows = GemmDesc::new(types, 24, 40, 16)
                        .with_scalars(-1.0, beta)
                        .with_batch(batch)
                        .with_epilogue(epilogue);
                    let columns = rows.with_d(Layout::col_major(24));
                    let both = columns.with_layouts(
                        Layout::col_major(24),
                        Layout::row_major(40),
                        Layout::col_major(24),
                    );
                    let apart = rows.with_bias_stride(44);
                    let scalars = GemmDesc { epilogue: epilogue.with_device_scalars(), ..apart };
                    for desc in [rows, columns, both, apart, scalars] {
                        let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
                        with_gemm_types!(types, T => compare::<T>(&context, &plan, &stream, true));
                    }
                }
            }
        }
    }
    no_faults();
}

/// Products with addresses of their own share the epilogue's numbers.
#[test]
fn products_with_addresses_of_their_own_have_epilogues() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let (m, n, k) = (9, 20, 12);
    let epilogue = Epilogue::new(Some(Bias::PerColumn), Activation::Relu).with_row_scales();
    let one = GemmDesc::new(Types::F32, m, n, k).with_scalars(1.0, 1.0).with_epilogue(epilogue);
    let desc = one.with_batch(GemmBatch::Pointers { count: 2 }).with_bias_stride(5);
    let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
    let host = Host::<f32>::new(&desc.with_batch(GemmBatch::ONE));
    let right = [0, 5].map(|behind| {
        let host = Host::<f32> { bias: host.bias[behind..].to_vec(), ..Host::new(&one) };
        host.expected(&one, true).0
    });
    let (a, b) = (Bytes::of(&context, &host.a), Bytes::of(&context, &host.b));
    let c = Bytes::of(&context, &host.c);
    let d = [Bytes::of(&context, &host.d), Bytes::of(&context, &host.d)];
    let bias = Bytes::of(&context, &host.bias);
    let scales = Bytes::of(&context, &host.row_scales);
    let (_memory, workspace) = Bytes::workspace(&context, &plan);
    let operands =
        [0, 1].map(|of: usize| Operands { a: a.at(), b: b.at(), c: c.at(), d: d[of].at() });
    let numbers = EpilogueOperands {
        bias: bias.at(),
        row_scales: scales.at(),
        ..EpilogueOperands::default()
    };
    // SAFETY: the memory is that of the descriptor's matrices and numbers, and outlives the wait below.
    unsafe { plan.run_with(stream.as_raw(), &operands, numbers, workspace).unwrap() };
    stream.synchronize().unwrap();
    for (d, right) in d.iter().zip(&right) {
        assert_eq!(d.read::<f32>(right.len()), *right);
    }
    no_faults();
}

/// With alpha zero neither A nor B is read, and may be missing.
#[test]
fn what_alpha_hides_is_not_read() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let epilogue = Epilogue::new(Some(Bias::PerColumn), Activation::Relu).with_row_scales();
    for types in types_of(&context).into_iter().filter(|types| types.a() == types.c()) {
        let desc = GemmDesc::new(types, 12, 16, 20).with_scalars(0.0, 1.0).with_epilogue(epilogue);
        let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
        with_gemm_types!(types, T => hidden::<T>(&context, &plan, &stream));
    }
    no_faults();
}

fn hidden<T: GemmTypes>(context: &Context, plan: &Plan, stream: &Stream) {
    let host = Host::<T>::new(plan.desc());
    let (right, _) = host.expected(plan.desc(), true);
    let (c, d) = (Bytes::of(context, &host.c), Bytes::of(context, &host.d));
    let bias = Bytes::of(context, &host.bias);
    let scales = Bytes::of(context, &host.row_scales);
    let (_memory, workspace) = Bytes::workspace(context, plan);
    let operands = Operands { a: 0, b: 0, c: c.at(), d: d.at() };
    let numbers = EpilogueOperands {
        bias: bias.at(),
        row_scales: scales.at(),
        ..EpilogueOperands::default()
    };
    // SAFETY: what is read and written is there, and outlives the wait below.
    unsafe { plan.run_with(stream.as_raw(), &[operands], numbers, workspace).unwrap() };
    stream.synchronize().unwrap();
    assert!(d.read::<T::C>(right.len()) == right, "{}", plan.explain());
}

/// With an alpha of zero in device memory A and B may hold anything, with a beta of zero C.
#[test]
fn what_scalars_on_the_device_hide_does_not_show() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let epilogue = Epilogue::NONE.with_device_scalars();
    for types in [Types::F32, Types::F16F32, Types::BF16F32] {
        if Plan::new(&context, GemmDesc::new(types, 4, 4, 4), PlanLimits::default()).is_err() {
            continue;
        }
        let desc = GemmDesc::new(types, 24, 16, 20).with_epilogue(epilogue);
        let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
        // NaN in each of these types.
        let nothing = Bytes::of(&context, &[-1i32; 24 * 20]);
        let c = Bytes::of(&context, &[3.0f32; 24 * 16]);
        let (_memory, workspace) = Bytes::workspace(&context, &plan);
        for (scalars, from, wanted) in
            [([0.0f32, 2.0], c.at(), 6.0), ([0.0, 0.0], nothing.at(), 0.0)]
        {
            let d = Bytes::unwritten(&context, 24 * 16 * 4);
            let scalars = Bytes::of(&context, &scalars);
            let operands = Operands { a: nothing.at(), b: nothing.at(), c: from, d: d.at() };
            let numbers = EpilogueOperands { scalars: scalars.at(), ..EpilogueOperands::default() };
            // SAFETY: what is read and written is there, and outlives the wait below.
            unsafe { plan.run_with(stream.as_raw(), &[operands], numbers, workspace).unwrap() };
            stream.synchronize().unwrap();
            assert_eq!(d.read::<f32>(24 * 16), [wanted; 24 * 16], "{}", plan.explain());
        }
    }
    no_faults();
}

/// What cannot be is said before anything is launched.
#[test]
fn what_is_missing_or_impossible_is_said() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let epilogue = Epilogue::new(Some(Bias::PerRow), Activation::Relu);
    let make = |types, epilogue| {
        let desc = GemmDesc::new(types, 8, 8, 8).with_epilogue(epilogue);
        Plan::new(&context, desc, PlanLimits::default())
    };
    let integers = make(Types::I32, epilogue).unwrap_err().to_string();
    assert!(integers.contains("have no epilogue"), "{integers}");
    let smooth = Epilogue::new(None, Activation::Gelu);
    let doubles = make(Types::F64, smooth).unwrap_err().to_string();
    assert!(doubles.contains("gelu is of accumulators of f32"), "{doubles}");
    let plan = make(Types::F32, epilogue).unwrap();
    let bytes = Bytes::unwritten(&context, 4096);
    let at = bytes.at();
    let operands = Operands { a: at, b: at + 1024, c: 0, d: at + 2048 };
    let run = |numbers| {
        // SAFETY: nothing is launched.
        let refused =
            unsafe { plan.run_with(stream.as_raw(), &[operands], numbers, Workspace::NONE) };
        refused.unwrap_err().to_string()
    };
    let missing = run(EpilogueOperands::default());
    assert!(missing.contains("the bias is null"), "{missing}");
    let odd = run(EpilogueOperands { bias: at + 2, ..EpilogueOperands::default() });
    assert!(odd.contains("no multiple of 4"), "{odd}");
    if context.info().compute_capability.0 == 9 {
        let desc = GemmDesc::new(Types::BF16, 8, 8, 8).with_epilogue(epilogue);
        let small = kernel("batched_small");
        let refused = Plan::with_kernel(&context, desc, PlanLimits::default(), small).unwrap_err();
        assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
    }
    no_faults();
}
