//! Tessera: matrix products on CPU and GPU, verified, measured and explained.

pub mod scalar;
pub mod verify;

pub use scalar::Scalar;
