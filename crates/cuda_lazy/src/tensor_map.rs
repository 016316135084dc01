//! Tensor maps: the descriptor by which Hopper's TMA reads a box of a tensor.

use std::ffi::{c_int, c_uint};

use crate::abi::TensorMap;
use crate::error::DriverError;
use crate::{DevicePtr, Driver, raw};

/// What a tensor is and how it is copied; dimension 0 is the contiguous one throughout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMapDesc<'a> {
    /// Element type.
    pub data_type: DataType,
    /// Address of element zero on the device; a multiple of 16.
    pub address: DevicePtr,
    /// Elements in each dimension: 1 to 5 of them.
    pub dims: &'a [u64],
    /// Bytes from one index to the next in dimensions 1 and up (dimension 0 has no stride); each a
    /// multiple of 16.
    pub strides: &'a [u64],
    /// Elements of the box that one copy moves, in each dimension; at most 256 each.
    pub box_dims: &'a [u32],
    /// Every how many elements one is taken, in each dimension; 1 for a dense box.
    pub element_strides: &'a [u32],
    /// How elements interleave.
    pub interleave: Interleave,
    /// How the box lies in shared memory.
    pub swizzle: Swizzle,
    /// How much of a line the L2 cache takes at once.
    pub l2_promotion: L2Promotion,
    /// What reads outside of the tensor give.
    pub oob_fill: OobFill,
}

impl<'a> TensorMapDesc<'a> {
    /// A dense box of a tensor, unswizzled, with zeros outside: the usual start of a description.
    #[must_use]
    pub const fn new(
        data_type: DataType,
        address: DevicePtr,
        dims: &'a [u64],
        strides: &'a [u64],
        box_dims: &'a [u32],
    ) -> Self {
        let element_strides: &[u32] = if box_dims.len() <= MAX_RANK {
            ONES.split_at(box_dims.len()).0
        } else {
            // Refused by `check_lengths`, like the box itself.
            &ONES
        };
        Self {
            data_type,
            address,
            dims,
            strides,
            box_dims,
            element_strides,
            interleave: Interleave::None,
            swizzle: Swizzle::None,
            l2_promotion: L2Promotion::None,
            oob_fill: OobFill::Zeros,
        }
    }

    /// The rank, if every slice has the length that goes with it. The driver takes bare pointers and
    /// reads as far as the rank says: this keeps it inside the slices.
    fn check_lengths(&self) -> Result<c_uint, TensorMapError> {
        let rank = self.dims.len();
        let agrees = (1..=MAX_RANK).contains(&rank)
            && self.strides.len() == rank - 1
            && self.box_dims.len() == rank
            && self.element_strides.len() == rank;
        match c_uint::try_from(rank) {
            Ok(rank) if agrees => Ok(rank),
            _ => Err(TensorMapError::Lengths {
                dims: rank,
                strides: self.strides.len(),
                box_dims: self.box_dims.len(),
                element_strides: self.element_strides.len(),
            }),
        }
    }
}

/// Most dimensions that a tensor map has.
const MAX_RANK: usize = 5;
const ONES: [u32; MAX_RANK] = [1; MAX_RANK];

/// Why a tensor map could not be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorMapError {
    /// The slices of the description do not have the lengths of one rank.
    #[error(
        "a tensor map of rank {dims} takes 1 to 5 dimensions, one stride fewer, and as many box sizes and \
         element strides; got {strides} strides, {box_dims} box sizes and {element_strides} element strides"
    )]
    Lengths {
        /// Number of dimensions.
        dims: usize,
        /// Number of strides.
        strides: usize,
        /// Number of box sizes.
        box_dims: usize,
        /// Number of element strides.
        element_strides: usize,
    },
    /// The driver refused the description.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

