//! Instructions of compute capability 9.0: what is right runs in every order of events, and each defect is found.

use super::*;
use crate::arch::sm80::convert;
use crate::arch::sm90::mbarrier::Barrier;
use crate::arch::sm90::wgmma::{Accumulators, Descriptor};
use crate::arch::sm90::{bulk, mbarrier, registers, tensor, warpgroup, wgmma};
use crate::memory::{Shared, SharedAddress};
use crate::{atomic, tensor_map};

/// The block's shared memory, of `WORDS` words.
const WORDS: usize = 512;

pub(super) fn launch() -> Launch {
    Launch::new((1, 1, 1), (1, 1, 1)).with_shared_bytes(WORDS * 4)
}

pub(super) fn shared() -> Shared<u32> {
    // SAFETY: the launch provides the words; what a test does wrong with them, the emulator stops.
    unsafe { shared_array![u32; WORDS] }
}

fn shared_address<T>() -> SharedAddress<T> {
    SharedAddress::new(shared()).cast()
}

#[test]
fn addresses_of_the_shared_window_are_aligned_like_the_memory_and_lead_back_to_it() {
    run(&launch(), || {
        let base = SharedAddress::new(shared());
        assert!(base.get().is_multiple_of(1024) && base.get() > 0);
        let fourth = base.wrapping_add(4);
        assert_eq!(fourth.get(), base.get() + 16);
        assert!(fourth == SharedAddress::new(shared().wrapping_add(4)));
        assert_eq!(base.xor(48).get(), base.get() + 48);
        assert_eq!(fourth.cast::<u8>().xor(48).get(), base.get() + 32);
        for word in 0..8_u32 {
            // SAFETY: the launch provides the words.
            unsafe { shared().wrapping_add(word as usize).write(word) };
        }
        // SAFETY: the words at 16 bytes were written above.
        assert_eq!(unsafe { base.xor(16).read_quad() }, [4, 5, 6, 7]);
    })
    .unwrap();
}

#[test]
fn an_address_before_shared_memory_is_out_of_bounds() {
    let result = run(&launch(), || {
        let before = SharedAddress::new(shared()).wrapping_add(4_usize.wrapping_neg());
        // SAFETY: none: this is the mistake under test.
        let _ = unsafe { before.read_quad() };
    });
    let Err(EmulationError::SharedOutOfBounds { offset: -16, bytes, .. }) = result else {
        panic!("{result:?}");
    };
    assert_eq!(bytes, WORDS * 4);
}

const ORDERS: [Order; 6] = [
    Order::Late,
    Order::Early,
    Order::Starve(0),
    Order::Random(1),
    Order::Random(2),
    Order::Random(3),
];

/// What a test's kernel does wrong; `Nothing` is right.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Planted {
    Nothing,
    NoWait,
    OtherParity,
    FewBytes,
    ManyBytes,
    NoInit,
    NoSync,
    TwoArrivals,
    NoProxyFence,
    NoBarrier,
    NoCommit,
    NoProductFence,
    Touched,
    NoRead,
}

use Planted::*;

/// 64 words at the start, then a barrier.
const BARRIER: usize = 1024;

pub(super) fn barrier() -> SharedAddress<Barrier> {
    SharedAddress::new(shared()).cast::<u8>().wrapping_add(BARRIER).cast()
}

