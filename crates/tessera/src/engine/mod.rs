//! Products for programs: one engine that chooses where and by what a product is computed.

mod builder;
mod epilogue;
#[cfg(feature = "cuda")]
mod on_gpu;
mod strided;

use std::num::NonZeroUsize;
use std::sync::OnceLock;

use cpu_gemm::CpuContext;
#[cfg(feature = "cuda")]
use cpu_gemm::{View, ViewMut};
use gemm_spec::{Element as _, Problem};

pub use self::builder::{Device, EngineBuilder};
#[cfg(feature = "cuda")]
use self::on_gpu::OnGpu;
pub use self::strided::MultiplyStrided;
use crate::accuracy::Accuracy;
use crate::element::{AccOf, Element, GemmTypes, Multiply, MultiplyInto};
use crate::error::Error;
#[cfg(feature = "cuda")]
use crate::gpu::{Gpu, Kernel, Unfinished};
use crate::matrix::{MatMut, MatRef, Matrix, problem_of};
#[cfg(feature = "cuda")]
use crate::select::Predicted;

/// Computes matrix products, from any number of threads at once.
///
/// Threads, the GPU's modules, and the memory that the largest product so far took are kept until the
/// engine is dropped: keep one engine for many products. Products on the CPU share its threads; products
/// on the GPU run one after the other.
///
/// ```
/// use tessera::{Engine, Matrix};
///
/// let a = Matrix::from_fn(2, 2, |row, _| row as f32)?;
/// let b = Matrix::from_fn(2, 2, |_, col| col as f32)?;
/// let c = Engine::auto()?.multiply(&a, &b)?;
/// assert_eq!(c.get(1, 1), Some(2.0));
/// # Ok::<(), tessera::Error>(())
/// ```
pub struct Engine {
    cpu: CpuContext,
    accuracy: Accuracy,
    deterministic: bool,
    #[cfg(feature = "cuda")]
    gpu: Option<OnGpu>,
}

/// One engine serves all threads of a program.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Engine>();
};

/// Where and by what a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// By the CPU engine.
    Cpu,
    /// By a kernel on the GPU, operands being copied there and back.
    #[cfg(feature = "cuda")]
    Gpu(Kernel),
}

impl Engine {
    /// An engine that decides for each product between the CPU and the first GPU, where there is one:
    /// whichever is predicted to end first, copies included.
    ///
    /// Which kernel runs, and so the last bits of a sum, may depend on how much device memory is free; see
    /// [`EngineBuilder::deterministic`].
    ///
    /// # Errors
    /// [`Error::Threads`]. A machine without a GPU is no error.
    pub fn auto() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// An engine that stays on the CPU, with that many threads (`None`: one for each core).
    ///
    /// # Errors
    /// [`Error::Threads`].
    pub fn cpu(threads: Option<NonZeroUsize>) -> Result<Self, Error> {
        let builder = Self::builder().device(Device::Cpu);
        match threads {
            Some(threads) => builder.threads(threads).build(),
            None => builder.build(),
        }
    }

