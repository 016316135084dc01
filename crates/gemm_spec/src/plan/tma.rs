//! The launches of a product whose operands TMA loads.

use super::{Arguments, Fused, Launch, Mapped, Old, Planner, Step, pointer, pointer_mut, size};
use crate::params::{PadCopy, PadParams, TensorMap, TmaParams, TmaSimtParams};
use crate::split_k::KSharing;
use crate::tensor::{
    ALIGNMENT, BLOCK_K, F32_BLOCK_K, copy_bytes, lines, lines_of_box, major_flags, padded_pitch,
    threads_of_line, tma_addressable,
};
use crate::warpgroup::{INSTRUCTION_M, ROW_BYTES, THREADS};
use crate::{
    DType, Element as _, GemmTypes, Grid, HelperRole, Operand, Order, ParamList, Problem, Tile,
    Unsupported, fusion, split_k,
};

/// Most blocks of the helper that copies, for each SM.
const PAD_BLOCKS: u32 = 8;

/// What a tensor map describes: matrices of contiguous lines, and the box of one of them that one copy moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapDesc {
    /// The type of the elements.
    pub dtype: DType,
    /// The first element, at a multiple of 16.
    pub address: u64,
    /// Elements of a line, and lines.
    pub dims: [u64; 2],
    /// Bytes from one line to the next, a multiple of 16.
    pub pitch: u64,
    /// Of a map of rank 3; none of rank 2.
    pub matrices: Option<Matrices>,
    /// Elements of a line of the box, and its lines.
    pub box_dims: [u32; 2],
    /// How the box is arranged in shared memory.
    pub swizzle: Swizzle,
}

/// The matrices of a tensor map of rank 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matrices {
    /// How many there are.
    pub count: u64,
    /// Bytes from one to the next, a multiple of 16.
    pub stride: u64,
}

/// How TMA arranges a box in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swizzle {
    /// Line after line.
    None,
    /// The 128-byte swizzle.
    B128,
}

/// A factor that TMA can address.
#[derive(Clone, Copy)]
struct Reached {
    address: u64,
    /// From one line to the next, in elements.
    pitch: usize,
    /// From one matrix of a batch to the next, in elements.
    stride: usize,
}