/// One thread copies 256 bytes in bulk, twice to the same place; all 64 threads read them.
fn copies(planted: Planted, order: Order) -> Result<(), EmulationError> {
    let words: Vec<u32> = (0..128).collect();
    let from = Pointer(words.as_ptr().cast_mut());
    let launch = Launch { block: (64, 1, 1), order, ..launch().asynchronous() };
    let launch = launch.with_buffer(Buffer::input("X", &words));
    run(&launch, || {
        let me = thread::thread_idx_x();
        // SAFETY: the launch provides what is accessed; what is planted, the emulator stops.
        unsafe {
            if me == 0 && planted != NoInit {
                mbarrier::init(barrier(), 1);
                mbarrier::fence_init();
            }
            if planted != NoSync {
                thread::sync_threads();
            }
            for round in 0..2 {
                if me == 0 {
                    let wrong = |of: Planted| if planted == of { 16 } else { 0 };
                    let bytes = 256 + wrong(ManyBytes) - wrong(FewBytes);
                    mbarrier::arrive_and_expect_tx(barrier(), bytes);
                    if planted == TwoArrivals {
                        mbarrier::arrive(barrier());
                    }
                    let from = global(from.get().cast_const()).wrapping_add(64 * round as usize);
                    bulk::copy(shared_address(), from.cast(), 256, barrier());
                }
                if planted != NoWait {
                    mbarrier::wait(barrier(), round ^ u32::from(planted == OtherParity));
                }
                let found = shared().wrapping_add(me as usize).read();
                assert_eq!(found, 64 * round + me);
                if planted != NoProxyFence {
                    bulk::fence_proxy_async();
                }
                if planted != NoBarrier {
                    thread::sync_threads();
                }
            }
        }
    })
}

#[test]
fn a_copy_in_bulk_is_read_after_its_phase_and_overwritten_after_its_reads() {
    for order in ORDERS {
        assert_eq!(copies(Nothing, order), Ok(()), "{order:?}");
        for (planted, expected) in [
            (NoWait, "too early"),
            (OtherParity, "too early"),
            (FewBytes, "bytes too many"),
            (ManyBytes, "deadlock"),
            (NoInit, "which nobody has initialised"),
            (TwoArrivals, "has all its arrivals"),
            (NoProxyFence, "no proxy fence"),
        ] {
            let error = copies(planted, order).expect_err("a planted defect").to_string();
            // By chance the read comes before the copy.
            let early = planted == NoWait || planted == OtherParity;
            let before =
                early && matches!(order, Order::Random(_)) && error.contains("nobody wrote");
            assert!(before || error.contains(expected), "{planted:?} {order:?}: {error}");
        }
    }
    // The second copy is started before others have read what the first one loaded.
    let error = copies(NoBarrier, Order::Late).unwrap_err();
    assert!(matches!(error, EmulationError::PendingCopy { .. }), "{error}");
    let error = copies(NoBarrier, Order::Starve(0)).unwrap_err();
    assert!(matches!(error, EmulationError::PendingCopy { .. }), "{error}");
    let error = copies(NoSync, Order::Late).unwrap_err();
    assert!(matches!(error, EmulationError::NotSet { .. }), "{error}");
}

/// Who arrives in a phase must know that the one before has ended.
#[test]
fn an_arrival_in_a_phase_that_may_not_have_begun_is_found() {
    let launch = Launch { block: (2, 1, 1), ..launch().asynchronous() };
    let error = run(&launch, || {
        // SAFETY: the launch has the barrier; the second round is the mistake under test.
        unsafe {
            if thread::thread_idx_x() == 0 {
                mbarrier::init(barrier(), 2);
            }
            thread::sync_threads();
            mbarrier::arrive(barrier());
            mbarrier::arrive(barrier());
        }
    });
    let error = error.unwrap_err();
    assert!(matches!(error, EmulationError::PhaseUnknown { phase: 1, .. }), "{error}");
}

/// Another thread than the one that initialised a barrier waits for it, behind a barrier of the block.
fn waits_for_another(fenced: bool, strict: Strict) -> Result<(), EmulationError> {
    let launch = Launch { block: (2, 1, 1), strict, ..launch().asynchronous() };
    run(&launch, || {
        // SAFETY: the launch has the barrier.
        unsafe {
            if thread::thread_idx_x() == 0 {
                mbarrier::init(barrier(), 1);
                if fenced {
                    mbarrier::fence_init();
                }
            }
            thread::sync_threads();
            if thread::thread_idx_x() == 0 {
                mbarrier::arrive(barrier());
            }
            mbarrier::wait(barrier(), 0);
        }
    })
}

