//! What a sweep's rows say together: how time grows, and from which size one line overtakes another.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::row::Point;
use crate::report::skipped::skip_at;

/// The line `seconds = c · n^exponent` through the larger sizes of an implementation.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The implementation.
    pub kernel: String,
    /// The exponent; the number of operations grows with 3.
    pub exponent: f64,
    /// Least and largest size fitted.
    pub sizes: (usize, usize),
    /// How many sizes that are.
    pub count: usize,
}

/// The size from which a line is the faster one.
#[derive(Clone, Debug, PartialEq)]
pub struct Crossover {
    /// What becomes faster.
    pub faster: String,
    /// What it overtakes.
    pub slower: String,
    /// What is compared.
    pub from: From,
    /// Sizes at which it is the faster one.
    pub wins: usize,
    /// Sizes on the wrong side of it, of all that both have.
    pub exceptions: usize,
    /// Sizes that both have.
    pub count: usize,
}

/// Where one line overtakes another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// It is faster at every size.
    Always,
    /// From this size on.
    Size(usize),
    /// At no size.
    Never,
}

/// One size in this many may be on the wrong side of a crossover that is worth the name.
const CLEAR: usize = 10;

/// Seconds by size.
type Line = BTreeMap<usize, f64>;

/// Implementations in the order of the file, each with its line.
fn lines(points: &[Point], seconds: impl Fn(&Point) -> Option<f64>) -> Vec<(String, Line)> {
    let mut lines: Vec<(String, Line)> = Vec::new();
    for point in points.iter().filter(|point| point.ok != Some(false)) {
        let Some(seconds) = seconds(point).filter(|seconds| *seconds > 0.0) else { continue };
        match lines.iter_mut().find(|(kernel, _)| *kernel == point.kernel) {
            Some((_, line)) => drop(line.insert(point.n, seconds)),
            None => lines.push((point.kernel.clone(), Line::from([(point.n, seconds)]))),
        }
    }
    lines
}

/// How the time of each implementation grows: a least-squares line through the logarithms of the
/// sizes from a quarter of its largest on, below which fixed costs weigh; three sizes at least.
#[must_use]
pub fn fits(points: &[Point]) -> Vec<Fit> {
    lines(points, |point| point.seconds)
        .into_iter()
        .filter_map(|(kernel, line)| fit(kernel, &line))
        .collect()
}

fn fit(kernel: String, line: &Line) -> Option<Fit> {
    let (&largest, _) = line.last_key_value()?;
    let part: Vec<(f64, f64)> = line
        .range(largest.div_ceil(4)..)
        .map(|(&n, &seconds)| ((n as f64).ln(), seconds.ln()))
        .collect();
    let count = part.len();
    if count < 3 {
        return None;
    }
    let mean =
        |value: &dyn Fn(&(f64, f64)) -> f64| part.iter().map(value).sum::<f64>() / count as f64;
    let (x, y) = (mean(&|point| point.0), mean(&|point| point.1));
    let above = mean(&|point| (point.0 - x) * (point.1 - y));
    let below = mean(&|point| (point.0 - x).powi(2));
    let (&least, _) = line.range(largest.div_ceil(4)..).next()?;
    Some(Fit { kernel, exponent: above / below, sizes: (least, largest), count })
}

/// From where `faster` overtakes `slower`: the size that leaves the fewest sizes on the wrong side, so
/// that one noisy row does not move it far.
fn crossover(faster: (&str, &Line), slower: (&str, &Line)) -> Option<Crossover> {
    let wins: Vec<(usize, bool)> =
        faster.1.iter().filter_map(|(n, seconds)| Some((*n, seconds < slower.1.get(n)?))).collect();
    if wins.is_empty() {
        return None;
    }
    // Wrong if the change stood before the first size: every size that is lost.
    let mut wrong = wins.iter().filter(|(_, won)| !won).count();
    let mut best = (wrong, 0);
    for (place, (_, won)) in wins.iter().enumerate() {
        if *won {
            wrong += 1
        } else {
            wrong -= 1
        }
        if wrong < best.0 {
            best = (wrong, place + 1);
        }
    }
    let from = match best.1 {
        0 => From::Always,
        place => wins.get(place).map_or(From::Never, |(n, _)| From::Size(*n)),
    };
    Some(Crossover {
        faster: faster.0.to_owned(),
        slower: slower.0.to_owned(),
        from,
        wins: wins.iter().filter(|(_, won)| *won).count(),
        exceptions: best.0,
        count: wins.len(),
    })
}

/// The least seconds of several lines at each size.
fn envelope<'l>(lines: impl Iterator<Item = &'l (String, Line)>) -> Line {
    let mut least = Line::new();
    for (n, seconds) in lines.flat_map(|(_, line)| line) {
        let entry = least.entry(*n).or_insert(*seconds);
        *entry = entry.min(*seconds);
    }
    least
}

