//! Panels and tables as grids of cells, shared by the formats that align text.

use anstyle::AnsiColor;
use comfy_table::{Attribute, Color, ColumnConstraint, ContentArrangement, Row, Table, TableStyle};

use super::model::{Tone, ViewCell};
use super::render_options::ColourMode;
use super::text::escape_cell;

/// Below this column width a table is printed as stacked panels.
const NARROWEST_COLUMN: usize = 12;

pub(super) struct GridStyle {
    pub(super) table: TableStyle,
    pub(super) colour: ColourMode,
    pub(super) width: u16,
}

impl GridStyle {
    /// Returns a panel: names on the left, values on the right.
    pub(super) fn panel(&self, rows: &[(String, ViewCell)]) -> Table {
        let mut table = self.grid();
        for (name, cell) in rows {
            let name = comfy_table::Cell::new(escape_cell(name)).fg(Color::DarkCyan);
            table.add_row(Row::from(vec![name, style_cell(cell)]));
        }
        self.keep_names_whole(&mut table);
        table
    }

    /// Returns a table. If its columns would be too narrow, each row becomes a small panel.
    pub(super) fn table(&self, headers: &[String], rows: &[Vec<ViewCell>]) -> Table {
        if usize::from(self.width) < headers.len() * NARROWEST_COLUMN {
            return self.stacked(headers, rows);
        }
        let mut table = self.grid();
        table.set_header(headers.iter().map(|header| {
            comfy_table::Cell::new(escape_cell(header))
                .fg(Color::DarkCyan)
                .add_attribute(Attribute::Bold)
        }));
        for row in rows {
            table.add_row(Row::from(row.iter().map(style_cell).collect::<Vec<_>>()));
        }
        self.keep_names_whole(&mut table);
        table
    }

    /// Disables wrapping of the first column if it leaves half of the width to the others: it names
    /// the row and is what people copy.
    fn keep_names_whole(&self, table: &mut Table) {
        let widest = table.column_max_content_widths().first().copied();
        if widest.is_some_and(|widest| widest <= self.width / 2)
            && let Some(column) = table.column_mut(0)
        {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }

    fn stacked(&self, headers: &[String], rows: &[Vec<ViewCell>]) -> Table {
        let mut pairs = Vec::new();
        for row in rows {
            if !pairs.is_empty() {
                pairs.push((String::new(), ViewCell::from("")));
            }
            pairs.extend(headers.iter().cloned().zip(row.iter().cloned()));
        }
        self.panel(&pairs)
    }

    fn grid(&self) -> Table {
        let mut table = Table::new();
        table
            .load_style(self.table)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(self.width)
            .force_no_tty();
        if self.colour == ColourMode::Yes {
            table.enforce_styling().style_text_only();
        }
        table
    }
}

fn style_cell(cell: &ViewCell) -> comfy_table::Cell {
    let shown = comfy_table::Cell::new(escape_cell(&cell.text));
    match cell.tone {
        Tone::Normal => shown,
        Tone::Strong => shown.add_attribute(Attribute::Bold),
        Tone::Good => shown.fg(Color::DarkGreen),
        Tone::Doubtful => shown.fg(Color::DarkYellow),
        Tone::Bad => shown.fg(Color::DarkRed),
        Tone::Faint => shown.add_attribute(Attribute::Dim),
    }
}

/// Colours text outside of grids by its tone.
pub(super) fn paint(text: &str, tone: Tone, colour: ColourMode) -> String {
    let plain = anstyle::Style::new();
    let style = match (colour, tone) {
        (ColourMode::No, _) | (_, Tone::Normal) => return text.to_owned(),
        (ColourMode::Yes, Tone::Strong) => plain.bold(),
        (ColourMode::Yes, Tone::Good) => AnsiColor::Green.on_default(),
        (ColourMode::Yes, Tone::Doubtful) => AnsiColor::Yellow.on_default(),
        (ColourMode::Yes, Tone::Bad) => AnsiColor::Red.on_default(),
        (ColourMode::Yes, Tone::Faint) => plain.dimmed(),
    };
    format!("{style}{text}{style:#}")
}

/// Returns the lines of a table without trailing blanks.
pub(super) fn lines(table: &Table) -> Vec<String> {
    table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// Wraps prose at the terminal width, at spaces where possible.
pub(super) fn wrap(text: &str, width: u16) -> Vec<String> {
    let width = usize::from(width);
    let mut wrapped = Vec::new();
    for line in escape_cell(text).lines() {
        let mut current = String::new();
        let mut length = 0;
        for word in line.split_inclusive(' ') {
            let word_length = word.trim_end().chars().count();
            if length > 0 && length + word_length > width {
                wrapped.push(std::mem::take(&mut current).trim_end().to_owned());
                length = 0;
            }
            current.push_str(word);
            length += word.chars().count();
        }
        wrapped.push(current.trim_end().to_owned());
    }
    wrapped
}
