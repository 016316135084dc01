//! Descriptor and launches of a product of arrays on a GPU.

use cuda_lazy::{DevicePtr, RawStream};
use tessera::gpu::{
    EpilogueOperands, GemmBatch, GemmDesc, Limbs, Operand as Factor, Operands, Plan, PlanLimits,
    PreparedFactor, Workspace,
};
use tessera::{Accuracy, Epilogue, Error, Layout, Types};
use tessera_raw::Strided;

use crate::kind::Kind;

/// A product of stacks: of each operand the first matrix, and the strides of its stack in bytes.
pub(super) struct Stacks<'a> {
    pub(super) types: Types,
    /// A, B, C and D.
    pub(super) matrices: [Strided; 4],
    pub(super) stack: &'a [usize],
    pub(super) strides: [&'a [isize]; 4],
    pub(super) alpha: f64,
    pub(super) beta: f64,
    pub(super) accuracy: Accuracy,
    pub(super) epilogue: Epilogue,
    /// What B, which all products then have in common, is split into before.
    pub(super) prepared: Option<Limbs>,
}

/// What launches are given besides operands and workspace.
#[derive(Clone, Copy, Default)]
pub(super) struct Beside {
    pub(super) numbers: EpilogueOperands,
    /// Where the limbs of B are, if it is prepared.
    pub(super) prepared: Option<PreparedFactor>,
}

/// The names of operands in messages.
pub(super) const NAMES: [&str; 4] = ["a", "b", "c", "out"];

/// A product as kernels compute it: a descriptor, addresses, and dimensions of the stack that one batch does
/// not express, whose products are launched one after the other.
pub(super) struct Arranged {
    pub(super) desc: GemmDesc,
    pub(super) operands: Operands,
    pub(super) outer: Vec<Dimension>,
    pub(super) limits: PlanLimits,
}

/// A dimension of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dimension {
    count: usize,
    /// Bytes to the next matrix of A, B, C and D.
    steps: [isize; 4],
}

/// Bytes of elements of A, B, C and D.
pub(super) fn sizes(types: Types) -> [usize; 4] {
    [types.a(), types.b(), types.c(), types.c()].map(|dtype| Kind::of_dtype(dtype).size())
}

/// The layout of a matrix whose lines are contiguous, a leading dimension apart; `None` where there is none.
pub(super) fn layout(matrix: &Strided, size: usize) -> Option<Layout> {
    matrix.layout(size, size)
}

