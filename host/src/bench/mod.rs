//! Measuring: how fast each implementation is, and how sure that is.
//!
//! `run` answers "is it right, and roughly how long does it take"; this answers "how fast is it", in
//! a way that two runs can be held against each other. For each implementation and size:
//!
//! 1. the result of a first run is checked;
//! 2. runs are thrown away until the warm-up time is over;
//! 3. runs are repeated until the middle half of them lies within the wanted spread, or the time is
//!    up; on a GPU a run is a batch of launches between two events, so that no gap is measured;
//! 4. the result is checked again, since a kernel may go wrong only under load;
//! 5. a rate above what the units can do is refused: it is a mistake of the measurement or the kernel.
//!    A CPU's units are measured just before and after the runs.
//!
//! With cold caches the operands turn through sets that together are larger than twice the last-level
//! cache, so that no run finds its own.
//!
//! Implementations can be measured beside [peers](crate::peers), all of them interleaved: see [`Rounds`].

mod again;
pub mod compare;
mod energy;
pub mod idle;
mod one;
pub mod peak;
mod process;
pub mod ragged;
mod rounds;
mod row;
mod subject;

use std::path::PathBuf;
use std::time::Duration;

use gemm_spec::with_gemm_types;

use crate::error::Error;
use crate::measure::{Candidate, Config, Observer, Processors};
use crate::scalar::ScalarTypes;
pub use again::again;
pub use energy::Energy;
pub use process::end_with_parent;
pub use rounds::Rounds;
pub use row::{Cache, Document, FORMAT, Head, Point, Row};
use subject::{Sets, Subject};

/// What to measure and how well.
#[derive(Clone)]
pub struct Request {
    /// The products.
    pub config: Config,
    /// m, n and k of each problem.
    pub sizes: Vec<[usize; 3]>,
    /// Implementations and peers, in the order in which they are shown.
    pub candidates: Vec<Candidate>,
    /// Folders in which peers' libraries are looked for first.
    pub peer_folders: Vec<PathBuf>,
    /// Measures all interleaved, those on the CPU in processes of their own, which run the program that
    /// calls: it must be `tessera`. `None` measures one after the other in this process.
    pub rounds: Option<Rounds>,
    /// How long a row without rounds waits for an idle machine, at most; `None` does not look.
    pub idle_wait: Option<Duration>,
    /// Caches.
    pub cache: Cache,
    /// Time for the runs of one row; the warm-up takes a quarter of it in addition.
    pub time: Duration,
    /// The spread at which a row is settled, as a share of its median.
    pub spread: f64,
}

impl Request {
    /// What is measured of a candidate at one size.
    fn point(
        &self,
        candidate: Candidate,
        [m, n, k]: [usize; 3],
        threads: usize,
        device: String,
    ) -> Point {
        let Config { dtype, ops, alpha, beta, seed, distribution, .. } = self.config;
        Point {
            kernel: candidate.id().to_owned(),
            device,
            m,
            n,
            k,
            dtype: dtype.name().to_owned(),
            ops,
            alpha,
            beta,
            seed,
            dist: distribution.name().to_owned(),
            threads,
            cache: self.cache,
        }
    }
}

/// Measures everything that is asked for.
///
/// # Errors
/// What stops the whole benchmark: a demanded device that is not there, sizes beyond memory. An
/// implementation that fails becomes a skipped one with the reason.
pub fn run(request: &Request, observer: &mut dyn Observer) -> Result<Document, Error> {
    with_gemm_types!(request.config.dtype, T => run_as::<T>(request, observer))
}

fn run_as<T: ScalarTypes>(
    request: &Request,
    observer: &mut dyn Observer,
) -> Result<Document, Error> {
    let processors = Processors::open(request.config.device, request.config.threads)?;
    let mut document = Document::new(Head::default());
    match request.rounds {
        Some(rounds) => {
            rounds::measure::<T>(request, rounds, &processors, observer, &mut document)?;
        }
        None => one_by_one::<T>(request, &processors, observer, &mut document)?,
    }
    document.rank();
    Ok(document)
}

/// Measures every size, one candidate after the other.
fn one_by_one<T: ScalarTypes>(
    request: &Request,
    processors: &Processors,
    observer: &mut dyn Observer,
    document: &mut Document,
) -> Result<(), Error> {
    let workers: Vec<_> = request
        .candidates
        .iter()
        .map(|candidate| (*candidate, candidate.worker(&request.peer_folders, processors)))
        .collect();
    for &size in &request.sizes {
        let [m, n, k] = size;
        let problem = request.config.problem::<T>(size)?;
        let sets = Sets::draw(&problem, request, processors)?;
        let mut subject = Subject::new(&sets, request, processors)?;
        for (candidate, worker) in &workers {
            observer.step(&format!("measuring {} at {m} x {n} x {k}", candidate.id()));
            let mut busy = None;
            let found = match worker {
                Ok(worker) => {
                    busy = request.idle_wait.and_then(idle::wait);
                    one::measure(
                        request,
                        processors,
                        &problem,
                        *candidate,
                        worker,
                        &mut subject,
                        false,
                    )
                }
                Err(reason) => Err(reason.clone()),
            };
            match found {
                Ok(row) => document.rows.push(Row { busy_before: busy, ..row }),
                Err(reason) => document.skip(candidate.id(), Some(size), reason),
            }
        }
    }
    Ok(())
}
