//! A warp's part of C: fragments gathered from shared memory, and their products.
//!
//! A lane's fragments are pairs of neighbours in k. Where k and n are even, a pair of A is a word, and two words of
//! neighbouring rows of B have the pairs of two neighbouring columns. Otherwise each element is read by itself, and
//! the lane's k elements are eight neighbours of 32, which the tensor cores take as well as any others: so lanes read
//! from different banks whatever the length of an odd line.
//!
//! ```text
//!   k elements of lane q of four     in pairs   2q, 2q+1, 2q+8, 2q+9 of sixteen
//!                                    else       8q .. 8q+4 of 32, and 8q+4 .. 8q+8
//! ```

use cuda_std::memory::SharedAddress;
use gemm_spec::batched_mma::PART;

use super::Factor;
use crate::parts::number::Bits;
use crate::parts::unroll::unroll;

/// A lane's accumulators: for 16 rows each the tiles of 8 columns.
pub(super) type Acc = [[[f32; 4]; 4]; 2];

pub(super) const ZERO: Acc = [[[0.0; 4]; 4]; 2];

/// What a warp multiplies, in shared memory.
pub(super) struct Operands {
    /// The first element of the part's rows of A, and of its columns of B.
    pub(super) a: SharedAddress<Bits>,
    pub(super) b: SharedAddress<Bits>,
    /// Elements from one row to the next.
    pub(super) a_pitch: u32,
    pub(super) b_pitch: u32,
    /// Rows and columns that are in the tile, from the part's first on.
    pub(super) rows: u32,
    pub(super) cols: u32,
    /// k elements.
    pub(super) steps: u32,
    pub(super) lane: u32,
}

impl Operands {
    /// Adds the products.
    ///
    /// # Safety
    /// The operands are there, written before a barrier, and behind B [`BEHIND`](gemm_spec::batched_mma::BEHIND)
    /// numbers more; pairs begin at multiples of four bytes; all lanes of the warp are here.
    #[inline(always)]
    pub(super) unsafe fn add<F: Factor>(&self, acc: &mut Acc, in_pairs: bool) {
        match (in_pairs, self.rows > 16, self.cols > PART / 2) {
            // SAFETY: the caller's promise, in each of the eight.
            (true, true, true) => unsafe { self.pairs::<F, 2, 4>(acc) },
            // SAFETY: the same.
            (true, true, false) => unsafe { self.pairs::<F, 2, 2>(acc) },
            // SAFETY: the same.
            (true, false, true) => unsafe { self.pairs::<F, 1, 4>(acc) },
            // SAFETY: the same.
            (true, false, false) => unsafe { self.pairs::<F, 1, 2>(acc) },
            // SAFETY: the same.
            (false, true, true) => unsafe { self.single::<F, 2, 4>(acc) },
            // SAFETY: the same.
            (false, true, false) => unsafe { self.single::<F, 2, 2>(acc) },
            // SAFETY: the same.
            (false, false, true) => unsafe { self.single::<F, 1, 4>(acc) },
            // SAFETY: the same.
            (false, false, false) => unsafe { self.single::<F, 1, 2>(acc) },
        }
    }

    /// The lane's rows of A, from a k element on; those outside of the tile are its last.
    #[inline(always)]
    fn rows_of_a(&self, k: u32) -> [SharedAddress<Bits>; 4] {
        [0, 1, 2, 3].map(|at| {
            let row = (8 * at + self.lane / 4).min(self.rows - 1);
            self.a.wrapping_add((row * self.a_pitch + k) as usize)
        })
    }

    /// An element of B.
    #[inline(always)]
    fn of_b(&self, k: u32, col: u32) -> SharedAddress<Bits> {
        self.b.wrapping_add((k * self.b_pitch + col) as usize)
    }

    /// Reads words of two.
    ///
    /// # Safety
    /// [`Operands::add`]'s.
    #[inline(always)]
    unsafe fn pairs<F: Factor, const ROWS: usize, const COLS: usize>(&self, acc: &mut Acc) {
        let (group, quarter) = (self.lane / 4, self.lane % 4);
        let mut a = self.rows_of_a(2 * quarter);
        let mut b = [0, 1, 8, 9].map(|k| self.of_b(2 * quarter + k, 2 * group));
        let mut left = self.steps;
        while left >= 16 {
            let step = Pairs { a, k: [0, 8], b, counts: [true; 2] };
            // SAFETY: the caller's promise; sixteen k elements are left.
            unsafe { step.add::<F, ROWS, COLS>(acc) };
            a = a.map(|at| at.wrapping_add(16));
            b = b.map(|at| at.wrapping_add(16 * self.b_pitch as usize));
            left -= 16;
        }
        if left > 0 {
            // Those that are not left are read as the first of these sixteen, and do not count.
            let done = self.steps - left;
            let counts = [0, 8].map(|k| 2 * quarter + k < left);
            let k = [0, 8].map(|k| if 2 * quarter + k < left { 2 * quarter + k } else { 0 });
            let a = self.rows_of_a(done);
            let row = |k: u32| self.of_b(done + k, 2 * group);
            let b = [row(k[0]), row(k[0] + 1), row(k[1]), row(k[1] + 1)];
            // SAFETY: the caller's promise.
            unsafe { Pairs { a, k, b, counts }.add::<F, ROWS, COLS>(acc) };
        }
    }

