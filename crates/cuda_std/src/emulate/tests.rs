//! Each fault, planted, is found with its threads and lines; what is right is not reported.
#![expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a kernel under test has one argument: that of the mistake in it"
)]

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::arch::sm80::mma;
use crate::memory::{SharedAddress, global, global_mut};
use crate::{shared, shared_array, thread, warp};

/// Where a report says that something is.
fn line(site: &Site) -> (&'static str, u32, Dim3) {
    (site.at.file(), site.at.line(), site.thread)
}

/// A pointer that the blocks of a test share.
struct Pointer<T>(*mut T);

// SAFETY: the tests' kernels touch what the emulator allows them.
unsafe impl<T> Sync for Pointer<T> {}

impl<T> Pointer<T> {
    fn get(&self) -> *mut T {
        self.0
    }
}

#[test]
fn every_thread_of_every_block_runs_once() {
    let launch = Launch::new((3, 2, 2), (4, 5, 1));
    let counts: Vec<AtomicU32> = (0..3 * 2 * 2 * 20).map(|_| AtomicU32::new(0)).collect();
    run(&launch, || {
        let (x, y) = thread::index_2d();
        let z = thread::block_idx_z();
        assert_eq!((thread::grid_dim_x(), thread::block_dim_y()), (3, 5));
        counts[((z * 10 + y) * 12 + x) as usize].fetch_add(1, Ordering::Relaxed);
    })
    .unwrap();
    assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
}

/// Each thread reads what its neighbour wrote before the barrier, twice over.
#[test]
fn a_barrier_makes_shared_writes_visible() {
    let launch = Launch::new((4, 1, 1), (64, 1, 1)).with_shared_bytes(64 * 4);
    let wrong = AtomicU32::new(0);
    run(&launch, || {
        let me = thread::thread_idx_x();
        // SAFETY: the launch provides 64 words; each is written before the barrier that
        // precedes its reads, and indices stay below 64.
        unsafe {
            let words = shared_array![u32; 64];
            for round in 0..2 {
                words.wrapping_add(me as usize).write(round * 100 + me);
                thread::sync_threads();
                let neighbour = (me + 1) % 64;
                if words.wrapping_add(neighbour as usize).read() != round * 100 + neighbour {
                    wrong.fetch_add(1, Ordering::Relaxed);
                }
                thread::sync_threads();
            }
        }
    })
    .unwrap();
    assert_eq!(wrong.into_inner(), 0);
}

#[test]
fn a_barrier_that_some_threads_miss_is_an_error() {
    let launch = Launch::new((1, 1, 1), (8, 1, 1));
    let at = line!() + 4;
    let result = run(&launch, || {
        if thread::thread_idx_x() < 5 {
            // SAFETY: none: this is the mistake under test.
            unsafe { thread::sync_threads() };
        }
    });
    let Err(EmulationError::BarrierDivergence { waits, ended, waiting: 5, finished: 3 }) = result
    else {
        panic!("{result:?}");
    };
    assert_eq!(line(&waits), (file!(), at, (0, 0, 0)));
    assert_eq!(ended, (5, 0, 0));
}

#[test]
fn threads_at_different_barriers_are_an_error() {
    let launch = Launch::new((1, 1, 1), (8, 1, 1));
    let at = line!() + 5;
    let result = run(&launch, || {
        let early = thread::thread_idx_x() < 5;
        if early {
            // SAFETY: none: this is the mistake under test.
            unsafe { thread::sync_threads() };
        }
        if !early {
            // SAFETY: none: this is the mistake under test.
            unsafe { thread::sync_threads() };
        }
    });
    let Err(EmulationError::DifferentBarriers { first, second }) = result else {
        panic!("{result:?}");
    };
    assert_eq!(line(&first), (file!(), at, (0, 0, 0)));
    assert_eq!(line(&second), (file!(), at + 4, (5, 0, 0)));
}

