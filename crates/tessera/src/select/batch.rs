//! Which kernel suits a batch of products on a GPU.

use gemm_spec::batched_mma::Partition;
use gemm_spec::{BatchShare, KernelSpec, OperandAccess, Tile, Types};
use kernels_gpu::{KERNELS, Kernel};

use super::device::DeviceModel;

/// The kernels whose launches compute all products of a batch, but those for groups of rows. Of equal predicted times,
/// which wait for memory, the first is chosen: the wider tile reads less.
const TOGETHER: [&str; 10] = [
    "tensor_batch_128x128",
    "tensor_64x64",
    "batched_small",
    "batched_mma",
    "dmma_128x128",
    "dmma_96x96",
    "dmma_64x64",
    "batched_bf16x6",
    "batched_96x96",
    "batched_64x64",
];

/// Rows and columns of the smallest tile on the tensor cores.
const SMALL_TILE: u32 = 64;

/// What part of its units' peak the kernel for small products reaches, and the nanoseconds that its blocks take
/// before they multiply (results/2026-11-25-h100-batches).
const SMALL_EFFICIENCY: f64 = 0.18;
const SMALL_START: f64 = 1200.0;
/// The same with lines of 16 bits that are no packets, whose elements it widens one by one.
const SMALL_EFFICIENCY_OF_HALVES: f64 = 0.1;
const SMALL_START_OF_HALVES: f64 = 2200.0;

/// What the kernel whose warps have parts of C takes an SM, in nanoseconds: a product that is one part, of lines of
/// packets and of others, and each element of A and B; a larger product, and each of its parts, beside the elements. Then,
/// how often that where k is multiplied in two chunks, and where a product has several tiles, or more chunks; and the time
/// before its blocks multiply (results/2026-11-27-h200-batched-aligned).
const WARPS_SMALL: [f64; 2] = [75.0, 115.0];
const WARPS_PRODUCT: f64 = 120.0;
const WARPS_PART: f64 = 160.0;
const WARPS_ELEMENT: f64 = 0.11;
const WARPS_IN_CHUNKS: f64 = 1.25;
const WARPS_IN_TILES: f64 = 2.2;
const WARPS_START: f64 = 1600.0;

/// k elements from which on products of limbs are no less exact than chains, whose rounding errors grow with k
/// (results/2026-11-27-h200-batched-limbs).
pub(super) const LIMBS_LEAST_K: usize = 64;

/// Whether no smaller tile would do for a product: of a tile that is mostly outside C, TMA loads that all the same, and
/// tiles of a block each are multiplied.
fn suits(kernel: &Kernel, [m, n, k]: [usize; 3]) -> bool {
    let side = SMALL_TILE as usize;
    match kernel.operands {
        OperandAccess::Batched(BatchShare::Tile(tile)) => {
            let Tile { m: rows, n: cols } = tile.tile();
            m > rows as usize / 2 || n > cols as usize / 2
        }
        OperandAccess::Batched(BatchShare::Limbs) => k >= LIMBS_LEAST_K,
        // Products of which a block has several tiles take the kernel for small ones longer than its figures say.
        OperandAccess::Batched(BatchShare::Threads) => m <= side || n <= side,
        OperandAccess::TensorMaps { .. } => {
            let small = |tile: Tile| tile.m <= SMALL_TILE && tile.n <= SMALL_TILE;
            m > side || n > side || kernel.launch.tile().is_some_and(small)
        }
        OperandAccess::Batched(BatchShare::Warps)
        | OperandAccess::Pointers
        | OperandAccess::Limbs(_) => true,
    }
}

/// Whether lines of 16 bits are whole packets, if operands are row-major without gaps.
pub(super) const fn in_packets([_, n, k]: [usize; 3]) -> bool {
    n.is_multiple_of(8) && k.is_multiple_of(8)
}

/// The kernel of the least time, the first of equal ones.
fn fastest(timed: impl Iterator<Item = (f64, Kernel)>) -> Option<Kernel> {
    let least = timed.min_by(|(first, _), (second, _)| first.total_cmp(second));
    least.map(|(_, kernel)| kernel)
}

impl DeviceModel {
    /// The kernel that suits `count` products of m, n and k, among those that `can` compute them: one whose
    /// launch computes all of them, or the one that suits each product, if its launches one after the other take no
    /// longer.
    #[must_use]
    pub fn best_of_batch(
        &self,
        types: Types,
        sizes: [usize; 3],
        count: usize,
        can: impl Fn(&Kernel) -> bool,
    ) -> Option<Kernel> {
        let one = self.best_where(types, sizes, &can);
        if count <= 1 {
            return one;
        }
        let together = TOGETHER.into_iter().filter_map(Kernel::named);
        let together = together.filter(|kernel| kernel.entry(types).is_ok());
        let together = together.filter(|kernel| suits(kernel, sizes)).filter(&can);
        let time = |kernel: &Kernel| self.batch_seconds(kernel.spec(), types, sizes, count);
        let timed = |kernel: Kernel| Some((time(&kernel)?, kernel));
        fastest(together.chain(one).filter_map(timed)).or(one)
    }

