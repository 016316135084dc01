//! The launches of a product whose operands the copy engine cuts from where they lie.

use cuda_lazy::{DataType, Driver, L2Promotion, Swizzle, TensorMap, TensorMapDesc};
use gemm_spec::tensor::{
    ALIGNMENT, BLOCK_K, F32_BLOCK_K, copy_bytes, lines, major_flags, padded_pitch, tma_addressable,
};
use gemm_spec::warpgroup::{INSTRUCTION_M, ROW_BYTES};
use gemm_spec::{
    DType, Element as _, Grid, KernelSpec, Layout, Operand, Order, Problem, Scheme, TensorEntries,
    Tile,
};

use super::arguments::{Boxes, Pad, TensorProduct};
use super::entry::{Addresses, EntryLaunch, size};
use super::launch::Queue;
use crate::element::GemmTypes;
use crate::error::Error;

/// Blocks of the helper that copies, for each multiprocessor.
const PAD_BLOCKS: u32 = 8;

/// Copies what the engine cannot reach, then multiplies.
///
/// # Safety
/// The addresses are those of operands that are valid for the problem; C overlaps neither factor and
/// nobody else uses it. The kernel supports the problem.
pub(super) unsafe fn launch<T: GemmTypes>(
    queue: &Queue<'_>,
    spec: &KernelSpec,
    entries: &TensorEntries,
    problem: &Problem<T>,
    addresses: Addresses,
) -> Result<(), Error> {
    let [a_bytes, b_bytes] = [Operand::A, Operand::B].map(|operand| copy_bytes(problem, operand));
    let product = Product { queue, spec, entries, problem };
    if a_bytes + b_bytes == 0 {
        // SAFETY: the caller's promises; both factors are within reach.
        return unsafe {
            let a = Reached { address: addresses.a, pitch: problem.a.ld };
            let b = Reached { address: addresses.b, pitch: problem.b.ld };
            product.multiply(a, b, addresses.c)
        };
    }
    queue.with_workspace(a_bytes + b_bytes, |at| {
        // SAFETY: the caller's promises; the workspace has room for both copies, which this stream alone
        // uses, in order.
        unsafe {
            let a = product.reach(Operand::A, addresses.a, at, a_bytes)?;
            let b = product.reach(Operand::B, addresses.b, at + a_bytes, b_bytes)?;
            product.multiply(a, b, addresses.c)
        }
    })
}

/// A factor within the engine's reach.
#[derive(Clone, Copy)]
struct Reached {
    address: u64,
    /// From one line to the next, in elements.
    pitch: usize,
}

/// One product.
struct Product<'a, T: GemmTypes> {
    queue: &'a Queue<'a>,
    spec: &'a KernelSpec,
    entries: &'a TensorEntries,
    problem: &'a Problem<T>,
}

impl<T: GemmTypes> Product<'_, T> {
    /// A factor within the engine's reach: in place, or in a copy of so many bytes at `to`.
    ///
    /// # Safety
    /// The factor at `from` is valid for the problem; `to` has room for the copy.
    unsafe fn reach(
        &self,
        operand: Operand,
        from: u64,
        to: u64,
        bytes: u64,
    ) -> Result<Reached, Error> {
        let layout = self.problem.layout(operand);
        if bytes == 0 {
            return Ok(Reached { address: from, pitch: layout.ld });
        }
        let (count, width) = lines(self.problem, operand);
        let bytes_each = T::TYPES.of(operand).size();
        let pitch = padded_pitch(width, bytes_each);
        // The helper counts in 16 bits.
        let halves = bytes_each / 2;
        let rows = size(count);
        let x = rows.min(self.queue.gpu.limits().multiprocessors * PAD_BLOCKS);
        let launch = EntryLaunch::helper(self.spec, &self.entries.pad, Grid { x, y: 1, z: 1 });
        let mut arguments = Pad {
            rows,
            width: size(width * halves),
            from,
            ld: (layout.ld * halves) as u64,
            to,
            pitch: (pitch * halves) as u64,
        };
        // SAFETY: the entry's obligations are the caller's promises; `copy_bytes` counts whole pitches.
        unsafe { self.queue.launch(&launch, &mut arguments.addresses())? };
        Ok(Reached { address: to, pitch })
    }

    /// Launches the kernel itself.
    ///
    /// # Safety
    /// They and C are valid for the problem, and nobody else uses C.
    unsafe fn multiply(&self, a: Reached, b: Reached, c: u64) -> Result<(), Error> {
        let Some(tile) = self.spec.launch.tile() else {
            unreachable!("a kernel that works on tiles has one");
        };
        let (driver, problem, cluster) =
            (self.queue.gpu.context().driver(), self.problem, self.spec.cluster());
        let operands = Operands { driver, problem, tile, cluster, a, b, c };
        // SAFETY: the caller's promises.
        unsafe {
            match self.spec.scheme {
                Scheme::Boxes(_) => self.by_threads(&operands),
                _ => self.by_tensor_cores(&operands),
            }
        }
    }

    /// Launches a kernel that multiplies f32 by multiply-adds.
    ///
    /// # Safety
    /// As [`Product::multiply`].
    unsafe fn by_threads(&self, operands: &Operands<'_, T>) -> Result<(), Error> {
        let (spec, problem) = (self.spec, self.problem);
        let launch = EntryLaunch::own(self.queue, spec, problem)?;
        let Problem { m, n, k, .. } = *problem;
        let Tile { m: rows, n: cols } = operands.tile;
        let (a_box, b_box) = ([F32_BLOCK_K, rows], [cols, F32_BLOCK_K]);
        let mut arguments = Boxes::<T> {
            a_map: operands.map(T::TYPES.a(), operands.a, (m, k), (a_box, Swizzle::B128))?,
            b_map: operands.map(T::TYPES.b(), operands.b, (k, n), (b_box, Swizzle::None))?,
            m: size(m),
            n: size(n),
            k: size(problem.effective_k()),
            alpha: problem.alpha,
            beta: problem.beta,
            c: operands.c,
            ldc: problem.c.ld as u64,
        };
        // SAFETY: the entry's obligations: (1) the maps are made for this problem and tile, and the rest
        // is the caller's promise; (2) block, grid and shared memory are the spec's.
        unsafe { self.queue.launch(&launch, &mut arguments.addresses()) }
    }

    /// Launches a kernel that multiplies 16-bit operands on the tensor cores.
    ///
    /// # Safety
    /// As [`Product::multiply`].
    unsafe fn by_tensor_cores(&self, operands: &Operands<'_, T>) -> Result<(), Error> {
        let (spec, problem) = (self.spec, self.problem);
        let launch = EntryLaunch::own(self.queue, spec, problem)?;
        let a_map = operands.factor(Operand::A)?;
        let b_map = operands.factor(Operand::B)?;
        // A line that ends within 16 bytes is not for the engine to store: of an odd width it was seen
        // to write the element behind, too.
        let size_of_c = T::TYPES.c().size();
        let whole = (problem.n as u64 * size_of_c as u64).is_multiple_of(ALIGNMENT);
        let zero = T::Acc::ZERO;
        let tma_store =
            problem.beta == zero && tma_addressable(operands.c, problem.c, size_of_c) && whole;
        // Where threads store C themselves its map is not used; any will do.
        let c_map = if tma_store { operands.result()? } else { a_map };
        let mut arguments = TensorProduct::<T> {
            a_map,
            b_map,
            c_map,
            m: size(problem.m),
            n: size(problem.n),
            k: size(problem.effective_k()),
            alpha: problem.alpha,
            major_flags: major_flags(problem),
            beta: problem.beta,
            c: operands.c,
            ldc: problem.c.ld as u64,
            tma_store: u32::from(tma_store),
        };
        // SAFETY: the entry's obligations: (1) the maps are made for this problem and tile, and the rest
        // is the caller's promise; (2) block and shared memory are the spec's, the blocks no more than
        // the tiles.
        unsafe { self.queue.launch(&launch, &mut arguments.addresses()) }
    }
}

