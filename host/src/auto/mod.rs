//! Figures of this machine, which the choices of a processor and of a kernel go by: how they are measured,
//! kept and judged.

mod judge;
mod kept;
mod kernels;
mod tune;

pub use judge::{EDGES, Judged, judge};
pub use kept::{FOLDER_VARIABLE, Kept, file, read};
pub use kernels::kernel_times;
use tessera::select::{DeviceModel, Figures};
pub use tune::tune;

use crate::gpu::Gpu;
use crate::machine::Machine;

/// The figures in the user's file, as they hold for this processor; and in one line why the file is not
/// used, where there is one that cannot be.
#[must_use]
pub fn figures() -> (Option<Figures>, Option<String>) {
    match file().map_or(Kept::Nothing, |path| read(&path)) {
        Kept::Figures(figures) => (Some(figures.on_processor(&Machine::probe().cpu)), None),
        Kept::Nothing => (None, None),
        Kept::Unusable(reason) => (None, Some(reason)),
    }
}

/// The model of a GPU, with the figures in the user's file where they are of it.
#[must_use]
pub fn device_model(gpu: &Gpu) -> DeviceModel {
    let model = gpu.model().clone();
    match file().map_or(Kept::Nothing, |path| read(&path)) {
        Kept::Figures(figures) => match figures.of_gpu(&gpu.info().name) {
            Some(figures) => model.with_figures(figures),
            None => model,
        },
        Kept::Nothing | Kept::Unusable(_) => model,
    }
}
