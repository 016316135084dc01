//! How much memory this process can still get, and what ends it: the machine, a control group, or a limit
//! of the process itself.

use std::fs;
use std::path::Path;

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use super::free::Free;
use super::groups;
use crate::error::Error;

/// Bytes of memory that a process could still get; `None` where the system does not tell.
#[must_use]
pub fn available_memory() -> Option<u64> {
    least().map(|free| free.bytes)
}

/// Refuses what would not fit into the memory that can still be had. Where the system does not tell how
/// much that is, nothing is refused.
///
/// # Errors
/// [`tessera::Error::OutOfMemory`] and [`Error::MemoryLimit`].
pub(crate) fn check_memory(what: &str, needed: u128) -> Result<(), Error> {
    match least() {
        Some(free) if needed > u128::from(free.bytes) => Err(short(what, needed, Some(free))),
        _ => Ok(()),
    }
}

/// The error of an allocation that the system has refused.
pub(crate) fn short_of_memory(what: &str, needed: u128) -> Error {
    short(what, needed, least())
}

fn short(what: &str, needed: u128, free: Option<Free>) -> Error {
    let what = what.to_owned();
    let (available, limit) = free.map_or((0, None), |free| (u128::from(free.bytes), free.limit));
    match limit {
        Some(limit) => Error::MemoryLimit { what, needed, available, limit },
        None => {
            let available = Some(available);
            tessera::Error::OutOfMemory { what, needed, available }.into()
        }
    }
}

/// The tightest of all bounds.
fn least() -> Option<Free> {
    let proc = Path::new("/proc");
    let bounds = machine().into_iter().chain(groups::bounds(proc)).chain(address_space(proc));
    bounds.min_by_key(|free| free.bytes)
}

/// What the machine has left.
fn machine() -> Option<Free> {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let system = System::new_with_specifics(memory).ok()?;
    Some(Free { bytes: system.available_memory(), limit: None })
}

/// What `ulimit -v` leaves.
fn address_space(proc: &Path) -> Option<Free> {
    let limits = fs::read_to_string(proc.join("self/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    // No number where there is no limit.
    let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
    let status = fs::read_to_string(proc.join("self/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let used: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Free {
        bytes: limit.saturating_sub(used << 10),
        limit: Some(format!("the {limit} bytes of address space (RLIMIT_AS, `ulimit -v`)")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_on_the_address_space_counts_what_is_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let proc = |limit: &str| {
            let own = folder.path().join("self");
            fs::create_dir_all(&own).unwrap();
            let limits = format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max data size             unlimited            unlimited            bytes     \n\
                 Max address space         {limit:<20} unlimited            bytes     \n"
            );
            fs::write(own.join("limits"), limits).unwrap();
            fs::write(own.join("status"), "Name:\tx\nVmPeak:\t  9 kB\nVmSize:\t    3 kB\n")
                .unwrap();
            address_space(folder.path())
        };
        assert!(proc("unlimited").is_none());
        let free = proc("10000").unwrap();
        assert_eq!(free.bytes, 10_000 - 3 * 1024);
        let said = short("C", 7000, Some(free)).to_string();
        let limit = "6928 are left of the 10000 bytes of address space (RLIMIT_AS, `ulimit -v`)";
        assert_eq!(
            said,
            format!("C needs 7000 bytes, {limit}; raise that or choose a smaller size")
        );
        assert_eq!(proc("10").unwrap().bytes, 0);
    }

    #[test]
    fn what_fits_is_not_refused() {
        check_memory("a byte", 1).unwrap();
        let error = check_memory("more than there is", u128::MAX).unwrap_err();
        assert!(error.is_out_of_memory(), "{error}");
    }
}
