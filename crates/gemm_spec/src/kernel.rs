//! What the host must know to launch a kernel: the only copy of these numbers.

use crate::block_tile::BlockTile;
use crate::index::ceil_div;
use crate::params::{
    BatchedParams, FallbackParams, FinishParams, GemmParams, LimbParams, PadParams, Param, Params,
    ProbeParams, RowAmaxParams, RowExponentsParams, SplitKMajorParams, SplitMnMajorParams,
    TmaParams, TmaSimtParams, TransposeParams,
};
use crate::split::{self, Limbs, Panel};
use crate::split_k::KSharing;
use crate::{
    AccType, Arch, Block, DType, DeviceLimits, GemmTypes, Grid, LaunchShape, Operand, Order,
    Problem, Tile, Types, Unsupported,
};

/// One entry point of a kernel: the symbol for the types of one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The types that it multiplies.
    pub types: Types,
    /// Name of the `.entry` in the PTX.
    pub symbol: &'static str,
}

/// Blocks that must fit on an SM together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinBlocks {
    /// For elements of four bytes.
    pub narrow: u32,
    /// For elements of eight bytes, which take two registers each.
    pub wide: u32,
}

impl MinBlocks {
    /// The same for elements of any size.
    #[must_use]
    pub const fn same(blocks: u32) -> Self {
        Self { narrow: blocks, wide: blocks }
    }
}

/// A kernel: its name, what it is for, and all that a launch needs.
#[derive(Clone, Copy, Debug)]
pub struct KernelSpec {
    /// Name on the command line, in reports and in the docs.
    pub id: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// The document that the scheme comes from.
    pub origin: &'static str,
    /// Module that holds the entries.
    pub arch: Arch,
    /// One entry for the types of each product.
    pub entries: &'static [Entry],
    /// How it covers C.
    pub launch: LaunchShape,
    /// Elements of shared memory in a block.
    pub shared_elements: u32,
    /// Blocks that must fit on an SM together; the assembler bounds registers by it.
    pub min_blocks_per_sm: MinBlocks,
    /// What its entries take.
    pub params: ParamList,
    /// How threads find the operands.
    pub operands: OperandAccess,
    /// How several CTAs share k where C has few tiles; see [`crate::split_k`].
    pub split_k: KSharing,
    /// What an element of C is the sum of.
    pub numerics: Numerics,
    /// Whether its launches do what an [`Epilogue`](crate::Epilogue) says before they store C, if all of k is
    /// one range.
    pub fuses: bool,
    /// Whether the products of a batch may have groups of rows of one A and one C, of sizes that the device knows.
    pub row_groups: bool,
    /// The entries that are launched before and after its own.
    pub helpers: &'static [HelperEntry],
}

/// The parameters of a kernel's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamList {
    /// [`GemmParams`].
    Gemm,
    /// [`BatchedParams`].
    Batched,
    /// [`TmaParams`].
    Tma,
    /// [`TmaSimtParams`].
    TmaSimt,
    /// [`LimbParams`].
    Limbs,
}

impl ParamList {
    /// Each of them, in order.
    #[must_use]
    pub const fn list(self) -> &'static [Param] {
        match self {
            Self::Gemm => GemmParams::<f32>::LIST,
            Self::Batched => BatchedParams::<f32>::LIST,
            Self::Tma => TmaParams::<f32>::LIST,
            Self::TmaSimt => TmaSimtParams::<f32>::LIST,
            Self::Limbs => LimbParams::LIST,
        }
    }
}

/// How the threads of a kernel find A and B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandAccess {
    /// By their addresses; both are row-major.
    Pointers,
    /// By their addresses, in either order; a launch computes all products of a batch.
    Batched(BatchShare),
    /// By tensor maps, see [`crate::tensor`]. [`HelperRole::Pad`] first copies what TMA cannot address.
    TensorMaps {
        /// Whether A and B can be in either order, not row-major alone.
        any_order: bool,
        /// CTAs of a cluster, one below the other, that share their tiles of B: each loads its part.
        cluster: u32,
        /// Whether a launch computes all products of a batch: the maps of A and B are of rank 3.
        batched: bool,
    },
    /// As limbs in a workspace, into which helpers split A and B of either order, see [`crate::split`].
    Limbs(Limbs),
}

