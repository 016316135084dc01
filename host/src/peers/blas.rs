//! Libraries with the functions of the reference BLAS: OpenBLAS, BLIS, MKL.

use std::any::TypeId;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use gemm_spec::{Problem, bf16, f16};

use crate::column_major::ColumnMajor;
use crate::scalar::ScalarTypes;
use crate::shared_library::SharedLibrary;

/// `sgemm_` or `dgemm_`: Fortran passes everything by address.
type Gemm = unsafe extern "C" fn(
    transa: *const c_char,
    transb: *const c_char,
    m: *const c_int,
    n: *const c_int,
    k: *const c_int,
    alpha: *const c_void,
    a: *const c_void,
    lda: *const c_int,
    b: *const c_void,
    ldb: *const c_int,
    beta: *const c_void,
    c: *mut c_void,
    ldc: *const c_int,
);

/// The products of a library.
pub(super) struct Blas {
    sgemm: Gemm,
    dgemm: Gemm,
    /// Products of 16-bit elements with a C of f32, which MKL has.
    bf16: Option<Gemm>,
    f16: Option<Gemm>,
}

impl Blas {
    /// Finds the functions, under the plain names or under those of SciPy's build of OpenBLAS.
    pub(super) fn new(library: &SharedLibrary) -> Result<Self, String> {
        let find = |plain: &str| {
            let names = [plain.to_owned(), format!("scipy_{plain}")];
            // SAFETY: these are the reference BLAS's names for functions of this type, and mkl_blas.h
            // declares its own ones alike. Builds with integers of 64 bits use other names.
            names.iter().find_map(|name| unsafe { library.function::<Gemm>(name) })
        };
        let required =
            |plain: &str| find(plain).ok_or_else(|| format!("{} has no {plain}", library.name()));
        Ok(Self {
            sgemm: required("sgemm_")?,
            dgemm: required("dgemm_")?,
            bf16: find("gemm_bf16bf16f32_"),
            f16: find("gemm_f16f16f32_"),
        })
    }

    /// Computes the problem's C.
    pub(super) fn multiply<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        c: &mut [T::C],
    ) -> Result<(), String> {
        let gemm = match TypeId::of::<T>() {
            float if float == TypeId::of::<f32>() => Some(self.sgemm),
            float if float == TypeId::of::<f64>() => Some(self.dgemm),
            mixed if mixed == TypeId::of::<(bf16, f32)>() => self.bf16,
            mixed if mixed == TypeId::of::<(f16, f32)>() => self.f16,
            _ => None,
        };
        let gemm = gemm.ok_or_else(|| format!("has no product in {}", T::TYPES))?;
        problem.check_buffers(a.len(), b.len(), c.len()).map_err(|error| error.to_string())?;
        let call = ColumnMajor::new(problem)?;
        let letter = |transposed: bool| if transposed { c"T" } else { c"N" }.as_ptr();
        let (first, second) = call.ordered(a.as_ptr().cast::<c_void>(), b.as_ptr().cast());
        // SAFETY: the function is of T's types, whose alpha and beta are sums, and follows the reference BLAS. The buffers hold the
        // operands at these sizes and leading dimensions, as checked above, and C is borrowed
        // exclusively. Every address is that of a value that outlives the call.
        unsafe {
            gemm(
                letter(call.first.transposed),
                letter(call.second.transposed),
                &raw const call.m,
                &raw const call.n,
                &raw const call.k,
                ptr::from_ref(&problem.alpha).cast(),
                first,
                &raw const call.first.ld,
                second,
                &raw const call.second.ld,
                ptr::from_ref(&problem.beta).cast(),
                c.as_mut_ptr().cast(),
                &raw const call.ldc,
            );
        }
        Ok(())
    }
}

/// What the library says of itself: its version, and the processor whose kernels it has picked.
pub(super) fn describe(library: &SharedLibrary) -> String {
    let words = openblas(library).or_else(|| blis(library)).or_else(|| mkl(library));
    words.unwrap_or_else(|| library.name().to_owned())
}

fn openblas(library: &SharedLibrary) -> Option<String> {
    type Config = unsafe extern "C" fn() -> *const c_char;
    let names = ["openblas_get_config", "scipy_openblas_get_config"];
    // SAFETY: OpenBLAS's cblas.h: `char* openblas_get_config(void)`.
    let config = names.iter().find_map(|name| unsafe { library.function::<Config>(name) })?;
    // SAFETY: it takes nothing.
    let words = unsafe { config() };
    // SAFETY: a string of the library's own.
    unsafe { text(words) }
}

