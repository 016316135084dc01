//! Products whose operands are on the device, on an emulated driver whose streams run as late as they may.
//! Where `GEMM_REQUIRE_GPU=1` is set the same tests are of the first GPU; what only an emulated driver can
//! count or show is then left out.

#![expect(clippy::unwrap_used, reason = "what the tests have in common fails where they do")]

use std::collections::{BTreeSet, HashMap};
use std::ffi::c_void;
use std::ptr;

use cuda_lazy::{CaptureMode, DeviceMemory, Event, Graph, Timing};
use gemm_spec::{Element as _, Operand, Order, epilogue, with_gemm_types};
use tessera::gpu::{
    Context, DeviceMatMut, DeviceMatRef, DeviceMatrix, GemmBatch, GemmDesc, Gpu, GroupedPlan,
    KERNELS, OperandFault, Operands, Plan, PlanLimits, Stream, Workspace,
};
use tessera::{Accuracy, Batch, DType, Error, GemmTypes, Layout, MatMut, Matrix, Problem, Types};

#[path = "../examples/device_matrix.rs"]
mod device_matrix;
#[path = "../examples/device_plan.rs"]
mod device_plan;
mod driver;
#[path = "device/epilogue.rs"]
mod epilogue;
#[path = "device/groups.rs"]
mod groups;
#[path = "device/prepared.rs"]
mod prepared;

use driver::memory::{Bytes, numbers, scalar, whole};
use driver::{alone, emulated, kernel, no_faults};

/// The driver's functions that were called since `before`, and how often.
fn called_since(before: &HashMap<&'static str, usize>) -> HashMap<&'static str, usize> {
    let count =
        |(name, now): (&'static str, usize)| (name, now - before.get(name).copied().unwrap_or(0));
    cuda_emulated::calls().into_iter().map(count).filter(|(_, times)| *times > 0).collect()
}

/// One chain of multiply-adds for each element of a problem whose C is apart from D: D's buffer, padding included.
fn expected<T: GemmTypes>(
    desc: &GemmDesc,
    a: &[T::A],
    b: &[T::B],
    c: &[T::C],
    d: &[T::C],
) -> Vec<T::C> {
    let GemmBatch::Strided { count, a_stride, b_stride, c_stride, d_stride } = desc.batch else {
        panic!("a strided batch");
    };
    let mut d = d.to_vec();
    let problem = Problem::<T>::new(desc.m, desc.n, desc.k)
        .with_scalars(scalar(desc.alpha), scalar(desc.beta))
        .with_layouts(desc.a, desc.b, desc.d);
    for at in 0..count {
        let d = &mut d[at * d_stride..];
        if desc.beta != 0.0 {
            for row in 0..desc.m {
                for col in 0..desc.n {
                    d[desc.d.index(row, col)] = c[at * c_stride + desc.c.index(row, col)];
                }
            }
        }
        let (a, b) = (&a[at * a_stride..], &b[at * b_stride..]);
        for row in 0..desc.m {
            for col in 0..desc.n {
                let product =
                    |sum, p| T::mul_add(a[desc.a.index(row, p)], b[desc.b.index(p, col)], sum);
                let sum = (0..problem.effective_k()).fold(T::Acc::ZERO, product);
                let d = &mut d[desc.d.index(row, col)];
                *d = epilogue(problem.alpha, sum, problem.beta, || *d);
            }
        }
    }
    d
}

/// Elements that a matrix of a batch takes.
fn len(layout: Layout, rows: usize, cols: usize, (count, stride): (usize, usize)) -> usize {
    layout.required_len(rows, cols).unwrap() + (count - 1) * stride
}

/// Runs a plan on fresh operands and compares all of D's buffer.
fn compare<T: GemmTypes>(context: &Context, plan: &Plan, stream: &Stream) {
    let desc = *plan.desc();
    let GemmBatch::Strided { count, a_stride, b_stride, c_stride, d_stride } = desc.batch else {
        panic!("a strided batch");
    };
    let (m, n, k) = (desc.m, desc.n, desc.k);
    let a = numbers::<T::A, T::Acc>(len(desc.a, m, k, (count, a_stride)), 1, whole);
    let b = numbers::<T::B, T::Acc>(len(desc.b, k, n, (count, b_stride)), 2, whole);
    let c = numbers::<T::C, T::Acc>(len(desc.c, m, n, (count, c_stride)), 3, whole);
    let d = numbers::<T::C, T::Acc>(len(desc.d, m, n, (count, d_stride)), 4, whole);
    let right = expected::<T>(&desc, &a, &b, &c, &d);
    let (on_a, on_b) = (Bytes::of(context, &a), Bytes::of(context, &b));
    let (on_c, on_d) = (Bytes::of(context, &c), Bytes::of(context, &d));
    let (_memory, workspace) = Bytes::workspace(context, plan);
    let operands = Operands { a: on_a.at(), b: on_b.at(), c: on_c.at(), d: on_d.at() };
    plan.check(operands, workspace).unwrap();
    let Operands { a, b, c, d } = operands;
    // SAFETY: the memory is that of the descriptor's matrices, and outlives the wait below.
    unsafe { plan.run(stream.as_raw(), a, b, c, d, workspace).unwrap() };
    stream.synchronize().unwrap();
    assert!(on_d.read::<T::C>(right.len()) == right, "{}\n{desc:?}", plan.explain());
}

/// The types that some kernel multiplies on the device.
fn types_of(context: &Context) -> Vec<Types> {
    let has = |types: &Types| {
        let desc = GemmDesc::new(*types, 4, 4, 4);
        match Plan::new(context, desc, PlanLimits::default()) {
            Ok(_) => true,
            Err(Error::NoKernel { .. }) => false,
            Err(other) => panic!("{types}: {other}"),
        }
    };
    Types::ALL.into_iter().filter(has).collect()
}

/// Every type that the device has a kernel for, shapes that no tile divides, D apart from C and not.
#[test]
fn every_type_and_ragged_shapes_give_the_reference() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let all = types_of(&context);
    let wanted: &[Types] = match context.info().compute_capability {
        (9, _) => &[
            Types::F32,
            Types::F64,
            Types::I32,
            Types::F16,
            Types::BF16,
            Types::F16F32,
            Types::BF16F32,
        ],
        _ => &[Types::F32, Types::F64, Types::I32],
    };
    assert_eq!(all, wanted);
    for types in all {
        for (m, n, k) in [(1, 1, 1), (37, 45, 29), (64, 64, 64), (130, 3, 257), (5, 200, 0)] {
            for (alpha, beta) in [(1.0, 0.0), (2.0, -1.0), (0.0, 3.0)] {
                let desc = GemmDesc::new(types, m, n, k)
                    .with_layouts(
                        Layout::row_major(k + 3),
                        Layout::row_major(n + 1),
                        Layout::row_major(n + 2),
                    )
                    .with_d(Layout::row_major(n + 5))
                    .with_scalars(alpha, beta);
                let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
                with_gemm_types!(types, T => compare::<T>(&context, &plan, &stream));
            }
        }
    }
    no_faults();
}

/// Columns are contiguous everywhere, as in BLAS: A and B change places, and nothing is copied.
#[test]
fn column_major_matrices_are_multiplied_in_place() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    for types in types_of(&context) {
        let (m, n, k) = (48, 33, 31);
        let desc = GemmDesc::new(types, m, n, k)
            .with_layouts(
                Layout::col_major(m + 4),
                Layout::col_major(k + 2),
                Layout::col_major(m + 1),
            )
            .with_scalars(1.0, 2.0);
        let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
        with_gemm_types!(types, T => compare::<T>(&context, &plan, &stream));
    }
    no_faults();
}

