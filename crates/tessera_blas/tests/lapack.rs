//! LU, Cholesky and QR by Fortran's names: wrong arguments, questions for workspace, empty matrices, page guards.

#![cfg(target_os = "linux")]

use std::cell::RefCell;

use tessera_blas as _;

mod guarded;

use guarded::Guarded;

unsafe extern "C-unwind" {
    fn dgetrf_(m: &i32, n: &i32, a: *mut f64, lda: &i32, pivots: *mut i32, info: *mut i32);
    fn dgetrf_64_(m: &i64, n: &i64, a: *mut f64, lda: &i64, pivots: *mut i64, info: *mut i64);
    fn dgetrs_(
        op: &u8,
        n: &i32,
        sides: &i32,
        a: *const f64,
        lda: &i32,
        pivots: *const i32,
        b: *mut f64,
        ldb: &i32,
        info: *mut i32,
    );
    fn dgesv_(
        n: &i32,
        sides: &i32,
        a: *mut f64,
        lda: &i32,
        pivots: *mut i32,
        b: *mut f64,
        ldb: &i32,
        info: *mut i32,
    );
    fn dpotrf_(uplo: &u8, n: &i32, a: *mut f64, lda: &i32, info: *mut i32);
    fn dposv_(
        uplo: &u8,
        n: &i32,
        sides: &i32,
        a: *mut f64,
        lda: &i32,
        b: *mut f64,
        ldb: &i32,
        info: *mut i32,
    );
    fn dgeqrf_(
        m: &i32,
        n: &i32,
        a: *mut f64,
        lda: &i32,
        tau: *mut f64,
        work: *mut f64,
        len: &i32,
        info: *mut i32,
    );
    fn sgeqrf_(
        m: &i32,
        n: &i32,
        a: *mut f32,
        lda: &i32,
        tau: *mut f32,
        work: *mut f32,
        len: &i32,
        info: *mut i32,
    );
    fn dorgqr_(
        m: &i32,
        n: &i32,
        k: &i32,
        a: *mut f64,
        lda: &i32,
        tau: *const f64,
        work: *mut f64,
        len: &i32,
        info: *mut i32,
    );
    fn dormqr_(
        side: &u8,
        op: &u8,
        m: &i32,
        n: &i32,
        k: &i32,
        a: *const f64,
        lda: &i32,
        tau: *const f64,
        c: *mut f64,
        ldc: &i32,
        work: *mut f64,
        len: &i32,
        info: *mut i32,
    );
    fn dgels_(
        op: &u8,
        m: &i32,
        n: &i32,
        sides: &i32,
        a: *mut f64,
        lda: &i32,
        b: *mut f64,
        ldb: &i32,
        work: *mut f64,
        len: &i32,
        info: *mut i32,
    );
}

thread_local! {
    /// What this thread was told of wrong arguments.
    static TOLD: RefCell<Vec<(String, i32)>> = const { RefCell::new(Vec::new()) };
}

#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn xerbla_(name: *const u8, argument: &i32, len: usize) {
    // SAFETY: the name has that many letters.
    let name = unsafe { std::slice::from_raw_parts(name, len) };
    let name = String::from_utf8(name.to_vec()).expect("it is text");
    TOLD.with(|told| told.borrow_mut().push((name, *argument)));
}

