//! The types of the products that the engine computes.

use gemm_spec::{GemmTypes, bf16, f16};

use crate::packed_types::PackedTypes;

/// The types of a product that the engine computes: those of [`gemm_spec::Types`].
///
/// The trait is sealed: unsafe code relies on what the types here are.
#[expect(private_bounds, reason = "what seals it")]
pub trait CpuTypes: PackedTypes {
    /// The types of the transposed product `C^T = B^T * A^T`, in which A and B change places.
    type Transposed: CpuTypes<
            A = <Self as GemmTypes>::B,
            B = <Self as GemmTypes>::A,
            Acc = <Self as GemmTypes>::Acc,
            C = <Self as GemmTypes>::C,
        >;
}

/// A and B are of one type, so that the transposed product is one of the same types.
macro_rules! symmetric {
    ($($types:ty),*) => {$(
        impl CpuTypes for $types {
            type Transposed = Self;
        }
    )*};
}

symmetric!(f16, bf16, (f16, f32), (bf16, f32), f32, f64, i8, i32);
