//! The kernels: each entry on the emulator, and on the first GPU where there is one.
//!
//! Every test is made once for each entry of the registry and each backend, so a new kernel is tested
//! without a line here. On a machine without a GPU the GPU's tests are counted as ignored; where
//! `GEMM_REQUIRE_GPU=1` is set they fail instead.
//!
//! What takes longest on the emulator is ignored, too, and run by `cargo xtask emulator-suites`: all cases of the
//! entries of which a [`Part`] is run here, and the planted defects.

#![expect(clippy::print_stdout, reason = "it says what was not tested, and what a soak ran")]

#[path = "kernels/batches.rs"]
mod batches;
#[path = "kernels/corners.rs"]
mod corners;
#[path = "kernels/digests.rs"]
mod digests;
#[path = "kernels/epilogues.rs"]
mod epilogues;
#[path = "kernels/events.rs"]
mod events;
#[path = "kernels/groups.rs"]
mod groups;
#[path = "kernels/host_path.rs"]
mod host_path;
#[path = "kernels/kept.rs"]
mod kept;
#[path = "kernels/orders.rs"]
mod orders;
#[path = "kernels/planted.rs"]
mod planted;
#[path = "kernels/soak.rs"]
mod soak;
#[path = "kernels/split.rs"]
mod split;
mod support;

use std::alloc::{self, Layout as AllocLayout};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use digests::{Comparison, Digests, REMEDY, SelfTest, digest, digested_cases, ensure};
use gemm_spec::{Arch, BatchShare, Element, LaunchShape, Layout, Operand, OperandAccess};
use kernels_gpu::{KERNELS, Kernel};
use lab::cpu::CPU;
use lab::gpu::Gpu;
use lab::verify::{Checker, Guarded, Method};
use lab::{Error, Problem, Scalar, ScalarTypes, Types, emulate, with_gemm_types};
use libtest_mimic::{Arguments, Failed, Trial};
use support::{Case, Operands, cases, first_difference, report};

/// Where a kernel runs.
#[derive(Clone, Copy, PartialEq)]
enum Backend {
    Emulator,
    Gpu,
}

impl Backend {
    fn name(self) -> &'static str {
        match self {
            Self::Emulator => "emulator",
            Self::Gpu => "cuda",
        }
    }

    /// Runs a kernel on a C that stands between guard words, which travel to the device and back.
    fn run<T: ScalarTypes>(
        self,
        spec: Kernel,
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        c: &mut Guarded<T>,
    ) -> Result<(), String> {
        match self {
            Self::Emulator => emulate::run(spec, problem, a, b, c.as_mut_slice()),
            Self::Gpu => with_gpu(|gpu| {
                let mut output = gpu.output(c.full(), c.guard_len())?;
                gpu.upload(problem, a, b)?.run(spec, &mut output)?;
                output.download(c.full_mut())
            }),
        }
        .map_err(|error| error.to_string())
    }
}

/// How many of a property's cases are run.
#[derive(Clone, Copy, PartialEq)]
enum Extent {
    All,
    /// Cases that still have every shape, every remainder and every order.
    Part,
}

impl Extent {
    /// What an entry is given. Those of a kernel for Hopper are one source that differs by the sizes of elements alone:
    /// of two entries with factors of the same size the second has other conversions, another `wgmma` or another C,
    /// which every case reaches, and the same indices and barriers up to the epilogue, of which a part has every edge.
    /// On the emulator such a kernel takes more time than others.
    fn of<T: ScalarTypes>(backend: Backend, spec: Kernel) -> Self {
        let sizes = |types: Types| [Operand::A, Operand::B].map(|operand| types.of(operand).size());
        let of_same_sizes = spec.entries.iter().find(|entry| sizes(entry.types) == sizes(T::TYPES));
        let is_first = of_same_sizes.is_none_or(|entry| entry.types == T::TYPES);
        let takes_time = backend == Backend::Emulator && spec.arch == Arch::Sm90a;
        if takes_time && !is_first { Self::Part } else { Self::All }
    }

