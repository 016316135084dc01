//! The engine and the GPU path on an emulated driver, which keeps work in streams back for as long as it
//! may: a missing event, or staging memory that is used too early, gives wrong numbers here. Where
//! `GEMM_REQUIRE_GPU=1` is set the same tests are of the first GPU.

use std::num::NonZeroUsize;

use gemm_spec::{Convert, Element as _, Operand, Order, epilogue};
use tessera::gpu::{Addresses, Gpu, HostMemory, KERNELS, Kernel, KernelCode, Pipeline};
use tessera::{
    Accuracy, Batch, CpuContext, Device, Element, Engine, Error, GemmTypes, Layout, MatMut, MatRef,
    Matrix, Placement, Problem,
};

mod driver;

use driver::{alone, emulated, kernel, no_faults};

/// Elements that tell where they are, in a buffer with padding.
fn drawn<T: GemmTypes, E: Element>(
    problem: &Problem<T>,
    operand: Operand,
    of: impl Fn(i32) -> E,
) -> Vec<E> {
    let (rows, cols) = problem.dims(operand);
    let layout = problem.layout(operand);
    let mut data = vec![of(7); layout.required_len(rows, cols).expect("a small matrix")];
    for row in 0..rows {
        for col in 0..cols {
            let value = (row * 31 + col * 17 + operand as usize * 5) % 23;
            data[layout.index(row, col)] = of(i32::try_from(value).expect("below 23") - 11);
        }
    }
    data
}

/// One chain of multiply-adds over k for each element, which the chain kernels agree with bit for bit.
fn expected<T: GemmTypes>(problem: &Problem<T>, a: &[T::A], b: &[T::B], c: &[T::C]) -> Vec<T::C> {
    let mut c = c.to_vec();
    for row in 0..problem.m {
        for col in 0..problem.n {
            let product =
                |sum, p| T::mul_add(a[problem.a.index(row, p)], b[problem.b.index(p, col)], sum);
            let sum = (0..problem.effective_k()).fold(T::Acc::ZERO, product);
            let c = &mut c[problem.c.index(row, col)];
            *c = epilogue(problem.alpha, sum, problem.beta, || *c);
        }
    }
    c
}

/// Orders and paddings of A, B and C.
fn layouts<T: GemmTypes>(m: usize, n: usize, k: usize) -> Vec<Problem<T>> {
    let of = |order, rows: usize, cols: usize, padding: usize| match order {
        Order::RowMajor => Layout::row_major(cols + padding),
        Order::ColMajor => Layout::col_major(rows + padding),
    };
    let orders = [Order::RowMajor, Order::ColMajor];
    let mut problems = Vec::new();
    for a in orders {
        for b in orders {
            for (c, padding) in [(Order::RowMajor, 0), (Order::ColMajor, 3), (Order::RowMajor, 5)] {
                problems.push(Problem::new(m, n, k).with_layouts(
                    of(a, m, k, padding),
                    of(b, k, n, padding),
                    of(c, m, n, padding),
                ));
            }
        }
    }
    problems
}

/// Any storage order of any operand, C's padding staying as it was, by the engine on the GPU alone.
#[test]
fn an_engine_on_the_gpu_multiplies_whatever_the_layout() {
    let _alone = alone();
    let engine = Engine::builder().device(Device::Cuda(0)).build().unwrap();
    fn try_type<T: GemmTypes<A = T, B = T> + Element>(
        engine: &Engine,
        of: impl Fn(i32) -> T + Copy,
        two: T::Acc,
        one: T::Acc,
    ) where
        T::C: PartialEq,
    {
        for plain in layouts::<T>(37, 45, 29) {
            for problem in
                [plain, plain.with_scalars(two, one), plain.with_scalars(T::Acc::ZERO, two)]
            {
                let (a, b) = (drawn(&problem, Operand::A, of), drawn(&problem, Operand::B, of));
                let (rows, cols) = problem.dims(Operand::C);
                let len = problem.c.required_len(rows, cols).unwrap();
                let old = vec![T::C::narrow(T::C::ONE.widen()); len];
                let mut c = old.clone();
                engine.gemm_slices(&problem, &a, &b, &mut c).unwrap();
                assert!(c == expected(&problem, &a, &b, &old), "{problem:?}");
                assert!(matches!(engine.placement(&problem), Ok(Placement::Gpu(_))));
            }
        }
    }
    try_type::<f32>(&engine, |value| value as f32, 2.0, 1.0);
    try_type::<f64>(&engine, f64::from, 2.0, 1.0);
    try_type::<i32>(&engine, |value| value, 2, 1);
    no_faults();
}

