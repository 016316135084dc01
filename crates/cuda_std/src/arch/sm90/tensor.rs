//! Copies of boxes of a tensor between global and shared memory, by the copy engine.
//!
//! A tensor map describes the tensor: its place, its sizes, the pitch of its lines, the box that one
//! copy moves, and how the box lies in shared memory. The host makes it and passes it by value; a
//! kernel hands its address to a copy and never looks into it. What lies outside of the tensor is read
//! as zero and not written.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

use super::mbarrier::Barrier;
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate;
use crate::memory::SharedAddress;

/// A tensor map as a parameter of an entry: 128 bytes that only the copy engine understands.
///
/// [`tensor_map!`](crate::tensor_map) gives its address. A kernel must not use the value itself: the
/// compiler would copy it to where the engine does not look.
#[repr(C)]
pub struct TensorMap {
    _opaque: [u64; 16],
}

/// Where a tensor map lies.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct MapAddress(u64);

impl MapAddress {
    /// The map at a generic address, as [`tensor_map!`](crate::tensor_map) finds it.
    #[cfg(target_arch = "nvptx64")]
    #[doc(hidden)]
    #[inline(always)]
    #[must_use]
    pub fn new(address: u64) -> Self {
        Self(address)
    }

    /// The map that is that parameter of the running entry, for [`tensor_map!`](crate::tensor_map).
    #[cfg(not(target_arch = "nvptx64"))]
    #[doc(hidden)]
    #[track_caller]
    #[must_use]
    pub fn of_parameter(entry: &'static str, parameter: u32) -> Self {
        emulate::not_emulated("cvta.param.u64", (entry, parameter))
    }
}

/// `tensor_map!("entry", 0)`: the address of a parameter of the entry of that name, by its number,
/// which is a [`TensorMap`](crate::arch::sm90::tensor::TensorMap) there. Used in that entry only.
#[macro_export]
macro_rules! tensor_map {
    ($entry:expr, $parameter:literal) => {{
        #[cfg(target_arch = "nvptx64")]
        let map = {
            let address: u64;
            // SAFETY: reads no memory; the symbol is a parameter of the entry that this is a part of.
            unsafe {
                core::arch::asm!(
                    concat!(
                        "{{ .reg .b64 %place; mov.b64 %place, ", $entry, "_param_", $parameter, ";",
                        " cvta.param.u64 {address}, %place; }}"
                    ),
                    address = out(reg64) address,
                    options(pure, nomem, nostack)
                );
            }
            $crate::arch::sm90::tensor::MapAddress::new(address)
        };
        #[cfg(not(target_arch = "nvptx64"))]
        let map = $crate::arch::sm90::tensor::MapAddress::of_parameter($entry, $parameter);
        map
    }};
}

/// Lets the copy engine fetch a map before its first copy: `prefetch.tensormap [map];`.
///
/// # Safety
/// It is a map of this launch.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn prefetch(map: MapAddress) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promise is the instruction's.
        unsafe { asm!("prefetch.tensormap [{map}];", map = in(reg64) map.0, options(nostack)) };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::not_emulated("prefetch.tensormap", map.0)
    }
}

/// Starts a copy of a box of a matrix to shared memory, which arrives at `barrier` with the bytes of
/// the whole box, even where a part lies outside:
/// `cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes`.
/// `along` is the first element along the contiguous dimension, `line` the first line.
///
/// # Safety
/// 1. The map is of this launch, of rank 2, and its tensor valid memory that nobody writes before the
///    copy has landed.
/// 2. `to` is aligned to what the map's swizzle permutes, 1024 bytes in the 128-byte swizzle, and has
///    room for the box; nobody touches it before the barrier's phase has ended, and earlier accesses
///    have ended in the order that a barrier gives.
/// 3. The barrier is set, visible to copies, and its phase expects these bytes.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load(
    to: SharedAddress<u8>,
    map: MapAddress,
    along: u32,
    line: u32,
    barrier: SharedAddress<Barrier>,
) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!(
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
                "[{to}], [{map}, {{{along}, {line}}}], [{barrier}];",
                to = in(reg32) to.get(),
                map = in(reg64) map.0,
                along = in(reg32) along,
                line = in(reg32) line,
                barrier = in(reg32) barrier.get(),
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::not_emulated(
            "cp.async.bulk.tensor.2d.shared::cluster.global",
            (to, map, along, line, barrier),
        )
    }
}

/// As [`load`], to the same place of each block of the cluster whose bit in `blocks` is set, where the box
/// arrives at the barrier in the same place:
/// `cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster`.
///
/// # Safety
/// Those of [`load`] in each of the blocks, none of which has ended.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load_multicast(
    to: SharedAddress<u8>,
    map: MapAddress,
    along: u32,
    line: u32,
    barrier: SharedAddress<Barrier>,
    blocks: u16,
) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!(
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster",
                "[{to}], [{map}, {{{along}, {line}}}], [{barrier}], {blocks};",
                to = in(reg32) to.get(),
                map = in(reg64) map.0,
                along = in(reg32) along,
                line = in(reg32) line,
                barrier = in(reg32) barrier.get(),
                blocks = in(reg16) blocks,
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::not_emulated(
            "cp.async.bulk.tensor.2d.multicast::cluster",
            (to, map, along, line, barrier, blocks),
        )
    }
}

/// Starts a copy of a box from shared memory to a matrix, as a part of this thread's open group:
/// `cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {along, line}], [from];`.
///
/// # Safety
/// 1. The map is of this launch, of rank 2, and its tensor valid memory; nobody else touches the box.
/// 2. The box at `from`, aligned as for [`load`], was written before a
///    [`fence_writes`](super::bulk::fence_writes) by each writer and a barrier, and stays until a wait
///    for this copy's group.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn store(map: MapAddress, along: u32, line: u32, from: SharedAddress<u8>) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!(
                "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [{map}, {{{along}, {line}}}], [{from}];",
                map = in(reg64) map.0,
                along = in(reg32) along,
                line = in(reg32) line,
                from = in(reg32) from.get(),
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::not_emulated(
            "cp.async.bulk.tensor.2d.global.shared::cta",
            (map, along, line, from),
        )
    }
}
