//! The launches of a product, as data.
//!
//! [`Planner::plan`] is a pure function of a kernel's specification, a problem, where its operands are, what
//! the device allows and in how many ranges k is to be summed. What it gives is carried out step by step by the driver
//! (`tessera::gpu`) and by the emulator (`host::emulate`), which know nothing of kernels.

mod batched;
mod limbs;
mod tma;

use core::ptr::with_exposed_provenance;

pub use self::tma::{MapDesc, Matrices, Swizzle};
use crate::params::{
    BatchedParams, FallbackParams, GemmParams, LimbParams, PadParams, ProbeParams, RowAmaxParams,
    RowExponentsParams, SplitKMajorParams, SplitMnMajorParams, TmaParams, TmaSimtParams,
};
use crate::split::{MOST_BYTES, Panel, Workspace};
use crate::split_k::KSharing;
use crate::{
    Batch, Block, DeviceLimits, Element as _, Epilogue, GemmTypes, Grid, HelperEntry, HelperRole,
    KernelSpec, Operand, OperandAccess, Problem, Unsupported, split_k,
};

/// Addresses of the first elements of the operands, in the memory that the launches use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The first element of A.
    pub a: u64,
    /// The first element of B.
    pub b: u64,
    /// The first element of C.
    pub c: u64,
}

/// What a kernel that fuses an epilogue is given for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fused {
    /// What is done.
    pub epilogue: Epilogue,
    /// What beta multiplies, row-major: C, or a matrix apart from it.
    pub old: Old,
    /// The first number of the bias; what is not read may be anything.
    pub bias: u64,
    /// From that of one product to that of the next, in elements.
    pub bias_stride: usize,
    /// The first factor of the rows.
    pub row_scales: u64,
    /// The first factor of the columns.
    pub column_scales: u64,
    /// Where the largest magnitude goes: zero before the launch.
    pub amax: u64,
    /// Where alpha and beta are, one behind the other, if they are in device memory.
    pub scalars: u64,
}

impl Fused {
    /// Nothing.
    pub const NONE: Self = Self {
        epilogue: Epilogue::NONE,
        old: Old { address: 0, ld: 0, stride: 0 },
        bias: 0,
        bias_stride: 0,
        row_scales: 0,
        column_scales: 0,
        amax: 0,
        scalars: 0,
    };
}

impl Fused {
    /// The same of a product of a batch, whose elements of C have `size` bytes.
    #[must_use]
    pub const fn of_product(mut self, product: usize, size: usize) -> Self {
        self.old.address += (product * self.old.stride * size) as u64;
        self.bias += (product * self.bias_stride * size) as u64;
        self
    }
}

/// Where the matrix is that beta multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Old {
    /// Its first element.
    pub address: u64,
    /// From one row to the next, in elements.
    pub ld: usize,
    /// From that of one product to that of the next, in elements.
    pub stride: usize,
}

/// Which of the bands of rows of a larger product a product is: they have B in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Rows of the tallest band.
    pub tallest: usize,
    /// Rows of the whole product.
    pub all: usize,
    /// Where the band begins among them. The launches of those before it come first, in the same
    /// workspace.
    pub first: usize,
}

impl Band {
    /// A product of `m` rows that is no part of another.
    #[must_use]
    pub const fn whole(m: usize) -> Self {
        Self { tallest: m, all: m, first: 0 }
    }
}

/// A factor whose limbs an earlier plan has made ([`Planner::keep`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// A or B.
    pub factor: Operand,
    /// Where they are.
    pub address: u64,
}

/// What a kernel does for a problem, in order: each step uses what the steps before it wrote.
#[derive(Clone, Debug)]
pub struct LaunchPlan<T: GemmTypes> {
    /// The steps.
    pub steps: Vec<Step<T>>,
}

