//! The functions of the tiles and those of their model.

use super::lines::{self, LookFn};
use super::pack;
use super::restore::Restore;
use crate::amx::micro_kernel::{MicroKernel, model_i8, multiply_i8};
use crate::amx::store::{self, StoreFn};

/// What a unit offers for numbers of residues by N moduli.
pub(super) struct Kernels<const N: usize> {
    pub(super) look: LookFn,
    pub(super) pack: pack::PackFn,
    pub(super) multiply: MicroKernel,
    pub(super) restore: Restore<N>,
    pub(super) store: StoreFn<f64>,
}

impl<const N: usize> Kernels<N> {
    pub(super) const TILES: &'static Self = &Self {
        look: lines::look_avx512::<N>,
        pack: pack::avx512::pack::<N>,
        multiply: multiply_i8,
        restore: Restore::AVX512,
        store: store::store_avx512,
    };

    pub(super) const MODEL: &'static Self = &Self {
        look: lines::look::<N>,
        pack: pack::pack::<N>,
        multiply: model_i8,
        restore: Restore::PLAIN,
        store: store::store,
    };
}
