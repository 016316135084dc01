//! What the cores of this machine multiply and add at most, measured where nothing but registers is
//! used.
//!
//! Each thread runs chains of fused multiply-adds that do not depend on each other, more of them than
//! a core has units times cycles of latency. Nothing is loaded, nothing stored: what is measured is
//! the units at the clock that they have at that moment.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[cfg(target_arch = "x86_64")]
use cpu_gemm::{TileLoop, tile_loop};
#[cfg(target_arch = "x86_64")]
use gemm_spec::with_gemm_types;
use gemm_spec::{AccType, Types};
use serde::{Deserialize, Serialize};

use crate::cpu::CpuContext;

/// How long one try lasts. Long against the start of threads, short against a slice of time that the
/// system gives another program.
const TRY: Duration = Duration::from_millis(2);
/// Tries of each kind of vectors, of which the best counts: what disturbs can only slow down.
const TRIES: usize = 12;

/// What stands for the vectors where matrix units gave the peak.
pub(crate) const MATRIX_UNITS: &str = "amx";

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuPeak {
    /// Operations a second of all threads together.
    pub flops: f64,
    /// The vectors that gave it.
    pub vectors: String,
    /// Threads that worked at once.
    pub threads: usize,
}

/// Measures that many threads of the context at once, with each kind of vectors that this CPU has;
/// the best counts, with that of matrix units if the rate of these is asked for. `None` for integers without
/// them, which have no fused multiply-add.
///
/// It takes some 30 ms for each kind.
#[must_use]
pub fn measure(
    context: &CpuContext,
    threads: usize,
    types: Types,
    matrix_units: bool,
) -> Option<CpuPeak> {
    let threads = threads.clamp(1, context.threads());
    let tiles = if matrix_units { tiles(types) } else { None };
    let best = kinds(types)
        .into_iter()
        .chain(tiles)
        .map(|kind| CpuPeak {
            flops: best_rate(context, threads, &kind),
            vectors: kind.vectors.to_owned(),
            threads,
        })
        .max_by(|one, other| one.flops.total_cmp(&other.flops));
    best.filter(|peak| peak.flops > 0.0)
}

/// A loop over registers.
struct Kind {
    vectors: &'static str,
    /// Operations in one step: lanes times chains times two.
    flops_per_step: usize,
    /// Does that many steps.
    run: fn(u64),
}

fn best_rate(context: &CpuContext, threads: usize, kind: &Kind) -> f64 {
    best_of(|steps| together(context, threads, kind, steps)).map_or(0.0, |(steps, time)| {
        let flops = kind.flops_per_step as f64 * steps as f64 * threads as f64;
        flops / time.as_secs_f64()
    })
}

/// How long threads took for their steps.
#[derive(Clone, Copy)]
struct Took {
    /// From the first one's start to the last one's end.
    all: Duration,
    /// The one that was done soonest.
    one: Duration,
}

/// The shortest time of [`TRIES`] tries, of as many steps as keep a thread busy for [`TRY`] in each of them, with that
/// number.
///
/// That all threads together have taken as long says nothing: on a busy machine one of them may begin when another has
/// ended.
fn best_of(mut time_of: impl FnMut(u64) -> Took) -> Option<(u64, Duration)> {
    (10..=40).map(|log| 1 << log).find_map(|steps| {
        let shortest = (0..TRIES).try_fold(Duration::MAX, |shortest, _| {
            let took = time_of(steps);
            (took.one >= TRY).then_some(shortest.min(took.all))
        });
        shortest.map(|time| (steps, time))
    })
}

/// Has that many threads do steps. They start together: rates that were taken one after the other would add up to more
/// than the cores can do.
fn together(context: &CpuContext, threads: usize, kind: &Kind, steps: u64) -> Took {
    let waiting = AtomicUsize::new(threads);
    let times = context.pool().broadcast(|worker| {
        if worker.index() >= threads {
            return None;
        }
        waiting.fetch_sub(1, Ordering::AcqRel);
        while waiting.load(Ordering::Acquire) > 0 {
            spin_loop();
        }
        let started = Instant::now();
        (kind.run)(steps);
        Some((started, Instant::now()))
    });
    let starts = times.iter().flatten().map(|(started, _)| *started).min();
    let ends = times.iter().flatten().map(|(_, ended)| *ended).max();
    let one = times.iter().flatten().map(|(started, ended)| *ended - *started).min();
    Took {
        all: starts.zip(ends).map_or(Duration::ZERO, |(start, end)| end - start),
        one: one.unwrap_or_default(),
    }
}