/// Calls that each have one wrong argument: the number is in `info`, the handler is told, and nothing is written.
#[test]
fn wrong_arguments_are_in_info() {
    let mut memory = [7.0; 64];
    let mut pivots = [1, 2, 5, 4];
    let mut seen = Vec::new();
    let (a, p) = (memory.as_mut_ptr(), pivots.as_mut_ptr());
    let mut call = |routine: &dyn Fn(*mut i32)| {
        let mut info = 77;
        routine(&raw mut info);
        let told = TOLD.with(RefCell::take);
        assert_eq!(told.len(), 1, "{told:?} {info}");
        assert_eq!(told[0].1, -info, "{told:?}");
        seen.push((told[0].0.clone(), told[0].1));
    };
    // SAFETY, of all calls: no argument is used before all were found right, and one is not.
    macro_rules! calls {
        ($($routine:ident($($argument:expr),*);)*) => {$(
            // SAFETY: see above.
            call(&|info| unsafe { $routine($($argument,)* info) });
        )*};
    }
    calls! {
        dgetrf_(&-1, &4, a, &4, p);
        dgetrf_(&4, &-1, a, &4, p);
        dgetrf_(&4, &4, a, &3, p);
        dgetrs_(&b'X', &4, &1, a, &4, p, a, &4);
        dgetrs_(&b'N', &4, &-1, a, &4, p, a, &4);
        dgetrs_(&b'N', &4, &1, a, &3, p, a, &4);
        dgetrs_(&b'N', &4, &1, a, &4, p, a, &4);
        dgetrs_(&b'N', &4, &1, a, &4, p, a, &3);
        dgesv_(&-1, &1, a, &4, p, a, &4);
        dgesv_(&4, &1, a, &4, p, a, &3);
        dpotrf_(&b'N', &4, a, &4);
        dpotrf_(&b'L', &4, a, &3);
        dposv_(&b'U', &4, &-1, a, &4, a, &4);
        dposv_(&b'U', &4, &1, a, &4, a, &3);
        dgeqrf_(&4, &4, a, &3, a, a, &4);
        dgeqrf_(&4, &4, a, &4, a, a, &3);
        dgeqrf_(&0, &4, a, &4, a, a, &0);
        dorgqr_(&3, &4, &1, a, &4, a, a, &4);
        dorgqr_(&4, &3, &4, a, &4, a, a, &4);
        dorgqr_(&4, &4, &4, a, &4, a, a, &3);
        dormqr_(&b'L', &b'C', &4, &4, &4, a, &4, a, a, &4, a, &4);
        dormqr_(&b'L', &b'T', &4, &4, &5, a, &4, a, a, &4, a, &4);
        dormqr_(&b'R', &b'T', &2, &4, &4, a, &3, a, a, &4, a, &4);
        dormqr_(&b'L', &b'T', &4, &4, &4, a, &4, a, a, &4, a, &3);
        dgels_(&b'C', &4, &4, &1, a, &4, a, &4, a, &8);
        dgels_(&b'N', &2, &4, &1, a, &4, a, &3, a, &8);
        dgels_(&b'N', &4, &4, &1, a, &4, a, &4, a, &7);
    }
    let numbers: Vec<i32> = seen.iter().map(|&(_, number)| number).collect();
    assert_eq!(
        numbers,
        [1, 2, 4, 1, 3, 5, 6, 8, 1, 7, 1, 4, 3, 7, 4, 7, 7, 2, 3, 8, 2, 5, 7, 12, 1, 8, 10]
    );
    let names: Vec<&str> = seen.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.iter().all(|name| name.len() == 6), "{names:?}");
    assert_eq!((names[8], names[12], names[24]), ("DGESV ", "DPOSV ", "DGELS "));
    assert_eq!(memory, [7.0; 64]);
    assert_eq!(pivots, [1, 2, 5, 4]);
}

/// A question for the size of the workspace is answered, and nothing else is touched.
#[test]
fn workspace_is_asked_for() {
    let (mut work, mut info, null) = (0.0, 77, std::ptr::null_mut());
    let (at, told) = (&raw mut work, &raw mut info);
    let mut answers = Vec::new();
    // SAFETY: only the workspace's first element and `info` are written.
    unsafe { dgeqrf_(&100, &30, null, &100, null, at, &-1, told) };
    answers.push((work, info));
    // SAFETY: as above.
    unsafe { dormqr_(&b'R', &b'T', &50, &100, &30, null, &100, null, null, &50, at, &-1, told) };
    answers.push((work, info));
    // SAFETY: as above.
    unsafe { dgels_(&b'N', &100, &30, &40, null, &100, null, &100, at, &-1, told) };
    answers.push((work, info));
    // SAFETY: as above.
    unsafe { dorgqr_(&0, &0, &0, null, &1, null, at, &-1, told) };
    answers.push((work, info));
    assert_eq!(answers, [(960.0, 0), (1600.0, 0), (1310.0, 0), (32.0, 0)]);
    // More than 2^24 is rounded up.
    let mut work = 0f32;
    let n = (1 << 20) + 1;
    // SAFETY: as above.
    unsafe {
        sgeqrf_(&n, &n, std::ptr::null_mut(), &n, std::ptr::null_mut(), &raw mut work, &-1, told);
    }
    assert!(f64::from(work) >= 32.0 * f64::from(n), "{work}");
}

