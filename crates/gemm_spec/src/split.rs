//! Splitting: f32 operands become limbs of 16 bits for the tensor cores.
//!
//! *Two limbs of f16.* A row of A (a column of B) is scaled by a power of two so that its largest
//! magnitude is in `[2^14, 2^15)`. Each element is then split: `high` is the element rounded to
//! f16, `low` the remainder rounded to f16. Three products, `high*low + low*high + high*high`,
//! replace one product of f32 numbers; what is dropped is below `2^-22` of it.
//!
//! *Three limbs of bf16*, which has the exponent range of f32, so nothing is scaled: three times
//! eight bits hold an f32 exactly. All nine products give the exact product; the three smallest add
//! up to less than `2^-23` of it. `docs/accuracy.md` has the bounds.
//!
//! A split operand has in global memory the layout that a block needs in shared memory, so that one
//! bulk copy loads a tile. It consists of panels of [`PANEL_ROWS`] rows, a panel of tiles of
//! [`BLOCK_K`] elements along k. With two limbs a tile has a row of 128 bytes for each row of the
//! panel (32 `high`, then 32 `low`) in the 128-byte swizzle; with three it has a plane for each
//! limb, with a row of 64 bytes for each row of the panel in the 64-byte swizzle. A "row" is a row
//! of A or a column of B.
//!
//! Source: Ootomo and Yokota 2022 for two limbs and for accumulation outside the tensor core;
//! Henry, Tang and Heinecke 2019 for three of bf16.

use crate::warpgroup::{HALF_ROW_BYTES, ROW_BYTES, swizzle_64b, swizzle_128b};

/// Rows of a panel, and of a block's tile.
pub const PANEL_ROWS: u32 = 128;

/// Elements of a tile along k: a k-block.
pub const BLOCK_K: u32 = 32;

/// Bytes of one of the three limbs of a tile.
pub const PLANE_BYTES: u32 = PANEL_ROWS * HALF_ROW_BYTES;

/// What an operand is split into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limbs {
    /// Two of f16, of rows that are scaled.
    TwoF16,
    /// Three of bf16.
    ThreeBf16,
}

impl Limbs {
    /// Bytes of a tile.
    #[must_use]
    pub const fn tile_bytes(self) -> u32 {
        match self {
            Self::TwoF16 => PANEL_ROWS * ROW_BYTES,
            Self::ThreeBf16 => 3 * PLANE_BYTES,
        }
    }
}

/// Least k for which the error stays within the bound of f32, whose k + 3 units of roundoff leave
/// room for the seven that splitting may cost.
pub const LEAST_K: usize = 16;

/// Largest k: the helpers' grids have a row of blocks for each tile.
pub const MOST_K: usize = 65_535 * BLOCK_K as usize;

/// Elements along k of a block of the helper that finds the largest magnitudes.
pub const AMAX_BLOCK_K: u32 = 64;

/// Elements that one thread splits at a time: 16 bytes of each limb.
pub const OCTET: u32 = 8;

/// The exponent to which a row's largest magnitude is scaled.
const TOP: i32 = 14;

/// Range flag: an operand has a NaN or an infinity.
pub const NON_FINITE: u32 = 1;

/// Range flag: an operand has elements that its limbs cannot represent. With two limbs, more than
/// half of a row is below [`UNDERFLOW`], or the probe has found an element of C that
/// [`loses_precision`]; with three, an element is outside [`MIN_MAGNITUDE`] to [`MAGNITUDE_LIMIT`].
pub const OUT_OF_RANGE: u32 = 2;

/// Range flags that cause the operands themselves to be multiplied, by limbs of bf16 of scaled rows.
pub const FALL_BACK: u32 = NON_FINITE | OUT_OF_RANGE;

/// In place of range flags: what does not depend on them.
pub const ALWAYS: u32 = 0;

/// Rows of a block of the helper that finds by how much they are scaled.
pub const EXPONENT_ROWS: u32 = 32;

/// Two limbs hold fewer than eleven bits of a scaled magnitude below this, 2^-28 of its row's
/// largest.
pub const UNDERFLOW: f32 = power_of_two(-14);

/// Two limbs hold fewer than 22 bits of a scaled magnitude below this: up to 2^-25 is lost.
pub const FULL_PRECISION: f32 = power_of_two(-3);

/// Blocks of the probe, each of which examines [`PROBE_COLUMNS`] elements of one row of C.
pub const PROBE_BLOCKS: u32 = 128;

