//! How a command ends that was to run implementations and could run none.

use anyhow::{Context, anyhow};

use super::Exit;
use super::output::complain;
use crate::gpu;
use crate::measure::DeviceChoice;

/// Says that nothing was run, and whether a GPU was missing; `on_gpu` is what each of the implementations
/// that were asked for runs on. Why one of them did not run is said beside the rows.
pub(super) fn exit(device: DeviceChoice, mut on_gpu: impl Iterator<Item = bool>) -> Exit {
    let may_use_gpu = !matches!(device, DeviceChoice::Cpu | DeviceChoice::Emulate);
    if may_use_gpu
        && on_gpu.any(|on_gpu| on_gpu)
        && let Err(reason) = gpu::devices().context("nothing was run")
    {
        complain(&reason);
        return Exit::NoDevice;
    }
    complain(&anyhow!(
        "nothing was run: everything asked for was skipped; the output has the reasons"
    ));
    Exit::Usage
}
