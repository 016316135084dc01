//! The launches of a product whose operands are split into limbs first.
//!
//! Helpers split A and B, the kernel multiplies the limbs, and a fallback multiplies the operands themselves
//! where limbs cannot hold them, by limbs of bf16 of scaled rows that it makes as it loads: which of the two does
//! something, the helpers' flags decide on the device.
//! Bands after the first find B's limbs where the first has left them, and its flags. So does a product whose factor
//! is kept: its limbs are where another plan has left them, and its flags begin as that plan's.

use core::any::Any;
use core::ops::Range;

use super::{Addresses, Arguments, Band, Kept, Launch, Planner, Step, pointer, pointer_mut, size};
use crate::params::{
    FallbackParams, LimbParams, ProbeParams, RowAmaxParams, RowExponentsParams, SplitKMajorParams,
    SplitMnMajorParams,
};
use crate::split::{
    ALWAYS, AMAX_BLOCK_K, BLOCK_K, EXPONENT_ROWS, FALL_BACK, Limbs, PANEL_ROWS, PROBE_BLOCKS,
    Panel, Workspace,
};
use crate::{
    Accumulator, GemmTypes, Grid, HelperRole, Layout, Operand, Order, Problem, Unsupported,
    batched, split_k,
};

impl<T: GemmTypes> Planner<'_, T> {
    /// The rows of A and the columns of B that are split at a time: all of a factor that is kept elsewhere.
    pub(super) fn panel(&self, limbs: Limbs) -> Panel {
        let (m, n, k) = (size(self.band.tallest), size(self.problem.n), size(self.problem.k));
        let within = |m, n| Panel::within(limbs, (m, n, k), self.most_workspace);
        self.panel.unwrap_or_else(|| match self.kept.map(|kept| kept.factor) {
            Some(Operand::A) => Panel { rows: m, ..within(0, n) },
            Some(Operand::B | Operand::C) => Panel { columns: n, ..within(m, 0) },
            None => within(m, n),
        })
    }

    /// The workspace of a panel, one of whose factors may be kept elsewhere.
    pub(super) fn limb_workspace(&self, limbs: Limbs, panel: Panel) -> Workspace {
        let Panel { rows, columns } = panel;
        let k = size(self.problem.k);
        match self.kept.map(|kept| kept.factor) {
            Some(Operand::A) => Workspace::new(limbs, 0, columns, k),
            Some(Operand::B | Operand::C) => Workspace::new(limbs, rows, 0, k),
            None => Workspace::new(limbs, rows, columns, k),
        }
    }

    /// Panel by panel splits A and B, multiplies the limbs, and falls back. The panels of rows are those of a panel of
    /// columns, whose limbs of B they have in common.
    pub(super) fn by_limbs(
        &self,
        limbs: Limbs,
        workspace: u64,
        steps: &mut Vec<Step<T>>,
    ) -> Result<(), Unsupported> {
        let panel = self.panel(limbs);
        let (rows, columns) = (panel.rows as usize, panel.columns as usize);
        let (m, n) = (self.problem.m, self.problem.n);
        for column in (0..n).step_by(columns) {
            for row in (0..m).step_by(rows) {
                let part =
                    self.part(panel, row..m.min(row + rows), column..n.min(column + columns));
                let fresh = Fresh {
                    flags: self.band.first + row + column == 0,
                    b: row == 0 && (self.band.first == 0 || columns < n),
                };
                part.one_panel(limbs, workspace, fresh, steps)?;
            }
        }
        Ok(())
    }

    /// The product of some rows of A and some columns of B.
    fn part(&self, panel: Panel, rows: Range<usize>, columns: Range<usize>) -> Self {
        let Problem { a, b, c, .. } = self.problem;
        let Addresses { a: of_a, b: of_b, c: of_c } = self.addresses;
        let behind = |operand, layout: Layout, row, column| {
            (layout.index(row, column) * T::TYPES.of(operand).size()) as u64
        };
        let addresses = Addresses {
            a: of_a + behind(Operand::A, a, rows.start, 0),
            b: of_b + behind(Operand::B, b, 0, columns.start),
            c: of_c + behind(Operand::C, c, rows.start, columns.start),
        };
        let problem = Problem { m: rows.len(), n: columns.len(), ..self.problem };
        let first = self.band.first + rows.start;
        let band = Band { tallest: panel.rows as usize, first, ..self.band };
        Self { problem, addresses, band, panel: Some(panel), ..*self }
    }

    fn one_panel(
        &self,
        limbs: Limbs,
        workspace: u64,
        fresh: Fresh,
        steps: &mut Vec<Step<T>>,
    ) -> Result<(), Unsupported> {
        let product = Product::new(self, limbs, workspace);
        product.clear(fresh, steps);
        // With nothing to sum the operands are not read: the flags send the product to the fallback.
        if self.problem.effective_k() != 0 {
            let is_kept = |factor| self.kept.is_some_and(|kept| kept.factor == factor);
            if !is_kept(Operand::A) {
                product.split(Operand::A, steps);
            }
            if !is_kept(Operand::B) && fresh.b {
                product.split(Operand::B, steps);
            }
            if self.spec.helper(HelperRole::Probe).is_some() {
                steps.push(Step::Launch(product.probe()));
            }
            product.multiply(steps)?;
            for factor in [Operand::A, Operand::B].into_iter().filter(|&factor| !is_kept(factor)) {
                steps.extend(product.row_exponents(factor, FALL_BACK).map(Step::Launch));
            }
        }
        steps.push(Step::Launch(product.fall_back()));
        Ok(())
    }

    /// Splits a factor into memory of its own, whatever alpha is.
    pub(super) fn kept_limbs(&self, limbs: Limbs, factor: Operand, address: u64) -> Vec<Step<T>> {
        let (layout, place) = of_factor(limbs, &self.problem, factor, address);
        let flags = address + layout.zeroed;
        // Of what has no elements the exponents are read as well.
        let from = if self.problem.k == 0 { place.exponents } else { flags };
        let bytes = flags + layout.zeroed_bytes - from;
        let mut steps = vec![Step::Fill { address: from, bytes, value: 0 }];
        let (_, rows) = rows_of(&self.problem, factor);
        if self.problem.k != 0 && rows != 0 {
            let (a, b) = (place, place);
            let product = Product {
                planner: self,
                layout,
                workspace: address,
                a,
                b,
                flags,
                kept_flags: None,
            };
            product.split(factor, &mut steps);
            steps.extend(product.row_exponents(factor, ALWAYS).map(Step::Launch));
        }
        steps
    }
}