#[test]
fn a_read_beyond_a_buffer_is_an_error() {
    let data = [1f32; 10];
    let launch = Launch::new((1, 1, 1), (11, 1, 1)).with_buffer(Buffer::input("X", &data));
    let at = line!() + 4;
    let from = Pointer(data.as_ptr().cast_mut());
    let result = run(&launch, || {
        // SAFETY: thread 10 reads beyond the buffer, which the emulator stops.
        let _ = unsafe { global(from.get()).wrapping_add(thread::index_1d() as usize).read() };
    });
    let Err(EmulationError::GlobalOutOfBounds { access, buffer: "X", element: 10, elements: 10 }) =
        result
    else {
        panic!("{result:?}");
    };
    assert_eq!(access.kind, AccessKind::Read);
    assert_eq!(line(&access.site), (file!(), at, (10, 0, 0)));
}

#[test]
fn a_write_before_a_buffer_and_one_to_an_input_are_errors() {
    let mut data = [0f64; 4];
    let launch = Launch::new((1, 1, 1), (1, 1, 1)).with_buffer(Buffer::output("Y", &mut data));
    let to = Pointer(data.as_mut_ptr());
    let at = line!() + 3;
    let result = run(&launch, || {
        // SAFETY: none: the emulator stops it.
        unsafe { global_mut(to.get()).wrapping_add(usize::MAX - 1).write(1.0) };
    });
    let Err(EmulationError::GlobalOutOfBounds { access, buffer: "Y", element: -2, elements: 4 }) =
        result
    else {
        panic!("{result:?}");
    };
    assert_eq!(line(&access.site), (file!(), at, (0, 0, 0)));

    let launch = Launch::new((1, 1, 1), (1, 1, 1)).with_buffer(Buffer::input("Y", &data));
    let at = line!() + 3;
    let result = run(&launch, || {
        // SAFETY: none: the emulator stops it.
        unsafe { global_mut(to.get()).wrapping_add(3).write(1.0) };
    });
    let Err(EmulationError::ReadOnly { access, buffer: "Y", element: 3 }) = result else {
        panic!("{result:?}");
    };
    assert_eq!(line(&access.site), (file!(), at, (0, 0, 0)));
    assert_eq!(data, [0.0; 4]);
}

#[test]
fn two_threads_that_write_one_element_are_an_error() {
    let mut data = [0u32; 8];
    let launch = Launch::new((2, 1, 1), (4, 1, 1)).with_buffer(Buffer::output("Y", &mut data));
    let to = Pointer(data.as_mut_ptr());
    let at = line!() + 5;
    let result = run(&launch, || {
        let me = thread::index_1d() as usize;
        // SAFETY: element `me` is this thread's own, 7 the mistake under test.
        unsafe {
            global_mut(to.get()).wrapping_add(me).write(1);
            if me == 5 || me == 4 {
                global_mut(to.get()).wrapping_add(6).write(2);
            }
        }
    });
    let Err(EmulationError::OverlappingWrites { first, second, buffer: "Y", element: 6 }) = result
    else {
        panic!("{result:?}");
    };
    assert_eq!(line(&first.site), (file!(), at + 2, (0, 0, 0)));
    assert_eq!(line(&second.site), (file!(), at + 2, (1, 0, 0)));
    assert_eq!((first.site.block, second.site.block), ((1, 0, 0), (1, 0, 0)));
}

#[test]
fn a_race_on_shared_memory_names_both_lines() {
    let launch = Launch::new((1, 1, 1), (8, 1, 1)).with_shared_bytes(8 * 8);
    let at = line!() + 6;
    let result = run(&launch, || {
        let me = thread::thread_idx_x() as usize;
        // SAFETY: in bounds; the missing barrier is the mistake under test.
        unsafe {
            let words = shared_array![f64; 8];
            words.wrapping_add(me).write(1.0);
            if me == 3 {
                let _ = words.wrapping_add(2).read();
            }
        }
    });
    let Err(EmulationError::Race { first, second, offset: 16 }) = result else {
        panic!("{result:?}");
    };
    assert_eq!((first.kind, second.kind), (AccessKind::Write, AccessKind::Read));
    assert_eq!(line(&first.site), (file!(), at, (2, 0, 0)));
    assert_eq!(line(&second.site), (file!(), at + 2, (3, 0, 0)));
    let text = result.unwrap_err().to_string();
    assert!(text.contains(&format!("emulate/tests.rs:{at}")), "{text}");
}

