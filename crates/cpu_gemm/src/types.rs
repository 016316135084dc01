//! The types of the products that the engine computes, and what it has for each: the one list of them.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__m256, __m256d, __m512, __m512d};

use gemm_spec::{GemmTypes, bf16, f16};

use crate::context::CpuContext;
use crate::error::Error;
use crate::finish::{FinishFn, FinishedSum};
use crate::isa::CpuIsa;
use crate::kernels::{InstructionSet, Kernels};
use crate::near::NearShape;
#[cfg(target_arch = "aarch64")]
use crate::neon::Neon;
use crate::portable::{Lanes, Portable};
use crate::product::Product;
use crate::sum::is_exact;
#[cfg(target_arch = "x86_64")]
use crate::units::CpuUnits;
#[cfg(target_arch = "x86_64")]
use crate::{
    amx::{self, RoundedToBf16, RoundedToTf32, TileLoop, Unit, residues},
    avx2::{Avx2, Pairs256},
    avx512::Avx512,
    groups::{Pairs, Quads},
    vnni::{Quads512, Vnni},
};
use crate::{direct, driver, thin};

/// The types of a product that the engine computes: those of [`gemm_spec::Types`].
///
/// The trait is sealed: unsafe code relies on what the types here are.
#[expect(private_bounds, reason = "what seals it")]
pub trait CpuTypes: PackedTypes {
    /// The types of the transposed product `C^T = B^T * A^T`, in which A and B change places.
    type Transposed: CpuTypes<
            A = <Self as GemmTypes>::B,
            B = <Self as GemmTypes>::A,
            Acc = <Self as GemmTypes>::Acc,
            C = <Self as GemmTypes>::C,
        >;
    /// The same product with its sums as they are for a C.
    type Sums: CpuTypes<
            A = <Self as GemmTypes>::A,
            B = <Self as GemmTypes>::B,
            Acc = <Self as GemmTypes>::Acc,
            C = <Self as GemmTypes>::Acc,
        >;
}

/// What the engine has for the types of a product. Its methods are compiled here and nowhere else, so that the
/// build settings of a program do not reach the tiles.
pub(crate) trait PackedTypes: GemmTypes<Acc: FinishedSum> {
    /// The kernels of an instruction set that this CPU has.
    fn kernels(isa: CpuIsa) -> &'static Kernels<Self>;

    /// What makes sums elements of D with an instruction set that this CPU has.
    fn finish(isa: CpuIsa) -> FinishFn<Self::Acc, Self::C>;

    /// Computes a product, k at least 1, by the path that suits it, and tells its complete parts.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`], before anything was written.
    ///
    /// # Safety
    /// The product's promises, see [`Product`].
    unsafe fn multiply(
        product: &Product<Self>,
        context: &CpuContext,
        threads: usize,
    ) -> Result<(), Error>;

    /// What a product has in common with others whose operands lie alike, where it is computed by tiles of operands that
    /// are near; then A, B and C are of the type of the sums. Matrix units are not asked.
    #[inline]
    fn near_shape(_: &Product<Self>, _: &CpuContext) -> Option<NearShape<Self::Acc>> {
        None
    }

    /// The same without an error: where there is no memory, without memory. For a part of C, of which others are
    /// written already.
    ///
    /// # Safety
    /// As [`Self::multiply`].
    unsafe fn multiply_anyway(product: &Product<Self>, context: &CpuContext, threads: usize) {
        // SAFETY: the caller's promises.
        let done = unsafe { Self::multiply(product, context, threads) };
        if done.is_err() {
            // SAFETY: the caller's promises; the error came before anything was written.
            unsafe { product.by_definition() };
            // SAFETY: it was just computed.
            unsafe { product.tell_complete(0..product.m, 0..product.n) };
        }
    }

    /// Whether tiles multiply these types, and with the bits of [`PackedTypes::multiply`].
    #[cfg(target_arch = "x86_64")]
    const HAS_TILES: bool = false;
    /// See above.
    #[cfg(target_arch = "x86_64")]
    const TILES_KEEP_BITS: bool = false;
    /// Whether tiles are faster at all where the numbers are the parts of complex ones, whose products are written out.
    const TILES_PAY_FOR_PARTS: bool = true;

    /// Whether a product of that m, n and k is faster by tiles.
    #[cfg(target_arch = "x86_64")]
    fn tiles_pay(_: CpuUnits, _: (usize, usize, usize), _: usize) -> bool {
        false
    }

    /// How many threads a product of that size is worth by tiles, of those that it is worth otherwise.
    #[cfg(target_arch = "x86_64")]
    fn tile_threads(_: CpuUnits, _: (usize, usize, usize), threads: usize) -> usize {
        threads
    }

    /// The loop that measures the peak of tiles, where they multiply these types.
    #[cfg(target_arch = "x86_64")]
    fn tile_loop() -> Option<TileLoop> {
        None
    }

