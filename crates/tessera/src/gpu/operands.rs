//! What a plan is given: limits when it is made, operands and a workspace when it runs.

use std::fmt;

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

/// Why a plan cannot run on what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperandFault {
    /// The address is 0.
    Null,
    /// The address is no multiple of what the plan counts on.
    Misaligned {
        /// The address.
        address: DevicePtr,
        /// What it should be a multiple of.
        alignment: u64,
    },
    /// C is where D is, in another layout.
    InPlace,
    /// The driver knows no memory of a device there.
    NotOnDevice {
        /// The address.
        address: DevicePtr,
    },
    /// The memory is another device's.
    OtherDevice {
        /// The device, as the driver numbers it.
        device: i32,
        /// The plan's.
        wanted: i32,
    },
    /// The matrix is of another context than the stream.
    OtherContext,
    /// There are fewer bytes than needed.
    TooShort {
        /// Bytes there are.
        bytes: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// There are more or fewer addresses than products.
    Count {
        /// Addresses that were given.
        given: usize,
        /// Products.
        products: usize,
    },
}

impl fmt::Display for OperandFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Null => f.write_str("is null; pass the address of device memory"),
            Self::Misaligned { address, alignment } => write!(
                f,
                "is at {address:#x}, no multiple of {alignment}; plan with a smaller alignment"
            ),
            Self::InPlace => f.write_str(
                "is where D is, in another layout; give both one layout, or D a place of its own",
            ),
            Self::NotOnDevice { address } => {
                write!(f, "is at {address:#x}, where the driver knows no device memory")
            }
            Self::OtherDevice { device, wanted } => {
                write!(f, "is on device {device}, the plan runs on device {wanted}")
            }
            Self::OtherContext => f.write_str("is of another context than the stream"),
            Self::TooShort { bytes, needed } => {
                write!(f, "has {bytes} bytes, and {needed} are needed")
            }
            Self::Count { given, products } => {
                write!(f, "are given for {given} products, and the plan is of {products}")
            }
        }
    }
}
