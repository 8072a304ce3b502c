//! Asks for consent to use files of a repository. A request that needs it fails, and is sent again
//! with the hash of the content that the user was asked about.

use clap::Args;
use cleveragents_api::failure_facts::{UntrustedFile, UntrustedState};

use crate::confirmation::{Confirmation, confirm};
use crate::environment::Environment;
use crate::failure::{CommandFailure, FailureKind};

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
    /// Whether the user gave `--trust`.
    pub fn is_given(&self) -> bool {
        self.trust
    }
}

/// Whether a request failed because it needs the user's consent to a file.
pub fn is_needed(failure: &CommandFailure) -> bool {
    failure.kind == FailureKind::NotTrusted && failure.facts.trust.is_some()
}

/// Returns the question about the file that a request needs, and the hash of the content that it is
/// about. `None` if the request failed for another reason.
pub fn question_of(failure: &CommandFailure) -> Option<(String, String)> {
    let file = failure.facts.trust.as_ref()?;
    is_needed(failure).then(|| (question(file), file.hash.clone()))
}

/// Returns the failure of a request whose file the user did not trust.
pub fn declined_failure(failure: CommandFailure) -> CommandFailure {
    failure.because("you declined")
}

/// Asks the user about the file that a request needs. Returns the hash of the content that the user
/// consents to; without consent, the failure of the request.
pub fn ask(failure: CommandFailure, environment: &Environment) -> Result<String, CommandFailure> {
    let Some(file) = &failure.facts.trust else {
        return Err(failure);
    };
    match confirm(&question(file), environment) {
        Confirmation::Yes => Ok(file.hash.clone()),
        Confirmation::No => Err(declined_failure(failure)),
        // Without a terminal there is no consent. The failure names `--trust`.
        Confirmation::NoTerminal => Err(failure),
    }
}

fn question(file: &UntrustedFile) -> String {
    let what = match file.state {
        UntrustedState::Changed => "has changed since you trusted it",
        UntrustedState::FirstUse => "is used for the first time",
    };
    let mut lines = vec![format!("{} of {} {what}:", file.file, file.repository)];
    let effects = file.effects.iter().flatten();
    lines.extend(effects.map(|line| format!("  {line}")));
    lines.push("Trust this file as it is?".to_owned());
    lines.join("\n")
}
