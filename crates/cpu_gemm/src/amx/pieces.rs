//! What tiles multiply: elements as they are, or as pieces of 16 bits whose sum they are.

use gemm_spec::{bf16, f16};

/// An element as its pieces, each in a plane of its own.
pub(crate) trait Pieces: Copy + Send + Sync + 'static {
    /// What a tile multiplies.
    type Piece: Copy + Default;

    /// Pieces of an element.
    const PLANES: usize;
    /// k elements that a tile holds side by side in 32 bits.
    const GROUP: usize = 4 / size_of::<Self::Piece>();
    /// k elements of a tile: a row of 64 bytes.
    const STEP: usize = 16 * Self::GROUP;

    /// The pieces, the largest first. Those behind the last plane mean nothing.
    fn pieces(self) -> [Self::Piece; 3];

    /// The magnitude as bits of an f32, by which [`Range`] watches it; 0 where nothing need be watched.
    fn magnitude(self) -> u32;
}

/// The smallest magnitude but zero, and the largest, as bits of an f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(super) least: u32,
    pub(super) largest: u32,
}

impl Range {
    /// That of no elements.
    pub(super) const EMPTY: Self = Self { least: u32::MAX, largest: 0 };

    /// That of both.
    pub(super) fn and(self, other: Self) -> Self {
        let (least, largest) = (self.least.min(other.least), self.largest.max(other.largest));
        Self { least, largest }
    }

    pub(super) fn with(self, magnitude: u32) -> Self {
        let least = if magnitude == 0 { self.least } else { self.least.min(magnitude) };
        Self { least, largest: self.largest.max(magnitude) }
    }
}

const SIGN: u32 = 0x8000_0000;

/// The nearest bf16, as `vcvtneps2bf16` rounds: subnormal numbers become zeros.
fn rounded(x: f32) -> bf16 {
    let flushed = if x.is_subnormal() { f32::from_bits(x.to_bits() & SIGN) } else { x };
    bf16::from_f32(flushed)
}

/// Three pieces are all 24 bits of an f32, each the rest of those before it, rounded.
impl Pieces for f32 {
    type Piece = bf16;

    const PLANES: usize = 3;

    fn pieces(self) -> [bf16; 3] {
        let high = rounded(self);
        let rest = self - high.to_f32();
        let middle = rounded(rest);
        [high, middle, rounded(rest - middle.to_f32())]
    }

    fn magnitude(self) -> u32 {
        self.to_bits() & !SIGN
    }
}

/// An f32 rounded to two pieces, 16 bits.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct TwoPieces(f32);

/// An f32 rounded to one piece, a bf16.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub(crate) struct OnePiece(f32);

macro_rules! rounded_elements {
    ($($element:ident: $planes:literal),*) => {$(
        impl Pieces for $element {
            type Piece = bf16;

            const PLANES: usize = $planes;

            fn pieces(self) -> [bf16; 3] {
                self.0.pieces()
            }

            fn magnitude(self) -> u32 {
                self.0.magnitude()
            }
        }
    )*};
}

rounded_elements!(TwoPieces: 2, OnePiece: 1);

/// Two pieces are all 11 bits of an f16.
impl Pieces for f16 {
    type Piece = bf16;

    const PLANES: usize = 2;

    fn pieces(self) -> [bf16; 3] {
        let wide = self.to_f32();
        let high = rounded(wide);
        [high, rounded(wide - high.to_f32()), bf16::ZERO]
    }

    fn magnitude(self) -> u32 {
        self.to_f32().to_bits() & !SIGN
    }
}

impl Pieces for bf16 {
    type Piece = Self;

    const PLANES: usize = 1;

    fn pieces(self) -> [Self; 3] {
        [self; 3]
    }

    fn magnitude(self) -> u32 {
        self.to_f32().to_bits() & !SIGN
    }
}

impl Pieces for i8 {
    type Piece = Self;

    const PLANES: usize = 1;

    fn pieces(self) -> [Self; 3] {
        [self; 3]
    }

    fn magnitude(self) -> u32 {
        0
    }
}
