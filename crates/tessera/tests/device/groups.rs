//! Products whose rows are groups of those of one A and one C, of sizes that only the device knows. The emulated driver
//! is of a device without such kernels, which `tests/kernels/groups.rs` runs on the emulator.

use gemm_spec::with_gemm_types;
use tessera::gpu::{
    Activation, Bias, Context, Epilogue, EpilogueOperands, GemmBatch, GemmDesc, KERNELS, Kernel,
    OperandFault, Operands, Plan, PlanLimits, Stream,
};
use tessera::{Error, Layout, Types};

use crate::driver::memory::Bytes;
use crate::driver::{alone, kernel, no_faults};
use crate::epilogue::{Host, compare_with};

/// Types of which products have groups of rows.
const TYPES: [Types; 4] = [Types::F16, Types::BF16, Types::F16F32, Types::BF16F32];

/// Where groups of up to 200 rows end: within tiles, empty ones, all in one, fewer rows than there are, and more.
const ENDS: [[i32; 5]; 5] = [
    [3, 70, 70, 134, 200],
    [0, 0, 200, 200, 200],
    [1, 2, 3, 4, 5],
    [64, 128, 192, 199, 200],
    [90, 180, 999, 999, 999],
];

/// The kernels that can.
fn kernels(types: Types) -> Vec<Kernel> {
    let can = |kernel: &Kernel| kernel.spec().row_groups && kernel.entry(types).is_ok();
    KERNELS.iter().copied().filter(can).collect()
}

/// Five groups of 200 rows, with a B of its own each.
fn desc(types: Types, (n, k): (usize, usize)) -> GemmDesc {
    GemmDesc::new(types, 200, n, k).with_batch(GemmBatch::RowGroups { count: 5, b_stride: k * n })
}

/// The device, where it has these products.
fn hopper() -> Option<(Context, Stream)> {
    let context = Context::primary(0).unwrap();
    let stream = Stream::new(&context).unwrap();
    (context.info().compute_capability.0 == 9).then_some((context, stream))
}

/// Every kernel, ends of every kind, lines that TMA stores and lines that it does not: D's other rows stay.
#[test]
fn groups_of_rows_end_where_the_device_says() {
    let _alone = alone();
    let Some((context, stream)) = hopper() else { return };
    for types in TYPES {
        for kernel in kernels(types) {
            for ends in &ENDS {
                for sizes in [(136, 72), (61, 9)] {
                    let plan = Plan::with_kernel(
                        &context,
                        desc(types, sizes),
                        PlanLimits::default(),
                        kernel,
                    )
                    .unwrap();
                    with_gemm_types!(types, T => {
                        let host = Host::<T>::new(plan.desc()).with_ends(ends);
                        compare_with(&host, &context, &plan, &stream, true);
                    });
                }
            }
        }
    }
    no_faults();
}

/// Another order of B, one B for all, a C that is added, where D is and apart, and an epilogue with a bias
/// of each group's own.
#[test]
fn groups_of_rows_have_all_that_products_have() {
    let _alone = alone();
    let Some((context, stream)) = hopper() else { return };
    let plain = desc(Types::BF16, (72, 40));
    let transposed =
        plain.with_layouts(Layout::row_major(40), Layout::col_major(40), Layout::row_major(72));
    let common = plain.with_batch(GemmBatch::RowGroups { count: 5, b_stride: 0 });
    let one = plain.with_batch(GemmBatch::RowGroups { count: 1, b_stride: 0 });
    let added = plain.with_scalars(2.0, -1.0);
    let epilogue = Epilogue::new(Some(Bias::PerColumn), Activation::Relu);
    let finished = added.with_epilogue(epilogue.with_row_scales()).with_bias_stride(80);
    let stored = plain.with_epilogue(epilogue).with_bias_stride(80);
    let scalars = added.with_epilogue(Epilogue::NONE.with_device_scalars().with_amax());
    for desc in [plain, transposed, common, one, added, finished, stored, scalars] {
        let plan = Plan::new(&context, desc, PlanLimits::default()).unwrap();
        assert!(plan.kernel().spec().row_groups, "{}", plan.explain());
        for apart in [true, false] {
            with_gemm_types!(desc.types, T => {
                let host = Host::<T>::new(&desc).with_ends(&[5, 5, 150, 151, 190][..desc.batch.count()]);
                compare_with(&host, &context, &plan, &stream, apart);
            });
        }
    }
    no_faults();
}

/// What cannot be is said before anything is launched.
#[test]
fn groups_without_ends_or_kernels_are_refused() {
    let _alone = alone();
    let Some((context, stream)) = hopper() else { return };
    let make = |desc| Plan::new(&context, desc, PlanLimits::default());
    let bf16 = desc(Types::BF16, (72, 40));
    let singles = make(desc(Types::F32, (72, 40))).unwrap_err();
    assert!(matches!(singles, Error::NoKernel { .. }), "{singles}");
    assert!(singles.to_string().contains("in groups of rows"), "{singles}");
    let columns = make(bf16.with_d(Layout::col_major(200))).unwrap_err().to_string();
    assert!(columns.contains("D is column-major, and must be row-major"), "{columns}");
    let columns_of_a =
        bf16.with_layouts(Layout::col_major(200), Layout::row_major(72), Layout::row_major(72));
    let refused = make(columns_of_a).unwrap_err().to_string();
    assert!(refused.contains("A is column-major, and must be row-major"), "{refused}");
    let narrow = Plan::with_kernel(&context, bf16, PlanLimits::default(), kernel("tensor_128x256"));
    let narrow = narrow.unwrap_err().to_string();
    assert!(narrow.contains("those of groups are on the device"), "{narrow}");

    let plan = make(bf16).unwrap();
    let bytes = Bytes::unwritten(&context, 1 << 20);
    let at = bytes.at();
    let operands = Operands { a: at, b: at + (1 << 18), c: 0, d: at + (1 << 19) };
    let (_memory, workspace) = Bytes::workspace(&context, &plan);
    let run = |plan: &Plan, ends| {
        // SAFETY: nothing is launched.
        let refused = unsafe {
            plan.run_groups(stream.as_raw(), ends, operands, EpilogueOperands::default(), workspace)
        };
        refused.unwrap_err()
    };
    assert!(run(&plan, 0).to_string().contains("the array of ends is null"));
    assert!(run(&plan, at + 2).to_string().contains("no multiple of 4"));
    let of_one = make(GemmDesc { batch: GemmBatch::ONE, ..bf16 }).unwrap();
    let none = run(&of_one, at);
    assert!(matches!(none, Error::DeviceOperand { fault: OperandFault::NoGroups, .. }), "{none}");
    // SAFETY: nothing is launched.
    let without = unsafe { plan.run(stream.as_raw(), at, operands.b, 0, operands.d, workspace) };
    assert!(without.unwrap_err().to_string().contains("the array of ends is null"));
    no_faults();
}
