//! Which kernel suits a product best.

use gemm_spec::{KernelSpec, Pace, Paces, Types};

use crate::{Kernel, async_copy, bf16x9, f16x3, small_m, small_n, split_k, tensor};

/// The kernels of one chain that a product of f32 is chosen from, with what one SM does with
/// them: fitted to times measured on an H200 (docs/kernel-notes.md, "The choice").
const CHAINS: [(&KernelSpec, Paces); 5] = [
    (
        &async_copy::TILE_32X64,
        Paces { aligned: Pace { alone: 208, full: 307 }, ragged: Pace { alone: 138, full: 316 } },
    ),
    (
        &async_copy::TILE_32X128,
        Paces { aligned: Pace { alone: 237, full: 376 }, ragged: Pace { alone: 153, full: 344 } },
    ),
    (
        &async_copy::TILE_64X128,
        Paces { aligned: Pace { alone: 283, full: 373 }, ragged: Pace { alone: 283, full: 313 } },
    ),
    (
        &async_copy::TILE_64X256,
        Paces { aligned: Pace { alone: 361, full: 401 }, ragged: Pace { alone: 273, full: 275 } },
    ),
    (
        &async_copy::TILE_128X256,
        Paces { aligned: Pace { alone: 411, full: 411 }, ragged: Pace { alone: 316, full: 316 } },
    ),
];

/// The kernels that can share k out to several blocks a tile; each knows its pace.
const SPLIT_K: [&KernelSpec; 5] = [
    &split_k::TILE_32X64,
    &split_k::TILE_64X64,
    &split_k::TILE_32X128,
    &split_k::TILE_64X128,
    &split_k::TILE_128X64,
];

/// The kernel for few rows or few columns, where the product has no more than it reads the other operand
/// once for. Whatever is multiplied meanwhile, nothing is faster than that.
fn small(m: usize, n: usize) -> Option<&'static KernelSpec> {
    let fits = |spec: &KernelSpec, rows: bool| {
        let tile = spec.launch.tile();
        tile.is_some_and(|tile| if rows { m <= tile.m as usize } else { n <= tile.n as usize })
    };
    if m <= n && fits(&small_m::SPEC, true) {
        Some(&small_m::SPEC)
    } else {
        Some(&small_n::SPEC).filter(|spec| n < m && fits(spec, false))
    }
}

/// Whether a product of limbs on the tensor cores is both faster than one on the multiply-add units
/// and no less exact.
///
/// Splitting costs time that only many multiplications win back: on an H200 it does at 1024 x 1024 x
/// 1024 (results/2026-11-20-h200-tensor). With few k elements, one chain of multiply-adds has the smaller error
/// (docs/accuracy.md).
const fn pays_to_split(m: usize, n: usize, k: usize) -> bool {
    const LEAST_WORK: u128 = 1 << 30;
    const LEAST_SIDE: usize = 256;
    const LEAST_K: usize = 512;
    let work = m as u128 * n as u128 * k as u128;
    m >= LEAST_SIDE && n >= LEAST_SIDE && k >= LEAST_K && work >= LEAST_WORK
}

/// The kernel of f32 that should be the first to end with an `m` by `n` by `k` product on a device of
/// that many SMs, among those that `allowed` lets through; `None` where it lets none.
#[must_use]
pub fn best_f32(
    m: usize,
    n: usize,
    k: usize,
    multiprocessors: u32,
    allowed: impl Fn(&KernelSpec) -> bool,
) -> Option<Kernel> {
    if pays_to_split(m, n, k) {
        // The fewest products first.
        let split = [&f16x3::SPEC, &bf16x9::SIX].into_iter().find(|&spec| allowed(spec));
        if split.is_some() {
            return split.map(Kernel::of);
        }
    }
    if let Some(spec) = small(m, n).filter(|spec| spec.grid(m, n).is_ok() && allowed(spec)) {
        return Some(Kernel::of(spec));
    }
    let time = |spec, paces| gemm_spec::time(spec, Types::F32, paces, (m, n, k), multiprocessors);
    let chains = CHAINS.iter().filter_map(|&(spec, paces)| Some((time(spec, paces)?, spec)));
    let split = SPLIT_K.iter().filter_map(|&spec| {
        Some((gemm_spec::split_k::time(spec, spec.split_k?, (m, n, k), multiprocessors)?, spec))
    });
    chains
        .chain(split)
        .filter(|(_, spec)| allowed(spec))
        // Of equal ones the first: a chain, and then the smaller tile.
        .min_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, spec)| Kernel::of(spec))
}

/// The kernels that a product of 16-bit floats is chosen from, with what one SM does with
/// them.
///
/// Measured on an H200 (results/2026-11-21-h200): the rate at 8192 x 8192, where each SM
/// has a block, over the SMs.
const HALF: [(&KernelSpec, Paces); 2] = [
    (&tensor::TILE_128X128, Paces::same(Pace { alone: 4740, full: 4740 })),
    (&tensor::TILE_128X256, Paces::same(Pace { alone: 5000, full: 5000 })),
];

