//! Instructions that only some GPUs have, a module for each compute capability that introduced them.
//!
//! A kernel that calls one belongs to a PTX module of that arch or a later one.

pub mod sm80;
pub mod sm90;
