//! Asking for consent to use files of a repository. Which files need it, and whether they have it,
//! is decided by `engine::trust`; here the user is asked and the answer is recorded.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use cleveragents_app::failure::not_trusted_failure;
use cleveragents_domain::{Plan, ProfileName, RepositoryFile, Resource, ResourcePath, TrustState};
use cleveragents_engine::trust::{RepositoryAction, content_hash, effects};
use cleveragents_ports::sandbox::WORKTREE_INCLUDE;
use rustix::fs::OFlags;

use crate::bootstrap::AppContext;
use crate::confirmation::{Confirmation, confirm};
use crate::environment::Environment;
use crate::failure::{CommandFailure, display_path};

/// The size limit for `.worktreeinclude`, in bytes. No hand-written file is longer.
const INCLUDE_MAXIMUM: u64 = 1 << 20;

/// The user's word on files of a repository.
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
        let state = app.block_on(app.trust().state_of(action.file.clone()))?;
        if state == TrustState::Trusted {
            return Ok(());
        }
        if !self.trust {
            match confirm(&question(action, state), environment) {
                Confirmation::Yes => {}
                Confirmation::No => {
                    return Err(not_trusted_failure(&action.file, state).because("you declined"));
                }
                Confirmation::NoTerminal => return Err(not_trusted_failure(&action.file, state)),
            }
        }
        self.record(action.file.clone(), app)
    }

    /// With `--trust`, records consent to the current content of the resources' `.worktreeinclude`.
    pub fn trust_includes(
        &self,
        resources: &[Resource],
        app: &AppContext<'_>,
    ) -> Result<(), CommandFailure> {
        if !self.trust {
            return Ok(());
        }
        for resource in resources {
            let root = PathBuf::from(OsString::from_vec(resource.path.as_bytes().to_vec()));
            let Some(content) = read_include(&root)? else {
                continue;
            };
            let path = ResourcePath::from_bytes(WORKTREE_INCLUDE);
            let path = path.map_err(|error| unreadable_failure(&root).caused_by(&error))?;
            let file = RepositoryFile {
                repository: resource.path.clone(),
                path,
                hash: content_hash(&content),
            };
            self.record(file, app)?;
        }
        Ok(())
    }

    fn record(&self, file: RepositoryFile, app: &AppContext<'_>) -> Result<(), CommandFailure> {
        app.block_on(app.trust().record(file, app.actor()))?;
        Ok(())
    }
}

/// Returns a warning if the plan's profile differs from the one that the repository's action asks
/// for.
pub fn tightened_profile_warning(plan: &Plan, requested: Option<&ProfileName>) -> Option<String> {
    let holds = &plan.brief.automation_profile.name;
    let wanted = requested.filter(|wanted| *wanted != holds)?;
    Some(format!(
        "the repository's action asks for the profile {wanted}; {holds} is used, because only \
         --automation-profile can loosen it"
    ))
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

/// Reads a resource's `.worktreeinclude`, if it has one.
fn read_include(root: &Path) -> Result<Option<Vec<u8>>, CommandFailure> {
    let path = root.join(WORKTREE_INCLUDE);
    // Without it, opening a FIFO would wait for a writer.
    let flags = OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(&path);
    let failed = |error: std::io::Error| unreadable_failure(&path).caused_by(&error);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(unreadable_failure(&path).because("it is not a regular file"));
    }
    let mut content = Vec::new();
    file.take(INCLUDE_MAXIMUM + 1)
        .read_to_end(&mut content)
        .map_err(failed)?;
    if content.len() as u64 > INCLUDE_MAXIMUM {
        return Err(unreadable_failure(&path).because("it is larger than a mebibyte"));
    }
    Ok(Some(content))
}

fn unreadable_failure(path: &Path) -> CommandFailure {
    CommandFailure::usage(format!("cannot read {}", display_path(path))).kind("unreadable")
}
