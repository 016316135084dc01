//! What the CPU engine takes for a product.

use gemm_spec::Types;

use super::points::{Point, around, between, is_positive, raise};

/// Seconds of the smallest product: handing work to threads that wait. Not measured.
const ASSUMED_CALL: f64 = 5e-6;
/// Operations a second of one thread where nothing was measured: f32 at 1024 x 1024 x 1024 on 16 threads, over the
/// threads (results/2026-11-29-xeon-16-cores-look/sixteen.md). f64 is taken for half as fast, other types for as fast.
pub const ASSUMED_RATE: f64 = 90e9;

/// What `cpu_packed` was measured to take.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CpuFigures {
    /// The processor, as it names itself.
    pub processor: String,
    /// Threads that it was measured with.
    pub threads: usize,
    /// Products of each type.
    pub cubes: Vec<Cube>,
}

/// One product of square matrices.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Cube {
    /// Element type.
    pub dtype: String,
    /// m, n and k.
    pub edge: usize,
    /// What it took.
    pub seconds: f64,
}

impl Cube {
    /// Its operations.
    #[must_use]
    pub fn flops(&self) -> f64 {
        2.0 * (self.edge as f64).powi(3)
    }
}

/// Operations a second beyond which no CPU is.
const MOST_RATE: f64 = 1e16;

/// Seconds that a product can take: from a file anything may be read.
const TIMES: std::ops::Range<f64> = 1e-12..1e12;

impl CpuFigures {
    /// Whether every product took a time that a CPU may take.
    #[must_use]
    pub fn is_sane(&self) -> bool {
        self.threads > 0
            && self.cubes.iter().all(|cube| {
                let flops = cube.flops();
                is_positive(flops)
                    && TIMES.contains(&cube.seconds)
                    && flops / cube.seconds < MOST_RATE
            })
    }

    /// What products of a type take; `None` where none was measured.
    #[must_use]
    pub fn curve(&self, dtype: &str) -> Option<Curve> {
        let own = self.cubes.iter().filter(|cube| cube.dtype == dtype);
        let mut points: Vec<Point> = own.map(|cube| (cube.flops(), cube.seconds)).collect();
        points.retain(|(flops, seconds)| is_positive(*flops) && is_positive(*seconds));
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        raise(points.iter_mut().map(|(_, seconds)| seconds));
        (!points.is_empty()).then_some(Curve { points, threads: self.threads.max(1) })
    }
}

/// What products of one type take, by their operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// Operations and seconds, ascending both; one at least.
    points: Vec<Point>,
    threads: usize,
}

impl Curve {
    /// Seconds of a product of that many operations: between those that were measured in proportion, in
    /// their logarithms; below the smallest as long as that; beyond the largest at its rate. Other
    /// numbers of threads are taken to share the work as evenly.
    #[must_use]
    pub fn seconds(&self, flops: f64, threads: usize) -> f64 {
        let seconds = match around(&self.points, flops) {
            (Some(below), Some(above)) => between(below, above, flops),
            (Some((most, seconds)), None) => seconds * flops / most,
            (None, Some((_, seconds))) => seconds,
            (None, None) => unreachable!("invariant: a curve has a point at least"),
        };
        seconds * self.threads as f64 / threads.max(1) as f64
    }
}

/// The model of an engine's CPU: what it was measured to take, else assumptions.
#[derive(Clone, Debug, Default)]
pub struct CpuModel {
    /// Of the types that were measured.
    curves: Vec<(Types, Curve)>,
}

impl CpuModel {
    /// What was measured.
    #[must_use]
    pub fn new(figures: &CpuFigures) -> Self {
        let curve = |types: Types| Some((types, figures.curve(types.name())?));
        Self { curves: Types::ALL.into_iter().filter_map(curve).collect() }
    }

    /// Seconds of a product of that many operations by the CPU engine on `threads` threads.
    #[must_use]
    pub fn seconds(&self, types: Types, flops: f64, threads: usize) -> f64 {
        match self.curves.iter().find(|(own, _)| *own == types) {
            Some((_, curve)) => curve.seconds(flops, threads),
            None => assumed(types, flops, threads),
        }
    }
}

/// Seconds where nothing was measured.
fn assumed(types: Types, flops: f64, threads: usize) -> f64 {
    let rate = if types == Types::F64 { ASSUMED_RATE / 2.0 } else { ASSUMED_RATE };
    ASSUMED_CALL + flops / (rate * threads.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(cubes: &[(usize, f64)]) -> CpuFigures {
        let cube = |&(edge, seconds)| Cube { dtype: "f32".to_owned(), edge, seconds };
        let cubes = cubes.iter().map(cube).collect();
        CpuFigures { processor: String::new(), threads: 2, cubes }
    }

    #[test]
    fn measured_products_take_what_they_took_and_larger_ones_no_less() {
        // The third was disturbed less than the second.
        let figures = figures(&[(1024, 0.1), (16, 1e-6), (64, 5e-5), (128, 4e-5)]);
        let curve = figures.curve("f32").unwrap();
        for cube in &figures.cubes[..3] {
            let seconds = curve.seconds(cube.flops(), 2);
            assert!((seconds / cube.seconds - 1.0).abs() < 1e-9, "{cube:?}: {seconds}");
        }
        let mut before = 0.0;
        for step in 0..400 {
            let seconds = curve.seconds(1.1_f64.powi(step), 2);
            assert!(seconds >= before && seconds.is_finite(), "{step}");
            before = seconds;
        }
        assert_eq!(curve.seconds(0.0, 2), 1e-6);
        assert!((curve.seconds(1e9, 1) / curve.seconds(1e9, 4) - 4.0).abs() < 1e-9);
        // At the rate of the largest.
        assert!((curve.seconds(8.0 * 2.0 * 1024f64.powi(3), 2) / 0.8 - 1.0).abs() < 1e-9);
        assert_eq!(figures.curve("f64"), None);
    }

    #[test]
    fn nonsense_is_not_measured() {
        assert_eq!(figures(&[]).curve("f32"), None);
        assert_eq!(figures(&[(10, f64::NAN), (0, 1.0)]).curve("f32"), None);
        let of = |types, threads| assumed(types, 1e12, threads);
        assert!(assumed(Types::F32, 0.0, 0) > 0.0 && of(Types::F32, 1) > of(Types::F32, 2));
        assert!(of(Types::F64, 1) > of(Types::F32, 1));
    }
}
