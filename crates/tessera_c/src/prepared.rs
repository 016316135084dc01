//! Products on a device one of whose factors is split into limbs once.

use std::ffi::c_void;

use tessera::gpu::PreparedFactor;

use crate::epilogue::tessera_epilogue_numbers;
use crate::guard::{bytes_of, given, guard};
use crate::plan::{address, operands_at, tessera_plan, workspace_of};
use crate::status::tessera_status;

/// Bytes of device memory that the limbs of the description's prepared factor need, which depend on its sizes and
/// the kind of limbs alone; 0 where it has none or plan is NULL.
///
/// # Safety
/// It is null or that of a plan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_plan_prepared_bytes(plan: *const tessera_plan) -> usize {
    // SAFETY: the caller's promise.
    unsafe { bytes_of(plan, "plan", |it| it.plan.prepared_bytes()) }
}

/// Queues the splitting of the description's prepared factor into limbs, for tessera_plan_run_prepared in this
/// stream or in one that waits for it. factor is its address on the device; prepared is memory there at a multiple of
/// 256, of at least tessera_plan_prepared_bytes. What is prepared serves all plans whose factor has these sizes and
/// limbs, whatever the sizes of the other. It allocates nothing and synchronises nothing.
///
/// TESSERA_INVALID_SIZE where the description has no prepared factor, TESSERA_INVALID_ARGUMENT where an address is
/// null or not aligned or there are too few bytes: nothing is launched then.
///
/// # Safety
/// `plan` is that of a plan. The factor is valid in its context for the matrix of its description, and what is
/// prepared for as many bytes as it says, apart from it. Until the work is over nobody writes the factor, or reads or
/// writes what is prepared, but work that the stream orders.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_plan_prepare(
    plan: *const tessera_plan,
    factor: *const c_void,
    prepared: *mut c_void,
    prepared_bytes: usize,
    stream: *mut c_void,
) -> tessera_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let plan = &unsafe { given(plan, "plan") }?.plan;
        let prepared = prepared_of(prepared, prepared_bytes);
        // SAFETY: the caller's promises, which are those of the plan.
        Ok(unsafe { plan.prepare(stream, address(factor), prepared) }?)
    })
}

/// As tessera_plan_run_with, with the limbs that tessera_plan_prepare has left. The bits are those of the same kernel
/// without them. The factor itself is given as well: what limbs do not hold, as infinities, is taken from there.
/// numbers are those of the description's epilogue, or NULL where it has none.
///
/// # Safety
/// As `tessera_plan_run_with`; nobody has written to the factor or to what is prepared since tessera_plan_prepare was
/// queued, in work that comes before this, and nobody does before this is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_plan_run_prepared(
    plan: *const tessera_plan,
    numbers: *const tessera_epilogue_numbers,
    prepared: *const c_void,
    prepared_bytes: usize,
    a: *const c_void,
    b: *const c_void,
    c: *const c_void,
    d: *mut c_void,
    workspace: *mut c_void,
    workspace_bytes: usize,
    stream: *mut c_void,
) -> tessera_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let plan = &unsafe { given(plan, "plan") }?.plan;
        // SAFETY: the caller's promise.
        let numbers = unsafe { tessera_epilogue_numbers::read(numbers, "numbers") }?.on_device();
        let operands = operands_at([a, b, c, d.cast_const()]);
        let workspace = workspace_of(workspace, workspace_bytes);
        let prepared = prepared_of(prepared, prepared_bytes);
        // SAFETY: the caller's promises, which are those of the plan.
        Ok(unsafe { plan.run_prepared(stream, operands, prepared, numbers, workspace) }?)
    })
}

fn prepared_of(at: *const c_void, bytes: usize) -> PreparedFactor {
    PreparedFactor { address: address(at), bytes: bytes as u64 }
}
