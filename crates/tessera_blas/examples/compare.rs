//! Rates of this library and of others, interleaved: level 3, the factorisations, and small products.
//!
//! ```text
//! cargo run --release -p tessera-blas --example compare -- LIBRARY...
//!     --sizes 512,1024,2048,4096   squares
//!     --small 4,8,16,32            squares that are multiplied over and over
//!     --threads 1,2
//!     --types d                    of s, d, c and z
//!     --routines gemm,syrk,...     those below
//!     --turns 5                    the best of which counts
//! ```
//!
//! A library is a path such as `/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0`, with 32-bit integers. What
//! one lacks is left out. The numbers are GFLOP/s by the usual counts; the last column is this library's rate as a
//! multiple of the best other's. They mean something where nothing else runs.

#![expect(clippy::print_stdout, reason = "a table is what it is for")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use libloading::Library;

/// A pointer to whatever a routine wants one to.
type Any = *mut u8;

/// What a routine computes, and how it is called.
struct Routine {
    name: &'static str,
    /// Floating-point operations for real squares of that order.
    operations: fn(f64) -> f64,
    call: Call,
}

/// Calls a routine of a library by its name; an error is that there is none.
type Call = fn(&Library, &str, &mut Operands) -> Result<(), libloading::Error>;

/// Squares, scalars and integers.
struct Operands {
    n: i32,
    a: Vec<u8>,
    b: Vec<u8>,
    c: Vec<u8>,
    one: [u8; 16],
    tau: Vec<u8>,
    pivots: Vec<i32>,
    work: Vec<u8>,
    work_len: i32,
    info: i32,
}

/// Calls a routine with pointers, as Fortran does, the lengths of letters left out.
macro_rules! call {
    ($library:ident, $name:expr, $($argument:expr),*) => {{
        // SAFETY: a BLAS or LAPACK has a routine by this name that takes that many pointers and gives nothing.
        let routine = unsafe { $library.get::<unsafe extern "C" fn($(call!(@ $argument)),*)>($name.as_bytes()) }?;
        // SAFETY: the pointers are of operands that are large enough, of the routine's type.
        unsafe { routine($($argument),*) };
        Ok(())
    }};
    (@ $argument:expr) => { Any };
}

fn letter(letter: &'static [u8; 1]) -> Any {
    letter.as_ptr().cast_mut()
}

fn at<T>(value: &mut T) -> Any {
    (value as *mut T).cast()
}

const ROUTINES: [Routine; 8] = [
    Routine {
        name: "gemm",
        operations: |n| 2.0 * n * n * n,
        call: |library, name, on| {
            let (n, one) = (at(&mut on.n), at(&mut on.one));
            let (a, b, c) = (on.a.as_mut_ptr(), on.b.as_mut_ptr(), on.c.as_mut_ptr());
            let op = letter(b"N");
            call!(library, name, op, op, n, n, n, one, a, n, b, n, one, c, n)
        },
    },
    Routine {
        name: "syrk",
        operations: |n| n * n * n,
        call: |library, name, on| {
            let (n, one) = (at(&mut on.n), at(&mut on.one));
            let (a, c) = (on.a.as_mut_ptr(), on.c.as_mut_ptr());
            call!(library, name, letter(b"L"), letter(b"N"), n, n, one, a, n, one, c, n)
        },
    },
    Routine {
        name: "symm",
        operations: |n| 2.0 * n * n * n,
        call: |library, name, on| {
            let (n, one) = (at(&mut on.n), at(&mut on.one));
            let (a, b, c) = (on.a.as_mut_ptr(), on.b.as_mut_ptr(), on.c.as_mut_ptr());
            call!(library, name, letter(b"L"), letter(b"L"), n, n, one, a, n, b, n, one, c, n)
        },
    },
    Routine {
        name: "trmm",
        operations: |n| n * n * n,
        call: |library, name, on| {
            let (n, one) = (at(&mut on.n), at(&mut on.one));
            let (a, b, left, op) =
                (on.a.as_mut_ptr(), on.b.as_mut_ptr(), letter(b"L"), letter(b"N"));
            call!(library, name, left, left, op, op, n, n, one, a, n, b, n)
        },
    },
    Routine {
        name: "trsm",
        operations: |n| n * n * n,
        call: |library, name, on| {
            let (n, one) = (at(&mut on.n), at(&mut on.one));
            let (a, b, left, op) =
                (on.a.as_mut_ptr(), on.b.as_mut_ptr(), letter(b"L"), letter(b"N"));
            call!(library, name, left, left, op, op, n, n, one, a, n, b, n)
        },
    },
    Routine {
        name: "getrf",
        operations: |n| 2.0 / 3.0 * n * n * n,
        call: |library, name, on| {
            let (n, info, pivots) =
                (at(&mut on.n), at(&mut on.info), on.pivots.as_mut_ptr().cast());
            call!(library, name, n, n, on.a.as_mut_ptr(), n, pivots, info)
        },
    },
    Routine {
        name: "potrf",
        operations: |n| 1.0 / 3.0 * n * n * n,
        call: |library, name, on| {
            let (n, info) = (at(&mut on.n), at(&mut on.info));
            call!(library, name, letter(b"L"), n, on.a.as_mut_ptr(), n, info)
        },
    },
    Routine {
        name: "geqrf",
        operations: |n| 4.0 / 3.0 * n * n * n,
        call: |library, name, on| {
            let (n, info, len) = (at(&mut on.n), at(&mut on.info), at(&mut on.work_len));
            let (tau, work) = (on.tau.as_mut_ptr(), on.work.as_mut_ptr());
            call!(library, name, n, n, on.a.as_mut_ptr(), n, tau, work, len, info)
        },
    },
];

