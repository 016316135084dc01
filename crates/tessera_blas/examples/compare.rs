//! Rates of this library and of others, interleaved: level 3, the factorisations, and small products.
//!
//! ```text
//! cargo run --release -p tessera-blas --example compare -- LIBRARY...
//!     --sizes 512,1024,2048,4096   squares
//!     --small 1,2,3,4,...,32       squares that are multiplied over and over on one thread
//!     --shapes 4x4x64,...          the same of products of other shapes, m by n by k
//!     --ops NN,TN,NT,TT            transpositions of those
//!     --names fortran,c            by which they are called
//!     --small-routines gemm,...    of those below that are no factorisations
//!     --threads 1,2
//!     --types d                    of s, d, c and z
//!     --routines gemm,syrk,...     those below
//!     --beta 1                     of gemm, syrk and symm
//!     --clock wall                 or thread: the time of the calling thread, for one thread beside other programs
//!     --turns 5                    the best of which counts; of small operands fifteen times as many
//! ```
//!
//! A library is a path such as `/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0`, with 32-bit integers. What
//! one lacks is left out. The numbers are GFLOP/s by the usual counts, of small operands nanoseconds for a call; the last
//! column is this library's speed as a multiple of the best other's. They mean something where nothing else runs.
//!
//! The libraries are interleaved, so that what else the machine does meets all of them.

#![expect(clippy::print_stdout, reason = "a table is what it is for")]

mod peer;

use std::error::Error;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libloading::Library;

use peer::Peer;

/// The time since the start, or that of this thread alone.
struct Clock {
    wall: Instant,
    of_thread: Option<Duration>,
}

/// Whether times are those of the calling thread.
static OF_THREAD: AtomicBool = AtomicBool::new(false);

impl Clock {
    fn start() -> Self {
        let of_thread = OF_THREAD.load(Ordering::Relaxed).then(time_of_thread);
        Self { wall: Instant::now(), of_thread }
    }

    fn elapsed(&self) -> Duration {
        match self.of_thread {
            Some(start) => time_of_thread().saturating_sub(start),
            None => self.wall.elapsed(),
        }
    }
}

fn time_of_thread() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the time, which is written.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec))
}

/// A pointer to whatever a routine wants one to.
type Any = *mut u8;

/// What a routine computes, and how it is called.
struct Routine {
    name: &'static str,
    /// Floating-point operations for real squares of that order.
    operations: fn(f64) -> f64,
    call: Call,
}

/// Calls a routine of a library by its name, several times over, and gives the time of all calls; an error is that there
/// is none.
type Call = fn(&Library, &str, &mut Operands, usize) -> Result<Duration, libloading::Error>;

/// Matrices, scalars and integers: squares of order `n`, but for products, which are `m` by `n` by `k`.
struct Operands {
    m: i32,
    n: i32,
    k: i32,
    lda: i32,
    ldb: i32,
    step: i32,
    ops: [u8; 2],
    a: Vec<u8>,
    b: Vec<u8>,
    c: Vec<u8>,
    one: [u8; 16],
    beta: [u8; 16],
    tau: Vec<u8>,
    pivots: Vec<i32>,
    work: Vec<u8>,
    work_len: i32,
    info: i32,
}

/// Calls a routine with pointers, as Fortran does, the lengths of letters left out.
macro_rules! call {
    ($library:ident, $name:expr, $calls:ident, $($argument:expr),*) => {{
        // SAFETY: a BLAS or LAPACK has a routine by this name that takes that many pointers and gives nothing.
        let routine = unsafe { $library.get::<unsafe extern "C" fn($(call!(@ $argument)),*)>($name.as_bytes()) }?;
        let routine = *routine;
        let start = Clock::start();
        for _ in 0..$calls {
            // SAFETY: the pointers are of operands that are large enough, of the routine's type.
            unsafe { routine($($argument),*) };
        }
        Ok(start.elapsed())
    }};
    (@ $argument:expr) => { Any };
}

fn letter(letter: &'static [u8; 1]) -> Any {
    letter.as_ptr().cast_mut()
}

