//! The search for the constants with which predictions are nearest to measured times.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::RangeInclusive;

use gemm_spec::DeviceLimits;
use tessera::select::{Constants, DeviceModel, Efficiency, KernelConstants, Reference};

use super::Row;

/// A constant that is fitted.
#[derive(Clone, Copy, Debug)]
enum Parameter {
    Launch,
    NextLaunch,
    PaddedCopy,
    StartSteps,
    PartsRate,
    MemoryRate,
    /// One of the efficiencies of the kernel at this place.
    Efficiency(usize, usize),
    /// What a wave of that kernel takes.
    OwnWave(usize),
}

const SHARED: [Parameter; 6] = [
    Parameter::Launch,
    Parameter::NextLaunch,
    Parameter::PaddedCopy,
    Parameter::StartSteps,
    Parameter::PartsRate,
    Parameter::MemoryRate,
];

/// No kernel is so slow, and none is faster than its units.
const EFFICIENCIES: RangeInclusive<f64> = 0.01..=1.0;
/// Nanoseconds of a wave: a load from memory and a store take no less.
const WAVES: RangeInclusive<f64> = 300.0..=6000.0;

impl Parameter {
    fn of(self, constants: &mut Constants) -> &mut f64 {
        match self {
            Self::Launch => &mut constants.launch,
            Self::NextLaunch => &mut constants.next_launch,
            Self::PaddedCopy => &mut constants.padded_copy,
            Self::StartSteps => &mut constants.start_steps,
            Self::PartsRate => &mut constants.parts_rate,
            Self::MemoryRate => &mut constants.memory_rate,
            Self::OwnWave(kernel) => &mut constants.kernels.to_mut()[kernel].wave,
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
        match self {
            Self::Efficiency(..) => EFFICIENCIES.contains(value),
            Self::OwnWave(_) => WAVES.contains(value),
            Self::Launch
            | Self::NextLaunch
            | Self::PaddedCopy
            | Self::StartSteps
            | Self::PartsRate
            | Self::MemoryRate => value.is_finite(),
        }
    }
}

/// The constants of a model with another device for their reference: what they are on it.
pub(super) fn on_device(model: &DeviceModel, reference: Reference) -> Constants {
    let mut constants = model.constants().clone();
    let speed = model.speed();
    let Constants { launch, next_launch, padded_copy, wave, .. } = &mut constants;
    for time in [launch, next_launch, padded_copy, wave] {
        *time /= speed;
    }
    for own in constants.kernels.to_mut() {
        own.wave /= speed;
    }
    for rate in [&mut constants.parts_rate, &mut constants.memory_rate] {
        *rate *= speed;
    }
    Constants { reference, ..constants }
}

/// What each time counts: the square of the fastest kernel's time for that product over its own. Of a kernel
/// that is much slower than others nobody asks how much, and the model leaves out what makes it so.
fn weights(rows: &[Row]) -> Vec<f64> {
    let mut fastest: HashMap<_, f64> = HashMap::new();
    for Row { types, sizes, seconds, .. } in rows {
        let least = fastest.entry((types.name(), *sizes)).or_insert(*seconds);
        *least = least.min(*seconds);
    }
    let share = |row: &Row| fastest[&(row.types.name(), row.sizes)] / row.seconds;
    rows.iter().map(|row| share(row).powi(2)).collect()
}

/// A measured time in the search.
struct Timed<'r> {
    row: &'r Row,
    /// What its error counts.
    weight: f64,
    /// The product that it is a time of, among those that were measured.
    product: usize,
}

/// How near predictions are to the times.
struct Judged {
    /// The logarithms of predicted over measured times, kernel by kernel.
    errors: Vec<Vec<f64>>,
    /// The sum of the errors of each kernel.
    costs: Vec<f64>,
    /// What the choice by these predictions costs.
    choice: f64,
}

impl Judged {
    fn total(&self) -> f64 {
        self.costs.iter().sum::<f64>() + CHOICE * self.choice
    }
}

/// A search in progress.
pub(super) struct Fit<'r> {
    limits: DeviceLimits,
    constants: Constants,
    /// The times of each kernel that the constants name, in their order.
    times: Vec<Vec<Timed<'r>>>,
    products: usize,
    judged: Judged,
}

