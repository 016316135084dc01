//! Tile registers need the system's permission, which is a matter of the whole process: what happens where it is
//! refused, after a fork and in a program that follows another, in threads older than it, where a stack overflows, and
//! when signals interrupt a product.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(clippy::print_stderr, reason = "it says what could not be tested")]

use std::num::NonZeroUsize;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use cpu_gemm::{CpuContext, CpuUnits, gemm, matrix_units};
use gemm_spec::Problem;

/// Names the role that this program plays when a test starts it again.
const ROLE: &str = "CPU_GEMM_TEST_ROLE";

/// This program, to run one test alone, with [`ROLE`] set.
fn program(test: &str) -> Command {
    let mut program = Command::new(std::env::current_exe().expect("a program has a path"));
    program.args(["--exact", test, "--nocapture"]).env(ROLE, test);
    program
}

/// Runs one test of this program in a process of its own.
fn in_a_process_of_its_own(test: &str, body: fn()) {
    if std::env::var_os(ROLE).is_some() {
        return body();
    }
    let output = program(test).output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr);
    eprintln!("{error}");
    assert!(output.status.success(), "{}: {error}", output.status);
}

/// The lowest byte of a number.
fn byte(number: usize) -> i8 {
    number.to_le_bytes()[0].cast_signed()
}

/// A product of bytes that is right, by whatever units there are.
fn multiply(context: &CpuContext) {
    let (m, n, k) = (70, 80, 90);
    let a: Vec<i8> = (0..m * k).map(byte).collect();
    let b: Vec<i8> = (0..k * n).map(|i| byte(i * 7)).collect();
    let mut c = vec![0; m * n];
    gemm(&Problem::<i8>::new(m, n, k), &a, &b, &mut c, context).expect("the buffers fit");
    for (at, &found) in c.iter().enumerate() {
        let (row, col) = (at / n, at % n);
        let term = |p: usize| i32::from(a[row * k + p]) * i32::from(b[p * n + col]);
        assert_eq!(found, (0..k).map(term).sum::<i32>(), "({row}, {col})");
    }
}

fn context() -> CpuContext {
    let context = CpuContext::new(NonZeroUsize::new(2)).expect("threads start");
    context.with_units(CpuUnits::All)
}

/// Gives the calling thread an alternate signal stack of that many bytes.
fn use_alternate_stack(bytes: usize) -> i32 {
    let stack = Box::leak(vec![0u8; bytes].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: bytes };
    // SAFETY: the stack is leaked, so it outlives the thread.
    unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) }
}

/// A thread with an alternate stack too small for tiles has the system refuse them: no error, no tiles.
#[test]
fn a_refusal_leaves_vectors() {
    in_a_process_of_its_own("a_refusal_leaves_vectors", || {
        let (ready, wait) = (mpsc::channel(), mpsc::channel::<()>());
        let small = std::thread::spawn(move || {
            assert_eq!(use_alternate_stack(4096), 0);
            ready.0.send(()).expect("somebody waits");
            let _ = wait.1.recv();
        });
        ready.1.recv().expect("the thread is there");
        let refused = matrix_units().expect_err("4096 bytes hold no tiles");
        eprintln!("{refused}");
        multiply(&context());
        drop(wait.0);
        small.join().expect("it ends well");
    });
}

/// Threads that were there before the permission, and those that come after it.
#[test]
fn permission_is_for_all_threads() {
    in_a_process_of_its_own("permission_is_for_all_threads", || {
        let older = context();
        older.pool().install(|| {});
        eprintln!("{:?}", matrix_units());
        multiply(&older);
        multiply(&context());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| multiply(&older));
            }
        });
    });
}

/// A child of a process that has multiplied multiplies as well, with threads of its own.
#[test]
fn a_forked_child_multiplies() {
    in_a_process_of_its_own("a_forked_child_multiplies", || {
        multiply(&context());
        // SAFETY: the child makes a context of its own and ends without running what the parent registered.
        // It allocates, which glibc allows a child of a process with several threads.
        let child = unsafe { libc::fork() };
        if child == 0 {
            multiply(&context());
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) };
        }
        let mut status = 0;
        // SAFETY: waits for the child above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "the child's status");
    });
}

