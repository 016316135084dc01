//! C of a group: four neighbours at a time where rows allow it, else by way of shared memory in the layout of
//! global memory, else one by one.

use cuda_std::memory::{GlobalMut, Shared, global_mut};
use cuda_std::opaque::opaque;
use cuda_std::thread;
use gemm_spec::batched_mma::Partition;
use gemm_spec::params::BatchedParams;

use super::multiply::Acc;
use crate::parts::group::Work;
use crate::parts::number::Output;
use crate::parts::quad::Quad;
use crate::parts::unroll::unroll;

/// How a block's elements of C get to global memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// In fours.
    Fours,
    /// From shared memory, in the layout of global memory.
    Flat,
    Single,
}

/// C of what a block has.
pub(super) struct Target<O> {
    /// The first element of the first product's tile.
    c: GlobalMut<O>,
    ldc: u64,
    stride: u64,
    products: u32,
    rows: u32,
    cols: u32,
    alpha: f32,
    beta: f32,
    way: Way,
    /// Where the group is in shared memory, as many elements behind a multiple of 16 bytes as in global memory.
    flat: Shared<O>,
    misfit: u32,
}

impl<O: Output<Acc = f32>> Target<O> {
    /// Elements of 16 bytes.
    const PACKET: u32 = 16 / size_of::<O>() as u32;

    /// That of `work`, with shared memory at `flat` for as much as the partition says.
    #[inline(always)]
    pub(super) fn new(
        params: &BatchedParams<f32>,
        partition: &Partition,
        work: &Work,
        flat: Shared<O>,
    ) -> Self {
        let &BatchedParams { m, n, ldc, c_stride, alpha, beta, .. } = params;
        let &Work { first, products, row0, rows, col0, cols, .. } = work;
        let offset = u64::from(first) * c_stride + u64::from(row0) * ldc + u64::from(col0);
        let size = size_of::<O>() as u32;
        // SAFETY: the kernel writes C.
        let c = unsafe { global_mut(params.c) }.cast::<O>().wrapping_add(offset as usize);
        let address = params.c.addr() as u64 + offset * u64::from(size);
        let in_fours = c.cast::<O::Four>().is_aligned()
            && ldc.is_multiple_of(4)
            && c_stride.is_multiple_of(4)
            && n.is_multiple_of(4)
            && params.k.is_multiple_of(2);
        let is_one_piece = ldc == u64::from(n)
            && rows == m
            && cols == n
            && (products == 1 || c_stride == u64::from(m) * ldc);
        let way = if in_fours {
            Way::Fours
        } else if beta == 0.0 && is_one_piece && partition.c_bytes(size) > 0 {
            Way::Flat
        } else {
            Way::Single
        };
        let misfit = (address % 16) as u32 / size;
        let stride = c_stride;
        Self { c, ldc, stride, products, rows, cols, alpha, beta, way, flat, misfit }
    }

    /// Scales sums that are stored without an old C: here, and not where each is stored, with a load of alpha.
    #[inline(always)]
    fn scale(&self, acc: &mut Acc) {
        if self.beta == 0.0 {
            unroll!(for I in 0..2 {
                unroll!(for J in 0..4 {
                    acc[I][J] = acc[I][J].map(|acc| {
                        let new = gemm_spec::epilogue::<f32, f32>(self.alpha, acc, 0.0, || 0.0);
                        f32::from_bits(opaque(new.to_bits()))
                    });
                });
            });
        }
    }

    /// What is stored for a sum, which is scaled already where there is no old C.
    #[inline(always)]
    fn value(&self, acc: f32, old: impl FnOnce() -> f32) -> f32 {
        if self.beta == 0.0 {
            return acc;
        }
        gemm_spec::epilogue::<f32, f32>(self.alpha, acc, self.beta, old)
    }

    /// Puts a part of a product's tile, which begins at that row and column, where it goes. The sums are used up.
    ///
    /// # Safety
    /// The tile is valid for C, and the part is this warp's; nobody reads shared memory at the same time.
    #[inline(always)]
    pub(super) unsafe fn put(
        &self,
        acc: &mut Acc,
        (product, row, col): (u32, u32, u32),
        in_pairs: bool,
        lane: u32,
    ) {
        self.scale(acc);
        let (group, quarter) = (lane / 4, lane % 4);
        let (row, first) = (row + group, if in_pairs { 4 * quarter } else { 2 * quarter });
        // Rows and columns from the lane's first to the end of the tile.
        let rows = self.rows.saturating_sub(row);
        let cols = self.cols.saturating_sub(col + first);
        if self.way == Way::Flat {
            let at = self.misfit + (product * self.rows + row) * self.cols + col + first;
            let place = self.flat.wrapping_add(at as usize);
            let (next, other) = if in_pairs { (2, 1) } else { (1, 8) };
            // SAFETY: the caller's promise.
            unsafe { self.put_flat(acc, place, (rows, cols), (next, other)) };
            return;
        }
        let mut place = self.place((product, row, col + first));
        unroll!(for R in 0..4 {
            if 8 * (R as u32) < rows {
                unroll!(for J in 0..2 {
                    let half = 2 * (R % 2);
                    let [one, other] = [acc[R / 2][2 * J], acc[R / 2][2 * J + 1]];
                    let place = place.wrapping_add(16 * J);
                    let left = cols.saturating_sub(16 * J as u32);
                    if self.way == Way::Fours {
                        if left > 0 {
                            let four = [one[half], other[half], one[half + 1], other[half + 1]];
                            // SAFETY: the caller's promise; the columns are in the tile, as the first is.
                            unsafe { self.put_four(place, four) };
                        }
                    } else {
                        unroll!(for E in 0..4 {
                            let (next, tile) = (E as u32 % 2, E as u32 / 2);
                            let behind = if in_pairs { 2 * next + tile } else { next + 8 * tile };
                            if behind < left {
                                let of_tile = if E < 2 { one } else { other };
                                let place = place.wrapping_add(behind as usize);
                                // SAFETY: the caller's promise; the column is in the tile.
                                unsafe { self.put_one(place, of_tile[half + E % 2]) };
                            }
                        });
                    }
                });
            }
            place = place.wrapping_add(8 * self.ldc as usize);
        });
    }

