//! What an engine's choice costs: every way to a product, from host memory to host memory, interleaved.

use std::time::{Duration, Instant};

use gemm_spec::Problem;
use kernels_gpu::{KERNELS, Kernel};
use tessera::{Engine, Placement};

use crate::cpu::{self, CPU, CpuImpl};
use crate::error::Error;
use crate::fill::{Distribution, Draw};
use crate::measure::{Inputs, Observer, Timing, clock, mean};
use crate::scalar::ScalarTypes;

/// Edges of the cubes that are judged where nothing else is asked for.
pub const EDGES: [usize; 11] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];

/// Rounds in which every way has its turn.
const ROUNDS: usize = 5;
/// The fastest of many is also the luckiest: this many of them have further turns beside the
/// engine, and those alone count.
const FINALISTS: usize = 4;
/// Rounds of those.
const FINAL_ROUNDS: usize = 15;
/// Calls of a turn go on for so long: one of a small product is too short for a clock.
const TURN: Duration = Duration::from_millis(5);
/// A product of this length warms itself up, and one call is a turn.
const LONG: Duration = Duration::from_millis(100);
/// No round begins after so long, but one that every way needs.
const BUDGET: Duration = Duration::from_secs(3);
/// Of the ways of one processor those are not tried with larger cubes that took this many times as long as
/// its fastest.
const HOPELESS: f64 = 4.0;

/// What the choice for one size costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// m, n and k.
    pub edge: usize,
    /// What the engine has chosen.
    pub chosen: &'static str,
    /// What its products took, the choice included; the median of the last rounds.
    pub seconds: f64,
    /// The fastest way.
    pub best: &'static str,
    /// What its products took.
    pub best_seconds: f64,
    /// Ways that were measured.
    pub ways: usize,
}

impl Judged {
    /// How many times as long as the best way the engine took.
    #[must_use]
    pub fn cost(&self) -> f64 {
        self.seconds / self.best_seconds
    }
}

/// One way to a product.
#[derive(Clone, Copy)]
enum Way {
    Chosen,
    Cpu(&'static CpuImpl),
    Gpu(Kernel),
}

impl Way {
    fn on_gpu(self) -> bool {
        matches!(self, Self::Gpu(_))
    }
}

/// A product of one size and what its ways work on.
struct Round<'e, T: ScalarTypes> {
    engine: &'e Engine,
    problem: Problem<T>,
    inputs: Inputs<T>,
}

impl<T: ScalarTypes> Round<'_, T> {
    /// One product.
    fn once(&mut self, way: Way) -> Result<(), Error> {
        let Self { engine, problem, inputs: Inputs { a, b, c } } = self;
        match way {
            Way::Chosen => Ok(engine.gemm_slices(problem, a, b, c)?),
            Way::Cpu(implementation) => {
                implementation.gemm::<T>(problem, a, b, c, engine.cpu_context())
            }
            Way::Gpu(spec) => match engine.gpu() {
                Some(gpu) => {
                    Ok(gpu.host_path(engine.cpu_context()).multiply(spec, problem, a, b, c)?)
                }
                None => {
                    let reason = "this engine stays on the CPU".to_owned();
                    Err(tessera::Error::NoDevice { reason }.into())
                }
            },
        }
    }

    /// Seconds of a product in each of these ways, which have their turns one after the other: the medians
    /// of that many rounds.
    fn medians(&mut self, ways: &[Way], rounds: usize) -> Result<Vec<(Way, f64)>, Error> {
        let mut turns = vec![Vec::with_capacity(rounds); ways.len()];
        let started = Instant::now();
        // The first round warms up.
        for round in 0..=rounds {
            for (&way, seconds) in ways.iter().zip(&mut turns) {
                let took = self.turn(way)?;
                if round > 0 || took >= LONG.as_secs_f64() {
                    seconds.push(took);
                }
            }
            if started.elapsed() > BUDGET && turns.iter().all(|seconds| !seconds.is_empty()) {
                break;
            }
        }
        let median = |mut seconds: Vec<f64>| Timing::of(&mut seconds).median;
        Ok(ways.iter().copied().zip(turns.into_iter().map(median)).collect())
    }

    /// Seconds of a product, from as many as fill a turn.
    fn turn(&mut self, way: Way) -> Result<f64, Error> {
        // Threads sleep, and a GPU idles, after the turn of another way.
        let took = clock(|| self.once(way))?;
        if took >= LONG.as_secs_f64() {
            return Ok(took);
        }
        mean(TURN, || self.once(way))
    }
}

