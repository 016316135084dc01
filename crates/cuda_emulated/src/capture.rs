//! Streams that are being captured, and the graphs that come of it.

use std::cell::Cell;
use std::collections::HashMap;
use std::thread::{self, ThreadId};

use crate::operation::{Operation, StreamId};
use crate::status::{CAPTURE_INVALIDATED, CAPTURE_UNSUPPORTED, INVALID_HANDLE, SUCCESS};

/// `CU_STREAM_CAPTURE_MODE_GLOBAL`, `_THREAD_LOCAL` and `_RELAXED`.
const GLOBAL: i32 = 0;
const THREAD_LOCAL: i32 = 1;
const RELAXED: i32 = 2;

thread_local! {
    /// What the thread may do while streams are captured.
    static MODE: Cell<i32> = const { Cell::new(GLOBAL) };
}

/// Sets what this thread may do while streams are captured; gives what it could before.
pub(crate) fn exchange_mode(mode: i32) -> i32 {
    MODE.replace(mode)
}

/// What is captured and what was.
#[derive(Default)]
pub(crate) struct Captures {
    under_way: HashMap<StreamId, Capture>,
    graphs: HashMap<usize, Vec<Operation>>,
}

struct Capture {
    mode: i32,
    thread: ThreadId,
    operations: Vec<Operation>,
    /// A call was made that may not be made meanwhile.
    invalid: bool,
}

impl Captures {
    /// What a call answers that may not be made while a stream is captured; the capture is void then.
    pub(crate) fn forbid(&mut self) -> i32 {
        let own = MODE.get();
        let mut code = SUCCESS;
        for capture in self.under_way.values_mut() {
            let concerned = match capture.mode {
                GLOBAL => own != RELAXED && own != THREAD_LOCAL || is_own(capture, own),
                THREAD_LOCAL => is_own(capture, own),
                _ => false,
            };
            if concerned {
                capture.invalid = true;
                code = CAPTURE_UNSUPPORTED;
            }
        }
        code
    }

    /// The operations of a stream that is captured.
    pub(crate) fn of(&mut self, stream: StreamId) -> Option<&mut Vec<Operation>> {
        self.under_way.get_mut(&stream).map(|capture| &mut capture.operations)
    }

    pub(crate) fn is_capturing(&self, stream: StreamId) -> bool {
        self.under_way.contains_key(&stream)
    }

    pub(crate) fn begin(&mut self, stream: StreamId, mode: i32) -> i32 {
        if self.is_capturing(stream) {
            return INVALID_HANDLE;
        }
        let thread = thread::current().id();
        let capture = Capture { mode, thread, operations: Vec::new(), invalid: false };
        self.under_way.insert(stream, capture);
        SUCCESS
    }

    /// Ends a capture; gives what was captured.
    pub(crate) fn end(&mut self, stream: StreamId) -> Result<Vec<Operation>, i32> {
        let capture = self.under_way.remove(&stream).ok_or(INVALID_HANDLE)?;
        if capture.invalid { Err(CAPTURE_INVALIDATED) } else { Ok(capture.operations) }
    }

    /// A graph of those operations under that handle.
    pub(crate) fn keep(&mut self, graph: usize, operations: Vec<Operation>) {
        self.graphs.insert(graph, operations);
    }

    /// The operations of a graph.
    pub(crate) fn graph(&self, graph: usize) -> Result<Vec<Operation>, i32> {
        self.graphs.get(&graph).cloned().ok_or(INVALID_HANDLE)
    }

    pub(crate) fn destroy_graph(&mut self, graph: usize) -> i32 {
        self.graphs.remove(&graph).map_or(INVALID_HANDLE, |_| SUCCESS)
    }
}

/// Whether a capture is of this thread, which has not said that it knows what it does.
fn is_own(capture: &Capture, mode: i32) -> bool {
    capture.thread == thread::current().id() && mode != RELAXED
}
