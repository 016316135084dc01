//! The parameters of the kernels' entries, each list written once.
//!
//! A list makes a `repr(C)` struct, which a [`LaunchPlan`](crate::plan::LaunchPlan) fills and the emulator
//! hands to an entry; the description of its fields, by which the driver finds the arguments and the PTX
//! is checked; and a macro with the struct's name, from which a kernel crate defines an entry that
//! takes just these fields. The fields go to an entry one by one: of a struct passed by value the compiler
//! does not know that its pointers are to global memory (`docs/notebook/kernels.md`).

#[cfg(not(target_arch = "nvptx64"))]
use core::fmt;

use crate::{AccType, GemmTypes};

/// The 128 bytes that describe a tensor to TMA. The host encodes them; a kernel passes their address on
/// and never reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TensorMap(pub [u64; 16]);

impl TensorMap {
    /// Not yet encoded.
    pub const ZERO: Self = Self([0; 16]);
}

/// Type of a kernel parameter as PTX declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamType {
    /// 32-bit integer.
    U32,
    /// 64-bit integer.
    U64,
    /// A pointer to global memory.
    Pointer,
    /// A number of the accumulator type: alpha or beta.
    Acc,
    /// The 128 bytes that describe a tensor to TMA, by value.
    TensorMap,
}

impl ParamType {
    /// What the address of a tensor map is a multiple of, in bytes.
    pub const TENSOR_MAP_ALIGN: u32 = 64;

