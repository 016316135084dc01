//! What one of the bounds on a process's memory leaves.

/// Memory that can still be had, as one of the bounds on it says.
pub(super) struct Free {
    pub(super) bytes: u64,
    /// In words what the bound is, where it is not the machine's own memory.
    pub(super) limit: Option<String>,
}
