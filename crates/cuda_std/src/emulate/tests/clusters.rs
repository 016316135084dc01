//! Clusters: reads of other blocks' memory, arrivals at their barriers, the barrier of all, and exits.

use super::sm90::{barrier, launch, shared};
use super::*;
use crate::arch::sm90::{cluster, mbarrier, warpgroup};
use crate::memory::{Shared, SharedAddress};

/// What a cluster's kernel does wrong; `Nothing` is right.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Planted {
    Nothing,
    /// No barrier of the cluster before others' words are read.
    NoSync,
    /// One that releases nothing.
    RelaxedSync,
    /// None before the words are overwritten.
    NoSyncBeforeWrite,
    /// None before a block ends.
    NoLastSync,
    /// Reads of what nobody writes, beyond the memory, between two quads, of no block.
    Elsewhere(u32),
}

use Planted::*;

/// Threads of a block.
const THREADS: u32 = 32;

/// The words of a block's memory that belong to a thread.
fn quad(of: u32) -> Shared<u32> {
    shared().wrapping_add(4 * of as usize)
}

/// Each block leaves a quad for each thread; all blocks from `readers` on add those of all blocks; then each block
/// writes others over them, which nobody reads.
fn add_blocks(
    planted: Planted,
    (blocks, readers): (u32, u32),
    order: Order,
) -> Result<(), EmulationError> {
    let launch = Launch {
        grid: (2 * blocks, 1, 1),
        block: (THREADS, 1, 1),
        cluster: blocks,
        order,
        ..launch().asynchronous()
    };
    let right = AtomicU32::new(0);
    run(&launch, || {
        let (me, rank, size) = (thread::thread_idx_x(), cluster::rank(), cluster::size());
        assert_eq!((size, rank), (blocks, thread::block_idx_x() % blocks));
        // SAFETY: the launch provides what is accessed; what is planted, the emulator stops.
        unsafe {
            for word in 0..4 {
                let value = (1000 * rank + 10 * me + word) as f32;
                quad(me).wrapping_add(word as usize).write(value.to_bits());
            }
            match planted {
                NoSync => {}
                RelaxedSync => cluster::sync_relaxed(),
                Nothing | NoSyncBeforeWrite | NoLastSync | Elsewhere(_) => cluster::sync(),
            }
            let mut acc = [0.0; 4];
            // Each thread reads those of its neighbour.
            let other = (me + 1) % THREADS;
            for rank in 0..if rank < readers { 0 } else { size } {
                let from = cluster::place_in(SharedAddress::new(quad(other)), rank);
                let from = match planted {
                    Elsewhere(bytes) => from.wrapping_add(bytes),
                    Nothing | NoSync | RelaxedSync | NoSyncBeforeWrite | NoLastSync => from,
                };
                let read = cluster::read_quad(from);
                acc = std::array::from_fn(|word| acc[word] + read[word]);
            }
            if planted != NoSyncBeforeWrite {
                cluster::sync_relaxed();
            }
            quad(me).write(0);
            if planted != NoLastSync && planted != NoSyncBeforeWrite {
                cluster::sync_relaxed();
            }
            let expected = |word: u32| {
                let ranks: u32 = (0..size).sum();
                (1000 * ranks + size * (10 * other + word)) as f32
            };
            if rank < readers || acc == [0, 1, 2, 3].map(expected) {
                right.fetch_add(1, Ordering::Relaxed);
            }
        }
    })?;
    assert_eq!(right.into_inner(), 2 * blocks * THREADS);
    Ok(())
}

const ALL: [Order; 8] = [
    Order::Late,
    Order::Early,
    Order::Starve(0),
    Order::Starve(1),
    Order::Random(1),
    Order::Random(2),
    Order::Random(3),
    Order::Random(4),
];

#[test]
fn what_other_blocks_wrote_is_read_after_the_clusters_barrier() {
    for order in ALL {
        for blocks in [1, 2, 3, 8] {
            assert_eq!(add_blocks(Nothing, (blocks, 0), order), Ok(()), "{blocks} {order:?}");
        }
        // The block may end after the barrier by which others say that they have read.
        assert_eq!(add_blocks(NoLastSync, (4, 0), order), Ok(()), "{order:?}");
    }
}

#[test]
fn a_read_of_another_blocks_words_before_the_clusters_barrier_is_a_race() {
    for order in ALL {
        // Whichever of the two comes first.
        let error = add_blocks(NoSync, (2, 0), order).unwrap_err();
        let found =
            matches!(error, EmulationError::Race { .. } | EmulationError::Uninitialised { .. });
        assert!(found, "{order:?}: {error}");
    }
    // The last block reads after all others have written.
    let error = add_blocks(NoSync, (4, 3), Order::Late).unwrap_err();
    let EmulationError::Race { first, second, .. } = &error else { panic!("{error}") };
    assert_eq!((first.kind, second.kind), (AccessKind::Write, AccessKind::Read));
    assert_eq!((first.site.block.0 % 4, second.site.block.0 % 4), (0, 3), "{error}");
}

