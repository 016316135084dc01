//! The laboratory's operands on the device, with `cust`'s buffers, stream and events, on an emulated driver.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kernels_gpu::Kernel;
use lab::auto::kernel_times;
use lab::cpu::{self, CPU};
use lab::fill::Distribution;
use lab::gpu::{Gpu, run_batch};
use lab::measure::{Config, DeviceChoice};
use lab::registry::Implementation;
use lab::run::{Request, run};
use lab::verify::Method;
use lab::{Error, Problem, Types};
use tessera::Accuracy;
use tessera::select::{GpuFigures, KernelTime};

/// One at a time: the driver is the process's.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    cuda_emulated::install();
    guard
}

fn kernel(id: &str) -> Kernel {
    Kernel::named(id).expect("the registry has it")
}

fn right(problem: &Problem<f32>, a: &[f32], b: &[f32]) -> Vec<f32> {
    let mut c = vec![0.0; problem.m * problem.n];
    let context = cpu::context(None).expect("threads start");
    CPU[0].gemm(problem, a, b, &mut c, &context).expect("the buffers fit");
    c
}

#[test]
fn operands_stay_on_the_device_for_any_number_of_launches() {
    let _alone = alone();
    let gpu = Gpu::open(0).unwrap();
    let problem = Problem::<f32>::new(19, 23, 40);
    let a: Vec<f32> = (0..19 * 40).map(|at| (at % 7) as f32).collect();
    let b: Vec<f32> = (0..40 * 23).map(|at| (at % 5) as f32).collect();
    let expected = right(&problem, &a, &b);
    // C begins behind eight guard words.
    let guarded = vec![f32::NAN; 8 + expected.len() + 8];
    for id in ["naive", "tiled16", "vector_loads", "split_k_32x64", "async_copy_32x64", "small_n"] {
        let operands = gpu.upload(&problem, &a, &b).unwrap();
        let mut output = gpu.output(&guarded, 8).unwrap();
        for _ in 0..2 {
            operands.run(kernel(id), &mut output).unwrap();
            let mut found = vec![0.0; guarded.len()];
            output.download(&mut found).unwrap();
            assert_eq!(found[8..][..expected.len()], expected, "{id}");
            assert!(
                found[..8].iter().chain(&found[8 + expected.len()..]).all(|word| word.is_nan())
            );
            let poison = gpu.output(&guarded, 8).unwrap();
            output.restore_from(&poison).unwrap();
            output.restore(&guarded).unwrap();
        }
        let mut sets = vec![(operands, output)];
        run_batch(kernel(id), &mut sets, 0, 3).unwrap();
        let mut found = vec![0.0; guarded.len()];
        sets[0].1.download(&mut found).unwrap();
        assert_eq!(found[8..][..expected.len()], expected, "{id}");
    }
    assert_eq!(cuda_emulated::faults(), Vec::<String>::new());
}

/// What `tune` measures of kernels is a time for each that a choice may come to, and the choice is then the
/// one that took the least.
#[test]
fn the_kernels_of_a_choice_are_measured_and_decide_it() {
    let _alone = alone();
    let gpu = Gpu::open(0).unwrap();
    for sizes in [[40, 36, 24], [4, 60, 24]] {
        let kernels = kernel_times::<f32>(&gpu, sizes).unwrap();
        let measured: Vec<&str> = kernels.iter().map(|time| time.kernel.as_str()).collect();
        let candidates = gpu.model().candidates(Types::F32, sizes);
        let candidates: Vec<&str> = candidates.iter().map(|kernel| kernel.spec().id).collect();
        assert_eq!(measured, candidates);
        assert!(kernels.iter().all(KernelTime::is_sane), "{kernels:?}");
        assert!(kernels.iter().all(|time| time.dtype == "f32" && time.sizes == sizes));
        let fastest = kernels.iter().min_by(|one, two| one.seconds.total_cmp(&two.seconds));
        let fastest = fastest.expect("there are some").kernel.clone();
        let figures = GpuFigures { kernels, ..GpuFigures::assumed((8, 0)) };
        let model = gpu.model().clone().with_figures(&figures);
        let [m, n, k] = sizes;
        let problem = Problem::<f32>::new(m, n, k);
        let chosen = model.best_kernel(&problem, u64::MAX, Accuracy::default());
        assert_eq!(chosen.expect("there is one").spec().id, fastest);
    }
    // No kernel of this GPU multiplies them.
    assert_eq!(kernel_times::<lab::f16>(&gpu, [40, 36, 24]).unwrap(), []);
    assert_eq!(cuda_emulated::faults(), Vec::<String>::new());
}

