//! What a plan is given: limits when it is made, operands and a workspace when it runs.

use cuda_lazy::DevicePtr;

/// Of what a workspace's address is a multiple.
pub(super) const WORKSPACE_ALIGNMENT: u64 = 256;
/// Of what TMA asks the addresses of operands to be multiples.
pub(super) const TMA_ALIGNMENT: u64 = gemm_spec::tensor::ALIGNMENT;

/// What a [`Plan`](super::Plan) may count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PlanLimits {
    /// Most bytes of workspace that a run will be given. Kernels that need more are not picked.
    pub workspace: u64,
    /// Bytes of which the addresses of A, B, C and D are multiples, a power of two. Where it is less than 16,
    /// operands that TMA loads are copied to the workspace first.
    pub alignment: u64,
}

impl Default for PlanLimits {
    /// Whatever workspace the kernel that suits best needs, and operands at multiples of 16 bytes.
    fn default() -> Self {
        Self { workspace: u64::MAX, alignment: TMA_ALIGNMENT }
    }
}

impl PlanLimits {
    /// The same with the largest alignment, of those that make a difference, that all addresses have.
    #[must_use]
    pub fn for_addresses(self, addresses: &[DevicePtr]) -> Self {
        let all = addresses.iter().fold(TMA_ALIGNMENT, |all, address| all | address);
        Self { alignment: 1 << all.trailing_zeros(), ..self }
    }
}

/// Addresses on the device of the first elements of the operands of one product. C may be D, where both have
/// one layout. What is not read may be 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operands {
    /// The first element of A.
    pub a: DevicePtr,
    /// The first element of B.
    pub b: DevicePtr,
    /// The first element of C.
    pub c: DevicePtr,
    /// The first element of D.
    pub d: DevicePtr,
}

impl Operands {
    pub(super) const fn in_order(self) -> [DevicePtr; 4] {
        [self.a, self.b, self.c, self.d]
    }
}

/// Addresses on the device of the numbers of an [`Epilogue`](gemm_spec::Epilogue). What it does not have may be 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpilogueOperands {
    /// The bias: m or n elements of D's type, or as many for each product.
    pub bias: DevicePtr,
    /// The factors of the rows: m numbers of the sums' type.
    pub row_scales: DevicePtr,
    /// The factors of the columns: n numbers of the sums' type.
    pub column_scales: DevicePtr,
    /// Where the largest magnitude of D goes: one f32.
    pub amax: DevicePtr,
    /// Alpha, and behind it beta: numbers of the sums' type. Where alpha is 0, what A and B hold does not matter; nor
    /// does what C holds where beta is 0.
    pub scalars: DevicePtr,
}

impl EpilogueOperands {
    /// The same of the transposed product.
    pub(super) const fn transposed(self) -> Self {
        let Self { row_scales, column_scales, .. } = self;
        Self { row_scales: column_scales, column_scales: row_scales, ..self }
    }

    /// The same of a product of a batch, whose bias is that many bytes behind the one before.
    pub(super) const fn of_product(self, product: u64, bias_bytes: u64) -> Self {
        Self { bias: self.bias + product * bias_bytes, ..self }
    }
}

/// A factor's limbs on the device, and what splitting has found out about it: where
/// [`Plan::prepare`](super::Plan::prepare) leaves them and runs find them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreparedFactor {
    /// Where they begin: a multiple of 256.
    pub address: DevicePtr,
    /// Bytes that there are.
    pub bytes: u64,
}

/// Device memory for a run besides its operands, whose content is whatever it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workspace {
    /// Where it begins: a multiple of 256.
    pub address: DevicePtr,
    /// How long it is.
    pub bytes: u64,
}

impl Workspace {
    /// None, for plans that need none.
    pub const NONE: Self = Self { address: 0, bytes: 0 };
}
