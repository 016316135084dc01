//! Products.

use std::ffi::c_char;
use std::num::NonZeroUsize;

use tessera::Engine;
use tessera::gpu::Epilogue;
use tessera_raw::{
    Batch, Epilogue as RawEpilogue, Explanation, Factors, Operands, Place, explain,
    multiply_with_epilogue, types,
};

use crate::engine::{engine_at, tessera_engine};
use crate::epilogue::{tessera_epilogue, tessera_epilogue_numbers};
use crate::guard::guard;
use crate::matrix::{scalar_of, tessera_matrix};
use crate::sized::{self, Sized};
use crate::status::{Fault, TESSERA_UNSUPPORTED, tessera_status};

/// Several products of equal sizes, their operands these numbers of elements apart: 0 for an A or B that
/// all of them share.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tessera_batch {
    /// sizeof(tessera_batch)
    pub size: usize,
    /// How many products there are.
    pub count: usize,
    /// Elements from one A to the next.
    pub a_stride: isize,
    /// Elements from one B to the next.
    pub b_stride: isize,
    /// Elements from one C to the next.
    pub c_stride: isize,
}

// SAFETY: whole numbers, the first of which is the size.
unsafe impl Sized for tessera_batch {
    const NAME: &'static str = "tessera_batch";
    const LEAST: usize = 40;
}

/// What a product is besides its matrices. TESSERA_GEMM_OPTIONS_INIT is C = A * B.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tessera_gemm_options {
    /// sizeof(tessera_gemm_options)
    pub size: usize,
    /// The factor of the product.
    pub alpha: f64,
    /// Its imaginary part, for complex types.
    pub alpha_imaginary: f64,
    /// The factor of the old C; where it is 0 C is not read.
    pub beta: f64,
    /// Its imaginary part, for complex types.
    pub beta_imaginary: f64,
    /// The largest number of the engine's threads; 0 for all.
    pub threads: usize,
    /// More than one product, or NULL.
    pub batch: *const tessera_batch,
    /// What is done to the sums besides, or NULL.
    pub epilogue: *const tessera_epilogue,
    /// The numbers of the epilogue, or NULL where it has none.
    pub numbers: *const tessera_epilogue_numbers,
}

// SAFETY: numbers and addresses, the first of which is the size; any bytes are one.
unsafe impl Sized for tessera_gemm_options {
    const NAME: &'static str = "tessera_gemm_options";
    const LEAST: usize = 56;
}

/// C = alpha * A * B + beta * C.
///
/// Sums are computed in the type of C, those of 16-bit floats in float. With beta 0 C is not read, with
/// alpha 0 neither A nor B is. C overlaps neither of them. A NULL engine is one for the whole process.
///
/// # Safety
/// `engine` is null or that of an engine; `a`, `b` and `c` point to such structs, of whose size their first
/// field tells. What is read of A and B can be read, and nobody writes it meanwhile; C can be read and
/// written, and nobody else does either. Where the engine may use a GPU this holds for the memory between
/// rows or columns, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_gemm(
    engine: *const tessera_engine,
    alpha: f64,
    a: *const tessera_matrix,
    b: *const tessera_matrix,
    beta: f64,
    c: *const tessera_matrix,
) -> tessera_status {
    let product = Product::new(alpha, beta);
    guard(|| {
        // SAFETY: the caller's promise.
        let engine = unsafe { engine_at(engine) }?;
        // SAFETY: the caller's promise.
        unsafe { product.compute(engine, a, b, c) }
    })
}

/// The same with complex factors, on fewer threads, many times, or with an epilogue: see tessera_gemm_options.
/// Where options is NULL, C = A * B.
///
/// # Safety
/// As `tessera_gemm`; `options` and what it points to are null or such structs, of whose size their first field
/// tells, and all A, B and C of a batch are as there. The epilogue's numbers can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_gemm_with(
    engine: *const tessera_engine,
    options: *const tessera_gemm_options,
    a: *const tessera_matrix,
    b: *const tessera_matrix,
    c: *const tessera_matrix,
) -> tessera_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let engine = unsafe { engine_at(engine) }?;
        // SAFETY: the caller's promise.
        let product = unsafe { Product::of(options) }?;
        // SAFETY: the caller's promise.
        unsafe { product.compute(engine, a, b, c) }
    })
}

