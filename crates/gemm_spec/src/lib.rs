//! What the host and the device must agree on, written once.
//!
//! Nine things live here, in reading order:
//!
//! * [`Problem`]: `C = alpha * A * B + beta * C`, with the sizes, leading dimensions and orders of
//!   its operands, and the checks that its buffers are long enough;
//! * [`Types`] and [`GemmTypes`]: which element types are multiplied together, as a value and as a Rust
//!   type, from one list; the arithmetic of the [`Accumulator`], and [`epilogue`], so that
//!   implementations that sum in the same order agree bit for bit;
//! * [`KernelSpec`]: everything needed to launch a kernel, stated beside the kernel and nowhere
//!   else;
//! * [`index`]: the pure maps from blocks and threads to matrix elements;
//! * [`split_k`]: how ranges of k are summed apart;
//! * [`warpgroup`] and [`split`]: the maps of the tensor-core kernels;
//! * [`batched`]: how blocks share out a batch of small products;
//! * [`fusion`]: what an epilogue does besides scaling;
//! * [`transpose`]: the tiles in which an operand's rows and columns are exchanged.
//!
//! The crate has no unsafe code, is `no_std` on the device, and has no dependency there; on the host
//! it takes the types of 16 bits from `half`.

#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(core_float_math))]
#![forbid(unsafe_code)]

mod arch;
mod batch;
pub mod batched;
pub mod batched_limbs;
pub mod batched_mma;
pub mod block_tile;
mod dtype;
mod element;
pub mod fusion;
#[cfg(not(target_arch = "nvptx64"))]
mod half_precision;
pub mod index;
mod kernel;
mod launch_shape;
mod limits;
pub mod params;
#[cfg(not(target_arch = "nvptx64"))]
pub mod plan;
mod problem;
pub mod scheduler;
pub mod split;
pub mod split_k;
pub mod tensor;
pub mod transpose;
mod types;
pub mod warpgroup;

pub use arch::Arch;
pub use batch::{Batch, BatchItem};
pub use dtype::{AccType, DType};
pub use element::{Accumulator, Convert, Element, epilogue};
pub use fusion::{Activation, Bias, Epilogue};
#[cfg(not(target_arch = "nvptx64"))]
pub use half::{bf16, f16};
pub use kernel::{
    BatchShare, Entry, EntryForm, HelperEntry, HelperRole, KernelSpec, MinBlocks, Numerics,
    OperandAccess, ParamList,
};
pub use launch_shape::{Block, Grid, LaunchShape, Tile};
pub use limits::{DeviceLimits, SHARED_WITHOUT_OPT_IN, Unsupported};
pub use params::{Param, ParamType};
pub use problem::{Layout, Operand, Order, Problem, ShapeError};
pub use types::{GemmTypes, Types};
