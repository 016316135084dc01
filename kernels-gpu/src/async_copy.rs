//! `async_copy_*`: tiles are copied to shared memory asynchronously while others are multiplied.
//!
//! Computes  C = alpha*A*B + beta*C; beta == 0 never reads C
//! Operands  A (m,k) lda, B (k,n) ldb, C (m,n) ldc; row-major f32
//! Launch    block (32 a warp,1,1); a grid of one dimension, tiles of C in groups of 8 rows of tiles
//! Shared    STAGES tiles of A, transposed, and of B: 74496 bytes for 128 x 256
//! Requires  m, n >= 1; B's rows 16-byte aligned for copies of 16 bytes, else they are of 4
//! Cost      2mnk flop; each element of A and B is copied n/BN and m/BM times
//! Bound by  issue slots: of 1104 instructions for 8 steps of the 128 x 256 tile 1024 multiply and add
//! Source    the scheme of CUTLASS's SIMT kernels for compute capability 8.0 and of salykova's
//!           sgemm.cu; tile sizes, stages and the way of the copies from measurement
//!
//! `cp.async` copies from global to shared memory without passing through registers, so copies can
//! be in flight for several rounds. Tiles are in a pipeline of stages. While round t multiplies its
//! stage, the copies for round t + STAGES - 1 go to the stage that round t - 1 has released:
//!
//! ```text
//!  stage      0     1     2     3
//!  round t    mul   next  fly   copy      one barrier a round: it makes the next stage visible and
//!  round t+1  copy  mul   next  fly       says that nobody reads the last one any more
//! ```
//!
//! The fragments of a k element are read from shared memory while the previous one is multiplied,
//! those of a round's first k element during the last one of the round before.
//!
//! Blocks at the lower and right edges begin their tile where it still fits and store only their
//! own elements. Where A or B is smaller than a tile, rows and columns beyond the edge are copies
//! of the last one, whose accumulators are not stored. k elements that do not fill a tile come
//! last, one by one, so that each element of C is one chain over k in order: the bits are those of
//! `naive`.

use cuda_std::arch::sm80::{commit_group, copy_async_4, copy_async_16, wait_group};
use cuda_std::memory::{Global, SharedAddress};
use cuda_std::{shared, thread};
use gemm_spec::index::lane_place;
use gemm_spec::scheduler::{Cta, Grouped, TileScheduler};
use gemm_spec::{Accumulator, Arch, Block, KernelSpec, LaunchShape, MinBlocks, Tile};

use crate::parts::cta::this_cta;
use crate::parts::entries::gemm_entries;
use crate::parts::fragments::{Acc, COLS, Fragments, LANES_Y, Place, WARP_COLS, store};
use crate::parts::gemm::Gemm;
use crate::parts::quad::Quad;
use crate::parts::slices::{Lane, Team, pitch, store_slices};
use crate::parts::unroll::unroll;

/// Rows of tiles in a group.
pub(crate) const GROUP_ROWS: u32 = 8;
/// Neighbours along k that a thread copies of a row of A: their places are constants apart, which
/// spares the loop their addresses.
const RUN: usize = 4;

/// Defines the entry and the specification for one tile.
macro_rules! tile {
    (
        $spec:ident, $entries:ident, $emulated:ident, $id:literal => $symbol:ident, $min_blocks:literal;
        warps $warps_m:literal x $warps_n:literal, rows $rows:literal, steps $bk:literal, stages $stages:literal
    ) => {
        gemm_entries! {
            $entries, $emulated =
                async_copy::<_, $warps_m, $warps_n, $rows, $bk, $stages, 1>;
            f32 => $symbol
        }

        pub(crate) const $spec: KernelSpec = {
            type Of = Shape<$warps_m, $warps_n, $rows, $bk, $stages, 1>;
            KernelSpec {
                id: $id,
                about: concat!(
                    stringify!($rows),
                    " x 8 elements of C a thread, tiles copied ",
                    stringify!($stages),
                    " stages deep while others are multiplied"
                ),
                origin: "CUTLASS, SIMT kernels for compute capability 8.0; salykova's sgemm.cu",
                arch: Arch::Sm80,
                entries: $entries,
                launch: LaunchShape::Grouped {
                    block: Block { x: Of::THREADS as u32, y: 1 },
                    tile: Tile { m: Of::BM as u32, n: Of::BN as u32 },
                    rows: GROUP_ROWS,
                },
                shared_elements: ($stages * Of::STAGE) as u32,
                min_blocks_per_sm: MinBlocks::same($min_blocks),
                ..KernelSpec::PLAIN
            }
        };
        const _: () = $spec.check();
    };
}