/// The reader runs first here, and reads what nobody has written yet: still a race.
#[test]
fn a_read_that_overtakes_its_write_is_a_race() {
    let launch = Launch::new((1, 1, 1), (8, 1, 1)).with_shared_bytes(8 * 4);
    let at = line!() + 7;
    let result = run(&launch, || {
        let me = thread::thread_idx_x() as usize;
        // SAFETY: in bounds; the missing barrier is the mistake under test.
        unsafe {
            let words = shared_array![u32; 8];
            if me == 0 {
                let _ = words.wrapping_add(7).read();
            }
            words.wrapping_add(me).write(1);
        }
    });
    let Err(EmulationError::Race { first, second, offset: 28 }) = result else {
        panic!("{result:?}");
    };
    assert_eq!((first.kind, second.kind), (AccessKind::Read, AccessKind::Write));
    assert_eq!(line(&first.site), (file!(), at, (0, 0, 0)));
    assert_eq!(line(&second.site), (file!(), at + 2, (7, 0, 0)));
}

#[test]
fn a_read_of_what_nobody_wrote_is_an_error() {
    let launch = Launch::new((1, 1, 1), (4, 1, 1)).with_shared_bytes(8 * 4);
    let at = line!() + 8;
    let result = run(&launch, || {
        let me = thread::thread_idx_x() as usize;
        // SAFETY: in bounds; words from 4 on are never written, the mistake under test.
        unsafe {
            let words = shared_array![u32; 8];
            words.wrapping_add(me).write(1);
            thread::sync_threads();
            let _ = words.wrapping_add(me + 2).read();
        }
    });
    let Err(EmulationError::Uninitialised { access, offset: 16 }) = result else {
        panic!("{result:?}");
    };
    assert_eq!(line(&access.site), (file!(), at, (2, 0, 0)));
}

#[test]
fn shared_memory_has_an_end() {
    let launch = Launch::new((1, 1, 1), (4, 1, 1)).with_shared_bytes(4 * 4);
    let at = line!() + 5;
    let result = run(&launch, || {
        let me = thread::thread_idx_x() as usize;
        // SAFETY: none for thread 3, which the emulator stops.
        unsafe {
            shared_array![u32; 4].wrapping_add(me + 1).write(1);
        }
    });
    let Err(EmulationError::SharedOutOfBounds { access, offset: 16, bytes: 16 }) = result else {
        panic!("{result:?}");
    };
    assert_eq!(line(&access.site), (file!(), at, (3, 0, 0)));

    let at = line!() + 3;
    let result = run(&launch, || {
        // SAFETY: none: the launch provides four words.
        let _ = unsafe { shared_array![u32; 5] };
    });
    let Err(EmulationError::SharedTooSmall { site, needed: 20, bytes: 16 }) = result else {
        panic!("{result:?}");
    };
    assert_eq!(line(&site), (file!(), at, (0, 0, 0)));
}

#[test]
fn an_address_must_suit_its_type() {
    let launch = Launch::new((1, 1, 1), (1, 1, 1)).with_shared_bytes(32);
    let at = line!() + 3;
    let result = run(&launch, || {
        // SAFETY: none: the emulator stops it.
        unsafe { shared_array![u32; 8].wrapping_add(1).cast::<u64>().write(1) };
    });
    let Err(EmulationError::Misaligned { access, align: 8 }) = result else {
        panic!("{result:?}");
    };
    assert_eq!(line(&access.site), (file!(), at, (0, 0, 0)));
}

/// Without checks the same race runs through.
#[test]
fn checks_can_be_turned_off() {
    let checked = Launch::new((1, 1, 1), (8, 1, 1)).with_shared_bytes(8 * 4);
    let unchecked = Launch { checked: false, ..checked.clone() };
    let kernel = || {
        let me = thread::thread_idx_x() as usize;
        // SAFETY: in bounds; on the emulator threads run one after the other.
        unsafe {
            let words = shared_array![u32; 8];
            words.wrapping_add(me).write(1);
            let _ = words.wrapping_add((me + 7) % 8).read();
        }
    };
    assert!(run(&checked, kernel).is_err());
    assert_eq!(run(&unchecked, kernel), Ok(()));
}