/// The operands of a launch, of which it makes tensor maps.
struct Operands<'a, T: GemmTypes> {
    driver: &'a Driver,
    problem: &'a Problem<T>,
    tile: Tile,
    /// Blocks that share a tile of B.
    cluster: u32,
    a: Reached,
    b: Reached,
    c: u64,
}

impl<T: GemmTypes> Operands<'_, T> {
    /// The map of A or B.
    fn factor(&self, operand: Operand) -> Result<TensorMap, Error> {
        let (count, width) = lines(self.problem, operand);
        let (along_k, side, reached) = match operand {
            Operand::A => (Order::RowMajor, self.tile.m, self.a),
            Operand::B | Operand::C => (Order::ColMajor, self.tile.n / self.cluster, self.b),
        };
        let layout = self.problem.layout(operand);
        let lines_of_box = if layout.order == along_k { side } else { BLOCK_K };
        let dtype = T::TYPES.of(operand);
        let box_dims = [ROW_BYTES / dtype.size() as u32, lines_of_box];
        self.map(dtype, reached, (count, width), (box_dims, Swizzle::B128))
    }

    /// The map of C.
    fn result(&self) -> Result<TensorMap, Error> {
        let Problem { m, n, c: Layout { ld, .. }, .. } = *self.problem;
        let dtype = T::TYPES.c();
        let box_dims = [ROW_BYTES / dtype.size() as u32, INSTRUCTION_M];
        let reached = Reached { address: self.c, pitch: ld };
        self.map(dtype, reached, (m, n), (box_dims, Swizzle::B128))
    }

    /// The map of so many lines of so many elements, with the box of a copy, elements of a line before
    /// lines, and how it lies in shared memory.
    fn map(
        &self,
        dtype: DType,
        Reached { address, pitch }: Reached,
        (count, width): (usize, usize),
        (box_dims, swizzle): ([u32; 2], Swizzle),
    ) -> Result<TensorMap, Error> {
        let data_type = match dtype {
            DType::F32 => DataType::F32,
            DType::F64 => DataType::F64,
            DType::I32 => DataType::I32,
            // As bytes: the map moves elements, and knows their size alone.
            DType::I8 => DataType::U8,
            DType::F16 => DataType::F16,
            DType::BF16 => DataType::Bf16,
        };
        let size = dtype.size() as u64;
        // A factor without elements is never read; its map must be one all the same.
        let dims = [width.max(1) as u64, count.max(1) as u64];
        let strides = [(pitch.max(1) as u64 * size).next_multiple_of(ALIGNMENT)];
        let desc = TensorMapDesc {
            swizzle,
            // Of blocks that share a tile each brings a part: what a miss brings besides is the other's.
            l2_promotion: if self.cluster > 1 { L2Promotion::B256 } else { L2Promotion::None },
            ..TensorMapDesc::new(data_type, address, &dims, &strides, &box_dims)
        };
        self.driver.encode_tiled(&desc).map_err(|error| Error::Cuda {
            during: "describing an operand to the copy engine".to_owned(),
            reason: error.to_string(),
        })
    }
}
