//! What an epilogue does besides scaling ([`gemm_spec::fusion`]), to four neighbours of a row at a time.

use cuda_std::memory::{Global, GlobalMut, global, global_mut};
use gemm_spec::epilogue;
use gemm_spec::fusion::{
    AMAX, COLUMN_BIAS, COLUMN_SCALES, RELU, ROW_BIAS, ROW_SCALES, SCALARS, relu,
};
use gemm_spec::params::TmaParams;
use gemm_spec::warpgroup::accumulator_coord;

use super::number::{Accumulators, Number};
use crate::parts::largest::raise;
use crate::parts::powers::activate;
use crate::parts::unroll::unroll;

/// What changes nothing when it is added, the zeros' signs included.
const NOTHING: f32 = -0.0;

/// What is done, and where its numbers are.
pub(super) struct Finish<N: Number> {
    /// The flags; zero for nothing.
    pub(super) fusion: u32,
    /// What beta multiplies.
    pub(super) old: Global<N::Stored>,
    pub(super) old_ld: u64,
    pub(super) old_stride: u64,
    pub(super) bias: Global<N::Stored>,
    pub(super) bias_stride: u64,
    pub(super) row_scales: Global<f32>,
    pub(super) column_scales: Global<f32>,
    pub(super) scalars: Global<f32>,
    pub(super) amax: GlobalMut<u32>,
}

// Numbers are names of types and need not be copied for it.
impl<N: Number> Clone for Finish<N> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<N: Number> Copy for Finish<N> {}

impl<N: Number> Finish<N> {
    /// # Safety
    /// What the flags say is read or written is valid in the whole launch.
    #[inline(always)]
    pub(super) unsafe fn new(params: &TmaParams<f32>) -> Self {
        let &TmaParams { fusion, old, old_ld, old_stride, .. } = params;
        let &TmaParams { bias, bias_stride, row_scales, column_scales, scalars, amax, .. } = params;
        // SAFETY: the caller's promise.
        let old = unsafe { global(old) }.cast();
        // SAFETY: the same.
        let bias = unsafe { global(bias) }.cast();
        // SAFETY: the same.
        let row_scales = unsafe { global(row_scales) };
        // SAFETY: the same.
        let column_scales = unsafe { global(column_scales) };
        // SAFETY: the same.
        let scalars = unsafe { global(scalars) };
        // SAFETY: the same.
        let amax = unsafe { global_mut(amax) };
        Self {
            fusion,
            old,
            old_ld,
            old_stride,
            bias,
            bias_stride,
            row_scales,
            column_scales,
            scalars,
            amax,
        }
    }

    /// The same of a product of a batch.
    #[inline(always)]
    pub(super) fn of_product(self, batch: u32) -> Self {
        let behind = |stride: u64| (u64::from(batch) * stride) as usize;
        let old = self.old.wrapping_add(behind(self.old_stride));
        let bias = self.bias.wrapping_add(behind(self.bias_stride));
        Self { old, bias, ..self }
    }

    /// Alpha and beta: those in device memory, if there are some, or the others.
    ///
    /// # Safety
    /// What the flags say is valid.
    #[inline(always)]
    pub(super) unsafe fn scalars(&self, others: (f32, f32)) -> (f32, f32) {
        if !self.has(SCALARS) {
            return others;
        }
        // SAFETY: there are two numbers.
        let alpha = unsafe { self.scalars.read() };
        // SAFETY: the same.
        (alpha, unsafe { self.scalars.wrapping_add(1).read() })
    }

    #[inline(always)]
    pub(super) fn has(&self, flag: u32) -> bool {
        self.fusion & flag != 0
    }

    /// The factors of four neighbours of a row, and what is added to their columns; those of the last column for
    /// what is beyond it.
    ///
    /// # Safety
    /// What the flags say is valid.
    #[inline(always)]
    pub(super) unsafe fn columns(&self, col: u32, n: u32, alpha: f32) -> Columns {
        let mut columns = Columns { scales: [1.0; 4], alphas: [alpha; 4], biases: [NOTHING; 4] };
        let at = |at: usize| (col + at as u32).min(n - 1) as usize;
        if self.has(COLUMN_SCALES) {
            unroll!(for J in 0..4 {
                // SAFETY: there is a factor for each column.
                columns.scales[J] = unsafe { self.column_scales.wrapping_add(at(J)).read() };
                columns.alphas[J] = alpha * columns.scales[J];
            });
        }
        if self.has(COLUMN_BIAS) {
            unroll!(for J in 0..4 {
                // SAFETY: there is a number for each column.
                columns.biases[J] = N::value(unsafe { self.bias.wrapping_add(at(J)).read() });
            });
        }
        columns
    }

    /// What beta multiplies, of four neighbours of a row as far as they are in C; zeros where beta is zero.
    ///
    /// # Safety
    /// The row is in C, and nobody else writes these elements.
    #[inline(always)]
    pub(super) unsafe fn old(&self, row: u32, col: u32, n: u32, beta: f32) -> [f32; 4] {
        let mut old = [0.0; 4];
        if beta != 0.0 {
            let line = self.old.wrapping_add((u64::from(row) * self.old_ld) as usize);
            unroll!(for J in 0..4 {
                if col + (J as u32) < n {
                    // SAFETY: it is in C.
                    old[J] = N::value(unsafe { line.wrapping_add(col as usize + J).read() });
                }
            });
        }
        old
    }

