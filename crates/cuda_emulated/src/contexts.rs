//! Contexts: which there are, and which is current for a thread.

use std::cell::RefCell;
use std::collections::HashMap;

use crate::status::{INVALID_CONTEXT, INVALID_DEVICE, SUCCESS};

/// How many devices there are. They have their memory in common.
pub(crate) const DEVICES: i32 = 2;

/// A context, by its handle.
pub(crate) type ContextId = usize;

/// Handles of contexts that are no device's primary one follow this.
const OWN: ContextId = 0x1000;

/// The contexts of the process.
#[derive(Default)]
pub(crate) struct Contexts {
    /// Those that can be entered.
    alive: HashMap<ContextId, Context>,
    /// How often each primary context is retained.
    retained: [usize; DEVICES as usize],
    created: usize,
    next_id: u64,
}

struct Context {
    device: i32,
    /// What tells it from a later one with its handle.
    id: u64,
}

thread_local! {
    /// The handles of the contexts on this thread's stack.
    static CURRENT: RefCell<Vec<ContextId>> = const { RefCell::new(Vec::new()) };
}

/// The context that is current for this thread; 0 where there is none.
pub(crate) fn current() -> ContextId {
    CURRENT.with_borrow(|stack| stack.last().copied().unwrap_or(0))
}

/// Takes the context away that is current for this thread.
pub(crate) fn pop() -> Option<ContextId> {
    CURRENT.with_borrow_mut(Vec::pop)
}

/// The handle of a device's primary context.
fn primary(device: i32) -> ContextId {
    0x10 * (device.unsigned_abs() as usize + 1)
}

impl Contexts {
    /// The place of a device among those that there are.
    fn place(device: i32) -> Option<usize> {
        (0..DEVICES).contains(&device).then_some(device.unsigned_abs() as usize)
    }

    fn make(&mut self, handle: ContextId, device: i32) {
        self.next_id += 1;
        self.alive.insert(handle, Context { device, id: self.next_id });
    }

    pub(crate) fn retain(&mut self, device: i32) -> Result<ContextId, i32> {
        let place = Self::place(device).ok_or(INVALID_DEVICE)?;
        if self.retained[place] == 0 {
            self.make(primary(device), device);
        }
        self.retained[place] += 1;
        Ok(primary(device))
    }

    pub(crate) fn release(&mut self, device: i32) -> i32 {
        let Some(retained) = Self::place(device).map(|place| &mut self.retained[place]) else {
            return INVALID_DEVICE;
        };
        match *retained {
            0 => return INVALID_CONTEXT,
            1 => drop(self.alive.remove(&primary(device))),
            _ => {}
        }
        *retained -= 1;
        SUCCESS
    }

    pub(crate) fn is_active(&self, device: i32) -> Result<bool, i32> {
        Self::place(device).map(|place| self.retained[place] > 0).ok_or(INVALID_DEVICE)
    }

    /// Makes a context that is nobody's primary one, current for this thread.
    pub(crate) fn create(&mut self, device: i32) -> Result<ContextId, i32> {
        Self::place(device).ok_or(INVALID_DEVICE)?;
        self.created += 1;
        let handle = OWN + 0x10 * self.created;
        self.make(handle, device);
        CURRENT.with_borrow_mut(|stack| stack.push(handle));
        Ok(handle)
    }

    pub(crate) fn destroy(&mut self, handle: ContextId) -> i32 {
        match handle > OWN && self.alive.remove(&handle).is_some() {
            true => SUCCESS,
            false => INVALID_CONTEXT,
        }
    }

    pub(crate) fn push(&self, handle: ContextId) -> i32 {
        if !self.alive.contains_key(&handle) {
            return INVALID_CONTEXT;
        }
        CURRENT.with_borrow_mut(|stack| stack.push(handle));
        SUCCESS
    }

    /// Replaces the top of the thread's stack; 0 takes it away.
    pub(crate) fn set(&self, handle: ContextId) -> i32 {
        if handle != 0 && !self.alive.contains_key(&handle) {
            return INVALID_CONTEXT;
        }
        CURRENT.with_borrow_mut(|stack| {
            stack.pop();
            if handle != 0 {
                stack.push(handle);
            }
        });
        SUCCESS
    }

    pub(crate) fn device(&self, handle: ContextId) -> Option<i32> {
        self.alive.get(&handle).map(|context| context.device)
    }

    pub(crate) fn id(&self, handle: ContextId) -> Option<u64> {
        let handle = if handle == 0 { current() } else { handle };
        self.alive.get(&handle).map(|context| context.id)
    }
}
