use super::*;
use crate::batched::{B_COL_MAJOR, Partition, THREADS};
use crate::fusion;
use crate::split::{FALL_BACK, Limbs, Workspace};
use crate::{Arch, Entry, LaunchShape, Layout, MinBlocks, Numerics, ParamList, Tile, Types, bf16};

const LIMITS: DeviceLimits = DeviceLimits {
    compute_capability: (9, 0),
    max_threads_per_block: 1024,
    max_shared_bytes: 227 * 1024,
    multiprocessors: 132,
};
const AT: Addresses = Addresses { a: 0x1000, b: 0x20_0000, c: 0x40_0000 };
const WORKSPACE: u64 = 0x100_0000;
/// Ranges of k that are asked for of kernels whose blocks can share it.
const RANGES: u32 = 5;
const TILE: Tile = Tile { m: 128, n: 128 };

const fn helper(role: HelperRole, symbol: &'static str, min_blocks: u32) -> HelperEntry {
    HelperEntry { role, symbol, block: Block { x: 256, y: 1 }, min_blocks, shared_bytes: 64 }
}

const GEMM: KernelSpec = KernelSpec {
    id: "gemm",
    entries: &[Entry { types: Types::F32, symbol: "gemm_f32" }],
    launch: LaunchShape::Grouped { block: Block { x: 256, y: 1 }, tile: TILE, rows: 8 },
    shared_elements: 16,
    ..KernelSpec::PLAIN
};
const SPLIT_K: KernelSpec = KernelSpec {
    split_k: KSharing::Workspace { unit: split_k::RANGE_UNIT },
    numerics: Numerics::ChainOfRanges,
    helpers: &[helper(HelperRole::SumRanges, "sum", 8)],
    min_blocks_per_sm: MinBlocks::same(4),
    ..GEMM
};
const TMA: KernelSpec = KernelSpec {
    arch: Arch::Sm90a,
    entries: &[Entry { types: Types::BF16, symbol: "tma_bf16" }],
    launch: LaunchShape::Persistent { threads: 384, tile: TILE, rows: 8 },
    params: ParamList::Tma,
    operands: OperandAccess::TensorMaps { any_order: true, cluster: 2, batched: false },
    numerics: Numerics::TensorCore,
    helpers: &[helper(HelperRole::Pad, "pad", 8)],
    ..GEMM
};
const BATCHED: KernelSpec = KernelSpec {
    launch: LaunchShape::Grouped { block: Block { x: THREADS, y: 1 }, tile: TILE, rows: 1 },
    shared_elements: Partition::MOST_SHARED,
    min_blocks_per_sm: MinBlocks::same(4),
    params: ParamList::Batched,
    operands: OperandAccess::Batched(crate::BatchShare::Threads),
    ..GEMM
};
const LIMBS: KernelSpec = KernelSpec {
    arch: Arch::Sm90a,
    launch: LaunchShape::Persistent { threads: 384, tile: TILE, rows: 8 },
    params: ParamList::Limbs,
    operands: OperandAccess::Limbs(Limbs::TwoF16),
    numerics: Numerics::Limbs { products: 3 },
    helpers: &[
        helper(HelperRole::SplitKMajor, "k_major", 4),
        helper(HelperRole::RowAmax, "row_amax", 4),
        helper(HelperRole::SplitMnMajor, "mn_major", 4),
        helper(HelperRole::Probe, "probe", 4),
        helper(HelperRole::Fallback, "fallback", 2),
    ],
    ..GEMM
};
const LIMBS_OF_RANGES: KernelSpec = KernelSpec {
    split_k: KSharing::Workspace { unit: 32 },
    helpers: &[
        helper(HelperRole::SplitKMajor, "k_major", 4),
        helper(HelperRole::SplitMnMajor, "mn_major", 4),
        helper(HelperRole::SumLimbRanges, "sum", 8),
        helper(HelperRole::Fallback, "fallback", 2),
    ],
    ..LIMBS
};
const UNSCALED_LIMBS: KernelSpec = KernelSpec {
    operands: OperandAccess::Limbs(Limbs::ThreeBf16),
    numerics: Numerics::Limbs { products: 6 },
    helpers: &[
        helper(HelperRole::SplitKMajor, "k_major", 4),
        helper(HelperRole::SplitMnMajor, "mn_major", 4),
        helper(HelperRole::RowExponents, "exponents", 4),
        helper(HelperRole::Fallback, "fallback", 1),
    ],
    ..LIMBS
};
const CLUSTER: KernelSpec = KernelSpec {
    launch: LaunchShape::Grouped {
        block: Block { x: 256, y: 1 },
        tile: Tile { m: 16, n: 64 },
        rows: 8,
    },
    operands: OperandAccess::TensorMaps { any_order: true, cluster: 1, batched: false },
    split_k: KSharing::Cluster { unit: 128 },
    ..TMA
};
const _: () = {
    CLUSTER.check();
    GEMM.check();
    SPLIT_K.check();
    TMA.check();
    LIMBS.check();
    LIMBS_OF_RANGES.check();
    UNSCALED_LIMBS.check();
};

