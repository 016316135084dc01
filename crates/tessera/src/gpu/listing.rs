//! What GPUs there are, or why there is none.

use cuda_lazy::{DeviceAttribute, Driver};

use super::refused;
use crate::device_info::DeviceInfo;
use crate::error::Error;

/// The driver.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DriverInfo {
    /// Newest CUDA version that the driver serves.
    pub cuda: String,
    /// The kernel driver's own version, where the system tells it.
    pub version: Option<String>,
}

/// What an SM of a GPU holds, and how its memory is clocked, as the driver tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Most threads of a block.
    pub threads_per_block: u32,
    /// Most threads on an SM.
    pub threads_per_sm: u32,
    /// Most blocks on an SM.
    pub blocks_per_sm: u32,
    /// Bytes of shared memory on an SM.
    pub shared_per_sm: u32,
    /// Bytes of shared memory that the driver keeps of each block.
    pub shared_reserved: u32,
    /// Highest clock of the memory in kHz.
    pub memory_khz: u32,
    /// Width of the memory's bus in bits.
    pub bus_bits: u32,
}

/// Loads and starts the driver, once for the process.
pub(super) fn start() -> Result<&'static Driver, Error> {
    let driver =
        cuda_lazy::load().map_err(|error| Error::NoDevice { reason: error.to_string() })?;
    driver.init().map_err(|error| Error::NoDevice { reason: error.to_string() })?;
    Ok(driver)
}

/// The driver's versions.
///
/// # Errors
/// [`Error::NoDevice`] where there is no driver.
pub fn driver() -> Result<DriverInfo, Error> {
    let cuda = start()?
        .version()
        .map_err(|error| Error::NoDevice { reason: error.to_string() })?
        .to_string();
    let version = std::fs::read_to_string("/sys/module/nvidia/version")
        .ok()
        .map(|text| text.trim().to_owned());
    Ok(DriverInfo { cuda, version })
}

/// How many GPUs this process may use; `CUDA_VISIBLE_DEVICES` narrows them.
pub(super) fn count() -> Result<u32, Error> {
    let count = start()?.device_count().map_err(refused("counting the devices"))?;
    if count == 0 {
        let reason = match std::env::var("CUDA_VISIBLE_DEVICES") {
            Ok(visible) => format!(
                "the driver shows none with CUDA_VISIBLE_DEVICES=`{visible}`; \
                 unset it to see all of them"
            ),
            Err(_) => "the driver shows none".to_owned(),
        };
        return Err(Error::NoDevice { reason });
    }
    Ok(count)
}

/// Every GPU that this process may use.
///
/// # Errors
/// [`Error::NoDevice`] with the reason where there is none.
pub fn devices() -> Result<Vec<DeviceInfo>, Error> {
    (0..count()?).map(describe).collect()
}

/// An attribute of a GPU; one that is negative counts as 0.
fn attribute(index: u32, device: i32, attribute: DeviceAttribute) -> Result<u32, Error> {
    let value = start()?.device_attribute(device, attribute);
    let value = value.map_err(|error| refused(format!("describing device {index}"))(error))?;
    Ok(u32::try_from(value).unwrap_or(0))
}

/// What the GPU of that number holds.
///
/// # Errors
/// [`Error::NoDevice`] and [`Error::NoSuchDevice`] where it is not there, [`Error::Cuda`].
pub fn capacity(index: u32) -> Result<Capacity, Error> {
    let count = count()?;
    if index >= count {
        return Err(Error::NoSuchDevice { index, count });
    }
    let device = start()?.device(index).map_err(refused(format!("describing device {index}")))?;
    let attribute = |which| attribute(index, device, which);
    Ok(Capacity {
        threads_per_block: attribute(DeviceAttribute::MAX_THREADS_PER_BLOCK)?,
        threads_per_sm: attribute(DeviceAttribute::MAX_THREADS_PER_MULTIPROCESSOR)?,
        blocks_per_sm: attribute(DeviceAttribute::MAX_BLOCKS_PER_MULTIPROCESSOR)?,
        shared_per_sm: attribute(DeviceAttribute::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
        shared_reserved: attribute(DeviceAttribute::RESERVED_SHARED_MEMORY_PER_BLOCK)?,
        memory_khz: attribute(DeviceAttribute::MEMORY_CLOCK_RATE)?,
        bus_bits: attribute(DeviceAttribute::GLOBAL_MEMORY_BUS_WIDTH)?,
    })
}

/// One GPU, by its number.
pub(super) fn describe(index: u32) -> Result<DeviceInfo, Error> {
    let during = || format!("describing device {index}");
    let driver = start()?;
    let device = driver.device(index).map_err(refused(during()))?;
    let attribute = |which| attribute(index, device, which);
    Ok(DeviceInfo {
        index,
        name: driver.device_name(device).map_err(refused(during()))?,
        compute_capability: (
            attribute(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR)?,
            attribute(DeviceAttribute::COMPUTE_CAPABILITY_MINOR)?,
        ),
        multiprocessors: attribute(DeviceAttribute::MULTIPROCESSOR_COUNT)?,
        clock_mhz: attribute(DeviceAttribute::CLOCK_RATE)? / 1000,
        memory_bytes: driver.device_total_memory(device).map_err(refused(during()))?,
        l2_bytes: u64::from(attribute(DeviceAttribute::L2_CACHE_SIZE)?),
        shared_bytes_per_block: attribute(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
    })
}
