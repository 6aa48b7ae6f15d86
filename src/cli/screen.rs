//! Where output goes: how wide it may be, whether it may have colour, and which format is asked for.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Row, Table, Width, presets::NOTHING};
use serde::Serialize;

/// Between two columns.
const GAP: u16 = 2;

/// A shape of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// A table that fits the terminal.
    #[default]
    Table,
    /// The same with more columns.
    Wide,
    /// JSON; the shape is in docs/commands.md.
    Json,
    /// The same as YAML.
    Yaml,
    /// Only the names, as `kubectl` takes them.
    Name,
}

/// How to print.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// How to tell it
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Format,

    /// Leave out the tables' headers
    #[arg(long)]
    pub no_headers: bool,
}

/// The place that text goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// Its columns; `None` where there is no terminal: nothing is wrapped then.
    pub width: Option<u16>,
    /// Its lines, where there is a terminal.
    pub height: Option<u16>,
    /// Whether colour may be used.
    pub colour: bool,
    /// Whether tables have headers.
    pub headers: bool,
}

impl Screen {
    /// Standard output. No colour in pipes, nor where `NO_COLOR` is set.
    pub fn stdout(headers: bool) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let size = terminal.then(terminal_size::terminal_size).flatten();
        let size = size.map(|(terminal_size::Width(width), terminal_size::Height(height))| (width, height));
        Self { width: size.map(|size| size.0), height: size.map(|size| size.1), colour: terminal && !no_colour, headers }
    }

    /// A table of these rows under these headers; nothing for no row.
    pub fn table(self, headers: &[&str], rows: Vec<Vec<Styled>>) -> String {
        self.table_without(headers, rows, &[])
    }

    /// The same; where words would have to be broken, these columns are left out, the first ones first.
    pub fn table_without(self, headers: &[&str], mut rows: Vec<Vec<Styled>>, spare: &[&str]) -> String {
        if rows.is_empty() {
            return String::new();
        }
        let mut headers = headers.to_vec();
        let fits =
            |widths: &[u16]| self.width.is_none_or(|width| widths.iter().fold(0, |sum: u16, word| sum.saturating_add(*word)) <= width);
        let mut widths = words(&headers, &rows);
        for name in spare {
            if fits(&widths) {
                break;
            }
            let Some(column) = headers.iter().position(|header| header == name) else { continue };
            headers.remove(column);
            rows.iter_mut().for_each(|row| drop(row.remove(column)));
            widths = words(&headers, &rows);
        }
        let mut table = Table::new();
        table.load_style(NOTHING).force_no_tty();
        if self.colour {
            table.enforce_styling();
        }
        if self.headers {
            table.set_header(headers.iter().map(|header| Cell::new(header).add_attribute(Attribute::Bold)));
        }
        for row in rows {
            table.add_row(Row::from(row.into_iter().map(Styled::cell)));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, GAP));
        }
        let unwrapped = table.trim_fmt();
        let Some(width) = self.width.filter(|width| unwrapped.lines().any(|line| visible(line) > usize::from(*width))) else {
            return format!("{unwrapped}\n");
        };
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
        let (whole, mut left) = (fits(&widths), width * 3 / 5);
        for (column, word) in table.column_iter_mut().zip(widths) {
            // Names can be copied; where there is no room for all words whole, those of the first columns come first.
            if whole || word <= left {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(word)));
            }
            left = left.saturating_sub(word);
        }
        format!("{}\n", table.trim_fmt())
    }

    /// Only the lines that the terminal can show at once, and how many there are more.
    pub fn cut(self, text: &str) -> String {
        let (lines, room) = (text.lines().count(), self.height.map_or(usize::MAX, usize::from).saturating_sub(1).max(1));
        if lines <= room {
            return text.to_owned();
        }
        let first: String = text.lines().take(room - 1).map(|line| format!("{line}\n")).collect();
        format!("{first}... and {} more lines\n", lines - (room - 1))
    }

    /// Text in this tone.
    pub fn paint(self, text: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Plain => "",
            Tone::Strong => "1",
            Tone::Good => "32",
            Tone::Doubtful => "33",
            Tone::Bad => "31",
            Tone::Faint => "2",
        };
        if self.colour && !code.is_empty() { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Each line wrapped by itself, its further lines two columns further in.
    pub fn wrap_lines(self, text: &str) -> String {
        let wrap = |line: &str| {
            let inner = line.trim_start();
            let indent = line.len() - inner.len();
            format!("{}{}\n", " ".repeat(indent), self.wrap(inner, indent + 2))
        };
        text.lines().map(wrap).collect()
    }

    /// Text wrapped at words to the width, further lines indented.
    pub fn wrap(self, text: &str, indent: usize) -> String {
        let Some(width) = self.width.map(usize::from).filter(|width| *width > indent + 20) else { return text.to_owned() };
        let mut lines = vec![String::new()];
        for word in text.split(' ') {
            let line = lines.len();
            let Some(last) = lines.last_mut() else { continue };
            let used = visible(last) + if line == 1 { indent } else { 0 };
            if used > indent && used + 1 + visible(word) > width {
                lines.push(format!("{}{word}", " ".repeat(indent)));
            } else {
                if !last.trim().is_empty() || (word.is_empty() && !last.is_empty()) {
                    last.push(' ');
                }
                last.push_str(word);
            }
        }
        lines.join("\n")
    }
}

