//! `table`: ASCII tables without colour, for simple terminals and documents.

use comfy_table::presets::ASCII_FULL_CONDENSED;

use super::layout::{self, GridStyle};
use super::model::{OutputView, ViewBlock};
use super::render_options::{ColourMode, RenderOptions};
use super::text::{escape_line, escape_verbatim};
use super::{patch, tree};

pub(super) fn render(view: &OutputView, options: &RenderOptions) -> String {
    let style = GridStyle {
        table: ASCII_FULL_CONDENSED,
        colour: ColourMode::No,
        width: options.width,
    };
    let mut output = String::new();
    for block in &view.blocks {
        let (title, lines) = match block {
            ViewBlock::Panel { title, rows } => (title.as_str(), layout::lines(&style.panel(rows))),
            ViewBlock::Table {
                title,
                headers,
                rows,
            } => (title.as_str(), layout::lines(&style.table(headers, rows))),
            ViewBlock::Tree { title, lines } => {
                let lines = tree::render_lines(lines, &tree::ASCII, ColourMode::No);
                (title.as_str(), lines)
            }
            ViewBlock::Text(text) => ("", layout::wrap(text, options.width)),
            ViewBlock::Verbatim(text) => {
                output.push_str(&escape_verbatim(text));
                continue;
            }
            ViewBlock::Patch(bytes) => {
                output.push_str(&patch::render(bytes, ColourMode::No));
                continue;
            }
        };
        let title = Some(escape_line(title)).filter(|title| !title.is_empty());
        for line in title.into_iter().chain(lines) {
            output.push_str(&line);
            output.push('\n');
        }
    }
    output
}
