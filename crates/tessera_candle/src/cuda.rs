//! Products in the streams of candle's devices.

use candle_core::backend::{BackendDevice as _, BackendStorage as _};
use candle_core::cuda::cudarc::driver::{CudaSlice, CudaStream, DeviceRepr, ValidAsZeroBits};
use candle_core::cuda::{CudaDevice, CudaStorageSlice};
use candle_core::{CudaStorage, DeviceLocation, Error, Result, bail};
use tessera::{Accuracy, GemmTypes};
use tessera_cudarc::Gemm;

use crate::products::Products;
use crate::{NAME, refused};

/// A device of candle's, and products in its stream.
pub(crate) struct Gpu {
    gemm: Gemm,
    device: CudaDevice,
}

impl Gpu {
    pub(crate) fn new(device: &CudaDevice, accuracy: Accuracy) -> Result<Self> {
        let gemm = Gemm::new(&device.cuda_stream()).map_err(Error::wrap)?;
        Ok(Self { gemm: gemm.with_accuracy(accuracy), device: device.clone() })
    }

    pub(crate) fn location(&self) -> DeviceLocation {
        self.device.location()
    }

    /// Queues the products in the device's stream.
    pub(crate) fn multiply(
        &self,
        products: &Products,
        a: &CudaStorage,
        b: &CudaStorage,
    ) -> Result<CudaStorage> {
        use CudaStorageSlice::{BF16, F16, F32, F64};
        let stream = self.gemm.stream();
        if [a, b].iter().any(|factor| !is_same(&factor.device.cuda_stream(), stream)) {
            bail!("{NAME}: a tensor is of another device of candle's, whose stream is another");
        }
        let slice = match (&a.slice, &b.slice) {
            (F32(a), F32(b)) => F32(self.queue(products, a, b)?),
            (F64(a), F64(b)) => F64(self.queue(products, a, b)?),
            (F16(a), F16(b)) => F16(self.queue(products, a, b)?),
            (BF16(a), BF16(b)) => BF16(self.queue(products, a, b)?),
            _ => return Err(refused(a.dtype(), b.dtype())),
        };
        // The device of a factor, as candle's own operations do: it names the same stream.
        Ok(CudaStorage { slice, device: a.device.clone() })
    }

    fn queue<T>(
        &self,
        products: &Products,
        a: &CudaSlice<T>,
        b: &CudaSlice<T>,
    ) -> Result<CudaSlice<T>>
    where
        T: GemmTypes<A = T, B = T, C = T> + DeviceRepr + ValidAsZeroBits,
    {
        if products.are_zero() {
            return self.device.alloc_zeros(products.len);
        }
        // SAFETY: what is in the memory is not read before it is written: the products below are queued in the
        // stream that allocates it and write all of it, and where one of them is refused it is given back unread.
        let mut c = unsafe { self.device.alloc::<T>(products.len) }?;
        let problem = products.problem::<T>();
        for at in products.calls() {
            let (a, b) = (a.try_slice(at.a..), b.try_slice(at.b..));
            let (Some(a), Some(b), Some(mut c)) = (a, b, c.try_slice_mut(at.c..)) else {
                bail!("{NAME}: a tensor ends before its view does");
            };
            self.gemm.multiply(&problem, &a, &b, &mut c).map_err(Error::wrap)?;
        }
        Ok(c)
    }
}

/// Whether both are one stream of one context, be they the same value or not.
fn is_same(one: &CudaStream, other: &CudaStream) -> bool {
    one.cu_stream() == other.cu_stream() && one.context().cu_ctx() == other.context().cu_ctx()
}
