//! Pointers of a kernel, one type for each kind of memory.
//!
//! On the device they are plain pointers, so a kernel's PTX is what it would be without them. On the
//! host they are types of their own with the names of a pointer's methods: a read or a write through
//! them goes through the checks of the [emulator](crate::emulate), which knows what a device does
//! not: bounds, who touched a word, and from which source line.
//!
//! ```
//! use cuda_std::memory::{Global, GlobalMut};
//!
//! /// # Safety
//! /// `from` and `to` are valid for `at + 1` elements, and no other thread has this `at`.
//! unsafe fn copy(from: Global<f32>, to: GlobalMut<f32>, at: usize) {
//!     // SAFETY: the caller's promise.
//!     unsafe { to.wrapping_add(at).write(from.wrapping_add(at).read()) };
//! }
//! ```

use core::marker::PhantomData;

#[cfg(not(target_arch = "nvptx64"))]
use crate::emulate::{self, AccessKind, check_global, check_shared, check_value};

/// Global memory that a kernel only reads; [`global`] makes it.
#[cfg(target_arch = "nvptx64")]
pub type Global<T> = *const T;

/// Global memory that a kernel writes; [`global_mut`] makes it.
#[cfg(target_arch = "nvptx64")]
pub type GlobalMut<T> = *mut T;

/// Memory that the threads of one block share; [`launch_sized`](crate::shared::launch_sized) gives
/// it.
#[cfg(target_arch = "nvptx64")]
pub type Shared<T> = *mut T;

/// Shared memory that this place of the kernel only reads; `Shared::cast_const` makes it.
#[cfg(target_arch = "nvptx64")]
pub type SharedConst<T> = *const T;

/// Views a kernel's parameter as memory that it only reads.
///
/// # Safety
/// What is read through the view is in memory that is valid for reads in the whole launch.
#[inline(always)]
#[must_use]
pub unsafe fn global<T>(pointer: *const T) -> Global<T> {
    #[cfg(target_arch = "nvptx64")]
    {
        pointer
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        Global(pointer)
    }
}

/// Views a kernel's parameter as memory that it writes.
///
/// # Safety
/// What is read and written through the view is in memory that is valid for both in the whole
/// launch.
#[inline(always)]
#[must_use]
pub unsafe fn global_mut<T>(pointer: *mut T) -> GlobalMut<T> {
    #[cfg(target_arch = "nvptx64")]
    {
        pointer
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        GlobalMut(pointer)
    }
}

/// The view of an operand that is never read.
#[inline(always)]
#[must_use]
pub fn null<T>() -> Global<T> {
    #[cfg(target_arch = "nvptx64")]
    {
        core::ptr::null()
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        Global(core::ptr::null())
    }
}

/// Defines a view for the host, with the methods that all three have.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident, $pointer:ty, $check:ident) => {
        $(#[$doc])*
        #[cfg(not(target_arch = "nvptx64"))]
        #[derive(Debug)]
        #[repr(transparent)]
        pub struct $name<T>(pub(crate) $pointer);

        #[cfg(not(target_arch = "nvptx64"))]
        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        #[cfg(not(target_arch = "nvptx64"))]
        impl<T> Copy for $name<T> {}

        #[cfg(not(target_arch = "nvptx64"))]
        impl<T> $name<T> {
            /// The place `elements` further on, inside the memory or not.
            #[inline(always)]
            #[must_use]
            pub fn wrapping_add(self, elements: usize) -> Self {
                Self(self.0.wrapping_add(elements))
            }

            /// The place `elements` further on, inside the memory.
            ///
            /// # Safety
            /// That element and all before it are in the memory that the view was made for. On the
            /// host a broken promise is harmless here and found at the access.
            #[inline(always)]
            #[must_use]
            pub unsafe fn add(self, elements: usize) -> Self {
                self.wrapping_add(elements)
            }

            /// The same place, as another type.
            #[inline(always)]
            #[must_use]
            pub fn cast<U>(self) -> $name<U> {
                $name(self.0.cast())
            }

            /// Whether the place suits the alignment of `T`.
            #[inline(always)]
            #[must_use]
            pub fn is_aligned(self) -> bool {
                self.0.is_aligned()
            }

            /// Reads the element here.
            ///
            /// # Safety
            /// 1. It is in the view's memory, at an address that suits `T`.
            /// 2. It has been written, and if by another thread of this launch, a barrier
            ///    separates the two.
            #[inline(always)]
            #[track_caller]
            #[must_use]
            pub unsafe fn read(self) -> T {
                let place = $check::<T>(self.0, AccessKind::Read);
                // SAFETY: the caller's promise, of which the check has tested what it can.
                unsafe { place.read() }
            }
        }
    };
}

