//! The launches of a product whose operands are split into limbs first.

use gemm_spec::split::{AMAX_BLOCK_K, BLOCK_K, FALL_BACK, PANEL_ROWS, PROBE_BLOCKS, Workspace};
use gemm_spec::{Grid, HelperEntry, KernelSpec, Layout, Operand, Order, Problem, SplitEntries};

use super::arguments::{Fallback, Multiply, Probe, RowAmax, SplitKMajor, SplitMnMajor};
use super::entry::{Addresses, EntryLaunch, size};
use super::launch::Queue;
use super::refused;
use crate::element::GemmTypes;
use crate::error::Error;

/// Which of the bands of rows of a larger product a product is: they have B in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Band {
    /// Rows of the tallest band.
    pub(super) tallest: usize,
    /// Rows of the whole product.
    pub(super) all: usize,
    /// Where the band begins among them. The launches of those before it are in the stream already.
    pub(super) first: usize,
}

impl Band {
    /// A product that is no part of another.
    pub(super) fn whole<T: GemmTypes>(problem: &Problem<T>) -> Self {
        Self { tallest: problem.m, all: problem.m, first: 0 }
    }
}

/// Splits A and B, multiplies the limbs, and multiplies the operands themselves where the limbs
/// cannot hold them: which of the two does something, the helpers' flags decide on the device. Bands
/// after the first find B's limbs where the first has left them, and its flags.
///
/// # Safety
/// The addresses are those of operands that are valid for the problem; C overlaps neither factor and
/// nobody else uses it. The kernel supports the problem. A band after the first comes right behind the
/// one before it: nothing else has used the workspace, and B is the same.
pub(super) unsafe fn launch<T: GemmTypes>(
    queue: &Queue<'_>,
    spec: &KernelSpec,
    entries: &SplitEntries,
    problem: &Problem<T>,
    addresses: Addresses,
    band: Band,
) -> Result<(), Error> {
    let (m, n, k) = (size(problem.m), size(problem.n), size(problem.k));
    let tallest = size(band.tallest);
    let layout = Workspace::new(entries.limbs, tallest, n, k);
    queue.with_workspace(layout.bytes, |at| {
        let product = Product { queue, spec, entries, band, tallest, m, n, k, layout, at };
        // The first clears the flags and what is found of all rows, the others that of A's rows alone.
        let (from, to) = match band.first {
            0 => (layout.zeroed, layout.zeroed + layout.zeroed_bytes),
            _ => (layout.a_row_amax(), layout.b_row_amax(tallest)),
        };
        // With nothing to sum the factors are not read: the flags send the product to the fallback.
        let nothing = problem.effective_k() == 0;
        let (value, bytes) = (if nothing { 0xff } else { 0 }, (to - from) as usize);
        let driver = queue.gpu.context().driver();
        // SAFETY: the region is within the workspace, which this stream alone uses, in order.
        unsafe { driver.memset_async(queue.stream, at + from, value, bytes) }
            .map_err(refused("clearing a workspace"))?;
        // SAFETY: the caller's promises; each step uses what the steps before it wrote.
        unsafe {
            if !nothing {
                product.split(Operand::A, problem.a, addresses.a)?;
                if band.first == 0 {
                    product.split(Operand::B, problem.b, addresses.b)?;
                }
                product.probe(problem, addresses)?;
                product.multiply(problem, addresses)?;
            }
            product.fall_back(problem, addresses)
        }
    })
}

/// Whether limbs could not hold the product in bands that was queued last: in which band that was found,
/// nobody knows. Waits for all that the stream was given.
pub(super) fn fell_back<T: GemmTypes>(
    queue: &Queue<'_>,
    entries: &SplitEntries,
    problem: &Problem<T>,
    tallest: usize,
) -> Result<bool, Error> {
    if problem.effective_k() == 0 {
        return Ok(false);
    }
    let (tallest, n, k) = (size(tallest), size(problem.n), size(problem.k));
    let layout = Workspace::new(entries.limbs, tallest, n, k);
    queue.with_workspace(layout.bytes, |at| {
        let mut flags = [0; size_of::<u32>()];
        let driver = queue.gpu.context().driver();
        // SAFETY: the flags are within the workspace, whose last user's work this copy follows in the
        // stream and waits for.
        unsafe { driver.read_in_order(queue.stream, &mut flags, at + layout.zeroed) }
            .map_err(refused("reading the flags of a product"))?;
        Ok(u32::from_ne_bytes(flags) & FALL_BACK != 0)
    })
}

/// One product and its workspace.
struct Product<'a> {
    queue: &'a Queue<'a>,
    spec: &'a KernelSpec,
    entries: &'a SplitEntries,
    band: Band,
    /// Rows of A that the workspace has room for.
    tallest: u32,
    m: u32,
    n: u32,
    k: u32,
    layout: Workspace,
    /// Where the workspace begins.
    at: u64,
}