fn plan<T: GemmTypes>(
    spec: &KernelSpec,
    problem: &Problem<T>,
    at: Addresses,
) -> (u64, LaunchPlan<T>) {
    let planner = Planner::new(spec, problem, at, &LIMITS, Band::whole(problem.m)).unwrap();
    let planner = planner.with_ranges(RANGES);
    (planner.workspace_bytes(), planner.plan(WORKSPACE).unwrap())
}

fn address_of<P>(pointer: *const P) -> u64 {
    pointer.addr() as u64
}

fn symbols<T: GemmTypes>(plan: &LaunchPlan<T>) -> Vec<&'static str> {
    let symbol = |step: &Step<T>| match step {
        Step::Fill { .. } => "fill",
        Step::Copy { .. } => "copy",
        Step::Launch(launch) => launch.symbol,
    };
    plan.steps.iter().map(symbol).collect()
}

fn launch<'p, T: GemmTypes>(plan: &'p LaunchPlan<T>, symbol: &str) -> &'p Launch<T> {
    let found = plan.steps.iter().find_map(|step| match step {
        Step::Launch(launch) if launch.symbol == symbol => Some(launch),
        Step::Fill { .. } | Step::Copy { .. } | Step::Launch(_) => None,
    });
    found.unwrap_or_else(|| panic!("no launch of {symbol} in {:?}", symbols(plan)))
}

/// One launch and no workspace, whatever the ranges; boxes are no taller than the operand.
#[test]
fn a_kernel_whose_clusters_share_k_is_one_launch_of_a_cluster_for_each_tile() {
    let problem = Problem::<bf16>::new(20, 200, 1024);
    let (bytes, all) = plan(&CLUSTER, &problem, AT);
    assert_eq!((bytes, symbols(&all)), (0, vec!["tma_bf16"]));
    let own = launch(&all, "tma_bf16");
    // Two rows of tiles and four columns; as many blocks as are asked for.
    assert_eq!((own.cluster, own.grid), (RANGES, Grid { x: 2 * 4 * RANGES, y: 1, z: 1 }));
    let Arguments::Tma(mapped) = &own.arguments else { panic!("{own:?}") };
    let [a, b, _] = mapped.maps;
    assert_eq!((a.box_dims, b.box_dims), ([64, 16], [64, 64]));
    let few = Problem { b: Layout::col_major(1024), ..Problem::<bf16>::new(3, 41, 1024) };
    let (_, all) = plan(&CLUSTER, &few, AT);
    let Arguments::Tma(mapped) = &launch(&all, "tma_bf16").arguments else { panic!("{all:?}") };
    assert_eq!(mapped.maps.map(|map| map.box_dims)[..2], [[64, 8], [64, 48]]);
}

#[test]
fn a_plain_kernel_is_one_launch_of_a_block_for_each_tile() {
    let layouts = [Layout::row_major(301), Layout::row_major(502), Layout::row_major(503)];
    let [a, b, c] = layouts;
    let problem = Problem::<f32>::new(200, 500, 300).with_scalars(2.0, 3.0).with_layouts(a, b, c);
    let (bytes, plan) = plan(&GEMM, &problem, AT);
    assert_eq!((bytes, symbols(&plan)), (0, vec!["gemm_f32"]));
    let launch = launch(&plan, "gemm_f32");
    assert_eq!(launch.grid, Grid { x: 8, y: 1, z: 1 });
    assert_eq!((launch.block, launch.cluster), (Block { x: 256, y: 1 }, 1));
    assert_eq!(launch.shared_bytes, 64);
    let Arguments::Gemm(params) = launch.arguments else { panic!("{launch:?}") };
    assert_eq!((params.m, params.n, params.k), (200, 500, 300));
    assert_eq!((params.alpha, params.beta), (2.0, 3.0));
    assert_eq!((params.lda, params.ldb, params.ldc), (301, 502, 503));
    let addresses = [address_of(params.a), address_of(params.b), address_of(params.c)];
    assert_eq!(addresses, [AT.a, AT.b, AT.c]);
}

#[test]
fn an_empty_c_is_no_launch_and_what_is_not_supported_no_plan() {
    for (m, n) in [(0, 5), (5, 0)] {
        for spec in [&GEMM, &SPLIT_K, &LIMBS] {
            let (bytes, plan) = plan(spec, &Problem::<f32>::new(m, n, 64), AT);
            assert_eq!((bytes, plan.steps.len()), (0, 0), "{m} x {n}");
        }
    }
    let problem = Problem::<f64>::new(4, 4, 4);
    let refused = Planner::new(&GEMM, &problem, AT, &LIMITS, Band::whole(4)).err();
    assert_eq!(refused, Some(Unsupported::Types { types: Types::F64 }));
}

