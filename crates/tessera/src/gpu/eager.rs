//! Products of matrices on a GPU, queued at once: the plan is the stream's.

use gemm_spec::{Layout, Operand, Problem};

use super::desc::GemmDesc;
use super::kept_limbs::Declared;
use super::matrix::{DeviceMatMut, DeviceMatRef};
use super::operands::{Operands, PlanLimits};
use super::prepared::PreparedMatrix;
use super::stream::Stream;
use crate::element::{AccOf, Element, GemmTypes, MultiplyInto};
use crate::error::Error;
use crate::matrix::sizes_of;
use crate::operand_fault::OperandFault;

impl Stream {
    /// Queues `C = alpha * A * B + beta * C` and returns without waiting. Any order, part and transposed view
    /// of a matrix will do. With `beta == 0` C is not read, with `alpha == 0` neither A nor B is.
    ///
    /// Work of other streams with the same matrices is not waited for: events order it.
    ///
    /// # Errors
    /// [`Error::InnerDim`] and [`Error::OuterDim`] where the sizes do not fit, [`Error::DeviceOperand`] where
    /// a matrix is of another context, else as [`Plan::new`](super::plan::Plan::new) and [`Stream::run`].
    pub fn gemm<A: MultiplyInto<B, C>, B: Element, C: Element>(
        &self,
        alpha: AccOf<A, B, C>,
        a: DeviceMatRef<'_, A>,
        b: DeviceMatRef<'_, B>,
        beta: AccOf<A, B, C>,
        c: &mut DeviceMatMut<'_, C>,
    ) -> Result<(), Error> {
        let desc = self.desc_of(alpha, a, b, beta, c)?;
        let addresses = [a.address(), b.address(), c.address()];
        let limits = PlanLimits::default().for_addresses(&addresses);
        let [a, b, c] = addresses;
        // SAFETY: (1) the views are of this context and as long as their layouts say; C is borrowed
        // exclusively, so that it is apart from the others, and is D. (2) The workspace is this stream's. (3)
        // The stream is of the context. Whoever frees a matrix waits for the work that uses it, as the driver
        // does; nobody reads its elements as anything but numbers, whatever other streams do to them.
        unsafe { self.run_described(desc, limits, Operands { a, b, c, d: c }, None) }
    }

    /// Queues `C = alpha * A * B + beta * C` with a B whose limbs are kept, so that A alone is split. The rest is as of
    /// [`Stream::gemm`], and the bits are those of the same kernel without them.
    ///
    /// # Errors
    /// As [`Stream::gemm`]; [`Error::NoKernel`] where none multiplies such limbs within the stream's accuracy.
    pub fn gemm_prepared(
        &self,
        alpha: f32,
        a: DeviceMatRef<'_, f32>,
        b: &PreparedMatrix,
        beta: f32,
        c: &mut DeviceMatMut<'_, f32>,
    ) -> Result<(), Error> {
        let desc = self.desc_of(alpha, a, b.view(), beta, c)?.with_prepared(Operand::B, b.limbs());
        let addresses = [a.address(), b.view().address(), c.address()];
        let limits = PlanLimits::default().for_addresses(&addresses);
        let (prepared, [a, b, c]) = (b.factor(), addresses);
        // SAFETY: as of `gemm`. The limbs were made of B, which nobody could write since, before its value was there
        // to be passed, and are as many as of any product with it.
        unsafe { self.run_described(desc, limits, Operands { a, b, c, d: c }, Some(prepared)) }
    }

    /// Queues `C = alpha * A * B + beta * C` as [`Stream::gemm`] does, with the same bits, and keeps the limbs that its
    /// kernel makes of B, for the next product whose B is declared the same: A alone is split then. A B that is declared
    /// with another generation is split again, into the same memory. [`Stream::with_limb_bytes`] says how much memory
    /// there is; where that is not enough, the limbs that were used longest ago are freed.
    ///
    /// Two products that declare the same must have the same B, with the same elements: the device does not look. Where
    /// elements were written under the same generation, the product is that of the elements as they were.
    ///
    /// While the stream is being captured nothing is kept.
    ///
    /// ```no_run
    /// // Not run: it needs a GPU of compute capability 9.0.
    /// use tessera::gpu::{Context, Declared, DeviceMatrix, Stream};
    ///
    /// let stream = Stream::new(&Context::primary(0)?)?;
    /// let weights = DeviceMatrix::<f32>::zeros(&stream, 2048, 2048)?;
    /// let inputs = DeviceMatrix::zeros(&stream, 2048, 2048)?;
    /// let mut outputs = DeviceMatrix::zeros(&stream, 2048, 2048)?;
    /// let declared = Declared { identity: 7, generation: 0 };
    /// for _ in 0..10 {
    ///     // The weights are split once.
    ///     let (a, b) = (inputs.view(), weights.view());
    ///     stream.gemm_declared(1.0, a, b, declared, 0.0, &mut outputs.view_mut())?;
    /// }
    /// # Ok::<(), tessera::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Stream::gemm`].
    pub fn gemm_declared(
        &self,
        alpha: f32,
        a: DeviceMatRef<'_, f32>,
        b: DeviceMatRef<'_, f32>,
        declared: Declared,
        beta: f32,
        c: &mut DeviceMatMut<'_, f32>,
    ) -> Result<(), Error> {
        let desc = self.desc_of(alpha, a, b, beta, c)?;
        let addresses = [a.address(), b.address(), c.address()];
        let limits = PlanLimits::default().for_addresses(&addresses);
        let [a, b, c] = addresses;
        // SAFETY: as of `gemm`.
        unsafe { self.run_declared(desc, limits, Operands { a, b, c, d: c }, declared) }
    }

    /// The product of matrices of this stream's context.
    fn desc_of<A: MultiplyInto<B, C>, B: Element, C: Element>(
        &self,
        alpha: AccOf<A, B, C>,
        a: DeviceMatRef<'_, A>,
        b: DeviceMatRef<'_, B>,
        beta: AccOf<A, B, C>,
        c: &DeviceMatMut<'_, C>,
    ) -> Result<GemmDesc, Error> {
        let sizes = sizes_of([(a.rows(), a.cols()), (b.rows(), b.cols()), (c.rows(), c.cols())])?;
        let desc = self.desc::<A::Types>(sizes, [a.layout(), b.layout(), c.layout()], alpha, beta);
        for (operand, context) in [("A", a.context()), ("B", b.context()), ("C", c.context())] {
            if !context.is(self.context()) {
                let fault = OperandFault::OtherContext;
                return Err(Error::DeviceOperand { plan: desc.to_string(), operand, fault });
            }
        }
        Ok(desc)
    }

    fn desc<T: GemmTypes>(
        &self,
        [m, n, k]: [usize; 3],
        [a, b, c]: [Layout; 3],
        alpha: T::Acc,
        beta: T::Acc,
    ) -> GemmDesc {
        let problem = Problem::<T>::new(m, n, k).with_layouts(a, b, c).with_scalars(alpha, beta);
        GemmDesc::of(&problem).with_accuracy(self.accuracy())
    }
}
