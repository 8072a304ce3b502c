//! Compares the program with an earlier version: starting confined commands, and Apply.
//!
//! A start is measured twice: a complete shell call of a plan, and the start alone. For the latter,
//! the command line that the program gives its supervisor is copied from a running command and run
//! again.

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{DATA, command, commit, run, total_cpu_ms, write_file};
use crate::{median, time};

const LEVELS: [&str; 2] = ["namespaces", "landlock"];
/// Shell calls of the measured plan, and of the plan whose cost is subtracted.
const MANY: u32 = 41;
const FEW: u32 = 1;
/// Starts per measurement.
const STARTS: u32 = 40;
/// The number of files in a target repository.
const FILES: usize = 300;
/// The number of repositories a plan changes.
const REPOSITORIES: [usize; 2] = [1, 3];

/// The argument that starts a supervisor, and the start signal it waits for.
const RUN: &[u8] = b"__run";
const START_SIGNAL: u8 = b'g';
/// The exit code of a command that stopped at a gate of its profile.
const GATE_EXIT_CODE: i32 = 5;

/// Milliseconds of wall time and of CPU time.
#[derive(Debug, Clone, Copy)]
struct ProcessCost {
    wall: f64,
    cpu: f64,
}

impl ProcessCost {
    fn measure(work: impl FnOnce()) -> Self {
        let before = total_cpu_ms();
        let wall = time(work);
        Self {
            wall,
            cpu: total_cpu_ms() - before,
        }
    }
}

pub(crate) fn measure_starts(agents: &Path, baseline: &Path, turns: usize) -> Value {
    let mut result = json!({});
    for level in LEVELS {
        let name = format!("a start alone, {level}");
        let (ours, theirs) = (
            SupervisorCommand::new(agents, level),
            SupervisorCommand::new(baseline, level),
        );
        result[level]["start"] =
            measure_alternately(&name, turns, &mut || ours.cost(), &mut || theirs.cost());
        let name = format!("a shell call of a plan, {level}");
        let call = |program: &Path| {
            let (many, few) = (
                measure_execute(program, level, MANY),
                measure_execute(program, level, FEW),
            );
            let calls = f64::from(MANY - FEW);
            ProcessCost {
                wall: (many.wall - few.wall) / calls,
                cpu: (many.cpu - few.cpu) / calls,
            }
        };
        result[level]["call"] =
            measure_alternately(&name, turns, &mut || call(agents), &mut || call(baseline));
    }
    result
}

pub(crate) fn measure_applies(agents: &Path, baseline: &Path, turns: usize) -> Value {
    let mut result = json!({});
    for number in REPOSITORIES {
        let name = format!("apply to {number} of {FILES} files");
        result[number.to_string()] = measure_alternately(
            &name,
            turns,
            &mut || measure_apply(agents, number),
            &mut || measure_apply(baseline, number),
        );
    }
    result
}

/// The command line and environment of a supervisor.
struct SupervisorCommand {
    _home: TempDir,
    arguments: Vec<OsString>,
    variables: Vec<OsString>,
}

