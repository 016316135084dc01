//! Products on a device as programs in C call them, on an emulated driver whose streams run as late as they may.
//! Where `GEMM_REQUIRE_GPU=1` is set the same tests are of the first GPU; what only an emulated driver can count
//! or show is then left out.

#![expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
#![expect(clippy::unwrap_used, reason = "what the tests have in common fails where they do")]

#[path = "device/epilogue.rs"]
mod epilogue;
#[path = "device/prepared.rs"]
mod prepared;

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut, without_provenance_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_lazy::{CaptureMode, Context, DeviceMemory, DriverError, Graph, Stream};
use tessera_c::*;

/// The driver's counters and memory are those of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if emulated() {
        cuda_emulated::install();
    }
    guard
}

/// Whether the tests are of the emulated driver.
fn emulated() -> bool {
    std::env::var_os("GEMM_REQUIRE_GPU").is_none_or(|value| value != "1")
}

/// The program's own context.
fn program() -> Context {
    let driver = cuda_lazy::load().unwrap();
    driver.init().unwrap();
    Context::primary(driver, driver.device(0).unwrap()).unwrap()
}

/// The program's device memory, with those numbers.
struct Memory(DeviceMemory);

impl Memory {
    fn of<T: Copy>(context: &Context, data: &[T]) -> Self {
        let bytes = size_of_val(data);
        let mut memory = DeviceMemory::new(context, bytes).unwrap();
        // SAFETY: plain numbers.
        let data = unsafe { std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), bytes) };
        memory.write(0, data).unwrap();
        context.synchronize().unwrap();
        Self(memory)
    }

    fn room(context: &Context, bytes: usize) -> Self {
        Self(DeviceMemory::new(context, bytes.max(1)).unwrap())
    }

    /// As C has it.
    fn at(&self) -> *mut c_void {
        without_provenance_mut(self.0.address() as usize)
    }

    fn read<T: Copy + Default>(&self, len: usize) -> Vec<T> {
        let mut data = vec![T::default(); len];
        // SAFETY: plain numbers, any bytes of which are a value.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(data.as_mut_ptr().cast::<u8>(), size_of_val(&*data))
        };
        self.0.read(0, bytes).unwrap();
        data
    }
}

fn text(at: *const c_char) -> String {
    // SAFETY: a text of the library.
    unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
}

fn last_error() -> String {
    text(tessera_last_error())
}

/// Fails with what the library says.
fn check(status: tessera_status) {
    assert_eq!(status, TESSERA_SUCCESS, "{}", last_error());
}

/// Fails unless a call failed in that way, with those words.
fn refused(found: tessera_status, status: tessera_status, words: &str) {
    let message = last_error();
    assert!(found == status && message.contains(words), "{found}: {message}");
}

/// What was made by a function that hands out an address.
fn made<T>(make: impl FnOnce(*mut *mut T) -> tessera_status) -> *mut T {
    let mut made = null_mut();
    check(make(&raw mut made));
    made
}

macro_rules! owners {
    ($($owner:ident of $of:ident by $destroy:ident;)*) => {$(
        struct $owner(*mut $of);

        impl Drop for $owner {
            fn drop(&mut self) {
                // SAFETY: made by the library, and nobody else has it.
                unsafe { $destroy(self.0) };
            }
        }

        // SAFETY: any number of threads may use one at once.
        unsafe impl Sync for $owner {}
    )*};
}

owners! {
    Device of tessera_device by tessera_device_destroy;
    Plan of tessera_plan by tessera_plan_destroy;
    Group of tessera_group by tessera_group_destroy;
    Products of tessera_stream by tessera_stream_destroy;
}

impl Device {
    fn first() -> Self {
        // SAFETY: there is room for an address.
        Self(made(|to| unsafe { tessera_device_create(0, to) }))
    }
}

impl Plan {
    fn new(device: &Device, desc: &tessera_gemm_desc) -> Self {
        // SAFETY: a device, a description, and room for an address.
        Self(made(|to| unsafe { tessera_plan_create(device.0, desc, to) }))
    }

    fn bytes(&self) -> usize {
        // SAFETY: a plan.
        unsafe { tessera_plan_workspace_bytes(self.0) }
    }

    fn run(&self, [a, b, c, d]: [*mut c_void; 4], room: &Memory, stream: *mut c_void) -> i32 {
        let bytes = room.0.len();
        // SAFETY: tests give memory of the description's matrices, and wait before it is gone; or what is refused.
        unsafe { tessera_plan_run(self.0, a, b, c, d, room.at(), bytes, stream) }
    }
}

impl Products {
    fn of(device: &Device, stream: &Stream) -> Self {
        let stream = stream.as_raw();
        // SAFETY: a device, a stream of its context, and room for an address.
        Self(made(|to| unsafe { tessera_stream_create(device.0, stream, null(), to) }))
    }

    fn gemm(&self, alpha: f64, beta: f64, [a, b, c]: [&tessera_matrix; 3]) -> tessera_status {
        // SAFETY: tests give memory of the matrices, and wait before it is gone; or what is refused.
        unsafe { tessera_device_gemm(self.0, alpha, a, b, beta, c) }
    }
}

