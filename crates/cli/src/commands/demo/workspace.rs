//! The temporary folder of the demo, with a home, a data directory and a repository. Nothing of the
//! user is read or written, and the folder is removed when the workspace is dropped.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::arguments::GlobalArguments;
use crate::bootstrap::INHERITED_VARIABLES;
use crate::commands::CommandContext;
use crate::environment::Environment;
use crate::failure::{CommandFailure, ExitCode, FailureKind, display_path};
use crate::files::{Privacy, create_directory, replace};
use crate::process::{find, run_program};
use crate::settings::{Locations, Settings};

/// The author of the commits.
const AUTHOR: (&str, &str) = ("CleverAgents demo", "demo@localhost");

/// The files of the repository.
const REPOSITORY: [(&str, &str); 5] = [
    ("greet.sh", include_str!("repository/greet.sh")),
    ("farewell.sh", include_str!("repository/farewell.sh")),
    ("lib.sh", include_str!("repository/lib.sh")),
    (CONFLICT_FILE, include_str!("repository/settings.conf")),
    ("test.sh", include_str!("repository/test.sh")),
];

/// The file that both a plan and the simulated user edit.
pub(super) const CONFLICT_FILE: &str = "settings.conf";
/// Its content after the simulated edit.
const EDITED_CONTENT: &str = "greeting=hello\n# ours is a small shop\nlimit=12\n";

#[derive(Debug)]
pub(super) struct DemoWorkspace {
    folder: TempDir,
    git: PathBuf,
    environment: Environment,
    arguments: GlobalArguments,
}

