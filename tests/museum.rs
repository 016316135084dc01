//! A museum of broken kernels: the mistakes of texts, rebuilt, run on the emulator, caught and named.
//!
//! Each piece is a tiled kernel with one defect. Pieces that break the rules of threads and memory are
//! stopped by the emulator, which names the line; the others are caught by the checker. What each
//! leaves in C with the emulator's checks off is put before the diagnosis.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a piece stands as the text that it is from has it, and only its mistake is unsound"
)]

#[path = "museum/column_without_block.rs"]
mod column_without_block;
#[path = "museum/grid_cut_short.rs"]
mod grid_cut_short;
#[path = "museum/hopper.rs"]
mod hopper;
#[path = "museum/load_loop_ends_early.rs"]
mod load_loop_ends_early;
#[path = "museum/no_barrier_before_overwrite.rs"]
mod no_barrier_before_overwrite;
#[path = "museum/no_barrier_before_use.rs"]
mod no_barrier_before_use;
#[path = "museum/no_tail.rs"]
mod no_tail;
#[path = "museum/store_without_guard.rs"]
mod store_without_guard;
#[path = "museum/sum_in_global_memory.rs"]
mod sum_in_global_memory;
#[path = "museum/tile_read_transposed.rs"]
mod tile_read_transposed;
#[path = "museum/width_of_tile_as_width_of_matrix.rs"]
mod width_of_tile_as_width_of_matrix;

use std::sync::atomic::{AtomicPtr, Ordering};

use cuda_std::emulate::{self, Buffer, EmulationError, Launch, Site};
use lab::Problem;
use lab::fill::{Distribution, fill};
use lab::verify::{Checker, Diagnosis, Evidence, Method, Pattern, diagnose};

/// The tiles of A and B that a block shares.
type Tiles<const W: usize> = [[[f32; W]; W]; 2];

/// A kernel on packed row-major operands: m, n, k, A, B, C.
type Kernel = unsafe fn(usize, usize, usize, *const f32, *const f32, *mut f32);

/// Who sees that a piece is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Caught {
    /// The emulator: two threads touch one word with no barrier between.
    Race,
    /// The emulator: two threads write one element of C, or one writes beside it.
    Overlap,
    /// The checker alone: every access is in order, and the numbers are wrong.
    Checker,
}

impl Caught {
    fn name(self) -> &'static str {
        match self {
            Self::Race => "emulator: race on shared memory",
            Self::Overlap => "emulator: two writes to one element",
            Self::Checker => "checker",
        }
    }
}

/// A broken kernel and what is known of it.
struct Piece {
    name: &'static str,
    /// Width of its tiles, and of its blocks.
    width: usize,
    /// Sizes m, n, k that show the defect.
    sizes: (usize, usize, usize),
    kernel: Kernel,
    /// Its file, in which `// wrong` marks the line that the emulator names.
    source: &'static str,
    /// Whether the defect is in the launch: a grid of whole tiles only.
    cut_grid: bool,
    caught: Caught,
    /// What the diagnosis must say first.
    pattern: fn() -> Pattern,
}

const PIECES: [&Piece; 10] = [
    &load_loop_ends_early::PIECE,
    &tile_read_transposed::PIECE,
    &sum_in_global_memory::PIECE,
    &no_tail::PIECE,
    &store_without_guard::PIECE,
    &column_without_block::PIECE,
    &grid_cut_short::PIECE,
    &width_of_tile_as_width_of_matrix::PIECE,
    &no_barrier_before_use::PIECE,
    &no_barrier_before_overwrite::PIECE,
];

/// Operands, and C before the run with room behind it for stray stores.
struct Operands {
    problem: Problem<f32>,
    a: Vec<f32>,
    b: Vec<f32>,
    before: Vec<f32>,
}

impl Operands {
    fn new(piece: &Piece, distribution: Distribution) -> Self {
        let (m, n, k) = piece.sizes;
        let drawn = |rows: usize, cols: usize, distribution, stream| {
            let mut data = vec![0.0; rows * cols];
            fill(&mut data, cols, cols, distribution, 3, stream);
            data
        };
        Self {
            problem: Problem::new(m, n, k),
            a: drawn(m, k, distribution, 0),
            b: drawn(k, n, distribution, 1),
            before: drawn(m + piece.width, n, Distribution::Int, 2),
        }
    }
}

impl Piece {
    /// Runs it on the emulator; C is returned whether or not it was stopped.
    fn run(&self, operands: &Operands, checked: bool) -> (Result<(), EmulationError>, Vec<f32>) {
        let (m, n, k) = self.sizes;
        let Operands { a, b, before, .. } = operands;
        let mut c = before.clone();
        let small = |size: usize| u32::try_from(size).expect("a piece is small");
        let width = small(self.width);
        let blocks = |size: usize| match self.cut_grid {
            true => small(size) / width,
            false => small(size).div_ceil(width),
        };
        let own = if checked { &mut c[..m * n] } else { &mut c[..] };
        let launch = Launch::new((blocks(n), blocks(m), 1), (width, width, 1))
            .with_shared_bytes(2 * self.width * self.width * size_of::<f32>())
            .with_buffer(Buffer::input("A", a))
            .with_buffer(Buffer::input("B", b))
            .with_buffer(Buffer::output("C", own));
        let launch = Launch { checked, ..launch };
        let pointer = AtomicPtr::new(c.as_mut_ptr());
        let body = || {
            let c = pointer.load(Ordering::Relaxed);
            // SAFETY: a piece reads A and B with guards, and C lies with a row of tiles more in a
            // buffer of its own: what goes wrong stays in it. One thread runs all blocks.
            unsafe { (self.kernel)(m, n, k, a.as_ptr(), b.as_ptr(), c) };
        };
        // Blocks one after the other, so that the result is the same each time.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread starts");
        let result = pool.install(|| emulate::run(&launch, body));
        c.truncate(m * n);
        (result, c)
    }

