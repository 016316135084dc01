//! `mma.sync`: multiply-accumulate by the tensor cores, by a warp whose lanes have the elements in registers.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate;

/// Adds 16 x 4 by 4 x 8 elements of f64 to 16 x 8: `mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64`.
///
/// With `g = lane / 4` and `t = lane % 4` a lane has
///
/// ```text
///   a     (g, t), (g + 8, t)                                        row, k element
///   b     (t, g)                                                    k element, column
///   acc   (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)        row, column
/// ```
///
/// Each element is a chain of four fused multiply-adds in the order of k, each rounded to nearest: seen on an H100,
/// as PTX leaves the order open.
///
/// # Safety
/// All lanes of the warp call it together.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn m16n8k4_f64(acc: &mut [f64; 4], a: [f64; 2], b: f64) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promise is the instruction's.
        unsafe {
            asm!(
                "mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {{{c0}, {c1}, {c2}, {c3}}}, \
                 {{{a0}, {a1}}}, {{{b}}}, {{{c0}, {c1}, {c2}, {c3}}};",
                c0 = inout(reg64) acc[0],
                c1 = inout(reg64) acc[1],
                c2 = inout(reg64) acc[2],
                c3 = inout(reg64) acc[3],
                a0 = in(reg64) a[0],
                a1 = in(reg64) a[1],
                b = in(reg64) b,
                options(nomem, nostack)
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        *acc = emulate::multiply_in_warp((a, b), *acc);
    }
}