/// As `tessera_gemm_desc_row_major` fills one in.
fn described(dtype: tessera_dtype, m: usize, n: usize, k: usize) -> tessera_gemm_desc {
    tessera_gemm_desc {
        size: size_of::<tessera_gemm_desc>(),
        m,
        n,
        k,
        a_dtype: dtype,
        b_dtype: dtype,
        c_dtype: dtype,
        a_order: TESSERA_ROW_MAJOR,
        b_order: TESSERA_ROW_MAJOR,
        c_order: TESSERA_ROW_MAJOR,
        d_order: TESSERA_ROW_MAJOR,
        transa: 0,
        transb: 0,
        accuracy: TESSERA_ACCURACY_FP32,
        lda: k,
        ldb: n,
        ldc: n,
        ldd: n,
        alpha: 1.0,
        beta: 0.0,
        batch_count: 1,
        a_stride: 0,
        b_stride: 0,
        c_stride: 0,
        d_stride: 0,
        batch: TESSERA_BATCH_STRIDED,
        reserved: 0,
        workspace_limit: usize::MAX,
        alignment: 16,
        epilogue: null(),
        prepared: TESSERA_PREPARED_NONE,
        limbs: TESSERA_LIMBS_TWO_F16,
    }
}

/// A small whole number that depends on where it is.
fn value(at: usize, seed: usize) -> i32 {
    ((at * 7 + seed * 3 + at / 5) % 7) as i32 - 3
}

fn numbers<T>(len: usize, seed: usize, of: fn(i32) -> T) -> Vec<T> {
    (0..len).map(|at| of(value(at, seed))).collect()
}

/// Where an element of a matrix in memory is.
fn place((order, ld): (i32, usize), row: usize, col: usize) -> usize {
    if order == TESSERA_ROW_MAJOR { row * ld + col } else { row + col * ld }
}

/// The D of a description whose matrices are filled by [`value`] with the seeds 1 to 4, padding included.
fn expected(desc: &tessera_gemm_desc, len: usize) -> Vec<i32> {
    let mut d: Vec<i32> = (0..len).map(|at| value(at, 4)).collect();
    let pick = |layout, is_transposed: i32, row, col| {
        if is_transposed == 0 { place(layout, row, col) } else { place(layout, col, row) }
    };
    for row in 0..desc.m {
        for col in 0..desc.n {
            let product = |p| {
                let a = pick((desc.a_order, desc.lda), desc.transa, row, p);
                let b = pick((desc.b_order, desc.ldb), desc.transb, p, col);
                value(a, 1) * value(b, 2)
            };
            let sum: i32 = (0..desc.k).map(product).sum();
            let c = value(place((desc.c_order, desc.ldc), row, col), 3);
            d[place((desc.d_order, desc.ldd), row, col)] =
                desc.alpha as i32 * sum + desc.beta as i32 * c;
        }
    }
    d
}

/// Any mixture of orders and transposes, of three types, with a D apart from C and gaps between lines.
#[test]
fn a_plan_gives_the_product_of_any_orders_and_transposes() {
    fn compare<T: Copy + Default + PartialEq + std::fmt::Debug>(
        (context, device, stream): (&Context, &Device, &Stream),
        desc: &tessera_gemm_desc,
        of: fn(i32) -> T,
    ) {
        let len = 20 * 20;
        let on = |seed| Memory::of(context, &numbers(len, seed, of));
        let [a, b, c, d] = [1, 2, 3, 4].map(on);
        let plan = Plan::new(device, desc);
        let room = Memory::room(context, plan.bytes());
        // SAFETY: a plan; the addresses are looked at alone.
        let found = unsafe {
            tessera_plan_check(plan.0, a.at(), b.at(), c.at(), d.at(), room.at(), plan.bytes())
        };
        check(found);
        check(plan.run([a.at(), b.at(), c.at(), d.at()], &room, stream.as_raw()));
        stream.synchronize().unwrap();
        let right: Vec<T> = expected(desc, len).into_iter().map(of).collect();
        assert_eq!(d.read::<T>(len), right, "{desc:?}");
    }
    let _alone = alone();
    let context = program();
    let (device, stream) = (Device::first(), Stream::new(&context).unwrap());
    let with = (&context, &device, &stream);
    for mixture in 0..64 {
        let bit = |at: i32| mixture >> at & 1;
        for dtype in [TESSERA_F32, TESSERA_F64, TESSERA_I32] {
            let desc = tessera_gemm_desc {
                a_order: bit(0),
                b_order: bit(1),
                c_order: bit(2),
                d_order: bit(3),
                transa: bit(4),
                transb: 5 * bit(5),
                lda: 17,
                ldb: 18,
                ldc: 19,
                ldd: 20,
                alpha: 2.0,
                beta: if mixture % 3 == 0 { 0.0 } else { -1.0 },
                ..described(dtype, 11, 13, 16)
            };
            match dtype {
                TESSERA_F32 => compare(with, &desc, |it| it as f32),
                TESSERA_F64 => compare(with, &desc, f64::from),
                _ => compare(with, &desc, |it| it),
            }
        }
    }
    assert_eq!(cuda_emulated::faults(), Vec::<String>::new());
}

