//! What a CPU implementation is, and how it is called.

use std::fmt;
use std::num::NonZeroUsize;

use cpu_gemm::{CpuContext, CpuIsa};
use gemm_spec::{Layout, Operand, Order, Problem, Unsupported, WideBf16, WideF16, bf16, f16};

use crate::error::Error;
use crate::scalar::Scalar;

/// The environment variable that names the instruction set of [`context`].
const ISA_VARIABLE: &str = "TESSERA_CPU_ISA";

/// A matrix product on the CPU: operands whose buffers were checked against the problem, row-major
/// unless the implementation takes any order.
pub(crate) type CpuFn<T> = fn(
    &Problem<T>,
    &[T],
    &[T],
    &mut [<T as gemm_spec::Element>::Out],
    &CpuContext,
) -> Result<(), cpu_gemm::Error>;

/// An element type that every implementation has a form for.
pub(crate) trait ForRung: tessera::Element {
    /// The form of an implementation for this type.
    fn cpu_fn(implementation: &CpuImpl) -> CpuFn<Self>;
}

macro_rules! for_rung {
    ($($element:ty: $field:ident),+ $(,)?) => {$(
        impl ForRung for $element {
            fn cpu_fn(implementation: &CpuImpl) -> CpuFn<Self> {
                implementation.$field
            }
        }
    )+};
}

for_rung! {
    f32: f32,
    f64: f64,
    i32: i32,
    i8: i8,
    f16: f16,
    bf16: bf16,
    WideF16: wide_f16,
    WideBf16: wide_bf16,
}

/// One CPU implementation, for every element type.
pub struct CpuImpl {
    /// Name on the command line, in reports and in the docs.
    pub id: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// The document that the scheme comes from.
    pub origin: &'static str,
    /// Whether it uses more than one thread.
    pub parallel: bool,
    /// Whether it takes operands of any storage order; else all three are row-major.
    pub any_order: bool,
    /// Whether it is there for one idea of the ladder alone: it runs where it is named, not by default.
    pub study: bool,
    pub(crate) f32: CpuFn<f32>,
    pub(crate) f64: CpuFn<f64>,
    pub(crate) i32: CpuFn<i32>,
    pub(crate) i8: CpuFn<i8>,
    pub(crate) f16: CpuFn<f16>,
    pub(crate) bf16: CpuFn<bf16>,
    pub(crate) wide_f16: CpuFn<WideF16>,
    pub(crate) wide_bf16: CpuFn<WideBf16>,
}

impl fmt::Debug for CpuImpl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CpuImpl").field(&self.id).finish()
    }
}

impl CpuImpl {
    /// Computes `C = alpha * A * B + beta * C` on the threads of a context.
    ///
    /// # Errors
    /// [`tessera::Error::Shape`] where a buffer is too short, [`tessera::Error::Unsupported`] where the
    /// implementation does not take an operand's storage order, [`tessera::Error::OutOfMemory`].
    pub fn gemm<T: Scalar>(
        &self,
        problem: &Problem<T>,
        a: &[T],
        b: &[T],
        c: &mut [T::Out],
        context: &CpuContext,
    ) -> Result<(), Error> {
        problem.check_buffers(a.len(), b.len(), c.len())?;
        let operands = [Operand::A, Operand::B, Operand::C];
        let is_column_major = |operand: &Operand| problem.layout(*operand).order == Order::ColMajor;
        if !self.any_order
            && let Some(operand) = operands.into_iter().find(is_column_major)
        {
            let reason = Unsupported::Order { operand };
            return Err(tessera::Error::Unsupported { kernel: self.id, reason }.into());
        }
        if problem.m == 0 || problem.n == 0 {
            return Ok(());
        }
        let mut problem = *problem;
        if problem.k == 0 {
            // A and B have no elements, whatever their leading dimensions say.
            problem.a = Layout::row_major(0);
            problem.b = Layout::row_major(problem.n);
        }
        Ok(T::cpu_fn(self)(&problem, a, b, c, context)?)
    }
}

/// A context of that many threads, with the instruction set that `TESSERA_CPU_ISA` names, else the best.
///
/// # Errors
/// [`tessera::Error::Threads`], and [`tessera::Error::Isa`] where the CPU lacks the instruction set.
pub fn context(threads: Option<NonZeroUsize>) -> Result<CpuContext, Error> {
    Ok(CpuContext::with_isa(threads, isa()?)?)
}

/// The instruction set that `TESSERA_CPU_ISA` names, else the best that this CPU has.
///
/// # Errors
/// [`tessera::Error::Isa`] where the CPU lacks it.
pub fn isa() -> Result<CpuIsa, Error> {
    match std::env::var_os(ISA_VARIABLE) {
        None => Ok(CpuIsa::best()),
        Some(name) => Ok(CpuIsa::named(&name.to_string_lossy())?),
    }
}
