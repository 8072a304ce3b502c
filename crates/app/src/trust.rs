//! Consent to use files of a repository. Which files need it, and whether they have it, is decided
//! by `engine::trust`; here consent that a request gives is recorded.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use cleveragents_domain::{Plan, ProfileName, RepositoryFile, Resource, ResourcePath, TrustState};
use cleveragents_engine::trust::{RepositoryAction, content_hash};
use cleveragents_ports::sandbox::WORKTREE_INCLUDE;

use crate::app::Caller;
use crate::failure::{RequestError, display_path, not_trusted_failure};
use crate::services::Services;
use cleveragents_api::FailureKind;

/// The size limit for `.worktreeinclude`, in bytes. No hand-written file is longer.
const INCLUDE_MAXIMUM: usize = 1 << 20;

/// Consent that comes with a request.
#[derive(Debug, Clone, Default)]
pub struct GivenConsent {
    /// To all files that the request uses, as they are now.
    pub all: bool,
    /// To the file whose content has this hash, which the user was asked about.
    pub hash: Option<String>,
}

impl GivenConsent {
    fn covers(&self, file: &RepositoryFile) -> bool {
        self.all || self.hash.as_deref() == Some(&file.hash)
    }
}

/// Fails unless the user consents to the file of `action`, now or in an earlier request.
pub(crate) async fn require_trust(
    services: &Services,
    action: &RepositoryAction,
    consent: &GivenConsent,
    caller: &Caller,
) -> Result<(), RequestError> {
    let state = services.trust().state_of(action.file.clone()).await?;
    if state == TrustState::Trusted {
        return Ok(());
    }
    if !consent.covers(&action.file) {
        return Err(not_trusted_failure(
            &action.file,
            state,
            Some(&action.draft),
        ));
    }
    Ok(services
        .trust()
        .record(action.file.clone(), &caller.who)
        .await?)
}

/// Records consent to the current content of the resources' `.worktreeinclude`, if the consent
/// is to all files.
pub(crate) async fn trust_includes(
    services: &Services,
    resources: &[Resource],
    consent: &GivenConsent,
    caller: &Caller,
) -> Result<(), RequestError> {
    if !consent.all {
        return Ok(());
    }
    for resource in resources {
        if let Some(file) = include_file(services, resource)? {
            services.trust().record(file, &caller.who).await?;
        }
    }
    Ok(())
}

fn include_file(
    services: &Services,
    resource: &Resource,
) -> Result<Option<RepositoryFile>, RequestError> {
    let root = PathBuf::from(OsString::from_vec(resource.path.as_bytes().to_vec()));
    let unreadable = |path: &PathBuf| {
        let what = format!("cannot read {}", display_path(path));
        RequestError::usage(what).kind(FailureKind::Unreadable)
    };
    let content = services
        .adapters()
        .project_files()
        .include_file(&root, INCLUDE_MAXIMUM + 1)
        .map_err(|error| unreadable(&error.path).because(error.reason))?;
    let Some(content) = content else {
        return Ok(None);
    };
    if content.len() > INCLUDE_MAXIMUM {
        let path = root.join(WORKTREE_INCLUDE);
        return Err(unreadable(&path).because("it is larger than a mebibyte"));
    }
    let path = ResourcePath::from_bytes(WORKTREE_INCLUDE);
    let path = path.map_err(|error| unreadable(&root).caused_by(&error))?;
    Ok(Some(RepositoryFile {
        repository: resource.path.clone(),
        path,
        hash: content_hash(&content),
    }))
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
