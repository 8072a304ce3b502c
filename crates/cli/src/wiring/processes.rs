//! The commands of plans: what of the environment they get, and how they are started.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cleveragents_engine::ports::limits::Limit;
use cleveragents_engine::ports::processes::{ProcessError, ProcessResult, Processes};
use cleveragents_sandbox::confine::{LocalProcesses, ProcessLimits, ProcessSettings, Wanted, run};

use crate::environment::Environment;
use crate::process::find;
use crate::redact::is_secret_name;
use crate::settings::Settings;

/// The word by which our program is asked to start a command. It is in no help: nobody types it.
pub const RUN: &str = "__run";

/// Variables that commands inherit as they are: where programs are, and how to speak to people.
pub const INHERITED: [&str; 9] = [
    "PATH",
    "LANG",
    "LANGUAGE",
    "TERM",
    "COLORTERM",
    "NO_COLOR",
    "TZ",
    "USER",
    "LOGNAME",
];

/// Where toolchains have their caches. With a home of their own commands would not find them.
const TOOLCHAINS: [(&str, Option<&str>); 14] = [
    ("CARGO_HOME", Some(".cargo")),
    ("RUSTUP_HOME", Some(".rustup")),
    ("RUSTUP_TOOLCHAIN", None),
    ("GOROOT", None),
    ("GOMODCACHE", Some("go/pkg/mod")),
    ("GRADLE_HOME", None),
    ("JAVA_HOME", None),
    ("MAVEN_HOME", None),
    ("NVM_DIR", Some(".nvm")),
    ("NODE_PATH", None),
    ("PYENV_ROOT", Some(".pyenv")),
    ("RBENV_ROOT", Some(".rbenv")),
    ("SDKMAN_DIR", Some(".sdkman")),
    ("VIRTUAL_ENV", None),
];

/// What starts the commands of plans on this machine, confined as the settings say.
pub fn processes(
    settings: &Settings,
    data_directory: &Path,
    environment: &Environment,
) -> ProcessResult<Box<dyn Processes>> {
    let program = environment.executable.clone();
    let program = program.ok_or_else(|| ProcessError::Start {
        reason: "the system does not say where our own program is".to_owned(),
    })?;
    let home = environment.home();
    let wanted = settings.sandbox_confinement();
    let limits = ProcessLimits {
        memory: settings.sandbox_limit(Limit::Memory),
        processes: settings.sandbox_limit(Limit::Processes),
        file_size: settings.sandbox_limit(Limit::FileSize),
        disk: settings.sandbox_limit(Limit::Disk),
    };
    let settings = ProcessSettings {
        program,
        bubblewrap: find("bwrap", environment),
        wanted: wanted.map_or(Wanted::Best, Wanted::Exactly),
        data_directory: data_directory.to_owned(),
        writable: settings.sandbox_writable_paths(home.as_deref()),
        variables: variables(environment),
        home,
    };
    Ok(Box::new(LocalProcesses::new(settings).limited(limits)))
}

/// Does what `agents __run` is asked for. No settings are read and no data directory is opened.
pub fn run_command(arguments: &[OsString], environment: &Environment) -> u8 {
    run(arguments, environment.variables.get("PATH"))
}

/// What a command gets of our environment: never what looks like a secret, never what directs git.
fn variables(environment: &Environment) -> Vec<(OsString, OsString)> {
    let is_inherited = |name: &str| {
        let known = INHERITED.contains(&name) || name.starts_with("LC_");
        known && !is_secret_name(name)
    };
    let mut variables: Vec<(OsString, OsString)> = environment
        .variables
        .iter()
        .filter(|(name, _)| is_inherited(name))
        .map(|(name, value)| (name.into(), value.clone()))
        .collect();
    for (name, folder) in TOOLCHAINS {
        let given = environment.variable(name).map(OsString::from);
        let value =
            given.or_else(|| usual_place(environment, folder?).map(PathBuf::into_os_string));
        variables.extend(value.map(|value| (name.into(), value)));
    }
    variables
}

/// Where a toolchain is when nobody says so.
fn usual_place(environment: &Environment, folder: &str) -> Option<PathBuf> {
    let place = environment.home()?.join(folder);
    place.is_dir().then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_get_no_secrets_and_nothing_that_directs_git() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".cargo")).unwrap();
        let mut environment = Environment::of_this_process();
        let given = [
            ("HOME", home.path().to_str().unwrap()),
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("LC_SECRET_KEY", "x"),
            ("OPENAI_API_KEY", "x"),
            ("GIT_DIR", "/evil"),
            ("LD_PRELOAD", "/evil.so"),
            ("SSH_AUTH_SOCK", "/agent"),
            ("RUSTUP_HOME", "/rustup"),
        ];
        environment.variables = given
            .map(|(name, value)| (name.to_owned(), value.into()))
            .into();
        let expected = [
            ("LC_ALL", "C".into()),
            ("PATH", "/bin".into()),
            ("CARGO_HOME", home.path().join(".cargo").into_os_string()),
            ("RUSTUP_HOME", "/rustup".into()),
        ];
        let expected = expected.map(|(name, value)| (OsString::from(name), value));
        assert_eq!(variables(&environment), expected);
    }
}
