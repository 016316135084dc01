//! One launch of an entry, as it goes to the driver.

use std::ffi::c_void;

use cuda_lazy::{DevicePtr, LaunchConfig};
use gemm_spec::{Arch, Block, Grid, HelperEntry, KernelSpec, Problem};

use super::arguments::Arguments;
use super::launch::Queue;
use crate::element::Element;
use crate::error::Error;

/// Device addresses of the three operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The first element of A.
    pub a: DevicePtr,
    /// The first element of B.
    pub b: DevicePtr,
    /// The first element of C.
    pub c: DevicePtr,
}

/// The shape of a launch of an entry.
pub(super) struct EntryLaunch {
    pub(super) arch: Arch,
    pub(super) symbol: &'static str,
    pub(super) grid: Grid,
    /// CTAs of a cluster.
    pub(super) cluster: u32,
    pub(super) block: Block,
    pub(super) shared_bytes: u32,
}

impl EntryLaunch {
    /// The launch of a kernel's own entry: a CTA for each tile, or, where CTAs go from tile to tile, no
    /// more of them than the device has SMs.
    pub(super) fn own<T: Element>(
        queue: &Queue<'_>,
        spec: &KernelSpec,
        problem: &Problem<T>,
    ) -> Result<Self, Error> {
        let unsupported = |reason| Error::Unsupported { kernel: spec.id, reason };
        let multiprocessors = queue.gpu.limits().multiprocessors;
        let grid = spec.launch_grid(problem.m, problem.n, multiprocessors).map_err(unsupported)?;
        Ok(Self {
            arch: spec.arch,
            symbol: spec.entry(T::DTYPE).map_err(unsupported)?,
            grid,
            cluster: spec.cluster(),
            block: spec.block(problem.m, problem.n).map_err(unsupported)?,
            shared_bytes: spec.shared_bytes(T::DTYPE),
        })
    }

    /// The launch of an auxiliary entry of a kernel, with that grid.
    pub(super) fn helper(spec: &KernelSpec, entry: &HelperEntry, grid: Grid) -> Self {
        let HelperEntry { symbol, block, shared_bytes, .. } = *entry;
        Self { arch: spec.arch, symbol, grid, cluster: 1, block, shared_bytes }
    }
}

/// A size as kernels take it.
///
/// # Panics
/// Where [`KernelSpec::supports`] was not asked: it refuses what is larger.
pub(super) fn size(value: usize) -> u32 {
    u32::try_from(value).expect("invariant: `supports` bounds sizes")
}

impl<T: Element> Arguments<T> {
    /// What a GEMM entry gets for a problem.
    pub(super) fn of(problem: &Problem<T>, addresses: Addresses) -> Self {
        Self {
            m: size(problem.m),
            n: size(problem.n),
            k: size(problem.k),
            alpha: problem.alpha,
            a: addresses.a,
            lda: problem.a.ld as u64,
            b: addresses.b,
            ldb: problem.b.ld as u64,
            beta: problem.beta,
            c: addresses.c,
            ldc: problem.c.ld as u64,
        }
    }
}

impl Queue<'_> {
    /// Queues a launch.
    ///
    /// # Safety
    /// 1. The entry's own obligations hold for these arguments, grid, block and shared memory until
    ///    the launch is over.
    /// 2. The addresses are those of the arguments in the entry's order, number and types;
    ///    `arguments::check` compares them with the PTX.
    pub(super) unsafe fn launch(
        &self,
        launch: &EntryLaunch,
        addresses: &mut [*mut c_void],
    ) -> Result<(), Error> {
        let function = self.gpu.function(launch.arch, launch.symbol)?;
        let Grid { x, y, z } = launch.grid;
        let config = LaunchConfig {
            shared_bytes: launch.shared_bytes,
            stream: self.stream,
            cluster: (launch.cluster > 1).then_some([launch.cluster, 1, 1]),
            ..LaunchConfig::new([x, y, z], [launch.block.x, launch.block.y, 1])
        };
        let driver = self.gpu.context().driver();
        // SAFETY: (1) the function is of a module of this context, which a queue keeps current, and the
        // stream is that context's by the contract of whoever made the queue; (2) and (3) are the
        // caller's promises.
        unsafe { driver.launch_kernel_ex(function, &config, addresses) }.map_err(|error| {
            let during = format!("launching {}", launch.symbol);
            Error::Cuda { during, reason: error.to_string() }
        })
    }
}