/// A run asks the driver for launches alone, and can be captured.
#[test]
fn a_run_only_launches_and_can_be_captured() {
    let _alone = alone();
    let context = program();
    let (device, stream) = (Device::first(), Stream::new(&context).unwrap());
    let desc = tessera_gemm_desc { beta: 1.0, ldd: 28, ..described(TESSERA_F32, 20, 24, 5000) };
    let plan = Plan::new(&device, &desc);
    let ones = |len| Memory::of(&context, &vec![1f32; len]);
    let (a, b, c, d) = (ones(20 * 5000), ones(5000 * 24), ones(480), ones(20 * 28));
    let room = Memory::room(&context, plan.bytes());
    let at = [a.at(), b.at(), c.at(), d.at()];
    let run = || plan.run(at, &room, stream.as_raw());
    let before = cuda_emulated::calls();
    check(run());
    let after = cuda_emulated::calls();
    if emulated() {
        let called: BTreeSet<&str> = after
            .into_iter()
            .filter(|call| before.get(call.0) != Some(&call.1))
            .map(|it| it.0)
            .collect();
        let allowed = [
            "cuCtxPushCurrent",
            "cuCtxPopCurrent",
            "cuLaunchKernel",
            "cuMemsetD8Async",
            "cuMemcpyDtoDAsync",
            "cuMemcpy2DAsync",
        ];
        let other: Vec<_> = called.iter().filter(|call| !allowed.contains(call)).collect();
        assert!(other.is_empty() && called.contains("cuLaunchKernel"), "{called:?}");
    }
    stream.synchronize().unwrap();
    assert_eq!(d.read::<f32>(24), [5001.0; 24]);
    // SAFETY: a stream of the context, and the memory outlives the graph's launches.
    let graph = unsafe {
        Graph::capture::<DriverError>(&context, stream.as_raw(), CaptureMode::Global, || {
            // A plan that is made meanwhile disturbs nothing.
            drop(Plan::new(&device, &described(TESSERA_I32, 3, 3, 3)));
            check(run());
            Ok(())
        })
    };
    let graph = graph.unwrap();
    // Whatever C is when it is launched.
    let twos = [2f32; 480].map(f32::to_ne_bytes).concat();
    let mut c = c;
    c.0.write(0, &twos).unwrap();
    context.synchronize().unwrap();
    // SAFETY: as above.
    unsafe { graph.launch(stream.as_raw()) }.unwrap();
    stream.synchronize().unwrap();
    assert_eq!(d.read::<f32>(24), [5002.0; 24]);
    assert_eq!(cuda_emulated::faults(), Vec::<String>::new());
}

/// What is said of a plan, and its texts live as long as it does, also when its device is gone.
#[test]
fn plans_say_what_they_are_and_outlive_their_device() {
    let _alone = alone();
    let context = program();
    let device = Device::first();
    // SAFETY: a device.
    let name = text(unsafe { tessera_device_name(device.0) });
    assert!(name.starts_with("cuda:0 ("), "{name}");
    let plan = Plan::new(&device, &described(TESSERA_F32, 64, 48, 32));
    drop(device);
    // SAFETY: a plan.
    let kernel = text(unsafe { tessera_plan_kernel(plan.0) });
    // SAFETY: a plan.
    let told = text(unsafe { tessera_plan_explain(plan.0) });
    assert!(!kernel.is_empty() && told.contains(&format!("\nkernel: {kernel}, ")), "{told}");
    assert!(told.starts_with("product: f32 64 x 48 x 32 on cuda:0"), "{told}");
    assert!(told.contains(&format!("\nworkspace: {} bytes\n", plan.bytes())), "{told}");
    let ones = |len| Memory::of(&context, &vec![1f32; len]);
    let (a, b, d) = (ones(64 * 32), ones(32 * 48), ones(64 * 48));
    let room = Memory::room(&context, plan.bytes());
    // The legacy default stream.
    check(plan.run([a.at(), b.at(), null_mut(), d.at()], &room, null_mut()));
    context.synchronize().unwrap();
    assert_eq!(d.read::<f32>(64 * 48), vec![32.0; 64 * 48]);
}

/// What is wrong with a description is a status and a line, and no plan is made.
#[test]
fn descriptions_that_do_not_fit_are_refused() {
    let _alone = alone();
    let device = Device::first();
    let right = described(TESSERA_F32, 4, 6, 5);
    let with = |change: &dyn Fn(&mut tessera_gemm_desc)| {
        let (mut desc, mut plan) = (right, null_mut());
        change(&mut desc);
        // SAFETY: a device, a description, and room for an address.
        let status = unsafe { tessera_plan_create(device.0, &raw const desc, &raw mut plan) };
        assert!(plan.is_null());
        status
    };
    let wrong = "desc: size is 8, it must be sizeof(tessera_gemm_desc)";
    refused(with(&|it| it.size = 8), TESSERA_INVALID_ARGUMENT, wrong);
    refused(with(&|it| it.reserved = 1), TESSERA_INVALID_ARGUMENT, "desc: reserved is not 0");
    refused(with(&|it| it.a_dtype = 0), TESSERA_INVALID_ARGUMENT, "dtype of A is 0");
    refused(with(&|it| it.a_order = 2), TESSERA_INVALID_ARGUMENT, "a_order is 2");
    refused(with(&|it| it.d_order = -1), TESSERA_INVALID_ARGUMENT, "d_order is -1");
    refused(with(&|it| it.accuracy = 9), TESSERA_INVALID_ARGUMENT, "accuracy is 9");
    refused(with(&|it| it.batch = 3), TESSERA_INVALID_ARGUMENT, "batch is 3");
    refused(with(&|it| it.lda = 4), TESSERA_INVALID_SIZE, "leading dimension of A is 4");
    refused(with(&|it| (it.beta, it.ldc) = (1.0, 5)), TESSERA_INVALID_SIZE, "dimension of C is 5");
    refused(
        with(&|it| it.m = usize::MAX),
        TESSERA_INVALID_SIZE,
        "more bytes than can be addressed",
    );
    refused(with(&|it| it.alpha = 1e-60), TESSERA_INVALID_SIZE, "alpha is 0.0000");
    refused(with(&|it| it.alignment = 3), TESSERA_INVALID_SIZE, "must be a power of two");
    let apart = |it: &mut tessera_gemm_desc| (it.batch_count, it.d_stride) = (2, 23);
    refused(with(&apart), TESSERA_INVALID_SIZE, "write D 23 elements apart");
    refused(
        with(&|it| it.c_dtype = TESSERA_F64),
        TESSERA_UNSUPPORTED,
        "f32 by f32 with a C of f64",
    );
    let complex = |it: &mut tessera_gemm_desc| it.a_dtype = TESSERA_COMPLEX64;
    refused(with(&complex), TESSERA_UNSUPPORTED, "complex64 is multiplied on the CPU alone");
    let bytes = |it: &mut tessera_gemm_desc| {
        (it.a_dtype, it.b_dtype, it.c_dtype) = (TESSERA_I8, TESSERA_I8, TESSERA_I32);
    };
    refused(with(&bytes), TESSERA_UNSUPPORTED, "there is no kernel for");
    assert_eq!(tessera_last_driver_code(), 0);
    // A newer program's struct, with and without something that this library does not know.
    for (unknown, status) in [(0, TESSERA_SUCCESS), (1, TESSERA_INVALID_ARGUMENT)] {
        let size = size_of::<tessera_gemm_desc>() + 8;
        let newer = (tessera_gemm_desc { size, ..right }, unknown as u64);
        let (of, mut plan) = (&raw const newer, null_mut());
        // SAFETY: a device, as many bytes as the description says, and room for an address.
        let found = unsafe { tessera_plan_create(device.0, of.cast(), &raw mut plan) };
        assert_eq!(found, status, "{}", last_error());
        // SAFETY: a plan or null.
        unsafe { tessera_plan_destroy(plan) };
    }
}

