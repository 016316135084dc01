//! The accuracy mode: what a program may rely on of rounding errors, and so which kernels may run.

use std::fmt;
use std::str::FromStr;

use gemm_spec::split::Limbs;
use gemm_spec::{KernelSpec, OperandAccess};

/// How exact an element of C is to be where the choice of an implementation is left to an
/// [`Engine`](crate::Engine). Write u for the unit roundoff of the sums' type. `docs/accuracy.md` has the
/// bounds and their proofs.
///
/// Every implementation keeps to every contract but `f16x3`, which the strictest excludes, and products of rounded
/// factors in the matrix units of a CPU, which only the two that allow less than f32 admit. No kernel for the GPU
/// rounds factors of f32 so far, so these two choose kernels as [`Accuracy::Fp32`] does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accuracy {
    /// As if factors were rounded to bf16 first: within `(2^-7 + k u) |A||B|` where [`Accuracy::Fp32`] is
    /// within `k u |A||B|`.
    Bf16,
    /// As if factors were rounded to TF32, eleven bits, first: within `(2^-10 + k u) |A||B|` there.
    Tf32,
    /// As a product in f32 by and large: within `k u |A||B|` wherever an element of C has large terms,
    /// and never more than `2^-39` of a row's largest element times the sum of a column's magnitudes, and
    /// the reverse, beyond it. Products whose operands are seen to be of too wide a range are computed as
    /// [`Accuracy::Componentwise`] asks.
    #[default]
    Fp32,
    /// Each element of C is within `k u |A||B|` of that element, whatever the range of A and B.
    Componentwise,
}

impl Accuracy {
    /// Every contract, the least strict first.
    pub const ALL: [Self; 4] = [Self::Bf16, Self::Tf32, Self::Fp32, Self::Componentwise];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::Tf32 => "tf32",
            Self::Fp32 => "fp32",
            Self::Componentwise => "componentwise",
        }
    }

    /// Whether a kernel keeps to it.
    #[must_use]
    pub const fn admits(self, spec: &KernelSpec) -> bool {
        match spec.operands {
            OperandAccess::Limbs(Limbs::TwoF16) => !matches!(self, Self::Componentwise),
            OperandAccess::Limbs(Limbs::ThreeBf16)
            | OperandAccess::Pointers
            | OperandAccess::Batched(_)
            | OperandAccess::TensorMaps { .. } => true,
        }
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Accuracy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|one| one.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{name}` is none of {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_kernel_does_not_keep_to_the_strictest_contract() {
        for accuracy in Accuracy::ALL {
            assert_eq!(accuracy.to_string().parse(), Ok(accuracy));
        }
        let unknown = "`fp16` is none of bf16, tf32, fp32, componentwise";
        assert_eq!("fp16".parse::<Accuracy>(), Err(unknown.into()));
        let admitted = |accuracy: Accuracy| {
            kernels_gpu::KERNELS.iter().filter(move |spec| !accuracy.admits(spec))
        };
        for accuracy in [Accuracy::Bf16, Accuracy::Tf32, Accuracy::Fp32] {
            assert_eq!(admitted(accuracy).count(), 0);
        }
        let excluded: Vec<_> = admitted(Accuracy::Componentwise).map(|spec| spec.id).collect();
        assert_eq!(excluded, ["f16x3"]);
    }
}
