//! Which matrix units this process may use.

use std::fmt;

#[cfg(target_arch = "x86_64")]
use crate::amx::{Amx, NoAmx};

/// Why this process has no matrix units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoUnits {
    #[cfg(target_arch = "x86_64")]
    reason: NoAmx,
}

impl fmt::Display for NoUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(target_arch = "x86_64")]
        return self.reason.fmt(f);
        #[cfg(not(target_arch = "x86_64"))]
        f.write_str("the engine knows no matrix units of this architecture")
    }
}

impl std::error::Error for NoUnits {}

/// The name of the matrix units that this process may use. The first call asks the system for them.
///
/// # Errors
/// [`NoUnits`], with the reason.
pub fn matrix_units() -> Result<&'static str, NoUnits> {
    #[cfg(target_arch = "x86_64")]
    return Amx::request().map(|_| "AMX").map_err(|reason| NoUnits { reason });
    #[cfg(not(target_arch = "x86_64"))]
    Err(NoUnits {})
}
