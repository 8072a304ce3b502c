//! Work on captured trees ends when the stop signal is given while git runs.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::thread;
use std::time::Duration;

use cleveragents_ports::sandbox::{CommitMetadata, Sandbox, SandboxError, SandboxResult, TreeId};
use cleveragents_ports::stop::{StopReason, StopSignal};
use cleveragents_sandbox::{GitSettings, LocalSandboxes};

use crate::environment::{SandboxTestWorld, append, capture, git_settings, script};

/// A git that, once armed, blocks forever at the command in `ROOT/armed` and reports that it is
/// there.
const PROGRAM: &str = r#"#!/bin/sh
if test -e ROOT/armed; then
    for argument; do
        if test "$argument" = "$(cat ROOT/armed)"; then
            echo > ROOT/reached
            exec sleep 1000000
        fi
    done
fi
exec git "$@"
"#;

/// Creates a sandbox with such a git, and the tree of a change in it.
fn world_with_blocking_git() -> (SandboxTestWorld, Box<dyn Sandbox>, TreeId) {
    let mut world = SandboxTestWorld::new();
    let root = world.path("");
    let text = PROGRAM.replace("ROOT", root.to_str().unwrap().trim_end_matches('/'));
    let (draft, program) = (world.path("draft"), world.path("stays"));
    script(&draft, &text);
    // Written by another process, so that no child started meanwhile has it open.
    let copy = ["-p", draft.to_str().unwrap(), program.to_str().unwrap()];
    let reached = world.path("reached");
    for (command, arguments) in [("cp", &copy[..]), ("mkfifo", &[reached.to_str().unwrap()])] {
        let done = world.command(Path::new("/"), command, arguments);
        assert!(done.status.success());
    }
    let settings = GitSettings {
        program,
        timeout: Duration::from_secs(30),
        ..git_settings(world.path("home"))
    };
    world.sandboxes = LocalSandboxes::open(&world.path("data"), settings).unwrap();
    let repository = world.repository("user", &[("a", "1\n")]);
    let (created, mut sandbox) = world.create(&repository);
    append(&created.tree.join("a"), b"2\n");
    let tree = capture(&mut *sandbox).tree;
    (world, sandbox, tree)
}

/// Gives the stop signal as soon as git is at `command`, which must end the work.
#[track_caller]
fn check_stop_at<T: std::fmt::Debug + PartialEq>(
    world: &SandboxTestWorld,
    command: &str,
    work: impl FnOnce(&StopSignal) -> SandboxResult<T>,
) {
    crate::environment::write(&world.path("armed"), command.as_bytes());
    let stop = StopSignal::new();
    let answer = thread::scope(|scope| {
        let (given, reached) = (stop.clone(), world.path("reached"));
        scope.spawn(move || {
            // Opening the FIFO blocks until git opens it for writing.
            let mut signal = [0; 1];
            let _ = File::open(reached).unwrap().read(&mut signal).unwrap();
            given.stop(StopReason::Cancelled);
        });
        let answer = work(&stop);
        // If git never got there, unblock the thread.
        File::options()
            .write(true)
            .read(true)
            .open(world.path("reached"))
            .unwrap();
        answer
    });
    let stopped = Err(SandboxError::Stopped(StopReason::Cancelled));
    assert_eq!(answer, stopped, "{command}");
    fs::remove_file(world.path("armed")).unwrap();
}

fn commit_metadata() -> CommitMetadata {
    CommitMetadata {
        name: "A Plan".into(),
        email: "plan@localhost".into(),
        seconds: 1_700_000_000,
        message: "what the plan did".into(),
    }
}

#[test]
fn diff_and_net_changes_obey_the_stop_signal() {
    let (world, sandbox, tree) = world_with_blocking_git();
    let base = sandbox.base().clone();
    check_stop_at(&world, "diff-tree", |stop| {
        sandbox.diff(&base, &tree, &[], stop)
    });
    for command in ["diff-tree", "ls-tree", "cat-file"] {
        check_stop_at(&world, command, |stop| {
            sandbox.net_changes(&base, &tree, stop)
        });
    }
    // Nothing left over affects later calls.
    let diff = sandbox.diff(&base, &tree, &[], &StopSignal::new()).unwrap();
    assert_eq!(diff.files.len(), 1);
    let changes = sandbox
        .net_changes(&base, &tree, &StopSignal::new())
        .unwrap();
    assert_eq!(changes.len(), 1);
}

#[test]
fn publishing_obeys_the_stop_signal() {
    let (world, sandbox, tree) = world_with_blocking_git();
    for command in ["pack-objects", "index-pack"] {
        check_stop_at(&world, command, |stop| {
            sandbox.publish(&tree, &commit_metadata(), stop)
        });
    }
    let user = world.path("user");
    let pins = [
        "for-each-ref",
        "--format=%(refname)",
        "refs/cleveragents/plan-*",
    ];
    assert_eq!(world.git(&user, &pins), "");
    let published = sandbox
        .publish(&tree, &commit_metadata(), &StopSignal::new())
        .unwrap();
    assert_eq!(world.git(&user, &pins), published.reference);
    let found = ["rev-parse", "--verify", &published.reference];
    assert_eq!(world.git(&user, &found), published.commit);
}

#[test]
fn an_earlier_stop_signal_ends_the_call_at_once() {
    let (_world, sandbox, tree) = world_with_blocking_git();
    let base = sandbox.base().clone();
    let stop = StopSignal::new();
    stop.stop(StopReason::LeaseLost);
    let stopped = || SandboxError::Stopped(StopReason::LeaseLost);
    assert_eq!(sandbox.diff(&base, &tree, &[], &stop), Err(stopped()));
    assert_eq!(sandbox.net_changes(&base, &tree, &stop), Err(stopped()));
    assert_eq!(
        sandbox.publish(&tree, &commit_metadata(), &stop),
        Err(stopped())
    );
}
