//! What was fitted to measured times: written by `cargo xtask fit --write`, not by hand.
//!
//! Records of the efficiencies:
//!
//! - results/2026-11-25-h200-fit/bf16-drawn-1.json
//! - results/2026-11-25-h200-fit/bf16-drawn-2.json
//! - results/2026-11-25-h200-fit/bf16-drawn-3.json
//! - results/2026-11-25-h200-fit/bf16-ragged.json
//! - results/2026-11-25-h200-fit/bf16-shapes-1.json
//! - results/2026-11-25-h200-fit/bf16-shapes-2.json
//! - results/2026-11-25-h200-fit/bf16-squares-small.json
//! - results/2026-11-25-h200-fit/bf16-squares.json
//! - results/2026-11-25-h200-fit/f32-drawn-1.json
//! - results/2026-11-25-h200-fit/f32-drawn-2.json
//! - results/2026-11-25-h200-fit/f32-ragged.json
//! - results/2026-11-25-h200-fit/f32-shapes-1.json
//! - results/2026-11-25-h200-fit/f32-shapes-2.json
//! - results/2026-11-25-h200-fit/f32-squares-small.json
//! - results/2026-11-25-h200-fit/f32-squares.json
//! - results/2026-11-25-h200-fit/small-m.json
//! - results/2026-11-25-h200-fit/small-n.json
//! - results/2026-11-25-h200-drawn/bf16-held-1.json
//! - results/2026-11-25-h200-drawn/bf16-held-2.json
//! - results/2026-11-25-h200-drawn/f32-held-1.json
//! - results/2026-11-25-h200-drawn/f32-held-2.json
//! - results/2026-11-27-h200-pingpong/bf16-large.json
//! - results/2026-11-27-h200-pingpong/bf16-drawn-4.json

use std::borrow::Cow;

use super::constants::{Constants, KernelConstants, Reference};

/// Fitted to times of the reference device.
pub(super) const FITTED: Constants = Constants {
    reference: Reference { compute_capability: (9, 0), clock_mhz: 1980 },
    launch: 2700.0,
    next_launch: 2000.0,
    padded_copy: 4000.0,
    wave: 770.0,
    start_steps: 60.0,
    parts_rate: 4600.0,
    memory_rate: 4000.0,
    others: [0.58, 0.58, 0.64],
    kernels: Cow::Borrowed(&[
        KernelConstants::new("async_copy_32x64", [0.38329, 0.70716], [0.32069, 0.5831], 300.0),
        KernelConstants::new("async_copy_32x128", [0.50254, 0.8515], [0.32313, 0.61858], 300.0),
        KernelConstants::new("async_copy_64x128", [0.61023, 0.74608], [0.55101, 0.59679], 300.0),
        KernelConstants::new("async_copy_64x256", [0.78794, 0.8019], [0.62646, 0.609], 640.9),
        KernelConstants::new("async_copy_128x256", [0.58, 0.88799], [0.58, 0.61327], 1312.8),
        KernelConstants::new("split_k_32x64", [0.56674, 0.68289], [0.50601, 0.59906], 1322.3),
        KernelConstants::new("split_k_64x64", [0.58243, 0.7499], [0.56456, 0.66415], 300.0),
        KernelConstants::new("split_k_32x128", [0.61534, 0.74588], [0.56949, 0.67105], 1227.3),
        KernelConstants::new("split_k_64x128", [0.60604, 0.7739], [0.54013, 0.60531], 300.0),
        KernelConstants::new("split_k_128x64", [0.34093, 0.67713], [0.30022, 0.60408], 300.0),
        KernelConstants::new("small_m", [0.10531, 0.20691], [0.99977, 0.23872], 3665.5),
        KernelConstants::new("small_n", [0.16786, 0.09839], [0.17313, 0.23108], 2105.5),
        KernelConstants::new("tensor_128x128", [0.64, 0.797], [0.64, 0.85455], 580.8),
        KernelConstants::new("tensor_128x256", [0.64, 0.84835], [0.64, 0.91129], 1034.4),
        KernelConstants::new("tensor_128x160", [0.64, 0.71499], [0.64, 0.59752], 1291.8),
        KernelConstants::new("tensor_128x192", [0.64, 0.85556], [0.64, 0.78917], 799.6),
        KernelConstants::new("tensor_pair_128x192", [0.64, 0.81274], [0.64, 0.85872], 1112.4),
        KernelConstants::new("tensor_pair_128x256", [0.64, 0.82113], [0.64, 0.80007], 1137.1),
        KernelConstants::new("tensor_split_64x64", [0.64, 0.4526], [0.64, 0.40917], 856.9),
        KernelConstants::new("tensor_split_64x128", [0.64, 0.53091], [0.64, 0.47383], 980.3),
        KernelConstants::new("tensor_split_128x64", [0.64, 0.51306], [0.64, 0.46406], 1203.1),
        KernelConstants::new("tensor_split_128x128", [0.64, 0.73684], [0.64, 0.57814], 1522.7),
        KernelConstants::new("tensor_pingpong_64x256", [0.64, 0.74896], [0.64, 0.60224], 603.4),
        KernelConstants::new("tensor_pingpong_128x128", [0.64, 0.82759], [0.64, 0.66361], 369.2),
    ]),
};
