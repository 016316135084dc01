//! Tables and sentences in the width of a terminal.

use std::io::stdout;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width};

use super::borders;

/// Columns of a line of prose where standard output is no terminal.
const PROSE: usize = 80;
/// What a column takes beside its cells: a blank on either side and a border.
const AROUND: usize = 3;

/// What gives way where a table is wider than the terminal. Columns are named by their headings.
#[derive(Clone, Copy, Default)]
pub(crate) struct Narrow<'n> {
    /// Columns whose cells may break between words; others break in their heading alone.
    pub(crate) words: &'n [&'n str],
    /// Columns that may be left out: those with the same cell in every row before others, otherwise in
    /// this order.
    pub(crate) spare: &'n [&'n str],
}

/// Columns of the terminal that standard output is; `None` where it is none.
pub(crate) fn terminal_width() -> Option<usize> {
    terminal_size::terminal_size_of(stdout()).map(|(width, _)| usize::from(width.0))
}

/// Columns that prose may fill.
pub(crate) fn prose_width() -> usize {
    terminal_width().unwrap_or(PROSE)
}

/// A table for a terminal of that width (without one, as wide as it is), with a line on what was left
/// out, if any.
pub(crate) fn boxed(mut table: Table, width: Option<usize>, narrow: Narrow<'_>) -> String {
    table.load_style(borders()).set_content_arrangement(ContentArrangement::Disabled);
    let left_out = width.and_then(|width| {
        let said = fit(&mut table, width, narrow)?;
        Some(wrapped(&said, width))
    });
    match left_out {
        Some(said) => format!("{table}\n{said}\n"),
        None => format!("{table}\n"),
    }
}

/// One column as [`fit`] sees it.
struct Column {
    heading: String,
    /// Columns that it takes at least and at most.
    least: usize,
    whole: usize,
    /// The cell that all rows have, if they do.
    constant: Option<String>,
    hidden: bool,
}

impl Column {
    fn new(table: &Table, index: usize, heading: String, narrow: Narrow<'_>) -> Self {
        let cells: Vec<String> = table
            .column_cells_iter(index)
            .map(|cell| cell.map(comfy_table::Cell::content).unwrap_or_default())
            .collect();
        let words = narrow.words.contains(&heading.as_str());
        let widest = |cell: &String| if words { longest_word(cell) } else { length(cell) };
        let most = |width: usize| cells.iter().map(|cell| length(cell)).fold(width, usize::max);
        let first = cells.first().filter(|first| cells.iter().all(|cell| cell == *first));
        Self {
            least: cells.iter().map(widest).fold(longest_word(&heading), usize::max),
            whole: most(length(&heading)),
            constant: first.cloned(),
            hidden: false,
            heading,
        }
    }
}

/// Makes a table as narrow as the terminal, as far as that goes; says which columns it left out.
fn fit(table: &mut Table, width: usize, narrow: Narrow<'_>) -> Option<String> {
    let headings: Vec<String> =
        table.header()?.cell_iter().map(comfy_table::Cell::content).collect();
    let mut columns: Vec<Column> = headings
        .into_iter()
        .enumerate()
        .map(|(index, heading)| Column::new(table, index, heading, narrow))
        .collect();
    let taken = |columns: &[Column], each: fn(&Column) -> usize| {
        let shown = columns.iter().filter(|column| !column.hidden);
        1 + shown.map(|column| each(column) + AROUND).sum::<usize>()
    };
    if taken(&columns, |column| column.whole) <= width {
        return None;
    }
    // What all rows share is said once rather than have cells break; the others go where that is not
    // enough.
    for constant in [true, false] {
        let wanted: fn(&Column) -> usize =
            if constant { |column| column.whole } else { |column| column.least };
        for spare in narrow.spare {
            if taken(&columns, wanted) <= width {
                break;
            }
            let found = columns.iter_mut().find(|column| column.heading == *spare);
            if let Some(column) = found.filter(|column| column.constant.is_some() || !constant) {
                column.hidden = true;
            }
        }
    }
    let mut room = width.saturating_sub(taken(&columns, |column| column.least));
    for (index, column) in columns.iter().enumerate() {
        let constraint = if column.hidden {
            ColumnConstraint::Hidden
        } else {
            let more = room.min(column.whole - column.least);
            room -= more;
            let cells = u16::try_from(column.least + more).unwrap_or(u16::MAX);
            // With the blanks, as the library counts.
            ColumnConstraint::Absolute(Width::Fixed(cells.saturating_add(2)))
        };
        if let Some(column) = table.column_mut(index) {
            column.set_constraint(constraint);
        }
    }
    left_out(&columns)
}