    /// The kernel that suits `count` products whose groups of rows have `rows` together, which is all that is known
    /// of them, among those that `can` compute them.
    #[must_use]
    pub fn best_of_groups(
        &self,
        types: Types,
        [rows, n, k]: [usize; 3],
        count: usize,
        can: impl Fn(&Kernel) -> bool,
    ) -> Option<Kernel> {
        let kernels = KERNELS.iter().copied().filter(|kernel| kernel.row_groups);
        let timed =
            kernels.filter(|kernel| kernel.entry(types).is_ok()).filter(can).filter_map(|kernel| {
                // A group ends half way down a tile on average.
                let more = kernel.launch.tile()?.m as usize / 2;
                let m = rows.div_ceil(count.max(1)) + more;
                Some((self.batch_seconds(kernel.spec(), types, [m, n, k], count)?, kernel))
            });
        fastest(timed)
    }

    /// Seconds of a batch of products by a kernel, its operands being on the device.
    ///
    /// `None` where no grid covers C.
    #[must_use]
    pub fn batch_seconds(
        &self,
        spec: &KernelSpec,
        types: Types,
        sizes: [usize; 3],
        count: usize,
    ) -> Option<f64> {
        if !spec.takes_batches() {
            return Some(count as f64 * self.kernel_seconds(spec, types, sizes)?);
        }
        let factor = self.factor(spec, types, sizes);
        let nanoseconds = match spec.operands {
            OperandAccess::Batched(BatchShare::Threads) => {
                self.small_nanoseconds(spec, types, sizes, count)
            }
            OperandAccess::Batched(BatchShare::Warps) => {
                self.warps_nanoseconds(types, sizes, count)?
            }
            OperandAccess::Batched(BatchShare::Tile(_) | BatchShare::Limbs)
            | OperandAccess::Pointers
            | OperandAccess::TensorMaps { .. }
            | OperandAccess::Limbs(_) => {
                self.nanoseconds_of_batch(spec, types, sizes, (1, count))?
            }
        };
        Some(nanoseconds / 1e9 * factor)
    }

    /// Nanoseconds of the kernel whose warps have parts of small products.
    fn warps_nanoseconds(&self, types: Types, [m, n, k]: [usize; 3], count: usize) -> Option<f64> {
        let multiprocessors = self.limits().multiprocessors;
        let [rows, cols, steps, products] = [m, n, k, count].map(u32::try_from);
        let (rows, cols, steps, products) = (rows.ok()?, cols.ok()?, steps.ok()?, products.ok()?);
        let partition = Partition::new([rows, cols, steps], products, multiprocessors);
        let tiles = m.div_ceil(partition.tile_m as usize) * n.div_ceil(partition.tile_n as usize);
        let loaded = (partition.tile_m + partition.tile_n) as usize * k * tiles;
        let parts = tiles as f64 * f64::from(partition.parts());
        let own = if parts > 1.0 {
            WARPS_PRODUCT + WARPS_PART * parts
        } else {
            WARPS_SMALL[usize::from(!in_packets([m, n, k]))]
        };
        let often = match (partition.chunk >= steps, partition.copied >= steps) {
            (true, _) if tiles == 1 => 1.0,
            (_, true) if tiles == 1 => WARPS_IN_CHUNKS,
            _ => WARPS_IN_TILES,
        };
        let each = often * (own + WARPS_ELEMENT * loaded as f64);
        let bytes = m * k * types.a().size() + k * n * types.b().size() + m * n * types.c().size();
        let start = (self.constants().launch + WARPS_START) / self.speed();
        let moving = count as f64 * bytes as f64 / self.constants().memory_rate / self.speed();
        let rounds = (count as f64 / f64::from(multiprocessors)).max(1.0);
        Some(start + moving.max(rounds * each / self.speed()))
    }

    /// Nanoseconds of the kernel for small products.
    fn small_nanoseconds(
        &self,
        spec: &KernelSpec,
        types: Types,
        [m, n, k]: [usize; 3],
        count: usize,
    ) -> f64 {
        let of_halves = types.a().size() == 2 && !in_packets([m, n, k]);
        let [m, n, k, count] = [m, n, k, count].map(|size| size as f64);
        let (efficiency, before) = if of_halves {
            (SMALL_EFFICIENCY_OF_HALVES, SMALL_START_OF_HALVES)
        } else {
            (SMALL_EFFICIENCY, SMALL_START)
        };
        let rate =
            efficiency * self.sm_peak(spec, types) * f64::from(self.limits().multiprocessors);
        let of = |elements: f64, size: usize| elements * size as f64;
        let bytes =
            of(m * k, types.a().size()) + of(k * n, types.b().size()) + of(m * n, types.c().size());
        let start = (self.constants().launch + before) / self.speed();
        let moving = count * bytes / self.constants().memory_rate / self.speed();
        start + moving.max(count * 2.0 * m * n * k / rate)
    }
}

