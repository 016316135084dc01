//! `mma.sync` of 16-bit floats: multiply-accumulate by the tensor cores, by a warp whose lanes have the elements in
//! registers; and `ldmatrix`, which gives the lanes their elements.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate;
use crate::memory::SharedAddress;

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

/// Defines the load of four matrices, as they are or transposed.
macro_rules! ldmatrix {
    ($name:ident, $ptx:literal, $transposed:literal, $elements:literal) => {
        #[doc = concat!("Loads four 8 x 8 matrices of 16-bit elements: `", $ptx, "`.")]
        ///
        /// Lane `l` gives in `row` the address of row `l % 8` of matrix `l / 8`. Of matrix `i` it gets, in the halves
        #[doc = concat!("of word `i`, the elements ", $elements, ".")]
        ///
        /// # Safety
        /// All lanes of the warp call it together. Each row is 16 bytes of the block's shared memory, aligned to
        /// 16, written before a barrier if by another thread.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        #[must_use]
        pub unsafe fn $name<T>(row: SharedAddress<T>) -> [u32; 4] {
            #[cfg(target_arch = "nvptx64")]
            {
                let mut words = [0u32; 4];
                // SAFETY: the caller's promise is the instruction's.
                unsafe {
                    asm!(
                        concat!($ptx, " {{{0}, {1}, {2}, {3}}}, [{row}];"),
                        out(reg32) words[0],
                        out(reg32) words[1],
                        out(reg32) words[2],
                        out(reg32) words[3],
                        row = in(reg32) row.get(),
                        options(readonly, nostack)
                    );
                }
                words
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                // SAFETY: the caller's promise.
                let pairs = unsafe { row.cast::<u32>().read_quad() };
                emulate::distribute_in_warp(pairs, $transposed)
            }
        }
    };
}

ldmatrix!(
    ldmatrix_x4,
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
    false,
    "`(l / 4, 2 * (l % 4))` and `(l / 4, 2 * (l % 4) + 1)`"
);
ldmatrix!(
    ldmatrix_x4_transposed,
    "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
    true,
    "`(2 * (l % 4), l / 4)` and `(2 * (l % 4) + 1, l / 4)`"
);
