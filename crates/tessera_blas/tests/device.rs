//! Level 3 with a device forced for all sizes, on an emulated driver whose streams run as late as they may, or with
//! `GEMM_REQUIRE_GPU=1` on the first GPU: against the same routines on the CPU, with operands in host memory, on the
//! device and in memory of both.

#![cfg(target_os = "linux")]

use std::ffi::{c_int, c_uint};
use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use cblas_sys::*;
use cuda_lazy::{Context, DeviceMemory};
use tessera::blas3::{self, Diag, Op, Side, Uplo, View, ViewMut};
use tessera::{CpuContext, Layout};
use tessera_blas as _;

/// Where the library's lines go.
fn log() -> &'static PathBuf {
    static FOLDER: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    &FOLDER
        .get_or_init(|| {
            let folder = tempfile::tempdir().expect("a folder");
            let log = folder.path().join("log");
            (folder, log)
        })
        .1
}

/// The lines that calls of this process have left.
fn lines() -> Vec<String> {
    let text = fs::read_to_string(log()).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Whether the tests are of the emulated driver.
fn emulated() -> bool {
    std::env::var_os("GEMM_REQUIRE_GPU").is_none_or(|value| value != "1")
}

/// Has the library use the first device. The log and the driver's counters are those of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    static SETTINGS: Once = Once::new();
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    SETTINGS.call_once(|| {
        for (name, value) in [
            ("TESSERA_BLAS_DEVICE", "cuda:0"),
            ("TESSERA_BLAS_LOG", log().to_str().expect("a text")),
            ("TESSERA_NUM_THREADS", "2"),
        ] {
            // SAFETY: no other thread of this program reads the environment but through Rust's library: tests wait for
            // each other, and the library under test has not begun.
            unsafe { std::env::set_var(name, value) };
        }
        if emulated() {
            cuda_emulated::install();
        }
    });
    guard
}

/// Whole numbers, so that products are exact in any order.
fn values<T: Real>(len: usize, seed: usize) -> Vec<T> {
    let of = |at: usize| (at * 7 + seed * 3 + at / 11) % 13;
    (0..len).map(|at| T::of(of(at) as f64 - 6.0)).collect()
}

/// A column-major matrix with three elements of padding behind each column, which are NaN.
#[derive(Clone)]
struct Padded<T> {
    data: Vec<T>,
    rows: usize,
    cols: usize,
}

impl<T: Real> Padded<T> {
    fn new(rows: usize, cols: usize, seed: usize) -> Self {
        let mut data = values(cols * (rows + 3), seed);
        for column in data.chunks_exact_mut(rows + 3) {
            column[rows..].fill(T::of(f64::NAN));
        }
        Self { data, rows, cols }
    }

    /// The same with NaN in the triangle that is not named.
    fn triangle(order: usize, uplo: Uplo, seed: usize) -> Self {
        let mut own = Self::new(order, order, seed);
        for col in 0..order {
            for row in 0..order {
                if (row < col) != (uplo == Uplo::Upper) && row != col {
                    own.data[row + col * (order + 3)] = T::of(f64::NAN);
                }
            }
        }
        own
    }

    fn ld(&self) -> c_int {
        c_int::try_from(self.rows + 3).expect("it is small")
    }

    fn layout(&self) -> Layout {
        Layout::col_major(self.rows + 3)
    }

    fn view(&self) -> View<'_, T> {
        View::new(&self.data, self.rows, self.cols, self.layout()).expect("it is all there")
    }

    fn view_mut(&mut self) -> ViewMut<'_, T> {
        let layout = self.layout();
        ViewMut::new(&mut self.data, self.rows, self.cols, layout).expect("it is all there")
    }

    /// Fails unless all elements, and what is between columns, are as expected.
    fn check(&self, expected: &Self, tolerance: f64, what: &str) {
        for (at, (found, wanted)) in self.data.iter().zip(&expected.data).enumerate() {
            let (found, wanted) = (found.value(), wanted.value());
            let near = (found - wanted).abs() <= tolerance * wanted.abs().max(1.0);
            assert!(near || found.is_nan() && wanted.is_nan(), "{what} at {at}: {found}, {wanted}");
        }
    }
}

