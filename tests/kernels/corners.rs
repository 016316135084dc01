//! The corners of the tensor cores' sums, where no recorded product comes: least and greatest exponents, zeros of both
//! signs, infinities and NaNs.
//!
//! Each family draws lines of A and columns of B; every pair of them is a sum of its own, of four instructions with
//! sixteen products each. A GPU is compared with the emulator bit for bit:
//!
//! ```text
//! GEMM_REQUIRE_GPU=1 TESSERA_WRITE_CORNERS=corners.json \
//!     cargo test -p host --test kernels sums_as_the_emulator_does
//! ```
//!
//! The file gets every family's digest, how many sums differ, and some of these with their factors.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::{env, fs};

use gemm_spec::Element;
use kernels_gpu::Kernel;
use lab::{DType, Scalar, ScalarTypes};
use libtest_mimic::Failed;
use serde::Serialize;

use super::support::{Case, Operands, report};
use super::{Backend, Extent, digest, ensure};

/// Products of an instruction.
const DEPTH: usize = 16;
/// Instructions of a sum.
const INSTRUCTIONS: usize = 4;
/// Rows and columns that a GPU is given, of each family.
const MANY: usize = 256;
/// Those whose digests are recorded.
pub(super) const FEW: usize = 64;
/// Sums that differ and are written out, of each family.
const SHOWN: usize = 100;

/// How the factors of an instruction are drawn; all have either sign.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Every finite number.
    Any,
    /// Near one.
    One,
    /// Up to 2^24 below one.
    Low,
    /// The least exponents, with subnormal numbers.
    Least,
    /// Halfway from one to the least exponent: two of them make a product near it.
    Root,
    Subnormal,
    /// The greatest exponents.
    Most,
    Zero,
    /// Near one, a few infinite, some zero.
    Infinite,
    /// Near one, a few infinite or NaN.
    Special,
}

use Kind::{Any, Infinite, Least, Low, Most, One, Root, Special, Subnormal, Zero};

/// Sums that have something in common.
pub(super) struct Family {
    pub(super) name: &'static str,
    /// The factors of A and B in the first instruction, and in the others.
    first: [Kind; 2],
    others: [Kind; 2],
    /// How many of sixteen factors of A are not zero, about.
    kept: u64,
    /// Whether the second instruction takes away what the first has added.
    cancels: bool,
}

const fn family(name: &'static str, first: [Kind; 2], others: [Kind; 2], kept: u64) -> Family {
    Family { name, first, others, kept, cancels: false }
}

pub(super) const FAMILIES: [Family; 18] = [
    family("exponents of the whole range, few at once", [Any, Any], [Any, Any], 2),
    family("exponents of the whole range, many at once", [Any, Any], [Any, Any], 16),
    family("factors near one", [One, One], [One, One], 16),
    family("sums near the least number", [Least, Low], [Least, Low], 8),
    family("sums near the least exponent", [Root, Root], [Root, Root], 8),
    family("products below the least number", [Least, Least], [Least, Least], 8),
    family("subnormal factors", [Subnormal, Any], [Subnormal, Any], 8),
    family("subnormal factors alone", [Subnormal, Subnormal], [Subnormal, Subnormal], 8),
    family("the greatest exponents", [Most, Most], [Most, Most], 4),
    family("sums near the greatest number", [Most, One], [Most, One], 12),
    family("products of zeros", [Zero, Any], [Any, Zero], 16),
    family("zeros added to the least sums", [Least, Low], [Zero, Any], 8),
    family("zeros added to any sum", [Any, Any], [Zero, Any], 2),
    family("the least added to the greatest", [Most, One], [Least, One], 8),
    Family { cancels: true, ..family("sums that cancel", [Any, One], [Zero, Any], 6) },
    Family { cancels: true, ..family("the least sums cancel", [Root, Root], [Zero, Any], 6) },
    family("infinities", [Infinite, Infinite], [Infinite, Infinite], 16),
    family("infinities and NaNs", [Special, Infinite], [Special, One], 16),
];

