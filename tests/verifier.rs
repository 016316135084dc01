//! The verifier is attacked: correct results pass, whatever the data, and wrong ones do not.

#![expect(clippy::print_stdout, reason = "a measurement shows its figures")]

#[path = "verifier/correct.rs"]
mod correct;
#[path = "verifier/large.rs"]
mod large;
#[path = "verifier/mutants.rs"]
mod mutants;
#[path = "verifier/operands.rs"]
mod operands;
#[path = "verifier/single_errors.rs"]
mod single_errors;
#[path = "verifier/sixteen_bits.rs"]
mod sixteen_bits;
#[path = "verifier/special_values.rs"]
mod special_values;