/// The routines of one type of numbers, as C calls them.
trait Real: blas3::Field<Real = Self> {
    const LETTER: char;
    /// More than the rounding of a solve.
    const TOLERANCE: f64;

    fn of(value: f64) -> Self;
    fn value(self) -> f64;

    /// # Safety
    /// Those of BLAS.
    unsafe fn gemm(
        ops: (Op, Op),
        sizes: (usize, usize, usize),
        alpha: Self,
        a: (*const Self, c_int),
        b: (*const Self, c_int),
        beta: Self,
        c: (*mut Self, c_int),
    );
    /// # Safety
    /// Those of BLAS.
    unsafe fn symm(
        side: Side,
        uplo: Uplo,
        a: &Padded<Self>,
        b: &Padded<Self>,
        c: &mut Padded<Self>,
    );
    /// # Safety
    /// Those of BLAS.
    unsafe fn syrk(uplo: Uplo, op: Op, k: usize, a: &Padded<Self>, c: &mut Padded<Self>);
    /// # Safety
    /// Those of BLAS.
    unsafe fn syr2k(
        uplo: Uplo,
        op: Op,
        k: usize,
        a: &Padded<Self>,
        b: &Padded<Self>,
        c: &mut Padded<Self>,
    );
    /// # Safety
    /// Those of BLAS.
    #[expect(clippy::too_many_arguments, reason = "those of BLAS")]
    unsafe fn triangular(
        solve: bool,
        side: Side,
        uplo: Uplo,
        op: Op,
        diag: Diag,
        a: (*const Self, c_int),
        b: (*mut Self, c_int),
        sizes: (usize, usize),
    );
}

fn int(size: usize) -> c_int {
    c_int::try_from(size).expect("it is small")
}

fn of_op(op: Op) -> CBLAS_TRANSPOSE {
    match op {
        Op::NoTrans => CblasNoTrans,
        Op::Trans => CblasTrans,
        Op::ConjTrans => CblasConjTrans,
    }
}

fn of_side(side: Side) -> CBLAS_SIDE {
    if side == Side::Left { CblasLeft } else { CblasRight }
}

fn of_uplo(uplo: Uplo) -> CBLAS_UPLO {
    if uplo == Uplo::Upper { CblasUpper } else { CblasLower }
}

fn of_diag(diag: Diag) -> CBLAS_DIAG {
    if diag == Diag::Unit { CblasUnit } else { CblasNonUnit }
}

/// Factors that are neither zero nor one.
const ALPHA: f64 = 2.0;
const BETA: f64 = -1.0;

