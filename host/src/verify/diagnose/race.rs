//! Guesses about barriers that are missing: tiles that were read too early or too late.
//!
//! Which reads go wrong depends on the order in which threads run. Three orders are tried for a whole
//! result at once: threads one after the other, either way, and warps one after the other. Where none
//! fits, each element is tried by itself: some tiles of A or B stand for their neighbours as a whole.

use super::guess::{Claims, Guess, Says};
use super::pattern::Pattern;
use super::scene::{Scene, Sum, Value};
use gemm_spec::Element;

use crate::scalar::ScalarTypes;

/// Tiles of k up to which each element is tried by itself: 4^4 ways.
const MOST_TILES: usize = 4;
/// Threads that run in step.
const WARP: usize = 32;

/// Which barrier is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    /// Between loading and use.
    First,
    /// Between use and overwriting.
    Second,
}

impl Missing {
    fn pattern(self, width: usize) -> Pattern {
        match self {
            Self::First => Pattern::StaleTile { width },
            Self::Second => Pattern::OverwrittenEarly { width },
        }
    }
}

/// The order in which the threads of a block run between two barriers.
#[derive(Clone, Copy)]
struct Turns {
    ascending: bool,
    /// Threads that take their turn together.
    together: usize,
}

const TURNS: [Turns; 4] = [
    Turns { ascending: true, together: 1 },
    Turns { ascending: false, together: 1 },
    Turns { ascending: true, together: WARP },
    Turns { ascending: false, together: WARP },
];

impl Turns {
    /// Whether the thread `writer` comes before the thread `reader`, or takes its turn with it.
    fn before(self, writer: usize, reader: usize) -> std::cmp::Ordering {
        let order = (writer / self.together).cmp(&(reader / self.together));
        if self.ascending { order } else { order.reverse() }
    }
}

impl<T: ScalarTypes> Scene<'_, T> {
    pub(super) fn barrier<'g>(
        &'g self,
        missing: Missing,
        widths: &'g [usize],
    ) -> impl Iterator<Item = Guess<'g>> {
        let several = widths.iter().copied().filter(|w| self.depth > *w);
        let ordered = several.clone().flat_map(move |w| {
            TURNS.map(|turns| {
                Guess::value(missing.pattern(w), move |row, col| {
                    self.store(row, col, &self.out_of_step(missing, turns, w, row, col))
                })
            })
        });
        let free = several.filter(|w| self.depth.div_ceil(*w) <= MOST_TILES).map(move |w| Guess {
            pattern: missing.pattern(w),
            claims: Claims::Written,
            says: Box::new(move |row, col| Says::OneOf(self.neighbours(missing, w, row, col))),
        });
        ordered.chain(free)
    }

    /// The sum of an element where threads take turns and one barrier is missing.
    fn out_of_step(
        &self,
        missing: Missing,
        turns: Turns,
        w: usize,
        row: usize,
        col: usize,
    ) -> Sum<T> {
        let (y, x) = (row % w, col % w);
        let me = y * w + x;
        let tiles = self.depth.div_ceil(w);
        let mut sum = Sum::ZERO;
        for tile in 0..tiles {
            for j in 0..w {
                let at = |slot: usize| {
                    let neighbour = match missing {
                        // Who comes later has not loaded yet.
                        Missing::First => turns.before(slot, me).is_gt(),
                        // Who came before has already loaded the next tile.
                        Missing::Second => tile + 1 < tiles && turns.before(slot, me).is_lt(),
                    };
                    match (neighbour, missing) {
                        (false, _) => Some(tile),
                        (true, Missing::First) => tile.checked_sub(1),
                        (true, Missing::Second) => Some(tile + 1),
                    }
                };
                // Nothing was in the tile before the first.
                let a = at(y * w + j).map_or(<T::A>::ZERO, |tile| self.a_at(row, tile * w + j));
                let b = at(j * w + x).map_or(<T::B>::ZERO, |tile| self.b_at(tile * w + j, col));
                sum.add(a, b);
            }
        }
        sum
    }

    /// Every value that an element can have where whole tiles of A or B stand for their neighbours.
    fn neighbours(&self, missing: Missing, w: usize, row: usize, col: usize) -> Vec<Value> {
        let tiles = self.depth.div_ceil(w);
        let mut sums = vec![Sum::ZERO];
        for tile in 0..tiles {
            let other = match missing {
                Missing::First => tile.checked_sub(1),
                Missing::Second => Some(tile + 1).filter(|next| *next < tiles),
            };
            let product = |a_tile: usize, b_tile: usize| {
                let mut sum = Sum::ZERO;
                for j in 0..w {
                    sum.add(self.a_at(row, a_tile * w + j), self.b_at(b_tile * w + j, col));
                }
                sum
            };
            let mut ways = vec![product(tile, tile)];
            if let Some(other) = other {
                ways.extend([product(other, tile), product(tile, other), product(other, other)]);
            }
            sums = sums.iter().flat_map(|sum| ways.iter().map(|way| sum.plus(way))).collect();
        }
        sums.iter().map(|sum| self.store(row, col, sum)).collect()
    }
}
