//! `cust` over the trampolines: it links on any machine, answers in errors without a driver, and
//! works with one.

#![expect(clippy::print_stderr, reason = "it says what could not be tested")]
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::env;
use std::error::Error;
use std::ffi::{CStr, c_void};
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_lazy::{
    DataType, DeviceAttribute, Driver, FunctionAttribute, LIBRARY_VARIABLE, LaunchConfig,
    LoadError, Swizzle, TensorMapDesc,
};
use cust::CudaFlags;
use cust::context::{
    CacheConfig, Context, ContextFlags, CurrentContext, ResourceLimit, SharedMemoryConfig,
};
use cust::device::Device;
use cust::error::CudaError;
use cust::event::{Event, EventFlags};
use cust::function::{BlockSize, FunctionAttribute as CustFunctionAttribute};
use cust::launch;
use cust::memory::{
    AsyncCopyDestination, CopyDestination, DeviceBuffer, LockedBuffer, UnifiedBuffer, mem_get_info,
};
use cust::module::{Module, ModuleJitOption, OptLevel};
use cust::stream::{Stream, StreamFlags, StreamWaitEventFlags};

type Outcome = Result<(), Box<dyn Error>>;

/// `out[i] = factor * in[i]` for the first 256 elements, one block.
const PTX: &CStr = c"
.version 6.4
.target sm_70
.address_size 64
.visible .entry scale(.param .u64 in, .param .u64 out, .param .f32 factor)
{
    .reg .b64 %rd<5>;
    .reg .b32 %r<2>;
    .reg .f32 %f<4>;
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd1, %r1, 4;
    ld.param.u64 %rd2, [in];
    ld.param.u64 %rd3, [out];
    ld.param.f32 %f1, [factor];
    add.u64 %rd2, %rd2, %rd1;
    add.u64 %rd3, %rd3, %rd1;
    ld.global.f32 %f2, [%rd2];
    mul.f32 %f3, %f1, %f2;
    st.global.f32 [%rd3], %f3;
    ret;
}
";
const THREADS: u32 = 256;

#[test]
fn with_a_device_cust_and_the_driver_work_and_without_one_they_answer() -> Outcome {
    let driver = match cuda_lazy::load() {
        Ok(driver) => driver,
        Err(why) => {
            answers_without_a_driver();
            return skipped(&why.to_string());
        }
    };
    if let Err(why) = driver.init() {
        assert!(cust::init(CudaFlags::empty()).is_err());
        return skipped(&why.to_string());
    }
    exercise_cust()?;
    exercise_driver(driver)
}

/// Says that nothing ran on a device, which is a failure where a device is required.
fn skipped(why: &str) -> Outcome {
    assert!(env::var_os("GEMM_REQUIRE_GPU").is_none(), "a GPU is required: {why}");
    eprintln!("SKIPPED 1 case: {why}");
    Ok(())
}

fn answers_without_a_driver() {
    assert_eq!(cust::init(CudaFlags::empty()), Err(CudaError::NotInitialized));
    assert!(matches!(Device::num_devices(), Err(CudaError::NotInitialized)));
    assert!(matches!(Stream::new(StreamFlags::DEFAULT, None), Err(CudaError::NotInitialized)));
    assert!(matches!(mem_get_info(), Err(CudaError::NotInitialized)));
    assert!(cust::CudaApiVersion::get().is_err());
    // `cust` asks the driver for the text of an error; to_string would panic if that failed.
    let text = CudaError::NotInitialized.to_string();
    assert!(text.contains("driver is not loaded"), "{text}");
    assert!(!CudaError::OutOfMemory.to_string().is_empty());
}

#[test]
fn a_wrong_path_is_an_ordinary_error_and_nothing_is_loaded() -> Outcome {
    let child = Command::new(env::current_exe()?)
        .args(["--ignored", "--exact", "child_with_a_wrong_path"])
        .env(LIBRARY_VARIABLE, WRONG_PATH)
        .output()?;
    let output = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && output.contains("1 passed"), "{output}");
    Ok(())
}

const WRONG_PATH: &str = "/no/such/folder/libcuda.so.1";

