//! Batches: each product has the bits that it has by itself, wherever the operands are.

use gemm_spec::{Batch, BatchShare, Layout, OperandAccess, Order};
use kernels_gpu::Kernel;
use lab::{Problem, Scalar, ScalarTypes, emulate};
use libtest_mimic::Failed;

use crate::support::{Case, Operands};
use crate::{Backend, Extent, Standard};

/// Sizes and products: one block, several, and several tiles; sizes of whole packets and others.
const SHAPES: [([usize; 3], usize); 12] = [
    ([4, 4, 4], 67),
    ([8, 8, 8], 41),
    ([7, 7, 7], 19),
    ([12, 12, 12], 15),
    ([16, 16, 16], 9),
    ([23, 23, 23], 9),
    ([32, 32, 32], 6),
    ([31, 31, 31], 9),
    ([1, 64, 12], 3),
    ([64, 1, 8], 3),
    ([5, 12, 300], 3),
    ([67, 66, 65], 2),
];

/// More for kernels whose warps have parts of C: groups of several products, k elements in two chunks of whole products,
/// of packets and of others, and in more chunks of several tiles.
const SHAPES_OF_WARPS: [([usize; 3], usize); 7] = [
    ([31, 29, 27], 70),
    ([48, 41, 33], 35),
    ([127, 126, 125], 2),
    ([128, 120, 136], 2),
    ([131, 30, 150], 2),
    ([20, 260, 129], 1),
    // Two chunks of a whole product; with gaps between its lines B takes more room than in one piece.
    ([82, 7, 226], 1),
];

/// The same for kernels whose tensor maps have all products: a tile of each product, several, and parts of some;
/// k elements that end within a stage, where what follows belongs to the next product.
const SHAPES_OF_MAPS: [([usize; 3], usize); 4] =
    [([32, 32, 32], 3), ([130, 40, 72], 3), ([16, 264, 24], 5), ([65, 33, 100], 2)];

/// Where operands are: elements between lines and between products, orders, and scalars.
struct Arrangement {
    padding: usize,
    gap: usize,
    orders: [Order; 2],
    alpha: f64,
    beta: f64,
}

const ROWS: [Order; 2] = [Order::RowMajor; 2];
const ARRANGEMENTS: [Arrangement; 5] = [
    Arrangement { padding: 0, gap: 0, orders: ROWS, alpha: 1.0, beta: 0.0 },
    Arrangement { padding: 8, gap: 16, orders: ROWS, alpha: -2.0, beta: 0.5 },
    Arrangement { padding: 1, gap: 3, orders: ROWS, alpha: 0.5, beta: 0.0 },
    Arrangement {
        padding: 0,
        gap: 0,
        orders: [Order::ColMajor, Order::RowMajor],
        alpha: 1.0,
        beta: 1.0,
    },
    Arrangement {
        padding: 8,
        gap: 1,
        orders: [Order::RowMajor, Order::ColMajor],
        alpha: 1.0,
        beta: 0.0,
    },
];

/// The same for kernels of which a block computes a tile: several tiles, parts of some, k elements that end within a
/// stage and within a step, and whole stages.
const SHAPES_OF_TILES: [([usize; 3], usize); 5] =
    [([32, 32, 32], 3), ([70, 40, 66], 3), ([1, 130, 31], 3), ([65, 33, 5], 4), ([64, 64, 64], 2)];

/// Products of a batch, in the orders and with the gaps of the table, and with one B for all of them. A part has each
/// of the tables once.
pub(crate) fn takes_batches<T: ScalarTypes>(
    backend: Backend,
    spec: Kernel,
    extent: Extent,
) -> Result<(), Failed> {
    // What a kernel does that takes the products one by one is not its own.
    let shapes = match spec.operands {
        OperandAccess::Batched(BatchShare::Threads) => SHAPES.to_vec(),
        OperandAccess::Batched(BatchShare::Warps) => [&SHAPES[..], &SHAPES_OF_WARPS].concat(),
        OperandAccess::Batched(BatchShare::Tile(_) | BatchShare::Limbs) => SHAPES_OF_TILES.to_vec(),
        OperandAccess::TensorMaps { batched: true, .. } => SHAPES_OF_MAPS.to_vec(),
        OperandAccess::Pointers | OperandAccess::TensorMaps { .. } | OperandAccess::Limbs(_) => {
            vec![([32, 32, 32], 3)]
        }
    };
    for &(sizes, count) in &shapes {
        for (number, arrangement) in ARRANGEMENTS.iter().enumerate() {
            if arrangement.orders != ROWS && !spec.reads_any_order() {
                continue;
            }
            for shift in [0, 1] {
                if !extent.has(number + shift, 2) {
                    continue;
                }
                one_batch::<T>(backend, spec, (sizes, count), arrangement, shift).map_err(
                    |what| format!("{sizes:?}, {count} products, table {number}, {shift}: {what}"),
                )?;
            }
        }
    }
    Ok(())
}

