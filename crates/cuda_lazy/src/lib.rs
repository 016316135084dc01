//! cuda_lazy
