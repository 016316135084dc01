//! Which instruction set the tiles use: what the CPU has, or what `TESSERA_CPU_ISA` asks for.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m256d, __m512, __m512d};
use std::fmt;

use gemm_spec::{WideBf16, WideF16, bf16, f16};

use super::kernels::Kernels;
#[cfg(target_arch = "aarch64")]
use super::neon::Neon;
use super::portable::{Lanes, Portable};
#[cfg(target_arch = "x86_64")]
use super::{
    avx2::{Avx2, Pairs256},
    avx512::Avx512,
    groups::{Pairs, Quads},
    vnni::{Quads512, Vnni},
};
use crate::error::Error;
use crate::scalar::Scalar;

/// The environment variable that names one.
const VARIABLE: &str = "TESSERA_CPU_ISA";

/// An instruction set that `cpu_packed` has tiles for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuIsa {
    /// x86-64 with AVX-512F; i8 with VNNI, where there is that.
    Avx512,
    /// x86-64 with AVX2 and FMA.
    Avx2,
    /// aarch64.
    Neon,
    /// Whatever the build's baseline has.
    Portable,
}

impl CpuIsa {
    /// All of them, the one to be preferred first.
    pub const ALL: [Self; 4] = [Self::Avx512, Self::Avx2, Self::Neon, Self::Portable];

    /// Its name in the environment variable.
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
            Self::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
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

    /// What `TESSERA_CPU_ISA` asks for, else the best that this CPU has.
    ///
    /// # Errors
    /// [`Error::CpuIsa`] where it asks for what is not there.
    pub fn choose() -> Result<Self, Error> {
        match std::env::var_os(VARIABLE) {
            None => Ok(Self::best()),
            Some(name) => Self::named(&name.to_string_lossy()),
        }
    }

    /// Itself, if this CPU has it.
    ///
    /// # Errors
    /// [`Error::CpuIsa`].
    pub(crate) fn checked(self) -> Result<Self, Error> {
        Self::named(self.name())
    }

    /// The best that this CPU has.
    fn best() -> Self {
        Self::available().next().unwrap_or(Self::Portable)
    }

    fn named(name: &str) -> Result<Self, Error> {
        Self::available().find(|isa| isa.name() == name).ok_or_else(|| Error::CpuIsa {
            variable: VARIABLE,
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

/// An element type that `cpu_packed` multiplies.
pub(super) trait PackedElement: Scalar {
    /// The kernels of an instruction set that this CPU has.
    fn kernels(isa: CpuIsa) -> &'static Kernels<Self>;
}

/// For each element type the registers of each instruction set.
macro_rules! registers {
    ($($element:ty: $avx512:ty, $avx2:ty, $neon:ty, $portable:ty;)*) => {$(
        impl PackedElement for $element {
            fn kernels(isa: CpuIsa) -> &'static Kernels<Self> {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx512 => const { &Kernels::of::<Avx512, $avx512>() },
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx2 => const { &Kernels::of::<Avx2, $avx2>() },
                    #[cfg(target_arch = "aarch64")]
                    CpuIsa::Neon => const { &Kernels::of::<Neon, $neon>() },
                    _ => const { &Kernels::of::<Portable, $portable>() },
                }
            }
        }
    )*};
}

/// For element types that are widened to sums: the registers of those.
macro_rules! widened {
    ($($element:ty),*) => {$(
        impl PackedElement for $element {
            fn kernels(isa: CpuIsa) -> &'static Kernels<Self> {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx512 => const { &Kernels::widening::<Avx512, __m512>() },
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx2 => const { &Kernels::widening::<Avx2, __m256>() },
                    #[cfg(target_arch = "aarch64")]
                    CpuIsa::Neon => const { &Kernels::widening::<Neon, Lanes<f32, 4>>() },
                    _ => const { &Kernels::widening::<Portable, Lanes<f32, 4>>() },
                }
            }
        }
    )*};
}

widened!(f16, bf16, WideF16, WideBf16);

impl PackedElement for i8 {
    fn kernels(isa: CpuIsa) -> &'static Kernels<Self> {
        match isa {
            #[cfg(target_arch = "x86_64")]
            CpuIsa::Avx512 if Vnni::is_available() => {
                const { &Kernels::grouping::<Vnni, Quads512, Quads>() }
            }
            #[cfg(target_arch = "x86_64")]
            CpuIsa::Avx512 | CpuIsa::Avx2 if CpuIsa::Avx2.is_available() => {
                const { &Kernels::grouping::<Avx2, Pairs256, Pairs>() }
            }
            #[cfg(target_arch = "aarch64")]
            CpuIsa::Neon => const { &Kernels::widening::<Neon, Lanes<i32, 4>>() },
            _ => const { &Kernels::widening::<Portable, Lanes<i32, 4>>() },
        }
    }
}

registers! {
    f32: __m512, __m256, Lanes<f32, 4>, Lanes<f32, 4>;
    f64: __m512d, __m256d, Lanes<f64, 2>, Lanes<f64, 2>;
    i32: Lanes<i32, 16>, Lanes<i32, 8>, Lanes<i32, 4>, Lanes<i32, 4>;
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
