//! `rich`: boxes with the title in the top border, coloured if the terminal supports it.

use anstyle::{AnsiColor, Style as Ansi};
use comfy_table::{ContentLineStyle, LineStyle, Table, TableStyle};

use super::layout::{self, GridStyle};
use super::model::{OutputView, ViewBlock};
use super::render_options::{ColourMode, RenderOptions};
use super::text::{escape_line, escape_verbatim};
use super::{patch, tree};

const BOX: TableStyle = TableStyle::new()
    .top_border(LineStyle::new('╭', '─', '─', '╮'))
    .header_lines(ContentLineStyle::none().left('│').right('│'))
    .header_separator(LineStyle::new('├', '─', '─', '┤'))
    .content_lines(ContentLineStyle::none().left('│').right('│'))
    .bottom_border(LineStyle::new('╰', '─', '─', '╯'));

const TITLE: Ansi = AnsiColor::Cyan.on_default().bold();

pub(super) fn render(view: &OutputView, options: &RenderOptions) -> String {
    let style = GridStyle {
        table: BOX,
        colour: options.stdout,
        width: options.width,
    };
    let mut output = String::new();
    for block in &view.blocks {
        match block {
            ViewBlock::Panel { title, rows } if rows.is_empty() => {
                push_title(&mut output, title, options);
            }
            ViewBlock::Panel { title, rows } => {
                push_box(&mut output, &style.panel(rows), title, options);
            }
            ViewBlock::Table {
                title,
                headers,
                rows,
            } => push_box(&mut output, &style.table(headers, rows), title, options),
            ViewBlock::Tree { title, lines } => {
                push_title(&mut output, title, options);
                for line in tree::render_lines(lines, &tree::UNICODE, options.stdout) {
                    output.push_str(&line);
                    output.push('\n');
                }
            }
            ViewBlock::Text(text) => {
                for line in layout::wrap(text, options.width) {
                    output.push_str(&line);
                    output.push('\n');
                }
            }
            ViewBlock::Verbatim(text) => output.push_str(&escape_verbatim(text)),
            ViewBlock::Patch(bytes) => output.push_str(&patch::render(bytes, options.stdout)),
        }
    }
    output
}

/// Draws a box with the title in its top border.
fn push_box(output: &mut String, table: &Table, title: &str, options: &RenderOptions) {
    let mut lines = layout::lines(table).into_iter();
    let Some(top) = lines.next() else {
        return push_title(output, title, options);
    };
    let title = escape_line(title);
    let length = title.chars().count();
    let inner = top.chars().count().saturating_sub(2);
    if title.is_empty() {
        output.push_str(&top);
    } else if length + 4 <= inner {
        let rest = "─".repeat(inner - length - 3);
        output.push_str(&format!("╭─ {} {rest}╮", paint(&title, options)));
    } else {
        output.push_str(&format!("{}\n{top}", paint(&title, options)));
    }
    output.push('\n');
    for line in lines {
        output.push_str(&line);
        output.push('\n');
    }
}

fn push_title(output: &mut String, title: &str, options: &RenderOptions) {
    output.push_str(&paint(&escape_line(title), options));
    output.push('\n');
}

fn paint(title: &str, options: &RenderOptions) -> String {
    match options.stdout {
        ColourMode::Yes => format!("{TITLE}{title}{TITLE:#}"),
        ColourMode::No => title.to_owned(),
    }
}
