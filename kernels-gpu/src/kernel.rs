//! The handle of a kernel.

use std::fmt;
use std::ops::Deref;

use gemm_spec::KernelSpec;

/// A kernel of the registry, whose [`KernelSpec`] it dereferences to.
///
/// Only the registry makes one: a specification decides how a kernel is launched, so one that anybody
/// could write would let safe code launch a kernel with blocks or memory that it is not made for.
#[derive(Clone, Copy)]
pub struct Kernel(&'static KernelSpec);

impl Kernel {
    pub(crate) const fn of(spec: &'static KernelSpec) -> Self {
        Self(spec)
    }

    /// The specification.
    #[must_use]
    pub const fn spec(self) -> &'static KernelSpec {
        self.0
    }

    /// The kernel of that name, if there is one.
    #[must_use]
    pub fn named(id: &str) -> Option<Self> {
        crate::KERNELS.iter().copied().find(|kernel| kernel.id == id)
    }
}

impl Deref for Kernel {
    type Target = KernelSpec;

    fn deref(&self) -> &KernelSpec {
        self.0
    }
}

impl PartialEq for Kernel {
    fn eq(&self, other: &Self) -> bool {
        // The registry is a constant, of which each crate may have a copy: addresses tell nothing.
        self.0.id == other.0.id
    }
}

impl Eq for Kernel {}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kernel").field(&self.id).finish()
    }
}
