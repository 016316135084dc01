//! Which element types are multiplied together: the one list of them, and what follows from it.

use core::fmt;

use crate::{AccType, Accumulator, Convert, DType, Element, Operand};

/// Hands the list of all products to a macro: `for_each_gemm_types!([callback] arguments)` becomes
/// `callback! { [arguments] row row … }`.
///
/// A row is `{ Variant, name, Key, [A: DTYPE, B: DTYPE, Acc: DTYPE, C: DTYPE], usual }`: the variant of
/// [`Types`], its name on the command line and in files, the Rust type that stands for it
/// ([`GemmTypes`]), the four types with their tags, and whether C is the `usual` one of such A and B or
/// must be `asked` for. Names are listed to users in this order. The device has no types of 16 bits
/// outside its registers, so their rows begin with a condition.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_gemm_types {
    ([$($callback:tt)+] $($arguments:tt)*) => {
        $($callback)+! {
            [$($arguments)*]
            { F32, f32, f32, [f32: F32, f32: F32, f32: F32, f32: F32], usual }
            { F64, f64, f64, [f64: F64, f64: F64, f64: F64, f64: F64], usual }
            { I32, i32, i32, [i32: I32, i32: I32, i32: I32, i32: I32], usual }
            { I8, i8, i8, [i8: I8, i8: I8, i32: I32, i32: I32], usual }
            {
                #[cfg(not(target_arch = "nvptx64"))]
                F16, f16, $crate::f16,
                [$crate::f16: F16, $crate::f16: F16, f32: F32, $crate::f16: F16], usual
            }
            {
                #[cfg(not(target_arch = "nvptx64"))]
                BF16, bf16, $crate::bf16,
                [$crate::bf16: BF16, $crate::bf16: BF16, f32: F32, $crate::bf16: BF16], usual
            }
            {
                #[cfg(not(target_arch = "nvptx64"))]
                F16F32, f16_f32, ($crate::f16, f32),
                [$crate::f16: F16, $crate::f16: F16, f32: F32, f32: F32], asked
            }
            {
                #[cfg(not(target_arch = "nvptx64"))]
                BF16F32, bf16_f32, ($crate::bf16, f32),
                [$crate::bf16: BF16, $crate::bf16: BF16, f32: F32, f32: F32], asked
            }
        }
    };
}

/// Hands the list of all element types to a macro, each as `{ Variant, Type }`: the variant of
/// [`DType`](crate::DType), and the Rust type.
///
/// All are plain numbers without padding or addresses, of which any bytes are a value: unsafe code relies
/// on it.
#[doc(hidden)]
#[macro_export]
macro_rules! for_each_element {
    ([$($callback:tt)+]) => {
        $($callback)+! {
            { F32, f32 }
            { F64, f64 }
            { I32, i32 }
            { I8, i8 }
            { F16, $crate::f16 }
            { BF16, $crate::bf16 }
        }
    };
}

/// Evaluates an expression with the Rust type of a product's types in place of a name:
/// `with_gemm_types!(types, T => size_of::<<T as GemmTypes>::A>())`.
#[macro_export]
macro_rules! with_gemm_types {
    ($types:expr, $name:ident => $value:expr) => {
        $crate::for_each_gemm_types!([$crate::match_gemm_types] $types, $name => $value)
    };
}

