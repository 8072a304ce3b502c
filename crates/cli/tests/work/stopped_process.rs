//! Plans whose process is stopped, as by Ctrl-Z, or killed: other commands do not wait for it and
//! report its state.

use std::fs::{self, File};
use std::io::Write;
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use cleveragents_cli::bootstrap::ApplyStep;
use cleveragents_ports::{Lease, StoreError, Transaction};
use rustix::process::{Pid, Signal, kill_process};

use crate::event_follower::Follower;
use crate::kill_at_step::{WorldSnapshot, kill_at_step, kill_when_reached, stop_at_step};
use crate::world::{AgentsRun, TRUSTED, TestWorld, short_id};

const EDIT: &str = "\
- {tool: builtin/file-edit, input: {path: a, old: '2', new: two}}
- {tool: builtin/file-write, input: {path: made, content: made}}
";

/// Longer than any of these commands takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A process that is killed at the end of its test.
struct StoppedProcess(Child);

impl StoppedProcess {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a command that must finish before the timeout.
#[track_caller]
fn run_with_timeout(world: &TestWorld, words: &[&str]) -> AgentsRun {
    let mut command = world.command(words);
    let child = command.stdin(Stdio::null()).spawn().unwrap();
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    let (sender, receiver) = channel();
    let waiter = thread::spawn(move || sender.send(child.wait_with_output().unwrap()));
    let output = receiver.recv_timeout(TIMEOUT);
    if output.is_err() {
        let _ = kill_process(pid, Signal::KILL);
    }
    let _ = waiter.join();
    AgentsRun::from_output(output.unwrap_or_else(|_| panic!("{words:?} hangs")))
}

/// Returns the number of the first step of this kind in an apply of the plan.
fn first_step_number(world: &TestWorld, plan: &str, step: ApplyStep) -> usize {
    let snapshot = WorldSnapshot::capture(world, &["home", "shop"]);
    let steps = kill_at_step(world, &["plan", "apply", plan, "--yes"], 0).steps;
    snapshot.restore();
    steps.iter().position(|it| *it == step).unwrap() + 1
}

/// Makes the lease of the plan's run expire now.
fn expire_lease(world: &TestWorld, plan: &str) {
    let bootstrap = world.bootstrap();
    let app = bootstrap.open_to_read().unwrap();
    let plan = plan.parse().unwrap();
    let expired = app.store().write(
        app.operation("test.expire"),
        move |tx: &mut dyn Transaction| {
            let run = tx
                .run_of(plan)?
                .ok_or_else(|| StoreError::internal("nobody runs it"))?;
            let lease = Lease {
                plan,
                owner: run.owner,
                epoch: run.epoch,
                expires_at: run.expires_at,
            };
            tx.heartbeat(&lease, Duration::ZERO)
        },
    );
    let _: Lease = app
        .block_on(expired)
        .unwrap_or_else(|error: StoreError| panic!("{error}"));
}

#[test]
fn a_stopped_apply_blocks_no_other_command() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    let other = world
        .create_executed_plan("- {tool: builtin/file-write, input: {path: other, content: o}}");
    let step = first_step_number(&world, &plan, ApplyStep::IndexLocked);
    let apply = StoppedProcess(stop_at_step(
        &world,
        &["plan", "apply", &plan, "--yes"],
        step,
    ));
    let pid = apply.0.id().to_string();
    for expired in [false, true] {
        if expired {
            expire_lease(&world, &plan);
        }
        for words in [
            &["plan", "list"][..],
            &["plan", "status", &plan],
            &["plan", "log", &plan],
            &["info"],
            &["diagnostics"],
            &["project", "list"],
        ] {
            let run = run_with_timeout(&world, words);
            assert!(matches!(run.code, Some(0 | 1)), "{run:?}");
            let named = run.stderr.contains(&format!("process {pid}"));
            assert_eq!(named, expired, "{words:?}: {run:?}");
        }
        // Another command that writes does its work.
        let run = run_with_timeout(&world, &["plan", "cancel", &other]).exits(0);
        assert_eq!(run.stderr.contains(&format!("process {pid}")), expired);
        // Commands about this plan report its owner.
        run_with_timeout(&world, &["plan", "apply", &plan, "--yes"])
            .exits(4)
            .prints("is being run by");
        run_with_timeout(&world, &["plan", "delete", &plan, "--yes"]).exits(4);
    }
    // The apply continues where it stopped and is done once.
    apply.signal(Signal::CONT);
    crate::event_follower::wait_until_true("it is applied", || {
        world.state(&plan) == "apply/applied"
    });
    assert_eq!(world.commits("shop"), 2);
    assert_eq!(world.git_status("shop"), "");
}

