//! `mma.sync` of 16-bit floats: multiply-accumulate by the tensor cores, by a warp whose lanes have the elements in
//! registers.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate;

/// Defines the instruction for a type of factors.
macro_rules! m16n8k16 {
    ($name:ident, $type:literal, $factor:ident) => {
        #[doc = concat!("Adds 16 x 16 by 16 x 8 elements of ", $type, " to 16 x 8 of f32:")]
        #[doc = concat!("`mma.sync.aligned.m16n8k16.row.col.f32.", $type, ".", $type, ".f32`.")]
        ///
        /// With `g = lane / 4` and `t = lane % 4` a lane has, two neighbours in k in a register of 16-bit numbers,
        /// the first in the low half,
        ///
        /// ```text
        ///   a     (g, 2t ..), (g + 8, 2t ..), (g, 2t + 8 ..), (g + 8, 2t + 8 ..)     row, k elements
        ///   b     (2t .., g), (2t + 8 .., g)                                          k elements, column
        ///   acc   (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)                 row, column
        /// ```
        ///
        /// # Safety
        /// All lanes of the warp call it together.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name(acc: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
            #[cfg(target_arch = "nvptx64")]
            {
                // SAFETY: the caller's promise is the instruction's.
                unsafe {
                    asm!(
                        concat!(
                            "mma.sync.aligned.m16n8k16.row.col.f32.", $type, ".", $type, ".f32 ",
                            "{{{c0}, {c1}, {c2}, {c3}}}, {{{a0}, {a1}, {a2}, {a3}}}, ",
                            "{{{b0}, {b1}}}, {{{c0}, {c1}, {c2}, {c3}}};"
                        ),
                        c0 = inout(reg32) acc[0],
                        c1 = inout(reg32) acc[1],
                        c2 = inout(reg32) acc[2],
                        c3 = inout(reg32) acc[3],
                        a0 = in(reg32) a[0],
                        a1 = in(reg32) a[1],
                        a2 = in(reg32) a[2],
                        a3 = in(reg32) a[3],
                        b0 = in(reg32) b[0],
                        b1 = in(reg32) b[1],
                        options(nomem, nostack)
                    );
                }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let factor = emulate::Factor::$factor;
                *acc = emulate::multiply_halves_in_warp(factor, (a, b), *acc);
            }
        }
    };
}

m16n8k16!(m16n8k16_f16, "f16", F16);
m16n8k16!(m16n8k16_bf16, "bf16", Bf16);