#[test]
fn ranges_of_k_are_summed_by_a_second_launch() {
    let problem = Problem::<f32>::new(100, 101, 9000).with_scalars(2.0, 3.0);
    let (bytes, plan) = plan(&SPLIT_K, &problem, AT);
    assert_eq!(symbols(&plan), ["gemm_f32", "sum"]);
    let own = launch(&plan, "gemm_f32");
    let Arguments::Gemm(product) = own.arguments else { panic!("{own:?}") };
    let sum = launch(&plan, "sum");
    let Arguments::SumRanges(added) = sum.arguments else { panic!("{sum:?}") };
    // The ranges' sums are C's of their own, 104 columns apart; alpha and beta come at the end.
    assert_eq!((added.k, own.grid.y), (RANGES, RANGES));
    assert_eq!(bytes, u64::from(added.k) * 100 * 104 * 4);
    assert_eq!((product.alpha, product.beta, product.ldc), (1.0, 0.0, 104));
    assert_eq!((added.alpha, added.beta, added.lda), (2.0, 3.0, 104));
    assert_eq!([address_of(product.c), address_of(added.a)], [WORKSPACE; 2]);
    assert_eq!(address_of(added.c), AT.c);
    // A thread for each four elements.
    assert_eq!(sum.grid.x, (100 * 26_u32).div_ceil(256));
    // Nothing to sum: one launch that reads neither A nor B.
    let (bytes, plan) = self::plan(&SPLIT_K, &Problem { alpha: 0.0, ..problem }, AT);
    assert_eq!((bytes, symbols(&plan)), (0, vec!["gemm_f32"]));
    let Arguments::Gemm(scaled) = launch(&plan, "gemm_f32").arguments else { panic!() };
    assert_eq!((scaled.k, scaled.beta), (0, 3.0));
    // No more ranges than k has, and one where nobody asks for more.
    let (_, short) = self::plan(&SPLIT_K, &Problem { k: 40, ..problem }, AT);
    assert_eq!(launch(&short, "gemm_f32").grid.y, 3);
    let planner = Planner::new(&SPLIT_K, &problem, AT, &LIMITS, Band::whole(100)).unwrap();
    assert_eq!(planner.workspace_bytes(), 0);
}

#[test]
fn what_tma_cannot_address_is_copied_to_the_workspace() {
    let problem = Problem::<bf16>::new(300, 64, 25);
    let (bytes, odd) = plan(&TMA, &problem, AT);
    // Rows of A are 50 bytes long, those of B 128.
    assert_eq!(symbols(&odd), ["pad", "tma_bf16"]);
    assert_eq!(bytes, 300 * 64 * 2);
    let Arguments::Pad(pad) = launch(&odd, "pad").arguments else { panic!() };
    assert_eq!((pad.rows, pad.width, pad.ld, pad.pitch), (300, 25, 25, 64));
    assert_eq!((address_of(pad.from), address_of(pad.to)), (AT.a, WORKSPACE));
    let Arguments::Tma(tma) = &launch(&odd, "tma_bf16").arguments else { panic!() };
    let (params, [a, b, c]) = (tma.params, tma.maps);
    assert_eq!((a.address, a.pitch, a.dims), (WORKSPACE, 128, [25, 300]));
    assert_eq!((b.address, b.pitch, b.dims), (AT.b, 128, [64, 25]));
    assert_eq!((a.box_dims, b.box_dims), ([64, 128], [64, 64]));
    assert!(params.tma_store == 1 && c.address == AT.c);
    // Aligned lines: in place, unless the operand begins between two of TMA's addresses.
    let problem = Problem::<bf16>::new(300, 64, 24);
    let (bytes, even) = plan(&TMA, &problem, AT);
    assert_eq!((bytes, symbols(&even)), (0, vec!["tma_bf16"]));
    let (bytes, shifted) = plan(&TMA, &problem, Addresses { b: AT.b + 2, ..AT });
    assert_eq!(symbols(&shifted), ["pad", "tma_bf16"]);
    assert_eq!(bytes, 24 * 64 * 2);
    let Arguments::Pad(pad) = launch(&shifted, "pad").arguments else { panic!() };
    assert_eq!((address_of(pad.from), pad.second_rows), (AT.b + 2, 0));
    assert_eq!(launch(&shifted, "pad").grid, Grid { x: 1, y: 1, z: 1 });
    // Both are copied in one launch, which has a block for each 64 lines of A, and as many for B.
    let (bytes, both) = plan(&TMA, &Problem::<bf16>::new(300, 63, 25), AT);
    assert_eq!((bytes, symbols(&both)), (300 * 128 + 26 * 128, vec!["pad", "tma_bf16"]));
    let pad = launch(&both, "pad");
    assert_eq!(pad.grid, Grid { x: 5, y: 2, z: 1 });
    let Arguments::Pad(params) = pad.arguments else { panic!() };
    let [first, second] = [false, true].map(|second| params.copy(second));
    assert_eq!((first.rows, first.width, address_of(first.to)), (300, 25, WORKSPACE));
    assert_eq!((second.rows, second.width, second.pitch), (25, 63, 64));
    assert_eq!((address_of(second.from), address_of(second.to)), (AT.b, WORKSPACE + 300 * 128));
}

