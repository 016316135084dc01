//! Tensor maps: the matrices of which TMA copies boxes.

use crate::arch::sm90::tensor::Coords;

/// Bytes of the chunks that a swizzle moves.
pub(super) const CHUNK: usize = 16;

/// How TMA arranges the lines of a box in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swizzle {
    /// Line after line.
    None,
    /// Chunks of 16 bytes move within lines of 128 bytes, by the number of the line among eight.
    B128,
}

/// The matrices of a tensor map of rank 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrices {
    /// How many there are.
    pub count: u64,
    /// Bytes from one to the next, a multiple of 16.
    pub stride: u64,
}

/// A tensor map: matrices of contiguous lines, and the box of one of them that one copy moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// The first element, at a multiple of 16.
    pub address: usize,
    /// Bytes of an element.
    pub element_bytes: usize,
    /// Elements of a line, and lines.
    pub dims: [u64; 2],
    /// Bytes from one line to the next, a multiple of 16.
    pub pitch: u64,
    /// Of a map of rank 3; none of rank 2.
    pub matrices: Option<Matrices>,
    /// Elements of a line of the box, and its lines.
    pub box_dims: [u32; 2],
    /// The arrangement of the box.
    pub swizzle: Swizzle,
}

impl TensorMap {
    /// Why no device would take the map.
    pub(super) fn fault(&self) -> Option<String> {
        let [width, lines] = self.box_dims;
        let line = self.line_bytes();
        let refuse = |what: &str| Some(format!("a tensor map {what}"));
        if !self.address.is_multiple_of(CHUNK) {
            refuse("whose address is no multiple of 16")
        } else if !self.pitch.is_multiple_of(CHUNK as u64) {
            refuse("whose pitch is no multiple of 16")
        } else if !(1..=256).contains(&width) || !(1..=256).contains(&lines) {
            refuse("whose box has no or more than 256 elements along a dimension")
        } else if !line.is_multiple_of(CHUNK) {
            refuse("whose box has lines of no multiple of 16 bytes")
        } else if self.swizzle == Swizzle::B128 && line > 128 {
            refuse("whose box has lines longer than its swizzle")
        } else if self.matrices.is_some_and(|of| !of.stride.is_multiple_of(CHUNK as u64)) {
            refuse("whose matrices are no multiple of 16 apart")
        } else if self.dims.contains(&0) || self.matrices.is_some_and(|of| of.count == 0) {
            refuse("of no elements")
        } else {
            None
        }
    }

    /// Why a device would not load the box at these coordinates: of a swizzled box in the middle of 16 bytes it says
    /// that the instruction is illegal, which no manual tells (docs/notebook/kernels.md).
    pub(super) fn fault_of_load(&self, coords: Coords) -> Option<String> {
        let [x, ..] = coords.signed();
        let bytes = x * i64::try_from(self.element_bytes).unwrap_or_default();
        let fits = self.swizzle == Swizzle::None || bytes % 16 == 0;
        (!fits).then(|| {
            format!("a swizzled box that begins {bytes} bytes into the lines, no multiple of 16")
        })
    }

    /// Bytes of a line of the box.
    pub(super) fn line_bytes(&self) -> usize {
        self.box_dims[0] as usize * self.element_bytes
    }

    pub(super) fn box_bytes(&self) -> usize {
        self.line_bytes() * self.box_dims[1] as usize
    }

    /// What a box in shared memory begins at a multiple of.
    pub(super) fn alignment(&self) -> usize {
        match self.swizzle {
            Swizzle::None => 128,
            Swizzle::B128 => 1024,
        }
    }

    /// Where a chunk of the box is whose bytes would begin at an offset without a swizzle.
    pub(super) fn swizzled(&self, offset: usize) -> usize {
        match self.swizzle {
            Swizzle::None => offset,
            // The memory begins at a multiple of the swizzle's period.
            Swizzle::B128 => offset ^ (offset >> 3 & 0x70),
        }
    }

    /// Where a matrix of the map begins.
    pub(super) fn matrix(&self, coords: Coords) -> usize {
        let [.., z] = coords.signed();
        let stride = self.matrices.map_or(0, |of| of.stride);
        let at = |number: u64| usize::try_from(number).unwrap_or_default();
        self.address.wrapping_add(at(stride).wrapping_mul(at(z.max(0).cast_unsigned())))
    }

    /// For each line of the box at some coordinates that is in its matrix: its number in the box, the first byte of
    /// it that is in the matrix, how many are, and their address.
    pub(super) fn lines(
        &self,
        coords: Coords,
    ) -> impl Iterator<Item = (usize, usize, usize, usize)> {
        let [x, y, z] = coords.signed();
        let is_there = (0..self.matrices.map_or(1, |of| of.count.cast_signed())).contains(&z);
        let [width, count] = self.dims.map(u64::cast_signed);
        let (first, end) = (x.max(0), (x + i64::from(self.box_dims[0])).min(width));
        let size = self.element_bytes;
        let Self { pitch, box_dims, .. } = *self;
        let address = self.matrix(coords);
        (0..i64::from(box_dims[1]))
            .filter(move |line| is_there && (0..count).contains(&(y + line)) && first < end)
            .map(move |line| {
                let at = |number: i64| usize::try_from(number).unwrap_or_default();
                let row = at(y + line) * usize::try_from(pitch).unwrap_or_default();
                let bytes = at(end - first) * size;
                (at(line), at(first - x) * size, bytes, address + row + at(first) * size)
            })
    }
}
