//! What the engine promises, on every instruction set that this CPU has: the bits of the engine's definition for any
//! shape, storage order, part, thread count and caller; nothing read or written that is not an operand.

#[path = "packed/bits.rs"]
mod bits;
#[path = "packed/faults.rs"]
mod faults;
#[path = "packed/numbers.rs"]
mod numbers;
#[path = "packed/operands.rs"]
mod operands;
#[path = "packed/pages.rs"]
mod pages;