impl SupervisorCommand {
    /// Copies it from a running command, in a sandbox that is kept.
    fn new(program: &Path, level: &str) -> Self {
        let home = create_home();
        let repository = create_repository(home.path(), "shop", 1);
        let mut tool = command(program);
        tool.args(["--set", &format!("sandbox.confinement={level}")])
            .args(["tool", "run", "builtin/shell", "--keep", "--input"])
            .arg(r#"{"command": "true; while test ! -e end; do sleep 0.05; done"}"#)
            .arg("--path")
            .arg(&repository)
            .env("HOME", home.path())
            .env("CLEVERAGENTS_DATA_DIR", home.path().join(DATA))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut running = tool.spawn().expect("it runs");
        let supervisor = loop {
            assert!(running.try_wait().expect("a child").is_none(), "it ended");
            match find_supervisor(&running) {
                Some(found) => break found,
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        let arguments = read_null_separated(&supervisor.join("cmdline"));
        let variables = read_null_separated(&supervisor.join("environ"));
        let tree = find_tree(&home.path().join(DATA).join("sandboxes"));
        write_file(&tree.join("end"), "");
        assert!(running.wait().expect("a child").success(), "it failed");
        Self {
            _home: home,
            arguments,
            variables,
        }
    }

    fn cost(&self) -> ProcessCost {
        let all = ProcessCost::measure(|| (0..STARTS).for_each(|_| self.run_once()));
        let each = f64::from(STARTS);
        ProcessCost {
            wall: all.wall / each,
            cpu: all.cpu / each,
        }
    }

    /// Runs the command once and waits for the report.
    fn run_once(&self) {
        let (mut control, theirs) = UnixStream::pair().expect("two sockets");
        let (program, words) = self.arguments.split_first().expect("a command line");
        let mut supervisor = command(program);
        supervisor.args(words).env_clear().current_dir("/");
        for variable in &self.variables {
            let text = variable.to_str().expect("a text");
            let (name, value) = text.split_once('=').expect("a variable");
            supervisor.env(name, value);
        }
        supervisor.process_group(0).stdin(OwnedFd::from(theirs));
        supervisor.stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = supervisor.spawn().expect("it runs");
        // It holds the other socket, whose end we wait for.
        drop(supervisor);
        // No input, then the start signal.
        control.write_all(&[0; 8]).expect("it listens");
        control.write_all(&[START_SIGNAL]).expect("it listens");
        let mut report = Vec::new();
        control.read_to_end(&mut report).expect("it reports");
        assert!(running.wait().expect("a child").success());
        let report: Value = serde_json::from_slice(&report).expect("a report");
        assert_eq!(report, json!({"exited": 0}));
    }
}

/// The folder in `/proc` of the supervisor that a program has started.
fn find_supervisor(program: &Child) -> Option<PathBuf> {
    let entries = fs::read_dir("/proc").expect("readable").flatten();
    let parent = program.id().to_string();
    entries.map(|entry| entry.path()).find(|process| {
        let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
        let fields = stat.rsplit(") ").next().unwrap_or_default();
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        fields.split(' ').nth(1) == Some(&parent)
            && line.split(|byte| *byte == 0).nth(1) == Some(RUN)
    })
}

/// The null-terminated entries of a file in `/proc`.
fn read_null_separated(path: &Path) -> Vec<OsString> {
    let bytes = fs::read(path).expect("readable");
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(&bytes);
    let parts = bytes.split(|byte| *byte == 0);
    parts
        .map(|part| OsString::from_vec(part.to_vec()))
        .collect()
}

/// The tree of the only sandbox.
fn find_tree(sandboxes: &Path) -> PathBuf {
    let mut entries = fs::read_dir(sandboxes).expect("readable").flatten();
    let trees = entries.find_map(|entry| Some(entry.path().join("tree")).filter(|it| it.is_dir()));
    trees.expect("a sandbox")
}

fn create_home() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn create_repository(home: &Path, name: &str, files: usize) -> PathBuf {
    let repository = home.join(name);
    fs::create_dir(&repository).expect("a folder");
    for number in 0..files {
        let path = repository.join(format!("file-{number}.txt"));
        write_file(&path, &"line\n".repeat(40));
    }
    commit(&repository, home);
    repository
}

/// Creates a plan with these steps on new repositories; returns its id.
fn create_plan(program: &Path, home: &Path, number: usize, files: usize, steps: &str) -> String {
    let actor = format!("name: local/worker\ntype: tool\ndescription: Works\nsteps:\n{steps}");
    write_file(&home.join("actor.yaml"), &actor);
    let action = "name: local/work\ndescription: Work\ndefinition_of_done: Done\n\
                  strategy_actor: builtin/direct\nexecution_actor: local/worker\n";
    write_file(&home.join("action.yaml"), action);
    let mut project = command(program);
    project.args(["project", "create", "local/all"]);
    for number in 0..number {
        let path = create_repository(home, &format!("shop-{number}"), files);
        project.arg("--path").arg(path);
    }
    for arguments in [
        ["actor", "add", "--config", "actor.yaml"],
        ["action", "create", "--config", "action.yaml"],
    ] {
        run(command(program).args(arguments).current_dir(home), home);
    }
    run(&mut project, home);
    let mut wanted = command(program);
    wanted
        .args(["plan", "use", "local/work", "local/all"])
        .args(["--automation-profile", "trusted", "--format", "json"]);
    let made: Value = serde_json::from_slice(&run(&mut wanted, home)).expect("an envelope");
    made["data"]["plan_id"].as_str().expect("an id").to_owned()
}

/// Runs a plan to the end of Execute.
fn execute_plan(program: &Path, home: &Path, plan: &str, level: &str) {
    let mut execute = command(program);
    execute
        .args(["--set", &format!("sandbox.confinement={level}")])
        .args(["plan", "execute", plan])
        .env("HOME", home)
        .env("CLEVERAGENTS_DATA_DIR", home.join(DATA));
    let first = execute.output().expect("it runs");
    if first.status.code() == Some(GATE_EXIT_CODE) {
        run(&mut execute, home);
    } else {
        assert!(first.status.success(), "{first:?}");
    }
}

/// Measures a plan with this many shell calls.
fn measure_execute(program: &Path, level: &str, calls: u32) -> ProcessCost {
    let home = create_home();
    let step = "  - {tool: builtin/shell, input: {command: \"true\"}}\n";
    let steps = step.repeat(calls as usize);
    let plan = create_plan(program, home.path(), 1, 1, &steps);
    ProcessCost::measure(|| execute_plan(program, home.path(), &plan, level))
}

/// Measures applying one changed file in each of this many repositories.
fn measure_apply(program: &Path, number: usize) -> ProcessCost {
    let home = create_home();
    let steps: String = (0..number)
        .map(|number| {
            format!(
                "  - {{tool: builtin/file-edit, resource: local/shop-{number}, \
                 input: {{path: file-7.txt, old: line, new: row, all: true}}}}\n"
            )
        })
        .collect();
    let plan = create_plan(program, home.path(), number, FILES, &steps);
    execute_plan(program, home.path(), &plan, "best");
    let mut apply = command(program);
    apply.args(["plan", "apply", &plan, "--yes", "--to", "current"]);
    ProcessCost::measure(|| {
        run(&mut apply, home.path());
    })
}

/// Measures both programs alternately; each goes first in every other turn.
fn measure_alternately(
    name: &str,
    turns: usize,
    ours: &mut dyn FnMut() -> ProcessCost,
    theirs: &mut dyn FnMut() -> ProcessCost,
) -> Value {
    let mut costs: Vec<(ProcessCost, ProcessCost)> = Vec::new();
    // The first turn is a warm-up.
    for turn in 0..=turns {
        let both = match turn % 2 {
            0 => {
                let our = ours();
                (our, theirs())
            }
            _ => {
                let their = theirs();
                (ours(), their)
            }
        };
        if turn > 0 {
            costs.push(both);
        }
    }
    let row = |what: &str, of: fn(&ProcessCost) -> f64| {
        let our = median(costs.iter().map(|(our, _)| of(our)).collect());
        let their = median(costs.iter().map(|(_, their)| of(their)).collect());
        let ratio = median(
            costs
                .iter()
                .map(|(our, their)| of(our) / of(their))
                .collect(),
        );
        println!("{name:<38} {what:<5} {our:>9.2} {their:>9.2} {ratio:>7.2}");
        json!({ "agents_ms": our, "baseline_ms": their, "ratio": ratio })
    };
    json!({ "wall": row("wall", |cost| cost.wall), "cpu": row("cpu", |cost| cost.cpu) })
}