    /// How PTX declares a parameter of this type in an entry whose accumulators are of that type.
    #[must_use]
    pub const fn ptx(self, acc: AccType) -> &'static str {
        match self {
            Self::U32 => ".u32",
            Self::U64 | Self::Pointer => ".u64",
            Self::Acc => match acc {
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
            Self::U64 | Self::Pointer => 8,
            Self::Acc => acc.dtype().size(),
            Self::TensorMap => size_of::<TensorMap>(),
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

mod sealed {
    pub trait Sealed {}
}

/// The parameters of an entry: one of the structs of this module.
pub trait Params: sealed::Sealed + Copy {
    /// All of them, in the entry's order.
    const LIST: &'static [Param];
    /// Where each is in the struct, in bytes.
    const OFFSETS: &'static [usize];
}

/// The Rust type of a kind of parameter of an entry for elements of a type.
#[doc(hidden)]
#[macro_export]
macro_rules! param_type {
    (u32, $element:ty) => { u32 };
    (u64, $element:ty) => { u64 };
    (acc, $element:ty) => { <$element as $crate::GemmTypes>::Acc };
    (map, $element:ty) => { $crate::params::TensorMap };
    ((const A), $element:ty) => { *const <$element as $crate::GemmTypes>::A };
    ((const B), $element:ty) => { *const <$element as $crate::GemmTypes>::B };
    ((mut C), $element:ty) => { *mut <$element as $crate::GemmTypes>::C };
    ((const $pointee:ty), $element:ty) => { *const $pointee };
    ((mut $pointee:ty), $element:ty) => { *mut $pointee };
}

/// The same as PTX has it.
macro_rules! ptx_type {
    (u32) => {
        ParamType::U32
    };
    (u64) => {
        ParamType::U64
    };
    (acc) => {
        ParamType::Acc
    };
    (map) => {
        ParamType::TensorMap
    };
    (($($pointer:tt)+)) => {
        ParamType::Pointer
    };
}

/// Defines the struct of a list of parameters, and the macro that hands the list to another macro:
/// `GemmParams! { [define_entry] .. }` calls `define_entry! { GemmParams [m: u32, ..] .. }`.
macro_rules! params {
    ($dollar:tt $(#[$doc:meta])* $name:ident<$types:ident> {
        $($(#[$field_doc:meta])* $field:ident: $kind:tt,)+
    }) => {
        $(#[$doc])*
        #[repr(C)]
        pub struct $name<$types: GemmTypes> {
            $($(#[$field_doc])* pub $field: $crate::param_type!($kind, $types),)+
        }

        // Types by macros cannot be derived for.
        impl<$types: GemmTypes> Clone for $name<$types> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$types: GemmTypes> Copy for $name<$types> {}

        #[cfg(not(target_arch = "nvptx64"))]
        impl<$types: GemmTypes> fmt::Debug for $name<$types> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &self.$field))+
                    .finish()
            }
        }

        impl<$types: GemmTypes> sealed::Sealed for $name<$types> {}

        impl<$types: GemmTypes> Params for $name<$types> {
            params!(@described $($field: $kind),+);
        }

        params!(@list $dollar $name [$($field: $kind),+]);
    };
    ($dollar:tt $(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $kind:tt,)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $crate::param_type!($kind, f32),)+
        }

        impl sealed::Sealed for $name {}

        impl Params for $name {
            params!(@described $($field: $kind),+);
        }

        params!(@list $dollar $name [$($field: $kind),+]);
    };
    (@described $($field:ident: $kind:tt),+) => {
        const LIST: &'static [Param] =
            &[$(Param { name: stringify!($field), ty: ptx_type!($kind) }),+];
        const OFFSETS: &'static [usize] = &[$(core::mem::offset_of!(Self, $field)),+];
    };
    (@list $dollar:tt $name:ident $list:tt) => {
        #[doc(hidden)]
        #[macro_export]
        macro_rules! $name {
            ([$dollar($dollar callback:tt)+] $dollar($dollar rest:tt)*) => {
                $dollar($dollar callback)+! { $name $list $dollar($dollar rest)* }
            };
        }
    };
}

params! { $
    /// What every GEMM entry takes that finds its operands by their addresses. All operands are row-major.
    /// Sizes are 32-bit, leading dimensions and hence all offsets 64-bit, so products above 2^31
    /// elements are addressed right.
    GemmParams<T> {
        /// Rows of A and C.
        m: u32,
        /// Columns of B and C.
        n: u32,
        /// Columns of A, rows of B.
        k: u32,
        /// The scalar that multiplies the product.
        alpha: acc,
        /// A, m by k.
        a: (const A),
        /// From one row of A to the next, in elements.
        lda: u64,
        /// B, k by n.
        b: (const B),
        /// From one row of B to the next, in elements.
        ldb: u64,
        /// The scalar that multiplies the old C.
        beta: acc,
        /// C, m by n.
        c: (mut C),
        /// From one row of C to the next, in elements.
        ldc: u64,
    }
}

params! { $
    /// What an entry takes that computes a batch, several products a block, with accumulators of `T`. The types
    /// of the operands are the entry's; their strides are in elements. The blocks share the batch out as a
    /// [`crate::batched::Partition`] says.
    BatchedParams<T> {
        /// Rows of each A and C.
        m: u32,
        /// Columns of each B and C.
        n: u32,
        /// Columns of each A, rows of each B; zero if there is nothing to accumulate.
        k: u32,
        /// Products.
        count: u32,
        /// The scalar that multiplies the products.
        alpha: acc,
        /// The first A.
        a: (const u8),
        /// From one line of A to the next.
        lda: u64,
        /// From one A to the next.
        a_stride: u64,
        /// The first B.
        b: (const u8),
        /// From one line of B to the next.
        ldb: u64,
        /// From one B to the next.
        b_stride: u64,
        /// The scalar that multiplies the old C.
        beta: acc,
        /// The first C, row-major.
        c: (mut u8),
        /// From one row of C to the next.
        ldc: u64,
        /// From one C to the next.
        c_stride: u64,
        /// Which operands are column-major: [`crate::batched::A_COL_MAJOR`], [`crate::batched::B_COL_MAJOR`].
        orders: u32,
        /// Rows of C of a block's tile of a product.
        tile_m: u32,
        /// Columns of it.
        tile_n: u32,
        /// Rows of a thread tile; of blocks that have a tile of one product, rows of tiles that they share.
        rows: u32,
        /// Products of a block.
        group: u32,
        /// k elements that a block has in shared memory at a time.
        chunk: u32,
        /// Tiles of groups that the blocks share.
        tiles: u32,
    }
}

params! { $
    /// What an entry takes whose operands TMA loads for the tensor cores, with accumulators of `T`. The types
    /// of the operands are the entry's.
    TmaParams<T> {
        /// A.
        a_map: map,
        /// B.
        b_map: map,
        /// C, where `tma_store` is not zero.
        c_map: map,
        /// Rows of A and C.
        m: u32,
        /// Columns of B and C.
        n: u32,
        /// Columns of A, rows of B; zero if there is nothing to accumulate.
        k: u32,
        /// The scalar that multiplies the product.
        alpha: acc,
        /// Which operands are not K-major: [`crate::tensor::A_MN_MAJOR`], [`crate::tensor::B_MN_MAJOR`].
        major_flags: u32,
        /// The scalar that multiplies the old C.
        beta: acc,
        /// C, m by n.
        c: (mut u8),
        /// From one row of C to the next, in elements.
        ldc: u64,
        /// Whether TMA stores C; if zero, the threads do and the map of C is not used.
        tma_store: u32,
        /// Products of the batch; one of a kernel that computes no batches.
        products: u32,
        /// By how much the matrix of A's map goes on from one product to the next: one, or zero where all
        /// products have the same A.
        a_step: u32,
        /// The same of B.
        b_step: u32,
        /// From one C to the next, in elements; zero where all products have rows of one C.
        c_stride: u64,
        /// Null, or the rows of A and C before which those of each product end.
        ends: (const u32),
        /// What is done besides scaling, see [`crate::fusion`]; zero for nothing, and for a C that is read
        /// where it is written.
        fusion: u32,
        /// What beta multiplies, m by n, where `fusion` is not zero.
        old: (const u8),
        /// From one row of it to the next, in elements.
        old_ld: u64,
        /// From that of one product to that of the next, in elements.
        old_stride: u64,
        /// The bias, of C's type.
        bias: (const u8),
        /// From that of one product to that of the next, in elements.
        bias_stride: u64,
        /// The factors of the rows.
        row_scales: (const f32),
        /// The factors of the columns.
        column_scales: (const f32),
        /// What takes the places of alpha and of beta, where the flag says so.
        scalars: (const f32),
        /// The bits of the largest magnitude.
        amax: (mut u32),
    }
}

params! { $
    /// What the helper takes that finishes products whose sums are in D: of f32, or of f64 where scalars
    /// and pointers are of that.
    FinishParams {
        /// Rows of D.
        m: u32,
        /// Columns of D.
        n: u32,
        /// What is done, see [`crate::fusion`].
        fusion: u32,
        /// The bits of the scalar that multiplies the sums, an f64.
        alpha: u64,
        /// The sums, m by n.
        acc: (const u8),
        /// From one row of them to the next, in elements.
        acc_ld: u64,
        /// From those of one product to those of the next, in elements.
        acc_stride: u64,
        /// The bits of the scalar that multiplies the old C, an f64.
        beta: u64,
        /// What beta multiplies, m by n.
        old: (const u8),
        /// From one row of it to the next, in elements.
        old_ld: u64,
        /// From that of one product to that of the next, in elements.
        old_stride: u64,
        /// The bias.
        bias: (const u8),
        /// From that of one product to that of the next, in elements.
        bias_stride: u64,
        /// The factors of the rows.
        row_scales: (const u8),
        /// The factors of the columns.
        column_scales: (const u8),
        /// What takes the places of alpha and of beta, where the flag says so.
        scalars: (const u8),
        /// The bits of the largest magnitude, of f32 alone.
        amax: (mut u32),
        /// D, m by n; it may be the sums or what beta multiplies.
        d: (mut u8),
        /// From one row of it to the next, in elements.
        d_ld: u64,
        /// From that of one product to that of the next, in elements.
        d_stride: u64,
    }
}

params! { $
    /// What an entry takes whose f32 operands, both row-major, TMA loads for the FP32 units. A box of A
    /// has [`crate::tensor::F32_BLOCK_K`] elements of each row of a tile, in the 128-byte swizzle; one of B
    /// has the columns of a tile for as many k elements, row after row.
    TmaSimtParams<T> {
        /// A.
        a_map: map,
        /// B.
        b_map: map,
        /// Rows of A and C.
        m: u32,
        /// Columns of B and C.
        n: u32,
        /// Columns of A, rows of B; zero if there is nothing to accumulate.
        k: u32,
        /// The scalar that multiplies the product.
        alpha: acc,
        /// The scalar that multiplies the old C.
        beta: acc,
        /// C, m by n.
        c: (mut C),
        /// From one row of C to the next, in elements.
        ldc: u64,
    }
}

params! { $
    /// What the helper takes that copies operands to lines of another pitch: the first by the blocks of which `y` is 0,
    /// the second, if there is one, by those of which it is 1. A row is a contiguous line, counted in elements of 16
    /// bits; the helper writes whole groups of eight of them.
    PadParams {
        /// Lines of all matrices.
        rows: u32,
        /// Elements of a line.
        width: u32,
        /// The operand, or the first of a batch.
        from: (const u16),
        /// From one of its lines to the next.
        ld: u64,
        /// Lines of a matrix.
        each: u32,
        /// From one matrix to the next.
        stride: u64,
        /// The copy.
        to: (mut u16),
        /// From one of its lines to the next.
        pitch: u64,
        /// Lines of all matrices of the second operand.
        second_rows: u32,
        /// Elements of a line.
        second_width: u32,
        /// The operand, or the first of a batch.
        second_from: (const u16),
        /// From one of its lines to the next.
        second_ld: u64,
        /// Lines of a matrix.
        second_each: u32,
        /// From one matrix to the next.
        second_stride: u64,
        /// The copy.
        second_to: (mut u16),
        /// From one of its lines to the next.
        second_pitch: u64,
    }
}

/// An operand and its copy, as [`PadParams`] has them.
#[derive(Clone, Copy, Debug)]
pub struct PadCopy {
    /// Lines of all matrices.
    pub rows: u32,
    /// Elements of a line.
    pub width: u32,
    /// The operand, or the first of a batch.
    pub from: *const u16,
    /// From one of its lines to the next.
    pub ld: u64,
    /// Lines of a matrix.
    pub each: u32,
    /// From one matrix to the next.
    pub stride: u64,
    /// The copy.
    pub to: *mut u16,
    /// From one of its lines to the next.
    pub pitch: u64,
}

impl PadParams {
    /// One copy, or two.
    #[must_use]
    pub fn new(first: PadCopy, second: Option<PadCopy>) -> Self {
        let PadCopy { rows, width, from, ld, each, stride, to, pitch } = first;
        let second = second.unwrap_or(PadCopy { rows: 0, ..first });
        Self {
            rows,
            width,
            from,
            ld,
            each,
            stride,
            to,
            pitch,
            second_rows: second.rows,
            second_width: second.width,
            second_from: second.from,
            second_ld: second.ld,
            second_each: second.each,
            second_stride: second.stride,
            second_to: second.to,
            second_pitch: second.pitch,
        }
    }

    /// The first copy, or the second.
    #[inline(always)]
    #[must_use]
    pub fn copy(self, second: bool) -> PadCopy {
        if second {
            return PadCopy {
                rows: self.second_rows,
                width: self.second_width,
                from: self.second_from,
                ld: self.second_ld,
                each: self.second_each,
                stride: self.second_stride,
                to: self.second_to,
                pitch: self.second_pitch,
            };
        }
        let Self { rows, width, from, ld, each, stride, to, pitch, .. } = self;
        PadCopy { rows, width, from, ld, each, stride, to, pitch }
    }
}

params! { $
    /// What the helper takes that exchanges rows and columns of an operand, whose elements it moves as they
    /// are.
    TransposeParams {
        /// Lines of the operand, each contiguous.
        rows: u32,
        /// Elements of a line.
        cols: u32,
        /// Bytes of an element: 2, 4 or 8.
        size: u32,
        /// The operand, aligned to its elements.
        from: (const u16),
        /// From one of its lines to the next, in elements.
        ld: u64,
        /// What it becomes, aligned likewise.
        to: (mut u16),
        /// From one of its lines to the next, in elements.
        pitch: u64,
    }
}

params! { $
    /// What the helper takes that splits a K-major operand, a block a row.
    SplitKMajorParams {
        /// Elements of a row.
        k: u32,
        /// The operand.
        from: (const f32),
        /// From one row to the next, in elements.
        ld: u64,
        /// The limbs.
        limbs: (mut u8),
        /// The exponents by which rows are scaled.
        exponents: (mut i32),
        /// Counts of elements below [`crate::split::UNDERFLOW`], for each row.
        underflows: (mut u32),
        /// The range flags.
        flags: (mut u32),
    }
}

params! { $
    /// What the helper takes that finds the largest magnitudes of the rows of an MN-major operand.
    RowAmaxParams {
        /// Rows.
        rows: u32,
        /// Elements of a row.
        k: u32,
        /// The operand.
        from: (const f32),
        /// From one line to the next, in elements.
        ld: u64,
        /// The largest magnitudes as bits, for each row.
        row_amax: (mut u32),
    }
}

params! { $
    /// What the helper takes that splits an MN-major operand.
    SplitMnMajorParams {
        /// Rows.
        rows: u32,
        /// Elements of a row.
        k: u32,
        /// The operand.
        from: (const f32),
        /// From one line to the next, in elements.
        ld: u64,
        /// What [`RowAmaxParams`] has left, where rows are scaled.
        row_amax: (const u32),
        /// The limbs.
        limbs: (mut u8),
        /// The exponents by which rows are scaled.
        exponents: (mut i32),
        /// Counts of elements below [`crate::split::UNDERFLOW`], for each row.
        underflows: (mut u32),
        /// The range flags.
        flags: (mut u32),
    }
}

params! { $
    /// What the helper takes that examines samples of C for lost precision. A and B are read by strides, so that
    /// either order will do.
    ProbeParams {
        /// Rows of the whole product.
        rows: u32,
        /// The first of them that this launch's A has.
        first: u32,
        /// Rows of A.
        m: u32,
        /// Columns of B.
        n: u32,
        /// Columns of A, rows of B.
        k: u32,
        /// A.
        a: (const f32),
        /// From one row of A to the next.
        a_row: u64,
        /// From one column of A to the next.
        a_step: u64,
        /// B.
        b: (const f32),
        /// From one row of B to the next.
        b_step: u64,
        /// From one column of B to the next.
        b_col: u64,
        /// The exponents of A's rows.
        a_exponents: (const i32),
        /// The exponents of B's columns.
        b_exponents: (const i32),
        /// The range flags.
        flags: (mut u32),
    }
}

params! { $
    /// What an entry takes that multiplies limbs. It does nothing if the flags have a bit of `unless`.
    LimbParams {
        /// Rows of A and C.
        m: u32,
        /// Columns of B and C.
        n: u32,
        /// Columns of A, rows of B.
        k: u32,
        /// The scalar that multiplies the product.
        alpha: acc,
        /// The limbs of A.
        a_limbs: (const u8),
        /// The limbs of B.
        b_limbs: (const u8),
        /// The exponents of A's rows.
        a_exponents: (const i32),
        /// The exponents of B's columns.
        b_exponents: (const i32),
        /// The scalar that multiplies the old C.
        beta: acc,
        /// C, m by n.
        c: (mut f32),
        /// From one row of C to the next, in elements.
        ldc: u64,
        /// The range flags.
        flags: (const u32),
        /// The flags that forbid it.
        unless: u32,
    }
}

params! { $
    /// What the helper takes that finds by how much the rows of an operand are scaled. It does nothing unless the
    /// flags have a bit of `when`, or `when` is zero. A "row" is a row of A or a column of B.
    RowExponentsParams {
        /// Rows.
        rows: u32,
        /// Elements of a row.
        k: u32,
        /// The operand.
        from: (const f32),
        /// From one row to the next, in elements.
        row: u64,
        /// From one k element to the next.
        step: u64,
        /// The exponent of each row, as [`crate::split::scale_exponent`] gives it.
        exponents: (mut i32),
        /// The range flags.
        flags: (const u32),
        /// The flags that ask for it.
        when: u32,
    }
}

params! { $
    /// What the fallback takes, which multiplies the operands themselves. It does nothing unless the flags
    /// have a bit of `when`.
    FallbackParams {
        /// Rows of A and C.
        m: u32,
        /// Columns of B and C.
        n: u32,
        /// Columns of A, rows of B.
        k: u32,
        /// The scalar that multiplies the product.
        alpha: acc,
        /// A.
        a: (const f32),
        /// From one line of A to the next, in elements.
        lda: u64,
        /// B.
        b: (const f32),
        /// From one line of B to the next, in elements.
        ldb: u64,
        /// The scalar that multiplies the old C.
        beta: acc,
        /// C, m by n.
        c: (mut f32),
        /// From one row of C to the next, in elements.
        ldc: u64,
        /// [`crate::batched::A_COL_MAJOR`], [`crate::batched::B_COL_MAJOR`], or both.
        orders: u32,
        /// The exponents of A's rows.
        a_exponents: (const i32),
        /// The exponents of B's columns.
        b_exponents: (const i32),
        /// The range flags.
        flags: (const u32),
        /// The flags that ask for it.
        when: u32,
    }
}

#[cfg(all(test, not(target_arch = "nvptx64")))]
mod tests {
    use super::*;

    /// The driver reads as many bytes at a field as PTX declares: they must be the field's own.
    fn is_described<P: Params>(acc: AccType) {
        let mut end = 0;
        for (param, &offset) in P::LIST.iter().zip(P::OFFSETS) {
            assert!(offset >= end, "{} follows the field before it", param.name);
            end = offset + param.ty.size(acc);
            assert!(end <= size_of::<P>(), "{} is in the struct", param.name);
        }
        assert_eq!(P::LIST.len(), P::OFFSETS.len());
        assert!(size_of::<P>() - end < 8, "nothing but padding follows the last field");
    }

    #[test]
    fn fields_are_where_the_lists_say() {
        is_described::<GemmParams<f32>>(AccType::F32);
        is_described::<GemmParams<f64>>(AccType::F64);
        is_described::<GemmParams<i32>>(AccType::I32);
        is_described::<BatchedParams<f32>>(AccType::F32);
        is_described::<BatchedParams<f64>>(AccType::F64);
        is_described::<TmaParams<f32>>(AccType::F32);
        is_described::<TmaSimtParams<f32>>(AccType::F32);
        is_described::<FinishParams>(AccType::F32);
        is_described::<PadParams>(AccType::F32);
        is_described::<TransposeParams>(AccType::F32);
        is_described::<SplitKMajorParams>(AccType::F32);
        is_described::<RowAmaxParams>(AccType::F32);
        is_described::<SplitMnMajorParams>(AccType::F32);
        is_described::<ProbeParams>(AccType::F32);
        is_described::<LimbParams>(AccType::F32);
        is_described::<RowExponentsParams>(AccType::F32);
        is_described::<FallbackParams>(AccType::F32);
    }
}
