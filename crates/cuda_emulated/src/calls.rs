//! The driver's functions, as `cuda.h` declares them.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_void};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

use cuda_lazy::Driver;
use gemm_spec::params::{BatchedParams, FinishParams, GemmParams, Params, TransposeParams};
use gemm_spec::{AccType, GemmTypes};
use kernels_gpu::{EmulatedCall, EmulatedEntry, Module};

use crate::capture;
use crate::contexts::{self, ContextId, DEVICES, current};
use crate::operation::{KernelLaunch, Lines, Operation, StreamId};
use crate::status::{
    CAPTURE_UNSUPPORTED, INVALID_CONTEXT, INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE,
    LAUNCH_FAILED, NO_BINARY_FOR_GPU, NOT_FOUND, OUT_OF_MEMORY, SUCCESS,
};
use crate::world::{MEMORY_BYTES, World, copy, with};

/// Puts this driver in the place of libcuda for the whole process; the same each time.
///
/// # Panics
/// Where the process has loaded another driver before.
pub fn install() -> &'static Driver {
    // SAFETY: each function below has the signature that `cuda.h` gives its name.
    let driver = unsafe { cuda_lazy::load_with(resolve) };
    driver.expect("no other driver was loaded")
}

/// Writes an answer to where the caller wants it.
///
/// # Safety
/// `to` is null or valid for a write.
unsafe fn answer<T>(to: *mut T, value: T) -> c_int {
    if to.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: not null, and so valid by the contract.
    unsafe { to.write(value) };
    SUCCESS
}

/// A call that needs a current context: counts it, and answers for the caller where there is none or
/// where a kernel has failed.
fn call(name: &'static str, body: impl FnOnce(&mut World) -> c_int) -> c_int {
    with(|world| {
        world.called(name);
        if current() == 0 {
            return INVALID_CONTEXT;
        }
        if world.is_broken() {
            return LAUNCH_FAILED;
        }
        body(world)
    })
}

/// A call that may not be made while a stream is captured.
fn call_outside_captures(name: &'static str, body: impl FnOnce(&mut World) -> c_int) -> c_int {
    call(name, |world| match world.captures.forbid() {
        SUCCESS => body(world),
        refused => refused,
    })
}

/// A call on a stream of the current context.
fn call_on(
    name: &'static str,
    stream: *mut c_void,
    body: impl FnOnce(&mut World, StreamId) -> c_int,
) -> c_int {
    call(name, |world| match world.stream(stream.addr()) {
        Some(stream) => body(world, stream),
        None => INVALID_HANDLE,
    })
}

fn pointer(handle: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(handle)
}

unsafe extern "C" fn init(_: c_uint) -> c_int {
    SUCCESS
}

unsafe extern "C" fn driver_version(version: *mut c_int) -> c_int {
    // SAFETY: the caller's pointer, by the driver's contract.
    unsafe { answer(version, 12_040) }
}

unsafe extern "C" fn device_get(device: *mut c_int, ordinal: c_int) -> c_int {
    if !(0..DEVICES).contains(&ordinal) {
        return INVALID_DEVICE;
    }
    // SAFETY: as above.
    unsafe { answer(device, ordinal) }
}

unsafe extern "C" fn device_count(count: *mut c_int) -> c_int {
    // SAFETY: as above.
    unsafe { answer(count, DEVICES) }
}

unsafe extern "C" fn device_name(name: *mut c_char, length: c_int, _: c_int) -> c_int {
    let text = c"Emulated GPU".to_bytes_with_nul();
    if usize::try_from(length).is_ok_and(|length| length >= text.len()) {
        // SAFETY: the caller's buffer is of that length, by the driver's contract.
        unsafe { name.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), text.len()) };
        return SUCCESS;
    }
    INVALID_VALUE
}

unsafe extern "C" fn device_total_memory(bytes: *mut usize, _: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { answer(bytes, MEMORY_BYTES) }
}

/// What the device says of itself, by `CUdevice_attribute`: that of an A100 but for a single SM in four.
unsafe extern "C" fn device_attribute(value: *mut c_int, attribute: c_int, _: c_int) -> c_int {
    let known = match attribute {
        1 => 1024,       // threads of a block
        13 => 1_410_000, // clock in kHz
        16 => 27,        // SMs
        36 => 1_215_000, // clock of the memory in kHz
        37 => 5120,      // width of its bus in bits
        38 => 40 << 20,  // L2 in bytes
        39 => 2048,      // threads of an SM
        75 => 8,         // compute capability
        76 => 0,
        81 => 164 << 10, // shared memory of an SM
        97 => 163 << 10, // shared memory of a block after opting in
        106 => 32,       // blocks of an SM
        111 => 1024,     // shared memory that the driver keeps of a block
        _ => 0,
    };
    // SAFETY: as above.
    unsafe { answer(value, known) }
}

