//! `cp.async.bulk.tensor`: TMA copies of boxes of a tensor between global and shared memory.
//!
//! A tensor map describes the tensor: its address, its extents and strides, the box that one copy moves,
//! and the swizzle of the box in shared memory. The host encodes it and passes it by value; a kernel
//! passes its address on and never reads it. Elements outside the tensor are read as zero and not
//! written.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

use super::mbarrier::Barrier;
#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate;
use crate::memory::SharedAddress;

/// The address of a tensor map.
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
    pub fn of_parameter(_: &'static str, parameter: u32) -> Self {
        Self(emulate::map_of_parameter(parameter))
    }
}

/// The coordinates of a box, for the emulator: its first element along a line, its first line and, by a map of rank 3, its matrix.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coords {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: Option<u32>,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Coords {
    /// Those of a copy of rank 2.
    pub(crate) const fn matrix(x: u32, y: u32) -> Self {
        Self { x, y, z: None }
    }

    /// Those of a copy of rank 3.
    pub(crate) const fn batch(x: u32, y: u32, z: u32) -> Self {
        Self { x, y, z: Some(z) }
    }

    /// As signed numbers, with 0 for the matrix of a map of rank 2.
    #[cfg(feature = "emulate")]
    pub(crate) fn signed(self) -> [i64; 3] {
        [self.x, self.y, self.z.unwrap_or(0)].map(|at| i64::from(at.cast_signed()))
    }
}

/// `tensor_map!("entry", 0)`: the address of a parameter of the entry of that name, by its number,
/// which is the 128 bytes of a tensor map. Used in that entry only; the value itself must not be used: the
/// compiler would copy it to memory where TMA does not look for it.
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

/// Prefetches a map before its first copy: `prefetch.tensormap [map];`.
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
        emulate::tensor_prefetch(map.0);
    }
}

/// Starts a copy of a box of a matrix to shared memory, which completes the bytes of the whole box at
/// `barrier`, including those outside the matrix:
/// `cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes`.
/// `x` is the box's first coordinate along the contiguous dimension, `y` along the other.
///
/// # Safety
/// 1. The map is of this launch, of rank 2, and its tensor valid memory that nobody writes before the
///    copy has completed.
/// 2. `to` is aligned to the period of the map's swizzle, 1024 bytes for the 128-byte swizzle, and has
///    room for the box; nobody accesses it before the barrier's phase has completed, and earlier accesses
///    are ordered before the copy by a barrier.
/// 3. The barrier is initialised, visible to copies, and its phase expects these bytes.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load(
    to: SharedAddress<u8>,
    map: MapAddress,
    x: u32,
    y: u32,
    barrier: SharedAddress<Barrier>,
) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!(
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
                "[{to}], [{map}, {{{x}, {y}}}], [{barrier}];",
                to = in(reg32) to.get(),
                map = in(reg64) map.0,
                x = in(reg32) x,
                y = in(reg32) y,
                barrier = in(reg32) barrier.get(),
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::tensor_load(to.get(), map.0, Coords::matrix(x, y), barrier.get(), None);
    }
}

/// As [`load`], of a box of matrix `z` of a map of rank 3:
/// `cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes`.
///
/// # Safety
/// Those of [`load`], for a map of rank 3 whose boxes have one matrix.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load_3d(
    to: SharedAddress<u8>,
    map: MapAddress,
    [x, y, z]: [u32; 3],
    barrier: SharedAddress<Barrier>,
) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!(
                "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes",
                "[{to}], [{map}, {{{x}, {y}, {z}}}], [{barrier}];",
                to = in(reg32) to.get(),
                map = in(reg64) map.0,
                x = in(reg32) x,
                y = in(reg32) y,
                z = in(reg32) z,
                barrier = in(reg32) barrier.get(),
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::tensor_load(to.get(), map.0, Coords::batch(x, y, z), barrier.get(), None);
    }
}

/// As [`load`], of what nobody reads again: L2 may give its place to others first:
/// `createpolicy.fractional.L2::evict_first.b64`, and the copy with `.L2::cache_hint`.
///
/// # Safety
/// Those of [`load`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load_once(
    to: SharedAddress<u8>,
    map: MapAddress,
    x: u32,
    y: u32,
    barrier: SharedAddress<Barrier>,
) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!(
                "{{ .reg .b64 %policy;",
                "createpolicy.fractional.L2::evict_first.b64 %policy, 1.0;",
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint",
                "[{to}], [{map}, {{{x}, {y}}}], [{barrier}], %policy; }}",
                to = in(reg32) to.get(),
                map = in(reg64) map.0,
                x = in(reg32) x,
                y = in(reg32) y,
                barrier = in(reg32) barrier.get(),
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::tensor_load(to.get(), map.0, Coords::matrix(x, y), barrier.get(), None);
    }
}

/// As [`load`], to the same offset in each block of the cluster whose bit in `blocks` is set; each block's
/// barrier at that offset completes the bytes:
/// `cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster`.
///
/// # Safety
/// Those of [`load`] in each of the blocks, none of which has exited.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load_multicast(
    to: SharedAddress<u8>,
    map: MapAddress,
    x: u32,
    y: u32,
    barrier: SharedAddress<Barrier>,
    blocks: u16,
) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!(
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster",
                "[{to}], [{map}, {{{x}, {y}}}], [{barrier}], {blocks};",
                to = in(reg32) to.get(),
                map = in(reg64) map.0,
                x = in(reg32) x,
                y = in(reg32) y,
                barrier = in(reg32) barrier.get(),
                blocks = in(reg16) blocks,
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::tensor_load(to.get(), map.0, Coords::matrix(x, y), barrier.get(), Some(blocks));
    }
}

/// Starts a copy of a box from shared memory to a matrix, as part of this thread's open group:
/// `cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {x, y}], [from];`.
///
/// # Safety
/// 1. The map is of this launch, of rank 2, and its tensor valid memory; nobody else accesses the box.
/// 2. The box at `from`, aligned as for [`load`], was written before each writer's
///    [`fence_proxy_async`](super::bulk::fence_proxy_async) and a barrier after it, and is not overwritten
///    before a wait for this copy's group.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn store(map: MapAddress, x: u32, y: u32, from: SharedAddress<u8>) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!(
                "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [{map}, {{{x}, {y}}}], [{from}];",
                map = in(reg64) map.0,
                x = in(reg32) x,
                y = in(reg32) y,
                from = in(reg32) from.get(),
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::tensor_store(map.0, Coords::matrix(x, y), from.get());
    }
}

/// As [`store`], to matrix `z` of a map of rank 3:
/// `cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [map, {x, y, z}], [from];`.
///
/// # Safety
/// Those of [`store`], for a map of rank 3 whose boxes have one matrix.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn store_3d(map: MapAddress, [x, y, z]: [u32; 3], from: SharedAddress<u8>) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promises are the instruction's.
        unsafe {
            asm!(
                "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [{map}, {{{x}, {y}, {z}}}], [{from}];",
                map = in(reg64) map.0,
                x = in(reg32) x,
                y = in(reg32) y,
                z = in(reg32) z,
                from = in(reg32) from.get(),
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::tensor_store(map.0, Coords::batch(x, y, z), from.get());
    }
}
