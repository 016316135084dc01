//! Products of several sizes on a device.

#![expect(non_camel_case_types, reason = "the names of C")]

use std::ffi::c_void;

use tessera::gpu::{EpilogueOperands, GemmDesc, GroupedPlan, PlanLimits};

use crate::desc::{Described, tessera_gemm_desc};
use crate::device::{context_of, tessera_device};
use crate::epilogue::tessera_epilogue_numbers;
use crate::guard::{bytes_of, given, guard, hand_out, take_back};
use crate::plan::{operands_of, workspace_of};
use crate::sized;
use crate::status::{Fault, tessera_status};

/// Several products on a device, each of sizes of its own, that share a workspace. They are launched one after
/// the other. Any number of threads may run one group at once.
pub struct tessera_group {
    group: GroupedPlan,
}

/// Plans a group of products, whose descriptions follow each other in memory. Each is limited to the least
/// workspace and the least alignment of all descriptions.
///
/// As tessera_plan_create, for the first product that has no plan.
///
/// # Safety
/// `device` is that of a device; `descs` points to `count` such structs, and their epilogues are null or do, of
/// whose sizes their first fields tell; `group` points to room for an address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_group_create(
    device: *const tessera_device,
    descs: *const tessera_gemm_desc,
    count: usize,
    group: *mut *mut tessera_group,
) -> tessera_status {
    let make = || {
        // SAFETY: the caller's promise.
        let context = unsafe { context_of(device) }?;
        // SAFETY: the caller's promise.
        let described = unsafe { all_described(descs, count) }?;
        let limits = described.iter().fold(PlanLimits::default(), |all, one| PlanLimits {
            workspace: all.workspace.min(one.limits.workspace),
            alignment: all.alignment.min(one.limits.alignment),
        });
        let descs: Vec<GemmDesc> = described.iter().map(|one| one.desc).collect();
        Ok(tessera_group { group: GroupedPlan::new(context, &descs, limits)? })
    };
    // SAFETY: the caller's promise.
    guard(|| unsafe { hand_out(group, "group", make) })
}

/// The products of descriptions that follow each other, as far apart as the first says that it is long.
///
/// # Safety
/// `descs` is null, not aligned, or that of `count` such structs, and their epilogues are null or such, of whose
/// sizes their first fields tell.
unsafe fn all_described(
    descs: *const tessera_gemm_desc,
    count: usize,
) -> Result<Vec<Described>, Fault> {
    // SAFETY: the caller's promise.
    let descs = unsafe { sized::read_each(descs, count, "descs") }?;
    let described = descs.iter().enumerate().map(|(index, desc)| {
        // SAFETY: the caller's promise.
        unsafe { desc.described() }.map_err(|fault| fault.of(&format!("descs[{index}]")))
    });
    described.collect()
}

/// Lets go of a group; does nothing where it is NULL. Its runs may still be under way.
///
/// # Safety
/// It is null or was made by tessera_group_create, is not used any more, and is destroyed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_group_destroy(group: *mut tessera_group) {
    // SAFETY: the caller's promise.
    unsafe { take_back(group) }
}

/// Bytes of device memory that a run needs besides its operands: as many as the neediest product; 0 where
/// group is NULL.
///
/// # Safety
/// It is null or that of a group.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_group_workspace_bytes(group: *const tessera_group) -> usize {
    // SAFETY: the caller's promise.
    unsafe { bytes_of(group, "group", |it| it.group.workspace_bytes()) }
}

/// Queues all products of a group in a stream and returns without waiting, as tessera_plan_run does. a, b, c
/// and d are arrays in host memory of one address on the device for each product, in the order of the
/// descriptions; count is the number of these. An array that is not read may be NULL.
///
/// As tessera_plan_run for the first product that is refused; those before it are launched then.
///
/// # Safety
/// As `tessera_plan_run` for the addresses of each product; no D overlaps an operand of another product. The
/// arrays are null or have `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_group_run(
    group: *const tessera_group,
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
        let group = &unsafe { given(group, "group") }?.group;
        // SAFETY: the caller's promise.
        let operands = unsafe { operands_of(count, [a, b, c, d.cast()]) }?;
        let workspace = workspace_of(workspace, workspace_bytes);
        // SAFETY: the caller's promises, which are those of the group.
        Ok(unsafe { group.run(stream, &operands, workspace) }?)
    })
}

/// As tessera_group_run, with the numbers of the products' epilogues: as many structs that follow each other, or
/// NULL where no product has an epilogue.
///
/// # Safety
/// As `tessera_group_run` and `tessera_plan_run_with`; `numbers` is null or points to `count` such structs, of
/// whose size their first field tells.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tessera_group_run_with(
    group: *const tessera_group,
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
        let group = &unsafe { given(group, "group") }?.group;
        // SAFETY: the caller's promise.
        let operands = unsafe { operands_of(count, [a, b, c, d.cast()]) }?;
        let numbers = if numbers.is_null() {
            vec![EpilogueOperands::default(); operands.len()]
        } else {
            // SAFETY: the caller's promise.
            let all = unsafe { sized::read_each(numbers, count, "numbers") }?;
            all.into_iter().map(tessera_epilogue_numbers::on_device).collect()
        };
        let workspace = workspace_of(workspace, workspace_bytes);
        // SAFETY: the caller's promises, which are those of the group.
        Ok(unsafe { group.run_with(stream, &operands, &numbers, workspace) }?)
    })
}
