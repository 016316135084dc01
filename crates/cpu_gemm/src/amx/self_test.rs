//! Whether the tile instructions give the bits of their definition on this machine.

use super::flags::Unraised;
use super::micro_kernel::{
    MicroKernel, MicroTile, SUMS, SUMS_COLUMN, model_bf16, model_i8, multiply_bf16, multiply_i8,
};
use super::pack::PLANE;
use super::permission::Amx;
use super::registers::TileRegisters;

/// Steps of the micro-tiles that are compared.
const STEPS: usize = 2;

/// Panels and sums at a cache line.
#[repr(C, align(64))]
struct Memory {
    a: [u8; STEPS * PLANE],
    b: [u8; STEPS * PLANE],
    sums: [u8; SUMS],
    to: [u8; SUMS],
}

/// Multiplies random numbers by the instructions and by their model: any bits are integers, and as bf16 they
/// are numbers of all exponents, subnormal ones, infinities and NaN among them.
pub(super) fn passes(amx: Amx) -> bool {
    let _unraised = Unraised::from_here();
    same(amx, 1, |byte| byte, multiply_i8, model_i8)
        && same(amx, 2, |byte| byte, multiply_bf16, model_bf16)
        // Numbers near one, whose sums are numbers.
        && same(amx, 3, |byte| byte & 0x83 | 0x3c, multiply_bf16, model_bf16)
}

/// The same with random bytes, of which every other one goes through a function: the upper of a bf16.
fn same(
    amx: Amx,
    seed: u64,
    upper: impl Fn(u8) -> u8,
    unit: MicroKernel,
    model: MicroKernel,
) -> bool {
    let mut memory = Box::new(Memory {
        a: [0; STEPS * PLANE],
        b: [0; STEPS * PLANE],
        sums: [0; SUMS],
        to: [0; SUMS],
    });
    let mut state = seed;
    let Memory { a, b, sums, .. } = &mut *memory;
    for (at, byte) in a.iter_mut().chain(b).chain(sums).enumerate() {
        // Knuth's linear congruential generator, of which the upper bits are random.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let random = state.to_le_bytes()[7];
        *byte = if at % 2 == 1 { upper(random) } else { random };
    }
    let mut run = |kernel: MicroKernel| {
        let nothing = std::ptr::null();
        let tile = MicroTile {
            steps: STEPS,
            a: memory.a.as_ptr(),
            b: memory.b.as_ptr(),
            sums: memory.sums.as_ptr(),
            to: memory.to.as_mut_ptr(),
            ld: SUMS_COLUMN,
            ahead_a: nothing,
            ahead_b: nothing,
            ahead_sums: nothing,
        };
        // SAFETY: two steps of both panels and all sums are there, at cache lines; for the instructions the
        // tiles are configured below.
        unsafe { kernel(&tile) };
        memory.to
    };
    let expected = run(model);
    let tiles = TileRegisters::configure(amx);
    let computed = run(unit);
    drop(tiles);
    computed == expected
}
