//! What a run of a plan is given, and whether it is what the plan needs.

use cuda_lazy::DevicePtr;
use gemm_spec::Epilogue;

use super::Planned;
use crate::error::Error;
use crate::gpu::desc::GemmBatch;
use crate::gpu::operands::{
    EpilogueOperands, Operands, PreparedFactor, WORKSPACE_ALIGNMENT, Workspace,
};
use crate::gpu::refused;
use crate::operand_fault::OperandFault;

/// What a run is given besides a stream and a workspace.
#[derive(Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) operands: &'a [Operands],
    pub(super) numbers: EpilogueOperands,
    /// The rows before which groups end.
    pub(super) ends: Option<DevicePtr>,
    pub(super) prepared: Option<PreparedFactor>,
}

impl<'a> Given<'a> {
    pub(super) fn new(operands: &'a [Operands]) -> Self {
        Self { operands, numbers: EpilogueOperands::default(), ends: None, prepared: None }
    }
}

impl Planned {
    pub(super) fn fault(&self, operand: &'static str, fault: OperandFault) -> Error {
        Error::DeviceOperand { plan: self.name(), operand, fault }
    }

    /// Checks that there are addresses for the products, and ends where they have groups of rows.
    pub(super) fn check_counts(
        &self,
        Given { operands, ends, .. }: Given<'_>,
    ) -> Result<(), Error> {
        let products = self.desc.batch.count();
        let wanted = if let GemmBatch::Pointers { .. } = self.desc.batch { products } else { 1 };
        let given = operands.len();
        if given != wanted {
            return Err(self.fault("addresses", OperandFault::Count { given, products }));
        }
        let grouped = matches!(self.desc.batch, GemmBatch::RowGroups { .. });
        let fault = match ends {
            Some(_) if !grouped => OperandFault::NoGroups,
            Some(address) if !address.is_multiple_of(4) => {
                OperandFault::Misaligned { address, alignment: 4 }
            }
            Some(0) | None if grouped && !self.desc.is_empty() => OperandFault::Null,
            Some(_) | None => return Ok(()),
        };
        Err(self.fault("the array of ends", fault))
    }

    /// Checks that there is memory for a factor's limbs where there is such a factor.
    pub(super) fn check_prepared(&self, prepared: Option<PreparedFactor>) -> Result<(), Error> {
        let needed = self.prepared_bytes();
        let fault = match prepared {
            None if self.desc.prepared.is_none() => return Ok(()),
            Some(_) if self.desc.prepared.is_none() => OperandFault::NotPrepared,
            None | Some(PreparedFactor { address: 0, .. }) => OperandFault::Null,
            Some(PreparedFactor { bytes, .. }) if bytes < needed => {
                OperandFault::TooShort { bytes, needed }
            }
            Some(PreparedFactor { address, .. }) => {
                if address.is_multiple_of(WORKSPACE_ALIGNMENT) {
                    return Ok(());
                }
                OperandFault::Misaligned { address, alignment: WORKSPACE_ALIGNMENT }
            }
        };
        Err(self.fault("the prepared factor", fault))
    }

    /// Checks the addresses of the epilogue's numbers.
    pub(super) fn check_numbers(&self, numbers: EpilogueOperands) -> Result<(), Error> {
        let Epilogue { bias, row_scales, column_scales, amax, device_scalars, .. } =
            self.desc.epilogue;
        let (types, acc) = (self.desc.types, self.desc.types.acc().dtype().size());
        let wanted = [
            ("the bias", bias.is_some(), numbers.bias, types.c().size()),
            ("the row scales", row_scales, numbers.row_scales, acc),
            ("the column scales", column_scales, numbers.column_scales, acc),
            ("the largest magnitude", amax, numbers.amax, size_of::<f32>()),
            ("alpha and beta", device_scalars, numbers.scalars, acc),
        ];
        for (name, used, address, size) in wanted {
            let alignment = size as u64;
            if used && address == 0 {
                return Err(self.fault(name, OperandFault::Null));
            }
            if used && !address.is_multiple_of(alignment) {
                return Err(self.fault(name, OperandFault::Misaligned { address, alignment }));
            }
        }
        Ok(())
    }

    pub(super) fn check_workspace(&self, workspace: Workspace) -> Result<(), Error> {
        let needed = self.workspace_bytes();
        if needed == 0 {
            return Ok(());
        }
        let Workspace { address, bytes } = workspace;
        let fault = if bytes < needed {
            OperandFault::TooShort { bytes, needed }
        } else if address == 0 {
            OperandFault::Null
        } else if !address.is_multiple_of(WORKSPACE_ALIGNMENT) {
            OperandFault::Misaligned { address, alignment: WORKSPACE_ALIGNMENT }
        } else {
            return Ok(());
        };
        Err(self.fault("the workspace", fault))
    }

    pub(super) fn check_addresses(&self, operands: Operands) -> Result<(), Error> {
        let matrices = self.desc.matrices();
        for (matrix, address) in matrices.iter().zip(operands.in_order()) {
            if !matrix.used {
                continue;
            }
            let alignment = self.limits.alignment.max(matrix.bytes as u64);
            if address == 0 {
                return Err(self.fault(matrix.name, OperandFault::Null));
            }
            if !address.is_multiple_of(alignment) {
                let fault = OperandFault::Misaligned { address, alignment };
                return Err(self.fault(matrix.name, fault));
            }
        }
        let [_, _, c, d] = &matrices;
        let apart = c.lines() != d.lines() || c.stride_bytes() != d.stride_bytes();
        if self.desc.reads_c() && operands.c == operands.d && apart {
            return Err(self.fault("C", OperandFault::InPlace));
        }
        Ok(())
    }

    /// Asks the driver whether there is memory of this device.
    pub(super) fn check_memory(
        &self,
        operand: &'static str,
        address: DevicePtr,
        needed: u64,
    ) -> Result<(), Error> {
        let _current = self.context.enter()?;
        let found = self.context.driver().pointer_info(address);
        let found = found.map_err(|error| refused(format!("looking at {operand}"))(error))?;
        let Some(info) = found.filter(|info| info.on_device) else {
            return Err(self.fault(operand, OperandFault::NotOnDevice { address }));
        };
        let wanted = self.context.driver_context().device();
        if info.device != wanted {
            let fault = OperandFault::OtherDevice { device: info.device, wanted };
            return Err(self.fault(operand, fault));
        }
        let bytes = (info.start + info.bytes as u64).saturating_sub(address);
        // A driver that does not know the allocation says that it has no bytes.
        if info.bytes != 0 && bytes < needed {
            return Err(self.fault(operand, OperandFault::TooShort { bytes, needed }));
        }
        Ok(())
    }
}
