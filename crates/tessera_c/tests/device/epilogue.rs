//! Epilogues of products on a device, and products whose rows are groups.

use tessera::bf16;

use super::*;

/// `relu(row_scale[row] * A B + beta * C + bias[col])` of a product of row-major matrices whose operands begin that many
/// elements behind the seeds' first, and the largest magnitude.
fn finished(desc: &tessera_gemm_desc, product: usize) -> (Vec<i32>, i32) {
    let (m, n, k) = (desc.m, desc.n, desc.k);
    let element = |at: usize| {
        let (row, col) = (at / n, at % n);
        let a = product * desc.a_stride + row * k;
        let sum: i32 = (0..k).map(|p| value(a + p, 1) * value(p * n + col, 2)).sum();
        let c = value(product * desc.c_stride + at, 3);
        (value(row, 5) * sum + desc.beta as i32 * c + value(col, 6)).max(0)
    };
    let d: Vec<i32> = (0..m * n).map(element).collect();
    let largest = d.iter().copied().max().unwrap_or(0);
    (d, largest)
}

static RELU: tessera_epilogue = tessera_epilogue {
    size: size_of::<tessera_epilogue>(),
    activation: TESSERA_ACTIVATION_RELU,
    bias: TESSERA_BIAS_PER_COLUMN,
    row_scales: 1,
    column_scales: 0,
    amax: 1,
    device_scalars: 0,
    bias_stride: 0,
};

const NO_NUMBERS: tessera_epilogue_numbers = tessera_epilogue_numbers {
    size: size_of::<tessera_epilogue_numbers>(),
    bias: null(),
    row_scales: null(),
    column_scales: null(),
    scalars: null(),
    amax: null_mut(),
};

/// The numbers of [`RELU`] on the device.
struct Numbers {
    bias: Memory,
    row_scales: Memory,
    amax: Memory,
}

impl Numbers {
    fn of<T: Copy>(context: &Context, (m, n): (usize, usize), of: fn(i32) -> T) -> Self {
        Self {
            bias: Memory::of(context, &numbers(n, 6, of)),
            row_scales: Memory::of(context, &numbers(m, 5, |it| it as f32)),
            amax: Memory::of(context, &[f32::NAN]),
        }
    }

    fn at(&self) -> tessera_epilogue_numbers {
        tessera_epilogue_numbers {
            bias: self.bias.at(),
            row_scales: self.row_scales.at(),
            amax: self.amax.at(),
            ..NO_NUMBERS
        }
    }

    fn largest(&self) -> f32 {
        self.amax.read(1)[0]
    }
}

fn floats(numbers: &[i32]) -> Vec<f32> {
    numbers.iter().map(|&it| it as f32).collect()
}

