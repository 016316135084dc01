//! The caller's floating-point environment: whether it is the usual one, and its exceptions.

use std::arch::asm;

/// MXCSR without the exceptions that were raised: all masked, rounding to nearest, subnormal numbers as they are.
const USUAL: u32 = 0x1f80;
/// Its bits that say which exceptions were raised.
const RAISED: u32 = 0x3f;

fn mxcsr() -> u32 {
    let mut value = 0u32;
    // SAFETY: stores the register to a local.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack, preserves_flags)) };
    value
}

/// Whether this thread rounds to nearest, keeps subnormal numbers and traps nothing: what exact arithmetic by f64
/// relies on.
pub(crate) fn environment_is_usual() -> bool {
    mxcsr() & !RAISED == USUAL
}

/// Forgets at its end what exceptions were raised since: those of products in parts that the caller knows nothing
/// of, an infinity times nothing among them.
pub(super) struct Unraised(u32);

impl Unraised {
    pub(super) fn from_here() -> Self {
        Self(mxcsr())
    }
}

impl Drop for Unraised {
    fn drop(&mut self) {
        // SAFETY: the register as it was, whose control bits nothing here has changed; the raised exceptions may be
        // changed by a block that does not promise to keep flags.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const self.0, options(nostack)) };
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn exceptions_are_forgotten_and_others_rounding_is_seen() {
        let before = mxcsr() & RAISED;
        {
            let _unraised = Unraised::from_here();
            assert!(black_box(black_box(f64::MAX) * black_box(2.0)).is_infinite());
            assert_eq!(mxcsr() & 8, 8);
        }
        assert_eq!(mxcsr() & RAISED, before);
        assert!(environment_is_usual());
        let upward = mxcsr() | 0x4000;
        let usual = Unraised::from_here();
        // SAFETY: nothing is computed until the register is as it was.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const upward, options(nostack)) };
        let seen = environment_is_usual();
        drop(usual);
        assert!(!seen && environment_is_usual());
    }
}
