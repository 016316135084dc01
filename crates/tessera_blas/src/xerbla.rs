//! Who is told of a wrong argument: the program's `xerbla_` or `cblas_xerbla`, where it has one, else standard error.
//!
//! The handlers are weak references, so the library loads into programs that have none, and the first that the
//! loader finds, the program's own before any library's, is called. The library defines none itself: before the other
//! libraries of a process it would hide those of, say, Octave, which must be reached.

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::io::Write;
use std::ptr::NonNull;

use crate::int::Int;

/// A stub that gives the address of a symbol which need not exist.
#[cfg(all(target_arch = "x86_64", not(target_os = "windows")))]
macro_rules! address_of {
    ($stub:literal, $symbol:literal) => {
        std::arch::global_asm!(
            concat!(".weak ", $symbol),
            concat!(".globl ", $stub),
            concat!(".hidden ", $stub),
            concat!($stub, ":"),
            concat!("mov rax, qword ptr [rip + ", $symbol, "@GOTPCREL]"),
            "ret",
        );
    };
}

#[cfg(all(target_arch = "aarch64", target_os = "linux"))]
macro_rules! address_of {
    ($stub:literal, $symbol:literal) => {
        std::arch::global_asm!(
            concat!(".weak ", $symbol),
            concat!(".globl ", $stub),
            concat!(".hidden ", $stub),
            concat!($stub, ":"),
            concat!("adrp x0, :got:", $symbol),
            concat!("ldr x0, [x0, :got_lo12:", $symbol, "]"),
            "ret",
        );
    };
}

address_of!("tessera_blas_address_of_xerbla", "xerbla_");
#[cfg(not(feature = "ilp64"))]
address_of!("tessera_blas_address_of_xerbla_64", "xerbla_64_");
// Where all integers are as long, so are those of the handler by the usual name.
#[cfg(feature = "ilp64")]
address_of!("tessera_blas_address_of_xerbla_64", "xerbla_");
address_of!("tessera_blas_address_of_cblas_xerbla", "cblas_xerbla");
address_of!("tessera_blas_address_of_row_major_strg", "RowMajorStrg");

unsafe extern "C" {
    safe fn tessera_blas_address_of_xerbla() -> Option<Xerbla<i32>>;
    safe fn tessera_blas_address_of_xerbla_64() -> Option<Xerbla<i64>>;
    safe fn tessera_blas_address_of_cblas_xerbla() -> Option<CblasXerbla>;
    safe fn tessera_blas_address_of_row_major_strg() -> Option<NonNull<c_int>>;
}

/// A Fortran handler: the routine's name, the argument's number, and the length of the name.
pub(crate) type Xerbla<I> = unsafe extern "C-unwind" fn(*const u8, *const I, usize);
/// A handler in C: the argument's number, the routine's name, and a format with what it prints. Of the number one with
/// shorter integers takes the lower half.
type CblasXerbla = unsafe extern "C-unwind" fn(i64, *const c_char, *const c_char, ...);

/// Integers have a handler each.
pub(crate) trait Handler: Int {
    fn handler() -> Option<Xerbla<Self>>;
}

impl Handler for i32 {
    fn handler() -> Option<Xerbla<Self>> {
        tessera_blas_address_of_xerbla()
    }
}

impl Handler for i64 {
    fn handler() -> Option<Xerbla<Self>> {
        tessera_blas_address_of_xerbla_64()
    }
}

/// Who is told that an argument of a routine is wrong, and which: its number in Fortran's list, from 1.
pub(crate) trait Report: Copy {
    fn wrong(self, argument: i32);

    /// The routine, for whoever wants to name it.
    fn routine(&self) -> Routine;
}

/// A routine by the name that was called. Most calls name it to nobody, so it is a text only where it is written.
#[derive(Clone, Copy)]
pub(crate) enum Routine {
    /// With the blanks that handlers expect.
    Fortran(&'static str),
    C(&'static CStr),
}

impl fmt::Display for Routine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fortran(name) => name.trim_end(),
            Self::C(name) => name.to_str().unwrap_or_default(),
        })
    }
}

/// A routine called by its Fortran name.
#[derive(Clone, Copy)]
pub(crate) struct Fortran<I> {
    name: &'static str,
    int: std::marker::PhantomData<I>,
}

impl<I> Fortran<I> {
    /// A routine of that name, of six letters at least: shorter ones end with blanks.
    pub(crate) fn named(name: &'static str) -> Self {
        Self { name, int: std::marker::PhantomData }
    }
}

impl<I: Handler> Report for Fortran<I> {
    #[inline]
    fn routine(&self) -> Routine {
        Routine::Fortran(self.name)
    }