impl<T: GemmTypes> Planner<'_, T> {
    /// Bytes of the copies of A and B.
    pub(super) fn copies(&self) -> [u64; 2] {
        [(Operand::A, self.addresses.a), (Operand::B, self.addresses.b)].map(
            |(operand, address)| {
                let (matrices, stride) = self.matrices(operand);
                let apart = (stride * T::TYPES.of(operand).size()) as u64;
                // Where one of a batch is not where TMA can address it, all are copied.
                let address = if apart.is_multiple_of(ALIGNMENT) { address } else { apart };
                matrices as u64 * copy_bytes(&self.problem, operand, address)
            },
        )
    }

    /// How many matrices of an operand a launch has, and the elements from one to the next.
    fn matrices(&self, operand: Operand) -> (usize, usize) {
        let (count, stride) =
            (self.batch.count, self.problem.with_batch(self.batch).stride(operand));
        if count <= 1 || stride == 0 { (1, 0) } else { (count, stride) }
    }

    /// Copies what TMA cannot address, then multiplies.
    pub(super) fn by_tensor_maps(
        &self,
        workspace: u64,
        steps: &mut Vec<Step<T>>,
    ) -> Result<(), Unsupported> {
        if self.batch.count == 0 {
            return Ok(());
        }
        let batch_grid = self.grid_of_batch()?;
        let [a_bytes, b_bytes] = self.copies();
        let (a, of_a) = self.reach(Operand::A, self.addresses.a, (workspace, a_bytes))?;
        let b_copy = (workspace + a_bytes, b_bytes);
        let (b, of_b) = self.reach(Operand::B, self.addresses.b, b_copy)?;
        if let Some(first) = of_a.or(of_b) {
            steps.push(Step::Launch(self.pad(first, of_a.and(of_b))));
        }
        let Some(tile) = self.spec.launch.tile() else {
            unreachable!("invariant: `check` asks for a tile of a kernel with tensor maps");
        };
        if matches!(self.spec.params, ParamList::TmaSimt) {
            steps.push(Step::Launch(self.own(self.simt(tile, a, b))?));
            return Ok(());
        }
        let mut mapped = self.tensor_cores(tile, a, b);
        if !matches!(self.spec.split_k, KSharing::Workspace { .. }) || self.ranges == 1 {
            let mut launch = self.own(Arguments::Tma(mapped))?;
            launch.grid = batch_grid.unwrap_or(launch.grid);
            steps.push(Step::Launch(launch));
            return Ok(());
        }
        let partials = workspace + a_bytes + b_bytes;
        mapped.params = TmaParams {
            alpha: T::Acc::ONE,
            beta: T::Acc::ZERO,
            c: pointer_mut(partials),
            ldc: u64::from(split_k::pitch(size(self.problem.n))),
            tma_store: 0,
            ..mapped.params
        };
        let mut launch = self.own(Arguments::Tma(mapped))?;
        // Sums are not rounded before they are added.
        let unrounded = T::TYPES.with_c(T::TYPES.acc().dtype()).unwrap_or(T::TYPES);
        launch.symbol = self.spec.entry(unrounded)?;
        launch.grid.y = self.ranges;
        steps.extend([Step::Launch(launch), Step::Launch(self.sum_of_ranges(partials))]);
        Ok(())
    }

    /// The blocks of a launch for several products.
    fn grid_of_batch(&self) -> Result<Option<Grid>, Unsupported> {
        let Problem { m, n, k, .. } = self.problem;
        if self.batch.count == 1 {
            return Ok(None);
        }
        let products = u32::try_from(self.batch.count).ok();
        let tiles =
            products.and_then(|products| self.spec.grid(m, n).ok()?.x.checked_mul(products));
        let tiles = tiles.filter(|&tiles| i32::try_from(tiles).is_ok());
        let tiles = tiles.ok_or(Unsupported::TooLarge { m, n, k })?;
        let resident = self.limits.multiprocessors * self.spec.min_blocks(T::TYPES);
        Ok(Some(Grid { x: tiles.min(resident.max(1)), y: 1, z: 1 }))
    }

    /// A factor that TMA can address: in place, or in a copy at an address, of a number of
    /// bytes.
    fn reach(
        &self,
        operand: Operand,
        from: u64,
        (to, bytes): (u64, u64),
    ) -> Result<(Reached, Option<PadCopy>), Unsupported> {
        let layout = self.problem.layout(operand);
        let (matrices, stride) = self.matrices(operand);
        if bytes == 0 {
            return Ok((Reached { address: from, pitch: layout.ld, stride }, None));
        }
        let (count, width) = lines(&self.problem, operand);
        let bytes_each = T::TYPES.of(operand).size();
        let pitch = padded_pitch(width, bytes_each);
        let halves = bytes_each / 2;
        let Problem { m, n, k, .. } = self.problem;
        let too_large = Unsupported::TooLarge { m, n, k };
        // The helper counts in 16 bits.
        let copied = PadCopy {
            rows: u32::try_from(count * matrices).map_err(|_| too_large)?,
            width: size(width * halves),
            from: pointer(from),
            ld: (layout.ld * halves) as u64,
            each: size(count),
            stride: (stride * halves) as u64,
            to: pointer_mut(to),
            pitch: (pitch * halves) as u64,
        };
        let stride = if matrices == 1 { 0 } else { count * pitch };
        Ok((Reached { address: to, pitch, stride }, Some(copied)))
    }

    /// The launch that makes one copy, or two side by side.
    fn pad(&self, first: PadCopy, second: Option<PadCopy>) -> Launch<T> {
        let helper = self.helper(HelperRole::Pad);
        let threads = helper.block.x;
        let blocks =
            |copy: &PadCopy| copy.rows.div_ceil(threads / threads_of_line(copy.width, threads));
        let y = if second.is_some() { 2 } else { 1 };
        let x = second.iter().map(blocks).fold(blocks(&first), u32::max);
        let x = x.min(self.limits.multiprocessors * PAD_BLOCKS / y).max(1);
        helper.launch(Grid { x, y, z: 1 }, Arguments::Pad(PadParams::new(first, second)))
    }

    /// What a kernel gets that multiplies f32 on the FP32 units.
    fn simt(&self, Tile { m: rows, n: cols }: Tile, a: Reached, b: Reached) -> Arguments<T> {
        let problem = &self.problem;
        let Problem { m, n, k, .. } = *problem;
        let (a_box, b_box) = ([F32_BLOCK_K, rows], [cols, F32_BLOCK_K]);
        let maps = [
            self.map(T::TYPES.a(), a, (m, k), (a_box, Swizzle::B128), None),
            self.map(T::TYPES.b(), b, (k, n), (b_box, Swizzle::None), None),
        ];
        let params = TmaSimtParams {
            a_map: TensorMap::ZERO,
            b_map: TensorMap::ZERO,
            m: size(m),
            n: size(n),
            k: size(problem.effective_k()),
            alpha: problem.alpha,
            beta: problem.beta,
            c: pointer_mut(self.addresses.c),
            ldc: problem.c.ld as u64,
        };
        Arguments::TmaSimt(Box::new(Mapped { params, maps }))
    }

    /// What a kernel gets that multiplies 16-bit operands on the tensor cores.
    fn tensor_cores(
        &self,
        tile: Tile,
        a: Reached,
        b: Reached,
    ) -> Box<Mapped<TmaParams<T::Acc>, 3>> {
        let problem = &self.problem;
        let a_map = self.factor(Operand::A, tile, a);
        let b_map = self.factor(Operand::B, tile, b);
        // A line that ends within 16 bytes is not for TMA to store: of an odd width it was seen to write
        // the element behind, too.
        let size_of_c = T::TYPES.c().size();
        let whole = (problem.n as u64 * size_of_c as u64).is_multiple_of(ALIGNMENT);
        let (_, c_stride) = self.matrices(Operand::C);
        let Fused { epilogue, old, bias, bias_stride, row_scales, column_scales, amax, scalars } =
            self.fused.unwrap_or(Fused::NONE);
        let reads_c = problem.beta != T::Acc::ZERO || epilogue.device_scalars;
        let tma_store = !reads_c
            && tma_addressable(self.addresses.c, problem.c, size_of_c)
            && ((c_stride * size_of_c) as u64).is_multiple_of(ALIGNMENT)
            && whole;
        // Where threads store C themselves its map is not used; any will do.
        let c_map = if tma_store { self.result() } else { a_map };
        let in_place = self.fused.is_none() || old.address == self.addresses.c;
        // What reads C apart reads it in place, too: faster in blocks of several warpgroups that do not share k.
        let like_apart = self.spec.fuses
            && matches!(self.spec.split_k, KSharing::None)
            && self.spec.max_threads() > THREADS;
        let own = Old { address: self.addresses.c, ld: problem.c.ld, stride: c_stride };
        let old = if in_place && like_apart { own } else { old };
        let apart = reads_c && if in_place { like_apart } else { self.fused.is_some() };
        let params = TmaParams {
            a_map: TensorMap::ZERO,
            b_map: TensorMap::ZERO,
            c_map: TensorMap::ZERO,
            m: size(problem.m),
            n: size(problem.n),
            k: size(problem.effective_k()),
            alpha: problem.alpha,
            major_flags: major_flags(problem),
            beta: problem.beta,
            c: pointer_mut(self.addresses.c),
            ldc: problem.c.ld as u64,
            tma_store: u32::from(tma_store),
            products: size(self.batch.count),
            a_step: u32::from(a.stride != 0),
            b_step: u32::from(b.stride != 0),
            c_stride: c_stride as u64,
            ends: pointer(self.ends),
            fusion: epilogue.flags() | if apart { fusion::APART } else { 0 },
            old: pointer(old.address),
            old_ld: old.ld as u64,
            old_stride: old.stride as u64,
            bias: pointer(bias),
            bias_stride: bias_stride as u64,
            row_scales: pointer(row_scales),
            column_scales: pointer(column_scales),
            scalars: pointer(scalars),
            amax: pointer_mut(amax),
        };
        Box::new(Mapped { params, maps: [a_map, b_map, c_map] })
    }

    /// The map of A or B.
    fn factor(&self, operand: Operand, tile: Tile, reached: Reached) -> MapDesc {
        let (count, width) = lines(&self.problem, operand);
        let (along_k, side) = match operand {
            Operand::A => (Order::RowMajor, tile.m),
            Operand::B | Operand::C => (Order::ColMajor, tile.n / self.spec.cluster()),
        };
        let k_major = self.problem.layout(operand).order == along_k;
        let lines_of_box = match (k_major, self.spec.split_k) {
            (false, _) => BLOCK_K,
            (true, KSharing::Cluster { .. }) => lines_of_box(side, size(count)),
            (true, KSharing::None | KSharing::Workspace { .. }) => side,
        };
        let dtype = T::TYPES.of(operand);
        let box_dims = [ROW_BYTES / size(dtype.size()), lines_of_box];
        let matrices = self.spec.takes_batches().then(|| self.matrices(operand).0);
        self.map(dtype, reached, (count, width), (box_dims, Swizzle::B128), matrices)
    }

    /// The map of C.
    fn result(&self) -> MapDesc {
        let Problem { m, n, c, .. } = self.problem;
        let dtype = T::TYPES.c();
        let box_dims = [ROW_BYTES / size(dtype.size()), INSTRUCTION_M];
        let (matrices, stride) = self.matrices(Operand::C);
        let reached = Reached { address: self.addresses.c, pitch: c.ld, stride };
        let matrices = self.spec.takes_batches().then_some(matrices);
        self.map(dtype, reached, (m, n), (box_dims, Swizzle::B128), matrices)
    }

    /// The map of `count` lines of `width` elements, with the box of a copy, elements of a line before
    /// lines, and its arrangement in shared memory; of rank 3 where the number of matrices is given.
    fn map(
        &self,
        dtype: DType,
        Reached { address, pitch, stride }: Reached,
        (count, width): (usize, usize),
        (box_dims, swizzle): ([u32; 2], Swizzle),
        matrices: Option<usize>,
    ) -> MapDesc {
        let size = dtype.size() as u64;
        let bytes = |elements: usize| (elements.max(1) as u64 * size).next_multiple_of(ALIGNMENT);
        MapDesc {
            dtype,
            // A factor that is not read need not be where TMA can address it, but its map must.
            address: if self.problem.effective_k() == 0 {
                address / ALIGNMENT * ALIGNMENT
            } else {
                address
            },
            // A factor without elements is never read; its map must be one all the same.
            dims: [width.max(1) as u64, count.max(1) as u64],
            pitch: bytes(pitch),
            matrices: matrices
                .map(|count| Matrices { count: count.max(1) as u64, stride: bytes(stride) }),
            box_dims,
            swizzle,
        }
    }
}
