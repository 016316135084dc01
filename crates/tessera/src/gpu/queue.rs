//! Products in a stream of a GPU, with the workspace that the GPU keeps for that stream.

use cuda_lazy::RawStream;
use gemm_spec::plan::{Addresses, Band, Planner};
use gemm_spec::split::FALL_BACK;
use gemm_spec::{Problem, Unsupported};
use kernels_gpu::Kernel;

use super::launch::Launcher;
use super::{Gpu, refused};
use crate::element::GemmTypes;
use crate::error::Error;

impl Gpu {
    /// Puts the launches of `C = alpha * A * B + beta * C` into a stream and returns without waiting.
    ///
    /// Operands are on the device. A kernel's modules are loaded on first use ([`Gpu::load`] does it
    /// before). Memory that a kernel needs besides its operands is kept by this [`Gpu`] for the stream.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the kernel cannot run the problem, [`Error::OutOfMemory`] where its
    /// workspace does not fit, [`Error::Ptx`], and [`Error::Cuda`] where the driver refuses. A kernel that
    /// fails while it runs shows in a later call.
    ///
    /// # Safety
    /// 1. The addresses are of this GPU's context, aligned to their elements, and valid for the problem's
    ///    operands at their leading dimensions; C overlaps neither A nor B.
    /// 2. `stream` is a stream of this GPU's context and outlives its work. Until that is over nobody writes
    ///    A or B, or reads or writes C, but work that this stream orders.
    pub unsafe fn enqueue<T: GemmTypes>(
        &self,
        stream: RawStream,
        kernel: Kernel,
        problem: &Problem<T>,
        addresses: Addresses,
    ) -> Result<(), Error> {
        let queue = Queue::new(self, stream)?;
        // SAFETY: the caller's promises; the product is whole.
        unsafe { queue.enqueue(kernel, problem, addresses, Band::whole(problem.m)) }
    }
}

/// A stream of a GPU whose context is current, to put products into.
pub(super) struct Queue<'g> {
    pub(super) gpu: &'g Gpu,
    launcher: Launcher<'g>,
}

impl<'g> Queue<'g> {
    pub(super) fn new(gpu: &'g Gpu, stream: RawStream) -> Result<Self, Error> {
        Ok(Self { gpu, launcher: Launcher::new(gpu.context(), stream)? })
    }

    pub(super) fn stream(&self) -> RawStream {
        self.launcher.stream()
    }

    /// Queues the launches of a product by a kernel.
    ///
    /// # Safety
    /// The addresses are those of operands that are valid for the problem; C overlaps neither A nor B and
    /// nobody else uses it. A band after the first comes right behind the one before it, and B is the
    /// same.
    pub(super) unsafe fn enqueue<T: GemmTypes>(
        &self,
        kernel: Kernel,
        problem: &Problem<T>,
        addresses: Addresses,
        band: Band,
    ) -> Result<(), Error> {
        let spec = kernel.spec();
        let limits = self.gpu.limits();
        // A band is summed as the whole product would be.
        let ranges = self.gpu.model().ranges(spec, &Problem { m: band.all, ..*problem });
        let unsupported = |reason: Unsupported| Error::Unsupported { kernel: spec.id, reason };
        let planner = Planner::new(spec, problem, addresses, limits, band)
            .map_err(unsupported)?
            .with_ranges(ranges);
        let carry_out = |workspace: u64| {
            let plan = planner.plan(workspace).map_err(unsupported)?;
            // SAFETY: the operands are the caller's promise, the workspace has the bytes that the plan asks
            // for and this stream alone uses it, in order: so what the plan's steps access is valid for
            // them.
            unsafe { self.launcher.carry_out(spec.arch, &plan) }
        };
        match planner.workspace_bytes() {
            0 => carry_out(0),
            bytes => self.with_workspace(bytes, carry_out),
        }
    }

    /// Whether limbs could not hold the product in bands that was queued last: in which band that was found,
    /// nobody knows. Waits for all that the stream was given.
    pub(super) fn fell_back<T: GemmTypes>(
        &self,
        kernel: Kernel,
        problem: &Problem<T>,
        band: Band,
    ) -> Result<bool, Error> {
        let spec = kernel.spec();
        let Some(flags_at) = Planner::range_flags(spec, problem, band) else { return Ok(false) };
        self.with_workspace(flags_at + size_of::<u32>() as u64, |at| {
            let mut flags = [0; size_of::<u32>()];
            let driver = self.gpu.context().driver();
            // SAFETY: the flags are within the workspace, whose last user's work this copy follows in the
            // stream and waits for.
            unsafe { driver.read_in_order(self.stream(), &mut flags, at + flags_at) }
                .map_err(refused("reading the flags of a product"))?;
            Ok(u32::from_ne_bytes(flags) & FALL_BACK != 0)
        })
    }
}
