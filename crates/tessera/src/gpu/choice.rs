//! What a descriptor comes to on a device: a kernel, the products that it launches, and the workspace.

use cuda_lazy::DevicePtr;
use gemm_spec::params::TransposeParams;
use gemm_spec::plan::{Addresses, Band, Kept, Planner};
use gemm_spec::{
    Activation, Batch, Bias, Epilogue, KernelSpec, Layout, Numerics, Operand, OperandAccess, Order,
    Unsupported,
};
use kernels_gpu::Kernel;

use super::context::Context;
use super::desc::{GemmBatch, GemmDesc, Preparation};
use super::operands::{PlanLimits, TMA_ALIGNMENT, WORKSPACE_ALIGNMENT};
use crate::element::GemmTypes;
use crate::error::Error;
use crate::operand_fault::OperandFault;
use crate::select::Finishing;

/// What a descriptor comes to on a device.
pub(super) struct Choice {
    pub(super) kernel: Kernel,
    pub(super) product: Dispatch,
    /// Whether A and B have changed places in it.
    pub(super) swapped: bool,
}

impl Choice {
    /// The kernel of a product on a device, or what a given one does for it.
    pub(super) fn new<T: GemmTypes>(
        context: &Context,
        desc: &GemmDesc,
        limits: PlanLimits,
        kernel: Option<Kernel>,
    ) -> Result<Self, Error> {
        let (canonical, swapped) = desc.canonical();
        let launched = stacked(&canonical);
        let fusing = !desc.epilogue.is_none();
        let grouped = matches!(desc.batch, GemmBatch::RowGroups { .. });
        let dispatch = |spec: &KernelSpec| Dispatch::new::<T>(context, &launched, limits, spec);
        let multiplies_prepared = |spec: &KernelSpec| {
            let of = |prepared: Preparation| spec.operands == OperandAccess::Limbs(prepared.limbs);
            desc.prepared.is_none_or(of)
        };
        let picked = match kernel {
            Some(kernel) => {
                if !desc.accuracy.admits(kernel.spec()) {
                    let (kernel, accuracy) = (kernel.spec().id, desc.accuracy);
                    return Err(Error::Accuracy { kernel, accuracy });
                }
                let refused = |reason| Error::Unsupported { kernel: kernel.spec().id, reason };
                if fusing && !kernel.spec().fuses {
                    return Err(refused(Unsupported::Epilogue));
                }
                if grouped && !kernel.spec().row_groups {
                    return Err(refused(Unsupported::RowGroups));
                }
                if let Some(prepared) =
                    desc.prepared.filter(|_| !multiplies_prepared(kernel.spec()))
                {
                    let reason = format!("{} does not multiply {prepared}", kernel.spec().id);
                    return Err(Error::Descriptor { plan: desc.to_string(), reason });
                }
                kernel
            }
            None => {
                let model = context.model().clone().with_finishing(finishing(&canonical));
                let can = |kernel: &Kernel| {
                    let spec = kernel.spec();
                    let within = |dispatch: Dispatch| dispatch.workspace_bytes <= limits.workspace;
                    let suits = desc.accuracy.admits(spec)
                        && (!fusing || spec.fuses)
                        && (!grouped || spec.row_groups)
                        && multiplies_prepared(spec);
                    suits && dispatch(spec).is_ok_and(within)
                };
                // Where each has addresses of its own it has a launch.
                let products = launched.batch.at_an_address();
                // Where nothing is written any kernel will do.
                let sizes = [launched.m.max(1), launched.n.max(1), launched.k];
                let picked = if desc.prepared.is_some() {
                    // What was asked for, however few the rows are: the sums of the fewest products of limbs.
                    let kernels = kernels_gpu::KERNELS.iter().copied().filter(can);
                    kernels.min_by_key(|kernel| match kernel.spec().numerics {
                        Numerics::Limbs { products } => products,
                        Numerics::Chain | Numerics::ChainOfRanges | Numerics::TensorCore => {
                            u32::MAX
                        }
                    })
                } else if grouped {
                    model.best_of_groups(desc.types, sizes, products, can)
                } else {
                    model.best_of_batch(desc.types, sizes, products, can)
                };
                picked.ok_or_else(|| {
                    let (accuracy, device) = (desc.accuracy, context.info().name.clone());
                    let besides = match desc.prepared {
                        Some(prepared) => format!(" with {prepared}"),
                        None if grouped => " in groups of rows".to_owned(),
                        None => String::new(),
                    };
                    Error::NoKernel { types: desc.types, besides, accuracy, device }
                })?
            }
        };
        let product = dispatch(picked.spec())?;
        let needed = product.workspace_bytes;
        if needed > limits.workspace {
            let fault = OperandFault::TooShort { bytes: limits.workspace, needed };
            let plan = format!("{desc} by {} on {context:?}", picked.spec().id);
            return Err(Error::DeviceOperand { plan, operand: "the workspace", fault });
        }
        Ok(Self { kernel: picked, product, swapped })
    }
}