    /// The number of the line that is wrong.
    fn line(&self) -> usize {
        let marked = |line: &str| line.ends_with("// wrong");
        let at = self.source.lines().position(marked).expect("a line is marked");
        assert_eq!(self.source.lines().filter(|line| marked(line)).count(), 1, "{}", self.name);
        at + 1
    }

    /// Whether a report names the line that is wrong.
    fn at_fault(&self, site: &Site) -> bool {
        site.at.file().ends_with(&format!("{}.rs", self.name))
            && site.at.line() as usize == self.line()
    }

    /// What the diagnosis says of its result, the best first.
    fn diagnoses(&self, distribution: Distribution) -> Vec<Diagnosis> {
        let operands = Operands::new(self, distribution);
        let (result, c) = self.run(&operands, false);
        assert_eq!(result, Ok(()), "{}", self.name);
        let Operands { problem, a, b, before } = &operands;
        let evidence = Evidence { c_before: before, ..Evidence::new(problem, a, b, &c) };
        diagnose(&evidence).expect("buffers fit").expect("the result is wrong").diagnoses
    }
}

/// The emulator or the checker sees it, and the diagnosis names it.
fn is_caught_and_named(piece: &Piece) {
    let operands = Operands::new(piece, Distribution::Uniform);
    let (result, c) = piece.run(&operands, true);
    match (piece.caught, result) {
        (Caught::Checker, Ok(())) => {
            let Operands { problem, a, b, .. } = &operands;
            let checker = Checker::new(problem, a, b, &[], Method::Full, 0).expect("operands fit");
            assert!(!checker.check(&c).ok, "{} passes", piece.name);
        }
        (Caught::Race, Err(EmulationError::Race { first, second, .. })) => {
            let sites = [first.site, second.site];
            assert!(sites.iter().any(|site| piece.at_fault(site)), "{}: {sites:?}", piece.name);
        }
        (Caught::Overlap, Err(EmulationError::OverlappingWrites { second, .. })) => {
            assert!(piece.at_fault(&second.site), "{}: {second}", piece.name);
        }
        (expected, found) => panic!("{}: expected {expected:?}, got {found:?}", piece.name),
    }
    for distribution in [Distribution::Position, Distribution::Int, Distribution::Uniform] {
        let diagnoses = piece.diagnoses(distribution);
        let first = diagnoses.first().expect("a pattern is named");
        assert_eq!(
            first.pattern,
            (piece.pattern)(),
            "{}, {distribution}: {diagnoses:?}",
            piece.name
        );
        assert!(first.confidence > 0.9, "{}, {distribution}: {first}", piece.name);
    }
}

/// One test for each piece.
macro_rules! pieces {
    ($($name:ident),+ $(,)?) => {
        mod piece {
            $(
                #[test]
                fn $name() {
                    super::is_caught_and_named(&super::$name::PIECE);
                }
            )+
        }
    };
}

pieces! {
    load_loop_ends_early,
    tile_read_transposed,
    sum_in_global_memory,
    no_tail,
    store_without_guard,
    column_without_block,
    grid_cut_short,
    width_of_tile_as_width_of_matrix,
    no_barrier_before_use,
    no_barrier_before_overwrite,
}

/// What the head of a piece's file says: where it was seen, and what is wrong.
fn head(piece: &Piece) -> (String, String) {
    let head: Vec<&str> = piece.source.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let mut parts = head
        .split(|line| line.is_empty())
        .map(|lines| lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" "));
    let mut part = || parts.next().expect("two paragraphs");
    let (seen, wrong) = (part(), part());
    let seen = seen.strip_prefix("Seen ").expect("the first sentence says where");
    (seen.trim_end_matches('.').to_owned(), wrong.trim_end_matches('.').to_owned())
}

/// The table of `docs/museum.md` is what the pieces' files and a run say.
#[test]
fn the_document_shows_what_a_run_says() {
    let document = include_str!("../docs/museum.md");
    let rows = PIECES.map(|piece| {
        let (seen, wrong) = head(piece);
        let said = piece.diagnoses(Distribution::Position).swap_remove(0).explanation;
        let catches = piece.caught.name();
        let name = piece.name;
        format!("| [`{name}`](../tests/museum/{name}.rs) | {wrong} | {seen} | {catches} | {said} |")
    });
    let shown: Vec<&str> = document.lines().filter(|line| line.starts_with("| [`")).collect();
    assert_eq!(shown, rows, "the table should be\n{}\n", rows.join("\n"));
}
