//! Whether the tile registers of AMX may be used: what the CPU has, what the system saves of it, and the
//! permission that Linux asks a process to request.

use std::fmt;
use std::sync::OnceLock;

/// Proof that this process may execute the instructions of AMX that the engine uses, and those of AVX-512
/// that prepare their operands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Amx(());

/// Why the engine does not use tile registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum NoAmx {
    /// The CPU has none, or none that multiply both bf16 and 8-bit integers.
    Cpu,
    /// The CPU has them, but lacks an extension of AVX-512 that operands are prepared by.
    Avx512,
    /// The system does not save them between threads.
    System,
    /// The system refuses the process their use; its error number.
    Refused(i32),
    /// They gave other bits than their definition.
    Wrong,
}

impl fmt::Display for NoAmx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("the CPU has no AMX for bf16 and 8-bit integers"),
            Self::Avx512 => f.write_str("the CPU lacks AVX-512 BW, VL, DQ or BF16"),
            Self::System => f.write_str("the operating system does not save the tile registers"),
            Self::Refused(number) => {
                let reason = std::io::Error::from_raw_os_error(*number);
                write!(f, "the operating system refuses the tile registers: {reason}")
            }
            Self::Wrong => f.write_str("the tile registers failed their self-test"),
        }
    }
}

impl std::error::Error for NoAmx {}

impl Amx {
    /// Asks once for the whole process, when it is first needed and never at load time: from then on
    /// the system refuses alternate signal stacks that are too small to hold the tiles.
    pub(crate) fn request() -> Result<Self, NoAmx> {
        static ANSWER: OnceLock<Result<Amx, NoAmx>> = OnceLock::new();
        *ANSWER.get_or_init(|| {
            features()?;
            permission()?;
            let amx = Self(());
            if super::self_test::passes(amx) { Ok(amx) } else { Err(NoAmx::Wrong) }
        })
    }
}

/// What `cpuid` and `xgetbv` say.
fn features() -> Result<(), NoAmx> {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    /// Leaf 7 EDX: AMX-BF16, AMX-TILE, AMX-INT8.
    const AMX: u32 = 1 << 22 | 1 << 24 | 1 << 25;
    /// Leaf 1 ECX: the system has enabled XSAVE.
    const OSXSAVE: u32 = 1 << 27;
    /// XCR0: the configuration of tiles, and their data.
    const TILES: u64 = 1 << 17 | 1 << 18;

    if __cpuid(0).eax < 7 || __cpuid_count(7, 0).edx & AMX != AMX {
        return Err(NoAmx::Cpu);
    }
    if __cpuid(1).ecx & OSXSAVE == 0 || saved_states() & TILES != TILES {
        return Err(NoAmx::System);
    }
    if !(is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bf16")
        && is_x86_feature_detected!("fma"))
    {
        return Err(NoAmx::Avx512);
    }
    Ok(())
}

/// XCR0: the register states that the system saves.
fn saved_states() -> u64 {
    #[target_feature(enable = "xsave")]
    fn read() -> u64 {
        // SAFETY: register 0 exists wherever `xgetbv` does.
        unsafe { std::arch::x86_64::_xgetbv(0) }
    }
    // SAFETY: called only after `cpuid` has said that the system enabled XSAVE, which has `xgetbv`.
    unsafe { read() }
}

#[cfg(target_os = "linux")]
fn permission() -> Result<(), NoAmx> {
    /// Request number of `arch_prctl` and the state component, from Linux' `asm/prctl.h` and Intel's
    /// manual: ARCH_REQ_XCOMP_PERM, XTILEDATA.
    const REQUEST_PERMISSION: libc::c_long = 0x1023;
    const TILE_DATA: libc::c_long = 18;

    // SAFETY: the request takes a number and touches no memory of the process.
    let answer = unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) };
    if answer == 0 {
        return Ok(());
    }
    let number = std::io::Error::last_os_error().raw_os_error();
    Err(NoAmx::Refused(number.unwrap_or_default()))
}

#[cfg(not(target_os = "linux"))]
fn permission() -> Result<(), NoAmx> {
    // Other systems have rules of their own, which were not tried.
    Err(NoAmx::System)
}
