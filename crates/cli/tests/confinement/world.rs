//! A small simulated machine: a user with a home, secrets, a repository, and sandboxes of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use cleveragents_cli::arguments::GlobalArguments;
use cleveragents_cli::bootstrap::Bootstrap;
use cleveragents_cli::environment::Environment;
use cleveragents_cli::settings::{Locations, Settings};
use cleveragents_domain::process::{Confinement, Network};
use cleveragents_domain::{AbsolutePath, BaseSource, ResourceType};
use cleveragents_ports::processes::{
    CommandExit, ConfinedCommand, FinishedCommand, ProcessResult, Processes, TreeAccess,
    TruncatedOutput,
};
use cleveragents_ports::sandbox::{NewSandbox, Sandbox};
use cleveragents_ports::stop::StopSignal;
use tempfile::TempDir;

const AGENTS: &str = env!("CARGO_BIN_EXE_agents");

/// The path of our program for a user who cannot access the build folder.
pub(crate) const AGENTS_VARIABLE: &str = "CONFINEMENT_TEST_AGENTS";

#[expect(
    clippy::disallowed_methods,
    reason = "a test that runs as another user is told where our program is"
)]
fn agents_program() -> PathBuf {
    let configured = std::env::var_os(AGENTS_VARIABLE);
    configured.map_or_else(|| PathBuf::from(AGENTS), PathBuf::from)
}

/// The search path of the machine's own programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// The levels that confine.
pub(crate) const LEVELS: [Confinement; 2] = [Confinement::Namespaces, Confinement::Landlock];

/// Longer than any test takes.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(600);

/// Tells a process of this test that it is the owner: at which level, and where.
const OWNER_VARIABLE: &str = "CONFINEMENT_TEST_OWNER";

pub(crate) type EnvironmentVariables = BTreeMap<String, OsString>;

pub(crate) struct ConfinementWorld {
    folder: WorldFolder,
    environment: Environment,
    pub(crate) settings: Settings,
    pub(crate) bootstrap: Bootstrap,
    pub(crate) processes: Box<dyn Processes>,
    pub(crate) sandbox: Box<dyn Sandbox>,
}

/// The folder of a world; only its creator removes it.
enum WorldFolder {
    Temporary(TempDir),
    Existing(PathBuf),
}

impl ConfinementWorld {
    /// Creates a user's machine with one sandbox of the user's repository and another one beside
    /// it.
    pub(crate) fn new(level: Confinement) -> Self {
        Self::with_settings(level, &[])
    }

    pub(crate) fn with_settings(level: Confinement, settings: &[&str]) -> Self {
        Self::new_in(&visible_folder(), level, settings)
    }

    pub(crate) fn new_in(place: &Path, level: Confinement, settings: &[&str]) -> Self {
        Self::with_variables(place, level, settings, |_, _| {})
    }

