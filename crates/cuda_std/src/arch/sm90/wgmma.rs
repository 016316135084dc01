//! `wgmma`: asynchronous matrix multiply-accumulate by a warpgroup.
//!
//! 128 threads multiply a 64 x 16 tile of A by a 16 x N tile of B, both in shared memory, and add the
//! product to accumulators in their registers. The instruction only starts the work; the threads go on.
//!
//! ```text
//!  arrive_m64n128k16_f32_f16_f16(..)   wgmma.fence, then the first instruction of a group
//!  m64n128k16_f32_f16_f16(..) ...      further ones, executed in order, on the same accumulators
//!  commit_group()                      closes the group
//!  wait_group_n128::<0>(..)            the group has completed: accumulators may be read, tiles overwritten
//! ```
//!
//! `gemm_spec::warpgroup` maps tiles to shared memory, descriptors and accumulator registers.
//!
//! Between a fence and the wait no other instruction may access the accumulators. Rust cannot state that:
//! the compiler may insert moves between two `asm!` blocks. ptxas sees them, serialises the `wgmma`s and
//! warns (C7510 and its kin), and `cargo xtask check-ptx` rejects a module with such a warning.

#[cfg(target_arch = "nvptx64")]
use core::arch::asm;
use core::ops::Add;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate;

/// The accumulators of a thread for an instruction with `N = 16 * N16`: `8 * N16` registers.
///
/// An array of small arrays: LLVM keeps those in registers at any size, and a plain array only up to one.
pub type Accumulators<const N16: usize> = [[f32; 8]; N16];

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

/// The tile that begins `units` of 16 bytes further on.
impl Add<u64> for Descriptor {
    type Output = Self;

    #[inline(always)]
    fn add(self, units: u64) -> Self {
        Self(self.0 + units)
    }
}

/// Closes a group of the instructions since the last one: `wgmma.commit_group.sync.aligned;`.
///
/// # Safety
/// All threads of the warpgroup call it together.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn commit_group() {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: the caller's promise is the instruction's.
        unsafe { asm!("wgmma.commit_group.sync.aligned;", options(nostack)) };
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        emulate::commit_products();
    }
}

/// Defines the wait for one number of accumulators.
macro_rules! wait {
    ($wait:ident, $n16:literal, [$first:literal $($register:literal)*]) => {
        /// Waits until all groups but the newest `PENDING` have completed: `wgmma.wait_group.sync.aligned PENDING;`.
        ///
        /// # Safety
        /// All threads of the warpgroup call it together.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $wait<const PENDING: u32>(acc: &mut Accumulators<$n16>) {
            #[cfg(target_arch = "nvptx64")]
            {
                // The accumulators are operands so that no read of them can move before the wait.
                // SAFETY: the caller's promise is the instruction's.
                unsafe {
                    asm!(
                        concat!(
                            "wgmma.wait_group.sync.aligned {pending}; // {", $first, "}"
                            $(, " {", $register, "}")*
                        ),
                        inout(reg32) acc[$first / 8][$first % 8],
                        $(inout(reg32) acc[$register / 8][$register % 8],)*
                        pending = const PENDING,
                        options(nostack)
                    );
                }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                emulate::wait_products(PENDING, acc);
            }
        }
    };
}

