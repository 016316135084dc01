//! How a warpgroup's sums become elements of C.

use cuda_std::arch::sm90::tensor::MapAddress;
use cuda_std::arch::sm90::{bulk, tensor, warpgroup};
use cuda_std::memory::{GlobalMut, Shared, SharedAddress};
use gemm_spec::epilogue;
use gemm_spec::tensor::BOX_WIDTH;
use gemm_spec::warpgroup::{ROW_BYTES, ROWS, THREADS, accumulator_place, swizzled};

use super::number::{Number, Products, Sums};
use super::{PIECE_BYTES, PIECES_EACH};
use crate::parts::unroll::unroll;

// The pieces of a warpgroup hold 64 columns of sums in f32.
const _: () = assert!(PIECES_EACH * PIECE_BYTES == ROWS * BOX_WIDTH * 4);

/// A warpgroup's part of a tile of C: 64 rows and all columns.
pub(super) struct Store {
    pub(super) map: MapAddress,
    pub(super) m: u32,
    pub(super) n: u32,
    pub(super) alpha: f32,
    pub(super) beta: f32,
    pub(super) c: GlobalMut<u16>,
    pub(super) ldc: u64,
    /// The part's first row and column.
    pub(super) row0: u32,
    pub(super) col0: u32,
    /// The thread of the warpgroup.
    pub(super) member: u32,
    /// Two pieces of shared memory of the warpgroup's own, by their address and as a pointer.
    pub(super) pieces: SharedAddress<u8>,
    pub(super) place: Shared<u8>,
    /// The warpgroup's barrier.
    pub(super) barrier: u32,
}

impl Store {
    /// Stores `alpha` times the sums by the copy engine, 64 columns at a time: one piece is filled
    /// while the other is on its way.
    ///
    /// # Safety
    /// All threads of the warpgroup call it together; the map is C's, and nobody else has these
    /// elements.
    #[inline(always)]
    pub(super) unsafe fn staged<N: Products<EIGHTS>, const EIGHTS: usize>(
        &self,
        sums: &Sums<EIGHTS>,
    ) {
        // Lane l names row l % 8 of matrix l / 8: two matrices of rows, then the next octet of columns.
        let (own_warp, lane) = (self.member / 32, self.member % 32);
        let row = 16 * own_warp + lane / 8 % 2 * 8 + lane % 8;
        let octet = lane / 16;
        unroll!(for P in 0..4 {
            if 4 * P < EIGHTS && self.col0 + BOX_WIDTH * (P as u32) < self.n {
                let piece = self.pieces.wrapping_add(P % 2 * PIECE_BYTES as usize);
                // SAFETY: the leader alone starts copies from the pieces; after its wait and the barrier
                // nobody reads this one. All of the warpgroup is here: the condition is the same for it.
                unsafe {
                    if self.member == 0 {
                        bulk::wait_read::<1>();
                    }
                    warpgroup::sync(self.barrier);
                }
                // Registers in eights hold 16 columns each.
                unroll!(for G in 0..4 {
                    let eight = &sums[(4 * P + G) % EIGHTS];
                    let pair =
                        |at: usize| N::pair(self.alpha * eight[at], self.alpha * eight[at + 1]);
                    let pairs = [pair(0), pair(2), pair(4), pair(6)];
                    let at = swizzled(row * ROW_BYTES + (2 * G as u32 + octet) * 16);
                    // SAFETY: all lanes are here; each has a row of its own in the piece.
                    unsafe {
                        warpgroup::store_matrices(piece.wrapping_add(at as usize), pairs);
                    }
                });
                bulk::fence_writes();
                // SAFETY: all threads are here; the piece is written, visible to the engine, and stays
                // until the wait above, or the one at the kernel's end.
                unsafe {
                    warpgroup::sync(self.barrier);
                    if self.member == 0 {
                        let col = self.col0 + BOX_WIDTH * (P as u32);
                        if self.row0 < self.m {
                            tensor::store(self.map, col, self.row0, piece);
                        }
                        bulk::commit();
                    }
                }
            }
        });
    }