    /// Whether case `number` is run, where a part is one of `parts`.
    fn has(self, number: usize, parts: usize) -> bool {
        self == Self::All || number.is_multiple_of(parts)
    }
}

/// Runs something on the first GPU, which each test thread opens once.
fn with_gpu<R>(run: impl FnOnce(&Gpu) -> Result<R, Error>) -> Result<R, Error> {
    thread_local! {
        static GPU: OnceCell<Gpu> = const { OnceCell::new() };
    }
    GPU.with(|cell| match cell.get() {
        Some(gpu) => run(gpu),
        None => run(cell.get_or_init({
            let gpu = Gpu::open(0)?;
            || gpu
        })),
    })
}

/// Whether a kernel can do a case there; a single block has a limit.
fn can<T: ScalarTypes>(backend: Backend, spec: Kernel, case: &Case) -> Result<bool, String> {
    let problem = case.problem::<T>();
    match backend {
        Backend::Emulator => Ok(spec.supports(&problem, &emulate::LIMITS).is_ok()),
        Backend::Gpu => with_gpu(|gpu| Ok(spec.supports(&problem, gpu.limits()).is_ok()))
            .map_err(|error| error.to_string()),
    }
}

/// Whether tests must not pass without having run what they are for.
fn required() -> bool {
    std::env::var("GEMM_REQUIRE_GPU").is_ok_and(|value| value == "1")
}

/// The outcome of a test that cannot do what it is for: a notice, or a failure where a GPU is required.
fn skipped(reason: &str) -> Result<(), String> {
    if required() {
        return Err(format!("{reason}, and GEMM_REQUIRE_GPU=1"));
    }
    println!("SKIPPED: {reason}");
    Ok(())
}

/// Every property finds at least that many of its cases to be within a kernel's limits.
const LEAST_CASES: usize = 5;

/// Refuses a test that has tried next to nothing.
fn enough(tried: usize) -> Result<(), String> {
    if tried < LEAST_CASES {
        return Err(format!("only {tried} cases could be tried, of at least {LEAST_CASES}"));
    }
    Ok(())
}

