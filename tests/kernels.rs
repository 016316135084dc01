//! The kernels: each entry on the emulator, and on the first GPU where there is one.
//!
//! Every test is made once for each entry of the registry and each backend, so a new kernel is tested
//! without a line here. On a machine without a GPU the GPU's tests are counted as ignored; where
//! `GEMM_REQUIRE_GPU=1` is set they fail instead.

#[path = "kernels/digests.rs"]
mod digests;
mod support;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use digests::{Digests, SELF_TESTS, digest, digested_cases};
use gemm_spec::{DType, KernelSpec, LaunchShape, Layout};
use kernels_gpu::KERNELS;
use libtest_mimic::{Arguments, Failed, Trial};
use support::{Case, Operands, cases, first_difference, report};
use tessera::cpu::{CPU, CpuContext};
use tessera::gpu::Gpu;
use tessera::verify::{Checker, Guarded, Method};
use tessera::{Error, Problem, Scalar, emulate};

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
    fn run<T: Scalar>(
        self,
        spec: &'static KernelSpec,
        problem: &Problem<T>,
        a: &[T],
        b: &[T],
        c: &mut Guarded<T>,
    ) -> Result<(), String> {
        match self {
            Self::Emulator => emulate::run(spec, problem, a, b, c.as_mut_slice()),
            Self::Gpu => with_gpu(|gpu| {
                let mut output = gpu.output(c.full(), c.guard_len())?;
                gpu.upload(problem, a, b)?.0.run(spec, &mut output)?;
                output.download(gpu, c.full_mut()).map(|_| ())
            }),
        }
        .map_err(|error| error.to_string())
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
fn can<T: Scalar>(backend: Backend, spec: &KernelSpec, case: &Case) -> bool {
    let problem = case.problem::<T>();
    match backend {
        Backend::Emulator => spec.supports(&problem, &emulate::LIMITS).is_ok(),
        Backend::Gpu => {
            with_gpu(|gpu| Ok(spec.supports(&problem, gpu.limits()).is_ok())).unwrap_or_default()
        }
    }
}

/// Whether the emulator knows the kernel's instructions.
fn is_emulated(spec: &KernelSpec) -> bool {
    spec.arch.runs_on(emulate::LIMITS.compute_capability)
}

/// What is wrong with a result: against serial's bits where the kernel promises them, else against the
/// error bound of its type.
fn difference<T: Scalar>(
    spec: &KernelSpec,
    operands: &Operands<T>,
    found: &[T],
) -> Result<(), String> {
    let Operands { problem, a, b, c } = operands;
    if spec.is_chain() {
        return first_difference(problem, found, &expected(operands)?).map_or(Ok(()), Err);
    }
    let checker = Checker::new(problem, a, b, c, Method::Full, 1).map_err(|e| e.to_string())?;
    let verdict = checker.check(found);
    if verdict.ok { Ok(()) } else { Err(verdict.to_string()) }
}

/// Edge of the kernel's tile, for the table of shapes.
fn tile(spec: &KernelSpec) -> usize {
    spec.launch.tile().map_or(8, |tile| tile.m as usize)
}

/// What serial computes.
fn expected<T: Scalar>(operands: &Operands<T>) -> Result<Vec<T>, String> {
    let context = CpuContext::new(None).map_err(|error| error.to_string())?;
    operands.run(|problem, a, b, c| {
        T::cpu_fn(CPU[0])(problem, a, b, c.as_mut_slice(), &context);
        Ok(())
    })
}

/// Compares a kernel with serial on these cases.
fn compare<T: Scalar>(
    backend: Backend,
    spec: &'static KernelSpec,
    cases: impl IntoIterator<Item = Case>,
) -> Result<(), Failed> {
    let mut failures = Vec::new();
    let mut tried = 0;
    for case in cases {
        if !can::<T>(backend, spec, &case) {
            continue;
        }
        tried += 1;
        let operands = Operands::<T>::draw(&case);
        let outcome = operands
            .run(|problem, a, b, c| backend.run(spec, problem, a, b, c))
            .and_then(|found| difference(spec, &operands, &found));
        if let Err(what) = outcome {
            failures.push(format!("--kernel {} --dtype {} {case}: {what}", spec.id, T::DTYPE));
        }
    }
    if tried < 5 {
        failures.push(format!("only {tried} cases could be tried"));
    }
    report(failures).map_err(Failed::from)
}

/// Ragged shapes, all scalars, padded rows, NaN in everything that must not be read.
fn agrees_with_serial<T: Scalar>(
    backend: Backend,
    spec: &'static KernelSpec,
) -> Result<(), Failed> {
    compare::<T>(backend, spec, cases(tile(spec)))
}

/// Every size from 1 to 70: of the chart's own 262 sizes only 65 are multiples of 32.
fn every_small_size<T: Scalar>(backend: Backend, spec: &'static KernelSpec) -> Result<(), Failed> {
    compare::<T>(backend, spec, (1..=70).map(|n| Case::new(n, n, n)))
}

/// Just beyond a tile and within, along both of its sides, with rows that suit copies of 16 bytes and
/// with rows and operands that do not.
fn keeps_to_the_edges_of_its_tile<T: Scalar>(
    backend: Backend,
    spec: &'static KernelSpec,
) -> Result<(), Failed> {
    let (tile_m, tile_n) =
        spec.launch.tile().map_or((4, 4), |tile| (tile.m as usize, tile.n as usize));
    let mut failures = Vec::new();
    for (m, n) in [
        (tile_m, tile_n),
        (tile_m + 3, tile_n + 4),
        (2 * tile_m + 1, tile_n + 3),
        (tile_m - 1, tile_n + 4),
        (tile_m + 1, tile_n.saturating_sub(4).max(1)),
    ] {
        for (k, padding) in [(8, [0; 3]), (47, [4, 4, 4]), (41, [1, 1, 1]), (70, [0, 0, 2])] {
            let case = Case { padding, alpha: 0.75, beta: -1.5, ..Case::new(m, n, k) };
            if !can::<T>(backend, spec, &case) {
                continue;
            }
            let operands = Operands::<T>::draw(&case);
            // Operands from the start of their memory, and from its second element on.
            for shift in [0, 1] {
                let shifted = |data: &[T]| [vec![T::POISON; shift], data.to_vec()].concat();
                let (a, b) = (shifted(&operands.a), shifted(&operands.b));
                let outcome = operands
                    .run(|problem, _, _, c| backend.run(spec, problem, &a[shift..], &b[shift..], c))
                    .and_then(|found| difference(spec, &operands, &found));
                if let Err(what) = outcome {
                    let id = spec.id;
                    failures.push(format!("--kernel {id} {case}, shifted by {shift}: {what}"));
                }
            }
        }
    }
    report(failures).map_err(Failed::from)
}

/// Exact integers: any order of the sum gives the same, and nothing is hidden by a tolerance.
fn is_exact_on_integers<T: Scalar>(
    backend: Backend,
    spec: &'static KernelSpec,
) -> Result<(), Failed> {
    let side = if can::<T>(backend, spec, &Case::new(67, 41, 130)) { 67 } else { 31 };
    let case = Case {
        distribution: tessera::fill::Distribution::Position,
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

/// n * n wraps in 32 bits from n = 46341 on. With rows this far apart the third row of A, B or C lies
/// beyond 2^31 elements. Most of the buffer is never touched: on the host it costs no memory.
fn indices_above_two_to_the_31st<T: Scalar>(
    backend: Backend,
    spec: &'static KernelSpec,
) -> Result<(), Failed> {
    const LD: usize = (1 << 30) + 7;
    let needed = 2 * LD * size_of::<T>();
    // Buffers this large travel whole to a GPU: one at a time, and for one type, since all types have
    // their indices from one source, which the emulator tries for each.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if backend == Backend::Gpu {
        if T::DTYPE != DType::F32 {
            return Ok(());
        }
        let free = with_gpu(Gpu::free_memory).map_err(|error| error.to_string())?;
        if free < needed as u64 + (1 << 30) {
            println!("SKIPPED: {} bytes of device memory, {needed} needed", free);
            return Ok(());
        }
    }
    let plain = Problem::<T>::new(3, 3, 3);
    let small: Vec<T> = (0..9).map(|i| T::from_f64(f64::from(10 * (i / 3) + i % 3 + 1))).collect();
    let context = CpuContext::new(None).map_err(|error| error.to_string())?;
    let mut expected = vec![T::ZERO; 9];
    T::cpu_fn(CPU[0])(&plain, &small, &small, &mut expected, &context);

    let far = Layout::row_major(LD);
    let mut big = vec![T::ZERO; 2 * LD + 3];
    for row in 0..3 {
        big[row * LD..][..3].copy_from_slice(&small[row * 3..][..3]);
    }
    let run = |problem: Problem<T>, a: &[T], b: &[T], c: &mut [T]| match backend {
        Backend::Emulator => emulate::run(spec, &problem, a, b, c),
        Backend::Gpu => with_gpu(|gpu| {
            let mut output = gpu.output(c, 0)?;
            gpu.upload(&problem, a, b)?.0.run(spec, &mut output)?;
            output.download(gpu, c).map(|_| ())
        }),
    };
    let mut c = vec![T::POISON; 9];
    run(Problem { a: far, ..plain }, &big, &small, &mut c).map_err(|error| error.to_string())?;
    if c != expected {
        return Err(format!("A beyond 2^31: {c:?}, not {expected:?}").into());
    }
    c.fill(T::POISON);
    run(Problem { b: far, ..plain }, &small, &big, &mut c).map_err(|error| error.to_string())?;
    if c != expected {
        return Err(format!("B beyond 2^31: {c:?}, not {expected:?}").into());
    }
    run(Problem { c: far, ..plain }, &small, &small, &mut big).map_err(|e| e.to_string())?;
    for row in 0..3 {
        if big[row * LD..][..3] != expected[row * 3..][..3] {
            return Err(format!("C beyond 2^31: row {row} is {:?}", &big[row * LD..][..3]).into());
        }
    }
    Ok(())
}

/// A product that a kernel cannot do is refused before anything is launched, with its limit.
fn refuses_what_it_cannot_do<T: Scalar>(
    backend: Backend,
    spec: &'static KernelSpec,
) -> Result<(), Failed> {
    let fortran = Problem::<T>::new(4, 4, 4);
    let (fortran, which) = if spec.is_chain() {
        (Problem { a: Layout::col_major(4), ..fortran }, "A")
    } else {
        (Problem { c: Layout::col_major(4), ..fortran }, "C")
    };
    let data = vec![T::ZERO; 33 * 32];
    let mut c = Guarded::new(&fortran).map_err(|error| error.to_string())?;
    let refused = backend.run(spec, &fortran, &data, &data, &mut c);
    if !refused.as_ref().is_err_and(|error| error.contains("row-major")) {
        return Err(format!("a column-major {which}: {refused:?}").into());
    }
    if spec.launch == LaunchShape::SingleBlock {
        let large = Problem::<T>::new(33, 32, 1);
        let mut c = Guarded::new(&large).map_err(|error| error.to_string())?;
        let refused = backend.run(spec, &large, &data, &data, &mut c);
        if !refused.as_ref().is_err_and(|error| error.contains("1024")) {
            return Err(format!("33 x 32 in one block: {refused:?}").into());
        }
    }
    Ok(())
}

/// Both orders of both factors, with padding, against serial on row-major copies.
fn takes_every_order(spec: &'static KernelSpec) -> Result<(), String> {
    let (m, n, k) = (150, 70, 97);
    let (a, b): (Vec<f32>, Vec<f32>) = (inputs(m * k, 3), inputs(k * n, 4));
    let plain = Problem::<f32>::new(m, n, k);
    let context = CpuContext::new(None).map_err(|error| error.to_string())?;
    let mut expected = vec![0.0; m * n];
    <f32 as Scalar>::cpu_fn(CPU[0])(&plain, &a, &b, &mut expected, &context);
    for orders in 0..4 {
        let mut problem = plain;
        let (mut a, mut b) = (a.clone(), b.clone());
        if orders & 1 != 0 {
            (problem.a, a) = (Layout::col_major(m + 3), turned(&a, m, k, m + 3));
        }
        if orders & 2 != 0 {
            (problem.b, b) = (Layout::col_major(k + 1), turned(&b, k, n, k + 1));
        }
        let mut c = Guarded::new(&problem).map_err(|error| error.to_string())?;
        Backend::Gpu.run(spec, &problem, &a, &b, &mut c)?;
        for (at, (&found, &expected)) in c.as_mut_slice().iter().zip(&expected).enumerate() {
            if (found - expected).abs() > 2e-4 {
                return Err(format!("orders {orders}: element {at} is {found}, not {expected}"));
            }
        }
    }
    Ok(())
}

/// Numbers in [-1, 1) from a seed.
fn inputs(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// A row-major matrix in column-major order with a leading dimension; NaN between.
fn turned(from: &[f32], rows: usize, cols: usize, ld: usize) -> Vec<f32> {
    let mut to = vec![f32::NAN; cols * ld];
    for row in 0..rows {
        for col in 0..cols {
            to[col * ld + row] = from[row * cols + col];
        }
    }
    to
}

/// Inputs that pieces of f16 cannot hold: what is not finite gives the bits of serial, and rows of any
/// scale, zeros and subnormals included, stay within the bound of f32.
fn splits_what_can_be_split(spec: &'static KernelSpec) -> Result<(), String> {
    let (m, n, k) = (140, 135, 70);
    let problem = Problem::<f32>::new(m, n, k);
    let run = |a: &[f32], b: &[f32]| {
        let mut c = Guarded::new(&problem).map_err(|error| error.to_string())?;
        Backend::Gpu.run(spec, &problem, a, b, &mut c)?;
        Ok::<Vec<f32>, String>(c.as_mut_slice().to_vec())
    };
    let context = CpuContext::new(None).map_err(|error| error.to_string())?;
    let (plain_a, plain_b) = (inputs(m * k, 5), inputs(k * n, 6));
    for (what, value) in
        [("NaN", f32::NAN), ("infinity", f32::INFINITY), ("-infinity", f32::NEG_INFINITY)]
    {
        for in_b in [false, true] {
            let (mut a, mut b) = (plain_a.clone(), plain_b.clone());
            let side = if in_b { &mut b } else { &mut a };
            side[1234] = value;
            side[4321] = 0.0;
            let mut expected = vec![0.0; m * n];
            <f32 as Scalar>::cpu_fn(CPU[0])(&problem, &a, &b, &mut expected, &context);
            let found = run(&a, &b)?;
            let same =
                |(x, y): (&f32, &f32)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
            if !found.iter().zip(&expected).all(same) {
                return Err(format!(
                    "{what} in {}: not serial's bits",
                    if in_b { "B" } else { "A" }
                ));
            }
        }
    }
    let (mut a, mut b) = (plain_a, plain_b);
    for row in 0..m {
        // From 2^-149 to 2^120, and a row of zeros.
        let scale = if row == 7 { 0.0 } else { 2f64.powi(row as i32 * 2 - 150) };
        a[row * k..][..k].iter_mut().for_each(|x| *x = (f64::from(*x) * scale) as f32);
    }
    for col in 0..n {
        let scale = 2f64.powi(col as i32 - 60);
        (0..k).for_each(|step| b[step * n + col] = (f64::from(b[step * n + col]) * scale) as f32);
    }
    let found = run(&a, &b)?;
    for row in 0..m {
        for col in 0..n {
            let terms = (0..k).map(|s| f64::from(a[row * k + s]) * f64::from(b[s * n + col]));
            let (exact, size) = terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()));
            let found = found[row * n + col];
            // One more rounding where the result is subnormal.
            let bound = size * 2f64.powi(-20) + 2f64.powi(-148);
            let right = if exact.abs() > f64::from(f32::MAX) * 1.0001 {
                found.is_infinite()
            } else {
                (f64::from(found) - exact).abs() <= bound || size > f64::from(f32::MAX)
            };
            if !right {
                return Err(format!("({row}, {col}) is {found:e}, not {exact:e}"));
            }
        }
    }
    Ok(())
}

/// The same product a hundred times gives the same bits.
fn repeats_its_bits(spec: &'static KernelSpec) -> Result<(), String> {
    let (m, n, k) = (1000, 900, 800);
    let problem = Problem::<f32>::new(m, n, k);
    let (a, b) = (inputs(m * k, 7), inputs(k * n, 8));
    with_gpu(|gpu| {
        let (operands, _) = gpu.upload(&problem, &a, &b)?;
        let mut first: Option<Vec<f32>> = None;
        for _ in 0..100 {
            let mut c = vec![f32::NAN; m * n];
            let mut output = gpu.output(&c, 0)?;
            operands.run(spec, &mut output)?;
            output.download(gpu, &mut c)?;
            let first = first.get_or_insert_with(|| c.clone());
            if !first.iter().zip(&c).all(|(x, y)| x.to_bits() == y.to_bits()) {
                return Ok(false);
            }
        }
        Ok(true)
    })
    .map_err(|error| error.to_string())?
    .then_some(())
    .ok_or_else(|| "two runs differ".to_owned())
}

type SplitProperty = fn(&'static KernelSpec) -> Result<(), String>;

/// Properties of kernels that split their operands, on a GPU.
const SPLIT_PROPERTIES: [(&str, SplitProperty); 3] = [
    ("takes_every_order", takes_every_order),
    ("splits_what_can_be_split", splits_what_can_be_split),
    ("repeats_its_bits", repeats_its_bits),
];

/// Each digested case that the kernel can do, with the digest of its result.
fn digests_of<T: Scalar>(
    backend: Backend,
    spec: &'static KernelSpec,
) -> Result<Vec<(Case, String)>, String> {
    let cases = digested_cases(tile(spec));
    let digest_of = |case: Case| {
        let operands = Operands::<T>::draw(&case);
        let found = operands.run(|problem, a, b, c| backend.run(spec, problem, a, b, c))?;
        Ok((case, digest(&operands.problem, &found)))
    };
    cases.into_iter().filter(|case| can::<T>(backend, spec, case)).map(digest_of).collect()
}

/// The committed digests of a GPU's results are this backend's, too.
fn gives_the_committed_digests<T: Scalar>(
    backend: Backend,
    spec: &'static KernelSpec,
) -> Result<(), Failed> {
    let path = Digests::newest().ok_or("there is no results/*/digests.json")?;
    let committed = Digests::read(&path)?;
    let symbol = spec.entry(T::DTYPE).map_err(|reason| reason.to_string())?;
    let found = digests_of::<T>(backend, spec)?;
    let mut failures: Vec<String> = found
        .iter()
        .filter_map(|(case, digest)| committed.compare(symbol, case, digest).err())
        .collect();
    // An entry that the file lacks is one failure, not one for each case.
    failures.dedup();
    if found.len() < 5 {
        failures.push(format!("only {} cases could be tried", found.len()));
    }
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
            let found = match entry.dtype {
                DType::F32 => digests_of::<f32>(Backend::Gpu, spec),
                DType::F64 => digests_of::<f64>(Backend::Gpu, spec),
                DType::I32 => digests_of::<i32>(Backend::Gpu, spec),
            }?;
            let cases: BTreeMap<String, String> =
                found.into_iter().map(|(case, digest)| (case.to_string(), digest)).collect();
            digests.entries.insert(entry.symbol.to_owned(), cases);
        }
    }
    Ok(digests.write(path)?)
}

