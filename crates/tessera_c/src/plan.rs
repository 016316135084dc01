//! Products on a device that are picked and loaded once and launched often.

#![expect(non_camel_case_types, reason = "the names of C")]

use std::ffi::{CString, c_char, c_void};

use tessera::gpu::{Operands, Plan, Workspace};

use crate::desc::tessera_gemm_desc;
use crate::device::{context_of, tessera_device};
use crate::epilogue::tessera_epilogue_numbers;
use crate::guard::{bytes_of, given, given_array, guard, hand_out, take_back, text_of};
use crate::sized;
use crate::status::{Fault, tessera_status};

/// A product on a device, ready to be launched: its kernel is picked and loaded. What is picked depends on the
/// description and the device alone, neither on free memory nor on addresses. Any number of threads may run
/// one plan at once; runs that may overlap each other on the device need a workspace each.
pub struct tessera_plan {
    pub(crate) plan: Plan,
    kernel: CString,
    text: CString,
}

/// Plans a product: checks the description, picks a kernel, and has the driver load it, which may take
/// seconds where the driver compiles it. It may be called while a stream is captured.
///
/// TESSERA_INVALID_SIZE where sizes, leading dimensions, strides or factors do not fit, TESSERA_UNSUPPORTED
/// where no kernel multiplies the types on that device, with that accuracy or in that workspace,
/// TESSERA_DEVICE_FAILED where the driver refuses.
///
/// # Safety
/// `device` is that of a device; `desc` points to such a struct, and its epilogue is null or does, of whose
/// sizes their first fields tell; `plan` points to room for an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_plan_create(
    device: *const tessera_device,
    desc: *const tessera_gemm_desc,
    plan: *mut *mut tessera_plan,
) -> tessera_status {
    let make = || {
        // SAFETY: the caller's promise.
        let context = unsafe { context_of(device) }?;
        // SAFETY: the caller's promise.
        let desc = unsafe { sized::read(desc, "desc") }?;
        // SAFETY: the caller's promise.
        let described = unsafe { desc.described() }?;
        let plan = Plan::new(context, described.desc, described.limits)?;
        let (kernel, text) = (text_of(plan.kernel().spec().id), text_of(&plan.explain()));
        Ok(tessera_plan { plan, kernel, text })
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { hand_out(plan, "plan", make) })
}

/// Lets go of a plan; does nothing where it is NULL. Its runs may still be under way.
///
/// # Safety
/// It is null or was made by tessera_plan_create, is not used any more, and is destroyed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_plan_destroy(plan: *mut tessera_plan) {
    // SAFETY: the caller's promise.
    unsafe { take_back(plan) }
}

/// Bytes of device memory that a run needs besides its operands; 0 where plan is NULL.
///
/// # Safety
/// It is null or that of a plan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_plan_workspace_bytes(plan: *const tessera_plan) -> usize {
    // SAFETY: the caller's promise.
    unsafe { bytes_of(plan, "plan", |it| it.plan.workspace_bytes()) }
}

/// The name of the kernel that was picked. Valid as long as the plan; empty where it is NULL, never null.
///
/// # Safety
/// It is null or that of a plan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_plan_kernel(plan: *const tessera_plan) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { text(plan, |plan| &plan.kernel) }
}

/// The plan in words: product, kernel, launches, what is promised of the bits, workspace and alignment, in a
/// line each. Valid as long as the plan; empty where it is NULL, never null.
///
/// # Safety
/// It is null or that of a plan.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_plan_explain(plan: *const tessera_plan) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { text(plan, |plan| &plan.text) }
}

/// # Safety
/// `plan` is null, not aligned, or that of a plan.
unsafe fn text(
    plan: *const tessera_plan,
    of: impl FnOnce(&tessera_plan) -> &CString,
) -> *const c_char {
    let mut text = c"".as_ptr();
    guard(|| {
        // SAFETY: the caller's promise.
        text = of(unsafe { given(plan, "plan") }?).as_ptr();
        Ok(())
    });
    text
}

