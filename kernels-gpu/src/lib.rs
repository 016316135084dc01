//! The GPU kernels, one idea a file, and the ordered registry of them.
//!
//! The crate builds for `nvptx64-nvidia-cuda`, once for each arch, where each `#[kernel]` of that
//! arch becomes an entry of the PTX under `ptx/`, and for the host, where the registry tells everybody
//! else which kernels there are. With the feature `emulate` the same functions run there on the emulator;
//! without it they are compiled, and nobody can call them.

#![allow(
    clippy::cast_possible_truncation,
    reason = "kernels count in 32 bits what `KernelSpec::supports` bounds to them, and `usize` has 64 where they run"
)]
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]
#![cfg_attr(cuda_arch = "sm_90a", feature(asm_experimental_arch))]

#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_80"))]
mod async_copy;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_90a"))]
mod batched_bf16x6;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_80"))]
mod batched_mma;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_80"))]
mod batched_small;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_90a"))]
mod bf16x9;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_80", cuda_arch = "sm_90a"))]
mod block_tile;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_90a"))]
mod bulk_copy;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_90a"))]
mod f16x3;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_70"))]
mod finish;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_90a"))]
mod limbs;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_70"))]
mod naive;
#[cfg_attr(
    target_arch = "nvptx64",
    allow(dead_code, unused_imports, unused_macros, reason = "a module has some of the kernels")
)]
mod parts;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_70"))]
mod register_tile_1d;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_70"))]
mod register_tile_2d;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_70"))]
mod single_block;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_80"))]
mod small_m;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_80"))]
mod small_n;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_80"))]
mod split_k;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_80", cuda_arch = "sm_90a"))]
mod sum_parts;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_90a"))]
mod tensor;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_70"))]
mod tiled;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_70"))]
mod transpose;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_70"))]
mod vector_loads;
#[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_70"))]
mod warp_tile;

#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
mod emulated;
#[cfg(not(target_arch = "nvptx64"))]
mod kernel;
#[cfg(not(target_arch = "nvptx64"))]
mod module;
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub use emulated::{EmulatedCall, EmulatedEntry, EmulatedFn, emulated_entry};
#[cfg(not(target_arch = "nvptx64"))]
pub use kernel::Kernel;
#[cfg(not(target_arch = "nvptx64"))]
pub use module::{Assembled, Module};

/// What copies an operand to rows for the kernels that read rows alone. It runs on every GPU, and is
/// in the module of its arch's helpers.
#[cfg(not(target_arch = "nvptx64"))]
pub const TRANSPOSE: gemm_spec::HelperEntry = transpose::ENTRY;

/// What finishes sums of f32, and of f64, for the kernels that do not fuse an epilogue. It is where
/// [`TRANSPOSE`] is.
#[cfg(not(target_arch = "nvptx64"))]
pub const FINISH: [gemm_spec::HelperEntry; 2] = finish::ENTRIES;

/// What launches of kernels of any arch may use.
#[cfg(not(target_arch = "nvptx64"))]
pub fn common_entries() -> impl Iterator<Item = gemm_spec::HelperEntry> {
    [TRANSPOSE].into_iter().chain(FINISH)
}

/// Lists the kernels: each module's specification, and its entries as functions for the emulator.
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! registry {
    ($($module:ident::{$spec:ident, $emulated:ident}),+ $(,)?) => {
        /// Every kernel, in the order of the ladder. Lists, tests, tables and benches follow from it.
        pub const KERNELS: &[Kernel] = &[$(Kernel::of(&$module::$spec)),+];

        #[cfg(feature = "emulate")]
        const EMULATED: &[&[(&str, EmulatedEntry)]] =
            &[
                sum_parts::EMULATED,
                transpose::EMULATED,
                finish::EMULATED,
                tensor::EMULATED_PAD,
                tensor::EMULATED_SUM,
                bf16x9::EMULATED_EXPONENTS,
                bf16x9::EMULATED_FALLBACK,
                limbs::EMULATED_SUM,
                f16x3::EMULATED_PROBE,
                $($module::$emulated),+
            ];
    };
}