fn at<T>(value: &mut T) -> Any {
    (value as *mut T).cast()
}

/// Calls a product by its name in C, whose factors are of a type that is passed as `$given`.
macro_rules! call_c {
    ($library:ident, $name:expr, $on:ident, $calls:ident, $given:ty, $of:expr) => {{
        type Product = unsafe extern "C" fn(
            i32,
            i32,
            i32,
            i32,
            i32,
            i32,
            $given,
            Any,
            i32,
            Any,
            i32,
            $given,
            Any,
            i32,
        );
        // SAFETY: a BLAS has a product by this name with the parameters of CBLAS.
        let routine = *unsafe { $library.get::<Product>($name.as_bytes()) }?;
        let op = |op: u8| if op == b'N' { 111 } else { 112 };
        let (op_a, op_b) = (op($on.ops[0]), op($on.ops[1]));
        let (one, beta): ($given, $given) = ($of(&mut $on.one), $of(&mut $on.beta));
        let (a, b, c) = ($on.a.as_mut_ptr(), $on.b.as_mut_ptr(), $on.c.as_mut_ptr());
        let &mut Operands { m, n, k, lda, ldb, .. } = $on;
        let start = Clock::start();
        for _ in 0..$calls {
            // SAFETY: matrices of these sizes, of the routine's type.
            unsafe { routine(102, op_a, op_b, m, n, k, one, a, lda, b, ldb, beta, c, m) };
        }
        Ok(start.elapsed())
    }};
}

/// [`Call`] of a product by its name in C.
fn call_c(
    library: &Library,
    name: &str,
    on: &mut Operands,
    calls: usize,
) -> Result<Duration, libloading::Error> {
    match name.as_bytes().get("cblas_".len()) {
        Some(b's') => call_c!(library, name, on, calls, f32, |bytes: &mut [u8; 16]| {
            f32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        }),
        Some(b'd') => call_c!(library, name, on, calls, f64, |bytes: &mut [u8; 16]| {
            f64::from_ne_bytes(std::array::from_fn(|at| bytes[at]))
        }),
        _ => call_c!(library, name, on, calls, Any, at),
    }
}

