//! What every measurement stands on: what is asked for, the processors, the operands, who multiplies, how
//! the result is judged, and the clock.
//!
//! `run`, `sweep`, `bench`, `accuracy` and `auto` differ in what they measure and in the figures of their
//! rows; all else is here.

mod candidate;
mod config;
mod document;
mod inputs;
mod no_gpu;
mod observer;
mod ops;
mod processors;
mod program;
mod timing;
mod verdict;
mod worker;

pub use candidate::{AUTO, Candidate};
pub use config::Config;
pub use document::{Document, Skipped};
pub(crate) use inputs::{Inputs, Room};
pub(crate) use no_gpu::{NO_DEVICE, about_no_gpu, without_gpu};
pub use observer::Observer;
pub use ops::Ops;
pub(crate) use processors::Processors;
pub use processors::{DeviceChoice, MachineInfo};
pub use program::Program;
pub(crate) use program::today;
pub use timing::{Effort, Timing, clock, is_time, mean, repeat};
pub use verdict::Verdict;
pub(crate) use worker::Worker;
