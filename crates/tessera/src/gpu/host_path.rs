//! Products whose operands are in host memory, by a GPU: up, multiplied and down again, all at once
//! where the product is large.
//!
//! Host memory that a program allocates is copied to a GPU at a fraction of what the bus allows, since
//! the driver must take it through pinned buffers of its own, one thread copying. So all threads
//! of the CPU's pool copy parts of the operands to pinned buffers kept here, from which the device
//! takes them while the next part is copied; and likewise back. B goes up first, then A in bands of
//! rows. Each band is multiplied as soon as it is up and its rows of C come down while later ones are
//! still on their way up: copies up, products and copies down have a stream each, and events say what
//! waits for what.
//!
//! A product that is not cut has nothing that goes on at the same time: it has one stream, whose order costs nothing.
//!
//! An operand that is in pinned memory already is copied by the device from there, and C to there; no thread of the CPU
//! touches it.
//!
//! Memory on the device and pinned memory are kept for the next product.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cpu_gemm::{CpuContext, View, ViewMut};
use cuda_lazy::{DeviceMemory, Event, Stream, Timing};
use gemm_spec::plan::{Addresses, Band};
use gemm_spec::{Element as _, Operand, Problem};
use kernels_gpu::Kernel;
use rayon::ThreadPool;

use super::bands::Plan;
use super::host_bytes::{HostBytes, HostBytesMut};
use super::queue::Queue;
use super::schedule::{Chunk, Schedule, Step};
use super::staging::{DeviceBytes, Lane};
use super::{Gpu, refused};
use crate::element::{GemmTypes, bytes, bytes_mut};
use crate::error::Error;
use crate::matrix::sizes_of;
use crate::pipeline::Pipeline;

/// What is kept from one product to the next.
pub(super) struct Staging {
    /// The operands' memory on the device.
    pub(super) memory: Option<DeviceMemory>,
    up: Lane,
    down: Lane,
}

/// A GPU and the CPU's threads that bring operands to it.
#[derive(Clone, Copy)]
pub struct HostPath<'g> {
    gpu: &'g Gpu,
    cpu: &'g CpuContext,
    pipeline: Pipeline,
}

/// How long a product with operands in host memory took. Copies and products overlap, so that the parts
/// may add up to more than all.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct HostTimes {
    /// From operands in host memory to the result in host memory, by the host's clock.
    pub all: Duration,
    /// From the first copy to the device to the end of the last.
    pub to_device: Duration,
    /// The kernel, all bands together, between events.
    pub kernel: Duration,
    /// From the first copy of C, when it may begin, to the end of the last.
    pub from_device: Duration,
}

/// A product that ended with an error.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Unfinished {
    /// Why.
    #[source]
    pub error: Error,
    /// Whether some of C is the product's already; else C is as it was.
    pub written: bool,
}

impl From<Error> for Unfinished {
    /// Of what has not begun.
    fn from(error: Error) -> Self {
        Self { error, written: false }
    }
}

impl Gpu {
    /// The way through this GPU for operands in host memory, copied by the threads of that context.
    #[must_use]
    pub fn host_path<'g>(&'g self, cpu: &'g CpuContext) -> HostPath<'g> {
        HostPath { gpu: self, cpu, pipeline: Pipeline::default() }
    }
}