    /// Stores by ordinary writes, reading C where `beta` asks for it: any address, any pitch. 64 columns
    /// at a time pass through shared memory in f32, so that a warp touches neighbours of a row.
    ///
    /// # Safety
    /// All threads of the warpgroup call it together; `c` is valid for m by n elements at `ldc`, and
    /// nobody else has these elements.
    #[inline(always)]
    pub(super) unsafe fn direct<N: Products<EIGHTS>, const EIGHTS: usize>(
        &self,
        sums: &Sums<EIGHTS>,
    ) {
        let (own_row, own_col) = accumulator_place(self.member, 0);
        unroll!(for P in 0..4 {
            if 4 * P < EIGHTS && self.col0 + BOX_WIDTH * (P as u32) < self.n {
                // SAFETY: all of the warpgroup is here, twice: what was read before is overwritten, and
                // what is read below is written.
                unsafe { warpgroup::sync(self.barrier) };
                unroll!(for G in 0..4 {
                    let eight = &sums[(4 * P + G) % EIGHTS];
                    unroll!(for H in 0..2 {
                        unroll!(for O in 0..2 {
                            let (row, col) =
                                (own_row + 8 * H as u32, own_col + (16 * G + 8 * O) as u32);
                            let pair = Pair([eight[4 * O + 2 * H], eight[4 * O + 2 * H + 1]]);
                            // SAFETY: the place is this thread's own.
                            unsafe { self.pair(row, col / 2).write(pair) };
                        });
                    });
                });
                // SAFETY: as above.
                unsafe { warpgroup::sync(self.barrier) };
                // SAFETY: the sums are there; a warp has its rows to itself.
                unsafe { self.lines::<N>(self.col0 + BOX_WIDTH * (P as u32)) };
            }
        });
    }

    /// Where pair `pair` of row `row` lies: rows of 256 bytes, in which groups of four pairs are
    /// exchanged by the row's number, so that eight rows of one group meet all banks.
    #[inline(always)]
    fn pair(&self, row: u32, pair: u32) -> Shared<Pair> {
        self.place.cast::<Pair>().wrapping_add((row * 32 + (pair ^ row % 8 * 4)) as usize)
    }

    /// Stores 64 columns from `first` on, a row a warp at a time.
    ///
    /// # Safety
    /// The sums are in shared memory; `c` as in [`Store::direct`].
    #[inline(always)]
    unsafe fn lines<N: Number>(&self, first: u32) {
        let (warp, lane) = (self.member / 32, self.member % 32);
        let col = first + 2 * lane;
        const _: () = assert!(ROWS / (THREADS / 32) == 2 * 8);
        unroll!(for Q in 0..2 {
            let row = warp + 32 * Q as u32;
            let mut old = [[0u16; 2]; 8];
            if self.beta != 0.0 {
                // Eight reads before the first write: each would wait for memory.
                unroll!(for R in 0..8 {
                    let row = row + 4 * R as u32;
                    // SAFETY: nobody else writes here.
                    old[R] = unsafe { [self.old(row, col), self.old(row, col + 1)] };
                });
            }
            unroll!(for R in 0..8 {
                let row = row + 4 * R as u32;
                // SAFETY: written before the barrier.
                let Pair(sums) = unsafe { self.pair(row, lane).read() };
                unroll!(for J in 0..2 {
                    if let Some(at) = self.place_in_c(row, col + J as u32) {
                        let old = || N::value(old[R][J]);
                        let value = epilogue(self.alpha, sums[J], self.beta, old);
                        // SAFETY: the element lies in C and is this thread's.
                        unsafe { at.write(N::pair(value, 0.0) as u16) };
                    }
                });
            });
        });
    }

    /// Where the element of a row of this part and a column lies, if C has it.
    #[inline(always)]
    fn place_in_c(&self, row: u32, col: u32) -> Option<GlobalMut<u16>> {
        let row = self.row0 + row;
        let at = (u64::from(row) * self.ldc + u64::from(col)) as usize;
        (row < self.m && col < self.n).then(|| self.c.wrapping_add(at))
    }

    /// The old value of an element, if C has it.
    ///
    /// # Safety
    /// Nobody writes it meanwhile.
    #[inline(always)]
    unsafe fn old(&self, row: u32, col: u32) -> u16 {
        // SAFETY: the element lies in C.
        self.place_in_c(row, col).map_or(0, |at| unsafe { at.read() })
    }
}

/// Two neighbours in shared memory.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Pair([f32; 2]);