    /// Puts a part where it is in shared memory: the lane's first element at `place`, its neighbour `next` columns
    /// behind it, and that of the other tile of 8 columns `other` behind it.
    ///
    /// # Safety
    /// [`Target::put`]'s; `rows` and `cols` of the tile are left.
    #[inline(always)]
    unsafe fn put_flat(
        &self,
        acc: &Acc,
        place: Shared<O>,
        (rows, cols): (u32, u32),
        (next, other): (u32, u32),
    ) {
        // The places of the row's eight elements, and whether they are in the tile.
        let behind = [0, next, other, other + next];
        let is_in = [0, 16].map(|tile| behind.map(|behind| tile + behind < cols));
        let mut places = behind.map(|behind| place.wrapping_add(behind as usize));
        unroll!(for R in 0..4 {
            unroll!(for J in 0..2 {
                unroll!(for E in 0..4 {
                    let sum = acc[R / 2][2 * J + E / 2][2 * (R % 2) + E % 2];
                    if is_in[J][E] && 8 * (R as u32) < rows {
                        // SAFETY: the element is in the room for C, and this lane's.
                        unsafe { places[E].wrapping_add(16 * J).write(O::narrow(sum)) };
                    }
                });
            });
            places = places.map(|place| place.wrapping_add(8 * self.cols as usize));
        });
    }

    /// The place of an element in global memory.
    #[inline(always)]
    fn place(&self, (product, row, col): (u32, u32, u32)) -> GlobalMut<O> {
        let offset = u64::from(product) * self.stride + u64::from(row) * self.ldc + u64::from(col);
        self.c.wrapping_add(offset as usize)
    }

    /// Four neighbours.
    ///
    /// # Safety
    /// [`Target::put`]'s; they are in the tile.
    #[inline(always)]
    unsafe fn put_four(&self, place: GlobalMut<O>, acc: [f32; 4]) {
        let place = place.cast::<O::Four>();
        let mut new = acc;
        if self.beta != 0.0 {
            // SAFETY: four neighbours in C, aligned.
            let old = O::old_four(unsafe { place.read() });
            unroll!(for E in 0..4 {
                new[E] = self.value(acc[E], || old[E]);
            });
        }
        // SAFETY: the same, and they are this lane's.
        unsafe { place.write(O::four(new)) };
    }

    /// One element.
    ///
    /// # Safety
    /// [`Target::put`]'s; it is in the tile.
    #[inline(always)]
    unsafe fn put_one(&self, place: GlobalMut<O>, acc: f32) {
        // SAFETY: in C.
        let new = O::narrow(self.value(acc, || unsafe { place.read() }.old()));
        // SAFETY: the same, and it is this lane's.
        unsafe { place.write(new) };
    }

    /// Copies what is in shared memory to C.
    ///
    /// # Safety
    /// The group is valid for C, and its elements are there, written before a barrier.
    #[inline(always)]
    pub(super) unsafe fn flush(&self, thread: u32) {
        if self.way != Way::Flat {
            return;
        }
        let end = self.misfit + self.products * self.rows * self.cols;
        let place = |at: u32| self.c.wrapping_add((at - self.misfit) as usize);
        let mut first = thread * Self::PACKET;
        while first < end {
            if first >= self.misfit && first + Self::PACKET <= end {
                let from = self.flat.wrapping_add(first as usize).cast::<Quad<u32>>();
                // SAFETY: a packet of the group, aligned in both memories; no other thread has it.
                let packet = unsafe { from.read() };
                // SAFETY: the same.
                unsafe { place(first).cast::<Quad<u32>>().write(packet) };
            } else {
                let mut at = first.max(self.misfit);
                while at < end.min(first + Self::PACKET) {
                    // SAFETY: an element of the group, and no other thread has it.
                    let element = unsafe { self.flat.wrapping_add(at as usize).read() };
                    // SAFETY: the same.
                    unsafe { place(at).write(element) };
                    at = opaque(at + 1);
                }
            }
            first += opaque(thread::block_dim_x()) * Self::PACKET;
        }
    }
}
