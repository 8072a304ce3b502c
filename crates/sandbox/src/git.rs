//! The only place that runs git.
//!
//! A [`Git`] holds the program and its settings; a [`GitCall`] is one run. The environment is ours
//! alone: no hooks, no file system monitor, no prompts, no network, no optional locks. Every run
//! ends within the timeout or is killed with its children. A run works in a private git directory
//! ([`Git::private_call`]), in a user's with a command of a closed list ([`Git::user_call`]), or
//! looks for a repository ([`Git::discover`]); there is no other way.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use cleveragents_ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_ports::stop::StopSignal;

use crate::child_io::{ChildIoLimits, communicate};
use crate::files::io_error;
use crate::filters::AllowedFilters;
use crate::git_session::GitSession;
use crate::private_dir::PrivateGitDir;
use crate::repository_cache::RepositoryCache;
use crate::scratch::Scratch;
use crate::user_git_command::{UserGitCall, UserGitCommand};
use crate::watch::Watch;

/// The oldest git that can read attributes from a given tree.
const MIN_VERSION: (u32, u32) = (2, 41);

/// Maximum size in bytes of output kept in memory.
const MAX_OUTPUT: usize = 512 << 20;

/// Maximum size in bytes of git's error output that is kept.
const MAX_STDERR: usize = 8 << 10;

const SHELL: &str = "/bin/sh";

/// Moves the lock, which arrives as stderr, to descriptor 3 where git does not write, and sends git's
/// errors to its stdout.
const LOCK_HOLDER_SCRIPT: &str = "exec \"$@\" 3>&2 2>&1";

/// Settings that override the configuration of a repository.
const SETTINGS: &[(&str, &str)] = &[
    ("advice.detachedHead", "false"),
    ("advice.sparseIndexExpanded", "false"),
    ("commit.gpgSign", "false"),
    ("core.askPass", ""),
    ("core.attributesFile", "/dev/null"),
    ("core.bigFileThreshold", "100m"),
    ("core.excludesFile", "/dev/null"),
    ("core.filesRefLockTimeout", "20000"),
    ("core.fsmonitor", "false"),
    ("core.fsync", "objects,reference"),
    ("core.fsyncMethod", "batch"),
    ("core.hooksPath", "/dev/null"),
    ("core.logAllRefUpdates", "false"),
    ("core.packedRefsTimeout", "20000"),
    ("core.pager", "cat"),
    ("core.splitIndex", "false"),
    ("core.sshCommand", "false"),
    ("core.untrackedCache", "false"),
    ("credential.helper", ""),
    ("fastimport.unpackLimit", "100"),
    ("gc.auto", "0"),
    // With a sparse index, git adds a path to a folder without expanding it if that path comes last.
    ("index.sparse", "false"),
    ("maintenance.auto", "false"),
    ("protocol.allow", "never"),
    ("submodule.recurse", "false"),
];

/// What git may use outside the repositories it works on.
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
    /// Where short-lived git directories are created.
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
        let answer = self.call(["version"]).run()?;
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
        self.call(arguments).git_dir(git_dir)
    }

    /// Creates a run of a command that starts no program, in a user's git directory.
    pub(crate) fn user_call(&self, git_dir: &Path, command: UserGitCommand<'_>) -> UserGitCall {
        command.call(git_dir, |arguments, git_dir| {
            self.call(arguments).git_dir(git_dir)
        })
    }

    /// Creates a run that asks which repository contains a folder. `options` are those of
    /// `rev-parse`.
    pub(crate) fn discover(&self, folder: &Path, options: &[&str]) -> GitCall {
        let call = self.call(["rev-parse", "--path-format=absolute"]);
        let call = options.iter().fold(call, |call, it| call.argument(it));
        call.directory(folder).with_user_configuration()
    }

    /// Creates a run with these arguments. The builder methods set directory and repository.
    fn call<I: IntoIterator<Item: AsRef<OsStr>>>(&self, arguments: I) -> GitCall {
        let arguments = arguments.into_iter();
        GitCall {
            settings: Arc::clone(&self.settings),
            arguments: arguments.map(|it| it.as_ref().to_owned()).collect(),
            git_dir: None,
            work_tree: None,
            directory: None,
            configuration: Vec::new(),
            options: Vec::new(),
            variables: Vec::new(),
            config_access: ConfigAccess::Nothing,
            stop: StopSignal::new(),
        }
    }
}

