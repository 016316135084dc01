//! What the model of the kernels' times is made of, besides a device's attributes.

use std::borrow::Cow;

use gemm_spec::{KernelSpec, Numerics};

/// The device whose times the constants were fitted to. Of another device every time is taken to grow
/// as its SMs are slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Highest clock in MHz.
    pub clock_mhz: u32,
}

/// Share of the peak of an SM's units at which it runs a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Efficiency {
    /// With a single block of it.
    pub alone: f64,
    /// With as many blocks as the kernel promises to fit.
    pub full: f64,
}

impl Efficiency {
    /// The share with that many of `resident` blocks: on the line between the two that are known.
    pub(super) fn with(self, blocks: u64, resident: u64) -> f64 {
        if blocks >= resident {
            return self.full;
        }
        self.alone + (self.full - self.alone) * (blocks - 1) as f64 / (resident - 1) as f64
    }
}

/// The efficiencies of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelConstants {
    /// The kernel's id.
    pub kernel: &'static str,
    /// With n a multiple of 4: rows of B are 16-byte aligned, and copies are of 16 bytes. Of kernels whose
    /// operands TMA loads: with rows that begin with lines of L2.
    pub aligned: Efficiency,
    /// With any other n, where copies are of 4 bytes, or any other rows.
    pub ragged: Efficiency,
    /// Nanoseconds that a wave of its blocks takes besides its k elements, on the reference device: it waits
    /// for its first tiles, and for its last stores.
    pub wave: f64,
}

impl KernelConstants {
    /// Efficiencies with one block of an SM and with all that fit, and what a wave takes.
    #[must_use]
    pub const fn new(kernel: &'static str, aligned: [f64; 2], ragged: [f64; 2], wave: f64) -> Self {
        const fn of([alone, full]: [f64; 2]) -> Efficiency {
            Efficiency { alone, full }
        }
        Self { kernel, aligned: of(aligned), ragged: of(ragged), wave }
    }

    /// The same however many blocks an SM has, and for all rows.
    const fn same(kernel: &'static str, efficiency: f64, wave: f64) -> Self {
        Self::new(kernel, [efficiency; 2], [efficiency; 2], wave)
    }

    /// For a B of n columns whose rows are adjacent.
    pub(super) fn of(&self, n: usize) -> Efficiency {
        if n.is_multiple_of(4) { self.aligned } else { self.ragged }
    }
}

/// The efficiencies of kernels whose blocks compute a tile of a batch each, with lines of packets and with others:
/// what squares and batches on an H200 give (results/2026-11-26-h200-tiles, results/2026-11-27-h200-batched-aligned).
const BLOCK_TILES: [(&str, [[f64; 2]; 2]); 6] = [
    ("batched_64x64", [[0.5, 0.85], [0.35, 0.42]]),
    ("batched_96x96", [[0.55, 0.76], [0.35, 0.45]]),
    ("batched_bf16x6", [[0.6; 2], [0.48; 2]]),
    ("dmma_64x64", [[0.49, 0.76], [0.4, 0.65]]),
    ("dmma_96x96", [[0.5, 0.7], [0.4, 0.6]]),
    ("dmma_128x128", [[0.85; 2], [0.72; 2]]),
];

/// The constants of kernels for batches and groups whose tiles are those of kernels for one product, which the blocks go
/// through without the beginning and the end of a launch between them: they gave the choices that were the fastest in
/// results/2026-11-25-h100-batches and results/2026-11-25-h100-groups.
const IN_BATCHES: [KernelConstants; 3] = [
    KernelConstants::new("tensor_batch_128x128", [0.64, 0.79661], [0.64, 0.85455], 580.5),
    KernelConstants::new("tensor_groups_128x128", [0.64, 0.79661], [0.64, 0.85455], 580.5),
    KernelConstants::new("tensor_groups_128x256", [0.64, 0.84835], [0.64, 0.91129], 1034.4),
];

