//! What a GPU takes for a product with operands in host memory: the way there, the kernel, the way back.

use super::measured::KernelTime;
use super::points::{Point, around, between, is_positive, raise};

/// Seconds from the beginning of a copy to its first byte where nothing was measured, and of a launch
/// with the wait for its end. Not measured: what small products cost of either.
const ASSUMED_LATENCY: f64 = 20e-6;

/// Share of a bus's raw rate that copies reach where nothing was measured. Not measured.
const ASSUMED_SHARE: f64 = 0.8;

/// How many times as long as its parts say a product takes where nothing was measured, by the bytes that travel. Of an
/// H200's server, products of 2 MB to 1.2 GB in memory that a program allocates
/// (results/2026-11-29-h200-blas/auto-10.txt): 2.3 to 2.6 up to 30 MB, 1.3 to 1.7 from 100 MB on.
const ASSUMED_FACTORS: [Point; 2] = [(4e7, 2.5), (1e8, 1.5)];

/// Bytes of the copies that a way is known by: one that takes no longer than any, and so on to one as
/// long as an operand of thousands of rows.
pub const COPIES: [usize; 9] =
    [4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, 128 << 20, 256 << 20];

/// One direction between host memory and a GPU.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TransferModel {
    /// Bytes and seconds of copies from or to memory that a program allocates, ascending both; one at
    /// least.
    pub copies: Vec<Point>,
    /// Bytes a second of long ones from or to pinned memory: what the bus gives.
    pub bus_rate: f64,
}

impl TransferModel {
    /// A transfer as measured by copies of those sizes.
    #[must_use]
    pub fn new(copies: impl IntoIterator<Item = Point>, bus_rate: f64) -> Self {
        let mut copies: Vec<Point> = copies.into_iter().collect();
        raise(copies.iter_mut().map(|(_, seconds)| seconds));
        Self { copies, bus_rate }
    }

    /// A way whose copies all begin as late, and then go on at one rate.
    fn steady(latency: f64, rate: f64, bus_rate: f64) -> Self {
        let copy = |bytes: usize| (bytes as f64, latency + bytes as f64 / rate);
        Self::new(COPIES.map(copy), bus_rate)
    }

    /// Seconds of the shortest copy.
    #[must_use]
    pub fn latency(&self) -> f64 {
        self.copies.first().map_or(0.0, |(_, seconds)| *seconds)
    }

    /// Bytes a second of the longest copy.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.copies.last().map_or(f64::INFINITY, |(bytes, seconds)| bytes / seconds)
    }

    /// Seconds of a copy: between those that were measured in proportion; below the shortest as long as
    /// that; beyond the longest at its rate.
    fn seconds(&self, bytes: f64) -> f64 {
        if bytes <= 0.0 {
            return 0.0;
        }
        match around(&self.copies, bytes) {
            (None, _) => self.latency(),
            (Some(_), None) => bytes / self.rate(),
            (Some((from, low)), Some((to, high))) => {
                low + (high - low) * (bytes - from) / (to - from)
            }
        }
    }

    fn is_sane(&self) -> bool {
        let ascends = |pair: &[Point]| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1;
        !self.copies.is_empty()
            && self.copies.iter().all(|copy| is_positive(copy.0) && is_positive(copy.1))
            && self.copies.windows(2).all(ascends)
            && is_positive(self.bus_rate)
    }
}

/// The ways to a GPU and back, and what a launch costs.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GpuFigures {
    /// The GPU, as it names itself.
    pub device: String,
    /// From host memory.
    pub to_device: TransferModel,
    /// To host memory.
    pub from_device: TransferModel,
    /// Seconds of a launch that does next to nothing, with the wait for its end.
    pub launch: f64,
    /// Of whole products the bytes that travel, ascending, and how many times as long they took as these
    /// parts say; may be empty.
    pub products: Vec<Point>,
    /// What kernels took, operands being on the device; may be empty.
    pub kernels: Vec<KernelTime>,
}

/// A product as the model sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Workload {
    /// Bytes that go to the device and belong to all bands.
    pub common: f64,
    /// Bytes that go there band by band.
    pub banded: f64,
    /// Bytes that come back.
    pub back: f64,
    /// Seconds of the kernel without its launch.
    pub kernel: f64,
    /// Bands of rows: copies of one and products of others overlap.
    pub bands: usize,
}

