//! How a product whose operands are in host memory is cut: bands of rows of A and C.

use std::ops::Range;

use gemm_spec::{Element as _, KernelSpec, Numerics, Problem};

use crate::element::GemmTypes;

/// Rows of a band are a multiple of this, or of the next number above it that the tile of the kernel divides: only the
/// last band has a tile that is not full.
const ROW_STEP: usize = 256;

/// What the rows of a band of a kernel are a multiple of.
fn row_step(spec: &KernelSpec) -> usize {
    spec.launch.tile().map_or(ROW_STEP, |tile| ROW_STEP.next_multiple_of(tile.m.max(1) as usize))
}

/// How products with operands in host memory are cut up on their way.
///
/// The cut changes how long a product takes, never its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// Bytes of a pinned buffer, through which operands travel.
    pub slot_bytes: usize,
    /// Such buffers in each direction.
    pub slots: usize,
    /// Products whose three matrices have fewer bytes than this go up, are multiplied and come down as
    /// a whole.
    pub least_bytes: usize,
    /// Bands of rows in which the others are multiplied, at least, where they have 256 rows for each. One
    /// leaves it to what keeps the SMs at work.
    pub least_bands: usize,
    /// Bands of rows in which they are multiplied, at most.
    pub most_bands: usize,
}

impl Default for Pipeline {
    /// Buffers that a copy takes much longer for than threads take to begin one (docs/notebook/cpu.md); bands
    /// from where a copy lasts a millisecond at the fastest rates there are.
    fn default() -> Self {
        let (least_bands, most_bands) = (1, 8);
        Self { slot_bytes: 16 << 20, slots: 4, least_bytes: 48 << 20, least_bands, most_bands }
    }
}

/// Whether the sums of a kernel stay the same, bit for bit, when it multiplies a part of the rows. Ranges of
/// k are those of the whole product.
fn is_the_same_in_bands<T: GemmTypes>(spec: &KernelSpec, problem: &Problem<T>) -> bool {
    match spec.numerics {
        // Each element is summed in an order that the kernel fixes.
        Numerics::Chain | Numerics::ChainOfRanges | Numerics::TensorCore => true,
        // What limbs cannot hold turns the whole product to the fallback, in bands only those from there
        // on. The whole is then multiplied anew, for which the old C must still be there.
        Numerics::Limbs { .. } => problem.beta == T::Acc::ZERO,
    }
}

impl Pipeline {
    /// The bands of rows of a product, from the first row to the last. Rows are a multiple of 256 but
    /// for the last band's.
    pub(crate) fn bands<T: GemmTypes>(
        &self,
        spec: &KernelSpec,
        problem: &Problem<T>,
        multiprocessors: u32,
    ) -> Vec<Range<usize>> {
        let Problem { m, n, .. } = *problem;
        let small = problem.bytes().is_some_and(|bytes| bytes < self.least_bytes);
        let whole = small
            || problem.effective_k() == 0
            || self.most_bands < 2
            || !is_the_same_in_bands(spec, problem);
        let rows = if whole {
            m
        } else {
            let units = u64::from(multiprocessors) * u64::from(spec.min_blocks(T::TYPES));
            rows_of_a_band((m, n), spec, units.max(1), (self.least_bands, self.most_bands))
        };
        let starts = (0..m).step_by(rows.max(1));
        starts.map(|start| start..m.min(start + rows)).collect()
    }
}

