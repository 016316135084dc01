//! Who may run and for how long: the shares of a sweep's budget, and the file that its rows go to.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::record::Record;
use super::row::Point;
use crate::measure::Effort;
use crate::report::duration::seconds as in_seconds;
use crate::run::{Failure, Outcome, Probe, Scheduler};

/// What an implementation has spent, and the largest size whose time is known.
#[derive(Clone, Copy, Default)]
struct Account {
    spent: f64,
    /// Operations and seconds, measured or probed.
    known: Option<(f64, f64)>,
}

/// Keeps the accounts and the file.
pub(super) struct Ledger<'p> {
    /// Seconds that each implementation may spend.
    share: f64,
    accounts: HashMap<&'static str, Account>,
    plan: &'p [(usize, &'static str)],
    pub(super) points: Vec<Point>,
    record: Record,
    /// The size at work.
    pub(super) n: usize,
    pub(super) failure: Option<Failure>,
}

/// Repeats last so long where time is plenty.
const MOST_SECONDS: f64 = 0.3;
/// The share of what an implementation has left that a probe may take.
const PROBE: f64 = 0.05;
/// Within this many times the operations a prediction is believed: that is twice the size.
const NEAR: f64 = 8.0;

/// What every reason says that is a want of time.
pub(super) const BUDGET: &str = "share of the budget";
/// Of what an implementation has left, the share that goes to repeats even where it will not last until
/// the largest size.
const REPEATS: f64 = 0.1;

/// How often rows are repeated that may take that many seconds together. As in a run a row of some
/// length stands alone.
fn effort(total: f64) -> Effort {
    let total = total.clamp(0.0, MOST_SECONDS);
    let whole = Effort::ROW.single.as_secs_f64() / MOST_SECONDS;
    Effort {
        single: Duration::from_secs_f64(total * whole),
        total: Duration::from_secs_f64(total),
        wall: Duration::from_secs_f64(total),
        ..Effort::ROW
    }
}

/// Seconds that repeats of a run of `seconds` take: at least a warm-up and one, unless it stands alone.
fn cost(seconds: f64, effort: Effort) -> f64 {
    if seconds >= effort.single.as_secs_f64() {
        return seconds;
    }
    (effort.most as f64 * seconds).min(effort.total.as_secs_f64()).max(2.0 * seconds)
}

impl<'p> Ledger<'p> {
    /// A ledger of the rows in the file so far; `share` is what each implementation may spend.
    pub(super) fn new(
        share: f64,
        plan: &'p [(usize, &'static str)],
        record: Record,
        points: Vec<Point>,
    ) -> Self {
        let rows = points.len();
        let accounts = HashMap::new();
        let mut ledger = Self { share, accounts, plan, points, record, n: 0, failure: None };
        (0..rows).for_each(|index| ledger.remember(index));
        ledger
    }

    /// Implementations whose row at a size is not in the file.
    pub(super) fn rest(&self, n: usize) -> Vec<&'static str> {
        let rest = &self.plan[self.points.len()..];
        rest.iter().filter(|(size, _)| *size == n).map(|(_, kernel)| *kernel).collect()
    }

    /// Learns from a row how long larger ones will take.
    fn remember(&mut self, index: usize) {
        let ((n, kernel), point) = (self.plan[index], &self.points[index]);
        if let Some(seconds) = point.seconds {
            let flops = 2.0 * (n as f64).powi(3);
            self.accounts.entry(kernel).or_default().known = Some((flops, seconds));
        }
    }

    /// Predicted seconds by c·n³ from the largest size that is known, and how many times its
    /// operations that are.
    fn predicted(&self, kernel: &str, flops: f64) -> Option<(f64, f64)> {
        let (largest, seconds) = self.accounts.get(kernel)?.known?;
        Some((seconds * flops / largest, flops / largest))
    }

    /// What the row of an implementation may take, repeats included. Time is set aside for a warm-up and
    /// a run of each larger size that it lasts for; repeats share what is left over.
    fn allowance(&self, kernel: &str) -> (f64, Effort) {
        let left = self.share - self.accounts.get(kernel).map_or(0.0, |account| account.spent);
        let (mut spare, mut rest) = (left, 0);
        for (n, _) in self.plan[self.points.len()..].iter().filter(|(_, other)| *other == kernel) {
            let predicted = self.predicted(kernel, 2.0 * (*n as f64).powi(3));
            let least = predicted.map_or(0.0, |(seconds, _)| 2.0 * seconds);
            if least <= spare {
                spare -= least;
            }
            rest += 1;
        }
        (left, effort(spare.max(REPEATS * left) / f64::from(rest.max(1))))
    }

    /// Predicted seconds until the end; rows that will not fit take none.
    fn left(&self) -> f64 {
        let mut lefts = HashMap::new();
        for &(n, kernel) in &self.plan[self.points.len()..] {
            let (left, effort) = *lefts.entry(kernel).or_insert_with(|| self.allowance(kernel));
            let flops = 2.0 * (n as f64).powi(3);
            let predicted = self.predicted(kernel, flops).map_or(0.0, |(seconds, _)| seconds);
            let cost = cost(predicted, effort);
            if cost <= left {
                lefts.insert(kernel, (left - cost, effort));
            }
        }
        let kernels = lefts.iter().map(|(kernel, (left, _))| self.allowance(kernel).0 - left);
        kernels.sum()
    }
}

