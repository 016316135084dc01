//! What the driver keeps: memory, streams, events, modules.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Instant;

use cuda_std::emulate::{self, Buffer, Launch};

use crate::capture::Captures;
use crate::contexts::{ContextId, Contexts, current};
use crate::operation::{KernelLaunch, Lines, Operation, StreamId};
use crate::status::{
    CAPTURE_UNSUPPORTED, ILLEGAL_ADDRESS, INVALID_HANDLE, INVALID_VALUE, LAUNCH_FAILED, NOT_READY,
    SUCCESS,
};

/// Bytes of the device's memory.
pub const MEMORY_BYTES: usize = 64 << 20;

/// `CU_STREAM_LEGACY`, which null is, too, and `CU_STREAM_PER_THREAD`.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// Everything, behind one lock.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) contexts: Contexts,
    pub(crate) captures: Captures,
    /// Device memory, by its first address.
    device: BTreeMap<usize, Allocation>,
    /// The context that each was allocated in.
    allocated_in: HashMap<usize, ContextId>,
    /// First addresses of device memory that the host may use, too.
    managed: HashSet<usize>,
    /// Pinned memory.
    pinned: BTreeMap<usize, Allocation>,
    streams: HashMap<StreamId, Stream>,
    /// The default streams of contexts, and of their threads.
    default_streams: HashMap<(ContextId, Option<ThreadId>), StreamId>,
    /// Where an event was recorded last.
    events: HashMap<usize, Option<Recorded>>,
    next_handle: usize,
    calls: HashMap<&'static str, usize>,
    /// Machine code is refused, as by a driver that is older than it.
    refuses_images: bool,
    faults: Vec<String>,
    /// What a kernel did wrong: every later call answers with it, as after a sticky error.
    broken: bool,
}

#[derive(Clone, Copy)]
struct Recorded {
    stream: StreamId,
    /// Operations of the stream before it.
    after: usize,
    /// When it was reached.
    at: Option<Instant>,
}

/// Memory that was allocated, at a multiple of [`UNIT`] bytes.
struct Allocation {
    /// More words than there are, so that some of them begin at such an address.
    words: Box<[u64]>,
    /// The words that there are.
    range: Range<usize>,
}

/// As the driver, in bytes.
const UNIT: usize = 512;

impl Allocation {
    fn new(bytes: usize) -> Self {
        let len = bytes.div_ceil(size_of::<u64>()).max(1);
        // What was never written is no number that a product could give.
        let words = vec![0x7ff4_dead_7fa4_dead_u64; len + UNIT / 8].into_boxed_slice();
        let address = words.as_ptr().addr();
        let skipped = (address.next_multiple_of(UNIT) - address) / size_of::<u64>();
        Self { words, range: skipped..skipped + len }
    }

    fn words(&mut self) -> &mut [u64] {
        &mut self.words[self.range.clone()]
    }

    fn bytes(&self) -> usize {
        size_of::<u64>() * self.range.len()
    }
}

/// What a stream was given.
#[derive(Default)]
struct Stream {
    context: ContextId,
    queue: VecDeque<Operation>,
    /// Operations that are done.
    done: usize,
}

impl Stream {
    fn given(&self) -> usize {
        self.done + self.queue.len()
    }
}

static WORLD: Mutex<Option<World>> = Mutex::new(None);

/// Calls with the world.
pub(crate) fn with<R>(call: impl FnOnce(&mut World) -> R) -> R {
    let mut world: MutexGuard<'_, _> = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    call(world.get_or_insert_with(World::default))
}

/// How often a function of the driver was called so far.
#[must_use]
pub fn count(function: &str) -> usize {
    with(|world| world.calls.get(function).copied().unwrap_or(0))
}

/// How often each function of the driver was called so far.
#[must_use]
pub fn calls() -> HashMap<&'static str, usize> {
    with(|world| world.calls.clone())
}

/// Whether modules of machine code are refused from now on, as where they have none for the device.
pub fn refuse_images(refuse: bool) {
    with(|world| world.refuses_images = refuse);
}