/// One step of a plan.
#[derive(Clone, Debug)]
pub enum Step<T: GemmTypes> {
    /// Sets every byte of a part of the workspace.
    Fill {
        /// Where it begins.
        address: u64,
        /// Its length.
        bytes: u64,
        /// What each byte becomes.
        value: u8,
    },
    /// Copies a part of what is kept to the workspace.
    Copy {
        /// Where it begins.
        from: u64,
        /// Where its copy begins.
        to: u64,
        /// Its length.
        bytes: u64,
    },
    /// Launches an entry.
    Launch(Launch<T>),
}

/// A launch of an entry.
#[derive(Clone, Debug)]
pub struct Launch<T: GemmTypes> {
    /// Name of the `.entry` in the PTX.
    pub symbol: &'static str,
    /// Blocks.
    pub grid: Grid,
    /// Blocks of a cluster, along x; 1 where blocks run by themselves.
    pub cluster: u32,
    /// Threads of a block.
    pub block: Block,
    /// Bytes of shared memory of a block.
    pub shared_bytes: u32,
    /// Whether it may begin before the launch ahead of it in the stream has ended, for which it then waits by
    /// itself ([`crate::Arch::overlaps`]).
    pub overlaps: bool,
    /// What the entry is called with.
    pub arguments: Arguments<T>,
}

/// Parameters of which the first are tensor maps, and what these describe.
#[derive(Clone, Debug)]
pub struct Mapped<P, const MAPS: usize> {
    /// The parameters, without the maps.
    pub params: P,
    /// The maps, in the order of the parameters.
    pub maps: [MapDesc; MAPS],
}

/// What an entry is called with: the parameters that its specification names.
#[derive(Clone, Debug)]
pub enum Arguments<T: GemmTypes> {
    /// A kernel that finds its operands by their addresses.
    Gemm(GemmParams<T>),
    /// A kernel that computes a batch.
    Batched(BatchedParams<T::Acc>),
    /// [`HelperRole::SumRanges`], or what does the same for a narrower C.
    SumRanges(GemmParams<T::Acc>),
    /// A kernel that gets tensor maps of A, B and C: encoded, they take their places in the parameters.
    Tma(Box<Mapped<TmaParams<T::Acc>, 3>>),
    /// A kernel that gets tensor maps of A and B.
    TmaSimt(Box<Mapped<TmaSimtParams<T>, 2>>),
    /// A kernel that multiplies limbs.
    Limbs(LimbParams),
    /// [`HelperRole::Pad`].
    Pad(PadParams),
    /// [`HelperRole::SplitKMajor`].
    SplitKMajor(SplitKMajorParams),
    /// [`HelperRole::RowAmax`].
    RowAmax(RowAmaxParams),
    /// [`HelperRole::SplitMnMajor`].
    SplitMnMajor(SplitMnMajorParams),
    /// [`HelperRole::Probe`].
    Probe(ProbeParams),
    /// [`HelperRole::RowExponents`].
    RowExponents(RowExponentsParams),
    /// [`HelperRole::Fallback`].
    Fallback(FallbackParams),
}

/// Multiply-adds of a product up to which its launches overlap.
const MOST_WORK_IN_OVERLAP: u128 = 1 << 33;

/// Bytes of both operands up to which launches overlap whose blocks are fewer than the SMs.
const MOST_BYTES_WITH_IDLE_SMS: u128 = 1 << 24;

/// A product by a kernel of which a plan can be made.
pub struct Planner<'p, T: GemmTypes> {
    spec: &'p KernelSpec,
    /// One of the products of `batch`, and where its operands are.
    problem: Problem<T>,
    batch: Batch,
    addresses: Addresses,
    limits: &'p DeviceLimits,
    band: Band,
    /// Ranges of k that several blocks sum apart.
    ranges: u32,
    fused: Option<Fused>,
    /// Where the device finds the rows before which those of each product end; zero where each has all.
    ends: u64,
    kept: Option<Kept>,
    /// Most bytes of workspace of a kernel that multiplies limbs, if its panels are not given.
    most_workspace: u64,
    panel: Option<Panel>,
}