impl Driver {
    /// `cuTensorMapEncodeTiled`: makes the descriptor. Nothing is read through the address here; the
    /// kernel that copies through the map answers for that.
    ///
    /// # Errors
    /// Slices that do not agree on a rank, or what the driver answers: it refuses addresses, strides
    /// and boxes that the hardware cannot take.
    pub fn encode_tiled(&self, desc: &TensorMapDesc<'_>) -> Result<TensorMap, TensorMapError> {
        let rank = desc.check_lengths()?;
        let mut map = TensorMap { words: [0; 16] };
        // SAFETY: each slice holds as many values as `rank` makes the driver read (`check_lengths`),
        // `map` has the size and alignment of the driver's type, and the address is only encoded.
        let code = unsafe {
            raw::cuTensorMapEncodeTiled(
                self.table(),
                &mut map,
                desc.data_type as c_int,
                rank,
                desc.address,
                desc.dims.as_ptr(),
                desc.strides.as_ptr(),
                desc.box_dims.as_ptr(),
                desc.element_strides.as_ptr(),
                desc.interleave as c_int,
                desc.swizzle as c_int,
                desc.l2_promotion as c_int,
                desc.oob_fill as c_int,
            )
        };
        self.check("cuTensorMapEncodeTiled", code)?;
        Ok(map)
    }
}

/// `CUtensorMapDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum DataType {
    /// 8-bit unsigned; also the type for 8-bit floats.
    U8 = 0,
    /// 16-bit unsigned.
    U16 = 1,
    /// 32-bit unsigned.
    U32 = 2,
    /// 32-bit signed.
    I32 = 3,
    /// 64-bit unsigned.
    U64 = 4,
    /// 64-bit signed.
    I64 = 5,
    /// IEEE half.
    F16 = 6,
    /// IEEE single.
    F32 = 7,
    /// IEEE double.
    F64 = 8,
    /// bfloat16.
    Bf16 = 9,
    /// IEEE single, subnormals flushed to zero.
    F32Ftz = 10,
    /// Single rounded to TF32 as it is copied.
    Tf32 = 11,
    /// As `Tf32`, subnormals flushed to zero.
    Tf32Ftz = 12,
}

/// `CUtensorMapInterleave`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Interleave {
    /// None: the plain layout.
    None = 0,
    /// 16 bytes.
    B16 = 1,
    /// 32 bytes.
    B32 = 2,
}

/// `CUtensorMapSwizzle`: how 16-byte chunks are permuted in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Swizzle {
    /// None: the box lies row after row.
    None = 0,
    /// Within 32 bytes.
    B32 = 1,
    /// Within 64 bytes.
    B64 = 2,
    /// Within 128 bytes.
    B128 = 3,
}

/// `CUtensorMapL2promotion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum L2Promotion {
    /// None.
    None = 0,
    /// 64 bytes.
    B64 = 1,
    /// 128 bytes.
    B128 = 2,
    /// 256 bytes.
    B256 = 3,
}

/// `CUtensorMapFloatOOBfill`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum OobFill {
    /// Zeros.
    Zeros = 0,
    /// A NaN that fused multiply-adds take for zero.
    NanRequestZeroFma = 1,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_fit_one_rank_pass() {
        let desc = TensorMapDesc::new(DataType::F32, 0x1000, &[64, 32], &[256], &[32, 8]);
        assert_eq!(desc.check_lengths(), Ok(2));
        assert_eq!(desc.element_strides, [1, 1]);
    }

    #[test]
    fn lengths_that_would_read_past_a_slice_are_refused() {
        let good = TensorMapDesc::new(DataType::F32, 0x1000, &[64, 32], &[256], &[32, 8]);
        for bad in [
            TensorMapDesc { dims: &[], ..good },
            TensorMapDesc { dims: &[1; 6], strides: &[16; 5], ..good },
            TensorMapDesc { strides: &[], ..good },
            TensorMapDesc { strides: &[4, 256], ..good },
            TensorMapDesc { box_dims: &[32], ..good },
            TensorMapDesc { element_strides: &[1], ..good },
            TensorMapDesc::new(DataType::F32, 0x1000, &[64; 6], &[16; 5], &[1; 6]),
        ] {
            assert!(matches!(bad.check_lengths(), Err(TensorMapError::Lengths { .. })), "{bad:?}");
        }
    }
}