/// What results of a kernel are held to: serial's bits where the kernel promises them, else the error bound of its
/// type.
enum Standard<'a, T: ScalarTypes> {
    Serial(&'a Operands<T>, Vec<T::C>),
    Bound(Box<Checker<'a, T>>),
}

impl<'a, T: ScalarTypes> Standard<'a, T> {
    fn new(spec: Kernel, operands: &'a Operands<T>) -> Result<Self, String> {
        let Operands { problem, a, b, c } = operands;
        if spec.is_chain() {
            return Ok(Self::Serial(operands, expected(operands)?));
        }
        let checker = Checker::new(problem, a, b, c, Method::Full, 1).map_err(|e| e.to_string())?;
        Ok(Self::Bound(Box::new(checker)))
    }

    fn holds(&self, found: &[T::C]) -> Result<(), String> {
        match self {
            Self::Serial(operands, expected) => {
                first_difference(&operands.problem, found, expected).map_or(Ok(()), Err)
            }
            Self::Bound(checker) => {
                let verdict = checker.check(found);
                if verdict.ok { Ok(()) } else { Err(verdict.to_string()) }
            }
        }
    }
}

/// Edge of the kernel's tile, for the table of shapes.
fn tile(spec: Kernel) -> usize {
    spec.launch.tile().map_or(8, |tile| tile.m as usize)
}

/// What serial computes.
fn expected<T: ScalarTypes>(operands: &Operands<T>) -> Result<Vec<T::C>, String> {
    let context = lab::cpu::context(None).map_err(|error| error.to_string())?;
    operands.run(|problem, a, b, c| {
        CPU[0].gemm::<T>(problem, a, b, c.as_mut_slice(), &context).expect("the buffers fit");
        Ok(())
    })
}

/// Compares a kernel with serial on these cases.
fn compare<T: ScalarTypes>(
    backend: Backend,
    spec: Kernel,
    cases: impl IntoIterator<Item = Case>,
) -> Result<(), Failed> {
    let mut failures = Vec::new();
    let mut tried = 0;
    for case in cases {
        if !can::<T>(backend, spec, &case)? {
            continue;
        }
        tried += 1;
        let operands = Operands::<T>::draw(&case);
        let outcome = operands
            .run(|problem, a, b, c| backend.run(spec, problem, a, b, c))
            .and_then(|found| Standard::new(spec, &operands)?.holds(&found));
        if let Err(what) = outcome {
            failures.push(format!("--kernel {} --dtype {} {case}: {what}", spec.id, T::TYPES));
        }
    }
    failures.extend(enough(tried).err());
    report(failures).map_err(Failed::from)
}

/// Ragged shapes, all scalars, padded rows, NaN in everything that must not be read. A part has each shape once, each
/// scalar and each padding.
fn agrees_with_serial<T: ScalarTypes>(
    backend: Backend,
    spec: Kernel,
    extent: Extent,
) -> Result<(), Failed> {
    let cases = cases(tile(spec)).into_iter().enumerate();
    compare::<T>(
        backend,
        spec,
        cases.filter(|(number, _)| extent.has(*number, 2)).map(|(_, case)| case),
    )
}

/// Every size from 1 to 70: of the chart's own 262 sizes only 65 are multiples of 32. A part is every ninth, which has
/// all remainders of the eight elements that copies move at once.
fn every_small_size<T: ScalarTypes>(
    backend: Backend,
    spec: Kernel,
    extent: Extent,
) -> Result<(), Failed> {
    let sizes = (1..=70).filter(|n| extent.has(n - 1, 9));
    compare::<T>(backend, spec, sizes.map(|n| Case::new(n, n, n)))
}

/// Just beyond a tile and within, along both of its sides, with rows that suit copies of 16 bytes and
/// with rows and operands that do not. A part has each shape once, and each of the paddings.
fn keeps_to_the_edges_of_its_tile<T: ScalarTypes>(
    backend: Backend,
    spec: Kernel,
    extent: Extent,
) -> Result<(), Failed> {
    let (tile_m, tile_n) =
        spec.launch.tile().map_or((4, 4), |tile| (tile.m as usize, tile.n as usize));
    let mut failures = Vec::new();
    let mut tried = 0;
    let shapes = [
        (tile_m, tile_n),
        (tile_m + 3, tile_n + 4),
        (2 * tile_m + 1, tile_n + 3),
        (tile_m - 1, tile_n + 4),
        (tile_m + 1, tile_n.saturating_sub(4).max(1)),
    ];
    for (number, (m, n)) in shapes.into_iter().enumerate() {
        let paddings = [(8, [0; 3]), (47, [4, 4, 4]), (41, [1, 1, 1]), (70, [0, 0, 2])];
        for (other, (k, padding)) in paddings.into_iter().enumerate() {
            if !extent.has(number + paddings.len() - other, paddings.len()) {
                continue;
            }
            let case = Case { padding, alpha: 0.75, beta: -1.5, ..Case::new(m, n, k) };
            if !can::<T>(backend, spec, &case)? {
                continue;
            }
            tried += 1;
            let operands = Operands::<T>::draw(&case);
            let standard = Standard::new(spec, &operands)?;
            // Operands from the start of their memory, and from its second element on.
            for shift in [0, 1] {
                let (a, b) = (shifted(&operands.a, shift), shifted(&operands.b, shift));
                let outcome = operands
                    .run(|problem, _, _, c| backend.run(spec, problem, &a[shift..], &b[shift..], c))
                    .and_then(|found| standard.holds(&found));
                if let Err(what) = outcome {
                    let id = spec.id;
                    failures.push(format!("--kernel {id} {case}, shifted by {shift}: {what}"));
                }
            }
        }
    }
    failures.extend(enough(tried).err());
    report(failures).map_err(Failed::from)
}

/// The elements behind a number of others.
fn shifted<T: Scalar>(data: &[T], by: usize) -> Vec<T> {
    [vec![T::POISON; by], data.to_vec()].concat()
}

/// Exact integers: any order of the sum gives the same, and nothing is hidden by a tolerance.
fn is_exact_on_integers<T: ScalarTypes>(
    backend: Backend,
    spec: Kernel,
    _: Extent,
) -> Result<(), Failed> {
    let side = if can::<T>(backend, spec, &Case::new(67, 41, 130))? { 67 } else { 31 };
    let case = Case {
        distribution: lab::fill::Distribution::Position,
        ..Case::new(side, 33.min(side), 130)
    };
    let operands = Operands::<T>::draw(&case);
    let found = operands.run(|problem, a, b, c| backend.run(spec, problem, a, b, c))?;
    let Operands { problem, a, b, c } = &operands;
    let checker = Checker::new(problem, a, b, c, Method::Full, 1).map_err(|e| e.to_string())?;
    let verdict = checker.check(&found);
    if verdict.bound != 0.0 {
        return Err("the check was not exact".into());
    }
    if verdict.ok { Ok(()) } else { Err(verdict.to_string().into()) }
}

/// A matrix that tells every element from every other.
fn numbered<T: Scalar>(rows: usize, cols: usize) -> Vec<T> {
    let number = |i: usize| T::from_f64((10 * (i / cols) + i % cols + 1) as f64);
    (0..rows * cols).map(number).collect()
}

/// Zeros of which the system holds no memory before they are touched, also of types for which `vec!` writes each.
fn zeroed<T: Scalar>(len: usize) -> Vec<T> {
    let layout = AllocLayout::array::<T>(len).expect("a buffer that can be addressed");
    assert!(layout.size() > 0 && T::ZERO.to_f64().to_bits() == 0);
    // SAFETY: the layout has a size of at least one byte.
    let start = unsafe { alloc::alloc_zeroed(layout) }.cast::<T>();
    if start.is_null() {
        alloc::handle_alloc_error(layout);
    }
    // SAFETY: allocated just now with the layout of that many elements, all of them initialised: an element is a plain
    // number, whose zero has no bits set.
    unsafe { Vec::from_raw_parts(start, len, len) }
}

/// Rows of a matrix so far apart, in a buffer of that many elements.
fn spread<T: Scalar>(from: &[T], cols: usize, apart: usize, len: usize) -> Vec<T> {
    let mut big = zeroed(len);
    for (row, line) in from.chunks_exact(cols).enumerate() {
        big[row * apart..][..cols].copy_from_slice(line);
    }
    big
}

/// n * n wraps in 32 bits from n = 46341 on. With rows this far apart the third row of A, B or C lies
/// beyond 2^31 elements. Most of the buffer is never touched: on the host it costs no memory.
fn indices_above_two_to_the_31st<T: ScalarTypes>(
    backend: Backend,
    spec: Kernel,
    _: Extent,
) -> Result<(), Failed> {
    const SIDE: usize = 3;
    // As few steps as the kernel takes.
    let k = SIDE.max(spec.least_k());
    /// From one row to the next, so that the last of `rows` lies beyond 2^31 elements; where rows can
    /// begin at multiples of 16 bytes they do, as copies in bulk need it.
    const fn apart(rows: usize) -> usize {
        (1usize << 31).div_ceil(rows - 1) + 8
    }
    let (far, far_b) = (apart(SIDE), apart(k));
    let len = ((SIDE - 1) * far + k).max((k - 1) * far_b + SIDE);
    let needed = len * T::TYPES.max_size();
    // Buffers this large travel whole to a GPU: one at a time.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if backend == Backend::Gpu {
        let free = with_gpu(|gpu| Ok(gpu.free_memory()?)).map_err(|error| error.to_string())?;
        if free < needed as u64 + (1 << 30) {
            let reason = format!("{free} bytes of device memory are free, {needed} are needed");
            return skipped(&reason).map_err(Failed::from);
        }
    }
    let plain = Problem::<T>::new(SIDE, SIDE, k);
    let (a, b): (Vec<T::A>, Vec<T::B>) = (numbered(SIDE, k), numbered(k, SIDE));
    let context = lab::cpu::context(None).map_err(|error| error.to_string())?;
    let mut expected = vec![T::C::ZERO; SIDE * SIDE];
    CPU[0].gemm::<T>(&plain, &a, &b, &mut expected, &context).expect("the buffers fit");

    let run = |problem: Problem<T>, a: &[T::A], b: &[T::B], c: &mut [T::C]| match backend {
        Backend::Emulator => emulate::run(spec, &problem, a, b, c),
        Backend::Gpu => with_gpu(|gpu| {
            let mut output = gpu.output(c, 0)?;
            gpu.upload(&problem, a, b)?.run(spec, &mut output)?;
            output.download(c)
        }),
    };
    let layout = Layout::row_major;
    let mut c = vec![T::C::POISON; SIDE * SIDE];
    let big = spread(&a, k, far, len);
    run(Problem { a: layout(far), ..plain }, &big, &b, &mut c).map_err(|e| e.to_string())?;
    if c != expected {
        return Err(format!("A beyond 2^31: {c:?}, not {expected:?}").into());
    }
    c.fill(T::C::POISON);
    drop(big);
    let big = spread(&b, SIDE, far_b, len);
    run(Problem { b: layout(far_b), ..plain }, &a, &big, &mut c).map_err(|e| e.to_string())?;
    if c != expected {
        return Err(format!("B beyond 2^31: {c:?}, not {expected:?}").into());
    }
    drop(big);
    let mut big: Vec<T::C> = zeroed((SIDE - 1) * far + SIDE);
    run(Problem { c: layout(far), ..plain }, &a, &b, &mut big).map_err(|e| e.to_string())?;
    for (row, expected) in expected.chunks_exact(SIDE).enumerate() {
        let found = &big[row * far..][..SIDE];
        if found != expected {
            return Err(format!("C beyond 2^31: row {row} is {found:?}").into());
        }
    }
    Ok(())
}

