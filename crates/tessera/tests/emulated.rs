//! What only an emulated driver shows: a device with little memory.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tessera::gpu::{Gpu, Kernel};
use tessera::{CpuContext, Device, Engine, Error, Problem};

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
        cuda_lazy::DeviceMemory::new(gpu.context(), 40 << 20).unwrap()
    };
    assert_eq!(build(true).placement(&problem).unwrap(), chosen);
    assert!(matches!(build(false).placement(&problem), Err(Error::NoKernel { .. })));
    drop(taken);
    assert_eq!(build(false).placement(&problem).unwrap(), chosen);
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
