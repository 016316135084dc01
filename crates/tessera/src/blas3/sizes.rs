//! Sizes of operands, of their halves, and of the squares that these end with.

use crate::error::Error;

/// Checks the size of an operand.
pub(crate) fn check_size(
    routine: &'static str,
    matrix: &'static str,
    (rows, cols): (usize, usize),
    wanted: (usize, usize),
) -> Result<(), Error> {
    match (rows, cols) == wanted {
        true => Ok(()),
        false => Err(Error::Operand { routine, matrix, rows, cols, wanted }),
    }
}

/// Rows of a square on the diagonal that is worked on aside.
pub(super) const SQUARE: usize = 64;

/// Why a square fits the room that [`with_room`] gives it.
pub(super) const ROOM_FOR_A_SQUARE: &str = "invariant: there is room for a square";

/// Calls for a square of `n` rows, at most [`SQUARE`], with the elements that there must be room for. Room is
/// cleared, which for few elements would be most of the work.
macro_rules! with_room {
    ($n:expr, $room:ident => $call:expr) => {
        match $n {
            0..=4 => {
                const $room: usize = 4 * 4;
                $call
            }
            5..=8 => {
                const $room: usize = 8 * 8;
                $call
            }
            9..=16 => {
                const $room: usize = 16 * 16;
                $call
            }
            17..=24 => {
                const $room: usize = 24 * 24;
                $call
            }
            25..=32 => {
                const $room: usize = 32 * 32;
                $call
            }
            _ => {
                const $room: usize = $crate::blas3::sizes::SQUARE * $crate::blas3::sizes::SQUARE;
                $call
            }
        }
    };
}
pub(super) use with_room;

/// Where a matrix of `n` rows is halved: at a multiple of `unit`.
pub(crate) fn half(n: usize, unit: usize) -> usize {
    (n / 2).next_multiple_of(unit).min(n - 1)
}
