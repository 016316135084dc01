//! A sweep as a picture: the same lines on linear axes and on logarithmic ones.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::prelude::*;

use super::row::Point;
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
        let root = SVGBackend::with_string(&mut svg, (1240, 620)).into_drawing_area();
        panels(&root, &curves, axis, peak, title).map_err(|error| error.to_string())?;
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
            }),
        }
    }
    // Beside the lines, not far off to the right of them.
    let largest = points.iter().map(|point| point.n).max().unwrap_or(0);
    for curve in &mut curves {
        let own = figures.iter().filter(|f| f.kernel == curve.name && f.n <= largest);
        curve.then = own.map(|f| (f.n as f64, axis.of_figure(f.n, f.seconds))).collect();
    }
    curves
}

type Drawn<'s> = Result<(), DrawingAreaErrorKind<<SVGBackend<'s> as DrawingBackend>::ErrorType>>;
type Area<'s> = DrawingArea<SVGBackend<'s>, Shift>;

fn panels<'s>(
    root: &Area<'s>,
    curves: &[Curve],
    axis: Axis,
    peak: Option<f64>,
    title: &str,
) -> Drawn<'s> {
    root.fill(&WHITE)?;
    let root = root.titled(title, ("sans-serif", 17))?;
    let (linear, logarithmic) = root.split_horizontally(620);
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
    // A single size still gets an axis with some length.
    let x = if x.0 < x.1 { x } else { (x.0 / 2.0, x.1 * 2.0) };
    let mut chart = ChartBuilder::on(&linear);
    chart
        .caption("linear", ("sans-serif", 14))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70);
    panel(chart.build_cartesian_2d(0.0..x.1 * 1.02, 0.0..top)?, curves, axis, peak, x, top)?;
    let mut chart = ChartBuilder::on(&logarithmic);
    chart
        .caption("log-log", ("sans-serif", 14))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70);
    let across = (x.0 / 1.1..x.1 * 1.1).log_scale();
    let up = (y.0 / 1.5..y.1 * 1.5).log_scale();
    panel(chart.build_cartesian_2d(across, up)?, curves, axis, peak, x, y.1)?;
    root.present()
}

fn panel<'a, 's: 'a, X, Y>(
    mut chart: ChartContext<'a, SVGBackend<'s>, Cartesian2d<X, Y>>,
    curves: &[Curve],
    axis: Axis,
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
        .y_desc(axis.label())
        .x_label_formatter(&|n| format!("{n:.0}"))
        .y_label_formatter(&|value| plain(*value))
        .light_line_style(WHITE)
        .draw()?;
    for curve in curves {
        let colour = curve.colour;
        chart
            .draw_series(LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2)))?
            .label(&curve.name)
            .legend(move |(x, y)| Rectangle::new([(x, y - 4), (x + 14, y + 4)], colour.filled()));
        if curve.points.len() <= 40 {
            let dots = curve.points.iter().map(|&at| Circle::new(at, 2, colour.filled()));
            chart.draw_series(dots)?;
        }
        let inside: Vec<_> = curve.then.iter().filter(|(_, value)| *value <= top).collect();
        if !inside.is_empty() {
            let marks = inside.iter().map(|&&at| Cross::new(at, 6, colour.stroke_width(2)));
            chart
                .draw_series(marks)?
                .label(format!("{} then", curve.name))
                .legend(move |(x, y)| Cross::new((x + 7, y), 5, colour.stroke_width(2)));
        }
    }
    if let Some(peak) = peak {
        let line = [(x.0, peak), (x.1, peak)];
        chart
            .draw_series(LineSeries::new(line, BLACK.stroke_width(1)))?
            .label("peak of the GPU's units")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 14, y)], BLACK));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(200, 200, 200))
        .label_font(("sans-serif", 12))
        .draw()?;
    Ok(())
}

/// A number of an axis without a tail of zeros.
fn plain(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if !(0.001..100_000.0).contains(&size) => format!("{value:.0e}"),
        size if size >= 10.0 => format!("{value:.0}"),
        _ => format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
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

    #[test]
    fn axis_labels_are_short() {
        for (value, text) in
            [(0.0, "0"), (0.25, "0.25"), (2.0, "2"), (1500.0, "1500"), (1e-6, "1e-6")]
        {
            assert_eq!(plain(value), text);
        }
    }
}