/// Of one plan, by an array of addresses, of a group, and without a plan of one's own.
#[test]
fn products_are_finished_by_epilogues() {
    let _alone = alone();
    let context = program();
    let (device, stream) = (Device::first(), Stream::new(&context).unwrap());
    let (m, n, k, count) = (9, 10, 11, 3);
    let on = |len, seed| Memory::of(&context, &numbers(len, seed, |it| it as f32));
    let (a, b, c) = (on(count * m * k, 1), on(k * n, 2), on(count * m * n, 3));
    let desc = tessera_gemm_desc { beta: 2.0, epilogue: &RELU, ..described(TESSERA_F32, m, n, k) };
    let strided = tessera_gemm_desc {
        batch_count: count,
        a_stride: m * k,
        c_stride: m * n,
        d_stride: m * n,
        alignment: 4,
        ..desc
    };
    let each: Vec<(Vec<i32>, i32)> = (0..count).map(|at| finished(&strided, at)).collect();
    let all: Vec<f32> = each.iter().flat_map(|(d, _)| floats(d)).collect();
    let largest = each.iter().map(|(_, largest)| *largest).max().unwrap() as f32;
    assert!(all.contains(&0.0) && largest > 0.0, "relu does something");

    let given = Numbers::of(&context, (m, n), |it| it as f32);
    let numbers_at = given.at();
    let run = |plan: &Plan, numbers: *const tessera_epilogue_numbers, d: &Memory| {
        let room = Memory::room(&context, plan.bytes());
        let [a, b, c, d] = [a.at(), b.at(), c.at(), d.at()];
        let (at, bytes) = (room.at(), room.0.len());
        // SAFETY: memory of the description's matrices and numbers; or what is refused.
        let status = unsafe {
            tessera_plan_run_with(plan.0, numbers, a, b, c, d, at, bytes, stream.as_raw())
        };
        stream.synchronize().unwrap();
        status
    };
    let plan = Plan::new(&device, &desc);
    // SAFETY: a plan.
    let words = text(unsafe { tessera_plan_explain(plan.0) });
    assert!(words.contains("epilogue: ") && words.contains("relu"), "{words}");
    let d = on(m * n, 4);
    check(run(&plan, &raw const numbers_at, &d));
    assert_eq!(d.read::<f32>(m * n), floats(&each[0].0));
    assert_eq!(given.largest(), each[0].1 as f32);
    // What is missing is said before anything is launched.
    refused(run(&plan, null(), &d), TESSERA_INVALID_ARGUMENT, "the bias is null");
    let unscaled = tessera_epilogue_numbers { row_scales: null(), ..numbers_at };
    refused(
        run(&plan, &raw const unscaled, &d),
        TESSERA_INVALID_ARGUMENT,
        "the row scales is null",
    );
    let wrong = tessera_epilogue_numbers { size: 8, ..numbers_at };
    refused(run(&plan, &raw const wrong, &d), TESSERA_INVALID_ARGUMENT, "numbers: size is 8");
    assert_eq!(d.read::<f32>(m * n), floats(&each[0].0));

    // Batches: by strides, and by addresses.
    let plan = Plan::new(&device, &strided);
    let d = on(count * m * n, 4);
    check(run(&plan, &raw const numbers_at, &d));
    assert_eq!(d.read::<f32>(count * m * n), all);
    assert_eq!(given.largest(), largest);
    let pointers = tessera_gemm_desc { batch: TESSERA_BATCH_POINTERS, ..strided };
    let plan = Plan::new(&device, &pointers);
    let d = on(count * m * n, 4);
    let room = Memory::room(&context, plan.bytes());
    let places = |of: &Memory, stride: usize| -> Vec<*mut c_void> {
        (0..count).map(|at| of.at().wrapping_byte_add(4 * at * stride)).collect()
    };
    let arrays = [places(&a, m * k), places(&b, 0), places(&c, m * n), places(&d, m * n)];
    let [of_a, of_b, of_c, of_d] = arrays.each_ref().map(|array| array.as_ptr());
    let [of_a, of_b, of_c] = [of_a, of_b, of_c].map(<*const *mut c_void>::cast::<*const c_void>);
    let (at, bytes) = (room.at(), room.0.len());
    // SAFETY: memory of the products and their numbers, and arrays of their addresses.
    check(unsafe {
        let (plan, numbers, stream) = (plan.0, &raw const numbers_at, stream.as_raw());
        tessera_plan_run_array_with(plan, numbers, count, of_a, of_b, of_c, of_d, at, bytes, stream)
    });
    stream.synchronize().unwrap();
    assert_eq!(d.read::<f32>(count * m * n), all);
    assert_eq!(given.largest(), largest);

    // A group: the second has no epilogue, nor has what it is given for one.
    let plain = tessera_gemm_desc { beta: 0.0, epilogue: null(), ..desc };
    let descs = [desc, plain, desc].map(|it| tessera_gemm_desc { alignment: 4, ..it });
    let group = Group(made(|to| {
        // SAFETY: a device, the descriptions, and room for an address.
        unsafe { tessera_group_create(device.0, descs.as_ptr(), count, to) }
    }));
    let d = on(count * m * n, 4);
    let of_d = places(&d, m * n);
    // SAFETY: a group.
    let bytes = unsafe { tessera_group_workspace_bytes(group.0) };
    let room = Memory::room(&context, bytes);
    let each_numbers = [numbers_at, NO_NUMBERS, numbers_at];
    let run = |numbers: *const tessera_epilogue_numbers| {
        let (d, room, stream) = (of_d.as_ptr(), room.at(), stream.as_raw());
        // SAFETY: memory of the products and their numbers, and arrays of them; or what is refused.
        unsafe {
            tessera_group_run_with(
                group.0, numbers, count, of_a, of_b, of_c, d, room, bytes, stream,
            )
        }
    };
    refused(run(null()), TESSERA_INVALID_ARGUMENT, "the bias is null");
    check(run(each_numbers.as_ptr()));
    stream.synchronize().unwrap();
    let found = d.read::<f32>(count * m * n);
    assert_eq!(found[..m * n], all[..m * n]);
    assert_eq!(found[2 * m * n..], all[2 * m * n..]);
    assert_ne!(found[m * n..2 * m * n], all[m * n..2 * m * n]);

    // Without a plan: C is D.
    let products = Products::of(&device, &stream);
    let batch = tessera_batch {
        size: size_of::<tessera_batch>(),
        count,
        a_stride: (m * k) as isize,
        b_stride: 0,
        c_stride: (m * n) as isize,
    };
    let options = tessera_gemm_options {
        size: size_of::<tessera_gemm_options>(),
        alpha: 1.0,
        alpha_imaginary: 0.0,
        beta: 2.0,
        beta_imaginary: 0.0,
        threads: 0,
        batch: &raw const batch,
        epilogue: &RELU,
        numbers: &raw const numbers_at,
    };
    let a = matrix(TESSERA_F32, &a, m, k, [k as isize, 1]);
    let b = matrix(TESSERA_F32, &b, k, n, [n as isize, 1]);
    let of_c = matrix(TESSERA_F32, &c, m, n, [n as isize, 1]);
    // SAFETY: memory of the matrices and numbers, and structs.
    check(unsafe { tessera_device_gemm_with(products.0, &raw const options, &a, &b, &of_c) });
    stream.synchronize().unwrap();
    assert_eq!(c.read::<f32>(count * m * n), all);
    assert_eq!(cuda_emulated::faults(), Vec::<String>::new());
}

