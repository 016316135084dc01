//! The types of the products that the engine computes.

use gemm_spec::{Accumulator, GemmTypes};

use crate::isa::PackedTypes;

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

/// Products of accumulators: tiles read A and B where they lie, and C holds sums.
pub(crate) trait OwnSums:
    Accumulator + GemmTypes<A = Self, B = Self, Acc = Self, C = Self>
{
}

impl<T: Accumulator + GemmTypes<A = T, B = T, Acc = T, C = T>> OwnSums for T {}
