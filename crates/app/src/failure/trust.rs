//! The failure of a request that needs a file which the user has not trusted.

use cleveragents_api::ExitClass;
use cleveragents_definitions::ActionDraft;
use cleveragents_domain::{RepositoryFile, TrustState};
use cleveragents_engine::trust::effects;
use serde_json::json;

use super::RequestError;

/// Returns the failure of a request that needs an untrusted file. `action` is what the file defines,
/// if it is known; its effects are listed, so that the user can be asked about them.
pub fn not_trusted_failure(
    file: &RepositoryFile,
    state: TrustState,
    action: Option<&ActionDraft>,
) -> RequestError {
    let (what, kind) = match state {
        TrustState::Changed => ("has changed since you trusted it", "changed"),
        TrustState::FirstUse | TrustState::Trusted => ("is not trusted yet", "first_use"),
    };
    RequestError::new(
        ExitClass::Decision,
        format!("{} of {} {what}", file.path, file.repository),
    )
    .kind("not_trusted")
    .because("a repository's own files are used only with your consent")
    .hint("read the file, then repeat the command with --trust")
    .with(
        "trust",
        json!({
            "file": file.path,
            "repository": file.repository,
            "hash": file.hash,
            "state": kind,
            "effects": action.map(effects::describe),
        }),
    )
}
