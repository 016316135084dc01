//! What the 32 threads of a warp do together: votes and shuffles.
//!
//! A warp is 32 threads with consecutive places in their block, x fastest; a lane is a thread's place
//! in its warp. Each function names in `mask` the lanes that take part, bit i for lane i. None orders
//! accesses to memory: what lanes exchange through shared memory still needs a barrier.

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate::{self, WarpOperation};

/// Every lane of a full warp.
pub const FULL: u32 = u32::MAX;

/// This thread's lane: `%laneid`.
#[inline(always)]
#[must_use]
pub fn lane_id() -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let lane: u32;
        // SAFETY: reading a special register has no precondition on the device.
        unsafe {
            core::arch::asm!(
                "mov.u32 {lane}, %laneid;",
                lane = out(reg32) lane,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        lane
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::lane()
    }
}

/// Defines a vote: its PTX, the type of its result, and the result from the ballot on the host.
macro_rules! vote {
    ($(#[$doc:meta])* $name:ident -> $result:ty, $ptx:literal, $value:ident => $from:expr, |$ballot:ident, $mask:ident| $host:expr) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// Every lane of `mask`, which has the caller's, calls it from the same place with that mask.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        #[must_use]
        pub unsafe fn $name($mask: u32, predicate: bool) -> $result {
            #[cfg(target_arch = "nvptx64")]
            {
                let $value: u32;
                // SAFETY: the caller promises that all lanes of the mask are here.
                unsafe {
                    core::arch::asm!(
                        "{{ .reg .pred %vote_in, %vote_out; setp.ne.u32 %vote_in, {predicate}, 0;",
                        $ptx,
                        "}}",
                        value = out(reg32) $value,
                        predicate = in(reg32) u32::from(predicate),
                        mask = in(reg32) $mask,
                        options(nostack)
                    );
                }
                $from
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let $ballot = emulate::warp(WarpOperation::Ballot, $mask, u32::from(predicate), 0);
                $host
            }
        }
    };
}

vote!(/// The lanes of `mask` whose predicate is true: `vote.sync.ballot.b32`.
    ballot -> u32, "vote.sync.ballot.b32 {value}, %vote_in, {mask};",
    value => value, |ballot, mask| ballot);
vote!(/// Whether the predicate is true in every lane of `mask`: `vote.sync.all.pred`.
    all -> bool,
    "vote.sync.all.pred %vote_out, %vote_in, {mask}; selp.u32 {value}, 1, 0, %vote_out;",
    value => value != 0, |ballot, mask| ballot == mask);
vote!(/// Whether the predicate is true in any lane of `mask`: `vote.sync.any.pred`.
    any -> bool,
    "vote.sync.any.pred %vote_out, %vote_in, {mask}; selp.u32 {value}, 1, 0, %vote_out;",
    value => value != 0, |ballot, mask| ballot != 0);

/// A value that a shuffle moves.
pub trait Shuffle: Copy {
    /// Its bits.
    fn to_word(self) -> u32;
    /// The value of those bits.
    fn from_word(word: u32) -> Self;
}

impl Shuffle for u32 {
    #[inline(always)]
    fn to_word(self) -> u32 {
        self
    }

    #[inline(always)]
    fn from_word(word: u32) -> Self {
        word
    }
}

impl Shuffle for f32 {
    #[inline(always)]
    fn to_word(self) -> u32 {
        self.to_bits()
    }

    #[inline(always)]
    fn from_word(word: u32) -> Self {
        Self::from_bits(word)
    }
}

/// Defines a shuffle: its PTX, whose last number clamps the source to the warp, and its name here.
macro_rules! shuffle {
    ($(#[$doc:meta])* $name:ident, $argument:ident, $ptx:literal, $operation:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// 1. Every lane of `mask`, which has the caller's, calls it from the same place with that
        ///    mask.
        /// 2. The lane that a value comes from is in the mask.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        #[must_use]
        pub unsafe fn $name<T: Shuffle>(mask: u32, value: T, $argument: u32) -> T {
            #[cfg(target_arch = "nvptx64")]
            {
                let word: u32;
                // SAFETY: the caller promises that all lanes of the mask are here.
                unsafe {
                    core::arch::asm!(
                        $ptx,
                        word = out(reg32) word,
                        value = in(reg32) value.to_word(),
                        argument = in(reg32) $argument,
                        mask = in(reg32) mask,
                        options(nostack)
                    );
                }
                T::from_word(word)
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let operation = WarpOperation::$operation;
                T::from_word(emulate::warp(operation, mask, value.to_word(), $argument))
            }
        }
    };
}

shuffle!(/// The value of lane `source % 32`: `shfl.sync.idx.b32`.
    shuffle_idx, source, "shfl.sync.idx.b32 {word}, {value}, {argument}, 31, {mask};", ShuffleIdx);
shuffle!(/// The value of the lane `delta` below, its own where there is none: `shfl.sync.up.b32`.
    shuffle_up, delta, "shfl.sync.up.b32 {word}, {value}, {argument}, 0, {mask};", ShuffleUp);
shuffle!(/// The value of the lane `delta` above, its own where there is none: `shfl.sync.down.b32`.
    shuffle_down, delta, "shfl.sync.down.b32 {word}, {value}, {argument}, 31, {mask};",
    ShuffleDown);
shuffle!(/// The value of the lane whose number differs in the bits of `bits`: `shfl.sync.bfly.b32`.
    shuffle_xor, bits, "shfl.sync.bfly.b32 {word}, {value}, {argument}, 31, {mask};", ShuffleXor);
