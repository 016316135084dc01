//! Values that the compiler does not know.

/// Defines the function for a type.
macro_rules! opaque {
    ($(#[$doc:meta])* $name:ident, $number:ty, $register:ident, $ptx:literal) => {
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        pub fn $name(number: $number) -> $number {
            #[cfg(target_arch = "nvptx64")]
            {
                let same: $number;
                // SAFETY: a move between registers.
                unsafe {
                    core::arch::asm!(
                        $ptx,
                        same = out($register) same,
                        number = in($register) number,
                        options(nomem, nostack, preserves_flags)
                    );
                }
                same
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                number
            }
        }
    };
}

opaque!(/// The same number, of which the compiler cannot tell that it is: what follows from it is computed where that
    /// is needed. In a loop it would otherwise be computed before the loop, and more of it kept than fits the
    /// registers.
    opaque, u32, reg32, "mov.b32 {same}, {number};");
opaque!(/// The same of 64 bits.
    opaque_wide, u64, reg64, "mov.b64 {same}, {number};");