/// Who overtakes whom: each implementation against the one before it and against the first, and the
/// GPU against the CPU, each with its fastest row, with transfers and without.
#[must_use]
pub fn crossovers(points: &[Point]) -> Vec<Crossover> {
    let all = lines(points, |point| point.seconds);
    let mut found = Vec::new();
    for (place, (kernel, line)) in all.iter().enumerate().skip(1) {
        let mut others = vec![&all[place - 1]];
        if place > 1 {
            others.push(&all[0]);
        }
        for (other, slower) in others {
            found.extend(crossover((kernel, line), (other, slower)));
        }
    }
    let on_gpu =
        |kernel: &String| points.iter().any(|p| p.kernel == *kernel && p.kernel_seconds.is_some());
    let cpu = envelope(all.iter().filter(|(kernel, _)| !on_gpu(kernel)));
    let gpu = envelope(all.iter().filter(|(kernel, _)| on_gpu(kernel)));
    let kernels = lines(points, |point| point.kernel_seconds);
    let kernels = envelope(kernels.iter());
    found.extend(crossover(("GPU with transfers", &gpu), ("CPU", &cpu)));
    found.extend(crossover(("GPU without transfers", &kernels), ("CPU", &cpu)));
    found
}

impl std::fmt::Display for Crossover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { faster, slower, from, wins, exceptions, count } = self;
        match (from, exceptions) {
            (From::Size(n), 0) => write!(f, "{faster} overtakes {slower} from n = {n}"),
            (From::Size(n), _) if exceptions * CLEAR <= *count => write!(
                f,
                "{faster} overtakes {slower} from n = {n} ({exceptions} of {count} sizes say otherwise)"
            ),
            (From::Size(_), _) => write!(
                f,
                "{faster} is faster than {slower} at {wins} of {count} sizes, with no clear crossover"
            ),
            (From::Always, 0) => write!(f, "{faster} is faster than {slower} at every size"),
            (From::Never, 0) => write!(f, "{faster} is not faster than {slower} at any size"),
            (From::Always | From::Never, _) => {
                write!(f, "{faster} is faster than {slower} at {wins} of {count} sizes")
            }
        }
    }
}

/// All of it in words, and what was skipped.
#[must_use]
pub fn summary(points: &[Point]) -> String {
    let mut text = String::new();
    for crossover in crossovers(points) {
        let _ = writeln!(text, "{crossover}");
    }
    for Fit { kernel, exponent, sizes: (least, largest), count } in fits(points) {
        let _ = writeln!(
            text,
            "{kernel}: time grows as n^{exponent:.2} from n = {least} to {largest} ({count} sizes)"
        );
    }
    for point in points.iter().filter(|point| point.ok == Some(false)) {
        let _ = writeln!(text, "WRONG: {} at n = {}", point.kernel, point.n);
    }
    text + &skipped(points)
}

/// Why a picture of these rows would show nothing, on one line.
#[must_use]
pub fn undrawn(points: &[Point]) -> String {
    let wrong = points.iter().filter(|point| point.ok == Some(false));
    let wrong = wrong.map(|point| format!("wrong {} at n = {}", point.kernel, point.n));
    let missing: Vec<String> = wrong.chain(skipped(points).lines().map(str::to_owned)).collect();
    match missing.len() {
        0 => "there is no row".to_owned(),
        _ => format!("no row has a right result and its time: {}", missing.join("; ")),
    }
}