/// Counts a call that needs no current context.
fn counted(name: &'static str, body: impl FnOnce(&mut World) -> c_int) -> c_int {
    with(|world| {
        world.called(name);
        body(world)
    })
}

/// Writes what was found to where the caller wants it, or answers why there is none.
///
/// # Safety
/// `to` is null or valid for a write.
unsafe fn answer_result<T>(to: *mut T, found: Result<T, c_int>) -> c_int {
    match found {
        // SAFETY: the caller's promise.
        Ok(value) => unsafe { answer(to, value) },
        Err(code) => code,
    }
}

unsafe extern "C" fn primary_retain(context: *mut *mut c_void, device: c_int) -> c_int {
    counted("cuDevicePrimaryCtxRetain", |world| {
        // SAFETY: as above.
        unsafe { answer_result(context, world.contexts.retain(device).map(pointer)) }
    })
}

unsafe extern "C" fn primary_release(device: c_int) -> c_int {
    counted("cuDevicePrimaryCtxRelease", |world| world.contexts.release(device))
}

unsafe extern "C" fn primary_state(device: c_int, flags: *mut c_uint, active: *mut c_int) -> c_int {
    counted("cuDevicePrimaryCtxGetState", |world| {
        // SAFETY: as above.
        match unsafe { answer(flags, 0) } {
            // SAFETY: as above.
            SUCCESS => unsafe {
                answer_result(active, world.contexts.is_active(device).map(c_int::from))
            },
            refused => refused,
        }
    })
}

unsafe extern "C" fn context_create(context: *mut *mut c_void, _: c_uint, device: c_int) -> c_int {
    counted("cuCtxCreate", |world| {
        // SAFETY: as above.
        unsafe { answer_result(context, world.contexts.create(device).map(pointer)) }
    })
}

unsafe extern "C" fn context_destroy(context: *mut c_void) -> c_int {
    counted("cuCtxDestroy", |world| world.contexts.destroy(context.addr()))
}

unsafe extern "C" fn push_current(context: *mut c_void) -> c_int {
    counted("cuCtxPushCurrent", |world| world.contexts.push(context.addr()))
}

unsafe extern "C" fn pop_current(context: *mut *mut c_void) -> c_int {
    counted("cuCtxPopCurrent", |_| {
        let popped = contexts::pop().map(pointer).ok_or(INVALID_CONTEXT);
        // SAFETY: as above.
        unsafe { answer_result(context, popped) }
    })
}

unsafe extern "C" fn set_current(context: *mut c_void) -> c_int {
    counted("cuCtxSetCurrent", |world| world.contexts.set(context.addr()))
}

unsafe extern "C" fn get_current(context: *mut *mut c_void) -> c_int {
    counted("cuCtxGetCurrent", |_| {
        // SAFETY: as above.
        unsafe { answer(context, pointer(current())) }
    })
}

unsafe extern "C" fn context_device(device: *mut c_int) -> c_int {
    counted("cuCtxGetDevice", |world| {
        let found = world.contexts.device(current()).ok_or(INVALID_CONTEXT);
        // SAFETY: as above.
        unsafe { answer_result(device, found) }
    })
}

unsafe extern "C" fn context_id(context: *mut c_void, id: *mut u64) -> c_int {
    counted("cuCtxGetId", |world| {
        let found = world.contexts.id(context.addr()).ok_or(INVALID_CONTEXT);
        // SAFETY: as above.
        unsafe { answer_result(id, found) }
    })
}

unsafe extern "C" fn context_synchronize() -> c_int {
    call_outside_captures("cuCtxSynchronize", World::run_everything)
}

unsafe extern "C" fn memory_info(free: *mut usize, total: *mut usize) -> c_int {
    call("cuMemGetInfo", |world| {
        // SAFETY: the place of a number, by the driver's contract.
        match unsafe { answer(free, world.free_bytes()) } {
            // SAFETY: the place of another.
            SUCCESS => unsafe { answer(total, MEMORY_BYTES) },
            refused => refused,
        }
    })
}

/// An address as this process has it. One that it cannot have is none of its device memory.
fn place(address: u64) -> usize {
    usize::try_from(address).unwrap_or(usize::MAX)
}

