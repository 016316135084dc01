//! What a CPU implementation is, and how it is called.

use std::any::Any;
use std::fmt;
use std::num::NonZeroUsize;

use cpu_gemm::{CpuContext, CpuIsa, CpuUnits};
use gemm_spec::{GemmTypes, Layout, Operand, Order, Problem, Types, Unsupported};

use crate::error::Error;
use crate::scalar::ScalarTypes;

/// The environment variable that names the instruction set of [`context`].
pub(crate) const ISA_VARIABLE: &str = "TESSERA_CPU_ISA";
/// The environment variable that says which units of the CPU an engine uses.
pub(crate) const UNITS_VARIABLE: &str = "TESSERA_CPU_UNITS";

/// A matrix product on the CPU: operands whose buffers were checked against the problem, row-major
/// unless the implementation takes any order.
pub(crate) type CpuFn<T> = fn(
    &Problem<T>,
    &[<T as GemmTypes>::A],
    &[<T as GemmTypes>::B],
    &mut [<T as GemmTypes>::C],
    &CpuContext,
) -> Result<(), cpu_gemm::Error>;

macro_rules! define_forms {
    ([] $({
        $(#[$condition:meta])? $variant:ident, $name:ident, $types:ty, $four:tt, $usual:ident
    })+) => {
        /// The forms of an implementation, one for the types of each product.
        pub(crate) struct Forms {
            $(pub(crate) $variant: CpuFn<$types>,)+
        }

        impl Forms {
            fn of<T: ScalarTypes>(&self) -> CpuFn<T> {
                let form: &dyn Any = match T::TYPES {
                    $(Types::$variant => &self.$variant,)+
                };
                *form.downcast_ref().expect("invariant: `TYPES` is of no other type")
            }
        }
    };
}

gemm_spec::for_each_gemm_types!([define_forms]);

/// The forms of an implementation from one generic function.
macro_rules! forms {
    ($gemm:path) => {
        gemm_spec::for_each_gemm_types!([$crate::cpu::implementation::forms_of] $gemm)
    };
}
pub(crate) use forms;

macro_rules! forms_of {
    ([$gemm:path] $({
        $(#[$condition:meta])? $variant:ident, $name:ident, $types:ty, $four:tt, $usual:ident
    })+) => {
        $crate::cpu::implementation::Forms { $($variant: $gemm,)+ }
    };
}
pub(crate) use forms_of;

/// What an implementation needs of the machine: why there is none of it here, for products of some types.
pub(crate) type Needs = fn(Types) -> Result<(), String>;

/// That of an implementation that runs everywhere.
pub(crate) const NOTHING: Needs = |_| Ok(());

/// In which order an implementation adds up the products of an element of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// In one chain of multiply-adds over k: the bits are those of `serial`.
    Chain,
    /// In chains of a fixed length, as [`cpu_gemm::engine_sum`] says: the bits are those of
    /// [`engine_definition`](super::engine_definition).
    Engine,
    /// In an order of its own.
    Own,
}

/// One CPU implementation, for the types of every product.
pub struct CpuImpl {
    /// Name on the command line, in reports and in the docs.
    pub id: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// The document that the scheme comes from.
    pub origin: &'static str,
    /// Whether it uses more than one thread.
    pub parallel: bool,
    /// Whether several rows of C share what they read of B, a block of which stays in a cache meanwhile.
    pub blocked: bool,
    /// Whether it takes operands of any storage order; else all three are row-major.
    pub any_order: bool,
    /// In which order the products of an element of C are added up.
    pub sums: Sums,
    /// What it needs of the machine for products of some types.
    pub(crate) needs: Needs,
    /// Whether it is there for one idea of the ladder alone: it runs where it is named, not by default.
    pub study: bool,
    pub(crate) forms: Forms,
}

impl fmt::Debug for CpuImpl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CpuImpl").field(&self.id).finish()
    }
}

impl CpuImpl {
    /// Whether this machine runs it for products of some types.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn runs(&self, types: Types) -> Result<(), String> {
        (self.needs)(types)
    }

    /// Computes `C = alpha * A * B + beta * C` on the threads of a context.
    ///
    /// # Errors
    /// [`tessera::Error::Shape`] where a buffer is too short, [`tessera::Error::Unsupported`] where the
    /// implementation does not take an operand's storage order, [`tessera::Error::OutOfMemory`].
    pub fn gemm<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        c: &mut [T::C],
        context: &CpuContext,
    ) -> Result<(), Error> {
        problem.check_buffers(a.len(), b.len(), c.len())?;
        self.runs(T::TYPES).map_err(|reason| Error::NotHere { kernel: self.id, reason })?;
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
        if !problem.batch.is_one() {
            let each = |one: &_, a: &_, b: &_, c: &mut _| self.gemm(one, a, b, c, context);
            return problem.try_for_each_item(a, b, c, each);
        }
        let mut problem = *problem;
        if problem.k == 0 {
            // A and B have no elements, whatever their leading dimensions say.
            problem.a = Layout::row_major(0);
            problem.b = Layout::row_major(problem.n);
        }
        Ok(self.forms.of::<T>()(&problem, a, b, c, context)?)
    }
}

/// A context of that many threads, with the instruction set that `TESSERA_CPU_ISA` names, else the best.
///
/// # Errors
/// [`tessera::Error::Threads`], and [`tessera::Error::Isa`] where the CPU lacks the instruction set.
pub fn context(threads: Option<NonZeroUsize>) -> Result<CpuContext, Error> {
    let context = CpuContext::with_isa(threads, isa()?)?;
    Ok(match units()? {
        Some(units) => context.with_units(units),
        None => context,
    })
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

/// The units that `TESSERA_CPU_UNITS` names, if it is set.
///
/// # Errors
/// [`Error::Variable`] where it names none.
pub fn units() -> Result<Option<CpuUnits>, Error> {
    let Some(name) = std::env::var_os(UNITS_VARIABLE) else { return Ok(None) };
    let value = name.to_string_lossy().into_owned();
    let takes = CpuUnits::NAMES;
    value.parse().map(Some).map_err(|_| Error::Variable { name: UNITS_VARIABLE, value, takes })
}
