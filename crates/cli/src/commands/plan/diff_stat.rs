//! The changed files of a plan with the numbers of changed lines.

use cleveragents_api::plan::diff::{DiffFile, FileStatus, PlanDiffAnswer};

use super::activity::ActivityLine;
use crate::output::{Tone, format_count};

/// The maximum number of files that are listed.
const FILES_MAXIMUM: usize = 50;

/// Returns a line for each changed file, and the totals.
pub(super) fn lines(diff: &PlanDiffAnswer) -> Vec<ActivityLine> {
    let summary = &diff.diff_summary;
    let files = diff.files.iter().take(FILES_MAXIMUM);
    let mut lines: Vec<ActivityLine> = files.map(file_line).collect();
    if let Some(more) = diff.files.len().checked_sub(FILES_MAXIMUM + 1) {
        let text = format!("… and {} more", more + 1);
        lines.push(ActivityLine::new(2, text, Tone::Normal));
    }
    let number = i64::try_from(summary.files_changed).unwrap_or(i64::MAX);
    let text = match number {
        0 => "no files changed".to_owned(),
        _ => format!(
            "{} changed, +{} −{}",
            format_count(number, "file"),
            summary.insertions,
            summary.deletions
        ),
    };
    lines.push(ActivityLine::new(0, text, Tone::Strong));
    lines
}

fn file_line(file: &DiffFile) -> ActivityLine {
    let what = match (file.status, &file.renamed_from) {
        (_, Some(from)) => format!(" (moved from {from})"),
        (FileStatus::Added, None) => " (new)".to_owned(),
        (FileStatus::Deleted, None) => " (deleted)".to_owned(),
        _ => String::new(),
    };
    let change = file.change.replace('-', "−");
    let change = change.strip_suffix(" −0").unwrap_or(&change);
    let text = format!("{} {change}{what}", file.path);
    ActivityLine::new(2, text, Tone::Normal)
}
