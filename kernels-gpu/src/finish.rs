//! `finish_*`: does what an epilogue does besides scaling, to sums that a kernel has left in memory.
//!
//! Computes  D = act(alpha*rs*cs*S + beta*C + bias), and the largest |D|; what is absent is left out
//! Operands  sums S (m,n), C (m,n) and D (m,n), row-major; D may be S or C. f32, or f64 without exponentials
//!           and without the largest magnitude
//! Launch    block (256,1,1); along x rows in runs of 256 columns, along y the products of a batch
//! Shared    none
//! Requires  m, n >= 1
//! Cost      S and D, and C where beta is not zero, are moved once
//! Bound by  memory
//! Source    the epilogue of `tensor_*`, as a launch of its own
//!
//! For kernels that do not fuse an epilogue. The bits are those of one that is fused: sums of D's type are
//! not rounded between.

use cuda_std::memory::{Global, GlobalMut, global, global_mut};
use cuda_std::thread;
use gemm_spec::fusion::{AMAX, COLUMN_BIAS, COLUMN_SCALES, ROW_BIAS, ROW_SCALES, SCALARS};
use gemm_spec::index::ceil_div;
use gemm_spec::params::FinishParams;
use gemm_spec::{Accumulator, epilogue};
#[cfg(not(target_arch = "nvptx64"))]
use gemm_spec::{Block, HelperEntry, HelperRole};

use crate::parts::entries::entry;
use crate::parts::largest::raise;
use crate::parts::powers::activate;

/// Threads of a block, each with a column of a run.
const THREADS: u32 = gemm_spec::fusion::FINISH_THREADS;

/// What the host needs to launch it for f32, and for f64.
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) const ENTRIES: [HelperEntry; 2] = [helper("finish_f32"), helper("finish_f64")];

#[cfg(not(target_arch = "nvptx64"))]
const fn helper(symbol: &'static str) -> HelperEntry {
    HelperEntry {
        role: HelperRole::Finish,
        symbol,
        block: Block { x: THREADS, y: 1 },
        min_blocks: 4,
        shared_bytes: 0,
    }
}

/// Numbers that sums are of.
trait Finished: Accumulator {
    fn from_f64(value: f64) -> Self;
    fn add(self, other: Self) -> Self;
    fn activated(self, fusion: u32) -> Self;
    /// The bits of the magnitude as an f32.
    fn magnitude_bits(self) -> u32;
}

impl Finished for f32 {
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as Self
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn activated(self, fusion: u32) -> Self {
        let [value] = activate(fusion, [self]);
        value
    }

    #[inline(always)]
    fn magnitude_bits(self) -> u32 {
        self.to_bits() & !(1 << 31)
    }
}

impl Finished for f64 {
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self + other
    }

    #[inline(always)]
    fn activated(self, fusion: u32) -> Self {
        // The others need exponentials, and no plan asks for them.
        if fusion & gemm_spec::fusion::RELU != 0 && self < 0.0 { 0.0 } else { self }
    }

    #[inline(always)]
    fn magnitude_bits(self) -> u32 {
        0
    }
}

/// Defines the entries.
macro_rules! entries {
    ($($name:ident: $acc:ty;)+) => {
        $(
            entry! {
                /// Finishes sums.
                ///
                /// # Safety
                /// 1. What the parameters and the flags say is read or written is valid, and nobody else writes
                ///    it; D may be the sums or what beta multiplies, and overlaps nothing else.
                /// 2. The launch has the block of the helper, and blocks along y for the products.
                pub unsafe fn $name(params: FinishParams) {
                    // SAFETY: the obligations are the same.
                    unsafe { finish::<$acc>(&params) }
                }
            }
        )+

        /// The entries as functions for the emulator.
        #[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
        pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] =
            crate::parts::entries::emulated!(Finish(FinishParams): $($name),+);
    };
}

entries! {
    finish_f32: f32;
    finish_f64: f64;
}

