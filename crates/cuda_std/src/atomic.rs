//! Updates of a word of global memory that several threads write.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use core::sync::atomic::Ordering;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate;
use crate::memory::GlobalMut;

/// Adds to a word and returns its old value: `atom.global.add.u32 before, [word], value;`.
///
/// # Safety
/// The word is valid, and every writer of this launch updates it by an atomic instruction.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub unsafe fn fetch_add(word: GlobalMut<u32>, value: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let before: u32;
        // SAFETY: the caller's promise is the instruction's.
        unsafe {
            asm!(
                "atom.global.add.u32 {before}, [{word}], {value};",
                before = out(reg32) before,
                word = in(reg64) word,
                value = in(reg32) value,
                options(nostack)
            );
        }
        before
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::atomic(word.0, |word| word.fetch_add(value, Ordering::Relaxed))
    }
}

/// Sets bits of a word: `red.global.or.b32 [word], bits;`.
///
/// # Safety
/// The word is valid, and every writer of this launch updates it by an atomic instruction.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn reduce_or(word: GlobalMut<u32>, bits: u32) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promise is the instruction's.
        unsafe {
            asm!(
                "red.global.or.b32 [{word}], {bits};",
                word = in(reg64) word,
                bits = in(reg32) bits,
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::atomic(word.0, |word| word.fetch_or(bits, Ordering::Relaxed));
    }
}

/// Raises a word to at least `value`: `red.global.max.u32 [word], value;`.
///
/// # Safety
/// The word is valid, and every writer of this launch updates it by an atomic instruction.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn reduce_max(word: GlobalMut<u32>, value: u32) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promise is the instruction's.
        unsafe {
            asm!(
                "red.global.max.u32 [{word}], {value};",
                word = in(reg64) word,
                value = in(reg32) value,
                options(nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::atomic(word.0, |word| word.fetch_max(value, Ordering::Relaxed));
    }
}