impl Stacks<'_> {
    /// Those of a prepared B as one product of more rows, where the rows of A, C and D are evenly apart through the
    /// whole stack and a leading dimension expresses that.
    pub(super) fn folded(self) -> Self {
        if self.prepared.is_none() || self.epilogue.depends_on_row() || self.stack.contains(&0) {
            return self;
        }
        let mut matrices = self.matrices;
        for (at, &count) in self.stack.iter().enumerate().rev().filter(|&(_, &count)| count > 1) {
            for of in [0, 2, 3] {
                let (matrix, outer) = (&mut matrices[of], self.strides[of][at]);
                let (rows, step) = (matrix.rows, matrix.row_stride);
                let is_even = rows == 1 || step.checked_mul(rows.cast_signed()) == Some(outer);
                let Some(more) = rows.checked_mul(count).filter(|_| is_even) else { return self };
                matrix.row_stride = if rows == 1 { outer } else { step };
                matrix.rows = more;
            }
        }
        let folded = Self { matrices, stack: &[], strides: [&[]; 4], ..self };
        if folded.inexpressible().is_none() { folded } else { self }
    }

    /// Whether A and B, or C, are read.
    fn reads(&self) -> [bool; 2] {
        [self.alpha != 0.0 && self.matrices[0].cols != 0, self.beta != 0.0]
    }

    /// Which of A, B, C and D is the first that no leading dimension expresses.
    pub(super) fn inexpressible(&self) -> Option<usize> {
        let [factors, c] = self.reads();
        let used = [factors, factors, c, true];
        let sizes = sizes(self.types);
        (0..4).find(|&at| used[at] && layout(&self.matrices[at], sizes[at]).is_none())
    }

    /// The launches; `Err` with the operand that no leading dimension expresses.
    pub(super) fn arranged(&self, limits: PlanLimits) -> Result<Arranged, usize> {
        if let Some(at) = self.inexpressible() {
            return Err(at);
        }
        let ([factors, reads_c], sizes) = (self.reads(), sizes(self.types));
        let [a, b, c, d] = &self.matrices;
        let usual = Layout::row_major;
        let d_layout = layout(d, sizes[3]).ok_or(3usize)?;
        let a_layout = if factors { layout(a, sizes[0]).ok_or(0usize)? } else { usual(a.cols) };
        let b_layout = if factors { layout(b, sizes[1]).ok_or(1usize)? } else { usual(b.cols) };
        let c_layout = if reads_c { layout(c, sizes[2]).ok_or(2usize)? } else { d_layout };
        let used = [factors, factors, reads_c, true];

        let mut outer = self.dimensions(used);
        let batch = self.take_batch(&mut outer, d_layout, sizes);
        let desc = GemmDesc::new(self.types, d.rows, d.cols, a.cols)
            .with_layouts(a_layout, b_layout, c_layout)
            .with_d(d_layout)
            .with_batch(batch)
            .with_scalars(self.alpha, self.beta)
            .with_accuracy(self.accuracy)
            .with_epilogue(self.epilogue);
        let desc = match self.prepared {
            Some(limbs) => desc.with_prepared(Factor::B, limbs),
            None => desc,
        };
        let address = |at: usize| {
            let found = self.matrices[at].at.addr() as DevicePtr;
            if used[at] { found } else { 0 }
        };
        let operands = Operands { a: address(0), b: address(1), c: address(2), d: address(3) };
        // Whatever the addresses and all steps between them are multiples of.
        let steps = outer.iter().flat_map(|dimension| dimension.steps);
        let multiples = (0..4).map(address).chain(steps.map(|step| step.unsigned_abs() as u64));
        let multiples: Vec<DevicePtr> = multiples.collect();
        let found = PlanLimits::default().for_addresses(&multiples);
        let alignment = found.alignment.min(limits.alignment);
        Ok(Arranged { desc, operands, outer, limits: PlanLimits { alignment, ..limits } })
    }

    /// The stack's dimensions, those that follow each other evenly in every operand made one.
    fn dimensions(&self, used: [bool; 4]) -> Vec<Dimension> {
        let mut all: Vec<Dimension> = Vec::new();
        for (at, &count) in self.stack.iter().enumerate() {
            if count == 1 {
                continue;
            }
            let step = |operand: usize| if used[operand] { self.strides[operand][at] } else { 0 };
            let steps: [isize; 4] = std::array::from_fn(step);
            if let Some(last) = all.last_mut()
                && let Some(merged) = last.count.checked_mul(count)
                && last
                    .steps
                    .iter()
                    .zip(steps)
                    .all(|(&outer, inner)| inner.checked_mul(count.cast_signed()) == Some(outer))
            {
                *last = Dimension { count: merged, steps };
            } else {
                all.push(Dimension { count, steps });
            }
        }
        all
    }

    /// Takes out the largest dimension that a strided batch expresses.
    fn take_batch(&self, outer: &mut Vec<Dimension>, d: Layout, sizes: [usize; 4]) -> GemmBatch {
        let [_, _, _, matrix] = &self.matrices;
        let d_len = d.required_len(matrix.rows, matrix.cols).unwrap_or(usize::MAX);
        let strides = |dimension: &Dimension| -> Option<[usize; 4]> {
            let mut strides = [0; 4];
            for ((stride, step), size) in strides.iter_mut().zip(dimension.steps).zip(sizes) {
                let step = usize::try_from(step).ok().filter(|step| step.is_multiple_of(size))?;
                *stride = step / size;
            }
            // No two D overlap.
            (strides[3] >= d_len).then_some(strides)
        };
        let fits = outer.iter().enumerate().filter_map(|(at, dimension)| {
            strides(dimension).map(|strides| (dimension.count, at, strides))
        });
        let Some((count, at, [a_stride, b_stride, c_stride, d_stride])) = fits.max() else {
            return GemmBatch::ONE;
        };
        outer.remove(at);
        GemmBatch::Strided { count, a_stride, b_stride, c_stride, d_stride }
    }
}

impl Arranged {
    /// How many products there are; as many as can be counted, where there are more.
    pub(super) fn products(&self) -> usize {
        let counts = self.outer.iter().map(|dimension| dimension.count);
        counts.fold(self.desc.batch.count(), usize::saturating_mul)
    }