fn blis(library: &SharedLibrary) -> Option<String> {
    // SAFETY: blis.h: `const char* bli_info_get_version_str(void)`.
    let version = unsafe {
        library.function::<unsafe extern "C" fn() -> *const c_char>("bli_info_get_version_str")
    }?;
    // SAFETY: it takes nothing.
    let words = unsafe { version() };
    // SAFETY: a string of the library's own.
    let mut words = format!("BLIS {}", unsafe { text(words) }?);
    // SAFETY: blis.h: `arch_t bli_arch_query_id(void)`, an enum of C.
    let id = unsafe { library.function::<unsafe extern "C" fn() -> c_int>("bli_arch_query_id") };
    // SAFETY: blis.h: `const char* bli_arch_string(arch_t id)`.
    let name = unsafe {
        library.function::<unsafe extern "C" fn(c_int) -> *const c_char>("bli_arch_string")
    };
    if let Some((id, name)) = id.zip(name) {
        // SAFETY: it takes nothing.
        let id = unsafe { id() };
        // SAFETY: an `arch_t`, as it takes one.
        let arch = unsafe { name(id) };
        // SAFETY: a string of the library's own.
        if let Some(arch) = unsafe { text(arch) } {
            words = format!("{words} {arch}");
        }
    }
    Some(words)
}

fn mkl(library: &SharedLibrary) -> Option<String> {
    type Version = unsafe extern "C" fn(*mut c_char, c_int);
    // SAFETY: mkl_service.h: `void MKL_Get_Version_String(char* buffer, int len)`.
    let version = unsafe { library.function::<Version>("MKL_Get_Version_String") }?;
    const LEN: u8 = 255;
    let mut buffer = [0u8; LEN as usize + 1];
    // SAFETY: it writes no more than the length that it is told, which leaves the last byte zero.
    unsafe { version(buffer.as_mut_ptr().cast(), LEN.into()) };
    CStr::from_bytes_until_nul(&buffer).ok().map(|words| words.to_string_lossy().trim().to_owned())
}

/// A copy of a string of C's; `None` for null.
///
/// # Safety
/// `words` is null or a string that ends with a NUL.
unsafe fn text(words: *const c_char) -> Option<String> {
    if words.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let words = unsafe { CStr::from_ptr(words) };
    Some(words.to_string_lossy().trim().to_owned())
}

#[cfg(test)]
mod tests {
    use gemm_spec::Operand;

    use super::*;
    use crate::column_major::Factor;
    use crate::column_major::tests::{expected, problems, reference};

    /// A `dgemm_` that does what the reference BLAS promises.
    unsafe extern "C" fn dgemm(
        transa: *const c_char,
        transb: *const c_char,
        m: *const c_int,
        n: *const c_int,
        k: *const c_int,
        alpha: *const c_void,
        a: *const c_void,
        lda: *const c_int,
        b: *const c_void,
        ldb: *const c_int,
        beta: *const c_void,
        c: *mut c_void,
        ldc: *const c_int,
    ) {
        // SAFETY: the address of a number, each of them.
        let [m, n, k, lda, ldb, ldc] = [m, n, k, lda, ldb, ldc].map(|at| unsafe { *at });
        // SAFETY: the address of a letter, each of them.
        let [transa, transb] = [transa, transb].map(|at| unsafe { *at } == b'T' as c_char);
        let factor = |transposed, ld| Factor { operand: Operand::A, transposed, ld };
        let call =
            ColumnMajor { m, n, k, first: factor(transa, lda), second: factor(transb, ldb), ldc };
        let (a, b) = (a.cast::<f64>(), b.cast::<f64>());
        // SAFETY: the test's C is a buffer of 64 numbers, which nothing else uses during the call.
        let c = unsafe { std::slice::from_raw_parts_mut(c.cast::<f64>(), 64) };
        let [alpha, beta] = [alpha, beta].map(|factor| {
            // SAFETY: the address of one of the test's scalars.
            unsafe { *factor.cast::<f64>() }
        });
        // SAFETY: an element of A, which the test's buffer holds whole.
        let first = |at| unsafe { *a.wrapping_add(at) };
        // SAFETY: an element of B, which the test's buffer holds whole.
        let second = |at| unsafe { *b.wrapping_add(at) };
        reference(&call, alpha, first, second, beta, c);
    }

    #[test]
    fn arguments_reach_the_library_in_its_order() {
        let blas = Blas { sgemm: dgemm, dgemm, bf16: None, f16: None };
        for (problem, a, b) in problems() {
            let mut c = vec![f64::NAN; 64];
            blas.multiply(&problem, &a, &b, &mut c).unwrap();
            for row in 0..problem.m {
                for col in 0..problem.n {
                    let found = c[problem.c.index(row, col)];
                    assert_eq!(found, expected(&problem, &a, &b, row, col), "{problem:?}");
                }
            }
            assert!(blas.multiply(&problem, &a[..3], &b, &mut c).is_err(), "A is too short");
        }
        let integers = blas.multiply(&Problem::<i32>::new(1, 1, 1), &[1], &[1], &mut [0]);
        assert_eq!(integers, Err("has no product in i32".to_owned()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_without_the_products_is_named() {
        let library = SharedLibrary::open(&["libm.so.6"], &[]).unwrap();
        assert_eq!(Blas::new(&library).err(), Some("libm.so.6 has no sgemm_".to_owned()));
        assert_eq!(describe(&library), "libm.so.6");
    }
}
