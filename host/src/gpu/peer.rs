//! NVIDIA's own matrix products on this library's operands: the same buffers, the same stream, the same
//! events.

use std::path::PathBuf;

use cust::memory::DeviceBuffer;

use super::blas::{self, DeviceProduct};
use super::cublas::{self, Cublas};
use super::cublaslt::{self, CublasLt};
use super::{Gpu, refused};
use crate::error::Error;

/// Workspace of cuBLASLt, in bytes: what its documentation advises for Hopper, and cuBLAS takes there by
/// itself.
const WORKSPACE_BYTES: usize = 32 << 20;

/// The precision that both are asked for: see `blas::Types`.
const MATH: &str = "in the operands' own precision, TF32 not allowed";

/// A library of matrix products for the GPU, which is found while the program runs, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CudaLibrary {
    /// cuBLAS, through `cublasGemmEx`.
    Cublas,
    /// cuBLASLt, with the first kernel that its heuristic names.
    CublasLt,
}

/// Such a library, ready to work on one GPU.
pub struct GpuPeer<'g> {
    // Dropped in this order: the handle before the workspace that it uses.
    library: Library,
    _workspace: Option<DeviceBuffer<u8>>,
    gpu: &'g Gpu,
    description: String,
}

enum Library {
    Cublas(Cublas),
    CublasLt(CublasLt),
}

impl Gpu {
    /// Opens one of NVIDIA's libraries, in these folders first.
    ///
    /// # Errors
    /// [`Error::Peer`] where it is not found or does not start, [`tessera::Error::Cuda`].
    pub fn open_peer(
        &self,
        library: CudaLibrary,
        folders: &[PathBuf],
    ) -> Result<GpuPeer<'_>, Error> {
        self.enter()?;
        let failed = |reason| Error::Peer { reason };
        // libcublas needs libcublasLt; opened first, it is found wherever both are.
        let lt = blas::open("libcublasLt", folders).map_err(failed)?;
        let stream = self.stream().as_inner().cast();
        match library {
            CudaLibrary::Cublas => {
                let mut folders = folders.to_vec();
                folders.extend(lt.folder().map(PathBuf::from));
                let library = blas::open("libcublas", &folders).map_err(failed)?;
                let functions = cublas::Functions::load(&library).map_err(failed)?;
                // SAFETY: the functions are that library's, the context was entered above, and the
                // stream is this GPU's, which what is returned borrows.
                let cublas = unsafe { Cublas::new(functions, stream) }.map_err(failed)?;
                let description = format!("{}, {MATH}", cublas.describe());
                let library = Library::Cublas(cublas);
                Ok(GpuPeer { library, _workspace: None, gpu: self, description })
            }
            CudaLibrary::CublasLt => {
                let functions = cublaslt::Functions::load(&lt).map_err(failed)?;
                let description = format!("{}, {MATH}", cublaslt::describe(&lt));
                // SAFETY: it is scratch memory of a library that writes before it reads, and bytes
                // have no invalid values.
                let workspace = unsafe { DeviceBuffer::<u8>::uninitialized(WORKSPACE_BYTES) }
                    .map_err(refused("allocating the workspace of cuBLASLt"))?;
                let at = workspace.as_device_ptr().as_raw();
                // SAFETY: as for cuBLAS; the workspace is kept beside the handle, which goes first.
                let cublaslt = unsafe { CublasLt::new(functions, at, WORKSPACE_BYTES, stream) }
                    .map_err(failed)?;
                let library = Library::CublasLt(cublaslt);
                Ok(GpuPeer { library, _workspace: Some(workspace), gpu: self, description })
            }
        }
    }
}

impl GpuPeer<'_> {
    /// Name, version and what it computes in.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Whether it works on that GPU, whose stream and context it uses.
    pub(super) fn is_of(&self, gpu: &Gpu) -> bool {
        std::ptr::eq(self.gpu, gpu)
    }

    /// Puts one product into the GPU's stream and returns without waiting.
    ///
    /// # Safety
    /// As `Cublas::launch`.
    pub(super) unsafe fn launch(&self, product: &DeviceProduct) -> Result<(), String> {
        match &self.library {
            // SAFETY: the caller's promise.
            Library::Cublas(cublas) => unsafe { cublas.launch(product) },
            // SAFETY: the caller's promise.
            Library::CublasLt(cublaslt) => unsafe { cublaslt.launch(product) },
        }
    }
}

impl Drop for GpuPeer<'_> {
    fn drop(&mut self) {
        // The handle and its memory are freed in their own context, whatever thread drops this.
        let _ = self.gpu.enter();
    }
}