/// What the epilogue of a product takes.
fn finishing(desc: &GemmDesc) -> Finishing {
    let Epilogue { bias, row_scales, column_scales, activation, amax, device_scalars } =
        desc.epilogue;
    let staged = row_scales || column_scales || amax || device_scalars || activation.is_smooth();
    match (desc.reads_c(), staged, bias) {
        (true, ..) => Finishing::StagedWithC,
        (false, true, _) | (false, false, Some(Bias::PerRow)) => Finishing::Staged,
        (false, false, None) if activation == Activation::Identity => Finishing::Nothing,
        (false, false, None | Some(Bias::PerColumn)) => Finishing::InRegisters,
    }
}

/// The same products as one where that is one: with a common B, and the rows of each A and D right behind
/// those of the one before.
fn stacked(desc: &GemmDesc) -> GemmDesc {
    let GemmBatch::Strided { count, a_stride, b_stride: 0, d_stride, .. } = desc.batch else {
        return *desc;
    };
    let rows = |layout: Layout, stride: usize| {
        layout.order == Order::RowMajor && desc.m.checked_mul(layout.ld) == Some(stride)
    };
    match desc.m.checked_mul(count) {
        Some(m)
            if count > 1
                && rows(desc.a, a_stride)
                && rows(desc.d, d_stride)
                && desc.bias_stride == 0
                && !desc.epilogue.depends_on_row() =>
        {
            GemmDesc { m, batch: GemmBatch::ONE, ..*desc }
        }
        _ => *desc,
    }
}

/// The products that a kernel launches, and what is done before.
pub(super) struct Dispatch {
    /// With a row-major D, and with A and B in orders that the kernel reads.
    pub(super) launched: GemmDesc,
    /// Which of A and B are first brought into rows, in a part of the workspace.
    pub(super) exchanged: [Option<Exchange>; 2],
    /// Ranges of k.
    pub(super) ranges: u32,
    /// Where the kernel's own workspace begins.
    pub(super) own_at: u64,
    pub(super) workspace_bytes: u64,
    /// Bytes of the limbs of a factor that is prepared.
    pub(super) prepared_bytes: u64,
}

/// A column-major operand and its row-major copy.
#[derive(Clone, Copy)]
pub(super) struct Exchange {
    /// Columns, which are lines of the operand, and their elements.
    pub(super) cols: u32,
    pub(super) rows: u32,
    /// Bytes of an element.
    pub(super) size: u32,
    /// From one column to the next, in elements.
    pub(super) ld: u64,
    /// From one row of the copy to the next, in elements.
    pub(super) pitch: u64,
    /// Where the copy is in the workspace.
    pub(super) at: u64,
}

impl Dispatch {
    fn new<T: GemmTypes>(
        context: &Context,
        desc: &GemmDesc,
        limits: PlanLimits,
        spec: &KernelSpec,
    ) -> Result<Self, Error> {
        let mut launched = *desc;
        let (mut exchanged, mut own_at) = ([None; 2], 0);
        if !spec.reads_any_order() {
            let (m, n, k) = (desc.m, desc.n, desc.k);
            let copies = desc.reads_factors();
            let factors = [
                (&mut launched.a, (m, k), desc.types.a().size()),
                (&mut launched.b, (k, n), desc.types.b().size()),
            ];
            for ((layout, (rows, cols), size), exchange) in factors.into_iter().zip(&mut exchanged)
            {
                let too_large = Error::Unsupported {
                    kernel: spec.id,
                    reason: Unsupported::TooLarge { m, n, k },
                };
                if in_rows(layout, rows, cols) {
                    continue;
                }
                let pitch = cols.next_multiple_of(COPY_BYTES / size);
                let ld = layout.ld as u64;
                *layout = Layout::row_major(pitch);
                if !copies {
                    continue;
                }
                let bytes = rows.checked_mul(pitch).and_then(|len| len.checked_mul(size));
                let counts = [cols, rows, size].map(u32::try_from);
                let (Some(bytes), [Ok(cols), Ok(rows), Ok(size)]) = (bytes, counts) else {
                    return Err(too_large);
                };
                let pitch = pitch as u64;
                *exchange = Some(Exchange { cols, rows, size, ld, pitch, at: own_at });
                own_at += (bytes as u64).next_multiple_of(WORKSPACE_ALIGNMENT);
            }
        }
        let aligned = exchanged.map(|exchange| exchange.is_some());
        let batch = batch_of(&launched, spec);
        let together = batch.count > 1;
        let ranges =
            if together { 1 } else { context.model().ranges(spec, &launched.problem::<T>()) };
        let own = workspace_bytes::<T>(context, (&launched, ranges), limits, spec, aligned)?;
        let workspace_bytes = own_at + own;
        let prepared_bytes = prepared_bytes::<T>(context, &launched, spec)?;
        Ok(Self { launched, exchanged, ranges, own_at, workspace_bytes, prepared_bytes })
    }