/// Any mixture of orders: what a kernel cannot read is brought into rows first, in the workspace.
#[test]
fn every_mixture_of_orders_gives_the_reference() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let of = |order, rows: usize, cols: usize, padding: usize| match order {
        Order::RowMajor => Layout::row_major(cols + padding),
        Order::ColMajor => Layout::col_major(rows + padding),
    };
    let orders = [Order::RowMajor, Order::ColMajor];
    for types in types_of(&context) {
        for (m, n, k) in [(37, 45, 70), (1, 9, 33), (33, 1, 5), (6, 7, 1)] {
            for mixture in 0..16 {
                let [a, b, c, d] = [0, 1, 2, 3].map(|bit| orders[mixture >> bit & 1]);
                let (a_stride, b_stride, d_stride) = ((m + 4) * (k + 4), 0, (m + 4) * (n + 4));
                let batch = GemmBatch::Strided {
                    count: 2,
                    a_stride,
                    b_stride,
                    c_stride: d_stride,
                    d_stride,
                };
                let desc = GemmDesc::new(types, m, n, k)
                    .with_layouts(of(a, m, k, 1), of(b, k, n, 2), of(c, m, n, 3))
                    .with_d(of(d, m, n, 4))
                    .with_scalars(1.0, if mixture == 9 { 0.0 } else { -1.0 })
                    .with_batch(batch);
                let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
                with_gemm_types!(types, T => compare::<T>(&context, &plan, &stream));
                // Of floats such a batch is one launch of a kernel that reads any order.
                if (types, mixture, m) == (Types::I32, 9, 37) {
                    let explained = plan.explain();
                    assert!(explained.contains("B brought into rows first"), "{explained}");
                    assert!(plan.workspace_bytes() > 0);
                }
            }
        }
    }
    no_faults();
}

/// A run asks the driver for launches alone.
#[test]
fn a_run_allocates_nothing_waits_for_nothing_and_loads_nothing() {
    let _alone = alone();
    if !emulated() {
        return;
    }
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let launches: BTreeSet<&str> = BTreeSet::from([
        "cuCtxPushCurrent",
        "cuCtxPopCurrent",
        "cuLaunchKernel",
        "cuMemsetD8Async",
        "cuMemcpyDtoDAsync",
        "cuMemcpy2DAsync",
    ]);
    for (id, products) in [("vector_loads", 1), ("split_k_32x64", 3), ("naive", 3)] {
        let desc = GemmDesc::new(Types::F32, 20, 24, 3000)
            .with_scalars(1.0, 1.0)
            .with_d(Layout::row_major(28))
            .with_batch(GemmBatch::Strided {
                count: products,
                a_stride: 20 * 3000,
                b_stride: 3000 * 24,
                c_stride: 480,
                d_stride: 20 * 28,
            });
        let plan = Plan::with_kernel(&context, desc, PlanLimits::default(), kernel(id)).unwrap();
        let a = Bytes::of(&context, &vec![1f32; products * 20 * 3000]);
        let b = Bytes::of(&context, &vec![1f32; products * 3000 * 24]);
        let c = Bytes::of(&context, &vec![1f32; products * 480]);
        let d = Bytes::of(&context, &vec![0f32; products * 20 * 28]);
        let (_memory, workspace) = Bytes::workspace(&context, &plan);
        let before = cuda_emulated::calls();
        // SAFETY: the memory is that of the descriptor's matrices, and outlives the wait below.
        unsafe {
            plan.run(stream.as_raw(), a.at(), b.at(), c.at(), d.at(), workspace).unwrap();
        }
        let called = called_since(&before);
        let other: Vec<_> = called.keys().filter(|name| !launches.contains(*name)).collect();
        assert!(other.is_empty(), "{id}: {called:?}");
        assert_eq!((called["cuCtxPushCurrent"], called["cuCtxPopCurrent"]), (1, 1));
        let each = if id == "split_k_32x64" { 2 } else { 1 };
        assert_eq!(called["cuLaunchKernel"], each * products, "{id}");
        assert_eq!(called["cuMemcpy2DAsync"], products, "{id}");
        stream.synchronize().unwrap();
        assert_eq!(d.read::<f32>(24), vec![3001.0; 24], "{id}");
    }
    no_faults();
}

/// Work in one stream is in order, work in two is not, until an event makes it so.
#[test]
fn streams_order_products_as_they_order_everything_else() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let (producer, consumer) = (Stream::new(&context).unwrap(), Stream::new(&context).unwrap());
    let desc = GemmDesc::new(Types::F64, 16, 16, 16);
    let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
    let first = numbers::<f64, f64>(256, 1, f64::from);
    let mut unit = vec![0f64; 256];
    (0..16).for_each(|at| unit[17 * at] = 1.0);
    let (a, unit) = (Bytes::of(&context, &first), Bytes::of(&context, &unit));
    let [b, c] = [0, 1].map(|_| Bytes::of(&context, &vec![-1f64; 256]));
    let run = |stream: &Stream, from: &Bytes, to: &Bytes| {
        // SAFETY: the memory is that of the descriptor's matrices, and outlives the waits below.
        unsafe {
            plan.run(stream.as_raw(), from.at(), unit.at(), 0, to.at(), Workspace::NONE).unwrap();
        }
    };
    if emulated() {
        // The producer is as late as it may be: who does not wait for it sees what was there before.
        run(&producer, &a, &b);
        run(&consumer, &b, &c);
        consumer.synchronize().unwrap();
        assert_eq!(c.read::<f64>(256), vec![-1.0; 256]);
        producer.synchronize().unwrap();
        assert_eq!(b.read::<f64>(256), first);
    }
    run(&producer, &a, &b);
    let event = Event::new(context.driver_context(), Timing::Off).unwrap();
    // What `cudaStreamWaitEvent` does in a program of the runtime's.
    let raw = |stream: &Stream| stream.as_raw();
    cuda_order(&event, raw(&producer), raw(&consumer), &context);
    run(&consumer, &b, &c);
    consumer.synchronize().unwrap();
    assert_eq!(c.read::<f64>(256), first);
    no_faults();
}