/// Defines the method of a view that writes.
macro_rules! view_mut {
    ($name:ident, $check:ident, $is_result:literal) => {
        #[cfg(not(target_arch = "nvptx64"))]
        impl<T> $name<T> {
            /// Writes the element here.
            ///
            /// # Safety
            /// 1. It is in the view's memory, at an address that suits `T`.
            /// 2. A barrier separates this from every access to it by another thread.
            #[inline(always)]
            #[track_caller]
            pub unsafe fn write(self, value: T) {
                let place = $check::<T>(self.0, AccessKind::Write).cast_mut();
                check_value(&value, $is_result);
                // SAFETY: the caller's promise, of which the check has tested what it can.
                unsafe { place.write(value) };
            }
        }
    };
}

view!(/// Global memory that a kernel only reads; [`global`] makes it.
    Global, *const T, check_global);
view!(/// Global memory that a kernel writes; [`global_mut`] makes it.
    GlobalMut, *mut T, check_global);
view!(/// Memory that the threads of one block share;
    /// [`launch_sized`](crate::shared::launch_sized) gives it.
    Shared, *mut T, check_shared);
view!(/// Shared memory that this place of the kernel only reads; [`Shared::cast_const`] makes it.
    SharedConst, *const T, check_shared);
view_mut!(GlobalMut, check_global, true);
view_mut!(Shared, check_shared, false);

#[cfg(not(target_arch = "nvptx64"))]
impl<T> Shared<T> {
    /// The same place, for reading only.
    #[inline(always)]
    #[must_use]
    pub fn cast_const(self) -> SharedConst<T> {
        SharedConst(self.0)
    }
}

/// A place in shared memory as the instructions of [`arch`](crate::arch) take it: its 32-bit address in
/// the block's shared window. On the host the window is the emulator's.
pub struct SharedAddress<T> {
    address: u32,
    element: PhantomData<*mut T>,
}

impl<T> Clone for SharedAddress<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SharedAddress<T> {}

impl<T> PartialEq for SharedAddress<T> {
    #[inline(always)]
    fn eq(&self, other: &Self) -> bool {
        self.address == other.address
    }
}

impl<T> SharedAddress<T> {
    /// The address of a place: `cvta.to.shared.u64`.
    #[inline(always)]
    #[must_use]
    pub fn new(place: Shared<T>) -> Self {
        #[cfg(target_arch = "nvptx64")]
        {
            let address: u64;
            // SAFETY: arithmetic on an address, whatever it is.
            unsafe {
                core::arch::asm!(
                    "cvta.to.shared.u64 {address}, {place};",
                    address = out(reg64) address,
                    place = in(reg64) place,
                    options(pure, nomem, nostack)
                );
            }
            #[expect(
                clippy::cast_possible_truncation,
                reason = "an address of the shared window, which has 32 bits"
            )]
            let address = address as u32;
            Self::from_address(address)
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            Self::from_address(emulate::window_address(place.0.cast()))
        }
    }

    /// The address `elements` further on.
    #[inline(always)]
    #[must_use]
    pub fn wrapping_add(self, elements: usize) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "the window is addressed modulo 2^32")]
        let bytes = elements.wrapping_mul(size_of::<T>()) as u32;
        Self::from_address(self.address.wrapping_add(bytes))
    }

    /// The address that differs in the bits of `bytes`: what a swizzle makes of it.
    #[inline(always)]
    #[must_use]
    pub fn xor(self, bytes: u32) -> Self {
        Self::from_address(self.address ^ bytes)
    }

    /// The same address, as another type.
    #[inline(always)]
    #[must_use]
    pub fn cast<U>(self) -> SharedAddress<U> {
        SharedAddress::from_address(self.address)
    }

    /// The address itself, in bytes of the shared window.
    #[inline(always)]
    #[must_use]
    pub fn get(self) -> u32 {
        self.address
    }

    #[inline(always)]
    fn from_address(address: u32) -> Self {
        Self { address, element: PhantomData }
    }

    /// The place as the emulator reaches it.
    #[cfg(not(target_arch = "nvptx64"))]
    #[inline(always)]
    pub(crate) fn place(self) -> Shared<T> {
        Shared(emulate::window_place(self.address).cast())
    }
}

impl SharedAddress<f64> {
    /// Reads an element by one instruction, here and not later: `ld.shared.b64`; see
    /// [`SharedAddress::read_quad`].
    ///
    /// # Safety
    /// 1. It is in the block's shared memory, at a multiple of 8.
    /// 2. It has been written, and if by another thread, a barrier separates the two.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub unsafe fn read_double(self) -> f64 {
        #[cfg(target_arch = "nvptx64")]
        {
            let value: f64;
            // SAFETY: the caller's promise.
            unsafe {
                core::arch::asm!(
                    "ld.shared.b64 {value}, [{address}];",
                    value = out(reg64) value,
                    address = in(reg32) self.address,
                    options(readonly, nostack)
                );
            }
            value
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            // SAFETY: the caller's promise.
            unsafe { self.place().read() }
        }
    }
}

