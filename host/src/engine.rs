//! Products for programs: an implementation chosen by name or by itself.

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use gemm_spec::{DType, DeviceLimits, Element, KernelSpec, Layout, Operand, Order, Problem};

use crate::auto::{InUse, Work};
use crate::contract::Accuracy;
use crate::cpu::{self, CpuContext, CpuImpl};
use crate::error::Error;
use crate::gpu::Gpu;
use crate::matrix::{MatMut, MatRef, Matrix, allocate};
use crate::registry::{self, Implementation};
use crate::run::DeviceChoice;
use crate::scalar::Scalar;

/// What an engine of its own choice runs on a GPU where no kernel was measured to be better.
pub(crate) const GPU_DEFAULT: &str = "register_tile_2d";

/// Computes matrix products.
///
/// Threads, the GPU's modules and memory that the largest product so far took there are kept until the
/// engine is dropped: keep one for many products.
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
    gpu: Option<Gpu>,
    choice: Choice,
    /// What the choice of a kernel keeps to.
    accuracy: Accuracy,
    /// What the choice between CPU and GPU goes by.
    figures: InUse,
    /// Operations of products of each type up to which the CPU is chosen without a look at the GPU.
    cpu_first: Vec<(DType, f64)>,
    /// Why figures that are kept are not used.
    unusable: Option<String>,
    /// What was found out about the GPU a moment ago.
    recent: RefCell<Option<Recent>>,
}

/// How long the driver's word on free memory is taken for true: to ask takes a good part of a small
/// product's time, and what others take meanwhile may as well be taken after the answer.
const FREE_FOR: Duration = Duration::from_millis(20);

/// Choices that are remembered meanwhile.
const RECENT_CHOICES: usize = 16;