/// A barrier that is skipped is a barrier that the kernel lacks.
#[test]
fn either_barrier_of_a_loop_is_missed() {
    let kernel = || {
        let me = thread::thread_idx_x() as usize;
        // SAFETY: in bounds, with a barrier between writes and reads.
        unsafe {
            let words = shared_array![u32; 8];
            for _ in 0..2 {
                words.wrapping_add(me).write(1);
                thread::sync_threads();
                let _ = words.wrapping_add((me + 1) % 8).read();
                thread::sync_threads();
            }
        }
    };
    let launch = Launch::new((1, 1, 1), (8, 1, 1)).with_shared_bytes(8 * 4);
    assert_eq!(run(&launch, kernel), Ok(()));
    for skipped in [0, 1, 2] {
        let result = run(&Launch { skip_barrier: Some(skipped), ..launch.clone() }, kernel);
        assert!(matches!(result, Err(EmulationError::Race { .. })), "{skipped}: {result:?}");
    }
    // The last one orders nothing.
    assert_eq!(run(&Launch { skip_barrier: Some(3), ..launch }, kernel), Ok(()));
}

/// Accesses and barriers of a thread come in its order, and each says where.
#[test]
fn an_observer_sees_every_access_and_barrier() {
    #[derive(Default)]
    struct Log(std::sync::Mutex<Vec<Event>>);
    impl Observer for Log {
        fn observe(&self, event: Event) {
            self.0.lock().unwrap().push(event);
        }
    }
    let (input, log) = ([3u32, 4], Log::default());
    let launch = Launch::new((2, 1, 1), (2, 1, 1))
        .with_shared_bytes(8)
        .with_buffer(Buffer::input("input", &input));
    run_observed(&launch, &log, || {
        let me = thread::thread_idx_x() as usize;
        // SAFETY: two threads, two words in each memory, written before the barrier.
        unsafe {
            let words = shared_array![u32; 2];
            words.wrapping_add(me).write(global(input.as_ptr()).wrapping_add(me).read());
            thread::sync_threads();
            assert_eq!(words.wrapping_add(1 - me).read(), input[1 - me]);
        }
    })
    .unwrap();
    let events = log.0.into_inner().unwrap();
    assert_eq!(events.len(), 2 * 2 * 4);
    for block in 0..2 {
        for (me, thread) in [(0, 0), (1, 1)] {
            let mine = |event: &&Event| event.block.0 == block && event.thread.0 == thread;
            let actions: Vec<Action> = events.iter().filter(mine).map(|e| e.action).collect();
            let address = input.as_ptr().addr() + 4 * me;
            assert_eq!(
                actions,
                [
                    Action::Global { kind: AccessKind::Read, address, bytes: 4 },
                    Action::Shared { kind: AccessKind::Write, offset: 4 * me, bytes: 4 },
                    Action::Barrier,
                    Action::Shared { kind: AccessKind::Read, offset: 4 * (1 - me), bytes: 4 },
                ]
            );
        }
    }
}

/// 70 threads: two warps and one that has six lanes.
#[test]
fn a_reduction_by_shuffles_is_the_serial_sum() {
    let value = |thread: u32| (thread * thread % 31) as f32;
    let launch = Launch::new((2, 1, 1), (7, 10, 1));
    let wrong = AtomicU32::new(0);
    run(&launch, || {
        let me = thread::thread_idx_y() * 7 + thread::thread_idx_x();
        assert_eq!(warp::lane_id(), me % 32);
        let lanes = (70 - me / 32 * 32).min(32);
        let mask = warp::FULL >> (32 - lanes);
        // SAFETY: every lane that its warp has is in the mask and comes here.
        unsafe {
            let mut sum = value(me);
            if lanes == 32 {
                for bits in [16, 8, 4, 2, 1] {
                    sum += warp::shuffle_xor(mask, sum, bits);
                }
            } else {
                sum = (0..lanes).map(|lane| warp::shuffle_idx(mask, value(me), lane)).sum();
            }
            let first = me / 32 * 32;
            let right: f32 = (first..first + lanes).map(value).sum();
            wrong.fetch_add(u32::from(sum != right), Ordering::Relaxed);
            let below = warp::shuffle_up(mask, me, 1);
            assert_eq!(below, if me.is_multiple_of(32) { me } else { me - 1 });
        }
    })
    .unwrap();
    assert_eq!(wrong.into_inner(), 0);
}

