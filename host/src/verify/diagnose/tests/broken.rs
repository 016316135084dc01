//! A tiled product in plain loops, with a mistake of one's choice.

#![expect(clippy::wildcard_enum_match_arm, reason = "each step names the mistakes that change it")]

use gemm_spec::{Convert, Element, GemmTypes, Layout, Operand, Problem, epilogue};

use super::super::pattern::Axis;
use crate::fill::{Distribution, fill};
use crate::scalar::{Scalar, ScalarTypes};

/// The mistake.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mistake {
    None,
    TransposedResult,
    TransposedOperand(Operand),
    TransposedInTiles(Operand),
    LastTileOnly,
    TailMissing,
    BlockAxesSwapped,
    GridAxesSwapped,
    OffsetMissing {
        axis: Axis,
        block: usize,
        stored: bool,
    },
    OldC,
    RunningSum,
    EarlierTiles(Axis),
    FirstBarrier {
        ascending: bool,
        together: usize,
    },
    SecondBarrier {
        ascending: bool,
        together: usize,
    },
    GridTruncated,
    /// A leading dimension that is off by so much.
    Ld(Operand, isize),
    Alpha(f64),
    Beta(f64),
    Nan,
    BitFlip,
    ShortInputs,
    StoreWithoutGuard,
}

/// A type of A, B and C at once, which stands for such products.
pub(super) trait OneType:
    ScalarTypes<A = Self, B = Self, C = Self> + Scalar + Convert<<Self as GemmTypes>::Acc>
{
}

impl<T> OneType for T where
    T: ScalarTypes<A = T, B = T, C = T> + Scalar + Convert<<T as GemmTypes>::Acc>
{
}

/// A problem with its operands; padding is poison.
pub(super) struct Setup<T: ScalarTypes> {
    pub(super) problem: Problem<T>,
    pub(super) a: Vec<T::A>,
    pub(super) b: Vec<T::B>,
    /// What C holds before.
    pub(super) before: Vec<T::C>,
    pub(super) width: usize,
    distribution: Distribution,
}

/// A tile in shared memory.
type Tile<T> = Vec<Vec<T>>;

impl<T: OneType> Setup<T> {
    pub(super) fn new(
        (m, n, k): (usize, usize, usize),
        width: usize,
        padding: usize,
        (alpha, beta): (f64, f64),
        distribution: Distribution,
    ) -> Self {
        let row = Layout::row_major;
        let problem = Problem::<T>::new(m, n, k)
            .with_scalars(T::Acc::from_f64(alpha), T::Acc::from_f64(beta))
            .with_layouts(row(k + padding), row(n + 2 * padding), row(n + padding));
        let filled = |operand: Operand, distribution| {
            let (rows, cols) = problem.dims(operand);
            let ld = problem.layout(operand).ld;
            let mut data = vec![T::from_f64(-3.0); rows * ld];
            fill(&mut data, cols, ld, distribution, 5, operand as u64);
            data
        };
        Self {
            problem,
            a: filled(Operand::A, distribution),
            b: filled(Operand::B, distribution),
            before: filled(Operand::C, Distribution::Normal),
            width,
            distribution,
        }
    }

    /// Whether the mistake shows on this problem, and as itself.
    pub(super) fn shows(&self, mistake: Mistake) -> bool {
        let Problem { m, n, k, .. } = self.problem;
        let (w, beta) = (self.width, self.problem.beta.to_f64());
        match mistake {
            Mistake::TailMissing => k % w != 0,
            // With beta the old C is scaled again and again.
            Mistake::RunningSum => beta == 0.0 && k > w,
            Mistake::FirstBarrier { together, .. } | Mistake::SecondBarrier { together, .. } => {
                w * w > together
            }
            Mistake::GridTruncated => m % w != 0 || n % w != 0,
            Mistake::GridAxesSwapped => {
                m.div_ceil(w) > n.div_ceil(w) + 1 || n.div_ceil(w) > m.div_ceil(w) + 1
            }
            // A transposed result of a flat C lies outside the buffer.
            Mistake::TransposedResult => m == n,
            Mistake::Alpha(alpha) => alpha != self.problem.alpha.to_f64(),
            Mistake::Beta(wrong) => beta != 0.0 && wrong != beta,
            Mistake::StoreWithoutGuard => n % w != 0 && self.problem.c.ld == n,
            Mistake::Nan => T::POISON.is_nan(),
            // Integers that are short already lose nothing.
            Mistake::ShortInputs => {
                T::POISON.is_nan() && self.distribution == Distribution::Uniform
            }
            _ => true,
        }
    }

