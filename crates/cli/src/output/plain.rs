//! `plain`: stable lines for scripts and logs. A panel is `key: value` lines, a table its header
//! and rows separated by tabs; nothing is wrapped, coloured or boxed.

use super::choice::{Choice, Colour};
use super::model::{Block, View};
use super::text::{harmless, one_line, visible};
use super::{patch, tree};

pub(super) fn render(view: &View, choice: &Choice) -> String {
    let mut output = String::new();
    for (index, block) in view.blocks.iter().enumerate() {
        if index > 0 {
            output.push('\n');
        }
        match block {
            Block::Panel { rows, .. } => {
                for (name, cell) in rows {
                    let line = format!("{}: {}", one_line(name), one_line(&cell.text));
                    output.push_str(line.trim_end());
                    output.push('\n');
                }
            }
            Block::Table { headers, rows, .. } => {
                push_row(&mut output, headers.iter().map(String::as_str));
                for row in rows {
                    push_row(&mut output, row.iter().map(|cell| cell.text.as_str()));
                }
            }
            Block::Tree { lines, .. } => {
                for line in tree::indented(lines) {
                    output.push_str(&line);
                    output.push('\n');
                }
            }
            Block::Text(text) => {
                output.push_str(visible(text).trim_end_matches('\n'));
                output.push('\n');
            }
            Block::Verbatim(text) if choice.piped => output.push_str(text),
            Block::Verbatim(text) => output.push_str(&harmless(text)),
            Block::Patch(bytes) => output.push_str(&patch::shown(bytes, Colour::No)),
        }
    }
    output
}

fn push_row<'a>(output: &mut String, cells: impl Iterator<Item = &'a str>) {
    let cells: Vec<String> = cells.map(one_line).collect();
    output.push_str(&cells.join("\t"));
    output.push('\n');
}