/// Neighbouring elements of C that a block of the probe examines.
pub const PROBE_COLUMNS: u32 = 8;

/// Whether limbs lose so much of an element of C that little is left of the error bound of f32, k
/// units of roundoff of |A||B|: more than half of it. `size` is the sum over k of the products of
/// the scaled magnitudes, `meets` the sum of the magnitudes whose other operand is below
/// [`FULL_PRECISION`].
#[inline(always)]
#[must_use]
pub const fn loses_precision(size: f32, meets: f32, k: u32) -> bool {
    // 2^-25 for each such magnitude, against k units of 2^-24.
    meets > k as f32 * size
}

/// The row and the first column of C that block `block` of the probe examines: spread over C, and
/// no two blocks in one row or strip of columns where C has enough of them.
#[inline(always)]
#[must_use]
pub const fn probed(block: u32, m: u32, n: u32) -> (u32, u32) {
    // An odd number of strips apart, modulo the blocks, so that the positions form no diagonal.
    let strip = block * 37 % PROBE_BLOCKS;
    (spread(block, m), spread(strip, n.div_ceil(PROBE_COLUMNS)) * PROBE_COLUMNS)
}

/// The middle of part `part` of [`PROBE_BLOCKS`] parts of `count`.
#[expect(clippy::cast_possible_truncation, reason = "less than `count`")]
const fn spread(part: u32, count: u32) -> u32 {
    ((2 * part as u64 + 1) * count as u64 / (2 * PROBE_BLOCKS as u64)) as u32
}

/// The least nonzero magnitude that three limbs hold exactly, with room for products.
pub const MIN_MAGNITUDE: f32 = power_of_two(-100);

/// Magnitudes from here on might be rounded to infinity.
pub const MAGNITUDE_LIMIT: f32 = power_of_two(127);

/// One of the two limbs of f16.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limb {
    /// The element rounded to f16.
    High,
    /// The remainder, rounded to f16.
    Low,
}

/// The power of two that scales a row whose largest magnitude has these bits: zero for a row of
/// zeros, arbitrary for infinities and NaNs, whose products take the fallback.
#[inline(always)]
#[must_use]
pub const fn scale_exponent(max_bits: u32) -> i32 {
    let biased = (max_bits >> 23) as i32;
    if max_bits == 0 {
        0
    } else if biased > 0 {
        TOP - (biased - 127)
    } else {
        // Subnormal: the position of the leading bit above 2^-149.
        TOP - (31 - max_bits.leading_zeros() as i32 - 149)
    }
}

/// `2^exponent` for exponents of normal numbers, -126 to 127.
#[inline(always)]
#[must_use]
pub const fn power_of_two(exponent: i32) -> f32 {
    f32::from_bits(((exponent + 127) as u32) << 23)
}

/// Two factors whose product is `2^exponent`, for any exponent that [`scale_exponent`] returns: up
/// to 163, which one f32 cannot represent.
#[inline(always)]
#[must_use]
pub const fn scale_factors(exponent: i32) -> (f32, f32) {
    let first = if exponent > 100 { 100 } else { exponent };
    (power_of_two(first), power_of_two(exponent - first))
}

/// `value * 2^-exponent`, where `exponent` is the sum of a row's and a column's scale. Overflow and
/// underflow occur only where the result itself is out of the range of f32.
#[inline(always)]
#[must_use]
pub const fn unscaled(value: f32, exponent: i32) -> f32 {
    let exponent = -exponent;
    let first = clamp(exponent);
    value * power_of_two(first) * power_of_two(clamp(exponent - first))
}

/// By how much more than [`scale_exponent`] says a row is scaled that is split into three limbs of bf16: so that the
/// largest magnitudes of rows leave room for sums of 2^21 products, and small ones for theirs.
const LIFT: i32 = 36;

/// The exponent by which a row is scaled that is split into three limbs of bf16, from its [`scale_exponent`]. The power
/// of two and its inverse are f32. A row that is scaled by less than another has no elements that are too small.
#[inline(always)]
#[must_use]
pub const fn lifted(exponent: i32) -> i32 {
    if exponent > 126 - LIFT { 126 } else { exponent + LIFT }
}

/// The least nonzero magnitude in a row that is scaled by [`lifted`]: products of two have all of their limbs.
pub const LEAST_LIFTED: f32 = power_of_two(-51);

const fn clamp(exponent: i32) -> i32 {
    if exponent < -126 {
        -126
    } else if exponent > 127 {
        127
    } else {
        exponent
    }
}

