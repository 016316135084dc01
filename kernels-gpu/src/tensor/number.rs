//! The two 16-bit types, as elements of C too or with a C of f32, and what differs between them.

use core::marker::PhantomData;

use cuda_std::arch::sm90::wgmma::Descriptor;
use cuda_std::arch::sm90::{convert, warpgroup, wgmma};
use cuda_std::memory::GlobalMut;
use gemm_spec::warpgroup::{ROW_BYTES, accumulator_coord, octet_of_step, swizzle_128b};

pub(super) use cuda_std::arch::sm90::wgmma::Accumulators;

use super::store::{Pair, Piece};
use crate::parts::unroll::unroll;

/// A type of factors, with that of C.
pub(super) trait Number {
    /// An element of C.
    type Stored: Copy + Default;

    /// Eights of registers with the sums of a piece: 16 columns of C each.
    const EIGHTS: usize = (ROW_BYTES / 16) as usize / size_of::<Self::Stored>();

    /// Whether threads store two neighbours by one instruction where they can.
    const PAIRED: bool;

    /// The value of an element of C.
    fn value(stored: Self::Stored) -> f32;

    /// The element of C nearest to a value.
    fn stored(value: f32) -> Self::Stored;

    /// Stores two neighbours by one instruction; false where it does not and nothing is stored.
    ///
    /// # Safety
    /// Both elements lie in C, and nobody else has them.
    unsafe fn store_pair(at: GlobalMut<Self::Stored>, values: [f32; 2]) -> bool;

    /// Fills a piece with `alpha` times the sums from eight `first` on.
    ///
    /// # Safety
    /// All threads of the warpgroup call it together, each as its `member`; nobody else uses the piece.
    unsafe fn fill<const EIGHTS: usize>(
        piece: &Piece,
        member: u32,
        alpha: f32,
        sums: &Accumulators<EIGHTS>,
        first: usize,
    );
}

/// The products of a type whose sums a thread holds in `EIGHTS * 8` registers.
pub(super) trait Products<const EIGHTS: usize>: Number {
    /// A product behind a fence; with `ADD` false it begins the sum.
    ///
    /// # Safety
    /// Those of the instruction, see [`wgmma`].
    unsafe fn fenced<const ADD: bool, const A_MN_MAJOR: bool, const B_MN_MAJOR: bool>(
        sums: &mut Accumulators<EIGHTS>,
        a: Descriptor,
        b: Descriptor,
    );

    /// A further product.
    ///
    /// # Safety
    /// Those of the instruction, see [`wgmma`].
    unsafe fn add<const A_MN_MAJOR: bool, const B_MN_MAJOR: bool>(
        sums: &mut Accumulators<EIGHTS>,
        a: Descriptor,
        b: Descriptor,
    );

    /// Waits until all groups but the youngest `PENDING` have ended.
    ///
    /// # Safety
    /// All threads of the warpgroup call it together.
    unsafe fn wait<const PENDING: u32>(sums: &mut Accumulators<EIGHTS>);
}

