//! Products on a device without a plan of one's own: a stream keeps plans and workspace.

#![expect(non_camel_case_types, reason = "the names of C")]

use std::ffi::c_void;

use tessera::Layout;
use tessera::gpu::{GemmBatch, GemmDesc, Operands, PlanLimits, Stream};

use crate::desc::device_types;
use crate::device::{context_of, tessera_device};
use crate::engine::accuracy;
use crate::gemm::{Product, tessera_gemm_options};
use crate::guard::{given, guard, hand_out, take_back};
use crate::matrix::tessera_matrix;
use crate::plan::address;
use crate::sized::{self, Sized};
use crate::status::{Fault, TESSERA_UNSUPPORTED, tessera_status};

/// Settings of a stream's products. Zeros are the usual ones.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tessera_stream_options {
    /// sizeof(tessera_stream_options)
    pub size: usize,
    /// One of TESSERA_ACCURACY_*.
    pub accuracy: i32,
    /// 0
    pub reserved: i32,
}

// SAFETY: whole numbers, the first of which is the size.
unsafe impl Sized for tessera_stream_options {
    const NAME: &'static str = "tessera_stream_options";
    const LEAST: usize = 16;
}

/// A program's stream with what products in it need: the plans that were made for them, and a workspace, which
/// grows with the largest. Any number of threads may use one at once.
pub struct tessera_stream {
    stream: Stream,
}

/// Takes up a stream of a device's context, a CUstream or cudaStream_t; NULL is the legacy default stream. It
/// stays the program's. Where options is NULL the settings are the usual ones.
///
/// # Safety
/// `device` is that of a device, `stream` is a stream of its context that is not destroyed before what is made
/// here, `options` is null or points to such a struct, of whose size its first field tells, and `made` points
/// to room for an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_stream_create(
    device: *const tessera_device,
    stream: *mut c_void,
    options: *const tessera_stream_options,
    made: *mut *mut tessera_stream,
) -> tessera_status {
    let make = || {
        // SAFETY: the caller's promise.
        let context = unsafe { context_of(device) }?;
        // SAFETY: the caller's promise.
        let stream = unsafe { Stream::from_raw(context, stream) };
        if options.is_null() {
            return Ok(tessera_stream { stream });
        }
        // SAFETY: the caller's promise.
        let options = unsafe { sized::read(options, "options") }?;
        if options.reserved != 0 {
            return Err(Fault::argument("options: reserved is not 0"));
        }
        Ok(tessera_stream { stream: stream.with_accuracy(accuracy(options.accuracy)?) })
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { hand_out(made, "made", make) })
}

/// Frees plans and workspace, for whose users the driver waits; the program's stream stays. Does nothing where
/// it is NULL.
///
/// # Safety
/// It is null or was made by tessera_stream_create, is not used any more, and is destroyed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_stream_destroy(stream: *mut tessera_stream) {
    // SAFETY: the caller's promise.
    unsafe { take_back(stream) }
}

/// Gets a workspace of at least that many bytes now, so that no later product that needs no more allocates any.
///
/// # Safety
/// `stream` was made by tessera_stream_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_stream_reserve(
    stream: *const tessera_stream,
    bytes: usize,
) -> tessera_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let stream = &unsafe { given(stream, "stream") }?.stream;
        Ok(stream.reserve(bytes as u64)?)
    })
}

/// Queues C = alpha * A * B + beta * C in a stream and returns without waiting. The data of a, b and c are
/// addresses on the device; else they are as those of tessera_gemm, but that rows or columns are contiguous and
/// no stride is negative: nothing is copied.
///
/// The kernel is picked and loaded when such a product first comes; later ones look it up. A workspace that has
/// to grow is allocated, for which the driver may wait: tessera_stream_reserve does it before, and a plan of
/// one's own does without. A stream that is captured lends none: TESSERA_UNSUPPORTED.
///
/// Else as tessera_plan_create and tessera_plan_run.
///
/// # Safety
/// `stream` was made by tessera_stream_create; `a`, `b` and `c` point to such structs, of whose size their first
/// field tells. The addresses are valid in the stream's context for the matrices; C overlaps neither A nor B.
/// Until the product is over nobody writes A or B, or reads or writes C, but work that the stream orders.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_device_gemm(
    stream: *const tessera_stream,
    alpha: f64,
    a: *const tessera_matrix,
    b: *const tessera_matrix,
    beta: f64,
    c: *const tessera_matrix,
) -> tessera_status {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { queue(stream, &Product::new(alpha, beta), [a, b, c]) }
    })
}

