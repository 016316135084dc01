//! How a product on the device becomes launches in a stream: a plan, carried out by the driver.

use std::ffi::c_void;

use cuda_lazy::{
    CurrentContext, DataType, DevicePtr, LaunchConfig, LineCopy, RawStream, Swizzle, TensorMapDesc,
    TensorMapError,
};
use gemm_spec::params::{FinishParams, Params, TensorMap, TransposeParams};
use gemm_spec::plan::{self, Arguments, Launch, LaunchPlan, MapDesc, Step};
use gemm_spec::{Arch, Block, DType, Grid, HelperEntry, fusion, transpose};
use kernels_gpu::Module;

use super::context::Context;
use super::refused;
use crate::element::GemmTypes;
use crate::error::Error;

/// Most parameters of an entry.
const MOST_PARAMS: usize = 32;

/// What a launch is of, without its arguments.
#[derive(Clone, Copy)]
struct Shape {
    symbol: &'static str,
    grid: Grid,
    cluster: u32,
    block: Block,
    shared_bytes: u32,
    overlaps: bool,
}

impl<T: GemmTypes> From<&Launch<T>> for Shape {
    fn from(launch: &Launch<T>) -> Self {
        let &Launch { symbol, grid, cluster, block, shared_bytes, overlaps, .. } = launch;
        Self { symbol, grid, cluster, block, shared_bytes, overlaps }
    }
}

/// A stream of a context, which is current meanwhile, to put launches into.
pub(super) struct Launcher<'c> {
    context: &'c Context,
    stream: RawStream,
    _current: CurrentContext<'c>,
}

impl<'c> Launcher<'c> {
    pub(super) fn new(context: &'c Context, stream: RawStream) -> Result<Self, Error> {
        Ok(Self { context, stream, _current: context.enter()? })
    }

    pub(super) fn stream(&self) -> RawStream {
        self.stream
    }

    /// Queues the steps of a plan for a kernel of that arch.
    ///
    /// # Safety
    /// What the steps access is valid until they are over, and the stream is one of the context.
    pub(super) unsafe fn carry_out<T: GemmTypes>(
        &self,
        arch: Arch,
        plan: &LaunchPlan<T>,
    ) -> Result<(), Error> {
        for step in &plan.steps {
            // SAFETY: the caller's promise.
            unsafe { self.step(arch, step)? };
        }
        Ok(())
    }

    /// Queues an exchange of rows and columns.
    ///
    /// # Safety
    /// `from` and `to` are valid for the lines that the parameters name, aligned to their elements, until it
    /// is over; the stream is one of the context.
    pub(super) unsafe fn exchange(&self, params: TransposeParams) -> Result<(), Error> {
        let multiprocessors = self.context.limits().multiprocessors;
        let Some(grid) = transpose::grid(&params, multiprocessors) else { return Ok(()) };
        let HelperEntry { symbol, block, shared_bytes, .. } = kernels_gpu::TRANSPOSE;
        let shape = Shape { symbol, grid, cluster: 1, block, shared_bytes, overlaps: false };
        // SAFETY: the caller's promise; the launch has the block and the shared memory of the entry.
        unsafe { self.start(Module::common().arch, shape, params) }
    }

    /// Queues what finishes the sums of that many products.
    ///
    /// # Safety
    /// What the parameters say is read or written is valid until it is over; the stream is one of the
    /// context.
    pub(super) unsafe fn finish(
        &self,
        entry: HelperEntry,
        params: FinishParams,
        products: usize,
    ) -> Result<(), Error> {
        let multiprocessors = self.context.limits().multiprocessors;
        let grid = fusion::finish_grid(params.m, params.n, products, multiprocessors);
        let Some(grid) = grid else { return Ok(()) };
        let HelperEntry { symbol, block, shared_bytes, .. } = entry;
        let shape = Shape { symbol, grid, cluster: 1, block, shared_bytes, overlaps: false };
        // SAFETY: the caller's promise; the launch has the block of the entry.
        unsafe { self.start(Module::common().arch, shape, params) }
    }

    /// Queues the clearing of the word to which launches raise a largest magnitude.
    ///
    /// # Safety
    /// The word is valid until it is over; the stream is one of the context.
    pub(super) unsafe fn clear_word(&self, word: DevicePtr) -> Result<(), Error> {
        let driver = self.context.driver();
        // SAFETY: the caller's promise.
        unsafe { driver.memset_async(self.stream, word, 0, size_of::<u32>()) }
            .map_err(|error| refused("clearing the largest magnitude")(error))
    }