/// What is wrong with operands is a status that names the plan, and nothing is launched.
#[test]
fn operands_that_a_plan_cannot_take_are_refused_before_anything_is_launched() {
    let _alone = alone();
    let context = program();
    let (device, stream) = (Device::first(), Stream::new(&context).unwrap());
    let plan = Plan::new(&device, &described(TESSERA_F32, 16, 16, 4000));
    let splits = plan.bytes() > 0;
    assert!(splits || !emulated(), "a long sum is split");
    // Where there is no room for that another kernel is picked.
    let without = tessera_gemm_desc { workspace_limit: 0, ..described(TESSERA_F32, 16, 16, 4000) };
    assert_eq!(Plan::new(&device, &without).bytes(), 0);
    let zeros = |len| Memory::of(&context, &vec![0f32; len]);
    let (a, b, d) = (zeros(16 * 4000), zeros(4000 * 16), zeros(256));
    let room = Memory::room(&context, plan.bytes());
    let at = [a.at(), b.at(), null_mut(), d.at()];
    let launches = cuda_emulated::count("cuLaunchKernel");
    let with = |index: usize, address: *mut c_void| {
        let mut at = at;
        at[index] = address;
        plan.run(at, &room, stream.as_raw())
    };
    let name = "f32 16 x 16 x 4000 by ";
    refused(with(0, null_mut()), TESSERA_INVALID_ARGUMENT, name);
    refused(with(0, null_mut()), TESSERA_INVALID_ARGUMENT, ": A is null");
    refused(with(3, null_mut()), TESSERA_INVALID_ARGUMENT, ": D is null");
    refused(with(1, b.at().wrapping_byte_add(2)), TESSERA_INVALID_ARGUMENT, "no multiple of 16");
    let short = |bytes: usize, workspace: *mut c_void| {
        let [a, b, c, d] = at;
        // SAFETY: what is wrong is found before anything is launched.
        unsafe { tessera_plan_run(plan.0, a, b, c, d, workspace, bytes, stream.as_raw()) }
    };
    if splits {
        refused(short(1, room.at()), TESSERA_INVALID_ARGUMENT, "the workspace has 1 bytes");
        let nowhere = short(plan.bytes(), null_mut());
        refused(nowhere, TESSERA_INVALID_ARGUMENT, "the workspace is null");
    }
    // SAFETY: null is no plan.
    let found = unsafe {
        tessera_plan_run(null(), null(), null(), null(), null_mut(), null_mut(), 0, null_mut())
    };
    refused(found, TESSERA_INVALID_ARGUMENT, "plan is null");
    // Host memory is for the asking.
    #[repr(align(16))]
    struct Aligned([f32; 256]);
    let host = Aligned([0.0; 256]);
    // SAFETY: a plan; the addresses are looked at alone.
    let found = unsafe {
        let (a, b, room, bytes) = (a.at(), b.at(), room.at(), plan.bytes());
        tessera_plan_check(plan.0, a, b, null(), host.0.as_ptr().cast(), room, bytes)
    };
    refused(found, TESSERA_INVALID_ARGUMENT, "the driver knows no device memory");
    assert_eq!(cuda_emulated::count("cuLaunchKernel"), launches);
    assert_eq!(cuda_emulated::faults(), Vec::<String>::new());
}