/// What is done to the sums of a product besides scaling them, by what it takes a kernel on the tensor cores that
/// fuses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finishing {
    /// Nothing.
    #[default]
    Nothing,
    /// A bias of columns or ReLU: what is done to accumulators in registers.
    InRegisters,
    /// All else, which passes through shared memory once more.
    Staged,
    /// The same with a C that is read.
    StagedWithC,
}

impl Finishing {
    /// Nanoseconds that a warpgroup takes for 64 rows of 256 columns, on the reference device
    /// (results/2026-11-27-h200-epilogues).
    pub(super) const fn nanoseconds(self) -> f64 {
        match self {
            Self::Nothing => 0.0,
            Self::InRegisters => 1200.0,
            Self::Staged => 7000.0,
            Self::StagedWithC => 11_500.0,
        }
    }
}

/// The constants of the model: what a device's attributes do not tell.
///
/// Times are nanoseconds and rates bytes a nanosecond, of the reference device.
#[derive(Clone, Debug, PartialEq)]
pub struct Constants {
    /// The device that they are of.
    pub reference: Reference,
    /// What a launch takes however small the product is.
    pub launch: f64,
    /// What a second launch in the same stream adds: it begins when the first has ended.
    pub next_launch: f64,
    /// What copies of operands take whose rows TMA cannot address, one or both, however small they are.
    pub padded_copy: f64,
    /// What a wave of blocks takes of kernels without constants of their own.
    pub wave: f64,
    /// k elements that take as long as what a block does besides: the less there is to overlap with, the
    /// more a tile's way to the SM and back counts.
    pub start_steps: f64,
    /// The rate at which all SMs together write and read parts, which stay in L2.
    pub parts_rate: f64,
    /// The rate at which all SMs together read and write memory.
    pub memory_rate: f64,
    /// The efficiency of kernels without constants of their own: chains of multiply-adds, limbs, tensor
    /// cores.
    pub others: [f64; 3],
    /// Kernels that have some.
    pub kernels: Cow<'static, [KernelConstants]>,
}

impl Constants {
    /// Those of a kernel.
    #[must_use]
    pub fn of(&self, spec: &KernelSpec) -> KernelConstants {
        let own = self.kernels.iter().chain(&IN_BATCHES).find(|known| known.kernel == spec.id);
        own.copied().unwrap_or_else(|| {
            if let Some((_, [aligned, ragged])) = BLOCK_TILES.iter().find(|(id, _)| *id == spec.id)
            {
                return KernelConstants::new(spec.id, *aligned, *ragged, self.wave);
            }
            let [chain, limbs, tensor] = self.others;
            let efficiency = match spec.numerics {
                Numerics::Chain | Numerics::ChainOfRanges => chain,
                Numerics::Limbs { .. } => limbs,
                Numerics::TensorCore => tensor,
            };
            KernelConstants::same(spec.id, efficiency, self.wave)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::fitted::FITTED;
    use super::*;
    use kernels_gpu::{KERNELS, Kernel};

    #[test]
    fn efficiencies_lie_between_one_block_and_all() {
        let efficiency = Efficiency { alone: 0.1, full: 0.19 };
        assert_eq!(efficiency.with(1, 4), 0.1);
        assert!((efficiency.with(2, 4) - 0.13).abs() < 1e-12);
        assert_eq!([4, 9].map(|blocks| efficiency.with(blocks, 4)), [0.19; 2]);
        assert_eq!(Efficiency { alone: 0.9, full: 0.7 }.with(1, 1), 0.7);
    }

    #[test]
    fn fitted_constants_are_of_kernels_that_there_are_and_below_the_peak() {
        for own in FITTED.kernels.iter() {
            assert!(Kernel::named(own.kernel).is_some(), "{}", own.kernel);
            for Efficiency { alone, full } in [own.aligned, own.ragged] {
                assert!([alone, full].iter().all(|share| (0.05..1.0).contains(share)), "{own:?}");
            }
        }
        for kernel in KERNELS {
            assert_eq!(FITTED.of(kernel.spec()).kernel, kernel.id);
        }
    }
}
