//! The tile registers at work on nothing but themselves: what their peak is measured by.

use std::arch::asm;

use super::permission::Amx;
use super::registers::TileRegisters;

/// Products of tiles in a step, into as many tiles.
const TILES: usize = 4;
/// Operations of a product of tiles for each element along k.
const OPERATIONS: usize = 2 * 16 * 16;

/// A loop that multiplies tiles and neither loads nor stores.
#[derive(Clone, Copy, Debug)]
pub struct TileLoop {
    /// Does that many steps.
    pub run: fn(u64),
    /// Operations of a step: of products of the element type, of which some take several products of tiles.
    pub operations: usize,
}

/// The loop for elements of which a tile holds `step` along k, where a product takes `products` products of
/// tiles.
pub(crate) fn tile_loop(step: usize, products: usize) -> Option<TileLoop> {
    Amx::request().ok()?;
    let run = if step == 64 { bytes } else { words };
    Some(TileLoop { run, operations: TILES * OPERATIONS * step / products })
}

macro_rules! tile_loop {
    ($name:ident, $multiply:literal) => {
        fn $name(steps: u64) {
            let Ok(amx) = Amx::request() else { return };
            if steps == 0 {
                return;
            }
            let tiles = TileRegisters::configure(amx);
            // SAFETY: the tiles are configured; the instructions touch nothing but them and the counter.
            unsafe {
                asm!(
                    "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                    "tilezero tmm4", "tilezero tmm5", "tilezero tmm6", "tilezero tmm7",
                    "2:",
                    concat!($multiply, " tmm0, tmm4, tmm6"),
                    concat!($multiply, " tmm1, tmm4, tmm7"),
                    concat!($multiply, " tmm2, tmm5, tmm6"),
                    concat!($multiply, " tmm3, tmm5, tmm7"),
                    "dec {steps}",
                    "jnz 2b",
                    steps = inout(reg) steps => _,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack, nomem),
                );
            }
            drop(tiles);
        }
    };
}

tile_loop!(words, "tdpbf16ps");
tile_loop!(bytes, "tdpbssd");