/// What of the workspace begins anew with a panel.
#[derive(Clone, Copy)]
struct Fresh {
    /// The flags: with the first panel of all.
    flags: bool,
    /// B's limbs, and what splitting finds out about it.
    b: bool,
}

/// The memory of a factor that is kept, which is that of a product without the other one, and what is where in it if
/// it begins at that address.
pub(super) fn of_factor<T: GemmTypes>(
    limbs: Limbs,
    problem: &Problem<T>,
    factor: Operand,
    address: u64,
) -> (Workspace, Place) {
    let (_, rows) = rows_of(problem, factor);
    let layout = Workspace::new(limbs, rows, 0, size(problem.k));
    let place = Place::of_a(&layout, rows, address);
    (layout, place)
}

/// The order in which a factor is contiguous along k, and its rows: those of A, or the columns of B.
fn rows_of<T: GemmTypes>(problem: &Problem<T>, factor: Operand) -> (Order, u32) {
    match factor {
        Operand::A => (Order::RowMajor, size(problem.m)),
        Operand::B | Operand::C => (Order::ColMajor, size(problem.n)),
    }
}

/// Where the limbs of a factor are, and what splitting finds out about its rows.
#[derive(Clone, Copy)]
pub(super) struct Place {
    limbs: u64,
    exponents: u64,
    row_amax: u64,
    underflows: u64,
}

impl Place {
    /// Those of A in a workspace at that address for that many of its rows.
    fn of_a(layout: &Workspace, rows: u32, at: u64) -> Self {
        Self {
            limbs: at + layout.a,
            exponents: at + layout.a_exponents,
            row_amax: at + layout.a_row_amax(),
            underflows: at + layout.a_underflows(rows),
        }
    }

    /// Those of B in a workspace for m rows of A and n columns of B.
    fn of_b(layout: &Workspace, (m, n): (u32, u32), at: u64) -> Self {
        Self {
            limbs: at + layout.b,
            exponents: at + layout.b_exponents,
            row_amax: at + layout.b_row_amax(m),
            underflows: at + layout.b_underflows(m, n),
        }
    }
}

/// One product, its workspace, and where its factors' limbs are.
struct Product<'p, T: GemmTypes> {
    planner: &'p Planner<'p, T>,
    layout: Workspace,
    /// Where it begins.
    workspace: u64,
    a: Place,
    b: Place,
    flags: u64,
    /// The flags of the factor that is kept.
    kept_flags: Option<u64>,
}

