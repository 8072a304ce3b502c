//! How changed files are displayed, the same in every command.

use cleveragents_ports::sandbox::{DiffChange, DiffLines, DiffStat};

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

/// Returns for example `+8 -2`.
pub(crate) fn format_line_counts(lines: DiffLines) -> String {
    match lines {
        DiffLines::Text { inserted, deleted } => format!("+{inserted} -{deleted}"),
        DiffLines::Binary => "binary".to_owned(),
    }
}

/// Sums the inserted and deleted lines; binary files count as none.
pub(crate) fn sum_lines<'a>(files: impl IntoIterator<Item = &'a DiffStat>) -> (u64, u64) {
    files
        .into_iter()
        .fold((0, 0), |(new, gone), file| match file.lines {
            DiffLines::Text { inserted, deleted } => (new + inserted, gone + deleted),
            DiffLines::Binary => (new, gone),
        })
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
