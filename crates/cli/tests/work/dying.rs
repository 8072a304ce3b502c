//! Our program, killed at a given step of an apply.
//!
//! The test binary starts itself again with one test, which is the whole program with somebody who
//! watches its steps: it notes each, and kills the process with SIGKILL at the one it was told.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cleveragents_cli::environment::Environment;
use cleveragents_cli::wiring::{ApplyStep, Watcher};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};

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
}

impl Watcher for Killer {
    fn reached(&self, step: ApplyStep) {
        let mut options = OpenOptions::new();
        let mut trace = options.append(true).create(true).open(&self.trace).unwrap();
        writeln!(trace, "{}", step.as_str()).unwrap();
        if self.reached.fetch_add(1, Ordering::Relaxed) + 1 == self.last {
            kill_process(getpid(), Signal::KILL).unwrap();
            // A signal to oneself is delivered before the call returns.
            unreachable!("killed");
        }
    }
}

/// Runs a command that dies at its step of this number, or lives if it never comes to that.
pub(crate) fn die(world: &World, words: &[&str], step: usize) -> End {
    let (job, trace) = (world.path("job.json"), world.path("trace"));
    let _ = fs::remove_file(&trace);
    let text = json!({ "words": words, "step": step, "trace": trace }).to_string();
    world.write("job.json", &text);
    let program = std::env::current_exe().unwrap();
    let arguments = ["--exact", "dying::dies_where_it_is_told"];
    let output = world
        .other(&program, &arguments)
        .env(JOB, &job)
        .output()
        .unwrap();
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
            copy(world, &world.path(name), &world.path("snapshot").join(name));
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
