//! The GPU of a process: opened when it is first wanted, kept to the end, and none of a child's.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tessera::gpu::{Context, Stream};
use tessera::{Device, Engine, Error};

use super::settings::{Wanted, settings};
use crate::threads;

/// What computes products of operands in host memory.
pub(crate) struct Opened {
    engine: Result<Engine, String>,
    /// Why it is used no more.
    given_up: OnceLock<String>,
}

/// A device on which operands are used in place, in its legacy default stream: what other streams were given before
/// is waited for, but for those that ask not to be.
pub(crate) struct Lane {
    pub(super) context: Context,
    pub(super) stream: Stream,
}

/// This process' engine; null until it is wanted, and again in a child.
static OPENED: AtomicPtr<Opened> = AtomicPtr::new(null_mut());
/// This process' lanes, by the numbers of their devices.
static LANES: Mutex<Vec<(u32, Arc<Lane>)>> = Mutex::new(Vec::new());
/// Whether this process has begun to use a driver.
static USED: AtomicBool = AtomicBool::new(false);
/// Whether a parent had: the driver does not survive a fork, and a lock of this module may be held by nobody.
static LOST: AtomicBool = AtomicBool::new(false);

/// Why a child stays on the CPU.
const FORKED: &str = "the process was forked after its parent had used a GPU";

/// What a child does first.
pub(crate) fn forget() {
    if USED.load(Ordering::Acquire) {
        LOST.store(true, Ordering::Release);
    }
    OPENED.store(null_mut(), Ordering::Release);
}

/// Whether there is no driver for this process, since its parent had used it.
pub(super) fn is_lost() -> bool {
    LOST.load(Ordering::Acquire)
}

impl Opened {
    /// The engine.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn engine(&self) -> Result<&Engine, &str> {
        match (&self.engine, self.given_up.get()) {
            (_, Some(why)) => Err(why),
            (Err(why), None) => Err(why),
            (Ok(engine), None) => Ok(engine),
        }
    }

    /// Uses the engine no more: after a refusal of the driver's all calls that follow would fail as well.
    pub(super) fn give_up(&self, why: &str) {
        // The first reason is the one.
        let _ = self.given_up.set(format!("given up: {why}"));
    }
}

/// The engine of this process, if it was opened.
pub(super) fn if_opened() -> Option<&'static Opened> {
    // SAFETY: what is not null was leaked by `opened`.
    unsafe { OPENED.load(Ordering::Acquire).as_ref() }
}

/// The engine of this process, opened now if it has not been.
///
/// # Errors
/// Why a child has none.
pub(super) fn opened() -> Result<&'static Opened, &'static str> {
    if is_lost() {
        return Err(FORKED);
    }
    if let Some(opened) = if_opened() {
        return Ok(opened);
    }
    USED.store(true, Ordering::Release);
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(opened) = if_opened() {
        return Ok(opened);
    }
    let engine = threads::with_signals_blocked(open).map_err(|error| error.to_string());
    let opened = Box::new(Opened { engine, given_up: OnceLock::new() });
    let opened: &'static Opened = Box::leak(opened);
    OPENED.store(std::ptr::from_ref(opened).cast_mut(), Ordering::Release);
    Ok(opened)
}

fn open() -> Result<Engine, Error> {
    let settings = settings();
    let none = || "the system starts no threads that bring operands to a device".to_owned();
    let cpu = threads::all().ok_or_else(|| Error::NoDevice { reason: none() })?;
    let builder = Engine::builder().cpu_context(cpu).accuracy(settings.accuracy);
    match settings.device {
        // Where it is computed is said, and by which kernel depends on the product and the GPU alone.
        Wanted::Cuda(index) => builder.device(Device::Cuda(index)).deterministic(true).build(),
        Wanted::Auto | Wanted::Cpu => {
            let engine = builder.device(Device::Auto).build()?;
            if engine.gpu().is_none() {
                // The engine makes do without; why, opening tells.
                tessera::gpu::Gpu::open(0)?;
            }
            Ok(engine)
        }
    }
}

/// The lane of a device.
///
/// # Errors
/// Where it cannot be opened.
pub(super) fn lane(device: u32) -> Result<Arc<Lane>, Error> {
    USED.store(true, Ordering::Release);
    let mut lanes = LANES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, lane)) = lanes.iter().find(|(own, _)| *own == device) {
        return Ok(Arc::clone(lane));
    }
    let lane = threads::with_signals_blocked(|| {
        let context = Context::primary(device)?;
        // SAFETY: null is the legacy default stream of any context, which lives as long as the context.
        let stream = unsafe { Stream::from_raw(&context, null_mut()) };
        let stream = stream.with_accuracy(settings().accuracy);
        Ok::<_, Error>(Arc::new(Lane { context, stream }))
    })?;
    lanes.push((device, Arc::clone(&lane)));
    Ok(lane)
}

/// The device on which managed memory is used.
pub(super) fn usual_device() -> u32 {
    match settings().device {
        Wanted::Cuda(index) => index,
        Wanted::Auto | Wanted::Cpu => 0,
    }
}

/// Calls with a context of the usual device current; `None` where there is none.
pub(super) fn in_some_context<R>(call: impl FnOnce() -> R) -> Option<R> {
    let lane = lane(usual_device()).ok()?;
    let _current = lane.context.driver_context().enter().ok()?;
    Some(call())
}
