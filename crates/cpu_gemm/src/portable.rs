//! A register as an array: for any element type, and for CPUs that have no file of their own here.
//!
//! The compiler makes of the loops over lanes what the target has; compiled for AVX-512 the array of
//! sixteen `i32` is one register.

use gemm_spec::Accumulator;

use crate::kernels::{self, InstructionSet, compiled_for};
use crate::pack::{self, Pack};
use crate::parts::Parts;
use crate::rounding::{self, Rounded};
use crate::tile::Tile;
use crate::vector::{PartsVector, Vector};

/// No instruction set in particular: what the build's baseline has.
pub(crate) struct Portable;

impl InstructionSet for Portable {
    const VECTORS: usize = 2;
    const COLS: usize = 4;
    compiled_for!();
}

/// `N` elements.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<T, const N: usize>([T; N]);

impl<T: Accumulator, const N: usize> Vector for Lanes<T, N> {
    type Element = T;
    type Mask = usize;
    const LANES: usize = N;

    #[inline(always)]
    unsafe fn splat(value: T) -> Self {
        Self([value; N])
    }

    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: the caller says that `N` elements can be read; an array asks for no more alignment
        // than its elements.
        Self(unsafe { from.cast::<[T; N]>().read() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: the caller says that `N` elements can be written.
        unsafe { to.cast::<[T; N]>().write(self.0) }
    }

    #[inline(always)]
    unsafe fn mask(lanes: usize) -> usize {
        lanes
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const T, lanes: usize) -> Self {
        let mut all = [T::ZERO; N];
        for (lane, value) in all.iter_mut().enumerate().take(lanes) {
            // SAFETY: one of the first `lanes` elements, which are there.
            let from = unsafe { from.add(lane) };
            // SAFETY: the caller says that it can be read.
            *value = unsafe { from.read() };
        }
        Self(all)
    }

    #[inline(always)]
    unsafe fn store_masked(self, to: *mut T, lanes: usize) {
        for (lane, value) in self.0.into_iter().enumerate().take(lanes) {
            // SAFETY: one of the first `lanes` elements, which are there.
            let to = unsafe { to.add(lane) };
            // SAFETY: the caller says that it can be written.
            unsafe { to.write(value) }
        }
    }

    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        let mut lanes = self.0;
        for (lane, value) in lanes.iter_mut().enumerate() {
            *value = value.mul_add(b.0[lane], c.0[lane]);
        }
        Self(lanes)
    }

    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        let mut lanes = self.0;
        for (lane, value) in lanes.iter_mut().enumerate() {
            *value = value.mul(b.0[lane]);
        }
        Self(lanes)
    }

    const SIDE: usize = 1;

    #[inline(always)]
    unsafe fn transpose(from: *const T, _: usize, to: *mut T, _: usize) {
        // SAFETY: the caller says that the element can be read.
        let element = unsafe { from.read() };
        // SAFETY: the caller says that it can be written.
        unsafe { to.write(element) }
    }
}

impl<T: Parts, const N: usize> PartsVector for Lanes<T, N> {
    #[inline(always)]
    unsafe fn exchange_parts(self) -> Self {
        let mut lanes = self.0;
        for pair in lanes.chunks_exact_mut(2) {
            pair.swap(0, 1);
        }
        Self(lanes)
    }

    #[inline(always)]
    unsafe fn change_signs(self, signs: Self) -> Self {
        let mut lanes = self.0;
        for (lane, sign) in lanes.iter_mut().zip(signs.0) {
            *lane = if sign.has_sign() { -*lane } else { *lane };
        }
        Self(lanes)
    }

    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        let mut lanes = self.0;
        for (lane, divisor) in lanes.iter_mut().zip(b.0) {
            *lane = *lane / divisor;
        }
        Self(lanes)
    }
}
