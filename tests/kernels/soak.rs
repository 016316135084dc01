//! Random products of small integers on a GPU, or smaller ones on the emulator, compared bit for bit.
//!
//! The sums are exact in f32 whatever their order, so that every kernel, one that splits its operands
//! or sums on tensor cores included, gives the bits of the exact product. A short run is part of the
//! tests; `TESSERA_SOAK=SECONDS` makes it as long as that.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{env, process};

use gemm_spec::{Element, Layout};
use kernels_gpu::{KERNELS, Kernel};
use lab::cpu::{CPU, CpuContext};
use lab::fill::{Distribution, fill};
use lab::verify::Guarded;
use lab::{Operand, Order, Problem, Scalar, ScalarTypes, emulate, with_gemm_types};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::digests::ensure;
use crate::support::first_difference;
use crate::{Backend, with_gpu};

/// Seconds where nobody asks for more.
const SHORT: f64 = 3.0;
/// No product here takes as long: one that does hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest side, and now and then a longer one.
const SIDE: usize = 600;
const LONG_SIDE: usize = 3000;
/// The longest side on the emulator.
const EMULATED_SIDE: usize = 300;

/// Draws products until the time is over.
pub(crate) fn soak(backend: Backend) -> Result<(), String> {
    let seconds = match env::var("TESSERA_SOAK") {
        Ok(text) => text.parse().map_err(|_| format!("TESSERA_SOAK={text} is no number"))?,
        Err(_) => SHORT,
    };
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let context = lab::cpu::context(None).map_err(|error| error.to_string())?;
    let watchdog = Watchdog::new();
    let mut counts = BTreeMap::<&str, u64>::new();
    let mut seed = 0;
    while Instant::now() < end {
        seed += 1;
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let spec = KERNELS[rng.random_range(0..KERNELS.len())];
        let types = spec.entries[rng.random_range(0..spec.entries.len())].types;
        let ran = with_gemm_types!(types, T => product::<T>(backend, spec, &mut rng, &context, &watchdog))
            .map_err(|what| format!("number {seed}, {} {types}: {what}", spec.id))?;
        *counts.entry(spec.id).or_default() += u64::from(ran);
    }
    watchdog.end();
    println!("soak: {} products, by kernel {counts:?}", ran(&counts, seconds)?);
    Ok(())
}

/// How many products ran; none is no soak.
fn ran(counts: &BTreeMap<&str, u64>, seconds: f64) -> Result<u64, String> {
    match counts.values().sum() {
        0 => Err(format!("no product ran in {seconds} s; let TESSERA_SOAK be longer")),
        sum => Ok(sum),
    }
}

/// A guard must be able to fail.
pub(crate) fn a_soak_of_nothing_fails() -> Result<(), String> {
    let refused = ran(&BTreeMap::new(), 3.0).is_err() && ran(&[("naive", 0)].into(), 3.0).is_err();
    ensure(refused, "a soak without a product passed")?;
    ensure(ran(&[("naive", 2), ("tiled", 1)].into(), 3.0) == Ok(3), "three products")
}

