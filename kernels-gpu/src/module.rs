//! What the host runs: the PTX of a module, or an entry as a function for the emulator.

use gemm_spec::{Arch, GemmTypes};

use crate::EMULATED;

/// The PTX of a module, as `cargo xtask build-ptx` made it from this crate's sources.
#[must_use]
pub const fn ptx(arch: Arch) -> &'static str {
    match arch {
        Arch::Sm70 => include_str!("../ptx/sm_70.ptx"),
        Arch::Sm80 => include_str!("../ptx/sm_80.ptx"),
        Arch::Sm90a => include_str!("../ptx/sm_90a.ptx"),
    }
}

/// A kernel entry as the host calls it, with the parameters of [`gemm_spec::GEMM_PARAMS`].
pub type EmulatedFn<T> = unsafe fn(
    u32,
    u32,
    u32,
    <T as GemmTypes>::Acc,
    *const <T as GemmTypes>::A,
    u64,
    *const <T as GemmTypes>::B,
    u64,
    <T as GemmTypes>::Acc,
    *mut <T as GemmTypes>::C,
    u64,
);

/// A kernel entry for the types of one product.
#[derive(Clone, Copy)]
pub enum EmulatedEntry {
    /// Elements are f32.
    F32(EmulatedFn<f32>),
    /// Elements are f64.
    F64(EmulatedFn<f64>),
    /// Elements are i32.
    I32(EmulatedFn<i32>),
}

/// Wraps a function by its element type's name, for `gemm_entries!`.
pub(crate) mod emulated {
    use super::{EmulatedEntry, EmulatedFn};

    pub(crate) const fn f32(entry: EmulatedFn<f32>) -> EmulatedEntry {
        EmulatedEntry::F32(entry)
    }

    pub(crate) const fn f64(entry: EmulatedFn<f64>) -> EmulatedEntry {
        EmulatedEntry::F64(entry)
    }

    pub(crate) const fn i32(entry: EmulatedFn<i32>) -> EmulatedEntry {
        EmulatedEntry::I32(entry)
    }
}

/// The entry of that symbol as a function for the emulator.
#[must_use]
pub fn emulated_entry(symbol: &str) -> Option<EmulatedEntry> {
    EMULATED.iter().copied().flatten().find(|(name, _)| *name == symbol).map(|&(_, entry)| entry)
}
