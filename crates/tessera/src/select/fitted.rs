//! What was fitted to measured times: written by `cargo xtask fit --write`, not by hand.

use std::borrow::Cow;

use super::constants::{Constants, KernelConstants, Reference};

/// Fitted to times of the reference device.
pub(super) const FITTED: Constants = Constants {
    reference: Reference { compute_capability: (9, 0), clock_mhz: 1980 },
    launch: 2700.0,
    next_launch: 2000.0,
    wave: 770.0,
    start_steps: 60.0,
    parts_rate: 4600.0,
    memory_rate: 4000.0,
    others: [0.58, 0.58, 0.64],
    kernels: Cow::Borrowed(&[
        KernelConstants::new("async_copy_32x64", [0.41035, 0.60567], [0.27225, 0.62342]),
        KernelConstants::new("async_copy_32x128", [0.46757, 0.74179], [0.30185, 0.67866]),
        KernelConstants::new("async_copy_64x128", [0.55832, 0.73587], [0.55832, 0.6175]),
        KernelConstants::new("async_copy_64x256", [0.7122, 0.79111], [0.53859, 0.54253]),
        KernelConstants::new("async_copy_128x256", [0.81084, 0.81084], [0.62342, 0.62342]),
        KernelConstants::new("split_k_32x64", [0.47743, 0.63329], [0.38273, 0.58594]),
        KernelConstants::new("split_k_64x64", [0.51294, 0.69642], [0.54845, 0.66485]),
        KernelConstants::new("split_k_32x128", [0.51689, 0.70431], [0.50308, 0.72404]),
        KernelConstants::new("split_k_64x128", [0.60961, 0.77336], [0.53464, 0.6175]),
        KernelConstants::new("split_k_128x64", [0.33341, 0.6392], [0.30185, 0.61158]),
        KernelConstants::new("small_m", [0.29593, 0.50505], [0.29593, 0.50505]),
        KernelConstants::new("small_n", [0.29593, 0.50505], [0.29593, 0.50505]),
        KernelConstants::new("tensor_128x128", [0.58446, 0.79951], [0.58446, 0.57687]),
        KernelConstants::new("tensor_128x256", [0.61652, 0.81302], [0.61652, 0.65686]),
        KernelConstants::new("tensor_128x160", [0.6, 0.81], [0.6, 0.55717]),
        KernelConstants::new("tensor_128x192", [0.6, 0.82578], [0.6, 0.55717]),
        KernelConstants::new("tensor_pair_128x192", [0.61, 0.80267], [0.61, 0.7075]),
        KernelConstants::new("tensor_pair_128x256", [0.61, 0.78106], [0.61, 0.77099]),
        KernelConstants::new("tensor_split_64x64", [0.38, 0.40506], [0.38, 0.2175]),
        KernelConstants::new("tensor_split_64x128", [0.38, 0.57594], [0.38, 0.38]),
        KernelConstants::new("tensor_split_128x64", [0.5, 0.52681], [0.5, 0.31221]),
        KernelConstants::new("tensor_split_128x128", [0.62, 0.6652], [0.62, 0.48464]),
    ]),
};
