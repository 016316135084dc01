//! What only an emulated driver shows: a device with little memory, a driver older than the machine code.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tessera::blas3::{self, View, ViewMut};
use tessera::gpu::{Gpu, Kernel, KernelCode};
use tessera::select::{CpuFigures, FORMAT, Figures, GpuFigures, KernelTime};
use tessera::{
    Activation, Bias, CpuContext, Device, Engine, Epilogue, EpilogueSlices, Error, Layout, MatRef,
    Matrix, Placement, Problem, StridedMut, StridedRef, Types,
};

/// The driver's memory is that of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    cuda_emulated::install();
    guard
}

/// A deterministic engine chooses by the device's memory, not by what happens to be free.
#[test]
fn deterministic_choices_do_not_depend_on_free_memory() {
    let _alone = alone();
    let build = |deterministic| {
        Engine::builder().device(Device::Cuda(0)).deterministic(deterministic).build().unwrap()
    };
    let problem = Problem::<f32>::new(1500, 1500, 1500);
    let chosen = build(true).placement(&problem).unwrap();
    let taken = {
        let gpu = Gpu::open(0).unwrap();
        cuda_lazy::DeviceMemory::new(gpu.context().driver_context(), 40 << 20).unwrap()
    };
    assert_eq!(build(true).placement(&problem).unwrap(), chosen);
    assert!(matches!(build(false).placement(&problem), Err(Error::OutOfMemory { .. })));
    drop(taken);
    assert_eq!(build(false).placement(&problem).unwrap(), chosen);
}

/// What was measured of this GPU decides between its kernels, but for an engine whose choices depend on the
/// problem and the device alone.
#[test]
fn figures_change_the_kernel_and_no_deterministic_choice() {
    let _alone = alone();
    let problem = Problem::<f32>::new(700, 700, 700);
    let sizes = [700; 3];
    let fast = Kernel::named("async_copy_64x256").expect("the registry has it");
    let figures = |device: &str| {
        let gpu = Gpu::open(0).unwrap();
        let time = |kernel: Kernel| {
            let factor = if kernel == fast { 0.01 } else { 1.0 };
            let predicted = gpu.model().kernel_seconds(kernel.spec(), Types::F32, sizes).unwrap();
            let (kernel, dtype) = (kernel.id.to_owned(), "f32".to_owned());
            KernelTime { kernel, dtype, sizes, seconds: factor * predicted }
        };
        let kernels = gpu.model().candidates(Types::F32, sizes).into_iter().map(time).collect();
        let device = device.to_owned();
        Figures {
            format: FORMAT.to_owned(),
            version: "0".to_owned(),
            date: "2026-11-23".to_owned(),
            cpu: CpuFigures { processor: String::new(), threads: 1, cubes: Vec::new() },
            gpu: Some(GpuFigures { device, kernels, ..GpuFigures::assumed((8, 0)) }),
        }
    };
    let name = Gpu::open(0).unwrap().info().name.clone();
    let chosen = |deterministic, figures| {
        let builder = Engine::builder().device(Device::Cuda(0)).deterministic(deterministic);
        let builder = match figures {
            Some(figures) => builder.figures(figures),
            None => builder,
        };
        builder.build().unwrap().placement(&problem).unwrap()
    };
    let bare = chosen(false, None);
    assert_ne!(bare, Placement::Gpu(fast));
    assert_eq!(chosen(false, Some(figures(&name))), Placement::Gpu(fast));
    assert_eq!(chosen(false, Some(figures("another GPU"))), bare);
    assert_eq!(chosen(true, Some(figures(&name))), bare);
}