macro_rules! real {
    ($real:ty, $letter:literal, $tolerance:literal, $convert:expr,
        $gemm:ident $symm:ident $syrk:ident $syr2k:ident $trmm:ident $trsm:ident) => {
        impl Real for $real {
            const LETTER: char = $letter;
            const TOLERANCE: f64 = $tolerance;

            fn of(value: f64) -> Self {
                $convert(value)
            }

            fn value(self) -> f64 {
                f64::from(self)
            }

            unsafe fn gemm(
                (op_a, op_b): (Op, Op),
                (m, n, k): (usize, usize, usize),
                alpha: Self,
                (a, lda): (*const Self, c_int),
                (b, ldb): (*const Self, c_int),
                beta: Self,
                (c, ldc): (*mut Self, c_int),
            ) {
                let (m, n, k) = (int(m), int(n), int(k));
                let (op_a, op_b) = (of_op(op_a), of_op(op_b));
                // SAFETY: the caller's promise.
                unsafe {
                    $gemm(CblasColMajor, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
                }
            }

            unsafe fn symm(
                side: Side,
                uplo: Uplo,
                a: &Padded<Self>,
                b: &Padded<Self>,
                c: &mut Padded<Self>,
            ) {
                let (m, n, ldc) = (int(c.rows), int(c.cols), c.ld());
                let (side, uplo) = (of_side(side), of_uplo(uplo));
                let (alpha, beta) = (Self::of(ALPHA), Self::of(BETA));
                let (pa, pb, pc) = (a.data.as_ptr(), b.data.as_ptr(), c.data.as_mut_ptr());
                let (lda, ldb) = (a.ld(), b.ld());
                // SAFETY: matrices of these sizes.
                unsafe {
                    $symm(CblasColMajor, side, uplo, m, n, alpha, pa, lda, pb, ldb, beta, pc, ldc);
                }
            }

            unsafe fn syrk(uplo: Uplo, op: Op, k: usize, a: &Padded<Self>, c: &mut Padded<Self>) {
                let (n, k, lda, ldc) = (int(c.rows), int(k), a.ld(), c.ld());
                let (uplo, op, alpha, beta) =
                    (of_uplo(uplo), of_op(op), Self::of(ALPHA), Self::of(BETA));
                let (pa, pc) = (a.data.as_ptr(), c.data.as_mut_ptr());
                // SAFETY: matrices of these sizes.
                unsafe { $syrk(CblasColMajor, uplo, op, n, k, alpha, pa, lda, beta, pc, ldc) };
            }

            unsafe fn syr2k(
                uplo: Uplo,
                op: Op,
                k: usize,
                a: &Padded<Self>,
                b: &Padded<Self>,
                c: &mut Padded<Self>,
            ) {
                let (n, k, lda, ldb, ldc) = (int(c.rows), int(k), a.ld(), b.ld(), c.ld());
                let (uplo, op, alpha, beta) =
                    (of_uplo(uplo), of_op(op), Self::of(ALPHA), Self::of(BETA));
                let (pa, pb, pc) = (a.data.as_ptr(), b.data.as_ptr(), c.data.as_mut_ptr());
                // SAFETY: matrices of these sizes.
                unsafe {
                    $syr2k(CblasColMajor, uplo, op, n, k, alpha, pa, lda, pb, ldb, beta, pc, ldc);
                }
            }

            unsafe fn triangular(
                solve: bool,
                side: Side,
                uplo: Uplo,
                op: Op,
                diag: Diag,
                (a, lda): (*const Self, c_int),
                (b, ldb): (*mut Self, c_int),
                (m, n): (usize, usize),
            ) {
                let routine = if solve { $trsm } else { $trmm };
                let (m, n, alpha) = (int(m), int(n), Self::of(ALPHA));
                let (side, uplo, op, diag) =
                    (of_side(side), of_uplo(uplo), of_op(op), of_diag(diag));
                // SAFETY: the caller's promise.
                unsafe {
                    routine(CblasColMajor, side, uplo, op, diag, m, n, alpha, a, lda, b, ldb)
                };
            }
        }
    };
}

#[expect(clippy::cast_possible_truncation, reason = "small whole numbers")]
const fn single(value: f64) -> f32 {
    value as f32
}

real!(f32, 's', 1e-4, single, cblas_sgemm cblas_ssymm cblas_ssyrk cblas_ssyr2k cblas_strmm cblas_strsm);
real!(f64, 'd', 1e-12, f64::from, cblas_dgemm cblas_dsymm cblas_dsyrk cblas_dsyr2k cblas_dtrmm cblas_dtrsm);

fn cpu() -> CpuContext {
    CpuContext::alone()
}

/// Calls, and fails unless the one line that it leaves says that a kernel of the first device computed it.
fn goes<T: Real>(routine: &str, call: impl FnOnce()) {
    let before = lines().len();
    call();
    let new = lines().split_off(before);
    let named = format!("cblas_{}{routine} ", T::LETTER);
    let [line] = &new[..] else { panic!("{routine}: {new:?}") };
    assert!(line.contains(&named) && line.contains(": cuda:0 by "), "{routine}: {line}");
    assert!(!line.contains("products"), "{routine}: not all of it went: {line}");
}

/// A stored matrix of which `op` has these rows and columns.
fn stored<T: Real>(op: Op, rows: usize, cols: usize, seed: usize) -> Padded<T> {
    if op == Op::NoTrans { Padded::new(rows, cols, seed) } else { Padded::new(cols, rows, seed) }
}

const UPLOS: [Uplo; 2] = [Uplo::Upper, Uplo::Lower];
const OPS: [Op; 2] = [Op::NoTrans, Op::Trans];
const SIDES: [Side; 2] = [Side::Left, Side::Right];

fn products<T: Real>() {
    for (m, n, k) in [(1, 1, 1), (5, 3, 0), (33, 20, 17), (70, 65, 129)] {
        for (op_a, op_b) in OPS.into_iter().flat_map(|op| OPS.map(|other| (op, other))) {
            for (alpha, beta) in
                [(ALPHA, BETA), (1.0, 0.0), (0.0, 2.0)].map(|(x, y)| (T::of(x), T::of(y)))
            {
                let (mut a, b) = (stored::<T>(op_a, m, k, 1), stored::<T>(op_b, k, n, 2));
                let mut c = Padded::new(m, n, 3);
                // What a factor of zero hides is not read.
                if alpha == T::ZERO {
                    a.data.fill(T::of(f64::NAN));
                }
                if beta == T::ZERO {
                    c.data.fill(T::of(f64::NAN));
                }
                let mut expected = c.clone();
                let cpu = cpu();
                blas3::gemm(op_a, op_b, alpha, a.view(), b.view(), beta, expected.view_mut(), &cpu)
                    .expect("the sizes fit");
                let mut call = || {
                    let (a, b) = ((a.data.as_ptr(), a.ld()), (b.data.as_ptr(), b.ld()));
                    let c = (c.data.as_mut_ptr(), c.ld());
                    // SAFETY: matrices of these sizes.
                    unsafe { T::gemm((op_a, op_b), (m, n, k), alpha, a, b, beta, c) }
                };
                if k == 0 && beta == T::ONE {
                    call()
                } else {
                    goes::<T>("gemm", call)
                }
                c.check(&expected, 0.0, &format!("gemm {m} {n} {k} {op_a:?} {op_b:?}"));
            }
        }
    }
}

fn routines<T: Real>() {
    let (cpu, alpha, beta) = (cpu(), T::of(ALPHA), T::of(BETA));
    for (m, n) in [(7, 5), (70, 30), (40, 150)] {
        for uplo in UPLOS {
            for side in SIDES {
                let order = if side == Side::Left { m } else { n };
                let (a, b) = (Padded::<T>::triangle(order, uplo, 1), Padded::new(m, n, 2));
                let mut c = Padded::new(m, n, 3);
                let mut expected = c.clone();
                let to = expected.view_mut();
                blas3::symm(side, uplo, alpha, a.view(), b.view(), beta, to, &cpu)
                    .expect("they fit");
                // SAFETY: matrices of these sizes.
                goes::<T>("symm", || unsafe { T::symm(side, uplo, &a, &b, &mut c) });
                c.check(&expected, 0.0, &format!("symm {m} {n} {side:?} {uplo:?}"));
            }
            for op in OPS {
                let (a, b) = (stored::<T>(op, n, m, 1), stored::<T>(op, n, m, 2));
                let mut c = Padded::triangle(n, uplo, 3);
                let mut expected = c.clone();
                let to = expected.view_mut();
                blas3::syrk(uplo, op, alpha, a.view(), beta, to, &cpu).expect("they fit");
                // SAFETY: matrices of these sizes.
                goes::<T>("syrk", || unsafe { T::syrk(uplo, op, m, &a, &mut c) });
                c.check(&expected, 0.0, &format!("syrk {n} {m} {op:?} {uplo:?}"));
                let to = expected.view_mut();
                blas3::syr2k(uplo, op, alpha, a.view(), b.view(), beta, to, &cpu)
                    .expect("they fit");
                // SAFETY: matrices of these sizes.
                goes::<T>("syr2k", || unsafe { T::syr2k(uplo, op, m, &a, &b, &mut c) });
                c.check(&expected, 0.0, &format!("syr2k {n} {m} {op:?} {uplo:?}"));
            }
        }
    }
}

/// A triangle with which solves lose few digits.
fn tame<T: Real>(order: usize, uplo: Uplo) -> Padded<T> {
    let mut a = Padded::<T>::triangle(order, uplo, 1);
    for at in 0..order {
        for row in 0..order {
            let element = &mut a.data[row + at * (order + 3)];
            *element = T::of(if row == at { 2.0 } else { element.value() / 256.0 });
        }
    }
    a
}

fn triangles<T: Real>() {
    let (cpu, alpha) = (cpu(), T::of(ALPHA));
    for (m, n) in [(70, 50), (40, 100)] {
        for (side, uplo) in SIDES.into_iter().flat_map(|side| UPLOS.map(|uplo| (side, uplo))) {
            for (op, diag) in [(Op::NoTrans, Diag::NonUnit), (Op::Trans, Diag::Unit)] {
                let order = if side == Side::Left { m } else { n };
                let a = tame::<T>(order, uplo);
                for solve in [false, true] {
                    let mut b = Padded::<T>::new(m, n, 2);
                    let mut expected = b.clone();
                    let (to, by) = (expected.view_mut(), a.view());
                    match solve {
                        true => blas3::trsm(side, uplo, op, diag, alpha, by, to, &cpu),
                        false => blas3::trmm(side, uplo, op, diag, alpha, by, to, &cpu),
                    }
                    .expect("they fit");
                    let call = || {
                        let (a, b) = ((a.data.as_ptr(), a.ld()), (b.data.as_mut_ptr(), b.ld()));
                        // SAFETY: matrices of these sizes.
                        unsafe { T::triangular(solve, side, uplo, op, diag, a, b, (m, n)) }
                    };
                    goes::<T>(if solve { "trsm" } else { "trmm" }, call);
                    let what = format!("{solve} {m} {n} {side:?} {uplo:?} {op:?}");
                    b.check(&expected, T::TOLERANCE, &what);
                }
            }
        }
    }
}

#[test]
fn products_are_right_and_go_there() {
    let _alone = alone();
    products::<f32>();
    products::<f64>();
}

#[test]
fn routines_are_right_and_their_products_go_there() {
    let _alone = alone();
    routines::<f32>();
    routines::<f64>();
    triangles::<f32>();
    triangles::<f64>();
}

/// The CPU computes them, and the line says why.
#[test]
fn complex_numbers_stay() {
    let _alone = alone();
    let (a, b, mut c) = ([[1.0, 2.0]], [[3.0, -1.0]], [[f64::NAN; 2]]);
    let (one, zero) = ([1.0, 0.0], [0.0; 2]);
    let before = lines().len();
    // SAFETY: matrices of one element.
    unsafe {
        cblas_zgemm(
            CblasColMajor,
            CblasNoTrans,
            CblasConjTrans,
            1,
            1,
            1,
            &raw const one,
            a.as_ptr(),
            1,
            b.as_ptr(),
            1,
            &raw const zero,
            c.as_mut_ptr(),
            1,
        );
    }
    assert_eq!(c, [[1.0, 7.0]]);
    let line = &lines()[before];
    assert!(line.contains(": cpu, ") && line.contains("no kernel for complex"), "{line}");
}

/// Memory of the first device, as a program has it.
struct OnDevice {
    memory: DeviceMemory,
    like: Padded<f64>,
}

fn program() -> Context {
    let driver = cuda_lazy::load().expect("a driver");
    driver.init().expect("it starts");
    Context::primary(driver, driver.device(0).expect("a device")).expect("a context")
}

fn as_bytes(data: &[f64]) -> &[u8] {
    // SAFETY: plain numbers.
    unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) }
}

