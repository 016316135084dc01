//! A sweep as a picture: the same lines on linear axes and on logarithmic ones.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::ledger::BUDGET;
use super::row::Point;
use super::ticks::{Ticks, Unit, number, time};
use crate::history::Figure;

/// What the upright axis shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Axis {
    /// Seconds, transfers included.
    #[default]
    Seconds,
    /// `2n³` over the time of the computation alone, in 10⁹ a second.
    Gflops,
}

impl Axis {
    fn label(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::Gflops => "GFLOP/s",
        }
    }

    fn value(self, point: &Point) -> Option<f64> {
        match self {
            Self::Seconds => point.seconds,
            Self::Gflops => point.gflops,
        }
    }

    /// A figure of the seeds on this axis.
    fn of_figure(self, n: usize, seconds: f64) -> f64 {
        match self {
            Self::Seconds => seconds,
            Self::Gflops => 2.0 * (n as f64).powi(3) / seconds / 1e9,
        }
    }
}

impl std::str::FromStr for Axis {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "seconds" => Ok(Self::Seconds),
            "gflops" => Ok(Self::Gflops),
            _ => Err(format!("`{name}` is none of seconds, gflops")),
        }
    }
}

/// Colours that stay apart for the colour-blind, then the same darker.
const COLOURS: [RGBColor; 16] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(120, 94, 240),
    RGBColor(100, 100, 100),
    RGBColor(0, 57, 89),
    RGBColor(106, 47, 0),
    RGBColor(0, 79, 57),
    RGBColor(102, 60, 83),
    RGBColor(115, 80, 0),
    RGBColor(43, 90, 116),
    RGBColor(60, 47, 120),
    RGBColor(0, 0, 0),
];

/// A named line, or marks where it is one of the seeds' figures.
struct Curve {
    name: String,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
    /// Figures of the seeds for the same implementation.
    then: Vec<(f64, f64)>,
    /// Whether larger sizes were left out for want of time.
    cut: bool,
}

impl Curve {
    fn last(&self) -> Option<(f64, f64)> {
        self.points.last().copied()
    }

    /// The line of the legend.
    fn label(&self) -> String {
        match self.last() {
            Some((n, _)) if self.cut => format!("{}, cut at n = {n:.0}", self.name),
            _ => self.name.clone(),
        }
    }
}

/// Draws the measured rows; `peak` is a rate in GFLOP/s, `figures` are those of the seeds that may lie
/// beside them. `None` where no row was measured.
///
/// # Errors
/// What the drawing library answers, in words.
pub fn draw(
    points: &[Point],
    axis: Axis,
    peak: Option<f64>,
    figures: &[Figure],
    title: &str,
) -> Result<Option<String>, String> {
    let curves = curves(points, axis, figures);
    if curves.is_empty() {
        return Ok(None);
    }
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (1400, 620)).into_drawing_area();
        let sizes = || curves.iter().flat_map(|curve| curve.points.iter().map(|(n, _)| *n));
        let one = sizes().next().filter(|first| sizes().all(|n| n == *first));
        let drawn = match one {
            Some(n) => bars(&root, &curves, axis, n, title),
            None => panels(&root, &curves, axis, peak, title),
        };
        drawn.map_err(|error| error.to_string())?;
    }
    Ok(Some(svg))
}

fn curves(points: &[Point], axis: Axis, figures: &[Figure]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for point in points.iter().filter(|point| point.ok != Some(false)) {
        let Some(value) = axis.value(point).filter(|value| *value > 0.0) else { continue };
        let at = (point.n as f64, value);
        match curves.iter_mut().find(|curve| curve.name == point.kernel) {
            Some(curve) => curve.points.push(at),
            None => curves.push(Curve {
                colour: COLOURS[curves.len() % COLOURS.len()],
                name: point.kernel.clone(),
                points: vec![at],
                then: Vec::new(),
                cut: false,
            }),
        }
    }
    // Beside the lines, not far off to the right of them.
    let largest = points.iter().map(|point| point.n).max().unwrap_or(0);
    for curve in &mut curves {
        let own = figures.iter().filter(|f| f.kernel == curve.name && f.n <= largest);
        curve.then = own.map(|f| (f.n as f64, axis.of_figure(f.n, f.seconds))).collect();
        let ended = curve.last().map_or(0.0, |(n, _)| n);
        curve.cut = points.iter().any(|point| {
            let reason = point.skipped.as_deref().unwrap_or_default();
            point.kernel == curve.name && point.n as f64 > ended && reason.contains(BUDGET)
        });
    }
    curves
}