/// Writes a line to text that says where and by what a product would be computed now, cut to capacity
/// bytes, the last of which is 0.
///
/// # Safety
/// As `tessera_gemm_with`, but that neither elements nor their addresses are looked at; `text` has room for
/// `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_explain(
    engine: *const tessera_engine,
    options: *const tessera_gemm_options,
    a: *const tessera_matrix,
    b: *const tessera_matrix,
    c: *const tessera_matrix,
    text: *mut c_char,
    capacity: usize,
) -> tessera_status {
    guard(|| {
        if text.is_null() || capacity == 0 {
            return Err(Fault::argument("text is null or has no room"));
        }
        // SAFETY: the caller's promise.
        let engine = unsafe { engine_at(engine) }?;
        // SAFETY: the caller's promise.
        let product = unsafe { Product::of(options) }?;
        // SAFETY: the caller's promise.
        let (operands, batch) = unsafe { product.operands(a, b, c) }?;
        let place = product.place(engine);
        let words = words(&explain(&place, &product.factors, &operands, &batch)?);
        let len = words.len().min(capacity - 1);
        // SAFETY: there is room for `len` bytes and one more.
        unsafe { text.cast::<u8>().copy_from_nonoverlapping(words.as_ptr(), len) };
        let end = text.wrapping_add(len);
        // SAFETY: as above.
        unsafe { end.write(0) };
        Ok(())
    })
}

fn words(explanation: &Explanation) -> String {
    let Explanation { device, by, threads, products, sizes: [m, n, k], copied } = explanation;
    let copied: Vec<&str> =
        ["A", "B", "C"].into_iter().zip(copied).filter_map(|(it, yes)| yes.then_some(it)).collect();
    let copies = if copied.is_empty() {
        "nothing is copied".to_owned()
    } else {
        format!("copies {}", copied.join(" and "))
    };
    let times = if *products == 1 { String::new() } else { format!("{products} products of ") };
    let plural = if *threads == 1 { "" } else { "s" };
    format!("{times}{m} x {n} x {k} on {device} ({by}), {threads} thread{plural}, {copies}")
}

/// What a product is besides its matrices.
pub(crate) struct Product {
    pub(crate) factors: Factors,
    threads: Option<NonZeroUsize>,
    pub(crate) batch: Option<tessera_batch>,
    /// What is done to the sums besides, and the stride of its bias.
    pub(crate) epilogue: (Epilogue, usize),
    pub(crate) numbers: tessera_epilogue_numbers,
}

impl Product {
    /// One product on all threads.
    const PLAIN: Self = Self {
        factors: Factors { alpha: [1.0, 0.0], beta: [0.0; 2] },
        threads: None,
        batch: None,
        epilogue: (Epilogue::NONE, 0),
        numbers: tessera_epilogue_numbers::NONE,
    };

    /// One product with real factors, on all threads.
    pub(crate) fn new(alpha: f64, beta: f64) -> Self {
        let factors = Factors { alpha: [alpha, 0.0], beta: [beta, 0.0] };
        Self { factors, ..Self::PLAIN }
    }

    /// # Safety
    /// `options` and what it points to are null or such structs, of whose size their first field tells.
    pub(crate) unsafe fn of(options: *const tessera_gemm_options) -> Result<Self, Fault> {
        if options.is_null() {
            return Ok(Self::PLAIN);
        }
        // SAFETY: the caller's promise.
        let options = unsafe { sized::read(options, "options") }?;
        let batch = if options.batch.is_null() {
            None
        } else {
            // SAFETY: the caller's promise.
            Some(unsafe { sized::read(options.batch, "batch") }?)
        };
        let factors = Factors {
            alpha: [options.alpha, options.alpha_imaginary],
            beta: [options.beta, options.beta_imaginary],
        };
        // SAFETY: the caller's promise.
        let epilogue = unsafe { tessera_epilogue::described(options.epilogue) }?;
        // SAFETY: the caller's promise.
        let numbers = unsafe { tessera_epilogue_numbers::read(options.numbers, "numbers") }?;
        let threads = NonZeroUsize::new(options.threads);
        Ok(Self { factors, threads, batch, epilogue, numbers })
    }