impl<'p, T: GemmTypes> Planner<'p, T> {
    /// `C = alpha * A * B + beta * C` by a kernel, for operands at these addresses. The products of a batch
    /// come one after the other, but by a kernel whose launches compute all of them.
    ///
    /// # Errors
    /// What [`KernelSpec::supports`] says of one product.
    pub fn new(
        spec: &'p KernelSpec,
        problem: &Problem<T>,
        addresses: Addresses,
        limits: &'p DeviceLimits,
        band: Band,
    ) -> Result<Self, Unsupported> {
        let batch = problem.batch;
        let problem = problem.one();
        spec.supports(&problem, limits)?;
        Ok(Self {
            spec,
            problem,
            batch,
            addresses,
            limits,
            band,
            ranges: 1,
            fused: None,
            ends: 0,
            kept: None,
            most_workspace: MOST_BYTES,
            panel: None,
        })
    }

    /// The same with k in that number of ranges, or the most that it can have, each summed by other blocks;
    /// without it, and by a kernel whose blocks do not share k, it is one.
    #[must_use]
    pub fn with_ranges(self, asked: u32) -> Self {
        let Problem { n, .. } = self.problem;
        // As many in every band as the whole product has.
        let sizes = (size(self.band.all), size(n), size(self.problem.effective_k()));
        let ranges = match self.spec.split_k {
            // The blocks of a launch for several products have enough to do, each with all of k.
            _ if self.spec.takes_batches() && self.batch.count > 1 => 1,
            KSharing::None => self.ranges,
            KSharing::Workspace { unit } => split_k::possible_parts(sizes, asked, unit),
            KSharing::Cluster { unit } => split_k::possible_in_cluster(sizes.2, asked, unit),
        };
        Self { ranges, ..self }
    }

    /// The same with an epilogue, by a kernel that [fuses](KernelSpec::fuses) it, none of which leaves ranges of k in
    /// the workspace.
    #[must_use]
    pub fn with_fused(self, fused: Fused) -> Self {
        let by_workspace = matches!(self.spec.split_k, KSharing::Workspace { .. });
        debug_assert!(self.spec.fuses && !by_workspace);
        Self { fused: Some(fused), ..self }
    }

    /// The same with products that have groups of rows of one A and one C, which begin where the group before ends:
    /// at that address are the rows before which each ends, one `u32` a product. By a kernel whose launches
    /// [compute all products](KernelSpec::takes_batches) by tensor maps; A and C have a stride of zero.
    #[must_use]
    pub fn with_row_groups(self, ends: u64) -> Self {
        debug_assert!(self.spec.row_groups);
        debug_assert!((self.batch.a_stride, self.batch.c_stride) == (0, 0));
        Self { ends, ..self }
    }

    /// The same with a factor's limbs from where [`Planner::keep`] has left them, and the factor where it was: what
    /// limbs cannot hold, the fallback multiplies. By a kernel that multiplies limbs, of a product that has A whole if it
    /// is A that is kept.
    #[must_use]
    pub fn with_kept(self, kept: Kept) -> Self {
        debug_assert!(matches!(self.spec.operands, OperandAccess::Limbs(_)));
        debug_assert!(kept.factor == Operand::B || self.band.all == self.problem.m);
        Self { kept: Some(kept), ..self }
    }

    /// The same with limbs that take no more than that many bytes of workspace, if it is less than [`MOST_BYTES`]: as
    /// many of them are there at a time. What is kept does not count.
    #[must_use]
    pub fn with_most_workspace(self, bytes: u64) -> Self {
        Self { most_workspace: bytes.min(MOST_BYTES), ..self }
    }

    /// The same with panels of that size, by a kernel that multiplies limbs. A factor that is kept is in all of them.
    #[must_use]
    pub fn with_panel(self, panel: Panel) -> Self {
        Self { panel: Some(panel), ..self }
    }

