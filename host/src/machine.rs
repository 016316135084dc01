//! What this machine is: processor, memory, features.

mod free;
mod groups;
mod memory;

use serde::Serialize;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

pub use self::memory::available_memory;
pub(crate) use self::memory::{check_memory, short_of_memory};

/// The host that a run took place on.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Processor as it names itself.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Vector features that the CPU implementations can make use of.
    pub features: Vec<&'static str>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Largest cache in bytes, where the system tells it.
    pub cache_bytes: Option<u64>,
    /// Operating system and its version.
    pub os: String,
}

impl Machine {
    /// Looks at the machine.
    #[must_use]
    pub fn probe() -> Self {
        let wanted = RefreshKind::nothing()
            .with_cpu(CpuRefreshKind::nothing())
            .with_memory(MemoryRefreshKind::nothing().with_ram());
        let system = System::new_with_specifics(wanted).ok();
        let cpus = system.as_ref().map(System::cpus).unwrap_or_default();
        let cpu = cpus.first().map_or("", |cpu| cpu.brand()).trim();
        Self {
            cpu: if cpu.is_empty() { std::env::consts::ARCH } else { cpu }.to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            features: features(),
            memory_bytes: system.as_ref().map_or(0, System::total_memory),
            cache_bytes: largest_cache(),
            os: System::long_os_version().unwrap_or_else(|_| std::env::consts::OS.to_owned()),
        }
    }
}

/// The largest of the first processor's caches, from Linux's own files.
fn largest_cache() -> Option<u64> {
    let folder = std::fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let sizes = folder.filter_map(|index| {
        let text = std::fs::read_to_string(index.ok()?.path().join("size")).ok()?;
        let kibibytes: u64 = text.trim().strip_suffix('K')?.parse().ok()?;
        Some(kibibytes << 10)
    });
    sizes.max()
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<&'static str> {
    [
        ("fma", is_x86_feature_detected!("fma")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
        ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
    ]
    .into_iter()
    .filter_map(|(name, present)| present.then_some(name))
    .collect()
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<&'static str> {
    vec!["neon"]
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<&'static str> {
    Vec::new()
}
