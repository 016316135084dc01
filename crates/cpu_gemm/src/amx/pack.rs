//! Packing: panels of an operand as tiles of 16 rows of 64 bytes.
//!
//! A panel is 32 lines, rows of A or columns of B, along k. It is a row of steps; a step is, for each plane
//! of pieces, two tiles of 16 lines by 64 bytes of k. Lines and steps that do not exist are zeros.
//!
//! The instructions want their operands in two forms. A row of a tile of B is a line; a row of a tile of A is
//! a group of two or four k elements, of 16 lines. The one is the other with its 32-bit groups transposed.

use super::pieces::{Pieces, Range};

/// Lines of a panel.
pub(super) const LINES: usize = 32;
/// Bytes of a tile.
pub(super) const TILE: usize = 1024;
/// Bytes of a step of one plane.
pub(super) const PLANE: usize = 2 * TILE;

/// What a row of a tile is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A line, as of B.
    Lines,
    /// A group of steps, as of A.
    Groups,
}

/// Panels side by side to pack, some steps of each.
#[derive(Clone, Copy)]
pub(super) struct Panels<E> {
    /// Element (line, p) is at `from + line * along + p * apart`.
    pub(super) from: *const E,
    /// See `from`.
    pub(super) along: usize,
    /// See `from`.
    pub(super) apart: usize,
    /// Lines of all panels, and how many of them, of the first panel, do not exist: `from` is that many
    /// lines before the first that does.
    pub(super) lines: usize,
    pub(super) missing: usize,
    /// Elements along k; behind them are zeros.
    pub(super) k: usize,
    /// By how many elements along k the operand is asked for ahead, if by any.
    pub(super) ahead: Option<usize>,
    /// Steps to fill.
    pub(super) steps: usize,
    /// The first panel's first step, at a multiple of 64 bytes.
    pub(super) to: *mut u8,
    /// Bytes from one panel to the next.
    pub(super) panel: usize,
    pub(super) form: Form,
}

/// Packs panels and tells the range of what they hold.
pub(super) type PackFn<E> = unsafe fn(&Panels<E>) -> Range;

/// Bytes of a step of all planes.
pub(super) const fn step_bytes<E: Pieces>() -> usize {
    E::PLANES * PLANE
}

/// Packs panels, element by element.
///
/// # Safety
/// `from` can be read for all `lines` that exist and `k`; `to` can be written for `steps` steps of each panel, and nobody
/// else uses it meanwhile.
pub(super) unsafe fn pack<E: Pieces>(panels: &Panels<E>) -> Range {
    let &Panels { from, along, apart, lines, missing, k, steps, to, panel, form, .. } = panels;
    let mut range = Range::EMPTY;
    for line in 0..lines.next_multiple_of(LINES) {
        let tile = to.wrapping_add(line / LINES * panel + line % LINES / 16 * TILE);
        for p in 0..steps * E::STEP {
            let mut pieces = [E::Piece::default(); 3];
            if line >= missing && line < lines && p < k {
                // SAFETY: the line and the element exist, which the caller promises can be read.
                let element =
                    unsafe { from.wrapping_add(line * along).wrapping_add(p * apart).read() };
                range = range.with(element.magnitude());
                pieces = element.pieces();
            }
            let (group, within) = (p % E::STEP / E::GROUP, p % E::GROUP);
            let (row, col) = match form {
                Form::Lines => (line % 16, group),
                Form::Groups => (group, line % 16),
            };
            let at = p / E::STEP * step_bytes::<E>() + row * 64 + col * 4;
            for (plane, piece) in pieces.into_iter().enumerate().take(E::PLANES) {
                let to = tile.wrapping_add(at + plane * PLANE).cast::<E::Piece>();
                // SAFETY: within this step of the panel, and aligned, since tiles begin at lines.
                unsafe { to.wrapping_add(within).write(piece) };
            }
        }
    }
    range
}
