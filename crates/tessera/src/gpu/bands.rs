//! How a product whose operands are in host memory is cut: bands of rows of A and C, and where each
//! part of the operands lies on the device.

use std::ops::Range;

use gemm_spec::{DType, Element as _, KernelSpec, Layout, Numerics, Operand, Order, Problem};

use super::pitched::{Block, pitch};
use crate::element::GemmTypes;

/// Rows of a band are a multiple of this, which no tile of a kernel is taller than: only the last band
/// has a tile that is not full.
const ROW_STEP: usize = 256;
/// Blocks begin at multiples of this many bytes, as allocations do.
const ALIGNMENT: usize = 256;

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
    let rows = |bands: usize| m.div_ceil(bands.max(1)).next_multiple_of(ROW_STEP);
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
        .step_by(ROW_STEP)
        .min_by(|one, other| cost(*one).total_cmp(&cost(*other)))
        .unwrap_or(least)
}

/// A block of an operand and where it lies in the device's buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed {
    pub(super) operand: Operand,
    pub(super) block: Block,
    /// Bytes from the beginning of the device's buffer.
    pub(super) at: usize,
    /// How the block lies there.
    pub(super) layout: Layout,
}

/// Where everything lies.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) bands: Vec<Range<usize>>,
    /// A's rows of each band.
    pub(super) a: Vec<Placed>,
    pub(super) b: Placed,
    /// C's rows of each band.
    pub(super) c: Vec<Placed>,
    /// Bytes of the device's buffer.
    pub(super) bytes: usize,
}

impl Plan {
    /// Places every block. C is row-major.
    pub(super) fn new<T: GemmTypes>(problem: &Problem<T>, bands: Vec<Range<usize>>) -> Self {
        let mut bytes = 0;
        let mut place = |operand, rows: Range<usize>| {
            let (layout, (_, cols)) = (problem.layout(operand), problem.dims(operand));
            let size = T::TYPES.of(operand).size();
            let placed = placed(operand, rows, cols, layout, size, bytes);
            bytes = (bytes + placed.block.bytes()).next_multiple_of(ALIGNMENT);
            placed
        };
        let b = place(Operand::B, 0..problem.k);
        let a = bands.iter().map(|rows| place(Operand::A, rows.clone())).collect();
        let c = bands.iter().map(|rows| place(Operand::C, rows.clone())).collect();
        Self { bands, a, b, c, bytes }
    }
}

/// Some rows of an operand, placed at an offset in bytes.
fn placed(
    operand: Operand,
    rows: Range<usize>,
    cols: usize,
    layout: Layout,
    size: usize,
    at: usize,
) -> Placed {
    let (lines, width) = match layout.order {
        Order::RowMajor => (rows.len(), cols),
        Order::ColMajor => (cols, rows.len()),
    };
    let block =
        Block::new(layout.index(rows.start, 0) * size, lines, width * size, layout.ld * size);
    let layout = Layout { order: layout.order, ld: pitch(width * size) / size };
    Placed { operand, block, at, layout }
}

/// Elements of that type keep their own size's multiples where lines are padded.
const _: () = {
    let mut index = 0;
    while index < DType::ALL.len() {
        assert!(16 % DType::ALL[index].size() == 0);
        index += 1;
    }
};

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
    fn tiles_are_never_taller_than_the_step_of_a_band() {
        for spec in kernels_gpu::KERNELS {
            assert!(spec.launch.tile().is_none_or(|tile| ROW_STEP.is_multiple_of(tile.m as usize)));
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

    #[test]
    fn blocks_lie_apart_and_say_how_they_lie() {
        let layouts =
            |padding: usize| [Layout::row_major(1000 + padding), Layout::col_major(1000 + padding)];
        for (a, b) in layouts(3).into_iter().zip(layouts(0)) {
            let problem =
                Problem::<f32>::new(777, 999, 501).with_layouts(a, b, Layout::row_major(1001));
            let plan = Plan::new(&problem, vec![0..256, 256..512, 512..777]);
            let all: Vec<_> = plan.a.iter().chain([&plan.b]).chain(&plan.c).collect();
            for (index, one) in all.iter().enumerate() {
                assert!(one.at % ALIGNMENT == 0 && one.at + one.block.bytes() <= plan.bytes);
                for other in &all[..index] {
                    let before = one.at + one.block.bytes() <= other.at;
                    assert!(before || other.at + other.block.bytes() <= one.at);
                }
            }
            for (band, rows) in plan.bands.iter().enumerate() {
                let [a, c] = [plan.a[band], plan.c[band]];
                assert_eq!(a.layout.order, problem.a.order);
                let needed = a.layout.required_len(rows.len(), 501).unwrap() * 4;
                assert!(a.layout.ld % 4 == 0 && needed <= a.block.bytes());
                assert_eq!(c.layout, Layout::row_major(1000));
                assert_eq!(c.block, Block::new(rows.start * 1001 * 4, rows.len(), 3996, 4004));
            }
        }
    }
}