    /// Like [`new`](Self::new), with an environment changed by `change`, which gets the folder of
    /// this world and may put files there.
    pub(crate) fn with_variables(
        place: &Path,
        level: Confinement,
        settings: &[&str],
        change: impl FnOnce(&Path, &mut EnvironmentVariables),
    ) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("agents-confinement-")
            .tempdir_in(place)
            .unwrap();
        create_files(folder.path());
        let mut environment = environment(&folder.path().join("home"));
        change(folder.path(), &mut environment.variables);
        Self::in_folder(WorldFolder::Temporary(folder), level, settings, environment)
    }

    /// Opens the world that the parent process created.
    pub(crate) fn reopen(level: Confinement, root: &Path) -> Self {
        let environment = environment(&root.join("home"));
        Self::in_folder(
            WorldFolder::Existing(root.to_owned()),
            level,
            &[],
            environment,
        )
    }

    fn in_folder(
        folder: WorldFolder,
        level: Confinement,
        settings: &[&str],
        environment: Environment,
    ) -> Self {
        let root = folder.path();
        let confinement = format!("sandbox.confinement={level}");
        let mut set = vec![confinement];
        for setting in settings {
            set.push(setting.replace("ROOT", root.to_str().unwrap()));
        }
        let arguments = GlobalArguments {
            set,
            ..GlobalArguments::default()
        };
        let locations = Locations::find(&arguments, &environment).unwrap();
        let settings = Settings::load(locations, &arguments, &environment).unwrap();
        let bootstrap = Bootstrap::announce(&settings, &environment, "test").unwrap();
        drop(bootstrap.open().unwrap());
        let processes = bootstrap.processes(&settings, &environment).unwrap();
        let repository = root.join("user");
        let sandbox = make_sandbox(&bootstrap, &environment, &repository, 1);
        let other = make_sandbox(&bootstrap, &environment, &repository, 2);
        write(&other.tree().join("theirs"), "theirs\n");
        Self {
            folder,
            environment,
            settings,
            bootstrap,
            processes,
            sandbox,
        }
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub(crate) fn tree(&self) -> &Path {
        self.sandbox.tree()
    }

    /// Returns the tree of the other sandbox.
    pub(crate) fn other_tree(&self) -> PathBuf {
        let sandboxes = self.bootstrap.directory().join("sandboxes");
        sandboxes.join(id(2)).join("tree")
    }

    /// Returns a command that runs a script in a shell.
    pub(crate) fn command(&self, script: &str) -> ConfinedCommand {
        self.argv_command(&["sh", "-c", script])
    }

    pub(crate) fn argv_command(&self, argv: &[&str]) -> ConfinedCommand {
        ConfinedCommand {
            argv: argv.iter().map(OsString::from).collect(),
            tree: self.tree().to_owned(),
            scratch: self.sandbox.scratch().unwrap(),
            access: TreeAccess::Writable,
            network: Network::Deny,
            timeout: COMMAND_TIMEOUT,
            output_limit: 1 << 20,
            stdin: Vec::new(),
        }
    }

    pub(crate) fn try_run(&self, command: &ConfinedCommand) -> ProcessResult<FinishedCommand> {
        self.processes.prepare(command)?.run(&StopSignal::new())
    }

    #[track_caller]
    pub(crate) fn run(&self, command: &ConfinedCommand) -> FinishedCommand {
        self.try_run(command).unwrap()
    }

    /// Runs a script that must succeed; returns its output.
    #[track_caller]
    pub(crate) fn run_script(&self, script: &str) -> String {
        let finished = self.run(&self.command(script));
        let said = text(&finished.stdout);
        let complaint = text(&finished.stderr);
        assert_eq!(
            finished.exit,
            CommandExit::Exited(0),
            "{script}: {said}{complaint}"
        );
        said
    }

    /// Returns all files that the command must not be able to write, as text.
    pub(crate) fn files_outside_the_tree(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let scratch = self.sandbox.scratch().unwrap();
        list(self.root(), &[self.tree(), &scratch], &mut found);
        found
    }

    /// Returns another process of ours in this environment.
    #[expect(
        clippy::disallowed_methods,
        reason = "tests play the owner, who is another process"
    )]
    pub(crate) fn other_process(&self, program: &Path, level: Confinement) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", PATH);
        command.env(OWNER_VARIABLE, format!("{level} {}", self.root().display()));
        command
    }

    /// Runs our program as a user does.
    pub(crate) fn run_agents(&self, arguments: &[&str]) -> Output {
        self.run_agents_with_path(PATH, arguments)
    }

    pub(crate) fn run_agents_with_path(&self, search_path: &str, arguments: &[&str]) -> Output {
        let mut command = self.other_process(&agents_program(), Confinement::None);
        command
            .env("HOME", self.path("home"))
            .env("PATH", search_path)
            .current_dir(self.root());
        command.args(arguments).output().unwrap()
    }

    pub(crate) fn environment(&self) -> &Environment {
        &self.environment
    }
}

impl WorldFolder {
    fn path(&self) -> &Path {
        match self {
            Self::Temporary(folder) => folder.path(),
            Self::Existing(path) => path,
        }
    }
}

/// Returns the level and folder if this process is an owner in the world of another.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where these tests read their environment"
)]
pub(crate) fn owner_request() -> Option<(Confinement, PathBuf)> {
    let text = std::env::var(OWNER_VARIABLE).ok()?;
    let (level, root) = text.split_once(' ').unwrap();
    Some((level.parse().unwrap(), root.into()))
}

