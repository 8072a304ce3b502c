//! Facts about a completed call that its event carries, for people who follow the plan.

use cleveragents_domain::event::payloads::ChangedLines;
use cleveragents_domain::tool_call::ToolCallRecord;
use serde_json::Value;

/// Begins the last line of a diff of which a part was left out.
const LEFT_OUT: &str = "[… ";

/// Returns the exit code of the command that the call ran.
pub(in crate::execution) fn exit_code(record: &ToolCallRecord) -> Option<i64> {
    record.output.as_ref()?.get("exit_code")?.as_i64()
}

/// Returns the changed lines of the file that the call edited or created. `None` if they are not
/// known: a replaced file is not compared with its new content.
pub(super) fn changed_lines(record: &ToolCallRecord) -> Option<ChangedLines> {
    if record.tree_after.as_ref() == Some(&record.call.tree_before) {
        return None;
    }
    let output = record.output.as_ref()?;
    let text = |value: &Value, key: &str| Some(value.get(key)?.as_str()?.to_owned());
    if let Some(diff) = text(output, "diff") {
        return lines_of_edit(&diff);
    }
    let content = text(&record.call.input, "content")?;
    (text(output, "result")? == "created").then(|| ChangedLines {
        added: content.lines().count() as u64,
        removed: 0,
    })
}

/// Counts the lines of a diff without file names. `None` if it is not complete.
fn lines_of_edit(diff: &str) -> Option<ChangedLines> {
    let mut changed = ChangedLines {
        added: 0,
        removed: 0,
    };
    for line in diff.lines() {
        match line.as_bytes().first() {
            Some(b'+') => changed.added += 1,
            Some(b'-') => changed.removed += 1,
            _ if line.starts_with(LEFT_OUT) => return None,
            _ => {}
        }
    }
    Some(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_complete_edit_are_counted() {
        let edit = "@@ -1,3 +1,4 @@\n a\n-b\n+c\n+--d\n e\n@@ -9,1 +10,0 @@\n--- f\n";
        let lines = lines_of_edit(edit).unwrap();
        assert_eq!((lines.added, lines.removed), (2, 2));
        let cut = format!("{edit}[… 3 changes left out or cut short …]\n");
        assert_eq!(lines_of_edit(&cut), None);
    }
}
