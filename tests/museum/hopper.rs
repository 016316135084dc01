//! Defects of kernels whose copies and products go on by themselves, planted in kernels of the registry.
//!
//! An exhibit names an instruction by its line and says what is wrong with it. The kernel then runs as if it were so:
//! once with the emulator's checks, which report it, and once without, for the numbers that it leaves in C.

use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use cuda_std::emulate::{Action, Change, Defect, Event, Instruction, Observer};
use gemm_spec::f16;
use kernels_gpu::{KERNELS, Kernel};
use lab::emulate::{self, Options};
use lab::fill::{Distribution, fill};
use lab::verify::{Checker, Evidence, Method, diagnose};
use lab::{Error, Problem, Scalar as _};

/// Products of f16 with sums and a C of f32.
type Types = (f16, f32);

/// A defect, and where it is planted.
struct Exhibit {
    name: &'static str,
    /// What is wrong, for the document.
    wrong: &'static str,
    kernel: &'static str,
    instruction: &'static str,
    /// What its line in the source contains; of several such lines it is the one that a thread comes to first.
    line: &'static str,
    change: Change,
    sizes: (usize, usize, usize),
}

const EXHIBITS: [Exhibit; 12] = [
    Exhibit {
        name: "full_not_awaited",
        wrong: "Nobody waits until a stage is full, so that products read what copies have not brought yet",
        kernel: "tensor_128x128",
        instruction: "mbarrier.try_wait",
        line: "mbarrier::wait(self.full_barrier()",
        change: Change::Missing,
        sizes: (128, 128, 650),
    },
    Exhibit {
        name: "phase_not_flipped",
        wrong: "A stage is awaited with the parity of the other phase, which lets through who comes a lap too early",
        kernel: "tensor_128x128",
        instruction: "mbarrier.try_wait",
        line: "mbarrier::wait(self.full_barrier()",
        change: Change::Flipped(1, 1),
        sizes: (128, 128, 650),
    },
    Exhibit {
        name: "empty_not_awaited",
        wrong: "The producer does not wait until a stage is empty, and copies into what products still read",
        kernel: "tensor_128x128",
        instruction: "mbarrier.try_wait",
        line: "mbarrier::wait(self.empty_barrier()",
        change: Change::Missing,
        sizes: (128, 128, 650),
    },
    Exhibit {
        name: "stage_never_released",
        wrong: "The consumers do not say that they have read a stage, for which the producer waits for ever",
        kernel: "tensor_128x128",
        instruction: "mbarrier.arrive",
        line: "mbarrier::arrive(empty)",
        change: Change::Missing,
        sizes: (128, 128, 650),
    },
    Exhibit {
        name: "bytes_too_few",
        wrong: "A stage expects 128 bytes fewer than its copies bring",
        kernel: "tensor_128x128",
        instruction: "mbarrier.arrive",
        line: "mbarrier::arrive_and_expect_tx(",
        change: Change::Added(1, -128),
        sizes: (128, 128, 650),
    },
    Exhibit {
        name: "product_not_awaited",
        wrong: "The sums are stored while the last product may still be under way",
        kernel: "tensor_64x128",
        instruction: "wgmma.wait_group",
        line: "",
        change: Change::Missing,
        sizes: (64, 128, 200),
    },
    Exhibit {
        name: "sums_start_anew",
        wrong: "A product starts its sums from zero where it has to add to them",
        kernel: "tensor_64x128",
        instruction: "wgmma.mma_async",
        line: "",
        change: Change::Flipped(2, 1),
        sizes: (64, 128, 192),
    },
    Exhibit {
        name: "tile_not_swizzled",
        wrong: "The descriptor of A says that its tile is not swizzled, which TMA has swizzled",
        kernel: "tensor_64x128",
        instruction: "wgmma.mma_async",
        line: "",
        change: Change::Flipped(0, 3 << 62),
        sizes: (64, 128, 200),
    },
    Exhibit {
        name: "box_one_line_low",
        wrong: "The box of A begins a line below the tile",
        kernel: "tensor_64x128",
        instruction: "cp.async.bulk.tensor",
        line: "",
        change: Change::Added(3, 1),
        sizes: (64, 128, 192),
    },
    Exhibit {
        name: "stored_beside",
        wrong: "The boxes of C are stored eight columns to the right of their tile",
        kernel: "tensor_128x128",
        instruction: "cp.async.bulk.tensor.global",
        line: "tensor::store(",
        change: Change::Added(2, 8),
        sizes: (128, 128, 200),
    },
    Exhibit {
        name: "no_proxy_fence",
        wrong: "A store by TMA reads what threads have written, with no fence between the two proxies",
        kernel: "tensor_128x128",
        instruction: "fence.proxy.async",
        line: "bulk::fence_proxy_async()",
        change: Change::Missing,
        sizes: (128, 128, 200),
    },
    Exhibit {
        name: "block_ends_early",
        wrong: "A block ends while others of its cluster may still read its sums",
        kernel: "tensor_split_128x128",
        instruction: "barrier.cluster",
        line: "cluster::sync_relaxed()",
        change: Change::Missing,
        sizes: (128, 128, 1300),
    },
];

