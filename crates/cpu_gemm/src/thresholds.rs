//! Which products take which path: every number that is chosen and not derived.
//!
//! Measured with f32 and AVX-512 on one core of an Ice Lake Xeon (48 KiB and 1.25 MiB of cache), each
//! candidate and the one before it by turns in processes of their own, by the least CPU time of several
//! turns; what was not measured says so. No result depends on any of them.

/// Products of at most that many multiply-adds are not packed ahead: 128 x 128 x 128. All operands lie
/// in the second-level cache, where a tile reads them about as fast as from panels.
pub(crate) const SMALL: usize = 1 << 21;

/// Elements from the first to the last of each operand up to which one thread alone, which need not share the
/// work, packs nothing ahead either: 384 x 384. The copy of A is the larger part of what such a product costs
/// beyond its multiply-adds. f32, with tiles from A as it lies against packed blocks, by turns: on a Zen 5 EPYC 144
/// cubed 1.11x, 256 1.05x, 384 1.03x, 512 1.01x; on an Emerald Rapids Xeon 1.20x, 1.02x, 1.02x, and 512 0.89x.
pub(crate) const SMALL_ALONE: usize = 384 * 384;

/// C is thin where it has at most that many times a tile's columns, rows of A being contiguous: each
/// element of A then meets too few columns to pay for a copy. With a copy, 16 columns of 4096 x 4096
/// took a quarter longer, 32 as long.
pub(crate) const THIN_PANELS: usize = 2;

/// The same where A must be transposed on its way: at 64 columns larger blocks paid; the sizes between
/// were not measured.
pub(crate) const THIN_TURNED_PANELS: usize = 1;

/// Steps of k that a C of one column is swept for before the next. Its tiles are tall: long pieces of each
/// column of A, one column after the other. f32, with tiles of 24 registers: on a Zen 5 EPYC 4096 by 4096
/// gained 1.24x over 8 steps with 64, 1.31x with 128 and 1.36x with all; on an Emerald Rapids Xeon 64 steps
/// were 1.02x of all.
pub(crate) const SINGLE_STEPS: usize = 64;

/// Columns of A by which such a tile asks ahead: the processor's own prefetcher ends with each page. On the
/// EPYC and the Xeon 2 were best, one or four a few per cent slower.
pub(crate) const SINGLE_COLUMNS_AHEAD: usize = 2;

/// Steps of k that a thin C is swept for before the next, where it is one tile wide. A's columns are
/// then read side by side, no more at once than the processor's prefetcher follows.
pub(crate) const NARROW_STEPS: usize = 32;

/// The same where it is wider: a slab of A must be met by several tiles before it is gone from the
/// first-level cache, and sums are loaded and stored once a slab.
pub(crate) const WIDE_STEPS: usize = 128;

/// Bytes of a panel of A that is packed where it is used: half of a first-level cache, so that the next
/// panel's lines do not push it out.
pub(crate) const PANEL_BYTES: usize = 24 << 10;

/// How far ahead of a tile its rows of A are asked for, in tiles, where A lies as it is: the columns of
/// a large A are pages apart, and the processor's own prefetcher begins anew with each.
pub(crate) const TILES_AHEAD: usize = 2;

/// Multiply-adds for each thread beyond the first: less is done before the thread has woken.
pub(crate) const WORK_PER_THREAD: usize = 1 << 20;

/// Parts of a thin or small product for each thread, where there are rows or columns enough: a thread
/// that begins late takes fewer. Not measured.
pub(crate) const PARTS_PER_THREAD: usize = 4;

/// Tiles of rows of such a part at least, where A's columns are contiguous: of shorter pieces too little
/// lies on one page. Chosen for pieces of a few lines; not measured with many threads.
pub(crate) const LEAST_TILES: usize = 8;

/// Blocks of rows for each thread from which on B is packed, though tiles could read it as it lies: it is
/// then read so often that a copy pays, whose columns do not push each other out of the first-level cache
/// as columns do that lie a power of two apart. With a copy and without by turns, one thread: on a Zen 5
/// EPYC 4096 cubed (15 blocks) 1.03x, 2048 (eight) level, 2000 (seven) 0.98x, f64 1024 (eight) 0.97x, f64
/// 2048 (15) level; on an Ice Lake Xeon 4096 (ten) 1.03 to 1.08x, 512 (two) 0.95x; on a Sapphire Rapids
/// Xeon 1024 and 2048 (two and four) 0.96 to 0.99x. With 16 threads of an Emerald Rapids Xeon, 4096 cubed
/// (less than one for each) 0.93 to 0.96x.
pub(crate) const ROW_BLOCKS_PER_COPY: usize = 9;

/// Columns of C that a thread's copy of a block of A meets at least, if smaller blocks can make it so: the
/// more blocks of rows there are, the fewer threads share one's columns, each with a copy of its own. f32
/// on 16 threads of an Emerald Rapids Xeon, beside blocks as large as the cache allows: 512 cubed 1.25x,
/// 1024 1.02 to 1.03x, 2048 1.03 to 1.05x (2048, 2048, 512) 1.09x; 256 columns and 1024 about level with
/// 512; two to eight threads level, but for 512 cubed on eight (1.12x).
pub(crate) const COLUMNS_PER_COPY: usize = 512;

/// Tiles of rows that such a block has at least; one was level.
pub(crate) const COPIED_TILES: usize = 2;

/// Columns of the next block of A that each tile asks for with a cache line's steps: it is then packed from
/// the second-level cache. One thread of a Zen 5 EPYC, f32, with and without by turns: (64, 4096, 4096) 1.10x,
/// (128, 4096, 4096) 1.06x, 512 to 4096 cubed 1.00 to 1.01x; more columns occupy the paths of what the tiles
/// read themselves.
pub(crate) const SOURCE_COLUMNS: usize = 2;

/// Panels of B, of which blocks of A that one thread packs meet so few that packing is a good part of the
/// work: such a block takes a quarter of the second-level cache in place of half. One thread of a Zen 5 EPYC,
/// f32: (64, 4096, 4096) 1.08x, (128, 4096, 4096) 1.02x, (256, 4096, 4096) level, 1024 cubed 0.97x.
pub(crate) const FEW_PANELS: usize = 16;

/// Columns of C up to which tiles begin with cache lines of A, where they cannot with those of both. f32 with
/// one thread of a Zen 5 EPYC, A 16 bytes behind a line and C not: 64 columns of 4096 by 4096 1.30x, 128 1.18x,
/// 256 1.04x, 512 1.01x, 1024 1.01x, 2048 cubed 0.99x; f64 1.20x, 1.12x, 1.04x.
pub(crate) const NARROW_COLUMNS: usize = 512;

/// Registers along a column of C of which one more does not matter.
pub(crate) const MANY_REGISTERS: usize = 128;

/// Columns of A by which a tile that packs them on its way asks ahead. On a Zen 5 EPYC 4 to 16 were level.
pub(crate) const PACKED_AHEAD: usize = 8;

/// Bytes of a matrix up to which its rows, times a column, are not asked for ahead, and how far ahead they are:
/// from the last cache on the processor's own prefetcher does it. f32, one thread of a Zen 5 EPYC, with asking
/// beside without: 1000 by 1000 0.89x, 1536 by 1536 0.86x, 3000 by 3000 2.1x.
pub(crate) const NEAR_BYTES: usize = 16 << 20;
/// See `NEAR_BYTES`.
pub(crate) const ROW_BYTES_AHEAD: usize = 256;