/// What was skipped: a line for implementations that share reason, first size and number of sizes.
fn skipped(points: &[Point]) -> String {
    let mut kernels: Vec<(&str, usize, &Point)> = Vec::new();
    for point in points.iter().filter(|point| point.skipped.is_some()) {
        match kernels.iter_mut().find(|(kernel, _, _)| *kernel == point.kernel) {
            Some((_, count, _)) => *count += 1,
            None => kernels.push((&point.kernel, 1, point)),
        }
    }
    let mut lines: Vec<(Vec<&str>, usize, &Point)> = Vec::new();
    for (kernel, count, first) in kernels {
        let alike = lines.iter_mut().find(|(_, other, point)| {
            *other == count && point.n == first.n && point.skipped == first.skipped
        });
        match alike {
            Some((kernels, _, _)) => kernels.push(kernel),
            None => lines.push((vec![kernel], count, first)),
        }
    }
    let mut text = String::new();
    for (kernels, count, Point { n, skipped, .. }) in lines {
        let reason = skipped.as_deref().unwrap_or_default();
        let sizes = if count == 1 { "size" } else { "sizes" };
        let place = format!("{count} {sizes}, the first n = {n}");
        let _ = writeln!(text, "{}", skip_at(&kernels, &place, reason));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(kernel: &str, n: usize, seconds: f64) -> Point {
        Point {
            n,
            kernel: kernel.to_owned(),
            seconds: Some(seconds),
            ok: Some(true),
            ..Point::default()
        }
    }

    /// `overhead + c n³` for each of some kernels.
    fn points(kernels: &[(&str, f64, f64)], sizes: &[usize]) -> Vec<Point> {
        let row = |n: usize| {
            kernels.iter().map(move |(kernel, overhead, c)| {
                point(kernel, n, overhead + c * (n as f64).powi(3))
            })
        };
        sizes.iter().flat_map(|&n| row(n)).collect()
    }

    #[test]
    fn a_cubic_line_has_exponent_3_and_overheads_flatten_it() {
        let sizes: Vec<usize> = (1..=64).map(|i| 8 * i).collect();
        let fits = fits(&points(&[("cubic", 0.0, 1e-9), ("flat", 1.0, 0.0)], &sizes));
        assert!((fits[0].exponent - 3.0).abs() < 1e-9, "{fits:?}");
        assert_eq!((fits[0].sizes, fits[0].count), ((128, 512), 49));
        assert!(fits[1].exponent.abs() < 1e-9, "{fits:?}");
        assert_eq!(super::fits(&points(&[("few", 0.0, 1.0)], &[512, 1024])), []);
    }

    #[test]
    fn crossovers_are_found_where_the_lines_cross() {
        // 1e-9 n³ = 1e-3 + 1e-10 n³ at n = 103.6.
        let sizes: Vec<usize> = (1..=40).map(|i| 8 * i).collect();
        let mut rows = points(&[("serial", 0.0, 1e-9), ("threads", 1e-3, 1e-10)], &sizes);
        let found = crossovers(&rows);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].from, found[0].exceptions), (From::Size(104), 0));
        assert_eq!(found[0].to_string(), "threads overtakes serial from n = 104");
        // One noisy row does not move it, and is owned up to.
        let noisy = rows.iter_mut().find(|p| p.kernel == "threads" && p.n == 200).unwrap();
        noisy.seconds = Some(1.0);
        let noisy = crossovers(&rows);
        let text = noisy[0].to_string();
        assert_eq!(text, "threads overtakes serial from n = 104 (1 of 40 sizes say otherwise)");
        let several = |wins: &str| {
            let seconds = |won| if won == '+' { 0.5 } else { 2.0 };
            let rows = wins
                .chars()
                .enumerate()
                .flat_map(|(at, won)| [point("a", at + 1, 1.0), point("b", at + 1, seconds(won))]);
            crossovers(&rows.collect::<Vec<_>>())[0].to_string()
        };
        assert_eq!(several("+++-++++"), "b is faster than a at 7 of 8 sizes");
        assert_eq!(several("-+---+--"), "b is faster than a at 2 of 8 sizes");
        assert_eq!(
            several("--+-++-+++"),
            "b is faster than a at 6 of 10 sizes, with no clear crossover"
        );
        let apart =
            points(&[("slow", 1.0, 1.0), ("fast", 0.5, 0.5), ("slower", 2.0, 2.0)], &[8, 16]);
        let said: Vec<String> = crossovers(&apart).iter().map(Crossover::to_string).collect();
        assert_eq!(
            said,
            [
                "fast is faster than slow at every size",
                "slower is not faster than fast at any size",
                "slower is not faster than slow at any size",
            ]
        );
    }

    #[test]
    fn the_gpu_counts_with_and_without_its_transfers() {
        let mut rows =
            points(&[("serial", 0.0, 1e-9), ("naive", 1e-3, 1e-10)], &[16, 64, 128, 256]);
        for row in rows.iter_mut().filter(|row| row.kernel == "naive") {
            row.kernel_seconds = row.seconds.map(|seconds| seconds - 1e-3 + 1e-6);
        }
        let text = summary(&rows);
        assert!(text.contains("GPU with transfers overtakes CPU from n = 128"), "{text}");
        assert!(text.contains("GPU without transfers is faster than CPU at every size"), "{text}");
    }

    #[test]
    fn wrong_and_skipped_rows_are_named_and_not_compared() {
        let mut rows = points(&[("serial", 0.0, 1e-9), ("bad", 0.0, 1e-12)], &[8, 16]);
        for row in rows.iter_mut().filter(|row| row.kernel == "bad") {
            row.ok = Some(false);
        }
        for kernel in ["naive", "tiled2"] {
            let (kernel, skipped) = (kernel.to_owned(), Some("no GPU".to_owned()));
            rows.push(Point { n: 16, kernel, skipped, ..Point::default() });
        }
        let text = summary(&rows);
        assert_eq!(
            text,
            "WRONG: bad at n = 8\nWRONG: bad at n = 16\nskipped naive, tiled2 at 1 size, the first n = 16: no GPU\n"
        );
    }
}