pub(crate) fn text(kept: &TruncatedOutput) -> String {
    let bytes = [&kept.start[..], &kept.end[..]].concat();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns a folder that is visible to commands, unlike those that they get empty.
pub(crate) fn visible_folder() -> PathBuf {
    let built = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let hidden = ["/tmp", "/var/tmp", "/run"];
    if hidden.iter().any(|place| built.starts_with(place)) {
        std::env::home_dir().unwrap()
    } else {
        built
    }
}

fn create_files(root: &Path) {
    let home = root.join("home");
    for (name, content) in [
        (".ssh/id", "SECRET ssh"),
        (".aws/credentials", "SECRET aws"),
        (".gnupg/private", "SECRET gnupg"),
        (".netrc", "SECRET netrc"),
        (".config/gh/hosts.yml", "SECRET gh"),
        (".config/other", "readable"),
        (".env", "SECRET env"),
        (".env.local", "SECRET env.local"),
        (".cargo/registry/cached", "cached"),
        (".cargo/credentials.toml", "SECRET cargo"),
        (".bashrc", "readable"),
        (".zsh_history", "SECRET history"),
        (".m2/settings.xml", "SECRET maven"),
        (".gem/credentials", "SECRET gem"),
        (".claude/session.json", "SECRET session"),
        (".mozilla/profile/logins.json", "SECRET browser"),
    ] {
        write(&home.join(name), content);
    }
    write(&root.join("outside/file"), "outside\n");
    write(&root.join("shown/file"), "shown\n");
    let user = root.join("user");
    write(&user.join("a"), "1\n");
    write(&user.join("dir/b"), "1\n");
    write(&user.join(".gitignore"), ".env*\n");
    for arguments in [
        &["init", "-q", "-b", "main"][..],
        &["add", "-A"],
        &["commit", "-q", "-m", "a commit"],
    ] {
        git(&home, &user, arguments);
    }
    git(&home, &user, &["worktree", "add", "-q", "../linked"]);
    for place in ["user", "user/dir", "linked", "outside", "home/neighbour"] {
        write(&root.join(place).join(".env"), "SECRET project");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "tests play the user, who runs git"
)]
fn git(home: &Path, repository: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .args(arguments)
        .current_dir(repository)
        .env_clear()
        .env("PATH", PATH)
        .env("HOME", home)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_AUTHOR_NAME", "User")
        .env("GIT_AUTHOR_EMAIL", "user@localhost")
        .env("GIT_COMMITTER_NAME", "User")
        .env("GIT_COMMITTER_EMAIL", "user@localhost")
        .status()
        .unwrap();
    assert!(status.success(), "git {arguments:?}");
}

/// Returns the owner's environment, with variables that commands must not get.
fn environment(home: &Path) -> Environment {
    let mut environment = Environment::from_process();
    let variables = [
        ("HOME", home.to_str().unwrap()),
        ("PATH", PATH),
        ("LANG", "C.UTF-8"),
        ("GIT_DIR", "/nonexistent"),
        ("GIT_CONFIG_COUNT", "1"),
        ("DEPLOY_TOKEN", "SECRET token"),
        ("SSH_AUTH_SOCK", "/nonexistent"),
        ("LD_PRELOAD", ""),
    ];
    environment.variables = variables
        .map(|(name, value)| (name.to_owned(), value.into()))
        .into();
    environment.working_directory = Some(home.to_owned());
    environment.executable = Some(agents_program());
    environment
}

fn id(number: u64) -> String {
    format!("01JZZZZZZZ{number:016}")
}

fn make_sandbox(
    bootstrap: &Bootstrap,
    environment: &Environment,
    repository: &Path,
    number: u64,
) -> Box<dyn Sandbox> {
    let sandboxes = bootstrap.sandboxes("git".into(), environment).unwrap();
    let new = NewSandbox {
        id: id(number).parse().unwrap(),
        plan: id(number + 100).parse().unwrap(),
        resource: AbsolutePath::from_bytes(repository.as_os_str().as_bytes()).unwrap(),
        resource_type: ResourceType::GitCheckout,
        base: BaseSource::Head,
        trusted_includes: Vec::new(),
    };
    sandboxes.create(&new).unwrap();
    sandboxes.open(new.id).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a test's file needs no fsync")]
pub(crate) fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn list(folder: &Path, left_out: &[&Path], found: &mut BTreeMap<PathBuf, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if left_out.contains(&path.as_path()) {
            continue;
        }
        let metadata = path.symlink_metadata().unwrap();
        let mode = metadata.permissions().mode();
        let content = if metadata.is_dir() {
            list(&path, left_out, found);
            String::new()
        } else if metadata.is_file() {
            let bytes = fs::read(&path).unwrap();
            blake3::hash(&bytes).to_hex().to_string()
        } else if metadata.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else {
            String::new()
        };
        found.insert(path, format!("{mode:o} {content}"));
    }
}
