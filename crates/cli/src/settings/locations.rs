//! The paths of data and settings: flags take precedence over variables, and those over the home
//! directory.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cleveragents_api::FailureKind;

use crate::arguments::GlobalArguments;
use crate::environment::Environment;
use crate::failure::CommandFailure;

const PROJECT_FILE: &str = ".agents/config.toml";

/// The paths that this run uses. Finding them creates nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locations {
    pub data_directory: PathBuf,
    /// The user's settings.
    pub config_file: PathBuf,
    /// The nearest project settings at or above the working directory.
    pub project_file: Option<PathBuf>,
    /// The folder in which `--project` creates settings if there are none: the top of the git
    /// checkout, else the working directory.
    pub new_project_file: Option<PathBuf>,
}

impl Locations {
    pub fn find(
        arguments: &GlobalArguments,
        environment: &Environment,
    ) -> Result<Self, CommandFailure> {
        let variable = |name: &str| environment.variable(name).map(PathBuf::from);
        let here = environment.working_directory.as_deref();
        let data_directory = arguments
            .data_dir
            .clone()
            .or_else(|| variable("CLEVERAGENTS_DATA_DIR"))
            .or_else(|| Some(environment.home()?.join(".cleveragents")))
            .filter(|path| !path.as_os_str().is_empty())
            .ok_or_else(no_home_failure)?;
        let data_directory = absolute(data_directory, here);
        let config_file = arguments
            .config_path
            .clone()
            .or_else(|| variable("CLEVERAGENTS_CONFIG_PATH"))
            .map_or_else(
                || data_directory.join("config.toml"),
                |path| absolute(path, here),
            );
        let project_file = here.and_then(|here| {
            here.ancestors()
                .map(|folder| folder.join(PROJECT_FILE))
                .find(|file| file.symlink_metadata().is_ok())
        });
        let new_project_file = here.map(|here| {
            let top = here.ancestors().find(|folder| folder.join(".git").exists());
            top.unwrap_or(here).join(PROJECT_FILE)
        });
        Ok(Self {
            data_directory,
            config_file,
            project_file,
            new_project_file,
        })
    }

    /// Fails if the settings file was named on the command line and does not exist. The file that is
    /// used by default may be missing.
    pub fn require_named_file(&self, arguments: &GlobalArguments) -> Result<(), CommandFailure> {
        let is_missing = |path: &Path| {
            let found = path.symlink_metadata();
            found.is_err_and(|error| error.kind() == ErrorKind::NotFound)
        };
        if arguments.config_path.is_none() || !is_missing(&self.config_file) {
            return Ok(());
        }
        let shown = self.config_file.display();
        Err(
            CommandFailure::usage(format!("cannot read the settings in {shown}"))
                .kind(FailureKind::SettingsFile)
                .because("there is no such file")
                // The option is added to the command.
                .hint("agents init"),
        )
    }
}

fn absolute(path: PathBuf, here: Option<&Path>) -> PathBuf {
    match here {
        Some(here) => here.join(path),
        None => path,
    }
}

fn no_home_failure() -> CommandFailure {
    CommandFailure::usage("there is no place to keep data")
        .because("HOME is not set, and neither is a data directory")
        .hint("agents --data-dir DIR …")
        .hint("export CLEVERAGENTS_DATA_DIR=DIR")
}
