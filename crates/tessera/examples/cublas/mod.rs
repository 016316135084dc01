//! cuBLAS, where it is installed.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};
use std::mem::transmute;
use std::ptr;

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

type Create = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type SetStream = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Batched = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    c_longlong,
    *const c_void,
    c_int,
    c_int,
    c_longlong,
    *const c_void,
    *mut c_void,
    c_int,
    c_int,
    c_longlong,
    c_int,
    c_int,
    c_int,
) -> c_int;

type Product = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    *const c_void,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    c_int,
    c_int,
    *const c_void,
    *mut c_void,
    c_int,
    c_int,
    c_int,
    c_int,
) -> c_int;

/// A handle, bound to a stream. It is kept until the program ends.
pub(crate) struct Handle {
    handle: *mut c_void,
    batched: Batched,
    product: Product,
}

impl Handle {
    pub(crate) fn new(stream: &cuda_lazy::Stream) -> Option<Self> {
        const NOW: c_int = 2;
        let open = |name: &CStr| {
            // SAFETY: a name that ends with zero.
            let library = unsafe { dlopen(name.as_ptr(), NOW) };
            (!library.is_null()).then_some(library)
        };
        let library = open(c"libcublas.so.13")
            .or_else(|| open(c"libcublas.so.12"))
            .or_else(|| open(c"libcublas.so"))?;
        let symbol = |name: &CStr| {
            // SAFETY: the library is open, the name ends with zero.
            let symbol = unsafe { dlsym(library, name.as_ptr()) };
            (!symbol.is_null()).then_some(symbol)
        };
        // SAFETY: the type is that of cublas_api.h.
        let create = unsafe { transmute::<*mut c_void, Create>(symbol(c"cublasCreate_v2")?) };
        // SAFETY: the same.
        let set_stream =
            unsafe { transmute::<*mut c_void, SetStream>(symbol(c"cublasSetStream_v2")?) };
        // SAFETY: the same.
        let batched =
            unsafe { transmute::<*mut c_void, Batched>(symbol(c"cublasGemmStridedBatchedEx")?) };
        // SAFETY: the same.
        let product = unsafe { transmute::<*mut c_void, Product>(symbol(c"cublasGemmEx")?) };
        let _current = stream.context().enter().ok()?;
        let mut handle = ptr::null_mut();
        // SAFETY: a context is current, and it writes one handle.
        if unsafe { create(&raw mut handle) } != 0 {
            return None;
        }
        // SAFETY: the handle was made above, for a stream of the current context.
        let bound = unsafe { set_stream(handle, stream.as_raw().cast()) };
        (bound == 0).then_some(Self { handle, batched, product })
    }

    /// Queues a batch of square row-major products: of column-major ones with A and B exchanged.
    pub(crate) fn run(
        &self,
        [element, compute]: [i32; 2],
        n: usize,
        count: usize,
        [a, b, d]: [u64; 3],
    ) -> Result<(), String> {
        let (a, b, d) = (pointer(a)?, pointer(b)?, pointer(d)?);
        let scalars = Scalars::NEW;
        let [alpha, beta] = scalars.of(compute);
        let side = c_int::try_from(n).map_err(|error| error.to_string())?;
        if count == 1 {
            // SAFETY: the caller's matrices have these sizes; scalars are read before the call returns.
            let status = unsafe {
                (self.product)(
                    self.handle,
                    0,
                    0,
                    side,
                    side,
                    side,
                    alpha,
                    b,
                    element,
                    side,
                    a,
                    element,
                    side,
                    beta,
                    d,
                    element,
                    side,
                    compute,
                    -1,
                )
            };
            return told(status);
        }
        let stride = c_longlong::from(side) * c_longlong::from(side);
        let products = c_int::try_from(count).map_err(|error| error.to_string())?;
        // SAFETY: the caller's matrices have these sizes; scalars are read before the call returns.
        let status = unsafe {
            (self.batched)(
                self.handle,
                0,
                0,
                side,
                side,
                side,
                alpha,
                b,
                element,
                side,
                stride,
                a,
                element,
                side,
                stride,
                beta,
                d,
                element,
                side,
                stride,
                products,
                compute,
                -1,
            )
        };
        told(status)
    }
}

fn pointer(address: u64) -> Result<*mut c_void, String> {
    let address = usize::try_from(address).map_err(|error| error.to_string())?;
    Ok(ptr::with_exposed_provenance_mut(address))
}

fn told(status: c_int) -> Result<(), String> {
    if status == 0 { Ok(()) } else { Err(format!("cuBLAS answers {status}")) }
}

/// One and zero of both types of sums.
struct Scalars {
    single: [f32; 2],
    double: [f64; 2],
}

impl Scalars {
    const NEW: Self = Self { single: [1.0, 0.0], double: [1.0, 0.0] };

    /// Where alpha and beta are.
    fn of(&self, compute: c_int) -> [*const c_void; 2] {
        let of_double = self.double.each_ref().map(|scalar| ptr::from_ref(scalar).cast());
        let of_single = self.single.each_ref().map(|scalar| ptr::from_ref(scalar).cast());
        if compute == 70 { of_double } else { of_single }
    }
}