/// What callers did wrong so far without getting an error for it.
#[must_use]
pub fn faults() -> Vec<String> {
    with(|world| world.faults.clone())
}

impl World {
    pub(crate) fn called(&mut self, function: &'static str) {
        *self.calls.entry(function).or_default() += 1;
    }

    pub(crate) fn refuses_images(&self) -> bool {
        self.refuses_images
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    pub(crate) fn handle(&mut self) -> usize {
        self.next_handle += 16;
        self.next_handle
    }

    /// Bytes of the device's memory that nobody has.
    pub(crate) fn free_bytes(&self) -> usize {
        MEMORY_BYTES - self.device.values().map(Allocation::bytes).sum::<usize>()
    }

    pub(crate) fn allocate_device(&mut self, bytes: usize) -> Option<usize> {
        let bytes = bytes.checked_next_multiple_of(UNIT)?;
        let address = (bytes <= self.free_bytes()).then(|| allocate(&mut self.device, bytes))?;
        self.allocated_in.insert(address, current());
        Some(address)
    }

    /// Managed memory belongs to no context.
    pub(crate) fn allocate_managed(&mut self, bytes: usize) -> Option<usize> {
        let address = self.allocate_device(bytes)?;
        self.allocated_in.remove(&address);
        self.managed.insert(address);
        Some(address)
    }

    /// Whether an allocation that begins there is managed.
    pub(crate) fn is_managed(&self, start: usize) -> bool {
        self.managed.contains(&start)
    }

    pub(crate) fn free_device(&mut self, address: usize) -> i32 {
        if !self.device.contains_key(&address) {
            return INVALID_VALUE;
        }
        // The driver waits for work that may use it.
        let code = self.run_everything();
        self.device.remove(&address);
        self.allocated_in.remove(&address);
        self.managed.remove(&address);
        code
    }

    pub(crate) fn allocate_pinned(&mut self, bytes: usize) -> usize {
        allocate(&mut self.pinned, bytes)
    }

    pub(crate) fn free_pinned(&mut self, address: usize) -> i32 {
        let Some(memory) = self.pinned.get(&address) else { return INVALID_VALUE };
        let range = address..address + memory.bytes();
        let uses = |operation: &Operation| match operation {
            Operation::Copy { to, from, .. } | Operation::CopyLines(Lines { to, from, .. }) => {
                range.contains(to) || range.contains(from)
            }
            Operation::Fill { .. }
            | Operation::Wait { .. }
            | Operation::Reach { .. }
            | Operation::Launch(_) => false,
        };
        if self.streams.values().any(|stream| stream.queue.iter().any(uses)) {
            self.faults
                .push(format!("pinned memory at {address:#x} is freed while a copy uses it"));
        }
        self.pinned.remove(&address);
        SUCCESS
    }

    /// Whether some bytes are all of one allocation on the device.
    pub(crate) fn is_on_device(&self, address: usize, bytes: usize) -> bool {
        let below = self.device.range(..=address).next_back();
        below.is_some_and(|(start, memory)| address + bytes <= start + memory.bytes())
    }

    /// The allocation on the device that an address is in: where it begins, its bytes, its context.
    pub(crate) fn allocation(&self, address: usize) -> Option<(usize, usize, ContextId)> {
        let (&start, memory) = self.device.range(..=address).next_back()?;
        let bytes = memory.bytes();
        let context = self.allocated_in.get(&start).copied().unwrap_or(0);
        (address < start + bytes).then_some((start, bytes, context))
    }

    /// The pinned memory that an address is in: where it begins, and its bytes.
    pub(crate) fn pinned(&self, address: usize) -> Option<(usize, usize)> {
        let (&start, memory) = self.pinned.range(..=address).next_back()?;
        let bytes = memory.bytes();
        (address < start + bytes).then_some((start, bytes))
    }

    pub(crate) fn create_stream(&mut self) -> StreamId {
        let id = self.handle();
        self.streams.insert(id, Stream { context: current(), ..Stream::default() });
        id
    }

    pub(crate) fn destroy_stream(&mut self, id: StreamId) -> i32 {
        let code = self.run(id, usize::MAX);
        self.streams.remove(&id);
        code
    }

    /// The stream that a handle means for this thread and its current context, to which it must belong.
    pub(crate) fn stream(&mut self, handle: usize) -> Option<StreamId> {
        let context = current();
        let of = match handle {
            0 | LEGACY => (context, None),
            PER_THREAD => (context, Some(thread::current().id())),
            own => {
                let stream = self.streams.get(&own)?;
                return (stream.context == context).then_some(own);
            }
        };
        if let Some(&id) = self.default_streams.get(&of) {
            return Some(id);
        }
        let id = self.create_stream();
        self.default_streams.insert(of, id);
        Some(id)
    }

    /// Gives a stream an operation, or the graph that it is captured for.
    pub(crate) fn queue(&mut self, id: StreamId, operation: Operation) {
        match self.captures.of(id) {
            Some(captured) => captured.push(operation),
            None => self.streams.entry(id).or_default().queue.push_back(operation),
        }
    }

    /// Ends a capture; gives the graph.
    pub(crate) fn end_capture(&mut self, stream: StreamId) -> Result<usize, i32> {
        let operations = self.captures.end(stream)?;
        let graph = self.handle();
        self.captures.keep(graph, operations);
        Ok(graph)
    }

    /// The same graph under another handle.
    pub(crate) fn instantiate(&mut self, graph: usize) -> Result<usize, i32> {
        let operations = self.captures.graph(graph)?;
        let exec = self.handle();
        self.captures.keep(exec, operations);
        Ok(exec)
    }

    pub(crate) fn launch_graph(&mut self, graph: usize, stream: StreamId) -> i32 {
        match self.captures.graph(graph) {
            Ok(operations) => {
                operations.into_iter().for_each(|operation| self.queue(stream, operation));
                SUCCESS
            }
            Err(code) => code,
        }
    }

    pub(crate) fn create_event(&mut self) -> usize {
        let id = self.handle();
        self.events.insert(id, None);
        id
    }

    pub(crate) fn destroy_event(&mut self, id: usize) -> i32 {
        self.events.remove(&id).map_or(INVALID_HANDLE, |_| SUCCESS)
    }

    pub(crate) fn record(&mut self, event: usize, stream: StreamId) -> i32 {
        if !self.events.contains_key(&event) {
            return INVALID_HANDLE;
        }
        if self.captures.is_capturing(stream) {
            return CAPTURE_UNSUPPORTED;
        }
        let after = self.streams.entry(stream).or_default().given() + 1;
        self.queue(stream, Operation::Reach { event });
        self.events.insert(event, Some(Recorded { stream, after, at: None }));
        SUCCESS
    }

    pub(crate) fn wait(&mut self, stream: StreamId, event: usize) -> i32 {
        match self.events.get(&event) {
            None => INVALID_HANDLE,
            // Nothing to wait for.
            Some(None) => SUCCESS,
            Some(Some(_)) if self.captures.is_capturing(stream) => CAPTURE_UNSUPPORTED,
            Some(&Some(Recorded { stream: other, after, .. })) => {
                self.queue(stream, Operation::Wait { stream: other, after });
                SUCCESS
            }
        }
    }

    pub(crate) fn query(&self, event: usize) -> i32 {
        match self.events.get(&event) {
            None => INVALID_HANDLE,
            Some(None) => SUCCESS,
            Some(Some(recorded)) => {
                let done =
                    self.streams.get(&recorded.stream).is_none_or(|s| s.done >= recorded.after);
                if done { SUCCESS } else { NOT_READY }
            }
        }
    }

    pub(crate) fn wait_for_event(&mut self, event: usize) -> i32 {
        match self.events.get(&event) {
            None => INVALID_HANDLE,
            Some(None) => SUCCESS,
            Some(&Some(Recorded { stream, after, .. })) => self.run(stream, after),
        }
    }

    pub(crate) fn milliseconds(&self, start: usize, end: usize) -> Result<f32, i32> {
        let reached = |event| match self.events.get(&event) {
            Some(Some(Recorded { at: Some(at), .. })) => Ok(*at),
            Some(Some(_)) => Err(NOT_READY),
            _ => Err(INVALID_HANDLE),
        };
        Ok(reached(end)?.saturating_duration_since(reached(start)?).as_secs_f32() * 1e3)
    }

    /// Does all that was queued anywhere.
    pub(crate) fn run_everything(&mut self) -> i32 {
        let all: Vec<StreamId> = self.streams.keys().copied().collect();
        all.into_iter()
            .map(|id| self.run(id, usize::MAX))
            .find(|&code| code != 0)
            .unwrap_or(SUCCESS)
    }

    /// Does a stream's operations up to that many in all, and those that they wait for.
    pub(crate) fn run(&mut self, id: StreamId, up_to: usize) -> i32 {
        loop {
            let Some(stream) = self.streams.get_mut(&id) else { return SUCCESS };
            if stream.done >= up_to {
                return SUCCESS;
            }
            let Some(operation) = stream.queue.pop_front() else { return SUCCESS };
            stream.done += 1;
            let code = self.perform(operation);
            if code != SUCCESS {
                self.broken = true;
                return code;
            }
        }
    }

    fn perform(&mut self, operation: Operation) -> i32 {
        match operation {
            Operation::Copy { to, from, bytes } => {
                copy(to, from, bytes);
                SUCCESS
            }
            Operation::CopyLines(copied) => {
                for line in 0..copied.lines {
                    let to = copied.to + line * copied.to_pitch;
                    copy(to, copied.from + line * copied.from_pitch, copied.bytes);
                }
                SUCCESS
            }
            Operation::Fill { at, value, bytes } => {
                if !self.is_on_device(at, bytes) {
                    // A graph may outlive the memory that it uses.
                    return ILLEGAL_ADDRESS;
                }
                let to: *mut u8 = std::ptr::with_exposed_provenance_mut(at);
                // SAFETY: when it was queued the bytes were checked to be of an allocation on the device,
                // which is freed only after all that was queued is done; nobody else touches it, since
                // the world is locked.
                unsafe { to.write_bytes(value, bytes) };
                SUCCESS
            }
            Operation::Wait { stream, after } => self.run(stream, after),
            Operation::Reach { event } => {
                if let Some(Some(recorded)) = self.events.get_mut(&event) {
                    recorded.at = Some(Instant::now());
                }
                SUCCESS
            }
            Operation::Launch(launch) => match self.launch(&launch) {
                Ok(()) => SUCCESS,
                Err(fault) => {
                    self.faults.push(format!("{}: {fault}", launch.symbol));
                    LAUNCH_FAILED
                }
            },
        }
    }

    fn launch(&mut self, launch: &KernelLaunch) -> Result<(), String> {
        let shape = Launch::new(launch.grid, launch.block).with_shared_bytes(launch.shared_bytes);
        let shape = self.device.values_mut().fold(shape, |shape, memory| {
            shape.with_buffer(Buffer::output("device memory", memory.words()))
        });
        // The emulator checks each access against the device's allocations, which the lock on the world
        // keeps from changing.
        emulate::run(&shape, || launch.call.call()).map_err(|fault| fault.to_string())
    }
}

fn allocate(memory: &mut BTreeMap<usize, Allocation>, bytes: usize) -> usize {
    let mut allocation = Allocation::new(bytes);
    let address = allocation.words().as_mut_ptr().expose_provenance();
    memory.insert(address, allocation);
    address
}

/// Copies bytes between two places of the process.
pub(crate) fn copy(to: usize, from: usize, bytes: usize) {
    let source: *const u8 = std::ptr::with_exposed_provenance(from);
    let target: *mut u8 = std::ptr::with_exposed_provenance_mut(to);
    // SAFETY: one side was checked to be of an allocation on the device when the copy was queued, the
    // other is the caller's buffer, which the driver's contract keeps in place until the copy is waited
    // for. They are different allocations or, from device to device, may overlap.
    unsafe { std::ptr::copy(source, target, bytes) };
}