#[test]
fn strictly_other_threads_use_a_barrier_behind_the_fence_of_its_initialisation() {
    let strict = Strict { scopes: false, init: true };
    assert_eq!(waits_for_another(false, Strict::default()), Ok(()));
    assert_eq!(waits_for_another(true, strict), Ok(()));
    let error = waits_for_another(false, strict).unwrap_err();
    assert!(matches!(error, EmulationError::NotSet { .. }), "{error}");
}

/// A warpgroup multiplies ones: its tiles are written by its threads.
fn products(planted: Planted, order: Order) -> Result<(), EmulationError> {
    let launch = Launch { block: (128, 1, 1), order, shared_bytes: 6 * 1024, ..launch() };
    let (result, launch) = (AtomicU32::new(0), launch.asynchronous());
    run(&launch, || {
        let me = thread::thread_idx_x() as usize;
        // SAFETY: the launch provides 6 KiB, 2 of A and 4 of B; what is planted, the emulator stops.
        unsafe {
            let words = crate::shared::launch_sized::<[u32; 1536]>().cast::<u32>();
            for at in 0..12 {
                // Two ones of f16.
                words.wrapping_add(128 * at + me).write(0x3c00_3c00);
            }
            if planted != NoProxyFence {
                bulk::fence_proxy_async();
            }
            if planted != NoBarrier {
                warpgroup::sync(1);
            }
            let start = SharedAddress::new(words).get();
            // Rows of 16 bytes in groups of eight; from one group to the next 256 bytes, to the next steps 128.
            let tile =
                |at: u32| Descriptor::from_bits(u64::from((start + at) >> 4) | 8 << 16 | 16 << 32);
            let mut acc: Accumulators<8> = [[1.0; 8]; 8];
            if planted == NoProductFence {
                wgmma::m64n128k16_f32_f16_f16::<true, false, false>(&mut acc, tile(0), tile(2048));
            } else {
                wgmma::arrive_m64n128k16_f32_f16_f16::<true, false, false>(
                    &mut acc,
                    tile(0),
                    tile(2048),
                );
            }
            if planted == Touched {
                acc[3][3] = 0.0;
            }
            wgmma::m64n128k16_f32_f16_f16::<true, false, false>(&mut acc, tile(0), tile(2048));
            if planted != NoCommit {
                wgmma::commit_group();
            }
            if planted != NoWait {
                wgmma::wait_group_n128::<0>(&mut acc);
            }
            if acc.iter().flatten().all(|&sum| sum == 33.0) {
                result.fetch_add(1, Ordering::Relaxed);
            }
        }
    })?;
    assert_eq!(result.into_inner(), 128);
    Ok(())
}

#[test]
fn a_product_reads_what_was_written_and_fenced_and_its_sums_come_at_the_wait() {
    for order in ORDERS {
        assert_eq!(products(Nothing, order), Ok(()), "{order:?}");
        for (planted, expected) in [
            (NoProxyFence, "no proxy fence"),
            (NoCommit, "was not committed"),
            (NoProductFence, "no wgmma.fence"),
            (Touched, "was not waited for"),
            (NoWait, "was not waited for"),
        ] {
            let error = products(planted, order).expect_err("a planted defect").to_string();
            assert!(error.contains(expected), "{planted:?} {order:?}: {error}");
        }
    }
    let error = products(NoBarrier, Order::Late).unwrap_err();
    assert!(matches!(error, EmulationError::Race { .. }), "{error}");
}