/// Defines the two forms of an instruction.
macro_rules! instruction {
    (
        $(#[$doc:meta])* $name:ident, $arrive:ident,
        $factor:ident, $instruction:expr, $n16:literal, [$first:literal $($register:literal)*]
    ) => {
        instruction!(@form
            $(#[$doc])* #[doc = concat!("`", $instruction, "`.")]
            ///
            /// With `ADD` false the accumulators' old values are ignored (`scale-d` is 0). Tiles are
            /// K-major, or with `A_MN_MAJOR` M-major and with `B_MN_MAJOR` N-major.
            ///
            /// # Safety
            /// 1. All threads of the warpgroup call it together, with the same descriptors.
            /// 2. The descriptors name tiles in the block's shared memory that are written, visible to
            ///    the async proxy, and unchanged until a wait has covered this instruction.
            /// 3. Between a fence and the wait only instructions of this form access the accumulators.
            $name, "", $factor, $instruction, $n16, [$first $($register)*]);
        instruction!(@form
            #[doc = concat!("[`", stringify!($name), "`] after `wgmma.fence.sync.aligned`, which orders")]
            /// earlier accesses to the accumulators (CUTLASS's `warpgroup_arrive`). One `asm!` block, so
            /// that the compiler can insert nothing between the two.
            ///
            /// # Safety
            #[doc = concat!("Those of [`", stringify!($name), "`].")]
            $arrive, "wgmma.fence.sync.aligned;\n", $factor, $instruction, $n16, [$first $($register)*]);
    };
    (
        @form $(#[$doc:meta])* $name:ident, $before:literal, $factor:ident, $instruction:expr,
        $n16:literal,
        [$first:literal $($register:literal)*]
    ) => {
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name<const ADD: bool, const A_MN_MAJOR: bool, const B_MN_MAJOR: bool>(
            acc: &mut Accumulators<$n16>,
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
                            "}}, {a}, {b}, {add}, 1, 1, {a_mn_major}, {b_mn_major};"
                        ),
                        inout(reg32) acc[$first / 8][$first % 8],
                        $(inout(reg32) acc[$register / 8][$register % 8],)*
                        a = in(reg64) a.0,
                        b = in(reg64) b.0,
                        add = const ADD as u32,
                        a_mn_major = const A_MN_MAJOR as u32,
                        b_mn_major = const B_MN_MAJOR as u32,
                        options(nostack)
                    );
                }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let product = emulate::Product {
                    factor: emulate::Factor::$factor,
                    a: a.0,
                    b: b.0,
                    add: ADD,
                    mn_major: [A_MN_MAJOR, B_MN_MAJOR],
                    fence: !$before.is_empty(),
                };
                emulate::multiply(product, acc);
            }
        }
    };
}

/// Defines the wait and the instructions for one N.
macro_rules! instructions {
    ($n:literal: $wait:ident, $f16:ident, $arrive_f16:ident, $bf16:ident, $arrive_bf16:ident,
     $n16:literal, $registers:tt) => {
        wait!($wait, $n16, $registers);
        instruction!(
            #[doc = concat!("Multiplies 64 x 16 by 16 x ", $n, " elements of f16, accumulating in f32:")]
            $f16,
            $arrive_f16,
            F16,
            concat!("wgmma.mma_async.sync.aligned.m64n", $n, "k16.f32.f16.f16"),
            $n16,
            $registers
        );
        instruction!(
            #[doc = concat!("Multiplies 64 x 16 by 16 x ", $n, " elements of bf16, accumulating in f32:")]
            $bf16,
            $arrive_bf16,
            Bf16,
            concat!("wgmma.mma_async.sync.aligned.m64n", $n, "k16.f32.bf16.bf16"),
            $n16,
            $registers
        );
    };
}

instructions!(
    64: wait_group_n64,
    m64n64k16_f32_f16_f16, arrive_m64n64k16_f32_f16_f16,
    m64n64k16_f32_bf16_bf16, arrive_m64n64k16_f32_bf16_bf16, 4,
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31]
);
instructions!(
    128: wait_group_n128,
    m64n128k16_f32_f16_f16, arrive_m64n128k16_f32_f16_f16,
    m64n128k16_f32_bf16_bf16, arrive_m64n128k16_f32_bf16_bf16, 8,
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
     32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63]
);
instructions!(
    160: wait_group_n160,
    m64n160k16_f32_f16_f16, arrive_m64n160k16_f32_f16_f16,
    m64n160k16_f32_bf16_bf16, arrive_m64n160k16_f32_bf16_bf16, 10,
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
     32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
     64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79]
);
instructions!(
    192: wait_group_n192,
    m64n192k16_f32_f16_f16, arrive_m64n192k16_f32_f16_f16,
    m64n192k16_f32_bf16_bf16, arrive_m64n192k16_f32_bf16_bf16, 12,
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34
     35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65
     66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95]
);
instructions!(
    256: wait_group_n256,
    m64n256k16_f32_f16_f16, arrive_m64n256k16_f32_f16_f16,
    m64n256k16_f32_bf16_bf16, arrive_m64n256k16_f32_bf16_bf16, 16,
    [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
     32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
     64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
     96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120
     121 122 123 124 125 126 127]
);
