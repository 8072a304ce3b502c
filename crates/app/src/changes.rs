//! Changed files as text and numbers.

use cleveragents_api::plan::diff::FileStatus;
use cleveragents_ports::sandbox::{DiffChange, DiffLines, DiffStat};

/// Returns for example `+8 -2`.
pub fn format_line_counts(lines: DiffLines) -> String {
    match lines {
        DiffLines::Text { inserted, deleted } => format!("+{inserted} -{deleted}"),
        DiffLines::Binary => "binary".to_owned(),
    }
}

pub(crate) fn file_status(change: DiffChange) -> FileStatus {
    match change {
        DiffChange::Added => FileStatus::Added,
        DiffChange::Deleted => FileStatus::Deleted,
        DiffChange::Modified => FileStatus::Modified,
        DiffChange::Renamed => FileStatus::Renamed,
        DiffChange::Retyped => FileStatus::Retyped,
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
