//! What a process makes once, and a child of a fork anew.
//!
//! A pool of threads does not survive a fork: they are not the child's, and whatever locks they held are
//! held by nobody. So a child forgets what its parent has made, and makes its own.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// How many forks lie between the first process and this one.
static FORKS: AtomicUsize = AtomicUsize::new(0);

/// A value of the process.
#[derive(Debug)]
pub struct PerProcess<T: 'static> {
    at: AtomicPtr<Made<T>>,
}

#[derive(Debug)]
struct Made<T> {
    /// The process that it was made in, by its forks.
    forks: usize,
    value: T,
}

impl<T: Send + Sync + 'static> PerProcess<T> {
    /// Nothing so far.
    #[must_use]
    pub const fn new() -> Self {
        Self { at: AtomicPtr::new(null_mut()) }
    }

    /// The value, made if there is none of this process. Where several threads make one the first is
    /// everybody's.
    ///
    /// # Errors
    /// Those of `make`; nothing is then kept.
    pub fn get_or_try_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&'static T, E> {
        count_forks();
        let at = self.at.load(Ordering::Acquire);
        if let Some(value) = Self::own(at) {
            return Ok(value);
        }
        let made = Made { forks: FORKS.load(Ordering::Relaxed), value: make()? };
        let new = Box::into_raw(Box::new(made));
        let there = self.at.compare_exchange(at, new, Ordering::AcqRel, Ordering::Acquire);
        let at = match there {
            Ok(_) => new,
            Err(first) => {
                // SAFETY: made above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
                first
            }
        };
        // SAFETY: either was leaked: the one above, or that of a thread that was faster.
        Ok(&unsafe { &*at }.value)
    }

    /// What lies at an address, if it is of this process.
    fn own(at: *mut Made<T>) -> Option<&'static T> {
        // SAFETY: what is not null was leaked by `get_or_try_make`.
        let made = unsafe { at.as_ref() }?;
        (made.forks == FORKS.load(Ordering::Relaxed)).then_some(&made.value)
    }
}

impl<T: Send + Sync + 'static> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Has children count themselves.
fn count_forks() {
    #[cfg(unix)]
    {
        extern "C" fn in_child() {
            FORKS.fetch_add(1, Ordering::Relaxed);
        }
        static ONCE: AtomicUsize = AtomicUsize::new(0);
        if ONCE.load(Ordering::Relaxed) == 0 && ONCE.swap(1, Ordering::Relaxed) == 0 {
            // SAFETY: the handler adds to an atomic, which a child may do, and is never unloaded: the shared
            // libraries that hold it stay. Where the system has no memory for it, a child that multiplies on
            // several threads hangs; nothing else is lost.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_and_in_a_child_again() {
        static VALUE: PerProcess<usize> = PerProcess::new();
        assert_eq!(VALUE.get_or_try_make(|| Err("not yet")), Err("not yet"));
        assert_eq!(VALUE.get_or_try_make(|| Ok::<_, ()>(1)), Ok(&1));
        assert_eq!(VALUE.get_or_try_make(|| Ok::<_, ()>(2)), Ok(&1));
        #[cfg(unix)]
        {
            // SAFETY: the child allocates a little and ends; another test's thread may hold the allocator's
            // lock, which glibc's fork waits for.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let made = VALUE.get_or_try_make(|| Ok::<_, ()>(3)) == Ok(&3);
                let again = VALUE.get_or_try_make(|| Ok::<_, ()>(4)) == Ok(&3);
                // SAFETY: nothing is to be cleaned up.
                unsafe { libc::_exit(i32::from(!(made && again))) };
            }
            let mut status = -1;
            // SAFETY: the child's number, and room for its status.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
            assert_eq!(VALUE.get_or_try_make(|| Ok::<_, ()>(5)), Ok(&1));
        }
    }
}