/// What a block of a kernel has of a batch that finds its operands by their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchShare {
    /// Several products, whose threads have a thread tile each, see [`crate::batched`].
    Threads,
    /// Several products, whose warps have parts on the tensor cores, see [`crate::batched_mma`].
    Warps,
    /// A tile of a product, see [`crate::block_tile`].
    Tile(BlockTile),
    /// A tile of a product from limbs that the block makes, see [`crate::batched_limbs`].
    Limbs,
}

/// What an element of C is the sum of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numerics {
    /// One chain of multiply-adds over k in order: its bits are those of every other such implementation.
    Chain,
    /// A chain for each range of k; the chains' results are added in order.
    ChainOfRanges,
    /// Exact products, accumulated by a tensor core in f32 and rounded once.
    TensorCore,
    /// Products of limbs on the tensor cores, accumulated in f32 k-block by k-block.
    Limbs {
        /// Products of limbs that replace one product of the operands.
        products: u32,
    },
}

/// An entry that takes part in a product beside the kernel's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelperEntry {
    /// What it does.
    pub role: HelperRole,
    /// Its name in the PTX.
    pub symbol: &'static str,
    /// Threads in a block.
    pub block: Block,
    /// Blocks that must fit on an SM together.
    pub min_blocks: u32,
    /// Bytes of shared memory in a block.
    pub shared_bytes: u32,
}

/// What a helper does, which decides its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelperRole {
    /// Copies one operand or two to lines of another pitch: [`PadParams`].
    Pad,
    /// Exchanges rows and columns of an operand: [`TransposeParams`]. It is no kernel's own.
    Transpose,
    /// Does what an epilogue does besides scaling to sums that are in memory: [`FinishParams`]. It is no
    /// kernel's own.
    Finish,
    /// Splits a K-major operand: [`SplitKMajorParams`].
    SplitKMajor,
    /// Finds the largest magnitudes of the rows of an MN-major operand, which scale the rows:
    /// [`RowAmaxParams`].
    RowAmax,
    /// Splits an MN-major operand: [`SplitMnMajorParams`].
    SplitMnMajor,
    /// Examines samples of C for lost precision, where the range of limbs is limited: [`ProbeParams`].
    Probe,
    /// Finds by how much rows are scaled where they turn out to need it: [`RowExponentsParams`].
    RowExponents,
    /// Multiplies the operands themselves where splitting cannot hold them: [`FallbackParams`].
    Fallback,
    /// Adds the results of ranges of k: [`GemmParams`], where `a` are the results, `k` is their number,
    /// `lda` their pitch; `b` is not read.
    SumRanges,
    /// The same for a C of f16, at whose elements `c` points.
    SumRangesF16,
    /// The same for a C of bf16.
    SumRangesBf16,
    /// Adds the results of ranges of k that limbs gave, unless these did not hold the operands: [`LimbParams`],
    /// where `a_limbs` are the results as in a workspace of [`split_k`](crate::split_k), and `k` is their
    /// number; the other operands are not read.
    SumLimbRanges,
}

impl HelperRole {
    /// The parameters of such an entry; those of the accumulators' type are f32.
    #[must_use]
    pub const fn params(self) -> &'static [Param] {
        match self {
            Self::Pad => PadParams::LIST,
            Self::Transpose => TransposeParams::LIST,
            Self::Finish => FinishParams::LIST,
            Self::SplitKMajor => SplitKMajorParams::LIST,
            Self::RowAmax => RowAmaxParams::LIST,
            Self::SplitMnMajor => SplitMnMajorParams::LIST,
            Self::Probe => ProbeParams::LIST,
            Self::RowExponents => RowExponentsParams::LIST,
            Self::Fallback => FallbackParams::LIST,
            Self::SumRanges | Self::SumRangesF16 | Self::SumRangesBf16 => GemmParams::<f32>::LIST,
            Self::SumLimbRanges => LimbParams::LIST,
        }
    }

    /// What adds the results of ranges of k for a C of that type.
    #[must_use]
    pub const fn sum_of_ranges(c: DType) -> Self {
        match c {
            DType::F16 => Self::SumRangesF16,
            DType::BF16 => Self::SumRangesBf16,
            DType::F32 | DType::F64 | DType::I32 | DType::I8 => Self::SumRanges,
        }
    }
}