fn one_batch<T: ScalarTypes>(
    backend: Backend,
    spec: Kernel,
    ([m, n, k], count): ([usize; 3], usize),
    arrangement: &Arrangement,
    shift: usize,
) -> Result<(), String> {
    let &Arrangement { padding, gap, orders, alpha, beta } = arrangement;
    if backend == Backend::Gpu || k < spec.least_k() {
        return Ok(());
    }
    // All products, one below the other.
    let case = Case { alpha, beta, ..Case::new(m * count, n * count, k) };
    let drawn = Operands::<T>::draw(&case);
    let c = Operands::<T>::draw(&Case { beta: 1.0, ..Case::new(m * count, n, 1) }).c;
    let layout = |order, rows, cols| match order {
        Order::RowMajor => Layout::row_major(cols + padding),
        Order::ColMajor => Layout::col_major(rows + padding),
    };
    let layouts = [layout(orders[0], m, k), layout(orders[1], k, n), layout(Order::RowMajor, m, n)];
    // The last line has no padding behind it, where products are to follow each other.
    let stride = |layout: Layout, rows, cols| layout.required_len(rows, cols).unwrap_or(0) + gap;
    let a_stride = stride(layouts[0], m, k);
    let b_stride = if gap == 3 { 0 } else { stride(layouts[1], k, n) };
    let c_stride = stride(layouts[2], m, n);
    let batch = Batch { count, a_stride, b_stride, c_stride };
    let problem = Problem::<T>::new(m, n, k)
        .with_scalars(drawn.problem.alpha, drawn.problem.beta)
        .with_layouts(layouts[0], layouts[1], layouts[2])
        .with_batch(batch);
    let len = |which| problem.required_len(which).map_err(|error| error.to_string());
    let a = scattered(len(lab::Operand::A)? + shift, |put| {
        for (at, row, col) in places(count, m, k) {
            let from = drawn.a[(at * m + row) * k + col];
            put(shift + at * a_stride + layouts[0].index(row, col), from);
        }
    });
    let b = scattered(len(lab::Operand::B)? + shift, |put| {
        for (at, row, col) in places(if b_stride == 0 { 1 } else { count }, k, n) {
            let from = drawn.b[row * n * count + at * n + col];
            put(shift + at * b_stride + layouts[1].index(row, col), from);
        }
    });
    let mut found = scattered(len(lab::Operand::C)?, |put| {
        for (at, row, col) in places(if beta == 0.0 { 0 } else { count }, m, n) {
            put(at * c_stride + layouts[2].index(row, col), c[(at * m + row) * n + col]);
        }
    });
    let before = found.clone();
    // On a single SM blocks have several groups, on many one each.
    let multiprocessors = if shift == 0 { 1 } else { emulate::LIMITS.multiprocessors };
    let options = emulate::Options { multiprocessors, ..emulate::Options::default() };
    emulate::run_with(options, spec, &problem, &a[shift..], &b[shift..], &mut found)
        .map_err(|error| error.to_string())?;
    let mut is_element = vec![false; found.len()];
    for (at, row, col) in places(count, m, n) {
        is_element[at * c_stride + layouts[2].index(row, col)] = true;
    }
    let stray = (0..found.len()).find(|&at| !is_element[at] && !found[at].same_bits(before[at]));
    if let Some(at) = stray {
        return Err(format!("element {at} of the buffer is in no C, and was written"));
    }
    for (at, item) in problem.items().enumerate() {
        // The same in rows, without gaps.
        let of_b = if b_stride == 0 { 0 } else { at };
        let b_rows = drawn.b.chunks_exact(n * count).flat_map(|row| &row[of_b * n..][..n]);
        let operands = Operands {
            problem: Problem { a: Layout::row_major(k), b: Layout::row_major(n), ..problem.one() },
            a: drawn.a[at * m * k..][..m * k].to_vec(),
            b: b_rows.copied().collect(),
            c: before[item.c..].to_vec(),
        };
        Standard::new(spec, &operands)?
            .holds(&found[item.c..])
            .map_err(|what| format!("product {at}: {what}"))?;
    }
    Ok(())
}

/// Products, rows and columns.
fn places(count: usize, rows: usize, cols: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    (0..count * rows * cols).map(move |at| (at / (rows * cols), at / cols % rows, at % cols))
}

/// A poisoned buffer of that many elements, of which some are put.
fn scattered<E: Scalar>(len: usize, fill: impl FnOnce(&mut dyn FnMut(usize, E))) -> Vec<E> {
    let mut to = vec![E::POISON; len];
    fill(&mut |at, value| to[at] = value);
    to
}
