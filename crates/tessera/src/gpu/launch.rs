//! How a product on the device becomes launches in a stream: a plan, carried out by the driver.

use std::ffi::c_void;

use cuda_lazy::{CurrentContext, DataType, LaunchConfig, RawStream, Swizzle, TensorMapDesc};
use gemm_spec::params::{Params, TensorMap};
use gemm_spec::plan::{self, Addresses, Arguments, Band, Launch, MapDesc, Planner, Step};
use gemm_spec::split::FALL_BACK;
use gemm_spec::{Arch, DType, Grid, Problem, Unsupported};
use kernels_gpu::Kernel;

use super::{Gpu, refused};
use crate::element::GemmTypes;
use crate::error::Error;

/// Most parameters of an entry.
const MOST_PARAMS: usize = 16;

impl Gpu {
    /// Puts the launches of `C = alpha * A * B + beta * C` into a stream and returns without waiting.
    ///
    /// Operands are on the device. A kernel's modules are loaded on first use ([`Gpu::load`] does it
    /// before). Memory that a kernel needs besides its operands is kept by this [`Gpu`] for the stream.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the kernel cannot run the problem, [`Error::OutOfMemory`] where its
    /// workspace does not fit, [`Error::Ptx`], and [`Error::Cuda`] where the driver refuses. A kernel that
    /// fails while it runs shows in a later call.
    ///
    /// # Safety
    /// 1. The addresses are of this GPU's context, aligned to their elements, and valid for the problem's
    ///    operands at their leading dimensions; C overlaps neither A nor B.
    /// 2. `stream` is a stream of this GPU's context and outlives its work. Until that is over nobody writes
    ///    A or B, or reads or writes C, but work that this stream orders.
    pub unsafe fn enqueue<T: GemmTypes>(
        &self,
        stream: RawStream,
        kernel: Kernel,
        problem: &Problem<T>,
        addresses: Addresses,
    ) -> Result<(), Error> {
        let queue = Queue::new(self, stream)?;
        // SAFETY: the caller's promises; the product is whole.
        unsafe { queue.enqueue(kernel, problem, addresses, Band::whole(problem.m)) }
    }
}

/// A stream of a GPU whose context is current, to put launches into.
pub(super) struct Queue<'g> {
    pub(super) gpu: &'g Gpu,
    pub(super) stream: RawStream,
    _current: CurrentContext<'g>,
}

impl<'g> Queue<'g> {
    pub(super) fn new(gpu: &'g Gpu, stream: RawStream) -> Result<Self, Error> {
        let failed = |error| refused(format!("using device {}", gpu.info().index))(error);
        let _current = gpu.context().enter().map_err(failed)?;
        Ok(Self { gpu, stream, _current })
    }

    /// Queues the launches of a product by a kernel.
    ///
    /// # Safety
    /// The addresses are those of operands that are valid for the problem; C overlaps neither A nor B and
    /// nobody else uses it. A band after the first comes right behind the one before it, and B is the
    /// same.
    pub(super) unsafe fn enqueue<T: GemmTypes>(
        &self,
        kernel: Kernel,
        problem: &Problem<T>,
        addresses: Addresses,
        band: Band,
    ) -> Result<(), Error> {
        let spec = kernel.spec();
        let limits = self.gpu.limits();
        // A band is summed as the whole product would be.
        let ranges = self.gpu.model().ranges(spec, &Problem { m: band.all, ..*problem });
        let unsupported = |reason: Unsupported| Error::Unsupported { kernel: spec.id, reason };
        let planner = Planner::new(spec, problem, addresses, limits, band)
            .map_err(unsupported)?
            .with_ranges(ranges);
        let carry_out = |workspace: u64| {
            let plan = planner.plan(workspace).map_err(unsupported)?;
            for step in &plan.steps {
                // SAFETY: the operands are the caller's promise, the workspace has the bytes that the plan
                // asks for and this stream alone uses it, in order: so what the plan's steps access is
                // valid for them.
                unsafe { self.step(spec.arch, step)? };
            }
            Ok(())
        };
        match planner.workspace_bytes() {
            0 => carry_out(0),
            bytes => self.with_workspace(bytes, carry_out),
        }
    }

    /// Whether limbs could not hold the product in bands that was queued last: in which band that was found,
    /// nobody knows. Waits for all that the stream was given.
    pub(super) fn fell_back<T: GemmTypes>(
        &self,
        kernel: Kernel,
        problem: &Problem<T>,
        band: Band,
    ) -> Result<bool, Error> {
        let spec = kernel.spec();
        let Some(flags_at) = Planner::range_flags(spec, problem, band) else { return Ok(false) };
        self.with_workspace(flags_at + size_of::<u32>() as u64, |at| {
            let mut flags = [0; size_of::<u32>()];
            let driver = self.gpu.context().driver();
            // SAFETY: the flags are within the workspace, whose last user's work this copy follows in the
            // stream and waits for.
            unsafe { driver.read_in_order(self.stream, &mut flags, at + flags_at) }
                .map_err(refused("reading the flags of a product"))?;
            Ok(u32::from_ne_bytes(flags) & FALL_BACK != 0)
        })
    }

