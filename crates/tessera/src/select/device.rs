//! The cost model of a GPU: its attributes, what `tessera tune` measured, and what kernels then take.

use gemm_spec::split_k::KSharing;
use gemm_spec::tensor::{ALIGNMENT, COPY_ALIGNMENT};
use gemm_spec::warpgroup::{self, INSTRUCTION_M};
use gemm_spec::{
    DType, DeviceLimits, Element as _, KernelSpec, Operand, OperandAccess, Problem, Types, split_k,
};

use super::constants::{Constants, Finishing};
use super::fitted::FITTED;
use super::gpu::{GpuFigures, Workload};
use super::measured::Measured;
use super::peak::{kernel_lanes, lanes};
use super::thin::THIN;
use crate::element::GemmTypes;
use crate::pipeline::Pipeline;

/// What a GPU takes for a product, by each of the kernels.
///
/// It is made of the device's attributes, of constants that were fitted on another device, and of figures
/// where the device itself was measured.
#[derive(Clone, Debug)]
pub struct DeviceModel {
    limits: DeviceLimits,
    clock_mhz: u32,
    constants: Constants,
    /// How many times as fast as the reference's an SM of this device is.
    speed: f64,
    measured: Measured,
    ways: GpuFigures,
    /// What is done to the sums of the products that are predicted.
    finishing: Finishing,
}

/// Fused multiply-adds of an SM in a clock that the tables of peaks do not know: those of the least of
/// them in f32.
const UNKNOWN_LANES: f64 = 64.0;

/// How long the copies of a batch's operands take whose rows TMA cannot address, in times of what memory takes for the
/// operands: their lines are short (results/2026-11-27-h100-batches).
const COPIED_IN_BATCH: f64 = 5.0;

/// k elements that a block of a cluster sums at least: with fewer, adding up takes longer than it saves.
const LEAST_STEPS: u32 = 384;
/// Whether the rows of adjacent row-major factors with k and n elements begin with lines of L2, in place or
/// in the copies that those get whose rows TMA cannot address.
fn is_in_lines(types: Types, [n, k]: [usize; 2]) -> bool {
    let fits = |width: usize, dtype: DType| {
        let bytes = width * dtype.size();
        bytes.is_multiple_of(COPY_ALIGNMENT) || !bytes.is_multiple_of(16)
    };
    fits(k, types.a()) && fits(n, types.b())
}

/// Nanoseconds that a cluster's blocks take to wait for each other twice, and bytes a nanosecond at which
/// one of them reads the others' sums, of the reference device.
const CLUSTER_SUM: f64 = 900.0;
const CLUSTER_RATE: f64 = 60.0;

/// Nanoseconds that it takes the blocks of a cluster besides if their sums are finished in any way.
const CLUSTER_FINISH: f64 = 2000.0;

/// The kernels of which one warpgroup multiplies while another finishes its tile; and how many times as long that takes
/// beside a mainloop, and of the last tile, beside nothing.
const PINGPONG: [&str; 2] = ["tensor_pingpong_64x256", "tensor_pingpong_128x128"];
const BESIDE_MAINLOOP: f64 = 1.5;
const BESIDE_NOTHING: f64 = 0.6;

/// How many times as long it takes kernels that fuse no epilogue to read C.
const UNFUSED: f64 = 2.2;

/// Lines of a tile that a kernel multiplies for that many of C: those for thin products have code for each
/// power of two, others multiply all.
fn multiplied(tile: u32, lines: usize) -> u32 {
    let thin = tile as usize <= THIN && lines < tile as usize;
    u32::try_from(lines).ok().filter(|_| thin).map_or(tile, u32::next_power_of_two)
}

/// Bytes of operands that may be in L2 already: a second launch costs more than it gains there.
const IN_L2: f64 = 24e6;

