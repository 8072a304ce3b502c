//! `color`: aligned and coloured, without boxes.

use anstyle::Style as Ansi;
use comfy_table::presets::NOTHING;

use super::layout::{self, GridStyle};
use super::model::{OutputView, ViewBlock};
use super::render_options::{ColourMode, RenderOptions};
use super::text::{escape_line, escape_verbatim};
use super::{patch, tree};

const TITLE: Ansi = Ansi::new().bold();

pub(super) fn render(view: &OutputView, options: &RenderOptions) -> String {
    let style = GridStyle {
        table: NOTHING,
        colour: options.stdout,
        width: options.width,
    };
    let mut output = String::new();
    for (index, block) in view.blocks.iter().enumerate() {
        if index > 0 {
            output.push('\n');
        }
        let (title, lines) = match block {
            ViewBlock::Panel { title, rows } => (title.as_str(), layout::lines(&style.panel(rows))),
            ViewBlock::Table {
                title,
                headers,
                rows,
            } => (title.as_str(), layout::lines(&style.table(headers, rows))),
            ViewBlock::Tree { title, lines } => {
                let lines = tree::render_lines(lines, &tree::UNICODE, options.stdout);
                (title.as_str(), lines)
            }
            ViewBlock::Text(text) => ("", layout::wrap(text, options.width)),
            ViewBlock::Verbatim(text) => {
                output.push_str(&escape_verbatim(text));
                continue;
            }
            ViewBlock::Patch(bytes) => {
                output.push_str(&patch::render(bytes, options.stdout));
                continue;
            }
        };
        if !title.is_empty() {
            let title = escape_line(title);
            output.push_str(&match options.stdout {
                ColourMode::Yes => format!("{TITLE}{title}{TITLE:#}\n"),
                ColourMode::No => format!("{title}\n"),
            });
        }
        for line in lines {
            output.push_str(&line);
            output.push('\n');
        }
    }
    output
}