    fn a(&self, row: usize, step: usize, ld: usize) -> T {
        let (m, k) = (self.problem.m, self.problem.k);
        if row < m && step < k {
            self.a.get(row * ld + step).copied().unwrap_or(T::ZERO)
        } else {
            T::ZERO
        }
    }

    fn b(&self, step: usize, col: usize, ld: usize) -> T {
        let (n, k) = (self.problem.n, self.problem.k);
        if step < k && col < n {
            self.b.get(step * ld + col).copied().unwrap_or(T::ZERO)
        } else {
            T::ZERO
        }
    }

    /// C after a run with the mistake, on a C that held `before`.
    pub(super) fn run(&self, mistake: Mistake, before: &[T]) -> Vec<T> {
        let Problem { m, n, .. } = self.problem;
        let w = self.width;
        let mut c = before.to_vec();
        let (mut grid_y, mut grid_x) = (m.div_ceil(w), n.div_ceil(w));
        match mistake {
            Mistake::GridTruncated => (grid_y, grid_x) = (m / w, n / w),
            Mistake::GridAxesSwapped => (grid_y, grid_x) = (grid_x, grid_y),
            _ => {}
        }
        // Sums that a block leaves behind for the next along the axis.
        let mut kept = vec![vec![T::Acc::ZERO; w * w]; grid_x.max(grid_y)];
        for block_y in 0..grid_y {
            for block_x in 0..grid_x {
                let acc = match mistake {
                    Mistake::EarlierTiles(Axis::Columns) if block_x > 0 => kept[0].clone(),
                    Mistake::EarlierTiles(Axis::Rows) => kept[block_x].clone(),
                    _ => vec![T::Acc::ZERO; w * w],
                };
                let acc = self.block(mistake, (block_y, block_x), acc, &mut c);
                kept[if mistake == Mistake::EarlierTiles(Axis::Rows) { block_x } else { 0 }] = acc;
            }
        }
        self.afterwards(mistake, &mut c);
        c
    }

    /// One block: its threads take turns between two barriers.
    fn block(
        &self,
        mistake: Mistake,
        block: (usize, usize),
        mut acc: Vec<T::Acc>,
        c: &mut [T],
    ) -> Vec<T::Acc> {
        let w = self.width;
        let k = self.problem.k;
        let mut tiles = if mistake == Mistake::TailMissing { k / w } else { k.div_ceil(w) };
        if self.problem.alpha == T::Acc::ZERO {
            tiles = 0;
        }
        let mut shared: (Tile<T>, Tile<T>) = (vec![vec![T::ZERO; w]; w], vec![vec![T::ZERO; w]; w]);
        let threads: Vec<usize> = (0..w * w).collect();
        for tile in 0..tiles {
            match mistake {
                Mistake::FirstBarrier { ascending, together } => {
                    for turn in turns(&threads, ascending, together) {
                        turn.iter().for_each(|&t| self.load(mistake, block, t, tile, &mut shared));
                        turn.iter()
                            .for_each(|&t| acc[t] = self.multiply(mistake, t, &shared, acc[t]));
                    }
                }
                Mistake::SecondBarrier { ascending, together } => {
                    if tile == 0 {
                        threads.iter().for_each(|&t| self.load(mistake, block, t, 0, &mut shared));
                    }
                    for turn in turns(&threads, ascending, together) {
                        turn.iter()
                            .for_each(|&t| acc[t] = self.multiply(mistake, t, &shared, acc[t]));
                        if tile + 1 < tiles {
                            turn.iter()
                                .for_each(|&t| self.load(mistake, block, t, tile + 1, &mut shared));
                        }
                    }
                }
                _ => {
                    threads.iter().for_each(|&t| self.load(mistake, block, t, tile, &mut shared));
                    for &t in &threads {
                        let start =
                            if mistake == Mistake::LastTileOnly { T::Acc::ZERO } else { acc[t] };
                        acc[t] = self.multiply(mistake, t, &shared, start);
                    }
                    if mistake == Mistake::RunningSum && tile + 1 < tiles {
                        threads
                            .iter()
                            .for_each(|&t| self.store(Mistake::OldC, block, t, acc[t], c));
                    }
                }
            }
        }
        for &t in &threads {
            self.store(mistake, block, t, acc[t], c);
        }
        acc
    }

    /// The row and the column of C that a thread works on.
    fn place(
        &self,
        mistake: Mistake,
        (block_y, block_x): (usize, usize),
        t: usize,
    ) -> (usize, usize) {
        let w = self.width;
        let (y, x) = (t / w, t % w);
        match mistake {
            Mistake::BlockAxesSwapped => (block_x * w + y, block_y * w + x),
            Mistake::OffsetMissing { axis: Axis::Columns, block, .. } => {
                (block_y * w + y, block * w + x)
            }
            Mistake::OffsetMissing { axis: Axis::Rows, block, .. } => {
                (block * w + y, block_x * w + x)
            }
            _ => (block_y * w + y, block_x * w + x),
        }
    }

