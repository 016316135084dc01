//! Operands that each thread packs for itself, area by area of C, and the areas that C then has.

use super::TileTypes;
use super::packing::Blocks;
use crate::amx::pack::{LINES, step_bytes};

/// Lines of one operand up to which C is thin, and areas from which on the other is long.
const THIN: usize = 4 * LINES;
const LONG_AREAS: usize = 8;
/// Bytes of the lines of an area of a thin C, if these lie side by side: fewer would come from as many pages.
const LONG_BYTES: usize = 256;

/// Which operands are packed aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Aside {
    pub(super) a: bool,
    pub(super) b: bool,
    /// Panels of an area: of A, and of B.
    pub(super) sides: (usize, usize),
}

impl Aside {
    /// The long operand where C, of that many rows and columns, is thin. Threads do not count, so that which elements are
    /// admitted, and hence all bits, does not depend on how many there are.
    pub(super) fn of<T: TileTypes>((m, n): (usize, usize)) -> Option<Self> {
        let (a, lines, element) = match m <= THIN {
            true => (false, n, size_of::<T::B>()),
            false => (true, m, size_of::<T::A>()),
        };
        let (long, short) = (LONG_BYTES / (LINES * element), THIN / LINES);
        let sides = if a { (long, short) } else { (short, long) };
        let is_thin = m.min(n) <= THIN && lines >= LONG_AREAS * long * LINES;
        is_thin.then_some(Self { a, b: !a, sides })
    }

    /// Bytes of a block of an area's panels of A, and of B.
    pub(super) fn bytes<T: TileTypes>(self, k: Blocks) -> (usize, usize) {
        let steps = k.block(0).1;
        let of_a = if self.a { self.sides.0 * steps * step_bytes::<T::A>() } else { 0 };
        let of_b = if self.b { self.sides.1 * steps * step_bytes::<T::B>() } else { 0 };
        (of_a, of_b)
    }
}