unsafe extern "C" fn allocate(address: *mut u64, bytes: usize) -> c_int {
    call_outside_captures("cuMemAlloc", |world| match world.allocate_device(bytes) {
        // SAFETY: as above.
        Some(at) if bytes > 0 => unsafe { answer(address, at as u64) },
        Some(_) => INVALID_VALUE,
        None => OUT_OF_MEMORY,
    })
}

unsafe extern "C" fn allocate_managed(address: *mut u64, bytes: usize, _: c_uint) -> c_int {
    call_outside_captures("cuMemAllocManaged", |world| match world.allocate_managed(bytes) {
        // SAFETY: as above.
        Some(at) if bytes > 0 => unsafe { answer(address, at as u64) },
        Some(_) => INVALID_VALUE,
        None => OUT_OF_MEMORY,
    })
}

unsafe extern "C" fn free(address: u64) -> c_int {
    call_outside_captures("cuMemFree", |world| world.free_device(place(address)))
}

unsafe extern "C" fn allocate_host(memory: *mut *mut c_void, bytes: usize) -> c_int {
    call_outside_captures("cuMemAllocHost", |world| {
        let at = world.allocate_pinned(bytes);
        // SAFETY: as above.
        unsafe { answer(memory, std::ptr::with_exposed_provenance_mut(at)) }
    })
}

unsafe extern "C" fn free_host(memory: *mut c_void) -> c_int {
    call_outside_captures("cuMemFreeHost", |world| world.free_pinned(memory.addr()))
}

unsafe extern "C" fn to_device(to: u64, from: *const c_void, bytes: usize) -> c_int {
    call_outside_captures("cuMemcpyHtoD", |world| {
        if !world.is_on_device(place(to), bytes) {
            return INVALID_VALUE;
        }
        copy(place(to), from.expose_provenance(), bytes);
        SUCCESS
    })
}

unsafe extern "C" fn to_host(to: *mut c_void, from: u64, bytes: usize) -> c_int {
    call_outside_captures("cuMemcpyDtoH", |world| {
        if !world.is_on_device(place(from), bytes) {
            return INVALID_VALUE;
        }
        copy(to.expose_provenance(), place(from), bytes);
        SUCCESS
    })
}

unsafe extern "C" fn on_device(to: u64, from: u64, bytes: usize) -> c_int {
    call_outside_captures("cuMemcpyDtoD", |world| {
        let (to, from) = (place(to), place(from));
        if !world.is_on_device(to, bytes) || !world.is_on_device(from, bytes) {
            return INVALID_VALUE;
        }
        copy(to, from, bytes);
        SUCCESS
    })
}

unsafe extern "C" fn to_device_async(
    to: u64,
    from: *const c_void,
    bytes: usize,
    stream: *mut c_void,
) -> c_int {
    call_on("cuMemcpyHtoDAsync", stream, |world, stream| {
        if !world.is_on_device(place(to), bytes) {
            return INVALID_VALUE;
        }
        let from = from.expose_provenance();
        world.queue(stream, Operation::Copy { to: place(to), from, bytes });
        SUCCESS
    })
}

unsafe extern "C" fn to_host_async(
    to: *mut c_void,
    from: u64,
    bytes: usize,
    stream: *mut c_void,
) -> c_int {
    call_on("cuMemcpyDtoHAsync", stream, |world, stream| {
        if !world.is_on_device(place(from), bytes) {
            return INVALID_VALUE;
        }
        let to = to.expose_provenance();
        world.queue(stream, Operation::Copy { to, from: place(from), bytes });
        SUCCESS
    })
}

unsafe extern "C" fn fill_async(
    at: u64,
    value: c_uchar,
    bytes: usize,
    stream: *mut c_void,
) -> c_int {
    call_on("cuMemsetD8Async", stream, |world, stream| {
        if !world.is_on_device(place(at), bytes) {
            return INVALID_VALUE;
        }
        world.queue(stream, Operation::Fill { at: place(at), value, bytes });
        SUCCESS
    })
}

unsafe extern "C" fn stream_create(stream: *mut *mut c_void, _: c_uint, _: c_int) -> c_int {
    call("cuStreamCreateWithPriority", |world| {
        // SAFETY: as above.
        unsafe { answer(stream, pointer(world.create_stream())) }
    })
}

unsafe extern "C" fn stream_create_plain(stream: *mut *mut c_void, _: c_uint) -> c_int {
    call("cuStreamCreate", |world| {
        // SAFETY: as above.
        unsafe { answer(stream, pointer(world.create_stream())) }
    })
}

