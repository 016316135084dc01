//! Operands on the device, and the one launcher of GEMM kernels.

use std::time::Duration;

use cuda_lazy::LaunchConfig;
use cust::context::CurrentContext;
use cust::error::CudaError;
use cust::event::{Event, EventFlags};
use cust::memory::{CopyDestination, DeviceBuffer, DeviceCopy};
use gemm_spec::{Arch, Block, Grid, HelperEntry, KernelSpec, Operand, Problem, Scheme};

use super::arguments::Arguments;
use super::blas::DeviceProduct;
use super::split::{self, Band};
use super::{DeviceElement, Gpu, GpuPeer, refused, split_k, tensor};
use crate::error::Error;
use crate::scalar::Scalar;

/// What can be put into the stream: it computes C from the operands.
#[derive(Clone, Copy)]
pub enum Launch<'l> {
    /// A kernel of the registry.
    Kernel(&'static KernelSpec),
    /// A library's product, with its name.
    Peer(&'static str, &'l GpuPeer<'l>),
}

impl From<&'static KernelSpec> for Launch<'_> {
    fn from(spec: &'static KernelSpec) -> Self {
        Self::Kernel(spec)
    }
}

impl Launch<'_> {
    fn id(&self) -> &'static str {
        match self {
            Self::Kernel(spec) => spec.id,
            Self::Peer(id, _) => id,
        }
    }
}

/// An element as `cust` copies it.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Cell<T>(T);

// SAFETY: a `DeviceElement` is plain bytes.
unsafe impl<T: DeviceElement> DeviceCopy for Cell<T> {}

fn cells<T: DeviceElement>(data: &[T]) -> &[Cell<T>] {
    // SAFETY: a cell is transparent over its element, so the length and the lifetime are the same.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), data.len()) }
}

fn cells_mut<T: DeviceElement>(data: &mut [T]) -> &mut [Cell<T>] {
    // SAFETY: as in `cells`, and the borrow is as exclusive.
    unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), data.len()) }
}

/// A and B of a problem in device memory.
pub struct Operands<'g, T: Scalar> {
    gpu: &'g Gpu,
    problem: Problem<T>,
    a: DeviceBuffer<Cell<T>>,
    b: DeviceBuffer<Cell<T>>,
}

/// A buffer of C in device memory, with whatever stands before and after C in it.
pub struct Output<T: Scalar> {
    buffer: DeviceBuffer<Cell<T>>,
    /// Where C begins in the buffer.
    start: usize,
}

/// Allocates device memory and copies a slice into it.
fn upload<T: Scalar>(gpu: &Gpu, data: &[T], what: &str) -> Result<DeviceBuffer<Cell<T>>, Error> {
    let needed = size_of_val(data) as u128;
    let short = |available: u64| Error::OutOfMemory {
        what: format!("{what} on {}", gpu.info().name),
        needed,
        available: u128::from(available),
    };
    let available = gpu.make_room(needed)?;
    if needed > u128::from(available) {
        return Err(short(available));
    }
    // The driver has no buffers of length zero.
    let empty = [T::ZERO];
    let data = if data.is_empty() { &empty[..] } else { data };
    DeviceBuffer::from_slice(cells(data)).map_err(|code| match code {
        CudaError::OutOfMemory => short(available),
        code => refused(format!("copying {what} to the device"))(code),
    })
}

impl Gpu {
    /// Copies A and B to the device.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::OutOfMemory`] and [`Error::Cuda`].
    pub fn upload<T: Scalar>(
        &self,
        problem: &Problem<T>,
        a: &[T],
        b: &[T],
    ) -> Result<Operands<'_, T>, Error> {
        let a = &a[..problem.required_len(Operand::A)?.min(a.len())];
        let b = &b[..problem.required_len(Operand::B)?.min(b.len())];
        problem.check_buffers(a.len(), b.len(), usize::MAX)?;
        self.enter()?;
        let a = upload(self, a, "A")?;
        let b = upload(self, b, "B")?;
        // A copy from pageable memory may still be on its way when the call returns.
        CurrentContext::synchronize().map_err(refused("copying A and B to the device"))?;
        Ok(Operands { gpu: self, problem: *problem, a, b })
    }

    /// Copies a buffer of C to the device: guard words, poison or the old C, whatever it holds.
    /// C begins at `start`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] and [`Error::Cuda`].
    pub fn output<T: Scalar>(&self, buffer: &[T], start: usize) -> Result<Output<T>, Error> {
        self.enter()?;
        let buffer = upload(self, buffer, "C")?;
        CurrentContext::synchronize().map_err(refused("copying C to the device"))?;
        Ok(Output { buffer, start })
    }
}

