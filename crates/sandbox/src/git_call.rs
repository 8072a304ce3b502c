//! One call of git: its arguments and options, and how it is started.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use cleveragents_ports::sandbox::{SandboxError, SandboxResult};
use cleveragents_ports::stop::StopSignal;

use crate::files::io_error;
use crate::git::GitSettings;
use crate::git_run::{GitOutput, GitRun};

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

/// Whether the user's own configuration is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConfigAccess {
    Nothing,
    UserConfiguration,
}

/// One call of git, before it starts.
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

impl GitCall {
    /// Only [`Git`](crate::git::Git) creates calls, because it decides in which git directories they
    /// run.
    pub(crate) fn new(settings: Arc<GitSettings>, git_dir: Option<&Path>) -> Self {
        Self {
            settings,
            arguments: Vec::new(),
            git_dir: git_dir.map(Path::to_owned),
            work_tree: None,
            directory: None,
            configuration: Vec::new(),
            options: Vec::new(),
            variables: Vec::new(),
            config_access: ConfigAccess::Nothing,
            stop: StopSignal::new(),
        }
    }

    pub(crate) fn work_tree(mut self, path: &Path) -> Self {
        self.work_tree = Some(path.to_owned());
        self
    }

    /// Sets the folder in which git looks for a repository if none is given.
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

    pub(crate) fn arguments(self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let arguments = arguments.into_iter();
        arguments.fold(self, Self::argument)
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
        self.start()?.output(input)?.into_stdout()
    }

    /// Returns the output as one line of text.
    pub(crate) fn line(self) -> SandboxResult<String> {
        let answer = self.run()?;
        Ok(String::from_utf8_lossy(&answer).trim_end().to_owned())
    }

    /// Runs git and accepts any exit status. Fails if git was killed.
    pub(crate) fn output(self) -> SandboxResult<GitOutput> {
        self.start()?.output(&[])
    }

    /// Starts git. The caller exchanges input and output with it.
    pub(crate) fn start(self) -> SandboxResult<GitRun> {
        let child = self.spawn(self.command(None))?;
        let timeout = self.settings.timeout;
        Ok(GitRun::new(child, self.text(), timeout, self.stop))
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
        // A variable such as `GIT_DIR` would lead git to another repository.
        command.env_clear();
        command.env("PATH", &self.settings.search_path);
        // Some error messages are recognised by their English text.
        command.env("LC_ALL", "C");
        command.env("GIT_TERMINAL_PROMPT", "0");
        // Reading must not take the user's index lock.
        command.env("GIT_OPTIONAL_LOCKS", "0");
        // A partial clone must not fetch objects that it lacks.
        command.env("GIT_NO_LAZY_FETCH", "1");
        // Unlike the setting, this also overrides `protocol.<name>.allow` of a repository.
        command.env("GIT_ALLOW_PROTOCOL", "none");
        // A replaced object would not be the one that its id names.
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
        // A timeout kills git together with its children, by their group.
        command.process_group(0);
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Returns the call for error messages: without our settings, truncated.
    fn text(&self) -> String {
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
}
