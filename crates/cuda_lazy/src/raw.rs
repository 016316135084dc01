//! The driver's calls with their C signatures, each made through a [`Table`].
//!
//! The results are plain integers, never an enum: a newer driver may return a code that no enum here
//! would list, and such a value in a Rust enum is undefined behaviour.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};
use std::mem::transmute;

use crate::abi::{RawCopy2d, RawLaunchConfig, TensorMap};
use crate::attribute::Uuid;
use crate::symbols::Symbol;
use crate::table::Table;
use crate::{
    DevicePtr, RawContext, RawEvent, RawFunction, RawGraph, RawGraphExec, RawModule, RawStream,
};

macro_rules! declare {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The arguments are what the driver's documentation of this function asks for.
        #[allow(non_snake_case, reason = "the name is the driver's")]
        #[allow(clippy::too_many_arguments, reason = "the signature is the driver's")]
        pub(crate) unsafe fn $name(table: &Table $(, $arg: $type)*) -> c_int {
            let address = table.address(Symbol::$name);
            // SAFETY: the table holds, for this name, a function with the signature that `cuda.h`
            // gives it (the contract of `Table::bind`), which is the one written here, or a
            // placeholder that answers any signature.
            let call: unsafe extern "C" fn($($type),*) -> c_int = unsafe { transmute(address) };
            // SAFETY: the caller keeps this function's contract, which is the driver's own.
            unsafe { call($($arg),*) }
        }
    )*};
}