impl<'p, T: GemmTypes> Product<'p, T> {
    fn new(planner: &'p Planner<'p, T>, limbs: Limbs, workspace: u64) -> Self {
        let Planner { problem, kept, .. } = planner;
        let panel @ Panel { rows, columns } = planner.panel(limbs);
        let layout = planner.limb_workspace(limbs, panel);
        let (mut a, mut b) = (
            Place::of_a(&layout, rows, workspace),
            Place::of_b(&layout, (rows, columns), workspace),
        );
        let kept_flags = kept.map(|Kept { factor, address }| {
            let (of, place) = of_factor(limbs, problem, factor, address);
            match factor {
                Operand::A => (a, b) = (place, Place::of_b(&layout, (0, columns), workspace)),
                Operand::B | Operand::C => b = place,
            }
            address + of.zeroed
        });
        Self { planner, layout, workspace, a, b, flags: workspace + layout.zeroed, kept_flags }
    }

    /// The flags begin as those of the factor that is kept, or with none. What is found of rows is cleared where they
    /// are split.
    fn clear(&self, fresh: Fresh, steps: &mut Vec<Step<T>>) {
        let Planner { problem, band, kept, .. } = self.planner;
        let layout = self.layout;
        let (flags, rows) = (layout.zeroed, layout.a_row_amax());
        let end = flags + layout.zeroed_bytes;
        if problem.effective_k() == 0 {
            // Sums of nothing are scaled as others are.
            let from = layout.a_exponents;
            let address = self.workspace + from;
            steps.push(Step::Fill { address, bytes: end - from, value: 0xff });
            return;
        }
        let from = match self.kept_flags {
            _ if !fresh.flags => rows,
            Some(kept) => {
                steps.push(Step::Copy { from: kept, to: self.flags, bytes: rows - flags });
                rows
            }
            None => flags,
        };
        // Without limbs of B here all of it is A's.
        let of_b = if kept.is_none() { layout.b_row_amax(size(band.tallest)) } else { end };
        let to = if fresh.b { end } else { of_b };
        steps.push(Step::Fill { address: self.workspace + from, bytes: to - from, value: 0 });
    }

    fn helper(&self, role: HelperRole, x: u32, y: u32, arguments: Arguments<T>) -> Launch<T> {
        self.planner.helper(role).launch(Grid { x, y, z: 1 }, arguments)
    }

    /// Splits A or B.
    fn split(&self, operand: Operand, steps: &mut Vec<Step<T>>) {
        let planner = self.planner;
        let problem = planner.problem;
        let layout = problem.layout(operand);
        let (along, rows) = rows_of(&problem, operand);
        let (from, place) = match operand {
            Operand::A => (planner.addresses.a, self.a),
            Operand::B | Operand::C => (planner.addresses.b, self.b),
        };
        let Place { limbs, exponents, row_amax, underflows } = place;
        let (k, ld, from) = (size(problem.k), layout.ld as u64, pointer(from));
        let limbs = pointer_mut(limbs);
        let exponents = pointer_mut(exponents);
        let underflows = pointer_mut(underflows);
        let flags = pointer_mut(self.flags);
        if layout.order == along {
            let params = SplitKMajorParams { k, from, ld, limbs, exponents, underflows, flags };
            let arguments = Arguments::SplitKMajor(params);
            steps.push(Step::Launch(self.helper(HelperRole::SplitKMajor, rows, 1, arguments)));
            return;
        }
        let panels = rows.div_ceil(PANEL_ROWS);
        if planner.spec.helper(HelperRole::RowAmax).is_some() {
            let row_amax = pointer_mut(row_amax);
            let arguments = Arguments::RowAmax(RowAmaxParams { rows, k, from, ld, row_amax });
            let y = k.div_ceil(AMAX_BLOCK_K);
            steps.push(Step::Launch(self.helper(HelperRole::RowAmax, panels, y, arguments)));
        }
        let row_amax = pointer(row_amax);
        let arguments = Arguments::SplitMnMajor(SplitMnMajorParams {
            rows,
            k,
            from,
            ld,
            row_amax,
            limbs,
            exponents,
            underflows,
            flags,
        });
        let y = k.div_ceil(BLOCK_K);
        steps.push(Step::Launch(self.helper(HelperRole::SplitMnMajor, panels, y, arguments)));
    }

    /// Examines samples of C.
    fn probe(&self) -> Launch<T> {
        let Planner { problem, addresses, band, .. } = *self.planner;
        let ((a_row, a_step), (b_step, b_col)) = (strides(problem.a), strides(problem.b));
        let params = ProbeParams {
            rows: size(band.all),
            first: size(band.first),
            m: size(problem.m),
            n: size(problem.n),
            k: size(problem.k),
            a: pointer(addresses.a),
            a_row,
            a_step,
            b: pointer(addresses.b),
            b_step,
            b_col,
            a_exponents: pointer(self.a.exponents),
            b_exponents: pointer(self.b.exponents),
            flags: pointer_mut(self.flags),
        };
        self.helper(HelperRole::Probe, PROBE_BLOCKS, 1, Arguments::Probe(params))
    }

