//! Engines, and what a fork does to them.
//!
//! An engine is made for the first product that asks for its settings, and kept. A child of a fork makes its own.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tessera::{Accuracy, Device, Engine};
use tessera_raw::{PerProcess, Place};

use crate::failure::failure;
use crate::settings;

/// What an engine is made by.
#[derive(Clone, Copy, PartialEq)]
struct Settings {
    device: Device,
    accuracy: Accuracy,
    /// Threads of its pool; `None` for the usual number.
    pool: Option<NonZeroUsize>,
}

/// The engines of a process.
#[derive(Default)]
struct State {
    engines: Mutex<Vec<(Settings, &'static Engine)>>,
}

/// This process' state.
static STATE: PerProcess<State> = PerProcess::new();
/// How many threads the program asked for; 0 where it did not.
static ASKED: AtomicUsize = AtomicUsize::new(0);

fn state() -> &'static State {
    let made = STATE.get_or_try_make(|| Ok::<_, Infallible>(State::default()));
    let Ok(state) = made;
    state
}

/// The engine of these settings, made if need be.
fn engine(settings: Settings) -> Result<&'static Engine, tessera::Error> {
    let mut engines = state().engines.lock().unwrap_or_else(PoisonError::into_inner);
    let find = |engines: &[(Settings, &'static Engine)], wanted: Settings| {
        engines.iter().find(|(own, _)| *own == wanted).map(|(_, engine)| *engine)
    };
    if let Some(engine) = find(&engines, settings) {
        return Ok(engine);
    }
    // Without a GPU all contracts are kept by the same products on the same threads.
    let on_cpu = Settings { device: Device::Cpu, accuracy: Accuracy::default(), ..settings };
    if settings.device == Device::Cpu
        && let Some(engine) = find(&engines, on_cpu)
    {
        engines.push((settings, engine));
        return Ok(engine);
    }
    let builder = Engine::builder().device(settings.device).accuracy(settings.accuracy);
    let builder = match settings.pool {
        Some(threads) => builder.threads(threads),
        None => builder,
    };
    let made = builder.build()?;
    let known = if made.gpu().is_none() { find(&engines, on_cpu) } else { None };
    let engine: &'static Engine = match known {
        Some(known) => known,
        None => Box::leak(Box::new(made)),
    };
    engines.push((settings, engine));
    if engine.gpu().is_none() && known.is_none() && settings != on_cpu {
        engines.push((on_cpu, engine));
    }
    Ok(engine)
}

/// An engine, and how many of its threads a product may use.
pub(crate) fn place(
    device: Device,
    accuracy: Accuracy,
    threads: Option<NonZeroUsize>,
) -> Result<Place<'static>, tessera::Error> {
    let usual = engine(Settings { device, accuracy, pool: None })?;
    let threads = threads.or_else(|| NonZeroUsize::new(ASKED.load(Ordering::Relaxed)));
    let more = threads.filter(|threads| threads.get() > usual.cpu_context().threads());
    let engine =
        if more.is_some() { engine(Settings { device, accuracy, pool: more })? } else { usual };
    Ok(Place { engine, threads })
}

/// set_num_threads(threads, /)
/// --
///
/// Sets how many threads products use that do not say so themselves; None gives the choice back to
/// RAYON_NUM_THREADS or, failing that, to the number of cores.
#[pyfunction]
#[pyo3(signature = (threads, /))]
pub(crate) fn set_num_threads(threads: Option<isize>) -> PyResult<()> {
    let threads = settings::threads(threads)?;
    ASKED.store(threads.map_or(0, NonZeroUsize::get), Ordering::Relaxed);
    Ok(())
}

/// How many threads a large product uses.
#[pyfunction]
pub(crate) fn get_num_threads() -> PyResult<usize> {
    let place = place(Device::Cpu, Accuracy::default(), None).map_err(failure)?;
    Ok(place.threads.map_or_else(|| place.engine.cpu_context().threads(), NonZeroUsize::get))
}

/// What this installation is and finds, as a dictionary.
#[pyfunction]
pub(crate) fn config(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let found = py.detach(|| place(Device::Auto, Accuracy::default(), None));
    let place = found.map_err(failure)?;
    let context = place.engine.cpu_context();
    let config = PyDict::new(py);
    config.set_item("version", env!("CARGO_PKG_VERSION"))?;
    config.set_item("threads", place.threads.map_or(context.threads(), NonZeroUsize::get))?;
    config.set_item("instruction_set", context.isa().to_string())?;
    let units = match cpu_gemm::matrix_units() {
        Ok(name) => name.to_owned(),
        Err(why) => format!("none: {why}"),
    };
    config.set_item("matrix_units", units)?;
    let gpu = match (place.engine.gpu(), py.detach(tessera::gpu::driver)) {
        (Some(gpu), _) => gpu.info().name.clone(),
        (None, Err(why)) => format!("none: {why}"),
        (None, Ok(_)) => "none".to_owned(),
    };
    config.set_item("gpu", gpu)?;
    Ok(config)
}