/// What does not fit is an error with its bytes, and the next product that fits is right.
#[test]
fn memory_that_is_short_is_an_error_and_no_more() {
    let _alone = alone();
    let (gpu, cpu) = (Gpu::open(0).unwrap(), CpuContext::new(NonZeroUsize::new(2)).unwrap());
    let large = Problem::<f32>::new(4200, 4200, 1);
    let (a, b, mut c) = (vec![1.0; 4200], vec![1.0; 4200], vec![0.5; 4200 * 4200]);
    let naive = Kernel::named("naive").expect("the registry has it");
    let path = gpu.host_path(&cpu);
    let refused = path.multiply(naive, &large, &a, &b, &mut c).unwrap_err();
    assert!(matches!(refused, Error::OutOfMemory { available: Some(_), .. }), "{refused:?}");
    assert!(c.iter().all(|&value| value == 0.5));
    let small = Problem::<f32>::new(8, 8, 1);
    path.multiply(naive, &small, &a, &b, &mut c).unwrap();
    assert!(c[..64].iter().all(|&value| value == 1.0));
    assert_eq!(cuda_emulated::faults(), Vec::<String>::new());
}

/// What is in pinned memory goes through no buffer.
#[test]
fn operands_in_pinned_memory_need_no_buffers() {
    let _alone = alone();
    let (gpu, cpu) = (Gpu::open(0).unwrap(), CpuContext::new(NonZeroUsize::new(2)).unwrap());
    let context = gpu.context().driver_context();
    let mut memory: [_; 3] =
        std::array::from_fn(|_| cuda_lazy::PinnedMemory::new(context, 4 * 70 * 70).unwrap());
    let [a, b, c] = memory.each_mut().map(|memory| {
        // SAFETY: any bytes are floats, and any floats bytes.
        let (_, floats, _) = unsafe { memory.as_mut_slice().align_to_mut::<f32>() };
        floats
    });
    a.fill(2.0);
    b.fill(0.5);
    let buffers = || cuda_emulated::calls().get("cuMemAllocHost").copied().unwrap_or(0);
    let before = buffers();
    let naive = Kernel::named("naive").expect("the registry has it");
    let problem = Problem::<f32>::new(70, 70, 70);
    gpu.host_path(&cpu).multiply(naive, &problem, a, b, c).unwrap();
    assert!(c.iter().all(|&value| value == 70.0));
    assert_eq!(buffers(), before);
    let pageable = a.to_vec();
    gpu.host_path(&cpu).multiply(naive, &problem, &pageable, b, c).unwrap();
    assert_eq!(buffers(), before + 1);
    assert_eq!(cuda_emulated::faults(), Vec::<String>::new());
}

/// A driver that has no use for the machine code gets the PTX, and the product is the same.
#[test]
fn a_driver_that_refuses_the_machine_code_compiles_the_ptx() {
    let _alone = alone();
    let naive = Kernel::named("naive").expect("the registry has it");
    let product = |code| {
        let gpu = Gpu::open_with(0, code).unwrap();
        let cpu = CpuContext::new(NonZeroUsize::new(2)).unwrap();
        let problem = Problem::<f32>::new(3, 5, 7);
        let (a, b, mut c) = (vec![2.0; 21], vec![3.0; 35], vec![0.0; 15]);
        gpu.host_path(&cpu).multiply(naive, &problem, &a, &b, &mut c).unwrap();
        assert_eq!(c, [42.0; 15]);
        (!gpu.load_time().is_zero(), !gpu.compile_time().is_zero())
    };
    let asked = || ["fat binary", "PTX"].map(cuda_emulated::count);
    let before = asked();
    assert_eq!(product(KernelCode::default()), (true, false));
    assert_eq!(asked(), [before[0] + 1, before[1]]);
    cuda_emulated::refuse_images(true);
    let refused = product(KernelCode::default());
    // It is not even asked where PTX is wanted.
    let by_choice = product(KernelCode::Ptx);
    cuda_emulated::refuse_images(false);
    assert_eq!((refused, by_choice), ((false, true), (false, true)));
    assert_eq!(asked(), [before[0] + 2, before[1] + 2]);
    assert_eq!(cuda_emulated::faults(), Vec::<String>::new());
}

