//! The epilogue: accumulators become elements of C.

use cuda_std::arch::sm90::tensor::MapAddress;
use cuda_std::arch::sm90::{bulk, tensor, warpgroup};
use cuda_std::memory::{GlobalMut, Shared, SharedAddress};
use gemm_spec::epilogue;
use gemm_spec::warpgroup::{INSTRUCTION_M, THREADS, accumulator_coord};

use super::number::{Accumulators, Number, Wgmma};
use super::staging::{Pair, StagingBuffer};
use super::{STAGING_BYTES, STAGING_EACH};
use crate::parts::unroll::unroll;

/// Columns of f32 accumulators that the staging buffers of a warpgroup hold together.
const COLUMNS: u32 = 64;
const _: () = assert!(STAGING_EACH * STAGING_BYTES == INSTRUCTION_M * COLUMNS * 4);

/// C as threads store it that have four neighbours of a row each.
pub(super) struct Rows<N: Number> {
    pub(super) c: GlobalMut<N::Stored>,
    pub(super) ldc: u64,
    pub(super) n: u32,
    pub(super) alpha: f32,
    pub(super) beta: f32,
}

impl<N: Number> Rows<N> {
    /// Stores four neighbours of a row of C, as far as they are in it.
    ///
    /// # Safety
    /// The row is in C, and these elements belong to this thread.
    #[inline(always)]
    pub(super) unsafe fn store_quad(&self, row: u32, col: u32, acc: [f32; 4]) {
        let line = self.c.wrapping_add((u64::from(row) * self.ldc) as usize);
        let place = |at: u32| -> GlobalMut<N::Stored> { line.wrapping_add((col + at) as usize) };
        let mut values = [0.0f32; 4];
        unroll!(for J in 0..4 {
            let (at, mut old) = (col + J as u32, N::Stored::default());
            if self.beta != 0.0 && at < self.n {
                // SAFETY: it is in C, and nobody else writes it.
                old = unsafe { place(J as u32).read() };
            }
            values[J] = epilogue(self.alpha, acc[J], self.beta, || N::value(old));
        });
        // SAFETY: all four are in C.
        if col + 4 <= self.n && unsafe { N::store_quad(place(0), values) } {
            return;
        }
        unroll!(for J in 0..4 {
            if col + (J as u32) < self.n {
                // SAFETY: it is in C.
                unsafe { place(J as u32).write(N::stored(values[J])) };
            }
        });
    }
}

/// A warpgroup's part of a tile of C: 64 rows and all columns.
pub(super) struct Epilogue<N: Number> {
    pub(super) map: MapAddress,
    pub(super) m: u32,
    /// Columns of C, or of those before it where the tile ends that ends within a subtile.
    pub(super) n: u32,
    pub(super) alpha: f32,
    pub(super) beta: f32,
    pub(super) c: GlobalMut<N::Stored>,
    pub(super) ldc: u64,
    /// The part's first row and column, and which product of a batch it is of.
    pub(super) row0: u32,
    pub(super) col0: u32,
    pub(super) batch: u32,
    /// The thread's index in the warpgroup.
    pub(super) thread_in_warpgroup: u32,
    /// The warpgroup's two staging buffers, by their address and as a view.
    pub(super) staging_address: SharedAddress<u8>,
    pub(super) staging: Shared<u8>,
    /// The warpgroup's named barrier.
    pub(super) barrier: u32,
}

impl<N: Number> Epilogue<N> {
    /// The same in the C of a product of a batch, of which one begins `c_stride` elements behind the one before.
    #[inline(always)]
    pub(super) fn of_product(self, batch: u32, c_stride: u64) -> Self {
        let c = self.c.wrapping_add((u64::from(batch) * c_stride) as usize);
        Self { batch, c, ..self }
    }

    /// Stores `alpha` times the accumulators by TMA, in subtiles of 128 bytes of columns: one
    /// staging buffer is filled while the other is being stored. With `BATCH` the map is of rank 3.
    ///
    /// # Safety
    /// All threads of the warpgroup call it together; the map is that of C, and nobody else has
    /// these elements.
    #[inline(always)]
    pub(super) unsafe fn store_by_tma<const N16: usize, const BATCH: bool>(
        &self,
        acc: &Accumulators<N16>,
    ) where
        N: Wgmma<N16>,
    {
        unroll!(for P in 0..8 {
            // The last subtile ends where the tile does: part of it may be stored twice.
            let first = (N::SUBTILE_N16 * P).min(N16 - N::SUBTILE_N16);
            let col = self.col0 + 16 * first as u32;
            if N::SUBTILE_N16 * P < N16 && col < self.n {
                let offset = P % 2 * STAGING_BYTES as usize;
                let buffer = StagingBuffer {
                    address: self.staging_address.wrapping_add(offset),
                    view: self.staging.wrapping_add(offset),
                };
                if self.thread_in_warpgroup == 0 {
                    // The previous tile may have ended with either buffer.
                    if P == 0 {
                        bulk::wait_group_read::<0>();
                    } else {
                        bulk::wait_group_read::<1>();
                    }
                }
                // SAFETY: the whole warpgroup is here: the condition is uniform in it.
                unsafe { warpgroup::sync(self.barrier) };
                // SAFETY: one thread alone starts stores from the buffers; after its wait and the barrier
                // nobody reads this one.
                unsafe { N::fill(&buffer, self.thread_in_warpgroup, self.alpha, acc, first) };
                bulk::fence_proxy_async();
                // SAFETY: the whole warpgroup is here, as above.
                unsafe { warpgroup::sync(self.barrier) };
                if self.thread_in_warpgroup == 0 {
                    if self.row0 < self.m {
                        let (x, y, z) = (col, self.row0, self.batch);
                        if BATCH {
                            // SAFETY: the buffer is written, visible to TMA, and unchanged until the wait
                            // above, or the one at the kernel's end.
                            unsafe { tensor::store_3d(self.map, [x, y, z], buffer.address) };
                        } else {
                            // SAFETY: the same.
                            unsafe { tensor::store(self.map, x, y, buffer.address) };
                        }
                    }
                    bulk::commit_group();
                }
            }
        });
    }