const ROUTINES: [Routine; 14] = [
    Routine {
        name: "gemm",
        operations: |n| 2.0 * n * n * n,
        call: |library, name, on, calls| {
            let (m, n, k) = (at(&mut on.m), at(&mut on.n), at(&mut on.k));
            let (one, beta) = (at(&mut on.one), at(&mut on.beta));
            let (lda, ldb) = (at(&mut on.lda), at(&mut on.ldb));
            let (a, b, c) = (on.a.as_mut_ptr(), on.b.as_mut_ptr(), on.c.as_mut_ptr());
            let (op_a, op_b) = (at(&mut on.ops[0]), at(&mut on.ops[1]));
            call!(library, name, calls, op_a, op_b, m, n, k, one, a, lda, b, ldb, beta, c, m)
        },
    },
    Routine {
        name: "syrk",
        operations: |n| n * n * n,
        call: |library, name, on, calls| {
            let (n, one, beta) = (at(&mut on.n), at(&mut on.one), at(&mut on.beta));
            let (a, c) = (on.a.as_mut_ptr(), on.c.as_mut_ptr());
            call!(library, name, calls, letter(b"L"), letter(b"N"), n, n, one, a, n, beta, c, n)
        },
    },
    Routine {
        name: "symm",
        operations: |n| 2.0 * n * n * n,
        call: |library, name, on, calls| {
            let (n, one, beta) = (at(&mut on.n), at(&mut on.one), at(&mut on.beta));
            let (a, b, c) = (on.a.as_mut_ptr(), on.b.as_mut_ptr(), on.c.as_mut_ptr());
            let left = letter(b"L");
            call!(library, name, calls, left, left, n, n, one, a, n, b, n, beta, c, n)
        },
    },
    Routine {
        name: "syr2k",
        operations: |n| 2.0 * n * n * n,
        call: |library, name, on, calls| {
            let (n, one, beta) = (at(&mut on.n), at(&mut on.one), at(&mut on.beta));
            let (a, b, c) = (on.a.as_mut_ptr(), on.b.as_mut_ptr(), on.c.as_mut_ptr());
            let (lower, op) = (letter(b"L"), letter(b"N"));
            call!(library, name, calls, lower, op, n, n, one, a, n, b, n, beta, c, n)
        },
    },
    Routine {
        name: "gemmt",
        operations: |n| n * n * n,
        call: |library, name, on, calls| {
            let (n, one, beta) = (at(&mut on.n), at(&mut on.one), at(&mut on.beta));
            let (a, b, c) = (on.a.as_mut_ptr(), on.b.as_mut_ptr(), on.c.as_mut_ptr());
            let (lower, op) = (letter(b"L"), letter(b"N"));
            call!(library, name, calls, lower, op, op, n, n, one, a, n, b, n, beta, c, n)
        },
    },
    Routine {
        name: "herk",
        operations: |n| n * n * n,
        call: |library, name, on, calls| {
            let (n, one, beta) = (at(&mut on.n), at(&mut on.one), at(&mut on.beta));
            let (a, c) = (on.a.as_mut_ptr(), on.c.as_mut_ptr());
            call!(library, name, calls, letter(b"L"), letter(b"N"), n, n, one, a, n, beta, c, n)
        },
    },
    Routine {
        name: "her2k",
        operations: |n| 2.0 * n * n * n,
        call: |library, name, on, calls| {
            let (n, one, beta) = (at(&mut on.n), at(&mut on.one), at(&mut on.beta));
            let (a, b, c) = (on.a.as_mut_ptr(), on.b.as_mut_ptr(), on.c.as_mut_ptr());
            let (lower, op) = (letter(b"L"), letter(b"N"));
            call!(library, name, calls, lower, op, n, n, one, a, n, b, n, beta, c, n)
        },
    },
    Routine {
        name: "hemm",
        operations: |n| 2.0 * n * n * n,
        call: |library, name, on, calls| {
            let (n, one, beta) = (at(&mut on.n), at(&mut on.one), at(&mut on.beta));
            let (a, b, c) = (on.a.as_mut_ptr(), on.b.as_mut_ptr(), on.c.as_mut_ptr());
            let left = letter(b"L");
            call!(library, name, calls, left, left, n, n, one, a, n, b, n, beta, c, n)
        },
    },
    Routine {
        name: "gemv",
        operations: |n| 2.0 * n * n,
        call: |library, name, on, calls| {
            let (n, one, beta) = (at(&mut on.n), at(&mut on.one), at(&mut on.beta));
            let (a, b, c) = (on.a.as_mut_ptr(), on.b.as_mut_ptr(), on.c.as_mut_ptr());
            let (op, step) = (at(&mut on.ops[0]), at(&mut on.step));
            call!(library, name, calls, op, n, n, one, a, n, b, step, beta, c, step)
        },
    },
    Routine {
        name: "trmm",
        operations: |n| n * n * n,
        call: |library, name, on, calls| {
            let (n, one) = (at(&mut on.n), at(&mut on.one));
            let (a, b, left, op) =
                (on.a.as_mut_ptr(), on.b.as_mut_ptr(), letter(b"L"), letter(b"N"));
            call!(library, name, calls, left, left, op, op, n, n, one, a, n, b, n)
        },
    },
    Routine {
        name: "trsm",
        operations: |n| n * n * n,
        call: |library, name, on, calls| {
            let (n, one) = (at(&mut on.n), at(&mut on.one));
            let (a, b, left, op) =
                (on.a.as_mut_ptr(), on.b.as_mut_ptr(), letter(b"L"), letter(b"N"));
            call!(library, name, calls, left, left, op, op, n, n, one, a, n, b, n)
        },
    },
    Routine {
        name: "getrf",
        operations: |n| 2.0 / 3.0 * n * n * n,
        call: |library, name, on, calls| {
            let (n, info, pivots) =
                (at(&mut on.n), at(&mut on.info), on.pivots.as_mut_ptr().cast());
            call!(library, name, calls, n, n, on.a.as_mut_ptr(), n, pivots, info)
        },
    },
    Routine {
        name: "potrf",
        operations: |n| 1.0 / 3.0 * n * n * n,
        call: |library, name, on, calls| {
            let (n, info) = (at(&mut on.n), at(&mut on.info));
            call!(library, name, calls, letter(b"L"), n, on.a.as_mut_ptr(), n, info)
        },
    },
    Routine {
        name: "geqrf",
        operations: |n| 4.0 / 3.0 * n * n * n,
        call: |library, name, on, calls| {
            let (n, info, len) = (at(&mut on.n), at(&mut on.info), at(&mut on.work_len));
            let (tau, work) = (on.tau.as_mut_ptr(), on.work.as_mut_ptr());
            call!(library, name, calls, n, n, on.a.as_mut_ptr(), n, tau, work, len, info)
        },
    },
];