/// Lets a stream wait for what another was given.
fn cuda_order(event: &Event, earlier: *mut c_void, later: *mut c_void, context: &Context) {
    let _current = context.driver_context().enter().unwrap();
    // SAFETY: both are streams of the context that was entered.
    unsafe { event.record_raw(earlier).unwrap() };
    // SAFETY: as above.
    unsafe { event.order_raw(later).unwrap() };
}

/// The default streams, by the values that the driver gives them.
#[test]
fn default_streams_are_streams_like_any_other() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let desc = GemmDesc::new(Types::F32, 30, 20, 10);
    let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
    for handle in [0usize, 1, 2] {
        // SAFETY: these are streams of every context.
        let stream = unsafe { Stream::from_raw(&context, ptr::without_provenance_mut(handle)) };
        compare::<f32>(&context, &plan, &stream);
        // A thread of its own has a default stream of its own.
        std::thread::scope(|scope| {
            scope.spawn(|| compare::<f32>(&context, &plan, &stream)).join().unwrap();
        });
    }
    if emulated() {
        // What one thread has put into its stream another does not wait for in its own.
        // SAFETY: as above.
        let stream = unsafe { Stream::from_raw(&context, ptr::without_provenance_mut(2)) };
        let (a, b) = (Bytes::of(&context, &[1f32; 300]), Bytes::of(&context, &[1f32; 200]));
        let d = Bytes::of(&context, &[-1f32; 600]);
        // SAFETY: the memory is that of the descriptor's matrices, and outlives the wait below.
        unsafe {
            plan.run(stream.as_raw(), a.at(), b.at(), 0, d.at(), Workspace::NONE).unwrap();
        }
        std::thread::scope(|scope| scope.spawn(|| stream.synchronize().unwrap()).join().unwrap());
        assert_eq!(d.read::<f32>(600), vec![-1.0; 600]);
        stream.synchronize().unwrap();
        assert_eq!(d.read::<f32>(600), vec![10.0; 600]);
    }
    no_faults();
}

/// Whatever a thread has current stays so, and a plan runs in its own context all the same.
#[test]
fn the_callers_context_is_left_as_it_was() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let driver = context.driver_context().driver();
    let device = context.driver_context().device();
    let current = || driver.current_context().unwrap();
    assert!(current().is_null(), "nothing is current for this thread");
    let stream = Stream::new(&context).unwrap();
    let desc = GemmDesc::new(Types::F32, 9, 8, 7);
    let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
    compare::<f32>(&context, &plan, &stream);
    assert!(current().is_null());
    // A context of somebody else's on the same device, pushed above.
    let other = cuda_lazy::Context::create(driver, device).unwrap();
    {
        let _entered = other.enter().unwrap();
        assert_eq!(current(), other.as_raw());
        compare::<f32>(&context, &plan, &stream);
        assert_eq!(current(), other.as_raw());
        // It is no primary one, so that safe code cannot take it up.
        assert!(matches!(Context::current(), Err(Error::Cuda { code: None, .. })));
    }
    // Taken up by its handle, it has modules, memory and streams of its own.
    {
        // SAFETY: `other` outlives the block.
        let foreign = unsafe { Context::from_raw(other.as_raw()).unwrap() };
        assert!(!foreign.is(&context));
        // As the current one it is the same; where none is current there is none to take up.
        {
            let _entered = other.enter().unwrap();
            // SAFETY: as above.
            assert!(unsafe { Context::from_current().unwrap() }.is(&foreign));
        }
        // SAFETY: no context is current.
        let none = unsafe { Context::from_current() };
        assert!(matches!(none, Err(Error::NoDevice { .. })), "{none:?}");
        let plan_there = Plan::new(&foreign, desc, PlanLimits::default()).unwrap();
        let stream_there = Stream::new(&foreign).unwrap();
        compare::<f32>(&foreign, &plan_there, &stream_there);
        // A stream of another context is the driver's to refuse, and the error names the plan.
        let memory = Bytes::of(&context, &[0f32; 72]);
        let at = memory.at();
        if emulated() {
            // SAFETY: the driver refuses the stream before anything is launched.
            let refused =
                unsafe { plan.run(stream_there.as_raw(), at, at, 0, at, Workspace::NONE) };
            let Err(Error::Cuda { during, reason, code: Some(400) }) = refused else {
                panic!("{refused:?}");
            };
            assert!(during.contains("f32 9 x 8 x 7 by"), "{during}");
            assert!(reason.contains("cuLaunchKernel"), "{reason}");
        }
    }
    assert!(current().is_null());
    drop(other);
    // The primary context by its handle, and as the current one, is the same.
    // SAFETY: `context` retains it.
    let same = unsafe { Context::from_raw(context.as_raw()).unwrap() };
    assert!(same.is(&context));
    let _entered = context.driver_context().enter().unwrap();
    assert!(Context::current().unwrap().is(&context));
    no_faults();
}

/// Handles of one context share what was loaded; a later context with an old handle does not.
#[test]
fn a_context_loads_a_kernel_once() {
    let _alone = alone();
    if !emulated() {
        return;
    }
    let desc = GemmDesc::new(Types::F32, 9, 8, 7);
    let loads = || cuda_emulated::count("cuModuleLoadDataEx");
    let before = loads();
    let make = |context: &Context| Plan::new(context, desc, PlanLimits::default()).unwrap();
    let first = make(&Context::primary(1).unwrap());
    let loaded = loads() - before;
    assert!(loaded > 0);
    let second = make(&Context::primary(1).unwrap());
    assert_eq!(loads() - before, loaded);
    drop((first, second));
    // The context is gone with its last user, and with it the modules; its handle comes again.
    let _third = make(&Context::primary(1).unwrap());
    assert_eq!(loads() - before, 2 * loaded);
    no_faults();
}

