//! Which units of the CPU a context's products may use.

use std::fmt;
use std::str::FromStr;

/// Which units a context's products may use.
///
/// Matrix units are the tile registers of AMX. They multiply i8 exactly. Sums of floats they add in another
/// order than vector units: bf16 as it is, f16 and f32 as pieces of bf16, f64 by
/// residues. Each setting gives the same bits for any number of threads and on every repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CpuUnits {
    /// Vector units alone.
    Vector,
    /// Matrix units as well, where they give the bits of vector units: the bits are those of
    /// [`engine_sum`](crate::engine_sum()) on every machine.
    #[default]
    SameBits,
    /// Matrix units wherever they are faster and within the error bound of a chain of multiply-adds. Which bits a sum of
    /// floats has then depends on whether the machine has them.
    All,
}

impl CpuUnits {
    /// Each setting.
    pub const EACH: [Self; 3] = [Self::Vector, Self::SameBits, Self::All];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vector => "vector",
            Self::SameBits => "same-bits",
            Self::All => "all",
        }
    }
}

impl fmt::Display for CpuUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CpuUnits {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::EACH.into_iter().find(|one| one.name() == name).ok_or_else(|| {
            let names = Self::EACH.map(Self::name).join(", ");
            format!("`{name}` is none of {names}")
        })
    }
}
