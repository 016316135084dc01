//! The launches of a product whose operands are split into limbs first.
//!
//! Helpers split A and B, the kernel multiplies the limbs, and a fallback multiplies the operands themselves
//! where limbs cannot hold them: which of the two does something, the helpers' flags decide on the device.
//! Bands after the first find B's limbs where the first has left them, and its flags.

use core::any::Any;

use super::{Arguments, Band, Launch, Planner, Step, pointer, pointer_mut, size};
use crate::params::{
    FallbackParams, LimbParams, ProbeParams, RowAmaxParams, SplitKMajorParams, SplitMnMajorParams,
};
use crate::split::{AMAX_BLOCK_K, BLOCK_K, FALL_BACK, Limbs, PANEL_ROWS, PROBE_BLOCKS, Workspace};
use crate::{
    Accumulator, GemmTypes, Grid, HelperRole, Layout, Operand, Order, Problem, Unsupported, split_k,
};

/// The workspace of a product of bands; `zeroed` of it are the flags.
pub(super) fn workspace<T: GemmTypes>(limbs: Limbs, problem: &Problem<T>, band: Band) -> Workspace {
    Workspace::new(limbs, size(band.tallest), size(problem.n), size(problem.k))
}

impl<T: GemmTypes> Planner<'_, T> {
    /// Splits A and B, multiplies the limbs, and falls back.
    pub(super) fn by_limbs(
        &self,
        limbs: Limbs,
        workspace: u64,
        steps: &mut Vec<Step<T>>,
    ) -> Result<(), Unsupported> {
        let layout = self::workspace(limbs, &self.problem, self.band);
        let product = Product { planner: self, layout, workspace };
        steps.push(product.clear());
        // With nothing to sum the operands are not read: the flags send the product to the fallback.
        if self.problem.effective_k() != 0 {
            product.split(Operand::A, self.addresses.a, steps);
            if self.band.first == 0 {
                product.split(Operand::B, self.addresses.b, steps);
            }
            if self.spec.helper(HelperRole::Probe).is_some() {
                steps.push(Step::Launch(product.probe()));
            }
            product.multiply(steps)?;
        }
        steps.push(Step::Launch(product.fall_back()));
        Ok(())
    }
}

/// One product and its workspace.
struct Product<'p, T: GemmTypes> {
    planner: &'p Planner<'p, T>,
    layout: Workspace,
    /// Where it begins.
    workspace: u64,
}

impl<T: GemmTypes> Product<'_, T> {
    /// The address of an offset in the workspace.
    fn at(&self, offset: u64) -> u64 {
        self.workspace + offset
    }

    fn flags(&self) -> u64 {
        self.at(self.layout.zeroed)
    }

    /// The first band clears the flags and what is found of all rows, the others that of A's rows alone.
    fn clear(&self) -> Step<T> {
        let (layout, band) = (self.layout, self.planner.band);
        let (from, to) = match band.first {
            0 => (layout.zeroed, layout.zeroed + layout.zeroed_bytes),
            _ => (layout.a_row_amax(), layout.b_row_amax(size(band.tallest))),
        };
        let nothing = self.planner.problem.effective_k() == 0;
        let value = if nothing { 0xff } else { 0 };
        Step::Fill { address: self.at(from), bytes: to - from, value }
    }

    fn helper(&self, role: HelperRole, x: u32, y: u32, arguments: Arguments<T>) -> Launch<T> {
        self.planner.helper(role).launch(Grid { x, y, z: 1 }, arguments)
    }

    /// Splits A or B, which is at `from`.
    fn split(&self, operand: Operand, from: u64, steps: &mut Vec<Step<T>>) {
        let (planner, work) = (self.planner, self.layout);
        let problem = planner.problem;
        let layout = problem.layout(operand);
        // A "row" is a row of A or a column of B; along k it is contiguous in a row-major A and in a
        // column-major B.
        let (tallest, n) = (size(planner.band.tallest), size(problem.n));
        let (rows, along) = match operand {
            Operand::A => (size(problem.m), Order::RowMajor),
            Operand::B | Operand::C => (n, Order::ColMajor),
        };
        let [limbs, exponents, row_amax, underflows] = match operand {
            Operand::A => [work.a, work.a_exponents, work.a_row_amax(), work.a_underflows(tallest)],
            Operand::B | Operand::C => {
                [work.b, work.b_exponents, work.b_row_amax(tallest), work.b_underflows(tallest, n)]
            }
        }
        .map(|offset| self.at(offset));
        let (k, ld, from) = (size(problem.k), layout.ld as u64, pointer(from));
        let limbs = pointer_mut(limbs);
        let exponents = pointer_mut(exponents);
        let underflows = pointer_mut(underflows);
        let flags = pointer_mut(self.flags());
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
            a_exponents: pointer(self.at(self.layout.a_exponents)),
            b_exponents: pointer(self.at(self.layout.b_exponents)),
            flags: pointer_mut(self.flags()),
        };
        self.helper(HelperRole::Probe, PROBE_BLOCKS, 1, Arguments::Probe(params))
    }

    /// Multiplies the limbs, unless the flags forbid it. If several blocks share k, each range's sum goes to a
    /// matrix of its own behind the limbs, and a second launch adds the matrices.
    fn multiply(&self, steps: &mut Vec<Step<T>>) -> Result<(), Unsupported> {
        let Planner { problem, addresses, ranges, .. } = *self.planner;
        let work = self.layout;
        let whole = LimbParams {
            m: size(problem.m),
            n: size(problem.n),
            k: size(problem.k),
            alpha: scalar(problem.alpha),
            a_limbs: pointer(self.at(work.a)),
            b_limbs: pointer(self.at(work.b)),
            a_exponents: pointer(self.at(work.a_exponents)),
            b_exponents: pointer(self.at(work.b_exponents)),
            beta: scalar(problem.beta),
            c: pointer_mut(addresses.c),
            ldc: problem.c.ld as u64,
            flags: pointer(self.flags()),
            unless: FALL_BACK,
        };
        if ranges == 1 {
            steps.push(Step::Launch(self.planner.own(Arguments::Limbs(whole))?));
            return Ok(());
        }
        let parts = self.at(work.bytes);
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

    /// Multiplies the operands themselves, if the flags ask for it. The blocks share the tiles, however many
    /// they are.
    fn fall_back(&self) -> Launch<T> {
        let Planner { problem, addresses, limits, .. } = *self.planner;
        let ((a_row, a_step), (b_step, b_col)) = (strides(problem.a), strides(problem.b));
        let blocks = limits.multiprocessors * self.planner.helper(HelperRole::Fallback).min_blocks;
        let params = FallbackParams {
            m: size(problem.m),
            n: size(problem.n),
            k: size(problem.k),
            alpha: scalar(problem.alpha),
            a: pointer(addresses.a),
            a_row,
            a_step,
            b: pointer(addresses.b),
            b_step,
            b_col,
            beta: scalar(problem.beta),
            c: pointer_mut(addresses.c),
            ldc: problem.c.ld as u64,
            flags: pointer(self.flags()),
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
