//! The spellings of a name.
//!
//! Each routine has a Fortran name and one in C, each with integers of 32 bits and of 64, and with the prefix that
//! the wheels of NumPy and SciPy give their own library's names:
//!
//! | integers | Fortran | C |
//! |---|---|---|
//! | 32 bits | `dgemm_`, `scipy_dgemm_` | `cblas_dgemm`, `scipy_cblas_dgemm` |
//! | 64 bits | `dgemm_64_`, `dgemm_64`, `scipy_dgemm_64_` | `cblas_dgemm64_`, `cblas_dgemm_64`, `scipy_cblas_dgemm64_` |
//!
//! With the feature `ilp64` all integers have 64 bits.
//!
//! Letters, sizes and factors come as references: Fortran passes addresses, which are never null. The hidden
//! lengths of letters are not looked at, since programs in C often leave them out.

use std::ffi::CStr;

use tessera::blas3::Field;

/// A factor as C passes it: real ones themselves, complex ones by address.
pub(crate) trait Given<T> {
    fn given(self) -> T;
}

impl<T: Field> Given<T> for T {
    fn given(self) -> T {
        self
    }
}

impl<T: Field> Given<T> for &T {
    fn given(self) -> T {
        *self
    }
}

/// A name for C.
pub(crate) const fn c_name(name: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name ends with its only zero byte"),
    }
}

/// A function under each spelling of a name. In its parameters, its result and its body `I` is the type of integers.
macro_rules! export {
    (fortran $name:tt $parameters:tt $(-> $result:ident)? $body:block) => {
        export!(@each $crate::int::Plain [("", "_") ("scipy_", "_")] $name $parameters [$($result)?] $body);
        export!(@each i64 [("", "_64_") ("", "_64") ("scipy_", "_64_")] $name $parameters [$($result)?] $body);
    };
    (c $name:tt $parameters:tt $(-> $result:ident)? $body:block) => {
        export!(@each $crate::int::Plain [("cblas_", "") ("scipy_cblas_", "")] $name $parameters [$($result)?] $body);
        export!(@each i64 [("cblas_", "64_") ("cblas_", "_64") ("scipy_cblas_", "64_")]
            $name $parameters [$($result)?] $body);
    };
    (@each $int:ty [$($around:tt)*] $name:tt $parameters:tt $result:tt $body:block) => {
        $(export!(@one $int, $around, $name, $parameters, $result, $body);)*
    };
    (@one $int:ty, ($before:literal, $after:literal), ($letter:literal $routine:literal),
        ($($parameter:ident: $type:ty),* $(,)?), [$($result:ident)?], $body:block) => {
        const _: () = {
            type I = $int;
            #[unsafe(export_name = concat!($before, $letter, $routine, $after))]
            unsafe extern "C-unwind" fn entry($($parameter: $type),*) $(-> $result)? $body
        };
    };
}
pub(crate) use export;