unsafe extern "C" fn on_device_async(
    to: u64,
    from: u64,
    bytes: usize,
    stream: *mut c_void,
) -> c_int {
    call_on("cuMemcpyDtoDAsync", stream, |world, stream| {
        let (to, from) = (place(to), place(from));
        if !world.is_on_device(to, bytes) || !world.is_on_device(from, bytes) {
            return INVALID_VALUE;
        }
        world.queue(stream, Operation::Copy { to, from, bytes });
        SUCCESS
    })
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
struct Copy2d {
    from: Place2d,
    to: Place2d,
    width: usize,
    height: usize,
}

/// One side of it.
#[repr(C)]
struct Place2d {
    x_in_bytes: usize,
    y: usize,
    memory_type: c_uint,
    host: *mut c_void,
    device: u64,
    array: *mut c_void,
    pitch: usize,
}

impl Place2d {
    /// `CU_MEMORYTYPE_DEVICE`.
    const DEVICE: c_uint = 2;

    /// Where it begins.
    fn start(&self) -> usize {
        let start = match self.memory_type {
            Self::DEVICE => place(self.device),
            _ => self.host.expose_provenance(),
        };
        start + self.y * self.pitch + self.x_in_bytes
    }

    /// Whether the lines are where they may be, as far as that can be told.
    fn holds(&self, world: &World, copied: &Lines) -> bool {
        self.pitch >= copied.bytes
            && (self.memory_type != Self::DEVICE
                || world.is_on_device(self.start(), copied.extent(self.pitch)))
    }
}

unsafe extern "C" fn lines_async(copy: *const Copy2d, stream: *mut c_void) -> c_int {
    call_on("cuMemcpy2DAsync", stream, |world, stream| {
        // SAFETY: the caller's description, by the driver's contract.
        let Copy2d { from, to, width, height } = unsafe { &*copy };
        let copied = Lines {
            to: to.start(),
            to_pitch: to.pitch,
            from: from.start(),
            from_pitch: from.pitch,
            bytes: *width,
            lines: *height,
        };
        if !from.holds(world, &copied) || !to.holds(world, &copied) {
            return INVALID_VALUE;
        }
        world.queue(stream, Operation::CopyLines(copied));
        SUCCESS
    })
}

/// `CU_POINTER_ATTRIBUTE_CONTEXT` and the others that can be asked for.
const OF_CONTEXT: c_int = 1;
const OF_MEMORY_TYPE: c_int = 2;
const IS_MANAGED: c_int = 8;
const OF_DEVICE: c_int = 9;
const OF_START: c_int = 11;
const OF_BYTES: c_int = 12;

unsafe extern "C" fn pointer_attributes(
    count: c_uint,
    attributes: *mut c_int,
    values: *mut *mut c_void,
    address: u64,
) -> c_int {
    counted("cuPointerGetAttributes", |world| {
        let address = place(address);
        let found = world.allocation(address);
        let (memory_type, (start, bytes, context)): (c_uint, _) =
            match (found, world.pinned(address)) {
                (Some(found), _) => (2, found),
                (None, Some((start, bytes))) => (1, (start, bytes, 0)),
                (None, None) => (0, (0, 0, 0)),
            };
        for at in 0..count as usize {
            // SAFETY: as many attributes as the caller says, by the driver's contract.
            let attribute = unsafe { *attributes.wrapping_add(at) };
            // SAFETY: and as many places.
            let to = unsafe { *values.wrapping_add(at) };
            let code = match attribute {
                // SAFETY: each place is of the type of its attribute, by the driver's contract.
                OF_CONTEXT => unsafe { answer(to.cast(), pointer(context)) },
                // SAFETY: as above.
                OF_MEMORY_TYPE => unsafe { answer(to.cast(), memory_type) },
                // SAFETY: as above.
                IS_MANAGED => unsafe { answer(to.cast(), c_uint::from(world.is_managed(start))) },
                OF_DEVICE => {
                    let device: c_int = world.contexts.device(context).unwrap_or(-1);
                    // SAFETY: as above.
                    unsafe { answer(to.cast(), device) }
                }
                // SAFETY: as above.
                OF_START => unsafe { answer(to.cast(), start as u64) },
                // SAFETY: as above.
                OF_BYTES => unsafe { answer(to.cast(), bytes) },
                _ => INVALID_VALUE,
            };
            if code != SUCCESS {
                return code;
            }
        }
        SUCCESS
    })
}

unsafe extern "C" fn stream_destroy(stream: *mut c_void) -> c_int {
    call("cuStreamDestroy", |world| world.destroy_stream(stream.addr()))
}

unsafe extern "C" fn stream_synchronize(stream: *mut c_void) -> c_int {
    call_on("cuStreamSynchronize", stream, |world, stream| {
        match world.captures.is_capturing(stream) {
            true => world.captures.forbid().max(CAPTURE_UNSUPPORTED),
            false => world.run(stream, usize::MAX),
        }
    })
}

unsafe extern "C" fn stream_wait(stream: *mut c_void, event: *mut c_void, _: c_uint) -> c_int {
    call_on("cuStreamWaitEvent", stream, |world, stream| world.wait(stream, event.addr()))
}

unsafe extern "C" fn is_capturing(stream: *mut c_void, status: *mut c_int) -> c_int {
    call_on("cuStreamIsCapturing", stream, |world, stream| {
        // SAFETY: as above.
        unsafe { answer(status, c_int::from(world.captures.is_capturing(stream))) }
    })
}

unsafe extern "C" fn begin_capture(stream: *mut c_void, mode: c_int) -> c_int {
    call_on("cuStreamBeginCapture", stream, |world, stream| world.captures.begin(stream, mode))
}

unsafe extern "C" fn end_capture(stream: *mut c_void, graph: *mut *mut c_void) -> c_int {
    call_on("cuStreamEndCapture", stream, |world, stream| {
        let ended = world.end_capture(stream).map(pointer);
        // SAFETY: as above.
        unsafe { answer_result(graph, ended) }
    })
}

unsafe extern "C" fn exchange_capture_mode(mode: *mut c_int) -> c_int {
    counted("cuThreadExchangeStreamCaptureMode", |_| {
        // SAFETY: the caller's number, by the driver's contract.
        let wanted = unsafe { *mode };
        // SAFETY: as above.
        unsafe { answer(mode, capture::exchange_mode(wanted)) }
    })
}

unsafe extern "C" fn graph_instantiate(
    exec: *mut *mut c_void,
    graph: *mut c_void,
    _: u64,
) -> c_int {
    call("cuGraphInstantiateWithFlags", |world| {
        let made = world.instantiate(graph.addr()).map(pointer);
        // SAFETY: as above.
        unsafe { answer_result(exec, made) }
    })
}

unsafe extern "C" fn graph_launch(exec: *mut c_void, stream: *mut c_void) -> c_int {
    call_on("cuGraphLaunch", stream, |world, stream| world.launch_graph(exec.addr(), stream))
}

unsafe extern "C" fn graph_exec_destroy(exec: *mut c_void) -> c_int {
    call("cuGraphExecDestroy", |world| world.captures.destroy_graph(exec.addr()))
}

unsafe extern "C" fn graph_destroy(graph: *mut c_void) -> c_int {
    call("cuGraphDestroy", |world| world.captures.destroy_graph(graph.addr()))
}

unsafe extern "C" fn event_create(event: *mut *mut c_void, _: c_uint) -> c_int {
    call("cuEventCreate", |world| {
        // SAFETY: as above.
        unsafe { answer(event, pointer(world.create_event())) }
    })
}

unsafe extern "C" fn event_destroy(event: *mut c_void) -> c_int {
    call("cuEventDestroy", |world| world.destroy_event(event.addr()))
}

unsafe extern "C" fn event_record(event: *mut c_void, stream: *mut c_void) -> c_int {
    call_on("cuEventRecord", stream, |world, stream| world.record(event.addr(), stream))
}

unsafe extern "C" fn event_query(event: *mut c_void) -> c_int {
    call("cuEventQuery", |world| world.query(event.addr()))
}

unsafe extern "C" fn event_synchronize(event: *mut c_void) -> c_int {
    call("cuEventSynchronize", |world| world.wait_for_event(event.addr()))
}

unsafe extern "C" fn event_elapsed(
    milliseconds: *mut f32,
    start: *mut c_void,
    end: *mut c_void,
) -> c_int {
    call("cuEventElapsedTime", |world| match world.milliseconds(start.addr(), end.addr()) {
        // SAFETY: as above.
        Ok(time) => unsafe { answer(milliseconds, time) },
        Err(code) => code,
    })
}

/// What a fat binary begins with, read as a word: where PTX has text.
const FAT_BINARY: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();

unsafe extern "C" fn module_load(
    module: *mut *mut c_void,
    image: *const c_void,
    _: c_uint,
    _: *mut c_int,
    _: *mut *mut c_void,
) -> c_int {
    let image: *const u8 = image.cast();
    // Text ends before a byte that it does not begin with.
    let is_fat = (0..4).all(|at| {
        // SAFETY: what is there so far begins like a fat binary, which has more than four bytes.
        unsafe { *image.wrapping_add(at) == FAT_BINARY[at] }
    });
    // For a test to tell what was loaded.
    let name = if is_fat { "fat binary" } else { "PTX" };
    call_outside_captures("cuModuleLoadDataEx", |world| {
        world.called(name);
        let text = if is_fat {
            if world.refuses_images() {
                return NO_BINARY_FOR_GPU;
            }
            // SAFETY: a whole fat binary, by the driver's contract.
            match unsafe { assembled_from(image) } {
                Some(ptx) => ptx.to_owned(),
                None => return INVALID_VALUE,
            }
        } else {
            // SAFETY: the image is PTX, text that ends in NUL, by the driver's contract; the caller keeps
            // it until this returns.
            unsafe { CStr::from_ptr(image.cast()) }.to_string_lossy().into_owned()
        };
        let loaded = LoadedModule { text, context: current() };
        let module_handle = Box::into_raw(Box::new(loaded));
        // SAFETY: as above.
        unsafe { answer(module, module_handle.cast()) }
    })
}

/// The PTX that a fat binary of the registry was made from; none where it is none of the registry's.
///
/// # Safety
/// `image` points to a whole fat binary.
unsafe fn assembled_from(image: *const u8) -> Option<&'static str> {
    let word = |at: usize| {
        // SAFETY: the words asked for are in the header of 16 bytes, which a fat binary begins with.
        unsafe { image.wrapping_add(at).cast::<u64>().read_unaligned() }
    };
    // Behind the first word, whose upper half is the header's size, is that of the rest.
    let len = usize::try_from((word(0) >> 48) + word(8)).ok()?;
    // SAFETY: the header tells how long the image is.
    let image = unsafe { std::slice::from_raw_parts(image, len) };
    let of = |module: &Module| module.assembled().is_some_and(|made| made.image == image);
    Module::all().find(of).map(Module::ptx)
}

