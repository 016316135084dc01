//! What a program may rely on of a product's rounding errors, and so which kernels may compute it.

use std::fmt;
use std::str::FromStr;

use gemm_spec::split::Pieces;
use gemm_spec::{KernelSpec, Scheme};

/// How exact an element of C is to be where the choice of an implementation is left to an
/// [`Engine`](crate::Engine). Write u for the unit roundoff of the sums' type. `docs/accuracy.md` has the
/// bounds and their proofs.
///
/// Every implementation keeps to both contracts but `f16x3`, which the second one excludes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accuracy {
    /// As a product in f32 by and large: within `k u |A||B|` wherever an element of C has large terms,
    /// and never more than `2^-39` of a row's largest element times the sum of a column's magnitudes, and
    /// the reverse, beyond it. Products whose operands are seen to be of too wide a range are computed by
    /// multiply-adds.
    #[default]
    Fp32,
    /// Each element of C is within `k u |A||B|` of that element, whatever the range of A and B.
    Componentwise,
}

impl Accuracy {
    /// Every contract, the least strict first.
    pub const ALL: [Self; 2] = [Self::Fp32, Self::Componentwise];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Componentwise => "componentwise",
        }
    }

    /// Whether a kernel keeps to it.
    #[must_use]
    pub const fn admits(self, spec: &KernelSpec) -> bool {
        match (self, spec.scheme) {
            (Self::Componentwise, Scheme::Split(entries)) => {
                matches!(entries.pieces, Pieces::ThreeBf16)
            }
            _ => true,
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
    fn one_kernel_keeps_to_the_weaker_contract_alone() {
        for accuracy in Accuracy::ALL {
            assert_eq!(accuracy.to_string().parse(), Ok(accuracy));
        }
        assert_eq!("tf32".parse::<Accuracy>(), Err("`tf32` is none of fp32, componentwise".into()));
        let admitted = |accuracy: Accuracy| {
            kernels_gpu::KERNELS.iter().filter(move |spec| !accuracy.admits(spec))
        };
        assert_eq!(admitted(Accuracy::Fp32).count(), 0);
        let excluded: Vec<_> = admitted(Accuracy::Componentwise).map(|spec| spec.id).collect();
        assert_eq!(excluded, ["f16x3"]);
    }
}
