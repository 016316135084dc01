//! Matrix products of [cudarc]'s slices, in cudarc's streams, by the kernels of [tessera].
//!
//! Nothing is copied and nothing is waited for: a product is queued in the stream like any other work.
//!
//! ```no_run
//! // Not run: it needs a GPU. The example `cudarc_product` is the whole program.
//! use cudarc::driver::CudaContext;
//! use tessera::Problem;
//! use tessera_cudarc::Gemm;
//!
//! let stream = CudaContext::new(0)?.default_stream();
//! let (a, b) = (stream.clone_htod(&[1f32; 6])?, stream.clone_htod(&[2f32; 12])?);
//! let mut c = stream.alloc_zeros::<f32>(8)?;
//! let gemm = Gemm::new(&stream)?;
//! gemm.multiply(&Problem::<f32>::new(2, 4, 3), &a.as_view(), &b.as_view(), &mut c.as_view_mut())?;
//! assert_eq!(stream.clone_dtoh(&c)?, [6.0; 8]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Streams, events and graphs
//!
//! cudarc records events for each slice, so that a slice may be used in several streams: a product waits for
//! what it must, and later work waits for the product. Events of work before a capture cannot be waited for
//! in it; cudarc's `disable_event_tracking` turns them off. The workspace of a product is not lent to a graph:
//! [`tessera::gpu::Plan`] takes one of the graph's own.

use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice,
};
use tessera::gpu::{Context, GemmDesc, OperandFault, Operands, PlanLimits, Stream};
use tessera::{Accuracy, Error, GemmTypes, Problem};

/// Products in one of cudarc's streams, with the workspace and the plans that they need.
pub struct Gemm {
    // Dropped in this order: what uses the stream goes before the stream.
    own: Stream,
    stream: Arc<CudaStream>,
}

impl Gemm {
    /// Products in that stream.
    ///
    /// # Errors
    /// [`Error::NoDevice`] and [`Error::Cuda`].
    pub fn new(stream: &Arc<CudaStream>) -> Result<Self, Error> {
        let context = stream.context();
        // SAFETY: cudarc's handle of a context, which lives as long as `stream`: that is kept until what is made
        // of the handle here is gone.
        let context = unsafe { Context::from_raw(context.cu_ctx().cast()) }?;
        // SAFETY: a stream of that context, which is kept likewise.
        let own = unsafe { Stream::from_raw(&context, stream.cu_stream().cast()) };
        Ok(Self { own, stream: stream.clone() })
    }

    /// The same with another accuracy contract.
    #[must_use]
    pub fn with_accuracy(self, accuracy: Accuracy) -> Self {
        Self { own: self.own.with_accuracy(accuracy), ..self }
    }

    /// The stream.
    #[must_use]
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Queues `C = alpha * A * B + beta * C` and returns without waiting. The problem says sizes, orders,
    /// leading dimensions, scalars and the batch; with `beta == 0` C is not read.
    ///
    /// # Errors
    /// [`Error::Shape`] where a view is too short, [`Error::DeviceOperand`] where one is of another context,
    /// [`Error::NoKernel`] where no kernel multiplies the types on this GPU, [`Error::OutOfMemory`], and
    /// [`Error::Cuda`].
    pub fn multiply<T: GemmTypes>(
        &self,
        problem: &Problem<T>,
        a: &CudaView<'_, T::A>,
        b: &CudaView<'_, T::B>,
        c: &mut CudaViewMut<'_, T::C>,
    ) -> Result<(), Error> {
        problem.check_buffers(a.len(), b.len(), c.len())?;
        let desc = GemmDesc::of(problem).with_accuracy(self.own.accuracy());
        let contexts = [("A", a.stream()), ("B", b.stream()), ("C", c.stream())];
        let stray = |stream: &CudaStream| !is_same(stream.context(), self.stream.context());
        if let Some((operand, _)) = contexts.into_iter().find(|(_, stream)| stray(stream)) {
            let (plan, fault) = (desc.to_string(), OperandFault::OtherContext);
            return Err(Error::DeviceOperand { plan, operand, fault });
        }
        // The guards record that the product uses the slices: they are dropped behind it.
        let (a, _reads_a) = a.device_ptr(&self.stream);
        let (b, _reads_b) = b.device_ptr(&self.stream);
        let (c, _writes_c) = c.device_ptr_mut(&self.stream);
        let limits = PlanLimits::default().for_addresses(&[a, b, c]);
        let plan = self.own.plan(desc, limits)?;
        // SAFETY: the views are of this context and hold the problem's matrices, as was checked; C is borrowed
        // exclusively, and so is apart from A and B. The stream waits for what was queued with the slices
        // before, and what is queued with them later waits for the events that the guards record.
        unsafe { self.own.run(&plan, Operands { a, b, c, d: c }) }
    }
}

/// Whether both are one context, be they the same value or not.
fn is_same(one: &CudaContext, other: &CudaContext) -> bool {
    one.cu_ctx() == other.cu_ctx()
}
