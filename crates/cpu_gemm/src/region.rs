//! Which part of C a product computes: all of it, or one triangle.

use std::ops::Range;

/// The elements of C that are computed; the others are neither read nor written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Region {
    All,
    Triangle(Half),
}

/// Which triangle of C is computed, with its diagonal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriangleOf {
    /// Whether it is the upper one, else the lower.
    pub upper: bool,
    /// Whether the imaginary parts of the diagonal are not read, and written as zeros.
    pub real_diagonal: bool,
}

/// One triangle of a square C as rows and columns of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Half {
    pub(crate) of: TriangleOf,
    /// Rows of C for a row of the matrix: of complex numbers, whose parts are rows, two.
    pub(crate) parts: usize,
}

/// Where tiles are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Inside,
    Outside,
    /// On the edge: some elements are in the region.
    Across,
}

impl Region {
    /// Of `tiles` tiles one under the other, each `tile_rows` high, the first of them beginning with `row`: how many
    /// have the same place, and which. Of those across the edge it is one.
    pub(crate) fn place(
        self,
        row: usize,
        (tiles, tile_rows): (usize, usize),
        cols: &Range<usize>,
    ) -> (usize, Place) {
        let Self::Triangle(Half { of: TriangleOf { upper, real_diagonal }, parts }) = self else {
            return (tiles, Place::Inside);
        };
        // Rows before `before` have one place in all columns, those from `behind` on the other. A diagonal that is
        // written as zeros is edge.
        let diagonal = usize::from(!real_diagonal);
        let (before, behind, first, last) = match upper {
            true => {
                let before = parts * (cols.start + diagonal);
                (before, parts * cols.end, Place::Inside, Place::Outside)
            }
            false => {
                let behind = parts * (cols.end - diagonal);
                (parts * cols.start, behind, Place::Outside, Place::Inside)
            }
        };
        match before.saturating_sub(row) / tile_rows {
            0 if row >= behind => (tiles, last),
            0 => (1, Place::Across),
            whole => (whole.min(tiles), first),
        }
    }

    /// Whether no element of these rows and columns is in the region.
    pub(crate) fn misses(self, rows: &Range<usize>, cols: &Range<usize>) -> bool {
        match self {
            Self::All => false,
            Self::Triangle(Half { of, parts }) if of.upper => rows.start >= parts * cols.end,
            Self::Triangle(Half { parts, .. }) => rows.end <= parts * cols.start,
        }
    }
}

impl Half {
    /// Those of the rows that are in the triangle in a column.
    pub(crate) fn rows(self, rows: &Range<usize>, col: usize) -> Range<usize> {
        match self.of.upper {
            true => rows.start..rows.end.min(self.parts * (col + 1)).max(rows.start),
            false => rows.start.max(self.parts * col).min(rows.end)..rows.end,
        }
    }

    /// Whether it is the row of a part that is not read, and written as zero.
    pub(crate) fn is_zero(self, row: usize, col: usize) -> bool {
        self.of.real_diagonal && self.parts == 2 && row == 2 * col + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the definition, element by element.
    #[test]
    fn places_are_those_of_their_elements() {
        for parts in [1, 2] {
            for (upper, real_diagonal) in
                [(false, false), (true, false), (false, true), (true, true)]
            {
                let half = Half { of: TriangleOf { upper, real_diagonal }, parts };
                let has = |row: usize, col: usize| match upper {
                    true => row / parts <= col,
                    false => row / parts >= col,
                };
                for col in 0..20 {
                    for width in 1..6 {
                        let cols = col..col + width;
                        for row in (0..60).step_by(parts) {
                            check(half, row, &cols, has);
                        }
                    }
                }
            }
        }
    }

    fn check(half: Half, row: usize, cols: &Range<usize>, has: impl Fn(usize, usize) -> bool) {
        let region = Region::Triangle(half);
        for tile_rows in [2, 4, 10] {
            let (alike, place) = region.place(row, (5, tile_rows), cols);
            assert!((1..=5).contains(&alike));
            let rows = row..row + alike * tile_rows;
            let found: usize =
                cols.clone().map(|col| rows.clone().filter(|&row| has(row, col)).count()).sum();
            let all = rows.len() * cols.len();
            match place {
                Place::Inside => {
                    assert_eq!(found, all);
                    let mut elements =
                        cols.clone().flat_map(|col| rows.clone().map(move |row| (row, col)));
                    assert!(!elements.any(|(row, col)| half.is_zero(row, col)));
                }
                Place::Outside => assert_eq!(found, 0),
                Place::Across if half.of.real_diagonal => assert!(alike == 1 && found > 0),
                Place::Across => assert!(alike == 1 && found > 0 && found < all),
            }
            assert_eq!(region.misses(&rows, cols), found == 0);
            for col in cols.clone() {
                let rows_of: Vec<usize> = half.rows(&rows, col).collect();
                let expected: Vec<usize> = rows.clone().filter(|&row| has(row, col)).collect();
                assert_eq!(rows_of, expected);
            }
        }
    }
}
