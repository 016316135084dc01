//! Functions that the special-function units compute, off by a unit in the last place or two. Subnormal
//! arguments and results are zero.

/// Defines a function of one number: its instruction, and what the host computes.
macro_rules! approximate {
    ($(#[$doc:meta])* $name:ident, $ptx:literal, |$x:ident| $host:expr) => {
        $(#[$doc])*
        #[doc = concat!("`", $ptx, " result, x;`.")]
        #[inline(always)]
        #[must_use]
        pub fn $name($x: f32) -> f32 {
            #[cfg(target_arch = "nvptx64")]
            {
                let result: f32;
                // SAFETY: arithmetic on registers.
                unsafe {
                    core::arch::asm!(
                        concat!($ptx, " {result}, {x};"),
                        result = out(reg32) result,
                        x = in(reg32) $x,
                        options(pure, nomem, nostack, preserves_flags)
                    );
                }
                result
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                flushed($host)
            }
        }
    };
}

approximate!(
    /// A power of two:
    exp2, "ex2.approx.ftz.f32", |x| x.exp2()
);
approximate!(
    /// A reciprocal:
    reciprocal, "rcp.approx.ftz.f32", |x| x.recip()
);

/// The number, or zero where it is subnormal.
#[cfg(not(target_arch = "nvptx64"))]
fn flushed(x: f32) -> f32 {
    if x.is_subnormal() { 0.0 } else { x }
}
