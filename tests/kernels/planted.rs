//! Defects, planted: each instruction of a kernel for Hopper, dropped, is reported, or shows in the result, or is known
//! to change nothing on the emulator.

use std::sync::{Mutex, PoisonError};

use cuda_std::emulate::{Action, Event, Instruction, Observer, Order};
use gemm_spec::split_k::KSharing;
use kernels_gpu::Kernel;
use lab::emulate::{self, Options};
use lab::{Error, ScalarTypes};
use libtest_mimic::Failed;

use super::support::{Case, Operands, report};
use super::{Backend, digest};

/// What is not planted: addresses, and reads of numbers, of which none orders anything.
const NOT_PLANTED: [&str; 2] = ["mapa.shared::cluster", "ld.shared::cluster"];

/// Instructions whose lack nothing shows, for kernels of that name or those that begin with it.
struct Harmless {
    kernels: &'static str,
    name: &'static str,
    /// The end of the file, and how many such lines of it.
    file: &'static str,
    lines: usize,
}

const fn harmless(
    kernels: &'static str,
    name: &'static str,
    file: &'static str,
    lines: usize,
) -> Harmless {
    Harmless { kernels, name, file, lines }
}

const HARMLESS: [Harmless; 8] = [
    // A hint.
    harmless("tensor_", "prefetch.tensormap", "tensor/multiply.rs", 3),
    // A thread that takes no registers has too few for its code, which only ptxas and a device know; that nobody gives
    // some back is found.
    harmless("", "setmaxnreg", "limbs/product.rs", 1),
    harmless("", "setmaxnreg", "tensor/multiply.rs", 1),
    harmless("", "setmaxnreg", "tensor/pair.rs", 1),
    harmless("", "setmaxnreg", "tensor/split.rs", 1),
    // A block has one tile: nobody fills the stages again that it has read last.
    harmless("tensor_split_", "mbarrier.arrive", "tensor/split.rs", 1),
    // C's elements of 16 bits are two boxes a row, of which each has a buffer of its own; the next tile waits for both.
    harmless("tensor_128x128", "cp.async.bulk.wait_group.read", "tensor/store.rs", 1),
    // A block is one warpgroup, whose products the emulator takes to be over for all its warps at once.
    harmless("tensor_64x128", "barrier.sync", "tensor/single_stage.rs", 1),
];

/// How a report of the emulator begins.
const REPORTED: &str = "reported: ";

/// The instructions that a run comes to, in their order.
#[derive(Default)]
struct Instructions(Mutex<Vec<Instruction>>);

impl Observer for Instructions {
    fn observe(&self, event: Event) {
        if let Action::Instruction(instruction) = event.action {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if !all.contains(&instruction) && !NOT_PLANTED.contains(&instruction.name) {
                all.push(instruction);
            }
        }
    }
}

/// More stages than the pipeline has, and three tiles for a block or several blocks for a tile; C where TMA stores it,
/// and where it does not.
fn shapes(spec: Kernel) -> Vec<Case> {
    let (m, n) = spec.launch.tile().map_or((8, 8), |tile| (tile.m as usize, tile.n as usize));
    let direct = |case: Case| Case { padding: [0, 0, 1], beta: 0.5, ..case };
    match spec.split_k {
        KSharing::Cluster { .. } => vec![Case::new(m, n, 1300), direct(Case::new(m, 2 * n, 1300))],
        KSharing::None | KSharing::Workspace { .. } => {
            vec![Case::new(m, 3 * n, 650), direct(Case::new(m, 2 * n, 650))]
        }
    }
}

/// Drops each instruction once, on one SM.
pub(super) fn lacks_no_instruction<T: ScalarTypes>(_: Backend, spec: Kernel) -> Result<(), Failed> {
    let mut defects: Vec<(Instruction, Option<String>)> = Vec::new();
    for case in shapes(spec) {
        let operands = Operands::<T>::draw(&case);
        let all = Instructions::default();
        let run = |dropped: Option<Instruction>, order: Order| {
            let options = Options { dropped, order, multiprocessors: 1, ..Options::default() };
            let found = operands.run(|problem, a, b, c| {
                let ran = emulate::run_with(options, spec, problem, a, b, c.as_mut_slice());
                ran.map_err(|error| {
                    let reported = matches!(error, Error::Emulation { .. });
                    format!("{}{error}", if reported { REPORTED } else { "" })
                })
            });
            found.map(|c| digest(&operands.problem, &c))
        };
        let right = run(None, Order::Late)?;
        operands.run(|problem, a, b, c| {
            emulate::run_observed(spec, problem, a, b, c.as_mut_slice(), &all)
                .map_err(|error| error.to_string())
        })?;
        for instruction in all.0.into_inner().unwrap_or_else(PoisonError::into_inner) {
            let place = match defects.iter().position(|(of, _)| *of == instruction) {
                Some(place) => place,
                None => {
                    defects.push((instruction, None));
                    defects.len() - 1
                }
            };
            if defects[place].1.is_some() {
                continue;
            }
            let orders = [Order::Late, Order::Starve(0), Order::Starve(1), Order::Early];
            defects[place].1 =
                orders.into_iter().find_map(|order| match run(Some(instruction), order) {
                    Ok(found) if found == right => None,
                    Ok(_) => Some("the result is another".to_owned()),
                    Err(what) => Some(what),
                });
        }
    }
    let mut failures = Vec::new();
    let mut unseen = 0;
    for (instruction, seen) in &defects {
        if seen.is_none() {
            println!("{} without {instruction}: nothing shows it", spec.id);
        }
        unseen += usize::from(seen.is_none());
    }
    for of in HARMLESS.iter().filter(|of| spec.id.starts_with(of.kernels)) {
        let is = |instruction: &Instruction| {
            instruction.name == of.name && instruction.at.file().ends_with(of.file)
        };
        let mut lines = defects.iter().filter(|(instruction, _)| is(instruction)).peekable();
        if lines.peek().is_some() {
            let found = lines.filter(|(_, seen)| seen.is_none()).count();
            unseen -= found;
            if found != of.lines {
                let (name, file) = (of.name, of.file);
                failures.push(format!(
                    "{} without {name} in {file}: nothing shows it for {found} lines, not {}",
                    spec.id, of.lines
                ));
            }
        }
    }
    if unseen > 0 {
        failures.push(format!("{}: nothing shows {unseen} more defects", spec.id));
    }
    let reported = defects
        .iter()
        .filter(|(_, seen)| seen.as_ref().is_some_and(|what| what.starts_with(REPORTED)))
        .count();
    if reported < 5 {
        failures.push(format!("{}: only {reported} defects were reported", spec.id));
    }
    report(failures).map_err(Failed::from)
}