/// Defines a read of a number of that many bits.
macro_rules! read_number {
    ($number:ident, $register:ident, $bytes:literal, $ptx:literal) => {
        impl SharedAddress<$number> {
            #[doc = concat!("Reads an element by one instruction, here and not later: `", $ptx, "`; see")]
            /// [`SharedAddress::read_quad`].
            ///
            /// # Safety
            #[doc = concat!("1. It is in the block's shared memory, at a multiple of ", $bytes, ".")]
            /// 2. It has been written, and if by another thread, a barrier separates the two.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            #[must_use]
            pub unsafe fn read(self) -> $number {
                #[cfg(target_arch = "nvptx64")]
                {
                    let value: $number;
                    // SAFETY: the caller's promise.
                    unsafe {
                        core::arch::asm!(
                            concat!($ptx, " {value}, [{address}];"),
                            value = out($register) value,
                            address = in(reg32) self.address,
                            options(readonly, nostack)
                        );
                    }
                    value
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    // SAFETY: the caller's promise.
                    unsafe { self.place().read() }
                }
            }
        }
    };
}

read_number!(u16, reg16, "2", "ld.shared.b16");
read_number!(u32, reg32, "4", "ld.shared.b32");

/// Four elements that one instruction moves.
#[cfg(not(target_arch = "nvptx64"))]
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Quad<T>([T; 4]);

impl<T: Copy> SharedAddress<T> {
    /// Reads four elements of four bytes by one instruction, here and not later:
    /// `ld.shared.v4.b32`.
    ///
    /// A compiler that sees a load may split it or move it to the use of its value; this one it only
    /// keeps in order with copies, barriers and other reads of this kind.
    ///
    /// # Safety
    /// 1. The four are in the block's shared memory, and the place is a multiple of 16.
    /// 2. They have been written, and if by another thread, a barrier separates the two.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub unsafe fn read_quad(self) -> [T; 4] {
        const { assert!(size_of::<T>() == 4, "four words are read") };
        #[cfg(target_arch = "nvptx64")]
        {
            let mut words = [0u32; 4];
            // SAFETY: the caller's promise.
            unsafe {
                core::arch::asm!(
                    "ld.shared.v4.b32 {{{0}, {1}, {2}, {3}}}, [{address}];",
                    out(reg32) words[0],
                    out(reg32) words[1],
                    out(reg32) words[2],
                    out(reg32) words[3],
                    address = in(reg32) self.address,
                    options(readonly, nostack)
                );
            }
            // SAFETY: the bits of four elements, which a thread has written as such.
            unsafe { core::mem::transmute_copy::<[u32; 4], [T; 4]>(&words) }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            // SAFETY: the caller's promise.
            unsafe { self.place().cast::<Quad<T>>().read() }.0
        }
    }
}

/// Reads four elements by one instruction: `ld.global.v4.f32`. A compiler that sees a load may share a part of it with
/// the loads of another branch, and so have one wait for the other.
///
/// # Safety
/// 1. The four are in the view's memory, and the place is a multiple of 16.
/// 2. Nobody writes them during the launch.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
#[must_use]
pub unsafe fn read_quad(from: Global<f32>) -> [f32; 4] {
    #[cfg(target_arch = "nvptx64")]
    {
        let mut quad = [0.0; 4];
        // SAFETY: the caller's promise.
        unsafe {
            core::arch::asm!(
                "ld.global.v4.f32 {{{0}, {1}, {2}, {3}}}, [{address}];",
                out(reg32) quad[0],
                out(reg32) quad[1],
                out(reg32) quad[2],
                out(reg32) quad[3],
                address = in(reg64) from,
                options(pure, readonly, nostack)
            );
        }
        quad
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<Quad<f32>>().read() }.0
    }
}

impl SharedAddress<u32> {
    /// Writes four words by one instruction: `st.shared.v4.b32`.
    ///
    /// # Safety
    /// 1. The four are in the block's shared memory, and the place is a multiple of 16.
    /// 2. A barrier separates this from every access to them by another thread.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn write_quad(self, words: [u32; 4]) {
        #[cfg(target_arch = "nvptx64")]
        {
            // SAFETY: the caller's promise.
            unsafe {
                core::arch::asm!(
                    "st.shared.v4.b32 [{address}], {{{0}, {1}, {2}, {3}}};",
                    in(reg32) words[0],
                    in(reg32) words[1],
                    in(reg32) words[2],
                    in(reg32) words[3],
                    address = in(reg32) self.address,
                    options(nostack)
                );
            }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            // SAFETY: the caller's promise.
            unsafe { self.place().cast::<Quad<u32>>().write(Quad(words)) };
        }
    }
}
