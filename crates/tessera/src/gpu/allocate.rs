//! Device memory of a context.

use cuda_lazy::DeviceMemory;

use super::context::Context;
use super::refused;
use crate::error::Error;

/// Allocates device memory, whose content is whatever it was.
pub(super) fn allocate(context: &Context, bytes: u64, what: &str) -> Result<DeviceMemory, Error> {
    let short = || Error::OutOfMemory {
        what: format!("{what} on {context:?}"),
        needed: u128::from(bytes),
        available: None,
    };
    let len = usize::try_from(bytes).map_err(|_| short())?;
    DeviceMemory::new(context.driver_context(), len).map_err(|error| {
        if error.is_out_of_memory() {
            return short();
        }
        refused(format!("allocating {what}"))(error)
    })
}
