//! The launch of a batch by a kernel that finds its operands by their addresses.

use super::{Arguments, Planner, Step, pointer, pointer_mut, size};
use crate::batched::{Partition, STAGES, THREADS};
use crate::block_tile;
use crate::params::BatchedParams;
use crate::{
    BatchShare, GemmTypes, Grid, Tile, Unsupported, batched, batched_limbs, batched_mma, split,
};

/// Bytes of shared memory that a resident block takes besides its own.
const BYTES_OF_BLOCK: u32 = 1024;

impl<T: GemmTypes> Planner<'_, T> {
    /// The products of the batch by one launch, of which a block computes groups of several, or tiles.
    pub(super) fn by_batch(
        &self,
        share: BatchShare,
        steps: &mut Vec<Step<T>>,
    ) -> Result<(), Unsupported> {
        let (problem, batch) = (&self.problem, self.batch);
        let sizes @ [m, n, k] = [problem.m, problem.n, problem.effective_k()].map(size);
        let refused = Unsupported::TooLarge { m: problem.m, n: problem.n, k: problem.k };
        let count = u32::try_from(batch.count).map_err(|_| refused)?;
        if count == 0 {
            return Ok(());
        }
        let orders = batched::orders(problem.a.order, problem.b.order);
        let acc_bytes = size(T::TYPES.acc().dtype().size());
        let multiprocessors = self.limits.multiprocessors;
        let (partition, shared_bytes, threads) = match share {
            BatchShare::Tile(tile) => {
                let Tile { m: tile_m, n: tile_n } = tile.tile();
                let (rows, chunk) = (block_tile::ROWS, tile.steps(acc_bytes));
                let partition = Partition { tile_m, tile_n, rows, group: 1, chunk };
                (partition, tile.shared_elements(acc_bytes, orders) * acc_bytes, tile.threads())
            }
            BatchShare::Threads => {
                let partition = Partition::new(sizes, count, multiprocessors);
                (partition, STAGES * partition.stage_elements() * acc_bytes, THREADS)
            }
            BatchShare::Limbs => {
                let Tile { m: tile_m, n: tile_n } = batched_limbs::TILE;
                let (rows, chunk) = (batched_limbs::ROWS, split::BLOCK_K);
                let partition = Partition { tile_m, tile_n, rows, group: 1, chunk };
                (partition, self.spec.shared_elements * acc_bytes, batched_limbs::THREADS)
            }
            BatchShare::Warps => {
                let it = batched_mma::Partition::new(sizes, count, multiprocessors);
                (Partition::from(it), it.shared_bytes(), 32 * it.warps())
            }
        };
        let tiles = partition.tiles([m, n], count).ok_or(refused)?;
        // As many as are resident together; each SM keeps some bytes of shared memory for itself.
        let fit = self.limits.max_shared_bytes / (shared_bytes + BYTES_OF_BLOCK);
        let registers = self.spec.min_blocks(T::TYPES) * (self.spec.max_threads() / threads);
        let resident = fit.clamp(1, registers) * multiprocessors;
        let Partition { tile_m, tile_n, rows, group, chunk } = partition;
        let params = BatchedParams {
            m,
            n,
            k,
            count,
            alpha: problem.alpha,
            a: pointer(self.addresses.a),
            lda: problem.a.ld as u64,
            a_stride: batch.a_stride as u64,
            b: pointer(self.addresses.b),
            ldb: problem.b.ld as u64,
            b_stride: batch.b_stride as u64,
            beta: problem.beta,
            c: pointer_mut(self.addresses.c),
            ldc: problem.c.ld as u64,
            c_stride: batch.c_stride as u64,
            orders,
            tile_m,
            tile_n,
            rows,
            group,
            chunk,
            tiles,
        };
        let mut launch = self.own(Arguments::Batched(params))?;
        launch.grid = Grid { x: tiles.min(resident.max(1)), y: 1, z: 1 };
        launch.block.x = threads;
        launch.shared_bytes = shared_bytes;
        steps.push(Step::Launch(launch));
        Ok(())
    }
}
