//! Which instruction set the tiles use.

use std::fmt;

use crate::error::Error;

/// An instruction set that the engine has tiles for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuIsa {
    /// x86-64 with AVX-512F; i8 with VNNI, where there is that.
    Avx512,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// aarch64.
    Neon,
    /// Whatever the build's baseline has.
    Portable,
}

impl CpuIsa {
    /// All of them, the one to be preferred first.
    pub const ALL: [Self; 4] = [Self::Avx512, Self::Avx2, Self::Neon, Self::Portable];

    /// Its name, as in `TESSERA_CPU_ISA`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Avx2 => "avx2",
            Self::Neon => "neon",
            Self::Portable => "portable",
        }
    }

    /// Whether this CPU has it, by its features and what the system saves of them, never by its name.
    #[must_use]
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "aarch64")]
            Self::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Self::Portable => true,
            #[allow(unreachable_patterns, reason = "which are left depends on the target")]
            _ => false,
        }
    }

    /// Those that this CPU has, the one to be preferred first.
    pub fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|isa| isa.is_available())
    }

    /// Itself, if this CPU has it.
    ///
    /// # Errors
    /// [`Error::Isa`].
    pub(crate) fn checked(self) -> Result<Self, Error> {
        Self::named(self.name())
    }

    /// The best that this CPU has.
    #[must_use]
    pub fn best() -> Self {
        Self::available().next().unwrap_or(Self::Portable)
    }

    /// The instruction set of that name, if this CPU has it.
    ///
    /// # Errors
    /// [`Error::Isa`].
    pub fn named(name: &str) -> Result<Self, Error> {
        let named = Self::available().find(|isa| isa.name() == name);
        named.ok_or_else(|| Error::Isa {
            asked: name.to_owned(),
            available: Self::available().map(Self::name).collect::<Vec<_>>().join(", "),
        })
    }
}

impl fmt::Display for CpuIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_not_there_is_answered_with_those_that_are() {
        assert_eq!(CpuIsa::named("portable").unwrap(), CpuIsa::Portable);
        let error = CpuIsa::named("mmx").unwrap_err().to_string();
        assert!(error.contains("`mmx`") && error.contains("portable"), "{error}");
        assert_eq!(CpuIsa::named(CpuIsa::best().name()).unwrap(), CpuIsa::best());
    }
}