/// Tiles along k.
#[inline(always)]
#[must_use]
pub const fn tiles(k: u32) -> u32 {
    k.div_ceil(BLOCK_K)
}

/// Byte offset, in a split operand, of the 16 bytes that hold one limb of octet `octet` (the eight
/// elements from `8 * octet` on along k) of row `row`; `k_tiles` is [`tiles`] of the operand.
#[inline(always)]
#[must_use]
pub const fn f16_limb_offset(row: u32, octet: u32, limb: Limb, k_tiles: u32) -> u64 {
    const PER_TILE: u32 = BLOCK_K / OCTET;
    let tile = (row / PANEL_ROWS) as u64 * k_tiles as u64 + (octet / PER_TILE) as u64;
    let half = match limb {
        Limb::High => 0,
        Limb::Low => PER_TILE,
    };
    let within = row % PANEL_ROWS * ROW_BYTES + (half + octet % PER_TILE) * 16;
    tile * Limbs::TwoF16.tile_bytes() as u64 + swizzle_128b(within) as u64
}

/// [`f16_limb_offset`] for limb `limb` of three, of which 0 is the largest.
#[inline(always)]
#[must_use]
pub const fn bf16_limb_offset(row: u32, octet: u32, limb: u32, k_tiles: u32) -> u64 {
    const PER_TILE: u32 = BLOCK_K / OCTET;
    let tile = (row / PANEL_ROWS) as u64 * k_tiles as u64 + (octet / PER_TILE) as u64;
    let within = row % PANEL_ROWS * HALF_ROW_BYTES + octet % PER_TILE * 16;
    let plane = limb * PLANE_BYTES + swizzle_64b(within);
    tile * Limbs::ThreeBf16.tile_bytes() as u64 + plane as u64
}

/// The buffer with everything that a product needs besides its operands: offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Limbs of A.
    pub a: u64,
    /// Limbs of B.
    pub b: u64,
    /// Scale exponents of the rows of A, i32.
    pub a_exponents: u64,
    /// Scale exponents of the columns of B, i32.
    pub b_exponents: u64,
    /// The region to zero before a product: the range flags, one u32; then for the rows of A their
    /// largest magnitudes as bits, where A is not K-major, and the counts of elements below
    /// [`UNDERFLOW`]; then the same for the columns of B; u32 each.
    pub zeroed: u64,
    /// Bytes to zero.
    pub zeroed_bytes: u64,
    /// Size of the buffer in bytes.
    pub bytes: u64,
}

impl Workspace {
    /// The workspace of an m x n x k product.
    #[must_use]
    pub const fn new(limbs: Limbs, m: u32, n: u32, k: u32) -> Self {
        let a = 0;
        let b = a + operand_bytes(limbs, m, k);
        let a_exponents = b + operand_bytes(limbs, n, k);
        let b_exponents = a_exponents + aligned(m as u64 * 4);
        let zeroed = b_exponents + aligned(n as u64 * 4);
        let zeroed_bytes = Self::FLAG_BYTES + (m as u64 + n as u64) * 8;
        Self {
            a,
            b,
            a_exponents,
            b_exponents,
            zeroed,
            zeroed_bytes,
            bytes: zeroed + aligned(zeroed_bytes),
        }
    }

    /// Bytes of the flags, padded to align the magnitudes after them.
    const FLAG_BYTES: u64 = 16;

    /// Offset of the largest magnitudes of the rows of A, followed by their underflow counts.
    #[must_use]
    pub const fn a_row_amax(&self) -> u64 {
        self.zeroed + Self::FLAG_BYTES
    }

    /// Offset of the underflow counts of the rows of A.
    #[must_use]
    pub const fn a_underflows(&self, m: u32) -> u64 {
        self.a_row_amax() + m as u64 * 4
    }

    /// Offset of the largest magnitudes of the columns of B.
    #[must_use]
    pub const fn b_row_amax(&self, m: u32) -> u64 {
        self.a_underflows(m) + m as u64 * 4
    }

    /// Offset of the underflow counts of the columns of B.
    #[must_use]
    pub const fn b_underflows(&self, m: u32, n: u32) -> u64 {
        self.b_row_amax(m) + n as u64 * 4
    }
}

/// Most bytes of the workspace of a product of limbs, but for one whose [`Panel::LEAST`] takes more.
pub const MOST_BYTES: u64 = 4 << 30;