/// Numbers that look random, the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 24) % end
    }

    /// A factor of a type with that many bits of fraction and values of the exponent's field.
    fn factor<E: Scalar>(&mut self, kind: Kind, (fraction_bits, fields): (u32, u64)) -> E {
        let bias = fields / 2;
        let (low, high) = match kind {
            Any => (0, fields - 1),
            One | Infinite | Special => (bias - 2, bias + 2),
            Low => (bias - bias.min(24), bias),
            Least => (0, 3),
            Root => (bias / 2 - bias.min(30) / 5, bias / 2 + bias.min(30) / 5),
            Most => (fields - 4, fields - 1),
            Subnormal | Zero => (0, 0),
        };
        let sign = if self.below(2) == 0 { 1.0 } else { -1.0 };
        let special = self.below(64);
        if matches!(kind, Infinite | Special) && special < 2 {
            let infinity = E::from_f64(sign * f64::INFINITY);
            if kind == Infinite || special == 0 {
                return infinity;
            }
            // Any bit of its fraction makes it a NaN, quiet by the highest of them.
            let bit = usize::try_from(self.below(u64::from(fraction_bits))).unwrap_or_default();
            return infinity.bit_flips().nth(bit).unwrap_or(infinity);
        }
        let field = low + self.below(high - low + 1);
        let fraction = self.below(1 << fraction_bits) as f64 / f64::from(1u32 << fraction_bits);
        let exponent = |field: u64| f64::exp2(field as f64 - bias as f64);
        let size = match field {
            _ if kind == Zero || kind == Infinite && special < 16 => 0.0,
            0 => fraction * exponent(1),
            field => (1.0 + fraction) * exponent(field),
        };
        E::from_f64(sign * size)
    }
}

/// Bits of the fraction, and values of the exponent's field but that of infinity.
fn format(dtype: DType) -> Option<(u32, u64)> {
    match dtype {
        DType::F16 => Some((10, 31)),
        DType::BF16 => Some((7, 255)),
        DType::F32 | DType::F64 | DType::I32 | DType::I8 => None,
    }
}

impl Family {
    /// Its operands: A row-major, and so is B.
    pub(super) fn draw<T: ScalarTypes>(&self, size: usize) -> Option<Operands<T>> {
        let format = format(T::TYPES.a())?;
        let steps = INSTRUCTIONS * DEPTH;
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let kinds = |step: usize| if step < DEPTH { self.first } else { self.others };
        let mut a = vec![T::A::ZERO; size * steps];
        for line in a.chunks_exact_mut(steps) {
            for (step, factor) in line.iter_mut().enumerate() {
                let kept = numbers.below(16) < self.kept;
                let kind = if kept { kinds(step)[0] } else { Zero };
                *factor = numbers.factor(kind, format);
            }
            if self.cancels {
                line.copy_within(..DEPTH, DEPTH);
            }
        }
        let mut b = vec![T::B::ZERO; steps * size];
        for (step, line) in b.chunks_exact_mut(size).enumerate() {
            for factor in line {
                *factor = numbers.factor(kinds(step)[1], format);
            }
        }
        if self.cancels {
            for at in 0..DEPTH * size {
                b[DEPTH * size + at] = T::B::from_f64(-b[at].to_f64());
            }
        }
        let problem = Case::new(size, size, steps).problem::<T>();
        Some(Operands { problem, a, b, c: Vec::new() })
    }

    /// What its case is called where its digest is recorded.
    pub(super) fn case(&self) -> String {
        format!("corners: {}", self.name)
    }
}

/// What is written of a family.
#[derive(Serialize)]
struct Outcome {
    sums: usize,
    differ: usize,
    digest: String,
    examples: Vec<Example>,
}

/// A sum that differs.
#[derive(Serialize)]
struct Example {
    row: usize,
    column: usize,
    gpu: String,
    emulator: String,
    /// For each instruction its products that are not of a zero and a finite number, as factors.
    products: Vec<Vec<String>>,
}

fn bits<E: Scalar>(value: E) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "each type here has its values in f32")]
    let single = value.to_f64() as f32;
    format!("{single:e} {:08x}", single.to_bits())
}