    /// Queues all launches.
    ///
    /// # Safety
    /// As [`Plan::run_with`], or [`Plan::run_prepared`] where B is prepared, for each product of the stack.
    pub(super) unsafe fn launch(
        &self,
        plan: &Plan,
        stream: RawStream,
        Beside { numbers, prepared }: Beside,
        workspace: Workspace,
    ) -> Result<(), Error> {
        if self.outer.iter().any(|dimension| dimension.count == 0) {
            return Ok(());
        }
        let mut index = vec![0usize; self.outer.len()];
        loop {
            let moved = |at: usize, address: DevicePtr| {
                let steps = index.iter().zip(&self.outer);
                steps.fold(address, |address, (&index, dimension)| {
                    let step = dimension.steps[at].wrapping_mul(index.cast_signed());
                    address.wrapping_add_signed(step as i64)
                })
            };
            let Operands { a, b, c, d } = self.operands;
            let (a, b, c, d) = (moved(0, a), moved(1, b), moved(2, c), moved(3, d));
            let operands = Operands { a, b, c, d };
            match prepared {
                // SAFETY: the caller's promise for the matrices at this place of the stack.
                Some(limbs) => unsafe {
                    plan.run_prepared(stream, operands, limbs, numbers, workspace)
                },
                // SAFETY: the same.
                None => unsafe { plan.run_with(stream, &[operands], numbers, workspace) },
            }?;
            // The last dimension is counted first.
            let next = index.iter_mut().zip(&self.outer).rev().find_map(|(index, dimension)| {
                *index += 1;
                if *index < dimension.count {
                    return Some(());
                }
                *index = 0;
                None
            });
            if next.is_none() {
                return Ok(());
            }
        }
    }
}

/// Addresses of the first byte of an array and behind its last; `None` where there are no elements. An array
/// larger than an address space reaches to its end.
pub(super) fn span(
    address: u64,
    shape: &[usize],
    strides: &[isize],
    size: usize,
) -> Option<(u64, u64)> {
    if shape.contains(&0) {
        return None;
    }
    let (mut first, mut last) = (address, address);
    for (&count, &stride) in shape.iter().zip(strides) {
        let reach = (stride.unsigned_abs() as u64).saturating_mul(count as u64 - 1);
        if stride < 0 {
            first = first.saturating_sub(reach);
        } else {
            last = last.saturating_add(reach);
        }
    }
    Some((first, last.saturating_add(size as u64)))
}

/// Where the elements of an array are: what overlap is told by.
pub(super) struct Extent<'a> {
    pub(super) address: u64,
    pub(super) shape: &'a [usize],
    pub(super) strides: &'a [isize],
    pub(super) size: usize,
}

impl Extent<'_> {
    /// Whether two arrays may have an element in common. Parts of one matrix, of whose lines they are other
    /// columns, have none.
    pub(super) fn may_overlap(&self, other: &Self) -> bool {
        let of = |it: &Self| span(it.address, it.shape, it.strides, it.size);
        let (Some(own), Some(theirs)) = (of(self), of(other)) else { return false };
        if own.1 <= theirs.0 || theirs.1 <= own.0 {
            return false;
        }
        // In each line of a common length the one takes these bytes and the other those.
        let (Some((pitch, width)), Some((other_pitch, other_width))) = (self.line(), other.line())
        else {
            return true;
        };
        if pitch != other_pitch {
            return true;
        }
        let offset = other.address.wrapping_sub(self.address) as i64;
        let Ok(offset) = u64::try_from(offset.rem_euclid(pitch.cast_signed())) else { return true };
        offset < width || offset + other_width > pitch
    }

    /// Bytes from one line to the next where all dimensions but one are whole numbers of lines, and bytes of a line
    /// that are used.
    fn line(&self) -> Option<(u64, u64)> {
        let dimensions = self.shape.iter().zip(self.strides);
        let dimensions = dimensions.filter(|&(&count, &stride)| count > 1 && stride != 0);
        let mut steps: Vec<(u64, u64)> = Vec::new();
        for (&count, &stride) in dimensions {
            steps.push((u64::try_from(stride).ok()?, count as u64));
        }
        steps.sort_unstable();
        let (&(step, count), outer) = steps.split_first()?;
        let &(pitch, _) = outer.first()?;
        let width = step.checked_mul(count - 1)?.checked_add(self.size as u64)?;
        let is_even = outer.iter().all(|(outer, _)| outer.is_multiple_of(pitch));
        (is_even && width <= pitch && i64::try_from(pitch).is_ok()).then_some((pitch, width))
    }
}
