//! Matrix products on the CPU: blocks packed for the caches, tiles in vector registers.
//!
//! ```
//! use cpu_gemm::{CpuContext, gemm};
//! use gemm_spec::Problem;
//!
//! let context = CpuContext::new(None)?;
//! let (a, b) = ([1.0f32, 2.0, 3.0, 4.0], [5.0f32, 6.0, 7.0, 8.0]);
//! let mut c = [0.0; 4];
//! gemm(&Problem::<f32>::new(2, 2, 2), &a, &b, &mut c, &context)?;
//! assert_eq!(c, [19.0, 22.0, 43.0, 50.0]);
//! # Ok::<(), cpu_gemm::Error>(())
//! ```
//!
//! Five loops round a micro-kernel: blocks of A and B are copied so that the innermost loop reads
//! them from front to back, each block sized for the cache that it stays in; a tile of C is summed in
//! registers. Threads draw parts of the work from a counter. See `driver` for the loops, `tile` for
//! the micro-kernel, `direct` for small and thin products.
//!
//! # Promises
//!
//! - Each element of C is the [`engine_sum`] of its products: chains of 128 fused multiply-adds, added up in an order
//!   that depends on k alone. So the bits are the same on every repeat, for any number of threads, any instruction
//!   set, any storage order and any block of rows or columns computed by itself. Only which NaN a NaN is may differ.
//! - With `beta == 0` C is not read, with `alpha == 0` neither A nor B is.
//! - Nothing outside the operands is read or written, not even the rest of a register or of a line's
//!   padding.
//!
//! The instruction set is chosen by the CPU's features; [`CpuContext::with_isa`] takes another.
//!
//! Where a context's [units](CpuUnits) say so, sums of floats and of complex numbers are computed in matrix units where
//! these are faster: with errors within those of a chain of multiply-adds and the same bits on every repeat, but not
//! those of [`engine_sum`].
//!
//! Source: Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (2008), for the
//! blocks; Van Zee and van de Geijn, "BLIS" (2015), for the micro-kernel as the one part that differs
//! between machines; Castaldo, Whaley and Chronopoulos (2008) for the order of sums. The tickets are this project's.

mod batch;
mod blocking;
mod buffer;
mod byte_tiles;
mod cache_line;
mod columns;
mod completion;
mod complex;
mod complex_in_tiles;
mod compute;
mod context;
mod direct;
mod driver;
mod edge;
mod error;
mod field;
mod finish;
mod gemm;
mod gemm_bytes;
mod gemm_symmetric;
mod gemm_triangle;
mod gemm_typed;
mod gemm_views;
mod gemm_with_epilogue;
mod isa;
mod kernels;
mod matrix_units;
mod mirror;
mod near;
#[cfg(target_arch = "aarch64")]
mod neon;
mod pack;
mod pack_complex;
mod parts;
mod portable;
mod powers;
mod prefetch;
mod product;
mod real;
mod region;
mod rounding;
mod sum;
mod thin;
mod threads;
mod thresholds;
mod tile;
mod times_column;
mod triangle;
mod triangle_blocks;
mod triangle_kernel;
mod types;
mod units;
mod vector;
mod view;
mod way;

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod groups;
#[cfg(target_arch = "x86_64")]
mod transpose;
#[cfg(target_arch = "x86_64")]
mod vnni;

pub use crate::batch::each_product;
pub use crate::columns::{
    Conjugates, add_multiple, add_multiple_and_dot, add_multiples, conjugate_dot, dot, largest,
    multiply_by, norm,
};
pub use crate::context::CpuContext;
pub use crate::error::Error;
pub use crate::field::{Complex, Factor, Field, RealNumber};
pub use crate::gemm::{gemm, gemm_by, gemm_in_tiles, has_tiles, uses_matrix_units};
pub use crate::gemm_bytes::{Bytes, gemm_bytes_then};
pub use crate::gemm_symmetric::gemm_symmetric;
pub use crate::gemm_triangle::gemm_triangle;
pub use crate::gemm_typed::{gemm_typed, near_typed};
pub use crate::gemm_views::{gemm_near, gemm_views, scale, views_use_matrix_units};
pub use crate::gemm_with_epilogue::{EpilogueSlices, finish, gemm_with_epilogue};
pub use crate::isa::CpuIsa;
pub use crate::matrix_units::{NoUnits, matrix_units};
pub use crate::near::NearShape;
pub use crate::region::TriangleOf;
pub use crate::sum::{CHAIN, engine_sum, superblock};
pub use crate::threads::run_on;
pub use crate::triangle::{largest_triangle, triangle};
pub use crate::triangle_kernel::{BLOCK, Task};
pub use crate::types::CpuTypes;
pub use crate::units::CpuUnits;
pub use crate::view::{View, ViewMut};
#[cfg(target_arch = "x86_64")]
pub use crate::{amx::TileLoop, gemm::tile_loop};
