//! How a launch covers C.

/// How a launch covers C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchShape {
    /// A grid of equal blocks; each owns a tile of C.
    Grid {
        /// Threads in a block.
        block: Block,
        /// Elements of C that a block owns.
        tile: Tile,
    },
    /// A grid along x alone of equal blocks, whose tiles follow each other down a group of rows of
    /// tiles before they go on to the next column, see [`crate::index::grouped_tile`].
    Grouped {
        /// Threads in a block.
        block: Block,
        /// Elements of C that a block owns.
        tile: Tile,
        /// Rows of tiles in a group.
        rows: u32,
    },
    /// As many blocks along x as the device has SMs, or as there are tiles if they are
    /// fewer; each goes from tile to tile, in the order of [`crate::index::grouped_tile`].
    Persistent {
        /// Threads in a block.
        threads: u32,
        /// Elements of C of a block at a time.
        tile: Tile,
        /// Rows of tiles in a group.
        rows: u32,
    },
    /// One block whose threads are the elements of C: n along x, m along y.
    SingleBlock,
}

impl LaunchShape {
    /// The elements of C that a block owns; none where the block follows the problem.
    #[must_use]
    pub const fn tile(&self) -> Option<Tile> {
        match *self {
            Self::Grid { tile, .. }
            | Self::Grouped { tile, .. }
            | Self::Persistent { tile, .. } => Some(tile),
            Self::SingleBlock => None,
        }
    }
}

/// Threads of a block along x and y.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Along the columns of C.
    pub x: u32,
    /// Along the rows of C.
    pub y: u32,
}

/// Rows and columns of C that one block owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
}

/// Blocks of a launch along x, y and z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Along the columns of C.
    pub x: u32,
    /// Along the rows of C.
    pub y: u32,
    /// Further rows of blocks, see [`crate::index::block_row`].
    pub z: u32,
}
