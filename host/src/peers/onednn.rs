//! oneDNN, by its own function: it takes row-major matrices and f32 alone.

use std::any::TypeId;
use std::ffi::{c_char, c_int, c_uint};

use gemm_spec::{Operand, Order, Problem};

use crate::scalar::{Scalar, ScalarTypes};
use crate::shared_library::SharedLibrary;

/// `dnnl_sgemm`; returns 0 where it worked.
type Sgemm = unsafe extern "C" fn(
    transa: c_char,
    transb: c_char,
    m: i64,
    n: i64,
    k: i64,
    alpha: f32,
    a: *const f32,
    lda: i64,
    b: *const f32,
    ldb: i64,
    beta: f32,
    c: *mut f32,
    ldc: i64,
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

/// The library's product.
pub(super) struct OneDnn {
    sgemm: Sgemm,
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
        let sgemm = unsafe { library.function::<Sgemm>("dnnl_sgemm") }
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
        Ok((Self { sgemm }, if tbb { words + ", TBB" } else { words }))
    }

    /// Computes the problem's C.
    pub(super) fn multiply<T: ScalarTypes>(
        &self,
        problem: &Problem<T>,
        a: &[T::A],
        b: &[T::B],
        c: &mut [T::C],
    ) -> Result<(), String> {
        if TypeId::of::<T>() != TypeId::of::<f32>() {
            return Err(format!("has no product in {}", T::TYPES));
        }
        if problem.c.order != Order::RowMajor {
            return Err("writes C in row-major order only".to_owned());
        }
        problem.check_buffers(a.len(), b.len(), c.len()).map_err(|error| error.to_string())?;
        let letter = |operand: Operand| match problem.layout(operand).order {
            Order::RowMajor => b'N' as c_char,
            Order::ColMajor => b'T' as c_char,
        };
        // SAFETY: T is f32. The buffers hold the operands at these sizes and leading dimensions, as
        // checked above, whose byte counts fit an isize and so an i64; C is borrowed exclusively.
        let status = unsafe {
            (self.sgemm)(
                letter(Operand::A),
                letter(Operand::B),
                problem.m as i64,
                problem.n as i64,
                problem.k as i64,
                f32::from_f64(problem.alpha.to_f64()),
                a.as_ptr().cast(),
                problem.a.ld as i64,
                b.as_ptr().cast(),
                problem.b.ld as i64,
                f32::from_f64(problem.beta.to_f64()),
                c.as_mut_ptr().cast(),
                problem.c.ld as i64,
            )
        };
        if status == 0 { Ok(()) } else { Err(format!("dnnl_sgemm answered {status}")) }
    }
}