#[test]
#[ignore = "run in a process of its own by a_wrong_path_is_an_ordinary_error_and_nothing_is_loaded"]
fn child_with_a_wrong_path() -> Outcome {
    // `cust` comes first, so `cuInit` is what loads the driver here.
    answers_without_a_driver();
    let Err(error) = cuda_lazy::load() else { return Err("a driver was loaded".into()) };
    assert!(matches!(error, LoadError::Override { .. }), "{error:?}");
    assert!(error.to_string().contains(WRONG_PATH), "{error}");
    assert!(std::thread::spawn(cuda_lazy::load).join().is_ok_and(|again| again.is_err()));
    let maps = fs::read_to_string("/proc/self/maps")?;
    assert!(!maps.contains("libcuda.so"), "libcuda is loaded: the program links it");
    Ok(())
}

/// What a program that multiplies matrices uses of `cust`.
fn exercise_cust() -> Outcome {
    cust::init(CudaFlags::empty())?;
    assert!(cust::CudaApiVersion::get()?.major() >= 11);
    assert!(Device::num_devices()? > 0);
    let device = Device::get_device(0)?;
    assert!(!device.name()?.is_empty() && device.total_memory()? > 0);
    assert!(device.get_attribute(cust::device::DeviceAttribute::MultiprocessorCount)? > 0);

    let context = Context::new(device)?;
    context.set_flags(ContextFlags::SCHED_AUTO)?;
    CurrentContext::set_current(&context)?;
    CurrentContext::set_cache_config(CacheConfig::PreferShared)?;
    CurrentContext::set_shared_memory_config(SharedMemoryConfig::DefaultBankSize)?;
    CurrentContext::get_stream_priority_range()?;
    assert!(CurrentContext::get_resource_limit(ResourceLimit::StackSize)? > 0);

    let ptx = PTX.to_str()?;
    let module = Module::from_ptx(ptx, &[ModuleJitOption::OptLevel(OptLevel::O4)])?;
    let scale = module.get_function("scale")?;
    assert!(scale.get_attribute(CustFunctionAttribute::NumRegisters)? > 0);
    assert!(scale.max_active_blocks_per_multiprocessor(BlockSize::x(THREADS), 0)? > 0);
    assert!(scale.suggested_launch_configuration(0, BlockSize::x(0))?.1 > 0);

    let (free, total) = mem_get_info()?;
    assert!(free <= total);
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let host: Vec<f32> = (0..THREADS).map(|i| i as f32).collect();
    let input = DeviceBuffer::from_slice(&host)?;
    let output = DeviceBuffer::<f32>::zeroed(host.len())?;
    let (start, stop) = (Event::new(EventFlags::DEFAULT)?, Event::new(EventFlags::DEFAULT)?);
    start.record(&stream)?;
    // SAFETY: the kernel takes two addresses and a float, and one block of THREADS threads touches
    // just the elements of both buffers.
    unsafe {
        launch!(scale<<<1, THREADS, 0, stream>>>(
            input.as_device_ptr(), output.as_device_ptr(), 3.0_f32
        ))?;
    }
    stop.record(&stream)?;
    stop.synchronize()?;
    assert!(stop.elapsed_time_f32(&start)? >= 0.0);
    stream.wait_event(stop, StreamWaitEventFlags::DEFAULT)?;
    static CALLED: AtomicBool = AtomicBool::new(false);
    stream.add_callback(Box::new(|| CALLED.store(true, Ordering::SeqCst)))?;

    let mut pinned = LockedBuffer::new(&0.0_f32, host.len())?;
    // SAFETY: `pinned` and `output` outlive the synchronisation below and are not touched before it.
    unsafe { output.async_copy_to(&mut pinned, &stream)? };
    stream.synchronize()?;
    assert!(CALLED.load(Ordering::SeqCst));
    assert!(pinned.iter().zip(&host).all(|(out, &x)| *out == 3.0 * x), "{:?}", &pinned[..4]);

    // SAFETY: the buffer is written before it is read.
    let mut copy = unsafe { DeviceBuffer::<f32>::uninitialized(host.len())? };
    copy.copy_from(&output)?;
    assert_eq!(copy.as_host_vec()?, pinned.as_slice());
    assert_eq!(UnifiedBuffer::from_slice(&host)?.as_slice(), host);
    copy.drop_async(&stream)?;
    DeviceBuffer::drop(output).map_err(|(error, _)| error)?;
    CurrentContext::synchronize()?;
    Ok(())
}