/// The driver's word on free memory, and what was chosen by it.
struct Recent {
    asked: Instant,
    free: u64,
    /// Kernels that should end before the CPU, or none.
    choices: Vec<(Shape, Option<&'static KernelSpec>)>,
}

/// All of a product that its choice depends on.
#[derive(Clone, Copy, PartialEq)]
struct Shape {
    dtype: DType,
    sizes: [usize; 3],
    layouts: [Layout; 3],
    /// Whether `alpha` and `beta` are zero.
    zeros: [bool; 2],
}

impl Shape {
    fn of<T: Scalar>(problem: &Problem<T>) -> Self {
        let Problem { m, n, k, alpha, beta, a, b, c } = *problem;
        let zero = <T::Acc as Element>::ZERO;
        let zeros = [alpha == zero, beta == zero];
        Self { dtype: T::DTYPE, sizes: [m, n, k], layouts: [a, b, c], zeros }
    }
}

enum Choice {
    /// For each product the one of CPU and GPU that is predicted to be the first to end.
    Auto,
    /// The GPU for every product, by the kernel that suits it.
    AutoGpu,
    Cpu(&'static CpuImpl),
    Gpu(&'static KernelSpec),
}

impl Engine {
    /// An engine that chooses for each product: the first GPU where there is one and it is predicted to
    /// end before the CPU, copies included, else the CPU. It goes by what `tessera tune` has measured
    /// on this machine, else by [assumptions](crate::auto).
    ///
    /// # Errors
    /// [`Error::Threads`]. A machine without a GPU is no error.
    pub fn auto() -> Result<Self, Error> {
        let gpu = match Gpu::open(0) {
            Ok(gpu) => Some(gpu),
            Err(reason) => {
                tracing::debug!(%reason, "products stay on the CPU");
                None
            }
        };
        let (figures, unusable) = match &gpu {
            Some(gpu) => InUse::load(Some(&gpu.info().name)),
            // There is nothing to choose.
            None => (InUse::default(), None),
        };
        if let Some(reason) = &unusable {
            tracing::warn!(%reason, "predictions go by assumptions");
        }
        let cpu = CpuContext::new(None)?;
        let cpu_first = gpu.iter().flat_map(|gpu| {
            let (threads, capability) = (cpu.threads(), gpu.info().compute_capability);
            let first = |dtype| (dtype, figures.cpu_first(dtype, threads, capability));
            DType::ALL.map(first)
        });
        let cpu_first = cpu_first.collect();
        Ok(Self { figures, unusable, cpu_first, ..Self::of(cpu, gpu, Choice::Auto) })
    }

    fn of(cpu: CpuContext, gpu: Option<Gpu>, choice: Choice) -> Self {
        let (accuracy, figures) = (Accuracy::default(), InUse::default());
        let recent = RefCell::new(None);
        Self { cpu, gpu, choice, accuracy, figures, cpu_first: Vec::new(), unusable: None, recent }
    }

    /// Why the figures that are kept for this user are not used, in one line, where there are some that
    /// cannot be.
    #[must_use]
    pub fn unusable_figures(&self) -> Option<&str> {
        self.unusable.as_deref()
    }

    /// The threads of its products on the CPU.
    pub(crate) fn cpu_context(&self) -> &CpuContext {
        &self.cpu
    }

    /// The GPU that it may use.
    pub(crate) fn gpu(&self) -> Option<&Gpu> {
        self.gpu.as_ref()
    }

    /// The same engine, whose products keep to that contract.
    ///
    /// ```
    /// use tessera::{Accuracy, Engine};
    ///
    /// let engine = Engine::auto()?.with_accuracy(Accuracy::Componentwise)?;
    /// # Ok::<(), tessera::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Accuracy`] where the engine was opened for a kernel that does not keep to it.
    pub fn with_accuracy(self, accuracy: Accuracy) -> Result<Self, Error> {
        match self.choice {
            Choice::Gpu(spec) if !accuracy.admits(spec) => {
                Err(Error::Accuracy { kernel: spec.id, accuracy })
            }
            _ => Ok(Self { accuracy, recent: RefCell::new(None), ..self }),
        }
    }

    /// The same engine, with that many threads for what it does on the CPU.
    ///
    /// # Errors
    /// [`Error::Threads`].
    pub fn with_threads(self, threads: NonZeroUsize) -> Result<Self, Error> {
        let cpu = CpuContext::new(Some(threads))?;
        let mut engine = Self { cpu, recent: RefCell::new(None), ..self };
        if let Some(gpu) = &engine.gpu {
            let capability = gpu.info().compute_capability;
            for (dtype, first) in &mut engine.cpu_first {
                *first = engine.figures.cpu_first(*dtype, threads.get(), capability);
            }
        }
        Ok(engine)
    }

    /// An engine that stays on the CPU, with that many threads (`None`: one for each core).
    ///
    /// # Errors
    /// [`Error::Threads`].
    pub fn cpu(threads: Option<NonZeroUsize>) -> Result<Self, Error> {
        Ok(Self::of(CpuContext::new(threads)?, None, Choice::Auto))
    }

    /// An engine that always uses the implementation of that name.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn named(name: &str) -> Result<Self, Error> {
        Self::open(Some(name), DeviceChoice::Auto)
    }

    /// An engine for an implementation (`None`: its own choice) on a device. A demanded GPU is used
    /// for every product, however small.
    ///
    /// # Errors
    /// [`Error::UnknownKernel`] with the nearest name; [`Error::WrongDevice`] where the implementation
    /// does not run on that device; [`Error::NoDevice`] and [`Error::NoSuchDevice`] where it needs a
    /// GPU that is not there; [`Error::Threads`].
    pub fn open(name: Option<&str>, device: DeviceChoice) -> Result<Self, Error> {
        let Some(name) = name else {
            return match device {
                DeviceChoice::Auto => Self::auto(),
                DeviceChoice::Cpu => Self::cpu(None),
                DeviceChoice::Cuda(index) => {
                    let gpu = Some(Gpu::open(index)?);
                    Ok(Self::of(CpuContext::new(None)?, gpu, Choice::AutoGpu))
                }
                DeviceChoice::Emulate => Self::open(Some(GPU_DEFAULT), device),
            };
        };
        match (registry::find(name)?, device) {
            (Implementation::Cpu(implementation), DeviceChoice::Auto | DeviceChoice::Cpu) => {
                Ok(Self { choice: Choice::Cpu(implementation), ..Self::cpu(None)? })
            }
            (Implementation::Gpu(spec), DeviceChoice::Auto) => Self::on_gpu(spec, 0),
            (Implementation::Gpu(spec), DeviceChoice::Cuda(index)) => Self::on_gpu(spec, index),
            (implementation, _) => Err(Error::WrongDevice {
                kernel: implementation.id(),
                runs_on: if implementation.on_gpu() { "a GPU" } else { "the CPU" },
                takes: if implementation.on_gpu() { "cuda" } else { "cpu" },
            }),
        }
    }

    fn on_gpu(spec: &'static KernelSpec, index: u32) -> Result<Self, Error> {
        let gpu = Some(Gpu::open(index)?);
        Ok(Self::of(CpuContext::new(None)?, gpu, Choice::Gpu(spec)))
    }

    /// `A * B` as a new row-major matrix.
    ///
    /// # Errors
    /// [`Error::Inner`] where the sizes do not fit, and what the implementation answers.
    pub fn multiply<T: Scalar>(
        &self,
        a: &Matrix<T>,
        b: &Matrix<T>,
    ) -> Result<Matrix<T::Out>, Error> {
        let mut c = Matrix::zeros(a.rows(), b.cols())?;
        self.gemm(T::Acc::ONE, a.view(), b.view(), T::Acc::ZERO, c.view_mut())?;
        Ok(c)
    }

    /// `C = alpha * A * B + beta * C`. With `beta == 0` C is not read, with `alpha == 0` neither A
    /// nor B is. Factors of 16 bits can have a C of f32, see [`MatRef::wide`].
    ///
    /// # Errors
    /// [`Error::Inner`] and [`Error::Outer`] where the sizes do not fit, and what the implementation
    /// answers. C is then unchanged; but after [`Error::Cuda`] some of it may have been written.
    pub fn gemm<T: Scalar>(
        &self,
        alpha: T::Acc,
        a: MatRef<'_, T>,
        b: MatRef<'_, T>,
        beta: T::Acc,
        c: MatMut<'_, T::Out>,
    ) -> Result<(), Error> {
        let (m, n, k) = (a.rows(), b.cols(), a.cols());
        if k != b.rows() {
            return Err(Error::Inner { a_rows: m, a_cols: k, b_rows: b.rows(), b_cols: n });
        }
        if (c.rows(), c.cols()) != (m, n) {
            return Err(Error::Outer { rows: c.rows(), cols: c.cols(), m, n });
        }
        let problem = Problem::new(m, n, k).with_scalars(alpha, beta).with_layouts(
            a.layout(),
            b.layout(),
            c.layout(),
        );
        self.run(&problem, a.as_slice(), b.as_slice(), c.into_slice())
    }

    /// The same on plain buffers: what BLAS calls GEMM.
    ///
    /// # Errors
    /// [`Error::Shape`] where a buffer is too short, and what the implementation answers. C is then
    /// unchanged; but after [`Error::Cuda`] some of it may have been written.
    pub fn run<T: Scalar>(
        &self,
        problem: &Problem<T>,
        a: &[T],
        b: &[T],
        c: &mut [T::Out],
    ) -> Result<(), Error> {
        problem.check_buffers(a.len(), b.len(), c.len())?;
        if problem.m == 0 || problem.n == 0 {
            return Ok(());
        }
        // Turning and copying a small problem's description, too, would be a good part of its time.
        let at_once = match self.choice {
            Choice::Cpu(implementation) => implementation.any_order.then_some(implementation),
            Choice::Auto => self.stays_on_cpu::<T>(problem.flops()).then_some(cpu::DEFAULT),
            _ => None,
        };
        if let Some(implementation) = at_once
            && problem.k > 0
        {
            T::cpu_fn(implementation)(problem, a, b, c, &self.cpu);
            return Ok(());
        }
        // With k = 0 the factors have no elements, whatever their leading dimensions say.
        let mut problem = *problem;
        if problem.k == 0 {
            problem.a = Layout::row_major(0);
            problem.b = Layout::row_major(problem.n);
        }
        // A column-major C is a row-major C^T.
        let turned = match problem.c.order {
            Order::RowMajor => problem,
            Order::ColMajor => problem.transposed(),
        };
        let chosen = self.choose(&Problem {
            a: Layout::row_major(turned.k),
            b: Layout::row_major(turned.n),
            ..turned
        })?;
        if let Implementation::Cpu(implementation) = chosen
            && implementation.any_order
        {
            T::cpu_fn(implementation)(&problem, a, b, c, &self.cpu);
            return Ok(());
        }
        let (problem, a, b) = match problem.c.order {
            Order::RowMajor => (turned, a, b),
            Order::ColMajor => (turned, b, a),
        };
        let (mut packed_a, mut packed_b) = (Vec::new(), Vec::new());
        let any_order = matches!(chosen, Implementation::Gpu(spec) if spec.reads_any_order());
        let (problem, a, b) = if any_order {
            (problem, a, b)
        } else {
            let (problem, a) = row_major(problem, Operand::A, a, &mut packed_a)?;
            let (problem, b) = row_major(problem, Operand::B, b, &mut packed_b)?;
            (problem, a, b)
        };
        match (chosen, &self.gpu) {
            (Implementation::Gpu(spec), Some(gpu)) => {
                gpu.host_path(&self.cpu).multiply(spec, &problem, a, b, c)
            }
            (Implementation::Gpu(_), None) => {
                Err(Error::NoDevice { reason: "this engine stays on the CPU".to_owned() })
            }
            (Implementation::Cpu(implementation), _) => {
                T::cpu_fn(implementation)(&problem, a, b, c, &self.cpu);
                Ok(())
            }
        }
    }

    /// What this engine would run for a problem whose operands are row-major.
    ///
    /// # Errors
    /// None for what an engine can be made of.
    pub fn choose<T: Scalar>(&self, problem: &Problem<T>) -> Result<Implementation, Error> {
        match self.choice {
            Choice::Cpu(implementation) => Ok(Implementation::Cpu(implementation)),
            Choice::Gpu(spec) => Ok(Implementation::Gpu(spec)),
            Choice::AutoGpu => match &self.gpu {
                Some(gpu) => gpu_kernel(problem, gpu.limits(), gpu.free_memory()?, self.accuracy),
                None => registry::find(GPU_DEFAULT),
            },
            Choice::Auto => Ok(match self.faster_kernel(problem)? {
                Some(spec) => Implementation::Gpu(spec),
                None => Implementation::Cpu(cpu::DEFAULT),
            }),
        }
    }

    /// Whether the CPU ends first whatever the product is, for one of so many operations: the driver is
    /// not even asked how much memory is free.
    fn stays_on_cpu<T: Scalar>(&self, flops: f64) -> bool {
        let small = |(dtype, first): &(DType, f64)| *dtype == T::DTYPE && flops <= *first;
        self.gpu.is_none() || self.cpu_first.iter().any(small)
    }

    /// The kernel that should end with a product before the CPU does; `None` where none should.
    fn faster_kernel<T: Scalar>(
        &self,
        problem: &Problem<T>,
    ) -> Result<Option<&'static KernelSpec>, Error> {
        let Some(gpu) = &self.gpu else { return Ok(None) };
        if self.stays_on_cpu::<T>(problem.flops()) {
            return Ok(None);
        }
        let mut recent = self.recent.borrow_mut();
        let Recent { free, choices, .. } = match recent.take_if(|it| it.asked.elapsed() < FREE_FOR)
        {
            Some(still) => recent.insert(still),
            None => {
                let Ok(free) = gpu.free_memory() else { return Ok(None) };
                recent.insert(Recent { asked: Instant::now(), free, choices: Vec::new() })
            }
        };
        let shape = Shape::of(problem);
        if let Some((_, choice)) = choices.iter().find(|(own, _)| *own == shape) {
            return Ok(*choice);
        }
        let (info, limits) = (gpu.info(), gpu.limits());
        let choice = match gpu_kernel(problem, limits, *free, self.accuracy)? {
            Implementation::Gpu(spec)
                if spec.supports(problem, limits).is_ok() && fits(problem, spec, *free) =>
            {
                let work = Work::new(problem, spec, info);
                let on_gpu = self.figures.gpu_seconds(&work, info.compute_capability);
                let threads = self.cpu.threads();
                let on_cpu = self.figures.cpu_seconds(T::DTYPE, problem.flops(), threads);
                (on_gpu < on_cpu).then_some(spec)
            }
            _ => None,
        };
        choices.truncate(RECENT_CHOICES - 1);
        choices.push((shape, choice));
        Ok(choice)
    }
}

/// One-off product with an engine of its own; keep an [`Engine`] for more than one.
///
/// # Errors
/// As [`Engine::run`].
pub fn gemm<T: Scalar>(
    problem: &Problem<T>,
    a: &[T],
    b: &[T],
    c: &mut [T::Out],
) -> Result<(), Error> {
    Engine::auto()?.run(problem, a, b, c)
}

/// The kernel that suits a problem on a GPU of those limits with so many bytes free, and keeps to the
/// contract; the default where none is known to be better and fits.
pub(crate) fn gpu_kernel<T: Scalar>(
    problem: &Problem<T>,
    limits: &DeviceLimits,
    free: u64,
    accuracy: Accuracy,
) -> Result<Implementation, Error> {
    let can = |spec: &KernelSpec| spec.supports(problem, limits).is_ok();
    let allowed =
        |spec: &KernelSpec| accuracy.admits(spec) && can(spec) && fits(problem, spec, free);
    let best = match T::DTYPE {
        DType::F32 => {
            let Problem { m, n, k, .. } = *problem;
            kernels_gpu::best_f32(m, n, k, limits.multiprocessors, allowed)
        }
        DType::F16 | DType::BF16 | DType::F16F32 | DType::BF16F32 => {
            let Problem { m, n, k, .. } = *problem;
            kernels_gpu::best_half(m, n, k, limits.multiprocessors, allowed)
        }
        DType::F64 | DType::I32 | DType::I8 => None,
    };
    best.map_or_else(|| registry::find(GPU_DEFAULT), |spec| Ok(Implementation::Gpu(spec)))
}

/// Whether so many bytes hold the three matrices and what the kernel takes besides.
fn fits<T: Scalar>(problem: &Problem<T>, spec: &KernelSpec, free: u64) -> bool {
    let besides = spec.workspace_bytes(problem);
    // Lines are padded on the device, by a sixteenth at most.
    let with_padding = |bytes: usize| bytes as u128 + bytes as u128 / 16;
    problem.bytes().is_some_and(|bytes| with_padding(bytes) + u128::from(besides) <= free.into())
}

/// The operand in row-major order: itself, or a copy in `packed`.
fn row_major<'a, T: Scalar>(
    mut problem: Problem<T>,
    operand: Operand,
    data: &'a [T],
    packed: &'a mut Vec<T>,
) -> Result<(Problem<T>, &'a [T]), Error> {
    let layout = problem.layout(operand);
    if layout.order == Order::RowMajor {
        return Ok((problem, data));
    }
    let (rows, cols) = problem.dims(operand);
    *packed = allocate(rows, cols, "a row-major copy")?;
    // With alpha == 0 the operand is not read, so there is nothing to copy.
    if cols > 0 && problem.effective_k() > 0 {
        transpose(data, layout.ld, packed, rows, cols);
    }
    let layout = Layout::row_major(cols);
    match operand {
        Operand::A => problem.a = layout,
        Operand::B => problem.b = layout,
        Operand::C => problem.c = layout,
    }
    Ok((problem, packed))
}