/// A product that a kernel cannot do is refused before anything is launched, with its limit.
fn refuses_what_it_cannot_do<T: ScalarTypes>(
    backend: Backend,
    spec: Kernel,
    _: Extent,
) -> Result<(), Failed> {
    let fortran = Problem::<T>::new(4, 4, 4);
    let (fortran, which) = if !spec.reads_any_order() {
        (Problem { a: Layout::col_major(4), ..fortran }, "A")
    } else {
        (Problem { c: Layout::col_major(4), ..fortran }, "C")
    };
    let (a, b) = (vec![T::A::ZERO; 33 * 32], vec![T::B::ZERO; 33 * 32]);
    let mut c = Guarded::new(&fortran).map_err(|error| error.to_string())?;
    let refused = backend.run(spec, &fortran, &a, &b, &mut c);
    if !refused.as_ref().is_err_and(|error| error.contains("row-major")) {
        return Err(format!("a column-major {which}: {refused:?}").into());
    }
    if spec.launch == LaunchShape::SingleBlock {
        let large = Problem::<T>::new(33, 32, 1);
        let mut c = Guarded::new(&large).map_err(|error| error.to_string())?;
        let refused = backend.run(spec, &large, &a, &b, &mut c);
        if !refused.as_ref().is_err_and(|error| error.contains("1024")) {
            return Err(format!("33 x 32 in one block: {refused:?}").into());
        }
    }
    Ok(())
}