/// What no kernel multiplies is an error that says so; an engine of its own choice takes the CPU.
#[test]
fn a_type_without_a_kernel_is_an_error_on_the_gpu_and_a_product_elsewhere() {
    let _alone = alone();
    let (a, b) = ([1i8, 2, 3, 4], [5i8, 6, 7, 8]);
    let problem = Problem::<i8>::new(2, 2, 2);
    let mut c = [0; 4];
    let on_gpu = Engine::builder().device(Device::Cuda(0)).build().unwrap();
    let refused = on_gpu.gemm_slices(&problem, &a, &b, &mut c).unwrap_err();
    assert!(matches!(refused, Error::NoKernel { .. }), "{refused:?}");
    let said = refused.to_string();
    let name = &on_gpu.gpu().unwrap().info().name;
    assert!(said.contains("i8") && said.contains(name), "{said}");
    assert_eq!(c, [0; 4]);
    Engine::auto().unwrap().gemm_slices(&problem, &a, &b, &mut c).unwrap();
    assert_eq!(c, [19, 22, 43, 50]);
}

/// Sixteen threads, one engine, on the GPU: every product is right, and the same each time.
#[test]
fn many_threads_share_one_engine_on_the_gpu() {
    let _alone = alone();
    let engine = Engine::builder().device(Device::Cuda(0)).build().unwrap();
    let products: Vec<_> = (0..4)
        .map(|seed| {
            let (m, n, k) = (20 + seed, 33, 17 + 3 * seed);
            let a =
                Matrix::from_fn(m, k, |row, col| ((row * 7 + col * 3 + seed) % 13) as f32).unwrap();
            let b = Matrix::from_fn(k, n, |row, col| ((row * 5 + col + seed) % 11) as f32).unwrap();
            let right = Engine::cpu(None).unwrap().multiply(&a, &b).unwrap();
            (a, b, right)
        })
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (engine, (a, b, right)) = (&engine, &products[thread % 4]);
            scope.spawn(move || {
                for _ in 0..3 {
                    assert_eq!(engine.multiply(a, b).unwrap(), *right);
                }
            });
        }
    });
    no_faults();
}

/// Bands of rows through small buffers, with C read and not: the bits of the whole product.
#[test]
fn products_in_bands_have_the_bits_of_the_whole() {
    let _alone = alone();
    let (gpu, cpu) = (Gpu::open(0).unwrap(), CpuContext::new(NonZeroUsize::new(2)).unwrap());
    let small = Pipeline {
        slot_bytes: 5000,
        slots: 2,
        least_bytes: 0,
        least_bands: 3,
        ..Pipeline::default()
    };
    let plain = Problem::<f32>::new(600, 21, 9).with_layouts(
        Layout::row_major(11),
        Layout::row_major(21),
        Layout::row_major(23),
    );
    for problem in [plain, plain.with_scalars(0.5, -2.0), plain.with_scalars(0.0, 3.0)] {
        let a = drawn(&problem, Operand::A, |value| value as f32 / 3.0);
        let b = drawn(&problem, Operand::B, |value| value as f32 / 7.0);
        let old = drawn(&problem, Operand::C, |value| value as f32);
        for id in ["async_copy_32x64", "vector_loads", "split_k_32x64"] {
            let mut c = old.clone();
            let times =
                gpu.host_path(&cpu).cut(small).timed(kernel(id), &problem, &a, &b, &mut c).unwrap();
            assert!(times.all >= times.kernel.min(times.all));
            if kernel(id).is_chain() {
                assert_eq!(c, expected(&problem, &a, &b, &old), "{id}");
            }
            let mut whole = old.clone();
            gpu.host_path(&cpu).multiply(kernel(id), &problem, &a, &b, &mut whole).unwrap();
            assert_eq!(c, whole, "{id}");
        }
    }
    no_faults();
}