impl Workload {
    /// Less than any product that has elements.
    pub const LEAST: Self = Self { common: 1.0, banded: 1.0, back: 1.0, kernel: 0.0, bands: 1 };

    /// Bytes that travel, both ways together.
    fn bytes(&self) -> f64 {
        self.common + self.banded + self.back
    }
}

impl GpuFigures {
    /// What is assumed of a GPU of that compute capability: sixteen lanes of the bus of its generation's
    /// servers, PCIe 3, 4 or 5 of 15.75, 31.5 and 63 GB/s (PCI-SIG, PCI Express Base Specification).
    #[must_use]
    pub fn assumed(compute_capability: (u32, u32)) -> Self {
        let bus_rate = match compute_capability {
            (9.., _) => 63e9,
            (8, _) => 31.5e9,
            _ => 15.75e9,
        };
        let rate = bus_rate * ASSUMED_SHARE;
        let way = TransferModel::steady(ASSUMED_LATENCY, rate, bus_rate);
        let device = String::new();
        let (to_device, launch) = (way.clone(), ASSUMED_LATENCY);
        let (products, kernels) = (ASSUMED_FACTORS.to_vec(), Vec::new());
        Self { device, to_device, from_device: way, launch, products, kernels }
    }

    /// The same with what products took, which are given in ascending order.
    #[must_use]
    pub fn with_products(self, took: impl IntoIterator<Item = (Workload, f64)>) -> Self {
        let parts = Self { products: Vec::new(), ..self };
        let mut took: Vec<(Workload, f64)> = took.into_iter().collect();
        raise(took.iter_mut().map(|(_, seconds)| seconds));
        let factor =
            |(work, seconds): &(Workload, f64)| (work.bytes(), seconds / parts.seconds(work));
        let products = took.iter().map(factor).collect();
        Self { products, ..parts }
    }

    /// How many times as long as its parts say a product takes with that many bytes to transfer: between
    /// those that were measured in proportion, in their logarithms; beyond them as the nearest.
    fn factor(&self, bytes: f64) -> f64 {
        match around(&self.products, bytes) {
            (Some(below), Some(above)) => between(below, above, bytes),
            (Some((_, factor)), None) | (None, Some((_, factor))) => factor,
            (None, None) => 1.0,
        }
    }

    /// Whether the model can be asked.
    #[must_use]
    pub fn is_sane(&self) -> bool {
        let products =
            self.products.iter().all(|product| is_positive(product.0) && is_positive(product.1))
                && self.products.is_sorted_by(|one, other| one.0 < other.0);
        is_positive(self.launch)
            && products
            && self.kernels.iter().all(KernelTime::is_sane)
            && self.to_device.is_sane()
            && self.from_device.is_sane()
    }

