//! A small simulated machine: a home, a repository of the user, and our program.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use cleveragents_cli::arguments::GlobalArguments;
use cleveragents_cli::bootstrap::Bootstrap;
use cleveragents_cli::environment::Environment;
use cleveragents_cli::settings::{Locations, Settings};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const AGENTS: &str = env!("CARGO_BIN_EXE_agents");

/// The search path of the machine's own programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The initial content of `a` in every repository.
pub(crate) const BASE: &str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";

/// Continues into Execute without approval and asks before Apply.
pub(crate) const TRUSTED: &str = "trusted";

pub(crate) struct TestWorld {
    root: TempDir,
    /// The author of commits, if the environment names one.
    pub(crate) author: Option<(&'static str, &'static str)>,
    /// The database URL, unless it is SQLite in the data directory.
    database: Option<String>,
    /// The user's home, with the data directory in it.
    home: &'static str,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct AgentsRun {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl TestWorld {
    /// A user with the repository `shop`, which is the project `local/shop`.
    pub(crate) fn new() -> Self {
        let world = Self::empty();
        world.create_repository("shop");
        world.create_project("shop", &["shop"]);
        world
    }

    pub(crate) fn empty() -> Self {
        let root = tempfile::Builder::new().prefix("agents-work-").tempdir();
        let world = Self {
            root: root.unwrap(),
            author: None,
            database: None,
            home: "home",
        };
        fs::create_dir_all(world.path("home")).unwrap();
        world
    }

    /// Sets the database URL.
    pub(crate) fn with_database(self, database: String) -> Self {
        Self {
            database: Some(database),
            ..self
        }
    }

