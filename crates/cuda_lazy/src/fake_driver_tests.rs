//! A driver made of Rust functions: what goes in at the symbols comes out of the table untouched.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::{self, NonNull};
use std::sync::Mutex;

use crate::abi::RawLaunchConfig;
use crate::error::{INVALID_VALUE, NOT_FOUND, NOT_INITIALIZED};
use crate::symbols::Symbol;
use crate::table::{TABLE, Table};
use crate::{Driver, DriverError, LaunchConfig, TensorMap, TensorMapDesc};

// The linkable symbols, declared as a program that links them would.
unsafe extern "C" {
    fn cuLaunchKernel(
        function: *mut c_void,
        grid_x: c_uint,
        grid_y: c_uint,
        grid_z: c_uint,
        block_x: c_uint,
        block_y: c_uint,
        block_z: c_uint,
        shared_bytes: c_uint,
        stream: *mut c_void,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> c_int;
    // Its true signature is another one. The trampolines know none, so any serves to try them.
    fn cuTexObjectGetResourceViewDesc(
        a: f32,
        b: f64,
        c: i64,
        d: f64,
        e: f64,
        f: f64,
        g: f64,
        h: f64,
        i: f64,
        j: f64,
        k: i8,
    ) -> f64;
    fn cuCtxSynchronize() -> c_int;
    fn cuGetErrorString(code: c_int, text: *mut *const c_char) -> c_int;
}

/// What the fake driver last saw of a launch.
static LAUNCH: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Keeps what a launch brought.
fn record(words: impl IntoIterator<Item = usize>) {
    *LAUNCH.lock().expect("no test panics while it holds the lock") = words.into_iter().collect();
}

extern "C" fn fake_launch(
    function: *mut c_void,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: *mut c_void,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> c_int {
    record([
        function.addr(),
        grid_x as usize,
        grid_y as usize,
        grid_z as usize,
        block_x as usize,
        block_y as usize,
        block_z as usize,
        shared_bytes as usize,
        stream.addr(),
        arguments.addr(),
        extra.addr(),
    ]);
    719
}

extern "C" fn fake_mixture(
    a: f32,
    b: f64,
    c: i64,
    d: f64,
    e: f64,
    f: f64,
    g: f64,
    h: f64,
    i: f64,
    j: f64,
    k: i8,
) -> f64 {
    let weighed = [f64::from(a), b, c as f64, d, e, f, g, h, i, j, f64::from(k)];
    weighed.iter().rev().fold(0.0, |sum, value| sum * 10.0 + value)
}

extern "C" fn fake_tensor_map(
    map: *mut TensorMap,
    _data_type: c_int,
    rank: c_uint,
    _address: u64,
    _dims: *const u64,
    _strides: *const u64,
    _box_dims: *const c_uint,
    _element_strides: *const c_uint,
    interleave: c_int,
    swizzle: c_int,
    l2_promotion: c_int,
    oob_fill: c_int,
) -> c_int {
    assert!(map.is_aligned() && !map.is_null());
    rank.cast_signed() * 10_000 + interleave * 1000 + swizzle * 100 + l2_promotion * 10 + oob_fill
}

extern "C" fn fake_launch_ex(
    config: *const RawLaunchConfig,
    _function: *mut c_void,
    _arguments: *mut *mut c_void,
    _extra: *mut *mut c_void,
) -> c_int {
    let bytes = config.cast::<u8>();
    // The words are as the header lays them out: seven words, a hole, two pointers, a count.
    //
    // SAFETY: the crate passes a configuration of 56 bytes, of which these are the first.
    let grid_x = unsafe { bytes.cast::<u32>().read() };
    // SAFETY: bytes 40 to 47 of the configuration are the second pointer, at a multiple of 8.
    let attributes = unsafe { bytes.wrapping_add(40).cast::<*const u32>().read() };
    // SAFETY: bytes 48 to 51 are the count.
    let count = unsafe { bytes.wrapping_add(48).cast::<u32>().read() };
    // SAFETY: each attribute is 18 words long and `count` of them follow each other.
    let words = unsafe { std::slice::from_raw_parts(attributes, 18 * count as usize) };
    let attributes = words.chunks(18).flat_map(|one| [one[0], one[2], one[3], one[4]]);
    record(std::iter::once(grid_x).chain(attributes).map(|word| word as usize));
    0
}

unsafe extern "C" fn fake_error_name(code: c_int, name: *mut *const c_char) -> c_int {
    let text = match code {
        2 => c"CUDA_ERROR_OUT_OF_MEMORY",
        719 => c"CUDA_ERROR_LAUNCH_FAILED",
        _ => return INVALID_VALUE,
    };
    // SAFETY: the crate passes a pointer to a local.
    unsafe { name.write(text.as_ptr()) };
    0
}

extern "C" fn fake_mem_get_info(_free: *mut usize, _total: *mut usize) -> c_int {
    2
}

fn resolve(name: &CStr) -> Option<NonNull<c_void>> {
    let address = match name.to_bytes() {
        b"cuLaunchKernel" => fake_launch as *mut c_void,
        b"cuLaunchKernelEx" => fake_launch_ex as *mut c_void,
        b"cuTexObjectGetResourceViewDesc" => fake_mixture as *mut c_void,
        b"cuTensorMapEncodeTiled" => fake_tensor_map as *mut c_void,
        b"cuGetErrorName" => fake_error_name as *mut c_void,
        b"cuMemGetInfo_v2" => fake_mem_get_info as *mut c_void,
        _ => return None,
    };
    NonNull::new(address)
}

/// A driver over a table of its own, which leaves the process's table alone.
fn fake_driver() -> Driver {
    let table: &'static Table = Box::leak(Box::new(Table::unbound()));
    // SAFETY: the functions above have the signatures under which this file's tests call them.
    unsafe { table.bind(resolve) };
    Driver::over(table)
}

/// The launches write to one place, so their tests run one after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The only test that touches the process's table: before, then after it is bound.
#[test]
fn trampolines_pass_every_argument_and_the_result() {
    let _guard = ONE_AT_A_TIME.lock().unwrap();
    let pointer = |address| ptr::without_provenance_mut::<c_void>(address);
    // SAFETY: the trampoline leads to a placeholder that reads no argument.
    let before = unsafe {
        let none = ptr::null_mut();
        cuLaunchKernel(none, 1, 1, 1, 1, 1, 1, 0, none, ptr::null_mut(), ptr::null_mut())
    };
    assert_eq!(before, NOT_INITIALIZED);

    // SAFETY: each function has the signature under which it is called below.
    unsafe { TABLE.bind(resolve) };

    let (a, z) = (pointer(usize::MAX - 1).cast(), pointer(0x7777_6666_5555_4444).cast());
    // SAFETY: the fake launch takes these arguments and follows no pointer.
    let code = unsafe {
        cuLaunchKernel(pointer(0x1111), 2, 3, 4, 5, 6, u32::MAX, 8, pointer(0x9999), a, z)
    };
    assert_eq!(code, 719);
    assert_eq!(
        *LAUNCH.lock().unwrap(),
        [0x1111, 2, 3, 4, 5, 6, 0xffff_ffff, 8, 0x9999, usize::MAX - 1, 0x7777_6666_5555_4444]
    );

    // SAFETY: the fake takes exactly these types. Ten floats leave the registers for the stack.
    let mixture = unsafe {
        cuTexObjectGetResourceViewDesc(1.0, 2.0, 3, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1.0, 2)
    };
    assert_eq!(mixture, 21_987_654_321.0);

    // SAFETY: it takes no argument, and leads to the answer for a function that the driver lacks.
    assert_eq!(unsafe { cuCtxSynchronize() }, NOT_FOUND);

    let mut text = ptr::null();
    // SAFETY: `text` is a local; the fake driver lacks this function, so the crate's own answers.
    assert_eq!(unsafe { cuGetErrorString(999, &mut text) }, 0);
    assert!(!text.is_null());
}

#[test]
fn an_unbound_table_answers_and_describes() {
    let table = Table::unbound();
    for &symbol in Symbol::ALL {
        assert!(!table.address(symbol).is_null(), "{symbol:?}");
    }
    let driver = Driver::over(Box::leak(Box::new(table)));
    let Err(error) = driver.mem_get_info() else { panic!("there is no driver") };
    assert_eq!(
        error.to_string(),
        "cuMemGetInfo: CUDA_ERROR_NOT_INITIALIZED (3): the CUDA driver is not loaded"
    );
}

#[test]
fn errors_carry_the_drivers_code_name_and_kind() {
    let driver = fake_driver();
    let Err(memory) = driver.mem_get_info() else { panic!("the fake driver refuses") };
    assert_eq!((memory.code, memory.name.as_str()), (2, "CUDA_ERROR_OUT_OF_MEMORY"));
    assert!(memory.is_out_of_memory() && !memory.is_not_found());

    let Err(absent) = driver.device_uuid(0) else { panic!("the fake driver has no such call") };
    assert!(absent.is_not_found() && !absent.is_out_of_memory());

    let newer = driver.check("cuCall", 12345);
    assert!(matches!(&newer, Err(DriverError { code: 12345, .. })), "{newer:?}");
}

#[test]
fn a_plain_launch_needs_no_new_driver_and_attributes_are_laid_out_as_in_the_header() {
    let _guard = ONE_AT_A_TIME.lock().unwrap();
    let driver = fake_driver();
    let plain = LaunchConfig { shared_bytes: 7, ..LaunchConfig::new([1, 2, 3], [4, 5, 6]) };
    // SAFETY: the fake launch follows no pointer.
    let refused = unsafe { driver.launch_kernel_ex(ptr::null_mut(), &plain, &mut []) };
    assert!(matches!(&refused, Err(error) if error.code == 719 && error.call == "cuLaunchKernel"));
    assert_eq!(LAUNCH.lock().unwrap()[..9], [0, 1, 2, 3, 4, 5, 6, 7, 0]);

    let clusters =
        LaunchConfig { cluster: Some([2, 1, 1]), programmatic_stream_serialization: true, ..plain };
    // SAFETY: the fake launch reads the configuration that the crate lays out, and no argument.
    let launched = unsafe { driver.launch_kernel_ex(ptr::null_mut(), &clusters, &mut []) };
    assert_eq!(launched, Ok(()));
    assert_eq!(*LAUNCH.lock().unwrap(), [1, 4, 2, 1, 1, 6, 1, 0, 0]);
}

#[test]
fn a_tensor_map_reaches_the_driver_with_its_options() {
    use crate::{DataType, L2Promotion, OobFill, Swizzle, TensorMapError};

    let desc = TensorMapDesc {
        swizzle: Swizzle::B128,
        l2_promotion: L2Promotion::B256,
        oob_fill: OobFill::NanRequestZeroFma,
        ..TensorMapDesc::new(DataType::Bf16, 0x1000, &[64, 64], &[128], &[64, 8])
    };
    // The fake answers with a code that is made of what it was given.
    match fake_driver().encode_tiled(&desc) {
        Err(TensorMapError::Driver(error)) => assert_eq!(error.code, 20_331),
        other => panic!("{other:?}"),
    }
}
