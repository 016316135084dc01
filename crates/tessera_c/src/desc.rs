//! What a product on a device is, before it is planned.

use tessera::Layout;
use tessera::gpu::{GemmBatch, GemmDesc, Limbs, Operand, PlanLimits};
use tessera_raw::{Failure, Scalar, types};

use crate::engine::{accuracy, unknown};
use crate::epilogue::tessera_epilogue;
use crate::matrix::{scalar_of, tessera_dtype};
use crate::sized::Sized;
use crate::status::{Fault, TESSERA_UNSUPPORTED};

/// Rows are contiguous: element (i, j) is at i * ld + j.
pub const TESSERA_ROW_MAJOR: i32 = 0;
/// Columns are contiguous: element (i, j) is at i + j * ld, as in BLAS.
pub const TESSERA_COL_MAJOR: i32 = 1;

/// The operands of each product are as many elements behind those of the product before as the strides say.
pub const TESSERA_BATCH_STRIDED: i32 = 0;
/// Each product has addresses of its own, which tessera_plan_run_array takes.
pub const TESSERA_BATCH_POINTERS: i32 = 1;
/// Each product has a group of the rows of one A, one C and one D, as the tokens of an expert, and a B of its
/// own, b_stride elements behind the one before. Only the device knows how many rows: tessera_plan_run_groups
/// takes where they end. m is the rows of all groups at most. A, C and D are row-major, and products of 16-bit
/// floats have kernels for it.
pub const TESSERA_BATCH_ROW_GROUPS: i32 = 2;

/// Both factors are split by each run, where the kernel multiplies limbs.
pub const TESSERA_PREPARED_NONE: i32 = 0;
/// A is split by tessera_plan_prepare, for any number of runs.
pub const TESSERA_PREPARED_A: i32 = 1;
/// B is.
pub const TESSERA_PREPARED_B: i32 = 2;

/// An element becomes two limbs of f16, which has the accuracy of TESSERA_ACCURACY_FP32.
pub const TESSERA_LIMBS_TWO_F16: i32 = 0;
/// An element becomes three limbs of bf16, for any accuracy.
pub const TESSERA_LIMBS_THREE_BF16: i32 = 1;

/// Products on a device: D = alpha * A * B + beta * C, with A m by k, B k by n, C and D m by n.
/// tessera_gemm_desc_row_major and tessera_gemm_desc_col_major fill one in, of which a program then changes
/// what it has otherwise. Leading dimensions and strides are in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tessera_gemm_desc {
    /// sizeof(tessera_gemm_desc)
    pub size: usize,
    /// Rows of A, C and D.
    pub m: usize,
    /// Columns of B, C and D.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// The type of A's elements.
    pub a_dtype: tessera_dtype,
    /// The type of B's elements.
    pub b_dtype: tessera_dtype,
    /// The type of C's and D's elements.
    pub c_dtype: tessera_dtype,
    /// TESSERA_ROW_MAJOR or TESSERA_COL_MAJOR: how A is in memory, or its transpose where that is.
    pub a_order: i32,
    /// The same of B.
    pub b_order: i32,
    /// The same of C.
    pub c_order: i32,
    /// The same of D, which may have another order than C where it is apart from it.
    pub d_order: i32,
    /// Not 0: the matrix in memory is the transpose of A, k by m.
    pub transa: i32,
    /// Not 0: the matrix in memory is the transpose of B, n by k.
    pub transb: i32,
    /// One of TESSERA_ACCURACY_*.
    pub accuracy: i32,
    /// Elements from one row or column of A to the next.
    pub lda: usize,
    /// The same of B.
    pub ldb: usize,
    /// The same of C.
    pub ldc: usize,
    /// The same of D.
    pub ldd: usize,
    /// The factor of the product. With 0 neither A nor B is read.
    pub alpha: f64,
    /// The factor of C. With 0 C is not read.
    pub beta: f64,
    /// How many products there are. With 0, as with an m or n of 0, a run does nothing.
    pub batch_count: usize,
    /// Elements from one A to the next; 0 for one that all products share.
    pub a_stride: usize,
    /// The same of B.
    pub b_stride: usize,
    /// The same of C.
    pub c_stride: usize,
    /// The same of D, of which no two overlap.
    pub d_stride: usize,
    /// TESSERA_BATCH_STRIDED; TESSERA_BATCH_POINTERS, for which the strides are not looked at; or
    /// TESSERA_BATCH_ROW_GROUPS, for which that of B is.
    pub batch: i32,
    /// 0
    pub reserved: i32,
    /// Most bytes of workspace that a run will be given: SIZE_MAX for whatever the kernel that suits best needs.
    pub workspace_limit: usize,
    /// Bytes of which the addresses of A, B, C and D are multiples, a power of two. With less than 16 some
    /// kernels copy operands to the workspace first.
    pub alignment: usize,
    /// What is done to the sums besides, or NULL.
    pub epilogue: *const tessera_epilogue,
    /// One of TESSERA_PREPARED_*: a factor of floats that is split into limbs before it is multiplied, once. All
    /// products of a batch have it in common. Kernels of compute capability 9.0 multiply limbs.
    pub prepared: i32,
    /// One of TESSERA_LIMBS_*, where a factor is prepared.
    pub limbs: i32,
}

