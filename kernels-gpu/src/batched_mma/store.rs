//! C of a group: by way of shared memory, where lines are as in global memory, or element by element.

use cuda_std::memory::{GlobalMut, Shared, global_mut};
use cuda_std::opaque::opaque;
use cuda_std::thread;
use gemm_spec::index::ceil_div;
use gemm_spec::params::BatchedParams;

use super::lines::{Raw, each_unit};
use super::multiply::Acc;
use crate::parts::group::Work;
use crate::parts::number::Output;
use crate::parts::quad::Quad;
use crate::parts::unroll::unroll;

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
    /// Where the group is in shared memory, and how.
    room: Shared<O>,
    raw: Raw,
    /// Elements from a multiple of 16 bytes to the first.
    misfit: u32,
    /// Whether lines are one behind the other in global memory.
    is_one_piece: bool,
    /// Whether columns of even numbers begin words of two elements.
    in_twos: bool,
}

impl<O: Output<Acc = f32>> Target<O> {
    /// Elements of 16 bytes.
    const PACKET: u32 = 16 / size_of::<O>() as u32;

    /// That of `work`, with shared memory at `room`.
    #[inline(always)]
    pub(super) fn new(params: &BatchedParams<f32>, work: &Work, room: Shared<O>) -> Self {
        let &BatchedParams { m, ldc, c_stride, alpha, beta, .. } = params;
        let &Work { first, products, row0, rows, col0, cols, .. } = work;
        let offset = u64::from(first) * c_stride + u64::from(row0) * ldc + u64::from(col0);
        let size = size_of::<O>() as u32;
        // SAFETY: the kernel writes C.
        let c = unsafe { global_mut(params.c) }.cast::<O>().wrapping_add(offset as usize);
        let address = params.c.addr() as u64 + offset * u64::from(size);
        let misfit = (address % 16) as u32 / size;
        let is_one_piece = (rows == 1 || ldc == u64::from(cols))
            && (products == 1 || rows == m && c_stride == u64::from(m) * u64::from(cols));
        let raw = if is_one_piece {
            Raw::one_piece(Self::PACKET, misfit, (rows, cols))
        } else {
            Raw::by_lines(Self::PACKET, misfit, (ldc, c_stride), (rows, cols))
        };
        let in_twos = misfit.is_multiple_of(2)
            && (rows == 1 || ldc.is_multiple_of(2))
            && (products == 1 || c_stride.is_multiple_of(2))
            && (!is_one_piece || cols.is_multiple_of(2));
        let stride = c_stride;
        Self {
            c,
            ldc,
            stride,
            products,
            rows,
            cols,
            alpha,
            beta,
            room,
            raw,
            misfit,
            is_one_piece,
            in_twos,
        }
    }

    /// Scales sums that are stored without an old C: here, and not where each is stored, with a load of alpha.
    #[inline(always)]
    pub(super) fn scale(&self, acc: &mut Acc) {
        if self.alpha == 1.0 {
            return;
        }
        unroll!(for I in 0..2 {
            unroll!(for J in 0..8 {
                acc[I][J] = acc[I][J].map(|acc| {
                    let new = gemm_spec::epilogue::<f32, f32>(self.alpha, acc, 0.0, || 0.0);
                    f32::from_bits(opaque(new.to_bits()))
                });
            });
        });
    }

    /// Puts a part of a product's tile, which begins at that row and column, in shared memory.
    ///
    /// # Safety
    /// There is room for the group, nobody else accesses the part's elements, and all lanes of the warp are here.
    #[inline(always)]
    pub(super) unsafe fn put_in_room(
        &self,
        acc: &Acc,
        (product, row, col): (u32, u32, u32),
        lane: u32,
    ) {
        let (row, col) = (row + lane / 4, col + lane % 4 * 2);
        // Columns from the lane's first to the end of the tile.
        let cols = self.cols.saturating_sub(col);
        unroll!(for R in 0..4 {
            let row = row + 8 * R as u32;
            if row < self.rows {
                let place = self.room.wrapping_add((self.raw.line(product, row) + col) as usize);
                if self.in_twos {
                    unroll!(for J in 0..8 {
                        if 8 * (J as u32) < cols {
                            let [first, second] = two(acc, R, J);
                            let place = place.wrapping_add(8 * J).cast::<O::Two>();
                            // SAFETY: the two are in the room for C, at a multiple of their size, and this lane's.
                            unsafe { place.write(O::two([first, second])) };
                        }
                    });
                } else {
                    unroll!(for J in 0..8 {
                        let [first, second] = two(acc, R, J);
                        let place = place.wrapping_add(8 * J);
                        if 8 * (J as u32) < cols {
                            // SAFETY: the element is in the room for C, and this lane's.
                            unsafe { place.write(O::narrow(first)) };
                        }
                        if 8 * (J as u32) + 1 < cols {
                            // SAFETY: the same.
                            unsafe { place.wrapping_add(1).write(O::narrow(second)) };
                        }
                    });
                }
            }
        });
    }