/// A warpgroup multiplies ones, of which nobody wrote the first row of A, and stores the sums of the other rows, or
/// those of all.
fn rows(first: usize, wide: bool) -> Result<(), EmulationError> {
    let mut to = vec![0.0f32; 64];
    let pointer = Pointer(to.as_mut_ptr());
    let launch = Launch { block: (128, 1, 1), shared_bytes: 6 * 1024, ..launch() };
    let launch = launch.with_buffer(Buffer::output("C", &mut to)).asynchronous();
    run(&launch, || {
        let me = thread::thread_idx_x() as usize;
        // SAFETY: the launch provides 6 KiB and C; what is wrong, the emulator stops.
        unsafe {
            let words = crate::shared::launch_sized::<[u32; 1536]>().cast::<u32>();
            for at in (0..12).map(|at| 128 * at + me) {
                // The first row's two pieces of sixteen bytes.
                if !matches!(at, 0..4 | 32..36) {
                    words.wrapping_add(at).write(0x3c00_3c00);
                }
            }
            bulk::fence_proxy_async();
            warpgroup::sync(1);
            let start = SharedAddress::new(words).get();
            let tile =
                |at: u32| Descriptor::from_bits(u64::from((start + at) >> 4) | 8 << 16 | 16 << 32);
            let mut acc: Accumulators<8> = [[1.0; 8]; 8];
            for _ in 0..2 {
                wgmma::arrive_m64n128k16_f32_f16_f16::<true, false, false>(
                    &mut acc,
                    tile(0),
                    tile(2048),
                );
                wgmma::commit_group();
                wgmma::wait_group_n128::<0>(&mut acc);
            }
            // The first column, of which every fourth thread has two rows.
            for (below, register) in [(0, 0), (8, 2)] {
                let row = 16 * (me / 32) + me % 32 / 4 + below;
                let sum = 1.0 + 2.0 * acc[0][register];
                let stores = me.is_multiple_of(4) && row >= first;
                if stores && wide {
                    global_mut(pointer.get()).wrapping_add(row).write(sum);
                } else if stores {
                    let _ = convert::f16_pair(0.0, sum);
                }
            }
        }
    })?;
    let expected = if wide { 67.0 } else { 0.0 };
    assert!(to[first..].iter().all(|&sum| sum == expected), "{to:?}");
    Ok(())
}

#[test]
fn a_sum_of_what_nobody_wrote_is_no_result() {
    for wide in [true, false] {
        assert_eq!(rows(1, wide), Ok(()));
        let error = rows(0, wide).unwrap_err();
        let EmulationError::UnwrittenOperand { site, product } = &error else { panic!("{error}") };
        assert_eq!(site.thread, (0, 0, 0));
        assert!(product.line() < site.at.line(), "{error}");
    }
}

/// One thread stores a box of eight lines of 32 bytes, twice from the same place.
fn stores(planted: Planted, order: Order) -> Result<(), EmulationError> {
    let mut to = vec![0u32; 128];
    let map = |address| TensorMap {
        address,
        element_bytes: 4,
        dims: [8, 16],
        pitch: 32,
        matrices: None,
        box_dims: [8, 8],
        swizzle: Swizzle::None,
    };
    let launch = launch().with_buffer(Buffer::output("Y", &mut to)).asynchronous();
    let maps = vec![map(to.as_mut_ptr().expose_provenance())];
    let launch = Launch { block: (64, 1, 1), order, maps, ..launch };
    run(&launch, || {
        let me = thread::thread_idx_x();
        // SAFETY: the launch provides what is accessed; what is planted, the emulator stops.
        unsafe {
            let map = tensor_map!("entry", 0);
            for round in 0..2 {
                shared().wrapping_add(me as usize).write(64 * round + me);
                if planted != NoProxyFence {
                    bulk::fence_proxy_async();
                }
                if planted != NoBarrier {
                    thread::sync_threads();
                }
                if me == 0 {
                    tensor::store(map, 0, 8 * round, shared_address());
                    bulk::commit_group();
                    if planted != NoWait && (round == 0 || planted != NoRead) {
                        bulk::wait_group_read::<0>();
                    }
                }
                thread::sync_threads();
            }
        }
    })?;
    assert!(to.iter().zip(0..).all(|(&found, at)| found == at), "{to:?}");
    Ok(())
}

