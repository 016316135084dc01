//! How a product on the device becomes launches in a stream.

use cuda_lazy::{CurrentContext, RawStream};
use gemm_spec::{Problem, Scheme};
use kernels_gpu::Kernel;

use super::arguments::Arguments;
use super::entry::{Addresses, EntryLaunch};
use super::split::{self, Band};
use super::{Gpu, refused, split_k, tensor};
use crate::element::GemmTypes;
use crate::error::Error;

impl Gpu {
    /// Puts the launches of `C = alpha * A * B + beta * C` into a stream and returns without waiting.
    ///
    /// Operands are on the device. A kernel's module is compiled on first use ([`Gpu::load`] does it
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
        let unsupported = |reason| Error::Unsupported { kernel: kernel.id, reason };
        kernel.supports(problem, self.limits()).map_err(unsupported)?;
        if problem.m == 0 || problem.n == 0 {
            return Ok(());
        }
        let queue = Queue::new(self, stream)?;
        // SAFETY: the caller's promises; the kernel supports the problem, which is whole.
        unsafe { queue.enqueue(kernel, problem, addresses, Band::whole(problem)) }
    }
}

/// A stream of a GPU whose context is current, to put launches into.
pub(super) struct Queue<'g> {
    pub(super) gpu: &'g Gpu,
    pub(super) stream: RawStream,
    _current: CurrentContext<'g>,
}

impl<'g> Queue<'g> {
    pub(super) fn new(gpu: &'g Gpu, stream: RawStream) -> Result<Self, Error> {
        let during = || format!("using device {}", gpu.info().index);
        let _current = gpu.context().enter().map_err(refused(during()))?;
        Ok(Self { gpu, stream, _current })
    }

    /// Queues the launches of a product by a kernel.
    ///
    /// # Safety
    /// The addresses are those of operands that are valid for the problem; C overlaps neither A nor B and
    /// nobody else uses it. The kernel supports the problem. A band after the first comes right behind
    /// the one before it, and B is the same.
    pub(super) unsafe fn enqueue<T: GemmTypes>(
        &self,
        kernel: Kernel,
        problem: &Problem<T>,
        addresses: Addresses,
        band: Band,
    ) -> Result<(), Error> {
        let spec = kernel.spec();
        match &spec.scheme {
            Scheme::Chain => {
                let launch = EntryLaunch::own(self, spec, problem)?;
                let mut arguments = Arguments::of(problem, addresses);
                // SAFETY: the entry's obligations. (1) The operands are the caller's promise. (2) Block,
                // grid and shared memory are the spec's for this m and n. The addresses are those of
                // `arguments`, which outlives the call that copies them.
                unsafe { self.launch(&launch, &mut arguments.addresses()) }
            }
            Scheme::Split(entries) => {
                // SAFETY: the caller's promises.
                unsafe { split::launch(self, spec, entries, problem, addresses, band) }
            }
            Scheme::Tensor(entries) | Scheme::Boxes(entries) => {
                // SAFETY: the caller's promises.
                unsafe { tensor::launch(self, spec, entries, problem, addresses) }
            }
            Scheme::SplitK(split) => {
                // SAFETY: the caller's promises.
                unsafe { split_k::launch(self, spec, split, problem, addresses) }
            }
        }
    }
}