impl HostPath<'_> {
    /// The same way with products cut up differently; the bits of C do not change.
    #[must_use]
    pub fn cut(self, pipeline: Pipeline) -> Self {
        Self { pipeline, ..self }
    }

    /// Computes `C = alpha * A * B + beta * C` by a kernel. C's padding stays as it is.
    ///
    /// # Errors
    /// [`Error::Shape`] where a buffer is too short, [`Error::Unsupported`] where the kernel cannot do
    /// this problem, [`Error::OutOfMemory`], and C is unchanged. [`Error::Cuda`] where the driver
    /// refuses or the kernel fails; some rows of C may then have been written.
    pub fn multiply<T: GemmTypes>(
        &self,
        kernel: Kernel,
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        c: &mut [T::C],
    ) -> Result<(), Error> {
        self.of_slices(kernel, problem, a, b, c, false).map(|_| ())
    }

    /// The same of views. What lies between their lines is neither read nor written, and others may use it
    /// meanwhile.
    ///
    /// # Errors
    /// As [`HostPath::multiply`], with whether C is unchanged; [`Error::InnerDim`] and [`Error::OuterDim`] where
    /// the sizes do not fit.
    pub fn multiply_views<T: GemmTypes>(
        &self,
        kernel: Kernel,
        (alpha, beta): (T::Acc, T::Acc),
        a: View<'_, T::A>,
        b: View<'_, T::B>,
        c: ViewMut<'_, T::C>,
    ) -> Result<(), Unfinished> {
        let problem = problem_of_views::<T>((alpha, beta), a, b, &c)?;
        self.check(kernel, &problem)?;
        let (a, b) = (HostBytes::of_view(a), HostBytes::of_view(b));
        let c = HostBytesMut::of_view(c);
        // SAFETY: the problem's layouts are the views', whose lines are apart from each other.
        unsafe { self.product(kernel, &problem, a, b, c, false) }.map(|_| ())
    }

    /// The same, and what took how long. The events that tell cost a small product a good part of its
    /// time. The driver's compilation of the kernel's module is in no time.
    ///
    /// # Errors
    /// As [`HostPath::multiply`].
    pub fn timed<T: GemmTypes>(
        &self,
        kernel: Kernel,
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        c: &mut [T::C],
    ) -> Result<HostTimes, Error> {
        self.of_slices(kernel, problem, a, b, c, true)
    }

    fn of_slices<T: GemmTypes>(
        &self,
        kernel: Kernel,
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        c: &mut [T::C],
        timed: bool,
    ) -> Result<HostTimes, Error> {
        self.check(kernel, problem)?;
        problem.check_buffers(a.len(), b.len(), c.len())?;
        let (a, b) = (HostBytes::of(bytes(a)), HostBytes::of(bytes(b)));
        let c = HostBytesMut::of(bytes_mut(c));
        // SAFETY: the buffers were checked to hold the problem's matrices.
        unsafe { self.product(kernel, problem, a, b, c, timed) }.map_err(|failed| failed.error)
    }

    /// Whether the kernel can do this problem here.
    fn check<T: GemmTypes>(&self, kernel: Kernel, problem: &Problem<T>) -> Result<(), Error> {
        let supported = kernel.supports(problem, self.gpu.limits());
        supported.map_err(|reason| Error::Unsupported { kernel: kernel.id, reason })
    }

    /// Computes a problem that was [checked](Self::check).
    ///
    /// # Safety
    /// The matrices have the sizes and layouts of the problem.
    unsafe fn product<T: GemmTypes>(
        &self,
        kernel: Kernel,
        problem: &Problem<T>,
        a: HostBytes<'_>,
        b: HostBytes<'_>,
        mut c: HostBytesMut<'_>,
        timed: bool,
    ) -> Result<HostTimes, Unfinished> {
        let Self { gpu, cpu, pipeline } = *self;
        if problem.m == 0 || problem.n == 0 {
            return Ok(HostTimes::default());
        }
        gpu.load(kernel)?;
        let started = Instant::now();
        let bands = pipeline.bands(kernel.spec(), problem, gpu.limits().multiprocessors);
        let tallest = bands.first().map_or(0, |band| band.len());
        let in_bands = bands.len() > 1;
        let pinned = Pinned::of(gpu, problem, [a, b, c.to_read()]);
        let pool = cpu.pool();
        let product = Product { gpu, pool, pipeline, timed, kernel, problem, a, b, pinned };
        let mut written = false;
        let times = self.with_staging(|staging| {
            let whole = Plan::new(problem, bands);
            // SAFETY: the plan is of the problem, whose matrices these are.
            let times = unsafe { product.run(staging, &whole, &mut c, &mut written) }?;
            let band = Band { tallest, ..Band::whole(problem.m) };
            if in_bands && product.queue()?.fell_back(kernel, problem, band)? {
                // The first bands may have been multiplied in limbs: the whole is to go the other way.
                let whole = Plan::new(problem, std::iter::once(0..problem.m).collect());
                // SAFETY: as above.
                return unsafe { product.run(staging, &whole, &mut c, &mut written) };
            }
            Ok(times)
        });
        let times = times.map_err(|error| Unfinished { error, written })?;
        Ok(HostTimes { all: started.elapsed(), ..times })
    }

    /// Allocates what a product by a kernel will go through, so that the first one takes no longer than
    /// the others.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] and [`Error::Cuda`].
    pub fn prepare<T: GemmTypes>(&self, kernel: Kernel, problem: &Problem<T>) -> Result<(), Error> {
        let Pipeline { slot_bytes, .. } = self.pipeline;
        let bands = self.pipeline.bands(kernel.spec(), problem, self.gpu.limits().multiprocessors);
        let bytes = Plan::new(problem, bands).bytes;
        self.with_staging(|staging| {
            let (_, mut settled) = staging.ready(self.gpu, bytes)?;
            // Buffers for less are made in no time.
            if bytes < slot_bytes {
                return Ok(());
            }
            settled.lanes.iter_mut().try_for_each(|lane| lane.reserve(slot_bytes))
        })
    }

    /// Calls with what is kept from earlier products, made anew where it is not as the pipeline asks.
    /// Other threads' products wait meanwhile.
    pub(super) fn with_staging<R>(
        &self,
        call: impl FnOnce(&mut Staging) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mut staging = self.gpu.staging();
        let slots = self.pipeline.slots.max(1);
        call(match &mut *staging {
            Some(staging) if staging.up.slots() == slots => staging,
            other => {
                let context = self.gpu.context().driver_context();
                let (up, down) = (Lane::new(context, slots)?, Lane::new(context, slots)?);
                other.insert(Staging { memory: None, up, down })
            }
        })
    }

    pub(super) fn gpu(&self) -> &Gpu {
        self.gpu
    }

    pub(super) fn pool(&self) -> &ThreadPool {
        self.cpu.pool()
    }

    pub(super) fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }
}

