//! Asking for consent to use files of a repository. Which files need it, and whether they have it,
//! is decided by `engine::trust`; here the user is asked and the answer is recorded.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Args;
use cleveragents_domain::{Plan, ProfileName, RepositoryFile, Resource, ResourcePath, TrustState};
use cleveragents_engine::ports::sandbox::WORKTREE_INCLUDE;
use cleveragents_engine::trust::{RepositoryAction, content_hash, effects};
use rustix::fs::OFlags;
use serde_json::json;

use crate::ask::{Reply, confirm};
use crate::environment::Environment;
use crate::failure::{ExitCode, Failure, shown_path};
use crate::wiring::Wired;

/// No `.worktreeinclude` that a person wrote is longer, in bytes.
const INCLUDE_MAXIMUM: u64 = 1 << 20;

/// The user's word on files of a repository.
#[derive(Debug, Args)]
pub struct Trust {
    /// Consent to the repository's own files that this uses, as they are now
    ///
    /// The action in .agents/actions, and credential files that .worktreeinclude brings along.
    /// Recorded with their hashes; a change of a file needs consent again. --yes does not imply it.
    #[arg(long)]
    trust: bool,
}

impl Trust {
    /// Fails, with exit code 5, unless the user consents to the file of `action` or did before.
    pub fn require(
        &self,
        action: &RepositoryAction,
        wired: &Wired<'_>,
        environment: &Environment,
    ) -> Result<(), Failure> {
        let state = wired.wait(wired.trust().state_of(action.file.clone()))?;
        if state == TrustState::Trusted {
            return Ok(());
        }
        if !self.trust {
            match confirm(&question(action, state), environment) {
                Reply::Yes => {}
                Reply::No => return Err(not_trusted(&action.file, state).because("you declined")),
                Reply::Nobody => return Err(not_trusted(&action.file, state)),
            }
        }
        self.record(action.file.clone(), wired)
    }

    /// With `--trust`, records consent to the resources' `.worktreeinclude` as it is now.
    pub fn includes(&self, resources: &[Resource], wired: &Wired<'_>) -> Result<(), Failure> {
        if !self.trust {
            return Ok(());
        }
        for resource in resources {
            let root = PathBuf::from(OsString::from_vec(resource.path.as_bytes().to_vec()));
            let Some(content) = include_of(&root)? else {
                continue;
            };
            let path = ResourcePath::from_bytes(WORKTREE_INCLUDE);
            let path = path.map_err(|error| unreadable(&root).caused_by(&error))?;
            let file = RepositoryFile {
                repository: resource.path.clone(),
                path,
                hash: content_hash(&content),
            };
            self.record(file, wired)?;
        }
        Ok(())
    }

    fn record(&self, file: RepositoryFile, wired: &Wired<'_>) -> Result<(), Failure> {
        wired.wait(wired.trust().record(file, wired.actor()))?;
        Ok(())
    }
}

/// Returns a warning if the plan's profile is not the one that the repository's action asks for.
pub fn tightened(plan: &Plan, wanted: Option<&ProfileName>) -> Option<String> {
    let holds = &plan.brief.automation_profile.name;
    let wanted = wanted.filter(|wanted| *wanted != holds)?;
    Some(format!(
        "the repository's action asks for the profile {wanted}, and {holds} holds: only your own \
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

/// The failure of a command that needs a file which is not trusted.
pub fn not_trusted(file: &RepositoryFile, state: TrustState) -> Failure {
    let (what, kind) = match state {
        TrustState::Changed => ("has changed since you trusted it", "changed"),
        TrustState::FirstUse | TrustState::Trusted => ("is not trusted yet", "first_use"),
    };
    Failure::new(
        ExitCode::Decision,
        format!("{} of {} {what}", file.path, file.repository),
    )
    .kind("not_trusted")
    .because("a repository's own files are used only with your consent")
    .hint("read the file, then repeat the command with --trust")
    .with(
        "trust",
        json!({ "file": file.path, "repository": file.repository, "hash": file.hash, "state": kind }),
    )
}

/// The content of a resource's `.worktreeinclude`, if it has one.
fn include_of(root: &Path) -> Result<Option<Vec<u8>>, Failure> {
    let path = root.join(WORKTREE_INCLUDE);
    let flags = OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(&path);
    let failed = |error: std::io::Error| unreadable(&path).caused_by(&error);
    let file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(unreadable(&path).because("it is not a regular file"));
    }
    let mut content = Vec::new();
    file.take(INCLUDE_MAXIMUM + 1)
        .read_to_end(&mut content)
        .map_err(failed)?;
    if content.len() as u64 > INCLUDE_MAXIMUM {
        return Err(unreadable(&path).because("it is larger than a mebibyte"));
    }
    Ok(Some(content))
}

fn unreadable(path: &Path) -> Failure {
    Failure::usage(format!("cannot read {}", shown_path(path))).kind("unreadable")
}
