//! The machine around the data: git, and what can confine the programs that plans run.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cleveragents_domain::process::Confinement;

use super::{Check, Context};
use crate::environment::Environment;
use crate::failure::shown_path;
use crate::places::quoted;
use crate::process::{Said, Silence, ask, find};
use crate::wiring;

pub(super) fn checks(context: &Context<'_>) -> Vec<Check> {
    let mut checks = git(context.environment);
    checks.push(confinement(context));
    checks.extend(visible_paths(context));
    checks.extend(writable_paths(context));
    checks
}

fn git(environment: &Environment) -> Vec<Check> {
    let Some(program) = find("git", environment) else {
        return vec![
            Check::error("git", "git is not on PATH")
                .hint("install git: plans work on git repositories"),
        ];
    };
    let version = match understood(ask(&program, &["--version"], environment)) {
        Ok(version) => Check::ok("git", version),
        Err(complaint) => Check::error(
            "git",
            format!("{} does not work: {complaint}", program.display()),
        )
        .hint("reinstall git"),
    };
    vec![version, git_identity(&program, environment)]
}

/// Who commits are by when nothing else says so.
fn git_identity(program: &Path, environment: &Environment) -> Check {
    const NAME: &str = "git_identity";
    let setting = |key: &str| {
        let said = ask(program, &["config", "--get", key], environment);
        understood(said).ok().filter(|value| !value.is_empty())
    };
    match (setting("user.name"), setting("user.email")) {
        (Some(name), Some(email)) => Check::ok(NAME, format!("{name} <{email}>")),
        (name, email) => {
            let missing = [("user.name", name), ("user.email", email)];
            let missing: Vec<&str> = missing
                .iter()
                .filter(|(_, value)| value.is_none())
                .map(|(key, _)| *key)
                .collect();
            let detail = format!(
                "git has no {}; commits will be by CleverAgents <agents@localhost>",
                missing.join(" and no ")
            );
            let hint = format!("git config --global {} …", missing[0]);
            Check::warning(NAME, detail).hint(hint)
        }
    }
}

/// What a program said, or why it said nothing useful.
fn understood(said: Result<Said, Silence>) -> Result<String, String> {
    match said {
        Ok(said) if said.succeeded => Ok(said.output),
        Ok(said) => Err(said.complaint),
        Err(silence) => match std::error::Error::source(&silence) {
            Some(source) => Err(format!("{silence}: {source}")),
            None => Err(silence.to_string()),
        },
    }
}

/// What keeps the commands of plans inside their sandbox.
fn confinement(context: &Context<'_>) -> Check {
    const NAME: &str = "confinement";
    let settings = match context.settings() {
        Ok(settings) => settings,
        Err(failure) => return Check::failed(NAME, &failure),
    };
    let data_directory = &settings.locations.data_directory;
    let processes = match wiring::processes(settings, data_directory, context.environment) {
        Ok(processes) => processes,
        Err(error) => return Check::error(NAME, error.to_string()),
    };
    let hint = "install bubblewrap, and allow it to make user namespaces";
    match (processes.confinement(), settings.sandbox_confinement()) {
        (Ok(Confinement::Namespaces), _) => Check::ok(
            NAME,
            "bubblewrap works: commands have files, processes and network of their own",
        ),
        (Ok(level), _) if wiring::commands_keep_root(level) => Check::warning(
            NAME,
            "Landlock works, but root may not mount here: commands keep root's user, and can change \
             modes and times of files anywhere",
        )
        .hint("run agents as another user, or let it mount (CAP_SYS_ADMIN)"),
        (Ok(Confinement::Landlock), Some(_)) => Check::ok(NAME, "Landlock works, as you chose"),
        (Ok(Confinement::Landlock), None) => Check::warning(
            NAME,
            "bubblewrap does not work here, Landlock does: commands see and change only what they \
             may, but share processes and /dev/shm with the machine",
        )
        .hint(hint),
        (Ok(Confinement::None), Some(_)) => {
            Check::warning(NAME, "commands of plans are not confined, as you chose")
                .hint("agents config unset sandbox.confinement")
        }
        (Ok(Confinement::None), None) => Check::warning(
            NAME,
            "neither bubblewrap nor Landlock works here: commands of plans are not confined",
        )
        .hint(hint),
        (Err(error), _) => Check::error(NAME, error.to_string()).hint(format!(
            "{hint}; or: agents config unset sandbox.confinement"
        )),
    }
}

/// What commands of plans can read beside the system's folders and their sandbox.
fn visible_paths(context: &Context<'_>) -> Option<Check> {
    const NAME: &str = "visible_paths";
    let settings = context.settings().ok()?;
    let data_directory = &settings.locations.data_directory;
    let seen = wiring::visible_to_commands(settings, data_directory, context.environment);
    let seen = match seen {
        Ok(seen) => seen,
        Err(error) => return Some(Check::error(NAME, error.to_string())),
    };
    let shown: Vec<String> = seen.iter().map(|path| shown_path(path)).collect();
    let detail = match shown.is_empty() {
        true => "commands see the system's folders and their sandbox".to_owned(),
        false => format!(
            "commands see the system's folders, their sandbox and: {}",
            shown.join(", ")
        ),
    };
    Some(Check::ok(NAME, detail))
}

/// Folders that commands may write but that are not there.
fn writable_paths(context: &Context<'_>) -> Option<Check> {
    let home = context.environment.home();
    let paths = context.settings.as_ref().ok()?;
    let paths = paths.sandbox_writable_paths(home.as_deref());
    let Some(absent) = paths.iter().find(|path| !path.exists()) else {
        return closed_to_commands(&paths);
    };
    let detail = format!(
        "sandbox.writable-paths names {}, which does not exist",
        shown_path(absent)
    );
    let hint = format!("mkdir -p {}", quoted(absent));
    Some(Check::warning("writable_paths", detail).hint(hint))
}

/// As root, commands have a user of their own, who may write only what everybody may.
fn closed_to_commands(paths: &[PathBuf]) -> Option<Check> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let is_closed = |path: &&PathBuf| {
        let found = path.metadata();
        found.is_ok_and(|found| found.permissions().mode() & 0o002 == 0)
    };
    let closed = paths.iter().find(is_closed)?;
    let detail = format!(
        "sandbox.writable-paths names {}, which commands cannot write: started by root they have a \
         user of their own",
        shown_path(closed)
    );
    let hint = format!("chmod 1777 {}", quoted(closed));
    Some(Check::warning("writable_paths", detail).hint(hint))
}
