//! Device code that two or more kernels use unchanged.

pub(crate) mod cta;
pub(crate) mod entries;
pub(crate) mod fill;
pub(crate) mod fragments;
pub(crate) mod gemm;
pub(crate) mod group;
pub(crate) mod largest;
pub(crate) mod number;
pub(crate) mod outer_tile;
pub(crate) mod pipeline;
pub(crate) mod powers;
pub(crate) mod product_tile;
pub(crate) mod quad;
pub(crate) mod slices;
pub(crate) mod unroll;