impl Gpu {
    /// The one way to time the GPU: records an event, lets `launches` fill the stream, records
    /// another and waits for it.
    fn between_events(
        &self,
        launch: Launch<'_>,
        launches: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Duration, Error> {
        self.enter()?;
        let during = || format!("running {}", launch.id());
        let event = || Event::new(EventFlags::DEFAULT).map_err(refused(during()));
        let (before, after) = (event()?, event()?);
        // Compiled here, if this is the first launch, and not between the events.
        if let Launch::Kernel(spec) = launch {
            self.load(spec.arch)?;
        }
        before.record(self.stream()).map_err(refused(during()))?;
        launches()?;
        after.record(self.stream()).map_err(refused(during()))?;
        after.synchronize().map_err(refused(during()))?;
        after.elapsed(&before).map_err(refused(during()))
    }
}

impl<T: Scalar> Output<T> {
    /// Overwrites the device's buffer.
    ///
    /// # Errors
    /// [`Error::Cuda`].
    pub fn restore(&mut self, gpu: &Gpu, buffer: &[T]) -> Result<(), Error> {
        gpu.enter()?;
        self.buffer.copy_from(cells(buffer)).map_err(refused("copying C to the device"))?;
        CurrentContext::synchronize().map_err(refused("copying C to the device"))
    }

    /// Overwrites the device's buffer by what another of its size holds.
    ///
    /// # Errors
    /// [`Error::Cuda`].
    ///
    /// # Panics
    /// Where their sizes differ.
    pub fn restore_from(&mut self, gpu: &Gpu, other: &Self) -> Result<(), Error> {
        gpu.enter()?;
        self.buffer.copy_from(&*other.buffer).map_err(refused("copying C on the device"))?;
        CurrentContext::synchronize().map_err(refused("copying C on the device"))
    }

    /// Copies the whole buffer back.
    ///
    /// # Errors
    /// [`Error::Cuda`].
    pub fn download(&self, gpu: &Gpu, buffer: &mut [T]) -> Result<(), Error> {
        gpu.enter()?;
        self.buffer.copy_to(cells_mut(buffer)).map_err(refused("copying C from the device"))
    }
}

impl<T: Scalar> Operands<'_, T> {
    /// Launches a kernel, or a library's product, and waits for it; gives the time between the events
    /// around the launch.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the kernel cannot do this problem, [`Error::Cuda`] where the
    /// driver refuses the launch or the kernel fails, [`Error::Peer`] where the library refuses.
    pub fn run<'l>(
        &self,
        launch: impl Into<Launch<'l>>,
        c: &mut Output<T::Out>,
    ) -> Result<Duration, Error> {
        let launch = launch.into();
        self.gpu.between_events(launch, || self.launch(launch, c))
    }

    /// Puts the launches of one product into the stream and returns without waiting.
    fn launch(&self, launch: Launch<'_>, c: &mut Output<T::Out>) -> Result<(), Error> {
        match launch {
            Launch::Kernel(spec) => self.launch_kernel(spec, c),
            Launch::Peer(id, peer) => self.launch_peer(id, peer, c),
        }
    }

    fn launch_peer(
        &self,
        id: &'static str,
        peer: &GpuPeer<'_>,
        c: &mut Output<T::Out>,
    ) -> Result<(), Error> {
        let refused = |reason: String| Error::Peer { reason: format!("{id}: {reason}") };
        if !peer.is_of(self.gpu) {
            return Err(refused("was opened for another GPU than that of the operands".to_owned()));
        }
        let Places { a, b, c } = self.places(c)?;
        let product = DeviceProduct::new(&self.problem, a, b, c).map_err(refused)?;
        // SAFETY: the buffers hold the operands at their leading dimensions, as `places` checked; C is a
        // buffer of its own, borrowed exclusively. They outlive the product: whoever puts it into the
        // stream waits for the stream before it gives them back, and the driver frees no memory that
        // work in a stream still uses. The scalars are of the type that `DeviceProduct::new` names.
        unsafe { peer.launch(&product) }.map_err(refused)
    }

    /// Where the operands lie, once they are long enough for the problem.
    fn places(&self, c: &Output<T::Out>) -> Result<Places, Error> {
        let needed = self.problem.required_len(Operand::C)?;
        self.problem.check_buffers(
            self.a.len(),
            self.b.len(),
            c.buffer.len().saturating_sub(c.start),
        )?;
        Ok(Places {
            a: self.a.as_device_ptr().as_raw(),
            b: self.b.as_device_ptr().as_raw(),
            c: c.buffer.index(c.start..c.start + needed).as_device_ptr().as_raw(),
        })
    }

    fn launch_kernel(
        &self,
        spec: &'static KernelSpec,
        c: &mut Output<T::Out>,
    ) -> Result<(), Error> {
        let problem = &self.problem;
        let unsupported = |reason| Error::Unsupported { kernel: spec.id, reason };
        spec.supports(problem, self.gpu.limits()).map_err(unsupported)?;
        let places = self.places(c)?;
        // SAFETY: the three buffers hold m x k, k x n and m x n elements at their leading dimensions, as
        // `places` checked; C is a buffer of its own, borrowed exclusively; the kernel supports the
        // problem, which is whole.
        unsafe { put(self.gpu, spec, problem, places, Band::whole(problem)) }
    }
}