/// The part of the memory's rate that a kernel reaches with as many blocks for each SM: all of it where copies run ahead
/// of the threads. Where threads wait for what they read, one block an SM has too little in flight
/// (docs/notebook/kernels.md).
fn reached(spec: &KernelSpec, blocks: f64) -> f64 {
    /// What a block more takes of the rate that is left, as the exponent of e.
    const OF_A_BLOCK: f64 = 1.2;
    const WAITING: [&str; 2] = ["small_m", "small_n"];
    if WAITING.contains(&spec.id) { 1.0 - (-OF_A_BLOCK * blocks).exp() } else { 1.0 }
}

impl DeviceModel {
    /// A device by its attributes; a clock of 0 is taken for that of the reference.
    #[must_use]
    pub fn new(limits: DeviceLimits, clock_mhz: u32) -> Self {
        Self::with_constants(limits, clock_mhz, FITTED)
    }

    /// The same with other constants than the ones that were fitted last.
    #[must_use]
    pub fn with_constants(limits: DeviceLimits, clock_mhz: u32, constants: Constants) -> Self {
        let reference = constants.reference;
        let clock_mhz = if clock_mhz == 0 { reference.clock_mhz } else { clock_mhz };
        let rate = |capability, clock_mhz| {
            let lanes = lanes(capability, Types::F32).map_or(UNKNOWN_LANES, f64::from);
            lanes * f64::from(clock_mhz)
        };
        let speed = rate(limits.compute_capability, clock_mhz)
            / rate(reference.compute_capability, reference.clock_mhz);
        let ways = GpuFigures::assumed(limits.compute_capability);
        let (measured, finishing) = (Measured::default(), Finishing::Nothing);
        Self { limits, clock_mhz, constants, speed, measured, ways, finishing }
    }

    /// The same with what was measured on this device.
    #[must_use]
    pub fn with_figures(self, figures: &GpuFigures) -> Self {
        let bare = Self { measured: Measured::default(), ..self };
        let measured = Measured::new(&figures.kernels, |spec, types, sizes| {
            bare.kernel_seconds(spec, types, sizes)
        });
        Self { measured, ways: figures.clone(), ..bare }
    }

    /// The same for products whose epilogues do more.
    #[must_use]
    pub fn with_finishing(self, finishing: Finishing) -> Self {
        Self { finishing, ..self }
    }

    /// What the device allows a kernel.
    #[must_use]
    pub fn limits(&self) -> &DeviceLimits {
        &self.limits
    }

    /// The constants that it stands on.
    #[must_use]
    pub fn constants(&self) -> &Constants {
        &self.constants
    }