type Drawn<'s> = Result<(), DrawingAreaErrorKind<<SVGBackend<'s> as DrawingBackend>::ErrorType>>;
type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;

/// Width of each panel; the legend has what is left.
const PANEL: i32 = 590;

fn panels<'s>(
    root: &Area<'s>,
    curves: &[Curve],
    axis: Axis,
    peak: Option<f64>,
    title: &str,
) -> Drawn<'s> {
    root.fill(&WHITE)?;
    let root = root.titled(title, ("sans-serif", 17))?;
    let (linear, rest) = root.split_horizontally(PANEL);
    let (logarithmic, beside) = rest.split_horizontally(PANEL);
    let all = || curves.iter().flat_map(|curve| curve.points.iter().chain(&curve.then)).copied();
    let peak = peak.filter(|_| axis == Axis::Gflops);
    let (mut x, mut y) = ((f64::MAX, 0.0f64), (f64::MAX, 0.0f64));
    for (n, value) in all().chain(peak.map(|peak| (all().next().map_or(1.0, |(n, _)| n), peak))) {
        x = (x.0.min(n), x.1.max(n));
        y = (y.0.min(value), y.1.max(value));
    }
    // Linear axes end with the lines: the seeds' figures would press these to the ground.
    let drawn = curves.iter().flat_map(|curve| &curve.points).map(|(_, value)| *value);
    let top = drawn.chain(peak).fold(0.0, f64::max) * 1.05;
    let unit = Unit::of(top);
    let (up, name) = match axis {
        Axis::Seconds => (Ticks::linear(top, unit.seconds), unit.name),
        Axis::Gflops => (Ticks::linear(top, 1.0), "GFLOP/s"),
    };
    let right = x.1 * 1.02;
    let across = Ticks::linear(right, 1.0);
    let mut chart = builder(&linear, "linear");
    let chart = chart.build_cartesian_2d(
        across.on::<RangedCoordf64>(0.0..right),
        up.on::<RangedCoordf64>(0.0..top),
    )?;
    let labels = (|n: &f64| across.label(*n), |value: &f64| up.label(*value));
    panel(chart, curves, (name, &labels.0, &labels.1), peak, x, top)?;
    let (x_ends, y_ends) = ((x.0 / 1.1, x.1 * 1.1), (y.0 / 1.5, y.1 * 1.5));
    let (across, up) =
        (Ticks::logarithmic(x_ends.0, x_ends.1), Ticks::logarithmic(y_ends.0, y_ends.1));
    let mut chart = builder(&logarithmic, "log-log");
    let chart = chart.build_cartesian_2d(
        across.on::<LogCoord<f64>>((x_ends.0..x_ends.1).log_scale()),
        up.on::<LogCoord<f64>>((y_ends.0..y_ends.1).log_scale()),
    )?;
    // Each label of a time has a unit of its own.
    let name = if axis == Axis::Seconds { "time" } else { axis.label() };
    let value = |value: &f64| match axis {
        Axis::Seconds => time(*value),
        Axis::Gflops => number(*value),
    };
    panel(chart, curves, (name, &|n: &f64| number(*n), &value), peak, x, y.1)?;
    legend(&beside, curves, peak.is_some(), y.1)?;
    root.present()
}

fn builder<'a, 'b, 's>(
    area: &'a Area<'s>,
    caption: &'b str,
) -> ChartBuilder<'a, 'b, SVGBackend<'s>> {
    let mut chart = ChartBuilder::on(area);
    chart
        .caption(caption, ("sans-serif", 14))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70);
    chart
}

/// What the upright axis is called, and the labels of both.
type Labels<'l> = (&'l str, &'l dyn Fn(&f64) -> String, &'l dyn Fn(&f64) -> String);

fn panel<'a, 's: 'a, X, Y>(
    mut chart: ChartContext<'a, SVGBackend<'s>, Cartesian2d<X, Y>>,
    curves: &[Curve],
    (name, x_label, y_label): Labels<'_>,
    peak: Option<f64>,
    x: (f64, f64),
    top: f64,
) -> Drawn<'s>
where
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .x_desc("n")
        .y_desc(name)
        .x_label_formatter(x_label)
        .y_label_formatter(y_label)
        .light_line_style(RGBColor(240, 240, 240))
        .bold_line_style(RGBColor(205, 205, 205))
        .draw()?;
    for curve in curves {
        let colour = curve.colour;
        chart.draw_series(LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2)))?;
        if curve.points.len() <= 40 {
            let dots = curve.points.iter().map(|&at| Circle::new(at, 2, colour.filled()));
            chart.draw_series(dots)?;
        }
        if let Some(end) = curve.last().filter(|_| curve.cut) {
            let bar = PathElement::new([(0, -7), (0, 7)], colour.stroke_width(3));
            chart.draw_series([EmptyElement::at(end) + bar])?;
        }
        let inside = curve.then.iter().filter(|(_, value)| *value <= top);
        chart.draw_series(inside.map(|&at| Cross::new(at, 6, colour.stroke_width(2))))?;
    }
    if let Some(peak) = peak {
        let line = [(x.0, peak), (x.1, peak)];
        chart.draw_series(LineSeries::new(line, BLACK.stroke_width(1)))?;
    }
    Ok(())
}