/// One entry of a module as its launches and the assembler see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryForm {
    /// Its name in the PTX.
    pub symbol: &'static str,
    /// The type of its accumulators, which [`Acc`](crate::ParamType::Acc) stands for.
    pub acc: AccType,
    /// Its parameters, in order.
    pub params: &'static [Param],
    /// Threads in a block; of [`LaunchShape::SingleBlock`] any shape of that many.
    pub block: Block,
    /// Blocks that must fit on an SM together.
    pub min_blocks: u32,
    /// Bytes of shared memory in a block.
    pub shared_bytes: u32,
}

impl EntryForm {
    /// Most threads in a block.
    #[must_use]
    pub const fn threads(&self) -> u32 {
        self.block.x * self.block.y
    }

    /// Most registers of a thread with which the promised blocks fit: registers are given out in
    /// eights.
    #[must_use]
    pub const fn max_registers(&self) -> u32 {
        let each = REGISTERS_PER_SM / (self.threads() * self.min_blocks) / 8 * 8;
        if each < MAX_REGISTERS { each } else { MAX_REGISTERS }
    }
}

impl HelperEntry {
    /// The entry as its launches and the assembler see it.
    #[must_use]
    pub const fn form(&self) -> EntryForm {
        EntryForm {
            symbol: self.symbol,
            acc: AccType::F32,
            params: self.role.params(),
            block: self.block,
            min_blocks: self.min_blocks,
            shared_bytes: self.shared_bytes,
        }
    }
}

/// Threads in a block on every device since compute capability 2.0.
const MAX_THREADS: u32 = 1024;
/// Threads on an SM of the data-centre devices; others have fewer, and the assembler then
/// ignores a promise that they cannot keep.
const MAX_THREADS_PER_SM: u32 = 2048;
/// 32-bit registers of an SM, and most that a thread can name.
const REGISTERS_PER_SM: u32 = 65_536;
const MAX_REGISTERS: u32 = 255;
/// Blocks along y and z on every device.
const MAX_GRID_YZ: u32 = 65_535;

impl KernelSpec {
    /// A kernel of one launch that reads row-major operands by their addresses and sums one chain: what
    /// others are described as different from.
    pub const PLAIN: Self = Self {
        id: "",
        about: "",
        origin: "",
        arch: Arch::Sm70,
        entries: &[],
        launch: LaunchShape::SingleBlock,
        shared_elements: 0,
        min_blocks_per_sm: MinBlocks::same(1),
        params: ParamList::Gemm,
        operands: OperandAccess::Pointers,
        split_k: KSharing::None,
        numerics: Numerics::Chain,
        fuses: false,
        row_groups: false,
        helpers: &[],
    };

    /// Most threads that a block of this kernel can have.
    #[must_use]
    pub const fn max_threads(&self) -> u32 {
        match self.launch {
            LaunchShape::Grid { block, .. } | LaunchShape::Grouped { block, .. } => {
                block.x * block.y
            }
            LaunchShape::Persistent { threads, .. } => threads,
            LaunchShape::SingleBlock => MAX_THREADS,
        }
    }

    /// Blocks that must fit on an SM together, for the types of a product.
    #[must_use]
    pub const fn min_blocks(&self, types: Types) -> u32 {
        match types.a().size() {
            8 => self.min_blocks_per_sm.wide,
            _ => self.min_blocks_per_sm.narrow,
        }
    }

    /// Most registers of a thread with which the promised blocks fit: registers are given out in
    /// eights.
    #[must_use]
    pub const fn max_registers(&self, types: Types) -> u32 {
        self.form(types, "").max_registers()
    }

    const fn form(&self, types: Types, symbol: &'static str) -> EntryForm {
        EntryForm {
            symbol,
            acc: types.acc(),
            params: self.params.list(),
            block: match self.launch {
                LaunchShape::Grid { block, .. } | LaunchShape::Grouped { block, .. } => block,
                LaunchShape::Persistent { threads, .. } => Block { x: threads, y: 1 },
                LaunchShape::SingleBlock => Block { x: MAX_THREADS, y: 1 },
            },
            min_blocks: self.min_blocks(types),
            shared_bytes: self.shared_bytes(types),
        }
    }

