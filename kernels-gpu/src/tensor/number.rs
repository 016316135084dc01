//! The two 16-bit types, with a C of the same type or of f32, and what differs between them.

use core::marker::PhantomData;

use cuda_std::arch::sm80::convert;
use cuda_std::arch::sm90::wgmma::Descriptor;
use cuda_std::arch::sm90::{warpgroup, wgmma};
use cuda_std::memory::{Global, GlobalMut};
use gemm_spec::warpgroup::{ROW_BYTES, accumulator_coord, octet_of_step, swizzle_128b};

pub(super) use cuda_std::arch::sm90::wgmma::Accumulators;

use super::staging::StagingBuffer;
use crate::parts::quad::{F32Pair, Quad};
use crate::parts::unroll::unroll;

/// A type of operands, with that of C.
pub(super) trait Number {
    /// An element of C.
    type Stored: Copy + Default;

    /// Two of them, and four, as one instruction moves them.
    type Pair: Copy;
    type Quad: Copy;

    /// Columns of a subtile, in units of 16: chunks of eight accumulators that fill a staging buffer.
    const SUBTILE_N16: usize = (ROW_BYTES / 16) as usize / size_of::<Self::Stored>();

    /// Whether threads store two neighbours by one instruction where they can.
    const PAIRED: bool;

    /// The value of an element of C.
    fn value(stored: Self::Stored) -> f32;

    /// The element of C nearest to a value.
    fn stored(value: f32) -> Self::Stored;

    /// Stores two neighbours by one instruction; false if it does not, and then nothing is stored.
    ///
    /// # Safety
    /// Both elements are in C and belong to this thread.
    unsafe fn store_pair(at: GlobalMut<Self::Stored>, values: [f32; 2]) -> bool;

    /// Stores four neighbours by one instruction; false where that is impossible, and then nothing is
    /// stored.
    ///
    /// # Safety
    /// All four are in C and belong to this thread.
    unsafe fn store_quad(at: GlobalMut<Self::Stored>, values: [f32; 4]) -> bool;

    /// The values of two neighbours, read by one instruction.
    ///
    /// # Safety
    /// Both are valid, at a multiple of their size, and nobody writes them meanwhile.
    unsafe fn read_pair(at: Global<Self::Stored>) -> [f32; 2];

    /// Stores four neighbours by one instruction, at a multiple of their size.
    ///
    /// # Safety
    /// As of [`Number::store_quad`], and it is such a multiple.
    unsafe fn write_quad(at: GlobalMut<Self::Stored>, values: [f32; 4]);

    /// The values of four neighbours, read by one instruction.
    ///
    /// # Safety
    /// All four are in the matrix, at a multiple of their size, and nobody writes them meanwhile.
    unsafe fn read_quad(at: Global<Self::Stored>) -> [f32; 4];

    /// Fills a staging buffer with `alpha` times the accumulators from chunk `first` on.
    ///
    /// # Safety
    /// All threads of the warpgroup call it together, each with its own `thread_in_warpgroup`;
    /// nobody else uses the buffer.
    unsafe fn fill<const N16: usize>(
        buffer: &StagingBuffer,
        thread_in_warpgroup: u32,
        alpha: f32,
        acc: &Accumulators<N16>,
        first: usize,
    );
}

/// The `wgmma`s of a type with `N = 16 * N16`.
pub(super) trait Wgmma<const N16: usize>: Number {
    /// The first `wgmma` of a group, after `wgmma.fence`; with `ADD` false it starts from zero.
    ///
    /// # Safety
    /// Those of the instruction, see [`wgmma`].
    unsafe fn arrive_mma<const ADD: bool, const A_MN_MAJOR: bool, const B_MN_MAJOR: bool>(
        acc: &mut Accumulators<N16>,
        a: Descriptor,
        b: Descriptor,
    );

    /// A further `wgmma`.
    ///
    /// # Safety
    /// Those of the instruction, see [`wgmma`].
    unsafe fn mma<const A_MN_MAJOR: bool, const B_MN_MAJOR: bool>(
        acc: &mut Accumulators<N16>,
        a: Descriptor,
        b: Descriptor,
    );

    /// Waits until all groups but the newest `PENDING` have completed.
    ///
    /// # Safety
    /// All threads of the warpgroup call it together.
    unsafe fn wait<const PENDING: u32>(acc: &mut Accumulators<N16>);
}