    fn place<'e>(&self, engine: &'e Engine) -> Place<'e> {
        Place { engine, threads: self.threads }
    }

    /// # Safety
    /// All point to such structs, of whose size their first field tells.
    pub(crate) unsafe fn operands(
        &self,
        a: *const tessera_matrix,
        b: *const tessera_matrix,
        c: *const tessera_matrix,
    ) -> Result<(Operands, Batch), Fault> {
        let one = |at, name| {
            // SAFETY: the caller's promise.
            let matrix = unsafe { sized::read::<tessera_matrix>(at, name) }?;
            if matrix.reserved != 0 {
                return Err(Fault::argument(format!("{name}: reserved is not 0")));
            }
            let scalar = scalar_of(name, matrix.dtype)?;
            Ok::<_, Fault>((matrix.strided(name, scalar.size())?, scalar))
        };
        let ((a, of_a), (b, of_b), (c, of_c)) = (one(a, "A")?, one(b, "B")?, one(c, "C")?);
        let scalars = [of_a, of_b, of_c];
        let batch = match self.batch {
            None => Batch::ONE,
            Some(tessera_batch { count, a_stride, b_stride, c_stride, .. }) => {
                let bytes = |stride: isize, size: usize| {
                    let bytes = stride.checked_mul(size.cast_signed());
                    let wrong = || Fault::argument(format!("a stride of the batch is {stride}"));
                    Ok::<_, Fault>(vec![bytes.ok_or_else(wrong)?])
                };
                Batch {
                    shape: vec![count],
                    a: bytes(a_stride, of_a.size())?,
                    b: bytes(b_stride, of_b.size())?,
                    c: bytes(c_stride, of_c.size())?,
                }
            }
        };
        Ok((Operands { scalars, a, b, c }, batch))
    }

    /// # Safety
    /// As `tessera_gemm_with`.
    unsafe fn compute(
        &self,
        engine: &Engine,
        a: *const tessera_matrix,
        b: *const tessera_matrix,
        c: *const tessera_matrix,
    ) -> Result<(), Fault> {
        // SAFETY: the caller's promise.
        let (operands, batch) = unsafe { self.operands(a, b, c) }?;
        let is_read = self.factors.alpha != [0.0; 2] && batch.count() != Some(0);
        let missing = |matrix: &tessera_raw::Strided| matrix.at.is_null() && !matrix.is_empty();
        for (matrix, name, is_used) in
            [(&operands.a, "A", is_read), (&operands.b, "B", is_read), (&operands.c, "C", true)]
        {
            if is_used && missing(matrix) {
                return Err(Fault::argument(format!("data of {name} is null")));
            }
        }
        let (place, epilogue) = (self.place(engine), self.epilogue_of(&operands)?);
        // SAFETY: the caller's promise.
        let largest =
            unsafe { multiply_with_epilogue(&place, &self.factors, &operands, &batch, &epilogue) }?;
        if let Some(largest) = largest {
            // SAFETY: the caller's promise; that it is not null was checked.
            unsafe { self.numbers.amax.cast::<f32>().write_unaligned(largest) };
        }
        Ok(())
    }

    /// The epilogue of a product in host memory.
    fn epilogue_of(&self, operands: &Operands) -> Result<RawEpilogue, Fault> {
        let (what, bias_stride) = self.epilogue;
        if bias_stride != 0 {
            let message = "bias_stride of an epilogue is for products on a device".to_owned();
            return Err(Fault { status: TESSERA_UNSUPPORTED, message, code: None });
        }
        if what.amax && self.numbers.amax.is_null() {
            return Err(Fault::argument("amax of the epilogue's numbers is null"));
        }
        let Operands { scalars: [a, b, c], c: matrix, .. } = operands;
        let sums = types(*a, *b, *c).map_or(c.size(), |types| types.acc().dtype().size());
        self.numbers.on_host(what, [matrix.rows, matrix.cols], [c.size(), sums])
    }
}
