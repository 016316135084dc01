//! The element types that the engine multiplies.

use crate::isa::PackedElement;

/// An element type of A and B that the engine multiplies: f32, f64, i32, i8, f16 and bf16.
///
/// The trait is sealed: unsafe code relies on what the types here are.
#[expect(private_bounds, reason = "what seals it")]
pub trait CpuElement: PackedElement {}

impl<T: PackedElement> CpuElement for T {}
