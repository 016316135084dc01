//! A launch on a card: grid, blocks, how many run at once, waves and the tail.

use std::fmt;

use gemm_spec::{Block, DeviceLimits, Grid, KernelSpec, LaunchShape, Problem, Types, Unsupported};

use crate::card::Card;
use gemm_spec::with_gemm_types;

/// 32-bit registers of an SM, of every card that runs the kernels.
const REGISTERS_PER_SM: u64 = 65_536;
/// Registers are given to a warp in units of this many.
const REGISTER_UNIT: u64 = 256;
/// Threads of a warp.
const WARP: u64 = 32;

/// The geometry of one launch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Launch {
    grid: Grid,
    block: Block,
    /// Blocks at once on an SM, and what allows no more; none where no line of the table of
    /// registers is for such a card.
    held: Option<(u64, &'static str)>,
    multiprocessors: u64,
}

impl Launch {
    /// A launch for a square product of `n`.
    ///
    /// # Errors
    /// Why the card cannot run it.
    pub(super) fn new(
        spec: &KernelSpec,
        n: usize,
        types: Types,
        card: &Card,
    ) -> Result<Self, Unsupported> {
        let limits = DeviceLimits {
            compute_capability: capability(card),
            max_threads_per_block: card.threads_per_block,
            max_shared_bytes: card.shared_per_block,
            multiprocessors: card.multiprocessors,
        };
        with_gemm_types!(types, T => spec.supports(&Problem::<T>::new(n, n, n), &limits))?;
        let (grid, block) = (spec.launch_grid(n, n, card.multiprocessors)?, spec.block(n, n)?);
        let symbol = spec.entry(types)?;
        let held = registers()
            .find(|row| row.entry == symbol)
            .and_then(|row| Some((row.on(capability(card))?, row.shared_bytes)))
            .map(|(registers, shared)| held(card, block, registers, shared));
        Ok(Self { grid, block, held, multiprocessors: u64::from(card.multiprocessors) })
    }

    fn blocks(&self) -> u64 {
        [self.grid.x, self.grid.y, self.grid.z].into_iter().map(u64::from).product()
    }
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Grid { x, y, z }, Block { x: bx, y: by }) = (self.grid, self.block);
        let blocks = self.blocks();
        write!(f, "  grid {x} x {y} x {z} = {blocks} blocks of {bx} x {by} = {} threads", bx * by)?;
        let Some((held, limit)) = self.held else {
            return write!(f, "\n  how many run at once is not known for this card");
        };
        let at_once = held * self.multiprocessors;
        write!(
            f,
            "\n  {held} {} at once on an SM, limited by {limit}; {at_once} on the card",
            if held == 1 { "block" } else { "blocks" }
        )?;
        let waves = blocks.div_ceil(at_once);
        let last = blocks - (waves - 1) * at_once;
        let word = if waves == 1 { "wave" } else { "waves" };
        write!(f, "\n  {waves} {word}; the last has {last} of {at_once} blocks")
    }
}

/// Major and minor of a card's compute capability.
fn capability(card: &Card) -> (u32, u32) {
    let (major, minor) = card.compute_capability.split_once('.').unwrap_or(("0", "0"));
    (major.parse().unwrap_or(0), minor.parse().unwrap_or(0))
}

fn held(card: &Card, block: Block, registers: u64, shared: u64) -> (u64, &'static str) {
    let warps = u64::from(block.x * block.y).div_ceil(WARP);
    let of_a_warp = (registers * WARP).div_ceil(REGISTER_UNIT) * REGISTER_UNIT;
    let kept = shared + u64::from(card.shared_reserved);
    let limits = [
        (u64::from(card.threads_per_sm) / (warps * WARP), "threads"),
        (REGISTERS_PER_SM / (warps * of_a_warp).max(1), "registers"),
        (u64::from(card.shared_per_sm).checked_div(kept).unwrap_or(u64::MAX), "shared memory"),
        (u64::from(card.blocks_per_sm), "blocks"),
    ];
    let (blocks, limit) = limits.into_iter().min_by_key(|(blocks, _)| *blocks).unwrap_or((1, ""));
    // A launch that the card supports fits once.
    (blocks.max(1), limit)
}