    /// Queues one step of a plan for a kernel of that module.
    ///
    /// # Safety
    /// What the step accesses is valid until it is over.
    unsafe fn step<T: GemmTypes>(&self, arch: Arch, step: &Step<T>) -> Result<(), Error> {
        match step {
            &Step::Fill { address, bytes, value } => {
                let driver = self.gpu.context().driver();
                let bytes = usize::try_from(bytes)
                    .expect("invariant: a part of a workspace, which fits the address space");
                // SAFETY: a part of the workspace, by the plan; the caller keeps it until the step is over.
                unsafe { driver.memset_async(self.stream, address, value, bytes) }
                    .map_err(|error| refused("clearing a workspace")(error))
            }
            Step::Launch(launch) => {
                // SAFETY: the caller's promise.
                unsafe { self.launch(arch, launch) }
            }
        }
    }

    /// Queues a launch.
    ///
    /// # Safety
    /// As [`Queue::step`].
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "one argument for every list of parameters"
    )]
    unsafe fn launch<T: GemmTypes>(&self, arch: Arch, launch: &Launch<T>) -> Result<(), Error> {
        // SAFETY: the plan pairs each entry with the parameters that its specification names, which the
        // committed PTX was compared with (`arguments`); what they point to is the caller's promise.
        unsafe {
            match &launch.arguments {
                Arguments::Gemm(params) => self.start(arch, launch, *params),
                Arguments::SumRanges(params) => self.start(arch, launch, *params),
                Arguments::Tma(tma) => {
                    let [a, b, c] = &tma.maps;
                    let mut params = tma.params;
                    params.a_map = self.encode(a)?;
                    params.b_map = self.encode(b)?;
                    params.c_map = if c == a { params.a_map } else { self.encode(c)? };
                    self.start(arch, launch, params)
                }
                Arguments::TmaSimt(tma) => {
                    let [a, b] = &tma.maps;
                    let mut params = tma.params;
                    params.a_map = self.encode(a)?;
                    params.b_map = self.encode(b)?;
                    self.start(arch, launch, params)
                }
                Arguments::Limbs(params) => self.start(arch, launch, *params),
                Arguments::Pad(params) => self.start(arch, launch, *params),
                Arguments::SplitKMajor(params) => self.start(arch, launch, *params),
                Arguments::RowAmax(params) => self.start(arch, launch, *params),
                Arguments::SplitMnMajor(params) => self.start(arch, launch, *params),
                Arguments::Probe(params) => self.start(arch, launch, *params),
                Arguments::Fallback(params) => self.start(arch, launch, *params),
            }
        }
    }

    /// Queues a launch with its parameters, the maps among them encoded.
    ///
    /// # Safety
    /// The parameters are the entry's, and its obligations hold for them, the grid, the block and the shared
    /// memory until the launch is over.
    unsafe fn start<T: GemmTypes, P: Params>(
        &self,
        arch: Arch,
        launch: &Launch<T>,
        mut params: P,
    ) -> Result<(), Error> {
        const { assert!(P::OFFSETS.len() <= MOST_PARAMS) };
        let function = self.gpu.function(arch, launch.symbol)?;
        let Grid { x, y, z } = launch.grid;
        let config = LaunchConfig {
            shared_bytes: launch.shared_bytes,
            stream: self.stream,
            cluster: (launch.cluster > 1).then_some([launch.cluster, 1, 1]),
            programmatic_stream_serialization: launch.overlaps,
            ..LaunchConfig::new([x, y, z], [launch.block.x, launch.block.y, 1])
        };
        // The driver reads each parameter from an address of its own.
        let base = std::ptr::from_mut(&mut params).cast::<c_void>();
        let mut addresses = [std::ptr::null_mut(); MOST_PARAMS];
        for (address, &offset) in addresses.iter_mut().zip(P::OFFSETS) {
            *address = base.wrapping_byte_add(offset);
        }
        let addresses = &mut addresses[..P::OFFSETS.len()];
        let driver = self.gpu.context().driver();
        // SAFETY: (1) the function is of a module of this context, which a queue keeps current, and the
        // stream is that context's by the contract of whoever made the queue; (2) the addresses are those
        // of the fields of `params`, which outlives the call that copies them; (3) is the caller's
        // promise.
        unsafe { driver.launch_kernel_ex(function, &config, addresses) }
            .map_err(|error| refused(format!("launching {}", launch.symbol))(error))
    }

    /// A tensor map as TMA reads it.
    fn encode(&self, map: &MapDesc) -> Result<TensorMap, Error> {
        let data_type = match map.dtype {
            DType::F16 => DataType::F16,
            DType::BF16 => DataType::Bf16,
            DType::F32 => DataType::F32,
            DType::F64 => DataType::F64,
            DType::I32 => DataType::I32,
            DType::I8 => DataType::U8,
        };
        let strides = [map.pitch];
        let desc = TensorMapDesc {
            swizzle: match map.swizzle {
                plan::Swizzle::None => Swizzle::None,
                plan::Swizzle::B128 => Swizzle::B128,
            },
            ..TensorMapDesc::new(data_type, map.address, &map.dims, &strides, &map.box_dims)
        };
        let encoded = self.gpu.context().driver().encode_tiled(&desc);
        encoded.map(|map| TensorMap(map.words())).map_err(|error| Error::Cuda {
            during: "describing an operand to TMA".to_owned(),
            reason: error.to_string(),
        })
    }
}