    /// How many times as fast as the reference's an SM of this device is.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.speed
    }

    pub(super) fn measured(&self) -> &Measured {
        &self.measured
    }

    /// Operations a nanosecond of the units of one SM that a kernel multiplies with.
    pub(super) fn sm_peak(&self, spec: &KernelSpec, types: Types) -> f64 {
        let lanes = kernel_lanes(spec, self.limits.compute_capability, types);
        2.0 * lanes.unwrap_or(UNKNOWN_LANES) * f64::from(self.clock_mhz) / 1e3
    }

    /// Ranges of k in which a kernel whose blocks can share k multiplies: the number with which it is
    /// predicted to be fastest, among those that fill a whole number of blocks of every SM; with clusters the
    /// largest of those whose clusters all run at once. One of other kernels.
    ///
    /// A result's bits depend on it, so what was measured does not: it is the same on all devices of a
    /// kind.
    #[must_use]
    pub fn ranges<T: GemmTypes>(&self, spec: &KernelSpec, problem: &Problem<T>) -> u32 {
        self.ranges_of(spec, T::TYPES, [problem.m, problem.n, problem.effective_k()])
    }

    /// As [`DeviceModel::ranges`], for a product of m, n and k.
    #[must_use]
    pub fn ranges_of(&self, spec: &KernelSpec, types: Types, sizes: [usize; 3]) -> u32 {
        let [m, n, k] = sizes.map(|size| u32::try_from(size).ok());
        let (Some(m), Some(n), Some(k)) = (m, n, k) else { return 1 };
        if !spec.split_k.is_possible() || m == 0 || n == 0 {
            return 1;
        }
        let Ok(grid) = spec.grid(sizes[0], sizes[1]) else { return 1 };
        if let KSharing::Cluster { unit } = spec.split_k {
            // All clusters run at once, and each block has enough to do to pay for adding up.
            return [8, 6, 4, 3, 2]
                .into_iter()
                .filter(|&size| u64::from(grid.x) * u64::from(size) <= self.in_clusters(size))
                .map(|size| split_k::possible_in_cluster(k, size, unit))
                .find(|&size| split_k::units_of(k, unit, size, size - 1) * unit >= LEAST_STEPS)
                .unwrap_or(1);
        }
        let KSharing::Workspace { unit } = spec.split_k else { return 1 };
        // More than two waves of blocks give no finer grain than the ranges have.
        let full = 2 * spec.min_blocks(types);
        let multiprocessors = u64::from(self.limits.multiprocessors);
        let fitted = (1..=full).map(|blocks| {
            let parts = u64::from(blocks) * multiprocessors / u64::from(grid.x.max(1));
            u32::try_from(parts).unwrap_or(u32::MAX)
        });
        let possible = std::iter::once(1)
            .chain(fitted)
            .filter(|&parts| parts >= 1)
            .map(|parts| split_k::possible_parts((m, n, k), parts, unit));
        possible
            .map(|parts| (self.nanoseconds(spec, types, sizes, parts), parts))
            .filter_map(|(time, parts)| Some((time?, parts)))
            .min_by(|(one, few), (other, many)| one.total_cmp(other).then(few.cmp(many)))
            .map_or(1, |(_, parts)| parts)
    }

    /// Nanoseconds of a product of m, n and k by a kernel in `ranges` ranges of k, by attributes and
    /// constants alone: the blocks of the busiest SM, one wave after another of as many as fit; and no less
    /// than the operands take from memory. Several ranges are added by a second launch, or by the cluster.
    ///
    /// `None` where no grid covers C.
    #[must_use]
    pub fn nanoseconds(
        &self,
        spec: &KernelSpec,
        types: Types,
        sizes: [usize; 3],
        ranges: u32,
    ) -> Option<f64> {
        self.nanoseconds_of_batch(spec, types, sizes, (ranges, 1))
    }

    /// The same of a launch for all products of a batch.
    pub(super) fn nanoseconds_of_batch(
        &self,
        spec: &KernelSpec,
        types: Types,
        [m, n, k]: [usize; 3],
        (ranges, products): (u32, usize),
    ) -> Option<f64> {
        let Constants { launch, next_launch, padded_copy, .. } = self.constants;
        let Constants { parts_rate, memory_rate, start_steps, .. } = self.constants;
        let tile = spec.launch.tile()?;
        let grid = spec.grid(m, n).ok()?;
        // A single range ends where k does.
        let steps = match (ranges, spec.split_k) {
            (0 | 1, _) => k as f64,
            (_, KSharing::Cluster { unit }) => {
                f64::from(split_k::units_of(u32::try_from(k).ok()?, unit, ranges, 0) * unit)
            }
            (_, KSharing::Workspace { unit }) => {
                f64::from(split_k::steps(u32::try_from(k).ok()?, ranges, unit))
            }
            (_, KSharing::None) => k as f64,
        };
        let (rows, columns) = (multiplied(tile.m, m), multiplied(tile.n, n));
        let work = 2.0 * f64::from(rows) * f64::from(columns) * (steps + start_steps);
        let blocks = u64::from(grid.x) * u64::from(grid.y) * u64::from(grid.z);
        let blocks = blocks * u64::from(ranges.max(1)) * products as u64;
        let at_once = match spec.split_k {
            KSharing::Cluster { .. } => self.in_clusters(ranges),
            KSharing::None | KSharing::Workspace { .. } => u64::from(self.limits.multiprocessors),
        };
        let units = self.waves(spec, types, [n, k], (blocks, at_once), work);
        let sum = match (ranges, spec.split_k) {
            (0 | 1, _) => 0.0,
            (_, KSharing::Cluster { .. }) => {
                // A block reads its part of the tile from each of the others.
                let bytes = f64::from(tile.m) * f64::from(tile.n) * 4.0;
                CLUSTER_SUM + bytes / CLUSTER_RATE
            }
            (_, KSharing::None | KSharing::Workspace { .. }) => {
                let (m, n) = (u32::try_from(m).ok()?, u32::try_from(n).ok()?);
                // Written and read.
                next_launch + 2.0 * split_k::bytes(m, n, ranges) as f64 / parts_rate
            }
        };
        let (m, n, k) = (m as f64, n as f64, k as f64);
        let of = |elements: f64, dtype: DType| products as f64 * elements * dtype.size() as f64;
        let bytes = of(m * k, types.a()) + of(k * n, types.b()) + of(m * n, types.c());
        // What has rows that TMA cannot address is copied first, in one launch.
        let copied = |rows: f64, width: f64, dtype: DType| {
            let copies = matches!(spec.operands, OperandAccess::TensorMaps { .. })
                && width * dtype.size() as f64 % ALIGNMENT as f64 != 0.0;
            if copies { of(rows * width, dtype) } else { 0.0 }
        };
        let copied = copied(m, k, types.a()) + copied(k, n, types.b());
        let times = if products > 1 { COPIED_IN_BATCH } else { 2.0 };
        let copies = if copied > 0.0 { padded_copy + times * copied / memory_rate } else { 0.0 };
        let in_cluster = matches!(spec.split_k, KSharing::Cluster { .. });
        let finishes = self.finishing != Finishing::Nothing;
        let of_cluster = if in_cluster && finishes { CLUSTER_FINISH } else { 0.0 };
        let of_each = blocks as f64 / f64::from(self.limits.multiprocessors);
        let stays = ranges <= 1 && bytes <= IN_L2;
        let reached = if stays { 1.0 } else { reached(spec, of_each) };
        let read = bytes / memory_rate / reached / self.speed;
        Some((launch + sum + of_cluster + copies) / self.speed + units.max(read))
    }

    /// SMs that clusters of that many blocks run on at once, with one block each. Clusters of three and more
    /// leave SMs over (results/2026-11-24-h200-shapes/clusters.md).
    fn in_clusters(&self, size: u32) -> u64 {
        let multiprocessors = u64::from(self.limits.multiprocessors);
        let size = u64::from(size.max(1));
        let clusters = match size {
            1 | 2 => multiprocessors / size,
            3 => multiprocessors / 4,
            4 => multiprocessors / 6,
            5 | 6 => multiprocessors / 8,
            _ => multiprocessors / 16,
        };
        clusters.max(1) * size
    }

    /// Nanoseconds of `blocks` blocks of a kernel for n columns and k elements, of which the SMs that are given have one
    /// or more at once, each of `work` operations.
    fn waves(
        &self,
        spec: &KernelSpec,
        types: Types,
        [n, k]: [usize; 2],
        (blocks, at_once): (u64, u64),
        work: f64,
    ) -> f64 {
        let resident = u64::from(spec.min_blocks(types));
        let constants = self.constants.of(spec);
        // Of boxes whose rows are in two lines of L2 each TMA brings fewer.
        let efficiency = match spec.operands {
            OperandAccess::TensorMaps { .. } if is_in_lines(types, [n, k]) => constants.aligned,
            OperandAccess::TensorMaps { .. } => constants.ragged,
            OperandAccess::Pointers | OperandAccess::Batched(_) | OperandAccess::Limbs(_) => {
                constants.of(n)
            }
        };
        let peak = self.sm_peak(spec, types);
        let busiest = blocks.div_ceil(at_once.max(1));
        let (waves, rest) = (busiest / resident, busiest % resident);
        let finish = self.finish(spec);
        let multiply = |blocks: u64| {
            let rate = (efficiency.with(blocks, resident) * peak).max(f64::MIN_POSITIVE);
            constants.wave / self.speed + blocks as f64 * work / rate
        };
        if PINGPONG.contains(&spec.id) {
            // The last tile's epilogue has no mainloop beside it, and a warpgroup has every second tile.
            let one = multiply(1);
            let turns = busiest.div_ceil(2) as f64;
            let last = one + BESIDE_NOTHING * finish;
            return ((busiest as f64 - 1.0) * one + last)
                .max((turns - 1.0) * (one + BESIDE_MAINLOOP * finish) + last);
        }
        let wave = |blocks: u64| multiply(blocks) + blocks as f64 * finish;
        let last = if rest == 0 { 0.0 } else { wave(rest) };
        waves as f64 * wave(resident) + last
    }

    /// Nanoseconds in which the warpgroups that compute a tile finish its sums.
    fn finish(&self, spec: &KernelSpec) -> f64 {
        let of_maps = matches!(spec.operands, OperandAccess::TensorMaps { .. });
        let Some(tile) = spec.launch.tile().filter(|_| of_maps) else { return 0.0 };
        let slower = if spec.fuses {
            1.0
        } else if self.finishing == Finishing::StagedWithC {
            UNFUSED
        } else {
            0.0
        };
        let units = f64::from(tile.m * tile.n) / f64::from(INSTRUCTION_M * 256);
        // One of them loads, where there are several.
        let all = spec.max_threads() / warpgroup::THREADS;
        let warpgroups =
            if PINGPONG.contains(&spec.id) { 1 } else { (all - u32::from(all > 1)).max(1) };
        slower * units / f64::from(warpgroups) * self.finishing.nanoseconds() / self.speed
    }

    /// Seconds of a product of m, n and k by a kernel, its operands being on the device: as measured
    /// where it was, between measured sizes in proportion to what is predicted for them.
    ///
    /// `None` where no grid covers C.
    #[must_use]
    pub fn kernel_seconds(
        &self,
        spec: &KernelSpec,
        types: Types,
        sizes: [usize; 3],
    ) -> Option<f64> {
        let ranges = self.ranges_of(spec, types, sizes);
        Some(self.nanoseconds(spec, types, sizes, ranges)? / 1e9 * self.factor(spec, types, sizes))
    }

    /// What was measured of a kernel over what is predicted, or of others where it was not measured.
    pub(super) fn factor(&self, spec: &KernelSpec, types: Types, sizes: [usize; 3]) -> f64 {
        let own = self.measured.factor(spec.id, types, sizes);
        own.or_else(|| self.measured.typical(types, sizes)).unwrap_or(1.0)
    }

    /// Seconds of a kernel without its launch.
    fn computing(&self, spec: &KernelSpec, types: Types, sizes: [usize; 3]) -> f64 {
        let launch = self.constants.launch / self.speed / 1e9;
        let predicted = self.kernel_seconds(spec, types, sizes).map(|seconds| seconds - launch);
        let [m, n, k] = sizes.map(|size| size as f64);
        // Without a tile it is one block.
        let one = || 2.0 * m * n * k / self.sm_peak(spec, types) / 1e9;
        predicted.unwrap_or_else(one).max(0.0)
    }

    /// What a product by a kernel moves and computes.
    #[must_use]
    pub fn workload<T: GemmTypes>(&self, problem: &Problem<T>, spec: &KernelSpec) -> Workload {
        let bytes = |operand| {
            let (rows, cols) = problem.dims(operand);
            rows as f64 * cols as f64 * T::TYPES.of(operand).size() as f64
        };
        let k = problem.effective_k();
        let factor = |operand| if k == 0 { 0.0 } else { bytes(operand) };
        let back = bytes(Operand::C);
        let old_c = if problem.beta == T::Acc::ZERO { 0.0 } else { back };
        Workload {
            common: factor(Operand::B),
            banded: factor(Operand::A) + old_c,
            back,
            kernel: self.computing(spec, T::TYPES, [problem.m, problem.n, k]),
            bands: Pipeline::default().bands(spec, problem, self.limits.multiprocessors).len(),
        }
    }

    /// Seconds from operands in host memory to the result there, by a kernel.
    #[must_use]
    pub fn seconds<T: GemmTypes>(&self, problem: &Problem<T>, spec: &KernelSpec) -> f64 {
        self.ways.seconds(&self.workload(problem, spec))
    }

    /// Less than [`DeviceModel::seconds`] of any product that has elements.
    #[must_use]
    pub fn least_seconds(&self) -> f64 {
        self.ways.seconds(&Workload::LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::super::constants::KernelConstants;
    use super::super::measured::KernelTime;
    use super::*;
    use gemm_spec::{Arch, Block, Entry, LaunchShape, MinBlocks, Numerics, Tile};

    const SPEC: KernelSpec = KernelSpec {
        id: "k",
        about: "",
        origin: "",
        arch: Arch::Sm70,
        entries: &[Entry { types: Types::F32, symbol: "k_f32" }],
        launch: LaunchShape::Grouped {
            block: Block { x: 32, y: 1 },
            tile: Tile { m: 32, n: 64 },
            rows: 8,
        },
        shared_elements: 0,
        min_blocks_per_sm: MinBlocks::same(4),
        split_k: KSharing::Workspace { unit: split_k::RANGE_UNIT },
        numerics: Numerics::ChainOfRanges,
        ..KernelSpec::PLAIN
    };
    /// Long enough for the units and not memory to bound every product here.
    const K: usize = 10_000;

    fn constants() -> Constants {
        let own = KernelConstants::new("k", [0.2, 0.38], [0.1, 0.19], FITTED.wave);
        Constants { kernels: vec![own].into(), ..FITTED }
    }

    fn model(multiprocessors: u32) -> DeviceModel {
        let limits = DeviceLimits {
            compute_capability: (9, 0),
            max_threads_per_block: 1024,
            max_shared_bytes: 227 * 1024,
            multiprocessors,
        };
        DeviceModel::with_constants(limits, 0, constants())
    }

    fn time(model: &DeviceModel, sizes: [usize; 3], ranges: u32) -> f64 {
        model.nanoseconds(&SPEC, Types::F32, sizes, ranges).unwrap()
    }

    fn of(m: usize, n: usize, multiprocessors: u32) -> f64 {
        time(&model(multiprocessors), [m, n, K], 1) - FITTED.launch
    }

    #[test]
    fn time_grows_with_c_and_shrinks_with_the_device() {
        for multiprocessors in [1, 3, 132] {
            for m in 1..100 {
                for n in [1, 64, 65, 1000, 5000] {
                    let here = of(m, n, multiprocessors);
                    assert!(here > 0.0);
                    assert!(of(m + 1, n, multiprocessors) >= here, "{m} x {n}");
                    // Columns of the same kind.
                    assert!(of(m, n + 4, multiprocessors) >= here, "{m} x {n}");
                    assert!(of(m, n, multiprocessors + 1) <= here, "{m} x {n}");
                }
            }
        }
    }

    #[test]
    fn waves_run_at_their_rates() {
        let close = |one: f64, other: f64| (one / other - 1.0).abs() < 1e-9;
        // One block of an SM at a fifth of its peak; four at twice that, nearly.
        let one = of(32, 64, 132);
        let peak = 2.0 * 128.0 * 1.98;
        let work = 2.0 * 32.0 * 64.0 * (K as f64 + FITTED.start_steps);
        assert!(close(one, FITTED.wave + work / (0.2 * peak)));
        // Rows that are not aligned, at half the rate.
        assert!(close(of(32, 63, 132) - FITTED.wave, 2.0 * (one - FITTED.wave)));
        assert!(close(one, of(32, 64 * 132, 132)));
        assert!(close(of(32 * 4, 64, 1), of(32 * 4, 64 * 132, 132)));
        assert!(of(32 * 4, 64, 1) < 3.0 * one && of(32 * 4, 64, 1) > 2.0 * one);
        // A fifth block waits for the others and runs alone.
        assert!(close(of(32 * 5, 64, 1), of(32 * 4, 64, 1) + one));
    }

    #[test]
    fn no_product_is_faster_than_its_operands_travel() {
        // With one k element C is most of them.
        let spent = time(&model(132), [4096, 4096, 1], 1) - FITTED.launch;
        assert!(spent >= 4096.0 * 4096.0 * 4.0 / FITTED.memory_rate);
    }

    #[test]
    fn splitting_pays_where_blocks_are_few_and_k_is_long() {
        let split = |k, ranges| time(&model(132), [32, 64, k], ranges);
        assert!(split(9984, 8) < split(9984, 1) / 3.0);
        assert!(split(32, 2) > split(32, 1));
    }

    #[test]
    fn few_tiles_and_long_k_are_split_until_the_device_is_full() {
        let ranges = |m, n, k| model(132).ranges_of(&SPEC, Types::F32, [m, n, k]);
        // One tile: as many parts as there may be.
        assert_eq!(ranges(32, 64, 9216), split_k::MOST_PARTS);
        // Twelve tiles: four blocks for each of 132 SMs.
        assert_eq!(ranges(128, 192, 44 * 208), 4 * 132 / 12);
        // More tiles than there is room for blocks, and a k too short to pay for a second launch.
        assert_eq!(ranges(8192, 8192, 8192), 1);
        assert_eq!(ranges(256, 384, 16), 1);
        // Nothing to sum, or nothing to write.
        assert_eq!(ranges(256, 384, 0), 1);
        assert_eq!(model(0).ranges_of(&SPEC, Types::F32, [0, 0, 10]), 1);
        let whole = KernelSpec { split_k: KSharing::None, ..SPEC };
        assert_eq!(model(132).ranges_of(&whole, Types::F32, [32, 64, 9216]), 1);
    }

    /// Clusters sum in as many ranges as keep the SMs at work, in whole waves of clusters.
    #[test]
    fn clusters_have_the_ranges_that_fill_the_device() {
        let ranges = |id: &str, sizes| {
            let kernel = kernels_gpu::Kernel::named(id).unwrap();
            DeviceModel::new(*model(132).limits(), 1980).ranges_of(
                kernel.spec(),
                Types::BF16,
                sizes,
            )
        };
        assert_eq!(ranges("tensor_split_128x128", [640, 640, 51_200]), 3);
        assert_eq!(ranges("tensor_split_128x64", [128, 4096, 4096]), 2);
        // Two waves of clusters would take longer than one of blocks by themselves.
        assert_eq!(ranges("tensor_split_64x64", [16, 8192, 8192]), 1);
        assert_eq!(ranges("tensor_split_64x64", [32, 5120, 5120]), 1);
        // Too little to share.
        assert_eq!(ranges("tensor_split_64x64", [1, 64, 512]), 1);
        assert_eq!(ranges("tensor_split_64x64", [1, 64, 1024]), 2);
        let of = |multiprocessors: u32, size| model(multiprocessors).in_clusters(size);
        assert_eq!([1, 2, 3, 4, 6, 8].map(|size| of(132, size)), [132, 132, 99, 88, 96, 64]);
        assert_eq!(of(1, 8), 8);
    }

    /// An epilogue follows each mainloop, but where another warpgroup multiplies meanwhile; there only the last is seen,
    /// or all where mainloops are shorter.
    #[test]
    fn epilogues_cost_what_is_not_hidden() {
        let plain = DeviceModel::new(*model(132).limits(), 1980);
        let costs = |id: &str, k, finishing| {
            let kernel = kernels_gpu::Kernel::named(id).unwrap();
            let of = |model: &DeviceModel| {
                model.nanoseconds(kernel.spec(), Types::BF16, [4096, 4096, k], 1).unwrap()
            };
            of(&plain.clone().with_finishing(finishing)) - of(&plain)
        };
        let close = |one: f64, other: f64| (one - other).abs() < 1e-6 * one.abs().max(1.0);
        let (whole, half) = ("tensor_128x256", "tensor_pingpong_128x128");
        for finishing in [Finishing::InRegisters, Finishing::Staged, Finishing::StagedWithC] {
            let unit = finishing.nanoseconds();
            assert!(close(costs(whole, 4096, finishing), 4.0 * unit));
            assert!(close(costs(half, 4096, finishing), BESIDE_NOTHING * unit));
            assert!(costs("tensor_split_64x128", 4096, finishing) > CLUSTER_FINISH);
            let reads_c = finishing == Finishing::StagedWithC;
            assert_eq!(costs("tensor_pair_128x256", 4096, finishing) > 8.0 * unit, reads_c);
        }
        assert_eq!(costs(whole, 4096, Finishing::Nothing), 0.0);
        // A mainloop of 256 k elements hides less than it takes.
        let staged = Finishing::Staged;
        assert!(costs(half, 256, staged) > 2.0 * BESIDE_MAINLOOP * staged.nanoseconds());
        assert!(costs(half, 256, staged) < costs(whole, 256, staged));
    }

    #[test]
    fn what_no_grid_covers_has_no_time() {
        let most = i32::MAX as usize;
        let none =
            |spec: &KernelSpec, sizes| model(132).nanoseconds(spec, Types::F32, sizes, 1).is_none();
        assert!(none(&SPEC, [most, most, 1]));
        let single = KernelSpec { launch: LaunchShape::SingleBlock, ..SPEC };
        assert!(none(&single, [1, 1, 1]));
        assert!(model(132).computing(&single, Types::F32, [16, 16, 16]) > 0.0);
    }

    /// A device whose SMs do half as much takes twice as long for everything, so that nothing else is
    /// chosen on it.
    #[test]
    fn times_are_in_proportion_to_the_speed_of_an_sm() {
        let limits = DeviceLimits { compute_capability: (8, 0), ..*model(132).limits() };
        let half = DeviceModel::with_constants(limits, 1980, constants());
        assert_eq!(half.speed(), 0.5);
        for sizes in [[32, 64, K], [4096, 4096, 1], [1000, 1001, 1002]] {
            for ranges in [1, 4] {
                let (one, two) = (time(&model(132), sizes, ranges), time(&half, sizes, ranges));
                assert!((two / one - 2.0).abs() < 1e-9, "{sizes:?}");
            }
        }
        // The tables know nothing of it: as the slowest in f32 that they know.
        let unknown = DeviceLimits { compute_capability: (99, 0), ..limits };
        assert_eq!(DeviceModel::with_constants(unknown, 1980, constants()).speed(), 0.5);
    }

    /// What was measured changes predictions, and never how k is split, on which bits depend.
    #[test]
    fn figures_change_times_and_no_ranges() {
        let limits = *model(132).limits();
        let bare = DeviceModel::new(limits, 1980);
        let kernel = kernels_gpu::Kernel::named("split_k_64x64").unwrap();
        let sizes = [300, 500, 9000];
        let before = bare.kernel_seconds(kernel.spec(), Types::F32, sizes).unwrap();
        let time = KernelTime {
            kernel: kernel.id.to_owned(),
            dtype: "f32".to_owned(),
            sizes,
            seconds: 3.0 * before,
        };
        let figures = GpuFigures { kernels: vec![time], ..GpuFigures::assumed((9, 0)) };
        let tuned = bare.clone().with_figures(&figures);
        let after = |id: &str| {
            let spec = kernels_gpu::Kernel::named(id).unwrap().spec();
            let seconds =
                |model: &DeviceModel| model.kernel_seconds(spec, Types::F32, sizes).unwrap();
            seconds(&tuned) / seconds(&bare)
        };
        // Others are taken to be as much slower than expected.
        for id in ["split_k_64x64", "split_k_32x64", "vector_loads"] {
            assert!((after(id) - 3.0).abs() < 1e-9, "{id}");
        }
        for k in [64, 1000, 9000, 100_000] {
            let problem = Problem::<f32>::new(300, 500, k);
            assert_eq!(tuned.ranges(kernel.spec(), &problem), bare.ranges(kernel.spec(), &problem));
        }
    }
}