/// The rows of A and the columns of B whose limbs are in the workspace at the same time. A product that has more of
/// them is computed panel by panel: A is split again for each panel of columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panel {
    /// Rows of A.
    pub rows: u32,
    /// Columns of B.
    pub columns: u32,
}

impl Panel {
    /// Fewer would leave SMs idle, and have A split too often.
    pub const LEAST: Self = Self { rows: 2048, columns: 4096 };

    /// Of what rows and columns of a panel are multiples, where there are several: whole tiles.
    const UNIT: u32 = 256;

    /// The panel of an m x n x k product whose workspace has that many bytes at most, or the least. All are of about the
    /// same size. A factor that is kept elsewhere has no rows here.
    #[must_use]
    pub const fn within(limbs: Limbs, (m, n, k): (u32, u32, u32), most: u64) -> Self {
        if Workspace::new(limbs, m, n, k).bytes <= most {
            return Self { rows: m, columns: n };
        }
        let of_rows = Workspace::new(limbs, Self::UNIT, 0, k).bytes;
        let (rows, columns) = (m.div_ceil(Self::UNIT) as u64, n.div_ceil(Self::UNIT) as u64);
        let least_rows = (Self::LEAST.rows / Self::UNIT) as u64;
        let least_columns = (Self::LEAST.columns / Self::UNIT) as u64;
        let units = max(most / of_rows, min(rows, least_rows) + min(columns, least_columns));
        // Three of four are columns of B, which are split once; what one side does not need is the other's.
        let quarter = max(units / 4, least_rows);
        let of_a = if rows < quarter {
            rows
        } else if columns + quarter < units {
            units - columns
        } else {
            quarter
        };
        Self { rows: Self::share(m, of_a), columns: Self::share(n, units - of_a) }
    }

    /// Of `all` as many as `units` hold, in parts of about one size.
    #[expect(clippy::cast_possible_truncation, reason = "less than `all` and a unit")]
    const fn share(all: u32, units: u64) -> u32 {
        let held = units * Self::UNIT as u64;
        if all as u64 <= held {
            return all;
        }
        let parts = (all as u64).div_ceil(held);
        // Whole units, of which there are no more than before.
        (all as u64).div_ceil(parts).next_multiple_of(Self::UNIT as u64) as u32
    }
}

/// The larger of two numbers, in a constant.
const fn max(x: u64, y: u64) -> u64 {
    if x < y { y } else { x }
}

/// The smaller of two numbers, in a constant.
const fn min(x: u64, y: u64) -> u64 {
    if x < y { x } else { y }
}

/// Bytes of a split operand of `rows` rows.
const fn operand_bytes(limbs: Limbs, rows: u32, k: u32) -> u64 {
    rows.div_ceil(PANEL_ROWS) as u64 * tiles(k) as u64 * limbs.tile_bytes() as u64
}