impl Staging {
    /// Memory on the device for that many bytes at least, and both lanes.
    pub(super) fn ready<'k>(
        &'k mut self,
        gpu: &'k Gpu,
        bytes: usize,
    ) -> Result<(&'k DeviceMemory, DrainGuard<'k>), Error> {
        let Self { memory, up, down } = self;
        // The driver has no buffers of length zero.
        let bytes = bytes.max(1);
        if memory.as_ref().is_none_or(|memory| memory.len() < bytes) {
            // The old one goes first: there may be no room for both.
            *memory = None;
            let what = format!("a product on {}", gpu.info().name);
            let fresh = gpu.allocate(bytes as u64, &what)?;
            // What is between lines travels with them: it has a value from the start.
            // SAFETY: the memory is nobody else's, and stays until the wait below.
            unsafe { gpu.stream().fill(fresh.address(), 0, fresh.len()) }
                .map_err(refused("clearing memory"))?;
            gpu.stream().synchronize().map_err(refused("clearing memory"))?;
            *memory = Some(fresh);
        }
        let memory = memory.as_ref().expect("invariant: the memory was allocated above");
        Ok((memory, DrainGuard { lanes: [up, down], gpu }))
    }
}

/// Waits for everything under way when it goes, so that an error leaves no copy behind that still reads
/// or writes a buffer.
pub(super) struct DrainGuard<'k> {
    /// The way up and the way down.
    pub(super) lanes: [&'k mut Lane; 2],
    gpu: &'k Gpu,
}

impl Drop for DrainGuard<'_> {
    fn drop(&mut self) {
        // After an error of the driver there is nobody to tell a second one to.
        let _ = self.gpu.stream().synchronize();
        for lane in &mut self.lanes {
            let _ = lane.settle();
        }
    }
}

/// The time between two events; of a product that is not timed, none.
struct Span(Option<[Event; 2]>);

impl Span {
    /// Begins now in a stream.
    fn begin(stream: &Stream, timed: bool) -> Result<Self, Error> {
        if !timed {
            return Ok(Self(None));
        }
        let event =
            || Event::new(stream.context(), Timing::On).map_err(refused("timing a product"));
        let [begin, end] = [event()?, event()?];
        begin.record(stream).map_err(refused("timing a product"))?;
        Ok(Self(Some([begin, end])))
    }

    fn end(&self, stream: &Stream) -> Result<(), Error> {
        let Self(Some([_, end])) = self else { return Ok(()) };
        end.record(stream).map_err(refused("timing a product"))
    }

    /// Its length, once it is over.
    fn length(&self) -> Result<Duration, Error> {
        let Self(Some([begin, end])) = self else { return Ok(Duration::ZERO) };
        end.synchronize().map_err(refused("timing a product"))?;
        end.since(begin).map_err(refused("timing a product"))
    }
}

/// Lets everything that `later` gets from now on wait for what `earlier` has got.
fn wait(later: &Stream, earlier: &Stream) -> Result<(), Error> {
    let during = || refused("ordering copies and products");
    let event = Event::new(later.context(), Timing::Off).map_err(during())?;
    event.record(earlier).map_err(during())?;
    // The driver keeps what it waits for, though the event is gone.
    later.wait(&event).map_err(during())
}

/// One product on its way.
struct Product<'p, T: GemmTypes> {
    gpu: &'p Gpu,
    pool: &'p ThreadPool,
    pipeline: Pipeline,
    /// Whether events take the times of its parts.
    timed: bool,
    kernel: Kernel,
    problem: &'p Problem<T>,
    a: HostBytes<'p>,
    b: HostBytes<'p>,
    pinned: Pinned,
}