/// Elements that a launch asks of global memory, where its shape tells.
///
/// A kernel with shared memory loads A once for each column of blocks and B once for each row of
/// them; one without loads both operands of every multiply-add, once for each thread's own elements.
pub(super) fn loads(spec: &KernelSpec, n: usize) -> Option<f64> {
    let size = n as f64;
    let walk = |rows: f64, cols: f64| size.powi(2) * ((size / cols).ceil() + (size / rows).ceil());
    let LaunchShape::Grid { tile, block, .. } = spec.launch else {
        return (spec.launch == LaunchShape::SingleBlock).then(|| 2.0 * size.powi(3));
    };
    Some(if spec.shared_elements > 0 {
        walk(f64::from(tile.m), f64::from(tile.n))
    } else {
        walk(f64::from(tile.m / block.y), f64::from(tile.n / block.x))
    })
}

/// A line of the table that the assembler's report filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registers {
    pub(super) kernel: &'static str,
    pub(super) entry: &'static str,
    /// As in the table: `44 (sm_75, no limit), 32 (sm_90)`.
    pub(super) registers: &'static str,
    pub(super) shared_bytes: u64,
}

/// The lines of docs/registers.md.
pub(super) fn registers() -> impl Iterator<Item = Registers> {
    let lines = include_str!("../../../../docs/registers.md").lines();
    lines.filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let &[kernel, entry, _, registers, _, shared] = cells.as_slice() else { return None };
        Some(Registers {
            kernel,
            entry: entry.strip_prefix('`')?.strip_suffix('`')?,
            registers,
            shared_bytes: shared.parse().ok()?,
        })
    })
}

impl Registers {
    /// Registers of a thread on a card: those of the newest arch of the table that is not newer.
    fn on(&self, capability: (u32, u32)) -> Option<u64> {
        let arches = self.registers.split("), ").filter_map(|part| {
            let (count, arch) = part.split_once(" (sm_")?;
            let number: String = arch.chars().take_while(char::is_ascii_digit).collect();
            Some((number.parse::<u32>().ok()?, count.parse::<u64>().ok()?))
        });
        let own = capability.0 * 10 + capability.1;
        arches.filter(|(arch, _)| *arch <= own).max().map(|(_, count)| count)
    }
}

#[cfg(test)]
mod tests {
    use kernels_gpu::KERNELS;

    use super::*;
    use crate::card::find;

    fn spec(id: &str) -> kernels_gpu::Kernel {
        KERNELS.iter().copied().find(|spec| spec.id == id).unwrap()
    }

    fn launch(id: &str, n: usize, card: &str) -> String {
        match Launch::new(spec(id).spec(), n, Types::F32, find(card).unwrap()) {
            Ok(launch) => launch.to_string(),
            Err(why) => why.to_string(),
        }
    }

    /// The 2010 blog entry: 64 x 64 blocks of 16 x 16 threads for n = 1024.
    #[test]
    fn the_blog_entrys_launch() {
        let text = launch("tiled16", 1024, "h200");
        assert!(text.contains("grid 64 x 64 x 1 = 4096 blocks of 16 x 16 = 256 threads"), "{text}");
        assert!(text.contains("8 blocks at once on an SM, limited by threads; 1056"), "{text}");
        assert!(text.contains("4 waves; the last has 928 of 1056 blocks"), "{text}");
    }

    #[test]
    fn refusals_and_unknown_cards_are_said() {
        assert!(launch("naive", 1024, "g80").contains("7.0"), "{}", launch("naive", 1024, "g80"));
        assert!(launch("single_block", 33, "h200").contains("1089"));
        // The assembler knows nothing older than sm_75.
        assert!(launch("naive", 64, "volta").contains("not known"));
        assert!(launch("single_block", 4, "h200").contains("1 wave; the last has 1 of"));
    }

    #[test]
    fn every_entry_has_its_registers_or_its_kernel_none() {
        let rows: Vec<Registers> = registers().collect();
        assert!(!rows.is_empty());
        for row in &rows {
            assert!(row.on((99, 0)).is_some_and(|count| count > 0), "{row:?}");
        }
        let row = rows.iter().find(|row| row.entry == "naive_f32").unwrap();
        assert_eq!((row.on((7, 0)), row.on((8, 9)), row.on((12, 0))), (None, Some(64), Some(32)));
    }

    #[test]
    fn tiles_divide_the_loads_by_their_width() {
        let each = |id: &str| loads(spec(id).spec(), 1024).unwrap() / 1024f64.powi(3);
        assert_eq!((each("single_block"), each("naive")), (2.0, 2.0));
        for width in [2, 4, 8, 16, 32] {
            assert_eq!(each(&format!("tiled{width}")), 2.0 / f64::from(width));
        }
        assert_eq!(each("register_tile_2d"), 2.0 / 128.0);
    }
}