    /// The engine of the whole process, made by [`Engine::auto`] on the first call.
    ///
    /// # Errors
    /// As [`Engine::auto`].
    pub fn global() -> Result<&'static Self, Error> {
        static ENGINE: OnceLock<Engine> = OnceLock::new();
        if let Some(engine) = ENGINE.get() {
            return Ok(engine);
        }
        let engine = Self::auto()?;
        // Another thread may have been faster: its engine serves both.
        Ok(ENGINE.get_or_init(|| engine))
    }

    /// An engine of other than the usual settings.
    pub fn builder() -> EngineBuilder {
        EngineBuilder::default()
    }

    /// `A * B` as a new row-major matrix.
    ///
    /// # Errors
    /// As [`Engine::gemm`].
    pub fn multiply<A: Multiply<B>, B: Element>(
        &self,
        a: &Matrix<A>,
        b: &Matrix<B>,
    ) -> Result<Matrix<A::Output>, Error> {
        let mut c = Matrix::zeros(a.rows(), b.cols())?;
        let (alpha, beta) = (AccOf::<A, B, A::Output>::ONE, AccOf::<A, B, A::Output>::ZERO);
        self.gemm(alpha, a.view(), b.view(), beta, c.view_mut())?;
        Ok(c)
    }

    /// `C = alpha * A * B + beta * C`. With `beta == 0` C is not read, with `alpha == 0` neither A
    /// nor B is. What the three may be elements of says [`MultiplyInto`]: a C of f32 takes products of
    /// f16 and bf16, too.
    ///
    /// # Errors
    /// [`Error::InnerDim`] and [`Error::OuterDim`] where the sizes do not fit; [`Error::OutOfMemory`],
    /// [`Error::NoKernel`] and [`Error::Unsupported`] where the product cannot be computed as the engine
    /// was told to. C is then unchanged; but after [`Error::Cuda`] some of it may have been written.
    pub fn gemm<A: MultiplyInto<B, C>, B: Element, C: Element>(
        &self,
        alpha: AccOf<A, B, C>,
        a: MatRef<'_, A>,
        b: MatRef<'_, B>,
        beta: AccOf<A, B, C>,
        c: MatMut<'_, C>,
    ) -> Result<(), Error> {
        let problem = problem_of(alpha, a, b, beta, &c)?;
        self.gemm_slices(&problem, a.as_slice(), b.as_slice(), c.into_slice())
    }

    /// The same on plain buffers: what BLAS calls GEMM. Of a batch the CPU computes small products side by side.
    ///
    /// # Errors
    /// [`Error::Shape`] where a buffer is too short, else as [`Engine::gemm`]; of a batch some C may
    /// then be written already.
    pub fn gemm_slices<T: GemmTypes>(
        &self,
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        c: &mut [T::C],
    ) -> Result<(), Error> {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu
            && !gpu.leaves_to_cpu::<T>(problem.one().flops())
        {
            problem.check_buffers(a.len(), b.len(), c.len())?;
            if !problem.batch.is_one() {
                let each = |one: &_, a: &_, b: &_, c: &mut _| self.gemm_slices(one, a, b, c);
                return problem.try_for_each_item(a, b, c, each);
            }
            if let Placement::Gpu(kernel) = self.placement(problem)? {
                return gpu.multiply(kernel, &self.cpu, problem, a, b, c);
            }
        }
        Ok(cpu_gemm::gemm(problem, a, b, c, &self.cpu)?)
    }

    /// Where and by what this engine would compute a problem now, and of a batch each of its products.
    ///
    /// # Errors
    /// [`Error::NoKernel`], [`Error::Unsupported`] and [`Error::OutOfMemory`] where it may only use a GPU, none of
    /// whose kernels computes the problem, and [`Error::Cuda`].
    pub fn placement<T: GemmTypes>(&self, problem: &Problem<T>) -> Result<Placement, Error> {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = &self.gpu
            && problem.m > 0
            && problem.n > 0
            && let Some(kernel) = gpu.choose(&problem.one(), &self.cpu, self.accuracy)?
        {
            return Ok(Placement::Gpu(kernel));
        }
        #[cfg(not(feature = "cuda"))]
        let _ = problem;
        Ok(Placement::Cpu)
    }

    /// `C = alpha * A * B + beta * C` of views by a kernel on this engine's GPU, such as [`Engine::placement`] names.
    /// What lies between the views' lines is neither read nor written, and others may use it meanwhile.
    ///
    /// # Errors
    /// As [`Engine::gemm`], with whether C is unchanged; [`Error::NoDevice`] where the engine has no GPU.
    #[cfg(feature = "cuda")]
    pub fn gemm_by<T: GemmTypes>(
        &self,
        kernel: Kernel,
        alpha: T::Acc,
        a: View<'_, T::A>,
        b: View<'_, T::B>,
        beta: T::Acc,
        c: ViewMut<'_, T::C>,
    ) -> Result<(), Unfinished> {
        let Some(gpu) = &self.gpu else {
            let reason = "the engine stays on the CPU".to_owned();
            return Err(Error::NoDevice { reason }.into());
        };
        gpu.multiply_views::<T>(kernel, &self.cpu, (alpha, beta), (a, b), c)
    }

    /// What a problem is predicted to take on this engine's GPU and on its CPU; `None` where it has no GPU, or that
    /// no kernel.
    ///
    /// # Errors
    /// [`Error::Cuda`].
    #[cfg(feature = "cuda")]
    pub fn predicted<T: GemmTypes>(
        &self,
        problem: &Problem<T>,
    ) -> Result<Option<Predicted>, Error> {
        match &self.gpu {
            Some(gpu) => gpu.predicted(&problem.one(), &self.cpu, self.accuracy),
            None => Ok(None),
        }
    }

    /// Whether a problem that is [placed](Self::placement) on the CPU is computed in its matrix units, if the
    /// elements are of no extreme range.
    #[must_use]
    pub fn uses_matrix_units<T: GemmTypes>(&self, problem: &Problem<T>) -> bool {
        cpu_gemm::uses_matrix_units(self.cpu.units(), problem, &self.cpu)
    }

    /// The threads of its products on the CPU, and of copies to a GPU.
    #[must_use]
    pub fn cpu_context(&self) -> &CpuContext {
        &self.cpu
    }

    /// The GPU that it may use.
    #[cfg(feature = "cuda")]
    #[must_use]
    pub fn gpu(&self) -> Option<&Gpu> {
        self.gpu.as_ref().map(OnGpu::gpu)
    }

    /// What its choice of a kernel keeps to.
    #[must_use]
    pub fn accuracy(&self) -> Accuracy {
        self.accuracy
    }

    /// Whether its choices depend on the problem and the device alone.
    #[must_use]
    pub fn is_deterministic(&self) -> bool {
        self.deterministic
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Engine");
        debug.field("cpu", &self.cpu);
        #[cfg(feature = "cuda")]
        debug.field("gpu", &self.gpu());
        debug.field("accuracy", &self.accuracy);
        debug.field("deterministic", &self.deterministic).finish()
    }
}