/// Nothing of a plan's making disturbs a capture, its run is captured, and a graph of it has equal bits each
/// time, whatever else is launched in between.
#[test]
fn plans_are_made_and_run_while_a_stream_is_captured() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let (captured, other) = (Stream::new(&context).unwrap(), Stream::new(&context).unwrap());
    let desc = GemmDesc::new(Types::F32, 33, 34, 700).with_scalars(1.0, 1.0);
    let chain = kernel("vector_loads");
    let split = kernel("split_k_32x64");
    let (a, b) = (
        Bytes::of(&context, &numbers::<f32, f32>(33 * 700, 1, |value| value as f32 / 3.0)),
        Bytes::of(&context, &numbers::<f32, f32>(700 * 34, 2, |value| value as f32 / 7.0)),
    );
    let c = Bytes::of(&context, &numbers::<f32, f32>(33 * 34, 3, |value| value as f32));
    let [d, eager] = [0, 1].map(|_| Bytes::of(&context, &vec![0f32; 33 * 34]));
    for kernel in [chain, split] {
        let mut plan = None;
        let room = Bytes::unwritten(&context, 1 << 20);
        let workspace = Workspace { address: room.at(), bytes: 1 << 20 };
        let captured_work = || {
            // The kernel of the second plan is not loaded yet.
            let made = Plan::with_kernel(&context, desc, PlanLimits::default(), kernel)?;
            // SAFETY: the memory is that of the descriptor's matrices, and outlives the graph's launches.
            unsafe { made.run(captured.as_raw(), a.at(), b.at(), c.at(), d.at(), workspace)? };
            plan = Some(made);
            Ok::<(), Captured>(())
        };
        let (own, mode) = (context.driver_context(), CaptureMode::Global);
        // SAFETY: a stream of the context, and the memory outlives the graph's launches.
        let graph = unsafe { Graph::capture(own, captured.as_raw(), mode, captured_work) }.unwrap();
        let plan = plan.unwrap();
        // Captured, and not run yet.
        captured.synchronize().unwrap();
        let (_memory, own) = Bytes::workspace(&context, &plan);
        let run_eagerly = || {
            // SAFETY: the memory is that of the descriptor's matrices, and outlives the waits below.
            unsafe {
                plan.run(other.as_raw(), a.at(), b.at(), c.at(), eager.at(), own).unwrap();
            }
        };
        run_eagerly();
        other.synchronize().unwrap();
        let right = eager.read::<f32>(33 * 34);
        for _ in 0..if emulated() { 3 } else { 1000 } {
            // SAFETY: as above.
            unsafe { graph.launch(captured.as_raw()).unwrap() };
            run_eagerly();
        }
        captured.synchronize().unwrap();
        other.synchronize().unwrap();
        assert_eq!(d.read::<f32>(33 * 34), right);
        assert_eq!(eager.read::<f32>(33 * 34), right);
    }
    no_faults();
}

/// What happens in a capture.
#[derive(Debug)]
enum Captured {
    Driver(cuda_lazy::DriverError),
    Tessera(Error),
}

impl From<cuda_lazy::DriverError> for Captured {
    fn from(error: cuda_lazy::DriverError) -> Self {
        Self::Driver(error)
    }
}

impl From<Error> for Captured {
    fn from(error: Error) -> Self {
        Self::Tessera(error)
    }
}

/// The guard of the test above: a call that may not be made during a capture voids it.
#[test]
fn what_a_plan_must_not_do_while_a_stream_is_captured_voids_the_capture() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    // SAFETY: a stream of the context; nothing is launched.
    let refused = unsafe {
        Graph::capture(context.driver_context(), stream.as_raw(), CaptureMode::Global, || {
            let _ = DeviceMemory::new(context.driver_context(), 64);
            Ok::<(), Captured>(())
        })
    };
    let Err(Captured::Driver(error)) = refused else { panic!("the capture is whole") };
    assert_eq!((error.call, error.code), ("cuStreamEndCapture", 901));
    // A stream lends no workspace to a graph.
    let desc = GemmDesc::new(Types::F32, 33, 34, 3000);
    let limits = PlanLimits::default();
    let plan = Plan::with_kernel(&context, desc, limits, kernel("split_k_32x64")).unwrap();
    assert!(plan.workspace_bytes() > 0);
    let memory = Bytes::of(&context, &vec![0f32; 3000 * 34]);
    let at = memory.at();
    let run = || {
        // SAFETY: nothing is launched.
        unsafe { stream.run(&plan, Operands { a: at, b: at, c: 0, d: at }) }.map_err(Captured::from)
    };
    let (own, mode) = (context.driver_context(), CaptureMode::Global);
    // SAFETY: nothing is launched.
    let refused = unsafe { Graph::capture(own, stream.as_raw(), mode, run) };
    assert!(matches!(refused, Err(Captured::Tessera(Error::Capturing { .. }))), "{refused:?}");
    no_faults();
}