/// A program that takes the place of one that has multiplied asks for the permission anew.
#[test]
fn a_program_after_another_multiplies() {
    use std::os::unix::process::CommandExt as _;
    const TEST: &str = "a_program_after_another_multiplies";
    /// Set for the second program.
    const AFTER: &str = "CPU_GEMM_TEST_AFTER";
    in_a_process_of_its_own(TEST, || {
        multiply(&context());
        if std::env::var_os(AFTER).is_some() {
            eprintln!("the second program has multiplied");
            return;
        }
        // Where it succeeds it does not return.
        let error = program(TEST).env(AFTER, "1").exec();
        panic!("the second program does not start: {error}");
    });
}

/// A stack that overflows where a thread of the pool runs what is not ours, after products and beside one, ends the
/// process, and says so where no tiles were used. For a thread that has used tiles the system saves 8 KiB more; Rust's
/// stack for handlers holds what is saved, but then leaves the handler no room for its message.
#[test]
fn an_overflow_of_the_stack_is_told() {
    use std::hint::black_box;
    use std::os::unix::process::ExitStatusExt as _;
    const TEST: &str = "an_overflow_of_the_stack_is_told";
    /// As deep as there is stack.
    #[expect(unconditional_recursion, reason = "what is tested")]
    fn descend(depth: usize) -> usize {
        let frame = black_box([depth; 64]);
        descend(depth + 1) + black_box(frame)[depth % 64]
    }
    if std::env::var_os(ROLE).is_some() {
        let context = context();
        multiply(&context);
        context.pool().join(
            || multiply(&context),
            || {
                multiply(&context);
                eprintln!("descends");
                black_box(descend(0));
            },
        );
        return;
    }
    let output = program(TEST).output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("descends"), "{error}");
    let (signal, tells) = (output.status.signal(), error.contains("overflowed its stack"));
    match matrix_units() {
        Ok(_) if signal == Some(libc::SIGSEGV) => eprintln!("the handler had no room"),
        _ => assert!(signal == Some(libc::SIGABRT) && tells, "{}: {error}", output.status),
    }
}

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_: i32) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Signals that arrive while tiles hold sums change nothing.
#[test]
fn signals_leave_sums_alone() {
    in_a_process_of_its_own("signals_leave_sums_alone", || {
        let every = libc::timeval { tv_sec: 0, tv_usec: 200 };
        let timer = libc::itimerval { it_interval: every, it_value: every };
        let handler: extern "C" fn(i32) = count;
        // SAFETY: the handler only adds to an atomic.
        let before = unsafe { libc::signal(libc::SIGALRM, handler as libc::sighandler_t) };
        assert_ne!(before, libc::SIG_ERR);
        // SAFETY: the timer is one of this process, whose handler is there.
        unsafe {
            assert_eq!(
                libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()),
                0
            );
        }
        let context = context();
        for _ in 0..200 {
            multiply(&context);
        }
        assert!(SIGNALS.load(Ordering::Relaxed) > 10, "signals came");
    });
}

/// After a product a thread's tiles are released: nothing more is saved for it than before.
#[test]
fn tiles_are_released() {
    use std::arch::x86_64::__cpuid_count;
    in_a_process_of_its_own("tiles_are_released", || {
        if let Err(reason) = matrix_units() {
            eprintln!("not run: {reason}");
            return;
        }
        let one = CpuContext::new(NonZeroUsize::new(1)).expect("a thread starts");
        multiply(&one);
        // Leaf 13, 1 EAX bit 2: the CPU tells which states are in use.
        if __cpuid_count(13, 1).eax >> 2 & 1 == 0 {
            eprintln!("not run: the CPU does not tell which states are in use");
            return;
        }
        #[target_feature(enable = "xsave")]
        fn in_use() -> u64 {
            // SAFETY: register 1 exists, as the CPU has said.
            unsafe { std::arch::x86_64::_xgetbv(1) }
        }
        // SAFETY: a system that allows tiles has enabled `xgetbv`.
        let states = unsafe { in_use() };
        assert_eq!(states >> 17 & 3, 0, "the configuration and the data of tiles");
    });
}