    /// Queues one step of a plan for a kernel of that module.
    ///
    /// # Safety
    /// What the step accesses is valid until it is over.
    unsafe fn step<T: GemmTypes>(&self, arch: Arch, step: &Step<T>) -> Result<(), Error> {
        match step {
            &Step::Fill { address, bytes, value } => {
                let driver = self.context.driver();
                let bytes = usize::try_from(bytes)
                    .expect("invariant: a part of a workspace, which fits the address space");
                // SAFETY: a part of the workspace, by the plan; the caller keeps it until the step is over.
                unsafe { driver.memset_async(self.stream, address, value, bytes) }
                    .map_err(|error| refused("clearing a workspace")(error))
            }
            &Step::Copy { from, to, bytes } => {
                let driver = self.context.driver();
                let bytes = usize::try_from(bytes)
                    .expect("invariant: a part of a workspace, which fits the address space");
                let copy = LineCopy { lines: 1, bytes, from_pitch: bytes, to_pitch: bytes };
                // SAFETY: from what is kept to the workspace, by the plan; the caller keeps both until the step is
                // over.
                unsafe { driver.copy_lines(self.stream, to, from, copy) }
                    .map_err(|error| refused("copying the flags of a prepared factor")(error))
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
    /// As [`Launcher::step`].
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "one argument for every list of parameters"
    )]
    unsafe fn launch<T: GemmTypes>(&self, arch: Arch, launch: &Launch<T>) -> Result<(), Error> {
        let shape = Shape::from(launch);
        // SAFETY: the plan pairs each entry with the parameters that its specification names, which the
        // committed PTX was compared with (`arguments`); what they point to is the caller's promise.
        unsafe {
            match &launch.arguments {
                Arguments::Gemm(params) => self.start(arch, shape, *params),
                Arguments::Batched(params) => self.start(arch, shape, *params),
                Arguments::SumRanges(params) => self.start(arch, shape, *params),
                Arguments::Tma(tma) => {
                    let [a, b, c] = &tma.maps;
                    let mut params = tma.params;
                    params.a_map = self.encode(a)?;
                    params.b_map = self.encode(b)?;
                    params.c_map = if c == a { params.a_map } else { self.encode(c)? };
                    self.start(arch, shape, params)
                }
                Arguments::TmaSimt(tma) => {
                    let [a, b] = &tma.maps;
                    let mut params = tma.params;
                    params.a_map = self.encode(a)?;
                    params.b_map = self.encode(b)?;
                    self.start(arch, shape, params)
                }
                Arguments::Limbs(params) => self.start(arch, shape, *params),
                Arguments::Pad(params) => self.start(arch, shape, *params),
                Arguments::SplitKMajor(params) => self.start(arch, shape, *params),
                Arguments::RowAmax(params) => self.start(arch, shape, *params),
                Arguments::SplitMnMajor(params) => self.start(arch, shape, *params),
                Arguments::Probe(params) => self.start(arch, shape, *params),
                Arguments::RowExponents(params) => self.start(arch, shape, *params),
                Arguments::Fallback(params) => self.start(arch, shape, *params),
            }
        }
    }

    /// Queues a launch with its parameters, the maps among them encoded.
    ///
    /// # Safety
    /// The parameters are the entry's, and its obligations hold for them, the grid, the block and the shared
    /// memory until the launch is over.
    unsafe fn start<P: Params>(
        &self,
        arch: Arch,
        launch: Shape,
        mut params: P,
    ) -> Result<(), Error> {
        const { assert!(P::OFFSETS.len() <= MOST_PARAMS) };
        let function = self.context.function(arch, launch.symbol)?;
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
        let driver = self.context.driver();
        // SAFETY: (1) the function is of a module of this context, which the launcher keeps current, and the
        // stream is that context's by the contract of `carry_out`; (2) the addresses are those
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
        let (count, stride) = map.matrices.map_or((1, 0), |of| (of.count, of.stride));
        let (dims, strides) = ([map.dims[0], map.dims[1], count], [map.pitch, stride]);
        let box_dims = [map.box_dims[0], map.box_dims[1], 1];
        let rank = if map.matrices.is_some() { 3 } else { 2 };
        let desc = TensorMapDesc {
            swizzle: match map.swizzle {
                plan::Swizzle::None => Swizzle::None,
                plan::Swizzle::B128 => Swizzle::B128,
            },
            ..TensorMapDesc::new(
                data_type,
                map.address,
                &dims[..rank],
                &strides[..rank - 1],
                &box_dims[..rank],
            )
        };
        let encoded = self.context.driver().encode_tiled(&desc);
        encoded.map(|map| TensorMap(map.words())).map_err(|error| {
            let code =
                if let TensorMapError::Driver(error) = &error { Some(error.code) } else { None };
            let during = "describing an operand to TMA".to_owned();
            Error::Cuda { during, reason: error.to_string(), code }
        })
    }
}
