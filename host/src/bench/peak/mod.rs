//! What arithmetic units could do at most: the limit that no honest rate passes.
//!
//! A GPU's is known from its name, a CPU's is measured: its clock moves with heat, with the width of
//! its vectors and with how many cores work.

mod cpu;

pub(crate) use cpu::MATRIX_UNITS;
pub use cpu::{CpuPeak, measure};
pub use tessera::select::peak::{kernel_peak, lanes, library_peak, peak, split_peak, tensor_peak};