/// Each digested case that the kernel can do, with the digest of its result.
fn digests_of<T: ScalarTypes>(
    backend: Backend,
    spec: Kernel,
) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    let mut add = |case: String, operands: Operands<T>| {
        let c = operands.run(|problem, a, b, c| backend.run(spec, problem, a, b, c))?;
        found.push((case, digest(&operands.problem, &c)));
        Ok::<_, String>(())
    };
    for case in digested_cases(tile(spec)) {
        if can::<T>(backend, spec, &case)? {
            add(case.to_string(), Operands::draw(&case))?;
        }
    }
    // The sums are the instruction's own, the same in all kernels.
    if spec.id == CORNERS_OF {
        for family in &corners::FAMILIES {
            if let Some(operands) = family.draw(corners::FEW) {
                add(family.case(), operands)?;
            }
        }
    }
    Ok(found)
}

/// The committed digests of a GPU's results are this backend's, too.
fn gives_the_committed_digests<T: ScalarTypes>(
    backend: Backend,
    spec: Kernel,
    _: Extent,
) -> Result<(), Failed> {
    let committed = Digests::committed()?;
    let symbol = spec.entry(T::TYPES).map_err(|reason| reason.to_string())?;
    let found = digests_of::<T>(backend, spec)?;
    let mut failures = Vec::new();
    let mut unrecorded = 0;
    for (case, digest) in &found {
        match committed.compare(symbol, case, digest) {
            Comparison::Same => {}
            Comparison::Differs(what) => failures.push(what),
            Comparison::NotRecorded => unrecorded += 1,
        }
    }
    if unrecorded > 0 {
        let notice = format!("NOT RECORDED: {unrecorded} cases of {symbol}; {REMEDY}");
        if required() { failures.push(notice) } else { println!("{notice}") }
    }
    failures.extend(enough(found.len()).err());
    report(failures).map_err(Failed::from)
}

