//! Checks of the machine: git, and the confinement of commands.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cleveragents_domain::process::Confinement;

use super::{CommandContext, HealthCheck};
use crate::bootstrap;
use crate::environment::Environment;
use crate::failure::display_path;
use crate::process::{ProgramError, ProgramOutput, find, run_program};
use crate::resource_directory::shell_quote_path;

pub(super) fn checks(context: &CommandContext<'_>) -> Vec<HealthCheck> {
    let mut checks = git(context.environment);
    checks.push(confinement(context));
    checks.extend(visible_paths(context));
    checks.extend(writable_paths(context));
    checks
}

fn git(environment: &Environment) -> Vec<HealthCheck> {
    let Some(program) = find("git", environment) else {
        return vec![
            HealthCheck::error("git", "git is not on PATH")
                .with_hint("install git: plans work on git repositories"),
        ];
    };
    let version = match parse_output(run_program(&program, &["--version"], environment)) {
        Ok(version) => HealthCheck::ok("git", version),
        Err(complaint) => HealthCheck::error(
            "git",
            format!("{} does not work: {complaint}", program.display()),
        )
        .with_hint("reinstall git"),
    };
    vec![version, git_identity(&program, environment)]
}

/// Reports the default author of commits.
fn git_identity(program: &Path, environment: &Environment) -> HealthCheck {
    const NAME: &str = "git_identity";
    let setting = |key: &str| {
        let said = run_program(program, &["config", "--get", key], environment);
        parse_output(said).ok().filter(|value| !value.is_empty())
    };
    match (setting("user.name"), setting("user.email")) {
        (Some(name), Some(email)) => HealthCheck::ok(NAME, format!("{name} <{email}>")),
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
            HealthCheck::warning(NAME, detail).with_hint(hint)
        }
    }
}

/// Returns the program's output, or the reason for its failure.
fn parse_output(output: Result<ProgramOutput, ProgramError>) -> Result<String, String> {
    match output {
        Ok(said) if said.succeeded => Ok(said.output),
        Ok(said) => Err(said.last_error_line),
        Err(silence) => match std::error::Error::source(&silence) {
            Some(source) => Err(format!("{silence}: {source}")),
            None => Err(silence.to_string()),
        },
    }
}

/// Reports how commands of plans are confined to their sandbox.
fn confinement(context: &CommandContext<'_>) -> HealthCheck {
    const NAME: &str = "confinement";
    let settings = match context.settings() {
        Ok(settings) => settings,
        Err(failure) => return HealthCheck::from_failure(NAME, &failure),
    };
    let data_directory = &settings.locations.data_directory;
    let processes = match bootstrap::processes(settings, data_directory, context.environment) {
        Ok(processes) => processes,
        Err(error) => return HealthCheck::error(NAME, error.to_string()),
    };
    let hint = "install bubblewrap, and allow it to make user namespaces";
    match (processes.confinement(), settings.sandbox_confinement()) {
        (Ok(Confinement::Namespaces), _) => HealthCheck::ok(
            NAME,
            "bubblewrap works: commands have their own files, processes and network",
        ),
        (Ok(level), _) if bootstrap::commands_keep_root(level) => HealthCheck::warning(
            NAME,
            "Landlock works, but root may not mount here: commands keep root's user, and can change \
             modes and times of files anywhere",
        )
        .with_hint("run agents as another user, or let it mount (CAP_SYS_ADMIN)"),
        (Ok(Confinement::Landlock), Some(_)) => HealthCheck::ok(NAME, "Landlock works, as you chose"),
        (Ok(Confinement::Landlock), None) => HealthCheck::warning(
            NAME,
            "bubblewrap does not work here, Landlock does: commands see and change only what they \
             may, but share processes and /dev/shm with the machine",
        )
        .with_hint(hint),
        (Ok(Confinement::None), Some(_)) => {
            HealthCheck::warning(NAME, "commands of plans are not confined, as you chose")
                .with_hint("agents config unset sandbox.confinement")
        }
        (Ok(Confinement::None), None) => HealthCheck::warning(
            NAME,
            "neither bubblewrap nor Landlock works here: commands of plans are not confined",
        )
        .with_hint(hint),
        (Err(error), _) => HealthCheck::error(NAME, error.to_string()).with_hint(format!(
            "{hint}; or: agents config unset sandbox.confinement"
        )),
    }
}

/// Reports the paths that commands of plans can read besides the system folders and their sandbox.
fn visible_paths(context: &CommandContext<'_>) -> Option<HealthCheck> {
    const NAME: &str = "visible_paths";
    let settings = context.settings().ok()?;
    let data_directory = &settings.locations.data_directory;
    let seen = bootstrap::paths_visible_to_commands(settings, data_directory, context.environment);
    let seen = match seen {
        Ok(seen) => seen,
        Err(error) => return Some(HealthCheck::error(NAME, error.to_string())),
    };
    let shown: Vec<String> = seen.iter().map(|path| display_path(path)).collect();
    let detail = if shown.is_empty() {
        "commands see the system's folders and their sandbox".to_owned()
    } else {
        format!(
            "commands see the system's folders, their sandbox and: {}",
            shown.join(", ")
        )
    };
    Some(HealthCheck::ok(NAME, detail))
}

/// Reports writable folders that do not exist.
fn writable_paths(context: &CommandContext<'_>) -> Option<HealthCheck> {
    let home = context.environment.home();
    let paths = context.settings.as_ref().ok()?;
    let paths = paths.sandbox_writable_paths(home.as_deref());
    let Some(absent) = paths.iter().find(|path| !path.exists()) else {
        return unwritable_paths(&paths);
    };
    let detail = format!(
        "sandbox.writable-paths names {}, which does not exist",
        display_path(absent)
    );
    let hint = format!("mkdir -p {}", shell_quote_path(absent));
    Some(HealthCheck::warning("writable_paths", detail).with_hint(hint))
}

/// Reports writable folders that commands cannot write. When `agents` runs as root, commands run as
/// a separate user and can write only world-writable paths.
fn unwritable_paths(paths: &[PathBuf]) -> Option<HealthCheck> {
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
        display_path(closed)
    );
    let hint = format!("chmod 1777 {}", shell_quote_path(closed));
    Some(HealthCheck::warning("writable_paths", detail).with_hint(hint))
}
