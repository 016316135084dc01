//! Asynchronous copies: what is right is let through and copies the data, each mistake is found.

use super::*;
use crate::arch::sm80::{commit_group, copy_async_4, copy_async_16, wait_group};
use crate::memory::{Global, Shared, SharedAddress};

const THREADS: u32 = 4;
const WORDS: usize = 32;

/// What a kernel under test gets: its thread, the source and the block's shared memory, of `WORDS`
/// elements each.
type Body = fn(usize, Global<f32>, Shared<f32>);

/// Runs a kernel of one block of `THREADS` threads.
fn run_copies(body: Body) -> Result<(), EmulationError> {
    /// Sixteen-byte copies want an aligned source.
    #[repr(align(16))]
    struct Source([f32; WORDS]);
    let Source(data) = &Source(std::array::from_fn(|at| at as f32));
    let launch = Launch::new((1, 1, 1), (THREADS, 1, 1))
        .with_shared_bytes(WORDS * 4)
        .with_buffer(Buffer::input("X", data));
    let from = Pointer(data.as_ptr().cast_mut());
    run(&launch, || {
        // SAFETY: the launch provides `WORDS` elements of each; what a body does wrong with them, the
        // emulator stops.
        let (from, shared) = unsafe { (global(from.get()), shared_array![f32; WORDS]) };
        body(thread::thread_idx_x() as usize, from, shared);
    })
}

fn copy_4(from: Global<f32>, to: Shared<f32>) {
    // SAFETY: none; a mistake is what the emulator is to find.
    unsafe { copy_async_4(SharedAddress::new(to), from) };
}

fn copy_16(from: Global<f32>, to: Shared<f32>) {
    // SAFETY: none; a mistake is what the emulator is to find.
    unsafe { copy_async_16(SharedAddress::new(to).cast::<[f32; 4]>(), from.cast()) };
}

fn read(from: Shared<f32>) -> f32 {
    // SAFETY: none; a mistake is what the emulator is to find.
    unsafe { from.read() }
}

fn write(to: Shared<f32>) {
    // SAFETY: none; a mistake is what the emulator is to find.
    unsafe { to.write(0.0) };
}

fn barrier() {
    // SAFETY: the bodies reach it with all threads.
    unsafe { thread::sync_threads() };
}

#[test]
fn a_copy_is_seen_by_its_thread_after_the_wait_and_by_others_after_a_barrier() {
    run_copies(|me, from, to| {
        copy_4(from.wrapping_add(me), to.wrapping_add(me));
        commit_group();
        copy_16(from.wrapping_add(4 * me + 8), to.wrapping_add(4 * me + 8));
        commit_group();
        wait_group::<1>();
        assert_eq!(read(to.wrapping_add(me)), me as f32);
        wait_group::<0>();
        barrier();
        let other = (me + 1) % THREADS as usize;
        assert_eq!(read(to.wrapping_add(other)), other as f32);
        assert_eq!(read(to.wrapping_add(4 * other + 11)), (4 * other + 11) as f32);
    })
    .unwrap();
}

/// The copy of a mistake's report, and the access.
fn pending(body: Body) -> (Access, Site) {
    match run_copies(body) {
        Err(EmulationError::PendingCopy { access, copy, .. }) => (access, copy),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_read_before_the_wait_is_an_error() {
    let (access, copy) = pending(|me, from, to| {
        copy_4(from, to.wrapping_add(me));
        commit_group();
        let _ = read(to.wrapping_add(me));
    });
    assert_eq!(
        (access.kind, access.site.thread, copy.thread),
        (AccessKind::Read, (0, 0, 0), (0, 0, 0))
    );
    assert!(copy.at.line() < access.site.at.line() && copy.at.file() == file!(), "{copy}");
}

#[test]
fn a_wait_covers_closed_groups_only_and_the_older_ones() {
    // The newest group may be on its way still.
    pending(|me, from, to| {
        copy_4(from, to.wrapping_add(me));
        commit_group();
        wait_group::<1>();
        let _ = read(to.wrapping_add(me));
    });
    // A copy of no group.
    pending(|me, from, to| {
        copy_4(from, to.wrapping_add(me));
        wait_group::<0>();
        let _ = read(to.wrapping_add(me));
    });
}

#[test]
fn a_barrier_without_a_wait_makes_nothing_visible() {
    let (access, copy) = pending(|me, from, to| {
        copy_4(from, to.wrapping_add(me));
        commit_group();
        barrier();
        let _ = read(to.wrapping_add(me ^ 1));
    });
    assert_eq!((access.site.thread, copy.thread), ((0, 0, 0), (1, 0, 0)));
}

#[test]
fn a_wait_without_a_barrier_is_a_race() {
    let result = run_copies(|me, from, to| {
        if me == 0 {
            copy_4(from, to);
            commit_group();
            wait_group::<0>();
        } else {
            let _ = read(to);
        }
    });
    assert!(matches!(result, Err(EmulationError::Race { .. })), "{result:?}");
}

#[test]
fn nobody_writes_where_a_copy_goes() {
    let (access, _) = pending(|me, from, to| {
        copy_4(from, to.wrapping_add(me));
        write(to.wrapping_add(me));
    });
    assert_eq!(access.kind, AccessKind::Write);
    // Nor another copy.
    pending(|_, from, to| {
        copy_16(from, to);
        copy_4(from, to.wrapping_add(3));
    });
}

#[test]
fn a_copy_over_what_others_still_read_is_a_race() {
    let result = run_copies(|me, from, to| {
        write(to.wrapping_add(me));
        barrier();
        let _ = read(to.wrapping_add(me));
        if me == 3 {
            copy_4(from, to);
            commit_group();
            wait_group::<0>();
        }
    });
    let Err(EmulationError::Race { first, second, offset: 0 }) = result else {
        panic!("{result:?}");
    };
    assert_eq!((first.kind, second.kind), (AccessKind::Read, AccessKind::Write));
}

#[test]
fn bounds_and_alignment_of_both_ends_are_checked() {
    let result = run_copies(|_, from, to| copy_4(from.wrapping_add(WORDS), to));
    assert!(
        matches!(result, Err(EmulationError::GlobalOutOfBounds { element: 32, .. })),
        "{result:?}"
    );
    let result = run_copies(|_, from, to| copy_16(from, to.wrapping_add(WORDS - 3)));
    assert!(matches!(result, Err(EmulationError::SharedOutOfBounds { .. })), "{result:?}");
    for shift in [[1, 0], [0, 1]] {
        let result = match shift {
            [1, 0] => run_copies(|_, from, to| copy_16(from.wrapping_add(1), to)),
            _ => run_copies(|_, from, to| copy_16(from, to.wrapping_add(1))),
        };
        let Err(EmulationError::Misaligned { access, align: 16 }) = result else {
            panic!("{result:?}");
        };
        assert_eq!(access.kind, if shift == [1, 0] { AccessKind::Read } else { AccessKind::Write });
    }
}
