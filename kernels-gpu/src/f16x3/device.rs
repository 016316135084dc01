//! Two limbs of f16, and the entries.

use cuda_std::arch::sm80::convert::{f16_pair, f16_value};
use cuda_std::arch::sm90::wgmma::{self, Descriptor};
use cuda_std::memory::SharedAddress;
use gemm_spec::split::{Limb, Limbs, UNDERFLOW, f16_limb_offset, scale_factors};
use gemm_spec::warpgroup::{INSTRUCTION_M, K_ADVANCE, ROW_BYTES, k_major_descriptor};

use super::STAGES;
use crate::limbs::product::product_entry;
use crate::limbs::split::{self, RangeReport, Row, split_entries};
use crate::limbs::{LimbSplit, stage_bytes};
use crate::parts::entries::entry;
use crate::parts::pipeline::Pipeline;
use crate::parts::quad::Quad;

/// Descriptor units from the high limbs of a row to its low ones: 64 bytes.
const LOW: u64 = 64 / 16;

struct TwoF16;

impl Pipeline for TwoF16 {
    const STAGES: u32 = STAGES;
    const STAGE_BYTES: u32 = stage_bytes(Limbs::TwoF16);
}

impl LimbSplit for TwoF16 {
    const LIMBS: Limbs = Limbs::TwoF16;

    #[inline(always)]
    unsafe fn split_octet(row: &Row, octet: u32, values: [f32; 8]) -> RangeReport {
        let (first, second) = scale_factors(row.exponent);
        let mut underflows = 0;
        let mut pair = |x: f32, y: f32| {
            let (x, y) = (x * first * second, y * first * second);
            let count_underflows = |x: f32| u32::from(x.abs() < UNDERFLOW && x != 0.0);
            underflows += count_underflows(x) + count_underflows(y);
            let high = f16_pair(x, y);
            let rest = |x: f32, bits: u32| x - f16_value(bits as u16);
            (high, f16_pair(rest(x, high), rest(y, high >> 16)))
        };
        let [a, b, c, d, e, f, g, h] = values;
        let (p0, p1, p2, p3) = (pair(a, b), pair(c, d), pair(e, f), pair(g, h));
        let at = |limb| {
            let at = f16_limb_offset(row.row, octet, limb, row.k_tiles);
            row.limbs.wrapping_add(at as usize).cast::<Quad<u32>>()
        };
        // SAFETY: 16 bytes that `f16_limb_offset` gives to this octet's high limb alone.
        unsafe { at(Limb::High).write(Quad([p0.0, p1.0, p2.0, p3.0])) };
        // SAFETY: 16 others, of its low limb.
        unsafe { at(Limb::Low).write(Quad([p0.1, p1.1, p2.1, p3.1])) };
        RangeReport { flags: 0, underflows }
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
        let a = a.wrapping_add((consumer_idx * INSTRUCTION_M * ROW_BYTES) as usize);
        let a = Descriptor::from_bits(k_major_descriptor(a.get()));
        let b = Descriptor::from_bits(k_major_descriptor(b.get()));
        // SAFETY: the whole warpgroup is here; the stage is full, and unchanged until a wait.
        unsafe {
            wgmma::arrive_m64n128k16_f32_f16_f16::<false, false, false>(acc, a, b + LOW);
            wgmma::m64n128k16_f32_f16_f16::<true, false, false>(
                acc,
                a + K_ADVANCE,
                b + LOW + K_ADVANCE,
            );
            wgmma::m64n128k16_f32_f16_f16::<true, false, false>(acc, a + LOW, b);
            wgmma::m64n128k16_f32_f16_f16::<true, false, false>(
                acc,
                a + LOW + K_ADVANCE,
                b + K_ADVANCE,
            );
            wgmma::m64n128k16_f32_f16_f16::<true, false, false>(acc, a, b);
            wgmma::m64n128k16_f32_f16_f16::<true, false, false>(acc, a + K_ADVANCE, b + K_ADVANCE);
        }
    }
}

product_entry!(f16x3_f32: TwoF16);
split_entries!(f16x3_split_rows, f16x3_split_across: TwoF16);

entry! {
    /// # Safety
    /// 1. `from` is valid for k lines of `rows` elements at `ld`, `row_amax` for `rows` words that were
    ///    zero.
    /// 2. The grid has a block for each 128 rows along x and for each 64 k elements along y; a block
    ///    has 256 threads and the shared memory of the kernel's spec.
    pub unsafe fn f16x3_maxima(params: RowAmaxParams) {
        // SAFETY: the obligations are the same.
        unsafe { split::row_amax(params) };
    }
}

/// The entries as functions for the emulator.
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] = crate::parts::entries::emulated!(
    Limbs(LimbParams): f16x3_f32;
    SplitKMajor(SplitKMajorParams): f16x3_split_rows;
    SplitMnMajor(SplitMnMajorParams): f16x3_split_across;
    RowAmax(RowAmaxParams): f16x3_maxima;
);
