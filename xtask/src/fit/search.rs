//! The search for the constants with which predictions are nearest to measured times.

use std::borrow::Cow;

use gemm_spec::DeviceLimits;
use tessera::select::{Constants, DeviceModel, Efficiency, KernelConstants, Reference};

use super::Row;

/// A constant that is fitted.
#[derive(Clone, Copy, Debug)]
enum Parameter {
    Launch,
    NextLaunch,
    Wave,
    StartSteps,
    PartsRate,
    MemoryRate,
    /// One of the efficiencies of the kernel at this place.
    Efficiency(usize, usize),
}

const SHARED: [Parameter; 6] = [
    Parameter::Launch,
    Parameter::NextLaunch,
    Parameter::Wave,
    Parameter::StartSteps,
    Parameter::PartsRate,
    Parameter::MemoryRate,
];

/// No kernel is so slow, and none is faster than its units.
const EFFICIENCIES: std::ops::RangeInclusive<f64> = 0.01..=1.0;

impl Parameter {
    fn of(self, constants: &mut Constants) -> &mut f64 {
        match self {
            Self::Launch => &mut constants.launch,
            Self::NextLaunch => &mut constants.next_launch,
            Self::Wave => &mut constants.wave,
            Self::StartSteps => &mut constants.start_steps,
            Self::PartsRate => &mut constants.parts_rate,
            Self::MemoryRate => &mut constants.memory_rate,
            Self::Efficiency(kernel, which) => {
                let KernelConstants { aligned, ragged, .. } =
                    &mut constants.kernels.to_mut()[kernel];
                let Efficiency { alone, full } = if which < 2 { aligned } else { ragged };
                if which % 2 == 0 { alone } else { full }
            }
        }
    }

    /// Multiplies the constant; says whether it may have that value.
    fn scale(self, constants: &mut Constants, factor: f64) -> bool {
        let value = self.of(constants);
        *value *= factor;
        if matches!(self, Self::Efficiency(..)) {
            EFFICIENCIES.contains(value)
        } else {
            value.is_finite()
        }
    }
}

/// The constants of a model with another device for their reference: what they are on it.
pub(super) fn on_device(model: &DeviceModel, reference: Reference) -> Constants {
    let mut constants = model.constants().clone();
    let speed = model.speed();
    for time in [&mut constants.launch, &mut constants.next_launch, &mut constants.wave] {
        *time /= speed;
    }
    for rate in [&mut constants.parts_rate, &mut constants.memory_rate] {
        *rate *= speed;
    }
    Constants { reference, ..constants }
}

/// A search in progress.
pub(super) struct Fit<'r> {
    limits: DeviceLimits,
    constants: Constants,
    /// The times of each kernel that the constants name, in their order.
    rows: Vec<Vec<&'r Row>>,
    /// The sum of the errors of each kernel.
    costs: Vec<f64>,
}

/// A first step changes a constant by this share, the last one by less than the other.
const STEPS: (f64, f64) = (0.25, 5e-4);
/// Rounds over all constants, at most.
const ROUNDS: usize = 400;
/// Errors below this count little: of measurements they are noise.
const NOISE: f64 = 0.01;

impl<'r> Fit<'r> {
    /// A search that begins with those constants. Kernels that have none begin with those that are assumed.
    pub(super) fn new(limits: DeviceLimits, mut constants: Constants, rows: &'r [Row]) -> Self {
        for row in rows {
            if !constants.kernels.iter().any(|own| own.kernel == row.spec.id) {
                let assumed = constants.of(row.spec);
                constants.kernels.to_mut().push(assumed);
            }
        }
        constants.kernels = Cow::Owned(constants.kernels.into_owned());
        let of = |own: &KernelConstants| {
            rows.iter().filter(|row| row.spec.id == own.kernel).collect::<Vec<_>>()
        };
        let rows = constants.kernels.iter().map(of).collect();
        let mut fit = Self { limits, constants, rows, costs: Vec::new() };
        fit.costs = (0..fit.rows.len()).map(|kernel| fit.cost(&fit.constants, kernel)).collect();
        fit
    }

    pub(super) fn constants(&self) -> &Constants {
        &self.constants
    }

    fn model(&self, constants: &Constants) -> DeviceModel {
        DeviceModel::with_constants(self.limits, constants.reference.clock_mhz, constants.clone())
    }