tile!(
    TILE_32X64, ENTRIES_32X64, EMULATED_32X64, "async_copy_32x64" => async_copy_32x64_f32, 8;
    warps 2 x 1, rows 4, steps 8, stages 4
);
tile!(
    TILE_32X128, ENTRIES_32X128, EMULATED_32X128, "async_copy_32x128" => async_copy_32x128_f32, 8;
    warps 1 x 2, rows 8, steps 8, stages 4
);
tile!(
    TILE_64X128, ENTRIES_64X128, EMULATED_64X128, "async_copy_64x128" => async_copy_64x128_f32, 4;
    warps 2 x 2, rows 8, steps 16, stages 4
);
tile!(
    TILE_64X256, ENTRIES_64X256, EMULATED_64X256, "async_copy_64x256" => async_copy_64x256_f32, 2;
    warps 1 x 4, rows 16, steps 8, stages 4
);
tile!(
    TILE_128X256, ENTRIES_128X256, EMULATED_128X256, "async_copy_128x256" => async_copy_128x256_f32, 1;
    warps 2 x 4, rows 16, steps 8, stages 6
);

/// What follows from a block's warps along m and n, a lane's rows, the k elements in a stage, the
/// stages, and the number of slices of warps, each of which has some of the k elements of every
/// stage.
pub(crate) struct Shape<
    const WARPS_M: usize,
    const WARPS_N: usize,
    const ROWS: usize,
    const BK: usize,
    const STAGES: usize,
    const SLICES: usize,
>;

impl<
    const WARPS_M: usize,
    const WARPS_N: usize,
    const ROWS: usize,
    const BK: usize,
    const STAGES: usize,
    const SLICES: usize,
> Shape<WARPS_M, WARPS_N, ROWS, BK, STAGES, SLICES>
{
    pub(crate) const THREADS: usize = 32 * WARPS_M * WARPS_N * SLICES;
    /// k elements of a stage that a warp multiplies.
    const PER_SLICE: usize = BK / SLICES;
    /// Rows and columns of C of a block.
    pub(crate) const BM: usize = WARPS_M * LANES_Y * ROWS;
    pub(crate) const BN: usize = WARPS_N * WARP_COLS;
    /// Pitch of A's tile, from one k element to the next: four more than the rows, so that the
    /// transposing copies of a warp use different banks and reads stay 16-byte aligned.
    const A_PITCH: usize = Self::BM + 4;
    /// Elements of a stage, A's tile before B's.
    const A_TILE: usize = BK * Self::A_PITCH;
    pub(crate) const STAGE: usize = Self::A_TILE + BK * Self::BN;
    /// Neighbours along k that a thread copies of a row of A. Small tiles copy so little that the way
    /// to shared memory counts and not the addresses: with one element a thread, a warp's copies come
    /// from four rows and go to 32 banks.
    const A_RUN: usize = if SLICES == 1 { RUN } else { 1 };
    /// Blocks of eight steps in a stage, to which warps that copy one element a thread are assigned.
    const A_OCTETS: usize = BK / 8;
    /// Rows of A that the block copies together, and how often.
    const A_ROWS: usize = Self::THREADS * Self::A_RUN / BK;
    const A_PASSES: usize = Self::BM / Self::A_ROWS;
    /// Quads of a row of B that a thread copies, as far apart as there are threads for a row.
    const B_QUADS: usize = Self::BN * BK / 4 / Self::THREADS;
    const B_THREADS: usize = Self::BN / 4 / Self::B_QUADS;
    /// Steps of B that the block copies together, element by element, where rows are not aligned, and
    /// columns of a thread in them.
    const B_STEPS: usize = if Self::THREADS > Self::BN { Self::THREADS / Self::BN } else { 1 };
    const B_COLS: usize = Self::BN * Self::B_STEPS / Self::THREADS;
    const CHECKED: () = {
        assert!(ROWS.is_multiple_of(4) && ROWS <= 16, "what is written out");
        assert!(Self::PER_SLICE >= 2 && Self::PER_SLICE <= 16, "what is written out");
        assert!(Self::PER_SLICE * SLICES == BK && BK.is_multiple_of(Self::B_STEPS));
        assert!(
            SLICES == 1 || SLICES * Self::BM * pitch(Self::BN) <= STAGES * Self::STAGE,
            "the slices' accumulators fit the stages"
        );
        assert!(STAGES >= 3, "one stage is multiplied, one is next and one is filled");
        assert!(Self::A_PASSES * Self::A_ROWS == Self::BM && BK.is_multiple_of(RUN));
        assert!(SLICES == 1 || (Self::THREADS / 32).is_multiple_of(Self::A_OCTETS));
        assert!(Self::B_THREADS * Self::B_QUADS * 4 == Self::BN);
        assert!(Self::B_COLS * Self::THREADS == Self::BN * Self::B_STEPS && Self::B_COLS <= 2);
    };
}

