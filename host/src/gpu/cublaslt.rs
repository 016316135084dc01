//! cuBLASLt: the product is described, a heuristic names kernels for it, and one of them is launched.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::rc::Rc;

use super::blas::{DataTypes, DeviceProduct, check, functions, operation, version_words};
use crate::column_major::ColumnMajor;
use crate::shared_library::SharedLibrary;

type Handle = *mut c_void;
type Opaque = *mut c_void;

/// `CUBLASLT_MATMUL_DESC_TRANSA` and `CUBLASLT_MATMUL_DESC_TRANSB`, of type `int32_t`.
const TRANSPOSITIONS: [c_int; 2] = [3, 4];
/// `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`, of type `uint64_t`.
const MAX_WORKSPACE_BYTES: c_int = 1;

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Heuristic {
    /// `cublasLtMatmulAlgo_t`.
    algorithm: [u64; 8],
    workspace_bytes: usize,
    status: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

functions! {
    /// The functions in use, as cublasLt.h declares them.
    Functions {
        create = "cublasLtCreate": fn(*mut Handle);
        destroy = "cublasLtDestroy": fn(Handle);
        // Descriptor, compute type, type of alpha and beta.
        description_create = "cublasLtMatmulDescCreate": fn(*mut Opaque, c_int, c_int);
        description_destroy = "cublasLtMatmulDescDestroy": fn(Opaque);
        description_set = "cublasLtMatmulDescSetAttribute": fn(Opaque, c_int, *const c_void, usize);
        // Layout, type, rows, columns, leading dimension.
        layout_create = "cublasLtMatrixLayoutCreate": fn(*mut Opaque, c_int, u64, u64, i64);
        layout_destroy = "cublasLtMatrixLayoutDestroy": fn(Opaque);
        preference_create = "cublasLtMatmulPreferenceCreate": fn(*mut Opaque);
        preference_destroy = "cublasLtMatmulPreferenceDestroy": fn(Opaque);
        preference_set = "cublasLtMatmulPreferenceSetAttribute": fn(Opaque, c_int, *const c_void, usize);
        // Handle, descriptor, layouts of A, B, C and D, preference, results wanted, results, their number.
        heuristic = "cublasLtMatmulAlgoGetHeuristic": fn(
            Handle, Opaque, Opaque, Opaque, Opaque, Opaque, Opaque, c_int, *mut Heuristic, *mut c_int,
        );
        // Handle, descriptor, alpha, A, B, beta, C and D with their layouts, algorithm, workspace, stream.
        matmul = "cublasLtMatmul": fn(
            Handle, Opaque, *const c_void, u64, Opaque, u64, Opaque, *const c_void, u64, Opaque, u64,
            Opaque, *const [u64; 8], u64, usize, *mut c_void,
        );
    }
}

/// A handle of cuBLASLt with its workspace and stream.
pub(super) struct CublasLt {
    /// The plan of the product that was launched last.
    plan: RefCell<Option<Plan>>,
    handle: Rc<LtHandle>,
    workspace: u64,
    workspace_bytes: usize,
    stream: *mut c_void,
}

/// The functions and the handle, which plans need to end as well.
struct LtHandle {
    functions: Functions,
    raw: Handle,
}

impl Drop for LtHandle {
    fn drop(&mut self) {
        // SAFETY: made by `CublasLt::new`; the last user is gone.
        unsafe { (self.functions.destroy)(self.raw) };
    }
}

impl CublasLt {
    /// Makes a handle in the current context.
    ///
    /// # Safety
    /// The functions are cuBLASLt's and a context is current. The stream is one of that context, and
    /// the workspace is device memory of that many bytes which nothing else uses; both live as long as
    /// what is returned.
    pub(super) unsafe fn new(
        functions: Functions,
        workspace: u64,
        workspace_bytes: usize,
        stream: *mut c_void,
    ) -> Result<Self, String> {
        let mut raw = ptr::null_mut();
        // SAFETY: it writes one handle.
        check("cublasLtCreate", unsafe { (functions.create)(&raw mut raw) })?;
        let handle = Rc::new(LtHandle { functions, raw });
        Ok(Self { plan: RefCell::new(None), handle, workspace, workspace_bytes, stream })
    }

    /// Puts one product into the stream and returns without waiting. The first of its kind is planned.
    ///
    /// # Safety
    /// As `Cublas::launch`.
    pub(super) unsafe fn launch(&self, product: &DeviceProduct) -> Result<(), String> {
        let mut kept = self.plan.borrow_mut();
        let fits = |plan: &Plan| (plan.call, plan.types) == (product.call, product.types);
        if !kept.as_ref().is_some_and(fits) {
            *kept = None;
            *kept = Some(Plan::new(&self.handle, product, self.workspace_bytes)?);
        }
        let Some(plan) = kept.as_ref() else { return Ok(()) };
        let [first, second, c] = plan.layouts.each_ref().map(|layout| layout.raw);
        // SAFETY: the caller's promise on memory. Descriptor, layouts and algorithm are those of a
        // product of these sizes and types; the workspace is as large as the heuristic was told.
        let status = unsafe {
            (self.handle.functions.matmul)(
                self.handle.raw,
                plan.description.raw,
                product.alpha,
                product.first,
                first,
                product.second,
                second,
                product.beta,
                product.c,
                c,
                product.c,
                c,
                &raw const plan.algorithm,
                self.workspace,
                self.workspace_bytes,
                self.stream,
            )
        };
        check("cublasLtMatmul", status)
    }
}

/// Something that the library made and must be told to end.
struct Owned {
    raw: Opaque,
    destroy: unsafe extern "C" fn(Opaque) -> c_int,
    // Ends after what was made with it.
    _handle: Rc<LtHandle>,
}

impl Owned {
    fn new(
        handle: &Rc<LtHandle>,
        call: &str,
        destroy: unsafe extern "C" fn(Opaque) -> c_int,
        create: impl FnOnce(*mut Opaque) -> c_int,
    ) -> Result<Self, String> {
        let mut raw = ptr::null_mut();
        check(call, create(&raw mut raw))?;
        Ok(Self { raw, destroy, _handle: Rc::clone(handle) })
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: made by the function that `destroy` belongs to, and ended only here.
        unsafe { (self.destroy)(self.raw) };
    }
}

/// How a product of one size and type is done.
struct Plan {
    call: ColumnMajor,
    types: DataTypes,
    description: Owned,
    /// Of the first factor, the second and C.
    layouts: [Owned; 3],
    algorithm: [u64; 8],
}

impl Plan {
    fn new(
        handle: &Rc<LtHandle>,
        product: &DeviceProduct,
        workspace_bytes: usize,
    ) -> Result<Self, String> {
        let (call, types) = (product.call, product.types);
        let functions = &handle.functions;
        let description = Owned::new(
            handle,
            "cublasLtMatmulDescCreate",
            functions.description_destroy,
            // SAFETY: it writes one address.
            |at| unsafe { (functions.description_create)(at, types.compute, types.scalar) },
        )?;
        for (attribute, factor) in TRANSPOSITIONS.into_iter().zip([call.first, call.second]) {
            let value = operation(factor.transposed);
            // SAFETY: the attribute is a number of these four bytes, which it copies.
            let status = unsafe {
                let at = ptr::from_ref(&value).cast();
                (functions.description_set)(description.raw, attribute, at, size_of_val(&value))
            };
            check("cublasLtMatmulDescSetAttribute", status)?;
        }
        let layout = |element: i32, (rows, cols): (i32, i32), transposed: bool, ld: i32| {
            // The matrix as it is in memory, before the transposition.
            let (rows, cols) = if transposed { (cols, rows) } else { (rows, cols) };
            let number = |size: i32| u64::from(size.unsigned_abs());
            Owned::new(
                handle,
                "cublasLtMatrixLayoutCreate",
                functions.layout_destroy,
                // SAFETY: it writes one address.
                |at| unsafe {
                    (functions.layout_create)(at, element, number(rows), number(cols), ld.into())
                },
            )
        };
        let layouts = [
            layout(types.first, (call.m, call.k), call.first.transposed, call.first.ld)?,
            layout(types.second, (call.k, call.n), call.second.transposed, call.second.ld)?,
            layout(types.result, (call.m, call.n), false, call.ldc)?,
        ];
        let preference = Owned::new(
            handle,
            "cublasLtMatmulPreferenceCreate",
            functions.preference_destroy,
            // SAFETY: it writes one address.
            |at| unsafe { (functions.preference_create)(at) },
        )?;
        let bytes = workspace_bytes as u64;
        // SAFETY: the attribute is a number of these eight bytes, which it copies.
        let status = unsafe {
            let at = ptr::from_ref(&bytes).cast();
            (functions.preference_set)(preference.raw, MAX_WORKSPACE_BYTES, at, size_of_val(&bytes))
        };
        check("cublasLtMatmulPreferenceSetAttribute", status)?;

        let mut found = Heuristic {
            algorithm: [0; 8],
            workspace_bytes: 0,
            status: 0,
            waves: 0.0,
            reserved: [0; 4],
        };
        let mut count = 0;
        let [first, second, c] = layouts.each_ref().map(|layout| layout.raw);
        // SAFETY: everything passed was made above; it writes one result at most and their number.
        let status = unsafe {
            (functions.heuristic)(
                handle.raw,
                description.raw,
                first,
                second,
                c,
                c,
                preference.raw,
                1,
                &raw mut found,
                &raw mut count,
            )
        };
        check("cublasLtMatmulAlgoGetHeuristic", status)?;
        if count < 1 {
            return Err("cublasLtMatmulAlgoGetHeuristic found no kernel".to_owned());
        }
        check("cublasLtMatmulAlgoGetHeuristic", found.status)?;
        Ok(Self { call, types, description, layouts, algorithm: found.algorithm })
    }
}

/// Name and version.
pub(super) fn describe(library: &SharedLibrary) -> String {
    type Version = unsafe extern "C" fn() -> usize;
    // SAFETY: cublasLt.h: `size_t cublasLtGetVersion(void)`.
    match unsafe { library.function::<Version>("cublasLtGetVersion") } {
        // SAFETY: it takes nothing and returns a number.
        Some(version) => format!("cuBLASLt {}", version_words(unsafe { version() })),
        None => "cuBLASLt of unknown version".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use gemm_spec::{Operand, Problem, bf16};

    use super::*;
    use crate::column_major::Factor;
    use crate::column_major::tests::{expected, problems, reference};

    thread_local! {
        /// Descriptors, layouts, preferences and handles that were made and not ended.
        static ALIVE: Cell<i32> = const { Cell::new(0) };
        /// Times that the heuristic was asked.
        static PLANNED: Cell<i32> = const { Cell::new(0) };
    }

    /// What a fake descriptor or layout remembers.
    #[derive(Clone, Copy, Default)]
    struct Fake {
        operations: [c_int; 2],
        rows: u64,
        cols: u64,
        ld: i64,
        workspace: u64,
    }

    fn make(at: *mut Opaque, fake: Fake) -> c_int {
        ALIVE.set(ALIVE.get() + 1);
        // SAFETY: the caller gives the place of an address.
        unsafe { *at = Box::into_raw(Box::new(fake)).cast() };
        0
    }

    /// A copy of what stands behind an address that `make` gave.
    unsafe fn look(raw: Opaque) -> Fake {
        // SAFETY: the caller's promise.
        unsafe { *raw.cast::<Fake>() }
    }

    unsafe extern "C" fn create(at: *mut Opaque) -> c_int {
        make(at, Fake::default())
    }

    unsafe extern "C" fn destroy(raw: Opaque) -> c_int {
        ALIVE.set(ALIVE.get() - 1);
        // SAFETY: made by `make`, and ended once.
        drop(unsafe { Box::from_raw(raw.cast::<Fake>()) });
        0
    }

    unsafe extern "C" fn description_create(
        at: *mut Opaque,
        compute: c_int,
        scalar: c_int,
    ) -> c_int {
        if (compute, scalar) == (70, 1) { make(at, Fake::default()) } else { 15 }
    }

    unsafe extern "C" fn description_set(
        raw: Opaque,
        attribute: c_int,
        value: *const c_void,
        bytes: usize,
    ) -> c_int {
        assert_eq!(bytes, 4);
        // SAFETY: `value` is the address of as many bytes, a number.
        let value = unsafe { *value.cast() };
        // SAFETY: `raw` is of `make`, and nothing else refers to what it made.
        let fake = unsafe { &mut *raw.cast::<Fake>() };
        fake.operations[attribute as usize - 3] = value;
        0
    }

    unsafe extern "C" fn layout_create(
        at: *mut Opaque,
        element: c_int,
        rows: u64,
        cols: u64,
        ld: i64,
    ) -> c_int {
        if element != 1 || ld < rows as i64 {
            return 7;
        }
        make(at, Fake { rows, cols, ld, ..Fake::default() })
    }

    unsafe extern "C" fn preference_set(
        raw: Opaque,
        attribute: c_int,
        value: *const c_void,
        bytes: usize,
    ) -> c_int {
        assert_eq!((attribute, bytes), (1, 8));
        // SAFETY: `value` is the address of as many bytes, a number.
        let value = unsafe { *value.cast() };
        // SAFETY: `raw` is of `make`, and nothing else refers to what it made.
        let fake = unsafe { &mut *raw.cast::<Fake>() };
        fake.workspace = value;
        0
    }

    unsafe extern "C" fn heuristic(
        _: Handle,
        _: Opaque,
        _: Opaque,
        _: Opaque,
        _: Opaque,
        _: Opaque,
        preference: Opaque,
        wanted: c_int,
        results: *mut Heuristic,
        count: *mut c_int,
    ) -> c_int {
        PLANNED.set(PLANNED.get() + 1);
        assert_eq!(wanted, 1);
        // SAFETY: a preference of `make`.
        assert_eq!(unsafe { look(preference) }.workspace, 512);
        // SAFETY: the place of the one result that is wanted.
        unsafe { (*results).algorithm = [42; 8] };
        // SAFETY: the place of the number of results.
        unsafe { *count = 1 };
        0
    }

    /// Does in host memory what cuBLASLt does on the device.
    unsafe extern "C" fn matmul(
        _: Handle,
        description: Opaque,
        alpha: *const c_void,
        a: u64,
        a_layout: Opaque,
        b: u64,
        b_layout: Opaque,
        beta: *const c_void,
        c: u64,
        c_layout: Opaque,
        d: u64,
        d_layout: Opaque,
        algorithm: *const [u64; 8],
        workspace: u64,
        workspace_bytes: usize,
        _: *mut c_void,
    ) -> c_int {
        assert_eq!((c, c_layout, workspace, workspace_bytes), (d, d_layout, 0x1000, 512));
        // SAFETY: the algorithm that `heuristic` gave.
        assert_eq!(unsafe { *algorithm }, [42; 8]);
        // SAFETY: made by `make`, each of them.
        let look = |raw: Opaque| unsafe { look(raw) };
        let [op_a, op_b] = look(description).operations;
        let (a_layout, b_layout, c_layout) = (look(a_layout), look(b_layout), look(c_layout));
        let factor = |op, layout: Fake| Factor {
            operand: Operand::A,
            transposed: op == 1,
            ld: layout.ld.try_into().unwrap(),
        };
        let k = if op_a == 1 { a_layout.rows } else { a_layout.cols };
        assert_eq!(k, if op_b == 1 { b_layout.cols } else { b_layout.rows });
        let call = ColumnMajor {
            m: c_layout.rows.try_into().unwrap(),
            n: c_layout.cols.try_into().unwrap(),
            k: k.try_into().unwrap(),
            first: factor(op_a, a_layout),
            second: factor(op_b, b_layout),
            ldc: c_layout.ld.try_into().unwrap(),
        };
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
        Functions {
            create,
            destroy,
            description_create,
            description_destroy: destroy,
            description_set,
            layout_create,
            layout_destroy: destroy,
            preference_create: create,
            preference_destroy: destroy,
            preference_set,
            heuristic,
            matmul,
        }
    }

    #[test]
    fn a_product_is_described_planned_once_and_launched() {
        // SAFETY: the fake functions follow neither workspace nor stream.
        let cublaslt = unsafe { CublasLt::new(fake(), 0x1000, 512, ptr::null_mut()) }.unwrap();
        for (problem, a, b) in problems() {
            let planned = PLANNED.get();
            for _ in 0..3 {
                let mut c = vec![f64::NAN; 64];
                let (a_at, b_at) = (a.as_ptr() as u64, b.as_ptr() as u64);
                let product =
                    DeviceProduct::new(&problem, a_at, b_at, c.as_mut_ptr() as u64).unwrap();
                // SAFETY: the fake takes host addresses, and the buffers hold the operands.
                unsafe { cublaslt.launch(&product) }.unwrap();
                for row in 0..problem.m {
                    for col in 0..problem.n {
                        let found = c[problem.c.index(row, col)];
                        assert_eq!(found, expected(&problem, &a, &b, row, col), "{problem:?}");
                    }
                }
            }
            assert_eq!(PLANNED.get(), planned + 1);
        }
        drop(cublaslt);
        assert_eq!(ALIVE.get(), 0, "everything that was made was ended");
    }

    #[test]
    fn factors_and_result_have_layouts_of_their_own_types() {
        thread_local! {
            static TYPES: Cell<Vec<c_int>> = const { Cell::new(Vec::new()) };
        }
        unsafe extern "C" fn note(
            at: *mut Opaque,
            element: c_int,
            _: u64,
            _: u64,
            _: i64,
        ) -> c_int {
            TYPES.set([TYPES.take(), vec![element]].concat());
            make(at, Fake::default())
        }
        unsafe extern "C" fn describe(at: *mut Opaque, compute: c_int, scalar: c_int) -> c_int {
            assert_eq!((compute, scalar), (68, 0));
            make(at, Fake::default())
        }
        unsafe extern "C" fn no_kernel(
            _: Handle,
            _: Opaque,
            _: Opaque,
            _: Opaque,
            _: Opaque,
            _: Opaque,
            _: Opaque,
            _: c_int,
            _: *mut Heuristic,
            _: *mut c_int,
        ) -> c_int {
            15
        }
        let functions = Functions {
            layout_create: note,
            description_create: describe,
            heuristic: no_kernel,
            ..fake()
        };
        // SAFETY: the fake functions follow neither workspace nor stream.
        let cublaslt = unsafe { CublasLt::new(functions, 0x1000, 512, ptr::null_mut()) }.unwrap();
        let problem = Problem::<(bf16, f32)>::new(2, 3, 4);
        let product = DeviceProduct::new(&problem, 0, 0, 0).unwrap();
        // SAFETY: the fake ends before it follows an address.
        unsafe { cublaslt.launch(&product) }.unwrap_err();
        assert_eq!(TYPES.take(), [14, 14, 0]);
        drop(cublaslt);
        assert_eq!(ALIVE.get(), 0, "everything that was made was ended");
    }

    #[test]
    fn a_refusal_names_the_call_and_leaves_nothing_behind() {
        // SAFETY: the fake functions follow neither workspace nor stream.
        let cublaslt = unsafe { CublasLt::new(fake(), 0x1000, 512, ptr::null_mut()) }.unwrap();
        let f32 = Problem::<f32>::new(1, 1, 1);
        let product = DeviceProduct::new(&f32, 0, 0, 0).unwrap();
        // SAFETY: the fake refuses the type before it follows an address.
        let refused = unsafe { cublaslt.launch(&product) }.unwrap_err();
        assert_eq!(refused, "cublasLtMatmulDescCreate: CUBLAS_STATUS_NOT_SUPPORTED (15)");
        drop(cublaslt);
        assert_eq!(ALIVE.get(), 0, "everything that was made was ended");
    }
}
