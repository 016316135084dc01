//! The modules that kernels are built into.

/// The PTX module that a kernel is built into, named by the least GPU that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// Volta and everything after it.
    Sm70,
    /// Ampere and everything after it: asynchronous copies to shared memory.
    Sm80,
    /// Hopper alone: warpgroup products, bulk copies. Its instructions run on no other GPU.
    Sm90a,
}

impl Arch {
    /// Every module, in the order in which they are built.
    pub const ALL: [Self; 3] = [Self::Sm70, Self::Sm80, Self::Sm90a];

    /// The `target-cpu` of the device compiler, which is also the file stem of the PTX.
    #[must_use]
    pub const fn target_cpu(self) -> &'static str {
        match self {
            Self::Sm70 => "sm_70",
            Self::Sm80 => "sm_80",
            Self::Sm90a => "sm_90a",
        }
    }

    /// Least compute capability that the module runs on.
    #[must_use]
    pub const fn compute_capability(self) -> (u32, u32) {
        match self {
            Self::Sm70 => (7, 0),
            Self::Sm80 => (8, 0),
            Self::Sm90a => (9, 0),
        }
    }

    /// Whether the module's entries wait by themselves for the launches before them in the stream, so that a
    /// launch may begin before the last of those has ended.
    #[must_use]
    pub const fn overlaps(self) -> bool {
        matches!(self, Self::Sm90a)
    }

    /// Whether GPUs of a compute capability run the module.
    #[must_use]
    pub fn runs_on(self, compute_capability: (u32, u32)) -> bool {
        match self {
            Self::Sm70 | Self::Sm80 => compute_capability >= self.compute_capability(),
            Self::Sm90a => compute_capability == self.compute_capability(),
        }
    }
}
