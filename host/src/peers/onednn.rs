//! oneDNN, by its own functions, which take row-major matrices: of f32, bf16 and i8.

use std::any::TypeId;
use std::ffi::{c_char, c_int, c_uint, c_void};

use gemm_spec::{Operand, Order, Problem, bf16};

use crate::scalar::{Scalar, ScalarTypes};
use crate::shared_library::SharedLibrary;

/// `dnnl_sgemm`, and the same of bf16; returns 0 where it worked.
type Gemm = unsafe extern "C" fn(
    transa: c_char,
    transb: c_char,
    m: i64,
    n: i64,
    k: i64,
    alpha: f32,
    a: *const c_void,
    lda: i64,
    b: *const c_void,
    ldb: i64,
    beta: f32,
    c: *mut f32,
    ldc: i64,
) -> c_int;

/// `dnnl_gemm_s8s8s32`: zero points of A and B, and one offset for all of C.
type GemmI8 = unsafe extern "C" fn(
    transa: c_char,
    transb: c_char,
    offsetc: c_char,
    m: i64,
    n: i64,
    k: i64,
    alpha: f32,
    a: *const c_void,
    lda: i64,
    ao: i8,
    b: *const c_void,
    ldb: i64,
    bo: i8,
    beta: f32,
    c: *mut i32,
    ldc: i64,
    co: *const i32,
) -> c_int;

/// `dnnl_version_t`.
#[repr(C)]
struct Version {
    major: c_int,
    minor: c_int,
    patch: c_int,
    hash: *const c_char,
    cpu_runtime: c_uint,
    gpu_runtime: c_uint,
}

/// `DNNL_RUNTIME_TBB`.
const RUNTIME_TBB: c_uint = 4;

/// The library's products.
pub(super) struct OneDnn {
    sgemm: Gemm,
    bf16: Option<Gemm>,
    i8: Option<GemmI8>,
}

impl OneDnn {
    /// Finds the function; gives the library's version as well.
    ///
    /// A build whose threads are TBB's heeds no number of them, only what the system lets the process
    /// use: with fewer `threads` than `cores` it is refused.
    pub(super) fn new(
        library: &SharedLibrary,
        threads: usize,
        cores: usize,
    ) -> Result<(Self, String), String> {
        // SAFETY: dnnl.h declares a function of this type under this name.
        let sgemm = unsafe { library.function::<Gemm>("dnnl_sgemm") }
            .ok_or_else(|| format!("{} has no dnnl_sgemm", library.name()))?;
        // SAFETY: dnnl.h: `const dnnl_version_t* dnnl_version(void)`.
        let version =
            unsafe { library.function::<unsafe extern "C" fn() -> *const Version>("dnnl_version") }
                .ok_or_else(|| format!("{} has no dnnl_version", library.name()))?;
        // SAFETY: it takes nothing.
        let version = unsafe { version() };
        // SAFETY: the address of a structure of the library's own, which is never written again.
        let version = unsafe { &*version };
        let tbb = version.cpu_runtime == RUNTIME_TBB;
        if tbb && threads < cores {
            return Err(format!(
                "this build takes its threads from TBB, which heeds only the cores that the process \
                 may use: run the program under `taskset` with {threads} of {cores}"
            ));
        }
        let words = format!("oneDNN {}.{}.{}", version.major, version.minor, version.patch);
        // SAFETY: the library exports it beside dnnl_sgemm, whose type it has but for the operands.
        let bf16 = unsafe { library.function::<Gemm>("dnnl_gemm_bf16bf16f32") };
        // SAFETY: dnnl.h declares a function of this type under this name.
        let i8 = unsafe { library.function::<GemmI8>("dnnl_gemm_s8s8s32") };
        Ok((Self { sgemm, bf16, i8 }, if tbb { words + ", TBB" } else { words }))
    }

    /// Computes the problem's C.
    pub(super) fn multiply<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        c: &mut [T::C],
    ) -> Result<(), String> {
        let products = TypeId::of::<T>();
        let function = if products == TypeId::of::<f32>() {
            Some(Function::F32(self.sgemm))
        } else if products == TypeId::of::<(bf16, f32)>() {
            self.bf16.map(Function::F32)
        } else if products == TypeId::of::<i8>() {
            self.i8.map(Function::I8)
        } else {
            None
        };
        let function = function.ok_or_else(|| format!("has no product in {}", T::TYPES))?;
        if problem.c.order != Order::RowMajor {
            return Err("writes C in row-major order only".to_owned());
        }
        problem.check_buffers(a.len(), b.len(), c.len()).map_err(|error| error.to_string())?;
        let letter = |operand: Operand| match problem.layout(operand).order {
            Order::RowMajor => b'N' as c_char,
            Order::ColMajor => b'T' as c_char,
        };
        let (transa, transb) = (letter(Operand::A), letter(Operand::B));
        let (m, n, k) = (problem.m as i64, problem.n as i64, problem.k as i64);
        let (lda, ldb, ldc) = (problem.a.ld as i64, problem.b.ld as i64, problem.c.ld as i64);
        let (alpha, beta) =
            (f32::from_f64(problem.alpha.to_f64()), f32::from_f64(problem.beta.to_f64()));
        let (a, b, c) = (a.as_ptr().cast(), b.as_ptr().cast(), c.as_mut_ptr().cast::<c_void>());
        // The function is of T's types, and the buffers hold the operands at these sizes and leading
        // dimensions, as checked above, whose byte counts fit an isize and so an i64.
        let status = match function {
            Function::F32(gemm) => {
                // SAFETY: as said; C is borrowed exclusively.
                unsafe { gemm(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c.cast(), ldc) }
            }
            Function::I8(gemm) => {
                // Zero points of zero, and one offset of zero for all of C.
                let (fixed, zero, offset) = (b'F' as c_char, 0, 0i32);
                let co = &raw const offset;
                let c = c.cast();
                // SAFETY: as said; C is borrowed exclusively, and the offset outlives the call.
                unsafe {
                    gemm(
                        transa, transb, fixed, m, n, k, alpha, a, lda, zero, b, ldb, zero, beta, c,
                        ldc, co,
                    )
                }
            }
        };
        if status == 0 { Ok(()) } else { Err(format!("oneDNN answered {status}")) }
    }
}

/// A function of the library.
enum Function {
    F32(Gemm),
    I8(GemmI8),
}
