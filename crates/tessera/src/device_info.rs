//! The attributes of a GPU.

/// One GPU.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DeviceInfo {
    /// Its number, as `--device cuda:I` takes it.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// SMs.
    pub multiprocessors: u32,
    /// Highest clock in MHz.
    pub clock_mhz: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// L2 in bytes.
    pub l2_bytes: u64,
    /// Shared memory that one block may have, in bytes, after opting in.
    pub shared_bytes_per_block: u32,
}