    /// Reads elements one by one.
    ///
    /// # Safety
    /// [`Operands::add`]'s.
    #[inline(always)]
    unsafe fn single<F: Factor, const ROWS: usize, const COLS: usize>(&self, acc: &mut Acc) {
        let (group, quarter) = (self.lane / 4, self.lane % 4);
        let mut a = self.rows_of_a(8 * quarter);
        let mut b = self.of_b(8 * quarter, group);
        let mut left = self.steps;
        while left >= 32 {
            let mut row = b;
            unroll!(for T in 0..2 {
                let rows = [0, 1, 2, 3].map(|_| {
                    let this = row;
                    row = row.wrapping_add(self.b_pitch as usize);
                    this
                });
                let k = [0, 1, 2, 3].map(|k| 4 * T as u32 + k);
                // SAFETY: the caller's promise; 32 k elements are left.
                unsafe { Single { a, k, b: rows, counts: [true; 4] }.add::<F, ROWS, COLS>(acc) };
            });
            a = a.map(|at| at.wrapping_add(32));
            b = b.wrapping_add(32 * self.b_pitch as usize);
            left -= 32;
        }
        let mut first = 0;
        // Of lanes whose k elements begin with the fifth of eight none has one.
        while first < 8 && first < left {
            let done = self.steps - left;
            let is_left = |k: u32| 8 * quarter + first + k < left;
            let counts = [0, 1, 2, 3].map(is_left);
            let k = [0, 1, 2, 3].map(|k| if is_left(k) { 8 * quarter + first + k } else { 0 });
            let a = self.rows_of_a(done);
            let b = k.map(|k| self.of_b(done + k, group));
            // SAFETY: the caller's promise.
            unsafe { Single { a, k, b, counts }.add::<F, ROWS, COLS>(acc) };
            first += 4;
        }
    }
}

/// Where a lane reads words of sixteen k elements, and which count: at the first of two places in k and the second.
struct Pairs {
    /// Its rows of A, and the two places in them.
    a: [SharedAddress<Bits>; 4],
    k: [u32; 2],
    /// Its columns in two rows of B for each place.
    b: [SharedAddress<Bits>; 4],
    counts: [bool; 2],
}

impl Pairs {
    /// Adds the products.
    ///
    /// # Safety
    /// The elements are in shared memory, written before a barrier; all lanes of the warp are here.
    #[inline(always)]
    unsafe fn add<F: Factor, const ROWS: usize, const COLS: usize>(&self, acc: &mut Acc) {
        let word = |at: SharedAddress<Bits>, place: usize| {
            // SAFETY: the caller's promise.
            let word = unsafe { at.cast::<u32>().read() };
            if self.counts[place] { word } else { 0 }
        };
        let mut of_a = [[0; 4]; 2];
        unroll!(for I in 0..2 {
            if I < ROWS {
                unroll!(for H in 0..4 {
                    let at = self.a[2 * I + H % 2].wrapping_add(self.k[H / 2] as usize);
                    of_a[I][H] = word(at, H / 2);
                });
            }
        });
        unroll!(for J in 0..2 {
            if 2 * J < COLS {
                let mut of_b = [[0; 2]; 2];
                unroll!(for H in 0..2 {
                    let first = word(self.b[2 * H].wrapping_add(16 * J), H);
                    let second = word(self.b[2 * H + 1].wrapping_add(16 * J), H);
                    of_b[0][H] = first & 0xffff | second << 16;
                    of_b[1][H] = first >> 16 | second & 0xffff_0000;
                });
                unroll!(for E in 0..2 {
                    unroll!(for I in 0..2 {
                        if I < ROWS {
                            // SAFETY: the caller's promise.
                            unsafe { F::add(&mut acc[I][2 * J + E], of_a[I], of_b[E]) };
                        }
                    });
                });
            }
        });
    }
}

/// Where a lane reads the elements of sixteen k elements, and which count: at four places in k.
struct Single {
    /// Its rows of A, and the places in them.
    a: [SharedAddress<Bits>; 4],
    k: [u32; 4],
    /// Its first column in the row of B of each place.
    b: [SharedAddress<Bits>; 4],
    counts: [bool; 4],
}

impl Single {
    /// Adds the products.
    ///
    /// # Safety
    /// The elements are in shared memory, written before a barrier; all lanes of the warp are here.
    #[inline(always)]
    unsafe fn add<F: Factor, const ROWS: usize, const COLS: usize>(&self, acc: &mut Acc) {
        let half = |at: SharedAddress<Bits>, place: usize| {
            // SAFETY: the caller's promise.
            let half = u32::from(unsafe { at.cast::<u16>().read() });
            if self.counts[place] { half } else { 0 }
        };
        let mut of_a = [[0; 4]; 2];
        unroll!(for I in 0..2 {
            if I < ROWS {
                unroll!(for H in 0..4 {
                    let place = 2 * (H / 2);
                    let of = |place: usize| {
                        half(self.a[2 * I + H % 2].wrapping_add(self.k[place] as usize), place)
                    };
                    of_a[I][H] = of(place) | of(place + 1) << 16;
                });
            }
        });
        unroll!(for J in 0..4 {
            if J < COLS {
                let mut of_b = [0; 2];
                unroll!(for H in 0..2 {
                    let of = |place: usize| half(self.b[place].wrapping_add(8 * J), place);
                    of_b[H] = of(2 * H) | of(2 * H + 1) << 16;
                });
                unroll!(for I in 0..2 {
                    if I < ROWS {
                        // SAFETY: the caller's promise.
                        unsafe { F::add(&mut acc[I][J], of_a[I], of_b) };
                    }
                });
            }
        });
    }
}