unsafe extern "C" fn module_unload(module: *mut c_void) -> c_int {
    call_outside_captures("cuModuleUnload", |_| {
        // SAFETY: made by `module_load`, and unloaded once, by the driver's contract.
        drop(unsafe { Box::from_raw(module.cast::<LoadedModule>()) });
        SUCCESS
    })
}

/// A module, by its handle.
struct LoadedModule {
    text: String,
    context: ContextId,
}

/// A function of a module, by its handle.
struct Function {
    context: ContextId,
    symbol: &'static str,
    /// Where there is none it cannot be launched: its instructions are those of Hopper alone.
    entry: Option<EmulatedEntry>,
}

unsafe extern "C" fn module_function(
    function: *mut *mut c_void,
    module: *mut c_void,
    name: *const c_char,
) -> c_int {
    call("cuModuleGetFunction", |_| {
        // SAFETY: the name ends in NUL and is kept until this returns, by the driver's contract.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        // SAFETY: made by `module_load`, and not unloaded yet, by the driver's contract.
        let LoadedModule { text, context } = unsafe { &*module.cast::<LoadedModule>() };
        if !text.contains(&format!(".entry {name}(")) {
            return NOT_FOUND;
        }
        let entry = kernels_gpu::emulated_entry(&name);
        // Kept for good: a test asks for each once.
        let symbol: &'static str = Box::leak(name.into_owned().into_boxed_str());
        let found: &'static Function =
            Box::leak(Box::new(Function { context: *context, symbol, entry }));
        // SAFETY: as above.
        unsafe { answer(function, std::ptr::from_ref(found).cast_mut().cast()) }
    })
}