#[test]
fn threads_store_a_c_that_tma_cannot() {
    let stored = |problem: &Problem<bf16>, at| {
        let (_, plan) = plan(&TMA, problem, at);
        let Arguments::Tma(tma) = &launch(&plan, "tma_bf16").arguments else { panic!() };
        tma.params.tma_store == 1
    };
    let problem = Problem::<bf16>::new(64, 64, 64);
    assert!(stored(&problem, AT));
    assert!(!stored(&Problem { beta: 1.0, ..problem }, AT));
    assert!(!stored(&problem, Addresses { c: AT.c + 2, ..AT }));
    assert!(!stored(&Problem::new(64, 60, 64), AT));
}

/// A C that is read where it is written is given as one apart, to kernels that fuse and whose blocks do not share k.
#[test]
fn a_c_in_place_is_read_like_one_apart() {
    let fuses = KernelSpec { fuses: true, ..TMA };
    let shares_k = KernelSpec { fuses: true, ..CLUSTER };
    let problem = Problem::<bf16>::new(64, 64, 64).with_scalars(1.0, 2.0);
    let problem = Problem { c: Layout::row_major(72), ..problem };
    let read = |spec: &KernelSpec, problem: &Problem<bf16>| {
        let (_, plan) = plan(spec, problem, AT);
        let Arguments::Tma(tma) = &launch(&plan, "tma_bf16").arguments else { panic!() };
        let apart = tma.params.fusion == fusion::APART;
        assert!(apart || tma.params.fusion == 0);
        apart.then(|| (address_of(tma.params.old), tma.params.old_ld))
    };
    assert_eq!(read(&fuses, &problem), Some((AT.c, 72)));
    for spec in [TMA, shares_k] {
        assert_eq!(read(&spec, &problem), None);
    }
    assert_eq!(read(&fuses, &Problem { beta: 0.0, ..problem }), None);
}

#[test]
fn persistent_kernels_have_whole_clusters_and_no_more_than_run_together() {
    let grid = |m, n| launch(&plan(&TMA, &Problem::<bf16>::new(m, n, 64), AT).1, "tma_bf16").grid.x;
    assert_eq!(grid(128, 128), 2);
    assert_eq!(grid(129, 256), 4);
    assert_eq!(grid(8192, 8192), 132);
}

#[test]
fn operands_are_split_multiplied_and_multiplied_again_where_limbs_do_not_hold_them() {
    let problem = Problem::<f32>::new(256, 384, 512);
    let (bytes, whole) = plan(&LIMBS, &problem, AT);
    let layout = Workspace::new(Limbs::TwoF16, 256, 384, 512);
    assert_eq!(bytes, layout.bytes);
    let row_major = ["fill", "k_major", "row_amax", "mn_major", "probe", "gemm_f32", "fallback"];
    assert_eq!(symbols(&whole), row_major);
    let Step::Fill { address, bytes, value } = whole.steps[0] else { panic!() };
    assert_eq!((address, bytes, value), (WORKSPACE + layout.zeroed, layout.zeroed_bytes, 0));
    let Arguments::Limbs(limbs) = launch(&whole, "gemm_f32").arguments else { panic!() };
    let Arguments::Fallback(fallback) = launch(&whole, "fallback").arguments else { panic!() };
    // One of them does something: which, the same flags say.
    assert_eq!((limbs.flags, limbs.unless), (fallback.flags, fallback.when));
    assert_eq!(limbs.unless, FALL_BACK);
    assert_eq!(address_of(limbs.flags), WORKSPACE + layout.zeroed);
    assert_eq!(launch(&whole, "fallback").grid.x, 2 * 132);
    let flags = Planner::range_flags(&LIMBS, &problem, Band::whole(256));
    assert_eq!(flags, Some(layout.zeroed));

    let transposed =
        problem.with_layouts(Layout::col_major(256), Layout::col_major(512), problem.c);
    let column_major = ["fill", "row_amax", "mn_major", "k_major", "probe", "gemm_f32", "fallback"];
    assert_eq!(symbols(&plan(&LIMBS, &transposed, AT).1), column_major);

    // With nothing to sum the flags are all set, and nobody reads A or B.
    let (_, nothing) = plan(&LIMBS, &Problem { alpha: 0.0, ..problem }, AT);
    assert_eq!(symbols(&nothing), ["fill", "fallback"]);
    // The fallback scales sums of nothing by exponents that are there.
    let end = layout.zeroed + layout.zeroed_bytes;
    let (address, bytes) = (WORKSPACE + layout.a_exponents, end - layout.a_exponents);
    let Step::Fill { address: filled, bytes: of_it, value } = nothing.steps[0] else { panic!() };
    assert_eq!((filled, of_it, value), (address, bytes, 0xff));
    let Arguments::Fallback(fallback) = launch(&nothing, "fallback").arguments else { panic!() };
    assert_eq!((fallback.k, address_of(fallback.a_exponents)), (0, address));
    assert_eq!(
        Planner::range_flags(&LIMBS, &Problem { alpha: 0.0, ..problem }, Band::whole(256)),
        None
    );
}