/// The longest word of each column, with the gap to the next one.
fn words(headers: &[&str], rows: &[Vec<Styled>]) -> Vec<u16> {
    let longest = |text: &str| text.split_whitespace().map(visible).max().unwrap_or_default();
    let in_rows = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| longest(&cell.0)).max().unwrap_or_default();
    let columns = headers.iter().enumerate().map(|(column, header)| in_rows(column).max(longest(header)));
    columns.map(|width| u16::try_from(width).unwrap_or(u16::MAX).saturating_add(GAP)).collect()
}

/// Characters that take room: no escape sequence of ours does.
fn visible(text: &str) -> usize {
    let mut count = 0;
    let mut escaped = false;
    for character in text.chars() {
        match (escaped, character) {
            (false, '\u{1b}') => escaped = true,
            (false, _) => count += 1,
            (true, 'm') => escaped = false,
            (true, _) => {}
        }
    }
    count
}

/// What text says by its colour; never by colour alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Nothing.
    Plain,
    /// A heading.
    Strong,
    /// As it should be.
    Good,
    /// Look at it.
    Doubtful,
    /// Do something.
    Bad,
    /// Of lesser weight.
    Faint,
}

/// A table's cell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Styled(pub String, pub Tone);

impl Styled {
    /// Without a tone.
    pub fn plain(text: impl Into<String>) -> Self {
        Self(text.into(), Tone::Plain)
    }

    fn cell(self) -> Cell {
        let cell = Cell::new(self.0);
        match self.1 {
            Tone::Plain => cell,
            Tone::Strong => cell.add_attribute(Attribute::Bold),
            Tone::Good => cell.fg(Color::DarkGreen),
            Tone::Doubtful => cell.fg(Color::DarkYellow),
            Tone::Bad => cell.fg(Color::DarkRed),
            Tone::Faint => cell.add_attribute(Attribute::Dim),
        }
    }
}

/// A value as JSON or YAML.
pub fn structured(value: &impl Serialize, yaml: bool) -> Result<String, String> {
    if yaml {
        return serde_yaml_ng::to_string(value).map_err(|error| error.to_string());
    }
    serde_json::to_string_pretty(value).map(|text| text + "\n").map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCREEN: Screen = Screen { width: Some(26), height: Some(4), colour: false, headers: true };

    fn row(cells: [&str; 3]) -> Vec<Styled> {
        cells.map(Styled::plain).into()
    }

    #[test]
    fn a_column_is_left_out_before_a_word_is_broken() {
        let rows = || vec![row(["payments", "nights", "in 3h"])];
        let headers = ["POOL", "POLICY", "WINDOW"];
        let told = SCREEN.table_without(&headers, rows(), &["POLICY"]);
        assert_eq!(told, "POOL      POLICY  WINDOW\npayments  nights  in 3h\n", "it fits");
        let narrow = Screen { width: Some(20), ..SCREEN };
        assert_eq!(narrow.table_without(&headers, rows(), &["POLICY"]), "POOL      WINDOW\npayments  in 3h\n");
        assert!(narrow.table(&headers, rows()).contains("payments"), "the first column stays whole");
        assert_eq!(Screen { width: None, ..SCREEN }.table_without(&headers, rows(), &["POLICY"]), told, "a pipe takes everything");
    }

    #[test]
    fn what_fits_is_not_wrapped() {
        let headers = ["POOL", "CLAIM", "NODE", "STATE", "SINCE", "ATTEMPT", "UNTIL", "DEADLINE"];
        let node = "kwok-demo-8tk2v-lynxgrove-2-wx9odptcvi-3272362889";
        let cells = ["demo", "demo-8tk2v", node, "pending", "9s ago", "1", "in 14m", "in 29d23h"];
        let row: Vec<Styled> = cells.map(Styled::plain).into();
        let screen = |width| Screen { width: Some(width), height: None, colour: false, headers: true };
        let whole = Screen { width: None, ..screen(0) }.table(&headers, vec![row.clone()]);
        let needed = whole.lines().map(visible).max().unwrap();
        assert_eq!(screen(u16::try_from(needed).unwrap()).table(&headers, vec![row.clone()]), whole);
        assert_ne!(screen(u16::try_from(needed - 1).unwrap()).table(&headers, vec![row]), whole);
    }

    #[test]
    fn each_line_is_wrapped_with_its_own_indent() {
        let screen = Screen { width: Some(30), ..SCREEN };
        let told = screen.wrap_lines("one\n  1. two three four five six seven\n");
        assert_eq!(told, "one\n  1. two three four five six\n    seven\n");
    }

    #[test]
    fn what_is_watched_is_cut_to_the_terminal() {
        assert_eq!(SCREEN.cut("a\nb\nc\n"), "a\nb\nc\n");
        assert_eq!(SCREEN.cut("a\nb\nc\nd\n"), "a\nb\n... and 2 more lines\n");
        assert_eq!(Screen { height: Some(1), ..SCREEN }.cut("a\nb\n"), "... and 2 more lines\n");
        assert_eq!(Screen { height: None, ..SCREEN }.cut("a\nb\nc\nd\ne\n"), "a\nb\nc\nd\ne\n");
    }
}
