//! Nothing: a package that is named beside others has cargo give what they share the features that it has in the tests
//! of the workspace.
//!
//! Cargo unites the features of the packages that it is asked for. A library built alone would have `num-traits` with
//! fewer features than the tests have it with, and all that stands on it, the engine of the CPU too, would be compiled
//! once more. `cargo xtask ci` counts on it, and a test of xtask holds both lists together. Nothing depends on this
//! package but tests.
