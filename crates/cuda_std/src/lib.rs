//! cuda_std
