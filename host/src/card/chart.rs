//! A card's roofline as a picture.

use plotters::prelude::*;

use super::{Card, Roofline};

/// A point of the picture: operations for each byte, and a rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// What it is.
    pub name: String,
    /// Operations for each byte loaded.
    pub intensity: f64,
    /// 10⁹ operations a second.
    pub gflops: f64,
    /// Whether it was measured; the others are bounds.
    pub measured: bool,
}

const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

/// Draws the roof with the sum's bounds under it, and what was measured.
///
/// # Errors
/// What the drawing library answers, in words.
pub fn draw(card: &Card, sum: &Roofline, measured: &[Mark]) -> Result<String, String> {
    let bound = |name: &str, bound: super::Bound| Mark {
        name: name.to_owned(),
        intensity: bound.intensity,
        gflops: bound.gflops,
        measured: false,
    };
    let tiles = format!("tiles of {0} x {0}", sum.width);
    let mut marks = vec![bound("no tiles", sum.naive), bound(&tiles, sum.tiled)];
    marks.extend_from_slice(measured);
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (760, 560)).into_drawing_area();
        chart(&root, card, &marks).map_err(|error| error.to_string())?;
    }
    Ok(svg)
}

type Area<'s> = DrawingArea<SVGBackend<'s>, plotters::coord::Shift>;
type Drawn<'s> = Result<(), DrawingAreaErrorKind<<SVGBackend<'s> as DrawingBackend>::ErrorType>>;

fn chart<'s>(root: &Area<'s>, card: &Card, marks: &[Mark]) -> Drawn<'s> {
    root.fill(&WHITE)?;
    let peak = card.peak_gflops();
    let ridge = peak / card.bandwidth_gbs;
    let fold = |start: f64, value: &dyn Fn(&Mark) -> f64, pick: fn(f64, f64) -> f64| {
        marks.iter().map(value).fold(start, pick)
    };
    let left = fold(ridge, &|mark| mark.intensity, f64::min) / 4.0;
    let right = fold(ridge, &|mark| mark.intensity, f64::max) * 8.0;
    let low = fold(left * card.bandwidth_gbs, &|mark| mark.gflops, f64::min) / 2.0;
    let title = format!("{}: {peak:.1} GFLOP/s, {} GB/s", card.board, card.bandwidth_gbs);
    let mut chart = ChartBuilder::on(root)
        .caption(title, ("sans-serif", 16))
        .margin(14)
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d((left..right).log_scale(), (low..peak * 3.0).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("operations for each byte loaded")
        .y_desc("GFLOP/s")
        .x_label_formatter(&|value| format!("{value}"))
        .y_label_formatter(&|value| format!("{value}"))
        .light_line_style(WHITE)
        .draw()?;
    let roof = [(left, left * card.bandwidth_gbs), (ridge, peak), (right, peak)];
    chart.draw_series(LineSeries::new(roof, BLACK.stroke_width(2)))?;
    for (mark, colour) in marks.iter().zip(COLOURS.into_iter().cycle()) {
        let at = (mark.intensity, mark.gflops);
        let kind = if mark.measured { "measured" } else { "bound" };
        let label = format!("{}, {kind}: {:.1} GFLOP/s", mark.name, mark.gflops);
        if mark.measured {
            let cross = Cross::new(at, 6, colour.stroke_width(2));
            chart
                .draw_series([cross])?
                .label(label)
                .legend(move |(x, y)| Cross::new((x + 7, y), 5, colour.stroke_width(2)));
        } else {
            let dot = Circle::new(at, 5, colour.filled());
            chart
                .draw_series([dot])?
                .label(label)
                .legend(move |(x, y)| Circle::new((x + 7, y), 4, colour.filled()));
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(RGBColor(200, 200, 200))
        .label_font(("sans-serif", 12))
        .draw()?;
    root.present()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::{cards, find};

    #[test]
    fn every_cards_roof_is_drawn() {
        for card in cards() {
            let svg = draw(card, &Roofline::new(card, 1024, 16), &[]).unwrap();
            assert!(svg.starts_with("<svg") && svg.contains(&card.board), "{}", card.id);
            assert_eq!(svg.matches("bound:").count(), 2);
        }
        let g80 = find("g80").unwrap();
        let (name, intensity) = ("naive".to_owned(), 0.25);
        let mark = Mark { name, intensity, gflops: 15.0, measured: true };
        let svg = draw(g80, &Roofline::new(g80, 1024, 16), &[mark]).unwrap();
        assert!(svg.contains("naive, measured: 15.0 GFLOP/s"), "{svg}");
        assert!(svg.contains("no tiles, bound: 21.6 GFLOP/s"), "{svg}");
    }
}
