//! Which kernel suits a product on a GPU.

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use gemm_spec::split_k::KSharing;
use gemm_spec::{DType, KernelSpec, Layout, Order, Problem, Tile, Types, batched_limbs};
use kernels_gpu::Kernel;

use super::batch::{LIMBS_LEAST_K, in_packets};
use super::device::DeviceModel;
use super::thin::{Side, thin_side};
use crate::accuracy::Accuracy;
use crate::element::GemmTypes;

/// A canonical problem as that kernel gets it: with row-major copies of A and B where it reads nothing
/// else.
pub(crate) fn in_order<T: GemmTypes>(problem: &Problem<T>, spec: &KernelSpec) -> Problem<T> {
    if spec.reads_any_order() {
        return *problem;
    }
    let row_major = |layout: Layout, cols| match layout.order {
        Order::RowMajor => layout,
        Order::ColMajor => Layout::row_major(cols),
    };
    let (a, b) = (row_major(problem.a, problem.k), row_major(problem.b, problem.n));
    Problem { a, b, ..*problem }
}

/// The kernels that a choice is made from, looked up once.
struct Candidates {
    /// Products of limbs on the tensor cores, the fewest first.
    limbs: Vec<Kernel>,
    /// The one whose blocks make the limbs as they load.
    loaded: Vec<Kernel>,
    /// For few rows, and for few columns.
    few_rows: Vec<Kernel>,
    few_columns: Vec<Kernel>,
    /// Those of f32 by predicted time. Of equal ones the first: a chain, and then the smaller tile.
    wide: Vec<Kernel>,
    /// Those of 16-bit floats by predicted time. Of equal ones, which wait for memory, the first reads B the
    /// fewest times.
    half: Vec<Kernel>,
    /// The one for small products of 16-bit floats whose lines TMA cannot address.
    any_lines: Vec<Kernel>,
    /// Those of 16-bit floats of which an SM has several blocks, for products with few k elements.
    shallow: Vec<Kernel>,
    /// Those of f64 on the tensor cores.
    double: Vec<Kernel>,
    /// Those that run on every GPU, the fastest first: those with wide loads were so wherever they were
    /// measured (docs/ladder.md).
    everywhere: Vec<Kernel>,
}

static CANDIDATES: LazyLock<Candidates> = LazyLock::new(|| Candidates {
    limbs: named(&["f16x3", "bf16x6"]),
    loaded: named(&["batched_bf16x6"]),
    few_rows: named(&["small_m"]),
    few_columns: named(&["small_n"]),
    wide: named(&[
        "async_copy_32x64",
        "async_copy_32x128",
        "async_copy_64x128",
        "async_copy_64x256",
        "async_copy_128x256",
        "split_k_32x64",
        "split_k_64x64",
        "split_k_32x128",
        "split_k_64x128",
        "split_k_128x64",
    ]),
    half: named(&[
        "tensor_128x128",
        "tensor_128x160",
        "tensor_128x192",
        "tensor_128x256",
        "tensor_pingpong_64x256",
        "tensor_pingpong_128x128",
        "tensor_pair_128x192",
        "tensor_pair_128x256",
        "tensor_split_64x64",
        "tensor_split_128x64",
        "tensor_split_64x128",
        "tensor_split_128x128",
    ]),
    shallow: named(&["tensor_64x64", "tensor_64x128"]),
    any_lines: named(&["batched_mma"]),
    double: named(&["dmma_64x64", "dmma_128x128"]),
    everywhere: named(&["vector_loads", "register_tile_2d", "naive"]),
});

fn named(ids: &[&str]) -> Vec<Kernel> {
    ids.iter().filter_map(|id| Kernel::named(id)).collect()
}

/// Whether a product of limbs on the tensor cores is no less exact than one on the multiply-add units.
/// With few k elements, one chain of multiply-adds has the smaller error (docs/accuracy.md).
const fn limbs_are_as_exact([m, n, k]: [usize; 3]) -> bool {
    const LEAST_SIDE: usize = 256;
    const LEAST_K: usize = 512;
    m >= LEAST_SIDE && n >= LEAST_SIDE && k >= LEAST_K
}