/// Operands in pinned memory, all of them or some, in bands and not, with lines that are packed and lines that are not:
/// the bits are the same, and what lies between C's lines stays.
#[test]
fn operands_in_pinned_memory_give_the_same_bits() {
    let _alone = alone();
    let (gpu, cpu) = (Gpu::open(0).unwrap(), CpuContext::new(NonZeroUsize::new(2)).unwrap());
    let bands =
        Pipeline { slot_bytes: 5000, least_bytes: 0, least_bands: 3, ..Pipeline::default() };
    let pinned = |data: &[f32]| {
        let context = gpu.context().driver_context();
        let mut memory = cuda_lazy::PinnedMemory::new(context, 4 * data.len()).unwrap();
        for (to, from) in memory.as_mut_slice().chunks_exact_mut(4).zip(data) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        memory
    };
    let (wide, packed) = ((77, 90, 99), (76, 88, 88));
    for (lda, ldb, ldc) in [wide, packed] {
        let plain = Problem::<f32>::new(600, 88, 76).with_layouts(
            Layout::row_major(lda),
            Layout::row_major(ldb),
            Layout::row_major(ldc),
        );
        for problem in [plain, plain.with_scalars(0.5, -2.0)] {
            let a = drawn(&problem, Operand::A, |value| value as f32 / 3.0);
            let b = drawn(&problem, Operand::B, |value| value as f32 / 7.0);
            let old = drawn(&problem, Operand::C, |value| value as f32);
            let expected = expected(&problem, &a, &b, &old);
            for (which, pipeline) in
                (0..8).flat_map(|which| [(which, Pipeline::default()), (which, bands)])
            {
                let (pinned_a, pinned_b, mut pinned_c) = (pinned(&a), pinned(&b), pinned(&old));
                let mut c = old.clone();
                {
                    let a = if which & 1 == 0 { &a } else { floats(pinned_a.as_slice()) };
                    let b = if which & 2 == 0 { &b } else { floats(pinned_b.as_slice()) };
                    let c = match which & 4 {
                        0 => &mut c[..],
                        _ => floats_mut(pinned_c.as_mut_slice()),
                    };
                    let path = gpu.host_path(&cpu).cut(pipeline);
                    path.multiply(kernel("vector_loads"), &problem, a, b, c).unwrap();
                }
                let found = if which & 4 == 0 { &c } else { floats(pinned_c.as_slice()) };
                assert_eq!(found, expected, "{which}");
            }
        }
    }
    no_faults();
}

fn floats(bytes: &[u8]) -> &[f32] {
    // SAFETY: any bytes are floats.
    let (before, floats, behind) = unsafe { bytes.align_to() };
    assert!(before.is_empty() && behind.is_empty());
    floats
}

fn floats_mut(bytes: &mut [u8]) -> &mut [f32] {
    // SAFETY: any bytes are floats, and any floats bytes.
    let (before, floats, behind) = unsafe { bytes.align_to_mut() };
    assert!(before.is_empty() && behind.is_empty());
    floats
}

/// Parts of k have a matrix each in a workspace, one for each stream.
#[test]
fn deep_products_are_summed_in_the_workspace() {
    let _alone = alone();
    let (gpu, cpu) = (Gpu::open(0).unwrap(), CpuContext::new(NonZeroUsize::new(2)).unwrap());
    let problem = Problem::<f32>::new(20, 24, 3000);
    let a = drawn(&problem, Operand::A, |value| value as f32);
    let b = drawn(&problem, Operand::B, |value| value as f32);
    let old = vec![0.0; 20 * 24];
    // Sums of small integers are exact in any order.
    let right = expected(&problem, &a, &b, &old);
    for _ in 0..2 {
        let mut c = old.clone();
        gpu.host_path(&cpu).multiply(kernel("split_k_32x64"), &problem, &a, &b, &mut c).unwrap();
        assert_eq!(c, right);
        gpu.fill_workspaces(0xff).unwrap();
    }
    no_faults();
}

