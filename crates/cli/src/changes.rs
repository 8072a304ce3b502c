//! How changed files are displayed, the same in every command.

use cleveragents_app::changes::format_line_counts;
use cleveragents_ports::sandbox::{DiffChange, DiffStat};

use crate::output::{Tone, ViewCell};

/// Returns the change of a file as one word.
pub(crate) fn change_name(file: &DiffStat) -> &'static str {
    match file.change {
        DiffChange::Added => "added",
        DiffChange::Deleted => "deleted",
        DiffChange::Modified => "modified",
        DiffChange::Renamed => "renamed",
        DiffChange::Retyped => "retyped",
    }
}

/// Returns a table row: path, change and line counts.
pub(crate) fn row(file: &DiffStat) -> Vec<ViewCell> {
    let tone = match file.change {
        DiffChange::Added => Tone::Good,
        DiffChange::Deleted => Tone::Bad,
        DiffChange::Modified | DiffChange::Renamed | DiffChange::Retyped => Tone::Doubtful,
    };
    let path = match &file.renamed_from {
        Some(from) => format!("{from} → {}", file.path),
        None => file.path.to_string(),
    };
    vec![
        ViewCell::new(path, Tone::Strong),
        ViewCell::new(change_name(file), tone),
        format_line_counts(file.lines).into(),
    ]
}