/// After its decision an apply can no longer be asked to stop, so a cancel is refused.
#[test]
fn a_decided_apply_that_another_process_runs_is_not_cancelled() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    let step = first_step_number(&world, &plan, ApplyStep::Started);
    let apply = StoppedProcess(stop_at_step(
        &world,
        &["plan", "apply", &plan, "--yes"],
        step,
    ));
    for words in [
        &["plan", "cancel", &plan][..],
        &["plan", "revert", &plan],
        &["plan", "reject", &plan, "a", "--why", "no"],
    ] {
        run_with_timeout(&world, words)
            .exits(4)
            .prints("is being run by")
            .prints("past the point of no return");
    }
    apply.signal(Signal::CONT);
    crate::event_follower::wait_until_true("it is applied", || {
        world.state(&plan) == "apply/applied"
    });
    assert_eq!(world.commits("shop"), 2);
}

/// A plan whose process is in the middle of a command.
fn start_endless_plan(world: &TestWorld) -> (String, StoppedProcess) {
    world
        .define_worker("- {tool: builtin/shell, input: {command: 'sleep 31536007', timeout: 600}}");
    world.define_worker_job("");
    let plan = world.create_plan(TRUSTED);
    let process = StoppedProcess(world.start(&["plan", "execute", &plan]));
    Follower::start(world, &plan).wait_for("process_started");
    (plan, process)
}

#[test]
fn status_names_a_stopped_process() {
    let world = TestWorld::new();
    let (plan, process) = start_endless_plan(&world);
    let pid = process.0.id();
    let status = world.run(&["plan", "status", &plan]).succeeded();
    assert!(
        status
            .stdout
            .contains(&format!("run by: process {pid} since")),
        "{status:?}"
    );
    assert!(!status.stdout.contains("may be stopped"), "{status:?}");
    process.signal(Signal::STOP);
    expire_lease(&world, &plan);
    let status = world.run(&["plan", "status", &plan]).succeeded();
    assert!(
        status
            .stdout
            .contains(&format!("run by: process {pid} since"))
            && status.stdout.contains("may be stopped"),
        "{status:?}"
    );
    status.prints(&format!("kill -CONT {pid}"));
    let owner = &world.json_data(&["plan", "status", &plan])["owner"];
    assert_eq!(
        (&owner["pid"], &owner["responds"]),
        (&pid.into(), &false.into())
    );
    world
        .execute(&plan)
        .exits(4)
        .prints(&format!("is being run by process {pid}"));
    world
        .run(&["plan", "cancel", &plan, "--wait", "0"])
        .exits(75)
        .prints(&format!("process {pid} runs it, does not respond"))
        .prints(&format!("kill -CONT {pid}"));
}

#[test]
fn status_of_a_killed_process_names_the_way_on() {
    let world = TestWorld::new();
    let (plan, process) = start_endless_plan(&world);
    drop(process);
    let status = world.run(&["plan", "status", &plan]).succeeded();
    assert!(status.stdout.contains("run by: not running"), "{status:?}");
    status.prints(&format!("agents plan resume {}", short_id(&plan)));
    let data = world.json_data(&["plan", "status", &plan]);
    assert_eq!(data["owner"], serde_json::Value::Null, "{data}");
}

#[test]
fn a_commit_that_recovery_finished_verifies() {
    let world = TestWorld::new();
    let plan = world.create_executed_plan(EDIT);
    for step in [ApplyStep::Started, ApplyStep::BranchMoved] {
        let snapshot = WorldSnapshot::capture(&world, &["home", "shop"]);
        let number = first_step_number(&world, &plan, step);
        assert!(kill_at_step(&world, &["plan", "apply", &plan, "--yes"], number).killed);
        world.run(&["plan", "resume", &plan]).succeeded();
        let shop = world.path("shop").display().to_string();
        let verified = world.json_data(&["verify-commit", "HEAD", "--path", &shop]);
        assert_eq!(verified["plan_id"], plan.as_str(), "{step:?}");
        snapshot.restore();
    }
}