#[test]
fn a_barrier_that_releases_nothing_makes_nothing_visible() {
    for order in ALL {
        let error = add_blocks(RelaxedSync, (2, 0), order).unwrap_err();
        let EmulationError::Race { first, second, .. } = &error else { panic!("{error}") };
        assert_eq!((first.kind, second.kind), (AccessKind::Write, AccessKind::Read));
    }
}

#[test]
fn words_that_another_block_may_still_read_are_not_overwritten() {
    for order in ALL {
        let error = add_blocks(NoSyncBeforeWrite, (2, 0), order).unwrap_err();
        // Whichever of the two comes first.
        let EmulationError::Race { first, second, .. } = &error else { panic!("{error}") };
        assert_ne!(first.kind, second.kind);
    }
}

#[test]
fn a_read_of_another_blocks_memory_stays_in_it() {
    let error = |bytes| add_blocks(Elsewhere(bytes), (2, 0), Order::Late).unwrap_err();
    let beyond = error(2048);
    assert!(matches!(beyond, EmulationError::SharedOutOfBounds { .. }), "{beyond}");
    let before = error(32u32.wrapping_neg());
    assert!(matches!(before, EmulationError::SharedOutOfBounds { offset: ..0, .. }), "{before}");
    let between = error(4);
    assert!(matches!(between, EmulationError::Misaligned { align: 16, .. }), "{between}");
    let unwritten = error(1024);
    assert!(matches!(unwritten, EmulationError::Uninitialised { .. }), "{unwritten}");
    let nobody = error(5 << 24).to_string();
    assert!(nobody.contains("window of block 5 of the cluster, which has 2"), "{nobody}");
    let launch = Launch { grid: (2, 1, 1), cluster: 2, ..launch().asynchronous() };
    let rank = run(&launch, || {
        // SAFETY: none: there is no such block, which is the mistake under test.
        let _ = unsafe { cluster::place_in(barrier(), 2) };
    });
    let rank = rank.unwrap_err().to_string();
    assert!(
        rank.ends_with("executes mapa.shared::cluster with rank 2 in a cluster of 2"),
        "{rank}"
    );
}

/// Block 1 reads what block 0 wrote, and block 0 ends.
fn ends_while_read(waits: bool, order: Order) -> Result<(), EmulationError> {
    let launch = Launch { grid: (2, 1, 1), cluster: 2, order, ..launch().asynchronous() };
    run(&launch, || {
        // SAFETY: both blocks have the words; the barrier that lacks is the mistake under test.
        unsafe {
            for word in 0..4 {
                shared().wrapping_add(word).write(0);
            }
            cluster::sync();
            if cluster::rank() == 1 {
                let _ = cluster::read_quad(cluster::place_in(SharedAddress::new(shared()), 0));
            }
            if waits {
                cluster::sync_relaxed();
            }
        }
    })
}

#[test]
fn a_block_that_ends_while_another_reads_its_memory_is_found() {
    for order in ALL {
        assert_eq!(ends_while_read(true, order), Ok(()), "{order:?}");
        // Whether it has ended by then or not.
        let error = ends_while_read(false, order).unwrap_err();
        let EmulationError::AfterExit { site, block } = &error else { panic!("{error}") };
        assert_eq!((site.block, *block), ((1, 0, 0), (0, 0, 0)));
    }
}

/// Block 0 writes a word and arrives at block 1's barrier; block 1 reads the word, arrives at block 0's barrier, and
/// block 0 writes it again.
fn arrives(reads: bool, order: Order, strict: Strict) -> Result<(), EmulationError> {
    let launch = Launch { grid: (2, 1, 1), cluster: 2, order, strict, ..launch().asynchronous() };
    run(&launch, || {
        // SAFETY: both blocks have the words and the barrier; the read is the mistake under test.
        unsafe {
            let words = SharedAddress::new(shared());
            mbarrier::init(barrier(), 1);
            mbarrier::fence_init();
            for word in 0..4 {
                shared().wrapping_add(word).write(0);
            }
            cluster::sync();
            if cluster::rank() == 0 {
                if reads {
                    shared().write(1);
                    cluster::arrive(cluster::place_in(barrier(), 1));
                }
                mbarrier::wait(barrier(), 0);
                shared().write(2);
            } else {
                if reads {
                    mbarrier::wait(barrier(), 0);
                }
                let _ = cluster::read_quad(cluster::place_in(words, 0));
                cluster::arrive(cluster::place_in(barrier(), 0));
            }
            cluster::sync();
        }
    })
}

#[test]
fn an_arrival_in_another_block_tells_of_reads_and_makes_no_write_visible() {
    for order in ALL {
        assert_eq!(arrives(false, order, Strict::default()), Ok(()), "{order:?}");
        let error = arrives(true, order, Strict::default()).unwrap_err();
        let EmulationError::Race { first, second, .. } = &error else { panic!("{error}") };
        assert_eq!((first.kind, second.kind), (AccessKind::Write, AccessKind::Read));
    }
}

