//! Structures that the driver takes as they are in memory.

use std::ffi::{c_int, c_uint};
use std::mem::{align_of, offset_of, size_of};

use std::ffi::c_void;

use crate::{DevicePtr, RawStream};

/// `CUlaunchAttribute`. The driver's value is a union of 64 bytes; the attributes used here begin
/// with one, two or three 32-bit words, and the rest is zero.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct RawLaunchAttribute {
    pub(crate) id: c_int,
    padding: [u8; 4],
    pub(crate) value: [u32; 16],
}

impl RawLaunchAttribute {
    /// `CU_LAUNCH_ATTRIBUTE_IGNORE`.
    pub(crate) const IGNORE: Self = Self::new(0, [0; 3]);

    pub(crate) const fn new(id: c_int, [x, y, z]: [u32; 3]) -> Self {
        Self { id, padding: [0; 4], value: [x, y, z, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] }
    }
}

/// `CUlaunchConfig`.
#[repr(C)]
pub(crate) struct RawLaunchConfig {
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
    pub(crate) stream: RawStream,
    pub(crate) attributes: *mut RawLaunchAttribute,
    pub(crate) attribute_count: c_uint,
}

const _: () = {
    assert!(size_of::<RawLaunchAttribute>() == 72 && align_of::<RawLaunchAttribute>() == 8);
    assert!(offset_of!(RawLaunchAttribute, value) == 8);
    // The rest holds where pointers have 64 bits, as on every platform that the driver serves.
    if size_of::<usize>() == 8 {
        assert!(size_of::<RawLaunchConfig>() == 56 && align_of::<RawLaunchConfig>() == 8);
        assert!(offset_of!(RawLaunchConfig, block) == 12);
        assert!(offset_of!(RawLaunchConfig, shared_bytes) == 24);
        assert!(offset_of!(RawLaunchConfig, stream) == 32);
        assert!(offset_of!(RawLaunchConfig, attributes) == 40);
        assert!(offset_of!(RawLaunchConfig, attribute_count) == 48);
    }
};

/// `CUDA_MEMCPY2D`: lines of `width` bytes, from one matrix of bytes to another.
#[repr(C)]
pub(crate) struct RawCopy2d {
    pub(crate) from: RawPlace2d,
    pub(crate) to: RawPlace2d,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// One side of a [`RawCopy2d`].
#[repr(C)]
pub(crate) struct RawPlace2d {
    x_in_bytes: usize,
    y: usize,
    memory_type: c_uint,
    host: *mut c_void,
    device: DevicePtr,
    array: *mut c_void,
    pitch: usize,
}

impl RawPlace2d {
    /// `CU_MEMORYTYPE_HOST` and `CU_MEMORYTYPE_DEVICE`.
    const HOST: c_uint = 1;
    const DEVICE: c_uint = 2;

    /// A matrix on the device.
    pub(crate) const fn on_device(device: DevicePtr, pitch: usize) -> Self {
        Self { memory_type: Self::DEVICE, device, ..Self::on_host(std::ptr::null_mut(), pitch) }
    }

    /// A matrix in host memory.
    pub(crate) const fn on_host(host: *mut c_void, pitch: usize) -> Self {
        let array = std::ptr::null_mut();
        Self { x_in_bytes: 0, y: 0, memory_type: Self::HOST, host, device: 0, array, pitch }
    }
}

const _: () = {
    if size_of::<usize>() == 8 {
        assert!(size_of::<RawPlace2d>() == 56 && offset_of!(RawPlace2d, host) == 24);
        assert!(size_of::<RawCopy2d>() == 128 && offset_of!(RawCopy2d, width) == 112);
    }
};

/// `CUtensorMap`: 128 opaque bytes, handed to a kernel by value.
///
/// It holds the tensor's address, so it is good for that allocation and no longer than it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct TensorMap {
    pub(crate) words: [u64; 16],
}

impl TensorMap {
    /// Its bytes, to be copied into the parameters of a launch.
    #[must_use]
    pub const fn words(&self) -> [u64; 16] {
        self.words
    }
}

const _: () = assert!(size_of::<TensorMap>() == 128 && align_of::<TensorMap>() == 64);