/// Every product of a batch has the bits that it has by itself, on the CPU and on the GPU, from host memory
/// and on the device; what lies between the operands stays.
#[test]
fn the_products_of_a_batch_are_those_of_each() {
    let _alone = alone();
    let cpu = Engine::cpu(NonZeroUsize::new(2)).unwrap();
    let on_gpu = Engine::builder().device(Device::Cuda(0)).build().unwrap();
    let one = Problem::<f32>::new(21, 34, 90).with_scalars(0.5, 2.0).with_layouts(
        Layout::col_major(23),
        Layout::row_major(35),
        Layout::col_major(22),
    );
    let batch = Batch { count: 3, a_stride: 23 * 90 + 5, b_stride: 0, c_stride: 22 * 34 + 3 };
    let all = one.with_batch(batch);
    let len = |operand| all.required_len(operand).unwrap();
    let of = |len: usize| (0..len).map(|at| (at % 23) as f32 / 8.0 - 1.0).collect::<Vec<f32>>();
    let [a, b, old] = [Operand::A, Operand::B, Operand::C].map(|operand| of(len(operand)));
    for engine in [&cpu, &on_gpu] {
        let mut right = old.clone();
        for at in all.items() {
            engine.gemm_slices(&one, &a[at.a..], &b[at.b..], &mut right[at.c..]).unwrap();
        }
        let mut c = old.clone();
        engine.gemm_slices(&all, &a, &b, &mut c).unwrap();
        assert!(c == right && c != old);
        // Too short by one, and C on top of each other: nothing is written.
        let mut short = old[1..].to_vec();
        assert!(matches!(engine.gemm_slices(&all, &a, &b, &mut short), Err(Error::Shape(_))));
        assert_eq!(short, old[1..]);
        let overlapping = one.with_batch(Batch { c_stride: 100, ..batch });
        assert!(matches!(engine.gemm_slices(&overlapping, &a, &b, &mut c), Err(Error::Shape(_))));
        assert_eq!(c, right);
        // Nothing to add up, and no products.
        let nothing = Problem { k: 0, ..all };
        engine.gemm_slices(&nothing, &[], &[], &mut c).unwrap();
        assert_eq!(c[0], 2.0 * right[0]);
        let none = one.with_batch(Batch { count: 0, ..batch });
        engine.gemm_slices(&none, &[], &[], &mut []).unwrap();
    }

    let gpu = on_gpu.gpu().unwrap();
    let problem = Problem::<f32>::new(40, 24, 3000).with_batch(Batch {
        count: 3,
        a_stride: 0,
        b_stride: 3000 * 24,
        c_stride: 40 * 24,
    });
    let a: Vec<f32> = (0..40 * 3000).map(|at| (at % 7) as f32).collect();
    let b: Vec<f32> = (0..3 * 3000 * 24).map(|at| (at % 5) as f32).collect();
    let mut right = vec![0.0; 3 * 40 * 24];
    cpu.gemm_slices(&problem, &a, &b, &mut right).unwrap();
    let bytes =
        |data: &[f32]| data.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
    let memory =
        |len: usize| cuda_lazy::DeviceMemory::new(gpu.context().driver_context(), 4 * len).unwrap();
    let (mut on_a, mut on_b, on_c) = (memory(a.len()), memory(b.len()), memory(right.len()));
    on_a.write(0, &bytes(&a)).unwrap();
    on_b.write(0, &bytes(&b)).unwrap();
    let addresses = Addresses { a: on_a.address(), b: on_b.address(), c: on_c.address() };
    let stream = cuda_lazy::Stream::new(gpu.context().driver_context()).unwrap();
    // One workspace for the ranges of k of all three.
    for id in ["split_k_32x64", "naive"] {
        // SAFETY: the memory is the operands', each product's tightly packed, and outlives the wait below.
        unsafe { gpu.enqueue(stream.as_raw(), kernel(id), &problem, addresses).unwrap() };
        stream.synchronize().unwrap();
        let mut found = vec![0u8; 4 * right.len()];
        on_c.read(0, &mut found).unwrap();
        // Sums of small integers are exact in any order.
        assert!(found == bytes(&right), "{id}");
    }
    no_faults();
}