/// Alpha and beta in device memory: one plan, and the numbers of the moment.
#[test]
fn factors_may_be_in_device_memory() {
    let _alone = alone();
    let context = program();
    let (device, stream) = (Device::first(), Stream::new(&context).unwrap());
    let n = 8;
    let epilogue = tessera_epilogue {
        activation: TESSERA_ACTIVATION_NONE,
        bias: TESSERA_BIAS_NONE,
        row_scales: 0,
        amax: 0,
        device_scalars: 1,
        ..RELU
    };
    let desc =
        tessera_gemm_desc { epilogue: &raw const epilogue, ..described(TESSERA_F64, n, n, n) };
    let plan = Plan::new(&device, &desc);
    let on = |seed| Memory::of(&context, &numbers(n * n, seed, f64::from));
    let (a, b, c, d) = (on(1), on(2), on(3), on(4));
    let mut scalars = Memory::of(&context, &[1.0f64, 1.0]);
    let room = Memory::room(&context, plan.bytes());
    for [alpha, beta] in [[1.0, 0.0], [-2.0, 3.0]] {
        scalars.0.write(0, [alpha, beta].map(f64::to_ne_bytes).as_flattened()).unwrap();
        let numbers = tessera_epilogue_numbers { scalars: scalars.at(), ..NO_NUMBERS };
        let [a, b, c, d_at] = [a.at(), b.at(), c.at(), d.at()];
        let (at, bytes, stream_at) = (room.at(), room.0.len(), stream.as_raw());
        // SAFETY: memory of the description's matrices and numbers.
        check(unsafe {
            let numbers = &raw const numbers;
            tessera_plan_run_with(plan.0, numbers, a, b, c, d_at, at, bytes, stream_at)
        });
        stream.synchronize().unwrap();
        let right = expected(&tessera_gemm_desc { alpha, beta, ..desc }, n * n);
        let right: Vec<f64> = right.into_iter().map(f64::from).collect();
        assert_eq!(d.read::<f64>(n * n), right);
    }
}

