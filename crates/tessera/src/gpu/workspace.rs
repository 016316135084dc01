//! Memory that launches use besides their operands, kept from one product to the next.

use std::sync::{Mutex, PoisonError, TryLockError};

use cuda_lazy::{DeviceMemory, DevicePtr, RawStream};

use super::Gpu;
use super::queue::Queue;
use crate::error::Error;

/// One workspace for each stream: what a stream is given runs in order, so one product's use of its
/// workspace ends before the next one's begins, and products in other streams do not meet it.
#[derive(Default)]
pub(super) struct Workspaces(Mutex<Vec<Workspace>>);

struct Workspace {
    /// The address of the stream's handle.
    stream: usize,
    memory: DeviceMemory,
}

impl Workspaces {
    /// Bytes of all of them, where no product is being put into a stream.
    pub(super) fn bytes(&self) -> u64 {
        self.idle().map_or(0, |all| all.iter().map(|one| one.memory.len() as u64).sum())
    }

    /// Frees them, but for those of a product that is just being put into a stream.
    pub(super) fn clear(&self) {
        if let Some(mut all) = self.idle() {
            // The driver waits for work that still uses the memory.
            all.clear();
        }
    }

    fn idle(&self) -> Option<std::sync::MutexGuard<'_, Vec<Workspace>>> {
        match self.0.try_lock() {
            Ok(all) => Some(all),
            Err(TryLockError::Poisoned(all)) => Some(all.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Queue<'_> {
    /// Calls with the address of a workspace of at least that many bytes, whose content is whatever it was.
    /// Other threads that put products with a workspace into a stream wait meanwhile: the launches of one
    /// product are not mixed with those of another.
    pub(super) fn with_workspace<R>(
        &self,
        bytes: u64,
        call: impl FnOnce(DevicePtr) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut all = self.gpu.workspaces().0.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = key(self.stream());
        let found = all.iter().position(|one| one.stream == stream);
        let fits = |at: usize| all[at].memory.len() as u64 >= bytes;
        let at = match found {
            Some(at) if fits(at) => at,
            _ => {
                // The old one goes first: there may be no room for both. The driver waits for its users.
                if let Some(at) = found {
                    all.swap_remove(at);
                }
                let what = format!("the workspace of a product on {}", self.gpu.info().name);
                let memory = match self.gpu.allocate(bytes, &what) {
                    Err(Error::OutOfMemory { .. }) => {
                        // Those of other streams are worth less than this product.
                        all.clear();
                        self.gpu.allocate(bytes, &what)?
                    }
                    other => other?,
                };
                all.push(Workspace { stream, memory });
                all.len() - 1
            }
        };
        call(all[at].memory.address())
    }
}

impl Gpu {
    /// Fills the workspaces with bytes of that value, for tests which show that nothing is read there
    /// before it was written.
    ///
    /// # Errors
    /// [`Error::Cuda`].
    #[doc(hidden)]
    pub fn fill_workspaces(&self, value: u8) -> Result<(), Error> {
        let mut all = self.workspaces().0.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = || super::refused("filling a workspace");
        self.context().synchronize()?;
        for one in all.iter_mut() {
            let bytes = vec![value; one.memory.len()];
            one.memory.write(0, &bytes).map_err(failed())?;
        }
        Ok(())
    }
}

/// What tells one stream from another.
fn key(stream: RawStream) -> usize {
    stream.addr()
}