#[test]
fn recovery_does_not_wait_for_locks() {
    let world = TestWorld::new();
    world.create_folder("more");
    let plan = world.create_executed_plan(EDIT);
    let step = first_step_number(&world, &plan, ApplyStep::Started);
    assert!(kill_at_step(&world, &["plan", "apply", &plan, "--yes"], step).killed);
    let turn = hold_write_locks(&world);
    let more = world.path("more").display().to_string();
    let run = run_with_timeout(&world, &["project", "create", "more", "--path", &more]).exits(0);
    run.prints("an apply could not be finished: another process is at work there");
    let shown = format!("agents plan resume {}", short_id(&plan));
    let hint = format!("agents plan resume {plan}");
    let listed = run_with_timeout(&world, &["plan", "list"])
        .exits(0)
        .prints(&shown);
    let warning = "an apply was interrupted";
    assert_eq!(listed.stderr.matches(warning).count(), 1, "{listed:?}");
    let reply = world.run_json(&["plan", "list"]).succeeded();
    let reply: serde_json::Value = serde_json::from_str(&reply.stdout).unwrap();
    let messages = reply["messages"].as_array().unwrap();
    assert_eq!(messages[0]["level"], "warn", "{reply}");
    assert!(messages[0]["text"].as_str().unwrap().starts_with(warning));
    assert_eq!(messages[1]["level"], "hint", "{reply}");
    assert!(messages[1]["text"].as_str().unwrap().contains(&hint));
    drop(turn);
    // A command that only reads does not finish it.
    run_with_timeout(&world, &["plan", "list"])
        .exits(0)
        .prints(&shown);
    assert_eq!(world.state(&plan), "apply/processing");
    let run = run_with_timeout(&world, &["plan", "resume", &plan]);
    let finished = "an interrupted apply was finished";
    assert_eq!(run.stderr.matches(finished).count(), 1, "{run:?}");
    assert_eq!(world.state(&plan), "apply/applied");
    assert_eq!(world.commits("shop"), 2);
}

#[test]
fn an_unapply_that_cannot_be_finished_is_not_called_an_apply() {
    let world = TestWorld::new();
    world.create_folder("more");
    let plan = world.create_executed_plan(EDIT);
    world.apply(&plan).succeeded();
    let unapply = ["plan", "unapply", &plan, "--yes"];
    kill_when_reached(&world, &unapply, &["home", "shop"], ApplyStep::Started);
    let turn = hold_write_locks(&world);
    let more = world.path("more").display().to_string();
    let run = run_with_timeout(&world, &["project", "create", "more", "--path", &more]).exits(0);
    run.prints("an unapply could not be finished: another process is at work there");
    drop(turn);
    run_with_timeout(&world, &unapply).exits(0);
    assert_eq!(world.state(&plan), "apply/unapplied");
}

/// Another process holds the lock of the repository for longer than the timeout.
#[test]
fn a_held_lock_leaves_other_plans_as_they_were() {
    let world = TestWorld::new();
    let done = world.create_executed_plan(EDIT);
    let other = world.create_plan(TRUSTED);
    let locks = hold_write_locks(&world);
    for lock in &locks {
        writeln!(&*lock, "process 4711").unwrap();
    }
    let [execute, apply] = [["execute", &other], ["apply", &done]].map(|[verb, plan]| {
        let child = world.start(&["plan", verb, plan]);
        thread::spawn(move || AgentsRun::from_output(child.wait_with_output().unwrap()))
    });
    for run in [execute, apply] {
        run.join()
            .unwrap()
            .exits(75)
            .prints("process 4711 is writing there")
            .prints("repeat the command");
    }
    assert_eq!(world.errors(&other), Vec::<String>::new());
    drop(locks);
    world
        .execute(&other)
        .succeeded()
        .reports_state("execute/complete");
    world
        .apply(&done)
        .succeeded()
        .reports_state("apply/applied");
}

/// Takes the write locks of the repositories, as another process would.
fn hold_write_locks(world: &TestWorld) -> Vec<File> {
    let folder = world.path("home/.cleveragents/repositories");
    let locks = fs::read_dir(folder).unwrap().map(|entry| {
        let file = File::options()
            .read(true)
            .write(true)
            .open(entry.unwrap().path())
            .unwrap();
        // A git of the killed process may hold it a moment longer.
        file.lock().unwrap();
        file
    });
    locks.collect()
}
