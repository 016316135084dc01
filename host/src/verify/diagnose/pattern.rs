//! What can be wrong with a product, and each of it in words.

use std::fmt;

use gemm_spec::Operand;
use serde::{Serialize, Serializer};

use super::WIDTHS;

/// Rows or columns of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Axis {
    /// Rows, the axis of m.
    Rows,
    /// Columns, the axis of n.
    Columns,
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rows => "rows",
            Self::Columns => "columns",
        })
    }
}

/// What was added to a sum that should have begun at zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "added", rename_all = "snake_case")]
pub enum Leftover {
    /// What C held before the run.
    OldC,
    /// After each tile of k the whole sum so far, instead of that tile's share.
    RunningSum {
        /// Width of a tile of k.
        width: usize,
        /// Whether the old C was added as well.
        old_c: bool,
    },
    /// The sums of the tiles of C that came before along this axis.
    EarlierTiles {
        /// Along what the tiles lie side by side.
        axis: Axis,
        /// Width of a tile of C.
        width: usize,
    },
}

/// A factor of the problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Factor {
    /// The factor of the product.
    Alpha,
    /// The factor of the old C.
    Beta,
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alpha => "alpha",
            Self::Beta => "beta",
        })
    }
}

/// A way in which a product goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "name", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Pattern {
    /// Rows and columns of the whole result are exchanged.
    TransposedResult,
    /// An operand is read as if its rows were its columns.
    TransposedOperand {
        /// Which.
        #[serde(serialize_with = "letter")]
        operand: Operand,
    },
    /// Each tile is in its place, but rows and columns inside it are exchanged.
    TransposedInTiles {
        /// Tiles of which matrix.
        #[serde(serialize_with = "letter")]
        operand: Operand,
        /// Width of a tile.
        width: usize,
    },
    /// Only the last tile of k is in the sum.
    LastTileOnly {
        /// k elements that were counted.
        steps: usize,
        /// Tile widths whose last tile has as many steps.
        widths: Vec<usize>,
    },
    /// The last k elements are not in the sum.
    TailMissing {
        /// Steps that are missing.
        steps: usize,
        /// Tile widths that leave as many steps over.
        widths: Vec<usize>,
    },
    /// Each block computes what belongs to the block across the diagonal.
    BlockAxesSwapped {
        /// Width of a block.
        width: usize,
    },
    /// The grid covers C as if its rows were its columns: what lies beyond was never written.
    GridAxesSwapped {
        /// Widths of blocks that cover as much.
        widths: Vec<usize>,
    },
    /// The block's own offset is not in the index: every block works on the same rows or columns.
    BlockOffsetMissing {
        /// Of rows or of columns.
        axis: Axis,
        /// Width of a block.
        width: usize,
        /// The block that all work on.
        block: usize,
        /// Whether they store there too, so that nothing else is ever written.
        stored: bool,
    },
    /// Sums start from something that was there before.
    AccumulatorNotZeroed {
        /// What was added.
        #[serde(flatten)]
        leftover: Leftover,
    },
    /// Some reads of a tile found the tile before it: the barrier between loading and use is missing.
    StaleTile {
        /// Width of a tile of k.
        width: usize,
    },
    /// Some reads of a tile found the next one: the barrier between use and overwriting is missing.
    OverwrittenEarly {
        /// Width of a tile of k.
        width: usize,
    },
    /// The last rows or columns of C were never written.
    EdgeUnwritten {
        /// Rows at the bottom.
        rows: usize,
        /// Columns at the right.
        cols: usize,
        /// Tile widths whose whole tiles end where writing ended.
        widths: Vec<usize>,
    },
    /// What was stored right of the last column went to the start of the next row.
    SpilledOver {
        /// Columns of tiles that lie beyond the last.
        cols: usize,
        /// Width of a block.
        width: usize,
    },
    /// Elements that were never written, in no pattern that has a name.
    NeverWritten {
        /// How many of the elements looked at.
        count: usize,
    },
    /// An operand's rows are taken to lie closer together or farther apart than they do.
    WrongLeadingDimension {
        /// Which.
        #[serde(serialize_with = "letter")]
        operand: Operand,
        /// The value that explains the result.
        ld: usize,
    },
    /// A factor is not the one that was asked for.
    WrongFactor {
        /// Which.
        factor: Factor,
        /// The value that explains the result.
        value: f64,
    },
    /// NaN or infinity where numbers belong.
    NotFinite {
        /// How many of the elements looked at.
        count: usize,
    },
    /// One element alone is wrong.
    SingleElement {
        /// The bit whose flip explains it, from the lowest, where one does.
        bit: Option<u32>,
    },
    /// Everything is nearly right.
    Noise {
        /// Largest error, in units of the type's roundoff times the sum of magnitudes.
        units: f64,
    },
}

