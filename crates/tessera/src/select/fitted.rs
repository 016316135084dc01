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
//! - results/2026-11-28-h100-choice/bf16-eights.json

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
        KernelConstants::new("tensor_128x128", [0.64, 0.80385], [0.64, 0.6757], 898.5),
        KernelConstants::new("tensor_128x256", [0.64, 0.85323], [0.64, 0.69504], 1486.7),
        KernelConstants::new("tensor_128x160", [0.64, 0.72718], [0.64, 0.51504], 1976.9),
        KernelConstants::new("tensor_128x192", [0.64, 0.85892], [0.64, 0.71681], 1108.1),
        KernelConstants::new("tensor_pair_128x192", [0.64, 0.81321], [0.64, 0.78951], 1519.3),
        KernelConstants::new("tensor_pair_128x256", [0.64, 0.82378], [0.64, 0.78195], 1584.1),
        KernelConstants::new("tensor_split_64x64", [0.64, 0.42312], [0.64, 0.28505], 1131.5),
        KernelConstants::new("tensor_split_64x128", [0.64, 0.53644], [0.64, 0.36625], 1604.9),
        KernelConstants::new("tensor_split_128x64", [0.64, 0.48232], [0.64, 0.34712], 1607.3),
        KernelConstants::new("tensor_split_128x128", [0.64, 0.70046], [0.64, 0.52063], 1884.6),
        KernelConstants::new("tensor_pingpong_64x256", [0.64, 0.70858], [0.64, 0.48951], 488.4),
        KernelConstants::new("tensor_pingpong_128x128", [0.64, 0.84168], [0.64, 0.56232], 576.2),
    ]),
};