/// # Safety
/// The obligations of the entries.
#[inline(always)]
unsafe fn finish<S: Finished>(params: &FinishParams) {
    let &FinishParams { m, n, fusion, alpha, acc_ld, acc_stride, beta, old_ld, .. } = params;
    let &FinishParams { old_stride, bias_stride, d_ld, d_stride, .. } = params;
    let product = u64::from(thread::block_idx_y());
    let behind = |stride: u64| (product * stride) as usize;
    // SAFETY: obligation 1.
    let acc: Global<S> = unsafe { global(params.acc) }.cast::<S>().wrapping_add(behind(acc_stride));
    // SAFETY: obligation 1.
    let old: Global<S> = unsafe { global(params.old) }.cast::<S>().wrapping_add(behind(old_stride));
    // SAFETY: obligation 1.
    let d: GlobalMut<S> =
        unsafe { global_mut(params.d) }.cast::<S>().wrapping_add(behind(d_stride));
    // SAFETY: obligation 1.
    let bias: Global<S> =
        unsafe { global(params.bias) }.cast::<S>().wrapping_add(behind(bias_stride));
    // SAFETY: obligation 1.
    let row_scales: Global<S> = unsafe { global(params.row_scales) }.cast();
    // SAFETY: obligation 1.
    let column_scales: Global<S> = unsafe { global(params.column_scales) }.cast();
    let scalar = |bits: u64| S::from_f64(f64::from_bits(bits));
    let (mut alpha, mut beta) = (scalar(alpha), scalar(beta));
    if fusion & SCALARS != 0 {
        // SAFETY: obligation 1.
        let scalars: Global<S> = unsafe { global(params.scalars) }.cast();
        // SAFETY: the same: there are two numbers.
        alpha = unsafe { scalars.read() };
        // SAFETY: the same.
        beta = unsafe { scalars.wrapping_add(1).read() };
    }
    // What alpha multiplies need not be finite.
    let hides_acc = fusion & SCALARS != 0 && alpha == S::ZERO;
    let read = |from: Global<S>, at: u32, flag: u32, absent: S| {
        if fusion & flag == 0 {
            return absent;
        }
        // SAFETY: there is a number for each row or column, as the flag says.
        unsafe { from.wrapping_add(at as usize).read() }
    };
    // Never zero, so that no division of it can panic.
    let runs = u64::from(ceil_div(n, THREADS).max(1));
    let all = runs * u64::from(m);
    let mut run = u64::from(thread::block_idx_x());
    let mut largest = 0;
    while run < all {
        let (row, col) = ((run / runs) as u32, (run % runs) as u32 * THREADS);
        let col = col + thread::thread_idx_x();
        if col < n {
            let place = |ld: u64| (u64::from(row) * ld + u64::from(col)) as usize;
            let factor = alpha.mul(read(row_scales, row, ROW_SCALES, S::ONE)).mul(read(
                column_scales,
                col,
                COLUMN_SCALES,
                S::ONE,
            ));
            // SAFETY: the guards; D's element belongs to this thread, the sum's and C's with it.
            let mut sum = unsafe { acc.wrapping_add(place(acc_ld)).read() };
            if hides_acc {
                sum = S::ZERO;
            }
            // SAFETY: the same.
            let c = || unsafe { old.wrapping_add(place(old_ld)).read() };
            let mut value: S = epilogue(factor, sum, beta, c);
            if fusion & ROW_BIAS != 0 {
                value = value.add(read(bias, row, ROW_BIAS, S::ZERO));
            }
            if fusion & COLUMN_BIAS != 0 {
                value = value.add(read(bias, col, COLUMN_BIAS, S::ZERO));
            }
            let value = value.activated(fusion);
            largest = largest.max(value.magnitude_bits());
            // SAFETY: the same.
            unsafe { d.wrapping_add(place(d_ld)).write(value) };
        }
        run += u64::from(thread::grid_dim_x());
    }
    if fusion & AMAX != 0 {
        // SAFETY: obligation 1.
        let amax = unsafe { global_mut(params.amax) };
        // SAFETY: all lanes are here, since the loop has as many rounds for each thread of a block; the word is
        // valid, by obligation 1.
        unsafe { raise(amax, largest) };
    }
}
