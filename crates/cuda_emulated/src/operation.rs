//! What a stream is given to do.

use std::sync::Arc;

use kernels_gpu::EmulatedCall;

/// A stream, by its handle, or by what `World::stream` gives a default stream.
pub(crate) type StreamId = usize;

/// Work in a stream; addresses are of host memory, as all is.
#[derive(Clone)]
pub(crate) enum Operation {
    Copy { to: usize, from: usize, bytes: usize },
    CopyLines(Lines),
    Fill { at: usize, value: u8, bytes: usize },
    Wait { stream: StreamId, after: usize },
    Reach { event: usize },
    Launch(Arc<KernelLaunch>),
}

/// Lines that are copied, each `from_pitch` and `to_pitch` bytes behind the one before.
#[derive(Clone, Copy)]
pub(crate) struct Lines {
    pub(crate) to: usize,
    pub(crate) to_pitch: usize,
    pub(crate) from: usize,
    pub(crate) from_pitch: usize,
    pub(crate) bytes: usize,
    pub(crate) lines: usize,
}

impl Lines {
    /// Bytes from the first to the end of the last line of that pitch.
    pub(crate) fn extent(&self, pitch: usize) -> usize {
        self.lines.saturating_sub(1) * pitch + self.bytes
    }
}

/// A launch of an entry with the parameters of a GEMM.
pub(crate) struct KernelLaunch {
    pub(crate) symbol: &'static str,
    pub(crate) call: EmulatedCall,
    pub(crate) grid: (u32, u32, u32),
    pub(crate) block: (u32, u32, u32),
    pub(crate) shared_bytes: usize,
}
