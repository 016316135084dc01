//! Global memory: strays, races between reads and writes, and reads of what nobody wrote.

use super::*;
use crate::arch::sm80::{commit_group, copy_async_4};
use crate::arch::sm90::{bulk, mbarrier};
use crate::memory::{Global, GlobalMut, Shared, SharedAddress};

/// Elements of each of the buffers.
const WORDS: usize = 64;

/// A kernel under test, on an input X and an output Y: its block and thread, and the two.
type Body = fn(usize, usize, Global<u32>, GlobalMut<u32>);

/// Memory of whole copies.
#[repr(align(16))]
struct Words([u32; WORDS]);

/// Runs it with two blocks of 32 threads, the buffers made by `prepare`.
fn run_on(body: Body, prepare: impl Fn([Buffer; 2]) -> [Buffer; 2]) -> Result<(), EmulationError> {
    let (x, mut y) =
        (Words(std::array::from_fn(|at| u32::try_from(at).unwrap())), Words([7; WORDS]));
    let y = &mut y.0;
    let buffers = [Buffer::input("X", &x.0).in_window(0), Buffer::output("Y", y).in_window(1)];
    let _ = (x.0.as_ptr().expose_provenance(), y.as_mut_ptr().expose_provenance());
    let buffers = prepare(buffers);
    let (x, y) = (buffers[0].address, buffers[1].address);
    let shape = Launch::new((2, 1, 1), (32, 1, 1)).with_shared_bytes(4 * WORDS);
    let launch = buffers.into_iter().fold(shape, Launch::with_buffer);
    run(&launch, || {
        // SAFETY: none; a mistake is what the emulator is to find.
        let (x, y) = unsafe { (global(x as *const u32), global_mut(y as *mut u32)) };
        body(thread::block_idx_x() as usize, thread::thread_idx_x() as usize, x, y);
    })
}

fn plain(buffers: [Buffer; 2]) -> [Buffer; 2] {
    buffers
}

/// Y as nobody has written it.
fn fresh([x, y]: [Buffer; 2]) -> [Buffer; 2] {
    [x, y.unwritten()]
}

fn read(from: Global<u32>) -> u32 {
    // SAFETY: none; a mistake is what the emulator is to find.
    unsafe { from.read() }
}

fn old(from: GlobalMut<u32>) -> u32 {
    // SAFETY: none; a mistake is what the emulator is to find.
    unsafe { from.read() }
}

fn write(to: GlobalMut<u32>, value: u32) {
    // SAFETY: none; a mistake is what the emulator is to find.
    unsafe { to.write(value) };
}

fn sync() {
    // SAFETY: the bodies reach it with all threads.
    unsafe { thread::sync_threads() };
}

/// A race between an access of the first kind and one of the second.
#[track_caller]
fn assert_race(body: Body, kinds: [AccessKind; 2]) {
    let found = run_on(body, plain);
    let Err(EmulationError::GlobalRace { first, second, buffer: "Y", .. }) = found else {
        panic!("{found:?}");
    };
    let mut found = [first.kind, second.kind];
    // Blocks run at once, in either order.
    if first.site.block != second.site.block && found != kinds {
        found.reverse();
    }
    assert_eq!(found, kinds);
    assert_ne!((first.site.block, first.site.thread), (second.site.block, second.site.thread));
}

#[test]
fn what_is_in_order_is_let_through() {
    run_on(
        |block, me, x, y| {
            let at = 32 * block + me;
            write(y.wrapping_add(at), old(y.wrapping_add(at)) + read(x.wrapping_add(at)));
            sync();
            let neighbour = 32 * block + (me + 1) % 32;
            let expected = 7 + u32::try_from(neighbour).unwrap();
            assert_eq!(old(y.wrapping_add(neighbour)), expected);
        },
        plain,
    )
    .unwrap();
    run_on(
        |block, me, _, y| {
            write(y.wrapping_add(32 * block + me), 5);
            sync();
            assert_eq!(old(y.wrapping_add(32 * block + 31 - me)), 5);
        },
        fresh,
    )
    .unwrap();
}

#[test]
fn an_access_that_strays_reaches_no_neighbour() {
    for body in [
        |_: usize, me: usize, x: Global<u32>, _: GlobalMut<u32>| {
            let _ = read(x.wrapping_add(WORDS + me));
        },
        |_, me, _, y: GlobalMut<u32>| {
            let _ = old(y.wrapping_add(0usize.wrapping_sub(1 + me)));
        },
    ] {
        let found = run_on(body, plain);
        assert!(matches!(found, Err(EmulationError::GlobalOutOfBounds { .. })), "{found:?}");
    }
}

#[test]
fn what_is_between_the_lines_of_a_matrix_is_outside() {
    let lines = |[x, y]: [Buffer; 2]| [x.with_lines(20, 32), y];
    let inside: Body = |_, me, x, _| {
        let _ = read(x.wrapping_add(me / 5 % 8 * 8 + me % 5));
    };
    run_on(inside, lines).unwrap();
    let found = run_on(
        |_, me, x, _| {
            let _ = read(x.wrapping_add(8 + me % 6));
        },
        lines,
    );
    let Err(EmulationError::Padding { access, buffer: "X", line: 1, byte: 20 }) = found else {
        panic!("{found:?}");
    };
    assert_eq!(access.site.thread, (5, 0, 0));
}

