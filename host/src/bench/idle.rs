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
    let started = Instant::now();
    until_idle(patience, || {
        std::thread::sleep(MINIMUM_CPU_UPDATE_INTERVAL);
        system.refresh_cpu_usage();
        (f64::from(system.global_cpu_usage()) / 100.0, started.elapsed())
    })
}

/// Looks until a look shows an idle machine or the patience is at its end; once at least.
/// A look gives the share of time in use and the time since the first look began.
fn until_idle(patience: Duration, mut look: impl FnMut() -> (f64, Duration)) -> Option<f64> {
    loop {
        let (busy, waited) = look();
        if !busy.is_finite() {
            return None;
        }
        if busy < IDLE || waited >= patience {
            return Some(busy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_for_idleness_and_no_longer_than_it_may() {
        // A look a second, by a clock that no load of the machine moves.
        let after_looks = |patience: u64, shares: &[f64]| {
            let mut looks = 0;
            let busy = until_idle(Duration::from_secs(patience), || {
                looks += 1;
                (shares[(looks - 1).min(shares.len() - 1)], Duration::from_secs(looks as u64))
            });
            (busy, looks)
        };
        assert_eq!(after_looks(60, &[0.9, 0.5, 0.05, 0.0]), (Some(0.05), 3));
        assert_eq!(after_looks(0, &[0.9]), (Some(0.9), 1));
        assert_eq!(after_looks(4, &[0.9]), (Some(0.9), 4));
        assert_eq!(after_looks(9, &[0.9, f64::NAN]), (None, 2));
    }
}
