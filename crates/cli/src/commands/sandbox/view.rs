//! How sandboxes are shown.

use cleveragents_domain::sandbox::{FolderState, SandboxState};
use cleveragents_engine::sandboxes::{Known, OnDisk};
use serde_json::{Value, json};

use crate::output::{Cell, Tone};
use crate::wiring::Wired;

pub(super) fn data(known: &Known, wired: &Wired<'_>) -> Value {
    let record = &known.record;
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
        "on_disk": known.on_disk == OnDisk::Present,
        "path": wired.sandbox_tree(record.id).display().to_string(),
        "created_at": record.created_at,
        "updated_at": record.updated_at,
    })
}

pub(super) fn state(state: SandboxState) -> Cell {
    let tone = match state {
        SandboxState::Creating => Tone::Doubtful,
        SandboxState::Active => Tone::Strong,
        SandboxState::Captured | SandboxState::Applied => Tone::Good,
        SandboxState::Discarded => Tone::Faint,
    };
    Cell::new(state.as_str(), tone)
}

/// Whether the folder is as its record says.
pub(super) fn folder(known: &Known) -> Cell {
    match (known.record.folder, known.on_disk) {
        (FolderState::Kept, OnDisk::Present) => "kept".into(),
        (FolderState::Kept, OnDisk::Absent) => Cell::new("missing", Tone::Bad),
        (_, OnDisk::Elsewhere) => Cell::new("elsewhere", Tone::Faint),
        (FolderState::Leaving, _) => Cell::new("leaving", Tone::Doubtful),
        (FolderState::Gone, OnDisk::Absent) => Cell::new("gone", Tone::Faint),
        (FolderState::Gone, OnDisk::Present) => Cell::new("left over", Tone::Doubtful),
    }
}