#[test]
fn at_the_scope_of_a_block_an_arrival_in_another_one_tells_nothing() {
    for order in ALL {
        let error = arrives(false, order, Strict { scopes: true, init: false }).unwrap_err();
        let EmulationError::Race { first, second, .. } = &error else { panic!("{error}") };
        assert_eq!((first.kind, second.kind), (AccessKind::Read, AccessKind::Write), "{error}");
    }
}

/// One block waits for an arrival that does not come, the others at the barrier of the cluster.
#[test]
fn a_deadlock_at_the_clusters_barrier_names_it() {
    for (order, releases) in [(Order::Late, true), (Order::Random(1), false)] {
        let launch = Launch {
            grid: (4, 1, 1),
            block: (32, 1, 1),
            cluster: 4,
            order,
            ..launch().asynchronous()
        };
        let error = run(&launch, || {
            // SAFETY: the launch has the barrier; that nobody arrives is the mistake under test.
            unsafe {
                if cluster::rank() == 2 && thread::thread_idx_x() == 0 {
                    mbarrier::init(barrier(), 1);
                    mbarrier::wait(barrier(), 0);
                }
                if releases { cluster::sync() } else { cluster::sync_relaxed() }
            }
        });
        let error = error.unwrap_err();
        assert!(matches!(error, EmulationError::Deadlock { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("126 more waits for barrier.cluster, where 127 threads of 128 are"),
            "{text}"
        );
        assert!(
            text.contains("waits for phase 0 of the barrier at byte 1024 of block 2"),
            "{text}"
        );
    }
}

/// Two warpgroups wait for that many threads at a named barrier; with 0 each at one of its own.
fn meets(threads: (u32, u32), written: bool) -> Result<(), EmulationError> {
    let launch = Launch { block: (384, 1, 1), ..launch().asynchronous() };
    run(&launch, || {
        let group = thread::thread_idx_x() / 128;
        let me = thread::thread_idx_x() as usize;
        // SAFETY: the launch has the words; what is wrong, the emulator stops.
        unsafe {
            if me < 128 {
                return;
            }
            shared().wrapping_add(me).write(1);
            let wide = if me < 256 { threads.0 } else { threads.1 };
            match wide {
                0 => warpgroup::sync(1 + group),
                128 => warpgroup::sync(1),
                256 => warpgroup::sync_several::<256>(1),
                512 => warpgroup::sync_several::<512>(1),
                _ => warpgroup::sync_several::<100>(1),
            }
            if written {
                let _ = shared().wrapping_add(me ^ 384).read();
            }
        }
    })
}

#[test]
fn a_named_barrier_is_for_as_many_threads_as_wait_at_it() {
    assert_eq!(meets((256, 256), true), Ok(()));
    assert_eq!(meets((0, 0), false), Ok(()));
    let race = meets((0, 0), true).unwrap_err();
    assert!(
        matches!(race, EmulationError::Race { .. } | EmulationError::Uninitialised { .. }),
        "{race}"
    );
    let other = meets((256, 128), false).unwrap_err().to_string();
    assert!(other.contains("128 threads at barrier 1, where others wait for 256"), "{other}");
    let many = meets((512, 512), false).unwrap_err().to_string();
    assert!(many.contains("512 threads, no whole warps of the block's 384"), "{many}");
    let part = meets((100, 100), false).unwrap_err().to_string();
    assert!(part.contains("100 threads, no whole warps"), "{part}");
    let again = meets((128, 128), false).unwrap_err();
    assert!(matches!(again, EmulationError::PhaseUnknown { phase: 1, .. }), "{again}");
    let alone = meets((256, 0), false).unwrap_err().to_string();
    assert!(alone.contains("named barrier 1, where 128 threads of 256 are"), "{alone}");
}

/// Blocks of a pair arrive at each other's barriers.
fn pair(last_sync: bool, fenced: bool) -> Result<(), EmulationError> {
    let launch = Launch { grid: (2, 1, 1), cluster: 2, ..launch().asynchronous() };
    run(&launch, || {
        // SAFETY: the other block has the barrier; what lacks is the mistake under test.
        unsafe {
            mbarrier::init(barrier(), 1);
            if fenced {
                mbarrier::fence_init();
            }
            cluster::sync();
            cluster::arrive(cluster::place_in(barrier(), cluster::rank() ^ 1));
            if last_sync {
                mbarrier::wait(barrier(), 0);
                cluster::sync();
            }
        }
    })
}

#[test]
fn blocks_of_a_cluster_outlive_what_others_do_to_them() {
    assert_eq!(pair(true, true), Ok(()));
    let error = pair(false, true).unwrap_err();
    assert!(matches!(error, EmulationError::AfterExit { .. }), "{error}");
    let error = pair(true, false).unwrap_err();
    assert!(matches!(error, EmulationError::NotSet { .. }), "{error}");
}
