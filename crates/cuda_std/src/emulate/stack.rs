//! The stacks of emulated threads.

use std::cell::{Cell, RefCell};
use std::io;
use std::num::NonZeroUsize;

use corosensei::stack::{DefaultStack, Stack as _, StackPointer};

/// Bytes of stack for one emulated thread.
const STACK_BYTES: usize = 64 * 1024;
/// Bytes between the places in their pages at which the stacks of neighbours begin.
const APART: usize = 704;
/// Bytes of a page.
const PAGE: usize = 4096;

/// A stack that does not begin at the end of its pages: of stacks that all do, the same lines compete for the same few
/// sets of a cache.
pub(super) struct Stack {
    memory: DefaultStack,
    base: StackPointer,
}

thread_local! {
    /// Stacks of ended threads, for the next block.
    static SPARE: RefCell<Vec<Stack>> = const { RefCell::new(Vec::new()) };
    /// Stacks that this worker has made.
    static MADE: Cell<usize> = const { Cell::new(0) };
}

impl Stack {
    /// That of an ended thread, or a new one.
    pub(super) fn take() -> io::Result<Self> {
        SPARE.with_borrow_mut(Vec::pop).map_or_else(Self::new, Ok)
    }

    fn new() -> io::Result<Self> {
        let memory = DefaultStack::new(STACK_BYTES)?;
        let number = MADE.get();
        MADE.set(number.wrapping_add(1));
        let base = memory.base().get() - number.wrapping_mul(APART) % PAGE;
        let base = NonZeroUsize::new(base).expect("invariant: a stack has more than a page");
        Ok(Self { memory, base })
    }

    /// Keeps it for another thread.
    pub(super) fn keep(self) {
        SPARE.with_borrow_mut(|spare| spare.push(self));
    }
}

// SAFETY: the memory is that of a stack with its guard page; less than a page less of it is in use, a multiple of 16
// bytes, which leaves more than the least size.
unsafe impl corosensei::stack::Stack for Stack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.memory.limit()
    }
}
