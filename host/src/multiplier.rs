//! Products by an implementation that was named, or by an engine's own choice.

use std::num::NonZeroUsize;

use gemm_spec::{Element as _, Operand, Order, Problem, Types};
use tessera::{
    AccOf, Accuracy, Device, Engine, MatMut, MatRef, Matrix, Multiply, MultiplyInto, Placement,
    row_major,
};

use crate::cpu::{self, CpuContext, CpuImpl, CpuUnits};
use crate::error::Error;
use crate::figures;
use crate::gpu::kernel_code;
use crate::measure::DeviceChoice;
use crate::registry::{self, Implementation};
use crate::scalar::ScalarTypes;

/// What multiplies: an engine, or one implementation of the registry.
#[derive(Debug)]
pub struct Multiplier {
    engine: Engine,
    /// The rung that computes every product, where one was named.
    rung: Option<&'static CpuImpl>,
    unusable_figures: Option<String>,
}

impl Multiplier {
    /// One for an implementation (`None`: an engine's own choice) on a device. A demanded GPU is used
    /// for every product, however small.
    ///
    /// # Errors
    /// [`Error::UnknownKernel`] with the nearest name; [`Error::WrongDevice`] where the implementation
    /// does not run on that device; what [`tessera::EngineBuilder::build`] answers.
    pub fn open(
        name: Option<&str>,
        device: DeviceChoice,
        accuracy: Accuracy,
        threads: Option<NonZeroUsize>,
        units: Option<CpuUnits>,
    ) -> Result<Self, Error> {
        let implementation = name.map(registry::find).transpose()?;
        let wrong = |implementation: Implementation| Error::WrongDevice {
            kernel: implementation.id(),
            runs_on: if implementation.on_gpu() { "a GPU" } else { "the CPU" },
            takes: if implementation.on_gpu() { "cuda" } else { "cpu" },
        };
        let mut builder =
            Engine::builder().accuracy(accuracy).isa(cpu::isa()?).kernel_code(kernel_code()?);
        if let Some(threads) = threads {
            builder = builder.threads(threads);
        }
        if let Some(units) = units.map_or_else(cpu::units, |units| Ok(Some(units)))? {
            builder = builder.units(units);
        }
        let (mut rung, mut unusable_figures) = (None, None);
        builder = match (implementation, device) {
            (None, DeviceChoice::Cpu) => builder.device(Device::Cpu),
            (None, DeviceChoice::Auto | DeviceChoice::Cuda(_)) => {
                let (figures, unusable) = figures::in_use();
                unusable_figures = unusable;
                if let Some(figures) = figures {
                    builder = builder.figures(figures);
                }
                match device {
                    DeviceChoice::Cuda(index) => builder.device(Device::Cuda(index)),
                    DeviceChoice::Auto | DeviceChoice::Cpu | DeviceChoice::Emulate => builder,
                }
            }
            (None, DeviceChoice::Emulate) => return Err(wrong(registry::find("naive")?)),
            (Some(Implementation::Cpu(own)), DeviceChoice::Auto | DeviceChoice::Cpu) => {
                rung = Some(own);
                builder.device(Device::Cpu)
            }
            (Some(Implementation::Gpu(kernel)), DeviceChoice::Auto) => builder.kernel(kernel),
            (Some(Implementation::Gpu(kernel)), DeviceChoice::Cuda(index)) => {
                builder.kernel(kernel).device(Device::Cuda(index))
            }
            (Some(implementation), _) => return Err(wrong(implementation)),
        };
        Ok(Self { engine: builder.build()?, rung, unusable_figures })
    }