/// A place in A's tile of a stage and one in B's.
#[derive(Clone, Copy)]
struct Places<T> {
    a: SharedAddress<T>,
    b: SharedAddress<T>,
}

impl<T> Places<T> {
    /// The same places in the stage with that first element.
    #[inline(always)]
    fn stage(self, first: u32) -> Self {
        let first = first as usize;
        Self { a: self.a.wrapping_add(first), b: self.b.wrapping_add(first) }
    }
}

/// One thread's part of the copies.
struct Feed<T> {
    /// Its first element of the next tile of A, and from one pass to the next.
    a: Global<T>,
    a_pass: usize,
    /// Rows of A from its first one on.
    rows: u32,
    /// Its first element of the next tile of B, from one pass to the next, and to its second column.
    b: Global<T>,
    b_pass: usize,
    b_across: usize,
    /// Where they go in the first stage.
    slots: Places<T>,
}

/// # Safety
/// Obligations 1 and 2 of the entries.
#[inline(always)]
unsafe fn async_copy<
    T: Accumulator,
    const WARPS_M: usize,
    const WARPS_N: usize,
    const ROWS: usize,
    const BK: usize,
    const STAGES: usize,
    const SLICES: usize,
>(
    gemm: Gemm<T>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let tiles = Shape::<WARPS_M, WARPS_N, ROWS, BK, STAGES, SLICES>::tiles(&gemm, this_cta());
        Shape::<WARPS_M, WARPS_N, ROWS, BK, STAGES, SLICES>::gemm(gemm, tiles)
    }
}

impl<
    const WARPS_M: usize,
    const WARPS_N: usize,
    const ROWS: usize,
    const BK: usize,
    const STAGES: usize,
    const SLICES: usize,