/// Copies a column-major matrix to a packed row-major one, a square at a time so that both sides
/// stay in the cache.
fn transpose<T: Scalar>(from: &[T], ld: usize, to: &mut [T], rows: usize, cols: usize) {
    use rayon::prelude::*;
    const SIDE: usize = 64;
    to.par_chunks_mut(SIDE * cols).enumerate().for_each(|(band, to)| {
        let first = band * SIDE;
        let band_rows = SIDE.min(rows - first);
        for col0 in (0..cols).step_by(SIDE) {
            for col in col0..cols.min(col0 + SIDE) {
                let column = &from[col * ld + first..][..band_rows];
                for (row, &value) in column.iter().enumerate() {
                    to[row * cols + col] = value;
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: DeviceLimits = DeviceLimits {
        compute_capability: (9, 0),
        max_threads_per_block: 1024,
        max_shared_bytes: 227 * 1024,
        multiprocessors: 132,
    };

    fn kernel<T: Scalar>(n: usize, limits: &DeviceLimits) -> &'static str {
        let problem = Problem::<T>::new(n, n, n);
        gpu_kernel(&problem, limits, u64::MAX, Accuracy::default()).unwrap().id()
    }

    #[test]
    fn a_gpu_gets_the_kernel_that_suits_the_product_and_the_device() {
        assert_eq!(kernel::<f32>(8192, &H200), "f16x3");
        let ampere = DeviceLimits { compute_capability: (8, 0), ..H200 };
        assert_eq!(kernel::<f32>(1024, &ampere), "split_k_32x128");
        assert_eq!(kernel::<f32>(8192, &ampere), "async_copy_128x256");
        assert_eq!(kernel::<f64>(1024, &H200), GPU_DEFAULT);
        let volta = DeviceLimits { compute_capability: (7, 0), ..H200 };
        assert_eq!(kernel::<f32>(1024, &volta), GPU_DEFAULT);
        // Room for the matrices, and not for their pieces beside them.
        let problem = Problem::<f32>::new(8192, 8192, 8192);
        let of = |free, accuracy| gpu_kernel(&problem, &H200, free, accuracy).unwrap().id();
        assert_eq!(of(1 << 30, Accuracy::Fp32), "async_copy_128x256");
        assert_eq!(of(u64::MAX, Accuracy::Componentwise), "bf16x6");
        // No opting in: what fits 48 KiB.
        let small = DeviceLimits { max_shared_bytes: gemm_spec::SHARED_WITHOUT_OPT_IN, ..ampere };
        assert_eq!(kernel::<f32>(8192, &small), "async_copy_64x256");
    }
}
