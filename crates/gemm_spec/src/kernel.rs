//! What the host must know to launch a kernel: the only copy of these numbers.

use core::fmt;

use crate::index::ceil_div;
use crate::split::Limbs;
use crate::split_k::SplitK;
use crate::{AccType, GemmTypes, Operand, Order, Problem, Types};

/// The PTX module that a kernel is built into, named by the least GPU that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// Volta and everything after it.
    Sm70,
    /// Ampere and everything after it: asynchronous copies to shared memory.
    Sm80,
    /// Hopper alone: warpgroup products, bulk copies. Its instructions run on no other GPU.
    Sm90a,
}

impl Arch {
    /// Every module, in the order in which they are built.
    pub const ALL: [Self; 3] = [Self::Sm70, Self::Sm80, Self::Sm90a];

    /// The `target-cpu` of the device compiler, which is also the file stem of the PTX.
    #[must_use]
    pub const fn target_cpu(self) -> &'static str {
        match self {
            Self::Sm70 => "sm_70",
            Self::Sm80 => "sm_80",
            Self::Sm90a => "sm_90a",
        }
    }

    /// Least compute capability that the module runs on.
    #[must_use]
    pub const fn compute_capability(self) -> (u32, u32) {
        match self {
            Self::Sm70 => (7, 0),
            Self::Sm80 => (8, 0),
            Self::Sm90a => (9, 0),
        }
    }

    /// Whether GPUs of a compute capability run the module.
    #[must_use]
    pub fn runs_on(self, compute_capability: (u32, u32)) -> bool {
        match self {
            Self::Sm70 | Self::Sm80 => compute_capability >= self.compute_capability(),
            Self::Sm90a => compute_capability == self.compute_capability(),
        }
    }
}

/// How a launch covers C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchShape {
    /// A grid of equal blocks; each owns a tile of C.
    Grid {
        /// Threads in a block.
        block: Block,
        /// Elements of C that a block owns.
        tile: Tile,
    },
    /// A grid along x alone of equal blocks, whose tiles follow each other down a group of rows of
    /// tiles before they go on to the next column, see [`crate::index::grouped_tile`].
    Grouped {
        /// Threads in a block.
        block: Block,
        /// Elements of C that a block owns.
        tile: Tile,
        /// Rows of tiles in a group.
        rows: u32,
    },
    /// As many blocks along x as the device has SMs, or as there are tiles if they are
    /// fewer; each goes from tile to tile, in the order of [`crate::index::grouped_tile`].
    Persistent {
        /// Threads in a block.
        threads: u32,
        /// Elements of C of a block at a time.
        tile: Tile,
        /// Rows of tiles in a group.
        rows: u32,
    },
    /// One block whose threads are the elements of C: n along x, m along y.
    SingleBlock,
}

impl LaunchShape {
    /// The elements of C that a block owns; none where the block follows the problem.
    #[must_use]
    pub const fn tile(&self) -> Option<Tile> {
        match *self {
            Self::Grid { tile, .. }
            | Self::Grouped { tile, .. }
            | Self::Persistent { tile, .. } => Some(tile),
            Self::SingleBlock => None,
        }
    }
}

/// Threads of a block along x and y.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Along the columns of C.
    pub x: u32,
    /// Along the rows of C.
    pub y: u32,
}

/// Rows and columns of C that one block owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// Rows of C.
    pub m: u32,
    /// Columns of C.
    pub n: u32,
}

/// Blocks of a launch along x, y and z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Along the columns of C.
    pub x: u32,
    /// Along the rows of C.
    pub y: u32,
    /// Further rows of blocks, see [`crate::index::block_row`].
    pub z: u32,
}

/// One entry point of a kernel: the symbol for the types of one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The types that it multiplies.
    pub types: Types,
    /// Name of the `.entry` in the PTX.
    pub symbol: &'static str,
}

/// Type of a kernel parameter as PTX declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamType {
    /// 32-bit integer.
    U32,
    /// 64-bit integer or pointer.
    U64,
    /// A number of the accumulator type: alpha or beta.
    Element,
    /// The 128 bytes that describe a tensor to TMA, by value.
    TensorMap,
}