/// Puts the launches of a product by a kernel into the stream.
///
/// # Safety
/// The places are those of operands that are valid for the problem; C overlaps neither factor and
/// nobody else uses it. The kernel supports the problem. A band after the first comes right behind the
/// one before it, and B is the same.
pub(super) unsafe fn put<T: Scalar>(
    gpu: &Gpu,
    spec: &'static KernelSpec,
    problem: &Problem<T>,
    places: Places,
    band: Band,
) -> Result<(), Error> {
    // SAFETY: the caller's promises.
    unsafe {
        match &spec.scheme {
            Scheme::Chain => chain(gpu, spec, problem, places),
            Scheme::Split(entries) => split::launch(gpu, spec, entries, problem, places, band),
            Scheme::Tensor(entries) | Scheme::Boxes(entries) => {
                tensor::launch(gpu, spec, entries, problem, places)
            }
            Scheme::SplitK(split) => split_k::launch(gpu, spec, split, problem, places),
        }
    }
}

/// Launches a kernel's own entry.
///
/// # Safety
/// The places are those of operands that are valid for the problem; C overlaps neither factor and
/// nobody else uses it. The kernel supports the problem.
unsafe fn chain<T: Scalar>(
    gpu: &Gpu,
    spec: &'static KernelSpec,
    problem: &Problem<T>,
    places: Places,
) -> Result<(), Error> {
    let start = Start::own(gpu, spec, problem)?;
    let mut arguments = Arguments::of(problem, places);
    // SAFETY: the entry's obligations. (1) The operands are the caller's promise. (2) Block, grid and
    // shared memory are the spec's for this m and n. The addresses are those of `arguments`, which
    // outlives the call that copies them.
    unsafe { gpu.start(&start, &mut arguments.addresses()) }
}

/// Device addresses of the three operands.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) a: u64,
    pub(super) b: u64,
    pub(super) c: u64,
}

/// One launch of an entry.
pub(super) struct Start {
    pub(super) arch: Arch,
    pub(super) symbol: &'static str,
    pub(super) grid: Grid,
    /// Blocks of a cluster.
    pub(super) cluster: u32,
    pub(super) block: Block,
    pub(super) shared_bytes: u32,
}

impl Start {
    /// The launch of a kernel's own entry: a block for each tile, or, where blocks go from tile to tile,
    /// no more of them than the device has multiprocessors.
    pub(super) fn own<T: Scalar>(
        gpu: &Gpu,
        spec: &'static KernelSpec,
        problem: &Problem<T>,
    ) -> Result<Self, Error> {
        let unsupported = |reason| Error::Unsupported { kernel: spec.id, reason };
        let multiprocessors = gpu.limits().multiprocessors;
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

    /// The launch of a helper of a kernel, with so many blocks.
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

impl<T: Scalar> Arguments<T> {
    /// What a GEMM entry gets for a problem.
    pub(super) fn of(problem: &Problem<T>, places: Places) -> Self {
        Self {
            m: size(problem.m),
            n: size(problem.n),
            k: size(problem.k),
            alpha: problem.alpha,
            a: places.a,
            lda: problem.a.ld as u64,
            b: places.b,
            ldb: problem.b.ld as u64,
            beta: problem.beta,
            c: places.c,
            ldc: problem.c.ld as u64,
        }
    }
}

impl Gpu {
    /// Puts a launch into the stream.
    ///
    /// # Safety
    /// 1. The entry's own obligations hold for these arguments, grid, block and shared memory until
    ///    the launch is over.
    /// 2. The addresses are those of the arguments in the entry's order, number and types;
    ///    `arguments::check` compares them with the PTX when the module is loaded.
    pub(super) unsafe fn start(
        &self,
        start: &Start,
        addresses: &mut [*mut std::ffi::c_void],
    ) -> Result<(), Error> {
        let function = self.function(start.arch, start.symbol)?;
        let Grid { x, y, z } = start.grid;
        let config = LaunchConfig {
            shared_bytes: start.shared_bytes,
            stream: self.stream().as_inner().cast(),
            cluster: (start.cluster > 1).then_some([start.cluster, 1, 1]),
            ..LaunchConfig::new([x, y, z], [start.block.x, start.block.y, 1])
        };
        // SAFETY: (1) the function is of a module of this context, which the caller of every launch has
        // entered, and the stream is, too; (2) and (3) are the caller's promises.
        unsafe { self.driver().launch_kernel_ex(function, &config, addresses) }.map_err(|error| {
            let during = format!("launching {}", start.symbol);
            Error::Cuda { during, reason: error.to_string() }
        })
    }
}

/// Launches a kernel, or a library's product, `count` times without a gap, turning through the sets from
/// number `first`, and waits; gives the time between the events around them.
///
/// # Errors
/// As [`Operands::run`].
pub fn run_batch<'l, T: Scalar>(
    launch: impl Into<Launch<'l>>,
    sets: &mut [(Operands<'_, T>, Output<T::Out>)],
    first: usize,
    count: usize,
) -> Result<Duration, Error> {
    let Some(gpu) = sets.first().map(|(operands, _)| operands.gpu) else {
        return Ok(Duration::ZERO);
    };
    let launch = launch.into();
    gpu.between_events(launch, || {
        for index in 0..count {
            let set = (first + index) % sets.len();
            let (operands, output) = &mut sets[set];
            operands.launch(launch, output)?;
        }
        Ok(())
    })
}