    /// Bytes of a factor's limbs and of what splitting finds out about it; none by a kernel that multiplies no limbs.
    #[must_use]
    pub fn kept_bytes(&self, factor: Operand) -> Option<u64> {
        let OperandAccess::Limbs(limbs) = self.spec.operands else { return None };
        Some(limbs::of_factor(limbs, &self.problem, factor, 0).0.bytes)
    }

    /// The launches that leave them at that address, a multiple of 256. They are the same for each product of such a
    /// factor by a kernel that multiplies such limbs.
    ///
    /// # Panics
    /// By a kernel that multiplies no limbs.
    #[must_use]
    pub fn keep(&self, factor: Operand, address: u64) -> LaunchPlan<T> {
        let OperandAccess::Limbs(limbs) = self.spec.operands else {
            panic!("invariant: {} multiplies limbs", self.spec.id)
        };
        self.overlapped(self.kept_limbs(limbs, factor, address))
    }

    /// Bytes that the launches need besides the operands, in one piece at a multiple of 256.
    #[must_use]
    pub fn workspace_bytes(&self) -> u64 {
        if self.is_nothing() {
            return 0;
        }
        // As many bytes for every band, so that none loses what the first has left of B.
        let (m, n) = (size(self.band.tallest), size(self.problem.n));
        let partial = |m, n| match self.spec.split_k {
            KSharing::Workspace { .. } if self.ranges > 1 => split_k::bytes(m, n, self.ranges),
            KSharing::Workspace { .. } | KSharing::None | KSharing::Cluster { .. } => 0,
        };
        let partial_bytes = partial(m, n);
        match self.spec.operands {
            OperandAccess::Pointers => partial_bytes,
            OperandAccess::Batched(_) => 0,
            OperandAccess::TensorMaps { batched: true, .. } => {
                self.copies().iter().sum::<u64>() + partial_bytes
            }
            // Which operands are copied depends on where each begins.
            OperandAccess::TensorMaps { batched: false, .. } => {
                let copies = self.items().map(|item| item.copies().iter().sum());
                copies.max().unwrap_or(0) + partial_bytes
            }
            OperandAccess::Limbs(limbs) => {
                let panel = self.panel(limbs);
                self.limb_workspace(limbs, panel).bytes + partial(panel.rows, panel.columns)
            }
        }
    }

    /// The launches, with a workspace of [`Planner::workspace_bytes`] at that address. None where C is empty.
    ///
    /// # Errors
    /// As [`Planner::new`].
    pub fn plan(&self, workspace: u64) -> Result<LaunchPlan<T>, Unsupported> {
        let mut steps = Vec::new();
        if !self.is_nothing() {
            match self.spec.operands {
                OperandAccess::Batched(share) => self.by_batch(share, &mut steps)?,
                OperandAccess::Pointers => {
                    self.each(|item| item.by_pointers(workspace, &mut steps))?;
                }
                OperandAccess::TensorMaps { batched: true, .. } => {
                    self.by_tensor_maps(workspace, &mut steps)?;
                }
                OperandAccess::TensorMaps { batched: false, .. } => {
                    self.each(|item| item.by_tensor_maps(workspace, &mut steps))?;
                }
                OperandAccess::Limbs(limbs) => {
                    self.each(|item| item.by_limbs(limbs, workspace, &mut steps))?;
                }
            }
        }
        Ok(self.overlapped(steps))
    }

    /// The steps, with what of each launch may overlap the one before.
    fn overlapped(&self, mut steps: Vec<Step<T>>) -> LaunchPlan<T> {
        for step in &mut steps {
            if let Step::Launch(launch) = step {
                launch.overlaps = self.overlaps(launch.grid);
            }
        }
        LaunchPlan { steps }
    }

