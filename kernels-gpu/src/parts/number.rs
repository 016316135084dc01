//! The element types of operands and of C, and what differs between them.

use cuda_std::arch::sm80::convert;
use cuda_std::memory::SharedAddress;
use gemm_spec::Accumulator;

use super::quad::{Pair, Quad};

/// An accumulator that is read from shared memory.
pub(crate) trait Shareable: Accumulator {
    /// Four neighbours, read here and not later, in 16 bytes an instruction.
    ///
    /// # Safety
    /// They are in shared memory at a multiple of 16 bytes, written before a barrier.
    unsafe fn four(at: SharedAddress<Self>) -> [Self; 4];
}

impl Shareable for f32 {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn four(at: SharedAddress<Self>) -> [Self; 4] {
        // SAFETY: the caller's promise.
        unsafe { at.read_quad() }
    }
}

impl Shareable for f64 {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn four(at: SharedAddress<Self>) -> [Self; 4] {
        let number = |low: u32, high: u32| Self::from_bits(u64::from(high) << 32 | u64::from(low));
        let at = at.cast::<u32>();
        // SAFETY: the caller's promise, for the first two.
        let [a, b, c, d] = unsafe { at.read_quad() };
        // SAFETY: the same, for the others.
        let [e, f, g, h] = unsafe { at.wrapping_add(4).read_quad() };
        [number(a, b), number(c, d), number(e, f), number(g, h)]
    }
}

/// A type of operands, and what it is in shared memory.
pub(crate) trait Loaded: Copy {
    /// What it is widened to.
    type Stored: Copy;
    /// Neighbours that one instruction reads: 16 bytes.
    type Packet: Copy;
    /// A packet that was not read.
    const EMPTY: Self::Packet;
    /// Elements of a packet.
    const PACKET: u32;
    /// Nothing.
    const ZERO: Self::Stored;
    /// Whether it stays what it is, so that copies need no registers.
    const IS_STORED: bool;

    /// The element as it is in shared memory.
    fn widen(self) -> Self::Stored;

    /// An element of a packet as it is there.
    fn of_packet(packet: &Self::Packet, at: usize) -> Self::Stored;
}

/// A type of operands whose products are summed in what it is widened to.
pub(crate) trait Input: Loaded<Stored = <Self as Input>::Acc> {
    /// The accumulators.
    type Acc: Shareable;
}

impl<T: Loaded<Stored: Shareable>> Input for T {
    type Acc = T::Stored;
}

/// The bits of a number of two bytes, which are copied as they are.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Bits(pub(crate) u16);

impl Loaded for Bits {
    type Stored = Self;
    type Packet = Octet;
    const EMPTY: Octet = Octet([0; 4]);
    const PACKET: u32 = 8;
    const ZERO: Self = Self(0);
    const IS_STORED: bool = true;

    #[inline(always)]
    fn widen(self) -> Self {
        self
    }

    #[inline(always)]
    fn of_packet(packet: &Octet, at: usize) -> Self {
        Self((packet.0[at / 2 % 4] >> (16 * (at % 2))) as u16)
    }
}

/// Eight neighbours of two bytes.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub(crate) struct Octet([u32; 4]);

impl Loaded for f32 {
    type Stored = Self;
    type Packet = Quad<Self>;
    const EMPTY: Quad<Self> = Quad([0.0; 4]);
    const PACKET: u32 = 4;
    const ZERO: Self = 0.0;
    const IS_STORED: bool = true;

    #[inline(always)]
    fn widen(self) -> Self {
        self
    }

    #[inline(always)]
    fn of_packet(packet: &Quad<Self>, at: usize) -> Self {
        packet.0[at % 4]
    }
}

impl Loaded for f64 {
    type Stored = Self;
    type Packet = Pair<Self>;
    const EMPTY: Pair<Self> = Pair([0.0; 2]);
    const PACKET: u32 = 2;
    const ZERO: Self = 0.0;
    const IS_STORED: bool = true;

    #[inline(always)]
    fn widen(self) -> Self {
        self
    }

    #[inline(always)]
    fn of_packet(packet: &Pair<Self>, at: usize) -> Self {
        packet.0[at % 2]
    }
}

/// Defines a type of 16 bits, as an operand and as C.
macro_rules! half {
    ($($(#[$doc:meta])* $half:ident: $pair:ident, $value:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        #[repr(transparent)]
        pub(crate) struct $half(u16);

        impl Loaded for $half {
            type Stored = f32;
            type Packet = Octet;
            const EMPTY: Octet = Octet([0; 4]);
            const PACKET: u32 = 8;
            const ZERO: f32 = 0.0;
            const IS_STORED: bool = false;

            #[inline(always)]
            fn widen(self) -> f32 {
                convert::$value(self.0)
            }

            #[inline(always)]
            fn of_packet(packet: &Octet, at: usize) -> f32 {
                let word = packet.0[at / 2 % 4];
                convert::$value(if at % 2 == 0 { word as u16 } else { (word >> 16) as u16 })
            }
        }

        impl Output for $half {
            type Acc = f32;
            type Four = Halves;
            type Two = u32;

            #[inline(always)]
            fn old(self) -> f32 {
                convert::$value(self.0)
            }

            #[inline(always)]
            fn narrow(value: f32) -> Self {
                Self(convert::$pair(value, 0.0) as u16)
            }

            #[inline(always)]
            fn two([first, second]: [f32; 2]) -> u32 {
                convert::$pair(first, second)
            }

            #[inline(always)]
            fn old_four(four: Halves) -> [f32; 4] {
                let half = |at: usize| (four.0[at / 2] >> (16 * (at % 2))) as u16;
                [0, 1, 2, 3].map(|at| convert::$value(half(at)))
            }

            #[inline(always)]
            fn four([v0, v1, v2, v3]: [f32; 4]) -> Halves {
                Halves([convert::$pair(v0, v1), convert::$pair(v2, v3)])
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

/// Four neighbours of two bytes.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Halves([u32; 2]);

/// Two neighbours of four or eight bytes.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Two<T>([T; 2]);

/// A type of C.
pub(crate) trait Output: Copy {
    /// What is rounded to it.
    type Acc: Accumulator;
    /// Four neighbours, which are written together.
    type Four: Copy;
    /// Two neighbours, which are written together.
    type Two: Copy;

    /// The element as an accumulator.
    fn old(self) -> Self::Acc;

    /// The element nearest to a sum.
    fn narrow(value: Self::Acc) -> Self;

    /// The elements nearest to two sums.
    fn two(values: [Self::Acc; 2]) -> Self::Two;

    /// Four neighbours as accumulators.
    fn old_four(four: Self::Four) -> [Self::Acc; 4];

    /// The elements nearest to four sums.
    fn four(values: [Self::Acc; 4]) -> Self::Four;
}

macro_rules! own {
    ($($acc:ident),+) => {$(
        impl Output for $acc {
            type Acc = Self;
            type Four = Quad<Self>;
            type Two = Two<Self>;

            #[inline(always)]
            fn old(self) -> Self {
                self
            }

            #[inline(always)]
            fn narrow(value: Self) -> Self {
                value
            }

            #[inline(always)]
            fn two(values: [Self; 2]) -> Two<Self> {
                Two(values)
            }

            #[inline(always)]
            fn old_four(four: Quad<Self>) -> [Self; 4] {
                four.0
            }

            #[inline(always)]
            fn four(values: [Self; 4]) -> Quad<Self> {
                Quad(values)
            }
        }
    )+};
}

own!(f32, f64);
