//! How large the blocks are: MC, KC and NC, from this machine's caches.
//!
//! No result depends on them: where [chains](crate::sum) of a sum end they may end, not the other way round.

use std::path::Path;
use std::sync::OnceLock;

use gemm_spec::{Accumulator, GemmTypes};

use crate::cache_line::PAGE;
use crate::kernels::Kernels;
use crate::sum::{CHAIN, is_exact, superblock};
use crate::thresholds::{COLUMNS_PER_COPY, COPIED_TILES, FEW_PANELS};

/// What a core has, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caches {
    /// First level, data.
    l1: usize,
    /// Second level.
    l2: usize,
    /// Third level, or the second again where there is none.
    l3: usize,
}

impl Caches {
    /// This machine's, read once.
    pub(crate) fn of_this_machine() -> Self {
        static CACHES: OnceLock<Caches> = OnceLock::new();
        *CACHES.get_or_init(|| Self::read(Path::new("/sys/devices/system/cpu/cpu0/cache")))
    }

    /// Lines of one set of the first level, whose sets repeat with each page.
    pub(crate) fn ways(self) -> usize {
        self.l1 / PAGE
    }

    /// What Linux tells in a folder, within what processors have; else what most have.
    ///
    /// Bounds matter for the third level above all: a virtual machine reports all of its host's, of
    /// which it gets a share.
    fn read(folder: &Path) -> Self {
        let mut levels = [None; 4];
        for index in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let text = |name: &str| {
                let text = std::fs::read_to_string(index.path().join(name)).unwrap_or_default();
                text.trim().to_owned()
            };
            let level = text("level").parse::<usize>().ok();
            let kibibytes = text("size").strip_suffix('K').and_then(|kib| kib.parse().ok());
            if text("type") != "Instruction"
                && let (Some(level), Some(kib)) = (level, kibibytes)
                && let Some(slot) = levels.get_mut(level)
            {
                *slot = Some(usize::saturating_mul(kib, 1024));
            }
        }
        let l1 = levels[1].unwrap_or(32 << 10).clamp(16 << 10, 128 << 10);
        let l2 = levels[2].unwrap_or(512 << 10).clamp(256 << 10, 4 << 20);
        let l3 = levels[3].unwrap_or(l2).clamp(l2, 32 << 20);
        Self { l1, l2, l3 }
    }
}

/// The sizes of blocks, in elements of the type that is packed: that of sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocking {
    /// Rows of a block of A, which stays in the L2: MC.
    pub(crate) rows: usize,
    /// k elements of a block: KC.
    pub(crate) k: usize,
    /// Columns of a block of B, which stays in the last cache: NC.
    pub(crate) cols: usize,
}

impl Blocking {
    /// Equal blocks of an m by n by k problem, none larger than the caches allow, and of rows as many as it
    /// takes for each thread's copy of a block of A to pay.
    pub(crate) fn new<T: GemmTypes>(
        kernels: &Kernels<T>,
        caches: Caches,
        m: usize,
        n: usize,
        k: usize,
        threads: usize,
    ) -> Self {
        let (mr, nr) = (kernels.rows, kernels.cols);
        let elements = half::<T::Acc>;
        let k = k_of_a_block::<T::Acc>(caches, (nr, kernels.group), k);
        let steps = kernels.packed_steps(k);
        // A block of A that is used once stays in the first level; where it is used a few times, what the
        // next is packed from, which is asked for meanwhile, needs as much room in the second.
        let cache = match n.div_ceil(nr) {
            0 | 1 => caches.l1,
            panels if threads == 1 && panels <= FEW_PANELS => caches.l2 / 2,
            _ => caches.l2,
        };
        // Two blocks of B: while one is used the next is packed.
        let cols = equal(n, (elements(caches.l3) / 2 / steps).max(nr), nr);
        let pays = match threads {
            1 => m,
            _ => m.div_ceil((threads * COLUMNS_PER_COPY).div_ceil(cols)),
        };
        let pays = pays.max(COPIED_TILES * mr).next_multiple_of(mr);
        let most = (elements(cache) / steps).max(mr).min(pays);
        let rows = equal(m, most, mr);
        Self { rows, k, cols }
    }
}

/// Elements in half of a level of cache: the other half is for what passes through.
fn half<Acc>(bytes: usize) -> usize {
    bytes / 2 / size_of::<Acc>()
}

/// k elements of a block for tiles of `nr` columns, of whose elements `group` are packed in the room of one.
fn k_of_a_block<Acc: Accumulator>(caches: Caches, (nr, group): (usize, usize), k: usize) -> usize {
    // A multiple of `STEPS`, so that what fits it is one block: cut elsewhere than between chains a sum is wrong.
    let depth = (half::<Acc>(caches.l1) / nr).clamp(64, MOST_K) / STEPS * STEPS;
    // Whole superblocks, so that nothing but totals waits from one block to the next, or whole chains where the
    // cache has no room for that; of exact sums, which have neither, a multiple of the steps of any packed element.
    let unit = match superblock::<Acc>() {
        _ if is_exact::<Acc>() || k <= depth => STEPS,
        superblock if superblock <= depth => superblock,
        _ => CHAIN,
    };
    equal(k, depth * group, unit)
}

/// A multiple of the steps of any packed element.
const STEPS: usize = 8;

/// k elements beyond which nothing is gained: sums are then carried seldom enough.
const MOST_K: usize = 512;

/// The size of equal parts of `whole`, a multiple of `unit` near `most` at most.
fn equal(whole: usize, most: usize, unit: usize) -> usize {
    let parts = whole.div_ceil((most / unit).max(1) * unit).max(1);
    whole.div_ceil(parts).next_multiple_of(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of floats are cut between blocks where their chains end, whatever the caches and the tiles are.
    fn blocks_end_where_chains_do<Acc: Accumulator>() {
        for nr in 1..=16 {
            for l1 in [16, 24, 32, 48, 64, 128] {
                let caches = Caches { l1: l1 << 10, l2: 512 << 10, l3: 8 << 20 };
                for k in 1..1500 {
                    let block = k_of_a_block::<Acc>(caches, (nr, 1), k);
                    let whole = block >= k || block.is_multiple_of(CHAIN);
                    assert!(whole, "{nr} columns, {l1} KiB, k = {k}: {block}");
                }
            }
        }
    }

    #[test]
    fn blocks_of_f32_end_where_chains_do() {
        blocks_end_where_chains_do::<f32>();
    }

    #[test]
    fn blocks_of_f64_end_where_chains_do() {
        blocks_end_where_chains_do::<f64>();
    }
}
