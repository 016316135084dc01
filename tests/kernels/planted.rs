//! Defects, planted: each instruction of a kernel for Hopper that orders something, missing or with another operand, is
//! reported, or shows in the result, or is known to change nothing on the emulator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use cuda_std::emulate::{Defect, Instruction};
use gemm_spec::{Arch, with_gemm_types};
use kernels_gpu::{KERNELS, Kernel};
use lab::ScalarTypes;
use lab::sanitize::{Instructions, Outcome, Planted, plant};
use libtest_mimic::Failed;

use super::support::report;
use super::{Backend, Extent};

/// Defects that nothing shows, of kernels of that name or those that begin with it.
struct Harmless {
    kernels: &'static str,
    name: &'static str,
    /// The end of the file.
    file: &'static str,
    /// The operand that is another; none where the instruction is missing.
    operand: Option<&'static str>,
    /// How many there are.
    defects: usize,
}

const fn harmless(
    kernels: &'static str,
    name: &'static str,
    file: &'static str,
    operand: Option<&'static str>,
    defects: usize,
) -> Harmless {
    Harmless { kernels, name, file, operand, defects }
}

const LEADING: [Option<&str>; 2] = [Some("descriptor of A"), Some("descriptor of B")];

const HARMLESS: &[Harmless] = &[
    // A hint.
    harmless("tensor_", "prefetch.tensormap", "tensor/multiply.rs", None, 3),
    harmless("tensor_128x128", "prefetch.tensormap", "tensor/multiply.rs", Some("map"), 2),
    // A thread that takes no registers, or fewer, has too few for its code, which only ptxas and a device know; that
    // nobody gives some back is found.
    harmless("", "setmaxnreg", "bf16x9/on_load.rs", None, 1),
    harmless("", "setmaxnreg", "limbs/product.rs", None, 1),
    harmless("", "setmaxnreg", "tensor/multiply.rs", None, 1),
    harmless("", "setmaxnreg", "tensor/pair.rs", None, 1),
    harmless("", "setmaxnreg", "tensor/pingpong.rs", None, 1),
    harmless("", "setmaxnreg", "tensor/split.rs", None, 1),
    harmless("batched_bf16x6", "setmaxnreg", "bf16x9/on_load.rs", Some("registers"), 2),
    harmless("bf16x9", "setmaxnreg", "limbs/product.rs", Some("registers"), 2),
    harmless("tensor_128x128", "setmaxnreg", "tensor/multiply.rs", Some("registers"), 1),
    harmless("tensor_pair_128x192", "setmaxnreg", "tensor/pair.rs", Some("registers"), 1),
    harmless("tensor_pingpong_64x256", "setmaxnreg", "tensor/pingpong.rs", Some("registers"), 1),
    harmless("tensor_split_64x128", "setmaxnreg", "tensor/split.rs", Some("registers"), 1),
    // No copy signals the barriers, for which alone it is.
    harmless("batched_bf16x6", "fence.mbarrier_init", "parts/pipeline.rs", None, 1),
    // Where a tile is K-major and swizzled, the instruction takes no notice of the leading offset.
    harmless("bf16x9", "wgmma.mma_async", "bf16x9/device.rs", LEADING[0], 4),
    harmless("bf16x9", "wgmma.mma_async", "bf16x9/device.rs", LEADING[1], 4),
    harmless("f16x3", "wgmma.mma_async", "f16x3/device.rs", LEADING[0], 6),
    harmless("f16x3", "wgmma.mma_async", "f16x3/device.rs", LEADING[1], 6),
    harmless("tensor_64x128", "wgmma.mma_async", "tensor/number.rs", LEADING[0], 1),
    // A fence more than there has to be.
    harmless("bf16x9", "wgmma.mma_async", "bf16x9/device.rs", Some("fence"), 3),
    harmless("f16x3", "wgmma.mma_async", "f16x3/device.rs", Some("fence"), 5),
    // The sums to which nothing is to be added are zeros.
    harmless("bf16x9", "wgmma.mma_async", "bf16x9/device.rs", Some("scale of D"), 1),
    harmless("f16x3", "wgmma.mma_async", "f16x3/device.rs", Some("scale of D"), 1),
    // A block has one tile: nobody fills the stages again that it has read last.
    harmless("tensor_split_", "mbarrier.arrive", "tensor/split.rs", None, 1),
    harmless("tensor_split_64x64", "mbarrier.arrive", "tensor/split.rs", Some("barrier"), 2),
    harmless("tensor_split_64x64", "mbarrier.arrive", "tensor/split.rs", Some("bytes"), 1),
    // It releases more than it has to.
    harmless("tensor_split_64x64", "barrier.cluster", "tensor/split.rs", Some("release"), 1),
    // C's elements of 16 bits are two boxes a row, of which each has a buffer of its own; the next tile waits for both.
    harmless("tensor_128x128", STORED, "tensor/store.rs", None, 1),
    harmless("tensor_pingpong_128x128", STORED, "tensor/store.rs", None, 1),
    harmless("tensor_batch_128x128", STORED, "tensor/store.rs", None, 2),
    harmless("tensor_groups_128x128", STORED, "tensor/store.rs", None, 2),
    // Here TMA stores all tiles or none; `has_groups_of_rows` has blocks that store in turns.
    harmless("tensor_groups_128x256", STORED, "tensor/store.rs", None, 1),
    harmless("tensor_64x64", STORED, "tensor/store.rs", None, 1),
    harmless("tensor_64x64", STORED, "tensor/store.rs", Some("pending"), 1),
    // The same; and where the boxes are even in number, a tile begins with the buffer that the one before has not ended
    // with, so that the newest group may be left.
    harmless("tensor_128x128", STORED, "tensor/store.rs", Some("pending"), 2),
    // A block is one warpgroup, whose products the emulator takes to be over for all its warps at once.
    harmless("tensor_64x128", "barrier.sync", "tensor/single_stage.rs", None, 1),
    harmless("tensor_64x64", "barrier.sync", "tensor/small_tile.rs", None, 1),
    // A tile is one subtile, and between two of them is the mainloop's barrier, where k is not zero.
    harmless("tensor_64x64", "bar.sync", "tensor/store.rs", None, 1),
];