    /// The products of a launch.
    pub(super) fn batch(&self, spec: &KernelSpec) -> Batch {
        batch_of(&self.launched, spec)
    }
}

/// The products of a launch of a kernel: all of a batch by one that computes it so, else one.
fn batch_of(launched: &GemmDesc, spec: &KernelSpec) -> Batch {
    match launched.batch {
        GemmBatch::Strided { .. } | GemmBatch::RowGroups { .. } if spec.takes_batches() => {
            let [a_stride, b_stride, _, c_stride] = launched.batch.strides();
            Batch { count: launched.batch.count(), a_stride, b_stride, c_stride }
        }
        GemmBatch::Strided { .. } | GemmBatch::RowGroups { .. } | GemmBatch::Pointers { .. } => {
            Batch::ONE
        }
    }
}

/// Of what the bytes of a line of a copy are a multiple.
const COPY_BYTES: usize = 16;

/// Whether a matrix can be read row by row; one of a single column is given the layout for it.
fn in_rows(layout: &mut Layout, rows: usize, cols: usize) -> bool {
    let is_line = cols == 1 || rows == 1 && layout.ld == 1;
    if layout.order == Order::ColMajor && is_line {
        *layout = Layout::row_major(cols);
    }
    layout.order == Order::RowMajor
}

/// Bytes of the limbs that a kernel makes of the factor that is prepared; 0 where none is.
fn prepared_bytes<T: GemmTypes>(
    context: &Context,
    launched: &GemmDesc,
    spec: &KernelSpec,
) -> Result<u64, Error> {
    let Some(Preparation { factor, .. }) = launched.prepared else { return Ok(0) };
    let problem = launched.problem::<T>();
    let (at, band) = (Addresses { a: 0, b: 0, c: 0 }, Band::whole(problem.m));
    let planner = Planner::new(spec, &problem, at, context.limits(), band)
        .map_err(|reason| Error::Unsupported { kernel: spec.id, reason })?;
    Ok(planner.kept_bytes(factor).unwrap_or(0))
}

/// Bytes of workspace that a kernel needs for a product in that many ranges of k, wherever the operands are within
/// the limits.
fn workspace_bytes<T: GemmTypes>(
    context: &Context,
    (launched, ranges): (&GemmDesc, u32),
    limits: PlanLimits,
    spec: &KernelSpec,
    aligned: [bool; 2],
) -> Result<u64, Error> {
    if launched.is_empty() {
        return Ok(0);
    }
    let batch = batch_of(launched, spec);
    let problem = launched.problem::<T>().with_batch(batch);
    let bytes_at = |a: u64, b: u64| {
        let addresses = Addresses { a, b, c: 0 };
        let planner =
            Planner::new(spec, &problem, addresses, context.limits(), Band::whole(problem.m));
        let unsupported = |reason| Error::Unsupported { kernel: spec.id, reason };
        let planner = planner.map_err(unsupported)?;
        let planner = planner.with_ranges(ranges).with_most_workspace(limits.workspace);
        let kept = |prepared: Preparation| Kept { factor: prepared.factor, address: 0 };
        Ok::<u64, Error>(match launched.prepared.map(kept) {
            // Another kernel is not picked, whatever it needs.
            Some(kept) if planner.kept_bytes(kept.factor).is_some() => {
                planner.with_kept(kept).workspace_bytes()
            }
            Some(_) | None => planner.workspace_bytes(),
        })
    };
    // Operands are copied where they do not begin at a multiple of 16 bytes: the first where the limits do
    // not say that they do, the others where their stride does not keep to it.
    let [a_stride, b_stride, ..] = launched.batch.strides();
    let strays = |operand, stride: usize| {
        let bytes = stride as u64 * launched.types.of(operand).size() as u64;
        launched.batch.count() > 1 && !bytes.is_multiple_of(TMA_ALIGNMENT)
    };
    let (a, b) = (strays(Operand::A, a_stride), strays(Operand::B, b_stride));
    let unaligned = limits.alignment < TMA_ALIGNMENT;
    let at = |strays: bool, aligned: bool| u64::from(!aligned && (strays || unaligned));
    bytes_at(at(a, aligned[0]), at(b, aligned[1]))
}

impl Exchange {
    /// What the helper takes for an operand and its copy at these addresses.
    pub(super) fn params(self, from: DevicePtr, to: DevicePtr) -> TransposeParams {
        let Self { cols, rows, size, ld, pitch, at: _ } = self;
        let pointer =
            |address| usize::try_from(address).expect("invariant: a pointer holds an address");
        TransposeParams {
            rows: cols,
            cols: rows,
            size,
            from: std::ptr::with_exposed_provenance(pointer(from)),
            ld,
            to: std::ptr::with_exposed_provenance_mut(pointer(to)),
            pitch,
        }
    }
}
