//! The list of driver functions: one word each, and all that the crate knows about them by name.

use std::ffi::CStr;

/// Hands the list of names to the macro `$then`.
///
/// The first part is what `cust` 0.3.2 refers to anywhere in its sources; the second is what
/// [`Driver`](crate::Driver) adds. To make one more function linkable, add its name here, exactly as
/// the driver exports it (`cuda.h` renames some calls: `cuMemAlloc` is `cuMemAlloc_v2`).
macro_rules! for_each_symbol {
    ($then:ident) => {
        $then! {
            // --- start, errors ---
            cuInit
            cuDriverGetVersion
            cuGetErrorString
            // --- devices ---
            cuDeviceGet
            cuDeviceGetAttribute
            cuDeviceGetCount
            cuDeviceGetName
            cuDeviceTotalMem_v2
            // --- contexts ---
            cuCtxCreate_v2
            cuCtxDestroy_v2
            cuCtxGetApiVersion
            cuCtxGetCacheConfig
            cuCtxGetCurrent
            cuCtxGetDevice
            cuCtxGetFlags
            cuCtxGetLimit
            cuCtxGetSharedMemConfig
            cuCtxGetStreamPriorityRange
            cuCtxPopCurrent_v2
            cuCtxPushCurrent_v2
            cuCtxSetCacheConfig
            cuCtxSetCurrent
            cuCtxSetLimit
            cuCtxSetSharedMemConfig
            cuCtxSynchronize
            cuDevicePrimaryCtxRelease_v2
            cuDevicePrimaryCtxReset_v2
            cuDevicePrimaryCtxRetain
            cuDevicePrimaryCtxSetFlags_v2
            // --- modules and the JIT linker ---
            cuLinkAddData_v2
            cuLinkComplete
            cuLinkCreate_v2
            cuLinkDestroy
            cuModuleGetFunction
            cuModuleGetGlobal_v2
            cuModuleLoad
            cuModuleLoadData
            cuModuleLoadDataEx
            cuModuleUnload
            // --- functions and launches ---
            cuFuncGetAttribute
            cuFuncSetCacheConfig
            cuFuncSetSharedMemConfig
            cuLaunchHostFunc
            cuLaunchKernel
            cuOccupancyAvailableDynamicSMemPerBlock
            cuOccupancyMaxActiveBlocksPerMultiprocessor
            cuOccupancyMaxPotentialBlockSize
            // --- memory ---
            cuMemAdvise
            cuMemAllocAsync
            cuMemAllocHost_v2
            cuMemAllocManaged
            cuMemAlloc_v2
            cuMemFreeAsync
            cuMemFreeHost
            cuMemFree_v2
            cuMemGetInfo_v2
            cuMemPrefetchAsync
            cuMemcpy2D_v2
            cuMemcpyAtoH_v2
            cuMemcpyDtoDAsync_v2
            cuMemcpyDtoD_v2
            cuMemcpyDtoHAsync_v2
            cuMemcpyDtoH_v2
            cuMemcpyHtoA_v2
            cuMemcpyHtoDAsync_v2
            cuMemcpyHtoD_v2
            cuMemsetD16Async
            cuMemsetD16_v2
            cuMemsetD32Async
            cuMemsetD32_v2
            cuMemsetD8Async
            cuMemsetD8_v2
            // --- streams and events ---
            cuEventCreate
            cuEventDestroy_v2
            cuEventElapsedTime
            cuEventQuery
            cuEventRecord
            cuEventSynchronize
            cuStreamCreateWithPriority
            cuStreamDestroy_v2
            cuStreamGetFlags
            cuStreamGetPriority
            cuStreamSynchronize
            cuStreamWaitEvent
            // --- arrays, textures, surfaces, external memory, graphs ---
            cuArray3DCreate_v2
            cuArray3DGetDescriptor_v2
            cuArrayDestroy
            cuDestroyExternalMemory
            cuExternalMemoryGetMappedBuffer
            cuGraphAddKernelNode
            cuGraphCreate
            cuGraphDebugDotPrint
            cuGraphDestroy
            cuGraphGetEdges
            cuGraphGetNodes
            cuGraphKernelNodeGetParams
            cuGraphNodeGetType
            cuImportExternalMemory
            cuSurfObjectCreate
            cuSurfObjectDestroy
            cuSurfObjectGetResourceDesc
            cuTexObjectCreate
            cuTexObjectDestroy
            cuTexObjectGetResourceDesc
            cuTexObjectGetResourceViewDesc

            // --- what `cust` lacks and `Driver` offers ---
            cuCtxGetId
            cuDeviceGetPCIBusId
            cuDeviceGetUuid
            cuDevicePrimaryCtxGetState
            cuFuncSetAttribute
            cuGetErrorName
            cuGraphExecDestroy
            cuGraphInstantiateWithFlags
            cuGraphLaunch
            cuLaunchKernelEx
            cuMemHostRegister_v2
            cuMemHostUnregister
            cuMemcpy2DAsync_v2
            cuOccupancyMaxActiveClusters
            cuPointerGetAttributes
            cuStreamBeginCapture_v2
            cuStreamCreate
            cuStreamEndCapture
            cuStreamIsCapturing
            cuTensorMapEncodeTiled
            cuThreadExchangeStreamCaptureMode
        }
    };
}

macro_rules! define_symbol {
    ($($name:ident)*) => {
        /// A driver function, named as the driver exports it; its value is its place in the table.
        #[allow(non_camel_case_types, reason = "the names are the driver's")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub(crate) enum Symbol {
            $(#[allow(dead_code, reason = "some names are reached by the linker alone")] $name,)*
        }

        impl Symbol {
            /// Every symbol, in table order.
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            /// How many there are.
            pub(crate) const COUNT: usize = Self::ALL.len();

            /// The name that the driver exports.
            pub(crate) const fn name(self) -> &'static CStr {
                const NAMES: &[&CStr] = &[$(
                    match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a symbol's name holds no NUL"),
                    },
                )*];
                NAMES[self as usize]
            }
        }
    };
}
for_each_symbol!(define_symbol);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_those_of_the_driver_and_in_table_order() {
        assert_eq!(Symbol::cuInit.name(), c"cuInit");
        assert_eq!(Symbol::cuTensorMapEncodeTiled.name(), c"cuTensorMapEncodeTiled");
        for (index, &symbol) in Symbol::ALL.iter().enumerate() {
            assert_eq!(symbol as usize, index);
            assert!(symbol.name().to_bytes().starts_with(b"cu"), "{symbol:?}");
        }
        let distinct: HashSet<_> = Symbol::ALL.iter().map(|symbol| symbol.name()).collect();
        assert_eq!(distinct.len(), Symbol::COUNT);
    }
}
