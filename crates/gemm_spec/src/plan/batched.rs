//! The launch of a batch by a kernel of which a block computes several products.

use super::{Arguments, Planner, Step, pointer, pointer_mut, size};
use crate::batched::{A_COL_MAJOR, B_COL_MAJOR, Partition};
use crate::params::BatchedParams;
use crate::{GemmTypes, Grid, Order, Unsupported};

impl<T: GemmTypes> Planner<'_, T> {
    /// The products of the batch by one launch.
    pub(super) fn by_batch(&self, steps: &mut Vec<Step<T>>) -> Result<(), Unsupported> {
        let (problem, batch) = (&self.problem, self.batch);
        let sizes @ [m, n, k] = [problem.m, problem.n, problem.effective_k()].map(size);
        let refused = Unsupported::TooLarge { m: problem.m, n: problem.n, k: problem.k };
        let count = u32::try_from(batch.count).map_err(|_| refused)?;
        if count == 0 {
            return Ok(());
        }
        let acc_bytes = T::TYPES.acc().dtype().size();
        let multiprocessors = self.limits.multiprocessors;
        let partition = Partition::new(sizes, count, multiprocessors);
        let blocks = partition.blocks([m, n], count).ok_or(refused)?;
        let col_major = |order, flag| if order == Order::ColMajor { flag } else { 0 };
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
            orders: col_major(problem.a.order, A_COL_MAJOR)
                | col_major(problem.b.order, B_COL_MAJOR),
            tile_m,
            tile_n,
            rows,
            group,
            chunk,
        };
        let mut launch = self.own(Arguments::Batched(params))?;
        launch.grid = Grid { x: blocks, y: 1, z: 1 };
        launch.shared_bytes = partition.shared_elements() * size(acc_bytes);
        steps.push(Step::Launch(launch));
        Ok(())
    }
}