/// The matrix units, where this CPU has some that multiply these types.
fn tiles(types: Types) -> Option<Kind> {
    #[cfg(target_arch = "x86_64")]
    {
        let TileLoop { run, operations } = with_gemm_types!(types, T => tile_loop::<T>())?;
        Some(Kind { vectors: MATRIX_UNITS, flops_per_step: operations, run })
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = types;
        None
    }
}

/// The kinds of vectors that this CPU has, for the types of a product.
fn kinds(types: Types) -> Vec<Kind> {
    let mut kinds = Vec::new();
    macro_rules! add {
        ($vectors:literal, $f32:path, $f64:path, $bytes:literal, $chains:expr) => {{
            let (run, lanes): (fn(u64), usize) = match types.acc() {
                AccType::F64 => (|steps| $f64(steps), $bytes / 8),
                // Elements of 16 bits are summed up by these units, too.
                AccType::F32 => (|steps| $f32(steps), $bytes / 4),
                AccType::I32 => return Vec::new(),
            };
            kinds.push(Kind { vectors: $vectors, flops_per_step: 2 * lanes * $chains, run });
        }};
    }
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            add!("avx512", x86::avx512_f32, x86::avx512_f64, 64, x86::AVX512_CHAINS);
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            add!("avx2", x86::avx2_f32, x86::avx2_f64, 32, x86::AVX2_CHAINS);
        }
    }
    #[cfg(target_arch = "aarch64")]
    add!("neon", neon::f32, neon::f64, 16, neon::CHAINS);
    if kinds.is_empty() {
        add!("portable", portable::f32, portable::f64, 16, portable::CHAINS);
    }
    kinds
}

