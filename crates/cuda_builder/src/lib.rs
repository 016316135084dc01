//! A kernel crate in, PTX and a typed report out.
//!
//! ```no_run
//! // Builds with the pinned device toolchain, which a documentation test cannot count on.
//! # fn main() -> Result<(), cuda_builder::BuildError> {
//! use cuda_builder::CudaBuilder;
//!
//! let artifact = CudaBuilder::new("kernels-gpu").arch("sm_70").copy_to("sm_70.ptx").build()?;
//! for entry in &artifact.entries {
//!     println!("{} takes {} parameters", entry.name, entry.params.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The calls are those of Rust-CUDA's crate of the same name. Underneath, the code generator is
//! rustc's own: the `nvptx64-nvidia-cuda` target of a pinned nightly, with `core` built from the
//! standard library's source. In the order in which a build uses them:
//!
//! * [`CudaBuilder`]: what to build, one setter for each knob;
//! * [`KernelCrate`]: what the kernel crate's manifest says, the pinned toolchain among it;
//! * [`Toolchain`]: that toolchain as rustup has it;
//! * [`EntryDirectives`]: what is written into the text after the compiler has made it;
//! * [`digest`]: the digest of the sources, which anyone can compare with the PTX's [`Header`];
//! * [`ptxas`]: the assembler, and what its log says of each entry.

#![forbid(unsafe_code)]

mod builder;
pub mod command;
mod compile;
pub mod digest;
mod directives;
mod error;
mod header;
mod manifest;
pub mod ptxas;
mod toolchain;

pub use builder::{Artifact, CudaBuilder, write_whole};
pub use directives::EntryDirectives;
pub use error::BuildError;
pub use header::{Header, body};
pub use manifest::{DebianPin, KernelCrate, Pins};
pub use toolchain::Toolchain;
