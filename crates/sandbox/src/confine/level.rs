//! Finds the confinement level that this machine supports.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use cleveragents_domain::process::Confinement;
use cleveragents_ports::processes::{ProcessError, ProcessResult};

use super::machine_rules::ProcessSettings;
use super::policy::{Bubblewrap, Enforcement, OwnFolders, UserNamespaces, to_absolute_path};
use super::{bubblewrap, landlock, own_mounts};
use crate::account::SandboxAccount;

/// The confinement level that the settings ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedConfinement {
    /// The best level that works here, which may be none.
    Best,
    /// This level; commands fail if it is not available.
    Exactly(Confinement),
}

/// Tries the levels, best first.
pub(super) fn find_enforcement(settings: &ProcessSettings) -> ProcessResult<Enforcement> {
    let found = match settings.confinement {
        RequestedConfinement::Best => try_bubblewrap(settings)
            .or_else(try_landlock)
            .or(Some(Enforcement::Nothing)),
        RequestedConfinement::Exactly(Confinement::Namespaces) => try_bubblewrap(settings),
        RequestedConfinement::Exactly(Confinement::Landlock) => try_landlock(),
        RequestedConfinement::Exactly(Confinement::None) => Some(Enforcement::Nothing),
    };
    found.ok_or_else(|| ProcessError::Unconfined {
        reason: missing_reason(settings).to_owned(),
    })
}

fn try_bubblewrap(settings: &ProcessSettings) -> Option<Enforcement> {
    let program = settings.bubblewrap.as_deref()?;
    // Root in a user namespace keeps root's user id outside of it.
    let ways: &[UserNamespaces] = if SandboxAccount::is_supported() {
        &[UserNamespaces::Shared]
    } else {
        &[UserNamespaces::Forbidden, UserNamespaces::Possible]
    };
    let named = to_absolute_path(program)?;
    let bubblewraps = [OwnFolders::Bounded, OwnFolders::Unbounded]
        .into_iter()
        .flat_map(|own_folders| {
            let program = &named;
            ways.iter().map(move |way| Bubblewrap {
                program: program.clone(),
                user_namespaces: *way,
                own_folders,
            })
        });
    let mut working = bubblewraps
        .filter(|it| runs_successfully(program, &bubblewrap::trial_arguments(it), settings));
    working.next().map(Enforcement::Bubblewrap)
}

/// Returns whether commands at this level keep root's user id because this process cannot mount. They
/// could then change modes and times of the machine's files.
pub fn commands_keep_root(level: Confinement) -> bool {
    level == Confinement::Landlock && SandboxAccount::is_supported() && !own_mounts::can_mount()
}

/// Returns the user that commands of a sandbox run as, or `None` for our own user.
pub(super) fn command_account(enforced_by: &Enforcement, sandbox: &Path) -> Option<SandboxAccount> {
    let possible = match enforced_by {
        Enforcement::Bubblewrap(how) => how.user_namespaces == UserNamespaces::Shared,
        // Another user can reach our data directory only through mounts of its own.
        Enforcement::Landlock => own_mounts::can_mount(),
        Enforcement::Nothing => false,
    };
    possible
        .then(|| SandboxAccount::for_sandbox(sandbox))
        .flatten()
}

fn try_landlock() -> Option<Enforcement> {
    landlock::is_supported().then_some(Enforcement::Landlock)
}

fn missing_reason(settings: &ProcessSettings) -> &'static str {
    match (settings.confinement, &settings.bubblewrap) {
        (RequestedConfinement::Exactly(Confinement::Landlock), _) => {
            "the kernel has no Landlock, or one older than Linux 6.2"
        }
        (_, None) => "bubblewrap is not installed",
        (_, Some(_)) => "bubblewrap does not work here: the system forbids namespaces",
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "bubblewrap is tried here, on `true`, with the environment of a command"
)]
fn runs_successfully(program: &Path, arguments: &[OsString], settings: &ProcessSettings) -> bool {
    let variables = settings.variables.iter();
    Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(variables.map(|(name, value)| (name, value)))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