    /// Puts a part of a product's tile, which begins at that row and column, in C.
    ///
    /// # Safety
    /// The tile is valid for C, and the part is this warp's.
    #[inline(always)]
    pub(super) unsafe fn put(&self, acc: &Acc, (product, row, col): (u32, u32, u32), lane: u32) {
        let (row, col) = (row + lane / 4, col + lane % 4 * 2);
        let cols = self.cols.saturating_sub(col);
        let mut place = self.element(product, row, col);
        unroll!(for R in 0..4 {
            if row + 8 * (R as u32) < self.rows {
                unroll!(for J in 0..8 {
                    let pair = two(acc, R, J);
                    unroll!(for E in 0..2 {
                        if ((8 * J + E) as u32) < cols {
                            // SAFETY: the caller's promise; the element is in the tile.
                            unsafe { self.put_one(place.wrapping_add(8 * J + E), pair[E]) };
                        }
                    });
                });
            }
            place = place.wrapping_add(8 * self.ldc as usize);
        });
    }

    /// The place of an element in global memory.
    #[inline(always)]
    fn element(&self, product: u32, row: u32, col: u32) -> GlobalMut<O> {
        let offset = u64::from(product) * self.stride + u64::from(row) * self.ldc + u64::from(col);
        self.c.wrapping_add(offset as usize)
    }

    /// One element.
    ///
    /// # Safety
    /// [`Target::put`]'s; it is in the tile.
    #[inline(always)]
    unsafe fn put_one(&self, place: GlobalMut<O>, acc: f32) {
        // SAFETY: in C.
        let old = || unsafe { place.read() }.old();
        let new = O::narrow(gemm_spec::epilogue::<f32, f32>(self.alpha, acc, self.beta, old));
        // SAFETY: the same, and it is this lane's.
        unsafe { place.write(new) };
    }

    /// Copies what is in shared memory to C.
    ///
    /// # Safety
    /// The group is valid for C, and its elements are there, written before a barrier.
    #[inline(always)]
    pub(super) unsafe fn flush(&self, thread: u32) {
        if self.is_one_piece {
            let end = self.misfit + self.products * self.rows * self.cols;
            let mut first = thread * Self::PACKET;
            while first < end {
                // SAFETY: the caller's promise; no other thread has the packet.
                unsafe { self.packet((self.room, self.c), first, (self.misfit, end)) };
                first += thread::block_dim_x() * Self::PACKET;
            }
            return;
        }
        let units = ceil_div(self.cols + Self::PACKET - 1, Self::PACKET);
        each_unit((self.products, self.rows, units), thread, |product, row, unit| {
            let misfit = self.raw.misfit(product, row);
            let room = self.room.wrapping_add((self.raw.line(product, row) - misfit) as usize);
            let (first, line) = (unit * Self::PACKET, self.element(product, row, 0));
            // SAFETY: the caller's promise; no other thread has the packet.
            unsafe { self.packet((room, line), first, (misfit, misfit + self.cols)) };
        });
    }

    /// Copies the packet at an element of a line that is in shared memory from `begin` to `end`.
    ///
    /// # Safety
    /// [`Target::flush`]'s; no other thread has the packet.
    #[inline(always)]
    unsafe fn packet(
        &self,
        (room, line): (Shared<O>, GlobalMut<O>),
        first: u32,
        (begin, end): (u32, u32),
    ) {
        let place = |at: u32| line.wrapping_add((at as usize).wrapping_sub(begin as usize));
        if first >= begin && first + Self::PACKET <= end {
            let from = room.wrapping_add(first as usize).cast::<Quad<u32>>();
            // SAFETY: a packet of the line, aligned in both memories.
            let packet = unsafe { from.read() };
            // SAFETY: the same.
            unsafe { place(first).cast::<Quad<u32>>().write(packet) };
            return;
        }
        let mut at = first.max(begin);
        while at < end.min(first + Self::PACKET) {
            // SAFETY: an element of the line.
            let element = unsafe { room.wrapping_add(at as usize).read() };
            // SAFETY: the same.
            unsafe { place(at).write(element) };
            at = opaque(at + 1);
        }
    }
}

/// A lane's two neighbours of a row, which is one of four, of a tile of 8 columns.
#[inline(always)]
fn two(acc: &Acc, row: usize, tile: usize) -> [f32; 2] {
    let [low, low_next, high, high_next] = acc[row / 2][tile];
    if row.is_multiple_of(2) { [low, low_next] } else { [high, high_next] }
}
