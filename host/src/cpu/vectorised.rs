//! Runs a loop compiled for the vector unit that this CPU has, chosen by features at run time.

/// A piece of work whose `run` is always inlined, so that it is compiled anew for each target.
pub(crate) trait Work {
    /// Does it.
    fn run(self);
}

/// Runs the work with the widest vectors and the fused multiply-add that this CPU offers.
///
/// The result does not depend on the choice: all forms do the same operations in the same order.
pub(crate) fn vectorised(work: impl Work) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("fma") {
            // SAFETY: the CPU has AVX-512F and FMA, and the system saves their registers.
            return unsafe { x86::avx512(work) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the CPU has AVX2 and FMA, and the system saves their registers.
            return unsafe { x86::avx2(work) };
        }
    }
    // Other CPUs: what the build's baseline gives, which on aarch64 has both.
    work.run();
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Work;

    #[target_feature(enable = "avx512f,fma")]
    pub(super) fn avx512(work: impl Work) {
        work.run();
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2(work: impl Work) {
        work.run();
    }
}
