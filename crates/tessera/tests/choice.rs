//! The choice of a kernel without measured figures is the recorded one, on a grid of shapes and GPUs.
//!
//! `RECORD_CHOICES=1 cargo test -p tessera --test choice` writes the record anew, after a change that means
//! to change choices.

use std::fmt::Write as _;
use std::path::Path;

use gemm_spec::DeviceLimits;
use tessera::select::DeviceModel;
use tessera::{Accuracy, GemmTypes, Problem, bf16, f16};

/// GPUs by name, compute capability, SMs, clock in MHz and KiB of shared memory of a block.
const GPUS: [Device; 6] = [
    ("V100", (7, 0), 80, 1530, 96),
    ("A100", (8, 0), 108, 1410, 163),
    ("RTX-4090", (8, 9), 128, 2520, 99),
    ("H100-PCIe", (9, 0), 114, 1755, 227),
    ("H200", (9, 0), 132, 1980, 227),
    ("RTX-5090", (12, 0), 170, 2407, 99),
];

const SIDES: [usize; 11] = [1, 16, 17, 64, 100, 256, 500, 1000, 2048, 4096, 10_240];
const DEPTHS: [usize; 7] = [1, 64, 256, 512, 1000, 4096, 9001];
/// Bytes of free memory that few of the products fit.
const LITTLE: u64 = 200 << 20;

type Device = (&'static str, (u32, u32), u32, u32, u32);

fn model((_, compute_capability, multiprocessors, clock_mhz, kib): Device) -> DeviceModel {
    let limits = DeviceLimits {
        compute_capability,
        max_threads_per_block: 1024,
        max_shared_bytes: kib * 1024,
        multiprocessors,
    };
    DeviceModel::new(limits, clock_mhz)
}

/// The kernel for a problem, with the ranges of k where it has several.
fn choice<T: GemmTypes>(
    model: &DeviceModel,
    free: u64,
    accuracy: Accuracy,
    [m, n, k]: [usize; 3],
) -> String {
    let problem = Problem::<T>::new(m, n, k);
    let Some(kernel) = model.best_kernel(&problem, free, accuracy) else {
        return "none".to_owned();
    };
    match model.ranges(kernel.spec(), &problem) {
        1 => kernel.id.to_owned(),
        ranges => format!("{}/{ranges}", kernel.id),
    }
}

/// Runs of equal texts, each with what it is of: from the first to the last.
fn runs(texts: &[(usize, String)]) -> impl Iterator<Item = (String, &str)> {
    texts.chunk_by(|(_, one), (_, other)| one == other).map(|run| {
        let of = match run {
            [(only, _)] => only.to_string(),
            _ => format!("{}-{}", run[0].0, run[run.len() - 1].0),
        };
        (of, run[0].1.as_str())
    })
}

/// The choices for products of a k: for each m, or for several that share them, those for each n.
fn of_k<T: GemmTypes>(model: &DeviceModel, free: u64, accuracy: Accuracy, k: usize) -> String {
    let of = |m, n| (n, choice::<T>(model, free, accuracy, [m, n, k]));
    let rows = SIDES.map(|m| {
        let row = SIDES.map(|n| of(m, n));
        let row: Vec<String> = runs(&row).map(|(n, choice)| format!("{n}:{choice}")).collect();
        (m, row.join(" "))
    });
    runs(&rows).map(|(m, row)| format!("  {m} x {row}\n")).collect()
}

fn record() -> String {
    let mut out = String::new();
    for gpu in GPUS {
        let model = model(gpu);
        for (free, k) in DEPTHS.map(|k| (u64::MAX, k)).into_iter().chain([(LITTLE, 4096)]) {
            let memory = if free == u64::MAX { "" } else { ", 200 MiB free" };
            let mut add = |types: &str, accuracy: Accuracy, choices: String| {
                writeln!(out, "{}: {types}, {accuracy}, k = {k}{memory}\n{choices}", gpu.0)
                    .expect("a string takes all text");
            };
            for accuracy in [Accuracy::Fp32, Accuracy::Componentwise] {
                add("f32", accuracy, of_k::<f32>(&model, free, accuracy, k));
            }
            // Little memory is little for every type.
            if free == u64::MAX {
                let fp32 = Accuracy::Fp32;
                add("f16", fp32, of_k::<f16>(&model, free, fp32, k));
                add("bf16_f32", fp32, of_k::<(bf16, f32)>(&model, free, fp32, k));
                add("f64", fp32, of_k::<f64>(&model, free, fp32, k));
                add("i32", fp32, of_k::<i32>(&model, free, fp32, k));
                add("i8", fp32, of_k::<i8>(&model, free, fp32, k));
            }
        }
    }
    out
}

#[test]
fn without_figures_choices_are_the_recorded_ones() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/choices.txt");
    let now = record();
    if std::env::var_os("RECORD_CHOICES").is_some() {
        std::fs::write(&path, &now).unwrap();
    }
    let recorded = std::fs::read_to_string(&path).unwrap();
    let differ: Vec<String> = recorded
        .lines()
        .zip(now.lines())
        .filter(|(recorded, now)| recorded != now)
        .map(|(recorded, now)| format!("- {recorded}\n+ {now}"))
        .collect();
    assert!(differ.is_empty(), "{} lines differ, the first:\n{}", differ.len(), differ[0]);
    assert_eq!(recorded.len(), now.len());
}
