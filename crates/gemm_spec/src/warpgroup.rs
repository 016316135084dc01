//! How a warpgroup's matrix instruction (`wgmma`, Hopper) sees shared memory and registers.
//!
//! Three pure maps that a kernel, its tests and a reader share: [`swizzle_128b`] maps a byte of a
//! tile to shared memory, [`k_major_descriptor`] describes a tile to the instruction, and
//! [`accumulator_coord`] gives the element of the product that a thread's register holds.
//!
//! Source: PTX ISA 8.3, "Asynchronous warpgroup level matrix instructions".

/// Threads of a warpgroup: four consecutive warps, the first a multiple of four.
pub const THREADS: u32 = 128;

/// M of one instruction: rows of C.
pub const INSTRUCTION_M: u32 = 64;

/// K of one instruction on 16-bit elements.
pub const INSTRUCTION_K: u32 = 16;

/// Bytes of a row of a tile in the 128-byte swizzle: 64 elements of 16 bits.
pub const ROW_BYTES: u32 = 128;

/// Bytes of one period of the swizzle: eight rows. A tile begins at a multiple of it.
pub const SWIZZLE_BYTES: u32 = 8 * ROW_BYTES;

/// Descriptor units (16 bytes) from one [`INSTRUCTION_K`] to the next within a row of a K-major
/// tile.
pub const K_ADVANCE: u64 = (INSTRUCTION_K as u64 * 2) / 16;

/// The offset of byte `offset` of a tile: its 16-byte chunk is XORed within its row with the row's
/// number in its group of eight, so that eight rows of one column of chunks cover all banks.
#[inline(always)]
#[must_use]
pub const fn swizzle_128b(offset: u32) -> u32 {
    offset ^ ((offset >> 3) & 0x70)
}

/// Bytes of a row of a tile in the 64-byte swizzle: 32 elements of 16 bits.
pub const HALF_ROW_BYTES: u32 = 64;

/// [`swizzle_128b`] for rows of [`HALF_ROW_BYTES`]: a 16-byte chunk is XORed within its row with
/// the number of its pair of rows in their group of eight.
#[inline(always)]
#[must_use]
pub const fn swizzle_64b(offset: u32) -> u32 {
    offset ^ ((offset >> 3) & 0x30)
}

/// [`k_major_descriptor`] for rows of [`HALF_ROW_BYTES`] with the 64-byte swizzle. `address` is a
/// multiple of eight such rows.
#[inline(always)]
#[must_use]
pub const fn k_major_descriptor_64b(address: u32) -> u64 {
    const SWIZZLE_64: u64 = 2 << 62;
    units(address) | 1 << 16 | units(8 * HALF_ROW_BYTES) << 32 | SWIZZLE_64
}

/// The descriptor of a K-major tile at a shared-memory address: rows of [`ROW_BYTES`] with the
/// 128-byte swizzle, in consecutive groups of eight rows. `address` is a multiple of
/// [`SWIZZLE_BYTES`].
#[inline(always)]
#[must_use]
pub const fn k_major_descriptor(address: u32) -> u64 {
    const SWIZZLE_128: u64 = 1 << 62;
    // The leading byte offset is ignored here; the field conventionally holds one.
    units(address) | 1 << 16 | units(SWIZZLE_BYTES) << 32 | SWIZZLE_128
}

/// Descriptor units from one [`INSTRUCTION_K`] to the next in an MN-major tile: sixteen rows.
pub const K_ADVANCE_MN_MAJOR: u64 = (INSTRUCTION_K as u64 * ROW_BYTES as u64) / 16;

/// The descriptor of an MN-major tile: for each k element a row of [`ROW_BYTES`], 64 elements, with
/// the 128-byte swizzle; `apart` bytes from one such block of 64 to the next. `address` is a
/// multiple of [`SWIZZLE_BYTES`].
#[inline(always)]
#[must_use]
pub const fn mn_major_descriptor(address: u32, apart: u32) -> u64 {
    const SWIZZLE_128: u64 = 1 << 62;
    units(address) | units(apart) << 16 | units(SWIZZLE_BYTES) << 32 | SWIZZLE_128
}

/// An 18-bit shared-memory address or offset in units of 16 bytes.
const fn units(bytes: u32) -> u64 {
    ((bytes & 0x3_ffff) >> 4) as u64
}

/// Row and column, in the 64 x N product of an instruction, of accumulator `register` of thread
/// `thread` of the warpgroup.
#[inline(always)]
#[must_use]
pub const fn accumulator_coord(thread: u32, register: u32) -> (u32, u32) {
    let (warp, lane) = (thread / 32, thread % 32);
    let row = 16 * warp + lane / 4 + 8 * (register / 2 % 2);
    let col = 8 * (register / 4) + 2 * (lane % 4) + register % 2;
    (row, col)
}