    /// What is stored of four neighbours of a row, before it is rounded, given their sums.
    ///
    /// # Safety
    /// The row is in C.
    #[inline(always)]
    pub(super) unsafe fn values(
        &self,
        row: u32,
        columns: &Columns,
        scalars: (f32, f32),
        acc: [f32; 4],
        old: [f32; 4],
    ) -> [f32; 4] {
        // SAFETY: the caller's promise.
        let values = unsafe { self.scaled::<true>(row, columns, scalars, acc, old) };
        activate(self.fusion, values)
    }

    /// The same without the activation; with what depends on the row only if `BY_ROW`.
    ///
    /// # Safety
    /// The row is in C.
    #[inline(always)]
    pub(super) unsafe fn scaled<const BY_ROW: bool>(
        &self,
        row: u32,
        columns: &Columns,
        (alpha, beta): (f32, f32),
        acc: [f32; 4],
        old: [f32; 4],
    ) -> [f32; 4] {
        let (mut alphas, mut biases) = (columns.alphas, columns.biases);
        // What an alpha multiplies that only the device knows need not be finite.
        let acc = if self.has(SCALARS) && alpha == 0.0 { [0.0; 4] } else { acc };
        if BY_ROW && self.has(ROW_SCALES) {
            // SAFETY: there is a factor for each row.
            let alpha = alpha * unsafe { self.row_scales.wrapping_add(row as usize).read() };
            unroll!(for J in 0..4 {
                alphas[J] = alpha * columns.scales[J];
            });
        }
        if BY_ROW && self.has(ROW_BIAS) {
            // SAFETY: there is a number for each row.
            biases = [N::value(unsafe { self.bias.wrapping_add(row as usize).read() }); 4];
        }
        let mut values = [0.0f32; 4];
        unroll!(for J in 0..4 {
            values[J] = epilogue(alphas[J], acc[J], beta, || old[J]) + biases[J];
        });
        values
    }

    /// Whether a warpgroup may finish its accumulators in registers: where there is a bias for each column, or
    /// none, ReLU, or nothing, and no more.
    #[inline(always)]
    pub(super) fn is_simple(&self) -> bool {
        self.fusion & !(RELU | COLUMN_BIAS) == 0 && self.bias.cast::<N::Pair>().is_aligned()
    }

    /// Finishes accumulators in registers, of which pairs of columns are in C or beyond it.
    ///
    /// # Safety
    /// It [is simple](Finish::is_simple); `col0` is the first column, and n is even.
    #[inline(always)]
    pub(super) unsafe fn accumulators<const N16: usize>(
        &self,
        (col0, n): (u32, u32),
        thread_in_warpgroup: u32,
        alpha: f32,
        acc: &mut Accumulators<N16>,
    ) {
        let (_, own) = accumulator_coord(thread_in_warpgroup, 0);
        unroll!(for P in 0..4 {
            if 4 * P < N16 {
                // The reads of a thread's columns among 64 are in flight together.
                let mut biases = [[NOTHING; 2]; 8];
                if self.has(COLUMN_BIAS) {
                    unroll!(for J in 0..8 {
                        if 4 * P + J / 2 < N16 {
                            let pair = (col0 + own + (64 * P + 8 * J) as u32).min(n - 2);
                            let at = self.bias.wrapping_add(pair as usize);
                            // SAFETY: there is a number for each column, and pairs of them are aligned.
                            biases[J] = unsafe { N::read_pair(at) };
                        }
                    });
                }
                unroll!(for G in 0..4 {
                    if 4 * P + G < N16 {
                        let chunk = &mut acc[(4 * P + G) % N16];
                        unroll!(for I in 0..8 {
                            // Two octets of columns, two rows of each, two columns of each.
                            chunk[I] = alpha * chunk[I] + biases[2 * G + I / 4][I % 2];
                        });
                    }
                });
            }
        });
        if self.has(RELU) {
            unroll!(for G in 0..16 {
                if G < N16 {
                    let chunk = &mut acc[G % N16];
                    unroll!(for I in 0..8 {
                        chunk[I] = relu(chunk[I]);
                    });
                }
            });
        }
    }

    /// The larger of a magnitude and those of four neighbours of a row as they are stored, as far as they are in
    /// C: the bits of f32s, which are in the order of the numbers.
    #[inline(always)]
    pub(super) fn larger(&self, before: u32, col: u32, n: u32, values: [f32; 4]) -> u32 {
        let mut largest = before;
        if self.has(AMAX) {
            unroll!(for J in 0..4 {
                if col + (J as u32) < n {
                    let stored = N::value(N::stored(values[J]));
                    largest = largest.max(stored.to_bits() & !(1 << 31));
                }
            });
        }
        largest
    }

    /// Raises the largest magnitude of all to that of this thread.
    ///
    /// # Safety
    /// All lanes of the warp are here.
    #[inline(always)]
    pub(super) unsafe fn raise(&self, largest: u32) {
        if self.has(AMAX) {
            // SAFETY: the caller's promise; the word is valid where the flag is set.
            unsafe { raise(self.amax, largest) };
        }
    }
}

/// What an epilogue has for four columns.
pub(super) struct Columns {
    scales: [f32; 4],
    /// Alpha times those.
    alphas: [f32; 4],
    biases: [f32; 4],
}
