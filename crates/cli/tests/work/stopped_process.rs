//! An apply whose process is stopped, as by Ctrl-Z: nobody else waits for it.

use std::fs::{self, File};
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use cleveragents_cli::wiring::ApplyStep;
use cleveragents_engine::ports::{Lease, StoreError, Unit};
use rustix::process::{Pid, Signal, kill_process};

use crate::dying::{Snapshot, die, stop};
use crate::world::{Run, World};

const EDIT: &str = "\
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
- {tool: builtin/file-write, input: {path: made, content: made}}
";

/// Longer than any of these commands takes on a busy machine, and far less than forever.
const PATIENCE: Duration = Duration::from_secs(60);

/// A process that must not outlive its test.
struct Stopped(Child);

impl Stopped {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command that must answer in time.
#[track_caller]
fn answers(world: &World, words: &[&str]) -> Run {
    let mut command = world.command(words);
    let child = command.stdin(Stdio::null()).spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let (sender, receiver) = channel();
    let waiter = thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
    let output = receiver.recv_timeout(PATIENCE);
    if output.is_err() {
        let _ = kill_process(pid, Signal::KILL);
    }
    let _ = waiter.join();
    Run::of(output.unwrap_or_else(|_| panic!("{words:?} hangs")))
}

/// The number of the first step of this kind that an apply of the plan reaches.
fn step_of(world: &World, plan: &str, step: ApplyStep) -> usize {
    let snapshot = Snapshot::of(world, &["home", "shop"]);
    let steps = die(world, &["plan", "apply", plan, "--yes"], 0).steps;
    snapshot.put_back();
    steps.iter().position(|it| *it == step).unwrap() + 1
}

/// Lets the lease of the plan's run end now.
fn expire(world: &World, plan: &str) {
    let wiring = world.wiring();
    let wired = wiring.open_to_read().unwrap();
    let plan = plan.parse().unwrap();
    let expired = wired.store().write(
        wired.operation("test.expire"),
        move |unit: &mut dyn Unit| {
            let run = unit
                .run_of(plan)?
                .ok_or_else(|| StoreError::internal("nobody runs it"))?;
            let lease = Lease {
                plan,
                owner: run.owner,
                epoch: run.epoch,
                expires_at: run.expires_at,
            };
            unit.heartbeat(&lease, Duration::ZERO)
        },
    );
    let _: Lease = wired
        .wait(expired)
        .unwrap_or_else(|error: StoreError| panic!("{error}"));
}

#[test]
fn a_stopped_apply_blocks_no_other_command() {
    let world = World::new();
    let plan = world.executed(EDIT);
    let other = world.executed("- {tool: builtin/file-write, input: {path: other, content: o}}");
    let step = step_of(&world, &plan, ApplyStep::IndexLocked);
    let apply = Stopped(stop(&world, &["plan", "apply", &plan, "--yes"], step));
    let pid = apply.0.id().to_string();
    for expired in [false, true] {
        if expired {
            expire(&world, &plan);
        }
        for words in [
            &["plan", "list"][..],
            &["plan", "status", &plan],
            &["plan", "log", &plan],
            &["info"],
            &["diagnostics"],
            &["project", "list"],
        ] {
            let run = answers(&world, words);
            assert!(matches!(run.code, Some(0 | 1)), "{run:?}");
            let named = run.stderr.contains(&format!("process {pid}"));
            assert_eq!(named, expired, "{words:?}: {run:?}");
        }
        // A command that writes goes on with its own work.
        let run = answers(&world, &["plan", "cancel", &other]).exits(0);
        assert_eq!(run.stderr.contains(&format!("process {pid}")), expired);
        // What is about this very plan says who has it.
        answers(&world, &["plan", "apply", &plan, "--yes"])
            .exits(4)
            .says("is being run by");
        answers(&world, &["plan", "delete", &plan, "--yes"]).exits(4);
    }
    // It goes on where it stopped and is done once.
    apply.signal(Signal::CONT);
    crate::following::until("it is applied", || world.state(&plan) == "apply/applied");
    assert_eq!(world.commits("shop"), 2);
    assert_eq!(world.dirt("shop"), "");
}

/// After its decision an apply can no longer be asked to stop, so a cancel is refused.
#[test]
fn a_decided_apply_that_another_process_runs_is_not_cancelled() {
    let world = World::new();
    let plan = world.executed(EDIT);
    let step = step_of(&world, &plan, ApplyStep::Begun);
    let apply = Stopped(stop(&world, &["plan", "apply", &plan, "--yes"], step));
    for words in [
        &["plan", "cancel", &plan][..],
        &["plan", "revert", &plan],
        &["plan", "reject", &plan, "a", "--why", "no"],
    ] {
        answers(&world, words)
            .exits(4)
            .says("is being run by")
            .says("its apply is decided");
    }
    apply.signal(Signal::CONT);
    crate::following::until("it is applied", || world.state(&plan) == "apply/applied");
    assert_eq!(world.commits("shop"), 2);
}

#[test]
fn a_command_that_finishes_the_work_of_others_waits_for_no_lock() {
    let world = World::new();
    world.folder("more");
    let plan = world.executed(EDIT);
    let step = step_of(&world, &plan, ApplyStep::Begun);
    assert!(die(&world, &["plan", "apply", &plan, "--yes"], step).killed);
    let turn = hold_turn(&world);
    let more = world.path("more").display().to_string();
    let run = answers(&world, &["project", "create", "more", "--path", &more]).exits(0);
    run.says("an apply could not be finished: another process is at work there");
    let hint = format!("agents plan resume {plan}");
    answers(&world, &["plan", "list"]).exits(0).says(&hint);
    drop(turn);
    // A command that reads leaves it as it is.
    answers(&world, &["plan", "list"]).exits(0).says(&hint);
    assert_eq!(world.state(&plan), "apply/processing");
    let run = answers(&world, &["plan", "resume", &plan]);
    run.says("an interrupted apply was finished");
    assert_eq!(world.state(&plan), "apply/applied");
    assert_eq!(world.commits("shop"), 2);
}

/// The turn to write into the shop, as another process has it.
fn hold_turn(world: &World) -> Vec<File> {
    let folder = world.path("home/.cleveragents/repositories");
    let locks = fs::read_dir(folder).unwrap().map(|entry| {
        let file = File::open(entry.unwrap().path()).unwrap();
        // Git of the killed process has it a moment longer.
        file.lock().unwrap();
        file
    });
    locks.collect()
}