/// The octet of columns that a thread stores in step `step` of four, in a row of [`ROW_BYTES`] in
/// the 128-byte swizzle that holds 32 accumulators: a thread holds two neighbours of each octet. If
/// it were the same in all rows, half of the rows that are stored together would share banks.
#[inline(always)]
#[must_use]
pub const fn octet_of_step(row: u32, step: u32) -> u32 {
    step ^ (row % 2 * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_swizzle_permutes_chunks_within_rows_and_spreads_columns_over_banks() {
        for row in 0..64u32 {
            let mut seen = [false; 8];
            for chunk in 0..8 {
                let at = swizzle_128b(row * ROW_BYTES + chunk * 16);
                assert_eq!(at / ROW_BYTES, row);
                assert_eq!(at % 16, 0);
                assert_eq!(at % ROW_BYTES / 16, chunk ^ (row % 8));
                seen[(at % ROW_BYTES / 16) as usize] = true;
                assert_eq!(swizzle_128b(row * ROW_BYTES + chunk * 16 + 7), at + 7);
            }
            assert!(seen.iter().all(|&seen| seen));
        }
        for chunk in 0..8 {
            let mut seen = [false; 8];
            for row in 0..8 {
                seen[(swizzle_128b(row * ROW_BYTES + chunk * 16) % ROW_BYTES / 16) as usize] = true;
            }
            assert!(seen.iter().all(|&seen| seen), "chunk {chunk}");
        }
    }

    #[test]
    fn the_swizzle_of_short_rows_spreads_columns_over_banks_too() {
        for chunk in 0..4 {
            let mut seen = [false; 8];
            for row in 0..64u32 {
                let at = swizzle_64b(row * HALF_ROW_BYTES + chunk * 16);
                assert_eq!(at / HALF_ROW_BYTES, row);
                assert_eq!(at % HALF_ROW_BYTES / 16, chunk ^ (row / 2 % 4));
                // Two rows fill the banks once.
                seen[(at % 128 / 16) as usize] |= row < 8;
            }
            assert!(seen.iter().all(|&seen| seen), "chunk {chunk}");
        }
        let descriptor = k_major_descriptor_64b(0x1_2400);
        assert_eq!(descriptor >> 62, 2);
        assert_eq!((descriptor & 0x3fff) << 4, 0x1_2400);
        assert_eq!((descriptor >> 32 & 0x3fff) << 4, 512);
    }

    #[test]
    fn registers_and_threads_cover_the_product_once() {
        for n in [8u32, 128, 256] {
            let mut seen = vec![false; (INSTRUCTION_M * n) as usize];
            for thread in 0..THREADS {
                for register in 0..n / 2 {
                    let (row, col) = accumulator_coord(thread, register);
                    let seen = &mut seen[(row * n + col) as usize];
                    assert!(!*seen, "({row}, {col}) twice");
                    *seen = true;
                }
            }
            assert!(seen.iter().all(|&seen| seen));
        }
        // The corners that the manual's figure shows.
        assert_eq!(accumulator_coord(0, 0), (0, 0));
        assert_eq!(accumulator_coord(1, 3), (8, 3));
        assert_eq!(accumulator_coord(127, 5), (55, 15));
    }

    #[test]
    fn descriptors_hold_address_strides_and_mode_in_their_fields() {
        let word = k_major_descriptor(0x2_3400);
        assert_eq!(word & 0x3fff, 0x2340);
        assert_eq!(word >> 16 & 0x3fff, 1);
        assert_eq!(word >> 32 & 0x3fff, 64);
        assert_eq!(word >> 49 & 7, 0);
        assert_eq!(word >> 62, 1);
        let mn_major = mn_major_descriptor(0x2_3400, 8192);
        assert_eq!(mn_major >> 16 & 0x3fff, 512);
        assert_eq!(mn_major ^ word, 512 << 16 ^ 1 << 16);
        assert_eq!(
            mn_major_descriptor(1024, 8192) + K_ADVANCE_MN_MAJOR,
            mn_major_descriptor(3072, 8192)
        );
        // 16 elements are 32 bytes.
        assert_eq!(k_major_descriptor(1024) + K_ADVANCE, k_major_descriptor(1024 + 32));
    }

    /// Every accumulator of a subtile of 64 rows and 32 columns has its own place, and the sixteen
    /// lanes whose eight bytes are stored at once access every bank once.
    #[test]
    fn accumulators_stored_by_octets_fill_the_subtile_and_cover_all_banks() {
        let mut filled = [[false; 32]; 64];
        for step in 0..4 {
            for half in 0..2 {
                for lanes in 0..THREADS / 16 {
                    let mut banks = [false; 32];
                    for thread in 16 * lanes..16 * (lanes + 1) {
                        let (row, col) = accumulator_coord(thread, 0);
                        let row = row + 8 * half;
                        let col = 8 * octet_of_step(row, step) + col;
                        let at = swizzle_128b(row * ROW_BYTES + 4 * col);
                        // The pair stays together in the swizzle.
                        assert_eq!(swizzle_128b(row * ROW_BYTES + 4 * (col + 1)), at + 4);
                        for (col, bank) in [(col, at / 4 % 32), (col + 1, at / 4 % 32 + 1)] {
                            assert!(!core::mem::replace(&mut banks[bank as usize], true));
                            let seen = &mut filled[row as usize][col as usize];
                            assert!(!core::mem::replace(seen, true), "({row}, {col})");
                        }
                    }
                }
            }
        }
        assert!(filled.iter().flatten().all(|&seen| seen));
    }
}