impl Scheduler for Ledger<'_> {
    fn grant(
        &mut self,
        kernel: &'static str,
        flops: f64,
        probe: Probe<'_>,
    ) -> Result<Effort, String> {
        let (left, effort) = self.allowance(kernel);
        let fits = |seconds: f64| cost(seconds, effort) <= left;
        let known = self.predicted(kernel, flops);
        let mut predicted = known.map(|(seconds, _)| seconds);
        let near = known.is_some_and(|(_, times)| times <= NEAR);
        // From far smaller sizes, where overheads weigh, a prediction is too high: look closer.
        if !near && !predicted.is_some_and(fits) && left > 0.0 {
            let started = Instant::now();
            let time = Duration::from_secs_f64(left * PROBE);
            let probed = probe(time).map_err(|error| error.to_string())?;
            let seconds = predicted.map_or(probed, |seconds| seconds.min(probed));
            let account = self.accounts.entry(kernel).or_default();
            account.spent += started.elapsed().as_secs_f64();
            account.known = Some((flops, seconds));
            predicted = Some(seconds);
        }
        match predicted {
            Some(seconds) if fits(seconds) => Ok(effort),
            Some(seconds) if left > 0.0 => Err(format!(
                "by prediction {} s: it does not fit its {BUDGET}; give --budget SECONDS",
                in_seconds(seconds)
            )),
            _ => Err(format!("its {BUDGET} is spent; give --budget SECONDS")),
        }
    }

    fn announce(&self, kernel: &'static str) -> String {
        let (done, all) = (self.points.len() + 1, self.plan.len());
        format!("{kernel} at {}, row {done} of {all}, about {:.0} s left", self.n, self.left())
    }

    fn take(
        &mut self,
        kernel: &'static str,
        outcome: Outcome,
        spent: Duration,
    ) -> std::io::Result<()> {
        let n = self.n;
        let point = match outcome {
            Outcome::Row(row) => {
                self.accounts.entry(kernel).or_default().spent += spent.as_secs_f64();
                Point::measured(n, *row)
            }
            Outcome::Skipped(reason) => Point::skipped(n, kernel, reason),
            Outcome::Failed(failure, reason) => {
                self.failure.get_or_insert(failure);
                Point::skipped(n, kernel, reason)
            }
        };
        self.record.add(&point)?;
        self.points.push(point);
        self.remember(self.points.len() - 1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::request;
    use super::super::{Processors, RowFormat, plan, settings};
    use super::*;
    use crate::error::Error;

    const PLAN: &[(usize, &str)] = &[(10, "serial"), (20, "serial"), (40, "serial")];

    fn ledger(folder: &tempfile::TempDir, share: f64) -> Ledger<'static> {
        let request = request();
        assert_eq!(plan(&request), PLAN);
        let processors = Processors::open(request.config.device, None).unwrap();
        let settings = settings(&request, &processors);
        let path = folder.path().join("rows.csv");
        let record = Record::create(&path, RowFormat::Csv, &settings).unwrap();
        let mut ledger = Ledger::new(share, PLAN, record, Vec::new());
        ledger.n = 10;
        ledger
    }

    #[test]
    fn a_share_is_spent_from_the_smallest_size_on() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = ledger(&folder, 3.0);
        let flops = |n: f64| 2.0 * n.powi(3);
        let mut never = |_: Duration| -> Result<f64, Error> { panic!("no probe is needed") };
        assert_eq!(ledger.grant("serial", flops(10.0), &mut |_| Ok(0.1)).unwrap().most, 100);
        // As if 10 had taken 0.25 s: 20 takes 2 s, 40 takes 16.
        ledger.points.push(Point { n: 10, seconds: Some(0.25), ..Point::default() });
        ledger.remember(0);
        ledger.accounts.get_mut("serial").unwrap().spent = 0.5;
        assert!(ledger.grant("serial", flops(20.0), &mut never).is_ok());
        assert!((ledger.left() - 2.0).abs() < 1e-9, "{}", ledger.left());
        // Far off a probe is asked, which may find that the prediction was too high, and is believed
        // from then on.
        assert!(ledger.grant("serial", flops(40.0), &mut |_| Ok(1.0)).is_ok());
        let refusal = ledger.grant("serial", flops(80.0), &mut never).unwrap_err();
        assert!(refusal.contains("by prediction 8.000 s"), "{refusal}");
        ledger.accounts.get_mut("serial").unwrap().spent = 3.5;
        let refusal = ledger.grant("serial", flops(20.0), &mut never).unwrap_err();
        assert!(refusal.contains("is spent"), "{refusal}");
        assert_eq!(ledger.left(), 0.0);
    }

    #[test]
    fn repeats_of_small_sizes_leave_time_for_large_ones() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = ledger(&folder, 0.2);
        let mut never = |_: Duration| -> Result<f64, Error> { panic!("no probe is needed") };
        // 8 ms at 20 and 64 ms at 40: repeats of the one must not take what the other needs.
        ledger.points.push(Point { n: 10, seconds: Some(0.001), ..Point::default() });
        ledger.remember(0);
        let effort = ledger.grant("serial", 2.0 * 20f64.powi(3), &mut never).unwrap();
        ledger.accounts.get_mut("serial").unwrap().spent += cost(0.008, effort);
        ledger.points.push(Point { n: 20, seconds: Some(0.008), ..Point::default() });
        ledger.remember(1);
        assert!(ledger.grant("serial", 2.0 * 40f64.powi(3), &mut never).is_ok());
    }

    #[test]
    fn progress_says_the_row_and_the_time_left() {
        let folder = tempfile::tempdir().unwrap();
        let mut ledger = ledger(&folder, 1000.0);
        ledger.points.push(Point { n: 10, seconds: Some(1.0), ..Point::default() });
        ledger.remember(0);
        ledger.n = 20;
        // 8 s at 20 and 64 s at 40; each stands alone.
        assert_eq!(ledger.announce("serial"), "serial at 20, row 2 of 3, about 72 s left");
    }

    #[test]
    fn repeats_shrink_with_the_time_there_is() {
        assert_eq!(effort(10.0).total, Effort::ROW.total);
        assert_eq!(effort(10.0).single, Effort::ROW.single);
        let short = effort(0.03);
        assert_eq!((short.total.as_millis(), short.single.as_millis()), (30, 50));
        assert_eq!(cost(1.0, short), 1.0);
        assert_eq!(cost(0.04, short), 0.08);
        assert_eq!(cost(0.001, short), 0.03);
        assert!((cost(0.000_01, short) - 0.001).abs() < 1e-12);
    }
}