    /// The logarithms of predicted over measured times.
    fn logarithms(&self, constants: &Constants, kernel: usize) -> impl Iterator<Item = f64> {
        let model = self.model(constants);
        self.rows[kernel].iter().filter_map(move |row| {
            let Row { spec, types, sizes, ranges, seconds } = row;
            Some((model.nanoseconds(spec, *types, *sizes, *ranges)? / 1e9 / seconds).ln())
        })
    }

    fn cost(&self, constants: &Constants, kernel: usize) -> f64 {
        self.logarithms(constants, kernel).map(|error| error.hypot(NOISE)).sum()
    }

    /// Of each kernel that has times and predictions their number and the mean error in per cent.
    pub(super) fn errors(&self) -> Vec<(&'static str, usize, f64)> {
        let of = |(kernel, own): (usize, &KernelConstants)| {
            let errors: Vec<f64> = self.logarithms(&self.constants, kernel).map(f64::abs).collect();
            let mean = errors.iter().sum::<f64>() / errors.len() as f64;
            (!errors.is_empty()).then(|| (own.kernel, errors.len(), 100.0 * mean.exp_m1()))
        };
        self.constants.kernels.iter().enumerate().filter_map(of).collect()
    }

    /// Fits the efficiencies of all kernels that were measured, and what they share if so asked: each
    /// constant is moved while predictions get nearer, then by smaller steps.
    ///
    /// Efficiencies begin with those that are assumed of kernels that nobody has measured, so that the
    /// result follows from the times and what is shared, and not from an earlier fit.
    pub(super) fn run(&mut self, shared: bool) {
        self.forget();
        let measured = (0..self.rows.len()).filter(|&kernel| !self.rows[kernel].is_empty());
        let efficiencies = measured
            .flat_map(|kernel| (0..4).map(move |which| Parameter::Efficiency(kernel, which)));
        let all = SHARED.into_iter().filter(|_| shared).chain(efficiencies);
        let mut steps: Vec<(Parameter, f64)> = all.map(|parameter| (parameter, STEPS.0)).collect();
        for _ in 0..ROUNDS {
            if steps.iter().all(|(_, step)| *step < STEPS.1) {
                break;
            }
            for (parameter, step) in &mut steps {
                if *step < STEPS.1 {
                    // What the others have become may call for more.
                    *step = STEPS.1;
                }
                let moved = self.moved(*parameter, 1.0 + *step)
                    || self.moved(*parameter, 1.0 / (1.0 + *step));
                *step *= if moved { 1.5 } else { 0.5 };
            }
        }
    }

    /// Gives the kernels that were measured the efficiencies that are assumed of any.
    fn forget(&mut self) {
        let none = Constants { kernels: Cow::Borrowed(&[]), ..self.constants.clone() };
        let mut constants = self.constants.clone();
        for (own, rows) in constants.kernels.to_mut().iter_mut().zip(&self.rows) {
            if let Some(row) = rows.first() {
                *own = none.of(row.spec);
            }
        }
        self.costs = (0..self.rows.len()).map(|kernel| self.cost(&constants, kernel)).collect();
        self.constants = constants;
    }

    /// Moves a constant if predictions get nearer by it.
    fn moved(&mut self, parameter: Parameter, factor: f64) -> bool {
        let mut constants = self.constants.clone();
        if !parameter.scale(&mut constants, factor) {
            return false;
        }
        let touched = if let Parameter::Efficiency(kernel, _) = parameter {
            kernel..kernel + 1
        } else {
            0..self.rows.len()
        };
        let costs: Vec<f64> = touched.clone().map(|kernel| self.cost(&constants, kernel)).collect();
        let (new, old): (f64, f64) = (costs.iter().sum(), self.costs[touched.clone()].iter().sum());
        if new >= old * (1.0 - 1e-9) {
            return false;
        }
        self.constants = constants;
        self.costs.splice(touched, costs);
        true
    }
}

#[cfg(test)]
mod tests {
    use gemm_spec::Types;
    use kernels_gpu::Kernel;

    use super::*;

    const LIMITS: DeviceLimits = DeviceLimits {
        compute_capability: (9, 0),
        max_threads_per_block: 1024,
        max_shared_bytes: 227 * 1024,
        multiprocessors: 132,
    };
    const KERNELS: [&str; 3] = ["async_copy_32x64", "async_copy_64x128", "split_k_32x64"];

