//! Types of elements.

use tessera::DType;
use tessera_raw::Scalar;

/// What an array's elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
}

/// In what a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// In these elements: those of integers without a sign are those with one, modulo their size.
    Direct(Scalar),
    /// From bytes to 32-bit integers, of which the low ones are kept; of truth values whether they are zero.
    FromBytes,
    /// In 32-bit integers, to which factors are converted, and of which the low ones are kept.
    AsI32,
}

impl Kind {
    const ALL: [Self; 15] = [
        Self::Bool,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F16,
        Self::BF16,
        Self::F32,
        Self::F64,
        Self::C64,
        Self::C128,
    ];

    /// Those whose products are computed on a GPU where they are.
    pub(crate) const ON_GPU: [Self; 5] = [Self::F16, Self::BF16, Self::F32, Self::F64, Self::I32];

    /// The type that kernels have for those.
    pub(crate) const fn on_gpu(self) -> Option<DType> {
        Some(match self {
            Self::F16 => DType::F16,
            Self::BF16 => DType::BF16,
            Self::F32 => DType::F32,
            Self::F64 => DType::F64,
            Self::I32 => DType::I32,
            Self::Bool
            | Self::I8
            | Self::I16
            | Self::I64
            | Self::U8
            | Self::U16
            | Self::U32
            | Self::U64
            | Self::C64
            | Self::C128 => return None,
        })
    }

    /// The reverse.
    pub(crate) const fn of_dtype(dtype: DType) -> Self {
        match dtype {
            DType::F16 => Self::F16,
            DType::BF16 => Self::BF16,
            DType::F32 => Self::F32,
            DType::F64 => Self::F64,
            DType::I32 => Self::I32,
            DType::I8 => Self::I8,
        }
    }

    /// DLPack's code and bits of those.
    pub(crate) fn in_dlpack(self) -> (u8, u8) {
        let bits = u8::try_from(8 * self.size()).unwrap_or(u8::MAX);
        match self {
            Self::BF16 => (4, bits),
            Self::F16 | Self::F32 | Self::F64 => (2, bits),
            Self::C64 | Self::C128 => (5, bits),
            Self::Bool => (6, bits),
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => (1, bits),
            Self::I8 | Self::I16 | Self::I32 | Self::I64 => (0, bits),
        }
    }

    /// NumPy's name, which other libraries share.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I8 => "int8",
            Self::I16 => "int16",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::U8 => "uint8",
            Self::U16 => "uint16",
            Self::U32 => "uint32",
            Self::U64 => "uint64",
            Self::F16 => "float16",
            Self::BF16 => "bfloat16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::C64 => "complex64",
            Self::C128 => "complex128",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Bytes in an element.
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 | Self::C64 => 8,
            Self::C128 => 16,
        }
    }

    pub(crate) const fn way(self) -> Way {
        match self {
            Self::Bool | Self::I8 | Self::U8 => Way::FromBytes,
            Self::I16 | Self::U16 => Way::AsI32,
            Self::I32 | Self::U32 => Way::Direct(Scalar::Real(DType::I32)),
            Self::I64 | Self::U64 => Way::Direct(Scalar::Int64),
            Self::F16 => Way::Direct(Scalar::Real(DType::F16)),
            Self::BF16 => Way::Direct(Scalar::Real(DType::BF16)),
            Self::F32 => Way::Direct(Scalar::Real(DType::F32)),
            Self::F64 => Way::Direct(Scalar::Real(DType::F64)),
            Self::C64 => Way::Direct(Scalar::Complex64),
            Self::C128 => Way::Direct(Scalar::Complex128),
        }
    }

    /// The kind of such letters in NumPy's interface for C; what is `V` is told by its name.
    pub(crate) fn of_interface(letter: u8, size: usize) -> Option<Self> {
        Some(match (letter, size) {
            (b'b', 1) => Self::Bool,
            (b'i', 1) => Self::I8,
            (b'i', 2) => Self::I16,
            (b'i', 4) => Self::I32,
            (b'i', 8) => Self::I64,
            (b'u', 1) => Self::U8,
            (b'u', 2) => Self::U16,
            (b'u', 4) => Self::U32,
            (b'u', 8) => Self::U64,
            (b'f', 2) => Self::F16,
            (b'f', 4) => Self::F32,
            (b'f', 8) => Self::F64,
            (b'c', 8) => Self::C64,
            (b'c', 16) => Self::C128,
            _ => return None,
        })
    }

    /// The kind of a type of DLPack.
    pub(crate) fn of_dlpack(code: u8, bits: u8) -> Option<Self> {
        Some(match (code, bits) {
            (0, _) => return Self::of_interface(b'i', usize::from(bits) / 8),
            (1, _) => return Self::of_interface(b'u', usize::from(bits) / 8),
            (2, 16) => Self::F16,
            (2, 32) => Self::F32,
            (2, 64) => Self::F64,
            (4, 16) => Self::BF16,
            (5, 64) => Self::C64,
            (5, 128) => Self::C128,
            (6, 8) => Self::Bool,
            _ => return None,
        })
    }
}