impl Pattern {
    /// Whether it names an edge where the tiles of some usual width end.
    pub(super) fn fits_tiles(&self) -> bool {
        matches!(self, Self::EdgeUnwritten { widths, .. } if widths.iter().any(|w| WIDTHS.contains(w)))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn letter<S: Serializer>(operand: &Operand, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(operand)
}

/// Tile widths as text.
fn listed(widths: &[usize]) -> String {
    let words: Vec<String> = widths.iter().map(ToString::to_string).collect();
    words.join(", ")
}

/// "a, b or c wide tiles" in brackets, or nothing where no width fits.
fn fitting(widths: &[usize]) -> String {
    if widths.is_empty() {
        String::new()
    } else {
        format!(" (fits tiles of width {})", listed(widths))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TransposedResult => f.write_str("the whole result is transposed"),
            Self::TransposedOperand { operand } => {
                write!(f, "{operand} is read as if its rows were its columns")
            }
            Self::TransposedInTiles { operand: Operand::C, width } => write!(
                f,
                "the result is transposed inside each tile of {width} x {width}: the row comes from \
                 the thread's x and the column from its y"
            ),
            Self::TransposedInTiles { operand, width } => {
                write!(f, "tiles of {operand}, {width} x {width}, are read transposed")
            }
            Self::LastTileOnly { steps, widths } => write!(
                f,
                "only the last {steps} steps of k are in the sum, as if only the last tile were \
                 multiplied{}",
                fitting(widths)
            ),
            Self::TailMissing { steps, widths } => {
                let fits = fitting(widths);
                write!(f, "the last {steps} steps of k are missing from the sum{fits}")
            }
            Self::BlockAxesSwapped { width } => write!(
                f,
                "block axes are swapped: each block of {width} x {width} holds what belongs to the \
                 block across the diagonal"
            ),
            Self::GridAxesSwapped { widths } => write!(
                f,
                "the grid's axes are swapped: blocks cover as many rows as C has columns, and what \
                 lies beyond was never written{}",
                fitting(widths)
            ),
            Self::BlockOffsetMissing { axis, width, block, stored } => {
                write!(f, "the block's offset is missing: {axis} come from ")?;
                write!(
                    f,
                    "{} + thread (block {block}, width {width}) in every block",
                    width * block
                )?;
                f.write_str(if *stored { ", and nothing else was ever written" } else { "" })
            }
            Self::AccumulatorNotZeroed { leftover } => {
                f.write_str("the accumulator is not zeroed: ")?;
                match leftover {
                    Leftover::OldC => f.write_str("what C held before was added"),
                    Leftover::RunningSum { width, old_c } => {
                        let old = if *old_c { ", on top of what C held before" } else { "" };
                        write!(f, "after each tile of {width} the whole sum so far was added{old}")
                    }
                    Leftover::EarlierTiles { axis, width } => write!(
                        f,
                        "the sums of earlier tiles of C, {width} {axis} apart, were kept and added"
                    ),
                }
            }
            Self::StaleTile { width } => write!(
                f,
                "some reads of a tile of k, {width} wide, found the tile before it: looks like a \
                 missing barrier between loading a tile and using it"
            ),
            Self::OverwrittenEarly { width } => write!(
                f,
                "some reads of a tile of k, {width} wide, found the next one: looks like a missing \
                 barrier between using a tile and overwriting it"
            ),
            Self::EdgeUnwritten { rows, cols, widths } => write!(
                f,
                "the last {rows} rows and {cols} columns of C were never written: no tile covers \
                 the edge{}",
                fitting(widths)
            ),
            Self::SpilledOver { cols, width } => write!(
                f,
                "stores have no guard: {cols} columns of the last tiles, {width} wide, spill over to \
                 the start of the next row"
            ),
            Self::NeverWritten { count } => {
                write!(f, "{count} of the elements looked at were never written")
            }
            Self::WrongLeadingDimension { operand, ld } => {
                write!(f, "the leading dimension of {operand} is taken to be {ld}")
            }
            Self::WrongFactor { factor: Factor::Alpha, value: 1.0 } => {
                f.write_str("alpha is forgotten: the product is added as it is")
            }
            Self::WrongFactor { factor: Factor::Beta, value: 0.0 } => {
                f.write_str("beta * C is forgotten")
            }
            Self::WrongFactor { factor: Factor::Beta, value: 1.0 } => {
                f.write_str("beta is forgotten: the old C is added as it is")
            }
            Self::WrongFactor { factor, value } => write!(f, "{factor} is taken to be {value}"),
            Self::NotFinite { count } => {
                write!(f, "{count} of the elements looked at are not finite, and should be")
            }
            Self::SingleElement { bit: Some(bit) } => {
                write!(f, "one element alone is wrong, and right once bit {bit} is flipped")
            }
            Self::SingleElement { bit: None } => f.write_str("one element alone is wrong"),
            Self::Noise { units } => write!(
                f,
                "every element is nearly right: the largest error is {units:.1} roundings of the \
                 sum of magnitudes"
            ),
        }
    }
}
