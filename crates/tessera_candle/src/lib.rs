//! Matrix products of [candle](candle_core)'s tensors, on candle's devices, by the kernels of [tessera].
//!
//! ```
//! use candle_core::{Device, Tensor};
//! use tessera_candle::Gemm;
//!
//! let device = Device::Cpu;
//! let gemm = Gemm::new(&device)?;
//! let a = Tensor::new(&[[1f32, 2.0], [3.0, 4.0]], &device)?;
//! let gram = gemm.matmul(&a, &a.t()?)?;
//! assert_eq!(gram.to_vec2::<f32>()?, [[5.0, 11.0], [11.0, 25.0]]);
//! # Ok::<(), candle_core::Error>(())
//! ```
//!
//! Elements are f32, f64, f16 and bf16. Sums of f16 and bf16 are of f32, and are rounded once.
//!
//! Any view will do: parts, transposed, permuted and broadcast views, of any number of leading dimensions. Matrices
//! whose rows or columns are contiguous are read in place; others, such as every other column, are copied by candle
//! first. A product is a tensor whose rows follow each other without gaps.
//!
//! A product is an operation of candle's: `backward` goes through it, by products of the same [`Gemm`].
//!
//! # Devices
//!
//! On the CPU products are computed by the engine's threads, and their bits are those of the engine.
//!
//! With the feature `cuda` they are queued in the stream of candle's device, and nothing is waited for. Besides the
//! product itself, which is allocated as candle allocates, a [`Gemm`] keeps the plans of the last 64 kinds of product
//! and one workspace, which grows with the largest product. The first product of a kind may take longer, since the
//! driver loads a kernel for it. The feature has candle compile kernels of its own, for which it needs `nvcc`.

#[cfg(feature = "cuda")]
mod cuda;
mod products;

use std::sync::Arc;

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::backend::BackendStorage as _;
use candle_core::{
    CpuStorage, CustomOp2, DType, Device, DeviceLocation, Error, Layout, Result, Shape, Tensor,
    bail,
};
use tessera::{Accuracy, Engine, GemmTypes};

use crate::products::{Products, is_in_lines};

/// What candle's errors call a product.
const NAME: &str = "tessera matmul";

/// Products of tensors on one of candle's devices, with what they need besides their factors: the engine and its
/// threads, or plans and a workspace in the device's stream.
///
/// Make one for a device and clone it, which is cheap: clones share all of that, and any number of threads may use
/// them.
#[derive(Clone)]
pub struct Gemm(Processor);

/// One serves all threads of a program.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Gemm>();
};

#[derive(Clone)]
enum Processor {
    Cpu(Arc<Engine>),
    #[cfg(feature = "cuda")]
    Cuda(Arc<cuda::Gpu>),
}

impl Gemm {
    /// Products on that device, on the CPU by a thread for each core.
    ///
    /// # Errors
    /// Where threads cannot be started, where tessera cannot use the GPU, where the crate was built without `cuda`,
    /// and of a Metal device.
    pub fn new(device: &Device) -> Result<Self> {
        Self::with_accuracy(device, Accuracy::default())
    }

    /// The same with another accuracy contract.
    ///
    /// # Errors
    /// As [`Gemm::new`].
    pub fn with_accuracy(device: &Device, accuracy: Accuracy) -> Result<Self> {
        let processor = match device {
            Device::Cpu => {
                let builder = Engine::builder().device(tessera::Device::Cpu).accuracy(accuracy);
                Processor::Cpu(Arc::new(builder.build().map_err(Error::wrap)?))
            }
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => Processor::Cuda(Arc::new(cuda::Gpu::new(device, accuracy)?)),
            #[cfg(not(feature = "cuda"))]
            Device::Cuda(_) => return Err(Error::NotCompiledWithCudaSupport.bt()),
            Device::Metal(_) => bail!("{NAME}: there are no products on Metal devices"),
        };
        Ok(Self(processor))
    }

    /// `A * B` as a new tensor, as [`Tensor::matmul`]: of matrices, m by k and k by n, or of as many of each as the
    /// leading dimensions say, which are the same for both. Where k is 0 it is zeros.
    ///
    /// # Errors
    /// [`Error::ShapeMismatchBinaryOp`], [`Error::DTypeMismatchBinaryOp`], [`Error::UnsupportedDTypeForOp`] and
    /// [`Error::DeviceMismatchBinaryOp`]; where the tensors are not on this value's device, and in its stream; and
    /// what tessera says of memory that is short and of a driver that refuses.
    pub fn matmul(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        // Before anything is copied for it.
        Products::new(a.layout(), b.layout())?;
        in_lines(a)?.apply_op2(&in_lines(b)?, Product(self.clone()))
    }

    /// The same with leading dimensions that are broadcast, as [`Tensor::broadcast_matmul`]; neither factor is
    /// repeated in memory for it.
    ///
    /// # Errors
    /// As [`Gemm::matmul`], and [`Error::ShapeMismatchBinaryOp`] where leading dimensions cannot be broadcast.
    pub fn broadcast_matmul(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let (a_shape, b_shape) = products::broadcast(a.shape(), b.shape())?;
        let view = |of: &Tensor, shape| match *of.shape() == shape {
            true => Ok(of.clone()),
            false => of.broadcast_as(shape),
        };
        self.matmul(&view(a, a_shape)?, &view(b, b_shape)?)
    }