    /// Seconds from operands in host memory to the result there.
    ///
    /// One of the way up, the kernel and the way back is busy all the time but for the first band's way
    /// up and the last band's way back; which one, is the one that takes the longest.
    #[must_use]
    pub fn seconds(&self, work: &Workload) -> f64 {
        let bands = work.bands.max(1) as f64;
        let common = self.to_device.seconds(work.common);
        let up = self.to_device.seconds(work.banded);
        let back = self.from_device.seconds(work.back);
        let kernel = work.kernel;
        let by_up = up + kernel / bands + back / bands;
        let by_kernel = up / bands + kernel + back / bands;
        let by_back = up / bands + kernel / bands + back;
        let parts = common + self.launch * bands + by_up.max(by_kernel).max(by_back);
        parts * self.factor(work.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cube(n: f64, bands: usize) -> Workload {
        let matrix = n * n * 4.0;
        let kernel = 2.0 * n.powi(3) / 200e12;
        Workload { common: matrix, banded: matrix, back: matrix, kernel, bands }
    }

    #[test]
    fn a_product_takes_no_less_than_each_part_and_no_more_than_all() {
        let figures = GpuFigures::assumed((9, 0)).with_products([]);
        for n in [1.0, 100.0, 1000.0, 10_240.0] {
            let parts = |work: &Workload| {
                let ways = [work.common, work.banded].map(|bytes| figures.to_device.seconds(bytes));
                (ways[0] + ways[1], work.kernel, figures.from_device.seconds(work.back))
            };
            for bands in [1, 2, 8] {
                let work = cube(n, bands);
                let (up, kernel, back) = parts(&work);
                let seconds = figures.seconds(&work);
                assert!(seconds >= up.max(kernel).max(back));
                let all = up + kernel + back + figures.launch * bands as f64;
                assert!(seconds <= all * (1.0 + 1e-12), "{n} in {bands}: {seconds} and {all}");
                assert!(bands > 1 || seconds >= all * (1.0 - 1e-12));
            }
        }
    }

    #[test]
    fn larger_products_take_longer_and_bands_make_large_ones_shorter() {
        let figures = GpuFigures::assumed((8, 0));
        for bands in [1, 5] {
            let mut before = 0.0;
            for step in 1..200 {
                let seconds = figures.seconds(&cube(f64::from(step) * 100.0, bands));
                assert!(seconds > before);
                before = seconds;
            }
        }
        let seconds = |bands| figures.seconds(&cube(10_240.0, bands));
        assert!(seconds(5) < 0.8 * seconds(1));
    }

    #[test]
    fn nothing_that_travels_costs_no_copy() {
        let figures = GpuFigures::assumed((7, 0)).with_products([]);
        let work = Workload { common: 0.0, banded: 0.0, back: 4.0, kernel: 0.0, bands: 1 };
        assert!(figures.seconds(&work) < figures.launch + 1.1 * figures.from_device.latency());
        assert!(figures.is_sane());
        assert!(!GpuFigures { launch: f64::NAN, ..figures.clone() }.is_sane());
        let ways = |to_device| GpuFigures { to_device, ..figures.clone() };
        let bus_rate = figures.to_device.bus_rate;
        assert!(ways(TransferModel::new([(1e3, 1e-5), (1e6, 1e-4)], bus_rate)).is_sane());
        for copies in [vec![], vec![(1e3, 0.0)], vec![(1e6, 1e-4), (1e3, 1e-3)]] {
            assert!(!ways(TransferModel::new(copies, bus_rate)).is_sane());
        }
        assert!(!ways(TransferModel { bus_rate: 0.0, ..figures.to_device.clone() }).is_sane());
    }

    #[test]
    fn products_take_what_they_took() {
        let parts = GpuFigures::assumed((9, 0)).with_products([]);
        let cubes = [100.0, 400.0, 1600.0].map(|n| cube(n, 1));
        // The last was disturbed less than the one before.
        let took = cubes.into_iter().zip([1e-4, 3e-3, 2e-3]);
        let figures = parts.clone().with_products(took);
        assert!(figures.is_sane() && figures.products.len() == 3);
        for (work, seconds) in cubes.into_iter().zip([1e-4, 3e-3, 3e-3]) {
            assert!((figures.seconds(&work) / seconds - 1.0).abs() < 1e-9);
        }
        let factor = |n: f64| {
            let work = cube(n, 1);
            figures.seconds(&work) / parts.seconds(&work)
        };
        assert!((factor(10.0) / factor(100.0) - 1.0).abs() < 1e-9);
        assert!((factor(9000.0) / factor(1600.0) - 1.0).abs() < 1e-9);
        assert!((factor(200.0) - factor(100.0)) * (factor(400.0) - factor(200.0)) > 0.0);
        for products in [vec![(1.0, 0.0)], vec![(2.0, 1.0), (1.0, 1.0)], vec![(1.0, f64::NAN)]] {
            assert!(!GpuFigures { products, ..parts.clone() }.is_sane());
        }
    }

    #[test]
    fn copies_take_what_they_took() {
        // The third was disturbed less than the second.
        let way = TransferModel::new([(1e3, 1e-5), (1e6, 3e-4), (2e6, 2e-4), (1e8, 4e-3)], 1e11);
        for (bytes, seconds) in [(1e3, 1e-5), (1e6, 3e-4), (2e6, 3e-4), (1e8, 4e-3), (1e9, 4e-2)] {
            assert!((way.seconds(bytes) / seconds - 1.0).abs() < 1e-9, "{bytes}");
        }
        assert_eq!([way.seconds(0.0), way.seconds(1.0)], [0.0, 1e-5]);
        assert_eq!([way.latency(), way.rate()], [1e-5, 1e8 / 4e-3]);
    }
}