#[test]
fn ranges_of_k_of_limbs_are_summed_unless_the_fallback_multiplies() {
    let problem = Problem::<f32>::new(256, 384, 512).with_scalars(3.0, 2.0);
    let (bytes, plan) = plan(&LIMBS_OF_RANGES, &problem, AT);
    let layout = Workspace::new(Limbs::TwoF16, 256, 384, 512);
    let ranges = split_k::possible_parts((256, 384, 512), RANGES, 32);
    assert!(ranges > 1);
    assert_eq!(bytes, layout.bytes + split_k::bytes(256, 384, ranges));
    assert_eq!(symbols(&plan), ["fill", "k_major", "mn_major", "gemm_f32", "sum", "fallback"]);
    let product = launch(&plan, "gemm_f32");
    assert_eq!(product.grid.y, ranges);
    let Arguments::Limbs(product) = product.arguments else { panic!() };
    let Arguments::Limbs(sum) = launch(&plan, "sum").arguments else { panic!() };
    assert_eq!((product.alpha, product.beta), (1.0, 0.0));
    assert_eq!((sum.alpha, sum.beta, sum.k), (3.0, 2.0, ranges));
    assert_eq!(address_of(product.c), WORKSPACE + layout.bytes);
    assert_eq!(product.c.cast_const().cast::<u8>(), sum.a_limbs);
    assert_eq!((address_of(sum.c), sum.ldc), (AT.c, problem.c.ld as u64));
    // C is as it was where the fallback multiplies.
    assert_eq!((sum.flags, sum.unless), (product.flags, product.unless));
}

#[test]
fn rows_that_splitting_does_not_scale_get_exponents_where_the_flags_ask_for_them() {
    let problem = Problem::<f32>::new(256, 384, 512);
    let layout = Workspace::new(Limbs::ThreeBf16, 256, 384, 512);
    let (_, whole) = plan(&UNSCALED_LIMBS, &problem, AT);
    let names = ["fill", "k_major", "mn_major", "gemm_f32", "exponents", "exponents", "fallback"];
    assert_eq!(symbols(&whole), names);
    let Arguments::Fallback(fallback) = launch(&whole, "fallback").arguments else { panic!() };
    let of = |plan: &LaunchPlan<f32>| {
        let of = plan.steps.iter().filter_map(|step| match step {
            Step::Launch(Launch { arguments: Arguments::RowExponents(params), grid, .. }) => {
                Some((*params, *grid))
            }
            Step::Fill { .. } | Step::Copy { .. } | Step::Launch(_) => None,
        });
        of.collect::<Vec<_>>()
    };
    let [(a, of_a), (b, of_b)] = of(&whole)[..] else { panic!() };
    assert_eq!((of_a.x, of_b.x), (256 / 32, 384 / 32));
    assert_eq!((a.rows, a.k, a.row, a.step, address_of(a.from)), (256, 512, 512, 1, AT.a));
    assert_eq!((b.rows, b.k, b.row, b.step, address_of(b.from)), (384, 512, 1, 384, AT.b));
    assert_eq!((a.when, b.when), (FALL_BACK, FALL_BACK));
    assert_eq!(a.exponents.cast_const(), fallback.a_exponents);
    assert_eq!(b.exponents.cast_const(), fallback.b_exponents);
    assert_eq!(address_of(a.exponents), WORKSPACE + layout.a_exponents);

    // Those of a factor that is kept are kept with it.
    let planner =
        || Planner::new(&UNSCALED_LIMBS, &problem, AT, &LIMITS, Band::whole(256)).unwrap();
    let address = 0x800_0000;
    let keep = planner().keep(Operand::B, address);
    assert_eq!(symbols(&keep), ["fill", "mn_major", "exponents"]);
    let [(kept, _)] = of(&keep)[..] else { panic!() };
    assert_eq!((kept.rows, kept.when), (384, 0));
    let plan = planner().with_kept(Kept { factor: Operand::B, address }).plan(WORKSPACE).unwrap();
    let [(a, _)] = of(&plan)[..] else { panic!() };
    assert_eq!((a.rows, a.when), (256, FALL_BACK));
    let Arguments::Fallback(fallback) = launch(&plan, "fallback").arguments else { panic!() };
    assert_eq!(kept.exponents.cast_const(), fallback.b_exponents);
}

/// A band's ranges are those of the whole product, however few rows it has.
#[test]
fn a_band_has_the_ranges_of_the_whole_product() {
    // 128 MiB hold fewer matrices of all rows than are asked for.
    let (all, n) = (4096, 4096);
    let ranges = |rows, band| {
        let problem = Problem::<f32>::new(rows, n, 512);
        let planner = Planner::new(&LIMBS_OF_RANGES, &problem, AT, &LIMITS, band).unwrap();
        launch(&planner.with_ranges(4).plan(WORKSPACE).unwrap(), "gemm_f32").grid.y
    };
    let whole = ranges(all, Band::whole(all));
    assert_eq!(whole, 2);
    assert_eq!(ranges(256, Band { tallest: 256, all, first: 512 }), whole);
    assert_eq!(ranges(256, Band::whole(256)), 4);
}

