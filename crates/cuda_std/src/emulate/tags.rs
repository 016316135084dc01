//! Which place of which matrix the pieces of 16 bytes of a block's shared memory come from, so that a product can be
//! told which rows and steps its descriptor takes.

use super::tensor_map::{CHUNK, TensorMap};
use crate::arch::sm90::tensor::Coords;

/// Where a piece begins in its matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    /// The matrix, by its address.
    matrix: usize,
    /// The first element, and the line in memory.
    pub(super) place: [i64; 2],
}

/// The tags of the shared memory of one block.
pub(super) struct Tags(Vec<Option<Tag>>);

impl Tags {
    pub(super) fn new(bytes: usize) -> Self {
        Self(vec![None; bytes.div_ceil(CHUNK)])
    }

    /// Something else than a copy of a box writes these bytes.
    pub(super) fn clear(&mut self, (start, bytes): (usize, usize)) {
        if let Some(tags) = self.0.get_mut(start / CHUNK..(start + bytes).div_ceil(CHUNK)) {
            tags.fill(None);
        }
    }

    /// The box at some coordinates of a map is copied to `offset`.
    pub(super) fn set(&mut self, offset: usize, map: &TensorMap, coords: Coords) {
        let [x, y, _] = coords.signed();
        let matrix = map.matrix(coords);
        let elements = (CHUNK / map.element_bytes) as i64;
        let line_bytes = map.line_bytes();
        for line in 0..map.box_dims[1] as usize {
            for chunk in 0..line_bytes / CHUNK {
                let at = offset + map.swizzled(line * line_bytes + chunk * CHUNK);
                if let Some(tag) = self.0.get_mut(at / CHUNK) {
                    let place = [x + chunk as i64 * elements, y + line as i64];
                    *tag = Some(Tag { matrix, place });
                }
            }
        }
    }

    /// That of the piece at this byte.
    pub(super) fn at(&self, byte: usize) -> Option<Tag> {
        self.0.get(byte / CHUNK).copied().flatten()
    }
}

/// A piece that a product takes from elsewhere than the tile of which its other pieces are.
pub(super) struct Stray {
    pub(super) found: [i64; 2],
    /// Where it would be; none where it is of another matrix.
    pub(super) expected: Option<[i64; 2]>,
}

/// The tile of a matrix of which the pieces of an operand are, as far as these have tags.
#[derive(Default)]
pub(super) struct Tile {
    matrix: usize,
    /// The place of its first piece.
    pub(super) first: Option<[i64; 2]>,
}

impl Tile {
    /// Compares the tag of the piece `across` elements and `down` lines from the first with those before.
    pub(super) fn add(&mut self, tag: Tag, [across, down]: [usize; 2]) -> Result<(), Stray> {
        let [x, y] = tag.place;
        let [across, down] = [across, down].map(|of| of as i64);
        let Some([first_x, first_y]) = self.first else {
            *self = Self { matrix: tag.matrix, first: Some([x - across, y - down]) };
            return Ok(());
        };
        let expected = [first_x + across, first_y + down];
        match (tag.matrix == self.matrix, expected == tag.place) {
            (true, true) => Ok(()),
            (same, _) => Err(Stray { found: tag.place, expected: same.then_some(expected) }),
        }
    }
}