    /// Whether a launch may begin before the one ahead of it has ended: where its entry waits, the product is
    /// short, and the blocks of one launch leave no SMs idle. The blocks of long products would be spread over
    /// the SMs in another order, which took up to a tenth longer; those that begin while others read a large
    /// operand may get an SM that is busy while another one is idle, which took a third longer
    /// (docs/notebook/kernels.md).
    fn overlaps(&self, grid: Grid) -> bool {
        let [m, n, k] = [self.problem.m, self.problem.n, self.problem.k].map(|size| size as u128);
        let [a, b] = [Operand::A, Operand::B].map(|operand| T::TYPES.of(operand).size() as u128);
        let blocks = u64::from(grid.x) * u64::from(grid.y) * u64::from(grid.z);
        let fills = 10 * blocks >= 9 * u64::from(self.limits.multiprocessors);
        let products = if self.spec.takes_batches() { self.batch.count as u128 } else { 1 };
        self.spec.arch.overlaps()
            && m * n * k * products <= MOST_WORK_IN_OVERLAP
            && (fills || (m * k * a + k * n * b) * products <= MOST_BYTES_WITH_IDLE_SMS)
    }

    fn is_nothing(&self) -> bool {
        self.problem.m == 0 || self.problem.n == 0
    }

    /// Calls with each product by itself, in order.
    fn each(&self, call: impl FnMut(Self) -> Result<(), Unsupported>) -> Result<(), Unsupported> {
        self.items().try_for_each(call)
    }

    /// The same for each product by itself.
    fn items(&self) -> impl Iterator<Item = Self> {
        let sizes = [Operand::A, Operand::B, Operand::C].map(|operand| T::TYPES.of(operand).size());
        self.problem.with_batch(self.batch).items().enumerate().map(move |(product, at)| {
            let fused = self.fused.map(|fused| fused.of_product(product, sizes[2]));
            let [a, b, c] = [at.a * sizes[0], at.b * sizes[1], at.c * sizes[2]].map(|at| at as u64);
            let Addresses { a: first_a, b: first_b, c: first_c } = self.addresses;
            let addresses = Addresses { a: first_a + a, b: first_b + b, c: first_c + c };
            Self { batch: Batch::ONE, addresses, fused, ..*self }
        })
    }

    /// Where in the workspace the flags are that tell, after the last band's launches, whether limbs could
    /// not hold the operands ([`crate::split::FALL_BACK`]): a `u32`. None where the kernel splits nothing.
    #[must_use]
    pub fn range_flags(spec: &KernelSpec, problem: &Problem<T>, band: Band) -> Option<u64> {
        let OperandAccess::Limbs(limbs) = spec.operands else { return None };
        let (rows, n, k) = (size(band.tallest), size(problem.n), size(problem.k));
        let Panel { rows, columns } = Panel::within(limbs, (rows, n, k), MOST_BYTES);
        let layout = Workspace::new(limbs, rows, columns, k);
        (problem.effective_k() != 0).then_some(layout.zeroed)
    }

    /// The launch of the kernel's own entry: a block or a cluster for each tile, or, where blocks go from
    /// tile to tile, no more of them than the device has SMs.
    fn own(&self, arguments: Arguments<T>) -> Result<Launch<T>, Unsupported> {
        let Self { spec, problem: Problem { m, n, k, .. }, limits, ranges, .. } = *self;
        let mut grid = spec.launch_grid(m, n, limits.multiprocessors)?;
        let mut cluster = spec.cluster();
        if let KSharing::Cluster { .. } = spec.split_k {
            let blocks = grid.x.checked_mul(ranges).filter(|&x| i32::try_from(x).is_ok());
            grid.x = blocks.ok_or(Unsupported::TooLarge { m, n, k })?;
            cluster = ranges;
        }
        Ok(Launch {
            symbol: spec.entry(T::TYPES)?,
            grid,
            cluster,
            block: spec.block(m, n)?,
            shared_bytes: spec.shared_bytes(T::TYPES),
            overlaps: false,
            arguments,
        })
    }

