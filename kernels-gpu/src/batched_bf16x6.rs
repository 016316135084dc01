//! `batched_bf16x6`: a batch of products of f32 on the tensor cores, whose blocks split the operands as they load them.
//!
//! Computes  C = alpha*A*B + beta*C for each product; beta == 0 never reads C
//! Operands  A (m,k), B (k,n) in either order, C (m,n) row-major, each a stride behind that of the product
//!           before; f32
//! Launch    block (512,1,1); along x, as many as there are SMs, which share the tiles of all products
//! Shared    STAGES stages of 48 KiB, their barriers and notes: 196800 bytes
//! Requires  m, n >= 1, compute capability 9.0
//! Cost      12mnk flop a product on the tensor cores; each element of A and B is split n/128 and m/128 times
//! Bound by  memory to about n = 128 of square products; power, as `bf16x6`, beyond
//! Source    own; the limbs are those of `bf16x6`
//!
//! `bf16x6` splits its operands by launches before it, into a workspace one and a half times their size. A product of a
//! batch is multiplied in less time than that takes to write and read. Here two warpgroups of a block load f32 and write
//! the limbs of a stage to shared memory, where the other two multiply them:
//!
//! ```text
//!   warpgroups 0, 1   load stage 5 to registers | split stage 4 to shared memory | ..
//!   warpgroup 2       wgmma of stage 3, rows 0 to 63     + total in f32          | ..
//!   warpgroup 3       wgmma of stage 3, rows 64 to 127   + total in f32          | ..
//! ```
//!
//! A number that limbs do not hold exactly is noted with its stage, and a tile with such a note, or with a sum that is
//! not finite, is computed by chains of multiply-adds instead, a warp's rows at a time. What a block of a launch has
//! changes none of the bits of C.

use gemm_spec::batched_limbs::{self, ROWS, THREADS, TILE};
use gemm_spec::split::Limbs;
use gemm_spec::{
    Arch, BatchShare, Block, Entry, KernelSpec, LaunchShape, MinBlocks, Numerics, OperandAccess,
    ParamList, Types,
};

use crate::bf16x9::STAGES;
use crate::bf16x9::on_load::{Unscaled, multiply};
use crate::parts::entries::entry;

entry! {
    /// # Safety
    /// 1. `a`, `b` and `c` are valid for `count` matrices of f32, m by k, k by n and m by n, at their leading dimensions
    ///    and strides, A and B in the orders that `orders` says; no C overlaps an input or another C, and nobody else
    ///    writes one.
    /// 2. `tiles` are those of all products, and the launch has the block and the shared memory of the specification;
    ///    m, n >= 1.
    pub unsafe fn batched_bf16x6_f32(params: BatchedParams<f32>) {
        // SAFETY: the obligations are the same.
        unsafe { multiply(params, Unscaled) };
    }
}

/// The entry as a function for the emulator.
#[cfg(all(not(target_arch = "nvptx64"), feature = "emulate"))]
pub(crate) const EMULATED: &[(&str, crate::EmulatedEntry)] =
    crate::parts::entries::emulated!(Batched(BatchedParams): batched_bf16x6_f32);

/// What the host needs to launch it.
pub(crate) const SPEC: KernelSpec = KernelSpec {
    id: "batched_bf16x6",
    about: "batches of f32 of any range from six products of bf16 limbs that blocks make as they load",
    origin: "own",
    arch: Arch::Sm90a,
    entries: &[Entry { types: Types::F32, symbol: "batched_bf16x6_f32" }],
    launch: LaunchShape::Grouped { block: Block { x: THREADS, y: 1 }, tile: TILE, rows: ROWS },
    shared_elements: batched_limbs::shared_bytes(Limbs::ThreeBf16, STAGES) / 4,
    min_blocks_per_sm: MinBlocks::same(1),
    params: ParamList::Batched,
    operands: OperandAccess::Batched(BatchShare::Limbs),
    numerics: Numerics::Limbs { products: 6 },
    ..KernelSpec::PLAIN
};
const _: () = SPEC.check();