    /// Every entry that launches of this kernel use: its own, then its helpers.
    pub fn forms(&self) -> impl Iterator<Item = EntryForm> {
        let own = self.entries.iter().map(|entry| self.form(entry.types, entry.symbol));
        own.chain(self.helpers.iter().map(HelperEntry::form))
    }

    /// The helper that does that, if the kernel has one.
    #[must_use]
    pub fn helper(&self, role: HelperRole) -> Option<&'static HelperEntry> {
        self.helpers.iter().find(|helper| helper.role == role)
    }

    /// Whether each element of C is one chain of multiply-adds over k in order, so that its bits are
    /// those of every other such implementation.
    #[must_use]
    pub const fn is_chain(&self) -> bool {
        matches!(self.numerics, Numerics::Chain)
    }

    /// Whether the kernel reads A and B in either order; of others they are row-major.
    #[must_use]
    pub const fn reads_any_order(&self) -> bool {
        match self.operands {
            OperandAccess::Pointers => false,
            OperandAccess::TensorMaps { any_order, .. } => any_order,
            OperandAccess::Batched(_) | OperandAccess::Limbs(_) => true,
        }
    }

    /// Whether a launch computes all products of a batch.
    #[must_use]
    pub const fn takes_batches(&self) -> bool {
        match self.operands {
            OperandAccess::Batched(_) => true,
            OperandAccess::TensorMaps { batched, .. } => batched,
            OperandAccess::Pointers | OperandAccess::Limbs(_) => false,
        }
    }

    /// Fewest k elements that the kernel takes.
    #[must_use]
    pub const fn least_k(&self) -> usize {
        match self.operands {
            OperandAccess::Pointers
            | OperandAccess::Batched(_)
            | OperandAccess::TensorMaps { .. } => 0,
            OperandAccess::Limbs(_) => crate::split::LEAST_K,
        }
    }

    /// Most bytes of device memory that a product takes besides its operands, where these begin at
    /// multiples of 16 bytes, as allocations do.
    #[must_use]
    pub fn workspace_bytes<T: GemmTypes>(&self, problem: &Problem<T>) -> u64 {
        let Problem { m, n, k, .. } = *problem;
        let size = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let ranges =
            if self.shares_by_workspace() { crate::split_k::most_bytes(m, n, k) } else { 0 };
        match self.operands {
            OperandAccess::Pointers => ranges,
            OperandAccess::Batched(_) => 0,
            OperandAccess::TensorMaps { .. } => {
                let bytes = |operand| crate::tensor::copy_bytes(problem, operand, 0);
                bytes(Operand::A) + bytes(Operand::B) + ranges
            }
            OperandAccess::Limbs(limbs) => {
                let (m, n, k) = (size(m), size(n), size(k));
                let Panel { rows, columns } = Panel::within(limbs, (m, n, k), split::MOST_BYTES);
                split::Workspace::new(limbs, rows, columns, k).bytes + ranges
            }
        }
    }

    /// Bytes of shared memory in a block, or the most of them where launches differ: of elements of A, or of
    /// accumulators where operands are widened before they are stored there.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "an element has 8 bytes at most")]
    pub const fn shared_bytes(&self, types: Types) -> u32 {
        let element = match self.operands {
            OperandAccess::Batched(_) => types.acc().dtype(),
            OperandAccess::Pointers
            | OperandAccess::TensorMaps { .. }
            | OperandAccess::Limbs(_) => types.a(),
        };
        self.shared_elements * element.size() as u32
    }

    /// Checks the specification itself, at compile time: `const _: () = SPEC.check();`.
    ///
    /// # Panics
    /// Where the numbers contradict each other.
    pub const fn check(&self) {
        assert!(!self.entries.is_empty(), "a kernel has at least one entry");
        assert!(self.max_threads() >= 1 && self.max_threads() <= MAX_THREADS);
        let MinBlocks { narrow, wide } = self.min_blocks_per_sm;
        assert!(wide >= 1 && narrow >= wide, "8-byte elements leave room for no more blocks");
        assert!(
            narrow * self.max_threads() <= MAX_THREADS_PER_SM,
            "an SM holds 2048 threads at most"
        );
        self.check_helpers();
        if let LaunchShape::Grouped { rows, .. } | LaunchShape::Persistent { rows, .. } =
            self.launch
        {
            assert!(rows >= 1, "a group has a row of tiles");
        }
        if let LaunchShape::Grid { block, tile } | LaunchShape::Grouped { block, tile, .. } =
            self.launch
        {
            assert!(block.x >= 1 && block.y >= 1 && tile.m >= 1 && tile.n >= 1);
            // Where TMA loads, some of the threads have nothing else to do.
            let tma = matches!(self.operands, OperandAccess::TensorMaps { .. });
            assert!(
                tma || (tile.m * tile.n).is_multiple_of(block.x * block.y),
                "the threads of a block share its tile evenly"
            );
        }
    }

    /// Whether the kernel has the helpers, the parameters and the tile that its access to operands calls for.
    const fn check_helpers(&self) {
        match self.operands {
            OperandAccess::Pointers => {
                assert!(matches!(self.params, ParamList::Gemm));
                assert!(!self.shares_by_workspace() || self.has(HelperRole::SumRanges));
            }
            OperandAccess::Batched(share) => {
                assert!(matches!(self.params, ParamList::Batched));
                let (threads, elements) = match share {
                    BatchShare::Tile(tile) => {
                        #[expect(
                            clippy::cast_possible_truncation,
                            reason = "an element has 8 bytes at most"
                        )]
                        let bytes = self.entries[0].types.acc().dtype().size() as u32;
                        tile.check(bytes);
                        let own = self.launch.tile();
                        assert!(
                            matches!(own, Some(Tile { m, n }) if m == tile.tile().m && n == tile.tile().n)
                        );
                        (tile.threads(), tile.most_shared(bytes))
                    }
                    BatchShare::Threads => {
                        (crate::batched::THREADS, crate::batched::Partition::MOST_SHARED)
                    }
                    BatchShare::Warps => {
                        (crate::batched_mma::THREADS, crate::batched_mma::MOST_BYTES / 4)
                    }
                    BatchShare::Limbs => {
                        let own = self.launch.tile();
                        let tile = crate::batched_limbs::TILE;
                        assert!(matches!(own, Some(Tile { m, n }) if m == tile.m && n == tile.n));
                        (crate::batched_limbs::THREADS, 0)
                    }
                };
                assert!(matches!(self.launch, LaunchShape::Grouped { .. }));
                assert!(self.max_threads() == threads && self.shared_elements >= elements);
                assert!(!self.split_k.is_possible(), "a product has one block a tile");
            }
            OperandAccess::TensorMaps { cluster, batched, .. } => {
                assert!(matches!(self.params, ParamList::Tma | ParamList::TmaSimt));
                assert!(cluster >= 1 && self.launch.tile().is_some());
                assert!(!self.row_groups || batched && matches!(self.params, ParamList::Tma));
                let persistent = matches!(self.launch, LaunchShape::Persistent { .. });
                assert!(
                    !batched || persistent && cluster == 1,
                    "blocks go from product to product"
                );
                assert!(self.has(HelperRole::Pad));
                self.check_sums();
            }
            OperandAccess::Limbs(limbs) => {
                assert!(matches!(self.params, ParamList::Limbs));
                assert!(
                    self.has(HelperRole::RowExponents) != matches!(limbs, Limbs::TwoF16),
                    "the rows of two limbs are scaled as they are split"
                );
                assert!(self.has(HelperRole::SplitKMajor) && self.has(HelperRole::SplitMnMajor));
                assert!(self.has(HelperRole::Fallback));
                assert!(!self.shares_by_workspace() || self.has(HelperRole::SumLimbRanges));
            }
        }
        assert!(
            !self.split_k.is_possible() || !matches!(self.numerics, Numerics::Chain),
            "blocks that share k have an accumulator each"
        );
        if let KSharing::Cluster { unit } = self.split_k {
            assert!(unit >= 1 && matches!(self.launch, LaunchShape::Grouped { .. }));
            assert!(self.cluster() == 1, "a cluster shares k or a tile of B");
        }
    }

    /// Whether a kernel with tensor maps whose ranges of k go to a workspace has, for each type of C, what
    /// adds them and an entry that writes sums unrounded.
    const fn check_sums(&self) {
        if !self.shares_by_workspace() {
            return;
        }
        let mut at = 0;
        while at < self.entries.len() {
            let types = self.entries[at].types;
            assert!(self.has(HelperRole::sum_of_ranges(types.c())));
            let (mut unrounded, mut other) = (false, 0);
            while other < self.entries.len() {
                let it = self.entries[other].types;
                unrounded |= it.a() as u8 == types.a() as u8
                    && it.b() as u8 == types.b() as u8
                    && it.c() as u8 == types.acc().dtype() as u8;
                other += 1;
            }
            assert!(unrounded, "ranges of k are summed without rounding");
            at += 1;
        }
    }

    const fn shares_by_workspace(&self) -> bool {
        matches!(self.split_k, KSharing::Workspace { .. })
    }

    const fn has(&self, role: HelperRole) -> bool {
        let mut at = 0;
        while at < self.helpers.len() {
            if self.helpers[at].role as u8 == role as u8 {
                return true;
            }
            at += 1;
        }
        false
    }

    /// The symbol for an element type.
    ///
    /// # Errors
    /// [`Unsupported::Types`].
    pub fn entry(&self, types: Types) -> Result<&'static str, Unsupported> {
        self.entries
            .iter()
            .find(|entry| entry.types == types)
            .map(|entry| entry.symbol)
            .ok_or(Unsupported::Types { types })
    }

    /// Threads of a block for a problem, along x and y.
    ///
    /// # Errors
    /// [`Unsupported::SingleBlock`].
    pub fn block(&self, m: usize, n: usize) -> Result<Block, Unsupported> {
        match self.launch {
            LaunchShape::Grid { block, .. } | LaunchShape::Grouped { block, .. } => Ok(block),
            LaunchShape::Persistent { threads, .. } => Ok(Block { x: threads, y: 1 }),
            LaunchShape::SingleBlock => {
                let limit = MAX_THREADS;
                let refused = Unsupported::SingleBlock { m, n, limit };
                let x = u32::try_from(n).map_err(|_| refused)?;
                let y = u32::try_from(m).map_err(|_| refused)?;
                match x.checked_mul(y) {
                    Some(threads) if threads <= limit => Ok(Block { x, y }),
                    _ => Err(refused),
                }
            }
        }
    }

    /// Blocks of a launch for a problem with `m, n >= 1`. Of a [`LaunchShape::Persistent`] kernel
    /// these are the tiles; no launch has more blocks than run at the same time.
    ///
    /// # Errors
    /// [`Unsupported::TooLarge`] where no grid covers C.
    pub fn grid(&self, m: usize, n: usize) -> Result<Grid, Unsupported> {
        let Some(tile) = self.launch.tile() else {
            return Ok(Grid { x: 1, y: 1, z: 1 });
        };
        let refused = Unsupported::TooLarge { m, n, k: 0 };
        let m = u32::try_from(m).map_err(|_| refused)?;
        let n = u32::try_from(n).map_err(|_| refused)?;
        let x = ceil_div(n, tile.n);
        let rows = ceil_div(m, tile.m);
        if let LaunchShape::Grouped { .. } | LaunchShape::Persistent { .. } = self.launch {
            let blocks = x.checked_mul(rows).filter(|&blocks| i32::try_from(blocks).is_ok());
            return blocks.map(|x| Grid { x, y: 1, z: 1 }).ok_or(refused);
        }
        let z = ceil_div(rows, MAX_GRID_YZ);
        if z > MAX_GRID_YZ || i32::try_from(x).is_err() {
            return Err(refused);
        }
        Ok(Grid { x, y: ceil_div(rows, z.max(1)), z })
    }

    /// Blocks of a cluster; one where blocks run by themselves.
    #[must_use]
    pub const fn cluster(&self) -> u32 {
        match self.operands {
            OperandAccess::Pointers | OperandAccess::Batched(_) | OperandAccess::Limbs(_) => 1,
            OperandAccess::TensorMaps { cluster, .. } => cluster,
        }
    }

    /// Blocks of a launch on a device with `multiprocessors` SMs: [`KernelSpec::grid`]; of a
    /// [`LaunchShape::Persistent`] kernel whole clusters, no more than run at the same time with the
    /// promised blocks an SM.
    ///
    /// # Errors
    /// [`Unsupported::TooLarge`] where no grid covers C.
    pub fn launch_grid(
        &self,
        m: usize,
        n: usize,
        multiprocessors: u32,
    ) -> Result<Grid, Unsupported> {
        let mut grid = self.grid(m, n)?;
        if let LaunchShape::Persistent { tile, .. } = self.launch {
            let refused = Unsupported::TooLarge { m, n, k: 0 };
            let m = u32::try_from(m).map_err(|_| refused)?;
            let n = u32::try_from(n).map_err(|_| refused)?;
            let cluster = self.cluster();
            let columns = ceil_div(n, tile.n);
            let rows = ceil_div(m, tile.m).next_multiple_of(cluster);
            let resident = multiprocessors * self.min_blocks_per_sm.narrow;
            let most = (resident / cluster).max(1) * cluster;
            grid.x = columns.saturating_mul(rows).min(most);
        }
        Ok(grid)
    }

    /// Whether the kernel can run a problem on a device, and if not, why.
    ///
    /// # Errors
    /// The first [`Unsupported`] that applies.
    pub fn supports<T: GemmTypes>(
        &self,
        problem: &Problem<T>,
        limits: &DeviceLimits,
    ) -> Result<(), Unsupported> {
        self.entry(T::TYPES)?;
        if !problem.batch.is_one() {
            return Err(Unsupported::Batch { count: problem.batch.count });
        }
        let ordered: &[Operand] = match self.reads_any_order() {
            true => &[Operand::C],
            false => &[Operand::A, Operand::B, Operand::C],
        };
        for &operand in ordered {
            if problem.layout(operand).order != Order::RowMajor {
                return Err(Unsupported::Order { operand });
            }
        }
        let needs = self.arch.compute_capability();
        if !self.arch.runs_on(limits.compute_capability) {
            return Err(Unsupported::ComputeCapability { needs, has: limits.compute_capability });
        }
        let Problem { m, n, k, .. } = *problem;
        if k < self.least_k() {
            return Err(Unsupported::Steps { k, least: self.least_k() });
        }
        if matches!(self.operands, OperandAccess::Limbs(_)) && k > crate::split::MOST_K {
            return Err(Unsupported::TooLarge { m, n, k });
        }
        let block = self.block(m, n)?;
        let threads = block.x * block.y;
        if threads > limits.max_threads_per_block {
            return Err(Unsupported::Threads { needs: threads, has: limits.max_threads_per_block });
        }
        let shared = self.shared_bytes(T::TYPES);
        if shared > limits.max_shared_bytes {
            return Err(Unsupported::SharedMemory { needs: shared, has: limits.max_shared_bytes });
        }
        // Sizes reach the kernel as u32, and tile coordinates may pass them by less than a tile.
        let fits = |size: usize| size <= i32::MAX as usize;
        if !(fits(m) && fits(n) && fits(k)) {
            return Err(Unsupported::TooLarge { m, n, k });
        }
        self.grid(m, n).map(|_| ()).map_err(|_| Unsupported::TooLarge { m, n, k })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Layout, Tile};

    const GRID: KernelSpec = KernelSpec {
        id: "grid",
        about: "",
        origin: "",
        arch: Arch::Sm70,
        entries: &[Entry { types: Types::F32, symbol: "grid_f32" }],
        launch: LaunchShape::Grid { block: Block { x: 2, y: 2 }, tile: Tile { m: 2, n: 2 } },
        shared_elements: 8,
        min_blocks_per_sm: MinBlocks { narrow: 512, wide: 256 },
        ..KernelSpec::PLAIN
    };
    const SINGLE: KernelSpec = KernelSpec { launch: LaunchShape::SingleBlock, ..GRID };
    const LIMITS: DeviceLimits = DeviceLimits {
        compute_capability: (9, 0),
        max_threads_per_block: 1024,
        max_shared_bytes: 48 * 1024,
        multiprocessors: 132,
    };

    #[test]
    fn registers_are_what_the_promised_blocks_leave() {
        assert_eq!(GRID.max_registers(Types::F32), 32);
        assert_eq!(GRID.max_registers(Types::F64), 64);
        let alone = KernelSpec { min_blocks_per_sm: MinBlocks::same(1), ..GRID };
        assert_eq!(alone.max_registers(Types::I32), 255);
    }

    #[test]
    fn grids_round_up_and_cover_every_row() {
        let grid = GRID.grid(5, 3).unwrap();
        assert_eq!(grid, Grid { x: 2, y: 3, z: 1 });
        for m in [1, 131_070, 131_071, 262_141, 1_000_003, 2_147_483_647] {
            let grid = GRID.grid(m, 1).unwrap();
            assert!(grid.y <= MAX_GRID_YZ && grid.z <= MAX_GRID_YZ);
            assert!(u64::from(grid.y) * u64::from(grid.z) * 2 >= m as u64, "{m}: {grid:?}");
            assert!(u64::from(grid.y) * u64::from(grid.z - 1) * 2 < m as u64, "{m}: {grid:?}");
        }
    }

    #[test]
    fn grouped_grids_are_one_row_of_blocks_and_refuse_what_is_longer() {
        let LaunchShape::Grid { block, tile } = GRID.launch else { unreachable!() };
        let launch = LaunchShape::Grouped { block, tile, rows: 8 };
        let grouped = KernelSpec { launch, ..GRID };
        grouped.check();
        assert_eq!(grouped.grid(5, 3), Ok(Grid { x: 6, y: 1, z: 1 }));
        assert_eq!(grouped.block(5, 3), Ok(block));
        let most = i32::MAX as usize;
        assert_eq!(grouped.grid(2, most), Ok(Grid { x: 1 << 30, y: 1, z: 1 }));
        assert!(matches!(grouped.grid(3, most), Err(Unsupported::TooLarge { .. })));
        assert!(matches!(grouped.grid(most, most), Err(Unsupported::TooLarge { .. })));
    }

    #[test]
    fn one_block_names_its_limit() {
        assert_eq!(SINGLE.block(32, 32), Ok(Block { x: 32, y: 32 }));
        assert_eq!(SINGLE.block(1024, 1), Ok(Block { x: 1, y: 1024 }));
        let refused = SINGLE.block(33, 32).unwrap_err();
        assert_eq!(refused, Unsupported::SingleBlock { m: 33, n: 32, limit: 1024 });
        extern crate std;
        let text = std::string::ToString::to_string(&refused);
        assert!(text.contains("1024") && text.contains("1056"), "{text}");
        assert!(SINGLE.block(usize::MAX, usize::MAX).is_err());
    }

    #[test]
    fn refusals_say_what_is_missing() {
        let problem = Problem::<f32>::new(4, 4, 4);
        assert_eq!(GRID.supports(&problem, &LIMITS), Ok(()));
        assert_eq!(
            GRID.supports(&Problem::<f64>::new(4, 4, 4), &LIMITS),
            Err(Unsupported::Types { types: Types::F64 })
        );
        let fortran = Problem { b: Layout::col_major(4), ..problem };
        assert_eq!(
            GRID.supports(&fortran, &LIMITS),
            Err(Unsupported::Order { operand: Operand::B })
        );
        let old = DeviceLimits { compute_capability: (6, 1), ..LIMITS };
        assert_eq!(
            GRID.supports(&problem, &old),
            Err(Unsupported::ComputeCapability { needs: (7, 0), has: (6, 1) })
        );
        let small = DeviceLimits { max_shared_bytes: 16, ..LIMITS };
        assert_eq!(
            GRID.supports(&problem, &small),
            Err(Unsupported::SharedMemory { needs: 32, has: 16 })
        );
        let long = Problem::<f32>::new(1, 1, 1 << 31);
        assert!(matches!(GRID.supports(&long, &LIMITS), Err(Unsupported::TooLarge { .. })));
    }
}
