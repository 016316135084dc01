//! Defects, planted: instructions that are missing or have other operands, and who sees it.

use std::sync::{Mutex, PoisonError};

use cuda_std::emulate::{
    Action, Defect, EmulationError, Event, Instruction, Observer, Order, Strict,
};
use gemm_spec::LaunchShape;
use gemm_spec::split_k::KSharing;
use kernels_gpu::Kernel;

use super::{Product, Shape};
use crate::emulate::Options;
use crate::scalar::{Scalar, ScalarTypes};
use crate::verify::Guarded;

/// A defect that was planted.
#[derive(Clone, Debug)]
pub struct Planted {
    /// The defect.
    pub defect: Defect,
    /// What shows it; none where nothing does.
    pub outcome: Option<Outcome>,
}

/// What shows a defect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The emulator's report.
    Reported(Box<EmulationError>),
    /// C has other bits.
    OtherBits,
}

/// The instructions that runs come to, in the order in which they first do.
#[derive(Default)]
pub struct Instructions(Mutex<Vec<Instruction>>);

impl Observer for Instructions {
    fn observe(&self, event: Event) {
        if let Action::Instruction(instruction) = event.action {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if !all.contains(&instruction) {
                all.push(instruction);
            }
        }
    }
}

impl Instructions {
    /// Those of a kernel, on the products that defects are planted in.
    ///
    /// # Errors
    /// Where the kernel goes wrong as it is.
    pub fn of<T: ScalarTypes>(spec: Kernel) -> anyhow::Result<Vec<Instruction>> {
        let all = Self::default();
        for shape in shapes(spec) {
            let Some(product) = Product::<T>::new(spec, shape)? else { continue };
            product.run(spec, ONE, Some(&all))?.map_err(anyhow::Error::from)?;
        }
        Ok(all.0.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One SM: a block has several tiles.
const ONE: Options = Options {
    checked: true,
    skip_barrier: None,
    defect: None,
    order: Order::Late,
    multiprocessors: 1,
    strict: Strict { scopes: false, init: false },
};

/// More stages than the pipeline has, and several tiles for a block or several blocks for a tile; C where TMA stores
/// it, with tiles that reach beyond all edges, and where it does not.
fn shapes(spec: Kernel) -> Vec<Shape> {
    let (m, n) = spec.launch.tile().map_or((8, 8), |tile| (tile.m as usize, tile.n as usize));
    // Blocks of an SM that share the tiles.
    let blocks = match spec.launch {
        LaunchShape::Persistent { .. } => spec.min_blocks_per_sm.narrow as usize,
        LaunchShape::Grid { .. } | LaunchShape::Grouped { .. } | LaunchShape::SingleBlock => 1,
    };
    let by_tma = |sizes| Shape { sizes, padding: [0; 3], beta: 0.0 };
    let direct = |sizes| Shape { sizes, padding: [0, 0, 1], beta: 0.5 };
    match spec.split_k {
        KSharing::Cluster { .. } => vec![by_tma([m - 1, n - 8, 1304]), direct([m, 2 * n, 1300])],
        KSharing::None | KSharing::Workspace { .. } => {
            vec![by_tma([m - 1, 3 * blocks * n - 8, 328]), direct([m, 2 * blocks * n, 328])]
        }
    }
}

/// Plants each defect by itself of those that `which` takes. One order of events is enough: what is wrong is found from
/// what threads wait for, not from when things happen.
///
/// # Errors
/// Where the kernel goes wrong as it is.
pub fn plant<T: ScalarTypes>(
    spec: Kernel,
    which: impl Fn(&Defect) -> bool,
) -> anyhow::Result<Vec<Planted>> {
    let mut all: Vec<Planted> = Vec::new();
    for shape in shapes(spec) {
        let Some(product) = Product::<T>::new(spec, shape)? else { continue };
        let seen = Instructions::default();
        let right = product.run(spec, ONE, Some(&seen))?.map_err(anyhow::Error::from)?;
        let instructions = seen.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        for defect in instructions.into_iter().flat_map(Instruction::defects).filter(&which) {
            let known = all.iter().position(|planted| planted.defect == defect);
            let place = known.unwrap_or_else(|| {
                all.push(Planted { defect, outcome: None });
                all.len() - 1
            });
            if all[place].outcome.is_none() {
                all[place].outcome = shown(spec, &product, &right, defect)?;
            }
        }
    }
    Ok(all)
}

/// What shows a defect in a product whose right result is known.
fn shown<T: ScalarTypes>(
    spec: Kernel,
    product: &Product<T>,
    right: &Guarded<T>,
    defect: Defect,
) -> anyhow::Result<Option<Outcome>> {
    let options = Options { defect: Some(defect), ..ONE };
    Ok(match product.run(spec, options, None)? {
        Err(fault) => Some(Outcome::Reported(fault)),
        Ok(c) => {
            let mut pairs = right.as_slice().iter().zip(c.as_slice());
            let same = c.intact().is_ok() && pairs.all(|(x, y)| x.same_bits(*y));
            (!same).then_some(Outcome::OtherBits)
        }
    })
}