/// The instructions that a run comes to.
#[derive(Default)]
struct Log(Mutex<Vec<Instruction>>);

impl Observer for Log {
    fn observe(&self, event: Event) {
        if let Action::Instruction(instruction) = event.action {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if !all.contains(&instruction) {
                all.push(instruction);
            }
        }
    }
}

/// The line of an instruction.
fn source(instruction: &Instruction) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join(instruction.at.file())).expect("a source of the tree");
    let line = text.lines().nth(instruction.at.line() as usize - 1);
    line.expect("a line of the source").to_owned()
}

struct Operands {
    problem: Problem<Types>,
    a: Vec<f16>,
    b: Vec<f16>,
}

impl Exhibit {
    fn kernel(&self) -> Kernel {
        let found = KERNELS.iter().copied().find(|spec| spec.id == self.kernel);
        found.expect("a kernel of the registry")
    }

    fn operands(&self) -> Operands {
        let (m, n, k) = self.sizes;
        let drawn = |rows: usize, cols: usize, stream| {
            let mut data = vec![f16::ZERO; rows * cols];
            fill(&mut data, cols, cols, Distribution::Int, 3, stream);
            data
        };
        Operands { problem: Problem::new(m, n, k), a: drawn(m, k, 0), b: drawn(k, n, 1) }
    }

    /// The defect, at its line.
    fn defect(&self, operands: &Operands) -> Defect {
        let log = Log::default();
        let Operands { problem, a, b } = operands;
        let mut c = vec![0.0; problem.m * problem.n];
        emulate::run_observed(self.options(true), self.kernel(), problem, a, b, &mut c, &log)
            .expect("the kernel is right");
        let all = log.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let is = |of: &&Instruction| of.name == self.instruction && source(of).contains(self.line);
        let found = all.iter().find(is);
        let instruction = *found.unwrap_or_else(|| panic!("{}: no such line", self.name));
        Defect { instruction, change: self.change }
    }

    fn options(&self, checked: bool) -> Options {
        Options { checked, multiprocessors: 1, ..Options::default() }
    }

    /// The report of the run with checks, by its variant, and what the numbers of one without them say.
    fn show(&self) -> (String, String) {
        let operands = self.operands();
        let defect = Some(self.defect(&operands));
        let Operands { problem, a, b } = &operands;
        // An element that nobody writes is recognised.
        let before = vec![f32::POISON; problem.m * problem.n];
        let run = |checked: bool| {
            let mut c = before.clone();
            let options = Options { defect, ..self.options(checked) };
            match emulate::run_with(options, self.kernel(), problem, a, b, &mut c) {
                Ok(()) => Ok(c),
                Err(Error::Emulation { fault, .. }) => Err(fault.kind()),
                Err(error) => panic!("{}: {error}", self.name),
            }
        };
        let report = run(true).err().unwrap_or_default();
        let numbers = match run(false) {
            Err(fault) => format!("none: `{fault}` ends it without checks, too"),
            Ok(c) => {
                let checker =
                    Checker::new(problem, a, b, &[], Method::Full, 0).expect("operands fit");
                let evidence = Evidence { c_before: &before, ..Evidence::new(problem, a, b, &c) };
                let found = diagnose(&evidence).expect("buffers fit");
                let first = found.and_then(|found| found.diagnoses.into_iter().next());
                match (checker.check(&c).ok, first) {
                    (true, _) => "they are right on the emulator".to_owned(),
                    (false, Some(first)) => first.explanation,
                    (false, None) => "wrong, in no pattern that has a name".to_owned(),
                }
            }
        };
        (report, numbers)
    }

    fn row(&self) -> String {
        let (report, numbers) = self.show();
        let report = match report.is_empty() {
            true => "checker".to_owned(),
            false => format!("emulator: `{report}`"),
        };
        let (name, wrong, kernel) = (self.name, self.wrong, self.kernel);
        format!("| `{name}` | {wrong} | `{kernel}` | {report} | {numbers} |")
    }
}

/// The table of `docs/museum.md` is what the runs say.
#[test]
fn the_document_shows_what_planted_defects_do() {
    let document = include_str!("../../docs/museum.md");
    let rows = EXHIBITS.map(|exhibit| exhibit.row());
    let shown: Vec<&str> = document.lines().filter(|line| line.starts_with("| `")).collect();
    assert_eq!(shown, rows, "the table should be\n{}\n", rows.join("\n"));
}
