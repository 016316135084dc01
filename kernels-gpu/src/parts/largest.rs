//! The largest of what all threads of a launch have found.

use cuda_std::memory::GlobalMut;
use cuda_std::{atomic, warp};

/// Raises a word to the largest number that a lane of the warp has.
///
/// # Safety
/// All lanes are here; the word is valid, and the launch writes it by this alone.
#[inline(always)]
pub(crate) unsafe fn raise(word: GlobalMut<u32>, largest: u32) {
    let mut largest = largest;
    let mut bits = 16;
    while bits > 0 {
        // SAFETY: the caller's promise.
        largest = largest.max(unsafe { warp::shuffle_xor(warp::FULL, largest, bits) });
        bits /= 2;
    }
    if warp::lane_id() == 0 {
        // SAFETY: the caller's promise.
        unsafe { atomic::reduce_max(word, largest) };
    }
}
