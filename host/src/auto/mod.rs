//! How the figures are measured and judged on which the choices of a processor and of a kernel depend.

mod judge;
mod kernels;
mod tune;

pub use judge::{EDGES, Judged, judge};
pub use kernels::kernel_times;
pub use tune::tune;