    /// What multiplies tensors on the CPU.
    fn engine(&self) -> Result<&Engine> {
        match &self.0 {
            Processor::Cpu(engine) => Ok(engine),
            #[cfg(feature = "cuda")]
            Processor::Cuda(_) => bail!("{NAME}: tensors on the CPU, and a {self:?}"),
        }
    }

    /// What multiplies tensors on a GPU.
    #[cfg(feature = "cuda")]
    fn gpu(&self) -> Result<&cuda::Gpu> {
        match &self.0 {
            Processor::Cuda(gpu) => Ok(gpu),
            Processor::Cpu(_) => bail!("{NAME}: tensors on a GPU, and a {self:?}"),
        }
    }
}

impl std::fmt::Debug for Gemm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let device = match &self.0 {
            Processor::Cpu(_) => DeviceLocation::Cpu,
            #[cfg(feature = "cuda")]
            Processor::Cuda(gpu) => gpu.location(),
        };
        f.debug_tuple("Gemm").field(&device).finish()
    }
}

/// The tensor itself where the rows or the columns of its matrices are contiguous, else a copy by candle.
fn in_lines(tensor: &Tensor) -> Result<Tensor> {
    if is_in_lines(tensor.layout()) { Ok(tensor.clone()) } else { tensor.contiguous() }
}

/// Products as an operation of candle's, of tensors whose matrices are [in lines](is_in_lines).
struct Product(Gemm);

impl CustomOp2 for Product {
    fn name(&self) -> &'static str {
        NAME
    }

    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        a_layout: &Layout,
        b: &CpuStorage,
        b_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        use CpuStorage::{BF16, F16, F32, F64};
        let engine = self.0.engine()?;
        let products = Products::new(a_layout, b_layout)?;
        let c = match (a, b) {
            (F32(a), F32(b)) => F32(on_cpu(engine, &products, a, b)?),
            (F64(a), F64(b)) => F64(on_cpu(engine, &products, a, b)?),
            (F16(a), F16(b)) => F16(on_cpu(engine, &products, a, b)?),
            (BF16(a), BF16(b)) => BF16(on_cpu(engine, &products, a, b)?),
            (a, b) => return Err(refused(a.dtype(), b.dtype())),
        };
        Ok((c, products.shape))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        a: &CudaStorage,
        a_layout: &Layout,
        b: &CudaStorage,
        b_layout: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        let gpu = self.0.gpu()?;
        let products = Products::new(a_layout, b_layout)?;
        Ok((gpu.multiply(&products, a, b)?, products.shape))
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let of_a = self.0.matmul(grad, &b.t()?)?;
        let of_b = self.0.matmul(&a.t()?, grad)?;
        Ok((Some(of_a), Some(of_b)))
    }
}

/// The products of tensors in host memory, one behind the other.
fn on_cpu<T: GemmTypes<A = T, B = T, C = T> + tessera::Element>(
    engine: &Engine,
    products: &Products,
    a: &[T],
    b: &[T],
) -> Result<Vec<T>> {
    let (rows, cols) = products.rows_and_cols();
    let mut c = tessera::Matrix::zeros(rows, cols).map_err(Error::wrap)?.into_vec();
    if products.are_zero() {
        return Ok(c);
    }
    let problem = products.problem::<T>();
    for at in products.calls() {
        // A tensor that ended before its view does would be an error below.
        let a = a.get(at.a..).unwrap_or_default();
        let b = b.get(at.b..).unwrap_or_default();
        engine.gemm_slices(&problem, a, b, &mut c[at.c..]).map_err(Error::wrap)?;
    }
    Ok(c)
}

/// Why elements are not multiplied.
fn refused(a: DType, b: DType) -> Error {
    let why = match a == b {
        true => Error::UnsupportedDTypeForOp(a, NAME),
        false => Error::DTypeMismatchBinaryOp { lhs: a, rhs: b, op: NAME },
    };
    why.bt()
}

#[cfg(test)]
mod tests {
    use candle_core::D;

    use super::*;

    #[test]
    fn only_what_has_no_lines_is_copied() -> Result<()> {
        let all = Tensor::zeros((2, 6, 8), DType::F32, &Device::Cpu)?;
        let copied = |view: Tensor| -> Result<bool> { Ok(in_lines(&view)?.id() != view.id()) };
        assert!(!copied(all.clone())?);
        assert!(!copied(all.t()?)?);
        assert!(!copied(all.narrow(1, 2, 3)?.narrow(2, 1, 5)?)?, "a part");
        assert!(!copied(all.narrow(1, 2, 3)?.t()?)?, "a part, transposed");
        assert!(!copied(all.transpose(0, 1)?)?, "rows beside each other");
        assert!(!copied(all.narrow(2, 3, 1)?.t()?)?, "every eighth element");
        assert!(!copied(all.broadcast_as((3, 2, 6, 8))?)?, "the same matrices again");
        let pairs = all.reshape((2, 6, 4, 2))?;
        assert!(copied(pairs.narrow(3, 0, 1)?.squeeze(D::Minus1)?)?, "every other column");
        assert!(copied(all.narrow(1, 0, 1)?.broadcast_as((2, 6, 8))?)?, "one row for all");
        Ok(())
    }
}