type Property = fn(Backend, &'static KernelSpec) -> Result<(), Failed>;

/// The property that needs a committed file.
const DIGESTS: &str = "gives_the_committed_digests";

/// The properties for one element type.
fn properties<T: Scalar>() -> [(&'static str, Property); 7] {
    [
        ("agrees_with_serial", agrees_with_serial::<T>),
        ("every_size_from_1_to_70", every_small_size::<T>),
        ("keeps_to_the_edges_of_its_tile", keeps_to_the_edges_of_its_tile::<T>),
        ("is_exact_on_integers", is_exact_on_integers::<T>),
        ("indices_above_two_to_the_31st", indices_above_two_to_the_31st::<T>),
        ("refuses_what_it_cannot_do", refuses_what_it_cannot_do::<T>),
        (DIGESTS, gives_the_committed_digests::<T>),
    ]
}

fn trials() -> Vec<Trial> {
    let no_gpu = Gpu::open(0).err().map(|error| error.to_string());
    let required = std::env::var("GEMM_REQUIRE_GPU").is_ok_and(|value| value == "1");
    let mut trials: Vec<Trial> = SELF_TESTS
        .into_iter()
        .map(|(name, test)| Trial::test(name, move || test().map_err(Failed::from)))
        .collect();
    let written = Digests::wanted();
    // While they are written anew, the old ones bind nobody.
    let no_digests = written.is_some() || Digests::newest().is_none();
    let mut skipped = 0;
    let mut undigested = 0;
    for backend in [Backend::Emulator, Backend::Gpu] {
        for &spec in KERNELS {
            if backend == Backend::Emulator && !is_emulated(spec) {
                println!("{} is not emulated: its instructions are those of one GPU", spec.id);
                continue;
            }
            if backend == Backend::Gpu && !spec.is_chain() {
                for (name, property) in SPLIT_PROPERTIES {
                    let missing = no_gpu.clone();
                    let ignored = missing.is_some() && !required;
                    skipped += usize::from(ignored);
                    let name = format!("cuda::{}::{name}", spec.id);
                    let trial = Trial::test(name, move || match missing {
                        Some(reason) => Err(reason.into()),
                        None => property(spec).map_err(Failed::from),
                    });
                    trials.push(trial.with_ignored_flag(ignored));
                }
            }
            for entry in spec.entries {
                let properties = match entry.dtype {
                    DType::F32 => properties::<f32>(),
                    DType::F64 => properties::<f64>(),
                    DType::I32 => properties::<i32>(),
                };
                for (name, property) in properties {
                    let is_digests = name == DIGESTS;
                    let name = format!("{}::{}::{name}", backend.name(), entry.symbol);
                    let missing = no_gpu.clone().filter(|_| backend == Backend::Gpu);
                    let without_gpu = missing.is_some() && !required;
                    let without_digests = is_digests && no_digests;
                    skipped += usize::from(without_gpu);
                    undigested += usize::from(without_digests && !without_gpu);
                    let trial = Trial::test(name, move || match missing {
                        Some(reason) => Err(reason.into()),
                        None => property(backend, spec),
                    });
                    trials.push(trial.with_ignored_flag(without_gpu || without_digests));
                }
            }
        }
    }
    if let Some(path) = written {
        // Asked for by name: without a GPU it fails.
        trials.push(Trial::test("cuda::write_digests", move || write_digests(&path)));
    }
    if undigested > 0 {
        println!(
            "SKIPPED: {undigested} tests, {}",
            if Digests::wanted().is_some() {
                "TESSERA_WRITE_DIGESTS writes the digests that they compare with"
            } else {
                "there is no results/*/digests.json to compare with; on a machine with a GPU \
                 TESSERA_WRITE_DIGESTS=FILE writes it"
            }
        );
    }
    if let (Some(reason), true) = (no_gpu, skipped > 0) {
        println!("SKIPPED: {skipped} tests, {reason}");
    }
    trials
}

fn main() -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials()).exit_code()
}