/// What the driver refuses has its code, the call and the plan.
#[test]
fn what_the_driver_refuses_has_its_code_the_call_and_the_plan() {
    let _alone = alone();
    if !emulated() {
        return;
    }
    let context = program();
    let device = Device::first();
    let other = Context::create(context.driver(), context.device()).unwrap();
    let stream = Stream::new(&other).unwrap();
    let plan = Plan::new(&device, &described(TESSERA_F64, 3, 3, 3));
    let d = Memory::of(&context, &[0f64; 9]);
    let room = Memory::room(&context, plan.bytes());
    // A stream of another context.
    let found = plan.run([d.at(), d.at(), null_mut(), d.at()], &room, stream.as_raw());
    refused(found, TESSERA_DEVICE_FAILED, " of f64 3 x 3 x 3 by ");
    refused(found, TESSERA_DEVICE_FAILED, "cuLaunchKernel");
    assert_eq!(tessera_last_driver_code(), 400);
    // SAFETY: null is no device, and there is no such one.
    let found = unsafe { tessera_device_create(99, &mut null_mut()) };
    refused(found, TESSERA_NO_DEVICE, "there is no CUDA device 99");
    assert_eq!(tessera_last_driver_code(), 0);
}

/// Batches by strides, by addresses, and groups of sizes of their own.
#[test]
fn batches_and_groups_are_computed() {
    let _alone = alone();
    let context = program();
    let (device, stream) = (Device::first(), Stream::new(&context).unwrap());
    let (m, n, k, count) = (9, 10, 11, 3);
    let product = |a: usize, c: usize| -> Vec<i32> {
        let element = |at: usize| {
            let (row, col) = (at / n, at % n);
            let sum: i32 = (0..k).map(|p| value(a + row * k + p, 1) * value(p * n + col, 2)).sum();
            sum + value(c + at, 3)
        };
        (0..m * n).map(element).collect()
    };
    let on = |len, seed| Memory::of(&context, &numbers(len, seed, |it| it));
    let (a, b, c) = (on(count * m * k, 1), on(k * n, 2), on(count * m * n, 3));
    let desc = tessera_gemm_desc {
        beta: 1.0,
        batch_count: count,
        a_stride: m * k,
        c_stride: m * n,
        d_stride: m * n,
        ..described(TESSERA_I32, m, n, k)
    };
    let right: Vec<i32> = (0..count).flat_map(|at| product(at * m * k, at * m * n)).collect();
    let plan = Plan::new(&device, &desc);
    let d = on(count * m * n, 4);
    let room = Memory::room(&context, plan.bytes());
    check(plan.run([a.at(), b.at(), c.at(), d.at()], &room, stream.as_raw()));
    stream.synchronize().unwrap();
    assert_eq!(d.read::<i32>(count * m * n), right);

    // The same by addresses, the last product first.
    let desc = tessera_gemm_desc { batch: TESSERA_BATCH_POINTERS, alignment: 4, ..desc };
    let plan = Plan::new(&device, &desc);
    let d = on(count * m * n, 4);
    let room = Memory::room(&context, plan.bytes());
    let each = |of: &Memory, stride: usize| -> Vec<*const c_void> {
        let places = (0..count).rev().map(|at| of.at().wrapping_byte_add(4 * at * stride));
        places.map(<*mut c_void>::cast_const).collect()
    };
    let (of_a, of_b, of_c) = (each(&a, m * k), each(&b, 0), each(&c, m * n));
    let of_d: Vec<*mut c_void> =
        each(&d, m * n).into_iter().map(<*const c_void>::cast_mut).collect();
    let run = |count: usize, d: *const *mut c_void| {
        let (a, b, c) = (of_a.as_ptr(), of_b.as_ptr(), of_c.as_ptr());
        let (room, bytes, stream) = (room.at(), plan.bytes(), stream.as_raw());
        // SAFETY: memory of the products, and arrays of their addresses; or what is refused.
        unsafe { tessera_plan_run_array(plan.0, count, a, b, c, d, room, bytes, stream) }
    };
    refused(run(2, of_d.as_ptr()), TESSERA_INVALID_ARGUMENT, "addresses are given for 2 products");
    refused(run(count, null()), TESSERA_INVALID_ARGUMENT, ": D is null");
    refused(run(count, of_d.as_ptr().wrapping_byte_add(1)), TESSERA_INVALID_ARGUMENT, "d is at 0x");
    check(run(count, of_d.as_ptr()));
    stream.synchronize().unwrap();
    assert_eq!(d.read::<i32>(count * m * n), right);

    // A group: the first product, nothing, and two rows of the second.
    let one = tessera_gemm_desc { alignment: 4, ..described(TESSERA_I32, m, n, k) };
    let descs =
        [one, tessera_gemm_desc { m: 0, ..one }, tessera_gemm_desc { m: 2, alpha: 2.0, ..one }];
    let create = |descs: &[tessera_gemm_desc], to: *mut *mut tessera_group| {
        // SAFETY: a device, the descriptions, and room for an address.
        unsafe { tessera_group_create(device.0, descs.as_ptr(), descs.len(), to) }
    };
    let group = Group(made(|to| create(&descs, to)));
    let (d, second) = (on(m * n, 4), on(2 * n, 4));
    // SAFETY: a group.
    let bytes = unsafe { tessera_group_workspace_bytes(group.0) };
    let room = Memory::room(&context, bytes);
    let of_a: [*const c_void; 3] =
        [a.at(), null_mut(), a.at().wrapping_byte_add(4 * m * k)].map(|it| it.cast_const());
    let of_b = [b.at().cast_const(); 3];
    let of_d = [d.at(), null_mut(), second.at()];
    let run = |count: usize| {
        let (a, b, d) = (of_a.as_ptr(), of_b.as_ptr(), of_d.as_ptr());
        let (room, stream) = (room.at(), stream.as_raw());
        // SAFETY: memory of the products, and arrays of their addresses; or what is refused.
        unsafe { tessera_group_run(group.0, count, a, b, null(), d, room, bytes, stream) }
    };
    refused(run(2), TESSERA_INVALID_ARGUMENT, "a group of 3 products: addresses are given for 2");
    check(run(3));
    stream.synchronize().unwrap();
    let without_c = |a: usize| -> Vec<i32> {
        product(a, 0).into_iter().enumerate().map(|(at, it)| it - value(at, 3)).collect()
    };
    assert_eq!(d.read::<i32>(m * n), without_c(0));
    let twice: Vec<i32> = without_c(m * k)[..2 * n].iter().map(|it| 2 * it).collect();
    assert_eq!(second.read::<i32>(2 * n), twice);
    let wrong = [one, tessera_gemm_desc { a_order: 7, ..one }];
    refused(create(&wrong, &mut null_mut()), TESSERA_INVALID_ARGUMENT, "descs[1]: a_order is 7");
    let wrong = [0, 8, 0].map(|more| tessera_gemm_desc { size: more + one.size, ..one });
    let wrong = [wrong[0], wrong[1], tessera_gemm_desc { size: 0, ..one }];
    let status = create(&wrong[..2], &mut null_mut());
    refused(status, TESSERA_INVALID_ARGUMENT, "descs[1]: size is not that of descs[0]");
    assert_eq!(cuda_emulated::faults(), Vec::<String>::new());
}