#[cfg(test)]
mod tests {
    use gemm_spec::DeviceLimits;

    use super::*;

    fn h200() -> DeviceModel {
        let limits = DeviceLimits {
            compute_capability: (9, 0),
            max_threads_per_block: 1024,
            max_shared_bytes: 227 * 1024,
            multiprocessors: 132,
        };
        DeviceModel::new(limits, 1980)
    }

    /// The kernel for a batch on an H200.
    fn kernel(types: Types, sizes: [usize; 3], count: usize) -> &'static str {
        let model = h200();
        let can = |kernel: &Kernel| kernel.entry(types).is_ok() && sizes[2] >= kernel.least_k();
        model.best_of_batch(types, sizes, count, can).map_or("none", |kernel| kernel.spec().id)
    }

    /// Choices that were the fastest, or within a tenth of it, in results/2026-11-25-h100-batches.
    #[test]
    fn a_batch_gets_one_launch_where_that_is_faster() {
        let bf16 = |n, count| kernel(Types::BF16, [n; 3], count);
        assert_eq!([bf16(8, 10_000), bf16(16, 10_000)], ["batched_small"; 2]);
        assert_eq!([bf16(16, 100), bf16(32, 1000), bf16(48, 1000)], ["tensor_64x64"; 3]);
        assert_eq!([bf16(48, 10_000), bf16(64, 1000), bf16(64, 10_000)], ["tensor_64x64"; 3]);
        assert_eq!(
            [bf16(96, 10_000), bf16(128, 10_000), bf16(256, 100)],
            ["tensor_batch_128x128"; 3]
        );
        // The same in results/2026-11-27-h200-batched-aligned.
        for n in [23, 31, 33, 47, 63, 65, 81, 100, 127] {
            for count in [100, 1000, 10_000] {
                assert_eq!(bf16(n, count), "batched_mma", "{n}, {count}");
            }
        }
        assert_eq!([bf16(24, 10_000), bf16(32, 10_000)], ["batched_mma"; 2]);
        assert_eq!([bf16(250, 100), bf16(250, 1000)], ["tensor_batch_128x128"; 2]);
        for types in [Types::F32, Types::F64] {
            assert_eq!(kernel(types, [4; 3], 2), "batched_small");
            assert_eq!(kernel(types, [32; 3], 100), "batched_small");
        }
        // Choices that were the fastest, or within a tenth of it, in results/2026-11-26-h200-tiles.
        let double = |n, count| kernel(Types::F64, [n; 3], count);
        assert_eq!([double(48, 1000), double(64, 1000), double(64, 10_000)], ["dmma_64x64"; 3]);
        assert_eq!([double(96, 1000), double(96, 10_000)], ["dmma_96x96"; 2]);
        assert_eq!([double(100, 1000), double(128, 1000), double(256, 1000)], ["dmma_128x128"; 3]);
        assert_eq!([double(256, 100), double(512, 10)], ["dmma_64x64"; 2]);
        let single = |n, count| kernel(Types::F32, [n; 3], count);
        // The same in results/2026-11-27-h200-batched-aligned.
        assert_eq!([single(64, 100), single(48, 10_000)], ["batched_64x64"; 2]);
        assert_eq!([single(48, 100), single(64, 1000)], ["batched_small", "batched_64x64"]);
        // The same in results/2026-11-27-h200-batched-limbs.
        for n in [72, 88, 96, 100, 112, 127, 128, 129, 200, 250, 256, 300, 512] {
            for count in [100, 1000] {
                assert_eq!(single(n, count), "batched_bf16x6", "{n}, {count}");
            }
        }
        // Each of them has the device to itself.
        assert_eq!(kernel(Types::F32, [4096; 3], 4), kernel(Types::F32, [4096; 3], 1));
        assert_eq!(kernel(Types::F64, [1024; 3], 3), "dmma_64x64");
        // One product is chosen for as without a batch.
        let alone = h200().best_where(Types::BF16, [2048; 3], |_| true).unwrap();
        assert_eq!(bf16(2048, 1), alone.spec().id);
        assert_eq!(kernel(Types::I8, [8; 3], 10), "none");
    }

    /// More products never take less, and one takes what a product takes.
    #[test]
    fn a_batch_takes_longer_than_a_part_of_it() {
        let model = h200();
        for id in TOGETHER {
            let spec = Kernel::named(id).expect("the registry has it").spec();
            let seconds = |count| model.batch_seconds(spec, Types::BF16, [100; 3], count).unwrap();
            let mut before = seconds(1);
            for count in [2, 10, 100, 1000, 10_000] {
                let now = seconds(count);
                assert!(now >= before, "{id}: {count}");
                before = now;
            }
            assert!(before > 10.0 * seconds(100), "{id}");
        }
        let spec = Kernel::named("tensor_batch_128x128").expect("the registry has it").spec();
        let one = model.kernel_seconds(spec, Types::BF16, [300; 3]);
        assert_eq!(model.batch_seconds(spec, Types::BF16, [300; 3], 1), one);
    }
}
