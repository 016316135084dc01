//! What a measurement cost the GPU in joules, by the driver's own counter.

use serde::{Deserialize, Serialize};

use crate::gpu::GpuState;

/// Seconds below which nothing is said: the driver brings its counter up to date some ten times a second.
const LEAST_SECONDS: f64 = 0.5;

/// Energy of a number of products, warm-up included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Energy {
    /// Joules of the whole GPU, idle power included.
    pub joules: f64,
    /// Products that were computed meanwhile.
    pub products: usize,
    /// How long that took.
    pub seconds: f64,
}

impl Energy {
    /// What the counter says of the time between two looks, in which that many products were computed.
    pub(super) fn between(
        before: Option<&GpuState>,
        after: Option<&GpuState>,
        products: usize,
        seconds: f64,
    ) -> Option<Self> {
        let joules = after?.joules? - before?.joules?;
        (joules >= 0.0).then_some(Self { joules, products, seconds })
    }

    /// Both measurements as one.
    pub(super) fn and(self, other: Self) -> Self {
        Self {
            joules: self.joules + other.joules,
            products: self.products + other.products,
            seconds: self.seconds + other.seconds,
        }
    }

    /// Joules of one product; none where the measurement was too short for the counter.
    #[must_use]
    pub fn of_one(&self) -> Option<f64> {
        let known = self.seconds >= LEAST_SECONDS && self.joules > 0.0 && self.products > 0;
        known.then(|| self.joules / self.products as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_shared_by_the_products_and_short_measurements_say_nothing() {
        let at = |joules| GpuState { joules, ..GpuState::default() };
        let between = |before, after, seconds| {
            Energy::between(Some(&at(before)), Some(&at(after)), 100, seconds)
        };
        let one = between(Some(1000.0), Some(1200.0), 0.4).unwrap();
        assert_eq!(one.of_one(), None);
        assert_eq!(one.and(one).of_one(), Some(2.0));
        assert_eq!(between(Some(7.0), Some(7.0), 1.0).unwrap().of_one(), None);
        // A driver that was loaded anew counts from zero.
        assert_eq!(between(Some(7.0), Some(1.0), 1.0), None);
        assert_eq!(between(None, Some(1.0), 1.0), None);
    }
}