/// A number of a type, as bytes.
fn number(kind: char, value: f64) -> Vec<u8> {
    match kind {
        's' | 'c' => single(value).to_ne_bytes().to_vec(),
        _ => value.to_ne_bytes().to_vec(),
    }
}

/// Elements of a type, as bytes: numbers between -1 and 1, those on the diagonal larger by the order.
fn elements(kind: char, (rows, cols): (usize, usize), seed: u64) -> Vec<u8> {
    let parts = if matches!(kind, 'c' | 'z') { 2 } else { 1 };
    let mut bytes = Vec::new();
    for at in 0..rows * cols * parts {
        let mixed = (at as u64 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let is_diagonal = at % parts == 0 && (at / parts).is_multiple_of(rows + 1);
        let value = (mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
            + if is_diagonal { rows as f64 } else { 0.0 };
        bytes.extend(number(kind, value));
    }
    bytes
}

/// The matrix that changes nothing, however often it multiplies in place.
fn identity(kind: char, n: usize) -> Vec<u8> {
    let parts = if matches!(kind, 'c' | 'z') { 2 } else { 1 };
    let is_one = |at: usize| at.is_multiple_of(parts) && (at / parts).is_multiple_of(n + 1);
    (0..n * n * parts).flat_map(|at| number(kind, if is_one(at) { 1.0 } else { 0.0 })).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
fn single(value: f64) -> f32 {
    value as f32
}

/// Operands of products of that m, n and k.
fn operands(kind: char, (m, n, k): (usize, usize, usize), ops: [u8; 2], beta: f64) -> Operands {
    let of_element = match kind {
        's' => 4,
        'z' => 16,
        _ => 8,
    };
    let scalar = |value: f64| {
        let mut bytes = [0; 16];
        let of_value = number(kind, value);
        bytes[..of_value.len()].copy_from_slice(&of_value);
        bytes
    };
    let int = |size: usize| i32::try_from(size).unwrap_or(i32::MAX);
    let stored = |op: u8, rows, cols| if op == b'N' { (rows, cols) } else { (cols, rows) };
    let (of_a, of_b) = (stored(ops[0], m, k), stored(ops[1], k, n));
    Operands {
        m: int(m),
        n: int(n),
        k: int(k),
        lda: int(of_a.0),
        ldb: int(of_b.0),
        step: 1,
        ops,
        a: elements(kind, of_a, 1),
        b: elements(kind, of_b, 2),
        c: elements(kind, (m, n), 3),
        one: scalar(1.0),
        beta: scalar(beta),
        tau: vec![0; n * of_element],
        pivots: vec![0; n],
        work: vec![0; 128 * n * of_element],
        work_len: int(128 * n),
        info: 0,
    }
}

impl Operands {
    /// Takes the numbers of others of the same sizes, in the same memory.
    fn take(&mut self, given: &Self) {
        self.a.clone_from(&given.a);
        self.b.clone_from(&given.b);
        self.c.clone_from(&given.c);
    }
}

/// The time of some calls of a library, their operands as new and the same memory for all libraries; `None` where this one
/// lacks the routine.
fn time(
    peer: &Peer,
    call: Call,
    name: &str,
    given: &Operands,
    on: &mut Operands,
    calls: usize,
) -> Option<Duration> {
    on.take(given);
    call(&peer.library, name, on, calls).ok()
}

/// The words after an option, or what is usual.
struct Options {
    sizes: Vec<usize>,
    small: Vec<usize>,
    shapes: Vec<Shape>,
    ops: Vec<Ops>,
    names: Vec<String>,
    threads: Vec<i32>,
    types: Vec<char>,
    routines: Vec<String>,
    small_routines: Vec<String>,
    beta: f64,
    turns: usize,
    libraries: Vec<PathBuf>,
}

/// Sizes of a product, written `4x5x6`.
#[derive(Clone, Copy)]
struct Shape(usize, usize, usize);

impl std::str::FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sizes: Vec<usize> = text.split('x').filter_map(|size| size.parse().ok()).collect();
        match sizes[..] {
            [m, n, k] => Ok(Self(m, n, k)),
            _ => Err(format!("`{text}` is not three sizes")),
        }
    }
}

/// Transpositions of A and of B, written `NT`.
#[derive(Clone, Copy)]
struct Ops([u8; 2]);

impl std::str::FromStr for Ops {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.as_bytes().try_into().map(Self).map_err(|_| format!("`{text}` is not two letters"))
    }
}

