//! A run as a picture: one row for each phase, one panel for each step, a bar for each barrier.

use std::fmt::{self, Write};

use super::N;
use super::trace::{AHEAD, Kind, Place, Step, Trace, Work};

/// One place in shared memory: wide enough for `A[0][0]`.
const CELL: (usize, usize) = (58, 30);
/// Height of a line of small text.
const LINE: usize = 14;
/// Around a picture, a panel and a block.
const GAP: usize = 12;
/// Between two blocks of a panel.
const BLOCK_GAP: usize = 26;
/// Height of a title.
const TITLE: usize = 22;
/// Width of a barrier's bar with the space around it.
const BARRIER: usize = 44;

/// A rectangle's place and size.
#[derive(Clone, Copy)]
struct Area {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
}

/// Draws a run.
pub(super) fn draw(trace: &Trace) -> Result<String, fmt::Error> {
    let sizes = Sizes::of(trace);
    let rows: Vec<&[Step]> = trace.steps.chunks(2).collect();
    let panel = |kind| sizes.panel(kind);
    let (load, multiply, store) = (panel(Kind::Load), panel(Kind::Multiply), panel(Kind::Store));
    let width = 2 * GAP + load.0 + multiply.0 + 2 * BARRIER;
    let legend_y = 2 * GAP + TITLE;
    let top = legend_y + LINE + 2 * GAP;
    let tall = load.1.max(multiply.1);
    let height = top + (rows.len() - 1) * (tall + 2 * GAP) + store.1 + 2 * GAP + LINE;
    let mut svg = String::new();
    writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">"
    )?;
    writeln!(
        svg,
        "<title>C = A B, {N} x {N}, tiles of {0} x {0}, step by step</title>",
        trace.width
    )?;
    writeln!(svg, "<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>")?;
    label(
        &mut svg,
        (GAP, GAP + TITLE - 6),
        "start",
        16,
        &format!(
            "C = A B, {N} x {N}, in tiles of {0} x {0}: what the threads of tiled{0} did",
            trace.width
        ),
    )?;
    legend(&mut svg, trace, legend_y)?;

    let (mut phase, mut barrier) = (0, 0);
    for (row, steps) in rows.iter().enumerate() {
        let mut x = GAP;
        let y = top + row * (tall + 2 * GAP);
        for step in *steps {
            let (width, height) = sizes.panel(step.kind);
            let height = if step.kind == Kind::Store { height } else { tall };
            phase += usize::from(step.kind == Kind::Load);
            panel_of(&mut svg, trace, step, Area { x, y, width, height }, phase, &sizes)?;
            x += width;
            if barrier + 1 < trace.steps.len() {
                barrier += 1;
                barrier_bar(&mut svg, x, y, tall, barrier)?;
                x += BARRIER;
            }
        }
    }
    if trace.fetches_ahead() {
        label(&mut svg, (GAP, height - GAP), "start", 12, AHEAD)?;
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

/// What the sizes of the panels follow from.
struct Sizes {
    /// Blocks along x and y.
    blocks: (usize, usize),
    /// Edge of the tiles.
    tile: usize,
}

impl Sizes {
    fn of(trace: &Trace) -> Self {
        let side = N.div_ceil(trace.width);
        Self { blocks: (side, side), tile: trace.width }
    }

    /// Width and height of what a block gets in a panel, its title included.
    fn block(&self, kind: Kind) -> (usize, usize) {
        let (width, height) = match kind {
            Kind::Load => (2 * self.tile * CELL.0 + GAP, self.tile * CELL.1 + LINE),
            Kind::Multiply => (self.tile * self.product().0, self.tile * self.product().1),
            Kind::Store => (self.tile * CELL.0, self.tile * CELL.1),
        };
        (width, height + LINE + 4)
    }

    /// One element of C with its terms, a line each, and their sum.
    fn product(&self) -> (usize, usize) {
        (112, (self.tile + 1) * LINE + 8)
    }

    fn panel(&self, kind: Kind) -> (usize, usize) {
        let (width, height) = self.block(kind);
        (
            2 * GAP + self.blocks.0 * (width + BLOCK_GAP) - BLOCK_GAP,
            TITLE + self.blocks.1 * (height + GAP) + GAP,
        )
    }
}

fn panel_of(
    svg: &mut String,
    trace: &Trace,
    step: &Step,
    area: Area,
    phase: usize,
    sizes: &Sizes,
) -> fmt::Result {
    let phases = trace.phases();
    let (name, title) = match step.kind {
        Kind::Load => ("load", format!("phase {phase} of {phases}, load into shared memory")),
        Kind::Multiply => ("multiply", format!("phase {phase} of {phases}, multiply and add")),
        Kind::Store => ("store", "store C".to_owned()),
    };
    writeln!(svg, "<g class=\"panel {name}\">")?;
    frame(svg, area, "#f6f6f6", "#bbb", 6)?;
    label(svg, (area.x + GAP, area.y + TITLE - 6), "start", 13, &title)?;
    let (width, height) = sizes.block(step.kind);
    for ((bx, by), threads) in &step.blocks {
        let x = area.x + GAP + *bx as usize * (width + BLOCK_GAP);
        let y = area.y + TITLE + GAP / 2 + *by as usize * (height + GAP);
        label(svg, (x, y + LINE - 3), "start", 11, &format!("Block({bx},{by})"))?;
        let y = y + LINE + 4;
        for (thread, work) in threads {
            match step.kind {
                Kind::Load => loads(svg, trace, *thread, work, (x, y))?,
                Kind::Multiply => product(svg, trace, *thread, work, (x, y), sizes.product())?,
                Kind::Store => stored(svg, trace, *thread, work, (x, y))?,
            }
        }
        if step.kind == Kind::Load {
            let y = y + trace.width * CELL.1 + LINE - 2;
            for (tile, column) in [("tile A", 0), ("tile B", trace.width * CELL.0 + GAP)] {
                label(svg, (x + column + trace.width * CELL.0 / 2, y), "middle", 11, tile)?;
            }
        }
    }
    svg.push_str("</g>\n");
    Ok(())
}

/// The elements that a thread put into the two tiles.
fn loads(
    svg: &mut String,
    trace: &Trace,
    thread: Place,
    work: &Work,
    (x, y): (usize, usize),
) -> fmt::Result {
    for load in &work.loads {
        let tile = if load.slot.tile == 'A' { 0 } else { trace.width * CELL.0 + GAP };
        let area = Area {
            x: x + tile + load.slot.col * CELL.0,
            y: y + load.slot.row * CELL.1,
            width: CELL.0,
            height: CELL.1,
        };
        let mark = if load.ahead { "*" } else { "" };
        let text = format!("{}{mark}", load.element);
        cell(svg, trace, thread, area, &[text])?;
    }
    Ok(())
}

/// The terms that a thread added, and its sum so far.
fn product(
    svg: &mut String,
    trace: &Trace,
    thread: Place,
    work: &Work,
    (x, y): (usize, usize),
    (width, height): (usize, usize),
) -> fmt::Result {
    let (column, row) = (thread.0 as usize, thread.1 as usize);
    let area = Area { x: x + column * width, y: y + row * height, width, height };
    let mut lines: Vec<String> = work
        .terms
        .iter()
        .map(|term| format!("{} * {}", term.elements.0, term.elements.1))
        .collect();
    lines.push(format!("sum {}", work.sum));
    cell(svg, trace, thread, area, &lines)
}

/// The elements of C that a thread stored.
fn stored(
    svg: &mut String,
    trace: &Trace,
    thread: Place,
    work: &Work,
    (x, y): (usize, usize),
) -> fmt::Result {
    for element in &work.stores {
        let area = Area {
            x: x + element.col % trace.width * CELL.0,
            y: y + element.row % trace.width * CELL.1,
            width: CELL.0,
            height: CELL.1,
        };
        cell(svg, trace, thread, area, &[element.to_string(), format!("= {}", work.sum)])?;
    }
    Ok(())
}

/// Which colour is which thread.
fn legend(svg: &mut String, trace: &Trace, y: usize) -> fmt::Result {
    let threads = trace.width * trace.width;
    let width = if threads > 4 { 40 } else { 92 };
    label(svg, (GAP, y + LINE - 2), "start", 12, "thread (x,y):")?;
    let places = (0..).flat_map(|y| (0..).take(trace.width).map(move |x| (x, y)));
    for (thread, place) in (0..threads).zip(places) {
        let x = GAP + 84 + thread * (width + 6);
        let area = Area { x, y: y - 3, width, height: LINE + 4 };
        cell(svg, trace, place, area, &[format!("({},{})", place.0, place.1)])?;
    }
    Ok(())
}

fn barrier_bar(svg: &mut String, x: usize, y: usize, height: usize, number: usize) -> fmt::Result {
    let (x, middle) = (x + BARRIER / 2, y + height / 2);
    writeln!(svg, "<g class=\"barrier\">")?;
    writeln!(
        svg,
        "<rect x=\"{}\" y=\"{y}\" width=\"18\" height=\"{height}\" rx=\"3\" fill=\"#444\"/>",
        x - 9
    )?;
    writeln!(
        svg,
        "<text transform=\"translate({},{middle}) rotate(-90)\" text-anchor=\"middle\" fill=\"#fff\" \
         font-size=\"12\">barrier {number}: every thread of a block waits</text>",
        x + 4
    )?;
    writeln!(svg, "</g>")
}

/// A box in a thread's colour with lines of text in its middle.
fn cell(
    svg: &mut String,
    trace: &Trace,
    thread: Place,
    area: Area,
    lines: &[String],
) -> fmt::Result {
    frame(svg, area, colour(trace, thread), "#888", 0)?;
    let first = area.y + (area.height - lines.len() * (LINE - 1)) / 2 + LINE - 4;
    for (at, line) in lines.iter().enumerate() {
        label(svg, (area.x + area.width / 2, first + at * (LINE - 1)), "middle", 11, line)?;
    }
    Ok(())
}

fn frame(svg: &mut String, area: Area, fill: &str, stroke: &str, radius: usize) -> fmt::Result {
    let Area { x, y, width, height } = area;
    writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"{radius}\" \
         fill=\"{fill}\" stroke=\"{stroke}\"/>"
    )
}

fn label(
    svg: &mut String,
    (x, y): (usize, usize),
    anchor: &str,
    size: usize,
    text: &str,
) -> fmt::Result {
    writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{text}</text>"
    )
}

/// A light colour for each thread of a block, which dark text stands out from.
fn colour(trace: &Trace, thread: Place) -> &'static str {
    const COLOURS: [&str; 16] = [
        "#cfe3ff", "#ffe0b8", "#cdf0cf", "#f7cfe6", "#fff3b0", "#d9d2f5", "#c9f1f1", "#f5d3cc",
        "#dfe8b9", "#d6e0ea", "#ffd1d9", "#c8ead9", "#ead8c2", "#e3d0ee", "#d0e9fa", "#eee3a8",
    ];
    COLOURS[(thread.1 as usize * trace.width + thread.0 as usize) % COLOURS.len()]
}
