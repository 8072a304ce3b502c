//! Output of sandboxes.

use cleveragents_domain::sandbox::{FolderState, SandboxState};
use cleveragents_engine::sandboxes::{SandboxFolderPresence, SandboxListEntry};
use serde_json::{Value, json};

use crate::bootstrap::AppContext;
use crate::output::{Tone, ViewCell};

pub(super) fn data(sandbox: &SandboxListEntry, app: &AppContext<'_>) -> Value {
    let record = &sandbox.record;
    json!({
        "id": record.id,
        "plan_id": record.plan_id,
        "resource": record.resource_name,
        "resource_path": record.resource_path,
        "type": record.resource_type,
        "base": record.base,
        "base_commit": record.base_commit,
        "base_tree": record.base_tree,
        "tree": record.tree,
        "state": record.state,
        "folder": record.folder,
        "node": record.node,
        "on_disk": sandbox.on_disk == SandboxFolderPresence::Present,
        "path": app.sandbox_tree(record.id).display().to_string(),
        "created_at": record.created_at,
        "updated_at": record.updated_at,
    })
}

pub(super) fn state(state: SandboxState) -> ViewCell {
    let tone = match state {
        SandboxState::Creating => Tone::Doubtful,
        SandboxState::Active => Tone::Strong,
        SandboxState::Captured | SandboxState::Applied => Tone::Good,
        SandboxState::Discarded => Tone::Faint,
    };
    ViewCell::new(state.as_str(), tone)
}

/// Returns whether the folder matches its record.
pub(super) fn folder(sandbox: &SandboxListEntry) -> ViewCell {
    match (sandbox.record.folder, sandbox.on_disk) {
        (FolderState::Kept, SandboxFolderPresence::Present) => "kept".into(),
        (FolderState::Kept, SandboxFolderPresence::Absent) => ViewCell::new("missing", Tone::Bad),
        (_, SandboxFolderPresence::OnOtherNode) => ViewCell::new("elsewhere", Tone::Faint),
        (FolderState::Leaving, _) => ViewCell::new("leaving", Tone::Doubtful),
        (FolderState::Gone, SandboxFolderPresence::Absent) => ViewCell::new("gone", Tone::Faint),
        (FolderState::Gone, SandboxFolderPresence::Present) => {
            ViewCell::new("left over", Tone::Doubtful)
        }
    }
}