/// Elements of a type, as bytes: numbers between -1 and 1, those on the diagonal larger by the order.
fn elements(kind: char, n: usize, seed: u64) -> Vec<u8> {
    let parts = if matches!(kind, 'c' | 'z') { 2 } else { 1 };
    let mut bytes = Vec::new();
    for at in 0..n * n * parts {
        let mixed = (at as u64 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let is_diagonal = at % parts == 0 && (at / parts).is_multiple_of(n + 1);
        let value = (mixed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
            + if is_diagonal { n as f64 } else { 0.0 };
        match kind {
            's' | 'c' => bytes.extend(single(value).to_ne_bytes()),
            _ => bytes.extend(value.to_ne_bytes()),
        }
    }
    bytes
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
fn single(value: f64) -> f32 {
    value as f32
}

fn operands(kind: char, n: usize) -> Operands {
    let of_element = match kind {
        's' => 4,
        'z' => 16,
        _ => 8,
    };
    let mut one = [0; 16];
    match kind {
        's' | 'c' => one[..4].copy_from_slice(&1f32.to_ne_bytes()),
        _ => one[..8].copy_from_slice(&1f64.to_ne_bytes()),
    }
    let order = i32::try_from(n).unwrap_or(i32::MAX);
    Operands {
        n: order,
        a: elements(kind, n, 1),
        b: elements(kind, n, 2),
        c: elements(kind, n, 3),
        one,
        tau: vec![0; n * of_element],
        pivots: vec![0; n],
        work: vec![0; 128 * n * of_element],
        work_len: order.saturating_mul(128),
        info: 0,
    }
}

struct Peer {
    name: String,
    library: Library,
}

impl Peer {
    fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        // SAFETY: a library that the user has named; what its initialisers do is its own.
        let library = unsafe { Library::new(path) }
            .map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(Self {
            name: name.trim_start_matches("lib").split('.').next().unwrap_or_default().to_owned(),
            library,
        })
    }

    fn use_threads(&self, threads: i32) {
        for setter in [
            "tessera_set_num_threads",
            "openblas_set_num_threads",
            "MKL_Set_Num_Threads",
            "bli_thread_set_num_threads",
        ] {
            // SAFETY: the libraries' setters take one integer; that of BLIS has 64 bits, and the register is zero above.
            let set: Result<libloading::Symbol<'_, unsafe extern "C" fn(i64)>, _> =
                unsafe { self.library.get(setter.as_bytes()) };
            if let Ok(set) = set {
                // SAFETY: as above.
                unsafe { set(threads.into()) };
            }
        }
    }

    /// The time of one call, its operands as new; `None` where the library lacks the routine.
    fn time(
        &self,
        routine: &Routine,
        kind: char,
        given: &Operands,
        calls: usize,
    ) -> Option<Duration> {
        let name = format!("{kind}{}_", routine.name);
        let mut on = Operands {
            a: given.a.clone(),
            b: given.b.clone(),
            c: given.c.clone(),
            tau: given.tau.clone(),
            pivots: given.pivots.clone(),
            work: given.work.clone(),
            ..*given
        };
        let start = Instant::now();
        for _ in 0..calls {
            (routine.call)(&self.library, &name, &mut on).ok()?;
        }
        Some(start.elapsed() / u32::try_from(calls).unwrap_or(u32::MAX))
    }
}

/// The words after an option, or what is usual.
struct Options {
    sizes: Vec<usize>,
    small: Vec<usize>,
    threads: Vec<i32>,
    types: Vec<char>,
    routines: Vec<String>,
    turns: usize,
    libraries: Vec<PathBuf>,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        sizes: vec![512, 1024, 2048, 4096],
        small: vec![4, 8, 16, 32],
        threads: vec![1, 2],
        types: vec!['d'],
        routines: ROUTINES.iter().map(|routine| routine.name.to_owned()).collect(),
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
            "threads" => options.threads = list(&value)?,
            "types" => options.types = list(&value)?,
            "routines" => options.routines = list(&value)?,
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

/// This library, as it was built with the example.
fn own() -> Result<PathBuf, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let folder = program.parent().and_then(Path::parent).ok_or("the example is in no folder")?;
    let built = ["libtessera_blas.so", "deps/libtessera_blas.so"].map(|name| folder.join(name));
    let found = built.into_iter().find(|path| path.exists());
    found.ok_or_else(|| {
        "libtessera_blas.so is not built: cargo build --release -p tessera-blas".into()
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let mut peers = vec![Peer::open(&own()?)?];
    for path in &options.libraries {
        peers.push(Peer::open(path)?);
    }
    print!("{:8} {:>5} {:>3}", "routine", "n", "thr");
    peers.iter().for_each(|peer| print!(" {:>14}", peer.name));
    println!(" {:>8}", "of best");
    for &kind in &options.types {
        for routine in
            ROUTINES.iter().filter(|it| options.routines.iter().any(|name| name == it.name))
        {
            for &n in &options.sizes {
                for &threads in &options.threads {
                    line(&peers, routine, (kind, n, threads), options.turns, 1);
                }
            }
        }
        for &n in &options.small {
            let calls = (1usize << 22) / (n * n * n).max(1);
            line(&peers, &ROUTINES[0], (kind, n, 1), options.turns, calls.clamp(1, 100_000));
        }
    }
    Ok(())
}

/// Measures one routine and prints its line.
fn line(
    peers: &[Peer],
    routine: &Routine,
    (kind, n, threads): (char, usize, i32),
    turns: usize,
    calls: usize,
) {
    let given = operands(kind, n);
    let mut best = vec![None; peers.len()];
    for turn in 0..=turns {
        for (peer, best) in peers.iter().zip(&mut best) {
            peer.use_threads(threads);
            let time = peer.time(routine, kind, &given, calls);
            // The first turn warms up.
            if turn > 0 {
                *best = time.into_iter().chain(*best).min();
            }
        }
    }
    let of_type = if matches!(kind, 'c' | 'z') { 4.0 } else { 1.0 };
    let rate = |time: &Option<Duration>| {
        time.map(|time| (routine.operations)(n as f64) * of_type / time.as_secs_f64() / 1e9)
    };
    let rates: Vec<Option<f64>> = best.iter().map(rate).collect();
    print!("{kind}{:7} {n:5} {threads:3}", routine.name);
    for rate in &rates {
        match rate {
            Some(rate) => print!(" {rate:14.2}"),
            None => print!(" {:>14}", "-"),
        }
    }
    let others = rates.iter().skip(1).flatten().copied().fold(0.0, f64::max);
    match rates[0] {
        Some(own) if others > 0.0 => println!(" {:7.2}x", own / others),
        _ => println!(),
    }
}
