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
        KernelConstants::new("async_copy_32x64", [0.43867, 0.58562], [0.28043, 0.6299], 778.34754),
        KernelConstants::new("async_copy_32x128", [0.49659, 0.81633], [0.29438, 0.67479], 358.6412),
        KernelConstants::new("async_copy_64x128", [0.60416, 0.7286], [0.54581, 0.51122], 300.01764),
        KernelConstants::new("async_copy_64x256", [0.7874, 0.7996], [0.62392, 0.59411], 1170.13258),
        KernelConstants::new("async_copy_128x256", [0.58, 0.86513], [0.58, 0.61109], 1879.26235),
        KernelConstants::new("split_k_32x64", [0.61944, 0.67956], [0.49984, 0.59786], 1562.14417),
        KernelConstants::new("split_k_64x64", [0.54979, 0.7453], [0.55122, 0.65561], 344.99255),
        KernelConstants::new("split_k_32x128", [0.6326, 0.74162], [0.5867, 0.67638], 1798.42637),
        KernelConstants::new("split_k_64x128", [0.61875, 0.76629], [0.55446, 0.63761], 1448.94963),
        KernelConstants::new("split_k_128x64", [0.33894, 0.66273], [0.29482, 0.6132], 300.02406),
        KernelConstants::new("small_m", [0.10908, 0.21232], [0.58, 0.25305], 4719.81331),
        KernelConstants::new("small_n", [0.26815, 0.09955], [0.99991, 0.99999], 4664.014),
        KernelConstants::new("tensor_128x128", [0.64, 0.80653], [0.64, 0.77916], 502.04885),
        KernelConstants::new("tensor_128x256", [0.64, 0.88935], [0.64, 0.8243], 1027.18743),
        KernelConstants::new("tensor_128x160", [0.64, 0.73823], [0.64, 0.63834], 1793.30349),
        KernelConstants::new("tensor_128x192", [0.64, 0.89525], [0.64, 0.74601], 706.15159),
        KernelConstants::new("tensor_pair_128x192", [0.64, 0.83121], [0.64, 0.85122], 1344.24398),
        KernelConstants::new("tensor_pair_128x256", [0.64, 0.823], [0.64, 0.78652], 1066.29693),
        KernelConstants::new("tensor_split_64x64", [0.64, 0.54773], [0.64, 0.3617], 1345.02389),
        KernelConstants::new("tensor_split_64x128", [0.64, 0.54859], [0.64, 0.42512], 1038.95062),
        KernelConstants::new("tensor_split_128x64", [0.64, 0.55995], [0.64, 0.38735], 1121.21823),
        KernelConstants::new("tensor_split_128x128", [0.64, 0.74372], [0.64, 0.52115], 1274.6672),
    ]),
};
