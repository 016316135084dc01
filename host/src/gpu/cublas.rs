//! cuBLAS.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::blas::{DeviceProduct, check, functions, operation, version_words};

type Handle = *mut c_void;

/// `CUBLAS_DEFAULT_MATH`: no compute type is replaced by one of less precision, as TF32 would be.
const DEFAULT_MATH: c_int = 0;
/// `CUBLAS_GEMM_DEFAULT`: the library's own choice among its kernels.
const GEMM_DEFAULT: c_int = -1;

functions! {
    /// The functions in use, as cublas_api.h declares them.
    Functions {
        create = "cublasCreate_v2": fn(*mut Handle);
        destroy = "cublasDestroy_v2": fn(Handle);
        version = "cublasGetVersion_v2": fn(Handle, *mut c_int);
        set_stream = "cublasSetStream_v2": fn(Handle, *mut c_void);
        set_math_mode = "cublasSetMathMode": fn(Handle, c_int);
        // Sizes, operands with their types and leading dimensions, compute type, algorithm.
        gemm = "cublasGemmEx": fn(
            Handle, c_int, c_int, c_int, c_int, c_int,
            *const c_void, u64, c_int, c_int, u64, c_int, c_int,
            *const c_void, u64, c_int, c_int, c_int, c_int,
        );
    }
}

/// A handle of cuBLAS, bound to one stream.
pub(super) struct Cublas {
    functions: Functions,
    handle: Handle,
}

impl Cublas {
    /// Makes a handle in the current context.
    ///
    /// # Safety
    /// The functions are cuBLAS's, a context is current, and the stream is one of that context that
    /// lives as long as what is returned.
    pub(super) unsafe fn new(functions: Functions, stream: *mut c_void) -> Result<Self, String> {
        let mut handle = ptr::null_mut();
        // SAFETY: it writes one handle.
        check("cublasCreate_v2", unsafe { (functions.create)(&raw mut handle) })?;
        // From here on dropping it destroys the handle.
        let this = Self { functions, handle };
        // SAFETY: the handle was made above; the stream is the caller's promise.
        check("cublasSetStream_v2", unsafe { (this.functions.set_stream)(handle, stream) })?;
        // SAFETY: as above.
        let status = unsafe { (this.functions.set_math_mode)(handle, DEFAULT_MATH) };
        check("cublasSetMathMode", status)?;
        Ok(this)
    }

    /// Name and version.
    pub(super) fn describe(&self) -> String {
        let mut version = 0;
        // SAFETY: the handle is alive; it writes one number.
        let status = unsafe { (self.functions.version)(self.handle, &raw mut version) };
        match (check("cublasGetVersion_v2", status), usize::try_from(version)) {
            (Ok(()), Ok(version)) => format!("cuBLAS {}", version_words(version)),
            _ => "cuBLAS of unknown version".to_owned(),
        }
    }

