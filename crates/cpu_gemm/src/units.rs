//! Which units of the CPU a context's products may use.

use std::fmt;
use std::str::FromStr;

/// Which units a context's products may use.
///
/// Matrix units are the tile registers of AMX. They multiply i8 exactly. Sums of floats they add in another
/// order than vector units: bf16 as it is, f16 and f32 as pieces of bf16, f64 by residues, and where that is allowed
/// f32 as one or two pieces. Each setting gives the same bits on every repeat, and the first two and the last for any
/// number of threads: with the others the size from which on matrix units are faster depends on it.
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
    /// As [`All`](Self::All), but matrix units may round factors of f32 to TF32, eleven bits, or more: sums are within
    /// `(2^-10 + k u) |A||B|` where others are within `k u |A||B|`, u being the unit roundoff of f32.
    Tf32,
    /// As [`All`](Self::All), but matrix units may round factors of f32 to bf16: sums are within
    /// `(2^-7 + k u) |A||B|` there.
    Bf16,
    /// As [`All`](Self::All), but where there are matrix units they compute products of f64 of every size, by more
    /// residues: where the elements of each row of A and of each column of B are of one scale, an element of C is the
    /// exact sum of its products, rounded.
    ExactRounded,
    /// As [`All`](Self::All), but matrix units compute products of every size of all types that they multiply, and
    /// where there are none their model does, in plain code: programs and their tests see on any machine the sums that
    /// matrix units give them. It is slow.
    Tiles,
}

impl CpuUnits {
    /// Each setting.
    pub const EACH: [Self; 7] = [
        Self::Vector,
        Self::SameBits,
        Self::All,
        Self::Tf32,
        Self::Bf16,
        Self::ExactRounded,
        Self::Tiles,
    ];

    /// Their names, in words.
    pub const NAMES: &'static str = "vector, same-bits, all, tf32, bf16, exact-rounded or tiles";

    /// By how much of itself the product of two factors of f32 may be off, these having been rounded.
    #[must_use]
    pub const fn error_of_factors(self) -> f64 {
        match self {
            Self::Vector | Self::SameBits | Self::All | Self::ExactRounded | Self::Tiles => 0.0,
            Self::Tf32 => 1.0 / (1_u64 << 10) as f64,
            Self::Bf16 => 1.0 / (1_u64 << 7) as f64,
        }
    }

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vector => "vector",
            Self::SameBits => "same-bits",
            Self::All => "all",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
            Self::ExactRounded => "exact-rounded",
            Self::Tiles => "tiles",
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
        let named = Self::EACH.into_iter().find(|one| one.name() == name);
        named.ok_or_else(|| format!("`{name}` is none of {}", Self::NAMES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setting_has_its_name() {
        let names = CpuUnits::NAMES.replace(" or ", ", ");
        assert_eq!(names, CpuUnits::EACH.map(CpuUnits::name).join(", "));
        for units in CpuUnits::EACH {
            assert_eq!(units.name().parse(), Ok(units));
        }
        assert!("tensor".parse::<CpuUnits>().unwrap_err().contains(CpuUnits::NAMES));
    }
}