fn options() -> Result<Options, Box<dyn Error>> {
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let mut options = Options {
        sizes: vec![512, 1024, 2048, 4096],
        small: vec![1, 2, 3, 4, 6, 8, 12, 16, 24, 32],
        shapes: Vec::new(),
        ops: vec![Ops(*b"NN")],
        names: words(&["fortran"]),
        threads: vec![1, 2],
        types: vec!['d'],
        routines: ROUTINES.iter().map(|routine| routine.name.to_owned()).collect(),
        small_routines: words(&["gemm"]),
        beta: 1.0,
        turns: 5,
        libraries: Vec::new(),
    };
    fn list<T: std::str::FromStr>(word: &str) -> Result<Vec<T>, String> {
        let of = |item: &str| {
            item.trim().parse().map_err(|_| format!("`{item}` is not what belongs here"))
        };
        word.split(',').filter(|item| !item.is_empty()).map(of).collect()
    }
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else {
            options.libraries.push(word.into());
            continue;
        };
        let value = words.next().ok_or_else(|| format!("--{option} needs a value"))?;
        match option {
            "sizes" => options.sizes = list(&value)?,
            "small" => options.small = list(&value)?,
            "shapes" => options.shapes = list(&value)?,
            "ops" => options.ops = list(&value)?,
            "names" => options.names = list(&value)?,
            "threads" => options.threads = list(&value)?,
            "types" => options.types = list(&value)?,
            "routines" => options.routines = list(&value)?,
            "small-routines" => options.small_routines = list(&value)?,
            "clock" => OF_THREAD.store(value == "thread", Ordering::Relaxed),
            "beta" => options.beta = value.parse()?,
            "turns" => options.turns = value.parse()?,
            _ => {
                return Err(format!(
                    "there is no --{option}; the first lines of the source list the options"
                )
                .into());
            }
        }
    }
    Ok(options)
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let peers = Peer::own_and(&options.libraries)?;
    let named = |names: &[String], routine: &Routine| names.iter().any(|name| name == routine.name);
    head(&peers, &format!("{:8} {:>5} {:>3}", "routine", "n", "thr"));
    for &kind in &options.types {
        for routine in ROUTINES.iter().filter(|it| named(&options.routines, it)) {
            for &n in &options.sizes {
                for &threads in &options.threads {
                    large(&peers, routine, (kind, n, threads), &options);
                }
            }
        }
    }
    head(&peers, &format!("{:14} {:>2} {:>3} {:>3} {:>3}", "small", "op", "m", "n", "k"));
    for &kind in &options.types {
        for routine in ROUTINES.iter().filter(|it| named(&options.small_routines, it)) {
            let squares = options.small.iter().map(|&n| Shape(n, n, n));
            let others = options.shapes.iter().copied().filter(|_| routine.name == "gemm");
            for shape in squares.chain(others) {
                small(&peers, routine, (kind, shape), &options);
            }
        }
    }
    Ok(())
}

