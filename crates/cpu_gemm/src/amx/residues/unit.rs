//! The functions of the tiles and those of their model.

use super::lines::{self, LookFn};
use super::pack;
use super::restore::{self, Restore};
use crate::amx::micro_kernel::{MicroKernel, model_i8, multiply_i8};
use crate::amx::store::{self, StoreFn};

/// What a unit offers.
pub(super) struct Kernels {
    pub(super) look: LookFn,
    pub(super) pack: pack::PackFn,
    pub(super) multiply: MicroKernel,
    pub(super) restore: Restore,
    pub(super) store: StoreFn<f64>,
}

pub(super) const TILES: Kernels = Kernels {
    look: lines::look_avx512,
    pack: pack::avx512::pack,
    multiply: multiply_i8,
    restore: restore::AVX512,
    store: store::store_avx512,
};

pub(super) const MODEL: Kernels = Kernels {
    look: lines::look,
    pack: pack::pack,
    multiply: model_i8,
    restore: restore::PLAIN,
    store: store::store,
};
