//! The tile registers while a thread uses them.

use std::arch::asm;
use std::marker::PhantomData;

use super::permission::Amx;

/// The shapes of the eight tiles: 16 rows of 64 bytes each, as `ldtilecfg` reads them.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// The one configuration that is used.
static WHOLE_TILES: Config = {
    let mut config =
        Config { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
    let mut tile = 0;
    while tile < 8 {
        config.row_bytes[tile] = 64;
        config.rows[tile] = 16;
        tile += 1;
    }
    config
};

/// Tiles configured on this thread, released when it is dropped.
///
/// A thread must not return to its caller with tiles in use: they are 8 KiB of state for every switch of
/// threads, and a signal handler on an alternate stack of the usual size finds no room for them.
pub(super) struct TileRegisters {
    /// What is configured is this thread.
    not_send: PhantomData<*const ()>,
}

impl TileRegisters {
    pub(super) fn configure(_: Amx) -> Self {
        // SAFETY: an `Amx` says that the CPU has the instruction and the system allows it; it reads the 64
        // bytes of the configuration, which is a valid one of palette 1, and clears the tiles, which
        // nothing else in this process uses between products.
        unsafe {
            asm!(
                "ldtilecfg [{config}]",
                config = in(reg) &raw const WHOLE_TILES,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, readonly, preserves_flags),
            );
        }
        Self { not_send: PhantomData }
    }
}

impl Drop for TileRegisters {
    fn drop(&mut self) {
        // SAFETY: made by `configure` alone, so the instruction is allowed; no tile is in use outside the
        // blocks of assembly that load and store them.
        unsafe {
            asm!(
                "tilerelease",
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, nomem, preserves_flags),
            );
        }
    }
}