fn example<T: ScalarTypes>(
    operands: &Operands<T>,
    (row, column): (usize, usize),
    [gpu, emulator]: [T::C; 2],
) -> Example {
    let Operands { problem, a, b, .. } = operands;
    let product = |step: usize| {
        let (x, y) = (a[row * problem.k + step], b[step * problem.n + column]);
        let product = x.to_f64() * y.to_f64();
        (product != 0.0).then(|| format!("{} * {}", bits(x), bits(y)))
    };
    let instruction =
        |at: usize| (at * DEPTH..(at + 1) * DEPTH).filter_map(product).collect::<Vec<_>>();
    Example {
        row,
        column,
        gpu: bits(gpu),
        emulator: bits(emulator),
        products: (0..INSTRUCTIONS).map(instruction).collect(),
    }
}

/// What all entries that were compared so far have given, by symbol and family.
static ALL: Mutex<BTreeMap<String, BTreeMap<String, Outcome>>> = Mutex::new(BTreeMap::new());

/// The sums of the GPU are the emulator's, in every family.
pub(super) fn sums_as_the_emulator_does<T: ScalarTypes>(
    _: Backend,
    spec: Kernel,
    _: Extent,
) -> Result<(), Failed> {
    let symbol = spec.entry(T::TYPES).map_err(|reason| reason.to_string())?;
    let mut outcomes = BTreeMap::new();
    let mut failures = Vec::new();
    for family in &FAMILIES {
        let operands = family.draw::<T>(MANY).ok_or("factors of no 16 bits")?;
        let of =
            |backend: Backend| operands.run(|problem, a, b, c| backend.run(spec, problem, a, b, c));
        let (gpu, emulator) = (of(Backend::Gpu)?, of(Backend::Emulator)?);
        let differ: Vec<usize> =
            (0..gpu.len()).filter(|&at| !gpu[at].same_bits(emulator[at])).collect();
        let examples = differ
            .iter()
            .take(SHOWN)
            .map(|&at| example(&operands, (at / MANY, at % MANY), [gpu[at], emulator[at]]));
        let outcome = Outcome {
            sums: gpu.len(),
            differ: differ.len(),
            digest: digest(&operands.problem, &gpu),
            examples: examples.collect(),
        };
        if let Some(Example { gpu, emulator, .. }) = outcome.examples.first() {
            let (name, sums, differ) = (family.name, outcome.sums, outcome.differ);
            failures.push(format!(
                "{symbol}, {name}: {differ} of {sums} sums differ, as {gpu}, where the emulator has {emulator}"
            ));
        }
        outcomes.insert(family.name.to_owned(), outcome);
    }
    if let Some(path) = env::var_os("TESSERA_WRITE_CORNERS").filter(|path| !path.is_empty()) {
        let mut all = ALL.lock().map_err(|error| error.to_string())?;
        all.insert(symbol.to_owned(), outcomes);
        let text = serde_json::to_string_pretty(&*all).map_err(|error| error.to_string())?;
        fs::write(&path, text + "\n").map_err(|error| error.to_string())?;
    }
    report(failures).map_err(Failed::from)
}

/// The families reach what they are for: infinities, NaNs, subnormal sums and zeros of both signs.
pub(super) fn families_reach_the_corners() -> Result<(), String> {
    let spec = kernels_gpu::KERNELS.iter().copied().find(|spec| spec.id == "tensor_64x128");
    let spec = spec.ok_or("no such kernel")?;
    let mut found = [0; 5];
    for family in &FAMILIES {
        let operands = family.draw::<(gemm_spec::bf16, f32)>(FEW).ok_or("16 bits")?;
        let sums =
            operands.run(|problem, a, b, c| Backend::Emulator.run(spec, problem, a, b, c))?;
        let mut kinds: Vec<u32> = sums.iter().map(|sum| sum.to_bits()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let name = family.name;
        // What is cut to nothing is +0 alone.
        let few = matches!(
            name,
            "products of zeros" | "products below the least number" | "subnormal factors alone"
        );
        ensure(kinds.len() > 1 || few, &format!("{name}: {kinds:?}"))?;
        for sum in sums {
            let reached = [
                sum.is_infinite(),
                sum.is_nan(),
                sum.is_subnormal(),
                sum == 0.0,
                sum.abs() > f32::MAX / 2.0,
            ];
            for (found, reached) in found.iter_mut().zip(reached) {
                *found += usize::from(reached);
            }
        }
    }
    ensure(found.iter().all(|&number| number > 500), &format!("{found:?}"))
}
