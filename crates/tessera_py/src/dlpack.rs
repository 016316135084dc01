//! The structs of DLPack that are read here, see its dlpack.h.

use std::ffi::c_void;

/// Memory of the CPU, and pinned memory of it.
pub(crate) const CPU: i32 = 1;
pub(crate) const CUDA_HOST: i32 = 3;

/// The names of capsules: of a tensor with a version, and of one without.
pub(crate) const VERSIONED: &std::ffi::CStr = c"dltensor_versioned";
pub(crate) const UNVERSIONED: &std::ffi::CStr = c"dltensor";

/// Set in `flags` where the elements must not be written.
pub(crate) const READ_ONLY: u64 = 1;

#[repr(C)]
pub(crate) struct Tensor {
    pub(crate) data: *mut c_void,
    pub(crate) device_type: i32,
    pub(crate) device_id: i32,
    pub(crate) ndim: i32,
    pub(crate) code: u8,
    pub(crate) bits: u8,
    pub(crate) lanes: u16,
    pub(crate) shape: *const i64,
    /// In elements; null where rows follow each other.
    pub(crate) strides: *const i64,
    pub(crate) byte_offset: u64,
}

#[repr(C)]
pub(crate) struct Managed {
    pub(crate) tensor: Tensor,
    manager_ctx: *mut c_void,
    deleter: *mut c_void,
}

#[repr(C)]
pub(crate) struct ManagedVersioned {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    manager_ctx: *mut c_void,
    deleter: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) tensor: Tensor,
}

/// What NumPy's `__array_struct__` leads to.
#[repr(C)]
pub(crate) struct ArrayInterface {
    pub(crate) two: i32,
    pub(crate) nd: i32,
    pub(crate) typekind: u8,
    pub(crate) itemsize: i32,
    pub(crate) flags: i32,
    pub(crate) shape: *const isize,
    /// In bytes.
    pub(crate) strides: *const isize,
    pub(crate) data: *mut c_void,
}

/// Bytes of an element are in the machine's order.
pub(crate) const NOT_SWAPPED: i32 = 0x200;
/// Elements may be written.
pub(crate) const WRITABLE: i32 = 0x400;