/// What is wrong is said before anything is launched.
#[test]
fn wrong_operands_are_errors_and_nothing_is_launched() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let desc = GemmDesc::new(Types::F32, 16, 16, 4000);
    let limits = PlanLimits::default();
    let plan = Plan::with_kernel(&context, desc, limits, kernel("split_k_32x64")).unwrap();
    let (a, b) =
        (Bytes::of(&context, &vec![0f32; 16 * 4000]), Bytes::of(&context, &vec![0f32; 16 * 4000]));
    let d = Bytes::of(&context, &vec![7f32; 256]);
    let (_memory, workspace) = Bytes::workspace(&context, &plan);
    let right = Operands { a: a.at(), b: b.at(), c: 0, d: d.at() };
    plan.check(right, workspace).unwrap();
    let launches = cuda_emulated::count("cuLaunchKernel");
    let fault = |operands: Operands, workspace: Workspace| {
        let Operands { a, b, c, d } = operands;
        // SAFETY: what is wrong is found before anything is launched.
        match unsafe { plan.run(stream.as_raw(), a, b, c, d, workspace) } {
            Err(Error::DeviceOperand { operand, fault, .. }) => (operand, fault),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(fault(Operands { a: 0, ..right }, workspace), ("A", OperandFault::Null));
    assert_eq!(fault(Operands { d: 0, ..right }, workspace), ("D", OperandFault::Null));
    let address = b.at() + 4;
    let misaligned = OperandFault::Misaligned { address, alignment: 16 };
    assert_eq!(fault(Operands { b: address, ..right }, workspace), ("B", misaligned));
    let needed = plan.workspace_bytes();
    let short = Workspace { bytes: needed - 1, ..workspace };
    let too_short = OperandFault::TooShort { bytes: needed - 1, needed };
    assert_eq!(fault(right, short), ("the workspace", too_short));
    let null = Workspace { address: 0, ..workspace };
    assert_eq!(fault(right, null), ("the workspace", OperandFault::Null));
    let address = workspace.address + 16;
    let shifted = Workspace { address, ..workspace };
    let misaligned = OperandFault::Misaligned { address, alignment: 256 };
    assert_eq!(fault(right, shifted), ("the workspace", misaligned));
    assert_eq!(cuda_emulated::count("cuLaunchKernel"), launches);
    // What only the driver knows.
    let checked = |operands: Operands| match plan.check(operands, workspace) {
        Err(Error::DeviceOperand { operand, fault, plan }) => {
            assert!(plan.contains("f32 16 x 16 x 4000 by split_k_32x64 on cuda:0"), "{plan}");
            (operand, fault)
        }
        other => panic!("{other:?}"),
    };
    let host = vec![0f32; 16 * 4001];
    let address = (host.as_ptr().addr() as u64).next_multiple_of(16);
    let nowhere = OperandFault::NotOnDevice { address };
    assert_eq!(checked(Operands { a: address, ..right }), ("A", nowhere));
    let (operand, fault) = checked(Operands { b: d.at(), ..right });
    let needed = 4 * 16 * 4000;
    assert_eq!(operand, "B");
    assert!(
        matches!(fault, OperandFault::TooShort { bytes, needed: n } if bytes < needed && n == needed),
        "{fault}"
    );
    if emulated() {
        let elsewhere = Context::primary(1).unwrap();
        let there = Bytes::of(&elsewhere, &vec![0f32; 16 * 4000]);
        let found = checked(Operands { a: there.at(), ..right });
        assert_eq!(found, ("A", OperandFault::OtherDevice { device: 1, wanted: 0 }));
    }
    assert_eq!(d.read::<f32>(256), vec![7.0; 256]);
    no_faults();
}

/// Descriptors that do not fit, and what no kernel computes.
#[test]
fn what_cannot_be_planned_is_an_error() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let refused = |desc: GemmDesc, limits| Plan::new(&context, desc, limits).unwrap_err();
    let limits = PlanLimits::default();
    let desc = GemmDesc::new(Types::F32, 8, 8, 8);
    let short = refused(desc.with_d(Layout::row_major(7)), limits).to_string();
    assert_eq!(short, "f32 8 x 8 x 8: leading dimension of D is 7, it must be at least 8");
    let odd = refused(desc, PlanLimits { alignment: 3, ..limits });
    assert!(matches!(odd, Error::Descriptor { .. }), "{odd}");
    let unknown = refused(GemmDesc::new(Types::I8, 8, 8, 8), limits);
    assert!(matches!(unknown, Error::NoKernel { types: Types::I8, .. }), "{unknown}");
    let hopper = kernel("tensor_128x256");
    let other = Plan::with_kernel(&context, desc, limits, hopper).unwrap_err();
    assert!(matches!(other, Error::Unsupported { .. }), "{other}");
    let strict = desc.with_accuracy(Accuracy::Componentwise);
    let loose = Plan::with_kernel(&context, strict, limits, kernel("f16x3")).unwrap_err();
    assert!(matches!(loose, Error::Accuracy { .. }), "{loose}");
    let narrow = PlanLimits { workspace: 10, ..limits };
    let long = GemmDesc::new(Types::F32, 20, 24, 3000);
    let needy = Plan::with_kernel(&context, long, narrow, kernel("split_k_32x64")).unwrap_err();
    assert!(matches!(needy, Error::DeviceOperand { operand: "the workspace", .. }), "{needy}");
    // Left to itself a plan picks what does with less.
    let own = Plan::new(&context, long, narrow).unwrap();
    assert_eq!(own.workspace_bytes(), 0);
    no_faults();
}

/// A plan is a function of descriptor, device and limits: what is free makes no difference.
#[test]
fn plans_do_not_depend_on_free_memory() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let desc = GemmDesc::new(Types::F32, 1500, 1500, 1500);
    let explain = || Plan::new(&context, desc, PlanLimits::default()).unwrap().explain();
    let before = explain();
    let taken = emulated().then(|| Bytes::unwritten(&context, 60 << 20));
    assert_eq!(explain(), before);
    drop(taken);
    assert!(before.contains("kernel: ") && before.contains("workspace: "), "{before}");
}

