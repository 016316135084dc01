//! A matrix on the device that is split into limbs once, as a factor of many products.

use cuda_lazy::DeviceMemory;
use gemm_spec::split::Limbs;
use gemm_spec::{Layout, Operand, Types};

use super::allocate::allocate;
use super::desc::GemmDesc;
use super::matrix::{DeviceMatRef, DeviceMatrix};
use super::operands::{PlanLimits, PreparedFactor};
use super::stream::Stream;
use crate::error::Error;
use crate::operand_fault::OperandFault;

/// A right factor of f32 products, as the weights of a layer, with the limbs that kernels multiply in its place:
/// [`Stream::gemm_prepared`] splits the left factor alone.
///
/// A left factor is the right one of the transposed product, `C^T = B^T * A^T`, of transposed views.
///
/// ```no_run
/// // Not run: it needs a GPU of compute capability 9.0.
/// use tessera::Matrix;
/// use tessera::gpu::{Context, DeviceMatrix, Limbs, PreparedMatrix, Stream};
///
/// let stream = Stream::new(&Context::primary(0)?)?;
/// let weights = Matrix::from_fn(512, 1024, |row, col| (row + col) as f32)?;
/// let weights = DeviceMatrix::from_host(&stream, weights.view())?;
/// let weights = PreparedMatrix::new(&stream, weights, Limbs::TwoF16)?;
/// let inputs = DeviceMatrix::zeros(&stream, 64, 512)?;
/// let mut outputs = DeviceMatrix::zeros(&stream, 64, 1024)?;
/// stream.gemm_prepared(1.0, inputs.view(), &weights, 0.0, &mut outputs.view_mut())?;
/// # Ok::<(), tessera::Error>(())
/// ```
#[derive(Debug)]
pub struct PreparedMatrix {
    matrix: DeviceMatrix<f32>,
    memory: DeviceMemory,
    limbs: Limbs,
}

impl PreparedMatrix {
    /// Splits the elements of a matrix, k by n, and keeps it, so that nobody writes it. It waits until the stream has
    /// done that.
    ///
    /// Two limbs of f16 take as many bytes as the matrix and keep to [`Accuracy::Fp32`](crate::Accuracy::Fp32), three of
    /// bf16 take half again as many and keep to stricter contracts as well.
    ///
    /// # Errors
    /// [`Error::NoKernel`] where no kernel of the device multiplies such limbs within the stream's accuracy,
    /// [`Error::DeviceOperand`] where the matrix is of another context; [`Error::OutOfMemory`] and [`Error::Cuda`].
    pub fn new(stream: &Stream, matrix: DeviceMatrix<f32>, limbs: Limbs) -> Result<Self, Error> {
        let view = matrix.view();
        let (k, n) = (view.rows(), view.cols());
        // How many rows the other factor has does not matter.
        let a_and_c = [Layout::row_major(k), Layout::row_major(n)];
        let desc = GemmDesc::new(Types::F32, 1, n, k)
            .with_layouts(a_and_c[0], view.layout(), a_and_c[1])
            .with_accuracy(stream.accuracy())
            .with_prepared(Operand::B, limbs);
        if !view.context().is(stream.context()) {
            let fault = OperandFault::OtherContext;
            return Err(Error::DeviceOperand { plan: desc.to_string(), operand: "B", fault });
        }
        let plan = stream.plan(desc, PlanLimits::default())?;
        let memory = allocate(stream.context(), plan.prepared_bytes(), "a prepared matrix")?;
        let prepared = Self { matrix, memory, limbs };
        // SAFETY: (1) the matrix is of this context and as long as its layout says, and so is the memory. (2) The
        // stream is of the context; both are this value's alone, which nobody has before the work is over.
        unsafe { plan.prepare(stream.as_raw(), prepared.matrix.address(), prepared.factor())? };
        stream.synchronize()?;
        Ok(prepared)
    }

    /// The matrix itself.
    #[must_use]
    pub fn view(&self) -> DeviceMatRef<'_, f32> {
        self.matrix.view()
    }

    /// What each element was split into.
    #[must_use]
    pub fn limbs(&self) -> Limbs {
        self.limbs
    }

    /// Bytes of device memory that the limbs take, besides those of the matrix.
    #[must_use]
    pub fn limb_bytes(&self) -> usize {
        self.memory.len()
    }

    /// The matrix, without its limbs.
    #[must_use]
    pub fn into_matrix(self) -> DeviceMatrix<f32> {
        self.matrix
    }

    pub(super) fn factor(&self) -> PreparedFactor {
        PreparedFactor { address: self.memory.address(), bytes: self.memory.len() as u64 }
    }
}