/// Of empty matrices nothing is touched.
#[test]
fn empty_matrices() {
    let null = std::ptr::null_mut();
    let (mut work, mut info) = (0.0, 77);
    let mut done = Vec::new();
    // SAFETY: of empty matrices no element is read or written.
    unsafe { dgetrf_(&0, &5, null, &1, std::ptr::null_mut(), &raw mut info) };
    done.push(std::mem::replace(&mut info, 77));
    // SAFETY: as above.
    unsafe { dgesv_(&0, &3, null, &1, std::ptr::null_mut(), null, &1, &raw mut info) };
    done.push(std::mem::replace(&mut info, 77));
    // SAFETY: as above.
    unsafe { dpotrf_(&b'u', &0, null, &1, &raw mut info) };
    done.push(std::mem::replace(&mut info, 77));
    // SAFETY: as above, but for the workspace.
    unsafe { dgeqrf_(&0, &3, null, &1, null, &raw mut work, &1, &raw mut info) };
    done.push(info);
    assert_eq!((done, work), (vec![0; 4], 1.0));
}

fn values(len: usize, seed: usize) -> Vec<f64> {
    (0..len).map(|at| ((at * 37 + seed * 11 + at / 7 * at) % 101) as f64 - 50.0).collect()
}

fn int(number: usize) -> i32 {
    number.try_into().expect("it is small")
}

/// Pivots count from 1, in integers of both sizes, and a zero pivot is told by its number.
#[test]
fn pivots_count_from_one() {
    let (mut a, mut pivots, mut info) = ([1.0, 4.0, 2.0, 0.0], [0; 2], 77);
    // SAFETY: a matrix of two by two.
    unsafe { dgetrf_(&2, &2, a.as_mut_ptr(), &2, pivots.as_mut_ptr(), &raw mut info) };
    assert_eq!((a, pivots, info), ([4.0, 0.25, 0.0, 2.0], [2, 2], 0));
    let (mut a, mut pivots, mut info) = ([1.0, 1.0, 1.0, 1.0], [0; 2], 77);
    // SAFETY: a matrix of two by two.
    unsafe { dgetrf_64_(&2, &2, a.as_mut_ptr(), &2, pivots.as_mut_ptr(), &raw mut info) };
    assert_eq!((a, pivots, info), ([1.0, 1.0, 1.0, 0.0], [1, 2], 2));
    let mut a = [1.0, 2.0, 9.0, 1.0];
    let mut info = 77;
    // SAFETY: a matrix of two by two.
    unsafe { dpotrf_(&b'L', &2, a.as_mut_ptr(), &2, &raw mut info) };
    assert_eq!((a[2], info), (9.0, 2));
}

/// Operands that end where memory ends, or begin where it begins, and solve their systems: an access beside them ends
/// the process.
#[test]
fn nothing_beside_the_operands_is_touched() {
    let mut memory = [Guarded::new(80 * 80 * 8), Guarded::new(80 * 8), Guarded::new(160 * 8)];
    for n in (1..=70).step_by(3) {
        for at_end in [false, true] {
            let [of_a, of_b, of_work] = &mut memory;
            let (a, b) = (of_a.slice(n * n, at_end), of_b.slice(n, at_end));
            let work = of_work.slice(2 * n, at_end).as_mut_ptr();
            let mut given = values(n * n, 1);
            (0..n).for_each(|i| given[i * n + i] += 5000.0);
            let ld = int(n);
            for routine in ["gesv", "posv", "gels", "orgqr"] {
                for j in 0..n {
                    for i in 0..n {
                        let (low, high) = (i.min(j), i.max(j));
                        a[i + j * n] = given[low + high * n];
                    }
                }
                // The solution is ones.
                (0..n).for_each(|i| b[i] = (0..n).map(|j| a[i + j * n]).sum());
                let (mut pivots, mut info) = (vec![0; n], 77);
                let (at, x, told) = (a.as_mut_ptr(), b.as_mut_ptr(), &raw mut info);
                match routine {
                    // SAFETY: matrices of n by n and n by 1, and n pivots.
                    "gesv" => unsafe {
                        dgesv_(&ld, &1, at, &ld, pivots.as_mut_ptr(), x, &ld, told)
                    },
                    // SAFETY: matrices of n by n and n by 1.
                    "posv" => unsafe { dposv_(&b'L', &ld, &1, at, &ld, x, &ld, told) },
                    // SAFETY: as above, and workspace of 2 n.
                    "gels" => unsafe {
                        dgels_(&b'T', &ld, &ld, &1, at, &ld, x, &ld, work, &(2 * ld), told);
                    },
                    // SAFETY: as above; what is not a reflector is a matrix to multiply with all the same.
                    _ => unsafe { dorgqr_(&ld, &ld, &ld, at, &ld, x, work, &ld, told) },
                }
                assert_eq!(info, 0, "{routine} {n}");
                if routine != "orgqr" {
                    assert!(b.iter().all(|x| (x - 1.0).abs() < 1e-9), "{routine} {n}: {b:?}");
                }
            }
        }
    }
}