/// Strided batches, shared operands, and those that are one taller product.
#[test]
fn batches_are_computed_by_strides() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let (m, n, k) = (13, 17, 19);
    for types in types_of(&context) {
        let plain = GemmDesc::new(types, m, n, k).with_scalars(1.0, 1.0);
        for (a_stride, b_stride, c_stride, d_stride, products) in [
            (m * k, k * n, m * n, m * n, 3),
            (m * k + 5, 0, 0, m * n + 3, 3),
            (0, k * n, m * n, m * n, 3),
            // One product of three times the rows.
            (m * k, 0, m * n, m * n, 1),
        ] {
            let count = 3;
            let batch = GemmBatch::Strided { count, a_stride, b_stride, c_stride, d_stride };
            let desc = plain.with_batch(batch);
            let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
            with_gemm_types!(types, T => compare::<T>(&context, &plan, &stream));
            let one = plan.explain().contains("3 products as one of 39 rows");
            assert_eq!(one, products == 1, "{}", plan.explain());
        }
    }
    // A small batch has a kernel that computes all of it at once.
    let batch = GemmBatch::Strided {
        count: 50,
        a_stride: m * k,
        b_stride: k * n,
        c_stride: m * n,
        d_stride: m * n + 1,
    };
    for types in [Types::F32, Types::F64, Types::BF16, Types::F16F32] {
        let desc = GemmDesc::new(types, m, n, k).with_scalars(2.0, 1.0).with_batch(batch);
        let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
        let is_chain = types.a().size() > 2;
        let expected = if is_chain { "batched_small" } else { "batched_mma" };
        assert_eq!(plan.kernel().spec().id, expected);
        assert!(plan.explain().contains("50 products in one launch"), "{}", plan.explain());
        assert_eq!(plan.promises().is_chain, is_chain);
        with_gemm_types!(types, T => compare::<T>(&context, &plan, &stream));
    }
    // Maps of rank 3: matrices with gaps between them, and matrices whose rows interleave.
    for id in ["tensor_64x64", "tensor_batch_128x128"] {
        let kernel = kernel(id);
        if !kernel.arch.runs_on(context.info().compute_capability) {
            continue;
        }
        let (m, n, k, count) = (70, 72, 136, 3);
        let gap = GemmBatch::Strided {
            count,
            a_stride: m * k + 8,
            b_stride: k * n + 24,
            c_stride: m * n,
            d_stride: m * n + 8,
        };
        let interleaved = GemmBatch::Strided {
            count,
            a_stride: k,
            b_stride: n,
            c_stride: m * n,
            d_stride: m * n,
        };
        let plain = GemmDesc::new(Types::BF16, m, n, k);
        let (rows, lines) = (Layout::row_major(count * k), Layout::row_major(count * n));
        let descs = [
            plain.with_batch(gap),
            plain.with_scalars(2.0, 1.0).with_batch(gap),
            plain.with_batch(interleaved).with_layouts(rows, lines, Layout::row_major(n)),
        ];
        for desc in descs {
            let limits = PlanLimits::default();
            let plan = Plan::with_kernel(&context, desc, limits, kernel).unwrap();
            assert!(plan.explain().contains("3 products in one launch"), "{}", plan.explain());
            assert_eq!(plan.workspace_bytes(), 0, "nothing is copied");
            compare::<tessera::bf16>(&context, &plan, &stream);
        }
    }
    // The library's own description of the same.
    let batch = Batch { count: 4, a_stride: 0, b_stride: 323, c_stride: 300 };
    let problem = Problem::<f64>::new(13, 17, 19).with_batch(batch).with_scalars(2.0, 0.0);
    let plan = Plan::new(&context, GemmDesc::of(&problem), PlanLimits::default()).unwrap();
    compare::<f64>(&context, &plan, &stream);
    no_faults();
}

/// Products with addresses of their own.
#[test]
fn batches_are_computed_by_pointers() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let (m, n, k) = (10, 12, 14);
    let desc = GemmDesc::new(Types::I32, m, n, k)
        .with_scalars(1.0, 2.0)
        .with_batch(GemmBatch::Pointers { count: 3 });
    let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
    let memory = |seed, len| Bytes::of(&context, &numbers::<i32, i32>(len, seed, |value| value));
    let a = [1, 2, 3].map(|seed| memory(seed, m * k));
    let b = memory(4, k * n);
    let c = memory(5, m * n);
    let d = [6, 7, 8].map(|seed| memory(seed, m * n));
    // All with one B, two with one C, and one in place.
    let operands = [
        Operands { a: a[0].at(), b: b.at(), c: c.at(), d: d[0].at() },
        Operands { a: a[1].at(), b: b.at(), c: c.at(), d: d[1].at() },
        Operands { a: a[2].at(), b: b.at(), c: d[2].at(), d: d[2].at() },
    ];
    // SAFETY: the memory is that of the descriptor's matrices, and outlives the wait below.
    unsafe { plan.run_array(stream.as_raw(), &operands, Workspace::NONE).unwrap() };
    stream.synchronize().unwrap();
    let one = GemmDesc { batch: GemmBatch::ONE, ..desc };
    let b = numbers::<i32, i32>(k * n, 4, |value| value);
    for (at, (seed, old)) in [(1, 5), (2, 5), (3, 8)].into_iter().enumerate() {
        let a = numbers::<i32, i32>(m * k, seed, |value| value);
        let c = numbers::<i32, i32>(m * n, old, |value| value);
        let right = expected::<i32>(&one, &a, &b, &c, &vec![0; m * n]);
        assert_eq!(d[at].read::<i32>(m * n), right, "{at}");
    }
    // SAFETY: nothing is launched.
    let few = unsafe { plan.run_array(stream.as_raw(), &operands[..2], Workspace::NONE) };
    let Err(Error::DeviceOperand { fault, .. }) = few else { panic!("{few:?}") };
    assert_eq!(fault, OperandFault::Count { given: 2, products: 3 });
    let Operands { a, b, c, d } = operands[0];
    // SAFETY: nothing is launched.
    let single = unsafe { plan.run(stream.as_raw(), a, b, c, d, Workspace::NONE) };
    assert!(matches!(single, Err(Error::DeviceOperand { .. })), "{single:?}");
    no_faults();
}

/// Products of sizes of their own, one of them with nothing to do.
#[test]
fn groups_are_computed_with_one_workspace() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let (n, k) = (24, 3000);
    let descs = [7, 0, 40].map(|m| {
        GemmDesc::new(Types::F32, m, n, k).with_layouts(
            Layout::col_major(m.max(1)),
            Layout::row_major(n),
            Layout::row_major(n),
        )
    });
    let group = GroupedPlan::new(&context, &descs, PlanLimits::default()).unwrap();
    let each = group.plans().iter().map(Plan::workspace_bytes);
    assert_eq!(Some(group.workspace_bytes()), each.max());
    let b = numbers::<f32, f32>(k * n, 2, |value| value as f32);
    let on_b = Bytes::of(&context, &b);
    let factors = descs.map(|desc| numbers::<f32, f32>(desc.m * k, 1, |value| value as f32));
    let on_a = [0, 1, 2].map(|at: usize| Bytes::of(&context, &factors[at]));
    let on_d = descs.map(|desc| Bytes::of(&context, &vec![0f32; desc.m * n]));
    let room = Bytes::unwritten(&context, usize::try_from(group.workspace_bytes()).unwrap());
    let workspace = Workspace { address: room.at(), bytes: group.workspace_bytes() };
    let operands = [0, 1, 2].map(|at: usize| Operands {
        a: on_a[at].at(),
        b: on_b.at(),
        c: 0,
        d: on_d[at].at(),
    });
    // SAFETY: the memory is that of the descriptors' matrices, and outlives the wait below.
    unsafe { group.run(stream.as_raw(), &operands, workspace).unwrap() };
    stream.synchronize().unwrap();
    for at in [0, 2] {
        let right = expected::<f32>(&descs[at], &factors[at], &b, &[], &vec![0.0; descs[at].m * n]);
        assert_eq!(on_d[at].read::<f32>(right.len()), right, "{at}");
    }
    // SAFETY: nothing is launched.
    let few = unsafe { group.run(stream.as_raw(), &operands[1..], workspace) };
    assert!(matches!(few, Err(Error::DeviceOperand { operand: "addresses", .. })), "{few:?}");
    no_faults();
}