/// The same for a batch and with an epilogue, see tessera_gemm_options; strides are not negative, and the
/// epilogue's numbers are on the device. Factors are real, and threads is not looked at. Where options is NULL,
/// C = A * B.
///
/// # Safety
/// As `tessera_device_gemm` for each product, of which no C overlaps an operand of another; `options` and what it
/// points to are null or such structs, of whose size their first field tells. The addresses of the epilogue are
/// valid for its numbers, and C overlaps none of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_device_gemm_with(
    stream: *const tessera_stream,
    options: *const tessera_gemm_options,
    a: *const tessera_matrix,
    b: *const tessera_matrix,
    c: *const tessera_matrix,
) -> tessera_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let product = unsafe { Product::of(options) }?;
        // SAFETY: the caller's promise.
        unsafe { queue(stream, &product, [a, b, c]) }
    })
}

/// # Safety
/// As [`tessera_device_gemm_with`].
unsafe fn queue(
    stream: *const tessera_stream,
    product: &Product,
    [a, b, c]: [*const tessera_matrix; 3],
) -> Result<(), Fault> {
    // SAFETY: the caller's promise.
    let stream = &unsafe { given(stream, "stream") }?.stream;
    // SAFETY: the caller's promise.
    let (operands, _) = unsafe { product.operands(a, b, c) }?;
    let tessera_raw::Operands { scalars, a, b, c } = operands;
    let [m, n, k] = tessera::sizes_of([(a.rows, a.cols), (b.rows, b.cols), (c.rows, c.cols)])?;
    let types = device_types(scalars)?;
    let mut layouts = [Layout::row_major(0); 3];
    for (at, (name, matrix)) in [("A", &a), ("B", &b), ("C", &c)].into_iter().enumerate() {
        // Whether the address is aligned is the plan's to say.
        layouts[at] = matrix.layout(scalars[at].size(), 1).ok_or_else(|| {
            let message = format!(
                "{name} has strides by which neither its rows nor its columns are contiguous; on a device it is \
                 not copied"
            );
            Fault { status: TESSERA_UNSUPPORTED, message, code: None }
        })?;
    }
    let [of_a, of_b, of_c] = layouts;
    let [alpha, beta] = product.real_factors()?;
    let (epilogue, bias_stride) = product.epilogue;
    let desc = GemmDesc::new(types, m, n, k)
        .with_layouts(of_a, of_b, of_c)
        .with_scalars(alpha, beta)
        .with_batch(product.device_batch()?)
        .with_accuracy(stream.accuracy())
        .with_epilogue(epilogue)
        .with_bias_stride(bias_stride);
    let [a, b, c] = [a, b, c].map(|matrix| address(matrix.at.cast()));
    let limits = PlanLimits::default().for_addresses(&[a, b, c]);
    let plan = stream.plan(desc, limits)?;
    let operands = [Operands { a, b, c, d: c }];
    // SAFETY: the caller's promises, which are those of a plan whose C is D; the workspace is the stream's.
    Ok(unsafe { stream.run_with(&plan, &operands, product.numbers.on_device()) }?)
}

impl Product {
    /// Alpha and beta, which on a device are real.
    fn real_factors(&self) -> Result<[f64; 2], Fault> {
        let [alpha, beta] = [self.factors.alpha, self.factors.beta];
        if alpha[1] != 0.0 || beta[1] != 0.0 {
            return Err(Fault::argument("alpha and beta of a product on a device are real"));
        }
        Ok([alpha[0], beta[0]])
    }

    /// How many products there are, and where their operands are.
    fn device_batch(&self) -> Result<GemmBatch, Fault> {
        let Some(batch) = self.batch else { return Ok(GemmBatch::ONE) };
        let elements = |stride: isize| {
            let refused = |_| {
                Fault::argument(format!(
                    "a stride of the batch is {stride}, on a device it is not negative"
                ))
            };
            usize::try_from(stride).map_err(refused)
        };
        let c_stride = elements(batch.c_stride)?;
        Ok(GemmBatch::Strided {
            count: batch.count,
            a_stride: elements(batch.a_stride)?,
            b_stride: elements(batch.b_stride)?,
            c_stride,
            d_stride: c_stride,
        })
    }
}