const STORED: &str = "cp.async.bulk.wait_group.read";

/// A kernel and its instructions.
type Known = (Kernel, Vec<Instruction>);

/// The instructions of each kernel for Hopper, in the order of the registry.
fn all_instructions() -> Result<&'static [Known], String> {
    static ALL: OnceLock<Result<Vec<Known>, String>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let kernels = KERNELS.iter().filter(|spec| spec.arch == Arch::Sm90a);
        let of = |spec: &Kernel| {
            let entry = spec.entries.first().ok_or("no entries")?;
            let found = with_gemm_types!(entry.types, T => Instructions::of::<T>(*spec));
            Ok((*spec, found.map_err(|error| error.to_string())?))
        };
        kernels.map(of).collect()
    });
    all.as_deref().map_err(Clone::clone)
}

/// Leaves each instruction out, on one SM; and plants each other operand in those at lines that no kernel
/// before this one has.
fn planted_in<T: ScalarTypes>(spec: Kernel) -> Result<Vec<Planted>, String> {
    let before: Vec<Instruction> = all_instructions()?
        .iter()
        .take_while(|(other, _)| other.id != spec.id)
        .flat_map(|(_, instructions)| instructions.iter().copied())
        .collect();
    let planted =
        |defect: &Defect| defect.operand().is_none() || !before.contains(&defect.instruction);
    plant::<T>(spec, planted).map_err(|error| error.to_string())
}