    /// Computes a product by tiles, where they multiply these types, rounding factors as far as the units may; else as
    /// [`PackedTypes::multiply`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    #[cfg(target_arch = "x86_64")]
    unsafe fn multiply_in_tiles(
        product: &Product<Self>,
        _: (Unit, CpuUnits),
        context: &CpuContext,
        threads: usize,
    ) -> Result<(), Error> {
        // SAFETY: the caller's promises.
        unsafe { Self::multiply(product, context, threads) }
    }
}

/// The tiles of types that [`amx`] multiplies: whether they keep the bits of vector units, and, where they are others,
/// those of the products that units may compute from factors rounded to TF32 and to bf16.
#[cfg(target_arch = "x86_64")]
macro_rules! in_tiles {
    ($keep_bits:literal $(, $tf32:ty, $bf16:ty)?) => {
        const HAS_TILES: bool = true;
        const TILES_KEEP_BITS: bool = $keep_bits;

        fn tiles_pay(units: CpuUnits, size: (usize, usize, usize), threads: usize) -> bool {
            in_tiles!(@ units, pays $(, $tf32, $bf16)?)(size, threads)
        }

        fn tile_threads(units: CpuUnits, size: (usize, usize, usize), threads: usize) -> usize {
            in_tiles!(@ units, threads $(, $tf32, $bf16)?)(size, threads)
        }

        fn tile_loop() -> Option<TileLoop> {
            amx::tile_loop::<Self>()
        }

        unsafe fn multiply_in_tiles(
            product: &Product<Self>,
            (unit, units): (Unit, CpuUnits),
            context: &CpuContext,
            threads: usize,
        ) -> Result<(), Error> {
            // SAFETY: the caller's promises, for the part as well.
            let otherwise = |part: &_| unsafe { Self::multiply_anyway(part, context, threads) };
            let multiply = in_tiles!(@ units, multiply $(, $tf32, $bf16)?);
            // SAFETY: the caller's promises.
            unsafe { multiply(product, unit, context, threads, otherwise) }
        }
    };
    (@ $units:ident, $function:ident, $tf32:ty, $bf16:ty) => {
        match $units {
            CpuUnits::Tf32 => amx::$function::<$tf32>,
            CpuUnits::Bf16 => amx::$function::<$bf16>,
            CpuUnits::Vector
            | CpuUnits::SameBits
            | CpuUnits::All
            | CpuUnits::ExactRounded
            | CpuUnits::Tiles => amx::$function::<Self>,
        }
    };
    (@ $units:ident, $function:ident) => {{
        let _ = $units;
        amx::$function::<Self>
    }};
}
#[cfg(not(target_arch = "x86_64"))]
macro_rules! in_tiles {
    ($keep_bits:literal $(, $tf32:ty, $bf16:ty)?) => {};
}

/// The tiles of f64: those of i8, by [`residues`].
#[cfg(target_arch = "x86_64")]
macro_rules! by_residues {
    () => {
        const HAS_TILES: bool = true;
        const TILES_PAY_FOR_PARTS: bool = false;

        fn tiles_pay(units: CpuUnits, size: (usize, usize, usize), threads: usize) -> bool {
            residues::pays(units, size, threads)
        }

        fn tile_loop() -> Option<TileLoop> {
            residues::tile_loop()
        }

        unsafe fn multiply_in_tiles(
            product: &Product<Self>,
            units: (Unit, CpuUnits),
            context: &CpuContext,
            threads: usize,
        ) -> Result<(), Error> {
            // SAFETY: the caller's promises, for a part as well.
            let otherwise = |part: &_| unsafe { Self::multiply_anyway(part, context, threads) };
            // SAFETY: the caller's promises.
            unsafe { residues::multiply(product, units, context, threads, otherwise) }
        }
    };
}
#[cfg(not(target_arch = "x86_64"))]
macro_rules! by_residues {
    () => {};
}

/// [`PackedTypes::multiply`] for types whose tiles take operands in place.
macro_rules! in_place_or_packed {
    () => {
        #[inline]
        fn near_shape(product: &Product<Self>, context: &CpuContext) -> Option<NearShape<Self>> {
            let near = product.near();
            // A context's instruction set is one that this CPU has.
            let call = Self::kernels(context.isa()).near[usize::from(near.is_transposed())];
            let pays = !is_exact::<Self>() && near.pays(false);
            pays.then(|| NearShape::new(near, call, product.swapped))
        }

        unsafe fn multiply(
            product: &Product<Self>,
            context: &CpuContext,
            threads: usize,
        ) -> Result<(), Error> {
            let kernels = Self::kernels(context.isa());
            if let Some(shape) = Self::near_shape(product, context) {
                // SAFETY: the caller's promises.
                unsafe { shape.multiply() };
                // SAFETY: it was just computed.
                unsafe { product.tell_complete(0..product.m, 0..product.n) };
                Ok(())
            } else if direct::pays(product, kernels, threads) {
                // SAFETY: the caller's promises; a context's instruction set is one that this CPU has.
                unsafe { direct::multiply(product, kernels, context, threads) }
            } else {
                // SAFETY: as above.
                unsafe { driver::multiply(product, kernels, context, threads) }
            }
        }
    };
}