impl ParamType {
    /// What the place of a tensor map is a multiple of, in bytes.
    pub const TENSOR_MAP_ALIGN: u32 = 64;

    /// How PTX declares a parameter of this type in an entry whose accumulators are of that type.
    #[must_use]
    pub const fn ptx(self, acc: AccType) -> &'static str {
        match self {
            Self::U32 => ".u32",
            Self::U64 => ".u64",
            Self::Element => match acc {
                AccType::F32 => ".f32",
                AccType::F64 => ".f64",
                AccType::I32 => ".u32",
            },
            Self::TensorMap => ".align 64 .b8[128]",
        }
    }

    /// Bytes of such a parameter.
    #[must_use]
    pub const fn size(self, acc: AccType) -> usize {
        match self {
            Self::U32 => 4,
            Self::U64 => 8,
            Self::Element => acc.dtype().size(),
            Self::TensorMap => 128,
        }
    }
}

/// One parameter of an entry point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name in the kernel's source.
    pub name: &'static str,
    /// Its type.
    pub ty: ParamType,
}

pub(crate) const fn param(name: &'static str, ty: ParamType) -> Param {
    Param { name, ty }
}

/// The parameters of every GEMM kernel, in order. Sizes are 32-bit, leading dimensions and hence
/// all offsets 64-bit, so products above 2^31 elements are addressed right.
pub const GEMM_PARAMS: [Param; 11] = [
    param("m", ParamType::U32),
    param("n", ParamType::U32),
    param("k", ParamType::U32),
    param("alpha", ParamType::Element),
    param("a", ParamType::U64),
    param("lda", ParamType::U64),
    param("b", ParamType::U64),
    param("ldb", ParamType::U64),
    param("beta", ParamType::Element),
    param("c", ParamType::U64),
    param("ldc", ParamType::U64),
];

/// Bytes of shared memory that every device gives a block for the asking. For more, up to the
/// device's limit, a kernel is told so before its launch.
pub const SHARED_WITHOUT_OPT_IN: u32 = 48 * 1024;

/// What a device allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Threads in one block.
    pub max_threads_per_block: u32,
    /// Shared memory of one block, in bytes; above [`SHARED_WITHOUT_OPT_IN`] a launch opts in.
    pub max_shared_bytes: u32,
    /// Streaming SMs (SMs).
    pub multiprocessors: u32,
}

/// Why a kernel cannot run a problem on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// The kernel has no entry for the types of the product.
    Types {
        /// The types asked for.
        types: Types,
    },
    /// The kernel reads row-major operands only.
    Order {
        /// The operand that is column-major.
        operand: Operand,
    },
    /// C has more elements than one block has threads.
    SingleBlock {
        /// Rows of C.
        m: usize,
        /// Columns of C.
        n: usize,
        /// Threads in a block.
        limit: u32,
    },
    /// A size does not fit the kernel's 32-bit sizes or the grid.
    TooLarge {
        /// Rows of C.
        m: usize,
        /// Columns of C.
        n: usize,
        /// Columns of A.
        k: usize,
    },
    /// k is so small that the kernel's error exceeds the bound of f32.
    Steps {
        /// Columns of A.
        k: usize,
        /// The least k that the kernel takes.
        least: usize,
    },
    /// The device does not run the kernel's module: it is older, or the module is for one kind alone.
    ComputeCapability {
        /// What the module needs.
        needs: (u32, u32),
        /// What the device has.
        has: (u32, u32),
    },
    /// A block needs more threads than the device allows.
    Threads {
        /// What the kernel needs.
        needs: u32,
        /// What the device has.
        has: u32,
    },
    /// A block needs more shared memory than the device allows.
    SharedMemory {
        /// What the kernel needs, in bytes.
        needs: u32,
        /// What the device has, in bytes.
        has: u32,
    },
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Types { types } => write!(f, "has no {types} entry"),
            Self::Order { operand } => write!(f, "reads {operand} in row-major order only"),
            Self::SingleBlock { m, n, limit } => write!(
                f,
                "runs in one block of {limit} threads at most, one per element of C; \
                 {m} x {n} needs {}",
                m as u128 * n as u128
            ),
            Self::TooLarge { m, n, k } => {
                write!(f, "m = {m}, n = {n}, k = {k} pass the sizes that one launch can cover")
            }
            Self::Steps { k, least } => {
                write!(f, "keeps to the error bound of f32 from k = {least} on, here k is {k}")
            }
            Self::ComputeCapability { needs, has } => write!(
                f,
                "needs compute capability {}.{}, the device has {}.{}",
                needs.0, needs.1, has.0, has.1
            ),
            Self::Threads { needs, has } => {
                write!(f, "needs {needs} threads a block, the device has {has}")
            }
            Self::SharedMemory { needs, has } => {
                write!(f, "needs {needs} bytes of shared memory a block, the device has {has}")
            }
        }
    }
}

