//! Two pieces of f16, and the entries.

use cuda_std::arch::sm90::convert::{f16_pair, f16_value};
use cuda_std::arch::sm90::wgmma;
use gemm_spec::split::{LOST, Piece, Pieces, octet_at, scale_factors};
use gemm_spec::warpgroup::{ROW_BYTES, ROWS, STEP_UNITS, descriptor};

use super::STAGES;
use crate::parts::quad::Quad;
use crate::parts::ring::Ring;
use crate::pieces::cut::{self, Noticed, Row, cut_entries};
use crate::pieces::product::product_entry;
use crate::pieces::{Cut, stage_bytes};

/// Descriptor units from a row's high pieces to its low ones: 64 bytes.
const LOW: u64 = 64 / 16;

struct TwoF16;

impl Ring for TwoF16 {
    const STAGES: u32 = STAGES;
    const STAGE_BYTES: u32 = stage_bytes(Pieces::TwoF16);
}

impl Cut for TwoF16 {
    const PIECES: Pieces = Pieces::TwoF16;

    #[inline(always)]
    unsafe fn store(row: &Row, octet: u32, values: [f32; 8]) -> Noticed {
        let (first, second) = scale_factors(row.exponent);
        let mut lost = 0;
        let mut pair = |x: f32, y: f32| {
            let (x, y) = (x * first * second, y * first * second);
            let lose = |x: f32| u32::from(x.abs() < LOST && x != 0.0);
            lost += lose(x) + lose(y);
            let high = f16_pair(x, y);
            let rest = |x: f32, bits: u32| x - f16_value(bits as u16);
            (high, f16_pair(rest(x, high), rest(y, high >> 16)))
        };
        let [a, b, c, d, e, f, g, h] = values;
        let (p0, p1, p2, p3) = (pair(a, b), pair(c, d), pair(e, f), pair(g, h));
        let at = |piece| {
            let at = octet_at(row.row, octet, piece, row.k_tiles);
            row.pieces.wrapping_add(at as usize).cast::<Quad<u32>>()
        };
        // SAFETY: 16 bytes each that `octet_at` gives to this octet alone.
        unsafe {
            at(Piece::High).write(Quad([p0.0, p1.0, p2.0, p3.0]));
            at(Piece::Low).write(Quad([p0.1, p1.1, p2.1, p3.1]));
        }
        Noticed { flags: 0, lost }
    }

    #[inline(always)]
    unsafe fn multiply(sums: &mut wgmma::Sums<8>, a: u32, own: u32, b: u32) {
        let (a, b) = (descriptor(a + own * ROWS * ROW_BYTES), descriptor(b));
        // SAFETY: the caller's promise.
        unsafe {
            wgmma::fenced_f16_n128::<false, false, false>(sums, a, b + LOW);
            wgmma::f16_n128::<true, false, false>(sums, a + STEP_UNITS, b + LOW + STEP_UNITS);
            wgmma::f16_n128::<true, false, false>(sums, a + LOW, b);
            wgmma::f16_n128::<true, false, false>(sums, a + LOW + STEP_UNITS, b + STEP_UNITS);
            wgmma::f16_n128::<true, false, false>(sums, a, b);
            wgmma::f16_n128::<true, false, false>(sums, a + STEP_UNITS, b + STEP_UNITS);
        }
    }
}

product_entry!(f16x3_f32: TwoF16);
cut_entries!(f16x3_split_rows, f16x3_split_across: TwoF16);

/// # Safety
/// 1. `from` is valid for k lines of `rows` elements at `ld`, `maxima` for `rows` words that were
///    zero.
/// 2. The grid has a block for each 128 rows along x and for each 64 steps of k along y; a block has
///    256 threads and the shared memory of the kernel's spec.
#[cuda_std::kernel]
#[expect(unreachable_pub, reason = "an entry is reached through its symbol")]
pub unsafe fn f16x3_maxima(rows: u32, k: u32, from: *const f32, ld: u64, maxima: *mut u32) {
    // SAFETY: the obligations are the same.
    unsafe { cut::maxima(rows, k, from, ld, maxima) };
}
