//! Our program, killed at a given step of an apply.
//!
//! The test binary starts itself again with one test, which is the whole program with somebody who
//! watches its steps: it notes each, and kills the process with SIGKILL at the one it was told.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cleveragents_cli::environment::Environment;
use cleveragents_cli::wiring::{ApplyStep, Watcher};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};

use crate::following::until;
use crate::world::{AGENTS, Run, World};

const JOB: &str = "CLEVERAGENTS_TEST_JOB";

/// How the program ended, and the steps that it reached.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) killed: bool,
    pub(crate) steps: Vec<ApplyStep>,
}

#[derive(Debug)]
struct Killer {
    trace: PathBuf,
    /// The step that is the last one; no step is number 0.
    last: usize,
    reached: AtomicUsize,
    signal: Ending,
}

/// What happens to the process at its last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Kill,
    /// Stopped as by Ctrl-Z, until it is continued or killed.
    Stop,
}

impl Watcher for Killer {
    fn reached(&self, step: ApplyStep) {
        let mut options = OpenOptions::new();
        let mut trace = options.append(true).create(true).open(&self.trace).unwrap();
        writeln!(trace, "{}", step.as_str()).unwrap();
        if self.reached.fetch_add(1, Ordering::Relaxed) + 1 == self.last {
            let signal = match self.signal {
                Ending::Kill => Signal::KILL,
                Ending::Stop => Signal::STOP,
            };
            kill_process(getpid(), signal).unwrap();
            // A signal to oneself is delivered before the call returns.
            assert_eq!(self.signal, Ending::Stop, "killed");
        }
    }
}

fn command(world: &World, words: &[&str], step: usize, ending: Ending) -> Command {
    let (job, trace) = (world.path("job.json"), world.path("trace"));
    let _ = fs::remove_file(&trace);
    let stops = ending == Ending::Stop;
    let job_text = json!({ "words": words, "step": step, "trace": trace, "stops": stops });
    world.write("job.json", &job_text.to_string());
    let program = std::env::current_exe().unwrap();
    let arguments = ["--exact", "dying::dies_where_it_is_told"];
    let mut command = world.other(&program, &arguments);
    command.env(JOB, &job);
    command
}

/// Runs a command that stops itself at its step of this number, as by Ctrl-Z; answers when it has.
pub(crate) fn stop(world: &World, words: &[&str], step: usize) -> Child {
    let child = command(world, words, step, Ending::Stop).spawn().unwrap();
    let status = format!("/proc/{}/stat", child.id());
    until("it is stopped", || {
        let stat = fs::read_to_string(&status).unwrap_or_default();
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.starts_with(" T"))
    });
    child
}

/// Runs a command that dies at its step of this number, or lives if it never comes to that.
pub(crate) fn die(world: &World, words: &[&str], step: usize) -> End {
    let trace = world.path("trace");
    let output = command(world, words, step, Ending::Kill).output().unwrap();
    let killed = output.status.signal() == Some(9);
    if !killed {
        Run::of(output).succeeded();
    }
    let steps = fs::read_to_string(&trace).unwrap_or_default();
    let steps = steps.lines().map(|name| {
        let named = ApplyStep::ALL.into_iter().find(|it| it.as_str() == name);
        named.unwrap()
    });
    End {
        killed,
        steps: steps.collect(),
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the one word from the test that starts this process"
)]
fn dies_where_it_is_told() {
    let Some(file) = std::env::var_os(JOB) else {
        return nobody_dies_untold();
    };
    let job: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let words = job["words"].as_array().unwrap().iter();
    let words = words.map(|word| word.as_str().unwrap().into());
    let environment = Environment {
        arguments: std::iter::once(AGENTS.into()).chain(words).collect(),
        executable: Some(AGENTS.into()),
        ..Environment::of_this_process()
    };
    let killer: Arc<dyn Watcher> = Arc::new(Killer {
        trace: job["trace"].as_str().unwrap().into(),
        last: usize::try_from(job["step"].as_u64().unwrap()).unwrap(),
        reached: AtomicUsize::new(0),
        signal: match job["stops"].as_bool().unwrap() {
            true => Ending::Stop,
            false => Ending::Kill,
        },
    });
    // What the command answers is its own affair; here it is only to die.
    cleveragents_cli::run_watched(&environment, &killer);
}

fn nobody_dies_untold() {
    let folder = tempfile::tempdir().unwrap();
    let killer = Killer {
        trace: folder.path().join("trace"),
        last: 0,
        reached: AtomicUsize::new(0),
        signal: Ending::Kill,
    };
    ApplyStep::ALL.iter().for_each(|step| killer.reached(*step));
    assert_eq!(killer.reached.into_inner(), ApplyStep::ALL.len());
}

/// Folders of a world as they are now, to be put back as often as needed.
pub(crate) struct Snapshot<'a> {
    world: &'a World,
    names: Vec<&'a str>,
}

impl<'a> Snapshot<'a> {
    pub(crate) fn of(world: &'a World, names: &[&'a str]) -> Self {
        fs::create_dir_all(world.path("snapshot")).unwrap();
        for name in names {
            let kept = world.path("snapshot").join(name);
            // One that was kept before is replaced.
            let _ = fs::remove_dir_all(&kept);
            copy(world, &world.path(name), &kept);
        }
        Self {
            world,
            names: names.to_vec(),
        }
    }

    pub(crate) fn put_back(&self) {
        for name in &self.names {
            let path = self.world.path(name);
            fs::remove_dir_all(&path).unwrap();
            copy(self.world, &self.world.path("snapshot").join(name), &path);
        }
    }
}

fn copy(world: &World, from: &Path, to: &Path) {
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    let mut copy = world.other(Path::new("cp"), &["-a", from, to]);
    // The home may be among what is put back.
    Run::of(copy.current_dir("/").output().unwrap()).succeeded();
}
