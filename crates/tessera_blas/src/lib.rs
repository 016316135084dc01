//! Level 3 of BLAS, and the LU, Cholesky and QR of LAPACK, under the names by which programs call them.
//!
//! `libtessera_blas.so` is put before a program's own BLAS, as docs/blas.md tells; what it does not have, such as most
//! of levels 1 and 2, stays with the library below. As a Rust library the crate gives the same symbols to a program that
//! links it:
//!
//! ```
//! use tessera_blas as _;
//!
//! unsafe extern "C" {
//!     fn cblas_dgemm(
//!         layout: i32, op_a: i32, op_b: i32, m: i32, n: i32, k: i32,
//!         alpha: f64, a: *const f64, lda: i32, b: *const f64, ldb: i32,
//!         beta: f64, c: *mut f64, ldc: i32,
//!     );
//! }
//!
//! let (a, b, mut c) = ([1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 1.0], [0.0; 4]);
//! // SAFETY: three row-major matrices of two by two.
//! unsafe { cblas_dgemm(101, 111, 111, 2, 2, 2, 1.0, a.as_ptr(), 2, b.as_ptr(), 2, 0.0, c.as_mut_ptr(), 2) };
//! assert_eq!(c, a);
//! ```
//!
//! # Shape
//!
//! ```text
//! export.rs                      the spellings of a name: Fortran's and C's, with integers of 32 and 64 bits
//! symbols.rs, narrow_symbols.rs  one table of names each
//! int.rs, letters.rs, cblas.rs   integers, letters and enumerations as the library's types
//! level3.rs                      arguments checked in BLAS' order, pointers made views, tessera::blas3 called
//! level2.rs, level2_symbols.rs   the same of vectors, and tessera::blas2
//! batch.rs                       products by the dozen
//! narrow.rs, bytes.rs            products of 16-bit floats and of bytes
//! isamax.rs                      what a loader asks for to know a BLAS
//! lapack.rs                      arguments checked in LAPACK's order, tessera::lapack called
//! lapack_symbols.rs              its table of names
//! xerbla.rs                      who is told of a wrong argument
//! device/                        which calls a GPU computes, and what is said of it
//! threads.rs                     on how many threads, and what a fork does to them
//! ```
//!
//! # Wrong arguments
//!
//! Arguments are checked before anything else happens, in frames without destructors: a handler of the
//! program's may leave by an exception or by `longjmp`. If it returns, the routine returns and has written nothing.
//!
//! # Panics
//!
//! A panic inside is a fault of this library. It says so in a line and aborts: nothing unwinds into a caller.

mod batch;
mod bytes;
mod cblas;
mod device;
mod export;
mod int;
mod isamax;
mod lapack;
mod lapack_symbols;
mod letters;
mod level2;
mod level2_symbols;
mod level3;
mod narrow;
mod narrow_symbols;
mod symbols;
mod threads;
mod xerbla;