/// A number of lines or bars, in the type of the picture's coordinates.
fn pixels(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Height of a line of the legend, where there is room.
const LINE: i32 = 18;

/// The names beside the panels, where they cover no line.
fn legend<'s>(area: &Area<'s>, curves: &[Curve], peak: bool, top: f64) -> Drawn<'s> {
    let then = |curve: &Curve| curve.then.iter().any(|(_, value)| *value <= top);
    let lines = curves.len() + curves.iter().filter(|curve| then(curve)).count() + 1;
    let (_, height) = area.dim_in_pixel();
    let line = LINE.min((height as i32 - 50) / pixels(lines));
    let mut y = 40;
    let mut text = |words: &str| -> Result<i32, _> {
        let at = y;
        area.draw(&Text::new(words.to_owned(), (24, at - 6), ("sans-serif", 12)))?;
        y += line;
        Ok(at)
    };
    for curve in curves {
        let y = text(&curve.label())?;
        area.draw(&Rectangle::new([(4, y - 4), (18, y + 4)], curve.colour.filled()))?;
        if then(curve) {
            let y = text(&format!("{} then", curve.name))?;
            area.draw(&Cross::new((11, y), 5, curve.colour.stroke_width(2)))?;
        }
    }
    if peak {
        let y = text("peak of the GPU's units")?;
        area.draw(&PathElement::new([(4, y), (18, y)], BLACK))?;
    }
    Ok(())
}