unsafe extern "C" fn function_get_attribute(value: *mut c_int, _: c_int, _: *mut c_void) -> c_int {
    call("cuFuncGetAttribute", |_| {
        // SAFETY: as above.
        unsafe { answer(value, 32) }
    })
}

unsafe extern "C" fn function_attribute(_: *mut c_void, _: c_int, _: c_int) -> c_int {
    call("cuFuncSetAttribute", |_| SUCCESS)
}

unsafe extern "C" fn launch(
    function: *mut c_void,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: *mut c_void,
    arguments: *mut *mut c_void,
    _: *mut *mut c_void,
) -> c_int {
    call_on("cuLaunchKernel", stream, |world, stream| {
        // SAFETY: a handle of `module_function`, which is kept for good.
        let &Function { context, symbol, entry } = unsafe { &*function.cast::<Function>() };
        let Some(entry) = entry else { return INVALID_HANDLE };
        if context != current() {
            return INVALID_HANDLE;
        }
        // SAFETY: an array of pointers, one for each parameter of the entry, by the driver's contract.
        let Some(call) = (unsafe { bind(entry, arguments) }) else { return INVALID_VALUE };
        let launch = KernelLaunch {
            symbol,
            call,
            grid: (grid_x, grid_y, grid_z),
            block: (block_x, block_y, block_z),
            shared_bytes: shared_bytes as usize,
        };
        world.queue(stream, Operation::Launch(Arc::new(launch)));
        SUCCESS
    })
}