/// Strided matrices without gaps are multiplied on the GPU, the others by threads: what is between their lines may
/// be of other matrices. The result is the same.
#[test]
fn strided_matrices_without_gaps_go_to_the_gpu() {
    let _alone = alone();
    let engine = Engine::builder().device(Device::Cuda(0)).build().unwrap();
    let (m, n, k, apart) = (13, 11, 7, 20);
    let value = |row: usize, col: usize| ((3 * row + 5 * col) % 4) as f32;
    let a: Vec<f32> = (0..m * k).map(|at| value(at / k, at % k)).collect();
    let b: Vec<f32> = (0..k * n).map(|at| value(at / n, at % n)).collect();
    let reversed: Vec<f32> = a.chunks(k).rev().flatten().copied().collect();
    let sum = |row, col| (0..k).map(|p| value(row, p) * value(p, col)).sum::<f32>();
    let (k_stride, n_stride) = (k.cast_signed(), n.cast_signed());
    for (of_a, of_c, on_gpu) in [
        ((&a, 0, k_stride), (n, 0), true),
        ((&a, 0, k_stride), (apart, 0), false),
        // Last rows first: a copy of A, then both reversed, which are in place.
        ((&reversed, m - 1, -k_stride), (n, 0), true),
        ((&reversed, m - 1, -k_stride), (n, m - 1), true),
    ] {
        let (data, first, row_stride) = of_a;
        let (ld, first_of_c) = of_c;
        let mut c = vec![1.0f32; m * ld];
        let at = data.as_ptr().wrapping_add(first * k);
        // SAFETY: all of `data`, which nobody writes.
        let a = unsafe { StridedRef::from_raw(at, (m, k), (row_stride, 1)) };
        // SAFETY: all of `b`, which nobody writes.
        let b = unsafe { StridedRef::from_raw(b.as_ptr(), (k, n), (n_stride, 1)) };
        let at = c.as_mut_ptr().wrapping_add(first_of_c * ld);
        let ld_stride = ld.cast_signed() * if first_of_c > 0 { -1 } else { 1 };
        // SAFETY: rows of `c`, which nobody else uses.
        let to = unsafe { StridedMut::from_raw(at, (m, n), (ld_stride, 1)) };
        let before = cuda_emulated::count("cuLaunchKernel");
        engine.gemm_strided(None, 2.0, a, b, 1.0, to).unwrap();
        let launched = cuda_emulated::count("cuLaunchKernel") > before;
        assert_eq!(launched, on_gpu, "{ld} {first} {first_of_c}");
        for (at, &found) in c.iter().enumerate() {
            let (row, col) = (at / ld, at % ld);
            let row = if first_of_c > 0 { m - 1 - row } else { row };
            let expected = if col < n { 2.0 * sum(row, col) + 1.0 } else { 1.0 };
            assert_eq!(found, expected, "{ld} {first} {first_of_c}: {row} {col}");
        }
    }
    assert_eq!(cuda_emulated::faults(), Vec::<String>::new());
}