/// Writes the digests of every entry's results on the GPU.
fn write_digests(path: &Path) -> Result<(), Failed> {
    let mut digests = Digests {
        device: with_gpu(|gpu| Ok(gpu.info().name.clone())).map_err(|error| error.to_string())?,
        ..Digests::default()
    };
    for spec in KERNELS {
        for entry in spec.entries {
            let found = with_gemm_types!(entry.types, T => digests_of::<T>(Backend::Gpu, *spec))?;
            let cases: BTreeMap<String, String> = found.into_iter().collect();
            digests.entries.insert(entry.symbol.to_owned(), cases);
        }
    }
    Ok(digests.write(path)?)
}

/// What a trial does.
type Test = Box<dyn FnOnce() -> Result<(), Failed> + Send>;

type Property = fn(Backend, Kernel, Extent) -> Result<(), Failed>;

/// The kernel whose digests include the corners of the tensor cores' sums.
const CORNERS_OF: &str = "tensor_64x128";

/// The property that needs a committed file.
const DIGESTS: &str = "gives_the_committed_digests";

/// The property that runs a kernel hundreds of times.
const PLANTED: &str = "hides_no_defect";

/// Those of whose cases some entries have a part, see [`Extent::of`].
const IN_PARTS: [&str; 5] = [
    "agrees_with_serial",
    "every_size_from_1_to_70",
    "keeps_to_the_edges_of_its_tile",
    "takes_every_order",
    "every_order_of_events",
];

