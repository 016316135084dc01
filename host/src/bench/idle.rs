//! Waiting until nothing else keeps the machine busy.

use std::time::{Duration, Instant};

use sysinfo::{CpuRefreshKind, MINIMUM_CPU_UPDATE_INTERVAL, RefreshKind, System};

/// Share of all cores' time up to which a machine counts as idle: what a desktop or a shell takes.
pub const IDLE: f64 = 0.12;

/// Waits until the machine is idle, or the patience is at its end; gives the share of all cores' time
/// that was in use last. `None` where the system does not tell.
#[must_use]
pub fn wait(patience: Duration) -> Option<f64> {
    let kind = RefreshKind::nothing().with_cpu(CpuRefreshKind::nothing().with_usage());
    let mut system = System::new_with_specifics(kind).ok()?;
    until_idle(patience, || {
        std::thread::sleep(MINIMUM_CPU_UPDATE_INTERVAL);
        system.refresh_cpu_usage();
        f64::from(system.global_cpu_usage()) / 100.0
    })
}

/// Looks until a look shows an idle machine or the patience is at its end; once at least.
fn until_idle(patience: Duration, mut look: impl FnMut() -> f64) -> Option<f64> {
    let started = Instant::now();
    loop {
        let busy = look();
        if !busy.is_finite() {
            return None;
        }
        if busy < IDLE || started.elapsed() >= patience {
            return Some(busy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_for_idleness_and_no_longer_than_it_may() {
        let mut looks = [0.9, 0.5, 0.05, 0.0].into_iter();
        let look = || looks.next().unwrap_or(1.0);
        assert_eq!(until_idle(Duration::from_secs(60), look), Some(0.05));
        assert_eq!(until_idle(Duration::ZERO, || 0.9), Some(0.9));
        let mut count = 0;
        let busy = until_idle(Duration::from_millis(20), || {
            count += 1;
            std::thread::sleep(Duration::from_millis(5));
            0.9
        });
        assert!(busy == Some(0.9) && (2..=5).contains(&count), "{count} looks");
        assert_eq!(until_idle(Duration::ZERO, || f64::NAN), None);
    }
}
