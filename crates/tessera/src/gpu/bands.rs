//! Where each part of the operands of a product in bands has its place on the device.

use std::ops::Range;

use gemm_spec::{DType, Layout, Operand, Order, Problem};

use super::pitched::{Block, pitch};
use crate::element::GemmTypes;

/// Blocks begin at multiples of this many bytes, as allocations do.
const ALIGNMENT: usize = 256;

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
