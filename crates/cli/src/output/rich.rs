//! `rich`: boxes with their title in the upper edge, colour where the terminal has it.

use anstyle::{AnsiColor, Style as Ansi};
use comfy_table::{ContentLineStyle, LineStyle, Table, TableStyle};

use super::choice::{Choice, Colour};
use super::layout::{self, Style};
use super::model::{Block, View};
use super::text::{harmless, one_line};
use super::{patch, tree};

const BOX: TableStyle = TableStyle::new()
    .top_border(LineStyle::new('╭', '─', '─', '╮'))
    .header_lines(ContentLineStyle::none().left('│').right('│'))
    .header_separator(LineStyle::new('├', '─', '─', '┤'))
    .content_lines(ContentLineStyle::none().left('│').right('│'))
    .bottom_border(LineStyle::new('╰', '─', '─', '╯'));

const TITLE: Ansi = AnsiColor::Cyan.on_default().bold();

pub(super) fn render(view: &View, choice: &Choice) -> String {
    let style = Style {
        table: BOX,
        colour: choice.stdout,
        width: choice.width,
    };
    let mut output = String::new();
    for block in &view.blocks {
        match block {
            Block::Panel { title, rows } if rows.is_empty() => {
                push_title(&mut output, title, choice);
            }
            Block::Panel { title, rows } => {
                push_box(&mut output, &style.panel(rows), title, choice);
            }
            Block::Table {
                title,
                headers,
                rows,
            } => push_box(&mut output, &style.table(headers, rows), title, choice),
            Block::Tree { title, lines } => {
                push_title(&mut output, title, choice);
                for line in tree::lines(lines, &tree::LINES, choice.stdout) {
                    output.push_str(&line);
                    output.push('\n');
                }
            }
            Block::Text(text) => {
                for line in layout::wrap(text, choice.width) {
                    output.push_str(&line);
                    output.push('\n');
                }
            }
            Block::Verbatim(text) => output.push_str(&harmless(text)),
            Block::Patch(bytes) => output.push_str(&patch::shown(bytes, choice.stdout)),
        }
    }
    output
}

/// Draws a box and writes the title into its upper edge.
fn push_box(output: &mut String, table: &Table, title: &str, choice: &Choice) {
    let mut lines = layout::lines(table).into_iter();
    let Some(top) = lines.next() else {
        return push_title(output, title, choice);
    };
    let title = one_line(title);
    let length = title.chars().count();
    let inner = top.chars().count().saturating_sub(2);
    if title.is_empty() {
        output.push_str(&top);
    } else if length + 4 <= inner {
        let rest = "─".repeat(inner - length - 3);
        output.push_str(&format!("╭─ {} {rest}╮", paint(&title, choice)));
    } else {
        output.push_str(&format!("{}\n{top}", paint(&title, choice)));
    }
    output.push('\n');
    for line in lines {
        output.push_str(&line);
        output.push('\n');
    }
}

fn push_title(output: &mut String, title: &str, choice: &Choice) {
    output.push_str(&paint(&one_line(title), choice));
    output.push('\n');
}

fn paint(title: &str, choice: &Choice) -> String {
    match choice.stdout {
        Colour::Yes => format!("{TITLE}{title}{TITLE:#}"),
        Colour::No => title.to_owned(),
    }
}