/// Types of 16 bits with a C of the same type.
macro_rules! half {
    ($($(#[$doc:meta])* $half:ident: $pair:ident, $value:ident;)+) => {$(
        $(#[$doc])*
        pub(super) struct $half;

        impl Number for $half {
            type Stored = u16;
            type Pair = u32;
            type Quad = Packed;

            const PAIRED: bool = false;

            #[inline(always)]
            fn value(stored: u16) -> f32 {
                convert::$value(stored)
            }

            #[inline(always)]
            fn stored(value: f32) -> u16 {
                convert::$pair(value, 0.0) as u16
            }

            #[inline(always)]
            unsafe fn store_pair(_: GlobalMut<u16>, _: [f32; 2]) -> bool {
                false
            }

            #[inline(always)]
            unsafe fn store_quad(at: GlobalMut<u16>, values: [f32; 4]) -> bool {
                let aligned = at.cast::<Packed>().is_aligned();
                if aligned {
                    // SAFETY: the caller's promise, and it is aligned.
                    unsafe { Self::write_quad(at, values) };
                }
                aligned
            }

            #[inline(always)]
            unsafe fn write_quad(at: GlobalMut<u16>, [v0, v1, v2, v3]: [f32; 4]) {
                let packed = Packed([convert::$pair(v0, v1), convert::$pair(v2, v3)]);
                // SAFETY: the caller's promise.
                unsafe { at.cast::<Packed>().write(packed) };
            }

            #[inline(always)]
            unsafe fn read_pair(at: Global<u16>) -> [f32; 2] {
                // SAFETY: the caller's promise.
                let word = unsafe { at.cast::<u32>().read() };
                [convert::$value(word as u16), convert::$value((word >> 16) as u16)]
            }

            #[inline(always)]
            unsafe fn read_quad(at: Global<u16>) -> [f32; 4] {
                // SAFETY: the caller's promise.
                let Packed([first, second]) = unsafe { at.cast::<Packed>().read() };
                let value = |word: u32| {
                    [convert::$value(word as u16), convert::$value((word >> 16) as u16)]
                };
                let ([v0, v1], [v2, v3]) = (value(first), value(second));
                [v0, v1, v2, v3]
            }

            #[inline(always)]
            unsafe fn fill<const N16: usize>(
                buffer: &StagingBuffer,
                thread_in_warpgroup: u32,
                alpha: f32,
                acc: &Accumulators<N16>,
                first: usize,
            ) {
                // Lane l gives the address of row l % 8 of matrix l / 8: two matrices of rows, then
                // the next octet of columns.
                let (warp, lane) = (thread_in_warpgroup / 32, thread_in_warpgroup % 32);
                let row = 16 * warp + lane / 8 % 2 * 8 + lane % 8;
                let octet = lane / 16;
                unroll!(for G in 0..4 {
                    let chunk = &acc[(first + G) % N16];
                    let pair = |at: usize| convert::$pair(alpha * chunk[at], alpha * chunk[at + 1]);
                    let pairs = [pair(0), pair(2), pair(4), pair(6)];
                    let at = swizzle_128b(row * ROW_BYTES + (2 * G as u32 + octet) * 16);
                    // SAFETY: all lanes are here; each has a row of its own in the buffer.
                    unsafe {
                        warpgroup::stmatrix_x4(buffer.address.wrapping_add(at as usize), pairs);
                    }
                });
            }
        }
    )+};
}

half! {
    /// IEEE 754 binary16.
    F16: f16_pair, f16_value;
    /// The upper half of a binary32.
    Bf16: bf16_pair, bf16_value;
}

/// Four numbers of 16 bits, moved by one instruction.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Packed([u32; 2]);

/// Such a type with a C of f32.
pub(super) struct Wide<N>(PhantomData<N>);

impl<N> Number for Wide<N> {
    type Stored = f32;
    type Pair = F32Pair;
    type Quad = Quad<f32>;

    const PAIRED: bool = true;

    #[inline(always)]
    fn value(stored: f32) -> f32 {
        stored
    }

    #[inline(always)]
    fn stored(value: f32) -> f32 {
        value
    }

    #[inline(always)]
    unsafe fn store_pair(at: GlobalMut<f32>, values: [f32; 2]) -> bool {
        let at = at.cast::<F32Pair>();
        let aligned = at.is_aligned();
        if aligned {
            // SAFETY: the caller's promise.
            unsafe { at.write(F32Pair(values)) };
        }
        aligned
    }

    #[inline(always)]
    unsafe fn store_quad(at: GlobalMut<f32>, values: [f32; 4]) -> bool {
        let aligned = at.cast::<Quad<f32>>().is_aligned();
        if aligned {
            // SAFETY: the caller's promise, and it is aligned.
            unsafe { Self::write_quad(at, values) };
        }
        aligned
    }

    #[inline(always)]
    unsafe fn write_quad(at: GlobalMut<f32>, values: [f32; 4]) {
        // SAFETY: the caller's promise.
        unsafe { at.cast::<Quad<f32>>().write(Quad(values)) };
    }

    #[inline(always)]
    unsafe fn read_pair(at: Global<f32>) -> [f32; 2] {
        // SAFETY: the caller's promise.
        unsafe { at.cast::<F32Pair>().read() }.0
    }

    #[inline(always)]
    unsafe fn read_quad(at: Global<f32>) -> [f32; 4] {
        // SAFETY: the caller's promise.
        unsafe { at.cast::<Quad<f32>>().read() }.0
    }

    #[inline(always)]
    unsafe fn fill<const N16: usize>(
        buffer: &StagingBuffer,
        thread_in_warpgroup: u32,
        alpha: f32,
        acc: &Accumulators<N16>,
        first: usize,
    ) {
        let (row, col) = accumulator_coord(thread_in_warpgroup, 0);
        let [low, high] = [&acc[first % N16], &acc[(first + 1) % N16]];
        // Which chunk a step stores depends on the row. Registers cannot be indexed, so both are
        // selected.
        let [even, odd] = if row % 2 == 0 { [low, high] } else { [high, low] };
        unroll!(for S in 0..4 {
            let chunk = if S < 2 { even } else { odd };
            unroll!(for H in 0..2 {
                let (row, at) = (row + 8 * H as u32, 4 * (S % 2) + 2 * H);
                let byte = row * ROW_BYTES + (8 * octet_of_step(row, S as u32) + col) * 4;
                let place = buffer.view.wrapping_add(swizzle_128b(byte) as usize);
                // SAFETY: the element belongs to this thread.
                unsafe {
                    place
                        .cast::<F32Pair>()
                        .write(F32Pair([alpha * chunk[at], alpha * chunk[at + 1]]));
                }
            });
        });
    }
}

macro_rules! wgmmas {
    ($($number:ty, $n16:literal: $mma:ident, $arrive:ident, $wait:ident;)+) => {$(
        impl Wgmma<$n16> for $number {
            #[inline(always)]
            unsafe fn arrive_mma<const ADD: bool, const A_MN_MAJOR: bool, const B_MN_MAJOR: bool>(
                acc: &mut Accumulators<$n16>,
                a: Descriptor,
                b: Descriptor,
            ) {
                // SAFETY: the caller's promises.
                unsafe { wgmma::$arrive::<ADD, A_MN_MAJOR, B_MN_MAJOR>(acc, a, b) };
            }

            #[inline(always)]
            unsafe fn mma<const A_MN_MAJOR: bool, const B_MN_MAJOR: bool>(
                acc: &mut Accumulators<$n16>,
                a: Descriptor,
                b: Descriptor,
            ) {
                // SAFETY: the caller's promises.
                unsafe { wgmma::$mma::<true, A_MN_MAJOR, B_MN_MAJOR>(acc, a, b) };
            }

            #[inline(always)]
            unsafe fn wait<const PENDING: u32>(acc: &mut Accumulators<$n16>) {
                // SAFETY: the caller's promise.
                unsafe { wgmma::$wait::<PENDING>(acc) };
            }
        }
    )+};
}

wgmmas! {
    F16, 4: m64n64k16_f32_f16_f16, arrive_m64n64k16_f32_f16_f16, wait_group_n64;
    F16, 8: m64n128k16_f32_f16_f16, arrive_m64n128k16_f32_f16_f16, wait_group_n128;
    F16, 10: m64n160k16_f32_f16_f16, arrive_m64n160k16_f32_f16_f16, wait_group_n160;
    F16, 12: m64n192k16_f32_f16_f16, arrive_m64n192k16_f32_f16_f16, wait_group_n192;
    F16, 16: m64n256k16_f32_f16_f16, arrive_m64n256k16_f32_f16_f16, wait_group_n256;
    Bf16, 4: m64n64k16_f32_bf16_bf16, arrive_m64n64k16_f32_bf16_bf16, wait_group_n64;
    Bf16, 8: m64n128k16_f32_bf16_bf16, arrive_m64n128k16_f32_bf16_bf16, wait_group_n128;
    Bf16, 10: m64n160k16_f32_bf16_bf16, arrive_m64n160k16_f32_bf16_bf16, wait_group_n160;
    Bf16, 12: m64n192k16_f32_bf16_bf16, arrive_m64n192k16_f32_bf16_bf16, wait_group_n192;
    Bf16, 16: m64n256k16_f32_bf16_bf16, arrive_m64n256k16_f32_bf16_bf16, wait_group_n256;
}

impl<N: Wgmma<N16>, const N16: usize> Wgmma<N16> for Wide<N> {
    #[inline(always)]
    unsafe fn arrive_mma<const ADD: bool, const A_MN_MAJOR: bool, const B_MN_MAJOR: bool>(
        acc: &mut Accumulators<N16>,
        a: Descriptor,
        b: Descriptor,
    ) {
        // SAFETY: the caller's promises.
        unsafe { N::arrive_mma::<ADD, A_MN_MAJOR, B_MN_MAJOR>(acc, a, b) };
    }

    #[inline(always)]
    unsafe fn mma<const A_MN_MAJOR: bool, const B_MN_MAJOR: bool>(
        acc: &mut Accumulators<N16>,
        a: Descriptor,
        b: Descriptor,
    ) {
        // SAFETY: the caller's promises.
        unsafe { N::mma::<A_MN_MAJOR, B_MN_MAJOR>(acc, a, b) };
    }

    #[inline(always)]
    unsafe fn wait<const PENDING: u32>(acc: &mut Accumulators<N16>) {
        // SAFETY: the caller's promise.
        unsafe { N::wait::<PENDING>(acc) };
    }
}