impl OnDevice {
    fn of(context: &Context, like: &Padded<f64>) -> Self {
        let mut memory = DeviceMemory::new(context, size_of_val(&like.data[..])).expect("memory");
        memory.write(0, as_bytes(&like.data)).expect("a copy");
        Self { memory, like: like.clone() }
    }

    /// As BLAS takes it.
    fn at(&self) -> *mut f64 {
        let address = usize::try_from(self.memory.address()).expect("an address");
        std::ptr::without_provenance_mut(address)
    }

    fn read(&self) -> Padded<f64> {
        let mut bytes = vec![0; size_of_val(&self.like.data[..])];
        self.memory.read(0, &mut bytes).expect("a copy");
        let numbers = bytes.chunks_exact(8).map(|it| f64::from_ne_bytes(it.try_into().expect("8")));
        Padded { data: numbers.collect(), ..self.like.clone() }
    }
}

/// A product of 20 by 30 with 40 steps, and its result on the CPU.
fn example() -> [Padded<f64>; 4] {
    let (a, b, c) = (Padded::new(20, 40, 1), Padded::new(30, 40, 2), Padded::new(20, 30, 3));
    let mut expected = c.clone();
    let (to, cpu) = (expected.view_mut(), cpu());
    blas3::gemm(Op::NoTrans, Op::Trans, ALPHA, a.view(), b.view(), BETA, to, &cpu)
        .expect("they fit");
    [a, b, c, expected]
}