/// Queues D = alpha * A * B + beta * C in a stream and returns without waiting. It only launches: it allocates
/// no device memory and synchronises nothing.
///
/// a, b, c and d are addresses on the device, as cudaMalloc gives them or as a CUdeviceptr cast to a pointer;
/// c may be d where both have one order and one leading dimension, and a C apart from D is copied to D first.
/// What is not read may be NULL. stream is a CUstream or cudaStream_t of the plan's context: also NULL, the
/// legacy default stream, that of the calling thread, and one that is being captured. workspace is memory on
/// the device at a multiple of 256, as the driver allocates it, of at least tessera_plan_workspace_bytes;
/// where that is 0 it may be NULL.
///
/// TESSERA_INVALID_ARGUMENT where an operand is null or not aligned as the description says, or the workspace
/// too short: nothing is launched then. TESSERA_DEVICE_FAILED where the driver refuses, or for a kernel that
/// failed before: such a failure shows in a later call, and every call after it in that context answers with it.
///
/// # Safety
/// `plan` is that of a plan. The addresses are valid in its context for the matrices of its description; D
/// overlaps neither A nor B, and C only where c is d. The workspace is as long as it says, and nothing but the
/// stream's work uses it. Until that is over nobody writes A, B or C, or reads or writes D, but work that the
/// stream orders; the same holds for each launch of a graph that the run is captured for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_plan_run(
    plan: *const tessera_plan,
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
        let [a, b, c, d] = [a, b, c, d.cast_const()].map(address);
        let workspace = workspace_of(workspace, workspace_bytes);
        // SAFETY: the caller's promises, which are those of the plan.
        Ok(unsafe { plan.run(stream, a, b, c, d, workspace) }?)
    })
}

/// The same for a batch of TESSERA_BATCH_POINTERS: a, b, c and d are arrays in host memory of one address on
/// the device for each product, of which count there are. An array that is not read may be NULL. The arrays
/// are no longer needed when the function returns.
///
/// # Safety
/// As `tessera_plan_run` for the addresses of each product; no D overlaps an operand of another product. The
/// arrays are null or have `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_plan_run_array(
    plan: *const tessera_plan,
    count: usize,
    a: *const *const c_void,
    b: *const *const c_void,
    c: *const *const c_void,
    d: *const *mut c_void,
    workspace: *mut c_void,
    workspace_bytes: usize,
    stream: *mut c_void,
) -> tessera_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let plan = &unsafe { given(plan, "plan") }?.plan;
        // SAFETY: the caller's promise.
        let operands = unsafe { operands_of(count, [a, b, c, d.cast()]) }?;
        let workspace = workspace_of(workspace, workspace_bytes);
        // SAFETY: the caller's promises, which are those of the plan.
        Ok(unsafe { plan.run_array(stream, &operands, workspace) }?)
    })
}

/// As tessera_plan_run, with the numbers of the description's epilogue.
///
/// # Safety
/// As `tessera_plan_run`; `numbers` is null or points to such a struct, of whose size its first field tells.
/// Its addresses are valid for the numbers that the epilogue has, and D overlaps none of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_plan_run_with(
    plan: *const tessera_plan,
    numbers: *const tessera_epilogue_numbers,
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
        let operands = [operands_at([a, b, c, d.cast_const()])];
        let workspace = workspace_of(workspace, workspace_bytes);
        // SAFETY: the caller's promises, which are those of the plan.
        Ok(unsafe { plan.run_with(stream, &operands, numbers, workspace) }?)
    })
}

/// As tessera_plan_run_array, with the numbers of the description's epilogue, which all products have in
/// common but for a bias with a stride.
///
/// # Safety
/// As `tessera_plan_run_array` and `tessera_plan_run_with`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_plan_run_array_with(
    plan: *const tessera_plan,
    numbers: *const tessera_epilogue_numbers,
    count: usize,
    a: *const *const c_void,
    b: *const *const c_void,
    c: *const *const c_void,
    d: *const *mut c_void,
    workspace: *mut c_void,
    workspace_bytes: usize,
    stream: *mut c_void,
) -> tessera_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let plan = &unsafe { given(plan, "plan") }?.plan;
        // SAFETY: the caller's promise.
        let numbers = unsafe { tessera_epilogue_numbers::read(numbers, "numbers") }?.on_device();
        // SAFETY: the caller's promise.
        let operands = unsafe { operands_of(count, [a, b, c, d.cast()]) }?;
        let workspace = workspace_of(workspace, workspace_bytes);
        // SAFETY: the caller's promises, which are those of the plan.
        Ok(unsafe { plan.run_with(stream, &operands, numbers, workspace) }?)
    })
}