    /// Switches to another machine, which shares the database but none of our files.
    pub(crate) fn switch_home(&mut self, home: &'static str) {
        self.home = home;
        fs::create_dir_all(self.path(home)).unwrap();
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    /// Creates a repository with some files and one commit.
    pub(crate) fn create_repository(&self, name: &str) {
        self.write(&format!("{name}/a"), "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
        self.write(&format!("{name}/dir/b"), "one\n");
        self.write(&format!("{name}/run.sh"), "#!/bin/sh\n");
        self.set_mode(&format!("{name}/run.sh"), 0o755);
        let folder = self.path(name);
        self.git(&folder, &["init", "-q", "-b", "main"]);
        self.commit(name, "a commit");
    }

    /// Creates a folder that is not a repository.
    pub(crate) fn create_folder(&self, name: &str) {
        self.write(&format!("{name}/a"), "1\n2\n3\n");
        self.write(&format!("{name}/dir/b"), "one\n");
    }

    /// Creates a project with resources named after their folders.
    pub(crate) fn create_project(&self, name: &str, resources: &[&str]) {
        let mut words = vec!["project".to_owned(), "create".to_owned(), name.to_owned()];
        for resource in resources {
            words.push("--path".to_owned());
            words.push(self.path(resource).display().to_string());
        }
        self.run(&words).succeeded();
    }

    pub(crate) fn commit(&self, repository: &str, message: &str) {
        let folder = self.path(repository);
        self.git(&folder, &["add", "-A"]);
        self.git(&folder, &["commit", "-q", "-m", message]);
    }

    /// Runs git, which must succeed; returns its output.
    #[track_caller]
    pub(crate) fn git(&self, folder: &Path, arguments: &[&str]) -> String {
        self.try_git(folder, arguments).succeeded().stdout
    }

    pub(crate) fn try_git(&self, folder: &Path, arguments: &[&str]) -> AgentsRun {
        let mut command = self.program("git", arguments);
        command
            .current_dir(folder)
            .env("GIT_AUTHOR_NAME", "User")
            .env("GIT_AUTHOR_EMAIL", "user@localhost")
            .env("GIT_COMMITTER_NAME", "User")
            .env("GIT_COMMITTER_EMAIL", "user@localhost");
        AgentsRun::from_output(command.output().unwrap())
    }

    #[expect(clippy::disallowed_methods, reason = "a test's file needs no fsync")]
    pub(crate) fn write(&self, relative: &str, content: &str) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, relative: &str) -> String {
        fs::read_to_string(self.path(relative)).unwrap()
    }

    pub(crate) fn set_mode(&self, relative: &str, mode: u32) {
        fs::set_permissions(self.path(relative), fs::Permissions::from_mode(mode)).unwrap();
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one place of these tests that starts processes"
    )]
    fn program<S: AsRef<OsStr>>(&self, program: impl AsRef<OsStr>, arguments: &[S]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.path(self.home))
            .env("PATH", PATH)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .current_dir(self.path("home"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Returns another program, ready to start in the same clean environment.
    pub(crate) fn other_program(&self, program: &Path, arguments: &[&str]) -> Command {
        self.program(program, arguments)
    }

    /// Returns our program, ready to start.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = self.program(AGENTS, arguments);
        if let Some(url) = &self.database {
            command.env("CLEVERAGENTS_DATABASE_URL", url);
        }
        if let Some((name, email)) = self.author {
            command
                .env("GIT_AUTHOR_NAME", name)
                .env("GIT_AUTHOR_EMAIL", email);
        }
        command
    }

    pub(crate) fn start<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> AgentsRun {
        AgentsRun::from_output(self.command(arguments).output().unwrap())
    }

    /// Returns the program's own access to its data, for tests that write to it.
    pub(crate) fn bootstrap(&self) -> Bootstrap {
        let home = self.path(self.home);
        let environment = Environment {
            arguments: Vec::new(),
            variables: BTreeMap::from([
                ("HOME".to_owned(), home.into_os_string()),
                ("PATH".to_owned(), PATH.into()),
            ]),
            ..Environment::from_process()
        };
        let arguments = GlobalArguments::default();
        let locations = Locations::find(&arguments, &environment).unwrap();
        let settings = Settings::load(locations, &arguments, &environment).unwrap();
        Bootstrap::announce(&settings, &environment, "a test").unwrap()
    }

    /// Runs a command with `--format json`.
    pub(crate) fn run_json(&self, arguments: &[&str]) -> AgentsRun {
        self.run(&[arguments, &["--format", "json"]].concat())
    }

    /// Returns the data of a command that must succeed.
    #[track_caller]
    pub(crate) fn json_data(&self, arguments: &[&str]) -> Value {
        self.run_json(arguments).succeeded().data()
    }

    /// Defines `local/worker` with these `steps:` and any keys after them.
    pub(crate) fn define_worker(&self, steps: &str) {
        let text = format!(
            "name: local/worker\ntype: tool\ndescription: Works\nsteps:\n{}",
            indent(steps)
        );
        self.write("home/worker.yaml", &text);
        self.run(&["actor", "add", "--config", "worker.yaml", "--update"])
            .succeeded();
    }

    /// Defines `local/job` for the worker, with more keys.
    pub(crate) fn define_worker_job(&self, more: &str) {
        self.define_job("local/worker", more);
    }

    pub(crate) fn define_job(&self, actor: &str, more: &str) {
        let text = format!(
            "name: local/job\ndescription: Do the job\nstrategy_actor: builtin/direct\n\
             execution_actor: {actor}\ndefinition_of_done: It is done\n{more}"
        );
        self.write("home/job.yaml", &text);
        self.run(&["action", "create", "--config", "job.yaml", "--update"])
            .succeeded();
    }

    /// Defines a profile that continues into Execute without approval, with these guards and
    /// limits.
    pub(crate) fn define_profile(&self, name: &str, more: &str) {
        let text = format!(
            "name: {name}\ndescription: Guarded\n\
             thresholds:\n  decompose_task: 0.0\n  create_tool: 0.0\n  select_tool: 0.0\n  \
             edit_code: 0.0\n  execute_command: 0.0\n  create_file: 0.0\n  delete_content: 0.0\n  \
             access_network: 0.0\n  install_dependency: 0.0\n  modify_config: 0.0\n  \
             approve_plan: 0.0\n\
             require_sandbox: true\nrequire_checkpoints: true\nallow_unsafe_tools: false\n{more}"
        );
        self.write("home/profile.yaml", &text);
        let add = ["automation-profile", "add", "--config", "profile.yaml"];
        self.run(&[&add[..], &["--update"]].concat()).succeeded();
    }

    /// Creates a plan of the job on `shop`.
    #[track_caller]
    pub(crate) fn create_plan(&self, profile: &str) -> String {
        self.create_plan_for("shop", profile, &[])
    }

    #[track_caller]
    pub(crate) fn create_plan_for(&self, project: &str, profile: &str, more: &[&str]) -> String {
        let words = ["plan", "use", "job", project, "--automation-profile"];
        let made = self.json_data(&[&words[..], &[profile], more].concat());
        made["plan_id"].as_str().unwrap().to_owned()
    }

    pub(crate) fn execute(&self, plan: &str) -> AgentsRun {
        self.run_json(&["plan", "execute", plan])
    }

    pub(crate) fn apply(&self, plan: &str) -> AgentsRun {
        self.run_json(&["plan", "apply", plan])
    }

    /// Creates and executes a plan with these steps.
    #[track_caller]
    pub(crate) fn create_executed_plan(&self, steps: &str) -> String {
        self.define_worker(steps);
        self.define_worker_job("");
        let plan = self.create_plan(TRUSTED);
        self.execute(&plan)
            .succeeded()
            .reports_state("execute/complete");
        plan
    }

    pub(crate) fn state(&self, plan: &str) -> String {
        phase_and_state(&self.json_data(&["plan", "status", plan]))
    }

    /// Returns the plan's journal, after verifying it.
    #[track_caller]
    pub(crate) fn events(&self, plan: &str) -> Vec<Value> {
        let verified = self.json_data(&["plan", "verify", plan]);
        assert_eq!(verified["verified"], true, "{verified}");
        let log = self.json_data(&["plan", "log", plan]);
        let events = log["events"].as_array().unwrap().clone();
        let places = events.iter().map(|it| it["plan_seq"].as_u64().unwrap());
        assert!(places.eq(1..=events.len() as u64), "{log}");
        events
    }

    #[track_caller]
    pub(crate) fn events_of_kind(&self, plan: &str, kind: &str) -> Vec<Value> {
        let events = self.events(plan).into_iter();
        events.filter(|it| it["kind"] == kind).collect()
    }

    /// Returns the messages of the plan's errors.
    #[track_caller]
    pub(crate) fn errors(&self, plan: &str) -> Vec<String> {
        let data = self.json_data(&["plan", "errors", plan]);
        let errors = data["errors"].as_array().unwrap().iter();
        errors
            .map(|it| it["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// Returns the trees of the plan's sandboxes, in the order of its resources.
    pub(crate) fn sandbox_trees(&self, plan: &str) -> Vec<PathBuf> {
        let intended = self.events_of_kind(plan, "sandbox_intended").into_iter();
        let id = |it: Value| it["payload"]["sandbox_id"].as_str().unwrap().to_owned();
        let folder = self.path("home/.cleveragents/sandboxes");
        intended
            .map(|it| folder.join(id(it)).join("tree"))
            .collect()
    }

    /// Returns the tree of the plan's only sandbox.
    #[track_caller]
    pub(crate) fn sandbox_tree(&self, plan: &str) -> PathBuf {
        let trees = self.sandbox_trees(plan);
        assert_eq!(trees.len(), 1);
        trees[0].clone()
    }

    /// Returns the files of the plan's only sandbox, as text by path.
    #[track_caller]
    pub(crate) fn sandbox_files(&self, plan: &str) -> BTreeMap<String, String> {
        listing(&self.sandbox_tree(plan))
    }

    /// Returns every file of the user except git's own, by path.
    pub(crate) fn files(&self, name: &str) -> BTreeMap<String, String> {
        listing(&self.path(name))
    }

    /// Returns the number of commits of the checked-out branch.
    pub(crate) fn commits(&self, repository: &str) -> usize {
        let counted = self.git(&self.path(repository), &["rev-list", "--count", "HEAD"]);
        counted.trim().parse().unwrap()
    }

    /// Returns git's status of uncommitted changes.
    pub(crate) fn git_status(&self, repository: &str) -> String {
        let status = ["status", "--porcelain", "--untracked-files=all"];
        self.git(&self.path(repository), &status)
    }
}

impl AgentsRun {
    pub(crate) fn from_output(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        self.exits(0)
    }

    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }

    /// Returns the envelope's data; with `--events`, that of the last line.
    #[track_caller]
    pub(crate) fn data(&self) -> Value {
        let whole: Result<Value, _> = serde_json::from_str(&self.stdout);
        let last = self.stdout.lines().last().unwrap_or_default();
        let envelope = whole.or_else(|_| serde_json::from_str(last));
        let mut envelope = envelope.unwrap_or_else(|error| panic!("{error}: {self:?}"));
        envelope["data"].take()
    }

    /// Asserts the plan's state in the answer.
    #[track_caller]
    pub(crate) fn reports_state(self, position: &str) -> Self {
        assert_eq!(phase_and_state(&self.data()), position, "{self:?}");
        self
    }

    /// Asserts that the output contains this text.
    #[track_caller]
    pub(crate) fn prints(self, words: &str) -> Self {
        let said = self.stdout.contains(words) || self.stderr.contains(words);
        assert!(said, "{words:?} is not said: {self:?}");
        self
    }
}

fn phase_and_state(data: &Value) -> String {
    let text = |key: &str| data[key].as_str().unwrap_or("?").to_owned();
    format!("{}/{}", text("phase"), text("state"))
}

/// Returns every file and link below a folder with its mode and content, except git's own.
pub(crate) fn listing(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    list(folder, folder, &mut found);
    found
}

fn list(top: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name() == Some(OsStr::new(".git")) {
            continue;
        }
        let metadata = path.symlink_metadata().unwrap();
        if metadata.is_dir() {
            list(top, &path, found);
            continue;
        }
        let content = if metadata.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else {
            String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned()
        };
        let name = path.strip_prefix(top).unwrap().display().to_string();
        let executable = metadata.permissions().mode() & 0o111;
        found.insert(name, format!("{executable:o} {content}"));
    }
}

/// Indents each line by two columns, except one that starts its own key.
fn indent(steps: &str) -> String {
    let lines = steps.lines().map(|line| {
        if line.starts_with("fix:") {
            format!("{line}\n")
        } else {
            format!("  {line}\n")
        }
    });
    lines.collect()
}

/// Returns how many of `all` trials a test makes: all of them in the stress run.
pub(crate) fn trials(all: usize) -> usize {
    if is_stress() { all * 10 } else { all }
}

/// Returns whether this is the stress run.
#[expect(
    clippy::disallowed_methods,
    reason = "the stress run says by this how thorough to be"
)]
pub(crate) fn is_stress() -> bool {
    let percent = std::env::var("CLEVERAGENTS_TRIALS").ok();
    let percent = percent.and_then(|text| text.parse::<usize>().ok());
    percent.is_some_and(|percent| percent >= 100)
}

/// Returns the part of an id that hints show.
pub(crate) fn short_id(id: &str) -> String {
    id[id.len() - 8..].to_lowercase()
}