/// [`PackedTypes::multiply`] for types that tiles take in another form.
macro_rules! always_packed {
    () => {
        unsafe fn multiply(
            product: &Product<Self>,
            context: &CpuContext,
            threads: usize,
        ) -> Result<(), Error> {
            let kernels = Self::kernels(context.isa());
            if thin::pays(product, kernels) {
                // SAFETY: the caller's promises; a context's instruction set is one that this CPU has.
                unsafe { thin::multiply(product, kernels, context, threads) };
                Ok(())
            } else {
                // SAFETY: as above.
                unsafe { driver::multiply(product, kernels, context, threads) }
            }
        }
    };
}

/// [`PackedTypes::finish`].
macro_rules! finishing {
    () => {
        fn finish(isa: CpuIsa) -> FinishFn<Self::Acc, Self::C> {
            match isa {
                #[cfg(target_arch = "x86_64")]
                CpuIsa::Avx512 => Avx512::finish::<Self::Acc, Self::C>,
                #[cfg(target_arch = "x86_64")]
                CpuIsa::Avx2 => Avx2::finish::<Self::Acc, Self::C>,
                #[cfg(target_arch = "aarch64")]
                CpuIsa::Neon => Neon::finish::<Self::Acc, Self::C>,
                _ => Portable::finish::<Self::Acc, Self::C>,
            }
        }
    };
}

/// For products of accumulators the registers of each instruction set.
macro_rules! registers {
    ($($types:ty: $avx512:ty, $avx2:ty, $neon:ty, $portable:ty $(, $tiles:ident($($tile_types:tt)*))?;)*) => {$(
        impl PackedTypes for $types {
            fn kernels(isa: CpuIsa) -> &'static Kernels<Self> {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx512 => const { &Kernels::of::<Avx512, $avx512>() },
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx2 => const { &Kernels::of::<Avx2, $avx2>() },
                    #[cfg(target_arch = "aarch64")]
                    CpuIsa::Neon => const { &Kernels::of::<Neon, $neon>() },
                    _ => const { &Kernels::of::<Portable, $portable>() },
                }
            }

            finishing!();
            in_place_or_packed!();
            $($tiles!($($tile_types)*);)?
        }
    )*};
}

/// For elements that are widened to sums as they are packed: the registers of those.
macro_rules! widened {
    ($($types:ty),* => $avx512:ty, $avx2:ty, $neon:ty, $portable:ty) => {
        $(widened!(@ $types, $avx512, $avx2, $neon, $portable);)*
    };
    (@ $types:ty, $avx512:ty, $avx2:ty, $neon:ty, $portable:ty) => {
        impl PackedTypes for $types {
            fn kernels(isa: CpuIsa) -> &'static Kernels<Self> {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx512 => const { &Kernels::widening::<Avx512, $avx512>() },
                    #[cfg(target_arch = "x86_64")]
                    CpuIsa::Avx2 => const { &Kernels::widening::<Avx2, $avx2>() },
                    #[cfg(target_arch = "aarch64")]
                    CpuIsa::Neon => const { &Kernels::widening::<Neon, $neon>() },
                    _ => const { &Kernels::widening::<Portable, $portable>() },
                }
            }

            finishing!();
            always_packed!();
            in_tiles!(false);
        }
    };
}

widened!(f16, bf16, (f16, f32), (bf16, f32) => __m512, __m256, Lanes<f32, 4>, Lanes<f32, 4>);

impl PackedTypes for i8 {
    fn kernels(isa: CpuIsa) -> &'static Kernels<Self> {
        match isa {
            #[cfg(target_arch = "x86_64")]
            CpuIsa::Avx512 if Vnni::is_available() => {
                const { &Kernels::grouping::<Vnni, Quads512, Quads>() }
            }
            #[cfg(target_arch = "x86_64")]
            CpuIsa::Avx512 | CpuIsa::Avx2 if CpuIsa::Avx2.is_available() => {
                const { &Kernels::grouping::<Avx2, Pairs256, Pairs>() }
            }
            #[cfg(target_arch = "aarch64")]
            CpuIsa::Neon => const { &Kernels::widening::<Neon, Lanes<i32, 4>>() },
            _ => const { &Kernels::widening::<Portable, Lanes<i32, 4>>() },
        }
    }

    finishing!();
    always_packed!();
    in_tiles!(true);
}

registers! {
    f32: __m512, __m256, Lanes<f32, 4>, Lanes<f32, 4>, in_tiles(false, RoundedToTf32, RoundedToBf16);
    f64: __m512d, __m256d, Lanes<f64, 2>, Lanes<f64, 2>, by_residues();
    i32: Lanes<i32, 16>, Lanes<i32, 8>, Lanes<i32, 4>, Lanes<i32, 4>;
}

/// A and B are of one type, so that the transposed product is one of the same types.
macro_rules! symmetric {
    ($($types:ty: $sums:ty),*) => {$(
        impl CpuTypes for $types {
            type Transposed = Self;
            type Sums = $sums;
        }
    )*};
}

symmetric!(
    f16: (f16, f32),
    bf16: (bf16, f32),
    (f16, f32): Self,
    (bf16, f32): Self,
    f32: Self,
    f64: Self,
    i8: Self,
    i32: Self
);