#[cfg(not(target_arch = "nvptx64"))]
registry! {
    single_block::{SPEC, EMULATED},
    naive::{SPEC, EMULATED},
    tiled::{TILED2, EMULATED2},
    tiled::{TILED4, EMULATED4},
    tiled::{TILED8, EMULATED8},
    tiled::{TILED16, EMULATED16},
    tiled::{TILED32, EMULATED32},
    register_tile_1d::{SPEC, EMULATED},
    register_tile_2d::{SPEC, EMULATED},
    vector_loads::{SPEC, EMULATED},
    warp_tile::{SPEC, EMULATED},
    async_copy::{TILE_32X64, EMULATED_32X64},
    async_copy::{TILE_32X128, EMULATED_32X128},
    async_copy::{TILE_64X128, EMULATED_64X128},
    async_copy::{TILE_64X256, EMULATED_64X256},
    async_copy::{TILE_128X256, EMULATED_128X256},
    bulk_copy::{SPEC, EMULATED},
    split_k::{TILE_32X64, EMULATED_32X64},
    split_k::{TILE_64X64, EMULATED_64X64},
    split_k::{TILE_32X128, EMULATED_32X128},
    split_k::{TILE_64X128, EMULATED_64X128},
    split_k::{TILE_128X64, EMULATED_128X64},
    small_m::{SPEC, EMULATED},
    small_n::{SPEC, EMULATED},
    batched_small::{SPEC, EMULATED},
    batched_mma::{SPEC, EMULATED},
    block_tile::{BATCHED_64X64, EMULATED_BATCHED_64X64},
    block_tile::{BATCHED_96X96, EMULATED_BATCHED_96X96},
    block_tile::{DMMA_64X64, EMULATED_DMMA_64X64},
    block_tile::{DMMA_96X96, EMULATED_DMMA_96X96},
    block_tile::{DMMA_128X128, EMULATED_DMMA_128X128},
    bf16x9::{NINE, EMULATED},
    bf16x9::{SIX, EMULATED},
    batched_bf16x6::{SPEC, EMULATED},
    f16x3::{SPEC, EMULATED},
    tensor::{TILE_64X128, EMULATED},
    tensor::{TILE_128X128, EMULATED},
    tensor::{TILE_128X192, EMULATED},
    tensor::{TILE_128X256, EMULATED},
    tensor::{PINGPONG_64X256, EMULATED},
    tensor::{PINGPONG_128X128, EMULATED},
    tensor::{PAIR_128X192, EMULATED},
    tensor::{PAIR_128X256, EMULATED},
    tensor::{SPLIT_64X64, EMULATED},
    tensor::{SPLIT_64X128, EMULATED},
    tensor::{SPLIT_128X64, EMULATED},
    tensor::{SPLIT_128X128, EMULATED},
    tensor::{TILE_128X160, EMULATED},
    tensor::{TILE_64X64, EMULATED},
    tensor::{BATCH_128X128, EMULATED},
    tensor::{GROUPS_128X128, EMULATED},
    tensor::{GROUPS_128X256, EMULATED},
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_snake_case() {
        let mut seen = HashSet::new();
        for spec in KERNELS {
            assert!(seen.insert(spec.id), "{} is listed twice", spec.id);
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            assert!(spec.id.chars().all(plain), "{}", spec.id);
        }
    }

    #[test]
    fn every_symbol_is_its_id_and_type_and_runs_on_the_host() {
        for spec in KERNELS {
            for entry in spec.entries {
                assert_eq!(entry.symbol, format!("{}_{}", spec.id, entry.types));
            }
            for form in spec.forms() {
                assert!(emulated_entry(form.symbol).is_some(), "{}", form.symbol);
            }
        }
        assert!(emulated_entry("no_such_kernel_f32").is_none());
    }
}