/// The kernels of limbs that are worth their splitting, where no measurement says so: none, those behind the first, or
/// all. Splitting costs time that only many multiplications win back, and for `f16x3` the range of
/// the operands is looked at as well: on an H200 `bf16x6` is the fastest from 768 x 768 x 768 on, and `f16x3` from
/// 1300 x 1300 x 1300 (results/2026-11-25-h200-limbs).
fn limbs_that_pay([m, n, k]: [usize; 3]) -> &'static [Kernel] {
    const LEAST_WORK: u128 = 3 << 27;
    const LEAST_OF_ALL: u128 = 3 << 29;
    let limbs = CANDIDATES.limbs.as_slice();
    match m as u128 * n as u128 * k as u128 {
        ..LEAST_WORK => &[],
        LEAST_WORK..LEAST_OF_ALL => &limbs[1..],
        _ => limbs,
    }
}

/// Whether blocks that make limbs as they load pay for a product that is not worth a launch for that: where each SM has
/// a tile, they are faster than multiply-adds (results/2026-11-27-h100-ranges). With 9 to 32 columns, which `small_n` and
/// tiles of 64 columns are slow with, a tile for three fifths of the SMs will do (results/2026-11-28-h100-choice); with
/// fewer columns, or few rows, they never pay.
fn loading_pays([m, n, k]: [usize; 3], thin: Option<Side>, multiprocessors: u32) -> bool {
    const FEW_COLUMNS: RangeInclusive<usize> = 9..=32;
    let Tile { m: rows, n: cols } = batched_limbs::TILE;
    let tiles = m.div_ceil(rows as usize) as u128 * n.div_ceil(cols as usize) as u128;
    let few = FEW_COLUMNS.contains(&n) && n < m;
    let least = if few { multiprocessors * 3 / 5 } else { multiprocessors };
    k >= LIMBS_LEAST_K && (few || thin.is_none()) && tiles >= u128::from(least)
}

/// Whether `small_n` is the kernel for a thin product that is not multiplied by limbs: with 9 to 16 columns a tile of 64
/// is mostly outside C, and takes longer than its share of the work (results/2026-11-28-h100-choice).
fn small_n_pays([m, n, k]: [usize; 3]) -> bool {
    const COLUMNS: RangeInclusive<usize> = 9..=16;
    const LEAST_ROWS: usize = 2048;
    const LEAST_K: usize = 128;
    COLUMNS.contains(&n) && m >= LEAST_ROWS && k >= LEAST_K
}

/// Whether copying lines to where TMA can address them takes longer than a small product by the kernel that reads them
/// as they are (results/2026-11-27-h100-ranges, results/2026-11-28-h100-choice).
fn copies_are_most_of_it([m, n, k]: [usize; 3]) -> bool {
    const LEAST_SIDE: usize = 17;
    const MOST_WORK: u128 = 1 << 19;
    const MOST_K: usize = 128;
    let small = m as u128 * n as u128 * k as u128 <= MOST_WORK && k <= MOST_K;
    small && m.min(n) >= LEAST_SIDE && !in_packets([m, n, k])
}

/// Whether blocks of one warpgroup, of which an SM has several, are candidates for a product of 16-bit floats: with few
/// k elements they store the most, and they were measured with lines that are copied (results/2026-11-28-h100-choice).
fn is_shallow([m, n, k]: [usize; 3]) -> bool {
    const MOST_K: usize = 256;
    k <= MOST_K && !in_packets([m, n, k])
}

