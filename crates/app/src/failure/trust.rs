//! The failure of a request that needs a file which the user has not trusted.

use cleveragents_api::failure_facts::{UntrustedFile, UntrustedState};
use cleveragents_api::{ExitClass, FailureKind};
use cleveragents_definitions::ActionDraft;
use cleveragents_domain::{RepositoryFile, TrustState};
use cleveragents_engine::trust::effects;

use super::RequestError;

/// Returns the failure of a request that needs an untrusted file. `action` is what the file defines,
/// if it is known; its effects are listed, so that the user can be asked about them.
pub fn not_trusted_failure(
    file: &RepositoryFile,
    state: TrustState,
    action: Option<&ActionDraft>,
) -> RequestError {
    let (what, state) = match state {
        TrustState::Changed => ("has changed since you trusted it", UntrustedState::Changed),
        TrustState::FirstUse | TrustState::Trusted => {
            ("is not trusted yet", UntrustedState::FirstUse)
        }
    };
    RequestError::new(
        ExitClass::Decision,
        format!("{} of {} {what}", file.path, file.repository),
    )
    .kind(FailureKind::NotTrusted)
    .because("a repository's own files are used only with your consent")
    .hint("read the file, then repeat the command with --trust")
    .with_facts(|facts| {
        facts.trust = Some(UntrustedFile {
            file: file.path.clone(),
            repository: file.repository.clone(),
            hash: file.hash.clone(),
            state,
            effects: action.map(effects::describe),
        });
    })
}