/// Measures cubes of these edges, the smallest first, in every way that is not hopeless.
///
/// # Errors
/// What the driver answers; [`tessera::Error::OutOfMemory`].
pub fn judge<T: ScalarTypes>(
    engine: &Engine,
    edges: &[usize],
    observer: &mut dyn Observer,
) -> Result<Vec<Judged>, Error> {
    let here = CPU.iter().filter(|own| own.runs(T::TYPES).is_ok());
    let mut ways: Vec<Way> = here.map(|&own| Way::Cpu(own)).collect();
    if engine.gpu().is_some() {
        ways.extend(KERNELS.iter().map(|&kernel| Way::Gpu(kernel)));
    }
    edges.iter().map(|&edge| one::<T>(engine, edge, &mut ways, observer)).collect()
}

/// Measures one size; takes ways out that are hopeless from there on.
fn one<T: ScalarTypes>(
    engine: &Engine,
    edge: usize,
    ways: &mut Vec<Way>,
    observer: &mut dyn Observer,
) -> Result<Judged, Error> {
    observer.step(&format!("{edge} x {edge} x {edge} in {} ways", ways.len()));
    let problem = Problem::<T>::new(edge, edge, edge);
    let draw = Draw { distribution: Distribution::Uniform, seed: 1, stream: 0, what: "a product" };
    let mut round = Round { engine, problem, inputs: Inputs::draw(&problem, draw)? };
    let chosen = if let Placement::Gpu(kernel) = engine.placement(&problem)? {
        kernel.spec().id
    } else {
        cpu::of_engine(engine, &problem).id
    };
    let can = |way: &Way| match way {
        Way::Gpu(spec) => {
            engine.gpu().is_some_and(|gpu| spec.supports(&problem, gpu.limits()).is_ok())
        }
        Way::Chosen | Way::Cpu(_) => true,
    };
    let tried: Vec<Way> = ways.iter().copied().filter(can).collect();
    let mut medians = round.medians(&tried, ROUNDS)?;
    medians.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let least = |gpu: bool| {
        let own = medians.iter().find(|(way, _)| way.on_gpu() == gpu);
        own.map_or(f64::INFINITY, |(_, seconds)| *seconds)
    };
    let (cpu, gpu) = (least(false), least(true));
    ways.retain(|way| {
        let own = medians.iter().find(|(other, _)| id(*other) == id(*way));
        let best = if way.on_gpu() { gpu } else { cpu };
        // What a GPU wins, the CPU does not win back with larger products.
        let beaten = !way.on_gpu() && cpu > HOPELESS * gpu;
        own.is_none_or(|(_, seconds)| *seconds <= HOPELESS * best) && !beaten
    });
    let finalists = medians.iter().take(FINALISTS).map(|(way, _)| *way);
    let finalists: Vec<Way> = std::iter::once(Way::Chosen).chain(finalists).collect();
    let mut last = round.medians(&finalists, FINAL_ROUNDS)?;
    let (_, seconds) = last.remove(0);
    let best = last.into_iter().min_by(|(_, one), (_, other)| one.total_cmp(other));
    let (best, best_seconds) = best.map_or((chosen, seconds), |(way, took)| (id(way), took));
    Ok(Judged { edge, chosen, seconds, best, best_seconds, ways: tried.len() })
}

fn id(way: Way) -> &'static str {
    match way {
        Way::Chosen => "",
        Way::Cpu(implementation) => implementation.id,
        Way::Gpu(kernel) => kernel.spec().id,
    }
}

#[cfg(test)]
mod tests {
    use gemm_spec::Types;

    use super::*;

    #[test]
    fn the_choice_is_measured_beside_every_way_of_the_cpu() {
        let engine = Engine::cpu(std::num::NonZeroUsize::new(2)).unwrap();
        let judged = judge::<f32>(&engine, &[8, 48], &mut ()).unwrap();
        assert_eq!(judged.len(), 2);
        let here = CPU.iter().filter(|own| own.runs(Types::F32).is_ok()).count();
        assert_eq!(judged[0].ways, here);
        for size in &judged {
            assert_eq!(size.chosen, "cpu_packed");
            assert!(size.best_seconds > 0.0 && size.cost().is_finite() && size.ways >= 1);
            assert!(CPU.iter().any(|own| own.id == size.best));
        }
        // A pool of threads for 512 operations is hopeless.
        assert!(judged[1].ways < judged[0].ways);
    }
}
