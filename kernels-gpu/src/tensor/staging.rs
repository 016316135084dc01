//! What accumulators pass through on their way to C: pairs of them, and the buffer of a TMA store.

use cuda_std::memory::{Shared, SharedAddress};

/// A staging buffer, the box of one TMA store: 64 rows of 128 bytes in the 128-byte swizzle, by its
/// address and as a view.
pub(super) struct StagingBuffer {
    pub(super) address: SharedAddress<u8>,
    pub(super) view: Shared<u8>,
}
