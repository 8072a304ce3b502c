//! The start of plans' commands, and the environment variables that they get.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cleveragents_engine::secrets::is_secret_name;
use cleveragents_ports::limits::Limit;
use cleveragents_ports::processes::{ProcessError, ProcessResult, Processes};
pub use cleveragents_sandbox::confine::commands_keep_root;
use cleveragents_sandbox::confine::{
    LocalProcesses, ProcessLimits, ProcessSettings, RequestedConfinement, run, visible_paths,
};

use crate::environment::Environment;
use crate::process::find;
use crate::settings::Settings;

/// The hidden subcommand with which `agents` starts a confined command. It is not in the help
/// because only `agents` calls it.
pub const RUN_COMMAND: &str = "__run";

/// Variables that commands inherit unchanged: the search path and the locale.
pub const INHERITED_VARIABLES: [&str; 9] = [
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

/// Variables that locate toolchains and their caches, with the default folder below the home
/// directory. Needed because commands get a home of their own and would not find them.
const TOOLCHAINS: [(&str, Option<&str>); 32] = [
    ("ANDROID_HOME", None),
    ("ASDF_DATA_DIR", Some(".asdf")),
    ("BUN_INSTALL", Some(".bun")),
    ("CARGO_HOME", Some(".cargo")),
    ("CONDA_PREFIX", None),
    ("DENO_DIR", Some(".cache/deno")),
    ("DENO_INSTALL", Some(".deno")),
    ("DOTNET_ROOT", None),
    ("ELAN_HOME", Some(".elan")),
    ("GHCUP_INSTALL_BASE_PREFIX", None),
    ("GOMODCACHE", Some("go/pkg/mod")),
    ("GOPATH", None),
    ("GOROOT", None),
    ("GRADLE_HOME", None),
    ("JAVA_HOME", None),
    ("MAVEN_HOME", None),
    ("MISE_DATA_DIR", Some(".local/share/mise")),
    ("NODE_PATH", None),
    ("NVM_DIR", Some(".nvm")),
    ("OPAMROOT", Some(".opam")),
    ("PNPM_HOME", Some(".local/share/pnpm")),
    ("PYENV_ROOT", Some(".pyenv")),
    ("RBENV_ROOT", Some(".rbenv")),
    ("RUSTUP_HOME", Some(".rustup")),
    ("RUSTUP_TOOLCHAIN", None),
    ("SDKMAN_DIR", Some(".sdkman")),
    ("UV_CACHE_DIR", Some(".cache/uv")),
    ("UV_PYTHON_INSTALL_DIR", Some(".local/share/uv/python")),
    ("UV_TOOL_DIR", Some(".local/share/uv/tools")),
    ("VIRTUAL_ENV", None),
    ("VOLTA_HOME", Some(".volta")),
    ("npm_config_cache", Some(".npm")),
];

/// Returns the process runner for commands of plans on this machine, confined as the settings say.
pub fn processes(
    settings: &Settings,
    data_directory: &Path,
    environment: &Environment,
) -> ProcessResult<Box<dyn Processes>> {
    let limits = ProcessLimits {
        memory: settings.sandbox_limit(Limit::Memory),
        processes: settings.sandbox_limit(Limit::Processes),
        file_size: settings.sandbox_limit(Limit::FileSize),
        disk: settings.sandbox_limit(Limit::Disk),
    };
    let settings = process_settings(settings, data_directory, environment)?;
    Ok(Box::new(LocalProcesses::new(settings).with_limits(limits)))
}

/// Returns the paths that commands of plans can see besides the system folders and their sandbox.
pub fn paths_visible_to_commands(
    settings: &Settings,
    data_directory: &Path,
    environment: &Environment,
) -> ProcessResult<Vec<PathBuf>> {
    let settings = process_settings(settings, data_directory, environment)?;
    Ok(visible_paths(&settings))
}

fn process_settings(
    settings: &Settings,
    data_directory: &Path,
    environment: &Environment,
) -> ProcessResult<ProcessSettings> {
    let program = environment.executable.clone();
    let program = program.ok_or_else(|| ProcessError::Start {
        reason: "cannot determine the path of the agents program".to_owned(),
    })?;
    let home = environment.home();
    let wanted = settings.sandbox_confinement();
    Ok(ProcessSettings {
        program,
        bubblewrap: find("bwrap", environment),
        confinement: wanted.map_or(RequestedConfinement::Best, RequestedConfinement::Exactly),
        data_directory: data_directory.to_owned(),
        // It may hold API keys, so commands must not read it even inside a readable folder.
        secret_files: vec![settings.locations.config_file.clone()],
        toolchains: toolchain_folders(environment),
        readable: settings.sandbox_readable_paths(home.as_deref()),
        writable: settings.sandbox_writable_paths(home.as_deref()),
        variables: variables(environment),
        home,
    })
}

/// Runs `agents __run`. Reads no settings and opens no data directory.
pub fn run_command(arguments: &[OsString], environment: &Environment) -> u8 {
    run(arguments, environment.variables.get("PATH"))
}

/// Returns the variables that a command inherits: never one that looks like a secret, and none that
/// controls git.
fn variables(environment: &Environment) -> Vec<(OsString, OsString)> {
    let is_inherited = |name: &str| {
        let known = INHERITED_VARIABLES.contains(&name) || name.starts_with("LC_");
        known && !is_secret_name(name)
    };
    let mut variables: Vec<(OsString, OsString)> = environment
        .variables
        .iter()
        .filter(|(name, _)| is_inherited(name))
        .map(|(name, value)| (name.into(), value.clone()))
        .collect();
    variables.extend(toolchain_variables(environment));
    variables
}

fn toolchain_variables(environment: &Environment) -> Vec<(OsString, OsString)> {
    let value = |name: &str, folder: Option<&str>| {
        let given = environment.variable(name).map(OsString::from);
        given.or_else(|| default_folder(environment, folder?).map(PathBuf::into_os_string))
    };
    let found = TOOLCHAINS
        .into_iter()
        .filter_map(|(name, folder)| Some((name.into(), value(name, folder)?)));
    found.collect()
}

/// Returns the folders that the toolchain variables name; a variable can name several. For `GOPATH`
/// only `bin` and `pkg` count, because the workspace also holds the user's projects.
fn toolchain_folders(environment: &Environment) -> Vec<PathBuf> {
    let values = toolchain_variables(environment);
    let folders = values.iter().flat_map(|(name, value)| {
        let folders = std::env::split_paths(value);
        folders.flat_map(move |folder| match name.to_str() {
            Some("GOPATH") => vec![folder.join("bin"), folder.join("pkg")],
            _ => vec![folder],
        })
    });
    folders.filter(|folder| folder.is_absolute()).collect()
}

/// Returns a toolchain's default folder if it exists.
fn default_folder(environment: &Environment, folder: &str) -> Option<PathBuf> {
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
        let mut environment = Environment::from_process();
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
