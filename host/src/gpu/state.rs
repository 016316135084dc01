//! The GPU's clocks, power and temperature while it works, through NVML where there is one.

use std::ffi::OsStr;

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use serde::{Deserialize, Serialize};

/// One look at a GPU. What the driver does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuState {
    /// Clock of the SMs in MHz.
    pub sm_mhz: Option<u32>,
    /// Clock of the memory in MHz.
    pub memory_mhz: Option<u32>,
    /// Power in watts.
    pub watts: Option<f64>,
    /// Temperature in degrees Celsius.
    pub celsius: Option<u32>,
    /// Why the clocks are held down, if they are: a slow-down by heat or power, not idleness.
    pub throttled: Option<String>,
    /// Energy since the driver was loaded, in joules: differences say what a measurement took.
    pub joules: Option<f64>,
}

/// A GPU that can be looked at.
pub struct Watch {
    nvml: Nvml,
    bus_id: String,
}

/// Prepares to look at the GPU of that number; `None` where there is no NVML.
#[must_use]
pub fn watch(index: u32) -> Option<Watch> {
    // The library of the driver's own package; without the version only a toolkit has it.
    let nvml = Nvml::builder()
        .lib_path(OsStr::new("libnvidia-ml.so.1"))
        .init()
        .or_else(|_| Nvml::init())
        .ok()?;
    // NVML counts all devices, CUDA those that CUDA_VISIBLE_DEVICES leaves: the bus tells which.
    let device = i32::try_from(index).ok()?;
    let bus_id = cuda_lazy::load().ok()?.device_pci_bus_id(device).ok()?;
    Some(Watch { nvml, bus_id })
}

impl Watch {
    /// Looks at the GPU now.
    #[must_use]
    pub fn look(&self) -> GpuState {
        let Ok(device) = self.nvml.device_by_pci_bus_id(self.bus_id.as_str()) else {
            return GpuState::default();
        };
        let harmless = ThrottleReasons::GPU_IDLE | ThrottleReasons::APPLICATIONS_CLOCKS_SETTING;
        let throttled = device
            .current_throttle_reasons()
            .ok()
            .map(|reasons| reasons - harmless)
            .filter(|reasons| !reasons.is_empty())
            .map(|reasons| {
                let names: Vec<&str> = reasons.iter_names().map(|(name, _)| name).collect();
                names.join(", ").to_lowercase()
            });
        GpuState {
            sm_mhz: device.clock_info(Clock::SM).ok(),
            memory_mhz: device.clock_info(Clock::Memory).ok(),
            watts: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
            celsius: device.temperature(TemperatureSensor::Gpu).ok(),
            throttled,
            joules: device.total_energy_consumption().ok().map(|mj| mj as f64 / 1e3),
        }
    }
}