/// # Safety
/// Operands of the example, wherever they are.
unsafe fn multiply(a: *const f64, b: *const f64, c: *mut f64) {
    // SAFETY: the caller's promise.
    unsafe {
        f64::gemm((Op::NoTrans, Op::Trans), (20, 30, 40), ALPHA, (a, 23), (b, 33), BETA, (c, 23));
    }
}

/// Copies between host and device that the emulated driver was asked for.
fn copies() -> usize {
    let of = |(name, count): (&str, usize)| {
        if name.contains("HtoD") || name.contains("DtoH") || name.contains("2D") {
            count
        } else {
            0
        }
    };
    cuda_emulated::calls().into_iter().map(of).sum()
}

#[test]
fn operands_on_the_device_are_used_in_place() {
    let _alone = alone();
    let context = program();
    let [a, b, c, expected] = example();
    let (a, b, c) =
        (OnDevice::of(&context, &a), OnDevice::of(&context, &b), OnDevice::of(&context, &c));
    let before = (copies(), lines().len());
    // SAFETY: they are on the device.
    unsafe { multiply(a.at(), b.at(), c.at()) };
    assert_eq!(copies(), before.0, "nothing travels");
    let line = &lines()[before.1];
    assert!(line.contains("cblas_dgemm 20 x 30 x 40: cuda:0, "), "{line}");
    assert!(line.contains("the operands are there"), "{line}");
    c.read().check(&expected, 0.0, "in place");
}