/// What the rows share and what is missing.
fn left_out(columns: &[Column]) -> Option<String> {
    let hidden = || columns.iter().filter(|column| column.hidden);
    let shared: Vec<String> = hidden()
        .filter_map(|column| {
            let cell = column.constant.as_deref().filter(|cell| !cell.is_empty())?;
            Some(format!("{}: {cell}", column.heading))
        })
        .collect();
    let missing: Vec<&str> = hidden()
        .filter(|column| column.constant.is_none())
        .map(|column| column.heading.as_str())
        .collect();
    let mut said = Vec::new();
    if !shared.is_empty() {
        said.push(format!("All rows: {}.", shared.join("; ")));
    }
    if !missing.is_empty() {
        said.push(format!("Too narrow for the columns: {}.", missing.join(", ")));
    }
    (!said.is_empty()).then(|| said.join(" "))
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn longest_word(text: &str) -> usize {
    text.split(' ').map(|word| word.chars().count()).max().unwrap_or(0)
}

/// What lines of a table begin with.
const BORDERS: [char; 5] = ['│', '┌', '╞', '├', '└'];

/// Lines of at most `width` columns, broken between words; what continues a line is indented as it is, or
/// stands beside its label. A word that is wider stays whole, and so does a line of a table.
pub(crate) fn wrapped(line: &str, width: usize) -> String {
    if line.chars().count() <= width || line.starts_with(BORDERS) {
        return line.to_owned();
    }
    let (first, rest) = line.split_at(hanging(line));
    let margin = length(first);
    let mut out = first.to_owned();
    let mut column = margin;
    for word in rest.split_whitespace() {
        let size = length(word);
        if column > margin && column + 1 + size > width {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', margin));
            column = margin;
        } else if column > margin {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += size;
    }
    out
}

/// Bytes of a line that what continues it stands behind: its indent, the mark of an item of a list, or a
/// label with the blanks that follow it.
fn hanging(line: &str) -> usize {
    const APART: &str = "  ";
    let text = line.trim_start();
    let indent = line.len() - text.len();
    if text.starts_with("- ") {
        return indent + 2;
    }
    text.find(APART).map_or(indent, |label| line.len() - text[label..].trim_start().len())
}

/// The lines of a text, each wrapped to the width where there is one.
pub(crate) fn paragraphs(text: &str, width: Option<usize>) -> String {
    let wrap = |line: &str| width.map_or_else(|| line.to_owned(), |width| wrapped(line, width));
    text.lines().map(|line| wrap(line) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new();
        table.set_header(["implementation", "device", "seconds", "runs", "check"]);
        table.add_row(["mutex_queue", "cpu", "0.0000123", "100", "ok, freivalds: 1.24 <= 202"]);
        table.add_row(["naive", "cpu", "12.5", "3", "ok, freivalds: 1.24 <= 202"]);
        table.force_no_tty();
        table
    }

    const NARROW: Narrow<'_> = Narrow { words: &["check"], spare: &["runs", "device"] };

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn a_table_fits_every_width_that_its_longest_words_allow() {
        let whole = boxed(table(), None, NARROW);
        assert_eq!(whole, boxed(table(), Some(widest(&whole)), NARROW));
        for width in 44..widest(&whole) {
            let text = boxed(table(), Some(width), NARROW);
            assert!(widest(&text) <= width, "{width}:\n{text}");
            for word in ["implementation", "mutex_queue", "0.0000123", "freivalds:"] {
                assert!(text.contains(word), "`{word}` is broken at {width}:\n{text}");
            }
        }
        // It gets no narrower, and no word is broken.
        let text = boxed(table(), Some(20), NARROW);
        assert!(text.contains("implementation") && text.contains("0.0000123"), "{text}");
    }

    #[test]
    fn columns_go_one_after_another_and_are_named() {
        // What all rows share goes first and is said once.
        let shared = boxed(table(), Some(70), NARROW);
        assert!(shared.ends_with("\nAll rows: device: cpu.\n"), "{shared}");
        assert!(shared.contains("runs") && !shared.contains("Too narrow"), "{shared}");
        let both = boxed(table(), Some(46), NARROW);
        let both = both.replace('\n', " ");
        assert!(both.contains("All rows: device: cpu."), "{both}");
        assert!(both.contains("columns: runs."), "{both}");
    }

    #[test]
    fn prose_breaks_between_words_and_keeps_its_indent() {
        assert_eq!(wrapped("ab cd ef", 8), "ab cd ef");
        assert_eq!(wrapped("ab cd ef", 5), "ab cd\nef");
        assert_eq!(wrapped("  ab cd ef", 6), "  ab\n  cd\n  ef");
        assert_eq!(wrapped("- ab cd ef", 7), "- ab cd\n  ef");
        assert_eq!(wrapped(" ab   cd ef", 8), " ab   cd\n      ef");
        assert_eq!(wrapped("a_word_that_is_wide b", 5), "a_word_that_is_wide\nb");
        assert_eq!(paragraphs("ab cd\n\nef", Some(2)), "ab\ncd\n\nef\n");
        assert_eq!(paragraphs("ab cd\n\nef", None), "ab cd\n\nef\n");
    }
}