/// The same, once for all tests that look at it.
fn found(spec: Kernel) -> Result<&'static [Planted], String> {
    static ALL: [OnceLock<Result<Vec<Planted>, String>>; KERNELS.len()] =
        [const { OnceLock::new() }; KERNELS.len()];
    let place = KERNELS.iter().position(|other| other.id == spec.id).ok_or("no such kernel")?;
    let entry = spec.entries.first().ok_or("no entries")?;
    let found =
        ALL[place].get_or_init(|| with_gemm_types!(entry.types, T => planted_in::<T>(spec)));
    found.as_deref().map_err(Clone::clone)
}

/// Each defect is reported, or shows in the result, or is known to change nothing here.
pub(super) fn hides_no_defect(_: Backend, spec: Kernel, _: Extent) -> Result<(), Failed> {
    let defects = found(spec)?;
    let mut failures = Vec::new();
    let mut unseen: Vec<&Defect> = defects
        .iter()
        .filter(|planted| planted.outcome.is_none())
        .map(|planted| &planted.defect)
        .collect();
    for of in HARMLESS.iter().filter(|of| spec.id.starts_with(of.kernels)) {
        let is = |defect: &Defect| {
            defect.instruction.name == of.name
                && defect.instruction.at.file().ends_with(of.file)
                && defect.operand() == of.operand
        };
        if !defects.iter().any(|planted| is(&planted.defect)) {
            continue;
        }
        let (known, rest): (Vec<&Defect>, Vec<&Defect>) =
            unseen.into_iter().partition(|defect| is(defect));
        unseen = rest;
        if known.len() != of.defects {
            let (found, name, file, operand) = (known.len(), of.name, of.file, of.operand);
            failures.push(format!(
                "{} with {name} in {file}, {operand:?}: nothing shows {found} defects, not {}",
                spec.id, of.defects
            ));
        }
    }
    failures.extend(unseen.iter().map(|defect| format!("{}: nothing shows {defect}", spec.id)));
    let reported = defects
        .iter()
        .filter(|planted| matches!(planted.outcome, Some(Outcome::Reported(_))))
        .count();
    if reported < 5 {
        failures.push(format!("{}: only {reported} defects were reported", spec.id));
    }
    report(failures).map_err(Failed::from)
}

/// The rows of the table of defects in `docs/emulator.md`: what is planted, and what shows it in some kernel.
fn rows() -> Result<Vec<String>, String> {
    let mut shown: BTreeMap<(&str, Option<&str>), BTreeSet<String>> = BTreeMap::new();
    for spec in KERNELS.iter().filter(|spec| spec.arch == Arch::Sm90a) {
        for Planted { defect, outcome } in found(*spec)? {
            let by = match outcome {
                Some(Outcome::Reported(fault)) => format!("`{}`", fault.kind()),
                Some(Outcome::OtherBits) => "wrong numbers".to_owned(),
                None => "nothing in some kernels".to_owned(),
            };
            shown.entry((defect.instruction.name, defect.operand())).or_default().insert(by);
        }
    }
    let row = |((name, operand), by): (&(&str, Option<&str>), &BTreeSet<String>)| {
        let what = operand.map_or("missing".to_owned(), |operand| format!("other {operand}"));
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        format!("| `{name}` | {what} | {} |", by.join(", "))
    };
    Ok(shown.iter().map(row).collect())
}

/// The document has the table that a run gives.
pub(super) fn the_document_shows_who_sees_defects() -> Result<(), String> {
    const HEAD: &str = "| instruction | what is planted | what shows it |";
    let document = include_str!("../../docs/emulator.md");
    let table = document.lines().skip_while(|line| *line != HEAD).skip(2);
    let shown: Vec<&str> = table.take_while(|line| line.starts_with('|')).collect();
    let rows = rows()?;
    if shown == rows {
        return Ok(());
    }
    Err(format!("the table should be\n{HEAD}\n|---|---|---|\n{}\n", rows.join("\n")))
}