    /// One for the implementation of that name, wherever it runs.
    ///
    /// # Errors
    /// As [`Multiplier::open`].
    pub fn named(name: &str) -> Result<Self, Error> {
        Self::open(Some(name), DeviceChoice::Auto, Accuracy::default(), None, None)
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Why the figures that are kept for this user are not used, in one line, where there are some that
    /// cannot be.
    #[must_use]
    pub fn unusable_figures(&self) -> Option<&str> {
        self.unusable_figures.as_deref()
    }

    /// What computes a problem.
    ///
    /// # Errors
    /// As [`Engine::placement`].
    pub fn choose<T: ScalarTypes>(&self, problem: &Problem<T>) -> Result<Implementation, Error> {
        if let Some(rung) = self.rung {
            return Ok(Implementation::Cpu(rung));
        }
        let placement = self.engine.placement(problem)?;
        let Placement::Gpu(kernel) = placement else {
            return Ok(Implementation::Cpu(cpu::of_engine(&self.engine, problem)));
        };
        Ok(Implementation::Gpu(kernel))
    }

    /// By how much of itself a product of two elements may be off, as the units of the CPU may have rounded them.
    ///
    /// # Errors
    /// As [`Engine::placement`].
    pub fn error_of_factors<T: ScalarTypes>(&self, problem: &Problem<T>) -> Result<f64, Error> {
        let rounds = self.rung.is_none()
            && T::TYPES == Types::F32
            && matches!(self.choose(problem)?, Implementation::Cpu(_))
            && self.engine.uses_matrix_units(problem);
        Ok(if rounds { self.engine.cpu_context().units().error_of_factors() } else { 0.0 })
    }

    /// `A * B` as a new row-major matrix.
    ///
    /// # Errors
    /// As [`Engine::gemm`].
    pub fn multiply<A, B>(&self, a: &Matrix<A>, b: &Matrix<B>) -> Result<Matrix<A::Output>, Error>
    where
        A: Multiply<B, Types: ScalarTypes>,
        B: tessera::Element,
    {
        let mut c = Matrix::zeros(a.rows(), b.cols())?;
        let (alpha, beta) = (AccOf::<A, B, A::Output>::ONE, AccOf::<A, B, A::Output>::ZERO);
        self.gemm(alpha, a.view(), b.view(), beta, c.view_mut())?;
        Ok(c)
    }

    /// `C = alpha * A * B + beta * C`, operands being copied to row-major order for a rung that needs it.
    ///
    /// # Errors
    /// As [`Engine::gemm`].
    pub fn gemm<A, B, C>(
        &self,
        alpha: AccOf<A, B, C>,
        a: MatRef<'_, A>,
        b: MatRef<'_, B>,
        beta: AccOf<A, B, C>,
        c: MatMut<'_, C>,
    ) -> Result<(), Error>
    where
        A: MultiplyInto<B, C, Types: ScalarTypes>,
        B: tessera::Element,
        C: tessera::Element,
    {
        let Some(rung) = self.rung else {
            return Ok(self.engine.gemm(alpha, a, b, beta, c)?);
        };
        let problem = tessera::problem_of(alpha, a, b, beta, &c)?;
        self.by_rung(rung, &problem, a.as_slice(), b.as_slice(), c.into_slice())
    }

    /// The same on plain buffers.
    ///
    /// # Errors
    /// As [`Engine::gemm_slices`].
    pub fn gemm_slices<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        c: &mut [T::C],
    ) -> Result<(), Error> {
        match self.rung {
            Some(rung) => self.by_rung(rung, problem, a, b, c),
            None => Ok(self.engine.gemm_slices(problem, a, b, c)?),
        }
    }

    fn by_rung<T: ScalarTypes>(
        &self,
        rung: &CpuImpl,
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        c: &mut [T::C],
    ) -> Result<(), Error> {
        let context = self.engine.cpu_context();
        if rung.any_order {
            return rung.gemm(problem, a, b, c, context);
        }
        problem.check_buffers(a.len(), b.len(), c.len())?;
        if !problem.batch.is_one() {
            let each = |one: &_, a: &_, b: &_, c: &mut _| self.by_rung(rung, one, a, b, c);
            return problem.try_for_each_item(a, b, c, each);
        }
        // A column-major C is the row-major C of the transposed product.
        match problem.c.order {
            Order::RowMajor => in_row_major_order(rung, *problem, a, b, c, context),
            Order::ColMajor => {
                in_row_major_order::<T::Transposed>(rung, problem.transposed(), b, a, c, context)
            }
        }
    }
}

/// A product with a row-major C, A and B being copied where they are not row-major.
fn in_row_major_order<T: ScalarTypes>(
    rung: &CpuImpl,
    mut problem: Problem<T>,
    a: &[T::A],
    b: &[T::B],
    c: &mut [T::C],
    context: &CpuContext,
) -> Result<(), Error> {
    let (mut own_a, mut own_b) = (Vec::new(), Vec::new());
    let a = row_major(context, &mut problem, Operand::A, a, &mut own_a)?;
    let b = row_major(context, &mut problem, Operand::B, b, &mut own_b)?;
    rung.gemm(&problem, a, b, c, context)
}