#[test]
fn launches_overlap_where_their_entries_wait_and_short_products_fill_the_sms() {
    fn all_are<T: GemmTypes>(spec: &KernelSpec, sizes: [usize; 3]) -> bool {
        let [m, n, k] = sizes;
        let (_, plan) = plan(spec, &Problem::<T>::new(m, n, k), AT);
        let launches = plan.steps.iter().filter_map(|step| match step {
            Step::Launch(launch) => Some(launch.overlaps),
            Step::Fill { .. } | Step::Copy { .. } => None,
        });
        let found: Vec<bool> = launches.collect();
        assert!(found.windows(2).all(|two| two[0] == two[1]), "{found:?}");
        found[0]
    }
    assert!(all_are::<f32>(&LIMBS, [1024; 3]));
    assert!(all_are::<bf16>(&TMA, [2048; 3]));
    assert!(!all_are::<bf16>(&TMA, [4096; 3]));
    // Blocks for 80 and for 128 of the 132 SMs, and for few where the operands are small.
    assert!(!all_are::<bf16>(&TMA, [64, 5120, 5120]));
    assert!(all_are::<bf16>(&TMA, [64, 8192, 5120]));
    assert!(all_are::<bf16>(&TMA, [64, 1024, 1024]));
    assert!(!all_are::<f32>(&SPLIT_K, [64; 3]));
}

#[test]
fn later_bands_keep_the_limbs_of_b_and_the_flags() {
    let problem = Problem::<f32>::new(128, 384, 512);
    let band = Band { tallest: 256, all: 384, first: 256 };
    let planner = Planner::new(&LIMBS, &problem, AT, &LIMITS, band).unwrap();
    let layout = Workspace::new(Limbs::TwoF16, 256, 384, 512);
    assert_eq!(planner.workspace_bytes(), layout.bytes);
    let plan = planner.plan(WORKSPACE).unwrap();
    assert_eq!(symbols(&plan), ["fill", "k_major", "probe", "gemm_f32", "fallback"]);
    let Step::Fill { address, bytes, .. } = plan.steps[0] else { panic!() };
    let (from, to) = (layout.a_row_amax(), layout.b_row_amax(256));
    assert_eq!((address, bytes), (WORKSPACE + from, to - from));
    assert!(from > layout.zeroed, "the flags come first");
    let Arguments::Probe(probe) = launch(&plan, "probe").arguments else { panic!() };
    assert_eq!((probe.rows, probe.first, probe.m), (384, 256, 128));
}

#[test]
fn a_kept_factor_is_split_once_and_its_flags_are_where_the_product_s_begin() {
    let problem = Problem::<f32>::new(256, 384, 512);
    let planner = || Planner::new(&LIMBS, &problem, AT, &LIMITS, Band::whole(256)).unwrap();
    let address = 0x800_0000;
    for (factor, rows, [limbs_of, other]) in
        [(Operand::A, 256, ["k_major", "mn_major"]), (Operand::B, 384, ["mn_major", "k_major"])]
    {
        let of = Workspace::new(Limbs::TwoF16, rows, 0, 512);
        assert_eq!(planner().kept_bytes(factor), Some(of.bytes));
        let keep = planner().keep(factor, address);
        assert_eq!(symbols(&keep)[0], "fill");
        assert_eq!(symbols(&keep).last(), Some(&limbs_of));
        let Step::Fill { address: flags, bytes, value } = keep.steps[0] else { panic!() };
        assert_eq!((flags, bytes, value), (address + of.zeroed, of.zeroed_bytes, 0));

        let kept = planner().with_kept(Kept { factor, address });
        let layout = match factor {
            Operand::A => Workspace::new(Limbs::TwoF16, 0, 384, 512),
            Operand::B | Operand::C => Workspace::new(Limbs::TwoF16, 256, 0, 512),
        };
        assert_eq!(kept.workspace_bytes(), layout.bytes);
        let plan = kept.plan(WORKSPACE).unwrap();
        let names = symbols(&plan);
        assert!(!names.contains(&limbs_of) && names.contains(&other), "{names:?}");
        let Step::Copy { from, to, bytes } = plan.steps[0] else { panic!("{names:?}") };
        assert_eq!((from, to), (flags, WORKSPACE + layout.zeroed));
        let Step::Fill { address: cleared, bytes: rest, value: 0 } = plan.steps[1] else {
            panic!("{names:?}")
        };
        assert_eq!(cleared, to + bytes);
        assert_eq!(bytes + rest, layout.zeroed_bytes);
        let Arguments::Limbs(product) = launch(&plan, "gemm_f32").arguments else { panic!() };
        let addresses = [address_of(product.a_limbs), address_of(product.b_limbs)];
        let expected = match factor {
            Operand::A => [address, WORKSPACE + layout.b],
            Operand::B | Operand::C => [WORKSPACE + layout.a, address],
        };
        assert_eq!(addresses, expected);
        let exponents = [address_of(product.a_exponents), address_of(product.b_exponents)];
        assert_eq!(exponents[usize::from(factor == Operand::B)], address + of.a_exponents);
        // The factor itself is there for what its limbs cannot hold.
        let Arguments::Fallback(fallback) = launch(&plan, "fallback").arguments else { panic!() };
        assert_eq!([address_of(fallback.a), address_of(fallback.b)], [AT.a, AT.b]);
    }
    assert_eq!(
        Planner::new(&GEMM, &problem, AT, &LIMITS, Band::whole(256))
            .unwrap()
            .kept_bytes(Operand::A),
        None
    );
}

