//! What kernels were measured to take on a device, beside what its model predicts for the same products.

use std::collections::BTreeMap;

use gemm_spec::{KernelSpec, Types};
use kernels_gpu::Kernel;

use super::points::{Point, around, between, is_positive};
use super::thin::{Side, thin_side};

/// One product by a kernel, operands being on the device.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct KernelTime {
    /// The kernel's id.
    pub kernel: String,
    /// Element types.
    pub dtype: String,
    /// m, n and k.
    pub sizes: [usize; 3],
    /// What it took.
    pub seconds: f64,
}

/// Operations a second beyond which no GPU is.
const MOST_RATE: f64 = 1e18;

impl KernelTime {
    /// Whether a GPU may take that long.
    #[must_use]
    pub fn is_sane(&self) -> bool {
        let flops = flops(self.sizes);
        is_positive(flops) && is_positive(self.seconds) && flops / self.seconds < MOST_RATE
    }
}

fn flops(sizes: [usize; 3]) -> f64 {
    2.0 * sizes.iter().map(|&size| size as f64).product::<f64>()
}

/// How many times as long as predicted kernels were measured to take.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// Of a kernel and a type's products of a class: operations, ascending, and that number.
    factors: BTreeMap<(&'static str, &'static str, Option<Side>), Vec<Point>>,
}

impl Measured {
    /// The times beside the seconds that a model without figures predicts. Those of kernels and types that
    /// there are none of are left out.
    pub(super) fn new(
        times: &[KernelTime],
        predict: impl Fn(&KernelSpec, Types, [usize; 3]) -> Option<f64>,
    ) -> Self {
        let mut own = Self::default();
        for time in times.iter().filter(|time| time.is_sane()) {
            let types = Types::ALL.into_iter().find(|types| types.name() == time.dtype);
            let (Some(kernel), Some(types)) = (Kernel::named(&time.kernel), types) else {
                continue;
            };
            let Some(predicted) = predict(kernel.spec(), types, time.sizes) else {
                continue;
            };
            let points = own
                .factors
                .entry((kernel.spec().id, types.name(), thin_side(types, time.sizes)))
                .or_default();
            points.push((flops(time.sizes), time.seconds / predicted));
        }
        for points in own.factors.values_mut() {
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
        }
        own
    }

    /// How many times as long as predicted a kernel takes for a product of m, n and k: between measured
    /// sizes in proportion, in their logarithms; beyond them as at the nearest. `None` where it was not
    /// measured with products like this one.
    pub(super) fn factor(&self, kernel: &str, types: Types, sizes: [usize; 3]) -> Option<f64> {
        let own = self.factors.iter().find(|((id, of, class), _)| {
            *id == kernel && *of == types.name() && *class == thin_side(types, sizes)
        });
        own.map(|(_, points)| at(points, flops(sizes)))
    }

    /// The geometric mean of the factors of the kernels that were measured with products like one of m, n
    /// and k: what is taken for that of others.
    pub(super) fn typical(&self, types: Types, sizes: [usize; 3]) -> Option<f64> {
        let class = thin_side(types, sizes);
        let own =
            self.factors.iter().filter(|((_, of, like), _)| *of == types.name() && *like == class);
        let logarithms: Vec<f64> = own.map(|(_, points)| at(points, flops(sizes)).ln()).collect();
        let sum: f64 = logarithms.iter().sum();
        (!logarithms.is_empty()).then(|| (sum / logarithms.len() as f64).exp())
    }
}

/// The factor at that number of operations.
fn at(points: &[Point], flops: f64) -> f64 {
    match around(points, flops) {
        (Some(below), Some(above)) => between(below, above, flops),
        (Some((_, factor)), None) | (None, Some((_, factor))) => factor,
        (None, None) => 1.0,
    }
}
