//! What the emulator does with instructions of compute capability 9.0: it gives them addresses, and ends
//! the launch where one is executed.

use super::*;
use crate::arch::sm90::wgmma::Descriptor;
use crate::arch::sm90::{bulk, cluster, convert, mbarrier, registers, warpgroup, wgmma};
use crate::memory::{Shared, SharedAddress};
use crate::{atomic, tensor_map};

/// The block's shared memory, of `WORDS` words.
const WORDS: usize = 512;

fn launch() -> Launch {
    Launch::new((1, 1, 1), (1, 1, 1)).with_shared_bytes(WORDS * 4)
}

fn shared() -> Shared<u32> {
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

/// An instruction's name, and a call of it.
type Instruction = (&'static str, fn(&Pointer<u32>));

/// The body of an instruction's call.
macro_rules! call {
    (|$word:ident| $call:expr) => {
        |$word: &Pointer<u32>| {
            // SAFETY: none: no instruction is executed.
            let _ = unsafe { $call };
        }
    };
}

/// The call of a product.
macro_rules! product {
    ($name:ident, $eights:literal) => {
        call!(|_word| {
            let tile = Descriptor::from_bits(0) + 2;
            wgmma::$name::<true, false, false>(&mut [[0.0; 8]; $eights], tile, tile);
        })
    };
}

const INSTRUCTIONS: [Instruction; 30] = [
    ("atom.global.add.u32", call!(|word| atomic::fetch_add(global_mut(word.get()), 1))),
    ("red.global.or.b32", call!(|word| atomic::reduce_or(global_mut(word.get()), 1))),
    ("red.global.max.u32", call!(|word| atomic::reduce_max(global_mut(word.get()), 1))),
    (
        "cp.async.bulk",
        call!(|word| bulk::copy(
            shared_address(),
            global(word.get().cast_const().cast()),
            16,
            shared_address()
        )),
    ),
    ("fence.proxy.async", |_| bulk::fence_proxy_async()),
    ("cp.async.bulk.commit_group", |_| bulk::commit_group()),
    ("cp.async.bulk.wait_group.read", |_| bulk::wait_group_read::<0>()),
    ("mov.u32 %cluster_ctarank", |_| {
        let _ = cluster::rank();
    }),
    ("barrier.cluster", call!(|_word| cluster::sync())),
    ("mapa.shared::cluster", call!(|_word| cluster::place_in(shared_address::<u8>(), 0))),
    ("cvt.rn.f16x2.f32", |_| {
        let _ = convert::f16_pair(1.0, 2.0);
    }),
    ("cvt.rn.bf16x2.f32", |_| {
        let _ = convert::bf16_pair(1.0, 2.0);
    }),
    ("cvt.f32.f16", |_| {
        let _ = convert::f16_value(0);
    }),
    ("mbarrier.init", call!(|_word| mbarrier::init(shared_address(), 1))),
    ("fence.mbarrier_init", |_| mbarrier::fence_init()),
    (
        "mbarrier.arrive.expect_tx",
        call!(|_word| mbarrier::arrive_and_expect_tx(shared_address(), 16)),
    ),
    ("mbarrier.arrive", call!(|_word| mbarrier::arrive(shared_address()))),
    ("mbarrier.try_wait.parity", call!(|_word| mbarrier::wait(shared_address(), 0))),
    ("setmaxnreg.dec", call!(|_word| registers::reg_dealloc::<24>())),
    ("setmaxnreg.inc", call!(|_word| registers::reg_alloc::<240>())),
    ("cvta.param.u64", |_| {
        let _ = tensor_map!("entry", 0);
    }),
    ("bar.sync", call!(|_word| warpgroup::sync(1))),
    ("stmatrix", call!(|_word| warpgroup::stmatrix_x4(shared_address(), [0; 4]))),
    ("wgmma.commit_group", call!(|_word| wgmma::commit_group())),
    ("wgmma.wait_group", call!(|_word| wgmma::wait_group_n128::<0>(&mut [[0.0; 8]; 8]))),
    ("wgmma.wait_group", call!(|_word| wgmma::wait_group_n256::<0>(&mut [[0.0; 8]; 16]))),
    ("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", product!(m64n128k16_f32_f16_f16, 8)),
    (
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16",
        product!(arrive_m64n256k16_f32_f16_f16, 16),
    ),
    (
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16",
        product!(arrive_m64n128k16_f32_bf16_bf16, 8),
    ),
    (
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16",
        product!(m64n256k16_f32_bf16_bf16, 16),
    ),
];

/// A made-up result of one of these would look like a kernel's.
#[test]
fn an_instruction_that_is_not_emulated_ends_the_launch_and_is_named() {
    for (name, execute) in INSTRUCTIONS {
        for checked in [true, false] {
            let mut words = [0u32; 4];
            let pointer = Pointer(words.as_mut_ptr());
            let went_on = AtomicU32::new(0);
            let launch = Launch { checked, ..launch() };
            let result = run(&launch, || {
                execute(&pointer);
                went_on.fetch_add(1, Ordering::Relaxed);
            });
            let Err(EmulationError::NotEmulated { site, instruction }) = result else {
                panic!("{name}: {result:?}");
            };
            assert_eq!(instruction, name);
            assert!(site.at.file().ends_with("sm90.rs"), "{name}: {site}");
            assert_eq!(went_on.into_inner(), 0, "{name}");
            assert_eq!(words, [0; 4], "{name}");
        }
    }
}

#[test]
fn the_report_of_an_instruction_that_is_not_emulated_says_who_and_where() {
    let at = line!() + 1;
    let error = run(&launch(), || bulk::commit_group()).unwrap_err();
    let text = error.to_string();
    let end = format!("sm90.rs:{at} executes cp.async.bulk.commit_group, which runs on a GPU only");
    assert!(text.starts_with("not emulated: thread (0, 0, 0) of block (0, 0, 0)"), "{text}");
    assert!(text.ends_with(&end), "{text}");
}