/// One product; whether the kernel takes it.
fn product<T: ScalarTypes>(
    backend: Backend,
    spec: Kernel,
    rng: &mut impl Rng,
    context: &CpuContext,
    watchdog: &Watchdog,
) -> Result<bool, String> {
    let longest = match backend {
        Backend::Emulator => [EMULATED_SIDE; 2],
        Backend::Gpu => [SIDE, LONG_SIDE],
    };
    let problem = draw::<T>(rng, longest, !spec.reads_any_order());
    let takes = match backend {
        Backend::Emulator => Ok(spec.supports(&problem, &emulate::LIMITS).is_ok()),
        Backend::Gpu => with_gpu(|gpu| Ok(spec.supports(&problem, gpu.limits()).is_ok())),
    };
    if !takes.map_err(|error| error.to_string())? {
        return Ok(false);
    }
    let seed = rng.random();
    let a: Vec<T::A> = drawn(&problem, Operand::A, seed);
    let b: Vec<T::B> = drawn(&problem, Operand::B, seed);
    let old: Vec<T::C> = drawn(&problem, Operand::C, seed);
    let poisoned = || {
        let mut c = Guarded::new(&problem).map_err(|error| error.to_string())?;
        c.poison(if problem.beta == T::Acc::ZERO { &[] } else { &old });
        Ok::<_, String>(c)
    };
    let mut expected = poisoned()?;
    let Some(exact) = CPU.iter().find(|implementation| implementation.any_order) else {
        return Err("no implementation takes every order".to_owned());
    };
    exact.gemm::<T>(&problem, &a, &b, expected.as_mut_slice(), context).expect("the buffers fit");
    let mut found = poisoned()?;
    watchdog.expect(format!("{} {problem:?}", spec.id));
    backend
        .run(spec, &problem, &a, &b, &mut found)
        .map_err(|what| format!("{problem:?}: {what}"))?;
    watchdog.done();
    found.intact().map_err(|error| format!("{problem:?}: {error}"))?;
    first_difference(&problem, found.as_slice(), expected.as_slice())
        .map_or(Ok(true), |what| Err(format!("{problem:?}: {what}")))
}

/// An operand of small integers; poison between its lines.
fn drawn<T: ScalarTypes, E: Scalar>(problem: &Problem<T>, operand: Operand, seed: u64) -> Vec<E> {
    let (rows, cols) = problem.dims(operand);
    let Layout { order, ld } = problem.layout(operand);
    let (lines, width) = if order == Order::RowMajor { (rows, cols) } else { (cols, rows) };
    let mut data = vec![E::POISON; lines * ld];
    fill(&mut data, width, ld, Distribution::Int, seed, operand as u64);
    data
}

/// A problem with small whole factors, padded rows, and factors in any order where that is allowed.
fn draw<T: ScalarTypes>(
    rng: &mut impl Rng,
    [longest, seldom]: [usize; 2],
    row_major: bool,
) -> Problem<T> {
    let mut side = || {
        let most = if rng.random_ratio(1, 50) { seldom } else { longest } as f64;
        // As many sizes below 20 as above.
        #[expect(clippy::cast_possible_truncation, reason = "no more than the longest side")]
        let side = most.powf(rng.random::<f64>()) as usize;
        side
    };
    let (m, n, k) = (side(), side(), side());
    let mut layout = |rows: usize, cols: usize, row_major: bool| {
        let padding = [0, 0, 1, 8][rng.random_range(0..4)];
        if row_major || rng.random() {
            Layout::row_major(cols + padding)
        } else {
            Layout::col_major(rows + padding)
        }
    };
    let (a, b, c) = (layout(m, k, row_major), layout(k, n, row_major), layout(m, n, true));
    let alpha = T::Acc::from_f64([1.0, 1.0, -1.0, 2.0, 0.0][rng.random_range(0..5)]);
    let beta = T::Acc::from_f64([0.0, 0.0, 1.0, -2.0][rng.random_range(0..4)]);
    Problem::new(m, n, k).with_scalars(alpha, beta).with_layouts(a, b, c)
}

/// Ends the process if a product does not end.
struct Watchdog {
    tell: Sender<Option<String>>,
    thread: JoinHandle<()>,
}

impl Watchdog {
    fn new() -> Self {
        let (tell, told) = channel::<Option<String>>();
        let thread = thread::spawn(move || {
            let mut running: Option<String> = None;
            loop {
                match told.recv_timeout(PATIENCE) {
                    Ok(message) => running = message,
                    Err(RecvTimeoutError::Timeout) if running.is_none() => {}
                    Err(RecvTimeoutError::Timeout) => {
                        println!(
                            "after {PATIENCE:?} still running: {}",
                            running.unwrap_or_default()
                        );
                        process::exit(1);
                    }
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
        Self { tell, thread }
    }

    /// A product begins.
    fn expect(&self, what: String) {
        // The thread lives as long as the sender.
        let _ = self.tell.send(Some(what));
    }

    /// It has ended.
    fn done(&self) {
        let _ = self.tell.send(None);
    }

    fn end(self) {
        drop(self.tell);
        let _ = self.thread.join();
    }
}
