//! The driver that tests of the GPU path stand on: the emulated one or, where that is asked for, the real one.

#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "not every test has operands of its own; what they have in common fails where it does"
)]
pub(crate) mod memory;

use std::sync::{Mutex, MutexGuard, PoisonError};

use tessera::gpu::Kernel;

/// The driver's counters and memory are those of the process.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if emulated() {
        cuda_emulated::install();
    }
    guard
}

/// Whether the tests are of the emulated driver.
pub(crate) fn emulated() -> bool {
    std::env::var_os("GEMM_REQUIRE_GPU").is_none_or(|value| value != "1")
}

/// Fails where the emulated driver was used as no driver may be.
pub(crate) fn no_faults() {
    assert_eq!(cuda_emulated::faults(), Vec::<String>::new());
}

/// A kernel of the registry.
pub(crate) fn kernel(id: &str) -> Kernel {
    Kernel::named(id).expect("the registry has it")
}
