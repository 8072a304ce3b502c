//! Finds the tool call that wrote each line of a file.
//!
//! The captured trees before and after each call are compared, so a line belongs to the last call
//! that inserted it, whatever tool that was.

use std::sync::Arc;

use cleveragents_domain::tool_call::ToolCallRecord;
use cleveragents_domain::{ResourcePath, TreeId};
use cleveragents_ports::sandbox::{DiffChange, Sandbox, SandboxError};
use cleveragents_ports::stop::StopSignal;

use crate::execution::patch::{FilePatch, PatchHunk, file_patches};

/// A line that a plan wrote.
#[derive(Debug, Clone, PartialEq)]
struct WrittenLine {
    /// `None` if no tool call wrote it, but for example a rebase.
    call: Option<Arc<ToolCallRecord>>,
    text: Vec<u8>,
}

/// The lines of one version of a file. `None` is a line that the plan did not write; all lines
/// after the known ones are such.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LineCalls(Vec<Option<WrittenLine>>);

/// A change of the tree of a sandbox.
struct TreeStep {
    from: TreeId,
    to: TreeId,
    call: Option<Arc<ToolCallRecord>>,
}

/// Follows a file, under all the names that it had, through these calls, in order, to `result`.
pub(super) fn replay(
    sandbox: &dyn Sandbox,
    calls: &[Arc<ToolCallRecord>],
    names: &[ResourcePath],
    result: Option<&TreeId>,
) -> Result<LineCalls, SandboxError> {
    let mut lines = LineCalls::default();
    for step in tree_steps(calls, result) {
        let diff = sandbox.diff(&step.from, &step.to, names, &StopSignal::new())?;
        for file in file_patches(&diff)? {
            lines.apply(&file, step.call.as_ref());
        }
    }
    Ok(lines)
}

/// Returns the calls, and between them the changes that no call made.
fn tree_steps(calls: &[Arc<ToolCallRecord>], result: Option<&TreeId>) -> Vec<TreeStep> {
    let mut steps: Vec<TreeStep> = Vec::new();
    let mut push = |to: &TreeId, from: Option<&TreeId>, call: Option<&Arc<ToolCallRecord>>| {
        let from = from.cloned().or_else(|| Some(steps.last()?.to.clone()));
        if let Some(from) = from.filter(|from| from != to) {
            let (to, call) = (to.clone(), call.cloned());
            steps.push(TreeStep { from, to, call });
        }
    };
    for call in calls {
        let Some(after) = &call.tree_after else {
            continue;
        };
        push(&call.call.tree_before, None, None);
        push(after, Some(&call.call.tree_before), Some(call));
    }
    if let Some(result) = result {
        push(result, None, None);
    }
    steps
}

impl LineCalls {
    /// Returns the call that wrote this line, counted from 1. The version of the file may have
    /// further lines of others, so a line with this text nearby counts too.
    pub(super) fn call_of(&self, number: u32, text: &[u8]) -> Option<&Arc<ToolCallRecord>> {
        let index = (number as usize).saturating_sub(1);
        let is_same = |line: &&WrittenLine| without_return(&line.text) == without_return(text);
        let there = self.0.get(index).and_then(Option::as_ref).filter(is_same);
        let written = || {
            let lines = self.0.iter().enumerate();
            lines.filter_map(|(at, line)| Some((at, line.as_ref()?)))
        };
        let nearest = || {
            let same = written().filter(|(_, line)| is_same(line));
            same.min_by_key(|(at, _)| at.abs_diff(index))
                .map(|(_, line)| line)
        };
        there.or_else(nearest)?.call.as_ref()
    }

    fn apply(&mut self, file: &FilePatch<'_>, call: Option<&Arc<ToolCallRecord>>) {
        match file.file.change {
            DiffChange::Added | DiffChange::Deleted | DiffChange::Retyped => self.0.clear(),
            DiffChange::Modified | DiffChange::Renamed => {}
        }
        if file.file.change == DiffChange::Deleted {
            return;
        }
        let mut next = Vec::new();
        let mut at = 0;
        for hunk in &file.hunks {
            let Some(start) = old_start(hunk) else {
                continue;
            };
            while at < start {
                next.push(self.line(at));
                at += 1;
            }
            for line in hunk.text.split_inclusive(|byte| *byte == b'\n').skip(1) {
                let text = line.strip_suffix(b"\n").unwrap_or(line);
                match text.split_first() {
                    Some((b'-', _)) => at += 1,
                    Some((b'+', text)) => next.push(Some(WrittenLine {
                        call: call.cloned(),
                        text: text.to_vec(),
                    })),
                    // "\ No newline at end of file"
                    Some((b'\\', _)) => {}
                    _ => {
                        next.push(self.line(at));
                        at += 1;
                    }
                }
            }
        }
        next.extend(self.0.drain(..).skip(at));
        self.0 = next;
    }

    fn line(&self, index: usize) -> Option<WrittenLine> {
        self.0.get(index).cloned().flatten()
    }
}

/// Returns the index of the first line of the hunk in the old file.
fn old_start(hunk: &PatchHunk<'_>) -> Option<usize> {
    let range = hunk.range();
    let old = range.strip_prefix('-')?.split(' ').next()?;
    let (start, count) = old.split_once(',').unwrap_or((old, "1"));
    let start: usize = start.parse().ok()?;
    // A hunk that only inserts names the line before it.
    Some(if count == "0" {
        start
    } else {
        start.saturating_sub(1)
    })
}

fn without_return(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"\r").unwrap_or(text)
}
