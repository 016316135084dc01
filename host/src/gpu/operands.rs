//! Operands on the device, and products on them between events.

use std::time::Duration;

use cust::context::CurrentContext;
use cust::error::CudaError;
use cust::event::{Event, EventFlags};
use cust::memory::{CopyDestination, DeviceBuffer, DeviceCopy};
use gemm_spec::{Operand, Problem};
use kernels_gpu::Kernel;
use tessera::gpu::Addresses;

use super::blas::DeviceProduct;
use super::{Gpu, GpuPeer, refused};
use crate::error::Error;
use crate::scalar::{Scalar, ScalarTypes};

/// What can be put into the stream: it computes C from the operands.
#[derive(Clone, Copy)]
pub enum Launch<'l> {
    /// A kernel of the registry.
    Kernel(Kernel),
    /// A library's product, with its name.
    Peer(&'static str, &'l GpuPeer<'l>),
}

impl From<Kernel> for Launch<'_> {
    fn from(kernel: Kernel) -> Self {
        Self::Kernel(kernel)
    }
}

impl Launch<'_> {
    fn id(&self) -> &'static str {
        match self {
            Self::Kernel(kernel) => kernel.spec().id,
            Self::Peer(id, _) => id,
        }
    }
}

/// An element as `cust` copies it.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Cell<T>(T);

// SAFETY: a `tessera::Element` is plain bytes.
unsafe impl<T: tessera::Element> DeviceCopy for Cell<T> {}

fn cells<T: tessera::Element>(data: &[T]) -> &[Cell<T>] {
    // SAFETY: a cell is transparent over its element, so the length and the lifetime are the same.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), data.len()) }
}

fn cells_mut<T: tessera::Element>(data: &mut [T]) -> &mut [Cell<T>] {
    // SAFETY: as in `cells`, and the borrow is as exclusive.
    unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), data.len()) }
}

/// A and B of a problem in device memory.
pub struct Operands<'g, T: ScalarTypes> {
    gpu: &'g Gpu,
    problem: Problem<T>,
    a: DeviceBuffer<Cell<T::A>>,
    b: DeviceBuffer<Cell<T::B>>,
}

/// A buffer of C in device memory, with whatever stands before and after C in it.
pub struct Output<'g, T: Scalar> {
    gpu: &'g Gpu,
    buffer: DeviceBuffer<Cell<T>>,
    /// Where C begins in the buffer.
    start: usize,
}

impl<T: ScalarTypes> Drop for Operands<'_, T> {
    fn drop(&mut self) {
        // Memory is freed in its own context, whatever thread drops this.
        let _ = self.gpu.enter();
    }
}

impl<T: Scalar> Drop for Output<'_, T> {
    fn drop(&mut self) {
        // As for operands.
        let _ = self.gpu.enter();
    }
}

/// Allocates device memory and copies a slice into it.
fn upload<T: Scalar>(gpu: &Gpu, data: &[T], what: &str) -> Result<DeviceBuffer<Cell<T>>, Error> {
    let needed = size_of_val(data) as u128;
    let short = |available: u64| -> Error {
        let what = format!("{what} on {}", gpu.info().name);
        tessera::Error::OutOfMemory { what, needed, available: Some(u128::from(available)) }.into()
    };
    let available = gpu.make_room(needed)?;
    if needed > u128::from(available) {
        return Err(short(available));
    }
    // The driver has no buffers of length zero.
    let empty = [T::ZERO];
    let data = if data.is_empty() { &empty[..] } else { data };
    DeviceBuffer::from_slice(cells(data)).map_err(|code| {
        if code == CudaError::OutOfMemory {
            return short(available);
        }
        refused(format!("copying {what} to the device"))(code)
    })
}

impl Gpu {
    /// Copies A and B to the device.
    ///
    /// # Errors
    /// [`tessera::Error::Shape`], [`tessera::Error::OutOfMemory`] and [`tessera::Error::Cuda`].
    pub fn upload<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
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
    /// [`tessera::Error::OutOfMemory`] and [`tessera::Error::Cuda`].
    pub fn output<T: Scalar>(&self, buffer: &[T], start: usize) -> Result<Output<'_, T>, Error> {
        self.enter()?;
        let buffer = upload(self, buffer, "C")?;
        CurrentContext::synchronize().map_err(refused("copying C to the device"))?;
        Ok(Output { gpu: self, buffer, start })
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
        let (before, after) = self.before(launch)?;
        launches()?;
        self.after(launch, (&before, &after))
    }

    /// An event at which the launches begin, which are compiled by then, and one for their end.
    fn before(&self, launch: Launch<'_>) -> Result<(Event, Event), Error> {
        self.enter()?;
        let during = || format!("running {}", launch.id());
        let event = || Event::new(EventFlags::DEFAULT).map_err(refused(during()));
        let (before, after) = (event()?, event()?);
        if let Launch::Kernel(spec) = launch {
            self.load(spec)?;
        }
        before.record(self.stream()).map_err(refused(during()))?;
        Ok((before, after))
    }

    /// Waits for the event behind the launches; how long they took.
    fn after(
        &self,
        launch: Launch<'_>,
        (before, after): (&Event, &Event),
    ) -> Result<Duration, Error> {
        let during = || format!("running {}", launch.id());
        after.record(self.stream()).map_err(refused(during()))?;
        after.synchronize().map_err(refused(during()))?;
        after.elapsed(before).map_err(refused(during()))
    }
}

