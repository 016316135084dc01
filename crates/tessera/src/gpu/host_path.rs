//! Products whose operands are in host memory, by a GPU: up, multiplied and down again, all at once
//! where the product is large.
//!
//! Host memory that a program allocates is copied to a GPU at a fraction of what the bus allows, since
//! the driver must take it through page-locked buffers of its own, one thread copying. So all threads
//! of the CPU's pool copy parts of the operands to page-locked buffers kept here, from which the device
//! takes them while the next part is copied; and likewise back. B goes up first, then A in bands of
//! rows. Each band is multiplied as soon as it is up and its rows of C come down while later ones are
//! still on their way up: copies up, products and copies down have a stream each, and events say what
//! waits for what.
//!
//! Memory on the device and page-locked memory are kept for the next product.

use std::time::{Duration, Instant};

use cust::event::{Event, EventFlags};
use cust::memory::{DeviceBuffer, DeviceSlice};
use cust::stream::{Stream, StreamWaitEventFlags};
use gemm_spec::{KernelSpec, Operand, Problem, Scheme};
use rayon::ThreadPool;

use super::bands::{Pipeline, Placed, Plan};
use super::launch::{Places, put};
use super::schedule::{Chunk, Schedule, Step};
use super::split::{self, Band};
use super::staging::Lane;
use super::{DeviceElement, Gpu, refused};
use crate::cpu::CpuContext;
use crate::error::Error;
use crate::scalar::Scalar;

/// What is kept from one product to the next.
pub(super) struct Kept {
    /// The operands' memory on the device.
    pub(super) memory: Option<DeviceBuffer<u8>>,
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
    pub fn multiply<T: Scalar>(
        &self,
        spec: &'static KernelSpec,
        problem: &Problem<T>,
        a: &[T],
        b: &[T],
        c: &mut [T::Out],
    ) -> Result<(), Error> {
        self.product(spec, problem, a, b, c, false).map(|_| ())
    }

    /// The same, and what took how long. The events that tell cost a small product a good part of its
    /// time. The driver's compilation of the kernel's module is in no time.
    ///
    /// # Errors
    /// As [`HostPath::multiply`].
    pub fn timed<T: Scalar>(
        &self,
        spec: &'static KernelSpec,
        problem: &Problem<T>,
        a: &[T],
        b: &[T],
        c: &mut [T::Out],
    ) -> Result<HostTimes, Error> {
        self.product(spec, problem, a, b, c, true)
    }

    fn product<T: Scalar>(
        &self,
        spec: &'static KernelSpec,
        problem: &Problem<T>,
        a: &[T],
        b: &[T],
        c: &mut [T::Out],
        timed: bool,
    ) -> Result<HostTimes, Error> {
        let Self { gpu, cpu, pipeline } = *self;
        spec.supports(problem, gpu.limits())
            .map_err(|reason| Error::Unsupported { kernel: spec.id, reason })?;
        problem.check_buffers(a.len(), b.len(), c.len())?;
        if problem.m == 0 || problem.n == 0 {
            return Ok(HostTimes::default());
        }
        gpu.enter()?;
        gpu.load(spec.arch)?;
        let started = Instant::now();
        let bands = pipeline.bands(spec, problem, gpu.limits().multiprocessors);
        let tallest = bands.first().map_or(0, |band| band.len());
        let in_bands = bands.len() > 1;
        let (a, b) = (bytes(a), bytes(b));
        let product = Product { gpu, pool: cpu.pool(), pipeline, timed, spec, problem, a, b };
        let times = self.with_kept(|kept| {
            let times = product.run(kept, &Plan::new(problem, bands), bytes_mut(c))?;
            if let (Scheme::Split(entries), true) = (&spec.scheme, in_bands)
                && split::fell_back(gpu, entries, problem, tallest)?
            {
                // The first bands may have been multiplied in pieces: the whole is to go the other way.
                let whole = std::iter::once(0..problem.m).collect();
                return product.run(kept, &Plan::new(problem, whole), bytes_mut(c));
            }
            Ok(times)
        })?;
        Ok(HostTimes { all: started.elapsed(), ..times })
    }

