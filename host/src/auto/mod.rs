//! Figures of this machine, which the choice between CPU and GPU goes by: how they are measured, kept and
//! judged.

mod judge;
mod kept;
mod tune;

pub use judge::{EDGES, Judged, judge};
pub use kept::{FOLDER_VARIABLE, Kept, file, read};
use tessera::select::Figures;
pub use tune::tune;

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