/// Prints the names of what is compared.
fn head(peers: &[Peer], first: &str) {
    print!("{first}");
    peers.iter().for_each(|peer| print!(" {:>14}", peer.name));
    println!(" {:>8}", "of best");
}

/// The least time of that many calls of each library; the libraries are interleaved.
fn least(
    peers: &[Peer],
    call: Call,
    name: &str,
    given: &Operands,
    (threads, turns, calls): (i32, usize, usize),
) -> Vec<Option<Duration>> {
    let mut best = vec![None; peers.len()];
    let mut on = Operands {
        a: given.a.clone(),
        b: given.b.clone(),
        c: given.c.clone(),
        tau: given.tau.clone(),
        pivots: given.pivots.clone(),
        work: given.work.clone(),
        ..*given
    };
    for turn in 0..=turns {
        for (peer, best) in peers.iter().zip(&mut best) {
            peer.use_threads(threads);
            let time = time(peer, call, name, given, &mut on, calls);
            // The first turn warms up.
            if turn > 0 {
                *best = time.into_iter().chain(*best).min();
            }
        }
    }
    best
}

/// Prints what was measured, of which the larger or the smaller is better.
fn cells(figures: &[Option<f64>], larger: bool) {
    for figure in figures {
        match figure {
            Some(figure) => print!(" {figure:14.2}"),
            None => print!(" {:>14}", "-"),
        }
    }
    let quotient = |own: f64, other: f64| if larger { own / other } else { other / own };
    let others = figures.iter().skip(1).flatten();
    let least =
        figures[0].and_then(|own| others.map(|&other| quotient(own, other)).reduce(f64::min));
    match least {
        Some(least) => println!(" {least:7.2}x"),
        None => println!(),
    }
}

/// Measures one routine and prints its line.
fn large(
    peers: &[Peer],
    routine: &Routine,
    (kind, n, threads): (char, usize, i32),
    options: &Options,
) {
    let given = operands(kind, (n, n, n), options.ops[0].0, options.beta);
    let name = format!("{kind}{}_", routine.name);
    let best = least(peers, routine.call, &name, &given, (threads, options.turns, 1));
    if best.iter().all(Option::is_none) {
        return;
    }
    let of_type = if matches!(kind, 'c' | 'z') { 4.0 } else { 1.0 };
    let rate = |time: &Option<Duration>| {
        time.map(|time| (routine.operations)(n as f64) * of_type / time.as_secs_f64() / 1e9)
    };
    let rates: Vec<Option<f64>> = best.iter().map(rate).collect();
    print!("{kind}{:7} {n:5} {threads:3}", routine.name);
    cells(&rates, true);
}

/// Measures one routine of small operands and prints its lines.
fn small(
    peers: &[Peer],
    routine: &Routine,
    (kind, Shape(m, n, k)): (char, Shape),
    options: &Options,
) {
    for name in &options.names {
        for ops in &options.ops {
            let (name, call): (_, Call) = match name.as_str() {
                "c" if routine.name == "gemm" => (format!("cblas_{kind}gemm"), call_c),
                _ => (format!("{kind}{}_", routine.name), routine.call),
            };
            let mut given = operands(kind, (m, n, k), ops.0, options.beta);
            if matches!(routine.name, "trmm" | "trsm") {
                given.a = identity(kind, n);
            }
            // About a tenth of a millisecond: few are disturbed.
            let calls = (300_000 / (m * n * k + 100)).clamp(20, 2000);
            let best = least(peers, call, &name, &given, (1, 15 * options.turns, calls));
            let each =
                |time: &Option<Duration>| time.map(|time| time.as_secs_f64() * 1e9 / calls as f64);
            let times: Vec<Option<f64>> = best.iter().map(each).collect();
            print!("{name:14} {} {m:3} {n:3} {k:3}", String::from_utf8_lossy(&ops.0));
            cells(&times, false);
        }
    }
}
