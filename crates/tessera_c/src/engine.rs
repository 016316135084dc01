//! Engines.

#![expect(non_camel_case_types, reason = "the names of C")]

use std::num::NonZeroUsize;

use tessera::{Accuracy, CpuUnits, Device, Engine};
use tessera_raw::PerProcess;

use crate::guard::{guard, hand_out, take_back};
use crate::sized::{self, Sized};
use crate::status::{Fault, tessera_status};

/// On the CPU or the first GPU, whichever should end first.
pub const TESSERA_DEVICE_AUTO: i32 = 0;
/// On the CPU alone.
pub const TESSERA_DEVICE_CPU: i32 = 1;
/// On the GPU whose number is device_index, and nowhere else.
pub const TESSERA_DEVICE_CUDA: i32 = 2;

/// As a product in f32 by and large.
pub const TESSERA_ACCURACY_FP32: i32 = 0;
/// As if factors were rounded to bf16 first.
pub const TESSERA_ACCURACY_BF16: i32 = 1;
/// As if factors were rounded to TF32 first.
pub const TESSERA_ACCURACY_TF32: i32 = 2;
/// Each element of C within the bound of a chain of multiply-adds, whatever the range of A and B.
pub const TESSERA_ACCURACY_COMPONENTWISE: i32 = 3;

/// All units of the CPU, or of a deterministic engine those of TESSERA_UNITS_SAME_BITS.
pub const TESSERA_UNITS_DEFAULT: i32 = 0;
/// Vector units alone.
pub const TESSERA_UNITS_VECTOR: i32 = 1;
/// Matrix units where they give the bits of vector units.
pub const TESSERA_UNITS_SAME_BITS: i32 = 2;
/// Matrix units wherever they are faster and keep to the error bound.
pub const TESSERA_UNITS_ALL: i32 = 3;

/// Settings of an engine. Zeros are the usual ones; `size` is sizeof(tessera_engine_options).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tessera_engine_options {
    /// sizeof(tessera_engine_options)
    pub size: usize,
    /// One of TESSERA_DEVICE_*.
    pub device: i32,
    /// The number of the GPU, for TESSERA_DEVICE_CUDA.
    pub device_index: u32,
    /// The number of threads; 0 takes RAYON_NUM_THREADS, else one for each core.
    pub threads: usize,
    /// One of TESSERA_ACCURACY_*.
    pub accuracy: i32,
    /// One of TESSERA_UNITS_*.
    pub units: i32,
    /// Not 0: each choice depends on the product and the devices alone.
    pub deterministic: i32,
    /// 0
    pub reserved: i32,
}

// SAFETY: whole numbers, the first of which is the size.
unsafe impl Sized for tessera_engine_options {
    const NAME: &'static str = "tessera_engine_options";
    const LEAST: usize = 40;
}

/// What computes products: threads, a GPU, and the memory that they keep. Any number of threads may use one
/// at once. It does not survive a fork: a child makes its own, as it does of the one for the process.
pub struct tessera_engine {
    engine: Engine,
}

/// The one for the whole process, which is made when it is first used.
static PROCESS: PerProcess<Engine> = PerProcess::new();

/// The engine at an address, or of the process.
///
/// # Safety
/// `at` is null or that of an engine that is not destroyed meanwhile.
pub(crate) unsafe fn engine_at<'a>(at: *const tessera_engine) -> Result<&'a Engine, Fault> {
    // SAFETY: the caller's promise.
    if let Some(own) = unsafe { at.as_ref() } {
        return Ok(&own.engine);
    }
    Ok(PROCESS.get_or_try_make(Engine::auto)?)
}

/// Makes an engine; where options is NULL with the usual settings.
///
/// # Safety
/// `options` is null or points to such a struct, of whose size its first field tells; `engine` points to
/// room for an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_engine_create(
    options: *const tessera_engine_options,
    engine: *mut *mut tessera_engine,
) -> tessera_status {
    guard(|| {
        let make = || {
            let mut builder = Engine::builder();
            if !options.is_null() {
                // SAFETY: the caller's promise.
                let options = unsafe { sized::read(options, "options") }?;
                if options.reserved != 0 {
                    return Err(Fault::argument("options: reserved is not 0"));
                }
                builder = builder
                    .device(device(&options)?)
                    .accuracy(accuracy(options.accuracy)?)
                    .deterministic(options.deterministic != 0);
                if let Some(threads) = NonZeroUsize::new(options.threads) {
                    builder = builder.threads(threads);
                }
                if let Some(units) = units(options.units)? {
                    builder = builder.units(units);
                }
            }
            Ok(tessera_engine { engine: builder.build()? })
        };
        // SAFETY: the caller's promise.
        unsafe { hand_out(engine, "engine", make) }
    })
}

/// Ends an engine and its threads; does nothing where it is NULL.
///
/// # Safety
/// It is null or was made by tessera_engine_create, is not used any more, and is destroyed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_engine_destroy(engine: *mut tessera_engine) {
    // SAFETY: the caller's promise.
    unsafe { take_back(engine) }
}

/// The threads of an engine's products, of the process' where it is NULL; 0 where it cannot be made.
///
/// # Safety
/// It is null or that of an engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_engine_threads(engine: *const tessera_engine) -> usize {
    let mut threads = 0;
    guard(|| {
        // SAFETY: the caller's promise.
        threads = unsafe { engine_at(engine) }?.cpu_context().threads();
        Ok(())
    });
    threads
}

fn device(options: &tessera_engine_options) -> Result<Device, Fault> {
    match options.device {
        TESSERA_DEVICE_AUTO => Ok(Device::Auto),
        TESSERA_DEVICE_CPU => Ok(Device::Cpu),
        TESSERA_DEVICE_CUDA => Ok(Device::Cuda(options.device_index)),
        other => Err(unknown("device", other, "TESSERA_DEVICE_*")),
    }
}

/// The contract of a number.
pub(crate) fn accuracy(number: i32) -> Result<Accuracy, Fault> {
    match number {
        TESSERA_ACCURACY_FP32 => Ok(Accuracy::Fp32),
        TESSERA_ACCURACY_BF16 => Ok(Accuracy::Bf16),
        TESSERA_ACCURACY_TF32 => Ok(Accuracy::Tf32),
        TESSERA_ACCURACY_COMPONENTWISE => Ok(Accuracy::Componentwise),
        other => Err(unknown("accuracy", other, "TESSERA_ACCURACY_*")),
    }
}

fn units(number: i32) -> Result<Option<CpuUnits>, Fault> {
    match number {
        TESSERA_UNITS_DEFAULT => Ok(None),
        TESSERA_UNITS_VECTOR => Ok(Some(CpuUnits::Vector)),
        TESSERA_UNITS_SAME_BITS => Ok(Some(CpuUnits::SameBits)),
        TESSERA_UNITS_ALL => Ok(Some(CpuUnits::All)),
        other => Err(unknown("units", other, "TESSERA_UNITS_*")),
    }
}

/// What is said of a number that stands for nothing.
pub(crate) fn unknown(name: &str, number: i32, names: &str) -> Fault {
    Fault::argument(format!("{name} is {number}, which is none of {names}"))
}