/// The `match` of [`with_gemm_types!`].
#[doc(hidden)]
#[macro_export]
macro_rules! match_gemm_types {
    (
        [$types:expr, $name:ident => $value:expr]
        $({ $(#[$condition:meta])? $variant:ident, $text:ident, $key:ty, $four:tt, $usual:ident })+
    ) => {
        match $types {
            $($crate::Types::$variant => {
                type $name = $key;
                $value
            })+
        }
    };
}

/// The types of a product as a Rust type: what A, B and C are stored as, and what sums, alpha and beta
/// are. [`Types`] is the same as a value.
///
/// Where A and B are of one type and C is the usual one, that type stands for all: `Problem::<f32>`. Where
/// C is another, it is named too: `Problem::<(f16, f32)>`.
///
/// Products are added up in [`GemmTypes::Acc`]; each sum is rounded once, when it is stored.
pub trait GemmTypes: Copy + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// An element of A.
    type A: Convert<Self::Acc>;
    /// An element of B.
    type B: Convert<Self::Acc>;
    /// A sum, and alpha and beta.
    type Acc: Accumulator;
    /// An element of C.
    type C: Convert<Self::Acc>;

    /// The same as a value.
    const TYPES: Types;

    /// Whether elements of C are narrower than sums, so that each sum is rounded when it is stored.
    const ROUNDS: bool = size_of::<Self::C>() < size_of::<Self::Acc>();

    /// `a * b + c`: one rounding for floats, wrapping for integers.
    #[inline(always)]
    #[must_use]
    fn mul_add(a: Self::A, b: Self::B, c: Self::Acc) -> Self::Acc {
        a.widen().mul_add(b.widen(), c)
    }

    /// `a * b`: rounded for floats, wrapping for integers.
    #[inline(always)]
    #[must_use]
    fn mul(a: Self::A, b: Self::B) -> Self::Acc {
        a.widen().mul(b.widen())
    }
}

macro_rules! define_types {
    (
        []
        $({
            $(#[$condition:meta])? $variant:ident, $name:ident, $key:ty,
            [$a:ty: $a_tag:ident, $b:ty: $b_tag:ident, $acc:ty: $acc_tag:ident, $c:ty: $c_tag:ident],
            $usual:ident
        })+
    ) => {
        /// The types of a product: of the elements of A and B, of sums with alpha and beta, and of the
        /// elements of C. There is one for each combination that is multiplied, and [`GemmTypes`] is the
        /// same as a Rust type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Types {
            $(
                #[doc = concat!(
                    "A of `", stringify!($a_tag), "`, B of `", stringify!($b_tag),
                    "`, accumulators of `", stringify!($acc_tag), "`, C of `", stringify!($c_tag), "`.",
                )]
                $variant,
            )+
        }

        impl Types {
            /// Every one, in the order in which they are listed to users.
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$variant),+];

            /// The name used on the command line and in reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($name),)+
                }
            }

            /// Whether C is the usual one of such A and B; else it must be asked for.
            #[must_use]
            pub const fn is_usual(self) -> bool {
                match self {
                    $(Self::$variant => define_types!(@$usual),)+
                }
            }

            /// The type of A's elements.
            #[must_use]
            pub const fn a(self) -> DType {
                match self {
                    $(Self::$variant => DType::$a_tag,)+
                }
            }

            /// The type of B's elements.
            #[must_use]
            pub const fn b(self) -> DType {
                match self {
                    $(Self::$variant => DType::$b_tag,)+
                }
            }

            /// The type of sums, and of alpha and beta.
            #[must_use]
            pub const fn acc(self) -> AccType {
                match self {
                    $(Self::$variant => AccType::$acc_tag,)+
                }
            }

            /// The type of C's elements.
            #[must_use]
            pub const fn c(self) -> DType {
                match self {
                    $(Self::$variant => DType::$c_tag,)+
                }
            }
        }

        $(
            $(#[$condition])?
            impl GemmTypes for $key {
                type A = $a;
                type B = $b;
                type Acc = $acc;
                type C = $c;

                const TYPES: Types = Types::$variant;
            }

            // Tags are those of the types that they stand beside.
            $(#[$condition])?
            const _: () = {
                assert!(<$a as Element>::DTYPE as u8 == DType::$a_tag as u8);
                assert!(<$b as Element>::DTYPE as u8 == DType::$b_tag as u8);
                assert!(<$acc as Element>::DTYPE as u8 == AccType::$acc_tag.dtype() as u8);
                assert!(<$c as Element>::DTYPE as u8 == DType::$c_tag as u8);
            };
        )+
    };
    (@usual) => {
        true
    };
    (@asked) => {
        false
    };
}

for_each_gemm_types!([define_types]);