const fn aligned(bytes: u64) -> u64 {
    bytes.next_multiple_of(256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_scaled_below_two_to_the_fifteenth() {
        let mut magnitudes: Vec<f32> =
            vec![1.0, 1.5, 3.0, f32::MAX, f32::MIN_POSITIVE, 6e-39, 1e-45];
        magnitudes.extend((-126..=127).map(power_of_two));
        for max in magnitudes {
            let exponent = scale_exponent(max.to_bits());
            assert!((-113..=163).contains(&exponent), "{max:e}: {exponent}");
            let (first, second) = scale_factors(exponent);
            let scaled = max * first * second;
            assert!((16384.0..32768.0).contains(&scaled), "{max:e}: {scaled}");
            assert_eq!(f64::from(first) * f64::from(second), 2f64.powi(exponent));
        }
        assert_eq!(scale_exponent(0), 0);
    }

    #[test]
    fn lifted_rows_have_room_for_sums_and_for_products() {
        for bits in [0, 1, 0x80_0000, 0x3f80_0000, f32::MAX.to_bits()] {
            let exponent = lifted(scale_exponent(bits));
            assert!((-126..=126).contains(&exponent), "{bits:x}: {exponent}");
            let largest = f64::from(f32::from_bits(bits)) * 2f64.powi(exponent);
            assert!(largest < 2f64.powi(51), "{bits:x}: {largest:e}");
            // A row that is scaled by less holds the smallest number there is.
            let smallest = f64::from(f32::from_bits(1)) * 2f64.powi(exponent);
            assert!(exponent != 126 || smallest >= f64::from(LEAST_LIFTED));
        }
        assert!(2f64.powi(2 * 51) * MOST_K as f64 <= f64::from(f32::MAX));
        let limb = 2f64.powi(-24);
        assert!(f64::from(LEAST_LIFTED).powi(2) * limb >= f64::from(f32::MIN_POSITIVE));
    }

    #[test]
    fn unscaling_undoes_scaling_wherever_the_result_is_an_f32() {
        for (value, exponent) in
            [(3.0f32, 5), (1.5, 300), (1.5, -220), (1e-30, -226), (16384.0, 28), (2.5e8, 160)]
        {
            #[expect(clippy::cast_possible_truncation, reason = "rounded, as `unscaled` does")]
            let expected = (f64::from(value) * 2f64.powi(-exponent)) as f32;
            assert_eq!(unscaled(value, exponent), expected, "{value:e} {exponent}");
        }
    }

    #[test]
    fn every_octet_of_both_pieces_has_sixteen_bytes_of_its_own() {
        let (rows, k) = (300, 100);
        let k_tiles = tiles(k);
        assert_eq!(k_tiles, 4);
        let bytes = Workspace::new(Limbs::TwoF16, rows, 1, k).b;
        let mut seen = vec![false; (bytes / 16) as usize];
        for row in 0..rows.next_multiple_of(PANEL_ROWS) {
            for octet in 0..k_tiles * BLOCK_K / OCTET {
                for limb in [Limb::High, Limb::Low] {
                    let at = f16_limb_offset(row, octet, limb, k_tiles);
                    assert_eq!(at % 16, 0);
                    let seen = &mut seen[(at / 16) as usize];
                    assert!(!*seen, "row {row}, octet {octet}");
                    *seen = true;
                }
            }
        }
        assert!(seen.iter().all(|&seen| seen));
    }

    #[test]
    fn every_octet_of_three_limbs_has_sixteen_bytes_of_its_own_in_its_plane() {
        let (rows, k) = (300, 100);
        let k_tiles = tiles(k);
        let tile_bytes = u64::from(Limbs::ThreeBf16.tile_bytes());
        let bytes = Workspace::new(Limbs::ThreeBf16, rows, 1, k).b;
        let mut seen = vec![false; (bytes / 16) as usize];
        for row in 0..rows.next_multiple_of(PANEL_ROWS) {
            for octet in 0..k_tiles * BLOCK_K / OCTET {
                for limb in 0..3 {
                    let at = bf16_limb_offset(row, octet, limb, k_tiles);
                    let tile = row / PANEL_ROWS * k_tiles + octet / 4;
                    assert_eq!(at / tile_bytes, u64::from(tile));
                    assert_eq!(at % tile_bytes / u64::from(PLANE_BYTES), u64::from(limb));
                    let seen = &mut seen[(at / 16) as usize];
                    assert!(!*seen && at.is_multiple_of(16), "row {row}, octet {octet}");
                    *seen = true;
                }
            }
        }
        assert!(seen.iter().all(|&seen| seen));
    }

    /// What a block finds in shared memory after the copy matches the instruction's descriptor.
    #[test]
    fn a_tile_is_k_major_with_low_64_bytes_behind_high() {
        let k_tiles = 3;
        for row in 0..PANEL_ROWS {
            for octet in 0..4 {
                let tile = f16_limb_offset(PANEL_ROWS, 4, Limb::High, k_tiles)
                    / u64::from(Limbs::TwoF16.tile_bytes());
                assert_eq!(tile, u64::from(k_tiles) + 1);
                let high = f16_limb_offset(row, octet, Limb::High, k_tiles);
                let low = f16_limb_offset(row, octet, Limb::Low, k_tiles);
                assert_eq!(high, swizzle_128b(row * ROW_BYTES + octet * 16).into());
                assert_eq!(low, swizzle_128b(row * ROW_BYTES + 64 + octet * 16).into());
            }
        }
    }

    #[test]
    fn panels_keep_to_the_bytes_and_have_about_one_size() {
        for limbs in [Limbs::TwoF16, Limbs::ThreeBf16] {
            for (m, n, k) in [
                (100_000, 100_000, 100_000),
                (45_000, 45_000, 45_000),
                (1_000_000, 1000, 20_000),
                (1000, 1_000_000, 20_000),
                (0, 300_000, 50_000),
                (70_001, 0, 60_000),
            ] {
                let whole = Workspace::new(limbs, m, n, k).bytes;
                for most in [1 << 31, 1 << 32, MOST_BYTES, 1 << 36] {
                    let Panel { rows, columns } = Panel::within(limbs, (m, n, k), most);
                    let bytes = Workspace::new(limbs, rows, columns, k).bytes;
                    let least = Workspace::new(limbs, m.min(2048), n.min(4096), k).bytes;
                    assert!(bytes <= most.max(least), "{m} {n} {k}: {rows} x {columns}");
                    assert_eq!((rows, columns) == (m, n), whole <= most, "{rows} x {columns}");
                    for (part, all) in [(rows, m), (columns, n)] {
                        assert!(part == all || part % 256 == 0 && part < all);
                        // The last one has nearly as many.
                        let last = all - (all.max(1) - 1) / part.max(1) * part;
                        let parts = all.div_ceil(part.max(1));
                        assert!(part - last <= 256 * parts, "{part} and {last} of {all}");
                    }
                }
            }
        }
        // Two gigabytes hold the columns, so that no row is split twice.
        let panel = Panel::within(Limbs::TwoF16, (1_000_000, 1000, 20_000), 1 << 31);
        assert_eq!(panel.columns, 1000);
    }

    #[test]
    fn probed_positions_are_in_c_and_apart() {
        for (m, n) in [(1, 1), (7, 130), (128, 1024), (4096, 4096), (20_000_000, 9)] {
            let places: Vec<_> = (0..PROBE_BLOCKS).map(|block| probed(block, m, n)).collect();
            assert!(places.iter().all(|&(row, col)| row < m && col < n && col.is_multiple_of(8)));
            let different = |of: fn(&(u32, u32)) -> u32| {
                places.iter().map(of).collect::<std::collections::HashSet<_>>().len()
            };
            assert_eq!(different(|place| place.0), m.min(PROBE_BLOCKS) as usize);
            let strips = n.div_ceil(PROBE_COLUMNS);
            assert_eq!(different(|place| place.1), strips.min(PROBE_BLOCKS) as usize);
        }
    }

    #[test]
    fn like_magnitudes_keep_their_precision_and_opposite_ones_lose_it() {
        // A scaled row whose elements halve from one to the next, and a column that decreases or
        // increases.
        let row: Vec<f32> = (0..40).map(|step| power_of_two(14 - step)).collect();
        let loses_precision = |column: &[f32]| {
            let meets = |x: f32, y: f32| if x < FULL_PRECISION { y } else { 0.0 };
            let pairs = row.iter().zip(column);
            let totals = pairs.fold((0.0, 0.0), |(size, meeting), (&x, &y)| {
                (size + x * y, meeting + meets(x, y) + meets(y, x))
            });
            loses_precision(totals.0, totals.1, 40)
        };
        let mut column = row.clone();
        assert!(!loses_precision(&column));
        column.reverse();
        assert!(loses_precision(&column));
    }

    #[test]
    fn the_workspace_has_room_for_all_of_it() {
        for (m, n, k) in [(1, 1, 1), (128, 128, 32), (129, 127, 33), (4096, 10, 1000)] {
            let work = Workspace::new(Limbs::TwoF16, m, n, k);
            let operand = |rows: u32| u64::from(rows.div_ceil(128) * 128 * k.div_ceil(32) * 32) * 4;
            assert_eq!(work.b - work.a, operand(m));
            assert_eq!(work.a_exponents - work.b, operand(n));
            assert!(work.b_exponents - work.a_exponents >= u64::from(m) * 4);
            assert!(work.zeroed - work.b_exponents >= u64::from(n) * 4);
            assert_eq!(work.b_row_amax(m) - work.a_row_amax(), u64::from(m) * 8);
            assert!(work.b_underflows(m, n) + u64::from(n) * 4 <= work.zeroed + work.zeroed_bytes);
            let three = Workspace::new(Limbs::ThreeBf16, m, n, k);
            assert_eq!(2 * three.a_exponents, 3 * work.a_exponents);
            assert!(work.zeroed + work.zeroed_bytes <= work.bytes);
            for at in [work.b, work.a_exponents, work.b_exponents, work.zeroed, work.a_row_amax()] {
                assert_eq!(at % 16, 0);
            }
        }
        // Four bytes an element, like the operand itself.
        let limbs = Limbs::TwoF16;
        assert!(Workspace::new(limbs, 8192, 8192, 8192).bytes < 2 * 8192 * 8192 * 4 + (1 << 20));
    }
}