declare! {
    /// Starts the driver.
    fn cuInit(flags: c_uint);
    /// The newest CUDA version that the driver serves.
    fn cuDriverGetVersion(version: *mut c_int);
    /// The name of a result code.
    fn cuGetErrorName(code: c_int, name: *mut *const c_char);
    /// The description of a result code.
    fn cuGetErrorString(code: c_int, text: *mut *const c_char);
    /// The handle of a device, by its ordinal.
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int);
    /// How many devices there are.
    fn cuDeviceGetCount(count: *mut c_int);
    /// The name of a device.
    fn cuDeviceGetName(name: *mut c_char, length: c_int, device: c_int);
    /// Bytes of memory of a device.
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int);
    /// One number that describes a device.
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int);
    /// Where the device is on the PCI bus.
    fn cuDeviceGetPCIBusId(id: *mut c_char, length: c_int, device: c_int);
    /// Which device it is, the same in every process.
    fn cuDeviceGetUuid(uuid: *mut Uuid, device: c_int);
    /// Retains the primary context of a device.
    fn cuDevicePrimaryCtxRetain(context: *mut RawContext, device: c_int);
    /// Gives a retained primary context back.
    fn cuDevicePrimaryCtxRelease_v2(device: c_int);
    /// Whether the primary context of a device is retained by anybody.
    fn cuDevicePrimaryCtxGetState(device: c_int, flags: *mut c_uint, active: *mut c_int);
    /// Creates a context and makes it current.
    fn cuCtxCreate_v2(context: *mut RawContext, flags: c_uint, device: c_int);
    /// Destroys a context.
    fn cuCtxDestroy_v2(context: RawContext);
    /// The context that is current for the calling thread.
    fn cuCtxGetCurrent(context: *mut RawContext);
    /// The device of the context that is current.
    fn cuCtxGetDevice(device: *mut c_int);
    /// What tells a context from every other of the process.
    fn cuCtxGetId(context: RawContext, id: *mut u64);
    /// Makes a context current for the calling thread, above the one that is.
    fn cuCtxPushCurrent_v2(context: RawContext);
    /// Makes the context below current again.
    fn cuCtxPopCurrent_v2(context: *mut RawContext);
    /// Waits for all work of the current context.
    fn cuCtxSynchronize();
    /// One number that describes a kernel.
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: RawFunction);
    /// Sets a kernel's limit or preference.
    fn cuFuncSetAttribute(function: RawFunction, attribute: c_int, value: c_int);
    /// Launches a kernel.
    fn cuLaunchKernel(
        function: RawFunction,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: RawStream,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    );
    /// Launches a kernel with attributes.
    fn cuLaunchKernelEx(
        config: *const RawLaunchConfig,
        function: RawFunction,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    );
    /// How many clusters of a launch can be resident at once.
    fn cuOccupancyMaxActiveClusters(
        clusters: *mut c_int,
        function: RawFunction,
        config: *const RawLaunchConfig,
    );
    /// Free and total bytes of the current context's device.
    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
    /// Allocates device memory.
    fn cuMemAlloc_v2(address: *mut DevicePtr, bytes: usize);
    /// Frees device memory.
    fn cuMemFree_v2(address: DevicePtr);
    /// Allocates pinned host memory.
    fn cuMemAllocHost_v2(memory: *mut *mut c_void, bytes: usize);
    /// Frees pinned host memory.
    fn cuMemFreeHost(memory: *mut c_void);
    /// Copies from host to device and waits.
    fn cuMemcpyHtoD_v2(to: DevicePtr, from: *const c_void, bytes: usize);
    /// Copies from device to host and waits.
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: DevicePtr, bytes: usize);
    /// Queues a copy from host to device.
    fn cuMemcpyHtoDAsync_v2(to: DevicePtr, from: *const c_void, bytes: usize, stream: RawStream);
    /// Queues a copy from device to host.
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: DevicePtr, bytes: usize, stream: RawStream);
    /// Queues a copy on the device.
    fn cuMemcpyDtoDAsync_v2(to: DevicePtr, from: DevicePtr, bytes: usize, stream: RawStream);
    /// Queues a copy of lines of the same length.
    fn cuMemcpy2DAsync_v2(copy: *const RawCopy2d, stream: RawStream);
    /// What the driver knows about an address.
    fn cuPointerGetAttributes(
        count: c_uint,
        attributes: *mut c_int,
        values: *mut *mut c_void,
        address: DevicePtr,
    );
    /// Queues a fill of device memory.
    fn cuMemsetD8Async(at: DevicePtr, value: c_uchar, bytes: usize, stream: RawStream);
    /// Creates a stream.
    fn cuStreamCreateWithPriority(stream: *mut RawStream, flags: c_uint, priority: c_int);
    /// Destroys a stream once its work is done.
    fn cuStreamDestroy_v2(stream: RawStream);
    /// Waits for all work of a stream.
    fn cuStreamSynchronize(stream: RawStream);
    /// Makes later work of a stream wait for an event.
    fn cuStreamWaitEvent(stream: RawStream, event: RawEvent, flags: c_uint);
    /// Whether a stream is being captured.
    fn cuStreamIsCapturing(stream: RawStream, status: *mut c_int);
    /// Lets what a stream is given go to a graph.
    fn cuStreamBeginCapture_v2(stream: RawStream, mode: c_int);
    /// Ends that, and gives the graph.
    fn cuStreamEndCapture(stream: RawStream, graph: *mut RawGraph);
    /// Sets what the calling thread may do while streams are captured, and gives what it could before.
    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int);
    /// Makes a graph ready to be launched.
    fn cuGraphInstantiateWithFlags(exec: *mut RawGraphExec, graph: RawGraph, flags: u64);
    /// Queues all work of a graph.
    fn cuGraphLaunch(exec: RawGraphExec, stream: RawStream);
    /// Destroys what can be launched.
    fn cuGraphExecDestroy(exec: RawGraphExec);
    /// Destroys a graph.
    fn cuGraphDestroy(graph: RawGraph);
    /// Creates an event.
    fn cuEventCreate(event: *mut RawEvent, flags: c_uint);
    /// Destroys an event.
    fn cuEventDestroy_v2(event: RawEvent);
    /// Records an event behind the work of a stream.
    fn cuEventRecord(event: RawEvent, stream: RawStream);
    /// Whether what an event was recorded behind is done.
    fn cuEventQuery(event: RawEvent);
    /// Waits for what an event was recorded behind.
    fn cuEventSynchronize(event: RawEvent);
    /// Milliseconds between two events.
    fn cuEventElapsedTime(milliseconds: *mut f32, start: RawEvent, end: RawEvent);
    /// Pins host memory.
    fn cuMemHostRegister_v2(memory: *mut c_void, bytes: usize, flags: c_uint);
    /// Unpins host memory.
    fn cuMemHostUnregister(memory: *mut c_void);
    /// Loads PTX or a cubin into the current context.
    fn cuModuleLoadDataEx(
        module: *mut RawModule,
        image: *const c_void,
        option_count: c_uint,
        options: *mut c_int,
        values: *mut *mut c_void,
    );
    /// Finds a kernel in a module.
    fn cuModuleGetFunction(function: *mut RawFunction, module: RawModule, name: *const c_char);
    /// Unloads a module.
    fn cuModuleUnload(module: RawModule);
    /// Encodes the descriptor of a tiled tensor.
    fn cuTensorMapEncodeTiled(
        map: *mut TensorMap,
        data_type: c_int,
        rank: c_uint,
        address: DevicePtr,
        dims: *const u64,
        strides: *const u64,
        box_dims: *const c_uint,
        element_strides: *const c_uint,
        interleave: c_int,
        swizzle: c_int,
        l2_promotion: c_int,
        oob_fill: c_int,
    );
}
