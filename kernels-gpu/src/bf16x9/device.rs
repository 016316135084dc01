//! Three pieces of bf16, and the entries.

use cuda_std::arch::sm90::convert::{bf16_pair, bf16_value};
use cuda_std::arch::sm90::wgmma::{self, Descriptor};
use cuda_std::memory::SharedAddress;
use gemm_spec::split::{LEAST, LIMIT, NON_FINITE, PLANE_BYTES, Pieces, WIDE, octet_of_three_at};
use gemm_spec::warpgroup::{HALF_ROW_BYTES, INSTRUCTION_M, K_ADVANCE, k_major_descriptor_64b};

use super::STAGES;
use crate::parts::pipeline::Pipeline;
use crate::parts::quad::Quad;
use crate::pieces::cut::{Noticed, Row, cut_entries};
use crate::pieces::product::product_entry;
use crate::pieces::{Cut, stage_bytes};

/// Descriptor units from one piece to the next.
const PLANE: u64 = PLANE_BYTES as u64 / 16;

/// `ALL` says that no product is left out.
struct ThreeBf16<const ALL: bool>;

impl<const ALL: bool> Pipeline for ThreeBf16<ALL> {
    const STAGES: u32 = STAGES;
    const STAGE_BYTES: u32 = stage_bytes(Pieces::ThreeBf16);
}

impl<const ALL: bool> Cut for ThreeBf16<ALL> {
    const PIECES: Pieces = Pieces::ThreeBf16;

    #[inline(always)]
    unsafe fn store(row: &Row, octet: u32, values: [f32; 8]) -> Noticed {
        let mut flags = 0;
        let mut pair = |x: f32, y: f32| {
            let found = |x: f32| {
                let size = x.abs();
                if size < LIMIT {
                    if size < LEAST && size != 0.0 { WIDE } else { 0 }
                } else {
                    // Of a NaN, too: it is less than nothing.
                    if size < f32::INFINITY { WIDE } else { NON_FINITE }
                }
            };
            flags |= found(x) | found(y);
            let rest = |(x, y): (f32, f32), bits: u32| {
                (x - bf16_value(bits as u16), y - bf16_value((bits >> 16) as u16))
            };
            let first = bf16_pair(x, y);
            let (x, y) = rest((x, y), first);
            let second = bf16_pair(x, y);
            let (x, y) = rest((x, y), second);
            [first, second, bf16_pair(x, y)]
        };
        let [a, b, c, d, e, f, g, h] = values;
        let (p0, p1, p2, p3) = (pair(a, b), pair(c, d), pair(e, f), pair(g, h));
        let write = |piece: usize| {
            let at = octet_of_three_at(row.row, octet, piece as u32, row.k_tiles);
            let at = row.pieces.wrapping_add(at as usize).cast::<Quad<u32>>();
            // SAFETY: 16 bytes that `octet_of_three_at` gives to this piece of this octet alone.
            unsafe { at.write(Quad([p0[piece], p1[piece], p2[piece], p3[piece]])) };
        };
        write(0);
        write(1);
        write(2);
        Noticed { flags, lost: 0 }
    }

    #[inline(always)]
    unsafe fn multiply(
        sums: &mut wgmma::Accumulators<8>,
        a: SharedAddress<u8>,
        own: u32,
        b: SharedAddress<u8>,
    ) {
        let a = a.wrapping_add((own * INSTRUCTION_M * HALF_ROW_BYTES) as usize);
        let a = Descriptor::from_bits(k_major_descriptor_64b(a.get()));
        let b = Descriptor::from_bits(k_major_descriptor_64b(b.get()));
        let plus = |sums: &mut wgmma::Accumulators<8>, i: u64, j: u64| {
            let (a, b) = (a + i * PLANE, b + j * PLANE);
            // SAFETY: the caller's promise.
            unsafe {
                wgmma::m64n128k16_f32_bf16_bf16::<true, false, false>(sums, a, b);
                wgmma::m64n128k16_f32_bf16_bf16::<true, false, false>(
                    sums,
                    a + K_ADVANCE,
                    b + K_ADVANCE,
                );
            }
        };
        let begin = |sums: &mut wgmma::Accumulators<8>, i: u64, j: u64| {
            let (a, b) = (a + i * PLANE, b + j * PLANE);
            // SAFETY: the caller's promise.
            unsafe {
                wgmma::arrive_m64n128k16_f32_bf16_bf16::<false, false, false>(sums, a, b);
                wgmma::m64n128k16_f32_bf16_bf16::<true, false, false>(
                    sums,
                    a + K_ADVANCE,
                    b + K_ADVANCE,
                );
            }
        };
        if ALL {
            begin(sums, 2, 2);
            plus(sums, 2, 1);
            plus(sums, 1, 2);
            plus(sums, 2, 0);
        } else {
            begin(sums, 2, 0);
        }
        plus(sums, 0, 2);
        plus(sums, 1, 1);
        plus(sums, 1, 0);
        plus(sums, 0, 1);
        plus(sums, 0, 0);
    }
}

product_entry!(bf16x6_f32: ThreeBf16<false>);
product_entry!(bf16x9_f32: ThreeBf16<true>);
cut_entries!(bf16x9_split_rows, bf16x9_split_across: ThreeBf16<true>);
