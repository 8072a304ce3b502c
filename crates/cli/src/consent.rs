//! Asking for consent to use files of a repository. Which files need it, and whether they have it,
//! is decided by `engine::trust`; here the user is asked and the answer is recorded.

use clap::Args;
use cleveragents_app::trust::GivenConsent;
use cleveragents_domain::{RepositoryFile, Resource, TrustState};
use cleveragents_engine::trust::{RepositoryAction, effects};

use crate::bootstrap::AppContext;
use crate::confirmation::{Confirmation, confirm};
use crate::environment::Environment;
use crate::failure::CommandFailure;

/// The user's consent to files of a repository.
#[derive(Debug, Args)]
pub struct TrustArgs {
    /// Trust the repository's own files that this command uses, as they are now
    ///
    /// The action in .agents/actions, and credential files that .worktreeinclude lists. Recorded
    /// with their hashes; a changed file needs --trust again. --yes does not imply it.
    #[arg(long)]
    trust: bool,
}

impl TrustArgs {
    /// Fails with exit code 5 unless the user consents to the file of `action`, now or in an
    /// earlier run.
    pub fn require(
        &self,
        action: &RepositoryAction,
        app: &AppContext<'_>,
        environment: &Environment,
    ) -> Result<(), CommandFailure> {
        let (handlers, caller) = (app.app(), app.caller());
        let require =
            |consent: GivenConsent| app.block_on(handlers.require_trust(action, &consent, &caller));
        let Err(failure) = require(self.consent()) else {
            return Ok(());
        };
        if failure.kind != "not_trusted" {
            return Err(failure);
        }
        let state = app.block_on(app.trust().state_of(action.file.clone()))?;
        match confirm(&question(action, state), environment) {
            Confirmation::Yes => require(GivenConsent {
                all: false,
                hash: Some(action.file.hash.clone()),
            }),
            Confirmation::No => Err(failure.because("you declined")),
            Confirmation::NoTerminal => Err(failure),
        }
    }

    /// With `--trust`, records consent to the current content of the resources' `.worktreeinclude`.
    pub fn trust_includes(
        &self,
        resources: &[Resource],
        app: &AppContext<'_>,
    ) -> Result<(), CommandFailure> {
        let handlers = app.app();
        app.block_on(handlers.trust_includes(resources, &self.consent(), &app.caller()))
    }

    fn consent(&self) -> GivenConsent {
        GivenConsent {
            all: self.trust,
            hash: None,
        }
    }
}

fn question(action: &RepositoryAction, state: TrustState) -> String {
    let RepositoryFile {
        repository, path, ..
    } = &action.file;
    let what = match state {
        TrustState::Changed => "has changed since you trusted it",
        TrustState::FirstUse | TrustState::Trusted => "is used for the first time",
    };
    let mut lines = vec![format!("{path} of {repository} {what}:")];
    let effects = effects::describe(&action.draft);
    lines.extend(effects.into_iter().map(|line| format!("  {line}")));
    lines.push("Trust this file as it is?".to_owned());
    lines.join("\n")
}