/// As tessera_plan_run for a batch of TESSERA_BATCH_ROW_GROUPS. ends is an array on the device, at a multiple of
/// 4, of a uint32_t for each group: the row before which it ends. A group begins where the one before it ends,
/// the first at row 0, and may be empty. Rows behind the last group are not written. An end beyond m counts as
/// m, one before its group's beginning as that. numbers are those of the description's epilogue, or NULL where
/// it has none.
///
/// # Safety
/// As `tessera_plan_run_with`; `ends` is valid for as many numbers as there are groups, which nobody writes
/// until the run is over but work that the stream orders.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_plan_run_groups(
    plan: *const tessera_plan,
    numbers: *const tessera_epilogue_numbers,
    ends: *const u32,
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
        let ends = address(ends.cast());
        let operands = operands_at([a, b, c, d.cast_const()]);
        let workspace = workspace_of(workspace, workspace_bytes);
        // SAFETY: the caller's promises, which are those of the plan.
        Ok(unsafe { plan.run_groups(stream, ends, operands, numbers, workspace) }?)
    })
}

/// Asks the driver whether operands and workspace are what tessera_plan_run needs: memory of this device, as
/// long as the matrices, for the first product of a batch of pointers. A run asks nothing; this is for programs
/// that want to know before.
///
/// TESSERA_INVALID_ARGUMENT for the first that is not.
///
/// # Safety
/// `plan` is that of a plan; the addresses may be anything.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_plan_check(
    plan: *const tessera_plan,
    a: *const c_void,
    b: *const c_void,
    c: *const c_void,
    d: *const c_void,
    workspace: *const c_void,
    workspace_bytes: usize,
) -> tessera_status {
    guard(|| {
        // SAFETY: the caller's promise.
        let plan = &unsafe { given(plan, "plan") }?.plan;
        let workspace = workspace_of(workspace.cast_mut(), workspace_bytes);
        Ok(plan.check(operands_at([a, b, c, d]), workspace)?)
    })
}

/// An address on the device, which C has as a pointer.
pub(crate) fn address(at: *const c_void) -> u64 {
    at.addr() as u64
}

/// The operands of one product, by the addresses of A, B, C and D.
pub(crate) fn operands_at(all: [*const c_void; 4]) -> Operands {
    let [a, b, c, d] = all.map(address);
    Operands { a, b, c, d }
}

pub(crate) fn workspace_of(at: *mut c_void, bytes: usize) -> Workspace {
    Workspace { address: address(at), bytes: bytes as u64 }
}

/// The operands of several products, by arrays of the addresses of A, B, C and D; those of an array that is
/// null are 0.
///
/// # Safety
/// Each array is null, not aligned, or has `count` elements that nobody writes meanwhile.
pub(crate) unsafe fn operands_of(
    count: usize,
    arrays: [*const *const c_void; 4],
) -> Result<Vec<Operands>, Fault> {
    let mut all: [Option<&[*const c_void]>; 4] = [None; 4];
    for ((of, array), name) in all.iter_mut().zip(arrays).zip(["a", "b", "c", "d"]) {
        if !array.is_null() {
            // SAFETY: the caller's promise.
            *of = Some(unsafe { given_array(array, count, name) }?);
        }
    }
    // A number that no array stands behind is nothing to make room for.
    if count != 0 && all.iter().all(Option::is_none) {
        return Err(Fault::argument("a, b, c and d are null"));
    }
    let operands =
        |at: usize| operands_at(all.map(|of| of.map_or(std::ptr::null(), |array| array[at])));
    Ok((0..count).map(operands).collect())
}
