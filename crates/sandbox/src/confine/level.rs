//! Which level of confinement there is on this machine.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use cleveragents_domain::process::Confinement;
use cleveragents_engine::ports::processes::{ProcessError, ProcessResult};

use super::places::ProcessSettings;
use super::policy::{Bubblewrap, Enforcement, OwnFolders, UserNamespaces, absolute};
use super::{bubblewrap, landlock, own_mounts};
use crate::account::Account;

/// The level that somebody asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wanted {
    /// The best that works here, which may be none.
    #[default]
    Best,
    /// This one or nothing is run.
    Exactly(Confinement),
}

/// Tries what works, the best first.
pub(super) fn find(settings: &ProcessSettings) -> ProcessResult<Enforcement> {
    let found = match settings.wanted {
        Wanted::Best => by_namespaces(settings)
            .or_else(by_landlock)
            .or(Some(Enforcement::Nothing)),
        Wanted::Exactly(Confinement::Namespaces) => by_namespaces(settings),
        Wanted::Exactly(Confinement::Landlock) => by_landlock(),
        Wanted::Exactly(Confinement::None) => Some(Enforcement::Nothing),
    };
    found.ok_or_else(|| ProcessError::Unconfined {
        reason: missing(settings).to_owned(),
    })
}

fn by_namespaces(settings: &ProcessSettings) -> Option<Enforcement> {
    let program = settings.bubblewrap.as_deref()?;
    // Root in a user namespace is still root's number outside.
    let ways: &[UserNamespaces] = if Account::exists() {
        &[UserNamespaces::Shared]
    } else {
        &[UserNamespaces::Forbidden, UserNamespaces::Possible]
    };
    let named = absolute(program)?;
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
    let mut working = bubblewraps.filter(|it| tries(program, &bubblewrap::trial(it), settings));
    working.next().map(Enforcement::Bubblewrap)
}

/// Whether commands at this level keep the number of root, who started them, because this process
/// may not mount: then they can change modes and times of the machine's files.
pub fn commands_keep_root(level: Confinement) -> bool {
    level == Confinement::Landlock && Account::exists() && !own_mounts::are_possible()
}

/// The user that commands of a sandbox run as; none if it is ours.
pub(super) fn account(enforced_by: &Enforcement, sandbox: &Path) -> Option<Account> {
    let possible = match enforced_by {
        Enforcement::Bubblewrap(how) => how.user_namespaces == UserNamespaces::Shared,
        // Another user can enter our data directory only by mounts of its own.
        Enforcement::Landlock => own_mounts::are_possible(),
        Enforcement::Nothing => false,
    };
    possible.then(|| Account::of_sandbox(sandbox)).flatten()
}

fn by_landlock() -> Option<Enforcement> {
    landlock::works().then_some(Enforcement::Landlock)
}

fn missing(settings: &ProcessSettings) -> &'static str {
    match (settings.wanted, &settings.bubblewrap) {
        (Wanted::Exactly(Confinement::Landlock), _) => {
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
fn tries(program: &Path, arguments: &[OsString], settings: &ProcessSettings) -> bool {
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