/// Addresses that are multiples of an element alone, where a plan was made for such.
#[test]
fn misaligned_operands_have_plans_of_their_own() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let (m, n, k) = (24, 40, 32);
    fn shifted<T: GemmTypes>(context: &Context, stream: &Stream, plan: &Plan) {
        let (m, n, k) = (plan.desc().m, plan.desc().n, plan.desc().k);
        let a = numbers::<T::A, T::Acc>(m * k + 1, 1, whole);
        let b = numbers::<T::B, T::Acc>(k * n + 1, 2, whole);
        let d = numbers::<T::C, T::Acc>(m * n + 1, 3, whole);
        let right = expected::<T>(plan.desc(), &a[1..], &b[1..], &[], &d[1..]);
        let (on_a, on_b) = (Bytes::of(context, &a), Bytes::of(context, &b));
        let on_d = Bytes::of(context, &d);
        let (_memory, workspace) = Bytes::workspace(context, plan);
        let one = |bytes: &Bytes, size: usize| bytes.at() + size as u64;
        let (at_a, at_b) = (one(&on_a, size_of::<T::A>()), one(&on_b, size_of::<T::B>()));
        let at_d = one(&on_d, size_of::<T::C>());
        // SAFETY: the memory is that of the descriptor's matrices, and outlives the wait below.
        unsafe { plan.run(stream.as_raw(), at_a, at_b, 0, at_d, workspace).unwrap() };
        stream.synchronize().unwrap();
        let found = on_d.read::<T::C>(m * n + 1);
        assert!(found[0] == d[0] && found[1..] == right, "{}", plan.explain());
    }
    for types in types_of(&context) {
        let alignment = types.c().size().min(types.a().size()) as u64;
        let limits = PlanLimits { alignment, ..PlanLimits::default() };
        let plan = Plan::new(&context, GemmDesc::new(types, m, n, k), limits).unwrap();
        // TMA loads operands of 16 bits, and takes copies of them.
        assert_eq!(plan.workspace_bytes() > 0, types.a().size() == 2, "{types}");
        with_gemm_types!(types, T => shifted::<T>(&context, &stream, &plan));
    }
    no_faults();
}

/// One plan, many threads, a stream each.
#[test]
fn many_threads_share_a_plan() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let desc = GemmDesc::new(Types::F32, 40, 30, 20).with_scalars(1.0, 1.0);
    let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let stream = Stream::new(&context).unwrap();
                (0..4).for_each(|_| compare::<f32>(&context, &plan, &stream));
            });
        }
    });
    no_faults();
}

/// Matrices that own their memory: products of parts and transposed views, chained without a wait.
#[test]
fn device_matrices_are_multiplied_in_their_stream() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let host = Matrix::from_fn(7, 5, |row, col| (row * 5 + col) as f64).unwrap();
    let a = DeviceMatrix::from_host(&stream, host.view()).unwrap();
    assert_eq!(a.to_host(&stream).unwrap(), host);
    assert_eq!((a.rows(), a.cols(), a.layout().order), (7, 5, Order::RowMajor));
    let columns =
        Matrix::from_vec((0..35).map(f64::from).collect(), 7, 5, Order::ColMajor).unwrap();
    let b = DeviceMatrix::from_host(&stream, columns.view()).unwrap();
    assert_eq!(b.to_host(&stream).unwrap(), columns);
    // A part, in place, of both orders.
    for (matrix, host) in [(&a, &host), (&b, &columns)] {
        let part = matrix.view().part(2..6, 1..4).unwrap().to_host(&stream).unwrap();
        let right = |row, col| host.get(row + 2, col + 1);
        assert!((0..4).all(|row| (0..3).all(|col| part.get(row, col) == right(row, col))));
    }
    assert!(matches!(a.view().part(2..8, 0..1), Err(Error::Part { .. })));
    assert!(a.view().part(7..7, 5..5).unwrap().to_host(&stream).is_ok());
    // C = A[1..4, ..] * A[0..5, ..], then D += C * C, with one wait at the end.
    let mut c = DeviceMatrix::<f64>::zeros(&stream, 3, 5).unwrap();
    let mut d = DeviceMatrix::<f64>::zeros(&stream, 6, 8).unwrap();
    let (waits, allocations) =
        (cuda_emulated::count("cuStreamSynchronize"), cuda_emulated::count("cuMemAlloc"));
    let (top, square) = (a.view().part(1..4, 0..5).unwrap(), a.view().part(0..5, 0..5).unwrap());
    stream.gemm(1.0, top, square, 0.0, &mut c.view_mut()).unwrap();
    let corner = c.view().part(0..3, 0..3).unwrap();
    let mut inner = d.view_mut().part(1..4, 2..5).unwrap();
    stream.gemm(1.0, corner, corner, 1.0, &mut inner).unwrap();
    stream.gemm(1.0, corner, corner, 1.0, &mut inner).unwrap();
    assert_eq!(waits, cuda_emulated::count("cuStreamSynchronize"));
    assert_eq!(allocations, cuda_emulated::count("cuMemAlloc"));
    let sum = |row: usize, col: usize| -> f64 {
        (0..5).map(|k| ((row + 1) * 5 + k) as f64 * (k * 5 + col) as f64).sum()
    };
    let found = d.to_host(&stream).unwrap();
    for row in 0..6 {
        for col in 0..8 {
            let inside = (1..4).contains(&row) && (2..5).contains(&col);
            let right = if inside {
                2.0 * (0..3).map(|k| sum(row - 1, k) * sum(k, col - 2)).sum::<f64>()
            } else {
                0.0
            };
            assert_eq!(found.get(row, col), Some(right), "{row} {col}");
        }
    }
    // Written through a transposed view: D^T is column-major where D is row-major.
    let mut e = DeviceMatrix::<f64>::zeros(&stream, 5, 3).unwrap();
    stream.gemm(1.0, top, square, 0.0, &mut e.view_mut().transposed()).unwrap();
    let found = e.to_host(&stream).unwrap();
    assert!((0..5).all(|col| (0..3).all(|row| found.get(col, row) == Some(sum(row, col)))));
    // Foreign memory.
    let memory = Bytes::of(&context, &[1f64, 2.0, 3.0, 4.0]);
    let layout = Layout::row_major(2);
    // SAFETY: four elements, which outlive the wait below.
    let view: DeviceMatRef<'_, f64> =
        unsafe { DeviceMatRef::from_raw(&context, memory.at(), 2, 2, layout).unwrap() };
    let mut product = DeviceMatrix::<f64>::zeros(&stream, 2, 2).unwrap();
    stream.gemm(1.0, view, view, 0.0, &mut product.view_mut()).unwrap();
    assert_eq!(product.to_host(&stream).unwrap().as_slice(), [7.0, 10.0, 15.0, 22.0]);
    // SAFETY: nothing is queued.
    let narrow = unsafe { DeviceMatMut::<f64>::from_raw(&context, 0, 2, 2, Layout::row_major(1)) };
    assert!(matches!(narrow, Err(Error::Shape(_))));
    no_faults();
}

