//! Output of sandboxes.

use cleveragents_api::sandbox::SandboxSummary;
use cleveragents_domain::sandbox::{FolderState, SandboxState};

use crate::output::{Tone, ViewCell};

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
pub(super) fn folder(sandbox: &SandboxSummary) -> ViewCell {
    match (sandbox.folder, sandbox.on_disk) {
        _ if sandbox.on_other_node => ViewCell::new("elsewhere", Tone::Faint),
        (FolderState::Kept, true) => "kept".into(),
        (FolderState::Kept, false) => ViewCell::new("missing", Tone::Bad),
        (FolderState::Leaving, _) => ViewCell::new("leaving", Tone::Doubtful),
        (FolderState::Gone, false) => ViewCell::new("gone", Tone::Faint),
        (FolderState::Gone, true) => ViewCell::new("left over", Tone::Doubtful),
    }
}
