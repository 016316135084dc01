//! Products of several sizes at once.

use cuda_lazy::RawStream;

use super::context::Context;
use super::desc::GemmDesc;
use super::operands::{EpilogueOperands, Operands, PlanLimits, Workspace};
use super::plan::Plan;
use crate::error::Error;
use crate::operand_fault::OperandFault;

/// Several products, each of sizes of its own, that share a workspace: as those of a mixture of experts.
///
/// The sizes are known to the host, and the products are launched one after the other.
#[derive(Clone, Debug)]
pub struct GroupedPlan {
    plans: Vec<Plan>,
    workspace_bytes: u64,
}

impl GroupedPlan {
    /// A plan for each product.
    ///
    /// # Errors
    /// As [`Plan::new`], for the first product that has none.
    pub fn new(context: &Context, descs: &[GemmDesc], limits: PlanLimits) -> Result<Self, Error> {
        let plans = descs.iter().map(|&desc| Plan::new(context, desc, limits));
        let plans = plans.collect::<Result<Vec<Plan>, Error>>()?;
        let workspace_bytes = plans.iter().map(Plan::workspace_bytes).max().unwrap_or(0);
        Ok(Self { plans, workspace_bytes })
    }

    /// The plans, in the order of the products.
    #[must_use]
    pub fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// Bytes of device memory that a run needs besides its operands: as many as the neediest product.
    #[must_use]
    pub fn workspace_bytes(&self) -> u64 {
        self.workspace_bytes
    }

    /// Queues all products in a stream and returns without waiting, as [`Plan::run`] does.
    ///
    /// # Errors
    /// As [`Plan::run`] for the first product that is refused, with those before it launched;
    /// [`Error::DeviceOperand`] where there are more or fewer operands than products, with none launched.
    ///
    /// # Safety
    /// As [`Plan::run`] for the operands of each product; no D overlaps an operand of another product.
    pub unsafe fn run(
        &self,
        stream: RawStream,
        operands: &[Operands],
        workspace: Workspace,
    ) -> Result<(), Error> {
        let numbers = vec![EpilogueOperands::default(); operands.len()];
        // SAFETY: the caller's promises.
        unsafe { self.run_with(stream, operands, &numbers, workspace) }
    }

    /// The same with the numbers of the products' [epilogues](GemmDesc::epilogue).
    ///
    /// # Errors
    /// As [`GroupedPlan::run`], also where there are more or fewer epilogues than products.
    ///
    /// # Safety
    /// As [`GroupedPlan::run`] and [`Plan::run_with`].
    pub unsafe fn run_with(
        &self,
        stream: RawStream,
        operands: &[Operands],
        numbers: &[EpilogueOperands],
        workspace: Workspace,
    ) -> Result<(), Error> {
        let products = self.plans.len();
        for (operand, given) in [("addresses", operands.len()), ("epilogues", numbers.len())] {
            if given != products {
                let plan = format!("a group of {products} products");
                let fault = OperandFault::Count { given, products };
                return Err(Error::DeviceOperand { plan, operand, fault });
            }
        }
        for (plan, (operands, &numbers)) in self.plans.iter().zip(operands.iter().zip(numbers)) {
            let operands = std::slice::from_ref(operands);
            // SAFETY: the caller's promise; what the stream runs is in order, so that the products do not meet
            // in the workspace.
            unsafe { plan.run_with(stream, operands, numbers, workspace)? };
        }
        Ok(())
    }
}
