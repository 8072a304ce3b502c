//! Runs our program and kills it at a given step of an apply.
//!
//! The test binary starts itself again with a single test, which runs the whole program with a
//! watcher. The watcher records each step and kills the process with SIGKILL at the given one.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cleveragents_cli::bootstrap::{ApplyStep, Watcher};
use cleveragents_cli::environment::Environment;
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};

use crate::event_follower::wait_until_true;
use crate::world::{AGENTS, AgentsRun, TestWorld};

const JOB_VARIABLE: &str = "CLEVERAGENTS_TEST_JOB";

/// The outcome of the program and the steps that it reached.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KilledRun {
    pub(crate) killed: bool,
    pub(crate) steps: Vec<ApplyStep>,
}

#[derive(Debug)]
struct StepKiller {
    trace: PathBuf,
    /// The number of the step to stop at; 0 for none.
    last: usize,
    reached: AtomicUsize,
    signal: KillSignal,
}

/// The signal that the process sends to itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KillSignal {
    Kill,
    /// Stopped as by Ctrl-Z, until it is continued or killed.
    Stop,
}

impl Watcher for StepKiller {
    fn reached(&self, step: ApplyStep) {
        let mut options = OpenOptions::new();
        let mut trace = options.append(true).create(true).open(&self.trace).unwrap();
        writeln!(trace, "{}", step.as_str()).unwrap();
        if self.reached.fetch_add(1, Ordering::Relaxed) + 1 == self.last {
            let signal = match self.signal {
                KillSignal::Kill => Signal::KILL,
                KillSignal::Stop => Signal::STOP,
            };
            kill_process(getpid(), signal).unwrap();
            // A signal to the own process is delivered before the call returns.
            assert_eq!(self.signal, KillSignal::Stop, "killed");
        }
    }
}

fn watched_command(world: &TestWorld, words: &[&str], step: usize, ending: KillSignal) -> Command {
    let (job, trace) = (world.path("job.json"), world.path("trace"));
    let _ = fs::remove_file(&trace);
    let stops = ending == KillSignal::Stop;
    let job_text = json!({ "words": words, "step": step, "trace": trace, "stops": stops });
    world.write("job.json", &job_text.to_string());
    let program = std::env::current_exe().unwrap();
    let arguments = ["--exact", "kill_at_step::helper_process_dies_at_its_step"];
    let mut command = world.other_program(&program, &arguments);
    command.env(JOB_VARIABLE, &job);
    command
}

/// Runs a command that stops itself at this step, as by Ctrl-Z. Returns once it has stopped.
pub(crate) fn stop_at_step(world: &TestWorld, words: &[&str], step: usize) -> Child {
    let child = watched_command(world, words, step, KillSignal::Stop)
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/stat", child.id());
    wait_until_true("it is stopped", || {
        let stat = fs::read_to_string(&status).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.starts_with(" T"))
    });
    child
}

/// Runs a command that dies at this step, or finishes if it never reaches it.
pub(crate) fn kill_at_step(world: &TestWorld, words: &[&str], step: usize) -> KilledRun {
    let trace = world.path("trace");
    let output = watched_command(world, words, step, KillSignal::Kill)
        .output()
        .unwrap();
    let killed = output.status.signal() == Some(9);
    if !killed {
        AgentsRun::from_output(output).succeeded();
    }
    let steps = fs::read_to_string(&trace).unwrap_or_default();
    let steps = steps.lines().map(|name| {
        let named = ApplyStep::ALL.into_iter().find(|it| it.as_str() == name);
        named.unwrap()
    });
    KilledRun {
        killed,
        steps: steps.collect(),
    }
}

/// Runs a command that dies when it reaches this step for the first time. The folders are those
/// that it changes.
pub(crate) fn kill_when_reached(
    world: &TestWorld,
    words: &[&str],
    folders: &[&str],
    step: ApplyStep,
) {
    let snapshot = WorldSnapshot::capture(world, folders);
    let steps = kill_at_step(world, words, 0).steps;
    snapshot.restore();
    let number = steps.iter().position(|it| *it == step).unwrap() + 1;
    assert!(kill_at_step(world, words, number).killed);
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the one word from the test that starts this process"
)]
fn helper_process_dies_at_its_step() {
    let Some(file) = std::env::var_os(JOB_VARIABLE) else {
        return assert_no_kill_without_step();
    };
    let job: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let words = job["words"].as_array().unwrap().iter();
    let words = words.map(|word| word.as_str().unwrap().into());
    let environment = Environment {
        arguments: std::iter::once(AGENTS.into()).chain(words).collect(),
        executable: Some(AGENTS.into()),
        ..Environment::from_process()
    };
    let killer: Arc<dyn Watcher> = Arc::new(StepKiller {
        trace: job["trace"].as_str().unwrap().into(),
        last: usize::try_from(job["step"].as_u64().unwrap()).unwrap(),
        reached: AtomicUsize::new(0),
        signal: if job["stops"].as_bool().unwrap() {
            KillSignal::Stop
        } else {
            KillSignal::Kill
        },
    });
    // The outcome does not matter; the process is expected to die.
    cleveragents_cli::run_with_watcher(&environment, &killer);
}

fn assert_no_kill_without_step() {
    let folder = tempfile::tempdir().unwrap();
    let killer = StepKiller {
        trace: folder.path().join("trace"),
        last: 0,
        reached: AtomicUsize::new(0),
        signal: KillSignal::Kill,
    };
    ApplyStep::ALL.iter().for_each(|step| killer.reached(*step));
    assert_eq!(killer.reached.into_inner(), ApplyStep::ALL.len());
}

/// A copy of folders of a world, which can be restored repeatedly.
pub(crate) struct WorldSnapshot<'a> {
    world: &'a TestWorld,
    names: Vec<&'a str>,
}

impl<'a> WorldSnapshot<'a> {
    pub(crate) fn capture(world: &'a TestWorld, names: &[&'a str]) -> Self {
        fs::create_dir_all(world.path("snapshot")).unwrap();
        for name in names {
            let kept = world.path("snapshot").join(name);
            // An earlier copy is replaced.
            let _ = fs::remove_dir_all(&kept);
            copy_folder(world, &world.path(name), &kept);
        }
        Self {
            world,
            names: names.to_vec(),
        }
    }

    pub(crate) fn restore(&self) {
        for name in &self.names {
            let path = self.world.path(name);
            fs::remove_dir_all(&path).unwrap();
            copy_folder(self.world, &self.world.path("snapshot").join(name), &path);
        }
    }
}

fn copy_folder(world: &TestWorld, from: &Path, to: &Path) {
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    let mut copy = world.other_program(Path::new("cp"), &["-a", from, to]);
    // Not run in the home, which may itself be restored.
    AgentsRun::from_output(copy.current_dir("/").output().unwrap()).succeeded();
}