impl DemoWorkspace {
    /// Creates the empty folder.
    pub(super) fn create(context: &CommandContext<'_>) -> Result<Self, CommandFailure> {
        let outer = context.environment;
        let git = find("git", outer).ok_or_else(no_git_failure)?;
        let folder = create_temp_folder(outer).map_err(|error| {
            CommandFailure::new(ExitCode::Error, "the demo has no folder to work in")
                .caused_by(&error)
                .hint("export TMPDIR=DIR")
        })?;
        let arguments = GlobalArguments {
            format: None,
            data_dir: Some(folder.path().join("data")),
            config_path: None,
            set: Vec::new(),
            verbose: context.arguments.verbose,
            quiet: context.arguments.quiet,
        };
        Ok(Self {
            environment: isolated_environment(outer, folder.path()),
            folder,
            git,
            arguments,
        })
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    pub(super) fn repository(&self) -> PathBuf {
        self.folder().join("greeter")
    }

    pub(super) fn definitions(&self) -> PathBuf {
        self.folder().join("definitions")
    }

    /// Returns a command context for the workspace.
    pub(super) fn context<'a>(&'a self, outer: &CommandContext<'_>) -> CommandContext<'a> {
        let data_directory = self.data();
        let locations = Locations {
            config_file: data_directory.join("config.toml"),
            data_directory,
            project_file: None,
            new_project_file: None,
        };
        CommandContext {
            command: outer.command.clone(),
            environment: &self.environment,
            watcher: outer.watcher.clone(),
            arguments: &self.arguments,
            settings: Settings::load(locations, &self.arguments, &self.environment),
            lines: outer.lines.clone(),
            format: outer.format,
        }
    }

    /// Creates a small repository with one commit.
    pub(super) fn make_repository(&self) -> Result<(), CommandFailure> {
        let home = self.folder().join("home");
        create_directory(&home, Privacy::Private).map_err(|error| write_failure(&home, &error))?;
        for (name, text) in REPOSITORY {
            write(&self.repository().join(name), text)?;
        }
        self.run_git(&["init", "--quiet", "--template=", "--initial-branch=main"])?;
        self.run_git(&["add", "--all"])?;
        self.run_git(&["commit", "--quiet", "--message", "Greet and say goodbye"])?;
        Ok(())
    }

    /// Writes a definition beside the others and returns its path.
    pub(super) fn write_definition(
        &self,
        name: &str,
        text: &str,
    ) -> Result<PathBuf, CommandFailure> {
        let path = self.definitions().join(name);
        write(&path, text)?;
        Ok(path)
    }

    /// Simulates an uncommitted edit of the user.
    pub(super) fn edit_file(&self) -> Result<(), CommandFailure> {
        write(&self.repository().join(CONFLICT_FILE), EDITED_CONTENT)
    }

    /// Returns whether the simulated edit is unchanged.
    pub(super) fn edit_is_kept(&self) -> bool {
        let found = std::fs::read(self.repository().join(CONFLICT_FILE));
        found.is_ok_and(|found| found == EDITED_CONTENT.as_bytes())
    }

    /// Returns the commits of the repository, newest first: id and subject.
    pub(super) fn commits(&self) -> Result<Vec<(String, String)>, CommandFailure> {
        let said = self.run_git(&["log", "--format=%h %s"])?;
        let commit = |line: &str| {
            let (id, subject) = line.split_once(' ')?;
            Some((id.to_owned(), subject.to_owned()))
        };
        Ok(said.lines().filter_map(commit).collect())
    }

    /// Keeps the folder.
    pub(super) fn keep(self) -> io::Result<()> {
        let _ = self.folder.keep();
        Ok(())
    }

    /// Removes the folder.
    pub(super) fn remove(self) -> io::Result<()> {
        self.folder.close()
    }

    /// Runs git in the repository. Overrides the machine's configuration: no signing, no hooks, and
    /// our author.
    fn run_git(&self, arguments: &[&str]) -> Result<String, CommandFailure> {
        let (name, email) = AUTHOR;
        let repository = self.repository();
        let settings = [
            format!("user.name={name}"),
            format!("user.email={email}"),
            "commit.gpgSign=false".to_owned(),
            "core.hooksPath=/dev/null".to_owned(),
            "core.autocrlf=false".to_owned(),
        ];
        let mut all: Vec<&str> = Vec::new();
        for setting in &settings {
            all.extend(["-c", setting]);
        }
        all.extend(arguments);
        let mut there = self.environment.clone();
        there.working_directory = Some(repository);
        let failed = |why: String| {
            CommandFailure::new(ExitCode::Error, "git cannot make the demo's repository")
                .because(why)
                .hint("agents diagnostics")
        };
        match run_program(&self.git, &all, &there) {
            Ok(said) if said.succeeded => Ok(said.output),
            Ok(said) => Err(failed(said.last_error_line)),
            Err(silence) => Err(failed(silence.to_string())),
        }
    }
}

fn create_temp_folder(environment: &Environment) -> io::Result<TempDir> {
    let place = environment.variable("TMPDIR").map(PathBuf::from);
    let place = place.filter(|it| it.is_absolute());
    let place = place.unwrap_or_else(|| PathBuf::from("/tmp"));
    tempfile::Builder::new()
        .prefix("agents-demo-")
        .rand_bytes(8)
        .permissions(Permissions::from_mode(0o700))
        // Canonical, because that is the path in all records.
        .tempdir_in(place.canonicalize()?)
}

/// Returns the environment of the demo: its own home, and only the variables that commands inherit.
fn isolated_environment(outer: &Environment, folder: &Path) -> Environment {
    let is_inherited = |name: &str| INHERITED_VARIABLES.contains(&name) || name.starts_with("LC_");
    let mut environment = outer.clone();
    environment.variables.retain(|name, _| is_inherited(name));
    let (name, email) = AUTHOR;
    let own: [(&str, OsString); 3] = [
        ("HOME", folder.join("home").into()),
        ("GIT_AUTHOR_NAME", name.into()),
        ("GIT_AUTHOR_EMAIL", email.into()),
    ];
    for (name, value) in own {
        environment.variables.insert(name.to_owned(), value);
    }
    environment.working_directory = Some(folder.to_owned());
    environment
}

fn write(path: &Path, text: &str) -> Result<(), CommandFailure> {
    let folder = path.parent().unwrap_or(path);
    create_directory(folder, Privacy::Shared)
        .and_then(|()| replace(path, text.as_bytes(), Privacy::Shared))
        .map_err(|error| write_failure(path, &error))
}

fn write_failure(path: &Path, error: &io::Error) -> CommandFailure {
    let what = format!("cannot write {}", display_path(path));
    CommandFailure::new(ExitCode::Error, what).caused_by(error)
}

fn no_git_failure() -> CommandFailure {
    CommandFailure::new(ExitCode::Error, "git is needed and was not found")
        .kind(FailureKind::NoGit)
        .because("the demo works on a real repository")
        .hint("install git 2.41 or newer, then `agents diagnostics`")
}