/// Operands that are on the device, in a stream of the caller's.
#[test]
fn operands_on_the_device_are_multiplied_in_the_callers_stream() {
    let _alone = alone();
    let gpu = Gpu::open(0).unwrap();
    let stream = cuda_lazy::Stream::new(gpu.context().driver_context()).unwrap();
    let problem = Problem::<f64>::new(33, 18, 40);
    let a = drawn(&problem, Operand::A, f64::from);
    let b = drawn(&problem, Operand::B, f64::from);
    let right = expected(&problem, &a, &b, &vec![0.0; 33 * 18]);
    let bytes =
        |data: &[f64]| data.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
    let memory =
        |len: usize| cuda_lazy::DeviceMemory::new(gpu.context().driver_context(), 8 * len).unwrap();
    let (mut on_a, mut on_b, on_c) = (memory(a.len()), memory(b.len()), memory(right.len()));
    on_a.write(0, &bytes(&a)).unwrap();
    on_b.write(0, &bytes(&b)).unwrap();
    gpu.load(kernel("vector_loads")).unwrap();
    let before = cuda_emulated::count("cuMemAlloc");
    let addresses = Addresses { a: on_a.address(), b: on_b.address(), c: on_c.address() };
    // SAFETY: the memory is the operands', tightly packed, and outlives the wait below.
    unsafe { gpu.enqueue(stream.as_raw(), kernel("vector_loads"), &problem, addresses).unwrap() };
    assert_eq!(cuda_emulated::count("cuMemAlloc"), before, "a chain kernel needs no memory");
    stream.synchronize().unwrap();
    let mut found = vec![0u8; 8 * right.len()];
    on_c.read(0, &mut found).unwrap();
    assert_eq!(found, bytes(&right));
    // A kernel that cannot run the problem leaves C alone.
    let hopper = kernel("tensor_128x256");
    // SAFETY: as above.
    let refused = unsafe { gpu.enqueue(stream.as_raw(), hopper, &problem, addresses) };
    assert!(matches!(refused, Err(Error::Unsupported { .. })));
    no_faults();
}

/// Machine code and what the driver makes of the PTX compute the same, each loaded once.
#[test]
fn machine_code_and_ptx_give_the_same_bits() {
    let _alone = alone();
    let cpu = CpuContext::new(NonZeroUsize::new(2)).unwrap();
    let problem = Problem::<f32>::new(65, 97, 33).with_scalars(1.5, 0.0);
    let a = drawn(&problem, Operand::A, |value| value as f32 / 7.0);
    let b = drawn(&problem, Operand::B, |value| value as f32 / 3.0);
    let old = vec![0.0; 65 * 97];
    let right = expected(&problem, &a, &b, &old);
    for code in [KernelCode::default(), KernelCode::Ptx] {
        let gpu = Gpu::open_with(0, code).unwrap();
        let compiled = !gpu.has_machine_code(kernel("naive"));
        assert!(compiled || code == KernelCode::default());
        assert!(!compiled || code == KernelCode::Ptx || !emulated());
        for id in ["naive", "async_copy_32x64", "naive"] {
            let mut c = old.clone();
            gpu.host_path(&cpu).multiply(kernel(id), &problem, &a, &b, &mut c).unwrap();
            assert_eq!(c, right, "{id} as {code:?}");
        }
        assert_eq!(gpu.compile_time().is_zero(), !compiled, "{code:?}");
        assert_eq!(gpu.load_time().is_zero(), compiled, "{code:?}");
    }
    no_faults();
}

/// All kernels at once, from several threads at a time: no module is loaded twice.
#[test]
fn threads_that_want_the_same_kernels_load_each_once() {
    let _alone = alone();
    for code in [KernelCode::MachineCode, KernelCode::Ptx] {
        let gpu = Gpu::open_with(0, code).unwrap();
        let counts = || ["cuModuleLoadDataEx", "fat binary", "PTX"].map(cuda_emulated::count);
        let before = counts();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| gpu.load_all(KERNELS).unwrap());
                scope.spawn(|| gpu.load(kernel("split_k_32x64")).unwrap());
            }
        });
        let after = counts();
        let [loaded, machine_code, ptx] = [0, 1, 2].map(|at| after[at] - before[at]);
        gpu.load_all(KERNELS).unwrap();
        assert_eq!(counts(), after, "what is there is not loaded again");
        if emulated() {
            // One for each kernel of compute capability 8.0, and one with the helper of `split_k`.
            let capability = gpu.limits().compute_capability;
            let runs = |of: &&Kernel| of.arch.runs_on(capability);
            let wanted = KERNELS.iter().filter(runs).count() + 1;
            assert_eq!(loaded, wanted, "{code:?}");
            let of_code = if code == KernelCode::Ptx { ptx } else { machine_code };
            assert_eq!(of_code, wanted, "{code:?}");
        }
    }
    no_faults();
}

