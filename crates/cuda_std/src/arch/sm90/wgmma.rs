//! Products of a warpgroup: 128 threads multiply a 64 x 16 tile of A by a 16 x N tile of B, both in
//! shared memory, and add to sums in their registers, while they go on with something else.
//!
//! ```text
//!  fenced_f16_n128(..) behind a fence: the sums in registers are ready
//!  f16_n128(..) ...    further products, in order, on the same sums
//!  commit()            closes a group
//!  wait_group::<0>()   the group has ended: sums may be read, the tiles overwritten
//! ```
//!
//! `gemm_spec::warpgroup` has the maps of tiles, descriptors and registers.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;
use core::ops::Add;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate;

/// The sums of a thread: `EIGHTS * 8` registers of a product with `N = EIGHTS * 16`.
///
/// In eights: LLVM keeps an array in registers only up to a size, and arrays of small arrays always.
pub type Sums<const EIGHTS: usize> = [[f32; 8]; EIGHTS];

/// A tile of an operand in shared memory, as `gemm_spec::warpgroup` describes it to the instruction.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Descriptor(u64);

impl Descriptor {
    /// The descriptor with these fields.
    #[inline(always)]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The fields.
    #[inline(always)]
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// The tile `units` of 16 bytes further on.
impl Add<u64> for Descriptor {
    type Output = Self;

    #[inline(always)]
    fn add(self, units: u64) -> Self {
        Self(self.0 + units)
    }
}

/// Closes a group of the products since the last: `wgmma.commit_group.sync.aligned;`.
///
/// # Safety
/// All threads of the warpgroup call it together.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn commit() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promise is the instruction's.
        unsafe { asm!("wgmma.commit_group.sync.aligned;", options(nostack)) };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::not_emulated("wgmma.commit_group", ())
    }
}

/// Defines the wait for sums of so many eights of registers.
macro_rules! wait {
    ($wait:ident, $eights:literal, [$first:literal $($register:literal)*]) => {
        /// Waits until all groups but the youngest `PENDING` have ended, and hands the sums back:
        /// `wgmma.wait_group.sync.aligned PENDING;`.
        ///
        /// # Safety
        /// All threads of the warpgroup call it together.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $wait<const PENDING: u32>(sums: &mut Sums<$eights>) {
            #[cfg(target_arch = "nvptx64")]
            {
                // The sums are operands so that no read of them can move before the wait.
                // SAFETY: the caller's promise is the instruction's.
                unsafe {
                    asm!(
                        concat!(
                            "wgmma.wait_group.sync.aligned {pending}; // {", $first, "}"
                            $(, " {", $register, "}")*
                        ),
                        inout(reg32) sums[$first / 8][$first % 8],
                        $(inout(reg32) sums[$register / 8][$register % 8],)*
                        pending = const PENDING,
                        options(nostack)
                    );
                }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                emulate::not_emulated("wgmma.wait_group", sums)
            }
        }
    };
}

/// Defines the two forms of a product.
macro_rules! product {
    (
        $(#[$doc:meta])* $name:ident, $fenced:ident,
        $instruction:expr, $eights:literal, [$first:literal $($register:literal)*]
    ) => {
        product!(@form
            $(#[$doc])* #[doc = concat!("`", $instruction, "`.")]
            ///
            /// With `ADD` false the sums' old values do not count. Tiles are contiguous along k, or
            /// with `A_ACROSS` along m and with `B_ACROSS` along n.
            ///
            /// # Safety
            /// 1. All threads of the warpgroup call it together, with the same descriptors.
            /// 2. The descriptors name tiles in the block's shared memory that are written and visible
            ///    to the products' proxy, and stay until a wait has covered this product.
            /// 3. Nothing touches the sums between a fence and the wait but products of this form.
            $name, "", $instruction, $eights, [$first $($register)*]);
        product!(@form
            #[doc = concat!("[`", stringify!($name), "`] behind `wgmma.fence.sync.aligned`, which orders")]
            /// accesses to the sums before the products that follow; in one piece, so that nothing can
            /// come between.
            ///
            /// # Safety
            #[doc = concat!("Those of [`", stringify!($name), "`].")]
            $fenced, "wgmma.fence.sync.aligned;\n", $instruction, $eights, [$first $($register)*]);
    };
    (
        @form $(#[$doc:meta])* $name:ident, $before:literal, $instruction:expr, $eights:literal,
        [$first:literal $($register:literal)*]
    ) => {
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name<const ADD: bool, const A_ACROSS: bool, const B_ACROSS: bool>(
            sums: &mut Sums<$eights>,
            a: Descriptor,
            b: Descriptor,
        ) {
            #[cfg(target_arch = "nvptx64")]
            {
                // SAFETY: the caller's promises are the instruction's.
                unsafe {
                    asm!(
                        concat!(
                            $before, $instruction, " {{{", $first, "}"
                            $(, ",{", $register, "}")*,
                            "}}, {a}, {b}, {add}, 1, 1, {a_across}, {b_across};"
                        ),
                        inout(reg32) sums[$first / 8][$first % 8],
                        $(inout(reg32) sums[$register / 8][$register % 8],)*
                        a = in(reg64) a.0,
                        b = in(reg64) b.0,
                        add = const ADD as u32,
                        a_across = const A_ACROSS as u32,
                        b_across = const B_ACROSS as u32,
                        options(nostack)
                    );
                }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                emulate::not_emulated($instruction, (sums, a, b))
            }
        }
    };
}

/// Defines the wait and the products of one width, whose sums are in these registers.
macro_rules! width {
    ($n:literal: $wait:ident, $f16:ident, $fenced_f16:ident, $bf16:ident, $fenced_bf16:ident,
     $eights:literal, $registers:tt) => {
        wait!($wait, $eights, $registers);
        product!(
            #[doc = concat!("64 x ", $n, " sums of products of f16 numbers:")]
            $f16,
            $fenced_f16,
            concat!("wgmma.mma_async.sync.aligned.m64n", $n, "k16.f32.f16.f16"),
            $eights,
            $registers
        );
        product!(
            #[doc = concat!("64 x ", $n, " sums of products of bf16 numbers:")]
            $bf16,
            $fenced_bf16,
            concat!("wgmma.mma_async.sync.aligned.m64n", $n, "k16.f32.bf16.bf16"),
            $eights,
            $registers
        );
    };
}

width!(
    128: wait_n128, f16_n128, fenced_f16_n128, bf16_n128, fenced_bf16_n128, 8,
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
     32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63]
);
width!(
    256: wait_n256, f16_n256, fenced_f16_n256, bf16_n256, fenced_bf16_n256, 16,
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
     32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
     64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
     96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120
     121 122 123 124 125 126 127]
);