    /// Stores by ordinary writes, reading C if `beta` requires it: any address, any pitch. 64
    /// columns at a time pass through shared memory in f32, so that a warp accesses neighbours of a
    /// row.
    ///
    /// # Safety
    /// All threads of the warpgroup call it together; `c` is valid for m by n elements at `ldc`,
    /// and nobody else has these elements.
    #[inline(always)]
    pub(super) unsafe fn store_direct<const N16: usize>(&self, acc: &Accumulators<N16>)
    where
        N: Wgmma<N16>,
    {
        let (own_row, own_col) = accumulator_coord(self.thread_in_warpgroup, 0);
        unroll!(for P in 0..4 {
            if 4 * P < N16 && self.col0 + COLUMNS * (P as u32) < self.n {
                // SAFETY: the whole warpgroup is here; the barriers separate the last subtile's
                // reads from these writes, and these writes from the reads below.
                unsafe { warpgroup::sync(self.barrier) };
                unroll!(for G in 0..4 {
                    let chunk = &acc[(4 * P + G) % N16];
                    unroll!(for H in 0..2 {
                        unroll!(for O in 0..2 {
                            let (row, col) =
                                (own_row + 8 * H as u32, own_col + (16 * G + 8 * O) as u32);
                            let pair = Pair([chunk[4 * O + 2 * H], chunk[4 * O + 2 * H + 1]]);
                            // SAFETY: the element belongs to this thread.
                            unsafe { self.pair(row, col / 2).write(pair) };
                        });
                    });
                });
                // SAFETY: as above.
                unsafe { warpgroup::sync(self.barrier) };
                // SAFETY: the accumulators are written; each warp has its own rows.
                unsafe { self.lines(self.col0 + COLUMNS * (P as u32)) };
            }
        });
    }

    /// The place of a pair of columns: rows of 256 bytes in which groups of four pairs are XORed
    /// with the row's number, so that eight rows of one group cover all banks.
    #[inline(always)]
    fn pair(&self, row: u32, pair: u32) -> Shared<Pair> {
        self.staging.cast::<Pair>().wrapping_add((row * 32 + (pair ^ (row % 8 * 4))) as usize)
    }

    /// Stores the 64 columns from `first` on, a row a warp at a time.
    ///
    /// # Safety
    /// The accumulators are in shared memory; `c` as in [`Epilogue::store_direct`].
    #[inline(always)]
    unsafe fn lines(&self, first: u32) {
        let (warp, lane) = (self.thread_in_warpgroup / 32, self.thread_in_warpgroup % 32);
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
                    let of = |col: u32| unsafe { self.old(row, col) };
                    old[R] = [of(col), of(col + 1)];
                });
            }
            unroll!(for R in 0..8 {
                let row = row + 4 * R as u32;
                // SAFETY: written before the barrier.
                let Pair(acc) = unsafe { self.pair(row, lane).read() };
                let value =
                    |at: usize| epilogue(self.alpha, acc[at], self.beta, || N::value(old[R][at]));
                // SAFETY: both elements belong to this thread and are in C where they are stored.
                let both = N::PAIRED && unsafe { self.store_pair(row, col, value) };
                if !both {
                    unroll!(for J in 0..2 {
                        if let Some(at) = self.place_in_c(row, col + J as u32) {
                            // SAFETY: the element is in C and belongs to this thread.
                            unsafe { at.write(N::stored(value(J))) };
                        }
                    });
                }
            });
        });
    }

    /// The place of an element, by its row in this part and its column, if it is in C.
    #[inline(always)]
    fn place_in_c(&self, row: u32, col: u32) -> Option<GlobalMut<N::Stored>> {
        let row = self.row0 + row;
        let at = (u64::from(row) * self.ldc + u64::from(col)) as usize;
        (row < self.m && col < self.n).then(|| self.c.wrapping_add(at))
    }

    /// Stores two neighbours by one instruction; false where that is impossible, and then nothing
    /// is stored.
    ///
    /// # Safety
    /// Nobody else has the elements.
    #[inline(always)]
    unsafe fn store_pair(&self, row: u32, col: u32, value: impl Fn(usize) -> f32) -> bool {
        match self.place_in_c(row, col) {
            // SAFETY: both elements are in C.
            Some(at) if col + 1 < self.n => unsafe { N::store_pair(at, [value(0), value(1)]) },
            _ => false,
        }
    }

    /// The old value of an element, if it is in C.
    ///
    /// # Safety
    /// Nobody writes it meanwhile.
    #[inline(always)]
    unsafe fn old(&self, row: u32, col: u32) -> N::Stored {
        // SAFETY: the element is in C.
        self.place_in_c(row, col).map_or(N::Stored::default(), |at| unsafe { at.read() })
    }
}
