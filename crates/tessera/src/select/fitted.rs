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
        KernelConstants::new("async_copy_32x64", [0.38356, 0.7069], [0.32036, 0.58288], 300.0),
        KernelConstants::new("async_copy_32x128", [0.50309, 0.85065], [0.32336, 0.61827], 300.0),
        KernelConstants::new("async_copy_64x128", [0.61023, 0.74595], [0.55101, 0.59649], 300.0),
        KernelConstants::new("async_copy_64x256", [0.78794, 0.80178], [0.62646, 0.60899], 645.8),
        KernelConstants::new("async_copy_128x256", [0.58, 0.8871], [0.58, 0.61297], 1310.5),
        KernelConstants::new("split_k_32x64", [0.56794, 0.68289], [0.5062, 0.59907], 1325.1),
        KernelConstants::new("split_k_64x64", [0.58346, 0.74948], [0.5645, 0.66382], 300.0),
        KernelConstants::new("split_k_32x128", [0.61543, 0.7457], [0.56926, 0.67074], 1221.8),
        KernelConstants::new("split_k_64x128", [0.60598, 0.77382], [0.54013, 0.605], 300.0),
        KernelConstants::new("split_k_128x64", [0.34093, 0.67713], [0.30022, 0.60408], 300.0),
        KernelConstants::new("small_m", [0.10531, 0.20691], [0.99977, 0.23872], 3665.5),
        KernelConstants::new("small_n", [0.16786, 0.09839], [0.17313, 0.23108], 2105.5),
        KernelConstants::new("tensor_128x128", [0.64, 0.80471], [0.64, 0.86552], 499.3),
        KernelConstants::new("tensor_128x256", [0.64, 0.89482], [0.64, 0.9201], 1058.0),
        KernelConstants::new("tensor_128x160", [0.64, 0.71799], [0.64, 0.62929], 1280.1),
        KernelConstants::new("tensor_128x192", [0.64, 0.89637], [0.64, 0.79116], 648.8),
        KernelConstants::new("tensor_pair_128x192", [0.64, 0.8302], [0.64, 0.86937], 1215.6),
        KernelConstants::new("tensor_pair_128x256", [0.64, 0.82482], [0.64, 0.80129], 1047.0),
        KernelConstants::new("tensor_split_64x64", [0.64, 0.47328], [0.64, 0.39333], 844.9),
        KernelConstants::new("tensor_split_64x128", [0.64, 0.61254], [0.64, 0.48684], 979.8),
        KernelConstants::new("tensor_split_128x64", [0.64, 0.54872], [0.64, 0.38965], 836.7),
        KernelConstants::new("tensor_split_128x128", [0.64, 0.7391], [0.64, 0.55201], 1100.7),
    ]),
};