/// Whether the user's own configuration is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConfigAccess {
    Nothing,
    UserConfiguration,
}

/// One run of git, before it starts.
#[derive(Debug)]
pub(crate) struct GitCall {
    settings: Arc<GitSettings>,
    arguments: Vec<OsString>,
    git_dir: Option<PathBuf>,
    work_tree: Option<PathBuf>,
    directory: Option<PathBuf>,
    configuration: Vec<OsString>,
    options: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    config_access: ConfigAccess,
    stop: StopSignal,
}

/// The result of a run, successful or not.
#[derive(Debug)]
pub(crate) struct GitOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl GitCall {
    fn git_dir(mut self, path: &Path) -> Self {
        self.git_dir = Some(path.to_owned());
        self
    }

    pub(crate) fn work_tree(mut self, path: &Path) -> Self {
        self.work_tree = Some(path.to_owned());
        self
    }

    /// Where git looks for a repository if none is given.
    pub(crate) fn directory(mut self, path: &Path) -> Self {
        self.directory = Some(path.to_owned());
        self
    }

    pub(crate) fn index(self, path: &Path) -> Self {
        self.variable("GIT_INDEX_FILE", path)
    }

    /// Sets the only tree from which attributes are read.
    pub(crate) fn attributes_of(self, tree: &str) -> Self {
        self.variable("GIT_ATTR_SOURCE", tree)
    }