#[test]
fn operands_that_are_apart_come_to_the_host() {
    let _alone = alone();
    let context = program();
    let [a, b, c, expected] = example();
    let on_device = OnDevice::of(&context, &a);
    let mut result = c.clone();
    // SAFETY: each is where its address says.
    unsafe { multiply(on_device.at(), b.data.as_ptr(), result.data.as_mut_ptr()) };
    result.check(&expected, 0.0, "A on the device");
    let on_device = OnDevice::of(&context, &c);
    // SAFETY: as above.
    unsafe { multiply(a.data.as_ptr(), b.data.as_ptr(), on_device.at()) };
    on_device.read().check(&expected, 0.0, "C on the device");
}

#[test]
fn other_routines_take_operands_on_the_device_by_copies() {
    let _alone = alone();
    let context = program();
    let (a, b) = (tame::<f64>(50, Uplo::Lower), Padded::<f64>::new(50, 20, 2));
    let mut expected = b.clone();
    let (side, uplo, op, diag) = (Side::Left, Uplo::Lower, Op::NoTrans, Diag::NonUnit);
    let to = expected.view_mut();
    blas3::trsm(side, uplo, op, diag, ALPHA, a.view(), to, &cpu()).expect("they fit");
    let (on_a, on_b) = (OnDevice::of(&context, &a), OnDevice::of(&context, &b));
    // SAFETY: they are on the device.
    unsafe {
        f64::triangular(
            true,
            side,
            uplo,
            op,
            diag,
            (on_a.at(), a.ld()),
            (on_b.at(), b.ld()),
            (50, 20),
        );
    }
    on_b.read().check(&expected, f64::TOLERANCE, "trsm of what is on the device");
}

