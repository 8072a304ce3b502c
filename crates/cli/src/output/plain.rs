//! `plain`: stable lines for scripts and logs. A panel becomes `key: value` lines, a table a header
//! and rows separated by tabs. Nothing is wrapped, coloured or boxed.

use super::model::{OutputView, ViewBlock};
use super::render_options::{ColourMode, RenderOptions};
use super::text::{escape_cell, escape_line, escape_verbatim};
use super::{patch, tree};

pub(super) fn render(view: &OutputView, options: &RenderOptions) -> String {
    let mut output = String::new();
    for (index, block) in view.blocks.iter().enumerate() {
        if index > 0 {
            output.push('\n');
        }
        match block {
            ViewBlock::Panel { rows, .. } => {
                for (name, cell) in rows {
                    let line = format!("{}: {}", escape_line(name), escape_line(&cell.text));
                    output.push_str(line.trim_end());
                    output.push('\n');
                }
            }
            ViewBlock::Table { headers, rows, .. } => {
                push_row(&mut output, headers.iter().map(String::as_str));
                for row in rows {
                    push_row(&mut output, row.iter().map(|cell| cell.text.as_str()));
                }
            }
            ViewBlock::Tree { lines, .. } => {
                for line in tree::render_indented(lines) {
                    output.push_str(&line);
                    output.push('\n');
                }
            }
            ViewBlock::Text(text) => {
                output.push_str(escape_cell(text).trim_end_matches('\n'));
                output.push('\n');
            }
            ViewBlock::Verbatim(text) if options.piped => output.push_str(text),
            ViewBlock::Verbatim(text) => output.push_str(&escape_verbatim(text)),
            ViewBlock::Patch(bytes) => output.push_str(&patch::render(bytes, ColourMode::No)),
        }
    }
    output
}

fn push_row<'a>(output: &mut String, cells: impl Iterator<Item = &'a str>) {
    let cells: Vec<String> = cells.map(escape_line).collect();
    output.push_str(&cells.join("\t"));
    output.push('\n');
}