/// One size has no lines: a bar for each implementation, with its value.
fn bars<'s>(root: &Area<'s>, curves: &[Curve], axis: Axis, n: f64, title: &str) -> Drawn<'s> {
    const LEFT: i32 = 190;
    const LONGEST: f64 = 1000.0;
    root.fill(&WHITE)?;
    let root = root.titled(title, ("sans-serif", 17))?;
    root.draw(&Text::new(format!("{}, n = {n:.0}", axis.label()), (LEFT, 10), ("sans-serif", 14)))?;
    let values = curves.iter().filter_map(|curve| Some((curve, curve.last()?.1)));
    let most = values.clone().map(|(_, value)| value).fold(0.0, f64::max);
    let height = (540 / pixels(curves.len().max(1))).min(40);
    for (index, (curve, value)) in (0..).zip(values) {
        let top = 40 + index * height;
        let middle = top + height / 2 - 7;
        #[expect(clippy::cast_possible_truncation, reason = "no longer than the longest")]
        let right = LEFT + (LONGEST * value / most).ceil() as i32;
        let bar = [(LEFT, top + height / 8), (right, top + height - height / 8)];
        root.draw(&Rectangle::new(bar, curve.colour.filled()))?;
        root.draw(&Text::new(curve.name.clone(), (10, middle), ("sans-serif", 13)))?;
        let shown = match axis {
            Axis::Seconds => time(value),
            Axis::Gflops => number(value),
        };
        root.draw(&Text::new(shown, (right + 8, middle), ("sans-serif", 13)))?;
    }
    root.present()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(kernel: &str, n: usize, seconds: f64) -> Point {
        let gflops = 2.0 * (n as f64).powi(3) / seconds / 1e9;
        Point {
            n,
            kernel: kernel.to_owned(),
            seconds: Some(seconds),
            gflops: Some(gflops),
            ..Point::default()
        }
    }

    fn drawn(points: &[Point], axis: Axis, peak: Option<f64>) -> String {
        draw(points, axis, peak, crate::history::FIGURES, "a sweep")
            .unwrap()
            .expect("there is something to draw")
    }

    #[test]
    fn each_line_has_one_colour_in_both_panels_and_the_seeds_a_mark() {
        let rows: Vec<Point> = [64, 512, 1024]
            .into_iter()
            .flat_map(|n| {
                let seconds = 1e-9 * (n as f64).powi(3);
                [point("serial", n, seconds), point("rayon", n, seconds / 2.0)]
            })
            .collect();
        let svg = drawn(&rows, Axis::Seconds, Some(100.0));
        assert!(svg.contains("linear") && svg.contains("log-log") && svg.contains("seconds"));
        // `serial` has a figure at 1024, far above its line here; `rayon` has none.
        assert_eq!(svg.matches("serial then").count(), 1);
        assert!(!svg.contains("rayon then"));
        for colour in ["#0072B2", "#D55E00"] {
            assert!(svg.matches(colour).count() >= 4, "{colour}");
        }
        assert!(!svg.contains("peak"), "a peak is a rate and no time");
        let svg = drawn(&rows, Axis::Gflops, Some(100.0));
        assert!(svg.contains("GFLOP/s") && svg.contains("peak"));
        for foreign in ["script", "@import", "href", "url("] {
            assert!(!svg.contains(foreign), "{foreign}");
        }
    }

    #[test]
    fn little_is_drawn_and_nothing_is_not() {
        assert!(drawn(&[point("serial", 8, 1e-6)], Axis::Seconds, None).starts_with("<svg"));
        assert_eq!(draw(&[], Axis::Seconds, None, &[], "").unwrap(), None);
        let wrong = Point { ok: Some(false), ..point("serial", 8, 1e-6) };
        assert_eq!(draw(&[wrong], Axis::Seconds, None, &[], "").unwrap(), None);
    }

    /// Texts of a picture.
    fn texts(svg: &str) -> Vec<&str> {
        let texts = svg.split("<text").skip(1);
        texts.filter_map(|text| Some(text.split_once('>')?.1.split('<').next()?.trim())).collect()
    }

    #[test]
    fn no_label_of_the_linear_axis_stands_twice() {
        let rows: Vec<Point> =
            (1..=8).map(|i| point("serial", 64 * i, 1.5e-3 * (i as f64 / 8.0).powi(3))).collect();
        let svg = drawn(&rows, Axis::Seconds, None);
        let texts = texts(&svg);
        assert!(texts.contains(&"milliseconds"), "{texts:?}");
        for label in ["0.2", "0.4", "1.0", "1.2", "1.4"] {
            assert_eq!(
                texts.iter().filter(|text| **text == label).count(),
                1,
                "{label}: {texts:?}"
            );
        }
        // The logarithmic one has a unit with each label, and more than one label across.
        for label in ["1 ms", "100 us", "100", "200", "500"] {
            assert!(texts.contains(&label), "{label}: {texts:?}");
        }
    }

    #[test]
    fn a_line_that_the_budget_cut_says_so_and_no_other_does() {
        let mut rows: Vec<Point> = [8, 16, 32]
            .into_iter()
            .flat_map(|n| [point("serial", n, 1e-6), point("rayon", n, 1e-6)])
            .collect();
        let skipped = Some(format!("its {BUDGET} is spent; give --budget SECONDS"));
        rows.push(Point { n: 64, kernel: "serial".to_owned(), skipped, ..Point::default() });
        rows.push(point("rayon", 64, 1e-6));
        let svg = drawn(&rows, Axis::Seconds, None);
        assert!(texts(&svg).contains(&"serial, cut at n = 32"), "{:?}", texts(&svg));
        assert!(texts(&svg).contains(&"rayon"), "{:?}", texts(&svg));
    }

    #[test]
    fn the_legend_stands_beside_the_panels() {
        let rows = [point("serial", 8, 1e-6), point("serial", 64, 1e-3)];
        let svg = drawn(&rows, Axis::Gflops, None);
        let names: Vec<&str> = svg.split("<text").filter(|text| text.contains("serial")).collect();
        assert_eq!(names.len(), 1, "one legend for both panels");
        let x = names[0].split("x=\"").nth(1).and_then(|x| x.split('"').next()).unwrap();
        assert!(x.parse::<i32>().unwrap() > 2 * PANEL, "{}", names[0]);
    }

    #[test]
    fn one_size_is_shown_as_bars_with_their_values() {
        let rows = [point("serial", 512, 0.25), point("rayon", 512, 0.02)];
        let svg = drawn(&rows, Axis::Seconds, None);
        for words in ["serial", "rayon", "250 ms", "20 ms", "seconds, n = 512"] {
            assert!(texts(&svg).contains(&words), "{words}: {:?}", texts(&svg));
        }
    }

    #[test]
    fn an_impossible_range_is_drawn_in_no_time() {
        let rows = [point("serial", 8, 1e-300), point("serial", 16, 1e300)];
        assert!(drawn(&rows, Axis::Seconds, None).starts_with("<svg"));
    }
}
