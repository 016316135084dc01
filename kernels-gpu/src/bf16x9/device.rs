//! Three limbs of bf16, and the entries.

use cuda_std::arch::sm80::convert::{bf16_pair, bf16_value};
use cuda_std::arch::sm90::wgmma::{self, Descriptor};
use cuda_std::memory::SharedAddress;
use gemm_spec::split::{
    Limbs, MAGNITUDE_LIMIT, MIN_MAGNITUDE, NON_FINITE, OUT_OF_RANGE, PLANE_BYTES, bf16_limb_offset,
};
use gemm_spec::warpgroup::{HALF_ROW_BYTES, INSTRUCTION_M, K_ADVANCE, k_major_descriptor_64b};

use super::STAGES;
use crate::limbs::product::product_entry;
use crate::limbs::split::{RangeReport, Row, split_entries};
use crate::limbs::{LimbSplit, stage_bytes};
use crate::parts::pipeline::Pipeline;
use crate::parts::quad::Quad;

/// Descriptor units from the plane of one limb to the next.
const PLANE: u64 = PLANE_BYTES as u64 / 16;

/// Three limbs of bf16; with `ALL` no product is left out.
pub(crate) struct ThreeBf16<const ALL: bool>;

/// The limbs of two numbers, the largest first.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) fn split_pair(x: f32, y: f32) -> [u32; 3] {
    let rest = |(x, y): (f32, f32), bits: u32| {
        (x - bf16_value(bits as u16), y - bf16_value((bits >> 16) as u16))
    };
    let first = bf16_pair(x, y);
    let (x, y) = rest((x, y), first);
    let second = bf16_pair(x, y);
    let (x, y) = rest((x, y), second);
    [first, second, bf16_pair(x, y)]
}

impl<const ALL: bool> Pipeline for ThreeBf16<ALL> {
    const STAGES: u32 = STAGES;
    const STAGE_BYTES: u32 = stage_bytes(Limbs::ThreeBf16);
}

impl<const ALL: bool> LimbSplit for ThreeBf16<ALL> {
    const LIMBS: Limbs = Limbs::ThreeBf16;

    #[inline(always)]
    unsafe fn split_octet(row: &Row, octet: u32, values: [f32; 8]) -> RangeReport {
        let mut flags = 0;
        let mut pair = |x: f32, y: f32| {
            let found = |x: f32| {
                let size = x.abs();
                if size < MAGNITUDE_LIMIT {
                    if size < MIN_MAGNITUDE && size != 0.0 { OUT_OF_RANGE } else { 0 }
                } else {
                    // NaN also ends up here: no comparison with it holds.
                    if size < f32::INFINITY { OUT_OF_RANGE } else { NON_FINITE }
                }
            };
            flags |= found(x) | found(y);
            split_pair(x, y)
        };
        let [a, b, c, d, e, f, g, h] = values;
        let (p0, p1, p2, p3) = (pair(a, b), pair(c, d), pair(e, f), pair(g, h));
        let write = |limb: usize| {
            let at = bf16_limb_offset(row.row, octet, limb as u32, row.k_tiles);
            let at = row.limbs.wrapping_add(at as usize).cast::<Quad<u32>>();
            // SAFETY: 16 bytes that `bf16_limb_offset` gives to this limb of this octet alone.
            unsafe { at.write(Quad([p0[limb], p1[limb], p2[limb], p3[limb]])) };
        };
        write(0);
        write(1);
        write(2);
        RangeReport { flags, underflows: 0 }
    }

    #[inline(always)]
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "instructions of one group on one stage"
    )]
    unsafe fn mma(
        acc: &mut wgmma::Accumulators<8>,
        a: SharedAddress<u8>,
        consumer_idx: u32,
        b: SharedAddress<u8>,
    ) {
        let a = a.wrapping_add((consumer_idx * INSTRUCTION_M * HALF_ROW_BYTES) as usize);
        let a = Descriptor::from_bits(k_major_descriptor_64b(a.get()));
        let b = Descriptor::from_bits(k_major_descriptor_64b(b.get()));
        let plus = |acc: &mut wgmma::Accumulators<8>, i: u64, j: u64| {
            let (a, b) = (a + i * PLANE, b + j * PLANE);
            // SAFETY: the whole warpgroup is here; the stage is full, and unchanged until a wait.
            unsafe {
                wgmma::m64n128k16_f32_bf16_bf16::<true, false, false>(acc, a, b);
                wgmma::m64n128k16_f32_bf16_bf16::<true, false, false>(
                    acc,
                    a + K_ADVANCE,
                    b + K_ADVANCE,
                );
            }
        };
        let begin = |acc: &mut wgmma::Accumulators<8>, i: u64, j: u64| {
            let (a, b) = (a + i * PLANE, b + j * PLANE);
            // SAFETY: the whole warpgroup is here; the stage is full, and unchanged until a wait.
            unsafe {
                wgmma::arrive_m64n128k16_f32_bf16_bf16::<false, false, false>(acc, a, b);
                wgmma::m64n128k16_f32_bf16_bf16::<true, false, false>(
                    acc,
                    a + K_ADVANCE,
                    b + K_ADVANCE,
                );
            }
        };
        if ALL {
            begin(acc, 2, 2);
            plus(acc, 2, 1);
            plus(acc, 1, 2);
            plus(acc, 2, 0);
        } else {
            begin(acc, 2, 0);
        }
        plus(acc, 0, 2);
        plus(acc, 1, 1);
        plus(acc, 1, 0);
        plus(acc, 0, 1);
        plus(acc, 0, 0);
    }
}

product_entry!(bf16x6_f32: ThreeBf16<false>);
product_entry!(bf16x9_f32: ThreeBf16<true>);
split_entries!(bf16x9_split_rows, bf16x9_split_across: ThreeBf16<true>);

/// The entries as functions for the emulator.
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] = crate::parts::entries::emulated!(
    Limbs(LimbParams): bf16x6_f32, bf16x9_f32;
    SplitKMajor(SplitKMajorParams): bf16x9_split_rows;
    SplitMnMajor(SplitMnMajorParams): bf16x9_split_across;
);
