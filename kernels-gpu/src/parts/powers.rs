//! Powers of two and reciprocals as the device has instructions for them.

use cuda_std::approximate;
use gemm_spec::fusion::{ACTIVATION, Curve, Powers, RELU, relu};

use crate::parts::unroll::unroll;

/// Those of the special-function units.
pub(crate) struct DevicePowers;

impl Powers for DevicePowers {
    #[inline(always)]
    fn exp2(x: f32) -> f32 {
        approximate::exp2(x)
    }

    #[inline(always)]
    fn reciprocal(x: f32) -> f32 {
        approximate::reciprocal(x)
    }
}

/// The activation that flags of [`gemm_spec::fusion`] name, of several numbers, so that a choice is made once for
/// all of them.
#[inline(always)]
pub(crate) fn activate<const L: usize>(fusion: u32, values: [f32; L]) -> [f32; L] {
    const { assert!(L <= 8, "the loops are written out that far") };
    let mut values = values;
    match fusion & ACTIVATION {
        0 => {}
        RELU => {
            unroll!(for J in 0..8 {
                if J < L {
                    values[J % L] = relu(values[J % L]);
                }
            });
        }
        _ => values = activate_smoothly(&Curve::of(fusion), values),
    }
    values
}

/// A smooth activation of several numbers.
#[inline(always)]
pub(crate) fn activate_smoothly<const L: usize>(curve: &Curve, values: [f32; L]) -> [f32; L] {
    const { assert!(L <= 8, "the loops are written out that far") };
    let mut values = values;
    let mut parts = [(0.0, 0.0, 0.0); L];
    unroll!(for J in 0..8 {
        if J < L {
            parts[J % L] = curve.share::<DevicePowers>(values[J % L]);
        }
    });
    if curve.has_polynomial() {
        unroll!(for J in 0..8 {
            if J < L {
                parts[J % L].1 *= Curve::polynomial(parts[J % L].2);
            }
        });
    }
    unroll!(for J in 0..8 {
        if J < L {
            values[J % L] = Curve::value(values[J % L], parts[J % L].0, parts[J % L].1);
        }
    });
    values
}
