//! The git of this machine, and the only way to run it.
//!
//! A [`Git`] holds the program and its settings, a [`GitCall`] the arguments and options of one run, a
//! [`GitRun`](crate::git_run::GitRun) the started process. The environment is ours alone: no hooks, no
//! file system monitor, no prompts, no network, no optional locks. Every run ends within the timeout or
//! is killed with its children. A run works in a private git directory ([`Git::private_call`]), in a
//! user's with a command of a closed list ([`Git::user_call`]), or looks for a repository
//! ([`Git::discover`]); there is no other way.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cleveragents_ports::sandbox::{SandboxError, SandboxResult};

use crate::filters::AllowedFilters;
use crate::git_call::GitCall;
use crate::private_dir::PrivateGitDir;
use crate::repository_cache::RepositoryCache;
use crate::scratch::Scratch;
use crate::user_git_command::{UserGitCall, UserGitCommand};

/// The oldest git that can read attributes from a given tree.
const MIN_VERSION: (u32, u32) = (2, 41);

/// Paths that git may use outside the repositories it works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitSettings {
    pub program: PathBuf,
    /// `PATH`, where git finds its own helpers.
    pub search_path: OsString,
    /// The home with the user's configuration, read for the few settings that shape files.
    pub home: PathBuf,
    /// Timeout of one run.
    pub timeout: Duration,
}

#[derive(Debug, Clone)]
pub(crate) struct Git {
    settings: Arc<GitSettings>,
    pub(crate) repositories: RepositoryCache,
    /// Folder for short-lived git directories.
    pub(crate) scratch: Scratch,
    /// Filters whose files may be changed. They are never run, like all others.
    pub(crate) allowed: AllowedFilters,
}

impl Git {
    /// `scratch` is the folder for short-lived folders.
    pub(crate) fn new(settings: GitSettings, scratch: PathBuf) -> Self {
        let program = resolve_program(settings.program, &settings.search_path);
        Self {
            settings: Arc::new(GitSettings {
                program,
                ..settings
            }),
            repositories: RepositoryCache::default(),
            scratch: Scratch::new(scratch),
            allowed: AllowedFilters::default(),
        }
    }

    pub(crate) fn home(&self) -> &Path {
        &self.settings.home
    }

    /// Fails if this git is too old.
    pub(crate) fn check_version(&self) -> SandboxResult<()> {
        let answer = self.call(None, ["version"]).run()?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let found = answer.split_whitespace().nth(2).unwrap_or("unknown");
        let mut numbers = found.split('.').map(|part| part.parse::<u32>().ok());
        let version = (numbers.next().flatten(), numbers.next().flatten());
        if let (Some(major), Some(minor)) = version
            && (major, minor) >= MIN_VERSION
        {
            return Ok(());
        }
        Err(SandboxError::GitTooOld {
            found: found.to_owned(),
            needed: format!("{}.{}", MIN_VERSION.0, MIN_VERSION.1),
        })
    }

    /// Creates a run of any command in a private git directory.
    pub(crate) fn private_call<'a>(
        &self,
        git_dir: &PrivateGitDir,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> GitCall {
        self.call(Some(git_dir), arguments)
    }

    /// Creates a run of a command that starts no program, in a user's git directory.
    pub(crate) fn user_call(&self, git_dir: &Path, command: UserGitCommand<'_>) -> UserGitCall {
        command.call(|arguments| self.call(Some(git_dir), arguments))
    }

    /// Creates a run that asks which repository contains a folder. `options` are those of
    /// `rev-parse`.
    pub(crate) fn discover(&self, folder: &Path, options: &[&str]) -> GitCall {
        self.call(None, ["rev-parse", "--path-format=absolute"])
            .arguments(options)
            .directory(folder)
            // Git reads `safe.directory` only from there.
            .with_user_configuration()
    }

    fn call(
        &self,
        git_dir: Option<&Path>,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> GitCall {
        GitCall::new(Arc::clone(&self.settings), git_dir).arguments(arguments)
    }
}

/// Finds the program on the search path if only a name is given. A program with a path is started
/// without forking a copy of this process first.
fn resolve_program(program: PathBuf, search_path: &OsStr) -> PathBuf {
    if program.components().count() != 1 {
        return program;
    }
    let candidates = std::env::split_paths(search_path).map(|folder| folder.join(&program));
    let runs = |path: &PathBuf| {
        let facts = path.metadata();
        facts.is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
    };
    let mut found = candidates.filter(|path| path.is_absolute() && runs(path));
    found.next().unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use std::io::{self, BufRead, Write};

    use super::*;

    fn git(program: &str, timeout: Duration) -> Git {
        let settings = GitSettings {
            program: program.into(),
            search_path: "/usr/local/bin:/usr/bin:/bin".into(),
            home: "/nonexistent".into(),
            timeout,
        };
        Git::new(settings, "/nonexistent".into())
    }

    #[test]
    fn a_run_that_hangs_is_killed_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("git");
        let script = "#!/bin/sh\nsleep 1000 &\necho sleeping\nwait\n";
        let mut file = std::fs::File::create(&program).unwrap();
        file.write_all(script.as_bytes()).unwrap();
        let mode = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
        file.set_permissions(mode).unwrap();
        drop(file);
        let git = git(program.to_str().unwrap(), Duration::from_millis(300));
        let (mut line, mut ended) = (String::new(), false);
        let answer = git.call(None, ["status"]).start().unwrap().stream(
            |_| Ok(()),
            |pipe| {
                let mut lines = io::BufReader::new(pipe);
                lines.read_line(&mut line)?;
                // The sleeper holds the pipe too, so it closes only when both are dead.
                let rest = io::copy(&mut lines, &mut io::sink());
                ended = rest.is_ok();
                rest
            },
        );
        assert!(
            matches!(answer, Err(SandboxError::TimedOut { .. })),
            "{answer:?}"
        );
        assert_eq!((line.as_str(), ended), ("sleeping\n", true));
    }

    #[test]
    fn a_failure_names_command_status_and_stderr() {
        let git = git("git", Duration::from_secs(60));
        let error = git.call(None, ["rev-parse", "--verify", "nothing"]).run();
        let Err(SandboxError::Git {
            command,
            status,
            stderr,
        }) = error
        else {
            panic!("{error:?}");
        };
        assert_eq!(command, "git rev-parse --verify nothing");
        assert_eq!(status, "exit 128");
        assert!(stderr.contains("not a git repository"), "{stderr}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = git("/nonexistent/git", Duration::from_secs(1)).check_version();
        assert!(
            matches!(error, Err(SandboxError::NoGit { .. })),
            "{error:?}"
        );
        assert_eq!(git("git", Duration::from_secs(60)).check_version(), Ok(()));
    }
}