impl Types {
    /// The type of an operand's elements.
    #[must_use]
    pub const fn of(self, operand: Operand) -> DType {
        match operand {
            Operand::A => self.a(),
            Operand::B => self.b(),
            Operand::C => self.c(),
        }
    }

    /// Bytes in the largest element of an operand.
    #[must_use]
    pub const fn max_size(self) -> usize {
        let (a, b, c) = (self.a().size(), self.b().size(), self.c().size());
        let factors = if a > b { a } else { b };
        if factors > c { factors } else { c }
    }

    /// Whether arithmetic is that of integers: exact, and wrapping.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        self.acc().dtype().is_integer()
    }

    /// The largest relative error of one rounding to an element of A or B; zero where arithmetic is
    /// exact.
    #[must_use]
    pub const fn factor_roundoff(self) -> f64 {
        self.a().unit_roundoff().max(self.b().unit_roundoff())
    }

    /// Those of products of such A and B with the usual C, where there are such.
    #[must_use]
    pub fn usual(a: DType, b: DType) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.is_usual() && (it.a(), it.b()) == (a, b))
    }

    /// The same products with a C of another type, where there are such.
    #[must_use]
    pub fn with_c(self, c: DType) -> Option<Self> {
        let same = |it: &Self| (it.a(), it.b(), it.c()) == (self.a(), self.b(), c);
        Self::ALL.into_iter().find(same)
    }

    /// Those of that name, where there are such.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|types| types.name() == name)
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bf16, f16};

    #[test]
    fn names_lead_back_to_their_types() {
        for types in Types::ALL {
            assert_eq!(Types::from_name(types.name()), Some(types));
        }
        assert_eq!(Types::from_name("f33"), None);
    }

    #[test]
    fn values_and_rust_types_are_the_same() {
        fn same<T: GemmTypes>(types: Types) {
            assert_eq!(T::TYPES, types);
            let sizes = [size_of::<T::A>(), size_of::<T::B>(), size_of::<T::C>()];
            assert_eq!([types.a(), types.b(), types.c()].map(DType::size), sizes);
            assert_eq!(types.acc().dtype().size(), size_of::<T::Acc>());
            assert_eq!(Some(&types.max_size()), sizes.iter().max());
            assert_eq!(T::mul(T::A::ONE, T::B::ONE), T::Acc::ONE);
            assert_eq!(T::mul_add(T::A::ONE, T::B::ONE, T::Acc::ZERO), T::Acc::ONE);
            assert_eq!((T::A::ONE.widen(), T::B::ONE.widen()), (T::Acc::ONE, T::Acc::ONE));
            assert_eq!(T::C::narrow(T::Acc::ZERO), T::C::ZERO);
        }
        for types in Types::ALL {
            with_gemm_types!(types, T => same::<T>(types));
        }
    }

    #[test]
    fn no_two_are_of_the_same_types() {
        for types in Types::ALL {
            assert_eq!(types.with_c(types.c()), Some(types));
            let usual = Types::usual(types.a(), types.b());
            assert!(usual.is_some_and(|usual| (usual == types) == types.is_usual()), "{types}");
        }
        assert_eq!(Types::F16.with_c(DType::F32), Some(Types::F16F32));
        assert_eq!(Types::BF16F32.with_c(DType::BF16), Some(Types::BF16));
        assert_eq!(Types::F16.with_c(DType::BF16), None);
        assert_eq!(Types::F32.with_c(DType::F16), None);
        assert_eq!(Types::I8.with_c(DType::F32), None);
    }

    #[test]
    fn only_a_c_narrower_than_sums_is_rounded() {
        for types in Types::ALL {
            let narrower = types.c().size() < types.acc().dtype().size();
            assert_eq!(with_gemm_types!(types, T => <T as GemmTypes>::ROUNDS), narrower);
        }
        assert_eq!([f32::ROUNDS, f64::ROUNDS, i32::ROUNDS, i8::ROUNDS], [false; 4]);
        assert_eq!([<(f16, f32)>::ROUNDS, <(bf16, f32)>::ROUNDS], [false; 2]);
        assert_eq!([f16::ROUNDS, bf16::ROUNDS], [true; 2]);
    }
}