/// The properties of a kernel for one element type.
fn properties<T: ScalarTypes>(spec: Kernel, backend: Backend) -> Vec<(&'static str, Property)> {
    let mut properties: Vec<(&'static str, Property)> = vec![
        ("agrees_with_serial", agrees_with_serial::<T>),
        ("every_size_from_1_to_70", every_small_size::<T>),
        ("keeps_to_the_edges_of_its_tile", keeps_to_the_edges_of_its_tile::<T>),
        ("is_exact_on_integers", is_exact_on_integers::<T>),
        ("refuses_what_it_cannot_do", refuses_what_it_cannot_do::<T>),
        (DIGESTS, gives_the_committed_digests::<T>),
    ];
    // All types have their indices from one source, which the emulator tries for each; to a GPU such
    // buffers travel for one type alone.
    let first = spec.entries.first().is_some_and(|entry| entry.types == T::TYPES);
    if backend == Backend::Emulator || first {
        properties.push(("indices_above_two_to_the_31st", indices_above_two_to_the_31st::<T>));
    }
    if backend == Backend::Emulator {
        properties.push(("takes_batches", batches::takes_batches::<T>));
        if spec.fuses {
            properties.push(("fuses_epilogues", epilogues::fuses_epilogues::<T>));
        }
        if matches!(spec.operands, OperandAccess::Limbs(_)) {
            properties.push(("keeps_factors", kept::keeps_factors));
        }
        if spec.row_groups {
            properties.push(("has_groups_of_rows", groups::has_groups_of_rows::<T>));
        }
    }
    if spec.reads_any_order() {
        properties.push(("takes_every_order", orders::takes_every_order::<T>));
    }
    if matches!(spec.operands, OperandAccess::Limbs(_)) {
        properties.push(("splits_what_can_be_split", split::splits_what_can_be_split));
        properties.push(("wide_rows_lose_nothing", split::wide_rows_lose_nothing));
    }
    if matches!(spec.operands, OperandAccess::Batched(BatchShare::Limbs)) {
        properties.push(("each_warp_gives_way", split::each_warp_gives_way));
    }
    if spec.arch == Arch::Sm90a && backend == Backend::Emulator {
        properties.push(("every_order_of_events", events::every_order_of_events::<T>));
        // What is planted are copies by TMA, products of warpgroups and their barriers, of which kernels whose
        // threads copy have none.
        let copies = matches!(spec.operands, OperandAccess::Batched(BatchShare::Tile(_)));
        if first && !copies {
            properties.push((PLANTED, planted::hides_no_defect));
        }
    }
    if spec.id.starts_with("tensor_") && backend == Backend::Gpu {
        properties.push(("sums_as_the_emulator_does", corners::sums_as_the_emulator_does::<T>));
    }
    if !spec.is_chain() && backend == Backend::Gpu {
        properties.push(("repeats_its_bits", orders::repeats_its_bits::<T>));
    }
    properties
}

/// The tests of the tests: each guard must be able to fail.
const SELF_TESTS: [(&str, SelfTest); 3] = [
    ("self::families_reach_the_corners", corners::families_reach_the_corners),
    ("self::a_kernel_that_can_do_no_case_fails", a_kernel_that_can_do_no_case_fails),
    ("self::a_soak_of_nothing_fails", soak::a_soak_of_nothing_fails),
];

/// A kernel that has no entry for a type can do no case of it, so no property that counts cases passes.
fn a_kernel_that_can_do_no_case_fails() -> Result<(), String> {
    let other = KERNELS.iter().copied().find(|spec| spec.entry(Types::F64).is_err());
    let other = other.ok_or("every kernel takes every type")?;
    let counting: [(&str, Property); 4] = [
        ("agrees_with_serial", agrees_with_serial::<f64>),
        ("every_small_size", every_small_size::<f64>),
        ("keeps_to_the_edges_of_its_tile", keeps_to_the_edges_of_its_tile::<f64>),
        ("every_order_of_events", events::every_order_of_events::<f64>),
    ];
    for (name, property) in counting {
        let outcome = property(Backend::Emulator, other, Extent::All);
        let text = outcome.err().and_then(|failed| failed.message().map(str::to_owned));
        let text = text.unwrap_or_default();
        ensure(text.contains("only 0 cases"), &format!("{name} of {}: {text:?}", other.id))?;
    }
    // A GPU that is not there is no GPU that can do nothing.
    if Gpu::open(0).is_err() {
        let asked = can::<f64>(Backend::Gpu, other, &Case::new(1, 1, 1));
        ensure(asked.is_err(), "without a GPU its limits are known")?;
    }
    Ok(())
}

