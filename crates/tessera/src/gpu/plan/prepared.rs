//! Products one of whose factors is split into limbs once, and is then multiplied often.

use cuda_lazy::{DevicePtr, RawStream};
use gemm_spec::Operand;
use gemm_spec::plan::{Addresses, Band, Planner};

use super::given::Given;
use super::{Plan, Planned};
use crate::error::Error;
use crate::gpu::desc::Preparation;
use crate::gpu::launch::Launcher;
use crate::gpu::operands::{EpilogueOperands, Operands, PreparedFactor, Workspace};
use crate::operand_fault::OperandFault;

impl Plan {
    /// Bytes of device memory that the limbs of the descriptor's [prepared factor](super::super::GemmDesc::prepared)
    /// need, and what is found out about it; 0 where it has none. It depends on the factor's sizes and its limbs alone.
    #[must_use]
    pub fn prepared_bytes(&self) -> u64 {
        self.0.prepared_bytes()
    }

    /// Queues the splitting of the factor, for [`Plan::run_prepared`] in this stream or in one that waits for it. It
    /// is the same for all plans whose factor has these sizes, this layout and these limbs: one preparation serves
    /// products of any number of rows.
    ///
    /// It allocates nothing and waits for nothing, so that it can be captured.
    ///
    /// # Errors
    /// [`Error::Descriptor`] where the descriptor has no such factor; [`Error::DeviceOperand`] where an address is
    /// null or not aligned, or there are too few bytes, with nothing launched; [`Error::Cuda`] where the driver
    /// refuses.
    ///
    /// # Safety
    /// 1. The factor is valid in the plan's context for the matrix of its descriptor, and what is prepared for as many
    ///    bytes as it says, apart from it.
    /// 2. `stream` is a stream of the context. Until its work is over nobody writes the factor, or reads or writes what
    ///    is prepared, but work that the stream orders.
    pub unsafe fn prepare(
        &self,
        stream: RawStream,
        factor: DevicePtr,
        prepared: PreparedFactor,
    ) -> Result<(), Error> {
        let planned = &*self.0;
        let Some(of) = planned.desc.prepared else {
            let reason = "no factor of it is prepared; see GemmDesc::with_prepared".to_owned();
            return Err(Error::Descriptor { plan: planned.desc.to_string(), reason });
        };
        planned.check_prepared(Some(prepared))?;
        planned.check_factor(of.factor, factor)?;
        let queue = || {
            let launcher = Launcher::new(&planned.context, stream)?;
            let spec = planned.choice().kernel.spec();
            let (planner, factor) = planned.kept(factor)?;
            let plan = planner.keep(factor, prepared.address);
            // SAFETY: the factor and the memory for its limbs are the caller's promise.
            unsafe { launcher.carry_out(spec.arch, &plan) }
        };
        queue().map_err(|error| planned.during(error))
    }

    /// Queues the product as [`Plan::run_with`] does, with the limbs of the [prepared
    /// factor](super::super::GemmDesc::prepared) from where [`Plan::prepare`] has left them. Its bits are those of the
    /// same kernel without it. The factor itself is given as well: what limbs cannot hold, as infinities, the fallback
    /// takes from there.
    ///
    /// # Errors
    /// As [`Plan::run_with`]; [`Error::DeviceOperand`] where there are too few bytes of limbs, or the plan has no such
    /// factor.
    ///
    /// # Safety
    /// As [`Plan::run_with`]; and nothing was written to what [`Plan::prepare`] has left, nor to the factor, since it
    /// was queued, in work that comes before this run. Nobody writes to either until the run is over.
    pub unsafe fn run_prepared(
        &self,
        stream: RawStream,
        operands: Operands,
        prepared: PreparedFactor,
        epilogue: EpilogueOperands,
        workspace: Workspace,
    ) -> Result<(), Error> {
        let operands = [operands];
        let given = Given { numbers: epilogue, prepared: Some(prepared), ..Given::new(&operands) };
        // SAFETY: the caller's promises.
        unsafe { self.0.run(stream, given, workspace) }
    }
}

impl Planned {
    pub(super) fn prepared_bytes(&self) -> u64 {
        self.choice().product.prepared_bytes
    }

    /// What plans the splitting of the factor at that address, and which it is to the kernel.
    fn kept(&self, factor: DevicePtr) -> Result<(Planner<'_, f32>, Operand), Error> {
        let choice = self.choice();
        let spec = choice.kernel.spec();
        let launched = &choice.product.launched;
        let Some(Preparation { factor: which, .. }) = launched.prepared else {
            unreachable!("invariant: the launched product has the descriptor's prepared factor")
        };
        let addresses = Addresses { a: factor, b: factor, c: 0 };
        let problem = launched.problem::<f32>();
        let (limits, band) = (self.context.limits(), Band::whole(problem.m));
        let planner = Planner::new(spec, &problem, addresses, limits, band)
            .map_err(|reason| Error::Unsupported { kernel: spec.id, reason })?;
        Ok((planner, which))
    }

    /// Checks the address of a factor to prepare.
    fn check_factor(&self, factor: Operand, address: DevicePtr) -> Result<(), Error> {
        let [a, b, ..] = self.desc.matrices();
        let matrix = if factor == Operand::A { a } else { b };
        let alignment = self.limits.alignment.max(matrix.bytes as u64);
        let fault = match address {
            0 => OperandFault::Null,
            _ if !address.is_multiple_of(alignment) => {
                OperandFault::Misaligned { address, alignment }
            }
            _ => return Ok(()),
        };
        Err(self.fault(matrix.name, fault))
    }
}