/// Rows of a band: of the multiples of 256 that give no more bands than allowed those with which the
/// SMs wait least, for the end of each band's last wave of tiles and for the first band and
/// the last band's way, on which nothing is multiplied.
fn rows_of_a_band(
    (m, n): (usize, usize),
    spec: &KernelSpec,
    units: u64,
    (least_bands, most_bands): (usize, usize),
) -> usize {
    let step = row_step(spec);
    let rows = |bands: usize| m.div_ceil(bands.max(1)).next_multiple_of(step);
    let (least, most) = (rows(most_bands), rows(least_bands.min(most_bands)));
    let waves = |rows: usize| match spec.launch.tile() {
        Some(tile) => {
            let across = n.div_ceil(tile.n as usize) as u64;
            (rows.div_ceil(tile.m as usize) as u64 * across).div_ceil(units)
        }
        None => rows as u64,
    };
    let ideal = waves(m) as f64;
    let cost = |rows: usize| {
        let rest = m % rows;
        let waves = (m / rows) as u64 * waves(rows) + if rest > 0 { waves(rest) } else { 0 };
        waves as f64 + ideal * rows.min(m) as f64 / m as f64
    };
    (least..=most)
        .step_by(step)
        .min_by(|one, other| cost(*one).total_cmp(&cost(*other)))
        .unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(id: &str) -> &'static KernelSpec {
        kernels_gpu::Kernel::named(id).unwrap().spec()
    }

    fn bands(pipeline: &Pipeline, id: &str, problem: &Problem<f32>) -> Vec<Range<usize>> {
        pipeline.bands(kernel(id), problem, 132)
    }

    #[test]
    fn bands_cover_every_row_once_in_multiples_that_tiles_divide() {
        for most_bands in 1..10 {
            let pipeline = Pipeline { least_bytes: 0, most_bands, ..Pipeline::default() };
            for m in (1..3000).step_by(37).chain([256, 512, 1024, 2560, 10_240, 100_000]) {
                for (n, id) in [(1, "f16x3"), (1000, "async_copy_128x256"), (10_240, "naive")] {
                    let found = bands(&pipeline, id, &Problem::new(m, n, 600));
                    assert!(found.len() <= most_bands, "{m}: {found:?}");
                    assert_eq!((found[0].start, found[found.len() - 1].end), (0, m));
                    assert!(found.windows(2).all(|pair| pair[0].end == pair[1].start));
                    let (last, others) = found.split_last().unwrap();
                    assert!(!last.is_empty());
                    assert!(others.iter().all(|band| band.len() % ROW_STEP == 0));
                    assert!(others.iter().all(|band| band.len() == found[0].len()));
                }
            }
        }
    }

    #[test]
    fn a_product_can_be_made_to_have_bands() {
        let forced = Pipeline { least_bytes: 0, least_bands: 3, ..Pipeline::default() };
        for (m, count) in [(700, 3), (513, 3), (512, 2), (256, 1), (10_240, 3)] {
            let found = bands(&forced, "async_copy_128x256", &Problem::new(m, 301, 129));
            assert!(found.len() >= count, "{m}: {found:?}");
        }
    }

    #[test]
    fn a_band_ends_where_a_tile_does() {
        for spec in kernels_gpu::KERNELS {
            let step = row_step(spec);
            assert!(spec.launch.tile().is_none_or(|tile| step.is_multiple_of(tile.m as usize)));
            assert!((ROW_STEP..2 * ROW_STEP).contains(&step), "{}: {step}", spec.id);
        }
    }

    #[test]
    fn small_products_and_those_that_may_need_the_old_c_again_stay_whole() {
        let pipeline = Pipeline::default();
        let large = Problem::<f32>::new(10_240, 10_240, 10_240);
        let count = |id, problem: &Problem<f32>| bands(&pipeline, id, problem).len();
        assert!(count("split_k_64x64", &large) > 1);
        assert!(count("async_copy_128x256", &large) > 1);
        assert!(count("async_copy_128x256", &large.with_scalars(1.0, 2.0)) > 1);
        assert_eq!(count("async_copy_128x256", &large.with_scalars(0.0, 2.0)), 1);
        assert!(count("f16x3", &large) > 1);
        assert_eq!(count("f16x3", &large.with_scalars(1.0, 2.0)), 1);
        assert_eq!(count("f16x3", &Problem::new(1024, 1024, 1024)), 1);
    }

    /// 80 rows of 40 tiles for 132 SMs: a fifth of the rows keeps 128 of them at work in
    /// each of 5 waves, an eighth would leave a quarter of the last wave.
    #[test]
    fn bands_end_with_the_waves_of_tiles() {
        let large = Problem::<f32>::new(10_240, 10_240, 10_240);
        let found = bands(&Pipeline::default(), "f16x3", &large);
        assert_eq!((found.len(), found[0].len()), (5, 2048));
    }
}