impl core::error::Error for Unsupported {}

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
    /// What a product takes.
    pub scheme: Scheme,
}

/// What a product takes: one launch, or several with memory of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// One launch of an entry with [`GEMM_PARAMS`]. Each element is one chain of multiply-adds over k
    /// in order.
    Chain,
    /// The operands are split first, see [`crate::split`].
    Split(SplitEntries),
    /// Operands of 16 bits reach the tensor cores by tensor maps, see [`crate::tensor`].
    Tensor(TensorEntries),
    /// As [`Scheme::Chain`], but operands reach the threads by tensor maps: a launch of an entry with
    /// [`crate::tensor::BOXES_PARAMS`].
    Boxes(TensorEntries),
    /// Ranges of k are summed apart and the sums added afterwards, see [`crate::split_k`].
    SplitK(SplitK),
}

/// The entry that a product by tensor maps launches before its own if TMA cannot address an operand in
/// place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorEntries {
    /// Copies an operand to rows of another pitch.
    pub pad: HelperEntry,
    /// Blocks of a cluster, one below the other, that share their tiles of B: each loads its part.
    pub cluster: u32,
}

/// The entries that a product of split operands launches before and after its own, and their threads
/// in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitEntries {
    /// What operands are split into.
    pub limbs: Limbs,
    /// Products of limbs that replace one product of the operands.
    pub products: u32,
    /// Splits a K-major operand.
    pub k_major: HelperEntry,
    /// Finds the largest magnitudes of the rows of an MN-major operand, where they scale the rows.
    pub row_amax: Option<HelperEntry>,
    /// Splits an MN-major operand.
    pub mn_major: HelperEntry,
    /// Examines samples of C for lost precision, where the range of limbs is limited.
    pub probe: Option<HelperEntry>,
    /// Multiplies the operands themselves where splitting cannot hold them.
    pub fallback: HelperEntry,
}

/// An entry that takes part in a product beside the kernel's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelperEntry {
    /// Its name in the PTX.
    pub symbol: &'static str,
    /// Threads in a block.
    pub block: Block,
    /// Blocks that must fit on an SM together.
    pub min_blocks: u32,
    /// Bytes of shared memory in a block.
    pub shared_bytes: u32,
    /// Its parameters; alpha and beta are f32.
    pub params: &'static [Param],
}

/// One entry of a module as its launches and the assembler see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryForm {
    /// Its name in the PTX.
    pub symbol: &'static str,
    /// The type of its accumulators, which [`ParamType::Element`] stands for.
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
    const fn form(&self) -> EntryForm {
        EntryForm {
            symbol: self.symbol,
            acc: AccType::F32,
            params: self.params,
            block: self.block,
            min_blocks: self.min_blocks,
            shared_bytes: self.shared_bytes,
        }
    }
}

impl SplitEntries {
    const fn all(&self) -> [Option<HelperEntry>; 5] {
        [Some(self.k_major), self.row_amax, Some(self.mn_major), self.probe, Some(self.fallback)]
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
            params: match self.scheme {
                Scheme::Chain | Scheme::SplitK(_) => &GEMM_PARAMS,
                Scheme::Split(_) => &crate::split::MULTIPLY_PARAMS,
                Scheme::Tensor(_) => &crate::tensor::TENSOR_PARAMS,
                Scheme::Boxes(_) => &crate::tensor::BOXES_PARAMS,
            },
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
        let helpers = match self.scheme {
            Scheme::Chain => [None; 5],
            Scheme::Split(entries) => entries.all(),
            Scheme::Tensor(entries) | Scheme::Boxes(entries) => {
                [Some(entries.pad), None, None, None, None]
            }
            Scheme::SplitK(split) => [Some(split.sum), None, None, None, None],
        };
        own.chain(helpers.into_iter().flatten().map(|helper| helper.form()))
    }