// SAFETY: numbers and an address, the first of which is the size; any bytes are one.
unsafe impl Sized for tessera_gemm_desc {
    const NAME: &'static str = "tessera_gemm_desc";
    const LEAST: usize = 184;
}

/// A product that can be planned, and what its runs may count on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Described {
    pub(crate) desc: GemmDesc,
    pub(crate) limits: PlanLimits,
}

impl tessera_gemm_desc {
    /// The product in the library's words. Whether it fits together is the library's to say.
    ///
    /// # Safety
    /// The epilogue is null or points to such a struct, of whose size its first field tells.
    pub(crate) unsafe fn described(&self) -> Result<Described, Fault> {
        if self.reserved != 0 {
            return Err(Fault::argument("desc: reserved is not 0"));
        }
        let scalars = [("A", self.a_dtype), ("B", self.b_dtype), ("C", self.c_dtype)];
        let [a, b, c] = scalars.map(|(name, dtype)| scalar_of(name, dtype));
        let types = device_types([a?, b?, c?])?;
        let a = stored(layout("a_order", self.a_order, self.lda)?, self.transa);
        let b = stored(layout("b_order", self.b_order, self.ldb)?, self.transb);
        let c = layout("c_order", self.c_order, self.ldc)?;
        let d = layout("d_order", self.d_order, self.ldd)?;
        let count = self.batch_count;
        let batch = match self.batch {
            TESSERA_BATCH_STRIDED => GemmBatch::Strided {
                count,
                a_stride: self.a_stride,
                b_stride: self.b_stride,
                c_stride: self.c_stride,
                d_stride: self.d_stride,
            },
            TESSERA_BATCH_POINTERS => GemmBatch::Pointers { count },
            TESSERA_BATCH_ROW_GROUPS => GemmBatch::RowGroups { count, b_stride: self.b_stride },
            other => return Err(unknown("batch", other, "TESSERA_BATCH_*")),
        };
        // SAFETY: the caller's promise.
        let (epilogue, bias_stride) = unsafe { tessera_epilogue::described(self.epilogue) }?;
        let unsupported = |message| Fault { status: TESSERA_UNSUPPORTED, message, code: None };
        epilogue.check(types).map_err(unsupported)?;
        let desc = GemmDesc::new(types, self.m, self.n, self.k)
            .with_layouts(a, b, c)
            .with_d(d)
            .with_scalars(self.alpha, self.beta)
            .with_batch(batch)
            .with_accuracy(accuracy(self.accuracy)?)
            .with_epilogue(epilogue)
            .with_bias_stride(bias_stride);
        let limbs = match self.limbs {
            TESSERA_LIMBS_TWO_F16 => Limbs::TwoF16,
            TESSERA_LIMBS_THREE_BF16 => Limbs::ThreeBf16,
            other => return Err(unknown("limbs", other, "TESSERA_LIMBS_*")),
        };
        let desc = match self.prepared {
            TESSERA_PREPARED_NONE => desc,
            TESSERA_PREPARED_A => desc.with_prepared(Operand::A, limbs),
            TESSERA_PREPARED_B => desc.with_prepared(Operand::B, limbs),
            other => return Err(unknown("prepared", other, "TESSERA_PREPARED_*")),
        };
        let limits =
            PlanLimits { workspace: self.workspace_limit as u64, alignment: self.alignment as u64 };
        Ok(Described { desc, limits })
    }
}

/// The library's products of these types, of which those of complex numbers are the CPU's.
pub(crate) fn device_types([a, b, c]: [Scalar; 3]) -> Result<gemm_spec::Types, Fault> {
    let complex = [a, b, c].into_iter().find(|it| !matches!(it, Scalar::Real(_)));
    if let Some(complex) = complex {
        let message = format!("{complex} is multiplied on the CPU alone: tessera_gemm does it");
        return Err(Fault { status: TESSERA_UNSUPPORTED, message, code: None });
    }
    types(a, b, c).ok_or_else(|| Failure::Types { a, b, c }.into())
}

fn layout(name: &str, order: i32, ld: usize) -> Result<Layout, Fault> {
    match order {
        TESSERA_ROW_MAJOR => Ok(Layout::row_major(ld)),
        TESSERA_COL_MAJOR => Ok(Layout::col_major(ld)),
        other => Err(unknown(name, other, "TESSERA_ROW_MAJOR and TESSERA_COL_MAJOR")),
    }
}

/// The layout of a factor, given that of the matrix in memory: its own or its transpose's.
fn stored(layout: Layout, is_transposed: i32) -> Layout {
    if is_transposed == 0 { layout } else { layout.transposed() }
}