    pub(crate) fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.into(), value.as_ref().into()));
        self
    }

    pub(crate) fn setting(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        let mut setting = OsString::from(key);
        setting.push("=");
        setting.push(value);
        self.configuration.push(setting);
        self
    }

    pub(crate) fn settings<'a>(
        self,
        settings: impl IntoIterator<Item = &'a (String, String)>,
    ) -> Self {
        let settings = settings.into_iter();
        settings.fold(self, |call, (key, value)| call.setting(key, value))
    }

    /// Adds an option of git itself, before the command.
    pub(crate) fn option(mut self, option: &str) -> Self {
        self.options.push(option.into());
        self
    }

    pub(crate) fn argument(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Also reads the user's configuration files. Only for commands that run no configured program.
    pub(crate) fn with_user_configuration(mut self) -> Self {
        self.config_access = ConfigAccess::UserConfiguration;
        self
    }

    /// Kills the run when `stop` is signalled.
    pub(crate) fn with_stop(mut self, stop: &StopSignal) -> Self {
        self.stop = stop.clone();
        self
    }

    /// Runs git and returns its output. Fails unless git succeeds.
    pub(crate) fn run(self) -> SandboxResult<Vec<u8>> {
        self.run_with(&[])
    }

    pub(crate) fn run_with(self, input: &[u8]) -> SandboxResult<Vec<u8>> {
        let command = self.command_text();
        let ended = self.output_with(input)?;
        check_success(&command, ended.status, &ended.stderr)?;
        Ok(ended.stdout)
    }

    /// Returns the output as one line of text.
    pub(crate) fn line(self) -> SandboxResult<String> {
        let answer = self.run()?;
        Ok(String::from_utf8_lossy(&answer).trim_end().to_owned())
    }

    /// Runs git and accepts any exit status. Fails if git was killed.
    pub(crate) fn output(self) -> SandboxResult<GitOutput> {
        self.output_with(&[])
    }

    /// Returns the output as one line of text, or `None` if git says no by exit code 1.
    pub(crate) fn optional_line(self) -> SandboxResult<Option<String>> {
        let command = self.command_text();
        let ended = self.output()?;
        match ended.status.code() {
            Some(0) => {
                let line = String::from_utf8_lossy(&ended.stdout);
                Ok(Some(line.trim_end().to_owned()))
            }
            Some(1) => Ok(None),
            _ => Err(exit_error(&command, ended.status, &ended.stderr)),
        }
    }

    fn output_with(self, input: &[u8]) -> SandboxResult<GitOutput> {
        let command = self.command_text();
        let timeout = self.settings.timeout;
        let limits = ChildIoLimits {
            stdout: MAX_OUTPUT,
            stderr: MAX_STDERR,
            timeout,
        };
        let exchanged = communicate(self.start()?, input, limits, &self.stop);
        let Some(ended) = exchanged.map_err(|error| git_io_error(&command, error))? else {
            return Err(self.kill_error());
        };
        if ended.stdout.len() > MAX_OUTPUT {
            let limit = MAX_OUTPUT;
            return Err(SandboxError::TooMuchOutput { command, limit });
        }
        check_input_written(&command, ended.input_result, ended.status)?;
        let stderr = String::from_utf8_lossy(&ended.stderr);
        if ended.status.code().is_none() {
            return Err(exit_error(&command, ended.status, stderr.trim_end()));
        }
        Ok(GitOutput {
            status: ended.status,
            stdout: ended.stdout,
            stderr: stderr.trim_end().to_owned(),
        })
    }

    /// Runs git with a thread that writes its input while this thread reads its output. Returns the
    /// result of `read`. Fails unless git succeeds.
    pub(crate) fn stream<T>(
        self,
        write: impl FnOnce(&mut ChildStdin) -> io::Result<()> + Send,
        read: impl FnOnce(&mut ChildStdout) -> io::Result<T>,
    ) -> SandboxResult<T> {
        let command = self.command_text();
        let (value, status, stderr) = self.stream_output(write, read)?;
        check_success(&command, status, &stderr)?;
        Ok(value)
    }

    fn stream_output<T>(
        self,
        write: impl FnOnce(&mut ChildStdin) -> io::Result<()> + Send,
        read: impl FnOnce(&mut ChildStdout) -> io::Result<T>,
    ) -> SandboxResult<(T, ExitStatus, String)> {
        let command = self.command_text();
        let timeout = self.settings.timeout;
        let mut child = self.start()?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(mut stdout), Some(stderr)) = (stdin, stdout, stderr) else {
            return Err(git_io_error(&command, "its pipes are missing"));
        };
        let watch = Watch::new(&child);
        let (value, written, complaint, status) = thread::scope(|scope| {
            let (done, waiting) = mpsc::channel::<()>();
            let watch = &watch;
            let stop = &self.stop;
            scope.spawn(move || watch.kill_after(timeout, stop, &waiting));
            let writer = scope.spawn(move || write(&mut stdin));
            let complaints = scope.spawn(move || read_stderr(stderr));
            let value = read(&mut stdout);
            drop(stdout);
            let status = watch.reap(&mut child);
            drop(done);
            let written = writer.join().unwrap_or(Ok(()));
            let complaint = complaints.join().unwrap_or_default();
            (value, written, complaint, status)
        });
        if watch.has_killed() {
            return Err(self.kill_error());
        }
        let status = status.map_err(|error| git_io_error(&command, error))?;
        check_input_written(&command, written, status)?;
        match value {
            Ok(value) => Ok((value, status, complaint)),
            Err(_) if !status.success() => Err(exit_error(&command, status, &complaint)),
            Err(error) => Err(git_io_error(&command, error)),
        }
    }

    fn kill_error(&self) -> SandboxError {
        match self.stop.check() {
            Err(why) => SandboxError::Stopped(why),
            Ok(()) => SandboxError::TimedOut {
                command: self.command_text(),
                seconds: self.settings.timeout.as_secs(),
            },
        }
    }

    /// Starts a run that answers several requests.
    pub(crate) fn start_session(self) -> SandboxResult<GitSession> {
        let mut child = self.start()?;
        let command = self.command_text();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        // Not read: if the session fails, the run that replaces it reports the same error.
        drop(child.stderr.take());
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(git_io_error(&command, "its pipes are missing"));
        };
        Ok(GitSession::new(child, stdin, stdout, self.settings.timeout))
    }

    /// Starts an interactive run that holds `lock` open as long as it lives. Its error output is
    /// mixed into its stdout.
    ///
    /// This process never has an inheritable descriptor of the lock, because children that other
    /// threads start at the same moment would inherit it too. The child gets the lock as a standard
    /// stream, which only it receives, and a shell moves that out of git's way.
    pub(crate) fn start_with_lock(&self, lock: &File) -> SandboxResult<Child> {
        let lock = lock.try_clone().map_err(io_error(Path::new("/dev/fd")))?;
        let mut command = self.command(Some(LOCK_HOLDER_SCRIPT));
        command.stderr(lock);
        self.spawn(command)
    }

    /// Returns the command for error messages: without our settings, truncated.
    fn command_text(&self) -> String {
        let mut text = String::from("git");
        for argument in &self.arguments {
            text.push(' ');
            text.push_str(&argument.to_string_lossy());
        }
        match text.char_indices().nth(200) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        }
    }

    fn start(&self) -> SandboxResult<Child> {
        self.spawn(self.command(None))
    }

    fn spawn(&self, mut command: Command) -> SandboxResult<Child> {
        command.spawn().map_err(|error| SandboxError::NoGit {
            program: self.settings.program.clone(),
            reason: error.to_string(),
        })
    }

    /// Builds the command with pipes for its streams. If `script` is given, a shell runs it to
    /// start git.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that starts git, with nothing of the environment"
    )]
    fn command(&self, script: Option<&str>) -> Command {
        let mut command = match script {
            None => Command::new(&self.settings.program),
            Some(script) => {
                let mut command = Command::new(SHELL);
                command.args(["-c", script, "git"]);
                command.arg(&self.settings.program);
                command
            }
        };
        command.env_clear();
        command.env("PATH", &self.settings.search_path);
        command.env("LC_ALL", "C");
        command.env("GIT_TERMINAL_PROMPT", "0");
        command.env("GIT_OPTIONAL_LOCKS", "0");
        command.env("GIT_NO_LAZY_FETCH", "1");
        // Unlike the setting, this also overrides `protocol.<name>.allow` of a repository.
        command.env("GIT_ALLOW_PROTOCOL", "none");
        command.env("GIT_NO_REPLACE_OBJECTS", "1");
        match self.config_access {
            ConfigAccess::UserConfiguration => command.env("HOME", &self.settings.home),
            ConfigAccess::Nothing => command
                .env("HOME", "/dev/null")
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .env("GIT_CONFIG_GLOBAL", "/dev/null"),
        };
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.arg("--no-pager");
        for (key, value) in SETTINGS {
            command.arg("-c").arg(format!("{key}={value}"));
        }
        for setting in &self.configuration {
            command.arg("-c").arg(setting);
        }
        let from = |name: &str, path: &Path| {
            let mut argument = OsString::from(name);
            argument.push(path);
            argument
        };
        if let Some(git_dir) = &self.git_dir {
            command.arg(from("--git-dir=", git_dir));
        }
        if let Some(work_tree) = &self.work_tree {
            command.arg(from("--work-tree=", work_tree));
        }
        let directory = self.directory.as_ref().or(self.git_dir.as_ref());
        command.current_dir(directory.map_or(Path::new("/"), PathBuf::as_path));
        command.args(&self.options).args(&self.arguments);
        command.process_group(0);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
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

fn read_stderr(mut stderr: impl Read) -> String {
    let mut kept = Vec::new();
    // Output above the limit must be read too, or git would block on the full pipe.
    let _ = (&mut stderr).take(MAX_STDERR as u64).read_to_end(&mut kept);
    let _ = io::copy(&mut stderr, &mut io::sink());
    String::from_utf8_lossy(&kept).trim_end().to_owned()
}

/// A git that ends early closes its input. Its own error message says more than a broken pipe.
fn check_input_written(
    command: &str,
    written: io::Result<()>,
    status: ExitStatus,
) -> SandboxResult<()> {
    match written {
        Err(error) if status.success() || error.kind() != io::ErrorKind::BrokenPipe => {
            Err(git_io_error(command, error))
        }
        _ => Ok(()),
    }
}

fn check_success(command: &str, status: ExitStatus, stderr: &str) -> SandboxResult<()> {
    if status.success() {
        Ok(())
    } else {
        Err(exit_error(command, status, stderr))
    }
}

fn exit_error(command: &str, status: ExitStatus, stderr: &str) -> SandboxError {
    let status = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit status".to_owned(),
    };
    SandboxError::Git {
        command: command.to_owned(),
        status,
        stderr: stderr.to_owned(),
    }
}

fn git_io_error(command: &str, error: impl ToString) -> SandboxError {
    SandboxError::Git {
        command: command.to_owned(),
        status: "no answer".to_owned(),
        stderr: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, Write};

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
        let answer = git.call(["status"]).stream(
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
        let error = git.call(["rev-parse", "--verify", "nothing"]).run();
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