fn matrix(
    dtype: i32,
    of: &Memory,
    rows: usize,
    cols: usize,
    strides: [isize; 2],
) -> tessera_matrix {
    tessera_matrix {
        size: size_of::<tessera_matrix>(),
        data: of.at(),
        rows,
        cols,
        row_stride: strides[0],
        col_stride: strides[1],
        dtype,
        reserved: 0,
    }
}

/// Without a plan of one's own: the second product of a kind asks for no memory and loads nothing.
#[test]
fn a_stream_keeps_plans_and_workspace() {
    let _alone = alone();
    let context = program();
    let (device, stream) = (Device::first(), Stream::new(&context).unwrap());
    let products = Products::of(&device, &stream);
    let (m, n, k) = (16, 17, 4000);
    let on = |len, seed| Memory::of(&context, &numbers(len, seed, |it| it as f32));
    let (a, b, c) = (on(m * k, 1), on(k * n, 2), on(m * n, 3));
    // B is in columns, C in rows.
    let of_a = matrix(TESSERA_F32, &a, m, k, [k as isize, 1]);
    let of_b = matrix(TESSERA_F32, &b, k, n, [1, k as isize]);
    let of_c = matrix(TESSERA_F32, &c, m, n, [n as isize, 1]);
    let run = |beta| products.gemm(2.0, beta, [&of_a, &of_b, &of_c]);
    check(run(0.0));
    let before = cuda_emulated::calls();
    check(run(0.0));
    if emulated() {
        for (call, times) in cuda_emulated::calls() {
            let is_launch =
                matches!(call, "cuCtxPushCurrent" | "cuCtxPopCurrent" | "cuLaunchKernel")
                    || matches!(call, "cuMemsetD8Async" | "cuStreamIsCapturing");
            assert!(is_launch || before.get(call) == Some(&times), "{call}");
        }
    }
    check(run(1.0));
    stream.synchronize().unwrap();
    let element = |at: usize| -> i32 {
        (0..k).map(|p| value(at / n * k + p, 1) * value(at % n * k + p, 2)).sum()
    };
    let right: Vec<f32> = (0..m * n).map(|at| (4 * element(at)) as f32).collect();
    assert_eq!(c.read::<f32>(m * n), right);
    // A graph would use the workspace whenever it is launched.
    let mut status = TESSERA_SUCCESS;
    // SAFETY: a stream of the context; nothing is launched.
    let captured = unsafe {
        Graph::capture::<DriverError>(&context, stream.as_raw(), CaptureMode::Global, || {
            status = run(0.0);
            Ok(())
        })
    };
    drop(captured);
    if emulated() {
        // The kernel splits the sum.
        refused(status, TESSERA_UNSUPPORTED, "a stream that is being captured does not lend");
    }

    // Enough of it from the start.
    let reserved = Products::of(&device, &stream);
    // SAFETY: a stream of the library.
    check(unsafe { tessera_stream_reserve(reserved.0, 1 << 20) });
    let before = cuda_emulated::count("cuMemAlloc");
    check(reserved.gemm(1.0, 0.0, [&of_a, &of_b, &of_c]));
    assert_eq!(cuda_emulated::count("cuMemAlloc"), before);
    stream.synchronize().unwrap();

    // What cannot be multiplied in place is refused.
    let every_other = matrix(TESSERA_F32, &a, m, k / 2, [k as isize, 2]);
    let found = products.gemm(1.0, 0.0, [&every_other, &of_b, &of_c]);
    refused(found, TESSERA_INVALID_SIZE, "A is 16 x 2000 and B is 4000 x 17");
    let half = matrix(TESSERA_F32, &b, k / 2, n, [1, k as isize]);
    let found = products.gemm(1.0, 0.0, [&every_other, &half, &of_c]);
    refused(found, TESSERA_UNSUPPORTED, "A has strides by which neither its rows nor its columns");
    let null = tessera_matrix { data: null_mut(), ..of_a };
    refused(
        products.gemm(1.0, 0.0, [&null, &of_b, &of_c]),
        TESSERA_INVALID_ARGUMENT,
        ": A is null",
    );
    let odd = tessera_matrix { data: a.at().wrapping_byte_add(2), ..of_a };
    let found = products.gemm(1.0, 0.0, [&odd, &of_b, &of_c]);
    refused(found, TESSERA_INVALID_ARGUMENT, "no multiple of 4");
    assert_eq!(cuda_emulated::faults(), Vec::<String>::new());
}

