//! Products on a device one of whose factors is split into limbs once.

use super::*;

/// One preparation for products of several numbers of rows; where the device has no such kernels the plan says so.
#[test]
fn a_factor_is_split_once_for_products_of_any_number_of_rows() {
    let _alone = alone();
    let context = program();
    let (device, stream) = (Device::first(), Stream::new(&context).unwrap());
    let (n, k) = (72, 40);
    let desc = |m, limbs| tessera_gemm_desc {
        prepared: TESSERA_PREPARED_B,
        limbs,
        ..described(TESSERA_F32, m, n, k)
    };
    let create = |desc: &tessera_gemm_desc| {
        let mut plan = null_mut();
        // SAFETY: a device, a description, and room for an address.
        let status = unsafe { tessera_plan_create(device.0, desc, &raw mut plan) };
        (status, Plan(plan))
    };
    for (wrong, words) in [
        (tessera_gemm_desc { prepared: 3, ..desc(5, 0) }, "prepared is 3"),
        (tessera_gemm_desc { limbs: 2, ..desc(5, 0) }, "limbs is 2"),
    ] {
        refused(create(&wrong).0, TESSERA_INVALID_ARGUMENT, words);
    }
    if emulated() {
        let words = "no kernel for f32 with B in two limbs of f16";
        return refused(create(&desc(5, 0)).0, TESSERA_UNSUPPORTED, words);
    }
    let on = |len, seed| Memory::of(&context, &numbers(len, seed, |it| it as f32));
    let b = on(k * n, 2);
    for limbs in [TESSERA_LIMBS_TWO_F16, TESSERA_LIMBS_THREE_BF16] {
        let mut kept: Option<Memory> = None;
        for m in [5, 200, 1] {
            let (status, plan) = create(&desc(m, limbs));
            check(status);
            // SAFETY: a plan.
            let bytes = unsafe { tessera_plan_prepared_bytes(plan.0) };
            assert!(bytes >= k * n * 4);
            let kept = kept.get_or_insert_with(|| {
                let kept = Memory::room(&context, bytes);
                let prepare = |bytes| {
                    let (of, at, stream) = (b.at(), kept.at(), stream.as_raw());
                    // SAFETY: the factor, and memory for its limbs; or what is refused.
                    unsafe { tessera_plan_prepare(plan.0, of, at, bytes, stream) }
                };
                refused(prepare(bytes - 1), TESSERA_INVALID_ARGUMENT, "the prepared factor has");
                check(prepare(bytes));
                kept
            });
            let (a, d) = (on(m * k, 1), on(m * n, 4));
            let room = Memory::room(&context, plan.bytes());
            let run = |prepared: *const c_void| {
                let [a, b, d, at] = [a.at(), b.at(), d.at(), room.at()];
                let (none, c, stream) = (null(), null(), stream.as_raw());
                // SAFETY: memory of the description's matrices and the limbs of B; or what is refused.
                unsafe {
                    tessera_plan_run_prepared(
                        plan.0,
                        none,
                        prepared,
                        bytes,
                        a,
                        b,
                        c,
                        d,
                        at,
                        plan.bytes(),
                        stream,
                    )
                }
            };
            refused(run(null()), TESSERA_INVALID_ARGUMENT, "the prepared factor is null");
            check(run(kept.at()));
            stream.synchronize().unwrap();
            let element = |at: usize| {
                let (row, col) = (at / n, at % n);
                let sum: i32 = (0..k).map(|p| value(row * k + p, 1) * value(p * n + col, 2)).sum();
                sum as f32
            };
            let right: Vec<f32> = (0..m * n).map(element).collect();
            assert_eq!(d.read::<f32>(m * n), right, "{m} rows, limbs {limbs}");
        }
    }
}
