//! The laboratory's hold on a GPU: the library's, with a context and a stream by `cust`.

use std::ops::Deref;

use cust::context::{Context, CurrentContext};
use cust::device::Device;
use cust::stream::{Stream, StreamFlags};

use super::refused;
use crate::error::Error;

/// A GPU whose operands, streams and events `cust` holds, and on which the library's kernels run.
///
/// Both share the device's primary context.
pub struct Gpu {
    // Dropped in this order: what is in the context goes before the context.
    stream: Stream,
    library: tessera::gpu::Gpu,
    context: Context,
}

impl Gpu {
    /// Opens the GPU of that number.
    ///
    /// # Errors
    /// As [`tessera::gpu::Gpu::open`].
    pub fn open(index: u32) -> Result<Self, Error> {
        let library = tessera::gpu::Gpu::open(index)?;
        let during = || format!("opening device {index} ({})", library.info().name);
        let device = Device::get_device(index).map_err(refused(during()))?;
        let context = Context::new(device).map_err(refused(during()))?;
        CurrentContext::set_current(&context).map_err(refused(during()))?;
        let stream = Stream::new(StreamFlags::NON_BLOCKING, None).map_err(refused(during()))?;
        Ok(Self { stream, library, context })
    }

    /// The library's GPU.
    #[must_use]
    pub fn library(&self) -> &tessera::gpu::Gpu {
        &self.library
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Makes this device's context the current one of the calling thread.
    pub(super) fn enter(&self) -> Result<(), Error> {
        CurrentContext::set_current(&self.context)
            .map_err(refused(format!("using device {}", self.library.info().index)))
    }
}

impl Deref for Gpu {
    type Target = tessera::gpu::Gpu;

    fn deref(&self) -> &tessera::gpu::Gpu {
        &self.library
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // The stream is freed in its own context, whatever thread drops this.
        let _ = CurrentContext::set_current(&self.context);
    }
}
