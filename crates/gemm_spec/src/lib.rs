//! What the host and the device must agree on, written once.
//!
//! Seven things live here, in reading order:
//!
//! * [`Problem`]: `C = alpha * A * B + beta * C`, with the sizes, leading dimensions and orders of
//!   its operands, and the checks that its buffers are long enough;
//! * [`Element`]: the arithmetic of one element type, and [`epilogue`], so that implementations
//!   that sum in the same order agree bit for bit;
//! * [`KernelSpec`]: everything needed to launch a kernel, stated beside the kernel and nowhere
//!   else;
//! * [`time`]: what a product takes with a kernel, for a choice between kernels;
//! * [`index`]: the pure maps from blocks and threads to matrix elements;
//! * [`split_k`]: how ranges of k are summed apart;
//! * [`warpgroup`] and [`split`]: the maps of the tensor-core kernels.
//!
//! The crate has no dependency and no unsafe code, and is `no_std` on the device.

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(core_float_math))]
#![forbid(unsafe_code)]

mod choice;
mod dtype;
mod element;
pub mod index;
mod kernel;
mod problem;
pub mod split;
pub mod split_k;
pub mod warpgroup;

pub use choice::{Pace, time};
pub use dtype::DType;
pub use element::{Element, epilogue};
pub use kernel::{
    Arch, Block, DeviceLimits, Entry, EntryForm, GEMM_PARAMS, Grid, HelperEntry, KernelSpec,
    LaunchShape, MinBlocks, Param, ParamType, SHARED_WITHOUT_OPT_IN, Scheme, SplitEntries, Tile,
    Unsupported,
};
pub use problem::{Layout, Operand, Order, Problem, ShapeError};
