//! Why a plan cannot run on what it was given.

use std::fmt;

use cuda_lazy::DevicePtr;

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
    /// Groups are given to a plan that has none.
    NoGroups,
    /// A prepared factor is given to a plan that splits both.
    NotPrepared,
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
            Self::NotPrepared => f.write_str(
                "is given, and the plan's descriptor has none; see GemmDesc::with_prepared",
            ),
            Self::NoGroups => {
                f.write_str("is given, and the plan's products have no groups of rows")
            }
        }
    }
}