/// Defines a loop of chains `sum = sum * factor + term`. With factor and term one half the sums stay
/// near one: no step is slowed down by an overflow or a number too small to be normal.
///
/// The numbers come through `black_box`, so that the compiler knows neither them nor that the chains
/// are alike.
macro_rules! chains {
    ($(#[$attribute:meta])* $name:ident, $count:expr, $splat:expr, $multiply_add:expr) => {
        $(#[$attribute])*
        pub(super) fn $name(steps: u64) {
            let factor = $splat(black_box(0.5));
            let term = $splat(black_box(0.5));
            let mut sums = black_box([factor; $count]);
            for _ in 0..steps {
                for sum in &mut sums {
                    *sum = $multiply_add(*sum, factor, term);
                }
            }
            black_box(sums);
        }
    };
}

/// The same, compiled for features of the CPU.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! guarded {
    ($name:ident, $inner:ident, $features:literal, $count:expr, $splat:expr, $fma:expr) => {
        pub(super) fn $name(steps: u64) {
            chains!(
                #[target_feature(enable = $features)]
                $inner,
                $count,
                $splat,
                $fma
            );
            // SAFETY: `kinds` names this function only where the CPU has these features and the
            // system saves their registers.
            unsafe { $inner(steps) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64 as arch;
    use std::hint::black_box;

    /// Of 32 registers; two units of four cycles need eight.
    pub(super) const AVX512_CHAINS: usize = 24;
    /// Of 16 registers; two units of five cycles, the slowest that there are, need ten.
    pub(super) const AVX2_CHAINS: usize = 12;

    guarded!(
        avx512_f32,
        inner,
        "avx512f",
        AVX512_CHAINS,
        arch::_mm512_set1_ps,
        arch::_mm512_fmadd_ps
    );
    guarded!(
        avx512_f64,
        inner,
        "avx512f",
        AVX512_CHAINS,
        arch::_mm512_set1_pd,
        arch::_mm512_fmadd_pd
    );
    guarded!(avx2_f32, inner, "avx2,fma", AVX2_CHAINS, arch::_mm256_set1_ps, arch::_mm256_fmadd_ps);
    guarded!(avx2_f64, inner, "avx2,fma", AVX2_CHAINS, arch::_mm256_set1_pd, arch::_mm256_fmadd_pd);
}

#[cfg(target_arch = "aarch64")]
mod neon {
    use std::arch::aarch64 as arch;
    use std::hint::black_box;

    /// Of 32 registers; four units of four cycles need sixteen.
    pub(super) const CHAINS: usize = 24;

    // Its instruction adds a product to the register of the sum, so here a chain is
    // `sum = sum + factor * term`, which would need 2^127 steps to overflow.
    guarded!(f32, inner, "neon", CHAINS, arch::vdupq_n_f32, arch::vfmaq_f32);
    guarded!(f64, inner, "neon", CHAINS, arch::vdupq_n_f64, arch::vfmaq_f64);
}

/// For CPUs whose vectors this module does not know: multiplications and additions that the compiler
/// makes vectors of.
mod portable {
    use std::hint::black_box;

    pub(super) const CHAINS: usize = 12;

    chains!(f32, CHAINS, |value: f32| [value; 4], |sum: [f32; 4], factor: [f32; 4], term| {
        add(multiply(sum, factor), term)
    });
    chains!(f64, CHAINS, |value: f64| [value; 2], |sum: [f64; 2], factor: [f64; 2], term| {
        add(multiply(sum, factor), term)
    });

    #[inline(always)]
    fn multiply<T: Copy + std::ops::Mul<Output = T>, const N: usize>(
        a: [T; N],
        b: [T; N],
    ) -> [T; N] {
        std::array::from_fn(|lane| a[lane] * b[lane])
    }

    #[inline(always)]
    fn add<T: Copy + std::ops::Add<Output = T>, const N: usize>(a: [T; N], b: [T; N]) -> [T; N] {
        std::array::from_fn(|lane| a[lane] + b[lane])
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::num::NonZeroUsize;

    use super::*;

    #[test]
    fn the_peak_is_above_what_one_chain_can_do_and_integers_have_none() {
        let context = crate::cpu::context(NonZeroUsize::new(2)).unwrap();
        // One chain of scalars: what a loop does that fills no unit.
        let steps = 1 << 22;
        let started = Instant::now();
        let mut sum = black_box(0.5f64);
        for _ in 0..steps {
            sum = sum * black_box(0.5) + 0.5;
        }
        black_box(sum);
        let chain = 2.0 * f64::from(steps) / started.elapsed().as_secs_f64();
        for types in [Types::F32, Types::F64] {
            let one = measure(&context, 1, types, false).unwrap();
            assert!(one.flops > 2.0 * chain, "{one:?} against {chain:e}");
            let both = measure(&context, 99, types, false).unwrap();
            assert_eq!((one.threads, both.threads), (1, 2));
        }
        assert_eq!(measure(&context, 1, Types::I32, true), None);
        // An f32 takes six products of bf16.
        if cpu_gemm::matrix_units().is_ok() {
            let flops = |types| measure(&context, 1, types, true).unwrap().flops;
            let ratio = flops(Types::BF16F32) / flops(Types::F32);
            assert!((4.0..9.0).contains(&ratio), "{ratio}");
        }
    }

    #[test]
    fn what_disturbs_a_try_does_not_end_the_search_for_steps() {
        let mut tries = 0;
        // A nanosecond for a step, every third time a slice of another program, and threads one after the other.
        let found = best_of(|steps| {
            tries += 1;
            let slice = if tries % 3 == 1 { Duration::from_millis(20) } else { Duration::ZERO };
            let one = Duration::from_nanos(steps) + slice;
            Took { all: one + Duration::from_millis(4), one }
        });
        let of_steps = Duration::from_nanos(1 << 21) + Duration::from_millis(4);
        assert_eq!(found, Some((1 << 21, of_steps)));
        assert_eq!(best_of(|_| Took { all: Duration::ZERO, one: Duration::ZERO }), None);
    }

    #[test]
    fn steps_are_done_and_not_optimised_away() {
        for kind in kinds(Types::F32) {
            let time = |steps| {
                let started = Instant::now();
                (kind.run)(steps);
                started.elapsed().as_secs_f64()
            };
            let best = |steps| (0..5).map(|_| time(steps)).fold(f64::INFINITY, f64::min);
            let ratio = best(1 << 21) / best(1 << 17);
            assert!(ratio > 4.0, "{}: sixteen times the steps took {ratio} times", kind.vectors);
        }
    }
}
