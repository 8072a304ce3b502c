//! A process that is killed at a given step of an apply.
//!
//! The test binary starts itself again with one test, which reads its task from a file and kills
//! itself with SIGKILL as soon as the step was reached the requested number of times.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cleveragents_ports::targets::{ApplyIntent, ApplyRequest, ApplyTargets, MissingTargetPolicy};
use cleveragents_sandbox::{ApplyStep, GitSettings, LocalTargets, Watcher};
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};

use crate::environment::{SandboxTestWorld, git_settings, write};

const JOB: &str = "CLEVERAGENTS_TEST_JOB";

/// The task of the process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum CrashAction {
    Prepare(Box<ApplyRequest>),
    Commit(Box<ApplyIntent>),
    Lock(Vec<ApplyIntent>),
    Abort(Box<ApplyIntent>),
}

#[derive(Debug, Serialize, Deserialize)]
struct CrashJob {
    data: PathBuf,
    home: PathBuf,
    program: PathBuf,
    deed: CrashAction,
    /// The index of the step, and how often it is reached before the kill.
    step: usize,
    times: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessEnd {
    Killed,
    /// The step was not reached that often.
    Survived,
}

#[derive(Debug)]
struct KillAtStep {
    step: ApplyStep,
    remaining: AtomicUsize,
}

impl Watcher for KillAtStep {
    fn reached(&self, step: ApplyStep) {
        if step == self.step && self.remaining.fetch_sub(1, Ordering::Relaxed) == 1 {
            kill_process(getpid(), Signal::KILL).unwrap();
            // A signal to oneself is delivered before the call returns.
            unreachable!("killed");
        }
    }
}

/// Runs the action in another process, which is killed at the step.
pub(crate) fn kill_at_step(
    world: &SandboxTestWorld,
    action: &CrashAction,
    step: ApplyStep,
    times: usize,
) -> ProcessEnd {
    kill_at_step_with(world, action, Path::new("git"), (step, times))
}

/// Runs the action in another process with this git.
#[expect(
    clippy::disallowed_methods,
    reason = "tests start the processes that are killed"
)]
pub(crate) fn kill_at_step_with(
    world: &SandboxTestWorld,
    action: &CrashAction,
    program: &Path,
    (step, times): (ApplyStep, usize),
) -> ProcessEnd {
    let number = ApplyStep::ALL.iter().position(|it| *it == step).unwrap();
    let job = CrashJob {
        data: world.path("data"),
        home: world.path("home"),
        program: program.to_owned(),
        deed: action.clone(),
        step: number,
        times,
    };
    let file = world.path(&format!("job-{}.json", world.next_id()));
    write(&file, &serde_json::to_vec(&job).unwrap());
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash_process::crash_process_entry"])
        .env(JOB, &file)
        .output()
        .unwrap();
    if output.status.success() {
        return ProcessEnd::Survived;
    }
    let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
    assert_eq!(
        signal,
        Some(9),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    ProcessEnd::Killed
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the one word from the test that starts this process"
)]
fn crash_process_entry() {
    let Some(file) = std::env::var_os(JOB) else {
        return check_kill_counter();
    };
    let job: CrashJob = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let killer = KillAtStep {
        step: ApplyStep::ALL[job.step],
        remaining: AtomicUsize::new(job.times),
    };
    let settings = GitSettings {
        program: job.program,
        ..git_settings(job.home)
    };
    let targets = LocalTargets::open(&job.data, settings, Arc::new(killer)).unwrap();
    match job.deed {
        CrashAction::Prepare(request) => {
            targets.prepare(&request).unwrap();
        }
        CrashAction::Commit(intent) => {
            targets.commit(&intent).unwrap();
        }
        CrashAction::Lock(intents) => {
            targets.lock(&intents).unwrap();
        }
        CrashAction::Abort(intent) => {
            targets.abort(&intent, MissingTargetPolicy::Stop).unwrap();
        }
    }
}

fn check_kill_counter() {
    let killer = KillAtStep {
        step: ApplyStep::Started,
        remaining: AtomicUsize::new(2),
    };
    ApplyStep::ALL.iter().for_each(|step| killer.reached(*step));
    assert_eq!(killer.remaining.into_inner(), 1);
}

/// A snapshot of the user's files and our data, which can be restored repeatedly.
pub(crate) struct FolderSnapshot<'a> {
    world: &'a SandboxTestWorld,
    names: Vec<&'a str>,
}

impl<'a> FolderSnapshot<'a> {
    pub(crate) fn take(world: &'a SandboxTestWorld, names: &[&'a str]) -> Self {
        fs::create_dir_all(world.path("snapshot")).unwrap();
        for name in names {
            copy(world, &world.path(name), &world.path("snapshot").join(name));
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
            copy(self.world, &self.world.path("snapshot").join(name), &path);
        }
    }
}

fn copy(world: &SandboxTestWorld, from: &Path, to: &Path) {
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    let copied = world.command(Path::new("/"), "cp", &["-a", from, to]);
    assert!(copied.status.success());
}

/// Runs `die` for every step and every number of times, as long as the process is killed.
pub(crate) fn at_every_step(
    steps: &[ApplyStep],
    mut die: impl FnMut(ApplyStep, usize) -> ProcessEnd,
) {
    for step in steps {
        let mut times = 1;
        while die(*step, times) == ProcessEnd::Killed {
            times += 1;
        }
    }
}

/// How often the whole matrix is repeated: a hundred times in the stress run.
#[expect(
    clippy::disallowed_methods,
    reason = "the stress run says by this how thorough to be"
)]
pub(crate) fn rounds() -> u32 {
    let percent = std::env::var("CLEVERAGENTS_TRIALS").ok();
    let percent = percent.and_then(|text| text.parse::<u32>().ok());
    match percent {
        Some(percent) if percent >= 100 => 100,
        _ => 1,
    }
}