    /// Whether each element of C is one chain of multiply-adds over k in order, so that its bits are
    /// those of every other such implementation.
    #[must_use]
    pub const fn is_chain(&self) -> bool {
        matches!(self.scheme, Scheme::Chain | Scheme::Boxes(_))
    }

    /// Whether the kernel reads A and B in either order; of others they are row-major.
    #[must_use]
    pub const fn reads_any_order(&self) -> bool {
        matches!(self.scheme, Scheme::Split(_) | Scheme::Tensor(_))
    }

    /// Fewest k elements that the kernel takes.
    #[must_use]
    pub const fn least_k(&self) -> usize {
        match self.scheme {
            Scheme::Chain | Scheme::SplitK(_) | Scheme::Tensor(_) | Scheme::Boxes(_) => 0,
            Scheme::Split(_) => crate::split::LEAST_K,
        }
    }

    /// Most bytes of device memory that a product takes besides its operands.
    #[must_use]
    pub fn workspace_bytes<T: GemmTypes>(&self, problem: &Problem<T>) -> u64 {
        let Problem { m, n, k, .. } = *problem;
        match self.scheme {
            Scheme::Chain => 0,
            Scheme::SplitK(_) => crate::split_k::most_bytes(m, n, k),
            Scheme::Split(entries) => {
                let size = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
                crate::split::Workspace::new(entries.limbs, size(m), size(n), size(k)).bytes
            }
            Scheme::Tensor(_) | Scheme::Boxes(_) => {
                let bytes = |operand| crate::tensor::copy_bytes(problem, operand);
                bytes(Operand::A) + bytes(Operand::B)
            }
        }
    }

    /// Bytes of shared memory in a block.
    #[must_use]
    pub const fn shared_bytes(&self, types: Types) -> u32 {
        self.shared_elements * types.a().size() as u32
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
        if let LaunchShape::Grouped { rows, .. } | LaunchShape::Persistent { rows, .. } =
            self.launch
        {
            assert!(rows >= 1, "a group has a row of tiles");
        }
        if let LaunchShape::Grid { block, tile } | LaunchShape::Grouped { block, tile, .. } =
            self.launch
        {
            assert!(block.x >= 1 && block.y >= 1 && tile.m >= 1 && tile.n >= 1);
            assert!(
                (tile.m * tile.n).is_multiple_of(block.x * block.y),
                "the threads of a block share its tile evenly"
            );
        }
    }

    /// The symbol for the types of a product.
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
    /// these are the tiles; no launch has more blocks than the device has SMs.
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
        match self.scheme {
            Scheme::Tensor(entries) => entries.cluster,
            _ => 1,
        }
    }

    /// Blocks of a launch on a device with `multiprocessors` SMs: [`KernelSpec::grid`]; of a
    /// [`LaunchShape::Persistent`] kernel whole clusters, no more than run at the same time.
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
            let cluster = self.cluster();
            let columns = ceil_div(n as u32, tile.n);
            let rows = ceil_div(m as u32, tile.m).next_multiple_of(cluster);
            let most = (multiprocessors / cluster).max(1) * cluster;
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
        if matches!(self.scheme, Scheme::Split(_)) && k > crate::split::MOST_K {
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
    use crate::Layout;

    const GRID: KernelSpec = KernelSpec {
        id: "grid",
        about: "",
        origin: "",
        arch: Arch::Sm70,
        entries: &[Entry { types: Types::F32, symbol: "grid_f32" }],
        launch: LaunchShape::Grid { block: Block { x: 2, y: 2 }, tile: Tile { m: 2, n: 2 } },
        shared_elements: 8,
        min_blocks_per_sm: MinBlocks { narrow: 512, wide: 256 },
        scheme: Scheme::Chain,
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
