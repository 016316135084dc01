//! The structs of DLPack, see its dlpack.h, and what a capsule of it says.

use std::ffi::{CStr, c_void};
use std::slice;

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::kind::Kind;

/// Memory of the CPU, of a GPU, pinned memory of the CPU, and managed memory.
pub(crate) const CPU: i32 = 1;
pub(crate) const CUDA: i32 = 2;
pub(crate) const CUDA_HOST: i32 = 3;
pub(crate) const CUDA_MANAGED: i32 = 13;

/// The names of capsules: of a tensor with a version, and of one without.
pub(crate) const VERSIONED: &CStr = c"dltensor_versioned";
pub(crate) const UNVERSIONED: &CStr = c"dltensor";

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
    pub(crate) manager_ctx: *mut c_void,
    pub(crate) deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

#[repr(C)]
pub(crate) struct ManagedVersioned {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    pub(crate) manager_ctx: *mut c_void,
    pub(crate) deleter: Option<unsafe extern "C" fn(*mut Self)>,
    pub(crate) flags: u64,
    pub(crate) tensor: Tensor,
}

/// What a capsule says of its array.
pub(crate) struct Lent {
    pub(crate) at: *mut u8,
    pub(crate) device_type: i32,
    pub(crate) device_id: i32,
    pub(crate) kind: Option<Kind>,
    pub(crate) shape: Vec<usize>,
    /// In bytes.
    pub(crate) strides: Vec<isize>,
    pub(crate) read_only: bool,
}

impl Lent {
    /// Reads a capsule, which is not taken: it goes when the caller's reference does, which gives the loan
    /// back.
    pub(crate) fn of(capsule: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let (tensor, read_only) = match pointer(capsule, Some(VERSIONED)) {
            Ok(at) => {
                // SAFETY: what a capsule of that name leads to; it lives.
                let managed = unsafe { &*at.cast::<ManagedVersioned>() };
                if managed.major != 1 {
                    let text = format!("{name}: DLPack {}.{}", managed.major, managed.minor);
                    return Err(PyBufferError::new_err(text));
                }
                (&managed.tensor, managed.flags & READ_ONLY != 0)
            }
            Err(_) => {
                let at = pointer(capsule, Some(UNVERSIONED))?.cast::<Managed>();
                // SAFETY: as above.
                (&unsafe { &*at }.tensor, false)
            }
        };
        let Tensor {
            data,
            device_type,
            device_id,
            ndim,
            code,
            bits,
            lanes,
            shape,
            strides,
            byte_offset,
        } = *tensor;
        let dimensions = usize::try_from(ndim).unwrap_or(0);
        // SAFETY: what DLPack promises.
        let shape = unsafe { numbers(shape, dimensions) };
        let shape: Vec<usize> =
            shape.iter().map(|&count| usize::try_from(count).unwrap_or(0)).collect();
        let kind = if lanes == 1 { Kind::of_dlpack(code, bits) } else { None };
        let size = kind.map_or(0, Kind::size).cast_signed();
        let strides = if strides.is_null() {
            contiguous(&shape, size)
        } else {
            // SAFETY: what DLPack promises.
            let strides = unsafe { numbers(strides, dimensions) };
            let bytes = |&stride: &i64| isize::try_from(stride).ok()?.checked_mul(size);
            let bytes: Option<Vec<isize>> = strides.iter().map(bytes).collect();
            bytes.ok_or_else(|| PyValueError::new_err(format!("{name}: a stride is too large")))?
        };
        let offset = isize::try_from(byte_offset).unwrap_or(0);
        let at = data.cast::<u8>().wrapping_offset(offset);
        Ok(Self { at, device_type, device_id, kind, shape, strides, read_only })
    }
}

/// Strides of an array whose last dimension is contiguous, in bytes.
pub(crate) fn contiguous(shape: &[usize], size: isize) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut stride = size;
    for (own, &count) in strides.iter_mut().zip(shape).rev() {
        *own = stride;
        stride = stride.saturating_mul(count.max(1).cast_signed());
    }
    strides
}

/// Numbers at an address that may be null where there are none.
///
/// # Safety
/// There are as many.
pub(crate) unsafe fn numbers<'a, T>(at: *const T, count: usize) -> &'a [T] {
    if count == 0 || at.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { slice::from_raw_parts(at, count) }
}

/// What a capsule of that name leads to.
pub(crate) fn pointer(capsule: &Bound<'_, PyAny>, name: Option<&CStr>) -> PyResult<*mut u8> {
    let name = name.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: an object, and a text that lives; what is no such capsule is an error.
    let at = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name) };
    if at.is_null() { Err(PyErr::fetch(capsule.py())) } else { Ok(at.cast()) }
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