/// Views whose lines have gaps between them, in all orders, by a kernel that takes rows alone and by one that does not.
#[test]
fn views_keep_what_lies_between_their_lines() {
    let _alone = alone();
    let engine = Engine::builder().device(Device::Cuda(0)).build().unwrap();
    let (m, n, k, gap) = (37, 29, 41, 5);
    let orders = [Layout::row_major, Layout::col_major];
    for (at, id) in (0..8).flat_map(|at| ["naive", "async_copy_64x128"].map(|id| (at, id))) {
        let kernel = Kernel::named(id).expect("the registry has it");
        let layout = |bit: usize, rows: usize, cols: usize| {
            let line = if at >> bit & 1 == 0 { cols } else { rows };
            orders[at >> bit & 1](line + gap)
        };
        let (of_a, of_b, of_c) = (layout(0, m, k), layout(1, k, n), layout(2, m, n));
        let filled = |layout: Layout, rows: usize, cols: usize| {
            let mut data = vec![f32::NAN; layout.required_len(rows, cols).unwrap()];
            for (row, col) in (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))) {
                data[layout.index(row, col)] = ((row * 7 + col * 3) % 11) as f32 - 5.0;
            }
            data
        };
        let (a, b, mut c) = (filled(of_a, m, k), filled(of_b, k, n), filled(of_c, m, n));
        let old = c.clone();
        let (va, vb) = (View::new(&a, m, k, of_a).unwrap(), View::new(&b, k, n, of_b).unwrap());
        let vc = ViewMut::new(&mut c, m, n, of_c).unwrap();
        engine.gemm_by::<f32>(kernel, 2.0, va, vb, -1.0, vc).unwrap();
        let mut expected = old.clone();
        let to = ViewMut::new(&mut expected, m, n, of_c).unwrap();
        let none = blas3::Op::NoTrans;
        blas3::gemm(none, none, 2.0, va, vb, -1.0, to, engine.cpu_context()).unwrap();
        let bits = |data: &[f32]| data.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&c), bits(&expected), "{id} {at}");
        let short = ViewMut::new(&mut c, m - 1, n, of_c).unwrap();
        let refused = engine.gemm_by::<f32>(kernel, 1.0, va, vb, 0.0, short).unwrap_err();
        assert!(matches!(refused.error, Error::OuterDim { .. }) && !refused.written);
    }
    let cpu = Engine::cpu(None).unwrap();
    let (one, mut to) = ([1f32], [0f32]);
    let view = View::new(&one, 1, 1, Layout::row_major(1)).unwrap();
    let c = ViewMut::new(&mut to, 1, 1, Layout::row_major(1)).unwrap();
    let naive = Kernel::named("naive").expect("the registry has it");
    let refused = cpu.gemm_by::<f32>(naive, 1.0, view, view, 0.0, c).unwrap_err();
    assert!(matches!(refused.error, Error::NoDevice { .. }), "{refused}");
}

/// Where the engine computes on a GPU the sums come from there, and are finished as on the CPU.
#[test]
fn sums_of_a_gpu_get_their_epilogue() {
    let _alone = alone();
    let gpu = Engine::builder().device(Device::Cuda(0)).build().unwrap();
    let cpu = Engine::cpu(NonZeroUsize::new(2)).unwrap();
    let (m, n, k) = (37, 29, 16);
    // Small integers, of which all sums are exact.
    let matrix = |rows: usize, cols: usize, seed: usize| {
        let value = |at: usize| ((at * seed) % 7) as f32 - 3.0;
        Matrix::from_fn(rows, cols, |row, col| value(row * cols + col)).unwrap()
    };
    let (a, b, c) = (matrix(m, k, 5), matrix(k, n, 3), matrix(m, n, 2));
    assert!(matches!(gpu.placement(&Problem::<f32>::new(m, n, k)), Ok(Placement::Gpu(_))));
    let bias: Vec<f32> = (0..n).map(|at| at as f32 / 4.0).collect();
    let scales: Vec<f32> = (0..m).map(|at| 1.0 + at as f32 / 8.0).collect();
    let epilogue = EpilogueSlices::new(Epilogue::new(None, Activation::Gelu).with_amax())
        .with_bias(Bias::PerColumn, &bias)
        .with_row_scales(&scales);
    let compute = |engine: &Engine, alpha, c: Option<MatRef<'_, f32>>, old: &Matrix<f32>| {
        let mut d = old.clone();
        let scalars = (alpha, -0.5);
        let (a, b) = (a.view(), b.view());
        let amax = engine.gemm_with_epilogue(scalars, a, b, c, d.view_mut(), &epilogue).unwrap();
        (d, amax)
    };
    for alpha in [1.25, 0.0] {
        let zeros = Matrix::zeros(m, n).unwrap();
        assert_eq!(compute(&gpu, alpha, None, &c), compute(&cpu, alpha, None, &c));
        let apart = Some(c.view());
        assert_eq!(compute(&gpu, alpha, apart, &zeros), compute(&cpu, alpha, apart, &zeros));
    }
}