impl DeviceModel {
    /// The kernels that a choice for a product of m, n and k may come to on this device: those that run
    /// everywhere only where no other does.
    #[must_use]
    pub fn candidates(&self, types: Types, sizes: [usize; 3]) -> Vec<Kernel> {
        let known = &*CANDIDATES;
        let Candidates { limbs, few_rows, few_columns, wide, half, double, everywhere, .. } = known;
        let (rows, columns) = (few_rows.as_slice(), few_columns.as_slice());
        let thin = match thin_side(types, sizes) {
            Some(Side::Rows) => rows,
            Some(Side::Columns) => columns,
            None => &[],
        };
        let limbs = if limbs_are_as_exact(sizes) { limbs.as_slice() } else { &[] };
        let several = if is_shallow(sizes) { known.shallow.as_slice() } else { &[] };
        let capability = self.limits().compute_capability;
        let runs =
            |kernel: &&Kernel| kernel.entry(types).is_ok() && kernel.arch.runs_on(capability);
        let all = [limbs, thin, wide, half, several, double];
        let own: Vec<Kernel> = all.into_iter().flatten().filter(runs).copied().collect();
        if own.is_empty() { everywhere.iter().filter(runs).copied().collect() } else { own }
    }

    /// The kernel that suits a problem with a row-major C on this device with that many bytes free, and
    /// keeps to the accuracy mode; `None` where no kernel does. Kernels that read row-major operands alone
    /// are judged by row-major copies of A and B.
    ///
    /// Without figures the rules below and the predicted times of tiles decide. Kernels that were measured
    /// with products like this one are chosen by time alone, if the rules' choice is among them.
    #[must_use]
    pub fn best_kernel<T: GemmTypes>(
        &self,
        problem: &Problem<T>,
        free: u64,
        accuracy: Accuracy,
    ) -> Option<Kernel> {
        let sizes = [problem.m, problem.n, problem.k];
        self.best_where(T::TYPES, sizes, |kernel| {
            let spec = kernel.spec();
            let problem = in_order(problem, spec);
            accuracy.admits(spec)
                && spec.supports(&problem, self.limits()).is_ok()
                && fits(&problem, spec, free)
        })
    }

    /// The kernel that suits a product of m, n and k on this device among those that `can` compute it.
    #[must_use]
    pub fn best_where(
        &self,
        types: Types,
        sizes: [usize; 3],
        can: impl Fn(&Kernel) -> bool,
    ) -> Option<Kernel> {
        let by_rule = self.by_rule(types, sizes, &can)?;
        let measured =
            |kernel: &Kernel| self.measured().factor(kernel.spec().id, types, sizes).is_some();
        if !measured(&by_rule) {
            return Some(by_rule);
        }
        let others = self.candidates(types, sizes).into_iter().filter(measured).filter(can);
        self.fastest(types, sizes, std::iter::once(by_rule).chain(others))
    }

    /// The first of the kernels with the shortest predicted time.
    fn fastest(
        &self,
        types: Types,
        sizes: [usize; 3],
        kernels: impl Iterator<Item = Kernel>,
    ) -> Option<Kernel> {
        kernels
            .filter_map(|kernel| Some((self.kernel_seconds(kernel.spec(), types, sizes)?, kernel)))
            .min_by(|(one, _), (other, _)| one.total_cmp(other))
            .map(|(_, kernel)| kernel)
    }