#[test]
fn a_read_and_a_write_of_two_threads_with_no_barrier_between_are_a_race() {
    use AccessKind::{Read, Write};
    assert_race(
        |block, me, _, y| {
            write(y.wrapping_add(32 * block + me), 1);
            let _ = old(y.wrapping_add(32 * block + (me + 31) % 32));
        },
        [Write, Read],
    );
    assert_race(
        |block, me, _, y| {
            let _ = old(y.wrapping_add(32 * block + (me + 1) % 32));
            write(y.wrapping_add(32 * block + me), 1);
        },
        [Read, Write],
    );
}

/// A barrier orders the threads of a block, and no others.
#[test]
fn a_read_and_a_write_of_two_blocks_are_a_race() {
    use AccessKind::{Read, Write};
    assert_race(
        |block, me, _, y| {
            if block == 0 {
                write(y.wrapping_add(me), 1);
            }
            sync();
            let _ = old(y.wrapping_add(me));
        },
        [Write, Read],
    );
    // A word that several blocks have read, and one of them writes.
    for _ in 0..20 {
        assert_race(
            |block, me, _, y| {
                let _ = old(y.wrapping_add(me));
                sync();
                if block == 1 {
                    write(y.wrapping_add(me), 1);
                }
            },
            [Read, Write],
        );
    }
}

#[test]
fn atomic_updates_conflict_with_other_accesses_alone() {
    fn add(to: GlobalMut<u32>) {
        // SAFETY: none; a mistake is what the emulator is to find.
        let _ = unsafe { crate::atomic::fetch_add(to, 1) };
    }
    run_on(|_, _, _, y| add(y), plain).unwrap();
    assert_race(
        |_, me, _, y| if me == 3 { assert!(old(y) < 100) } else { add(y) },
        [AccessKind::Atomic, AccessKind::Read],
    );
    let found = run_on(|_, me, _, y| if me == 3 { write(y, 1) } else { add(y) }, plain);
    assert!(matches!(found, Err(EmulationError::OverlappingWrites { .. })), "{found:?}");
}

#[test]
fn a_read_of_what_nobody_wrote_is_an_error() {
    let body: Body = |block, me, _, y| {
        if me != 9 {
            write(y.wrapping_add(32 * block + me), 1);
        }
        sync();
        let _ = old(y.wrapping_add(32 * block + me));
    };
    let found = run_on(body, fresh);
    let Err(EmulationError::UninitialisedGlobal { access, buffer: "Y", element }) = found else {
        panic!("{found:?}");
    };
    assert_eq!((access.site.thread, element % 32), ((9, 0, 0), 9));
    run_on(body, plain).unwrap();
}

/// What one launch has written, the next may read.
#[test]
fn what_is_written_lives_through_the_launches_that_have_the_buffer() {
    let mut words = [0u32; 32];
    let buffer = Buffer::output("Y", &mut words).unwritten();
    let y = Pointer(words.as_mut_ptr());
    let launch = Launch::new((1, 1, 1), (32, 1, 1)).with_buffer(buffer);
    // SAFETY: the buffer has as many elements as the launch threads.
    let place = || unsafe { global_mut(y.get()) }.wrapping_add(thread::thread_idx_x() as usize);
    let reads = || {
        run(&launch, || {
            let _ = old(place());
        })
    };
    assert!(matches!(reads(), Err(EmulationError::UninitialisedGlobal { .. })));
    run(&launch, || write(place(), 1)).unwrap();
    reads().unwrap();
}

#[test]
fn a_copy_that_its_thread_never_waits_for_is_an_error() {
    for commits in [false, true] {
        let body: Body = if commits {
            |_, me, x, _| {
                start(me, x);
                commit_group();
            }
        } else {
            |_, me, x, _| start(me, x)
        };
        let found = run_on(body, plain);
        let Err(EmulationError::CopyAtExit { site }) = found else { panic!("{found:?}") };
        assert_eq!(site.thread, (0, 0, 0));
    }
}

fn start(me: usize, x: Global<u32>) {
    // SAFETY: the launch provides the bytes; what is left undone, the emulator finds.
    unsafe {
        let shared: Shared<u32> = shared_array![u32; WORDS];
        copy_async_4(SharedAddress::new(shared.wrapping_add(me)), x.wrapping_add(me));
    }
}

/// A copy in bulk of what nobody wrote is no fault; who reads the copy reads what nobody wrote.
#[test]
fn a_copy_of_what_nobody_wrote_is_as_unwritten() {
    for all in [true, false] {
        let mut y = Words([7; WORDS]);
        let buffer = Buffer::output("Y", &mut y.0).unwritten();
        buffer.note_written(buffer.address, if all { 256 } else { 128 });
        let from = Pointer(y.0.as_mut_ptr());
        let launch = Launch::new((1, 1, 1), (64, 1, 1)).with_shared_bytes(4 * WORDS + 8);
        let launch = launch.with_buffer(buffer).asynchronous();
        let found = run(&launch, || {
            let me = thread::thread_idx_x();
            // SAFETY: the launch provides the bytes, and one thread initialises the barrier before the others use it.
            unsafe {
                let words: Shared<u32> = shared_array![u32; WORDS];
                let barrier = SharedAddress::new(words.wrapping_add(WORDS)).cast();
                if me == 0 {
                    mbarrier::init(barrier, 1);
                    mbarrier::fence_init();
                    mbarrier::arrive_and_expect_tx(barrier, 256);
                    let from = global(from.get().cast_const()).cast();
                    bulk::copy(SharedAddress::new(words).cast(), from, 256, barrier);
                }
                sync();
                mbarrier::wait(barrier, 0);
                assert_eq!(words.wrapping_add(me as usize).read(), 7);
            }
        });
        if all {
            found.unwrap();
        } else {
            let Err(EmulationError::Uninitialised { offset: 128, .. }) = found else {
                panic!("{found:?}");
            };
        }
    }
}