fn trials() -> Vec<Trial> {
    let no_gpu = Gpu::open(0).err().map(|error| error.to_string());
    let required = required();
    let mut trials: Vec<Trial> = SELF_TESTS
        .into_iter()
        .chain(digests::SELF_TESTS)
        .map(|(name, test)| Trial::test(name, move || test().map_err(Failed::from)))
        .collect();
    let written = Digests::wanted();
    let committed = Digests::committed().unwrap_or_default();
    let mut skipped = 0;
    let mut undigested = 0;
    let mut unrecorded = BTreeSet::new();
    for backend in [Backend::Emulator, Backend::Gpu] {
        for &spec in KERNELS {
            let mut add =
                |name: String, digests_of: Option<&'static str>, long: bool, test: Test| {
                    let missing = no_gpu.clone().filter(|_| backend == Backend::Gpu);
                    let without_gpu = missing.is_some() && !required;
                    // While they are written anew, the old ones bind nobody.
                    let rewritten = digests_of.is_some() && written.is_some();
                    let missing_digests = digests_of.filter(|symbol| !committed.holds(symbol));
                    unrecorded.extend(missing_digests.filter(|_| !rewritten));
                    let without_digests = rewritten || missing_digests.is_some() && !required;
                    skipped += usize::from(without_gpu);
                    undigested += usize::from(rewritten && !without_gpu);
                    let name = format!("{}::{name}", backend.name());
                    let trial = Trial::test(name, move || match missing {
                        Some(reason) => Err(reason.into()),
                        None => test(),
                    });
                    trials.push(trial.with_ignored_flag(without_gpu || without_digests || long));
                };
            for entry in spec.entries {
                let properties = with_gemm_types!(entry.types, T => properties::<T>(spec, backend));
                if backend == Backend::Gpu {
                    let test: fn(Kernel) -> Result<(), String> = with_gemm_types!(
                        entry.types,
                        T => host_path::bands_have_the_bits_of_the_whole::<T>
                    );
                    let test = move || test(spec).map_err(Failed::from);
                    add(format!("host_path::{}", entry.symbol), None, false, Box::new(test));
                }
                let extent = with_gemm_types!(entry.types, T => Extent::of::<T>(backend, spec));
                for (name, property) in properties {
                    let test = move || property(backend, spec, extent);
                    let digests_of = (name == DIGESTS).then_some(entry.symbol);
                    let long = name == PLANTED;
                    add(format!("{}::{name}", entry.symbol), digests_of, long, Box::new(test));
                    if extent == Extent::Part && IN_PARTS.contains(&name) {
                        let test = move || property(backend, spec, Extent::All);
                        let name = format!("{}::{name}_in_all_cases", entry.symbol);
                        add(name, None, true, Box::new(test));
                    }
                }
            }
        }
    }
    let table = || planted::the_document_shows_who_sees_defects().map_err(Failed::from);
    let name = "emulator::the_document_shows_who_sees_defects";
    trials.push(Trial::test(name, table).with_ignored_flag(true));
    let without_gpu = no_gpu.is_some() && !required;
    skipped += usize::from(without_gpu);
    let missing = no_gpu.clone();
    let soak = Trial::test("cuda::soak", move || match missing {
        Some(reason) => Err(reason.into()),
        None => soak::soak(Backend::Gpu).map_err(Failed::from),
    });
    trials.push(soak.with_ignored_flag(without_gpu));
    let soak = || soak::soak(Backend::Emulator).map_err(Failed::from);
    trials.push(Trial::test("emulator::soak", soak));
    for (name, property) in host_path::PROPERTIES {
        skipped += usize::from(without_gpu);
        let missing = no_gpu.clone();
        let trial = Trial::test(format!("cuda::host_path::{name}"), move || match missing {
            Some(reason) => Err(reason.into()),
            None => property().map_err(Failed::from),
        });
        trials.push(trial.with_ignored_flag(without_gpu));
    }
    if let Some(path) = written {
        // Asked for by name: without a GPU it fails.
        trials.push(Trial::test("cuda::write_digests", move || write_digests(&path)));
    }
    if undigested > 0 {
        println!(
            "SKIPPED: {undigested} tests, TESSERA_WRITE_DIGESTS writes what they compare with"
        );
    }
    if !unrecorded.is_empty() {
        let symbols: Vec<&str> = unrecorded.iter().copied().collect();
        println!("NOT RECORDED: {} entries, {}; {REMEDY}", symbols.len(), symbols.join(", "));
    }
    if let (Some(reason), true) = (no_gpu, skipped > 0) {
        println!("SKIPPED: {skipped} tests, {reason}");
    }
    trials
}

fn main() -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials()).exit_code()
}