/// Which operands are in pinned memory.
#[derive(Clone, Copy)]
struct Pinned([bool; 3]);

impl Pinned {
    fn of<T: GemmTypes>(gpu: &Gpu, problem: &Problem<T>, matrices: [HostBytes<'_>; 3]) -> Self {
        let context = gpu.context().driver_context();
        // Where the driver refuses to say, operands go the way that is always open.
        let Ok(_current) = context.enter() else { return Self([false; 3]) };
        let is_pinned = |(operand, matrix): (Operand, HostBytes<'_>)| {
            let len = problem.required_len(operand).ok()?;
            let bytes = len.checked_mul(T::TYPES.of(operand).size()).filter(|&bytes| bytes > 0)?;
            let first = matrix.at(0).addr() as u64;
            let info = context.driver().pointer_info(first).ok()??;
            let end = info.start.checked_add(info.bytes as u64)?;
            let is_within = info.start <= first && first.checked_add(bytes as u64)? <= end;
            Some(is_within && !info.on_device)
        };
        let [a, b, c] = matrices;
        let operands = [(Operand::A, a), (Operand::B, b), (Operand::C, c)];
        Self(operands.map(|operand| is_pinned(operand).unwrap_or(false)))
    }

    fn holds(self, operand: Operand) -> bool {
        let Self([a, b, c]) = self;
        match operand {
            Operand::A => a,
            Operand::B => b,
            Operand::C => c,
        }
    }
}

impl<T: GemmTypes> Product<'_, T> {
    /// Goes through the schedule of a plan. `all` of the times is left to the caller, who is told in `written` when
    /// C begins to change.
    ///
    /// # Safety
    /// The plan is of the problem, and the matrices have its sizes and layouts.
    unsafe fn run(
        &self,
        staging: &mut Staging,
        plan: &Plan,
        c: &mut HostBytesMut<'_>,
        written: &mut bool,
    ) -> Result<HostTimes, Error> {
        let (memory, mut settled) = staging.ready(self.gpu, plan.bytes)?;
        let Pipeline { slots, slot_bytes, .. } = self.pipeline;
        let old_c = self.problem.beta != T::Acc::ZERO;
        let factors = self.problem.effective_k() > 0;
        // What needs no buffer goes in one piece.
        let chunk_bytes =
            |operand| if self.pinned.holds(operand) { usize::MAX } else { slot_bytes };
        let mut schedule = Schedule::new(plan, (slots, chunk_bytes), factors, old_c);
        let (pool, compute) = (self.pool, self.gpu.stream());
        let (mut kernels, mut coming) = (Vec::with_capacity(plan.bands.len()), None);
        let is_one = plan.bands.len() == 1;
        let own = settled.lanes.each_ref().map(|lane| Arc::clone(lane.stream()));
        // Where nothing overlaps, one stream has all: the guard waits for it as well.
        let [going_up, coming_down]: [&Stream; 2] =
            if is_one { [compute; 2] } else { own.each_ref().map(|stream| &**stream) };
        let going = Span::begin(going_up, self.timed)?;
        while let Some(step) = schedule.next(|| settled.lanes[1].is_there())? {
            let [up, down] = &mut settled.lanes;
            match step {
                Step::Upload(Chunk { of, bytes }) => {
                    let host = match of.operand {
                        Operand::A => self.a,
                        Operand::B => self.b,
                        Operand::C => c.to_read(),
                    };
                    if self.pinned.holds(of.operand) {
                        let (to, block) = (memory.address() + of.at as u64, of.block);
                        let from = host.at(block.start());
                        // SAFETY: by the caller's promise a block of the plan is a part of its matrix, which is pinned
                        // and which nobody writes before the guard has waited for this copy: of C that is done by
                        // copies behind the products that wait for this stream. The block on the device is this
                        // product's; what multiplies it waits for this stream.
                        unsafe { up.upload_in_place(going_up, to, from, block.copy_up())? };
                        continue;
                    }
                    let fill = |staged: &mut [u8]| {
                        // SAFETY: by the caller's promise a block of the plan is a part of its matrix.
                        unsafe { of.block.load(pool, host, bytes.start, staged) }
                    };
                    // SAFETY: the block is this product's; what multiplies it waits for this stream.
                    unsafe { up.upload(going_up, part(memory, of.at, &bytes), fill)? };
                }
                Step::Multiply(band) => {
                    going.end(going_up)?;
                    if !is_one {
                        wait(compute, going_up)?;
                    }
                    let kernel = Span::begin(compute, self.timed)?;
                    self.multiply(memory, plan, band)?;
                    kernel.end(compute)?;
                    kernels.push(kernel);
                    if !is_one {
                        wait(coming_down, compute)?;
                    }
                    if coming.is_none() {
                        coming = Some(Span::begin(coming_down, self.timed)?);
                    }
                }
                Step::Fetch(Chunk { of, .. }) if self.pinned.holds(of.operand) => {
                    let (from, block) = (memory.address() + of.at as u64, of.block);
                    *written = true;
                    let to = c.at(block.start());
                    // SAFETY: the stream waits for the product that wrote the block, and nobody writes it again before
                    // the guard has waited for this copy; the block of C is pinned, and is this call's alone.
                    unsafe { down.fetch_in_place(coming_down, to, from, block.copy_down())? };
                    if let Some(coming) = &coming {
                        coming.end(coming_down)?;
                    }
                }
                Step::Fetch(Chunk { of, bytes }) => {
                    // SAFETY: the stream waits for the product that wrote the block, and nobody writes it
                    // again before the guard has waited for this copy.
                    unsafe { down.fetch(coming_down, part(memory, of.at, &bytes))? };
                    if let Some(coming) = &coming {
                        coming.end(coming_down)?;
                    }
                }
                Step::Drain(Chunk { of, .. }) if self.pinned.holds(of.operand) => {
                    down.drain(0, |_| ())?;
                }
                Step::Drain(Chunk { of, bytes }) => {
                    down.drain(bytes.len(), |data| {
                        *written = true;
                        // SAFETY: as above.
                        unsafe { of.block.store(pool, bytes.start, data, c) }
                    })?;
                }
            }
        }
        let kernel = kernels.iter().map(Span::length).sum::<Result<_, _>>()?;
        Ok(HostTimes {
            all: Duration::ZERO,
            to_device: if factors || old_c { going.length()? } else { Duration::ZERO },
            kernel,
            from_device: coming.map_or(Ok(Duration::ZERO), |coming| coming.length())?,
        })
    }