/// Four panels: A is split for each panel of columns, B once, and the flags are cleared once.
#[test]
fn limbs_that_have_no_room_are_made_panel_by_panel() {
    let (m, n, k) = (4000, 8000, 512);
    let problem = Problem::<f32>::new(m, n, k);
    let planner = || Planner::new(&LIMBS, &problem, AT, &LIMITS, Band::whole(m)).unwrap();
    let whole = Workspace::new(Limbs::TwoF16, 4000, 8000, 512);
    assert_eq!(planner().workspace_bytes(), whole.bytes);
    assert_eq!(planner().with_most_workspace(whole.bytes).workspace_bytes(), whole.bytes);
    // What is too little for any panel is what the least takes.
    let least = Workspace::new(Limbs::TwoF16, 2048, 4096, 512);
    assert_eq!(planner().with_most_workspace(1).workspace_bytes(), least.bytes);

    let planner = planner().with_most_workspace(least.bytes);
    let plan = planner.plan(WORKSPACE).unwrap();
    let of_b = ["row_amax", "mn_major"];
    let panel = |with_b: bool| {
        let of_b: &[_] = if with_b { &of_b } else { &[] };
        [&["fill", "k_major"], of_b, &["probe", "gemm_f32", "fallback"]].concat()
    };
    let all = [panel(true), panel(false), panel(true), panel(false)].concat();
    assert_eq!(symbols(&plan), all);
    let fills = plan.steps.iter().filter_map(|step| match step {
        &Step::Fill { address, bytes, value } => Some((address - WORKSPACE, bytes, value)),
        Step::Copy { .. } | Step::Launch(_) => None,
    });
    let end = least.zeroed + least.zeroed_bytes;
    let (of_a, of_b) = (least.a_row_amax(), least.b_row_amax(2048));
    let expected = [
        (least.zeroed, end - least.zeroed, 0),
        (of_a, of_b - of_a, 0),
        (of_a, end - of_a, 0),
        (of_a, of_b - of_a, 0),
    ];
    assert_eq!(fills.collect::<Vec<_>>(), expected);
    let products = plan.steps.iter().filter_map(|step| match step {
        Step::Launch(Launch { arguments: Arguments::Fallback(params), .. }) => {
            let at = [address_of(params.a), address_of(params.b), address_of(params.c)];
            Some((params.m, params.n, at))
        }
        Step::Fill { .. } | Step::Copy { .. } | Step::Launch(_) => None,
    });
    let at = |row: u64, column: u64| {
        let row_of_c = AT.c + row * 8000 * 4;
        [AT.a + row * 512 * 4, AT.b + column * 4, row_of_c + column * 4]
    };
    let expected = [
        (2048, 4096, at(0, 0)),
        (1952, 4096, at(2048, 0)),
        (2048, 3904, at(0, 4096)),
        (1952, 3904, at(2048, 4096)),
    ];
    assert_eq!(products.collect::<Vec<_>>(), expected);

    // With B kept it is A alone that has no room.
    let kept = Kept { factor: Operand::B, address: 0x800_0000 };
    let kept = planner.with_kept(kept).with_most_workspace(least.bytes / 4);
    let plan = kept.plan(WORKSPACE).unwrap();
    let names = symbols(&plan);
    assert_eq!(names.iter().filter(|&&name| name == "copy").count(), 1);
    assert_eq!(names.iter().filter(|&&name| name == "gemm_f32").count(), 2);
}

/// All bits of the flags are set, whatever those of the factor are.
#[test]
fn with_nothing_to_sum_what_is_kept_is_not_read() {
    let problem = Problem::<f32>::new(256, 384, 512).with_scalars(0.0, 1.0);
    let planner = Planner::new(&LIMBS, &problem, AT, &LIMITS, Band::whole(256)).unwrap();
    assert_eq!(symbols(&planner.keep(Operand::B, 0)), ["fill", "row_amax", "mn_major"]);
    let plan = planner.with_kept(Kept { factor: Operand::B, address: 0 }).plan(WORKSPACE).unwrap();
    assert_eq!(symbols(&plan), ["fill", "fallback"]);
}

#[test]
fn the_products_of_a_batch_are_planned_one_after_the_other() {
    let batch = Batch { count: 3, a_stride: 300, b_stride: 0, c_stride: 1000 };
    let problem = Problem::<f32>::new(10, 20, 30).with_batch(batch);
    let (bytes, all) = plan(&GEMM, &problem, AT);
    assert_eq!((bytes, symbols(&all)), (0, vec!["gemm_f32"; 3]));
    for (at, step) in (0..).zip(&all.steps) {
        let Step::Launch(Launch { arguments: Arguments::Gemm(params), .. }) = step else {
            panic!()
        };
        let addresses = [address_of(params.a), address_of(params.b), address_of(params.c)];
        let expected = [AT.a + at * 1200, AT.b, AT.c + at * 4000];
        assert_eq!(addresses, expected);
    }
    // An odd stride: every second B begins where TMA cannot address it.
    let batch = Batch { count: 4, a_stride: 0, b_stride: 64 * 24 + 4, c_stride: 64 * 64 };
    let problem = Problem::<bf16>::new(64, 64, 24).with_batch(batch);
    let (bytes, all) = plan(&TMA, &problem, AT);
    assert_eq!(symbols(&all), ["tma_bf16", "pad", "tma_bf16", "tma_bf16", "pad", "tma_bf16"]);
    assert_eq!(bytes, 24 * 64 * 2);
    let none = problem.with_batch(Batch { count: 0, ..batch });
    assert_eq!(symbols(&plan(&TMA, &none, AT).1), Vec::<&str>::new());
    let refused = TMA.supports(&problem, &LIMITS);
    assert_eq!(refused, Err(Unsupported::Batch { count: 4 }));
}