/// An entry with the arguments of a launch, as they are when it is queued.
///
/// # Safety
/// `from` points to as many pointers as the entry has parameters, each to a value of its type; the entry's
/// obligations hold for them until the launch is over.
unsafe fn bind(entry: EmulatedEntry, from: *mut *mut c_void) -> Option<EmulatedCall> {
    match entry {
        // SAFETY: the parameters of this entry are those of f32.
        EmulatedEntry::F32(_) => unsafe { bind_to::<f32>(entry, from) },
        // SAFETY: the parameters of this entry are those of f64.
        EmulatedEntry::F64(_) => unsafe { bind_to::<f64>(entry, from) },
        // SAFETY: the parameters of this entry are those of i32.
        EmulatedEntry::I32(_) => unsafe { bind_to::<i32>(entry, from) },
        EmulatedEntry::Batched(_) => {
            // SAFETY: a pointer for each parameter, each to a value of its type.
            let params = unsafe { read::<BatchedParams<f32>>(AccType::F32, from) };
            // SAFETY: the entry's own parameters, for which its obligations hold until the launch is over.
            unsafe { EmulatedCall::new(entry, params) }
        }
        EmulatedEntry::BatchedF64(_) => {
            // SAFETY: a pointer for each parameter, each to a value of its type.
            let params = unsafe { read::<BatchedParams<f64>>(AccType::F64, from) };
            // SAFETY: the entry's own parameters, for which its obligations hold until the launch is over.
            unsafe { EmulatedCall::new(entry, params) }
        }
        // The device is older than those that have the instructions of these.
        EmulatedEntry::Tma(_)
        | EmulatedEntry::TmaSimt(_)
        | EmulatedEntry::Limbs(_)
        | EmulatedEntry::Pad(_)
        | EmulatedEntry::SplitKMajor(_)
        | EmulatedEntry::RowAmax(_)
        | EmulatedEntry::SplitMnMajor(_)
        | EmulatedEntry::Probe(_)
        | EmulatedEntry::RowExponents(_)
        | EmulatedEntry::Fallback(_) => None,
        EmulatedEntry::Finish(_) => {
            // SAFETY: a pointer for each parameter, each to a value of its type.
            let params = unsafe { read::<FinishParams>(AccType::F32, from) };
            // SAFETY: the entry's own parameters, for which its obligations hold until the launch is over.
            unsafe { EmulatedCall::new(entry, params) }
        }
        EmulatedEntry::Transpose(_) => {
            // SAFETY: a pointer for each parameter, each to a value of its type.
            let params = unsafe { read::<TransposeParams>(AccType::F32, from) };
            // SAFETY: the entry's own parameters, for which its obligations hold until the launch is over.
            unsafe { EmulatedCall::new(entry, params) }
        }
    }
}

/// The same for an entry of that type.
///
/// # Safety
/// As [`bind`].
unsafe fn bind_to<T: GemmTypes>(
    entry: EmulatedEntry,
    from: *mut *mut c_void,
) -> Option<EmulatedCall> {
    // SAFETY: a pointer for each parameter, each to a value of its type.
    let params = unsafe { read::<GemmParams<T>>(T::TYPES.acc(), from) };
    // SAFETY: the entry's own parameters, for which its obligations hold until the launch is over.
    unsafe { EmulatedCall::new(entry, params) }
}

/// The arguments of an entry whose accumulators are of that type.
///
/// # Safety
/// `from` points to as many pointers as the entry has parameters, each to a value of its type.
unsafe fn read<P: Params>(acc: AccType, from: *mut *mut c_void) -> P {
    let mut params = MaybeUninit::<P>::uninit();
    let fields = P::LIST.iter().zip(P::OFFSETS).enumerate();
    for (at, (param, &offset)) in fields {
        let size = param.ty.size(acc);
        // SAFETY: one of the pointers, of which there is one for each parameter.
        let value = unsafe { *from.wrapping_add(at) }.cast::<u8>();
        let field = params.as_mut_ptr().cast::<u8>().wrapping_add(offset);
        // SAFETY: a value of the parameter's type, which has that size, and the place of the field of that
        // type in a local.
        unsafe { value.copy_to_nonoverlapping(field, size) };
    }
    // SAFETY: each field was written, with a value of its type.
    unsafe { params.assume_init() }
}

