//! `table`: ASCII tables without colour, for terminals and documents that know nothing else.

use comfy_table::presets::ASCII_FULL_CONDENSED;

use super::choice::{Choice, Colour};
use super::layout::{self, Style};
use super::model::{Block, View};
use super::text::{harmless, one_line};
use super::{patch, tree};

pub(super) fn render(view: &View, choice: &Choice) -> String {
    let style = Style {
        table: ASCII_FULL_CONDENSED,
        colour: Colour::No,
        width: choice.width,
    };
    let mut output = String::new();
    for block in &view.blocks {
        let (title, lines) = match block {
            Block::Panel { title, rows } => (title.as_str(), layout::lines(&style.panel(rows))),
            Block::Table {
                title,
                headers,
                rows,
            } => (title.as_str(), layout::lines(&style.table(headers, rows))),
            Block::Tree { title, lines } => {
                let lines = tree::lines(lines, &tree::ASCII, Colour::No);
                (title.as_str(), lines)
            }
            Block::Text(text) => ("", layout::wrap(text, choice.width)),
            Block::Verbatim(text) => {
                output.push_str(&harmless(text));
                continue;
            }
            Block::Patch(bytes) => {
                output.push_str(&patch::shown(bytes, Colour::No));
                continue;
            }
        };
        let title = Some(one_line(title)).filter(|title| !title.is_empty());
        for line in title.into_iter().chain(lines) {
            output.push_str(&line);
            output.push('\n');
        }
    }
    output
}
