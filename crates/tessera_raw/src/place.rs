//! By what a product is computed.

use std::num::NonZeroUsize;

use cpu_gemm::CpuContext;
use tessera::Engine;

/// The engine that computes a product, and the most threads that it may use for it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'e> {
    /// The engine.
    pub engine: &'e Engine,
    /// The largest number of its threads; all of them if `None`.
    pub threads: Option<NonZeroUsize>,
}

impl<'e> Place<'e> {
    /// On all threads of an engine.
    #[must_use]
    pub fn of(engine: &'e Engine) -> Self {
        Self { engine, threads: None }
    }

    /// The threads of the product.
    pub(crate) fn context(&self) -> CpuContext {
        let context = self.engine.cpu_context();
        let all = NonZeroUsize::new(context.threads()).unwrap_or(NonZeroUsize::MIN);
        context.limited_to(self.threads.unwrap_or(all))
    }
}