    /// Puts one product into the stream and returns without waiting.
    ///
    /// # Safety
    /// The product's addresses are those of device memory that holds its operands at their sizes and
    /// leading dimensions until the product is done, and nothing else uses C meanwhile. Its scalars
    /// are of its types.
    pub(super) unsafe fn launch(&self, product: &DeviceProduct) -> Result<(), String> {
        let DeviceProduct { types, call, alpha, beta, first, second, c } = product;
        // SAFETY: the caller's promise on memory; scalars are read before the call returns, which is
        // the handle's mode unless it is changed.
        let status = unsafe {
            (self.functions.gemm)(
                self.handle,
                operation(call.first.transposed),
                operation(call.second.transposed),
                call.m,
                call.n,
                call.k,
                *alpha,
                *first,
                types.first,
                call.first.ld,
                *second,
                types.second,
                call.second.ld,
                *beta,
                *c,
                types.result,
                call.ldc,
                types.compute,
                GEMM_DEFAULT,
            )
        };
        check("cublasGemmEx", status)
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        // SAFETY: the handle was made by `new` and is used nowhere else.
        unsafe { (self.functions.destroy)(self.handle) };
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use gemm_spec::{Operand, Problem, bf16};

    use super::*;
    use crate::column_major::tests::{expected, problems, reference};
    use crate::column_major::{ColumnMajor, Factor};

    const HANDLE: usize = 0x70;

    unsafe extern "C" fn create(handle: *mut Handle) -> c_int {
        // SAFETY: the caller gives the place of a handle.
        unsafe { *handle = ptr::without_provenance_mut(HANDLE) };
        0
    }

    unsafe extern "C" fn destroy(handle: Handle) -> c_int {
        c_int::from(handle.addr() != HANDLE)
    }

    unsafe extern "C" fn version(_: Handle, version: *mut c_int) -> c_int {
        // SAFETY: the caller gives the place of a number.
        unsafe { *version = 130_100 };
        0
    }

    unsafe extern "C" fn set_stream(handle: Handle, _: *mut c_void) -> c_int {
        destroy_code(handle)
    }

    /// Refuses every mode but that without TF32.
    unsafe extern "C" fn set_math_mode(handle: Handle, mode: c_int) -> c_int {
        if mode == 0 { destroy_code(handle) } else { 7 }
    }

    fn destroy_code(handle: Handle) -> c_int {
        if handle.addr() == HANDLE { 0 } else { 1 }
    }

    /// Does in host memory what cuBLAS does on the device.
    unsafe extern "C" fn gemm(
        handle: Handle,
        transa: c_int,
        transb: c_int,
        m: c_int,
        n: c_int,
        k: c_int,
        alpha: *const c_void,
        a: u64,
        a_type: c_int,
        lda: c_int,
        b: u64,
        b_type: c_int,
        ldb: c_int,
        beta: *const c_void,
        c: u64,
        c_type: c_int,
        ldc: c_int,
        compute: c_int,
        algorithm: c_int,
    ) -> c_int {
        // f64 throughout, in its own precision.
        if handle.addr() != HANDLE || (a_type, b_type, c_type, compute) != (1, 1, 1, 70) {
            return 7;
        }
        assert_eq!(algorithm, -1);
        let factor = |trans, ld| Factor { operand: Operand::A, transposed: trans == 1, ld };
        let call =
            ColumnMajor { m, n, k, first: factor(transa, lda), second: factor(transb, ldb), ldc };
        let (a, b) = (a as *const f64, b as *const f64);
        // SAFETY: the test's C is a buffer of 64 numbers, which nothing else uses during the call.
        let c = unsafe { std::slice::from_raw_parts_mut(c as *mut f64, 64) };
        let [alpha, beta] = [alpha, beta].map(|factor| {
            // SAFETY: the address of one of the test's scalars.
            unsafe { *factor.cast::<f64>() }
        });
        // SAFETY: an element of A, which the test's buffer holds whole.
        let first = |at| unsafe { *a.wrapping_add(at) };
        // SAFETY: an element of B, which the test's buffer holds whole.
        let second = |at| unsafe { *b.wrapping_add(at) };
        reference(&call, alpha, first, second, beta, c);
        0
    }

    fn fake() -> Functions {
        Functions { create, destroy, version, set_stream, set_math_mode, gemm }
    }

    #[test]
    fn a_product_reaches_the_library_as_its_header_says() {
        // SAFETY: the fake functions follow no stream.
        let cublas = unsafe { Cublas::new(fake(), ptr::null_mut()) }.unwrap();
        assert_eq!(cublas.describe(), "cuBLAS 13.1.0");
        for (problem, a, b) in problems() {
            let mut c = vec![f64::NAN; 64];
            let (a_at, b_at, c_at) = (a.as_ptr() as u64, b.as_ptr() as u64, c.as_mut_ptr() as u64);
            let product = DeviceProduct::new(&problem, a_at, b_at, c_at).unwrap();
            // SAFETY: the fake takes host addresses, and the buffers hold the operands.
            unsafe { cublas.launch(&product) }.unwrap();
            for row in 0..problem.m {
                for col in 0..problem.n {
                    let found = c[problem.c.index(row, col)];
                    assert_eq!(found, expected(&problem, &a, &b, row, col), "{problem:?}");
                }
            }
        }
    }

    #[test]
    fn factors_and_result_have_types_of_their_own() {
        thread_local! {
            static TYPES: Cell<[c_int; 4]> = const { Cell::new([-1; 4]) };
        }
        unsafe extern "C" fn note(
            _: Handle,
            _: c_int,
            _: c_int,
            _: c_int,
            _: c_int,
            _: c_int,
            _: *const c_void,
            _: u64,
            a_type: c_int,
            _: c_int,
            _: u64,
            b_type: c_int,
            _: c_int,
            _: *const c_void,
            _: u64,
            c_type: c_int,
            _: c_int,
            compute: c_int,
            _: c_int,
        ) -> c_int {
            TYPES.set([a_type, b_type, c_type, compute]);
            0
        }
        // SAFETY: the fake functions follow no stream.
        let cublas = unsafe { Cublas::new(Functions { gemm: note, ..fake() }, ptr::null_mut()) };
        let problem = Problem::<(bf16, f32)>::new(2, 3, 4);
        let product = DeviceProduct::new(&problem, 0, 0, 0).unwrap();
        // SAFETY: the fake follows no address.
        unsafe { cublas.unwrap().launch(&product) }.unwrap();
        assert_eq!(TYPES.get(), [14, 14, 0, 68]);
    }

    #[test]
    fn what_the_library_refuses_is_named() {
        unsafe extern "C" fn refuse(_: *mut Handle) -> c_int {
            1
        }
        // SAFETY: the fake functions follow no stream.
        let refused =
            unsafe { Cublas::new(Functions { create: refuse, ..fake() }, ptr::null_mut()) };
        let refused = refused.err().unwrap();
        assert!(refused.contains("cublasCreate_v2: CUBLAS_STATUS_NOT_INITIALIZED"), "{refused}");

        // SAFETY: as above.
        let cublas = unsafe { Cublas::new(fake(), ptr::null_mut()) }.unwrap();
        let f32 = Problem::<f32>::new(1, 1, 1);
        let product = DeviceProduct::new(&f32, 0, 0, 0).unwrap();
        // SAFETY: the fake looks at the types first and refuses these before it follows an address.
        let status = unsafe { cublas.launch(&product) }.unwrap_err();
        assert!(status.contains("CUBLAS_STATUS_INVALID_VALUE (7)"), "{status}");
        let integers = DeviceProduct::new(&Problem::<i32>::new(1, 1, 1), 0, 0, 0).err();
        assert_eq!(integers.as_deref(), Some("has no product in i32"));
    }
}