/// Types of 16 bits with a C of the same type.
macro_rules! half {
    ($($(#[$doc:meta])* $half:ident: $pair:ident, $value:ident;)+) => {$(
        $(#[$doc])*
        pub(super) struct $half;

        impl Number for $half {
            type Stored = u16;

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
            unsafe fn fill<const EIGHTS: usize>(
                piece: &Piece,
                member: u32,
                alpha: f32,
                sums: &Accumulators<EIGHTS>,
                first: usize,
            ) {
                // Lane l names row l % 8 of matrix l / 8: two matrices of rows, then the next octet
                // of columns.
                let (own_warp, lane) = (member / 32, member % 32);
                let row = 16 * own_warp + lane / 8 % 2 * 8 + lane % 8;
                let octet = lane / 16;
                unroll!(for G in 0..4 {
                    let eight = &sums[(first + G) % EIGHTS];
                    let pair = |at: usize| convert::$pair(alpha * eight[at], alpha * eight[at + 1]);
                    let pairs = [pair(0), pair(2), pair(4), pair(6)];
                    let at = swizzle_128b(row * ROW_BYTES + (2 * G as u32 + octet) * 16);
                    // SAFETY: all lanes are here; each has a row of its own in the piece.
                    unsafe {
                        warpgroup::stmatrix_x4(piece.at.wrapping_add(at as usize), pairs);
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

/// Such a type with a C of f32.
pub(super) struct Wide<N>(PhantomData<N>);

impl<N> Number for Wide<N> {
    type Stored = f32;

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
        let at = at.cast::<Pair>();
        let aligned = at.is_aligned();
        if aligned {
            // SAFETY: the caller's promise.
            unsafe { at.write(Pair(values)) };
        }
        aligned
    }

    #[inline(always)]
    unsafe fn fill<const EIGHTS: usize>(
        piece: &Piece,
        member: u32,
        alpha: f32,
        sums: &Accumulators<EIGHTS>,
        first: usize,
    ) {
        let (row, col) = accumulator_coord(member, 0);
        let [low, high] = [&sums[first % EIGHTS], &sums[(first + 1) % EIGHTS]];
        // Which eight a step takes follows from the row: registers have no index, so both are named.
        let [even, odd] = if row % 2 == 0 { [low, high] } else { [high, low] };
        unroll!(for S in 0..4 {
            let eight = if S < 2 { even } else { odd };
            unroll!(for H in 0..2 {
                let (row, at) = (row + 8 * H as u32, 4 * (S % 2) + 2 * H);
                let byte = row * ROW_BYTES + (8 * octet_of_step(row, S as u32) + col) * 4;
                let place = piece.place.wrapping_add(swizzle_128b(byte) as usize);
                // SAFETY: the place is this thread's own.
                unsafe {
                    place.cast::<Pair>().write(Pair([alpha * eight[at], alpha * eight[at + 1]]));
                }
            });
        });
    }
}

macro_rules! products {
    ($($number:ty, $eights:literal: $add:ident, $fenced:ident, $wait:ident;)+) => {$(
        impl Products<$eights> for $number {
            #[inline(always)]
            unsafe fn fenced<const ADD: bool, const A_MN_MAJOR: bool, const B_MN_MAJOR: bool>(
                sums: &mut Accumulators<$eights>,
                a: Descriptor,
                b: Descriptor,
            ) {
                // SAFETY: the caller's promises.
                unsafe { wgmma::$fenced::<ADD, A_MN_MAJOR, B_MN_MAJOR>(sums, a, b) };
            }

            #[inline(always)]
            unsafe fn add<const A_MN_MAJOR: bool, const B_MN_MAJOR: bool>(
                sums: &mut Accumulators<$eights>,
                a: Descriptor,
                b: Descriptor,
            ) {
                // SAFETY: the caller's promises.
                unsafe { wgmma::$add::<true, A_MN_MAJOR, B_MN_MAJOR>(sums, a, b) };
            }

            #[inline(always)]
            unsafe fn wait<const PENDING: u32>(sums: &mut Accumulators<$eights>) {
                // SAFETY: the caller's promise.
                unsafe { wgmma::$wait::<PENDING>(sums) };
            }
        }
    )+};
}

products! {
    F16, 8: m64n128k16_f32_f16_f16, arrive_m64n128k16_f32_f16_f16, wait_group_n128;
    F16, 16: m64n256k16_f32_f16_f16, arrive_m64n256k16_f32_f16_f16, wait_group_n256;
    Bf16, 8: m64n128k16_f32_bf16_bf16, arrive_m64n128k16_f32_bf16_bf16, wait_group_n128;
    Bf16, 16: m64n256k16_f32_bf16_bf16, arrive_m64n256k16_f32_bf16_bf16, wait_group_n256;
}

impl<N: Products<EIGHTS>, const EIGHTS: usize> Products<EIGHTS> for Wide<N> {
    #[inline(always)]
    unsafe fn fenced<const ADD: bool, const A_MN_MAJOR: bool, const B_MN_MAJOR: bool>(
        sums: &mut Accumulators<EIGHTS>,
        a: Descriptor,
        b: Descriptor,
    ) {
        // SAFETY: the caller's promises.
        unsafe { N::fenced::<ADD, A_MN_MAJOR, B_MN_MAJOR>(sums, a, b) };
    }

    #[inline(always)]
    unsafe fn add<const A_MN_MAJOR: bool, const B_MN_MAJOR: bool>(
        sums: &mut Accumulators<EIGHTS>,
        a: Descriptor,
        b: Descriptor,
    ) {
        // SAFETY: the caller's promises.
        unsafe { N::add::<A_MN_MAJOR, B_MN_MAJOR>(sums, a, b) };
    }

    #[inline(always)]
    unsafe fn wait<const PENDING: u32>(sums: &mut Accumulators<EIGHTS>) {
        // SAFETY: the caller's promise.
        unsafe { N::wait::<PENDING>(sums) };
    }
}