impl Product<'_> {
    fn flags(&self) -> u64 {
        self.at + self.layout.zeroed
    }

    fn helper(&self, entry: HelperEntry, x: u32, y: u32) -> EntryLaunch {
        EntryLaunch::helper(self.spec, &entry, Grid { x, y, z: 1 })
    }

    /// Splits A or B.
    ///
    /// # Safety
    /// `from` is the address of that operand, valid for the layout.
    unsafe fn split(&self, operand: Operand, layout: Layout, from: u64) -> Result<(), Error> {
        let work = self.layout;
        // A "row" is a row of A or a column of B; along k it is contiguous in a row-major A and in a
        // column-major B.
        let (tallest, n) = (self.tallest, self.n);
        let (rows, along) = match operand {
            Operand::A => (self.m, Order::RowMajor),
            _ => (n, Order::ColMajor),
        };
        let [limbs, exponents, row_amax, underflows] = match operand {
            Operand::A => [work.a, work.a_exponents, work.a_row_amax(), work.a_underflows(tallest)],
            _ => {
                [work.b, work.b_exponents, work.b_row_amax(tallest), work.b_underflows(tallest, n)]
            }
        }
        .map(|offset| self.at + offset);
        let (k, ld, flags) = (self.k, layout.ld as u64, self.flags());
        if layout.order == along {
            let launch = self.helper(self.entries.k_major, rows, 1);
            let mut arguments = SplitKMajor { k, from, ld, limbs, exponents, underflows, flags };
            // SAFETY: the entry's obligations: the operand is valid, the workspace has room for its
            // limbs and exponents; a block for each row, with the spec's threads and shared memory.
            return unsafe { self.queue.launch(&launch, &mut arguments.addresses()) };
        }
        let panels = rows.div_ceil(PANEL_ROWS);
        if let Some(entry) = self.entries.row_amax {
            let launch = self.helper(entry, panels, k.div_ceil(AMAX_BLOCK_K));
            let mut arguments = RowAmax { rows, k, from, ld, row_amax };
            // SAFETY: as above; the maxima were zeroed before.
            unsafe { self.queue.launch(&launch, &mut arguments.addresses())? };
        }
        let launch = self.helper(self.entries.mn_major, panels, k.div_ceil(BLOCK_K));
        let mut arguments =
            SplitMnMajor { rows, k, from, ld, row_amax, limbs, exponents, underflows, flags };
        // SAFETY: as above; the maxima are those of the launch before.
        unsafe { self.queue.launch(&launch, &mut arguments.addresses()) }
    }

    /// Looks at samples of C, where limbs have a range.
    ///
    /// # Safety
    /// Both operands are valid and split.
    unsafe fn probe<T: GemmTypes>(
        &self,
        problem: &Problem<T>,
        addresses: Addresses,
    ) -> Result<(), Error> {
        let Some(entry) = self.entries.probe else { return Ok(()) };
        let ((a_row, a_step), (b_step, b_col)) = (strides(problem.a), strides(problem.b));
        let mut arguments = Probe {
            rows: size(self.band.all),
            first: size(self.band.first),
            m: self.m,
            n: self.n,
            k: self.k,
            a: addresses.a,
            a_row,
            a_step,
            b: addresses.b,
            b_step,
            b_col,
            a_exponents: self.at + self.layout.a_exponents,
            b_exponents: self.at + self.layout.b_exponents,
            flags: self.flags(),
        };
        // SAFETY: the entry's obligations: the caller's promises; the spec's threads and shared memory.
        unsafe {
            self.queue.launch(&self.helper(entry, PROBE_BLOCKS, 1), &mut arguments.addresses())
        }
    }

    /// Multiplies the limbs, unless the flags forbid it.
    ///
    /// # Safety
    /// Both operands are split; C is valid and nobody else uses it.
    unsafe fn multiply<T: GemmTypes>(
        &self,
        problem: &Problem<T>,
        addresses: Addresses,
    ) -> Result<(), Error> {
        let launch = EntryLaunch::own(self.queue, self.spec, problem)?;
        let work = self.layout;
        let mut arguments = Multiply {
            m: self.m,
            n: self.n,
            k: self.k,
            alpha: scalar(problem.alpha),
            a_limbs: self.at + work.a,
            b_limbs: self.at + work.b,
            a_exponents: self.at + work.a_exponents,
            b_exponents: self.at + work.b_exponents,
            beta: scalar(problem.beta),
            c: addresses.c,
            ldc: problem.c.ld as u64,
            flags: self.flags(),
            unless: FALL_BACK,
        };
        // SAFETY: the entry's obligations: (1) the caller's promises; (2) block and shared memory are
        // the spec's, the blocks no more than the tiles.
        unsafe { self.queue.launch(&launch, &mut arguments.addresses()) }
    }

    /// Multiplies the operands themselves, if the flags ask for it.
    ///
    /// # Safety
    /// The operands are valid, and nobody else uses C.
    unsafe fn fall_back<T: GemmTypes>(
        &self,
        problem: &Problem<T>,
        addresses: Addresses,
    ) -> Result<(), Error> {
        let entry = self.entries.fallback;
        let blocks = self.queue.gpu.limits().multiprocessors * entry.min_blocks;
        let ((a_row, a_step), (b_step, b_col)) = (strides(problem.a), strides(problem.b));
        let mut arguments = Fallback {
            m: self.m,
            n: self.n,
            k: self.k,
            alpha: scalar(problem.alpha),
            a: addresses.a,
            a_row,
            a_step,
            b: addresses.b,
            b_step,
            b_col,
            beta: scalar(problem.beta),
            c: addresses.c,
            ldc: problem.c.ld as u64,
            flags: self.flags(),
            when: FALL_BACK,
        };
        let launch = self.helper(entry, blocks, 1);
        // SAFETY: the entry's obligations: the caller's promises; the spec's threads and shared
        // memory. The blocks share the tiles, however many they are.
        unsafe { self.queue.launch(&launch, &mut arguments.addresses()) }
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
fn scalar<S: gemm_spec::Element>(value: S) -> f32 {
    let value: &dyn std::any::Any = &value;
    *value.downcast_ref().expect("invariant: kernels that split operands multiply f32 alone")
}