/// A first step changes a constant by this share, the last one by less than the other.
const STEPS: (f64, f64) = (0.25, 5e-4);
/// Rounds over all constants, at most.
const ROUNDS: usize = 400;
/// Errors below this count little: of measurements they are noise.
const NOISE: f64 = 0.01;
/// What the logarithm of a chosen kernel's time over the fastest one's counts beside errors of predictions.
const CHOICE: f64 = 3.0;
/// Seconds that both times are taken to be longer: differences of a few microseconds are the launches'.
const LAUNCHES: f64 = 2e-6;
/// Predictions that are that near are taken to be chosen about as often: the cost of the choice is then smooth.
const ALIKE: f64 = 0.02;

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
        let mut products = HashMap::new();
        let mut times: Vec<Vec<Timed<'r>>> = constants.kernels.iter().map(|_| Vec::new()).collect();
        let model =
            DeviceModel::with_constants(limits, constants.reference.clock_mhz, constants.clone());
        for (row, weight) in rows.iter().zip(weights(rows)) {
            let next = products.len();
            let product = *products.entry((row.types.name(), row.sizes)).or_insert(next);
            let place = constants.kernels.iter().position(|own| own.kernel == row.spec.id);
            if let (Some(place), Some(_)) = (place, predicted(&model, row)) {
                times[place].push(Timed { row, weight, product });
            }
        }
        let products = products.len();
        let judged = Judged { errors: Vec::new(), costs: Vec::new(), choice: 0.0 };
        let mut fit = Self { limits, constants, times, products, judged };
        fit.judge();
        fit
    }

    pub(super) fn constants(&self) -> &Constants {
        &self.constants
    }

    /// The device with the constants as they are.
    pub(super) fn model(&self) -> DeviceModel {
        self.model_with(&self.constants)
    }

    fn model_with(&self, constants: &Constants) -> DeviceModel {
        DeviceModel::with_constants(self.limits, constants.reference.clock_mhz, constants.clone())
    }

    /// Each time with its prediction in nanoseconds, kernel by kernel.
    pub(super) fn predictions(&self) -> impl Iterator<Item = (&Row, f64)> {
        let model = self.model();
        let with = move |time: &Timed<'r>| Some((time.row, predicted(&model, time.row)?));
        self.times.iter().flatten().filter_map(with)
    }

    /// The logarithms of predicted over measured times of a kernel.
    fn errors_of(&self, model: &DeviceModel, kernel: usize) -> Vec<f64> {
        let error = |time: &Timed<'_>| {
            let nanoseconds = predicted(model, time.row).unwrap_or(f64::INFINITY);
            (nanoseconds / 1e9 / time.row.seconds).ln()
        };
        self.times[kernel].iter().map(error).collect()
    }

    fn cost(&self, kernel: usize, errors: &[f64]) -> f64 {
        let weighted = self.times[kernel].iter().zip(errors);
        weighted.map(|(time, error)| time.weight * error.hypot(NOISE)).sum()
    }

    /// The sum over the products of the logarithm of the chosen kernel's time over the fastest one's, where
    /// kernels are chosen the more often the shorter their predicted times are.
    fn cost_of_the_choice(&self, errors: &[Vec<f64>]) -> f64 {
        // Of each product the logarithms of measured times, somewhat longer, and of predicted ones.
        let mut all: Vec<Vec<(f64, f64)>> = vec![Vec::new(); self.products];
        for (times, errors) in self.times.iter().zip(errors) {
            for (time, error) in times.iter().zip(errors) {
                let Row { seconds, .. } = time.row;
                all[time.product].push(((seconds + LAUNCHES).ln(), seconds.ln() + error));
            }
        }
        let cost = |times: &Vec<(f64, f64)>| {
            let least = |of: fn(&(f64, f64)) -> f64| {
                times.iter().map(of).min_by(f64::total_cmp).unwrap_or_default()
            };
            let (fastest, first) = (least(|(measured, _)| *measured), least(|(_, own)| *own));
            let (mut shares, mut sum) = (0.0, 0.0);
            for (measured, predicted) in times {
                let share = ((first - predicted) / ALIKE).exp();
                shares += share;
                sum += share * (measured - fastest);
            }
            if shares > 0.0 { sum / shares } else { 0.0 }
        };
        all.iter().map(cost).sum()
    }

    /// Judges all predictions anew.
    fn judge(&mut self) {
        let model = self.model();
        let kernels = 0..self.times.len();
        let errors: Vec<_> = kernels.clone().map(|kernel| self.errors_of(&model, kernel)).collect();
        let costs = kernels.map(|kernel| self.cost(kernel, &errors[kernel])).collect();
        let choice = self.cost_of_the_choice(&errors);
        self.judged = Judged { errors, costs, choice };
    }

    /// Of each kernel that has times and predictions their number and the mean error in per cent.
    pub(super) fn errors(&self) -> Vec<(&'static str, usize, f64)> {
        let of = |(kernel, own): (usize, &KernelConstants)| {
            let (times, errors) = (&self.times[kernel], &self.judged.errors[kernel]);
            let all: f64 = times.iter().map(|time| time.weight).sum();
            let weighted = times.iter().zip(errors).map(|(time, error)| time.weight * error.abs());
            let mean = weighted.sum::<f64>() / all;
            (!times.is_empty()).then(|| (own.kernel, times.len(), 100.0 * mean.exp_m1()))
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
        let measured = (0..self.times.len()).filter(|&kernel| !self.times[kernel].is_empty());
        let own = measured.flat_map(|kernel| {
            let efficiencies = (0..4).map(move |which| Parameter::Efficiency(kernel, which));
            efficiencies.chain([Parameter::OwnWave(kernel)])
        });
        let all = SHARED.into_iter().filter(|_| shared).chain(own);
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
        for (own, times) in self.constants.kernels.to_mut().iter_mut().zip(&self.times) {
            if let Some(time) = times.first() {
                *own = none.of(time.row.spec);
            }
        }
        self.judge();
    }

    /// Moves a constant if predictions get nearer, or the choice by them better.
    fn moved(&mut self, parameter: Parameter, factor: f64) -> bool {
        let mut constants = self.constants.clone();
        if !parameter.scale(&mut constants, factor) {
            return false;
        }
        let touched =
            if let Parameter::Efficiency(kernel, _) | Parameter::OwnWave(kernel) = parameter {
                kernel..kernel + 1
            } else {
                0..self.times.len()
            };
        let model = self.model_with(&constants);
        let mut errors: Vec<_> =
            touched.clone().map(|kernel| self.errors_of(&model, kernel)).collect();
        let costs: Vec<f64> = touched
            .clone()
            .zip(&errors)
            .map(|(kernel, errors)| self.cost(kernel, errors))
            .collect();
        let before = self.judged.total();
        let (new, old): (f64, f64) =
            (costs.iter().sum(), self.judged.costs[touched.clone()].iter().sum());
        self.judged.errors[touched.clone()].swap_with_slice(&mut errors);
        let choice = self.cost_of_the_choice(&self.judged.errors);
        let after = before + new - old + CHOICE * (choice - self.judged.choice);
        if after >= before * (1.0 - 1e-9) {
            self.judged.errors[touched].swap_with_slice(&mut errors);
            return false;
        }
        self.judged.costs.splice(touched, costs);
        self.judged.choice = choice;
        self.constants = constants;
        true
    }
}

/// Nanoseconds of a product as the model predicts them.
fn predicted(model: &DeviceModel, row: &Row) -> Option<f64> {
    let Row { spec, types, sizes, ranges, .. } = row;
    model.nanoseconds(spec, *types, *sizes, *ranges)
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
            own.wave = 1500.0;
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
        planted.launch = 7000.0;
        planted.next_launch = 3000.0;
        let rows = rows(&planted);
        let mut fit = Fit::new(LIMITS, committed(), &rows);
        let before = fit.errors();
        fit.run(true);
        for ((kernel, _, before), (.., after)) in before.iter().zip(fit.errors()) {
            assert!(*before > 3.0 && after < 1.0, "{kernel}: {before} and {after}");
        }
        let launch = fit.constants().launch;
        assert!((launch / 7000.0 - 1.0).abs() < 0.1, "{launch}");
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
