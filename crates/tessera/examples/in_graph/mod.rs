//! How long launches take that are in a CUDA graph: what the examples that measure have in common.

use std::error::Error;

use cuda_lazy::{CaptureMode, Event, Graph, Timing};
use tessera::gpu::Stream;

pub(crate) type Failure = Box<dyn Error>;

/// A graph of what `launch` puts into the stream.
pub(crate) fn captured(
    stream: &Stream,
    launch: impl FnOnce() -> Result<(), Failure>,
) -> Result<Graph, Failure> {
    let context = stream.context().driver_context();
    // SAFETY: the stream is the caller's, and the memory outlives the graph's launches.
    unsafe { Graph::capture(context, stream.as_raw(), CaptureMode::Global, launch) }
}

/// The microseconds of one launch of a graph.
pub(crate) fn microseconds(stream: &Stream, graph: &Graph) -> Result<f64, Failure> {
    let context = stream.context().driver_context();
    let (begin, end) = (Event::new(context, Timing::On)?, Event::new(context, Timing::On)?);
    let _current = context.enter()?;
    // SAFETY: the stream is of the context that was entered.
    unsafe { begin.record_raw(stream.as_raw())? };
    // SAFETY: as for the capture.
    unsafe { graph.launch(stream.as_raw())? };
    // SAFETY: as for the other event.
    unsafe { end.record_raw(stream.as_raw())? };
    end.synchronize()?;
    Ok(end.since(&begin)?.as_secs_f64() * 1e6)
}

/// The one in the middle; NaN of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
