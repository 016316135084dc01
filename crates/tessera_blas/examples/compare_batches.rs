//! Times of batches of this library and of others, interleaved.
//!
//! ```text
//! cargo run --release -p tessera-blas --example compare_batches -- LIBRARY...
//!     --shapes 4,8,100x4x30,...    squares, or m by n by k
//!     --counts 10,1000,10000       products of a batch
//!     --threads 1,2
//!     --types s,d
//!     --turns 20                   of which the median counts
//! ```
//!
//! A library is a path, with 32-bit integers; its batches are those of `cblas_?gemm_batch_strided`, by column-major
//! matrices that follow each other. One that has `libxsmm_?mmdispatch` instead gives a function for the shape, which each
//! thread calls for its share of the products. A batch of more than [`MOST_BYTES`] is left out.
//!
//! The numbers are nanoseconds for a product; the last column is the best other's time over this library's. They mean
//! something where nothing else runs.

#![expect(clippy::print_stdout, reason = "a table is what it is for")]

mod peer;

use std::error::Error;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

use libloading::Library;

use peer::Peer;

/// Bytes that the matrices of a batch have at most.
const MOST_BYTES: usize = 2 << 30;
/// Multiply-adds of a turn at least: a shorter batch is computed several times.
const LEAST_WORK: usize = 1 << 22;

/// A type of real numbers and the names of its routines.
trait Number: Copy + Into<f64> + Send + Sync + 'static {
    const LETTER: char;
    /// The routine of LIBXSMM that gives a function for a shape.
    const DISPATCH: &'static [u8];
    fn of(value: f64) -> Self;
}

impl Number for f32 {
    const LETTER: char = 's';
    const DISPATCH: &'static [u8] = b"libxsmm_smmdispatch";
    #[expect(clippy::cast_possible_truncation, reason = "rounded")]
    fn of(value: f64) -> Self {
        value as f32
    }
}

impl Number for f64 {
    const LETTER: char = 'd';
    const DISPATCH: &'static [u8] = b"libxsmm_dmmdispatch";
    fn of(value: f64) -> Self {
        value
    }
}

/// `cblas_?gemm_batch_strided`.
type Strided<T> = unsafe extern "C" fn(
    i32,
    i32,
    i32,
    i32,
    i32,
    i32,
    T,
    *const T,
    i32,
    i32,
    *const T,
    i32,
    i32,
    T,
    *mut T,
    i32,
    i32,
    i32,
);
/// What LIBXSMM makes for a shape: `C += A * B`, or `C = A * B`.
type OfShape<T> = unsafe extern "C" fn(*const T, *const T, *mut T);
/// `libxsmm_?mmdispatch`.
type Dispatch<T> = unsafe extern "C" fn(
    i32,
    i32,
    i32,
    *const i32,
    *const i32,
    *const i32,
    *const T,
    *const T,
    *const i32,
    *const i32,
) -> Option<OfShape<T>>;

/// Sizes of a product, written `4x5x6`, or `4` for a square.
#[derive(Clone, Copy)]
struct Shape([usize; 3]);

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sizes: Result<Vec<usize>, _> = text.split('x').map(str::parse).collect();
        match sizes.as_deref() {
            Ok(&[n]) => Ok(Self([n; 3])),
            Ok(&[m, n, k]) => Ok(Self([m, n, k])),
            _ => Err(format!("`{text}` is no shape")),
        }
    }
}

struct Options {
    shapes: Vec<Shape>,
    counts: Vec<usize>,
    threads: Vec<usize>,
    types: Vec<char>,
    turns: usize,
    libraries: Vec<PathBuf>,
}

fn list<T: FromStr>(word: &str) -> Result<Vec<T>, String> {
    let of = |item: &str| item.parse().map_err(|_| format!("`{item}` is not what belongs here"));
    word.split(',').map(of).collect()
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        shapes: list("4,8,12,16,24,32,48,64,96,128,256")?,
        counts: vec![10, 100, 1000, 10000],
        threads: vec![1, 2],
        types: vec!['s', 'd'],
        turns: 20,
        libraries: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else {
            options.libraries.push(word.into());
            continue;
        };
        let value = words.next().ok_or_else(|| format!("--{option} needs a value"))?;
        match option {
            "shapes" => options.shapes = list(&value)?,
            "counts" => options.counts = list(&value)?,
            "threads" => options.threads = list(&value)?,
            "types" => options.types = list(&value)?,
            "turns" => options.turns = value.parse()?,
            _ => {
                let text = format!(
                    "there is no --{option}; the first lines of the source list the options"
                );
                return Err(text.into());
            }
        }
    }
    Ok(options)
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let peers = Peer::own_and(&options.libraries)?;
    print!("type {:>12} {:>6} {:>3}", "shape", "count", "thr");
    peers.iter().for_each(|peer| print!(" {:>19}", peer.name));
    println!(" {:>8}", "of best");
    for &kind in &options.types {
        for &Shape(shape) in &options.shapes {
            for &count in &options.counts {
                for &threads in &options.threads {
                    match kind {
                        's' => compare::<f32>(&peers, shape, count, threads, options.turns)?,
                        'd' => compare::<f64>(&peers, shape, count, threads, options.turns)?,
                        other => return Err(format!("there is no type {other}").into()),
                    }
                }
            }
        }
    }
    Ok(())
}

/// The matrices of a batch.
struct Batch<T> {
    shape: [usize; 3],
    count: usize,
    a: Vec<T>,
    b: Vec<T>,
    c: Vec<T>,
}

