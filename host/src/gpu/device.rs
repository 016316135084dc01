//! The laboratory's hold on a GPU: the library's, with a context and a stream by `cust`.

use std::ops::Deref;

use cust::context::{Context, CurrentContext};
use cust::device::Device;
use cust::stream::{Stream, StreamFlags};
use tessera::gpu::KernelCode;

use super::refused;
use crate::error::Error;

/// Names the form in which GPUs take their kernels.
pub(crate) const CODE_VARIABLE: &str = "TESSERA_KERNEL_CODE";

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
    /// Opens the GPU of that number, which takes its kernels as [`kernel_code`] says.
    ///
    /// # Errors
    /// As [`tessera::gpu::Gpu::open`] and [`kernel_code`].
    pub fn open(index: u32) -> Result<Self, Error> {
        let library = tessera::gpu::Gpu::open_with(index, kernel_code()?)?;
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

/// The form in which GPUs take their kernels: PTX, which the driver compiles, where
/// `TESSERA_KERNEL_CODE` is `ptx`; machine code where it is `machine` or not set.
///
/// # Errors
/// [`Error::Variable`] where it is anything else.
pub fn kernel_code() -> Result<KernelCode, Error> {
    named(std::env::var_os(CODE_VARIABLE).map(|name| name.to_string_lossy().into_owned()))
}

fn named(value: Option<String>) -> Result<KernelCode, Error> {
    match value.as_deref() {
        None | Some("machine") => Ok(KernelCode::MachineCode),
        Some("ptx") => Ok(KernelCode::Ptx),
        Some(other) => Err(Error::Variable {
            name: CODE_VARIABLE,
            value: other.to_owned(),
            takes: "machine or ptx",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_names_the_form_or_is_refused() {
        assert_eq!(named(None).unwrap(), KernelCode::MachineCode);
        assert_eq!(named(Some("machine".to_owned())).unwrap(), KernelCode::MachineCode);
        assert_eq!(named(Some("ptx".to_owned())).unwrap(), KernelCode::Ptx);
        let refused = named(Some("PTX".to_owned())).unwrap_err().to_string();
        assert_eq!(refused, "TESSERA_KERNEL_CODE is `PTX`; it takes machine or ptx");
    }
}