/// A batch by options, whose A is one for all.
#[test]
fn options_give_a_batch_and_refuse_what_a_device_has_not() {
    let _alone = alone();
    let context = program();
    let (device, stream) = (Device::first(), Stream::new(&context).unwrap());
    let products = Products::of(&device, &stream);
    let (n, count) = (8, 3);
    let a = Memory::of(&context, &vec![1f64; n * n]);
    let b = Memory::of(&context, &numbers(count * n * n, 2, f64::from));
    let c = Memory::of(&context, &vec![f64::NAN; count * n * n]);
    let of = |memory| matrix(TESSERA_F64, memory, n, n, [n as isize, 1]);
    let (a, b, of_c) = (of(&a), of(&b), of(&c));
    let run = |a_stride, alpha_imaginary| {
        let batch = tessera_batch {
            size: size_of::<tessera_batch>(),
            count,
            a_stride,
            b_stride: (n * n) as isize,
            c_stride: (n * n) as isize,
        };
        let options = tessera_gemm_options {
            size: size_of::<tessera_gemm_options>(),
            alpha: -1.0,
            alpha_imaginary,
            beta: 0.0,
            beta_imaginary: 0.0,
            threads: 1,
            batch: &raw const batch,
            epilogue: null(),
            numbers: null(),
        };
        // SAFETY: memory of the matrices, and structs; or what is refused.
        unsafe { tessera_device_gemm_with(products.0, &raw const options, &a, &b, &of_c) }
    };
    refused(run(-1, 0.0), TESSERA_INVALID_ARGUMENT, "a stride of the batch is -1");
    refused(run(0, 1.0), TESSERA_INVALID_ARGUMENT, "on a device are real");
    check(run(0, 0.0));
    stream.synchronize().unwrap();
    let element = |at: usize| -> i32 {
        let (product, col) = (at / (n * n), at % n);
        -(0..n).map(|p| value(product * n * n + p * n + col, 2)).sum::<i32>()
    };
    let right: Vec<f64> = (0..count * n * n).map(|at| f64::from(element(at))).collect();
    assert_eq!(c.read::<f64>(count * n * n), right);
    // Without options: one product.
    // SAFETY: memory of the matrices.
    check(unsafe { tessera_device_gemm_with(products.0, null(), &a, &b, &of_c) });
    stream.synchronize().unwrap();
    assert_eq!(c.read::<f64>(1), [-right[0]]);
    assert_eq!(c.read::<f64>(count * n * n)[n * n..], right[n * n..]);
}

/// A context of the program's own, taken up as the current one and by its handle; what is current stays so.
#[test]
fn contexts_of_the_program_are_taken_up_and_left_as_they_were() {
    let _alone = alone();
    let primary = program();
    let driver = primary.driver();
    let current = || driver.current_context().unwrap();
    // SAFETY: there is room for an address.
    let none = unsafe { tessera_device_create_current(&mut null_mut()) };
    refused(none, TESSERA_NO_DEVICE, "the calling thread has no context current");
    let own = Context::create(driver, primary.device()).unwrap();
    let by_current = {
        let _entered = own.enter().unwrap();
        // SAFETY: there is room for an address; `own` outlives the device.
        let device = Device(made(|to| unsafe { tessera_device_create_current(to) }));
        assert_eq!(current(), own.as_raw());
        device
    };
    // SAFETY: as above.
    let by_handle =
        Device(made(|to| unsafe { tessera_device_create_from_context(own.as_raw(), to) }));
    // SAFETY: null is no context.
    let found = unsafe { tessera_device_create_from_context(null_mut(), &mut null_mut()) };
    refused(found, TESSERA_INVALID_ARGUMENT, "context is null");
    let stream = Stream::new(&own).unwrap();
    for device in [&by_current, &by_handle] {
        let plan = Plan::new(device, &described(TESSERA_F32, 5, 5, 5));
        let (ones, d) = (Memory::of(&own, &[1f32; 25]), Memory::of(&own, &[0f32; 25]));
        let room = Memory::room(&own, plan.bytes());
        // With the primary context current, and with none.
        for entered in [true, false] {
            let _entered = entered.then(|| primary.enter().unwrap());
            let before = current();
            check(plan.run([ones.at(), ones.at(), null_mut(), d.at()], &room, stream.as_raw()));
            assert_eq!(current(), before);
        }
        stream.synchronize().unwrap();
        assert_eq!(d.read::<f32>(25), [5.0; 25]);
    }
    drop((by_current, by_handle, stream));
    assert!(current().is_null());
    assert_eq!(cuda_emulated::faults(), Vec::<String>::new());
}