    /// The kernel's helper for a role.
    ///
    /// # Panics
    /// Where it has none: [`KernelSpec::check`] has seen to it.
    fn helper(&self, role: HelperRole) -> &'static HelperEntry {
        self.spec.helper(role).expect("invariant: `check` asks for the helpers of an access")
    }

    /// A product whose operands are found by their addresses. If several blocks share k, each range's sum
    /// goes to a matrix of its own, and a second launch adds the matrices.
    fn by_pointers(&self, workspace: u64, steps: &mut Vec<Step<T>>) -> Result<(), Unsupported> {
        let problem = self.problem;
        let (m, n) = (size(problem.m), size(problem.n));
        let whole = GemmParams {
            m,
            n,
            k: size(problem.k),
            alpha: problem.alpha,
            a: pointer(self.addresses.a),
            lda: problem.a.ld as u64,
            b: pointer(self.addresses.b),
            ldb: problem.b.ld as u64,
            beta: problem.beta,
            c: pointer_mut(self.addresses.c),
            ldc: problem.c.ld as u64,
        };
        if !self.spec.split_k.is_possible() {
            steps.push(Step::Launch(self.own(Arguments::Gemm(whole))?));
            return Ok(());
        }
        // With nothing to sum the operands are not read.
        let k = size(problem.effective_k());
        let ranges = self.ranges;
        let mut product = GemmParams { k, ..whole };
        if ranges == 1 {
            steps.push(Step::Launch(self.own(Arguments::Gemm(product))?));
            return Ok(());
        }
        let pitch = u64::from(split_k::pitch(n));
        product.alpha = T::Acc::ONE;
        product.beta = T::Acc::ZERO;
        product.c = pointer_mut(workspace);
        product.ldc = pitch;
        let mut launch = self.own(Arguments::Gemm(product))?;
        launch.grid.y = ranges;
        steps.extend([Step::Launch(launch), Step::Launch(self.sum_of_ranges(workspace))]);
        Ok(())
    }

    /// The launch that makes C of the ranges' sums, which are in the workspace.
    fn sum_of_ranges(&self, workspace: u64) -> Launch<T> {
        let problem = self.problem;
        let (m, n) = (size(problem.m), size(problem.n));
        let entry = self.helper(HelperRole::sum_of_ranges(T::TYPES.c()));
        let params = GemmParams {
            m,
            n,
            k: self.ranges,
            alpha: problem.alpha,
            a: pointer(workspace),
            lda: u64::from(split_k::pitch(n)),
            b: core::ptr::null(),
            ldb: 0,
            beta: problem.beta,
            c: pointer_mut(self.addresses.c),
            ldc: problem.c.ld as u64,
        };
        let grid = split_k::sum_grid(m, n, entry.block.x);
        entry.launch(grid, Arguments::SumRanges(params))
    }
}

impl HelperEntry {
    fn launch<T: GemmTypes>(&self, grid: Grid, arguments: Arguments<T>) -> Launch<T> {
        let Self { symbol, block, shared_bytes, .. } = *self;
        Launch { symbol, grid, cluster: 1, block, shared_bytes, overlaps: false, arguments }
    }
}

/// A size as kernels take it.
///
/// # Panics
/// Where [`KernelSpec::supports`] was not asked: it refuses what is larger.
fn size(value: usize) -> u32 {
    u32::try_from(value).expect("invariant: `supports` bounds sizes")
}

/// An address as the parameters hold it: one of this process or of its driver, so that it fits a pointer.
fn pointer<P>(address: u64) -> *const P {
    let address = usize::try_from(address).expect("invariant: a pointer holds an address");
    with_exposed_provenance(address)
}

/// The same of what is written.
fn pointer_mut<P>(address: u64) -> *mut P {
    pointer::<P>(address).cast_mut()
}

#[cfg(test)]
mod tests;