/// The function of that name, where this driver has it.
fn resolve(name: &CStr) -> Option<NonNull<c_void>> {
    let address = match name.to_bytes() {
        b"cuInit" => init as *mut c_void,
        b"cuDriverGetVersion" => driver_version as *mut c_void,
        b"cuDeviceGet" => device_get as *mut c_void,
        b"cuDeviceGetCount" => device_count as *mut c_void,
        b"cuDeviceGetName" => device_name as *mut c_void,
        b"cuDeviceTotalMem_v2" => device_total_memory as *mut c_void,
        b"cuDeviceGetAttribute" => device_attribute as *mut c_void,
        b"cuDevicePrimaryCtxRetain" => primary_retain as *mut c_void,
        b"cuDevicePrimaryCtxRelease_v2" => primary_release as *mut c_void,
        b"cuDevicePrimaryCtxGetState" => primary_state as *mut c_void,
        b"cuCtxCreate_v2" => context_create as *mut c_void,
        b"cuCtxDestroy_v2" => context_destroy as *mut c_void,
        b"cuCtxGetDevice" => context_device as *mut c_void,
        b"cuCtxGetId" => context_id as *mut c_void,
        b"cuCtxPushCurrent_v2" => push_current as *mut c_void,
        b"cuCtxPopCurrent_v2" => pop_current as *mut c_void,
        b"cuCtxSetCurrent" => set_current as *mut c_void,
        b"cuCtxGetCurrent" => get_current as *mut c_void,
        b"cuCtxSynchronize" => context_synchronize as *mut c_void,
        b"cuMemGetInfo_v2" => memory_info as *mut c_void,
        b"cuMemAlloc_v2" => allocate as *mut c_void,
        b"cuMemAllocManaged" => allocate_managed as *mut c_void,
        b"cuMemFree_v2" => free as *mut c_void,
        b"cuMemAllocHost_v2" => allocate_host as *mut c_void,
        b"cuMemFreeHost" => free_host as *mut c_void,
        b"cuMemcpyHtoD_v2" => to_device as *mut c_void,
        b"cuMemcpyDtoH_v2" => to_host as *mut c_void,
        b"cuMemcpyDtoD_v2" => on_device as *mut c_void,
        b"cuMemcpyHtoDAsync_v2" => to_device_async as *mut c_void,
        b"cuMemcpyDtoHAsync_v2" => to_host_async as *mut c_void,
        b"cuMemcpyDtoDAsync_v2" => on_device_async as *mut c_void,
        b"cuMemcpy2DAsync_v2" => lines_async as *mut c_void,
        b"cuPointerGetAttributes" => pointer_attributes as *mut c_void,
        b"cuMemsetD8Async" => fill_async as *mut c_void,
        b"cuStreamCreate" => stream_create_plain as *mut c_void,
        b"cuStreamCreateWithPriority" => stream_create as *mut c_void,
        b"cuStreamDestroy_v2" => stream_destroy as *mut c_void,
        b"cuStreamSynchronize" => stream_synchronize as *mut c_void,
        b"cuStreamWaitEvent" => stream_wait as *mut c_void,
        b"cuStreamIsCapturing" => is_capturing as *mut c_void,
        b"cuStreamBeginCapture_v2" => begin_capture as *mut c_void,
        b"cuStreamEndCapture" => end_capture as *mut c_void,
        b"cuThreadExchangeStreamCaptureMode" => exchange_capture_mode as *mut c_void,
        b"cuGraphInstantiateWithFlags" => graph_instantiate as *mut c_void,
        b"cuGraphLaunch" => graph_launch as *mut c_void,
        b"cuGraphExecDestroy" => graph_exec_destroy as *mut c_void,
        b"cuGraphDestroy" => graph_destroy as *mut c_void,
        b"cuEventCreate" => event_create as *mut c_void,
        b"cuEventDestroy_v2" => event_destroy as *mut c_void,
        b"cuEventRecord" => event_record as *mut c_void,
        b"cuEventQuery" => event_query as *mut c_void,
        b"cuEventSynchronize" => event_synchronize as *mut c_void,
        b"cuEventElapsedTime" => event_elapsed as *mut c_void,
        b"cuModuleLoadDataEx" => module_load as *mut c_void,
        b"cuModuleUnload" => module_unload as *mut c_void,
        b"cuModuleGetFunction" => module_function as *mut c_void,
        b"cuFuncGetAttribute" => function_get_attribute as *mut c_void,
        b"cuFuncSetAttribute" => function_attribute as *mut c_void,
        b"cuLaunchKernel" => launch as *mut c_void,
        _ => return None,
    };
    NonNull::new(address)
}