    /// Times that a device of those constants would take.
    fn rows(constants: &Constants) -> Vec<Row> {
        let model = DeviceModel::with_constants(LIMITS, 1980, constants.clone());
        let mut rows = Vec::new();
        for spec in KERNELS.map(|id| Kernel::named(id).unwrap().spec()) {
            for (m, k) in [(64, 300), (256, 2000), (500, 700), (2000, 1000), (4000, 4000)] {
                for n in [64, 200, 255, 600, 1023, 2048, 4001] {
                    let sizes = [m, n, k];
                    let ranges = model.ranges_of(spec, Types::F32, sizes);
                    let time = model.nanoseconds(spec, Types::F32, sizes, ranges).unwrap();
                    let seconds = time / 1e9;
                    rows.push(Row { spec, types: Types::F32, sizes, ranges, seconds });
                }
            }
        }
        rows
    }

    fn committed() -> Constants {
        DeviceModel::new(LIMITS, 1980).constants().clone()
    }

    fn planted() -> Constants {
        let mut planted = committed();
        for own in planted.kernels.to_mut() {
            own.aligned = Efficiency { alone: 0.33, full: 0.71 };
            own.ragged = Efficiency { alone: 0.28, full: 0.52 };
        }
        planted
    }

    fn efficiencies(constants: &Constants, kernel: &str) -> [f64; 4] {
        let own = constants.kernels.iter().find(|own| own.kernel == kernel).unwrap();
        [own.aligned.alone, own.aligned.full, own.ragged.alone, own.ragged.full]
    }

    #[test]
    fn planted_efficiencies_are_found_again() {
        let planted = planted();
        let rows = rows(&planted);
        let mut fit = Fit::new(LIMITS, committed(), &rows);
        assert!(fit.errors().iter().all(|(.., error)| *error > 2.0), "{:?}", fit.errors());
        fit.run(false);
        assert!(fit.errors().iter().all(|(.., error)| *error < 0.2), "{:?}", fit.errors());
        for kernel in KERNELS {
            let (found, wanted) =
                (efficiencies(fit.constants(), kernel), efficiencies(&planted, kernel));
            for (found, wanted) in found.iter().zip(wanted) {
                assert!((found / wanted - 1.0).abs() < 0.01, "{kernel}: {found} for {wanted}");
            }
        }
        // Kernels without times keep what they have.
        let other = "async_copy_128x256";
        assert_eq!(efficiencies(fit.constants(), other), efficiencies(&committed(), other));
    }

    #[test]
    fn the_result_does_not_depend_on_an_earlier_fit() {
        let mut measured = rows(&committed());
        for (place, row) in measured.iter_mut().enumerate() {
            // Times that no constants predict exactly.
            row.seconds *= 1.0 + 0.02 * (place % 7) as f64;
        }
        let fitted = |start: Constants| {
            let mut fit = Fit::new(LIMITS, start, &measured);
            fit.run(false);
            KERNELS.map(|kernel| efficiencies(fit.constants(), kernel))
        };
        assert_eq!(fitted(committed()), fitted(planted()));
    }

    #[test]
    fn what_kernels_share_is_fitted_too() {
        let mut planted = committed();
        planted.launch = 5000.0;
        planted.wave = 1500.0;
        let rows = rows(&planted);
        let mut fit = Fit::new(LIMITS, committed(), &rows);
        let before = fit.errors();
        fit.run(true);
        for ((kernel, _, before), (.., after)) in before.iter().zip(fit.errors()) {
            assert!(*before > 3.0 && after < 1.0, "{kernel}: {before} and {after}");
        }
        let launch = fit.constants().launch;
        assert!((launch / 5000.0 - 1.0).abs() < 0.1, "{launch}");
    }

    #[test]
    fn constants_of_another_reference_predict_the_same() {
        let limits = DeviceLimits { compute_capability: (8, 0), multiprocessors: 108, ..LIMITS };
        let model = DeviceModel::new(limits, 1410);
        let reference = Reference { compute_capability: (8, 0), clock_mhz: 1410 };
        let moved = DeviceModel::with_constants(limits, 1410, on_device(&model, reference));
        for row in rows(&committed()) {
            let time = |model: &DeviceModel| {
                model.nanoseconds(row.spec, row.types, row.sizes, row.ranges).unwrap()
            };
            assert!((time(&moved) / time(&model) - 1.0).abs() < 1e-9);
        }
    }
}
