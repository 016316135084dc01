//! Entries as functions for the emulator.

use std::any::Any;

use gemm_spec::params::{
    BatchedParams, FallbackParams, FinishParams, GemmParams, LimbParams, PadParams, Params,
    ProbeParams, RowAmaxParams, RowExponentsParams, SplitKMajorParams, SplitMnMajorParams,
    TmaParams, TmaSimtParams, TransposeParams,
};

use crate::EMULATED;

/// A kernel entry as the host calls it.
pub type EmulatedFn<P> = unsafe fn(P);

/// Defines the entries by what they are called with.
macro_rules! entries {
    ($($(#[$doc:meta])* $name:ident($params:ty),)+) => {
        /// A kernel entry, by its parameters.
        #[derive(Clone, Copy)]
        pub enum EmulatedEntry {
            $($(#[$doc])* $name(EmulatedFn<$params>),)+
        }

        #[expect(clippy::large_enum_variant, reason = "there is one for each launch")]
        enum Bound {
            $($name(EmulatedFn<$params>, $params),)+
        }

        impl EmulatedCall {
            /// The entry with these arguments; none where its parameters are others.
            ///
            /// # Safety
            /// The entry's obligations hold for the arguments as long as this is called, on whatever threads: the
            /// launch that calls it is the one that they are for.
            #[must_use]
            pub unsafe fn new<P: Params + 'static>(entry: EmulatedEntry, params: P) -> Option<Self> {
                let params: &dyn Any = &params;
                Some(Self(match entry {
                    $(EmulatedEntry::$name(entry) => Bound::$name(entry, *params.downcast_ref()?),)+
                }))
            }

            /// Runs the entry as one thread of the launch.
            pub fn call(&self) {
                match self.0 {
                    // SAFETY: `new` was promised the entry's obligations for these arguments.
                    $(Bound::$name(entry, params) => unsafe { entry(params) },)+
                }
            }
        }
    };
}

entries! {
    /// Of a GEMM of f32.
    F32(GemmParams<f32>),
    /// Of a GEMM of f64.
    F64(GemmParams<f64>),
    /// Of a GEMM of i32.
    I32(GemmParams<i32>),
    /// Of one that computes a batch.
    Batched(BatchedParams<f32>),
    /// The same with accumulators of f64.
    BatchedF64(BatchedParams<f64>),
    /// Of one whose operands TMA loads for the tensor cores.
    Tma(TmaParams<f32>),
    /// Of one whose operands TMA loads for the FP32 units.
    TmaSimt(TmaSimtParams<f32>),
    /// Of one that multiplies limbs.
    Limbs(LimbParams),
    /// Of the helper that copies an operand.
    Pad(PadParams),
    /// Of the helper that exchanges rows and columns.
    Transpose(TransposeParams),
    /// Of the helper that finishes sums.
    Finish(FinishParams),
    /// Of the helper that splits a K-major operand.
    SplitKMajor(SplitKMajorParams),
    /// Of the helper that finds the largest magnitudes.
    RowAmax(RowAmaxParams),
    /// Of the helper that splits an MN-major operand.
    SplitMnMajor(SplitMnMajorParams),
    /// Of the helper that examines samples of C.
    Probe(ProbeParams),
    /// Of the helper that finds by how much rows are scaled.
    RowExponents(RowExponentsParams),
    /// Of the fallback.
    Fallback(FallbackParams),
}

/// An entry with its arguments, for the threads of an emulated launch to call.
pub struct EmulatedCall(Bound);

// SAFETY: the pointers among the arguments are used by `call` alone, and whoever made the call has promised
// that what they point to is there for it, on any thread.
unsafe impl Send for EmulatedCall {}
// SAFETY: as above; `call` changes nothing here.
unsafe impl Sync for EmulatedCall {}

/// Wraps a function of f32, for `gemm_entries!`.
pub(crate) const fn f32(entry: EmulatedFn<GemmParams<f32>>) -> EmulatedEntry {
    EmulatedEntry::F32(entry)
}

/// The same for f64.
pub(crate) const fn f64(entry: EmulatedFn<GemmParams<f64>>) -> EmulatedEntry {
    EmulatedEntry::F64(entry)
}

/// The same for i32.
pub(crate) const fn i32(entry: EmulatedFn<GemmParams<i32>>) -> EmulatedEntry {
    EmulatedEntry::I32(entry)
}

/// The entry of that symbol as a function for the emulator.
#[must_use]
pub fn emulated_entry(symbol: &str) -> Option<EmulatedEntry> {
    EMULATED.iter().copied().flatten().find(|(name, _)| *name == symbol).map(|&(_, entry)| entry)
}
