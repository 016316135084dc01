//! Entries as functions for the emulator.

use std::any::Any;

use gemm_spec::GemmTypes;
use gemm_spec::params::GemmParams;

use crate::EMULATED;

/// A kernel entry as the host calls it.
pub type EmulatedFn<T> = unsafe fn(GemmParams<T>);

/// A kernel entry for one element type.
#[derive(Clone, Copy)]
pub enum EmulatedEntry {
    /// Elements are f32.
    F32(EmulatedFn<f32>),
    /// Elements are f64.
    F64(EmulatedFn<f64>),
    /// Elements are i32.
    I32(EmulatedFn<i32>),
}

/// An entry with its arguments, for the threads of an emulated launch to call.
pub struct EmulatedCall(Bound);

enum Bound {
    F32(EmulatedFn<f32>, GemmParams<f32>),
    F64(EmulatedFn<f64>, GemmParams<f64>),
    I32(EmulatedFn<i32>, GemmParams<i32>),
}

// SAFETY: the pointers among the arguments are used by `call` alone, and whoever made the call has promised
// that what they point to is there for it, on any thread.
unsafe impl Send for EmulatedCall {}
// SAFETY: as above; `call` changes nothing here.
unsafe impl Sync for EmulatedCall {}

impl EmulatedCall {
    /// The entry with these arguments; none where its element type is another.
    ///
    /// # Safety
    /// The entry's obligations hold for the arguments as long as this is called, on whatever threads: the
    /// launch that calls it is the one that they are for.
    #[must_use]
    pub unsafe fn new<T: GemmTypes>(entry: EmulatedEntry, params: GemmParams<T>) -> Option<Self> {
        let params: &dyn Any = &params;
        Some(Self(match entry {
            EmulatedEntry::F32(entry) => Bound::F32(entry, *params.downcast_ref()?),
            EmulatedEntry::F64(entry) => Bound::F64(entry, *params.downcast_ref()?),
            EmulatedEntry::I32(entry) => Bound::I32(entry, *params.downcast_ref()?),
        }))
    }

    /// Runs the entry as one thread of the launch.
    pub fn call(&self) {
        match self.0 {
            // SAFETY: `new` was promised the entry's obligations for these arguments.
            Bound::F32(entry, params) => unsafe { entry(params) },
            // SAFETY: as above.
            Bound::F64(entry, params) => unsafe { entry(params) },
            // SAFETY: as above.
            Bound::I32(entry, params) => unsafe { entry(params) },
        }
    }
}

/// Wraps a function of f32, for `gemm_entries!`.
pub(crate) const fn f32(entry: EmulatedFn<f32>) -> EmulatedEntry {
    EmulatedEntry::F32(entry)
}

/// The same for f64.
pub(crate) const fn f64(entry: EmulatedFn<f64>) -> EmulatedEntry {
    EmulatedEntry::F64(entry)
}

/// The same for i32.
pub(crate) const fn i32(entry: EmulatedFn<i32>) -> EmulatedEntry {
    EmulatedEntry::I32(entry)
}

/// The entry of that symbol as a function for the emulator.
#[must_use]
pub fn emulated_entry(symbol: &str) -> Option<EmulatedEntry> {
    EMULATED.iter().copied().flatten().find(|(name, _)| *name == symbol).map(|&(_, entry)| entry)
}