#[test]
fn epilogues_that_do_not_fit_are_refused() {
    let _alone = alone();
    let device = Device::first();
    let plan = |dtype, epilogue: *const tessera_epilogue| {
        let desc = tessera_gemm_desc { epilogue, ..described(dtype, 4, 4, 4) };
        let mut plan = null_mut();
        // SAFETY: a device, a description, and room for an address.
        let status = unsafe { tessera_plan_create(device.0, &raw const desc, &raw mut plan) };
        assert!(plan.is_null());
        status
    };
    let wrong = [
        (tessera_epilogue { activation: 9, ..RELU }, "activation is 9, which is none of"),
        (tessera_epilogue { bias: 3, ..RELU }, "bias is 3, which is none of"),
        (tessera_epilogue { size: 16, ..RELU }, "epilogue: size is 16"),
    ];
    for (epilogue, words) in &wrong {
        refused(plan(TESSERA_F32, epilogue), TESSERA_INVALID_ARGUMENT, words);
    }
    let gelu = tessera_epilogue { activation: TESSERA_ACTIVATION_GELU, amax: 0, ..RELU };
    refused(
        plan(TESSERA_F64, &raw const gelu),
        TESSERA_UNSUPPORTED,
        "gelu is of accumulators of f32",
    );
    refused(plan(TESSERA_I32, &RELU), TESSERA_UNSUPPORTED, "have no epilogue");
    let odd = (&raw const RELU).wrapping_byte_add(4);
    refused(plan(TESSERA_F32, odd), TESSERA_INVALID_ARGUMENT, "epilogue is at 0x");
}

/// Rows in groups whose ends the device has; where it has no such kernels the plan says so.
#[test]
fn groups_of_rows_end_where_the_device_says() {
    let _alone = alone();
    let context = program();
    let (device, stream) = (Device::first(), Stream::new(&context).unwrap());
    let (m, n, k, groups) = (200, 72, 40, 4);
    let epilogue = tessera_epilogue { bias_stride: n, ..RELU };
    let desc = tessera_gemm_desc {
        batch: TESSERA_BATCH_ROW_GROUPS,
        batch_count: groups,
        b_stride: k * n,
        epilogue: &raw const epilogue,
        ..described(TESSERA_BF16, m, n, k)
    };
    let mut plan = null_mut();
    // SAFETY: a device, a description, and room for an address.
    let status = unsafe { tessera_plan_create(device.0, &raw const desc, &raw mut plan) };
    if emulated() {
        return refused(status, TESSERA_UNSUPPORTED, "no kernel for bf16 in groups of rows");
    }
    check(status);
    let plan = Plan(plan);
    let halves =
        |len, seed| Memory::of(&context, &numbers(len, seed, |it| bf16::from_f32(it as f32)));
    let (a, b, d) = (halves(m * k, 1), halves(groups * k * n, 2), halves(m * n, 4));
    let given = Numbers {
        bias: halves(groups * n, 6),
        ..Numbers::of(&context, (m, n), |it| bf16::from_f32(it as f32))
    };
    let ends = [3u32, 70, 70, 190];
    let (on_ends, numbers_at) = (Memory::of(&context, &ends), given.at());
    let room = Memory::room(&context, plan.bytes());
    let run = |ends: *mut c_void| {
        let [a, b, d, at] = [a.at(), b.at(), d.at(), room.at()];
        let (numbers, ends, stream) =
            (&raw const numbers_at, ends.cast_const().cast(), stream.as_raw());
        // SAFETY: memory of the description's matrices, numbers and ends; or what is refused.
        unsafe {
            tessera_plan_run_groups(
                plan.0,
                numbers,
                ends,
                a,
                b,
                null(),
                d,
                at,
                plan.bytes(),
                stream,
            )
        }
    };
    refused(run(null_mut()), TESSERA_INVALID_ARGUMENT, "the array of ends is null");
    check(run(on_ends.at()));
    stream.synchronize().unwrap();
    let element = |at: usize| {
        let (row, col) = (at / n, at % n);
        let Some(group) = ends.iter().position(|&end| row < end as usize) else {
            return value(at, 4) as f32;
        };
        let b = |p: usize| value(group * k * n + p * n + col, 2);
        let sum: i32 = (0..k).map(|p| value(row * k + p, 1) * b(p)).sum();
        let whole = (value(row, 5) * sum + value(group * n + col, 6)).max(0);
        bf16::from_f32(whole as f32).to_f32()
    };
    let right: Vec<f32> = (0..m * n).map(element).collect();
    let found: Vec<f32> =
        d.read::<u16>(m * n).into_iter().map(|it| bf16::from_bits(it).to_f32()).collect();
    assert_eq!(found, right);
}
