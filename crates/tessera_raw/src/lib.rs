//! Products of matrices at addresses, in any strides, of types known when the program runs: what the
//! bindings for other languages have in common.
//!
//! ```
//! use tessera::{DType, Engine};
//! use tessera_raw::{Batch, Factors, Operands, Place, Scalar, Strided, multiply};
//!
//! let engine = Engine::cpu(None)?;
//! let (mut a, mut b, mut c) = ([1f32, 2.0, 3.0, 4.0], [5f32, 6.0, 7.0, 8.0], [0f32; 4]);
//! let by_rows = |at: &mut [f32; 4]| Strided::row_major(at.as_mut_ptr().cast(), 2, 2, 2, 4);
//! let (a, b, product) = (by_rows(&mut a), by_rows(&mut b), by_rows(&mut c));
//! // B backwards: its last row first.
//! let b = Strided { at: b.at.wrapping_offset(b.row_stride), row_stride: -b.row_stride, ..b };
//! let operands = Operands { scalars: [Scalar::Real(DType::F32); 3], a, b, c: product };
//! // SAFETY: three arrays of two by two, of which nobody else uses the last.
//! unsafe { multiply(&Place::of(&engine), &Factors::default(), &operands, &Batch::ONE)? };
//! assert_eq!(c, [17.0, 20.0, 41.0, 48.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Shape
//!
//! ```text
//! scalar.rs       types of elements as values; which products there are
//! strided.rs      a matrix at an address; whether the library takes it in place
//! pack.rs         copies of those that it does not, and of a C back to its place
//! batch.rs        where the operands of each product begin, and batches that are one product
//! failure.rs      why there is no product
//! factors.rs      alpha and beta as numbers of the sums' type
//! place.rs        the engine, and how many threads
//! product.rs      one product of known types, by views or on the GPU
//! integers.rs     products of 64-bit integers, which the library itself does not have
//! multiply.rs     types and batches taken apart
//! epilogue.rs     bias, scales and activation, by addresses
//! explain.rs      what would be done
//! per_process.rs  what a process makes once, and a child of a fork anew
//! ```

mod batch;
mod epilogue;
mod explain;
mod factors;
mod failure;
mod integers;
mod multiply;
mod pack;
mod per_process;
mod place;
mod product;
mod scalar;
mod strided;

pub use batch::Batch;
pub use epilogue::{Epilogue, Numbers};
pub use explain::{Explanation, explain};
pub use factors::Factors;
pub use failure::Failure;
pub use multiply::{Operands, multiply, multiply_with_epilogue, types};
pub use per_process::PerProcess;
pub use place::Place;
pub use scalar::Scalar;
pub use strided::Strided;