#[test]
fn maps_of_rank_3_take_all_products_in_one_launch() {
    let spec = KernelSpec {
        operands: OperandAccess::TensorMaps { any_order: true, cluster: 1, batched: true },
        ..TMA
    };
    let batch = Batch { count: 300, a_stride: 64 * 24, b_stride: 0, c_stride: 64 * 80 + 8 };
    let problem = Problem::<bf16>::new(64, 80, 24).with_batch(batch);
    let (bytes, all) = plan(&spec, &problem, AT);
    assert_eq!((bytes, symbols(&all)), (0, vec!["tma_bf16"]));
    let own = launch(&all, "tma_bf16");
    assert_eq!(own.grid, Grid { x: LIMITS.multiprocessors, y: 1, z: 1 });
    let Arguments::Tma(tma) = &own.arguments else { panic!("{own:?}") };
    let TmaParams { products, a_step, b_step, c_stride, tma_store, .. } = tma.params;
    assert_eq!((products, a_step, b_step, c_stride, tma_store), (300, 1, 0, 64 * 80 + 8, 1));
    let matrices = tma.maps.map(|map| map.matrices.map(|of| (of.count, of.stride)));
    let stride_of_c = (64 * 80 + 8) * 2;
    assert_eq!(matrices, [Some((300, 64 * 24 * 2)), Some((1, 16)), Some((300, stride_of_c))]);

    // An odd stride: every second B begins where TMA cannot address it, so all of them are copied.
    let batch = Batch { b_stride: 80 * 24 + 4, c_stride: 64 * 80 + 4, ..batch };
    let (bytes, all) = plan(&spec, &problem.with_batch(batch), AT);
    assert_eq!((bytes, symbols(&all)), (300 * 24 * 128 * 2, vec!["pad", "tma_bf16"]));
    let Arguments::Pad(pad) = launch(&all, "pad").arguments else { panic!() };
    assert_eq!((pad.rows, pad.each, pad.stride), (300 * 24, 24, 80 * 24 + 4));
    let Arguments::Tma(tma) = &launch(&all, "tma_bf16").arguments else { panic!() };
    assert_eq!((tma.params.b_step, tma.params.tma_store), (1, 0));
    assert_eq!(tma.maps[1].matrices.unwrap().stride, 24 * 128 * 2);

    let none = problem.with_batch(Batch { count: 0, ..batch });
    assert_eq!(symbols(&plan(&spec, &none, AT).1), Vec::<&str>::new());
    let many = problem.with_batch(Batch { count: 1 << 31, ..batch });
    let planner = Planner::new(&spec, &many, AT, &LIMITS, Band::whole(64)).unwrap();
    assert!(matches!(planner.plan(WORKSPACE), Err(Unsupported::TooLarge { .. })));
}

#[test]
fn a_kernel_for_batches_takes_all_products_in_one_launch() {
    let batch = Batch { count: 10_000, a_stride: 256, b_stride: 0, c_stride: 300 };
    let problem = Problem::<f32>::new(16, 16, 16).with_batch(batch).with_layouts(
        Layout::row_major(16),
        Layout::col_major(20),
        Layout::row_major(16),
    );
    let (bytes, all) = plan(&BATCHED, &problem, AT);
    assert_eq!((bytes, symbols(&all)), (0, vec!["gemm_f32"]));
    let own = launch(&all, "gemm_f32");
    let Arguments::Batched(params) = own.arguments else { panic!("{own:?}") };
    assert_eq!((params.count, params.orders, params.ldb), (10_000, B_COL_MAJOR, 20));
    assert_eq!((params.a_stride, params.b_stride, params.c_stride), (256, 0, 300));
    assert!(params.tiles * params.group >= 10_000 && own.grid.x <= params.tiles);
    // No more blocks than are resident, and no more shared memory than the specification says.
    assert!(own.grid.x <= 4 * LIMITS.multiprocessors);
    assert!(own.shared_bytes <= BATCHED.shared_bytes(Types::F32));
    let scaled = Problem { alpha: 0.0, ..problem };
    let Arguments::Batched(params) = launch(&plan(&BATCHED, &scaled, AT).1, "gemm_f32").arguments
    else {
        panic!()
    };
    assert_eq!(params.k, 0, "nothing is read");
    let none = problem.with_batch(Batch { count: 0, ..batch });
    assert_eq!(symbols(&plan(&BATCHED, &none, AT).1), Vec::<&str>::new());
}