impl<T: Scalar> Output<'_, T> {
    /// Overwrites the device's buffer.
    ///
    /// # Errors
    /// [`tessera::Error::Cuda`].
    ///
    /// # Panics
    /// Where the sizes differ.
    pub fn restore(&mut self, buffer: &[T]) -> Result<(), Error> {
        self.gpu.enter()?;
        self.buffer.copy_from(cells(buffer)).map_err(refused("copying C to the device"))?;
        CurrentContext::synchronize().map_err(refused("copying C to the device"))
    }

    /// Overwrites the device's buffer by what another of its size holds.
    ///
    /// # Errors
    /// [`tessera::Error::Cuda`].
    ///
    /// # Panics
    /// Where their sizes differ.
    pub fn restore_from(&mut self, other: &Self) -> Result<(), Error> {
        same_gpu(self.gpu, other.gpu)?;
        self.gpu.enter()?;
        self.buffer.copy_from(&*other.buffer).map_err(refused("copying C on the device"))?;
        CurrentContext::synchronize().map_err(refused("copying C on the device"))
    }

    /// Copies the whole buffer back.
    ///
    /// # Errors
    /// [`tessera::Error::Cuda`].
    ///
    /// # Panics
    /// Where the sizes differ.
    pub fn download(&self, buffer: &mut [T]) -> Result<(), Error> {
        self.gpu.enter()?;
        self.buffer.copy_to(cells_mut(buffer)).map_err(refused("copying C from the device"))
    }
}

impl<T: ScalarTypes> Operands<'_, T> {
    /// Launches a kernel, or a library's product, and waits for it; gives the time between the events
    /// around the launch.
    ///
    /// # Errors
    /// [`tessera::Error::Unsupported`] where the kernel cannot do this problem, [`tessera::Error::Cuda`] where the
    /// driver refuses the launch or the kernel fails, [`Error::Peer`] where the library refuses.
    pub fn run<'l>(
        &self,
        launch: impl Into<Launch<'l>>,
        c: &mut Output<'_, T::C>,
    ) -> Result<Duration, Error> {
        let launch = launch.into();
        self.gpu.between_events(launch, || self.launch(launch, c))
    }

    /// Puts the launches of one product into the stream and returns without waiting.
    fn launch(&self, launch: Launch<'_>, c: &mut Output<'_, T::C>) -> Result<(), Error> {
        match launch {
            Launch::Kernel(spec) => self.launch_kernel(spec, c),
            Launch::Peer(id, peer) => self.launch_peer(id, peer, c),
        }
    }

    fn launch_peer(
        &self,
        id: &'static str,
        peer: &GpuPeer<'_>,
        c: &mut Output<'_, T::C>,
    ) -> Result<(), Error> {
        let refused = |reason: String| Error::Peer { reason: format!("{id}: {reason}") };
        if !peer.is_of(self.gpu) {
            return Err(refused("was opened for another GPU than that of the operands".to_owned()));
        }
        let Addresses { a, b, c } = self.addresses(c)?;
        let product = DeviceProduct::new(&self.problem, a, b, c).map_err(refused)?;
        // SAFETY: the buffers hold the operands at their leading dimensions, as `addresses` checked; C is a
        // buffer of its own, borrowed exclusively. They outlive the product: whoever puts it into the
        // stream waits for the stream before it gives them back, and the driver frees no memory that
        // work in a stream still uses. The scalars are of the type that `DeviceProduct::new` names.
        unsafe { peer.launch(&product) }.map_err(refused)
    }

    /// The operands' addresses, once they are of one GPU and long enough for the problem.
    fn addresses(&self, c: &Output<'_, T::C>) -> Result<Addresses, Error> {
        same_gpu(self.gpu, c.gpu)?;
        let needed = self.problem.required_len(Operand::C)?;
        self.problem.check_buffers(
            self.a.len(),
            self.b.len(),
            c.buffer.len().saturating_sub(c.start),
        )?;
        Ok(Addresses {
            a: self.a.as_device_ptr().as_raw(),
            b: self.b.as_device_ptr().as_raw(),
            c: c.buffer.index(c.start..c.start + needed).as_device_ptr().as_raw(),
        })
    }

    fn launch_kernel(&self, kernel: Kernel, c: &mut Output<'_, T::C>) -> Result<(), Error> {
        let addresses = self.addresses(c)?;
        let stream = self.gpu.stream().as_inner().cast();
        // SAFETY: (1) the three buffers are of this GPU's context and hold the operands at their leading
        // dimensions, as `addresses` checked; C is a buffer of its own, borrowed exclusively. (2) The
        // stream is the GPU's, which outlives the operands; nobody else is handed their addresses, and
        // whoever puts a product into the stream waits for it before the borrows end: the driver frees no
        // memory that work in a stream still uses.
        unsafe { self.gpu.library().enqueue(stream, kernel, &self.problem, addresses) }?;
        Ok(())
    }
}

/// Refuses operands of different GPUs.
fn same_gpu(one: &Gpu, other: &Gpu) -> Result<(), Error> {
    if one.library().context().is(other.library().context()) {
        return Ok(());
    }
    let reason = format!(
        "they are of different GPUs, {} and {}",
        one.library().info().index,
        other.library().info().index
    );
    let during = "using two buffers together".to_owned();
    Err(tessera::Error::Cuda { during, reason, code: None }.into())
}

/// Launches a kernel, or a library's product, `count` times without a gap, cycling through the sets from
/// number `first`, and waits; gives the time between the events around them.
///
/// # Errors
/// As [`Operands::run`].
pub fn run_batch<'l, T: ScalarTypes>(
    launch: impl Into<Launch<'l>>,
    sets: &mut [(Operands<'_, T>, Output<'_, T::C>)],
    first: usize,
    count: usize,
) -> Result<Duration, Error> {
    let Some(gpu) = sets.first().map(|(operands, _)| operands.gpu) else {
        return Ok(Duration::ZERO);
    };
    for (operands, _) in &*sets {
        same_gpu(gpu, operands.gpu)?;
    }
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
