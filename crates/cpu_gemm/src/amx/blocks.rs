//! How C is cut into areas, one for a thread at a time.

use super::pack::LINES;

/// Areas of C, in panels of 32 lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Areas {
    /// Panels of A, and of B.
    pub(super) panels: (usize, usize),
    /// Panels of an area: of A, and of B.
    pub(super) sides: (usize, usize),
    /// Areas along each.
    counts: (usize, usize),
    /// How many areas along B are walked together, so that threads at work meet few panels.
    band: usize,
}

/// What the cut weighs: the time of one micro-tile's step, and that of fetching a panel's step from the last
/// level of cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub(super) multiply: usize,
    pub(super) fetch: usize,
}

impl Areas {
    /// The cut that should end first on that many threads, of areas of at most `largest` lines of A and of B.
    /// Each stripe, a range of areas, is walked by its share of the threads.
    pub(super) fn new(
        lines: (usize, usize),
        largest: (usize, usize),
        costs: Costs,
        (threads, stripes): (usize, usize),
    ) -> Self {
        let panels = (lines.0.div_ceil(LINES), lines.1.div_ceil(LINES));
        // Sides of areas of equal size, up to the largest.
        let sides = |panels: usize, largest: usize| {
            (1..=(largest / LINES).min(panels))
                .map(move |side| panels.div_ceil(panels.div_ceil(side)))
        };
        let cost = |&(a, b): &(usize, usize)| {
            let areas = panels.0.div_ceil(a) * panels.1.div_ceil(b);
            areas.div_ceil(threads) * (costs.multiply * a * b + costs.fetch * (a + b))
        };
        let cuts = sides(panels.0, largest.0)
            .flat_map(|a| sides(panels.1, largest.1).map(move |b| (a, b)));
        let sides = cuts.min_by_key(cost).expect("invariant: C has a row and a column");
        let areas = Self::of_sides(lines, sides);
        let met = |band: &usize| band * sides.1 + threads.div_ceil(*band) * sides.0;
        let bands = [1, 2, 4, 8, 16].into_iter().filter(|&band| band <= threads / stripes);
        let band = bands.min_by_key(met).unwrap_or(1).clamp(1, areas.counts.1);
        Self { band, ..areas }
    }

    /// Areas of those sides, in panels.
    pub(super) fn of_sides(lines: (usize, usize), sides: (usize, usize)) -> Self {
        let panels = (lines.0.div_ceil(LINES), lines.1.div_ceil(LINES));
        let counts = (panels.0.div_ceil(sides.0), panels.1.div_ceil(sides.1));
        Self { panels, sides, counts, band: 1 }
    }

    pub(super) fn count(&self) -> usize {
        self.counts.0 * self.counts.1
    }

    /// The panels of A and of B of an area, in the order in which areas are taken.
    pub(super) fn area(&self, index: usize) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
        let first = index / (self.band * self.counts.0) * self.band;
        let height = self.band.min(self.counts.1 - first);
        let within = index % (self.band * self.counts.0);
        let (a, b) = (within / height, first + within % height);
        let range =
            |index: usize, side: usize, panels: usize| index * side..panels.min((index + 1) * side);
        (range(a, self.sides.0, self.panels.0), range(b, self.sides.1, self.panels.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_micro_tile_is_in_one_area() {
        for lines in [(1, 1), (33, 700), (1000, 1000), (4096, 31), (2047, 3001)] {
            for threads in [1, 2, 7, 16] {
                let costs = Costs { multiply: 64, fetch: 100 };
                let areas = Areas::new(lines, (256, 512), costs, (threads, 1));
                let (a, b) = areas.panels;
                let mut met = vec![0; a * b];
                for index in 0..areas.count() {
                    let (of_a, of_b) = areas.area(index);
                    assert!(of_a.len() <= 8 && of_b.len() <= 16);
                    for panel_a in of_a {
                        for panel_b in of_b.clone() {
                            met[panel_a * b + panel_b] += 1;
                        }
                    }
                }
                assert!(met.iter().all(|&times| times == 1), "{lines:?}, {threads} threads");
            }
        }
    }
}