/// Measures one batch and prints its line.
fn compare<T: Number>(
    peers: &[Peer],
    shape: [usize; 3],
    count: usize,
    threads: usize,
    turns: usize,
) -> Result<(), Box<dyn Error>> {
    let [m, n, k] = shape;
    let lens = [m * k, k * n, m * n];
    if lens.iter().sum::<usize>() * count * size_of::<T>() > MOST_BYTES {
        return Ok(());
    }
    let drawn = |len: usize| -> Vec<T> { (0..len).map(|at| T::of((at as f64).sin())).collect() };
    let [a, b, c] = lens.map(|len| drawn(len * count));
    let mut batch = Batch { shape, count, a, b, c };
    let calls = (LEAST_WORK / (m * n * k * count).max(1)).clamp(1, 1000);
    let mut times = vec![Vec::new(); peers.len()];
    let mut results: Vec<Vec<T>> = Vec::new();
    for turn in 0..=turns {
        for (peer, times) in peers.iter().zip(&mut times) {
            peer.use_threads(i32::try_from(threads)?);
            let Some(call) = multiplier::<T>(&peer.library, shape, threads) else { continue };
            let start = Instant::now();
            for _ in 0..calls {
                call(&mut batch);
            }
            let time = start.elapsed().as_secs_f64() / (calls * count) as f64;
            // The first turn warms up, and shows that all compute the same.
            if turn > 0 {
                times.push(time * 1e9);
            } else {
                results.push(std::mem::replace(&mut batch.c, vec![T::of(0.0); m * n * count]));
            }
        }
    }
    check(&results, k)?;
    let median = |mut times: Vec<f64>| -> Option<f64> {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied()
    };
    let medians: Vec<Option<f64>> = times.into_iter().map(median).collect();
    print!("{:4} {:>12} {count:6} {threads:3}", T::LETTER, format!("{m}x{n}x{k}"));
    for median in &medians {
        match median {
            Some(median) => print!(" {median:19.1}"),
            None => print!(" {:>19}", "-"),
        }
    }
    let best = medians.iter().skip(1).flatten().copied().reduce(f64::min);
    match medians[0].zip(best) {
        Some((own, best)) => println!(" {:7.2}x", best / own),
        None => println!(),
    }
    Ok(())
}

/// Fails where the libraries' results differ by more than roundings.
fn check<T: Number>(results: &[Vec<T>], k: usize) -> Result<(), String> {
    let bound = 4.0 * (k as f64 + 1.0) * if T::LETTER == 's' { 1.2e-7 } else { 2.3e-16 };
    let Some((own, others)) = results.split_first() else { return Ok(()) };
    for (at, &own) in own.iter().enumerate() {
        for other in others {
            let apart = (own.into() - other[at].into()).abs();
            if apart > bound * k as f64 {
                return Err(format!("element {at} differs by {apart:e}"));
            }
        }
    }
    Ok(())
}

/// Computes a batch.
type Multiplier<T> = Box<dyn Fn(&mut Batch<T>)>;

/// How a library multiplies batches of a shape on some threads; `None` where it does not.
fn multiplier<T: Number>(
    library: &Library,
    shape: [usize; 3],
    threads: usize,
) -> Option<Multiplier<T>> {
    let [m, n, k] = shape.map(|size| i32::try_from(size).unwrap_or(i32::MAX));
    for prefix in ["", "scipy_"] {
        let name = format!("{prefix}cblas_{}gemm_batch_strided", T::LETTER);
        // SAFETY: a BLAS has a routine by this name with these parameters.
        if let Ok(routine) = unsafe { library.get::<Strided<T>>(name.as_bytes()) } {
            let routine = *routine;
            return Some(Box::new(move |batch| {
                let count = i32::try_from(batch.count).unwrap_or(i32::MAX);
                let (a, b, c) = (batch.a.as_ptr(), batch.b.as_ptr(), batch.c.as_mut_ptr());
                let (one, zero) = (T::of(1.0), T::of(0.0));
                let [of_a, of_b, of_c] = [m * k, k * n, m * n];
                // SAFETY: that many matrices of these sizes.
                unsafe {
                    routine(
                        102, 111, 111, m, n, k, one, a, m, of_a, b, k, of_b, zero, c, m, of_c,
                        count,
                    );
                }
            }));
        }
    }
    // SAFETY: LIBXSMM's routine by this name has these parameters.
    let dispatch = *unsafe { library.get::<Dispatch<T>>(T::DISPATCH) }.ok()?;
    let (one, zero) = (T::of(1.0), T::of(0.0));
    let none = std::ptr::null();
    // SAFETY: scalars, and nothing for what is as usual.
    let of_shape = unsafe { dispatch(m, n, k, none, none, none, &one, &zero, none, none) }?;
    Some(Box::new(move |batch: &mut Batch<T>| {
        let [m, n, k] = batch.shape;
        let share = batch.count.div_ceil(threads);
        let part = |a: &[T], b: &[T], c: &mut [T]| {
            let products = a.chunks(m * k).zip(b.chunks(k * n)).zip(c.chunks_mut(m * n));
            for ((a, b), c) in products {
                // SAFETY: matrices of the shape.
                unsafe { of_shape(a.as_ptr(), b.as_ptr(), c.as_mut_ptr()) };
            }
        };
        if threads == 1 {
            return part(&batch.a, &batch.b, &mut batch.c);
        }
        let parts = batch.a.chunks(m * k * share).zip(batch.b.chunks(k * n * share));
        rayon::scope(|scope| {
            for ((a, b), c) in parts.zip(batch.c.chunks_mut(m * n * share)) {
                scope.spawn(move |_| part(a, b, c));
            }
        });
    }))
}
