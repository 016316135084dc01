//! Conversions and updates of single numbers.

use std::sync::atomic::AtomicU32;

use super::products::{is_mark, is_unwritten};
use super::{AccessKind, EmulationError, check_global, current};
use std::panic::Location;

/// What a device makes of a NaN.
const NAN: u16 = 0x7fff;

/// Two numbers rounded to f16, the first in the low half.
#[track_caller]
pub(crate) fn f16_pair(first: f32, second: f32) -> u32 {
    let half = |x: f32| if x.is_nan() { NAN } else { half::f16::from_f32(x).to_bits() };
    check_number(first.to_bits(), true);
    check_number(second.to_bits(), true);
    u32::from(half(first)) | u32::from(half(second)) << 16
}

/// Two numbers rounded to bf16.
#[track_caller]
pub(crate) fn bf16_pair(first: f32, second: f32) -> u32 {
    let half = |x: f32| if x.is_nan() { NAN } else { half::bf16::from_f32(x).to_bits() };
    check_number(first.to_bits(), true);
    check_number(second.to_bits(), true);
    u32::from(half(first)) | u32::from(half(second)) << 16
}

#[track_caller]
pub(crate) fn f16_value(bits: u16) -> f32 {
    let _ = current();
    half::f16::from_bits(bits).to_f32()
}

/// Updates a word of global memory.
#[track_caller]
pub(crate) fn atomic(word: *mut u32, update: impl FnOnce(&AtomicU32) -> u32) -> u32 {
    let word = check_global::<u32>(word, AccessKind::Atomic).cast_mut();
    // SAFETY: the word is in a buffer of the launch, where this is checked, and aligned; every writer of the launch
    // updates it by an atomic instruction, as the caller has promised.
    update(unsafe { AtomicU32::from_ptr(word) })
}

/// Ends the launch where the sum of a product is used that was not waited for; where it is to be a result, also where
/// the product has read what nobody wrote.
#[inline]
#[track_caller]
pub(crate) fn check_number(bits: u32, is_result: bool) {
    if is_mark(bits) || is_result && is_unwritten(bits) {
        used(bits, Location::caller());
    }
}

#[cold]
fn used(bits: u32, at: &'static Location<'static>) {
    let thread = current();
    if !thread.block.launch.checked {
        return;
    }
    let site = thread.site(at);
    if is_mark(bits) {
        thread.stop(EmulationError::UsedInFlight { site });
    }
    if let Some(product) = thread.cluster.with(|state| state.product_of(bits)) {
        thread.stop(EmulationError::UnwrittenOperand { site, product });
    }
}

/// The same of a value that is stored, whatever its type.
#[inline]
#[track_caller]
pub(crate) fn check_value<T>(value: &T, is_result: bool) {
    if !current().block.launch.asynchronous
        || !size_of::<T>().is_multiple_of(4)
        || align_of::<T>() < 4
    {
        return;
    }
    let words = std::ptr::from_ref(value).cast::<u32>();
    for word in 0..size_of::<T>() / 4 {
        // SAFETY: a word of the value, whose alignment suits it. The kernels' types have no padding.
        check_number(unsafe { words.wrapping_add(word).read() }, is_result);
    }
}
