//! An epilogue after a kernel that does not fuse it: a launch that finishes the sums in memory.

use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

use cuda_lazy::DevicePtr;
use gemm_spec::fusion::FINISH_PRODUCTS;
use gemm_spec::params::FinishParams;
use gemm_spec::{DType, HelperEntry, Layout, Operand, Order, Unsupported};

use super::desc::{GemmBatch, GemmDesc};
use super::operands::{EpilogueOperands, WORKSPACE_ALIGNMENT};
use super::plan::Plan;
use crate::error::Error;

/// A product without its epilogue, and what is then done to its sums.
pub(super) struct Finished {
    /// The product, or one of those of a batch of pointers.
    pub(super) product: Plan,
    /// Whether the sums are in the workspace, where it begins, and not in D.
    pub(super) sums_apart: bool,
    /// The bytes that they have there.
    pub(super) sums_bytes: u64,
    pub(super) entry: HelperEntry,
}

/// What a product is without its epilogue: its sums go to D, or to a matrix as tight as possible where factors
/// that differ by row or column are not to touch the C that is added.
pub(super) fn without_epilogue(desc: &GemmDesc) -> (GemmDesc, bool) {
    let plain = GemmDesc { epilogue: gemm_spec::Epilogue::NONE, ..*desc };
    let plain = match desc.batch {
        GemmBatch::Strided { .. } | GemmBatch::RowGroups { .. } => plain,
        // One after the other, so that a workspace does for all.
        GemmBatch::Pointers { .. } => plain.with_batch(GemmBatch::ONE),
    };
    if !desc.epilogue.scales() && !desc.epilogue.device_scalars {
        return (plain, false);
    }
    // With alpha zero A and B are not read, whatever the factors are.
    let plain = plain.with_scalars(if desc.scalars().0 == 0.0 { 0.0 } else { 1.0 }, 0.0);
    if !desc.reads_c() {
        return (plain, false);
    }
    let d = match desc.d.order {
        Order::RowMajor => Layout::row_major(desc.n),
        Order::ColMajor => Layout::col_major(desc.m),
    };
    let batch = match plain.batch {
        GemmBatch::Strided { count, a_stride, b_stride, c_stride, .. } => {
            let d_stride = desc.m.saturating_mul(desc.n);
            GemmBatch::Strided { count, a_stride, b_stride, c_stride, d_stride }
        }
        other @ (GemmBatch::Pointers { .. } | GemmBatch::RowGroups { .. }) => other,
    };
    (plain.with_d(d).with_batch(batch), true)
}

/// Bytes of workspace that the sums of such a product take, if they are there.
pub(super) fn sums_bytes(plain: &GemmDesc) -> Result<u64, Error> {
    let [.., sums] = plain.matrices();
    Ok((sums.extent(plain.batch.count())? as u64).next_multiple_of(WORKSPACE_ALIGNMENT))
}

impl Finished {
    /// What finishes the sums of a product, which are in that many bytes of the workspace or in D.
    pub(super) fn new(
        desc: &GemmDesc,
        product: Plan,
        sums_apart: Option<u64>,
    ) -> Result<Self, Error> {
        let entry = kernels_gpu::FINISH[usize::from(desc.types.c() == DType::F64)];
        let sizes = [desc.m, desc.n].map(u32::try_from);
        if sizes.iter().any(Result::is_err) {
            let GemmDesc { m, n, k, .. } = *desc;
            let reason = Unsupported::TooLarge { m, n, k };
            return Err(Error::Unsupported { kernel: entry.symbol, reason });
        }
        let sums_bytes = sums_apart.unwrap_or(0);
        Ok(Self { product, sums_apart: sums_apart.is_some(), sums_bytes, entry })
    }

    /// Bytes of workspace that a run needs.
    pub(super) fn workspace_bytes(&self) -> u64 {
        self.sums_bytes + self.product.workspace_bytes()
    }

    /// What the launches take that finish the products whose sums, C and D begin at the addresses.
    pub(super) fn launches(
        &self,
        desc: &GemmDesc,
        (sums, old, d): (DevicePtr, DevicePtr, DevicePtr),
        numbers: EpilogueOperands,
    ) -> impl Iterator<Item = (FinishParams, usize)> {
        let size = desc.types.of(Operand::C).size() as u64;
        let inner = self.product.desc();
        let strides = |desc: &GemmDesc| desc.batch.strides().map(|stride| stride as u64);
        let ([.., sums_stride], [.., c_stride, d_stride]) = (strides(inner), strides(desc));
        let count = inner.batch.at_an_address();
        // C has been brought to D's order where it had another.
        let apart = old != d;
        let old_stride = if apart { c_stride } else { d_stride };
        let bias_stride = desc.bias_stride as u64;
        let old_ld = if apart { desc.c.ld } else { desc.d.ld } as u64;
        // Sums that have their scalars already are only finished.
        let (alpha, beta) =
            if desc.epilogue.scales() { (desc.alpha, desc.beta) } else { (1.0, 0.0) };
        // A column-major D is the row-major D^T.
        let (m, n, epilogue, numbers) = match desc.d.order {
            Order::RowMajor => (desc.m, desc.n, desc.epilogue, numbers),
            Order::ColMajor => (desc.n, desc.m, desc.epilogue.transposed(), numbers.transposed()),
        };
        let (sums_ld, d_ld) = (inner.d.ld as u64, desc.d.ld as u64);
        let count_of = |size: usize| u32::try_from(size).expect("invariant: checked by `new`");
        (0..count).step_by(FINISH_PRODUCTS).map(move |first| {
            let at = |address: DevicePtr, stride: u64| {
                let address = address + first as u64 * stride * size;
                usize::try_from(address).expect("invariant: a pointer holds an address")
            };
            let pointer = |address| with_exposed_provenance(at(address, 0));
            let params = FinishParams {
                m: count_of(m),
                n: count_of(n),
                fusion: epilogue.flags(),
                alpha: alpha.to_bits(),
                acc: with_exposed_provenance(at(sums, sums_stride)),
                acc_ld: sums_ld,
                acc_stride: sums_stride,
                beta: beta.to_bits(),
                old: with_exposed_provenance(at(old, old_stride)),
                old_ld,
                old_stride,
                bias: with_exposed_provenance(at(numbers.bias, bias_stride)),
                bias_stride,
                row_scales: pointer(numbers.row_scales),
                column_scales: pointer(numbers.column_scales),
                scalars: pointer(numbers.scalars),
                amax: with_exposed_provenance_mut(at(numbers.amax, 0)),
                d: with_exposed_provenance_mut(at(d, d_stride)),
                d_ld,
                d_stride,
            };
            (params, (count - first).min(FINISH_PRODUCTS))
        })
    }
}