/// Every call that [`Driver`] adds.
fn exercise_driver(driver: &Driver) -> Outcome {
    assert!(!driver.library().is_empty());
    assert!(driver.version()?.major >= 11);
    assert_eq!(driver.error_name(2).as_deref(), Some("CUDA_ERROR_OUT_OF_MEMORY"));
    assert!(driver.error_text(2).is_some() && driver.error_name(123_456).is_none());
    assert!(driver.device_attribute(0, DeviceAttribute::MULTIPROCESSOR_COUNT)? > 0);
    assert!(driver.device_pci_bus_id(0)?.contains(':'));
    assert!(driver.device_uuid(0)?.to_string().starts_with("GPU-"));
    assert!(driver.device_attribute(0, DeviceAttribute(-1)).is_err());
    let major = driver.device_attribute(0, DeviceAttribute::COMPUTE_CAPABILITY_MAJOR)?;

    let _context = Context::new(Device::get_device(0)?)?;
    let memory = driver.mem_get_info()?;
    assert!(memory.free > 0 && memory.free <= memory.total);

    let Err(failure) = driver.load_module_logged(c".version 6.4\n.target sm_70\nnonsense", false)
    else {
        return Err("the JIT compiler took nonsense".into());
    };
    assert_eq!(failure.name, "CUDA_ERROR_INVALID_PTX");
    assert!(failure.log.contains("line 3"), "{failure}");

    let (module, log) = driver.load_module_logged(PTX, true)?;
    // Not asserted: the driver says nothing about a module that it finds in its own cache.
    eprintln!("{log:?}");
    // SAFETY: the module was loaded in the line before.
    let function = unsafe { driver.module_get_function(module, c"scale")? };
    // SAFETY: as above.
    let absent = unsafe { driver.module_get_function(module, c"absent") };
    assert!(absent.is_err_and(|error| error.is_not_found()));
    let dynamic = FunctionAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
    // SAFETY: the function's module is loaded.
    unsafe {
        driver.func_set_attribute(function, dynamic, 64 * 1024)?;
    }
    // SAFETY: as above.
    assert_eq!(unsafe { driver.func_get_attribute(function, dynamic)? }, 64 * 1024);

    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let mut host: Vec<f32> = (0..THREADS).map(|i| i as f32).collect();
    let start = host.as_mut_ptr().cast::<c_void>();
    let bytes = size_of_val(host.as_slice());
    // SAFETY: the vector lives on, and does not move, until it is unregistered in the next step.
    unsafe { driver.host_register(start, bytes, 0)? };
    let input = DeviceBuffer::from_slice(&host)?;
    // SAFETY: it is what was registered, and the copy above is done.
    unsafe { driver.host_unregister(start)? };

    let plain = LaunchConfig {
        shared_bytes: 50_000,
        stream: stream.as_inner().cast(),
        ..LaunchConfig::new([1, 1, 1], [THREADS, 1, 1])
    };
    let mut configs = vec![plain];
    if major >= 9 {
        let clusters = LaunchConfig { grid: [4, 1, 1], cluster: Some([2, 1, 1]), ..plain };
        // SAFETY: function and stream are of the current context.
        assert!(unsafe { driver.max_active_clusters(function, &clusters)? } > 0);
        configs.push(clusters);
        configs.push(LaunchConfig { programmatic_stream_serialization: true, ..clusters });
    }
    for config in configs {
        let output = DeviceBuffer::<f32>::zeroed(host.len())?;
        let (mut from, mut to, mut factor) =
            (input.as_device_ptr().as_raw(), output.as_device_ptr().as_raw(), 2.0_f32);
        let mut arguments: [*mut c_void; 3] =
            [(&raw mut from).cast(), (&raw mut to).cast(), (&raw mut factor).cast()];
        // SAFETY: the kernel takes two addresses and a float, to which the pointers lead; every block
        // touches just the elements of both buffers and writes the same values.
        unsafe { driver.launch_kernel_ex(function, &config, &mut arguments)? };
        stream.synchronize()?;
        let result = output.as_host_vec()?;
        assert!(result.iter().zip(&host).all(|(out, &x)| *out == 2.0 * x), "{config:?}");
    }

    if major >= 9 {
        let address = input.as_device_ptr().as_raw();
        let (dims, strides, box_dims) = ([16, 16], [64], [16, 8]);
        let desc = TensorMapDesc {
            swizzle: Swizzle::B64,
            ..TensorMapDesc::new(DataType::F32, address, &dims, &strides, &box_dims)
        };
        driver.encode_tiled(&desc)?;
        let crooked = TensorMapDesc { address: address + 4, ..desc };
        assert!(driver.encode_tiled(&crooked).is_err());
    }
    // SAFETY: the stream is idle, and neither module nor function is used again.
    unsafe { driver.module_unload(module)? };
    Ok(())
}