> Shape<WARPS_M, WARPS_N, ROWS, BK, STAGES, SLICES>
{
    /// The tile of a CTA.
    #[inline(always)]
    pub(crate) fn tiles<T: Accumulator>(gemm: &Gemm<T>, cta: Cta) -> Grouped {
        Grouped::new(cta, gemm.extent((Self::BM as u32, Self::BN as u32)), GROUP_ROWS)
    }

    /// # Safety
    /// Obligations 1 and 2 of the entries.
    #[inline(always)]
    pub(crate) unsafe fn gemm<T: Accumulator>(gemm: Gemm<T>, tiles: impl TileScheduler) {
        const { Self::CHECKED };
        let (bm, bn) = (Self::BM as u32, Self::BN as u32);
        let tile = tiles.tile();
        let gemm = gemm.of_range(&tile);
        let (first_row, first_col) = (tile.row * bm, tile.col * bn);
        // At the edges the tile begins where it still fits, if C is that large.
        let row0 = if gemm.m >= bm { first_row.min(gemm.m - bm) } else { first_row };
        let col0 = if gemm.n >= bn { first_col.min(gemm.n - bn) } else { first_col };
        let whole = gemm.m >= bm && gemm.n >= bn && gemm.b_in_quads() && col0.is_multiple_of(4);

        let thread = thread::thread_idx_x() as usize;
        let (lane, warp) = (thread % 32, thread / 32);
        let (warp, slice) = (warp % (WARPS_M * WARPS_N), warp / (WARPS_M * WARPS_N));
        let (x, y) = lane_place(lane as u32);
        let row = warp % WARPS_M * (LANES_Y * ROWS) + 4 * y as usize;
        let col = warp / WARPS_M * WARP_COLS + 4 * x as usize;

        // SAFETY: obligation 2 provides the bytes; waits and barriers below keep copies and reads
        // apart.
        let tiles = SharedAddress::new(unsafe { shared::launch_sized::<Quad<T>>() }.cast::<T>());
        let own = slice * Self::PER_SLICE;
        let frags = Places {
            a: tiles.wrapping_add(own * Self::A_PITCH + row),
            b: tiles.wrapping_add(Self::A_TILE + own * Self::BN + col),
        };

        // --- mainloop ---
        let k = gemm.effective_k();
        let rounds = k / BK as u32;
        let mut acc = [[T::ZERO; COLS]; ROWS];
        if rounds > 0 {
            if whole {
                // SAFETY: the block's rows of A and columns of B are inside, and B's rows are aligned.
                let feed = unsafe { Self::feed::<T, true>(&gemm, tiles, (row0, col0), thread) };
                // SAFETY: there are `rounds` tiles along k; all threads are here.
                unsafe { Self::mainloop::<T, true>(feed, rounds, frags, &mut acc) };
            } else {
                // SAFETY: rows and columns that are not inside are held inside one by one.
                let feed = unsafe { Self::feed::<T, false>(&gemm, tiles, (row0, col0), thread) };
                // SAFETY: there are `rounds` tiles along k; all threads are here.
                unsafe { Self::mainloop::<T, false>(feed, rounds, frags, &mut acc) };
            }
        }
        let left = k % BK as u32;
        if left > 0 {
            // SAFETY: `k` is the same in all threads of the block, so all are here.
            unsafe { thread::sync_threads() };
            // SAFETY: nobody reads a stage any more, and no copy is on its way.
            unsafe { Self::copy_rest(&gemm, tiles, (row0, col0), (k - left, left), thread) };
            commit_group();
            wait_group::<0>();
            // SAFETY: as above.
            unsafe { thread::sync_threads() };
            let Places { mut a, mut b } = frags;
            let mut step = own as u32;
            while step < left && step < (own + Self::PER_SLICE) as u32 {
                // SAFETY: step `step` of the first stage has landed, visible since the barrier.
                unsafe { Fragments::<T, ROWS>::read(a, b) }.multiply(&mut acc);
                a = a.wrapping_add(Self::A_PITCH);
                b = b.wrapping_add(Self::BN);
                step += 1;
            }
        }

        // --- epilogue ---
        if SLICES == 1 {
            let place =
                Place { row: row0 + row as u32, col: col0 + col as u32, first_row, first_col };
            // SAFETY: the tiles from (first_row, first_col) on are a partition of C, the lanes'
            // elements one of each tile.
            unsafe { store(&gemm, place, &acc) };
        } else {
            // SAFETY: all threads of the block are here.
            unsafe { thread::sync_threads() };
            // SAFETY: the barrier ended all reads of the stages, whose memory the sums take.
            let partial = unsafe { shared::launch_sized::<Quad<T>>() }.cast::<T>();
            let lane = Lane { slice, row, col };
            let place = Place { row: row0, col: col0, first_row, first_col };
            let team =
                Team { rows: Self::BM, cols: Self::BN, slices: SLICES, threads: Self::THREADS };
            // SAFETY: all threads of the block are here; the tiles are a partition of C.
            unsafe { store_slices(&gemm, partial, (team, lane), place, &acc) };
        }
    }

    /// This thread's part of the copies. `WHOLE` says that all rows and columns are inside and that
    /// B can be copied by quads.
    ///
    /// # Safety
    /// `row0 < m` and `col0 < n`.
    #[inline(always)]
    unsafe fn feed<T: Accumulator, const WHOLE: bool>(
        gemm: &Gemm<T>,
        tiles: SharedAddress<T>,
        (row0, col0): (u32, u32),
        thread: usize,
    ) -> Feed<T> {
        // Neighbouring threads copy neighbouring steps of a row of A.
        let (a_step, a_row) = if SLICES == 1 {
            (thread % (BK / RUN) * RUN, thread / (BK / RUN))
        } else {
            let (lane, warp) = (thread % 32, thread / 32);
            let (octet, rows) = (warp % Self::A_OCTETS, warp / Self::A_OCTETS);
            (8 * octet + lane % 8, 4 * rows + lane / 8)
        };
        let a_slot = a_step * Self::A_PITCH + a_row;
        let a_row = row0 + a_row as u32;
        let lda = gemm.lda as usize;
        let ldb = gemm.ldb as usize;
        let (b, b_place, b_pass, b_across) = if WHOLE {
            let (col, step) = (thread % Self::B_THREADS * 4, thread / Self::B_THREADS);
            let b = gemm.b_at(step as u32, col0 + col as u32);
            (b, step * Self::BN + col, BK * ldb, 0)
        } else {
            let last = gemm.n - 1;
            let (across, step) = (thread % Self::BN, thread / Self::BN);
            let col = (col0 + across as u32).min(last);
            let second = (col0 + (across + Self::THREADS) as u32).min(last);
            (gemm.b_at(step as u32, col), thread, Self::B_STEPS * ldb, (second - col) as usize)
        };
        Feed {
            a: gemm.a_row(if WHOLE { a_row } else { a_row.min(gemm.m - 1) }).wrapping_add(a_step),
            a_pass: Self::A_ROWS * lda,
            rows: gemm.m.saturating_sub(a_row),
            b,
            b_pass,
            b_across,
            slots: Places {
                a: tiles.wrapping_add(a_slot),
                b: tiles.wrapping_add(Self::A_TILE + b_place),
            },
        }
    }

    /// Starts this thread's copies of the next tiles, to its slots of a stage.
    ///
    /// # Safety
    /// The next tile is inside A and B along k, and nobody reads the stage any more.
    // Out of line on the host, where its copies would only cost time to compile.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never))]
    unsafe fn copy<T: Accumulator, const WHOLE: bool>(feed: &mut Feed<T>, slots: Places<T>) {
        let mut from = feed.a;
        let mut pass = 0;
        while pass < Self::A_PASSES {
            let mut i = 0;
            while i < Self::A_RUN {
                let to = slots.a.wrapping_add(pass * Self::A_ROWS + i * Self::A_PITCH);
                // SAFETY: steps of a row of A; the slots of all threads are the elements of A's tile,
                // once each.
                unsafe { copy_async_4(to, from.wrapping_add(i)) };
                i += 1;
            }
            pass += 1;
            // Beyond the last row the same row again.
            if WHOLE || pass * Self::A_ROWS < feed.rows as usize {
                from = from.wrapping_add(feed.a_pass);
            }
        }
        feed.a = feed.a.wrapping_add(BK);

        let mut from = feed.b;
        let mut pass = 0;
        while pass < if WHOLE { 1 } else { BK / Self::B_STEPS } {
            let mut i = 0;
            while i < if WHOLE { Self::B_QUADS } else { Self::B_COLS } {
                if WHOLE {
                    let across = i * Self::B_THREADS * 4;
                    let to = slots.b.wrapping_add(across);
                    let from = from.wrapping_add(across);
                    // SAFETY: a quad of a row of B, aligned like all of them; the slots of all
                    // threads are the quads of B's tile, once each.
                    unsafe { copy_async_16(to.cast::<Quad<T>>(), from.cast()) };
                } else {
                    let to =
                        slots.b.wrapping_add(pass * Self::B_STEPS * Self::BN + i * Self::THREADS);
                    let from = from.wrapping_add(i * feed.b_across);
                    // SAFETY: an element of a row of B; the slots of all threads are the elements of
                    // B's tile, once each.
                    unsafe { copy_async_4(to, from) };
                }
                i += 1;
            }
            pass += 1;
            from = from.wrapping_add(feed.b_pass);
        }
        // All passes together are the steps of a tile.
        feed.b = from;
    }

    /// Adds the products of `rounds` whole tiles.
    ///
    /// # Safety
    /// `rounds >= 1` tiles of the feed are inside A and B; all threads of the block are here, with the
    /// same `rounds`; nobody reads the tiles.
    #[inline(always)]
    unsafe fn mainloop<T: Accumulator, const WHOLE: bool>(
        mut feed: Feed<T>,
        rounds: u32,
        frags: Places<T>,
        acc: &mut Acc<T, ROWS>,
    ) {
        // Stages by their first element.
        let each = Self::STAGE as u32;
        let last = (STAGES - 1) as u32 * each;
        let mut left = rounds;
        let mut stage = 0;
        while stage < last {
            if left > 0 {
                // SAFETY: a tile is left; nobody has read the stage.
                unsafe {
                    let slots = feed.slots.stage(stage);
                    Self::copy::<T, WHOLE>(&mut feed, slots);
                }
                left -= 1;
            }
            // Groups are counted, so there is one for each stage, if an empty one.
            commit_group();
            stage += each;
        }
        Self::wait();
        // SAFETY: all threads of the block are here.
        unsafe { thread::sync_threads() };
        // The stage that is multiplied, this lane's first places in it, and this thread's slots in
        // the one that is filled.
        let mut current = 0;
        let mut from = frags;
        let mut slots = feed.slots.stage(last);
        // SAFETY: the first tile has landed, for this thread by the wait, for others by the barrier.
        let mut fragments = unsafe { Fragments::<T, ROWS>::read(from.a, from.b) };
        let mut left = rounds;
        while left > 0 {
            unroll!(for STEP in 0..16 {
                if STEP < Self::PER_SLICE {
                    if STEP == Self::PER_SLICE - 1 {
                        Self::wait();
                        // The next tile has landed for everybody, and everybody has read the last
                        // step of this one.
                        // SAFETY: `left` is the same in all threads of the block.
                        unsafe { thread::sync_threads() };
                        slots = feed.slots.stage(current);
                        // After the last round there is no next tile: this one's first step is read
                        // again, for nobody.
                        if left > 1 {
                            current = if current == last { 0 } else { current + each };
                        }
                        from = frags.stage(current);
                    }
                    // The step after this one.
                    let step = (STEP + 1) % Self::PER_SLICE;
                    let a = from.a.wrapping_add(step * Self::A_PITCH);
                    let b = from.b.wrapping_add(step * Self::BN);
                    // SAFETY: the step has landed and is visible, as argued at the barrier.
                    let next = unsafe { Fragments::read(a, b) };
                    if STEP == 0 {
                        if left >= STAGES as u32 {
                            // SAFETY: `left` tiles remain from this one on, so there is one STAGES - 1
                            // further; everybody left the free stage before the last barrier.
                            unsafe { Self::copy::<T, WHOLE>(&mut feed, slots) };
                        }
                        commit_group();
                    }
                    fragments.multiply(acc);
                    fragments = next;
                }
            });
            left -= 1;
        }
        wait_group::<0>();
    }

    /// Waits until the oldest of the stages under way has landed.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn wait() {
        // Every round closes one group, and STAGES - 1 of them were closed before the first.
        match STAGES {
            3 => wait_group::<1>(),
            4 => wait_group::<2>(),
            5 => wait_group::<3>(),
            6 => wait_group::<4>(),
            _ => wait_group::<0>(),
        }
    }

    /// Starts copies of the last `left` k elements, from step `done` on, into the first stage.
    ///
    /// # Safety
    /// `row0 < m`, `col0 < n`, `done + left <= k`, `left <= BK`; nobody reads the stage.
    #[inline(always)]
    unsafe fn copy_rest<T: Accumulator>(
        gemm: &Gemm<T>,
        tiles: SharedAddress<T>,
        (row0, col0): (u32, u32),
        (done, left): (u32, u32),
        thread: usize,
    ) {
        let mut at = thread;
        while at < Self::BM * BK {
            let (step, row) = (at % BK, at / BK);
            if (step as u32) < left {
                let from = gemm.a_row((row0 + row as u32).min(gemm.m - 1));
                let from = from.wrapping_add(done as usize + step);
                // SAFETY: an element of A; slots of its own.
                unsafe { copy_async_4(tiles.wrapping_add(step * Self::A_PITCH + row), from) };
            }
            at += Self::THREADS;
        }
        let b_tile = tiles.wrapping_add(Self::A_TILE);
        let mut at = thread;
        while at < left as usize * Self::BN {
            let (col, step) = (at % Self::BN, at / Self::BN);
            let from = gemm.b_at(done + step as u32, (col0 + col as u32).min(gemm.n - 1));
            // SAFETY: an element of B; slots of its own.
            unsafe { copy_async_4(b_tile.wrapping_add(at), from) };
            at += Self::THREADS;
        }
    }
}
