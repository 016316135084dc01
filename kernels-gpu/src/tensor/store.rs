//! How a warpgroup's sums become elements of C.

use cuda_std::arch::sm90::tensor::MapAddress;
use cuda_std::arch::sm90::{bulk, tensor, warpgroup};
use cuda_std::memory::{GlobalMut, Shared, SharedAddress};
use gemm_spec::epilogue;
use gemm_spec::warpgroup::{INSTRUCTION_M, THREADS, accumulator_coord};

use super::number::{Accumulators, Number, Products};
use super::{PIECE_BYTES, PIECES_EACH};
use crate::parts::unroll::unroll;

/// Columns of sums in f32 that the pieces of a warpgroup hold together.
const COLUMNS: u32 = 64;
const _: () = assert!(PIECES_EACH * PIECE_BYTES == INSTRUCTION_M * COLUMNS * 4);

/// What the copy engine stores together: 64 rows of 128 bytes in the 128-byte swizzle, by their address
/// and as a pointer.
pub(super) struct Piece {
    pub(super) at: SharedAddress<u8>,
    pub(super) place: Shared<u8>,
}

/// A warpgroup's part of a tile of C: 64 rows and all columns.
pub(super) struct Store<N: Number> {
    pub(super) map: MapAddress,
    pub(super) m: u32,
    pub(super) n: u32,
    pub(super) alpha: f32,
    pub(super) beta: f32,
    pub(super) c: GlobalMut<N::Stored>,
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

impl<N: Number> Store<N> {
    /// Stores `alpha` times the sums by the copy engine, a row of 128 bytes of columns at a time: one
    /// piece is filled while the other is on its way.
    ///
    /// # Safety
    /// All threads of the warpgroup call it together; the map is C's, and nobody else has these
    /// elements.
    #[inline(always)]
    pub(super) unsafe fn tma_store<const EIGHTS: usize>(&self, sums: &Accumulators<EIGHTS>)
    where
        N: Products<EIGHTS>,
    {
        unroll!(for P in 0..8 {
            let first = N::EIGHTS * P;
            let col = self.col0 + 16 * first as u32;
            if first < EIGHTS && col < self.n {
                let own = P % 2 * PIECE_BYTES as usize;
                let piece = Piece {
                    at: self.pieces.wrapping_add(own),
                    place: self.place.wrapping_add(own),
                };
                // SAFETY: the leader alone starts copies from the pieces; after its wait and the barrier
                // nobody reads this one. All of the warpgroup is here: the condition is the same for it.
                unsafe {
                    if self.member == 0 {
                        // The tile before may have ended with either piece.
                        if P == 0 {
                            bulk::wait_group_read::<0>();
                        } else {
                            bulk::wait_group_read::<1>();
                        }
                    }
                    warpgroup::sync(self.barrier);
                    N::fill(&piece, self.member, self.alpha, sums, first);
                }
                bulk::fence_proxy_async();
                // SAFETY: all threads are here; the piece is written, visible to the engine, and stays
                // until the wait above, or the one at the kernel's end.
                unsafe {
                    warpgroup::sync(self.barrier);
                    if self.member == 0 {
                        if self.row0 < self.m {
                            tensor::store(self.map, col, self.row0, piece.at);
                        }
                        bulk::commit_group();
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
    pub(super) unsafe fn direct<const EIGHTS: usize>(&self, sums: &Accumulators<EIGHTS>)
    where
        N: Products<EIGHTS>,
    {
        let (own_row, own_col) = accumulator_coord(self.member, 0);
        unroll!(for P in 0..4 {
            if 4 * P < EIGHTS && self.col0 + COLUMNS * (P as u32) < self.n {
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
                unsafe { self.lines(self.col0 + COLUMNS * (P as u32)) };
            }
        });
    }

    /// Where pair `pair` of row `row` lies: rows of 256 bytes, in which groups of four pairs are
    /// exchanged by the row's number, so that eight rows of one group meet all banks.
    #[inline(always)]
    fn pair(&self, row: u32, pair: u32) -> Shared<Pair> {
        self.place.cast::<Pair>().wrapping_add((row * 32 + (pair ^ (row % 8 * 4))) as usize)
    }

    /// Stores 64 columns from `first` on, a row a warp at a time.
    ///
    /// # Safety
    /// The sums are in shared memory; `c` as in [`Store::direct`].
    #[inline(always)]
    unsafe fn lines(&self, first: u32) {
        let (warp, lane) = (self.member / 32, self.member % 32);
        let col = first + 2 * lane;
        const _: () = assert!(INSTRUCTION_M / (THREADS / 32) == 2 * 8);
        unroll!(for Q in 0..2 {
            let row = warp + 32 * Q as u32;
            let mut old = [[N::Stored::default(); 2]; 8];
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
                let value =
                    |at: usize| epilogue(self.alpha, sums[at], self.beta, || N::value(old[R][at]));
                // SAFETY: both elements are this thread's, and lie in C where they are stored.
                let both = N::PAIRED && unsafe { self.store_pair(row, col, value) };
                if !both {
                    unroll!(for J in 0..2 {
                        if let Some(at) = self.place_in_c(row, col + J as u32) {
                            // SAFETY: the element lies in C and is this thread's.
                            unsafe { at.write(N::stored(value(J))) };
                        }
                    });
                }
            });
        });
    }

    /// Where the element of a row of this part and a column lies, if C has it.
    #[inline(always)]
    fn place_in_c(&self, row: u32, col: u32) -> Option<GlobalMut<N::Stored>> {
        let row = self.row0 + row;
        let at = (u64::from(row) * self.ldc + u64::from(col)) as usize;
        (row < self.m && col < self.n).then(|| self.c.wrapping_add(at))
    }

    /// Stores the values of two neighbours by one instruction; false where that cannot be and nothing is
    /// stored.
    ///
    /// # Safety
    /// Nobody else has the elements.
    #[inline(always)]
    unsafe fn store_pair(&self, row: u32, col: u32, value: impl Fn(usize) -> f32) -> bool {
        match self.place_in_c(row, col) {
            // SAFETY: both elements lie in C.
            Some(at) if col + 1 < self.n => unsafe { N::store_pair(at, [value(0), value(1)]) },
            _ => false,
        }
    }

    /// The old value of an element, if C has it.
    ///
    /// # Safety
    /// Nobody writes it meanwhile.
    #[inline(always)]
    unsafe fn old(&self, row: u32, col: u32) -> N::Stored {
        // SAFETY: the element lies in C.
        self.place_in_c(row, col).map_or(N::Stored::default(), |at| unsafe { at.read() })
    }
}

/// Two neighbours in f32, stored by one instruction.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Pair(pub(super) [f32; 2]);