    /// Multiplies the limbs, unless the flags forbid it. If several blocks share k, each range's sum goes to a
    /// matrix of its own behind the limbs, and a second launch adds the matrices.
    fn multiply(&self, steps: &mut Vec<Step<T>>) -> Result<(), Unsupported> {
        let Planner { problem, addresses, ranges, .. } = *self.planner;
        let whole = LimbParams {
            m: size(problem.m),
            n: size(problem.n),
            k: size(problem.k),
            alpha: scalar(problem.alpha),
            a_limbs: pointer(self.a.limbs),
            b_limbs: pointer(self.b.limbs),
            a_exponents: pointer(self.a.exponents),
            b_exponents: pointer(self.b.exponents),
            beta: scalar(problem.beta),
            c: pointer_mut(addresses.c),
            ldc: problem.c.ld as u64,
            flags: pointer(self.flags),
            unless: FALL_BACK,
        };
        if ranges == 1 {
            steps.push(Step::Launch(self.planner.own(Arguments::Limbs(whole))?));
            return Ok(());
        }
        let parts = self.workspace + self.layout.bytes;
        let ldc = u64::from(split_k::pitch(whole.n));
        let product = LimbParams { alpha: 1.0, beta: 0.0, c: pointer_mut(parts), ldc, ..whole };
        let mut launch = self.planner.own(Arguments::Limbs(product))?;
        launch.grid.y = ranges;
        let sum = LimbParams { k: ranges, a_limbs: pointer(parts), ..whole };
        let entry = self.planner.helper(HelperRole::SumLimbRanges);
        let grid = split_k::sum_grid(whole.m, whole.n, entry.block.x);
        steps.push(Step::Launch(launch));
        steps.push(Step::Launch(entry.launch(grid, Arguments::Limbs(sum))));
        Ok(())
    }

    /// Finds by how much the fallback scales the rows of A or the columns of B, if the flags ask for it. None where
    /// splitting has found it.
    fn row_exponents(&self, factor: Operand, when: u32) -> Option<Launch<T>> {
        let entry = self.planner.spec.helper(HelperRole::RowExponents)?;
        let Planner { problem, addresses, .. } = self.planner;
        let (_, rows) = rows_of(problem, factor);
        let (from, place, (row, step)) = match factor {
            Operand::A => (addresses.a, self.a, strides(problem.a)),
            Operand::B | Operand::C => {
                let (step, column) = strides(problem.b);
                (addresses.b, self.b, (column, step))
            }
        };
        let params = RowExponentsParams {
            rows,
            k: size(problem.k),
            from: pointer(from),
            row,
            step,
            exponents: pointer_mut(place.exponents),
            flags: pointer(self.flags),
            when,
        };
        let grid = Grid { x: rows.div_ceil(EXPONENT_ROWS), y: 1, z: 1 };
        Some(entry.launch(grid, Arguments::RowExponents(params)))
    }

    /// Multiplies the operands themselves, if the flags ask for it. The blocks share the tiles, however many
    /// they are.
    fn fall_back(&self) -> Launch<T> {
        let Planner { problem, addresses, limits, .. } = *self.planner;
        let blocks = limits.multiprocessors * self.planner.helper(HelperRole::Fallback).min_blocks;
        let params = FallbackParams {
            m: size(problem.m),
            n: size(problem.n),
            k: size(problem.effective_k()),
            alpha: scalar(problem.alpha),
            a: pointer(addresses.a),
            lda: problem.a.ld as u64,
            b: pointer(addresses.b),
            ldb: problem.b.ld as u64,
            beta: scalar(problem.beta),
            c: pointer_mut(addresses.c),
            ldc: problem.c.ld as u64,
            orders: batched::orders(problem.a.order, problem.b.order),
            a_exponents: pointer(self.a.exponents),
            b_exponents: pointer(self.b.exponents),
            flags: pointer(self.flags),
            when: FALL_BACK,
        };
        self.helper(HelperRole::Fallback, blocks, 1, Arguments::Fallback(params))
    }
}

/// Elements from one row to the next, and from one column to the next.
fn strides(layout: Layout) -> (u64, u64) {
    match layout.order {
        Order::RowMajor => (layout.ld as u64, 1),
        Order::ColMajor => (1, layout.ld as u64),
    }
}

/// Alpha or beta of a kernel that splits its operands: it has entries of f32 alone.
fn scalar<S: Accumulator>(value: S) -> f32 {
    let value: &dyn Any = &value;
    *value.downcast_ref().expect("invariant: kernels that split operands multiply f32 alone")
}