/// Four matrices whose elements are their own places.
#[test]
fn matrices_are_distributed_as_they_are_and_transposed() {
    #[repr(C, align(16))]
    struct Row([u16; 8]);
    let launch = Launch::new((1, 1, 1), (32, 1, 1)).with_shared_bytes(512);
    run(&launch, || {
        let lane = warp::lane_id();
        // SAFETY: 512 bytes; each lane writes its row, a barrier comes before they are read, and all lanes are here.
        unsafe {
            let rows = shared::launch_sized::<Row>();
            let element = |row: u32, col: u32| u16::try_from(8 * row + col).unwrap();
            let row = rows.wrapping_add(lane as usize);
            row.write(Row([0, 1, 2, 3, 4, 5, 6, 7].map(|col| element(lane, col))));
            thread::sync_threads();
            let at = SharedAddress::new(row);
            let pair = |low: u16, high: u16| u32::from(high) << 16 | u32::from(low);
            let (group, first) = (lane / 4, lane % 4 * 2);
            let rows = [0, 8, 16, 24].map(|row| row + group);
            let straight = rows.map(|row| pair(element(row, first), element(row, first + 1)));
            assert_eq!(mma::ldmatrix_x4(at), straight);
            let rows = [0, 8, 16, 24].map(|row| row + first);
            let transposed = rows.map(|row| pair(element(row, group), element(row + 1, group)));
            assert_eq!(mma::ldmatrix_x4_transposed(at), transposed);
        }
    })
    .unwrap();
}

#[test]
fn votes_see_the_lanes_of_their_mask() {
    let launch = Launch::new((1, 1, 1), (64, 1, 1));
    run(&launch, || {
        let me = thread::thread_idx_x();
        let lane = warp::lane_id();
        // SAFETY: odd and even lanes go different ways, each with its own mask.
        unsafe {
            if lane.is_multiple_of(2) {
                assert_eq!(
                    warp::ballot(0x5555_5555, me < 40),
                    if me < 32 { 0x5555_5555 } else { 0x55 }
                );
                assert!(warp::all(0x5555_5555, lane < 31));
            } else {
                assert!(!warp::any(0xaaaa_aaaa, lane.is_multiple_of(2)));
            }
            thread::sync_threads();
            assert_eq!(
                warp::shuffle_down(warp::FULL, lane, 30),
                if lane < 2 { lane + 30 } else { lane }
            );
        }
    })
    .unwrap();
}

#[test]
fn a_lane_that_misses_its_mask_is_an_error() {
    let launch = Launch::new((1, 1, 1), (32, 1, 1));
    let at = line!() + 4;
    let result = run(&launch, || {
        if warp::lane_id() != 9 {
            // SAFETY: none: lane 9 is missing, the mistake under test.
            let _ = unsafe { warp::ballot(warp::FULL, true) };
        }
    });
    let Err(EmulationError::WarpDivergence { site, lane: 9, fault: WarpFault::Elsewhere, .. }) =
        result
    else {
        panic!("{result:?}");
    };
    assert_eq!(line(&site), (file!(), at, (0, 0, 0)));

    let result = run(&launch, || {
        // SAFETY: none: half of the lanes are not in their mask.
        let _ = unsafe { warp::shuffle_idx(0xffff, 1u32, 0) };
    });
    let Err(EmulationError::WarpDivergence { lane: 16, fault: WarpFault::NotInMask, .. }) = result
    else {
        panic!("{result:?}");
    };

    let result = run(&launch, || {
        if warp::lane_id() < 16 {
            // SAFETY: none: lane 31 is no source in this mask.
            let _ = unsafe { warp::shuffle_idx(0xffff, 1u32, 31) };
        }
    });
    let Err(EmulationError::WarpDivergence { lane: 31, fault: WarpFault::NoSource, .. }) = result
    else {
        panic!("{result:?}");
    };
}

mod clusters;
mod copies;
mod global_memory;
mod sm90;
mod tiles;
