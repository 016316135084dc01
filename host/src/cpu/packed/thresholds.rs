//! Which products take which path: every number that is chosen and not derived.
//!
//! Measured with f32 and AVX-512 on one core of an Ice Lake Xeon (48 KiB and 1.25 MiB of cache), each
//! candidate and the one before it by turns in processes of their own, by the least CPU time of several
//! turns; what was not measured says so. No result depends on any of them.

/// Products of at most that many multiply-adds are not packed ahead: 128 x 128 x 128. All operands lie
/// in the second-level cache, where a tile reads them about as fast as from panels.
pub(super) const SMALL: usize = 1 << 21;

/// C is thin where it has at most that many times a tile's columns, rows of A being contiguous: each
/// element of A then meets too few columns to pay for a copy. With a copy, 16 columns of 4096 x 4096
/// took a quarter longer, 32 as long.
pub(super) const THIN_PANELS: usize = 2;

/// The same where A must be transposed on its way: at 64 columns larger blocks paid; the sizes between
/// were not measured.
pub(super) const THIN_TURNED_PANELS: usize = 1;

/// Steps of k that a C of one column is swept for before the next. A's columns are read side by side, and
/// fewer at once than the processor's prefetcher could follow: the sums are one column, cheap to load and
/// store again. 4096 by 4096 on an Emerald Rapids Xeon: 4 steps level, 8 a fifth and 16 a seventh faster
/// than 32; on the Ice Lake Xeon a few per cent.
pub(super) const SINGLE_STEPS: usize = 8;

/// Steps of k that a thin C is swept for before the next, where it is one tile wide. A's columns are
/// then read side by side, no more at once than the processor's prefetcher follows.
pub(super) const NARROW_STEPS: usize = 32;

/// The same where it is wider: a slab of A must be met by several tiles before it is gone from the
/// first-level cache, and sums are loaded and stored once a slab.
pub(super) const WIDE_STEPS: usize = 128;

/// Bytes of a panel of A that is packed where it is used: half of a first-level cache, so that the next
/// panel's lines do not push it out.
pub(super) const PANEL_BYTES: usize = 24 << 10;

/// How far ahead of a tile its rows of A are asked for, in tiles, where A lies as it is: the columns of
/// a large A are pages apart, and the processor's own prefetcher begins anew with each.
pub(super) const TILES_AHEAD: usize = 2;

/// The same for a C of one column, whose few steps are soon done: in whole tiles' rows, as above, though its
/// own tiles are taller.
pub(super) const SINGLE_TILES_AHEAD: usize = 4;

/// Multiply-adds for each thread beyond the first: less is done before the thread has woken.
pub(super) const WORK_PER_THREAD: usize = 1 << 20;

/// Parts of a thin or small product for each thread, where there are rows or columns enough: a thread
/// that begins late takes fewer. Not measured.
pub(super) const PARTS_PER_THREAD: usize = 4;

/// Tiles of rows of such a part at least, where A's columns are contiguous: of shorter pieces too little
/// lies on one page. Chosen for pieces of a few lines; not measured with many threads.
pub(super) const LEAST_TILES: usize = 8;

/// Blocks of rows for each thread from which on B is packed, though tiles could read it as it lies: it is
/// then read so often that a copy pays, whose columns do not push each other out of the first-level cache
/// as columns do that lie a power of two apart. f32, with a copy and without by turns: one thread, 4096
/// cubed (ten blocks) 3 to 8 % faster beside a busy neighbour, 512 (two) 5 % slower; on a Sapphire Rapids
/// Xeon 1024 and 2048 (two and four) 1 to 4 % slower; 16 threads of an Emerald Rapids Xeon, 4096 cubed (six,
/// less than one for each thread) 4 to 7 % slower; 4 and 8 threads (three and two for each) 5 to 7 % faster
/// by the median of pairs, level or slower by best rounds.
pub(super) const ROW_BLOCKS_PER_COPY: usize = 5;

/// Columns of C that a thread's copy of a block of A meets at least, if smaller blocks can make it so: the
/// more blocks of rows there are, the fewer threads share one's columns, each with a copy of its own. f32
/// on 16 threads of an Emerald Rapids Xeon, beside blocks as large as the cache allows: 512 cubed 1.25x,
/// 1024 1.02 to 1.03x, 2048 1.03 to 1.05x (2048, 2048, 512) 1.09x; 256 columns and 1024 about level with
/// 512; two to eight threads level, but for 512 cubed on eight (1.12x).
pub(super) const COLUMNS_PER_COPY: usize = 512;

/// Tiles of rows that such a block has at least; one was level.
pub(super) const COPIED_TILES: usize = 2;