#[test]
fn a_store_reads_what_was_written_and_fenced_until_it_is_waited_for() {
    for order in ORDERS {
        assert_eq!(stores(Nothing, order), Ok(()), "{order:?}");
        let error = stores(NoProxyFence, order).unwrap_err();
        assert!(matches!(error, EmulationError::MissingProxyFence { .. }), "{error}");
        let error = stores(NoWait, order).unwrap_err();
        assert!(matches!(error, EmulationError::Overwrite { .. }), "{error}");
    }
    let error = stores(NoBarrier, Order::Late).unwrap_err();
    assert!(matches!(error, EmulationError::Uninitialised { .. }), "{error}");
    let error = stores(NoRead, Order::Late).unwrap_err();
    assert!(matches!(error, EmulationError::StoreAtExit { .. }), "{error}");
}

/// Two warpgroups move registers from one to the other.
fn moves_registers(releases: bool) -> Result<(), EmulationError> {
    let launch = Launch { block: (384, 1, 1), ..launch().asynchronous() };
    run(&launch, || {
        // SAFETY: whole warpgroups call these; the release that lacks is the mistake under test.
        unsafe {
            match thread::thread_idx_x() / 128 {
                0 if releases => registers::reg_dealloc::<24>(),
                0 => {}
                _ => registers::reg_alloc::<240>(),
            }
        }
    })
}

#[test]
fn registers_come_from_the_blocks_pool() {
    assert_eq!(moves_registers(true), Ok(()));
    let error = moves_registers(false).unwrap_err();
    assert!(matches!(error, EmulationError::Deadlock { .. }), "{error}");
    assert!(error.to_string().contains("255 more waits for registers"), "{error}");
}

#[test]
fn conversions_round_to_nearest_and_atomics_of_several_threads_are_no_conflict() {
    let mut words = [0u32; 3];
    let pointer = Pointer(words.as_mut_ptr());
    let launch = Launch::new((4, 1, 1), (32, 1, 1)).with_buffer(Buffer::output("X", &mut words));
    run(&launch, || {
        assert_eq!(convert::f16_pair(1.0, f32::NAN), 0x7fff_3c00);
        assert_eq!(convert::bf16_pair(1.0 + 1.0 / 256.0, -2.0), 0xc000_3f80);
        assert_eq!(convert::f16_value(0x3c01), 1.0 + 1.0 / 1024.0);
        // SAFETY: the launch has the words, and all threads update them by these.
        unsafe {
            let word = global_mut(pointer.get());
            let _ = atomic::fetch_add(word, 1);
            atomic::reduce_or(word.wrapping_add(1), 1 << thread::thread_idx_x());
            atomic::reduce_max(word.wrapping_add(2), thread::index_1d());
        }
    })
    .unwrap();
    assert_eq!(words, [128, u32::MAX, 127]);
    let result = run(&launch, || {
        // SAFETY: none: a plain write besides is the mistake under test.
        unsafe {
            let word = global_mut(pointer.get());
            if thread::index_1d() == 0 { word.write(1) } else { atomic::reduce_or(word, 1) }
        }
    });
    assert!(matches!(result, Err(EmulationError::OverlappingWrites { .. })), "{result:?}");
}

#[test]
fn an_asynchronous_instruction_in_a_launch_that_is_none_is_named() {
    let at = line!() + 1;
    let error = run(&launch(), || bulk::commit_group()).unwrap_err();
    let text = error.to_string();
    let end = format!(
        "sm90.rs:{at} executes cp.async.bulk.commit_group, in a launch that is not asynchronous"
    );
    assert!(text.starts_with("not emulated: thread (0, 0, 0) of block (0, 0, 0)"), "{text}");
    assert!(text.ends_with(&end), "{text}");
}
