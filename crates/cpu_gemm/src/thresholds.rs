//! Which products take which path: every number that is chosen and not derived.
//!
//! What they were measured to give is in docs/notebook/cpu.md under their names; what was not measured says so.
//! No result depends on any of them.

/// Products of at most that many multiply-adds are not packed ahead: 128 x 128 x 128. All operands fit
/// the L2, where a tile reads them about as fast as from panels.
pub(crate) const SMALL: usize = 1 << 21;

/// Elements from the first to the last of each operand up to which one thread alone, which need not share the
/// work, packs nothing ahead either: 384 x 384. The copy of A is the larger part of what such a product costs
/// beyond its multiply-adds.
pub(crate) const SMALL_ALONE: usize = 384 * 384;

/// The same as [`SMALL`] with instruction sets that pack early: 64 x 64 x 64. [`SMALL_ALONE`] is not
/// asked there.
pub(crate) const SMALL_PACKED_EARLY: usize = 1 << 18;

/// C is thin where it has at most that many times a tile's columns, rows of A being contiguous: each
/// element of A then meets too few columns to pay for a copy.
pub(crate) const THIN_PANELS: usize = 2;

/// The same where A must be transposed on its way.
pub(crate) const THIN_TURNED_PANELS: usize = 1;

/// k elements that a C of one column is swept for before the next. Its tiles are tall: long pieces of each
/// column of A, one column after the other.
pub(crate) const SINGLE_STEPS: usize = 64;

/// Columns of A by which such a tile asks ahead: the processor's own prefetcher ends with each page.
pub(crate) const SINGLE_COLUMNS_AHEAD: usize = 2;

/// k elements that a thin C is swept for before the next, where it is one tile wide. A's columns are
/// then read side by side, no more at once than the processor's prefetcher follows.
pub(crate) const NARROW_STEPS: usize = 32;

/// The same where it is wider: a slab of A must be met by several tiles before it is gone from the
/// L1, and sums are loaded and stored once a slab.
pub(crate) const WIDE_STEPS: usize = 128;

/// Bytes of a panel of A that is packed where it is used: half of an L1, so that the next
/// panel's lines do not push it out.
pub(crate) const PANEL_BYTES: usize = 24 << 10;

/// How far ahead of a tile its rows of A are asked for, in tiles, where A is read in place: the columns of
/// a large A are pages apart, and the processor's own prefetcher begins anew with each.
pub(crate) const TILES_AHEAD: usize = 2;

/// Multiply-adds for each thread beyond the first: less is done before the thread has woken.
pub(crate) const WORK_PER_THREAD: usize = 1 << 20;

/// Multiply-adds of one product of a batch up to which products are computed side by side, each on one thread: 203 x
/// 203 x 203. Larger ones are worth all threads each.
pub(crate) const SIDE_BY_SIDE: usize = 1 << 23;

/// Multiply-adds of a batch for each thread, and those that a thread draws at once.
pub(crate) const BATCH_WORK_PER_THREAD: usize = 1 << 16;
pub(crate) const BATCH_WORK_PER_TICKET: usize = 1 << 14;

/// What a product of a batch counts as at least: to call one takes as long as that many multiply-adds.
pub(crate) const LEAST_WORK_OF_A_PRODUCT: usize = 1 << 8;

/// Parts of a thin or small product for each thread, where there are rows or columns enough: a thread
/// that begins late takes fewer. Not measured.
pub(crate) const PARTS_PER_THREAD: usize = 4;

/// Tiles of rows of such a part at least, where A's columns are contiguous: of shorter pieces too little
/// lies on one page. Chosen for pieces of a few lines; not measured with many threads.
pub(crate) const LEAST_TILES: usize = 8;

/// Blocks of rows for each thread from which on B is packed, though tiles could read it in place: it is
/// then read so often that a copy pays, whose columns do not push each other out of the L1 as columns do
/// that are a power of two apart.
pub(crate) const ROW_BLOCKS_PER_COPY: usize = 9;

/// Rows of C from which on B is packed as well where its columns are pages apart, and a tile's columns leave fewer lines
/// than this of each set of the first cache.
pub(crate) const PACKED_ROWS: usize = 128;
/// See above.
pub(crate) const LEAST_WAYS: usize = 4;

/// Columns of C that a thread's copy of a block of A meets at least, if smaller blocks can make it so: the
/// more blocks of rows there are, the fewer threads share one's columns, each with a copy of its own.
pub(crate) const COLUMNS_PER_COPY: usize = 512;

/// Tiles of rows that such a block has at least.
pub(crate) const COPIED_TILES: usize = 2;

/// Panels of B, of which blocks of A that one thread packs meet so few that packing is a good part of the
/// work: such a block takes a quarter of the L2 in place of half.
pub(crate) const FEW_PANELS: usize = 16;

/// Columns of C up to which tiles begin with cache lines of A, where they cannot with those of both.
pub(crate) const NARROW_COLUMNS: usize = 512;

/// Registers along a column of C of which one more does not matter.
pub(crate) const MANY_REGISTERS: usize = 128;

/// Columns of A by which a tile that packs them on its way asks ahead.
pub(crate) const PACKED_AHEAD: usize = 8;

/// Bytes of a matrix up to which its rows, times a column, are not asked for ahead, and how far ahead they are:
/// from the last cache on the processor's own prefetcher does it.
pub(crate) const NEAR_BYTES: usize = 16 << 20;
/// See `NEAR_BYTES`.
pub(crate) const ROW_BYTES_AHEAD: usize = 256;

/// Columns of C up to which narrow elements of A are widened where they are used: where columns of A are
/// contiguous, and where rows are, which are transposed into a panel first.
pub(crate) const THIN_COLUMNS: [usize; 2] = [16, 8];

/// The same of rows of an A of so few elements that a packed copy is read from a cache.
pub(crate) const THIN_COLUMNS_OF_NEAR_ROWS: usize = 2;
/// See above.
pub(crate) const NEAR_ELEMENTS: usize = 1 << 20;

/// The same of elements of 8 bits, whose packed tiles add up four steps at once.
pub(crate) const THIN_COLUMNS_OF_BYTES: [usize; 2] = [8, 4];

/// Rows of such a product at least. Not measured.
pub(crate) const THIN_ROWS: usize = 64;
