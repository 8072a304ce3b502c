//! The machine around the data: git, and what can confine the programs that plans run.

use std::path::Path;

use super::Check;
use crate::environment::Environment;
use crate::process::{Said, Silence, ask, find};

/// Where the kernel lists its security modules, if that file system is mounted.
const SECURITY_MODULES: &str = "/sys/kernel/security/lsm";

pub(super) fn checks(environment: &Environment) -> Vec<Check> {
    let mut checks = git(environment);
    checks.push(confinement(environment));
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
fn confinement(environment: &Environment) -> Check {
    const NAME: &str = "confinement";
    let bubblewrap = bubblewrap(environment);
    let modules = std::fs::read_to_string(SECURITY_MODULES).ok();
    let landlock = modules
        .as_deref()
        .map(|list| list.trim().split(',').any(|module| module == "landlock"));
    let hint = "install bubblewrap";
    match (bubblewrap, landlock) {
        (Ok(version), _) => Check::ok(NAME, format!("{version} works")),
        (Err(_), Some(true)) => Check::ok(NAME, "the kernel has Landlock"),
        (Err(why), Some(false)) => Check::warning(
            NAME,
            format!("{why}, and the kernel has no Landlock: commands of plans are not confined"),
        )
        .hint(hint),
        (Err(why), None) => Check::warning(
            NAME,
            format!("{why}; the kernel does not say whether it has Landlock"),
        )
        .hint(hint),
    }
}

fn bubblewrap(environment: &Environment) -> Result<String, String> {
    let Some(program) = find("bwrap", environment) else {
        return Err("bubblewrap is not on PATH".to_owned());
    };
    let works = ask(&program, &["--ro-bind", "/", "/", "true"], environment);
    understood(works).map_err(|why| format!("bubblewrap does not work here ({why})"))?;
    let version = understood(ask(&program, &["--version"], environment));
    Ok(version.unwrap_or_else(|_| "bubblewrap".to_owned()))
}