    /// The choice where the kernels that are not chosen among by time have not been measured.
    fn by_rule(
        &self,
        types: Types,
        sizes: [usize; 3],
        can: impl Fn(&Kernel) -> bool,
    ) -> Option<Kernel> {
        let known = &*CANDIDATES;
        let first = |kernels: &[Kernel]| kernels.iter().copied().find(&can);
        let best = match types.a() {
            DType::F32 => {
                let limbs = || {
                    let exact = limbs_are_as_exact(sizes);
                    if exact { first(limbs_that_pay(sizes)) } else { None }
                };
                let side = thin_side(types, sizes);
                let thin: &[Kernel] = match side {
                    Some(Side::Rows) => &known.few_rows,
                    Some(Side::Columns) => &known.few_columns,
                    None => &[],
                };
                let loaded = || {
                    let pays = loading_pays(sizes, side, self.limits().multiprocessors);
                    if pays { first(&known.loaded) } else { None }
                };
                let all = || thin.iter().chain(&known.wide).copied().filter(&can);
                let thinner = || if small_n_pays(sizes) { first(thin) } else { None };
                let fastest = || self.fastest(types, sizes, all());
                limbs().or_else(loaded).or_else(thinner).or_else(fastest)
            }
            DType::F16 | DType::BF16 => {
                // As if C were no wider: where a C of f32 has both tiles wait for memory, what decides is
                // still which of them keeps the SMs at work.
                let narrow = if types.a() == DType::F16 { Types::F16 } else { Types::BF16 };
                // Of a tile of 128 rows with most of them outside TMA loads those all the same.
                let thin = thin_side(types, sizes).is_some();
                let suits =
                    |kernel: &Kernel| !thin || matches!(kernel.split_k, KSharing::Cluster { .. });
                let several = if is_shallow(sizes) { known.shallow.as_slice() } else { &[] };
                let half = known.half.iter().chain(several);
                let allowed = half.copied().filter(&can).filter(suits);
                let tiled = self.fastest(narrow, sizes, allowed);
                let as_they_are = copies_are_most_of_it(sizes);
                // Where no other kernel does the large products of a type, none does the small ones.
                tiled.map(|tiled| {
                    let other = if as_they_are { first(&known.any_lines) } else { None };
                    other.unwrap_or(tiled)
                })
            }
            DType::F64 => self.fastest(types, sizes, known.double.iter().copied().filter(&can)),
            DType::I32 | DType::I8 => None,
        };
        best.or_else(|| first(&known.everywhere))
    }
}

/// Whether that many bytes hold the three matrices and the kernel's workspace.
fn fits<T: GemmTypes>(problem: &Problem<T>, spec: &KernelSpec, free: u64) -> bool {
    let workspace = spec.workspace_bytes(problem);
    // Lines are padded on the device, by a sixteenth at most.
    let with_padding = |bytes: usize| bytes as u128 + bytes as u128 / 16;
    problem.bytes().is_some_and(|bytes| with_padding(bytes) + u128::from(workspace) <= free.into())
}

#[cfg(test)]
mod tests {
    use gemm_spec::{Arch, DeviceLimits};

    use super::super::gpu::GpuFigures;
    use super::super::measured::KernelTime;
    use super::super::thin::THIN;
    use super::*;

    const H200: DeviceLimits = DeviceLimits {
        compute_capability: (9, 0),
        max_threads_per_block: 1024,
        max_shared_bytes: 227 * 1024,
        multiprocessors: 132,
    };