/// One plan, many threads, a stream and a workspace each.
#[test]
fn many_threads_run_one_plan() {
    let _alone = alone();
    let context = program();
    let device = Device::first();
    let plan = Plan::new(&device, &described(TESSERA_F32, 16, 16, 3000));
    let (plan, context) = (&plan, &context);
    std::thread::scope(|scope| {
        for thread in 0..8u8 {
            scope.spawn(move || {
                let stream = Stream::new(context).unwrap();
                let a = Memory::of(context, &vec![f32::from(thread); 16 * 3000]);
                let d = Memory::of(context, &[f32::NAN; 256]);
                let room = Memory::room(context, plan.bytes());
                for _ in 0..3 {
                    check(plan.run([a.at(), a.at(), null_mut(), d.at()], &room, stream.as_raw()));
                }
                stream.synchronize().unwrap();
                assert_eq!(
                    d.read::<f32>(256),
                    [3000.0 * f32::from(thread) * f32::from(thread); 256]
                );
            });
        }
    });
    assert_eq!(cuda_emulated::faults(), Vec::<String>::new());
}

/// Null where something is needed is a status; where something is let go of it is nothing.
#[test]
fn null_is_a_status_everywhere() {
    let _alone = alone();
    let device = Device::first();
    let desc = described(TESSERA_F32, 1, 1, 1);
    let argument = |found| refused(found, TESSERA_INVALID_ARGUMENT, " is null");
    let no_stream = null_mut();
    // SAFETY: null is looked at before anything else is; so in each call below.
    argument(unsafe { tessera_device_create(0, null_mut()) });
    // SAFETY: as above.
    argument(unsafe { tessera_device_create_current(null_mut()) });
    // SAFETY: as above.
    argument(unsafe { tessera_plan_create(null(), &raw const desc, &mut null_mut()) });
    // SAFETY: as above.
    argument(unsafe { tessera_plan_create(device.0, null(), &mut null_mut()) });
    // SAFETY: as above.
    argument(unsafe { tessera_plan_create(device.0, &raw const desc, null_mut()) });
    // SAFETY: as above.
    argument(unsafe { tessera_group_create(device.0, null(), 1, &mut null_mut()) });
    // SAFETY: as above.
    argument(unsafe { tessera_stream_create(null(), no_stream, null(), &mut null_mut()) });
    // SAFETY: as above.
    argument(unsafe { tessera_stream_create(device.0, no_stream, null(), null_mut()) });
    // SAFETY: as above.
    argument(unsafe { tessera_stream_reserve(null(), 1) });
    // SAFETY: as above.
    argument(unsafe { tessera_device_gemm(null(), 1.0, null(), null(), 0.0, null()) });
    // SAFETY: as above.
    argument(unsafe { tessera_device_gemm_with(null(), null(), null(), null(), null()) });
    // SAFETY: as above.
    argument(unsafe { tessera_plan_check(null(), null(), null(), null(), null(), null(), 0) });
    // SAFETY: as above.
    argument(unsafe {
        tessera_plan_run_array(null(), 0, null(), null(), null(), null(), null_mut(), 0, no_stream)
    });
    // SAFETY: as above.
    argument(unsafe {
        let (run, at) = (tessera_plan_run_with, null());
        run(null(), null(), at, at, at, null_mut(), null_mut(), 0, no_stream)
    });
    // SAFETY: as above.
    argument(unsafe {
        let (run, at) = (tessera_plan_run_array_with, null());
        run(null(), null(), 0, at, at, at, null(), null_mut(), 0, no_stream)
    });
    // SAFETY: as above.
    argument(unsafe {
        let (run, at) = (tessera_plan_run_groups, null());
        run(null(), null(), null(), at, at, at, null_mut(), null_mut(), 0, no_stream)
    });
    // SAFETY: as above.
    argument(unsafe {
        let (run, at) = (tessera_plan_run_prepared, null());
        run(null(), null(), null(), 0, at, at, at, null_mut(), null_mut(), 0, no_stream)
    });
    // SAFETY: as above.
    argument(unsafe { tessera_plan_prepare(null(), null(), null_mut(), 0, no_stream) });
    // SAFETY: as above.
    assert_eq!(unsafe { tessera_plan_prepared_bytes(null()) }, 0);
    // SAFETY: as above.
    argument(unsafe {
        let (run, at) = (tessera_group_run_with, null());
        run(null(), null(), 0, at, at, at, null(), null_mut(), 0, no_stream)
    });
    // SAFETY: as above.
    argument(unsafe {
        tessera_group_run(null(), 0, null(), null(), null(), null(), null_mut(), 0, no_stream)
    });
    // SAFETY: as above.
    assert_eq!(unsafe { tessera_plan_workspace_bytes(null()) }, 0);
    // SAFETY: as above.
    assert_eq!(unsafe { tessera_group_workspace_bytes(null()) }, 0);
    // SAFETY: as above.
    assert_eq!(text(unsafe { tessera_plan_kernel(null()) }), "");
    // SAFETY: as above.
    assert_eq!(text(unsafe { tessera_plan_explain(null()) }), "");
    // SAFETY: as above.
    assert_eq!(text(unsafe { tessera_device_name(null()) }), "");
    // SAFETY: as above.
    unsafe { tessera_device_destroy(null_mut()) };
    // SAFETY: as above.
    unsafe { tessera_plan_destroy(null_mut()) };
    // SAFETY: as above.
    unsafe { tessera_group_destroy(null_mut()) };
    // SAFETY: as above.
    unsafe { tessera_stream_destroy(null_mut()) };
    // An address that is none of such a struct.
    let odd = (&raw const desc).wrapping_byte_add(1);
    // SAFETY: as above.
    let found = unsafe { tessera_plan_create(device.0, odd, &mut null_mut()) };
    refused(found, TESSERA_INVALID_ARGUMENT, "no multiple of 8");
}