/// A run has the code of all its kernels before it predicts the first; the document says what it took.
#[test]
fn a_run_loads_each_kernel_once() {
    let _alone = alone();
    let ids = ["naive", "split_k_32x64", "split_k_32x128"];
    let request = Request {
        config: Config {
            device: DeviceChoice::Cuda(0),
            distribution: Distribution::Int,
            check: Method::Full,
            ..Config::default()
        },
        size: [40, 24, 300],
        implementations: ids.map(|id| Implementation::Gpu(kernel(id))).to_vec(),
        budget: Duration::from_secs(5),
    };
    let loaded = || cuda_emulated::count("cuModuleLoadDataEx");
    let before = loaded();
    let document = run(&request, &mut ()).unwrap();
    assert_eq!(loaded() - before, 4, "one for each kernel, and their helper's");
    let shown: Vec<&str> = document.rows.iter().map(|row| row.kernel).collect();
    assert_eq!(shown, ids, "{:?}", document.skipped);
    assert!(document.all_right());
    assert_eq!(document.head.machine.jit_seconds, Some(0.0));
    assert!(document.head.machine.load_seconds.is_some_and(|seconds| seconds > 0.0));
}

#[test]
fn buffers_of_two_gpus_are_not_used_together() {
    let _alone = alone();
    let (one, other) = (Gpu::open(0).unwrap(), Gpu::open(1).unwrap());
    let problem = Problem::<f32>::new(2, 2, 2);
    let data = [1.0; 4];
    let operands = one.upload(&problem, &data, &data).unwrap();
    let mut there = other.output(&data, 0).unwrap();
    let refused = operands.run(kernel("naive"), &mut there).unwrap_err().to_string();
    assert!(refused.contains("different GPUs, 0 and 1"), "{refused}");
    let mut here = one.output(&data, 0).unwrap();
    assert!(here.restore_from(&there).is_err());
    let mut sets = vec![(operands, here), (other.upload(&problem, &data, &data).unwrap(), there)];
    assert!(run_batch(kernel("naive"), &mut sets, 0, 2).is_err());
    // Nothing of it was launched.
    let mut found = [0.0; 4];
    sets[1].1.download(&mut found).unwrap();
    assert_eq!(found, data);
}

#[test]
fn buffers_that_are_too_short_are_refused() {
    let _alone = alone();
    let gpu = Gpu::open(0).unwrap();
    let problem = Problem::<f32>::new(4, 4, 4);
    assert!(gpu.upload(&problem, &[0.0; 15], &[0.0; 16]).is_err());
    let operands = gpu.upload(&problem, &[0.0; 16], &[0.0; 16]).unwrap();
    let mut output = gpu.output(&[0.0; 16], 1).unwrap();
    let refused = operands.run(kernel("naive"), &mut output);
    assert!(matches!(refused, Err(Error::Product { error: tessera::Error::Shape(_) })));
}

/// The rungs of the CPU answer for short buffers, too: `cpu_packed` reads by pointers.
#[test]
fn a_rung_with_short_buffers_is_an_error() {
    let context = cpu::context(None).unwrap();
    for implementation in CPU {
        let large = Problem::<f32>::new(4096, 4096, 4096);
        let refused = implementation.gemm(&large, &[], &[], &mut [], &context);
        let is_shape = matches!(refused, Err(Error::Product { error: tessera::Error::Shape(_) }));
        assert!(is_shape, "{}", implementation.id);
    }
    let large = Problem::<f32>::new(4096, 4096, 4096);
    let refused = cpu_gemm::gemm(&large, &[], &[], &mut [], &context);
    assert!(matches!(refused, Err(cpu_gemm::Error::Shape(_))));
}