    /// The stream of products.
    fn queue(&self) -> Result<Queue<'_>, Error> {
        Queue::new(self.gpu, self.gpu.stream().as_raw())
    }

    /// Puts the launches of a band into the stream of products.
    fn multiply(&self, memory: &DeviceMemory, plan: &Plan, band: usize) -> Result<(), Error> {
        let [a, b, c] = [&plan.a[band], &plan.b, &plan.c[band]];
        let problem = Problem { m: plan.bands[band].len(), ..*self.problem }
            .with_layouts(a.layout, b.layout, c.layout);
        let [a, b, c] = [a, b, c].map(|placed| memory.address() + placed.at as u64);
        let band = Band {
            tallest: plan.bands[0].len(),
            all: self.problem.m,
            first: plan.bands[band].start,
        };
        // SAFETY: the plan has placed each block in the memory, apart from the others, at the leading
        // dimensions of its layout. The stream waits for the copies of A and B, and nobody else uses
        // this part of C before the way down has waited for this stream. The kernel supports the whole
        // problem, and so fewer rows of it; the bands follow one another from the first.
        unsafe { self.queue()?.enqueue(self.kernel, &problem, Addresses { a, b, c }, band) }
    }
}

/// The problem `C = alpha * A * B + beta * C` of views.
///
/// # Errors
/// Where the sizes do not fit, or lines overlap.
fn problem_of_views<T: GemmTypes>(
    (alpha, beta): (T::Acc, T::Acc),
    a: View<'_, T::A>,
    b: View<'_, T::B>,
    c: &ViewMut<'_, T::C>,
) -> Result<Problem<T>, Error> {
    let [m, n, k] = sizes_of([(a.rows(), a.cols()), (b.rows(), b.cols()), (c.rows(), c.cols())])?;
    let problem = Problem::new(m, n, k)
        .with_scalars(alpha, beta)
        .with_layouts(a.layout(), b.layout(), c.layout())
        .without_elements();
    for operand in [Operand::A, Operand::B, Operand::C] {
        problem.required_len(operand)?;
    }
    Ok(problem)
}

/// The part of the device's memory that some bytes of a block take, which begins at an offset.
pub(super) fn part(memory: &DeviceMemory, at: usize, bytes: &Range<usize>) -> DeviceBytes {
    debug_assert!(at + bytes.end <= memory.len());
    DeviceBytes { address: memory.address() + (at + bytes.start) as u64, bytes: bytes.len() }
}
