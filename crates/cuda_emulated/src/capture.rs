//! Streams that are being captured, and the graphs that come of it.

use std::cell::Cell;
use std::collections::HashMap;
use std::thread::{self, ThreadId};

use crate::world::{
    CAPTURE_INVALIDATED, CAPTURE_UNSUPPORTED, INVALID_HANDLE, Operation, SUCCESS, StreamId, World,
};

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
}

/// Whether a capture is of this thread, which has not said that it knows what it does.
fn is_own(capture: &Capture, mode: i32) -> bool {
    capture.thread == thread::current().id() && mode != RELAXED
}

impl World {
    /// Ends a capture; gives the graph.
    pub(crate) fn end_capture(&mut self, stream: StreamId) -> Result<usize, i32> {
        let capture = self.captures.under_way.remove(&stream).ok_or(INVALID_HANDLE)?;
        if capture.invalid {
            return Err(CAPTURE_INVALIDATED);
        }
        let graph = self.handle();
        self.captures.graphs.insert(graph, capture.operations);
        Ok(graph)
    }

    /// The same graph under another handle.
    pub(crate) fn instantiate(&mut self, graph: usize) -> Result<usize, i32> {
        let operations = self.captures.graphs.get(&graph).cloned().ok_or(INVALID_HANDLE)?;
        let exec = self.handle();
        self.captures.graphs.insert(exec, operations);
        Ok(exec)
    }

    pub(crate) fn launch_graph(&mut self, graph: usize, stream: StreamId) -> i32 {
        let Some(operations) = self.captures.graphs.get(&graph).cloned() else {
            return INVALID_HANDLE;
        };
        for operation in operations {
            self.queue(stream, operation);
        }
        SUCCESS
    }

    pub(crate) fn destroy_graph(&mut self, graph: usize) -> i32 {
        self.captures.graphs.remove(&graph).map_or(INVALID_HANDLE, |_| SUCCESS)
    }
}
