//! Where an axis has marks, and what stands beside them.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// Most labels of an axis.
const LABELS: usize = 9;

/// With fewer labels an axis cannot be read.
const FEW: usize = 3;

/// The unit of an axis of times, so that its labels are short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit {
    /// Its name in the plural.
    pub(super) name: &'static str,
    symbol: &'static str,
    pub(super) seconds: f64,
}

const UNITS: [Unit; 3] = [
    Unit { name: "microseconds", symbol: "us", seconds: 1e-6 },
    Unit { name: "milliseconds", symbol: "ms", seconds: 1e-3 },
    Unit { name: "seconds", symbol: "s", seconds: 1.0 },
];

impl Unit {
    /// The largest unit of which that time has at least one.
    pub(super) fn of(seconds: f64) -> Self {
        let fitting = UNITS.into_iter().rev().find(|unit| seconds >= 0.999_999 * unit.seconds);
        fitting.unwrap_or(UNITS[0])
    }
}

/// Marks of an axis: those with a label, and the thinner ones between them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ticks {
    bold: Vec<f64>,
    light: Vec<f64>,
    /// Digits behind the point of a label, in the axis's unit.
    decimals: usize,
    /// What a label of 1 stands for.
    unit: f64,
}

impl Ticks {
    /// Marks from 0 to `most`, at steps of 1, 2 or 5 times a power of ten of the unit.
    pub(super) fn linear(most: f64, unit: f64) -> Self {
        let most = most / unit;
        let least = most / LABELS as f64;
        let power = 10f64.powf(least.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
        let step = step.into_iter().find(|step| *step >= least).unwrap_or(10.0 * power);
        #[expect(clippy::cast_possible_truncation, reason = "a step is no small part of the axis")]
        let count = (most / step) as usize;
        // As many digits as the step has.
        #[expect(clippy::cast_possible_truncation, reason = "whole, and below 400 for any f64")]
        let decimals = (-(step * 1.000_001).log10().floor()).max(0.0) as usize;
        let bold = (0..=count).map(|index| index as f64 * step * unit).collect();
        Self { bold, light: Vec::new(), decimals, unit }
    }

    /// Marks of a logarithmic axis: at 1 to 9 times each power of ten, with a label at the powers, and
    /// where these are few also at 2 and 5 times them.
    pub(super) fn logarithmic(least: f64, most: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and below 400 for any f64")]
        let powers = least.log10().floor() as i32..=most.log10().ceil() as i32;
        let inside = |value: &f64| (least..=most).contains(value);
        let at = |digits: &[f64], every: usize| -> Vec<f64> {
            let powers = powers.clone().step_by(every);
            let values = powers.flat_map(|power| digits.iter().map(move |d| d * 10f64.powi(power)));
            values.filter(inside).collect()
        };
        let all = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];
        let light = if powers.clone().count() <= 2 * LABELS { at(&all, 1) } else { Vec::new() };
        let every = powers.clone().count().div_ceil(LABELS);
        let bold = match at(&[1.0, 2.0, 5.0], 1) {
            few if few.len() < FEW => at(&all, 1),
            some if some.len() <= LABELS => some,
            _ => at(&[1.0], every),
        };
        Self { bold, light, decimals: 0, unit: 1.0 }
    }

    /// An axis with these marks.
    pub(super) fn on<R>(&self, range: impl Into<R>) -> Marked<R> {
        Marked { inner: range.into(), ticks: self.clone() }
    }

    /// The label of a mark of a linear axis.
    pub(super) fn label(&self, value: f64) -> String {
        format!("{:.*}", self.decimals, value / self.unit)
    }
}

/// An axis with marks of its own.
pub(super) struct Marked<R> {
    inner: R,
    ticks: Ticks,
}

impl<R: Ranged<ValueType = f64>> Ranged for Marked<R> {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.inner.map(value, limit)
    }

    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            self.ticks.light.clone()
        } else {
            self.ticks.bold.clone()
        }
    }

    fn range(&self) -> Range<f64> {
        self.inner.range()
    }
}

/// The label of a time on a logarithmic axis, in a unit of its own.
pub(super) fn time(seconds: f64) -> String {
    let unit = Unit::of(seconds);
    format!("{} {}", number(seconds / unit.seconds), unit.symbol)
}

/// A number without a tail of zeros.
pub(super) fn number(value: f64) -> String {
    if !(1e-3..1e6).contains(&value) {
        return format!("{value:.0e}");
    }
    #[expect(clippy::cast_possible_truncation, reason = "whole, and at most 5 from 0.001 on")]
    let decimals = (2.0 - value.log10().floor()).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(most: f64, unit: Unit) -> Vec<String> {
        let ticks = Ticks::linear(most, unit.seconds);
        ticks.bold.iter().map(|value| ticks.label(*value)).collect()
    }

    #[test]
    fn no_two_labels_of_an_axis_are_the_same_and_each_is_exact() {
        for most in [1.6e-3, 4.1e-4, 1.05, 0.99, 7.0, 23.0, 1234.0, 1e-7, 3.3e5] {
            let unit = Unit::of(most);
            let labels = labels(most, unit);
            let ticks = Ticks::linear(most, unit.seconds);
            assert!((4..=10).contains(&labels.len()), "{most}: {labels:?}");
            let mut once = labels.clone();
            once.dedup();
            assert_eq!(once, labels, "{most}");
            for (label, value) in labels.iter().zip(&ticks.bold) {
                let shown: f64 = label.parse().unwrap();
                assert!((shown * unit.seconds - value).abs() <= 1e-9 * most, "{most}: {label}");
            }
        }
        let most = 1.6e-3;
        assert_eq!(
            labels(most, Unit::of(most)),
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0", "1.2", "1.4", "1.6"]
        );
        assert_eq!(Unit::of(most).name, "milliseconds");
        assert_eq!((Unit::of(1.0).name, Unit::of(1e-9).name), ("seconds", "microseconds"));
    }

    #[test]
    fn a_logarithmic_axis_has_several_labels_and_all_minor_marks() {
        assert_eq!(Ticks::logarithmic(15.0, 140.0).bold, [20.0, 50.0, 100.0]);
        let minor = Ticks::logarithmic(15.0, 140.0).light;
        assert_eq!(minor, [20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0]);
        assert_eq!(Ticks::logarithmic(20.0, 60.0).bold, [20.0, 30.0, 40.0, 50.0, 60.0]);
        let wide = Ticks::logarithmic(1e-7, 200.0).bold;
        assert!(wide.len() >= 5 && wide.len() <= LABELS, "{wide:?}");
        // Whatever a file says, an axis is made in no time.
        assert!(Ticks::logarithmic(1e-300, 1e300).bold.len() <= LABELS);
    }

    #[test]
    fn labels_of_times_are_short() {
        for (seconds, text) in
            [(1e-5, "10 us"), (2e-4, "200 us"), (1e-3, "1 ms"), (0.5, "500 ms"), (1000.0, "1000 s")]
        {
            assert_eq!(time(seconds), text);
        }
        assert_eq!(
            (number(0.25), number(1500.0), number(50.0)),
            ("0.25".into(), "1500".into(), "50".into())
        );
    }
}