/// A product by [`Engine::global`].
///
/// # Errors
/// As [`Engine::global`] and [`Engine::gemm_slices`].
pub fn gemm<T: GemmTypes>(
    problem: &Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
) -> Result<(), Error> {
    Engine::global()?.gemm_slices(problem, a, b, c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_engine_serves_many_threads_with_equal_bits() {
        let engine = Engine::cpu(NonZeroUsize::new(2)).unwrap();
        let n = 150;
        let a =
            Matrix::from_fn(n, n, |row, col| ((row * 31 + col * 17) % 97) as f32 / 9.0).unwrap();
        let b =
            Matrix::from_fn(n, n, |row, col| ((row * 13 + col * 29) % 89) as f32 / 7.0).unwrap();
        let expected = engine.multiply(&a, &b).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        assert_eq!(engine.multiply(&a, &b).unwrap(), expected);
                    }
                });
            }
        });
    }

    #[test]
    fn the_engine_of_the_process_multiplies() {
        let problem = Problem::<i32>::new(2, 2, 1);
        let mut c = [0; 4];
        gemm(&problem, &[1, 2], &[3, 4], &mut c).unwrap();
        assert_eq!(c, [3, 4, 6, 8]);
        assert!(matches!(gemm(&problem, &[1], &[3, 4], &mut c), Err(Error::Shape(_))));
    }

    #[test]
    fn there_is_one_engine_of_the_process() {
        let (one, other) = (Engine::global().unwrap(), Engine::global().unwrap());
        assert!(std::ptr::eq(one, other));
    }

    #[test]
    fn sizes_that_do_not_fit_are_errors() {
        let engine = Engine::cpu(None).unwrap();
        let a = Matrix::<f32>::zeros(2, 3).unwrap();
        assert!(matches!(engine.multiply(&a, &a), Err(Error::InnerDim { .. })));
        let b = Matrix::<f32>::zeros(3, 2).unwrap();
        let mut c = Matrix::<f32>::zeros(3, 2).unwrap();
        let refused = engine.gemm(1.0, a.view(), b.view(), 0.0, c.view_mut());
        assert!(matches!(refused, Err(Error::OuterDim { .. })));
    }
}
