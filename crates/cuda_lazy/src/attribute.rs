//! Numbers that describe devices and kernels, open to those that this crate does not name.

use std::fmt;

/// A device attribute (`CUdevice_attribute`). Any of the driver's numbers may be wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceAttribute(pub i32);

impl DeviceAttribute {
    /// Most threads of one block.
    pub const MAX_THREADS_PER_BLOCK: Self = Self(1);
    /// Peak clock of the SMs, in kHz.
    pub const CLOCK_RATE: Self = Self(13);
    /// Number of SMs.
    pub const MULTIPROCESSOR_COUNT: Self = Self(16);
    /// Peak clock of the memory, in kHz.
    pub const MEMORY_CLOCK_RATE: Self = Self(36);
    /// Width of the memory bus, in bits.
    pub const GLOBAL_MEMORY_BUS_WIDTH: Self = Self(37);
    /// Bytes of the L2 cache.
    pub const L2_CACHE_SIZE: Self = Self(38);
    /// Most threads on one SM.
    pub const MAX_THREADS_PER_MULTIPROCESSOR: Self = Self(39);
    /// Major compute capability.
    pub const COMPUTE_CAPABILITY_MAJOR: Self = Self(75);
    /// Minor compute capability.
    pub const COMPUTE_CAPABILITY_MINOR: Self = Self(76);
    /// Bytes of shared memory on one SM.
    pub const MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: Self = Self(81);
    /// Most bytes of shared memory that one block may ask for.
    pub const MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: Self = Self(97);
    /// Most blocks on one SM.
    pub const MAX_BLOCKS_PER_MULTIPROCESSOR: Self = Self(106);
    /// Bytes of shared memory that the driver keeps of each block.
    pub const RESERVED_SHARED_MEMORY_PER_BLOCK: Self = Self(111);
    /// 1 where kernels may be launched in clusters.
    pub const CLUSTER_LAUNCH: Self = Self(120);
    /// 1 where kernels may read through tensor maps.
    pub const TENSOR_MAP_ACCESS_SUPPORTED: Self = Self(127);
}

/// A kernel's attribute (`CUfunction_attribute`). Any of the driver's numbers may be wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FunctionAttribute(pub i32);

impl FunctionAttribute {
    /// Most threads per block that the kernel can be launched with.
    pub const MAX_THREADS_PER_BLOCK: Self = Self(0);
    /// Bytes of static shared memory.
    pub const SHARED_SIZE_BYTES: Self = Self(1);
    /// Bytes of local memory per thread: spills and stack.
    pub const LOCAL_SIZE_BYTES: Self = Self(3);
    /// Registers per thread.
    pub const NUM_REGS: Self = Self(4);
    /// Compute capability times ten that the PTX was written for.
    pub const PTX_VERSION: Self = Self(5);
    /// Compute capability times ten that the machine code was made for.
    pub const BINARY_VERSION: Self = Self(6);
    /// Most bytes of dynamic shared memory; to be set before a launch that asks for over 48 KiB.
    pub const MAX_DYNAMIC_SHARED_SIZE_BYTES: Self = Self(8);
    /// Wanted share of the SM's memory for shared memory, in percent, or -1.
    pub const PREFERRED_SHARED_MEMORY_CARVEOUT: Self = Self(9);
    /// 1 to allow clusters larger than every device of the architecture serves.
    pub const NON_PORTABLE_CLUSTER_SIZE_ALLOWED: Self = Self(14);
}

/// Which device it is, the same in every process; shown as `nvidia-smi` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Uuid(pub [u8; 16]);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GPU-")?;
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// The newest CUDA version that a driver serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DriverVersion {
    /// Major version: 13 of 13.0.
    pub major: u32,
    /// Minor version: 0 of 13.0.
    pub minor: u32,
}

impl DriverVersion {
    /// From the driver's form, 1000 times major plus 10 times minor.
    pub(crate) const fn from_raw(raw: i32) -> Self {
        let raw = raw.unsigned_abs();
        Self { major: raw / 1000, minor: raw % 1000 / 10 }
    }
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_and_shown() {
        assert_eq!(DriverVersion::from_raw(12080).to_string(), "12.8");
        assert!(DriverVersion::from_raw(13000) > DriverVersion { major: 12, minor: 9 });
    }

    #[test]
    fn a_uuid_is_shown_in_five_groups() {
        let mut bytes = 0..16;
        let uuid = Uuid(std::array::from_fn(|_| bytes.next().unwrap()));
        assert_eq!(uuid.to_string(), "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
    }
}