#[test]
fn copies_bring_back_what_they_took() {
    let _alone = alone();
    let (gpu, cpu) = (Gpu::open(0).unwrap(), CpuContext::new(NonZeroUsize::new(2)).unwrap());
    let path = gpu.host_path(&cpu).cut(Pipeline { slot_bytes: 1000, ..Pipeline::default() });
    let mut host: Vec<u8> = (0..12_345).map(|at| (at % 251) as u8).collect();
    let before = host.clone();
    for from in [HostMemory::Allocated, HostMemory::Pinned] {
        path.copies(&mut host, from).unwrap();
        assert_eq!(host, before);
    }
    no_faults();
}

/// The engine's own choice goes to the GPU for what it says it would.
#[test]
fn an_engine_of_its_own_choice_computes_where_it_says() {
    let _alone = alone();
    let engine = Engine::builder().threads(NonZeroUsize::MIN).build().unwrap();
    assert!(engine.gpu().is_some());
    let tiny = Problem::<f32>::new(4, 4, 4);
    assert_eq!(engine.placement(&tiny).unwrap(), Placement::Cpu);
    let launches = cuda_emulated::count("cuLaunchKernel");
    let mut c = [0.0; 16];
    engine.gemm_slices(&tiny, &[1.0; 16], &[1.0; 16], &mut c).unwrap();
    assert_eq!((c, cuda_emulated::count("cuLaunchKernel")), ([4.0; 16], launches));
    // One row of results of a long sum: much to multiply for what travels.
    let large = Problem::<f32>::new(1800, 1800, 1800);
    assert!(matches!(engine.placement(&large).unwrap(), Placement::Gpu(_)));
    let strict = Engine::builder().accuracy(Accuracy::Componentwise).build().unwrap();
    let Placement::Gpu(kernel) = strict.placement(&large).unwrap() else { panic!("on the CPU") };
    assert!(Accuracy::Componentwise.admits(kernel.spec()));
}

/// Every kernel that the emulated device runs is chosen by no name but its own, and gives its product.
#[test]
fn an_engine_for_a_kernel_uses_it() {
    let _alone = alone();
    let a = Matrix::from_fn(30, 31, |row, col| ((row + 2 * col) % 9) as f32).unwrap();
    let b = Matrix::from_fn(31, 32, |row, col| ((3 * row + col) % 8) as f32).unwrap();
    let right = Engine::cpu(None).unwrap().multiply(&a, &b).unwrap();
    let mut ran = 0;
    for &own in KERNELS {
        let engine = Engine::builder().kernel(own).build().unwrap();
        match engine.multiply(&a, &b) {
            Ok(found) => {
                assert_eq!(found, right, "{own:?}");
                ran += 1;
            }
            Err(Error::Unsupported { .. }) => {}
            Err(other) => panic!("{own:?}: {other}"),
        }
    }
    assert!(ran >= 18, "only {ran} kernels ran");
    // Views of parts, both orders.
    let data: Vec<f32> = (0..100).map(|at| at as f32).collect();
    let part = MatRef::new(&data[11..], 3, 4, Layout::row_major(10)).unwrap();
    let engine = Engine::builder().kernel(kernel("tiled16")).build().unwrap();
    let mut c = vec![-1.0; 40];
    let view = MatMut::new(&mut c, 3, 3, Layout::col_major(9)).unwrap();
    engine.gemm(1.0, part, part.transposed(), 0.0, view).unwrap();
    let dot = |one: usize, other: usize| -> f32 {
        (0..4).map(|k| data[11 + 10 * one + k] * data[11 + 10 * other + k]).sum()
    };
    assert_eq!(c[2 * 9 + 1], dot(1, 2));
    assert_eq!(c.iter().filter(|&&value| value == -1.0).count(), 40 - 9);
    no_faults();
}