    /// Allocates what a product by a kernel will go through, so that the first one takes no longer than
    /// the others.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] and [`Error::Cuda`].
    pub fn prepare<T: Scalar>(
        &self,
        spec: &'static KernelSpec,
        problem: &Problem<T>,
    ) -> Result<(), Error> {
        let Pipeline { slot_bytes, .. } = self.pipeline;
        let bands = self.pipeline.bands(spec, problem, self.gpu.limits().multiprocessors);
        let bytes = Plan::new(problem, bands).bytes;
        self.with_kept(|kept| {
            let (_, mut settled) = kept.ready(self.gpu, bytes)?;
            // Buffers for less are made in no time.
            if bytes < slot_bytes {
                return Ok(());
            }
            settled.lanes.iter_mut().try_for_each(|lane| lane.reserve(slot_bytes))
        })
    }

    /// Calls with what is kept from earlier products, made anew where it is not as the pipeline asks.
    pub(super) fn with_kept<R>(
        &self,
        call: impl FnOnce(&mut Kept) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.gpu.enter()?;
        let mut kept = self.gpu.host_path_kept().borrow_mut();
        let slots = self.pipeline.slots.max(1);
        call(match &mut *kept {
            Some(kept) if kept.up.slots() == slots => kept,
            other => {
                let (up, down) = (Lane::new(slots)?, Lane::new(slots)?);
                other.insert(Kept { memory: None, up, down })
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

impl Kept {
    /// Memory on the device for so many bytes at least, and both lanes.
    pub(super) fn ready<'k>(
        &'k mut self,
        gpu: &'k Gpu,
        bytes: usize,
    ) -> Result<(&'k DeviceBuffer<u8>, Settled<'k>), Error> {
        let Self { memory, up, down } = self;
        // The driver has no buffers of length zero.
        let bytes = bytes.max(1);
        if memory.as_ref().is_none_or(|memory| memory.len() < bytes) {
            // The old one goes first: there may be no room for both.
            *memory = None;
            let what = format!("a product on {}", gpu.info().name);
            let mut fresh = gpu.allocate(bytes as u64, &what)?;
            // What lies between lines travels with them: it has a value from the start.
            // SAFETY: the memory is nobody else's, and stays until the wait below.
            unsafe { fresh.set_8_async(0, gpu.stream()) }.map_err(refused("clearing memory"))?;
            gpu.stream().synchronize().map_err(refused("clearing memory"))?;
            *memory = Some(fresh);
        }
        let memory = memory.as_ref().expect("invariant: the memory was allocated above");
        Ok((memory, Settled { lanes: [up, down], gpu }))
    }
}

/// Elements as the bytes they are.
fn bytes<T: DeviceElement>(data: &[T]) -> &[u8] {
    // SAFETY: the elements are plain bytes without padding, so all of them are initialised; bytes have
    // no alignment, and the length is the slice's own.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

/// Elements as the bytes they are, to be written.
fn bytes_mut<T: DeviceElement>(data: &mut [T]) -> &mut [u8] {
    // SAFETY: as in `bytes`, the borrow is as exclusive, and any bytes are an element.
    unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), size_of_val(data)) }
}

/// Waits for everything under way when it goes, so that an error leaves no copy behind that still reads
/// or writes a buffer.
pub(super) struct Settled<'k> {
    /// The way up and the way down.
    pub(super) lanes: [&'k mut Lane; 2],
    gpu: &'k Gpu,
}

impl Drop for Settled<'_> {
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
        let event = || Event::new(EventFlags::DEFAULT).map_err(refused("timing a product"));
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
        end.elapsed(begin).map_err(refused("timing a product"))
    }
}

/// Lets everything that `later` gets from now on wait for what `earlier` has got.
fn wait(later: &Stream, earlier: &Stream) -> Result<(), Error> {
    let during = || refused("ordering copies and products");
    let event = Event::new(EventFlags::DISABLE_TIMING).map_err(during())?;
    event.record(earlier).map_err(during())?;
    // The driver keeps what it waits for, though the event is gone.
    later.wait_event(event, StreamWaitEventFlags::DEFAULT).map_err(during())
}