unsafe extern "C" {
    fn cuMemAllocManaged(address: *mut u64, bytes: usize, flags: c_uint) -> c_int;
    fn cuMemFree_v2(address: u64) -> c_int;
}

#[test]
fn managed_memory_is_used_in_place() {
    let _alone = alone();
    let context = program();
    let _current = context.enter().expect("it can be entered");
    let [a, b, c, expected] = example();
    let managed = [&a, &b, &c].map(|from| {
        let mut address = 0;
        // SAFETY: room for an address; the memory is of all contexts.
        let code = unsafe { cuMemAllocManaged(&raw mut address, size_of_val(&from.data[..]), 1) };
        assert_eq!(code, 0);
        let at: *mut f64 =
            std::ptr::with_exposed_provenance_mut(usize::try_from(address).expect("an address"));
        // SAFETY: as many elements were allocated, where the host may write.
        unsafe { at.copy_from_nonoverlapping(from.data.as_ptr(), from.data.len()) };
        at
    });
    let before = (copies(), lines().len());
    // SAFETY: matrices of the example.
    unsafe { multiply(managed[0], managed[1], managed[2]) };
    assert_eq!(copies(), before.0, "nothing travels");
    let line = &lines()[before.1];
    assert!(line.contains("cuda:0, ") && line.contains("the operands are there"), "{line}");
    // SAFETY: what was allocated, which no kernel uses any more.
    let found = unsafe { std::slice::from_raw_parts(managed[2], c.data.len()) };
    Padded { data: found.to_vec(), ..c }.check(&expected, 0.0, "managed");
    for at in managed {
        // SAFETY: allocated above, and not used any more.
        assert_eq!(unsafe { cuMemFree_v2(at.addr() as u64) }, 0);
    }
}

/// Callers share the device, and each gets its own product.
#[test]
fn callers_at_the_same_time_are_safe() {
    let _alone = alone();
    let [a, b, c, expected] = example();
    let before = lines().len();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut own = c.clone();
                for _ in 0..4 {
                    own.data.clone_from(&c.data);
                    // SAFETY: matrices of the example, of which nobody else has the result.
                    unsafe { multiply(a.data.as_ptr(), b.data.as_ptr(), own.data.as_mut_ptr()) };
                    own.check(&expected, 0.0, "one of eight callers");
                }
            });
        }
    });
    let new = lines().split_off(before);
    assert_eq!(new.len(), 32);
    assert!(new.iter().all(|line| line.contains(": cuda:0 by ")), "{new:?}");
}

/// Rows of one matrix that others write meanwhile are left alone: only lines are copied.
#[test]
fn what_lies_between_columns_is_left_alone() {
    let _alone = alone();
    let (m, half) = (64, 32);
    let (a, b) = (values::<f64>(half * 40, 1), values::<f64>(40 * 50, 2));
    let mut whole = vec![0.0; m * 50];
    let first = whole.as_mut_ptr().expose_provenance();
    std::thread::scope(|scope| {
        for part in 0..2 {
            let (a, b) = (&a, &b);
            scope.spawn(move || {
                let c: *mut f64 = std::ptr::with_exposed_provenance_mut(first);
                let c = c.wrapping_add(part * half);
                let (none, ld) = ((Op::NoTrans, Op::NoTrans), int(half));
                for _ in 0..5 {
                    // SAFETY: half of the rows, which nobody else uses.
                    unsafe {
                        f64::gemm(
                            none,
                            (half, 50, 40),
                            1.0,
                            (a.as_ptr(), ld),
                            (b.as_ptr(), 40),
                            0.0,
                            (c, int(m)),
                        );
                    }
                }
            });
        }
    });
    for column in whole.chunks_exact(m) {
        assert_eq!(column[..half], column[half..]);
        assert!(column.iter().any(|&element| element != 0.0));
    }
}