    fn kernel<T: GemmTypes>(n: usize, limits: &DeviceLimits) -> &'static str {
        let problem = Problem::<T>::new(n, n, n);
        DeviceModel::new(*limits, 0)
            .best_kernel(&problem, u64::MAX, Accuracy::default())
            .map_or("none", |kernel| kernel.spec().id)
    }

    #[test]
    fn a_gpu_gets_the_kernel_that_suits_the_product_and_the_device() {
        assert_eq!(kernel::<f32>(8192, &H200), "f16x3");
        assert_eq!(kernel::<f64>(1024, &H200), "dmma_64x64");
        assert_eq!(kernel::<f64>(2048, &H200), "dmma_128x128");
        assert_eq!(kernel::<f64>(8192, &H200), "dmma_128x128");
        let ampere = DeviceLimits { compute_capability: (8, 0), ..H200 };
        assert_eq!(kernel::<f32>(1024, &ampere), "split_k_32x128");
        assert_eq!(kernel::<f32>(8192, &ampere), "async_copy_128x256");
        let volta = DeviceLimits { compute_capability: (7, 0), ..H200 };
        for everywhere in [
            kernel::<f64>(1024, &ampere),
            kernel::<i32>(1024, &ampere),
            kernel::<f32>(1024, &volta),
            kernel::<f64>(1024, &volta),
        ] {
            assert_eq!(everywhere, "vector_loads");
        }
        // Room for the matrices, and not for their limbs beside them.
        let problem = Problem::<f32>::new(8192, 8192, 8192);
        let of = |free, accuracy| {
            DeviceModel::new(H200, 1980).best_kernel(&problem, free, accuracy).unwrap().spec().id
        };
        assert_eq!(of(1 << 30, Accuracy::Fp32), "batched_bf16x6");
        assert_eq!(of(u64::MAX, Accuracy::Componentwise), "bf16x6");
        // No opting in: what fits 48 KiB.
        let small = DeviceLimits { max_shared_bytes: gemm_spec::SHARED_WITHOUT_OPT_IN, ..ampere };
        let chosen = Kernel::named(kernel::<f32>(8192, &small)).unwrap();
        let shared = chosen.shared_bytes(Types::F32);
        assert!(shared <= gemm_spec::SHARED_WITHOUT_OPT_IN, "{}: {shared}", chosen.id);
        assert!(chosen.id.starts_with("async_copy"), "{}", chosen.id);
    }

    #[test]
    fn where_no_kernel_multiplies_a_type_there_is_none() {
        let ampere = DeviceLimits { compute_capability: (8, 0), ..H200 };
        assert_eq!(kernel::<gemm_spec::f16>(1024, &ampere), "none");
        assert_eq!(kernel::<gemm_spec::bf16>(1024, &H200), "tensor_split_64x128");
        assert_eq!(kernel::<i8>(1024, &H200), "none");
    }

    /// What `vector_loads` would be asked of a column-major operand is answered for its row-major copy.
    #[test]
    fn kernels_that_read_rows_alone_are_judged_by_the_copies_they_get() {
        let problem = Problem { b: Layout::col_major(64), ..Problem::<f64>::new(64, 64, 64) };
        let ampere = DeviceLimits { compute_capability: (8, 0), ..H200 };
        let chosen = DeviceModel::new(ampere, 1410)
            .best_kernel(&problem, u64::MAX, Accuracy::default())
            .unwrap();
        assert_eq!(chosen.id, "vector_loads");
        assert_eq!(in_order(&problem, &chosen).b, Layout::row_major(64));
    }

    /// The kernel of f32 by rule, among those that are allowed, on a device of that many SMs.
    fn best_f32(
        m: usize,
        n: usize,
        k: usize,
        multiprocessors: u32,
        allowed: impl Fn(&KernelSpec) -> bool,
    ) -> Option<Kernel> {
        let model = DeviceModel::new(DeviceLimits { multiprocessors, ..H200 }, 1980);
        model.by_rule(Types::F32, [m, n, k], |kernel| {
            kernel.entry(Types::F32).is_ok() && kernel.grid(m, n).is_ok() && allowed(kernel.spec())
        })
    }

    fn best(m: usize, n: usize, k: usize) -> &'static str {
        // What the tensor cores would do is the matter of another test.
        best_f32(m, n, k, 132, |spec| !spec.reads_any_order())
            .map_or("none", |kernel| kernel.spec().id)
    }

    #[test]
    fn every_candidate_is_in_the_registry() {
        let Candidates {
            limbs,
            loaded,
            few_rows,
            few_columns,
            wide,
            half,
            shallow,
            any_lines,
            double,
            everywhere,
        } = &*CANDIDATES;
        let all = [
            limbs,
            loaded,
            few_rows,
            few_columns,
            wide,
            half,
            shallow,
            any_lines,
            double,
            everywhere,
        ];
        assert_eq!(all.map(Vec::len), [2, 1, 1, 1, 10, 12, 2, 1, 2, 3]);
        for kernel in few_rows.iter().chain(few_columns) {
            let tile = kernel.launch.tile().unwrap();
            assert_eq!(tile.m.min(tile.n) as usize, THIN, "{}", kernel.id);
        }
    }

    #[test]
    fn what_would_be_copied_or_split_first_is_taken_as_it_lies_where_that_pays() {
        let model = DeviceModel::new(H200, 1980);
        let best = |types: Types, sizes| {
            let all = |kernel: &Kernel| kernel.entry(types).is_ok();
            model.by_rule(types, sizes, all).unwrap().spec().id
        };
        // Lines of whole packets, too long a k, and too large a C need no such kernel.
        assert_eq!(best(Types::BF16, [203, 29, 51]), "batched_mma");
        assert_eq!(best(Types::F16, [63, 35, 114]), "batched_mma");
        for sizes in [[3218, 64, 32], [30, 45, 330], [635, 35, 79], [9, 35, 114]] {
            assert!(best(Types::BF16, sizes).starts_with("tensor_"), "{sizes:?}");
        }
        assert_eq!(best(Types::F32, [6085, 7022, 83]), "batched_bf16x6");
        assert_eq!(best(Types::F32, [690, 8289, 453]), "batched_bf16x6");
        // Few columns, and fewer tiles than SMs.
        assert_eq!(best(Types::F32, [12_579, 32, 4456]), "batched_bf16x6");
        assert_eq!(best(Types::F32, [16_384, 12, 2048]), "batched_bf16x6");
        assert_eq!(best(Types::F32, [8192, 16, 8192]), "small_n");
        // A C that is more than its operands, of lines that are copied: several blocks an SM.
        assert_eq!(best(Types::BF16, [2761, 1843, 54]), "tensor_64x128");
        assert!(best(Types::BF16, [2768, 1848, 56]).starts_with("tensor_1"));
        // Too few tiles, too short a k, few rows, and enough to split before.
        let others = [
            [367, 2335, 236],
            [7006, 5516, 44],
            [16, 30_000, 100],
            [690, 8289, 1000],
            [30_000, 8, 700],
        ];
        for sizes in others {
            assert_ne!(best(Types::F32, sizes), "batched_bf16x6", "{sizes:?}");
        }
    }

    #[test]
    fn every_size_has_a_kernel_of_the_registry_that_covers_it() {
        for multiprocessors in [0, 1, 40, 108, 132, 1000] {
            for m in (1..20).chain([64, 129, 1000, 4096, 100_000, 20_000_000]) {
                for n in (1..20).chain([63, 256, 2047, 30_000, 1_000_000]) {
                    let spec = best_f32(m, n, 64, multiprocessors, |_| true).unwrap();
                    assert!(spec.grid(m, n).is_ok(), "{} for {m} x {n}", spec.id);
                    assert!(spec.entry(Types::F32).is_ok());
                }
            }
        }
        assert!(best_f32(100, 100, 64, 132, |_| false).is_none());
        let only = best_f32(8192, 8192, 8192, 132, |spec| spec.id == "async_copy_32x64").unwrap();
        assert_eq!(only.id, "async_copy_32x64");
    }

    #[test]
    fn small_products_get_small_tiles_and_large_ones_large() {
        let area = |n| {
            let tile =
                best_f32(n, n, n, 132, |spec| spec.is_chain()).unwrap().launch.tile().unwrap();
            tile.m * tile.n
        };
        assert!((1..=512).all(|n| area(n) <= 64 * 128));
        assert!((1..=256).all(|n| area(n) <= 32 * 64));
        assert!([4096, 8192, 10_240, 16_384].into_iter().all(|n| area(n) >= 64 * 256));
    }

    /// The sizes of the measurements: of the kernels that were measured the one that was the fastest
    /// there, or within a hundredth.
    #[test]
    fn the_choice_is_what_the_measurements_say() {
        let best = |n| best_f32(n, n, n, 132, |spec| spec.is_chain()).unwrap().id;
        assert_eq!(best(1024), "async_copy_64x128");
        assert_eq!(best(2048), "async_copy_128x256");
        assert_eq!(best(4096), "async_copy_128x256");
        assert_eq!(best(8192), "async_copy_128x256");
    }

    #[test]
    fn thin_products_get_kernels_that_fill_the_gpu() {
        for (m, n, k) in [(100, 100, 8000), (20, 20, 9000), (300, 500, 9000), (33, 700, 7000)] {
            assert!(best(m, n, k).starts_with("split_k"), "{m} {n} {k}: {}", best(m, n, k));
        }
        for (m, n) in [(1, 4096), (3, 1250), (1, 9000)] {
            assert_eq!(best(m, n, 4096), "small_m");
        }
        for (m, n) in [(4096, 1), (9000, 11), (3, 2)] {
            assert_eq!(best(m, n, 4096), "small_n");
        }
        // With sixteen rows a tile reads B no more often, and its units have more to do (results/2026-11-25-h200-fit).
        assert!(best(16, 9000, 4096).starts_with("split_k"));
        assert!(!best(17, 4096, 4096).starts_with("small"));
        // Nothing to share out.
        assert!(best(8192, 8192, 8192).starts_with("async_copy"));
        assert!(best(4096, 4096, 16).starts_with("async_copy"));
    }

    #[test]
    fn products_of_16_bits_get_the_wide_tile_where_it_keeps_all_at_work() {
        let id = |n| kernel::<gemm_spec::f16>(n, &H200);
        assert_eq!(id(1024), "tensor_split_64x128");
        assert_eq!([2048, 4096].map(id), ["tensor_pingpong_128x128", "tensor_128x256"]);
        // Rows that begin within lines of L2, and many idle SMs in the last wave of wider tiles.
        assert_eq!(id(3000), "tensor_pair_128x192");
        let few_rows = Problem::<gemm_spec::bf16>::new(16, 8192, 8192);
        let model = DeviceModel::new(H200, 1980);
        let chosen = model.best_kernel(&few_rows, u64::MAX, Accuracy::default()).unwrap();
        assert_eq!(chosen.id, "tensor_split_64x64");
        let more = Problem::<gemm_spec::bf16>::new(128, 4096, 4096);
        let chosen = model.best_kernel(&more, u64::MAX, Accuracy::default()).unwrap();
        assert_eq!(chosen.id, "tensor_split_64x128");
    }

    #[test]
    fn large_products_are_split_where_the_gpu_can() {
        let id = |m, n, k, hopper: bool| {
            best_f32(m, n, k, 132, |spec| hopper || spec.arch != Arch::Sm90a).unwrap().id
        };
        let exact = best_f32(4096, 4096, 4096, 132, |spec| spec.id != "f16x3").unwrap();
        assert_eq!(exact.id, "bf16x6");
        assert_eq!(id(10_240, 10_240, 10_240, true), "f16x3");
        assert_eq!(id(8192, 8192, 8192, false), "async_copy_128x256");
        assert_eq!(id(2048, 2048, 2048, true), "f16x3");
        assert_eq!(id(1280, 1280, 1280, true), "f16x3");
        assert_eq!(id(1024, 1024, 1024, true), "bf16x6");
        assert_eq!(id(768, 768, 768, true), "bf16x6");
        assert_eq!(id(640, 640, 640, true), "split_k_32x64");
        assert_ne!(id(8192, 8192, 256, true), "f16x3");
        assert_ne!(id(128, 100_000, 8192, true), "f16x3");
    }

    /// Figures of every kernel that a device would run, as its model predicts them but for some.
    fn tuned(
        limits: DeviceLimits,
        dtype: &str,
        sizes: [usize; 3],
        slower: &[(&str, f64)],
    ) -> DeviceModel {
        let model = DeviceModel::new(limits, 1980);
        let types = Types::ALL.into_iter().find(|types| types.name() == dtype).unwrap();
        let time = |kernel: &Kernel| {
            let factor = slower.iter().find(|(id, _)| *id == kernel.id).map_or(1.0, |(_, by)| *by);
            let seconds = model.kernel_seconds(kernel.spec(), types, sizes)? * factor;
            Some(KernelTime {
                kernel: kernel.id.to_owned(),
                dtype: dtype.to_owned(),
                sizes,
                seconds,
            })
        };
        let kernels = model.candidates(types, sizes).iter().filter_map(time).collect();
        model
            .with_figures(&GpuFigures { kernels, ..GpuFigures::assumed(limits.compute_capability) })
    }

    fn chosen<T: GemmTypes>(model: &DeviceModel, [m, n, k]: [usize; 3]) -> &'static str {
        let problem = Problem::<T>::new(m, n, k);
        let best = model.best_kernel(&problem, u64::MAX, Accuracy::default());
        best.map_or("none", |kernel| kernel.spec().id)
    }

    #[test]
    fn a_kernel_that_was_measured_much_faster_is_chosen() {
        let ampere = DeviceLimits { compute_capability: (8, 0), ..H200 };
        let volta = DeviceLimits { compute_capability: (7, 0), ..H200 };
        // Among tiles, beside the tensor cores, where everything is chosen by rule, and in other types.
        let cube = |n| [n, n, n];
        for (limits, dtype, sizes, kernel) in [
            (ampere, "f32", cube(1024), "async_copy_64x256"),
            (ampere, "f32", cube(8192), "split_k_64x128"),
            (H200, "f32", cube(1024), "async_copy_64x128"),
            (H200, "f32", cube(600), "f16x3"),
            (H200, "f32", [8, 4096, 4096], "split_k_32x64"),
            (H200, "f32", [4096, 8, 4096], "async_copy_32x64"),
            (volta, "f32", cube(512), "register_tile_2d"),
        ] {
            let bare = chosen::<f32>(
                &tuned(limits, dtype, sizes, &[]).with_figures(&GpuFigures::assumed((9, 0))),
                sizes,
            );
            assert_ne!(bare, kernel);
            assert_eq!(
                chosen::<f32>(&tuned(limits, dtype, sizes, &[(kernel, 0.05)]), sizes),
                kernel
            );
        }
        let sizes = cube(2048);
        let of_f64 = tuned(ampere, "f64", sizes, &[("register_tile_2d", 0.05)]);
        assert_eq!(chosen::<f64>(&of_f64, sizes), "register_tile_2d");
        // What was measured in one type says nothing of another.
        assert_eq!(
            chosen::<f32>(&of_f64, sizes),
            chosen::<f32>(&DeviceModel::new(ampere, 1980), sizes)
        );
        let of_f16 = tuned(H200, "f16", sizes, &[("tensor_128x256", 3.0)]);
        assert_eq!(chosen::<gemm_spec::f16>(&of_f16, sizes), "tensor_pingpong_128x128");
        // A rule's kernel that was measured to be slow is left.
        let slow = tuned(ampere, "f32", [1, 5000, 5000], &[("small_m", 50.0)]);
        assert_ne!(chosen::<f32>(&slow, [1, 5000, 5000]), "small_m");
    }

    #[test]
    fn figures_give_no_kernel_that_may_not_run() {
        let sizes = [2048, 2048, 256];
        // With few k elements limbs are less exact.
        let model = tuned(H200, "f32", sizes, &[("f16x3", 1e-3)]);
        assert_ne!(chosen::<f32>(&model, sizes), "f16x3");
        // One that does not keep to the accuracy mode, and one for another GPU.
        let sizes = [2048, 2048, 2048];
        let model = tuned(H200, "f32", sizes, &[("f16x3", 1e-3)]);
        let problem = Problem::<f32>::new(2048, 2048, 2048);
        let exact = model.best_kernel(&problem, u64::MAX, Accuracy::Componentwise).unwrap();
        assert_ne!(exact.id, "f16x3");
        let ampere = DeviceLimits { compute_capability: (8, 0), ..H200 };
        let model = tuned(ampere, "f32", sizes, &[("f16x3", 1e-3)]);
        assert_ne!(chosen::<f32>(&model, sizes), "f16x3");
        assert_eq!(chosen::<gemm_spec::f16>(&model, sizes), "none");
    }

    /// Figures that say what the model says change nothing but what a rule has decided against it.
    #[test]
    fn figures_as_predicted_leave_the_choice_among_tiles() {
        let ampere = DeviceLimits { compute_capability: (8, 0), ..H200 };
        for n in [100, 333, 512, 1000, 1024, 2048, 8192] {
            let sizes = [n, n, n];
            let model = tuned(ampere, "f32", sizes, &[("vector_loads", 9.0), ("naive", 9.0)]);
            assert_eq!(chosen::<f32>(&model, sizes), kernel::<f32>(n, &ampere), "{n}");
        }
    }
}
