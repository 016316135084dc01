//! The epilogue: accumulators become elements of C.

use cuda_std::arch::sm90::tensor::MapAddress;
use cuda_std::arch::sm90::{bulk, tensor, warpgroup};
use cuda_std::memory::{GlobalMut, Shared, SharedAddress};
use gemm_spec::epilogue;
use gemm_spec::fusion::{ACTIVATION, AMAX, Curve, RELU, ROW_BIAS, ROW_SCALES, relu};
use gemm_spec::index::ceil_div;
use gemm_spec::warpgroup::{INSTRUCTION_M, THREADS, accumulator_coord};

use super::finish::{Columns, Finish};
use super::number::{Accumulators, Number, Wgmma};
use super::staging::StagingBuffer;
use super::{STAGING_BYTES, STAGING_EACH};
use crate::parts::powers::activate_smoothly;
use crate::parts::quad::{F32Pair, Quad};
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
    /// Stores four neighbours of a row of C, as far as they are in it, given their sums.
    ///
    /// # Safety
    /// The row is in C, and these elements belong to this thread.
    #[inline(always)]
    pub(super) unsafe fn store_quad(&self, row: u32, col: u32, acc: [f32; 4]) {
        let place = |at: u32| self.place(row, col + at);
        let mut values = [0.0f32; 4];
        unroll!(for J in 0..4 {
            let (at, mut old) = (col + J as u32, N::Stored::default());
            if self.beta != 0.0 && at < self.n {
                // SAFETY: it is in C, and nobody else writes it.
                old = unsafe { place(J as u32).read() };
            }
            values[J] = epilogue(self.alpha, acc[J], self.beta, || N::value(old));
        });
        // SAFETY: the caller's promise.
        unsafe { self.put_quad(row, col, values) };
    }

    /// The same with what else an epilogue does, given what beta multiplies; the larger of a magnitude and those
    /// that are stored.
    ///
    /// # Safety
    /// As of [`Rows::store_quad`].
    #[inline(always)]
    pub(super) unsafe fn finish_quad(
        &self,
        finish: &Finish<N>,
        (row, col): (u32, u32),
        (acc, old): ([f32; 4], [f32; 4]),
        columns: &Columns,
        largest: u32,
    ) -> u32 {
        let scalars = (self.alpha, self.beta);
        // SAFETY: the row is in C.
        let values = unsafe { finish.values(row, columns, scalars, acc, old) };
        // SAFETY: the caller's promise.
        unsafe { self.put_quad(row, col, values) };
        finish.larger(largest, col, self.n, values)
    }

    #[inline(always)]
    fn place(&self, row: u32, col: u32) -> GlobalMut<N::Stored> {
        self.c.wrapping_add((u64::from(row) * self.ldc) as usize).wrapping_add(col as usize)
    }

    /// Rounds and stores four neighbours of a row, as far as they are in C.
    ///
    /// # Safety
    /// As of [`Rows::store_quad`].
    #[inline(always)]
    unsafe fn put_quad(&self, row: u32, col: u32, values: [f32; 4]) {
        let place = |at: u32| self.place(row, col + at);
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

/// A thread's runs of four columns of 64: in rows that are eight apart.
struct Quads {
    /// The first in the staging buffers, of which a row has 16.
    from: Shared<Quad<f32>>,
    /// Its place in C.
    row: u32,
    col: u32,
    /// As many as are in C.
    count: u32,
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
    pub(super) finish: Finish<N>,
    /// The thread's index in the warpgroup.
    pub(super) thread_in_warpgroup: u32,
    /// The warpgroup's two staging buffers, by their address and as a view.
    pub(super) staging_address: SharedAddress<u8>,
    pub(super) staging: Shared<u8>,
    /// The warpgroup's named barrier.
    pub(super) barrier: u32,
}

impl<N: Number> Epilogue<N> {
    /// The same in the C of a product of a batch, of which one begins `c_stride` elements behind the one before, and
    /// which has the rows before `end` of it.
    #[inline(always)]
    pub(super) fn of_product(self, batch: u32, c_stride: u64, end: u32) -> Self {
        let c = self.c.wrapping_add((u64::from(batch) * c_stride) as usize);
        let finish = self.finish.of_product(batch);
        // Products that have rows of one C have a map of one matrix.
        let batch = if c_stride == 0 { 0 } else { batch };
        Self { batch, c, m: self.m.min(end), finish, ..self }
    }

    /// Whether TMA may store all rows of the part that are in C: those behind its end are not another product's.
    #[inline(always)]
    pub(super) fn ends_with_c(&self, m: u32) -> bool {
        self.m == m || self.row0 + INSTRUCTION_M <= self.m
    }

    /// Stores the accumulators in the way that suits. With `BATCH` the map is of rank 3.
    ///
    /// # Safety
    /// All threads of the warpgroup call it together; nobody else has these elements. Where `tma_store` is set the
    /// map is that of C, else `c` is valid for m by n elements at `ldc`, and all else that the epilogue reads or
    /// writes is.
    #[inline(always)]
    pub(super) unsafe fn store<const N16: usize, const BATCH: bool>(
        &self,
        tma_store: bool,
        acc: &Accumulators<N16>,
    ) where
        N: Wgmma<N16>,
    {
        let plain = self.finish.fusion == 0;
        if tma_store && (plain || self.finish.is_simple()) {
            // SAFETY: the caller's promises.
            unsafe { self.store_by_tma::<N16, BATCH>(acc) };
            return;
        }
        if BATCH && self.thread_in_warpgroup == 0 {
            // TMA may have stored the tile before, and still be reading the staging buffers; others write them after a
            // barrier.
            bulk::wait_group_read::<0>();
        }
        if plain {
            // SAFETY: the caller's promises.
            unsafe { self.store_direct(acc) };
        } else {
            // SAFETY: the caller's promises.
            let (alpha, beta) = unsafe { self.finish.scalars((self.alpha, self.beta)) };
            // SAFETY: the caller's promises.
            unsafe { Self { alpha, beta, ..*self }.store_finished(acc) };
        }
    }

    /// Stores the accumulators, scaled and finished, by TMA, in subtiles of 128 bytes of columns: one
    /// staging buffer is filled while the other is being stored. With `BATCH` the map is of rank 3.
    ///
    /// # Safety
    /// All threads of the warpgroup call it together; the map is that of C, and nobody else has
    /// these elements. Where there is more to do than scaling it [is simple](Finish::is_simple).
    #[inline(always)]
    unsafe fn store_by_tma<const N16: usize, const BATCH: bool>(&self, acc: &Accumulators<N16>)
    where
        N: Wgmma<N16>,
    {
        let (mut acc, mut alpha) = (*acc, self.alpha);
        if self.finish.fusion != 0 {
            let columns = (self.col0, self.n);
            // SAFETY: the caller has seen that the epilogue is simple, and lines that TMA stores are multiples of
            // 16 bytes.
            unsafe {
                self.finish.accumulators(columns, self.thread_in_warpgroup, alpha, &mut acc);
            }
            alpha = 1.0;
        }
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
                unsafe { N::fill(&buffer, self.thread_in_warpgroup, alpha, &acc, first) };
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
        unroll!(for P in 0..4 {
            if 4 * P < N16 && self.col0 + COLUMNS * (P as u32) < self.n {
                // SAFETY: the whole warpgroup is here; the barriers separate the last subtile's
                // reads from these writes, and these writes from the reads below.
                unsafe { warpgroup::sync(self.barrier) };
                // SAFETY: nobody else uses the staging buffers.
                unsafe { self.leave(acc, P) };
                // SAFETY: as above.
                unsafe { warpgroup::sync(self.barrier) };
                // SAFETY: the accumulators are written; each warp has its own rows.
                unsafe { self.lines(self.col0 + COLUMNS * (P as u32)) };
            }
        });
    }

    /// Stores what an epilogue that does more than scaling gives, by ordinary writes: 64 columns at a time pass
    /// through shared memory in f32. What is done to them is there once, in loops, and not once for each of a
    /// thread's accumulators: instructions that a kernel runs once for a tile have to be fetched, which took
    /// longer than what they do (docs/notebook/kernels.md).
    ///
    /// # Safety
    /// As of [`Epilogue::store_direct`], for all that the epilogue reads and writes.
    #[inline(always)]
    unsafe fn store_finished<const N16: usize>(&self, acc: &Accumulators<N16>)
    where
        N: Wgmma<N16>,
    {
        let Self { c, ldc, n, alpha, beta, .. } = *self;
        let rows = Rows::<N> { c, ldc, n, alpha, beta };
        let (own_row, quad) = (self.thread_in_warpgroup / 16, self.thread_in_warpgroup % 16);
        // Four neighbours are stored, and read, by one instruction each where all lines allow it.
        let Finish { old, old_ld, .. } = self.finish;
        let of_old = beta == 0.0 || old.cast::<N::Quad>().is_aligned() && old_ld % 4 == 0;
        let whole = n % 4 == 0 && ldc % 4 == 0 && c.cast::<N::Quad>().is_aligned() && of_old;
        let (mut subtile, mut largest) = (0, 0);
        while COLUMNS * subtile < 16 * N16 as u32 && self.col0 + COLUMNS * subtile < n {
            // SAFETY: the whole warpgroup is here; the barriers separate the last subtile's reads from these
            // writes, and these writes from the reads below.
            unsafe { warpgroup::sync(self.barrier) };
            unroll!(for P in 0..4 {
                if 4 * P < N16 && subtile == P as u32 {
                    // SAFETY: nobody else uses the staging buffers.
                    unsafe { self.leave(acc, P) };
                }
            });
            // SAFETY: as above.
            unsafe { warpgroup::sync(self.barrier) };
            let col = self.col0 + COLUMNS * subtile + 4 * quad;
            // Rows are eight apart, so that their places in the staging buffers are evenly apart.
            let from = self.pair(own_row, 2 * quad).cast::<Quad<f32>>();
            // SAFETY: the caller's promise.
            let columns = unsafe { self.finish.columns(col, n, alpha) };
            let left = if col < n { self.m.saturating_sub(self.row0 + own_row) } else { 0 };
            let quads =
                Quads { from, row: self.row0 + own_row, col, count: ceil_div(left, 8).min(8) };
            let smooth = self.finish.has(ACTIVATION & !RELU);
            let by_row = self.finish.has(ROW_SCALES | ROW_BIAS | AMAX);
            // All threads have the same of these, and elements of their own in each; the accumulators are in the
            // staging buffers.
            largest = match (whole, beta != 0.0, smooth, by_row) {
                // SAFETY: as said.
                (true, true, false, false) => unsafe {
                    self.quads::<true, false, false>(&quads, &columns, largest)
                },
                // SAFETY: as said.
                (true, true, true, false) => unsafe {
                    self.quads::<true, true, false>(&quads, &columns, largest)
                },
                // SAFETY: as said.
                (true, true, false, true) => unsafe {
                    self.quads::<true, false, true>(&quads, &columns, largest)
                },
                // SAFETY: as said.
                (true, true, true, true) => unsafe {
                    self.quads::<true, true, true>(&quads, &columns, largest)
                },
                // SAFETY: as said.
                (true, false, false, false) => unsafe {
                    self.quads::<false, false, false>(&quads, &columns, largest)
                },
                // SAFETY: as said.
                (true, false, true, false) => unsafe {
                    self.quads::<false, true, false>(&quads, &columns, largest)
                },
                // SAFETY: as said.
                (true, false, false, true) => unsafe {
                    self.quads::<false, false, true>(&quads, &columns, largest)
                },
                // SAFETY: as said.
                (true, false, true, true) => unsafe {
                    self.quads::<false, true, true>(&quads, &columns, largest)
                },
                // SAFETY: as said.
                (false, ..) => unsafe { self.elements(&rows, &quads, &columns, largest) },
            };
            subtile += 1;
        }
        // SAFETY: the whole warpgroup is here.
        unsafe { self.finish.raise(largest) };
    }

    /// Finishes and stores a thread's runs of four columns, each by one instruction; `OLD` where beta is not
    /// zero, `SMOOTH` where there is an activation with exponentials, `BY_ROW` where something may depend on the
    /// row or the largest magnitude is asked for. The larger of a magnitude and theirs.
    ///
    /// # Safety
    /// The sums are in the staging buffers; the runs are in C, at multiples of their size there and in what beta
    /// multiplies, and belong to this thread.
    #[inline(always)]
    unsafe fn quads<const OLD: bool, const SMOOTH: bool, const BY_ROW: bool>(
        &self,
        quads: &Quads,
        columns: &Columns,
        largest: u32,
    ) -> u32 {
        let Quads { row, col, count, .. } = *quads;
        let place = |ld: u64| (u64::from(row) * ld) as usize + col as usize;
        let (c_step, old_step) = ((8 * self.ldc) as usize, (8 * self.finish.old_ld) as usize);
        let mut to = self.c.wrapping_add(place(self.ldc));
        let mut old_at = self.finish.old.wrapping_add(place(self.finish.old_ld));
        let scalars = (self.alpha, if OLD { self.beta } else { 0.0 });
        let mut largest = largest;
        let mut done = 0;
        while done < count {
            let (mut old, mut values) = ([[0.0; 4]; 2], [[0.0; 4]; 2]);
            if OLD {
                // Both reads before the first write: each would wait for memory.
                unroll!(for R in 0..2 {
                    if done + (R as u32) < count {
                        // SAFETY: the caller's promise.
                        old[R] = unsafe { N::read_quad(old_at.wrapping_add(R * old_step)) };
                    }
                });
            }
            unroll!(for R in 0..2 {
                // A row below C is read as the last one, and not stored.
                let at = (done + R as u32).min(count - 1);
                // SAFETY: written before the barrier.
                let Quad(acc) = unsafe { quads.from.wrapping_add(8 * 16 * at as usize).read() };
                let row = row + 8 * at;
                // SAFETY: the row is in C.
                values[R] =
                    unsafe { self.finish.scaled::<BY_ROW>(row, columns, scalars, acc, old[R]) };
            });
            if SMOOTH {
                let curve = Curve::of(self.finish.fusion);
                unroll!(for R in 0..2 {
                    values[R] = activate_smoothly(&curve, values[R]);
                });
            } else if self.finish.has(RELU) {
                unroll!(for R in 0..2 {
                    unroll!(for J in 0..4 {
                        values[R][J] = relu(values[R][J]);
                    });
                });
            }
            unroll!(for R in 0..2 {
                if done + (R as u32) < count {
                    // SAFETY: the caller's promise.
                    unsafe { N::write_quad(to.wrapping_add(R * c_step), values[R]) };
                    if BY_ROW {
                        largest = self.finish.larger(largest, col, self.n, values[R]);
                    }
                }
            });
            to = to.wrapping_add(2 * c_step);
            old_at = old_at.wrapping_add(2 * old_step);
            done += 2;
        }
        largest
    }

    /// The same for any address and any pitch, element by element.
    ///
    /// # Safety
    /// The sums are in the staging buffers; the runs' rows are in C, and the elements belong to this thread.
    #[inline(always)]
    unsafe fn elements(
        &self,
        rows: &Rows<N>,
        quads: &Quads,
        columns: &Columns,
        largest: u32,
    ) -> u32 {
        let (col, mut largest, mut done) = (quads.col, largest, 0);
        while done < quads.count {
            let row = quads.row + 8 * done;
            // SAFETY: the caller's promise.
            let old = unsafe { self.finish.old(row, col, self.n, self.beta) };
            // SAFETY: written before the barrier.
            let Quad(acc) = unsafe { quads.from.wrapping_add(8 * 16 * done as usize).read() };
            let (place, given) = ((row, col), (acc, old));
            // SAFETY: the caller's promise.
            largest = unsafe { rows.finish_quad(&self.finish, place, given, columns, largest) };
            done += 1;
        }
        largest
    }

    /// Leaves the accumulators of 64 columns, those of that subtile, in the staging buffers.
    ///
    /// # Safety
    /// Nobody else uses the buffers.
    #[inline(always)]
    unsafe fn leave<const N16: usize>(&self, acc: &Accumulators<N16>, subtile: usize) {
        let (own_row, own_col) = accumulator_coord(self.thread_in_warpgroup, 0);
        // Rows that are eight apart have their pairs at the same places.
        let own =
            self.staging.cast::<F32Pair>().wrapping_add((own_row * 32 + own_col / 2) as usize);
        unroll!(for G in 0..4 {
            let chunk = &acc[(4 * subtile + G) % N16];
            unroll!(for O in 0..2 {
                let group = (2 * G + O) as u32 ^ (own_row % 8);
                let at = own.wrapping_add(4 * group as usize);
                unroll!(for H in 0..2 {
                    let pair = F32Pair([chunk[4 * O + 2 * H], chunk[4 * O + 2 * H + 1]]);
                    // SAFETY: the element belongs to this thread.
                    unsafe { at.wrapping_add(8 * 32 * H).write(pair) };
                });
            });
        });
    }

    /// The place of a pair of columns: rows of 256 bytes in which groups of four pairs are XORed
    /// with the row's number, so that eight rows of one group cover all banks.
    #[inline(always)]
    fn pair(&self, row: u32, pair: u32) -> Shared<F32Pair> {
        self.staging.cast::<F32Pair>().wrapping_add((row * 32 + (pair ^ (row % 8 * 4))) as usize)
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
                let F32Pair(acc) = unsafe { self.pair(row, lane).read() };
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
