//! What this machine is: processor, memory, features.

use serde::Serialize;
use sysinfo::{CpuRefreshKind, MemoryRefreshKind, RefreshKind, System};

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
    /// Operating system and its version.
    pub os: String,
}

impl Machine {
    /// Looks at the machine.
    #[must_use]
    pub fn probe() -> Self {
        let system = System::new_with_specifics(
            RefreshKind::nothing()
                .with_cpu(CpuRefreshKind::nothing())
                .with_memory(MemoryRefreshKind::nothing().with_ram()),
        );
        let cpu = system.cpus().first().map_or("", |cpu| cpu.brand()).trim();
        Self {
            cpu: if cpu.is_empty() { std::env::consts::ARCH } else { cpu }.to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            features: features(),
            memory_bytes: system.total_memory(),
            os: System::long_os_version().unwrap_or_else(|| std::env::consts::OS.to_owned()),
        }
    }
}

/// Bytes of memory that a process could still get.
#[must_use]
pub fn available_memory() -> u64 {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(memory);
    // A container's own limit is the tighter one where it is set.
    match system.cgroup_limits() {
        Some(limits) if limits.total_memory > 0 => {
            system.available_memory().min(limits.free_memory)
        }
        _ => system.available_memory(),
    }
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