/// What does not fit together is refused.
#[test]
fn device_matrices_that_do_not_fit_are_refused() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let a = DeviceMatrix::<f32>::zeros(&stream, 3, 4).unwrap();
    let mut c = DeviceMatrix::<f32>::zeros(&stream, 3, 3).unwrap();
    let refused = stream.gemm(1.0, a.view(), a.view(), 0.0, &mut c.view_mut());
    assert!(matches!(refused, Err(Error::InnerDim { .. })));
    let wide = a.view().transposed();
    let refused = stream.gemm(1.0, wide, a.view(), 0.0, &mut c.view_mut());
    assert!(matches!(refused, Err(Error::OuterDim { .. })));
    let host = Matrix::<f32>::from_vec(vec![0.0; 9], 3, 3, Order::ColMajor).unwrap();
    let refused = c.view_mut().copy_from_host(&stream, host.view());
    assert!(matches!(refused, Err(Error::CopyOrder)));
    c.view_mut().transposed().copy_from_host(&stream, host.view()).unwrap();
    if emulated() {
        let elsewhere = Stream::new(&Context::primary(1).unwrap()).unwrap();
        let refused = elsewhere.gemm(1.0, a.view(), a.view(), 0.0, &mut c.view_mut());
        assert!(matches!(refused, Err(Error::InnerDim { .. })));
        let square = DeviceMatrix::<f32>::zeros(&stream, 3, 3).unwrap();
        let refused = elsewhere.gemm(1.0, square.view(), square.view(), 0.0, &mut c.view_mut());
        let Err(Error::DeviceOperand { operand, fault, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((operand, fault), ("A", OperandFault::OtherContext));
        assert!(a.to_host(&elsewhere).is_err());
    }
    no_faults();
}

/// The programs of docs/embed.md are those of the examples, and they run.
#[test]
fn the_programs_of_the_document_run() {
    let _alone = alone();
    let document = include_str!("../../../docs/embed.md");
    for program in
        [include_str!("../examples/device_matrix.rs"), include_str!("../examples/device_plan.rs")]
    {
        let (_, code) = program.split_once("\n\n").unwrap();
        // A test calls it from outside.
        let code = code.replace("pub(crate) fn main", "fn main");
        assert!(document.contains(code.trim()), "docs/embed.md does not show\n{code}");
    }
    device_matrix::main().unwrap();
    device_plan::main().unwrap();
    no_faults();
}

/// NaN where nothing is read, and where something is.
#[test]
fn what_is_not_read_cannot_spoil_the_result() {
    let _alone = alone();
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    let (m, n, k) = (5, 6, 7);
    let nan = |len: usize| Bytes::of(&context, &vec![f32::NAN; len]);
    let ones = |len: usize| Bytes::of(&context, &vec![1f32; len]);
    let run = |alpha, beta, [a, b, c, d]: [&Bytes; 4], d_apart: bool| {
        let desc = GemmDesc::new(Types::F32, m, n, k).with_scalars(alpha, beta);
        let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
        let c = if d_apart { c.at() } else { d.at() };
        // SAFETY: the memory is that of the descriptor's matrices, and outlives the wait below.
        unsafe {
            plan.run(stream.as_raw(), a.at(), b.at(), c, d.at(), Workspace::NONE).unwrap();
        }
        stream.synchronize().unwrap();
        d.read::<f32>(m * n)
    };
    // C, and what D was before.
    let found = run(1.0, 0.0, [&ones(m * k), &ones(k * n), &nan(m * n), &nan(m * n)], true);
    assert_eq!(found, [7.0; 30]);
    // A and B.
    let found = run(0.0, 2.0, [&nan(m * k), &nan(k * n), &ones(m * n), &nan(m * n)], true);
    assert_eq!(found, [2.0; 30]);
    let found = run(0.0, 3.0, [&nan(m * k), &nan(k * n), &nan(m * n), &ones(m * n)], false);
    assert_eq!(found, [3.0; 30]);
    // A NaN in row 2 of A is in row 2 of D, whatever the other factor is.
    let mut one = vec![1f32; m * k];
    one[2 * k + 3] = f32::NAN;
    let zeros = Bytes::of(&context, &vec![0f32; k * n]);
    let found = run(1.0, 0.0, [&Bytes::of(&context, &one), &zeros, &nan(m * n), &nan(m * n)], true);
    for (at, value) in found.iter().enumerate() {
        assert_eq!(value.is_nan(), at / n == 2, "{at}: {value}");
        assert!(value.is_nan() || *value == 0.0);
    }
    no_faults();
}

/// A GPU of the host's products lends its context to plans.
#[test]
fn a_gpu_lends_its_context_to_plans() {
    let _alone = alone();
    let gpu = Gpu::open(0).unwrap();
    let stream = Stream::new(gpu.context()).unwrap();
    let problem = Problem::<f32>::new(12, 13, 14);
    for &own in KERNELS {
        let limits = PlanLimits::default();
        let plan = Plan::with_kernel(gpu.context(), GemmDesc::of(&problem), limits, own);
        match plan {
            Ok(plan) => {
                assert_eq!((plan.kernel(), plan.promises().is_chain), (own, own.is_chain()));
                compare::<f32>(gpu.context(), &plan, &stream);
            }
            Err(Error::Unsupported { .. }) => {}
            Err(other) => panic!("{own:?}: {other}"),
        }
    }
    // C and D of f32 where the factors are of 16 bits are types like any other.
    assert_eq!(Types::F16F32.of(Operand::C), DType::F32);
    let mut data = [0f32; 4];
    let _ = MatMut::new(&mut data, 2, 2, Layout::row_major(2)).unwrap();
    no_faults();
}
