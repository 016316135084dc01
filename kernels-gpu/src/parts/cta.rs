//! Which CTA this is, for a tile scheduler.

use cuda_std::thread;
use gemm_spec::scheduler::Cta;

/// The CTA of the calling thread.
#[inline(always)]
pub(crate) fn this_cta() -> Cta {
    Cta {
        index: (thread::block_idx_x(), thread::block_idx_y(), thread::block_idx_z()),
        grid: (thread::grid_dim_x(), thread::grid_dim_y()),
    }
}