/// One product on its way.
struct Product<'p, T: Scalar> {
    gpu: &'p Gpu,
    pool: &'p ThreadPool,
    pipeline: Pipeline,
    /// Whether events take the times of its parts.
    timed: bool,
    spec: &'static KernelSpec,
    problem: &'p Problem<T>,
    a: &'p [u8],
    b: &'p [u8],
}

impl<T: Scalar> Product<'_, T> {
    /// Goes through the schedule of a plan. `all` of the times is left to the caller.
    fn run(&self, kept: &mut Kept, plan: &Plan, c: &mut [u8]) -> Result<HostTimes, Error> {
        let (memory, mut settled) = kept.ready(self.gpu, plan.bytes)?;
        let Pipeline { slots, slot_bytes, .. } = self.pipeline;
        let old_c = self.problem.beta != gemm_spec::Element::ZERO;
        let factors = self.problem.effective_k() > 0;
        let mut schedule = Schedule::new(plan, (slots, slot_bytes), factors, old_c);
        let (pool, compute) = (self.pool, self.gpu.stream());
        let (mut kernels, mut coming) = (Vec::with_capacity(plan.bands.len()), None);
        let going = Span::begin(settled.lanes[0].stream(), self.timed)?;
        while let Some(step) = schedule.next(|| settled.lanes[1].is_there())? {
            let [up, down] = &mut settled.lanes;
            match step {
                Step::Upload(Chunk { of, bytes }) => {
                    let host = match of.operand {
                        Operand::A => self.a,
                        Operand::B => self.b,
                        Operand::C => &*c,
                    };
                    let mut to = part(memory, &of, &bytes);
                    up.upload(&mut to, |staged| of.block.load(pool, host, bytes.start, staged))?;
                }
                Step::Multiply(band) => {
                    going.end(up.stream())?;
                    wait(compute, up.stream())?;
                    let kernel = Span::begin(compute, self.timed)?;
                    self.multiply(memory, plan, band)?;
                    kernel.end(compute)?;
                    kernels.push(kernel);
                    wait(down.stream(), compute)?;
                    if coming.is_none() {
                        coming = Some(Span::begin(down.stream(), self.timed)?);
                    }
                }
                Step::Fetch(Chunk { of, bytes }) => {
                    down.fetch(&part(memory, &of, &bytes))?;
                    if let Some(coming) = &coming {
                        coming.end(down.stream())?;
                    }
                }
                Step::Drain(Chunk { of, bytes }) => {
                    down.drain(bytes.len(), |data| of.block.store(pool, bytes.start, data, c))?;
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

    /// Puts the launches of a band into the stream of products.
    fn multiply(&self, memory: &DeviceBuffer<u8>, plan: &Plan, band: usize) -> Result<(), Error> {
        let [a, b, c] = [&plan.a[band], &plan.b, &plan.c[band]];
        let problem = Problem { m: plan.bands[band].len(), ..*self.problem }
            .with_layouts(a.layout, b.layout, c.layout);
        let start = memory.as_device_ptr().as_raw();
        let [a, b, c] = [a, b, c].map(|placed| start + placed.at as u64);
        let band = Band {
            tallest: plan.bands[0].len(),
            all: self.problem.m,
            first: plan.bands[band].start,
        };
        // SAFETY: the plan has placed each block in the buffer, apart from the others, at the leading
        // dimensions of its layout. The stream waits for the copies of A and B, and nobody else uses
        // this part of C before the way down has waited for this stream. The kernel supports the whole
        // problem, and so fewer rows of it; the bands follow one another from the first.
        unsafe { put(self.gpu, self.spec, &problem, Places { a, b, c }, band) }
    }
}

/// The part of the device's memory that a chunk takes.
fn part(memory: &DeviceBuffer<u8>, of: &Placed, bytes: &std::ops::Range<usize>) -> DeviceSlice<u8> {
    memory.index(of.at + bytes.start..of.at + bytes.end)
}