    fn wrong(self, argument: i32) {
        match I::handler() {
            None => say(self.routine(), argument),
            Some(handler) => {
                let argument = I::of(argument);
                // SAFETY: a handler by this name has these parameters: a name that need not end with a zero byte, an
                // integer, and the hidden length. Should it not return, no frame from here to the caller has anything
                // to clean up.
                unsafe { handler(self.name.as_ptr(), &raw const argument, self.name.len()) }
            }
        }
    }
}

/// A routine called by its name in C.
#[derive(Clone, Copy)]
pub(crate) struct C {
    /// As C has it, which is how the handler compares it.
    pub(crate) name: &'static CStr,
    /// Whether the matrices are row-major; the routine is then called for the transposed ones.
    pub(crate) row_major: bool,
}

impl Report for C {
    #[inline]
    fn routine(&self) -> Routine {
        Routine::C(self.name)
    }

    /// Arguments of C are one more, the order of storage being the first. Of row-major matrices the number is that of
    /// the transposed call, as the reference library has it, whose handler is told so by `RowMajorStrg`.
    fn wrong(self, argument: i32) {
        let number = argument.saturating_add(1);
        match tessera_blas_address_of_cblas_xerbla() {
            None => say(self.routine(), self.of_caller(number)),
            Some(handler) => {
                set_row_major(self.row_major);
                // SAFETY: a handler by this name has these parameters, and the format asks for no others. As above,
                // nothing is to be cleaned up.
                unsafe { handler(number.into(), self.name.as_ptr(), c"".as_ptr()) };
                set_row_major(false);
            }
        }
    }
}

impl C {
    /// An argument that C alone has, or whose value is none of its enumeration; the number is C's.
    pub(crate) fn no_such_value(self, argument: i32) {
        Self { row_major: false, ..self }.wrong(argument.saturating_sub(1));
    }

    /// The number in the caller's list of an argument of the transposed call.
    fn of_caller(self, number: i32) -> i32 {
        let name = self.name.to_bytes();
        let is = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
        let swaps: &[(i32, i32)] = match self.row_major {
            true if is(b"gemv") => &[(3, 4)],
            true if is(b"ger") => &[(2, 3), (6, 8)],
            true if is(b"gemm_s8u8s32") => &[(5, 6), (10, 13)],
            true if is(b"gemmt") => &[(9, 11)],
            true if is(b"batch_strided") => &[(4, 5), (9, 12)],
            true if is(b"gemm") => &[(4, 5), (9, 11)],
            true if is(b"symm") || is(b"hemm") => &[(4, 5)],
            true if is(b"trmm") || is(b"trsm") => &[(6, 7)],
            _ => &[],
        };
        swaps.iter().fold(number, |number, &(one, other)| match number {
            _ if number == one => other,
            _ if number == other => one,
            _ => number,
        })
    }
}

/// Tells a handler like the reference library's how its number is to be read.
fn set_row_major(row_major: bool) {
    if let Some(at) = tessera_blas_address_of_row_major_strg() {
        // SAFETY: a symbol by this name is the reference library's `int`, or its tester's, which is there for this.
        unsafe { at.write(c_int::from(row_major)) };
    }
}

/// What is said where nobody else is to be told.
fn say(routine: Routine, argument: i32) {
    let line =
        format!(" ** On entry to {routine}, argument number {argument} has an illegal value\n");
    // There is nobody to tell that nobody could be told.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_row_major_calls_are_the_callers() {
        let of = |name, number| C { name, row_major: true }.of_caller(number);
        assert_eq!([4, 5, 6, 9, 11, 14].map(|n| of(c"cblas_dgemm", n)), [5, 4, 6, 11, 9, 14]);
        assert_eq!([5, 9, 11].map(|n| of(c"cblas_dgemmtr", n)), [5, 11, 9]);
        assert_eq!([5, 10, 17].map(|n| of(c"cblas_gemm_s8u8s32", n)), [6, 13, 17]);
        assert_eq!([4, 5, 8].map(|n| of(c"cblas_zhemm", n)), [5, 4, 8]);
        assert_eq!([6, 7, 10].map(|n| of(c"cblas_ctrsm", n)), [7, 6, 10]);
        assert_eq!([4, 5].map(|n| of(c"cblas_ssyrk", n)), [4, 5]);
        assert_eq!([3, 4, 9].map(|n| of(c"cblas_dgemv", n)), [4, 3, 9]);
        assert_eq!([2, 3, 6, 8, 10].map(|n| of(c"cblas_cgerc", n)), [3, 2, 8, 6, 10]);
        assert_eq!(C { name: c"cblas_dgemm", row_major: false }.of_caller(4), 4);
    }
}