/// As [`best_f32`], for f16 and bf16.
#[must_use]
pub fn best_half(
    m: usize,
    n: usize,
    k: usize,
    multiprocessors: u32,
    allowed: impl Fn(&KernelSpec) -> bool,
) -> Option<Kernel> {
    let time = |spec, paces| gemm_spec::time(spec, Types::F16, paces, (m, n, k), multiprocessors);
    HALF.iter()
        .filter_map(|&(spec, paces)| Some((time(spec, paces)?, spec)))
        .filter(|(_, spec)| allowed(spec))
        .min_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, spec)| Kernel::of(spec))
}

#[cfg(test)]
mod tests {
    use gemm_spec::Arch;

    use super::*;
    use crate::KERNELS;

    fn best(m: usize, n: usize, k: usize) -> &'static str {
        // What the tensor cores would do is the matter of another test.
        best_f32(m, n, k, 132, |spec| !spec.reads_any_order()).map_or("none", |spec| spec.id)
    }

    #[test]
    fn every_size_has_a_kernel_of_the_registry_that_covers_it() {
        for multiprocessors in [0, 1, 40, 108, 132, 1000] {
            for m in (1..40).chain([64, 129, 1000, 4096, 100_000, 20_000_000]) {
                for n in (1..40).chain([63, 256, 2047, 30_000, 1_000_000]) {
                    let spec = best_f32(m, n, 64, multiprocessors, |_| true).unwrap();
                    assert!(spec.grid(m, n).is_ok(), "{} for {m} x {n}", spec.id);
                    assert!(spec.entry(Types::F32).is_ok());
                    assert!(KERNELS.iter().any(|known| known.id == spec.id));
                }
            }
        }
        assert!(best_f32(100, 100, 64, 132, |_| false).is_none());
        let only = best_f32(8192, 8192, 8192, 132, |spec| spec.id == "async_copy_32x64").unwrap();
        assert_eq!(only.id, "async_copy_32x64");
    }

    #[test]
    fn small_products_get_small_tiles_and_large_ones_large() {
        let area = |n| {
            let tile = best_f32(n, n, 64, 132, |_| true).unwrap().launch.tile().unwrap();
            tile.m * tile.n
        };
        assert!((1..=512).all(|n| area(n) <= 64 * 128));
        assert!((1..=256).all(|n| area(n) <= 32 * 64));
        assert!([4096, 8192, 10_240, 16_384].into_iter().all(|n| area(n) >= 64 * 256));
    }

    /// The sizes of the measurements: of the kernels that were measured the one that was the fastest
    /// there, or within a hundredth.
    #[test]
    fn the_choice_is_what_the_measurements_say() {
        let best = |n| best_f32(n, n, n, 132, |spec| spec.is_chain()).unwrap().id;
        assert_eq!(best(1024), "async_copy_64x128");
        assert_eq!(best(2048), "async_copy_128x256");
        assert_eq!(best(4096), "async_copy_128x256");
        assert_eq!(best(8192), "async_copy_128x256");
    }

    #[test]
    fn thin_products_get_kernels_that_fill_the_gpu() {
        for (m, n, k) in [(100, 100, 8000), (20, 20, 9000), (300, 500, 9000), (33, 700, 7000)] {
            assert!(best(m, n, k).starts_with("split_k"), "{m} {n} {k}: {}", best(m, n, k));
        }
        for (m, n) in [(1, 4096), (16, 9000), (3, 3), (1, 1)] {
            assert_eq!(best(m, n, 4096), "small_m");
        }
        for (m, n) in [(4096, 1), (9000, 16), (3, 2)] {
            assert_eq!(best(m, n, 4096), "small_n");
        }
        assert!(!best(17, 4096, 4096).starts_with("small"));
        // Nothing to share out.
        assert!(best(8192, 8192, 8192).starts_with("async_copy"));
        assert!(best(4096, 4096, 16).starts_with("async_copy"));
    }

    #[test]
    fn products_of_16_bits_get_the_wide_tile_where_it_keeps_all_at_work() {
        let id = |n| best_half(n, n, n, 132, |_| true).unwrap().id;
        assert_eq!(id(1024), "tensor_128x128");
        assert_eq!([2048, 4096, 8192, 10_240].map(id), ["tensor_128x256"; 4]);
        assert!(best_half(64, 64, 64, 132, |_| false).is_none());
    }

    #[test]
    fn large_products_are_split_where_the_gpu_can() {
        let id = |m, n, k, hopper: bool| {
            best_f32(m, n, k, 132, |spec| hopper || spec.arch != Arch::Sm90a).unwrap().id
        };
        let exact = best_f32(4096, 4096, 4096, 132, |spec| spec.id != "f16x3").unwrap();
        assert_eq!(exact.id, "bf16x6");
        assert_eq!(id(10_240, 10_240, 10_240, true), "f16x3");
        assert_eq!(id(8192, 8192, 8192, false), "async_copy_128x256");
        assert_eq!(id(2048, 2048, 2048, true), "f16x3");
        assert_eq!(id(1024, 1024, 1024, true), "f16x3");
        assert_ne!(id(1000, 1000, 1000, true), "f16x3");
        assert_ne!(id(8192, 8192, 256, true), "f16x3");
        assert_ne!(id(128, 100_000, 8192, true), "f16x3");
    }
}
