//! Limits of one capture, and its stop signal.

use std::fs::{self, File};

use cleveragents_ports::limits::{Limit, OverLimit};
use cleveragents_ports::sandbox::{Sandbox, SandboxError, TouchedPaths};
use cleveragents_ports::stop::{StopReason, StopSignal};
use cleveragents_sandbox::CaptureLimits;

use crate::environment::{SandboxTestWorld, listing, write};

const LIMITS: CaptureLimits = CaptureLimits {
    new_files: 10,
    total_size: 1 << 20,
    file_size: 1 << 19,
};

fn sandbox_with_limits(limits: CaptureLimits) -> (SandboxTestWorld, Box<dyn Sandbox>) {
    let mut world = SandboxTestWorld::new();
    world.sandboxes = world.sandboxes.with_limits(limits);
    let files: Vec<(String, &str)> = (0..20).map(|at| (format!("old/{at}"), "1\n")).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|it| (it.0.as_str(), it.1)).collect();
    let repository = world.repository("user", &files);
    let (_, sandbox) = world.create(&repository);
    (world, sandbox)
}

#[track_caller]
fn capture_over_limit(sandbox: &mut dyn Sandbox) -> OverLimit {
    let base = sandbox.base().clone();
    match sandbox.capture(&base, &TouchedPaths::Unknown, &StopSignal::new()) {
        Err(SandboxError::OverLimit(over)) => over,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_sparse_file_is_refused_by_its_size_and_not_read() {
    let (_world, mut sandbox) = sandbox_with_limits(CaptureLimits::default());
    let path = sandbox.tree().join("dir/x");
    write(&path, b"");
    File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let found = capture_over_limit(&mut *sandbox);
    assert_eq!((found.limit, found.found), (Limit::FileSize, Some(1 << 40)));
    assert_eq!(found.path.as_deref(), Some("dir/x"));
    // After the file is removed again, a capture works as if nothing had happened.
    fs::remove_file(&path).unwrap();
    fs::remove_dir(path.parent().unwrap()).unwrap();
    let base = sandbox.base().clone();
    let captured = sandbox
        .capture(&base, &TouchedPaths::Unknown, &StopSignal::new())
        .unwrap();
    assert_eq!(captured.tree, base);
}

#[test]
fn new_files_are_counted_and_known_ones_are_not() {
    let (_world, mut sandbox) = sandbox_with_limits(LIMITS);
    for at in 0..20 {
        write(&sandbox.tree().join(format!("old/{at}")), b"changed\n");
    }
    for at in 0..10 {
        write(&sandbox.tree().join(format!("new/{at}")), b"new\n");
    }
    let base = sandbox.base().clone();
    let captured = sandbox
        .capture(&base, &TouchedPaths::Unknown, &StopSignal::new())
        .unwrap();
    assert_eq!(captured.changes.len(), 30);
    for name in ["new/file", "new/folder/file"] {
        write(&sandbox.tree().join(name), b"one too many\n");
        let found = capture_over_limit(&mut *sandbox);
        assert_eq!((found.limit, found.found), (Limit::CapturedFiles, Some(11)));
        fs::remove_file(sandbox.tree().join(name)).unwrap();
    }
    // Empty folders are recorded too, and count.
    let again = |sandbox: &mut dyn Sandbox| {
        let stop = StopSignal::new();
        sandbox
            .capture(&captured.tree, &TouchedPaths::Unknown, &stop)
            .map(drop)
    };
    fs::remove_dir(sandbox.tree().join("new/folder")).unwrap();
    assert_eq!(again(&mut *sandbox), Ok(()));
    for at in 0..11 {
        fs::create_dir(sandbox.tree().join(format!("empty-{at}"))).unwrap();
    }
    assert!(matches!(
        again(&mut *sandbox),
        Err(SandboxError::OverLimit(_))
    ));
}

#[test]
fn files_are_counted_by_their_size_together() {
    let (_world, mut sandbox) = sandbox_with_limits(LIMITS);
    for name in ["a", "b", "c"] {
        write(&sandbox.tree().join(name), &vec![b'x'; 400_000]);
    }
    let found = capture_over_limit(&mut *sandbox);
    assert_eq!(
        (found.limit, found.found),
        (Limit::CapturedSize, Some(1_200_000))
    );
    assert_eq!(found.path.as_deref(), Some("c"));
}

#[test]
fn the_user_s_own_folder_is_not_limited() {
    let mut world = SandboxTestWorld::new();
    world.sandboxes = world.sandboxes.with_limits(LIMITS);
    let folder = world.path("folder");
    for at in 0..30 {
        write(&folder.join(format!("{at}")), &vec![b'x'; 100_000]);
    }
    let kind = cleveragents_domain::ResourceType::FsDirectory;
    let base = cleveragents_domain::BaseSource::Head;
    let (created, _) = world.create_from(&folder, kind, base);
    assert_eq!(listing(&created.tree), listing(&folder));
}

#[test]
fn a_stopped_capture_or_restore_changes_nothing() {
    let (_world, mut sandbox) = sandbox_with_limits(CaptureLimits::default());
    let base = sandbox.base().clone();
    write(&sandbox.tree().join("old/1"), b"changed\n");
    let before = listing(sandbox.tree());
    let stop = StopSignal::new();
    stop.stop(StopReason::Cancelled);
    let stopped = Err(SandboxError::Stopped(StopReason::Cancelled));
    let captured = sandbox.capture(&base, &TouchedPaths::Unknown, &stop);
    assert_eq!(captured.map(drop), stopped);
    assert_eq!(sandbox.restore(&base, &stop), stopped);
    assert_eq!(listing(sandbox.tree()), before);
    let captured = sandbox
        .capture(&base, &TouchedPaths::Unknown, &StopSignal::new())
        .unwrap();
    assert_eq!(captured.changes.len(), 1);
}
