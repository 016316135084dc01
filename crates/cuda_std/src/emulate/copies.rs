//! Asynchronous copies: a copy lands at the wait that covers its group, and not before.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::panic::Location;

use super::{Access, AccessKind, Action, EmulationError, Thread, buffer, current};

/// A copy on its way.
#[derive(Clone, Copy)]
struct Copy {
    to: usize,
    from: *const u8,
    bytes: usize,
    at: &'static Location<'static>,
}

/// The copies of one thread that have not landed.
#[derive(Default)]
pub(super) struct Copies {
    /// Since the last group was closed.
    open: RefCell<Vec<Copy>>,
    /// Closed groups, the oldest first.
    groups: RefCell<VecDeque<Vec<Copy>>>,
}

impl Copies {
    /// Where the thread started a copy that no wait has covered.
    pub(super) fn under_way(&self) -> Option<&'static Location<'static>> {
        let (groups, open) = (self.groups.borrow(), self.open.borrow());
        groups.iter().flatten().chain(open.iter()).next().map(|copy| copy.at)
    }
}

/// Starts a copy between two addresses, with the checks that need not wait for its landing.
#[track_caller]
pub(crate) fn copy_async(to: usize, from: *const u8, bytes: usize) {
    let thread = current();
    let mut copy = Copy { to, from, bytes, at: Location::caller() };
    let buffers = &thread.block.launch.buffers;
    let found = buffer::find(buffers, from.addr());
    let address = found.map_or(from.addr(), |number| buffers[number].in_memory(from.addr()));
    thread.tell(|| Action::Global { kind: AccessKind::Read, address, bytes });
    if thread.block.launch.checked {
        thread.start(&copy, found).unwrap_or_else(|error| thread.stop(error));
    }
    if address != from.addr() {
        copy.from = std::ptr::with_exposed_provenance(address);
    }
    thread.copies.open.borrow_mut().push(copy);
}

/// Closes the thread's open copies into a group.
pub(crate) fn commit_group() {
    let Copies { open, groups } = &current().copies;
    groups.borrow_mut().push_back(open.take());
}

/// Lands the thread's groups but the newest `pending`.
#[track_caller]
pub(crate) fn wait_group(pending: u32) {
    let thread = current();
    let at = Location::caller();
    while thread.copies.groups.borrow().len() > pending as usize {
        let group = thread.copies.groups.borrow_mut().pop_front().unwrap_or_default();
        for copy in group {
            thread.land(&copy, at);
        }
    }
}

impl Thread<'_> {
    /// What is wrong with a copy when it starts. Its destination counts as written from now on, by
    /// whom nobody knows when, and as unreadable until it lands.
    fn start(&self, copy: &Copy, found: Option<usize>) -> Result<(), EmulationError> {
        let Copy { to, bytes, at, .. } = *copy;
        let from = copy.from.addr();
        self.global_access((found, from, bytes), AccessKind::Read, at)?;
        self.shared_access((to, bytes), AccessKind::Write, at)?;
        for (address, kind) in [(from, AccessKind::Read), (to, AccessKind::Write)] {
            if !address.is_multiple_of(bytes) {
                let access = self.access(kind, at);
                return Err(EmulationError::Misaligned { access, align: bytes });
            }
        }
        let offset = to - self.block.shared.base.addr();
        self.block.shadow.borrow_mut().depart((offset, bytes), self.linear, at);
        Ok(())
    }

    /// Moves the bytes of a copy, for the wait at `at`.
    fn land(&self, copy: &Copy, at: &'static Location<'static>) {
        let Copy { to, from, bytes, .. } = *copy;
        let base = self.block.shared.base;
        let offset = to.wrapping_sub(base.addr());
        self.tell(|| Action::Shared { kind: AccessKind::Write, offset, bytes });
        if self.block.launch.checked {
            self.block.shadow.borrow_mut().arrive((offset, bytes));
            let landed = self.shared_access((to, bytes), AccessKind::Write, at);
            landed.unwrap_or_else(|error| self.stop(error));
        }
        // SAFETY: the caller of the copy has promised that both places are valid for its bytes, of
        // which `start` has tested what it can; shared memory and the buffers of a launch are
        // different allocations.
        unsafe { std::ptr::copy_nonoverlapping(from, base.wrapping_add(offset), bytes) };
    }

    /// The error of an access to where a copy still goes.
    pub(super) fn too_early(
        &self,
        kind: AccessKind,
        at: &'static Location<'static>,
        offset: usize,
        (thread, started): (u32, &'static Location<'static>),
    ) -> EmulationError {
        let thread = super::coordinates(u64::from(thread), self.block.launch.block);
        let copy = super::Site { block: self.block_idx, thread, at: started };
        EmulationError::PendingCopy { access: Access { kind, site: self.site(at) }, copy, offset }
    }
}
