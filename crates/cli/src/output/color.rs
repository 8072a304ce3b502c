//! `color`: aligned and coloured, without boxes.

use anstyle::Style as Ansi;
use comfy_table::presets::NOTHING;

use super::choice::{Choice, Colour};
use super::layout::{self, Style};
use super::model::{Block, View};
use super::text::{harmless, one_line};
use super::{patch, tree};

const TITLE: Ansi = Ansi::new().bold();

pub(super) fn render(view: &View, choice: &Choice) -> String {
    let style = Style {
        table: NOTHING,
        colour: choice.stdout,
        width: choice.width,
    };
    let mut output = String::new();
    for (index, block) in view.blocks.iter().enumerate() {
        if index > 0 {
            output.push('\n');
        }
        let (title, lines) = match block {
            Block::Panel { title, rows } => (title.as_str(), layout::lines(&style.panel(rows))),
            Block::Table {
                title,
                headers,
                rows,
            } => (title.as_str(), layout::lines(&style.table(headers, rows))),
            Block::Tree { title, lines } => {
                let lines = tree::lines(lines, &tree::LINES, choice.stdout);
                (title.as_str(), lines)
            }
            Block::Text(text) => ("", layout::wrap(text, choice.width)),
            Block::Verbatim(text) => {
                output.push_str(&harmless(text));
                continue;
            }
            Block::Patch(bytes) => {
                output.push_str(&patch::shown(bytes, choice.stdout));
                continue;
            }
        };
        if !title.is_empty() {
            let title = one_line(title);
            output.push_str(&match choice.stdout {
                Colour::Yes => format!("{TITLE}{title}{TITLE:#}\n"),
                Colour::No => format!("{title}\n"),
            });
        }
        for line in lines {
            output.push_str(&line);
            output.push('\n');
        }
    }
    output
}
