//! A hermetic environment for running `agents`: its own home, no variables, no terminal, 100
//! columns.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use cleveragents_domain::id::{ID_LENGTH, PlanId};

/// Replaces the random part of paths in snapshots, with the same length.
const ROOT: &str = "/tmp/agents-ROOTROOT";

pub(crate) const AGENTS: &str = env!("CARGO_BIN_EXE_agents");

/// The search path of the machine's own programs.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(crate) struct TestEnvironment {
    root: tempfile::TempDir,
    variables: Vec<(String, OsString)>,
    /// Placeholders in the arguments of cases, for ids that are not known in advance.
    placeholders: BTreeMap<&'static str, String>,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct CliRun {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl TestEnvironment {
    pub(crate) fn new() -> Self {
        // Always the same length, so that boxes around paths have the same width.
        let root = tempfile::Builder::new()
            .prefix("agents-")
            .rand_bytes(8)
            .tempdir_in("/tmp")
            .unwrap();
        std::fs::create_dir(root.path().join("work")).unwrap();
        let home = root.path().as_os_str().to_owned();
        Self {
            root,
            variables: vec![("HOME".to_owned(), home)],
            placeholders: BTreeMap::new(),
        }
    }

    /// Replaces `word` with `id` in the arguments of a case.
    pub(crate) fn define_placeholder(&mut self, word: &'static str, id: &str) {
        self.placeholders.insert(word, id.to_owned());
    }

    /// Returns the arguments with placeholders replaced.
    pub(crate) fn replace_placeholders(&self, arguments: &[&str]) -> Vec<String> {
        let one = |word: &&str| match self.placeholders.get(*word) {
            Some(id) => id.clone(),
            None => (*word).to_owned(),
        };
        arguments.iter().map(one).collect()
    }

    pub(crate) fn set_variable(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.remove_variable(name);
        let value = value.as_ref().to_owned();
        self.variables.push((name.to_owned(), value));
    }

    pub(crate) fn remove_variable(&mut self, name: &str) {
        self.variables.retain(|(other, _)| other != name);
    }

    /// Returns the variables that a process in this environment gets.
    pub(crate) fn variables(&self) -> BTreeMap<String, OsString> {
        self.variables.iter().cloned().collect()
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.path(".cleveragents/config.toml")
    }

    /// Writes a file and creates its directories.
    #[expect(clippy::disallowed_methods, reason = "nobody else reads this file")]
    pub(crate) fn write(&self, relative: &str, content: impl AsRef<[u8]>) {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, path: &Path) -> String {
        std::fs::read_to_string(path).unwrap()
    }

    /// Returns the program, ready to start in the work directory.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        self.other_program(AGENTS, arguments)
    }

    /// Returns any program, ready to start in the same environment.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place of these tests that starts processes"
    )]
    pub(crate) fn other_program<S: AsRef<OsStr>>(&self, program: &str, arguments: &[S]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(self.path("work"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn start<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    /// Runs the program once for each list of arguments, all at the same moment: every process
    /// exists before the first one starts.
    pub(crate) fn run_concurrently<S: AsRef<OsStr>>(&self, commands: &[Vec<S>]) -> Vec<CliRun> {
        let waiting = "read -r go; exec \"$@\"";
        let mut children: Vec<Child> = Vec::with_capacity(commands.len());
        for arguments in commands {
            let mut words = ["-c", waiting, "sh", AGENTS].map(OsStr::new).to_vec();
            words.extend(arguments.iter().map(AsRef::as_ref));
            let mut shell = self.other_program("/bin/sh", &words);
            children.push(shell.stdin(Stdio::piped()).spawn().unwrap());
        }
        let begin: Vec<_> = children.iter_mut().map(|it| it.stdin.take()).collect();
        drop(begin);
        let ended = children.into_iter().map(Child::wait_with_output);
        ended
            .map(|output| CliRun::from_output(output.unwrap()))
            .collect()
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> CliRun {
        CliRun::from_output(self.command(arguments).output().unwrap())
    }

    pub(crate) fn run_with_input<S: AsRef<OsStr>>(&self, arguments: &[S], input: &[u8]) -> CliRun {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        // A program that fails early closes its input; that is allowed.
        let _ = child.stdin.take().unwrap().write_all(input);
        CliRun::from_output(child.wait_with_output().unwrap())
    }

    /// Runs a shell script; `$AGENTS` is our program, `$DATA` the data directory.
    pub(crate) fn shell(&self, prefix: &[&str], script: &str) -> CliRun {
        let shell = [prefix, &["sh", "-c", script]].concat();
        let mut command = self.other_program(shell[0], &shell[1..]);
        command
            .env("AGENTS", AGENTS)
            .env("DATA", self.path(".cleveragents"))
            .env("PATH", PATH);
        CliRun::from_output(command.output().unwrap())
    }

    /// Changes the SQLite file directly.
    pub(crate) fn sql(&self, statements: &str) {
        let script = "import sqlite3, sys\n\
            c = sqlite3.connect(sys.argv[1])\n\
            c.executescript(sys.argv[2])\n\
            c.commit()\n";
        let file = self.path(".cleveragents/cleveragents.db");
        let words = [
            "-c".as_ref(),
            script.as_ref(),
            file.as_os_str(),
            statements.as_ref(),
        ];
        let mut command = self.other_program("python3", &words);
        let output = command.env("PATH", host_path()).output();
        let output = output.unwrap_or_else(|error| panic!("python3 is needed here: {error}"));
        CliRun::from_output(output).succeeded();
    }

    /// Returns every id in the database that was generated in this run.
    pub(crate) fn new_ids(&self) -> BTreeSet<String> {
        let files = ["cleveragents.db", "cleveragents.db-wal"];
        let files = files.map(|name| self.path(".cleveragents").join(name));
        let legal = |byte: &u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
        let mut ids = BTreeSet::new();
        for bytes in files.iter().filter_map(|file| std::fs::read(file).ok()) {
            for word in bytes.split(|byte| !legal(byte)) {
                let text = String::from_utf8(word.to_vec()).unwrap();
                // Fields are adjacent in the file, so an id may start anywhere in a run of letters.
                // Ids of tests start with 01J, current ones with a later letter.
                let today = |at: usize| text.as_bytes().get(at + 2).is_some_and(|b| *b > b'J');
                let starts = text.match_indices("01").map(|(at, _)| at);
                ids.extend(starts.filter(|at| today(*at)).filter_map(|at| {
                    let id = text.get(at..at + ID_LENGTH)?;
                    id.parse::<PlanId>().ok().map(|_| id.to_owned())
                }));
            }
        }
        ids
    }

    /// Replaces everything that differs from run to run.
    pub(crate) fn normalize(&self, text: &str) -> String {
        let text = text.replace(self.root.path().to_str().unwrap(), ROOT);
        let version = concat!("agents ", env!("CARGO_PKG_VERSION"));
        let text = text.replace(version, "agents VERSION");
        let lines = text.lines().map(|line| {
            let name = line.trim_start().trim_start_matches('"');
            let indent = &line[..line.len() - line.trim_start().len()];
            if name.starts_with("started") {
                format!("{indent}(started)")
            } else if name.ends_with(" pages written") {
                name.replace(|c: char| c.is_ascii_digit(), "") // Grows with every command.
            } else if name.starts_with("duration_") {
                format!("{indent}(duration)")
            } else {
                line.to_owned()
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl CliRun {
    pub(crate) fn from_output(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Asserts success.
    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:?}");
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Returns the `PATH` of the test process.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where these tests read their environment"
)]
pub(crate) fn host_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| PATH.into())
}

/// Returns the URL of the PostgreSQL for tests.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where these tests read their environment"
)]
pub(crate) fn postgres_url() -> String {
    match std::env::var("CLEVERAGENTS_TEST_POSTGRES") {
        Ok(url) => url,
        Err(_) => panic!("this test needs PostgreSQL: run `cargo xtask test`, which starts one"),
    }
}
