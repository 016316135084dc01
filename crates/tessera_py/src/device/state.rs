//! Contexts, plans, workspaces, and what is kept until the GPU has done with it. All of it is the process's; a
//! child of a fork begins without.

use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_lazy::{DeviceMemory, Event, Timing};
use pyo3::prelude::*;
use tessera::Error;
use tessera::gpu::{Context, GemmDesc, Plan, PlanLimits, Workspace};
use tessera_raw::PerProcess;

use super::refused;
use super::streams::{self, StreamHandle};
use crate::failure::failure;

#[derive(Default)]
struct State {
    contexts: Mutex<Vec<(u32, Context)>>,
    plans: Mutex<HashMap<Key, Plan>>,
    kept: Mutex<Vec<Kept>>,
    workspaces: Mutex<Vec<StreamWorkspace>>,
}

static STATE: PerProcess<State> = PerProcess::new();

fn state() -> &'static State {
    let made = STATE.get_or_try_make(|| Ok::<_, Infallible>(State::default()));
    let Ok(state) = made;
    state
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The primary context of a device, which the libraries of arrays use.
pub(super) fn context(device: u32) -> Result<Context, Error> {
    let mut contexts = lock(&state().contexts);
    if let Some((_, context)) = contexts.iter().find(|(own, _)| *own == device) {
        return Ok(context.clone());
    }
    let context = Context::primary(device)?;
    contexts.push((device, context.clone()));
    Ok(context)
}

/// What a plan is made by.
#[derive(Clone, PartialEq)]
struct Key {
    device: u32,
    desc: GemmDesc,
    limits: PlanLimits,
}

// A factor that is no number is equal to nothing: its plan is made anew each time.
impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let GemmDesc { types, m, n, k, batch, .. } = self.desc;
        (self.device, types, m, n, k, batch, self.limits).hash(to);
    }
}

/// Plans that are remembered. Beyond that all are forgotten: making one anew loads nothing.
const REMEMBERED: usize = 1024;

/// The plan of a product.
pub(super) fn plan(device: u32, desc: GemmDesc, limits: PlanLimits) -> Result<Plan, Error> {
    let key = Key { device, desc, limits };
    if let Some(plan) = lock(&state().plans).get(&key) {
        return Ok(plan.clone());
    }
    // Other threads get theirs meanwhile.
    let plan = Plan::new(&context(device)?, desc, limits)?;
    let mut plans = lock(&state().plans);
    if plans.len() >= REMEMBERED {
        plans.clear();
    }
    plans.insert(key, plan.clone());
    Ok(plan)
}

/// Objects that live until the GPU has passed a point.
struct Kept {
    context: Context,
    until: Event,
    _objects: Vec<Py<PyAny>>,
}

/// Keeps objects until the GPU has passed an event.
pub(super) fn keep(context: &Context, until: Event, objects: Vec<Py<PyAny>>) {
    let context = context.clone();
    lock(&state().kept).push(Kept { context, until, _objects: objects });
}

/// Lets go of objects that the GPU has done with.
pub(super) fn release() {
    let mut kept = lock(&state().kept);
    if kept.is_empty() {
        return;
    }
    // An event that cannot be asked for is one of a context that has failed: nothing is under way there.
    let is_done = |one: &mut Kept| {
        let _allowed = streams::relaxed(&one.context);
        one.until.is_done().unwrap_or(true)
    };
    let done: Vec<Kept> = kept.extract_if(.., is_done).collect();
    // An object's end may come back here.
    drop(kept);
    drop(done);
}

/// Device memory, whose content is whatever it was; `what` it is for is said where there is too little.
pub(super) fn allocate(context: &Context, bytes: usize, what: &str) -> PyResult<DeviceMemory> {
    let _allowed = streams::relaxed(context);
    DeviceMemory::new(context.driver_context(), bytes).map_err(|error| {
        if error.is_out_of_memory() {
            let (what, needed) = (format!("{what} on {context:?}"), bytes as u128);
            return failure(Error::OutOfMemory { what, needed, available: None });
        }
        refused("allocating device memory")(error)
    })
}

/// Memory that the products of one stream share, and the end of the last one's use.
struct StreamWorkspace {
    device: u32,
    stream: StreamHandle,
    used: Event,
    memory: DeviceMemory,
}

/// Most workspaces that are kept.
const WORKSPACES: usize = 64;

/// Calls with a workspace of at least that many bytes that belongs to a stream. A stream's handle may name
/// another one later: each use waits, on the GPU, for the one before.
pub(super) fn with_workspace(
    context: &Context,
    device: u32,
    stream: StreamHandle,
    bytes: u64,
    call: impl FnOnce(Workspace) -> Result<(), Error>,
) -> PyResult<()> {
    let during = || refused("preparing a workspace");
    let len = usize::try_from(bytes).unwrap_or(usize::MAX);
    // Held to the end, so that two threads' launches with one workspace are not mixed.
    let mut all = lock(&state().workspaces);
    let found = all.iter().position(|one| (one.device, one.stream) == (device, stream));
    let at = match found {
        Some(at) if all[at].memory.len() >= len => at,
        _ => {
            let _allowed = streams::relaxed(context);
            // The old one goes first: there may be no room for both. The driver waits for its users.
            if let Some(at) = found {
                all.swap_remove(at);
            } else if all.len() == WORKSPACES {
                all.clear();
            }
            let memory = allocate(context, len, "a workspace")?;
            let used = Event::new(context.driver_context(), Timing::Off).map_err(during())?;
            all.push(StreamWorkspace { device, stream, used, memory });
            all.len() - 1
        }
    };
    let own = &all[at];
    let _current = context.driver_context().enter().map_err(during())?;
    // SAFETY: the context was entered; the program names a stream of it.
    unsafe { own.used.order_raw(stream.raw()) }.map_err(during())?;
    let workspace = Workspace { address: own.memory.address(), bytes: own.memory.len() as u64 };
    let called = call(workspace);
    // SAFETY: as above.
    unsafe { own.used.record_raw(stream.raw()) }.map_err(during())?;
    called.map_err(failure)
}