    fn load(
        &self,
        mistake: Mistake,
        block: (usize, usize),
        t: usize,
        tile: usize,
        shared: &mut (Tile<T>, Tile<T>),
    ) {
        let w = self.width;
        let (y, x) = (t / w, t % w);
        let (row, col) = self.place(mistake, block, t);
        let (mut lda, mut ldb) = (self.problem.a.ld, self.problem.b.ld);
        match mistake {
            Mistake::Ld(Operand::A, off) => lda = lda.strict_add_signed(off),
            Mistake::Ld(Operand::B, off) => ldb = ldb.strict_add_signed(off),
            _ => {}
        }
        let (a_step, b_step) = (tile * w + x, tile * w + y);
        shared.0[y][x] = match mistake {
            Mistake::TransposedOperand(Operand::A)
                if row < self.problem.m && a_step < self.problem.k =>
            {
                self.a.get(a_step * lda + row).copied().unwrap_or(T::ZERO)
            }
            _ => self.a(row, a_step, lda),
        };
        shared.1[y][x] = match mistake {
            Mistake::TransposedOperand(Operand::B)
                if col < self.problem.n && b_step < self.problem.k =>
            {
                self.b.get(col * ldb + b_step).copied().unwrap_or(T::ZERO)
            }
            _ => self.b(b_step, col, ldb),
        };
    }

    fn multiply(
        &self,
        mistake: Mistake,
        t: usize,
        (a, b): &(Tile<T>, Tile<T>),
        mut acc: T::Acc,
    ) -> T::Acc {
        let w = self.width;
        let (y, x) = (t / w, t % w);
        let short = |value: T| if mistake == Mistake::ShortInputs { half(value) } else { value };
        for j in 0..w {
            let (a, b) = match mistake {
                Mistake::TransposedInTiles(Operand::C) => (a[x][j], b[j][y]),
                Mistake::TransposedInTiles(Operand::A) => (a[j][y], b[j][x]),
                Mistake::TransposedInTiles(Operand::B) => (a[y][j], b[x][j]),
                _ => (a[y][j], b[j][x]),
            };
            acc = T::mul_add(short(a), short(b), acc);
        }
        acc
    }

    fn store(&self, mistake: Mistake, block: (usize, usize), t: usize, acc: T::Acc, c: &mut [T]) {
        let Problem { m, n, alpha, beta, .. } = self.problem;
        let (mut row, mut col) = self.place(Mistake::None, block, t);
        if let Mistake::OffsetMissing { stored: true, .. } = mistake {
            (row, col) = self.place(mistake, block, t);
        }
        if (row >= m || col >= n) && mistake != Mistake::StoreWithoutGuard {
            return;
        }
        if mistake == Mistake::TransposedResult {
            (row, col) = (col, row);
        }
        let off = if let Mistake::Ld(Operand::C, off) = mistake { off } else { 0 };
        let ldc = self.problem.c.ld.strict_add_signed(off);
        let Some(c) = c.get_mut(row * ldc + col) else { return };
        let (mut own_alpha, mut own_beta) = (alpha, beta);
        match mistake {
            Mistake::Alpha(value) => own_alpha = T::Acc::from_f64(value),
            Mistake::Beta(value) => own_beta = T::Acc::from_f64(value),
            _ => {}
        }
        let old = *c;
        *c = epilogue(own_alpha, acc, own_beta, || old);
        if matches!(mistake, Mistake::OldC | Mistake::RunningSum) {
            *c = T::narrow(T::mul_add(T::ONE, old, c.widen()));
        }
    }

    /// What happens to a right result.
    fn afterwards(&self, mistake: Mistake, c: &mut [T]) {
        let at = self.problem.c.index(self.problem.m / 2, self.problem.n / 3);
        match mistake {
            Mistake::Nan => {
                c.iter_mut().step_by(7).for_each(|value| *value = T::from_f64(f64::NAN))
            }
            Mistake::BitFlip => {
                c[at] = c[at].bit_flips().nth(20).expect("a type has that many bits")
            }
            _ => {}
        }
    }
}

/// The threads in the groups that take turns.
fn turns(threads: &[usize], ascending: bool, together: usize) -> Vec<&[usize]> {
    let mut turns: Vec<&[usize]> = threads.chunks(together).collect();
    if !ascending {
        turns.reverse();
    }
    turns
}

/// A value with ten bits behind the leading one.
fn half<T: Scalar>(value: T) -> T {
    let value = value.to_f64();
    T::from_f64(f64::from_bits((value.to_bits() + (1 << 41)) >> 42 << 42))
}
